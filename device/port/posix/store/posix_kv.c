// The data pipeline's key-value port on LMDB. Made by posix_pipeline.c; called by collective
// storage on the runtime's thread. One commit is one transaction, tried again with a larger map as
// long as it is the map that is full. Reads share one transaction that is reset and renewed, and
// dropped where the map changes, for LMDB wants none open then. Each value has its seal
// (posix_env.c), and one that does not fit it is as good as absent.
#include "posix/store/posix_kv.h"

#include "posix/store/posix_env.h"

#include "base/os/errno_status.h"
#include "base/os/regular_file.h"
#include "base/os/write_all.h"

#include <errno.h>
#include <fcntl.h>
#include <lmdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FOLDER     "pipeline"
#define TABLE      "pipeline"
#define SEALED_KEY "\xffsealed" // no space's; in every environment whose values have seals
#define FILE_MODE  0600
#define DIR_MODE   0700
#define PATH_BYTES 4096
#define KEY_BYTES  (1 + DEV_COLLECT_KEY_MAX)

struct posix_kv {
    MDB_env *env;
    MDB_dbi dbi;
    MDB_txn *reader; // reset between reads; NULL: none yet
    uint64_t map;
    uint64_t map_last;
    const struct base_log *log;
    uint64_t damaged; // values that were not what was put
};

static MDB_val full_key(uint8_t out[KEY_BYTES], enum dev_space space, const void *key,
                        size_t key_size)
{
    out[0] = (uint8_t)space;
    if (key_size > 0) {
        memcpy(out + 1, key, key_size);
    }
    return (MDB_val){1 + key_size, out};
}

static void reader_drop(struct posix_kv *kv)
{
    if (kv->reader != NULL) {
        mdb_txn_abort(kv->reader);
        kv->reader = NULL;
    }
}

static enum base_status reader_begin(struct posix_kv *kv)
{
    if (kv->reader == NULL) {
        return posix_status_of_mdb(mdb_txn_begin(kv->env, NULL, MDB_RDONLY, &kv->reader));
    }
    return posix_status_of_mdb(mdb_txn_renew(kv->reader));
}

// ---- Commit

static int apply(MDB_txn *txn, MDB_dbi dbi, const struct dev_kv_change *change)
{
    uint8_t bytes[KEY_BYTES];
    MDB_val key = full_key(bytes, change->space, change->key, change->key_size);
    if (change->value == NULL) {
        int result = mdb_del(txn, dbi, &key, NULL);
        return result == MDB_NOTFOUND ? MDB_SUCCESS : result;
    }
    return posix_env_put(txn, dbi, TABLE, &key,
                         (struct base_span){change->value, change->value_size});
}

static int commit_once(struct posix_kv *kv, const struct dev_kv_change *changes, uint32_t count)
{
    MDB_txn *txn = NULL;
    int result = mdb_txn_begin(kv->env, NULL, 0, &txn);
    if (result != MDB_SUCCESS) {
        return result;
    }
    for (uint32_t i = 0; i < count && result == MDB_SUCCESS; i++) {
        result = apply(txn, kv->dbi, &changes[i]);
    }
    if (result != MDB_SUCCESS) {
        mdb_txn_abort(txn);
        return result;
    }
    return mdb_txn_commit(txn);
}

static bool map_grow(struct posix_kv *kv)
{
    uint64_t size = kv->map * 2 < kv->map_last ? kv->map * 2 : kv->map_last;
    reader_drop(kv); // no transaction may be open
    if (size <= kv->map || mdb_env_set_mapsize(kv->env, size) != MDB_SUCCESS) {
        return false;
    }
    kv->map = size;
    return true;
}

// LMDB makes EIO of a write that came back short, as on a disk that is full.
static enum base_status status_of_commit(const struct posix_kv *kv, int result)
{
    mdb_filehandle_t fd = -1;
    bool full = result == EIO && mdb_env_get_fd(kv->env, &fd) == MDB_SUCCESS &&
                base_write_end_look(fd) == BASE_ERR_FULL;
    return full ? BASE_ERR_FULL : posix_status_of_mdb(result);
}

static enum base_status kv_commit(void *ctx, const struct dev_kv_change *changes, uint32_t count)
{
    struct posix_kv *kv = ctx;
    for (uint32_t i = 0; i < count; i++) {
        if (changes[i].key_size > DEV_COLLECT_KEY_MAX) {
            return BASE_ERR_TOO_LARGE;
        }
    }
    int result = commit_once(kv, changes, count);
    while (result == MDB_MAP_FULL && map_grow(kv)) {
        result = commit_once(kv, changes, count);
    }
    return status_of_commit(kv, result);
}

// ---- Reading

// A value that is not what was put is as good as none: what is derived is made again. Said once.
static bool open_value(struct posix_kv *kv, const MDB_val *key, const MDB_val *value,
                       struct base_span *out)
{
    if (posix_env_open_value(TABLE, key, value, out) == BASE_OK) {
        return true;
    }
    if (kv->damaged++ == 0 && kv->log != NULL) {
        base_log_warn(kv->log, "device", "stored events or features are damaged: left out");
    }
    return false;
}

