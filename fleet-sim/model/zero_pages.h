// Arrays of a run's devices: zero, and of no memory where nothing was written yet. A fleet comes
// online in the order of its devices, so what stands for those to come costs nothing until then.
#ifndef SIM_ZERO_PAGES_H
#define SIM_ZERO_PAGES_H

#include <stddef.h>

#define SIM_LARGE_PAGE_BYTES ((size_t)2 << 20)

// NULL: no memory. Undone by sim_pages_free with the same size.
void *sim_pages_new(size_t bytes);
void sim_pages_free(void *pages, size_t bytes); // accepts NULL
// The same in the machine's large pages, where it has some: for what is touched all over, time and
// again. Memory comes SIM_LARGE_PAGE_BYTES at a time then. NULL: no memory.
void *sim_large_pages_new(size_t bytes);
void sim_large_pages_free(void *pages, size_t bytes); // accepts NULL

#endif
