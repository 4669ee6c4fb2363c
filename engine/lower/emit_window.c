// Emits of convolutions and pools: CHANNELS_LAST in and out. Called by the handlers of
// convolutions, pools and what is made of them (ops_conv.c, ops_pool.c, ops_matmul.c, ops_norm.c),
// on the planning thread. Apart from emit.c because these commands alone ask for a layout: the
// conversion is a region, which merges away between two of them. Windows that cannot be are refused
// here, with the node's name.
#include "lower/lower_state.h"

#include "base/check.h"

#include <inttypes.h>

struct window {
    int64_t in, kernel, stride, dilation, pad_begin, pad_end;
};

// Output positions of one spatial dim.
static bool window_count(const struct window *window, int64_t *out)
{
    int64_t reach;
    int64_t room;
    if (window->kernel < 1 || window->stride < 1 || window->dilation < 1 ||
        __builtin_mul_overflow(window->kernel - 1, window->dilation, &reach) ||
        __builtin_add_overflow(window->in, window->pad_begin, &room) ||
        __builtin_add_overflow(room, window->pad_end, &room) ||
        __builtin_sub_overflow(room, reach, &room) || room < 0) {
        return false;
    }
    *out = room == 0 ? 0 : (room - 1) / window->stride + 1;
    return true;
}

static enum base_status conv_desc(struct eng_lower *lower, const struct eng_conv *conv,
                                  uint32_t input, uint32_t weights, struct eng_desc *out)
{
    const struct eng_desc *in = eng_lower_desc(lower, input);
    const struct eng_desc *weight = eng_lower_desc(lower, weights);
    char text[2][64];
    bool fits = conv->spatial >= 1 && conv->spatial <= ENG_SPATIAL_MAX &&
                in->rank == conv->spatial + 2 && weight->rank == in->rank &&
                weight->dtype == in->dtype && conv->groups >= 1 &&
                in->dims[1] % conv->groups == 0 && weight->dims[0] % conv->groups == 0 &&
                in->dims[1] / conv->groups == weight->dims[1];
    *out = (struct eng_desc){
        .dtype = in->dtype, .rank = in->rank, .dims = {in->dims[0], weight->dims[0]}};
    for (uint32_t s = 0; fits && s < conv->spatial; s++) {
        const struct window window = {in->dims[s + 2],   conv->kernel[s],    conv->stride[s],
                                      conv->dilation[s], conv->pad_begin[s], conv->pad_end[s]};
        fits = weight->dims[s + 2] == conv->kernel[s] && window_count(&window, &out->dims[s + 2]);
    }
    if (!fits) {
        return eng_lower_fail(lower, lower->node, BASE_ERR_INVALID,
                              "weights %s do not fit input %s in %" PRId64 " groups",
                              eng_desc_text(weight, text[0], sizeof(text[0])),
                              eng_desc_text(in, text[1], sizeof(text[1])), conv->groups);
    }
    base_assert(out->rank == conv->spatial + 2 && out->rank <= 5); // what CHANNELS_LAST has
    return BASE_OK;
}

// A bias for each of the channels, PLAIN; ENG_NONE: none.
static enum base_status conv_bias(struct eng_lower *lower, uint32_t bias,
                                  const struct eng_desc *result, uint32_t *out)
{
    *out = ENG_NONE;
    if (bias == ENG_NONE) {
        return BASE_OK;
    }
    if (eng_desc_count(eng_lower_desc(lower, bias)) != result->dims[1] ||
        eng_lower_desc(lower, bias)->dtype != result->dtype) {
        return eng_lower_fail(lower, lower->node, BASE_ERR_INVALID,
                              "bias does not fit %" PRId64 " channels", result->dims[1]);
    }
    return eng_lower_as(lower, bias, ENG_PLAIN, false, out);
}

