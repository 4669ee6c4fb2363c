// The wall around a task's process: what is left to it when a script has got out of its VM.
//
// Behind the wall there is one socket to the agent, memory up to a limit, clock and entropy.
// Everything else ends the process: files, sockets, programs, other processes, new threads,
// executable memory. The wall is put up by the process itself, before it looks at a byte of its
// job, and cannot be taken down: no_new_privs is set, and the filter forbids the calls that would
// change it.
//
//   dev_wall_prepare  as soon as the process runs: dies with its parent, no core, nobody traces it,
//                     no open files but the channel; the filter is built
//   dev_wall_raise    once the bounds of the run are known: limits, then the filter (seccomp)
//
//   dev_wall_template in place of raise, in a process that reads models and makes others
//                     (runner_template.h): what it makes puts up the rest, prepare and raise
//
// Needs no rights and no user namespaces. A sanitized build (RUNNER_SANITIZED) lets the sanitizer's
// own calls through: mprotect without PROT_EXEC, shared anonymous memory, sleeping, signal stacks,
// its report on descriptor 2; files are refused with EACCES there instead of ending the process,
// and there is no limit of the address space, which shadow memory does not fit in.
#ifndef DEV_RUNNER_WALL_H
#define DEV_RUNNER_WALL_H

#include "base/error.h"
#include "runner/runner_frame.h"

#define DEV_WALL_STACK_BYTES (1024 * 1024) // what a run has on a worker thread, too
#define DEV_WALL_CPU_GRACE_S 3 // processor time beyond the run's own; the agent ends it before

struct dev_wall {
    void *filter; // scmp_filter_ctx
};

// NOMEM, UNSUPPORTED (no seccomp here); `error` says which call failed.
BASE_NODISCARD enum base_status dev_wall_prepare(struct dev_wall *out, struct base_error *error);
// UNSUPPORTED: the kernel refuses; `error` says what. When it returns OK the wall is up.
BASE_NODISCARD enum base_status dev_wall_raise(struct dev_wall *wall,
                                               const struct dev_runner_bounds *bounds,
                                               struct base_error *error);

// The wall of a template: of calls it has what a run has and, beyond that, what its processes need
// until their own wall is up: to be made (clone of just that kind), to take their channel and
// files, to bound themselves. Files that are not given to it, sockets, programs and signals end it,
// so abort() in its processes is told as SIGSYS. `bounds` are the most of any run.
BASE_NODISCARD enum base_status dev_wall_template(const struct dev_runner_bounds *bounds,
                                                  struct base_error *error);

#endif
