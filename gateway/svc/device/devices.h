// What is known of a device, for operators.
//
// Called on the control thread only. A view joins the stored record with what is newer in memory.
#ifndef GW_DEVICES_H
#define GW_DEVICES_H

#include "base/error.h"
#include "wire/attrs.h"
#include "wire/report.h"

#include <stdint.h>

#define GW_DEVICE_OUTCOMES_MAX                                                                     \
    32u // rollouts in a device's record; beyond, the oldest finished get rows of their own

struct gw_core;

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

struct gw_device_outcome {
    uint64_t rollout_id;
    uint64_t task_id;
    uint64_t version_id;
    uint64_t fingerprint; // of the last failure; 0: none
    uint32_t offered_s;   // Unix seconds; 0: never (told by a report alone)
    uint32_t updated_s;
    uint8_t stage;     // the stage in which the device entered
    uint8_t tries;     // attempts after the first
    uint16_t bits;     // enum gw_outcome_bit
    uint8_t last_kind; // enum wire_outcome_kind of the last report; 0: none
    bool shadow;       // of the rollout's shadow there
};

struct gw_device_view {
    uint64_t device_id;
    uint64_t first_seen_s;
    uint64_t last_seen_s;
    uint32_t epoch;
    uint16_t tenant;
    uint8_t credential; // enum gw_credential_state
    bool proven;        // it has shown who it is: its reports count
    uint64_t report_seq;
    struct wire_attrs attrs; // texts borrowed from attrs_bytes below: copy the view by pointer only
    uint8_t attrs_bytes[WIRE_ATTRS_BYTES_MAX];
    uint32_t attrs_size;
    uint32_t outcome_count;
    struct gw_device_outcome outcomes[GW_DEVICE_OUTCOMES_MAX];
};

BASE_NODISCARD enum base_status gw_device_get(struct gw_core *core, uint64_t device_id,
                                              struct gw_device_view *out);
// What the device said with its last failure in that rollout; empty: nothing is known.
void gw_device_failure(struct gw_core *core, const struct gw_device_outcome *outcome,
                       char out[WIRE_REPORT_DETAIL_MAX + 1]);
// In the order of device ids; `after` is exclusive, begin with has_after false. At most `limit`
// (GW_PAGE_MAX) views into `out`.
BASE_NODISCARD enum base_status gw_device_list(struct gw_core *core, bool has_after, uint64_t after,
                                               uint32_t limit, struct gw_device_view *out,
                                               uint32_t *out_count, bool *out_more);

#endif
