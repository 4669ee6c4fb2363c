// Choosing among candidates by estimate, then by measurement; memory of the choices. Called by the
// backends while a plan is prepared, on the planning thread.
#include "search/search.h"

#include "search/search_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROBLEMS_FIRST 64u

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
    search->options = *options;
    if (search->options.budget_us == 0) {
        search->options.budget_us = ENG_SEARCH_BUDGET_US;
    }
    char name[80];
    processor_name(name, sizeof name);
    snprintf(search->head, sizeof search->head,
             "walle-engine-search 1 isa=%s threads=%u processor=%s",
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
    if (search->machine.flops_f32 <= 0) {
        eng_machine_calibrate(search->options.clock, search->options.flops,
                              search->options.flops_ctx, &search->machine);
        search->dirty = true;
    }
    return &search->machine;
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
    problem->row_count = (uint32_t)count;
    for (size_t i = 0; i < count; i++) {
        struct eng_search_row *row = &problem->rows[i];
        *row = (struct eng_search_row){.a = candidates[i].a,
                                       .b = candidates[i].b,
                                       .cost_us = candidates[i].cost_us,
                                       .extra_us = candidates[i].extra_us,
                                       .measured_us = -1,
                                       .fixed = candidates[i].fixed};
        snprintf(row->name, sizeof row->name, "%s", candidates[i].name);
    }
}

static double estimate(const struct eng_search_row *row)
{
    return row->cost_us + row->extra_us;
}

// Next candidate by estimate that was not tried; ROW_NONE when the rest is hopeless.
#define ROW_NONE UINT32_MAX
static uint32_t next_by_estimate(const struct eng_search_problem *problem, const bool *tried,
                                 double best_cost)
{
    uint32_t best = ROW_NONE;
    for (uint32_t i = 0; i < problem->row_count; i++) {
        bool hopeful = estimate(&problem->rows[i]) <= best_cost * ENG_SEARCH_HOPELESS;
        if (!tried[i] && hopeful &&
            (best == ROW_NONE || estimate(&problem->rows[i]) < estimate(&problem->rows[best]))) {
            best = i;
        }
    }
    return best;
}

static void take_cheapest(struct eng_search_problem *problem)
{
    for (uint32_t i = 0; i < problem->row_count; i++) {
        if (estimate(&problem->rows[i]) < estimate(&problem->rows[problem->chosen])) {
            problem->chosen = i;
        }
    }
}

// Measures the best few by estimate. UNSUPPORTED when all refuse.
static enum base_status measure_rows(struct eng_search *search, struct eng_search_problem *problem,
                                     const struct eng_candidate *candidates, eng_measure_fn measure,
                                     void *ctx)
{
    const struct base_clock_port *clock = search->options.clock;
    bool tried[ENG_SEARCH_CANDIDATES_MAX] = {false};
    double best_cost = estimate(&problem->rows[problem->chosen]);
    uint32_t measured = 0;
    double best_us = 0;
    for (uint32_t row; measured < ENG_SEARCH_MEASURED_MAX &&
                       (row = next_by_estimate(problem, tried, best_cost)) != ROW_NONE;) {
        tried[row] = true;
        if (measured > 0 && search->spent_us >= search->options.budget_us) {
            break;
        }
        double us = 0;
        uint64_t begin = clock->mono_us(clock->ctx);
        enum base_status status = measure(ctx, &candidates[row], &us);
        search->spent_us += clock->mono_us(clock->ctx) - begin;
        if (status != BASE_OK) {
            continue;
        }
        problem->rows[row].measured_us = us;
        if (measured == 0 || us + problem->rows[row].extra_us < best_us) {
            problem->chosen = row;
            best_us = us + problem->rows[row].extra_us;
        }
        measured++;
    }
    problem->remembered = measured > 0;
    search->dirty |= problem->remembered;
    return measured > 0 ? BASE_OK : BASE_ERR_UNSUPPORTED;
}

enum base_status eng_search_choose(struct eng_search *search, const char *problem_key,
                                   const struct eng_candidate *candidates, size_t count,
                                   eng_measure_fn measure, void *ctx, size_t *out_index)
{
    if (count == 0 || count > ENG_SEARCH_CANDIDATES_MAX ||
        strlen(problem_key) >= ENG_SEARCH_PROBLEM_BYTES) {
        return BASE_ERR_INVALID;
    }
    struct eng_search_problem *problem = find_problem(search, problem_key);
    if (problem && recall(problem, candidates, count, out_index)) {
        problem->uses++;
        return BASE_OK;
    }
    if (!problem) {
        BASE_TRY(eng_search_problem_add(search, problem_key, &problem));
    }
    fill_rows(problem, candidates, count);
    problem->uses++;
    problem->chosen = 0;
    problem->remembered = false;
    take_cheapest(problem);
    bool may_measure = measure && !search->options.model_only && count > 1 &&
                       search->spent_us < search->options.budget_us;
    if (may_measure) {
        BASE_TRY(measure_rows(search, problem, candidates, measure, ctx));
    }
    *out_index = problem->chosen;
    return BASE_OK;
}

void eng_search_begin(struct eng_search *search)
{
    search->spent_us = 0;
    for (uint32_t i = 0; i < search->problem_count; i++) {
        search->problems[i].uses = 0;
    }
}

uint64_t eng_search_spent_us(const struct eng_search *search)
{
    return search->spent_us;
}
