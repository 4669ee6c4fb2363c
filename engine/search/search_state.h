// Inside of a search: shared by search.c, search_file.c and search_explain.c only.
#ifndef ENG_SEARCH_SEARCH_STATE_H
#define ENG_SEARCH_SEARCH_STATE_H

#include "search/search.h"

#define ENG_SEARCH_NAME_BYTES 24
#define ENG_SEARCH_VERSION    3 // of the file
#define ENG_SEARCH_HEAD_BYTES 160

struct eng_search_row {
    char name[ENG_SEARCH_NAME_BYTES];
    uint32_t a, b;
    double cost_us;     // < 0: not known (read from the file)
    double measured_us; // < 0: not measured
    double extra_us;
    bool fixed, measured_only;
};

struct eng_search_problem {
    char key[ENG_SEARCH_PROBLEM_BYTES];
    uint32_t row_count;
    uint32_t chosen;
    uint32_t uses;   // since begin
    bool remembered; // came from the file or goes there
    enum eng_search_kind kind;
    struct eng_search_row rows[ENG_SEARCH_CANDIDATES_MAX];
};

struct eng_search {
    struct eng_search_options options;
    struct eng_rate_source sources[ENG_RATES_MAX];
    struct eng_machine machine;          // bytes_l2 0: not calibrated yet
    double wake_us;                      // < 0: not measured yet
    char *path;                          // own copy
    char head[ENG_SEARCH_HEAD_BYTES];    // first line of the file: names processor, ISA, threads
    struct eng_search_problem *problems; // in order of appearance
    uint32_t problem_count, problem_capacity;
    uint64_t spent_us, extras_us, calibrate_us;
    struct eng_graph_cost graph[ENG_RATES_MAX]; // of the last plan
    size_t graph_count, graph_chosen;
    const char *graph_why;
    bool dirty;
};

// Appends an empty problem. NOMEM; LIMIT at ENG_SEARCH_PROBLEMS_MAX.
BASE_NODISCARD enum base_status eng_search_problem_add(struct eng_search *search, const char *key,
                                                       struct eng_search_problem **out_problem);
// Reads search->path into problems; what cannot be read is skipped.
void eng_search_file_read(struct eng_search *search);

#endif
