// Arena: memory grouped by lifetime. Allocation is a bump, release is all at once, in O(chunks).
//
// One owner, one thread. Pointers live until base_arena_reset or base_arena_done. Cleanups run in
// reverse order of registration at either. Memory is not zeroed unless the name says so.
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include "base/ports.h"
#include "base/status.h"

#include <stdbool.h>

struct base_arena_chunk;
struct base_arena_cleanup;

struct base_arena {
    const struct base_alloc_port *alloc;
    struct base_arena_chunk *chunk; // newest first
    struct base_arena_cleanup *cleanups;
    size_t chunk_bytes; // size asked for an ordinary chunk
    size_t used_bytes;  // handed out since init or reset
    size_t limit_bytes; // 0: none
    bool was_full;      // something did not fit into the limit, since init
};

// Storage is the caller's. `chunk_bytes` 0 takes 4096. No allocation happens yet.
void base_arena_init(struct base_arena *arena, const struct base_alloc_port *alloc,
                     size_t chunk_bytes, size_t limit_bytes);
// Runs cleanups, frees everything; the arena may be initialised again. Accepts a zeroed arena.
void base_arena_done(struct base_arena *arena);
// Runs cleanups and keeps at most one chunk for reuse.
void base_arena_reset(struct base_arena *arena);

// 16-byte aligned; NULL when out of memory or over the limit.
void *base_arena_alloc(struct base_arena *arena, size_t size_bytes);
void *base_arena_zalloc(struct base_arena *arena, size_t size_bytes);
// Copy of `size` bytes with a NUL behind it; NULL as above.
char *base_arena_text(struct base_arena *arena, const char *text, size_t size);
void *base_arena_copy(struct base_arena *arena, const void *bytes, size_t size);
// Registers `run(ctx)` for reset/done. NOMEM: it was not registered (and not run).
BASE_NODISCARD enum base_status base_arena_on_done(struct base_arena *arena, void (*run)(void *ctx),
                                                   void *ctx);

#endif
