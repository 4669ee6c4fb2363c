// The warning behind a kill or a way back: devices for which nothing is left, there being no
// baseline or one below their floor.
#ifndef CLI_FLOORED_WARNING_H
#define CLI_FLOORED_WARNING_H

#include "cli/cli.h"

// On stderr, when the gateway knows of any of the task. Asks it, and says nothing where that fails.
void floored_warning(const struct cli *cli, const char *task);

#endif
