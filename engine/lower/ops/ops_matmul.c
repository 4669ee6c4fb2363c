// Products: MatMul, Gemm, and those of 8-bit integers with zero points.
//
// Handlers are called by lowering, node by node, on the planning thread. eng_nn_matmul and
// eng_nn_integer_* also serve the quantised operators (ops_quant.c).
#include "lower/ops/nn_kit.h"

#include "base/check.h"

#include <string.h>

// Vectors take part as a row (left) or a column (right), a dim the result loses again.
enum base_status eng_nn_matmul(struct eng_lower *lower, const struct eng_node *node, uint32_t left,
                               uint32_t right, uint32_t *out)
{
    struct eng_desc a_desc = *eng_lower_desc(lower, left);
    struct eng_desc b_desc = *eng_lower_desc(lower, right);
    base_assert(a_desc.dtype == b_desc.dtype);
    bool a_vector = a_desc.rank == 1;
    bool b_vector = b_desc.rank == 1;
    if (a_desc.rank == 0 || b_desc.rank == 0) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "an operand is a scalar");
    }
    if (a_vector) {
        struct eng_desc row = eng_nn_desc2(a_desc.dtype, 1, a_desc.dims[0]);
        BASE_TRY(eng_nn_reshape(lower, left, &row, &left));
    }
    if (b_vector) {
        struct eng_desc column = eng_nn_desc2(b_desc.dtype, b_desc.dims[0], 1);
        BASE_TRY(eng_nn_reshape(lower, right, &column, &right));
    }
    int64_t k = a_desc.dims[a_desc.rank - 1];
    if (k != (b_vector ? b_desc.dims[0] : b_desc.dims[b_desc.rank - 2])) {
        char a_text[64];
        char b_text[64];
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "%s times %s",
                              eng_desc_text(&a_desc, a_text, sizeof(a_text)),
                              eng_desc_text(&b_desc, b_text, sizeof(b_text)));
    }
    uint32_t y;
    BASE_TRY(eng_emit_matmul(lower, (struct eng_factor){.tensor = left},
                             (struct eng_factor){.tensor = right}, 1.0f, &y));
    if (a_vector || b_vector) {
        struct eng_desc full = *eng_lower_desc(lower, y);
        struct eng_desc desc = {.dtype = full.dtype};
        for (uint32_t i = 0; i < full.rank; i++) {
            bool dropped = (i == full.rank - 2 && a_vector) || (i == full.rank - 1 && b_vector);
            if (!dropped) {
                desc.dims[desc.rank++] = full.dims[i];
            }
        }
        BASE_TRY(eng_nn_reshape(lower, y, &desc, &y));
    }
    *out = y;
    return BASE_OK;
}

static enum base_status lower_matmul(struct eng_lower *lower, const struct eng_node *node)
{
    const uint32_t types = NN_TYPES_FLOAT | NN_TYPES_INDEX | NN_TYPE(U32) | NN_TYPE(U64);
    uint32_t a;
    uint32_t b;
    uint32_t y;
    BASE_TRY(eng_nn_input(lower, node, 0, types, &a));
    struct eng_desc a_desc = *eng_lower_desc(lower, a);
    BASE_TRY(eng_nn_input(lower, node, 1, types, &b));
    struct eng_desc b_desc = *eng_lower_desc(lower, b);
    BASE_TRY(eng_nn_same_type(lower, node, 1, b_desc.dtype, a_desc.dtype));
    BASE_TRY(eng_nn_matmul(lower, node, a, b, &y));
    return eng_lower_output(lower, node, 0, y);
}

// C of Gemm must broadcast to [m, n] without enlarging it.
static enum base_status gemm_addend(struct eng_lower *lower, const struct eng_node *node,
                                    const struct eng_desc *output, uint32_t *out)
{
    base_assert(output->rank == 2);
    const uint32_t types = NN_TYPES_FLOAT | NN_TYPES_INDEX | NN_TYPE(U32) | NN_TYPE(U64);
    BASE_TRY(eng_nn_optional(lower, node, 2, types, out));
    if (*out == ENG_NONE) {
        return BASE_OK;
    }
    const struct eng_desc desc = *eng_lower_desc(lower, *out);
    BASE_TRY(eng_nn_same_type(lower, node, 2, desc.dtype, output->dtype));
    bool fits = desc.rank <= 2;
    for (uint32_t i = 0; fits && i < desc.rank; i++) {
        int64_t dim = desc.dims[desc.rank - 1 - i];
        fits = dim == 1 || dim == output->dims[1 - i];
    }
    if (!fits) {
        char c_text[64];
        char y_text[64];
        return eng_lower_fail(lower, node, BASE_ERR_INVALID,
                              "input 2, %s, does not broadcast to %s",
                              eng_desc_text(&desc, c_text, sizeof(c_text)),
                              eng_desc_text(output, y_text, sizeof(y_text)));
    }
    float beta = eng_node_float(node, "beta", 1.0f);
    if (beta == 1.0f) {
        return BASE_OK;
    }
    BASE_TRY(eng_nn_with(lower, ENG_MUL, *out, (double)beta, out));
    return eng_nn_fold(lower, *out, out);
}

