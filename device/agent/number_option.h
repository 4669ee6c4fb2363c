// Options of the agent that are a number.
#ifndef NUMBER_OPTION_H
#define NUMBER_OPTION_H

#include <argp.h>
#include <stdint.h>

// The value of --NAME, from 1 to `max`; anything else is said, and the program ends (argp_error).
uint64_t number_option(struct argp_state *state, const char *name, const char *text, uint64_t max);

#endif
