// The command line of walle-fleet-sim.
#ifndef SIM_FLEET_OPTIONS_H
#define SIM_FLEET_OPTIONS_H

#include "run/fleet.h"

#include <argp.h>

// Fills `out` from the words of the command line (argv[1] is the command). Ends the process for
// --help; INVALID with a text that says what is wrong where, NOT_FOUND when no virtual device is
// what --where and --target ask for, what a --fault is for, or, of a simulation, what a rule of
// --bad is.
BASE_NODISCARD enum base_status sim_options_parse(int argc, char **argv, struct sim_options *out,
                                                  struct base_error *error);
void sim_options_done(struct sim_options *options);
// Options of `run` and `simulate`, as argp has them, to the last, which is empty.
const struct argp_option *sim_options_table(void);

#endif
