// Programs: what a graph becomes for concrete shapes. Tensors, and a list of atomic commands and
// rasters over them, in an order that may be executed. Backends implement these commands and
// nothing else.
//
// Lifetime: an arena (a session's plan). Built by lower/, rewritten by the passes of this folder,
// then prepared into steps by the backends (backend/backend.h).
//
// Tensor kinds
//   INPUT    bytes supplied at run time: a graph input, or a value an earlier segment computed
//   CONST    bytes known now: initializers, folded values
//   PARAM    an initializer being trained: supplied at run time, never folded or packed for good
//   TEMP     computed by a command, lives in the session's buffer
//   VIRTUAL  owns only regions over other tensors (never over VIRTUAL ones) until a command needs
//   it
//
// Aliases. A TEMP whose `alias` is set owns no bytes: it is the same elements under other dims (a
// reshape, at no cost). No command writes it; reading it reads the tensor it names, which is never
// an alias itself. Executors point both at one address, memory planning counts a use of one as a
// use of the other.
//
// Layout. PLAIN is row-major in the order of dims. CHANNELS_LAST stores a tensor of logical dims
// (N, C, s...) as (N, s..., C): what convolutions, pools and what lies between them use. dims are
// always the logical ones.
#ifndef ENG_PROGRAM_PROGRAM_H
#define ENG_PROGRAM_PROGRAM_H

#include "base/arena.h"
#include "base/error.h"
#include "engine/tensor.h"

#define ENG_REGION_RANK_MAX 6
#define ENG_TENSORS_MAX     8000000u
#define ENG_COMMANDS_MAX    4000000u
#define ENG_REGIONS_MAX     65536u // of one virtual tensor; beyond, it is made real

enum eng_tensor_kind { ENG_INPUT, ENG_CONST, ENG_PARAM, ENG_TEMP, ENG_VIRTUAL };
enum eng_layout { ENG_PLAIN, ENG_CHANNELS_LAST };

// Moves elements: for every index i of the box `size`,
//   destination[dst_offset + sum i[d]*dst_stride[d]] = source[src_offset + sum i[d]*src_stride[d]]
// Offsets and strides count elements of the physical layout. A source stride of 0 broadcasts. A
// destination stride of 0 with size > 1 sums (gradients only; float types). Regions of one tensor
// write disjoint elements unless `accumulate` is set.
struct eng_region {
    uint32_t source; // tensor; never VIRTUAL
    uint32_t rank;   // 0..ENG_REGION_RANK_MAX; 0 moves one element
    bool accumulate; // adds instead of storing (gradients only)
    int64_t src_offset, dst_offset;
    int64_t size[ENG_REGION_RANK_MAX];
    int64_t src_stride[ENG_REGION_RANK_MAX];
    int64_t dst_stride[ENG_REGION_RANK_MAX];
};

struct eng_tensor {
    struct eng_desc desc;
    enum eng_layout layout;
    enum eng_tensor_kind kind;
    const void *data;     // CONST: dense elements in `layout`
    const void *identity; // CONST that comes straight from the model: the address packs are shared
                          // by; else NULL
    struct eng_region *regions; // VIRTUAL
    uint32_t region_count;
    bool zero_fill; // VIRTUAL: elements no region writes are zero
    uint32_t alias; // tensor whose bytes this one shares, ENG_NONE otherwise
    uint32_t value; // graph value this is (for names, keep_values), ENG_NONE otherwise
    bool is_output; // must survive to the end of the program
};

