// What a phone would have to hold with a version, as the gateway adds it up (API.md, "cost").
#ifndef ROLLOUT_COST_H
#define ROLLOUT_COST_H

#include "cli/base/cli.h"

#include "wire/digest.h"

#include <jansson.h>
#include <stdio.h>

// *out_cost is the caller's.
enum cli_exit rollout_cost_ask(const struct cli *cli, const char *task,
                               const struct wire_sha256 *manifest, const json_t *target,
                               json_t **out_cost);
bool rollout_cost_fits(const json_t *cost);
// Tasks, sum and budget; nothing when the version declares nothing.
void rollout_cost_print(FILE *file, const json_t *cost);
// Before anything is signed: REFUSED with the table on standard error, unless it fits or
// --accept-cost and --reason are given.
enum cli_exit rollout_cost_check(const struct cli *cli, const json_t *cost);

#endif
