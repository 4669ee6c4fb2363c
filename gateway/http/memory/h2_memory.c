// Allocator below nghttp2's sessions; see the header for the idea. Called by conn.c around a
// session's life and by nghttp2 itself, on the worker's thread. Nothing here depends on what
// nghttp2 keeps where: sizes only decide which range serves a block, and every block is ordinary
// memory.
#include "http/memory/h2_memory.h"

#include "base/check.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define TABLE_BYTES 4096u
#define RING_BYTES  1024u
#define FRAME_BYTES_LEAST                                                                          \
    16384u // an allocation of at least this much at creation is the frame buffer

static enum base_status range_init(struct gw_h2_range *range, size_t block_bytes, uint32_t count)
{
    range->block_bytes = block_bytes;
    range->count = count;
    range->start = mmap(NULL, block_bytes * count, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range->start == MAP_FAILED) {
        range->start = NULL;
        return BASE_ERR_NOMEM;
    }
    (void)madvise(range->start, block_bytes * count, MADV_NOHUGEPAGE);
    range->freed = malloc(count * sizeof(*range->freed));
    return range->freed != NULL ? BASE_OK : BASE_ERR_NOMEM;
}

static void range_done(struct gw_h2_range *range)
{
    if (range->start != NULL) {
        munmap(range->start, range->block_bytes * range->count);
    }
    free(range->freed);
    memset(range, 0, sizeof(*range));
}

static void *range_alloc(struct gw_h2_range *range)
{
    uint32_t block;
    if (range->freed_count > 0) {
        block = range->freed[--range->freed_count];
    } else if (range->fresh < range->count) {
        block = range->fresh++;
    } else {
        return NULL;
    }
    return range->start + block * range->block_bytes;
}

// The addresses of both ranges: nearly all blocks are ordinary memory, outside of it.
static void span_both(struct gw_h2_memory *memory)
{
    uintptr_t tables = (uintptr_t)memory->tables.start;
    uintptr_t rings = (uintptr_t)memory->rings.start;
    uintptr_t tables_end = tables + memory->tables.block_bytes * memory->tables.count;
    uintptr_t rings_end = rings + memory->rings.block_bytes * memory->rings.count;
    memory->low = tables < rings ? tables : rings;
    memory->span = (tables_end > rings_end ? tables_end : rings_end) - memory->low;
}

static bool range_holds(const struct gw_h2_range *range, const void *memory)
{
    const uint8_t *at = memory;
    return range->start != NULL && at >= range->start &&
           at < range->start + range->block_bytes * range->count;
}

static void range_free(struct gw_h2_range *range, void *memory)
{
    size_t offset = (size_t)((uint8_t *)memory - range->start);
    base_assert(offset % range->block_bytes == 0);
    base_check(range->freed_count < range->count);
    range->freed[range->freed_count++] = (uint32_t)(offset / range->block_bytes);
}

static void *h2_malloc(size_t size, void *ctx)
{
    struct gw_h2_memory *memory = ctx;
    void *block = NULL;
    if (!memory->creating) {
        return base_block_alloc(&memory->blocks, size);
    }
    if (size >= FRAME_BYTES_LEAST && size <= GW_H2_FRAME_BUFFER_BYTES &&
        !memory->frame_buffer_given) {
        memory->frame_buffer_given = true;
        return memory->frame_buffer;
    }
    if (size == RING_BYTES && !memory->ring_given) {
        block = range_alloc(&memory->rings);
        memory->ring_given = block != NULL;
    }
    return block != NULL ? block : malloc(size);
}

static void *h2_calloc(size_t count, size_t size, void *ctx)
{
    struct gw_h2_memory *memory = ctx;
    size_t bytes;
    if (memory->creating && memory->table_given == NULL &&
        !__builtin_mul_overflow(count, size, &bytes) && bytes == TABLE_BYTES) {
        memory->table_given = range_alloc(&memory->tables);
        if (memory->table_given != NULL) {
            return memory->table_given; // blocks of this range are zero while they are free
        }
    }
    return calloc(count, size);
}

static void h2_free(void *block, void *ctx)
{
    struct gw_h2_memory *memory = ctx;
    if ((uintptr_t)block - memory->low >= memory->span) {
        if (block != memory->frame_buffer) {
            base_block_free(&memory->blocks, block);
        }
        return;
    }
    if (range_holds(&memory->tables, block)) {
        if (madvise(block, TABLE_BYTES, MADV_DONTNEED) != 0) {
            memset(block, 0, TABLE_BYTES);
        }
        range_free(&memory->tables, block);
    } else if (range_holds(&memory->rings, block)) {
        range_free(&memory->rings, block);
    } else {
        free(block);
    }
}

