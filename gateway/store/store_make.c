// New store files: an empty one at the first start, one from a store of an older schema, one from
// what salvage finds. Each is written beside its place, synced, and renamed there, so that a store
// file is whole or not there. Called at start and by walle-store, on one thread.
#include "store/store_private.h"

#include "store/rows_before.h"

#include "base/check.h"
#include "base/os/lmdb_pages.h"
#include "base/record_seal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
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
    struct gw_block block; // of device records, being filled
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

// The block of device records under way, if it has any.
static int sink_put_block(struct sink *sink, unsigned flags)
{
    if (sink->block.count > 0 && sink_ready(sink) == 0) {
        sink->rc = gw_block_write(&sink->block, sink->txn, sink->tables[GW_TABLE_DEVICES], flags);
    }
    return sink->rc;
}

// The record of a device, into the block under way.
static int sink_put_device(struct sink *sink, uint64_t id, struct base_span bytes, bool damaged)
{
    uint64_t place;
    if (sink->rc == 0 && sink->block.number == 0) {
        gw_block_begin(&sink->block, 1);
    }
    if (sink->rc == 0 && sink->block.count > 0 && !gw_block_has_room(&sink->block, bytes.size)) {
        (void)sink_put_block(sink, MDB_APPEND);
    }
    if (sink->rc == 0) {
        sink->rc = gw_block_add(&sink->block, id, bytes, damaged, &place);
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
    (void)sink_put_block(sink, MDB_APPEND);
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
    gw_block_done(&sink->block);
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
static int copy_loose(struct sink *sink, uint8_t schema, MDB_val k, MDB_val v)
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
    base_assert(schema <= GW_STORE_SCHEMA_LOOSE);
    return sink_put_device(sink, id, bytes, !sound);
}

// Of rows only the last of each id.
static int copy_row(struct sink *sink, const struct gw_id_rows *last, MDB_val k, MDB_val v)
{
    struct gw_row_place place;
    struct base_span bytes = {NULL, 0};
    uint64_t ids[2] = {0};
    uint32_t count = 1;
    if (k.mv_size != gw_key_u64_u64(0, 0).size) {
        return MDB_CORRUPTED;
    }
    if (!gw_row_key_read(k, &place)) {
        return 0; // a damaged one
    }
    ids[0] = place.id;
    bool sound = gw_row_is_sound(k, v, &bytes);
    if (!sound) {
        count = gw_row_owners(place, v, ids);
    }
    base_assert(count > 0);
    for (uint32_t i = 0; i < count && sink->rc == 0; i++) {
        if (gw_id_rows_get(last, ids[i]) == place.row) {
            (void)sink_put_device(sink, ids[i], bytes, !sound);
        }
    }
    return sink->rc;
}

static int copy_devices(MDB_txn *txn, uint8_t schema, MDB_dbi table, struct sink *sink)
{
    struct gw_id_rows last = {0};
    MDB_cursor *cursor = NULL;
    MDB_val k;
    MDB_val v;
    int rc = schema > GW_STORE_SCHEMA_LOOSE ? gw_rows_build(txn, table, &last) : 0;
    if (rc == 0) {
        rc = mdb_cursor_open(txn, table, &cursor);
    }
    base_assert(schema < GW_STORE_SCHEMA);
    while (rc == 0 && (rc = mdb_cursor_get(cursor, &k, &v, MDB_NEXT)) == 0) {
        rc = schema > GW_STORE_SCHEMA_LOOSE ? copy_row(sink, &last, k, v)
                                            : copy_loose(sink, schema, k, v);
    }
    mdb_cursor_close(cursor);
    gw_id_rows_done(&last);
    return rc;
}

static int copy_record(struct sink *sink, uint8_t schema, enum gw_table table, MDB_val k, MDB_val v)
{
    struct gw_key key = gw_key_text(GW_STORE_SCHEMA_KEY);
    if (table == GW_TABLE_META && k.mv_size == key.size &&
        memcmp(k.mv_data, key.bytes, key.size) == 0) {
        return 0; // the new one has its own
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
    if (rc == 0 && table == GW_TABLE_DEVICES) {
        rc = copy_devices(txn, schema, dbi, sink);
        return rc == MDB_NOTFOUND ? 0 : rc;
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

// A record by itself: a block of one, which keeps its number, or gets the next.
static void save_alone(struct sink *sink, uint64_t number, uint64_t id, struct base_span bytes)
{
    uint64_t place;
    gw_block_begin(&sink->block, number != 0 ? number : sink->block.number + 1);
    if (sink->rc == 0) {
        sink->rc = gw_block_add(&sink->block, id, bytes, false, &place);
    }
}

// A damaged record ends its device's, so that no older one comes back.
static void end_device(struct sink *sink, const uint64_t *ids, uint32_t count)
{
    const struct base_span none = {NULL, 0};
    uint64_t place;
    base_assert(count > 0);
    for (uint32_t i = 0; i < count && sink->rc == 0; i++) {
        if (gw_block_has_room(&sink->block, 0)) {
            sink->rc = gw_block_add(&sink->block, ids[i], none, false, &place);
        }
    }
}

// A block of now: what is sound in it, under its own number.
static void save_block(struct salvage *salvage, struct gw_block_view *view, const char *hex)
{
    struct sink *sink = &salvage->sink;
    struct gw_block_owner owners[GW_BLOCK_RECORDS];
    struct gw_block_room room;
    uint64_t place;
    base_assert(sink->block.count == 0);
    if (gw_block_mend_key(view)) {
        say(salvage, "table devices, key %s: damaged, put right", hex);
    }
    gw_block_begin(&sink->block, view->number);
    if (!gw_block_owners(view, owners)) {
        say(salvage, "table devices, key %s: damaged, left behind", hex);
        return;
    }
    for (uint32_t i = 0; i < view->count && sink->rc == 0; i++) {
        const struct gw_block_record record = gw_block_get(view, i, &room);
        if (record.sound) {
            sink->rc = gw_block_add(&sink->block, record.id, record.bytes, false, &place);
            continue;
        }
        say(salvage, "table devices, record %" PRIu32 " of key %s: damaged, left behind", i, hex);
        end_device(sink, owners[i].ids, owners[i].count);
    }
}

// A row of before, or a record under its id from before that.
static void save_older(struct salvage *salvage, MDB_val k, MDB_val v, const char *hex)
{
    struct sink *sink = &salvage->sink;
    struct base_span bytes;
    struct gw_row_place row;
    uint64_t ids[2];
    bool is_row = gw_row_key_read(k, &row) && row.row <= GW_BLOCK_NUMBER_MAX;
    bool sealed = base_record_unseal(gw_table_name(GW_TABLE_DEVICES),
                                     (struct base_span){k.mv_data, k.mv_size},
                                     (struct base_span){v.mv_data, v.mv_size}, &bytes) == BASE_OK;
    base_assert(sink->env != NULL);
    if (!sealed) {
        say(salvage, "table devices, key %s: damaged, left behind", hex);
    }
    if (is_row && gw_row_is_sound(k, v, &bytes)) {
        save_alone(sink, row.row, row.id, bytes);
    } else if (is_row) {
        gw_block_begin(&sink->block, row.row);
        end_device(sink, ids, gw_row_owners(row, v, ids));
    } else if (sealed && k.mv_size == gw_key_u64(0).size &&
               gw_key_read_u64(k.mv_data, k.mv_size, 0, &ids[0])) {
        save_alone(sink, 0, ids[0], bytes);
    }
}

static void save_devices(struct salvage *salvage, MDB_val k, MDB_val v)
{
    struct gw_block_view view;
    char hex[GW_STORE_KEY_HEX];
    gw_store_key_hex(k.mv_data, k.mv_size, hex);
    if (gw_block_open(k, v, &view)) {
        save_block(salvage, &view, hex);
    } else if (k.mv_size == gw_block_key(1).size) {
        say(salvage, "table devices, key %s: damaged, left behind", hex);
    } else {
        save_older(salvage, k, v, hex);
    }
    if (sink_put_block(&salvage->sink, MDB_NOOVERWRITE) == MDB_KEYEXIST) {
        say(salvage, "table devices, key %s: there is another one, left behind", hex);
        salvage->sink.rc = 0;
        gw_block_begin(&salvage->sink.block, salvage->sink.block.number);
    }
}

// Of how many devices a record is saved: who has one shows when all blocks are there.
static int count_devices(struct sink *sink)
{
    struct gw_packed_built built = {.records = 0};
    if (sink_ready(sink) == 0) {
        sink->rc = gw_packed_build(sink->txn, sink->tables[GW_TABLE_DEVICES], &built);
    }
    sink->copied += built.last.count;
    gw_id_rows_done(&built.last);
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
    if (table == GW_TABLE_DEVICES) {
        save_devices(salvage, (MDB_val){key.size, (void *)(uintptr_t)key.data},
                     (MDB_val){value.size, (void *)(uintptr_t)value.data});
        return;
    }
    if (base_record_unseal(name, key, value, &bytes) != BASE_OK) {
        char hex[GW_STORE_KEY_HEX];
        gw_store_key_hex(key.data, key.size, hex);
        say(salvage, "table %s, key %s: damaged, left behind", name, hex);
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
