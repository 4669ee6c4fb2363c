// Is what a stage says of its audience an expression, or a list of conditions, that the gateway
// takes?
#ifndef AUDIENCE_CHECK_H
#define AUDIENCE_CHECK_H

#include "cli/stages/check_place.h"

// USAGE, said as the gateway says it.
enum cli_exit audience_check(const struct check_place *stage);

#endif
