// Pooling and its gradient, 1 to 3 spatial dimensions, both layouts. Reference kernels: found by
// ref_prepare.c on the planning thread, run on the session's thread. Where the taps of a window lie
// is tabled in scratch once per run, and which of them are inside the image once per window, so
// that channels share that work. Indices of maxima count as ONNX counts them, whatever the layout.
#include "backend/ref/ref.h"

#include "backend/ref/ref_element.h"
#include "base/check.h"

#include <math.h>
#include <string.h>

// Where one element of a window lies from the window's first.
struct tap {
    int64_t at[ENG_SPATIAL_MAX];
    int64_t offset;
};

struct pool {
    const struct eng_pool *shape;
    enum eng_dtype dtype;
    const void *x;
    struct tap *table;             // [taps], in scratch
    int64_t *inside;               // [taps], in scratch: taps of the current window that lie inside
    int64_t inside_count, counted; // of the current window; counted: with padding
    int64_t window_offset, at[ENG_SPATIAL_MAX];
    int64_t in_dims[ENG_SPATIAL_MAX], out_dims[ENG_SPATIAL_MAX];
    int64_t in_stride[ENG_RANK_MAX], out_stride[ENG_RANK_MAX];
    int64_t batch, channels, taps, out_count;
};

// What a pool writes.
struct results {
    void *y;
    int64_t *indices; // of maxima; NULL: nobody asks
    int64_t index_stride[ENG_RANK_MAX];
};

// What the current window holds in one channel.
struct window {
    double most, sum; // sum: of x or of |x|^p
    int64_t most_tap; // where the maximum is, -1: nothing inside
};

static void fill_table(const struct pool *pool)
{
    for (int64_t t = 0; t < pool->taps; t++) {
        struct tap *tap = &pool->table[t];
        int64_t left = t;
        *tap = (struct tap){.offset = 0};
        for (uint32_t d = pool->shape->spatial; d-- > 0;) {
            tap->at[d] = left % pool->shape->kernel[d] * pool->shape->dilation[d];
            tap->offset += tap->at[d] * pool->in_stride[d + 2];
            left /= pool->shape->kernel[d];
        }
    }
}

static struct pool pool_of(const struct eng_step *step, const struct eng_run *run,
                           const struct eng_tensor *in, const struct eng_tensor *out)
{
    base_assert(in->desc.rank == step->command->u.pool.spatial + 2 &&
                out->desc.rank == in->desc.rank);
    struct pool p = {.shape = &step->command->u.pool,
                     .dtype = in->desc.dtype,
                     .x = eng_ref_in(step, run, 0),
                     .table = run->scratch,
                     .batch = in->desc.dims[0],
                     .channels = in->desc.dims[1],
                     .taps = 1,
                     .out_count = 1};
    eng_layout_strides(&in->desc, in->layout, p.in_stride);
    eng_layout_strides(&out->desc, out->layout, p.out_stride);
    for (uint32_t d = 0; d < p.shape->spatial; d++) {
        p.in_dims[d] = in->desc.dims[d + 2];
        p.out_dims[d] = out->desc.dims[d + 2];
        p.taps *= p.shape->kernel[d];
        p.out_count *= p.out_dims[d];
    }
    p.inside = (int64_t *)(void *)(p.table + p.taps);
    fill_table(&p);
    return p;
}

enum where { BEYOND_PADDING, IN_PADDING, INSIDE };

static enum where locate(const struct pool *pool, const struct tap *tap)
{
    enum where found = INSIDE;
    for (uint32_t d = 0; d < pool->shape->spatial; d++) {
        int64_t place = pool->at[d] + tap->at[d];
        if (place < 0 || place >= pool->in_dims[d]) {
            found = IN_PADDING;
            if (place >= pool->in_dims[d] + pool->shape->pad_end[d]) {
                return BEYOND_PADDING;
            }
        }
    }
    return found;
}

