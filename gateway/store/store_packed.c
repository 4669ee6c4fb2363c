// Device records packed by recency: the index, and what a transaction writes. See store_packed.h
// for the layout. Called by store_writer.c on the writer thread, by store_env.c when a store opens
// and by store_make.c for new files. Readers are in packed_read.c, compaction in packed_compact.c.
#include "store/store_private.h"

#include "base/check.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PLACE_GONE  UINT64_MAX          // staged: the record was deleted
#define SLOT        (UINT64_C(1) << 63) // staged: a slot's number, until the record has a place
#define SLOTS_FIRST 64u
#define BYTES_FIRST 4096u
#define BYTES_KEPT  (UINT64_C(256) << 10) // from one transaction to the next

void gw_packed_init(struct gw_packed *packed, const struct base_hash_key *key)
{
    pthread_rwlockattr_t attributes;
    pthread_rwlockattr_init(&attributes);
    // Readers come one after the other; the writer must not wait until there is none.
    pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(&packed->lock, &attributes);
    pthread_rwlockattr_destroy(&attributes);
    gw_row_index_init(&packed->staged, key);
    packed->block_next = 1;
}

static void free_staged(struct gw_packed *packed)
{
    free(packed->slots);
    free(packed->staged_bytes);
    packed->slots = NULL;
    packed->staged_bytes = NULL;
    packed->slot_room = 0;
    packed->staged_room = 0;
}

void gw_packed_done(struct gw_packed *packed)
{
    free_staged(packed);
    gw_block_done(&packed->block);
    gw_row_index_done(&packed->staged);
    gw_id_rows_done(&packed->last);
    pthread_rwlock_destroy(&packed->lock);
}

// ---- The index, from the blocks

static int note_last(struct gw_id_rows *last, uint64_t id, uint64_t place)
{
    if (gw_id_rows_prepare(last, id, place) != BASE_OK) {
        return ENOMEM;
    }
    gw_id_rows_set(last, id, place);
    return 0;
}

// A damaged one stands for a record that is left out: whoever asks for it hears of the damage.
// Where it may be of another id, too, that one must do without its older records as well.
static int note_record(struct gw_id_rows *last, const struct gw_block_record *record,
                       const struct gw_block_owner *owner, uint64_t place)
{
    if (record->sound && record->bytes.size == 0) {
        gw_id_rows_remove(last, record->id);
        return 0;
    }
    int rc = note_last(last, owner->ids[0], place);
    if (rc == 0 && owner->count == 2 && gw_id_rows_get(last, owner->ids[1]) != 0) {
        rc = note_last(last, owner->ids[1], place);
    }
    return rc;
}

static int note_block(struct gw_packed_built *built, struct gw_block_view *view)
{
    struct gw_block_owner owners[GW_BLOCK_RECORDS];
    struct gw_block_room room;
    int rc = 0;
    if (!gw_block_owners(view, owners) || view->number == GW_BLOCK_NUMBER_MAX) {
        return MDB_CORRUPTED;
    }
    for (uint32_t i = 0; rc == 0 && i < view->count; i++) {
        const struct gw_block_record record = gw_block_get(view, i, &room);
        base_assert(owners[i].count > 0);
        rc = note_record(&built->last, &record, &owners[i], gw_block_place(view->number, i));
    }
    built->records += view->count;
    built->block_next = view->number < built->block_next ? built->block_next : view->number + 1;
    return rc;
}

int gw_packed_build(MDB_txn *txn, MDB_dbi table, struct gw_packed_built *out)
{
    MDB_cursor *cursor = NULL;
    MDB_val k;
    MDB_val v;
    int rc = mdb_cursor_open(txn, table, &cursor);
    base_assert(out->last.count == 0);
    out->block_next = 1;
    while (rc == 0 && (rc = mdb_cursor_get(cursor, &k, &v, MDB_NEXT)) == 0) {
        struct gw_block_view view;
        uint64_t number;
        if (!gw_block_key_read(k, &number) || !gw_block_may_hold(v)) {
            continue; // a check tells
        }
        rc = gw_block_open(k, v, &view) ? note_block(out, &view) : MDB_CORRUPTED;
    }
    mdb_cursor_close(cursor);
    return rc == MDB_NOTFOUND ? 0 : rc;
}

