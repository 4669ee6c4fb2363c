// Finds the program that task processes run: the one that --task-runner names, else
// walle-task-runner in the folder of the agent's own program (/proc/self/exe). Called by
// device_agent.c on its main thread: while arguments are parsed, before the port is made, and for
// the hint behind the error of a port that found no runner. Whether the program is there is the
// port's business, not looked at here.
#include "agent_isolation.h"

#include "posix/posix_port.h"
#include "posix/run/posix_guard.h"

#include <string.h>
#include <unistd.h>

#define RUNNER_NAME "walle-task-runner"
#define RUNS_MIN    2

bool agent_isolation_set(struct agent_isolation *isolation, struct base_str kind)
{
    isolation->thread = base_str_equal(kind, BASE_STR("thread"));
    return isolation->thread || base_str_equal(kind, BASE_STR("process"));
}

const char *agent_isolation_runner(struct agent_isolation *isolation)
{
    if (isolation->thread) {
        enum base_status status = posix_guard_raise();
        (void)status; // without it a fault of a VM ends the agent
        return NULL;
    }
    if (isolation->runner_path != NULL) {
        return isolation->runner_path;
    }
    char *path = isolation->beside;
    size_t room = sizeof(isolation->beside) - sizeof(RUNNER_NAME);
    ssize_t size = readlink("/proc/self/exe", path, room);
    const char *slash = size > 0 ? memrchr(path, '/', (size_t)size) : NULL;
    size_t folder = slash != NULL ? (size_t)(slash - path) + 1 : 0;
    memcpy(path + folder, RUNNER_NAME, sizeof(RUNNER_NAME));
    return path;
}

uint32_t agent_isolation_runs(void)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    return cores < RUNS_MIN ? RUNS_MIN : cores > DEV_RUNS_MAX ? DEV_RUNS_MAX : (uint32_t)cores;
}

const char *agent_isolation_hint(const struct posix_options *options,
                                 const struct base_error *error)
{
    bool apart = options->runner_path != NULL &&
                 (error->status == BASE_ERR_NOT_FOUND || error->status == BASE_ERR_UNSUPPORTED);
    return apart ? "; tasks need it to run in processes of their own; --isolation thread runs them "
                   "inside the agent, without that wall"
                 : "";
}
