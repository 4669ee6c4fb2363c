// Where a device's record lies in the table of the environment itself, for tests that damage it.
#ifndef PACKED_ROWS_H
#define PACKED_ROWS_H

#include "store/store.h"
#include "test_kit.h"

#include <lmdb.h>

// The key of the newest row of a device.
static inline struct gw_key packed_row_key(MDB_txn *txn, MDB_dbi devices, uint64_t device_id)
{
    struct gw_key key = {.size = 0};
    MDB_cursor *cursor = NULL;
    MDB_val k;
    MDB_val v;
    uint64_t id;
    assert_int_equal(mdb_cursor_open(txn, devices, &cursor), 0);
    while (mdb_cursor_get(cursor, &k, &v, MDB_NEXT) == 0) {
        if (gw_key_read_u64(k.mv_data, k.mv_size, 1, &id) && id == device_id) {
            memcpy(key.bytes, k.mv_data, k.mv_size);
            key.size = k.mv_size;
        }
    }
    mdb_cursor_close(cursor);
    assert_int_equal(key.size, 17);
    return key;
}

#endif
