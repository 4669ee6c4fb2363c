// Steps that turn rows (or columns) into rows: SOFTMAX, NORM and CUMSUM. Called by cpu_prepare.c on
// the planning thread, run on the pool's threads. In one file because they share their walk: a
// thread takes whole rows, or strips of COLUMNS columns where rows do not lie side by side, so that
// no row is split. COST_* say how much work an element is, which decides how many threads a step is
// worth.
#include "backend/cpu/cpu_ops.h"
#include "backend/cpu/kernel/vec_kernels.h"
#include "base/check.h"

#include <string.h>

#define COLUMNS      64 // of one unit of work
#define COST_SOFTMAX 5  // of an element, in units of one addition
#define COST_NORM    3

struct rows_state {
    const struct eng_vec_kernels *kernels;
    int64_t outer, n, inner;
    int64_t strips, grain;
    bool log;                // SOFTMAX
    bool exclusive, reverse; // CUMSUM
    struct eng_norm norm;
    uint32_t scale, bias, mean, inverse; // tensors of NORM, ENG_NONE: none
    const float *ones;                   // [n] when there is no scale or bias: ones, then zeros
};

struct rows_run {
    const struct rows_state *state;
    const float *x;
    float *y;
    const float *scale, *bias;
    float *mean, *inverse;
};

static void softmax_rows(void *ctx, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const struct rows_run *r = ctx;
    const struct rows_state *s = r->state;
    for (int64_t o = begin; o < end; o++) {
        s->kernels->softmax_row(r->x + o * s->n, r->y + o * s->n, s->n, s->log);
    }
}

static void softmax_strips(void *ctx, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const struct rows_run *r = ctx;
    const struct rows_state *s = r->state;
    for (int64_t u = begin; u < end; u++) {
        int64_t o = u / s->strips;
        int64_t c = (u - o * s->strips) * COLUMNS;
        int64_t at = o * s->n * s->inner + c;
        int64_t count = s->inner - c < COLUMNS ? s->inner - c : COLUMNS;
        s->kernels->softmax_columns(r->x + at, r->y + at, s->n, s->inner, count, s->log);
    }
}

static enum base_status run_softmax(const struct eng_step *step, const struct eng_run *run)
{
    const struct rows_state *s = step->state;
    struct rows_run r = {.state = s,
                         .x = run->data[step->command->inputs[0]],
                         .y = run->data[step->command->outputs[0]]};
    if (s->inner == 1) {
        eng_pool_for(run->pool, s->outer, s->grain, softmax_rows, &r);
    } else {
        eng_pool_for(run->pool, s->outer * s->strips, s->grain, softmax_strips, &r);
    }
    return BASE_OK;
}

static struct rows_state *new_state(const struct eng_prepare *ctx, int64_t outer, int64_t count,
                                    int64_t inner, int64_t cost)
{
    base_assert(outer > 0 && count > 0 && inner > 0 && cost > 0);
    struct rows_state *s = base_arena_zalloc(ctx->arena, sizeof *s);
    if (s != NULL) {
        s->kernels = ctx->kernels->vec;
        s->outer = outer;
        s->n = count;
        s->inner = inner;
        s->strips = (inner + COLUMNS - 1) / COLUMNS;
        s->grain = ENG_CPU_GRAIN / cost / (count * (inner == 1 ? 1 : COLUMNS));
    }
    return s;
}

static bool is_f32(const struct eng_program *program, uint32_t tensor)
{
    return program->tensors[tensor].desc.dtype == ENG_F32;
}

enum base_status eng_cpu_prepare_softmax(const struct eng_prepare *ctx,
                                         const struct eng_program *program,
                                         const struct eng_command *command,
                                         struct eng_step *out_step)
{
    const struct eng_softmax *p = &command->u.softmax;
    if (!is_f32(program, command->inputs[0]) || p->outer <= 0 || p->n <= 0 || p->inner <= 0) {
        return BASE_ERR_UNSUPPORTED;
    }
    struct rows_state *s = new_state(ctx, p->outer, p->n, p->inner, COST_SOFTMAX);
    if (s == NULL) {
        return BASE_ERR_NOMEM;
    }
    s->log = p->log;
    out_step->run = run_softmax;
    out_step->state = s;
    out_step->kernel = s->kernels->names[command->op];
    return BASE_OK;
}

// Scale and bias change every `scale_inner` elements of the row.
static void apply_segments(const struct rows_run *rows_run, int64_t group, float mean,
                           float inverse)
{
    const struct rows_state *s = rows_run->state;
    int64_t inner = s->norm.scale_inner;
    base_assert(inner > 0 && s->norm.scale_count > 0 && group < s->outer);
    int64_t base = group * s->n;
    for (int64_t at = 0; at < s->n; at += inner) {
        int64_t count = s->n - at < inner ? s->n - at : inner;
        int64_t index = at / inner % s->norm.scale_count;
        const float *scale = rows_run->scale == s->ones ? rows_run->scale : rows_run->scale + index;
        const float *bias =
            rows_run->bias == s->ones + s->n ? rows_run->bias : rows_run->bias + index;
        s->kernels->norm_apply(rows_run->x + base + at, rows_run->y + base + at, count, mean,
                               inverse, scale, bias, 0);
    }
}

