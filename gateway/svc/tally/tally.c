// Counters per rollout and stage, failure fingerprints and slices. The mutex in struct gw_tally
// guards everything; the writer thread, the control thread and metrics come here. Who runs out of
// time is no event either: see offer_ring.h.
#include "svc/tally/tally.h"

#include "base/check.h"
#include "svc/plan/cohort.h"
#include "svc/tally/fingerprints.h"
#include "svc/tally/offer_ring.h"
#include "svc/tally/trial_blocks.h"
#include "svc/tally/value_slices.h"
#include "wire/report.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
// A table that cannot grow leaves hh.tbl NULL instead of ending the process.
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#define TIDY_ROLLOUTS 64u // looked at in a tick

struct stage_tally {
    struct gw_rollout_counts counts;
    struct gw_tally_watch watch;
    struct gw_offer_ring waiting; // offered, not completed
};

struct segment {
    uint32_t stage;
    struct gw_tally_segment counts;
};

struct rollout_tally {
    UT_hash_handle hh;
    const struct base_hash_key *key; // the tally's
    uint64_t id;
    uint32_t index;
    uint32_t stage_count;
    uint32_t stage_now;
    int64_t moved_s; // of the trial's time
    uint16_t tenant;
    bool open;
    bool offers;
    struct rollout_tally *shadow; // its shadow's tally; NULL: it has none
    struct rollout_tally *real;   // whose shadow's tally it is; NULL: it is none
    const struct gw_release *release;
    struct gw_offers allowances[GW_STANDING_COUNT];
    struct gw_kept_off kept_off;
    struct gw_trial_blocks *trial; // NULL: no stage has one
    struct stage_tally stages[POL_STAGES_MAX];
    struct stage_tally *unproven; // of devices that do not count, likewise; NULL: there were none
    bool unproven_lost;           // no memory for that: they are not shown
    struct gw_fingerprints fingerprints;
    uint32_t segment_count;
    struct segment *segments;       // GW_TALLY_SEGMENTS_MAX of them, or NULL
    struct gw_value_slices *slices; // NULL until somebody completed
};

struct gw_tally {
    pthread_mutex_t lock;
    struct base_hash_key key;
    struct rollout_tally *by_id; // uthash, by keyed hashes
    struct rollout_tally **by_index;
    uint32_t count;
    uint32_t capacity;
    uint32_t now_s;
    uint32_t from_s; // since when the time is as somebody accepted it; 0: nobody did
    uint32_t tidied; // index of the next rollout to look at
};

enum base_status gw_tally_new(const struct base_hash_key *key, struct gw_tally **out_tally)
{
    struct gw_tally *tally = calloc(1, sizeof(*tally));
    if (tally == NULL) {
        return BASE_ERR_NOMEM;
    }
    pthread_mutex_init(&tally->lock, NULL);
    tally->key = *key;
    *out_tally = tally;
    return BASE_OK;
}

static void each_ring(struct rollout_tally *rollout,
                      void (*visit)(struct gw_offer_ring *ring, uint32_t time_s), uint32_t time_s)
{
    for (uint32_t k = 0; k < rollout->stage_count; k++) {
        visit(&rollout->stages[k].waiting, time_s);
        if (rollout->unproven != NULL) {
            visit(&rollout->unproven[k].waiting, time_s);
        }
    }
}

void gw_tally_free(struct gw_tally *tally)
{
    if (tally == NULL) {
        return;
    }
    HASH_CLEAR(hh, tally->by_id);
    for (uint32_t i = 0; i < tally->count; i++) {
        struct rollout_tally *rollout = tally->by_index[i];
        each_ring(rollout, gw_offer_ring_tidy, UINT32_MAX);
        free(rollout->unproven);
        gw_fingerprints_done(&rollout->fingerprints);
        gw_value_slices_free(rollout->slices);
        free(rollout->segments);
        gw_trial_blocks_free(rollout->trial);
        gw_release_unref(rollout->release);
        free(rollout);
    }
    free(tally->by_index);
    pthread_mutex_destroy(&tally->lock);
    free(tally);
}

static struct rollout_tally *find(struct gw_tally *tally, uint64_t id)
{
    struct rollout_tally *rollout;
    unsigned hash = (unsigned)base_keyed64_u64(&tally->key, id);
    HASH_FIND_BYHASHVALUE(hh, tally->by_id, &id, sizeof(id), hash, rollout);
    return rollout;
}

