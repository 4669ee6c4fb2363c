// POST /v1/checkin and the walle-offer header: the fast path and what lies behind it.
//
// Fast: decode two headers, find the cohort by the hash of the raw attribute block, compare
// digests. With few rollouts that are open to a share, their hashes are added; with many, the
// device table says that nothing changed for this device since it was last current: what a check-in
// costs does not grow with the releases. No store, no allocation. Only a device whose digest
// differs takes the slow path. Worker's thread.
#include "svc/device/checkin.h"

#include "svc/plan/draw.h"
#include "svc/device/offer_gate.h"
#include "svc/plan/offer_room.h"
#include "svc/device/touches.h"
#include "svc/plan/cohort.h"
#include "svc/reply.h"
#include "svc/trust/answer_batch.h"
#include "svc/trust/director.h"
#include "svc/core_worker.h"
#include "svc/device/device_table.h"
#include "svc/plan/plan.h"

#include "base/check.h"
#include "policy/bucket.h"

#include <stdlib.h>
#include <string.h>

enum base_status gw_checkin_read(struct gw_worker *worker, const struct gw_request *request,
                                 struct gw_checkin *out, const char **out_problem)
{
    if (wire_device_parse_own(request->device, &out->device_id) != BASE_OK) {
        *out_problem = "walle-device: " WIRE_DEVICE_OWN_EXPECTED;
        return BASE_ERR_INVALID;
    }
    out->admission = gw_device_admit(worker->core, request, out->device_id, &out->tenant);
    if (__builtin_expect(out->admission != GW_ADMITTED, 0)) {
        *out_problem = "walle-credential: missing or wrong for this device";
        return BASE_ERR_DENIED;
    }
    out->proven = gw_request_proves(request);
    out->peer = request->peer;
    return gw_checkin_profile(worker, request->profile, out, out_problem);
}

enum base_status gw_checkin_profile(struct gw_worker *worker, struct base_str profile,
                                    struct gw_checkin *out, const char **out_problem)
{
    size_t size = 0;
    if (profile.size == 0 ||
        base_b64_decode(profile, out->bytes, sizeof(out->bytes), &size) != BASE_OK) {
        *out_problem = "walle-profile: base64url of at most 8192 bytes expected";
        return BASE_ERR_INVALID;
    }
    enum base_status status = wire_profile_parse(out->bytes, size, &out->profile);
    if (status != BASE_OK) {
        *out_problem = status == BASE_ERR_UNSUPPORTED ? "walle-profile: unknown version"
                                                      : "walle-profile: malformed";
        return status;
    }
    bool created;
    const struct gw_cohort_name name = {out->tenant,
                                        {out->profile.attrs, out->profile.attrs_bytes}};
    status = gw_cohorts_find(worker->cohorts, worker->plan, &name, &out->cohort, &created);
    if (status != BASE_OK) {
        *out_problem = "walle-profile: malformed attributes";
        return status;
    }
    if (created) {
        atomic_store_explicit(&worker->stats.cohorts, worker->cohorts->count, memory_order_relaxed);
        atomic_store_explicit(&worker->stats.cohort_probes_long, worker->cohorts->probes_long,
                              memory_order_relaxed);
    }
    out->asked = false;
    out->lease = false;
    out->no_shadows = false;
    out->beside = false;
    return BASE_OK;
}

// Has a trial a place for it that has what it should? It is looked at once, and settled then.
static bool may_be_control(const struct gw_checkin *checkin)
{
    return __builtin_expect(checkin->cohort->trial, 0) &&
           gw_cohort_draws(checkin->cohort, checkin->device_id);
}

// With many partials: asked, computed only when that is not known, and remembered.
static bool current_with_many(struct gw_worker *worker, const struct gw_checkin *checkin,
                              uint32_t now_s)
{
    const struct gw_cohort *cohort = checkin->cohort;
    struct gw_device_table *table = worker->core->table;
    uint64_t digest = checkin->profile.digest;
    bool touches = gw_worker_may_touch(worker, checkin, now_s);
    const struct gw_device_touch touch = {checkin->device_id, cohort->attrs_id, now_s,
                                          checkin->proven, checkin->profile.interval_s};
    if (touches && gw_device_table_touch_settled(table, &touch, digest, cohort->signature)) {
        gw_count(&worker->stats.checkins_settled, 1);
        return true;
    }
    if (gw_cohort_expected(cohort, checkin->device_id) != digest || may_be_control(checkin)) {
        return false;
    }
    gw_device_table_settle(table, checkin->device_id, digest, cohort->signature, false);
    gw_count(&worker->stats.checkins_current, 1);
    return true;
}

