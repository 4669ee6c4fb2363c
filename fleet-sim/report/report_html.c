// report.html: one self-contained page, readable in light and dark, without a script. What
// happened, coverage over time, who failed, how long things took, what the gateway had to do, and
// how to repeat the run.
#include "report/run_result.h"

#include "base/alloc.h"
#include "base/version.h"
#include "report/behaviour_report.h"
#include "report/report_svg.h"
#include "report/thresholds.h"

#include <stdlib.h>
#include <string.h>

static const char page_head[] =
    "<!doctype html>\n<html lang=en><head><meta charset=utf-8>\n"
    "<meta name=viewport content=\"width=device-width, initial-scale=1\">\n"
    "<title>Fleet run</title>\n<style>\n"
    ":root{color-scheme:light dark;--bg:#fff;--fg:#1c2430;--soft:#5b6675;--line:#d9dee6;"
    "--card:#f5f7fa;--good:#1a7f4b;--bad:#c0392b;--c0:#2f6fde;--c1:#e08a1e;--c2:#1f9d73;"
    "--c3:#8e5bd0;--c4:#d64a6b;--c5:#4aa3b8;--c6:#8a7a3d;--c7:#6b7280}\n"
    "@media(prefers-color-scheme:dark){:root{--bg:#14181f;--fg:#e4e8ee;--soft:#98a3b3;"
    "--line:#313946;--card:#1c222c;--good:#4cc38a;--bad:#ff7b6b;--c0:#6ea0ff;--c1:#f0ac54;"
    "--c2:#4cc9a0;--c3:#b692f0;--c4:#f27d98;--c5:#7ccbdc;--c6:#c7b56a;--c7:#9aa3af}}\n"
    "body{background:var(--bg);color:var(--fg);font:15px/1.5 system-ui,sans-serif;margin:0 auto;"
    "max-width:960px;padding:24px}\n"
    "h1{font-size:24px;margin:0 0 4px}h2{font-size:18px;margin:36px 0 8px}"
    ".note{color:var(--soft);margin:4px 0}\n"
    ".good{color:var(--good)}.bad{color:var(--bad)}\n"
    ".tiles{display:grid;grid-template-columns:repeat(auto-fill,minmax(150px,1fr));gap:10px;"
    "margin:18px 0}.tile{background:var(--card);border-radius:8px;padding:10px 14px}"
    ".tile b{display:block;font-size:21px;font-weight:600}.tile span{color:var(--soft);"
    "font-size:13px}\n"
    "table{border-collapse:collapse;width:100%;font-size:14px;margin-top:14px}th,td{text-align:"
    "left;padding:4px "
    "10px 4px 0;border-bottom:1px solid var(--line)}td.n,th.n{text-align:right}\n"
    "svg{width:100%;height:auto;display:block}.grid{stroke:var(--line)}.tick{fill:var(--soft);"
    "font-size:11px}.mark{stroke:var(--soft);stroke-dasharray:2 3}.marktext{fill:var(--soft);"
    "font-size:11px}.line{fill:none;stroke-width:2}.dashed{stroke-dasharray:5 4}\n"
    ".bar{fill:var(--c4)}.whisker{stroke:var(--fg);stroke-width:1.5}\n"
    ".legend{display:flex;flex-wrap:wrap;gap:14px;font-size:13px;color:var(--soft)}"
    ".key{display:inline-block;width:14px;height:4px;border-radius:2px;margin-right:6px;"
    "vertical-align:middle}\n"
    "code{background:var(--card);padding:2px 6px;border-radius:4px;overflow-wrap:anywhere}\n"
    ".slice{background:var(--card);border-left:4px solid var(--bad);padding:10px "
    "14px;border-radius:4px}\n";

static void css_series(FILE *file)
{
    for (uint32_t i = 0; i < SIM_SERIES_MAX; i++) {
        (void)fprintf(file, ".line.s%u{stroke:var(--c%u)}.key.s%u{background:var(--c%u)}\n", i, i,
                      i, i);
    }
    (void)fputs("</style></head><body>\n", file);
}

