// `walle-fleet-sim fork OUT --at SECOND --branch ...`: what if, from a second of a run on? Plays
// the run once more as it was and once for each branch, with the same devices and the same draws,
// and tells their differences.
//
// A branch is a run that does something at that second (model/run_act.h). Nothing is copied: the
// run is played again from its beginning, and the digest says whether everything before that second
// came again as it was; if not, nothing is compared. All branches end at the same second.
//
// Draws are counted by device and purpose, so that what a branch does changes no draw but those of
// what it does: a difference between two branches is of the deed, and not of chance.
//
// Everything is owned by the caller; one thread.
#ifndef SIM_FORK_H
#define SIM_FORK_H

#include "compare/play_again.h"
#include "model/run_act.h"
#include "report/report_svg.h"

#include <stdio.h>

#define SIM_BRANCHES_MAX     SIM_SERIES_MAX // the run as it was is the first
#define SIM_BRANCH_NAME      32
#define SIM_BRANCH_TEXT      512
#define SIM_BRANCH_SECONDS   1000000u
#define SIM_FORK_VERSION_MAX 128u

// What branches are compared by; NAN: there is no such thing in this branch.
enum sim_fork_metric {
    SIM_FORK_RAN,       // devices that ran the version, ever
    SIM_FORK_RAN_AFTER, // ... for the first time since the fork
    SIM_FORK_CURRENT,   // that run it at the end
    SIM_FORK_FAILED,    // on which it failed
    SIM_FORK_EXPOSED,   // that ran a version called bad (--bad-version)
    SIM_FORK_BACK,      // that went back from it
    SIM_FORK_HALF_S,    // until half of the fleet ran it
    SIM_FORK_NINE_S,    // ... 90 %
    SIM_FORK_MOST_S,    // ... 99 %
    SIM_FORK_STOPPED_S, // when the rollout was first seen paused, or going back
    SIM_FORK_DETECT_S,  // from the first device that was harmed until then
    SIM_FORK_REQUESTS,
    SIM_FORK_ERRORS,
    SIM_FORK_METRIC_COUNT
};

struct sim_fork_about {
    const char *key;  // in JSON
    const char *text; // for people
    bool seconds;
};
const struct sim_fork_about *sim_fork_about(enum sim_fork_metric metric);

struct sim_branch {
    char name[SIM_BRANCH_NAME + 1];
    char acts[SIM_ACTS_MAX][SIM_BRANCH_TEXT]; // as --act takes them
    uint32_t act_count;
    struct sim_again again;
    // What came of it.
    double metrics[SIM_FORK_METRIC_COUNT];
    char digest[64];
    char rollout[160]; // its state and why; empty: there is none
    char broken[64];   // an invariant; empty: all held
    double *seconds;   // of the rows of timeline.csv
    double *running;   // devices that run the version, at each
    double *harmed;    // ... that ran a bad one, or where none is called bad, failed
    uint32_t rows;
};

struct sim_fork {
    const char *out; // of the run
    uint32_t at_s;
    uint32_t to_s; // 0: as far as the run went
    const char *json;
    char version[SIM_FORK_VERSION_MAX]; // that is compared: sim_fork_name
    char manifest[80];
    bool called_bad; // devices that ran it count as harmed
    struct sim_branch *branches;
    uint32_t count;
};

// "NAME: DEED; DEED", a deed as in run_act.h without its second, or "+S DEED": so many seconds
// later. INVALID with what is wrong in `error`, LIMIT, EXISTS: there is a branch of that name.
BASE_NODISCARD enum base_status sim_branch_add(struct sim_fork *fork, const char *text,
                                               struct base_error *error);
// Puts the fork's second before each of its deeds, and looks whether they can be. INVALID.
BASE_NODISCARD enum base_status sim_branches_place(struct sim_fork *fork, struct base_error *error);
// Plays all of them and reads what came of it. CONFLICT: what was before the fork did not come
// again, or the gateway refused a deed; INVALID: the run cannot be forked there; IO, NOMEM.
BASE_NODISCARD enum base_status sim_fork_play(struct sim_fork *fork, FILE *log,
                                              struct base_error *error);
// What a version is called here: its task, and what its release calls it.
void sim_fork_name(const json_t *task, const json_t *version, char out[SIM_FORK_VERSION_MAX]);
// What a branch left in a folder, into its `metrics` and what follows them. IO, INVALID, NOMEM.
BASE_NODISCARD enum base_status sim_branch_read(const struct sim_fork *fork,
                                                struct sim_branch *branch, const char *folder,
                                                struct base_error *error);
void sim_fork_done(struct sim_fork *fork);
// A table to `log`; fork.json and fork.html into the folder, and the JSON where it was asked for.
BASE_NODISCARD enum base_status sim_fork_report(const struct sim_fork *fork, const char *folder,
                                                FILE *log, struct base_error *error);

// The exit status.
int sim_fork_main(int argc, char **argv, FILE *log);

#endif
