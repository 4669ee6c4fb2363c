// Normalisations and dropout.
//
// Handlers are called by lowering, node by node, on the planning thread. Batch normalisation that
// was not folded at load is one multiplication and one addition with per-channel constants of shape
// [C, 1...], which any layout of the input can take.
#include "lower/ops/nn_kit.h"

#include "base/check.h"

#include <math.h>

// --- batch normalisation -------------------------------------------------------------------------

struct batch_norm {
    uint32_t x, scale, bias, mean, var;
    struct eng_desc desc;
    struct eng_desc column; // how a parameter broadcasts to x
    double epsilon, momentum;
};

static enum base_status batch_norm_read(struct eng_lower *lower, const struct eng_node *node,
                                        struct batch_norm *bn)
{
    uint32_t *const params[4] = {&bn->scale, &bn->bias, &bn->mean, &bn->var};
    BASE_TRY(eng_nn_input(lower, node, 0, NN_TYPES_FLOAT, &bn->x));
    bn->desc = *eng_lower_desc(lower, bn->x);
    bool spatial = node->opset >= 9 || eng_node_int(node, "spatial", 1) != 0;
    int64_t channels = bn->desc.rank > 1 ? bn->desc.dims[1] : 1;
    if (bn->desc.rank == 0) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "the input is a scalar");
    }
    bn->column =
        eng_nn_desc_axis(bn->desc.dtype, bn->desc.rank > 1 ? bn->desc.rank - 1 : 1, 0, channels);
    for (uint32_t i = 2; !spatial && i < bn->desc.rank; i++) {
        bn->column.dims[i - 1] = bn->desc.dims[i];
    }
    base_assert(bn->column.rank <= bn->desc.rank);
    for (uint32_t i = 0; i < 4; i++) {
        BASE_TRY(eng_nn_input(lower, node, i + 1, NN_TYPES_FLOAT, params[i]));
        struct eng_desc desc = *eng_lower_desc(lower, *params[i]);
        if (eng_desc_count(&desc) != eng_desc_count(&bn->column)) {
            char text[64];
            return eng_lower_fail(lower, node, BASE_ERR_INVALID, "input %u is %s for %lld channels",
                                  i + 1, eng_desc_text(&desc, text, sizeof(text)),
                                  (long long)channels);
        }
        BASE_TRY(eng_emit_cast(lower, *params[i], bn->desc.dtype, params[i]));
        BASE_TRY(eng_nn_reshape(lower, *params[i], &bn->column, params[i]));
    }
    bn->epsilon = (double)eng_node_float(node, "epsilon", 1e-5f);
    bn->momentum = (double)eng_node_float(node, "momentum", 0.9f);
    return BASE_OK;
}

// scale / sqrt(var + epsilon) and bias - mean * that, from contents.
static enum base_status known_factors(struct eng_lower *lower, const struct batch_norm *bn,
                                      uint32_t *out_a, uint32_t *out_b)
{
    base_assert(bn->desc.dtype == ENG_F32);
    const uint32_t params[4] = {bn->scale, bn->bias, bn->mean, bn->var};
    const float *data[4];
    for (int i = 0; i < 4; i++) {
        struct eng_array array;
        BASE_TRY(eng_lower_content(lower, params[i], &array));
        data[i] = array.data;
    }
    int64_t count = eng_desc_count(&bn->column);
    float *a = eng_lower_alloc(lower, (size_t)(2 * count + 1) * sizeof(float));
    if (a == NULL) {
        return BASE_ERR_NOMEM;
    }
    float *b = a + count;
    for (int64_t i = 0; i < count; i++) {
        double factor = (double)data[0][i] / sqrt((double)data[3][i] + bn->epsilon);
        a[i] = (float)factor;
        b[i] = (float)((double)data[1][i] - (double)data[2][i] * factor);
    }
    BASE_TRY(eng_lower_const(lower, &bn->column, a, out_a));
    return eng_lower_const(lower, &bn->column, b, out_b);
}

