// One stage of a rollout, played on the gateway's core as it ships: scripted devices check in and
// report in the bytes that devices send, the clock is virtual, and the core draws the cohorts,
// forms the blocks, judges and holds segments by itself. One thread.
#ifndef CORE_PLAY_H
#define CORE_PLAY_H

#include "verdict_play.h"

struct core_play_seen {
    bool stopped; // the rollout went back, ever
    bool passed;  // the stage did
    enum pol_reason reason;
    uint32_t held;     // segments
    uint64_t offered;  // updated devices when it stopped, else all
    uint64_t compared; // ... of them beside control
    uint64_t control;
};

struct core_play;
// Folders are made below `folder`; one in memory is faster. NULL: no memory.
struct core_play *core_play_new(const char *folder, uint32_t devices_max);
void core_play_free(struct core_play *play);
// The run is drawn from the seed alone. About cell->devices are updated, and as many are control.
void core_play_run(struct core_play *play, const struct verdict_cell *cell,
                   const struct pol_gate *gate, uint64_t seed, struct core_play_seen *out);

#endif
