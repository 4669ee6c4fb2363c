// The gateway of a plan, made of programs that ship: see stand_in.h. plan_simulate.c calls it, on
// the one thread there is. Children find neither the user's gateway nor a token of it: their
// environment says where the one of the plan is.
#include "cli/simulate/stand_in.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORDS_MAX 24
#define SAYS_MAX  64 // lines of a gateway before it listens
#define LISTENING "listening h2c "

// ---- Programs

// Beside this program, as they are installed.
static bool find_program(const char *name, char out[PATH_MAX])
{
    char self[PATH_MAX];
    ssize_t size = readlink("/proc/self/exe", self, sizeof(self) - 1);
    const char *slash = size > 0 ? memrchr(self, '/', (size_t)size) : NULL;
    int written =
        slash != NULL ? snprintf(out, PATH_MAX, "%.*s/%s", (int)(slash - self), self, name) : 0;
    return written > 0 && written < PATH_MAX && access(out, X_OK) == 0;
}

static void log_path(const struct stand_in *in, char out[128])
{
    (void)snprintf(out, 128, "%s/log", in->folder);
}

// In the child: whatever it asks, it asks the plan's gateway.
static void surroundings(const struct stand_in *in)
{
    (void)setenv("XDG_STATE_HOME", in->folder, 1);
    (void)setenv("WALLE_GATEWAY", in->url, 1);
    (void)unsetenv("WALLE_TOKEN");
    (void)unsetenv("WALLE_TENANT");
    (void)unsetenv("WALLE_CA");
}

// `out`: where its standard output goes; -1: to the log, as its errors do.
static pid_t start(const struct stand_in *in, const char *const *words, int out)
{
    char path[128];
    log_path(in, path);
    (void)fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        int log = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        int none = open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (log < 0 || none < 0 || dup2(none, STDIN_FILENO) < 0 ||
            dup2(out >= 0 ? out : log, STDOUT_FILENO) < 0 || dup2(log, STDERR_FILENO) < 0) {
            _exit(CLI_EXIT_LOCAL);
        }
        surroundings(in);
        execv(words[0], (char *const *)(uintptr_t)words);
        _exit(CLI_EXIT_LOCAL);
    }
    return child;
}

static int wait_for(pid_t child)
{
    int status = 0;
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR) {
            return -1;
        }
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int stand_in_run(const struct stand_in *in, const char *const *words)
{
    pid_t child = start(in, words, -1);
    return child > 0 ? wait_for(child) : -1;
}

void stand_in_said(const struct stand_in *in, char out[256])
{
    char path[128];
    char line[256];
    log_path(in, path);
    (void)snprintf(out, 256, "it said nothing");
    FILE *file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        line[strcspn(line, "\r\n")] = '\0';
        if (line[0] != '\0' && line[0] != ' ') {
            (void)snprintf(out, 256, "%s", line);
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
}

static enum cli_exit step(const struct stand_in *in, const char *const *words)
{
    char said[256];
    if (stand_in_run(in, words) == 0) {
        return CLI_EXIT_OK;
    }
    stand_in_said(in, said);
    return cli_fail(CLI_EXIT_LOCAL, "the plan cannot be simulated: %s", said);
}

// ---- The gateway

static enum cli_exit gateway_start(struct stand_in *in)
{
    char dir[128];
    char line[256];
    int ends[2];
    (void)snprintf(dir, sizeof(dir), "%s/gateway", in->folder);
    const char *const words[] = {in->gateway,   "--dir", dir,           "--h2c",
                                 "127.0.0.1:0", "--tls", "127.0.0.1:0", NULL};
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return cli_fail(CLI_EXIT_LOCAL, "pipe: %s", strerror(errno));
    }
    in->pid = start(in, words, ends[1]);
    in->out = ends[0];
    (void)close(ends[1]);
    FILE *says = fdopen(dup(ends[0]), "re");
    for (int i = 0; says != NULL && i < SAYS_MAX && in->url[0] == '\0'; i++) {
        if (fgets(line, sizeof(line), says) == NULL) {
            break;
        }
        const size_t size = sizeof(LISTENING) - 1;
        if (strncmp(line, LISTENING, size) == 0) {
            (void)snprintf(in->url, sizeof(in->url), "http://%.*s",
                           (int)strcspn(line + size, "\r\n"), line + size);
        }
    }
    if (says != NULL) {
        (void)fclose(says);
    }
    if (in->url[0] == '\0') {
        char said[256];
        stand_in_said(in, said);
        return cli_fail(CLI_EXIT_LOCAL, "the plan's gateway does not start: %s", said);
    }
    return CLI_EXIT_OK;
}

static enum cli_exit gateway_stop(struct stand_in *in)
{
    int status = 0;
    if (in->pid > 0) {
        (void)kill(in->pid, SIGTERM);
        status = wait_for(in->pid);
        in->pid = 0;
    }
    if (in->out >= 0) {
        (void)close(in->out);
        in->out = -1;
    }
    return status == 0 ? CLI_EXIT_OK
                       : cli_fail(CLI_EXIT_LOCAL, "the plan's gateway does not stop in order");
}