static void tile(FILE *file, const char *value, const char *label)
{
    (void)fputs("<div class=tile><b>", file);
    sim_html_text(file, value);
    (void)fputs("</b><span>", file);
    sim_html_text(file, label);
    (void)fputs("</span></div>\n", file);
}

// Thousands are set apart, so that large numbers can be read.
static void spaced_number(double value, char spaced[64])
{
    char text[48];
    (void)snprintf(text, sizeof(text), "%.0f", value);
    size_t digits = strlen(text);
    size_t at = 0;
    for (size_t i = 0; i < digits; i++) {
        if (i > 0 && (digits - i) % 3 == 0) {
            spaced[at++] = ' ';
        }
        spaced[at++] = text[i];
    }
    spaced[at] = 0;
}

static void tile_count(FILE *file, double value, const char *label)
{
    char spaced[64];
    spaced_number(value, spaced);
    tile(file, spaced, label);
}

static void tile_time(FILE *file, const struct base_hist *hist, const char *label)
{
    char text[48];
    double ms = (double)base_hist_quantile(hist, 0.99) / 1000;
    if (ms < 10000) {
        (void)snprintf(text, sizeof(text), "%.1f ms", ms);
    } else {
        (void)snprintf(text, sizeof(text), "%.1f s", ms / 1000);
    }
    tile(file, text, label);
}

static void about_row(const char *name, const char *value, FILE *file)
{
    if (value[0] != '\0') {
        (void)fprintf(file, "<tr><th>%s<td>", name);
        sim_html_text(file, value);
        (void)fputs("</tr>\n", file);
    }
}

// When, of what, where, by what.
static void about_section(const struct sim_run_result *result, FILE *file)
{
    const struct sim_about *about = &result->about;
    char where[SIM_GATEWAY_TEXT_MAX];
    char when[2 * SIM_ABOUT_DATE_MAX + 8];
    char release[WIRE_TASK_NAME_MAX + SIM_LABEL_MAX + 8];
    sim_gateway_text(result->options, where);
    (void)snprintf(when, sizeof(when), "%s to %s", about->began, about->ended);
    (void)snprintf(release, sizeof(release), "%s %s", about->task, about->version);
    (void)fputs("<table>\n", file);
    about_row("date", when, file);
    about_row("task", release[1] != '\0' ? release : "no device was offered a release", file);
    about_row("manifest", about->manifest, file);
    about_row("devices were", where, file);
    about_row("machine", about->machine, file);
    about_row("product", "walle-fleet-sim " BASE_PRODUCT_VERSION, file);
    (void)fputs("</table>\n", file);
}

// Every rollout of the task that the run saw, and its end.
static void rollouts_section(const struct sim_run_result *result, FILE *file)
{
    if (result->rollout_count == 0) {
        return;
    }
    (void)fputs("<h2>Rollouts</h2>\n<table><tr><th>rollout<th>version<th>its end</tr>\n", file);
    for (uint32_t i = 0; i < result->rollout_count; i++) {
        const struct sim_rollout_told *told = &result->rollouts[i];
        char text[SIM_ROLLOUT_TEXT_MAX];
        sim_rollout_text(told, text);
        (void)fprintf(file, "<tr><td>%016llx<td>", (unsigned long long)told->seen.id);
        sim_html_text(file, told->seen.task);
        (void)fputc(' ', file);
        sim_html_text(file, told->seen.version);
        (void)fprintf(file, "<td class=%s>", told->wrong ? "bad" : "good");
        sim_html_text(file, text);
        (void)fputs("</tr>\n", file);
    }
    (void)fputs("</table>\n", file);
    if (result->rollouts_left_out > 0) {
        (void)fprintf(file, "<p class=note>%u more are not listed.</p>\n",
                      result->rollouts_left_out);
    }
}

