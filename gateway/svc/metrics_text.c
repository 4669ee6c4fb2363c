// GET /metrics in Prometheus text format, and the latency histogram behind it. Each worker writes
// its own counters; whoever answers sums them with relaxed loads. Worker's thread. route.c
// answers with it. Text is built in the exchange's arena and bounded by TEXT_BYTES_MAX. What the
// control thread owns is not looked at: rollout_figures.c has a copy of it.
#include "svc/metrics_text.h"

#include "svc/core_private.h"
#include "svc/access/operators.h"
#include "svc/rollout/rollout_figures.h"
#include "svc/access/audit.h"
#include "svc/access/credentials.h"
#include "svc/content/blob_cache.h"
#include "svc/device/device_faults.h"
#include "svc/device/strangers.h"
#include "svc/plan/attr_pool.h"
#include "svc/reply.h"
#include "svc/trust/director_private.h"
#include "svc/core_worker.h"
#include "svc/device/device_table.h"
#include "svc/plan/plan.h"

#include "base/version.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define TEXT_BYTES_MAX (192 * 1024) // with all that has figures of its own

static const uint64_t latency_bounds_us[GW_LATENCY_BOUNDS] = {
    5, 10, 25, 50, 100, 250, 500, 1000, 2500, 10000, 50000, 250000, 1000000, 10000000};

void gw_worker_latency(struct gw_worker *worker, uint64_t latency_us)
{
    uint32_t i = 0;
    while (i < GW_LATENCY_BOUNDS && latency_us > latency_bounds_us[i]) {
        i++;
    }
    gw_count(&worker->stats.latency[i], 1);
    gw_count(&worker->stats.latency_sum_us, latency_us);
}

struct text {
    char *data;
    size_t size;
};

BASE_PRINTF(2, 3)
static void add(struct text *text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int size = vsnprintf(text->data + text->size, TEXT_BYTES_MAX - text->size, format, args);
    va_end(args);
    if (size > 0) {
        text->size += (size_t)size;
        if (text->size >= TEXT_BYTES_MAX) {
            text->size = TEXT_BYTES_MAX - 1; // cut
        }
    }
}

static void value(struct text *text, const char *name, const char *type, const char *help,
                  uint64_t number)
{
    add(text, "# HELP walle_%s %s\n# TYPE walle_%s %s\nwalle_%s %llu\n", name, help, name, type,
        name, (unsigned long long)number);
}

// Sums one counter, named by its offset, over all workers.
static uint64_t sum(const struct gw_core *core, size_t offset)
{
    uint64_t total = 0;
    for (uint32_t i = 0; i < core->worker_count; i++) {
        const _Atomic uint64_t *counter =
            (const _Atomic uint64_t *)((const char *)&core->workers[i]->stats + offset);
        total += atomic_load_explicit(counter, memory_order_relaxed);
    }
    return total;
}

static uint64_t sum_transport(const struct gw_core *core, size_t offset)
{
    uint64_t total = 0;
    for (uint32_t i = 0; i < core->worker_count; i++) {
        const uint64_t *counter =
            (const uint64_t *)((const char *)&core->workers[i]->transport + offset);
        total += __atomic_load_n(counter, __ATOMIC_RELAXED);
    }
    return total;
}

struct row {
    size_t offset;
    const char *name;
    const char *type;
    const char *help;
};

#define WORKER(field, name, type, help)                                                            \
    {                                                                                              \
        offsetof(struct gw_worker_stats, field), name, type, help                                  \
    }
#define TRANSPORT(field, name, type, help)                                                         \
    {                                                                                              \
        offsetof(struct gw_transport_stats, field), name, type, help                               \
    }

