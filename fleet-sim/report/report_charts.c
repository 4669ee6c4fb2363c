// The charts of report.html over time, and the table of latencies. report_html.c calls them one by
// one on the coordinator's thread. The columns are memory that each chart fills anew. Of a version
// the axis is its own: from its first offer until nothing of it changes any more. All charts of
// latency and load share the axis of the whole run.
#include "report/report_parts.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/text/html_text.h"
#include "report/latency_text.h"
#include "report/report_svg.h"

#include <string.h>

#define AXIS_MARGIN 0.05 // of the length of what changes, before and behind it
#define AXIS_LEAST  10.0 // seconds that an axis has

struct sim_columns {
    double *x;
    double *y[SIM_SERIES_MAX];
    double *memory;
    uint32_t count;
    double mark_x[SIM_MARKS_MAX];
    const char *mark_text[SIM_MARKS_MAX];
    uint32_t mark_count;
};

enum base_status sim_columns_new(const struct sim_timeline *timeline,
                                 struct sim_columns **out_columns)
{
    const struct base_alloc_port *alloc = base_alloc_heap();
    size_t rows = timeline->count + 1;
    struct sim_columns *columns = alloc->alloc(alloc->ctx, sizeof(*columns));
    if (columns == NULL) {
        return BASE_ERR_NOMEM;
    }
    memset(columns, 0, sizeof(*columns));
    columns->memory = alloc->alloc(alloc->ctx, sizeof(double) * rows * (SIM_SERIES_MAX + 1));
    if (columns->memory == NULL) {
        alloc->release(alloc->ctx, columns);
        return BASE_ERR_NOMEM;
    }
    columns->x = columns->memory;
    for (uint32_t i = 0; i < SIM_SERIES_MAX; i++) {
        columns->y[i] = columns->memory + rows * (i + 1);
    }
    for (uint32_t i = 0; i < timeline->count; i++) {
        columns->x[i] = timeline->rows[i].t_s;
    }
    columns->count = timeline->count;
    *out_columns = columns;
    return BASE_OK;
}

void sim_columns_free(struct sim_columns *columns)
{
    const struct base_alloc_port *alloc = base_alloc_heap();
    if (columns != NULL) {
        alloc->release(alloc->ctx, columns->memory);
        alloc->release(alloc->ctx, columns);
    }
}

// Marks of this version alone, without its name; `label` NULL: all of them, as they are.
static void take_marks(struct sim_columns *columns, const struct sim_timeline *timeline,
                       const char *label)
{
    size_t size = label != NULL ? strlen(label) : 0;
    columns->mark_count = 0;
    for (uint32_t i = 0; i < timeline->mark_count; i++) {
        const char *text = timeline->marks[i].text;
        if (label != NULL && (strncmp(text, label, size) != 0 || text[size] != ' ')) {
            continue;
        }
        columns->mark_x[columns->mark_count] = timeline->marks[i].t_s;
        columns->mark_text[columns->mark_count++] = text + (label != NULL ? size + 1 : 0);
    }
    base_assert(columns->mark_count <= SIM_MARKS_MAX);
}

static struct sim_chart chart_of(const struct sim_columns *columns, const char *unit)
{
    return (struct sim_chart){
        .unit_y = unit,
        .x = columns->x,
        .point_count = columns->count,
        .mark_x = columns->mark_x,
        .mark_text = columns->mark_text,
        .mark_count = columns->mark_count,
    };
}

static void add_series(struct sim_chart *chart, const char *name, const double *y, bool dashed)
{
    base_assert(chart->series_count < SIM_SERIES_MAX);
    chart->series[chart->series_count++] = (struct sim_series){name, y, dashed};
}

// ---- Coverage

static bool same_counts(const struct sim_version_counters *a, const struct sim_version_counters *b)
{
    return a->offered == b->offered && a->downloaded == b->downloaded &&
           a->activated == b->activated && a->ran == b->ran && a->failed == b->failed &&
           a->rolled_back == b->rolled_back && a->current == b->current;
}

