// New store files: an empty one at the first start, one from a store of an older schema, one from
// what salvage finds. Each is written beside its place, synced, and renamed there, so that a store
// file is whole or not there. Called at start and by walle-store, on one thread.
#include "store/store_private.h"

#include "base/check.h"
#include "base/os/lmdb_pages.h"
#include "base/record_seal.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BATCH    16384u // records of one transaction
#define MAP_MORE (UINT64_C(64) << 20)
#define TEXT_MAX 256

// A store being written.
struct sink {
    char path[GW_STORE_PATH_MAX]; // of the new file
    MDB_env *env;
    MDB_txn *txn;
    MDB_dbi tables[GW_TABLE_COUNT];
    uint32_t pending;
    uint64_t copied;
    uint64_t row_next; // of the device records, when they have no place of their own
    int rc;
    bool in_place; // the new file is whole, and what `rc` says is of where it goes
};

int gw_store_put_sealed(MDB_txn *txn, MDB_dbi dbi, const char *table, MDB_val key,
                        struct base_span bytes)
{
    uint8_t seal[BASE_SEAL_BYTES];
    base_record_seal(table, (struct base_span){key.mv_data, key.mv_size}, bytes, seal);
    MDB_val value = {bytes.size + sizeof(seal), NULL};
    int rc = mdb_put(txn, dbi, &key, &value, MDB_RESERVE);
    if (rc == 0) {
        base_assert(value.mv_size == bytes.size + sizeof(seal));
        if (bytes.size > 0) {
            memcpy(value.mv_data, bytes.data, bytes.size);
        }
        memcpy((uint8_t *)value.mv_data + bytes.size, seal, sizeof(seal));
    }
    return rc;
}

// A transaction with room for one more.
static int sink_ready(struct sink *sink)
{
    base_assert(sink->pending <= BATCH);
    if (sink->rc == 0 && sink->pending == BATCH) {
        sink->rc = mdb_txn_commit(sink->txn);
        sink->txn = NULL;
        sink->pending = 0;
    }
    if (sink->rc == 0 && sink->txn == NULL) {
        sink->rc = mdb_txn_begin(sink->env, NULL, 0, &sink->txn);
    }
    sink->pending += sink->rc == 0;
    return sink->rc;
}

static int sink_put(struct sink *sink, enum gw_table table, struct base_span key,
                    struct base_span bytes)
{
    if (sink_ready(sink) == 0) {
        MDB_val k = {key.size, (void *)(uintptr_t)key.data};
        sink->rc =
            gw_store_put_sealed(sink->txn, sink->tables[table], gw_table_name(table), k, bytes);
        sink->copied++;
    }
    return sink->rc;
}

// A value with its seal, which need not fit.
static int sink_put_raw(struct sink *sink, enum gw_table table, MDB_val key, MDB_val sealed)
{
    if (sink_ready(sink) == 0) {
        sink->rc = mdb_put(sink->txn, sink->tables[table], &key, &sealed, 0);
        sink->copied++;
    }
    return sink->rc;
}

// The record of a device whose records lay under their ids: one is left of each, so they stand in
// the order they come in.
static int sink_put_loose(struct sink *sink, uint64_t id, struct base_span value, bool sound)
{
    const struct gw_packed_place place = {++sink->row_next, id};
    MDB_dbi rows = sink->tables[GW_TABLE_DEVICES];
    if (sink_ready(sink) == 0) {
        sink->rc = sound ? gw_packed_put_row(sink->txn, rows, place, value, MDB_APPEND)
                         : gw_packed_put_damaged(sink->txn, rows, place, value, MDB_APPEND);
        sink->copied++;
    }
    return sink->rc;
}

static int sink_put_schema(struct sink *sink)
{
    struct gw_key key = gw_key_text(GW_STORE_SCHEMA_KEY);
    uint8_t schema = GW_STORE_SCHEMA;
    base_assert(sink->copied == 0); // the first record of all
    int rc = sink_put(sink, GW_TABLE_META, (struct base_span){key.bytes, key.size},
                      (struct base_span){&schema, 1});
    sink->copied--; // is no record of anybody's
    return rc;
}

