// Bias, residual sum and activation move into the CONV or MATMUL before them. The product moves to
// where its last absorbed command was, because the residual must be there when it runs. Called by
// fuse.c on the planning thread.
#include "program/box_view.h"
#include "base/check.h"
#include "program/fuse.h"
#include "program/fuse_index.h"

static struct eng_epilogue *epilogue_of(struct eng_command *command)
{
    if (command->op == ENG_OP_CONV) {
        return &command->u.conv.epilogue;
    }
    return command->op == ENG_OP_MATMUL ? &command->u.matmul.epilogue : NULL;
}

// Where a result's channels lie: element i belongs to channel (i / inner) % channels.
static void channels_of(const struct eng_fuse *fuse, const struct eng_command *command,
                        int64_t *channels, int64_t *inner)
{
    if (command->op == ENG_OP_MATMUL) {
        *channels = command->box.size[command->box.rank - 2];
        *inner = 1;
        return;
    }
    const struct eng_tensor *y = &fuse->program->tensors[command->outputs[0]];
    *channels = y->desc.dims[1];
    *inner = 1;
    for (uint32_t d = 2; y->layout == ENG_PLAIN && d < y->desc.rank; d++) {
        *inner *= y->desc.dims[d];
    }
}

static bool is_activation(enum eng_unary_fn fn)
{
    switch (fn) {
    case ENG_RELU:
    case ENG_CLIP:
    case ENG_LEAKY_RELU:
    case ENG_SIGMOID:
    case ENG_HARD_SWISH:
    case ENG_TANH:
    case ENG_GELU:
    case ENG_GELU_TANH:
        return true;
    default:
        return false;
    }
}

// Whether `output` may stand for the product's own output: the kernels look at its dims.
static bool same_output(const struct eng_fuse *fuse, const struct eng_command *product,
                        uint32_t output)
{
    const struct eng_tensor *a = &fuse->program->tensors[product->outputs[0]];
    const struct eng_tensor *b = &fuse->program->tensors[output];
    if (b->desc.dtype != ENG_F32) {
        return false;
    }
    if (product->op == ENG_OP_MATMUL) {
        return eng_desc_count(&a->desc) == eng_desc_count(&b->desc);
    }
    return a->layout == b->layout && eng_desc_equal(&a->desc, &b->desc);
}

static enum base_status add_input(const struct eng_fuse *fuse, struct eng_command *command,
                                  uint32_t tensor)
{
    uint32_t *inputs =
        base_arena_alloc(fuse->program->arena, (command->input_count + 1) * sizeof(*inputs));
    if (inputs == NULL) {
        return BASE_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < command->input_count; i++) {
        inputs[i] = command->inputs[i];
    }
    inputs[command->input_count++] = tensor;
    command->inputs = inputs;
    return BASE_OK;
}

// Takes the sum `add` in: as bias or as residual. False when it is neither.
static enum base_status take_sum(const struct eng_fuse *fuse, struct eng_command *product,
                                 const struct eng_command *add, bool *out_taken)
{
    base_assert(add->op == ENG_OP_BINARY);
    base_assert(epilogue_of(product) != NULL);
    struct eng_epilogue *epilogue = epilogue_of(product);
    uint32_t result = product->outputs[0];
    uint32_t mine = eng_fuse_root(fuse, add->inputs[0]) == result ? 0 : 1;
    uint32_t other = add->inputs[1 - mine];
    const struct eng_view *view = &add->views[1 - mine];
    *out_taken = false;
    if (epilogue->has_activation || !eng_view_is_dense(&add->box, &add->views[mine]) ||
        eng_box_count(&add->box) != eng_fuse_count(fuse, result)) {
        return BASE_OK;
    }
    int64_t channels, inner;
    channels_of(fuse, product, &channels, &inner);
    const struct eng_tensor *operand = &fuse->program->tensors[other];
    if (epilogue->bias == ENG_NONE && eng_desc_count(&operand->desc) == channels &&
        eng_view_is_channel(&add->box, view, channels, inner)) {
        BASE_TRY(add_input(fuse, product, other));
        epilogue_of(product)->bias = other;
        *out_taken = true;
        return BASE_OK;
    }
    if (epilogue->residual == ENG_NONE && eng_view_is_dense(&add->box, view) &&
        eng_fuse_root(fuse, other) != result && same_output(fuse, product, other)) {
        BASE_TRY(add_input(fuse, product, other));
        epilogue_of(product)->residual = other;
        *out_taken = true;
    }
    return BASE_OK;
}

// Takes in the only reader of the product's result, if it is something an epilogue can do.
static enum base_status take_next(struct eng_fuse *fuse, uint32_t *at, bool *out_taken)
{
    base_assert(!fuse->gone[*at]);
    struct eng_program *program = fuse->program;
    struct eng_command product = program->commands[*at];
    uint32_t next = eng_fuse_only_reader(fuse, product.outputs[0]);
    *out_taken = false;
    if (next == ENG_NONE || next <= *at ||
        !same_output(fuse, &product, program->commands[next].outputs[0])) {
        return BASE_OK;
    }
    const struct eng_command *reader = &program->commands[next];
    if (eng_fuse_is_binary(fuse, reader, ENG_ADD)) {
        BASE_TRY(take_sum(fuse, &product, reader, out_taken));
    } else if (reader->op == ENG_OP_UNARY && is_activation(reader->u.unary.fn)) {
        struct eng_epilogue *epilogue = epilogue_of(&product);
        *out_taken = !epilogue->has_activation;
        epilogue->activation = reader->u.unary.fn;
        epilogue->alpha = reader->u.unary.alpha;
        epilogue->beta = reader->u.unary.beta;
        epilogue->has_activation = true;
    }
    if (*out_taken) {
        uint32_t result = reader->outputs[0];
        eng_fuse_replace(fuse, next, &product); // the old product goes: nobody reads its result
        fuse->producer[result] = next;
        *at = next;
    }
    return BASE_OK;
}

enum base_status eng_fuse_epilogues(struct eng_fuse *fuse)
{
    // The last first: of two products that are summed, the later one takes the sum, so that the
    // other's result is there.
    for (uint32_t c = fuse->program->command_count; c > 0; c--) {
        struct eng_command *command = &fuse->program->commands[c - 1];
        if (fuse->gone[c - 1] || epilogue_of(command) == NULL ||
            !eng_fuse_is_f32(fuse, command->inputs[0]) ||
            !eng_fuse_is_f32(fuse, command->outputs[0])) {
            continue;
        }
        uint32_t at = c - 1;
        for (bool taken = true; taken;) {
            BASE_TRY(take_next(fuse, &at, &taken));
        }
    }
    return BASE_OK;
}
