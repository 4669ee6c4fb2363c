// Whom a rollout that goes back need not wait for, of the devices that are counted on its version.
//
// The counts say who came to the version by this rollout and did not come off it. Of those it is
// not waited for who is lost (silent, or revoked), for who went on to another version since, and
// for whom its end takes nothing away: another rollout of the version, or a rule, keeps it there.
// The last two are asked for one device at a time, as `walle device why` does: what it has from its
// record, what it should have from the decision that check-ins are answered with. Devices are found
// by their marks; of a rollout that was a baseline, whose marks may be gone, all are asked.
//
// A pass over the table begins when nobody came back since the last tick, reads a bounded number of
// records at each, and holds a shard's mutex only while it lists devices. Control thread.
#ifndef GW_WAY_BACK_H
#define GW_WAY_BACK_H

#include "base/status.h"

#include <stdint.h>

#define GW_WAY_BACK_WORK_MAX                                                                       \
    524288u                  // devices that a tick looks at; one whose record is read counts
#define GW_WAY_BACK_READ 64u // for so many

struct gw_core;
struct gw_rollout;
struct gw_way_back;

BASE_NODISCARD enum base_status gw_way_back_new(struct gw_core *core, struct gw_way_back **out);
void gw_way_back_free(struct gw_way_back *way); // accepts NULL
// At each tick, behind the walk that knows who is silent (watch.c).
void gw_way_back_step(struct gw_way_back *way);
void gw_way_back_time_moved(struct gw_way_back *way); // another time was accepted

// Of the devices that are counted on the version now, those that are surely not waited for: as the
// last whole pass found them, without as many as came off it since. 0 while no pass has ended since
// the way back began, or since what its task's devices should run changed.
uint64_t gw_way_back_spared(const struct gw_core *core, const struct gw_rollout *rollout,
                            uint64_t on_version);

#endif
