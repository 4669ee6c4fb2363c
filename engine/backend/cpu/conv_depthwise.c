// Depthwise convolution: each channel with its own small kernel. Rows of the output are one range
// of work; at the image's edge the taps outside are left out instead of multiplied by zero.
// Prepared on the planning thread, run by the session's and the pool's.
#include "backend/cpu/conv_ops.h"

#include "backend/cpu/gemm/gemm_run.h"
#include "backend/cpu/gemm/gemm_weights.h"
#include "base/check.h"
#include "model/graph.h"

#define CHAIN_TAPS   3
#define SMALL_FLOATS 16384 // outputs below it stay on one thread

struct depthwise {
    const struct eng_gemm_kernels *kernels;
    struct eng_conv_shape shape;
    struct eng_gemm_plan act; // only its activation fields
    uint32_t x, w, y, bias, residual;
    const float *packed; // [taps][channels]; NULL: packed by each run
};

bool eng_conv_is_depthwise(const struct eng_conv_shape *shape)
{
    return shape->groups == shape->in_channels && shape->groups == shape->out_channels &&
           shape->kernel[0] == 1 && shape->in[0] == 1 && shape->out[0] == 1 && shape->pad[0] == 0 &&
           shape->kernel[1] * shape->kernel[2] <= ENG_DW_TAPS_MAX;
}

struct pack {
    const struct eng_conv_shape *shape;
    const float *weights;
};

static void pack_weights(void *ctx, void *out)
{
    const struct pack *pack = ctx;
    const int64_t taps = eng_conv_taps(pack->shape), channels = pack->shape->in_channels;
    float *to = out;
    for (int64_t t = 0; t < taps; t++) {
        for (int64_t c = 0; c < channels; c++) {
            to[t * channels + c] = pack->weights[c * taps + t];
        }
    }
}

static size_t packed_bytes(const struct eng_conv_shape *shape)
{
    return (size_t)(eng_conv_taps(shape) * shape->in_channels) * sizeof(float);
}

enum base_status eng_conv_pack_depthwise(const struct eng_prepare *ctx,
                                         const struct eng_conv_shape *shape,
                                         const struct eng_tensor *weights, const float **out)
{
    base_assert(eng_conv_is_depthwise(shape));
    const int64_t params[2] = {eng_conv_taps(shape), shape->in_channels};
    struct pack pack = {shape, weights->data};
    const struct eng_weights_form form = {ENG_PACK_DEPTHWISE, params, sizeof(params)};
    const struct eng_pack_content content = {packed_bytes(shape), pack_weights, &pack};
    const void *packed;
    BASE_TRY(eng_weights_pack(ctx, weights, &form, &content, &packed));
    *out = packed;
    return BASE_OK;
}

// Lists the taps of output pixels [from, from + pixels) of a row of all images' rows.
static void list_taps(const struct eng_dw_rows *dw_rows, int64_t out_row, int64_t from,
                      int64_t pixels, struct eng_dw_block *block)
{
    const struct eng_conv_shape *s = dw_rows->shape;
    const int64_t image = out_row / s->out[1];
    const int64_t y = out_row % s->out[1] * s->stride[1] - s->pad[1]; // of the first tap
    base_assert(pixels > 0 && pixels <= ENG_DW_PIXELS_MAX && from + pixels <= s->out[2]);
    block->tap_count = 0;
    block->all = (1u << pixels) - 1;
    for (int64_t ky = 0; ky < s->kernel[1]; ky++) {
        const int64_t row = y + ky * s->dilation[1];
        if (row < 0 || row >= s->in[1]) {
            continue;
        }
        const float *line =
            dw_rows->x + (image * s->in[1] + row) % dw_rows->ring * s->in[2] * dw_rows->x_pitch;
        for (int64_t kx = 0; kx < s->kernel[2]; kx++) {
            const int64_t first = from * s->stride[2] - s->pad[2] + kx * s->dilation[2];
            uint32_t inside = block->all;
            if (first < 0 || first + (pixels - 1) * s->stride[2] >= s->in[2]) {
                inside = 0;
                for (int64_t i = 0; i < pixels; i++) {
                    const int64_t column = first + i * s->stride[2];
                    inside |= (column >= 0 && column < s->in[2] ? 1u : 0u) << i;
                }
            }
            block->in[block->tap_count] = line + first * dw_rows->x_pitch;
            block->weights[block->tap_count] =
                dw_rows->weights + (ky * s->kernel[2] + kx) * s->in_channels;
            block->inside[block->tap_count] = (uint8_t)inside;
            block->tap_count += inside != 0;
        }
    }
}