// The seconds in which something of the version changed, with a margin.
static void version_axis(const struct sim_timeline *timeline, uint8_t version,
                         struct sim_chart *chart)
{
    const struct sim_version_counters none = {0};
    uint32_t first = timeline->count;
    uint32_t last = 0;
    base_assert(version < SIM_ROW_VERSIONS);
    for (uint32_t i = 0; i < timeline->count; i++) {
        const struct sim_version_counters *now = &timeline->rows[i].version[version];
        const struct sim_version_counters *before =
            i > 0 ? &timeline->rows[i - 1].version[version] : &none;
        if (!same_counts(now, before)) {
            first = first < timeline->count ? first : i;
            last = i;
        }
    }
    if (first == timeline->count) {
        return;
    }
    double end_s = timeline->rows[timeline->count - 1].t_s;
    double from_s = first > 0 ? timeline->rows[first - 1].t_s : 0;
    double to_s = timeline->rows[last].t_s;
    double margin = (to_s - from_s) * AXIS_MARGIN;
    to_s = to_s + margin > from_s + AXIS_LEAST ? to_s + margin : from_s + AXIS_LEAST;
    chart->x_from = from_s > margin ? from_s - margin : 0;
    chart->x_to = to_s < end_s ? to_s : end_s;
}

static void coverage_chart(const struct sim_run_result *result, struct sim_columns *columns,
                           uint8_t version, FILE *file)
{
    const struct sim_timeline *timeline = result->timeline;
    char label[SIM_LABEL_MAX];
    bool said = false;
    for (uint32_t i = 0; i < timeline->count; i++) {
        const struct sim_version_counters *c = &timeline->rows[i].version[version];
        columns->y[0][i] = (double)c->offered;
        columns->y[1][i] = (double)c->downloaded;
        columns->y[2][i] = (double)c->activated;
        columns->y[3][i] = (double)c->ran;
        columns->y[4][i] = (double)c->failed;
        columns->y[5][i] = c->current > 0 ? (double)c->current : 0;
        bool of_it = timeline->rows[i].said_of == version;
        columns->y[6][i] = of_it ? (double)timeline->rows[i].said_ran : -1;
        columns->y[7][i] = of_it ? (double)timeline->rows[i].said_failed : -1;
        said = said || of_it;
    }
    sim_version_text(result, version, label);
    take_marks(columns, timeline, label);
    struct sim_chart chart = chart_of(columns, "devices");
    add_series(&chart, "offered", columns->y[0], false);
    add_series(&chart, "downloaded", columns->y[1], true);
    add_series(&chart, "activated", columns->y[2], false);
    add_series(&chart, "ran without failure", columns->y[3], false);
    add_series(&chart, "failed", columns->y[4], false);
    add_series(&chart, "run it now", columns->y[5], true);
    if (said) {
        add_series(&chart, "ran, by the gateway's count", columns->y[6], true);
        add_series(&chart, "failed, by the gateway's count", columns->y[7], true);
    }
    version_axis(timeline, version, &chart);
    sim_chart_write(&chart, file);
}

void sim_page_coverage(const struct sim_run_result *result, struct sim_columns *columns, FILE *file)
{
    for (uint8_t v = 1; v < result->version_count && v < SIM_ROW_VERSIONS; v++) {
        if (result->counters.version[v].offered > 0) {
            char version[SIM_RELEASE_TEXT_MAX];
            sim_release_text(result, v, version);
            (void)fputs("<h2>Coverage of ", file);
            base_html_text(file, version);
            (void)fputs("</h2>\n", file);
            coverage_chart(result, columns, v, file);
        }
    }
}

// ---- Load

static double per_second(double now, double before, double span_s)
{
    return span_s > 0 && now >= before && before >= 0 ? (now - before) / span_s : 0;
}

static void gateway_chart(const struct sim_run_result *result, struct sim_columns *columns,
                          FILE *file)
{
    const struct sim_timeline *timeline = result->timeline;
    bool known = false;
    for (uint32_t i = 0; i < timeline->count; i++) {
        const struct sim_gateway_load *load = &timeline->rows[i].gateway;
        known = known || load->connections > 0;
        columns->y[0][i] = load->connections;
        columns->y[1][i] = load->streams;
    }
    if (!known) {
        return;
    }
    struct sim_chart chart = chart_of(columns, "open");
    add_series(&chart, "connections", columns->y[0], false);
    add_series(&chart, "streams (requests under way and hint streams)", columns->y[1], false);
    (void)fputs("<h2>Gateway, by its own count</h2>\n", file);
    sim_chart_write(&chart, file);
}

