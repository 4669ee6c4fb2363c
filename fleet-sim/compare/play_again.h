// A run in virtual time, played once more by the line in its repro.txt, in a process of its own and
// from the folder it was started in. What it wrote beside its reports is not written again.
#ifndef SIM_PLAY_AGAIN_H
#define SIM_PLAY_AGAIN_H

#include "base/error.h"
#include "model/repro_line.h"
#include "swarm/child_run.h"

#include <limits.h>

struct sim_again {
    char first[PATH_MAX];   // the folder of the run's reports, whole
    struct sim_repro repro; // how it was asked for
    struct sim_child child; // its folder is that of the second run's
};

// The second run's folder is to be `name` in `out`, the first one's --out. INVALID: no line is
// there, or that of a run in real time; IO. `again` must stay where it is.
BASE_NODISCARD enum base_status sim_again_open(struct sim_again *again, const char *out,
                                               const char *name, struct base_error *error);
// Plays it to its end, with up to twenty words besides; NULL is behind the last. What another
// second run left goes first. INVALID: the line is not of `run`; IO: it cannot be started, or it
// came to no reports.
BASE_NODISCARD enum base_status sim_again_play(struct sim_again *again, const char *const *more,
                                               struct base_error *error);

#endif
