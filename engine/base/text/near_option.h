// An option that a program does not have: says so, and which one was probably meant. argp itself
// says no more than that there is none.
#ifndef BASE_NEAR_OPTION_H
#define BASE_NEAR_OPTION_H

#include <argp.h>
#include <stdbool.h>

// `options` ends with an empty one; NULL: the program has none of its own. False: one of the words
// is no option and begins none; it is named on standard error, by program_invocation_short_name.
bool base_options_known(const struct argp_option *options, int argc, char **argv);

#endif
