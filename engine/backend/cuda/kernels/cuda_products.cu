// Matrix products, and convolutions as products of pixels and weights (implicit: no windows are
// laid out). A block computes a tile of TILE x TILE results; its threads load a slab of both
// operands into shared memory, SLAB deep, and each adds up PER x PER results in registers. An
// operand says where its elements are: that is all that tells a product from a convolution. What
// cuBLASLt takes goes there instead (cuda_lt.cu), with operands prepared here.
#include "backend/cuda/kernels/cuda_scalar.cuh"

#define TILE  64
#define SLAB  16
#define PER   4            // results of a thread on either side
#define SIDE  (TILE / PER) // threads on either side: SIDE * SIDE is ENG_CUDA_THREADS
#define LOADS (TILE / (ENG_CUDA_THREADS / SLAB)) // elements of a slab a thread loads

static_assert(SIDE * SIDE == ENG_CUDA_THREADS, "all threads compute");
static_assert(LOADS * ENG_CUDA_THREADS == TILE * SLAB, "all threads load");

__device__ float finished(const eng_cuda_buffers &b, const eng_cuda_finish &f, float value,
                          int64_t channel, int64_t index)
{
    value += f.bias != UINT32_MAX ? ((const float *)b.in[f.bias])[channel] : 0;
    value += f.residual != UINT32_MAX ? ((const float *)b.in[f.residual])[index] : 0;
    return f.has_activation ? eng_cuda_apply(f.activation, value) : value;
}

// --- operands ------------------------------------------------------------------------------------

// Rows and columns of a plain product of float32, or of 32-bit integers as bits. The batch is
// blockIdx.z.
template <class T> struct product_operands {
    typedef T element;
    const eng_cuda_matmul &p;
    const T *a, *b;
    int64_t first, row_at[LOADS];

    ENG_CUDA_INLINE product_operands(const eng_cuda_buffers &buffers, const eng_cuda_matmul &params)
        : p(params), a((const T *)buffers.in[0] + params.a.offset),
          b((const T *)buffers.in[1] + params.b.offset)
    {
        int64_t left = blockIdx.z;
        first = left * p.rows * p.columns;
        for (uint32_t d = p.batch_rank; d-- > 0;) {
            a += left % p.batch_size[d] * p.a.stride[d];
            b += left % p.batch_size[d] * p.b.stride[d];
            left /= p.batch_size[d];
        }
    }
    ENG_CUDA_INLINE int64_t rows() const
    {
        return p.rows;
    }
    ENG_CUDA_INLINE int64_t columns() const
    {
        return p.columns;
    }
    ENG_CUDA_INLINE int64_t depth() const
    {
        return p.depth;
    }
    ENG_CUDA_INLINE void take_row(int i, int64_t row)
    {
        row_at[i] = row * p.a.stride[p.batch_rank];
    }
    ENG_CUDA_INLINE T left(int i, int64_t k) const
    {
        return a[row_at[i] + k * p.a.stride[p.batch_rank + 2]];
    }
    ENG_CUDA_INLINE T right(int64_t k, int64_t column) const
    {
        return b[column * p.b.stride[p.batch_rank + 1] + k * p.b.stride[p.batch_rank + 2]];
    }
    ENG_CUDA_INLINE void store(const eng_cuda_buffers &buffers, int64_t row, int64_t column,
                               T sum) const
    {
        const int64_t index = first + row * p.columns + column;
        store_one(buffers, index, column, sum);
    }
    ENG_CUDA_INLINE void store_one(const eng_cuda_buffers &buffers, int64_t index, int64_t column,
                                   float sum) const
    {
        ((float *)buffers.out[0])[index] =
            finished(buffers, p.finish, p.alpha * sum, column, index);
    }
    ENG_CUDA_INLINE void store_one(const eng_cuda_buffers &buffers, int64_t index, int64_t,
                                   uint32_t sum) const
    {
        ((uint32_t *)buffers.out[0])[index] = sum;
    }
};