static void head_section(const struct sim_run_result *result, FILE *file)
{
    char text[64];
    spaced_number(result->options->devices, text);
    const char *word = result->outcome == SIM_OUTCOME_INTERRUPTED
                           ? "interrupted: neither passed nor failed"
                           : sim_outcome_name(result->outcome);
    (void)fprintf(file, "<h1>Fleet run: %s devices, <span class=%s>%s</span></h1>\n", text,
                  result->outcome == SIM_OUTCOME_PASSED ? "good" : "bad", word);
    (void)fputs("<p class=note>Ended: ", file);
    sim_html_text(file, result->ended);
    if (result->cause[0] != '\0') {
        (void)fputs(".</p>\n<p class=bad>Because: ", file);
        sim_html_text(file, result->cause);
    }
    (void)fputs(".</p>\n", file);
    about_section(result, file);
    (void)fputs("<div class=tiles>\n", file);
    tile_count(file, (double)result->counters.arrived,
               result->options->local || result->counters.checkins > 0
                   ? "devices came online"
                   : "devices came up, none online");
    if (result->options->local) {
        tile(file, "in process", "no gateway");
    } else {
        (void)snprintf(text, sizeof(text), "%u + %u", result->budget.carriers,
                       result->budget.dedicated);
        tile(file, text, "carriers + own connections");
    }
    (void)snprintf(text, sizeof(text), "%.1f s", result->duration_s);
    tile(file, text, "duration");
    tile_count(file, result->rate, "devices/s, offer to first run");
    tile_count(file, (double)result->counters.runs, "task runs in a VM");
    tile_count(file, (double)result->counters.wakes, "wakes, each a recovery");
    if (result->counters.marked > 0) {
        tile_count(file, (double)result->counters.marked, "placebos: ran again what they have");
    }
    if (result->options->local) {
        tile_count(file, (double)result->failed, "devices on which the version failed");
    }
    if (result->options->bad_version_count > 0) {
        tile_count(file, (double)result->verdict.exposed, "devices ran a version of --bad-version");
        tile_count(file, (double)result->verdict.still_bad, "of them still on it");
    }
    tile_time(file, &result->latencies.checkin_us, "check-in p99, from intended");
    tile_time(file, &result->latencies.lag_us, "generator lag p99");
    (void)snprintf(text, sizeof(text), "%.0f MiB", (double)result->peak_rss_bytes / 1048576);
    tile(file, text, "simulator memory, peak");
    (void)fputs("</div>\n", file);
}

static void trust_section(const struct sim_run_result *result, FILE *file)
{
    char text[SIM_TRUST_TEXT_MAX];
    sim_trust_text(&result->trust, &result->counters, text);
    if (text[0] != 0) {
        (void)fputs("<p class=note>Trust: ", file);
        sim_html_text(file, text);
        (void)fputs(".</p>\n", file);
    }
}

static void slice_section(const struct sim_run_result *result, FILE *file)
{
    char version[SIM_RELEASE_TEXT_MAX];
    char text[SIM_SLICE_TEXT_MAX];
    if (result->focus == SIM_VERSION_NONE || result->slice.failed_total == 0) {
        return;
    }
    sim_release_text(result, result->focus, version);
    (void)fputs("<h2>Where the failures are</h2>\n", file);
    if (result->slice.cond_count == 0) {
        (void)fputs("<p>", file);
        sim_html_text(file, version);
        (void)fprintf(file, " failed on %llu of %llu devices: %s.</p>\n",
                      (unsigned long long)result->slice.failed_total,
                      (unsigned long long)result->slice.devices_total,
                      sim_slice_none(&result->slice));
        return;
    }
    sim_slice_text(&result->slice, text);
    (void)fprintf(file, "<div class=slice>%.1f %% of the failures of ",
                  sim_slice_support(&result->slice) * 100);
    sim_html_text(file, version);
    (void)fputs(" are on devices with <code>", file);
    sim_html_text(file, text);
    (void)fprintf(
        file,
        "</code>, of which %.1f %% failed (%llu of %llu; %llu failures on %llu devices "
        "in all).</div>\n",
        sim_slice_precision(&result->slice) * 100, (unsigned long long)result->slice.failed,
        (unsigned long long)result->slice.devices, (unsigned long long)result->slice.failed_total,
        (unsigned long long)result->slice.devices_total);
}

// ---- Charts: columns of the timeline as arrays ----