// Parameters: LEAKY_RELU, ELU, CELU, THRESHOLDED_RELU alpha; SELU alpha, beta = gamma; HARD_SIGMOID
// alpha, beta; CLIP alpha = low, beta = high; SHRINK alpha = lambd, beta = bias; IS_INF alpha =
// detect negative, beta = detect positive. GELU is the exact one (erf).
enum eng_unary_fn {
    ENG_ABS,
    ENG_NEG,
    ENG_SIGN,
    ENG_CEIL,
    ENG_FLOOR,
    ENG_ROUND,
    ENG_SQRT,
    ENG_RSQRT,
    ENG_RECIPROCAL,
    ENG_SQUARE,
    ENG_EXP,
    ENG_LOG,
    ENG_SIN,
    ENG_COS,
    ENG_TAN,
    ENG_ASIN,
    ENG_ACOS,
    ENG_ATAN,
    ENG_SINH,
    ENG_COSH,
    ENG_TANH,
    ENG_ASINH,
    ENG_ACOSH,
    ENG_ATANH,
    ENG_ERF,
    ENG_SIGMOID,
    ENG_RELU,
    ENG_LEAKY_RELU,
    ENG_ELU,
    ENG_SELU,
    ENG_CELU,
    ENG_SOFTPLUS,
    ENG_SOFTSIGN,
    ENG_HARD_SIGMOID,
    ENG_HARD_SWISH,
    ENG_CLIP,
    ENG_THRESHOLDED_RELU,
    ENG_GELU,
    ENG_GELU_TANH,
    ENG_SHRINK,
    ENG_NOT,
    ENG_IS_NAN,
    ENG_IS_INF,
    ENG_BIT_NOT,
    ENG_UNARY_COUNT
};
// DIV truncates integers, MOD has the divisor's sign, FMOD the dividend's, PRELU is a < 0 ? a * b :
// a. Comparisons give BOOL.
enum eng_binary_fn {
    ENG_ADD,
    ENG_SUB,
    ENG_MUL,
    ENG_DIV,
    ENG_POW,
    ENG_MOD,
    ENG_FMOD,
    ENG_MIN,
    ENG_MAX,
    ENG_EQUAL,
    ENG_LESS,
    ENG_LESS_EQUAL,
    ENG_GREATER,
    ENG_GREATER_EQUAL,
    ENG_AND,
    ENG_OR,
    ENG_XOR,
    ENG_SHIFT_LEFT,
    ENG_SHIFT_RIGHT,
    ENG_PRELU,
    ENG_SQUARED_DIFF,
    ENG_BINARY_COUNT
};
enum eng_reduce_fn {
    ENG_REDUCE_SUM,
    ENG_REDUCE_MEAN,
    ENG_REDUCE_MAX,
    ENG_REDUCE_MIN,
    ENG_REDUCE_PROD,
    ENG_REDUCE_SUM_SQUARE,
    ENG_REDUCE_L1,
    ENG_REDUCE_L2,
    ENG_REDUCE_LOG_SUM,
    ENG_REDUCE_LOG_SUM_EXP,
    ENG_REDUCE_COUNT
};

// X(NAME, name, checked, shown): every kind of command a backend may be asked for, at most 61.
// RASTER is not counted among the atomic ones. `checked` is what program_validate.c looks at
// besides its ports (check_CHECKED there), `shown` what program_dump.c writes of its parameters
// (dump_SHOWN).
#define ENG_ATOMIC_MAP(X)                                                                          \
    X(RASTER, raster, raster, raster)                                                              \
    X(UNARY, unary, same_count, unary)                                                             \
    X(BINARY, binary, two_views, binary)                                                           \
    X(SELECT, select, three_views, select)                                                         \
    X(CAST, cast, same_count, nothing)                                                             \
    X(EXPR, expr, expr, expr)                                                                      \
    X(REDUCE, reduce, reduce, reduce)                                                              \
    X(ARG_REDUCE, arg_reduce, nothing, nothing)                                                    \
    X(MATMUL, matmul, matmul, matmul)                                                              \
    X(CONV, conv, conv, conv)                                                                      \
    X(CONV_CHAIN, conv_chain, chain, chain)                                                        \
    X(CONV_TRANSPOSE, conv_transpose, nothing, conv)                                               \
    X(POOL, pool, nothing, pool)                                                                   \
    X(SOFTMAX, softmax, softmax, softmax)                                                          \
    X(NORM, norm, norm, norm)                                                                      \
    X(ATTENTION, attention, attention, attention)                                                  \
    X(GATHER, gather, gather, gather)                                                              \
    X(SCATTER, scatter, scatter, nothing)                                                          \
    X(TOPK, topk, nothing, nothing)                                                                \
    X(CUMSUM, cumsum, nothing, nothing)                                                            \
    X(ONE_HOT, one_hot, nothing, nothing)                                                          \
    X(RANDOM, random, nothing, nothing)                                                            \
    X(RESIZE, resize, nothing, nothing)                                                            \
    X(GRID_SAMPLE, grid_sample, nothing, nothing)                                                  \
    X(ROI_ALIGN, roi_align, nothing, nothing)                                                      \
    X(ROI_POOL, roi_pool, nothing, nothing)                                                        \
    X(DET, det, nothing, nothing)                                                                  \
    X(CONV_GRAD_INPUT, conv_grad_input, nothing, nothing)                                          \
    X(CONV_GRAD_WEIGHT, conv_grad_weight, nothing, nothing)                                        \
    X(POOL_GRAD, pool_grad, nothing, nothing)
