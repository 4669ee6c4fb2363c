// What the stages of a plan can detect, before anything starts.
#ifndef ROLLOUT_POWER_H
#define ROLLOUT_POWER_H

#include "cli/base/cli.h"

#include <jansson.h>
#include <stdio.h>

#define POWER_BASE_FAILURE 0.005 // of control, unless --base-failure says otherwise
#define POWER_CHECKIN_S    300   // devices of a stage complete within one check-in interval

// One line for each stage whose gate compares with control: devices and minutes it needs to find
// the rise it declares, or that it cannot. Needs --fleet (how many devices the target has); without
// it nothing is printed, nor when `file` is NULL. *out_sees: some stage before the full one can, or
// none declares a rise.
enum cli_exit rollout_power(const struct cli *cli, const json_t *stages, FILE *file,
                            bool *out_sees);

#endif
