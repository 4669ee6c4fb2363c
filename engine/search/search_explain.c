// The search as a table for people (`--explain`): the machine's rates, the graph on each backend,
// and for each problem its candidates with estimate, measurement and choice. Called by
// session_search.c after a plan, on the planning thread. It reads what search.c has kept and
// changes nothing.
#include "search/search_state.h"

#include "base/check.h"

struct totals {
    double chosen, worst, fixed;
};

static void count_problem(const struct eng_search_problem *problem, struct totals *totals)
{
    base_assert(problem->chosen < problem->row_count);
    double chosen = problem->rows[problem->chosen].measured_us;
    if (chosen < 0) {
        return;
    }
    double worst = chosen;
    double fixed = chosen;
    for (uint32_t r = 0; r < problem->row_count; r++) {
        const struct eng_search_row *row = &problem->rows[r];
        worst = row->measured_us > worst ? row->measured_us : worst;
        fixed = row->fixed && row->measured_us >= 0 ? row->measured_us : fixed;
    }
    if (problem->kind == ENG_SEARCH_VARIANT) {
        // Its fixed choice is what another problem chose, and counted there.
        totals->chosen -= (fixed - chosen) * problem->uses;
        totals->worst += (worst - fixed) * problem->uses;
        return;
    }
    totals->chosen += chosen * problem->uses;
    totals->worst += worst * problem->uses;
    totals->fixed += fixed * problem->uses;
}

static enum base_status explain_problem(const struct eng_search_problem *problem,
                                        struct base_buffer *out)
{
    BASE_TRY(base_buffer_printf(out, "%s  x%u\n", problem->key, problem->uses));
    for (uint32_t r = 0; r < problem->row_count; r++) {
        const struct eng_search_row *row = &problem->rows[r];
        BASE_TRY(base_buffer_printf(out, "  %c %-22s %6u %6u", r == problem->chosen ? '*' : ' ',
                                    row->name, row->a, row->b));
        BASE_TRY(row->cost_us >= 0 ? base_buffer_printf(out, " %12.1f", row->cost_us)
                                   : base_buffer_printf(out, " %12s", "-"));
        BASE_TRY(row->measured_us >= 0 ? base_buffer_printf(out, " %12.1f", row->measured_us)
                                       : base_buffer_printf(out, " %12s", "-"));
        BASE_TRY(base_buffer_printf(out, "%s\n", row->fixed ? "  fixed" : ""));
    }
    return BASE_OK;
}

static enum base_status explain_machine(const struct eng_search *search, struct base_buffer *out)
{
    const struct eng_machine *machine = &search->machine;
    BASE_TRY(base_buffer_printf(out, "machine (one core):"));
    for (uint32_t i = 0; i < machine->rate_count; i++) {
        BASE_TRY(base_buffer_printf(out, " %s %.1f,", machine->rates[i].name,
                                    machine->rates[i].flops / 1e9));
    }
    BASE_TRY(base_buffer_printf(out, " GFLOP/s; L2 %.1f, L3 %.1f, memory %.1f GB/s",
                                machine->bytes_l2 / 1e9, machine->bytes_l3 / 1e9,
                                machine->bytes_memory / 1e9));
    if (search->wake_us > 0) {
        BASE_TRY(base_buffer_printf(out, "; waking %u threads %.1f us", search->options.threads,
                                    search->wake_us));
    }
    return base_buffer_printf(out, "\n");
}

// The graph on each backend, copies included.
static enum base_status explain_graph(const struct eng_search *search, struct base_buffer *out)
{
    if (search->graph_count == 0) {
        return BASE_OK;
    }
    base_assert(search->graph_chosen < search->graph_count);
    BASE_TRY(base_buffer_printf(out, "graph, estimated us\n  %-12s %12s %12s %12s %12s %12s\n",
                                "backend", "compute", "copies", "other", "reference", "total"));
    double worst = 0;
    for (size_t i = 0; i < search->graph_count; i++) {
        const struct eng_graph_cost *row = &search->graph[i];
        worst = row->total_us > worst ? row->total_us : worst;
        BASE_TRY(base_buffer_printf(out, "%c %-12s %12.1f %12.1f %12.1f %12.1f %12.1f\n",
                                    i == search->graph_chosen ? '*' : ' ', row->backend,
                                    row->compute_us, row->copies_us, row->other_us,
                                    row->fallback_us, row->total_us));
    }
    return base_buffer_printf(out, "backend %s: %s (%.1f us less than the worst)\n",
                              search->graph[search->graph_chosen].backend, search->graph_why,
                              worst - search->graph[search->graph_chosen].total_us);
}

enum base_status eng_search_explain(const struct eng_search *search, struct base_buffer *out)
{
    BASE_TRY(explain_machine(search, out));
    BASE_TRY(explain_graph(search, out));
    BASE_TRY(base_buffer_printf(out, "  %-24s %6s %6s %12s %12s\n", "candidate", "a", "b",
                                "estimate us", "measured us"));
    struct totals totals = {0};
    for (uint32_t i = 0; i < search->problem_count; i++) {
        if (search->problems[i].uses > 0) {
            BASE_TRY(explain_problem(&search->problems[i], out));
            count_problem(&search->problems[i], &totals);
        }
    }
    return base_buffer_printf(
        out,
        "measured choices: %.1f us chosen, %.1f us fixed choice (%.1f saved), "
        "%.1f us worst measured (%.1f saved); %.1f ms spent measuring, %.1f ms calibrating\n",
        totals.chosen, totals.fixed, totals.fixed - totals.chosen, totals.worst,
        totals.worst - totals.chosen, (double)search->spent_us / 1000.0,
        (double)search->calibrate_us / 1000.0);
}
