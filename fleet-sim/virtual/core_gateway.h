// A gateway in this process, in virtual time: the core as it ships (gateway/svc, with the operator
// API) over its store, without sockets and threads. It goes on from a copy of the data folder of a
// gateway that is not running, so a run meets the tasks, rollouts and devices that are there, and
// changes nothing of them.
//
// What is modelled: each message takes what `delay` of its link says, reports are durable
// SIM_CORE_COMMIT_US after the first that waits, and the core's own work takes no time. Nothing is
// read from the host's clock. One thread at a time. Hint streams are not served: who asks for one
// is told that there is none. Tunnels are a shard's (virtual/core_tunnel.h).
#ifndef SIM_CORE_GATEWAY_H
#define SIM_CORE_GATEWAY_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/log.h"
#include "digest/run_digest.h"
#include "virtual/core_link.h"
#include "virtual/virtual_clock.h"

#define SIM_CORE_TICK_US        500000u  // as the gateway's default (rollout.tick_ms)
#define SIM_CORE_COMMIT_US      5000u    // from a report to the disk
#define SIM_CORE_DOWN_US        2000000u // from a kill to the first answer after it
#define SIM_CORE_DEVICES_A_PEER 1024u    // that share an address, as behind the NAT of a provider

struct sim_core_gateway;

// Another way to the core, beside the links: connections whose bytes are real (bytes/bytes_gate.h).
// Called on the core's thread. `open` NULL: there is none.
struct sim_core_door {
    void *ctx;
    // There is a core, whose files are in this folder. NOMEM, IO, INVALID.
    enum base_status (*open)(void *ctx, struct gw_core *core, const char *dir,
                             struct base_error *error);
    // The core dies: connections end, and what it has of them comes back to nobody.
    void (*shut)(void *ctx);
    void (*close)(void *ctx);   // it has given everything back, and is about to go
    void (*collect)(void *ctx); // takes what was posted in the window before
    // Does what is due, and carries on what the core said. Not `up`: whoever comes is turned away.
    void (*step)(void *ctx, bool up);
    uint64_t (*due_us)(const void *ctx); // when something is; UINT64_MAX: nothing is
};

struct sim_core_gateway_options {
    const char *dir;                    // data folder that is copied
    struct sim_virtual_clock *clock;    // its own
    uint64_t seed;                      // of all that the core draws
    uint32_t strangers;                 // devices that may come without a credential
    struct sim_core_link *const *links; // to the shards
    uint32_t link_count;
    const uint32_t *window;           // number of the window that is
    struct sim_recorder *recorder;    // takes what the core is asked and says
    struct sim_shared_verify *verify; // takes note of what the core signs; NULL: nobody does
    struct sim_core_door door;
    const struct base_log *log;
};

// Copies the folder beside the system's temporary files, in memory where there is room for such,
// and opens it. BUSY: a gateway runs there; NOT_FOUND, IO, FULL and what opening a store gives.
BASE_NODISCARD enum base_status sim_core_gateway_new(const struct sim_core_gateway_options *options,
                                                     struct sim_core_gateway **out_gateway,
                                                     struct base_error *error);
void sim_core_gateway_free(struct sim_core_gateway *gateway); // and the copy; accepts NULL
// A window: what the shards posted in the one before is taken, and everything that is due before
// `until_us` is done. When the next is; UINT64_MAX: nothing.
uint64_t sim_core_gateway_run(struct sim_core_gateway *gateway, uint64_t until_us);
// Between two windows, at a moment of its clock or after it: the core is killed as by kill -9 and
// started again on what its store's files have at that moment. Who waits for an answer hears that
// the connection ended, and so does who asks within SIM_CORE_DOWN_US. NOMEM, IO, FULL and what
// opening a store gives: then it stays down.
BASE_NODISCARD enum base_status sim_core_gateway_restart(struct sim_core_gateway *gateway,
                                                         uint64_t at_us, struct base_error *error);
// When it has something to do.
uint64_t sim_core_gateway_due_us(const struct sim_core_gateway *gateway);
// What enrolments are authorized by: the same as long as the gateway is. Any thread; empty: there
// are none.
struct base_str sim_core_gateway_bearer(const struct sim_core_gateway *gateway);
// Answers that say that the store has no room (507).
uint64_t sim_core_gateway_unwritten(const struct sim_core_gateway *gateway);
// gw_exchange.finish of every flight.
void sim_core_gateway_finish(struct gw_exchange *exchange);
// What the copy takes of the memory.
uint64_t sim_core_gateway_folder_bytes(const struct sim_core_gateway *gateway);
// An operator's question, answered before it returns: the status. The body is added to `out`.
int sim_core_gateway_ask(struct sim_core_gateway *gateway, const char *path,
                         struct base_buffer *out);
// An operator's command, a POST with this JSON, carried out before it returns: likewise.
int sim_core_gateway_tell(struct sim_core_gateway *gateway, const char *path, const char *json,
                          struct base_buffer *out);

#endif
