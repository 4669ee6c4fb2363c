// The file of remembered choices, and of the machine's rates. Read by search.c when a search is
// made, written by session_search.c after a plan that learned something; on the planning thread. A
// file that cannot be read is as good as none, and it is replaced whole (base/os/output_file.h), so
// two processes that share it lose each other's news at worst. Its format is below.
#include "search/search_state.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/os/output_file.h"
#include "base/os/regular_file.h"
#include "base/str.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The file of remembered choices. The first line names version and machine; a file of another
// version, processor, instruction set or number of threads counts as empty. Then its rates (MB/s,
// the cost of waking threads in nanoseconds, 0: not known; MFLOP/s of each backend):
//
//   machine <tab> L2 <tab> L3 <tab> memory <tab> wake
//   rate <tab> BACKEND <tab> MFLOP/s
//
// and one line a measured candidate, those of one problem next to each other:
//
//   PROBLEM <tab> NAME <tab> a <tab> b <tab> nanoseconds <tab> chosen
//
// Nanoseconds are 0 for a choice made without measuring it. Reading stops at the first line that is
// none of these.

#define FIELDS         6
#define MACHINE_FIELDS 5
#define RATE_FIELDS    3
#define RATE_WORD      "rate\t"
#define RATE_MAX       1000000000u // MB/s, MFLOP/s or nanoseconds

static bool split(char *line, char *fields[], int count)
{
    for (int i = 0; i < count; i++) {
        fields[i] = line;
        size_t length = strcspn(line, "\t");
        if ((line[length] == '\0') != (i == count - 1)) {
            return false;
        }
        line[length] = '\0';
        line += length + 1;
    }
    return true;
}

static bool number(const char *text, uint64_t max, uint64_t *out)
{
    return base_str_u64(base_str_of(text), out) == BASE_OK && *out <= max;
}

static bool take_machine(struct eng_search *search, char *line)
{
    char *fields[MACHINE_FIELDS];
    uint64_t rates[MACHINE_FIELDS] = {0};
    if (!split(line, fields, MACHINE_FIELDS) || strcmp(fields[0], "machine") != 0) {
        return false;
    }
    for (int i = 1; i < MACHINE_FIELDS; i++) {
        if (!number(fields[i], RATE_MAX, &rates[i]) || (rates[i] == 0 && i != 4)) {
            return false;
        }
    }
    search->machine = (struct eng_machine){.bytes_l2 = (double)rates[1] * 1e6,
                                           .bytes_l3 = (double)rates[2] * 1e6,
                                           .bytes_memory = (double)rates[3] * 1e6,
                                           .call_us = ENG_MACHINE_CALL_US};
    if (rates[4] > 0 && search->options.threads > 1) {
        search->wake_us = (double)rates[4] / 1000.0;
    }
    return true;
}

static bool take_rate(struct eng_search *search, char *line)
{
    char *fields[RATE_FIELDS];
    uint64_t mflops;
    struct eng_machine *machine = &search->machine;
    if (!split(line, fields, RATE_FIELDS) || strlen(fields[1]) >= ENG_RATE_NAME_BYTES ||
        !number(fields[2], RATE_MAX, &mflops) || mflops == 0 ||
        machine->rate_count == ENG_RATES_MAX) {
        return false;
    }
    struct eng_rate *rate = &machine->rates[machine->rate_count++];
    snprintf(rate->name, sizeof rate->name, "%s", fields[1]);
    rate->flops = (double)mflops * 1e6;
    return true;
}

