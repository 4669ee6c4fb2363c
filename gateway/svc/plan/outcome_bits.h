// What a device has gone through in a rollout, as bits: in its record, in the tally and in views.
#ifndef GW_OUTCOME_BITS_H
#define GW_OUTCOME_BITS_H

#include <stdbool.h>

// What a device has gone through in a rollout. FAILED wins over RAN when counted.
enum gw_outcome_bit {
    GW_OUTCOME_OFFERED = 1u << 0,
    GW_OUTCOME_DOWNLOADED = 1u << 1,
    GW_OUTCOME_ACTIVATED = 1u << 2,
    GW_OUTCOME_RAN = 1u << 3,
    GW_OUTCOME_FAILED = 1u << 4,
    GW_OUTCOME_ROLLED_BACK = 1u << 5,
    GW_OUTCOME_NOT_APPLICABLE = 1u << 6,
    GW_OUTCOME_REMOVED = 1u << 7,
    // It is watched beside the updated: offered nothing, or (OFFERED) a placebo, what it has again.
    GW_OUTCOME_CONTROL = 1u << 8,
    GW_OUTCOME_RETRY = 1u << 9,        // failed, but may try again: no failure yet
    GW_OUTCOME_RETRY_GIVEN = 1u << 10, // ... and was told so
    GW_OUTCOME_SHADOW = 1u << 11,      // what ran was a shadow: it is not on the version
    GW_OUTCOME_PROVEN = 1u << 12,      // the device had shown who it is when it entered or said so
    GW_OUTCOME_DRAWN = 1u << 13,       // it entered a trial, by an offer or a placebo
    GW_OUTCOME_ALONE = 1u << 14,       // ... in which it is compared with nobody
    GW_OUTCOME_WITHDRAWN = 1u << 15,   // it went back for want of a lease, say, to what it kept
};

// It said that this is not for it, and never ran it: neither good nor bad.
static inline bool gw_outcome_is_not_for_it(unsigned bits)
{
    return (bits & GW_OUTCOME_NOT_APPLICABLE) != 0 &&
           (bits & (GW_OUTCOME_RAN | GW_OUTCOME_FAILED)) == 0;
}

#endif
