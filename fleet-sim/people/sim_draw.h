// Counter-based randomness of the simulator: what is drawn depends on seed, index and stream alone,
// never on who asked before. Each purpose has a stream of its own, so that one that is left out
// does not shift the others.
#ifndef SIM_DRAW_H
#define SIM_DRAW_H

#include "base/prng.h"

#include <stdbool.h>
#include <stdint.h>

enum sim_stream {
    SIM_STREAM_ID,
    SIM_STREAM_TRAITS, // + a number of the trait
    SIM_STREAM_ARRIVAL = 32,
    SIM_STREAM_BEHAVIOUR,
    SIM_STREAM_REAL,
    SIM_STREAM_RUNTIME,
    SIM_STREAM_REBOOT,
    SIM_STREAM_KILL,
    SIM_STREAM_SESSION,
    SIM_STREAM_CLOCK,
    SIM_STREAM_BUSINESS,
    SIM_STREAM_RUN_TIME,
    SIM_STREAM_SWARM,
    SIM_STREAM_SWARM_BAD,
    SIM_STREAM_FAULT = 4096, // + kind and rule (model/fault_rule.h)
    SIM_STREAM_TABLES = 128, // + table of a population file
    SIM_STREAM_DELAY = 160,
    SIM_STREAM_LOSS,
    SIM_STREAM_BURST,
    SIM_STREAM_OFFLINE,
    SIM_STREAM_ZOMBIE,
    SIM_STREAM_CLONE,
    SIM_STREAM_ONLINE,
    SIM_STREAM_REINSTALL,
    SIM_STREAM_OTHER_ID, // of a device that was installed anew as another one
    SIM_STREAM_PANEL,    // who behaves
};

// 64 random bits that depend on nothing but the arguments.
static inline uint64_t sim_draw(uint64_t seed, uint64_t index, uint32_t stream)
{
    return base_mix64(base_mix64(base_mix64(seed) ^ stream) + index);
}

// Uniform number below `bound` from one draw; the bias of bound / 2^32 does not matter here.
static inline uint32_t sim_below(uint64_t random, uint32_t bound)
{
    return (uint32_t)(((random >> 32) * bound) >> 32);
}

// True of so many in a million draws.
static inline bool sim_chance(uint64_t random, uint32_t ppm)
{
    return sim_below(random, 1000000) < ppm;
}

#endif
