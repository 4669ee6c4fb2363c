// Line charts as inline SVG: axes with round numbers, a legend, marks at moments, whose texts stand
// in rows above the plot so that none lies on another. Colours come from the CSS classes s0..s7 of
// the page, text from currentColor, so the page decides light or dark.
#ifndef SIM_REPORT_SVG_H
#define SIM_REPORT_SVG_H

#include <stdbool.h>

#include <stdint.h>
#include <stdio.h>

#define SIM_SERIES_MAX 8
#define SIM_LABELS_MAX 128 // marks of a chart; of more the first ones

struct sim_series {
    const char *name;
    const double *y; // `point_count` values; negative: no point
    bool dashed;
};

struct sim_chart {
    const char *unit_y;
    const char *unit_x; // what is counted along it; NULL: seconds of the run
    const double *x;
    uint32_t point_count;
    struct sim_series series[SIM_SERIES_MAX];
    uint32_t series_count;
    double x_from; // the axis begins here
    double x_to;   // ... and ends here; 0: at the last point
    double y_max;  // 0: from the data
    const double *mark_x;
    const char *const *mark_text;
    uint32_t mark_count;
};

void sim_chart_write(const struct sim_chart *chart, FILE *file);
// The beginning of a page of its own for charts, to its body: style and colours. `title` is plain.
void sim_chart_page_begin(FILE *file, const char *title);
// A round step that divides `span` into 4 to 10 parts.
double sim_chart_step(double span);
// Number with a unit suffix: 1200 -> "1.2k".
void sim_short_number(double value, char out[24]);

#endif