static void begin_stages(const struct gw_release *release, struct stage_tally *stages,
                         uint32_t from_s)
{
    for (uint32_t i = 0; i < release->stage_count; i++) {
        gw_offer_ring_init(&stages[i].waiting, release->stages[i].execution_timeout_s, from_s);
    }
}

// Where devices of a standing are counted. NULL: they are not.
static struct stage_tally *stages_of(struct rollout_tally *rollout, enum gw_standing standing)
{
    if (standing == GW_STANDING_COUNTED) {
        return rollout->stages;
    }
    if (rollout->unproven == NULL && !rollout->unproven_lost) {
        rollout->unproven = calloc(POL_STAGES_MAX, sizeof(rollout->unproven[0]));
        rollout->unproven_lost = rollout->unproven == NULL;
        if (rollout->unproven != NULL) {
            begin_stages(rollout->release, rollout->unproven, rollout->stages[0].waiting.from_s);
        }
    }
    return rollout->unproven;
}

static bool has_trial(const struct gw_release *release)
{
    for (uint32_t i = 0; i < release->stage_count; i++) {
        if (release->stages[i].gate.rule == POL_GATE_LOGRANK) {
            return true;
        }
    }
    return false;
}

static enum base_status add(struct gw_tally *tally, const struct gw_release *release, uint64_t id)
{
    if (tally->count == tally->capacity) {
        uint32_t wanted = tally->capacity == 0 ? 64 : tally->capacity * 2;
        struct rollout_tally **grown = realloc(tally->by_index, wanted * sizeof(grown[0]));
        if (grown == NULL) {
            return BASE_ERR_NOMEM;
        }
        tally->by_index = grown;
        tally->capacity = wanted;
    }
    struct rollout_tally *rollout = calloc(1, sizeof(*rollout));
    if (rollout == NULL) {
        return BASE_ERR_NOMEM;
    }
    if (id == release->id && has_trial(release)) { // its shadow has none
        rollout->trial = gw_trial_blocks_new(release);
        if (rollout->trial == NULL) {
            free(rollout);
            return BASE_ERR_NOMEM;
        }
    }
    rollout->key = &tally->key;
    rollout->id = id;
    rollout->index = tally->count;
    rollout->stage_count = release->stage_count;
    begin_stages(release, rollout->stages, tally->from_s);
    rollout->open = true;
    unsigned hash = (unsigned)base_keyed64_u64(&tally->key, id);
    HASH_ADD_BYHASHVALUE(hh, tally->by_id, id, sizeof(rollout->id), hash, rollout);
    if (rollout->hh.tbl == NULL) {
        gw_trial_blocks_free(rollout->trial);
        free(rollout);
        return BASE_ERR_NOMEM;
    }
    rollout->release = gw_release_ref(release);
    tally->by_index[tally->count++] = rollout;
    return BASE_OK;
}

static enum base_status add_missing(struct gw_tally *tally, const struct gw_release *release,
                                    uint64_t id)
{
    return find(tally, id) == NULL ? add(tally, release, id) : BASE_OK;
}

static enum base_status add_both(struct gw_tally *tally, const struct gw_release *release)
{
    uint64_t shadow_id = gw_shadow_key(release->id);
    BASE_TRY(add_missing(tally, release, release->id));
    if (!gw_release_has_shadow(release)) {
        return BASE_OK;
    }
    BASE_TRY(add_missing(tally, release, shadow_id));
    struct rollout_tally *rollout = find(tally, release->id);
    rollout->shadow = find(tally, shadow_id);
    rollout->shadow->real = rollout;
    return BASE_OK;
}

enum base_status gw_tally_add(struct gw_tally *tally, const struct gw_release *release)
{
    pthread_mutex_lock(&tally->lock);
    enum base_status status = add_both(tally, release);
    pthread_mutex_unlock(&tally->lock);
    return status;
}

static void set_one(struct rollout_tally *rollout, const struct gw_tally_phase *phase)
{
    bool shadow = rollout->real != NULL;
    rollout->stage_now = gw_release_stage(rollout->release, phase->stage_now, shadow);
    rollout->open = phase->open;
    rollout->offers = phase->offers;
    rollout->moved_s = phase->moved_s;
}

