// The warning behind a kill or a way back: devices that their floor keeps from what is left.
#ifndef CLI_FLOORED_WARNING_H
#define CLI_FLOORED_WARNING_H

#include "cli/cli.h"

// On stderr, when the gateway knows of any of the task. Asks it, and says nothing where that fails.
void floored_warning(const struct cli *cli, const char *task);

#endif
