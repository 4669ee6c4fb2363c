// Check-ins and reports: what the device says about itself and what came of its tasks. One request
// at a time; both share the back-off, for both go to the same gateway.
//
// Called by the tick (step), by the transport (head, body, end), and by everything that has an
// outcome to tell.
#include "core/control/device_control.h"

#include "core/control/control_parts.h"
#include "core/offer/device_again.h"
#include "core/offer/device_offer.h"
#include "core/offer/kept_offers.h"
#include "core/pull/device_pull.h"
#include "core/run/device_run.h"
#include "core/trust/device_lease.h"
#include "core/trust/device_trust.h"

#include "base/check.h"
#include "base/hash.h"

#include <string.h>

#define PROFILE_BYTES_MAX                                                                          \
    (64 + WIRE_ATTRS_BYTES_MAX + DEV_TASKS_MAX * (24 + 10 + 10) + DEV_REFUSED_MAX * 8)
#define PROFILE_TEXT_MAX BASE_B64_ENCODED(PROFILE_BYTES_MAX)

#define REPORT_HEAD_BYTES    31 // of a report, and of an outcome but for figures and detail: at most
#define REPORT_ENTRY_BYTES   45
#define MORE_OFFERS_PAUSE_US 1000000ull // a gateway that always has more is not asked in a loop

_Static_assert(PROFILE_BYTES_MAX <= WIRE_PROFILE_BYTES_MAX, "a profile fits the wire");

// Between check-ins: the device's own, or what the gateway said last.
static uint32_t interval_s(const struct dev_runtime *runtime)
{
    bool told = runtime->told_interval_s > 0 && !runtime->settings.own_pace;
    return told ? runtime->told_interval_s : runtime->settings.checkin_interval_s;
}

static enum base_status profile_encode(const struct dev_runtime *runtime, bool pairs_wanted,
                                       char *text, size_t capacity, size_t *out_size)
{
    uint8_t bytes[PROFILE_BYTES_MAX];
    struct wire_profile_pair pairs[DEV_TASKS_MAX];
    uint8_t refused[DEV_REFUSED_MAX * 8];
    struct base_writer writer;
    struct wire_profile profile = {
        .flags =
            WIRE_PROFILE_FLAG_AGAIN | (runtime->settings.own_pace ? WIRE_PROFILE_FLAG_OWN_PACE : 0),
        .tasks_max = runtime->settings.tasks_max,
        .interval_s = interval_s(runtime),
        .task_count = runtime->task_count,
        .attrs = runtime->attrs,
        .attrs_bytes = runtime->attrs_bytes,
        .refused = refused,
    };
    base_writer_init(&writer, refused, sizeof(refused));
    profile.refused_count = dev_refusals_list(&runtime->refusals, &writer, &profile.digest);
    for (uint32_t i = 0; i < runtime->task_count; i++) {
        const struct dev_task *task = &runtime->tasks[i];
        bool active = !wire_sha256_is_zero(&task->slots.active.manifest);
        pairs[i] = (struct wire_profile_pair){
            .task_id = task->id,
            .version_id = active ? wire_version_id(&task->slots.active.manifest) : 0,
            .blocked_version_id = task->slots.blocked,
            .floor = task->slots.floor,
            .approved = active ? task->slots.active.by.counter : 0,
        };
        profile.digest +=
            wire_profile_term(task->id, pairs[i].version_id, pairs[i].blocked_version_id);
    }
    size_t size = 0;
    BASE_TRY(
        wire_profile_encode(&profile, pairs_wanted ? pairs : NULL, bytes, sizeof(bytes), &size));
    if (BASE_B64_ENCODED(size) > capacity) {
        return BASE_ERR_TOO_LARGE;
    }
    *out_size = base_b64_encode(bytes, size, text);
    return BASE_OK;
}

enum base_status dev_profile_header(const struct dev_runtime *runtime, char *out, size_t capacity,
                                    size_t *out_size)
{
    bool pairs = runtime->control->pairs_wanted || runtime->task_count <= WIRE_PROFILE_INLINE_PAIRS;
    return profile_encode(runtime, pairs, out, capacity, out_size);
}

