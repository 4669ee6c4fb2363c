// POST /v1/report: parse, hand to the writer thread, and answer 204 only after the group it was
// part of is on disk. Parsing and answering on the worker's thread; apply and done on the writer's.
// route.c brings requests, ride.c reports that came with a proxied one, foreign.c what is
// told for a device by somebody else. A job lies in the exchange's arena, so a worker keeps the
// exchange until `done` came back. Which reports count is said below the includes.
#include "svc/device/report_intake.h"

#include "svc/device/causes.h"
#include "svc/device/cloud_gate.h"
#include "svc/device/past_outcomes.h"
#include "svc/device/record_edit.h"
#include "svc/device/touches.h"
#include "svc/device/device_faults.h"
#include "svc/device/strangers.h"
#include "svc/reply.h"
#include "svc/tally/tally.h"
#include "svc/core_worker.h"
#include "svc/device/device_table.h"
#include "svc/plan/cohort.h"

#include <stdlib.h>
#include <string.h>

// A report may come again (the answer was lost), late, or after a gap. Per device the record keeps
// the epoch and the highest seq that is durable; what is at or below it changes nothing. Counters
// follow from what the record's bits were and are (svc/tally/tally.h).
//
// What a device says of a rollout counts when an offer of it is on record, or when this gateway
// would have made one: it may have been killed before it wrote it down. Of what it had, which
// control is offered again, that is so when the device is on record with that version. Anything
// else is acknowledged, and leaves no trace but a figure.
//
// A report proves who sent it or does not. What an unproven one says is kept apart; once the device
// has proven itself, what was said in its name before goes as it speaks of the same rollout, and
// unproven reports are refused.

// What one report may change at most: three steps an outcome, what is merged from memory, and two
// steps (ran, failed) of every rollout the device is control of.
#define CHANGES_MAX (3 * WIRE_REPORT_MAX + GW_RECORD_MERGE_CHANGES + 2 * GW_DEVICE_OUTCOMES_MAX)

// In the exchange's arena, sized by the report: hundreds of thousands may wait for the disk at
// once.
struct report_job {
    struct gw_store_op op;
    struct gw_message message;
    struct gw_worker *worker;
    struct gw_exchange *exchange;
    enum base_status status;
    int ok_status; // of the reply
    uint32_t now_s;
    uint32_t applied;
    uint32_t repeated;
    uint32_t unknown;
    uint32_t unoffered; // of devices that no stage lets in
    uint32_t unproven;  // applied, and counted by no gate
    bool gap;
    bool stale;  // of an epoch that is over
    bool proven; // the request showed who sent it
    bool denied; // it did not, and the device has before
    bool begun;  // the core knows that the writer is at it
    uint32_t change_count;
    uint16_t tenant;
    uint32_t epoch;
    uint32_t count;
    uint64_t device_id;
    uint64_t first_seq;
    struct wire_outcome *outcomes;   // details borrowed from the request's body
    struct gw_tally_change *changes; // on the heap between apply and done
    uint32_t mark_count;
    struct gw_device_mark *marks; // what the table has to know of it; likewise
};

static uint64_t last_seq(const struct report_job *job)
{
    return job->first_seq + job->count - 1;
}

// The first outcome that is news; job->count when there is none.
static uint32_t first_news(struct report_job *job, struct gw_device_record *record)
{
    if (record->has_epoch && job->epoch != record->epoch && record->previous_epoch != 0 &&
        job->epoch == record->previous_epoch) {
        job->stale = true;
        return job->count;
    }
    if (!record->has_epoch || job->epoch != record->epoch) {
        record->previous_epoch = record->has_epoch ? record->epoch : 0;
        record->epoch = job->epoch;
        record->has_epoch = true;
        record->report_seq = 0;
        return 0;
    }
    if (job->first_seq > record->report_seq) {
        job->gap = job->first_seq > record->report_seq + 1;
        return 0;
    }
    uint64_t known = record->report_seq - job->first_seq + 1;
    return known < job->count ? (uint32_t)known : job->count;
}

