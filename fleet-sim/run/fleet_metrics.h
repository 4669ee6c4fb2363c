// Live metrics of a run over HTTP/1.1, for Prometheus: GET /metrics. Everything happens on the
// coordinator's thread and its event loop; what is served are the sums of the last second.
#ifndef SIM_FLEET_METRICS_H
#define SIM_FLEET_METRICS_H

#include "base/error.h"
#include "report/live_metrics.h"

#define SIM_METRICS_CLIENTS_MAX 16 // connected at once; one more is closed as it comes

struct event_base;
struct sim_metrics;

// Who asks what is to be told now: fills `out`, with what stays until the page is written.
struct sim_metrics_source {
    void *ctx;
    void (*read)(void *ctx, struct sim_metrics_now *out);
};

struct sim_metrics_options {
    struct event_base *base;
    const char *address; // a number
    uint16_t port;       // 0: one that is free
    struct sim_metrics_source source;
};

// Listens there. IO with what and where in `error`, NOMEM.
BASE_NODISCARD enum base_status sim_metrics_new(const struct sim_metrics_options *options,
                                                struct sim_metrics **out_metrics,
                                                struct base_error *error);
void sim_metrics_free(struct sim_metrics *metrics);
uint16_t sim_metrics_port(const struct sim_metrics *metrics);

#endif