// What the device is and what it holds decides for how long refusals stand.
static void refusals_review(struct dev_runtime *runtime)
{
    uint64_t hash = 0;
    for (uint32_t i = 0; i < runtime->task_count; i++) {
        const struct dev_task *task = &runtime->tasks[i];
        uint64_t facts[] = {task->id, task->offer.newest.counter,
                            wire_version_id(&task->slots.active.manifest)};
        hash += base_hash64(facts, sizeof(facts));
    }
    bool changed = dev_refusals_tasks(&runtime->refusals, hash);
    runtime->dirty = runtime->dirty || changed;
}

static uint64_t checkin_interval_us(struct dev_runtime *runtime, uint32_t wished_s)
{
    uint64_t interval_us = (wished_s > 0 ? wished_s : interval_s(runtime)) * 1000000ull;
    return interval_us - interval_us / 8 + dev_random_below_us(runtime, interval_us / 4);
}

static void request_failed(struct dev_runtime *runtime)
{
    struct dev_control *control = runtime->control;
    if (control->kind != DEV_CONTROL_REPORT) {
        dev_kept_drop(runtime); // what came of the answer is not all of it
        dev_trust_metadata_drop(runtime);
    }
    runtime->stats.bad_requests++;
    uint32_t wait_ms =
        dev_backoff_next(&control->backoff, dev_random(runtime), control->retry_after_s);
    control->not_before_us = dev_now_us(runtime) + wait_ms * 1000ull;
    control->checkin_first = control->kind == DEV_CONTROL_REPORT;
    runtime->stats.failed_requests++;
    runtime->stats.failed_report = control->kind == DEV_CONTROL_REPORT;
    runtime->stats.failed_status = control->status >= 300 ? control->status : 0; // else not whole
    runtime->stats.failed_wait_ms = wait_ms;
}

static void request_start(struct dev_runtime *runtime, enum dev_control_kind kind,
                          const struct dev_request *request, uint64_t now_us)
{
    struct dev_control *control = runtime->control;
    const struct dev_http_port *http = &runtime->ports->http;
    base_assert(control->exchange == 0);
    base_assert(kind == DEV_CONTROL_CHECKIN || kind == DEV_CONTROL_REPORT);
    control->exchange = dev_exchange_new(runtime);
    control->kind = (uint8_t)kind;
    control->status = 0;
    control->retry_after_s = 0;
    control->deadline_us = now_us + runtime->settings.request_timeout_us;
    if (http->start(http->ctx, control->exchange, request) != BASE_OK) {
        control->exchange = 0;
        request_failed(runtime);
    }
}

enum base_status dev_checkin_begin(struct dev_runtime *runtime, char *text, size_t capacity,
                                   size_t *out_size, struct dev_question *inout_question)
{
    struct dev_control *control = runtime->control;
    base_assert(control->exchange == 0); // one at a time
    refusals_review(runtime);
    control->pairs_sent = control->pairs_wanted || runtime->task_count <= WIRE_PROFILE_INLINE_PAIRS;
    BASE_TRY(profile_encode(runtime, control->pairs_sent, text, capacity, out_size));
    inout_question->text[0] = '\0';
    if (dev_trust_is_rooted(runtime)) {
        dev_trust_ask(runtime, inout_question->takes_metadata, inout_question->text);
    }
    control->again_ms = UINT32_MAX; // this one is for all that was said so far
    dev_offers_start(&control->offers);
    dev_offers_none(runtime);
    return BASE_OK;
}

static void checkin_start(struct dev_runtime *runtime, uint64_t now_us)
{
    char text[PROFILE_TEXT_MAX];
    struct dev_question question = {.takes_metadata = true};
    size_t size = 0;
    if (dev_checkin_begin(runtime, text, sizeof(text), &size, &question) != BASE_OK) {
        runtime->control->checkin_due_us = UINT64_MAX; // cannot happen: sizes are checked at init
        return;
    }
    const struct dev_request request = {
        .method = DEV_METHOD_POST,
        .path = BASE_STR("/v1/checkin"),
        .device = {runtime->settings.device_hex, WIRE_DEVICE_HEX},
        .profile = {text, size},
        .nonce = base_str_of(question.text),
    };
    request_start(runtime, DEV_CONTROL_CHECKIN, &request, now_us);
}