// May the device try again? Then the failure is none yet.
static bool may_retry(const struct gw_tally_rollout *rollout,
                      const struct gw_record_outcome *outcome, enum wire_outcome_kind kind)
{
    unsigned class = (unsigned)kind - WIRE_OUTCOME_FIRST_FAILURE;
    bool counted = (outcome->bits & (GW_OUTCOME_FAILED | GW_OUTCOME_CONTROL)) != 0;
    return wire_outcome_blames(kind) && class < POL_FAILURE_COUNT && !counted && rollout->open &&
           outcome->tries < rollout->release->stages[outcome->stage].retries[class];
}

static void note_mark(struct report_job *job, const struct gw_tally_rollout *rollout,
                      const struct gw_record_outcome *outcome)
{
    const struct gw_device_mark mark = gw_record_mark(outcome, rollout);
    for (uint32_t i = 0; i < job->mark_count; i++) {
        if (job->marks[i].rollout == mark.rollout) {
            job->marks[i] = mark;
            return;
        }
    }
    if (rollout->open && job->mark_count < GW_DEVICE_MARKS_MAX) {
        job->marks[job->mark_count++] = mark;
    }
}

// A device that is control of another rollout of this task runs what was there before: how that
// went is what the updated devices are compared with.
static void tell_control(struct report_job *job, struct gw_record_edit *edit,
                         const struct wire_outcome *said)
{
    for (uint32_t i = 0; i < edit->record.outcome_count; i++) {
        struct gw_record_outcome *outcome = &edit->record.outcomes[i];
        struct gw_tally_rollout rollout;
        bool watched = (outcome->bits & (GW_OUTCOME_CONTROL | GW_OUTCOME_OFFERED)) ==
                       GW_OUTCOME_CONTROL; // a placebo's device names its rollout
        if (!watched || !gw_tally_find(edit->core->tally, outcome->rollout_id, &rollout) ||
            !rollout.open || rollout.release->task_id != said->task_id) {
            continue;
        }
        struct wire_outcome judged;
        gw_cloud_judge(&rollout.release->stages[outcome->stage].cloud, said, &judged);
        uint16_t bits = gw_outcome_step(outcome->bits, &judged);
        if (bits != outcome->bits) {
            gw_record_edit_set(edit, outcome, bits, NULL);
            note_mark(job, &rollout, outcome);
        }
    }
}

// Does the device speak of what it had, which it was offered again as control of this rollout?
// `outcome`: what is on record, or NULL.
static bool is_placebo(const struct gw_tally_rollout *rollout,
                       const struct gw_record_outcome *outcome, const struct wire_outcome *said)
{
    const struct gw_release *release = rollout->release;
    uint8_t stage = outcome != NULL ? outcome->stage : rollout->stage_now;
    return !rollout->shadow && said->version_id != release->version_id &&
           release->stages[stage].gate.rule == POL_GATE_LOGRANK;
}

// Would this gateway offer it to the device, or draw it as control (`placebo`)? Where the word
// counts, a device that never said what it is belongs to no target.
static bool would_offer(const struct gw_record_edit *edit, const struct gw_tally_rollout *rollout,
                        bool placebo, bool counts)
{
    const struct gw_device_record *record = &edit->record;
    const struct gw_release *release = rollout->release;
    struct gw_attrs_view view = {0};
    bool known = record->attrs_size > 0 &&
                 gw_attrs_view(record->attrs, record->attrs_size, &view) == BASE_OK;
    const struct pol_attrs *attrs = known || counts ? &view.attrs : NULL;
    if (!rollout->offers) {
        return false;
    }
    return placebo ? gw_release_draws(release, rollout->stage_now, edit->device_id, attrs)
                   : gw_release_is_for(release, rollout->stage_now, rollout->shadow,
                                       edit->device_id, attrs);
}

struct holding {
    const struct gw_record_edit *edit;
    const struct wire_outcome *said;
    bool found;
};

// Does the outcome say that the device is on the version it speaks of? Then none more is looked at.
static bool look_on(void *ctx, const struct gw_record_outcome *outcome)
{
    struct holding *holding = ctx;
    const struct wire_outcome *said = holding->said;
    struct gw_tally_rollout rollout;
    const unsigned lost =
        GW_OUTCOME_ROLLED_BACK | GW_OUTCOME_REMOVED | GW_OUTCOME_CONTROL | GW_OUTCOME_SHADOW;
    bool has = (outcome->bits & (GW_OUTCOME_ACTIVATED | GW_OUTCOME_RAN)) != 0 &&
               (outcome->bits & lost) == 0;
    holding->found = has &&
                     gw_tally_find(holding->edit->core->tally, outcome->rollout_id, &rollout) &&
                     rollout.release->task_id == said->task_id &&
                     rollout.release->version_id == said->version_id;
    return !holding->found;
}

