// `walle-fleet-sim verify OUT`: does the run come again as it was? Plays it once more by the line
// of its repro.txt, in a process of its own, and compares what both left. fleet_main.c calls it on
// the main thread. The second run's folder is OUT/verify; it goes when the two are the same.
#include "compare/compare.h"

#include "base/text/near_option.h"
#include "model/repro_line.h"
#include "model/sim_exit.h"

#include <argp.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATH_BYTES (PATH_MAX + 64)
#define SHOWN_MAX  20u                // differences; the others are counted
#define EXPECTED   SIM_EXIT_THRESHOLD // any status of a run that wrote its reports

extern char **environ;

struct verify {
    char folder[PATH_MAX];
    char again[PATH_BYTES]; // the folder of the second run
    FILE *log;
    uint32_t compared;
    uint32_t differ;
};

static const struct argp_option table[] = {{0, 0, 0, 0, 0, 0}};

static error_t on_option(int key, char *value, struct argp_state *state)
{
    const char **folder = state->input;
    if (key == ARGP_KEY_ARG && *folder == NULL) {
        *folder = value;
        return 0;
    }
    if (key == ARGP_KEY_ARG || (key == ARGP_KEY_END && *folder == NULL)) {
        argp_error(state, "one folder of a run is expected (its --out)");
    }
    return ARGP_ERR_UNKNOWN;
}

static enum base_status repro_load(const char *folder, struct sim_repro *out,
                                   struct base_error *error)
{
    char path[PATH_BYTES];
    char line[SIM_REPRO_BYTES_MAX] = "";
    (void)snprintf(path, sizeof(path), "%s/" SIM_REPRO_FILE, folder);
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return base_error_set(error, BASE_ERR_IO, "%.200s: %s", path, strerror(errno));
    }
    bool read = fgets(line, sizeof(line), file) != NULL;
    (void)fclose(file);
    if (!read || sim_repro_read(line, out) != BASE_OK) {
        return base_error_set(error, BASE_ERR_INVALID, "%.200s: it is no line of a run", path);
    }
    return BASE_OK;
}

static bool has_word(const struct sim_repro *repro, const char *word)
{
    size_t size = strlen(word);
    for (uint32_t i = 0; i < repro->count; i++) {
        const char *rest = repro->words[i] + size;
        if (strncmp(repro->words[i], word, size) == 0 && (*rest == '\0' || *rest == '=')) {
            return true;
        }
    }
    return false;
}

// What the first run wrote beside its folder is not written again.
static enum base_status words_again(struct verify *verify, struct sim_repro *repro,
                                    struct base_error *error)
{
    static const char *const elsewhere[] = {"--out", "--junit", "--metrics", "--evidence",
                                            "--evidence-key"};
    if (!has_word(repro, "--virtual")) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "%.100s is of a run in real time, which never comes again as it was: "
                              "conform compares two of them",
                              verify->folder);
    }
    sim_repro_drop(repro, elsewhere, sizeof(elsewhere) / sizeof(elsewhere[0]));
    if (repro->count + 3 > SIM_REPRO_WORDS_MAX) {
        return base_error_set(error, BASE_ERR_LIMIT, "the run has too many words");
    }
    repro->words[repro->count++] = "--no-live";
    repro->words[repro->count++] = "--out";
    repro->words[repro->count++] = verify->again;
    repro->words[repro->count] = NULL;
    return BASE_OK;
}

static int spawn(const struct verify *verify, const struct sim_repro *repro, pid_t *out_pid)
{
    char path[PATH_BYTES + 8];
    posix_spawn_file_actions_t actions;
    (void)snprintf(path, sizeof(path), "%s.log", verify->again);
    int failed = posix_spawn_file_actions_init(&actions);
    if (failed != 0) {
        return failed;
    }
    failed = posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, path,
                                              O_WRONLY | O_CREAT | O_TRUNC, 0666);
    failed = failed != 0 ? failed
                         : posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
    failed = failed != 0 ? failed : posix_spawn_file_actions_addchdir_np(&actions, repro->folder);
    failed = failed != 0 ? failed
                         : posix_spawn(out_pid, "/proc/self/exe", &actions, NULL,
                                       (char *const *)(uintptr_t)repro->words, environ);
    (void)posix_spawn_file_actions_destroy(&actions);
    return failed;
}

static enum base_status play(const struct verify *verify, const struct sim_repro *repro,
                             struct base_error *error)
{
    pid_t pid = 0;
    int status = 0;
    int failed = spawn(verify, repro, &pid);
    if (failed != 0) {
        return base_error_set(error, BASE_ERR_IO, "the run cannot be started in %.100s: %s",
                              repro->folder, strerror(failed));
    }
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR) {
            return base_error_set(error, BASE_ERR_IO, "waiting for the run: %s", strerror(errno));
        }
    }
    bool wrote = WIFEXITED(status) && WEXITSTATUS(status) <= EXPECTED &&
                 WEXITSTATUS(status) != SIM_EXIT_USAGE && WEXITSTATUS(status) != SIM_EXIT_LOCAL;
    return wrote ? BASE_OK
                 : base_error_set(error, BASE_ERR_IO, "the run came to nothing: see %.200s.log",
                                  verify->again);
}

// ---- Comparing

static json_t *report_load(const char *folder, struct base_error *error)
{
    char path[PATH_BYTES + 16];
    json_error_t why;
    (void)snprintf(path, sizeof(path), "%s/run.json", folder);
    json_t *root = json_load_file(path, 0, &why);
    if (root == NULL) {
        (void)base_error_set(error, BASE_ERR_IO, "%.200s: %.100s", path, why.text);
    }
    return root;
}

