// Figures of the tunnel for /metrics.
#ifndef GW_HTTP_TUNNEL_METRICS_H
#define GW_HTTP_TUNNEL_METRICS_H

#include "svc/core.h"

// gw_metrics_fn; `ctx` is the gw_ingest.
void gw_tunnel_metrics(void *ctx, void *text, gw_metrics_add_fn add);

#endif
