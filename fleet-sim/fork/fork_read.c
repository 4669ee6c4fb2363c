// What a branch came to, from the files of its run: the counts of run.json, the moments of
// coverage.csv, the rows of timeline.csv. fork_play.c calls it on the main thread, once a
// branch was played.
#include "fork/fork.h"

#include "base/check.h"
#include "compare/compare.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LINE_BYTES  8192
#define COLUMNS_MAX 128u
#define NO_COLUMN   COLUMNS_MAX

static double number_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : 0;
}

// ---- Rows

struct columns {
    uint32_t seconds;
    uint32_t running;
    uint32_t harmed;
};

// The column of this name in the first line; NO_COLUMN: there is none.
static uint32_t column_of(const char *head, const char *name)
{
    size_t size = strlen(name);
    uint32_t column = 0;
    for (const char *at = head; *at != '\0'; column++) {
        size_t span = strcspn(at, ",\n");
        if (span == size && memcmp(at, name, size) == 0) {
            return column;
        }
        at += span;
        at += *at != '\0';
    }
    return NO_COLUMN;
}

static double field_of(const char *line, uint32_t column)
{
    for (uint32_t i = 0; i < column && line != NULL; i++) {
        const char *comma = strchr(line, ',');
        line = comma != NULL ? comma + 1 : NULL;
    }
    return line != NULL ? strtod(line, NULL) : 0;
}

static bool rows_grow(struct sim_branch *branch, uint32_t *capacity)
{
    double **const all[] = {&branch->seconds, &branch->running, &branch->harmed};
    if (branch->rows < *capacity) {
        return true;
    }
    *capacity = *capacity > 0 ? 2 * *capacity : 1024;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        double *more = realloc(*all[i], sizeof(double) * *capacity);
        if (more == NULL) {
            return false;
        }
        *all[i] = more;
    }
    return true;
}

static enum base_status rows_take(struct sim_branch *branch, FILE *file,
                                  const struct columns *columns)
{
    char line[LINE_BYTES];
    uint32_t capacity = 0;
    base_assert(branch->rows == 0);
    while (fgets(line, sizeof(line), file) != NULL && branch->rows < SIM_BRANCH_SECONDS) {
        if (!rows_grow(branch, &capacity)) {
            return BASE_ERR_NOMEM;
        }
        uint32_t row = branch->rows++;
        branch->seconds[row] = field_of(line, columns->seconds);
        branch->running[row] = columns->running != NO_COLUMN ? field_of(line, columns->running) : 0;
        branch->harmed[row] = columns->harmed != NO_COLUMN ? field_of(line, columns->harmed) : 0;
    }
    return ferror(file) == 0 ? BASE_OK : BASE_ERR_IO;
}

// `number` of the version in the file; 0: it was never met.
static enum base_status rows_read(const struct sim_fork *fork, struct sim_branch *branch,
                                  const char *folder, uint32_t number, struct base_error *error)
{
    char path[SIM_CHILD_FOLDER_MAX + 32];
    char head[LINE_BYTES];
    char name[32];
    (void)snprintf(path, sizeof(path), "%s/timeline.csv", folder);
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return base_error_set(error, BASE_ERR_IO, "%.200s: %s", path, strerror(errno));
    }
    enum base_status status = fgets(head, sizeof(head), file) != NULL ? BASE_OK : BASE_ERR_INVALID;
    if (status == BASE_OK) {
        struct columns columns = {.seconds = column_of(head, "t_s")};
        (void)snprintf(name, sizeof(name), "v%u_current", number);
        columns.running = column_of(head, name);
        (void)snprintf(name, sizeof(name), "v%u_failed", number);
        columns.harmed = column_of(head, fork->called_bad ? "exposed" : name);
        status =
            columns.seconds != NO_COLUMN ? rows_take(branch, file, &columns) : BASE_ERR_INVALID;
    }
    (void)fclose(file);
    return status == BASE_OK
               ? BASE_OK
               : base_error_set(error, status, "%.200s: %s", path, base_status_text(status));
}

void sim_fork_name(const json_t *task, const json_t *version, char out[SIM_FORK_VERSION_MAX])
{
    const char *of = json_string_value(task);
    const char *label = json_string_value(version);
    (void)snprintf(out, SIM_FORK_VERSION_MAX, "%.70s %.50s", of != NULL ? of : "",
                   label != NULL ? label : "");
}

// ---- Numbers

static const json_t *version_of(const json_t *root, const char *manifest)
{
    size_t index;
    const json_t *version;
    json_array_foreach(json_object_get(root, "versions"), index, version)
    {
        const char *own = json_string_value(json_object_get(version, "manifest"));
        if (own != NULL && strcmp(own, manifest) == 0) {
            return version;
        }
    }
    return NULL;
}

// The first moment of a curve at which so many had come; NAN: they never did.
static double reached_s(const struct sim_steps *steps, double devices)
{
    for (uint32_t i = 0; steps != NULL && i < steps->count; i++) {
        if (steps->y[i] >= devices) {
            return steps->x[i];
        }
    }
    return NAN;
}

