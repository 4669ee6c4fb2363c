// Small blocks kept for reuse, one pool per worker: what nghttp2 asks for again with each stream.
//
// Every block is the heap's and could go back to it at any time; the pool keeps those that were
// given back, by size, the last one first, up to GW_BLOCK_POOL_BYTES. The heap itself keeps seven
// of a size at hand, and a worker answers hundreds of streams at once.
//
// One owner, one thread.
#ifndef GW_BLOCK_POOL_H
#define GW_BLOCK_POOL_H

#include <stddef.h>

#define GW_BLOCK_CLASSES     64
#define GW_BLOCK_BYTES_LEAST 24 // of class 0; what the heap has in its smallest block
#define GW_BLOCK_BYTES_STEP  16 // from one class to the next
#define GW_BLOCK_POOL_BYTES  (4 * 1024 * 1024)

struct gw_block_pool {
    void *kept[GW_BLOCK_CLASSES]; // by class; each block begins with a pointer to the next
    size_t kept_bytes;
};

// All zeros are an empty pool.
// NULL: no memory. Any size; large blocks come from the heap.
void *gw_block_alloc(struct gw_block_pool *pool, size_t size);
// A block of gw_block_alloc or of the heap. Accepts NULL.
void gw_block_free(struct gw_block_pool *pool, void *block);
// Gives back what is kept.
void gw_block_pool_done(struct gw_block_pool *pool);

#endif
