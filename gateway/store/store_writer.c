// The writer thread: group commit. It alone opens write transactions. Operations arrive by
// gw_store_submit from any thread; their `apply` and `done` run here. Callers of submit are the
// parts of svc that keep something. A group is applied in the order of its sort keys, so
// neighbouring pages are written together; it may be applied twice when the map has to grow. `done`
// comes after the fsync and never before. A tool without a thread calls gw_store_step itself.
#include "store/store_private.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/os/write_all.h"
#include "base/record_seal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GROW_TRIES_MAX 32 // doublings within one group; the map limit ends them long before

enum base_status gw_store_submit(struct gw_store *store, struct gw_store_op *op)
{
    base_assert(op->apply != NULL);
    base_assert(op->done != NULL);
    pthread_mutex_lock(&store->queue_lock);
    base_assert((store->queue_first == NULL) == (store->queue_count == 0));
    enum base_status status = BASE_OK;
    if (store->stopping || store->read_only) {
        status = BASE_ERR_CLOSED;
    } else if (store->queue_count >= GW_STORE_QUEUE_MAX) {
        status = BASE_ERR_BUSY;
    }
    bool ring = false;
    if (status == BASE_OK) {
        op->next = NULL;
        op->damaged = false;
        op->order = store->order_next++;
        if (store->queue_last != NULL) {
            store->queue_last->next = op;
        } else {
            store->queue_first = op;
        }
        store->queue_last = op;
        // The writer sleeps only on an empty queue, or to gather company for ops that can wait.
        ring = store->queue_count == 0 || op->urgent;
        store->queue_count++;
        store->queue_urgent = store->queue_urgent || op->urgent;
    }
    pthread_mutex_unlock(&store->queue_lock);
    if (ring) {
        gw_bell_ring(&store->bell);
    }
    return status;
}

// Takes up to GW_STORE_GROUP_MAX operations off the queue.
static uint32_t take_group(struct gw_store *store)
{
    uint32_t count = 0;
    pthread_mutex_lock(&store->queue_lock);
    while (store->queue_first != NULL && count < GW_STORE_GROUP_MAX) {
        struct gw_store_op *op = store->queue_first;
        store->queue_first = op->next;
        store->group[count++] = op;
        store->queue_count--;
    }
    if (store->queue_first == NULL) {
        base_assert(store->queue_count == 0);
        store->queue_last = NULL;
        store->queue_urgent = false;
    }
    pthread_mutex_unlock(&store->queue_lock);
    return count;
}

static int compare_ops(const void *a, const void *b)
{
    const struct gw_store_op *x = *(struct gw_store_op *const *)a;
    const struct gw_store_op *y = *(struct gw_store_op *const *)b;
    if (x->sort_key != y->sort_key) {
        return x->sort_key < y->sort_key ? -1 : 1;
    }
    return x->order < y->order ? -1 : x->order > y->order;
}

int gw_store_grow(struct gw_store *store)
{
    MDB_envinfo info;
    int rc = mdb_env_info(store->env, &info);
    if (rc != 0) {
        return rc;
    }
    uint64_t size = info.me_mapsize;
    if (size >= store->map_bytes_max) {
        return MDB_MAP_FULL;
    }
    size = size > store->map_bytes_max / 2 ? store->map_bytes_max : size * 2;
    base_assert(size > info.me_mapsize);
    base_assert(size <= store->map_bytes_max);
    pthread_rwlock_wrlock(&store->map_gate);
    rc = mdb_env_set_mapsize(store->env, (size_t)size);
    pthread_rwlock_unlock(&store->map_gate);
    if (rc == 0) {
        atomic_fetch_add_explicit(&store->growths, 1, memory_order_relaxed);
    }
    return rc;
}

// One try: every op applied in one transaction, but those that met damage in an earlier one. The
// result is the fault that condemned the group.
static int apply_group(struct gw_store *store, uint32_t count)
{
    struct gw_store_txn txn = {.store = store};
    base_assert(count > 0);
    int rc = mdb_txn_begin(store->env, NULL, 0, &txn.txn);
    if (rc != 0) {
        return rc;
    }
    gw_packed_begin(&store->packed);
    for (uint32_t i = 0; i < count && txn.fault == 0; i++) {
        struct gw_store_op *op = store->group[i];
        if (!op->damaged) {
            op->status = op->apply(&txn, op);
            op->damaged = txn.fault == MDB_CORRUPTED;
        }
    }
    if (txn.fault == 0) {
        txn.fault = gw_packed_finish(&txn);
    }
    if (txn.fault != 0) {
        mdb_txn_abort(txn.txn);
        return txn.fault;
    }
    rc = mdb_txn_commit(txn.txn);
    if (rc == 0) {
        gw_packed_committed(&store->packed);
    }
    return rc;
}

