// What a blocked product takes, by the model: elementary work over the machine's rates.
#ifndef ENG_CPU_GEMM_COST_H
#define ENG_CPU_GEMM_COST_H

#include "backend/cpu/gemm/gemm_run.h"
#include "backend/cpu/gemm/step_trial.h"

#define ENG_PLAN_ARENA_BYTES (64u << 10) // chunk of an arena for plans that are only looked at

// The rates a session's search knows, in bytes and operations a microsecond.
struct eng_cost_rates {
    const struct eng_machine *machine;
    double flops_per_us; // of the table in use
    double blas_flops_per_us;
    double wake_us;
    double l1_bytes, l2_bytes, l3_bytes;
    uint32_t threads;
};
struct eng_cost_rates eng_cost_rates_of(const struct eng_prepare *ctx);

// Microseconds of one execution of the plan as it is cut. `threads` 1: alone.
double eng_gemm_estimate(const struct eng_gemm_plan *plan, const struct eng_cost_rates *rates,
                         uint32_t threads);
// Packing the second operand, which each run does when it changes.
double eng_gemm_pack_estimate(const struct eng_gemm_plan *plan, const struct eng_cost_rates *rates);
// The same of `images` products of rows x depth by depth x columns handed to BLAS, on all threads.
double eng_blas_estimate(const struct eng_cost_rates *rates, int64_t images, int64_t rows,
                         int64_t columns, int64_t depth);

// Whether a product mostly waits for weights from memory: measuring it again and again, with the
// weights at hand, would show nothing.
bool eng_cost_is_streaming(const struct eng_cost_rates *rates, int64_t rows, int64_t columns,
                           int64_t depth);

// --- how a product's loops may be cut ------------------------------------------------------------

const char *eng_tuning_name(enum eng_tuning tuning); // "rows"; never NULL
// Whether two plans run the same loops.
bool eng_gemm_same_cut(const struct eng_gemm_plan *left, const struct eng_gemm_plan *right);
// The context a tuning is prepared with; ALONE has no pool.
struct eng_prepare eng_tuning_context(const struct eng_prepare *ctx, enum eng_tuning tuning);

// Plans one product with the tuning of `ctx`. UNSUPPORTED: not this tuning.
typedef enum base_status (*eng_plan_fn)(const void *job, const struct eng_prepare *ctx,
                                        struct eng_gemm_plan *out_plan);
// Which cut to take for `problem`: the usual one and those that differ from it go to the session's
// search as variants. The trial's prepare gets the tuning as the candidate's a; its job goes to
// `plan`.
enum eng_tuning eng_tuning_search(struct eng_trial *trial, eng_plan_fn plan, const char *problem);

#endif
