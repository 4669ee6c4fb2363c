// That the version a rollout brings is one that an earlier rollout took back.
#ifndef WENT_BACK_WARNING_H
#define WENT_BACK_WARNING_H

#include "cli/base/cli.h"

// Says on standard error which rollout of the task took the version (named by its manifest, in hex)
// back, when and why, unless a later one completed with it. Nothing where none did, or where that
// cannot be found out.
void went_back_warning(const struct cli *cli, const char *task, const char *manifest);

#endif
