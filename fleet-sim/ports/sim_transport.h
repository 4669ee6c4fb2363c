// How the exchanges of virtual devices travel: over real sockets (sim_links) or to a responder in
// the same process (sim_local). The device runtime sees neither, only its HTTP port.
#ifndef SIM_SIM_TRANSPORT_H
#define SIM_SIM_TRANSPORT_H

#include "device/port.h"

struct sim_flight;
struct sim_held;
struct sim_link;
struct sim_blob;

#define SIM_BUSINESS_PATH "/business"

enum sim_exchange_kind {
    SIM_EXCHANGE_CHECKIN,
    SIM_EXCHANGE_BLOB,
    SIM_EXCHANGE_REPORT,
    SIM_EXCHANGE_HINTS,
    SIM_EXCHANGE_TUNNEL,
    SIM_EXCHANGE_META, // roots, timestamp, snapshots
    SIM_EXCHANGE_ENROL,
    SIM_EXCHANGE_BUSINESS, // of the app, to its service behind the gateway
    SIM_EXCHANGE_OTHER,
    SIM_EXCHANGE_KIND_COUNT
};

// What a device has beside its exchanges while it is awake: a connection, and a link that carries
// one message at a time each way.
struct sim_own_link {
    uint64_t up_free_us; // when it has sent all
    uint64_t down_free_us;
    bool connected;
};

// One exchange under way; embedded in the awake device, free when `open` is false.
struct sim_exchange {
    void *owner;                // the awake device
    uint32_t device;            // in the shard
    uint64_t index;             // of the device in the population
    uint32_t id;                // the runtime's name for it
    uint64_t started_us;        // when it was handed to the transport
    struct base_str credential; // shown, or of an enrolment its key; empty: none. Valid until the
                                // exchange ends
    // BUSINESS: what rides on it, for the start alone; and what the answer's head says of that,
    // valid while that is told.
    const struct dev_ride *ride;
    struct base_str answer_ride;
    struct base_str answer_offer;
    bool answered; // its head came
    bool refused;  // the answer says to come again
    bool in_vain;  // it is counted as one without an answer of use
    enum sim_exchange_kind kind;
    bool open;
    bool body_owned; // `body` is on the heap, for this exchange alone
    // Of the socket transport.
    struct sim_link *link;
    int32_t stream;
    struct sim_held *held;     // a fault has it (faults/fault_network.c); NULL: none
    struct sim_flight *flight; // of the one to the core in this process (virtual/core_gateway.h)
    struct sim_own_link *own_link; // ... NULL: nothing else goes over it
    // Of the in-process one.
    struct sim_exchange *next;
    int status;
    uint64_t range_from;
    const uint8_t *body;
    size_t body_bytes;
};

// Where answers go. `end` is the last call for an exchange.
struct sim_transport_events {
    void *ctx;
    void (*head)(void *ctx, struct sim_exchange *exchange, const struct dev_response_head *head);
    void (*body)(void *ctx, struct sim_exchange *exchange, const uint8_t *bytes, size_t size);
    void (*end)(void *ctx, struct sim_exchange *exchange, enum base_status status);
    void (*writable)(void *ctx, struct sim_exchange *exchange); // after a write said BUSY
};

struct sim_transport {
    void *ctx;
    // OK: the answer will come, never from inside the call.
    enum base_status (*start)(void *ctx, struct sim_exchange *exchange,
                              const struct dev_request *request);
    void (*cancel)(void *ctx, struct sim_exchange *exchange);
    // A tunnel stream: a request with an open body, which `write` adds to. NULL: there are none.
    enum base_status (*open)(void *ctx, struct sim_exchange *exchange, struct base_str device,
                             uint8_t class_id);
    // All of it or nothing. BUSY: `writable` is called when there is room.
    enum base_status (*write)(void *ctx, struct sim_exchange *exchange, const uint8_t *bytes,
                              size_t size);
};

enum sim_exchange_kind sim_exchange_kind_of(struct base_str path);

#endif
