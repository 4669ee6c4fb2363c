// A certificate for people and programs: a table on the terminal, certificate.json, and one page
// with a plot of how many devices each bad release harmed. certify_main.c calls it once, after the
// last run. Every figure is of the runs that were played, and says of how many.
#include "certify/certify.h"

#include "base/check.h"
#include "base/os/output_file.h"
#include "base/version.h"
#include "base/text/html_text.h"
#include "report/report_svg.h"

#include <stdlib.h>
#include <string.h>

#define BAD_RUNS_TOLD 8

// One case, over its seeds.
struct sums {
    const struct sim_certify_case *of;
    uint32_t runs;
    uint32_t good;
    uint32_t stopped;
    uint32_t through; // runs in which the gate let the release come to everybody
    uint64_t harmed_most;
    uint64_t harmed_middle;
    double stopped_middle_s; // of the runs that were stopped
    double stopped_most_s;
    double harmed[SIM_CERTIFY_SEEDS_MAX]; // ascending
};

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void sums_fill(const struct sim_certify_result *result, uint32_t at, struct sums *out)
{
    static double times[SIM_CERTIFY_SEEDS_MAX];
    uint32_t seeds = result->options->seeds;
    memset(out, 0, sizeof(*out));
    out->of = &result->pack->cases[at];
    out->runs = seeds;
    for (uint32_t i = 0; i < seeds; i++) {
        const struct sim_certify_run *run = &result->runs[(size_t)at * seeds + i];
        out->good += run->good ? 1 : 0;
        out->through += run->good && run->completed ? 1 : 0;
        out->harmed[i] = (double)run->harmed;
        if (run->stopped) {
            times[out->stopped++] = run->stopped_s;
        }
    }
    qsort(out->harmed, seeds, sizeof(out->harmed[0]), compare_doubles);
    qsort(times, out->stopped, sizeof(times[0]), compare_doubles);
    out->harmed_most = (uint64_t)out->harmed[seeds - 1];
    out->harmed_middle = (uint64_t)out->harmed[seeds / 2];
    if (out->stopped > 0) {
        out->stopped_middle_s = times[out->stopped / 2];
        out->stopped_most_s = times[out->stopped - 1];
    }
}

// What a certificate states with one confidence: a bound for each bad release, and the rate of
// healthy ones that were stopped.
static uint32_t statements(const struct sim_certify_result *result)
{
    return result->pack->count;
}

static uint32_t runs_bad(const struct sim_certify_result *result, const struct sums *sums)
{
    uint32_t bad = 0;
    for (uint32_t i = 0; i < result->pack->count; i++) {
        bad += sums[i].runs - sums[i].good;
    }
    return bad;
}

static void table_write(const struct sim_certify_result *result, const struct sums *sums, FILE *log)
{
    uint32_t seeds = result->options->seeds;
    const struct sums *healthy = &sums[0];
    (void)fprintf(log, "%-20s %8s %10s %12s %12s %12s\n", "release", "stopped", "harmed p50",
                  "harmed most", "stopped p50", "stopped most");
    for (uint32_t i = 1; i < result->pack->count; i++) {
        (void)fprintf(log, "%-20.20s %4u/%-3u %10llu %12llu %10.0f s %10.0f s\n", sums[i].of->name,
                      sums[i].stopped, seeds, (unsigned long long)sums[i].harmed_middle,
                      (unsigned long long)sums[i].harmed_most, sums[i].stopped_middle_s,
                      sums[i].stopped_most_s);
    }
    for (uint32_t i = 1; i < result->pack->count; i++) {
        if (sums[i].through > 0) {
            (void)fprintf(log, "%s: not stopped in %u of %u: the gate let it through\n",
                          sums[i].of->name, sums[i].through, seeds);
        }
    }
    (void)fprintf(
        log,
        "of %u devices; harmed is who ran it. At least %.1f %% of such runs harm no more than the "
        "most of their row, with 95 %% confidence for all rows together (%.1f %% for one row by "
        "itself): a sample of seeds, not of releases\n",
        result->options->devices, sim_certify_share(seeds, statements(result)) * 100,
        sim_certify_share(seeds, 1) * 100);
    (void)fprintf(log,
                  "healthy releases stopped: %u of %u (at most %.1f %%, together with the rows; "
                  "%.1f %% by itself)\n",
                  healthy->stopped, seeds,
                  sim_certify_rate_bound(healthy->stopped, seeds, statements(result)) * 100,
                  sim_certify_rate_bound(healthy->stopped, seeds, 1) * 100);
    (void)fprintf(log, "it took %.0f s\n", result->took_s);
}