// The same two factors as commands.
static enum base_status computed_factors(struct eng_lower *lower, const struct batch_norm *bn,
                                         uint32_t *out_a, uint32_t *out_b)
{
    uint32_t t;
    BASE_TRY(eng_nn_with(lower, ENG_ADD, bn->var, bn->epsilon, &t));
    BASE_TRY(eng_nn_unary(lower, ENG_RSQRT, t, &t));
    BASE_TRY(eng_emit_binary(lower, ENG_MUL, bn->scale, t, out_a));
    BASE_TRY(eng_emit_binary(lower, ENG_MUL, bn->mean, *out_a, &t));
    BASE_TRY(eng_emit_binary(lower, ENG_SUB, bn->bias, t, out_b));
    BASE_TRY(eng_nn_fold(lower, *out_a, out_a));
    return eng_nn_fold(lower, *out_b, out_b);
}

static enum base_status batch_norm_apply(struct eng_lower *lower, const struct eng_node *node,
                                         uint32_t input, uint32_t scale, uint32_t shift)
{
    uint32_t y;
    BASE_TRY(eng_emit_binary(lower, ENG_MUL, input, scale, &y));
    BASE_TRY(eng_emit_binary(lower, ENG_ADD, y, shift, &y));
    return eng_lower_output(lower, node, 0, y);
}

// Outputs 1 and 2: old * momentum + batch * (1 - momentum), in the shape of input 3 or 4, which is
// the old mean or variance.
static enum base_status running_output(struct eng_lower *lower, const struct eng_node *node,
                                       const struct batch_norm *bn, uint32_t output, uint32_t batch)
{
    base_assert(output == 1 || output == 2);
    const uint32_t old = output == 1 ? bn->mean : bn->var;
    uint32_t kept;
    uint32_t added;
    uint32_t original;
    uint32_t *noted = eng_lower_statistic(lower, node, output + 2);
    if (noted == NULL && !eng_lower_wants(lower, node, output)) {
        return BASE_OK;
    }
    BASE_TRY(eng_nn_with(lower, ENG_MUL, old, bn->momentum, &kept));
    BASE_TRY(eng_nn_with(lower, ENG_MUL, batch, 1.0 - bn->momentum, &added));
    BASE_TRY(eng_emit_binary(lower, ENG_ADD, kept, added, &kept));
    BASE_TRY(eng_lower_input(lower, node, output + 2, &original));
    struct eng_desc desc = *eng_lower_desc(lower, original);
    BASE_TRY(eng_nn_reshape(lower, kept, &desc, &kept));
    BASE_TRY(eng_emit_cast(lower, kept, desc.dtype, &kept));
    if (noted != NULL) {
        BASE_TRY(eng_lower_plain(lower, kept, &kept));
        BASE_TRY(eng_lower_real(lower, kept, &kept));
        *noted = kept;
    }
    return eng_lower_wants(lower, node, output) ? eng_lower_output(lower, node, output, kept)
                                                : BASE_OK;
}