// Makes the window of output position `out` the current one.
static void move_window(struct pool *pool, int64_t out)
{
    pool->window_offset = pool->counted = pool->inside_count = 0;
    for (uint32_t d = pool->shape->spatial; d-- > 0;) {
        pool->at[d] = out % pool->out_dims[d] * pool->shape->stride[d] - pool->shape->pad_begin[d];
        pool->window_offset += pool->at[d] * pool->in_stride[d + 2];
        out /= pool->out_dims[d];
    }
    base_assert(pool->taps > 0);
    for (int64_t t = 0; t < pool->taps; t++) {
        enum where found = locate(pool, &pool->table[t]);
        pool->counted += found != BEYOND_PADDING;
        if (found == INSIDE) {
            pool->inside[pool->inside_count++] = t;
        }
    }
}

// Number of an element within its channel as ONNX counts it.
static int64_t onnx_index(const struct pool *pool, const struct tap *tap)
{
    int64_t index = 0, step = 1;
    uint32_t spatial = pool->shape->spatial;
    for (uint32_t i = 0; i < spatial; i++) {
        uint32_t d = pool->shape->column_major ? i : spatial - 1 - i;
        index += (pool->at[d] + tap->at[d]) * step;
        step *= pool->in_dims[d];
    }
    return index;
}

// The current window in one channel; `first`: its first place there (perhaps in the padding).
static struct window look(const struct pool *pool, int64_t first)
{
    struct window w = {.most_tap = -1};
    for (int64_t i = 0; i < pool->inside_count; i++) {
        int64_t t = pool->inside[i];
        double value = eng_ref_load(pool->dtype, pool->x, first + pool->table[t].offset);
        w.sum += pool->shape->fn == ENG_POOL_LP ? pow(fabs(value), (double)pool->shape->p) : value;
        if (w.most_tap < 0 || value > w.most || isnan(value)) {
            w.most = value;
            w.most_tap = t;
        }
    }
    return w;
}

static int64_t divisor_of(const struct pool *pool)
{
    return pool->shape->count_include_pad ? pool->counted : pool->inside_count;
}

static double result_of(const struct pool *pool, const struct window *window)
{
    int64_t divisor = divisor_of(pool);
    switch (pool->shape->fn) {
    case ENG_POOL_MAX:
        return window->most_tap >= 0 ? window->most : -INFINITY; // saturates in integers
    case ENG_POOL_LP:
        return pow(window->sum, 1.0 / (double)pool->shape->p);
    default:
        return divisor > 0 ? window->sum / (double)divisor : 0;
    }
}

// Physical place of output position `out` of a channel.
static int64_t out_offset(const struct pool *pool, int64_t out, const int64_t *strides)
{
    int64_t offset = 0;
    for (uint32_t d = pool->shape->spatial; d-- > 0;) {
        offset += out % pool->out_dims[d] * strides[d + 2];
        out /= pool->out_dims[d];
    }
    return offset;
}

// One channel of the current window, which belongs to output position `out` of one image.
static void pool_one(const struct pool *pool, const struct results *results, int64_t image,
                     int64_t channel, int64_t out)
{
    const int64_t *index_stride = results->index_stride;
    int64_t volume = 1;
    base_assert(image < pool->batch && channel < pool->channels && out < pool->out_count);
    struct window w =
        look(pool, image * pool->in_stride[0] + channel * pool->in_stride[1] + pool->window_offset);
    eng_ref_store(pool->dtype, results->y,
                  image * pool->out_stride[0] + channel * pool->out_stride[1] +
                      out_offset(pool, out, pool->out_stride),
                  result_of(pool, &w));
    if (results->indices == NULL) {
        return;
    }
    for (uint32_t d = 0; d < pool->shape->spatial; d++) {
        volume *= pool->in_dims[d];
    }
    int64_t at =
        image * index_stride[0] + channel * index_stride[1] + out_offset(pool, out, index_stride);
    results->indices[at] = (image * pool->channels + channel) * volume +
                           (w.most_tap < 0 ? 0 : onnx_index(pool, &pool->table[w.most_tap]));
}

