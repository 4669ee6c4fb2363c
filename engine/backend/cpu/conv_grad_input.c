// Gradient of a convolution by its input as products over pixels. Where the convolution has
// strides, pixels of the input fall into phases: those of one phase are reached by the same taps,
// and their gradients are a convolution of dy by these taps alone, stored stride pixels apart. dy
// is copied with zeroes around it where taps reach beyond it; weights are packed by each run. (3 x
// 3 kernels with stride 1 are conv_wino_live.c's.) Prepared on the planning thread, run by the
// session's and the pool's.
#include "backend/cpu/conv_grad.h"

#include "backend/cpu/cpu_ops.h"
#include "backend/cpu/gemm/gemm_run.h"
#include "base/check.h"
#include "model/graph.h"

#include <string.h>

#define COLLIDING_FLOATS 512 // pixels this far apart share sets of the first-level cache
#define PITCH_PAD        16
#define PHASES_MAX       64
#define TAPS_MAX         1024

struct phase {
    struct eng_gemm_plan plan;
    int64_t first;       // float of dx
    int64_t taps;        // that reach it
    size_t packed;       // floats into the packed weights
    size_t group_floats; // of one group
};

// Which phase a tap belongs to, and its place among the taps of that phase.
struct tap {
    int64_t phase, slot;
};

struct grad {
    const struct eng_gemm_kernels *kernels;
    struct eng_conv_shape shape; // of the forward convolution
    uint32_t dy, w, dx;
    bool copies;
    int64_t low[2], rows, columns; // of dy as read: the first row and column, and how many
    int64_t pitch;                 // floats of a pixel
    size_t packed_floats, copy_floats;
    int64_t phase_count;
    struct phase *phases;
    struct tap *taps;
};

struct grad_run {
    const struct grad *g;
    const float *dy, *w;
    float *copy, *packed, *dx;
};

static int64_t floor_div(int64_t left, int64_t right)
{
    base_assert(right > 0);
    return left >= 0 ? left / right : -((-left + right - 1) / right);
}

// --- running ----------------------------------------------------------------------------------

// Rows [begin, end) of dy with what lies around it, of all images.
static void copy_rows(void *ctx, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const struct grad_run *r = ctx;
    const struct grad *g = r->g;
    const struct eng_conv_shape *s = &g->shape;
    const int64_t m = s->out_channels, row_floats = g->columns * g->pitch;
    base_assert(g->copies && end <= s->batch * g->rows);
    for (int64_t i = begin; i < end; i++) {
        const int64_t y = i % g->rows + g->low[0];
        float *to = r->copy + i * row_floats;
        if (y < 0 || y >= s->out[1]) {
            memset(to, 0, (size_t)row_floats * sizeof(float));
            continue;
        }
        const float *from = r->dy + (i / g->rows * s->out[1] + y) * s->out[2] * m;
        for (int64_t j = 0; j < g->columns; j++, to += g->pitch) {
            const int64_t x = j + g->low[1];
            if (x < 0 || x >= s->out[2]) {
                memset(to, 0, (size_t)m * sizeof(float));
            } else {
                memcpy(to, from + x * m, (size_t)m * sizeof(float));
            }
        }
    }
}

// Weights [m][c][tap], output channels [begin, end): to the panels of each tap's phase.
static void pack_channels(void *ctx, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const struct grad_run *r = ctx;
    const struct grad *g = r->g;
    const struct eng_conv_shape *s = &g->shape;
    const int64_t c = s->in_channels / s->groups, m = s->out_channels / s->groups;
    const int64_t taps = eng_conv_taps(s), nr = g->kernels->nr, vl = g->kernels->vl;
    base_assert(g->phase_count > 0 && end <= s->out_channels);
    for (int64_t i = begin; i < end; i++) {
        for (int64_t column = 0; column < c; column += nr) {
            const int64_t n = c - column < nr ? c - column : nr, width = (n + vl - 1) / vl * vl;
            const float *w = r->w + (i * c + column) * taps;
            for (int64_t t = 0; t < taps; t++) {
                const struct phase *phase = &g->phases[g->taps[t].phase];
                float *to = r->packed + phase->packed + (size_t)(i / m) * phase->group_floats +
                            column * phase->taps * m + (g->taps[t].slot * m + i % m) * width;
                for (int64_t l = 0; l < n; l++) {
                    to[l] = w[l * taps + t];
                }
                for (int64_t l = n; l < width; l++) {
                    to[l] = 0;
                }
            }
        }
    }
}

// Pixels that no tap reaches: rows [begin, end) of dx.
static void clear_rows(void *ctx, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const struct grad_run *r = ctx;
    const int64_t row = r->g->shape.in[2] * r->g->shape.in_channels;
    memset(r->dx + begin * row, 0, (size_t)((end - begin) * row) * sizeof(float));
}

