// Edits of device records. Writer thread, inside a group's transaction; may run again when the map
// had to grow, so nothing outside `edit` and the transaction is touched.
//
// A record remembers GW_DEVICE_OUTCOMES_MAX rollouts. When it is full, the oldest finished one
// moves to a row of its own in the same transaction (svc/device/past_outcomes.h), so that the
// counters computed from the store stay the same. When a record ends, what its device contributed
// moves to the outcomes table. Devices that do not count have rows of their own there: under their
// stage and POL_STAGES_MAX more.
#include "svc/device/record_edit.h"

#include "base/check.h"
#include "base/cursor.h"
#include "svc/device/past_outcomes.h"
#include "svc/plan/cohort.h"
#include "svc/tally/tally.h"
#include "svc/plan/attr_pool.h"

#include <string.h>

#define ARCHIVE_VERSION 2
_Static_assert(GW_DEVICE_MARKS_MAX <= GW_DEVICE_OUTCOMES_MAX, "each mark has a place in a record");
// What of a mark says how its device entered.
#define MARK_ENTERS                                                                                \
    (GW_OUTCOME_OFFERED | GW_OUTCOME_CONTROL | GW_OUTCOME_PROVEN | GW_OUTCOME_DRAWN |              \
     GW_OUTCOME_ALONE)

void gw_archive_encode(const struct gw_rollout_counts *counts, uint8_t out[GW_ARCHIVE_BYTES])
{
    struct base_writer writer;
    base_writer_init(&writer, out, GW_ARCHIVE_BYTES);
    base_writer_u64(&writer, ARCHIVE_VERSION);
    base_writer_u64(&writer, counts->offered);
    base_writer_u64(&writer, counts->downloaded);
    base_writer_u64(&writer, counts->activated);
    base_writer_u64(&writer, counts->succeeded);
    base_writer_u64(&writer, counts->failed);
    base_writer_u64(&writer, counts->not_applicable);
    base_writer_u64(&writer, counts->rolled_back);
    base_writer_u64(&writer, counts->on_version);
    base_writer_u64(&writer, counts->control);
    base_writer_u64(&writer, counts->control_completed);
    base_writer_u64(&writer, counts->control_failed);
    base_check(writer.status == BASE_OK);
}

enum base_status gw_archive_decode(const uint8_t *bytes, size_t size, struct gw_rollout_counts *out)
{
    struct base_reader reader;
    base_reader_init(&reader, bytes, size);
    memset(out, 0, sizeof(*out));
    if (base_reader_u64(&reader) != ARCHIVE_VERSION) {
        return BASE_ERR_CORRUPT;
    }
    out->offered = base_reader_u64(&reader);
    out->downloaded = base_reader_u64(&reader);
    out->activated = base_reader_u64(&reader);
    out->succeeded = base_reader_u64(&reader);
    out->failed = base_reader_u64(&reader);
    out->not_applicable = base_reader_u64(&reader);
    out->rolled_back = base_reader_u64(&reader);
    out->on_version = base_reader_u64(&reader);
    out->control = base_reader_u64(&reader);
    out->control_completed = base_reader_u64(&reader);
    out->control_failed = base_reader_u64(&reader);
    return base_reader_finish(&reader) == BASE_OK ? BASE_OK : BASE_ERR_CORRUPT;
}

static bool copy_first(void *ctx, const struct gw_record_outcome *outcome)
{
    *(struct gw_record_outcome *)ctx = *outcome;
    return false;
}

// A damaged record must not keep its device from reporting for ever: it begins anew, in the log and
// in the metrics. What had moved out of it comes back, for nothing is looked for outside of a
// record that was never full. One row at a time: what is read goes with the next write.
static enum base_status begin_anew(struct gw_record_edit *edit)
{
    struct gw_device_record *record = &edit->record;
    while (record->outcome_count < GW_DEVICE_OUTCOMES_MAX) {
        struct gw_record_outcome first = {.rollout_id = 0};
        BASE_TRY(gw_past_each(edit->txn, edit->device_id, copy_first, &first));
        if (first.rollout_id == 0) {
            break;
        }
        BASE_TRY(gw_past_delete(edit->txn, edit->device_id, first.rollout_id));
        record->outcomes[record->outcome_count++] = first;
    }
    atomic_fetch_add_explicit(&edit->core->reports.records_corrupt, 1, memory_order_relaxed);
    base_log_error(edit->core->log, "devices",
                   "device %016llx: its record is damaged and begins anew; what it did in %u "
                   "rollouts of before is kept, the rest is counted again as it says it",
                   (unsigned long long)edit->device_id, record->outcome_count);
    return BASE_OK;
}