// Offsets of an output pixel of all images on both sides.
struct pixel {
    int64_t x, y, at[ENG_SPATIAL_MAX]; // at: of its window's first element, may be in the padding
};

__device__ pixel pixel_of(const eng_cuda_conv &p, int64_t number)
{
    pixel found = {0, 0, {0, 0, 0}};
    for (int d = ENG_SPATIAL_MAX; d-- > 0;) {
        const int64_t index = number % p.y.dims[d];
        number /= p.y.dims[d];
        found.y += index * p.y.stride[d];
        found.at[d] = index * p.stride[d] - p.pad[d];
        found.x += found.at[d] * p.x.stride[d];
    }
    found.x += number * p.x.batch_stride;
    found.y += number * p.y.batch_stride;
    return found;
}

// Offset of element `tap` of a window from its first; false: it lies in the padding.
__device__ bool tap_of(const eng_cuda_conv &p, const pixel &from, int64_t tap, int64_t *out)
{
    int64_t offset = 0;
    for (int d = ENG_SPATIAL_MAX; d-- > 0;) {
        const int64_t step = tap % p.kernel[d] * p.dilation[d];
        tap /= p.kernel[d];
        if (from.at[d] + step < 0 || from.at[d] + step >= p.x.dims[d]) {
            return false;
        }
        offset += step * p.x.stride[d];
    }
    *out = offset;
    return true;
}

// Rows are pixels, columns the channels of one group, depth taps times channels. The group is
// blockIdx.z.
struct conv_operands {
    typedef float element;
    const eng_cuda_conv &p;
    const float *x, *w;
    int64_t group;
    pixel at[LOADS];

    ENG_CUDA_INLINE conv_operands(const eng_cuda_buffers &buffers, const eng_cuda_conv &params)
        : p(params), group(blockIdx.z)
    {
        x = (const float *)buffers.in[0] + group * p.x.channels * p.x.channel_stride;
        w = (const float *)buffers.in[1] + group * p.y.channels * p.x.channels * p.taps;
    }
    ENG_CUDA_INLINE int64_t rows() const
    {
        return p.batch * p.y.dims[0] * p.y.dims[1] * p.y.dims[2];
    }
    ENG_CUDA_INLINE int64_t columns() const
    {
        return p.y.channels;
    }
    ENG_CUDA_INLINE int64_t depth() const
    {
        return p.taps * p.x.channels;
    }
    ENG_CUDA_INLINE void take_row(int i, int64_t row)
    {
        at[i] = pixel_of(p, row);
    }
    ENG_CUDA_INLINE float left(int i, int64_t k) const
    {
        const int64_t tap = k / p.x.channels, channel = k - tap * p.x.channels;
        int64_t offset = 0;
        return tap_of(p, at[i], tap, &offset) ? x[at[i].x + offset + channel * p.x.channel_stride]
                                              : 0.0F;
    }
    ENG_CUDA_INLINE float right(int64_t k, int64_t column) const
    {
        const int64_t tap = k / p.x.channels, channel = k - tap * p.x.channels;
        return w[(column * p.x.channels + channel) * p.taps + tap];
    }
    ENG_CUDA_INLINE void store(const eng_cuda_buffers &buffers, int64_t row, int64_t column,
                               float sum) const
    {
        const int64_t channel = group * p.y.channels + column;
        const int64_t index = pixel_of(p, row).y + channel * p.y.channel_stride;
        ((float *)buffers.out[0])[index] = finished(buffers, p.finish, sum, channel, index);
    }
};

// --- the tile ------------------------------------------------------------------------------------

template <class T> struct tile {
    T left[SLAB][TILE + 1], right[SLAB][TILE + 1]; // one more: columns lie in other banks
};

