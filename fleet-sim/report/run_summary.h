// The summary of a run in words, as it is printed at its end.
#ifndef SIM_RUN_SUMMARY_H
#define SIM_RUN_SUMMARY_H

#include "model/gateway_view.h"
#include "report/run_result.h"

#include <stdio.h>

// `view`: what the gateway said last, NULL when it is not asked. A run that did not pass says so,
// and why, in its last line.
void sim_summary_print(const struct sim_run_result *result, const struct sim_watch_view *view,
                       int exit_status, FILE *log);

#endif
