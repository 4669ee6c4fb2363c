// A request of a virtual device and its answer, on their way between the shard of the device and
// the gateway's core in this process.
//
// Lifetimes. A flight belongs to the link of its shard (core_link.h), which made it and uses it
// again. It is at one place at a time: in a post, in a queue, or with the core.
//
// Threads. Who has a flight may touch it; it changes hands with the window (windows.h): what one
// side posts in a window the other side takes out in the next. `asked` is the shard's alone.
#ifndef SIM_FLIGHT_H
#define SIM_FLIGHT_H

#include "base/arena.h"
#include "ports/sim_transport.h"
#include "svc/exchange.h"

// When and where something happens. No two are equal, so there is one order of all.
struct sim_when {
    uint64_t due_us;
    uint32_t shard;
    uint32_t device; // in the shard
    uint64_t sequence;
};

struct sim_flight {
    struct sim_when when; // it arrives
    struct sim_flight *next;
    struct sim_exchange *asked; // NULL: nobody waits any more
    const void *owner;          // of what was asked: where that is to be found soon
    struct sim_core_link *link;
    struct sim_flight *made_next; // among all that its link had made
    uint64_t index;               // of the device in the population
    uint32_t number;              // of the request, as its device counts them
    uint64_t link_us;             // of its way the answer's bytes have the device's link
    bool own;                     // an operator's: it is answered within the call
    bool finished;
    bool died; // the core was killed: its connection ends without an answer
    struct base_arena arena;
    struct gw_exchange exchange;
};

#endif
