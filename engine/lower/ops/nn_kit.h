// What the handlers of arithmetic and network operators share: sets of element types, typed inputs,
// arithmetic with constants, windows of convolutions and pools.
#ifndef ENG_LOWER_OPS_NN_KIT_H
#define ENG_LOWER_OPS_NN_KIT_H

#include "lower/op_tables.h"

// Rows of a table and the table itself.
#define NN_ROW(name, first, kind, fn)                                                              \
    {                                                                                              \
        "", name, first, ENG_OPSET_MAX, ENG_KIND_##kind, fn                                        \
    }
#define NN_TABLE(rows)                                                                             \
    {                                                                                              \
        rows, sizeof(rows) / sizeof((rows)[0])                                                     \
    }

// Sets of element types: bit i is enum eng_dtype i.
#define NN_TYPE(name)    (1u << ENG_##name)
#define NN_TYPES_FLOAT   (NN_TYPE(F16) | NN_TYPE(BF16) | NN_TYPE(F32) | NN_TYPE(F64))
#define NN_TYPES_SIGNED  (NN_TYPE(I8) | NN_TYPE(I16) | NN_TYPE(I32) | NN_TYPE(I64))
#define NN_TYPES_UINT    (NN_TYPE(U8) | NN_TYPE(U16) | NN_TYPE(U32) | NN_TYPE(U64))
#define NN_TYPES_INT     (NN_TYPES_SIGNED | NN_TYPES_UINT)
#define NN_TYPES_NUMERIC (NN_TYPES_FLOAT | NN_TYPES_INT)
#define NN_TYPES_BYTE    (NN_TYPE(U8) | NN_TYPE(I8))
#define NN_TYPES_INDEX   (NN_TYPE(I32) | NN_TYPE(I64))
#define NN_TYPES_ANY     (~0u)

// INVALID, naming the input and what it may be, unless the tensor's type is in `types`.
BASE_NODISCARD enum base_status eng_nn_check_type(struct eng_lower *lower,
                                                  const struct eng_node *node, uint32_t input,
                                                  uint32_t tensor, uint32_t types);
// Input i, its type checked.
BASE_NODISCARD enum base_status eng_nn_input(struct eng_lower *lower, const struct eng_node *node,
                                             uint32_t input, uint32_t types, uint32_t *out);
// The same, or ENG_NONE when the input is left out.
BASE_NODISCARD enum base_status eng_nn_optional(struct eng_lower *lower,
                                                const struct eng_node *node, uint32_t input,
                                                uint32_t types, uint32_t *out);
// INVALID unless input i has type `dtype`.
BASE_NODISCARD enum base_status eng_nn_same_type(struct eng_lower *lower,
                                                 const struct eng_node *node, uint32_t input,
                                                 enum eng_dtype got, enum eng_dtype dtype);

// Product of dims[begin..end).
int64_t eng_nn_product(const struct eng_desc *desc, uint32_t begin, uint32_t end);
// Descriptions of one to three dims, and [n, 1...] of `rank` dims with n at `axis`.
struct eng_desc eng_nn_desc1(enum eng_dtype dtype, int64_t d0);
struct eng_desc eng_nn_desc2(enum eng_dtype dtype, int64_t d0, int64_t d1);
struct eng_desc eng_nn_desc3(enum eng_dtype dtype, int64_t d0, int64_t d1, int64_t d2);
struct eng_desc eng_nn_desc_axis(enum eng_dtype dtype, uint32_t rank, uint32_t axis, int64_t count);
// Reshapes to one of those; the counts must agree.
BASE_NODISCARD enum base_status eng_nn_reshape(struct eng_lower *lower, uint32_t tensor,
                                               const struct eng_desc *desc, uint32_t *out);

// input fn value and value fn input, the constant having input's type.
BASE_NODISCARD enum base_status eng_nn_with(struct eng_lower *lower, enum eng_binary_fn fn,
                                            uint32_t input, double value, uint32_t *out);