static const struct row worker_rows[] = {
    WORKER(checkins, "checkins_total", "counter", "Profiles read."),
    WORKER(checkins_current, "checkins_current_total", "counter",
           "Devices that had what they should have, told by the digest."),
    WORKER(checkins_settled, "checkins_settled_total", "counter",
           "Devices that differ and for which there is nothing to offer."),
    WORKER(checkins_asked, "checkins_asked_total", "counter", "Devices asked for their pairs."),
    WORKER(checkins_offered, "checkins_offered_total", "counter", "Devices given offers."),
    WORKER(checkins_held, "checkins_held_total", "counter",
           "Devices whose offer a rate, a cap or a window held back."),
    WORKER(checkins_paced, "checkins_paced_total", "counter",
           "Devices told that the interval is another."),
    WORKER(checkins_bad, "checkins_bad_total", "counter", "Malformed check-ins."),
    WORKER(rides, "rides_total", "counter", "Check-ins answered on proxied requests."),
    WORKER(offers, "offers_total", "counter", "Offers given."),
    WORKER(offers_ran_out, "offers_ran_out_total", "counter",
           "Offers not given: the statement is not valid any more."),
    WORKER(offers_refused, "offers_refused_total", "counter",
           "Offers not given: the device refuses the statement."),
    WORKER(offers_without_room, "offers_without_room_total", "counter",
           "Offers not given: the device holds no more tasks."),
    WORKER(reports, "reports_total", "counter", "Reports received."),
    WORKER(reports_bad, "reports_bad_total", "counter", "Malformed reports."),
    WORKER(blobs, "blob_requests_total", "counter", "Blob requests."),
    WORKER(exclusives, "exclusive_requests_total", "counter", "Requests for exclusive files."),
    WORKER(exclusives_refused, "exclusive_refused_total", "counter",
           "... of devices that may not, or have none."),
    WORKER(hints_sent, "hints_sent_total", "counter", "Hints written to streams."),
    WORKER(hint_streams, "hint_streams", "gauge", "Open hint streams."),
    WORKER(tunnel_streams, "tunnel_streams", "gauge", "Open tunnel streams."),
    WORKER(cohorts, "cohorts", "gauge", "Cohorts cached by workers."),
};

static const struct row transport_rows[] = {
    TRANSPORT(connections_open, "connections", "gauge", "Open connections."),
    TRANSPORT(connections_total, "connections_total", "counter", "Connections accepted."),
    TRANSPORT(streams_open, "streams", "gauge", "Open HTTP/2 streams."),
    TRANSPORT(requests_total, "requests_total", "counter", "Requests received."),
    TRANSPORT(rejected_total, "rejected_total", "counter",
              "Requests and connections refused by a limit."),
    TRANSPORT(header_blocks_stopped, "header_blocks_stopped_total", "counter",
              "Header blocks whose decoding was stopped above four times the limit."),
    TRANSPORT(header_pauses, "header_pauses_total", "counter",
              "Times a connection was not read for a while: too many large header fields."),
    TRANSPORT(connects_refused, "connects_refused_total", "counter",
              "Connections closed because their address opens too many, or too many TLS ones."),
    TRANSPORT(unread_closed, "unread_closed_total", "counter",
              "Connections closed because their peer did not read."),
    TRANSPORT(socket_bytes, "socket_bytes", "gauge",
              "Kernel memory of connections with something under way."),
    TRANSPORT(overload_level, "overload_level", "gauge",
              "0 calm, 1 raised, 2 high, 3 critical (docs/OPERATIONS.md)."),
    TRANSPORT(overload_bytes, "overload_bytes", "gauge",
              "Memory of the process and of its sockets, as the overload manager counts it."),
    TRANSPORT(overload_limit_bytes, "overload_limit_bytes", "gauge", "... and what it may be."),
    TRANSPORT(shed_strangers, "overload_shed_strangers_total", "counter",
              "Connections of strangers closed by the overload manager."),
    TRANSPORT(shed_idle, "overload_shed_idle_total", "counter",
              "Idle connections closed by the overload manager."),
    TRANSPORT(bytes_in, "received_bytes_total", "counter", "Bytes received."),
    TRANSPORT(bytes_out, "sent_bytes_total", "counter", "Bytes sent."),
    TRANSPORT(tls_handshakes, "tls_handshakes_total", "counter", "TLS handshakes completed."),
    TRANSPORT(tls_resumed, "tls_resumed_total", "counter", "TLS handshakes by session resumption."),
    TRANSPORT(tls_early, "tls_early_total", "counter", "Connections whose early data was taken."),
    TRANSPORT(tunnels_new, "tunnel_connections_new_total", "counter",
              "Connections with tunnel streams, behind a whole handshake."),
    TRANSPORT(tunnels_resumed, "tunnel_connections_resumed_total", "counter",
              "Connections with tunnel streams, behind a resumed TLS session."),
    TRANSPORT(tunnels_early, "tunnel_connections_early_total", "counter",
              "Connections whose first tunnel stream came in early data."),
};

