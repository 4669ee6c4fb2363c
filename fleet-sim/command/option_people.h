// Who the devices of a run are and when they come: the files and curves that options name.
// fleet_options.c asks when all words were read, on the main thread.
#ifndef SIM_OPTION_PEOPLE_H
#define SIM_OPTION_PEOPLE_H

#include "model/sim_options.h"

// Reads the population's file and makes the curve of arrivals, which is drawn for where its people
// live. INVALID: what a file or a curve is not, in words that name the option.
BASE_NODISCARD enum base_status sim_option_people(struct sim_options *options,
                                                  struct base_error *error);

#endif
