// `walle-fleet-sim verify OUT`: does the run come again as it was? Plays it once more by the line
// of its repro.txt, in a process of its own, and compares what both left. fleet_main.c calls it on
// the main thread. The second run's folder is OUT/verify; it goes when the two are the same.
#include "compare/compare.h"

#include "compare/play_again.h"
#include "model/sim_exit.h"
#include "people/sim_local_file.h"
#include "words/command_words.h"

#include <argp.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN_MAX        20u // differences; the others are counted
#define REPORT_BYTES_MAX (64u * 1024 * 1024)

struct verify {
    struct sim_again again;
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

// ---- Comparing

static json_t *report_load(const char *folder, struct base_error *error)
{
    char path[PATH_MAX + 16];
    json_error_t why;
    struct base_buffer text = {0};
    (void)snprintf(path, sizeof(path), "%s/run.json", folder);
    if (sim_local_read(path, REPORT_BYTES_MAX, &text, error) != BASE_OK) {
        return NULL;
    }
    json_t *root = json_loadb((const char *)text.data, text.size, 0, &why);
    base_buffer_done(&text);
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

static enum base_status verify_all(struct verify *verify, struct base_error *error)
{
    static const char *const nothing[] = {NULL};
    json_t *before = report_load(verify->again.first, error);
    if (before == NULL) {
        return BASE_ERR_IO;
    }
    json_t *now = NULL;
    enum base_status status = sim_again_play(&verify->again, nothing, error);
    if (status == BASE_OK) {
        now = report_load(verify->again.child.folder, error);
        status = now != NULL ? BASE_OK : BASE_ERR_IO;
    }
    if (status == BASE_OK) {
        compare(verify, before, now);
        if (verify->differ == 0) {
            sim_child_remove(&verify->again.child);
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
    if (!sim_command_read(&parser, 0, argc, argv, &folder)) {
        return SIM_EXIT_USAGE;
    }
    verify = (struct verify){.log = log};
    enum base_status status = sim_again_open(&verify.again, folder, "verify", &error);
    if (status == BASE_OK) {
        status = verify_all(&verify, &error);
    }
    if (status != BASE_OK) {
        return sim_command_failed(name, status, &error);
    }
    return verify.differ == 0 ? SIM_EXIT_OK : SIM_EXIT_FAILED;
}