// A new file beside `path`, with all tables in it.
static int sink_open(struct sink *sink, const char *path, uint64_t map_bytes)
{
    base_assert(sink->env == NULL && sink->txn == NULL && sink->copied == 0);
    int size = snprintf(sink->path, sizeof(sink->path), "%s.new", path);
    if (size < 0 || (size_t)size >= sizeof(sink->path)) {
        return ENAMETOOLONG;
    }
    (void)unlink(sink->path);
    int rc = mdb_env_create(&sink->env);
    if (rc == 0) {
        rc = mdb_env_set_maxdbs(sink->env, GW_TABLE_COUNT);
    }
    if (rc == 0) {
        rc = mdb_env_set_mapsize(sink->env, (size_t)map_bytes);
    }
    if (rc == 0) {
        rc = mdb_env_open(sink->env, sink->path, MDB_NOSUBDIR | MDB_NOLOCK | MDB_NOSYNC, 0600);
    }
    if (rc == 0) {
        rc = mdb_txn_begin(sink->env, NULL, 0, &sink->txn);
    }
    for (int i = 0; rc == 0 && i < GW_TABLE_COUNT; i++) {
        rc = mdb_dbi_open(sink->txn, gw_table_name((enum gw_table)i), MDB_CREATE, &sink->tables[i]);
    }
    sink->rc = rc;
    return rc == 0 ? sink_put_schema(sink) : rc;
}

static int sync_folder_of(const char *path)
{
    char copy[GW_STORE_PATH_MAX];
    (void)snprintf(copy, sizeof(copy), "%s", path);
    int fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = fd < 0 || fsync(fd) != 0 ? errno : 0;
    if (fd >= 0) {
        close(fd);
    }
    return rc;
}

// What was put is durable, and at `path`.
static int sink_finish(struct sink *sink, const char *path)
{
    if (sink->rc == 0 && sink->txn != NULL) {
        sink->rc = mdb_txn_commit(sink->txn);
        sink->txn = NULL;
    }
    if (sink->rc == 0) {
        sink->rc = mdb_env_sync(sink->env, 1);
    }
    if (sink->rc == 0 && rename(sink->path, path) != 0) {
        sink->rc = errno;
        sink->in_place = true;
    }
    return sink->rc != 0 ? sink->rc : sync_folder_of(path);
}

static void sink_done(struct sink *sink)
{
    if (sink->txn != NULL) {
        mdb_txn_abort(sink->txn);
    }
    if (sink->env != NULL) {
        mdb_env_close(sink->env);
    }
    (void)unlink(sink->path); // there when it did not come to its place
}

// Names the file that could not be written: the new one, or the one whose place it takes.
static enum base_status sink_failed(const struct sink *sink, const char *path, int rc,
                                    struct base_error *error)
{
    const char *name = sink->in_place || sink->path[0] == '\0' ? path : sink->path;
    return base_error_set(error, gw_store_status(rc), "cannot write %.100s: %s", name,
                          mdb_strerror(rc));
}

enum base_status gw_store_make(const char *path, struct base_error *error)
{
    struct sink sink = {0};
    int rc = sink_open(&sink, path, MAP_MORE);
    if (rc == 0) {
        rc = sink_finish(&sink, path);
    }
    sink_done(&sink);
    return rc == 0 ? BASE_OK : sink_failed(&sink, path, rc, error);
}

// ---- Of an older schema

// Damaged ones stay damaged: nothing is lost in silence, nor made good. A key of another size is of
// another schema: its first eight bytes are no id.
static int copy_device(struct sink *sink, uint8_t schema, MDB_val k, MDB_val v)
{
    struct base_span key = {k.mv_data, k.mv_size};
    struct base_span value = {v.mv_data, v.mv_size};
    struct base_span bytes = value;
    uint64_t id;
    if (key.size != gw_key_u64(0).size) {
        return MDB_CORRUPTED;
    }
    if (!gw_key_read_u64(key.data, key.size, 0, &id)) {
        return 0; // nobody could ask for it
    }
    bool sound = schema == GW_STORE_SCHEMA_UNSEALED ||
                 base_record_unseal(gw_table_name(GW_TABLE_DEVICES), key, value, &bytes) == BASE_OK;
    base_assert(schema < GW_STORE_SCHEMA);
    return sink_put_loose(sink, id, sound ? bytes : value, sound);
}

static int copy_record(struct sink *sink, uint8_t schema, enum gw_table table, MDB_val k, MDB_val v)
{
    struct gw_key key = gw_key_text(GW_STORE_SCHEMA_KEY);
    if (table == GW_TABLE_META && k.mv_size == key.size &&
        memcmp(k.mv_data, key.bytes, key.size) == 0) {
        return 0; // the new one has its own
    }
    if (table == GW_TABLE_DEVICES) {
        return copy_device(sink, schema, k, v);
    }
    return schema == GW_STORE_SCHEMA_UNSEALED
               ? sink_put(sink, table, (struct base_span){k.mv_data, k.mv_size},
                          (struct base_span){v.mv_data, v.mv_size})
               : sink_put_raw(sink, table, k, v);
}

