// Following a rollout until it ends.
#ifndef ROLLOUT_WATCH_H
#define ROLLOUT_WATCH_H

#include "cli/base/cli.h"

// Redraws the picture on a terminal; prints a line whenever something changed elsewhere; with -o
// json prints the last state. Ends when the rollout does: OK when its last stage passed (--until
// completed: when it completed), FAILED when it was rolled back or waits failed for a person,
// TIMEOUT after --timeout SECONDS.
enum cli_exit rollout_watch(const struct cli *cli, const char *id);

#endif