static enum base_status kv_get(void *ctx, struct dev_kv_key key, void *out, size_t capacity,
                               size_t *out_size)
{
    struct posix_kv *kv = ctx;
    uint8_t bytes[KEY_BYTES];
    if (key.size > DEV_COLLECT_KEY_MAX) {
        return BASE_ERR_TOO_LARGE;
    }
    BASE_TRY(reader_begin(kv));
    MDB_val found = full_key(bytes, key.space, key.data, key.size);
    MDB_val value = {0, NULL};
    enum base_status status = posix_status_of_mdb(mdb_get(kv->reader, kv->dbi, &found, &value));
    struct base_span value_bytes = {NULL, 0};
    if (status == BASE_OK && !open_value(kv, &found, &value, &value_bytes)) {
        status = BASE_ERR_NOT_FOUND;
    }
    if (status == BASE_OK) {
        *out_size = value_bytes.size;
        if (value_bytes.size > capacity) {
            status = BASE_ERR_TOO_LARGE;
        } else if (value_bytes.size > 0) {
            memcpy(out, value_bytes.data, value_bytes.size);
        }
    }
    mdb_txn_reset(kv->reader);
    return status;
}

static bool begins(const MDB_val *key, const MDB_val *prefix)
{
    return key->mv_size >= prefix->mv_size &&
           memcmp(key->mv_data, prefix->mv_data, prefix->mv_size) == 0;
}

static enum base_status kv_scan(void *ctx, const struct dev_kv_range *range, dev_kv_visit_fn visit,
                                void *visit_ctx)
{
    struct posix_kv *kv = ctx;
    uint8_t prefix_bytes[KEY_BYTES];
    uint8_t from_bytes[KEY_BYTES];
    if (range->prefix_size > DEV_COLLECT_KEY_MAX || range->from_size > DEV_COLLECT_KEY_MAX) {
        return BASE_ERR_TOO_LARGE;
    }
    MDB_val wanted = full_key(prefix_bytes, range->space, range->prefix, range->prefix_size);
    MDB_val key = full_key(from_bytes, range->space, range->from, range->from_size);
    MDB_val value = {0, NULL};
    MDB_cursor *cursor = NULL;
    BASE_TRY(reader_begin(kv));
    if (mdb_cmp(kv->reader, kv->dbi, &key, &wanted) < 0) {
        key = wanted;
    }
    int result = mdb_cursor_open(kv->reader, kv->dbi, &cursor);
    if (result == MDB_SUCCESS) {
        result = mdb_cursor_get(cursor, &key, &value, MDB_SET_RANGE);
    }
    struct base_span bytes;
    while (
        result == MDB_SUCCESS && begins(&key, &wanted) &&
        (!open_value(kv, &key, &value, &bytes) || visit(visit_ctx, (const uint8_t *)key.mv_data + 1,
                                                        key.mv_size - 1, bytes.data, bytes.size))) {
        result = mdb_cursor_get(cursor, &key, &value, MDB_NEXT);
    }
    mdb_cursor_close(cursor);
    mdb_txn_reset(kv->reader);
    return result == MDB_NOTFOUND ? BASE_OK : posix_status_of_mdb(result);
}

struct dev_kv_port posix_kv_port(struct posix_kv *kv)
{
    return (struct dev_kv_port){.ctx = kv, .commit = kv_commit, .get = kv_get, .scan = kv_scan};
}

// ---- Life

static int open_dbi(struct posix_kv *kv)
{
    MDB_txn *txn = NULL;
    int result = mdb_txn_begin(kv->env, NULL, 0, &txn);
    if (result != MDB_SUCCESS) {
        return result;
    }
    result = mdb_dbi_open(txn, NULL, 0, &kv->dbi);
    if (result != MDB_SUCCESS) {
        mdb_txn_abort(txn);
        return result;
    }
    return mdb_txn_commit(txn);
}

// The map of an environment that is there already may be larger than what we begin with.
static uint64_t map_of(MDB_env *env, uint64_t least)
{
    MDB_envinfo info;
    return mdb_env_info(env, &info) == MDB_SUCCESS && info.me_mapsize > least ? info.me_mapsize
                                                                              : least;
}

static enum base_status open_once(struct posix_kv *kv, const char *path)
{
    int result = mdb_env_create(&kv->env);
    if (result == MDB_SUCCESS) {
        result = mdb_env_set_mapsize(kv->env, kv->map);
    }
    if (result == MDB_SUCCESS) {
        result = mdb_env_open(kv->env, path, 0, FILE_MODE);
    }
    if (result == MDB_SUCCESS) {
        int dead = 0; // readers of a process that was killed would keep pages from being used again
        kv->map = map_of(kv->env, kv->map);
        result = mdb_reader_check(kv->env, &dead);
    }
    if (result == MDB_SUCCESS) {
        result = open_dbi(kv);
    }
    if (result != MDB_SUCCESS) {
        mdb_env_close(kv->env);
        kv->env = NULL;
    }
    return posix_status_of_mdb(result);
}

