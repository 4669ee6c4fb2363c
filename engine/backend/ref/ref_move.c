// Moves decided by contents: gather, scatter, one-hot, of any type. Reference kernels: found by
// ref_prepare.c on the planning thread, run on the session's thread. An index out of range fails
// the step, naming it; negative ones count from the end. Elements are moved by their size, and only
// a scatter that combines reads them as numbers.
#include "backend/ref/ref.h"

#include "backend/coords.h"

// Element `i` of an index tensor, negative ones counted from the end.
static enum base_status index_at(const struct eng_step *step, const struct eng_run *run,
                                 uint32_t input, int64_t i, int64_t size, int64_t *out)
{
    int64_t index = eng_ref_load_int(eng_ref_in_type(step, input), eng_ref_in(step, run, input), i);
    if (index < -size || index >= size) {
        return base_error_set(run->error, BASE_ERR_INVALID, "%s: index %lld is outside -%lld..%lld",
                              eng_atomic_text(step->command->op), (long long)index, (long long)size,
                              (long long)size - 1);
    }
    *out = index < 0 ? index + size : index;
    return BASE_OK;
}

static void move_rows(void *out, int64_t to, const void *in, int64_t from, int64_t count,
                      size_t bytes)
{
    eng_ref_move((uint8_t *)out + (size_t)to * bytes, 1, (const uint8_t *)in + (size_t)from * bytes,
                 1, count, bytes);
}

static enum base_status run_gather(const struct eng_step *step, const struct eng_run *run)
{
    const struct eng_gather *g = &step->command->u.gather;
    const void *data = eng_ref_in(step, run, 0);
    void *out = eng_ref_out(step, run, 0);
    size_t bytes = eng_dtype_bytes(eng_ref_in_type(step, 0));
    int64_t index = 0;
    BASE_TRY(eng_coords_check(&g->coords, step, run));
    if (g->elementwise) {
        for (int64_t i = 0; i < g->outer * g->m * g->inner; i++) {
            BASE_TRY(index_at(step, run, 1, i, g->n, &index));
            int64_t outer = i / (g->m * g->inner);
            move_rows(out, i, data, (outer * g->n + index) * g->inner + i % g->inner, 1, bytes);
        }
        return BASE_OK;
    }
    int64_t count = eng_desc_count(&eng_ref_in_tensor(step, 1)->desc);
    for (int64_t i = 0; i < count; i++) {
        BASE_TRY(index_at(step, run, 1, i, g->n, &index));
        for (int64_t o = 0; o < g->outer; o++) {
            move_rows(out, (o * count + i) * g->inner, data, (o * g->n + index) * g->inner,
                      g->inner, bytes);
        }
    }
    return BASE_OK;
}

// --- scatter ----------------------------------------------------------------------------------

static void combine(enum eng_scatter_fn fn, enum eng_dtype dtype, void *out, int64_t to,
                    const void *updates, int64_t from)
{
    static const enum eng_binary_fn functions[] = {[ENG_SCATTER_ADD] = ENG_ADD,
                                                   [ENG_SCATTER_MUL] = ENG_MUL,
                                                   [ENG_SCATTER_MIN] = ENG_MIN,
                                                   [ENG_SCATTER_MAX] = ENG_MAX};
    if (eng_ref_is(dtype, ENG_REF_FLOATS)) {
        double value = eng_scalar_binary(functions[fn], eng_ref_load(dtype, out, to),
                                         eng_ref_load(dtype, updates, from));
        eng_ref_store(dtype, out, to, value);
        return;
    }
    uint64_t a = (uint64_t)eng_ref_load_int(dtype, out, to);
    uint64_t b = (uint64_t)eng_ref_load_int(dtype, updates, from);
    bool is_less = dtype == ENG_U64 ? a < b : (int64_t)a < (int64_t)b;
    uint64_t least = is_less ? a : b, most = is_less ? b : a;
    uint64_t result = fn == ENG_SCATTER_ADD   ? a + b
                      : fn == ENG_SCATTER_MUL ? a * b
                      : fn == ENG_SCATTER_MIN ? least
                                              : most;
    eng_ref_store_int(dtype, out, to, (int64_t)result);
}

static enum base_status run_scatter(const struct eng_step *step, const struct eng_run *run)
{
    const struct eng_scatter *s = &step->command->u.scatter;
    enum eng_dtype dtype = eng_ref_out_type(step, 0);
    const void *data = eng_ref_in(step, run, 0), *updates = eng_ref_in(step, run, 2);
    void *out = eng_ref_out(step, run, 0);
    size_t bytes = eng_dtype_bytes(dtype);
    int64_t row = 0;
    BASE_TRY(eng_coords_check(&s->coords, step, run));
    if (out != data) {
        move_rows(out, 0, data, 0, s->rows * s->inner, bytes);
    }
    for (int64_t i = 0; i < s->count; i++) {
        BASE_TRY(index_at(step, run, 1, i, s->rows, &row));
        if (s->fn == ENG_SCATTER_SET) {
            move_rows(out, row * s->inner, updates, i * s->inner, s->inner, bytes);
            continue;
        }
        for (int64_t j = 0; j < s->inner; j++) {
            combine(s->fn, dtype, out, row * s->inner + j, updates, i * s->inner + j);
        }
    }
    return BASE_OK;
}

static enum base_status setup_gather(const struct eng_prepare *ctx, struct eng_step *step)
{
    uint32_t indices = ENG_REF_BIT(ENG_I32) | ENG_REF_BIT(ENG_I64);
    if (!eng_ref_is(eng_ref_in_type(step, 1), indices)) {
        return eng_ref_refuse(ctx, step, "indices other than int32 and int64");
    }
    if (step->command->op == ENG_OP_SCATTER && step->command->u.scatter.fn != ENG_SCATTER_SET &&
        !eng_ref_is(eng_ref_out_type(step, 0), ENG_REF_NUMBERS)) {
        return eng_ref_refuse(ctx, step, "arithmetic on elements that are not numbers");
    }
    return BASE_OK;
}

// --- one-hot ----------------------------------------------------------------------------------

static enum base_status run_one_hot(const struct eng_step *step, const struct eng_run *run)
{
    const struct eng_one_hot *h = &step->command->u.one_hot;
    enum eng_dtype from = eng_ref_in_type(step, 0);
    size_t bytes = eng_dtype_bytes(eng_ref_out_type(step, 0));
    const void *values = eng_ref_in(step, run, 1);
    void *out = eng_ref_out(step, run, 0);
    for (int64_t i = 0; i < h->outer * h->inner; i++) {
        int64_t hot = eng_ref_load_int(from, eng_ref_in(step, run, 0), i);
        hot = hot < 0 && hot >= -h->depth ? hot + h->depth : hot; // others: all off
        for (int64_t d = 0; d < h->depth; d++) {
            int64_t to = (i / h->inner * h->depth + d) * h->inner + i % h->inner;
            move_rows(out, to, values, d == hot ? 1 : 0, 1, bytes);
        }
    }
    return BASE_OK;
}

const struct eng_ref_kernel eng_ref_move_family[] = {
    {ENG_OP_GATHER, ENG_REF_ALL, run_gather, setup_gather},
    {ENG_OP_SCATTER, ENG_REF_ALL, run_scatter, setup_gather},
    {ENG_OP_ONE_HOT, ENG_REF_NUMBERS, run_one_hot, NULL},
    {.run = NULL},
};
