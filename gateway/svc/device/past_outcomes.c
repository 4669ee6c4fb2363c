// Rows of past outcomes in the store: see past_outcomes.h. record_edit.c moves an outcome here and
// back, report_intake.c asks for all of a device's, both on the writer thread within its
// transaction; devices_store.c decodes them at start. A row that cannot be read is as none. An
// outcome is in the record or here and never in both, so a device is counted once.
#include "svc/device/past_outcomes.h"

#include "base/cursor.h"

#define PAST_VERSION   1
#define PAST_BYTES_MAX (1 + GW_RECORD_OUTCOME_BYTES_MAX)

enum base_status gw_past_put(struct gw_store_txn *txn, uint64_t device_id,
                             const struct gw_record_outcome *outcome)
{
    uint8_t row[PAST_BYTES_MAX];
    struct base_writer writer;
    struct gw_key key = gw_key_u64_u64(device_id, outcome->rollout_id);
    base_writer_init(&writer, row, sizeof(row));
    base_writer_u8(&writer, PAST_VERSION);
    gw_record_outcome_write(&writer, outcome);
    return gw_store_txn_put(txn, GW_TABLE_PAST, &key, row, base_writer_size(&writer));
}

enum base_status gw_past_decode(struct base_span key, struct base_span value,
                                uint64_t *out_device_id, struct gw_record_outcome *out)
{
    struct base_reader reader;
    uint64_t rollout_id;
    base_reader_init(&reader, value.data, value.size);
    uint8_t version = base_reader_u8(&reader);
    bool whole = gw_record_outcome_read(&reader, out) == BASE_OK &&
                 base_reader_finish(&reader) == BASE_OK && version == PAST_VERSION;
    return whole && gw_key_read_u64(key.data, key.size, 0, out_device_id) &&
                   gw_key_read_u64(key.data, key.size, 1, &rollout_id) &&
                   rollout_id == out->rollout_id
               ? BASE_OK
               : BASE_ERR_CORRUPT;
}

enum base_status gw_past_get(struct gw_store_txn *txn, uint64_t device_id, uint64_t rollout_id,
                             struct gw_record_outcome *out)
{
    struct gw_key key = gw_key_u64_u64(device_id, rollout_id);
    struct base_span value;
    uint64_t of_device;
    BASE_TRY(gw_store_txn_get(txn, GW_TABLE_PAST, &key, &value));
    return gw_past_decode((struct base_span){key.bytes, key.size}, value, &of_device, out) ==
                   BASE_OK
               ? BASE_OK
               : BASE_ERR_NOT_FOUND;
}

enum base_status gw_past_delete(struct gw_store_txn *txn, uint64_t device_id, uint64_t rollout_id)
{
    struct gw_key key = gw_key_u64_u64(device_id, rollout_id);
    return gw_store_txn_delete(txn, GW_TABLE_PAST, &key);
}

struct each {
    uint64_t device_id;
    gw_past_visit_fn visit;
    void *ctx;
};

static bool visit_row(void *ctx, struct base_span key, struct base_span value)
{
    struct each *each = ctx;
    struct gw_record_outcome outcome;
    uint64_t device_id;
    if (!gw_key_read_u64(key.data, key.size, 0, &device_id) || device_id != each->device_id) {
        return false;
    }
    return gw_past_decode(key, value, &device_id, &outcome) != BASE_OK ||
           each->visit(each->ctx, &outcome);
}

enum base_status gw_past_each(struct gw_store_txn *txn, uint64_t device_id, gw_past_visit_fn visit,
                              void *ctx)
{
    struct each each = {.device_id = device_id, .visit = visit, .ctx = ctx};
    struct gw_key from = gw_key_u64(device_id);
    return gw_store_txn_scan(txn, GW_TABLE_PAST, &from, visit_row, &each);
}
