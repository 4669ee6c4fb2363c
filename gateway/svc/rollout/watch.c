// The control thread's walk over all devices: who is heard of, who fell silent, who is control.
// rollout_control.c steps it at each tick with a bounded number of devices; core.c makes it,
// core_clock.c tells it when the time was moved. A shard's mutex is held for a batch at a time.
// Nothing is judged here: the figures of a whole walk go to the tally, where the policy finds them.
// What is marked and how is said below.
#include "svc/rollout/watch.h"

#include "svc/core_private.h"

#include "base/check.h"
#include "policy/bucket.h"
#include "svc/device/device_record.h"
#include "svc/tally/silence.h"
#include "svc/access/credentials.h"
#include "svc/access/operators.h"
#include "svc/device/device_table.h"
#include "svc/rollout/catalog_private.h"
#include "svc/tally/tally.h"
#include "svc/plan/attr_pool.h"

#include <stdlib.h>
#include <string.h>

// Silence is no event, so nobody can report it; and control is drawn from devices to which nothing
// is said, so the check-in has no part in it. Both are found here, by looking at every device in
// memory once in a while: a bounded number at each tick, shard by shard. A walk takes up to
// GW_WATCH_ROLLOUTS open rollouts along; when it has seen every device its figures replace those of
// the walk before. Where there are more open rollouts, walks take turns.
//
// Devices are marked as control (in the table, and with the next flush in their record) when they
// were heard of during the stage, are targeted, and have their bucket in the stage's control band;
// they complete by a check-in at least observe_s later, or by a report. Not so in a stage with the
// rule LOGRANK, whose control is drawn at check-ins (svc/plan/draw.h): here it is only watched.
// Devices that never showed who they are are looked at for rollouts alone that trust them, the
// revoked for none: they cannot be heard of any more. Rollouts that go back have a pass of their
// own (way_back.h). Control thread.
//
// Whom a release targets depends on its targets and on a block of attributes, and neither changes:
// what was found stays from walk to walk, as long as the rollout is taken along.

#define NO_SLOT        UINT32_MAX
#define TARGET_UNKNOWN 0u
#define TARGET_NO      1u
#define TARGET_YES     2u

// One open rollout of the walk under way.
struct watched {
    const struct gw_release *release; // referenced
    const struct gw_kept_off *kept_off;
    uint64_t salt_mix;
    uint32_t index;        // in the tally
    uint32_t shadow_index; // ... of its shadow; NO_SLOT: it has none
    uint16_t tenant;       // whose devices it is about
    uint32_t stage;
    uint32_t since_s;
    uint64_t since_us;
    uint16_t control_from;
    uint16_t control_to;
    bool admits;
    int64_t moved_s; // of its trial's time
    // What is asked of its stages for each device, side by side. Bits by stage: those that count
    // who is eligible, and of them those that let it in.
    uint32_t counting;
    uint32_t letting_in;
    uint32_t max_buckets[POL_STAGES_MAX];
    struct gw_tally_watch figures[POL_STAGES_MAX];
    // By attrs_id: is the device targeted, and by which stages' audiences?
    uint32_t known;
    uint32_t *audience; // mask << 2 | TARGET_*
};

// What a walk found out of a release, for the next one that takes it along.
struct found {
    const struct gw_release *release; // referenced
    uint32_t known;
    uint32_t *audience;
};

struct gw_watch {
    uint32_t count;
    struct watched items[GW_WATCH_ROLLOUTS];
    uint32_t found_count; // none while a walk is under way
    struct found found[GW_WATCH_ROLLOUTS];
    uint32_t slot_count; // by tally index: which item
    uint32_t *slots;
    uint32_t shard; // where the walk is; GW_DEVICE_TABLE_SHARDS: over
    uint32_t entry;
    uint64_t after; // rollouts up to this id have had their turn
    uint64_t stepped_us;
    struct gw_silence_clock clock;
    // Of the devices looked at with one mutex held: asked once.
    bool plain; // gw_credentials_plain
    uint32_t interval_s;
    struct gw_core *core;
};

enum base_status gw_watch_new(struct gw_core *core, struct gw_watch **out)
{
    struct gw_watch *watch = calloc(1, sizeof(*watch));
    if (watch == NULL) {
        return BASE_ERR_NOMEM;
    }
    watch->core = core;
    watch->shard = GW_DEVICE_TABLE_SHARDS;
    watch->clock.started_s = gw_core_now_s(core);
    *out = watch;
    return BASE_OK;
}

