// The process heap as an allocator port.
#ifndef BASE_ALLOC_H
#define BASE_ALLOC_H

#include "base/ports.h"

// malloc/free behind a port. Static, thread-safe, never freed.
const struct base_alloc_port *base_alloc_heap(void);

#endif
