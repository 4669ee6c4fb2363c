// The agent's choice of where scripts run: in processes of walle-task-runner, which lies beside the
// agent's own program, or on a thread of the agent.
#ifndef AGENT_ISOLATION_H
#define AGENT_ISOLATION_H

#include "base/error.h"
#include "base/str.h"

#define AGENT_PATH_MAX 4096

struct agent_isolation {
    bool thread;             // --isolation thread
    const char *runner_path; // --task-runner; NULL: beside the agent
    char beside[AGENT_PATH_MAX];
};

// False: `kind` is neither "process" nor "thread".
bool agent_isolation_set(struct agent_isolation *isolation, struct base_str kind);
// The path for posix_options.runner_path, borrowed; NULL: scripts run on a thread, and the handlers
// of posix/run/posix_guard.h are up.
const char *agent_isolation_runner(struct agent_isolation *isolation);
// Runs at once where --runs says none: as many as cores, at least 2.
uint32_t agent_isolation_runs(void);
struct posix_options;
// What to do about an error of posix_port_new, as words behind its text; empty: it says all.
const char *agent_isolation_hint(const struct posix_options *options,
                                 const struct base_error *error);

#endif
