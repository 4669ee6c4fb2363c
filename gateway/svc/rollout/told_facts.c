// What reports tell of a task on a device, as far as it can be told from them; see told_facts.h.
// why.c and way_back.c call it on the control thread, about devices that are not asking. Pure over
// a copy of the record. It goes through the outcomes of the task by the time they were told: what
// ran last, what failed, what it fell back to.
#include "svc/rollout/told_facts.h"

#include "svc/device/causes.h"
#include "svc/core_private.h"
#include "svc/device/devices.h"
#include "svc/rollout/catalog_private.h"

// The oldest release that may follow on the device: what ran well there names one, but not to who
// is control of it.
static uint64_t floor_of(struct gw_core *core, const struct gw_device_outcome *outcome)
{
    const unsigned ran = outcome->bits & (GW_OUTCOME_RAN | GW_OUTCOME_CONTROL);
    const struct gw_rollout *rollout =
        ran == GW_OUTCOME_RAN ? gw_catalog_find_rollout(core, outcome->rollout_id) : NULL;
    return rollout != NULL ? rollout->release->floor : 0;
}

// 0: the gateway knows of no such rollout.
static uint64_t approved_of(struct gw_core *core, uint64_t rollout_id)
{
    const struct gw_rollout *rollout = gw_catalog_find_rollout(core, rollout_id);
    return rollout != NULL ? rollout->release->release_counter : 0;
}

static void told_init(struct gw_told *told)
{
    told->profile = (struct wire_profile){.refused = told->marks};
    base_writer_init(&told->writer, told->marks, sizeof(told->marks));
}

static void told_add(struct gw_told *told, uint64_t task_id, uint64_t version_id)
{
    if (told->profile.refused_count < WIRE_PROFILE_REFUSED_MAX) {
        base_writer_u64(&told->writer, wire_profile_version_mark(task_id, version_id));
        told->profile.refused_count++;
    }
}

// Said of an offer before anything of it ran.
static bool is_refusal(unsigned kind)
{
    return kind == WIRE_OUTCOME_NOT_APPLICABLE || kind == WIRE_OUTCOME_FAIL_VERIFY ||
           kind == WIRE_OUTCOME_FAIL_DOWNLOAD || kind == WIRE_OUTCOME_FAIL_CLOCK;
}

// When it was as its states say, as far as reports tell: an offer that was refused later says
// nothing of that.
static uint32_t when_s(const struct gw_device_outcome *outcome)
{
    return is_refusal(outcome->last_kind) ? outcome->offered_s : outcome->updated_s;
}

// Did it fail on trial, and was it taken back for that? One that ran well, was left for an earlier
// one and is refused since, or was refused before, has the same bits.
static bool is_given_up(struct gw_core *core, const struct gw_device_outcome *outcome)
{
    const unsigned given_up = GW_OUTCOME_FAILED | GW_OUTCOME_ROLLED_BACK;
    struct gw_cause cause;
    if ((outcome->bits & given_up) != given_up || is_refusal(outcome->last_kind)) {
        return false;
    }
    return outcome->fingerprint == 0 ||
           gw_cause_get(core, outcome->rollout_id, outcome->fingerprint, &cause) != BASE_OK ||
           !is_refusal(cause.kind);
}

// What reports say of one task on a device, while they are gone through.
struct past {
    const struct gw_device_outcome *has;     // activated last, and not left; NULL: nothing is
    const struct gw_device_outcome *removed; // ... removed last
    const struct gw_device_outcome *failed;  // ... failed on trial last
    const struct gw_device_outcome *left;    // ... went back from last
    uint32_t had_s;                          // when it had it
};

// Was the rollout `to` approved before the one that was left? Only then is a device told to have
// gone back, when it goes from one into the other.
static bool leads_back(struct gw_core *core, const struct gw_device_outcome *left,
                       const struct gw_device_outcome *to)
{
    const struct gw_rollout *before = gw_catalog_find_rollout(core, left->rollout_id);
    const struct gw_rollout *after = gw_catalog_find_rollout(core, to->rollout_id);
    return before != NULL && after != NULL &&
           after->release->release_counter < before->release->release_counter;
}

// Did it have this one after what it is known to have had last? Of two within a second it is the
// one approved later: had it gone from that to the other, it would be told to have gone back.
static bool is_later(struct gw_core *core, const struct gw_device_outcome *outcome,
                     const struct past *past)
{
    uint32_t had_s = when_s(outcome);
    return past->has == NULL || had_s > past->had_s ||
           (had_s == past->had_s && !leads_back(core, past->has, outcome));
}

