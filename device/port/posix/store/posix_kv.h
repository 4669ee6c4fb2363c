// The store of the data pipeline on posix: one LMDB environment in DIR/pipeline. A commit is one
// transaction, durable when it returns: LMDB writes the changed pages and flushes them, then writes
// and flushes the page that makes them the current ones. The space is the first byte of a key, so
// that changes of several spaces touch one tree.
//
// The map begins at POSIX_KV_MAP_FIRST and doubles when it is full, up to POSIX_KV_MAP_LAST; then a
// commit answers FULL and changes nothing. The pages of the file are looked at before LMDB opens it
// (base/os/lmdb_pages.h); one that is damaged is set aside as DIR/pipeline.damaged, and the device
// starts with an empty one. Every value has a seal (base/record_seal.h); one that is not what was
// put is left out, and the log says so once.
//
// One process and one thread use it.
#ifndef POSIX_KV_H
#define POSIX_KV_H

#include "base/error.h"
#include "base/log.h"
#include "pipeline/storage/collect.h"

#define POSIX_KV_MAP_FIRST (4u * 1024 * 1024)
#define POSIX_KV_MAP_LAST  (64u * 1024 * 1024)

struct posix_kv;

struct posix_kv_options {
    const char *dir;            // exists
    uint64_t map_first;         // bytes; 0 takes POSIX_KV_MAP_FIRST
    uint64_t map_last;          // 0 takes POSIX_KV_MAP_LAST
    const struct base_log *log; // NULL: silence
};

// *error says what and where. IO, FULL, NOMEM, TOO_LARGE, CORRUPT (also after setting aside).
BASE_NODISCARD enum base_status posix_kv_new(const struct posix_kv_options *options,
                                             struct posix_kv **out, struct base_error *error);
void posix_kv_free(struct posix_kv *kv);
struct dev_kv_port posix_kv_port(struct posix_kv *kv); // valid until _free

#endif
