// Looks at a task's folder from time to time; see the header. Called by cli_task_run.c between two
// runs, on the one thread there is. A look is names, times and sizes: no file is opened. Editors
// save in several steps, so a change counts when a second look finds the same.
#include "cli/task/task_watch.h"

#include <fts.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

static uint64_t mix(uint64_t stamp, const void *bytes, size_t size)
{
    const uint8_t *at = bytes;
    for (size_t i = 0; i < size; i++) {
        stamp = (stamp ^ at[i]) * UINT64_C(0x100000001b3); // FNV-1a
    }
    return stamp;
}

static uint64_t mix_entry(uint64_t stamp, const FTSENT *entry)
{
    const struct stat *about = entry->fts_statp;
    const int64_t numbers[] = {about->st_mtim.tv_sec, about->st_mtim.tv_nsec, about->st_size};
    stamp = mix(stamp, entry->fts_path, entry->fts_pathlen);
    return entry->fts_info == FTS_F ? mix(stamp, numbers, sizeof(numbers)) : stamp;
}

// The order of entries is the folder's own: sums, so that it does not matter.
uint64_t task_watch_stamp(const char *folder)
{
    char path[4096];
    char *const roots[] = {path, NULL};
    uint64_t sum = 0;
    uint32_t entries = 0;
    size_t size = strlen(folder);
    if (size >= sizeof(path)) {
        return 0;
    }
    memcpy(path, folder, size + 1);
    FTS *walk = fts_open(roots, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR, NULL);
    if (walk == NULL) {
        return 0;
    }
    for (FTSENT *entry; entries < TASK_WATCH_ENTRIES_MAX && (entry = fts_read(walk)) != NULL;) {
        entries++;
        if (entry->fts_level > 0 && entry->fts_name[0] == '.') {
            (void)fts_set(walk, entry, FTS_SKIP);
        } else if (entry->fts_info == FTS_F || entry->fts_info == FTS_D) {
            sum += mix_entry(UINT64_C(0xcbf29ce484222325), entry);
        }
    }
    (void)fts_close(walk);
    return sum;
}

uint64_t task_watch_wait(const char *folder, uint64_t stamp)
{
    const struct timespec pause = {.tv_nsec = TASK_WATCH_MS * 1000000L};
    uint64_t last = stamp;
    for (;;) {
        (void)nanosleep(&pause, NULL);
        uint64_t now = task_watch_stamp(folder);
        if (now != stamp && now == last) {
            return now;
        }
        last = now;
    }
}
