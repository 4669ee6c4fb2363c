// Device records packed by recency. LMDB writes whole pages of 4 KB, so records that lie under
// their ids cost a page each. Here a record is written behind all others instead: what one commit
// writes lies side by side in full pages.
//
//   devices      u64 row, u64 id  ->  bytes, u64 id     rows count up from 1; the last of an id
//                                                       counts, the ones before it are dead
//
// A row without bytes ends its device's record: the dead rows before it must not come back. A
// damaged row is the last of its id all the same, and left out; no older one takes its place. The
// id stands in the key and at the value's end, far apart, so that damage to one of them does not
// make it a row of nobody.
//
// In memory lies which row is the last of each id, in the order of ids (id_rows.h): about 12 bytes
// a device where there are millions. It is built by a walk through the rows when the store opens,
// and changes when a transaction is durable, not before: until then the transaction has what it
// wrote in an index of its own (row_index.h), which an abort forgets.
//
// Readers. Their snapshot may be older than the index: then the row is looked for again in one of
// now and copied, and the copy lives as long as the read. It may be one commit newer than the
// index, too; therefore a row is only ever removed in a transaction after that which made it dead.
//
// Compaction is the writer's, within the transactions of groups, from the oldest row on. Only so
// may the row that ends a record go without a look at others: what it ended went before.
//
// Private to the store; store_private.h includes it. Functions return codes of LMDB where they
// return int.
#ifndef GW_STORE_PACKED_H
#define GW_STORE_PACKED_H

#include "base/error.h"
#include "store/id_rows.h"
#include "store/row_index.h"
#include "store/store.h"

#include <lmdb.h>
#include <pthread.h>

struct gw_packed {
    pthread_rwlock_t lock;
    struct gw_id_rows last; // of what is durable; the writer changes it under the lock
    // Of the writer alone:
    struct gw_row_index staged; // what the transaction under way wrote
    uint64_t row_next;          // behind the last durable row
    uint64_t row_staged;        // behind the last one of the transaction
    uint64_t debt;              // rows compaction may look at
    uint64_t debt_staged;
    bool resting;  // no compaction: what it writes has no room
    bool prepared; // `last` has places for what is staged
};

struct gw_packed_place {
    uint64_t row;
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
int gw_packed_put(struct gw_store_txn *txn, uint64_t id, struct base_span bytes);
int gw_packed_delete(struct gw_store_txn *txn, uint64_t id);
// NOT_FOUND: none, or it is damaged, which is noted. Borrowed until the next put.
enum base_status gw_packed_get(struct gw_store_txn *txn, uint64_t id, struct base_span *out);
bool gw_packed_left_out(struct gw_store_txn *txn, uint64_t id);
enum base_status gw_packed_txn_scan(struct gw_store_txn *txn, const struct gw_key *from,
                                    struct gw_store_visitor visitor);
// Compacts and makes room for what is staged: after this only the commit can fail.
int gw_packed_finish(struct gw_store_txn *txn);
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
// The last row of an id; 0: it has none.
uint64_t gw_packed_row_of(struct gw_packed *packed, uint64_t id);
void gw_packed_read_done(struct gw_store_read *read);

// ---- For stores being made and checked

struct gw_key gw_packed_key(struct gw_packed_place place);
// Where a row lies, by its key, sound or not. False: it is no key of a row.
bool gw_packed_key_read(MDB_val key, struct gw_packed_place *out);
// The bytes of a row in an unsealed value. Where there are none, it ends the record.
bool gw_packed_bytes(struct base_span value, struct base_span *out);
// Does its seal fit, and what does it hold then?
bool gw_packed_is_sound(MDB_val key, MDB_val value, struct base_span *out);
// Of whom a damaged row may be: one id, or two where key and value do not say the same and both may
// be wrong. How many.
uint32_t gw_packed_owners(struct gw_packed_place place, MDB_val value, uint64_t out[2]);
// Without bytes it ends the record.
int gw_packed_put_row(MDB_txn *txn, MDB_dbi rows, struct gw_packed_place place,
                      struct base_span bytes, unsigned flags);
// Bytes that were damaged where they lay: they stay so.
int gw_packed_put_damaged(MDB_txn *txn, MDB_dbi rows, struct gw_packed_place place,
                          struct base_span bytes, unsigned flags);
// A value of the table with its seal, which need not fit: what is damaged stays so.
int gw_packed_put_raw(MDB_txn *txn, MDB_dbi rows, struct gw_packed_place place,
                      struct base_span value, unsigned flags);
// Walks the rows. *out_row_next is behind the last one. `last` is the caller's, also on failure.
int gw_packed_build(MDB_txn *txn, MDB_dbi rows, struct gw_id_rows *last, uint64_t *out_row_next);

#endif
