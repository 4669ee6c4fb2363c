// Device records packed by recency: the rows, and what a transaction writes. See store_packed.h for
// the layout. Called by store_writer.c on the writer thread, by store_env.c when a store opens and
// by store_make.c for new files. Readers are in packed_read.c.
#include "store/store_private.h"

#include "base/check.h"
#include "base/record_seal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define KEY_BYTES   (1u + 8u + 8u)
#define ID_BYTES    8u
#define ID_AND_SEAL (ID_BYTES + BASE_SEAL_BYTES)
#define ROW_GONE    UINT64_MAX // staged: the record was deleted

// Dead rows are kept until they are half of all, and those at the head are dropped then, which
// writes hardly anything: their pages become free. Live ones in front of dead ones are only moved
// when three quarters of all are dead: in a storm a device writes its record several times in a
// row, so the oldest rows are those of devices whose turn has not come yet. With four writes a
// device, storm after storm, each write costs 1.5 rows in the first and 1.2 later when they are
// moved at half, and 1.0 and 1.1 at three quarters; with two writes 1.2 and 1.0. The price is a
// table of up to five times its live records, 0.8 KB a device; moved at half it came to 4.4 times.
// A map that may not grow and is half full has no room for that: rows are moved as soon as a fifth
// of all are dead, since a full one has no pages left to move them to.
#define DEAD_KEPT     1024u // however few are alive
#define MOVE_AT       3u    // dead rows for each that is alive
#define LOOKS_A_ROW   2u
#define LOOKS_TIGHT   8u   // as many times more where the map is tight
#define LOOKS_MIN     512u // a commit that compacts costs pages of its own
#define LOOKS_MAX     8192u
#define RECLAIM_TURNS 64
#define RECLAIM_FLOOR 16u

void gw_packed_init(struct gw_packed *packed, const struct base_hash_key *key)
{
    pthread_rwlockattr_t attributes;
    pthread_rwlockattr_init(&attributes);
    // Readers come one after the other; the writer must not wait until there is none.
    pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(&packed->lock, &attributes);
    pthread_rwlockattr_destroy(&attributes);
    gw_row_index_init(&packed->staged, key);
    packed->row_next = 1;
    packed->row_staged = 1;
}

void gw_packed_done(struct gw_packed *packed)
{
    gw_row_index_done(&packed->staged);
    gw_id_rows_done(&packed->last);
    pthread_rwlock_destroy(&packed->lock);
}

// ---- Rows

static uint64_t get_u64(const uint8_t *bytes)
{
    uint64_t value = 0;
    for (size_t i = 0; i < 8; i++) {
        value = value << 8 | bytes[i];
    }
    return value;
}

static void set_u64(uint8_t *bytes, uint64_t value)
{
    for (size_t i = 0; i < 8; i++) {
        bytes[i] = (uint8_t)(value >> (56 - 8 * i));
    }
}

struct gw_key gw_packed_key(struct gw_packed_place place)
{
    return gw_key_u64_u64(place.row, place.id);
}

// The version is not asked for: the seal is over it, and damage there leaves the numbers.
bool gw_packed_key_read(MDB_val key, struct gw_packed_place *out)
{
    if (key.mv_size != KEY_BYTES) {
        return false;
    }
    const uint8_t *bytes = key.mv_data;
    *out = (struct gw_packed_place){get_u64(bytes + 1), get_u64(bytes + 9)};
    return out->row > 0 && out->row < ROW_GONE - 1;
}

static int reserve_row(MDB_txn *txn, MDB_dbi rows, const struct gw_key *key, MDB_val *value,
                       unsigned flags)
{
    MDB_val k = {key->size, (void *)(uintptr_t)key->bytes};
    value->mv_data = NULL;
    int rc = mdb_put(txn, rows, &k, value, MDB_RESERVE | flags);
    if (rc == MDB_KEYEXIST && (flags & MDB_APPEND) != 0) { // a damaged key lies behind all others
        rc = mdb_put(txn, rows, &k, value, MDB_RESERVE | (flags & ~(unsigned)MDB_APPEND));
    }
    return rc;
}

