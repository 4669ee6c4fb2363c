// The clock of a run in virtual time. The run's loop (run/fleet_virtual.c) moves it; devices and
// the gateway's core read it through the clock port that they have in real time too, so neither
// knows. It begins above zero, where nothing is due yet: a time of zero means "none" in many
// places.
#include "virtual/virtual_clock.h"

#include "base/check.h"

#define BEGIN_US 5000000u

void sim_virtual_clock_init(struct sim_virtual_clock *clock, uint64_t wall_us)
{
    *clock =
        (struct sim_virtual_clock){.now_us = BEGIN_US, .wall_us = wall_us, .from_us = BEGIN_US};
}

static uint64_t mono_us(void *ctx)
{
    return ((const struct sim_virtual_clock *)ctx)->now_us;
}

static uint64_t wall_us(void *ctx)
{
    const struct sim_virtual_clock *clock = ctx;
    return clock->wall_us + (clock->now_us - clock->from_us);
}

struct base_clock_port sim_virtual_clock_port(struct sim_virtual_clock *clock)
{
    return (struct base_clock_port){.ctx = clock, .mono_us = mono_us, .wall_us = wall_us};
}

void sim_virtual_clock_move(struct sim_virtual_clock *clock, uint64_t at_us)
{
    base_assert(at_us >= clock->now_us);
    clock->now_us = at_us > clock->now_us ? at_us : clock->now_us;
}
