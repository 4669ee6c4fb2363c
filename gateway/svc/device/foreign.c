// Check-ins and reports on behalf of devices without our runtime. gateway/ddi calls on the worker's
// thread. A profile is made from the device's record, and from there on the code is that of every
// check-in and every report: no second decision exists that could differ. Sequence numbers of its
// reports are counted here, since the device has none.
#include "svc/device/foreign.h"

#include "svc/device/checkin.h"
#include "svc/device/touches.h"
#include "svc/device/report_intake.h"
#include "svc/access/operators.h"
#include "svc/tally/tally.h"
#include "svc/core_worker.h"
#include "svc/device/device_table.h"

#include <string.h>

#define FOREIGN_EPOCH 0xdd100001u // of reports the gateway writes itself

bool gw_foreign_runs(const struct gw_device_outcome *outcome)
{
    uint8_t gone = GW_OUTCOME_ROLLED_BACK | GW_OUTCOME_REMOVED | GW_OUTCOME_FAILED;
    return (outcome->bits & (GW_OUTCOME_ACTIVATED | GW_OUTCOME_RAN)) != 0 &&
           (outcome->bits & gone) == 0;
}

bool gw_foreign_pending(const struct gw_device_outcome *outcome)
{
    uint8_t over = GW_OUTCOME_RAN | GW_OUTCOME_FAILED | GW_OUTCOME_ROLLED_BACK |
                   GW_OUTCOME_REMOVED | GW_OUTCOME_NOT_APPLICABLE;
    return (outcome->bits & GW_OUTCOME_OFFERED) != 0 && (outcome->bits & over) == 0;
}

static struct wire_profile_pair *pair_of(struct wire_profile_pair *pairs, uint32_t *count,
                                         uint64_t task_id)
{
    for (uint32_t i = 0; i < *count; i++) {
        if (pairs[i].task_id == task_id) {
            return &pairs[i];
        }
    }
    pairs[*count] = (struct wire_profile_pair){.task_id = task_id};
    return &pairs[(*count)++];
}

// One pair a task, from the outcomes: the newest version it runs, and the newest that failed.
static uint32_t make_pairs(const struct gw_device_view *view, struct wire_profile_pair *pairs)
{
    uint32_t newest[GW_DEVICE_OUTCOMES_MAX] = {0};
    uint32_t count = 0;
    for (uint32_t i = 0; i < view->outcome_count; i++) {
        const struct gw_device_outcome *outcome = &view->outcomes[i];
        struct wire_profile_pair *pair = pair_of(pairs, &count, outcome->task_id);
        uint32_t *since = &newest[pair - pairs];
        if (gw_foreign_runs(outcome) && outcome->updated_s >= *since) {
            pair->version_id = outcome->version_id;
            *since = outcome->updated_s;
        }
        if ((outcome->bits & GW_OUTCOME_FAILED) != 0) {
            pair->blocked_version_id = outcome->version_id;
        }
    }
    return count;
}

// Every version that failed there, as marks; what they add to the digest.
static uint64_t list_failed(const struct gw_device_view *view, struct base_writer *writer)
{
    uint64_t digest = 0;
    for (uint32_t i = 0; i < view->outcome_count; i++) {
        const struct gw_device_outcome *outcome = &view->outcomes[i];
        if ((outcome->bits & GW_OUTCOME_FAILED) != 0) {
            uint64_t mark = wire_profile_version_mark(outcome->task_id, outcome->version_id);
            base_writer_u64(writer, mark);
            digest += wire_profile_refused_term(mark);
        }
    }
    return digest;
}

// `failed`: what list_failed added.
static enum base_status make_profile(const struct gw_device_view *view, struct wire_attrs *attrs,
                                     uint64_t failed, uint8_t out[WIRE_PROFILE_BYTES_MAX],
                                     size_t *out_size)
{
    struct wire_profile_pair pairs[GW_DEVICE_OUTCOMES_MAX];
    uint8_t block[WIRE_ATTRS_BYTES_MAX];
    struct base_writer writer;
    struct wire_profile profile = {.flags = WIRE_PROFILE_FLAG_PAIRS};
    profile.attrs = view->attrs_bytes;
    profile.attrs_bytes = view->attrs_size;
    if (attrs != NULL) {
        base_writer_init(&writer, block, sizeof(block));
        wire_attrs_write(&writer, attrs);
        BASE_TRY(writer.status);
        profile.attrs = block;
        profile.attrs_bytes = base_writer_size(&writer);
    }
    profile.task_count = make_pairs(view, pairs);
    profile.digest = failed;
    for (uint32_t i = 0; i < profile.task_count; i++) {
        profile.digest +=
            wire_profile_term(pairs[i].task_id, pairs[i].version_id, pairs[i].blocked_version_id);
    }
    return wire_profile_encode(&profile, pairs, out, WIRE_PROFILE_BYTES_MAX, out_size);
}

// The outcome that says what the device runs of the task; NULL: nothing.
static const struct gw_device_outcome *running(const struct gw_device_view *view, uint64_t task_id)
{
    const struct gw_device_outcome *newest = NULL;
    for (uint32_t i = 0; i < view->outcome_count; i++) {
        const struct gw_device_outcome *outcome = &view->outcomes[i];
        if (outcome->task_id == task_id && gw_foreign_runs(outcome) &&
            (newest == NULL || outcome->updated_s >= newest->updated_s)) {
            newest = outcome;
        }
    }
    return newest;
}