// Is the device on record with the version it speaks of? A placebo is of what a device has, and a
// device may say that it has anything.
static bool is_known_to_have(const struct gw_record_edit *edit, const struct wire_outcome *said)
{
    const struct gw_device_record *record = &edit->record;
    struct holding holding = {.edit = edit, .said = said};
    for (uint32_t i = 0; i < record->outcome_count && !holding.found; i++) {
        (void)look_on(&holding, &record->outcomes[i]);
    }
    enum base_status status = BASE_OK;
    if (!holding.found && record->outcome_count == GW_DEVICE_OUTCOMES_MAX) {
        status = gw_past_each(edit->txn, edit->device_id, look_on, &holding);
    }
    return status == BASE_OK && holding.found;
}

// Was the device offered what it speaks of? A control device was offered what it had, and nothing
// else for as long as no stage lets it in; one that is updated is control no more. What is on
// record from before it had shown who it is may be somebody else's word.
static bool was_offered(const struct gw_record_edit *edit, const struct gw_tally_rollout *rollout,
                        const struct gw_record_outcome *outcome, const struct wire_outcome *said,
                        bool counts)
{
    bool placebo = is_placebo(rollout, outcome, said);
    bool control = outcome != NULL && (outcome->bits & GW_OUTCOME_CONTROL) != 0;
    if (outcome != NULL && placebo && !control) {
        return false;
    }
    bool stands =
        outcome != NULL && control == placebo &&
        (!counts || gw_release_standing(rollout->release, outcome->bits) == GW_STANDING_COUNTED);
    return stands || ((!placebo || is_known_to_have(edit, said)) &&
                      would_offer(edit, rollout, placebo, counts));
}

// The rollout, or the shadow of it, that is spoken of, and the key it is known by. False: there is
// none, or it is another tenant's, of which what a device says counts for nothing.
static bool find_rollout(const struct report_job *job, const struct wire_outcome *said,
                         uint64_t *out_key, struct gw_tally_rollout *out)
{
    struct gw_tally *tally = job->worker->core->tally;
    uint64_t key = said->rollout_id;
    bool known = gw_tally_find(tally, key, out);
    if (known && said->task_id == wire_shadow_task_id(out->release->task_id)) {
        key = gw_shadow_key(key);
        known = gw_tally_find(tally, key, out);
    }
    *out_key = key;
    return known && out->tenant == job->tenant;
}

// The outcome as it enters with what is said, when it is not there or was there otherwise. NULL:
// the record is full of open rollouts. Who is not known to have been offered it takes no part in a
// trial: that it is heard of at all depends on what became of it.
static struct gw_record_outcome *entered(const struct report_job *job, struct gw_record_edit *edit,
                                         uint64_t key, const struct gw_tally_rollout *rollout,
                                         bool placebo)
{
    uint16_t proven = job->proven ? GW_OUTCOME_PROVEN : 0;
    bool counts = gw_release_standing(rollout->release, proven) == GW_STANDING_COUNTED;
    uint16_t enters = GW_OUTCOME_OFFERED | proven | (placebo ? GW_OUTCOME_CONTROL : 0);
    struct gw_record_outcome *outcome =
        gw_record_edit_outcome(edit, key, rollout->stage_now, job->now_s, enters);
    if (outcome == NULL) {
        return NULL;
    }
    if ((outcome->bits & GW_OUTCOME_CONTROL) != 0 && !placebo) {
        gw_record_edit_enter(edit, outcome, rollout->stage_now, job->now_s, enters);
    } else if (counts &&
               gw_release_standing(rollout->release, outcome->bits) != GW_STANDING_COUNTED) {
        gw_record_edit_enter(edit, outcome, outcome->stage, job->now_s, enters);
    }
    return outcome;
}

