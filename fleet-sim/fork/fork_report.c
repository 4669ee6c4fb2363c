// What a fork comes to, for people and programs: a table on the terminal, fork.json, and one page
// with the table and both curves. fork_main.c calls it once, after the last branch, on the main
// thread.
#include "fork/fork.h"

#include "base/check.h"
#include "base/os/output_file.h"
#include "base/version.h"
#include "base/text/html_text.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CELL 40

static const struct sim_fork_about abouts[SIM_FORK_METRIC_COUNT] = {
    [SIM_FORK_RAN] = {"ran", "devices that ran it", false},
    [SIM_FORK_RAN_AFTER] = {"ran_after", "first ran it since the fork", false},
    [SIM_FORK_CURRENT] = {"current", "run it at the end", false},
    [SIM_FORK_FAILED] = {"failed", "failed on", false},
    [SIM_FORK_EXPOSED] = {"exposed", "harmed: ran a bad version", false},
    [SIM_FORK_BACK] = {"rolled_back", "went back from it", false},
    [SIM_FORK_HALF_S] = {"half_s", "50 % of the fleet ran it", true},
    [SIM_FORK_NINE_S] = {"nine_tenths_s", "90 %", true},
    [SIM_FORK_MOST_S] = {"ninety_nine_s", "99 %", true},
    [SIM_FORK_STOPPED_S] = {"stopped_s", "rollout stopped", true},
    [SIM_FORK_DETECT_S] = {"detect_s", "from the first harm to that", true},
    [SIM_FORK_REQUESTS] = {"requests", "requests", false},
    [SIM_FORK_ERRORS] = {"request_errors", "requests in vain", false},
};

const struct sim_fork_about *sim_fork_about(enum sim_fork_metric metric)
{
    base_assert(metric < SIM_FORK_METRIC_COUNT);
    return &abouts[metric];
}

static bool same(double a, double b)
{
    return (isnan(a) && isnan(b)) || fabs(a - b) < 0.0005;
}

// A number, and what it is more or less than in the run as it was.
static void cell_text(const struct sim_fork *fork, uint32_t branch, uint32_t metric, char out[CELL])
{
    double value = fork->branches[branch].metrics[metric];
    double before = fork->branches[0].metrics[metric];
    const char *unit = abouts[metric].seconds ? " s" : "";
    int digits = abouts[metric].seconds ? 1 : 0;
    char more[CELL / 2] = "";
    if (branch > 0 && !same(value, before) && !isnan(value) && !isnan(before)) {
        (void)snprintf(more, sizeof(more), " (%+.*f)", digits, value - before);
    }
    if (isnan(value)) {
        (void)snprintf(out, CELL, "never");
    } else {
        (void)snprintf(out, CELL, "%.*f%s%s", digits, value, unit, more);
    }
}

// ---- The terminal

static void line_write(const struct sim_fork *fork, const char *label, uint32_t metric, FILE *log)
{
    char cell[CELL];
    (void)fprintf(log, "%-28s", label);
    for (uint32_t b = 0; b < fork->count; b++) {
        (void)snprintf(cell, sizeof(cell), "%s", fork->branches[b].name);
        if (metric < SIM_FORK_METRIC_COUNT) {
            cell_text(fork, b, metric, cell);
        }
        (void)fprintf(log, "  %20s", cell);
    }
    (void)fputc('\n', log);
}

static void table_write(const struct sim_fork *fork, FILE *log)
{
    (void)fprintf(log, "\nforked at second %u of %s, to second %u; of %s\n", fork->at_s, fork->out,
                  fork->to_s, fork->version);
    (void)fprintf(log, "everything before second %u came again as it was, in all %u branches\n\n",
                  fork->at_s, fork->count);
    line_write(fork, "", SIM_FORK_METRIC_COUNT, log);
    for (uint32_t m = 0; m < SIM_FORK_METRIC_COUNT; m++) {
        line_write(fork, abouts[m].text, m, log);
    }
    (void)fputc('\n', log);
    for (uint32_t b = 0; b < fork->count; b++) {
        const struct sim_branch *branch = &fork->branches[b];
        (void)fprintf(log, "%-20s rollout %s\n", branch->name,
                      branch->rollout[0] != '\0' ? branch->rollout : "none");
        for (uint32_t i = 0; i < branch->act_count; i++) {
            (void)fprintf(log, "%-20s at second %s\n", "", branch->acts[i]);
        }
        if (branch->broken[0] != '\0') {
            (void)fprintf(log, "%-20s BROKEN: the invariant '%s'\n", "", branch->broken);
        }
    }
}

