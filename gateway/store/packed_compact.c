// Compaction of packed device records: within the transactions of groups, from the oldest block on,
// and of a map that is full in transactions of its own. See store_packed.h for when a block may go.
// Called by store_packed.c and store_writer.c on the writer thread.
#include "store/store_private.h"

#include "base/check.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

// Dead records are kept until they are half of all, and those at the head are dropped then, which
// writes hardly anything: their pages become free. Live ones in front of dead ones are only moved
// when three quarters of all are dead: in a storm a device writes its record several times in a
// row, so the oldest ones are those of devices whose turn has not come yet. With four writes a
// device, storm after storm, each write costs 1.5 records in the first and 1.2 later when they are
// moved at half, and 1.0 and 1.1 at three quarters; with two writes 1.2 and 1.0. The price is a
// table of up to five times its live records; moved at half it came to 4.4 times. A map that may
// not grow and is half full has no room for that: records are moved as soon as a fifth of all are
// dead, since a full one has no pages left to move them to.
#define DEAD_KEPT      1024u // however few are alive
#define MOVE_AT        3u    // dead records for each that is alive
#define LOOKS_A_RECORD 2u
#define LOOKS_TIGHT    8u   // as many times more where the map is tight
#define LOOKS_MIN      512u // a commit that compacts costs pages of its own
#define LOOKS_MAX      8192u
#define RECLAIM_TURNS  64
#define RECLAIM_FLOOR  16u

struct compaction {
    struct gw_store_txn *txn;
    MDB_cursor *cursor;
    uint64_t looks; // records that may yet be looked at
    uint64_t dropped;
};

// The next block from the head that was there before this transaction. MDB_NOTFOUND: no more. One
// that cannot be read has no records.
static int next_block(struct compaction *compaction, struct gw_block_view *out)
{
    MDB_val k;
    MDB_val v;
    if (compaction->looks == 0) {
        return MDB_NOTFOUND;
    }
    int rc = mdb_cursor_get(compaction->cursor, &k, &v, MDB_NEXT);
    if (rc == 0 && !gw_block_open(k, v, out)) {
        *out = (struct gw_block_view){.count = 0};
    }
    if (rc == 0) {
        const uint64_t looks = out->count > 0 ? out->count : 1;
        compaction->looks -= looks < compaction->looks ? looks : compaction->looks;
    }
    return rc == 0 && out->number >= compaction->txn->store->packed.block_next ? MDB_NOTFOUND : rc;
}

static bool is_last(const struct gw_packed *packed, uint64_t id, const struct gw_block_view *view,
                    uint32_t index)
{
    return gw_id_rows_get(&packed->last, id) == gw_block_place(view->number, index);
}

// Is any of its records alive? Dead is what was so before this transaction: readers may stand where
// the index was then.
static bool is_live(const struct gw_packed *packed, struct gw_block_view *view)
{
    struct gw_block_owner owners[GW_BLOCK_RECORDS];
    bool live = false;
    if (view->count == 0 || !gw_block_owners(view, owners)) {
        return false;
    }
    for (uint32_t i = 0; i < view->count && !live; i++) {
        for (uint32_t k = 0; k < owners[i].count && !live; k++) {
            live = is_last(packed, owners[i].ids[k], view, i);
        }
    }
    return live;
}

// Removes dead blocks up to the first that is alive, which `out` is then.
static int drop_dead(struct compaction *compaction, struct gw_block_view *out)
{
    struct gw_packed *packed = &compaction->txn->store->packed;
    int rc;
    while ((rc = next_block(compaction, out)) == 0) {
        base_assert(packed->block_next > out->number);
        if (is_live(packed, out)) {
            return 0;
        }
        const uint32_t count = out->count;
        rc = mdb_cursor_del(compaction->cursor, 0);
        if (rc != 0) {
            return rc;
        }
        packed->records_staged -= count < packed->records_staged ? count : packed->records_staged;
        compaction->dropped += count > 0 ? count : 1;
    }
    return rc;
}