static void step(const struct report_job *job, struct gw_record_edit *edit,
                 const struct gw_tally_rollout *rollout, struct gw_record_outcome *outcome,
                 const struct wire_outcome *said)
{
    outcome->updated_s = job->now_s;
    uint16_t bits = gw_outcome_step(outcome->bits, said) | (job->proven ? GW_OUTCOME_PROVEN : 0);
    if (may_retry(rollout, outcome, said->kind)) {
        bits = (uint16_t)((bits & ~(unsigned)(GW_OUTCOME_FAILED | GW_OUTCOME_RETRY_GIVEN)) |
                          GW_OUTCOME_RETRY);
    }
    bool active = said->kind == WIRE_OUTCOME_ACTIVATED || said->kind == WIRE_OUTCOME_RAN ||
                  said->kind == WIRE_OUTCOME_SHADOW_AGREED;
    if (active && outcome->activated_s == 0) {
        outcome->activated_s = job->now_s;
    }
    gw_record_edit_set(edit, outcome, bits, said);
}

static enum base_status apply_outcome(struct report_job *job, struct gw_record_edit *edit,
                                      const struct wire_outcome *said)
{
    struct gw_tally_rollout rollout;
    uint64_t key;
    if (!find_rollout(job, said, &key, &rollout)) {
        if (said->rollout_id == 0) { // what it was told, not what it runs
            gw_faults_disbelief(edit->core, job->device_id, said->detail);
        }
        job->unknown++;
        return BASE_OK;
    }
    struct gw_record_outcome *outcome = gw_record_edit_find(edit, key);
    unsigned proven = job->proven ? GW_OUTCOME_PROVEN : 0;
    bool counts = gw_release_standing(rollout.release, proven) == GW_STANDING_COUNTED;
    bool placebo = is_placebo(&rollout, outcome, said);
    if (!was_offered(edit, &rollout, outcome, said, counts)) {
        job->unoffered++;
        return BASE_OK;
    }
    tell_control(job, edit, said);
    outcome = entered(job, edit, key, &rollout, placebo);
    if (outcome == NULL) {
        job->unknown++;
        return BASE_OK;
    }
    struct wire_outcome judged;
    gw_cloud_judge(&rollout.release->stages[outcome->stage].cloud, said, &judged);
    bool had_failed = (outcome->bits & GW_OUTCOME_FAILED) != 0;
    step(job, edit, &rollout, outcome, &judged);
    if (wire_outcome_is_failure(judged.kind) && counts && !placebo) {
        bool failed = !had_failed && (outcome->bits & GW_OUTCOME_FAILED) != 0;
        BASE_TRY(gw_cause_keep(edit->core, edit->txn, said->rollout_id, &judged, failed));
    }
    note_mark(job, &rollout, outcome);
    job->applied++;
    job->unproven += !counts;
    return BASE_OK;
}

static void drop_news(struct report_job *job)
{
    free(job->changes);
    free(job->marks);
    job->changes = NULL;
    job->marks = NULL;
    job->change_count = 0;
    job->mark_count = 0;
}

// A copy; NULL when there is nothing, or no memory for it.
static void *copy_of(const void *items, size_t size)
{
    void *copy = size > 0 ? malloc(size) : NULL;
    if (copy != NULL) {
        memcpy(copy, items, size);
    }
    return copy;
}

// Keeps what changed, and was noted on the stack, until the group is on disk; drops it when
// *status is none that leads there.
static void keep_news(struct report_job *job, const struct gw_record_edit *edit,
                      enum base_status *status)
{
    const struct gw_device_mark *marks = job->marks;
    bool kept = *status == BASE_OK;
    job->marks = kept ? copy_of(marks, job->mark_count * sizeof(marks[0])) : NULL;
    job->changes =
        kept ? copy_of(edit->changes, edit->change_count * sizeof(edit->changes[0])) : NULL;
    job->change_count = edit->change_count;
    bool whole = (job->marks != NULL || job->mark_count == 0) &&
                 (job->changes != NULL || job->change_count == 0);
    if (!kept || !whole) {
        *status = kept ? BASE_ERR_NOMEM : *status;
        drop_news(job);
    }
}

// Until they are counted, nothing is judged that may be heard of by them (gw_core_heard_s).
static void begin_reports(struct report_job *job)
{
    struct gw_core *core = job->worker->core;
    if (!job->begun && core->reports.open++ == 0) {
        atomic_store(&core->reports.since_s, gw_core_now_s(core));
    }
    job->begun = true;
}

