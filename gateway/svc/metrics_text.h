// GET /metrics. Worker's thread.
#ifndef GW_METRICS_TEXT_H
#define GW_METRICS_TEXT_H

struct gw_exchange;
struct gw_worker;

void gw_metrics_handle(struct gw_worker *worker, struct gw_exchange *exchange);

#endif