static json_t *case_json(const struct sums *sums)
{
    return json_pack("{s:s, s:s, s:i, s:i, s:i, s:i, s:I, s:I, s:f, s:f}", "name", sums->of->name,
                     "rule", sums->of->rule, "runs", (int)sums->runs, "good", (int)sums->good,
                     "stopped", (int)sums->stopped, "not_stopped", (int)sums->through, "harmed_p50",
                     (json_int_t)sums->harmed_middle, "harmed_max", (json_int_t)sums->harmed_most,
                     "stopped_s_p50", sums->stopped_middle_s, "stopped_s_max",
                     sums->stopped_most_s);
}

static json_t *about_json(const struct sim_certify_result *result)
{
    const struct sim_certify_options *options = result->options;
    const struct sim_about *run = &result->about.run;
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "rollout", options->rollout,
                     "task", run->task, "version", options->version, "manifest", run->manifest,
                     "stages", result->about.stages, "gateway", options->virtual_dir, "began",
                     run->began, "machine", run->machine);
}

// checkin_interval_s: 0, as the gateway says.
static json_t *limits_json(const struct sim_certify_options *options)
{
    return json_pack("{s:i, s:i, s:i, s:f, s:i, s:s}", "devices", (int)options->devices, "seeds",
                     (int)options->seeds, "duration_s", (int)options->horizon_s, "arrival_rate",
                     options->arrival_rate, "checkin_interval_s", (int)options->checkin_interval_s,
                     "pack", options->pack);
}

// The first two are of all statements together, the others of each by itself.
static json_t *bounds_json(const struct sim_certify_result *result, const struct sums *sums)
{
    uint32_t seeds = result->options->seeds;
    uint32_t all = statements(result);
    return json_pack("{s:f, s:i, s:f, s:f, s:f, s:f}", "confidence", 0.95, "statements", (int)all,
                     "share", sim_certify_share(seeds, all), "false_stop",
                     sim_certify_rate_bound(sums[0].stopped, seeds, all), "share_alone",
                     sim_certify_share(seeds, 1), "false_stop_alone",
                     sim_certify_rate_bound(sums[0].stopped, seeds, 1));
}

static enum base_status json_write(const struct sim_certify_result *result, const struct sums *sums,
                                   FILE *file)
{
    const struct sim_certify_options *options = result->options;
    json_t *cases = json_array();
    for (uint32_t i = 0; i < result->pack->count; i++) {
        (void)json_array_append_new(cases, case_json(&sums[i]));
    }
    json_t *root = json_pack("{s:s, s:f, s:o, s:o, s:o, s:o}", "product",
                             "walle-fleet-sim " BASE_PRODUCT_VERSION, "took_s", result->took_s,
                             "about", about_json(result), "limits", limits_json(options), "bounds",
                             bounds_json(result, sums), "cases", cases);
    bool good = root != NULL && json_dumpf(root, file, JSON_INDENT(1)) == 0;
    json_decref(root);
    return good ? BASE_OK : BASE_ERR_IO;
}

static void chart_write(const struct sim_certify_result *result, const struct sums *sums,
                        FILE *file)
{
    static double x[SIM_CERTIFY_SEEDS_MAX];
    struct sim_chart chart = {.unit_y = "devices harmed",
                              .unit_x = "run, from the one that harmed fewest",
                              .x = x,
                              .x_from = 1,
                              .point_count = result->options->seeds};
    for (uint32_t i = 0; i < chart.point_count; i++) {
        x[i] = i + 1;
    }
    for (uint32_t i = 1; i < result->pack->count && chart.series_count < SIM_SERIES_MAX; i++) {
        chart.series[chart.series_count++] =
            (struct sim_series){.name = sums[i].of->name, .y = sums[i].harmed};
    }
    sim_chart_write(&chart, file);
    if (result->pack->count - 1 > SIM_SERIES_MAX) {
        (void)fprintf(file, "<p class=note>The first %d releases; the table has all.</p>\n",
                      SIM_SERIES_MAX);
    }
}

static void about_row(const char *name, const char *value, FILE *file)
{
    (void)fprintf(file, "<tr><th>%s<td>", name);
    base_html_text(file, value[0] != '\0' ? value : "not known");
    (void)fputs("</tr>\n", file);
}

