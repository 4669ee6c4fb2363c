// The warning behind a kill or a way back: devices for which nothing is left, there being no
// baseline, one below their floor, or none whose target they match.
#ifndef CLI_FLOORED_WARNING_H
#define CLI_FLOORED_WARNING_H

#include "cli/base/cli.h"

#include <jansson.h>

// On stderr, when the gateway knows of any of the task. Asks it, and says nothing where that fails.
void floored_warning(const struct cli *cli, const char *task);

// What the gateway knew of a rollout's task before the rollout is taken back. Null: nothing, or it
// could not be asked. The caller's.
json_t *floored_before(const struct cli *cli, const char *rollout);
// As floored_warning, of the rollout that was taken back, else of what is news since `before`.
void floored_warning_of(const struct cli *cli, const json_t *rollout, const json_t *before);

#endif
