// Reads the record of earlier releases out of LMDB, so that an update of the agent keeps the
// device's state. Called by posix_state.c on the runtime's thread: once, where there is no record
// in files yet, and once more to remove the environment when the first save has replaced it. Kept
// apart so that it can go with the last of those releases; nothing is ever written in the old form.
#include "posix/store/posix_state_old.h"

#include "posix/store/posix_env.h"

#include <lmdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define STATE_KEY      "state/2" // sealed
#define STATE_KEY_BARE "state/1" // of releases that sealed nothing
#define STATE_TABLE    "state"
#define FILE_MODE      0600
#define PATH_BYTES     4096

static enum base_status find(MDB_txn *txn, struct base_span *out)
{
    MDB_dbi dbi = 0;
    MDB_val key = {sizeof(STATE_KEY) - 1, STATE_KEY};
    MDB_val bare = {sizeof(STATE_KEY_BARE) - 1, STATE_KEY_BARE};
    MDB_val value = {0, NULL};
    BASE_TRY(posix_status_of_mdb(mdb_dbi_open(txn, NULL, 0, &dbi)));
    enum base_status status = posix_status_of_mdb(mdb_get(txn, dbi, &key, &value));
    if (status == BASE_OK) {
        return posix_env_open_value(STATE_TABLE, &key, &value, out);
    }
    if (status == BASE_ERR_NOT_FOUND) {
        BASE_TRY(posix_status_of_mdb(mdb_get(txn, dbi, &bare, &value)));
        *out = (struct base_span){value.mv_data, value.mv_size};
        return BASE_OK;
    }
    return status;
}

static enum base_status copy(MDB_env *env, uint8_t *out, size_t capacity, size_t *out_size)
{
    MDB_txn *txn = NULL;
    struct base_span bytes = {NULL, 0};
    BASE_TRY(posix_status_of_mdb(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn)));
    enum base_status status = find(txn, &bytes);
    if (status == BASE_OK && bytes.size > capacity) {
        status = BASE_ERR_TOO_LARGE;
    }
    if (status == BASE_OK) {
        memcpy(out, bytes.data, bytes.size);
        *out_size = bytes.size;
    }
    mdb_txn_abort(txn);
    return status;
}

static enum base_status load(const char *path, uint8_t *out, size_t capacity, size_t *out_size)
{
    MDB_env *env = NULL;
    BASE_TRY(posix_status_of_mdb(mdb_env_create(&env)));
    enum base_status status =
        posix_status_of_mdb(mdb_env_open(env, path, MDB_RDONLY | MDB_NOLOCK, FILE_MODE));
    if (status == BASE_OK) {
        status = copy(env, out, capacity, out_size);
    }
    mdb_env_close(env);
    return status;
}

enum base_status posix_state_old_load(const struct posix_state_old *old, uint8_t *out,
                                      size_t capacity, size_t *out_size)
{
    char path[PATH_BYTES];
    struct stat info;
    struct base_error why = {.text = "not an environment"};
    if (fstatat(old->device, "state/data.mdb", &info, 0) != 0) {
        return BASE_ERR_NOT_FOUND;
    }
    if (snprintf(path, sizeof(path), "%s/state", old->dir) >= (int)sizeof(path)) {
        return BASE_ERR_TOO_LARGE;
    }
    enum base_status status = posix_env_check(old->dir, "state", &why);
    if (status == BASE_OK) {
        status = load(path, out, capacity, out_size);
    }
    if (status == BASE_ERR_CORRUPT) {
        BASE_TRY(posix_env_set_aside(old->device, "state", "stored state", why.text, old->log));
    }
    return status;
}

void posix_state_old_remove(int device)
{
    (void)unlinkat(device, "state/data.mdb", 0);
    (void)unlinkat(device, "state/lock.mdb", 0);
}