int gw_packed_put_row(MDB_txn *txn, MDB_dbi rows, struct gw_packed_place place,
                      struct base_span bytes, unsigned flags)
{
    struct gw_key key = gw_packed_key(place);
    MDB_val value = {.mv_size = ID_BYTES + bytes.size + BASE_SEAL_BYTES};
    base_assert(place.row > 0);
    base_assert(place.row < ROW_GONE);
    int rc = reserve_row(txn, rows, &key, &value, flags);
    if (rc != 0) {
        return rc;
    }
    uint8_t *to = value.mv_data;
    if (bytes.size > 0) {
        memcpy(to, bytes.data, bytes.size);
    }
    set_u64(to + bytes.size, place.id);
    base_record_seal(gw_table_name(GW_TABLE_DEVICES), (struct base_span){key.bytes, key.size},
                     (struct base_span){to, ID_BYTES + bytes.size}, to + ID_BYTES + bytes.size);
    return 0;
}

int gw_packed_put_damaged(MDB_txn *txn, MDB_dbi rows, struct gw_packed_place place,
                          struct base_span bytes, unsigned flags)
{
    struct gw_key key = gw_packed_key(place);
    MDB_val value;
    MDB_val k = {key.size, key.bytes};
    base_assert(bytes.size > 0);
    int rc = gw_packed_put_row(txn, rows, place, bytes, flags);
    if (rc == 0) {
        rc = mdb_get(txn, rows, &k, &value);
    }
    if (rc != 0) {
        return rc;
    }
    uint8_t *copy = malloc(value.mv_size);
    if (copy == NULL) {
        return ENOMEM;
    }
    memcpy(copy, value.mv_data, value.mv_size);
    copy[value.mv_size - 1] ^= 0xff; // of the seal
    value.mv_data = copy;
    rc = mdb_put(txn, rows, &k, &value, 0);
    free(copy);
    return rc;
}

int gw_packed_put_raw(MDB_txn *txn, MDB_dbi rows, struct gw_packed_place place,
                      struct base_span value, unsigned flags)
{
    struct gw_key key = gw_packed_key(place);
    MDB_val v = {.mv_size = value.size};
    base_assert(place.row > 0);
    int rc = reserve_row(txn, rows, &key, &v, flags);
    if (rc == 0 && value.size > 0) {
        memcpy(v.mv_data, value.data, value.size);
    }
    return rc;
}

bool gw_packed_bytes(struct base_span value, struct base_span *out)
{
    if (value.size < ID_BYTES) {
        return false;
    }
    *out = (struct base_span){value.data, value.size - ID_BYTES};
    return true;
}

// ---- The index, from the rows

static enum base_status unseal(const struct gw_key *key, MDB_val value, struct base_span *out)
{
    return base_record_unseal(gw_table_name(GW_TABLE_DEVICES),
                              (struct base_span){key->bytes, key->size},
                              (struct base_span){value.mv_data, value.mv_size}, out);
}

// Does the seal fit when the value had this id? Without memory it does not.
static bool fits_with_id(const struct gw_key *key, MDB_val value, uint64_t id)
{
    uint8_t *copy = malloc(value.mv_size);
    struct base_span bytes;
    if (copy == NULL) {
        return false;
    }
    memcpy(copy, value.mv_data, value.mv_size);
    set_u64(copy + value.mv_size - ID_AND_SEAL, id);
    bool fits = unseal(key, (MDB_val){value.mv_size, copy}, &bytes) == BASE_OK;
    free(copy);
    return fits;
}

uint32_t gw_packed_owners(struct gw_packed_place place, MDB_val value, uint64_t out[2])
{
    out[0] = place.id;
    out[1] = place.id;
    if (value.mv_size >= ID_AND_SEAL) {
        out[1] = get_u64((const uint8_t *)value.mv_data + value.mv_size - ID_AND_SEAL);
    }
    if (out[0] == out[1]) {
        return 1;
    }
    struct gw_key key = gw_packed_key(place);
    struct gw_key other_key = gw_packed_key((struct gw_packed_place){place.row, out[1]});
    struct base_span bytes;
    base_assert(value.mv_size >= ID_AND_SEAL);
    if (unseal(&other_key, value, &bytes) == BASE_OK) {
        out[0] = out[1];
        return 1;
    }
    return fits_with_id(&key, value, place.id) ? 1 : 2;
}

static int note_last(struct gw_id_rows *last, uint64_t id, uint64_t row)
{
    if (gw_id_rows_prepare(last, id, row) != BASE_OK) {
        return ENOMEM;
    }
    gw_id_rows_set(last, id, row);
    return 0;
}

