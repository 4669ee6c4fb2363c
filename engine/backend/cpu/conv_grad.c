// Gradient of a convolution's weights as products: for each tap, dw[c][m] is x moved by the tap and
// turned around, times dy, summed over pixels. Pixels of x are turned around once for an image, one
// plane a phase of the stride, so that a tap is an offset; dy is packed once for all taps. (The
// gradient of the input is conv_direct.c's.) Prepared on the planning thread, run by the session's
// and the pool's.
#include "backend/cpu/conv_shape.h"
#include "backend/cpu/cpu_ops.h"
#include "backend/cpu/gemm_run.h"
#include "model/graph.h"

#include <string.h>

#define PITCH_PAD 16 // floats: channels must not share sets of the cache

struct grad {
    struct eng_gemm_plan plan;
    struct eng_conv_shape shape;
    uint32_t x, dy, dw;
    int64_t phases_x, rows, columns, pitch; // of one phase's plane; floats of a channel
    size_t turned_floats, packed_floats, sum_floats;
};

struct grad_run {
    const struct grad *g;
    const float *x, *dy;
    float *turned, *packed, *sums, *dw;
};

// Input rows [begin, end), padding included, of one image: every channel's pixels side by side.
static void turn_rows(void *ctx, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const struct grad_run *r = ctx;
    const struct grad *g = r->g;
    const struct eng_conv_shape *s = &g->shape;
    for (int64_t at = begin; at < end; at++) {
        const int64_t y = at - s->pad[1], phase = at % s->stride[1] * g->phases_x;
        if (y < 0 || y >= s->in[1]) {
            continue; // zero from the start
        }
        const float *from = r->x + y * s->in[2] * s->in_channels;
        for (int64_t x = 0; x < s->in[2]; x++, from += s->in_channels) {
            const int64_t column = x + s->pad[2];
            const int64_t plane = phase + column % s->stride[2];
            if (column / s->stride[2] >= g->columns || at / s->stride[1] >= g->rows) {
                continue; // no output reads it
            }
            float *to = r->turned + plane * g->rows * g->columns + at / s->stride[1] * g->columns +
                        column / s->stride[2];
            for (int64_t c = 0; c < s->in_channels; c++) {
                to[c * g->pitch] = from[c];
            }
        }
    }
}

static void pack_dy(void *ctx, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const struct grad_run *r = ctx;
    const struct eng_conv_shape *s = &r->g->shape;
    const struct eng_gemm_source source = {
        .data = r->dy,
        .n = s->out_channels,
        .stride_n = 1,
        .dim_count = 1,
        .dims = {s->out[1] * s->out[2]},
        .strides = {s->out_channels},
        .scale = 1.0f,
    };
    eng_gemm_pack_panels(r->g->plan.kernels, &source, begin, end, r->packed);
}

// Sums [tap][c][m] to dw [m][c][tap], output channels [begin, end).
static void store_rows(void *ctx, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const struct grad_run *r = ctx;
    const struct eng_conv_shape *s = &r->g->shape;
    const int64_t taps = eng_conv_taps(s), c = s->in_channels, m = s->out_channels;
    for (int64_t i = begin; i < end; i++) {
        for (int64_t j = 0; j < c; j++) {
            for (int64_t t = 0; t < taps; t++) {
                r->dw[(i * c + j) * taps + t] = r->sums[(t * c + j) * m + i];
            }
        }
    }
}

static enum base_status run_grad(const struct eng_step *step, const struct eng_run *run)
{
    const struct grad *g = step->state;
    const struct eng_conv_shape *s = &g->shape;
    struct grad_run r = {.g = g, .turned = run->scratch, .dw = run->data[g->dw]};
    r.packed = r.turned + g->turned_floats;
    r.sums = r.packed + g->packed_floats;
    memset(r.turned, 0, g->turned_floats * sizeof(float));
    memset(r.sums, 0, g->sum_floats * sizeof(float));
    const float *x = run->data[g->x], *dy = run->data[g->dy];
    for (int64_t image = 0; image < s->batch; image++) {
        r.x = x + image * s->in[1] * s->in[2] * s->in_channels;
        r.dy = dy + image * s->out[1] * s->out[2] * s->out_channels;
        eng_pool_for(run->pool, s->pad[1] + s->in[1], 8, turn_rows, &r);
        eng_pool_for(run->pool, eng_gemm_panels(g->plan.kernels, s->out_channels), 1, pack_dy, &r);
        const struct eng_gemm_run product = {
            .plan = &g->plan, .a = r.turned, .b = r.packed, .c = r.sums};
        eng_gemm_execute(&product, run->pool);
    }
    eng_pool_for(run->pool, s->out_channels, 8, store_rows, &r);
    return BASE_OK;
}