static enum base_status run_grad(const struct eng_step *step, const struct eng_run *run)
{
    const struct grad *g = step->state;
    const struct eng_conv_shape *s = &g->shape;
    base_assert(g->phase_count <= s->stride[1] * s->stride[2]);
    struct grad_run r = {.g = g,
                         .dy = run->data[g->dy],
                         .w = run->data[g->w],
                         .packed = run->scratch,
                         .dx = run->data[g->dx]};
    r.copy = r.packed + g->packed_floats;
    if (g->copies) {
        eng_pool_for(run->pool, s->batch * g->rows, 8, copy_rows, &r);
    }
    eng_pool_for(run->pool, s->out_channels, 8, pack_channels, &r);
    if (g->phase_count < s->stride[1] * s->stride[2]) {
        eng_pool_for(run->pool, s->batch * s->in[1], 8, clear_rows, &r);
    }
    for (int64_t p = 0; p < g->phase_count; p++) {
        const struct phase *phase = &g->phases[p];
        const struct eng_gemm_run product = {.plan = &phase->plan,
                                             .a = g->copies ? r.copy : r.dy,
                                             .b = r.packed + phase->packed,
                                             .c = r.dx + phase->first};
        eng_gemm_execute(&product, run->pool);
    }
    return BASE_OK;
}

// --- planning ---------------------------------------------------------------------------------

// Along one dim: which row of dy the tap at `tap` adds to a phase's first pixel; false: to none.
static bool reach(const struct eng_conv_shape *shape, uint32_t dim, int64_t phase, int64_t tap,
                  int64_t *out_row)
{
    const int64_t at = phase + shape->pad[dim] - tap * shape->dilation[dim],
                  stride = shape->stride[dim];
    *out_row = floor_div(at, stride);
    return *out_row * stride == at;
}

// Pixels of one phase along a dim.
static int64_t phase_size(const struct eng_conv_shape *shape, uint32_t dim, int64_t phase)
{
    return (shape->in[dim] - phase + shape->stride[dim] - 1) / shape->stride[dim];
}

// The rows (or columns) of dy that are read, from the first to one past the last.
static void find_reach(const struct eng_conv_shape *shape, uint32_t dim, int64_t *out_low,
                       int64_t *out_count)
{
    int64_t low = 0, high = shape->out[dim];
    for (int64_t phase = 0; phase < shape->stride[dim]; phase++) {
        for (int64_t k = 0; k < shape->kernel[dim]; k++) {
            int64_t row;
            const int64_t size = phase_size(shape, dim, phase);
            if (size > 0 && reach(shape, dim, phase, k, &row)) {
                low = row < low ? row : low;
                high = row + size > high ? row + size : high;
            }
        }
    }
    base_assert(low <= 0 && high >= shape->out[dim]); // all of dy at least
    *out_low = low;
    *out_count = high - low;
}

// One phase's product; taps 0 when nothing reaches it.
static enum base_status plan_phase(const struct eng_prepare *ctx, struct grad *grad, int64_t py,
                                   int64_t px, struct phase *phase)
{
    const struct eng_conv_shape *s = &grad->shape;
    const int64_t row_floats = grad->columns * grad->pitch, m = s->out_channels / s->groups;
    base_assert(py < s->stride[1] && px < s->stride[2]);
    int64_t *segments = base_arena_alloc(ctx->arena, (size_t)eng_conv_taps(s) * sizeof(int64_t));
    if (segments == NULL) {
        return BASE_ERR_NOMEM;
    }
    for (int64_t t = 0; t < eng_conv_taps(s); t++) {
        int64_t row, column;
        if (reach(s, 1, py, t / s->kernel[2], &row) && reach(s, 2, px, t % s->kernel[2], &column)) {
            grad->taps[t] = (struct tap){grad->phase_count, phase->taps};
            segments[phase->taps++] =
                (row - grad->low[0]) * row_floats + (column - grad->low[1]) * grad->pitch;
        }
    }
    struct eng_gemm_plan *plan = &phase->plan;
    plan->kernels = grad->kernels;
    plan->tuning = ctx->tuning;
    plan->images = s->batch;
    plan->rows = phase_size(s, 1, py);
    plan->width = phase_size(s, 2, px);
    plan->row_limit = plan->rows * plan->width;
    plan->a_image = grad->rows * row_floats;
    plan->a_row = row_floats;
    plan->lda = grad->pitch;
    plan->segments = segments;
    plan->segment_count = (uint32_t)phase->taps;
    plan->k = (uint32_t)m;
    plan->groups = s->groups;
    plan->a_group = m;
    plan->n = s->in_channels / s->groups;
    plan->c_image = s->in[1] * s->in[2] * s->in_channels;
    plan->c_row = s->stride[1] * s->in[2] * s->in_channels;
    plan->ldc = s->stride[2] * s->in_channels;
    if (phase->taps > 0 && plan->row_limit > 0) {
        eng_gemm_plan_block(plan, eng_pool_threads(ctx->pool), 0);
    }
    base_assert(phase->taps <= eng_conv_taps(s));
    phase->first = (py * s->in[2] + px) * s->in_channels;
    phase->packed = grad->packed_floats;
    phase->group_floats = eng_gemm_packed_floats(grad->kernels, phase->taps * m, plan->n);
    return BASE_OK;
}

