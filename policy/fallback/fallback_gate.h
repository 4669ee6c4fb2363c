// What a stage asks of a device's decisions between device and cloud (fallback_decide.h). The rule
// is part of the version that the stage releases; a device tells how often it decided, sent, was
// answered otherwise than it would have, and how long answers took. Pure: counts in, a fault out.
//
// A device is at fault when its own counts show that it is beyond a limit, not when they are merely
// beyond it: of three decisions one may be sent under a rule that sends a tenth. Then it has failed
// as if a run had, and the stage's gate judges how many devices may, beside control where there is
// one. So a rule whose device keeps to the limits is found at fault with a chance of at most
// POL_FALLBACK_LEVEL each time that the device tells (an exact binomial test, binomial.h).
#ifndef POL_FALLBACK_GATE_H
#define POL_FALLBACK_GATE_H

#include <stdbool.h>
#include <stdint.h>

#define POL_FALLBACK_LEVEL  0.001
#define POL_FALLBACK_LATE   0.05  // of a device's answers that may take longer than late_ms
#define POL_FALLBACK_MS_MAX 1600u // the longest that devices tell apart

// Zero-initialised, nothing is asked.
struct pol_fallback_limits {
    uint32_t min_kept_ppm;   // of decisions: the device's own result stands; 0: not asked
    uint32_t min_agreed_ppm; // of answers: the device's own result is the same; 0: not asked
    uint32_t late_ms;        // 95 of 100 answers come within it; 0: not asked
};

// Each part of the one before it, and `late` of `answered`.
struct pol_fallback_seen {
    uint32_t asked; // decisions
    uint32_t sent;
    uint32_t answered;
    uint32_t differed; // the device's own result was another one
    uint32_t late;     // took longer than late_ms
};

enum pol_fallback_fault {
    POL_FALLBACK_FINE, // nothing is shown
    POL_FALLBACK_SENDS,
    POL_FALLBACK_DIFFERS,
    POL_FALLBACK_LATER,
    POL_FALLBACK_FAULT_COUNT
};

// Shares of at most 1,000,000, and late_ms of at most POL_FALLBACK_MS_MAX.
bool pol_fallback_limits_check(const struct pol_fallback_limits *limits);
// The first fault that is shown, in the order of the enumeration.
enum pol_fallback_fault pol_fallback_judge(const struct pol_fallback_limits *limits,
                                           const struct pol_fallback_seen *seen);

#endif
