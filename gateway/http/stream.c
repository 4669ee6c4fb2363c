// Life of a stream: made when a header block begins, looked at when that is complete
// (stream_head.c), fed by nghttp2's callbacks (h2_events.c, stream_body.c), handed to the core or
// to the proxy once, answered once (stream_reply.c), ended by nghttp2 or with its connection.
// Worker's thread. This file is the one to read first in gateway/http.
#include "http/stream.h"

#include "base/alloc.h"
#include "base/check.h"
#include "http/config/http_limits.h"
#include "http/conn.h"
#include "http/lasting_streams.h"
#include "http/loop/figure.h"
#include "http/proxy.h"
#include "http/proxy_ride.h"
#include "http/worker.h"
#include "svc/route.h"

#include <stdlib.h>
#include <string.h>

// Which state may follow which; row: from, bit: to.
#define TO(state) (1u << GW_STREAM_##state)
static const uint32_t next_states[GW_STREAM_STATE_COUNT] = {
    [GW_STREAM_HEADERS] = TO(BODY) | TO(HANDLING) | TO(REPLYING) | TO(CLOSED),
    [GW_STREAM_BODY] = TO(HANDLING) | TO(REPLYING) | TO(CLOSED),
    [GW_STREAM_HANDLING] = TO(REPLYING) | TO(HINTS) | TO(TUNNEL) | TO(OPEN) | TO(CLOSED),
    [GW_STREAM_REPLYING] = TO(CLOSED),
    [GW_STREAM_HINTS] = TO(CLOSED),
    [GW_STREAM_TUNNEL] = TO(CLOSED),
    [GW_STREAM_OPEN] = TO(REPLYING) | TO(CLOSED),
    [GW_STREAM_CLOSED] = 0,
};
#undef TO

bool gw_stream_may_follow(enum gw_stream_state from, enum gw_stream_state to)
{
    return from < GW_STREAM_STATE_COUNT && to < GW_STREAM_STATE_COUNT &&
           (next_states[from] & (1u << to)) != 0;
}

void gw_stream_set_state(struct gw_stream *stream, enum gw_stream_state state)
{
    base_check(gw_stream_may_follow(stream->state, state));
    stream->state = (uint8_t)state;
    stream->moved_ms = stream->conn->worker->now_ms;
}

// ---- Pools

static struct gw_stream_work *work_new(struct gw_http_worker *worker)
{
    struct gw_stream_work *work = worker->work_pool;
    if (work != NULL) {
        worker->work_pool = work->next;
        worker->work_pool_count--;
    } else {
        work = malloc(sizeof(*work));
        if (work == NULL) {
            return NULL;
        }
        base_arena_init(&work->arena, base_alloc_heap(), GW_STREAM_CHUNK_BYTES,
                        GW_STREAM_ARENA_MAX);
    }
    // Everything but the arena (kept warm) and the reply's header table, which is only read as far
    // as it was written.
    struct gw_exchange *exchange = &work->exchange;
    memset(&exchange->request, 0, sizeof(exchange->request));
    exchange->reply.kind = GW_REPLY_BYTES;
    exchange->reply.status = 0;
    exchange->reply.header_count = 0;
    exchange->reply.trailer_count = 0;
    exchange->reply.body = NULL;
    exchange->reply.body_bytes = 0;
    exchange->reply.blob = NULL;
    exchange->reply.blob_from = 0;
    exchange->reply.blob_bytes = 0;
    exchange->arena = &work->arena;
    exchange->owner = work;
    exchange->finish = NULL;
    exchange->gone = NULL;
    exchange->keeper = NULL;
    exchange->drop = NULL;
    exchange->open = NULL;
    exchange->opened = NULL;
    exchange->proven = false;
    exchange->abandoned = false;
    work->worker = worker;
    work->next = NULL;
    exchange->refused = false;
    exchange->route = NULL;
    exchange->noted = NULL;
    gw_body_spool_init(&work->spool);
    memset(work->reserved, 0, sizeof(work->reserved));
    work->body_max = 0;
    work->length = 0;
    work->has_length = false;
    work->looks = false;
    work->look_at = 0;
    work->head = (struct gw_head){0};
    work->source = NULL;
    work->sent = 0;
    work->taking = (struct gw_send_guard){0};
    work->deferred = false;
    work->header_bytes = 0;
    work->refuse_status = 0;
    work->forward = false;
    work->path_seen = false;
    work->authority = (struct base_str){0};
    work->headers = NULL;
    work->header_count = 0;
    work->proxy = NULL;
    work->ride = NULL;
    return work;
}

