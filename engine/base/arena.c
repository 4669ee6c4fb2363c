// Arena allocator: chunks from an allocator port, handed out by moving an offset.
//
// Requests larger than a chunk get a chunk of their own, which is put behind the newest one so that
// the room left there is not lost. Cleanups live in the arena they belong to. Used by one thread at
// a time, mostly one arena per gateway stream.
#include "base/arena.h"

#include "base/check.h"
#include "base/ckd.h"

#include <stdint.h>
#include <string.h>

#define CHUNK_BYTES_DEFAULT 4096u
#define ALIGNMENT           16u

struct base_arena_chunk {
    _Alignas(ALIGNMENT) struct base_arena_chunk *next;
    size_t capacity; // bytes behind this header
    size_t used;
};

struct base_arena_cleanup {
    struct base_arena_cleanup *next;
    void (*run)(void *ctx);
    void *ctx;
};

static uint8_t *chunk_bytes(struct base_arena_chunk *chunk)
{
    return (uint8_t *)chunk + sizeof *chunk;
}

void base_arena_init(struct base_arena *arena, const struct base_alloc_port *alloc,
                     size_t chunk_size, size_t limit_bytes)
{
    *arena = (struct base_arena){
        .alloc = alloc,
        .chunk_bytes = chunk_size == 0 ? CHUNK_BYTES_DEFAULT : chunk_size,
        .limit_bytes = limit_bytes,
    };
}

// A cleanup may use the arena's memory but must not register another cleanup.
static void run_cleanups(struct base_arena *arena)
{
    struct base_arena_cleanup *cleanup = arena->cleanups;
    arena->cleanups = NULL;
    while (cleanup != NULL) {
        struct base_arena_cleanup *next = cleanup->next;
        cleanup->run(cleanup->ctx);
        cleanup = next;
    }
    base_assert(arena->cleanups == NULL);
}

// Frees all chunks but `keep`, which becomes the only one (NULL: none).
static void free_chunks(struct base_arena *arena, struct base_arena_chunk *keep)
{
    struct base_arena_chunk *chunk = arena->chunk;
    while (chunk != NULL) {
        struct base_arena_chunk *next = chunk->next;
        if (chunk != keep) {
            arena->alloc->release(arena->alloc->ctx, chunk);
        }
        chunk = next;
    }
    if (keep != NULL) {
        keep->next = NULL;
        keep->used = 0;
    }
    arena->chunk = keep;
    arena->used_bytes = 0;
    base_assert(keep == NULL || keep->capacity == arena->chunk_bytes);
}

void base_arena_done(struct base_arena *arena)
{
    if (arena == NULL) {
        return;
    }
    run_cleanups(arena);
    free_chunks(arena, NULL);
}

void base_arena_reset(struct base_arena *arena)
{
    run_cleanups(arena);
    struct base_arena_chunk *keep = arena->chunk;
    while (keep != NULL && keep->capacity != arena->chunk_bytes) {
        keep = keep->next; // an outsized chunk would pin its memory for good
    }
    free_chunks(arena, keep);
}

static struct base_arena_chunk *new_chunk(struct base_arena *arena, size_t capacity)
{
    size_t total;
    if (!base_ckd_add(capacity, sizeof(struct base_arena_chunk), &total)) {
        return NULL;
    }
    struct base_arena_chunk *chunk = arena->alloc->alloc(arena->alloc->ctx, total);
    if (chunk == NULL) {
        return NULL;
    }
    base_check(((uintptr_t)chunk & (ALIGNMENT - 1)) == 0);
    *chunk = (struct base_arena_chunk){.capacity = capacity};
    return chunk;
}

// A chunk with room for `size` (already rounded), linked into the arena; NULL without memory.
static struct base_arena_chunk *chunk_for(struct base_arena *arena, size_t size)
{
    struct base_arena_chunk *newest = arena->chunk;
    base_assert(size % ALIGNMENT == 0);
    base_assert(newest == NULL || newest->used <= newest->capacity);
    if (newest != NULL && newest->capacity - newest->used >= size) {
        return newest;
    }
    bool outsized = size > arena->chunk_bytes;
    struct base_arena_chunk *chunk = new_chunk(arena, outsized ? size : arena->chunk_bytes);
    if (chunk == NULL) {
        return NULL;
    }
    if (outsized && newest != NULL) {
        chunk->next = newest->next;
        newest->next = chunk;
    } else {
        chunk->next = newest;
        arena->chunk = chunk;
    }
    return chunk;
}

void *base_arena_alloc(struct base_arena *arena, size_t size_bytes)
{
    size_t size;
    if (!base_ckd_add(size_bytes == 0 ? 1 : size_bytes, ALIGNMENT - 1, &size)) {
        return NULL;
    }
    size &= ~(size_t)(ALIGNMENT - 1);
    size_t used;
    if (!base_ckd_add(arena->used_bytes, size, &used)) {
        return NULL;
    }
    if (arena->limit_bytes != 0 && used > arena->limit_bytes) {
        arena->was_full = true;
        return NULL;
    }
    struct base_arena_chunk *chunk = chunk_for(arena, size);
    if (chunk == NULL) {
        return NULL;
    }
    base_check(chunk->capacity - chunk->used >= size);
    void *memory = chunk_bytes(chunk) + chunk->used;
    chunk->used += size;
    arena->used_bytes = used;
    return memory;
}

void *base_arena_zalloc(struct base_arena *arena, size_t size_bytes)
{
    void *memory = base_arena_alloc(arena, size_bytes);
    if (memory != NULL) {
        memset(memory, 0, size_bytes);
    }
    return memory;
}

char *base_arena_text(struct base_arena *arena, const char *text, size_t size)
{
    size_t with_nul;
    if (!base_ckd_add(size, 1, &with_nul)) {
        return NULL;
    }
    char *copy = base_arena_alloc(arena, with_nul);
    if (copy == NULL) {
        return NULL;
    }
    if (size > 0) {
        memcpy(copy, text, size);
    }
    copy[size] = '\0';
    return copy;
}

void *base_arena_copy(struct base_arena *arena, const void *bytes, size_t size)
{
    void *copy = base_arena_alloc(arena, size);
    if (copy != NULL && size > 0) {
        memcpy(copy, bytes, size);
    }
    return copy;
}

enum base_status base_arena_on_done(struct base_arena *arena, void (*run)(void *ctx), void *ctx)
{
    struct base_arena_cleanup *cleanup = base_arena_alloc(arena, sizeof *cleanup);
    if (cleanup == NULL) {
        return BASE_ERR_NOMEM;
    }
    *cleanup = (struct base_arena_cleanup){.next = arena->cleanups, .run = run, .ctx = ctx};
    arena->cleanups = cleanup;
    return BASE_OK;
}
