// A run as it is now, in the text format that Prometheus scrapes (version 0.0.4).
#ifndef SIM_LIVE_METRICS_H
#define SIM_LIVE_METRICS_H

#include "base/hist.h"
#include "model/ledger.h"
#include "model/sim_options.h"
#include "model/versions.h"

#include <stdio.h>

#define SIM_METRICS_TYPE "text/plain; version=0.0.4; charset=utf-8"

// What is told: sums over all shards since the start.
struct sim_metrics_now {
    const struct sim_options *options;
    struct sim_versions *versions;
    double running_s;
    const struct sim_counters *counters;
    const struct base_hist *lag_us;     // wakes later than meant
    const struct base_hist *checkin_us; // wake that was meant to the answer of its check-in
};

// IO.
BASE_NODISCARD enum base_status sim_metrics_write(const struct sim_metrics_now *now, FILE *file);

#endif