// Statistics of the batch instead of the given ones; outputs 1 and 2 are the running statistics, 3
// and 4 (before opset 14) those of the batch.
static enum base_status batch_norm_training(struct eng_lower *lower, const struct eng_node *node,
                                            const struct batch_norm *bn)
{
    uint32_t axes[ENG_RANK_MAX];
    uint32_t count = 0;
    bool spatial = node->opset >= 9 || eng_node_int(node, "spatial", 1) != 0;
    for (uint32_t i = 0; i < bn->desc.rank; i++) {
        if (i == 0 || (i > 1 && spatial)) {
            axes[count++] = i;
        }
    }
    uint32_t mean;
    uint32_t var;
    uint32_t t;
    uint32_t a;
    uint32_t b;
    const struct eng_reduction average = {ENG_REDUCE_MEAN, axes, count, .keep_dims = true};
    BASE_TRY(eng_emit_reduce(lower, &average, bn->x, &mean));
    base_assert(eng_desc_count(eng_lower_desc(lower, mean)) == eng_desc_count(&bn->column));
    BASE_TRY(eng_emit_binary(lower, ENG_SUB, bn->x, mean, &t));
    BASE_TRY(eng_nn_unary(lower, ENG_SQUARE, t, &t));
    BASE_TRY(eng_emit_reduce(lower, &average, t, &var));
    BASE_TRY(eng_nn_reshape(lower, mean, &bn->column, &mean));
    BASE_TRY(eng_nn_reshape(lower, var, &bn->column, &var));
    BASE_TRY(running_output(lower, node, bn, 1, mean));
    BASE_TRY(running_output(lower, node, bn, 2, var));
    const uint32_t batch[2] = {mean, var};
    for (uint32_t i = 0; i < 2; i++) {
        if (eng_lower_wants(lower, node, 3 + i)) {
            struct eng_desc flat = eng_nn_desc1(bn->desc.dtype, eng_desc_count(&bn->column));
            BASE_TRY(eng_nn_reshape(lower, batch[i], &flat, &t));
            BASE_TRY(eng_lower_output(lower, node, 3 + i, t));
        }
    }
    struct batch_norm of_batch = *bn;
    of_batch.mean = mean;
    of_batch.var = var;
    BASE_TRY(computed_factors(lower, &of_batch, &a, &b));
    return batch_norm_apply(lower, node, bn->x, a, b);
}

static enum base_status lower_batch_norm(struct eng_lower *lower, const struct eng_node *node)
{
    struct batch_norm bn;
    uint32_t a;
    uint32_t b;
    BASE_TRY(batch_norm_read(lower, node, &bn));
    bool training = node->opset >= 14
                        ? eng_node_int(node, "training_mode", 0) != 0
                        : eng_lower_wants(lower, node, 1) || eng_lower_wants(lower, node, 2);
    if (training || eng_lower_statistic(lower, node, 3) != NULL) {
        return batch_norm_training(lower, node, &bn);
    }
    bool known = bn.desc.dtype == ENG_F32 && eng_lower_is_known(lower, bn.scale) &&
                 eng_lower_is_known(lower, bn.bias) && eng_lower_is_known(lower, bn.mean) &&
                 eng_lower_is_known(lower, bn.var);
    if (known) {
        BASE_TRY(known_factors(lower, &bn, &a, &b));
    } else {
        BASE_TRY(computed_factors(lower, &bn, &a, &b));
    }
    return batch_norm_apply(lower, node, bn.x, a, b);
}

// --- the other normalisations --------------------------------------------------------------------

static enum base_status lower_instance_norm(struct eng_lower *lower, const struct eng_node *node)
{
    uint32_t inputs[3];
    BASE_TRY(eng_nn_input(lower, node, 0, NN_TYPES_FLOAT, &inputs[0]));
    struct eng_desc desc = *eng_lower_desc(lower, inputs[0]);
    if (desc.rank < 3) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID,
                              "the input has rank %u, expected 3 to %d", desc.rank, ENG_RANK_MAX);
    }
    for (uint32_t i = 1; i < 3; i++) {
        BASE_TRY(eng_nn_input(lower, node, i, NN_TYPES_FLOAT, &inputs[i]));
        struct eng_desc param = *eng_lower_desc(lower, inputs[i]);
        BASE_TRY(eng_nn_same_type(lower, node, i, param.dtype, desc.dtype));
        if (param.rank != 1 || param.dims[0] != desc.dims[1]) {
            char text[64];
            return eng_lower_fail(lower, node, BASE_ERR_INVALID, "input %u is %s for %lld channels",
                                  i, eng_desc_text(&param, text, sizeof(text)),
                                  (long long)desc.dims[1]);
        }
    }
    const struct eng_command command = {
        .op = ENG_OP_NORM,
        .inputs = inputs,
        .input_count = 3,
        .output_count = 1,
        .u.norm = {.groups = desc.dims[0] * desc.dims[1],
                   .n = eng_nn_product(&desc, 2, desc.rank),
                   .scale_inner = 1,
                   .scale_count = desc.dims[1],
                   .epsilon = eng_node_float(node, "epsilon", 1e-5f),
                   .scale_per_group = true},
    };
    base_assert(command.u.norm.groups * command.u.norm.n == eng_desc_count(&desc));
    uint32_t y;
    BASE_TRY(eng_emit(lower, &command, &desc, &y));
    return eng_lower_output(lower, node, 0, y);
}

