// Convolution as a product over pixels, without unfolding the image: each tap of the kernel is a
// run of channels at its own offset from the output pixel's input. Where taps would leave the
// image, the rows a band needs are first copied with their padding, into memory that stays in the
// second-level cache. Prepared on the planning thread, run by the session's.
#include "backend/cpu/conv_ops.h"

#include "backend/cpu/gemm/gemm_run.h"
#include "backend/cpu/gemm/gemm_weights.h"
#include "base/check.h"
#include "model/graph.h"

#include <string.h>

#define COLLIDING_FLOATS 512 // pixels this far apart share sets of the first-level cache
#define PITCH_PAD_FLOATS 16

struct direct {
    struct eng_gemm_plan plan;
    struct eng_conv_shape shape;
    uint32_t x, w, y, bias, residual;
    // Of a filled band: pixels of a row, floats of a pixel, rows of a plane, and how many input
    // rows and columns lie between two that are kept.
    int64_t row_pixels, pitch, plane_rows, row_step, column_step;
    size_t group_floats;  // packed weights of one group
    const float *packed;  // NULL: packed by each run
    const float *weights; // while packing
};

static int64_t min_i64(int64_t left, int64_t right)
{
    return left < right ? left : right;
}

// Input rows that `count` output rows read.
static int64_t rows_read(const struct direct *direct, int64_t count)
{
    const struct eng_conv_shape *s = &direct->shape;
    return direct->row_step > 1
               ? count
               : (count - 1) * s->stride[1] + (s->kernel[1] - 1) * s->dilation[1] + 1;
}

// Pixels `step` apart into a band.
static void copy_pixels(const struct direct *direct, const float *from, int64_t count, int64_t step,
                        float *to)
{
    const int64_t c = direct->shape.in_channels;
#if defined(__x86_64__)
    if (direct->plan.kernels->pair_step > 0) {
        const struct eng_gemm_pixels pixels = {.from = from,
                                               .count = (size_t)count,
                                               .step = (size_t)(step * c),
                                               .channels = (size_t)c,
                                               .pitch = (size_t)direct->pitch * 2};
        eng_gemm_pixels_to_bf16(&pixels, (uint16_t *)(void *)to);
        return;
    }
#endif
    if (step == 1 && direct->pitch == c) {
        memcpy(to, from, (size_t)(count * c) * sizeof(float));
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        memcpy(to + i * direct->pitch, from + i * step * c, (size_t)c * sizeof(float));
    }
}

static void fill_row(const struct direct *direct, const float *input, float *to)
{
    const struct eng_conv_shape *s = &direct->shape;
    const int64_t before = min_i64(s->pad[2], direct->row_pixels);
    const int64_t left = (s->in[2] - 1) / direct->column_step + 1; // pixels there are
    const int64_t inside = min_i64(direct->row_pixels - before, left);
    base_assert(before >= 0 && inside >= 0);
    memset(to, 0, (size_t)(before * direct->pitch) * sizeof(float));
    to += before * direct->pitch;
    copy_pixels(direct, input, inside, direct->column_step, to);
    memset(to + inside * direct->pitch, 0,
           (size_t)((direct->row_pixels - before - inside) * direct->pitch) * sizeof(float));
}

static void fill_band(const void *ctx, const float *input, const struct eng_gemm_band *band,
                      float *buffer)
{
    const struct direct *d = ctx;
    const int64_t image = band->image;
    const struct eng_conv_shape *s = &d->shape;
    base_assert(band->rows > 0 && rows_read(d, band->rows) <= d->plane_rows);
    const int64_t rows = rows_read(d, band->rows), row_floats = d->row_pixels * d->pitch;
    for (int64_t kz = 0; kz < s->kernel[0]; kz++) {
        const int64_t z = image % s->out[0] * s->stride[0] + kz * s->dilation[0] - s->pad[0];
        const int64_t plane = image / s->out[0] * s->in[0] + z;
        float *to = buffer + kz * d->plane_rows * row_floats;
        for (int64_t r = 0; r < rows; r++, to += row_floats) {
            const int64_t y = band->row * s->stride[1] - s->pad[1] + r * d->row_step;
            if (z < 0 || z >= s->in[0] || y < 0 || y >= s->in[1]) {
                memset(to, 0, (size_t)row_floats * sizeof(float));
            } else {
                fill_row(d, input + (plane * s->in[1] + y) * s->in[2] * s->in_channels, to);
            }
        }
    }
}