void gw_tally_own(struct gw_tally *tally, uint64_t rollout_id, uint16_t tenant)
{
    pthread_mutex_lock(&tally->lock);
    struct rollout_tally *rollout = find(tally, rollout_id);
    if (rollout != NULL) {
        rollout->tenant = tenant;
        if (rollout->shadow != NULL) {
            rollout->shadow->tenant = tenant;
        }
    }
    pthread_mutex_unlock(&tally->lock);
}

void gw_tally_set(struct gw_tally *tally, uint64_t rollout_id, const struct gw_tally_phase *phase)
{
    pthread_mutex_lock(&tally->lock);
    struct rollout_tally *rollout = find(tally, rollout_id);
    if (rollout != NULL) {
        set_one(rollout, phase);
    }
    if (rollout != NULL && rollout->shadow != NULL) {
        set_one(rollout->shadow, phase);
    }
    pthread_mutex_unlock(&tally->lock);
}

void gw_tally_tick(struct gw_tally *tally, uint32_t now_s)
{
    pthread_mutex_lock(&tally->lock);
    tally->now_s = now_s;
    for (uint32_t i = 0; i < TIDY_ROLLOUTS && i < tally->count; i++) {
        tally->tidied = tally->tidied < tally->count ? tally->tidied : 0;
        each_ring(tally->by_index[tally->tidied++], gw_offer_ring_tidy, now_s);
    }
    pthread_mutex_unlock(&tally->lock);
}

void gw_tally_time_moved(struct gw_tally *tally, uint32_t from_s)
{
    pthread_mutex_lock(&tally->lock);
    tally->from_s = from_s;
    for (uint32_t i = 0; i < tally->count; i++) {
        each_ring(tally->by_index[i], gw_offer_ring_renew, from_s);
    }
    pthread_mutex_unlock(&tally->lock);
}

// A shadow's offers are its rollout's.
static struct gw_offers *allowances_of(struct rollout_tally *rollout)
{
    return rollout->real != NULL ? rollout->real->allowances : rollout->allowances;
}

struct gw_offers *gw_tally_allowances(struct gw_tally *tally, uint64_t rollout_id)
{
    pthread_mutex_lock(&tally->lock);
    struct rollout_tally *rollout = find(tally, rollout_id);
    pthread_mutex_unlock(&tally->lock);
    base_assert(rollout != NULL);
    return allowances_of(rollout);
}

struct gw_kept_off *gw_tally_kept_off(struct gw_tally *tally, uint64_t rollout_id)
{
    pthread_mutex_lock(&tally->lock);
    struct rollout_tally *rollout = find(tally, rollout_id);
    pthread_mutex_unlock(&tally->lock);
    base_assert(rollout != NULL);
    base_assert(rollout->real == NULL); // a shadow's is its rollout's
    return &rollout->kept_off;
}

bool gw_tally_find(struct gw_tally *tally, uint64_t rollout_id, struct gw_tally_rollout *out)
{
    pthread_mutex_lock(&tally->lock);
    struct rollout_tally *rollout = find(tally, rollout_id);
    if (rollout != NULL) {
        *out = (struct gw_tally_rollout){
            .index = rollout->index,
            .stage_now = (uint8_t)rollout->stage_now,
            .open = rollout->open,
            .offers = rollout->offers,
            .shadow = rollout->real != NULL,
            .release = rollout->release,
            .allowances = allowances_of(rollout),
            .tenant = rollout->tenant,
            .moved_s = rollout->moved_s,
        };
    }
    pthread_mutex_unlock(&tally->lock);
    return rollout != NULL;
}

bool gw_tally_is_open(struct gw_tally *tally, uint32_t index)
{
    pthread_mutex_lock(&tally->lock);
    bool open = index < tally->count && tally->by_index[index]->open;
    pthread_mutex_unlock(&tally->lock);
    return open;
}

uint64_t gw_tally_rollout_id(struct gw_tally *tally, uint32_t index)
{
    pthread_mutex_lock(&tally->lock);
    uint64_t id = index < tally->count ? tally->by_index[index]->id : 0;
    pthread_mutex_unlock(&tally->lock);
    return id;
}

// ---- Contributions

static bool is_pending(const struct gw_rollout_counts *one)
{
    return one->offered != 0 && one->succeeded == 0 && one->failed == 0 && one->not_applicable == 0;
}