// It stands for a record that is left out: whoever asks for it hears of the damage. Where it may be
// of another id, too, that one must do without its older rows as well.
static int note_damaged(struct gw_id_rows *last, struct gw_packed_place place, MDB_val value)
{
    uint64_t ids[2];
    uint32_t count = gw_packed_owners(place, value, ids);
    int rc = note_last(last, ids[0], place.row);
    if (rc == 0 && count == 2 && gw_id_rows_get(last, ids[1]) != 0) {
        rc = note_last(last, ids[1], place.row);
    }
    return rc;
}

bool gw_packed_is_sound(MDB_val key, MDB_val value, struct base_span *out)
{
    struct base_span bytes;
    return base_record_unseal(
               gw_table_name(GW_TABLE_DEVICES), (struct base_span){key.mv_data, key.mv_size},
               (struct base_span){value.mv_data, value.mv_size}, &bytes) == BASE_OK &&
           gw_packed_bytes(bytes, out);
}

static int note_row(struct gw_id_rows *last, struct gw_packed_place place, MDB_val key,
                    MDB_val value)
{
    struct base_span bytes;
    if (!gw_packed_is_sound(key, value, &bytes)) {
        return note_damaged(last, place, value);
    }
    if (bytes.size == 0) {
        gw_id_rows_remove(last, place.id);
        return 0;
    }
    return note_last(last, place.id, place.row);
}

int gw_packed_build(MDB_txn *txn, MDB_dbi rows, struct gw_id_rows *last, uint64_t *out_row_next)
{
    MDB_cursor *cursor = NULL;
    MDB_val k;
    MDB_val v;
    uint64_t highest = 0;
    int rc = mdb_cursor_open(txn, rows, &cursor);
    base_assert(last->count == 0);
    while (rc == 0 && (rc = mdb_cursor_get(cursor, &k, &v, MDB_NEXT)) == 0) {
        struct gw_packed_place place;
        if (!gw_packed_key_read(k, &place)) {
            continue; // a check tells
        }
        rc = note_row(last, place, k, v);
        highest = place.row > highest ? place.row : highest;
    }
    mdb_cursor_close(cursor);
    *out_row_next = highest + 1;
    return rc == MDB_NOTFOUND ? 0 : rc;
}

enum base_status gw_packed_open(struct gw_store *store, struct base_error *error)
{
    struct gw_packed *packed = &store->packed;
    MDB_txn *txn = NULL;
    if (store->tables[GW_TABLE_DEVICES] == GW_STORE_NO_TABLE) {
        return BASE_OK;
    }
    base_assert(packed->last.count == 0);
    int rc = mdb_txn_begin(store->env, NULL, MDB_RDONLY, &txn);
    if (rc == 0) {
        rc =
            gw_packed_build(txn, store->tables[GW_TABLE_DEVICES], &packed->last, &packed->row_next);
    }
    if (txn != NULL) {
        mdb_txn_abort(txn);
    }
    packed->row_staged = packed->row_next;
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
    packed->row_staged = packed->row_next;
    packed->debt_staged = packed->debt;
}

// The writer alone changes the index, so it may look without the lock.
static uint64_t last_row(const struct gw_packed *packed, uint64_t id)
{
    uint64_t staged = gw_row_index_get(&packed->staged, id);
    if (staged == ROW_GONE) {
        return 0;
    }
    return staged != 0 ? staged : gw_id_rows_get(&packed->last, id);
}

int gw_packed_put(struct gw_store_txn *txn, uint64_t id, struct base_span bytes)
{
    struct gw_store *store = txn->store;
    struct gw_packed *packed = &store->packed;
    base_assert(bytes.size > 0); // without bytes it would end the record
    base_assert(packed->row_staged >= packed->row_next);
    if (gw_row_index_reserve(&packed->staged, 1) != BASE_OK) {
        return ENOMEM;
    }
    uint64_t row = last_row(packed, id);
    // One of this transaction is replaced where it is: its page is to be written anyway.
    bool appended = row < packed->row_next;
    row = appended ? packed->row_staged : row;
    int rc =
        gw_packed_put_row(txn->txn, store->tables[GW_TABLE_DEVICES],
                          (struct gw_packed_place){row, id}, bytes, appended ? MDB_APPEND : 0u);
    if (rc == 0) {
        packed->row_staged += appended;
        gw_row_index_put(&packed->staged, id, row);
    }
    return rc;
}

