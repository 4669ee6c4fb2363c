// `walle-engine bench`: warm-up, repeated runs, median and 90th percentile, and where the time of
// those runs went by operator. Called by engine_cli_main.c, on the main thread; the session has its
// pool beside it. Times are kept one by one and sorted: no histogram rounds them.
//
// The table is of the same runs as the times. The engine times its steps in whole microseconds,
// which for a short step are 0 or 1: only their mean says how long it is. One slow run must not
// make it: the mean is over that half of the runs whose times are nearest to the median.
#include "cli/engine_cli.h"

#include "base/check.h"
#include "session/session.h"

#include <stdlib.h>
#include <string.h>

#define FEWEST_RUNS  20u   // when nobody said how many: so many, and more up to
#define MOST_RUNS    1000u // while they are done within
#define MOST_RUNS_NS 100000000u

#define TABLE_RUNS    1000u // of more runs the table takes every second, third...
#define TABLE_ROWS    256u  // pairs of operator and kernel; what goes beyond counts in the last
#define TABLE_FINE_US 100.0 // a table of less has thousandths of microseconds

struct row {
    const char *op;     // of the graph node
    const char *kernel; // of the step
    uint32_t count;     // of steps, in the last run
    double us;          // mean over the runs near the median
};

struct table {
    struct row rows[TABLE_ROWS];
    uint32_t count;
    uint32_t stride;            // run i is in the table when it divides i
    uint64_t (*us)[TABLE_ROWS]; // of each run in the table, by row. NULL: no table
};

struct sample {
    uint64_t ns;
    uint32_t run;
};

static int by_time(const void *left, const void *right)
{
    const struct sample *x = left;
    const struct sample *y = right;
    return x->ns < y->ns ? -1 : x->ns > y->ns;
}

// The row of the step; a new one if it is the first of its kind.
static uint32_t row_of(struct table *table, const struct eng_session_event *event)
{
    const char *op = event->node != NULL ? event->node->op : "-";
    const char *kernel = event->step->kernel != NULL ? event->step->kernel
                                                     : eng_atomic_text(event->step->command->op);
    uint32_t i = 0;
    for (; i < table->count; i++) {
        if (strcmp(table->rows[i].op, op) == 0 && strcmp(table->rows[i].kernel, kernel) == 0) {
            return i;
        }
    }
    if (i == TABLE_ROWS) {
        table->rows[i - 1].op = table->rows[i - 1].kernel = "(others)";
        return i - 1;
    }
    table->rows[i] = (struct row){.op = op, .kernel = kernel};
    table->count++;
    return i;
}

static void note_steps(struct table *table, const struct eng_session *session, uint32_t run)
{
    if (table->us == NULL || run % table->stride != 0) {
        return;
    }
    for (uint32_t i = 0; i < table->count; i++) {
        table->rows[i].count = 0;
    }
    size_t events = eng_session_event_count(session);
    for (size_t i = 0; i < events; i++) {
        struct eng_session_event event;
        if (eng_session_event_at(session, i, &event)) {
            uint32_t row = row_of(table, &event);
            base_assert(row < table->count);
            table->us[run / table->stride][row] += event.time.duration_us;
            table->rows[row].count++;
        }
    }
}

// Whether run `run`, which comes next, is one too many.
static bool is_enough(const struct eng_cli *cli, uint32_t run, uint64_t begin_ns)
{
    if (cli->repeat > 0) {
        return run >= cli->repeat;
    }
    return run >= MOST_RUNS || (run >= FEWEST_RUNS && eng_cli_now_ns() - begin_ns >= MOST_RUNS_NS);
}

// Sets cli->repeat to the number of runs.
static enum base_status measure(struct eng_cli *cli, struct eng_session *session,
                                struct sample *samples, struct table *table,
                                struct base_error *error)
{
    BASE_TRY(eng_session_prepare(session, error));
    for (uint32_t i = 0; i < cli->warmup; i++) {
        BASE_TRY(eng_session_run(session, NULL, error));
    }
    uint32_t run = 0;
    for (uint64_t first_ns = eng_cli_now_ns(); !is_enough(cli, run, first_ns); run++) {
        uint64_t begin_ns = eng_cli_now_ns();
        BASE_TRY(eng_session_run(session, NULL, error));
        base_assert(run < (cli->repeat > 0 ? cli->repeat : MOST_RUNS));
        samples[run] = (struct sample){.ns = eng_cli_now_ns() - begin_ns, .run = run};
        note_steps(table, session, run);
    }
    base_assert(run > 0);
    cli->repeat = run;
    qsort(samples, run, sizeof *samples, by_time);
    return BASE_OK;
}

static void print_summary(const struct eng_cli *cli, const struct eng_session *session,
                          const struct sample *samples)
{
    struct eng_session_stats stats;
    eng_session_stats(session, &stats);
    printf("isa %s, %u thread%s, %u run%s\n", stats.isa,
           cli->session.threads == 0 ? 1 : cli->session.threads,
           cli->session.threads > 1 ? "s" : "", cli->repeat, cli->repeat > 1 ? "s" : "");
    int digits = eng_cli_ms_digits(samples[0].ns);
    printf("min %.*f ms  median %.*f ms  p90 %.*f ms  max %.*f ms\n", digits,
           (double)samples[0].ns / 1e6, digits, (double)samples[cli->repeat / 2].ns / 1e6, digits,
           (double)samples[cli->repeat * 9 / 10].ns / 1e6, digits,
           (double)samples[cli->repeat - 1].ns / 1e6);
    printf("plan %.3f ms (search %.3f ms), %u nodes, %u commands (%u rasters), %u segment%s\n",
           (double)stats.plan_us / 1000, (double)stats.search_us / 1000, stats.node_count,
           stats.command_count, stats.raster_count, stats.segment_count,
           stats.segment_count == 1 ? "" : "s");
    printf("memory: activations %.2f MiB (%.2f without reuse), packed weights %.2f MiB\n",
           (double)stats.arena_bytes / (1 << 20), (double)stats.activation_bytes / (1 << 20),
           (double)stats.packed_bytes / (1 << 20));
}