static void forget_found(struct gw_watch *watch)
{
    for (uint32_t i = 0; i < watch->found_count; i++) {
        gw_release_unref(watch->found[i].release);
        free(watch->found[i].audience);
    }
    watch->found_count = 0;
}

static void end_walk(struct gw_watch *watch)
{
    base_assert(watch->count == 0 || watch->found_count == 0);
    for (uint32_t i = 0; i < watch->count; i++) {
        struct watched *item = &watch->items[i];
        watch->found[watch->found_count++] =
            (struct found){item->release, item->known, item->audience};
        *item = (struct watched){0};
    }
    watch->count = 0;
    watch->shard = GW_DEVICE_TABLE_SHARDS;
}

void gw_watch_free(struct gw_watch *watch)
{
    if (watch != NULL) {
        end_walk(watch);
        forget_found(watch);
        free(watch->slots);
        free(watch);
    }
}

// Nobody is silent for what the time did; what was found by the other time holds no more.
void gw_watch_time_moved(struct gw_watch *watch)
{
    end_walk(watch);
    watch->clock.started_s = gw_core_now_s(watch->core);
}

const struct gw_silence_clock *gw_watch_clock(const struct gw_watch *watch)
{
    return &watch->clock;
}

// ---- Beginning a walk

static bool takes_part(const struct gw_rollout *rollout)
{
    switch (rollout->state.state) {
    case POL_ROLLOUT_RUNNING:
    case POL_ROLLOUT_WAITING:
    case POL_ROLLOUT_PAUSED:
    case POL_ROLLOUT_GUARDING:
        return !rollout->state.before_first;
    default:
        return false;
    }
}

static bool set_slot(struct gw_watch *watch, uint32_t index, uint32_t item)
{
    if (index >= watch->slot_count) {
        uint32_t wanted = index + 64;
        uint32_t *grown = realloc(watch->slots, wanted * sizeof(*grown));
        if (grown == NULL) {
            return false;
        }
        memset(grown + watch->slot_count, 0xff, (wanted - watch->slot_count) * sizeof(*grown));
        watch->slots = grown;
        watch->slot_count = wanted;
    }
    watch->slots[index] = item;
    return true;
}

static void take_found(struct gw_watch *watch, struct watched *item)
{
    for (uint32_t i = 0; i < watch->found_count; i++) {
        struct found *found = &watch->found[i];
        if (found->release == item->release) {
            item->known = found->known;
            item->audience = found->audience;
            found->known = 0;
            found->audience = NULL;
            return;
        }
    }
}

static void lay_out_stages(struct watched *item)
{
    for (uint32_t k = 0; k <= item->stage; k++) {
        const struct pol_stage *stage = &item->release->stages[k];
        bool counts = stage->kind != POL_STAGE_SIMULATE;
        item->counting |= (counts ? UINT32_C(1) : 0) << k;
        item->letting_in |= (counts && stage->kind != POL_STAGE_SHADOW ? UINT32_C(1) : 0) << k;
        item->max_buckets[k] = stage->max_bucket;
    }
}

static void take_along(struct gw_watch *watch, const struct gw_rollout *rollout)
{
    struct gw_tally_rollout known;
    struct watched *item = &watch->items[watch->count];
    const struct pol_stage *stage = &rollout->release->stages[rollout->state.stage_index];
    if (!gw_tally_find(watch->core->tally, rollout->release->id, &known) ||
        !set_slot(watch, known.index, watch->count)) {
        return;
    }
    struct gw_tally_rollout shadow;
    uint32_t shadow_index = NO_SLOT;
    if (gw_tally_find(watch->core->tally, gw_shadow_key(rollout->release->id), &shadow) &&
        set_slot(watch, shadow.index, watch->count)) {
        shadow_index = shadow.index;
    }
    *item = (struct watched){
        .shadow_index = shadow_index,
        .release = gw_release_ref(rollout->release),
        .kept_off = rollout->kept_off,
        .salt_mix = pol_salt_mix(rollout->release->salt),
        .index = known.index,
        .tenant = known.tenant,
        .stage = rollout->state.stage_index,
        .since_s = (uint32_t)(rollout->state.stage_since_us / 1000000u),
        .since_us = rollout->state.stage_since_us,
        .admits = rollout->state.state != POL_ROLLOUT_PAUSED,
        .moved_s = rollout->moved_s,
    };
    if (stage->gate.rule != POL_GATE_LOGRANK) { // else control is drawn when it checks in
        pol_stage_control_band(stage, &item->control_from, &item->control_to);
    }
    lay_out_stages(item);
    take_found(watch, item);
    watch->count++;
}