static void *h2_realloc(void *block, size_t size, void *ctx)
{
    struct gw_h2_memory *memory = ctx;
    if (block == NULL) {
        return h2_malloc(size, ctx);
    }
    size_t old_size;
    if (block == memory->frame_buffer) {
        old_size = GW_H2_FRAME_BUFFER_BYTES;
    } else if (range_holds(&memory->tables, block)) {
        old_size = TABLE_BYTES;
    } else if (range_holds(&memory->rings, block)) {
        old_size = RING_BYTES;
    } else {
        return realloc(block, size);
    }
    if (size <= old_size) {
        return block;
    }
    void *moved = base_block_alloc(&memory->blocks, size);
    if (moved != NULL) {
        memcpy(moved, block, old_size);
        h2_free(block, ctx);
    }
    return moved;
}

enum base_status gw_h2_memory_init(struct gw_h2_memory *memory, uint32_t sessions_max)
{
    memset(memory, 0, sizeof(*memory));
    memory->frame_buffer = malloc(GW_H2_FRAME_BUFFER_BYTES);
    enum base_status status = memory->frame_buffer != NULL ? BASE_OK : BASE_ERR_NOMEM;
    if (status == BASE_OK) {
        status = range_init(&memory->tables, TABLE_BYTES, sessions_max);
    }
    if (status == BASE_OK) {
        status = range_init(&memory->rings, RING_BYTES, sessions_max);
    }
    if (status != BASE_OK) {
        gw_h2_memory_done(memory);
        return status;
    }
    span_both(memory);
    memory->mem = (nghttp2_mem){.mem_user_data = memory,
                                .malloc = h2_malloc,
                                .free = h2_free,
                                .calloc = h2_calloc,
                                .realloc = h2_realloc};
    return BASE_OK;
}

void gw_h2_memory_done(struct gw_h2_memory *memory)
{
    base_assert(memory->tables.freed_count == memory->tables.fresh);
    range_done(&memory->tables);
    range_done(&memory->rings);
    base_block_pool_done(&memory->blocks);
    free(memory->frame_buffer);
    memory->frame_buffer = NULL;
}

enum base_status gw_h2_memory_session_new(struct gw_h2_memory *memory,
                                          const struct gw_h2_session_make *make,
                                          nghttp2_session **out_session,
                                          struct gw_h2_lease *out_lease)
{
    memory->creating = true;
    memory->frame_buffer_given = false;
    memory->ring_given = false;
    memory->table_given = NULL;
    int rv = nghttp2_session_server_new3(out_session, make->callbacks, make->user, make->option,
                                         &memory->mem);
    memory->creating = false;
    if (rv != 0) {
        return BASE_ERR_NOMEM;
    }
    *out_lease =
        (struct gw_h2_lease){.table = memory->table_given, .shares = memory->frame_buffer_given};
    return BASE_OK;
}

void gw_h2_memory_session_ended(struct gw_h2_memory *memory, struct gw_h2_lease *lease)
{
    (void)memory;
    free(lease->parked);
    *lease = (struct gw_h2_lease){0};
}

enum base_status gw_h2_memory_park(struct gw_h2_memory *memory, struct gw_h2_lease *lease)
{
    base_assert(lease->parked == NULL);
    if (!lease->shares) {
        return BASE_OK;
    }
    lease->parked = malloc(GW_H2_FRAME_BUFFER_BYTES);
    if (lease->parked == NULL) {
        return BASE_ERR_NOMEM;
    }
    memcpy(lease->parked, memory->frame_buffer, GW_H2_FRAME_BUFFER_BYTES);
    return BASE_OK;
}

void gw_h2_memory_unpark(struct gw_h2_memory *memory, struct gw_h2_lease *lease)
{
    if (lease->parked != NULL) {
        memcpy(memory->frame_buffer, lease->parked, GW_H2_FRAME_BUFFER_BYTES);
        free(lease->parked);
        lease->parked = NULL;
    }
}

void gw_h2_memory_trim(struct gw_h2_lease *lease)
{
    if (lease->table == NULL) {
        return;
    }
    const uint64_t *words = lease->table;
    uint64_t any = 0;
    for (uint32_t i = 0; i < TABLE_BYTES / sizeof(*words); i++) {
        any |= words[i];
    }
    if (any == 0) {
        (void)madvise(lease->table, TABLE_BYTES, MADV_DONTNEED);
    }
}