bool gw_checkin_current(struct gw_worker *worker, const struct gw_checkin *checkin)
{
    const struct gw_cohort *cohort = checkin->cohort;
    uint32_t now_s = gw_core_now_s(worker->core);
    if (cohort->partial_count > GW_PARTIALS_INLINE) {
        return current_with_many(worker, checkin, now_s);
    }
    gw_worker_touch(worker, checkin, now_s);
    uint64_t digest = checkin->profile.digest;
    if (gw_cohort_expected(cohort, checkin->device_id) != digest) {
        return false;
    }
    if (may_be_control(checkin) && !gw_device_table_settled(worker->core->table, checkin->device_id,
                                                            digest, cohort->signature)) {
        return false;
    }
    gw_count(&worker->stats.checkins_current, 1);
    return true;
}

static int compare_pairs(const void *a, const void *b)
{
    const struct wire_profile_pair *x = a;
    const struct wire_profile_pair *y = b;
    return x->task_id < y->task_id ? -1 : x->task_id > y->task_id;
}

static enum base_status read_pairs(const struct wire_profile *profile,
                                   struct wire_profile_pair *pairs)
{
    struct base_reader reader;
    base_reader_init(&reader, profile->pairs, profile->pairs_bytes);
    bool sorted = true;
    for (uint32_t i = 0; i < profile->task_count; i++) {
        BASE_TRY(wire_profile_pair_next(profile, &reader, &pairs[i]));
        sorted = sorted && (i == 0 || pairs[i - 1].task_id < pairs[i].task_id);
    }
    if (!sorted) {
        qsort(pairs, profile->task_count, sizeof(pairs[0]), compare_pairs);
    }
    return BASE_OK;
}

struct offering {
    struct gw_worker *worker;
    const struct gw_checkin *checkin;
    struct gw_attrs_view view;
    size_t bytes_left;
    uint32_t now_s;
    uint32_t sure_s;
    bool ran_out; // a statement did: there may be another clock, or another statement, next time
    bool floored; // a floor decided, which the digest does not tell: it may be another next time
    bool shadows_over;   // one that the device has is: what it may keep is said again
    uint32_t held_s;     // an offer is held back: ask again after so long; UINT32_MAX: none is
    struct gw_draw draw; // for the task that is looked at
    struct wire_offers *out;
    struct gw_offer_room *room; // what is new to the device
};

enum added { ADDED, ADD_NO_ROOM, ADD_HELD };

// HELD: by a rate, a cap or a window. A device that is drawn as control gets a mark in the offer's
// place.
static enum added add_offer(struct offering *offering, const struct gw_plan_task *task,
                            const struct gw_want *want)
{
    struct wire_offers *out = offering->out;
    const uint8_t *envelope = want->stop ? task->stop : want->statement->bytes;
    size_t size = want->stop ? task->stop_bytes : want->statement->size;
    size_t cost = size + 4;
    uint32_t most = offering->checkin->asked ? WIRE_DIRECTOR_ENTRIES_MAX : WIRE_OFFERS_MAX;
    bool marks_full = offering->draw.control && out->again_count == WIRE_AGAIN_MAX;
    if (out->count + out->again_count >= most || marks_full || cost > offering->bytes_left) {
        out->flags |= WIRE_OFFER_FLAG_MORE;
        return ADD_NO_ROOM;
    }
    if (want->install_open && offering->checkin->beside && offering->draw.compared) {
        offering->held_s = GW_HELD_WAIT_S < offering->held_s ? GW_HELD_WAIT_S : offering->held_s;
        return ADD_HELD; // of neither cohort: marks have no place here
    }
    const struct gw_offer_ask ask = {.checkin = offering->checkin,
                                     .attrs = &offering->view.attrs,
                                     .want = want,
                                     .draw = &offering->draw,
                                     .now_s = offering->now_s};
    if (want->install_open && !gw_offer_admit(offering->worker->core, &ask, &offering->held_s)) {
        return ADD_HELD;
    }
    offering->bytes_left -= cost;
    if (offering->draw.control) {
        out->again[out->again_count++] = (struct wire_again){
            .task_id = task->task_id,
            .rollout_id = want->release->id,
            .attempt = gw_draw_attempt(&offering->draw),
        };
        return ADDED;
    }
    out->items[out->count].envelope = envelope;
    out->items[out->count].envelope_bytes = size;
    out->count++;
    return ADDED;
}