// ---- Failures

void gw_tally_name_cause(struct gw_tally *tally, uint64_t rollout_id, uint64_t fingerprint,
                         uint8_t kind, struct base_str detail)
{
    pthread_mutex_lock(&tally->lock);
    struct rollout_tally *rollout = find(tally, rollout_id);
    if (rollout != NULL) {
        gw_fingerprints_name(&rollout->fingerprints, fingerprint, kind, detail);
    }
    pthread_mutex_unlock(&tally->lock);
}

bool gw_tally_knows_cause(struct gw_tally *tally, uint64_t rollout_id, uint64_t fingerprint)
{
    pthread_mutex_lock(&tally->lock);
    const struct rollout_tally *rollout = find(tally, rollout_id);
    bool known = rollout == NULL || gw_fingerprints_know(&rollout->fingerprints, fingerprint);
    pthread_mutex_unlock(&tally->lock);
    return known;
}

bool gw_tally_keeps_aside(struct gw_tally *tally, uint64_t rollout_id)
{
    pthread_mutex_lock(&tally->lock);
    struct rollout_tally *rollout = find(tally, rollout_id);
    bool room = rollout != NULL && rollout->fingerprints.aside < GW_CAUSES_ASIDE_MAX;
    if (room) {
        rollout->fingerprints.aside++;
    }
    pthread_mutex_unlock(&tally->lock);
    return room;
}

static void note_segment(struct rollout_tally *rollout, const struct gw_tally_change *change,
                         bool completed, bool failed)
{
    struct gw_attrs_view view;
    char text[GW_SEGMENT_TEXT_MAX + 1] = "";
    if (change->attrs == NULL ||
        gw_attrs_view(change->attrs, change->attrs_size, &view) != BASE_OK) {
        return;
    }
    uint64_t name = gw_segment_of(&view.attrs, text);
    if (rollout->segments == NULL) {
        rollout->segments = calloc(GW_TALLY_SEGMENTS_MAX, sizeof(rollout->segments[0]));
    }
    if (name == 0 || rollout->segments == NULL) {
        return;
    }
    uint32_t at = 0;
    while (at < rollout->segment_count && (rollout->segments[at].counts.segment != name ||
                                           rollout->segments[at].stage != change->stage)) {
        at++;
    }
    if (at == GW_TALLY_SEGMENTS_MAX) {
        return;
    }
    struct segment *segment = &rollout->segments[at];
    if (at == rollout->segment_count) {
        rollout->segment_count++;
        segment->stage = change->stage;
        segment->counts.segment = name;
        memcpy(segment->counts.text, text, sizeof(text));
    }
    segment->counts.failed += failed;
    segment->counts.completed =
        gw_slice_completed(segment->counts.completed + completed, segment->counts.failed);
}

uint32_t gw_tally_segments(struct gw_tally *tally, uint64_t rollout_id, uint32_t stage,
                           struct gw_tally_segment *out, uint32_t capacity)
{
    uint32_t count = 0;
    pthread_mutex_lock(&tally->lock);
    const struct rollout_tally *rollout = find(tally, rollout_id);
    for (uint32_t i = 0; rollout != NULL && i < rollout->segment_count && count < capacity; i++) {
        bool asked = stage == GW_TALLY_STAGE_ALL || rollout->segments[i].stage == stage;
        if (asked && rollout->segments[i].counts.completed > 0) {
            out[count++] = rollout->segments[i].counts;
        }
    }
    pthread_mutex_unlock(&tally->lock);
    return count;
}

static void note_failure(struct rollout_tally *rollout, const struct gw_tally_change *change,
                         bool completed, bool failed)
{
    struct rollout_tally *told = rollout->real != NULL ? rollout->real : rollout;
    if (failed) {
        gw_fingerprints_note(&told->fingerprints, change);
    }
    if (completed || failed) {
        gw_value_slices_note(&told->slices, told->key, change, completed, failed);
        note_segment(told, change, completed, failed);
    }
}