enum base_status gw_packed_open(struct gw_store *store, struct base_error *error)
{
    struct gw_packed *packed = &store->packed;
    struct gw_packed_built built = {.block_next = 1};
    MDB_txn *txn = NULL;
    if (store->tables[GW_TABLE_DEVICES] == GW_STORE_NO_TABLE) {
        return BASE_OK;
    }
    base_assert(packed->last.count == 0);
    int rc = mdb_txn_begin(store->env, NULL, MDB_RDONLY, &txn);
    if (rc == 0) {
        rc = gw_packed_build(txn, store->tables[GW_TABLE_DEVICES], &built);
    }
    if (txn != NULL) {
        mdb_txn_abort(txn);
    }
    packed->last = built.last;
    packed->block_next = built.block_next;
    packed->records = built.records;
    if (rc == MDB_CORRUPTED) {
        return base_error_set(error, BASE_ERR_CORRUPT,
                              "a block of device records in %.50s is damaged; restore a copy, or "
                              "see `walle-store salvage --help`",
                              store->dir);
    }
    return rc == 0 ? BASE_OK
                   : base_error_set(error, gw_store_status(rc),
                                    "cannot read the device records: %s", mdb_strerror(rc));
}

// ---- A transaction

// The places made for a transaction that did not come to be.
static void give_up(struct gw_packed *packed)
{
    pthread_rwlock_wrlock(&packed->lock);
    for (size_t i = 0; i < packed->staged.capacity; i++) {
        if (packed->staged.entries[i].seq != 0) {
            gw_id_rows_give_up(&packed->last, packed->staged.entries[i].id);
        }
    }
    pthread_rwlock_unlock(&packed->lock);
    packed->prepared = false;
}

void gw_packed_begin(struct gw_packed *packed)
{
    if (packed->prepared) {
        give_up(packed);
    }
    gw_row_index_clear(&packed->staged);
    packed->slot_count = 0;
    packed->staged_size = 0;
    packed->records_staged = packed->records;
    packed->debt_staged = packed->debt;
    gw_block_begin(&packed->block, packed->block_next);
}

// What the transaction wrote of an id; NULL: nothing.
static struct gw_packed_slot *find_slot(const struct gw_packed *packed, uint64_t id)
{
    uint64_t staged = gw_row_index_get(&packed->staged, id);
    base_assert(staged == 0 || (staged & SLOT) != 0); // none has its place yet
    return staged == 0 ? NULL : &packed->slots[staged & ~SLOT];
}

static struct gw_packed_slot *add_slot(struct gw_packed *packed, uint64_t id)
{
    if (gw_row_index_reserve(&packed->staged, 1) != BASE_OK) {
        return NULL;
    }
    if (packed->slot_count == packed->slot_room) {
        size_t room = packed->slot_room == 0 ? SLOTS_FIRST : packed->slot_room * 2;
        struct gw_packed_slot *slots = realloc(packed->slots, room * sizeof(slots[0]));
        if (slots == NULL) {
            return NULL;
        }
        packed->slots = slots;
        packed->slot_room = room;
    }
    gw_row_index_put(&packed->staged, id, SLOT | packed->slot_count);
    struct gw_packed_slot *slot = &packed->slots[packed->slot_count++];
    *slot = (struct gw_packed_slot){.id = id};
    return slot;
}

// Behind what is staged. The bytes may be among these.
static bool stage_bytes(struct gw_packed *packed, struct base_span bytes)
{
    base_assert(packed->staged_size <= packed->staged_room);
    if (bytes.size > packed->staged_room - packed->staged_size) {
        size_t room = packed->staged_room == 0 ? BYTES_FIRST : packed->staged_room * 2;
        while (room - packed->staged_size < bytes.size) {
            room *= 2;
        }
        uint8_t *larger = malloc(room);
        if (larger == NULL) {
            return false;
        }
        if (packed->staged_size > 0) {
            memcpy(larger, packed->staged_bytes, packed->staged_size);
        }
        memcpy(larger + packed->staged_size, bytes.data, bytes.size);
        free(packed->staged_bytes);
        packed->staged_bytes = larger;
        packed->staged_room = room;
    } else {
        memmove(packed->staged_bytes + packed->staged_size, bytes.data, bytes.size);
    }
    packed->staged_size += bytes.size;
    return true;
}

