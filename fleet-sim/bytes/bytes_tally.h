// What the few devices whose bytes are real came to, beside what an ordinary device is charged for
// the same. A sum of each member is that of several.
#ifndef SIM_BYTES_TALLY_H
#define SIM_BYTES_TALLY_H

#include <stdint.h>

// One way, in bytes as they would lie in TCP segments; without headers of TCP and IP.
struct sim_bytes_sum {
    uint64_t wire;      // all of it
    uint64_t handshake; // ... until TLS was through
    uint64_t body;      // ... of requests or answers; the rest is records, frames and their headers
    uint64_t modelled;  // that the model charges an ordinary device with
};

struct sim_bytes_tally {
    uint64_t devices;     // that had a connection
    uint64_t connections; // begun
    uint64_t handshakes;  // ... that came through
    uint64_t answers;     // to requests, complete and compared
    uint64_t cut;         // requests without an answer: the connection ended
    uint64_t mismatches;  // requests and answers that are not what the model has
    uint64_t mismatched;  // index of the device of one of these
    uint64_t us;          // from request to answer, of all answers
    uint64_t modelled_us; // ... as an ordinary device would have waited
    struct sim_bytes_sum up;
    struct sim_bytes_sum down;
};

void sim_bytes_tally_add(struct sim_bytes_tally *into, const struct sim_bytes_tally *from);

#endif
