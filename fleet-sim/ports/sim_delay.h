// How long messages between virtual devices and the gateway are on their way, in virtual time.
//
// Pure: the same message takes equally long whenever it is asked about, and nothing is read from
// the host. No message is faster than `least_us`: whoever moves the time may let devices and
// gateway go on apart from each other for so long. A message's bytes have its device's link to
// themselves, one way: whoever sends several at once lets each wait for those before it.
#ifndef SIM_SIM_DELAY_H
#define SIM_SIM_DELAY_H

#include <stdbool.h>
#include <stdint.h>

#define SIM_DELAY_US 20000u // of every message, one way, where nothing else is said

struct sim_message {
    uint64_t device; // its index in the population
    uint64_t at_us;  // when it was sent, since the start of the run
    uint32_t bytes;
    uint32_t count;  // messages of this device before it
    uint32_t behind; // bytes of the same stream just before it
    bool up;         // to the gateway
    bool opens;      // the connection with it
};

// What a message takes, one after the other.
struct sim_delay {
    uint64_t link_us; // its bytes on its device's link, which nothing else goes over then
    uint64_t wait_us; // ... and pauses between them, in which others may
    uint64_t way_us;  // from there on
};

struct sim_delay_port {
    void *ctx;
    uint64_t least_us; // > 0
    struct sim_delay (*of)(void *ctx, const struct sim_message *message);
};

// All of it, where the link is free; never less than the least.
uint64_t sim_delay_us(const struct sim_delay_port *delay, const struct sim_message *message);

// Every message takes SIM_DELAY_US.
struct sim_delay_port sim_delay_constant(void);

#endif