static void tell(struct verify *verify, const char *name, const json_t *before, const json_t *now)
{
    verify->differ++;
    if (verify->differ <= SHOWN_MAX) {
        char *left = before != NULL ? json_dumps(before, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
        char *right = now != NULL ? json_dumps(now, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
        (void)fprintf(verify->log, "NOT THE SAME  %s: %.200s, and %.200s\n", name,
                      left != NULL ? left : "none", right != NULL ? right : "none");
        free(left);
        free(right);
    }
}

// What a run comes to by its options, and nothing of the machine. Two levels are told apart, what
// is below them stands or falls together.
static void same(struct verify *verify, const char *name, const json_t *before, const json_t *now)
{
    if (json_is_object(before) && json_is_object(now)) {
        const char *key;
        json_t *value;
        json_object_foreach((json_t *)(uintptr_t)before, key, value)
        {
            char path[96];
            (void)snprintf(path, sizeof(path), "%.40s.%.40s", name, key);
            const json_t *other = json_object_get(now, key);
            verify->compared++;
            if (other == NULL || json_equal(value, other) == 0) {
                tell(verify, path, value, other);
            }
        }
        return;
    }
    verify->compared++;
    if (before == NULL || now == NULL || json_equal(before, now) == 0) {
        tell(verify, name, before, now);
    }
}

static void compare(struct verify *verify, const json_t *before, const json_t *now)
{
    static const char *const parts[] = {"outcome", "totals", "requests",  "versions", "rollouts",
                                        "oracles", "marks",  "truth_gap", "exposed",  "latency_us"};
    const json_t *digest = json_object_get(json_object_get(before, "virtual"), "digest");
    const json_t *again = json_object_get(json_object_get(now, "virtual"), "digest");
    same(verify, "digest", digest, again);
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        same(verify, parts[i], json_object_get(before, parts[i]), json_object_get(now, parts[i]));
    }
    if (verify->differ > SHOWN_MAX) {
        (void)fprintf(verify->log, "              and %u more\n", verify->differ - SHOWN_MAX);
    }
    (void)fprintf(verify->log, "%s: %u of %u facts are the same, digest %s\n",
                  verify->differ == 0 ? "verified" : "NOT VERIFIED",
                  verify->compared - verify->differ, verify->compared,
                  json_is_string(again) ? json_string_value(again) : "none");
}

// The second run's folder, whatever a run writes there, and its log. A folder that no run wrote
// into is somebody else's.
static void remove_again(const struct verify *verify)
{
    char path[PATH_BYTES + NAME_MAX + 8];
    (void)snprintf(path, sizeof(path), "%s/" SIM_REPRO_FILE, verify->again);
    DIR *folder = access(path, F_OK) == 0 ? opendir(verify->again) : NULL;
    const struct dirent *item;
    while (folder != NULL && (item = readdir(folder)) != NULL) {
        if (item->d_name[0] != '.') {
            (void)snprintf(path, sizeof(path), "%s/%s", verify->again, item->d_name);
            (void)unlink(path); // folders stay
        }
    }
    if (folder != NULL) {
        (void)closedir(folder);
        (void)rmdir(verify->again);
    }
    (void)snprintf(path, sizeof(path), "%s.log", verify->again);
    (void)unlink(path);
}

static enum base_status verify_all(struct verify *verify, struct base_error *error)
{
    struct sim_repro repro;
    BASE_TRY(repro_load(verify->folder, &repro, error));
    BASE_TRY(words_again(verify, &repro, error));
    json_t *before = report_load(verify->folder, error);
    if (before == NULL) {
        return BASE_ERR_IO;
    }
    remove_again(verify); // of another time
    json_t *now = NULL;
    enum base_status status = play(verify, &repro, error);
    if (status == BASE_OK) {
        now = report_load(verify->again, error);
        status = now != NULL ? BASE_OK : BASE_ERR_IO;
    }
    if (status == BASE_OK) {
        compare(verify, before, now);
        if (verify->differ == 0) {
            remove_again(verify);
        }
    }
    json_decref(before);
    json_decref(now);
    return status;
}

int sim_verify_main(int argc, char **argv, FILE *log)
{
    static char name[] = "walle-fleet-sim verify";
    static struct verify verify;
    const char *folder = NULL;
    struct base_error error = {0};
    const struct argp parser = {
        table,
        on_option,
        "OUT",
        "Does a run in virtual time come again as it was? Plays it once more by the line in "
        "OUT/repro.txt and compares digest, totals, versions, rollouts and latencies. A run that "
        "differs stays in OUT/verify.\vExit status: 0 it is the same, 1 it is not, 2 usage or a "
        "run in real time, 4 files or memory.",
        NULL,
        NULL,
        NULL};
    argv[0] = name;
    argp_err_exit_status = SIM_EXIT_USAGE;
    program_invocation_short_name = name;
    if (!base_options_known(table, argc, argv) ||
        argp_parse(&parser, argc, argv, 0, NULL, &folder) != 0) {
        return SIM_EXIT_USAGE;
    }
    verify = (struct verify){.log = log};
    enum base_status status = BASE_OK;
    if (realpath(folder, verify.folder) == NULL) {
        status = base_error_set(&error, BASE_ERR_IO, "%.100s: %s", folder, strerror(errno));
    } else {
        (void)snprintf(verify.again, sizeof(verify.again), "%s/verify", verify.folder);
        status = verify_all(&verify, &error);
    }
    if (status != BASE_OK) {
        (void)fprintf(stderr, "walle-fleet-sim verify: %s\n", error.text);
        return status == BASE_ERR_INVALID || status == BASE_ERR_LIMIT ? SIM_EXIT_USAGE
                                                                      : SIM_EXIT_LOCAL;
    }
    return verify.differ == 0 ? SIM_EXIT_OK : SIM_EXIT_FAILED;
}
