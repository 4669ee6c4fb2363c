// Products of cuBLASLt on the processor (lt_on_cpu.h). A product is begun on its stream as a kernel
// of one thread that needs no stack of its own, so it is done in order and its addresses are looked
// at like any kernel's. Bfloat16 operands are widened before OpenBLAS multiplies them.
#include "backend/cuda/on_cpu/lt_on_cpu.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

struct eng_lt_handle {
    int unused;
};
struct eng_lt_layout {
    cudaDataType_t type;
    uint64_t rows, columns;
    int64_t ld, batch;
    int32_t batch_count;
};
struct eng_lt_desc {
    int32_t trans_a, trans_b, epilogue;
    const void *bias;
};
struct eng_lt_preference {
    size_t workspace_bytes;
    uint32_t align[4]; // of A, B, C, D
};

namespace
{
const int col_major = 102, no_trans = 111, trans = 112; // of cblas.h

typedef void (*sgemm_fn)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha,
                         const float *a, int lda, const float *b, int ldb, float beta, float *c,
                         int ldc);
sgemm_fn sgemm;
pthread_once_t once = PTHREAD_ONCE_INIT;

void find_blas(void)
{
    void *library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    void *symbol = library != nullptr ? dlsym(library, "cblas_sgemm") : nullptr;
    void *threads = library != nullptr ? dlsym(library, "openblas_set_num_threads") : nullptr;
    if (symbol == nullptr || threads == nullptr) {
        return;
    }
    void (*set_threads)(int) = nullptr;
    memcpy(&set_threads, &threads, sizeof threads);
    set_threads(1);
    memcpy(&sgemm, &symbol, sizeof symbol);
}

// All that a product is, by value: descriptors may change once it is begun.
struct product {
    eng_lt_desc desc;
    eng_lt_layout a, b, d;
    float alpha, beta;
};

template <class T> cublasStatus_t make(T **out)
{
    *out = static_cast<T *>(calloc(1, sizeof **out));
    return *out == nullptr ? CUBLAS_STATUS_ALLOC_FAILED : CUBLAS_STATUS_SUCCESS;
}

