// What all kernels share: CUDA, or what stands for it on the processor; launching; places in boxes.
//
// A kernel takes its operands and its parameters by value. Starting one returns at once; what went
// wrong is said by eng_cuda_said after it.
#ifndef ENG_CUDA_KERNELS_CUH
#define ENG_CUDA_KERNELS_CUH

#ifdef __CUDACC__
#include <cublasLt.h>
#include <cuda_runtime.h>
#define ENG_CUDA_INLINE __device__ inline
#else
#include "backend/cuda/on_cpu/cuda_on_cpu.h"
#include "backend/cuda/on_cpu/lt_on_cpu.h"
#define ENG_CUDA_INLINE inline
#endif

#include "backend/cuda/cuda_port.h"

#define ENG_CUDA_THREADS    256
#define ENG_CUDA_WARP       32
#define ENG_CUDA_BLOCKS_MAX 65535
#define ENG_CUDA_ALL_LANES  0xffffffffu

#ifdef __CUDACC__
template <class Params>
static inline void eng_cuda_start(void (*kernel)(const eng_cuda_buffers, const Params),
                                  const dim3 (&shape)[2], cudaStream_t stream,
                                  const eng_cuda_buffers *buffers, const Params *params)
{
    kernel<<<shape[0], shape[1], 0, stream>>>(*buffers, *params);
}
#endif

struct eng_cuda_products; // cuda_lt.cu: products met before
struct eng_cuda_stream {
    cudaStream_t stream;
    struct eng_cuda_products *products; // made by the first product
};

static inline const char *eng_cuda_said(cudaError_t error)
{
    return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

// One thread for each of `count` results; threads take several where there are very many.
template <class Params>
static inline const char *eng_cuda_each(void (*kernel)(const eng_cuda_buffers, const Params),
                                        int64_t count, eng_cuda_stream *stream,
                                        const eng_cuda_buffers *buffers, const Params *params)
{
    if (count == 0) {
        return nullptr;
    }
    const int64_t blocks = (count + ENG_CUDA_THREADS - 1) / ENG_CUDA_THREADS;
    const dim3 shape[2] = {
        dim3((unsigned)(blocks < ENG_CUDA_BLOCKS_MAX ? blocks : ENG_CUDA_BLOCKS_MAX)),
        dim3(ENG_CUDA_THREADS)};
    eng_cuda_start(kernel, shape, stream->stream, buffers, params);
    return eng_cuda_said(cudaGetLastError());
}

// One block for each of `count` rows; blocks take several where there are very many.
template <class Params>
static inline const char *eng_cuda_rows(void (*kernel)(const eng_cuda_buffers, const Params),
                                        int64_t count, eng_cuda_stream *stream,
                                        const eng_cuda_buffers *buffers, const Params *params)
{
    if (count == 0) {
        return nullptr;
    }
    const dim3 shape[2] = {
        dim3((unsigned)(count < ENG_CUDA_BLOCKS_MAX ? count : ENG_CUDA_BLOCKS_MAX)),
        dim3(ENG_CUDA_THREADS)};
    eng_cuda_start(kernel, shape, stream->stream, buffers, params);
    return eng_cuda_said(cudaGetLastError());
}

#define ENG_CUDA_FOR_EACH(i, count)                                                                \
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < (count);                  \
         i += (int64_t)gridDim.x * blockDim.x)
#define ENG_CUDA_FOR_ROWS(row, count)                                                              \
    for (int64_t row = blockIdx.x; row < (count); row += gridDim.x)

// Where result `i` of a box reads each operand.
template <int Views> struct eng_cuda_places {
    int64_t at[Views];
    ENG_CUDA_INLINE eng_cuda_places(const eng_box &box, const eng_view *views, int64_t i)
    {
        for (int v = 0; v < Views; v++) {
            at[v] = views[v].offset;
        }
        for (uint32_t d = box.rank; d-- > 0;) {
            const int64_t index = i % box.size[d];
            i /= box.size[d];
            for (int v = 0; v < Views; v++) {
                at[v] += index * views[v].stride[d];
            }
        }
    }
};

// Copies one element of 1, 2, 4, 8 or 16 bytes.
ENG_CUDA_INLINE void eng_cuda_copy(void *to, int64_t to_index, const void *from, int64_t from_index,
                                   uint32_t bytes)
{
    switch (bytes) {
    case 1:
        ((uint8_t *)to)[to_index] = ((const uint8_t *)from)[from_index];
        break;
    case 2:
        ((uint16_t *)to)[to_index] = ((const uint16_t *)from)[from_index];
        break;
    case 4:
        ((uint32_t *)to)[to_index] = ((const uint32_t *)from)[from_index];
        break;
    case 8:
        ((uint64_t *)to)[to_index] = ((const uint64_t *)from)[from_index];
        break;
    default:
        ((uint64_t *)to)[2 * to_index] = ((const uint64_t *)from)[2 * from_index];
        ((uint64_t *)to)[2 * to_index + 1] = ((const uint64_t *)from)[2 * from_index + 1];
        break;
    }
}

// --- what each file of kernels starts ------------------------------------------------------------
#define ENG_CUDA_DECLARE(NAME, name)                                                               \
    const char *eng_cuda_start_##name(eng_cuda_stream *stream, const eng_cuda_buffers *buffers,    \
                                      const struct eng_cuda_##name *params);
ENG_CUDA_KERNELS(ENG_CUDA_DECLARE)
#undef ENG_CUDA_DECLARE

// --- products of cuBLASLt (cuda_lt.cu) -----------------------------------------------------------
// Both operands of one type: bfloat16 where the product is low.
struct eng_cuda_lt_call {
    const void *a, *b;
    float *out;
    const float *bias, *residual; // NULL: none
    const eng_unary *activation;  // NULL: none
};
// *out_is_done stays false where cuBLASLt does not take it; nothing is begun then.
const char *eng_cuda_lt_product(eng_cuda_stream *stream, const eng_cuda_gemm *gemm,
                                const eng_cuda_lt_call *call, bool *out_is_done);
void eng_cuda_lt_close(eng_cuda_stream *stream);

#endif