// More room for a group. A map that may not grow can have dead rows in it.
static int make_room(struct gw_store *store)
{
    int rc = gw_store_grow(store);
    if (rc == MDB_MAP_FULL && !store->packed.resting) {
        rc = gw_packed_reclaim(store);
        store->packed.resting = true; // once a group, and without a part of its own
    }
    return rc;
}

// Tries until the map has room and nothing damaged is met: what an op wrote before it met damage
// must not be there, so the others are applied again without it.
static int run_group(struct gw_store *store, uint32_t count)
{
    uint32_t left_out = 0;
    store->packed.resting = false;
    for (int grown = 0;;) {
        int rc = apply_group(store, count);
        if (rc == MDB_MAP_FULL && grown < GROW_TRIES_MAX) {
            grown++;
            rc = make_room(store);
            if (rc != 0) {
                return rc;
            }
        } else if (rc == MDB_CORRUPTED && left_out < GW_STORE_LEFT_OUT_MAX) {
            left_out++;
        } else {
            return rc;
        }
    }
}

// A disk or map without room is said once when it begins and once when it is over, and counts as
// long. Where small groups find room between large ones that find none, it is said once in
// GW_STORE_ROOM_SAID_US.
static void note_room(struct gw_store *store, enum base_status outcome)
{
    bool full = outcome == BASE_ERR_FULL;
    if (!full && outcome != BASE_OK) {
        return; // another fault says nothing of room
    }
    atomic_store_explicit(&store->room.full, full, memory_order_relaxed);
    uint64_t now_us = base_clock_mono_us();
    base_assert(now_us >= store->room.said_us);
    bool said_long_ago =
        store->room.said_us == 0 || now_us - store->room.said_us >= GW_STORE_ROOM_SAID_US;
    if (full && !store->room.said && said_long_ago) {
        store->room.said = true;
        store->room.said_us = now_us;
        base_log_error(
            store->log, "store",
            "%.200s/store.mdb has no room (disk full, or store.map_bytes_max): changes and "
            "reports are refused until there is",
            store->dir);
    } else if (!full && store->room.said) {
        store->room.said = false;
        base_log_info(store->log, "store", "%.200s/store.mdb has room again", store->dir);
    }
}

// What a group failed for. LMDB makes EIO of a write that came back short, as one does that meets
// the end of the disk, of a quota or of RLIMIT_FSIZE; a disk that cannot write says EIO, too. So
// the system is asked, where it stopped: an answer for who posted (507, not 500) as exact as its
// own. Free blocks (statvfs) would tell nothing of quotas and limits, and of the wrong moment.
static enum base_status status_of_group(const struct gw_store *store, int rc)
{
    enum base_status status = gw_store_status(rc);
    mdb_filehandle_t fd = -1;
    if (rc == EIO && mdb_env_get_fd(store->env, &fd) == 0 &&
        base_write_end_look(fd) == BASE_ERR_FULL) {
        status = BASE_ERR_FULL;
    }
    return status;
}

static void commit_group(struct gw_store *store, uint32_t count)
{
    base_assert(count > 0);
    base_assert(count <= GW_STORE_GROUP_MAX);
    qsort(store->group, count, sizeof(store->group[0]), compare_ops);
    int rc = run_group(store, count);
    if (rc != 0) {
        atomic_fetch_add_explicit(&store->failed_groups, 1, memory_order_relaxed);
        base_log_debug(store->log, "store", "group of %u failed: %s", count, mdb_strerror(rc));
    } else {
        atomic_fetch_add_explicit(&store->commits, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&store->operations, count, memory_order_relaxed);
    }
    if (count > atomic_load_explicit(&store->group_max, memory_order_relaxed)) {
        atomic_store_explicit(&store->group_max, count, memory_order_relaxed);
    }
    enum base_status failed = status_of_group(store, rc);
    base_assert((rc == 0) == (failed == BASE_OK)); // nobody takes it for stored otherwise
    note_room(store, failed);
    for (uint32_t i = 0; i < count; i++) {
        struct gw_store_op *op = store->group[i];
        op->done(op, rc != 0 ? failed : op->damaged ? BASE_ERR_CORRUPT : op->status);
    }
}

