// Programs as text, one line a command: for `walle-engine dump` and for tests.
//
// A line reads: number, command, parameters, outputs <- inputs, each tensor as
// kind-number:type[dims] with ~ behind channels-last ones.
#include "program/program.h"

#include "base/buffer.h"
#include "base/check.h"
#include "model/graph.h"

#include <inttypes.h>

static enum base_status dump_tensor(const struct eng_program *program, uint32_t number,
                                    struct base_buffer *out)
{
    static const char kinds[] = {'i', 'c', 'p', 't', 'v'};
    if (number >= program->tensor_count) {
        return base_buffer_printf(out, number == ENG_NONE ? " -" : " ?%" PRIu32, number);
    }
    const struct eng_tensor *tensor = &program->tensors[number];
    char text[128];
    BASE_TRY(base_buffer_printf(out, " %c%" PRIu32 ":%s%s", kinds[tensor->kind], number,
                                eng_desc_text(&tensor->desc, text, sizeof(text)),
                                tensor->layout == ENG_CHANNELS_LAST ? "~" : ""));
    if (tensor->alias != ENG_NONE) {
        BASE_TRY(base_buffer_printf(out, "@%" PRIu32, tensor->alias));
    }
    return BASE_OK;
}

static enum base_status dump_numbers(const char *name, const int64_t *numbers, uint32_t count,
                                     struct base_buffer *out)
{
    BASE_TRY(base_buffer_printf(out, " %s", name));
    for (uint32_t i = 0; i < count; i++) {
        BASE_TRY(base_buffer_printf(out, "%c%" PRId64, i == 0 ? ' ' : 'x', numbers[i]));
    }
    return BASE_OK;
}

static enum base_status dump_epilogue(const struct eng_epilogue *epilogue, struct base_buffer *out)
{
    if (epilogue->bias != ENG_NONE) {
        BASE_TRY(base_buffer_printf(out, " +bias"));
    }
    if (epilogue->residual != ENG_NONE) {
        BASE_TRY(base_buffer_printf(out, " +residual"));
    }
    if (epilogue->has_activation) {
        BASE_TRY(base_buffer_printf(out, " +%s", eng_unary_text(epilogue->activation)));
    }
    return BASE_OK;
}

static enum base_status dump_instructions(const struct eng_expr *expr, struct base_buffer *out)
{
    base_assert(expr->op_count <= ENG_EXPR_OPS_MAX);
    for (uint32_t i = 0; i < expr->op_count; i++) {
        const struct eng_expr_op *op = &expr->ops[i];
        uint32_t to = expr->load_count + i;
        switch (op->kind) {
        case ENG_EXPR_UNARY:
            BASE_TRY(base_buffer_printf(out, " r%" PRIu32 "=%s(r%d)", to,
                                        eng_unary_text((enum eng_unary_fn)op->fn), op->a));
            break;
        case ENG_EXPR_BINARY:
            BASE_TRY(base_buffer_printf(out, " r%" PRIu32 "=%s(r%d,r%d)", to,
                                        eng_binary_text((enum eng_binary_fn)op->fn), op->a, op->b));
            break;
        case ENG_EXPR_CONST:
            BASE_TRY(base_buffer_printf(out, " r%" PRIu32 "=%g", to, (double)op->alpha));
            break;
        }
    }
    return BASE_OK;
}

static enum base_status dump_views(const struct eng_command *command, uint32_t views,
                                   struct base_buffer *out)
{
    base_assert(views <= ENG_COMMAND_VIEWS_MAX);
    for (uint32_t v = 0; v < views; v++) {
        BASE_TRY(base_buffer_printf(out, " [%" PRId64, command->views[v].offset));
        for (uint32_t d = 0; d < command->box.rank; d++) {
            BASE_TRY(base_buffer_printf(out, "%c%" PRId64, d == 0 ? ':' : ',',
                                        command->views[v].stride[d]));
        }
        BASE_TRY(base_buffer_printf(out, "]"));
    }
    return BASE_OK;
}

static enum base_status dump_raster(const struct eng_command *command, struct base_buffer *out)
{
    return base_buffer_printf(out, " regions %" PRIu32 "%s", command->u.raster.count,
                              command->u.raster.zero_fill ? " zero" : "");
}

static enum base_status dump_unary(const struct eng_command *command, struct base_buffer *out)
{
    return base_buffer_printf(out, " %s", eng_unary_text(command->u.unary.fn));
}

// The box, and the views of the first `views` operands over it.
static enum base_status dump_box(const struct eng_command *command, uint32_t views,
                                 struct base_buffer *out)
{
    base_assert(command->box.rank <= ENG_RANK_MAX);
    BASE_TRY(dump_numbers("box", command->box.size, command->box.rank, out));
    return dump_views(command, views, out);
}

static enum base_status dump_binary(const struct eng_command *command, struct base_buffer *out)
{
    BASE_TRY(base_buffer_printf(out, " %s", eng_binary_text(command->u.binary.fn)));
    return dump_box(command, 2, out);
}

static enum base_status dump_select(const struct eng_command *command, struct base_buffer *out)
{
    return dump_box(command, 3, out);
}

static enum base_status dump_expr(const struct eng_command *command, struct base_buffer *out)
{
    BASE_TRY(dump_box(command, 0, out));
    return dump_instructions(command->u.expr, out);
}

// What is seen as [outer, count, inner], where the middle goes.
static enum base_status dump_middle(int64_t outer, int64_t count, int64_t inner,
                                    struct base_buffer *out)
{
    return base_buffer_printf(out, " %" PRId64 "x(%" PRId64 ")x%" PRId64, outer, count, inner);
}

