// Which stages of a rollout would wait in vain: a stage passes when its sample completed, and known
// devices may be too few for that. Said before a rollout starts, when its shares and samples can
// still be changed.
#ifndef SAMPLE_WARNING_H
#define SAMPLE_WARNING_H

#include "cli/base/cli.h"

#include <jansson.h>

// `rollout`: a body of POST rollouts, or a rollout as the gateway tells it, with its "stages".
// Says on standard error which of them fewer known devices enter than their sample asks for;
// nothing where there are none, where no known device is in the target, or where that cannot be
// found out.
void sample_warning(const struct cli *cli, const json_t *rollout);

#endif