static enum base_status read_record(struct gw_record_edit *edit)
{
    struct gw_key key = gw_key_u64(edit->device_id);
    struct base_span value;
    bool damaged = false;
    enum base_status status = gw_store_txn_get(edit->txn, GW_TABLE_DEVICES, &key, &value);
    if (status == BASE_OK) {
        if (gw_device_record_decode(value.data, value.size, &edit->record) == BASE_OK) {
            return BASE_OK;
        }
        damaged = true;
    } else if (status == BASE_ERR_NOT_FOUND) {
        damaged = gw_store_txn_left_out(edit->txn, GW_TABLE_DEVICES, &key);
    } else {
        return status;
    }
    memset(&edit->record, 0, sizeof(edit->record));
    edit->dirty = true;
    return damaged ? begin_anew(edit) : BASE_OK;
}

void gw_record_edit_prove(struct gw_record_edit *edit)
{
    struct gw_device_record *record = &edit->record;
    if (record->proven) {
        return;
    }
    record->proven = true;
    record->has_epoch = false;
    record->epoch = 0;
    record->previous_epoch = 0;
    record->report_seq = 0;
    edit->dirty = true;
}

void gw_record_edit_enter(struct gw_record_edit *edit, struct gw_record_outcome *outcome,
                          uint8_t stage, uint32_t offered_s, uint16_t bits)
{
    gw_record_edit_set(edit, outcome, 0, NULL);
    *outcome = (struct gw_record_outcome){.rollout_id = outcome->rollout_id,
                                          .offered_s = offered_s,
                                          .updated_s = offered_s,
                                          .stage = stage,
                                          .last_kind = outcome->last_kind};
    gw_record_edit_set(edit, outcome, bits, NULL);
}

// What the table knows first: offers, who is control and completed as such, and attempts.
static void merge_mark(struct gw_record_edit *edit, const struct gw_device_mark *mark)
{
    uint64_t rollout_id = gw_tally_rollout_id(edit->core->tally, mark->rollout);
    if (rollout_id == 0) {
        return;
    }
    struct gw_record_outcome *outcome =
        gw_record_edit_outcome(edit, rollout_id, mark->stage, mark->offered_s, mark->bits);
    if (outcome == NULL) {
        return;
    }
    bool was_control = (outcome->bits & GW_OUTCOME_CONTROL) != 0;
    bool is_control = (mark->bits & GW_OUTCOME_CONTROL) != 0;
    bool stranger = (mark->bits & ~(unsigned)outcome->bits & GW_OUTCOME_PROVEN) != 0;
    // Control of an earlier stage is drawn anew in a later one.
    bool later = is_control && was_control && mark->stage > outcome->stage;
    if ((!is_control && (was_control || stranger)) || later) {
        gw_record_edit_enter(edit, outcome, mark->stage, mark->offered_s, mark->bits & MARK_ENTERS);
    } else if (is_control && was_control && (mark->bits & ~(uint32_t)outcome->bits) != 0) {
        gw_record_edit_set(edit, outcome, outcome->bits | mark->bits, NULL);
    } else if (!is_control && mark->tries > outcome->tries) {
        outcome->tries = mark->tries;
        gw_record_edit_set(edit, outcome, outcome->bits | GW_OUTCOME_RETRY_GIVEN, NULL);
    }
}

static void merge_memory(struct gw_record_edit *edit, const struct gw_device_snapshot *snapshot)
{
    struct gw_device_record *record = &edit->record;
    if (snapshot->proven) {
        gw_record_edit_prove(edit);
    }
    if (record->first_seen_s == 0) {
        record->first_seen_s = snapshot->first_seen_s;
    }
    if (snapshot->last_seen_s > record->last_seen_s) {
        record->last_seen_s = snapshot->last_seen_s;
        edit->dirty = true;
    }
    if (snapshot->interval_s != 0 && snapshot->interval_s != record->interval_s) {
        record->interval_s = snapshot->interval_s;
        edit->dirty = true;
    }
    edit->attrs = gw_attr_pool_get(edit->core->pool, snapshot->attrs_id, &edit->attrs_size);
    if (edit->attrs != NULL && edit->attrs_size <= sizeof(record->attrs) &&
        (edit->attrs_size != record->attrs_size ||
         memcmp(edit->attrs, record->attrs, edit->attrs_size) != 0)) {
        memcpy(record->attrs, edit->attrs, edit->attrs_size);
        record->attrs_size = (uint32_t)edit->attrs_size;
        edit->dirty = true;
    }
    for (uint32_t i = 0; i < snapshot->mark_count; i++) {
        merge_mark(edit, &snapshot->marks[i]);
    }
}