static int copy_table(MDB_txn *txn, uint8_t schema, enum gw_table table, struct sink *sink)
{
    base_assert(sink->rc == 0); // what failed once takes no more
    MDB_dbi dbi;
    MDB_cursor *cursor = NULL;
    int rc = mdb_dbi_open(txn, gw_table_name(table), 0, &dbi);
    if (rc == MDB_NOTFOUND) {
        return 0; // younger than that store
    }
    if (rc == 0) {
        rc = mdb_cursor_open(txn, dbi, &cursor);
    }
    MDB_val k;
    MDB_val v;
    while (rc == 0 && (rc = mdb_cursor_get(cursor, &k, &v, MDB_NEXT)) == 0) {
        rc = copy_record(sink, schema, table, k, v);
    }
    mdb_cursor_close(cursor);
    return rc == MDB_NOTFOUND ? 0 : rc;
}

// The file of before stays beside the new one; one of an earlier rewrite goes.
static enum base_status keep_before(const char *path, struct base_error *error)
{
    char before[GW_STORE_PATH_MAX + 16];
    int size = snprintf(before, sizeof(before), "%s.before-%u", path, GW_STORE_SCHEMA);
    base_assert(size > 0 && (size_t)size < sizeof(before));
    bool gone = unlink(before) == 0 || errno == ENOENT;
    if (!gone || link(path, before) != 0) {
        return base_error_set(error, gw_store_status(errno),
                              "cannot keep the file of before as %.80s: %s", before,
                              strerror(errno));
    }
    return BASE_OK;
}

static enum base_status upgrade_failed(const struct sink *sink, const char *path, int rc,
                                       struct base_error *error)
{
    return rc == MDB_CORRUPTED
               ? base_error_set(error, BASE_ERR_CORRUPT,
                                "%.50s has device records of another schema; restore a copy, or "
                                "see `walle-store salvage --help`",
                                path)
               : sink_failed(sink, path, rc, error);
}

enum base_status gw_store_upgrade(MDB_env *env, uint8_t schema, const char *path,
                                  struct base_error *error)
{
    MDB_envinfo info;
    MDB_txn *txn = NULL;
    struct sink sink = {0};
    int rc = mdb_env_info(env, &info);
    if (rc == 0) {
        rc = mdb_txn_begin(env, NULL, MDB_RDONLY, &txn);
    }
    if (rc == 0) {
        base_assert(info.me_mapsize <= (SIZE_MAX - MAP_MORE) / 2);
        rc = sink_open(&sink, path, info.me_mapsize * 2 + MAP_MORE);
    }
    for (int i = 0; rc == 0 && i < GW_TABLE_COUNT; i++) {
        rc = copy_table(txn, schema, (enum gw_table)i, &sink);
    }
    enum base_status kept = rc == 0 ? keep_before(path, error) : BASE_OK;
    if (rc == 0 && kept == BASE_OK) {
        rc = sink_finish(&sink, path);
    }
    sink_done(&sink);
    if (txn != NULL) {
        mdb_txn_abort(txn);
    }
    return rc == 0 ? kept : upgrade_failed(&sink, path, rc, error);
}

// ---- Salvage

struct salvage {
    struct sink sink;
    void (*tell)(void *ctx, const char *text);
    void *ctx;
};

