// Emits of commands on dense operands: elementwise of one operand, reductions, softmax, gather, and
// the generic one. Called by the handlers of lower/ops, on the planning thread. An emit makes its
// operands real, picks the layout that costs least and appends one command; which dims are reduced
// is brought to the middle of three, by transposing only where they do not lie side by side. What a
// command points at is copied, as handlers have it on their stack.
#include "lower/lower_state.h"

#include "base/check.h"

#include <string.h>

enum base_status eng_emit_command(struct eng_lower *lower, const struct eng_command *command)
{
    base_assert((unsigned)command->op < ENG_OP_COUNT);
    base_assert(command->output_count > 0);
    struct eng_command *made;
    BASE_TRY(eng_program_command(lower->program, command->op, command->input_count,
                                 command->output_count, &made));
    uint32_t *inputs = made->inputs;
    uint32_t *outputs = made->outputs;
    *made = *command;
    made->node = lower->node_index;
    made->inputs = inputs;
    made->outputs = outputs;
    bool foldable = command->op != ENG_OP_RANDOM || lower->closed;
    for (uint32_t i = 0; i < command->input_count; i++) {
        inputs[i] = command->inputs[i];
        if (inputs[i] != ENG_NONE) {
            base_assert(tensor_of(lower, inputs[i])->kind != ENG_VIRTUAL);
            foldable = foldable && lower->notes[inputs[i]].foldable;
        }
    }
    for (uint32_t i = 0; i < command->output_count; i++) {
        outputs[i] = command->outputs[i];
        if (outputs[i] != ENG_NONE) {
            lower->notes[outputs[i]].producer = lower->program->command_count - 1;
            lower->notes[outputs[i]].foldable = foldable;
        }
    }
    return BASE_OK;
}

// A command of one dense operand and one result, its parameters filled in.
static enum base_status emit_dense(struct eng_lower *lower, struct eng_command *command,
                                   uint32_t real, uint32_t *out)
{
    base_assert(tensor_of(lower, *out)->kind == ENG_TEMP);
    command->inputs = &real;
    command->input_count = 1;
    command->outputs = out;
    command->output_count = 1;
    return eng_emit_command(lower, command);
}

// Real in the layout that costs least, for commands that keep it.
static enum base_status dense(struct eng_lower *lower, uint32_t input, uint32_t *out,
                              enum eng_layout *out_layout)
{
    *out_layout = eng_lower_natural(lower, input);
    return eng_lower_as(lower, input, *out_layout, true, out);
}

enum base_status eng_emit_unary(struct eng_lower *lower, const struct eng_unary *unary,
                                uint32_t input, uint32_t *out)
{
    base_assert((unsigned)unary->fn < ENG_UNARY_COUNT);
    struct eng_desc desc = *eng_lower_desc(lower, input);
    enum eng_layout layout;
    uint32_t real;
    BASE_TRY(dense(lower, input, &real, &layout));
    if (unary->fn == ENG_IS_NAN || unary->fn == ENG_IS_INF) {
        desc.dtype = ENG_BOOL;
    }
    struct eng_command command = {.op = ENG_OP_UNARY, .u.unary = *unary};
    BASE_TRY(eng_lower_tensor(lower, ENG_TEMP, layout, &desc, out));
    return emit_dense(lower, &command, real, out);
}

enum base_status eng_emit_cast(struct eng_lower *lower, uint32_t input, enum eng_dtype to,
                               uint32_t *out)
{
    struct eng_desc desc = *eng_lower_desc(lower, input);
    if (desc.dtype == to) {
        *out = input;
        return BASE_OK;
    }
    enum eng_layout layout;
    uint32_t real;
    BASE_TRY(dense(lower, input, &real, &layout));
    desc.dtype = to;
    struct eng_command command = {.op = ENG_OP_CAST};
    BASE_TRY(eng_lower_tensor(lower, ENG_TEMP, layout, &desc, out));
    return emit_dense(lower, &command, real, out);
}

// --- over some axes

