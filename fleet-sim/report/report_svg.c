// Inline SVG charts of the report, and the few helpers for HTML text and round numbers around them.
// Called by report_html.c and behaviour_report.c, on the coordinator's thread when the run is over.
// Output goes to a stream and nothing else changes. A line with more than POINTS_MAX points is
// thinned out, so the page stays small however long the run was.
#include "report/report_svg.h"

#include "base/check.h"
#include "base/text/html_text.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#define WIDTH         860.0
#define PLOT_HEIGHT   228.0
#define LEFT          64.0
#define RIGHT         16.0
#define TOP           18.0 // the unit's row; those of marks come below it
#define BOTTOM        36.0
#define POINTS_MAX    800 // more are thinned out: the plot has no more pixels
#define LABEL_ROWS    8
#define LABEL_HEIGHT  13.0
#define LABEL_GAP     8.0
#define LETTER_WIDTH  6.3 // at most, on average, at 11 px
#define LABEL_LETTERS 40  // of a mark's text

// Where values lie in the picture.
struct frame {
    double x_from, x_to, y_max;
    double top; // of the plot
};

static double plot_x(const struct frame *frame, double value)
{
    return LEFT + (value - frame->x_from) / (frame->x_to - frame->x_from) * (WIDTH - LEFT - RIGHT);
}

static double plot_y(const struct frame *frame, double value)
{
    double share = value / frame->y_max;
    return frame->top + (1 - (share < 1 ? share : 1)) * PLOT_HEIGHT;
}

static bool in_frame(const struct frame *frame, double x)
{
    return x >= frame->x_from && x <= frame->x_to;
}

double sim_chart_step(double span)
{
    if (!(span > 0)) {
        return 1;
    }
    double step = pow(10, floor(log10(span / 5)));
    if (span / step > 10) {
        step *= 2;
    }
    if (span / step > 10) {
        step *= 2.5;
    }
    return step;
}

void sim_short_number(double value, char out[24])
{
    if (fabs(value) >= 1e9) {
        (void)snprintf(out, 24, "%.3gG", value / 1e9);
    } else if (fabs(value) >= 1e6) {
        (void)snprintf(out, 24, "%.3gM", value / 1e6);
    } else if (fabs(value) >= 1e4) {
        (void)snprintf(out, 24, "%.3gk", value / 1e3);
    } else {
        (void)snprintf(out, 24, "%.4g", value);
    }
}

static double data_max(const struct sim_chart *chart, const struct frame *frame)
{
    double max = 0;
    for (uint32_t s = 0; s < chart->series_count; s++) {
        for (uint32_t i = 0; i < chart->point_count; i++) {
            double y = chart->series[s].y[i];
            max = y > max && in_frame(frame, chart->x[i]) ? y : max;
        }
    }
    return max;
}

static void axes(const struct sim_chart *chart, const struct frame *frame, FILE *file)
{
    char text[24];
    double bottom = frame->top + PLOT_HEIGHT;
    double step = sim_chart_step(frame->y_max);
    base_assert(step > 0);
    for (double y = 0; y <= frame->y_max * 1.0001; y += step) {
        sim_short_number(y, text);
        (void)fprintf(file,
                      "<line class=grid x1=%.1f x2=%.1f y1=%.1f y2=%.1f />"
                      "<text class=tick x=%.1f y=%.1f text-anchor=end>%s</text>\n",
                      LEFT, WIDTH - RIGHT, plot_y(frame, y), plot_y(frame, y), LEFT - 6,
                      plot_y(frame, y) + 4, text);
    }
    step = sim_chart_step(frame->x_to - frame->x_from);
    step = chart->unit_x != NULL && step < 1 ? 1 : step;
    for (double x = ceil(frame->x_from / step) * step; x <= frame->x_to * 1.0001; x += step) {
        (void)fprintf(file, "<text class=tick x=%.1f y=%.1f text-anchor=middle>%.6g</text>\n",
                      plot_x(frame, x), bottom + 16, x);
    }
    (void)fprintf(file,
                  "<text class=tick x=%.1f y=%.1f text-anchor=end>%s</text>"
                  "<text class=tick x=2 y=%.1f>%s</text>\n",
                  WIDTH - RIGHT, bottom + BOTTOM - 4,
                  chart->unit_x != NULL ? chart->unit_x : "seconds of the run", TOP - 6,
                  chart->unit_y);
}