template <class T> cublasStatus_t set(T *field, const void *value, size_t bytes)
{
    if (value == nullptr || bytes != sizeof *field) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    memcpy(field, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

// --- computing -----------------------------------------------------------------------------------

float widened(uint16_t half)
{
    const uint32_t bits = static_cast<uint32_t>(half) << 16;
    float value = 0;
    memcpy(&value, &bits, sizeof value);
    return value;
}

// One matrix in float32: itself, or `room` filled from bfloat16.
const float *floats_of(const eng_lt_layout &layout, const void *at, int64_t batch, float *room)
{
    if (layout.type == CUDA_R_32F) {
        return static_cast<const float *>(at) + batch * layout.batch;
    }
    const uint16_t *from = static_cast<const uint16_t *>(at) + batch * layout.batch;
    for (uint64_t column = 0; column < layout.columns; column++) {
        for (uint64_t row = 0; row < layout.rows; row++) {
            const uint64_t i = column * static_cast<uint64_t>(layout.ld) + row;
            room[i] = widened(from[i]);
        }
    }
    return room;
}

float *room_for(const eng_lt_layout &layout)
{
    return static_cast<float *>(
        malloc((layout.columns * static_cast<uint64_t>(layout.ld) + 1) * sizeof(float)));
}

float finished(int32_t epilogue, float value)
{
    if ((epilogue & CUBLASLT_EPILOGUE_RELU) != 0) {
        return value > 0 ? value : 0;
    }
    const float inner = 0.79788456F * (value + 0.044715F * value * value * value);
    return (epilogue & CUBLASLT_EPILOGUE_GELU) != 0 ? 0.5F * value * (1 + tanhf(inner)) : value;
}

void finish(const product &p, const eng_cuda_buffers &b, float *d)
{
    const float *bias = static_cast<const float *>(b.in[3]);
    for (uint64_t column = 0; column < p.d.columns; column++) {
        float *at = d + column * static_cast<uint64_t>(p.d.ld);
        for (uint64_t row = 0; row < p.d.rows; row++) {
            at[row] = finished(p.desc.epilogue, at[row] + (bias != nullptr ? bias[row] : 0));
        }
    }
}

void multiply_one(const product &p, const eng_cuda_buffers &b, int64_t batch, float *const room[2])
{
    float *d = static_cast<float *>(b.out[0]) + batch * p.d.batch;
    const float *c = static_cast<const float *>(b.in[2]) + batch * p.d.batch;
    for (uint64_t column = 0; p.beta != 0 && c != d && column < p.d.columns; column++) {
        const uint64_t first = column * static_cast<uint64_t>(p.d.ld);
        memcpy(d + first, c + first, p.d.rows * sizeof *d);
    }
    const uint64_t depth = p.desc.trans_a == CUBLAS_OP_T ? p.a.rows : p.a.columns;
    sgemm(col_major, p.desc.trans_a == CUBLAS_OP_T ? trans : no_trans,
          p.desc.trans_b == CUBLAS_OP_T ? trans : no_trans, static_cast<int>(p.d.rows),
          static_cast<int>(p.d.columns), static_cast<int>(depth), p.alpha,
          floats_of(p.a, b.in[0], batch, room[0]), static_cast<int>(p.a.ld),
          floats_of(p.b, b.in[1], batch, room[1]), static_cast<int>(p.b.ld), p.beta, d,
          static_cast<int>(p.d.ld));
    finish(p, b, d);
}

void multiply(const eng_cuda_buffers b, const product p)
{
    float *const room[2] = {room_for(p.a), room_for(p.b)};
    for (int64_t batch = 0; room[0] != nullptr && room[1] != nullptr && batch < p.d.batch_count;
         batch++) {
        multiply_one(p, b, batch, room);
    }
    free(room[0]);
    free(room[1]);
}

// --- looking at what is asked --------------------------------------------------------------------

bool is_layout(const eng_lt_layout *layout, int32_t batch_count)
{
    return layout != nullptr && layout->rows > 0 && layout->columns > 0 &&
           layout->ld >= static_cast<int64_t>(layout->rows) && layout->ld <= INT32_MAX &&
           layout->columns <= INT32_MAX && layout->batch_count == batch_count && layout->batch >= 0;
}

bool fit(const eng_lt_desc *desc, const eng_lt_layout *a, const eng_lt_layout *b,
         const eng_lt_layout *d)
{
    if (desc == nullptr || d == nullptr || !is_layout(d, d->batch_count) ||
        !is_layout(a, d->batch_count) || !is_layout(b, d->batch_count)) {
        return false;
    }
    const bool turned_a = desc->trans_a == CUBLAS_OP_T, turned_b = desc->trans_b == CUBLAS_OP_T;
    const int32_t known = CUBLASLT_EPILOGUE_RELU_BIAS | CUBLASLT_EPILOGUE_GELU_BIAS | 1;
    return (turned_a ? a->columns : a->rows) == d->rows &&
           (turned_b ? b->rows : b->columns) == d->columns &&
           (turned_a ? a->rows : a->columns) == (turned_b ? b->columns : b->rows) &&
           a->type == b->type && d->type == CUDA_R_32F && (desc->epilogue & ~known) == 0 &&
           ((desc->epilogue & CUBLASLT_EPILOGUE_BIAS) == 0 || desc->bias != nullptr);
}

bool is_aligned(const void *at, uint32_t bytes)
{
    return bytes != 0 && reinterpret_cast<uintptr_t>(at) % bytes == 0;
}
} // namespace

const char *cublasLtGetStatusString(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_SUCCESS         ? "no error"
           : status == CUBLAS_STATUS_INVALID_VALUE ? "cuBLASLt: what it is given does not fit"
                                                   : "cuBLASLt: out of memory";
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *out_handle)
{
    pthread_once(&once, find_blas);
    return make(out_handle);
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    free(handle);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *out_layout, cudaDataType_t type,
                                          uint64_t rows, uint64_t columns, int64_t ld)
{
    const cublasStatus_t status = make(out_layout);
    if (status == CUBLAS_STATUS_SUCCESS) {
        **out_layout = {type, rows, columns, ld, 0, 1};
    }
    return status;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout)
{
    free(layout);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t name,
                                                const void *value, size_t bytes)
{
    return name == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT ? set(&layout->batch_count, value, bytes)
                                                      : set(&layout->batch, value, bytes);
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *out_desc, cublasComputeType_t,
                                        cudaDataType_t)
{
    const cublasStatus_t status = make(out_desc);
    if (status == CUBLAS_STATUS_SUCCESS) {
        (*out_desc)->epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    }
    return status;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc)
{
    free(desc);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t name,
                                              const void *value, size_t bytes)
{
    switch (name) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
        return set(&desc->trans_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
        return set(&desc->trans_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
        return set(&desc->epilogue, value, bytes);
    default:
        return set(&desc->bias, value, bytes);
    }
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *out_preference)
{
    const cublasStatus_t status = make(out_preference);
    if (status == CUBLAS_STATUS_SUCCESS) {
        **out_preference = {0, {256, 256, 256, 256}};
    }
    return status;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference)
{
    free(preference);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t name,
                                                    const void *value, size_t bytes)
{
    return name == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES
               ? set(&preference->workspace_bytes, value, bytes)
               : set(&preference->align[name - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES], value,
                     bytes);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int *out_count)
{
    *out_count = 0;
    if (wanted < 1 || preference == nullptr) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    if (sgemm == nullptr || c != d || !fit(desc, a, b, d)) {
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    memcpy(results[0].algo.align, preference->align, sizeof preference->align);
    results[0].workspaceSize = 0;
    results[0].state = CUBLAS_STATUS_SUCCESS;
    *out_count = 1;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void *alpha,
                              const void *a_at, cublasLtMatrixLayout_t a, const void *b_at,
                              cublasLtMatrixLayout_t b, const void *beta, const void *c_at,
                              cublasLtMatrixLayout_t c, void *d_at, cublasLtMatrixLayout_t d,
                              const cublasLtMatmulAlgo_t *algo, void *, size_t, cudaStream_t stream)
{
    if (c != d || !fit(desc, a, b, d) || algo == nullptr || !is_aligned(a_at, algo->align[0]) ||
        !is_aligned(b_at, algo->align[1]) || !is_aligned(c_at, algo->align[2]) ||
        !is_aligned(d_at, algo->align[3])) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    const bool has_bias = (desc->epilogue & CUBLASLT_EPILOGUE_BIAS) != 0;
    const product params = {
        *desc, *a, *b, *d, *static_cast<const float *>(alpha), *static_cast<const float *>(beta)};
    eng_cuda_buffers buffers = {};
    buffers.in[0] = a_at;
    buffers.in[1] = b_at;
    buffers.in[2] = c_at;
    buffers.in[3] = has_bias ? desc->bias : nullptr;
    buffers.out[0] = d_at;
    const dim3 shape[2] = {dim3(1), dim3(0)}; // no threads: called as it is
    eng_cuda_start(multiply, shape, stream, &buffers, &params);
    return CUBLAS_STATUS_SUCCESS;
}