// ---- JSON

static json_t *number_json(double value)
{
    return isnan(value) ? json_null() : json_real(value);
}

static json_t *branch_json(const struct sim_fork *fork, const struct sim_branch *branch)
{
    json_t *acts = json_array();
    json_t *metrics = json_object();
    json_t *differences = json_object();
    for (uint32_t i = 0; i < branch->act_count; i++) {
        (void)json_array_append_new(acts, json_string(branch->acts[i]));
    }
    for (uint32_t m = 0; m < SIM_FORK_METRIC_COUNT; m++) {
        double apart = branch->metrics[m] - fork->branches[0].metrics[m];
        (void)json_object_set_new(metrics, abouts[m].key, number_json(branch->metrics[m]));
        (void)json_object_set_new(differences, abouts[m].key, number_json(apart));
    }
    return json_pack("{s:s, s:o, s:s, s:s, s:o?, s:o, s:o}", "name", branch->name, "acts", acts,
                     "digest", branch->digest, "rollout", branch->rollout, "broken",
                     branch->broken[0] != '\0' ? json_string(branch->broken) : NULL, "metrics",
                     metrics, "differences", differences);
}

static enum base_status json_write(const struct sim_fork *fork, FILE *file)
{
    json_t *branches = json_array();
    for (uint32_t i = 0; i < fork->count; i++) {
        (void)json_array_append_new(branches, branch_json(fork, &fork->branches[i]));
    }
    json_t *root =
        json_pack("{s:s, s:s, s:i, s:i, s:s, s:s, s:i, s:o}", "product",
                  "walle-fleet-sim " BASE_PRODUCT_VERSION, "run", fork->out, "at_s",
                  (int)fork->at_s, "to_s", (int)fork->to_s, "version", fork->version, "manifest",
                  fork->manifest, "same_seconds", (int)fork->at_s, "branches", branches);
    bool good =
        root != NULL && json_dumpf(root, file, JSON_INDENT(1)) == 0 && fputc('\n', file) != EOF;
    json_decref(root);
    return good ? BASE_OK : BASE_ERR_IO;
}

// ---- The page

static void page_table(const struct sim_fork *fork, FILE *file)
{
    (void)fputs("<table><tr><th>", file);
    for (uint32_t b = 0; b < fork->count; b++) {
        (void)fprintf(file, "<th class=n>%s", fork->branches[b].name);
    }
    for (uint32_t m = 0; m < SIM_FORK_METRIC_COUNT; m++) {
        (void)fprintf(file, "<tr><td>%s", abouts[m].text);
        for (uint32_t b = 0; b < fork->count; b++) {
            char cell[CELL];
            cell_text(fork, b, m, cell);
            (void)fprintf(file, "<td class=n>%s", cell);
        }
    }
    (void)fputs("</table>\n<table>", file);
    for (uint32_t b = 0; b < fork->count; b++) {
        const struct sim_branch *branch = &fork->branches[b];
        (void)fprintf(file, "<tr><td>%s<td>", branch->name);
        for (uint32_t i = 0; i < branch->act_count; i++) {
            (void)fputs(i > 0 ? "; at second " : "at second ", file);
            base_html_text(file, branch->acts[i]);
        }
        (void)fputs(branch->act_count == 0 ? "nothing is done<td>" : "<td>", file);
        base_html_text(file, branch->rollout);
        if (branch->broken[0] != '\0') {
            (void)fprintf(file, "<td>broken: %s", branch->broken);
        }
    }
    (void)fputs("</table>\n", file);
}