static void end_reports(const struct report_job *job)
{
    struct gw_core *core = job->worker->core;
    if (job->begun && --core->reports.open == 0) {
        atomic_store(&core->reports.since_s, UINT32_MAX);
    }
}

static enum base_status apply_outcomes(struct report_job *job, struct gw_record_edit *edit)
{
    BASE_TRY(gw_record_edit_begin(edit, NULL));
    struct gw_device_record *record = &edit->record;
    job->denied = record->proven && !job->proven;
    if (job->proven) {
        gw_record_edit_prove(edit);
    }
    uint32_t first = job->denied ? job->count : first_news(job, record);
    job->repeated = job->denied ? 0 : first;
    for (uint32_t i = first; i < job->count; i++) {
        BASE_TRY(apply_outcome(job, edit, &job->outcomes[i]));
    }
    if (first < job->count) {
        record->report_seq = last_seq(job);
        if (record->first_seen_s == 0) {
            record->first_seen_s = job->now_s;
        }
        if (record->last_seen_s < job->now_s) {
            record->last_seen_s = job->now_s;
        }
        edit->dirty = true;
    }
    return BASE_OK;
}

static enum base_status apply_report(struct gw_store_txn *txn, struct gw_store_op *self)
{
    struct report_job *job = (struct report_job *)self;
    struct gw_tally_change changes[CHANGES_MAX];
    struct gw_device_mark marks[GW_DEVICE_MARKS_MAX];
    begin_reports(job);
    struct gw_record_edit edit = {
        .core = job->worker->core,
        .now_s = gw_core_now_s(job->worker->core),
        .txn = txn,
        .device_id = job->device_id,
        .changes = changes,
        .change_capacity = CHANGES_MAX,
    };
    job->applied = 0;
    job->repeated = 0;
    job->unknown = 0;
    job->unoffered = 0;
    job->unproven = 0;
    job->gap = false;
    job->stale = false;
    drop_news(job); // of an attempt before the map grew
    job->marks = marks;
    enum base_status status = apply_outcomes(job, &edit);
    keep_news(job, &edit, &status);
    return status == BASE_OK ? gw_record_edit_end(&edit) : status;
}

static void finish_report(struct gw_message *message)
{
    struct report_job *job =
        (struct report_job *)((char *)message - offsetof(struct report_job, message));
    struct gw_exchange *exchange = job->exchange;
    if (job->status == BASE_OK && job->denied) {
        gw_admission_refuse(exchange, GW_ADMISSION_UNKNOWN);
    } else if (job->status == BASE_OK) {
        gw_reply_status(exchange, job->ok_status);
    } else {
        gw_reply_failure(exchange, job->status, "the report could not be stored",
                         job->worker->core->set.retry_after_s);
    }
    gw_exchange_finish(exchange);
}

static void report_done(struct gw_store_op *self, enum base_status status)
{
    struct report_job *job = (struct report_job *)self;
    struct gw_core *core = job->worker->core;
    job->status = status;
    if (status == BASE_OK) {
        gw_tally_apply(core->tally, job->changes, job->change_count);
        if (!job->stale && !job->denied && job->count > 0) {
            const struct gw_device_touch by = {
                .device_id = job->device_id, .now_s = job->now_s, .proven = job->proven};
            gw_device_table_reported(core->table, &by, job->epoch, last_seq(job));
        }
        for (uint32_t i = 0; i < job->mark_count; i++) {
            gw_device_table_follow(core->table, job->device_id, &job->marks[i]);
        }
        // The writer thread alone counts these.
        gw_count(&core->reports.outcomes, job->applied);
        gw_count(&core->reports.repeated, job->repeated);
        gw_count(&core->reports.unknown, job->unknown);
        gw_count(&core->reports.unoffered, job->unoffered);
        gw_count(&core->reports.unproven, job->unproven);
        gw_count(&core->reports.gaps, job->gap);
    }
    end_reports(job);
    drop_news(job);
    job->worker->post(job->worker->post_ctx, &job->message);
}

static void refuse(struct gw_worker *worker, struct gw_exchange *exchange, int status,
                   const char *detail)
{
    gw_count(&worker->stats.reports_bad, 1);
    gw_reply_problem(exchange, status, "%s", detail);
    gw_exchange_finish(exchange);
}