static void add_workers(struct text *text, struct gw_core *core)
{
    pthread_mutex_lock(&core->workers_lock);
    for (size_t i = 0; i < sizeof(worker_rows) / sizeof(worker_rows[0]); i++) {
        const struct row *row = &worker_rows[i];
        value(text, row->name, row->type, row->help, sum(core, row->offset));
    }
    for (size_t i = 0; i < sizeof(transport_rows) / sizeof(transport_rows[0]); i++) {
        const struct row *row = &transport_rows[i];
        value(text, row->name, row->type, row->help, sum_transport(core, row->offset));
    }
    add(text, "# HELP walle_request_seconds From request to reply.\n"
              "# TYPE walle_request_seconds histogram\n");
    uint64_t count = 0;
    for (uint32_t i = 0; i <= GW_LATENCY_BOUNDS; i++) {
        count += sum(core, offsetof(struct gw_worker_stats, latency) + i * sizeof(uint64_t));
        if (i < GW_LATENCY_BOUNDS) {
            add(text, "walle_request_seconds_bucket{le=\"%g\"} %llu\n",
                (double)latency_bounds_us[i] / 1e6, (unsigned long long)count);
        }
    }
    uint64_t sum_us = sum(core, offsetof(struct gw_worker_stats, latency_sum_us));
    add(text,
        "walle_request_seconds_bucket{le=\"+Inf\"} %llu\nwalle_request_seconds_sum %.6f\n"
        "walle_request_seconds_count %llu\n",
        (unsigned long long)count, (double)sum_us / 1e6, (unsigned long long)count);
    value(text, "workers", "gauge", "Worker threads.", core->worker_count);
    value(text, "plan_tasks", "gauge", "Tasks in the current plan.", core->plan->task_count);
    value(text, "plan_generation", "gauge", "Number of the current plan.", core->plan->generation);
    pthread_mutex_unlock(&core->workers_lock);
}

static void add_access(struct text *text, struct gw_core *core)
{
    uint64_t entries = 0;
    struct wire_sha256 head;
    gw_audit_head(core, &entries, &head);
    value(text, "access_failures_total", "counter", "Wrong tokens, of operators and enrolments.",
          atomic_load_explicit(&core->access_failures, memory_order_relaxed));
    value(text, "device_credentials", "gauge", "Devices made known.",
          gw_credentials_count(core->credentials));
    value(text, "device_credentials_bytes", "gauge", "Memory of their table.",
          gw_credentials_bytes(core->credentials));
    value(text, "device_revocations_total", "counter", "Devices revoked.",
          atomic_load_explicit(&core->revocations, memory_order_relaxed));
    value(text, "audit_entries", "gauge", "Entries of the audit log.", entries);
    value(text, "audit_failures_total", "counter", "Entries that could not be written at once.",
          gw_audit_failures(core));
}

static uint64_t cohort_probes_long(struct gw_core *core)
{
    pthread_mutex_lock(&core->workers_lock);
    uint64_t count = sum(core, offsetof(struct gw_worker_stats, cohort_probes_long));
    pthread_mutex_unlock(&core->workers_lock);
    return count;
}

static void add_store(struct text *text, struct gw_core *core)
{
    struct gw_store_stats store;
    struct gw_blob_cache_stats blobs;
    gw_store_stats(core->store, &store);
    gw_blob_cache_stats(core->blobs, &blobs);
    value(text, "store_full", "gauge", "1: the store has no room, changes are refused.",
          store.full);
    value(text, "store_damaged_total", "counter", "Stored records that fail their checksum.",
          store.damaged);
    value(text, "store_commits_total", "counter", "Groups committed.", store.commits);
    value(text, "store_operations_total", "counter", "Operations committed.", store.operations);
    value(text, "store_failed_groups_total", "counter", "Groups that failed.", store.failed_groups);
    value(text, "store_queue", "gauge", "Operations waiting.", store.queue);
    value(text, "store_group_max", "gauge", "Largest group so far.", store.group_max);
    value(text, "store_map_bytes", "gauge", "Size of the map.", store.map_bytes);
    value(text, "store_used_bytes", "gauge", "Pages in use.", store.used_bytes);
    value(text, "blob_cache_bytes", "gauge", "Bytes of cached blobs.", blobs.bytes);
    value(text, "blob_cache_hits_total", "counter", "Blob look-ups answered by the cache.",
          blobs.hits);
    value(text, "blob_cache_misses_total", "counter", "Blob look-ups not in the cache.",
          blobs.misses);
}

static void add_faults(struct text *text, const struct gw_core *core)
{
    enum gw_fault_what what;
    const char *status;
    uint64_t count;
    add(text,
        "# HELP walle_device_faults_total Check-ins and reports that were not taken, by answer.\n"
        "# TYPE walle_device_faults_total counter\n");
    for (uint32_t i = 0; gw_faults_count(core, i, &what, &status, &count); i++) {
        add(text, "walle_device_faults_total{what=\"%s\",status=\"%s\"} %llu\n",
            gw_fault_what_name(what), status, (unsigned long long)count);
    }
}