// Would a device with a right clock refuse it for its time? Either it ran out itself, or what a
// device with a root verifies it by, because the gateway's clock is in doubt for long. A way back
// to a baseline never runs out; an open rollout's statement does, whatever the device leaves.
static bool has_run_out(const struct offering *offering, const struct gw_want *want)
{
    const struct gw_statement *statement = want->statement;
    const struct gw_meta *meta = offering->worker->meta;
    bool frozen =
        offering->checkin->asked && meta != NULL && meta->timestamp_expires_s <= offering->now_s;
    bool way_back = want->back && want->number >= GW_PLAN_OPEN_MAX;
    bool over = !way_back && statement->expires_s <= offering->sure_s;
    return statement->expires_s != 0 && (frozen || over);
}

// Offers what is wanted, or what the device has and may keep; what is new to it waits for what all
// others are (offer_new). HELD also for a statement of an open rollout that ran out.
static enum added offer(struct offering *offering, const struct gw_plan_task *task,
                        struct gw_want *want, const struct gw_device_facts *facts, bool known)
{
    bool again = task->shadow ? offering->shadows_over : offering->checkin->lease;
    if (want->statement != NULL && has_run_out(offering, want)) {
        want->statement = NULL; // a device that takes it for such is right
        offering->ran_out = true;
        gw_count(&offering->worker->stats.offers_ran_out, 1);
        if (want->install_open) {
            return ADD_HELD;
        }
    }
    if (want->statement == NULL && again && facts->have != 0) {
        want->statement = gw_want_held(task, want, facts, &offering->view.attrs);
    }
    if (want->stop) {
        return add_offer(offering, task, want);
    }
    if (want->statement == NULL) {
        return ADDED;
    }
    if (known) {
        return add_offer(offering, task, want);
    }
    gw_offer_room_add(offering->room, task, want);
    return ADDED;
}

static void offer_new(struct offering *offering)
{
    const struct gw_offer_room *room = offering->room;
    offering->draw = (struct gw_draw){.compared = false}; // they have nothing of these tasks
    enum added added = ADDED;
    for (uint32_t i = 0; i < room->count && added != ADD_NO_ROOM; i++) {
        const struct gw_plan_task *task = room->items[i].task;
        struct gw_want want = room->items[i].want;
        added = add_offer(offering, task, &want);
        if (added == ADD_HELD) { // what it should run until then is another question
            const struct gw_device_facts facts = {.device_id = &offering->checkin->device_id,
                                                  .held = 1u << want.number,
                                                  .told = &offering->checkin->profile};
            want = gw_want_of(task, &facts, &offering->view.attrs);
            bool good = want.statement != NULL && !has_run_out(offering, &want);
            added = good ? add_offer(offering, task, &want) : ADDED;
        }
    }
    gw_count(&offering->worker->stats.offers_without_room, room->left_out);
}

// Is it compared in a trial of the task? Then control wants what an update would: the two go the
// same way from here on.
static void draw(struct offering *offering, const struct gw_draw_ask *ask, struct gw_want *want)
{
    const struct gw_checkin *checkin = offering->checkin;
    struct gw_want update;
    offering->draw = (struct gw_draw){.compared = false};
    if (!gw_draw_find(ask, &offering->draw, &update)) {
        return;
    }
    if (offering->draw.control && gw_offer_mark_is_due(offering->worker->core, checkin, &update)) {
        *want = update;
    } else if (offering->draw.control) {
        offering->draw = (struct gw_draw){.compared = false};
    }
}

// A version that the device refuses, and may try again; 0: none.
static uint64_t second_attempt(const struct offering *offering, const struct gw_plan_task *task,
                               const struct gw_device_facts *facts)
{
    struct gw_core *core = offering->worker->core;
    for (uint32_t i = 0; i < task->open_count; i++) {
        uint64_t version_id = task->open[i].release->version_id;
        if ((version_id == facts->blocked ||
             gw_want_failed_before(facts, task->task_id, version_id)) &&
            gw_offer_may_retry(core, *facts->device_id, version_id)) {
            return version_id;
        }
    }
    return 0;
}

