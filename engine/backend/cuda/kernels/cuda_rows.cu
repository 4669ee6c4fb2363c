// Kernels of one block a row: sums and extremes along an axis, softmax, norms, attention. Threads
// of a block hold partial results; a warp joins its own by shuffles, the warps' are joined in
// shared memory. Where rows do not lie in one piece, a thread has one each.
#include "backend/cuda/kernels/cuda_scalar.cuh"

#define WARPS (ENG_CUDA_THREADS / ENG_CUDA_WARP)

__device__ float join(bool is_max, float left, float right)
{
    return is_max ? eng_cuda_combine(ENG_MAX, left, right) : left + right;
}

// The sum or the maximum of all threads' values, in all threads.
__device__ float join_block(bool is_max, float value)
{
    __shared__ float parts[WARPS];
    for (unsigned mask = ENG_CUDA_WARP / 2; mask > 0; mask /= 2) {
        value = join(is_max, value, __shfl_xor_sync(ENG_CUDA_ALL_LANES, value, mask));
    }
    if (threadIdx.x % ENG_CUDA_WARP == 0) {
        parts[threadIdx.x / ENG_CUDA_WARP] = value;
    }
    __syncthreads();
    float all = parts[0];
    for (int warp = 1; warp < WARPS; warp++) {
        all = join(is_max, all, parts[warp]);
    }
    __syncthreads(); // parts is written again by the next
    return all;
}

// --- reduce --------------------------------------------------------------------------------------

__device__ float reduce_lane(const eng_reduce &r, const float *x, int64_t begin, int64_t step)
{
    const bool is_extreme = r.fn == ENG_REDUCE_MAX || r.fn == ENG_REDUCE_MIN;
    float result = r.fn == ENG_REDUCE_PROD  ? 1.0F
                   : !is_extreme            ? 0.0F
                   : r.fn == ENG_REDUCE_MAX ? -INFINITY
                                            : INFINITY;
    for (int64_t i = begin; i < r.n; i += step) {
        const float v = x[i * r.inner];
        result = is_extreme
                     ? eng_cuda_combine(r.fn == ENG_REDUCE_MAX ? ENG_MAX : ENG_MIN, result, v)
                 : r.fn == ENG_REDUCE_PROD                                ? result * v
                 : r.fn == ENG_REDUCE_L1                                  ? result + fabsf(v)
                 : r.fn == ENG_REDUCE_L2 || r.fn == ENG_REDUCE_SUM_SQUARE ? result + v * v
                                                                          : result + v;
    }
    return result;
}

__device__ float finish_reduce(const eng_reduce &r, float value)
{
    return r.fn == ENG_REDUCE_MEAN      ? value / (float)r.n
           : r.fn == ENG_REDUCE_L2      ? sqrtf(value)
           : r.fn == ENG_REDUCE_LOG_SUM ? logf(value)
                                        : value;
}

__global__ void reduce_each_kernel(const eng_cuda_buffers b, const eng_cuda_reduce p)
{
    const eng_reduce &r = p.reduce;
    ENG_CUDA_FOR_EACH(i, r.outer * r.inner)
    {
        const float *x = (const float *)b.in[0] + i / r.inner * r.n * r.inner + i % r.inner;
        float value = 0;
        if (r.fn == ENG_REDUCE_LOG_SUM_EXP) {
            eng_reduce most = r;
            most.fn = ENG_REDUCE_MAX;
            value = reduce_lane(most, x, 0, 1);
            float sum = 0;
            for (int64_t k = 0; k < r.n; k++) {
                sum += expf(x[k * r.inner] - value);
            }
            value = value - value == 0 ? value + logf(sum) : value; // infinite and NaN stay
        } else {
            value = finish_reduce(r, reduce_lane(r, x, 0, 1));
        }
        ((float *)b.out[0])[i] = value;
    }
}

