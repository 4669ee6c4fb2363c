// See model_rows.h. Called by infer/release on the background thread and on its own, and at the
// start on the main one. A row's key is the hash of the model's name, which may be longer than a
// key. Files are kept as content that one holder brought, which is no tenant.
#include "svc/content/model_rows.h"

#include "base/check.h"
#include "svc/core_private.h"

#include <stdlib.h>
#include <string.h>

#define MODELS_HOLDER 0x10000u // tenants are of 16 bits

struct row_op {
    struct gw_store_op op; // first
    struct gw_key key;
    struct base_str row; // data NULL: it is deleted
};
_Static_assert(offsetof(struct row_op, op) == 0, "row_apply casts");

static struct gw_key key_of(struct base_str model)
{
    struct wire_sha256 digest;
    gw_sha256(model.data, model.size, &digest);
    return gw_key_sha(&digest);
}

static enum base_status row_apply(struct gw_store_txn *txn, struct gw_store_op *self)
{
    const struct row_op *op = (struct row_op *)self;
    return op->row.data != NULL
               ? gw_store_txn_put(txn, GW_TABLE_MODELS, &op->key, op->row.data, op->row.size)
               : gw_store_txn_delete(txn, GW_TABLE_MODELS, &op->key);
}

static enum base_status write_row(struct gw_core *core, struct base_str model, struct base_str row)
{
    struct row_op op = {.key = key_of(model), .row = row};
    op.op.apply = row_apply;
    op.op.urgent = true;
    return gw_store_submit_wait(core->store, &op.op);
}

enum base_status gw_model_row_put(struct gw_core *core, struct base_str model, struct base_str row)
{
    base_assert(row.data != NULL);
    return row.size <= GW_MODEL_ROW_MAX ? write_row(core, model, row) : BASE_ERR_TOO_LARGE;
}

enum base_status gw_model_row_delete(struct gw_core *core, struct base_str model)
{
    return write_row(core, model, (struct base_str){NULL, 0});
}

struct each {
    bool (*visit)(void *ctx, struct base_str row);
    void *ctx;
};

static bool visit_row(void *ctx, struct base_span key, struct base_span value)
{
    const struct each *each = ctx;
    (void)key;
    return each->visit(each->ctx, (struct base_str){(const char *)value.data, value.size});
}

enum base_status gw_model_rows_each(struct gw_core *core,
                                    bool (*visit)(void *ctx, struct base_str row), void *ctx)
{
    struct each each = {visit, ctx};
    struct gw_store_read *read = NULL;
    BASE_TRY(gw_store_read_begin(core->store, &read));
    enum base_status status = gw_store_read_all(read, GW_TABLE_MODELS, visit_row, &each);
    gw_store_read_end(read);
    return status;
}

enum base_status gw_model_file_put(struct gw_core *core, struct base_span file,
                                   struct wire_sha256 *out_digest)
{
    struct gw_store_item item = {.bytes = file.data, .size = file.size};
    bool created = false;
    gw_sha256(file.data, file.size, &item.digest);
    BASE_TRY(gw_store_blob_put_exclusive(core->store, MODELS_HOLDER, &item, &created));
    *out_digest = item.digest;
    return BASE_OK;
}

enum base_status gw_model_file_drop(struct gw_core *core, const struct wire_sha256 *digest)
{
    return gw_store_blob_drop(core->store, MODELS_HOLDER, digest);
}

struct sweep {
    bool (*wanted)(void *ctx, const struct wire_sha256 *digest);
    void *ctx;
    struct wire_sha256 digest; // one that is not
    bool found;
};

static bool sweep_look(void *self, const struct wire_sha256 *digest)
{
    struct sweep *sweep = self;
    sweep->digest = *digest;
    sweep->found = !sweep->wanted(sweep->ctx, digest);
    return !sweep->found;
}

enum base_status gw_model_files_sweep(struct gw_core *core,
                                      bool (*wanted)(void *ctx, const struct wire_sha256 *digest),
                                      void *ctx, uint32_t *out_dropped)
{
    struct sweep sweep = {.wanted = wanted, .ctx = ctx, .found = true};
    *out_dropped = 0;
    while (sweep.found) {
        sweep.found = false;
        BASE_TRY(gw_store_blobs_held(core->store, MODELS_HOLDER, sweep_look, &sweep));
        if (sweep.found) {
            BASE_TRY(gw_model_file_drop(core, &sweep.digest));
            (*out_dropped)++;
        }
    }
    return BASE_OK;
}

enum base_status gw_model_file_load(struct gw_core *core, const struct wire_sha256 *digest,
                                    struct base_span *out_file)
{
    struct gw_store_bytes bytes;
    BASE_TRY(gw_store_blob_load(core->store, digest, &bytes));
    void *copy = malloc(bytes.size > 0 ? bytes.size : 1);
    if (copy != NULL) {
        memcpy(copy, bytes.data, bytes.size);
        *out_file = (struct base_span){copy, bytes.size};
    }
    gw_store_bytes_done(&bytes);
    return copy != NULL ? BASE_OK : BASE_ERR_NOMEM;
}
