// Windows of virtual time on several threads.
//
// Within a window nobody can hear of what another does in it: no message is faster than a window is
// long. So its tasks (the shards that have something to do) run apart from each other, on as many
// threads as there are, beside one that the caller's thread does first (the gateway's core). A
// window is over when all are, and what they wrote is then seen by all of the next one.
//
// Which thread runs what depends on the machine; what comes of it must not. What tasks share and
// write, they write in their order: sim_windows_in_order.
#ifndef SIM_WINDOWS_H
#define SIM_WINDOWS_H

#include "base/status.h"

#include <stdint.h>

#define SIM_WINDOW_TASKS_MAX 1024

struct sim_windows;
struct sim_windows_options {
    uint32_t threads; // the caller's among them
    void *ctx;
    // On any thread, number `worker` of `threads`; each task on one at a time.
    void (*run)(void *ctx, uint32_t worker, uint32_t task);
    // On the caller's thread, beside the tasks.
    void (*first)(void *ctx);
};

// NOMEM: also when the system gives no thread.
BASE_NODISCARD enum base_status sim_windows_new(const struct sim_windows_options *options,
                                                struct sim_windows **out_windows);
void sim_windows_free(struct sim_windows *windows); // between windows; accepts NULL
// One window: `first`, and `run` of each of these tasks, which are in ascending order.
void sim_windows_run(struct sim_windows *windows, const uint32_t *tasks, uint32_t count);
// Returns when the tasks before this one are done with the window, called by the task.
void sim_windows_in_order(struct sim_windows *windows, uint32_t task);

#endif