struct columns {
    double *x;
    double *y[SIM_SERIES_MAX];
    double *memory;
    uint32_t count;
    double mark_x[SIM_MARKS_MAX];
    const char *mark_text[SIM_MARKS_MAX];
};

static bool columns_init(struct columns *columns, const struct sim_timeline *timeline)
{
    memset(columns, 0, sizeof(*columns));
    columns->count = timeline->count;
    size_t rows = timeline->count + 1;
    const struct base_alloc_port *alloc = base_alloc_heap();
    columns->memory = alloc->alloc(alloc->ctx, sizeof(double) * rows * (SIM_SERIES_MAX + 1));
    if (columns->memory == NULL) {
        return false;
    }
    columns->x = columns->memory;
    for (uint32_t i = 0; i < SIM_SERIES_MAX; i++) {
        columns->y[i] = columns->memory + rows * (i + 1);
    }
    for (uint32_t i = 0; i < timeline->count; i++) {
        columns->x[i] = timeline->rows[i].t_s;
    }
    for (uint32_t i = 0; i < timeline->mark_count; i++) {
        columns->mark_x[i] = timeline->marks[i].t_s;
        columns->mark_text[i] = timeline->marks[i].text;
    }
    return true;
}

static struct sim_chart chart_of(const struct columns *columns, const char *unit,
                                 uint32_t mark_count)
{
    return (struct sim_chart){
        .unit_y = unit,
        .x = columns->x,
        .point_count = columns->count,
        .mark_x = columns->mark_x,
        .mark_text = columns->mark_text,
        .mark_count = mark_count,
    };
}

static void add_series(struct sim_chart *chart, const char *name, const double *y, bool dashed)
{
    chart->series[chart->series_count++] = (struct sim_series){name, y, dashed};
}

static void coverage_charts(const struct sim_run_result *result, struct columns *columns,
                            FILE *file)
{
    const struct sim_timeline *timeline = result->timeline;
    for (uint8_t v = 1; v < result->version_count && v < SIM_ROW_VERSIONS; v++) {
        if (result->counters.version[v].offered == 0) {
            continue;
        }
        char version[SIM_RELEASE_TEXT_MAX];
        sim_release_text(result, v, version);
        for (uint32_t i = 0; i < timeline->count; i++) {
            const struct sim_version_counters *c = &timeline->rows[i].version[v];
            columns->y[0][i] = (double)c->offered;
            columns->y[1][i] = (double)c->downloaded;
            columns->y[2][i] = (double)c->activated;
            columns->y[3][i] = (double)c->ran;
            columns->y[4][i] = (double)c->failed;
            columns->y[5][i] = c->current > 0 ? (double)c->current : 0;
        }
        struct sim_chart chart = chart_of(columns, "devices", timeline->mark_count);
        add_series(&chart, "offered", columns->y[0], false);
        add_series(&chart, "downloaded", columns->y[1], true);
        add_series(&chart, "activated", columns->y[2], false);
        add_series(&chart, "ran without failure", columns->y[3], false);
        add_series(&chart, "failed", columns->y[4], false);
        add_series(&chart, "run it now", columns->y[5], true);
        (void)fputs("<h2>Coverage of ", file);
        sim_html_text(file, version);
        (void)fputs("</h2>\n", file);
        sim_chart_write(&chart, file);
    }
}

static double per_second(double now, double before, double span_s)
{
    return span_s > 0 && now >= before && before >= 0 ? (now - before) / span_s : 0;
}

