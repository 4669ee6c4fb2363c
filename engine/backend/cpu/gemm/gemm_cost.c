// The cost model of products and of the ways to cut their loops: operations and bytes of a plan
// over the rates of the machine (search/calibrate.c), the smaller of the two partly hidden behind
// the larger. Called by gemm_choose.c, conv_prepare.c and conv_search.c on the planning thread.
// Pure arithmetic on plans, but for an arena in which cuts are planned only to be looked at; those
// that run the same loops as one before are no candidates.
#include "backend/cpu/gemm/gemm_cost.h"

#include "backend/cpu/kernel/isa.h"
#include "base/alloc.h"
#include "base/check.h"

#define TILE_OVERHEAD  8.0 // steps of K that starting and storing one tile cost
#define SUMS_FOR_PEAK  8.0 // vectors of sums under way that keep both multipliers busy
#define STREAMING_ROWS 16
#define HIDDEN         0.75 // of the smaller of computing and moving: done meanwhile

static const char *const names[ENG_TUNING_COUNT] = {
    "usual",   "rows",      "columns",     "alone",  "k-half",  "k-double",
    "k-whole", "band-half", "band-double", "copied", "in-place"};

const char *eng_tuning_name(enum eng_tuning tuning)
{
    return (unsigned)tuning < ENG_TUNING_COUNT ? names[tuning] : "unknown";
}

struct eng_cost_rates eng_cost_rates_of(const struct eng_prepare *ctx)
{
    const struct eng_cpu *cpu = eng_cpu_detect();
    struct eng_cost_rates rates = {.machine = eng_search_machine(ctx->search),
                                   .l1_bytes = (double)cpu->l1_bytes,
                                   .l2_bytes = (double)cpu->l2_bytes,
                                   .l3_bytes = (double)cpu->l3_bytes,
                                   .threads = eng_pool_threads(ctx->pool)};
    rates.flops_per_us = eng_search_flops(ctx->search, ctx->kernels->name) / 1e6;
    rates.blas_flops_per_us = eng_machine_flops(rates.machine, "blas") / 1e6;
    rates.wake_us = rates.threads > 1 ? eng_search_wake_us(ctx->search) : 0;
    return rates;
}

static double bytes_us(const struct eng_cost_rates *rates, double bytes, double block)
{
    return bytes * 1e6 / eng_machine_bytes(rates->machine, block, rates->l2_bytes, rates->l3_bytes);
}

static double overlapped(double compute, double move)
{
    return compute > move ? compute + move * (1 - HIDDEN) : move + compute * (1 - HIDDEN);
}

// On `threads` threads that share `items` pieces.
static double shared(const struct eng_cost_rates *rates, double us, double items, uint32_t threads)
{
    if (threads <= 1 || items <= 1) {
        return us;
    }
    const double rounds = (double)(((int64_t)items + threads - 1) / threads);
    return us * rounds / items + rates->wake_us;
}

double eng_gemm_estimate(const struct eng_gemm_plan *plan, const struct eng_cost_rates *rates,
                         uint32_t threads)
{
    const struct eng_gemm_kernels *kernels = plan->kernels;
    const double k = (double)plan->segment_count * plan->k;
    const double rows = (double)plan->images * (double)plan->row_limit;
    const double width =
        (double)((plan->n + kernels->vl - 1) / kernels->vl * kernels->vl * plan->groups);
    const double panels = (double)(eng_gemm_panels(kernels, plan->n) * plan->groups);
    base_assert(plan->tile_rows > 0 && rates->flops_per_us > 0);
    const double vectors = plan->tile_rows <= kernels->mr_max[4] ? 4 : 2;
    const double sums = plan->tile_rows * vectors;
    const double busy = sums < SUMS_FOR_PEAK ? sums / SUMS_FOR_PEAK : 1;
    const double compute = 2 * rows * (k + TILE_OVERHEAD) * width / (rates->flops_per_us * busy);
    // The packed operand, once a band; the band, once a panel; a panel's block, once a tile.
    const double b_bytes = k * width * sizeof(float);
    const double bands = (double)(plan->images * plan->bands);
    const double band_bytes = (double)(plan->band_rows * plan->width) * k * sizeof(float);
    const double kc = (double)plan->kc < k ? (double)plan->kc : k;
    const double block_bytes = kc * kernels->nr * sizeof(float);
    const double tiles = rows / plan->tile_rows;
    double move = bytes_us(rates, bands * b_bytes, b_bytes);
    if (band_bytes + block_bytes > rates->l1_bytes) {
        move += bytes_us(rates, rows * k * sizeof(float) * panels, band_bytes);
    }
    if (block_bytes > rates->l1_bytes) {
        move += bytes_us(rates, tiles * b_bytes, block_bytes);
    }
    // Sums wait in C between blocks of K.
    const double blocks = plan->k > plan->kc ? (k + kc - 1) / kc : 1;
    move += bytes_us(rates, 2 * (blocks - 1) * rows * width * sizeof(float), band_bytes);
    const double fill =
        plan->fill != NULL ? bytes_us(rates, 2 * rows * k * sizeof(float), band_bytes) : 0;
    return rates->machine->call_us +
           shared(rates, overlapped(compute, move) + fill, bands * plan->splits, threads);
}