int gw_packed_delete(struct gw_store_txn *txn, uint64_t id)
{
    struct gw_store *store = txn->store;
    struct gw_packed *packed = &store->packed;
    if (last_row(packed, id) == 0) {
        return 0;
    }
    if (gw_row_index_reserve(&packed->staged, 1) != BASE_OK) {
        return ENOMEM;
    }
    base_assert(packed->row_staged >= packed->row_next);
    int rc = gw_packed_put_row(txn->txn, store->tables[GW_TABLE_DEVICES],
                               (struct gw_packed_place){packed->row_staged, id},
                               (struct base_span){NULL, 0}, MDB_APPEND);
    if (rc == 0) {
        packed->row_staged++;
        gw_row_index_put(&packed->staged, id, ROW_GONE);
    }
    return rc;
}

static int get_row(struct gw_store_txn *txn, uint64_t id, struct gw_key *out_key, MDB_val *out)
{
    uint64_t row = last_row(&txn->store->packed, id);
    *out_key = gw_packed_key((struct gw_packed_place){row, id});
    MDB_val k = {out_key->size, out_key->bytes};
    return row == 0 ? MDB_NOTFOUND
                    : mdb_get(txn->txn, txn->store->tables[GW_TABLE_DEVICES], &k, out);
}

enum base_status gw_packed_value(struct gw_store *store, const struct gw_key *key, MDB_val value,
                                 struct base_span *out)
{
    struct base_span bytes;
    BASE_TRY(gw_store_open_value(store, GW_TABLE_DEVICES,
                                 (MDB_val){key->size, (void *)(uintptr_t)key->bytes}, value,
                                 &bytes));
    if (!gw_packed_bytes(bytes, &bytes) || bytes.size == 0) {
        return BASE_ERR_NOT_FOUND;
    }
    *out = bytes;
    return BASE_OK;
}

enum base_status gw_packed_get(struct gw_store_txn *txn, uint64_t id, struct base_span *out)
{
    struct gw_key key;
    MDB_val value;
    int rc = get_row(txn, id, &key, &value);
    if (rc == 0) {
        return gw_packed_value(txn->store, &key, value, out);
    }
    if (rc == MDB_NOTFOUND && last_row(&txn->store->packed, id) != 0) {
        gw_store_note_damage(txn->store, GW_TABLE_DEVICES, (MDB_val){key.size, key.bytes});
    }
    return gw_store_status(rc);
}

bool gw_packed_left_out(struct gw_store_txn *txn, uint64_t id)
{
    struct gw_key key;
    MDB_val value;
    struct base_span bytes;
    if (last_row(&txn->store->packed, id) == 0) {
        return false;
    }
    int rc = get_row(txn, id, &key, &value);
    return rc == MDB_NOTFOUND || (rc == 0 && unseal(&key, value, &bytes) != BASE_OK);
}

// ---- Compaction

struct compaction {
    struct gw_store_txn *txn;
    MDB_cursor *cursor;
    uint64_t looks; // rows that may yet be looked at
    uint64_t dropped;
};

// The next row from the head that was there before this transaction. MDB_NOTFOUND: no more.
static int next_row(struct compaction *compaction, struct gw_packed_place *out, MDB_val *value)
{
    MDB_val k;
    if (compaction->looks == 0) {
        return MDB_NOTFOUND;
    }
    compaction->looks--;
    int rc = mdb_cursor_get(compaction->cursor, &k, value, MDB_NEXT);
    if (rc == 0 && !gw_packed_key_read(k, out)) {
        *out = (struct gw_packed_place){0, 0};
    }
    return rc == 0 && out->row >= compaction->txn->store->packed.row_next ? MDB_NOTFOUND : rc;
}

// Removes dead rows up to the first that is alive, which *out_live and `value` are then. Dead is
// what was so before this transaction: readers may stand where the index was then.
static int drop_dead(struct compaction *compaction, struct gw_packed_place *out_live,
                     MDB_val *value)
{
    const struct gw_packed *packed = &compaction->txn->store->packed;
    int rc;
    while ((rc = next_row(compaction, out_live, value)) == 0) {
        base_assert(packed->row_next > out_live->row);
        if (out_live->row != 0 && gw_id_rows_get(&packed->last, out_live->id) == out_live->row) {
            return 0;
        }
        rc = mdb_cursor_del(compaction->cursor, 0);
        if (rc != 0) {
            return rc;
        }
        compaction->dropped++;
    }
    return rc;
}