enum base_status gw_record_edit_begin(struct gw_record_edit *edit,
                                      const struct gw_device_snapshot *snapshot)
{
    edit->dirty = false;
    edit->attrs = NULL;
    edit->attrs_size = 0;
    BASE_TRY(read_record(edit));
    struct gw_device_snapshot looked_up;
    if (snapshot == NULL && gw_device_table_get(edit->core->table, edit->device_id, &looked_up)) {
        snapshot = &looked_up;
    }
    if (snapshot != NULL) {
        merge_memory(edit, snapshot);
    }
    return BASE_OK;
}

// How the device counts in a rollout it has been in.
static bool is_counted(const struct gw_record_edit *edit, const struct gw_record_outcome *outcome)
{
    struct gw_tally_rollout rollout;
    return !gw_tally_find(edit->core->tally, outcome->rollout_id, &rollout) ||
           gw_release_standing(rollout.release, outcome->bits) == GW_STANDING_COUNTED;
}

// Adds the contribution of an outcome to the outcomes table.
static enum base_status archive(struct gw_record_edit *edit,
                                const struct gw_record_outcome *outcome)
{
    uint64_t row = outcome->stage + (is_counted(edit, outcome) ? 0 : POL_STAGES_MAX);
    struct gw_key key = gw_key_u64_u64(outcome->rollout_id, row);
    struct gw_rollout_counts counts = {0};
    struct gw_rollout_counts one;
    struct base_span value;
    enum base_status status = gw_store_txn_get(edit->txn, GW_TABLE_OUTCOMES, &key, &value);
    if (status == BASE_OK) {
        status = gw_archive_decode(value.data, value.size, &counts);
    }
    if (status != BASE_OK && status != BASE_ERR_NOT_FOUND) {
        return status;
    }
    gw_tally_contribution(outcome->bits, &one);
    gw_counts_add(&counts, &one);
    uint8_t bytes[GW_ARCHIVE_BYTES];
    gw_archive_encode(&counts, bytes);
    return gw_store_txn_put(edit->txn, GW_TABLE_OUTCOMES, &key, bytes, sizeof(bytes));
}

// One past outcome at a time: what is read goes with the next write.
static enum base_status archive_past(struct gw_record_edit *edit)
{
    for (;;) {
        struct gw_record_outcome first = {.rollout_id = 0};
        BASE_TRY(gw_past_each(edit->txn, edit->device_id, copy_first, &first));
        if (first.rollout_id == 0) {
            return BASE_OK;
        }
        BASE_TRY(archive(edit, &first));
        BASE_TRY(gw_past_delete(edit->txn, edit->device_id, first.rollout_id));
    }
}

enum base_status gw_record_edit_archive(struct gw_record_edit *edit)
{
    for (uint32_t i = 0; i < edit->record.outcome_count; i++) {
        BASE_TRY(archive(edit, &edit->record.outcomes[i]));
    }
    edit->record.outcome_count = 0;
    return archive_past(edit);
}

// The finished outcome that was longest ago moves out of the record. False: all are open.
static bool make_room(struct gw_record_edit *edit)
{
    struct gw_device_record *record = &edit->record;
    uint32_t oldest = GW_DEVICE_OUTCOMES_MAX;
    for (uint32_t i = 0; i < record->outcome_count; i++) {
        struct gw_tally_rollout rollout;
        bool known = gw_tally_find(edit->core->tally, record->outcomes[i].rollout_id, &rollout);
        bool open = known && rollout.open;
        if (!open && (oldest == GW_DEVICE_OUTCOMES_MAX ||
                      record->outcomes[i].updated_s < record->outcomes[oldest].updated_s)) {
            oldest = i;
        }
    }
    if (oldest == GW_DEVICE_OUTCOMES_MAX ||
        gw_past_put(edit->txn, edit->device_id, &record->outcomes[oldest]) != BASE_OK) {
        return false;
    }
    record->outcome_count--;
    memmove(&record->outcomes[oldest], &record->outcomes[oldest + 1],
            (record->outcome_count - oldest) * sizeof(record->outcomes[0]));
    return true;
}

struct gw_device_mark gw_record_mark(const struct gw_record_outcome *outcome,
                                     const struct gw_tally_rollout *rollout)
{
    return (struct gw_device_mark){
        .rollout = rollout->index,
        .offered_s = outcome->offered_s,
        .activated_s = outcome->activated_s,
        .bits = outcome->bits,
        .stage = outcome->stage & 15u,
        .tries = outcome->tries & 15u,
    };
}

