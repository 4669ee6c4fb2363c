// The end state of every device, once nothing goes wrong around it any more: the liveness half of a
// run with faults. On the coordinator's thread, after the shards ended.
#ifndef SIM_END_STATES_H
#define SIM_END_STATES_H

#include "model/ledger.h"

// Time for everybody to come to where a release is: several check-ins and the longest back-off.
#define SIM_ENDS_WITHIN_S 1800

// How long everybody has to be there for a run to end early: each has checked in since, most twice.
#define SIM_REST_S      600
#define SIM_REST_LOOK_S 60 // between two looks

// Where devices that came online were in the end.
struct sim_ends {
    uint64_t devices;
    uint64_t astray[SIM_VERSIONS_MAX]; // neither run it well nor hold a reason against it
    uint64_t on[SIM_VERSIONS_MAX];
    // The first of each, by its number in the run; unset where there is none.
    uint32_t astray_first[SIM_VERSIONS_MAX];
    uint32_t on_first[SIM_VERSIONS_MAX];
};

// Devices that are not where they should be.
struct sim_astray {
    uint64_t count;
    uint32_t first; // the number in the run of one, where there are any
};

// Counts, for every version, the devices that are not where its release should have brought them.
// The ledgers' devices are numbered through, as the shards of a run share them out.
void sim_ends_count(const struct sim_ledger *const *ledgers, uint32_t count, struct sim_ends *out);
// Devices that are not where a rollout of the version, which ended in this state, has everybody.
// False: it has not ended, or which version it is of is not known.
bool sim_ends_astray(const struct sim_ends *ends, const char *state, uint8_t version,
                     struct sim_astray *out);

// Since when all of them were there, at every look.
struct sim_rest {
    double since_s;
    double next_s; // the next look
};
static inline struct sim_rest sim_rest_from(double quiet_s) // from then on it may be
{
    return (struct sim_rest){.since_s = quiet_s, .next_s = quiet_s};
}
// One of the looks: is it time for one?
bool sim_rest_due(const struct sim_rest *rest, double now_s);
// What it found. True: all has been at rest for SIM_REST_S.
bool sim_rest_look(struct sim_rest *rest, double now_s, bool there);

#endif
