// Holding offers back, and making them again. Worker's thread, on the slow path of a check-in: one
// or two locks of the device's shard, and an atomic count per release that the control thread
// refills at every tick.
#include "svc/offer_gate.h"

#include "wire/digest.h"

#include <string.h>

static int32_t utc_offset_min(const struct pol_attrs *attrs)
{
    static const char name[] = GW_UTC_OFFSET_ATTR;
    for (uint32_t i = 0; i < attrs->count; i++) {
        const struct pol_attr *attr = &attrs->items[i];
        bool named = attr->name.size == sizeof(name) - 1 &&
                     memcmp(attr->name.data, name, sizeof(name) - 1) == 0;
        if (named && attr->value.type == POL_TYPE_INTEGER && attr->value.integer >= -1440 &&
            attr->value.integer <= 1440) {
            return (int32_t)attr->value.integer;
        }
    }
    return 0;
}

static void wait_at_most(uint32_t *wait_s, uint32_t seconds)
{
    *wait_s = seconds < *wait_s ? seconds : *wait_s;
}

bool gw_offer_admit(struct gw_core *core, const struct gw_checkin *checkin,
                    const struct pol_attrs *attrs, const struct gw_want *want, uint32_t now_s,
                    uint32_t *wait_s)
{
    uint64_t device_id = checkin->device_id;
    struct gw_tally_rollout rollout;
    uint64_t key = want->shadow ? gw_shadow_key(want->release->id) : want->release->id;
    if (!gw_tally_find(core->tally, key, &rollout)) {
        return true;
    }
    const struct pol_stage *stage = &want->release->stages[want->stage];
    uint32_t closed_s = pol_windows_wait_s(stage->windows, stage->window_count, now_s,
                                           stage->window_count > 0 ? utc_offset_min(attrs) : 0);
    if (closed_s > 0) {
        wait_at_most(wait_s, closed_s);
        return false;
    }
    struct gw_device_mark offer = {.rollout = rollout.index,
                                   .offered_s = now_s,
                                   .bits = checkin->proven ? GW_OUTCOME_OFFERED | GW_OUTCOME_PROVEN
                                                           : GW_OUTCOME_OFFERED,
                                   .stage = want->stage & 15u,
                                   .dirty = 1};
    struct gw_device_mark mark;
    if (gw_device_table_mark(core->table, device_id, rollout.index, &mark) &&
        (mark.bits & GW_OUTCOME_CONTROL) == 0 &&
        (offer.bits & ~(unsigned)mark.bits & GW_OUTCOME_PROVEN) == 0) {
        return true; // it was offered it before, and takes no other's place
    }
    struct gw_release *release = (struct gw_release *)(uintptr_t)want->release;
    struct gw_offers *offers = gw_release_offers(release, offer.bits);
    if (!gw_offers_take(offers)) {
        wait_at_most(wait_s, GW_HELD_WAIT_S);
        return false;
    }
    if (gw_device_table_offered(core->table, device_id, &offer)) {
        atomic_fetch_add_explicit(&offers->made, 1, memory_order_relaxed);
    }
    return true;
}

// ---- Second attempts

bool gw_offer_may_retry(struct gw_core *core, uint64_t device_id, uint64_t blocked)
{
    struct gw_device_snapshot device;
    if (!gw_device_table_get(core->table, device_id, &device)) {
        return false;
    }
    for (uint32_t i = 0; i < device.mark_count; i++) {
        struct gw_tally_rollout rollout;
        uint64_t id = gw_tally_rollout_id(core->tally, device.marks[i].rollout);
        if ((device.marks[i].bits & GW_OUTCOME_RETRY) != 0 &&
            gw_tally_find(core->tally, id, &rollout) && rollout.open &&
            rollout.release->version_id == blocked) {
            return true;
        }
    }
    return false;
}

void gw_offer_retried(struct gw_core *core, uint64_t device_id, const struct gw_want *want)
{
    struct gw_tally_rollout rollout;
    uint64_t key = want->shadow ? gw_shadow_key(want->release->id) : want->release->id;
    if (gw_tally_find(core->tally, key, &rollout)) {
        gw_device_table_retried(core->table, device_id, rollout.index);
    }
}
