// Free lists by size in front of the heap. Called by the gateway's h2_memory.c and the client's
// h2_codec.c for what nghttp2 wants, on the thread of whoever owns the pool. A block is as large as
// its class says, or larger: it may come from the heap by another way. Where the address sanitizer
// looks on, what lies in a kept block may not be touched.
#include "base/os/block_pool.h"

#include "base/check.h"

#include <malloc.h>
#include <stdlib.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(start, size)   ((void)(start), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(start, size) ((void)(start), (void)(size))
#endif

// The first bytes of a kept block are the pointer to the next one.
#define LINK_BYTES sizeof(void *)

static size_t class_bytes(size_t index)
{
    return BASE_BLOCK_BYTES_LEAST + index * BASE_BLOCK_BYTES_STEP;
}

// The smallest class that holds so much; BASE_BLOCK_CLASSES and more: none.
static size_t class_for(size_t size)
{
    return size <= BASE_BLOCK_BYTES_LEAST
               ? 0
               : (size - BASE_BLOCK_BYTES_LEAST - 1) / BASE_BLOCK_BYTES_STEP + 1;
}

static void *take(struct base_block_pool *pool, size_t index)
{
    void *block = pool->kept[index];
    pool->kept[index] = *(void **)block;
    base_assert(pool->kept_bytes >= class_bytes(index));
    pool->kept_bytes -= class_bytes(index);
    ASAN_UNPOISON_MEMORY_REGION((char *)block + LINK_BYTES, class_bytes(index) - LINK_BYTES);
    return block;
}

void *base_block_alloc(struct base_block_pool *pool, size_t size)
{
    size_t index = class_for(size);
    if (index >= BASE_BLOCK_CLASSES) {
        return malloc(size);
    }
    return pool->kept[index] != NULL ? take(pool, index) : malloc(class_bytes(index));
}

void base_block_free(struct base_block_pool *pool, void *block)
{
    size_t size = malloc_usable_size(block); // 0 of NULL
    size_t index = size < BASE_BLOCK_BYTES_LEAST
                       ? BASE_BLOCK_CLASSES
                       : (size - BASE_BLOCK_BYTES_LEAST) / BASE_BLOCK_BYTES_STEP;
    if (index >= BASE_BLOCK_CLASSES ||
        pool->kept_bytes + class_bytes(index) > BASE_BLOCK_POOL_BYTES) {
        free(block);
        return;
    }
    *(void **)block = pool->kept[index];
    pool->kept[index] = block;
    pool->kept_bytes += class_bytes(index);
    ASAN_POISON_MEMORY_REGION((char *)block + LINK_BYTES, class_bytes(index) - LINK_BYTES);
}

void base_block_pool_done(struct base_block_pool *pool)
{
    for (size_t i = 0; i < BASE_BLOCK_CLASSES; i++) {
        while (pool->kept[i] != NULL) {
            free(take(pool, i));
        }
    }
    base_assert(pool->kept_bytes == 0);
}