void gw_stream_work_release(struct gw_stream_work *work)
{
    struct gw_http_worker *worker = work->worker;
    base_assert(work->proxy == NULL);
    if (work->stream != NULL) {
        work->stream->work = NULL;
        work->stream = NULL;
    }
    gw_blob_release(work->exchange.reply.blob);
    work->exchange.reply.blob = NULL;
    gw_stream_body_release(work);
    if (worker->work_pool_count >= GW_WORKER_POOL_MAX) {
        base_arena_done(&work->arena);
        free(work);
        return;
    }
    base_arena_reset(&work->arena);
    work->next = worker->work_pool;
    worker->work_pool = work;
    worker->work_pool_count++;
}

static struct gw_stream *stream_alloc(struct gw_http_worker *worker)
{
    struct gw_stream *stream = worker->stream_pool;
    if (stream != NULL) {
        worker->stream_pool = stream->next;
        worker->stream_pool_count--;
    } else {
        stream = malloc(sizeof(*stream));
    }
    if (stream != NULL) {
        memset(stream, 0, sizeof(*stream));
    }
    return stream;
}

static void stream_release(struct gw_http_worker *worker, struct gw_stream *stream)
{
    if (worker->stream_pool_count >= GW_WORKER_POOL_MAX) {
        free(stream);
        return;
    }
    stream->next = worker->stream_pool;
    worker->stream_pool = stream;
    worker->stream_pool_count++;
}

// ---- Life

struct gw_stream *gw_stream_new(struct gw_conn *conn, int32_t id)
{
    struct gw_http_worker *worker = conn->worker;
    struct gw_stream *stream = stream_alloc(worker);
    if (stream == NULL) {
        return NULL;
    }
    stream->work = work_new(worker);
    if (stream->work == NULL) {
        stream_release(worker, stream);
        return NULL;
    }
    stream->work->stream = stream;
    stream->work->client = conn->peer;
    stream->work->began_us = worker->now_us;
    stream->conn = conn;
    stream->id = id;
    stream->state = GW_STREAM_HEADERS;
    stream->moved_ms = worker->now_ms;
    stream->next = conn->active;
    stream->prev = &conn->active;
    if (stream->next != NULL) {
        stream->next->prev = &stream->next;
    }
    conn->active = stream;
    conn->stream_count++;
    gw_stat_add(&worker->stats->streams_open, 1);
    gw_conn_wake_timer(conn);
    return stream;
}

void gw_stream_stays(struct gw_stream *stream)
{
    struct gw_conn *conn = stream->conn;
    *stream->prev = stream->next;
    if (stream->next != NULL) {
        stream->next->prev = stream->prev;
    }
    stream->next = conn->lasting;
    stream->prev = &conn->lasting;
    if (stream->next != NULL) {
        stream->next->prev = &stream->next;
    }
    conn->lasting = stream;
}

static void let_go_of_work(struct gw_stream *stream, bool core_has_it)
{
    struct gw_stream_work *work = stream->work;
    if (work == NULL) {
        return;
    }
    if (work->proxy != NULL) {
        gw_proxy_cancel(work->proxy);
        base_assert(work->proxy == NULL);
    }
    if (core_has_it || gw_proxy_ride_abandon(work)) {
        work->exchange.abandoned = true;
        work->stream = NULL;
        stream->work = NULL;
        if (core_has_it && work->exchange.gone != NULL) {
            work->exchange.gone(&work->exchange);
        }
        return; // what is finished last releases it
    }
    gw_stream_work_release(work);
}

void gw_stream_close(struct gw_stream *stream)
{
    struct gw_conn *conn = stream->conn;
    struct gw_http_worker *worker = conn->worker;
    bool core_has_it =
        stream->state == GW_STREAM_OPEN ||
        (stream->state == GW_STREAM_HANDLING && stream->work != NULL && !stream->work->forward);
    gw_stream_set_state(stream, GW_STREAM_CLOSED);
    gw_hint_stream_close(stream);
    gw_tunnel_stream_close(stream);
    let_go_of_work(stream, core_has_it);
    *stream->prev = stream->next;
    if (stream->next != NULL) {
        stream->next->prev = stream->prev;
    }
    if (conn->current == stream) {
        conn->current = NULL;
    }
    base_check(conn->stream_count > 0);
    conn->stream_count--;
    conn->idle_ms = worker->now_ms;
    gw_stat_sub(&worker->stats->streams_open, 1);
    stream_release(worker, stream);
}

void gw_stream_peer_left(struct gw_stream *first)
{
    for (struct gw_stream *stream = first; stream != NULL; stream = stream->next) {
        if (stream->state == GW_STREAM_HANDLING && stream->work != NULL &&
            stream->work->exchange.gone != NULL) {
            stream->work->exchange.gone(&stream->work->exchange);
        }
    }
}

// ---- Request

