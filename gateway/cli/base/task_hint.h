// What was probably meant by the name of a task that the gateway does not have, of those that it
// shows to this operator.
#ifndef TASK_HINT_H
#define TASK_HINT_H

#include "cli/base/cli.h"

// To standard error, behind the refusal; nothing when no name is nearly the one of --task, else of
// the command's first argument.
void task_hint(const struct cli *cli);

#endif
