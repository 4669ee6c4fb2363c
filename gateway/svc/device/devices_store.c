// Devices between memory and store: loading at start, the background flush, and operators' views.
// Control thread; the flush's apply runs on the writer thread while the control thread waits.
// control_thread.c has it flush at its ticks, core.c loads, api_devices.c and gateway/ddi ask for
// views. A flush takes a bounded number of devices, sorted by id so that neighbouring pages are
// written together; what cannot be written goes back and comes with the next. A damaged record is
// counted and left out.
#include "svc/device/causes.h"
#include "svc/device/past_outcomes.h"
#include "svc/device/record_edit.h"

#include <stdlib.h>
#include <string.h>

// ---- Background flush

struct flush_op {
    struct gw_store_op op;
    struct gw_core *core;
    struct gw_device_snapshot *devices;
    uint32_t count;
    uint32_t change_count;
};

static int compare_devices(const void *a, const void *b)
{
    const struct gw_device_snapshot *x = a;
    const struct gw_device_snapshot *y = b;
    return x->device_id < y->device_id ? -1 : x->device_id > y->device_id;
}

static enum base_status apply_flush(struct gw_store_txn *txn, struct gw_store_op *self)
{
    struct flush_op *flush = (struct flush_op *)self;
    flush->change_count = 0;
    for (uint32_t i = 0; i < flush->count; i++) {
        struct gw_record_edit edit = {
            .core = flush->core,
            .txn = txn,
            .device_id = flush->devices[i].device_id,
            .changes = flush->core->control.changes + flush->change_count,
            .change_capacity = GW_RECORD_MERGE_CHANGES,
        };
        BASE_TRY(gw_record_edit_begin(&edit, &flush->devices[i]));
        BASE_TRY(gw_record_edit_end(&edit));
        flush->change_count += edit.change_count;
    }
    return BASE_OK;
}

uint32_t gw_devices_flush(struct gw_core *core)
{
    struct gw_control *control = &core->control;
    uint32_t begun_s = gw_core_now_s(core);
    if (gw_device_table_dirty(core->table) == 0) {
        control->flushed_s = begun_s;
        return 0;
    }
    struct flush_op flush = {.core = core, .devices = control->flush};
    flush.count = gw_device_table_take_dirty(core->table, control->flush, GW_FLUSH_BATCH);
    if (flush.count == 0) {
        control->flushed_s = begun_s;
        return 0;
    }
    qsort(control->flush, flush.count, sizeof(control->flush[0]), compare_devices);
    flush.op.apply = apply_flush;
    flush.op.sort_key = control->flush[0].device_id;
    enum base_status status = gw_store_submit_wait(core->store, &flush.op);
    if (status != BASE_OK) {
        gw_device_table_put_back(core->table, control->flush, flush.count);
        return 0; // later
    }
    gw_tally_apply(core->tally, control->changes, flush.change_count);
    if (flush.count < GW_FLUSH_BATCH) {
        control->flushed_s = begun_s;
    }
    return flush.count;
}

// ---- Loading at start

struct load {
    struct gw_core *core;
    enum base_status status;
    uint64_t corrupt;
};

// What an outcome adds to an empty tally.
static struct gw_tally_change change_of(const struct gw_record_outcome *outcome, uint64_t device_id,
                                        const uint8_t *attrs, size_t attrs_size)
{
    bool failed = (outcome->bits & GW_OUTCOME_FAILED) != 0;
    return (struct gw_tally_change){
        .rollout_id = outcome->rollout_id,
        .fingerprint = outcome->fingerprint,
        .device_id = device_id,
        .segment = outcome->segment,
        .answered_s = outcome->answered_s,
        .failed_s = outcome->failed_s,
        .offered_s = outcome->offered_s,
        .stage = outcome->stage,
        .new_bits = outcome->bits,
        .kind = failed && outcome->last_kind >= WIRE_OUTCOME_FIRST_FAILURE ? outcome->last_kind : 0,
        .attrs = attrs,
        .attrs_size = (uint32_t)attrs_size,
    };
}

