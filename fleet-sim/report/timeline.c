// Rows of the run's timeline, and timeline.csv made of them. fleet_run.c fills and adds a row once
// a second on the coordinator's thread; run_result.c has them written, report_html.c draws them.
// The table has SIM_ROWS_MAX rows: when it is full every second one is dropped and the distance of
// the next ones is doubled, so memory does not grow with a run's length.
#include "report/timeline.h"

#include <string.h>

enum base_status sim_timeline_init(struct sim_timeline *timeline,
                                   const struct base_alloc_port *alloc)
{
    memset(timeline, 0, sizeof(*timeline));
    timeline->alloc = alloc;
    timeline->rows = alloc->alloc(alloc->ctx, sizeof(struct sim_row) * SIM_ROWS_MAX);
    return timeline->rows != NULL ? BASE_OK : BASE_ERR_NOMEM;
}

void sim_timeline_done(struct sim_timeline *timeline)
{
    if (timeline->alloc != NULL) {
        timeline->alloc->release(timeline->alloc->ctx, timeline->rows);
    }
    memset(timeline, 0, sizeof(*timeline));
}

void sim_row_fill(struct sim_row *row, const struct sim_second *second)
{
    const struct sim_counters *counters = second->counters;
    *row = (struct sim_row){
        .t_s = second->t_s,
        .arrived = counters->arrived,
        .awake = counters->awake,
        .skipped = counters->skipped,
        .checkins = counters->checkins,
        .requests = counters->requests,
        .request_errors = counters->request_errors,
        .runs = counters->runs,
        .run_failures = counters->run_failures,
        .exposed = counters->exposed,
        .links_up = counters->links_up,
        .unenrolled = counters->unenrolled,
        .no_room = counters->no_room,
        .lag_p50_us = base_hist_quantile(second->lag_us, 0.5),
        .lag_p99_us = base_hist_quantile(second->lag_us, 0.99),
        .checkin_p50_us = base_hist_quantile(second->checkin_us, 0.5),
        .checkin_p99_us = base_hist_quantile(second->checkin_us, 0.99),
        .behaviour = counters->behaviour,
        .gateway = *second->gateway,
        .said_of = second->said_of,
    };
    if (second->said_of != SIM_VERSION_NONE) {
        row->said_offered = second->said->offered;
        row->said_ran = second->said->succeeded;
        row->said_failed = second->said->failed;
    }
    memcpy(row->version, counters->version, sizeof(row->version));
}

static void thin_out(struct sim_timeline *timeline)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < timeline->count; i += 2) {
        timeline->rows[kept++] = timeline->rows[i];
    }
    timeline->count = kept;
    timeline->step_s = timeline->step_s > 0 ? timeline->step_s * 2 : 2;
}

void sim_timeline_add(struct sim_timeline *timeline, const struct sim_row *row)
{
    if (timeline->count > 0 &&
        row->t_s - timeline->rows[timeline->count - 1].t_s < timeline->step_s * 0.9) {
        return;
    }
    if (timeline->count == SIM_ROWS_MAX) {
        thin_out(timeline);
    }
    timeline->rows[timeline->count++] = *row;
}

void sim_timeline_mark(struct sim_timeline *timeline, double t_s, const char *text)
{
    if (timeline->mark_count == SIM_MARKS_MAX) {
        return;
    }
    struct sim_mark *mark = &timeline->marks[timeline->mark_count++];
    mark->t_s = t_s;
    (void)snprintf(mark->text, sizeof(mark->text), "%s", text);
}

static void write_head(FILE *file, uint32_t versions)
{
    (void)fputs("t_s,arrived,awake,skipped,checkins,requests,request_errors,runs,run_failures,"
                "exposed,links_up,lag_p50_us,lag_p99_us,checkin_p50_us,checkin_p99_us,"
                "gateway_requests,gateway_connections,gateway_streams,gateway_rss_bytes,"
                "gateway_cpu_s,gateway_of,gateway_offered,gateway_ran,gateway_failed,sessions,"
                "events,triggered_runs,records,records_durable",
                file);
    for (uint32_t v = 1; v < versions; v++) {
        (void)fprintf(file,
                      ",v%u_offered,v%u_downloaded,v%u_activated,v%u_ran,v%u_failed,"
                      "v%u_rolled_back,v%u_current",
                      v, v, v, v, v, v, v);
    }
    (void)fputc('\n', file);
}

#define U64(value) ((unsigned long long)(value))

enum base_status sim_timeline_write(const struct sim_timeline *timeline, FILE *file,
                                    uint32_t version_count)
{
    uint32_t versions = version_count < SIM_ROW_VERSIONS ? version_count : SIM_ROW_VERSIONS;
    write_head(file, versions);
    for (uint32_t i = 0; i < timeline->count; i++) {
        const struct sim_row *row = &timeline->rows[i];
        (void)fprintf(file, "%.3f,%llu,%llu,%llu,%llu,%llu,%llu,%llu,%llu,%llu,%llu", row->t_s,
                      U64(row->arrived), U64(row->awake), U64(row->skipped), U64(row->checkins),
                      U64(row->requests), U64(row->request_errors), U64(row->runs),
                      U64(row->run_failures), U64(row->exposed), U64(row->links_up));
        (void)fprintf(file, ",%llu,%llu,%llu,%llu,%.0f,%.0f,%.0f,%.0f,%.2f", U64(row->lag_p50_us),
                      U64(row->lag_p99_us), U64(row->checkin_p50_us), U64(row->checkin_p99_us),
                      row->gateway.requests_total, row->gateway.connections, row->gateway.streams,
                      row->gateway.rss_bytes, row->gateway.cpu_seconds);
        (void)fprintf(file, ",%u,%llu,%llu,%llu", row->said_of, U64(row->said_offered),
                      U64(row->said_ran), U64(row->said_failed));
        const struct sim_behaviour_sums *behaviour = &row->behaviour;
        (void)fprintf(file, ",%llu,%llu,%llu,%llu,%llu", U64(behaviour->sessions),
                      U64(behaviour->events), U64(behaviour->triggered), U64(behaviour->records),
                      U64(behaviour->durable));
        for (uint32_t v = 1; v < versions; v++) {
            const struct sim_version_counters *c = &row->version[v];
            (void)fprintf(file, ",%llu,%llu,%llu,%llu,%llu,%llu,%lld", U64(c->offered),
                          U64(c->downloaded), U64(c->activated), U64(c->ran), U64(c->failed),
                          U64(c->rolled_back), (long long)c->current);
        }
        (void)fputc('\n', file);
    }
    return ferror(file) != 0 ? BASE_ERR_IO : BASE_OK;
}
