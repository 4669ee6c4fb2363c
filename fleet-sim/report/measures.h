// What a run measures, by name: every latency of run.json by quantile, its counts, and shares of
// these. Thresholds name one of them; the names are those of run.json.
#ifndef SIM_MEASURES_H
#define SIM_MEASURES_H

#include "report/run_result.h"

enum sim_measure_kind {
    SIM_MEASURE_LATENCY, // microseconds
    SIM_MEASURE_COUNT,
    SIM_MEASURE_SHARE, // of one
    SIM_MEASURE_NUMBER,
};

#define SIM_LATENCY_PARTS 6 // p50, p90, p99, p999, max, mean

struct sim_measure {
    const char *name;
    enum sim_measure_kind kind;
    const char *about; // in the help
};

// The latencies of run.json, in its order; NULL past the end. The name is written to `out_name`.
const struct base_hist *sim_latency_at(const struct sim_run_result *result, uint32_t at,
                                       const char **out_name);

// All measures in order, latencies first; NULL past the end.
const struct sim_measure *sim_measure_at(uint32_t at);
// "p99": the ending of a latency's name; NULL past the end.
const char *sim_latency_part(uint32_t part);
// Its value at the end of a run; false: nothing was measured.
bool sim_measure_read(const struct sim_run_result *result, uint32_t at, uint32_t part,
                      double *out_value);

#define SIM_MEASURE_TEXT_MAX 48u
// "12.5 ms", "0.25 %", "12".
const char *sim_measure_text(enum sim_measure_kind kind, double value,
                             char out[SIM_MEASURE_TEXT_MAX]);

#endif
