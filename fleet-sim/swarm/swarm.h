// The swarm: options, and how its seeds are played.
#ifndef SIM_SWARM_H
#define SIM_SWARM_H

#include "swarm/sim_case.h"

#define SIM_SWARM_SEEDS_MAX 100000u
#define SIM_SWARM_JOBS_MAX  64u

struct sim_swarm_options {
    char virtual_dir[SIM_TEXT_MAX];
    char root[SIM_TEXT_MAX];
    char out[SIM_TEXT_MAX];
    char rate[SIM_TEXT_MAX];    // devices a second that come online, as written
    char version[SIM_TEXT_MAX]; // that goes wrong with some seeds; empty: none does
    uint32_t devices;
    uint32_t seeds;
    uint32_t first_seed;
    uint32_t jobs;
    uint32_t duration_s;
    uint32_t until_s;
    bool resume; // seeds that OUT/swarm.json has are not played again
};

// The case of a seed without its faults, bad where any is; its words point into `options`.
void sim_swarm_clean(const struct sim_swarm_options *options, struct sim_case *out);
// The case of a seed; likewise.
void sim_swarm_case(const struct sim_swarm_options *options, uint64_t seed, struct sim_case *out);
// Plays one run without faults, then all seeds, and writes OUT/swarm.json, which it does meanwhile,
// too. CONFLICT: some failed, `error` says how many; CLOSED: interrupted; EXISTS, CORRUPT: seeds
// that are there cannot be gone on with; IO, NOMEM. INVALID: a run showed nothing, or could not be
// played; `error` has its words, `out_exit` the status that it ended with.
BASE_NODISCARD enum base_status sim_swarm_play(const struct sim_swarm_options *options,
                                               const volatile int *interrupted, FILE *log,
                                               int *out_exit, struct base_error *error);

#endif