static size_t outcome_bytes(const struct wire_outcome *outcome)
{
    uint8_t bytes[1 + WIRE_FIGURES_BYTES_MAX];
    struct base_writer writer;
    base_writer_init(&writer, bytes, sizeof(bytes));
    if (wire_figures_any(&outcome->figures)) {
        wire_figures_write(&writer, &outcome->figures);
    }
    return REPORT_ENTRY_BYTES + base_writer_size(&writer) + outcome->detail.size;
}

enum base_status dev_report_encode(struct dev_runtime *runtime, uint8_t *out, size_t capacity,
                                   size_t *out_size)
{
    struct wire_report report = {
        .device_id = runtime->settings.device_id,
        .epoch = runtime->epoch,
        .first_seq = runtime->outcomes.first_seq,
    };
    struct base_reader reader;
    size_t used = REPORT_HEAD_BYTES;
    if (runtime->outcomes.count == 0) {
        return BASE_ERR_NOT_FOUND;
    }
    dev_outcomes_reader(&runtime->outcomes, &reader);
    while (report.count < WIRE_REPORT_MAX &&
           dev_outcomes_next(&reader, &report.outcomes[report.count]) == BASE_OK) {
        used += outcome_bytes(&report.outcomes[report.count]);
        if (used > capacity) {
            break;
        }
        report.count++;
    }
    if (report.count == 0 && used > capacity) {
        return BASE_ERR_TOO_LARGE;
    }
    runtime->control->reported_seq = report.first_seq + report.count - 1;
    return wire_report_encode(&report, out, capacity, out_size);
}

static void report_start(struct dev_runtime *runtime, uint64_t now_us)
{
    struct dev_control *control = runtime->control;
    uint8_t body[WIRE_REPORT_BYTES_MAX];
    size_t size = 0;
    base_assert(!runtime->dirty); // what is told is stored
    if (runtime->outcomes.count == 0) {
        control->report_due_us = UINT64_MAX;
        return;
    }
    if (dev_report_encode(runtime, body, sizeof(body), &size) != BASE_OK) {
        runtime->stats.dropped_outcomes +=
            dev_outcomes_ack(&runtime->outcomes, control->reported_seq);
        runtime->dirty = true; // not to be sent, ever: it must not block what comes behind
        return;
    }
    struct dev_request request = {
        .method = DEV_METHOD_POST,
        .path = BASE_STR("/v1/report"),
        .device = {runtime->settings.device_hex, WIRE_DEVICE_HEX},
        .body = body,
        .body_bytes = size,
    };
    request_start(runtime, DEV_CONTROL_REPORT, &request, now_us);
}

bool dev_control_is_busy(const struct dev_runtime *runtime)
{
    return runtime->control->exchange != 0;
}

void dev_checkin_by(struct dev_runtime *runtime, uint64_t due_us)
{
    struct dev_control *control = runtime->control;
    bool under_way = control->exchange != 0 && control->kind != DEV_CONTROL_REPORT;
    if (!under_way) {
        control->checkin_due_us =
            due_us < control->checkin_due_us ? due_us : control->checkin_due_us;
        return;
    }
    uint64_t now_us = dev_now_us(runtime);
    uint64_t after_ms = due_us > now_us ? (due_us - now_us) / 1000 : 0;
    control->again_ms = after_ms < control->again_ms ? (uint32_t)after_ms : control->again_ms;
}

void dev_checkin_soon(struct dev_runtime *runtime)
{
    dev_checkin_by(runtime, 0);
    if (runtime->control->retry_after_s == 0) { // a gateway that asked for time gets it
        runtime->control->not_before_us = 0;
    }
}

void dev_checkin_now(struct dev_runtime *runtime)
{
    runtime->control->quiet_until_us = 0;
    dev_checkin_soon(runtime);
}

