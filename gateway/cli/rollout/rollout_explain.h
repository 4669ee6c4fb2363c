// A rollout in sentences: where it is, what its gate asks for, what is missing, what to do.
#ifndef ROLLOUT_EXPLAIN_H
#define ROLLOUT_EXPLAIN_H

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

// `story`: lines about how it came there (rollout_story.h); `now_s`: the wall clock, for how long
// the stage has been open.
void rollout_explain(FILE *file, const json_t *rollout, const char *story, uint64_t now_s);
// What a sequential gate has shown so far, in one line; nothing when the rule is another.
unsigned rollout_explain_guard(FILE *file, const json_t *rollout);
unsigned rollout_explain_evidence(FILE *file, const json_t *rollout);
// What rise the open stage can see by now, and what it still needs to see the declared one, in one
// line; nothing when none is declared.
unsigned rollout_explain_power(FILE *file, const json_t *rollout);
// With the rule logrank: both cohorts of the open stage's trial, or that there is nobody to compare
// with; in two lines.
unsigned rollout_explain_trial(FILE *file, const json_t *rollout);
// Open rollouts that devices of its target follow before it, then those that they follow after it,
// a line each; how many devices is said where that was asked for (followed_warning.h).
unsigned rollout_explain_behind(FILE *file, const json_t *rollout);
// How many devices run the version of a running rollout by others, where that was asked for
// (present_warning.h); in one line.
unsigned rollout_explain_present(FILE *file, const json_t *rollout);
// How many devices do not count because they did not show who they are, or that they do count; in
// one line; nothing when there are none. All return the number of lines.
unsigned rollout_explain_unproven(FILE *file, const json_t *rollout);

#endif
