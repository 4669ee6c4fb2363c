// Reading what the system says of this process. preflight.c asks what the machine has;
// fleet_virtual.c looks once a virtual second, and at the end when every device sleeps. On the
// coordinator's thread. A file that lies in memory (/dev/shm) is memory whether it is mapped or
// not, so pages of such are left out here and added as the file's size.
#include "run/fleet_memory.h"

#include "base/str.h"

#include <malloc.h>
#include <stdio.h>
#include <string.h>

#define LINE_BYTES 128

uint64_t sim_proc_bytes(const char *path, const char *name)
{
    char line[LINE_BYTES];
    uint64_t kib = 0;
    FILE *file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        if (base_str_starts(base_str_of(line), base_str_of(name))) {
            size_t from = strcspn(line, "0123456789");
            size_t size = strspn(line + from, "0123456789");
            if (base_str_u64((struct base_str){line + from, size}, &kib) != BASE_OK) {
                kib = 0;
            }
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return kib * 1024;
}

uint64_t sim_memory_now(void)
{
    return sim_proc_bytes("/proc/self/status", "RssAnon:") +
           sim_proc_bytes("/proc/self/status", "RssFile:");
}

uint64_t sim_memory_kept(void)
{
    (void)malloc_trim(0);
    return sim_memory_now();
}

void sim_memory_look(struct sim_memory_watch *watch, uint64_t folder_bytes)
{
    uint64_t now_bytes = sim_memory_now() + folder_bytes;
    watch->begin_bytes = watch->begin_bytes != 0 ? watch->begin_bytes : now_bytes;
    watch->peak_bytes = now_bytes > watch->peak_bytes ? now_bytes : watch->peak_bytes;
}