static void give_up(struct dev_runtime *runtime)
{
    struct dev_control *control = runtime->control;
    const struct dev_http_port *http = &runtime->ports->http;
    if (control->kind == DEV_CONTROL_RIDE) {
        dev_ride_end(runtime, control->exchange, (struct base_str){0}, (struct base_str){0});
        return;
    }
    http->cancel(http->ctx, control->exchange);
    control->exchange = 0;
    request_failed(runtime);
}

// From when on a request of the runtime's own may go: after back-off, and when no ride is waited
// for.
static uint64_t own_from_us(const struct dev_control *control)
{
    return control->not_before_us > control->quiet_until_us ? control->not_before_us
                                                            : control->quiet_until_us;
}

static void step(struct dev_runtime *runtime, uint64_t now_us)
{
    struct dev_control *control = runtime->control;
    if (control->exchange != 0 && now_us >= control->deadline_us) {
        give_up(runtime);
    }
    if (control->exchange != 0 || now_us < own_from_us(control)) {
        return;
    }
    if (control->more_offers && dev_pull_is_idle(runtime) && !dev_run_is_busy(runtime)) {
        control->more_offers = false;
        control->checkin_due_us = now_us + MORE_OFFERS_PAUSE_US;
    }
    bool checkin = now_us >= control->checkin_due_us;
    if (now_us >= control->report_due_us && !runtime->dirty &&
        !(checkin && control->checkin_first)) {
        report_start(runtime, now_us);
    }
    if (checkin && control->exchange == 0 && now_us >= control->not_before_us) {
        control->checkin_first = false;
        checkin_start(runtime, now_us);
    }
}

static void stop(struct dev_runtime *runtime)
{
    const struct dev_http_port *http = &runtime->ports->http;
    if (runtime->control->exchange != 0 && runtime->control->kind != DEV_CONTROL_RIDE) {
        http->cancel(http->ctx, runtime->control->exchange);
    }
    runtime->control->exchange = 0;
}

static void head_came(struct dev_runtime *runtime, const struct dev_response_head *head)
{
    runtime->control->status = head->status;
    runtime->control->retry_after_s = head->retry_after_s;
}

void dev_control_body(struct dev_runtime *runtime, const uint8_t *bytes, size_t size)
{
    struct dev_control *control = runtime->control;
    if (control->kind != DEV_CONTROL_CHECKIN || control->status != 200) {
        return;
    }
    for (size_t at = 0; at < size;) {
        bool ready = false;
        bool metadata = dev_offers_is_metadata(&control->offers);
        size_t from = at;
        at += dev_offers_feed(&control->offers, bytes + at, size - at, &ready);
        if (metadata) {
            dev_trust_metadata_add(runtime, bytes + from, at - from);
        } else if (ready &&
                   wire_envelope_is_director(control->offers.bytes, control->offers.size)) {
            if ((control->offers.flags & WIRE_OFFER_FLAG_METADATA) != 0) {
                dev_trust_metadata_begin(runtime);
            }
            dev_trust_director(runtime, control->offers.bytes, control->offers.size);
        } else if (ready) {
            dev_offer_take(runtime, control->offers.bytes, control->offers.size,
                           control->offers.flags, true);
        }
    }
}

// False: more is to come, in the next answer.
static bool is_whole(const struct dev_control *control)
{
    return control->status != 200 ||
           (control->offers.flags & (WIRE_OFFER_FLAG_ASK_PAIRS | WIRE_OFFER_FLAG_MORE)) == 0;
}

static void marks_take(struct dev_runtime *runtime)
{
    struct dev_control *control = runtime->control;
    struct wire_again marks[WIRE_AGAIN_MAX];
    uint32_t count = control->status == 200 ? dev_offers_again(&control->offers, marks) : 0;
    dev_again_take(runtime, marks, count, is_whole(control));
}

