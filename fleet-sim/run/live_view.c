// Drawing of the live view: a few lines redrawn in place on a terminal, one line every
// LINE_EVERY_US of the reader's time elsewhere. Called once a second by fleet_run.c, on the
// coordinator's thread. Everything is read from the last row of the timeline and the view of the
// gateway; rates are the difference to the row drawn before.
#include "run/live_view.h"

#include "base/text/terminal.h"
#include "report/latency_text.h"

#include <string.h>

#define LINE_EVERY_US 2000000u
#define BAR_WIDTH     40

void sim_live_init(struct sim_live *live, FILE *file, bool allowed,
                   const struct base_clock_port *clock)
{
    memset(live, 0, sizeof(*live));
    live->file = file;
    live->clock = clock;
    live->terminal = allowed && base_terminal_is(file);
}

static double rate(double now, double before, double span_s)
{
    return span_s > 0 ? (now - before) / span_s : 0;
}

static void bar(FILE *file, double share)
{
    uint32_t filled = share > 0 ? (uint32_t)(share * BAR_WIDTH + 0.5) : 0;
    for (uint32_t i = 0; i < BAR_WIDTH; i++) {
        (void)fputs(i < filled ? "#" : "-", file);
    }
}

// Clears what an earlier, longer line left behind.
static void end_line(FILE *file)
{
    base_terminal_control(file, "\033[K");
    (void)fputc('\n', file);
}

static uint32_t draw_versions(struct sim_live *live, const struct sim_options *options,
                              const struct sim_row *row, struct sim_versions *versions)
{
    uint32_t count = sim_versions_count(versions);
    uint32_t lines = 0;
    double span_s = row->t_s - live->last.t_s;
    for (uint32_t v = 1; v < count && v < SIM_ROW_VERSIONS; v++) {
        struct sim_version version = sim_versions_get(versions, (uint8_t)v);
        const struct sim_version_counters *c = &row->version[v];
        if (c->offered == 0) {
            continue;
        }
        char name[SIM_LABEL_MAX];
        sim_version_name(&version, name);
        double share = c->current > 0 ? (double)c->current / options->devices : 0;
        (void)fprintf(live->file, "  %-10.10s [", name);
        bar(live->file, share);
        (void)fprintf(live->file,
                      "] %6.2f %%  %llu run it, %llu ran, %.0f/s, %llu failed, %llu back%s",
                      share * 100, (unsigned long long)(c->current > 0 ? c->current : 0),
                      (unsigned long long)c->ran,
                      rate((double)c->ran, (double)live->last.version[v].ran, span_s),
                      (unsigned long long)c->failed, (unsigned long long)c->rolled_back,
                      version.bad ? "  (bad)" : "");
        end_line(live->file);
        lines++;
    }
    return lines;
}

// Devices that came up are online when the gateway answers check-ins.
static const char *are(const struct sim_options *options, const struct sim_row *row)
{
    return options->local || row->checkins > 0 ? "online" : "none online, up";
}

// Without those that the gateway gave no credential: they ask for one still.
static uint64_t online(const struct sim_options *options, const struct sim_row *row)
{
    bool any = options->local || row->checkins > 0;
    return row->arrived - (any ? row->unenrolled : 0);
}

