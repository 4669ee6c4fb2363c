// Thresholds of a run: 'METRIC OP VALUE', judged at its end.
//
//   checkin_p99<200ms   offer_to_run_p90 < 30s   failed_share<=1%   coverage>=99%   runs==1000
//
// METRIC is a measure of report/measures.h; of a latency with the part that is meant (_p50, _p90,
// _p99, _p999, _max, _mean). OP is < <= > >= == or !=. VALUE is a number: of a latency with us, ms,
// s or m behind it, of a share with % or as a share of one,
// below 1: whether a bare 1 is 1% or 100% nobody can tell.
#ifndef SIM_THRESHOLDS_H
#define SIM_THRESHOLDS_H

#include "base/error.h"
#include "model/threshold.h"
#include "report/run_result.h"

#include <stdio.h>

// INVALID: what is wrong, and in which column.
BASE_NODISCARD enum base_status sim_threshold_parse(struct base_str text, struct sim_threshold *out,
                                                    struct base_error *error);
// Fills result->thresholds, as many as the options have. After everything else was gathered.
void sim_thresholds_judge(struct sim_run_result *result);
// How many of them do not hold.
uint32_t sim_thresholds_missed(const struct sim_run_result *result);

#define SIM_THRESHOLD_SAID_MAX (SIM_THRESHOLD_TEXT_MAX + 80u)
// "checkin_p99<200ms: 312.400 ms, does not hold".
void sim_threshold_said(const struct sim_run_result *result, uint32_t at,
                        char out[SIM_THRESHOLD_SAID_MAX]);

// The names for the help, one measure after the other, in `out`.
void sim_thresholds_help(char *out, size_t size);

#endif