// One line into the table; false when it is not one of ours.
static bool take_line(struct eng_search *search, char *line)
{
    char *fields[FIELDS];
    uint64_t a;
    uint64_t b;
    uint64_t ns;
    uint64_t chosen;
    if (!split(line, fields, FIELDS) || strlen(fields[0]) >= ENG_SEARCH_PROBLEM_BYTES ||
        strlen(fields[1]) >= ENG_SEARCH_NAME_BYTES || !number(fields[2], UINT32_MAX, &a) ||
        !number(fields[3], UINT32_MAX, &b) || !number(fields[4], UINT64_MAX / 2, &ns) ||
        !number(fields[5], 1, &chosen)) {
        return false;
    }
    struct eng_search_problem *problem =
        search->problem_count > 0 ? &search->problems[search->problem_count - 1] : NULL;
    if (!problem || strcmp(problem->key, fields[0]) != 0) {
        if (eng_search_problem_add(search, fields[0], &problem) != BASE_OK) {
            return false;
        }
        problem->remembered = true;
    }
    if (problem->row_count == ENG_SEARCH_CANDIDATES_MAX) {
        return false;
    }
    base_assert(problem->row_count == 0 || problem->chosen < problem->row_count);
    struct eng_search_row *row = &problem->rows[problem->row_count];
    *row = (struct eng_search_row){
        .a = (uint32_t)a, .b = (uint32_t)b, .cost_us = -1, .measured_us = -1};
    row->measured_us = ns > 0 ? (double)ns / 1000.0 : -1;
    snprintf(row->name, sizeof row->name, "%s", fields[1]);
    if (chosen) {
        problem->chosen = problem->row_count;
    }
    problem->row_count++;
    return true;
}

void eng_search_file_read(struct eng_search *search)
{
    FILE *file = NULL;
    if (base_regular_stream(search->path, &file, NULL) != BASE_OK) {
        return; // a pipe in its place would be waited for
    }
    char line[512];
    size_t total = 0;
    bool good = fgets(line, sizeof line, file) != NULL;
    line[good ? strcspn(line, "\n") : 0] = '\0';
    good = good && strcmp(line, search->head) == 0;
    good = good && fgets(line, sizeof line, file) != NULL;
    line[good ? strcspn(line, "\n") : 0] = '\0';
    good = good && take_machine(search, line);
    while (good && total < ENG_SEARCH_FILE_BYTES_MAX && fgets(line, sizeof line, file)) {
        total += strlen(line);
        line[strcspn(line, "\n")] = '\0';
        good = strncmp(line, RATE_WORD, sizeof RATE_WORD - 1) == 0 ? take_rate(search, line)
                                                                   : take_line(search, line);
    }
    fclose(file);
}

static void write_machine(const struct eng_search *search, FILE *file)
{
    const struct eng_machine *machine = &search->machine;
    fprintf(file, "%s\nmachine\t%.0f\t%.0f\t%.0f\t%.0f\n", search->head, machine->bytes_l2 / 1e6,
            machine->bytes_l3 / 1e6, machine->bytes_memory / 1e6,
            search->wake_us > 0 ? search->wake_us * 1000.0 : 0.0);
    for (uint32_t i = 0; i < machine->rate_count; i++) {
        fprintf(file, RATE_WORD "%s\t%.0f\n", machine->rates[i].name,
                machine->rates[i].flops / 1e6);
    }
}

static enum base_status write_rows(const struct eng_search *search, FILE *file)
{
    write_machine(search, file);
    for (uint32_t i = 0; i < search->problem_count; i++) {
        const struct eng_search_problem *problem = &search->problems[i];
        base_assert(problem->chosen < problem->row_count);
        for (uint32_t r = 0; problem->remembered && r < problem->row_count; r++) {
            const struct eng_search_row *row = &problem->rows[r];
            const bool is_measured = row->measured_us >= 0;
            if (is_measured || r == problem->chosen) {
                fprintf(file, "%s\t%s\t%u\t%u\t%llu\t%d\n", problem->key, row->name, row->a, row->b,
                        is_measured ? (unsigned long long)(row->measured_us * 1000.0) : 0ULL,
                        r == problem->chosen);
            }
        }
    }
    return ferror(file) ? BASE_ERR_IO : BASE_OK;
}

enum base_status eng_search_save(struct eng_search *search)
{
    if (!search->path || !search->dirty) {
        return BASE_OK;
    }
    (void)eng_search_machine(search);
    struct base_output_file out;
    enum base_status status = base_output_open(&out, search->path, NULL);
    if (status == BASE_OK) {
        status = base_output_close(&out, write_rows(search, out.file), NULL);
    }
    search->dirty = search->dirty && status != BASE_OK;
    return status;
}
