// Rows of device records of schema 5 and 6; see rows_before.h. Called by store_make.c alone, on one
// thread, for a store that is rewritten or salvaged. A damaged row is the last of its id all the
// same: no older one comes back in its place.
#include "store/rows_before.h"

#include "base/check.h"
#include "base/record_seal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define KEY_BYTES   (1u + 8u + 8u)
#define ID_BYTES    8u
#define ID_AND_SEAL (ID_BYTES + BASE_SEAL_BYTES)
#define ROW_GONE    UINT64_MAX

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

// The version is not asked for: the seal is over it, and damage there leaves the numbers.
bool gw_row_key_read(MDB_val key, struct gw_row_place *out)
{
    if (key.mv_size != KEY_BYTES) {
        return false;
    }
    const uint8_t *bytes = key.mv_data;
    *out = (struct gw_row_place){get_u64(bytes + 1), get_u64(bytes + 9)};
    return out->row > 0 && out->row < ROW_GONE - 1;
}

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

uint32_t gw_row_owners(struct gw_row_place place, MDB_val value, uint64_t out[2])
{
    out[0] = place.id;
    out[1] = place.id;
    if (value.mv_size >= ID_AND_SEAL) {
        out[1] = get_u64((const uint8_t *)value.mv_data + value.mv_size - ID_AND_SEAL);
    }
    if (out[0] == out[1]) {
        return 1;
    }
    struct gw_key key = gw_key_u64_u64(place.row, place.id);
    struct gw_key other_key = gw_key_u64_u64(place.row, out[1]);
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
static int note_damaged(struct gw_id_rows *last, struct gw_row_place place, MDB_val value)
{
    uint64_t ids[2];
    uint32_t count = gw_row_owners(place, value, ids);
    int rc = note_last(last, ids[0], place.row);
    if (rc == 0 && count == 2 && gw_id_rows_get(last, ids[1]) != 0) {
        rc = note_last(last, ids[1], place.row);
    }
    return rc;
}

bool gw_row_is_sound(MDB_val key, MDB_val value, struct base_span *out)
{
    struct base_span bytes;
    if (base_record_unseal(gw_table_name(GW_TABLE_DEVICES),
                           (struct base_span){key.mv_data, key.mv_size},
                           (struct base_span){value.mv_data, value.mv_size}, &bytes) != BASE_OK ||
        bytes.size < ID_BYTES) {
        return false;
    }
    *out = (struct base_span){bytes.data, bytes.size - ID_BYTES};
    return true;
}

static int note_row(struct gw_id_rows *last, struct gw_row_place place, MDB_val key, MDB_val value)
{
    struct base_span bytes;
    if (!gw_row_is_sound(key, value, &bytes)) {
        return note_damaged(last, place, value);
    }
    if (bytes.size == 0) {
        gw_id_rows_remove(last, place.id);
        return 0;
    }
    return note_last(last, place.id, place.row);
}

int gw_rows_build(MDB_txn *txn, MDB_dbi rows, struct gw_id_rows *last)
{
    MDB_cursor *cursor = NULL;
    MDB_val k;
    MDB_val v;
    int rc = mdb_cursor_open(txn, rows, &cursor);
    base_assert(last->count == 0);
    while (rc == 0 && (rc = mdb_cursor_get(cursor, &k, &v, MDB_NEXT)) == 0) {
        struct gw_row_place place;
        if (gw_row_key_read(k, &place)) {
            rc = note_row(last, place, k, v);
        }
    }
    mdb_cursor_close(cursor);
    return rc == MDB_NOTFOUND ? 0 : rc;
}
