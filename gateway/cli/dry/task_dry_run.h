// The dry run of a build: its version on the task's own samples (task_samples.h), as a device would
// run it, with the limits of its manifest. What a run took of heap, C stack, units and time is
// reported; a run that fails refuses the build. Called by `walle task build`, `push --tag` and
// `run --samples`; one thread.
#ifndef TASK_DRY_RUN_H
#define TASK_DRY_RUN_H

#include "cli/base/cli.h"

#include <jansson.h>

#define TASK_DRY_TRIES 3 // of a run that was over its time: this machine may be busy

struct task_dry_run {
    const struct cli *cli;
    const char *source;    // the task's folder
    const char *build;     // of which a version was made
    const json_t *samples; // of task.json; NULL: none
};

// Tries the version on each sample, in turn, up to the first that fails. FAILED: one did; LOCAL: a
// sample cannot be tried, or there is no memory; both were said on standard error, with the calls,
// the limit that was met and where task.json sets it. *out_report, the caller's, is told in any
// case:
//
//   {"isolation": "process" or "thread", "heap_bytes", "stack_bytes", "time_ms": what a run may
//    have, "samples": [{"sample": label, "runs": [{"end", "events", "heap_peak_bytes",
//    "stack_peak_bytes", "instructions", "duration_us"}]}]}
enum cli_exit task_dry_run(const struct task_dry_run *ask, json_t **out_report);
// Prints a report as a table: of each sample the most that a run took.
void task_dry_run_print(const json_t *report);

#endif