static void load_outcomes(struct gw_core *core, const struct gw_device_record *record,
                          struct gw_device_snapshot *snapshot)
{
    struct gw_tally_change changes[GW_DEVICE_OUTCOMES_MAX];
    uint32_t count = 0;
    size_t attrs_size;
    const uint8_t *attrs = gw_attr_pool_get(core->pool, snapshot->attrs_id, &attrs_size);
    for (uint32_t i = 0; i < record->outcome_count; i++) {
        const struct gw_record_outcome *outcome = &record->outcomes[i];
        struct gw_tally_rollout rollout;
        if (!gw_tally_find(core->tally, outcome->rollout_id, &rollout)) {
            continue;
        }
        changes[count++] = change_of(outcome, snapshot->device_id, attrs, attrs_size);
        if (rollout.open && snapshot->mark_count < GW_DEVICE_MARKS_MAX) {
            snapshot->marks[snapshot->mark_count++] = gw_record_mark(outcome, &rollout);
        }
    }
    gw_tally_apply(core->tally, changes, count);
}

// After the devices: it counts with what is known of its device.
static bool load_past(void *ctx, struct base_span key, struct base_span value)
{
    struct load *load = ctx;
    struct gw_core *core = load->core;
    struct gw_record_outcome outcome;
    struct gw_tally_rollout rollout;
    struct gw_device_snapshot device = {.mark_count = 0};
    uint64_t device_id;
    if (gw_past_decode(key, value, &device_id, &outcome) != BASE_OK) {
        load->corrupt++;
        return true;
    }
    if (!gw_tally_find(core->tally, outcome.rollout_id, &rollout)) {
        return true;
    }
    const uint8_t *attrs = NULL;
    size_t attrs_size = 0;
    if (gw_device_table_get(core->table, device_id, &device)) {
        attrs = gw_attr_pool_get(core->pool, device.attrs_id, &attrs_size);
    }
    struct gw_tally_change change = change_of(&outcome, device_id, attrs, attrs_size);
    gw_tally_apply(core->tally, &change, 1);
    if (rollout.open) { // it goes back
        struct gw_device_mark mark = gw_record_mark(&outcome, &rollout);
        gw_device_table_follow(core->table, device_id, &mark);
    }
    return true;
}

static bool load_device(void *ctx, struct base_span key, struct base_span value)
{
    struct load *load = ctx;
    struct gw_core *core = load->core;
    struct gw_device_record record;
    struct gw_device_snapshot snapshot;
    if (!gw_key_read_u64(key.data, key.size, 0, &snapshot.device_id) ||
        gw_device_record_decode(value.data, value.size, &record) != BASE_OK) {
        load->corrupt++;
        return true;
    }
    snapshot.report_seq = record.report_seq;
    snapshot.epoch = record.epoch;
    snapshot.has_epoch = record.has_epoch;
    snapshot.proven = record.proven;
    snapshot.first_seen_s = record.first_seen_s;
    uint32_t now_s = gw_core_now_s(core); // the time may have gone back since
    snapshot.last_seen_s = record.last_seen_s < now_s ? record.last_seen_s : now_s;
    snapshot.interval_s = record.interval_s;
    snapshot.attrs_id =
        gw_attr_pool_intern(core->pool, record.attrs, record.attrs_size, record.proven);
    snapshot.mark_count = 0;
    load_outcomes(core, &record, &snapshot);
    load->status = gw_device_table_load(core->table, &snapshot);
    return load->status == BASE_OK;
}

static bool load_archive(void *ctx, struct base_span key, struct base_span value)
{
    struct load *load = ctx;
    uint64_t rollout_id;
    uint64_t stage;
    struct gw_rollout_counts counts;
    if (gw_key_read_u64(key.data, key.size, 0, &rollout_id) &&
        gw_key_read_u64(key.data, key.size, 1, &stage) && stage < 2 * (uint64_t)POL_STAGES_MAX &&
        gw_archive_decode(value.data, value.size, &counts) == BASE_OK) {
        gw_tally_add_archived(load->core->tally, rollout_id, (uint32_t)stage % POL_STAGES_MAX,
                              stage < POL_STAGES_MAX ? GW_STANDING_COUNTED : GW_STANDING_UNPROVEN,
                              &counts);
    } else {
        load->corrupt++;
    }
    return true;
}

