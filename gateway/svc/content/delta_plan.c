// See delta_plan.h. Each chunk has a price in every state, a state being a shift and a way; the
// cheapest path through the states, where changing costs something, is the plan. Prices are in
// sixteenths of a bit and whole numbers: the same everywhere. Background threads.
#include "svc/content/delta_plan.h"

#include <string.h>

#define CHUNKS_MAX   (GW_DELTA_RUNS_MAX - 1)
#define STATES_MAX   (GW_DELTA_SHIFTS_MAX * GW_DELTA_NEW + 1)
#define UNIT         16u // a bit
#define ZERO_PRICE   4u  // of a number that did not change
#define SWITCH_PRICE (40u * 8 * UNIT)
#define NEVER        (UINT32_MAX / 4)
#define GOOD_PRICE   UNIT        // a byte, of a shift so good that no other is tried
#define DEAR_PRICE   (3u * UNIT) // a byte, beyond which it may be new

struct planner {
    const struct gw_delta_pair *pair;
    uint32_t shift_count;
    int64_t shifts[GW_DELTA_SHIFTS_MAX];
    uint32_t total[STATES_MAX]; // of the cheapest path that ends in a state
    uint8_t came[CHUNKS_MAX][STATES_MAX];
};
_Static_assert(STATES_MAX <= UINT8_MAX, "came");

// ---- Prices

static uint32_t bits_of(uint32_t value)
{
    return value == 0 ? 0 : 32 - (uint32_t)__builtin_clz(value);
}

static inline uint32_t load(const uint8_t *at, const uint32_t width)
{
    uint32_t value = 0;
    memcpy(&value, at, width);
    return value;
}

static uint32_t log2_units(uint32_t value)
{
    uint32_t whole = bits_of(value) - 1;
    uint32_t fraction = (uint32_t)(((uint64_t)value << 32 >> whole) >> 28) & 15; // nearly
    return whole * UNIT + fraction;
}

// What telling `size` symbols apart costs that come so often each.
static uint32_t entropy(const uint32_t *counts, uint32_t symbols, uint32_t size)
{
    uint32_t price = 0;
    for (uint32_t i = 0; i < symbols; i++) {
        price += counts[i] == 0 ? 0 : counts[i] * (log2_units(size) - log2_units(counts[i]));
    }
    return price;
}

// Of bytes; of their differences to `old`, if it is not NULL.
static uint32_t bytes_price(const uint8_t *old, const uint8_t *fresh, size_t size)
{
    uint32_t counts[256] = {0};
    for (size_t i = 0; i < size; i++) {
        counts[(uint8_t)(fresh[i] - (old != NULL ? old[i] : 0))]++;
    }
    return entropy(counts, 256, (uint32_t)size) + (old != NULL ? counts[0] * ZERO_PRICE : 0);
}

// Of numbers' differences: how long each is, and its bits. Inlined for each width.
static inline uint32_t sum_price(const uint8_t *old, const uint8_t *fresh, size_t size,
                                 const uint32_t width)
{
    const uint32_t unused = 32 - 8 * width; // bits
    uint32_t counts[33] = {0};
    uint32_t bits_sum = 0;
    uint32_t count = 0;
    for (size_t i = 0; i + width <= size; i += width, count++) {
        uint32_t difference = (load(fresh + i, width) - load(old + i, width)) << unused;
        uint32_t sign = 0u - (difference >> 31);
        uint32_t bits = bits_of((difference ^ sign) >> unused) + (difference != 0);
        counts[bits]++;
        bits_sum += bits;
    }
    return entropy(counts, 33, count) + bits_sum * UNIT + counts[0] * ZERO_PRICE;
}

static uint32_t numbers_price(const uint8_t *old, const uint8_t *fresh, size_t size, uint32_t width)
{
    if (width == 1) {
        return bytes_price(old, fresh, size);
    }
    return width == 4 ? sum_price(old, fresh, size, 4) : sum_price(old, fresh, size, 2);
}

// The prices of a chunk at one shift, for each way but NEW; the lowest is returned.
static uint32_t shift_prices(const struct gw_delta_pair *pair, size_t from, size_t size,
                             int64_t shift, uint32_t out[GW_DELTA_NEW])
{
    int64_t old_from = (int64_t)from + shift;
    for (uint32_t way = 0; way < GW_DELTA_NEW; way++) {
        out[way] = NEVER;
    }
    if (old_from < 0 || (uint64_t)old_from > pair->old_size ||
        size > pair->old_size - (uint64_t)old_from) {
        return NEVER;
    }
    const uint8_t *old = pair->old + old_from;
    const uint8_t *fresh = pair->fresh + from;
    if (memcmp(old, fresh, size) == 0) {
        out[GW_DELTA_SAME] = 0;
    }
    uint32_t best = out[GW_DELTA_SAME];
    for (uint32_t way = GW_DELTA_BYTES; way < GW_DELTA_NEW; way++) {
        uint32_t width = way >= GW_DELTA_QUADS ? 4 : way >= GW_DELTA_PAIRS ? 2 : 1;
        uint32_t phase = way >= GW_DELTA_QUADS   ? way - GW_DELTA_QUADS
                         : way >= GW_DELTA_PAIRS ? way - GW_DELTA_PAIRS
                                                 : 0;
        uint32_t skip = (phase - (uint32_t)from) & (width - 1);
        if (best == 0) { // as a part of a longer run of numbers
            out[way] = (uint32_t)(size / width) * ZERO_PRICE;
        } else if (skip < size) {
            out[way] = numbers_price(old + skip, fresh + skip, size - skip, width);
        }
    }
    for (uint32_t way = GW_DELTA_BYTES; way < GW_DELTA_NEW; way++) {
        best = out[way] < best ? out[way] : best;
    }
    return best;
}