// Elements from `first` of the depth on; beyond the operands' ends there are zeroes.
template <class Operands>
__device__ void load_slab(const Operands &o, tile<typename Operands::element> &slab, int64_t row,
                          int64_t column, int64_t first)
{
    const int k = threadIdx.x % SLAB, lane = threadIdx.x / SLAB;
    const bool is_inside = first + k < o.depth();
    for (int i = 0; i < LOADS; i++) {
        const int at = lane + i * (TILE / LOADS);
        slab.left[k][at] = is_inside && row + at < o.rows() ? o.left(i, first + k) : 0;
        slab.right[k][at] =
            is_inside && column + at < o.columns() ? o.right(first + k, column + at) : 0;
    }
}

template <class T> __device__ void add_slab(const tile<T> &slab, T (&sums)[PER][PER])
{
    const int row = threadIdx.x / SIDE, column = threadIdx.x % SIDE;
    for (int k = 0; k < SLAB; k++) {
        T left[PER], right[PER];
        for (int i = 0; i < PER; i++) {
            left[i] = slab.left[k][row + i * SIDE];
            right[i] = slab.right[k][column + i * SIDE];
        }
        for (int i = 0; i < PER; i++) {
            for (int j = 0; j < PER; j++) {
                sums[i][j] += left[i] * right[j];
            }
        }
    }
}

template <class Operands> __device__ void compute_tile(Operands &o, const eng_cuda_buffers &b)
{
    typedef typename Operands::element T;
    __shared__ tile<T> slab;
    const int64_t row = (int64_t)blockIdx.x * TILE, column = (int64_t)blockIdx.y * TILE;
    T sums[PER][PER] = {};
    for (int i = 0; i < LOADS; i++) {
        const int64_t own = row + threadIdx.x / SLAB + i * (TILE / LOADS);
        o.take_row(i, own < o.rows() ? own : 0);
    }
    for (int64_t first = 0; first < o.depth(); first += SLAB) {
        load_slab(o, slab, row, column, first);
        __syncthreads();
        add_slab(slab, sums);
        __syncthreads();
    }
    for (int i = 0; i < PER; i++) {
        for (int j = 0; j < PER; j++) {
            const int64_t m = row + threadIdx.x / SIDE + i * SIDE;
            const int64_t n = column + threadIdx.x % SIDE + j * SIDE;
            if (m < o.rows() && n < o.columns()) {
                o.store(b, m, n, sums[i][j]);
            }
        }
    }
}

template <class T> __global__ void matmul_kernel(const eng_cuda_buffers b, const eng_cuda_matmul p)
{
    product_operands<T> operands(b, p);
    compute_tile(operands, b);
}

__global__ void conv_kernel(const eng_cuda_buffers b, const eng_cuda_conv p)
{
    conv_operands operands(b, p);
    compute_tile(operands, b);
}

template <class Params>
static const char *start_tiles(void (*kernel)(const eng_cuda_buffers, const Params),
                               const int64_t (&size)[3], eng_cuda_stream *stream,
                               const eng_cuda_buffers *buffers, const Params *params)
{
    if (size[0] == 0 || size[1] == 0 || size[2] == 0) {
        return nullptr;
    }
    const dim3 shape[2] = {dim3((unsigned)((size[0] + TILE - 1) / TILE),
                                (unsigned)((size[1] + TILE - 1) / TILE), (unsigned)size[2]),
                           dim3(ENG_CUDA_THREADS)};
    eng_cuda_start(kernel, shape, stream->stream, buffers, params);
    return eng_cuda_said(cudaGetLastError());
}

// --- operands for cuBLASLt -----------------------------------------------------------------------

struct narrowing {
    int64_t count, inner, outer; // elements that lie side by side; how often, `step` apart
    eng_cuda_operand from;
};

__global__ void narrow_kernel(const eng_cuda_buffers b, const narrowing p)
{
    ENG_CUDA_FOR_EACH(i, p.count)
    {
        const int64_t rest = i / p.inner;
        const int64_t from = rest / p.outer * p.from.batch + rest % p.outer * p.from.step;
        ((uint16_t *)b.out[0])[i] = eng_cuda_narrow(((const float *)b.in[0])[from + i % p.inner]);
    }
}

