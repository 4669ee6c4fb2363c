// Texts of failures in the store. Writer thread (keeping), start (loading), control thread (looking
// up). report_intake.c keeps the first text of a fingerprint in the transaction of its report,
// core.c loads all at start, devices_store.c, why.c and told_facts.c look one up. A row that cannot
// be read is counted and left out: only its words are lost.
#include "svc/device/causes.h"
#include "svc/tally/tally.h"

#include "base/cursor.h"

#include <string.h>

#define CAUSE_VERSION   1
#define CAUSE_ASIDE     2 // version of a text that no device failed for good with
#define CAUSE_BYTES_MAX (3 + WIRE_REPORT_DETAIL_MAX)

static enum base_status decode(struct base_span value, struct gw_cause *out, bool *out_aside)
{
    struct base_reader reader;
    memset(out, 0, sizeof(*out));
    base_reader_init(&reader, value.data, value.size);
    uint8_t version = base_reader_u8(&reader);
    out->kind = base_reader_u8(&reader);
    size_t size = base_reader_u8(&reader);
    *out_aside = version == CAUSE_ASIDE;
    if ((version != CAUSE_VERSION && version != CAUSE_ASIDE) || size > WIRE_REPORT_DETAIL_MAX) {
        return BASE_ERR_CORRUPT;
    }
    base_reader_copy(&reader, out->detail, size);
    return base_reader_finish(&reader) == BASE_OK ? BASE_OK : BASE_ERR_CORRUPT;
}

static enum base_status put(struct gw_store_txn *txn, const struct gw_key *key,
                            const struct wire_outcome *said, bool failed)
{
    uint8_t row[CAUSE_BYTES_MAX];
    struct base_writer writer;
    size_t size =
        said->detail.size < WIRE_REPORT_DETAIL_MAX ? said->detail.size : WIRE_REPORT_DETAIL_MAX;
    base_writer_init(&writer, row, sizeof(row));
    base_writer_u8(&writer, failed ? CAUSE_VERSION : CAUSE_ASIDE);
    base_writer_u8(&writer, (uint8_t)said->kind);
    base_writer_u8(&writer, (uint8_t)size);
    base_writer_bytes(&writer, said->detail.data, size);
    return gw_store_txn_put(txn, GW_TABLE_CAUSES, key, row, base_writer_size(&writer));
}

enum base_status gw_cause_keep(struct gw_core *core, struct gw_store_txn *txn, uint64_t rollout_id,
                               const struct wire_outcome *said, bool failed)
{
    if (said->detail.size == 0 ||
        gw_tally_knows_cause(core->tally, rollout_id, said->fingerprint)) {
        return BASE_OK;
    }
    struct gw_key key = gw_key_u64_u64(rollout_id, said->fingerprint);
    struct base_span value;
    struct gw_cause kept;
    bool aside = false;
    enum base_status status = gw_store_txn_get(txn, GW_TABLE_CAUSES, &key, &value);
    if (status != BASE_OK && status != BASE_ERR_NOT_FOUND) {
        return status;
    }
    bool here = status == BASE_OK && decode(value, &kept, &aside) == BASE_OK;
    bool wanted = here ? failed && aside : failed || gw_tally_keeps_aside(core->tally, rollout_id);
    return wanted ? put(txn, &key, said, failed) : BASE_OK;
}

static bool load_cause(void *ctx, struct base_span key, struct base_span value)
{
    struct gw_core *core = ctx;
    uint64_t rollout_id;
    uint64_t fingerprint;
    struct gw_cause cause;
    bool aside;
    if (gw_key_read_u64(key.data, key.size, 0, &rollout_id) &&
        gw_key_read_u64(key.data, key.size, 1, &fingerprint) &&
        decode(value, &cause, &aside) == BASE_OK) {
        if (aside) {
            (void)gw_tally_keeps_aside(core->tally, rollout_id);
        } else {
            gw_tally_name_cause(core->tally, rollout_id, fingerprint, cause.kind,
                                base_str_of(cause.detail));
        }
    } else {
        atomic_fetch_add_explicit(&core->reports.records_corrupt, 1, memory_order_relaxed);
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
    bool aside;
    BASE_TRY(gw_store_read_begin(core->store, &read));
    enum base_status status = gw_store_read_get(read, GW_TABLE_CAUSES, &key, &value);
    if (status == BASE_OK) {
        status = decode(value, out, &aside);
    }
    gw_store_read_end(read);
    return status;
}