// Dims in the order they lie in memory.
static void memory_order(const struct eng_desc *desc, enum eng_layout layout,
                         uint32_t order[ENG_RANK_MAX])
{
    for (uint32_t d = 0; d < desc->rank; d++) {
        order[d] = d;
    }
    if (layout == ENG_CHANNELS_LAST) {
        for (uint32_t d = 1; d + 1 < desc->rank; d++) {
            order[d] = d + 1;
        }
        order[desc->rank - 1] = 1;
    }
}

struct span3 {
    int64_t outer, n, inner;
};

// The marked dims as the middle of three in memory; false when other dims lie between them.
static bool adjacent(const struct eng_desc *desc, enum eng_layout layout, uint32_t marked,
                     struct span3 *out)
{
    base_assert(desc->rank <= ENG_RANK_MAX);
    uint32_t order[ENG_RANK_MAX];
    memory_order(desc, layout, order);
    *out = (struct span3){1, 1, 1};
    int phase = 0;
    for (uint32_t i = 0; i < desc->rank; i++) {
        int64_t size = desc->dims[order[i]];
        if (size == 1) {
            continue;
        }
        bool in = (marked & 1u << order[i]) != 0;
        if (in && phase == 2) {
            return false;
        }
        phase = in ? 1 : phase == 1 ? 2 : phase;
        *(phase == 0 ? &out->outer : phase == 1 ? &out->n : &out->inner) *= size;
    }
    return true;
}

static uint32_t mark_axes(const uint32_t *axes, uint32_t count)
{
    base_assert(count <= ENG_RANK_MAX);
    uint32_t marked = 0;
    for (uint32_t i = 0; i < count; i++) {
        base_check(axes[i] < ENG_RANK_MAX);
        marked |= 1u << axes[i];
    }
    return marked;
}

static void reduced_desc(const struct eng_desc *from, uint32_t marked, bool keep_dims,
                         struct eng_desc *out)
{
    *out = (struct eng_desc){.dtype = from->dtype};
    for (uint32_t d = 0; d < from->rank; d++) {
        bool in = (marked & 1u << d) != 0;
        if (!in || keep_dims) {
            out->dims[out->rank++] = in ? 1 : from->dims[d];
        }
    }
}

// How a CHANNELS_LAST tensor can be reduced in place: both channels and positions left need the
// same layout in the result.
static bool reduces_in_place(const struct eng_desc *desc, uint32_t marked, bool keep_dims,
                             enum eng_layout *out_layout, struct span3 *span)
{
    bool positions = false;
    for (uint32_t d = 2; d < desc->rank; d++) {
        positions = positions || ((marked & 1u << d) == 0 && desc->dims[d] != 1);
    }
    bool channels = (marked & 2u) == 0 && desc->dims[1] != 1;
    *out_layout = positions && channels ? ENG_CHANNELS_LAST : ENG_PLAIN;
    return adjacent(desc, ENG_CHANNELS_LAST, marked, span) &&
           (*out_layout == ENG_PLAIN || keep_dims);
}

// The reduced axes moved last.
static enum base_status move_last(struct eng_lower *lower, uint32_t input, uint32_t marked,
                                  uint32_t *out)
{
    uint32_t rank = eng_lower_desc(lower, input)->rank;
    uint32_t perm[ENG_RANK_MAX];
    uint32_t count = 0;
    for (uint32_t pass = 0; pass < 2; pass++) {
        for (uint32_t d = 0; d < rank; d++) {
            if (((marked >> d) & 1u) == pass) {
                perm[count++] = d;
            }
        }
    }
    return eng_lower_transpose(lower, input, perm, out);
}

// The same elements in another shape: reduced over dims of size 1 by a function that leaves a
// number alone what it is.
static bool reduces_nothing(const struct eng_reduction *reduction, const struct eng_desc *from,
                            const struct eng_desc *to)
{
    return reduction->fn <= ENG_REDUCE_PROD && eng_desc_count(to) == eng_desc_count(from) &&
           eng_desc_count(from) > 0;
}

