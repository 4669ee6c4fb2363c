// A run in a process of its own: the very program that ships, so that what is shown is shown of it,
// and a run that dies takes no other with it. `certify`, `swarm` and `shrink` play theirs so.
#ifndef SIM_CHILD_RUN_H
#define SIM_CHILD_RUN_H

#include "base/error.h"
#include "model/sim_options.h"

#include <jansson.h>
#include <sys/types.h>

#define SIM_CHILD_FOLDER_MAX (SIM_TEXT_MAX + 32)
#define SIM_CHILD_SAID_MAX   512

struct sim_child {
    pid_t pid;                         // 0: none
    char folder[SIM_CHILD_FOLDER_MAX]; // its --out; beside it FOLDER.log has what it printed
    const char *from;                  // the folder it starts in; NULL: the caller's
};

// Starts this program anew with these words, the last of which is NULL. It is told to end when the
// calling thread ends, however that comes about. IO.
BASE_NODISCARD enum base_status sim_child_begin(struct sim_child *child, const char *const *words,
                                                struct base_error *error);
// Its folder and what it printed.
void sim_child_remove(const struct sim_child *child);
// Tells it to end and waits for it.
void sim_child_stop(struct sim_child *child);
// Its run.json, which the caller gives back; NULL: it wrote none.
json_t *sim_child_report(const struct sim_child *child);
// What it said last, without the program's name.
void sim_child_said(const struct sim_child *child, char out[SIM_CHILD_SAID_MAX]);
// The first invariant that did not hold, by name; NULL: all did, but for `but`, which may be NULL.
const char *sim_report_broken(const json_t *report, const char *but);

#endif
