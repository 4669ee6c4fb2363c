// An end of a run that outlives the VM that it came from: what the script gave is copied.
#ifndef SIM_KEPT_END_H
#define SIM_KEPT_END_H

#include "base/ports.h"
#include "ports/sim_end.h"

// A copy with its texts, result and effects in one piece of memory, which `alloc` takes back. NULL:
// there is none.
struct sim_task_end *sim_end_keep(const struct base_alloc_port *alloc,
                                  const struct sim_task_end *end);

#endif
