// A gateway of a plan: the programs that ship, in a folder that goes again, with a root, keys and a
// rollout of their own. So a plan is tried before anybody signs it, and nothing of a real gateway
// is touched. It is stopped once its rollout is under way: what is played on it is played on its
// folder (walle-fleet-sim run --virtual).
#ifndef STAND_IN_H
#define STAND_IN_H

#include "cli/base/cli.h"

#include <jansson.h>
#include <limits.h>
#include <sys/types.h>

#define STAND_IN_FOLDER 64

struct stand_in {
    char folder[STAND_IN_FOLDER]; // everything of it lies here
    char walle[PATH_MAX];         // the programs
    char gateway[PATH_MAX];
    char fleet_sim[PATH_MAX];
    char url[64];
    char rollout[17];
    pid_t pid; // of the gateway; 0: it does not run
    int out;   // what it says; -1: nothing
};

struct stand_in_plan {
    const char *task;
    const char *build;
    const char *target; // NULL: everybody
    json_t *stages;     // without one of the kind simulate
};

// Finds the programs and makes the folder. LOCAL: a program is missing.
enum cli_exit stand_in_begin(struct stand_in *out);
// Makes the gateway and its rollout in it. LOCAL: a program says no; its words are told.
enum cli_exit stand_in_make(const struct stand_in_plan *plan, struct stand_in *in);
// Stops what runs and removes the folder.
void stand_in_done(struct stand_in *in);
// Runs a program, whose words go to a file; NULL is behind the last word. Its exit status; -1: it
// could not be run, or died.
int stand_in_run(const struct stand_in *in, const char *const *words);
// What the last program said last.
void stand_in_said(const struct stand_in *in, char out[256]);

#endif
