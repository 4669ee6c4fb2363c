// Opening and closing the LMDB environment, on the thread that starts the gateway. Reading is in
// store_read.c, the writer thread in store_writer.c, blob files in store_blob.c. Callers are core.c
// and walle-store. A process locks the folder before it opens anything, so two never write to one
// store; pages are walked before LMDB maps them. An older schema is rewritten here, a newer one is
// refused. Close ends the writer first and then does what is left in its queue.
#include "store/store_private.h"

#include "base/check.h"
#include "base/os/errno_status.h"
#include "base/os/lmdb_pages.h"
#include "base/record_seal.h"
#include "base/os/regular_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum base_status gw_store_status(int rc)
{
    _Static_assert(MDB_KEYEXIST < 0 && MDB_LAST_ERRCODE < 0, "no code of LMDB is an errno");
    switch (rc) {
    case MDB_SUCCESS:
        return BASE_OK;
    case MDB_NOTFOUND:
        return BASE_ERR_NOT_FOUND;
    case MDB_MAP_FULL:
    case MDB_TXN_FULL:
        return BASE_ERR_FULL;
    case MDB_CORRUPTED:
    case MDB_PAGE_NOTFOUND:
    case MDB_INVALID:
    case MDB_PANIC:
        return BASE_ERR_CORRUPT;
    case MDB_VERSION_MISMATCH:
        return BASE_ERR_UNSUPPORTED;
    case MDB_READERS_FULL:
        return BASE_ERR_LIMIT;
    case MDB_BAD_VALSIZE:
        return BASE_ERR_TOO_LARGE;
    case EACCES:
    case EPERM:
        return BASE_ERR_DENIED;
    case ENOENT: // of a file the store has: no answer to a question
        return BASE_ERR_IO;
    default:
        return base_status_of_errno(rc);
    }
}

bool gw_store_path(const struct gw_store *store, char *out, size_t capacity, const char *format,
                   ...)
{
    int head = snprintf(out, capacity, "%s/", store->dir);
    if (head < 0 || (size_t)head >= capacity) {
        return false;
    }
    va_list args;
    va_start(args, format);
    int tail = vsnprintf(out + head, capacity - (size_t)head, format, args);
    va_end(args);
    return tail >= 0 && (size_t)(head + tail) < capacity;
}

// Makes the directory and those above it.
static enum base_status make_dir(const char *dir, struct base_error *error)
{
    char path[GW_STORE_PATH_MAX];
    size_t size = strnlen(dir, sizeof(path));
    if (size == 0 || size >= sizeof(path) - 64) {
        return base_error_set(error, BASE_ERR_INVALID, "data directory: path empty or too long");
    }
    memcpy(path, dir, size + 1);
    for (size_t i = 1; i <= size; i++) {
        if (path[i] != '/' && path[i] != 0) {
            continue;
        }
        char keep = path[i];
        path[i] = 0;
        if (mkdir(path, 0700) != 0 && errno != EEXIST) {
            return base_error_set(error, gw_store_status(errno), "cannot make directory %.100s: %s",
                                  path, strerror(errno));
        }
        path[i] = keep;
    }
    return BASE_OK;
}

enum base_status gw_store_lock(const char *dir, bool to_write, int *out_fd,
                               struct base_error *error)
{
    base_assert(*out_fd < 0); // one that is held would be lost, and with it the lock
    char path[GW_STORE_PATH_MAX];
    int size = snprintf(path, sizeof(path), "%s/gateway.lock", dir);
    if (size < 0 || (size_t)size >= sizeof(path)) {
        return base_error_set(error, BASE_ERR_TOO_LARGE, "data directory: path too long");
    }
    int fd = -1;
    enum base_status status =
        base_regular_open(path, O_RDWR | O_NOFOLLOW | (to_write ? O_CREAT : 0), &fd, error);
    if (status != BASE_OK) {
        bool never = status == BASE_ERR_NOT_FOUND && !to_write; // no gateway ever ran here
        return never ? BASE_OK : status;
    }
    if (flock(fd, (to_write ? LOCK_EX : LOCK_SH) | LOCK_NB) != 0) {
        close(fd);
        return base_error_set(error, BASE_ERR_BUSY, "another process uses %.100s", dir);
    }
    *out_fd = fd;
    return BASE_OK;
}

