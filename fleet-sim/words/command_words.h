// How a command of the program reads its words, and how it says that it failed: the same for each
// that has options of its own.
#ifndef SIM_COMMAND_WORDS_H
#define SIM_COMMAND_WORDS_H

#include "base/error.h"

#include <argp.h>
#include <stdbool.h>

// Reads the words into `input`, as the parser's own functions take them. argv[0] is the command's
// whole name, "walle-fleet-sim fork", by which it is called in what is said; it has to last. What
// argp refuses ends the process with SIM_EXIT_USAGE. False: an option that is none, which was said.
bool sim_command_read(const struct argp *parser, unsigned flags, int argc, char **argv,
                      void *input);
// Says on standard error why the command of this name failed. Its status: SIM_EXIT_USAGE for what
// was asked for (INVALID, LIMIT), else SIM_EXIT_LOCAL.
int sim_command_failed(const char *name, enum base_status status, const struct base_error *error);

#endif