static void begin_walk(struct gw_watch *watch)
{
    struct gw_core *core = watch->core;
    const struct gw_catalog *catalog = core->catalog;
    if (watch->slots != NULL) {
        memset(watch->slots, 0xff, watch->slot_count * sizeof(watch->slots[0]));
    }
    uint64_t last = 0;
    for (uint32_t round = 0; round < 2 && watch->count == 0; round++) {
        for (uint32_t i = 0; i < catalog->rollout_count; i++) {
            const struct gw_rollout *rollout = catalog->rollouts[i];
            if (rollout->release->id > watch->after && takes_part(rollout) &&
                watch->count < GW_WATCH_ROLLOUTS) {
                take_along(watch, rollout);
                last = rollout->release->id;
            }
        }
        watch->after = watch->count == GW_WATCH_ROLLOUTS ? last : 0;
    }
    forget_found(watch);
    watch->shard = watch->count > 0 ? 0 : GW_DEVICE_TABLE_SHARDS;
    watch->entry = 0;
}

// ---- One device

static uint32_t ask_audience(struct gw_watch *watch, const struct watched *item, uint32_t attrs_id)
{
    size_t size;
    const uint8_t *block = gw_attr_pool_get(watch->core->pool, attrs_id, &size);
    struct gw_attrs_view view;
    if (block == NULL || gw_attrs_view(block, size, &view) != BASE_OK ||
        !pol_target_match(&item->release->target, &view.attrs).matched) {
        return TARGET_NO;
    }
    uint32_t mask = 0;
    for (uint32_t i = 0; i < item->release->stage_count; i++) {
        if (pol_target_match(&item->release->stages[i].audience, &view.attrs).matched) {
            mask |= UINT32_C(1) << i;
        }
    }
    return mask << 2 | TARGET_YES;
}

static uint32_t audience_of(struct gw_watch *watch, struct watched *item, uint32_t attrs_id)
{
    if (attrs_id >= item->known) {
        uint32_t wanted = attrs_id + 256;
        uint32_t *grown = realloc(item->audience, wanted * sizeof(*grown));
        if (grown == NULL) {
            return ask_audience(watch, item, attrs_id);
        }
        memset(grown + item->known, 0, (wanted - item->known) * sizeof(*grown));
        item->audience = grown;
        item->known = wanted;
    }
    if (item->audience[attrs_id] == TARGET_UNKNOWN) {
        item->audience[attrs_id] = ask_audience(watch, item, attrs_id);
    }
    return item->audience[attrs_id];
}

static uint32_t interval_of(const struct gw_watch *watch, const struct gw_device_visit *visit)
{
    return visit->interval_s > watch->interval_s ? visit->interval_s : watch->interval_s;
}

static uint32_t at_least_0(uint32_t to, uint32_t from)
{
    return to > from ? to - from : 0;
}

// When it was offered it. Devices of a trial have its times.
static uint32_t entered_s(const struct watched *item, const struct gw_device_mark *mark)
{
    return (mark->bits & GW_OUTCOME_DRAWN) != 0 ? gw_trial_gateway_s(mark->offered_s, item->moved_s)
                                                : mark->offered_s;
}

