// A shard's end of the way to the gateway's core in this process: what its devices reach the core
// through, as they reach a gateway through ports/sim_links.c.
//
// Requests go into a post of the window, answers come from one of the window before; both arrive
// when their delay says. What a device sent arrives, also where the device went away meanwhile: the
// answer is then nobody's. One thread at a time, but for the post `down`, which is the core's to
// write.
#ifndef SIM_CORE_LINK_H
#define SIM_CORE_LINK_H

#include "base/log.h"
#include "base/ports.h"
#include "ports/sim_delay.h"
#include "virtual/flight_memory.h"
#include "virtual/flight_queue.h"

struct sim_core_gateway;
struct sim_core_tunnel;

#define SIM_LINK_LINE 64 // of a cache: shards and core write apart

struct sim_core_link_options {
    uint32_t shard;
    uint32_t first; // number of its first device in the fleet
    struct base_clock_port clock;
    struct sim_delay_port delay;
    struct sim_transport_events events;
    const uint32_t *window; // number of the window that is
    struct sim_flight_memory *flights;
    const struct base_log *log;
    struct sim_core_gateway *gateway; // set when there is one
    struct sim_core_tunnel *tunnel;   // of the shard's streams; NULL: there are none
    uint32_t owner_bytes;             // of who asked, from its beginning: an answer touches them
};

struct sim_core_link {
    struct sim_core_link_options options;
    uint64_t start_us;
    uint64_t sequence;
    struct sim_flight_queue coming; // answers
    struct sim_flight *made;        // all of them, by `made_next`
    struct sim_flight *free;
    _Alignas(SIM_LINK_LINE) struct sim_post up[2];   // by the window's number, odd or even
    _Alignas(SIM_LINK_LINE) struct sim_post down[2]; // likewise
};

// `link` must stay where it is.
void sim_core_link_init(struct sim_core_link *link, const struct sim_core_link_options *options);
// After the core is gone. The flights stay, their memory's.
void sim_core_link_done(struct sim_core_link *link);
struct sim_transport sim_core_link_transport(struct sim_core_link *link);
// What the core would be asked by this, and nothing of it is on its way: for who says it otherwise.
// It lives until sim_core_link_forget. NULL: out of memory.
struct sim_flight *sim_core_link_ask(struct sim_core_link *link, const struct sim_exchange *asked,
                                     const struct dev_request *request);
void sim_core_link_forget(struct sim_flight *flight);
// What a device is told of a reply.
struct dev_response_head sim_core_link_head(const struct gw_reply *reply);
uint32_t sim_core_link_body_bytes(const struct gw_reply *reply); // that its way is charged for
// Takes out what the core posted in the window before.
void sim_core_link_collect(struct sim_core_link *link);
// Tells the devices whose answers are there by now.
void sim_core_link_deliver(struct sim_core_link *link);
// The core's: the flight, answered at `at_us`, is on its way back.
void sim_core_link_answer(struct sim_flight *flight, uint64_t at_us, uint64_t sequence);
// The core was killed, between two windows: connections end, and with them the answers under way.
void sim_core_link_cut(struct sim_core_link *link);
// When the next answer is there; UINT64_MAX: none is on its way.
uint64_t sim_core_link_due_us(const struct sim_core_link *link);

#endif
