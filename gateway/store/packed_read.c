// Reading packed device records, from any thread: one by its id, in the order of ids, or all as
// they lie. See store_packed.h for what a snapshot and the index may say differently. Called by
// store_read.c and, for scans within a transaction, by store_writer.c.
#include "store/store_private.h"

#include "base/check.h"
#include "base/record_seal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

// A copy of what the read's own snapshot does not have.
struct gw_lent {
    struct gw_lent *next;
    uint8_t bytes[];
};

uint64_t gw_packed_row_of(struct gw_packed *packed, uint64_t id)
{
    pthread_rwlock_rdlock(&packed->lock);
    uint64_t row = gw_row_index_get(&packed->index, id);
    pthread_rwlock_unlock(&packed->lock);
    return row;
}

uint64_t gw_packed_count(struct gw_packed *packed)
{
    pthread_rwlock_rdlock(&packed->lock);
    uint64_t count = packed->index.count;
    pthread_rwlock_unlock(&packed->lock);
    return count;
}

static void give_back(struct gw_store_read *read, const struct gw_lent *until)
{
    while (read->lent != until) {
        struct gw_lent *lent = read->lent;
        base_assert(lent != NULL);
        read->lent = lent->next;
        free(lent);
    }
}

void gw_packed_read_done(struct gw_store_read *read)
{
    give_back(read, NULL);
}

static enum base_status lend_copy(struct gw_store_read *read, struct base_span *bytes)
{
    struct gw_lent *lent = malloc(sizeof(*lent) + bytes->size);
    if (lent == NULL) {
        return BASE_ERR_NOMEM;
    }
    memcpy(lent->bytes, bytes->data, bytes->size);
    lent->next = read->lent;
    read->lent = lent;
    bytes->data = lent->bytes;
    return BASE_OK;
}

static int get_row(struct gw_store_read *read, const struct gw_key *key, MDB_val *out)
{
    MDB_val k = {key->size, (void *)(uintptr_t)key->bytes};
    return mdb_get(read->txn, read->store->tables[GW_TABLE_DEVICES], &k, out);
}

// In a snapshot that begins under the index's lock: it is of the commit that the index is of, or of
// the next, and neither has removed the row.
static enum base_status read_now(struct gw_store_read *read, uint64_t id, struct base_span *out)
{
    struct gw_store *store = read->store;
    struct gw_store_read *now = NULL;
    pthread_rwlock_rdlock(&store->packed.lock);
    int rc = gw_store_pool_take(store, &now);
    uint64_t row = gw_row_index_get(&store->packed.index, id);
    pthread_rwlock_unlock(&store->packed.lock);
    if (rc != 0) {
        return gw_store_status(rc);
    }
    struct gw_key key = gw_packed_key((struct gw_packed_place){row, id});
    MDB_val value;
    rc = row == 0 ? MDB_NOTFOUND : get_row(now, &key, &value);
    if (rc == MDB_NOTFOUND && row != 0) { // its key is damaged
        gw_store_note_damage(store, GW_TABLE_DEVICES, (MDB_val){key.size, key.bytes});
    }
    enum base_status status = gw_store_status(rc);
    if (status == BASE_OK) {
        struct base_span bytes;
        status = gw_packed_value(store, &key, value, &bytes);
        if (status == BASE_OK) {
            status = lend_copy(read, &bytes);
        }
        if (status == BASE_OK) {
            *out = bytes;
        }
    }
    gw_store_pool_return(now);
    return status;
}

enum base_status gw_packed_read(struct gw_store_read *read, uint64_t id, struct base_span *out)
{
    struct gw_store *store = read->store;
    uint64_t row = gw_packed_row_of(&store->packed, id);
    if (row == 0) {
        return BASE_ERR_NOT_FOUND;
    }
    struct gw_key key = gw_packed_key((struct gw_packed_place){row, id});
    MDB_val value;
    int rc = get_row(read, &key, &value);
    if (rc == MDB_NOTFOUND) {
        return read_now(read, id, out);
    }
    return rc == 0 ? gw_packed_value(store, &key, value, out) : gw_store_status(rc);
}

// ---- Walks

