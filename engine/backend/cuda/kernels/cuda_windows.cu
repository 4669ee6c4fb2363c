// Pools and resizes: one thread a result, which looks at a window of the image.
#include "backend/cuda/kernels/cuda_scalar.cuh"

// --- pool ----------------------------------------------------------------------------------------

struct window {
    float most, sum;
    int64_t inside, counted; // counted: with padding
};

__device__ float pool_term(const eng_cuda_pool &p, float x)
{
    return p.fn == ENG_POOL_LP ? powf(fabsf(x), p.p) : x;
}

// Adds element `tap` of the window that begins at `at`.
__device__ void look(const eng_cuda_pool &p, const float *x, const int64_t (&at)[ENG_SPATIAL_MAX],
                     int64_t tap, window *w)
{
    bool is_inside = true;
    int64_t offset = 0;
    for (int d = ENG_SPATIAL_MAX; d-- > 0;) {
        const int64_t place = at[d] + tap % p.kernel[d] * p.dilation[d];
        tap /= p.kernel[d];
        if (place >= p.x.dims[d] + p.pad_end[d]) {
            return;
        }
        is_inside &= place >= 0 && place < p.x.dims[d];
        offset += place * p.x.stride[d];
    }
    w->counted++;
    if (is_inside) {
        const float value = x[offset];
        w->most = w->inside == 0 || value > w->most || value != value ? value : w->most;
        w->sum += pool_term(p, value);
        w->inside++;
    }
}

__device__ float pooled(const eng_cuda_pool &p, const window &w)
{
    const int64_t divisor = p.count_include_pad ? w.counted : w.inside;
    if (p.fn == ENG_POOL_MAX) {
        return w.inside > 0 ? w.most : -INFINITY;
    }
    if (p.fn == ENG_POOL_LP) {
        return powf(w.sum, 1 / p.p);
    }
    return divisor > 0 ? w.sum / (float)divisor : 0;
}

__global__ void pool_kernel(const eng_cuda_buffers b, const eng_cuda_pool p)
{
    ENG_CUDA_FOR_EACH(i, p.count)
    {
        const int64_t channel = i % p.x.channels;
        int64_t left = i / p.x.channels, at[ENG_SPATIAL_MAX], taps = 1;
        int64_t to = channel * p.y.channel_stride;
        for (int d = ENG_SPATIAL_MAX; d-- > 0;) {
            const int64_t index = left % p.y.dims[d];
            left /= p.y.dims[d];
            to += index * p.y.stride[d];
            at[d] = index * p.stride[d] - p.pad[d];
            taps *= p.kernel[d];
        }
        const float *x =
            (const float *)b.in[0] + left * p.x.batch_stride + channel * p.x.channel_stride;
        window w = {0, 0, 0, 0};
        for (int64_t tap = 0; tap < taps; tap++) {
            look(p, x, at, tap, &w);
        }
        ((float *)b.out[0])[to + left * p.y.batch_stride] = pooled(p, w);
    }
}

const char *eng_cuda_start_pool(eng_cuda_stream *stream, const eng_cuda_buffers *buffers,
                                const eng_cuda_pool *params)
{
    return eng_cuda_each(pool_kernel, params->count, stream, buffers, params);
}

// --- resize: as backend/ref/ref_resize.c, without antialias --------------------------------------

__device__ double coordinate(const eng_cuda_resize &p, const eng_cuda_axis &a, int64_t index)
{
    const double x = (double)index, last = (double)a.in - 1;
    switch (p.coord) {
    case ENG_COORD_ALIGN_CORNERS:
        return a.resized == 1 ? 0 : x * last / (a.resized - 1);
    case ENG_COORD_ASYMMETRIC:
        return x / a.scale;
    case ENG_COORD_TF_CROP:
        return a.out > 1
                   ? a.roi_begin * last + x * (a.roi_end - a.roi_begin) * last / (a.resized - 1)
                   : 0.5 * (a.roi_begin + a.roi_end) * last;
    case ENG_COORD_HALF_PIXEL_SYMMETRIC:
        return (x + 0.5) / a.scale - 0.5 + (1 - (double)a.out / a.resized) * (double)a.in / 2;
    case ENG_COORD_TF_HALF_PIXEL:
        return (x + 0.5) / a.scale;
    case ENG_COORD_PYTORCH_HALF_PIXEL:
        return a.out > 1 ? (x + 0.5) / a.scale - 0.5 : 0;
    default:
        return (x + 0.5) / a.scale - 0.5;
    }
}

