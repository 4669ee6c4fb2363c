// From the catalog to the workers. Control thread.
#ifndef GW_PUBLISH_H
#define GW_PUBLISH_H

#include <stdbool.h>

struct gw_core;
struct gw_plan;

// plan_of_catalog.c: the plan that follows core->plan. NULL: no memory, or (*out_changed false)
// nothing changed.
struct gw_plan *gw_plan_of_catalog(struct gw_core *core, bool *out_changed);
// Builds metadata and a plan from the catalog, hands them out to all workers.
void gw_core_publish(struct gw_core *core);

#endif