static bool is_urgent(struct gw_store *store)
{
    pthread_mutex_lock(&store->queue_lock);
    bool urgent = store->queue_urgent || store->stopping;
    pthread_mutex_unlock(&store->queue_lock);
    return urgent;
}

// Waits for company of what is in the queue. The bell may have been rung for the first of them,
// while the group before was being written: that is no reason to hurry.
static void gather(struct gw_store *store)
{
    if (gw_bell_wait(&store->bell, store->commit_delay_us) && !is_urgent(store)) {
        (void)gw_bell_wait(&store->bell, store->commit_delay_us);
    }
}

void *gw_store_writer_main(void *arg)
{
    struct gw_store *store = arg;
    base_assert(!store->read_only && !store->no_thread);
    for (;;) {
        pthread_mutex_lock(&store->queue_lock);
        bool empty = store->queue_count == 0;
        bool urgent = store->queue_urgent;
        bool stop = store->stopping;
        pthread_mutex_unlock(&store->queue_lock);
        if (empty && stop) {
            break;
        }
        if (empty) {
            (void)gw_bell_wait(&store->bell, UINT64_MAX);
            continue;
        }
        if (!urgent && !stop) {
            gather(store);
        }
        uint32_t count = take_group(store);
        if (count > 0) {
            commit_group(store, count);
        }
    }
    return NULL;
}

bool gw_store_step(struct gw_store *store)
{
    base_assert(!store->no_thread || !store->writer_started);
    uint32_t count = store->no_thread ? take_group(store) : 0;
    if (count > 0) {
        commit_group(store, count);
    }
    return count > 0;
}

// ---- Waiting for one operation

struct waiting_op {
    struct gw_store_op op; // what the writer sees
    struct gw_store_op *inner;
    struct gw_bell bell;
    enum base_status status;
};

static enum base_status waiting_apply(struct gw_store_txn *txn, struct gw_store_op *self)
{
    struct waiting_op *waiting = (struct waiting_op *)self;
    return waiting->inner->apply(txn, waiting->inner);
}

static void waiting_done(struct gw_store_op *self, enum base_status status)
{
    struct waiting_op *waiting = (struct waiting_op *)self;
    waiting->status = status;
    gw_bell_ring(&waiting->bell);
}

enum base_status gw_store_submit_wait(struct gw_store *store, struct gw_store_op *op)
{
    // The writer would wait for itself.
    base_assert(!store->writer_started || !pthread_equal(pthread_self(), store->writer));
    struct waiting_op waiting = {.inner = op};
    waiting.op.apply = waiting_apply;
    waiting.op.done = waiting_done;
    waiting.op.sort_key = op->sort_key;
    waiting.op.urgent = true;
    gw_bell_init(&waiting.bell);
    enum base_status status = gw_store_submit(store, &waiting.op);
    if (status == BASE_OK) {
        while (gw_store_step(store)) {
        }
        (void)gw_bell_wait(&waiting.bell, UINT64_MAX);
        status = waiting.status;
    }
    gw_bell_done(&waiting.bell);
    return status;
}

// ---- Within a transaction

static enum base_status txn_result(struct gw_store_txn *txn, int rc)
{
    if (rc != 0 && rc != MDB_NOTFOUND && txn->fault == 0) {
        txn->fault = rc;
    }
    return gw_store_status(rc);
}

// Of a device's key.
static uint64_t id_of(const struct gw_key *key)
{
    uint64_t id = 0;
    bool ok = gw_key_read_u64(key->bytes, key->size, 0, &id);
    base_assert(ok && key->size == 1 + sizeof(id));
    return ok ? id : 0;
}

enum base_status gw_store_txn_get(struct gw_store_txn *txn, enum gw_table table,
                                  const struct gw_key *key, struct base_span *out)
{
    base_assert(table < GW_TABLE_COUNT);
    base_assert(key->size > 0 && key->size <= sizeof(key->bytes));
    MDB_val k = {key->size, (void *)(uintptr_t)key->bytes};
    MDB_val v;
    if (table == GW_TABLE_DEVICES) {
        return gw_packed_get(txn, id_of(key), out);
    }
    int rc = mdb_get(txn->txn, txn->store->tables[table], &k, &v);
    if (rc != 0) {
        return txn_result(txn, rc);
    }
    enum base_status status = gw_store_open_value(txn->store, table, k, v, out);
    return status == BASE_ERR_CORRUPT ? txn_result(txn, MDB_CORRUPTED) : status;
}