static void see_updated(const struct gw_watch *watch, struct watched *item,
                        const struct gw_device_mark *mark, const struct gw_device_visit *visit)
{
    uint32_t last_seen_s = visit->last_seen_s;
    const struct pol_stage *stage = &item->release->stages[mark->stage];
    struct gw_tally_watch *figures = &item->figures[mark->stage];
    uint32_t quiet = gw_silence_quiet_s(&watch->clock, last_seen_s);
    bool active = (mark->bits & (GW_OUTCOME_ACTIVATED | GW_OUTCOME_RAN)) != 0;
    bool done = (mark->bits & (GW_OUTCOME_FAILED | GW_OUTCOME_ROLLED_BACK | GW_OUTCOME_REMOVED |
                               GW_OUTCOME_RETRY)) != 0;
    uint32_t offered_s = entered_s(item, mark);
    uint32_t age = at_least_0(watch->clock.now_s, offered_s);
    if (active && !done) {
        bool silent = stage->silence_s > 0 &&
                      quiet >= gw_silence_after_s(item->release, stage, visit->interval_s);
        figures->observed_s +=
            at_least_0(silent ? last_seen_s : watch->clock.now_s, mark->activated_s);
        if (silent && (mark->bits & GW_OUTCOME_RAN) != 0) {
            figures->silent++;
            figures->silent_succeeded++;
        } else if (silent && age <= stage->execution_timeout_s) {
            figures->silent++; // later it counts as timed out
        }
    } else if (!active && !done && (mark->bits & GW_OUTCOME_NOT_APPLICABLE) == 0 &&
               stage->offline_expiry_s > 0 && last_seen_s <= offered_s &&
               age >= stage->offline_expiry_s) {
        figures->expired++;
        figures->expired_late += age > stage->execution_timeout_s;
    }
}

static void see_control(const struct gw_watch *watch, struct watched *item,
                        struct gw_device_mark *mark, struct gw_device_visit *visit)
{
    const struct pol_stage *stage = &item->release->stages[mark->stage];
    struct gw_tally_watch *figures = &item->figures[mark->stage];
    bool done = (mark->bits & (GW_OUTCOME_RAN | GW_OUTCOME_FAILED)) != 0;
    if (!done && mark->stage == item->stage &&
        at_least_0(visit->last_seen_s, mark->offered_s) >= stage->observe_s) {
        mark->bits |= GW_OUTCOME_RAN;
        mark->dirty = 1;
        visit->changed = true;
        done = true;
    }
    bool silent = stage->silence_s > 0 && (mark->bits & GW_OUTCOME_FAILED) == 0 &&
                  gw_silence_quiet_s(&watch->clock, visit->last_seen_s) >=
                      gw_silence_after_s(item->release, stage, visit->interval_s);
    figures->control_observed_s +=
        at_least_0(silent ? visit->last_seen_s : watch->clock.now_s, mark->offered_s);
    figures->control_silent += silent;
    figures->control_silent_done += silent && done;
}

// A device that is compared, of either cohort.
static void see_drawn(const struct gw_watch *watch, struct watched *item,
                      const struct gw_device_mark *mark, const struct gw_device_visit *visit)
{
    const struct gw_silence_device device = {.offered_s = entered_s(item, mark),
                                             .last_seen_s = visit->last_seen_s,
                                             .interval_s = visit->interval_s,
                                             .bits = mark->bits,
                                             .stage = mark->stage};
    gw_silence_watch(&watch->clock, item->release, &device, item->figures[mark->stage].trial);
}

// Control that was offered what it has: how many of it are silent is for people.
static void see_placebo(const struct gw_watch *watch, struct watched *item,
                        const struct gw_device_mark *mark, const struct gw_device_visit *visit)
{
    const struct pol_stage *stage = &item->release->stages[mark->stage];
    struct gw_tally_watch *figures = &item->figures[mark->stage];
    bool silent = stage->silence_s > 0 && (mark->bits & GW_OUTCOME_FAILED) == 0 &&
                  gw_silence_quiet_s(&watch->clock, visit->last_seen_s) >=
                      gw_silence_after_s(item->release, stage, visit->interval_s);
    figures->control_silent += silent;
    figures->control_silent_done += silent && (mark->bits & GW_OUTCOME_RAN) != 0;
}

static bool is_online(const struct gw_watch *watch, const struct gw_device_visit *visit)
{
    return gw_silence_quiet_s(&watch->clock, visit->last_seen_s) / 2 <= interval_of(watch, visit);
}

