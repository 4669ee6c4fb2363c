// The search as a table for people. Planning thread only.
#include "search/search_state.h"

struct totals {
    double chosen, worst, fixed;
};

static void count_problem(const struct eng_search_problem *problem, struct totals *totals)
{
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

enum base_status eng_search_explain(const struct eng_search *search, struct base_buffer *out)
{
    const struct eng_machine *machine = &search->machine;
    BASE_TRY(base_buffer_printf(
        out,
        "machine: %.1f GFLOP/s, L2 %.1f GB/s, L3 %.1f GB/s, memory %.1f GB/s (one core)\n"
        "  %-24s %6s %6s %12s %12s\n",
        machine->flops_f32 / 1e9, machine->bytes_l2 / 1e9, machine->bytes_l3 / 1e9,
        machine->bytes_memory / 1e9, "candidate", "a", "b", "estimate us", "measured us"));
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
        "%.1f us worst measured (%.1f saved); %.1f ms spent measuring\n",
        totals.chosen, totals.fixed, totals.fixed - totals.chosen, totals.worst,
        totals.worst - totals.chosen, (double)search->spent_us / 1000.0);
}
