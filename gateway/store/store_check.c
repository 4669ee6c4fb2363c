// Offline care of a store: check and compact. Called by walle-store (store_tool.c) and by tests, on
// one thread, while no gateway runs on it. A check reads every value through its checksum, compares
// blobs with their names and tells each finding in a line; it changes nothing. Compacting writes a
// new file into another folder and leaves the old one as it is.
#include "store/store_private.h"

#include "base/check.h"
#include "base/record_seal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TEXT_MAX  256
#define COPY_MODE 0600

struct check {
    struct gw_store *store;
    void (*tell)(void *ctx, const char *text);
    void *ctx;
    enum gw_table table;
    uint64_t findings;
};

BASE_PRINTF(2, 3)
static void find(struct check *check, const char *format, ...)
{
    char text[TEXT_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    check->findings++;
    if (check->tell != NULL) {
        check->tell(check->ctx, text);
    }
}

static bool check_key(void *ctx, struct base_span key, struct base_span value)
{
    struct check *check = ctx;
    if (key.size == 0 || key.data[0] != GW_STORE_KEY_VERSION) {
        find(check, "%s: a key of unknown version", gw_table_name(check->table));
    } else if (value.size == 0) {
        find(check, "%s: an empty record", gw_table_name(check->table));
    }
    return true;
}

struct blob_walk {
    struct wire_sha256 digest;
    bool found;
    struct gw_key after;
};

static bool next_blob(void *ctx, struct base_span key, struct base_span value)
{
    struct blob_walk *walk = ctx;
    (void)value;
    if (key.size != 1 + WIRE_SHA256_BYTES || key.data[0] != GW_STORE_KEY_VERSION) {
        return true; // told by check_key or below by its count
    }
    if (key.size == walk->after.size && memcmp(key.data, walk->after.bytes, key.size) == 0) {
        return true;
    }
    memcpy(walk->digest.bytes, key.data + 1, WIRE_SHA256_BYTES);
    walk->found = true;
    return false;
}

// Blob by blob, each in a short transaction, since loading takes one of its own.
static void check_blobs(struct check *check)
{
    struct blob_walk walk = {.after = gw_key_text("")};
    for (;;) {
        struct gw_store_read *read;
        walk.found = false;
        if (gw_store_read_begin(check->store, &read) != BASE_OK) {
            find(check, "blobs: cannot read");
            return;
        }
        enum base_status status =
            gw_store_read_scan(read, GW_TABLE_BLOBS, &walk.after, next_blob, &walk);
        gw_store_read_end(read);
        if (status != BASE_OK || !walk.found) {
            return;
        }
        walk.after = gw_key_sha(&walk.digest);
        char hex[WIRE_SHA256_HEX + 1];
        wire_sha256_hex(&walk.digest, hex);
        struct gw_store_bytes bytes;
        status = gw_store_blob_load(check->store, &walk.digest, &bytes);
        if (status != BASE_OK) {
            find(check, "blob %s: %s", hex, base_status_text(status));
            continue;
        }
        base_assert((bytes.heap != NULL) != (bytes.map != NULL)); // one owner gives them back
        struct wire_sha256 real;
        gw_sha256(bytes.data, bytes.size, &real);
        if (!wire_sha256_equal(&real, &walk.digest)) {
            find(check, "blob %s: the bytes have another hash", hex);
        }
        gw_store_bytes_done(&bytes);
    }
}

// Does anything hang on a damaged record of a device? Not on a dead one, which is going to be
// removed.
static bool record_matters(const struct check *check, const struct gw_block_owner *owner,
                           uint64_t place)
{
    return owner->count != 1 || gw_packed_place_of(&check->store->packed, owner->ids[0]) == place;
}

// A block of device records: what is damaged in it, and its head if a record of it counts.
static void check_block(struct check *check, MDB_val k, MDB_val v)
{
    struct gw_block_owner owners[GW_BLOCK_RECORDS];
    struct gw_block_view view;
    struct gw_block_room room;
    char hex[GW_STORE_KEY_HEX];
    uint32_t damaged = 0;
    bool live = false;
    gw_store_key_hex(k.mv_data, k.mv_size, hex);
    if (!gw_block_open(k, v, &view) || !gw_block_owners(&view, owners)) {
        find(check, "devices: the block of key %s is damaged", hex);
        return;
    }
    base_assert(check->table == GW_TABLE_DEVICES);
    for (uint32_t i = 0; i < view.count; i++) {
        const uint64_t place = gw_block_place(view.number, i);
        live = live || gw_packed_place_of(&check->store->packed, owners[i].ids[0]) == place;
        if (gw_block_get(&view, i, &room).sound) {
            continue;
        }
        damaged++;
        if (record_matters(check, &owners[i], place)) {
            find(check, "devices: the record of %016" PRIx64 " in the block of key %s is damaged",
                 owners[i].ids[0], hex);
        }
    }
    if (live && damaged == 0 && (!view.whole || view.mended != 0 || !gw_block_ids_right(&view))) {
        find(check, "devices: the head of the block of key %s is damaged", hex);
    }
}

// Seals, by the environment itself: the reading functions would leave out what is damaged.
static void check_seals(struct check *check, struct gw_store_read *read)
{
    base_assert(check->store->tables[check->table] != GW_STORE_NO_TABLE);
    MDB_cursor *cursor = NULL;
    int rc = mdb_cursor_open(read->txn, check->store->tables[check->table], &cursor);
    MDB_val k;
    MDB_val v;
    while (rc == 0 && (rc = mdb_cursor_get(cursor, &k, &v, MDB_NEXT)) == 0) {
        struct base_span bytes;
        if (check->table == GW_TABLE_DEVICES) {
            check_block(check, k, v);
        } else if (base_record_unseal(
                       gw_table_name(check->table), (struct base_span){k.mv_data, k.mv_size},
                       (struct base_span){v.mv_data, v.mv_size}, &bytes) != BASE_OK) {
            char hex[GW_STORE_KEY_HEX];
            gw_store_key_hex(k.mv_data, k.mv_size, hex);
            find(check, "%s: the record of key %s is damaged", gw_table_name(check->table), hex);
        }
    }
    mdb_cursor_close(cursor);
}

uint64_t gw_store_check(struct gw_store *store, void (*tell)(void *ctx, const char *text),
                        void *ctx)
{
    struct check check = {.store = store, .tell = tell, .ctx = ctx};
    struct gw_key from = {.bytes = {0}, .size = 1};
    for (int i = 0; i < GW_TABLE_COUNT; i++) {
        struct gw_store_read *read;
        check.table = (enum gw_table)i;
        base_assert(store->read_only || store->tables[i] != GW_STORE_NO_TABLE);
        if (store->tables[i] == GW_STORE_NO_TABLE) {
            continue;
        }
        if (gw_store_read_begin(store, &read) != BASE_OK) {
            find(&check, "%s: cannot read", gw_table_name(check.table));
            continue;
        }
        check_seals(&check, read);
        enum base_status status = gw_store_read_scan(read, check.table, &from, check_key, &check);
        gw_store_read_end(read);
        if (status != BASE_OK) {
            find(&check, "%s: %s", gw_table_name(check.table), base_status_text(status));
        }
    }
    check_blobs(&check);
    return check.findings;
}

// What is in the folder beside its two dots: an entry's name into `out`, "" when there is none.
// False: it is none, or may not be read; errno says why.
static bool folder_peek(const char *dir, char out[NAME_MAX + 1])
{
    DIR *folder = opendir(dir);
    const struct dirent *entry = NULL;
    out[0] = '\0';
    if (folder == NULL) {
        return false;
    }
    while (out[0] == '\0' && (entry = readdir(folder)) != NULL) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            (void)snprintf(out, NAME_MAX + 1, "%s", entry->d_name);
        }
    }
    (void)closedir(folder);
    return true;
}

