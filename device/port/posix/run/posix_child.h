// Task processes: each run of a task in a process of its own, behind a wall (runner/runner_wall.h).
//
// One process waits ahead of need; it does one run and ends, and the next is started when its end
// has been told, so that a run does not wait for a start, nor its end for the next. The process has
// no memory of the agent's: it is another program (walle-task-runner), started with exec, with no
// open files but the channel.
//
// Threads: posix_child_run is the task worker's; posix_child_ready and posix_child_stop the loop's.
// The pool's mutex guards who the processes are, so that a signal never goes to a number that was
// reaped and given to somebody else.
#ifndef POSIX_CHILD_H
#define POSIX_CHILD_H

#include "base/error.h"
#include "posix/run/posix_child_parse.h"
#include "runner/runner_job.h"

#define POSIX_CHILD_START_MS 10000u // from the job to the wall; the process is our own code then
#define POSIX_CHILD_GRACE_MS 2000u  // beyond a run's time: then the process is killed
#define POSIX_CHILD_TRIES    3      // processes that end before their wall is up, for one run
// Address space beside what a job asks for: the program, its libraries, its frames, its heap's
// management.
#define POSIX_CHILD_BASE_BYTES ((uint64_t)64 << 20)
#define POSIX_CHILD_TEXT_MAX   160

struct posix_children;

// `runner_path`: the program walle-task-runner. Starts a process and sees its wall go up: what
// cannot be kept apart is said here. NOT_FOUND (no such program), UNSUPPORTED (the kernel refuses),
// NOMEM; `error` says what.
BASE_NODISCARD enum base_status
posix_children_new(const char *runner_path, struct posix_children **out, struct base_error *error);
void posix_children_free(struct posix_children *children); // accepts NULL; no run is under way

enum posix_child_how {
    POSIX_CHILD_ENDED,   // `end` says how
    POSIX_CHILD_DIED,    // `text` says of what
    POSIX_CHILD_LIED,    // said what no VM says: `text`
    POSIX_CHILD_SILENT,  // no end within its time and POSIX_CHILD_GRACE_MS
    POSIX_CHILD_NONE,    // no process could be had: `text`
    POSIX_CHILD_DAMAGED, // a model is not what its digest says, and was not used: `text` names it
};
struct posix_child_report {
    enum posix_child_how how;
    int pid;                     // of the process that did the run
    struct posix_child_end *end; // ENDED; valid until the next run
    char text[POSIX_CHILD_TEXT_MAX];
};

// Loop, and worker between runs: a process waits, or one is started; the last is reaped. LIMIT:
// there is none to be had now; try later.
BASE_NODISCARD enum base_status posix_child_ready(struct posix_children *children);
// Worker: does the run and returns when its process is gone, or (ENDED) killed and about to go.
// Questions go to job->vm->data and job->vm->cloud.
void posix_child_run(struct posix_children *children, const struct dev_runner_job *job,
                     struct posix_child_report *out);
// Loop: kills the run's process; posix_child_run then returns. No effect before the process has the
// job: call it again until the run is over.
void posix_child_stop(struct posix_children *children);

#endif
