// Gradient of a convolution's weights as products over pixels: for each row of taps, x moved by it
// and turned, times dy. Both are read where they lie; where taps leave the image, the rows a band
// of output rows needs are copied first with their padding. Small weights: every thread sums bands
// of its own, and the sums are added up; large ones: the threads share the weights, band by band.
// (3 x 3 kernels with stride 1 are conv_grad_wino.c's; the gradient of the input is
// conv_grad_input.c's.) Prepared on the planning thread, run by the session's and the pool's.
#include "backend/cpu/conv_grad.h"

#include "backend/cpu/cpu_ops.h"
#include "backend/cpu/gemm/gemm_run.h"
#include "base/check.h"
#include "model/graph.h"

#include <string.h>

#define BAND_PIXELS      512 // of the output, about: what a tile sums before its sums are stored
#define OWN_BYTES        (512 << 10) // weights up to this size are summed by each thread
#define COLLIDING_FLOATS 256         // pixels this far apart share sets of the caches
#define PITCH_PAD        16

struct grad {
    const struct eng_gemm_kernels *kernels;
    struct eng_conv_shape shape;
    uint32_t x, dy, dw;
    // Rows of the product, which are channels of taps: `groups` runs of `run` floats that lie
    // together, at these offsets from an output pixel's input.
    int64_t groups, run;
    const int64_t *offsets;
    int64_t tile_rows, tiles;  // of a run
    int64_t bands, band_rows;  // of an image; with band_images above 1, one band
    int64_t band_images;       // whole images of a band
    bool copies, is_own;       // x is copied; each thread has its own sums
    int64_t pitch, row_floats; // of a pixel and a row as read
    int64_t image_floats;      // from an image to the next, as read
    size_t copy_floats, sum_floats;
    const int64_t *segments; // where each output row of a band begins
};

struct grad_run {
    const struct grad *g;
    const float *x, *dy;
    float *copies, *sums, *dw;
    bool *begun; // by thread: its sums hold something
    uint32_t sum_count;
    // The band all threads share.
    int64_t band;
};

// What a band covers.
struct band {
    int64_t image, images; // the first, and how many
    int64_t row, rows;     // output rows of each
    float *copy;           // the rows of x they read, with their padding; NULL: read where they lie
};

// What products are added up in.
struct sums {
    float *at;     // [tap][channel][output channel]
    bool is_begun; // holds something already
};

static struct band band_of(const struct grad *grad, int64_t index)
{
    const int64_t image = index / grad->bands * grad->band_images;
    const int64_t row = index % grad->bands * grad->band_rows;
    const int64_t images = grad->shape.batch - image, rows = grad->shape.out[1] - row;
    base_assert(index >= 0 && images > 0 && rows > 0);
    return (struct band){.image = image,
                         .images = images < grad->band_images ? images : grad->band_images,
                         .row = row,
                         .rows = rows < grad->band_rows ? rows : grad->band_rows};
}

static int64_t band_count(const struct grad *grad)
{
    return (grad->shape.batch + grad->band_images - 1) / grad->band_images * grad->bands;
}

// Input rows that `rows` output rows read.
static int64_t rows_read(const struct eng_conv_shape *shape, int64_t rows)
{
    return (rows - 1) * shape->stride[1] + (shape->kernel[1] - 1) * shape->dilation[1] + 1;
}

// One row of pixels with its padding; `row` counts from the image's first.
static void copy_row(const struct grad *grad, const float *image, int64_t row, float *to)
{
    base_assert(grad->row_floats % grad->pitch == 0);
    const struct eng_conv_shape *s = &grad->shape;
    const int64_t c = s->in_channels, pixels = grad->row_floats / grad->pitch;
    const int64_t before = s->pad[2] < pixels ? s->pad[2] : pixels;
    const int64_t inside = pixels - before < s->in[2] ? pixels - before : s->in[2];
    if (row < 0 || row >= s->in[1]) {
        memset(to, 0, (size_t)grad->row_floats * sizeof(float));
        return;
    }
    const float *from = image + row * s->in[2] * c;
    memset(to, 0, (size_t)(before * grad->pitch) * sizeof(float));
    to += before * grad->pitch;
    if (grad->pitch == c) {
        memcpy(to, from, (size_t)(inside * c) * sizeof(float));
    } else {
        for (int64_t i = 0; i < inside; i++) {
            memcpy(to + i * grad->pitch, from + i * c, (size_t)c * sizeof(float));
        }
    }
    memset(to + inside * grad->pitch, 0,
           (size_t)((pixels - before - inside) * grad->pitch) * sizeof(float));
}