static void rate_chart(const struct sim_run_result *result, struct columns *columns, FILE *file)
{
    const struct sim_timeline *timeline = result->timeline;
    for (uint32_t i = 0; i < timeline->count; i++) {
        const struct sim_row *row = &timeline->rows[i];
        const struct sim_row *last = i > 0 ? &timeline->rows[i - 1] : row;
        double span_s = row->t_s - last->t_s;
        columns->y[0][i] = per_second((double)row->requests, (double)last->requests, span_s);
        columns->y[1][i] = per_second((double)row->checkins, (double)last->checkins, span_s);
        columns->y[2][i] = per_second((double)row->runs, (double)last->runs, span_s);
        columns->y[3][i] =
            per_second((double)row->request_errors, (double)last->request_errors, span_s);
        columns->y[4][i] =
            row->gateway.requests_total < 0
                ? -1
                : per_second(row->gateway.requests_total, last->gateway.requests_total, span_s);
    }
    struct sim_chart chart = chart_of(columns, "per second", timeline->mark_count);
    add_series(&chart, "requests", columns->y[0], false);
    add_series(&chart, "check-ins", columns->y[1], false);
    add_series(&chart, "task runs", columns->y[2], false);
    add_series(&chart, "errors", columns->y[3], false);
    if (!result->options->local) {
        add_series(&chart, "requests by the gateway's count", columns->y[4], true);
    }
    (void)fputs("<h2>Load</h2>\n", file);
    sim_chart_write(&chart, file);
}

static void gateway_chart(const struct sim_run_result *result, struct columns *columns, FILE *file)
{
    const struct sim_timeline *timeline = result->timeline;
    bool known = false;
    for (uint32_t i = 0; i < timeline->count; i++) {
        const struct sim_gateway_load *load = &timeline->rows[i].gateway;
        known = known || load->connections >= 0;
        columns->y[0][i] = load->connections;
        columns->y[1][i] = load->streams;
    }
    if (!known) {
        return;
    }
    struct sim_chart chart = chart_of(columns, "open", timeline->mark_count);
    add_series(&chart, "connections", columns->y[0], false);
    add_series(&chart, "streams (requests under way and hint streams)", columns->y[1], false);
    (void)fputs("<h2>Gateway, by its own count</h2>\n", file);
    sim_chart_write(&chart, file);
}

static void latency_section(const struct sim_run_result *result, struct columns *columns,
                            FILE *file)
{
    const struct sim_timeline *timeline = result->timeline;
    for (uint32_t i = 0; i < timeline->count; i++) {
        columns->y[0][i] = (double)timeline->rows[i].checkin_p50_us / 1000;
        columns->y[1][i] = (double)timeline->rows[i].checkin_p99_us / 1000;
        columns->y[2][i] = (double)timeline->rows[i].lag_p99_us / 1000;
    }
    struct sim_chart chart = chart_of(columns, "milliseconds", 0);
    add_series(&chart, "check-in p50", columns->y[0], false);
    add_series(&chart, "check-in p99", columns->y[1], false);
    add_series(&chart, "generator lag p99", columns->y[2], true);
    (void)fputs("<h2>Latency</h2>\n<p class=note>Check-ins are timed from the moment the device "
                "meant to wake, so a slow generator or gateway cannot hide; the chart times those "
                "of a device that was awake already (--hints) from their request. Lag is how much "
                "later than meant the simulator woke it.</p>\n",
                file);
    sim_chart_write(&chart, file);
    const struct {
        const char *name;
        const struct base_hist *hist;
    } rows[] = {
        {"generator lag", &result->latencies.lag_us},
        {"check-in, from intended wake", &result->latencies.checkin_us},
        {"check-in, from request", &result->latencies.request_us[SIM_EXCHANGE_CHECKIN]},
        {"file", &result->latencies.request_us[SIM_EXCHANGE_BLOB]},
        {"report (durable)", &result->latencies.request_us[SIM_EXCHANGE_REPORT]},
        {"first offer to first run", &result->offer_to_run_us},
    };
    (void)fputs("<table><tr><th>milliseconds<th class=n>count<th class=n>p50<th class=n>p90"
                "<th class=n>p99<th class=n>p99.9<th class=n>max</tr>\n",
                file);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct base_hist *hist = rows[i].hist;
        (void)fprintf(file, "<tr><td>%s<td class=n>%llu", rows[i].name,
                      (unsigned long long)hist->count);
        const double quantiles[] = {0.5, 0.9, 0.99, 0.999};
        for (size_t q = 0; q < sizeof(quantiles) / sizeof(quantiles[0]); q++) {
            (void)fprintf(file, "<td class=n>%.2f",
                          (double)base_hist_quantile(hist, quantiles[q]) / 1000);
        }
        (void)fprintf(file, "<td class=n>%.2f</tr>\n",
                      hist->count > 0 ? (double)hist->max / 1000 : 0.0);
    }
    (void)fputs("</table>\n", file);
}