int gw_packed_put(struct gw_store_txn *txn, uint64_t id, struct base_span bytes)
{
    struct gw_packed *packed = &txn->store->packed;
    const size_t at = packed->staged_size;
    base_assert(bytes.size > 0); // without bytes it would end the record
    if (!stage_bytes(packed, bytes)) {
        return ENOMEM;
    }
    struct gw_packed_slot *slot = find_slot(packed, id);
    slot = slot != NULL ? slot : add_slot(packed, id);
    if (slot == NULL) {
        return ENOMEM;
    }
    slot->at = at;
    slot->size = bytes.size;
    return 0;
}

int gw_packed_delete(struct gw_store_txn *txn, uint64_t id)
{
    struct gw_packed *packed = &txn->store->packed;
    struct gw_packed_slot *slot = find_slot(packed, id);
    if (slot == NULL && gw_id_rows_get(&packed->last, id) == 0) {
        return 0;
    }
    slot = slot != NULL ? slot : add_slot(packed, id);
    if (slot == NULL) {
        return ENOMEM;
    }
    slot->size = 0;
    return 0;
}

enum base_status gw_packed_value(struct gw_store *store, struct gw_packed_of of, MDB_val value,
                                 struct gw_block_room *room, struct base_span *out)
{
    struct gw_key key = gw_block_key(gw_block_of(of.place));
    MDB_val k = {key.size, key.bytes};
    struct gw_block_view view;
    const uint32_t index = gw_block_index(of.place);
    base_assert(of.place != 0);
    if (gw_block_open(k, value, &view) && index < view.count) {
        const struct gw_block_record record = gw_block_get(&view, index, room);
        if (record.sound && record.id == of.id) {
            *out = record.bytes;
            return record.bytes.size > 0 ? BASE_OK : BASE_ERR_NOT_FOUND;
        }
    }
    gw_store_note_damage(store, GW_TABLE_DEVICES, k);
    return BASE_ERR_NOT_FOUND;
}

static int get_block(struct gw_store_txn *txn, uint64_t place, MDB_val *out)
{
    struct gw_key key = gw_block_key(gw_block_of(place));
    MDB_val k = {key.size, key.bytes};
    base_assert(place != 0);
    return mdb_get(txn->txn, txn->store->tables[GW_TABLE_DEVICES], &k, out);
}

enum base_status gw_packed_get(struct gw_store_txn *txn, uint64_t id, struct base_span *out)
{
    struct gw_packed *packed = &txn->store->packed;
    const struct gw_packed_slot *slot = find_slot(packed, id);
    MDB_val value;
    base_assert(packed->block.count == 0); // nothing has its place yet
    if (slot != NULL) {
        *out = (struct base_span){packed->staged_bytes + slot->at, slot->size};
        return slot->size > 0 ? BASE_OK : BASE_ERR_NOT_FOUND;
    }
    // The writer alone changes the index, so it may look without the lock.
    const struct gw_packed_of of = {gw_id_rows_get(&packed->last, id), id};
    if (of.place == 0) {
        return BASE_ERR_NOT_FOUND;
    }
    int rc = get_block(txn, of.place, &value);
    if (rc == 0) {
        return gw_packed_value(txn->store, of, value, &packed->room, out);
    }
    if (rc == MDB_NOTFOUND) { // its key is damaged
        struct gw_key key = gw_block_key(gw_block_of(of.place));
        gw_store_note_damage(txn->store, GW_TABLE_DEVICES, (MDB_val){key.size, key.bytes});
    }
    return gw_store_status(rc);
}

bool gw_packed_left_out(struct gw_store_txn *txn, uint64_t id)
{
    const struct gw_packed *packed = &txn->store->packed;
    const uint64_t place = gw_id_rows_get(&packed->last, id);
    struct gw_key key = gw_block_key(gw_block_of(place));
    struct gw_block_view view;
    struct gw_block_room room;
    MDB_val value;
    if (find_slot(packed, id) != NULL || place == 0) {
        return false;
    }
    int rc = get_block(txn, place, &value);
    if (rc != 0) {
        return rc == MDB_NOTFOUND;
    }
    if (!gw_block_open((MDB_val){key.size, key.bytes}, value, &view) ||
        gw_block_index(place) >= view.count) {
        return true;
    }
    const struct gw_block_record record = gw_block_get(&view, gw_block_index(place), &room);
    return !record.sound || record.id != id;
}

