// The measured costs of runs, as infer_cost.h says. Called by infer_run.c, which adds, and by
// infer_batch.c, which asks, with the service's lock held; by tests with numbers of their own.
// Costs are compared crosswise as products, in 128 bits, so that nothing is rounded.
#include "infer/infer_cost.h"

#include "base/check.h"

#include <stdbool.h>
#include <stddef.h>

#define TWENTIETHS 20u

static const struct gw_infer_cost *find(const struct gw_infer_costs *costs, uint64_t shape)
{
    for (uint32_t i = 0; i < GW_INFER_COST_SHAPES; i++) {
        if (costs->shapes[i].used_at != 0 && costs->shapes[i].shape == shape) {
            return &costs->shapes[i];
        }
    }
    return NULL;
}

// Of the shape, else the free one or the one unused longest, emptied for it.
static struct gw_infer_cost *place(struct gw_infer_costs *costs, uint64_t shape)
{
    struct gw_infer_cost *last = &costs->shapes[0];
    for (uint32_t i = 0; i < GW_INFER_COST_SHAPES; i++) {
        struct gw_infer_cost *at = &costs->shapes[i];
        if (at->used_at != 0 && at->shape == shape) {
            return at;
        }
        last = at->used_at < last->used_at ? at : last;
    }
    *last = (struct gw_infer_cost){.shape = shape};
    return last;
}

// The first size that has room for so many rows.
static uint32_t size_of(uint32_t rows)
{
    uint32_t size = 0;
    while ((UINT32_C(1) << size) < rows) {
        size++;
    }
    base_check(size < GW_INFER_COST_SIZES);
    return size;
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

// How many of the rows that wait a run of this size has.
static uint32_t used_rows(uint32_t size, uint32_t rows)
{
    return least(UINT32_C(1) << size, rows);
}

// What a run of a size costs, once it has been `before` and was `us` now. A run that took longer
// may have had a reason of its own, so it counts for an eighth, and for twice the cost at most; one
// that was faster shows what is possible.
static uint64_t moved(uint64_t before, uint64_t us)
{
    if (us <= before) {
        return before - (before - us) / 2;
    }
    uint64_t over = us - before;
    uint64_t most = before + TWENTIETHS; // above zero for what took no time at all
    return before + (over < most ? over : most) / 8;
}

void gw_infer_cost_add(struct gw_infer_costs *costs, uint64_t shape, uint32_t rows, uint64_t us)
{
    base_check(rows > 0);
    struct gw_infer_cost *cost = place(costs, shape);
    uint32_t size = size_of(rows);
    cost->us[size] = cost->runs[size] == 0 ? us : moved(cost->us[size], us);
    cost->runs[size] += cost->runs[size] < GW_INFER_COST_TRIALS;
    cost->runs_all++;
    cost->used_at = ++costs->uses;
}

// Does a row of a run of size `a` cost at most `twentieths` of one of size `b`?
static bool is_within(const struct gw_infer_cost *cost, uint32_t a, uint32_t b, uint32_t rows,
                      uint32_t twentieths)
{
    __extension__ typedef unsigned __int128 wide;
    wide of_a = (wide)cost->us[a] * used_rows(b, rows) * TWENTIETHS;
    wide of_b = (wide)cost->us[b] * used_rows(a, rows) * twentieths;
    return of_a <= of_b;
}

// The least size, up to `last`, that is as good as the best one; one that is not judged yet is
// better than any, the larger first.
static uint32_t best_size(const struct gw_infer_cost *cost, uint32_t last, uint32_t rows)
{
    uint32_t best = last;
    for (uint32_t size = last + 1; size-- > 0;) {
        if (cost->runs[size] < GW_INFER_COST_TRIALS) {
            return size;
        }
        best = is_within(cost, size, best, rows, TWENTIETHS) ? size : best;
    }
    uint32_t size = 0;
    while (size < best && !is_within(cost, size, best, rows, TWENTIETHS + 1)) {
        size++;
    }
    return size;
}

uint32_t gw_infer_cost_rows(const struct gw_infer_costs *costs, uint64_t shape, uint32_t rows)
{
    base_check(rows > 0);
    const struct gw_infer_cost *cost = find(costs, shape);
    if (cost == NULL) {
        return rows;
    }
    uint32_t last = size_of(rows);
    uint32_t size = best_size(cost, last, rows);
    if (cost->runs_all % GW_INFER_COST_TURN == 0) {
        bool up = cost->runs_all / GW_INFER_COST_TURN % 2 != 0;
        size = up ? least(size + 1, last) : size - (size > 0);
    }
    return used_rows(size, rows);
}
