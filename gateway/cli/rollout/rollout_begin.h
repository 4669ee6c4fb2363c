// `rollout start ID`: starting a rollout that was made with --no-start.
#ifndef ROLLOUT_BEGIN_H
#define ROLLOUT_BEGIN_H

#include "cli/base/cli.h"

#include <jansson.h>

// Does `rollout start` name a rollout that is there, and no task? Then nothing says which version
// to release and with which key.
bool rollout_begin_is_meant(const struct cli *cli);
enum cli_exit rollout_begin(struct cli *cli);
// A rollout that starts with a simulate stage waits for its result: says how it comes.
void rollout_begin_hint(const json_t *rollout);

#endif