static enum base_status open_env(struct gw_store *store, const char *path, uint64_t map_bytes,
                                 struct base_error *error)
{
    base_assert(store->env == NULL);
    base_assert(map_bytes <= store->map_bytes_max);
    int rc = mdb_env_create(&store->env);
    if (rc == 0) {
        rc = mdb_env_set_maxdbs(store->env, GW_TABLE_COUNT);
    }
    if (rc == 0) {
        rc = mdb_env_set_maxreaders(store->env, GW_STORE_READERS_MAX);
    }
    if (rc == 0) {
        rc = mdb_env_set_mapsize(store->env, (size_t)map_bytes);
    }
    if (rc == 0) {
        unsigned flags = MDB_NOTLS | MDB_NORDAHEAD | (store->read_only ? MDB_RDONLY : 0u);
        rc = mdb_env_open(store->env, path, flags | MDB_NOSUBDIR, 0600);
    }
    if (rc != 0) {
        return base_error_set(error, gw_store_status(rc), "cannot open the store in %.80s: %s",
                              store->dir, mdb_strerror(rc));
    }
    int dead = 0;
    (void)mdb_reader_check(store->env, &dead);
    return BASE_OK;
}

// Up to schema 3 a byte, then a byte with its seal. A damaged one is not acted upon: by a wrong
// number the whole store would be read wrongly, and rewritten.
static enum base_status read_schema(const struct gw_store *store, MDB_txn *txn, uint8_t *out,
                                    struct base_error *error)
{
    static const char what_then[] = "restore a copy, or see `walle-store salvage --help`";
    struct gw_key key = gw_key_text(GW_STORE_SCHEMA_KEY);
    MDB_val k = {key.size, key.bytes};
    MDB_val v = {0, NULL};
    int rc = mdb_get(txn, store->tables[GW_TABLE_META], &k, &v);
    if (rc != 0 || (v.mv_size != 1 && v.mv_size != 1 + BASE_SEAL_BYTES)) {
        return base_error_set(error, BASE_ERR_CORRUPT,
                              "the store in %.50s has no schema number; %s", store->dir, what_then);
    }
    struct base_span bytes = {v.mv_data, v.mv_size};
    bool sealed = bytes.size != 1;
    bool sound = !sealed || base_record_unseal(gw_table_name(GW_TABLE_META),
                                               (struct base_span){key.bytes, key.size}, bytes,
                                               &bytes) == BASE_OK;
    if (!sound || sealed != (bytes.data[0] > GW_STORE_SCHEMA_UNSEALED)) {
        return base_error_set(error, BASE_ERR_CORRUPT,
                              "the schema number of the store in %.40s is damaged; %s", store->dir,
                              what_then);
    }
    base_assert(bytes.size == 1);
    *out = bytes.data[0];
    return BASE_OK;
}

static enum base_status open_tables(struct gw_store *store, uint8_t *out_schema,
                                    struct base_error *error)
{
    base_assert(!store->writer_started); // LMDB opens tables in one transaction at a time
    MDB_txn *txn = NULL;
    int rc = mdb_txn_begin(store->env, NULL, store->read_only ? MDB_RDONLY : 0u, &txn);
    for (int i = 0; rc == 0 && i < GW_TABLE_COUNT; i++) {
        rc = mdb_dbi_open(txn, gw_table_name((enum gw_table)i), store->read_only ? 0u : MDB_CREATE,
                          &store->tables[i]);
        if (rc == MDB_NOTFOUND && store->read_only) {
            store->tables[i] = GW_STORE_NO_TABLE;
            rc = 0;
        }
    }
    enum base_status status = rc == 0 ? read_schema(store, txn, out_schema, error) : BASE_OK;
    if (rc == 0 && status == BASE_OK) {
        rc = mdb_txn_commit(txn);
    } else if (txn != NULL) {
        mdb_txn_abort(txn);
    }
    if (rc != 0) {
        status = base_error_set(error, gw_store_status(rc), "cannot open the store's tables: %s",
                                mdb_strerror(rc));
    }
    return status;
}