// Whether the taps listed are what `chained` says.
static bool is_chained(const struct eng_conv_shape *shape, const struct eng_dw_block *block)
{
    if (shape->kernel[2] != CHAIN_TAPS || shape->stride[2] != 1 || shape->dilation[2] != 1 ||
        block->tap_count % CHAIN_TAPS != 0) {
        return false;
    }
    const uint32_t all = block->all;
    for (uint32_t t = 0; t < block->tap_count; t += CHAIN_TAPS) {
        if (block->in[t + 1] - block->in[t] != (ptrdiff_t)block->step ||
            block->in[t + 2] - block->in[t + 1] != (ptrdiff_t)block->step ||
            (block->inside[t] | 1u) != all || block->inside[t + 1] != all ||
            (block->inside[t + 2] | (all + 1) >> 1) != all) {
            return false;
        }
    }
    return true;
}

static bool is_inner(const struct eng_conv_shape *shape, int64_t column, int64_t pixels)
{
    const int64_t last =
        (column + pixels - 1) * shape->stride[2] + (shape->kernel[2] - 1) * shape->dilation[2];
    return column * shape->stride[2] >= shape->pad[2] && last - shape->pad[2] < shape->in[2];
}

// Whether strips of this convolution can be done row by row of the input.
static bool has_strips(const struct eng_dw_rows *dw_rows)
{
    const struct eng_conv_shape *s = dw_rows->shape;
    for (int d = 1; d < 3; d++) {
        if (s->kernel[d] != CHAIN_TAPS || s->stride[d] != 1 || s->dilation[d] != 1) {
            return false;
        }
    }
    // At most one column outside on each side.
    return dw_rows->kernels->dw_strip != NULL && s->pad[2] <= 1 &&
           s->out[2] - s->pad[2] + 1 <= s->in[2];
}

// Output rows [begin, end), at most ENG_DW_STRIP_ROWS_MAX of one image, in strips.
static void run_strips(const struct eng_dw_rows *dw_rows, int64_t begin, int64_t end)
{
    const struct eng_conv_shape *s = dw_rows->shape;
    base_assert(begin < end && end - begin <= ENG_DW_STRIP_ROWS_MAX);
    base_assert(begin / s->out[1] == (end - 1) / s->out[1]); // of one image
    const int64_t image = begin / s->out[1], first = begin % s->out[1] - s->pad[1];
    struct eng_dw_strip strip = {
        .rows = (uint32_t)(end - begin),
        .weights = dw_rows->weights,
        .step = (size_t)dw_rows->x_pitch,
        .channels = (size_t)s->in_channels,
        .out_step = (size_t)dw_rows->y_pitch,
        .out_row = (size_t)(s->out[2] * dw_rows->y_pitch),
        .bias = dw_rows->bias,
        .act = dw_rows->act->act,
        .alpha = dw_rows->act->alpha,
        .beta = dw_rows->act->beta,
    };
    const int64_t strips = (s->out[2] + ENG_DW_PIXELS_MAX - 1) / ENG_DW_PIXELS_MAX;
    for (int64_t b = 0; b < strips; b++) {
        const int64_t x = b * s->out[2] / strips, pixels = (b + 1) * s->out[2] / strips - x;
        const int64_t column = x - s->pad[2];
        for (int64_t i = 0; i < end - begin + CHAIN_TAPS - 1; i++) {
            const int64_t y = first + i, row = (image * s->in[1] + y) % dw_rows->ring;
            strip.in[i] = y >= 0 && y < s->in[1]
                              ? dw_rows->x + (row * s->in[2] + column) * dw_rows->x_pitch
                              : NULL;
        }
        strip.left = column < 0;
        strip.right = column + pixels + 1 >= s->in[2];
        const int64_t out = ((begin - dw_rows->first) * s->out[2] + x) * dw_rows->y_pitch;
        strip.out = dw_rows->y + out;
        strip.residual = dw_rows->residual != NULL ? dw_rows->residual + out : NULL;
        dw_rows->kernels->dw_strip[pixels - 1](&strip);
        for (int64_t i = begin; i < end && dw_rows->act->act_after != ENG_GEMM_ACT_NONE; i++) {
            dw_rows->kernels->act_rows(strip.out + (size_t)(i - begin) * strip.out_row,
                                       (size_t)pixels, strip.out_step, strip.channels,
                                       dw_rows->act->act_after);
        }
    }
}

