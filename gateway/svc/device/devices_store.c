// Devices between memory and store: loading at start, and the background flush.
// Control thread; the flush's apply runs on the writer thread while the control thread waits.
// control_thread.c has it flush at its ticks, core.c loads, api_devices.c and gateway/ddi ask for
// views. A flush takes a bounded number of devices, sorted by id so that neighbouring pages are
// written together; what cannot be written goes back and comes with the next. A damaged record is
// counted and left out.
#include "svc/device/devices_store.h"

#include "svc/device/causes.h"
#include "svc/device/past_outcomes.h"
#include "svc/device/record_edit.h"
#include "svc/access/credentials.h"
#include "svc/plan/attr_pool.h"
#include "svc/tally/tally.h"

#include <stdlib.h>
#include <string.h>

// ---- Background flush

struct gw_flush {
    struct gw_device_snapshot *devices; // GW_FLUSH_BATCH
    struct gw_tally_change *changes;
    uint32_t done_s; // what was marked before this second is in the store
};

enum base_status gw_flush_new(struct gw_flush **out_flush)
{
    struct gw_flush *flush = calloc(1, sizeof(*flush));
    if (flush == NULL) {
        return BASE_ERR_NOMEM;
    }
    flush->devices = malloc(GW_FLUSH_BATCH * sizeof(flush->devices[0]));
    flush->changes =
        malloc((size_t)GW_FLUSH_BATCH * GW_RECORD_MERGE_CHANGES * sizeof(flush->changes[0]));
    if (flush->devices == NULL || flush->changes == NULL) {
        gw_flush_free(flush);
        return BASE_ERR_NOMEM;
    }
    *out_flush = flush;
    return BASE_OK;
}

void gw_flush_free(struct gw_flush *flush)
{
    if (flush != NULL) {
        free(flush->devices);
        free(flush->changes);
        free(flush);
    }
}

uint32_t gw_flush_done_s(const struct gw_flush *flush)
{
    return flush->done_s;
}

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
            .changes = flush->core->flush->changes + flush->change_count,
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
    struct gw_flush *buffers = core->flush;
    uint32_t begun_s = gw_core_now_s(core);
    if (gw_device_table_dirty(core->table) == 0) {
        buffers->done_s = begun_s;
        return 0;
    }
    struct flush_op flush = {.core = core, .devices = buffers->devices};
    flush.count = gw_device_table_take_dirty(core->table, buffers->devices, GW_FLUSH_BATCH);
    if (flush.count == 0) {
        buffers->done_s = begun_s;
        return 0;
    }
    qsort(buffers->devices, flush.count, sizeof(buffers->devices[0]), compare_devices);
    flush.op.apply = apply_flush;
    flush.op.sort_key = buffers->devices[0].device_id;
    enum base_status status = gw_store_submit_wait(core->store, &flush.op);
    if (status != BASE_OK) {
        gw_device_table_put_back(core->table, buffers->devices, flush.count);
        return 0; // later
    }
    gw_tally_apply(core->tally, buffers->changes, flush.change_count);
    if (flush.count < GW_FLUSH_BATCH) {
        buffers->done_s = begun_s;
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
    const struct gw_attr_bringer store = {.proven = record.proven};
    snapshot.attrs_id = gw_attr_pool_intern(core->pool, record.attrs, record.attrs_size, &store);
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
    enum base_status status = gw_store_read_all(read, GW_TABLE_DEVICES, load_device, &load);
    if (status == BASE_OK && load.status == BASE_OK) {
        status = gw_store_read_scan(read, GW_TABLE_PAST, &from, load_past, &load);
    }
    if (status == BASE_OK && load.status == BASE_OK) {
        status = gw_store_read_scan(read, GW_TABLE_OUTCOMES, &from, load_archive, &load);
    }
    gw_store_read_end(read);
    atomic_fetch_add_explicit(&core->reports.records_corrupt, load.corrupt, memory_order_relaxed);
    if (status == BASE_OK) {
        status = load.status;
    }
    if (status != BASE_OK) {
        return base_error_set(error, status, "cannot load the devices: %s",
                              base_status_text(status));
    }
    return BASE_OK;
}
