// The seam between the engine and the library that holds its CUDA kernels: plain C, so that the
// engine is built without CUDA and finds the library when it runs (cuda_library.h).
//
// The library is made of the files in kernels/: by nvcc for a GPU, or by a C++ compiler with
// on_cpu/cuda_on_cpu.h, which runs blocks and threads on the processor.
//
// Addresses in struct eng_cuda_buffers are of the device. Sizes, offsets and strides count
// elements. Calls return NULL, or a static text that says what went wrong. What is begun on a
// stream is done in order; `sync` waits for it. One thread at a time uses a stream.
#ifndef ENG_BACKEND_CUDA_PORT_H
#define ENG_BACKEND_CUDA_PORT_H

#include "program/program.h"

#define ENG_CUDA_PORT_VERSION 2u
#define ENG_CUDA_PORT_SYMBOL  "eng_cuda_port"
#define ENG_CUDA_INPUTS_MAX   8u
#define ENG_CUDA_OUTPUTS_MAX  3u
#define ENG_CUDA_KEYS_MAX     8192 // of an attention: its scores fit in shared memory

// An index out of range: the first one of a run that a kernel meets.
struct eng_cuda_fault {
    int32_t is_claimed;
    uint32_t command; // number in its program
    int64_t index, size;
};

// Operands of a command in its order; NULL: absent.
struct eng_cuda_buffers {
    const void *in[ENG_CUDA_INPUTS_MAX];
    void *out[ENG_CUDA_OUTPUTS_MAX];
    struct eng_cuda_fault *fault;
    void *scratch; // as much as the command's kernel asks for; NULL: it asks for none
};

// X(NAME, name): one kernel each, with struct eng_cuda_NAME as its parameters.
#define ENG_CUDA_KERNELS(X)                                                                        \
    X(FILL, fill)                                                                                  \
    X(MOVE, move)                                                                                  \
    X(UNARY, unary)                                                                                \
    X(BINARY, binary)                                                                              \
    X(SELECT, select)                                                                              \
    X(EXPR, expr)                                                                                  \
    X(CAST, cast)                                                                                  \
    X(REDUCE, reduce)                                                                              \
    X(SOFTMAX, softmax)                                                                            \
    X(NORM, norm)                                                                                  \
    X(ATTENTION, attention)                                                                        \
    X(MATMUL, matmul)                                                                              \
    X(CONV, conv)                                                                                  \
    X(DEPTHWISE, depthwise)                                                                        \
    X(TRANSPOSED, transposed)                                                                      \
    X(POOL, pool)                                                                                  \
    X(GATHER, gather)                                                                              \
    X(SCATTER, scatter)                                                                            \
    X(ARG_REDUCE, arg_reduce)                                                                      \
    X(TOPK, topk)                                                                                  \
    X(CUMSUM, cumsum)                                                                              \
    X(ONE_HOT, one_hot)                                                                            \
    X(RESIZE, resize)
enum eng_cuda_kernel {
#define ENG_CUDA_ENUM(NAME, name) ENG_CUDA_##NAME,
    ENG_CUDA_KERNELS(ENG_CUDA_ENUM)
#undef ENG_CUDA_ENUM
        ENG_CUDA_KERNEL_COUNT
};

struct eng_cuda_stream;
struct eng_cuda_graph; // what was begun on a stream while it was recorded
struct eng_cuda_port {
    uint32_t version; // ENG_CUDA_PORT_VERSION
    const char *(*open)(struct eng_cuda_stream **out_stream);
    void (*close)(struct eng_cuda_stream *stream);
    const char *(*allocate)(size_t bytes, void **out);      // of the device, at multiples of 64
    void (*release)(void *at);                              // accepts NULL
    const char *(*allocate_host)(size_t bytes, void **out); // pinned
    void (*release_host)(void *at);                         // accepts NULL
    const char *(*upload)(struct eng_cuda_stream *stream, void *to, const void *from, size_t bytes);
    const char *(*download)(struct eng_cuda_stream *stream, void *to, const void *from,
                            size_t bytes);
    const char *(*sync)(struct eng_cuda_stream *stream);
    const char *(*launch)(struct eng_cuda_stream *stream, enum eng_cuda_kernel kernel,
                          const struct eng_cuda_buffers *buffers, const void *params);
    // Between both nothing happens: what is begun goes into the graph. `sync` fails meanwhile, and
    // so does allocating on that thread. `recorded` ends recording also where it fails.
    const char *(*record)(struct eng_cuda_stream *stream);
    const char *(*recorded)(struct eng_cuda_stream *stream, struct eng_cuda_graph **out_graph);
    const char *(*replay)(struct eng_cuda_stream *stream, struct eng_cuda_graph *graph);
    void (*forget)(struct eng_cuda_graph *graph); // accepts NULL
};
// What the library has under ENG_CUDA_PORT_SYMBOL.
typedef const struct eng_cuda_port *(*eng_cuda_port_fn)(void);

// --- parameters of kernels -----------------------------------------------------------------------
// Float32 unless an element type or its bytes are named. What a field means is in program.h.