static void pack_weights(void *ctx, void *out)
{
    const struct direct *d = ctx;
    const struct eng_conv_shape *s = &d->shape;
    const int64_t taps = eng_conv_taps(s), channels = s->in_channels / s->groups;
    const struct eng_gemm_source source = {
        // Pairs are made within each tap's channels, which are the last dim.
        .n = d->plan.n,           .stride_n = channels * taps, .dim_count = 2,
        .dims = {taps, channels}, .strides = {1, taps},        .scale = 1.0f,
    };
    for (int64_t g = 0; g < s->groups; g++) {
        struct eng_gemm_source group = source;
        group.data = d->weights + g * source.n * source.stride_n;
        eng_gemm_pack(d->plan.kernels, &group, (float *)out + (size_t)g * d->group_floats);
    }
}

static enum base_status run_direct(const struct eng_step *step, const struct eng_run *run)
{
    const struct direct *d = step->state;
    float *scratch = run->scratch;
    const float *packed = d->packed;
    base_assert(scratch != NULL || step->scratch_bytes == 0);
    if (packed == NULL) {
        struct direct now = *d;
        now.weights = run->data[d->w];
        pack_weights(&now, scratch);
        packed = scratch;
        scratch += (size_t)d->shape.groups * d->group_floats;
    }
    const struct eng_gemm_run product = {
        .plan = &d->plan,
        .a = run->data[d->x],
        .b = packed,
        .c = run->data[d->y],
        .bias = eng_run_data(run, d->bias),
        .residual = eng_run_data(run, d->residual),
        .scratch = scratch,
    };
    eng_gemm_execute(&product, run->pool);
    return BASE_OK;
}

// Offsets of the taps; neighbours along a row are one run of channels where nothing lies between.
static enum base_status set_segments(const struct eng_prepare *ctx, struct direct *direct,
                                     int64_t row_floats, int64_t plane_floats)
{
    const struct eng_conv_shape *s = &direct->shape;
    // Floats, or pairs, of one tap.
    const int64_t channels = s->in_channels / s->groups;
    const int64_t run = direct->plan.kernels->pair_step > 0
                            ? eng_gemm_pairs(direct->plan.kernels, channels)
                            : channels;
    const bool together = s->dilation[2] == 1 && s->groups == 1 && direct->pitch == run;
    const int64_t across = together ? 1 : s->kernel[2];
    const int64_t count = s->kernel[0] * s->kernel[1] * across;
    base_assert(count > 0 && direct->pitch >= s->in_channels / 2);
    int64_t *segments = base_arena_alloc(ctx->arena, (size_t)count * sizeof(int64_t));
    if (segments == NULL) {
        return BASE_ERR_NOMEM;
    }
    for (int64_t i = 0; i < count; i++) {
        const int64_t kx = i % across, ky = i / across % s->kernel[1];
        const int64_t kz = i / across / s->kernel[1];
        segments[i] = kz * s->dilation[0] * plane_floats + ky * s->dilation[1] * row_floats +
                      kx * s->dilation[2] * direct->pitch;
        if (direct->plan.fill != NULL) { // one plane a tap
            segments[i] += kz * (1 - s->dilation[0]) * plane_floats;
        }
    }
    direct->plan.segments = segments;
    direct->plan.segment_count = (uint32_t)count;
    direct->plan.k = (uint32_t)(run * (together ? s->kernel[2] : 1));
    return BASE_OK;
}

// A read where it lies.
static enum base_status plan_in_place(const struct eng_prepare *ctx, struct direct *direct)
{
    base_assert(!direct->shape.padded);
    const struct eng_conv_shape *s = &direct->shape;
    struct eng_gemm_plan *plan = &direct->plan;
    const int64_t row = s->in[2] * s->in_channels, plane = s->in[1] * row;
    const uint32_t threads = eng_pool_threads(ctx->pool);
    BASE_TRY(set_segments(ctx, direct, row, plane));
    if (plan->images == 1 &&
        plan->rows * plan->width == s->batch * s->in[0] * s->in[1] * s->in[2]) {
        plan->lda = s->in_channels;
        eng_gemm_plan_rows(plan, plan->rows * plan->width);
        eng_gemm_plan_block(plan, threads, 0);
        return BASE_OK;
    }
    int64_t *offsets = base_arena_alloc(ctx->arena, (size_t)plan->images * sizeof(int64_t));
    if (offsets == NULL) {
        return BASE_ERR_NOMEM;
    }
    for (int64_t i = 0; i < plan->images; i++) {
        offsets[i] = (i / s->out[0] * s->in[0] + i % s->out[0] * s->stride[0]) * plane;
    }
    plan->a_offsets = offsets;
    plan->a_row = s->stride[1] * row;
    plan->lda = s->stride[2] * s->in_channels;
    eng_gemm_plan_block(plan, threads, 0);
    return BASE_OK;
}