// Of what, on what gate, within which limits, when and where.
static void about_write(const struct sim_certify_result *result, FILE *file)
{
    const struct sim_certify_options *options = result->options;
    const struct sim_about *run = &result->about.run;
    char text[SIM_TEXT_MAX + 160];
    (void)fputs("<table class=about>\n", file);
    (void)snprintf(text, sizeof(text), "%s %s", run->task, options->version);
    about_row("task", run->task[0] != '\0' ? text : options->version, file);
    about_row("manifest", run->manifest, file);
    about_row("rollout", options->rollout, file);
    about_row("stages", result->about.stages, file);
    (void)snprintf(text, sizeof(text), "the gateway's core in virtual time, from %s",
                   options->virtual_dir);
    about_row("where", text, file);
    (void)snprintf(
        text, sizeof(text),
        "%u devices a run, %.6g a second come online; %u seeds; a run ends after %u s of "
        "virtual time",
        options->devices, options->arrival_rate, options->seeds, options->horizon_s);
    about_row("limits", text, file);
    if (options->checkin_interval_s > 0) {
        (void)snprintf(text, sizeof(text), "every %u s", options->checkin_interval_s);
    }
    about_row("check-ins", options->checkin_interval_s > 0 ? text : "as the gateway says", file);
    about_row("releases", options->pack[0] != '\0' ? options->pack : "the pack of the product",
              file);
    (void)snprintf(text, sizeof(text), "began %s, took %.0f s", run->began, result->took_s);
    about_row("date", text, file);
    about_row("machine", run->machine, file);
    about_row("product", "walle-fleet-sim " BASE_PRODUCT_VERSION, file);
    (void)fputs("</table>\n", file);
}

static void row_write(const struct sums *sums, FILE *file)
{
    (void)fputs("<tr><td>", file);
    base_html_text(file, sums->of->name);
    (void)fputs("<td><code>", file);
    base_html_text(file, sums->of->rule);
    (void)fprintf(file, "</code><td class=n>%u of %u", sums->stopped, sums->runs);
    if (sums->through > 0) {
        (void)fprintf(file, ", not stopped in %u of %u", sums->through, sums->runs);
    }
    (void)fprintf(file,
                  "<td class=n>%llu<td class=n>%llu<td class=n>%.0f s<td class=n>%.0f s</tr>\n",
                  (unsigned long long)sums->harmed_middle, (unsigned long long)sums->harmed_most,
                  sums->stopped_middle_s, sums->stopped_most_s);
}

// How far the figures reach, and what they are no sample of.
static void bounds_write(const struct sim_certify_result *result, const struct sums *sums,
                         FILE *file)
{
    uint32_t seeds = result->options->seeds;
    uint32_t all = statements(result);
    (void)fprintf(
        file,
        "<p>At least %.1f&nbsp;%% of such runs harm no more devices than the most of their row, "
        "and of healthy releases the gate stops at most %.1f&nbsp;%% (it stopped %u of %u): all "
        "%u statements hold together with 95&nbsp;%% confidence. Each by itself would reach "
        "%.1f&nbsp;%% and %.1f&nbsp;%%. The runs are a sample of seeds: of the devices, their "
        "times and draws. The releases are no sample but those of the pack: of one that goes wrong "
        "in another way nothing is said.</p>\n",
        sim_certify_share(seeds, all) * 100,
        sim_certify_rate_bound(sums[0].stopped, seeds, all) * 100, sums[0].stopped, seeds, all,
        sim_certify_share(seeds, 1) * 100, sim_certify_rate_bound(sums[0].stopped, seeds, 1) * 100);
}

static enum base_status page_write(const struct sim_certify_result *result, const struct sums *sums,
                                   FILE *file)
{
    uint32_t seeds = result->options->seeds;
    sim_chart_page_begin(file, "Blast radius");
    (void)fputs("<h1>How far a bad release gets</h1>\n", file);
    about_write(result, file);
    (void)fprintf(
        file,
        "<p>The rollout was played %u times in virtual time for each release below, on the "
        "gateway's own gate, every time with another %u devices. Harmed is a device that ran the "
        "version.</p>\n",
        seeds, result->options->devices);
    bounds_write(result, sums, file);
    (void)fputs("<div class=wide><table><tr><th>release<th>what goes wrong<th class=n>stopped<th "
                "class=n>harmed, middle<th class=n>harmed, most<th class=n>stopped after, "
                "middle<th class=n>stopped after, most</tr>\n",
                file);
    for (uint32_t i = 1; i < result->pack->count; i++) {
        row_write(&sums[i], file);
    }
    (void)fprintf(
        file,
        "</table></div>\n<p>Runs that did not end by themselves, or broke an invariant: %u of "
        "%u. Their devices count as far as they got.</p>",
        runs_bad(result, sums), result->pack->count * seeds);
    (void)fputs("\n<h2>Devices harmed, run by run</h2>\n<p class=note>The runs of a release "
                "in the order of what they came to.</p>\n",
                file);
    chart_write(result, sums, file);
    (void)fputs("</body></html>\n", file);
    return ferror(file) != 0 ? BASE_ERR_IO : BASE_OK;
}

