// A gateway core to play rollouts on: a store in a folder of its own, a clock that is set by hand,
// one worker, and what an operator does. A failure of any of it ends the program. All of it is the
// caller's one thread.
#ifndef CORE_HOME_H
#define CORE_HOME_H

#include "base/prng.h"
#include "svc/core_private.h"
#include "policy/rollout.h"

#define CORE_HOME_TASK "bench/score"

struct core_home {
    char dir[128];
    uint64_t now_us; // steady clock; the wall clock is ahead of it
    struct base_prng prng;
    struct gw_core *core;
    struct gw_worker *worker;
    struct gw_message *first;
    struct gw_message **last;
};

// `folder` must exist; the store is made below it.
void core_home_open(struct core_home *home, const char *folder, uint32_t checkin_interval_s);
void core_home_close(struct core_home *home); // and removes what it made
// Commits what was sent, and answers it.
void core_home_write(struct core_home *home);
// A step of the controller.
void core_home_tick(struct core_home *home);

// A version of CORE_HOME_TASK.
void core_home_version(struct core_home *home, const char *version, struct wire_sha256 *out);
// A rollout of it for all devices, begun; its salt is base_mix64(id), and proof is not asked for.
void core_home_rollout(struct core_home *home, uint64_t id, const struct wire_sha256 *manifest,
                       const struct pol_stage *stages, uint32_t stage_count);
void core_home_command(struct core_home *home, uint64_t id, enum pol_command command);

#endif
