// Gradient of a depthwise convolution's weights: for each tap, the sum over pixels of x moved by it
// times dy, channel by channel. Threads share the channels. Prepared on the planning thread, run by
// the session's and the pool's.
#include "backend/cpu/conv_grad.h"

#include "backend/cpu/conv_ops.h"
#include "backend/cpu/kernel/kernels.h"
#include "backend/cpu/kernel/vec_kernels.h"
#include "base/check.h"

#include <string.h>

#define BLOCK_VECTORS 4 // of channels that are summed together

struct grad {
    const struct eng_vec_kernels *kernels;
    struct eng_conv_shape shape;
    uint32_t x, dy, dw;
    int64_t block, blocks; // channels
};

struct grad_run {
    const struct grad *g;
    const float *x, *dy;
    float *sums, *dw; // sums [tap][channel]
};

// Output positions [begin, end) of one dim whose tap `tap` lies inside the input.
static void inside(const struct eng_conv_shape *shape, uint32_t dim, int64_t tap,
                   int64_t *out_begin, int64_t *out_end)
{
    const int64_t at = tap * shape->dilation[dim] - shape->pad[dim], stride = shape->stride[dim];
    base_assert(stride > 0 && tap < shape->kernel[dim]);
    const int64_t begin = at < 0 ? (-at + stride - 1) / stride : 0;
    const int64_t end = shape->in[dim] > at ? (shape->in[dim] - 1 - at) / stride + 1 : 0;
    *out_end = end < shape->out[dim] ? end : shape->out[dim];
    *out_begin = begin < *out_end ? begin : *out_end;
}

// One output row of one image: every tap that reaches it, channels [from, from + count).
static void sum_row(const struct grad_run *run, int64_t image, int64_t out_row, int64_t from,
                    int64_t count)
{
    base_assert(from + count <= run->g->shape.in_channels);
    base_assert(out_row < run->g->shape.out[1]);
    const struct eng_conv_shape *s = &run->g->shape;
    const int64_t c = s->in_channels;
    const float *dy = run->dy + (image * s->out[1] + out_row) * s->out[2] * c + from;
    for (int64_t ky = 0; ky < s->kernel[1]; ky++) {
        const int64_t row = out_row * s->stride[1] + ky * s->dilation[1] - s->pad[1];
        if (row < 0 || row >= s->in[1]) {
            continue;
        }
        const float *x = run->x + (image * s->in[1] + row) * s->in[2] * c + from;
        for (int64_t kx = 0; kx < s->kernel[2]; kx++) {
            int64_t begin, end;
            inside(s, 2, kx, &begin, &end);
            const int64_t column = begin * s->stride[2] + kx * s->dilation[2] - s->pad[2];
            if (begin < end) {
                run->g->kernels->dot_columns(
                    x + column * c, s->stride[2] * c, dy + begin * c, c, end - begin,
                    run->sums + (ky * s->kernel[2] + kx) * c + from, count);
            }
        }
    }
}

static void sum_blocks(void *ctx, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const struct grad_run *r = ctx;
    const struct grad *g = r->g;
    const int64_t c = g->shape.in_channels, taps = eng_conv_taps(&g->shape);
    base_assert(end <= g->blocks && g->blocks * g->block >= c);
    for (int64_t b = begin; b < end; b++) {
        const int64_t from = b * g->block, count = c - from < g->block ? c - from : g->block;
        for (int64_t t = 0; t < taps; t++) {
            memset(r->sums + t * c + from, 0, (size_t)count * sizeof(float));
        }
        for (int64_t i = 0; i < g->shape.batch * g->shape.out[1]; i++) {
            sum_row(r, i / g->shape.out[1], i % g->shape.out[1], from, count);
        }
        for (int64_t i = 0; i < count * taps; i++) {
            r->dw[from * taps + i] = r->sums[i % taps * c + from + i / taps];
        }
    }
}

static enum base_status run_grad(const struct eng_step *step, const struct eng_run *run)
{
    const struct grad *g = step->state;
    struct grad_run r = {.g = g,
                         .x = run->data[g->x],
                         .dy = run->data[g->dy],
                         .sums = run->scratch,
                         .dw = run->data[g->dw]};
    eng_pool_for(run->pool, g->blocks, 1, sum_blocks, &r);
    return BASE_OK;
}

enum base_status eng_conv_prepare_grad_depthwise(const struct eng_prepare *ctx,
                                                 const struct eng_command *command,
                                                 const struct eng_conv_shape *shape,
                                                 struct eng_step *out_step)
{
    if (!eng_conv_is_depthwise(shape)) {
        return BASE_ERR_UNSUPPORTED;
    }
    struct grad *g = base_arena_zalloc(ctx->arena, sizeof(*g));
    if (g == NULL) {
        return BASE_ERR_NOMEM;
    }
    g->kernels = ctx->kernels->vec;
    g->shape = *shape;
    g->x = command->inputs[0];
    g->dy = command->inputs[1];
    g->dw = command->outputs[0];
    g->block = BLOCK_VECTORS * g->kernels->lanes;
    g->blocks = (shape->in_channels + g->block - 1) / g->block;
    out_step->scratch_bytes = (size_t)(eng_conv_taps(shape) * shape->in_channels) * sizeof(float);
    out_step->state = g;
    out_step->run = run_grad;
    out_step->kernel = "conv_grad_weight.depthwise";
    return BASE_OK;
}