// What an answer says of the time until the next. Nobody signs it, so no single one sends a device
// away for more than twice as long as it, or one that was told nothing, stays away now, nor any
// number of them for more than a week. A gateway that means it says so again.
static uint32_t answered_s(const struct dev_runtime *runtime)
{
    uint32_t wished_s = runtime->control->offers.next_checkin_s;
    uint64_t now_s = interval_s(runtime);
    uint64_t most_s =
        DEV_CHECKIN_GROWTH *
        (now_s > DEV_CHECKIN_INTERVAL_DEFAULT_S ? now_s : DEV_CHECKIN_INTERVAL_DEFAULT_S);
    most_s = most_s < DEV_CHECKIN_INTERVAL_MAX_S ? most_s : DEV_CHECKIN_INTERVAL_MAX_S;
    return wished_s < most_s ? wished_s : (uint32_t)most_s;
}

static void checkin_done(struct dev_runtime *runtime)
{
    struct dev_control *control = runtime->control;
    bool offers = control->status == 200;
    marks_take(runtime);
    uint32_t wished_s = offers ? answered_s(runtime) : 0;
    if (offers && (control->offers.flags & WIRE_OFFER_FLAG_INTERVAL) != 0 && wished_s > 0 &&
        !runtime->settings.own_pace) {
        runtime->dirty = runtime->dirty || runtime->told_interval_s != wished_s;
        runtime->told_interval_s = wished_s;
    }
    uint64_t due_us = dev_now_us(runtime) + checkin_interval_us(runtime, wished_s);
    uint64_t renew_us = dev_lease_renew_us(runtime);
    runtime->stats.checkins++;
    control->checkin_due_us = due_us < renew_us ? due_us : renew_us;
    if (control->again_ms != UINT32_MAX) {
        dev_checkin_by(runtime, dev_now_us(runtime) + control->again_ms * 1000ull);
    }
    dev_tell_that(runtime, DEV_PART_EVENT_ANSWERED);
    control->pairs_wanted = false;
    control->more_offers = offers && (control->offers.flags & WIRE_OFFER_FLAG_MORE) != 0;
    if (offers && (control->offers.flags & WIRE_OFFER_FLAG_ASK_PAIRS) != 0 &&
        !control->pairs_sent) {
        control->pairs_wanted = true;
        control->checkin_due_us = 0;
    }
    if (is_whole(control)) {
        dev_offers_withdrawn(runtime, offers ? control->offers.flags : 0);
        dev_pull_leftovers(runtime);
    }
    dev_trust_metadata_end(runtime);
}

void dev_report_done(struct dev_runtime *runtime)
{
    struct dev_control *control = runtime->control;
    (void)dev_outcomes_ack(&runtime->outcomes, control->reported_seq);
    base_assert(runtime->outcomes.first_seq > control->reported_seq);
    runtime->dirty = true;
    control->report_due_us = runtime->outcomes.count > 0 ? 0 : UINT64_MAX;
}

// Whatever is tried: go on without them.
void dev_report_refused(struct dev_runtime *runtime)
{
    runtime->stats.dropped_outcomes +=
        dev_outcomes_ack(&runtime->outcomes, runtime->control->reported_seq);
    runtime->control->reported_seq = 0;
    dev_report_done(runtime);
}

void dev_control_end(struct dev_runtime *runtime, enum base_status status)
{
    struct dev_control *control = runtime->control;
    int http = status == BASE_OK ? control->status : 0;
    control->exchange = 0;
    if (http != 0) {
        runtime->stats.refused_status = http == 401 || http == 403 ? http : 0;
    }
    if (control->kind == DEV_CONTROL_CHECKIN &&
        (http == 204 || (http == 200 && dev_offers_complete(&control->offers)))) {
        dev_backoff_reset(&control->backoff);
        checkin_done(runtime);
    } else if (control->kind == DEV_CONTROL_REPORT && http == 204) {
        dev_backoff_reset(&control->backoff);
        dev_report_done(runtime);
    } else {
        if (control->kind == DEV_CONTROL_REPORT && (http == 400 || http == 413 || http == 422)) {
            dev_report_refused(runtime);
        }
        request_failed(runtime);
    }
}