static enum base_status lower_gemm(struct eng_lower *lower, const struct eng_node *node)
{
    const uint32_t types = NN_TYPES_FLOAT | NN_TYPES_INDEX | NN_TYPE(U32) | NN_TYPE(U64);
    uint32_t a;
    uint32_t b;
    uint32_t c;
    uint32_t y;
    BASE_TRY(eng_nn_input(lower, node, 0, types, &a));
    struct eng_desc a_desc = *eng_lower_desc(lower, a);
    BASE_TRY(eng_nn_input(lower, node, 1, types, &b));
    struct eng_desc b_desc = *eng_lower_desc(lower, b);
    BASE_TRY(eng_nn_same_type(lower, node, 1, b_desc.dtype, a_desc.dtype));
    bool trans_a = eng_node_int(node, "transA", 0) != 0;
    bool trans_b = eng_node_int(node, "transB", 0) != 0;
    if (a_desc.rank != 2 || b_desc.rank != 2 ||
        a_desc.dims[trans_a ? 0 : 1] != b_desc.dims[trans_b ? 1 : 0]) {
        char a_text[64];
        char b_text[64];
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "%s%s times %s%s",
                              eng_desc_text(&a_desc, a_text, sizeof(a_text)), trans_a ? "^T" : "",
                              eng_desc_text(&b_desc, b_text, sizeof(b_text)), trans_b ? "^T" : "");
    }
    float alpha = eng_node_float(node, "alpha", 1.0f);
    struct eng_desc y_desc =
        eng_nn_desc2(a_desc.dtype, a_desc.dims[trans_a ? 1 : 0], b_desc.dims[trans_b ? 0 : 1]);
    BASE_TRY(gemm_addend(lower, node, &y_desc, &c));
    BASE_TRY(eng_emit_matmul(lower, (struct eng_factor){a, trans_a},
                             (struct eng_factor){b, trans_b}, alpha, &y));
    base_assert(eng_desc_equal(eng_lower_desc(lower, y), &y_desc));
    if (c != ENG_NONE) {
        BASE_TRY(eng_emit_binary(lower, ENG_ADD, y, c, &y));
    }
    return eng_lower_output(lower, node, 0, y);
}

// --- 8-bit integers ------------------------------------------------------------------------------

enum base_status eng_nn_shifted(struct eng_lower *lower, const struct eng_node *node,
                                const struct eng_nn_bytes *bytes, enum eng_dtype to, uint32_t *out)
{
    base_assert(to == ENG_I32 || to == ENG_F32 || to == ENG_F64);
    uint32_t zero;
    BASE_TRY(eng_nn_input(lower, node, bytes->input, NN_TYPES_BYTE, out));
    struct eng_desc desc = *eng_lower_desc(lower, *out);
    BASE_TRY(eng_emit_cast(lower, *out, to, out));
    BASE_TRY(eng_nn_optional(lower, node, bytes->zero, NN_TYPES_BYTE, &zero));
    if (zero == ENG_NONE) {
        return eng_nn_fold(lower, *out, out);
    }
    const struct eng_desc zero_desc = *eng_lower_desc(lower, zero);
    BASE_TRY(eng_nn_same_type(lower, node, bytes->zero, zero_desc.dtype, desc.dtype));
    BASE_TRY(eng_emit_cast(lower, zero, to, &zero));
    BASE_TRY(eng_nn_fold(lower, zero, &zero));
    if (eng_desc_count(&zero_desc) == 1) {
        struct eng_desc scalar = {.dtype = to};
        BASE_TRY(eng_nn_reshape(lower, zero, &scalar, &zero));
    } else if (zero_desc.rank == 1) {
        struct eng_desc column =
            eng_nn_desc_axis(to, bytes->rank_after + 1, 0, eng_desc_count(&zero_desc));
        BASE_TRY(eng_nn_reshape(lower, zero, &column, &zero));
    }
    uint32_t y;
    BASE_TRY(eng_emit_binary(lower, ENG_SUB, *out, zero, &y));
    const struct eng_desc *after = eng_lower_desc(lower, y);
    desc.dtype = to;
    if (!eng_desc_equal(after, &desc)) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "input %u does not fit input %u",
                              bytes->zero, bytes->input);
    }
    return eng_nn_fold(lower, y, out);
}