// Returns whether a stage lets it in that is no shadow stage.
static bool count_eligible(struct gw_watch *watch, struct watched *item, uint32_t audience,
                           uint16_t bucket, const struct gw_device_visit *visit)
{
    bool online = is_online(watch, visit);
    uint32_t in = 0; // stages
    for (uint32_t left = audience >> 2 & item->counting; left != 0; left &= left - 1) {
        uint32_t k = (uint32_t)__builtin_ctz(left);
        if (bucket < item->max_buckets[k]) {
            item->figures[k].eligible++;
            item->figures[k].online += online;
            in |= UINT32_C(1) << k;
        }
    }
    return (in & item->letting_in) != 0;
}

// A device without a mark in this rollout: it may be let in later, or be its control.
static void see_other(const struct watched *item, uint16_t bucket, bool admitted,
                      struct gw_device_visit *visit)
{
    bool in_band = bucket >= item->control_from && bucket < item->control_to;
    if (admitted || !in_band || !item->admits || visit->last_seen_s < item->since_s ||
        visit->mark_count == GW_DEVICE_MARKS_MAX) {
        return;
    }
    visit->marks[visit->mark_count++] = (struct gw_device_mark){
        .rollout = item->index,
        .offered_s = visit->last_seen_s,
        .bits = visit->proven ? GW_OUTCOME_CONTROL | GW_OUTCOME_PROVEN : GW_OUTCOME_CONTROL,
        .stage = item->stage & 15u,
        .dirty = 1,
    };
    visit->changed = true;
}

// Since when its time runs: offers from before the time was moved count from when it was.
static uint32_t runs_since_s(const struct gw_watch *watch, const struct gw_device_mark *mark)
{
    uint32_t accepted_s = watch->core->time.accepted_s;
    bool moved =
        accepted_s > 0 && (mark->offered_s < accepted_s || mark->offered_s > watch->clock.now_s);
    return moved ? accepted_s : mark->offered_s;
}

// May what a device says that was offered it then still count?
static bool has_time(const struct gw_watch *watch, const struct watched *item,
                     const struct gw_device_mark *mark)
{
    const struct gw_release *release = item->release;
    if ((mark->bits & GW_OUTCOME_DRAWN) != 0) {
        return gw_trial_time_s(watch->clock.now_s, item->moved_s) <=
               gw_trial_window_end_s(release, mark->stage, mark->offered_s);
    }
    return at_least_0(watch->clock.now_s, runs_since_s(watch, mark)) <=
           release->stages[mark->stage].execution_timeout_s;
}

// Has it been offered the version, not answered, and may in time?
static bool is_under_way(const struct gw_watch *watch, const struct watched *item,
                         const struct gw_device_mark *mark)
{
    return gw_outcome_is_under_way(mark->bits) && has_time(watch, item, mark);
}

static void see_mark(const struct gw_watch *watch, struct watched *item,
                     struct gw_device_mark *mark, struct gw_device_visit *visit)
{
    if ((mark->bits & GW_OUTCOME_DRAWN) != 0) {
        see_drawn(watch, item, mark, visit);
    }
    bool placebo = (mark->bits & GW_OUTCOME_OFFERED) != 0;
    if ((mark->bits & GW_OUTCOME_CONTROL) == 0) {
        see_updated(watch, item, mark, visit);
        item->figures[item->stage].outstanding +=
            mark->rollout != item->shadow_index && is_under_way(watch, item, mark);
    } else if (placebo) {
        see_placebo(watch, item, mark, visit);
    } else {
        see_control(watch, item, mark, visit);
    }
}

// Returns the items that the device has a mark in, a bit for each; *out_offered those that it was
// offered.
static uint64_t see_marks(struct gw_watch *watch, struct gw_device_visit *visit,
                          uint64_t *out_offered)
{
    uint64_t marked = 0;
    for (uint32_t i = 0; i < visit->mark_count; i++) {
        struct gw_device_mark *mark = &visit->marks[i];
        uint32_t slot = mark->rollout < watch->slot_count ? watch->slots[mark->rollout] : NO_SLOT;
        if (slot >= watch->count || mark->stage >= watch->items[slot].release->stage_count) {
            continue;
        }
        bool shadow = mark->rollout == watch->items[slot].shadow_index;
        bool control = (mark->bits & GW_OUTCOME_CONTROL) != 0;
        marked |= shadow ? 0 : UINT64_C(1) << slot;
        *out_offered |= shadow || control ? 0 : UINT64_C(1) << slot;
        if (gw_release_standing(watch->items[slot].release, mark->bits) == GW_STANDING_COUNTED) {
            see_mark(watch, &watch->items[slot], mark, visit);
        }
    }
    return marked;
}