// An operand of `count` elements as dense bfloat16 at `to`; `operand` says then how that lies.
static const char *narrow(eng_cuda_stream *stream, const void **at, void *to,
                          const int64_t (&size)[3], eng_cuda_operand *operand)
{
    const int64_t count = size[0], across = size[1], depth = size[2];
    const narrowing params = {count, operand->is_long ? depth : across,
                              operand->is_long ? across : depth, *operand};
    eng_cuda_buffers buffers = {};
    buffers.in[0] = *at;
    buffers.out[0] = to;
    *at = to;
    operand->step = params.inner;
    operand->batch = operand->batch != 0 ? across * depth : 0;
    return eng_cuda_each(narrow_kernel, count, stream, &buffers, &params);
}

static const char *narrow_left(eng_cuda_stream *stream, eng_cuda_gemm *gemm, void *scratch,
                               eng_cuda_lt_call *call)
{
    const int64_t size[3] = {eng_cuda_gemm_left(gemm), gemm->rows, gemm->depth};
    return narrow(stream, &call->a, scratch, size, &gemm->a);
}

// `behind`: bytes of the left one's.
static const char *narrow_right(eng_cuda_stream *stream, eng_cuda_gemm *gemm, void *scratch,
                                int64_t behind, eng_cuda_lt_call *call)
{
    const int64_t size[3] = {eng_cuda_gemm_right(gemm), gemm->columns, gemm->depth};
    return narrow(stream, &call->b, (char *)scratch + behind, size, &gemm->b);
}

static eng_cuda_lt_call call_of(const eng_cuda_buffers *b, const eng_cuda_finish *f)
{
    eng_cuda_lt_call call = {b->in[0], b->in[1], (float *)b->out[0], nullptr, nullptr, nullptr};
    call.bias = f->bias != UINT32_MAX ? (const float *)b->in[f->bias] : nullptr;
    call.residual = f->residual != UINT32_MAX ? (const float *)b->in[f->residual] : nullptr;
    call.activation = f->has_activation ? &f->activation : nullptr;
    return call;
}

// Operands as they lie, or rounded.
static const char *multiply(eng_cuda_stream *stream, const eng_cuda_gemm *asked, void *scratch,
                            eng_cuda_lt_call call, bool *out_is_done)
{
    eng_cuda_gemm gemm = *asked;
    const char *wrong = nullptr;
    if (gemm.is_low) {
        const int64_t left = eng_cuda_gemm_bytes(eng_cuda_gemm_left(&gemm), true);
        wrong = narrow_left(stream, &gemm, scratch, &call);
        wrong = wrong == nullptr ? narrow_right(stream, &gemm, scratch, left, &call) : wrong;
    }
    return wrong == nullptr ? eng_cuda_lt_product(stream, &gemm, &call, out_is_done) : wrong;
}

struct unfolding {
    eng_cuda_conv conv;
    int64_t first, rows; // pixels
};

// Windows of pixels as rows, in the order of the weights: all taps of a channel, then the next.
template <bool Low> __global__ void unfold_kernel(const eng_cuda_buffers b, const unfolding p)
{
    const int64_t channels = p.conv.x.channels, taps = p.conv.taps;
    ENG_CUDA_FOR_EACH(i, p.rows * channels)
    {
        const pixel at = pixel_of(p.conv, p.first + i / channels);
        const float *x = (const float *)b.in[0] + at.x + i % channels * p.conv.x.channel_stride;
        for (int64_t tap = 0; tap < taps; tap++) {
            int64_t offset = 0;
            const float value = tap_of(p.conv, at, tap, &offset) ? x[offset] : 0.0F;
            if (Low) {
                ((uint16_t *)b.out[0])[i * taps + tap] = eng_cuda_narrow(value);
            } else {
                ((float *)b.out[0])[i * taps + tap] = value;
            }
        }
    }
}

