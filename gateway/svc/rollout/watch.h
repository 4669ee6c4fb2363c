// The walk over all devices, a slice at each tick: who is silent, who is control, how many a stage
// has. The control thread's.
#ifndef GW_WATCH_H
#define GW_WATCH_H

#include "base/status.h"

struct gw_core;
struct gw_silence_clock;
struct gw_watch;

#define GW_WATCH_ROLLOUTS 64u      // open rollouts of one walk over the devices
#define GW_WATCH_BATCH    64u      // devices looked at with a shard's mutex held
#define GW_WATCH_WORK     1000000u // device-rollout pairs looked at in one tick

BASE_NODISCARD enum base_status gw_watch_new(struct gw_core *core, struct gw_watch **out);
void gw_watch_free(struct gw_watch *watch);       // accepts NULL
void gw_watch_step(struct gw_watch *watch);       // at each tick
void gw_watch_time_moved(struct gw_watch *watch); // another time was accepted
// By which silence is told; lives as long as the walk.
const struct gw_silence_clock *gw_watch_clock(const struct gw_watch *watch);

#endif