bool gw_store_txn_left_out(struct gw_store_txn *txn, enum gw_table table, const struct gw_key *key)
{
    MDB_val k = {key->size, (void *)(uintptr_t)key->bytes};
    MDB_val v;
    struct base_span value;
    if (table == GW_TABLE_DEVICES) {
        return gw_packed_left_out(txn, id_of(key));
    }
    return mdb_get(txn->txn, txn->store->tables[table], &k, &v) == 0 &&
           base_record_unseal(gw_table_name(table), (struct base_span){k.mv_data, k.mv_size},
                              (struct base_span){v.mv_data, v.mv_size}, &value) != BASE_OK;
}

enum base_status gw_store_txn_scan(struct gw_store_txn *txn, enum gw_table table,
                                   const struct gw_key *from, gw_store_visit_fn visit, void *ctx)
{
    const struct gw_store_visitor visitor = {visit, ctx};
    enum base_status status = table == GW_TABLE_DEVICES
                                  ? gw_packed_txn_scan(txn, from, visitor)
                                  : gw_store_scan(txn->store, txn->txn, table, from, visitor);
    return status == BASE_OK ? BASE_OK : txn_result(txn, MDB_CORRUPTED);
}

enum base_status gw_store_txn_put(struct gw_store_txn *txn, enum gw_table table,
                                  const struct gw_key *key, const void *value, size_t size)
{
    base_assert(table < GW_TABLE_COUNT);
    base_assert(key->size > 0 && key->size <= sizeof(key->bytes));
    MDB_val k = {key->size, (void *)(uintptr_t)key->bytes};
    if (table == GW_TABLE_DEVICES) {
        return txn_result(txn, gw_packed_put(txn, id_of(key), (struct base_span){value, size}));
    }
    return txn_result(txn,
                      gw_store_put_sealed(txn->txn, txn->store->tables[table], gw_table_name(table),
                                          k, (struct base_span){value, size}));
}

enum base_status gw_store_txn_delete(struct gw_store_txn *txn, enum gw_table table,
                                     const struct gw_key *key)
{
    base_assert(table < GW_TABLE_COUNT);
    base_assert(key->size > 0 && key->size <= sizeof(key->bytes));
    MDB_val k = {key->size, (void *)(uintptr_t)key->bytes};
    int rc = table == GW_TABLE_DEVICES ? gw_packed_delete(txn, id_of(key))
                                       : mdb_del(txn->txn, txn->store->tables[table], &k, NULL);
    (void)txn_result(txn, rc);
    return rc == MDB_NOTFOUND ? BASE_OK : gw_store_status(rc);
}

void gw_store_stats(struct gw_store *store, struct gw_store_stats *out)
{
    memset(out, 0, sizeof(*out));
    out->commits = atomic_load_explicit(&store->commits, memory_order_relaxed);
    out->operations = atomic_load_explicit(&store->operations, memory_order_relaxed);
    out->failed_groups = atomic_load_explicit(&store->failed_groups, memory_order_relaxed);
    out->growths = atomic_load_explicit(&store->growths, memory_order_relaxed);
    out->full = atomic_load_explicit(&store->room.full, memory_order_relaxed);
    out->damaged = atomic_load_explicit(&store->damaged, memory_order_relaxed);
    out->group_max = atomic_load_explicit(&store->group_max, memory_order_relaxed);
    pthread_mutex_lock(&store->queue_lock);
    out->queue = store->queue_count;
    pthread_mutex_unlock(&store->queue_lock);
    MDB_envinfo info;
    MDB_stat stat;
    pthread_rwlock_rdlock(&store->map_gate);
    if (mdb_env_info(store->env, &info) == 0 && mdb_env_stat(store->env, &stat) == 0) {
        out->map_bytes = info.me_mapsize;
        out->used_bytes = ((uint64_t)info.me_last_pgno + 1) * stat.ms_psize;
    }
    pthread_rwlock_unlock(&store->map_gate);
}
