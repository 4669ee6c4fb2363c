// Depthwise convolution: each channel with its own small kernel. Rows of the output are one range
// of work; at the image's edge the taps outside are left out instead of multiplied by zero.
// Prepared on the planning thread, run by the session's and the pool's.
#include "backend/cpu/conv_ops.h"

#include "backend/cpu/gemm_run.h"
#include "backend/cpu/gemm_weights.h"
#include "model/graph.h"

#define SMALL_FLOATS 16384 // outputs below it stay on one thread

struct depthwise {
    const struct eng_gemm_kernels *kernels;
    struct eng_conv_shape shape;
    struct eng_gemm_plan act; // only its activation fields
    uint32_t x, w, y, bias, residual;
    const float *packed;  // [taps][channels]; NULL: packed by each run
    const float *weights; // while packing
};

bool eng_conv_is_depthwise(const struct eng_conv_shape *s)
{
    return s->groups == s->in_channels && s->groups == s->out_channels && s->kernel[0] == 1 &&
           s->in[0] == 1 && s->out[0] == 1 && s->pad[0] == 0 && s->kernel[1] <= ENG_DW_ROWS_MAX;
}

static void pack_weights(void *ctx, void *out)
{
    const struct depthwise *d = ctx;
    const int64_t taps = eng_conv_taps(&d->shape), channels = d->shape.in_channels;
    float *to = out;
    for (int64_t t = 0; t < taps; t++) {
        for (int64_t c = 0; c < channels; c++) {
            to[t * channels + c] = d->weights[c * taps + t];
        }
    }
}

struct depthwise_run {
    const struct depthwise *d;
    const float *x, *w, *bias, *residual;
    float *y;
};

// Kernel positions [*first, *last) whose input coordinate lies inside [0, size).
static void taps_inside(int64_t origin, int64_t dilation, int64_t kernel, int64_t size,
                        int64_t *first, int64_t *last)
{
    *first = origin >= 0 ? 0 : (-origin + dilation - 1) / dilation;
    *last = size <= origin ? 0 : (size - origin + dilation - 1) / dilation;
    *last = *last < kernel ? *last : kernel;
    *first = *first < *last ? *first : *last;
}

// Output pixels [begin, end) of a row whose taps [first, last) along the row exist.
static void run_pixels(const struct depthwise_run *r, struct eng_dw_run *run, int64_t row,
                       const int64_t rows[2], int64_t begin, int64_t end)
{
    const struct eng_conv_shape *s = &r->d->shape;
    const int64_t channels = s->in_channels, image = row / s->out[1];
    const int64_t y = row % s->out[1] * s->stride[1] - s->pad[1];
    const int64_t x = begin * s->stride[2] - s->pad[2];
    int64_t first, last;
    taps_inside(x, s->dilation[2], s->kernel[2], s->in[2], &first, &last);
    for (int64_t ky = rows[0]; ky < rows[1]; ky++) {
        const int64_t line = image * s->in[1] + y + ky * s->dilation[1];
        run->in[ky - rows[0]] = r->x + (line * s->in[2] + x + first * s->dilation[2]) * channels;
        run->weights[ky - rows[0]] = r->w + (ky * s->kernel[2] + first) * channels;
    }
    run->kh = (uint32_t)(rows[1] - rows[0]);
    run->kw = (uint32_t)(last - first);
    run->count = (size_t)(end - begin);
    const int64_t out = (row * s->out[2] + begin) * channels;
    run->out = r->y + out;
    run->residual = r->residual != NULL ? r->residual + out : NULL;
    r->d->kernels->dw_run(run);
    if (r->d->act.act_after != ENG_GEMM_ACT_NONE) {
        r->d->kernels->act_rows(run->out, run->count, run->channels, run->channels,
                                r->d->act.act_after);
    }
}

static void run_rows(void *ctx, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const struct depthwise_run *r = ctx;
    const struct eng_conv_shape *s = &r->d->shape;
    struct eng_dw_run run = {
        .step = (size_t)(s->stride[2] * s->in_channels),
        .tap = (size_t)(s->dilation[2] * s->in_channels),
        .channels = (size_t)s->in_channels,
        .bias = r->bias,
        .act = r->d->act.act,
        .alpha = r->d->act.alpha,
        .beta = r->d->act.beta,
    };
    // Columns [inner, outer) have all their taps.
    const int64_t reach = (s->kernel[2] - 1) * s->dilation[2];
    int64_t inner = (s->pad[2] + s->stride[2] - 1) / s->stride[2];
    int64_t outer = s->in[2] + s->pad[2] - reach <= 0
                        ? 0
                        : (s->in[2] + s->pad[2] - reach - 1) / s->stride[2] + 1;
    outer = outer < s->out[2] ? outer : s->out[2];
    inner = inner < outer ? inner : outer;
    for (int64_t row = begin; row < end; row++) {
        int64_t rows[2];
        taps_inside(row % s->out[1] * s->stride[1] - s->pad[1], s->dilation[1], s->kernel[1],
                    s->in[1], &rows[0], &rows[1]);
        for (int64_t x = 0; x < inner; x++) {
            run_pixels(r, &run, row, rows, x, x + 1);
        }
        if (inner < outer) {
            run_pixels(r, &run, row, rows, inner, outer);
        }
        for (int64_t x = outer; x < s->out[2]; x++) {
            run_pixels(r, &run, row, rows, x, x + 1);
        }
    }
}

static const float *optional_data(const struct eng_run *run, uint32_t tensor)
{
    return tensor != ENG_NONE ? run->data[tensor] : NULL;
}

static enum base_status run_depthwise(const struct eng_step *step, const struct eng_run *run)
{
    const struct depthwise *d = step->state;
    const float *packed = d->packed;
    if (packed == NULL) {
        struct depthwise now = *d;
        now.weights = run->data[d->w];
        pack_weights(&now, run->scratch);
        packed = run->scratch;
    }
    struct depthwise_run r = {
        .d = d,
        .x = run->data[d->x],
        .w = packed,
        .bias = optional_data(run, d->bias),
        .residual = optional_data(run, d->residual),
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
    const int64_t params[2] = {eng_conv_taps(&d->shape), d->shape.in_channels};
    const size_t bytes = (size_t)(params[0] * params[1]) * sizeof(float);
    if (w->kind == ENG_CONST) {
        const void *packed;
        d->weights = w->data;
        BASE_TRY(eng_weights_pack(ctx, w, ENG_PACK_DEPTHWISE, params, sizeof(params), bytes,
                                  pack_weights, d, &packed));
        d->packed = packed;
        out_step->loose = ENG_LOOSE_WEIGHTS;
    } else {
        out_step->scratch_bytes = bytes;
    }
    out_step->state = d;
    out_step->run = run_depthwise;
    out_step->kernel = "conv.depthwise";
    return BASE_OK;
}