static enum base_status run_pool(const struct eng_step *step, const struct eng_run *run)
{
    struct pool p = pool_of(step, run, eng_ref_in_tensor(step, 0), eng_ref_out_tensor(step, 0));
    struct results results = {.y = eng_ref_out(step, run, 0), .indices = eng_ref_out(step, run, 1)};
    if (eng_ref_has_out(step, 1)) {
        const struct eng_tensor *tensor = eng_ref_out_tensor(step, 1);
        eng_layout_strides(&tensor->desc, tensor->layout, results.index_stride);
    }
    for (int64_t o = 0; o < p.out_count; o++) {
        move_window(&p, o);
        for (int64_t nc = 0; nc < p.batch * p.channels; nc++) {
            pool_one(&p, &results, nc / p.channels, nc % p.channels, o);
        }
    }
    return BASE_OK;
}

// --- gradient ---------------------------------------------------------------------------------

static void add_to(enum eng_dtype dtype, void *data, int64_t at, double value)
{
    eng_ref_store(dtype, data, at, eng_ref_load(dtype, data, at) + value);
}

// Adds what the current window passes back to dx; `first`: its first place in the channel.
static void pass_back(const struct pool *pool, void *dx, int64_t first, double dy)
{
    base_assert(pool->inside_count <= pool->taps);
    const struct eng_pool *s = pool->shape;
    enum eng_dtype dtype = pool->dtype;
    if (s->fn == ENG_POOL_AVERAGE) {
        for (int64_t i = 0; i < pool->inside_count; i++) {
            add_to(dtype, dx, first + pool->table[pool->inside[i]].offset,
                   dy / (double)divisor_of(pool));
        }
        return;
    }
    struct window w = look(pool, first);
    if (s->fn == ENG_POOL_MAX) {
        if (w.most_tap >= 0) {
            add_to(dtype, dx, first + pool->table[w.most_tap].offset, dy);
        }
        return;
    }
    double norm = result_of(pool, &w);
    for (int64_t i = 0; i < pool->inside_count && norm > 0; i++) {
        int64_t place = first + pool->table[pool->inside[i]].offset;
        double value = eng_ref_load(dtype, pool->x, place);
        double share = copysign(pow(fabs(value) / norm, (double)(s->p - 1)), value);
        add_to(dtype, dx, place, share * dy);
    }
}

static enum base_status run_pool_grad(const struct eng_step *step, const struct eng_run *run)
{
    struct pool p = pool_of(step, run, eng_ref_in_tensor(step, 0), eng_ref_in_tensor(step, 1));
    void *dx = eng_ref_out(step, run, 0);
    memset(dx, 0, eng_desc_bytes(&eng_ref_out_tensor(step, 0)->desc));
    for (int64_t o = 0; o < p.out_count; o++) {
        int64_t place = out_offset(&p, o, p.out_stride);
        move_window(&p, o);
        for (int64_t nc = 0; nc < p.batch * p.channels; nc++) {
            int64_t n = nc / p.channels, c = nc % p.channels;
            double dy = eng_ref_load(p.dtype, eng_ref_in(step, run, 1),
                                     n * p.out_stride[0] + c * p.out_stride[1] + place);
            pass_back(&p, dx, n * p.in_stride[0] + c * p.in_stride[1] + p.window_offset, dy);
        }
    }
    return BASE_OK;
}

static enum base_status setup_pool(const struct eng_prepare *ctx, struct eng_step *step)
{
    const struct eng_pool *pool = &step->command->u.pool;
    if (pool->spatial < 1 || pool->spatial > ENG_SPATIAL_MAX) {
        return eng_ref_refuse(ctx, step, "1 to 3 spatial dimensions");
    }
    int64_t taps = 1;
    for (uint32_t d = 0; d < pool->spatial; d++) {
        if (pool->kernel[d] < 1 || __builtin_mul_overflow(taps, pool->kernel[d], &taps)) {
            return BASE_ERR_LIMIT;
        }
    }
    return eng_ref_scratch(step, taps, sizeof(struct tap) + sizeof(int64_t));
}

const struct eng_ref_kernel eng_ref_pool[] = {
    {ENG_OP_POOL, ENG_REF_NUMBERS, run_pool, setup_pool},
    {ENG_OP_POOL_GRAD, ENG_REF_FLOATS, run_pool_grad, setup_pool},
    {.run = NULL},
};