// What the last answer offered may have waited for it; else the device asks.
static void metadata_came(struct dev_runtime *runtime)
{
    const struct dev_control *control = runtime->control;
    bool asking = control->exchange != 0 && control->kind != DEV_CONTROL_REPORT;
    if (asking || !dev_kept_judge(runtime)) {
        dev_checkin_soon(runtime);
    } else {
        dev_checkin_by(runtime, dev_lease_renew_us(runtime));
    }
}

static uint64_t due_us_of(const struct dev_runtime *runtime)
{
    const struct dev_control *control = runtime->control;
    if (control->exchange != 0) {
        return control->deadline_us;
    }
    uint64_t due_us = control->checkin_due_us;
    if (control->report_due_us < due_us && !runtime->dirty) {
        due_us = control->report_due_us;
    }
    uint64_t from_us = own_from_us(control);
    return due_us > from_us ? due_us : from_us;
}

static void init(struct dev_runtime *runtime, uint64_t first_us)
{
    struct dev_control *control = runtime->control;
    control->exchange = 0;
    control->checkin_due_us = first_us;
    control->again_ms = UINT32_MAX;
    control->report_due_us = UINT64_MAX;
    control->not_before_us = 0;
    control->quiet_until_us = 0;
    control->pairs_wanted = false;
    control->more_offers = false;
    dev_backoff_init(&control->backoff, runtime->settings.backoff_base_ms,
                     runtime->settings.backoff_cap_ms);
}

static void restored(struct dev_runtime *runtime)
{
    if (runtime->outcomes.count > 0) {
        runtime->control->report_due_us = runtime->control->checkin_due_us;
    }
    dev_ride_expect(runtime);
}

// Something waits to be reported: of a version that only came or was activated the end of its run
// will tell.
static void outcome_waits(struct dev_runtime *runtime, enum wire_outcome_kind kind)
{
    struct dev_control *control = runtime->control;
    uint64_t delay_us = runtime->settings.report_delay_us;
    bool final = kind != WIRE_OUTCOME_DOWNLOADED && kind != WIRE_OUTCOME_ACTIVATED;
    if (delay_us == 0 && !final) {
        delay_us = DEV_REPORT_LATEST_US;
    }
    uint64_t due_us = dev_now_us(runtime) + delay_us;
    control->report_due_us = due_us < control->report_due_us ? due_us : control->report_due_us;
}

static bool is_own(const struct dev_runtime *runtime, const struct dev_part_event *event)
{
    return event->exchange != 0 && event->exchange == runtime->control->exchange;
}

static bool on_event(struct dev_runtime *runtime, const struct dev_part_event *event)
{
    bool own = is_own(runtime, event);
    switch (event->kind) {
    case DEV_PART_EVENT_RESTORED:
        restored(runtime);
        break;
    case DEV_PART_EVENT_STOPPED:
        stop(runtime);
        break;
    case DEV_PART_EVENT_CHECKIN:
        dev_checkin_by(runtime, event->at_us);
        break;
    case DEV_PART_EVENT_CHECKIN_SOON:
        dev_checkin_soon(runtime);
        break;
    case DEV_PART_EVENT_METADATA:
        metadata_came(runtime);
        break;
    case DEV_PART_EVENT_OUTCOME:
        outcome_waits(runtime, event->outcome->kind);
        break;
    case DEV_PART_EVENT_HEAD:
        if (own) {
            head_came(runtime, event->head);
        }
        break;
    case DEV_PART_EVENT_BODY:
        if (own) {
            dev_control_body(runtime, event->body.data, event->body.size);
        }
        break;
    case DEV_PART_EVENT_END:
        if (own) {
            dev_control_end(runtime, event->status);
        }
        break;
    default:
        break;
    }
    return own;
}

const struct dev_part dev_control_part = {
    .name = "control",
    .init = init,
    .step = step,
    .due_us = due_us_of,
    .on_event = on_event,
    .hears = DEV_PART_HEARS(RESTORED) | DEV_PART_HEARS(STOPPED) | DEV_PART_HEARS(CHECKIN) |
             DEV_PART_HEARS(CHECKIN_SOON) | DEV_PART_HEARS(METADATA) | DEV_PART_HEARS(OUTCOME) |
             DEV_PART_HEARS_EXCHANGE};
