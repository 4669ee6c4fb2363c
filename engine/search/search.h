// Semi-automatic search: for each operator of a plan the caller lists candidate algorithms with
// what a cost model says they take; the few that look best are measured on this machine; the
// fastest is taken, and remembered in a file.
//
//   cost(candidate) = elementary work / rate of this machine + overhead
//
// as in the original's C_alg = Q_alg / P_ba + S_alg,ba, with rates calibrated here (calibrate.h)
// rather than looked up by processor.
//
// One search belongs to one session; one thread. Measuring stops when the budget of a plan is
// spent: from then on the model alone decides (those choices are not remembered).
#ifndef ENG_SEARCH_SEARCH_H
#define ENG_SEARCH_SEARCH_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/ports.h"
#include "search/calibrate.h"

#include <stddef.h>
#include <stdint.h>

#define ENG_SEARCH_CANDIDATES_MAX 16
#define ENG_SEARCH_PROBLEM_BYTES  96    // longest key of a problem, NUL included
#define ENG_SEARCH_PROBLEMS_MAX   4096u // problems remembered
#define ENG_SEARCH_FILE_BYTES_MAX (4u << 20)
#define ENG_SEARCH_MEASURED_MAX   3       // candidates measured per problem
#define ENG_SEARCH_BUDGET_US      350000u // of one plan, calibration not included
// A candidate whose estimate is over this many times the best estimate is not measured.
#define ENG_SEARCH_HOPELESS 3.0

struct eng_search;

struct eng_candidate {
    const char *name; // static, unique within the problem: "winograd4", "direct", "blas"
    uint32_t a, b;    // parameters, the caller's
    double cost_us;   // what the model says
    double extra_us;  // added to estimate and measurement alike: the price of memory it keeps
    bool fixed;       // what would be taken without search; at most one of the list
};

// Time of one execution in microseconds (the best of a few). NOMEM or UNSUPPORTED leave the
// candidate out.
typedef enum base_status (*eng_measure_fn)(void *ctx, const struct eng_candidate *candidate,
                                           double *out_us);

struct eng_search_options {
    const struct base_clock_port *clock;
    const char *isa; // part of every key, like the processor's name
    uint32_t threads;
    const char *path;   // file of choices made before; NULL: none
    eng_flops_fn flops; // compute kernel of `isa`, for calibrating; NULL: plain C
    void *flops_ctx;
    bool model_only;    // never measure
    uint64_t budget_us; // 0: ENG_SEARCH_BUDGET_US
};

// Reads the file if it is there (a damaged or foreign one counts as empty). NOMEM.
BASE_NODISCARD enum base_status eng_search_new(const struct eng_search_options *options,
                                               struct eng_search **out_search);
void eng_search_free(struct eng_search *search); // accepts NULL

// The machine's rates: from the file, or calibrated on the first call.
const struct eng_machine *eng_search_machine(struct eng_search *search);

// Index of the candidate to take for `problem` (text that names operator, shapes and types; equal
// text means equal choice). Repeated problems are answered from memory and counted.
// count 1..CANDIDATES_MAX. INVALID: an empty list, or a key too long. UNSUPPORTED: every candidate
// refused.
BASE_NODISCARD enum base_status eng_search_choose(struct eng_search *search, const char *problem,
                                                  const struct eng_candidate *candidates,
                                                  size_t count, eng_measure_fn measure, void *ctx,
                                                  size_t *out_index);

// Begins a plan: the budget is full again, counts of problems start at 0.
void eng_search_begin(struct eng_search *search);
// Microseconds spent measuring since begin.
uint64_t eng_search_spent_us(const struct eng_search *search);
// Writes new choices to the file (a new file renamed over the old one). OK without a path. IO.
BASE_NODISCARD enum base_status eng_search_save(struct eng_search *search);
// The table: every problem since begin with its candidates (estimate, measurement, choice), then
// what the choices save against the worst measured and against the fixed ones.
BASE_NODISCARD enum base_status eng_search_explain(const struct eng_search *search,
                                                   struct base_buffer *out);

#endif
