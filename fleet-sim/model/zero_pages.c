// Memory of the operating system's own, in whole pages, which it makes when they are first touched.
// Called where a shard is set up and torn down, on the coordinator's thread; the shard's own thread
// uses what lies there.
#include "model/zero_pages.h"

#include "base/check.h"

#include <sys/mman.h>

void *sim_pages_new(size_t bytes)
{
    void *pages = mmap(NULL, bytes > 0 ? bytes : 1, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return pages != MAP_FAILED ? pages : NULL;
}

void sim_pages_free(void *pages, size_t bytes)
{
    if (pages != NULL) {
        int gone = munmap(pages, bytes > 0 ? bytes : 1);
        base_check(gone == 0);
    }
}