enum eng_atomic {
#define ENG_ATOMIC_ENUM(NAME, name, checked, shown) ENG_OP_##NAME,
    ENG_ATOMIC_MAP(ENG_ATOMIC_ENUM)
#undef ENG_ATOMIC_ENUM
        ENG_OP_COUNT
};

// How an operand is read: element (i0..ir) of the command's iteration box lies at
// offset + sum i[d]*stride[d], in elements of the tensor's physical layout. Lets elementwise
// commands broadcast and read slices, and products read transposed or interleaved operands, without
// a copy.
struct eng_view {
    int64_t offset;
    int64_t stride[ENG_RANK_MAX];
};

// What is done to a result before it is stored: + bias[channel], + residual (same shape and layout
// as the output), then the activation. Order is fixed.
struct eng_epilogue {
    uint32_t bias;     // tensor [channels], ENG_NONE: none
    uint32_t residual; // tensor, ENG_NONE: none
    bool has_activation;
    enum eng_unary_fn
        activation; // RELU, CLIP, LEAKY_RELU, SIGMOID, HARD_SWISH, TANH, GELU, GELU_TANH only
    float alpha, beta;
};

// Elementwise commands iterate over a box of `rank` dims (collapsed as far as the operands allow)
// and write the output densely in the box's row-major order.
struct eng_box {
    uint32_t rank;
    int64_t size[ENG_RANK_MAX];
};
struct eng_unary {
    enum eng_unary_fn fn;
    float alpha, beta;
}; // dense in, dense out, same layout
struct eng_binary {
    enum eng_binary_fn fn;
}; // command->box, views[0..1]
// SELECT: inputs cond(BOOL), a, b; box and views[0..2].

// EXPR: a fused elementwise program on float32. Registers 0..load_count-1 hold the inputs (box and
// views as BINARY); each instruction writes the next register; the last one is the output.
#define ENG_EXPR_LOADS_MAX 6
#define ENG_EXPR_OPS_MAX   24
enum eng_expr_kind { ENG_EXPR_UNARY, ENG_EXPR_BINARY, ENG_EXPR_CONST /*alpha*/ };
struct eng_expr_op {
    enum eng_expr_kind kind;
    uint8_t fn;   // eng_unary_fn or eng_binary_fn (arithmetic ones only)
    uint8_t a, b; // registers
    float alpha, beta;
};
struct eng_expr {
    uint32_t load_count, op_count;
    struct eng_expr_op ops[ENG_EXPR_OPS_MAX];
};

