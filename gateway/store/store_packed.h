// Device records packed by recency. LMDB writes whole pages of 4 KB, so records that lie under
// their ids cost a page each. Here a record is written behind all others instead, and with others
// in a block (store_block.h): what one commit writes lies side by side in full pages.
//
//   devices      u48 block  ->  records with their ids     blocks count up from 1; the last record
//                                                          of an id counts, those before are dead
//
// A record without bytes ends its device's record: the dead ones before it must not come back. A
// damaged one is the last of its id all the same, and left out; no older one takes its place. Where
// it cannot be told whose a block's records are, the store does not open.
//
// In memory lies which record is the last of each id, by its place, in the order of ids
// (id_rows.h): about 12 bytes a device where there are millions. It is built by a walk through the
// blocks when the store opens, and changes when a transaction is durable, not before: until then
// what the transaction wrote lies in memory, and makes blocks when all of it is there. An abort
// forgets it.
//
// Readers. Their snapshot may be older than the index: then the record is looked for again in one
// of now and copied, and the copy lives as long as the read. It may be one commit newer than the
// index, too; therefore a block is only ever removed in a transaction after that which made its
// last record dead.
//
// Compaction is the writer's, within the transactions of groups, from the oldest block on
// (packed_compact.c). Only so may the record that ends another go without a look at others: what it
// ended went before.
//
// Private to the store; store_private.h includes it. Functions return codes of LMDB where they
// return int.
#ifndef GW_STORE_PACKED_H
#define GW_STORE_PACKED_H

#include "base/error.h"
#include "store/id_rows.h"
#include "store/row_index.h"
#include "store/store_block.h"
#include "store/store.h"

#include <lmdb.h>
#include <pthread.h>

// What a transaction wrote of an id: bytes of `staged_bytes`, none where the record ends.
struct gw_packed_slot {
    uint64_t id;
    size_t at;
    size_t size;
};

struct gw_packed {
    pthread_rwlock_t lock;
    struct gw_id_rows last; // of what is durable; the writer changes it under the lock
    // Of the writer alone:
    struct gw_row_index staged; // what the transaction under way wrote: slots, then places
    struct gw_packed_slot *slots;
    size_t slot_count;
    size_t slot_room;
    uint8_t *staged_bytes;
    size_t staged_size;
    size_t staged_room;
    struct gw_block block; // being filled
    struct gw_block_room room;
    uint64_t block_next; // behind the last durable one
    uint64_t records;    // in the table, dead ones among them
    uint64_t records_staged;
    uint64_t debt; // records compaction may look at
    uint64_t debt_staged;
    bool resting;  // no compaction: what it writes has no room
    bool prepared; // `last` has places for what is staged
};

// Where the record of a device lies, and whose it is.
struct gw_packed_of {
    uint64_t place;
    uint64_t id;
};

struct gw_store_read;
struct gw_store_visitor;

void gw_packed_init(struct gw_packed *packed, const struct base_hash_key *key);
void gw_packed_done(struct gw_packed *packed);
// Builds the index. NOMEM, IO, CORRUPT.
BASE_NODISCARD enum base_status gw_packed_open(struct gw_store *store, struct base_error *error);

// ---- Within the writer's transaction

// A transaction begins, once more perhaps: nothing is staged.
void gw_packed_begin(struct gw_packed *packed);
// 0 or ENOMEM, both.
int gw_packed_put(struct gw_store_txn *txn, uint64_t id, struct base_span bytes);
int gw_packed_delete(struct gw_store_txn *txn, uint64_t id);
// NOT_FOUND: none, or it is damaged, which is noted. Borrowed until the next one, or put.
enum base_status gw_packed_get(struct gw_store_txn *txn, uint64_t id, struct base_span *out);
bool gw_packed_left_out(struct gw_store_txn *txn, uint64_t id);
enum base_status gw_packed_txn_scan(struct gw_store_txn *txn, const struct gw_key *from,
                                    struct gw_store_visitor visitor);
// Compacts, writes what is staged and makes room for it: after this only the commit can fail.
int gw_packed_finish(struct gw_store_txn *txn);
// Into the block under way, which is put when it is full.
int gw_packed_append(struct gw_store_txn *txn, uint64_t id, struct base_span bytes, bool damaged,
                     uint64_t *out_place);
// What is left of the block under way, and a place in the index for each record that is staged.
int gw_packed_flush(struct gw_store_txn *txn);
// packed_compact.c: looks at so many records more than the ones before left over, if there is
// reason to.
int gw_packed_compact(struct gw_store_txn *txn, uint64_t written);
// The commit is durable: what was staged is in force.
void gw_packed_committed(struct gw_packed *packed);
// Makes room in a map that cannot grow, in transactions of its own. MDB_MAP_FULL: there was nothing
// to remove.
int gw_packed_reclaim(struct gw_store *store);

// ---- Reading, from any thread

// As gw_store_read_get; NOMEM besides.
enum base_status gw_packed_read(struct gw_store_read *read, uint64_t id, struct base_span *out);
enum base_status gw_packed_scan(struct gw_store_read *read, const struct gw_key *from,
                                struct gw_store_visitor visitor);
enum base_status gw_packed_read_all(struct gw_store_read *read, struct gw_store_visitor visitor);
uint64_t gw_packed_count(struct gw_packed *packed);
// The next ids in order, from one on.
void gw_packed_ids(struct gw_packed *packed, uint64_t from, struct gw_id_chunk *out);
// The place of the last record of an id; 0: it has none.
uint64_t gw_packed_place_of(struct gw_packed *packed, uint64_t id);
void gw_packed_read_done(struct gw_store_read *read);

// ---- For stores being made and checked

// Walks the blocks. What counts is behind the last one. The index is the caller's, also on failure.
struct gw_packed_built {
    struct gw_id_rows last;
    uint64_t block_next;
    uint64_t records;
};
// MDB_CORRUPTED: it cannot be told whose records these are.
int gw_packed_build(MDB_txn *txn, MDB_dbi table, struct gw_packed_built *out);

#endif