BASE_NODISCARD enum base_status eng_nn_from(struct eng_lower *lower, enum eng_binary_fn fn,
                                            double value, uint32_t input, uint32_t *out);
// A unary command without parameters.
BASE_NODISCARD enum base_status eng_nn_unary(struct eng_lower *lower, enum eng_unary_fn fn,
                                             uint32_t input, uint32_t *out);
// The elements [begin, begin + size) along `axis`.
struct eng_part {
    uint32_t axis;
    int64_t begin, size;
};
BASE_NODISCARD enum base_status eng_nn_part(struct eng_lower *lower, uint32_t input,
                                            struct eng_part part, uint32_t *out);
// What a handler computed from constants alone as a constant, so that no run computes it again; the
// tensor itself when its contents are not known now.
BASE_NODISCARD enum base_status eng_nn_fold(struct eng_lower *lower, uint32_t tensor,
                                            uint32_t *out);
// Reduces over all axes, to a scalar.
BASE_NODISCARD enum base_status eng_nn_reduce_all(struct eng_lower *lower, enum eng_reduce_fn fn,
                                                  uint32_t input, uint32_t *out);

// The sliding window of a convolution or pool, from the attributes kernel_shape, strides, pads,
// dilations and auto_pad, with the output's spatial dims. `in` are the spatial dims of the input;
// `kernel` is what the weights say (NULL: the attribute must be there).
struct eng_window {
    uint32_t spatial;
    int64_t kernel[ENG_SPATIAL_MAX], stride[ENG_SPATIAL_MAX], dilation[ENG_SPATIAL_MAX];
    int64_t pad_begin[ENG_SPATIAL_MAX], pad_end[ENG_SPATIAL_MAX];
    int64_t out[ENG_SPATIAL_MAX];
    struct eng_string auto_pad;
};
// Attributes only: everything but `out` and the pads of auto_pad.
BASE_NODISCARD enum base_status eng_window_read(struct eng_lower *lower,
                                                const struct eng_node *node, uint32_t spatial,
                                                const int64_t *kernel, struct eng_window *out);
// Pads of auto_pad and output dims of a forward window.
BASE_NODISCARD enum base_status eng_window_place(struct eng_lower *lower,
                                                 const struct eng_node *node, const int64_t *in,
                                                 bool ceil_mode, struct eng_window *window);
// The command of a placed window, without bias, residual or activation.
struct eng_conv eng_conv_of(const struct eng_window *window, int64_t groups);

// numpy.matmul, vectors included.
BASE_NODISCARD enum base_status eng_nn_matmul(struct eng_lower *lower, const struct eng_node *node,
                                              uint32_t left, uint32_t right, uint32_t *out);
// An input of 8-bit integers and the one with its zero point, which may be left out.
struct eng_nn_bytes {
    uint32_t input, zero; // numbers of inputs
    uint32_t rank_after;  // a zero point of several elements belongs to the dim these others follow
};
// What the bytes stand for, less their zero point, as type `to`.
BASE_NODISCARD enum base_status eng_nn_shifted(struct eng_lower *lower, const struct eng_node *node,
                                               const struct eng_nn_bytes *bytes, enum eng_dtype to,
                                               uint32_t *out);
// Which inputs of a quantised product hold what: 8-bit integers and their zero points.
struct eng_nn_quant_inputs {
    uint32_t x, w, x_zero, w_zero;
};
// Product or convolution of x and w without their zero points, as I32.
BASE_NODISCARD enum base_status eng_nn_integer_matmul(struct eng_lower *lower,
                                                      const struct eng_node *node,
                                                      const struct eng_nn_quant_inputs *in,
                                                      uint32_t *out);
BASE_NODISCARD enum base_status eng_nn_integer_conv(struct eng_lower *lower,
                                                    const struct eng_node *node,
                                                    const struct eng_nn_quant_inputs *in,
                                                    uint32_t *out);

#endif