// A copy beside anything else might be taken for the whole of a gateway's folder, with another
// store's keys and blobs.
static enum base_status check_is_empty(const char *dir, struct base_error *error)
{
    char name[NAME_MAX + 1];
    if (!folder_peek(dir, name)) {
        return base_error_set(error, BASE_ERR_IO,
                              "%.100s: %s (compact writes into an empty folder)", dir,
                              strerror(errno));
    }
    return name[0] == '\0'
               ? BASE_OK
               : base_error_set(error, BASE_ERR_EXISTS,
                                "%.60s is not empty, it has %.30s: compact writes into an empty "
                                "folder",
                                dir, name);
}

enum base_status gw_store_compact(struct gw_store *store, const char *dir, struct base_error *error)
{
    char path[GW_STORE_PATH_MAX];
    int size = snprintf(path, sizeof(path), "%s/store.mdb", dir);
    if (size < 0 || (size_t)size >= sizeof(path)) {
        return base_error_set(error, BASE_ERR_TOO_LARGE, "path too long");
    }
    BASE_TRY(check_is_empty(dir, error));
    // LMDB would make a file that everybody may read.
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, COPY_MODE);
    if (fd < 0 && errno == EEXIST) {
        return base_error_set(error, BASE_ERR_EXISTS, "%.120s is there already", path);
    }
    int rc = fd < 0 ? errno : mdb_env_copyfd2(store->env, fd, MDB_CP_COMPACT);
    rc = rc == 0 && fsync(fd) != 0 ? errno : rc;
    if (fd >= 0 && close(fd) != 0 && rc == 0) {
        rc = errno;
    }
    base_assert(rc != 0 || fd >= 0);
    if (rc != 0 && fd >= 0) {
        (void)unlink(path);
    }
    return rc == 0 ? BASE_OK
                   : base_error_set(error, gw_store_status(rc), "cannot write %.100s: %s", path,
                                    mdb_strerror(rc));
}
