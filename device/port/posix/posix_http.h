// Requests of the runtime, and whatever else goes over the device's connection to a gateway: the
// tunnel's streams and the errands of the app.
#ifndef POSIX_HTTP_H
#define POSIX_HTTP_H

#include "device/port.h"
#include "h2/h2_client.h"

#include <event2/event.h>

struct posix_errand; // posix_errand.h

struct posix_http;
struct posix_http_options {
    struct event_base *base;
    struct base_str host; // copied
    uint16_t port;
    struct h2_tls *tls;         // owned by the caller
    const char *ca_pem_path;    // of `tls`, for messages; borrowed
    struct base_str credential; // shown with every request; empty: none; owned by the caller
    const struct base_log *log;
    void *ctx;
    void (*woke)(void *ctx); // something was handed to the runtime: tick it
};
BASE_NODISCARD enum base_status posix_http_new(const struct posix_http_options *options,
                                               struct posix_http **out_http);
void posix_http_free(struct posix_http *http);
// The runtime that responses go to; before the first request.
void posix_http_attach(struct posix_http *http, struct dev_runtime *runtime);
struct dev_http_port posix_http_table(struct posix_http *http);

// Two-way streams on the same connection; `stream` is the caller's number, below POSIX_STREAMS_MAX.
#define POSIX_STREAMS_MAX 4
struct posix_duplex_request {
    struct base_str path;
    struct base_str device;
    struct base_str priority; // RFC 9218
    uint16_t weight;          // of what it sends, as in h2_request
};
struct posix_duplex_events {
    void *ctx;
    void (*head)(void *ctx, uint32_t stream, const struct h2_head *head);
    void (*body)(void *ctx, uint32_t stream, const uint8_t *bytes, size_t size);
    void (*writable)(void *ctx, uint32_t stream);
    void (*end)(void *ctx, uint32_t stream, enum base_status status); // once per open
};
void posix_http_duplex_attach(struct posix_http *http, const struct posix_duplex_events *events);
// CONFLICT: that stream is open; otherwise as h2_client_new and h2_client_request.
BASE_NODISCARD enum base_status posix_http_duplex_open(struct posix_http *http, uint32_t stream,
                                                       const struct posix_duplex_request *request);
// As h2_client_write. Early bytes go with the first flight when the connection is new.
BASE_NODISCARD enum base_status posix_http_duplex_send(struct posix_http *http, uint32_t stream,
                                                       const uint8_t *bytes, size_t size,
                                                       bool early);
void posix_http_duplex_close(struct posix_http *http, uint32_t stream); // no `end` follows

// Makes the request of an errand of the app; LIMIT, and the codes of h2_client_new and
// h2_client_request.
BASE_NODISCARD enum base_status posix_http_errand(struct posix_http *http,
                                                  struct posix_errand *errand,
                                                  const struct h2_request *request);
void posix_http_errand_cancel(struct posix_http *http, const struct posix_errand *errand);

#endif