// It stays damaged, and where it is known whose it is, that stays known: its seal, which is over
// the row's number, cannot say so any more.
static int move_damaged(MDB_txn *txn, MDB_dbi rows, struct gw_packed_place from, uint64_t to_row,
                        MDB_val value)
{
    const struct gw_packed_place to = {to_row, from.id};
    const struct base_span bytes = {value.mv_data, value.mv_size};
    uint64_t ids[2];
    if (value.mv_size > ID_AND_SEAL && gw_packed_owners(from, value, ids) == 1 &&
        ids[0] == from.id) {
        return gw_packed_put_damaged(
            txn, rows, to, (struct base_span){bytes.data, bytes.size - ID_AND_SEAL}, MDB_APPEND);
    }
    return gw_packed_put_raw(txn, rows, to, bytes, MDB_APPEND);
}

// Appends a live row anew; the old one is dead from this commit on and goes with a later one.
static int move_row(struct gw_store_txn *txn, struct gw_packed_place place, MDB_val value)
{
    struct gw_packed *packed = &txn->store->packed;
    MDB_dbi rows = txn->store->tables[GW_TABLE_DEVICES];
    struct gw_packed_place to = {packed->row_staged, place.id};
    struct gw_key key = gw_packed_key(place);
    struct base_span bytes;
    if (gw_row_index_get(&packed->staged, place.id) != 0) {
        return 0; // has a newer one by now
    }
    if (gw_row_index_reserve(&packed->staged, 1) != BASE_OK) {
        return ENOMEM;
    }
    uint8_t *copy = malloc(value.mv_size > 0 ? value.mv_size : 1); // its page may move
    if (copy == NULL) {
        return ENOMEM;
    }
    memcpy(copy, value.mv_data, value.mv_size);
    value.mv_data = copy;
    bool sound = gw_packed_is_sound((MDB_val){key.size, key.bytes}, value, &bytes);
    base_assert(to.row > place.row);
    int rc = sound ? gw_packed_put_row(txn->txn, rows, to, bytes, MDB_APPEND)
                   : move_damaged(txn->txn, rows, place, to.row, value);
    free(copy);
    if (rc == 0) {
        packed->row_staged++;
        gw_row_index_put(&packed->staged, place.id, to.row);
    }
    return rc;
}

static int compact(struct gw_store_txn *txn, uint64_t looks, bool move, uint64_t *out_dropped)
{
    struct compaction compaction = {.txn = txn, .looks = looks};
    struct gw_packed_place place;
    MDB_val value;
    MDB_dbi rows = txn->store->tables[GW_TABLE_DEVICES];
    int rc = mdb_cursor_open(txn->txn, rows, &compaction.cursor);
    if (rc == 0) {
        rc = drop_dead(&compaction, &place, &value);
    }
    while (move && rc == 0) {
        base_assert(place.row < txn->store->packed.row_next);
        if (gw_id_rows_get(&txn->store->packed.last, place.id) == place.row) {
            rc = move_row(txn, place, value);
        }
        if (rc == 0) {
            rc = next_row(&compaction, &place, &value);
        }
    }
    mdb_cursor_close(compaction.cursor);
    *out_dropped = compaction.dropped;
    return rc == MDB_NOTFOUND ? 0 : rc;
}

// A place for each row that is staged.
static int make_room(struct gw_packed *packed)
{
    const struct gw_row_index *staged = &packed->staged;
    enum base_status status = BASE_OK;
    base_assert(staged->count <= packed->row_staged - packed->row_next);
    packed->prepared = true;
    pthread_rwlock_wrlock(&packed->lock);
    for (size_t i = 0; i < staged->capacity && status == BASE_OK; i++) {
        const struct gw_row_entry *entry = &staged->entries[i];
        if (entry->seq != 0 && entry->seq != ROW_GONE) {
            status = gw_id_rows_prepare(&packed->last, entry->id, entry->seq);
        }
    }
    pthread_rwlock_unlock(&packed->lock);
    return status == BASE_OK ? 0 : ENOMEM;
}

static int dead_rows(struct gw_store_txn *txn, uint64_t *out)
{
    MDB_stat stat;
    int rc = mdb_stat(txn->txn, txn->store->tables[GW_TABLE_DEVICES], &stat);
    uint64_t live = txn->store->packed.last.count;
    *out = rc == 0 && stat.ms_entries > live ? stat.ms_entries - live : 0;
    return rc;
}

// Do the tables have more than half of the largest map, or is all room dear?
static int is_tight(struct gw_store_txn *txn, bool *out)
{
    const struct gw_store *store = txn->store;
    uint64_t bytes = 0;
    int rc = 0;
    for (int i = 0; rc == 0 && i < GW_TABLE_COUNT; i++) {
        MDB_stat stat = {0};
        if (store->tables[i] != GW_STORE_NO_TABLE) {
            rc = mdb_stat(txn->txn, store->tables[i], &stat);
        }
        bytes += (uint64_t)stat.ms_psize *
                 (stat.ms_branch_pages + stat.ms_leaf_pages + stat.ms_overflow_pages);
    }
    *out = store->lean || bytes > store->map_bytes_max / 2;
    return rc;
}

