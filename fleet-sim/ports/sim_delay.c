// The plainest network: it is always equally far. run/fleet_virtual.c hands it to the gateway's
// core in virtual time, which asks it for each message on its way. Any thread may ask: there is no
// state.
#include "ports/sim_delay.h"

static uint64_t constant_us(void *ctx, const struct sim_message *message)
{
    (void)ctx, (void)message;
    return SIM_DELAY_US;
}

struct sim_delay_port sim_delay_constant(void)
{
    return (struct sim_delay_port){.least_us = SIM_DELAY_US, .us = constant_us};
}