// ---- The path

static void shift_add(struct planner *planner, int64_t shift)
{
    for (uint32_t i = 0; i < planner->shift_count; i++) {
        if (planner->shifts[i] == shift) {
            return;
        }
    }
    planner->shifts[planner->shift_count++] = shift;
}

static void chunk_prices(const struct planner *planner, size_t from, size_t size,
                         uint32_t out[STATES_MAX])
{
    uint32_t best = NEVER;
    uint32_t last = planner->shift_count * GW_DELTA_NEW;
    for (uint32_t s = 0; s < planner->shift_count; s++) {
        uint32_t *prices = &out[s * GW_DELTA_NEW];
        if (best < (uint32_t)size * GOOD_PRICE) {
            for (uint32_t way = 0; way < GW_DELTA_NEW; way++) {
                prices[way] = NEVER;
            }
            continue;
        }
        uint32_t price = shift_prices(planner->pair, from, size, planner->shifts[s], prices);
        best = price < best ? price : best;
    }
    out[last] = best > (uint32_t)size * DEAR_PRICE
                    ? bytes_price(NULL, planner->pair->fresh + from, size)
                    : (uint32_t)size * 8 * UNIT;
}

static void chunk_step(struct planner *planner, uint32_t chunk, const uint32_t prices[STATES_MAX])
{
    uint32_t states = planner->shift_count * GW_DELTA_NEW + 1;
    uint32_t best = 0;
    for (uint32_t i = 1; i < states; i++) {
        best = planner->total[i] < planner->total[best] ? i : best;
    }
    uint32_t switched = planner->total[best] + SWITCH_PRICE;
    for (uint32_t i = 0; i < states; i++) {
        bool stays = planner->total[i] <= switched;
        uint32_t total = (stays ? planner->total[i] : switched) + prices[i];
        planner->came[chunk][i] = (uint8_t)(stays ? i : best);
        planner->total[i] = total < NEVER ? total : NEVER;
    }
}

static struct gw_delta_run run_of(const struct planner *planner, uint32_t state)
{
    if (state == planner->shift_count * GW_DELTA_NEW) {
        return (struct gw_delta_run){.way = GW_DELTA_NEW};
    }
    return (struct gw_delta_run){.shift = planner->shifts[state / GW_DELTA_NEW],
                                 .way = (enum gw_delta_way)(state % GW_DELTA_NEW)};
}

// Follows the path back, and writes down where its state changes.
static uint32_t path_take(const struct planner *planner, uint32_t chunks, size_t from,
                          struct gw_delta_plan *plan)
{
    uint8_t state[CHUNKS_MAX];
    uint32_t states = planner->shift_count * GW_DELTA_NEW + 1;
    uint32_t at = 0;
    for (uint32_t i = 1; i < states; i++) {
        at = planner->total[i] < planner->total[at] ? i : at;
    }
    uint32_t price = planner->total[at];
    for (uint32_t chunk = chunks; chunk > 0; chunk--) {
        state[chunk - 1] = (uint8_t)at;
        at = planner->came[chunk - 1][at];
    }
    plan->count = 0;
    for (uint32_t chunk = 0; chunk < chunks; chunk++) {
        if (chunk > 0 && state[chunk] == state[chunk - 1]) {
            continue;
        }
        struct gw_delta_run run = run_of(planner, state[chunk]);
        run.from = from + (size_t)chunk * GW_DELTA_CHUNK_BYTES;
        plan->last_shift = run.way == GW_DELTA_NEW ? plan->last_shift : run.shift;
        plan->runs[plan->count++] = run;
    }
    return price / UNIT;
}

uint32_t gw_delta_plan_make(const struct gw_delta_pair *pair, size_t from, size_t to,
                            const struct gw_delta_shifts *voted, struct gw_delta_plan *plan)
{
    struct planner planner = {.pair = pair};
    uint32_t prices[STATES_MAX];
    uint32_t chunk = 0;
    shift_add(&planner, plan->last_shift);
    shift_add(&planner, 0);
    shift_add(&planner, (int64_t)pair->old_size - (int64_t)pair->fresh_size);
    for (uint32_t i = 0; i < voted->count; i++) {
        shift_add(&planner, voted->shift[i]);
    }
    for (size_t at = from; at < to; at += GW_DELTA_CHUNK_BYTES, chunk++) {
        size_t size = to - at < GW_DELTA_CHUNK_BYTES ? to - at : GW_DELTA_CHUNK_BYTES;
        chunk_prices(&planner, at, size, prices);
        chunk_step(&planner, chunk, prices);
    }
    return path_take(&planner, chunk, from, plan);
}