// The input seen as [outer, n, inner] in memory order of a PLAIN tensor; output [outer, inner].
// Reductions over several adjacent axes are one such command; others are preceded by a raster.
// CHANNELS_LAST inputs reduced over all spatial axes are [N, spatial, C] -> [N, C]: the same form.
struct eng_reduce {
    enum eng_reduce_fn fn;
    int64_t outer, n, inner;
};
// Output I64 [outer, inner].
struct eng_arg_reduce {
    bool is_max, select_last;
    int64_t outer, n, inner;
};
// log: log-softmax. Over the middle of [outer, n, inner].
struct eng_softmax {
    bool log;
    int64_t outer, n, inner;
};
// y = (x - mean) / sqrt(var + epsilon) * scale + bias over rows: x is [groups, n]. scale and bias
// are inputs 1, 2 (ENG_NONE allowed) indexed by (position / scale_inner) % scale_count: layer norm
// has scale_inner 1, scale_count n; instance norm is [N*C, spatial] with scale_per_group set, index
// = group % scale_count. Optional outputs 1, 2: mean and inverse standard deviation, [groups].
struct eng_norm {
    int64_t groups, n, scale_inner, scale_count;
    float epsilon;
    bool scale_per_group;
    bool rms;
};

// C[b..., m, n] = alpha * sum_k A[b..., m, k] * B[b..., k, n], then the epilogue (bias over n).
// batch dims (<= 5) first in the box, then m, n, k: box.size = batch..., m, n, k with box.rank =
// batch+3. views[0] strides A over (batch..., m, -, k), views[1] strides B over (batch..., -, n,
// k); unused strides 0. Output dense. Types: F32; I32/I64/U32/U64/F64/F16/BF16 in ref only.
// accumulate in the output's type (F16/BF16 in float). Integer products (MatMulInteger,
// ConvInteger, QLinear*) are casts to I32 + I32.
struct eng_matmul {
    uint32_t batch_rank;
    float alpha;
    struct eng_epilogue epilogue;
};

// x [N, C, s...] * w [M, C/groups, k...] -> [N, M, o...], 1 to 3 spatial dims. x and output are
// both CHANNELS_LAST or both PLAIN; w is PLAIN as in the file. Inputs: x, w (bias and residual:
// epilogue).
#define ENG_SPATIAL_MAX 3
struct eng_conv {
    uint32_t spatial;
    int64_t groups;
    int64_t kernel[ENG_SPATIAL_MAX], stride[ENG_SPATIAL_MAX], dilation[ENG_SPATIAL_MAX];
    int64_t pad_begin[ENG_SPATIAL_MAX],
        pad_end[ENG_SPATIAL_MAX]; // of CONV_TRANSPOSE: cut from the output
    bool exact; // operands are whole numbers and sums must come out whole: no transforms
    struct eng_epilogue epilogue;
};
// Convolutions of two dimensions, each of the result of the one before: one of single pixels, a
// depthwise one and one of single pixels again; the first or the last may be missing. What lies
// between them is no tensor of the program any more: a backend keeps as much of it as it needs at a
// time. Inputs: x, then what else the convolutions read in their order (weights, bias, residual,
// the last one's alone). Float32, channels last.
#define ENG_CHAIN_MAX 3
struct eng_conv_chain;
enum eng_pool_fn { ENG_POOL_MAX, ENG_POOL_AVERAGE, ENG_POOL_LP };
// Layout as CONV. Output 1, when present: I64 indices of the maxima (PLAIN order, column_major as
// ONNX storage_order).
struct eng_pool {
    enum eng_pool_fn fn;
    uint32_t spatial;
    int64_t kernel[ENG_SPATIAL_MAX], stride[ENG_SPATIAL_MAX], dilation[ENG_SPATIAL_MAX];
    int64_t pad_begin[ENG_SPATIAL_MAX], pad_end[ENG_SPATIAL_MAX];
    bool count_include_pad, column_major;
    int64_t p; // LP
};
// softmax(scale * Q K^T + mask) V. Q [B,H,S,D], K [B,H,T,D], V [B,H,T,E], views[0..2] over
// (B,H,S|T,D|E); input 3: mask, views[3] over (B,H,S,T), ENG_NONE allowed. Output over (B,H,S,E)
// with out_view strides (so that [B,S,H,E] needs no transpose). box.size = B,H,S,T,D,E (rank 6).
// Float32.
struct eng_attention {
    float scale;
    struct eng_view out_view;
};