__device__ double rounded(eng_resize_round round, double x)
{
    return round == ENG_ROUND_PREFER_CEIL ? floor(x + 0.5)
           : round == ENG_ROUND_FLOOR     ? floor(x)
           : round == ENG_ROUND_CEIL      ? ceil(x)
                                          : ceil(x - 0.5);
}

__device__ double cubic(double distance, double a)
{
    if (distance <= 1) {
        return ((a + 2) * distance - (a + 3)) * distance * distance + 1;
    }
    return distance < 2 ? ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a : 0;
}

__device__ int64_t bounded(double place, int64_t size)
{
    return place < 0 ? 0 : place > (double)(size - 1) ? size - 1 : (int64_t)place;
}

struct taps {
    int count;
    bool is_outside;
    int64_t at[4];
    double weight[4];
};

__device__ taps taps_of(const eng_cuda_resize &p, const eng_cuda_axis &a, int64_t index)
{
    taps t = {1, false, {index, 0, 0, 0}, {1, 0, 0, 0}};
    if (a.is_identity) {
        return t;
    }
    const double x = coordinate(p, a, index), last = (double)a.in - 1;
    t.is_outside = p.coord == ENG_COORD_TF_CROP && !(x >= 0 && x <= last);
    if (p.fn == ENG_RESIZE_NEAREST) {
        t.at[0] = bounded(rounded(p.round, x), a.in);
        return t;
    }
    t.count = p.fn == ENG_RESIZE_LINEAR ? 2 : 4;
    double sum = 0;
    for (int k = 0; k < t.count; k++) {
        const double place = floor(x) - (t.count / 2 - 1) + k, distance = fabs(x - place);
        const bool is_left_out = p.exclude_outside && !(place >= 0 && place <= last);
        t.at[k] = bounded(place, a.in);
        t.weight[k] = is_left_out ? 0 : t.count == 2 ? 1 - distance : cubic(distance, p.cubic_a);
        sum += t.weight[k];
    }
    for (int k = 0; k < t.count && p.exclude_outside && sum != 0; k++) {
        t.weight[k] /= sum;
    }
    return t;
}

__global__ void resize_kernel(const eng_cuda_buffers b, const eng_cuda_resize p)
{
    ENG_CUDA_FOR_EACH(i, p.count)
    {
        taps t[ENG_RANK_MAX];
        int64_t left = i, terms = 1;
        bool is_outside = false;
        for (uint32_t d = p.rank; d-- > 0;) {
            t[d] = taps_of(p, p.axes[d], left % p.axes[d].out);
            left /= p.axes[d].out;
            terms *= t[d].count;
            is_outside |= t[d].is_outside;
        }
        double sum = 0;
        for (int64_t term = 0; term < terms; term++) {
            int64_t rest = term, offset = 0, stride = 1;
            double weight = 1;
            for (uint32_t d = p.rank; d-- > 0;) {
                const int k = (int)(rest % t[d].count);
                rest /= t[d].count;
                offset += t[d].at[k] * stride;
                stride *= p.axes[d].in;
                weight *= t[d].weight[k];
            }
            sum += weight == 0 ? 0 : weight * (double)((const float *)b.in[0])[offset];
        }
        ((float *)b.out[0])[i] = is_outside ? p.extrapolation : (float)sum;
    }
}

const char *eng_cuda_start_resize(eng_cuda_stream *stream, const eng_cuda_buffers *buffers,
                                  const eng_cuda_resize *params)
{
    return eng_cuda_each(resize_kernel, params->count, stream, buffers, params);
}