void sim_page_load(const struct sim_run_result *result, struct sim_columns *columns, FILE *file)
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
    take_marks(columns, timeline, NULL);
    struct sim_chart chart = chart_of(columns, "per second");
    add_series(&chart, "requests", columns->y[0], false);
    add_series(&chart, "check-ins", columns->y[1], false);
    add_series(&chart, "task runs", columns->y[2], false);
    add_series(&chart, "errors", columns->y[3], false);
    if (!result->options->local) {
        add_series(&chart, "requests by the gateway's count", columns->y[4], true);
    }
    (void)fputs("<h2>Load</h2>\n", file);
    sim_chart_write(&chart, file);
    gateway_chart(result, columns, file);
}

// ---- Latency

static void latency_row(const char *name, const struct base_hist *hist, FILE *file)
{
    static const double quantiles[] = {0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999};
    if (hist->count == 0) {
        (void)fprintf(file, "<tr><td>%s<td class=n>0<td class=note colspan=9>not measured</tr>\n",
                      name);
        return;
    }
    (void)fprintf(file, "<tr><td>%s<td class=n>%llu", name, (unsigned long long)hist->count);
    for (size_t q = 0; q < sizeof(quantiles) / sizeof(quantiles[0]); q++) {
        // Of fewer devices than that the quantile is the slowest one, and says no more.
        bool enough = (double)hist->count * (1 - quantiles[q]) >= 1;
        if (enough) {
            (void)fprintf(file, "<td class=n>%.2f",
                          (double)base_hist_quantile(hist, quantiles[q]) / 1000);
        } else {
            (void)fputs("<td class=\"n note\">too few", file);
        }
    }
    (void)fprintf(file, "<td class=n>%.2f</tr>\n", (double)hist->max / 1000);
}

static void latency_chart(const struct sim_run_result *result, struct sim_columns *columns,
                          FILE *file)
{
    const struct sim_timeline *timeline = result->timeline;
    for (uint32_t i = 0; i < timeline->count; i++) {
        columns->y[0][i] = (double)timeline->rows[i].checkin_p50_us / 1000;
        columns->y[1][i] = (double)timeline->rows[i].checkin_p99_us / 1000;
        columns->y[2][i] = (double)timeline->rows[i].lag_p99_us / 1000;
    }
    columns->mark_count = 0;
    struct sim_chart chart = chart_of(columns, "milliseconds");
    add_series(&chart, "check-in p50", columns->y[0], false);
    add_series(&chart, "check-in p99", columns->y[1], false);
    add_series(&chart, "generator lag p99", columns->y[2], true);
    sim_chart_write(&chart, file);
}

void sim_page_latency(const struct sim_run_result *result, struct sim_columns *columns, FILE *file)
{
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
    char spoilt[SIM_LAG_TEXT_MAX];
    (void)fputs("<h2>Latency</h2>\n", file);
    if (sim_lag_text(result, spoilt)) {
        (void)fprintf(file, "<p class=warn>%s</p>\n", spoilt);
    }
    (void)fputs("<p class=note>Check-ins are timed from the moment the device meant to wake, so a "
                "slow generator or gateway cannot hide; the chart times those of a device that was "
                "awake already (--hints) from their request. Lag is how much later than meant the "
                "simulator woke it. A quantile is at most 3.2 % above what was measured, never "
                "below; latency.csv has the whole distributions.</p>\n",
                file);
    latency_chart(result, columns, file);
    (void)fputs("<div class=wide><table><tr><th>milliseconds<th class=n>count<th class=n>p25"
                "<th class=n>p50<th class=n>p75<th class=n>p90<th class=n>p95<th class=n>p99"
                "<th class=n>p99.9<th class=n>p99.99<th class=n>max</tr>\n",
                file);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        latency_row(rows[i].name, rows[i].hist, file);
    }
    (void)fputs("</table></div>\n", file);
}