// An id that is listed, without a record: deleted since, or one whose key is damaged.
static void note_listed(struct gw_store *store, MDB_val key, MDB_val value)
{
    struct base_span bytes;
    if (base_record_unseal(gw_table_name(GW_TABLE_DEVICE_IDS),
                           (struct base_span){key.mv_data, key.mv_size},
                           (struct base_span){value.mv_data, value.mv_size}, &bytes) != BASE_OK) {
        gw_store_note_damage(store, GW_TABLE_DEVICE_IDS, key);
    }
}

// Where a walk gets its records from: one of the two.
struct source {
    struct gw_store *store;
    struct gw_store_read *read;
    struct gw_store_txn *txn;
};

static enum base_status scan_one(const struct source *source, MDB_val k, MDB_val v,
                                 struct base_span *out)
{
    uint64_t id;
    if (!gw_key_read_u64(k.mv_data, k.mv_size, 0, &id)) {
        note_listed(source->store, k, v);
        return BASE_ERR_NOT_FOUND;
    }
    enum base_status status = source->txn != NULL ? gw_packed_get(source->txn, id, out)
                                                  : gw_packed_read(source->read, id, out);
    if (status == BASE_ERR_NOT_FOUND) {
        note_listed(source->store, k, v);
    }
    return status;
}

static enum base_status scan(const struct source *source, const struct gw_key *from,
                             struct gw_store_visitor visitor)
{
    struct gw_store *store = source->store;
    MDB_txn *txn = source->txn != NULL ? source->txn->txn : source->read->txn;
    MDB_cursor *cursor = NULL;
    MDB_val k = {from->size, (void *)(uintptr_t)from->bytes};
    MDB_val v;
    base_assert(from->size > 0 && from->size <= sizeof(from->bytes));
    base_assert((source->txn == NULL) != (source->read == NULL));
    int rc = mdb_cursor_open(txn, store->tables[GW_TABLE_DEVICE_IDS], &cursor);
    if (rc != 0) {
        return gw_store_status(rc);
    }
    rc = mdb_cursor_get(cursor, &k, &v, MDB_SET_RANGE);
    enum base_status status = BASE_OK;
    bool more = true;
    while (rc == 0 && more && status == BASE_OK) {
        const struct gw_lent *before = source->read != NULL ? source->read->lent : NULL;
        struct base_span value;
        status = scan_one(source, k, v, &value);
        if (status == BASE_OK) {
            more = visitor.visit(visitor.ctx, (struct base_span){k.mv_data, k.mv_size}, value);
        }
        status = status == BASE_ERR_NOT_FOUND ? BASE_OK : status;
        if (source->read != NULL) {
            give_back(source->read, before);
        }
        rc = mdb_cursor_get(cursor, &k, &v, MDB_NEXT);
    }
    mdb_cursor_close(cursor);
    return rc == MDB_NOTFOUND || rc == 0 || status != BASE_OK ? status : gw_store_status(rc);
}

enum base_status gw_packed_scan(struct gw_store_read *read, const struct gw_key *from,
                                struct gw_store_visitor visitor)
{
    const struct source source = {.store = read->store, .read = read};
    return scan(&source, from, visitor);
}

enum base_status gw_packed_txn_scan(struct gw_store_txn *txn, const struct gw_key *from,
                                    struct gw_store_visitor visitor)
{
    const struct source source = {.store = txn->store, .txn = txn};
    return scan(&source, from, visitor);
}

enum base_status gw_packed_read_all(struct gw_store_read *read, struct gw_store_visitor visitor)
{
    struct gw_store *store = read->store;
    MDB_cursor *cursor = NULL;
    MDB_val k;
    MDB_val v;
    bool more = true;
    int rc = mdb_cursor_open(read->txn, store->tables[GW_TABLE_DEVICES], &cursor);
    base_assert(rc != 0 || cursor != NULL);
    while (more && rc == 0 && (rc = mdb_cursor_get(cursor, &k, &v, MDB_NEXT)) == 0) {
        struct gw_packed_place place;
        struct base_span value;
        if (!gw_packed_key_read(k, &place) || place.row == 0 ||
            gw_packed_row_of(&store->packed, place.id) != place.row) {
            continue;
        }
        struct gw_key row = gw_packed_key(place);
        struct gw_key id = gw_key_u64(place.id);
        if (gw_packed_value(store, &row, v, &value) == BASE_OK) {
            more = visitor.visit(visitor.ctx, (struct base_span){id.bytes, id.size}, value);
        }
    }
    mdb_cursor_close(cursor);
    return rc == MDB_NOTFOUND ? BASE_OK : gw_store_status(rc);
}
