// The warning that another rollout brings a version that devices have already: see
// gateway/svc/view/present.h.
#ifndef PRESENT_WARNING_H
#define PRESENT_WARNING_H

#include "cli/base/cli.h"

#include <jansson.h>

// Says on standard error who has the version of the task (named by its manifest, in hex) and which
// rollouts bring it; nothing where nobody has it, or where that cannot be found out. And which one
// took it back (went_back_warning.h).
void present_warning(const struct cli *cli, const char *task, const char *manifest);
// Adds to a rollout how many devices have its version by others: "present", as the gateway tells it
// of the version (docs/API.md) without this rollout. Nothing where there are none, or where that
// cannot be found out.
void present_count(const struct cli *cli, json_t *rollout);
// Says of a rollout that was taken back which others bring its version still: who is let in by
// those keeps it.
void present_kept_warning(const struct cli *cli, const json_t *rollout);

#endif