// Rows [begin, end) of those a band reads, of all its images one after the other.
static void copy_rows(const struct grad_run *run, const struct band *band, int64_t begin,
                      int64_t end)
{
    base_assert(run->g->copies && band->copy != NULL);
    const struct eng_conv_shape *s = &run->g->shape;
    const int64_t rows = rows_read(s, band->rows), image_floats = s->in[1] * s->in[2];
    for (int64_t i = begin; i < end; i++) {
        const int64_t image = i / rows, y = band->row * s->stride[1] - s->pad[1] + i % rows;
        copy_row(run->g, run->x + (band->image + image) * image_floats * s->in_channels, y,
                 band->copy + image * run->g->image_floats + i % rows * run->g->row_floats);
    }
}

// Tiles [begin, end) of a band's product: panels of dy's channels, by groups and rows of them.
static void sum_tiles(const struct grad_run *run, const struct band *band, int64_t begin,
                      int64_t end, const struct sums *sums)
{
    base_assert(band->images <= run->g->band_images);
    base_assert(band->rows <= run->g->band_rows);
    const struct grad *g = run->g;
    const struct eng_conv_shape *s = &g->shape;
    const int64_t m = s->out_channels, nr = g->kernels->nr, vl = g->kernels->vl;
    const int64_t in_place =
        band->image * g->image_floats + band->row * s->stride[1] * g->row_floats;
    const float *x = band->copy != NULL ? band->copy : run->x + in_place;
    const float *dy = run->dy + (band->image * s->out[1] + band->row) * s->out[2] * m;
    float *to = sums->at;
    struct eng_gemm_turned tile = {
        .a_step = (size_t)(s->stride[2] * g->pitch),
        .segments = g->segments,
        .segment_count = (uint32_t)(band->images * band->rows),
        .k = (uint32_t)s->out[2],
        .b_step = (size_t)m,
        .ldc = (size_t)m,
        .accumulate = sums->is_begun,
    };
    for (int64_t i = begin; i < end; i++) {
        const int64_t column = i / (g->groups * g->tiles) * nr;
        const int64_t group = i / g->tiles % g->groups, row = i % g->tiles * g->tile_rows;
        const int64_t left = g->run - row, rows = left < g->tile_rows ? left : g->tile_rows;
        tile.n = (uint32_t)(m - column < nr ? m - column : nr);
        tile.a = x + g->offsets[group] + row;
        tile.b = dy + column;
        tile.c = to + (group * g->run + row) * m + column;
        g->kernels->turned[(tile.n + vl - 1) / vl][rows - 1](&tile);
    }
}

static int64_t tile_count(const struct grad *grad)
{
    return eng_gemm_panels(grad->kernels, grad->shape.out_channels) * grad->groups * grad->tiles;
}

// A thread's own bands.
static void run_bands(void *ctx, int64_t begin, int64_t end, uint32_t worker)
{
    const struct grad_run *r = ctx;
    const struct grad *g = r->g;
    base_assert(worker < r->sum_count);
    for (int64_t i = begin; i < end; i++) {
        struct band band = band_of(g, i);
        if (g->copies) {
            band.copy = r->copies + worker * g->copy_floats;
            copy_rows(r, &band, 0, band.images * rows_read(&g->shape, band.rows));
        }
        const struct sums sums = {r->sums + worker * g->sum_floats, r->begun[worker]};
        sum_tiles(r, &band, 0, tile_count(g), &sums);
        r->begun[worker] = true;
    }
}

static void copy_shared(void *ctx, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const struct grad_run *r = ctx;
    struct band band = band_of(r->g, r->band);
    band.copy = r->copies;
    copy_rows(r, &band, begin, end);
}

static void sum_shared(void *ctx, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const struct grad_run *r = ctx;
    struct band band = band_of(r->g, r->band);
    band.copy = r->g->copies ? r->copies : NULL;
    const struct sums sums = {r->sums, r->band > 0};
    sum_tiles(r, &band, begin, end, &sums);
}

