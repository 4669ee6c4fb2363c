// What the files of the store share. Nobody else includes this: lmdb.h ends here.
#ifndef GW_STORE_PRIVATE_H
#define GW_STORE_PRIVATE_H

#include "store/bell.h"
#include "store/store.h"

#include <lmdb.h>
#include <pthread.h>
#include <stdatomic.h>

#define GW_STORE_PATH_MAX 4096

struct gw_store_read {
    struct gw_store_read *next; // in the pool
    struct gw_store *store;
    MDB_txn *txn;
};

// The write transaction of the writer thread. `fault` is the first failed put or get: it condemns
// the group.
struct gw_store_txn {
    struct gw_store *store;
    MDB_txn *txn;
    int fault;
};

struct gw_store {
    MDB_env *env;
    MDB_dbi tables[GW_TABLE_COUNT];
    char dir[GW_STORE_PATH_MAX];
    const struct base_log *log;
    uint64_t map_bytes_max;
    uint32_t commit_delay_us;
    bool read_only;
    int lock_fd;

    // Held shared by every open read transaction, exclusively while the map grows.
    pthread_rwlock_t map_gate;
    pthread_mutex_t pool_lock;
    struct gw_store_read *pool;

    pthread_t writer;
    bool writer_started;
    struct gw_bell bell;
    pthread_mutex_t queue_lock;
    struct gw_store_op *queue_first;
    struct gw_store_op *queue_last;
    uint64_t queue_count;
    uint64_t order_next;
    bool queue_urgent;
    bool stopping;
    struct gw_store_op *group[GW_STORE_GROUP_MAX]; // the writer's own

    _Atomic uint64_t commits;
    _Atomic uint64_t operations;
    _Atomic uint64_t failed_groups;
    _Atomic uint64_t growths;
    _Atomic uint64_t group_max;
    _Atomic uint64_t temp_counter;
};

enum base_status gw_store_status(int rc);
enum base_status gw_store_write_meta(struct gw_store *store, struct base_error *error);
void *gw_store_writer_main(void *arg);
// 0 when it grew, MDB_MAP_FULL at the maximum. No transaction of the writer may be open.
int gw_store_grow(struct gw_store *store);
// Removes what an interrupted put left behind, makes the folders.
enum base_status gw_store_files_open(struct gw_store *store, struct base_error *error);
bool gw_store_path(const struct gw_store *store, char *out, size_t capacity, const char *format,
                   ...) BASE_PRINTF(4, 5);

#endif