// ---- Its end

int gw_packed_append(struct gw_store_txn *txn, uint64_t id, struct base_span bytes, bool damaged,
                     uint64_t *out_place)
{
    struct gw_packed *packed = &txn->store->packed;
    int rc = 0;
    if (packed->block.count > 0 && !gw_block_has_room(&packed->block, bytes.size)) {
        rc = gw_block_write(&packed->block, txn->txn, txn->store->tables[GW_TABLE_DEVICES],
                            MDB_APPEND);
    }
    if (rc == 0) {
        rc = gw_block_add(&packed->block, id, bytes, damaged, out_place);
    }
    packed->records_staged += rc == 0;
    return rc;
}

// What is staged gets its places.
static int write_slots(struct gw_store_txn *txn)
{
    struct gw_packed *packed = &txn->store->packed;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < packed->slot_count; i++) {
        const struct gw_packed_slot *slot = &packed->slots[i];
        const struct base_span bytes = {slot->size > 0 ? packed->staged_bytes + slot->at : NULL,
                                        slot->size};
        uint64_t place = 0;
        base_assert(gw_row_index_get(&packed->staged, slot->id) == (SLOT | i));
        rc = gw_packed_append(txn, slot->id, bytes, false, &place);
        if (rc == 0) {
            gw_row_index_put(&packed->staged, slot->id, slot->size > 0 ? place : PLACE_GONE);
        }
    }
    return rc;
}

int gw_packed_flush(struct gw_store_txn *txn)
{
    struct gw_packed *packed = &txn->store->packed;
    const struct gw_row_index *staged = &packed->staged;
    enum base_status status = BASE_OK;
    int rc =
        gw_block_write(&packed->block, txn->txn, txn->store->tables[GW_TABLE_DEVICES], MDB_APPEND);
    if (rc != 0) {
        return rc;
    }
    packed->prepared = true;
    pthread_rwlock_wrlock(&packed->lock);
    for (size_t i = 0; i < staged->capacity && status == BASE_OK; i++) {
        const struct gw_row_entry *entry = &staged->entries[i];
        if (entry->seq != 0 && entry->seq != PLACE_GONE) {
            base_assert(entry->seq < gw_block_place(packed->block.number, 0));
            status = gw_id_rows_prepare(&packed->last, entry->id, entry->seq);
        }
    }
    pthread_rwlock_unlock(&packed->lock);
    return status == BASE_OK ? 0 : ENOMEM;
}

int gw_packed_finish(struct gw_store_txn *txn)
{
    const uint64_t written = txn->store->packed.slot_count;
    if (written == 0) {
        return 0;
    }
    int rc = gw_packed_compact(txn, written);
    if (rc == 0) {
        rc = write_slots(txn);
    }
    return rc == 0 ? gw_packed_flush(txn) : rc;
}

void gw_packed_committed(struct gw_packed *packed)
{
    const struct gw_row_index *staged = &packed->staged;
    packed->debt = packed->debt_staged;
    packed->prepared = false;
    packed->records = packed->records_staged;
    if (staged->count == 0) {
        return;
    }
    base_assert(packed->block.count == 0); // all are put
    packed->block_next = packed->block.number;
    pthread_rwlock_wrlock(&packed->lock);
    for (size_t i = 0; i < staged->capacity; i++) {
        const struct gw_row_entry *entry = &staged->entries[i];
        if (entry->seq == PLACE_GONE) {
            gw_id_rows_remove(&packed->last, entry->id);
        } else if (entry->seq != 0) {
            gw_id_rows_set(&packed->last, entry->id, entry->seq);
        }
    }
    pthread_rwlock_unlock(&packed->lock);
    gw_row_index_clear(&packed->staged);
    packed->slot_count = 0;
    packed->staged_size = 0;
    if (packed->staged_room > BYTES_KEPT) {
        free_staged(packed);
    }
}
