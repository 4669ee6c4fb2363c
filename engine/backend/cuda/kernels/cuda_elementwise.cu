// Kernels of one thread a result: elementwise commands over boxes, fused expressions, casts.
#include "backend/cuda/kernels/cuda_scalar.cuh"

__global__ void unary_kernel(const eng_cuda_buffers b, const eng_cuda_unary p)
{
    ENG_CUDA_FOR_EACH(i, p.count)
    {
        ((float *)b.out[0])[i] = eng_cuda_apply(p.unary, ((const float *)b.in[0])[i]);
    }
}

// From float32 to BOOL, or NOT of BOOL.
__global__ void test_kernel(const eng_cuda_buffers b, const eng_cuda_unary p)
{
    ENG_CUDA_FOR_EACH(i, p.count)
    {
        const float x =
            p.dtype == ENG_F32 ? ((const float *)b.in[0])[i] : ((const uint8_t *)b.in[0])[i];
        ((uint8_t *)b.out[0])[i] = eng_cuda_apply(p.unary, x) != 0;
    }
}

const char *eng_cuda_start_unary(eng_cuda_stream *stream, const eng_cuda_buffers *buffers,
                                 const eng_cuda_unary *params)
{
    const int fn = params->unary.fn;
    const bool is_test = fn == ENG_NOT || fn == ENG_IS_NAN || fn == ENG_IS_INF;
    return eng_cuda_each(is_test ? test_kernel : unary_kernel, params->count, stream, buffers,
                         params);
}

__global__ void binary_kernel(const eng_cuda_buffers b, const eng_cuda_binary p)
{
    ENG_CUDA_FOR_EACH(i, p.count)
    {
        const eng_cuda_places<2> place(p.box, p.views, i);
        const float left = ((const float *)b.in[0])[place.at[0]];
        const float right = ((const float *)b.in[1])[place.at[1]];
        const float result = eng_cuda_combine(p.fn, left, right);
        if (p.to == ENG_BOOL) {
            ((uint8_t *)b.out[0])[i] = result != 0;
        } else {
            ((float *)b.out[0])[i] = result;
        }
    }
}

__device__ int64_t combine_int(int fn, int64_t left, int64_t right)
{
    const uint64_t difference = (uint64_t)left - (uint64_t)right;
    switch (fn) {
    case ENG_ADD:
        return (int64_t)((uint64_t)left + (uint64_t)right);
    case ENG_SUB:
        return (int64_t)difference;
    case ENG_MUL:
        return (int64_t)((uint64_t)left * (uint64_t)right);
    case ENG_MIN:
        return right < left ? right : left;
    case ENG_MAX:
        return left < right ? right : left;
    case ENG_AND:
        return left & right;
    case ENG_OR:
        return left | right;
    case ENG_XOR:
        return left ^ right;
    case ENG_SQUARED_DIFF:
        return (int64_t)(difference * difference);
    default:
        return eng_cuda_compare(fn, left, right);
    }
}

__global__ void binary_int_kernel(const eng_cuda_buffers b, const eng_cuda_binary p)
{
    ENG_CUDA_FOR_EACH(i, p.count)
    {
        const eng_cuda_places<2> place(p.box, p.views, i);
        const int64_t left = eng_cuda_load_int(p.from, b.in[0], place.at[0]);
        const int64_t right = eng_cuda_load_int(p.from, b.in[1], place.at[1]);
        eng_cuda_store_int(p.to, b.out[0], i, combine_int(p.fn, left, right));
    }
}

const char *eng_cuda_start_binary(eng_cuda_stream *stream, const eng_cuda_buffers *buffers,
                                  const eng_cuda_binary *params)
{
    return eng_cuda_each(params->from == ENG_F32 ? binary_kernel : binary_int_kernel, params->count,
                         stream, buffers, params);
}