// Sums of rows that lie in one piece.
__global__ void reduce_rows_kernel(const eng_cuda_buffers b, const eng_cuda_reduce p)
{
    const eng_reduce &r = p.reduce;
    ENG_CUDA_FOR_ROWS(row, r.outer)
    {
        const float *x = (const float *)b.in[0] + row * r.n;
        const float own = reduce_lane(r, x, threadIdx.x, ENG_CUDA_THREADS);
        const float all = join_block(r.fn == ENG_REDUCE_MAX, own);
        if (threadIdx.x == 0) {
            ((float *)b.out[0])[row] = finish_reduce(r, all);
        }
    }
}

const char *eng_cuda_start_reduce(eng_cuda_stream *stream, const eng_cuda_buffers *buffers,
                                  const eng_cuda_reduce *params)
{
    const eng_reduce &r = params->reduce;
    const bool in_rows = r.inner == 1 && r.n >= ENG_CUDA_WARP && r.fn != ENG_REDUCE_MIN &&
                         r.fn != ENG_REDUCE_PROD && r.fn != ENG_REDUCE_LOG_SUM_EXP;
    return in_rows ? eng_cuda_rows(reduce_rows_kernel, r.outer, stream, buffers, params)
                   : eng_cuda_each(reduce_each_kernel, r.outer * r.inner, stream, buffers, params);
}

// --- softmax -------------------------------------------------------------------------------------

__global__ void softmax_rows_kernel(const eng_cuda_buffers b, const eng_cuda_softmax p)
{
    const eng_softmax &s = p.softmax;
    ENG_CUDA_FOR_ROWS(row, s.outer)
    {
        const float *x = (const float *)b.in[0] + row * s.n;
        float *y = (float *)b.out[0] + row * s.n;
        float own = -INFINITY;
        for (int64_t i = threadIdx.x; i < s.n; i += ENG_CUDA_THREADS) {
            own = eng_cuda_combine(ENG_MAX, own, x[i]);
        }
        const float most = join_block(true, own);
        own = 0;
        for (int64_t i = threadIdx.x; i < s.n; i += ENG_CUDA_THREADS) {
            own += expf(x[i] - most);
        }
        const float sum = join_block(false, own);
        for (int64_t i = threadIdx.x; i < s.n; i += ENG_CUDA_THREADS) {
            y[i] = s.log ? x[i] - most - logf(sum) : expf(x[i] - most) / sum;
        }
    }
}

__global__ void softmax_each_kernel(const eng_cuda_buffers b, const eng_cuda_softmax p)
{
    const eng_softmax &s = p.softmax;
    ENG_CUDA_FOR_EACH(i, s.outer * s.inner)
    {
        const int64_t first = i / s.inner * s.n * s.inner + i % s.inner;
        const float *x = (const float *)b.in[0] + first;
        float *y = (float *)b.out[0] + first;
        float most = -INFINITY, sum = 0;
        for (int64_t k = 0; k < s.n; k++) {
            most = eng_cuda_combine(ENG_MAX, most, x[k * s.inner]);
        }
        for (int64_t k = 0; k < s.n; k++) {
            sum += expf(x[k * s.inner] - most);
        }
        for (int64_t k = 0; k < s.n; k++) {
            const float value = x[k * s.inner] - most;
            y[k * s.inner] = s.log ? value - logf(sum) : expf(value) / sum;
        }
    }
}

const char *eng_cuda_start_softmax(eng_cuda_stream *stream, const eng_cuda_buffers *buffers,
                                   const eng_cuda_softmax *params)
{
    const eng_softmax &s = params->softmax;
    return s.inner == 1
               ? eng_cuda_rows(softmax_rows_kernel, s.outer, stream, buffers, params)
               : eng_cuda_each(softmax_each_kernel, s.outer * s.inner, stream, buffers, params);
}

// --- norm ----------------------------------------------------------------------------------------

