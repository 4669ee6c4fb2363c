// The gateway's end of the connections whose bytes are real: the transport that ships (TLS, HTTP/2,
// streams; gateway/http) over the core of a run in virtual time. It is the core's door
// (virtual/core_gateway.h), and runs on the core's thread.
//
// A chunk that arrives is laid before the transport, which hands whole requests to the core as it
// does everywhere; what it writes goes back as chunks. Each request is held against what the model
// would have asked, and with each answer goes what the model would have said.
#ifndef SIM_BYTES_GATE_H
#define SIM_BYTES_GATE_H

#include "bytes/bytes_lines.h"
#include "digest/run_digest.h"
#include "virtual/core_gateway.h"

struct gw_hand;
struct sim_gate_line;

struct sim_bytes_gate_options {
    struct base_clock_port clock; // the core's
    struct sim_delay_port delay;
    struct sim_bytes_lines *const *lines; // of the shards, by number
    uint32_t line_count;
    const uint32_t *window;        // number of the window that is
    struct sim_recorder *recorder; // takes what the core is asked and says
    const struct base_log *log;
};

struct sim_bytes_gate {
    struct sim_bytes_gate_options options;
    struct gw_hand *hand; // NULL: there is no core
    struct sim_gate_line *lines;
    struct sim_flight_queue coming;
    uint64_t start_us;
    uint64_t sequence;
    struct sim_bytes_tally tally;
};

// `gate` must stay where it is.
void sim_bytes_gate_init(struct sim_bytes_gate *gate, const struct sim_bytes_gate_options *options);
void sim_bytes_gate_done(struct sim_bytes_gate *gate); // after the core is gone
struct sim_core_door sim_bytes_gate_door(struct sim_bytes_gate *gate);

#endif
