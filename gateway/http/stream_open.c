// Streams that stay open both ways while the core has their exchange: a call of gRPC with a stream
// of messages. Nothing is kept here. Of the request only the stream's window is under way, which
// the core gives back as it takes what came; of the answer nghttp2 asks for what its peer has room
// for. A peer that lets the request wait too long is reset, by the deadlines of any body; one that
// takes too little of the answer, by the rule of connections (send_guard.h).
#include "http/lasting_streams.h"

#include "base/check.h"
#include "http/config/http_limits.h"
#include "http/conn.h"
#include "http/worker.h"

static struct gw_stream *stream_of(const struct gw_exchange *exchange)
{
    const struct gw_stream_work *work = exchange->owner;
    return work->stream;
}

static void on_begin(struct gw_exchange *exchange, const struct gw_open_calls *calls)
{
    exchange->opened = calls;
    exchange->reply.kind = GW_REPLY_OPEN;
    struct gw_stream *stream = stream_of(exchange);
    stream->conn->proven = stream->conn->proven || exchange->proven; // as any request's end does
    gw_stream_commit(stream);
}

static void on_resume(struct gw_exchange *exchange)
{
    struct gw_stream *stream = stream_of(exchange);
    struct gw_stream_work *work = exchange->owner;
    if (work->deferred) {
        work->deferred = false;
        (void)nghttp2_session_resume_data(stream->conn->session, stream->id);
    }
    gw_conn_mark(stream->conn);
}

static void on_consume(struct gw_exchange *exchange, size_t size)
{
    struct gw_stream *stream = stream_of(exchange);
    (void)nghttp2_session_consume_stream(stream->conn->session, stream->id, size);
    gw_conn_mark(stream->conn);
}

static void on_moved(struct gw_exchange *exchange)
{
    struct gw_stream *stream = stream_of(exchange);
    stream->moved_ms = stream->conn->worker->now_ms;
}

static enum base_status on_hold(struct gw_exchange *exchange, enum gw_open_hold what,
                                uint64_t bytes)
{
    return gw_stream_hold(exchange->owner,
                          what == GW_OPEN_INPUT ? GW_BUDGET_CALLS : GW_BUDGET_ANSWERS, bytes);
}

static uint64_t on_message_max(const struct gw_exchange *exchange)
{
    const struct gw_stream_work *work = exchange->owner;
    return work->body_max;
}

const struct gw_open_port gw_open_stream_port = {on_begin, on_resume, on_consume,
                                                 on_moved, on_hold,   on_message_max};

void gw_open_stream_body(struct gw_stream *stream, const uint8_t *bytes, size_t size)
{
    struct gw_exchange *exchange = &stream->work->exchange;
    exchange->opened->input(exchange, bytes, size);
}

void gw_open_stream_request_done(struct gw_stream *stream)
{
    struct gw_exchange *exchange = &stream->work->exchange;
    exchange->opened->input_ended(exchange);
}

ssize_t gw_open_stream_read(struct gw_stream *stream, struct gw_body_room *room)
{
    struct gw_stream_work *work = stream->work;
    struct gw_exchange *exchange = &work->exchange;
    size_t size = 0;
    if (stream->state == GW_STREAM_OPEN) {
        size = exchange->opened->output(exchange, room->out, room->size);
    }
    base_check(size <= room->size);
    if (size > 0) {
        work->sent += size;
        stream->moved_ms = stream->conn->worker->now_ms;
    }
    if (stream->state != GW_STREAM_OPEN) { // it may have been finished by this
        room->ended = true;
    } else if (size == 0) {
        work->deferred = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    return (ssize_t)size;
}

void gw_open_stream_drain(struct gw_stream *stream)
{
    struct gw_exchange *exchange = &stream->work->exchange;
    exchange->opened->drain(exchange);
}

void gw_open_stream_finish(struct gw_stream *stream)
{
    gw_stream_set_state(stream, GW_STREAM_REPLYING);
    on_resume(&stream->work->exchange);
}

bool gw_stream_unread_overdue(const struct gw_stream *stream, uint64_t waiting_bytes)
{
    const struct gw_http_worker *worker = stream->conn->worker;
    const struct gw_send_state state = {stream->work->sent, waiting_bytes};
    return gw_send_guard_step(&stream->work->taking, &state, &worker->limits, worker->now_ms);
}

bool gw_open_stream_overdue(const struct gw_stream *stream, uint64_t age_ms)
{
    const struct gw_limits *limits = &stream->conn->worker->limits;
    struct gw_exchange *exchange = &stream->work->exchange;
    struct gw_open_look look = {0};
    exchange->opened->look(exchange, &look);
    if (stream->state != GW_STREAM_OPEN) { // finished by that: its answer has a deadline now
        return false;
    }
    if (look.unread_bytes > 0) {
        return gw_stream_unread_overdue(stream, look.unread_bytes);
    }
    stream->work->taking.timing = false;
    return look.part_bytes > 0 &&
           (age_ms > limits->body_total_ms ||
            age_ms > limits->body_ms + look.part_bytes * 1000 / limits->body_rate_bytes);
}