static void norm_groups(void *ctx, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const struct rows_run *r = ctx;
    const struct rows_state *s = r->state;
    const struct eng_norm *p = &s->norm;
    base_assert(end <= s->outer);
    base_assert(p->scale_count > 0);
    for (int64_t g = begin; g < end; g++) {
        const float *x = r->x + g * s->n;
        float mean;
        float inverse;
        s->kernels->norm_stats(x, s->n, p->rms, p->epsilon, &mean, &inverse);
        if (r->mean != NULL) {
            r->mean[g] = mean;
        }
        if (r->inverse != NULL) {
            r->inverse[g] = inverse;
        }
        if (p->scale_per_group) {
            int64_t index = g % p->scale_count;
            const float *scale = r->scale == s->ones ? r->scale : r->scale + index;
            const float *bias = r->bias == s->ones + s->n ? r->bias : r->bias + index;
            s->kernels->norm_apply(x, r->y + g * s->n, s->n, mean, inverse, scale, bias, 0);
        } else if (p->scale_inner == 1 && p->scale_count == s->n) {
            s->kernels->norm_apply(x, r->y + g * s->n, s->n, mean, inverse, r->scale, r->bias, 1);
        } else {
            apply_segments(r, g, mean, inverse);
        }
    }
}

static enum base_status run_norm(const struct eng_step *step, const struct eng_run *run)
{
    const struct rows_state *s = step->state;
    struct rows_run r = {.state = s,
                         .x = run->data[step->command->inputs[0]],
                         .y = run->data[step->command->outputs[0]],
                         .scale = eng_run_data(run, s->scale),
                         .bias = eng_run_data(run, s->bias),
                         .mean = eng_run_data(run, s->mean),
                         .inverse = eng_run_data(run, s->inverse)};
    r.scale = r.scale == NULL ? s->ones : r.scale;
    r.bias = r.bias == NULL ? s->ones + s->n : r.bias;
    base_assert(r.scale != NULL && s->norm.scale_count > 0);
    eng_pool_for(run->pool, s->outer, s->grain, norm_groups, &r);
    return BASE_OK;
}

enum base_status eng_cpu_prepare_norm(const struct eng_prepare *ctx,
                                      const struct eng_program *program,
                                      const struct eng_command *command, struct eng_step *out_step)
{
    const struct eng_norm *p = &command->u.norm;
    if (!is_f32(program, command->inputs[0]) || p->groups <= 0 || p->n <= 0) {
        return BASE_ERR_UNSUPPORTED;
    }
    base_assert(eng_desc_count(&program->tensors[command->inputs[0]].desc) == p->groups * p->n);
    struct rows_state *s = new_state(ctx, p->groups, p->n, 1, COST_NORM);
    if (s == NULL) {
        return BASE_ERR_NOMEM;
    }
    s->norm = *p;
    s->scale = command->input_count > 1 ? command->inputs[1] : ENG_NONE;
    s->bias = command->input_count > 2 ? command->inputs[2] : ENG_NONE;
    if (s->scale == ENG_NONE && s->bias == ENG_NONE) {
        s->norm.scale_per_group = true; // one and zero everywhere
        s->norm.scale_count = 1;
    } else if (p->scale_count <= 0 || (!p->scale_per_group && p->scale_inner <= 0)) {
        return BASE_ERR_UNSUPPORTED;
    }
    s->mean = command->output_count > 1 ? command->outputs[1] : ENG_NONE;
    s->inverse = command->output_count > 2 ? command->outputs[2] : ENG_NONE;
    if (s->scale == ENG_NONE || s->bias == ENG_NONE) {
        float *ones = base_arena_alloc(ctx->arena, 2 * (size_t)p->n * sizeof(float));
        if (ones == NULL) {
            return BASE_ERR_NOMEM;
        }
        for (int64_t i = 0; i < p->n; i++) {
            ones[i] = 1.0f;
            ones[p->n + i] = 0.0f;
        }
        s->ones = ones;
    }
    out_step->run = run_norm;
    out_step->state = s;
    out_step->kernel = s->kernels->names[command->op];
    return BASE_OK;
}

static enum base_status run_cumsum(const struct eng_step *step, const struct eng_run *run)
{
    const struct rows_state *s = step->state;
    const float *x = run->data[step->command->inputs[0]];
    float *y = run->data[step->command->outputs[0]];
    int64_t stride = s->reverse ? -s->inner : s->inner;
    for (int64_t o = 0; o < s->outer; o++) {
        for (int64_t c = 0; c < s->inner; c++) {
            int64_t at = o * s->n * s->inner + c + (s->reverse ? (s->n - 1) * s->inner : 0);
            double sum = 0.0;
            for (int64_t k = 0; k < s->n; k++, at += stride) {
                double next = sum + (double)x[at];
                y[at] = (float)(s->exclusive ? sum : next);
                sum = next;
            }
        }
    }
    return BASE_OK;
}

enum base_status eng_cpu_prepare_cumsum(const struct eng_prepare *ctx,
                                        const struct eng_program *program,
                                        const struct eng_command *command,
                                        struct eng_step *out_step)
{
    const struct eng_cumsum *p = &command->u.cumsum;
    if (!is_f32(program, command->inputs[0]) || p->outer <= 0 || p->n <= 0 || p->inner <= 0) {
        return BASE_ERR_UNSUPPORTED;
    }
    struct rows_state *s = new_state(ctx, p->outer, p->n, p->inner, 1);
    if (s == NULL) {
        return BASE_ERR_NOMEM;
    }
    s->exclusive = p->exclusive;
    s->reverse = p->reverse;
    out_step->run = run_cumsum;
    out_step->state = s;
    out_step->kernel = s->kernels->names[command->op];
    return BASE_OK;
}
