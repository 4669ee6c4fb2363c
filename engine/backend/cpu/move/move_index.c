// Index-driven movement: GATHER, SCATTER, ONE_HOT. Indices are checked before anything moves, or as
// they are used; one out of range fails the step and names it. Prepared on the planning thread, run
// on the pool.
#include "backend/cpu/cpu_ops.h"

#include "backend/coords.h"
#include "backend/cpu/kernel/vec_kernels.h"
#include "base/check.h"

#include <string.h>

struct index_state {
    const struct eng_vec_kernels *kernels;
    bool wide;     // indices are I64, else I32
    int64_t bytes; // of an element
    int64_t outer, n, inner, count;
    int64_t grain;
};

struct gather_run {
    const struct index_state *state;
    const uint8_t *data;
    const void *indices;
    uint8_t *out;
};

static int64_t index_at(const struct index_state *index_state, const void *indices, int64_t index)
{
    return index_state->wide ? ((const int64_t *)indices)[index]
                             : ((const int32_t *)indices)[index];
}

// INVALID naming the first index outside -n..n-1.
static enum base_status check_indices(const struct index_state *index_state,
                                      const struct eng_step *step, const struct eng_run *run,
                                      const void *indices, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        int64_t index = index_at(index_state, indices, i);
        if (index < -index_state->n || index >= index_state->n) {
            return base_error_set(run->error, BASE_ERR_INVALID,
                                  "%s: index %lld is outside -%lld..%lld",
                                  eng_atomic_text(step->command->op), (long long)index,
                                  (long long)index_state->n, (long long)index_state->n - 1);
        }
    }
    return BASE_OK;
}

static inline void copy_row(uint8_t *to, const uint8_t *from, int64_t bytes)
{
    if (bytes == 4) {
        memcpy(to, from, 4);
    } else if (bytes == 8) {
        memcpy(to, from, 8);
    } else {
        memcpy(to, from, (size_t)bytes);
    }
}

static void gather_rows(void *ctx, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const struct gather_run *r = ctx;
    const struct index_state *s = r->state;
    int64_t row_bytes = s->inner * s->bytes;
    base_assert(s->count > 0 && end <= s->outer * s->count);
    int64_t o = begin / s->count;
    int64_t i = begin - o * s->count;
    for (int64_t u = begin; u < end; u++) {
        int64_t index = index_at(s, r->indices, i);
        index += index < 0 ? s->n : 0;
        copy_row(r->out + u * row_bytes, r->data + (o * s->n + index) * row_bytes, row_bytes);
        if (++i == s->count) {
            i = 0;
            o++;
        }
    }
}

static enum base_status run_gather(const struct eng_step *step, const struct eng_run *run)
{
    const struct index_state *s = step->state;
    struct gather_run r = {s, run->data[step->command->inputs[0]],
                           run->data[step->command->inputs[1]],
                           run->data[step->command->outputs[0]]};
    BASE_TRY(eng_coords_check(&step->command->u.gather.coords, step, run));
    BASE_TRY(check_indices(s, step, run, r.indices, s->count));
    eng_pool_for(run->pool, s->outer * s->count, s->grain, gather_rows, &r);
    return BASE_OK;
}

// GatherElements: indices [outer, m, inner]; `count` is m.
static void gather_elements(void *ctx, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const struct gather_run *r = ctx;
    const struct index_state *s = r->state;
    base_assert(end <= s->outer * s->count);
    for (int64_t row = begin; row < end; row++) {
        int64_t base = row / s->count * s->n * s->inner;
        for (int64_t c = 0; c < s->inner; c++) {
            int64_t at = row * s->inner + c;
            int64_t index = index_at(s, r->indices, at);
            index += index < 0 ? s->n : 0;
            copy_row(r->out + at * s->bytes, r->data + (base + index * s->inner + c) * s->bytes,
                     s->bytes);
        }
    }
}

static enum base_status run_gather_elements(const struct eng_step *step, const struct eng_run *run)
{
    const struct index_state *s = step->state;
    struct gather_run r = {s, run->data[step->command->inputs[0]],
                           run->data[step->command->inputs[1]],
                           run->data[step->command->outputs[0]]};
    BASE_TRY(check_indices(s, step, run, r.indices, s->outer * s->count * s->inner));
    eng_pool_for(run->pool, s->outer * s->count, s->grain, gather_elements, &r);
    return BASE_OK;
}

static enum base_status new_state(const struct eng_prepare *ctx, const struct eng_program *program,
                                  const struct eng_command *command, struct index_state **out)
{
    enum eng_dtype indices = program->tensors[command->inputs[1]].desc.dtype;
    size_t bytes = eng_dtype_bytes(program->tensors[command->outputs[0]].desc.dtype);
    if ((indices != ENG_I32 && indices != ENG_I64) || bytes == 0) {
        return BASE_ERR_UNSUPPORTED;
    }
    struct index_state *s = base_arena_zalloc(ctx->arena, sizeof *s);
    if (s == NULL) {
        return BASE_ERR_NOMEM;
    }
    s->kernels = ctx->kernels->vec;
    s->wide = indices == ENG_I64;
    s->bytes = (int64_t)bytes;
    *out = s;
    return BASE_OK;
}