// Where indices were computed from coordinates: those, I64 [rows, depth], are one more input, the
// last one, and each must be in -dims[d]..dims[d]-1 (else INVALID naming it). depth 0: no such
// input.
struct eng_coords {
    uint32_t depth;
    int64_t dims[ENG_RANK_MAX];
};

// data [outer, n, inner], indices any shape (I32 or I64, negative ones count from the end),
// output [outer, indices..., inner]. Out-of-range: the step fails with INVALID naming the index.
// elementwise (GatherElements after raster): indices and output [outer, m, inner].
struct eng_gather {
    int64_t outer, n, inner;
    bool elementwise;
    int64_t m;
    struct eng_coords coords;
};
enum eng_scatter_fn {
    ENG_SCATTER_SET,
    ENG_SCATTER_ADD,
    ENG_SCATTER_MUL,
    ENG_SCATTER_MIN,
    ENG_SCATTER_MAX
};
// Inputs: data, indices (I32/I64), updates; output starts as a copy of data. data seen as [rows,
// inner]; indices [count] are row numbers (negative from the end), updates [count, inner].
// ScatterND, ScatterElements, MaxUnpool and the gradient of GATHER come down to this with computed
// indices.
struct eng_scatter {
    enum eng_scatter_fn fn;
    int64_t rows, count, inner;
    struct eng_coords coords;
};
// [outer, n, inner]; outputs values and I64 indices [outer, k, inner].
struct eng_topk {
    int64_t outer, n, inner, k;
    bool largest, sorted;
};
struct eng_cumsum {
    int64_t outer, n, inner;
    bool exclusive, reverse;
};
// indices [outer, inner] any numeric type; off and on values: inputs 1 ([2]: off, on). Output
// [outer, depth, inner].
struct eng_one_hot {
    int64_t outer, depth, inner;
};
enum eng_random_fn {
    ENG_RANDOM_UNIFORM,
    ENG_RANDOM_NORMAL,
    ENG_RANDOM_BERNOULLI /*input: p*/,
    ENG_RANDOM_MULTINOMIAL /*input: logits [rows, classes]*/
};
struct eng_random {
    enum eng_random_fn fn;
    float low, high; /* or mean, scale */
    uint64_t seed;
    int64_t rows, classes, samples;
};
enum eng_resize_fn { ENG_RESIZE_NEAREST, ENG_RESIZE_LINEAR, ENG_RESIZE_CUBIC };
enum eng_resize_coord {
    ENG_COORD_HALF_PIXEL,
    ENG_COORD_HALF_PIXEL_SYMMETRIC, // about the middle, also where a scale gives no whole size
    ENG_COORD_PYTORCH_HALF_PIXEL,
    ENG_COORD_TF_HALF_PIXEL, // half pixels without the shift back
    ENG_COORD_ALIGN_CORNERS,
    ENG_COORD_ASYMMETRIC,
    ENG_COORD_TF_CROP
};
enum eng_resize_round {
    ENG_ROUND_PREFER_FLOOR,
    ENG_ROUND_PREFER_CEIL,
    ENG_ROUND_FLOOR,
    ENG_ROUND_CEIL
};
// PLAIN layout, every dim may be resized (separable). antialias: where a dim becomes smaller,
// linear and cubic weights reach over 1 / scale times as many elements.
struct eng_resize {
    enum eng_resize_fn fn;
    enum eng_resize_coord coord;
    enum eng_resize_round round;
    float scale[ENG_RANK_MAX];
    float roi_begin[ENG_RANK_MAX], roi_end[ENG_RANK_MAX];
    float cubic_a, extrapolation;
    bool exclude_outside, antialias;
};
struct eng_grid_sample {
    uint8_t mode;    /* 0 linear 1 nearest 2 cubic (two spatial dims only) */
    uint8_t padding; /* 0 zeros 1 border 2 reflection */
    bool align_corners;
};
struct eng_roi_align {
    bool is_max, half_pixel;
    int64_t height, width, sampling_ratio;
    float scale;
};
struct eng_roi_pool {
    int64_t height, width;
    float scale;
};
// DET: [batch, n, n] -> [batch]; no parameters.
// CONV_GRAD_INPUT: inputs dy, w -> dx. CONV_GRAD_WEIGHT: inputs x, dy -> dw. u.conv as of the
// forward command, layouts too. POOL_GRAD: inputs x, dy -> dx; u.pool.