static const char *unfold(eng_cuda_stream *stream, const eng_cuda_buffers *asked,
                          const unfolding *params)
{
    eng_cuda_buffers buffers = {};
    buffers.in[0] = asked->in[0];
    buffers.out[0] = asked->scratch;
    return eng_cuda_each(params->conv.gemm.is_low ? unfold_kernel<true> : unfold_kernel<false>,
                         params->rows * params->conv.x.channels, stream, &buffers, params);
}

// As many windows at a time as the scratch holds.
static const char *multiply_windows(eng_cuda_stream *stream, const eng_cuda_buffers *buffers,
                                    const eng_cuda_conv *conv, bool *out_is_done)
{
    eng_cuda_gemm gemm = conv->gemm;
    eng_cuda_lt_call call = call_of(buffers, &conv->finish);
    const int64_t left = eng_cuda_gemm_bytes(conv->unfold_rows * gemm.depth, gemm.is_low);
    const char *wrong =
        gemm.is_low ? narrow_right(stream, &gemm, buffers->scratch, left, &call) : nullptr;
    call.a = buffers->scratch;
    for (int64_t first = 0; wrong == nullptr && first < conv->gemm.rows; first += gemm.rows) {
        const int64_t rest = conv->gemm.rows - first;
        gemm.rows = rest < conv->unfold_rows ? rest : conv->unfold_rows;
        const unfolding params = {*conv, first, gemm.rows};
        wrong = unfold(stream, buffers, &params);
        wrong = wrong == nullptr ? eng_cuda_lt_product(stream, &gemm, &call, out_is_done) : wrong;
        if (wrong == nullptr && !*out_is_done) {
            return first == 0 ? nullptr
                              : "cuBLASLt took one part of a convolution and not the next";
        }
        call.out += gemm.rows * gemm.columns;
        call.residual =
            call.residual != nullptr ? call.residual + gemm.rows * gemm.columns : nullptr;
    }
    return wrong;
}

const char *eng_cuda_start_matmul(eng_cuda_stream *stream, const eng_cuda_buffers *buffers,
                                  const eng_cuda_matmul *params)
{
    bool is_done = false;
    if (params->gemm.is_there) {
        eng_cuda_lt_call call = call_of(buffers, &params->finish);
        call.a = (const float *)call.a + params->a.offset;
        call.b = (const float *)call.b + params->b.offset;
        const char *wrong = multiply(stream, &params->gemm, buffers->scratch, call, &is_done);
        if (wrong != nullptr || is_done) {
            return wrong;
        }
    }
    const int64_t size[3] = {params->rows, params->columns, params->batches};
    return start_tiles(params->is_int ? matmul_kernel<uint32_t> : matmul_kernel<float>, size,
                       stream, buffers, params);
}

static int64_t pixels_of(const eng_cuda_conv *p)
{
    return p->batch * p->y.dims[0] * p->y.dims[1] * p->y.dims[2];
}

const char *eng_cuda_start_conv(eng_cuda_stream *stream, const eng_cuda_buffers *buffers,
                                const eng_cuda_conv *params)
{
    bool is_done = false;
    if (params->gemm.is_there) {
        const char *wrong = params->unfold_rows > 0
                                ? multiply_windows(stream, buffers, params, &is_done)
                                : multiply(stream, &params->gemm, buffers->scratch,
                                           call_of(buffers, &params->finish), &is_done);
        if (wrong != nullptr || is_done) {
            return wrong;
        }
    }
    const int64_t size[3] = {pixels_of(params), params->y.channels, params->groups};
    return start_tiles(conv_kernel, size, stream, buffers, params);
}

// --- one thread a result -------------------------------------------------------------------------