// --- table of operators --------------------------------------------------------------------------

static int by_share(const void *left, const void *right)
{
    const struct row *x = left;
    const struct row *y = right;
    return x->us < y->us ? 1 : x->us > y->us ? -1 : 0;
}

// Where the half of the sorted samples begins that is nearest to their median.
static uint32_t near_median(const struct sample *samples, uint32_t count, uint32_t half)
{
    base_assert(count > 0 && half > 0 && half <= count);
    uint64_t median = samples[count / 2].ns;
    uint32_t first = count / 2;
    for (uint32_t size = 1; size < half; size++) {
        bool is_above = first == 0 || (first + size < count && samples[first + size].ns - median <
                                                                   median - samples[first - 1].ns);
        first -= is_above ? 0 : 1;
    }
    base_assert(first + half <= count);
    return first;
}

// Makes the means of the rows; returns how many runs they are of.
static uint32_t average(struct table *table, const struct sample *samples, uint32_t count)
{
    uint32_t half = count - count / 2;
    uint32_t first = near_median(samples, count, half);
    uint32_t runs = 0;
    for (uint32_t i = first; i < first + half; i++) {
        if (samples[i].run % table->stride != 0) {
            continue;
        }
        for (uint32_t row = 0; row < table->count; row++) {
            table->rows[row].us += (double)table->us[samples[i].run / table->stride][row];
        }
        runs++;
    }
    for (uint32_t row = 0; runs > 0 && row < table->count; row++) {
        table->rows[row].us /= runs;
    }
    return runs;
}

// The total of a table and how it is printed.
struct total {
    double us;
    double least_us; // one microsecond in one of the runs: what took less took none
    int digits;
};

static void print_time(double us, const struct total *total)
{
    if (us > 0) {
        printf("%10.*f %5.1f%%", total->digits, us, 100.0 * us / total->us);
    } else {
        char text[16];
        (void)snprintf(text, sizeof text, "<%.*f", total->digits, total->least_us);
        printf("%10s %6s", text, "-");
    }
}

static void print_operators(const struct eng_cli *cli, struct table *table,
                            const struct sample *samples)
{
    uint32_t runs = average(table, samples, cli->repeat);
    struct total total = {.least_us = runs > 0 ? 1.0 / runs : 0};
    uint32_t steps = 0;
    for (uint32_t i = 0; i < table->count; i++) {
        total.us += table->rows[i].us;
        steps += table->rows[i].count;
    }
    total.digits = total.us < TABLE_FINE_US ? 3 : 1;
    qsort(table->rows, table->count, sizeof table->rows[0], by_share);
    printf("\nby operator, the mean of %u of these runs, those nearest to the median:\n", runs);
    printf("%10s %6s %6s  %-22s %s\n", "us", "share", "count", "operator", "kernel");
    for (uint32_t i = 0; i < table->count && i < cli->top; i++) {
        const struct row *row = &table->rows[i];
        print_time(row->us, &total);
        printf(" %6u  %-22s %s\n", row->count, row->op, row->kernel);
    }
    print_time(total.us, &total);
    printf(" %6u  all\n", steps);
}

// --- the command ---------------------------------------------------------------------------------

static enum base_status bench(struct eng_cli *cli, struct eng_session *session,
                              struct base_error *error)
{
    size_t most = cli->repeat > 0 ? cli->repeat : MOST_RUNS;
    struct sample *samples = base_arena_zalloc(&cli->arena, most * sizeof *samples);
    struct table *table = base_arena_zalloc(&cli->arena, sizeof *table);
    if (samples == NULL || table == NULL) {
        return BASE_ERR_NOMEM;
    }
    base_assert(most > 0 && most <= ENG_CLI_REPEAT_MAX);
    table->stride = (uint32_t)((most - 1) / TABLE_RUNS + 1);
    if (cli->top > 0) {
        size_t kept = (most - 1) / table->stride + 1;
        table->us = base_arena_zalloc(&cli->arena, kept * sizeof *table->us);
        if (table->us == NULL) {
            return BASE_ERR_NOMEM;
        }
    }
    BASE_TRY(measure(cli, session, samples, table, error));
    print_summary(cli, session, samples);
    if (table->us != NULL) {
        print_operators(cli, table, samples);
    }
    return cli->trace != NULL ? eng_session_trace(session, cli->trace, error) : BASE_OK;
}

int eng_cli_bench(struct eng_cli *cli)
{
    cli->is_random = true; // contents do not matter
    struct eng_model *model = eng_cli_model(cli->words[0], NULL);
    if (model == NULL) {
        return ENG_CLI_FAILED;
    }
    cli->session.trace = cli->top > 0 || cli->trace != NULL;
    struct eng_session *session = eng_cli_session(model, &cli->session);
    int code = ENG_CLI_FAILED;
    if (session != NULL && eng_cli_set_inputs(cli, model, session) == BASE_OK) {
        struct base_error error = {0};
        error.status = bench(cli, session, &error);
        code = error.status == BASE_OK ? ENG_CLI_OK : eng_cli_complain(cli->words[0], &error);
    }
    eng_session_free(session);
    eng_model_unref(model);
    return code;
}