// A file that could lead LMDB astray is not opened.
static enum base_status check_pages(const char *path, struct base_error *error)
{
    static const struct base_pages_visitor nobody = {NULL, NULL, NULL};
    const struct base_pages_file file = {.path = path, .name = "store.mdb"};
    struct base_error found = {0};
    enum base_status status = base_pages_walk(&file, &nobody, &found);
    if (status != BASE_ERR_CORRUPT) {
        return status == BASE_OK ? BASE_OK : base_error_set(error, status, "%s", found.text);
    }
    return base_error_set(error, status,
                          "%.90s; restore a copy, or see `walle-store salvage --help`", found.text);
}

// LMDB would follow a link and write where it leads.
static enum base_status check_lock(const char *path, struct base_error *error)
{
    char lock[GW_STORE_PATH_MAX + 8];
    struct base_error why = {0};
    (void)snprintf(lock, sizeof(lock), "%s-lock", path);
    enum base_status status = base_regular_look(lock, false, &why);
    return status == BASE_OK || status == BASE_ERR_NOT_FOUND
               ? BASE_OK
               : base_error_set(error, status, "%.120s; remove it: it is made anew", why.text);
}

// Is there no store yet? A link that leads nowhere is one that is away, with its disk perhaps.
static enum base_status is_missing(const char *path, bool *out_missing, struct base_error *error)
{
    struct stat about;
    *out_missing = access(path, F_OK) != 0 && errno == ENOENT;
    return *out_missing && lstat(path, &about) == 0
               ? base_error_set(error, BASE_ERR_INVALID, "%s: a symbolic link that leads nowhere",
                                path)
               : BASE_OK;
}

static enum base_status open_checked(struct gw_store *store, const char *path, uint64_t map_bytes,
                                     uint8_t *out_schema, struct base_error *error)
{
    BASE_TRY(check_lock(path, error));
    BASE_TRY(check_pages(path, error));
    BASE_TRY(open_env(store, path, map_bytes, error));
    return open_tables(store, out_schema, error);
}

static bool is_older(uint8_t schema)
{
    return schema >= GW_STORE_SCHEMA_UNSEALED && schema < GW_STORE_SCHEMA;
}

// A store of before becomes one of now, unless it is only read.
static enum base_status renew(struct gw_store *store, const char *path, uint64_t map_bytes,
                              uint8_t *schema, struct base_error *error)
{
    base_assert(!store->read_only);
    if (is_older(*schema)) {
        BASE_TRY(gw_store_upgrade(store->env, *schema, path, error));
        mdb_env_close(store->env);
        store->env = NULL;
        BASE_TRY(open_checked(store, path, map_bytes, schema, error));
        base_log_info(store->log, "store",
                      "rewritten with schema %u; the file of before is store.mdb.before-%u",
                      *schema, *schema);
    }
    return BASE_OK;
}

static enum base_status open_file(struct gw_store *store, uint64_t map_bytes,
                                  struct base_error *error)
{
    base_assert(store->read_only || store->lock_fd >= 0); // nobody else writes here
    char path[GW_STORE_PATH_MAX];
    if (!gw_store_path(store, path, sizeof(path), "store.mdb")) {
        return base_error_set(error, BASE_ERR_TOO_LARGE, "data directory: path too long");
    }
    bool missing = false;
    BASE_TRY(is_missing(path, &missing, error));
    if (!store->read_only && missing) {
        BASE_TRY(gw_store_make(path, error));
    }
    uint8_t schema = 0;
    BASE_TRY(open_checked(store, path, map_bytes, &schema, error));
    if (!store->read_only) {
        BASE_TRY(renew(store, path, map_bytes, &schema, error));
    }
    if (schema != GW_STORE_SCHEMA) {
        return base_error_set(
            error, BASE_ERR_UNSUPPORTED, "the store has schema %u, this program knows %u%s", schema,
            GW_STORE_SCHEMA, is_older(schema) ? "; a gateway rewrites it when it starts" : "");
    }
    return BASE_OK;
}