static void make_want(const struct gw_worker *worker, const struct gw_device_view *view,
                      const struct wire_release *release, struct gw_foreign_want *out)
{
    uint64_t task_id = wire_task_id(release->task_name);
    const struct gw_device_outcome *now = running(view, task_id);
    struct gw_tally_rollout left;
    bool back = now != NULL && gw_tally_find(worker->core->tally, now->rollout_id, &left) &&
                left.release->release_counter > release->release_counter;
    *out = (struct gw_foreign_want){
        .kind = back ? GW_FOREIGN_BACK : GW_FOREIGN_INSTALL,
        .rollout_id = back ? now->rollout_id : release->rollout_id,
        .task_id = task_id,
        .version_id = back ? now->version_id : wire_version_id(&release->manifest),
        .to_rollout = release->rollout_id,
        .to_version = wire_version_id(&release->manifest),
        .manifest = release->manifest,
    };
}

// The first that such a device can follow: it knows no shadows, and no order to run nothing.
static enum base_status take_offer(const struct gw_worker *worker,
                                   const struct gw_device_view *view,
                                   const struct wire_offers *offers, struct gw_foreign_want *out)
{
    struct wire_envelope envelope;
    struct wire_release release;
    for (uint32_t i = 0; i < offers->count; i++) {
        BASE_TRY(wire_envelope_parse(offers->items[i].envelope, offers->items[i].envelope_bytes,
                                     &envelope));
        if (envelope.type != WIRE_ENVELOPE_TYPE_RELEASE) {
            continue;
        }
        BASE_TRY(wire_release_parse(envelope.payload, envelope.payload_bytes, &release));
        if (!wire_release_is_shadow(&release)) {
            make_want(worker, view, &release, out);
            return BASE_OK;
        }
    }
    return BASE_OK;
}

enum base_status gw_foreign_checkin(struct gw_worker *worker, struct base_arena *arena,
                                    const struct gw_device_view *view, struct wire_attrs *attrs,
                                    struct gw_foreign_want *out)
{
    uint8_t bytes[WIRE_PROFILE_BYTES_MAX];
    uint8_t refused[GW_DEVICE_OUTCOMES_MAX * sizeof(uint64_t)];
    struct base_writer writer;
    size_t size = 0;
    const char *problem = NULL;
    *out = (struct gw_foreign_want){0};
    base_writer_init(&writer, refused, sizeof(refused));
    uint64_t failed = list_failed(view, &writer);
    BASE_TRY(make_profile(view, attrs, failed, bytes, &size));
    char *text = base_arena_alloc(arena, BASE_B64_ENCODED(size));
    struct gw_checkin *checkin = base_arena_alloc(arena, sizeof(*checkin));
    struct wire_offers *offers = base_arena_zalloc(arena, sizeof(*offers));
    if (text == NULL || checkin == NULL || offers == NULL) {
        return BASE_ERR_NOMEM;
    }
    struct base_str profile = {text, base_b64_encode(bytes, size, text)};
    gw_count(&worker->stats.checkins, 1);
    // Who speaks for it was checked at the door; it must not be one of the devices that speak for
    // themselves, or that was shut out.
    checkin->device_id = view->device_id;
    checkin->tenant = GW_TENANT_DEFAULT;
    checkin->peer = 0;
    checkin->proven = true; // by the token without which nobody gets here
    if (gw_credentials_state(worker->core->credentials, view->device_id) != GW_CREDENTIAL_NONE) {
        return BASE_ERR_DENIED;
    }
    BASE_TRY(gw_checkin_profile(worker, profile, checkin, &problem));
    checkin->profile.refused = refused; // a profile without limits has none
    checkin->profile.refused_count = (uint32_t)(base_writer_size(&writer) / sizeof(uint64_t));
    checkin->no_shadows = true;
    bool current = gw_checkin_current(worker, checkin);
    gw_worker_flush_touches(worker); // its next request must find these attributes
    if (current) {
        return BASE_OK;
    }
    (void)gw_checkin_offers(worker, checkin, WIRE_OFFERS_BYTES_MAX - 64, offers);
    return take_offer(worker, view, offers, out);
}

// A number no gateway came to was sent by a stranger before the client first showed its token.
static uint64_t next_seq(const struct gw_device_view *view)
{
    return view->epoch == FOREIGN_EPOCH && view->report_seq < UINT32_MAX ? view->report_seq + 1 : 1;
}

void gw_foreign_report(struct gw_worker *worker, struct gw_exchange *exchange,
                       const struct gw_device_view *view, const struct wire_outcome *outcomes,
                       uint32_t count)
{
    struct wire_report report = {
        .device_id = view->device_id,
        .epoch = FOREIGN_EPOCH,
        .first_seq = next_seq(view),
        .count = count,
    };
    memcpy(report.outcomes, outcomes, count * sizeof(outcomes[0]));
    const struct gw_report_sender sender = {
        .tenant = GW_TENANT_DEFAULT, .proven = true, .ok_status = 200};
    gw_report_submit(worker, exchange, &report, &sender);
}
