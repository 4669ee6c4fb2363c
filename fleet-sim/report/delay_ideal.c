// The curve of a gateway that loses no time beside the one of the run. run_json.c, report_html.c
// and run_summary.c call this at the end of a run, on the coordinator's thread; it reads the
// gathered result. Between two rows of the timeline a curve is taken to be straight.
#include "report/delay_ideal.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/text/html_text.h"
#include "report/report_svg.h"

#include <string.h>

static const double shares[SIM_IDEAL_SHARES] = {0.5, 0.9, 0.99, 1};

// ---- The ideal

// Devices that had come by a row of the timeline: who ran the version had, whatever was counted
// first.
static double came(const struct sim_row *row, uint8_t version)
{
    uint64_t ran = row->version[version].ran;
    return (double)(row->arrived > ran ? row->arrived : ran);
}

// By the shape of the arrivals, for those that had not come when the run ended.
static double arrives_when(const struct sim_run_result *result, double devices)
{
    const struct sim_options *options = result->options;
    double past_s = options->arrival_rate > 0 ? devices / options->arrival_rate : 0;
    if (options->arrivals != NULL) {
        past_s = sim_arrivals_when(options->arrivals, devices);
    }
    return result->arrivals_from_s + past_s;
}

// The last row in which nobody had been offered the version.
static double released(const struct sim_timeline *timeline, uint8_t version)
{
    double t_s = 0;
    for (uint32_t i = 0; i < timeline->count && timeline->rows[i].version[version].offered == 0;
         i++) {
        t_s = timeline->rows[i].t_s;
    }
    return t_s;
}

// ---- The run

static double between(double from, double to, double part)
{
    return from + (to - from) * part;
}

static double ran(const struct sim_row *row, uint8_t version)
{
    return (double)row->version[version].ran;
}

typedef double (*curve_fn)(const struct sim_row *row, uint8_t version);

static double had_by(const struct sim_run_result *result, uint8_t version, curve_fn curve,
                     double t_s)
{
    const struct sim_timeline *timeline = result->timeline;
    double before_s = 0;
    double before = 0;
    for (uint32_t i = 0; i < timeline->count; i++) {
        const struct sim_row *row = &timeline->rows[i];
        double had = curve(row, version);
        if (row->t_s >= t_s) {
            double span_s = row->t_s - before_s;
            return span_s > 0 ? between(before, had, (t_s - before_s) / span_s) : had;
        }
        before_s = row->t_s;
        before = had;
    }
    return before;
}

// Negative: never.
static double had_when(const struct sim_run_result *result, uint8_t version, curve_fn curve,
                       double devices)
{
    const struct sim_timeline *timeline = result->timeline;
    double before_s = 0;
    double before = 0;
    for (uint32_t i = 0; i < timeline->count; i++) {
        const struct sim_row *row = &timeline->rows[i];
        double had = curve(row, version);
        if (had >= devices && had > before) {
            double part = devices > before ? (devices - before) / (had - before) : 0;
            return between(before_s, row->t_s, part);
        }
        before_s = row->t_s;
        before = had;
    }
    return -1;
}

static double ideal_when(const struct sim_run_result *result, const struct sim_ideal *ideal,
                         double devices)
{
    double ideal_s = had_when(result, ideal->version, came, devices);
    ideal_s = ideal_s >= 0 ? ideal_s : arrives_when(result, devices);
    return ideal_s > ideal->released_s ? ideal_s : ideal->released_s;
}

static void row_fill(const struct sim_run_result *result, uint8_t version,
                     struct sim_ideal_row *row)
{
    row->share = row->devices / result->options->devices;
    row->reached_s = had_when(result, version, ran, row->devices);
    row->ran = had_by(result, version, ran, row->ideal_s);
}

void sim_ideal_compare(const struct sim_run_result *result, struct sim_ideal *out)
{
    double seconds[SIM_ARRIVAL_POINTS_MAX];
    const struct sim_options *options = result->options;
    memset(out, 0, sizeof(*out));
    out->version = options->local ? SIM_VERSION_NONE : result->rate_version;
    if (result->timeline->count == 0 || options->devices == 0) {
        out->version = SIM_VERSION_NONE;
    }
    if (out->version == SIM_VERSION_NONE) {
        return;
    }
    base_assert(out->version < SIM_ROW_VERSIONS);
    out->released_s = released(result->timeline, out->version);
    for (uint32_t i = 0; i < SIM_IDEAL_SHARES; i++) {
        struct sim_ideal_row *row = &out->shares[i];
        row->devices = shares[i] * options->devices;
        row->ideal_s = ideal_when(result, out, row->devices);
        row_fill(result, out->version, row);
    }
    if (options->arrivals != NULL) {
        out->point_count = sim_arrivals_points(options->arrivals, seconds);
    }
    for (uint32_t i = 0; i < out->point_count; i++) {
        struct sim_ideal_row *row = &out->points[i];
        row->ideal_s = result->arrivals_from_s + seconds[i];
        row->devices = had_by(result, out->version, came, row->ideal_s);
        row_fill(result, out->version, row);
        bool early = row->reached_s >= 0 && row->reached_s < row->ideal_s; // nobody came since
        row->reached_s = early ? row->ideal_s : row->reached_s;
    }
}

// ---- What is told of it

