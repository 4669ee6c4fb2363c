// What a swarm has come to, as OUT/swarm.json keeps it: written while the swarm goes on, so that
// one that was interrupted or killed is gone on with (--resume).
#ifndef SIM_SWARM_KEPT_H
#define SIM_SWARM_KEPT_H

#include "digest/run_digest.h"
#include "model/ledger.h"
#include "swarm/swarm.h"

#define SIM_SWARM_PACE_MAX 96

struct sim_swarm_kept {
    uint32_t ended;
    uint32_t failed;
    uint32_t nothing; // of `ended`: broke nothing, for no release reached devices
    int nothing_exit; // of the last of these
    bool over;        // the rollout was over before: no seed tries its gate
    uint32_t compared[SIM_ORACLE_COUNT]; // seeds in which each invariant compared something
    double took_s;                       // to play them
    char clean[SIM_DIGEST_HEX + 1];      // digest of the run without faults
    json_t *runs;                        // one item a seed that ended
};

// OUT/swarm.json. IO, NOMEM.
BASE_NODISCARD enum base_status sim_swarm_kept_write(const struct sim_swarm_options *options,
                                                     const struct sim_swarm_kept *kept,
                                                     struct base_error *error);
// Takes the seeds of OUT/swarm.json, where there is one, into `kept`, of which `clean` is set;
// out_done[i]: that of seed first_seed + i is among them. EXISTS: they are of other options, or
// the run without faults was another; CORRUPT: it is not what sim_swarm_kept_write writes.
BASE_NODISCARD enum base_status sim_swarm_kept_read(const struct sim_swarm_options *options,
                                                    struct sim_swarm_kept *kept, bool *out_done,
                                                    struct base_error *error);
// How fast it goes and how long it still takes, behind the words on progress; empty while that is
// less than a minute. `ended` of `left` and these were played within `took_s`.
void sim_swarm_pace(uint32_t ended, uint32_t left, double took_s, char out[SIM_SWARM_PACE_MAX]);

#endif
