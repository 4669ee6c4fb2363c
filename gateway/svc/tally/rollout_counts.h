// Counts of a rollout as sums over devices: what one device adds, and adding and taking away. Pure;
// any thread.
#ifndef GW_ROLLOUT_COUNTS_H
#define GW_ROLLOUT_COUNTS_H

#include "policy/gate.h"
#include "svc/plan/outcome_bits.h"

#include <stdint.h>

#define GW_ROLLOUT_FINGERPRINTS 8u
#define GW_ROLLOUT_SLICES       16u

// Devices, each counted once, in the state it is in now.
struct gw_rollout_counts {
    uint64_t offered;
    uint64_t downloaded;
    uint64_t activated;
    uint64_t succeeded; // ran and never failed
    uint64_t ran;       // ran well at least once, whatever came later: it is their floor
    uint64_t failed;
    uint64_t timed_out; // offered longer ago than the execution timeout, not completed since
    uint64_t under_way; // offered, not completed, and within that time: neither good nor bad
    uint64_t not_applicable;
    uint64_t rolled_back; // went back or removed it
    uint64_t on_version;  // activated and not back
    uint64_t retrying;    // failed in a way that may be tried again, and will be
    uint64_t silent;      // activated, did not fail, and not heard of for the stage's silence_s
    uint64_t expired;     // offered, and away since for longer than the stage's offline_expiry_s
    uint64_t eligible;    // targeted by an open stage, offered or not
    uint64_t online;      // of those, heard of lately
    uint64_t control;     // drawn as the control of this stage
    uint64_t control_offered; // ... and offered what it has again
    uint64_t control_activated;
    uint64_t control_completed;
    uint64_t control_failed;
    uint64_t control_silent;
    uint64_t silent_succeeded;    // of the silent: had run well
    uint64_t control_silent_done; // of control's silent: had completed
    uint64_t observed_s;          // device-seconds after activation
    uint64_t control_observed_s;  // device-seconds after they were drawn
    // Devices that did not show who they are, where the rollout does not trust them: in none of the
    // other figures.
    uint64_t unproven;
    uint64_t unproven_completed; // succeeded or failed, as they say
    uint64_t unproven_failed;
};

struct gw_rollout_fingerprint {
    uint64_t fingerprint;
    uint64_t devices;
    uint8_t kind;         // enum wire_outcome_kind
    char detail[160 + 1]; // of the first device that said it
};

// Devices that completed, by one attribute value; the worst first.
struct gw_rollout_slice {
    char attr[33];
    char value[65];
    uint64_t completed;
    uint64_t failed;
};

// What one device in this state (enum gw_outcome_bit) adds. What depends on time stays 0.
void gw_tally_contribution(uint16_t bits, struct gw_rollout_counts *out);
// Was it offered the version, and has not said how that ended? Asked of every device at every tick:
// in bits what gw_tally_contribution says in sums.
static inline bool gw_outcome_is_under_way(unsigned bits)
{
    const unsigned over = GW_OUTCOME_CONTROL | GW_OUTCOME_RAN | GW_OUTCOME_FAILED |
                          GW_OUTCOME_NOT_APPLICABLE | GW_OUTCOME_ROLLED_BACK | GW_OUTCOME_REMOVED;
    return bits != 0 && (bits & over) == 0;
}
// The sums over devices alone: not what depends on time, and nothing of those who do not count.
void gw_counts_add(struct gw_rollout_counts *to, const struct gw_rollout_counts *from);
// All of them: of a stage or a shadow beside another.
void gw_counts_add_all(struct gw_rollout_counts *to, const struct gw_rollout_counts *from);
void gw_counts_take(struct gw_rollout_counts *to, const struct gw_rollout_counts *from);

// What of a stage's counts its gate judges. Devices that fell silent after a success are no success
// any more.
void gw_counts_judged(const struct gw_rollout_counts *seen, struct pol_counts *out);

// Of the devices offered: those that answered (it ran or failed, or is not for them), whose time to
// answer is over, or that went away for good.
static inline uint64_t gw_counts_done(const struct gw_rollout_counts *counts)
{
    return counts->succeeded + counts->failed + counts->not_applicable + counts->timed_out +
           counts->expired;
}

#endif
