// Runs as processes: started, waited for, read and cleared away. certify/certify_play.c,
// swarm_play.c and shrink_main.c call it on the main thread. Who waits for several takes the first
// that ends, whichever it is.
#include "swarm/child_run.h"

#include "base/check.h"
#include "failing/failing_devices.h"
#include "model/sim_exit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

void sim_child_remove(const struct sim_child *child)
{
    static const char *const files[] = {"run.json",    "report.html",  "timeline.csv",
                                        "latency.csv", "coverage.csv", SIM_FAILING_ATTRS_FILE,
                                        "repro.txt",   "digest.bin",   "trace.txt",
                                        "device.jsonl"};
    char path[SIM_CHILD_FOLDER_MAX + 32];
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", child->folder, files[i]);
        (void)unlink(path);
    }
    (void)rmdir(child->folder);
    (void)snprintf(path, sizeof(path), "%s.log", child->folder);
    (void)unlink(path);
}

// In the new process, up to the program's begin. It ends with whoever waits for it: a killed swarm
// leaves no run behind.
static void become(const struct sim_child *child, const char *log, const char *const *words,
                   pid_t parent)
{
    int file = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    bool good = file >= 0 && dup2(file, STDOUT_FILENO) >= 0 && dup2(file, STDERR_FILENO) >= 0 &&
                (child->from == NULL || chdir(child->from) == 0) &&
                prctl(PR_SET_PDEATHSIG, SIGTERM) == 0;
    if (good && getppid() != parent) { // it died before it was asked for
        (void)kill(getpid(), SIGKILL);
    }
    if (good) {
        (void)execve("/proc/self/exe", (char *const *)(uintptr_t)words, environ);
    }
}

// The process, once it runs the program; else an errno, negative.
static pid_t spawn(const struct sim_child *child, const char *log, const char *const *words)
{
    int ends[2]; // closed by the program's begin
    int why = 0;
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return -errno;
    }
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid == 0) {
        become(child, log, words, parent);
        why = errno;
        (void)!write(ends[1], &why, sizeof(why));
        _exit(SIM_EXIT_LOCAL);
    }
    why = pid < 0 ? errno : 0;
    (void)close(ends[1]);
    while (pid > 0 && read(ends[0], &why, sizeof(why)) < 0 && errno == EINTR) {
    }
    (void)close(ends[0]);
    if (pid > 0 && why != 0) {
        (void)waitpid(pid, NULL, 0);
    }
    return why != 0 ? -why : pid;
}

enum base_status sim_child_begin(struct sim_child *child, const char *const *words,
                                 struct base_error *error)
{
    char log[SIM_CHILD_FOLDER_MAX + 8];
    base_assert(child->pid == 0);
    (void)snprintf(log, sizeof(log), "%s.log", child->folder);
    sim_child_remove(child); // of before
    pid_t pid = spawn(child, log, words);
    if (pid < 0) {
        return base_error_set(error, BASE_ERR_IO, "a run cannot be started: %s", strerror(-pid));
    }
    child->pid = pid;
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