struct eng_cuda_fill { // out[0] becomes zero
    int64_t bytes;
};
struct eng_cuda_move { // one region
    struct eng_region region;
    int64_t count; // elements moved
    uint32_t bytes;
};
struct eng_cuda_unary {
    int64_t count;
    struct eng_unary unary;
    enum eng_dtype dtype;
};
struct eng_cuda_binary { // both operands of `from`; F32, or an integer type of at most I64
    int64_t count;
    struct eng_box box;
    struct eng_view views[2];
    enum eng_binary_fn fn;
    enum eng_dtype from, to;
};
struct eng_cuda_select {
    int64_t count;
    struct eng_box box;
    struct eng_view views[3];
    uint32_t bytes;
};
struct eng_cuda_expr {
    int64_t count;
    struct eng_box box;
    struct eng_view views[ENG_EXPR_LOADS_MAX];
    struct eng_expr expr;
};
struct eng_cuda_cast { // real numbers
    int64_t count;
    enum eng_dtype from, to;
};
struct eng_cuda_reduce {
    struct eng_reduce reduce;
};
struct eng_cuda_softmax {
    struct eng_softmax softmax;
};
struct eng_cuda_norm {
    struct eng_norm norm;
};
struct eng_cuda_attention {
    struct eng_box box;
    struct eng_view views[4], out_view;
    float scale;
};
// What is done to a result: bias and residual are inputs of these places, or ENG_NONE.
struct eng_cuda_finish {
    uint32_t bias, residual;
    bool has_activation;
    struct eng_unary activation;
};
// One operand of a product. Along the depth its elements lie side by side (is_long) and its rows
// (columns, of the right one) `step` apart, or the other way round.
struct eng_cuda_operand {
    bool is_long;
    int64_t step, batch; // batch: between batches; 0: the same for all
};
// A product as cuBLASLt takes it: the result lies densely, row by row, batch by batch.
struct eng_cuda_gemm {
    bool is_there; // else the kernels of this library compute it
    bool is_low;   // operands become bfloat16 first; sums are float32
    int64_t batches, rows, columns, depth;
    struct eng_cuda_operand a, b;
    float alpha;
};
// What of the scratch a product takes for operands that are rounded or laid out anew; the right
// one's lies behind the left one's.
#define ENG_CUDA_SCRATCH_ALIGN 256
static inline int64_t eng_cuda_gemm_bytes(int64_t elements, bool is_low)
{
    const int64_t bytes = elements * (is_low ? 2 : 4);
    return (bytes + ENG_CUDA_SCRATCH_ALIGN - 1) / ENG_CUDA_SCRATCH_ALIGN * ENG_CUDA_SCRATCH_ALIGN;
}
static inline int64_t eng_cuda_gemm_left(const struct eng_cuda_gemm *gemm)
{
    return gemm->rows * gemm->depth * (gemm->a.batch != 0 ? gemm->batches : 1);
}
static inline int64_t eng_cuda_gemm_right(const struct eng_cuda_gemm *gemm)
{
    return gemm->columns * gemm->depth * (gemm->b.batch != 0 ? gemm->batches : 1);
}
struct eng_cuda_matmul {
    int64_t batches, rows, columns, depth;
    uint32_t batch_rank;
    int64_t batch_size[ENG_RANK_MAX];
    struct eng_view a, b; // strides over (batch..., m, n, k)
    bool is_int;          // of I32: no alpha, nothing is done to the result
    float alpha;
    struct eng_cuda_finish finish;
    struct eng_cuda_gemm gemm;
};
// One side of a convolution.
struct eng_cuda_side {
    int64_t channels; // of one group
    int64_t dims[ENG_SPATIAL_MAX];
    int64_t batch_stride, channel_stride, stride[ENG_SPATIAL_MAX];
};
// CONV, DEPTHWISE and TRANSPOSED. Dimensions that are not there have size 1.
struct eng_cuda_conv {
    int64_t batch, groups, taps;
    int64_t kernel[ENG_SPATIAL_MAX], stride[ENG_SPATIAL_MAX], dilation[ENG_SPATIAL_MAX];
    int64_t pad[ENG_SPATIAL_MAX];
    struct eng_cuda_side x, y;
    struct eng_cuda_finish finish;
    struct eng_cuda_gemm gemm; // of pixels and channels
    int64_t unfold_rows;       // of windows laid out at a time; 0: x is the left operand as it is
};
#define eng_cuda_depthwise  eng_cuda_conv
#define eng_cuda_transposed eng_cuda_conv
struct eng_cuda_pool {
    int64_t count; // results
    enum eng_pool_fn fn;
    bool count_include_pad;
    float p;
    int64_t kernel[ENG_SPATIAL_MAX], stride[ENG_SPATIAL_MAX], dilation[ENG_SPATIAL_MAX];
    int64_t pad[ENG_SPATIAL_MAX], pad_end[ENG_SPATIAL_MAX];
    struct eng_cuda_side x, y;
};
// GATHER and SCATTER; indices are I32 or I64.
struct eng_cuda_gather {
    struct eng_gather gather;
    int64_t count, index_count; // results; indices
    uint32_t bytes, index_bytes, command;
};
struct eng_cuda_scatter {
    struct eng_scatter scatter;
    uint32_t bytes, index_bytes, command;
};
struct eng_cuda_arg_reduce {
    struct eng_arg_reduce arg;
};
struct eng_cuda_topk {
    struct eng_topk topk;
};
struct eng_cuda_cumsum {
    struct eng_cumsum cumsum;
};
struct eng_cuda_one_hot { // indices of any real type
    struct eng_one_hot one_hot;
    enum eng_dtype from;
    uint32_t bytes;
};
struct eng_cuda_axis { // of a resize
    int64_t in, out;
    double scale, resized, roi_begin, roi_end;
    bool is_identity;
};
struct eng_cuda_resize {
    int64_t count;
    uint32_t rank;
    struct eng_cuda_axis axes[ENG_RANK_MAX];
    enum eng_resize_fn fn;
    enum eng_resize_coord coord;
    enum eng_resize_round round;
    float cubic_a, extrapolation;
    bool exclude_outside;
};

#endif