static enum base_status start_writer(struct gw_store *store, struct base_error *error)
{
    base_assert(!store->writer_started);
    base_assert(!store->read_only); // nothing would come
    if (pthread_create(&store->writer, NULL, gw_store_writer_main, store) != 0) {
        return base_error_set(error, BASE_ERR_NOMEM, "cannot start the store's writer thread");
    }
    store->writer_started = true;
    return BASE_OK;
}

static enum base_status open_all(struct gw_store *store, const struct gw_store_options *options,
                                 struct base_error *error)
{
    size_t size = strnlen(options->dir, sizeof(store->dir));
    if (size == 0 || size >= sizeof(store->dir) - 128) {
        return base_error_set(error, BASE_ERR_INVALID, "data directory: path empty or too long");
    }
    memcpy(store->dir, options->dir, size);
    uint64_t first = options->map_bytes_first != 0 ? options->map_bytes_first : GW_STORE_MAP_FIRST;
    if (first > store->map_bytes_max) {
        first = store->map_bytes_max;
    }
    if (!store->read_only) {
        BASE_TRY(make_dir(store->dir, error));
    }
    BASE_TRY(gw_store_lock(store->dir, !store->read_only, &store->lock_fd, error));
    if (!store->read_only) {
        BASE_TRY(gw_store_files_open(store, error));
    }
    BASE_TRY(open_file(store, first, error));
    BASE_TRY(gw_packed_open(store, error));
    return store->read_only || store->no_thread ? BASE_OK : start_writer(store, error);
}

enum base_status gw_store_open(const struct gw_store_options *options, struct gw_store **out_store,
                               struct base_error *error)
{
    struct gw_store *store = calloc(1, sizeof(*store));
    if (store == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "no memory for the store");
    }
    store->lock_fd = -1;
    store->log = options->log;
    store->read_only = options->read_only;
    store->no_thread = options->no_thread;
    store->lean = options->lean;
    store->map_bytes_max = options->map_bytes_max != 0 ? options->map_bytes_max : GW_STORE_MAP_MAX;
    store->commit_delay_us =
        options->commit_delay_us != 0 ? options->commit_delay_us : GW_STORE_COMMIT_DELAY_US;
    pthread_rwlock_init(&store->map_gate, NULL);
    pthread_rwlock_init(&store->content_gate, NULL);
    pthread_mutex_init(&store->pool_lock, NULL);
    pthread_mutex_init(&store->queue_lock, NULL);
    gw_packed_init(&store->packed, &options->hash_key);
    gw_bell_init(&store->bell);
    enum base_status status = open_all(store, options, error);
    if (status != BASE_OK) {
        gw_store_close(store);
        return status;
    }
    base_assert(store->writer_started == (!store->read_only && !store->no_thread));
    *out_store = store;
    return BASE_OK;
}

void gw_store_close(struct gw_store *store)
{
    if (store == NULL) {
        return;
    }
    if (store->writer_started) {
        pthread_mutex_lock(&store->queue_lock);
        store->stopping = true;
        pthread_mutex_unlock(&store->queue_lock);
        gw_bell_ring(&store->bell);
        pthread_join(store->writer, NULL);
    }
    while (gw_store_step(store)) {
    }
    base_assert(store->queue_first == NULL); // all that was accepted is answered
    while (store->pool != NULL) {
        struct gw_store_read *read = store->pool;
        base_assert(read->store == store);
        store->pool = read->next;
        mdb_txn_abort(read->txn);
        free(read);
    }
    if (store->env != NULL) {
        mdb_env_close(store->env);
    }
    if (store->lock_fd >= 0) {
        close(store->lock_fd);
    }
    gw_packed_done(&store->packed);
    gw_bell_done(&store->bell);
    pthread_mutex_destroy(&store->queue_lock);
    pthread_mutex_destroy(&store->pool_lock);
    pthread_rwlock_destroy(&store->content_gate);
    pthread_rwlock_destroy(&store->map_gate);
    free(store);
}