// Appends a live record anew; the old one is dead from this commit on and goes with a later one. A
// damaged one stays damaged, and whose it is stays known: its seal, which is over its place, could
// not say so any more.
static int move_record(struct gw_store_txn *txn, const struct gw_block_record *record, uint64_t id)
{
    struct gw_packed *packed = &txn->store->packed;
    uint64_t place = 0;
    if (gw_row_index_get(&packed->staged, id) != 0) {
        return 0; // has a newer one by now
    }
    if (gw_row_index_reserve(&packed->staged, 1) != BASE_OK) {
        return ENOMEM;
    }
    base_assert(!record->sound || record->bytes.size > 0);
    int rc = gw_packed_append(txn, id, record->bytes, !record->sound, &place);
    if (rc == 0) {
        gw_row_index_put(&packed->staged, id, place);
    }
    return rc;
}

// What is alive in a block.
static int move_block(struct gw_store_txn *txn, struct gw_block_view view)
{
    const struct gw_packed *packed = &txn->store->packed;
    struct gw_block_owner owners[GW_BLOCK_RECORDS];
    struct gw_block_room room;
    int rc = 0;
    base_assert(view.number < packed->block_next); // none of this transaction
    if (view.count == 0 || !gw_block_owners(&view, owners)) {
        return 0;
    }
    uint8_t *copy = malloc(view.size); // its page may move
    if (copy == NULL) {
        return ENOMEM;
    }
    memcpy(copy, view.value, view.size);
    view.value = copy;
    for (uint32_t i = 0; rc == 0 && i < view.count; i++) {
        const struct gw_block_record record = gw_block_get(&view, i, &room);
        for (uint32_t k = 0; rc == 0 && k < owners[i].count; k++) {
            if (is_last(packed, owners[i].ids[k], &view, i)) {
                rc = move_record(txn, &record, owners[i].ids[k]);
            }
        }
    }
    free(copy);
    return rc;
}

static int compact(struct gw_store_txn *txn, uint64_t looks, bool move, uint64_t *out_dropped)
{
    struct compaction compaction = {.txn = txn, .looks = looks};
    struct gw_block_view view;
    int rc = mdb_cursor_open(txn->txn, txn->store->tables[GW_TABLE_DEVICES], &compaction.cursor);
    if (rc == 0) {
        rc = drop_dead(&compaction, &view);
    }
    while (move && rc == 0) {
        base_assert(view.number < txn->store->packed.block_next);
        rc = move_block(txn, view);
        if (rc == 0) {
            rc = next_block(&compaction, &view);
        }
    }
    mdb_cursor_close(compaction.cursor);
    *out_dropped = compaction.dropped;
    return rc == MDB_NOTFOUND ? 0 : rc;
}

static uint64_t dead_records(const struct gw_packed *packed)
{
    const uint64_t live = packed->last.count;
    return packed->records_staged > live ? packed->records_staged - live : 0;
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
    const uint64_t dead = dead_records(&txn->store->packed);
    uint64_t dropped;
    bool tight = false;
    base_assert(looks >= LOOKS_MIN);
    int rc = is_tight(txn, &tight);
    if (rc != 0 || dead <= (tight ? live / 4 : live + DEAD_KEPT)) {
        return rc;
    }
    return compact(txn, tight ? looks * LOOKS_TIGHT : looks,
                   tight || dead > MOVE_AT * live + DEAD_KEPT, &dropped);
}

int gw_packed_compact(struct gw_store_txn *txn, uint64_t written)
{
    struct gw_packed *packed = &txn->store->packed;
    base_assert(written > 0);
    packed->debt_staged += LOOKS_A_RECORD * written;
    if (packed->debt_staged < LOOKS_MIN || packed->resting) {
        return 0;
    }
    uint64_t looks = packed->debt_staged < LOOKS_MAX ? packed->debt_staged : LOOKS_MAX;
    packed->debt_staged = 0;
    return compact_some(txn, looks);
}

// ---- A full map

// One transaction that only compacts.
static int reclaim_once(struct gw_store *store, uint64_t looks, uint64_t *out_dropped)
{
    struct gw_store_txn txn = {.store = store};
    base_assert(looks > 0);
    *out_dropped = 0;
    int rc = mdb_txn_begin(store->env, NULL, 0, &txn.txn);
    if (rc != 0) {
        return rc;
    }
    gw_packed_begin(&store->packed);
    if (dead_records(&store->packed) == 0) {
        rc = MDB_NOTFOUND;
    }
    if (rc == 0) {
        rc = compact(&txn, looks, true, out_dropped);
    }
    if (rc == 0) {
        rc = gw_packed_flush(&txn);
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
