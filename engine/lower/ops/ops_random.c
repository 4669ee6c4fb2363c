// Random tensors. Every node has a seed of its own: the attribute's, or one drawn from the
// session's and the node's number, so that a run can be repeated.
//
// Handlers are called by lowering, node by node, on the planning thread.
#include "lower/ops/move_kit.h"

#include "base/check.h"
#include "base/prng.h"

#include <string.h>

static uint64_t node_seed(const struct eng_lower *lower, const struct eng_node *node)
{
    const struct eng_attr *attr = eng_node_attr(node, "seed");
    if (attr == NULL || attr->kind != ENG_ATTR_FLOAT) {
        return base_mix64(eng_lower_seed(lower) + node->index);
    }
    uint32_t bits = 0;
    memcpy(&bits, &attr->u.f, sizeof(bits));
    return base_mix64(bits);
}

// Element type named by attribute dtype, or `otherwise`; a number.
static enum base_status random_dtype(struct eng_lower *lower, const struct eng_node *node,
                                     enum eng_dtype otherwise, enum eng_dtype *out)
{
    int64_t dtype = eng_node_int(node, "dtype", (int64_t)otherwise);
    if (dtype <= ENG_UNDEFINED || dtype >= ENG_DTYPE_COUNT || dtype == ENG_STRING ||
        dtype == ENG_C64 || dtype == ENG_C128) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "dtype %lld is not one to draw",
                              (long long)dtype);
    }
    *out = (enum eng_dtype)dtype;
    return BASE_OK;
}

static enum base_status emit_random(struct eng_lower *lower, const struct eng_node *node,
                                    struct eng_random random, uint32_t input,
                                    const struct eng_desc *desc)
{
    base_assert((input == ENG_NONE) ==
                (random.fn == ENG_RANDOM_UNIFORM || random.fn == ENG_RANDOM_NORMAL));
    uint32_t out = ENG_NONE;
    random.seed = node_seed(lower, node);
    const struct eng_command command = {
        .op = ENG_OP_RANDOM,
        .inputs = &input,
        .input_count = input == ENG_NONE ? 0 : 1,
        .output_count = 1,
        .u.random = random,
    };
    BASE_TRY(eng_emit(lower, &command, desc, &out));
    return eng_lower_output(lower, node, 0, out);
}

static enum base_status uniform_or_normal(struct eng_lower *lower, const struct eng_node *node,
                                          bool is_normal, const struct eng_desc *desc)
{
    if (desc->dtype != ENG_F32 && desc->dtype != ENG_F64 && desc->dtype != ENG_F16 &&
        desc->dtype != ENG_BF16) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "dtype %s is not real",
                              eng_dtype_name(desc->dtype));
    }
    struct eng_random random = {.fn = is_normal ? ENG_RANDOM_NORMAL : ENG_RANDOM_UNIFORM};
    random.low = is_normal ? eng_node_float(node, "mean", 0) : eng_node_float(node, "low", 0);
    random.high = is_normal ? eng_node_float(node, "scale", 1) : eng_node_float(node, "high", 1);
    return emit_random(lower, node, random, ENG_NONE, desc);
}

static enum base_status by_shape(struct eng_lower *lower, const struct eng_node *node,
                                 bool is_normal)
{
    uint32_t count = 0;
    const int64_t *dims = eng_node_ints(node, "shape", &count);
    enum eng_dtype dtype = ENG_F32;
    if (count > ENG_RANK_MAX) {
        return eng_lower_fail(lower, node, BASE_ERR_TOO_LARGE,
                              "shape has %u dimensions, at most %d are supported", count,
                              ENG_RANK_MAX);
    }
    BASE_TRY(random_dtype(lower, node, ENG_F32, &dtype));
    struct eng_desc desc = eng_desc_of(dtype, dims, count);
    BASE_TRY(eng_desc_allow(lower, node, &desc));
    return uniform_or_normal(lower, node, is_normal, &desc);
}

static enum base_status like_input(struct eng_lower *lower, const struct eng_node *node,
                                   bool is_normal)
{
    uint32_t x = ENG_NONE;
    BASE_TRY(eng_lower_input(lower, node, 0, &x));
    struct eng_desc desc = *eng_lower_desc(lower, x);
    BASE_TRY(random_dtype(lower, node, desc.dtype, &desc.dtype));
    return uniform_or_normal(lower, node, is_normal, &desc);
}

static enum base_status lower_normal(struct eng_lower *lower, const struct eng_node *node)
{
    return by_shape(lower, node, true);
}

static enum base_status lower_uniform(struct eng_lower *lower, const struct eng_node *node)
{
    return by_shape(lower, node, false);
}

static enum base_status lower_normal_like(struct eng_lower *lower, const struct eng_node *node)
{
    return like_input(lower, node, true);
}

static enum base_status lower_uniform_like(struct eng_lower *lower, const struct eng_node *node)
{
    return like_input(lower, node, false);
}

static enum base_status lower_bernoulli(struct eng_lower *lower, const struct eng_node *node)
{
    uint32_t x = ENG_NONE;
    BASE_TRY(eng_lower_input(lower, node, 0, &x));
    struct eng_desc desc = *eng_lower_desc(lower, x);
    BASE_TRY(random_dtype(lower, node, desc.dtype, &desc.dtype));
    return emit_random(lower, node, (struct eng_random){.fn = ENG_RANDOM_BERNOULLI}, x, &desc);
}

static enum base_status lower_multinomial(struct eng_lower *lower, const struct eng_node *node)
{
    uint32_t x = ENG_NONE;
    struct eng_random random = {.fn = ENG_RANDOM_MULTINOMIAL};
    enum eng_dtype dtype = ENG_I32;
    BASE_TRY(eng_lower_input(lower, node, 0, &x));
    struct eng_desc in = *eng_lower_desc(lower, x);
    random.samples = eng_node_int(node, "sample_size", 1);
    BASE_TRY(random_dtype(lower, node, ENG_I32, &dtype));
    if (in.rank != 2 || in.dims[1] < 1 || random.samples < 1 ||
        (dtype != ENG_I32 && dtype != ENG_I64)) {
        char text[64];
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "%lld samples from %s",
                              (long long)random.samples, eng_desc_text(&in, text, sizeof(text)));
    }
    random.rows = in.dims[0];
    random.classes = in.dims[1];
    struct eng_desc desc = eng_desc_of(dtype, (int64_t[]){in.dims[0], random.samples}, 2);
    BASE_TRY(eng_desc_allow(lower, node, &desc));
    return emit_random(lower, node, random, x, &desc);
}

static const struct eng_op rows[] = {
    ENG_OP_ROW("RandomNormal", 1, ENG_OPSET_MAX, ATOMIC, lower_normal),
    ENG_OP_ROW("RandomUniform", 1, ENG_OPSET_MAX, ATOMIC, lower_uniform),
    ENG_OP_ROW("RandomNormalLike", 1, ENG_OPSET_MAX, ATOMIC, lower_normal_like),
    ENG_OP_ROW("RandomUniformLike", 1, ENG_OPSET_MAX, ATOMIC, lower_uniform_like),
    ENG_OP_ROW("Bernoulli", 15, ENG_OPSET_MAX, ATOMIC, lower_bernoulli),
    ENG_OP_ROW("Multinomial", 7, ENG_OPSET_MAX, ATOMIC, lower_multinomial),
};
const struct eng_op_table eng_ops_random = ENG_OP_TABLE(rows);
