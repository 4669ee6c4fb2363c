// A rollout on the terminal: stages as lines with bars, counts, the verdict and why.
#ifndef ROLLOUT_SHOW_H
#define ROLLOUT_SHOW_H

#include "cli/base/cli.h"

#include <jansson.h>
#include <stdio.h>

// Prints the whole picture; returns the number of lines.
unsigned rollout_show(FILE *file, const json_t *rollout);
// The last verdict and why, and the share it was found at, when there was one; no end of a line.
void rollout_show_verdict(FILE *file, const json_t *rollout);
// Of a turn of the log: the share that had failed, among how many of whom; no end of a line.
void rollout_show_failed(FILE *file, const json_t *turn);
// Where the result of a simulate stage came from, and how virtual devices failed; returns the
// number of lines, none where there is no result.
unsigned rollout_show_simulation(FILE *file, const json_t *rollout);
// One line with the essence; for logs of what changes.
void rollout_show_line(FILE *file, const json_t *rollout);

// Nobody is under way in what was taken back: who had not answered by then is asked no more.
bool rollout_is_taken_back(const json_t *rollout);
// Has it come to an end: completed (or, unless `completed` is asked for, guarding), rolled back, or
// failed and left to a person?
bool rollout_is_over(const json_t *rollout, bool completed);
// OK, or FAILED for a failed stage, a rollback under way or done, a killed version, failures that
// came late.
enum cli_exit rollout_exit(const json_t *rollout);

#endif
