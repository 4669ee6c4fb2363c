// A stage as a randomised trial: what POL_GATE_LOGRANK judges, and what the caller must feed it.
//
// Unit and window. A device enters when it is offered, in the block of that moment (logrank.h). Its
// outcome is looked at for a window of fixed length from the moment the block closed. Until then it
// is under way, unless it has answered; under way is neither success nor failure. Who has not
// answered when the window is over is unanswered: no failure in a question that can stop a stage,
// one in a question that can pass it.
//
// What the caller keeps: the blocks whose window is not over, in the order in which they were
// begun, and one struct pol_trial with everything before them. For every look it copies that, adds
// the open blocks in their order (pol_trial_add) and puts the copy into pol_counts. When the
// window of the oldest block is over it adds it to what it keeps, for good. What a slice that is
// held has contributed it leaves out by playing its records again without the slice's devices.
//
// Who cannot be offered what it has (it has nothing, refuses that, or does not know how) is updated
// in blocks of its own, which are `alone`. They are asked about max_failure only. Where nobody at
// all could be compared, as in a first release, that is the only question that a pass has to
// answer.
//
// The questions, and why each answer may be given at any time:
// - Worse than control: logrank.h. Neither times nor delays matter.
// - Above max_failure: among the updated devices of the first blocks, any number of them, everybody
//   offered is a trial and the failures known so far are failures. Were all outcomes known, this
//   would be an e-process over devices in the order of their offers; failures that are not known
//   yet can only lower it. Its supremum over devices is bounded by Ville's inequality, so that the
//   first blocks may be those that speak most. Who refuses the version as not meant for it is no
//   trial once that is known. Condition: one device's outcome does not change another's chance, and
//   a block is begun without looking at who will be in it.
// - Within the limits: of blocks whose window is over alone, where everything is known. There
//   "not good" (failed, or unanswered) is one outcome, with one chance for each cohort. That of the
//   updated is no less than their chance of failing, so that one below max_failure shows the other.
//   Compared with control, answers that get lost in both cohorts hide a part of a rise: the rise
//   asked about is max_rise times min_answered, and nothing passes while either cohort is below
//   min_answered. Condition: answers to equal outcomes get lost alike in both cohorts.
// - Silence: as hazards per device-second, compared with control's (pol_hazard_test). Valid where
//   both cohorts are under observation in the same proportion at every age; blocks see to that, in
//   which both begin to be watched at the same time. Then a hazard that changes with the time of
//   day or with age does no harm: it is one and the same mean over both.
#ifndef POL_TRIAL_H
#define POL_TRIAL_H

#include "policy/stat/logrank.h"
#include "policy/stat/sequential.h"

struct pol_outcomes {
    uint64_t offered; // without those that refused
    uint64_t failed;
    uint64_t succeeded;
};

// Zeroed: nobody was offered.
struct pol_trial {
    struct pol_logrank rise;                    // of all blocks
    struct pol_outcomes all[POL_COHORT_COUNT];  // of all blocks
    struct pol_outcomes over[POL_COHORT_COUNT]; // of those whose window is over
    uint64_t compared;                          // updated devices of blocks that are not alone
    struct pol_outcomes beside;                 // of them, in over[POL_COHORT_UPDATED]
    struct pol_sample lead; // updated devices of the first blocks, as many of these as speak most
};

// Adds a block. All are added in the order in which they were begun, those whose window is over
// first. `max_failure_ppm` is the gate's. The wealth of the block's failures is in `rise` already.
void pol_trial_add(struct pol_trial *trial, const struct pol_block *block, bool over,
                   uint32_t max_failure_ppm);
// Devices of a cohort whose window is over and that answered, in parts per million of those whose
// window is over; 1,000,000 while there are none.
uint32_t pol_trial_answered_ppm(const struct pol_trial *trial, enum pol_cohort cohort);
// Counts fit together. For what comes from a log.
bool pol_trial_valid(const struct pol_trial *trial);
// Anybody was drawn for a comparison, into either cohort.
bool pol_trial_compares(const struct pol_trial *trial);

struct pol_gate;
struct pol_counts;
struct pol_judgement;
// The judgement of a gate with the rule POL_GATE_LOGRANK, over counts->trial and the two hazards.
// failure_ppm is failed / offered. Without a question asked nothing is decided. See gate.h.
void pol_trial_judge(const struct pol_gate *gate, const struct pol_counts *counts,
                     uint64_t in_stage_us, struct pol_judgement *out);

#endif
