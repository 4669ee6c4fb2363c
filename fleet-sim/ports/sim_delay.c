// The plainest network: it is always equally far. run/fleet_virtual.c hands it to the gateway's
// core in virtual time, which asks it for each message on its way. Any thread may ask: there is no
// state.
#include "ports/sim_delay.h"

static struct sim_delay constant(void *ctx, const struct sim_message *message)
{
    (void)ctx, (void)message;
    return (struct sim_delay){.way_us = SIM_DELAY_US};
}

uint64_t sim_delay_us(const struct sim_delay_port *delay, const struct sim_message *message)
{
    struct sim_delay of = delay->of(delay->ctx, message);
    uint64_t us = of.link_us + of.wait_us + of.way_us;
    return us > delay->least_us ? us : delay->least_us;
}

struct sim_delay_port sim_delay_constant(void)
{
    return (struct sim_delay_port){.least_us = SIM_DELAY_US, .of = constant};
}