enum base_status eng_emit_conv(struct eng_lower *lower, const struct eng_conv *conv, uint32_t input,
                               uint32_t weights, uint32_t *out)
{
    base_assert(input != ENG_NONE && weights != ENG_NONE);
    struct eng_desc desc;
    BASE_TRY(conv_desc(lower, conv, input, weights, &desc));
    uint32_t inputs[3];
    BASE_TRY(eng_lower_as(lower, input, ENG_CHANNELS_LAST, false, &inputs[0]));
    BASE_TRY(eng_lower_as(lower, weights, ENG_PLAIN, false, &inputs[1]));
    BASE_TRY(conv_bias(lower, conv->epilogue.bias, &desc, &inputs[2]));
    BASE_TRY(eng_lower_tensor(lower, ENG_TEMP, ENG_CHANNELS_LAST, &desc, out));
    struct eng_command command = {
        .op = ENG_OP_CONV,
        .inputs = inputs,
        .input_count = inputs[2] == ENG_NONE ? 2 : 3,
        .outputs = out,
        .output_count = 1,
        .u.conv = *conv,
    };
    command.u.conv.epilogue = (struct eng_epilogue){.bias = inputs[2], .residual = ENG_NONE};
    return eng_emit_command(lower, &command);
}

// Shape of a pool's result; refuses windows that cannot be.
static enum base_status pool_desc(struct eng_lower *lower, const struct eng_pool *pool,
                                  const int64_t *out_spatial, uint32_t input, struct eng_desc *out)
{
    base_assert(input != ENG_NONE);
    *out = *eng_lower_desc(lower, input);
    if (pool->spatial < 1 || pool->spatial > ENG_SPATIAL_MAX || out->rank != pool->spatial + 2) {
        return eng_lower_fail(lower, lower->node, BASE_ERR_INVALID, "%u spatial dims on rank %u",
                              pool->spatial, out->rank);
    }
    for (uint32_t s = 0; s < pool->spatial; s++) {
        if (pool->kernel[s] < 1 || pool->stride[s] < 1 || pool->dilation[s] < 1 ||
            out_spatial[s] < 0) {
            return eng_lower_fail(lower, lower->node, BASE_ERR_INVALID,
                                  "an impossible window on dim %u", s);
        }
        out->dims[s + 2] = out_spatial[s];
    }
    return BASE_OK;
}

// The pool of `operand` with one output, or two: out[1] then are positions.
static enum base_status emit_pool(struct eng_lower *lower, struct eng_command *command,
                                  uint32_t operand, struct eng_desc *desc, uint32_t *out)
{
    uint32_t input;
    BASE_TRY(eng_lower_as(lower, operand, ENG_CHANNELS_LAST, false, &input));
    for (uint32_t i = 0; i < command->output_count; i++) {
        desc->dtype = i == 0 ? desc->dtype : ENG_I64;
        BASE_TRY(eng_lower_tensor(lower, ENG_TEMP, ENG_CHANNELS_LAST, desc, &out[i]));
    }
    command->inputs = &input;
    command->input_count = 1;
    command->outputs = out;
    return eng_emit_command(lower, command);
}

enum base_status eng_emit_pool(struct eng_lower *lower, const struct eng_pool *pool,
                               const int64_t *out_spatial, uint32_t input, uint32_t *out)
{
    struct eng_desc desc;
    struct eng_command command = {.op = ENG_OP_POOL, .output_count = 1, .u.pool = *pool};
    BASE_TRY(pool_desc(lower, pool, out_spatial, input, &desc));
    return emit_pool(lower, &command, input, &desc, out);
}

enum base_status eng_emit_pool_indices(struct eng_lower *lower, const struct eng_pool *pool,
                                       const int64_t *out_spatial, uint32_t input, uint32_t out[2])
{
    base_assert(pool->fn == ENG_POOL_MAX);
    struct eng_desc desc;
    struct eng_command command = {.op = ENG_OP_POOL, .output_count = 2, .u.pool = *pool};
    BASE_TRY(pool_desc(lower, pool, out_spatial, input, &desc));
    return emit_pool(lower, &command, input, &desc, out);
}