// ---- Environments of releases that sealed nothing

static int seal_all(struct posix_kv *kv, MDB_txn *txn)
{
    MDB_cursor *cursor = NULL;
    MDB_val key;
    MDB_val value;
    int result = mdb_cursor_open(txn, kv->dbi, &cursor);
    while (result == MDB_SUCCESS &&
           (result = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) == MDB_SUCCESS) {
        // LMDB may move both while it puts.
        uint8_t key_bytes[KEY_BYTES];
        uint8_t *copy = malloc(value.mv_size + 1);
        MDB_val own = {key.mv_size, key_bytes};
        result = copy == NULL || key.mv_size > sizeof(key_bytes) ? ENOMEM : MDB_SUCCESS;
        if (result == MDB_SUCCESS) {
            memcpy(key_bytes, key.mv_data, key.mv_size);
            memcpy(copy, value.mv_data, value.mv_size);
            result =
                posix_env_put(txn, kv->dbi, TABLE, &own, (struct base_span){copy, value.mv_size});
        }
        free(copy);
        if (result == MDB_SUCCESS) {
            result = mdb_cursor_get(cursor, &own, &value, MDB_SET_KEY);
        }
    }
    mdb_cursor_close(cursor);
    return result == MDB_NOTFOUND ? MDB_SUCCESS : result;
}

static int seal_once(struct posix_kv *kv)
{
    MDB_val mark = {sizeof(SEALED_KEY) - 1, SEALED_KEY};
    MDB_val there;
    MDB_txn *txn = NULL;
    int result = mdb_txn_begin(kv->env, NULL, 0, &txn);
    if (result != MDB_SUCCESS) {
        return result;
    }
    result = mdb_get(txn, kv->dbi, &mark, &there);
    if (result != MDB_NOTFOUND) {
        mdb_txn_abort(txn);
        return result;
    }
    result = seal_all(kv, txn);
    if (result == MDB_SUCCESS) {
        result = posix_env_put(txn, kv->dbi, TABLE, &mark, (struct base_span){0});
    }
    if (result != MDB_SUCCESS) {
        mdb_txn_abort(txn);
        return result;
    }
    return mdb_txn_commit(txn);
}

// In one transaction: all values have seals, or none.
static enum base_status seal_values(struct posix_kv *kv)
{
    int result = seal_once(kv);
    while (result == MDB_MAP_FULL && map_grow(kv)) {
        result = seal_once(kv);
    }
    return status_of_commit(kv, result);
}

static enum base_status open_sealed(struct posix_kv *kv, const char *path)
{
    BASE_TRY(open_once(kv, path));
    enum base_status status = seal_values(kv);
    if (status != BASE_OK) {
        mdb_env_close(kv->env);
        kv->env = NULL;
    }
    return status;
}

static enum base_status open_env(struct posix_kv *kv, const char *folder, const char *path, int dir,
                                 struct base_error *why)
{
    BASE_TRY(base_folder_look(dir, FOLDER, why));
    if (mkdirat(dir, FOLDER, DIR_MODE) != 0 && errno != EEXIST) {
        return base_status_of_errno(errno);
    }
    enum base_status status = posix_env_check(folder, FOLDER, why);
    if (status == BASE_OK) {
        status = open_sealed(kv, path);
    }
    if (status != BASE_ERR_CORRUPT) {
        return status;
    }
    const char *what = why->text[0] != '\0' ? why->text : "not an environment";
    BASE_TRY(posix_env_set_aside(dir, FOLDER, "stored events and features", what, kv->log));
    return open_sealed(kv, path);
}

enum base_status posix_kv_new(const struct posix_kv_options *options, struct posix_kv **out,
                              struct base_error *error)
{
    char path[PATH_BYTES];
    int written = snprintf(path, sizeof(path), "%s/" FOLDER, options->dir);
    if (written < 0 || (size_t)written >= sizeof(path)) {
        return base_error_set(error, BASE_ERR_TOO_LARGE, "path of the pipeline's store");
    }
    int dir = open(options->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0) {
        return base_error_set(error, base_status_of_errno(errno), "%s: cannot open the folder",
                              options->dir);
    }
    struct posix_kv *kv = calloc(1, sizeof(*kv));
    struct base_error why = {0};
    enum base_status status = BASE_ERR_NOMEM;
    if (kv != NULL) {
        kv->log = options->log;
        kv->map = options->map_first > 0 ? options->map_first : POSIX_KV_MAP_FIRST;
        kv->map_last = options->map_last > 0 ? options->map_last : POSIX_KV_MAP_LAST;
        status = open_env(kv, options->dir, path, dir, &why);
    }
    (void)close(dir);
    if (status != BASE_OK) {
        free(kv);
        return base_error_set(error, status, "%s: cannot open the store: %s", path,
                              why.text[0] != '\0' ? why.text : base_status_text(status));
    }
    *out = kv;
    return BASE_OK;
}

void posix_kv_free(struct posix_kv *kv)
{
    if (kv == NULL) {
        return;
    }
    reader_drop(kv);
    mdb_env_close(kv->env);
    free(kv);
}