enum base_status gw_devices_load(struct gw_core *core, struct base_error *error)
{
    struct load load = {.core = core, .status = BASE_OK};
    struct gw_store_read *read;
    BASE_TRY(gw_store_read_begin(core->store, &read));
    struct gw_key from = gw_key_u64(0);
    enum base_status status = gw_store_read_scan(read, GW_TABLE_DEVICES, &from, load_device, &load);
    if (status == BASE_OK && load.status == BASE_OK) {
        status = gw_store_read_scan(read, GW_TABLE_PAST, &from, load_past, &load);
    }
    if (status == BASE_OK && load.status == BASE_OK) {
        status = gw_store_read_scan(read, GW_TABLE_OUTCOMES, &from, load_archive, &load);
    }
    gw_store_read_end(read);
    atomic_fetch_add_explicit(&core->records_corrupt, load.corrupt, memory_order_relaxed);
    if (status == BASE_OK) {
        status = load.status;
    }
    if (status != BASE_OK) {
        return base_error_set(error, status, "cannot load the devices: %s",
                              base_status_text(status));
    }
    return BASE_OK;
}

// ---- Views

static void view_outcome(struct gw_core *core, const struct gw_record_outcome *outcome,
                         struct gw_device_view *out)
{
    struct gw_device_outcome *to = &out->outcomes[out->outcome_count++];
    struct gw_tally_rollout known = {.shadow = false};
    (void)gw_tally_find(core->tally, outcome->rollout_id, &known);
    uint64_t id = known.shadow ? gw_shadow_key(outcome->rollout_id) : outcome->rollout_id;
    const struct gw_rollout *rollout = gw_catalog_find_rollout(core, id);
    *to = (struct gw_device_outcome){
        .rollout_id = id,
        .shadow = known.shadow,
        .fingerprint = outcome->fingerprint,
        .offered_s = outcome->offered_s,
        .updated_s = outcome->updated_s,
        .stage = outcome->stage,
        .tries = outcome->tries,
        .bits = outcome->bits,
        .last_kind = outcome->last_kind,
    };
    if (rollout != NULL) {
        to->task_id = rollout->release->task_id;
        to->version_id = rollout->release->version_id;
    }
}

static void view_memory(struct gw_core *core, const struct gw_device_snapshot *snapshot,
                        struct gw_device_view *out)
{
    size_t size;
    const uint8_t *attrs = gw_attr_pool_get(core->pool, snapshot->attrs_id, &size);
    if (attrs != NULL && size <= sizeof(out->attrs_bytes)) {
        memcpy(out->attrs_bytes, attrs, size);
        out->attrs_size = (uint32_t)size;
    }
    if (snapshot->last_seen_s > out->last_seen_s) {
        out->last_seen_s = snapshot->last_seen_s;
    }
    out->proven = out->proven || snapshot->proven;
    if (out->first_seen_s == 0) {
        out->first_seen_s = snapshot->first_seen_s;
    }
    for (uint32_t i = 0; i < snapshot->mark_count; i++) {
        uint64_t id = gw_tally_rollout_id(core->tally, snapshot->marks[i].rollout);
        bool known = id == 0;
        for (uint32_t k = 0; k < out->outcome_count; k++) {
            const struct gw_device_outcome *one = &out->outcomes[k];
            known = known || (one->shadow ? gw_shadow_key(one->rollout_id) : one->rollout_id) == id;
        }
        if (!known && out->outcome_count < GW_DEVICE_OUTCOMES_MAX) {
            struct gw_record_outcome outcome = {.rollout_id = id,
                                                .offered_s = snapshot->marks[i].offered_s,
                                                .updated_s = snapshot->marks[i].offered_s,
                                                .stage = snapshot->marks[i].stage,
                                                .bits = snapshot->marks[i].bits};
            view_outcome(core, &outcome, out);
        }
    }
}

