// What is known of a device, for operators (rollout/device_views.h).
#ifndef GW_DEVICES_H
#define GW_DEVICES_H

#include "base/error.h"
#include "svc/plan/outcome_bits.h"
#include "wire/attrs.h"
#include "wire/report.h"

#include <stdint.h>

#define GW_DEVICE_OUTCOMES_MAX                                                                     \
    32u // rollouts in a device's record; beyond, the oldest finished get rows of their own

struct gw_core;

struct gw_device_outcome {
    uint64_t rollout_id;
    uint64_t task_id;
    uint64_t version_id;
    uint64_t fingerprint; // of the last failure; 0: none
    uint32_t offered_s;   // Unix seconds; 0: never (told by a report alone)
    uint32_t updated_s;
    uint8_t stage;               // the stage in which the device entered
    uint8_t tries;               // attempts after the first
    uint16_t bits;               // enum gw_outcome_bit
    uint8_t last_kind;           // enum wire_outcome_kind of the last report; 0: none
    struct wire_figures figures; // of its last run there
    bool shadow;                 // of the rollout's shadow there
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

#endif
