// The walk over all devices, a slice at each tick: who is silent, who is control, how many a stage
// has. The control thread's.
#ifndef GW_WATCH_H
#define GW_WATCH_H

#include "base/status.h"

#include <stdint.h>

struct gw_core;
struct gw_silence_clock;
struct gw_watch;

#define GW_WATCH_ROLLOUTS 64u      // open rollouts of one walk over the devices
#define GW_WATCH_BATCH    64u      // devices looked at with a shard's mutex held
#define GW_WATCH_WORK     1000000u // device-rollout pairs looked at in one tick
#define GW_WATCH_WORK_US  2u       // ... for each microsecond since the tick before
#define GW_WATCH_WORK_MIN 65536u   // ... however short that was

BASE_NODISCARD enum base_status gw_watch_new(struct gw_core *core, struct gw_watch **out);
void gw_watch_free(struct gw_watch *watch);  // accepts NULL
void gw_watch_step(struct gw_watch *watch);  // at each tick
uint64_t gw_watch_work(uint64_t elapsed_us); // pairs that a tick so long after the last looks at
void gw_watch_time_moved(struct gw_watch *watch); // another time was accepted
// By which silence is told; lives as long as the walk.
const struct gw_silence_clock *gw_watch_clock(const struct gw_watch *watch);

#endif