static void note_past(struct gw_core *core, const struct gw_device_outcome *outcome,
                      struct past *past)
{
    const unsigned left = GW_OUTCOME_ROLLED_BACK | GW_OUTCOME_REMOVED;
    bool has = (outcome->bits & GW_OUTCOME_ACTIVATED) != 0 && (outcome->bits & left) == 0;
    if (has && is_later(core, outcome, past)) {
        past->has = outcome;
        past->had_s = when_s(outcome);
    }
    if ((outcome->bits & GW_OUTCOME_REMOVED) != 0 &&
        (past->removed == NULL || when_s(outcome) >= when_s(past->removed))) {
        past->removed = outcome;
    }
    bool back = (outcome->bits & left) == GW_OUTCOME_ROLLED_BACK && !is_refusal(outcome->last_kind);
    if (back && (past->left == NULL || outcome->updated_s >= past->left->updated_s)) {
        past->left = outcome;
    }
    if (is_given_up(core, outcome) &&
        (past->failed == NULL || outcome->updated_s >= past->failed->updated_s)) {
        past->failed = outcome;
    }
}

// Was it left for the version `from`, which failed on trial or was taken back? Then that is what
// the device went back to, whatever the order was to which it had left it. What was withdrawn it
// had left already.
static bool is_fallen_back_to(struct gw_core *core, const struct gw_device_outcome *outcome,
                              const struct past *past, const struct gw_device_outcome *from)
{
    const unsigned ran_and_left = GW_OUTCOME_ACTIVATED | GW_OUTCOME_ROLLED_BACK;
    bool left = (outcome->bits & ran_and_left) == ran_and_left &&
                (outcome->bits & (GW_OUTCOME_REMOVED | GW_OUTCOME_WITHDRAWN)) == 0 &&
                !is_given_up(core, outcome);
    if (!left || !leads_back(core, outcome, from) || outcome->version_id == from->version_id ||
        outcome->updated_s < from->offered_s || outcome->updated_s > from->updated_s) {
        return false;
    }
    return past->has == NULL || outcome->updated_s > past->had_s ||
           (outcome->updated_s == past->had_s && outcome->offered_s >= past->has->offered_s);
}

static bool is_of(const struct gw_device_outcome *outcome, uint64_t task_id)
{
    return outcome->task_id == task_id && !outcome->shadow;
}

// With a task that was removed went whatever was there before. What is heard within the second of
// the removal came after it, unless what was removed came within that second, too.
static bool is_gone(const struct past *past)
{
    if (past->removed == NULL || past->has == NULL) {
        return past->has == NULL;
    }
    uint32_t removed_s = when_s(past->removed);
    return removed_s > past->had_s ||
           (removed_s == past->had_s && past->removed->offered_s >= past->had_s);
}

// Has it what failed there by another rollout, since then? Then it does not refuse it any more.
static bool runs_since(const struct past *past)
{
    return past->has != NULL && past->has != past->failed &&
           past->has->version_id == past->failed->version_id &&
           past->had_s >= past->failed->updated_s;
}

static void fall_back(struct gw_core *core, const struct gw_device_view *device, uint64_t task_id,
                      const struct gw_device_outcome *from, struct past *past)
{
    for (uint32_t i = 0; i < device->outcome_count && from != NULL; i++) {
        const struct gw_device_outcome *outcome = &device->outcomes[i];
        if (is_of(outcome, task_id) && is_fallen_back_to(core, outcome, past, from)) {
            past->has = outcome;
            past->had_s = outcome->updated_s;
        }
    }
}

static struct past past_of(struct gw_core *core, const struct gw_device_view *device,
                           uint64_t task_id)
{
    struct past past = {.has = NULL};
    for (uint32_t i = 0; i < device->outcome_count; i++) {
        if (is_of(&device->outcomes[i], task_id)) {
            note_past(core, &device->outcomes[i], &past);
        }
    }
    fall_back(core, device, task_id, past.failed, &past);
    if (past.left != past.failed) {
        fall_back(core, device, task_id, past.left, &past);
    }
    return past;
}

void gw_told_facts(struct gw_core *core, const struct gw_device_view *device, uint64_t task_id,
                   struct gw_told *told, struct gw_device_facts *out)
{
    struct past past = past_of(core, device, task_id);
    told_init(told);
    *out = (struct gw_device_facts){.device_id = &device->device_id, .told = &told->profile};
    for (uint32_t i = 0; i < device->outcome_count; i++) {
        const struct gw_device_outcome *outcome = &device->outcomes[i];
        if (!is_of(outcome, task_id)) {
            continue;
        }
        uint64_t floor = floor_of(core, outcome);
        if (gw_outcome_is_not_for_it(outcome->bits) || is_given_up(core, outcome)) {
            told_add(told, task_id, outcome->version_id);
        }
        out->floor = floor > out->floor ? floor : out->floor;
    }
    out->blocked = past.failed != NULL && !runs_since(&past) ? past.failed->version_id : 0;
    if (!is_gone(&past) && past.has->version_id != out->blocked) {
        out->have = past.has->version_id;
        out->approved = approved_of(core, past.has->rollout_id);
    }
}
