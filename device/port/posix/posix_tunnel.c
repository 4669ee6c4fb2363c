// The tunnel's streams (struct dev_tunnel_transport) on the connection that carries check-ins,
// hints and pulls: POST /v1/tunnel with an open body, one per class. Bytes and events go between
// posix_http, which owns the connection, and the tunnel. On the thread of the event base.
#include "posix/posix_tunnel.h"

#include "posix/posix_http.h"
#include "posix/posix_request.h"

#include "tunnel/tunnel.h"
#include "wire/digest.h"

#include "base/clock.h"

#include <stdlib.h>

struct posix_tunnel {
    struct posix_http *http;
    struct dev_tunnel *tunnel; // NULL before it is attached
    char device[WIRE_DEVICE_HEX + 1];
    int status[POSIX_STREAMS_MAX]; // of the answer; 0: none yet
    uint32_t retry_after_s[POSIX_STREAMS_MAX];
    void *ctx;
    void (*woke)(void *ctx);
};

static void on_head(void *ctx, uint32_t stream, const struct h2_head *head)
{
    struct posix_tunnel *self = ctx;
    self->status[stream] = head->status;
    self->retry_after_s[stream] = head->retry_after_s;
    if (head->status == DEV_TUNNEL_STATUS_OPEN) {
        dev_tunnel_on_open(self->tunnel, stream, base_clock_mono_us());
        self->woke(self->ctx);
    }
}

static void on_body(void *ctx, uint32_t stream, const uint8_t *bytes, size_t size)
{
    struct posix_tunnel *self = ctx;
    if (self->status[stream] == DEV_TUNNEL_STATUS_OPEN) { // of a refusal it is prose
        dev_tunnel_on_bytes(self->tunnel, stream, base_clock_mono_us(), bytes, size);
        self->woke(self->ctx);
    }
}

static void on_writable(void *ctx, uint32_t stream)
{
    struct posix_tunnel *self = ctx;
    dev_tunnel_on_writable(self->tunnel, stream, base_clock_mono_us());
    self->woke(self->ctx);
}

static void on_end(void *ctx, uint32_t stream, enum base_status status)
{
    struct posix_tunnel *self = ctx;
    bool refused = self->status[stream] != DEV_TUNNEL_STATUS_OPEN;
    dev_tunnel_on_closed(self->tunnel, stream, base_clock_mono_us(),
                         dev_tunnel_ending(self->status[stream], status),
                         refused ? self->retry_after_s[stream] : 0);
    self->woke(self->ctx);
}

// ---- The port

static enum base_status open_stream(void *ctx, uint32_t stream, uint8_t class_id)
{
    struct posix_tunnel *self = ctx;
    if (stream >= POSIX_STREAMS_MAX || class_id >= WIRE_TUNNEL_CLASSES || self->tunnel == NULL) {
        return BASE_ERR_LIMIT;
    }
    self->status[stream] = 0;
    self->retry_after_s[stream] = 0;
    const struct posix_tunnel_rank rank = posix_tunnel_rank(class_id);
    const struct posix_duplex_request request = {
        .path = BASE_STR("/v1/tunnel"),
        .device = {self->device, WIRE_DEVICE_HEX},
        .priority = rank.priority,
        .weight = rank.weight,
    };
    return posix_http_duplex_open(self->http, stream, &request);
}

static enum base_status send_bytes(void *ctx, uint32_t stream, const uint8_t *bytes, size_t size,
                                   bool early)
{
    struct posix_tunnel *self = ctx;
    return posix_http_duplex_send(self->http, stream, bytes, size, early);
}

static void close_stream(void *ctx, uint32_t stream)
{
    struct posix_tunnel *self = ctx;
    posix_http_duplex_close(self->http, stream);
}

struct dev_tunnel_transport posix_tunnel_table(struct posix_tunnel *self)
{
    return (struct dev_tunnel_transport){
        .ctx = self, .open = open_stream, .send = send_bytes, .close = close_stream};
}

// ---- Life

enum base_status posix_tunnel_new(struct posix_http *http, uint64_t device_id, void *ctx,
                                  void (*woke)(void *ctx), struct posix_tunnel **out_tunnel)
{
    struct posix_tunnel *self = calloc(1, sizeof(*self));
    if (self == NULL) {
        return BASE_ERR_NOMEM;
    }
    self->http = http;
    self->ctx = ctx;
    self->woke = woke;
    wire_device_hex(device_id, self->device);
    const struct posix_duplex_events events = {
        .ctx = self, .head = on_head, .body = on_body, .writable = on_writable, .end = on_end};
    posix_http_duplex_attach(http, &events);
    *out_tunnel = self;
    return BASE_OK;
}

void posix_tunnel_free(struct posix_tunnel *self)
{
    if (self == NULL) {
        return;
    }
    for (uint32_t stream = 0; stream < POSIX_STREAMS_MAX; stream++) {
        posix_http_duplex_close(self->http, stream);
    }
    free(self);
}

void posix_tunnel_attach(struct posix_tunnel *self, struct dev_tunnel *tunnel)
{
    self->tunnel = tunnel;
}