// The operand in PLAIN, what is reduced of it in the middle of three.
static enum base_status reduce_plain(struct eng_lower *lower, uint32_t input, uint32_t marked,
                                     struct span3 *span, uint32_t *out)
{
    const struct eng_desc desc = *eng_lower_desc(lower, input);
    uint32_t from = input;
    BASE_TRY(eng_lower_plain(lower, input, &from));
    if (!adjacent(&desc, ENG_PLAIN, marked, span)) {
        BASE_TRY(move_last(lower, from, marked, &from));
        *span = (struct span3){1, 1, 1};
        for (uint32_t d = 0; d < desc.rank; d++) {
            *((marked & 1u << d) != 0 ? &span->n : &span->outer) *= desc.dims[d];
        }
    }
    return eng_lower_as(lower, from, ENG_PLAIN, true, out);
}

enum base_status eng_emit_reduce(struct eng_lower *lower, const struct eng_reduction *reduction,
                                 uint32_t input, uint32_t *out)
{
    base_assert((unsigned)reduction->fn < ENG_REDUCE_COUNT);
    const struct eng_desc desc = *eng_lower_desc(lower, input);
    uint32_t marked = mark_axes(reduction->axes, reduction->axis_count);
    struct eng_desc reduced;
    reduced_desc(&desc, marked, reduction->keep_dims, &reduced);
    struct span3 span;
    enum eng_layout layout = ENG_PLAIN;
    uint32_t real;
    if (reduces_nothing(reduction, &desc, &reduced)) {
        return eng_lower_reshape(lower, input, &reduced, out);
    }
    if (eng_lower_natural(lower, input) == ENG_CHANNELS_LAST &&
        reduces_in_place(&desc, marked, reduction->keep_dims, &layout, &span)) {
        BASE_TRY(eng_lower_as(lower, input, ENG_CHANNELS_LAST, true, &real));
    } else {
        layout = ENG_PLAIN;
        BASE_TRY(reduce_plain(lower, input, marked, &span, &real));
    }
    base_assert(span.outer * span.inner == eng_desc_count(&reduced));
    struct eng_command command = {
        .op = ENG_OP_REDUCE,
        .u.reduce = {reduction->fn, span.outer, span.n, span.inner},
    };
    BASE_TRY(eng_lower_tensor(lower, ENG_TEMP, layout, &reduced, out));
    return emit_dense(lower, &command, real, out);
}

enum base_status eng_emit_softmax(struct eng_lower *lower, bool log, uint32_t input,
                                  struct eng_axis_range axes, uint32_t *out)
{
    base_assert(axes.begin <= axes.end);
    const struct eng_desc desc = *eng_lower_desc(lower, input);
    base_assert(axes.end <= desc.rank);
    uint32_t marked = 0;
    for (uint32_t d = axes.begin; d < axes.end; d++) {
        marked |= 1u << d;
    }
    struct span3 span;
    enum eng_layout layout = eng_lower_natural(lower, input);
    if (layout == ENG_CHANNELS_LAST && !adjacent(&desc, layout, marked, &span)) {
        layout = ENG_PLAIN;
    }
    (void)adjacent(&desc, layout, marked, &span); // a range of axes is always adjacent in PLAIN
    uint32_t real;
    BASE_TRY(eng_lower_as(lower, input, layout, true, &real));
    struct eng_command command = {
        .op = ENG_OP_SOFTMAX,
        .u.softmax = {log, span.outer, span.n, span.inner},
    };
    BASE_TRY(eng_lower_tensor(lower, ENG_TEMP, layout, &desc, out));
    return emit_dense(lower, &command, real, out);
}

// --- gather and everything else