struct gw_record_outcome *gw_record_edit_find(struct gw_record_edit *edit, uint64_t rollout_id)
{
    struct gw_device_record *record = &edit->record;
    struct gw_record_outcome *outcome = gw_device_record_find(record, rollout_id);
    struct gw_record_outcome past;
    // Nothing has left a record that was never full.
    if (outcome != NULL || record->outcome_count < GW_DEVICE_OUTCOMES_MAX ||
        gw_past_get(edit->txn, edit->device_id, rollout_id, &past) != BASE_OK || !make_room(edit) ||
        gw_past_delete(edit->txn, edit->device_id, rollout_id) != BASE_OK) {
        return outcome;
    }
    outcome = &record->outcomes[record->outcome_count++];
    *outcome = past;
    edit->dirty = true;
    return outcome;
}

struct gw_record_outcome *gw_record_edit_outcome(struct gw_record_edit *edit, uint64_t rollout_id,
                                                 uint8_t stage, uint32_t offered_s, uint16_t bits)
{
    struct gw_record_outcome *outcome = gw_record_edit_find(edit, rollout_id);
    if (outcome != NULL) {
        return outcome;
    }
    if (edit->record.outcome_count == GW_DEVICE_OUTCOMES_MAX && !make_room(edit)) {
        return NULL;
    }
    outcome = &edit->record.outcomes[edit->record.outcome_count++];
    *outcome = (struct gw_record_outcome){
        .rollout_id = rollout_id, .stage = stage, .offered_s = offered_s, .updated_s = offered_s};
    gw_record_edit_set(edit, outcome, bits, NULL);
    return outcome;
}

// The segment of a device that enters a trial.
static uint64_t segment_of(const struct gw_device_record *record)
{
    struct gw_attrs_view view;
    return gw_attrs_view(record->attrs, record->attrs_size, &view) == BASE_OK
               ? gw_segment_of(&view.attrs, NULL)
               : 0;
}

static uint32_t trial_now_s(const struct gw_record_edit *edit,
                            const struct gw_record_outcome *outcome)
{
    struct gw_tally_rollout rollout;
    bool known = gw_tally_find(edit->core->tally, outcome->rollout_id, &rollout);
    return gw_trial_time_s(edit->now_s, known ? rollout.moved_s : 0);
}

// When the device of a trial was first heard to have succeeded, and failed.
static void note_times(const struct gw_record_edit *edit, struct gw_record_outcome *outcome,
                       uint16_t bits)
{
    if ((bits & GW_OUTCOME_DRAWN) == 0) {
        return;
    }
    if ((outcome->bits & GW_OUTCOME_DRAWN) == 0) {
        outcome->segment = segment_of(&edit->record);
    }
    if ((bits & GW_OUTCOME_RAN) != 0 && outcome->answered_s == 0) {
        outcome->answered_s = trial_now_s(edit, outcome);
    }
    if ((bits & GW_OUTCOME_FAILED) != 0 && outcome->failed_s == 0) {
        outcome->failed_s = trial_now_s(edit, outcome);
    }
}

void gw_record_edit_set(struct gw_record_edit *edit, struct gw_record_outcome *outcome,
                        uint16_t bits, const struct wire_outcome *said)
{
    struct gw_tally_change change = {
        .device_id = edit->device_id,
        .old_answered_s = outcome->answered_s,
        .old_failed_s = outcome->failed_s,
        .rollout_id = outcome->rollout_id,
        .offered_s = outcome->offered_s,
        .stage = outcome->stage,
        .old_bits = outcome->bits,
        .new_bits = bits,
        .attrs = edit->attrs,
        .attrs_size = (uint32_t)edit->attrs_size,
    };
    note_times(edit, outcome, bits);
    change.answered_s = outcome->answered_s;
    change.failed_s = outcome->failed_s;
    change.segment = outcome->segment;
    if (said != NULL && wire_outcome_is_failure(said->kind)) {
        change.kind = (uint8_t)said->kind;
        change.fingerprint = said->fingerprint;
        change.detail = said->detail;
        outcome->fingerprint = said->fingerprint;
    }
    if (said != NULL) {
        outcome->last_kind = (uint8_t)said->kind;
        outcome->figures = wire_figures_any(&said->figures) ? said->figures : outcome->figures;
    }
    outcome->bits = bits;
    edit->dirty = true;
    base_assert(edit->change_count < edit->change_capacity);
    if (change.old_bits != change.new_bits && edit->change_count < edit->change_capacity) {
        edit->changes[edit->change_count++] = change;
    }
}

enum base_status gw_record_edit_end(struct gw_record_edit *edit)
{
    if (!edit->dirty) {
        return BASE_OK;
    }
    uint8_t bytes[GW_DEVICE_RECORD_BYTES_MAX];
    size_t size = gw_device_record_encode(&edit->record, bytes);
    struct gw_key key = gw_key_u64(edit->device_id);
    return gw_store_txn_put(edit->txn, GW_TABLE_DEVICES, &key, bytes, size);
}
