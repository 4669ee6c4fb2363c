// Choosing among candidates by estimate, then by measurement; memory of the choices. Made by
// session_search.c for one session, called by the fast backend while a plan is prepared
// (conv_search.c, gemm_choose.c, gemm_cost.c), on the planning thread. Measuring has a budget of
// time that calibrating counts against; without it, or for problems that were measured before,
// estimates or the memory decide. A win that is not clear must repeat itself, so that plans do not
// change with noise.
#include "search/search.h"

#include "base/check.h"
#include "search/search_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROBLEMS_FIRST 64u
#define FALLBACK_FLOPS 1e9

// The processor by name, so that a file carried to another machine is not believed there.
static void processor_name(char *name, size_t size)
{
    snprintf(name, size, "unknown");
    FILE *file = fopen("/proc/cpuinfo", "r");
    char line[256];
    while (file && fgets(line, sizeof line, file)) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) == 0 && colon) {
            snprintf(name, size, "%s", colon + 1 + strspn(colon + 1, " \t"));
            name[strcspn(name, "\n")] = '\0';
            break;
        }
    }
    if (file) {
        fclose(file);
    }
}

enum base_status eng_search_new(const struct eng_search_options *options,
                                struct eng_search **out_search)
{
    struct eng_search *search = calloc(1, sizeof *search);
    if (!search) {
        return BASE_ERR_NOMEM;
    }
    base_assert(options->source_count <= ENG_RATES_MAX);
    search->options = *options;
    search->wake_us = options->wake != NULL && options->threads > 1 ? -1 : 0;
    for (size_t i = 0; i < options->source_count && i < ENG_RATES_MAX; i++) {
        search->sources[i] = options->sources[i];
    }
    search->options.sources = search->sources;
    if (options->machine != NULL) {
        search->machine = *options->machine;
    }
    if (search->options.budget_us == 0) {
        search->options.budget_us = ENG_SEARCH_BUDGET_US;
    }
    char name[80];
    processor_name(name, sizeof name);
    snprintf(search->head, sizeof search->head,
             "walle-engine-search %d isa=%s threads=%u processor=%s", ENG_SEARCH_VERSION,
             options->isa ? options->isa : "none", options->threads, name);
    if (options->path) {
        search->path = strdup(options->path);
        if (!search->path) {
            eng_search_free(search);
            return BASE_ERR_NOMEM;
        }
        eng_search_file_read(search);
    }
    *out_search = search;
    return BASE_OK;
}

void eng_search_free(struct eng_search *search)
{
    if (search) {
        free(search->problems);
        free(search->path);
        free(search);
    }
}

const struct eng_machine *eng_search_machine(struct eng_search *search)
{
    if (search->machine.bytes_l2 <= 0) {
        const struct base_clock_port *clock = search->options.clock;
        uint64_t begin = clock->mono_us(clock->ctx);
        eng_machine_calibrate(clock, search->sources, search->options.source_count,
                              &search->machine);
        search->calibrate_us += clock->mono_us(clock->ctx) - begin;
        search->dirty = true;
    }
    return &search->machine;
}

const struct eng_machine *eng_search_machine_known(const struct eng_search *search)
{
    return search->machine.bytes_l2 > 0 ? &search->machine : NULL;
}

double eng_search_flops(struct eng_search *search, const char *backend)
{
    const struct eng_machine *machine = eng_search_machine(search);
    double flops = eng_machine_flops(machine, backend);
    if (flops <= 0 && machine->rate_count > 0) {
        flops = machine->rates[0].flops;
    }
    return flops > 0 ? flops : FALLBACK_FLOPS;
}

double eng_search_wake_us(struct eng_search *search)
{
    if (search->wake_us < 0) {
        search->wake_us = search->options.wake(search->options.wake_ctx);
        search->dirty = true;
    }
    return search->wake_us;
}

void eng_search_note_graph(struct eng_search *search, const struct eng_graph_cost *rows,
                           size_t count, size_t chosen, const char *why)
{
    base_assert(chosen < count && count <= ENG_RATES_MAX);
    if (search->graph_count > 0) {
        return;
    }
    search->graph_count = count < ENG_RATES_MAX ? count : ENG_RATES_MAX;
    memcpy(search->graph, rows, search->graph_count * sizeof *rows);
    search->graph_chosen = chosen;
    search->graph_why = why;
}

