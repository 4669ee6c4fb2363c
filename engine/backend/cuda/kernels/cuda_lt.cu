// Products by cuBLASLt. It counts matrices column by column, where a row-major matrix is its own
// transpose: so the right operand is its first one, results of a row are its column, and the bias
// over columns is its bias over rows. Which of its kernels to use is asked once for each shape; a
// stream keeps what it asked.
#include "backend/cuda/kernels/cuda_kernels.cuh"

#include <stdlib.h>
#include <string.h>

#define PLANS_MAX       256           // of a stream; then the oldest makes room
#define WORKSPACE_BYTES (32ull << 20) // what cuBLASLt asks for on Hopper
#define ALIGNMENT_MAX   256u          // what cuBLASLt takes for granted unless told

enum operand { LEFT, RIGHT, RESULT, ADDED, OPERANDS }; // of cuBLASLt: D = op(A) op(B) + C

struct plan_key {
    eng_cuda_gemm gemm;
    int32_t epilogue;
    uint32_t align[OPERANDS], bias_align; // bytes
};
struct product_plan {
    plan_key key;
    bool is_supported;
    cublasLtMatmulDesc_t how;
    cublasLtMatrixLayout_t layout[OPERANDS - 1]; // what is added lies as the result
    cublasLtMatmulAlgo_t algo;
};
struct eng_cuda_products {
    cublasLtHandle_t handle;
    void *workspace;
    size_t workspace_bytes;
    unsigned count, next; // next: to be replaced
    product_plan plans[PLANS_MAX];
};

// --- plans ---------------------------------------------------------------------------------------

static void drop(product_plan *plan)
{
    if (plan->how != nullptr) {
        (void)cublasLtMatmulDescDestroy(plan->how);
    }
    for (cublasLtMatrixLayout_t layout : plan->layout) {
        if (layout != nullptr) {
            (void)cublasLtMatrixLayoutDestroy(layout);
        }
    }
    memset((void *)plan, 0, sizeof *plan);
}

static bool new_layout(cublasLtMatrixLayout_t *out, cudaDataType_t type, const int64_t (&size)[3],
                       int64_t batch_count, int64_t batch)
{
    const int32_t count = (int32_t)batch_count;
    return cublasLtMatrixLayoutCreate(out, type, (uint64_t)size[0], (uint64_t)size[1], size[2]) ==
               CUBLAS_STATUS_SUCCESS &&
           cublasLtMatrixLayoutSetAttribute(*out, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                                            sizeof count) == CUBLAS_STATUS_SUCCESS &&
           cublasLtMatrixLayoutSetAttribute(*out, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                            &batch, sizeof batch) == CUBLAS_STATUS_SUCCESS;
}

// `across`: rows of the left operand, columns of the right one.
static bool new_operand(cublasLtMatrixLayout_t *out, const eng_cuda_gemm &g,
                        const eng_cuda_operand &operand, int64_t across)
{
    const int64_t size[3] = {operand.is_long ? g.depth : across, operand.is_long ? across : g.depth,
                             operand.step};
    return new_layout(out, g.is_low ? CUDA_R_16BF : CUDA_R_32F, size, g.batches, operand.batch);
}

static bool new_how(product_plan *plan)
{
    const eng_cuda_gemm &g = plan->key.gemm;
    const int32_t left = g.b.is_long ? CUBLAS_OP_T : CUBLAS_OP_N;
    const int32_t right = g.a.is_long ? CUBLAS_OP_N : CUBLAS_OP_T;
    const int32_t epilogue = plan->key.epilogue;
    return cublasLtMatmulDescCreate(&plan->how, CUBLAS_COMPUTE_32F, CUDA_R_32F) ==
               CUBLAS_STATUS_SUCCESS &&
           cublasLtMatmulDescSetAttribute(plan->how, CUBLASLT_MATMUL_DESC_TRANSA, &left,
                                          sizeof left) == CUBLAS_STATUS_SUCCESS &&
           cublasLtMatmulDescSetAttribute(plan->how, CUBLASLT_MATMUL_DESC_TRANSB, &right,
                                          sizeof right) == CUBLAS_STATUS_SUCCESS &&
           cublasLtMatmulDescSetAttribute(plan->how, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
                                          sizeof epilogue) == CUBLAS_STATUS_SUCCESS;
}

