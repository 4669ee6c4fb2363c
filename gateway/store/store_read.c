// Read transactions: a pool of them, and what they return. From any thread, by svc, by the blobs
// and by the offline tools; see store.h. A read holds the map's gate as a reader, for the writer
// may only grow the map while nobody reads. A transaction that ends is reset, not freed, so it pins
// no pages and costs nothing to take again. Every value passes its checksum on the way out.
#include "store/store_private.h"

#include "base/check.h"
#include "base/record_seal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void gw_store_key_hex(const void *key, size_t size, char out[GW_STORE_KEY_HEX])
{
    out[0] = '\0';
    for (size_t i = 0; i < size && i < GW_STORE_KEY_MAX; i++) {
        (void)snprintf(out + 2 * i, 3, "%02x", ((const uint8_t *)key)[i]);
    }
}

void gw_store_note_damage(struct gw_store *store, enum gw_table table, MDB_val key)
{
    uint64_t before = atomic_fetch_add_explicit(&store->damaged, 1, memory_order_relaxed);
    if (before >= GW_STORE_DAMAGE_LOGGED) {
        return;
    }
    char hex[GW_STORE_KEY_HEX];
    gw_store_key_hex(key.mv_data, key.mv_size, hex);
    base_log_error(
        store->log, "store", "table %s, key %s: the record is damaged%s", gw_table_name(table), hex,
        gw_table_spares(table) ? " and left out" : "; `walle-store check` finds them all");
}

enum base_status gw_store_open_value(struct gw_store *store, enum gw_table table, MDB_val key,
                                     MDB_val value, struct base_span *out)
{
    struct base_span k = {key.mv_data, key.mv_size};
    struct base_span v = {value.mv_data, value.mv_size};
    if (base_record_unseal(gw_table_name(table), k, v, out) == BASE_OK) {
        return BASE_OK;
    }
    gw_store_note_damage(store, table, key);
    return gw_table_spares(table) ? BASE_ERR_NOT_FOUND : BASE_ERR_CORRUPT;
}

// A reset transaction from the pool, or a new one.
int gw_store_pool_take(struct gw_store *store, struct gw_store_read **out)
{
    pthread_mutex_lock(&store->pool_lock);
    struct gw_store_read *read = store->pool;
    if (read != NULL) {
        base_assert(read->store == store);
        store->pool = read->next;
    }
    pthread_mutex_unlock(&store->pool_lock);
    if (read != NULL) {
        int rc = mdb_txn_renew(read->txn);
        if (rc == 0) {
            *out = read;
            return 0;
        }
        mdb_txn_abort(read->txn);
        free(read);
        return rc;
    }
    read = calloc(1, sizeof(*read));
    if (read == NULL) {
        return ENOMEM;
    }
    read->store = store;
    int rc = mdb_txn_begin(store->env, NULL, MDB_RDONLY, &read->txn);
    if (rc != 0) {
        free(read);
        return rc;
    }
    *out = read;
    return 0;
}

enum base_status gw_store_read_begin(struct gw_store *store, struct gw_store_read **out_read)
{
    pthread_rwlock_rdlock(&store->map_gate);
    int rc = gw_store_pool_take(store, out_read);
    if (rc != 0) {
        pthread_rwlock_unlock(&store->map_gate);
    }
    return gw_store_status(rc);
}

void gw_store_pool_return(struct gw_store_read *read)
{
    struct gw_store *store = read->store;
    base_assert(read->lent == NULL);
    mdb_txn_reset(read->txn);
    pthread_mutex_lock(&store->pool_lock);
    read->next = store->pool;
    store->pool = read;
    pthread_mutex_unlock(&store->pool_lock);
}

void gw_store_read_end(struct gw_store_read *read)
{
    if (read == NULL) {
        return;
    }
    struct gw_store *store = read->store;
    gw_packed_read_done(read);
    gw_store_pool_return(read);
    pthread_rwlock_unlock(&store->map_gate);
}

enum base_status gw_store_read_get(struct gw_store_read *read, enum gw_table table,
                                   const struct gw_key *key, struct base_span *out)
{
    base_assert(table < GW_TABLE_COUNT);
    base_assert(key->size > 0 && key->size <= sizeof(key->bytes));
    MDB_val k = {key->size, (void *)(uintptr_t)key->bytes};
    MDB_val v;
    if (read->store->tables[table] == GW_STORE_NO_TABLE) {
        return BASE_ERR_NOT_FOUND;
    }
    if (table == GW_TABLE_DEVICES) {
        uint64_t id;
        return gw_key_read_u64(key->bytes, key->size, 0, &id) ? gw_packed_read(read, id, out)
                                                              : BASE_ERR_NOT_FOUND;
    }
    int rc = mdb_get(read->txn, read->store->tables[table], &k, &v);
    return rc == 0 ? gw_store_open_value(read->store, table, k, v, out) : gw_store_status(rc);
}

