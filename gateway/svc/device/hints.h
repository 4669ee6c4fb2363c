// Hint streams of one worker: who is told that a plan has news for it. Worker's thread.
#ifndef GW_HINTS_H
#define GW_HINTS_H

#define GW_HINT_SLICE 2000u // streams looked at before other work of the worker gets its turn

struct gw_exchange;
struct gw_worker;

void gw_hints_handle(struct gw_worker *worker, struct gw_exchange *exchange);
// The worker has a new plan: wakes the others when it was the last, who may wait for it.
void gw_hints_plan_taken(struct gw_worker *worker);
// Walks the hint streams slice by slice; wakes the worker again when there is more.
void gw_hints_plan_changed(struct gw_worker *worker);
void gw_hints_walk(struct gw_worker *worker);

#endif