// Groups of one input channel each. Neighbouring threads have neighbouring channels.
__global__ void depthwise_kernel(const eng_cuda_buffers b, const eng_cuda_depthwise p)
{
    const int64_t channels = p.groups * p.y.channels;
    ENG_CUDA_FOR_EACH(i, p.batch * p.y.dims[0] * p.y.dims[1] * p.y.dims[2] * channels)
    {
        const int64_t channel = i % channels;
        const pixel at = pixel_of(p, i / channels);
        const float *x =
            (const float *)b.in[0] + at.x + channel / p.y.channels * p.x.channel_stride;
        const float *w = (const float *)b.in[1] + channel * p.taps;
        float sum = 0;
        for (int64_t tap = 0; tap < p.taps; tap++) {
            int64_t offset = 0;
            if (tap_of(p, at, tap, &offset)) {
                sum += x[offset] * w[tap];
            }
        }
        const int64_t index = at.y + channel * p.y.channel_stride;
        ((float *)b.out[0])[index] = finished(b, p.finish, sum, channel, index);
    }
}

const char *eng_cuda_start_depthwise(eng_cuda_stream *stream, const eng_cuda_buffers *buffers,
                                     const eng_cuda_depthwise *params)
{
    return eng_cuda_each(depthwise_kernel, pixels_of(params) * params->groups * params->y.channels,
                         stream, buffers, params);
}

// Offset of the element of x whose `tap` is the result at `at`; false: none.
__device__ bool source_of(const eng_cuda_conv &p, const int64_t (&at)[ENG_SPATIAL_MAX], int64_t tap,
                          int64_t *out)
{
    int64_t offset = 0;
    for (int d = ENG_SPATIAL_MAX; d-- > 0;) {
        const int64_t place = at[d] + p.pad[d] - tap % p.kernel[d] * p.dilation[d];
        tap /= p.kernel[d];
        if (place < 0 || place % p.stride[d] != 0 || place / p.stride[d] >= p.x.dims[d]) {
            return false;
        }
        offset += place / p.stride[d] * p.x.stride[d];
    }
    *out = offset;
    return true;
}

// w is [x channels, y channels of a group, taps].
__global__ void transposed_kernel(const eng_cuda_buffers b, const eng_cuda_transposed p)
{
    const int64_t channels = p.groups * p.y.channels;
    ENG_CUDA_FOR_EACH(i, p.batch * p.y.dims[0] * p.y.dims[1] * p.y.dims[2] * channels)
    {
        const int64_t channel = i % channels, group = channel / p.y.channels;
        int64_t left = i / channels, at[ENG_SPATIAL_MAX], index = channel * p.y.channel_stride;
        for (int d = ENG_SPATIAL_MAX; d-- > 0;) {
            at[d] = left % p.y.dims[d];
            left /= p.y.dims[d];
            index += at[d] * p.y.stride[d];
        }
        const int64_t first = group * p.x.channels;
        const float *x =
            (const float *)b.in[0] + left * p.x.batch_stride + first * p.x.channel_stride;
        const float *w =
            (const float *)b.in[1] + (first * p.y.channels + channel % p.y.channels) * p.taps;
        float sum = 0;
        for (int64_t tap = 0; tap < p.taps; tap++) {
            int64_t offset = 0;
            for (int64_t c = 0; source_of(p, at, tap, &offset) && c < p.x.channels; c++) {
                sum += x[offset + c * p.x.channel_stride] * w[c * p.y.channels * p.taps + tap];
            }
        }
        index += left * p.y.batch_stride;
        ((float *)b.out[0])[index] = finished(b, p.finish, sum, channel, index);
    }
}

const char *eng_cuda_start_transposed(eng_cuda_stream *stream, const eng_cuda_buffers *buffers,
                                      const eng_cuda_transposed *params)
{
    return eng_cuda_each(transposed_kernel, pixels_of(params) * params->groups * params->y.channels,
                         stream, buffers, params);
}
