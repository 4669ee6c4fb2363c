// Reductions over one axis of [outer, n, inner]: REDUCE and ARG_REDUCE. Rows when inner is 1,
// strips of COLUMNS columns otherwise. Called by cpu_prepare.c on the planning thread, run on the
// pool's threads. One unit of work is whole results, so no sum is split among threads and a result
// does not depend on how many there are.
#include "backend/cpu/cpu_ops.h"
#include "backend/cpu/kernel/vec_kernels.h"
#include "base/check.h"

#include <math.h>

#define COLUMNS 64 // of one unit of work

enum reduce_finish { FINISH_NONE, FINISH_SCALE, FINISH_SQRT, FINISH_LOG };

struct reduce_state {
    int64_t outer, n, inner;
    int64_t strips; // units per outer index, when inner > 1
    int64_t grain;
    eng_vec_reduce_row_fn row;
    eng_vec_reduce_columns_fn columns;
    enum reduce_finish finish;
    float factor;
    int64_t (*arg_row)(const float *input, int64_t count, bool is_max, bool last);
    bool is_max, last;
};

struct reduce_run {
    const struct reduce_state *state;
    const float *x;
    void *y;
};

static void finish_values(const struct reduce_state *reduce_state, float *output, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        switch (reduce_state->finish) {
        case FINISH_NONE:
            return;
        case FINISH_SCALE:
            output[i] *= reduce_state->factor;
            break;
        case FINISH_SQRT:
            output[i] = sqrtf(output[i]);
            break;
        case FINISH_LOG:
            output[i] = logf(output[i]);
            break;
        }
    }
}

static void reduce_rows(void *ctx, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const struct reduce_run *r = ctx;
    const struct reduce_state *s = r->state;
    float *y = r->y;
    base_assert(s->inner == 1 && end <= s->outer);
    for (int64_t o = begin; o < end; o++) {
        y[o] = s->row(r->x + o * s->n, s->n);
    }
    finish_values(s, y + begin, end - begin);
}

static void reduce_strips(void *ctx, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const struct reduce_run *r = ctx;
    const struct reduce_state *s = r->state;
    for (int64_t u = begin; u < end; u++) {
        int64_t o = u / s->strips;
        int64_t c = (u - o * s->strips) * COLUMNS;
        int64_t count = s->inner - c < COLUMNS ? s->inner - c : COLUMNS;
        float *y = (float *)r->y + o * s->inner + c;
        s->columns(r->x + o * s->n * s->inner + c, s->n, s->inner, y, count);
        finish_values(s, y, count);
    }
}

static void arg_rows(void *ctx, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const struct reduce_run *r = ctx;
    const struct reduce_state *s = r->state;
    int64_t *y = r->y;
    base_assert(s->inner == 1 && end <= s->outer);
    for (int64_t o = begin; o < end; o++) {
        y[o] = s->arg_row(r->x + o * s->n, s->n, s->is_max, s->last);
    }
}

static bool is_better(const struct reduce_state *reduce_state, float value, float best)
{
    if (best != best) {
        return reduce_state->last && value != value;
    }
    bool better = reduce_state->is_max ? value > best : value < best;
    return better || value != value || (reduce_state->last && value == best);
}

static void arg_strips(void *ctx, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const struct reduce_run *r = ctx;
    const struct reduce_state *s = r->state;
    base_assert(end <= s->outer * s->strips);
    for (int64_t u = begin; u < end; u++) {
        int64_t o = u / s->strips;
        int64_t c = (u - o * s->strips) * COLUMNS;
        int64_t count = s->inner - c < COLUMNS ? s->inner - c : COLUMNS;
        const float *x = r->x + o * s->n * s->inner + c;
        int64_t *y = (int64_t *)r->y + o * s->inner + c;
        float best[COLUMNS];
        for (int64_t j = 0; j < count; j++) {
            best[j] = x[j];
            y[j] = 0;
        }
        for (int64_t k = 1; k < s->n; k++) {
            for (int64_t j = 0; j < count; j++) {
                float value = x[k * s->inner + j];
                if (is_better(s, value, best[j])) {
                    best[j] = value;
                    y[j] = k;
                }
            }
        }
    }
}

