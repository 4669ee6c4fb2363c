// What a device would say of a task, told from its reports alone: for who looks at devices that are
// not asking (svc/view/why.h, svc/rollout/way_back.h). Control thread.
#ifndef GW_TOLD_FACTS_H
#define GW_TOLD_FACTS_H

#include "base/cursor.h"
#include "svc/plan/want.h"

struct gw_core;
struct gw_device_view;

// What reports say that a device refuses, as its profile would.
struct gw_told {
    struct wire_profile profile;
    struct base_writer writer;
    uint8_t marks[WIRE_PROFILE_REFUSED_MAX * sizeof(uint64_t)];
};

// What the device's reports say it has, what failed on trial there, and how far back it may go.
// `told` is the caller's, and out->told.
void gw_told_facts(struct gw_core *core, const struct gw_device_view *device, uint64_t task_id,
                   struct gw_told *told, struct gw_device_facts *out);

#endif
