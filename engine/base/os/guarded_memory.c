// Guarded memory by mmap: one reservation without access, and in its middle the memory itself, laid
// over it. No mprotect, which the wall around a task's process forbids (runner/runner_wall.c).
// Called by device/vm/vm_run.c when a VM is made and freed, on its thread. What the system takes
// for such memory is a hundred times what a small VM takes to be made, so that the last few that
// were freed are kept for the next ones, as malloc keeps blocks.
#include "base/os/guarded_memory.h"

#include "base/check.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#if defined(_POSIX_MAPPED_FILES) && _POSIX_MAPPED_FILES > 0
#include <sys/mman.h>
#define GUARDED 1
#else
#define GUARDED 0
#endif

#define ALIGNMENT      1024
#define KEPT_MAX       4
#define KEPT_BYTES_MAX ((size_t)1 << 20) // of one; a larger one goes back to the system

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_UNPOISON_MEMORY_REGION(start, size) ((void)(start), (void)(size))
#endif

#if GUARDED
// Bytes of the pages that hold so many.
static size_t pages_of(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (bytes + page - 1) / page * page;
}

// What was freed last, for who asks for as much.
static struct {
    pthread_mutex_t mutex;
    struct {
        uint8_t *memory;
        size_t bytes;
    } items[KEPT_MAX];
    unsigned count;
} kept = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static uint8_t *kept_take(size_t bytes)
{
    uint8_t *memory = NULL;
    (void)pthread_mutex_lock(&kept.mutex);
    for (unsigned i = kept.count; i > 0 && memory == NULL; i--) {
        if (kept.items[i - 1].bytes == bytes) {
            memory = kept.items[i - 1].memory;
            kept.items[i - 1] = kept.items[--kept.count];
        }
    }
    (void)pthread_mutex_unlock(&kept.mutex);
    return memory;
}

// The memory goes in, and what has to go back to the system for it comes out.
static void kept_put(uint8_t **memory, size_t *bytes)
{
    if (*bytes > KEPT_BYTES_MAX) {
        return;
    }
    uint8_t *in = *memory;
    size_t in_bytes = *bytes;
    (void)pthread_mutex_lock(&kept.mutex);
    if (kept.count == KEPT_MAX) { // the oldest is the first
        *memory = kept.items[0].memory;
        *bytes = kept.items[0].bytes;
        for (unsigned i = 1; i < KEPT_MAX; i++) {
            kept.items[i - 1] = kept.items[i];
        }
        kept.count--;
    } else {
        *memory = NULL;
    }
    kept.items[kept.count].memory = in;
    kept.items[kept.count++].bytes = in_bytes;
    (void)pthread_mutex_unlock(&kept.mutex);
}

uint8_t *base_guarded_new(size_t bytes)
{
    base_assert(bytes % ALIGNMENT == 0);
    uint8_t *memory = kept_take(bytes);
    if (memory != NULL) {
        return memory;
    }
    size_t inner = pages_of(bytes);
    size_t whole = inner + (size_t)2 * BASE_GUARD_BYTES;
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS;
    uint8_t *at = mmap(NULL, whole, PROT_NONE, flags | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) {
        return NULL;
    }
    uint8_t *middle = at + BASE_GUARD_BYTES;
    if (mmap(middle, inner, PROT_READ | PROT_WRITE, flags | MAP_FIXED, -1, 0) != middle) {
        (void)munmap(at, whole);
        return NULL;
    }
    return middle + inner - bytes;
}

void base_guarded_free(uint8_t *memory, size_t bytes)
{
    if (memory == NULL) {
        return;
    }
    ASAN_UNPOISON_MEMORY_REGION(memory, bytes); // whoever is given these addresses next
    kept_put(&memory, &bytes);
    if (memory != NULL) {
        size_t inner = pages_of(bytes);
        (void)munmap(memory + bytes - inner - BASE_GUARD_BYTES,
                     inner + (size_t)2 * BASE_GUARD_BYTES);
    }
}

bool base_guarded_hit(const uint8_t *memory, size_t bytes, uintptr_t address)
{
    uintptr_t end = (uintptr_t)memory + bytes;
    uintptr_t middle = end - pages_of(bytes);
    return (address < middle && middle - address <= BASE_GUARD_BYTES) ||
           (address >= end && address - end < BASE_GUARD_BYTES);
}
#else
uint8_t *base_guarded_new(size_t bytes)
{
    return aligned_alloc(ALIGNMENT, bytes);
}

void base_guarded_free(uint8_t *memory, size_t bytes)
{
    (void)bytes;
    free(memory);
}

bool base_guarded_hit(const uint8_t *memory, size_t bytes, uintptr_t address)
{
    (void)memory;
    (void)bytes;
    (void)address;
    return false;
}
#endif