static void finish(struct gw_exchange *exchange)
{
    struct gw_stream_work *work = exchange->owner;
    struct gw_http_worker *worker = work->worker;
    base_check(worker->unfinished > 0);
    worker->unfinished--;
    if (exchange->abandoned) {
        gw_stream_work_release(work);
        return;
    }
    struct gw_stream *stream = work->stream;
    base_check(stream != NULL);
    if (stream->state == GW_STREAM_OPEN) {
        gw_open_stream_finish(stream);
        return;
    }
    base_check(stream->state == GW_STREAM_HANDLING);
    gw_worker_latency(worker->svc, gw_http_worker_mono_us(worker) - work->began_us);
    stream->conn->proven = stream->conn->proven || exchange->proven;
    if (gw_route_has(exchange, GW_ROUTE_INFER) && !gw_stream_count_answer(work)) {
        if (exchange->drop != NULL) {
            exchange->drop(exchange);
        }
        gw_stream_problem(stream, 503, "too many answers wait for their readers");
    } else {
        if (worker->tap.answered != NULL) {
            const struct gw_http_place place = {stream->conn->fd, stream->id};
            worker->tap.answered(worker->tap.ctx, exchange, &place);
        }
        gw_stream_commit(stream);
    }
    gw_conn_mark(stream->conn);
}

void gw_stream_hand_over(struct gw_stream *stream)
{
    struct gw_stream_work *work = stream->work;
    struct gw_http_worker *worker = stream->conn->worker;
    if (gw_stream_body_whole(work) != BASE_OK) {
        gw_stream_problem(stream, 503, "out of memory");
        return;
    }
    gw_stream_set_state(stream, GW_STREAM_HANDLING);
    if (work->forward) {
        gw_proxy_start(worker->proxy, stream);
        return;
    }
    work->exchange.finish = finish;
    work->exchange.open = &gw_open_stream_port;
    worker->unfinished++;
    if (worker->tap.asked != NULL) {
        const struct gw_http_place place = {stream->conn->fd, stream->id};
        worker->tap.asked(worker->tap.ctx, &work->exchange, &place);
    }
    gw_core_handle(worker->svc, &work->exchange);
}

bool gw_stream_request_done(struct gw_stream *stream)
{
    stream->request_done = true;
    if (stream->tunnel != NULL) {
        gw_tunnel_stream_request_done(stream);
        return false;
    }
    if (stream->state == GW_STREAM_OPEN) {
        gw_open_stream_request_done(stream);
        return false;
    }
    return stream->state == GW_STREAM_HEADERS || stream->state == GW_STREAM_BODY;
}

void gw_stream_linger(struct gw_stream *stream)
{
    if (stream->state != GW_STREAM_REPLYING) { // one that stayed open has no deadlines
        (void)nghttp2_submit_rst_stream(stream->conn->session, NGHTTP2_FLAG_NONE, stream->id,
                                        NGHTTP2_NO_ERROR);
        return;
    }
    stream->lingers = true;
    stream->moved_ms = stream->conn->worker->now_ms;
    if (stream->work != NULL && stream->work->proxy == NULL) {
        gw_stream_work_release(stream->work);
    }
}

// ---- Deadlines

// Of an answer that is counted while it waits: its reader holds room that others want.
static bool answer_overdue(const struct gw_stream *stream)
{
    const struct gw_stream_work *work = stream->work;
    return work->reserved[GW_BUDGET_ANSWERS] > 0 && work->exchange.reply.body_bytes > work->sent &&
           gw_stream_unread_overdue(stream, work->exchange.reply.body_bytes - work->sent);
}

bool gw_stream_overdue(const struct gw_stream *stream, uint64_t now_ms, int *out_status)
{
    const struct gw_limits *limits = &stream->conn->worker->limits;
    uint64_t age = now_ms - stream->moved_ms;
    *out_status = 0;
    if (stream->lingers) {
        return age > GW_STREAM_LINGER_MS;
    }
    switch ((enum gw_stream_state)stream->state) {
    case GW_STREAM_HEADERS:
        return age > limits->header_ms;
    case GW_STREAM_BODY:
        *out_status = 408;
        return age > limits->body_total_ms ||
               age > limits->body_ms + stream->work->spool.bytes * 1000 / limits->body_rate_bytes;
    case GW_STREAM_REPLYING:
        return answer_overdue(stream) ||
               (age > limits->write_ms &&
                (stream->work->proxy == NULL || gw_proxy_has_output(stream->work->proxy)));
    case GW_STREAM_OPEN:
        return gw_open_stream_overdue(stream, age);
    case GW_STREAM_HANDLING: // the core and the proxy have deadlines of their own
    case GW_STREAM_HINTS:
    case GW_STREAM_TUNNEL:
    case GW_STREAM_CLOSED:
    case GW_STREAM_STATE_COUNT:
        break;
    }
    return false;
}
