// Reverse proxy of a worker: requests for paths that the core does not own go to one upstream over
// HTTP/1.1 with kept-alive connections; the replies stream back. Push-then-pull: a request that
// carries walle-device and walle-profile gets a walle-offer header on its reply when there is news,
// and one that stands for a check-in the answer to it (proxy_ride.h).
//
// One owner, one thread. A request comes here with its body whole, so a client that sends slowly
// holds no connection. A reply waits in a buffer of at most GW_PROXY_BUFFER_BYTES; then the
// upstream is not read, for as long as the client keeps up a rate. One client has a share of the
// connections and of the places in the queue; and no exchange keeps a connection for longer than
// proxy.total_ms.
#ifndef GW_HTTP_PROXY_H
#define GW_HTTP_PROXY_H

#include "base/error.h"
#include "http/config/http_config.h"

struct gw_http_worker;
struct gw_proxy;
struct gw_proxy_exchange;
struct gw_stream;

#define GW_PROXY_BUFFER_BYTES (64 * 1024)
#define GW_PROXY_SPENT_MS     1000u // a connection that a reset cost is in its client's share still

// `url` is "http://HOST:PORT" (or without port: 80); the host is resolved once, here. INVALID, IO,
// NOMEM.
BASE_NODISCARD enum base_status gw_proxy_new(struct gw_http_worker *worker, const char *url,
                                             const struct gw_proxy_config *config,
                                             struct gw_proxy **out_proxy, struct base_error *error);
// Every stream must be gone. Accepts NULL.
void gw_proxy_free(struct gw_proxy *proxy);
void gw_proxy_configure(struct gw_proxy *proxy, const struct gw_proxy_config *config);

// Starts forwarding the stream's request, whose body is whole; sets work->proxy, or has answered
// with a problem.
void gw_proxy_start(struct gw_proxy *proxy, struct gw_stream *stream);
// The stream is gone: ends the exchange, clears work->proxy.
void gw_proxy_cancel(struct gw_proxy_exchange *exchange);
// Reply bytes are there that the client does not take.
bool gw_proxy_has_output(const struct gw_proxy_exchange *exchange);
// Deadlines; called by the worker's tick. For `stood_ms` the worker did not run: that is nobody's
// delay.
void gw_proxy_tick(struct gw_proxy *proxy, uint64_t stood_ms);

#endif