static void add_rollouts(struct text *text, struct gw_core *core)
{
    value(text, "decisions_total", "counter", "Decisions of the rollout controller.",
          atomic_load_explicit(&core->ends.decisions, memory_order_relaxed));
    value(text, "pages_total", "counter",
          "Rollouts somebody must look at: no data for too long, or failed unattended.",
          atomic_load_explicit(&core->ends.pages, memory_order_relaxed));
    value(text, "rollouts_completed_total", "counter", "Rollouts that completed.",
          atomic_load_explicit(&core->ends.completed, memory_order_relaxed));
    value(text, "rollouts_rolled_back_total", "counter", "Rollouts that began to go back.",
          atomic_load_explicit(&core->ends.rolled_back, memory_order_relaxed));
    value(text, "rollouts_held_total", "counter", "Rollouts that failed and wait for a person.",
          atomic_load_explicit(&core->ends.held, memory_order_relaxed));
    value(text, "guards_over_total", "counter",
          "Rollouts that completed when their guard was over, with devices outstanding.",
          atomic_load_explicit(&core->ends.guards_over, memory_order_relaxed));
    value(text, "rollouts_failing_late", "gauge",
          "Rollouts that completed and have more failures now than their last stage may.",
          atomic_load_explicit(&core->ends.late, memory_order_relaxed));
}

static void add_director(struct text *text, const struct gw_director *director)
{
    value(text, "director_answers_total", "counter", "Answers signed for devices.",
          atomic_load_explicit(&director->answers, memory_order_relaxed));
    value(text, "director_answer_signatures_total", "counter",
          "Signatures that answers for devices are under; one may be over many.",
          atomic_load_explicit(&director->answer_signatures, memory_order_relaxed));
    value(text, "root_version", "gauge", "Version of the newest root; 0: none.",
          atomic_load_explicit(&director->root_version_seen, memory_order_relaxed));
    value(text, "root_expires_timestamp_seconds", "gauge", "When it runs out; 0: none.",
          atomic_load_explicit(&director->root_expires_seen, memory_order_relaxed));
    value(
        text, "root_keys_unnamed", "gauge",
        "Roles in which devices take nothing that this gateway signs: the newest root names other "
        "keys.",
        atomic_load_explicit(&director->keys_unnamed_seen, memory_order_relaxed));
    value(text, "timestamp_version", "gauge", "Version of the newest signed timestamp.",
          atomic_load_explicit(&director->timestamp_seen, memory_order_relaxed));
    value(text, "killed_versions", "gauge", "Versions on the kill list.",
          atomic_load_explicit(&director->kills_seen, memory_order_relaxed));
    value(text, "killed_versions_signed", "gauge", "Of these, in the timestamp devices get.",
          atomic_load_explicit(&director->kills_told, memory_order_relaxed));
    value(text, "killed_versions_untold", "gauge",
          "Of these, such as devices can have that found no place in it.",
          atomic_load_explicit(&director->kills_untold, memory_order_relaxed));
    value(text, "kills_yielded_total", "counter",
          "Entries of the full kill list that gave way to another tenant's.",
          atomic_load_explicit(&director->kills_yielded, memory_order_relaxed));
}