static void draw_terminal(struct sim_live *live, const struct sim_options *options,
                          const struct sim_row *row, const struct sim_watch_view *watch,
                          struct sim_versions *versions)
{
    if (live->lines > 0) {
        char move[32];
        (void)snprintf(move, sizeof(move), "\033[%uA", live->lines);
        base_terminal_control(live->file, move);
    }
    double span_s = row->t_s - live->last.t_s;
    (void)fprintf(live->file, "%6.0f s  %s %llu of %u, %llu awake, %llu connections", row->t_s,
                  are(options, row), (unsigned long long)online(options, row), options->devices,
                  (unsigned long long)row->awake, (unsigned long long)row->links_up);
    end_line(live->file);
    uint32_t lines = 1;
    if (watch != NULL && watch->known) {
        (void)fprintf(live->file, "  %s %s: %s, stage %s (%.4g %%), %s, failures %.2f %%",
                      watch->task, watch->version, watch->state, watch->stage, watch->percent,
                      watch->verdict, watch->failure_ratio * 100);
        end_line(live->file);
        lines++;
    }
    lines += draw_versions(live, options, row, versions);
    if (row->no_room > 0) {
        (void)fprintf(live->file, "  no room for the task followed on %llu devices (--tasks)",
                      (unsigned long long)row->no_room);
        end_line(live->file);
        lines++;
    }
    char p50[SIM_LATENCY_TEXT_MAX];
    char p99[SIM_LATENCY_TEXT_MAX];
    char lag[SIM_LATENCY_TEXT_MAX];
    (void)fprintf(live->file,
                  "  check-ins %.0f/s, requests %.0f/s, errors %.0f/s   check-in p50 %s p99 %s   "
                  "lag p99 %s",
                  rate((double)row->checkins, (double)live->last.checkins, span_s),
                  rate((double)row->requests, (double)live->last.requests, span_s),
                  rate((double)row->request_errors, (double)live->last.request_errors, span_s),
                  sim_latency_text(row->checkin_p50_us, p50),
                  sim_latency_text(row->checkin_p99_us, p99),
                  sim_latency_text(row->lag_p99_us, lag));
    end_line(live->file);
    lines++;
    if (row->gateway.requests_total >= 0) {
        (void)fprintf(live->file, "  gateway: %.0f requests/s, %.0f connections, %.0f MiB",
                      rate(row->gateway.requests_total, live->last.gateway.requests_total, span_s),
                      row->gateway.connections, row->gateway.rss_bytes / 1048576);
        end_line(live->file);
        lines++;
    }
    // A line fewer than last time would leave an old one behind.
    base_terminal_control(live->file, "\033[J");
    live->lines = lines;
}

static void draw_line(struct sim_live *live, const struct sim_options *options,
                      const struct sim_row *row, const struct sim_watch_view *watch,
                      struct sim_versions *versions)
{
    (void)fprintf(live->file, "%.0f s: %s %llu, awake %llu", row->t_s, are(options, row),
                  (unsigned long long)online(options, row), (unsigned long long)row->awake);
    uint32_t count = sim_versions_count(versions);
    for (uint32_t v = 1; v < count && v < SIM_ROW_VERSIONS; v++) {
        const struct sim_version_counters *c = &row->version[v];
        struct sim_version version = sim_versions_get(versions, (uint8_t)v);
        if (c->offered > 0) {
            char name[SIM_LABEL_MAX];
            sim_version_name(&version, name);
            (void)fprintf(live->file, ", %s: %lld run it, %llu failed", name, (long long)c->current,
                          (unsigned long long)c->failed);
        }
    }
    if (watch != NULL && watch->known) {
        (void)fprintf(live->file, ", rollout %016llx of %s %s %s at %s",
                      (unsigned long long)watch->rollout, watch->task, watch->version, watch->state,
                      watch->stage);
    }
    if (row->no_room > 0) {
        (void)fprintf(live->file, ", no room for it on %llu (--tasks)",
                      (unsigned long long)row->no_room);
    }
    char p99[SIM_LATENCY_TEXT_MAX];
    char lag[SIM_LATENCY_TEXT_MAX];
    (void)fprintf(live->file, ", lately: check-in p99 %s, lag p99 %s; errors %llu\n",
                  sim_latency_text(row->checkin_p99_us, p99),
                  sim_latency_text(row->lag_p99_us, lag), (unsigned long long)row->request_errors);
}

void sim_live_draw(struct sim_live *live, const struct sim_options *options,
                   const struct sim_row *row, const struct sim_watch_view *watch,
                   struct sim_versions *versions)
{
    uint64_t now_us = live->clock->mono_us(live->clock->ctx);
    if (live->terminal) {
        draw_terminal(live, options, row, watch, versions);
    } else if (now_us >= live->next_line_us) {
        live->next_line_us = now_us + LINE_EVERY_US;
        draw_line(live, options, row, watch, versions);
    }
    (void)fflush(live->file);
    live->last = *row;
}

void sim_live_done(struct sim_live *live)
{
    (void)fflush(live->file);
}
