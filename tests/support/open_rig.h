// A transport for a stream of calls (svc/two_way.h) that is a test: it gives the core pieces of the
// request's body, takes of the answers what it likes, and knows what is held. The exchange is a
// rig_exchange, whose finish it keeps.
#ifndef OPEN_RIG_H
#define OPEN_RIG_H

#include "core_rig.h"

#include "base/alloc.h"
#include "base/buffer.h"
#include "base/check.h"
#include "infer/infer_service.h"
#include "infer/rest/infer_http.h"
#include "svc/reply.h"
#include "svc/two_way.h"

#include <unistd.h>

#define OPEN_RIG_METHOD  "/inference.GRPCInferenceService/ModelStreamInfer"
#define OPEN_RIG_WINDOW  65535u
#define OPEN_RIG_MESSAGE 100000u // bytes of one, at most

struct open_rig {
    struct rig_exchange exchange; // first: the port finds the rest by it
    const struct gw_open_calls *calls;
    size_t given;
    size_t consumed;
    uint64_t held[GW_OPEN_HOLD_COUNT];
    uint64_t hold_max;
    bool failing; // the answers are not kept
    struct base_buffer answers;
};

static inline struct open_rig *open_rig_of(struct gw_exchange *exchange)
{
    return (struct open_rig *)(void *)exchange;
}

static inline void open_rig_begin(struct gw_exchange *exchange, const struct gw_open_calls *calls)
{
    open_rig_of(exchange)->calls = calls;
    exchange->opened = calls;
}

static inline void open_rig_nothing(struct gw_exchange *exchange)
{
    base_check(!exchange->abandoned);
}

static inline void open_rig_consume(struct gw_exchange *exchange, size_t size)
{
    struct open_rig *self = open_rig_of(exchange);
    self->consumed += size;
    base_check(self->consumed <= self->given);
}

static inline enum base_status open_rig_hold(struct gw_exchange *exchange, enum gw_open_hold what,
                                             uint64_t bytes)
{
    struct open_rig *self = open_rig_of(exchange);
    if (bytes > self->held[what] && bytes > self->hold_max) {
        return BASE_ERR_LIMIT;
    }
    self->held[what] = bytes;
    return BASE_OK;
}

static inline uint64_t open_rig_message_max(const struct gw_exchange *exchange)
{
    (void)exchange;
    return OPEN_RIG_MESSAGE;
}

static inline bool open_rig_handled(struct open_rig *self, struct rig *rig)
{
    self->hold_max = UINT64_MAX;
    base_buffer_init(&self->answers, base_alloc_heap(), 0);
    gw_core_handle(rig->worker.worker, &self->exchange.exchange);
    return self->calls != NULL;
}

static inline void open_rig_request(struct open_rig *self, const char *timeout)
{
    static const struct gw_open_port port = {open_rig_begin,   open_rig_nothing,
                                             open_rig_consume, open_rig_nothing,
                                             open_rig_hold,    open_rig_message_max};
    memset(self, 0, sizeof(*self));
    rig_exchange_init(&self->exchange, GW_METHOD_POST, OPEN_RIG_METHOD);
    self->exchange.exchange.request.content_type = BASE_STR("application/grpc");
    self->exchange.exchange.request.grpc_timeout = base_str_of(timeout);
    self->exchange.exchange.open = &port;
}

// Begins a stream; false: it was refused, and is finished.
static inline bool open_rig_start(struct open_rig *self, struct rig *rig, const char *timeout)
{
    open_rig_request(self, timeout);
    return open_rig_handled(self, rig);
}

// The same of a device that shows its certificate.
static inline bool open_rig_start_as(struct open_rig *self, struct rig *rig, uint64_t device)
{
    open_rig_request(self, "");
    self->exchange.exchange.request.has_certificate = true;
    self->exchange.exchange.request.certificate_device = device;
    return open_rig_handled(self, rig);
}

// Takes up to `room` bytes of the answers. 0: none now.
static inline size_t open_rig_read(struct open_rig *self, size_t room)
{
    uint8_t piece[4096];
    struct gw_exchange *exchange = &self->exchange.exchange;
    if (self->exchange.finished) {
        return 0;
    }
    size_t size = self->calls->output(exchange, piece, room < sizeof(piece) ? room : sizeof(piece));
    if (!self->failing) {
        base_check(base_buffer_add(&self->answers, piece, size) == BASE_OK);
    }
    return size;
}

// Gives as much of the bytes as the window lets; returns how much.
static inline size_t open_rig_write(struct open_rig *self, const void *bytes, size_t size)
{
    size_t room = OPEN_RIG_WINDOW - (self->given - self->consumed);
    size = size < room ? size : room;
    if (size > 0 && !self->exchange.finished) {
        self->given += size;
        self->calls->input(&self->exchange.exchange, bytes, size);
    }
    return size;
}

// Reads until the stream is over.
static inline void open_rig_drain(struct open_rig *self, struct rig *rig)
{
    struct gw_open_look look = {0};
    while (!self->exchange.finished) {
        if (open_rig_read(self, SIZE_MAX) == 0 && !self->exchange.finished && !rig_pump(rig)) {
            usleep(20);
            self->calls->look(&self->exchange.exchange, &look);
        }
    }
}

// The peer goes. Comes back when the core has finished.
static inline void open_rig_leave(struct open_rig *self, struct rig *rig)
{
    struct gw_exchange *exchange = &self->exchange.exchange;
    if (!self->exchange.finished) {
        exchange->abandoned = true;
        exchange->gone(exchange);
    }
    while (!self->exchange.finished) {
        if (!rig_pump(rig)) {
            usleep(20);
        }
    }
}

// grpc-status of a stream that is over: in its trailers, or in its headers where it never began.
static inline struct base_str open_rig_status(const struct open_rig *self)
{
    const struct gw_reply *reply = &self->exchange.exchange.reply;
    return reply->trailer_count > 0 ? reply->trailers[0].value
                                    : rig_header(&self->exchange, "grpc-status");
}

static inline void open_rig_done(struct open_rig *self)
{
    base_buffer_done(&self->answers);
    rig_exchange_done(&self->exchange);
}

#endif