static enum base_status run_over(const struct eng_step *step, const struct eng_run *run,
                                 eng_pool_fn rows, eng_pool_fn strips)
{
    const struct reduce_state *s = step->state;
    base_assert(s->n > 0 && s->inner > 0 && s->strips * COLUMNS >= s->inner);
    struct reduce_run r = {s, run->data[step->command->inputs[0]],
                           run->data[step->command->outputs[0]]};
    if (s->inner == 1) {
        eng_pool_for(run->pool, s->outer, s->grain, rows, &r);
    } else {
        eng_pool_for(run->pool, s->outer * s->strips, s->grain, strips, &r);
    }
    return BASE_OK;
}

static enum base_status run_reduce(const struct eng_step *step, const struct eng_run *run)
{
    return run_over(step, run, reduce_rows, reduce_strips);
}

static enum base_status run_arg_reduce(const struct eng_step *step, const struct eng_run *run)
{
    return run_over(step, run, arg_rows, arg_strips);
}

static struct reduce_state *new_state(const struct eng_prepare *ctx, int64_t outer, int64_t count,
                                      int64_t inner)
{
    base_assert(outer > 0 && count > 0 && inner > 0);
    struct reduce_state *s = base_arena_zalloc(ctx->arena, sizeof *s);
    if (s != NULL) {
        s->outer = outer;
        s->n = count;
        s->inner = inner;
        s->strips = (inner + COLUMNS - 1) / COLUMNS;
        s->grain = ENG_CPU_GRAIN / (count * (inner == 1 ? 1 : COLUMNS));
    }
    return s;
}

enum base_status eng_cpu_prepare_reduce(const struct eng_prepare *ctx,
                                        const struct eng_program *program,
                                        const struct eng_command *command,
                                        struct eng_step *out_step)
{
    const struct eng_reduce *p = &command->u.reduce;
    const struct eng_vec_kernels *kernels = ctx->kernels->vec;
    if (program->tensors[command->inputs[0]].desc.dtype != ENG_F32 || p->outer <= 0 || p->n <= 0 ||
        p->inner <= 0 || (unsigned)p->fn >= ENG_REDUCE_COUNT) {
        return BASE_ERR_UNSUPPORTED;
    }
    bool is_rows = p->inner == 1;
    if (is_rows ? kernels->reduce_row[p->fn] == NULL : kernels->reduce_columns[p->fn] == NULL) {
        return BASE_ERR_UNSUPPORTED;
    }
    base_assert(eng_desc_count(&program->tensors[command->inputs[0]].desc) ==
                p->outer * p->n * p->inner);
    struct reduce_state *s = new_state(ctx, p->outer, p->n, p->inner);
    if (s == NULL) {
        return BASE_ERR_NOMEM;
    }
    s->row = kernels->reduce_row[p->fn];
    s->columns = kernels->reduce_columns[p->fn];
    s->factor = 1.0f / (float)p->n;
    s->finish = p->fn == ENG_REDUCE_MEAN      ? FINISH_SCALE
                : p->fn == ENG_REDUCE_L2      ? FINISH_SQRT
                : p->fn == ENG_REDUCE_LOG_SUM ? FINISH_LOG
                                              : FINISH_NONE;
    out_step->run = run_reduce;
    out_step->state = s;
    out_step->kernel = kernels->names[command->op];
    return BASE_OK;
}

enum base_status eng_cpu_prepare_arg_reduce(const struct eng_prepare *ctx,
                                            const struct eng_program *program,
                                            const struct eng_command *command,
                                            struct eng_step *out_step)
{
    const struct eng_arg_reduce *p = &command->u.arg_reduce;
    if (program->tensors[command->inputs[0]].desc.dtype != ENG_F32 || p->outer <= 0 || p->n <= 0 ||
        p->inner <= 0) {
        return BASE_ERR_UNSUPPORTED;
    }
    struct reduce_state *s = new_state(ctx, p->outer, p->n, p->inner);
    if (s == NULL) {
        return BASE_ERR_NOMEM;
    }
    s->arg_row = ctx->kernels->vec->arg_row;
    s->is_max = p->is_max;
    s->last = p->select_last;
    out_step->run = run_arg_reduce;
    out_step->state = s;
    out_step->kernel = ctx->kernels->vec->names[command->op];
    return BASE_OK;
}
