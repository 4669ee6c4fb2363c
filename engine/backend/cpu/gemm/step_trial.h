// Measuring one candidate for a command on made-up operands: the search's way to the clock.
#ifndef ENG_CPU_STEP_TRIAL_H
#define ENG_CPU_STEP_TRIAL_H

#include "backend/backend.h"
#include "search/search.h"

#define ENG_TRIAL_BYTES_MAX ((size_t)256 << 20) // of operands made up; larger ones are not measured

struct eng_trial;
// Prepares a candidate as a step. ctx: the trial's, with an arena that goes away.
typedef enum base_status (*eng_trial_prepare_fn)(const struct eng_trial *trial,
                                                 const struct eng_prepare *ctx,
                                                 const struct eng_candidate *candidate,
                                                 struct eng_step *out_step);

// Zeroed but for what the caller sets; one problem's candidates share it.
struct eng_trial {
    const struct eng_prepare *ctx;
    const struct eng_program *program;
    const struct eng_command *command;
    eng_trial_prepare_fn prepare;
    const void *job; // prepare's
    // Made by the first measurement: a remembered choice needs none.
    void **data;                  // by tensor number
    struct eng_pack_cache *packs; // weights packed for the trial alone
};

// An eng_measure_fn; ctx is a struct eng_trial.
BASE_NODISCARD enum base_status eng_trial_measure(void *ctx, const struct eng_candidate *candidate,
                                                  uint64_t deadline_us, double *out_us);
void eng_trial_done(struct eng_trial *trial);

#endif