static void run_blocks(const struct eng_dw_rows *dw_rows, int64_t begin, int64_t end)
{
    base_assert(dw_rows->first <= begin);
    const struct eng_conv_shape *s = dw_rows->shape;
    struct eng_dw_block block = {
        .step = (size_t)(s->stride[2] * dw_rows->x_pitch),
        .channels = (size_t)s->in_channels,
        .out_step = (size_t)dw_rows->y_pitch,
        .bias = dw_rows->bias,
        .act = dw_rows->act->act,
        .alpha = dw_rows->act->alpha,
        .beta = dw_rows->act->beta,
    };
    // Blocks of nearly equal width: 14 pixels are 7 + 7.
    const int64_t blocks = (s->out[2] + ENG_DW_PIXELS_MAX - 1) / ENG_DW_PIXELS_MAX;
    for (int64_t row = begin; row < end; row++) {
        bool inner = false; // the block before this one has all its columns: only addresses change
        int64_t before = 0;
        for (int64_t b = 0; b < blocks; b++) {
            const int64_t x = b * s->out[2] / blocks, pixels = (b + 1) * s->out[2] / blocks - x;
            const int64_t out = ((row - dw_rows->first) * s->out[2] + x) * dw_rows->y_pitch;
            const bool now_inner = is_inner(s, x, pixels);
            if (b > 0 && inner && now_inner && block.all == (1u << pixels) - 1) {
                for (uint32_t t = 0; t < block.tap_count; t++) {
                    block.in[t] += (size_t)(x - before) * block.step;
                }
            } else {
                list_taps(dw_rows, row, x, pixels, &block);
                block.chained = is_chained(s, &block);
            }
            inner = now_inner;
            before = x;
            block.out = dw_rows->y + out;
            block.residual = dw_rows->residual != NULL ? dw_rows->residual + out : NULL;
            dw_rows->kernels->dw_block[pixels - 1](&block);
            if (dw_rows->act->act_after != ENG_GEMM_ACT_NONE) {
                dw_rows->kernels->act_rows(block.out, (size_t)pixels, block.out_step,
                                           block.channels, dw_rows->act->act_after);
            }
        }
    }
}

void eng_conv_dw_rows(const struct eng_dw_rows *dw_rows, int64_t begin, int64_t end)
{
    if (!has_strips(dw_rows)) {
        run_blocks(dw_rows, begin, end);
        return;
    }
    const int64_t rows = dw_rows->shape->out[1];
    for (int64_t row = begin, last; row < end; row = last) {
        last = row + ENG_DW_STRIP_ROWS_MAX < end ? row + ENG_DW_STRIP_ROWS_MAX : end;
        const int64_t image_end = (row / rows + 1) * rows;
        last = last < image_end ? last : image_end;
        run_strips(dw_rows, row, last);
    }
}

static void run_rows(void *ctx, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    eng_conv_dw_rows(ctx, begin, end);
}

static enum base_status run_depthwise(const struct eng_step *step, const struct eng_run *run)
{
    base_assert(((const struct depthwise *)step->state)->packed != NULL || run->scratch != NULL);
    const struct depthwise *d = step->state;
    const float *packed = d->packed;
    if (packed == NULL) {
        struct pack pack = {&d->shape, run->data[d->w]};
        pack_weights(&pack, run->scratch);
        packed = run->scratch;
    }
    struct eng_dw_rows r = {
        .kernels = d->kernels,
        .shape = &d->shape,
        .act = &d->act,
        .x = run->data[d->x],
        .ring = d->shape.batch * d->shape.in[1],
        .x_pitch = d->shape.in_channels,
        .y_pitch = d->shape.in_channels,
        .weights = packed,
        .bias = eng_run_data(run, d->bias),
        .residual = eng_run_data(run, d->residual),
        .y = run->data[d->y],
    };
    const int64_t rows = d->shape.batch * d->shape.out[1];
    const int64_t row_floats = d->shape.out[2] * d->shape.out_channels;
    eng_pool_for(run->pool, rows, SMALL_FLOATS / row_floats + 1, run_rows, &r);
    return BASE_OK;
}

enum base_status eng_conv_prepare_depthwise(const struct eng_conv_job *job,
                                            struct eng_step *out_step)
{
    const struct eng_prepare *ctx = job->ctx;
    const struct eng_command *command = job->command;
    base_assert(eng_conv_is_depthwise(&job->shape));
    struct depthwise *d = base_arena_zalloc(ctx->arena, sizeof(*d));
    if (d == NULL) {
        return BASE_ERR_NOMEM;
    }
    d->kernels = ctx->kernels->gemm;
    d->shape = job->shape;
    d->x = command->inputs[0];
    d->w = command->inputs[1];
    d->y = command->outputs[0];
    d->bias = command->u.conv.epilogue.bias;
    d->residual = command->u.conv.epilogue.residual;
    eng_gemm_plan_act(&d->act, &command->u.conv.epilogue);
    const struct eng_tensor *w = &job->program->tensors[d->w];
    if (w->kind == ENG_CONST) {
        BASE_TRY(eng_conv_pack_depthwise(ctx, &d->shape, w, &d->packed));
        out_step->loose = ENG_LOOSE_WEIGHTS;
    } else {
        out_step->scratch_bytes = packed_bytes(&d->shape);
    }
    out_step->state = d;
    out_step->run = run_depthwise;
    out_step->kernel = "conv.depthwise";
    return BASE_OK;
}
