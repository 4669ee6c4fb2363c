// A shard's end of the connections whose bytes are real: a few of its devices, drawn from the seed,
// speak with the device's own HTTP/2 client and TLS in place of the handing over that core_link.h
// does. A device has one connection while it is awake, begun with its first request; a process that
// dies leaves it. Its tunnel streams stay the model's.
//
// Time is the model's: a chunk of bytes is on its way as long as the link says. So is the law: each
// request and answer must come out of the bytes as the model hands it over (struct sim_claim).
//
// One thread at a time, but for the posts `down`, which are the gate's to write.
#ifndef SIM_BYTES_LINES_H
#define SIM_BYTES_LINES_H

#include "bytes/bytes_chunk.h"
#include "bytes/bytes_tally.h"
#include "virtual/core_link.h"

struct event_base;
struct sim_line;

struct sim_bytes_lines_options {
    uint32_t shard;
    uint64_t seed;
    uint32_t devices; // of the fleet, and
    uint32_t wanted;  // how many of them speak bytes, and
    uint32_t first;   // which are the shard's
    uint32_t count;
    struct base_clock_port clock;
    struct sim_delay_port delay;
    struct sim_transport_events events;
    const uint32_t *window;     // number of the window that is
    struct sim_core_link *link; // of the same shard: it knows what the model would say
    const struct base_log *log;
};

struct sim_bytes_lines {
    struct sim_bytes_lines_options options;
    uint32_t mine[SIM_BYTE_DEVICES_MAX];  // in the shard, ascending
    uint64_t begun[SIM_BYTE_DEVICES_MAX]; // connections of each
    uint32_t mine_count;
    struct event_base *base; // NULL: none of these devices is here
    struct sim_line *lines;
    uint64_t start_us;
    uint64_t made; // connections
    uint64_t sequence;
    struct sim_transport under; // of the others, and of streams
    struct sim_flight_queue coming;
    struct sim_bytes_tally tally;
    _Alignas(SIM_LINK_LINE) struct sim_post up[2];   // by the window's number, odd or even
    _Alignas(SIM_LINK_LINE) struct sim_post down[2]; // likewise
};

// `lines` must stay where it is. NOMEM.
BASE_NODISCARD enum base_status sim_bytes_lines_init(struct sim_bytes_lines *lines,
                                                     const struct sim_bytes_lines_options *options);
// After the gate is gone. Devices are told nothing.
void sim_bytes_lines_done(struct sim_bytes_lines *lines);
// Has the shard such a device? Else none of the calls below is needed.
bool sim_bytes_lines_any(const struct sim_bytes_lines *lines);
// The transport of the shard: these devices' requests go as bytes, all else goes as `under` has it.
struct sim_transport sim_bytes_lines_transport(struct sim_bytes_lines *lines,
                                               const struct sim_transport *under);
// The process of a device is no more, and its exchanges are cancelled. `lines` NULL: nothing.
void sim_bytes_lines_left(struct sim_bytes_lines *lines, uint32_t device);
// Takes out what the gate posted in the window before.
void sim_bytes_lines_collect(struct sim_bytes_lines *lines);
// Gives devices what is there by now, and takes what they say.
void sim_bytes_lines_deliver(struct sim_bytes_lines *lines);
// What devices have said in their turn goes on its way.
void sim_bytes_lines_send(struct sim_bytes_lines *lines);
// When the next chunk is there; UINT64_MAX: none is on its way.
uint64_t sim_bytes_lines_due_us(const struct sim_bytes_lines *lines);

#endif
