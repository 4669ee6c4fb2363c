// Pieces of a connection's bytes on their way between a virtual device and the gateway's transport
// in this process, and what the model would say in their place.
//
// The bytes are those of the programs themselves: the device's HTTP/2 client and the gateway's
// worker have a pair of sockets each to the simulator, which takes out what one has written and
// lays it before the other when the modelled link has carried it. Beside a piece travels a claim:
// the hash of the request or the answer that the model hands over, which the other end compares
// with what came out of the bytes.
//
// Lifetimes. A chunk is on the heap; who takes it out of a queue frees it. Threads: as a flight.
#ifndef SIM_BYTES_CHUNK_H
#define SIM_BYTES_CHUNK_H

#include "base/span.h"
#include "model/sim_options.h"
#include "ports/sim_delay.h"
#include "virtual/flight_queue.h"

#define SIM_CHUNK_ROOM    16384u      // at most: about a record of TLS
#define SIM_CHUNK_NUMBERS 0x40000000u // messages of chunks are counted from here

enum sim_chunk_kind {
    SIM_CHUNK_OPEN,   // somebody wants a connection: TCP's first way
    SIM_CHUNK_OPENED, // ... and has it: the way back
    SIM_CHUNK_BYTES,
    SIM_CHUNK_END, // of the connection
    SIM_CHUNK_CLAIM,
    SIM_CHUNK_KIND_COUNT
};

// What the model says of a stream. Of an answer also what it would have cost an ordinary device.
struct sim_claim {
    int32_t stream;
    uint64_t hash;
    uint64_t core_us;    // the core took
    uint64_t way_us;     // the answer would be on its way
    uint64_t body_bytes; // that way was charged for
    uint32_t count;      // of the request: of its answer's message, as the model counts them
};

struct sim_chunk {
    struct sim_flight
        flight; // first: posts and queues order it; nothing but `when`, `index` is used
    enum sim_chunk_kind kind;
    uint64_t line; // number of the connection
    uint32_t peer; // OPEN: whom the gateway's limits count it with
    struct sim_claim claim;
    size_t size;
    uint8_t bytes[];
};

// One direction of a connection: bytes leave one after another, and none overtakes another.
struct sim_bytes_way {
    struct sim_delay_port delay;
    uint64_t start_us; // of the run
    uint64_t index;    // of the device in the population
    uint64_t line;
    uint32_t shard;
    uint32_t device; // in the shard
    uint32_t count;  // messages so far
    bool up;
    uint32_t behind;  // bytes since nothing was on its way
    uint64_t free_us; // the link has sent what was there before
    uint64_t last_us; // the last one of it arrives
};

// A chunk of this direction, with a copy of the bytes; `when` is set but for its number in a row:
// it was sent at `at_us`. A claim takes no time of the link's: it arrives behind what was sent
// before it, and in front of what is sent after it. NULL: out of memory.
struct sim_chunk *sim_chunk_new(struct sim_bytes_way *way, enum sim_chunk_kind kind, uint64_t at_us,
                                struct base_span bytes);
// Every chunk goes: of a queue, of a post. Their memory stays the caller's to end.
void sim_chunks_drop(struct sim_flight_queue *queue);

// What there is to read on a socket of the simulator's. BUSY: nothing now; CLOSED: the other side
// has ended.
BASE_NODISCARD enum base_status sim_bytes_read(int fd, uint8_t *out, size_t room, size_t *out_size);
// All of it, or IO: the other side has ended, or takes no more.
BASE_NODISCARD enum base_status sim_bytes_write(int fd, const uint8_t *bytes, size_t size);
// Two ends of a connection, which do not block. LIMIT: no file descriptors.
BASE_NODISCARD enum base_status sim_bytes_pair(int out_ends[2]);

// Hashes that do not depend on how bytes came in pieces.
#define SIM_BYTES_HASH UINT64_C(0xcbf29ce484222325)
uint64_t sim_bytes_hash(uint64_t hash, const void *bytes, size_t size);
// Of all that a device says in a request.
uint64_t sim_bytes_request_hash(const struct gw_request *request);
// Of all that a device is told of an answer; `body` is the hash of its body.
uint64_t sim_bytes_answer_hash(const struct dev_response_head *head, uint64_t body);

// Which `count` devices of so many speak real bytes: drawn from the seed, each once, ascending.
// Returns how many there are.
uint32_t sim_bytes_choose(uint64_t seed, uint32_t devices, uint32_t count,
                          uint32_t out[SIM_BYTE_DEVICES_MAX]);

#endif