// Scale or bias of a layer normalisation, spread over the normalised dims when it is smaller.
static enum base_status layer_param(struct eng_lower *lower, const struct eng_node *node,
                                    uint32_t input, const struct eng_desc *normalised,
                                    uint32_t *out)
{
    base_assert(input == 1 || input == 2);
    BASE_TRY(eng_nn_optional(lower, node, input, NN_TYPES_FLOAT, out));
    if (*out == ENG_NONE) {
        return BASE_OK;
    }
    const struct eng_desc desc = *eng_lower_desc(lower, *out);
    BASE_TRY(eng_nn_same_type(lower, node, input, desc.dtype, normalised->dtype));
    bool fits = desc.rank <= normalised->rank;
    for (uint32_t i = 0; fits && i < desc.rank; i++) {
        int64_t dim = desc.dims[desc.rank - 1 - i];
        fits = dim == 1 || dim == normalised->dims[normalised->rank - 1 - i];
    }
    if (!fits) {
        char text[64];
        return eng_lower_fail(lower, node, BASE_ERR_INVALID,
                              "input %u, %s, does not fit the normalised dimensions", input,
                              eng_desc_text(&desc, text, sizeof(text)));
    }
    if (eng_desc_count(&desc) != eng_desc_count(normalised)) {
        BASE_TRY(eng_lower_expand(lower, *out, normalised, out));
    }
    return BASE_OK;
}

static enum base_status lower_layer_norm(struct eng_lower *lower, const struct eng_node *node)
{
    uint32_t inputs[3];
    uint32_t axis;
    BASE_TRY(eng_nn_input(lower, node, 0, NN_TYPES_FLOAT, &inputs[0]));
    struct eng_desc desc = *eng_lower_desc(lower, inputs[0]);
    BASE_TRY(eng_lower_axis(lower, node, eng_node_int(node, "axis", -1), desc.rank, &axis));
    struct eng_desc normalised = {.dtype = desc.dtype};
    for (uint32_t d = axis; d < desc.rank; d++) {
        normalised.dims[normalised.rank++] = desc.dims[d];
    }
    BASE_TRY(layer_param(lower, node, 1, &normalised, &inputs[1]));
    BASE_TRY(layer_param(lower, node, 2, &normalised, &inputs[2]));
    bool statistics = eng_lower_wants(lower, node, 1) || eng_lower_wants(lower, node, 2);
    const enum eng_dtype dtype = desc.dtype;
    if (statistics && dtype != ENG_F64) { // they are float32 whatever the input (stash_type)
        for (uint32_t i = 0; i < 3; i++) {
            if (inputs[i] != ENG_NONE) {
                BASE_TRY(eng_emit_cast(lower, inputs[i], ENG_F32, &inputs[i]));
            }
        }
        desc.dtype = ENG_F32;
    }
    const struct eng_command command = {
        .op = ENG_OP_NORM,
        .inputs = inputs,
        .input_count = 3,
        .output_count = statistics ? 3 : 1,
        .u.norm = {.groups = eng_nn_product(&desc, 0, axis),
                   .n = eng_nn_product(&desc, axis, desc.rank),
                   .scale_inner = 1,
                   .scale_count = eng_nn_product(&desc, axis, desc.rank),
                   .epsilon = eng_node_float(node, "epsilon", 1e-5f)},
    };
    base_assert(command.u.norm.scale_count == eng_desc_count(&normalised));
    struct eng_desc out_descs[3] = {desc, desc, desc};
    for (uint32_t i = axis; i < desc.rank; i++) {
        out_descs[1].dims[i] = 1;
        out_descs[2].dims[i] = 1;
    }
    uint32_t out[3];
    BASE_TRY(eng_emit(lower, &command, out_descs, out));
    BASE_TRY(eng_emit_cast(lower, out[0], dtype, &out[0]));
    for (uint32_t i = 1; statistics && i < 3; i++) {
        BASE_TRY(eng_emit_cast(lower, out[i], ENG_F32, &out[i]));
        BASE_TRY(eng_lower_output(lower, node, i, out[i]));
    }
    return eng_lower_output(lower, node, 0, out[0]);
}

