// Of several open rollouts of a task a device follows one (docs/RELEASES.md). Who starts another
// one is told which rollout its devices follow instead, and how many they are.
#ifndef FOLLOWED_WARNING_H
#define FOLLOWED_WARNING_H

#include "cli/base/cli.h"

#include <jansson.h>

// `rollout`: a body of POST rollouts, or a rollout as the gateway tells it: "task" and "target",
// and where they are there "priority", "arm" and "id". Says on standard error which rollouts known
// devices of its target follow before it, and which after it; nothing where there are none, or
// where that cannot be found out.
void followed_warning(const struct cli *cli, const json_t *rollout);
// Adds to each item of the rollout's "behind" how many known devices of its target follow that one
// ("devices"), to each of its "before" how many of that target follow this one, and takes out those
// of which nobody does. Leaves them as they are where that cannot be found out.
void followed_count(const struct cli *cli, json_t *rollout);

#endif
