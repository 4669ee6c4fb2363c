// LMDB environments of a device: checked before they are opened, sealed value by value. Called by
// posix_kv.c for the data pipeline's store and by posix_state_old.c for records of earlier
// releases, on the runtime's thread. LMDB maps its file and trusts it: a damaged page would lead it
// outside the map, and a link under the lock file's name to a file of somebody else. Both are
// looked at here first (base/os/lmdb_pages.h), and what is damaged is set aside.
#include "posix/store/posix_env.h"

#include "base/os/errno_status.h"
#include "base/os/lmdb_pages.h"
#include "base/os/regular_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_BYTES 4096
#define NAME_BYTES 64
#define DIR_MODE   0700

enum base_status posix_status_of_mdb(int result)
{
    switch (result) {
    case MDB_SUCCESS:
        return BASE_OK;
    case MDB_NOTFOUND:
        return BASE_ERR_NOT_FOUND;
    case MDB_MAP_FULL:
        return BASE_ERR_FULL;
    case MDB_CORRUPTED:
    case MDB_INVALID:
    case MDB_PAGE_NOTFOUND:
    case MDB_VERSION_MISMATCH:
        return BASE_ERR_CORRUPT;
    default:
        return base_status_of_errno(result);
    }
}

// LMDB would follow a link and write where it leads.
static enum base_status check_lock(const char *folder, const char *name, struct base_error *error)
{
    char path[PATH_BYTES];
    struct base_error why = {0};
    int size = snprintf(path, sizeof(path), "%s/%s/lock.mdb", folder, name);
    if (size < 0 || size >= PATH_BYTES) {
        return base_error_set(error, BASE_ERR_TOO_LARGE, "%s: path too long", name);
    }
    enum base_status status = base_regular_look(path, false, &why);
    if (status == BASE_OK || status == BASE_ERR_NOT_FOUND) {
        return BASE_OK;
    }
    return base_error_set(error, status, "%.110s; remove it: it is made anew", why.text);
}

enum base_status posix_env_check(const char *folder, const char *name, struct base_error *error)
{
    static const struct base_pages_visitor nobody = {NULL, NULL, NULL};
    char path[PATH_BYTES];
    int size = snprintf(path, sizeof(path), "%s/%s/data.mdb", folder, name);
    if (size < 0 || size >= PATH_BYTES) {
        return base_error_set(error, BASE_ERR_TOO_LARGE, "%s: path too long", name);
    }
    BASE_TRY(check_lock(folder, name, error));
    // LMDB would make it where a link leads.
    if (base_regular_look(path, false, error) == BASE_ERR_INVALID) {
        return BASE_ERR_CORRUPT;
    }
    const struct base_pages_file file = {.path = path, .name = "data.mdb", .plain = true};
    enum base_status status = base_pages_walk(&file, &nobody, error);
    if (status == BASE_ERR_UNSUPPORTED || status == BASE_ERR_INVALID) {
        return BASE_ERR_CORRUPT;
    }
    return status == BASE_ERR_NOT_FOUND ? BASE_OK : status;
}

enum base_status posix_env_set_aside(int folder, const char *name, const char *what,
                                     const char *why, const struct base_log *log)
{
    char aside[NAME_BYTES];
    char inside[NAME_BYTES + 16];
    (void)snprintf(aside, sizeof(aside), "%s.damaged", name);
    if (log != NULL) {
        base_log_warn(log, "device", "%s: damaged (%s); set aside as %s", what, why, aside);
    }
    for (int i = 0; i < 2; i++) {
        (void)snprintf(inside, sizeof(inside), "%s/%s", aside, i == 0 ? "data.mdb" : "lock.mdb");
        (void)unlinkat(folder, inside, 0);
    }
    (void)unlinkat(folder, aside, AT_REMOVEDIR);
    (void)unlinkat(folder, aside, 0);
    if (renameat(folder, name, folder, aside) != 0 || mkdirat(folder, name, DIR_MODE) != 0) {
        return base_status_of_errno(errno);
    }
    return BASE_OK;
}

int posix_env_put(MDB_txn *txn, MDB_dbi dbi, const char *table, MDB_val *key,
                  struct base_span bytes)
{
    MDB_val room = {bytes.size + BASE_SEAL_BYTES, NULL};
    int result = mdb_put(txn, dbi, key, &room, MDB_RESERVE);
    if (result == MDB_SUCCESS) {
        uint8_t *out = room.mv_data;
        if (bytes.size > 0) {
            memcpy(out, bytes.data, bytes.size);
        }
        base_record_seal(table, (struct base_span){key->mv_data, key->mv_size}, bytes,
                         out + bytes.size);
    }
    return result;
}

enum base_status posix_env_open_value(const char *table, const MDB_val *key, const MDB_val *value,
                                      struct base_span *out_bytes)
{
    return base_record_unseal(table, (struct base_span){key->mv_data, key->mv_size},
                              (struct base_span){value->mv_data, value->mv_size}, out_bytes);
}
