// A line of each result, and the last words of a run of the agent: the tasks on standard output for
// scripts, counters of the runtime, the events and the pipeline in the log. Called by
// device_agent.c on its main thread, when the loop has ended and before the port is freed, since
// all figures are the port's; results as they come, and what has moved while --once waits.
#include "agent_summary.h"

#include "agent_once.h"

#include "base/text/terminal.h"
#include "posix/posix_pipeline.h"

#include <stdio.h>

static void tasks_print(struct dev_runtime *runtime)
{
    struct dev_task_view view;
    for (uint32_t i = 0; dev_task_view(runtime, i, &view) == BASE_OK; i++) {
        char active[WIRE_SHA256_HEX + 1];
        char previous[WIRE_SHA256_HEX + 1];
        wire_sha256_hex(&view.active, active);
        wire_sha256_hex(&view.previous, previous);
        if (view.shadow) {
            printf("shadow %.*s %s%s\n", (int)view.name.size, view.name.data, active,
                   view.on_trial ? " compares" : "");
            continue;
        }
        printf("state %.*s active %s previous %s%s\n", (int)view.name.size, view.name.data, active,
               previous, view.on_trial ? " on-trial" : "");
    }
}

static struct wire_sha256 active_of(struct dev_runtime *runtime, struct base_str task)
{
    struct dev_task_view view = {0};
    for (uint32_t i = 0; dev_task_view(runtime, i, &view) == BASE_OK; i++) {
        if (!view.shadow && base_str_equal(view.name, task)) {
            return view.active;
        }
    }
    return (struct wire_sha256){{0}};
}

void agent_summary_result(struct posix_port *port, struct agent_phases *phases,
                          const struct base_log *log, struct base_str task,
                          const struct dev_task_end *end)
{
    char hex[WIRE_SHA256_HEX + 1];
    struct wire_sha256 version = active_of(posix_port_runtime(port), task);
    struct base_str text = end->outcome == WIRE_OUTCOME_RAN ? end->result : end->detail;
    wire_sha256_hex(&version, hex);
    printf("task %.*s %s %s %llu us ", (int)task.size, task.data, hex,
           wire_outcome_name(end->outcome), (unsigned long long)end->duration_us);
    base_terminal_text(stdout, text);
    putchar('\n');
    (void)fflush(stdout);
    agent_phases_add(phases, log, task, end);
}

static void stats_print(struct dev_runtime *runtime, const struct base_log *log)
{
    struct dev_stats stats;
    dev_stats(runtime, &stats);
    base_log_info(
        log, "device",
        "check-ins %llu, pulls %llu (%llu bytes, %llu resumed), runs %llu, failures %llu, "
        "rollbacks %llu, refused offers %llu, refused metadata %llu, leases lost %llu, kills %llu",
        (unsigned long long)stats.checkins, (unsigned long long)stats.pulls,
        (unsigned long long)stats.pulled_bytes, (unsigned long long)stats.resumed_bytes,
        (unsigned long long)stats.runs, (unsigned long long)stats.failures,
        (unsigned long long)stats.rollbacks, (unsigned long long)stats.refused_offers,
        (unsigned long long)stats.refused_metadata, (unsigned long long)stats.leases_lost,
        (unsigned long long)stats.kills);
}

static uint64_t queued_of(const struct dev_tunnel_stats *tunnel)
{
    uint64_t queued = 0;
    for (uint32_t i = 0; i < WIRE_TUNNEL_CLASSES; i++) {
        queued += tunnel->classes[i].queued;
    }
    return queued;
}

static void behaviour_print(struct posix_port *port, const struct event_source *source,
                            const struct base_log *log)
{
    struct posix_pipeline *pipeline = posix_port_pipeline(port);
    struct dev_pipeline_stats stats;
    struct dev_tunnel_stats tunnel;
    uint64_t durable = 0;
    uint64_t rejected = 0; // by the gateway, of all time
    dev_pipeline_stats(posix_pipeline_core(pipeline), &stats);
    dev_tunnel_stats(posix_pipeline_tunnel(pipeline), &tunnel);
    for (uint32_t i = 0; i < WIRE_TUNNEL_CLASSES; i++) {
        durable += tunnel.classes[i].durable;
        rejected += tunnel.classes[i].lost[WIRE_TUNNEL_LOSS_REJECTED];
    }
    if (source != NULL) {
        struct event_source_stats events;
        event_source_stats(source, &events);
        base_log_info(log, "events", "%llu lines, %llu recorded, %llu bad",
                      (unsigned long long)events.lines, (unsigned long long)events.recorded,
                      (unsigned long long)events.bad);
    }
    base_log_info(log, "pipeline",
                  "this run: %llu events kept, %llu matches, %llu starts, %llu dropped, "
                  "%llu features, %llu records may not leave, uploads: %llu taken, %llu refused "
                  "here; since this device's "
                  "folder was made: %llu refused by the gateway, %llu durable there; now: "
                  "%llu queued",
                  (unsigned long long)stats.events, (unsigned long long)stats.matches,
                  (unsigned long long)stats.starts, (unsigned long long)stats.starts_dropped,
                  (unsigned long long)stats.features, (unsigned long long)stats.privacy_refusals,
                  (unsigned long long)stats.uploads, (unsigned long long)stats.uploads_refused,
                  (unsigned long long)rejected, (unsigned long long)durable,
                  (unsigned long long)queued_of(&tunnel));
}

uint64_t agent_summary_moved(struct posix_pipeline *pipeline)
{
    struct dev_pipeline_stats stats;
    struct dev_tunnel_stats tunnel;
    dev_pipeline_stats(posix_pipeline_core(pipeline), &stats);
    dev_tunnel_stats(posix_pipeline_tunnel(pipeline), &tunnel);
    uint64_t moved = stats.starts + stats.starts_lost + stats.uploads;
    for (uint32_t i = 0; i < WIRE_TUNNEL_CLASSES; i++) {
        moved += tunnel.classes[i].tail;
    }
    return moved;
}

void agent_summary_left(struct posix_pipeline *pipeline, const struct base_log *log)
{
    struct dev_pipeline_stats stats;
    struct dev_tunnel_stats tunnel;
    dev_pipeline_stats(posix_pipeline_core(pipeline), &stats);
    dev_tunnel_stats(posix_pipeline_tunnel(pipeline), &tunnel);
    base_log_warn(log, "device",
                  "--once ends with %llu records unsent and %u starts waiting: nothing moved for "
                  "%d s; they are kept, and the next run goes on with them",
                  (unsigned long long)queued_of(&tunnel), stats.waiting, AGENT_ONCE_WAIT_S);
}

void agent_summary_print(struct posix_port *port, const struct agent_phases *phases,
                         const struct event_source *events, const struct base_log *log)
{
    tasks_print(posix_port_runtime(port));
    agent_phases_print(phases, log);
    stats_print(posix_port_runtime(port), log);
    behaviour_print(port, events, log);
}