// Halves become float32: their squares and small epsilons leave their range.
static enum base_status widen(struct eng_lower *lower, uint32_t *input, struct eng_desc *desc)
{
    base_assert(desc->dtype == eng_lower_desc(lower, *input)->dtype);
    if (desc->dtype != ENG_F64) {
        BASE_TRY(eng_emit_cast(lower, *input, ENG_F32, input));
        desc->dtype = ENG_F32;
    }
    return BASE_OK;
}

// Scale or bias of a group normalisation as the first dims of [groups, channels / groups, rest]:
// `to` is [groups, numbers a group, 1].
static enum base_status group_param(struct eng_lower *lower, const struct eng_node *node,
                                    uint32_t input, const struct eng_desc *to, uint32_t *out)
{
    base_assert(to->rank == 3);
    BASE_TRY(eng_nn_input(lower, node, input, NN_TYPES_FLOAT, out));
    struct eng_desc desc = *eng_lower_desc(lower, *out);
    BASE_TRY(eng_nn_same_type(lower, node, input, desc.dtype, to->dtype));
    int64_t wanted = eng_desc_count(to);
    if (desc.rank != 1 || desc.dims[0] != wanted) {
        char text[64];
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "input %u is %s, %lld numbers wanted",
                              input, eng_desc_text(&desc, text, sizeof(text)), (long long)wanted);
    }
    return eng_nn_reshape(lower, *out, to, out);
}

// Each group of channels of one image is normalised by its own mean and deviation.
static enum base_status lower_group_norm(struct eng_lower *lower, const struct eng_node *node)
{
    uint32_t x;
    uint32_t scale;
    uint32_t bias;
    uint32_t y;
    BASE_TRY(eng_nn_input(lower, node, 0, NN_TYPES_FLOAT, &x));
    struct eng_desc desc = *eng_lower_desc(lower, x);
    int64_t groups = eng_node_int(node, "num_groups", 0);
    // Any number of groups divides no channels, but shapes are made of it.
    if (desc.rank < 2 || groups < 1 || groups > (desc.dims[1] > 0 ? desc.dims[1] : 1) ||
        desc.dims[1] % groups != 0) {
        char text[72];
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "input %s, attribute num_groups %lld",
                              eng_desc_text(&desc, text, sizeof(text)), (long long)groups);
    }
    // A number a channel, before opset 21 a number a group.
    const int64_t numbers = node->opset < 21 ? 1 : desc.dims[1] / groups;
    const struct eng_desc param = eng_nn_desc3(desc.dtype, groups, numbers, 1);
    BASE_TRY(group_param(lower, node, 1, &param, &scale));
    BASE_TRY(group_param(lower, node, 2, &param, &bias));
    struct eng_desc wide = desc;
    BASE_TRY(widen(lower, &x, &wide));
    BASE_TRY(eng_emit_cast(lower, scale, wide.dtype, &scale));
    BASE_TRY(eng_emit_cast(lower, bias, wide.dtype, &bias));
    struct eng_desc grouped = {
        .dtype = wide.dtype,
        .rank = 4,
        .dims = {desc.dims[0], groups, desc.dims[1] / groups, eng_nn_product(&desc, 2, desc.rank)},
    };
    BASE_TRY(eng_nn_reshape(lower, x, &grouped, &x));
    const struct eng_command command = {
        .op = ENG_OP_NORM,
        .inputs = (uint32_t[]){x, ENG_NONE, ENG_NONE},
        .input_count = 3,
        .output_count = 1,
        .u.norm = {.groups = desc.dims[0] * groups,
                   .n = eng_nn_product(&grouped, 2, 4),
                   .scale_inner = 1,
                   .scale_count = 1,
                   .epsilon = eng_node_float(node, "epsilon", 1e-5f)},
    };
    base_assert(command.u.norm.groups * command.u.norm.n == eng_desc_count(&desc));
    BASE_TRY(eng_emit(lower, &command, &grouped, &y));
    BASE_TRY(eng_emit_binary(lower, ENG_MUL, y, scale, &y));
    BASE_TRY(eng_emit_binary(lower, ENG_ADD, y, bias, &y));
    BASE_TRY(eng_nn_reshape(lower, y, &wide, &y));
    BASE_TRY(eng_emit_cast(lower, y, desc.dtype, &y));
    return eng_lower_output(lower, node, 0, y);
}