BASE_PRINTF(2, 3)
static void say(struct salvage *salvage, const char *format, ...)
{
    char text[TEXT_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (salvage->tell != NULL) {
        salvage->tell(salvage->ctx, text);
    }
}

static void on_bad(void *ctx, const char *text)
{
    say(ctx, "%s", text);
}

static bool find_table(const char *name, enum gw_table *out)
{
    for (int i = 0; i < GW_TABLE_COUNT; i++) {
        if (strcmp(name, gw_table_name((enum gw_table)i)) == 0) {
            *out = (enum gw_table)i;
            return true;
        }
    }
    return false;
}

// A row of the packed table, or a record of an older schema.
static void save_device(struct salvage *salvage, MDB_val key, struct base_span bytes)
{
    struct sink *sink = &salvage->sink;
    struct gw_packed_place place;
    if (gw_packed_key_read(key, &place) && place.row != 0 && gw_packed_bytes(bytes, &bytes)) {
        // as it is
    } else if (key.mv_size == gw_key_u64(0).size &&
               gw_key_read_u64(key.mv_data, key.mv_size, 0, &place.id)) {
        place.row = ++sink->row_next;
    } else {
        return;
    }
    if (sink_ready(sink) == 0) {
        sink->rc = gw_packed_put_row(sink->txn, sink->tables[GW_TABLE_DEVICES], place, bytes, 0);
    }
}

// A damaged row ends its device's record, so that no older one comes back.
static void end_device(struct salvage *salvage, MDB_val key, MDB_val value)
{
    struct sink *sink = &salvage->sink;
    struct gw_packed_place place;
    uint64_t ids[2];
    if (!gw_packed_key_read(key, &place) || place.row == 0) {
        return;
    }
    uint32_t count = gw_packed_owners(place, value, ids);
    base_assert(count > 0);
    for (uint32_t i = 0; i < count && sink_ready(sink) == 0; i++) {
        place.id = ids[i];
        sink->rc = gw_packed_put_row(sink->txn, sink->tables[GW_TABLE_DEVICES], place,
                                     (struct base_span){NULL, 0}, 0);
    }
}

// Of how many devices a record is saved: who has one shows when all rows are there.
static int count_devices(struct sink *sink)
{
    struct gw_id_rows last = {0};
    uint64_t row_next;
    if (sink_ready(sink) == 0) {
        sink->rc = gw_packed_build(sink->txn, sink->tables[GW_TABLE_DEVICES], &last, &row_next);
    }
    sink->copied += last.count;
    gw_id_rows_done(&last);
    return sink->rc;
}

static void on_record(void *ctx, const char *name, struct base_span key, struct base_span value)
{
    struct salvage *salvage = ctx;
    struct base_span bytes;
    base_assert(salvage->sink.env != NULL);
    enum gw_table table;
    if (!find_table(name, &table)) {
        say(salvage, "table %s: unknown, left behind", name);
        return;
    }
    MDB_val k = {key.size, (void *)(uintptr_t)key.data};
    if (base_record_unseal(name, key, value, &bytes) != BASE_OK) {
        char hex[GW_STORE_KEY_HEX];
        gw_store_key_hex(key.data, key.size, hex);
        say(salvage, "table %s, key %s: damaged, left behind", name, hex);
        if (table == GW_TABLE_DEVICES) {
            end_device(salvage, k, (MDB_val){value.size, (void *)(uintptr_t)value.data});
        }
        return;
    }
    if (table == GW_TABLE_DEVICES) {
        save_device(salvage, k, bytes);
        return;
    }
    struct gw_key schema = gw_key_text(GW_STORE_SCHEMA_KEY);
    if (table == GW_TABLE_META && key.size == schema.size &&
        memcmp(key.data, schema.bytes, key.size) == 0) {
        return; // the new one has its own
    }
    (void)sink_put(&salvage->sink, table, key, bytes);
}

// The damaged file goes aside, the new one to its place.
static enum base_status put_in_place(struct sink *sink, const char *path, struct base_error *error)
{
    char aside[GW_STORE_PATH_MAX + 16];
    (void)snprintf(aside, sizeof(aside), "%s.damaged", path);
    if (link(path, aside) != 0) {
        return base_error_set(error, errno == EEXIST ? BASE_ERR_EXISTS : gw_store_status(errno),
                              "cannot keep the damaged file as %.100s: %s", aside, strerror(errno));
    }
    int rc = sink_finish(sink, path);
    return rc == 0 ? BASE_OK : sink_failed(sink, path, rc, error);
}

static enum base_status salvage_to(struct salvage *salvage, const char *path,
                                   struct base_error *error)
{
    struct stat about;
    if (stat(path, &about) != 0) {
        return base_error_set(error, BASE_ERR_NOT_FOUND, "%.100s: %s", path, strerror(errno));
    }
    int rc = sink_open(&salvage->sink, path, (uint64_t)about.st_size * 4 + MAP_MORE);
    if (rc != 0) {
        return sink_failed(&salvage->sink, path, rc, error);
    }
    const struct base_pages_file file = {.path = path, .name = "store.mdb"};
    const struct base_pages_visitor visitor = {on_record, on_bad, salvage};
    enum base_status status = base_pages_walk(&file, &visitor, error);
    if (status != BASE_OK && status != BASE_ERR_CORRUPT) {
        return status;
    }
    return count_devices(&salvage->sink) == 0
               ? put_in_place(&salvage->sink, path, error)
               : sink_failed(&salvage->sink, path, salvage->sink.rc, error);
}

enum base_status gw_store_salvage(const char *dir, void (*tell)(void *ctx, const char *text),
                                  void *ctx, uint64_t *out_copied, struct base_error *error)
{
    char path[GW_STORE_PATH_MAX];
    int size = snprintf(path, sizeof(path), "%s/store.mdb", dir);
    if (size < 0 || (size_t)size >= sizeof(path) - 16) {
        return base_error_set(error, BASE_ERR_TOO_LARGE, "data directory: path too long");
    }
    int lock_fd = -1;
    BASE_TRY(gw_store_lock(dir, true, &lock_fd, error));
    struct salvage salvage = {.tell = tell, .ctx = ctx};
    enum base_status status = salvage_to(&salvage, path, error);
    sink_done(&salvage.sink);
    close(lock_fd);
    if (status == BASE_OK) {
        *out_copied = salvage.sink.copied;
    }
    return status;
}