// `entries`: what the cohort says of the task, none when it does not concern it.
static bool decide_one(struct offering *offering, const struct gw_plan_task *task,
                       const struct gw_cohort_task *entries, uint32_t entry_count,
                       const struct wire_profile_pair *pair)
{
    struct gw_device_facts facts = {.device_id = &offering->checkin->device_id,
                                    .told = &offering->checkin->profile};
    if (pair != NULL) {
        facts.have = pair->version_id;
        facts.approved = pair->approved;
        facts.blocked = pair->blocked_version_id;
        facts.floor = pair->floor;
    }
    struct gw_core *core = offering->worker->core;
    facts.retry = second_attempt(offering, task, &facts);
    struct gw_want want = gw_want_decide(task, entries, entry_count, &facts, &offering->view.attrs);
    offering->floored = offering->floored || want.floored;
    if (want.refused) {
        gw_count(&offering->worker->stats.offers_refused, 1);
    }
    const struct gw_draw_ask ask = {
        .task = task,
        .entries = entries,
        .entry_count = entry_count,
        .facts = &facts,
        .attrs = &offering->view.attrs,
        .knows_marks = (offering->checkin->profile.flags & WIRE_PROFILE_FLAG_AGAIN) != 0,
    };
    draw(offering, &ask, &want);
    if (want.install_open && want.version_id == facts.retry) {
        offering->out->flags |= WIRE_OFFER_FLAG_RETRY;
        gw_offer_retried(core, offering->checkin->device_id, &want);
    }
    enum added added = offer(offering, task, &want, &facts, pair != NULL);
    if (added == ADD_HELD) { // what it should run until then is another question
        facts.held |= 1u << want.number;
        want = gw_want_decide(task, entries, entry_count, &facts, &offering->view.attrs);
        offering->draw = (struct gw_draw){.compared = false};
        added = offer(offering, task, &want, &facts, pair != NULL);
    }
    return added != ADD_NO_ROOM;
}

// Has the device a shadow that no stage asks for any more? It cannot know by itself.
static bool shadow_over(const struct gw_plan *plan, const struct wire_profile_pair *pair)
{
    const struct gw_plan_task *task = gw_plan_find(plan, pair->task_id);
    if (task == NULL) {
        return gw_plan_find(plan, wire_shadow_task_id(pair->task_id)) != NULL;
    }
    bool wanted = !task->shadow || (pair->version_id == 0 && pair->blocked_version_id == 0);
    for (uint32_t i = 0; i < task->open_count && !wanted; i++) {
        uint64_t version_id = task->open[i].release->version_id;
        wanted = version_id == pair->version_id || version_id == pair->blocked_version_id;
    }
    return !wanted;
}

// Tasks that concern the cohort and those that the device has, both by ascending task id: one
// merge. First those it has; the others are for offer_new. False: there is no room for more.
static bool decide_all(struct offering *offering, const struct wire_profile_pair *pairs,
                       uint32_t pair_count)
{
    const struct gw_cohort *cohort = offering->checkin->cohort;
    const struct gw_plan *plan = offering->worker->plan;
    uint32_t at = 0;
    uint32_t i = 0;
    while (i < cohort->task_count || at < pair_count) {
        bool entry = i < cohort->task_count &&
                     (at == pair_count || cohort->tasks[i].task_id <= pairs[at].task_id);
        uint64_t task_id = entry ? cohort->tasks[i].task_id : pairs[at].task_id;
        bool pair = at < pair_count && pairs[at].task_id == task_id;
        uint32_t first = i;
        while (i < cohort->task_count && cohort->tasks[i].task_id == task_id) {
            i++;
        }
        // A task that the device has and its cohort should not: an order may lead out of it.
        const struct gw_plan_task *task =
            entry ? plan->tasks[cohort->tasks[first].slot] : gw_plan_find(plan, task_id);
        bool ours = task != NULL && task->tenant == cohort->tenant &&
                    !(task->shadow && offering->checkin->no_shadows);
        if (ours && !decide_one(offering, task, &cohort->tasks[first], i - first,
                                pair ? &pairs[at] : NULL)) {
            return false;
        }
        at += pair;
    }
    return true;
}

