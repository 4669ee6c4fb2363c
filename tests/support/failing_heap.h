// The process heap, failing on demand: for code that allocates by itself. A test program links it
// with the options of `failing-heap` (tests/CMakeLists.txt), which send its own calls of malloc and
// its kin, and those of every static library in it, through here. Anonymous mappings count as
// allocations, and so does each piece taken from an arena. What shared libraries allocate does not
// come by.
//
// One thread at a time while armed.
#ifndef FAILING_HEAP_H
#define FAILING_HEAP_H

#include <stdbool.h>
#include <stddef.h>

// From now on `allowed` allocations succeed; the next one fails, and `once`: those after it succeed
// again, else they fail too. SIZE_MAX: none fails.
void failing_heap_arm(size_t allowed, bool once);
// None fails any more; the number of allocations asked for since arming.
size_t failing_heap_disarm(void);
// Whether one has failed since arming.
bool failing_heap_has_failed(void);
// Allocations not released, since the program began.
long failing_heap_live(void);

#endif