static enum base_status lower_lp_norm(struct eng_lower *lower, const struct eng_node *node)
{
    uint32_t x;
    uint32_t y;
    uint32_t axis;
    BASE_TRY(eng_nn_input(lower, node, 0, NN_TYPES_FLOAT, &x));
    struct eng_desc desc = *eng_lower_desc(lower, x);
    BASE_TRY(eng_lower_axis(lower, node, eng_node_int(node, "axis", -1), desc.rank, &axis));
    int64_t p = eng_node_int(node, "p", 2);
    if (p != 1 && p != 2) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "attribute p is %lld, expected 1 or 2",
                              (long long)p);
    }
    const struct eng_reduction norm = {p == 1 ? ENG_REDUCE_L1 : ENG_REDUCE_L2, &axis, 1,
                                       .keep_dims = true};
    BASE_TRY(eng_emit_reduce(lower, &norm, x, &y));
    BASE_TRY(eng_emit_binary(lower, ENG_DIV, x, y, &y));
    return eng_lower_output(lower, node, 0, y);
}

// Across channels: x / (bias + alpha * mean of squares over `size` channels)^beta. The mean is an
// average pool over [N, 1, C, rest] that counts its padding.
static enum base_status lower_lrn(struct eng_lower *lower, const struct eng_node *node)
{
    uint32_t x;
    uint32_t y;
    BASE_TRY(eng_nn_input(lower, node, 0, NN_TYPES_FLOAT, &x));
    struct eng_desc desc = *eng_lower_desc(lower, x);
    int64_t size = eng_node_int(node, "size", 0);
    if (desc.rank < 2 || size < 1 || size > 65536) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "rank %u with attribute size %lld",
                              desc.rank, (long long)size);
    }
    double alpha = (double)eng_node_float(node, "alpha", 1e-4f);
    double beta = (double)eng_node_float(node, "beta", 0.75f);
    double bias = (double)eng_node_float(node, "bias", 1.0f);
    int64_t channels = desc.dims[1];
    const enum eng_dtype dtype = desc.dtype;
    BASE_TRY(widen(lower, &x, &desc));
    struct eng_desc plane = {
        .dtype = desc.dtype,
        .rank = 4,
        .dims = {desc.dims[0], 1, channels, eng_nn_product(&desc, 2, desc.rank)},
    };
    struct eng_pool pool = {
        .fn = ENG_POOL_AVERAGE,
        .spatial = 2,
        .kernel = {size, 1},
        .stride = {1, 1},
        .dilation = {1, 1},
        .pad_begin = {(size - 1) / 2},
        .pad_end = {size - 1 - (size - 1) / 2},
        .count_include_pad = true,
    };
    const int64_t out_spatial[2] = {plane.dims[2], plane.dims[3]};
    BASE_TRY(eng_nn_unary(lower, ENG_SQUARE, x, &y));
    BASE_TRY(eng_nn_reshape(lower, y, &plane, &y));
    BASE_TRY(eng_emit_pool(lower, &pool, out_spatial, y, &y));
    base_assert(eng_desc_equal(eng_lower_desc(lower, y), &plane)); // a window a channel
    BASE_TRY(eng_nn_reshape(lower, y, &desc, &y));
    BASE_TRY(eng_nn_with(lower, ENG_MUL, y, alpha, &y));
    BASE_TRY(eng_nn_with(lower, ENG_ADD, y, bias, &y));
    BASE_TRY(eng_nn_with(lower, ENG_POW, y, -beta, &y));
    BASE_TRY(eng_emit_binary(lower, ENG_MUL, x, y, &y));
    BASE_TRY(eng_emit_cast(lower, y, dtype, &y));
    return eng_lower_output(lower, node, 0, y);
}