static void curves_measure(const struct sim_fork *fork, struct sim_branch *branch,
                           const struct sim_run_files *files)
{
    char name[SIM_NAME_MAX];
    (void)snprintf(name, sizeof(name), "%.70s,ran", fork->manifest);
    const struct sim_steps *ran = sim_steps_find(files->curves, files->curve_count, name);
    double before = ran != NULL ? sim_steps_at(ran, fork->at_s) : 0;
    double *metrics = branch->metrics;
    metrics[SIM_FORK_RAN_AFTER] =
        (ran != NULL && ran->count > 0 ? ran->y[ran->count - 1] : 0) - before;
    metrics[SIM_FORK_HALF_S] = reached_s(ran, files->devices * 0.5);
    metrics[SIM_FORK_NINE_S] = reached_s(ran, files->devices * 0.9);
    metrics[SIM_FORK_MOST_S] = reached_s(ran, files->devices * 0.99);
}

// The first moment at which the rollout was seen to stop; NAN: it never was.
static double stopped_s(const json_t *root)
{
    static const char *const stops[] = {" paused", " rolling_back", " rolled_back", " aborted"};
    size_t index;
    const json_t *mark;
    json_array_foreach(json_object_get(root, "marks"), index, mark)
    {
        const char *text = json_string_value(json_object_get(mark, "text"));
        for (size_t i = 0; text != NULL && i < sizeof(stops) / sizeof(stops[0]); i++) {
            if (strstr(text, stops[i]) != NULL) {
                return number_of(mark, "t_s");
            }
        }
    }
    return NAN;
}

static double first_harm_s(const struct sim_branch *branch)
{
    for (uint32_t i = 0; i < branch->rows; i++) {
        if (branch->harmed[i] > 0) {
            return branch->seconds[i];
        }
    }
    return NAN;
}

static void totals_measure(struct sim_branch *branch, const json_t *root, const json_t *version)
{
    const json_t *totals = json_object_get(root, "totals");
    double *metrics = branch->metrics;
    base_assert(json_is_object(root));
    metrics[SIM_FORK_RAN] = number_of(version, "ran");
    metrics[SIM_FORK_CURRENT] = number_of(version, "current");
    metrics[SIM_FORK_FAILED] = number_of(version, "failed");
    metrics[SIM_FORK_BACK] = number_of(version, "rolled_back");
    metrics[SIM_FORK_EXPOSED] = number_of(root, "exposed");
    metrics[SIM_FORK_REQUESTS] = number_of(totals, "requests");
    metrics[SIM_FORK_ERRORS] = number_of(totals, "request_errors");
    metrics[SIM_FORK_STOPPED_S] = stopped_s(root);
    metrics[SIM_FORK_DETECT_S] = metrics[SIM_FORK_STOPPED_S] - first_harm_s(branch);
    if (!(metrics[SIM_FORK_DETECT_S] >= 0)) { // it was stopped before anybody was harmed, or never
        metrics[SIM_FORK_DETECT_S] = NAN;
    }
}

// Of the version that is compared, though no device met it in this branch; of several that is the
// last one which was not over before the run.
static void rollout_tell(const struct sim_fork *fork, struct sim_branch *branch, const json_t *root)
{
    size_t index;
    const json_t *rollout;
    branch->rollout[0] = '\0';
    json_array_foreach(json_object_get(root, "rollouts"), index, rollout)
    {
        char name[SIM_FORK_VERSION_MAX];
        const char *state = json_string_value(json_object_get(rollout, "state"));
        const char *reason = json_string_value(json_object_get(rollout, "reason"));
        bool old = json_is_true(json_object_get(rollout, "over_before"));
        sim_fork_name(json_object_get(rollout, "task"), json_object_get(rollout, "version"), name);
        if (strcmp(name, fork->version) == 0 && (!old || branch->rollout[0] == '\0')) {
            (void)snprintf(branch->rollout, sizeof(branch->rollout), "%.30s%s%.110s",
                           state != NULL ? state : "?",
                           reason != NULL && reason[0] != '\0' ? ": " : "",
                           reason != NULL ? reason : "");
        }
    }
}

enum base_status sim_branch_read(const struct sim_fork *fork, struct sim_branch *branch,
                                 const char *folder, struct base_error *error)
{
    static struct sim_run_files files;
    BASE_TRY(sim_run_files_read(folder, &files, error));
    const json_t *root = files.json;
    const json_t *version = version_of(root, fork->manifest);
    const char *digest =
        json_string_value(json_object_get(json_object_get(root, "virtual"), "digest"));
    const char *broken = sim_report_broken(root, NULL);
    (void)snprintf(branch->digest, sizeof(branch->digest), "%s", digest != NULL ? digest : "");
    (void)snprintf(branch->broken, sizeof(branch->broken), "%s", broken != NULL ? broken : "");
    enum base_status status =
        rows_read(fork, branch, folder, (uint32_t)number_of(version, "number"), error);
    if (status == BASE_OK) {
        curves_measure(fork, branch, &files);
        totals_measure(branch, root, version);
        rollout_tell(fork, branch, root);
    }
    sim_run_files_done(&files);
    return status;
}
