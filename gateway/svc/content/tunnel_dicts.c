// See tunnel_dicts.h. The catalog learns one on the control thread when a version is registered;
// the tunnel reads through tunnel_seam.c on a thread that may wait, its keeper's or the background
// thread, and never on a worker. A version that is pushed again changes nothing: rows are found by
// the dictionary's id and never deleted, since devices may hold batches that were compressed with
// an old one.
#include "svc/content/tunnel_dicts.h"

#include "base/cursor.h"
#include "svc/access/audit.h"
#include "svc/core_private.h"

#include <string.h>

#define ROW_VERSION 1
#define ROW_BYTES   (1 + 8 + 4 + WIRE_SHA256_BYTES)

struct learn_op {
    struct gw_store_op op;
    struct gw_key key;
    uint8_t row[ROW_BYTES];
};

static enum base_status decode(uint32_t id, struct base_span row, struct gw_tunnel_dict *out)
{
    struct base_reader reader;
    struct gw_tunnel_dict dict = {.id = id};
    base_reader_init(&reader, row.data, row.size);
    uint8_t version = base_reader_u8(&reader);
    dict.created_s = base_reader_u64(&reader);
    dict.bytes = base_reader_u32(&reader);
    base_reader_copy(&reader, dict.digest.bytes, WIRE_SHA256_BYTES);
    if (base_reader_finish(&reader) != BASE_OK || version != ROW_VERSION) {
        return BASE_ERR_CORRUPT;
    }
    *out = dict;
    return BASE_OK;
}

// The first version that brings a dictionary names its age.
static enum base_status learn_apply(struct gw_store_txn *txn, struct gw_store_op *self)
{
    const struct learn_op *learn = (struct learn_op *)self;
    struct base_span have;
    enum base_status status = gw_store_txn_get(txn, GW_TABLE_TUNNEL_DICTS, &learn->key, &have);
    if (status == BASE_OK) {
        const size_t digest_at = ROW_BYTES - WIRE_SHA256_BYTES;
        bool same = have.size == ROW_BYTES &&
                    memcmp(have.data + digest_at, learn->row + digest_at, WIRE_SHA256_BYTES) == 0;
        return same ? BASE_OK : BASE_ERR_CONFLICT;
    }
    return status != BASE_ERR_NOT_FOUND
               ? status
               : gw_store_txn_put(txn, GW_TABLE_TUNNEL_DICTS, &learn->key, learn->row, ROW_BYTES);
}

static enum base_status check(struct gw_core *core, const struct wire_manifest_file *file,
                              struct base_error *error)
{
    struct gw_store_bytes bytes;
    if (file->bytes > WIRE_TUNNEL_DICT_BYTES_MAX) {
        return base_error_set(error, BASE_ERR_TOO_LARGE,
                              WIRE_TUNNEL_DICT_FILE ": %llu bytes; at most %d",
                              (unsigned long long)file->bytes, WIRE_TUNNEL_DICT_BYTES_MAX);
    }
    BASE_TRY(gw_store_blob_load(core->store, &file->digest, &bytes));
    bool ok =
        wire_tunnel_dict_ok(bytes.data, bytes.size) && wire_tunnel_dict_id(&file->digest) != 0;
    gw_store_bytes_done(&bytes);
    return ok ? BASE_OK
              : base_error_set(error, BASE_ERR_INVALID,
                               WIRE_TUNNEL_DICT_FILE
                               ": not a trained zstd dictionary; make it with walle tunnel train");
}

enum base_status gw_tunnel_dicts_learn(struct gw_core *core, const struct wire_manifest *manifest,
                                       struct base_error *error)
{
    for (uint32_t i = 0; i < manifest->file_count; i++) {
        const struct wire_manifest_file *file = &manifest->files[i];
        if (file->kind != WIRE_FILE_DATA ||
            !base_str_equal(file->name, BASE_STR(WIRE_TUNNEL_DICT_FILE))) {
            continue;
        }
        BASE_TRY(check(core, file, error));
        struct learn_op learn = {.key = gw_key_u64(wire_tunnel_dict_id(&file->digest))};
        struct base_writer writer;
        base_writer_init(&writer, learn.row, sizeof(learn.row));
        base_writer_u8(&writer, ROW_VERSION);
        base_writer_u64(&writer, gw_core_now_s(core));
        base_writer_u32(&writer, (uint32_t)file->bytes);
        base_writer_bytes(&writer, file->digest.bytes, WIRE_SHA256_BYTES);
        learn.op.apply = learn_apply;
        enum base_status status = gw_audit_submit_wait(core, &learn.op);
        if (status == BASE_ERR_CONFLICT) {
            return base_error_set(error, status,
                                  WIRE_TUNNEL_DICT_FILE ": another dictionary has its id %08x; "
                                                        "train with other samples",
                                  wire_tunnel_dict_id(&file->digest));
        }
        return status;
    }
    return BASE_OK;
}

enum base_status gw_tunnel_dicts_find(struct gw_store *store, uint32_t id,
                                      struct gw_tunnel_dict *out)
{
    struct gw_store_read *read;
    struct base_span row;
    struct gw_key key = gw_key_u64(id);
    BASE_TRY(gw_store_read_begin(store, &read));
    enum base_status status = gw_store_read_get(read, GW_TABLE_TUNNEL_DICTS, &key, &row);
    status = status == BASE_OK ? decode(id, row, out) : status;
    gw_store_read_end(read);
    return status;
}

enum base_status gw_tunnel_dicts_load(struct gw_store *store, uint32_t id,
                                      struct gw_store_bytes *out)
{
    struct gw_tunnel_dict dict;
    BASE_TRY(gw_tunnel_dicts_find(store, id, &dict));
    return gw_store_blob_load(store, &dict.digest, out);
}