static bool set_preference(cublasLtMatmulPreference_t preference, size_t workspace_bytes,
                           const uint32_t (&align)[OPERANDS])
{
    static const cublasLtMatmulPreferenceAttributes_t names[OPERANDS] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES};
    bool is_set = cublasLtMatmulPreferenceSetAttribute(
                      preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace_bytes,
                      sizeof workspace_bytes) == CUBLAS_STATUS_SUCCESS;
    for (int i = 0; i < OPERANDS; i++) {
        is_set = is_set &&
                 cublasLtMatmulPreferenceSetAttribute(preference, names[i], &align[i],
                                                      sizeof align[i]) == CUBLAS_STATUS_SUCCESS;
    }
    return is_set;
}

static bool choose(const eng_cuda_products *products, product_plan *plan)
{
    cublasLtMatmulPreference_t preference = nullptr;
    if (cublasLtMatmulPreferenceCreate(&preference) != CUBLAS_STATUS_SUCCESS) {
        return false;
    }
    cublasLtMatmulHeuristicResult_t found = {};
    int count = 0;
    const bool is_found = set_preference(preference, products->workspace_bytes, plan->key.align) &&
                          cublasLtMatmulAlgoGetHeuristic(
                              products->handle, plan->how, plan->layout[LEFT], plan->layout[RIGHT],
                              plan->layout[RESULT], plan->layout[RESULT], preference, 1, &found,
                              &count) == CUBLAS_STATUS_SUCCESS &&
                          count == 1 && found.state == CUBLAS_STATUS_SUCCESS;
    plan->algo = found.algo;
    (void)cublasLtMatmulPreferenceDestroy(preference);
    return is_found;
}

// NULL: cuBLASLt does not take it.
static const product_plan *plan_of(eng_cuda_products *products, const plan_key &key,
                                   const void *bias)
{
    for (unsigned i = 0; i < products->count; i++) {
        product_plan *plan = &products->plans[i];
        if (memcmp(&plan->key, &key, sizeof key) == 0) {
            return plan->is_supported ? plan : nullptr;
        }
    }
    product_plan *plan = &products->plans[products->next];
    products->next = (products->next + 1) % PLANS_MAX;
    products->count += products->count < PLANS_MAX;
    drop(plan);
    memcpy((void *)&plan->key, &key, sizeof key);
    const eng_cuda_gemm &g = plan->key.gemm;
    const int64_t result[3] = {g.columns, g.rows, g.columns};
    plan->is_supported =
        new_operand(&plan->layout[LEFT], g, g.b, g.columns) &&
        new_operand(&plan->layout[RIGHT], g, g.a, g.rows) &&
        new_layout(&plan->layout[RESULT], CUDA_R_32F, result, g.batches, g.rows * g.columns) &&
        new_how(plan) &&
        cublasLtMatmulDescSetAttribute(plan->how, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias,
                                       sizeof bias) == CUBLAS_STATUS_SUCCESS &&
        choose(products, plan);
    return plan->is_supported ? plan : nullptr;
}

// --- products ------------------------------------------------------------------------------------

static eng_cuda_products *products_of(eng_cuda_stream *stream)
{
    if (stream->products != nullptr) {
        return stream->products;
    }
    eng_cuda_products *products = (eng_cuda_products *)calloc(1, sizeof *products);
    if (products != nullptr && cublasLtCreate(&products->handle) != CUBLAS_STATUS_SUCCESS) {
        free(products);
        return nullptr;
    }
    if (products != nullptr) {
        const bool has_space = cudaMalloc(&products->workspace, WORKSPACE_BYTES) == cudaSuccess;
        products->workspace_bytes = has_space ? WORKSPACE_BYTES : 0;
        (void)cudaGetLastError(); // there are kernels that need none
    }
    stream->products = products;
    return products;
}

