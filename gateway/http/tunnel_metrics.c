// The ingest's figures under the names of /metrics. Called on the worker that answers.
#include "http/tunnel_metrics.h"

#include "tunnel/ingest.h"

void gw_tunnel_metrics(void *ctx, void *text, gw_metrics_add_fn add)
{
    struct gw_ingest_stats stats;
    gw_ingest_stats(ctx, &stats);
#define COUNTER(name, help) add(text, "tunnel_" #name, "counter", help, stats.name);
    GW_INGEST_COUNTERS(COUNTER)
#undef COUNTER
    add(text, "tunnel_failed_total", "counter", "Batches the segment log gave back.", stats.failed);
    add(text, "tunnel_sessions", "gauge", "Sessions of tunnel streams.", stats.sessions);
    add(text, "tunnel_memory_bytes", "gauge", "Batches and input in memory.", stats.memory_bytes);
    add(text, "tunnel_marks", "gauge", "Devices and classes with a mark.", stats.marks);
    add(text, "tunnel_mark_bytes", "gauge", "Memory of the marks.", stats.mark_bytes);
}
