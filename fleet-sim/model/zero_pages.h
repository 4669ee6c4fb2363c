// Arrays of a run's devices: zero, and of no memory where nothing was written yet. A fleet comes
// online in the order of its devices, so what stands for those to come costs nothing until then.
#ifndef SIM_ZERO_PAGES_H
#define SIM_ZERO_PAGES_H

#include <stddef.h>

// NULL: no memory. Undone by sim_pages_free with the same size.
void *sim_pages_new(size_t bytes);
void sim_pages_free(void *pages, size_t bytes); // accepts NULL

#endif
