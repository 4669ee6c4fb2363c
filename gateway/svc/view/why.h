// Why a device runs what it runs: what it should, by the decision that check-ins are answered with
// (svc/plan/want.h), and one answer for each rollout of the task. Control thread.
#ifndef GW_WHY_H
#define GW_WHY_H

#include "base/error.h"
#include "svc/device/device_faults.h"
#include "svc/device/devices.h"
#include "svc/rollout/rollouts.h"

#define GW_WHY_ROLLOUTS_MAX 16u // the newest
#define GW_WHY_REFUSED_MAX  16u // versions that failed on a device, and that it is said to refuse

struct gw_why_rollout {
    uint64_t id;
    uint64_t version_id;
    struct wire_sha256 manifest;
    char version[GW_VERSION_TEXT_MAX + 1]; // its number; empty: the version is not known any more
    enum pol_rollout_state state;
    bool killed;
    bool targeted;
    uint16_t bucket;
    bool admitted;  // by an open stage
    uint16_t stage; // that admits it, or the newest open one
    char stage_name[GW_STAGE_NAME_MAX + 1];
    uint16_t max_bucket;    // of that stage
    enum pol_reason reason; // IN_STAGE, OUTSIDE_BUCKET, NOT_TARGETED ...
    char test[96];          // the part of the target that decided, when there is one
    bool baseline;          // the task's
    // What the device went through in it; bits 0: nothing.
    uint16_t bits;
    uint8_t tries;
    uint8_t last_kind;
    uint32_t offered_s;
    uint64_t fingerprint;
    uint64_t privacy_refusals; // of its last run: what it tried to let go and may not
    char detail[160 + 1];
};

struct gw_why_view {
    uint64_t device_id;
    uint64_t last_seen_s;
    char task[WIRE_TASK_NAME_MAX + 1];
    // As its reports say.
    uint64_t has_version_id;     // 0: nothing
    uint64_t has_counter;        // release counter by which it has that; 0: none, or not known
    uint64_t refused_version_id; // failed there last; 0: none
    uint32_t refused_before_count;
    uint64_t refused_before[GW_WHY_REFUSED_MAX]; // versions that failed there before
    uint64_t floor;                              // of what ran well: it follows no release below
    uint64_t should_version_id;                  // 0: nothing
    char should_version[GW_VERSION_TEXT_MAX +
                        1];  // its number; empty: nothing, or not known any more
    uint64_t should_rollout; // 0: none
    char why[256];           // one sentence
    struct gw_fault fault;   // what it, or the gateway, did not take last; what is NONE: none
    uint32_t rollout_count;  // newest first
    struct gw_why_rollout rollouts[GW_WHY_ROLLOUTS_MAX];
};

// NOT_FOUND: no such device or task (`error` says which).
BASE_NODISCARD enum base_status gw_device_why(struct gw_core *core, uint64_t device_id,
                                              struct base_str task, struct gw_why_view *out,
                                              struct base_error *error);

#endif
