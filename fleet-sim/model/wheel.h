// Timer wheel of wake times for all devices of a shard.
//
// Links are indexes kept in the caller's nodes, so a waiting device costs 12 bytes and no
// allocation. One tick is one millisecond. A slot holds the entries of a tick of the turn that is
// under way; those of later turns wait in a list for each turn, and come to their slots when it
// begins, so nobody is looked at before. One thread owns a wheel; it reads no clock.
#ifndef SIM_WHEEL_H
#define SIM_WHEEL_H

#include "base/ports.h"
#include "base/status.h"

#include <stdint.h>

#define SIM_WHEEL_SLOTS (1u << 17) // 131 s a turn
#define SIM_WHEEL_SOME  (SIM_WHEEL_SLOTS / 64 / 64)
#define SIM_WHEEL_TURNS 256u // that have lists of their own, nine hours
#define SIM_WHEEL_NONE  UINT32_MAX
#define SIM_WHEEL_NEVER 0 // no entry is due when the clock begins

struct sim_wheel_node {
    uint32_t next;
    uint32_t prev; // index, or SIM_WHEEL_NONE for the first of a slot or list
    uint32_t due;  // tick; SIM_WHEEL_NEVER: not in the wheel
};

struct sim_wheel {
    const struct base_alloc_port *alloc;
    uint32_t *heads;                     // SIM_WHEEL_SLOTS
    uint64_t *filled;                    // a bit a slot
    uint64_t some[SIM_WHEEL_SOME];       // a bit for each of those words: it is not zero
    uint32_t later[SIM_WHEEL_TURNS];     // first entry of the turns with this remainder, but `turn`
    uint32_t later_due[SIM_WHEEL_TURNS]; // none of them is due before
    uint32_t turn;                       // whose entries stand in `heads`
    char *nodes;                         // first node; nodes are `stride` bytes apart
    size_t stride;
    uint32_t now; // every entry due at or before it was handed out
    uint32_t count;
};

// `nodes` (an array of structures of `stride` bytes, a node at the start of each) belongs to the
// caller, who made all of the nodes zero. They are not touched here. NOMEM.
BASE_NODISCARD enum base_status sim_wheel_init(struct sim_wheel *wheel,
                                               const struct base_alloc_port *alloc, void *nodes,
                                               size_t stride);
void sim_wheel_done(struct sim_wheel *wheel);
// Puts entry `index` at tick `due` (moved to the next tick when it lies in the past); an entry that
// waits already is moved.
void sim_wheel_set(struct sim_wheel *wheel, uint32_t index, uint32_t due);
void sim_wheel_cancel(struct sim_wheel *wheel, uint32_t index); // no effect when it does not wait
// Takes one entry due at or before `now` out and returns its index; SIM_WHEEL_NONE when there is
// none. Ticks are handed out in order.
uint32_t sim_wheel_pop(struct sim_wheel *wheel, uint32_t now);
// A tick at or before the earliest entry, and after `now`; SIM_WHEEL_NONE when the wheel is empty.
uint32_t sim_wheel_next(const struct sim_wheel *wheel);

#endif
