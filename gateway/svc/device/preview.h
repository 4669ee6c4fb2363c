// Dry run: which known devices a target and its stages would reach, before anything is created.
//
// Exact for the devices in the table and the attributes they last told: the target and the
// audiences are evaluated once per distinct attribute block, buckets once per device. Who would be
// on the release beside the other rollouts of a task says the decision that check-ins are answered
// with (svc/plan/want.h); with a task that costs some microseconds a device more. It reads the
// device table and the attribute pool, both thread-safe, the plan it is given, and nothing else; it
// belongs on the background thread, for it costs some tens of milliseconds a million devices.
#ifndef GW_PREVIEW_H
#define GW_PREVIEW_H

#include "base/status.h"
#include "policy/bucket.h"
#include "policy/rollout.h"
#include "svc/plan/release_spec.h"
#include "svc/device/reach.h"

#define GW_PREVIEW_ATTRS    6u    // os, model, app_version, os_version, region, channel
#define GW_PREVIEW_VALUES   10u   // of an attribute that are listed, the most frequent first
#define GW_PREVIEW_REASONS  16u   // listed
#define GW_PREVIEW_DISTINCT 8192u // values that are counted; devices with further ones are "other"

struct gw_core;
struct gw_plan_task;

// Borrowed during the call.
struct gw_preview_spec {
    uint16_t tenant; // whose devices are looked at
    struct pol_target target;
    const struct pol_stage *stages; // kind, max_bucket, audience
    uint32_t stage_count;           // 0..POL_STAGES_MAX
    uint64_t salt;
    struct pol_arm arm;
    const struct gw_plan_task *task; // whose other rollouts are asked, too; NULL: there are none
    uint16_t priority;               // among them
    uint64_t self; // the rollout that this is, when it is one of them already; 0: none
};

struct gw_preview_stage {
    uint64_t devices; // that enter in this stage; of a shadow stage, that run a shadow
    uint64_t total;   // inside when this stage is open
};

struct gw_preview_value {
    char value[65]; // as text
    uint64_t matched;
    uint64_t known; // devices that have it, matched or not
};

struct gw_preview_attr {
    char name[33];
    uint32_t count;
    struct gw_preview_value values[GW_PREVIEW_VALUES];
    uint64_t other_matched;   // with values not listed
    uint64_t without_matched; // without the attribute
};

struct gw_preview_reason {
    enum pol_reason reason;
    uint32_t index; // condition, or test of the expression
    char text[161]; // of that test, or the condition's attribute; cut
    uint64_t devices;
};

// An open rollout of the task, and how many follow it instead, or leave it for this one.
struct gw_preview_beside {
    uint64_t rollout; // 0: no more of them
    uint64_t devices;
};

struct gw_preview {
    uint64_t devices;     // known
    uint64_t matched;     // by the target (and inside the arm)
    uint64_t blocks;      // distinct sets of attributes looked at
    uint64_t outside_arm; // of the target, in another arm or held out
    uint64_t elsewhere;   // some stage admits them, but they follow another rollout of the task
    struct gw_preview_beside followed[GW_TASK_OPEN_MAX]; // whom: as devices ask them
    struct gw_preview_beside waiting[GW_TASK_OPEN_MAX];  // they are in its target and follow this
    // What no known device has, though target or audiences ask about it.
    uint32_t unknown_count;
    struct gw_reach_unknown unknown[GW_REACH_UNKNOWN];
    struct gw_preview_stage stages[POL_STAGES_MAX];
    struct gw_preview_attr attrs[GW_PREVIEW_ATTRS];
    uint32_t reason_count;
    struct gw_preview_reason reasons[GW_PREVIEW_REASONS]; // most devices first
};

// Name of attribute i < GW_PREVIEW_ATTRS of those that every fleet is expected to tell.
const char *gw_preview_attr_name(uint32_t i);
// Any thread. NOMEM; INVALID: too many stages.
BASE_NODISCARD enum base_status
gw_preview_run(struct gw_core *core, const struct gw_preview_spec *spec, struct gw_preview *out);

#endif