// Is there anything to see in that plot?
static bool is_any(const struct sim_fork *fork, bool harmed)
{
    for (uint32_t b = 0; b < fork->count; b++) {
        const struct sim_branch *branch = &fork->branches[b];
        const double *y = harmed ? branch->harmed : branch->running;
        for (uint32_t i = 0; i < branch->rows; i++) {
            if (y[i] > 0) {
                return true;
            }
        }
    }
    return false;
}

// All branches have a row each second; the longest says where.
static void page_chart(const struct sim_fork *fork, bool harmed, FILE *file)
{
    double mark_x = fork->at_s;
    const char *mark_text = "fork";
    if (!is_any(fork, harmed)) {
        (void)fputs("<p>None in any of the branches, so there is no plot.</p>\n", file);
        return;
    }
    struct sim_chart chart = {
        .unit_y = "devices", .mark_x = &mark_x, .mark_text = &mark_text, .mark_count = 1};
    uint32_t shortest = UINT32_MAX;
    for (uint32_t b = 0; b < fork->count; b++) {
        const struct sim_branch *branch = &fork->branches[b];
        shortest = branch->rows < shortest ? branch->rows : shortest;
        chart.series[chart.series_count++] = (struct sim_series){
            .name = branch->name, .y = harmed ? branch->harmed : branch->running, .dashed = b == 0};
    }
    chart.x = fork->branches[0].seconds;
    chart.point_count = shortest;
    chart.x_to = fork->to_s;
    if (shortest > 0) {
        sim_chart_write(&chart, file);
    }
}

static enum base_status page_write(const struct sim_fork *fork, FILE *file)
{
    sim_chart_page_begin(file, "Fork of a run");
    (void)fprintf(file, "<h1>What if, from second %u on</h1>\n<p>", fork->at_s);
    base_html_text(file, fork->version);
    (void)fprintf(file,
                  ", to second %u of virtual time. The devices and all draws are the same in each "
                  "column, and so is everything before second %u, as the digests say: a difference "
                  "is of what was done. In brackets: against the run as it was.</p>\n",
                  fork->to_s, fork->at_s);
    page_table(fork, file);
    (void)fputs("<h2>Devices that run it</h2>\n", file);
    page_chart(fork, false, file);
    (void)fprintf(file, "<h2>Devices harmed</h2>\n<p class=note>%s</p>\n",
                  fork->called_bad ? "Those that ever ran a bad version."
                                   : "No version is called bad (--bad-version): those on which "
                                     "it failed.");
    page_chart(fork, true, file);
    (void)fputs("<p class=note>walle-fleet-sim " BASE_PRODUCT_VERSION ", ", file);
    base_html_text(file, fork->out);
    (void)fputs("</p>\n", file);
    return ferror(file) != 0 ? BASE_ERR_IO : BASE_OK;
}

// ----

typedef enum base_status (*write_fn)(const struct sim_fork *fork, FILE *file);

static enum base_status file_write(const struct sim_fork *fork, const char *path, write_fn write,
                                   struct base_error *error)
{
    struct base_output_file file;
    BASE_TRY(base_output_open(&file, path, error));
    return base_output_close(&file, write(fork, file.file), error);
}

enum base_status sim_fork_report(const struct sim_fork *fork, const char *folder, FILE *log,
                                 struct base_error *error)
{
    char path[BASE_OUTPUT_PATH_MAX];
    base_assert(fork->count > 1);
    table_write(fork, log);
    (void)snprintf(path, sizeof(path), "%.4000s/fork.json", folder);
    BASE_TRY(file_write(fork, path, json_write, error));
    if (fork->json != NULL) {
        BASE_TRY(file_write(fork, fork->json, json_write, error));
    }
    (void)snprintf(path, sizeof(path), "%.4000s/fork.html", folder);
    BASE_TRY(file_write(fork, path, page_write, error));
    (void)fprintf(log, "\n%s\n", path);
    return BASE_OK;
}
