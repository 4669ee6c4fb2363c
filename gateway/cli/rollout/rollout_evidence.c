// Runs the simulator for a simulate stage, and reads what it signed. One thread; see
// rollout_evidence.h. cli_release.c and rollout_begin.c have a simulation run, cli_rollout.c loads
// a file of one that was run elsewhere. The simulator is a process of its own, found beside this
// program or in PATH; whether the gateway would believe its key is asked before, because a
// simulation takes time.
#include "cli/rollout/rollout_evidence.h"

#include "cli/base/cli_json.h"
#include "cli/stages/evidence_gate.h"
#include "cli/stages/ladder.h"
#include "cli/rollout/served_root.h"
#include "signing/signing.h"

#include "base/os/output_file.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROGRAM   "walle-fleet-sim"
#define WORDS_MAX 24

enum cli_exit rollout_evidence_load(const char *path, json_t **out_body)
{
    struct base_error error = {0};
    json_t *file = NULL;

    if (cli_json_load(path, &file, &error) != BASE_OK) {
        return cli_fail(CLI_EXIT_LOCAL, "%s", error.text);
    }
    const char *text = cli_json_text(file, "evidence", NULL);
    if (text == NULL) {
        json_decref(file);
        return cli_fail(CLI_EXIT_LOCAL,
                        "%s: no evidence in it (walle-fleet-sim simulate --evidence writes it)",
                        path);
    }
    *out_body = json_pack("{s:s}", "evidence", text);
    json_decref(file);
    return CLI_EXIT_OK;
}

// ---- Is there all that a simulation needs?

static bool can_run(const char *folder, size_t size, char out[PATH_MAX])
{
    int written = snprintf(out, PATH_MAX, "%.*s/%s", (int)size, folder, PROGRAM);

    return written > 0 && written < PATH_MAX && access(out, X_OK) == 0;
}

// Beside this program, else in PATH.
static bool find_program(char out[PATH_MAX])
{
    char self[PATH_MAX];
    ssize_t size = readlink("/proc/self/exe", self, sizeof(self) - 1);
    const char *slash = size > 0 ? memrchr(self, '/', (size_t)size) : NULL;
    const char *at = getenv("PATH");

    if (slash != NULL && can_run(self, (size_t)(slash - self), out)) {
        return true;
    }
    while (at != NULL && at[0] != '\0') {
        size_t part = strcspn(at, ":");
        if (part > 0 && can_run(at, part, out)) {
            return true;
        }
        at += part + (at[part] == ':' ? 1 : 0);
    }
    return false;
}

// The first --key, alone.
static void first_key(const struct cli *cli, char out[PATH_MAX])
{
    const char *all = cli->values[CLI_OPTION_KEY];

    (void)snprintf(out, PATH_MAX, "%.*s", (int)strcspn(all, "\n"), all);
}

// Would the gateway believe this key where it serves no root?
static bool key_is_known(const struct cli *cli, const char *path)
{
    struct base_error ignored = {0};
    struct signing_key *key = NULL;
    uint8_t public_key[WIRE_PUBLIC_KEY_BYTES];
    char hex[2 * WIRE_PUBLIC_KEY_BYTES + 1] = "";
    size_t index;
    json_t *item;
    bool known = false;

    if (signing_key_load(path, &key, &ignored) != BASE_OK) {
        return false;
    }
    signing_key_public(key, public_key);
    signing_key_free(key);
    base_hex_encode(public_key, sizeof(public_key), hex);
    hex[sizeof(hex) - 1] = '\0';
    json_t *trust = served_ask(cli, "GET", "/api/v1/trust", NULL);
    json_array_foreach(json_object_get(trust, "evidence_keys"), index, item)
    {
        known = known || strcmp(json_string_value(item), hex) == 0;
    }
    json_decref(trust);
    return known;
}

// ---- The run

struct run {
    const struct cli *cli;
    char program[PATH_MAX];
    char key[PATH_MAX];
    char folder[64];
    char root[96]; // empty: none is served
    char evidence[96];
    char *target;
    uint64_t devices;
    uint32_t max_failure_ppm;
    bool failed; // by the simulator's own words
};

static enum cli_exit write_root(struct run *run, const uint8_t *bytes, size_t size)
{
    struct base_error error = {0};

    (void)snprintf(run->root, sizeof(run->root), "%s/root", run->folder);
    return base_output_write(run->root, bytes, size, &error) == BASE_OK
               ? CLI_EXIT_OK
               : cli_fail(CLI_EXIT_LOCAL, "%s", error.text);
}

// The child's words go to standard error, but for where its report would lie: the folder goes.
static void pass_on(FILE *from)
{
    char *line = NULL;
    size_t room = 0;

    while (getline(&line, &room, from) > 0) {
        if (strncmp(line, "  report ", 9) != 0) {
            fputs(line, stderr);
        }
    }
    free(line);
}

static enum cli_exit wait_for(pid_t child, int from, bool *out_failed)
{
    FILE *output = fdopen(from, "r");
    int status = 0;

    if (output != NULL) {
        pass_on(output);
        (void)fclose(output);
    } else {
        (void)close(from);
    }
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    // 1: more devices failed than the stage allows, or what they sent is wrong; the gateway's gate
    // decides that.
    *out_failed = WIFEXITED(status) && WEXITSTATUS(status) == 1;
    return WIFEXITED(status) && WEXITSTATUS(status) <= 1
               ? CLI_EXIT_OK
               : cli_fail(CLI_EXIT_LOCAL, "the simulation failed: nothing was started");
}