// What an answer says of the next check-in: a device with an interval of its own goes by that.
static uint32_t next_checkin_s(const struct gw_core *core, const struct wire_profile *profile)
{
    return (profile->flags & WIRE_PROFILE_FLAG_OWN_PACE) != 0 ? 0
                                                              : gw_core_checkin_interval_s(core);
}

bool gw_checkin_offers(struct gw_worker *worker, const struct gw_checkin *checkin, size_t bytes_max,
                       struct wire_offers *out)
{
    struct gw_core *core = worker->core;
    out->flags = 0;
    out->count = 0;
    out->again_count = 0;
    out->metadata = (struct base_span){0};
    out->next_checkin_s = next_checkin_s(core, &checkin->profile);
    uint64_t digest = checkin->profile.digest;
    if (!checkin->lease && gw_device_table_settled(core->table, checkin->device_id, digest,
                                                   checkin->cohort->signature)) {
        gw_count(&worker->stats.checkins_settled, 1);
        return false;
    }
    struct wire_profile_pair pairs[WIRE_PROFILE_TASKS_MAX];
    uint32_t pair_count = 0;
    if (checkin->profile.task_count > 0) {
        if (checkin->profile.pairs == NULL || read_pairs(&checkin->profile, pairs) != BASE_OK) {
            out->flags |= WIRE_OFFER_FLAG_ASK_PAIRS;
            gw_count(&worker->stats.checkins_asked, 1);
            return false;
        }
        pair_count = checkin->profile.task_count;
    }
    struct gw_offer_room room;
    struct offering offering = {
        .worker = worker,
        .room = &room,
        .checkin = checkin,
        .bytes_left = bytes_max,
        .now_s = gw_core_now_s(core),
        .sure_s = gw_core_sure_s(core),
        .held_s = UINT32_MAX,
        .out = out,
    };
    if (gw_attrs_view(checkin->profile.attrs, checkin->profile.attrs_bytes, &offering.view) !=
        BASE_OK) {
        return false;
    }
    for (uint32_t i = 0; i < pair_count && !offering.shadows_over; i++) {
        offering.shadows_over = shadow_over(worker->plan, &pairs[i]);
    }
    out->flags |= offering.shadows_over ? WIRE_OFFER_FLAG_SHADOWS : 0;
    gw_worker_flush_touches(worker); // the device must be in the table to be marked
    gw_offer_room_init(&room, checkin->profile.tasks_max, pair_count);
    gw_device_table_room(core->table, checkin->device_id, checkin->profile.tasks_max, room.room);
    if (decide_all(&offering, pairs, pair_count)) {
        offer_new(&offering);
    }
    if (offering.held_s <
        (out->next_checkin_s != 0 ? out->next_checkin_s : checkin->profile.interval_s)) {
        out->next_checkin_s = offering.held_s;
    }
    bool held = offering.held_s != UINT32_MAX;
    bool nothing = out->count == 0 && out->again_count == 0;
    if (held && nothing) {
        gw_count(&worker->stats.checkins_held, 1); // not settled: there is something, later
        return true;
    }
    if ((offering.ran_out || offering.floored) && nothing && out->flags == 0) {
        return false; // not settled
    }
    if (nothing && out->flags == 0 && !checkin->lease) {
        bool without = gw_cohort_expected(checkin->cohort, checkin->device_id) != digest;
        gw_device_table_settle(core->table, checkin->device_id, digest, checkin->cohort->signature,
                               without);
        gw_count(&worker->stats.checkins_settled, 1);
        return false;
    }
    gw_count(&worker->stats.checkins_offered, 1);
    gw_count(&worker->stats.offers, out->count);
    return held;
}

void gw_checkin_refuse(struct gw_worker *worker, struct gw_exchange *exchange,
                       enum base_status status, const struct gw_checkin *checkin,
                       const char *problem)
{
    if (status == BASE_ERR_DENIED) {
        gw_admission_refuse(exchange, checkin->admission);
    } else if (base_status_is_resource(status)) {
        gw_reply_busy(exchange, worker->core->set.retry_after_s);
    } else {
        gw_reply_problem(exchange, 400, "%s", problem);
    }
}

