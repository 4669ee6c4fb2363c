// Kernels that move elements of any type: regions, gather, scatter, one-hot, order along an axis.
// An index out of range moves nothing and is noted; the run ends with an error that names it.
#include "backend/cuda/kernels/cuda_scalar.cuh"

__global__ void fill_kernel(const eng_cuda_buffers b, const eng_cuda_fill p)
{
    ENG_CUDA_FOR_EACH(i, p.bytes)
    {
        ((uint8_t *)b.out[0])[i] = 0;
    }
}

const char *eng_cuda_start_fill(eng_cuda_stream *stream, const eng_cuda_buffers *buffers,
                                const eng_cuda_fill *params)
{
    return eng_cuda_each(fill_kernel, params->bytes, stream, buffers, params);
}

__global__ void move_kernel(const eng_cuda_buffers b, const eng_cuda_move p)
{
    ENG_CUDA_FOR_EACH(i, p.count)
    {
        int64_t left = i, from = p.region.src_offset, to = p.region.dst_offset;
        for (uint32_t d = p.region.rank; d-- > 0;) {
            const int64_t index = left % p.region.size[d];
            left /= p.region.size[d];
            from += index * p.region.src_stride[d];
            to += index * p.region.dst_stride[d];
        }
        eng_cuda_copy(b.out[0], to, b.in[0], from, p.bytes);
    }
}

const char *eng_cuda_start_move(eng_cuda_stream *stream, const eng_cuda_buffers *buffers,
                                const eng_cuda_move *params)
{
    return eng_cuda_each(move_kernel, params->count, stream, buffers, params);
}

// Index `at` of the indices, counted from the start; -1: out of range, and noted.
__device__ int64_t index_at(const eng_cuda_buffers &b, int64_t at, uint32_t bytes, int64_t size,
                            uint32_t command)
{
    const int64_t index =
        bytes == 4 ? ((const int32_t *)b.in[1])[at] : ((const int64_t *)b.in[1])[at];
    if (index >= -size && index < size) {
        return index < 0 ? index + size : index;
    }
    if (atomicCAS((int *)&b.fault->is_claimed, 0, 1) == 0) {
        b.fault->command = command;
        b.fault->index = index;
        b.fault->size = size;
    }
    return -1;
}

__global__ void gather_kernel(const eng_cuda_buffers b, const eng_cuda_gather p)
{
    const eng_gather &g = p.gather;
    ENG_CUDA_FOR_EACH(i, p.count)
    {
        const int64_t rows = g.elementwise ? g.m : p.index_count;
        const int64_t inner = i % g.inner, row = i / g.inner % rows, outer = i / g.inner / rows;
        const int64_t index = index_at(b, g.elementwise ? i : row, p.index_bytes, g.n, p.command);
        if (index >= 0) {
            eng_cuda_copy(b.out[0], i, b.in[0], (outer * g.n + index) * g.inner + inner, p.bytes);
        }
    }
}

const char *eng_cuda_start_gather(eng_cuda_stream *stream, const eng_cuda_buffers *buffers,
                                  const eng_cuda_gather *params)
{
    return eng_cuda_each(gather_kernel, params->count, stream, buffers, params);
}

__device__ float scattered(int fn, float before, float update)
{
    return fn == ENG_SCATTER_ADD   ? before + update
           : fn == ENG_SCATTER_MUL ? before * update
           : fn == ENG_SCATTER_MIN ? eng_cuda_combine(ENG_MIN, before, update)
                                   : eng_cuda_combine(ENG_MAX, before, update);
}

// A thread has one column, so that updates of one element come in their order.
__global__ void scatter_kernel(const eng_cuda_buffers b, const eng_cuda_scatter p)
{
    const eng_scatter &s = p.scatter;
    ENG_CUDA_FOR_EACH(column, s.inner)
    {
        for (int64_t row = 0; row < s.rows && b.out[0] != b.in[0]; row++) {
            const int64_t at = row * s.inner + column;
            eng_cuda_copy(b.out[0], at, b.in[0], at, p.bytes);
        }
        for (int64_t i = 0; i < s.count; i++) {
            const int64_t row = index_at(b, i, p.index_bytes, s.rows, p.command);
            const int64_t to = row * s.inner + column, from = i * s.inner + column;
            if (row < 0) {
                continue;
            }
            if (s.fn == ENG_SCATTER_SET) {
                eng_cuda_copy(b.out[0], to, b.in[2], from, p.bytes);
            } else {
                float *out = (float *)b.out[0];
                out[to] = scattered(s.fn, out[to], ((const float *)b.in[2])[from]);
            }
        }
    }
}

const char *eng_cuda_start_scatter(eng_cuda_stream *stream, const eng_cuda_buffers *buffers,
                                   const eng_cuda_scatter *params)
{
    return eng_cuda_each(scatter_kernel, params->scatter.inner, stream, buffers, params);
}

