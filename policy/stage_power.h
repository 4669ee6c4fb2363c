// Power of a stage that runs: which rise it can see by now, and what it still needs to see the one
// its gate declares. Pure; from what the stage has measured, nothing is guessed that is known.
#ifndef POL_STAGE_POWER_H
#define POL_STAGE_POWER_H

#include "policy/gate.h"

// The test whose power is asked about: the gate's questions about failures, at their part of alpha.
// With LOGRANK the relative one alone, whose bets have evidence of the same strength.
struct pol_test pol_stage_power_test(const struct pol_gate *gate);

// Control's failure rate while no control device completed.
#define POL_STAGE_POWER_BASE_PPM 5000u

struct pol_stage_size {
    uint64_t devices;     // the stage has, offered the version or not
    uint64_t control;     // of its control cohort
    uint64_t in_stage_us; // since it opened
};

struct pol_stage_power {
    uint32_t rise_ppm;  // declared: the gate's max_rise
    uint64_t completed; // updated devices that are done (LOGRANK: that answered)
    uint64_t devices;   // the stage has
    uint64_t needed;    // completed ones that find the declared rise with probability 1 - beta
    bool can_detect;    // needed <= devices
    uint32_t sees_ppm;  // the smallest rise that `completed` find so; 1,000,000: none
    uint32_t best_ppm;  // ... that all of the stage's devices find
    uint32_t base_ppm;  // control's failure rate
    bool base_measured; // and not POL_STAGE_POWER_BASE_PPM
    uint64_t seconds;   // until `needed` are done at the stage's pace; 0: they are, or unknown
};

// False: the gate declares no rise (rule threshold, max_rise not asked). About 0.2 ms.
bool pol_stage_power(const struct pol_gate *gate, const struct pol_counts *counts,
                     const struct pol_stage_size *size, struct pol_stage_power *out);

#endif