typedef enum base_status (*write_fn)(const struct sim_certify_result *result,
                                     const struct sums *sums, FILE *file);

static enum base_status file_write(const struct sim_certify_result *result, const struct sums *sums,
                                   const char *name, write_fn write, struct base_error *error)
{
    char path[SIM_TEXT_MAX + 32];
    struct base_output_file file;
    (void)snprintf(path, sizeof(path), "%s/%s", result->options->out, name);
    BASE_TRY(base_output_open(&file, path, error));
    return base_output_close(&file, write(result, sums, file.file), error);
}

// In which states the rollout stood at the end of a case's runs, none of which is good: "running
// (3)". What came to an end of its own broke an invariant.
static void states_tell(const struct sim_certify_result *result, uint32_t at, char *out,
                        size_t size)
{
    const uint32_t seeds = result->options->seeds;
    const struct sim_certify_run *runs = &result->runs[(size_t)at * seeds];
    size_t used = 0;
    base_assert(size > 0);
    out[0] = '\0';
    for (uint32_t i = 0; i < seeds; i++) {
        uint32_t like = 0;
        uint32_t before = 0;
        for (uint32_t j = 0; j < seeds; j++) {
            bool same = strcmp(runs[j].state, runs[i].state) == 0;
            like += same;
            before += same && j < i;
        }
        if (before == 0 && used < size) {
            used += (size_t)snprintf(out + used, size - used, "%s%s (%u)", used > 0 ? ", " : "",
                                     runs[i].state, like);
        }
    }
}

// What the runs that certify nothing came to, the first few of them.
static void bad_write(const struct sim_certify_result *result, FILE *log)
{
    const uint32_t seeds = result->options->seeds;
    uint32_t told = 0;
    for (uint32_t i = 0; i < result->pack->count * seeds && told < BAD_RUNS_TOLD; i++) {
        const struct sim_certify_run *run = &result->runs[i];
        if (run->good) {
            continue;
        }
        told++;
        (void)fprintf(log, "run-%u, %s: %s%s its rollout was %s after %.0f s\n", i,
                      result->pack->cases[i / seeds].name, run->broken,
                      run->broken[0] != '\0' ? " broke;" : "no invariant broke;", run->state,
                      run->ended_s);
    }
}

static enum base_status nothing_certified(const struct sim_certify_result *result, uint32_t at,
                                          struct base_error *error)
{
    char states[48];
    states_tell(result, at, states, sizeof(states));
    return base_error_set(error, BASE_ERR_CONFLICT,
                          "nothing is certified: no run of '%.20s' ended well (--duration %u); "
                          "its rollouts: %s; see %.60s",
                          result->pack->cases[at].name, result->options->horizon_s, states,
                          result->options->out);
}

enum base_status sim_certify_report(const struct sim_certify_result *result, FILE *log,
                                    struct base_error *error)
{
    static struct sums sums[1 + SIM_CERTIFY_RULES_MAX];
    for (uint32_t i = 0; i < result->pack->count; i++) {
        sums_fill(result, i, &sums[i]);
    }
    const uint32_t bad = runs_bad(result, sums);
    table_write(result, sums, log);
    bad_write(result, log);
    for (uint32_t i = 0; i < result->pack->count; i++) {
        if (sums[i].good == 0) {
            return nothing_certified(result, i, error);
        }
    }
    BASE_TRY(file_write(result, sums, "certificate.json", json_write, error));
    BASE_TRY(file_write(result, sums, "certificate.html", page_write, error));
    (void)fprintf(log, "%s/certificate.html\n", result->options->out);
    return bad == 0
               ? BASE_OK
               : base_error_set(error, BASE_ERR_CONFLICT,
                                "%u runs did not end by themselves, or broke an invariant: they "
                                "stay in %s",
                                bad, result->options->out);
}
