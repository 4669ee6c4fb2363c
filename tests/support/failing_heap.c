// The wrapped allocators (failing_heap.h). The linker names the wrappers; nobody calls them by
// name. Used by tests, on their thread. Shared: the counters are atomic, because what is tested may
// have threads of its own, also while nothing is armed.
#include "failing_heap.h"

#include "base/arena.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static struct {
    _Atomic bool is_armed, once, has_failed;
    _Atomic size_t allowed, calls;
    _Atomic long live;
} heap;

void failing_heap_arm(size_t allowed, bool once)
{
    heap.is_armed = true;
    heap.once = once;
    heap.has_failed = false;
    heap.allowed = allowed;
    heap.calls = 0;
}

size_t failing_heap_disarm(void)
{
    heap.is_armed = false;
    return heap.calls;
}

bool failing_heap_has_failed(void)
{
    return heap.has_failed;
}

long failing_heap_live(void)
{
    return heap.live;
}

static bool fails(void)
{
    if (!heap.is_armed) {
        return false;
    }
    const size_t call = heap.calls++;
    if (call < heap.allowed || (heap.once && call > heap.allowed)) {
        return false;
    }
    heap.has_failed = true;
    return true;
}

static void *count(void *memory)
{
    heap.live += memory != NULL;
    return memory;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
int __real_posix_memalign(void **out, size_t alignment, size_t size);
char *__real_strdup(const char *text);
char *__real_strndup(const char *text, size_t size);
void __real_free(void *memory);
void *__real_mmap(void *at, size_t size, int protection, int flags, int file, off_t offset);
int __real_munmap(void *at, size_t size);

void *__real_base_arena_alloc(struct base_arena *arena, size_t size);
void *__real_base_arena_zalloc(struct base_arena *arena, size_t size);
void *__real_base_arena_copy(struct base_arena *arena, const void *bytes, size_t size);
char *__real_base_arena_text(struct base_arena *arena, const char *text, size_t size);

void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t items, size_t size);
void *__wrap_realloc(void *memory, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
int __wrap_posix_memalign(void **out, size_t alignment, size_t size);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t size);
void __wrap_free(void *memory);
void *__wrap_mmap(void *at, size_t size, int protection, int flags, int file, off_t offset);
int __wrap_munmap(void *at, size_t size);
void *__wrap_base_arena_alloc(struct base_arena *arena, size_t size);
void *__wrap_base_arena_zalloc(struct base_arena *arena, size_t size);
void *__wrap_base_arena_copy(struct base_arena *arena, const void *bytes, size_t size);
char *__wrap_base_arena_text(struct base_arena *arena, const char *text, size_t size);

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : count(__real_malloc(size));
}

void *__wrap_calloc(size_t items, size_t size)
{
    return fails() ? NULL : count(__real_calloc(items, size));
}

void *__wrap_realloc(void *memory, size_t size)
{
    if (fails()) {
        return NULL;
    }
    void *fresh = __real_realloc(memory, size);
    return memory == NULL ? count(fresh) : fresh;
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    return fails() ? NULL : count(__real_aligned_alloc(alignment, size));
}

int __wrap_posix_memalign(void **out, size_t alignment, size_t size)
{
    if (fails()) {
        return ENOMEM;
    }
    const int result = __real_posix_memalign(out, alignment, size);
    heap.live += result == 0;
    return result;
}

char *__wrap_strdup(const char *text)
{
    return fails() ? NULL : count(__real_strdup(text));
}

char *__wrap_strndup(const char *text, size_t size)
{
    return fails() ? NULL : count(__real_strndup(text, size));
}

void __wrap_free(void *memory)
{
    heap.live -= memory != NULL;
    __real_free(memory);
}

void *__wrap_mmap(void *at, size_t size, int protection, int flags, int file, off_t offset)
{
    if ((flags & MAP_ANONYMOUS) != 0 && fails()) {
        return MAP_FAILED;
    }
    void *memory = __real_mmap(at, size, protection, flags, file, offset);
    heap.live += memory != MAP_FAILED && (flags & MAP_FIXED) == 0; // else it lies in another's
    return memory;
}

int __wrap_munmap(void *at, size_t size)
{
    const int result = __real_munmap(at, size);
    heap.live -= result == 0;
    return result;
}

// Pieces of arenas: what one holds is released with it, so they are not counted.
void *__wrap_base_arena_alloc(struct base_arena *arena, size_t size)
{
    return fails() ? NULL : __real_base_arena_alloc(arena, size);
}

void *__wrap_base_arena_zalloc(struct base_arena *arena, size_t size)
{
    return fails() ? NULL : __real_base_arena_zalloc(arena, size);
}

void *__wrap_base_arena_copy(struct base_arena *arena, const void *bytes, size_t size)
{
    return fails() ? NULL : __real_base_arena_copy(arena, bytes, size);
}

char *__wrap_base_arena_text(struct base_arena *arena, const char *text, size_t size)
{
    return fails() ? NULL : __real_base_arena_text(arena, text, size);
}
