// The time of a run in virtual time: it stands still until the run's loop moves it to the next
// thing that is due. One thread.
#ifndef SIM_VIRTUAL_CLOCK_H
#define SIM_VIRTUAL_CLOCK_H

#include "base/ports.h"

struct sim_virtual_clock {
    uint64_t now_us;  // the steady clock
    uint64_t wall_us; // ... at which the wall clock showed this
    uint64_t from_us;
};

// Both clocks go on from here. `wall_us` is microseconds since 1970.
void sim_virtual_clock_init(struct sim_virtual_clock *clock, uint64_t wall_us);
// `clock` must stay where it is.
struct base_clock_port sim_virtual_clock_port(struct sim_virtual_clock *clock);
// To `at_us`, never back.
void sim_virtual_clock_move(struct sim_virtual_clock *clock, uint64_t at_us);

#endif
