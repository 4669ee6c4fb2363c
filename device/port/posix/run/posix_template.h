// Template processes: those that have read and planned a version's models and make the processes of
// its runs (runner/runner_template.h), so that a run does not read and plan them again.
//
// The second run of the same models within the set's memory wants a template; it is started when
// that run's end has been told, and one process of it then waits ahead of need. Where there is none
// ready, the run has a process that reads the models itself. What was used longest ago makes room.
//
// What a template says is taken for an attacker's, as what a run says: models may be a stranger's.
// A process it names must be a child of this one and in the template's group.
//
// Threads: as the set's owner (posix_child.c), under its mutex.
#ifndef POSIX_TEMPLATE_H
#define POSIX_TEMPLATE_H

#include "posix/run/posix_process.h"
#include "runner/runner_job.h"

#define POSIX_TEMPLATES_MAX       2
#define POSIX_TEMPLATE_BYTES      ((size_t)64 << 20) // of one's model files; it holds them twice or so
#define POSIX_TEMPLATE_AFTER      2                  // runs of the same models
#define POSIX_TEMPLATE_FORK_MS    1000u              // for a process, once its models are read
#define POSIX_TEMPLATE_CPU_MS     60000u             // of one; then another takes its place
#define POSIX_TEMPLATE_MORE_BYTES ((uint64_t)16 << 20) // inputs may be larger than the first run's

struct posix_template {
    struct wire_sha256 *digests; // of its models, in order; malloc; NULL: a free place
    uint32_t count;
    size_t model_memory_max;
    struct dev_runner_bounds bounds; // of its own process; runs within them may be its
    int files[2];                    // job and models, until it is started; -1: none
    uint32_t runs;
    uint64_t used;             // a clock of uses
    bool failed;               // it ended, or lied: its place is kept so that it is not tried again
    bool ready;                // its models are read
    struct posix_process self; // pid 0: not started
    struct posix_process next; // asked for; its pid is not known before it is taken
};
struct posix_templates {
    struct posix_template places[POSIX_TEMPLATES_MAX];
    uint64_t clock;
};
void posix_templates_init(struct posix_templates *templates);
// Ends and reaps all processes of all templates, those of runs, too: none may be under way.
void posix_templates_done(struct posix_templates *templates);

// A process for this run that has its models. False: none is ready.
bool posix_template_take(struct posix_templates *templates, const struct dev_runner_job *job,
                         const struct dev_runner_bounds *bounds, struct posix_process *out);
// Notes a run that ended well; `models_fd` is the sealed file of its models, borrowed.
void posix_template_note(struct posix_templates *templates, const struct dev_runner_job *job,
                         const struct dev_runner_bounds *bounds, int models_fd);
// A process that was taken ended before its run began: the template is given up.
void posix_template_blame(struct posix_templates *templates, const struct dev_runner_job *job);
// Between runs: starts what was noted and asks for the next processes.
void posix_template_ready(struct posix_templates *templates, const char *runner_path);

#endif