// Where each tap's first pixel lies, and each output row's.
static enum base_status set_offsets(const struct eng_prepare *ctx, struct grad *g)
{
    const struct eng_conv_shape *s = &g->shape;
    const int64_t taps = eng_conv_taps(s);
    int64_t *offsets = base_arena_alloc(ctx->arena, (size_t)taps * sizeof(int64_t));
    int64_t *segments = base_arena_alloc(ctx->arena, (size_t)s->out[1] * sizeof(int64_t));
    if (offsets == NULL || segments == NULL) {
        return BASE_ERR_NOMEM;
    }
    for (int64_t t = 0; t < taps; t++) {
        const int64_t y = t / s->kernel[2] * s->dilation[1], x = t % s->kernel[2] * s->dilation[2];
        const int64_t plane = y % s->stride[1] * g->phases_x + x % s->stride[2];
        offsets[t] =
            plane * g->rows * g->columns + y / s->stride[1] * g->columns + x / s->stride[2];
    }
    for (int64_t i = 0; i < s->out[1]; i++) {
        segments[i] = i * g->columns;
    }
    g->plan.a_offsets = offsets;
    g->plan.segments = segments;
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
        command->u.conv.spatial > 2 || command->u.conv.groups != 1) {
        return BASE_ERR_UNSUPPORTED;
    }
    BASE_TRY(eng_conv_shape_from(&command->u.conv, &x->desc, &dy->desc, &s));
    struct grad *g = base_arena_zalloc(ctx->arena, sizeof(*g));
    if (g == NULL) {
        return BASE_ERR_NOMEM;
    }
    g->shape = s;
    g->x = command->inputs[0];
    g->dy = command->inputs[1];
    g->dw = command->outputs[0];
    g->phases_x = s.stride[2];
    g->rows = s.out[1] + (s.kernel[1] - 1) * s.dilation[1] / s.stride[1];
    g->columns = s.out[2] + (s.kernel[2] - 1) * s.dilation[2] / s.stride[2];
    const int64_t plane = s.stride[1] * g->phases_x * g->rows * g->columns;
    g->pitch = (plane + PITCH_PAD) / PITCH_PAD * PITCH_PAD + PITCH_PAD;
    struct eng_gemm_plan *plan = &g->plan;
    plan->kernels = ctx->kernels->gemm;
    plan->images = eng_conv_taps(&s);
    plan->lda = g->pitch;
    plan->groups = 1;
    plan->n = plan->ldc = s.out_channels;
    plan->c_image = s.in_channels * s.out_channels;
    plan->segment_count = (uint32_t)s.out[1];
    plan->k = (uint32_t)s.out[2];
    plan->add = true;
    eng_gemm_plan_rows(plan, s.in_channels);
    eng_gemm_plan_block(plan, eng_pool_threads(ctx->pool), 0);
    BASE_TRY(set_offsets(ctx, g));
    g->turned_floats = (size_t)(s.in_channels * g->pitch);
    g->packed_floats = eng_gemm_packed_floats(plan->kernels, s.out[1] * s.out[2], s.out_channels);
    g->sum_floats = (size_t)(plan->images * plan->c_image);
    out_step->scratch_bytes = (g->turned_floats + g->packed_floats + g->sum_floats) * sizeof(float);
    out_step->state = g;
    out_step->run = run_grad;
    out_step->kernel = "conv_grad_weight.product";
    return BASE_OK;
}
