// The one place that asks the file system how full it is. At start on the main thread, then on the
// keeper's. gw_tunnel.c begins the watch, and takes from it how large the log may become; keeper.c
// has it look at each of its looks. Others only read the level, an atomic: it is as old as the last
// look, so devices are stopped well before the disk is full.
#include "tunnel/disk_guard.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/statvfs.h>

static enum gw_disk_level level_of(const struct gw_disk_guard *guard, uint64_t free_bytes)
{
    if (free_bytes < guard->keep_free) {
        return GW_DISK_NO_DEVICES;
    }
    return free_bytes / GW_DISK_STRANGERS < guard->keep_free ? GW_DISK_NO_STRANGERS : GW_DISK_FINE;
}

static void say(const struct gw_disk_guard *guard, enum gw_disk_level level, uint64_t free_bytes)
{
    if (level == GW_DISK_FINE) {
        base_log_info(guard->log, "disk", "%" PRIu64 " MiB are free: everybody writes again",
                      free_bytes >> 20);
    } else {
        base_log_error(guard->log, "disk",
                       "%" PRIu64 " MiB are free, disk.keep_free_bytes is %" PRIu64
                       " MiB: what %s send is refused",
                       free_bytes >> 20, guard->keep_free >> 20,
                       level == GW_DISK_NO_DEVICES ? "devices" : "unproven devices");
    }
}

void gw_disk_guard_watch(struct gw_disk_guard *guard, const char *dir)
{
    // A name that is cut names nothing, and what is not found changes nothing.
    (void)snprintf(guard->dir, sizeof(guard->dir), "%s", dir);
    gw_disk_guard_look(guard);
}

void gw_disk_guard_look(struct gw_disk_guard *guard)
{
    struct statvfs disk;
    if (statvfs(guard->dir, &disk) != 0) {
        return;
    }
    uint64_t free_bytes = (uint64_t)disk.f_bavail * disk.f_frsize;
    enum gw_disk_level level = level_of(guard, free_bytes);
    atomic_store_explicit(&guard->free_bytes, free_bytes, memory_order_relaxed);
    if (level == gw_disk_guard_level(guard)) {
        return;
    }
    atomic_store_explicit(&guard->level, (int)level, memory_order_relaxed);
    say(guard, level, free_bytes);
    if (guard->changed != NULL) {
        guard->changed(guard->ctx, level);
    }
}

uint64_t gw_disk_guard_share(const struct gw_disk_guard *guard, uint64_t used)
{
    uint64_t free_bytes = atomic_load_explicit(&guard->free_bytes, memory_order_relaxed);
    return (free_bytes + used) / 100 * GW_RETAIN_SHARE_PERCENT;
}
