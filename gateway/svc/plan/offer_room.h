// The tasks that a device does not hold yet, and should: the best of them, as many as it has room
// for. The order is the same at every check-in and in `why`: higher priority first, then approved
// first (the date of the signature; counters of different tasks say nothing about each other), then
// the smaller task id. Worker's thread, and the control thread for `why`.
#ifndef GW_OFFER_ROOM_H
#define GW_OFFER_ROOM_H

#include "svc/plan/want.h"
#include "wire/profile.h"

struct gw_offer_candidate {
    const struct gw_plan_task *task;
    struct gw_want want;
};

struct gw_offer_room {
    uint32_t room; // at most WIRE_PROFILE_TASKS_MAX
    uint32_t count;
    uint32_t left_out;                                       // no room
    struct gw_offer_candidate items[WIRE_PROFILE_TASKS_MAX]; // best first
};

// So many places are free on a device that holds `held` tasks; one that does not say how many it
// can hold (tasks_max 0) takes them all.
void gw_offer_room_init(struct gw_offer_room *room, uint32_t tasks_max, uint32_t held);
void gw_offer_room_add(struct gw_offer_room *room, const struct gw_plan_task *task,
                       const struct gw_want *want);
// Does `a` come before `b`? Both are wanted.
bool gw_offer_before(const struct gw_release *a, const struct gw_release *b);

#endif