static void view_device(struct gw_core *core, uint64_t device_id,
                        const struct gw_device_record *record, struct gw_device_view *out)
{
    memset(out, 0, sizeof(*out));
    out->device_id = device_id;
    out->tenant = gw_credentials_tenant(core->credentials, device_id);
    out->credential = (uint8_t)gw_credentials_state(core->credentials, device_id);
    if (record != NULL) {
        out->first_seen_s = record->first_seen_s;
        out->last_seen_s = record->last_seen_s;
        out->epoch = record->epoch;
        out->report_seq = record->report_seq;
        out->proven = record->proven;
        out->attrs_size = record->attrs_size;
        memcpy(out->attrs_bytes, record->attrs, record->attrs_size);
        for (uint32_t i = 0; i < record->outcome_count; i++) {
            view_outcome(core, &record->outcomes[i], out);
        }
    }
    struct gw_device_snapshot snapshot;
    if (gw_device_table_get(core->table, device_id, &snapshot)) {
        view_memory(core, &snapshot, out);
    }
    if (wire_attrs_parse(out->attrs_bytes, out->attrs_size, &out->attrs) != BASE_OK) {
        out->attrs.count = 0;
    }
}

void gw_device_failure(struct gw_core *core, const struct gw_device_outcome *outcome,
                       char out[WIRE_REPORT_DETAIL_MAX + 1])
{
    struct gw_cause cause;
    out[0] = '\0';
    if (outcome->fingerprint != 0 &&
        gw_cause_get(core, outcome->rollout_id, outcome->fingerprint, &cause) == BASE_OK) {
        memcpy(out, cause.detail, sizeof(cause.detail));
    }
}

enum base_status gw_device_get(struct gw_core *core, uint64_t device_id, struct gw_device_view *out)
{
    struct gw_store_read *read;
    BASE_TRY(gw_store_read_begin(core->store, &read));
    struct gw_key key = gw_key_u64(device_id);
    struct base_span value;
    struct gw_device_record record;
    enum base_status status = gw_store_read_get(read, GW_TABLE_DEVICES, &key, &value);
    if (status == BASE_OK) {
        status = gw_device_record_decode(value.data, value.size, &record);
    }
    gw_store_read_end(read);
    struct gw_device_snapshot snapshot;
    // Seen but not yet stored, or enrolled and never seen.
    bool known = gw_device_table_get(core->table, device_id, &snapshot) ||
                 gw_credentials_state(core->credentials, device_id) != GW_CREDENTIAL_NONE;
    if (status == BASE_ERR_NOT_FOUND && known) {
        view_device(core, device_id, NULL, out);
        return BASE_OK;
    }
    if (status == BASE_OK) {
        view_device(core, device_id, &record, out);
    }
    return status;
}

struct list {
    struct gw_core *core;
    struct gw_device_view *out;
    uint32_t limit;
    uint32_t count;
    bool more;
};

static bool list_device(void *ctx, struct base_span key, struct base_span value)
{
    struct list *list = ctx;
    uint64_t device_id;
    struct gw_device_record record;
    if (!gw_key_read_u64(key.data, key.size, 0, &device_id) ||
        gw_device_record_decode(value.data, value.size, &record) != BASE_OK) {
        return true;
    }
    if (list->count == list->limit) {
        list->more = true;
        return false;
    }
    view_device(list->core, device_id, &record, &list->out[list->count++]);
    return true;
}

enum base_status gw_device_list(struct gw_core *core, bool has_after, uint64_t after,
                                uint32_t limit, struct gw_device_view *out, uint32_t *out_count,
                                bool *out_more)
{
    *out_count = 0;
    *out_more = false;
    if (has_after && after == UINT64_MAX) {
        return BASE_OK;
    }
    struct list list = {
        .core = core, .out = out, .limit = limit < GW_PAGE_MAX ? limit : GW_PAGE_MAX};
    struct gw_key from = gw_key_u64(has_after ? after + 1 : 0);
    struct gw_store_read *read;
    BASE_TRY(gw_store_read_begin(core->store, &read));
    enum base_status status = gw_store_read_scan(read, GW_TABLE_DEVICES, &from, list_device, &list);
    gw_store_read_end(read);
    if (status == BASE_OK) {
        *out_count = list.count;
        *out_more = list.more;
    }
    return status;
}