// ---- Words ----

// What states and cohorts of a rollout mean, for a run against a gateway: the lines drawn in the
// charts are named so.
static void words_section(const struct sim_run_result *result, FILE *file)
{
    if (result->options->local) {
        return;
    }
    (void)fputs(
        "<h2>Words</h2>\n<p class=note><b>Under way</b>: offered the version, not yet answered, "
        "and "
        "still in time: neither good nor bad. The rule <b>threshold</b> stops a version when more "
        "than its share of those that answered failed, and those under way could not bring it back "
        "below; it passes one when enough answered. The rule <b>logrank</b> compares with devices "
        "that are offered the version they have, once more (<b>placebo</b>), each by what is heard "
        "of it in a window of its own. <b>Guarding</b>: the last stage has passed, everybody is "
        "let "
        "in, and who fails late still takes the version back.</p>\n",
        file);
}

// ---- Cohorts ----

static void cohort_row(const struct sim_cohort *cohort, double scale, const char *name, FILE *file)
{
    double low, high;
    sim_wilson(cohort->failed, cohort->devices, &low, &high);
    double rate = cohort->devices > 0 ? (double)cohort->failed / (double)cohort->devices : 0;
    (void)fprintf(file, "<tr><td>%s<td class=n>%llu<td class=n>%llu<td class=n>%.2f %%", name,
                  (unsigned long long)cohort->devices, (unsigned long long)cohort->failed,
                  rate * 100);
    (void)fprintf(file,
                  "<td><svg viewBox=\"0 0 300 14\" style=\"width:300px\"><rect class=bar x=0 y=3 "
                  "width=%.1f height=8 /><line class=whisker x1=%.1f x2=%.1f y1=7 y2=7 "
                  "/></svg></tr>\n",
                  rate / scale * 300, low / scale * 300, high / scale * 300);
}

static void cohort_section(const struct sim_run_result *result, FILE *file)
{
    if (result->mining == NULL) {
        return;
    }
    char version[SIM_RELEASE_TEXT_MAX];
    sim_release_text(result, result->focus, version);
    (void)fputs("<h2>Failure rate per cohort, ", file);
    sim_html_text(file, version);
    if (result->slice.failed_total == 0) {
        double low, high;
        sim_wilson(0, result->slice.devices_total, &low, &high);
        (void)fprintf(file,
                      "</h2>\n<p>No run failed on any of the %llu devices that ran it (95 %% "
                      "interval of the failure rate: 0 to %.4f %%).</p>\n",
                      (unsigned long long)result->slice.devices_total, high * 100);
        return;
    }
    (void)fputs("</h2>\n<p class=note>Devices that ran it, and those on which a run failed; the "
                "whisker is the 95 % interval (Wilson).</p>\n<table><tr><th>cohort<th "
                "class=n>devices<th class=n>failed<th class=n>rate<th></tr>\n",
                file);
    double scale = 0.01;
    for (uint32_t t = 0; t < SIM_TRAIT_COUNT; t++) {
        for (uint32_t v = 0; v < sim_trait_value_count((enum sim_trait)t); v++) {
            double low, high;
            const struct sim_cohort *c = sim_mining_cohort(result->mining, (enum sim_trait)t, v);
            sim_wilson(c->failed, c->devices, &low, &high);
            scale = c->devices > 0 && high > scale ? high : scale;
        }
    }
    for (uint32_t t = 0; t < SIM_TRAIT_COUNT; t++) {
        for (uint32_t v = 0; v < sim_trait_value_count((enum sim_trait)t); v++) {
            const struct sim_cohort *c = sim_mining_cohort(result->mining, (enum sim_trait)t, v);
            if (c->devices > 0) {
                char name[80];
                (void)snprintf(name, sizeof(name), "%s = %s", sim_trait_name((enum sim_trait)t),
                               sim_trait_text((enum sim_trait)t, v));
                cohort_row(c, scale, name, file);
            }
        }
    }
    (void)fputs("</table>\n", file);
}