static void note_trial(struct rollout_tally *rollout, const struct gw_tally_change *change,
                       uint16_t old_bits, uint16_t new_bits)
{
    struct gw_trial_entry entry = {
        .order = gw_trial_order(change->device_id),
        .segment = change->segment,
        .offered_s = change->offered_s,
        .answered_s = change->old_answered_s,
        .failed_s = change->old_failed_s,
        .bits = old_bits,
        .stage = change->stage,
    };
    gw_trial_blocks_take(rollout->trial, &entry);
    entry.answered_s = change->answered_s;
    entry.failed_s = change->failed_s;
    entry.bits = new_bits;
    gw_trial_blocks_add(rollout->trial, &entry);
}

// Devices of a trial have its times.
static uint32_t waits_since_s(const struct rollout_tally *rollout,
                              const struct gw_tally_change *change)
{
    bool drawn = ((change->old_bits | change->new_bits) & GW_OUTCOME_DRAWN) != 0;
    return drawn ? gw_trial_gateway_s(change->offered_s, rollout->moved_s) : change->offered_s;
}

// What a change is to the counts of one standing.
struct shift {
    enum gw_standing standing;
    uint16_t old_bits; // 0: the device was in none of them
    uint16_t new_bits; // 0: it is no more
};

static void apply_shift(const struct gw_tally *tally, struct rollout_tally *rollout,
                        const struct gw_tally_change *change, struct shift shift)
{
    base_assert(shift.old_bits != shift.new_bits);
    base_assert(change->stage < POL_STAGES_MAX);
    struct stage_tally *stages = stages_of(rollout, shift.standing);
    if (stages == NULL) {
        return;
    }
    struct stage_tally *stage = &stages[change->stage];
    struct gw_rollout_counts before;
    struct gw_rollout_counts after;
    gw_tally_contribution(shift.old_bits, &before);
    gw_tally_contribution(shift.new_bits, &after);
    gw_counts_take(&stage->counts, &before);
    gw_counts_add(&stage->counts, &after);
    bool was_pending = is_pending(&before);
    bool now_pending = is_pending(&after);
    uint32_t offered_s = waits_since_s(rollout, change);
    if (was_pending && !now_pending) {
        gw_offer_ring_take(&stage->waiting, offered_s);
    } else if (!was_pending && now_pending) {
        gw_offer_ring_add(&stage->waiting, tally->now_s, offered_s);
    }
    bool was_complete = before.succeeded + before.failed > 0;
    bool completed = !was_complete && after.succeeded + after.failed > 0;
    bool failed = before.failed == 0 && after.failed > 0;
    bool counted = shift.standing == GW_STANDING_COUNTED;
    if (counted) {
        note_failure(rollout, change, completed, failed);
    }
    if (counted && rollout->trial != NULL) {
        note_trial(rollout, change, shift.old_bits, shift.new_bits);
    }
}

static void apply_one(struct gw_tally *tally, const struct gw_tally_change *change)
{
    struct rollout_tally *rollout = find(tally, change->rollout_id);
    if (rollout == NULL || change->old_bits == change->new_bits ||
        change->stage >= POL_STAGES_MAX) {
        return;
    }
    enum gw_standing before = gw_release_standing(rollout->release, change->old_bits);
    enum gw_standing after = gw_release_standing(rollout->release, change->new_bits);
    if (change->old_bits == 0 || change->new_bits == 0 || before == after) {
        enum gw_standing standing = change->new_bits == 0 ? before : after;
        apply_shift(tally, rollout, change,
                    (struct shift){standing, change->old_bits, change->new_bits});
        return;
    }
    apply_shift(tally, rollout, change, (struct shift){before, change->old_bits, 0});
    apply_shift(tally, rollout, change, (struct shift){after, 0, change->new_bits});
}

void gw_tally_apply(struct gw_tally *tally, const struct gw_tally_change *changes, uint32_t count)
{
    if (count == 0) {
        return;
    }
    pthread_mutex_lock(&tally->lock);
    for (uint32_t i = 0; i < count; i++) {
        apply_one(tally, &changes[i]);
    }
    pthread_mutex_unlock(&tally->lock);
}

void gw_tally_add_archived(struct gw_tally *tally, uint64_t rollout_id, uint32_t stage,
                           enum gw_standing standing, const struct gw_rollout_counts *counts)
{
    pthread_mutex_lock(&tally->lock);
    struct rollout_tally *rollout = find(tally, rollout_id);
    struct stage_tally *stages = rollout != NULL ? stages_of(rollout, standing) : NULL;
    if (stages != NULL && stage < POL_STAGES_MAX) {
        gw_counts_add(&stages[stage].counts, counts);
        uint64_t done = counts->succeeded + counts->failed + counts->not_applicable;
        stages[stage].waiting.pending += counts->offered > done ? counts->offered - done : 0;
    }
    pthread_mutex_unlock(&tally->lock);
}

