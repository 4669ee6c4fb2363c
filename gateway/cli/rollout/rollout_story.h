// How a rollout came to be where it is: the line of its log that brought it there. What devices do
// then overwrites the reason that the rollout itself has.
#ifndef ROLLOUT_STORY_H
#define ROLLOUT_STORY_H

#include "cli/base/cli.h"

#include <jansson.h>
#include <stdio.h>

// Reads the log and says in a sentence when, why and by whom the rollout went back, was paused, was
// guarded or completed; nothing of one that runs.
enum cli_exit rollout_story(const struct cli *cli, FILE *file, const json_t *rollout);

#endif
