// Pooling and its gradient, 1 to 3 spatial dimensions, both layouts. Reference kernels; run on the
// session's thread.
#include "backend/ref/ref.h"

struct pool {
    const struct eng_pool *shape;
    int64_t in_dims[ENG_SPATIAL_MAX], out_dims[ENG_SPATIAL_MAX];
    int64_t in_stride[ENG_RANK_MAX], out_stride[ENG_RANK_MAX];
    int64_t batch, channels, taps, out_count;
};

// What one window holds.
struct window {
    double most, sum;        // sum: of x or of |x|^p
    int64_t most_at;         // offset of the maximum from the first element of its channel
    int64_t most_index;      // the same as ONNX counts it
    int64_t inside, counted; // elements of the tensor; those plus padding
};

static struct pool pool_of(const struct eng_step *step, const struct eng_tensor *in,
                           const struct eng_tensor *out)
{
    struct pool p = {.shape = &step->command->u.pool,
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
    return p;
}

// The element of `tap` in the window at output position `at`. Returns 0: outside even of the
// padding, 1: in the padding, 2: element *out_offset, *out_index as ONNX counts within a channel.
static int locate(const struct pool *p, const int64_t *at, int64_t tap, int64_t *out_offset,
                  int64_t *out_index)
{
    const struct eng_pool *s = p->shape;
    int64_t offset = 0, row_major = 0, column_major = 0, column_step = 1, left = tap, row_step = 1;
    int64_t place[ENG_SPATIAL_MAX] = {0};
    int found = 2;
    for (uint32_t d = s->spatial; d-- > 0;) {
        place[d] = at[d] * s->stride[d] + left % s->kernel[d] * s->dilation[d] - s->pad_begin[d];
        left /= s->kernel[d];
        if (place[d] >= p->in_dims[d] + s->pad_end[d]) {
            return 0;
        }
        if (place[d] < 0 || place[d] >= p->in_dims[d]) {
            found = 1;
        }
        offset += place[d] * p->in_stride[d + 2];
        row_major += place[d] * row_step;
        row_step *= p->in_dims[d];
    }
    for (uint32_t d = 0; d < s->spatial; d++) {
        column_major += place[d] * column_step;
        column_step *= p->in_dims[d];
    }
    *out_offset = offset;
    *out_index = s->column_major ? column_major : row_major;
    return found;
}

static struct window look(const struct pool *p, enum eng_dtype dtype, const void *x, int64_t first,
                          int64_t out)
{
    struct window w = {.most_at = -1, .most_index = -1};
    int64_t at[ENG_SPATIAL_MAX] = {0};
    for (uint32_t d = p->shape->spatial; d-- > 0;) {
        at[d] = out % p->out_dims[d];
        out /= p->out_dims[d];
    }
    for (int64_t tap = 0; tap < p->taps; tap++) {
        int64_t offset = 0, index = 0;
        int found = locate(p, at, tap, &offset, &index);
        w.counted += found > 0;
        if (found < 2) {
            continue;
        }
        double value = eng_ref_load(dtype, x, first + offset);
        w.inside++;
        w.sum += p->shape->fn == ENG_POOL_LP ? pow(fabs(value), (double)p->shape->p) : value;
        if (w.most_at < 0 || value > w.most || isnan(value)) {
            w.most = value;
            w.most_at = offset;
            w.most_index = index;
        }
    }
    return w;
}

static double result_of(const struct eng_pool *pool, const struct window *w)
{
    int64_t divisor = pool->count_include_pad ? w->counted : w->inside;
    switch (pool->fn) {
    case ENG_POOL_MAX:
        return w->inside > 0 ? w->most : -INFINITY; // saturates in integers
    case ENG_POOL_LP:
        return pow(w->sum, 1.0 / (double)pool->p);
    default:
        return divisor > 0 ? w->sum / (double)divisor : 0;
    }
}

// Physical place of output position `out` of a channel.
static int64_t out_offset(const struct pool *p, int64_t out, const int64_t *strides)
{
    int64_t offset = 0;
    for (uint32_t d = p->shape->spatial; d-- > 0;) {
        offset += out % p->out_dims[d] * strides[d + 2];
        out /= p->out_dims[d];
    }
    return offset;
}

static enum base_status run_pool(const struct eng_step *step, const struct eng_run *run)
{
    struct pool p = pool_of(step, eng_ref_in_tensor(step, 0), eng_ref_out_tensor(step, 0));
    enum eng_dtype dtype = eng_ref_in_type(step, 0);
    int64_t *indices = eng_ref_out(step, run, 1), index_stride[ENG_RANK_MAX] = {0}, volume = 1;
    if (indices != NULL) {
        const struct eng_tensor *tensor = eng_ref_out_tensor(step, 1);
        eng_layout_strides(&tensor->desc, tensor->layout, index_stride);
    }
    for (uint32_t d = 0; d < p.shape->spatial; d++) {
        volume *= p.in_dims[d];
    }
    for (int64_t nc = 0; nc < p.batch * p.channels; nc++) {
        int64_t n = nc / p.channels, c = nc % p.channels;
        for (int64_t o = 0; o < p.out_count; o++) {
            struct window w = look(&p, dtype, eng_ref_in(step, run, 0),
                                   n * p.in_stride[0] + c * p.in_stride[1], o);
            eng_ref_store(dtype, eng_ref_out(step, run, 0),
                          n * p.out_stride[0] + c * p.out_stride[1] +
                              out_offset(&p, o, p.out_stride),
                          result_of(p.shape, &w));
            if (indices != NULL) {
                indices[n * index_stride[0] + c * index_stride[1] +
                        out_offset(&p, o, index_stride)] = nc * volume + w.most_index;
            }
        }
    }
    return BASE_OK;
}

// --- gradient ---------------------------------------------------------------------------------

// Adds what one window passes back to dx.
static void pass_back(const struct pool *p, enum eng_dtype dtype, const void *x, void *dx,
                      int64_t first, int64_t out, double dy)
{
    const struct eng_pool *s = p->shape;
    struct window w = look(p, dtype, x, first, out);
    int64_t at[ENG_SPATIAL_MAX] = {0};
    int64_t divisor = s->count_include_pad ? w.counted : w.inside;
    double norm = result_of(s, &w);
    for (uint32_t d = s->spatial; d-- > 0;) {
        at[d] = out % p->out_dims[d];
        out /= p->out_dims[d];
    }
    for (int64_t tap = 0; tap < p->taps; tap++) {
        int64_t offset = 0, index = 0;
        double share = 0;
        if (locate(p, at, tap, &offset, &index) < 2) {
            continue;
        }
        if (s->fn == ENG_POOL_MAX) {
            share = offset == w.most_at ? 1 : 0;
        } else if (s->fn == ENG_POOL_AVERAGE) {
            share = 1 / (double)divisor;
        } else if (norm > 0) {
            double value = eng_ref_load(dtype, x, first + offset);
            share = copysign(pow(fabs(value) / norm, (double)(s->p - 1)), value);
        }
        if (share != 0) {
            eng_ref_store(dtype, dx, first + offset,
                          eng_ref_load(dtype, dx, first + offset) + share * dy);
        }
    }
}

static enum base_status run_pool_grad(const struct eng_step *step, const struct eng_run *run)
{
    struct pool p = pool_of(step, eng_ref_in_tensor(step, 0), eng_ref_in_tensor(step, 1));
    enum eng_dtype dtype = eng_ref_in_type(step, 0);
    void *dx = eng_ref_out(step, run, 0);
    memset(dx, 0, eng_desc_bytes(&eng_ref_out_tensor(step, 0)->desc));
    for (int64_t nc = 0; nc < p.batch * p.channels; nc++) {
        int64_t n = nc / p.channels, c = nc % p.channels;
        for (int64_t o = 0; o < p.out_count; o++) {
            double dy = eng_ref_load(dtype, eng_ref_in(step, run, 1),
                                     n * p.out_stride[0] + c * p.out_stride[1] +
                                         out_offset(&p, o, p.out_stride));
            pass_back(&p, dtype, eng_ref_in(step, run, 0), dx,
                      n * p.in_stride[0] + c * p.in_stride[1], o, dy);
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
    return BASE_OK;
}

const struct eng_ref_kernel eng_ref_pool[] = {
    {ENG_OP_POOL, ENG_REF_NUMBERS, run_pool, setup_pool},
    {ENG_OP_POOL_GRAD, ENG_REF_FLOATS, run_pool_grad, setup_pool},
    {.run = NULL},
};