static enum base_status lower_mvn(struct eng_lower *lower, const struct eng_node *node)
{
    uint32_t x;
    BASE_TRY(eng_nn_input(lower, node, 0, NN_TYPES_FLOAT, &x));
    struct eng_desc desc = *eng_lower_desc(lower, x);
    static const int64_t usual[] = {0, 2, 3};
    uint32_t list_count;
    const int64_t *list = eng_node_ints(node, "axes", &list_count);
    if (list_count == 0) {
        list = usual;
        list_count = 3;
    }
    bool chosen[ENG_RANK_MAX] = {false};
    for (uint32_t i = 0; i < list_count; i++) {
        uint32_t axis;
        BASE_TRY(eng_lower_axis(lower, node, list[i], desc.rank, &axis));
        chosen[axis] = true;
    }
    uint32_t axes[ENG_RANK_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < desc.rank; i++) {
        if (chosen[i]) {
            axes[count++] = i;
        }
    }
    uint32_t mean;
    uint32_t deviation;
    uint32_t y;
    const enum eng_dtype dtype = desc.dtype;
    BASE_TRY(widen(lower, &x, &desc));
    const struct eng_reduction average = {ENG_REDUCE_MEAN, axes, count, .keep_dims = true};
    BASE_TRY(eng_emit_reduce(lower, &average, x, &mean));
    base_assert(eng_lower_desc(lower, mean)->rank == desc.rank);
    BASE_TRY(eng_emit_binary(lower, ENG_SUB, x, mean, &deviation));
    BASE_TRY(eng_nn_unary(lower, ENG_SQUARE, deviation, &y));
    BASE_TRY(eng_emit_reduce(lower, &average, y, &y));
    BASE_TRY(eng_nn_unary(lower, ENG_SQRT, y, &y));
    BASE_TRY(eng_nn_with(lower, ENG_ADD, y, 1e-9, &y));
    BASE_TRY(eng_emit_binary(lower, ENG_DIV, deviation, y, &y));
    BASE_TRY(eng_emit_cast(lower, y, dtype, &y));
    return eng_lower_output(lower, node, 0, y);
}

// clang-format off
static const struct eng_op rows[] = {
    NN_ROW("BatchNormalization", 7, COMPOSITE, lower_batch_norm),
    NN_ROW("GroupNormalization", 18, ATOMIC, lower_group_norm),
    NN_ROW("InstanceNormalization", 7, ATOMIC, lower_instance_norm),
    NN_ROW("LRN", 7, COMPOSITE, lower_lrn),
    NN_ROW("LayerNormalization", 17, ATOMIC, lower_layer_norm),
    NN_ROW("LpNormalization", 7, COMPOSITE, lower_lp_norm),
    NN_ROW("MeanVarianceNormalization", 9, COMPOSITE, lower_mvn),
};
// clang-format on
const struct eng_op_table eng_ops_norm = NN_TABLE(rows);