// ---- Reading

static uint64_t at_most(uint64_t value, uint64_t most)
{
    return value < most ? value : most;
}

// The walk looked a moment ago: what it found is bounded by what is there now.
static void waiting_counts(const struct gw_offer_ring *waiting, const struct gw_tally_watch *watch,
                           uint32_t now_s, struct gw_rollout_counts *out)
{
    uint64_t late = gw_offer_ring_late(waiting, now_s);
    uint64_t in_time = waiting->pending - late;
    uint64_t silent = watch->silent - watch->silent_succeeded;
    out->timed_out = late - at_most(watch->expired_late, late);
    out->under_way = in_time - at_most(silent + watch->expired - watch->expired_late, in_time);
    out->expired = watch->expired;
}

static void stage_counts(const struct rollout_tally *rollout, uint32_t stage, uint32_t now_s,
                         struct gw_rollout_counts *out)
{
    const struct gw_tally_watch *watch = &rollout->stages[stage].watch;
    *out = rollout->stages[stage].counts;
    waiting_counts(&rollout->stages[stage].waiting, watch, now_s, out);
    out->eligible = watch->eligible;
    out->online = watch->online;
    out->silent_succeeded = at_most(watch->silent_succeeded, out->succeeded);
    uint64_t silent_open = watch->silent - watch->silent_succeeded;
    out->silent = out->silent_succeeded + silent_open;
    out->observed_s = watch->observed_s;
    out->control_silent = watch->control_silent;
    out->control_silent_done = at_most(watch->control_silent_done, out->control_completed);
    out->control_observed_s = watch->control_observed_s;
    if (rollout->unproven != NULL) {
        const struct gw_rollout_counts *others = &rollout->unproven[stage].counts;
        out->unproven = others->offered;
        out->unproven_completed = others->succeeded + others->failed;
        out->unproven_failed = others->failed;
    }
}

// With those whose shadow is in it.
static void whole_stage(const struct rollout_tally *rollout, uint32_t stage, uint32_t now_s,
                        struct gw_rollout_counts *out)
{
    struct gw_rollout_counts shadows;
    stage_counts(rollout, stage, now_s, out);
    if (rollout->shadow != NULL) {
        stage_counts(rollout->shadow, stage, now_s, &shadows);
        gw_counts_add_all(out, &shadows);
    }
}

void gw_tally_set_watch(struct gw_tally *tally, uint64_t rollout_id, uint32_t stage,
                        const struct gw_tally_watch *watch)
{
    pthread_mutex_lock(&tally->lock);
    struct rollout_tally *rollout = find(tally, rollout_id);
    if (rollout != NULL && stage < rollout->stage_count) {
        bool shadow = rollout->release->stages[stage].kind == POL_STAGE_SHADOW;
        struct rollout_tally *of = shadow && rollout->shadow != NULL ? rollout->shadow : rollout;
        of->stages[stage].watch = *watch;
    }
    pthread_mutex_unlock(&tally->lock);
}

uint64_t gw_tally_outstanding(struct gw_tally *tally, uint64_t rollout_id, uint32_t stage,
                              uint64_t since_us)
{
    uint64_t outstanding = 1;
    pthread_mutex_lock(&tally->lock);
    const struct rollout_tally *rollout = find(tally, rollout_id);
    if (rollout != NULL && stage < rollout->stage_count &&
        rollout->stages[stage].watch.since_us == since_us) {
        outstanding = rollout->stages[stage].watch.outstanding;
    }
    pthread_mutex_unlock(&tally->lock);
    return outstanding;
}

bool gw_tally_counts(struct gw_tally *tally, uint64_t rollout_id, uint32_t stage, uint32_t now_s,
                     struct gw_rollout_counts *out)
{
    memset(out, 0, sizeof(*out));
    pthread_mutex_lock(&tally->lock);
    const struct rollout_tally *rollout = find(tally, rollout_id);
    for (uint32_t i = 0; rollout != NULL && i < rollout->stage_count; i++) {
        if (stage == i || stage == GW_TALLY_STAGE_ALL) {
            struct gw_rollout_counts one;
            whole_stage(rollout, i, now_s, &one);
            gw_counts_add_all(out, &one);
        }
    }
    pthread_mutex_unlock(&tally->lock);
    return rollout != NULL;
}

