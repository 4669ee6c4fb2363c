// Where a device's record lies in the table of the environment itself, for tests that damage it.
#ifndef PACKED_ROWS_H
#define PACKED_ROWS_H

#include "store/store.h"
#include "store/store_block.h"
#include "test_kit.h"

#include <lmdb.h>

#define PACKED_VALUE_MAX 4096u

// The record within the value of its block: bytes, id, seal.
struct packed_record {
    struct gw_key key; // of the block
    size_t at;
    size_t size;
    size_t value_size;
};

// Where the i-th record of a sound block lies.
static inline void packed_bounds(MDB_val v, uint32_t i, struct packed_record *out)
{
    const uint8_t *ends = (const uint8_t *)v.mv_data + 17;
    const size_t head = 17u + 2u * ends[-1];
    const size_t from = i == 0 ? 0 : (ends[2 * i - 2] | (size_t)ends[2 * i - 1] << 8) & 0x7fffu;
    out->at = head + from;
    out->size = ((ends[2 * i] | (size_t)ends[2 * i + 1] << 8) & 0x7fffu) - from;
    out->value_size = v.mv_size;
}

// The newest record of a device.
static inline struct packed_record packed_record_of(MDB_txn *txn, MDB_dbi devices,
                                                    uint64_t device_id)
{
    struct packed_record found = {.key.size = 0};
    MDB_cursor *cursor = NULL;
    MDB_val k;
    MDB_val v;
    assert_int_equal(mdb_cursor_open(txn, devices, &cursor), 0);
    while (mdb_cursor_get(cursor, &k, &v, MDB_NEXT) == 0) {
        struct gw_block_view view;
        struct gw_block_room room;
        assert_true(gw_block_open(k, v, &view));
        for (uint32_t i = 0; i < view.count; i++) {
            const struct gw_block_record record = gw_block_get(&view, i, &room);
            if (record.is_there && record.id == device_id) {
                memcpy(found.key.bytes, k.mv_data, k.mv_size);
                found.key.size = k.mv_size;
                packed_bounds(v, i, &found);
            }
        }
    }
    mdb_cursor_close(cursor);
    assert_int_not_equal(found.key.size, 0);
    assert_true(found.value_size <= PACKED_VALUE_MAX);
    return found;
}

// Its value, copied.
static inline MDB_val packed_value_of(MDB_txn *txn, MDB_dbi devices, struct packed_record *record,
                                      uint8_t out[PACKED_VALUE_MAX])
{
    MDB_val k = {record->key.size, record->key.bytes};
    MDB_val v;
    assert_int_equal(mdb_get(txn, devices, &k, &v), 0);
    assert_true(v.mv_size <= PACKED_VALUE_MAX);
    memcpy(out, v.mv_data, v.mv_size);
    return (MDB_val){v.mv_size, out};
}

static inline void packed_value_put(MDB_txn *txn, MDB_dbi devices, struct packed_record *record,
                                    MDB_val value)
{
    MDB_val k = {record->key.size, record->key.bytes};
    assert_int_equal(mdb_put(txn, devices, &k, &value, 0), 0);
}

#endif
