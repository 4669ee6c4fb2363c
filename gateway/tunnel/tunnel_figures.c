// Figures of the tunnel for /metrics. gateway_main.c gives it to the core as part of the seam
// (gw_tunnel_seam), and the core's metrics_text.c calls it on the worker that answers. Counters
// come from one list (GW_TUNNEL_COUNTERS), gauges from the table here; all of them are read from
// atomics or under short locks, so a look costs the sessions nothing.
#include "tunnel/gw_tunnel.h"

#include "base/check.h"

#include <string.h>

#define FIGURE(name) "tunnel_" #name

void gw_tunnel_figures(struct gw_tunnel *tunnel, gw_figure_fn add, void *ctx)
{
    struct gw_tunnel_stats stats;
    gw_tunnel_stats(tunnel, &stats);
#define ADD(name, help) add(ctx, FIGURE(name), "counter", help, stats.name);
    GW_TUNNEL_COUNTERS(ADD)
#undef ADD
    const struct gw_segment_stats *log = &stats.segments;
    const struct {
        const char *name;
        const char *type;
        const char *help;
        uint64_t value;
    } rows[] = {
        {"tunnel_sessions", "gauge", "Tunnel streams open.", stats.sessions},
        {"tunnel_memory_bytes", "gauge", "Memory of batches and input.", stats.memory_bytes},
        {"tunnel_thin_step", "gauge", "How far bulk classes are thinned, 0 to 3.", stats.thin_step},
        {"tunnel_marks", "gauge", "Devices and classes known.", stats.marks},
        {"tunnel_epochs_aside", "gauge", "Epochs of them other than the newest.", stats.asides},
        {"tunnel_marks_unproven", "gauge", "Of both, of devices that did not show who they are.",
         stats.unproven_marks},
        {"tunnel_marks_expired_total", "counter", "Of these, ended because nothing came for long.",
         stats.expired_marks},
        {"tunnel_mark_bytes", "gauge", "Memory of the marks.", stats.mark_bytes},
        {"tunnel_log_retain_bytes", "gauge", "What the segment log may have.", stats.retain_bytes},
        {"tunnel_unproven_day_bytes", "gauge", "What unproven devices may write in a day.",
         stats.unproven_max},
        {"disk_free_bytes", "gauge", "Free on the disk of the data folder.", stats.disk_free},
        {"tunnel_probes_long_total", "counter", "Look-ups of a mark that went too far: none does.",
         stats.probes_long},
        {"tunnel_failed_total", "counter", "Batches the sink did not keep.", stats.failed},
        {"tunnel_log_position_bytes", "gauge", "Durable end of the segment log.", log->end},
        {"tunnel_log_first_bytes", "gauge", "Position of the oldest segment.", log->first},
        {"tunnel_log_segments", "gauge", "Segments kept.", log->segments},
        {"tunnel_log_syncs_total", "counter", "Groups made durable.", log->syncs},
        {"tunnel_log_sync_seconds_total", "counter", "Time in syncs.", log->sync_us},
        {"tunnel_log_sync_max_seconds", "gauge", "The longest sync.", log->sync_us_max},
        {"tunnel_log_group_max", "gauge", "Largest group so far.", log->group_max},
        {"tunnel_log_failures_total", "counter", "Groups that could not be written.",
         log->failures},
        {"tunnel_log_shut", "gauge", "1: batches are refused just now.", log->shut ? 1 : 0},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        base_assert((strcmp(rows[i].type, "counter") == 0) ==
                    (strstr(rows[i].name, "_total") != NULL)); // as Prometheus names them
        add(ctx, rows[i].name, rows[i].type, rows[i].help, rows[i].value);
    }
}