// ---- Keys, version, rollout

struct paths {
    char root_key[128];
    char release_key[128];
    char release_public[128];
    char root[128];
    char stages[128];
};

static void paths_of(const struct stand_in *in, struct paths *out)
{
    (void)snprintf(out->root_key, sizeof(out->root_key), "%s/root.key", in->folder);
    (void)snprintf(out->release_key, sizeof(out->release_key), "%s/release.key", in->folder);
    (void)snprintf(out->release_public, sizeof(out->release_public), "%s/release.key.pub",
                   in->folder);
    (void)snprintf(out->root, sizeof(out->root), "%s/root.1", in->folder);
    (void)snprintf(out->stages, sizeof(out->stages), "%s/stages.json", in->folder);
}

static enum cli_exit trust_make(const struct stand_in *in, const struct paths *at,
                                const char *build)
{
    const char *const all[][WORDS_MAX] = {
        {in->walle, "key", "new", "--out", at->root_key, NULL},
        {in->walle, "key", "new", "--out", at->release_key, NULL},
        {in->walle, "root", "init", "--out", at->root, "--key", at->root_key, "--release",
         at->release_public, "--wide", "1", NULL},
        {in->walle, "root", "push", at->root, NULL},
        {in->walle, "task", "push", build, NULL},
    };
    enum cli_exit code = CLI_EXIT_OK;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]) && code == CLI_EXIT_OK; ++i) {
        code = step(in, all[i]);
    }
    return code;
}

// The rollout's id stands first in what the start prints.
static bool rollout_id(struct stand_in *in)
{
    char path[128];
    char line[256];
    log_path(in, path);
    FILE *file = fopen(path, "re");
    while (file != NULL && in->rollout[0] == '\0' && fgets(line, sizeof(line), file) != NULL) {
        if (strspn(line, "0123456789abcdef") == sizeof(in->rollout) - 1) {
            (void)snprintf(in->rollout, sizeof(in->rollout), "%.16s", line);
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return in->rollout[0] != '\0';
}

static enum cli_exit rollout_start(struct stand_in *in, const struct paths *at,
                                   const struct stand_in_plan *plan)
{
    const char *words[WORDS_MAX] = {in->walle,        "rollout",        "start",   plan->task,
                                    "--build",        plan->build,      "--key",   at->release_key,
                                    "--stages",       at->stages,       "--guard", "1",
                                    "--accept-empty", "--accept-power", NULL};
    if (plan->target != NULL) {
        words[14] = "--target";
        words[15] = plan->target;
    }
    if (json_dump_file(plan->stages, at->stages, 0) != 0) {
        return cli_fail(CLI_EXIT_LOCAL, "%s: it cannot be written", at->stages);
    }
    enum cli_exit code = step(in, words);
    return code != CLI_EXIT_OK || rollout_id(in)
               ? code
               : cli_fail(CLI_EXIT_LOCAL, "the plan's rollout has no id");
}

// ---- Life

enum cli_exit stand_in_begin(struct stand_in *out)
{
    const char *temporary = getenv("TMPDIR");
    *out = (struct stand_in){.out = -1};
    if (!find_program("walle", out->walle) || !find_program("walle-gateway", out->gateway) ||
        !find_program("walle-fleet-sim", out->fleet_sim)) {
        return cli_fail(CLI_EXIT_LOCAL, "--simulate needs walle, walle-gateway and "
                                        "walle-fleet-sim beside this program");
    }
    (void)snprintf(out->folder, sizeof(out->folder), "%.40s/walle-XXXXXX",
                   temporary != NULL && strlen(temporary) < 40 ? temporary : "/tmp");
    if (mkdtemp(out->folder) == NULL) {
        enum cli_exit code = cli_fail(CLI_EXIT_LOCAL, "%s: %s", out->folder, strerror(errno));
        out->folder[0] = '\0';
        return code;
    }
    return CLI_EXIT_OK;
}

enum cli_exit stand_in_make(const struct stand_in_plan *plan, struct stand_in *in)
{
    struct paths at;
    paths_of(in, &at);
    enum cli_exit code = gateway_start(in);
    if (code == CLI_EXIT_OK) {
        code = trust_make(in, &at, plan->build);
    }
    if (code == CLI_EXIT_OK) {
        code = rollout_start(in, &at, plan);
    }
    enum cli_exit stopped = gateway_stop(in);
    return code != CLI_EXIT_OK ? code : stopped;
}

static int remove_one(const char *path, const struct stat *about, int kind, struct FTW *place)
{
    (void)about, (void)kind, (void)place;
    return remove(path);
}

void stand_in_done(struct stand_in *in)
{
    if (in->pid > 0) {
        (void)gateway_stop(in);
    }
    if (in->folder[0] != '\0') {
        (void)nftw(in->folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
        in->folder[0] = '\0';
    }
}