enum base_status eng_search_problem_add(struct eng_search *search, const char *key,
                                        struct eng_search_problem **out_problem)
{
    if (search->problem_count >= ENG_SEARCH_PROBLEMS_MAX) {
        return BASE_ERR_LIMIT;
    }
    if (search->problem_count == search->problem_capacity) {
        uint32_t capacity =
            search->problem_capacity > 0 ? search->problem_capacity * 2 : PROBLEMS_FIRST;
        struct eng_search_problem *grown = realloc(search->problems, capacity * sizeof *grown);
        if (!grown) {
            return BASE_ERR_NOMEM;
        }
        search->problems = grown;
        search->problem_capacity = capacity;
    }
    base_assert(strlen(key) < ENG_SEARCH_PROBLEM_BYTES); // a key that is cut names something else
    struct eng_search_problem *problem = &search->problems[search->problem_count++];
    memset(problem, 0, sizeof *problem);
    snprintf(problem->key, sizeof problem->key, "%s", key);
    *out_problem = problem;
    return BASE_OK;
}

static struct eng_search_problem *find_problem(struct eng_search *search, const char *key)
{
    for (uint32_t i = 0; i < search->problem_count; i++) {
        if (strcmp(search->problems[i].key, key) == 0) {
            return &search->problems[i];
        }
    }
    return NULL;
}

static bool same_candidate(const struct eng_search_row *row, const struct eng_candidate *candidate)
{
    return row->a == candidate->a && row->b == candidate->b &&
           strcmp(row->name, candidate->name) == 0;
}

// A remembered choice, if the candidates still hold it; its rows get the estimates the file lacks.
static bool recall(struct eng_search_problem *problem, const struct eng_candidate *candidates,
                   size_t count, size_t *out_index)
{
    base_assert(problem->chosen < problem->row_count);
    const struct eng_search_row *chosen = &problem->rows[problem->chosen];
    for (size_t i = 0; i < count; i++) {
        if (!same_candidate(chosen, &candidates[i])) {
            continue;
        }
        for (uint32_t r = 0; r < problem->row_count; r++) {
            for (size_t k = 0; k < count; k++) {
                if (same_candidate(&problem->rows[r], &candidates[k])) {
                    problem->rows[r].cost_us = candidates[k].cost_us;
                    problem->rows[r].extra_us = candidates[k].extra_us;
                    problem->rows[r].fixed = candidates[k].fixed;
                }
            }
        }
        *out_index = i;
        return true;
    }
    return false;
}

static void fill_rows(struct eng_search_problem *problem, const struct eng_candidate *candidates,
                      size_t count)
{
    base_assert(count > 0 && count <= ENG_SEARCH_CANDIDATES_MAX);
    problem->row_count = (uint32_t)count;
    for (size_t i = 0; i < count; i++) {
        struct eng_search_row *row = &problem->rows[i];
        *row = (struct eng_search_row){.a = candidates[i].a,
                                       .b = candidates[i].b,
                                       .cost_us = candidates[i].cost_us,
                                       .extra_us = candidates[i].extra_us,
                                       .measured_us = -1,
                                       .fixed = candidates[i].fixed,
                                       .measured_only = candidates[i].measured_only};
        snprintf(row->name, sizeof row->name, "%s", candidates[i].name);
    }
}

static double estimate(const struct eng_search_row *row)
{
    return row->cost_us + row->extra_us;
}

// Next candidate by estimate that was not tried; ROW_NONE when the rest costs over `limit`.
#define ROW_NONE UINT32_MAX
static uint32_t next_by_estimate(const struct eng_search_problem *problem, const bool *tried,
                                 double limit)
{
    uint32_t best = ROW_NONE;
    for (uint32_t i = 0; i < problem->row_count; i++) {
        bool hopeful = estimate(&problem->rows[i]) <= limit;
        if (!tried[i] && hopeful &&
            (best == ROW_NONE || estimate(&problem->rows[i]) < estimate(&problem->rows[best]))) {
            best = i;
        }
    }
    return best;
}

static void take_cheapest(struct eng_search_problem *problem)
{
    base_assert(problem->chosen < problem->row_count);
    for (uint32_t i = 0; i < problem->row_count; i++) {
        const struct eng_search_row *row = &problem->rows[i];
        const struct eng_search_row *best = &problem->rows[problem->chosen];
        if (!row->measured_only && (best->measured_only || estimate(row) < estimate(best))) {
            problem->chosen = i;
        }
    }
}