#define ENG_COMMAND_VIEWS_MAX ENG_EXPR_LOADS_MAX
struct eng_command {
    enum eng_atomic op;
    uint32_t node; // graph node it comes from, for errors and traces
    uint32_t input_count, output_count;
    uint32_t *inputs; // tensors or ENG_NONE. RASTER: the distinct sources. Bias and residual are
                      // listed too, last
    uint32_t *outputs;
    struct eng_box box;
    struct eng_view views[ENG_COMMAND_VIEWS_MAX];
    union {
        struct eng_unary unary;
        struct eng_binary binary;
        struct eng_expr *expr;
        struct eng_reduce reduce;
        struct eng_arg_reduce arg_reduce;
        struct eng_softmax softmax;
        struct eng_norm norm;
        struct eng_matmul matmul;
        struct eng_conv conv;
        const struct eng_conv_chain *chain;
        struct eng_pool pool;
        struct eng_attention attention;
        struct eng_gather gather;
        struct eng_scatter scatter;
        struct eng_topk topk;
        struct eng_cumsum cumsum;
        struct eng_one_hot one_hot;
        struct eng_random random;
        struct eng_resize *resize;
        struct eng_grid_sample grid_sample;
        struct eng_roi_align roi_align;
        struct eng_roi_pool roi_pool;
        struct {
            const struct eng_region *regions;
            uint32_t count;
            bool zero_fill;
        } raster;
    } u;
};

struct eng_conv_chain {
    uint32_t count; // 2 or 3
    // As they were. Outputs of all but the last: TEMP tensors that no command writes or reads.
    struct eng_command convs[ENG_CHAIN_MAX];
};

struct eng_program {
    struct base_arena *arena; // everything below lives here
    struct eng_tensor *tensors;
    struct eng_command *commands;
    uint32_t tensor_count, tensor_capacity;
    uint32_t command_count, command_capacity;
};

// Zeroes and binds to an arena that outlives the program.
void eng_program_init(struct eng_program *program, struct base_arena *arena);
// Appends; *out is the new number. NOMEM, LIMIT (ENG_TENSORS_MAX).
BASE_NODISCARD enum base_status eng_program_tensor(struct eng_program *program,
                                                   enum eng_tensor_kind kind,
                                                   enum eng_layout layout,
                                                   const struct eng_desc *desc, uint32_t *out);
// Appends a zeroed command with room for its inputs and outputs (ENG_NONE each). NOMEM, LIMIT.
// The pointer is valid until the next call.
BASE_NODISCARD enum base_status eng_program_command(struct eng_program *program, enum eng_atomic op,
                                                    uint32_t input_count, uint32_t output_count,
                                                    struct eng_command **out);
// Element strides of a dense tensor of these dims in this layout, in order of the logical dims.
void eng_layout_strides(const struct eng_desc *desc, enum eng_layout layout,
                        int64_t strides[ENG_RANK_MAX]);
const char *eng_atomic_text(enum eng_atomic op); // "conv"; never NULL
const char *eng_unary_text(enum eng_unary_fn fn);
const char *eng_binary_text(enum eng_binary_fn fn);
const char *eng_reduce_text(enum eng_reduce_fn fn);

// Checks every invariant this header states (kinds, numbers in range, region bounds, defined before
// used). INVALID with a text that names the command. For tests, debug builds and `walle-engine
// check`.
BASE_NODISCARD enum base_status eng_program_validate(const struct eng_program *program,
                                                     struct base_error *error);

struct base_buffer;
// Text of the whole program, one line a command: for `walle-engine dump` and tests.
BASE_NODISCARD enum base_status eng_program_dump(const struct eng_program *program,
                                                 struct base_buffer *out);

#endif
