// A listening socket of one worker (SO_REUSEPORT: each worker has its own for the same address).
#ifndef GW_HTTP_LISTENER_H
#define GW_HTTP_LISTENER_H

#include "base/error.h"

#include <stdint.h>

struct gw_http_worker;
struct gw_listener;
struct gw_peer_address;

#define GW_ADDRESS_TEXT_MAX 64

// Parses "ADDR:PORT" ("127.0.0.1:8080", "[::1]:0", "localhost:0" stands for 127.0.0.1), binds with
// SO_REUSEPORT and listens. *out_fd is non-blocking. `out_text` (GW_ADDRESS_TEXT_MAX) gets the
// bound address with its real port. INVALID, DENIED (`loopback_only` and it is not), IO.
BASE_NODISCARD enum base_status gw_listener_bind(const char *address, bool loopback_only,
                                                 int *out_fd, char *out_text,
                                                 struct base_error *error);
// IO when another process has the port already, INVALID as below. To be asked before the first
// bind.
BASE_NODISCARD enum base_status gw_listener_free_to_bind(const char *address,
                                                         struct base_error *error);
// Can only one of two addresses be listened on, since the other would have its port? False also
// where one is no address.
bool gw_listener_same(const char *left, const char *right);
// Would gw_listener_bind take this address, whoever has it now? Nothing is bound. INVALID, DENIED.
BASE_NODISCARD enum base_status gw_listener_check(const char *address, bool loopback_only,
                                                  struct base_error *error);
// Accepts on the worker's loop. Takes `fd`, whatever the outcome. NOMEM.
BASE_NODISCARD enum base_status gw_listener_new(struct gw_http_worker *worker, int fd, bool tls,
                                                struct gw_listener **out_listener);
// Closes the socket. Accepts NULL.
void gw_listener_free(struct gw_listener *listener);
// Takes over the worker's limits for connections accepted from now on. Accepts NULL.
void gw_listener_configure(struct gw_listener *listener);
// What a new connection of this address costs, paid from its rates: LIMIT when it has had enough.
BASE_NODISCARD enum base_status gw_listener_admit(struct gw_http_worker *worker,
                                                  const struct gw_peer_address *peer, bool tls);
// Accepting goes on after it was paused for want of descriptors.
void gw_listener_resume(struct gw_listener *listener);

#endif