static enum base_status dump_reduce(const struct eng_command *command, struct base_buffer *out)
{
    const struct eng_reduce *reduce = &command->u.reduce;
    BASE_TRY(base_buffer_printf(out, " %s", eng_reduce_text(reduce->fn)));
    return dump_middle(reduce->outer, reduce->n, reduce->inner, out);
}

static enum base_status dump_softmax(const struct eng_command *command, struct base_buffer *out)
{
    const struct eng_softmax *softmax = &command->u.softmax;
    BASE_TRY(base_buffer_printf(out, "%s", softmax->log ? " log" : ""));
    return dump_middle(softmax->outer, softmax->n, softmax->inner, out);
}

static enum base_status dump_norm(const struct eng_command *command, struct base_buffer *out)
{
    return base_buffer_printf(out, "%s %" PRId64 "x%" PRId64, command->u.norm.rms ? " rms" : "",
                              command->u.norm.groups, command->u.norm.n);
}

static enum base_status dump_matmul(const struct eng_command *command, struct base_buffer *out)
{
    BASE_TRY(dump_box(command, 2, out));
    return dump_epilogue(&command->u.matmul.epilogue, out);
}

static enum base_status dump_conv(const struct eng_command *command, struct base_buffer *out)
{
    const struct eng_conv *conv = &command->u.conv;
    BASE_TRY(dump_numbers("k", conv->kernel, conv->spatial, out));
    BASE_TRY(dump_numbers("s", conv->stride, conv->spatial, out));
    BASE_TRY(dump_numbers("p", conv->pad_begin, conv->spatial, out));
    BASE_TRY(base_buffer_printf(out, " g %" PRId64, conv->groups));
    return dump_epilogue(&conv->epilogue, out);
}

static enum base_status dump_chain(const struct eng_command *command, struct base_buffer *out)
{
    base_assert(command->u.chain->count <= ENG_CHAIN_MAX);
    const struct eng_conv_chain *chain = command->u.chain;
    for (uint32_t i = 0; i < chain->count; i++) {
        BASE_TRY(base_buffer_printf(out, i == 0 ? "" : " |"));
        BASE_TRY(dump_conv(&chain->convs[i], out));
    }
    return BASE_OK;
}

static enum base_status dump_pool(const struct eng_command *command, struct base_buffer *out)
{
    const struct eng_pool *pool = &command->u.pool;
    BASE_TRY(dump_numbers("k", pool->kernel, pool->spatial, out));
    return dump_numbers("s", pool->stride, pool->spatial, out);
}

static enum base_status dump_attention(const struct eng_command *command, struct base_buffer *out)
{
    return dump_box(command, 3, out);
}

static enum base_status dump_gather(const struct eng_command *command, struct base_buffer *out)
{
    const struct eng_gather *gather = &command->u.gather;
    return dump_middle(gather->outer, gather->n, gather->inner, out);
}

static enum base_status dump_nothing(const struct eng_command *command, struct base_buffer *out)
{
    (void)command;
    (void)out;
    return BASE_OK;
}

// By command, as program.h lists them.
static enum base_status (*const parameter_dumps[])(const struct eng_command *command,
                                                   struct base_buffer *out) = {
#define PARAMETER_DUMP(NAME, name, checked, shown) [ENG_OP_##NAME] = dump_##shown,
    ENG_ATOMIC_MAP(PARAMETER_DUMP)
#undef PARAMETER_DUMP
};

static enum base_status dump_parameters(const struct eng_command *command, struct base_buffer *out)
{
    return (unsigned)command->op < ENG_OP_COUNT ? parameter_dumps[command->op](command, out)
                                                : BASE_OK;
}

static enum base_status dump_regions(const struct eng_program *program,
                                     const struct eng_command *command, struct base_buffer *out)
{
    base_assert(command->op == ENG_OP_RASTER);
    enum { SHOWN_MAX = 8 };
    for (uint32_t i = 0; i < command->u.raster.count; i++) {
        if (i == SHOWN_MAX) {
            return base_buffer_printf(out, "        ... %" PRIu32 " more\n",
                                      command->u.raster.count - i);
        }
        const struct eng_region *region = &command->u.raster.regions[i];
        BASE_TRY(base_buffer_printf(out, "       "));
        BASE_TRY(dump_tensor(program, region->source, out));
        BASE_TRY(dump_numbers("size", region->size, region->rank, out));
        BASE_TRY(base_buffer_printf(out, " from %" PRId64, region->src_offset));
        BASE_TRY(dump_numbers("", region->src_stride, region->rank, out));
        BASE_TRY(base_buffer_printf(out, " to %" PRId64, region->dst_offset));
        BASE_TRY(dump_numbers("", region->dst_stride, region->rank, out));
        BASE_TRY(base_buffer_printf(out, "%s\n", region->accumulate ? " adding" : ""));
    }
    return BASE_OK;
}

enum base_status eng_program_dump(const struct eng_program *program, struct base_buffer *out)
{
    for (uint32_t i = 0; i < program->command_count; i++) {
        const struct eng_command *command = &program->commands[i];
        BASE_TRY(base_buffer_printf(out, "%5" PRIu32 " %s", i, eng_atomic_text(command->op)));
        BASE_TRY(dump_parameters(command, out));
        BASE_TRY(base_buffer_printf(out, " ::"));
        for (uint32_t o = 0; o < command->output_count; o++) {
            BASE_TRY(dump_tensor(program, command->outputs[o], out));
        }
        BASE_TRY(base_buffer_printf(out, " <-"));
        for (uint32_t p = 0; p < command->input_count; p++) {
            BASE_TRY(dump_tensor(program, command->inputs[p], out));
        }
        BASE_TRY(base_buffer_printf(out, "\n"));
        if (command->op == ENG_OP_RASTER) {
            BASE_TRY(dump_regions(program, command, out));
        }
    }
    return BASE_OK;
}