static enum cli_exit spawn(struct run *run)
{
    char devices[24];
    char seed[24];
    char limit[24];
    int ends[2];
    const char *words[WORDS_MAX] = {
        run->program,  "simulate",       "--task",    run->cli->values[CLI_OPTION_BUILD],
        "--devices",   devices,          "--seed",    seed,
        "--target",    run->target,      "--no-live", "--max-failure",
        limit,         "--out",          run->folder, "--evidence",
        run->evidence, "--evidence-key", run->key,    NULL};

    (void)snprintf(devices, sizeof(devices), "%llu", (unsigned long long)run->devices);
    (void)snprintf(seed, sizeof(seed), "%u", 1 + (unsigned)getpid());
    (void)snprintf(limit, sizeof(limit), "%u.%06u", run->max_failure_ppm / 1000000u,
                   run->max_failure_ppm % 1000000u);
    if (run->root[0] != '\0') {
        words[19] = "--root";
        words[20] = run->root;
    }
    if (pipe(ends) != 0) {
        return cli_fail(CLI_EXIT_LOCAL, "pipe: %s", strerror(errno));
    }
    (void)fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        (void)dup2(ends[1], STDOUT_FILENO);
        (void)close(ends[0]);
        (void)close(ends[1]);
        execv(run->program, (char *const *)(uintptr_t)words);
        _exit(CLI_EXIT_LOCAL);
    }
    (void)close(ends[1]);
    if (child < 0) {
        (void)close(ends[0]);
        return cli_fail(CLI_EXIT_LOCAL, "fork: %s", strerror(errno));
    }
    return wait_for(child, ends[0], &run->failed);
}

static void clean_up(const struct run *run)
{
    static const char *const names[] = {"root", "evidence.json", "run.json", "timeline.csv",
                                        "report.html"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); ++i) {
        char path[128];
        (void)snprintf(path, sizeof(path), "%s/%s", run->folder, names[i]);
        (void)unlink(path);
    }
    (void)rmdir(run->folder);
}

static enum cli_exit simulate(struct run *run, const uint8_t *root, size_t root_bytes,
                              json_t **out_body)
{
    const char *temporary = getenv("TMPDIR");
    enum cli_exit code = CLI_EXIT_OK;

    (void)snprintf(run->folder, sizeof(run->folder), "%.40s/walle-XXXXXX",
                   temporary != NULL && strlen(temporary) < 40 ? temporary : "/tmp");
    if (mkdtemp(run->folder) == NULL) {
        return cli_fail(CLI_EXIT_LOCAL, "%s: %s", run->folder, strerror(errno));
    }
    (void)snprintf(run->evidence, sizeof(run->evidence), "%s/evidence.json", run->folder);
    if (root_bytes > 0) {
        code = write_root(run, root, root_bytes);
    }
    if (code == CLI_EXIT_OK) {
        fprintf(stderr, "simulating the version on %llu virtual devices%s%s\n",
                (unsigned long long)run->devices, run->target[0] != '\0' ? ": " : "", run->target);
        code = spawn(run);
    }
    if (code == CLI_EXIT_OK) {
        code = rollout_evidence_load(run->evidence, out_body);
    }
    clean_up(run);
    return code;
}

// As the gateway spells the target; NULL: it cannot be simulated, or reaches nobody and will be
// refused.
static char *target_text(const struct cli *cli, const json_t *target)
{
    const char *said = json_string_value(target); // as the gateway tells it; empty: everybody
    bool everybody = said != NULL && said[0] == '\0';
    json_t *body = everybody ? json_pack("{s:[]}", "target") : json_pack("{s:O}", "target", target);
    json_t *seen = served_ask(cli, "POST", "/api/v1/rollouts/preview", body);
    const char *text = cli_json_text(seen, "target", NULL);
    bool reaches = cli_given(cli, CLI_OPTION_ACCEPT_EMPTY) || cli_json_u64(seen, "matched") > 0;
    char *out = text != NULL && reaches ? strdup(text) : NULL;

    json_decref(body);
    json_decref(seen);
    return out;
}

enum cli_exit rollout_evidence_get(const struct cli *cli, const json_t *stages,
                                   const json_t *target, json_t **out_body)
{
    struct run run = {.cli = cli};
    const json_t *first = json_array_get(stages, 0);

    *out_body = NULL;
    if (cli_given(cli, CLI_OPTION_EVIDENCE)) {
        return rollout_evidence_load(cli->values[CLI_OPTION_EVIDENCE], out_body);
    }
    if (ladder_kind(first) != POL_STAGE_SIMULATE || !cli_given(cli, CLI_OPTION_BUILD) ||
        !find_program(run.program)) {
        return CLI_EXIT_OK;
    }
    first_key(cli, run.key);
    run.max_failure_ppm = evidence_gate_limit(first);
    run.devices = cli_json_u64(first, "min_sample");
    run.devices = run.devices > ROLLOUT_EVIDENCE_DEVICES ? run.devices : ROLLOUT_EVIDENCE_DEVICES;
    run.devices =
        run.devices < ROLLOUT_EVIDENCE_DEVICES_MAX ? run.devices : ROLLOUT_EVIDENCE_DEVICES_MAX;
    uint8_t *root = NULL;
    size_t root_bytes = 0;
    enum cli_exit code = served_root_fetch(cli, &root, &root_bytes);
    if (code == CLI_EXIT_OK && (root_bytes > 0 || key_is_known(cli, run.key))) {
        run.target = target_text(cli, target);
    }
    if (run.target != NULL) {
        code = simulate(&run, root, root_bytes, out_body);
    }
    if (code == CLI_EXIT_OK && run.failed) {
        evidence_gate_differs(stages, *out_body);
    }
    free(root);
    free(run.target);
    return code;
}
