// The parts of report.html that have a file of their own; report_html.c puts them in order.
//
// Each writes its section and nothing where there is nothing to say. Coordinator's thread, when the
// run is over; an error of the stream is asked for once, at the end.
#ifndef SIM_REPORT_PARTS_H
#define SIM_REPORT_PARTS_H

#include "report/run_result.h"

// The first page, for who must decide: the verdict and what it is of, what became of the release,
// what was not tested, what the figures cannot show.
void sim_page_first(const struct sim_run_result *result, FILE *file);

// Where the failures are: the slice that explains them, and the rate of each cohort.
void sim_page_slice(const struct sim_run_result *result, FILE *file);
void sim_page_cohorts(const struct sim_run_result *result, FILE *file);

// Charts over time. `columns` holds what one chart shows and is filled anew by each.
struct sim_columns;
// NOMEM.
BASE_NODISCARD enum base_status sim_columns_new(const struct sim_timeline *timeline,
                                                struct sim_columns **out_columns);
void sim_columns_free(struct sim_columns *columns);
void sim_page_coverage(const struct sim_run_result *result, struct sim_columns *columns,
                       FILE *file);
void sim_page_latency(const struct sim_run_result *result, struct sim_columns *columns, FILE *file);
void sim_page_load(const struct sim_run_result *result, struct sim_columns *columns, FILE *file);

#endif
