// The process heap behind the allocator port.
//
// Programs hand this port to cores and libraries, which never call malloc themselves. Thread-safe
// as malloc is; the port is a constant.
#include "base/alloc.h"

#include <stdlib.h>

static void *heap_alloc(void *ctx, size_t size_bytes)
{
    (void)ctx;
    return malloc(size_bytes == 0 ? 1 : size_bytes);
}

static void heap_release(void *ctx, void *memory)
{
    (void)ctx;
    free(memory);
}

const struct base_alloc_port *base_alloc_heap(void)
{
    static const struct base_alloc_port heap = {
        .ctx = NULL, .alloc = heap_alloc, .release = heap_release};
    return &heap;
}
