// How much of the disk is left, and who may still write.
//
// The file system that the data folder lies on is asked by the keeper every half second. Below
// twice `keep_free_bytes` strangers write nothing more, below it no device does; what is left then
// is the operators', until the disk is full. It is said in the log when it changes.
//
// SHARED: the keeper's thread looks; anybody reads level and figures.
#ifndef GW_DISK_GUARD_H
#define GW_DISK_GUARD_H

#include "base/log.h"
#include "svc/core.h"

#include <stdatomic.h>

#define GW_DISK_PATH_MAX        4096u
#define GW_DISK_KEEP_FREE       (UINT64_C(512) << 20)
#define GW_DISK_STRANGERS       2u  // times keep_free_bytes: below, strangers are refused
#define GW_RETAIN_SHARE_PERCENT 50u // of what is free at start: the log's bound when none is set

struct gw_disk_guard {
    char dir[GW_DISK_PATH_MAX];
    uint64_t keep_free;
    const struct base_log *log;
    void *ctx;
    void (*changed)(void *ctx, enum gw_disk_level level); // NULL: nobody else is told
    _Atomic uint64_t free_bytes;
    _Atomic int level; // enum gw_disk_level
};

// From now on it is the file system of `dir`, which is copied; asks it at once.
void gw_disk_guard_watch(struct gw_disk_guard *guard, const char *dir);
// Asks the file system; when it does not answer, all stays as it was.
void gw_disk_guard_look(struct gw_disk_guard *guard);
static inline enum gw_disk_level gw_disk_guard_level(const struct gw_disk_guard *guard)
{
    return (enum gw_disk_level)atomic_load_explicit(&guard->level, memory_order_relaxed);
}
// What a log that has `used` bytes may have when nothing is set: a share of those and what is free.
uint64_t gw_disk_guard_share(const struct gw_disk_guard *guard, uint64_t used);

#endif