// May it be told another interval, and goes it by one that is not the gateway's? Devices of before
// do not say, and those with an interval of their own keep it.
static inline bool goes_by_another(const struct gw_core *core, const struct wire_profile *profile)
{
    return profile->interval_s != gw_core_checkin_interval_s(core) && profile->interval_s != 0 &&
           (profile->flags & WIRE_PROFILE_FLAG_OWN_PACE) == 0;
}

static size_t encoded_max(const struct wire_offers *offers)
{
    size_t size = 64 + (size_t)offers->again_count * WIRE_AGAIN_BYTES + offers->metadata.size;
    for (uint32_t i = 0; i < offers->count; i++) {
        size += offers->items[i].envelope_bytes + 10;
    }
    return size;
}

// NULL: no answer could be made.
static void reply_offers(struct gw_worker *worker, struct gw_exchange *exchange,
                         const struct wire_offers *offers)
{
    size_t capacity = offers != NULL ? encoded_max(offers) : 0;
    size_t size = 0;
    uint8_t *body = capacity > 0 ? base_arena_alloc(exchange->arena, capacity) : NULL;
    if (body == NULL || wire_offers_encode(offers, body, capacity, &size) != BASE_OK) {
        gw_reply_busy(exchange, worker->core->set.retry_after_s);
    } else {
        gw_reply_body(exchange, 200, BASE_STR("application/octet-stream"), body, size);
    }
}

enum base_status gw_checkin_ask(const struct gw_worker *worker, struct base_str nonce,
                                struct gw_checkin *checkin, const char **out_problem)
{
    if (nonce.size == 0 || worker->meta == NULL) {
        return BASE_OK;
    }
    if (wire_ask_parse(nonce, &checkin->ask) != BASE_OK) {
        *out_problem = "walle-nonce: 55 characters of base64url expected, 76 with versions of "
                       "metadata, and a next order";
        return BASE_ERR_INVALID;
    }
    checkin->asked = true;
    checkin->lease = (checkin->ask.flags & WIRE_ASK_FLAG_LEASE) != 0;
    return BASE_OK;
}

// Nothing to do; it may go by an interval that is not the gateway's any more.
static inline enum gw_checkin_says
settled(struct gw_worker *worker, const struct gw_checkin *checkin, struct wire_offers *out)
{
    if (__builtin_expect(!goes_by_another(worker->core, &checkin->profile), 1)) {
        return GW_CHECKIN_NOTHING;
    }
    *out = (struct wire_offers){.flags = WIRE_OFFER_FLAG_INTERVAL,
                                .next_checkin_s = gw_core_checkin_interval_s(worker->core)};
    gw_count(&worker->stats.checkins_paced, 1);
    return GW_CHECKIN_OFFERS;
}

// Does the device understand an answer that is one of many?
static bool may_be_batched(const struct gw_checkin *checkin)
{
    return checkin->asked && (checkin->ask.flags & WIRE_ASK_FLAG_TREE) != 0;
}

// `director` NULL: the answer is given with others'.
static enum gw_checkin_says with_director(struct gw_worker *worker,
                                          const struct gw_checkin *checkin, uint8_t *director,
                                          struct wire_offers *offers)
{
    enum base_status status = BASE_OK;
    if (checkin->asked && director != NULL) {
        const struct gw_answer_ask ask = {
            .device_id = checkin->device_id, .ask = &checkin->ask, .offers = offers};
        status = gw_director_answer(worker, &ask, director, offers);
    }
    if (goes_by_another(worker->core, &checkin->profile) &&
        offers->next_checkin_s == gw_core_checkin_interval_s(worker->core)) {
        offers->flags |= WIRE_OFFER_FLAG_INTERVAL;
        gw_count(&worker->stats.checkins_paced, 1);
    }
    return status == BASE_OK ? GW_CHECKIN_OFFERS : GW_CHECKIN_BUSY;
}