static enum base_status plan_phases(const struct eng_prepare *ctx, struct grad *grad)
{
    const struct eng_conv_shape *s = &grad->shape;
    const int64_t count = s->stride[1] * s->stride[2];
    grad->phases = base_arena_zalloc(ctx->arena, (size_t)count * sizeof(*grad->phases));
    grad->taps = base_arena_zalloc(ctx->arena, (size_t)eng_conv_taps(s) * sizeof(*grad->taps));
    if (grad->phases == NULL || grad->taps == NULL) {
        return BASE_ERR_NOMEM;
    }
    for (int64_t i = 0; i < count; i++) {
        struct phase *phase = &grad->phases[grad->phase_count];
        *phase = (struct phase){0};
        BASE_TRY(plan_phase(ctx, grad, i / s->stride[2], i % s->stride[2], phase));
        if (phase->taps > 0) {
            grad->packed_floats += (size_t)s->groups * phase->group_floats;
            grad->phase_count++;
        }
    }
    return BASE_OK;
}

static enum base_status prepare_phases(const struct eng_prepare *ctx,
                                       const struct eng_command *command,
                                       const struct eng_conv_shape *shape,
                                       struct eng_step *out_step)
{
    if (shape->stride[1] * shape->stride[2] > PHASES_MAX || eng_conv_taps(shape) > TAPS_MAX) {
        return BASE_ERR_UNSUPPORTED;
    }
    struct grad *g = base_arena_zalloc(ctx->arena, sizeof(*g));
    if (g == NULL) {
        return BASE_ERR_NOMEM;
    }
    g->kernels = ctx->kernels->gemm;
    g->shape = *shape;
    g->dy = command->inputs[0];
    g->w = command->inputs[1];
    g->dx = command->outputs[0];
    find_reach(shape, 1, &g->low[0], &g->rows);
    find_reach(shape, 2, &g->low[1], &g->columns);
    g->pitch = shape->out_channels;
    g->copies = g->pitch % COLLIDING_FLOATS == 0 || g->low[0] < 0 || g->low[1] < 0 ||
                g->rows > shape->out[1] || g->columns > shape->out[2];
    base_assert(g->copies || (g->rows == shape->out[1] && g->columns == shape->out[2]));
    if (g->pitch % COLLIDING_FLOATS == 0) {
        g->pitch += PITCH_PAD;
    }
    g->copy_floats = g->copies ? (size_t)(shape->batch * g->rows * g->columns * g->pitch) : 0;
    BASE_TRY(plan_phases(ctx, g));
    out_step->scratch_bytes = (g->packed_floats + g->copy_floats) * sizeof(float);
    out_step->state = g;
    out_step->run = run_grad;
    out_step->kernel = "conv_grad_input.phases";
    return BASE_OK;
}

// The convolution of dy by the kernels turned round that stride 1 makes of it; false: it would cut
// from dy.
static bool turn(const struct eng_conv_shape *shape, struct eng_conv_shape *out)
{
    *out = *shape;
    out->in_channels = shape->out_channels;
    out->out_channels = shape->in_channels;
    out->padded = true;
    for (int d = 0; d < 3; d++) {
        out->in[d] = shape->out[d];
        out->out[d] = shape->in[d];
        out->pad[d] = (shape->kernel[d] - 1) * shape->dilation[d] - shape->pad[d];
        if (out->pad[d] < 0 || shape->stride[d] != 1) {
            return false;
        }
    }
    return true;
}

enum base_status eng_cpu_prepare_conv_grad_input(const struct eng_prepare *ctx,
                                                 const struct eng_program *program,
                                                 const struct eng_command *command,
                                                 struct eng_step *out_step)
{
    const struct eng_tensor *dy = &program->tensors[command->inputs[0]];
    const struct eng_tensor *dx = &program->tensors[command->outputs[0]];
    struct eng_conv_shape s, turned;
    if (dy->layout != ENG_CHANNELS_LAST || dx->layout != ENG_CHANNELS_LAST ||
        dy->desc.dtype != ENG_F32 || dx->desc.dtype != ENG_F32 ||
        program->tensors[command->inputs[1]].desc.dtype != ENG_F32 || command->u.conv.spatial > 2) {
        return BASE_ERR_UNSUPPORTED;
    }
    BASE_TRY(eng_conv_shape_from(&command->u.conv, &dx->desc, &dy->desc, &s));
    if (turn(&s, &turned)) {
        enum base_status status = eng_conv_prepare_live(ctx, command, &turned, true, out_step);
        if (status != BASE_ERR_UNSUPPORTED) {
            return status;
        }
    }
    return prepare_phases(ctx, command, &s, out_step);
}