enum base_status eng_nn_integer_matmul(struct eng_lower *lower, const struct eng_node *node,
                                       const struct eng_nn_quant_inputs *in, uint32_t *out)
{
    // A zero point of the left side belongs to a row, one of the right side to a column.
    const struct eng_nn_bytes left = {in->x, in->x_zero, .rank_after = 1};
    const struct eng_nn_bytes right = {in->w, in->w_zero, .rank_after = 0};
    uint32_t a;
    uint32_t b;
    BASE_TRY(eng_nn_shifted(lower, node, &left, ENG_I32, &a));
    BASE_TRY(eng_nn_shifted(lower, node, &right, ENG_I32, &b));
    return eng_nn_matmul(lower, node, a, b, out);
}

static enum base_status lower_matmul_integer(struct eng_lower *lower, const struct eng_node *node)
{
    const struct eng_nn_quant_inputs in = {.x = 0, .w = 1, .x_zero = 2, .w_zero = 3};
    uint32_t y;
    BASE_TRY(eng_nn_integer_matmul(lower, node, &in, &y));
    return eng_lower_output(lower, node, 0, y);
}

// Sums of this many products of two shifted bytes (at most 255 * 255 each) are exact in float32.
#define EXACT_F32_PRODUCTS ((1 << 24) / (255 * 255))

enum base_status eng_nn_integer_conv(struct eng_lower *lower, const struct eng_node *node,
                                     const struct eng_nn_quant_inputs *in, uint32_t *out)
{
    uint32_t x;
    uint32_t w;
    BASE_TRY(eng_nn_input(lower, node, in->x, NN_TYPES_BYTE, &x));
    struct eng_desc x_desc = *eng_lower_desc(lower, x);
    BASE_TRY(eng_nn_input(lower, node, in->w, NN_TYPES_BYTE, &w));
    struct eng_desc w_desc = *eng_lower_desc(lower, w);
    int64_t groups = eng_node_int(node, "group", 1);
    if (x_desc.rank < 3 || w_desc.rank != x_desc.rank || groups < 1 ||
        x_desc.dims[1] % groups != 0 || w_desc.dims[1] != x_desc.dims[1] / groups ||
        w_desc.dims[0] % groups != 0 || x_desc.dims[1] == 0) {
        char x_text[64];
        char w_text[64];
        return eng_lower_fail(lower, node, BASE_ERR_INVALID,
                              "input %s, weights %s and group %lld do not fit",
                              eng_desc_text(&x_desc, x_text, sizeof(x_text)),
                              eng_desc_text(&w_desc, w_text, sizeof(w_text)), (long long)groups);
    }
    if (eng_lower_has(lower, node, in->x_zero)) {
        uint32_t zero;
        BASE_TRY(eng_nn_input(lower, node, in->x_zero, NN_TYPES_BYTE, &zero));
        struct eng_desc zero_desc = *eng_lower_desc(lower, zero);
        if (eng_desc_count(&zero_desc) != 1) {
            return eng_lower_fail(lower, node, BASE_ERR_INVALID, "input %u is not a scalar",
                                  in->x_zero);
        }
    }
    // Floating point that is exact for these sums: float32 has fast kernels, float64 the range.
    bool narrow = eng_nn_product(&w_desc, 1, w_desc.rank) <= EXACT_F32_PRODUCTS;
    enum eng_dtype work = narrow ? ENG_F32 : ENG_F64;
    const struct eng_nn_bytes image = {in->x, in->x_zero, .rank_after = 0};
    const struct eng_nn_bytes kernels = {in->w, in->w_zero, .rank_after = w_desc.rank - 1};
    BASE_TRY(eng_nn_shifted(lower, node, &image, work, &x));
    BASE_TRY(eng_nn_shifted(lower, node, &kernels, work, &w));
    struct eng_window window;
    BASE_TRY(eng_window_read(lower, node, x_desc.rank - 2, w_desc.dims + 2, &window));
    BASE_TRY(eng_window_place(lower, node, x_desc.dims + 2, false, &window));
    struct eng_conv conv = eng_conv_of(&window, groups);
    conv.exact = true;
    BASE_TRY(eng_emit_conv(lower, &conv, x, w, out));
    base_assert(eng_lower_desc(lower, *out)->dims[1] == w_desc.dims[0]);
    return eng_emit_cast(lower, *out, ENG_I32, out);
}

static enum base_status lower_conv_integer(struct eng_lower *lower, const struct eng_node *node)
{
    const struct eng_nn_quant_inputs in = {.x = 0, .w = 1, .x_zero = 2, .w_zero = 3};
    uint32_t y;
    BASE_TRY(eng_nn_integer_conv(lower, node, &in, &y));
    return eng_lower_output(lower, node, 0, y);
}

static const struct eng_op rows[] = {
    NN_ROW("ConvInteger", 10, COMPOSITE, lower_conv_integer),
    NN_ROW("Gemm", 7, ATOMIC, lower_gemm),
    NN_ROW("MatMul", 7, ATOMIC, lower_matmul),
    NN_ROW("MatMulInteger", 10, COMPOSITE, lower_matmul_integer),
};
const struct eng_op_table eng_ops_matmul = NN_TABLE(rows);