static void add_unproven(const struct rollout_tally *rollout, uint32_t now_s,
                         struct gw_rollout_counts *out)
{
    for (uint32_t i = 0; rollout->unproven != NULL && i < rollout->stage_count; i++) {
        gw_counts_add(out, &rollout->unproven[i].counts);
        out->timed_out += gw_offer_ring_late(&rollout->unproven[i].waiting, now_s);
    }
}

void gw_tally_standing(struct gw_tally *tally, uint64_t rollout_id, enum gw_standing standing,
                       uint32_t now_s, struct gw_rollout_counts *out)
{
    if (standing == GW_STANDING_COUNTED) {
        (void)gw_tally_counts(tally, rollout_id, GW_TALLY_STAGE_ALL, now_s, out);
        return;
    }
    memset(out, 0, sizeof(*out));
    pthread_mutex_lock(&tally->lock);
    const struct rollout_tally *rollout = find(tally, rollout_id);
    if (rollout != NULL) {
        add_unproven(rollout, now_s, out);
    }
    if (rollout != NULL && rollout->shadow != NULL) {
        add_unproven(rollout->shadow, now_s, out);
    }
    pthread_mutex_unlock(&tally->lock);
}

bool gw_tally_trial(struct gw_tally *tally, uint64_t rollout_id, const struct gw_trial_look *look,
                    struct pol_trial *out, struct pol_hazard out_hazards[POL_COHORT_COUNT])
{
    pthread_mutex_lock(&tally->lock);
    const struct rollout_tally *rollout = find(tally, rollout_id);
    bool found = rollout != NULL && rollout->trial != NULL && look->stage < rollout->stage_count;
    if (found) {
        const struct gw_tally_watch *watch = &rollout->stages[look->stage].watch;
        gw_trial_blocks_judged(rollout->trial, look, out);
        memcpy(out_hazards, watch->trial, sizeof(watch->trial));
    }
    pthread_mutex_unlock(&tally->lock);
    return found;
}

uint64_t gw_tally_trial_end_s(struct gw_tally *tally, uint64_t rollout_id, uint32_t stage)
{
    pthread_mutex_lock(&tally->lock);
    const struct rollout_tally *rollout = find(tally, rollout_id);
    uint64_t end_s = rollout != NULL ? gw_trial_blocks_end_s(rollout->trial, stage) : 0;
    pthread_mutex_unlock(&tally->lock);
    return end_s;
}

void gw_tally_trial_slices(struct gw_tally *tally, uint64_t rollout_id,
                           const struct gw_trial_look *look, const struct pol_held *lifted,
                           struct pol_slices *out)
{
    memset(out, 0, sizeof(*out));
    pthread_mutex_lock(&tally->lock);
    const struct rollout_tally *rollout = find(tally, rollout_id);
    if (rollout != NULL && rollout->trial != NULL && look->stage < rollout->stage_count) {
        gw_trial_blocks_slices(rollout->trial, look, lifted, out);
    }
    pthread_mutex_unlock(&tally->lock);
}

void gw_tally_view(struct gw_tally *tally, uint64_t rollout_id, uint32_t now_s,
                   struct gw_tally_view *out)
{
    memset(&out->counts, 0, sizeof(out->counts));
    out->stage_count = 0;
    out->fingerprint_count = 0;
    out->slice_count = 0;
    pthread_mutex_lock(&tally->lock);
    const struct rollout_tally *rollout = find(tally, rollout_id);
    if (rollout != NULL) {
        out->stage_count = rollout->stage_count;
        for (uint32_t i = 0; i < rollout->stage_count; i++) {
            whole_stage(rollout, i, now_s, &out->stages[i]);
            gw_counts_add_all(&out->counts, &out->stages[i]);
        }
        gw_fingerprints_view(&rollout->fingerprints, out);
        out->slice_count = gw_value_slices_worst(rollout->slices, out->slices);
    }
    pthread_mutex_unlock(&tally->lock);
}
