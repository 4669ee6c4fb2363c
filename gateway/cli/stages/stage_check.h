// Is a stage, as people write it, one that the gateway takes? Asked before anything is shown or
// signed: what is read with a default in place of an odd value would be another rollout than the
// file's.
#ifndef STAGE_CHECK_H
#define STAGE_CHECK_H

#include "cli/base/cli.h"

#include <jansson.h>

// A member that is null says nothing, to the gateway as well: takes such members away, of the
// stages and of the objects in them.
void stage_check_forget_nulls(json_t *stages);

// Names, types, ranges and words of all that a list of stages says, and what is missing; `whole`:
// as it is sent, and not as a file has it, which options fill up. USAGE, said as the gateway says
// it.
enum cli_exit stage_check(const json_t *stages, bool whole);

#endif
