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
#define ENG_SEARCH_PROBLEM_BYTES  120   // longest key of a problem, NUL included
#define ENG_SEARCH_PROBLEMS_MAX   4096u // problems remembered
#define ENG_SEARCH_FILE_BYTES_MAX (4u << 20)
#define ENG_SEARCH_MEASURED_MAX   4 // candidates measured per problem, not counting repetitions
#define ENG_SEARCH_BUDGET_US      300000u // of one plan, after ENG_CALIBRATE_MAX_US of calibrating
#define ENG_SEARCH_EXTRAS_US      160000u // of that, for choices of little promise (eng_search_kind)
// A candidate whose estimate is over this many times the best estimate is not measured.
#define ENG_SEARCH_HOPELESS 3.0
// The same of ENG_SEARCH_EXTRA and _VARIANT: the model knows them better, and there are many.
#define ENG_SEARCH_EXTRA_HOPELESS 1.5
// Another candidate must take less than this part of the fixed choice's time to be taken instead:
// what lies closer is noise, and noise would make choices change from day to day.
#define ENG_SEARCH_GAIN 0.97
// An algorithm that takes less than this part of the fixed choice's time wins at once. Narrower
// wins, and all of extras and variants, are measured once more, and stand only where the fixed
// choice's two figures agree within ENG_SEARCH_STEADY: a machine too busy to measure one thing
// twice alike decides nothing that narrow.
#define ENG_SEARCH_CLEAR  0.85
#define ENG_SEARCH_STEADY 1.10

struct eng_search;

struct eng_candidate {
    const char *name;   // static, unique within the problem: "winograd4", "direct", "blas"
    uint32_t a, b;      // parameters, the caller's
    double cost_us;     // what the model says
    double extra_us;    // added to estimate and measurement alike: the price of memory it keeps
    bool fixed;         // what would be taken without search; at most one of the list
    bool measured_only; // never taken on its estimate alone
};

// Time of one execution in microseconds (the best of a few). Looks at the search's clock between
// executions and returns with what it has, or with TIMEOUT, when `deadline_us` has passed. Any
// failure leaves the candidate out.
typedef enum base_status (*eng_measure_fn)(void *ctx, const struct eng_candidate *candidate,
                                           uint64_t deadline_us, double *out_us);

enum eng_search_kind {
    ENG_SEARCH_ALGORITHM, // measured within the whole budget; what was not is measured another time
    // The fixed choice and others of little promise: measured within ENG_SEARCH_EXTRAS_US of a
    // plan. After that the fixed choice is taken, and remembered as well, so that later sessions
    // do not measure on.
    ENG_SEARCH_EXTRA,
    ENG_SEARCH_VARIANT, // the same; the fixed choice is what another problem of the plan chose
};

// One choice to make.
struct eng_search_query {
    const char *problem; // names operator, shapes and types; equal text means equal choice
    const struct eng_candidate *candidates;
    size_t count; // 1..ENG_SEARCH_CANDIDATES_MAX
    eng_measure_fn measure;
    void *ctx; // of measure
    enum eng_search_kind kind;
};

// What a plan costs on one backend, by the model.
struct eng_graph_cost {
    const char *backend; // static
    double compute_us;   // products and what is as heavy
    double copies_us;    // rasters and conversions between layouts and types
    double other_us;     // elementwise and the like
    double fallback_us;  // commands the backend leaves to the reference
    double total_us;
};

// Microseconds that handing one loop to the session's threads costs, measured by the caller.
typedef double (*eng_wake_fn)(void *ctx);

struct eng_search_options {
    const struct base_clock_port *clock;
    const char *isa; // part of every key, like the processor's name
    uint32_t threads;
    const char *path; // file of choices made before; NULL: none
    // Backends to have rates of; copied. The first one's rate stands in for any that has none.
    const struct eng_rate_source *sources;
    size_t source_count;               // at most ENG_RATES_MAX
    const struct eng_machine *machine; // measured earlier in this process; NULL: calibrate
    eng_wake_fn wake;                  // NULL: threads cost nothing to wake
    void *wake_ctx;
    bool model_only;    // never measure
    uint64_t budget_us; // 0: ENG_SEARCH_BUDGET_US
};

// Reads the file if it is there (a damaged or foreign one counts as empty). NOMEM.
BASE_NODISCARD enum base_status eng_search_new(const struct eng_search_options *options,
                                               struct eng_search **out_search);
void eng_search_free(struct eng_search *search); // accepts NULL

// The machine's rates: from the file, or calibrated on the first call.
const struct eng_machine *eng_search_machine(struct eng_search *search);
// The same, NULL when they are not known yet.
const struct eng_machine *eng_search_machine_known(const struct eng_search *search);
// Rate of a backend, the first one's when it has none: never 0.
double eng_search_flops(struct eng_search *search, const char *backend);
// What waking the session's threads costs; 0 for a session of one thread.
double eng_search_wake_us(struct eng_search *search);

// Index of the candidate to take. Repeated problems are answered from memory and counted.
// INVALID: an empty list, or a key too long. UNSUPPORTED: every candidate refused.
BASE_NODISCARD enum base_status eng_search_choose(struct eng_search *search,
                                                  const struct eng_search_query *query,
                                                  size_t *out_index);

// Tells the table what the plan's first segment costs on each backend, and which was taken and why;
// nothing after the first call of a plan. rows: at most ENG_RATES_MAX, copied; `why` is static.
void eng_search_note_graph(struct eng_search *search, const struct eng_graph_cost *rows,
                           size_t count, size_t chosen, const char *why);

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