// The row that would be taken without search; ROW_NONE when the list names none.
static uint32_t fixed_row(const struct eng_search_problem *problem)
{
    for (uint32_t i = 0; i < problem->row_count; i++) {
        if (problem->rows[i].fixed) {
            return i;
        }
    }
    return ROW_NONE;
}

static double measured(const struct eng_search_row *row)
{
    return row->measured_us + row->extra_us;
}

// The fastest measured, unless the fixed choice is about as fast.
static void take_fastest(struct eng_search_problem *problem)
{
    uint32_t best = ROW_NONE;
    for (uint32_t i = 0; i < problem->row_count; i++) {
        const struct eng_search_row *row = &problem->rows[i];
        if (row->measured_us >= 0 &&
            (best == ROW_NONE || measured(row) < measured(&problem->rows[best]))) {
            best = i;
        }
    }
    base_assert(best != ROW_NONE); // one was measured at least
    const uint32_t fixed = fixed_row(problem);
    if (fixed != ROW_NONE && problem->rows[fixed].measured_us >= 0 &&
        measured(&problem->rows[best]) > measured(&problem->rows[fixed]) * ENG_SEARCH_GAIN) {
        best = fixed;
    }
    problem->chosen = best;
}

// Microseconds left for measuring candidates of this kind; 0: none. Calibrating that took longer
// than it should, on a busy machine, comes off the budget.
static uint64_t time_left(const struct eng_search *search, enum eng_search_kind kind)
{
    const uint64_t late = search->calibrate_us > ENG_CALIBRATE_MAX_US
                              ? search->calibrate_us - ENG_CALIBRATE_MAX_US
                              : 0;
    const uint64_t budget = search->options.budget_us > late ? search->options.budget_us - late : 0;
    uint64_t left = search->spent_us < budget ? budget - search->spent_us : 0;
    if (kind != ENG_SEARCH_ALGORITHM) {
        const uint64_t share = search->extras_us < ENG_SEARCH_EXTRAS_US
                                   ? (uint64_t)ENG_SEARCH_EXTRAS_US - search->extras_us
                                   : 0;
        left = share < left ? share : left;
    }
    return left;
}

// Measures a row; the better of this figure and one it has stands.
static enum base_status measure_row(struct eng_search *search, const struct eng_search_query *query,
                                    struct eng_search_problem *problem, uint32_t index,
                                    double *out_us)
{
    const struct base_clock_port *clock = search->options.clock;
    base_assert(index < query->count && problem->row_count == query->count);
    struct eng_search_row *row = &problem->rows[index];
    const uint64_t begin = clock->mono_us(clock->ctx);
    double us = 0;
    enum base_status status = query->measure(query->ctx, &query->candidates[index],
                                             begin + time_left(search, query->kind), &us);
    const uint64_t spent = clock->mono_us(clock->ctx) - begin;
    search->spent_us += spent;
    search->extras_us += query->kind != ENG_SEARCH_ALGORITHM ? spent : 0;
    if (status == BASE_OK) {
        row->measured_us = row->measured_us < 0 || us < row->measured_us ? us : row->measured_us;
        *out_us = us;
    }
    return status;
}

static bool is_steady(double first, double again)
{
    return first <= again * ENG_SEARCH_STEADY && again <= first * ENG_SEARCH_STEADY;
}

// A win that is not clear must repeat itself, on a machine that measures the same twice.
static void confirm(struct eng_search *search, const struct eng_search_query *query,
                    struct eng_search_problem *problem)
{
    const uint32_t fixed = fixed_row(problem);
    const uint32_t winner = problem->chosen;
    const bool is_extra = query->kind != ENG_SEARCH_ALGORITHM;
    base_assert(winner < problem->row_count);
    base_assert(problem->rows[winner].measured_us >= 0); // take_fastest chose it
    if (fixed == ROW_NONE || winner == fixed || problem->rows[fixed].measured_us < 0) {
        return;
    }
    const double first = problem->rows[fixed].measured_us;
    if (!is_extra &&
        measured(&problem->rows[winner]) < measured(&problem->rows[fixed]) * ENG_SEARCH_CLEAR) {
        return;
    }
    double again = 0;
    double winner_us = 0;
    if (measure_row(search, query, problem, fixed, &again) != BASE_OK ||
        measure_row(search, query, problem, winner, &winner_us) != BASE_OK ||
        !is_steady(first, again) ||
        winner_us + problem->rows[winner].extra_us > measured(&problem->rows[fixed])) {
        problem->chosen = fixed;
        return;
    }
    take_fastest(problem);
}