enum gw_checkin_says gw_checkin_decide(struct gw_worker *worker, const struct gw_checkin *checkin,
                                       size_t bytes_max, uint8_t *director, struct wire_offers *out)
{
    bool current = gw_checkin_current(worker, checkin);
    if (__builtin_expect(current && !checkin->lease, 1)) {
        return settled(worker, checkin, out);
    }
    bool held = gw_checkin_offers(worker, checkin, bytes_max, out);
    bool concerned = checkin->asked && gw_director_concerns(worker->meta, &checkin->profile);
    bool nothing = out->count == 0 && out->again_count == 0 && out->flags == 0;
    if (nothing && !concerned && !held) {
        return settled(worker, checkin, out);
    }
    return with_director(worker, checkin, director, out);
}

// What the device would ask for next comes with the director's answer, while there is room for it.
static void bring_metadata(const struct gw_worker *worker, const struct gw_checkin *checkin,
                           struct wire_offers *offers)
{
    offers->metadata = gw_director_metadata(worker->meta, &checkin->ask, offers);
    size_t answer = may_be_batched(checkin) ? WIRE_ANSWER_BYTES_MAX : 0; // it is not there yet
    if (encoded_max(offers) + answer > WIRE_OFFERS_BYTES_MAX) {
        offers->metadata = (struct base_span){0};
    }
}

void gw_checkin_handle(struct gw_worker *worker, struct gw_exchange *exchange)
{
    struct gw_checkin checkin;
    struct wire_offers offers;
    uint8_t director[WIRE_STATEMENT_BYTES_MAX];
    const char *problem = NULL;
    gw_count(&worker->stats.checkins, 1);
    enum base_status status = gw_checkin_read(worker, &exchange->request, &checkin, &problem);
    if (status == BASE_OK) {
        status = gw_checkin_ask(worker, exchange->request.nonce, &checkin, &problem);
    }
    if (__builtin_expect(status != BASE_OK, 0)) {
        gw_count(&worker->stats.checkins_bad, 1);
        gw_checkin_refuse(worker, exchange, status, &checkin, problem);
        gw_exchange_finish(exchange);
        return;
    }
    const size_t bytes_max = WIRE_OFFERS_BYTES_MAX - WIRE_ANSWER_BYTES_MAX - 64;
    bool batched = may_be_batched(&checkin);
    enum gw_checkin_says says =
        gw_checkin_decide(worker, &checkin, bytes_max, batched ? NULL : director, &offers);
    if (says == GW_CHECKIN_OFFERS && checkin.asked && (batched || offers.count > 0)) {
        bring_metadata(worker, &checkin, &offers); // else it is told an interval alone
    }
    if (says == GW_CHECKIN_OFFERS && batched) {
        const struct gw_answer_ask ask = {.exchange = exchange,
                                          .device_id = checkin.device_id,
                                          .ask = &checkin.ask,
                                          .offers = &offers,
                                          .answered = reply_offers};
        gw_answer_batch_add(worker, &ask);
        return;
    }
    switch (says) {
    case GW_CHECKIN_NOTHING:
        gw_reply_status(exchange, 204);
        break;
    case GW_CHECKIN_OFFERS:
        reply_offers(worker, exchange, &offers);
        break;
    case GW_CHECKIN_BUSY:
        gw_reply_busy(exchange, worker->core->set.retry_after_s);
        break;
    }
    gw_exchange_finish(exchange);
}

struct base_str gw_worker_offer_header(struct gw_worker *worker, struct base_arena *arena,
                                       const struct gw_request *request)
{
    struct base_str none = {NULL, 0};
    struct gw_checkin checkin;
    const char *problem = NULL;
    gw_count(&worker->stats.checkins, 1);
    if (gw_checkin_read(worker, request, &checkin, &problem) != BASE_OK) {
        gw_count(&worker->stats.checkins_bad, 1);
        return none;
    }
    checkin.beside = true;
    if (gw_checkin_current(worker, &checkin)) {
        return none;
    }
    struct wire_offers offers;
    (void)gw_checkin_offers(worker, &checkin, WIRE_OFFERS_HEADER_MAX - 64, &offers);
    if (offers.count == 0 && offers.flags == 0) {
        return none;
    }
    uint8_t bytes[WIRE_OFFERS_HEADER_MAX];
    size_t size = 0;
    if (wire_offers_encode(&offers, bytes, sizeof(bytes), &size) != BASE_OK) {
        return none;
    }
    char *text = base_arena_alloc(arena, BASE_B64_ENCODED(size));
    if (text == NULL) {
        return none;
    }
    return (struct base_str){text, base_b64_encode(bytes, size, text)};
}
