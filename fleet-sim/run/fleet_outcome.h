// What a run came to. A run passes when what it was to show was shown: its release did what was
// wanted, every invariant held, and somebody was there to see it. Each way in which nothing was
// shown has a name and an exit status of its own.
#ifndef SIM_FLEET_OUTCOME_H
#define SIM_FLEET_OUTCOME_H

#include "model/sim_exit.h"
#include "report/run_result.h"
#include "run/gateway_watch.h"

// How the run ended, as the coordinator knows it.
struct sim_ending {
    const struct sim_watch_view *view;        // what the gateway said last; NULL: nothing is asked
    const struct sim_rollouts_seen *rollouts; // that the run saw; NULL: likewise
    const char *link_fault; // what the last connection that failed came to; NULL: none
    bool interrupted;       // by a signal, before its end
    bool goal_reached;
};

// Fills outcome, interrupted, cause, the rollouts of the task followed and which version decided,
// from all that was gathered. Coordinator's thread.
void sim_outcome_judge(struct sim_run_result *result, const struct sim_ending *ending);

// The exit status of a run that came to this.
enum sim_exit sim_outcome_exit(enum sim_outcome outcome);

#endif