// Floats of a pixel in a band, so that neighbours of a tile do not collide.
static void set_pitch(struct direct *direct, int64_t stride)
{
    const int64_t channels = direct->shape.in_channels;
    direct->pitch = direct->plan.kernels->pair_step > 0
                        ? eng_gemm_pairs(direct->plan.kernels, channels)
                        : channels;
    if (stride * direct->pitch % COLLIDING_FLOATS == 0) {
        direct->pitch += PITCH_PAD_FLOATS;
    }
}

// What is read behind a band: kernels with whole tiles of pairs read all rows of theirs.
static size_t tile_floats(const struct eng_gemm_plan *plan)
{
    return plan->kernels->pair_step > 1 ? (size_t)(plan->kernels->mr_max[2] * plan->lda) : 0;
}

static enum base_status plan_filled(const struct eng_prepare *ctx, struct direct *direct)
{
    const struct eng_conv_shape *s = &direct->shape;
    struct eng_gemm_plan *plan = &direct->plan;
    plan->fill = fill_band;
    plan->fill_ctx = direct;
    // A kernel one pixel wide or high keeps only the pixels it reads.
    const bool thin = s->kernel[2] == 1 && s->pad[2] == 0;
    direct->column_step = thin ? s->stride[2] : 1;
    direct->row_step = s->kernel[1] == 1 ? s->stride[1] : 1;
    const int64_t stride_x = thin ? 1 : s->stride[2];
    const int64_t stride_y = s->kernel[1] == 1 ? 1 : s->stride[1];
    direct->row_pixels = (s->out[2] - 1) * stride_x + (s->kernel[2] - 1) * s->dilation[2] + 1;
    set_pitch(direct, stride_x);
    const int64_t row = direct->row_pixels * direct->pitch;
    plan->a_row = stride_y * row;
    plan->lda = stride_x * direct->pitch;
    BASE_TRY(set_segments(ctx, direct, row, 0)); // for the sizes that blocking looks at
    eng_gemm_plan_block(plan, eng_pool_threads(ctx->pool), (size_t)(plan->a_row * s->kernel[0]));
    direct->plane_rows = rows_read(direct, plan->band_rows);
    base_assert(plan->band_rows > 0);
    plan->fill_floats = (size_t)(s->kernel[0] * direct->plane_rows * row) + tile_floats(plan);
    return set_segments(ctx, direct, row, direct->plane_rows * row);
}

// Copies the pixels of some tiles.
static void fill_points(const void *ctx, const float *input, const struct eng_gemm_band *band,
                        float *buffer)
{
    const struct direct *d = ctx;
    const int64_t c = d->shape.in_channels, first = band->row * d->plan.width;
    const int64_t pixels = min_i64(band->rows * d->plan.width, d->plan.row_limit - first);
    base_assert(band->image == 0 && pixels > 0); // all pixels are one image
    copy_pixels(d, input + first * c, pixels, 1, buffer);
}

// A kernel of one pixel over all pixels there are: rows as high as tiles like them, copied because
// they collide in the cache or are wanted as pairs.
static enum base_status plan_points(const struct eng_prepare *ctx, struct direct *direct)
{
    struct eng_gemm_plan *plan = &direct->plan;
    plan->fill = fill_points;
    plan->fill_ctx = direct;
    set_pitch(direct, 1);
    plan->lda = direct->pitch;
    BASE_TRY(set_segments(ctx, direct, 0, 0));
    eng_gemm_plan_rows(plan, plan->row_limit);
    eng_gemm_plan_block(plan, eng_pool_threads(ctx->pool), (size_t)plan->a_row);
    plan->fill_floats = (size_t)(plan->band_rows * plan->a_row) + tile_floats(plan);
    return BASE_OK;
}

