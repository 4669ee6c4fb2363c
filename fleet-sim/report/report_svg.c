// Inline SVG charts of the report, and the few helpers for HTML text and round numbers around them.
// Called by report_html.c and behaviour_report.c, on the coordinator's thread when the run is over.
// Output goes to a stream and nothing else changes. A line with more than POINTS_MAX points is
// thinned out, so the page stays small however long the run was.
#include "report/report_svg.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#define WIDTH      860.0
#define HEIGHT     280.0
#define LEFT       64.0
#define RIGHT      16.0
#define TOP        16.0
#define BOTTOM     36.0
#define POINTS_MAX 800 // more are thinned out: the plot has no more pixels

static double plot_x(double value, double max)
{
    return LEFT + (max > 0 ? value / max : 0) * (WIDTH - LEFT - RIGHT);
}

static double plot_y(double value, double max)
{
    double share = max > 0 ? value / max : 0;
    return HEIGHT - BOTTOM - (share < 1 ? share : 1) * (HEIGHT - TOP - BOTTOM);
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

void sim_html_text(FILE *file, const char *text)
{
    for (; *text != 0; text++) {
        switch (*text) {
        case '&':
            (void)fputs("&amp;", file);
            break;
        case '<':
            (void)fputs("&lt;", file);
            break;
        case '>':
            (void)fputs("&gt;", file);
            break;
        case '"':
            (void)fputs("&quot;", file);
            break;
        default:
            (void)fputc((unsigned char)*text < 0x20 ? ' ' : *text, file);
            break;
        }
    }
}

static double data_max(const struct sim_chart *chart)
{
    double max = 0;
    for (uint32_t s = 0; s < chart->series_count; s++) {
        for (uint32_t i = 0; i < chart->point_count; i++) {
            max = chart->series[s].y[i] > max ? chart->series[s].y[i] : max;
        }
    }
    return max;
}

static void axes(const struct sim_chart *chart, double x_max, double y_max, FILE *file)
{
    char text[24];
    double step = sim_chart_step(y_max);
    for (double y = 0; y <= y_max * 1.0001; y += step) {
        sim_short_number(y, text);
        (void)fprintf(file,
                      "<line class=grid x1=%.1f x2=%.1f y1=%.1f y2=%.1f />"
                      "<text class=tick x=%.1f y=%.1f text-anchor=end>%s</text>\n",
                      LEFT, WIDTH - RIGHT, plot_y(y, y_max), plot_y(y, y_max), LEFT - 6,
                      plot_y(y, y_max) + 4, text);
    }
    step = sim_chart_step(x_max);
    for (double x = 0; x <= x_max * 1.0001; x += step) {
        (void)fprintf(file, "<text class=tick x=%.1f y=%.1f text-anchor=middle>%.4g</text>\n",
                      plot_x(x, x_max), HEIGHT - BOTTOM + 16, x);
    }
    (void)fprintf(file,
                  "<text class=tick x=%.1f y=%.1f text-anchor=end>seconds</text>"
                  "<text class=tick x=2 y=%.1f>%s</text>\n",
                  WIDTH - RIGHT, HEIGHT - 4, TOP - 4, chart->unit_y);
}

static void line(const struct sim_chart *chart, uint32_t index, double x_max, double y_max,
                 FILE *file)
{
    const struct sim_series *series = &chart->series[index];
    uint32_t stride = chart->point_count / POINTS_MAX + 1;
    bool open = false;
    for (uint32_t i = 0; i < chart->point_count; i += stride) {
        if (series->y[i] < 0) {
            continue;
        }
        if (!open) {
            (void)fprintf(file, "<polyline class=\"line s%u%s\" points=\"", index,
                          series->dashed ? " dashed" : "");
            open = true;
        }
        (void)fprintf(file, "%.1f,%.1f ", plot_x(chart->x[i], x_max), plot_y(series->y[i], y_max));
    }
    (void)fputs(open ? "\"/>\n" : "", file);
}

static void marks(const struct sim_chart *chart, double x_max, FILE *file)
{
    double last_x = -100;
    uint32_t level = 0;
    for (uint32_t i = 0; i < chart->mark_count; i++) {
        double x = plot_x(chart->mark_x[i], x_max);
        level = x - last_x < 90 ? (level + 1) % 5 : 0;
        last_x = x;
        bool left = x > WIDTH - 150;
        (void)fprintf(file, "<line class=mark x1=%.1f x2=%.1f y1=%.1f y2=%.1f />", x, x, TOP,
                      HEIGHT - BOTTOM);
        (void)fprintf(file, "<text class=marktext x=%.1f y=%.1f text-anchor=%s>",
                      x + (left ? -4 : 4), TOP + 10 + level * 13, left ? "end" : "start");
        sim_html_text(file, chart->mark_text[i]);
        (void)fputs("</text>\n", file);
    }
}

void sim_chart_write(const struct sim_chart *chart, FILE *file)
{
    if (chart->point_count == 0) {
        (void)fputs("<p class=note>No points.</p>\n", file);
        return;
    }
    double x_max = chart->x[chart->point_count - 1];
    double y_max = chart->y_max > 0 ? chart->y_max : data_max(chart) * 1.05;
    y_max = y_max > 0 ? y_max : 1;
    x_max = x_max > 0 ? x_max : 1;
    (void)fprintf(file, "<svg viewBox=\"0 0 %.0f %.0f\" role=img>\n", WIDTH, HEIGHT);
    axes(chart, x_max, y_max, file);
    marks(chart, x_max, file);
    for (uint32_t s = 0; s < chart->series_count; s++) {
        line(chart, s, x_max, y_max, file);
    }
    (void)fputs("</svg>\n<div class=legend>", file);
    for (uint32_t s = 0; s < chart->series_count; s++) {
        (void)fprintf(file, "<span><i class=\"key s%u\"></i>", s);
        sim_html_text(file, chart->series[s].name);
        (void)fputs("</span>", file);
    }
    (void)fputs("</div>\n", file);
}