double eng_gemm_pack_estimate(const struct eng_gemm_plan *plan, const struct eng_cost_rates *rates)
{
    const double bytes = (double)plan->k * plan->segment_count * (double)(plan->n * plan->groups) *
                         sizeof(float) * (plan->b_offsets != NULL ? (double)plan->images : 1);
    return bytes_us(rates, 2 * bytes, bytes) / rates->threads;
}

double eng_blas_estimate(const struct eng_cost_rates *rates, int64_t images, int64_t rows,
                         int64_t columns, int64_t depth)
{
    base_assert(rates->blas_flops_per_us > 0); // else there is no BLAS to ask about
    base_assert(images > 0 && rows > 0 && columns > 0 && depth > 0);
    const double bytes =
        ((double)rows * (double)depth + (double)depth * (double)columns) * sizeof(float);
    const double compute =
        2 * (double)rows * (double)columns * (double)depth / rates->blas_flops_per_us;
    // It packs both operands each time.
    const double us = (double)images * (compute + 2 * bytes_us(rates, bytes, bytes));
    return rates->machine->call_us +
           shared(rates, us, images > 1 ? (double)images : rates->threads, rates->threads);
}

bool eng_cost_is_streaming(const struct eng_cost_rates *rates, int64_t rows, int64_t columns,
                           int64_t depth)
{
    return rows < STREAMING_ROWS &&
           (double)columns * (double)depth * sizeof(float) > rates->l2_bytes / 2;
}

bool eng_gemm_same_cut(const struct eng_gemm_plan *left, const struct eng_gemm_plan *right)
{
    const uint32_t k = left->k;
    const uint32_t kc_a = left->kc < k ? left->kc : k;
    const uint32_t kc_b = right->kc < k ? right->kc : k;
    // Short segments are taken several at a time.
    const bool same_k = left->segment_count == 1 ? kc_a == kc_b : left->kc == right->kc;
    return same_k && left->band_rows == right->band_rows && left->splits == right->splits &&
           (left->fill == NULL) == (right->fill == NULL) && left->lda == right->lda &&
           left->width == right->width;
}

struct eng_prepare eng_tuning_context(const struct eng_prepare *ctx, enum eng_tuning tuning)
{
    struct eng_prepare tuned = *ctx;
    tuned.tuning = tuning;
    if (tuning == ENG_TUNING_ALONE) {
        tuned.pool = NULL;
    }
    return tuned;
}

static bool is_for_threads(enum eng_tuning tuning)
{
    return tuning == ENG_TUNING_ROWS || tuning == ENG_TUNING_COLUMNS || tuning == ENG_TUNING_ALONE;
}

// The usual cut and those that differ from it; returns how many.
static size_t list_cuts(const struct eng_prepare *ctx, eng_plan_fn plan, const void *job,
                        struct eng_candidate out[ENG_TUNING_COUNT])
{
    const struct eng_cost_rates rates = eng_cost_rates_of(ctx);
    struct base_arena arena;
    base_arena_init(&arena, base_alloc_heap(), ENG_PLAN_ARENA_BYTES, 0);
    struct eng_gemm_plan cuts[ENG_TUNING_COUNT];
    size_t count = 0;
    for (int t = 0; t < ENG_TUNING_COUNT; t++) {
        const enum eng_tuning tuning = (enum eng_tuning)t;
        if (rates.threads == 1 && is_for_threads(tuning)) {
            continue;
        }
        base_assert(count < ENG_TUNING_COUNT);
        struct eng_prepare tuned = eng_tuning_context(ctx, tuning);
        tuned.arena = &arena;
        struct eng_gemm_plan *cut = &cuts[count];
        bool is_new = plan(job, &tuned, cut) == BASE_OK;
        const bool alone = tuning == ENG_TUNING_ALONE;
        for (size_t i = 0; i < count && is_new && !alone; i++) {
            is_new = !eng_gemm_same_cut(cut, &cuts[i]);
        }
        // One item runs alone as it is.
        is_new = is_new && (!alone || cuts[0].images * cuts[0].bands * cuts[0].splits > 1);
        if (is_new) {
            out[count++] = (struct eng_candidate){
                .name = eng_tuning_name(tuning),
                .a = (uint32_t)tuning,
                .cost_us = eng_gemm_estimate(cut, &rates, alone ? 1 : rates.threads),
                .fixed = tuning == ENG_TUNING_USUAL};
        }
        if (count == 0) {
            break; // not even the usual cut
        }
    }
    base_arena_done(&arena);
    return count;
}

enum eng_tuning eng_tuning_search(struct eng_trial *trial, eng_plan_fn plan, const char *problem)
{
    struct eng_candidate list[ENG_TUNING_COUNT];
    const size_t count = list_cuts(trial->ctx, plan, trial->job, list);
    base_assert(count <= ENG_TUNING_COUNT);
    if (count < 2) {
        return ENG_TUNING_USUAL;
    }
    const struct eng_search_query query = {.problem = problem,
                                           .candidates = list,
                                           .count = count,
                                           .measure = eng_trial_measure,
                                           .ctx = trial,
                                           .kind = ENG_SEARCH_VARIANT};
    size_t index = 0;
    if (eng_search_choose(trial->ctx->search, &query, &index) != BASE_OK) {
        index = 0;
    }
    return (enum eng_tuning)list[index].a;
}
