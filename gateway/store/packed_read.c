// Reading packed device records, from any thread: one by its id, in the order of ids, or all as
// they lie. See store_packed.h for what a snapshot and the index may say differently. Called by
// store_read.c and, for scans within a transaction, by store_writer.c.
#include "store/store_private.h"

#include "base/check.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

// A copy of what the read's own snapshot does not have.
struct gw_lent {
    struct gw_lent *next;
    uint8_t bytes[];
};

uint64_t gw_packed_place_of(struct gw_packed *packed, uint64_t id)
{
    pthread_rwlock_rdlock(&packed->lock);
    uint64_t place = gw_id_rows_get(&packed->last, id);
    pthread_rwlock_unlock(&packed->lock);
    return place;
}

uint64_t gw_packed_count(struct gw_packed *packed)
{
    pthread_rwlock_rdlock(&packed->lock);
    uint64_t count = packed->last.count;
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

// Bytes that do not lie in the read's own snapshot.
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

static int get_block(struct gw_store_read *read, uint64_t place, MDB_val *out)
{
    struct gw_key key = gw_block_key(gw_block_of(place));
    MDB_val k = {key.size, key.bytes};
    base_assert(place != 0);
    return mdb_get(read->txn, read->store->tables[GW_TABLE_DEVICES], &k, out);
}

// In a snapshot that begins under the index's lock: it is of the commit that the index is of, or of
// the next, and neither has removed the block.
static enum base_status read_now(struct gw_store_read *read, uint64_t id, struct base_span *out)
{
    struct gw_store *store = read->store;
    struct gw_store_read *now = NULL;
    struct gw_block_room room;
    base_assert(read->txn != NULL); // its gate is held
    pthread_rwlock_rdlock(&store->packed.lock);
    int rc = gw_store_pool_take(store, &now);
    const struct gw_packed_of of = {gw_id_rows_get(&store->packed.last, id), id};
    pthread_rwlock_unlock(&store->packed.lock);
    if (rc != 0) {
        return gw_store_status(rc);
    }
    MDB_val value;
    rc = of.place == 0 ? MDB_NOTFOUND : get_block(now, of.place, &value);
    if (rc == MDB_NOTFOUND && of.place != 0) { // its key is damaged
        struct gw_key key = gw_block_key(gw_block_of(of.place));
        gw_store_note_damage(store, GW_TABLE_DEVICES, (MDB_val){key.size, key.bytes});
    }
    enum base_status status = gw_store_status(rc);
    if (status == BASE_OK) {
        struct base_span bytes;
        status = gw_packed_value(store, of, value, &room, &bytes);
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
    base_assert(read->txn != NULL);
    const struct gw_packed_of of = {gw_packed_place_of(&store->packed, id), id};
    if (of.place == 0) {
        return BASE_ERR_NOT_FOUND;
    }
    MDB_val value;
    int rc = get_block(read, of.place, &value);
    if (rc == MDB_NOTFOUND) {
        return read_now(read, id, out);
    }
    if (rc != 0) {
        return gw_store_status(rc);
    }
    struct gw_block_room room;
    struct base_span bytes;
    BASE_TRY(gw_packed_value(store, of, value, &room, &bytes));
    if (bytes.data == room.bytes) {
        BASE_TRY(lend_copy(read, &bytes));
    }
    *out = bytes;
    return BASE_OK;
}

// ---- Walks

void gw_packed_ids(struct gw_packed *packed, uint64_t from, struct gw_id_chunk *out)
{
    pthread_rwlock_rdlock(&packed->lock);
    gw_id_rows_next(&packed->last, from, out);
    pthread_rwlock_unlock(&packed->lock);
}

// Where a walk gets its records from: one of the two.
struct source {
    struct gw_store_read *read;
    struct gw_store_txn *txn;
};

static void next_ids(const struct source *source, uint64_t from, struct gw_id_chunk *out)
{
    if (source->read != NULL) {
        gw_packed_ids(&source->read->store->packed, from, out);
        return;
    }
    const struct gw_packed *packed = &source->txn->store->packed;
    gw_id_rows_next(&packed->last, from, out);
    for (size_t i = 0; i < packed->staged.capacity; i++) { // those that went are asked for in vain
        const struct gw_row_entry *entry = &packed->staged.entries[i];
        if (entry->seq != 0 && entry->id >= from) {
            gw_id_chunk_insert(out, entry->id);
        }
    }
}

static enum base_status scan_one(const struct source *source, uint64_t id,
                                 struct gw_store_visitor visitor, bool *out_more)
{
    struct base_span value;
    struct gw_key key = gw_key_u64(id);
    const struct gw_lent *before = source->read != NULL ? source->read->lent : NULL;
    enum base_status status = source->read != NULL ? gw_packed_read(source->read, id, &value)
                                                   : gw_packed_get(source->txn, id, &value);
    if (status == BASE_OK) {
        *out_more = visitor.visit(visitor.ctx, (struct base_span){key.bytes, key.size}, value);
    }
    if (source->read != NULL) {
        give_back(source->read, before);
    }
    return status == BASE_ERR_NOT_FOUND ? BASE_OK : status;
}

// The first id whose key is not below. False: there is none.
static bool first_id(const struct gw_key *from, uint64_t *out)
{
    struct gw_key first = gw_key_u64(0);
    base_assert(from->size > 0 && from->size <= sizeof(from->bytes));
    *out = 0;
    if (from->bytes[0] != first.bytes[0]) {
        return from->bytes[0] < first.bytes[0];
    }
    for (size_t i = 1; i < first.size; i++) {
        *out = *out << 8 | (i < from->size ? from->bytes[i] : 0u);
    }
    if (from->size > first.size) { // behind that id
        ++*out;
    }
    return from->size <= first.size || *out != 0;
}

static enum base_status scan(const struct source *source, const struct gw_key *from,
                             struct gw_store_visitor visitor)
{
    struct gw_id_chunk chunk;
    uint64_t id;
    bool more = first_id(from, &id);
    base_assert((source->txn == NULL) != (source->read == NULL));
    while (more) {
        next_ids(source, id, &chunk);
        for (uint32_t i = 0; i < chunk.count && more; i++) {
            BASE_TRY(scan_one(source, chunk.ids[i], visitor, &more));
        }
        if (chunk.count < GW_ID_CHUNK || chunk.ids[chunk.count - 1] == UINT64_MAX) {
            break;
        }
        id = chunk.ids[chunk.count - 1] + 1;
    }
    return BASE_OK;
}

enum base_status gw_packed_scan(struct gw_store_read *read, const struct gw_key *from,
                                struct gw_store_visitor visitor)
{
    const struct source source = {.read = read};
    return scan(&source, from, visitor);
}

enum base_status gw_packed_txn_scan(struct gw_store_txn *txn, const struct gw_key *from,
                                    struct gw_store_visitor visitor)
{
    const struct source source = {.txn = txn};
    return scan(&source, from, visitor);
}

// The records of a block that count. False: the visitor wants no more.
static bool visit_block(struct gw_store *store, struct gw_block_view *view, MDB_val value,
                        struct gw_store_visitor visitor)
{
    struct gw_block_owner owners[GW_BLOCK_RECORDS];
    struct gw_block_room room;
    bool more = true;
    if (!gw_block_owners(view, owners)) {
        return true; // such a one was sound when the store opened: a check tells
    }
    for (uint32_t i = 0; i < view->count && more; i++) {
        const struct gw_packed_of of = {gw_block_place(view->number, i), owners[i].ids[0]};
        struct gw_key id = gw_key_u64(of.id);
        struct base_span bytes;
        if (gw_packed_place_of(&store->packed, of.id) == of.place &&
            gw_packed_value(store, of, value, &room, &bytes) == BASE_OK) {
            more = visitor.visit(visitor.ctx, (struct base_span){id.bytes, id.size}, bytes);
        }
    }
    return more;
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
        struct gw_block_view view;
        if (gw_block_open(k, v, &view)) {
            more = visit_block(store, &view, v, visitor);
        }
    }
    mdb_cursor_close(cursor);
    return rc == MDB_NOTFOUND ? BASE_OK : gw_store_status(rc);
}
