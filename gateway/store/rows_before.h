// Device records as stores of schema 5 and 6 kept them: each in a row of its own. Read when such a
// store is rewritten, and by salvage; nobody writes them any more.
//
//   devices      u64 row, u64 id  ->  bytes, u64 id     rows count up from 1; the last of an id
//                                                       counts; without bytes it ends the record
//
// The id stands in the key and at the value's end, behind which is the seal of any record. Private
// to the store.
#ifndef GW_STORE_ROWS_BEFORE_H
#define GW_STORE_ROWS_BEFORE_H

#include "store/id_rows.h"
#include "store/store.h"

#include <lmdb.h>

struct gw_row_place {
    uint64_t row;
    uint64_t id;
};

// Where a row lies, by its key, sound or not. False: it is no key of a row.
bool gw_row_key_read(MDB_val key, struct gw_row_place *out);
// Does its seal fit, and what does it hold then?
bool gw_row_is_sound(MDB_val key, MDB_val value, struct base_span *out);
// Of whom a damaged row may be: one id, or two where key and value do not say the same and both may
// be wrong. How many.
uint32_t gw_row_owners(struct gw_row_place place, MDB_val value, uint64_t out[2]);
// Walks the rows: which is the last of each id. The index is the caller's, also on failure. A code
// of LMDB.
int gw_rows_build(MDB_txn *txn, MDB_dbi rows, struct gw_id_rows *last);

#endif
