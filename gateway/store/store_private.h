// What the files of the store share. Nobody else includes this: lmdb.h ends here.
#ifndef GW_STORE_PRIVATE_H
#define GW_STORE_PRIVATE_H

#include "store/bell.h"
#include "store/store.h"
#include "store/store_packed.h"
#include "store/store_room.h"

#include <limits.h>
#include <lmdb.h>
#include <pthread.h>
#include <stdatomic.h>

#define GW_STORE_SCHEMA_KEY    "schema" // in the table meta
#define GW_STORE_PATH_MAX      4096
#define GW_STORE_DAMAGE_LOGGED 16u // records named in the log; further ones are counted

struct gw_store_read {
    struct gw_store_read *next; // in the pool
    struct gw_store *store;
    MDB_txn *txn;
    struct gw_lent *lent; // packed_read.c: copies that live as long as the read
};

// The writer's transaction. `fault` is the first failed put or get: it condemns the group.
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
    pthread_rwlock_t content_gate; // shared while content is put, exclusive while it is dropped

    struct gw_packed packed;
    pthread_t writer;
    bool writer_started;
    bool no_thread;
    bool lean;
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
    _Atomic uint64_t damaged;
    struct gw_store_room room;
};

// In place of a table that is younger than a store which is only read.
#define GW_STORE_NO_TABLE UINT_MAX
enum base_status gw_store_status(int rc);
// A key's bytes in hexadecimal, for logs and findings; cut at GW_STORE_KEY_MAX bytes.
#define GW_STORE_KEY_HEX (2 * GW_STORE_KEY_MAX + 1)
void gw_store_key_hex(const void *key, size_t size, char out[GW_STORE_KEY_HEX]);
void *gw_store_writer_main(void *arg);
// The bytes of a value as it lies in the environment. A damaged one is logged and counted; it is
// NOT_FOUND where the table can do without it, else CORRUPT.
enum base_status gw_store_open_value(struct gw_store *store, enum gw_table table, MDB_val key,
                                     MDB_val value, struct base_span *out);
void gw_store_note_damage(struct gw_store *store, enum gw_table table, MDB_val key);
// A device's bytes from the value of the block that its record lies in. NOT_FOUND: the record is
// damaged, which is noted, or ends the device's. *out is of the value or of the room.
enum base_status gw_packed_value(struct gw_store *store, struct gw_packed_of of, MDB_val value,
                                 struct gw_block_room *room, struct base_span *out);
// A read transaction that begins now, from the pool, and back. The map's gate must be held. An LMDB
// code.
int gw_store_pool_take(struct gw_store *store, struct gw_store_read **out);
void gw_store_pool_return(struct gw_store_read *read);
struct gw_store_visitor {
    gw_store_visit_fn visit;
    void *ctx;
};
// What gw_store_read_scan says, in any transaction.
enum base_status gw_store_scan(struct gw_store *store, MDB_txn *txn, enum gw_table table,
                               const struct gw_key *from, struct gw_store_visitor visitor);
// Puts a value with its seal. An LMDB code.
int gw_store_put_sealed(MDB_txn *txn, MDB_dbi dbi, const char *table, MDB_val key,
                        struct base_span bytes);
// Takes the lock of a data directory, to write or (with others) to read. BUSY, IO.
enum base_status gw_store_lock(const char *dir, bool to_write, int *out_fd,
                               struct base_error *error);
// store_make.c: makes an empty store where there is none; writes the records of `env`, of an older
// schema, to a new file that then replaces the old one (whose environment stays open), kept as
// store.mdb.before-N, N being the schema of now. CORRUPT: the device records are not of `schema`.
enum base_status gw_store_make(const char *path, struct base_error *error);
enum base_status gw_store_upgrade(MDB_env *env, uint8_t schema, const char *path,
                                  struct base_error *error);
// 0 when it grew, MDB_MAP_FULL at the maximum. No transaction of the writer may be open.
int gw_store_grow(struct gw_store *store);
// Removes what an interrupted put left behind, makes the folders.
enum base_status gw_store_files_open(struct gw_store *store, struct base_error *error);
bool gw_store_path(const struct gw_store *store, char *out, size_t capacity, const char *format,
                   ...) BASE_PRINTF(4, 5);

#endif