__global__ void one_hot_kernel(const eng_cuda_buffers b, const eng_cuda_one_hot p)
{
    const eng_one_hot &h = p.one_hot;
    ENG_CUDA_FOR_EACH(i, h.outer * h.depth * h.inner)
    {
        const int64_t at = i / h.inner / h.depth * h.inner + i % h.inner;
        int64_t hot = p.from == ENG_F32
                          ? eng_cuda_whole(ENG_I64, (double)((const float *)b.in[0])[at])
                          : eng_cuda_load_int(p.from, b.in[0], at);
        hot = hot < 0 && hot >= -h.depth ? hot + h.depth : hot; // others: all off
        eng_cuda_copy(b.out[0], i, b.in[1], i / h.inner % h.depth == hot ? 1 : 0, p.bytes);
    }
}

const char *eng_cuda_start_one_hot(eng_cuda_stream *stream, const eng_cuda_buffers *buffers,
                                   const eng_cuda_one_hot *params)
{
    const eng_one_hot &h = params->one_hot;
    return eng_cuda_each(one_hot_kernel, h.outer * h.depth * h.inner, stream, buffers, params);
}

// --- order along the middle of [outer, n, inner] -------------------------------------------------

// Whether x comes before y; NaN is larger than any number.
__device__ bool is_before(float x, float y, bool largest)
{
    if (x != x || y != y) {
        return largest ? x != x && y == y : y != y && x == x;
    }
    return largest ? x > y : x < y;
}

__global__ void arg_reduce_kernel(const eng_cuda_buffers b, const eng_cuda_arg_reduce p)
{
    const eng_arg_reduce &a = p.arg;
    ENG_CUDA_FOR_EACH(i, a.outer * a.inner)
    {
        const float *x = (const float *)b.in[0] + i / a.inner * a.n * a.inner + i % a.inner;
        int64_t best = 0;
        for (int64_t k = 1; k < a.n; k++) {
            const float now = x[k * a.inner], most = x[best * a.inner];
            const bool is_nan = now != now, was_nan = most != most;
            const bool is_better = is_nan || was_nan ? is_nan && (a.select_last || !was_nan)
                                   : a.select_last   ? !is_before(most, now, a.is_max)
                                                     : is_before(now, most, a.is_max);
            best = is_better ? k : best;
        }
        ((int64_t *)b.out[0])[i] = best;
    }
}

const char *eng_cuda_start_arg_reduce(eng_cuda_stream *stream, const eng_cuda_buffers *buffers,
                                      const eng_cuda_arg_reduce *params)
{
    return eng_cuda_each(arg_reduce_kernel, params->arg.outer * params->arg.inner, stream, buffers,
                         params);
}

// The place among the sorted of element k: how many come before it. Equal ones keep their order.
__global__ void topk_kernel(const eng_cuda_buffers b, const eng_cuda_topk p)
{
    const eng_topk &t = p.topk;
    ENG_CUDA_FOR_EACH(i, t.outer * t.n * t.inner)
    {
        const int64_t inner = i % t.inner, k = i / t.inner % t.n, outer = i / t.inner / t.n;
        const float *x = (const float *)b.in[0] + outer * t.n * t.inner + inner;
        const float own = x[k * t.inner];
        int64_t rank = 0;
        for (int64_t other = 0; other < t.n; other++) {
            const float value = x[other * t.inner];
            rank += is_before(value, own, t.largest) ||
                    (other < k && !is_before(own, value, t.largest));
        }
        const int64_t to = (outer * t.k + rank) * t.inner + inner;
        if (rank < t.k && b.out[0] != nullptr) {
            ((float *)b.out[0])[to] = own;
        }
        if (rank < t.k && b.out[1] != nullptr) {
            ((int64_t *)b.out[1])[to] = k;
        }
    }
}

const char *eng_cuda_start_topk(eng_cuda_stream *stream, const eng_cuda_buffers *buffers,
                                const eng_cuda_topk *params)
{
    const eng_topk &t = params->topk;
    return eng_cuda_each(topk_kernel, t.outer * t.n * t.inner, stream, buffers, params);
}

__global__ void cumsum_kernel(const eng_cuda_buffers b, const eng_cuda_cumsum p)
{
    const eng_cumsum &c = p.cumsum;
    ENG_CUDA_FOR_EACH(i, c.outer * c.inner)
    {
        const int64_t first = i / c.inner * c.n * c.inner + i % c.inner;
        double sum = 0;
        for (int64_t k = 0; k < c.n; k++) {
            const int64_t at = first + (c.reverse ? c.n - 1 - k : k) * c.inner;
            const double before = sum;
            sum += (double)((const float *)b.in[0])[at];
            ((float *)b.out[0])[at] = (float)(c.exclusive ? before : sum);
        }
    }
}

const char *eng_cuda_start_cumsum(eng_cuda_stream *stream, const eng_cuda_buffers *buffers,
                                  const eng_cuda_cumsum *params)
{
    return eng_cuda_each(cumsum_kernel, params->cumsum.outer * params->cumsum.inner, stream,
                         buffers, params);
}