static enum base_status plan_direct(const struct eng_prepare *ctx, struct direct *direct,
                                    bool point)
{
    struct eng_gemm_plan *plan = &direct->plan;
    base_assert(direct->shape.in_channels % direct->shape.groups == 0);
    base_assert(direct->shape.out_channels % direct->shape.groups == 0);
    plan->tuning = ctx->tuning;
    plan->groups = direct->shape.groups;
    plan->a_group = direct->shape.in_channels / direct->shape.groups;
    plan->n = direct->shape.out_channels / direct->shape.groups;
    plan->ldc = direct->shape.out_channels;
    direct->pitch = direct->shape.in_channels;
    direct->row_step = direct->column_step = 1;
    struct eng_conv_shape *s = &direct->shape;
    if (point) {
        s->in[2] = s->out[2] = s->batch * s->in[0] * s->in[1] * s->in[2];
        s->batch = s->in[0] = s->out[0] = s->in[1] = s->out[1] = 1;
    }
    plan->images = s->batch * s->out[0];
    plan->rows = s->out[1];
    plan->width = s->out[2];
    plan->row_limit = plan->rows * plan->width;
    plan->c_row = plan->width * plan->ldc;
    plan->c_image = plan->rows * plan->c_row;
    const bool collides = s->stride[2] * s->in_channels % (2 * COLLIDING_FLOATS) == 0;
    const bool copies = plan->kernels->pair_step > 0 || ctx->tuning == ENG_TUNING_COPY ||
                        (collides && ctx->tuning != ENG_TUNING_PLACE);
    if (point && copies && s->groups == 1) {
        BASE_TRY(plan_points(ctx, direct));
    } else if (s->padded || copies) {
        BASE_TRY(plan_filled(ctx, direct));
    } else {
        BASE_TRY(plan_in_place(ctx, direct));
    }
    direct->group_floats = eng_gemm_packed_floats(
        plan->kernels, (int64_t)plan->k * (int64_t)plan->segment_count, plan->n);
    return BASE_OK;
}

// A kernel of one pixel that reads every pixel.
static bool is_point(const struct eng_conv_shape *shape)
{
    return eng_conv_taps(shape) == 1 && !shape->padded &&
           shape->stride[0] * shape->stride[1] * shape->stride[2] == 1;
}

static enum base_status plan_forward(const struct eng_conv_job *job,
                                     const struct eng_gemm_kernels *kernels, struct direct *direct)
{
    const struct eng_command *command = job->command;
    direct->shape = job->shape;
    direct->x = command->inputs[0];
    direct->w = command->inputs[1];
    direct->y = command->outputs[0];
    direct->bias = command->u.conv.epilogue.bias;
    direct->residual = command->u.conv.epilogue.residual;
    direct->plan.kernels = kernels;
    eng_gemm_plan_act(&direct->plan, &command->u.conv.epilogue);
    return plan_direct(job->ctx, direct, is_point(&job->shape));
}

enum base_status eng_conv_plan_direct(const struct eng_conv_job *job,
                                      const struct eng_gemm_kernels *kernels,
                                      struct eng_gemm_plan *out_plan)
{
    struct direct d = {0};
    BASE_TRY(plan_forward(job, kernels, &d));
    *out_plan = d.plan;
    return BASE_OK;
}

enum base_status eng_conv_prepare_direct(const struct eng_conv_job *job,
                                         const struct eng_gemm_kernels *kernels,
                                         struct eng_step *out_step)
{
    const struct eng_prepare *ctx = job->ctx;
    const struct eng_conv_shape *s = &job->shape;
    struct direct *d = base_arena_zalloc(ctx->arena, sizeof(*d));
    if (d == NULL) {
        return BASE_ERR_NOMEM;
    }
    BASE_TRY(plan_forward(job, kernels, d));
    base_assert(d->group_floats > 0);
    const struct eng_gemm_plan *plan = &d->plan;
    const struct eng_tensor *w = &job->program->tensors[d->w];
    size_t dynamic = (size_t)s->groups * d->group_floats;
    if (w->kind == ENG_CONST) {
        const int64_t params[5] = {plan->n, plan->a_group, eng_conv_taps(s), s->groups,
                                   plan->kernels->pair_step};
        const struct eng_weights_form form = {ENG_PACK_PANELS + plan->kernels->nr, params,
                                              sizeof(params)};
        const struct eng_pack_content content = {dynamic * sizeof(float), pack_weights, d};
        const void *packed;
        d->weights = w->data;
        BASE_TRY(eng_weights_pack(ctx, w, &form, &content, &packed));
        d->packed = packed;
        out_step->loose = ENG_LOOSE_WEIGHTS;
        dynamic = 0;
    }
    out_step->scratch_bytes =
        (dynamic + plan->fill_floats * eng_pool_threads(ctx->pool)) * sizeof(float);
    out_step->state = d;
    out_step->run = run_direct;
    out_step->kernel = kernels->pair_step > 0 ? "conv.bf16"
                       : is_point(s)          ? "conv.point"
                                              : "conv.direct";
    return BASE_OK;
}
