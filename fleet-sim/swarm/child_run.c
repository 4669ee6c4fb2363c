// Runs as processes: started, waited for, read and cleared away. certify/certify_play.c,
// swarm_play.c and shrink_main.c call it on the main thread. Who waits for several takes the first
// that ends, whichever it is.
#include "swarm/child_run.h"

#include "base/check.h"
#include "base/os/errno_status.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

void sim_child_remove(const struct sim_child *child)
{
    static const char *const files[] = {"run.json",    "report.html",  "timeline.csv",
                                        "latency.csv", "coverage.csv", "repro.txt",
                                        "digest.bin",  "trace.txt"};
    char path[SIM_CHILD_FOLDER_MAX + 32];
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", child->folder, files[i]);
        (void)unlink(path);
    }
    (void)rmdir(child->folder);
    (void)snprintf(path, sizeof(path), "%s.log", child->folder);
    (void)unlink(path);
}

enum base_status sim_child_begin(struct sim_child *child, const char *const *words,
                                 struct base_error *error)
{
    char log[SIM_CHILD_FOLDER_MAX + 8];
    posix_spawn_file_actions_t actions;
    base_assert(child->pid == 0);
    (void)snprintf(log, sizeof(log), "%s.log", child->folder);
    sim_child_remove(child); // of before
    int failed = posix_spawn_file_actions_init(&actions);
    if (failed == 0) {
        failed = posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log,
                                                  O_WRONLY | O_CREAT | O_TRUNC, 0666);
    }
    if (failed == 0) {
        failed = posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
    }
    if (failed == 0 && child->from != NULL) {
        failed = posix_spawn_file_actions_addchdir_np(&actions, child->from);
    }
    if (failed == 0) {
        failed = posix_spawn(&child->pid, "/proc/self/exe", &actions, NULL,
                             (char *const *)(uintptr_t)words, environ);
    }
    (void)posix_spawn_file_actions_destroy(&actions);
    if (failed != 0) {
        child->pid = 0;
        return base_error_set(error, BASE_ERR_IO, "a run cannot be started: %s", strerror(failed));
    }
    return BASE_OK;
}

void sim_child_stop(struct sim_child *child)
{
    if (child->pid != 0) {
        (void)kill(child->pid, SIGTERM);
        (void)waitpid(child->pid, NULL, 0);
        child->pid = 0;
    }
}

json_t *sim_child_report(const struct sim_child *child)
{
    char path[SIM_CHILD_FOLDER_MAX + 16];
    json_error_t why;
    (void)snprintf(path, sizeof(path), "%s/run.json", child->folder);
    return json_load_file(path, 0, &why);
}

void sim_child_said(const struct sim_child *child, char out[SIM_CHILD_SAID_MAX])
{
    static const char own[] = "walle-fleet-sim: ";
    char path[SIM_CHILD_FOLDER_MAX + 8];
    char line[SIM_CHILD_SAID_MAX];
    (void)snprintf(path, sizeof(path), "%s.log", child->folder);
    (void)snprintf(out, SIM_CHILD_SAID_MAX, "it said nothing: see %.200s", path);
    FILE *file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        const char *words =
            strncmp(line, own, sizeof(own) - 1) == 0 ? line + sizeof(own) - 1 : line;
        line[strcspn(line, "\r\n")] = '\0';
        bool hint = strstr(words, "--help") != NULL; // behind the words on wrong options
        if (words[0] != '\0' && !hint) {
            (void)snprintf(out, SIM_CHILD_SAID_MAX, "%s", words);
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
}

const char *sim_report_broken(const json_t *report, const char *but)
{
    size_t index;
    const json_t *oracle;
    json_array_foreach(json_object_get(report, "oracles"), index, oracle)
    {
        const char *name = json_string_value(json_object_get(oracle, "name"));
        bool other = but == NULL || name == NULL || strcmp(name, but) != 0;
        if (other && !json_is_true(json_object_get(oracle, "holds"))) {
            return name != NULL ? name : "?";
        }
    }
    return NULL;
}