static int compact_some(struct gw_store_txn *txn, uint64_t looks)
{
    const uint64_t live = txn->store->packed.last.count;
    uint64_t dead = 0;
    uint64_t dropped;
    bool tight = false;
    base_assert(looks >= LOOKS_MIN);
    int rc = dead_rows(txn, &dead);
    if (rc == 0) {
        rc = is_tight(txn, &tight);
    }
    if (rc != 0 || dead <= (tight ? live / 4 : live + DEAD_KEPT)) {
        return rc;
    }
    return compact(txn, tight ? looks * LOOKS_TIGHT : looks,
                   tight || dead > MOVE_AT * live + DEAD_KEPT, &dropped);
}

int gw_packed_finish(struct gw_store_txn *txn)
{
    struct gw_packed *packed = &txn->store->packed;
    uint64_t written = packed->row_staged - packed->row_next;
    base_assert(packed->row_staged >= packed->row_next);
    if (written == 0) {
        return 0;
    }
    packed->debt_staged += LOOKS_A_ROW * written;
    int rc = 0;
    if (packed->debt_staged >= LOOKS_MIN && !packed->resting) {
        uint64_t looks = packed->debt_staged < LOOKS_MAX ? packed->debt_staged : LOOKS_MAX;
        packed->debt_staged = 0;
        rc = compact_some(txn, looks);
    }
    return rc == 0 ? make_room(packed) : rc;
}

void gw_packed_committed(struct gw_packed *packed)
{
    const struct gw_row_index *staged = &packed->staged;
    packed->debt = packed->debt_staged;
    packed->row_next = packed->row_staged;
    packed->prepared = false;
    if (staged->count == 0) {
        return;
    }
    pthread_rwlock_wrlock(&packed->lock);
    for (size_t i = 0; i < staged->capacity; i++) {
        const struct gw_row_entry *entry = &staged->entries[i];
        if (entry->seq == ROW_GONE) {
            gw_id_rows_remove(&packed->last, entry->id);
        } else if (entry->seq != 0) {
            base_assert(entry->seq < packed->row_next);
            gw_id_rows_set(&packed->last, entry->id, entry->seq);
        }
    }
    pthread_rwlock_unlock(&packed->lock);
    gw_row_index_clear(&packed->staged);
}

// ---- A full map

// One transaction that only compacts.
static int reclaim_once(struct gw_store *store, uint64_t looks, uint64_t *out_dropped)
{
    struct gw_store_txn txn = {.store = store};
    uint64_t dead = 0;
    base_assert(looks > 0);
    *out_dropped = 0;
    int rc = mdb_txn_begin(store->env, NULL, 0, &txn.txn);
    if (rc != 0) {
        return rc;
    }
    gw_packed_begin(&store->packed);
    rc = dead_rows(&txn, &dead);
    if (rc == 0 && dead == 0) {
        rc = MDB_NOTFOUND;
    }
    if (rc == 0) {
        rc = compact(&txn, looks, true, out_dropped);
    }
    if (rc == 0) {
        rc = make_room(&store->packed);
    }
    if (rc != 0) {
        mdb_txn_abort(txn.txn);
        return rc;
    }
    rc = mdb_txn_commit(txn.txn);
    if (rc == 0) {
        gw_packed_committed(&store->packed);
    }
    return rc;
}

int gw_packed_reclaim(struct gw_store *store)
{
    uint64_t looks = LOOKS_MAX;
    uint64_t all = 0;
    int rc = 0;
    base_assert(!store->read_only);
    for (int turn = 0; turn < RECLAIM_TURNS && rc == 0 && looks >= RECLAIM_FLOOR; turn++) {
        uint64_t dropped = 0;
        rc = reclaim_once(store, looks, &dropped);
        if (rc == 0) {
            all += dropped;
        } else if (rc == MDB_MAP_FULL) {
            looks /= 4;
            rc = 0;
        }
    }
    gw_packed_begin(&store->packed);
    if (rc != 0 && rc != MDB_NOTFOUND) { // a disk that cannot write is no full map
        return rc;
    }
    return all > 0 ? 0 : MDB_MAP_FULL;
}
