// Texts of failures in the store. Writer thread (keeping), start (loading), control thread (looking
// up). report_intake.c keeps the first text of a fingerprint in the transaction of its report,
// core.c loads all at start, devices_store.c, why.c and told_facts.c look one up. A row that cannot
// be read is counted and left out: only its words are lost.
#include "svc/device/causes.h"

#include "base/cursor.h"

#include <string.h>

#define CAUSE_VERSION   1
#define CAUSE_BYTES_MAX (3 + WIRE_REPORT_DETAIL_MAX)

static enum base_status decode(struct base_span value, struct gw_cause *out)
{
    struct base_reader reader;
    memset(out, 0, sizeof(*out));
    base_reader_init(&reader, value.data, value.size);
    uint8_t version = base_reader_u8(&reader);
    out->kind = base_reader_u8(&reader);
    size_t size = base_reader_u8(&reader);
    if (version != CAUSE_VERSION || size > WIRE_REPORT_DETAIL_MAX) {
        return BASE_ERR_CORRUPT;
    }
    base_reader_copy(&reader, out->detail, size);
    return base_reader_finish(&reader) == BASE_OK ? BASE_OK : BASE_ERR_CORRUPT;
}

enum base_status gw_cause_keep(struct gw_core *core, struct gw_store_txn *txn, uint64_t rollout_id,
                               const struct wire_outcome *said)
{
    if (said->detail.size == 0 ||
        gw_tally_knows_cause(core->tally, rollout_id, said->fingerprint)) {
        return BASE_OK;
    }
    uint8_t row[CAUSE_BYTES_MAX];
    struct base_writer writer;
    size_t size =
        said->detail.size < WIRE_REPORT_DETAIL_MAX ? said->detail.size : WIRE_REPORT_DETAIL_MAX;
    struct gw_key key = gw_key_u64_u64(rollout_id, said->fingerprint);
    base_writer_init(&writer, row, sizeof(row));
    base_writer_u8(&writer, CAUSE_VERSION);
    base_writer_u8(&writer, (uint8_t)said->kind);
    base_writer_u8(&writer, (uint8_t)size);
    base_writer_bytes(&writer, said->detail.data, size);
    return gw_store_txn_put(txn, GW_TABLE_CAUSES, &key, row, base_writer_size(&writer));
}

static bool load_cause(void *ctx, struct base_span key, struct base_span value)
{
    struct gw_core *core = ctx;
    uint64_t rollout_id;
    uint64_t fingerprint;
    struct gw_cause cause;
    if (gw_key_read_u64(key.data, key.size, 0, &rollout_id) &&
        gw_key_read_u64(key.data, key.size, 1, &fingerprint) && decode(value, &cause) == BASE_OK) {
        gw_tally_name_cause(core->tally, rollout_id, fingerprint, cause.kind,
                            base_str_of(cause.detail));
    } else {
        atomic_fetch_add_explicit(&core->records_corrupt, 1, memory_order_relaxed);
    }
    return true;
}

enum base_status gw_causes_load(struct gw_core *core, struct base_error *error)
{
    struct gw_key from = gw_key_u64(0);
    struct gw_store_read *read;
    BASE_TRY(gw_store_read_begin(core->store, &read));
    enum base_status status = gw_store_read_scan(read, GW_TABLE_CAUSES, &from, load_cause, core);
    gw_store_read_end(read);
    return status == BASE_OK ? BASE_OK
                             : base_error_set(error, status, "cannot load the causes: %s",
                                              base_status_text(status));
}

enum base_status gw_cause_get(struct gw_core *core, uint64_t rollout_id, uint64_t fingerprint,
                              struct gw_cause *out)
{
    struct gw_key key = gw_key_u64_u64(rollout_id, fingerprint);
    struct gw_store_read *read;
    struct base_span value;
    BASE_TRY(gw_store_read_begin(core->store, &read));
    enum base_status status = gw_store_read_get(read, GW_TABLE_CAUSES, &key, &value);
    if (status == BASE_OK) {
        status = decode(value, out);
    }
    gw_store_read_end(read);
    return status;
}