static void line(const struct sim_chart *chart, uint32_t index, const struct frame *frame,
                 FILE *file)
{
    const struct sim_series *series = &chart->series[index];
    uint32_t inside = 0;
    for (uint32_t i = 0; i < chart->point_count; i++) {
        inside += in_frame(frame, chart->x[i]);
    }
    uint32_t stride = inside / POINTS_MAX + 1;
    bool open = false;
    for (uint32_t i = 0; i < chart->point_count; i += stride) {
        if (series->y[i] < 0 || !in_frame(frame, chart->x[i])) {
            continue;
        }
        if (!open) {
            (void)fprintf(file, "<polyline class=\"line s%u%s\" points=\"", index,
                          series->dashed ? " dashed" : "");
            open = true;
        }
        (void)fprintf(file, "%.1f,%.1f ", plot_x(frame, chart->x[i]), plot_y(frame, series->y[i]));
    }
    (void)fputs(open ? "\"/>\n" : "", file);
}

// ---- Marks

// A mark's text: where it stands, and in which row.
struct label {
    double x;
    bool left;    // of its mark, for on the right there is no room
    uint32_t row; // LABEL_ROWS: in none, they are full
};

// Texts in the same row never meet: each takes the first row in which it begins behind the last
// one. The marks are in the order of time. Returns how many rows were taken.
static uint32_t labels_place(const struct sim_chart *chart, const struct frame *frame,
                             struct label labels[SIM_LABELS_MAX])
{
    double ends[LABEL_ROWS] = {0};
    uint32_t rows = 0;
    for (uint32_t i = 0; i < chart->mark_count && i < SIM_LABELS_MAX; i++) {
        size_t letters = strlen(chart->mark_text[i]);
        double width = (double)(letters < LABEL_LETTERS ? letters : LABEL_LETTERS) * LETTER_WIDTH;
        struct label *label = &labels[i];
        label->x = plot_x(frame, chart->mark_x[i]);
        label->left = label->x + width + LABEL_GAP > WIDTH;
        label->row = 0;
        double from = label->left ? label->x - width - LABEL_GAP : label->x;
        while (label->row < LABEL_ROWS && from < ends[label->row]) {
            label->row++;
        }
        if (!in_frame(frame, chart->mark_x[i])) {
            label->row = LABEL_ROWS;
        } else if (label->row < LABEL_ROWS) {
            ends[label->row] = from + width + 2 * LABEL_GAP;
            rows = label->row + 1 > rows ? label->row + 1 : rows;
        }
    }
    return rows;
}

static void marks(const struct sim_chart *chart, const struct frame *frame,
                  const struct label labels[SIM_LABELS_MAX], FILE *file)
{
    uint32_t unnamed = 0;
    for (uint32_t i = 0; i < chart->mark_count && i < SIM_LABELS_MAX; i++) {
        const struct label *label = &labels[i];
        if (!in_frame(frame, chart->mark_x[i])) {
            continue;
        }
        bool named = label->row < LABEL_ROWS;
        double y = TOP + (double)(named ? label->row : 0) * LABEL_HEIGHT;
        (void)fprintf(file, "<line class=mark x1=%.1f x2=%.1f y1=%.1f y2=%.1f />", label->x,
                      label->x, named ? y : frame->top, frame->top + PLOT_HEIGHT);
        unnamed += !named;
        if (named) {
            char text[LABEL_LETTERS + 1];
            (void)snprintf(text, sizeof(text), "%s", chart->mark_text[i]);
            (void)fprintf(file, "<text class=marktext x=%.1f y=%.1f text-anchor=%s>",
                          label->x + (label->left ? -4 : 4), y + 10, label->left ? "end" : "start");
            base_html_text(file, text);
            (void)fputs("</text>\n", file);
        }
    }
    if (unnamed > 0) {
        (void)fprintf(file,
                      "<text class=marktext x=%.1f y=%.1f text-anchor=end>%u more without a "
                      "name</text>\n",
                      WIDTH - RIGHT, TOP - 6, unnamed);
    }
}