static void oracle_section(const struct sim_run_result *result, FILE *file)
{
    (void)fputs("<h2>What had to hold</h2>\n<p class=note>Computed from what the simulator saw on "
                "every device, not from what devices reported.</p>\n<table>\n",
                file);
    for (uint32_t i = 0; i < SIM_ORACLE_COUNT; i++) {
        const struct sim_oracle_result *oracle = &result->verdict.oracle[i];
        const char *nothing = sim_oracle_nothing((enum sim_oracle)i, oracle);
        if (nothing != NULL && oracle->violations == 0) {
            (void)fputs("<tr><td class=note>compared nothing<td>", file);
            sim_html_text(file, sim_oracle_text((enum sim_oracle)i));
            (void)fputs("<td class=\"n note\">", file);
            sim_html_text(file, nothing);
            (void)fputs("</tr>\n", file);
            continue;
        }
        (void)fprintf(file, "<tr><td class=%s>%s<td>%s<td class=n>%llu of %llu</tr>\n",
                      oracle->holds ? "good" : "bad", oracle->holds ? "holds" : "broken",
                      sim_oracle_text((enum sim_oracle)i), (unsigned long long)oracle->violations,
                      (unsigned long long)oracle->population);
    }
    (void)fputs("</table>\n", file);
}

static void threshold_section(const struct sim_run_result *result, FILE *file)
{
    if (result->options->threshold_count == 0) {
        return;
    }
    (void)fputs("<h2>Thresholds</h2>\n<p class=note>What was asked of the measures of this run. "
                "A quantile is at most 3.2 % above what was measured, never below.</p>\n<table>\n",
                file);
    for (uint32_t i = 0; i < result->options->threshold_count; i++) {
        char said[SIM_THRESHOLD_SAID_MAX];
        bool holds = result->thresholds[i].holds;
        sim_threshold_said(result, i, said);
        (void)fprintf(file, "<tr><td class=%s>%s<td>", holds ? "good" : "bad",
                      holds ? "holds" : "missed");
        sim_html_text(file, said);
        (void)fputs("</tr>\n", file);
    }
    (void)fputs("</table>\n", file);
}

static void repeat_section(const struct sim_run_result *result, FILE *file)
{
    (void)fputs("<h2>To repeat it</h2>\n<p><code>", file);
    sim_html_text(file, result->options->command);
    (void)fprintf(file,
                  "</code></p>\n<p class=note>Seed %llu. Devices share %u carrier connections as "
                  "HTTP/2 streams, %u have a connection of their own: shared connections hide "
                  "handshakes and add head-of-line blocking. ",
                  (unsigned long long)result->options->seed, result->budget.carriers,
                  result->budget.dedicated);
    char real[SIM_FOR_REAL_TEXT_MAX];
    sim_for_real_text(result, real);
    (void)fprintf(file, "Work on immutable content is shared; %s.</p>\n</body></html>\n", real);
}

enum base_status sim_report_html_write(const struct sim_run_result *result, FILE *file)
{
    struct columns columns;
    if (!columns_init(&columns, result->timeline)) {
        return BASE_ERR_NOMEM;
    }
    (void)fputs(page_head, file);
    css_series(file);
    head_section(result, file);
    rollouts_section(result, file);
    trust_section(result, file);
    slice_section(result, file);
    coverage_charts(result, &columns, file);
    sim_behaviour_section(result, file);
    cohort_section(result, file);
    latency_section(result, &columns, file);
    rate_chart(result, &columns, file);
    gateway_chart(result, &columns, file);
    words_section(result, file);
    threshold_section(result, file);
    oracle_section(result, file);
    repeat_section(result, file);
    const struct base_alloc_port *alloc = base_alloc_heap();
    alloc->release(alloc->ctx, columns.memory);
    return ferror(file) != 0 ? BASE_ERR_IO : BASE_OK;
}
