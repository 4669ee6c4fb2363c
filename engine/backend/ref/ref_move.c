// Moves decided by contents: gather, scatter, one-hot, of any type. Reference kernels: found by
// ref_prepare.c on the planning thread, run on the session's thread. An index out of range fails
// the step, naming it; negative ones count from the end. Elements are moved by their size, and only
// a scatter that combines reads them as numbers.
#include "backend/ref/ref.h"

#include "backend/coords.h"
#include "backend/ref/ref_element.h"
#include "base/check.h"

#include <string.h>

// Element `i` of the indices, the second input; negative ones are counted from the end.
static enum base_status index_at(const struct eng_step *step, const struct eng_run *run,
                                 int64_t place, int64_t size, int64_t *out)
{
    base_assert(place >= 0 && size >= 0);
    int64_t index = eng_ref_load_int(eng_ref_in_type(step, 1), eng_ref_in(step, run, 1), place);
    if (index < -size || index >= size) {
        return base_error_set(run->error, BASE_ERR_INVALID, "%s: index %lld is outside -%lld..%lld",
                              eng_atomic_text(step->command->op), (long long)index, (long long)size,
                              (long long)size - 1);
    }
    *out = index < 0 ? index + size : index;
    return BASE_OK;
}

// Elements of two tensors of one type.
struct elements {
    void *out;
    const void *in;
    size_t bytes; // of an element
};

// `count` of them, from the one at `from` on, to where the one at `to` lies.
static void move_rows(const struct elements *elements, int64_t to, int64_t from, int64_t count)
{
    base_assert(to >= 0 && from >= 0 && count >= 0);
    if (count > 0) {
        memcpy((uint8_t *)elements->out + (size_t)to * elements->bytes,
               (const uint8_t *)elements->in + (size_t)from * elements->bytes,
               (size_t)count * elements->bytes);
    }
}

static enum base_status run_gather(const struct eng_step *step, const struct eng_run *run)
{
    base_assert(eng_ref_out_type(step, 0) == eng_ref_in_type(step, 0));
    const struct eng_gather *g = &step->command->u.gather;
    const struct elements rows = {eng_ref_out(step, run, 0), eng_ref_in(step, run, 0),
                                  eng_dtype_bytes(eng_ref_in_type(step, 0))};
    int64_t index = 0;
    BASE_TRY(eng_coords_check(&g->coords, step, run));
    if (g->elementwise) {
        for (int64_t i = 0; i < g->outer * g->m * g->inner; i++) {
            BASE_TRY(index_at(step, run, i, g->n, &index));
            int64_t outer = i / (g->m * g->inner);
            move_rows(&rows, i, (outer * g->n + index) * g->inner + i % g->inner, 1);
        }
        return BASE_OK;
    }
    int64_t count = eng_desc_count(&eng_ref_in_tensor(step, 1)->desc);
    for (int64_t i = 0; i < count; i++) {
        BASE_TRY(index_at(step, run, i, g->n, &index));
        for (int64_t o = 0; o < g->outer; o++) {
            move_rows(&rows, (o * count + i) * g->inner, (o * g->n + index) * g->inner, g->inner);
        }
    }
    return BASE_OK;
}

// --- scatter ----------------------------------------------------------------------------------

// One element with its update.
static void combine(enum eng_scatter_fn fn, enum eng_dtype dtype, void *out, const void *update)
{
    base_assert(fn != ENG_SCATTER_SET && eng_ref_is(dtype, ENG_REF_NUMBERS));
    static const enum eng_binary_fn functions[] = {[ENG_SCATTER_ADD] = ENG_ADD,
                                                   [ENG_SCATTER_MUL] = ENG_MUL,
                                                   [ENG_SCATTER_MIN] = ENG_MIN,
                                                   [ENG_SCATTER_MAX] = ENG_MAX};
    if (eng_ref_is(dtype, ENG_REF_FLOATS)) {
        double value = eng_scalar_binary(functions[fn], eng_ref_load(dtype, out, 0),
                                         eng_ref_load(dtype, update, 0));
        eng_ref_store(dtype, out, 0, value);
        return;
    }
    uint64_t a = (uint64_t)eng_ref_load_int(dtype, out, 0);
    uint64_t b = (uint64_t)eng_ref_load_int(dtype, update, 0);
    bool is_less = dtype == ENG_U64 ? a < b : (int64_t)a < (int64_t)b;
    uint64_t least = is_less ? a : b, most = is_less ? b : a;
    uint64_t result = fn == ENG_SCATTER_ADD   ? a + b
                      : fn == ENG_SCATTER_MUL ? a * b
                      : fn == ENG_SCATTER_MIN ? least
                                              : most;
    eng_ref_store_int(dtype, out, 0, (int64_t)result);
}

static enum base_status run_scatter(const struct eng_step *step, const struct eng_run *run)
{
    const struct eng_scatter *s = &step->command->u.scatter;
    enum eng_dtype dtype = eng_ref_out_type(step, 0);
    size_t bytes = eng_dtype_bytes(dtype);
    base_assert(eng_ref_in_type(step, 0) == dtype);
    base_assert(eng_ref_in_type(step, 2) == dtype);
    const struct elements whole = {eng_ref_out(step, run, 0), eng_ref_in(step, run, 0), bytes};
    const struct elements updates = {whole.out, eng_ref_in(step, run, 2), bytes};
    int64_t row = 0;
    BASE_TRY(eng_coords_check(&s->coords, step, run));
    if (whole.out != whole.in) {
        move_rows(&whole, 0, 0, s->rows * s->inner);
    }
    for (int64_t i = 0; i < s->count; i++) {
        BASE_TRY(index_at(step, run, i, s->rows, &row));
        if (s->fn == ENG_SCATTER_SET) {
            move_rows(&updates, row * s->inner, i * s->inner, s->inner);
            continue;
        }
        uint8_t *to = (uint8_t *)updates.out + (size_t)(row * s->inner) * bytes;
        const uint8_t *from = (const uint8_t *)updates.in + (size_t)(i * s->inner) * bytes;
        for (int64_t j = 0; j < s->inner; j++, to += bytes, from += bytes) {
            combine(s->fn, dtype, to, from);
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
    const struct elements values = {eng_ref_out(step, run, 0), eng_ref_in(step, run, 1),
                                    eng_dtype_bytes(eng_ref_out_type(step, 0))};
    for (int64_t i = 0; i < h->outer * h->inner; i++) {
        int64_t hot = eng_ref_load_int(from, eng_ref_in(step, run, 0), i);
        hot = hot < 0 && hot >= -h->depth ? hot + h->depth : hot; // others: all off
        for (int64_t d = 0; d < h->depth; d++) {
            int64_t to = (i / h->inner * h->depth + d) * h->inner + i % h->inner;
            move_rows(&values, to, d == hot ? 1 : 0, 1);
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