static void add_core(struct text *text, struct gw_core *core)
{
    value(text, "devices", "gauge", "Devices that have a record.",
          gw_device_table_count(core->table));
    struct gw_strangers_stats strangers;
    gw_strangers_stats(core->strangers, &strangers);
    value(text, "devices_unproven", "gauge", "... of which never showed who they are.",
          gw_device_table_unproven(core->table));
    value(text, "devices_unproven_refused_total", "counter",
          "Records of such that did not begin: a budget was used up.", strangers.refused);
    value(text, "devices_expired_total", "counter", "Records of such that ended.",
          strangers.expired);
    value(text, "devices_dirty", "gauge", "Devices newer in memory than on disk.",
          gw_device_table_dirty(core->table));
    value(text, "devices_dropped_total", "counter", "Devices not kept for want of room.",
          gw_device_table_dropped(core->table));
    value(text, "device_table_bytes", "gauge", "Memory of the device table.",
          gw_device_table_bytes(core->table));
    value(
        text, "table_probes_long_total", "counter",
        "Look-ups of a device, a credential, attributes or a cohort that went too far: none does.",
        gw_device_table_probes_long(core->table) + gw_credentials_probes_long(core->credentials) +
            gw_attr_pool_probes_long(core->pool) + cohort_probes_long(core));
    value(text, "disk_level", "gauge", "1: strangers write nothing more, 2: no device does.",
          (uint64_t)atomic_load_explicit(&core->set.disk, memory_order_relaxed));
    value(text, "disk_refused_total", "counter", "Reports and enrolments refused for want of disk.",
          atomic_load_explicit(&core->reports.disk_refused, memory_order_relaxed));
    value(text, "attribute_blocks", "gauge", "Distinct attribute blocks.",
          gw_attr_pool_count(core->pool));
    value(text, "outcomes_total", "counter", "Outcomes made durable.",
          atomic_load_explicit(&core->reports.outcomes, memory_order_relaxed));
    value(text, "outcomes_repeated_total", "counter", "Outcomes that were durable already.",
          atomic_load_explicit(&core->reports.repeated, memory_order_relaxed));
    value(text, "outcomes_unknown_total", "counter", "Outcomes of unknown rollouts.",
          atomic_load_explicit(&core->reports.unknown, memory_order_relaxed));
    value(text, "outcomes_unoffered_total", "counter",
          "Outcomes that nothing counts: no stage of the rollout lets the device in.",
          atomic_load_explicit(&core->reports.unoffered, memory_order_relaxed));
    value(text, "outcomes_unproven_total", "counter",
          "Outcomes that no gate counts: the device did not show who it is.",
          atomic_load_explicit(&core->reports.unproven, memory_order_relaxed));
    value(text, "report_gaps_total", "counter", "Reports that did not follow on the last.",
          atomic_load_explicit(&core->reports.gaps, memory_order_relaxed));
    value(text, "records_corrupt_total", "counter", "Stored records that could not be read.",
          atomic_load_explicit(&core->reports.records_corrupt, memory_order_relaxed));
    add_rollouts(text, core);
    value(text, "clock_doubt", "gauge",
          "0: the time is sure, 1: the wall clock jumped ahead, 2: back, 3: was never set.",
          (uint64_t)atomic_load_explicit(&core->time.doubt, memory_order_relaxed));
    value(text, "clock_doubts_total", "counter", "How often it came to be in doubt.",
          atomic_load_explicit(&core->time.doubts, memory_order_relaxed));
    value(text, "clock_apart_seconds", "gauge", "Wall clock and the gateway's time apart.",
          atomic_load_explicit(&core->time.apart_s, memory_order_relaxed));
    add_director(text, core->director);
}

static void add_figure(void *ctx, const char *name, const char *type, const char *help,
                       uint64_t number)
{
    if (strstr(name, "_seconds") == NULL) {
        value(ctx, name, type, help, number);
        return;
    }
    add(ctx, "# HELP walle_%s %s\n# TYPE walle_%s %s\nwalle_%s %.6f\n", name, help, name, type,
        name, (double)number / 1e6);
}

static void add_text(void *ctx, const char *text)
{
    add(ctx, "%s", text);
}

static void add_program(struct text *text)
{
    add(text,
        "# HELP walle_build_info What runs here; always 1.\n# TYPE walle_build_info gauge\n"
        "walle_build_info{version=\"%s\",compiler=\"%s\"} 1\n",
        BASE_PRODUCT_VERSION, __VERSION__);
}

void gw_metrics_handle(struct gw_worker *worker, struct gw_exchange *exchange)
{
    struct gw_actor actor;
    enum gw_metrics_for whom = gw_access_metrics(worker->core, exchange, &actor);
    if (whom == GW_METRICS_FOR_NOBODY) {
        gw_exchange_finish(exchange);
        return;
    }
    struct text text = {.data = base_arena_alloc(exchange->arena, TEXT_BYTES_MAX)};
    if (text.data == NULL) {
        gw_reply_busy(exchange, worker->core->set.retry_after_s);
    } else {
        add_program(&text);
        add_workers(&text, worker->core);
        add_core(&text, worker->core);
        add_faults(&text, worker->core);
        add_store(&text, worker->core);
        add_access(&text, worker->core);
        const struct gw_tunnel_seam *tunnel = &worker->core->hooks.tunnel;
        if (tunnel->self != NULL) {
            tunnel->figures(tunnel->self, add_figure, &text);
        }
        const struct gw_infer_seam *infer = &worker->core->hooks.infer;
        if (infer->self != NULL && whom != GW_METRICS_FOR_STRANGER) {
            infer->figures(infer->self, add_text, &text);
        }
        if (whom != GW_METRICS_FOR_STRANGER) {
            gw_rollout_figures_write(worker->core, whom == GW_METRICS_FOR_ACTOR ? &actor : NULL,
                                     add_text, &text);
        }
        gw_reply_body(exchange, 200, BASE_STR("text/plain; version=0.0.4"), text.data, text.size);
    }
    gw_exchange_finish(exchange);
}
