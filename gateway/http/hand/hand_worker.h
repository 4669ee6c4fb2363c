// A worker by hand: the transport as it ships (TLS, HTTP/2, streams) on one thread of the caller's,
// with sockets that the caller brings and a clock that the caller moves. It has no listener, no
// thread and no timer: nothing happens outside the calls below. For the fleet simulator, whose few
// devices that speak real bytes meet a gateway here (fleet-sim/bytes).
//
// Lifetimes: the core outlives the hand, and the hand all its connections. One thread.
#ifndef GW_HAND_WORKER_H
#define GW_HAND_WORKER_H

#include "base/error.h"
#include "base/ports.h"
#include "http/worker_life.h"

struct gw_hand;

#define GW_HAND_CONNECTIONS_MAX 1024u // open at once

struct gw_hand_options {
    struct gw_core *core;
    struct base_clock_port clock;
    const char *dir; // a certificate and keys of its own are made there, read, and removed
    struct gw_http_tap tap;
    const struct base_log *log;
};

// NOMEM, IO, and what making and reading the certificate gives.
BASE_NODISCARD enum base_status gw_hand_new(const struct gw_hand_options *options,
                                            struct gw_hand **out_hand, struct base_error *error);
// After gw_hand_hang_up, and when the core has answered all that it had; accepts NULL.
void gw_hand_free(struct gw_hand *hand);
// A connection that begins with TLS: a stream socket that does not block, the hand's from the call
// on. `peer` numbers whom limits count together. LIMIT, NOMEM.
BASE_NODISCARD enum base_status gw_hand_take(struct gw_hand *hand, int fd, uint32_t peer);
// Does once what is there to be done: deadlines that are due, messages of the core, what came on
// sockets. Nothing is left when two calls in a row wrote nothing to any socket.
void gw_hand_run(struct gw_hand *hand);
// When a deadline is looked at next, microseconds of the clock; UINT64_MAX: there is none.
uint64_t gw_hand_due_us(const struct gw_hand *hand);
// Has the core said something to the worker that it has not looked at?
bool gw_hand_waits(const struct gw_hand *hand);
// Every connection ends now, without a word. What the core has of them comes back to nobody.
void gw_hand_hang_up(struct gw_hand *hand);

#endif