enum base_status gw_store_scan(struct gw_store *store, MDB_txn *txn, enum gw_table table,
                               const struct gw_key *from, struct gw_store_visitor visitor)
{
    base_assert(table < GW_TABLE_COUNT);
    base_assert(from->size > 0 && from->size <= sizeof(from->bytes));
    if (store->tables[table] == GW_STORE_NO_TABLE) {
        return BASE_OK;
    }
    MDB_cursor *cursor = NULL;
    int rc = mdb_cursor_open(txn, store->tables[table], &cursor);
    if (rc != 0) {
        return gw_store_status(rc);
    }
    MDB_val k = {from->size, (void *)(uintptr_t)from->bytes};
    MDB_val v;
    rc = mdb_cursor_get(cursor, &k, &v, MDB_SET_RANGE);
    enum base_status status = BASE_OK;
    while (rc == 0) {
        struct base_span value;
        status = gw_store_open_value(store, table, k, v, &value);
        bool spared = status == BASE_ERR_NOT_FOUND; // damaged, and left out
        if (!spared &&
            (status != BASE_OK ||
             !visitor.visit(visitor.ctx, (struct base_span){k.mv_data, k.mv_size}, value))) {
            break;
        }
        status = BASE_OK;
        rc = mdb_cursor_get(cursor, &k, &v, MDB_NEXT);
    }
    mdb_cursor_close(cursor);
    return rc == MDB_NOTFOUND || rc == 0 ? status : gw_store_status(rc);
}

enum base_status gw_store_read_scan(struct gw_store_read *read, enum gw_table table,
                                    const struct gw_key *from, gw_store_visit_fn visit, void *ctx)
{
    const struct gw_store_visitor visitor = {visit, ctx};
    if (table == GW_TABLE_DEVICES) {
        return gw_packed_scan(read, from, visitor);
    }
    return gw_store_scan(read->store, read->txn, table, from, visitor);
}

enum base_status gw_store_read_all(struct gw_store_read *read, enum gw_table table,
                                   gw_store_visit_fn visit, void *ctx)
{
    const struct gw_store_visitor visitor = {visit, ctx};
    const struct gw_key from = {.bytes = {0}, .size = 1};
    if (table == GW_TABLE_DEVICES && read->store->tables[table] != GW_STORE_NO_TABLE) {
        return gw_packed_read_all(read, visitor);
    }
    return gw_store_scan(read->store, read->txn, table, &from, visitor);
}

enum base_status gw_store_read_seek(struct gw_store_read *read, enum gw_table table,
                                    const struct gw_key *from, struct gw_key *out_key)
{
    base_assert(table != GW_TABLE_DEVICES); // whose rows have no order of ids
    if (read->store->tables[table] == GW_STORE_NO_TABLE) {
        return BASE_ERR_NOT_FOUND;
    }
    MDB_cursor *cursor = NULL;
    MDB_val unread;
    MDB_val k = {from->size, (void *)(uintptr_t)from->bytes};
    int rc = mdb_cursor_open(read->txn, read->store->tables[table], &cursor);
    if (rc != 0) {
        return gw_store_status(rc);
    }
    base_assert(from->size > 0 && from->size <= sizeof(from->bytes));
    rc = mdb_cursor_get(cursor, &k, &unread, MDB_SET_RANGE);
    enum base_status status = gw_store_status(rc);
    if (rc == 0 && k.mv_size > sizeof(out_key->bytes)) {
        status = BASE_ERR_CORRUPT;
    } else if (rc == 0) {
        memcpy(out_key->bytes, k.mv_data, k.mv_size);
        out_key->size = k.mv_size;
    }
    mdb_cursor_close(cursor);
    return status;
}

uint64_t gw_store_read_count(struct gw_store_read *read, enum gw_table table)
{
    MDB_stat stat;
    if (read->store->tables[table] == GW_STORE_NO_TABLE) {
        return 0;
    }
    if (table == GW_TABLE_DEVICES) {
        return gw_packed_count(&read->store->packed);
    }
    int rc = mdb_stat(read->txn, read->store->tables[table], &stat);
    return rc == 0 ? stat.ms_entries : 0;
}