// Measures the best few by estimate, variants after the choice they are variants of. UNSUPPORTED
// when all refuse; TIMEOUT when time ran out before any was measured.
static enum base_status measure_rows(struct eng_search *search, struct eng_search_problem *problem,
                                     const struct eng_search_query *query)
{
    base_assert(problem->row_count <= ENG_SEARCH_CANDIDATES_MAX);
    base_assert(problem->chosen < problem->row_count);
    bool tried[ENG_SEARCH_CANDIDATES_MAX] = {false};
    const double best_cost = estimate(&problem->rows[problem->chosen]);
    const bool is_extra = query->kind != ENG_SEARCH_ALGORITHM;
    const double hopeless = is_extra ? ENG_SEARCH_EXTRA_HOPELESS : ENG_SEARCH_HOPELESS;
    enum base_status status = BASE_ERR_UNSUPPORTED;
    uint32_t count = 0;
    double us = 0;
    uint32_t row = is_extra ? fixed_row(problem) : ROW_NONE;
    if (row == ROW_NONE) {
        row = next_by_estimate(problem, tried, best_cost * hopeless);
    }
    while (row != ROW_NONE && count < ENG_SEARCH_MEASURED_MAX) {
        tried[row] = true;
        enum base_status one = time_left(search, query->kind) > 0
                                   ? measure_row(search, query, problem, row, &us)
                                   : BASE_ERR_TIMEOUT;
        count += one == BASE_OK ? 1 : 0;
        if (one == BASE_ERR_TIMEOUT) {
            status = one;
            break;
        }
        row = next_by_estimate(problem, tried, best_cost * hopeless);
    }
    if (count == 0) {
        return status;
    }
    take_fastest(problem);
    confirm(search, query, problem);
    problem->remembered = true;
    search->dirty = true;
    return BASE_OK;
}

// Measures if that is wanted and there is time; else the estimates decide, or for variants the
// fixed choice stands.
static enum base_status decide(struct eng_search *search, struct eng_search_problem *problem,
                               const struct eng_search_query *query)
{
    const uint32_t fixed = fixed_row(problem);
    problem->chosen = 0;
    problem->remembered = false;
    take_cheapest(problem);
    enum base_status status = BASE_ERR_TIMEOUT;
    if (query->measure != NULL && !search->options.model_only && query->count > 1 &&
        time_left(search, query->kind) > 0) {
        status = measure_rows(search, problem, query);
    }
    if (status == BASE_ERR_TIMEOUT && query->kind != ENG_SEARCH_ALGORITHM && fixed != ROW_NONE) {
        problem->chosen = fixed;
        problem->remembered = !search->options.model_only;
        search->dirty |= problem->remembered;
    }
    return status == BASE_ERR_TIMEOUT ? BASE_OK : status;
}

enum base_status eng_search_choose(struct eng_search *search, const struct eng_search_query *query,
                                   size_t *out_index)
{
    if (query->count == 0 || query->count > ENG_SEARCH_CANDIDATES_MAX ||
        strlen(query->problem) >= ENG_SEARCH_PROBLEM_BYTES) {
        return BASE_ERR_INVALID;
    }
    struct eng_search_problem *problem = find_problem(search, query->problem);
    if (problem != NULL && recall(problem, query->candidates, query->count, out_index)) {
        problem->uses++;
        problem->kind = query->kind;
        return BASE_OK;
    }
    if (problem == NULL) {
        BASE_TRY(eng_search_problem_add(search, query->problem, &problem));
    }
    fill_rows(problem, query->candidates, query->count);
    problem->uses++;
    problem->kind = query->kind;
    BASE_TRY(decide(search, problem, query));
    base_assert(problem->chosen < query->count);
    *out_index = problem->chosen;
    return BASE_OK;
}

void eng_search_begin(struct eng_search *search)
{
    search->spent_us = search->extras_us = search->calibrate_us = 0;
    search->graph_count = 0;
    for (uint32_t i = 0; i < search->problem_count; i++) {
        search->problems[i].uses = 0;
    }
}

uint64_t eng_search_spent_us(const struct eng_search *search)
{
    return search->spent_us;
}
