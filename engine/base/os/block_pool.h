// Small blocks kept for reuse, one pool per thread: what nghttp2 asks for again with each stream.
//
// Every block is the heap's and could go back to it at any time; the pool keeps those that were
// given back, by size, the last one first, up to BASE_BLOCK_POOL_BYTES. The heap itself keeps seven
// of a size at hand, and hundreds of streams are open at once.
//
// One owner, one thread.
#ifndef BASE_BLOCK_POOL_H
#define BASE_BLOCK_POOL_H

#include <stddef.h>

#define BASE_BLOCK_CLASSES     64
#define BASE_BLOCK_BYTES_LEAST 24 // of class 0; what the heap has in its smallest block
#define BASE_BLOCK_BYTES_STEP  16 // from one class to the next
#define BASE_BLOCK_POOL_BYTES  (4 * 1024 * 1024)

struct base_block_pool {
    void *kept[BASE_BLOCK_CLASSES]; // by class; each block begins with a pointer to the next
    size_t kept_bytes;
};

// All zeros are an empty pool.
// NULL: no memory. Any size; large blocks come from the heap.
void *base_block_alloc(struct base_block_pool *pool, size_t size);
// A block of base_block_alloc or of the heap. Accepts NULL.
void base_block_free(struct base_block_pool *pool, void *block);
// Gives back what is kept.
void base_block_pool_done(struct base_block_pool *pool);

#endif