__global__ void select_kernel(const eng_cuda_buffers b, const eng_cuda_select p)
{
    ENG_CUDA_FOR_EACH(i, p.count)
    {
        const eng_cuda_places<3> place(p.box, p.views, i);
        const int chosen = ((const uint8_t *)b.in[0])[place.at[0]] != 0 ? 1 : 2;
        eng_cuda_copy(b.out[0], i, b.in[chosen], place.at[chosen], p.bytes);
    }
}

const char *eng_cuda_start_select(eng_cuda_stream *stream, const eng_cuda_buffers *buffers,
                                  const eng_cuda_select *params)
{
    return eng_cuda_each(select_kernel, params->count, stream, buffers, params);
}

__device__ float run_op(const eng_expr_op &op, const float *registers)
{
    if (op.kind == ENG_EXPR_CONST) {
        return op.alpha;
    }
    if (op.kind == ENG_EXPR_UNARY) {
        eng_unary unary;
        unary.fn = (eng_unary_fn)op.fn;
        unary.alpha = op.alpha;
        unary.beta = op.beta;
        return eng_cuda_apply(unary, registers[op.a]);
    }
    return eng_cuda_combine(op.fn, registers[op.a], registers[op.b]);
}

__global__ void expr_kernel(const eng_cuda_buffers b, const eng_cuda_expr p)
{
    ENG_CUDA_FOR_EACH(i, p.count)
    {
        const eng_cuda_places<ENG_EXPR_LOADS_MAX> place(p.box, p.views, i);
        float registers[ENG_EXPR_LOADS_MAX + ENG_EXPR_OPS_MAX];
        for (uint32_t v = 0; v < p.expr.load_count; v++) {
            registers[v] = ((const float *)b.in[v])[place.at[v]];
        }
        uint32_t next = p.expr.load_count;
        for (uint32_t o = 0; o < p.expr.op_count; o++) {
            registers[next++] = run_op(p.expr.ops[o], registers);
        }
        ((float *)b.out[0])[i] = registers[next - 1];
    }
}

const char *eng_cuda_start_expr(eng_cuda_stream *stream, const eng_cuda_buffers *buffers,
                                const eng_cuda_expr *params)
{
    return eng_cuda_each(expr_kernel, params->count, stream, buffers, params);
}

__device__ double load_real(int dtype, const void *data, int64_t i)
{
    return dtype == ENG_F32   ? (double)((const float *)data)[i]
           : dtype == ENG_F64 ? ((const double *)data)[i]
           : dtype == ENG_U64 ? (double)((const uint64_t *)data)[i]
                              : (double)eng_cuda_load_int(dtype, data, i);
}

__global__ void cast_kernel(const eng_cuda_buffers b, const eng_cuda_cast p)
{
    ENG_CUDA_FOR_EACH(i, p.count)
    {
        if (p.to == ENG_F32 && p.from != ENG_F64 && p.from != ENG_F32 && p.from != ENG_U64) {
            ((float *)b.out[0])[i] = (float)eng_cuda_load_int(p.from, b.in[0], i); // rounds once
        } else if (p.to == ENG_F32) {
            ((float *)b.out[0])[i] = (float)load_real(p.from, b.in[0], i);
        } else if (p.to == ENG_F64) {
            ((double *)b.out[0])[i] = load_real(p.from, b.in[0], i);
        } else if (p.from == ENG_F32 || p.from == ENG_F64) {
            eng_cuda_store_int(p.to, b.out[0], i,
                               eng_cuda_whole(p.to, load_real(p.from, b.in[0], i)));
        } else {
            eng_cuda_store_int(p.to, b.out[0], i, eng_cuda_load_int(p.from, b.in[0], i));
        }
    }
}

const char *eng_cuda_start_cast(eng_cuda_stream *stream, const eng_cuda_buffers *buffers,
                                const eng_cuda_cast *params)
{
    return eng_cuda_each(cast_kernel, params->count, stream, buffers, params);
}
