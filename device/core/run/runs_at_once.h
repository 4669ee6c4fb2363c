// Several runs under way at once: what is due is offered to the scheduler (core/sched/run_sched.h),
// and what it says is done. There only where dev_config.runs_max is above 1.
//
// Shadows go first, as right after the run they are compared with as may be, then what behaviour
// started, then what the clock has due. A run that leaves a mark behind, which tells at the next
// boot that it took the process down, runs alone: no other is blamed for it. Of a task and its
// shadow one runs, and a task waits for its shadow.
#ifndef DEV_RUNS_AT_ONCE_H
#define DEV_RUNS_AT_ONCE_H

#include "core/run/run_parts.h"
#include "core/sched/run_sched.h"

struct dev_at_once {
    struct dev_sched sched;
    uint64_t budget_bytes; // as configured
    uint32_t current;      // dev_run_current
    bool changed;          // since the last step
    bool quiet;            // a moment without runs is wanted
};

// Bytes of memory for what waits, and its start.
size_t dev_at_once_bytes(const struct dev_config *config, uint32_t tasks_max);
void dev_at_once_init(struct dev_at_once *at_once, const struct dev_config *config,
                      uint32_t tasks_max, void *memory);
void dev_at_once_boot(struct dev_at_once *at_once); // nothing runs, nothing waits
void dev_at_once_step(struct dev_runtime *runtime, uint64_t now_us);
uint64_t dev_at_once_due_us(const struct dev_runtime *runtime);
// A run of the task, with the input of behaviour or not, ended by itself.
void dev_at_once_ended(struct dev_runtime *runtime, const struct dev_task *task, bool triggered);
// No run of the task is to be done as things were; one under way was stopped.
void dev_at_once_forget(struct dev_runtime *runtime, const struct dev_task *task);
// What behaviour started of the task waits already, or has to: the part of it has nothing to do.
bool dev_at_once_holds(const struct dev_runtime *runtime, const struct dev_task *task);

#endif
