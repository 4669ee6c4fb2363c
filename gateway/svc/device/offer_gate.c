// Holding offers back, and making them again. Worker's thread, on the slow path of a check-in: one
// or two locks of the device's shard, and an atomic count per release that the control thread
// refills at every tick.
#include "svc/device/offer_gate.h"
#include "svc/device/device_table.h"
#include "svc/tally/tally.h"

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

// Did the device enter before in a way that what it says now is no first outcome? Control of an
// earlier stage enters anew, in either cohort.
static bool is_fresh(const struct gw_device_mark *mark, uint32_t stage)
{
    return mark == NULL || ((mark->bits & GW_OUTCOME_CONTROL) != 0 && mark->stage < stage);
}

static uint16_t bits_of(const struct gw_offer_ask *ask, bool fresh)
{
    const struct gw_want *want = ask->want;
    bool judged = want->release->stages[want->stage].gate.rule == POL_GATE_LOGRANK && !want->shadow;
    unsigned bits = GW_OUTCOME_OFFERED;
    bits |= ask->checkin->proven ? GW_OUTCOME_PROVEN : 0;
    bits |= judged ? GW_OUTCOME_DRAWN : 0;
    bits |= judged && !(ask->draw->compared && fresh) ? GW_OUTCOME_ALONE : 0;
    bits |= ask->draw->control ? GW_OUTCOME_CONTROL : 0;
    return (uint16_t)bits;
}

void gw_offer_price(const struct gw_release *release, uint32_t stage, uint32_t *out_updated,
                    uint32_t *out_all)
{
    struct pol_trial_span span;
    bool both = pol_stage_trial(release->stages, stage, &span);
    *out_updated = both ? (uint32_t)(span.middle - span.from) : 1;
    *out_all = both ? (uint32_t)(span.to - span.from) : 1;
}

static bool take(struct gw_offers *offers, const struct gw_want *want, uint16_t bits)
{
    uint32_t updated;
    uint32_t all;
    bool with_control = (bits & GW_OUTCOME_ALONE) == 0;
    gw_offer_price(want->release, want->stage, &updated, &all);
    return gw_offers_take(offers, with_control ? 1 : (all + updated - 1) / updated);
}

// It was offered it before, and takes no other's place.
static bool was_offered(const struct gw_device_mark *mark, uint16_t bits)
{
    return mark != NULL && ((mark->bits ^ bits) & GW_OUTCOME_CONTROL) == 0 &&
           (mark->bits & GW_OUTCOME_OFFERED) != 0 &&
           (bits & ~(unsigned)mark->bits & GW_OUTCOME_PROVEN) == 0;
}

bool gw_offer_admit(struct gw_core *core, const struct gw_offer_ask *ask, uint32_t *wait_s)
{
    const struct gw_want *want = ask->want;
    uint64_t device_id = ask->checkin->device_id;
    struct gw_tally_rollout rollout;
    uint64_t key = want->shadow ? gw_shadow_key(want->release->id) : want->release->id;
    if (!gw_tally_find(core->tally, key, &rollout)) {
        return true;
    }
    const struct pol_stage *stage = &want->release->stages[want->stage];
    uint32_t closed_s =
        pol_windows_wait_s(stage->windows, stage->window_count, ask->now_s,
                           stage->window_count > 0 ? utc_offset_min(ask->attrs) : 0);
    if (closed_s > 0) {
        wait_at_most(wait_s, closed_s);
        return false;
    }
    struct gw_device_mark found;
    const struct gw_device_mark *mark =
        gw_device_table_mark(core->table, device_id, rollout.index, &found) ? &found : NULL;
    bool fresh = is_fresh(mark, want->stage);
    struct gw_device_mark offer = {.rollout = rollout.index,
                                   .offered_s = ask->now_s,
                                   .bits = bits_of(ask, fresh),
                                   .stage = want->stage & 15u,
                                   .dirty = 1};
    if ((offer.bits & GW_OUTCOME_DRAWN) != 0) {
        offer.offered_s = gw_trial_time_s(ask->now_s, rollout.moved_s);
    }
    if (was_offered(mark, offer.bits) && !(fresh && ask->draw->control)) {
        return true;
    }
    if (mark == NULL && !gw_device_table_make_place(core->table, device_id)) {
        wait_at_most(wait_s, GW_HELD_WAIT_S); // what it did in this one would be in no count
        return false;
    }
    struct gw_offers *offers = &rollout.allowances[gw_release_standing(want->release, offer.bits)];
    if (!take(offers, want, offer.bits)) {
        wait_at_most(wait_s, GW_HELD_WAIT_S);
        return false;
    }
    if (gw_device_table_offered(core->table, device_id, &offer) && !ask->draw->control) {
        atomic_fetch_add_explicit(&offers->made, 1, memory_order_relaxed);
    }
    return true;
}

bool gw_offer_mark_is_due(struct gw_core *core, const struct gw_checkin *checkin,
                          const struct gw_want *update)
{
    struct gw_tally_rollout rollout;
    struct gw_device_mark mark;
    if (!gw_tally_find(core->tally, update->release->id, &rollout)) {
        return false;
    }
    if (!gw_device_table_mark(core->table, checkin->device_id, rollout.index, &mark) ||
        is_fresh(&mark, update->stage)) {
        return true;
    }
    unsigned begun = GW_OUTCOME_ACTIVATED | GW_OUTCOME_RAN | GW_OUTCOME_FAILED;
    unsigned drawn = GW_OUTCOME_CONTROL | GW_OUTCOME_DRAWN;
    return (mark.bits & drawn) == drawn && mark.stage == update->stage && (mark.bits & begun) == 0;
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