// A segment in quarantine is not offered it.
static bool is_kept_off(const struct gw_watch *watch, const struct watched *item, uint32_t attrs_id)
{
    size_t size;
    struct gw_attrs_view view;
    if (gw_kept_off_signature(item->kept_off) == 0) {
        return false;
    }
    const uint8_t *block = gw_attr_pool_get(watch->core->pool, attrs_id, &size);
    return block != NULL && gw_attrs_view(block, size, &view) == BASE_OK &&
           gw_kept_off_has(item->kept_off, &view.attrs);
}

static void see_device(void *ctx, struct gw_device_visit *visit)
{
    struct gw_watch *watch = ctx;
    uint16_t tenant = GW_TENANT_DEFAULT;
    bool revoked = !watch->plain && gw_credentials_whose(watch->core->credentials, visit->device_id,
                                                         &tenant) == GW_CREDENTIAL_REVOKED;
    if (revoked) {
        return;
    }
    uint64_t offered = 0;
    uint64_t marked = see_marks(watch, visit, &offered);
    for (uint32_t k = 0; k < watch->count; k++) {
        struct watched *item = &watch->items[k];
        if (item->tenant != tenant || !(visit->proven || item->release->trust_unproven)) {
            continue;
        }
        uint32_t audience = audience_of(watch, item, visit->attrs_id);
        if ((audience & 3u) != TARGET_YES || !pol_arm_has(&item->release->arm, visit->device_id)) {
            continue;
        }
        uint16_t bucket = pol_bucket_mixed(visit->device_id, item->salt_mix);
        bool admitted = count_eligible(watch, item, audience, bucket, visit);
        item->figures[item->stage].outstanding +=
            admitted && (offered >> k & 1) == 0 && !is_kept_off(watch, item, visit->attrs_id);
        if ((marked >> k & 1) == 0) {
            see_other(item, bucket, admitted, visit);
        }
    }
}
_Static_assert(GW_WATCH_ROLLOUTS <= 64, "`marked` has a bit for each");

// ---- The walk

static void publish_figures(struct gw_watch *watch)
{
    for (uint32_t i = 0; i < watch->count; i++) {
        struct watched *item = &watch->items[i];
        for (uint32_t k = 0; k <= item->stage; k++) {
            item->figures[k].since_us = k == item->stage ? item->since_us : 0;
            gw_tally_set_watch(watch->core->tally, item->release->id, k, &item->figures[k]);
        }
    }
}

uint64_t gw_watch_work(uint64_t elapsed_us)
{
    if (elapsed_us >= GW_WATCH_WORK / GW_WATCH_WORK_US) {
        return GW_WATCH_WORK;
    }
    uint64_t work = elapsed_us * GW_WATCH_WORK_US;
    return work > GW_WATCH_WORK_MIN ? work : GW_WATCH_WORK_MIN;
}

void gw_watch_step(struct gw_watch *watch)
{
    if (watch->shard == GW_DEVICE_TABLE_SHARDS) {
        begin_walk(watch);
    }
    watch->clock.now_s = gw_core_now_s(watch->core);
    uint64_t now_us = watch->core->clock.mono_us(watch->core->clock.ctx);
    uint64_t budget = gw_watch_work(now_us - watch->stepped_us);
    watch->stepped_us = now_us;
    while (watch->shard < GW_DEVICE_TABLE_SHARDS && budget > 0) {
        watch->plain = gw_credentials_plain(watch->core->credentials);
        watch->interval_s = gw_core_checkin_interval_s(watch->core);
        uint32_t seen = gw_device_table_walk(watch->core->table,
                                             (struct gw_device_place){watch->shard, watch->entry},
                                             GW_WATCH_BATCH, see_device, watch);
        watch->entry += seen;
        if (seen < GW_WATCH_BATCH) {
            watch->shard++;
            watch->entry = 0;
        }
        uint64_t work = (uint64_t)(seen + 1) * watch->count;
        budget -= work < budget ? work : budget;
    }
    if (watch->shard == GW_DEVICE_TABLE_SHARDS && watch->count > 0) {
        publish_figures(watch);
        end_walk(watch);
    }
}