__global__ void norm_kernel(const eng_cuda_buffers b, const eng_cuda_norm p)
{
    const eng_norm &m = p.norm;
    ENG_CUDA_FOR_ROWS(group, m.groups)
    {
        const float *x = (const float *)b.in[0] + group * m.n;
        float own = 0;
        for (int64_t i = threadIdx.x; i < m.n && !m.rms; i += ENG_CUDA_THREADS) {
            own += x[i];
        }
        const float mean = join_block(false, own) / (float)m.n;
        own = 0;
        for (int64_t i = threadIdx.x; i < m.n; i += ENG_CUDA_THREADS) {
            own += (x[i] - mean) * (x[i] - mean);
        }
        const float inverse = 1 / sqrtf(join_block(false, own) / (float)m.n + m.epsilon);
        for (int64_t i = threadIdx.x; i < m.n; i += ENG_CUDA_THREADS) {
            const int64_t at = m.scale_per_group ? group : i / m.scale_inner;
            const float scale =
                b.in[1] != nullptr ? ((const float *)b.in[1])[at % m.scale_count] : 1;
            const float bias =
                b.in[2] != nullptr ? ((const float *)b.in[2])[at % m.scale_count] : 0;
            ((float *)b.out[0])[group * m.n + i] = (x[i] - mean) * inverse * scale + bias;
        }
        if (threadIdx.x == 0 && b.out[1] != nullptr) {
            ((float *)b.out[1])[group] = mean;
        }
        if (threadIdx.x == 0 && b.out[2] != nullptr) {
            ((float *)b.out[2])[group] = inverse;
        }
    }
}

const char *eng_cuda_start_norm(eng_cuda_stream *stream, const eng_cuda_buffers *buffers,
                                const eng_cuda_norm *params)
{
    return eng_cuda_rows(norm_kernel, params->norm.groups, stream, buffers, params);
}

// --- attention -----------------------------------------------------------------------------------

__device__ int64_t place(const eng_view &view, const int64_t (&at)[3], int64_t column)
{
    return view.offset + at[0] * view.stride[0] + at[1] * view.stride[1] + at[2] * view.stride[2] +
           column * view.stride[3];
}

__device__ float score(const eng_cuda_buffers &b, const eng_cuda_attention &p,
                       const int64_t (&query)[3], int64_t key)
{
    const int64_t at[3] = {query[0], query[1], key};
    const float *q = (const float *)b.in[0] + place(p.views[0], query, 0);
    const float *k = (const float *)b.in[1] + place(p.views[1], at, 0);
    float dot = 0;
    for (int64_t d = 0; d < p.box.size[4]; d++) {
        dot += q[d * p.views[0].stride[3]] * k[d * p.views[1].stride[3]];
    }
    dot *= p.scale;
    return b.in[3] != nullptr ? dot + ((const float *)b.in[3])[place(p.views[3], query, key)] : dot;
}

__global__ void attention_kernel(const eng_cuda_buffers b, const eng_cuda_attention p)
{
    __shared__ float scores[ENG_CUDA_KEYS_MAX];
    const int64_t *size = p.box.size, keys = size[3];
    ENG_CUDA_FOR_ROWS(row, size[0] * size[1] * size[2])
    {
        const int64_t query[3] = {row / size[2] / size[1], row / size[2] % size[1], row % size[2]};
        float own = -INFINITY;
        for (int64_t t = threadIdx.x; t < keys; t += ENG_CUDA_THREADS) {
            scores[t] = score(b, p, query, t);
            own = eng_cuda_combine(ENG_MAX, own, scores[t]);
        }
        const float most = join_block(true, own);
        own = 0;
        for (int64_t t = threadIdx.x; t < keys; t += ENG_CUDA_THREADS) {
            scores[t] = expf(scores[t] - most);
            own += scores[t];
        }
        const float sum = join_block(false, own); // all scores are there behind it
        for (int64_t e = threadIdx.x; e < size[5]; e += ENG_CUDA_THREADS) {
            float value = 0;
            for (int64_t t = 0; t < keys; t++) {
                const int64_t at[3] = {query[0], query[1], t};
                value += scores[t] * ((const float *)b.in[2])[place(p.views[2], at, e)];
            }
            ((float *)b.out[0])[place(p.out_view, query, e)] = value / sum;
        }
        __syncthreads(); // scores are written again by the next row
    }
}

const char *eng_cuda_start_attention(eng_cuda_stream *stream, const eng_cuda_buffers *buffers,
                                     const eng_cuda_attention *params)
{
    const int64_t *size = params->box.size;
    return eng_cuda_rows(attention_kernel, size[0] * size[1] * size[2], stream, buffers, params);
}