static json_t *row_json(const struct sim_run_result *result, const struct sim_ideal_row *row)
{
    bool reached = row->reached_s >= 0;
    double short_by = row->devices - row->ran;
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:o, s:o}", "share", row->share, "devices",
                     row->devices, "ideal_s", row->ideal_s, "ran", row->ran, "short", short_by,
                     "short_points", 100 * short_by / result->options->devices, "reached_s",
                     reached ? json_real(row->reached_s) : json_null(), "delay_s",
                     reached ? json_real(row->reached_s - row->ideal_s) : json_null());
}

static json_t *rows_json(const struct sim_run_result *result, const struct sim_ideal_row *rows,
                         uint32_t count)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < count; i++) {
        (void)json_array_append_new(list, row_json(result, &rows[i]));
    }
    return list;
}

json_t *sim_ideal_json(const struct sim_run_result *result)
{
    struct sim_ideal ideal;
    char version[SIM_RELEASE_TEXT_MAX];
    sim_ideal_compare(result, &ideal);
    if (ideal.version == SIM_VERSION_NONE) {
        return json_null();
    }
    sim_release_text(result, ideal.version, version);
    return json_pack("{s:s, s:f, s:o, s:o}", "version", version, "released_s", ideal.released_s,
                     "at_shares", rows_json(result, ideal.shares, SIM_IDEAL_SHARES), "at_points",
                     rows_json(result, ideal.points, ideal.point_count));
}

static void rows_html(const struct sim_ideal_row *rows, uint32_t count, FILE *file)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct sim_ideal_row *row = &rows[i];
        (void)fprintf(file,
                      "<tr><td>%.4g&nbsp;%%<td class=n>%.0f<td class=n>%.1f&nbsp;s<td class=n>%.0f "
                      "(%.2f&nbsp;%%)",
                      row->share * 100, row->devices, row->ideal_s, row->ran,
                      row->devices > 0 ? 100 * row->ran / row->devices : 0);
        if (row->reached_s >= 0) {
            (void)fprintf(file, "<td class=n>%.1f&nbsp;s<td class=n>%.1f&nbsp;s</tr>\n",
                          row->reached_s, row->reached_s - row->ideal_s);
        } else {
            (void)fputs("<td class=n>not reached<td class=n>-</tr>\n", file);
        }
    }
}

static void chart(const struct sim_run_result *result, const struct sim_ideal *ideal, FILE *file)
{
    const struct sim_timeline *timeline = result->timeline;
    const struct base_alloc_port *alloc = base_alloc_heap();
    double *x = alloc->alloc(alloc->ctx, 3 * sizeof(*x) * timeline->count);
    if (x == NULL) {
        return; // the table tells it
    }
    double *best = x + timeline->count;
    double *got = best + timeline->count;
    for (uint32_t i = 0; i < timeline->count; i++) {
        x[i] = timeline->rows[i].t_s;
        best[i] = x[i] < ideal->released_s ? 0 : came(&timeline->rows[i], ideal->version);
        got[i] = (double)timeline->rows[i].version[ideal->version].ran;
    }
    const struct sim_chart lines = {
        .unit_y = "devices",
        .x = x,
        .point_count = timeline->count,
        .series = {{"ideal: at once when it is online", best, true}, {"ran it", got, false}},
        .series_count = 2,
    };
    sim_chart_write(&lines, file);
    alloc->release(alloc->ctx, x);
}

void sim_ideal_section(const struct sim_run_result *result, FILE *file)
{
    struct sim_ideal ideal;
    char version[SIM_RELEASE_TEXT_MAX];
    sim_ideal_compare(result, &ideal);
    if (ideal.version == SIM_VERSION_NONE) {
        return;
    }
    sim_release_text(result, ideal.version, version);
    (void)fputs("<h2>Delay over ideal of ", file);
    base_html_text(file, version);
    (void)fputs("</h2>\n<p class=note>The ideal: every device has the version the moment it comes "
                "online. What lies between the curves are the stages, the waits between check-ins, "
                "the network and the gateway.</p>\n",
                file);
    chart(result, &ideal, file);
    (void)fputs("<table class=fit><tr><th>share of the fleet<th class=n>devices<th class=n>ideal by"
                "<th class=n>had run it then<th class=n>so many by<th class=n>delay</tr>\n",
                file);
    rows_html(ideal.points, ideal.point_count, file);
    rows_html(ideal.shares, SIM_IDEAL_SHARES, file);
    (void)fputs("</table>\n", file);
}

static void rows_print(const struct sim_ideal_row *rows, uint32_t count, FILE *file)
{
    for (uint32_t i = 0; i < count; i++) {
        (void)fprintf(file, "%s%.4g %% ", i > 0 ? ", " : "", rows[i].share * 100);
        if (rows[i].reached_s >= 0) {
            (void)fprintf(file, "%.1f s", rows[i].reached_s - rows[i].ideal_s);
        } else {
            (void)fputs("not reached", file);
        }
    }
    (void)fputc('\n', file);
}

void sim_ideal_print(const struct sim_run_result *result, FILE *file)
{
    struct sim_ideal ideal;
    sim_ideal_compare(result, &ideal);
    if (ideal.version == SIM_VERSION_NONE) {
        return;
    }
    (void)fputs("  delay       over ideal: ", file);
    rows_print(ideal.shares, SIM_IDEAL_SHARES, file);
    for (uint32_t i = 0; i < ideal.point_count; i++) {
        const struct sim_ideal_row *row = &ideal.points[i];
        (void)fprintf(file, "              at %.0f s %.0f of %.0f devices had run it\n",
                      row->ideal_s, row->ran, row->devices);
    }
}
