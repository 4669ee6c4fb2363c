// Memory of the operating system's own, in whole pages, which it makes when they are first touched.
// Called where a shard is set up and torn down, on the coordinator's thread; the shard's own thread
// uses what lies there.
#include "model/zero_pages.h"

#include "base/check.h"

#include <stdint.h>
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

static size_t whole(size_t bytes)
{
    size_t count = (bytes + SIM_LARGE_PAGE_BYTES - 1) / SIM_LARGE_PAGE_BYTES;
    return (count > 0 ? count : 1) * SIM_LARGE_PAGE_BYTES;
}

// A large page begins at a multiple of its size: what is mapped too much goes back.
void *sim_large_pages_new(size_t bytes)
{
    size_t size = whole(bytes);
    if (size < bytes || size > SIZE_MAX - SIM_LARGE_PAGE_BYTES) {
        return NULL;
    }
    char *mapped = sim_pages_new(size + SIM_LARGE_PAGE_BYTES);
    if (mapped == NULL) {
        return NULL;
    }
    size_t before =
        (SIM_LARGE_PAGE_BYTES - (uintptr_t)mapped % SIM_LARGE_PAGE_BYTES) % SIM_LARGE_PAGE_BYTES;
    char *pages = mapped + before;
    if (before > 0) {
        sim_pages_free(mapped, before);
    }
    if (before < SIM_LARGE_PAGE_BYTES) {
        sim_pages_free(pages + size, SIM_LARGE_PAGE_BYTES - before);
    }
    (void)madvise(pages, size, MADV_HUGEPAGE); // without, it is only slower
    base_assert((uintptr_t)pages % SIM_LARGE_PAGE_BYTES == 0);
    return pages;
}

void sim_large_pages_free(void *pages, size_t bytes)
{
    if (pages != NULL) {
        sim_pages_free(pages, whole(bytes));
    }
}