enum base_status eng_emit_gather(struct eng_lower *lower, uint32_t data, uint32_t indices,
                                 uint32_t axis, uint32_t *out)
{
    const struct eng_desc from = *eng_lower_desc(lower, data);
    const struct eng_desc at = *eng_lower_desc(lower, indices);
    if (axis >= from.rank || from.rank - 1 + at.rank > ENG_RANK_MAX ||
        (at.dtype != ENG_I32 && at.dtype != ENG_I64)) {
        return eng_lower_fail(lower, lower->node, BASE_ERR_INVALID,
                              "indices of %s and rank %u on axis %u", eng_dtype_name(at.dtype),
                              at.rank, axis);
    }
    struct eng_desc to = {.dtype = from.dtype};
    struct eng_gather gather = {.outer = 1, .n = from.dims[axis], .inner = 1};
    for (uint32_t d = 0; d < axis; d++) {
        to.dims[to.rank++] = from.dims[d];
        gather.outer *= from.dims[d];
    }
    for (uint32_t d = 0; d < at.rank; d++) {
        to.dims[to.rank++] = at.dims[d];
    }
    for (uint32_t d = axis + 1; d < from.rank; d++) {
        to.dims[to.rank++] = from.dims[d];
        gather.inner *= from.dims[d];
    }
    base_assert(gather.outer * gather.n * gather.inner == eng_desc_count(&from));
    uint32_t inputs[2];
    BASE_TRY(eng_lower_as(lower, data, ENG_PLAIN, false, &inputs[0]));
    BASE_TRY(eng_lower_as(lower, indices, ENG_PLAIN, false, &inputs[1]));
    BASE_TRY(eng_lower_tensor(lower, ENG_TEMP, ENG_PLAIN, &to, out));
    const struct eng_command command = {
        .op = ENG_OP_GATHER,
        .inputs = inputs,
        .input_count = 2,
        .outputs = out,
        .output_count = 1,
        .u.gather = gather,
    };
    return eng_emit_command(lower, &command);
}

// What a command points at is copied: handlers fill it in on their stack.
static enum base_status keep_parameters(struct eng_lower *lower, struct eng_command *command)
{
    base_assert((unsigned)command->op < ENG_OP_COUNT);
    void *copy = command;
    if (command->op == ENG_OP_RESIZE) {
        copy = base_arena_copy(lower->arena, command->u.resize, sizeof(*command->u.resize));
        command->u.resize = copy;
    } else if (command->op == ENG_OP_EXPR) {
        copy = base_arena_copy(lower->arena, command->u.expr, sizeof(*command->u.expr));
        command->u.expr = copy;
    }
    return copy == NULL ? BASE_ERR_NOMEM : BASE_OK;
}

// The epilogue of a product or convolution as it is emitted: the bias its inputs have, no more.
static void bare_epilogue(struct eng_command *command)
{
    struct eng_epilogue *epilogue = NULL;
    if (command->op == ENG_OP_MATMUL) {
        epilogue = &command->u.matmul.epilogue;
    } else if (command->op == ENG_OP_CONV || command->op == ENG_OP_CONV_TRANSPOSE ||
               command->op == ENG_OP_CONV_GRAD_INPUT || command->op == ENG_OP_CONV_GRAD_WEIGHT) {
        epilogue = &command->u.conv.epilogue;
    }
    if (epilogue != NULL) {
        *epilogue = (struct eng_epilogue){
            .bias = command->input_count > 2 ? command->inputs[2] : ENG_NONE,
            .residual = ENG_NONE,
        };
    }
}

enum base_status eng_emit(struct eng_lower *lower, const struct eng_command *command,
                          const struct eng_desc *out_descs, uint32_t *out)
{
    struct eng_command made = *command;
    made.outputs = out;
    made.inputs =
        base_arena_alloc(lower->arena, ((size_t)command->input_count + 1) * sizeof(uint32_t));
    if (made.inputs == NULL) {
        return BASE_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < command->input_count; i++) {
        made.inputs[i] = ENG_NONE;
        if (command->inputs[i] != ENG_NONE) {
            BASE_TRY(eng_lower_as(lower, command->inputs[i], ENG_PLAIN, false, &made.inputs[i]));
        }
    }
    for (uint32_t i = 0; i < command->output_count; i++) {
        BASE_TRY(eng_lower_tensor(lower, ENG_TEMP, ENG_PLAIN, &out_descs[i], &out[i]));
    }
    bare_epilogue(&made);
    BASE_TRY(keep_parameters(lower, &made));
    return eng_emit_command(lower, &made);
}