void eng_cuda_lt_close(eng_cuda_stream *stream)
{
    eng_cuda_products *products = stream->products;
    if (products == nullptr) {
        return;
    }
    for (unsigned i = 0; i < products->count; i++) {
        drop(&products->plans[i]);
    }
    (void)cublasLtDestroy(products->handle);
    (void)cudaFree(products->workspace);
    free(products);
    stream->products = nullptr;
}

static uint32_t alignment_of(const void *at)
{
    uint32_t bytes = ALIGNMENT_MAX;
    while ((uintptr_t)at % bytes != 0) {
        bytes /= 2;
    }
    return bytes;
}

static bool has_epilogue(const eng_cuda_lt_call *call)
{
    return call->activation != nullptr &&
           (call->activation->fn == ENG_RELU || call->activation->fn == ENG_GELU_TANH);
}

static plan_key key_of(const eng_cuda_gemm *gemm, const eng_cuda_lt_call *call)
{
    plan_key key;
    memset((void *)&key, 0, sizeof key);
    memcpy((void *)&key.gemm, gemm, sizeof *gemm);
    key.epilogue = call->bias != nullptr ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    if (has_epilogue(call)) {
        const bool is_relu = call->activation->fn == ENG_RELU;
        key.epilogue = call->bias == nullptr
                           ? (is_relu ? CUBLASLT_EPILOGUE_RELU : CUBLASLT_EPILOGUE_GELU)
                           : (is_relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_GELU_BIAS);
    }
    key.align[LEFT] = alignment_of(call->b);
    key.align[RIGHT] = alignment_of(call->a);
    key.align[RESULT] = alignment_of(call->out);
    key.bias_align = alignment_of(call->bias);
    key.align[ADDED] = call->residual != nullptr ? alignment_of(call->residual) : key.align[RESULT];
    return key;
}

// What the epilogue does not do: in place, over all results.
static const char *activate(eng_cuda_stream *stream, const eng_cuda_gemm *gemm,
                            const eng_cuda_lt_call *call)
{
    eng_cuda_buffers buffers = {};
    buffers.in[0] = buffers.out[0] = call->out;
    const eng_cuda_unary params = {gemm->batches * gemm->rows * gemm->columns, *call->activation,
                                   ENG_F32};
    return eng_cuda_start_unary(stream, &buffers, &params);
}

const char *eng_cuda_lt_product(eng_cuda_stream *stream, const eng_cuda_gemm *gemm,
                                const eng_cuda_lt_call *call, bool *out_is_done)
{
    eng_cuda_products *products = products_of(stream);
    *out_is_done = false;
    if (products == nullptr) {
        return nullptr;
    }
    const product_plan *plan = plan_of(products, key_of(gemm, call), call->bias);
    if (plan == nullptr) {
        return nullptr;
    }
    if (cublasLtMatmulDescSetAttribute(plan->how, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &call->bias,
                                       sizeof call->bias) != CUBLAS_STATUS_SUCCESS) {
        return nullptr;
    }
    const float alpha = gemm->alpha, beta = call->residual != nullptr ? 1.0F : 0.0F;
    const float *added = call->residual != nullptr ? call->residual : call->out;
    const cublasStatus_t status = cublasLtMatmul(
        products->handle, plan->how, &alpha, call->b, plan->layout[LEFT], call->a,
        plan->layout[RIGHT], &beta, added, plan->layout[RESULT], call->out, plan->layout[RESULT],
        &plan->algo, products->workspace, products->workspace_bytes, stream->stream);
    if (status != CUBLAS_STATUS_SUCCESS) {
        return cublasLtGetStatusString(status);
    }
    *out_is_done = true;
    return call->activation == nullptr || has_epilogue(call) ? nullptr
                                                             : activate(stream, gemm, call);
}