// Sums [tap][c][m] to dw [m][c][tap], for output channels [begin, end). Some channels at a time,
// so that each line read is used while it is there.
static void store_channels(void *ctx, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const struct grad_run *r = ctx;
    const struct eng_conv_shape *s = &r->g->shape;
    const int64_t taps = eng_conv_taps(s), c = s->in_channels, m = s->out_channels;
    base_assert(end <= m);
    for (int64_t from = begin; from < end; from += ENG_GRAD_STORE_CHANNELS) {
        const int64_t left = end - from;
        const int64_t count = left < ENG_GRAD_STORE_CHANNELS ? left : ENG_GRAD_STORE_CHANNELS;
        for (int64_t j = 0; j < c * taps; j++) {
            const float *row = r->sums + (j % taps * c + j / taps) * m + from;
            float sum[ENG_GRAD_STORE_CHANNELS];
            memcpy(sum, row, (size_t)count * sizeof(float));
            for (uint32_t n = 1; n < r->sum_count; n++) {
                for (int64_t l = 0; r->begun[n] && l < count; l++) {
                    sum[l] += row[n * r->g->sum_floats + (size_t)l];
                }
            }
            for (int64_t l = 0; l < count; l++) {
                r->dw[(from + l) * c * taps + j] = sum[l];
            }
        }
    }
}

static enum base_status run_grad(const struct eng_step *step, const struct eng_run *run)
{
    const struct grad *g = step->state;
    const uint32_t threads = eng_pool_threads(run->pool);
    base_assert(threads <= ENG_THREADS_MAX);
    bool begun[ENG_THREADS_MAX] = {false};
    struct grad_run r = {.g = g,
                         .x = run->data[g->x],
                         .dy = run->data[g->dy],
                         .sums = run->scratch,
                         .dw = run->data[g->dw],
                         .begun = begun,
                         .sum_count = g->is_own ? threads : 1};
    r.copies = r.sums + r.sum_count * g->sum_floats;
    if (g->is_own) {
        eng_pool_for(run->pool, band_count(g), 1, run_bands, &r);
        if (!begun[0]) { // the first sums are the ones the others are added to
            memset(r.sums, 0, g->sum_floats * sizeof(float));
        }
    }
    for (r.band = 0; !g->is_own && r.band < band_count(g); r.band++) {
        const struct band band = band_of(g, r.band);
        if (g->copies) {
            eng_pool_for(run->pool, band.images * rows_read(&g->shape, band.rows), 4, copy_shared,
                         &r);
        }
        eng_pool_for(run->pool, tile_count(g), 4, sum_shared, &r);
    }
    eng_pool_for(run->pool, g->shape.out_channels, ENG_GRAD_STORE_CHANNELS, store_channels, &r);
    return BASE_OK;
}

// How x is read: where it lies, or copied with its padding and without collisions.
static void plan_copy(struct grad *grad)
{
    const struct eng_conv_shape *s = &grad->shape;
    const int64_t c = s->in_channels;
    grad->copies = s->padded;
    grad->pitch = c;
    grad->row_floats = s->in[2] * c;
    grad->image_floats = s->in[1] * grad->row_floats;
    if (grad->copies) {
        const int64_t columns =
            (s->out[2] - 1) * s->stride[2] + (s->kernel[2] - 1) * s->dilation[2];
        grad->pitch = c % COLLIDING_FLOATS == 0 ? c + PITCH_PAD : c;
        grad->row_floats = (columns + 1) * grad->pitch;
        grad->image_floats = rows_read(s, grad->band_rows) * grad->row_floats;
        grad->copy_floats = (size_t)(grad->band_images * grad->image_floats + PITCH_PAD);
    }
    const bool together = s->dilation[2] == 1 && grad->pitch == c;
    grad->run = together ? c * s->kernel[2] : c;
    grad->groups = together ? s->kernel[1] : s->kernel[1] * s->kernel[2];
    const int64_t most = grad->kernels->mr_max[2];
    grad->tiles = (grad->run + most - 1) / most;
    grad->tile_rows = (grad->run + grad->tiles - 1) / grad->tiles;
    base_assert(grad->tile_rows > 0);
    base_assert(grad->tile_rows <= most); // as there are kernels
    grad->tiles = (grad->run + grad->tile_rows - 1) / grad->tile_rows;
}

