// The stages a rollout goes through: the default ladder or a file, with the command's options on
// top, as the JSON the gateway takes. Statements are added later by the signer.
#ifndef LADDER_H
#define LADDER_H

#include "cli/base/cli.h"

#include "policy/rollout.h"

#include <jansson.h>

#define LADDER_MIN_SAMPLE  20
#define LADDER_MIN_DWELL_S 60.0 // of the default ladder; a file says its own
#define LADDER_MAX_FAILURE 0.02

// Stages as an array owned by the caller. --stages FILE (a list, or {"stages": [...]}) replaces the
// default ladder; --min-sample, --min-dwell, --max-failure, --min-answered, --on-fail and (in the
// last stage) --guard fill what a stage leaves open.
enum cli_exit ladder_stages(const struct cli *cli, json_t **out_stages);
// Says on standard error which beta stages have no audience, so that they are for the whole target.
void ladder_warn(const json_t *stages);
// --target: the conditions in a file of that name, otherwise the text as an expression of the
// targeting language; an empty array without it.
enum cli_exit ladder_target(const struct cli *cli, json_t **out_target);

// What a statement for this stage says; `stage` was made by ladder_stages.
enum pol_stage_kind ladder_kind(const json_t *stage);
uint16_t ladder_max_bucket(const json_t *stage);
bool ladder_is_for_everybody(const json_t *stage); // it has no audience
// max_slowdown or max_memory in percent; 0: not judged.
uint16_t ladder_times(const json_t *stage, const char *key);

#endif
