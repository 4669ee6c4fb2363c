// What the files of the posix port share.
#ifndef POSIX_INTERNAL_H
#define POSIX_INTERNAL_H

#include "posix/posix_port.h"

#include "h2/h2_client.h"

#include <event2/event.h>

// ---- posix_storage.c
struct posix_storage;
BASE_NODISCARD enum base_status posix_storage_new(const char *dir, const struct base_log *log,
                                                  struct posix_storage **out_storage,
                                                  struct base_error *error);
void posix_storage_free(struct posix_storage *storage);
struct dev_storage_port posix_storage_table(struct posix_storage *storage);
enum base_status posix_status_of_mdb(int result); // what LMDB answers

// ---- posix_http.c
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

// ---- posix_business.c: requests of the app
struct posix_errand;
struct posix_errand_place {
    struct posix_http *http;
    struct dev_runtime *runtime;
    struct base_str credential; // empty: none; these two live as long as the port
    struct base_str device;
    void *ctx;
    void (*woke)(void *ctx);
};
// The codes of posix_business.
BASE_NODISCARD enum base_status posix_errand_new(const struct posix_errand_place *place,
                                                 struct event_base *base,
                                                 const struct posix_business *request);
void posix_errand_head(struct posix_errand *errand, const struct h2_head *head);
void posix_errand_body(struct posix_errand *errand, const uint8_t *bytes, size_t size);
// Frees it, after the app was told, when it is to be.
void posix_errand_end(struct posix_errand *errand, enum base_status status, bool tell);
// posix_http.c: makes its request; LIMIT, and the codes of h2_client_new and h2_client_request.
BASE_NODISCARD enum base_status posix_http_errand(struct posix_http *http,
                                                  struct posix_errand *errand,
                                                  const struct h2_request *request);
void posix_http_errand_cancel(struct posix_http *http, const struct posix_errand *errand);

// ---- posix_tunnel.c: the transport of the tunnel (tunnel/tunnel.h).
struct dev_tunnel;
struct dev_tunnel_transport;
struct posix_tunnel;
// `woke`: something was handed to the tunnel, step it. The HTTP side must outlive it.
BASE_NODISCARD enum base_status posix_tunnel_new(struct posix_http *http, uint64_t device_id,
                                                 void *ctx, void (*woke)(void *ctx),
                                                 struct posix_tunnel **out_tunnel);
void posix_tunnel_free(struct posix_tunnel *tunnel); // accepts NULL
// The tunnel that events go to; before its first stream.
void posix_tunnel_attach(struct posix_tunnel *self, struct dev_tunnel *tunnel);
struct dev_tunnel_transport posix_tunnel_table(struct posix_tunnel *self);

// ---- posix_port.c
// The TLS context of the options, NULL for clear text.
BASE_NODISCARD enum base_status posix_tls_new(const struct posix_options *options,
                                              struct h2_tls **out_tls, struct base_error *error);

// ---- posix_task.c
struct posix_task;
// `runner_path` NULL: scripts run on the worker thread; otherwise in processes of that program
// (posix/posix_child.h), whose codes it gives.
BASE_NODISCARD enum base_status posix_task_new(struct event_base *base, const char *runner_path,
                                               void *ctx, void (*woke)(void *ctx),
                                               struct posix_task **out_task,
                                               struct base_error *error);
void posix_task_free(struct posix_task *task);
void posix_task_attach(struct posix_task *task, struct dev_runtime *runtime);
// What scripts may ask (walle.data.query). NULL: nothing.
struct dev_feature_store;
void posix_task_features(struct posix_task *task, struct dev_feature_store *features);
struct dev_task_port posix_task_table(struct posix_task *task);

#endif