static void plan_bands(struct grad *grad, uint32_t threads)
{
    const struct eng_conv_shape *s = &grad->shape;
    const int64_t image = s->out[1] * s->out[2];
    grad->sum_floats = (size_t)(eng_conv_taps(s) * s->in_channels * s->out_channels);
    grad->is_own = threads > 1 && grad->sum_floats * sizeof(float) <= OWN_BYTES;
    int64_t wanted = BAND_PIXELS;
    if (grad->is_own && s->batch * image < BAND_PIXELS * 4 * (int64_t)threads) {
        wanted = s->batch * image / 4 / threads;
    }
    grad->band_images = image >= wanted ? 1 : wanted / image;
    grad->band_images = grad->band_images < s->batch ? grad->band_images : s->batch;
    grad->bands = grad->band_images > 1 || image <= wanted ? 1 : (image + wanted - 1) / wanted;
    grad->band_rows = (s->out[1] + grad->bands - 1) / grad->bands;
    grad->bands = (s->out[1] + grad->band_rows - 1) / grad->band_rows;
}

// Where each run of rows and each output row begins.
static enum base_status set_offsets(const struct eng_prepare *ctx, struct grad *grad)
{
    const struct eng_conv_shape *s = &grad->shape;
    base_assert(grad->band_rows > 0 && grad->groups % grad->shape.kernel[1] == 0);
    const int64_t rows = grad->band_images * grad->band_rows, across = grad->groups / s->kernel[1];
    int64_t *offsets = base_arena_alloc(ctx->arena, (size_t)grad->groups * sizeof(int64_t));
    int64_t *segments = base_arena_alloc(ctx->arena, (size_t)rows * sizeof(int64_t));
    if (offsets == NULL || segments == NULL) {
        return BASE_ERR_NOMEM;
    }
    for (int64_t i = 0; i < grad->groups; i++) {
        offsets[i] = i / across * s->dilation[1] * grad->row_floats +
                     i % across * s->dilation[2] * grad->pitch;
    }
    for (int64_t i = 0; i < rows; i++) {
        segments[i] = i / grad->band_rows * grad->image_floats +
                      i % grad->band_rows * s->stride[1] * grad->row_floats;
    }
    grad->offsets = offsets;
    grad->segments = segments;
    return BASE_OK;
}

static enum base_status prepare_direct(const struct eng_prepare *ctx,
                                       const struct eng_command *command,
                                       const struct eng_conv_shape *shape,
                                       struct eng_step *out_step)
{
    const uint32_t threads = eng_pool_threads(ctx->pool);
    struct grad *g = base_arena_zalloc(ctx->arena, sizeof(*g));
    if (g == NULL) {
        return BASE_ERR_NOMEM;
    }
    g->kernels = ctx->kernels->gemm;
    g->shape = *shape;
    g->x = command->inputs[0];
    g->dy = command->inputs[1];
    g->dw = command->outputs[0];
    plan_bands(g, threads);
    plan_copy(g);
    BASE_TRY(set_offsets(ctx, g));
    const uint32_t own = g->is_own ? threads : 1;
    out_step->scratch_bytes = own * (g->sum_floats + g->copy_floats) * sizeof(float);
    out_step->state = g;
    out_step->run = run_grad;
    out_step->kernel = "conv_grad_weight.direct";
    return BASE_OK;
}

enum base_status eng_cpu_prepare_conv_grad_weight(const struct eng_prepare *ctx,
                                                  const struct eng_program *program,
                                                  const struct eng_command *command,
                                                  struct eng_step *out_step)
{
    const struct eng_tensor *x = &program->tensors[command->inputs[0]];
    const struct eng_tensor *dy = &program->tensors[command->inputs[1]];
    const struct eng_tensor *dw = &program->tensors[command->outputs[0]];
    struct eng_conv_shape s;
    if (x->layout != ENG_CHANNELS_LAST || dy->layout != ENG_CHANNELS_LAST ||
        x->desc.dtype != ENG_F32 || dy->desc.dtype != ENG_F32 || dw->desc.dtype != ENG_F32 ||
        command->u.conv.spatial > 2) {
        return BASE_ERR_UNSUPPORTED;
    }
    BASE_TRY(eng_conv_shape_from(&command->u.conv, &x->desc, &dy->desc, &s));
    if (s.groups > 1) {
        return eng_conv_prepare_grad_depthwise(ctx, command, &s, out_step);
    }
    enum base_status status = eng_conv_prepare_grad_wino(ctx, command, &s, out_step);
    return status != BASE_ERR_UNSUPPORTED ? status : prepare_direct(ctx, command, &s, out_step);
}
