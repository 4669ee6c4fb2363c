// A plan with a simulation beside it: how long each stage takes, and how many devices a bad release
// reaches before the gate stops it.
#ifndef PLAN_SIMULATE_H
#define PLAN_SIMULATE_H

#include "cli/base/cli.h"

#include <jansson.h>

// With --simulate: plays the stages, signed by keys of its own, on a gateway of its own and virtual
// devices like those of --dir or --population; *out_simulation is the caller's. USAGE: something is
// missing for it; LOCAL.
enum cli_exit plan_simulate(const struct cli *cli, const json_t *stages, json_t **out_simulation);
void plan_simulation_show(const json_t *simulation);

#endif