static void legend(const struct sim_chart *chart, FILE *file)
{
    (void)fputs("<div class=legend>", file);
    for (uint32_t s = 0; s < chart->series_count; s++) {
        (void)fprintf(file, "<span><i class=\"key s%u\"></i>", s);
        base_html_text(file, chart->series[s].name);
        (void)fputs("</span>", file);
    }
    (void)fputs("</div>\n", file);
}

void sim_chart_write(const struct sim_chart *chart, FILE *file)
{
    struct label labels[SIM_LABELS_MAX];
    if (chart->point_count == 0) {
        (void)fputs("<p class=note>No points.</p>\n", file);
        return;
    }
    double last = chart->x[chart->point_count - 1];
    struct frame frame = {.x_from = chart->x_from, .x_to = chart->x_to > 0 ? chart->x_to : last};
    frame.x_to = frame.x_to > frame.x_from ? frame.x_to : frame.x_from + 1;
    frame.y_max = chart->y_max > 0 ? chart->y_max : data_max(chart, &frame) * 1.05;
    frame.y_max = frame.y_max > 0 ? frame.y_max : 1;
    frame.top = TOP + labels_place(chart, &frame, labels) * LABEL_HEIGHT;
    (void)fprintf(file, "<div class=wide><svg class=chart viewBox=\"0 0 %.0f %.0f\" role=img>\n",
                  WIDTH, frame.top + PLOT_HEIGHT + BOTTOM);
    axes(chart, &frame, file);
    marks(chart, &frame, labels, file);
    for (uint32_t s = 0; s < chart->series_count; s++) {
        line(chart, s, &frame, file);
    }
    (void)fputs("</svg></div>\n", file);
    legend(chart, file);
}

void sim_chart_page_begin(FILE *file, const char *title)
{
    (void)fprintf(
        file,
        "<!doctype html>\n<html lang=en><head><meta charset=utf-8>\n"
        "<meta name=viewport content=\"width=device-width, initial-scale=1\">\n"
        "<title>%s</title>\n<style>\n"
        ":root{color-scheme:light dark;--fg:#1c2430;--soft:#5b6675;--line:#d9dee6}\n"
        "@media(prefers-color-scheme:dark){:root{--fg:#e4e8ee;--soft:#98a3b3;--line:#313946}}\n"
        "body{color:var(--fg);font:15px/1.5 system-ui,sans-serif;margin:0 auto;max-width:960px;"
        "padding:24px}table{border-collapse:collapse;width:100%%}th,td{text-align:left;padding:4px "
        "10px 4px 0;border-bottom:1px solid var(--line);vertical-align:top}td.n,th.n{text-align:"
        "right}.about th{width:6em}.about td,code{overflow-wrap:anywhere}.note{color:var(--soft)}"
        "@media screen and (max-width:700px){body{padding:14px}.wide{overflow-x:auto}"
        ".wide svg,.wide table{min-width:640px}}"
        "svg{width:100%%;height:auto;display:block}.grid{stroke:var(--line)}.tick,.marktext{fill:"
        "var(--soft);font-size:11px}.line{fill:none;stroke-width:2}.legend{display:flex;flex-wrap:"
        "wrap;"
        "gap:14px;font-size:13px}"
        ".mark{stroke:var(--soft);stroke-dasharray:2 3}.dashed{stroke-dasharray:5 4}"
        ".key{display:inline-block;width:14px;height:4px;margin-right:6px;"
        "vertical-align:middle}",
        title);
    for (uint32_t i = 0; i < SIM_SERIES_MAX; i++) {
        (void)fprintf(file,
                      ".line.s%u{stroke:hsl(%u 65%% 45%%)}.key.s%u{background:hsl(%u 65%% 45%%)}",
                      i, i * 47, i, i * 47);
    }
    (void)fputs("</style></head><body>\n", file);
}
