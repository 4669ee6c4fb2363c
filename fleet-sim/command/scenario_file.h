// Scenario files: the options of a run, kept in a file with words about them.
//
// A line is `name = value`, the name that of a long option; a switch has yes or no; what follows a
// # is for people. An option that the command line gives is not taken from the file. What is wrong
// is said with the file and the line. Paths are from where the program runs, as on the command
// line.
#ifndef SIM_SCENARIO_FILE_H
#define SIM_SCENARIO_FILE_H

#include "base/error.h"

#include <argp.h>
#include <stdbool.h>

#define SIM_OPTION_KEYS_MAX 2048

struct sim_scenario {
    const struct argp_option *table; // of the options, as argp has it
    int key;                         // of the option that names the file
    argp_parser_t take;              // takes an option, and says in `error` what is wrong with it
    void *input;                     // what `take` finds in its state
    struct base_error *error;
    // The rest begins as zeros.
    const char *path; // NULL: the command line names none
    char *text;
    bool given[SIM_OPTION_KEYS_MAX]; // by the command line
};

// argp's function for a first look at the command line, with the scenario as its input.
error_t sim_scenario_given(int key, char *value, struct argp_state *state);
// Takes what the file says, if there is one. Values point into it until sim_scenario_done.
// INVALID, NOMEM.
BASE_NODISCARD enum base_status sim_scenario_read(struct sim_scenario *scenario);
void sim_scenario_done(struct sim_scenario *scenario);

#endif
