// Bad releases: what goes wrong, on which devices, how often.
//
//   rule := predicate "=>" behaviour [ "@" probability [ "each" ] ]
//   behaviour := "crash" [at load] | "exception" [at run N] | "hang" | "slow" [N ms]
//              | "wrong" [output]
//   probability := 0..1 or 0..100 %
// A rule hits a device by a draw of (seed, device, rule), so the same devices are hit in every run
// of one seed, at each of their runs. With "each" it is drawn anew whenever a version is activated
// on the device, also one that was active already: so who has a version is hit as often as who gets
// one.
#ifndef SIM_BAD_RELEASE_H
#define SIM_BAD_RELEASE_H

#include "model/predicate.h"

#define SIM_BAD_RULES_MAX   16
#define SIM_BAD_SLOW_MS_MAX 600000

enum sim_behaviour {
    SIM_BEHAVIOUR_NONE,
    SIM_BEHAVIOUR_CRASH,     // the virtual process dies while loading the version
    SIM_BEHAVIOUR_EXCEPTION, // at run number `amount` (1: the first) and later
    SIM_BEHAVIOUR_HANG,      // until the time budget stops it
    SIM_BEHAVIOUR_SLOW,      // `amount` milliseconds longer
    SIM_BEHAVIOUR_WRONG,     // the result is wrong, and seen to be so
    SIM_BEHAVIOUR_COUNT
};

struct sim_bad_rule {
    struct sim_predicate predicate;
    enum sim_behaviour behaviour;
    uint32_t amount;
    uint32_t probability_ppm;
    bool each; // drawn for each activation
};

struct sim_bad_release {
    struct sim_bad_rule rules[SIM_BAD_RULES_MAX];
    uint32_t rule_count;
};

// INVALID, TOO_LARGE with the column in `error`.
BASE_NODISCARD enum base_status sim_bad_rule_parse(struct base_str text, struct sim_bad_rule *out,
                                                   struct base_error *error);
// A run of a bad version.
struct sim_bad_run {
    uint64_t device;
    uint32_t activation; // how many there were on the device
    uint64_t index;      // of the run since then, from 0
    const struct pol_attrs *attrs;
};

// The first rule that hits the run, or NULL.
const struct sim_bad_rule *sim_bad_release_hit(const struct sim_bad_release *release, uint64_t seed,
                                               const struct sim_bad_run *run);
// "0.5", "50%", "50 %" as parts per million, at most 1,000,000.
BASE_NODISCARD enum base_status sim_ratio_parse(struct base_str text, uint32_t *out_ppm);

#endif
