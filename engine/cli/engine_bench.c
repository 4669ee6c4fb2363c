// `walle-engine bench`: warm-up, repeated runs, median and 90th percentile, and where the time goes
// by operator. Called by engine_cli_main.c, on the main thread; the session has its pool beside it.
// The operators' times are those of one more session that traces, so that tracing does not slow
// what is reported above them. Times are kept one by one and sorted: no histogram rounds them.
#include "cli/engine_cli.h"

#include "base/clock.h"
#include "session/session.h"

#include <stdlib.h>
#include <string.h>

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static enum base_status measure(struct eng_cli *cli, struct eng_session *session, uint64_t *times,
                                struct base_error *error)
{
    for (uint32_t i = 0; i < cli->warmup; i++) {
        BASE_TRY(eng_session_run(session, NULL, error));
    }
    for (uint32_t i = 0; i < cli->repeat; i++) {
        uint64_t begin_us = base_clock_mono_us();
        BASE_TRY(eng_session_run(session, NULL, error));
        times[i] = base_clock_mono_us() - begin_us;
    }
    qsort(times, cli->repeat, sizeof *times, by_number);
    return BASE_OK;
}

static void print_summary(const struct eng_cli *cli, const struct eng_session *session,
                          const uint64_t *times)
{
    struct eng_session_stats stats;
    eng_session_stats(session, &stats);
    printf("isa %s, %u thread%s, %u runs\n", stats.isa,
           cli->session.threads == 0 ? 1 : cli->session.threads,
           cli->session.threads > 1 ? "s" : "", cli->repeat);
    printf("min %.3f ms  median %.3f ms  p90 %.3f ms  max %.3f ms\n", (double)times[0] / 1000,
           (double)times[cli->repeat / 2] / 1000, (double)times[cli->repeat * 9 / 10] / 1000,
           (double)times[cli->repeat - 1] / 1000);
    printf("plan %.3f ms (search %.3f ms), %u nodes, %u commands (%u rasters), %u segment%s\n",
           (double)stats.plan_us / 1000, (double)stats.search_us / 1000, stats.node_count,
           stats.command_count, stats.raster_count, stats.segment_count,
           stats.segment_count == 1 ? "" : "s");
    printf("memory: activations %.2f MiB (%.2f without reuse), packed weights %.2f MiB\n",
           (double)stats.arena_bytes / (1 << 20), (double)stats.activation_bytes / (1 << 20),
           (double)stats.packed_bytes / (1 << 20));
}

// --- table of operators --------------------------------------------------------------------------

struct row {
    const char *op;     // of the graph node
    const char *kernel; // of the step
    uint64_t us;
    uint32_t count;
};

static int by_time(const void *a, const void *b)
{
    const struct row *x = a;
    const struct row *y = b;
    return x->us < y->us ? 1 : x->us > y->us ? -1 : 0;
}

static void add_event(struct row *rows, size_t *count, const struct eng_session_event *event)
{
    const char *op = event->node != NULL ? event->node->op : "-";
    const char *kernel = event->step->kernel != NULL ? event->step->kernel
                                                     : eng_atomic_text(event->step->command->op);
    struct row *row = rows;
    for (; row < rows + *count; row++) {
        if (strcmp(row->op, op) == 0 && strcmp(row->kernel, kernel) == 0) {
            break;
        }
    }
    if (row == rows + *count) {
        *row = (struct row){.op = op, .kernel = kernel};
        (*count)++;
    }
    row->us += event->time.duration_us;
    row->count++;
}

static enum base_status print_operators(struct eng_cli *cli, struct eng_session *session)
{
    size_t events = eng_session_event_count(session);
    struct row *rows = base_arena_zalloc(&cli->arena, (events + 1) * sizeof *rows);
    if (rows == NULL) {
        return BASE_ERR_NOMEM;
    }
    size_t count = 0;
    uint64_t total_us = 0;
    for (size_t i = 0; i < events; i++) {
        struct eng_session_event event;
        if (eng_session_event_at(session, i, &event)) {
            add_event(rows, &count, &event);
            total_us += event.time.duration_us;
        }
    }
    qsort(rows, count, sizeof *rows, by_time);
    printf("\n%10s %6s %6s  %-22s %s\n", "us", "share", "count", "operator", "kernel");
    for (size_t i = 0; i < count && i < cli->top; i++) {
        printf("%10llu %5.1f%% %6u  %-22s %s\n", (unsigned long long)rows[i].us,
               total_us == 0 ? 0.0 : 100.0 * (double)rows[i].us / (double)total_us, rows[i].count,
               rows[i].op, rows[i].kernel);
    }
    return BASE_OK;
}

// A second session that traces; its first run warms up.
static int profile(struct eng_cli *cli, struct eng_model *model)
{
    struct eng_session_options options = cli->session;
    options.trace = true;
    struct eng_session *session = eng_cli_session(model, &options);
    int code = ENG_CLI_FAILED;
    if (session != NULL && eng_cli_set_inputs(cli, model, session) == BASE_OK) {
        struct base_error error = {0};
        error.status = eng_session_run(session, NULL, &error);
        if (error.status == BASE_OK) {
            error.status = eng_session_run(session, NULL, &error);
        }
        if (error.status == BASE_OK) {
            error.status = print_operators(cli, session);
        }
        if (error.status == BASE_OK && cli->trace != NULL) {
            error.status = eng_session_trace(session, cli->trace, &error);
        }
        code = error.status == BASE_OK ? ENG_CLI_OK : eng_cli_complain(cli->words[0], &error);
    }
    eng_session_free(session);
    return code;
}

int eng_cli_bench(struct eng_cli *cli)
{
    cli->is_random = true; // contents do not matter
    struct eng_model *model = eng_cli_model(cli->words[0], NULL);
    if (model == NULL) {
        return ENG_CLI_FAILED;
    }
    struct eng_session *session = eng_cli_session(model, &cli->session);
    uint64_t *times = base_arena_zalloc(&cli->arena, cli->repeat * sizeof *times);
    int code = ENG_CLI_FAILED;
    if (session != NULL && times != NULL && eng_cli_set_inputs(cli, model, session) == BASE_OK) {
        struct base_error error = {0};
        error.status = measure(cli, session, times, &error);
        code = error.status == BASE_OK ? ENG_CLI_OK : eng_cli_complain(cli->words[0], &error);
    }
    if (code == ENG_CLI_OK) {
        print_summary(cli, session, times);
    }
    eng_session_free(session);
    if (code == ENG_CLI_OK && cli->top > 0) {
        code = profile(cli, model);
    }
    eng_model_unref(model);
    return code;
}