enum base_status eng_cpu_prepare_gather(const struct eng_prepare *ctx,
                                        const struct eng_program *program,
                                        const struct eng_command *command,
                                        struct eng_step *out_step)
{
    const struct eng_gather *p = &command->u.gather;
    struct index_state *s = NULL;
    BASE_TRY(new_state(ctx, program, command, &s));
    s->outer = p->outer;
    s->n = p->n;
    s->inner = p->inner;
    s->count = p->elementwise ? p->m : eng_desc_count(&program->tensors[command->inputs[1]].desc);
    if (s->outer <= 0 || s->inner <= 0 || s->count <= 0 || s->n <= 0) {
        return BASE_ERR_UNSUPPORTED;
    }
    s->grain = ENG_CPU_GRAIN / s->inner;
    out_step->run = p->elementwise ? run_gather_elements : run_gather;
    out_step->loose = 1; // rows are copied byte by byte
    out_step->state = s;
    out_step->kernel = s->kernels->names[command->op];
    return BASE_OK;
}

static enum base_status run_scatter(const struct eng_step *step, const struct eng_run *run)
{
    const struct index_state *s = step->state;
    const uint8_t *data = run->data[step->command->inputs[0]];
    const void *indices = run->data[step->command->inputs[1]];
    const uint8_t *updates = run->data[step->command->inputs[2]];
    uint8_t *out = run->data[step->command->outputs[0]];
    int64_t row_bytes = s->inner * s->bytes;
    BASE_TRY(eng_coords_check(&step->command->u.scatter.coords, step, run));
    BASE_TRY(check_indices(s, step, run, indices, s->count));
    if (out != data) {
        memcpy(out, data, (size_t)(s->n * row_bytes));
    }
    base_assert(s->n > 0 && s->inner > 0);
    bool adds = step->command->u.scatter.fn == ENG_SCATTER_ADD;
    eng_vec_binary_fn add = s->kernels->binary[ENG_ADD][ENG_VEC_BOTH];
    for (int64_t i = 0; i < s->count; i++) {
        int64_t index = index_at(s, indices, i);
        uint8_t *row = out + (index < 0 ? index + s->n : index) * row_bytes;
        const uint8_t *update = updates + i * row_bytes;
        if (!adds) {
            copy_row(row, update, row_bytes);
        } else if (s->inner == 1) {
            *(float *)(void *)row += *(const float *)(const void *)update;
        } else {
            float *y = (float *)(void *)row;
            add(y, (const float *)(const void *)update, y, s->inner);
        }
    }
    return BASE_OK;
}

enum base_status eng_cpu_prepare_scatter(const struct eng_prepare *ctx,
                                         const struct eng_program *program,
                                         const struct eng_command *command,
                                         struct eng_step *out_step)
{
    const struct eng_scatter *p = &command->u.scatter;
    bool is_float = program->tensors[command->outputs[0]].desc.dtype == ENG_F32;
    if ((p->fn != ENG_SCATTER_SET && !(p->fn == ENG_SCATTER_ADD && is_float)) || p->rows <= 0 ||
        p->inner <= 0 || p->count < 0) {
        return BASE_ERR_UNSUPPORTED;
    }
    struct index_state *s = NULL;
    BASE_TRY(new_state(ctx, program, command, &s));
    s->n = p->rows;
    s->inner = p->inner;
    s->count = p->count;
    out_step->run = run_scatter;
    out_step->state = s;
    out_step->kernel = s->kernels->names[command->op];
    return BASE_OK;
}

static enum base_status run_one_hot(const struct eng_step *step, const struct eng_run *run)
{
    const struct index_state *s = step->state;
    const void *indices = run->data[step->command->inputs[0]];
    const float *values = run->data[step->command->inputs[1]];
    float *out = run->data[step->command->outputs[0]];
    s->kernels->fill(out, values[0], s->outer * s->n * s->inner);
    for (int64_t o = 0; o < s->outer; o++) {
        for (int64_t c = 0; c < s->inner; c++) {
            int64_t index = index_at(s, indices, o * s->inner + c);
            index += index < 0 ? s->n : 0;
            if (index >= 0 && index < s->n) {
                out[(o * s->n + index) * s->inner + c] = values[1];
            }
        }
    }
    return BASE_OK;
}

enum base_status eng_cpu_prepare_one_hot(const struct eng_prepare *ctx,
                                         const struct eng_program *program,
                                         const struct eng_command *command,
                                         struct eng_step *out_step)
{
    const struct eng_one_hot *p = &command->u.one_hot;
    enum eng_dtype indices = program->tensors[command->inputs[0]].desc.dtype;
    if (program->tensors[command->outputs[0]].desc.dtype != ENG_F32 ||
        program->tensors[command->inputs[1]].desc.dtype != ENG_F32 ||
        (indices != ENG_I32 && indices != ENG_I64) || p->outer <= 0 || p->depth <= 0 ||
        p->inner <= 0) {
        return BASE_ERR_UNSUPPORTED;
    }
    base_assert(eng_desc_count(&program->tensors[command->outputs[0]].desc) ==
                p->outer * p->depth * p->inner);
    struct index_state *s = base_arena_zalloc(ctx->arena, sizeof *s);
    if (s == NULL) {
        return BASE_ERR_NOMEM;
    }
    *s = (struct index_state){.kernels = ctx->kernels->vec,
                              .wide = indices == ENG_I64,
                              .bytes = sizeof(float),
                              .outer = p->outer,
                              .n = p->depth,
                              .inner = p->inner};
    out_step->run = run_one_hot;
    out_step->state = s;
    out_step->kernel = s->kernels->names[command->op];
    return BASE_OK;
}