static bool check_report(struct gw_worker *worker, struct gw_exchange *exchange,
                         struct wire_report *report)
{
    const struct gw_request *request = &exchange->request;
    if (request->body_bytes > WIRE_REPORT_BYTES_MAX) {
        refuse(worker, exchange, 413, "a report has at most 16384 bytes");
        return false;
    }
    if (wire_report_parse(request->body, request->body_bytes, report) != BASE_OK) {
        refuse(worker, exchange, 400, "body: not a report");
        return false;
    }
    if (report->device_id == 0) {
        refuse(worker, exchange, 400, "body: 0 is no device's id");
        return false;
    }
    uint64_t device_id;
    if (request->device.size > 0 &&
        (wire_device_parse_own(request->device, &device_id) != BASE_OK ||
         device_id != report->device_id)) {
        refuse(worker, exchange, 400, "walle-device differs from the report's device");
        return false;
    }
    uint64_t last;
    if (__builtin_add_overflow(report->first_seq, (uint64_t)report->count, &last)) {
        refuse(worker, exchange, 400, "body: seq out of range");
        return false;
    }
    return true;
}

// NULL when the arena is at its limit.
static struct report_job *new_job(struct base_arena *arena, const struct wire_report *report)
{
    struct report_job *job = base_arena_zalloc(arena, sizeof(*job));
    if (job == NULL) {
        return NULL;
    }
    job->epoch = report->epoch;
    job->count = report->count;
    job->device_id = report->device_id;
    job->first_seq = report->first_seq;
    job->outcomes =
        base_arena_copy(arena, report->outcomes, report->count * sizeof(report->outcomes[0]));
    return job->outcomes != NULL ? job : NULL;
}

void gw_report_handle(struct gw_worker *worker, struct gw_exchange *exchange)
{
    struct wire_report report;
    uint16_t tenant = 0;
    gw_count(&worker->stats.reports, 1);
    if (!check_report(worker, exchange, &report)) {
        return;
    }
    enum gw_admission admission =
        gw_device_admit(worker->core, &exchange->request, report.device_id, &tenant);
    if (admission != GW_ADMITTED) {
        gw_count(&worker->stats.reports_bad, 1);
        gw_admission_refuse(exchange, admission);
        gw_exchange_finish(exchange);
        return;
    }
    const struct gw_report_sender sender = {
        .tenant = tenant, .proven = gw_request_proves(&exchange->request), .ok_status = 204};
    gw_report_submit(worker, exchange, &report, &sender);
}

void gw_report_submit(struct gw_worker *worker, struct gw_exchange *exchange,
                      const struct wire_report *report, const struct gw_report_sender *sender)
{
    struct gw_core *core = worker->core;
    if (report->count == 0 ||
        gw_device_table_has_report(core->table, report->device_id, report->epoch,
                                   report->first_seq + report->count - 1, sender->proven)) {
        gw_reply_status(exchange, sender->ok_status); // all of it is durable
        gw_exchange_finish(exchange);
        return;
    }
    if (!gw_core_has_disk(core, sender->proven)) {
        gw_reply_busy(exchange, core->set.retry_after_s);
        gw_exchange_finish(exchange);
        return;
    }
    if (!sender->proven && !gw_device_table_has(core->table, report->device_id) &&
        !gw_strangers_admit(core, exchange->request.peer)) {
        gw_reply_problem(exchange, 429, "no room for more devices that did not show who they are");
        gw_reply_retry_after(exchange, core->set.retry_after_s);
        gw_exchange_finish(exchange);
        return;
    }
    struct report_job *job = new_job(exchange->arena, report);
    if (job == NULL) {
        gw_reply_busy(exchange, core->set.retry_after_s);
        gw_exchange_finish(exchange);
        return;
    }
    gw_worker_flush_touches(worker); // what it just said of itself is asked about
    job->tenant = sender->tenant;
    job->proven = sender->proven;
    job->op.sort_key = report->device_id;
    job->ok_status = sender->ok_status;
    job->op.apply = apply_report;
    job->op.done = report_done;
    job->message = (struct gw_message){.run = finish_report};
    job->worker = worker;
    job->exchange = exchange;
    job->now_s = gw_core_now_s(core);
    if (gw_store_submit(core->store, &job->op) != BASE_OK) {
        gw_reply_busy(exchange, core->set.retry_after_s);
        gw_exchange_finish(exchange);
    }
}
