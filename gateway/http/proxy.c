// Reverse proxy: a pool of HTTP/1.1 connections to one upstream, and the exchanges that use or wait
// for them. Called by stream.c, by nghttp2's writer (body source) and by libevent, on the worker's
// thread. An exchange lives until its stream ends; it has a connection only from the moment it gets
// one to the end of the upstream's message.
#include "http/proxy.h"

#include "base/check.h"
#include "http/guard/proxy_shares.h"
#include "http/loop/figure.h"
#include "http/memory/body_budget.h"
#include "http/conn.h"
#include "http/parse/h1_message.h"
#include "http/proxy_request.h"
#include "http/proxy_ride.h"
#include "http/stream.h"
#include "http/parse/upstream_address.h"
#include "http/worker.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define IDLE_MS    30000 // an unused connection is kept so long
#define FIELDS_MAX (GW_H1_FIELDS_MAX + 4)

struct upstream_conn {
    struct upstream_conn *next; // in the idle list, or in that of the spent ones
    struct gw_proxy *proxy;
    struct gw_proxy_exchange *exchange; // NULL: idle, or spent
    struct bufferevent *bev;            // NULL: spent
    struct gw_actor_key client;         // who spent it
    uint64_t idle_ms;                   // since when it is
    bool reused;
    bool connected;
};

struct gw_proxy_exchange {
    struct gw_proxy_exchange *next; // all of the proxy's
    struct gw_proxy_exchange **prev;
    struct gw_proxy_exchange *waiting_next;
    struct gw_proxy *proxy;
    struct gw_stream_work *work;
    struct upstream_conn *conn; // NULL: waiting, or the upstream has ended
    struct evbuffer *request;   // head and body not handed to a connection yet
    struct evbuffer *reply;     // body not taken by the client yet
    struct gw_h1_message response;
    uint64_t moved_ms;    // last progress on the upstream's side
    uint64_t attached_ms; // since when it has had a connection
    uint64_t paused_ms;   // since when it is paused
    uint64_t held_ms;     // how long it was, before
    uint64_t delivered;   // bytes the client took
    uint64_t reserved;    // of what waits for it, counted in the budget
    bool waiting;
    bool paused;   // the reply buffer is full: the upstream is not read
    bool answered; // upstream's head, or a problem of ours, was submitted
    bool complete; // the upstream's message is whole
    bool broken;   // it will never be
    bool retried;
};

struct gw_proxy {
    struct gw_http_worker *worker;
    struct gw_proxy_config config;
    struct gw_upstream_address upstream;
    struct upstream_conn *idle;
    struct upstream_conn *spent_first; // oldest first
    struct upstream_conn **spent_last;
    uint32_t conn_count;
    struct gw_proxy_exchange *exchanges;
    struct gw_proxy_exchange *waiting_first;
    struct gw_proxy_exchange **waiting_last;
    uint32_t waiting_count;
    struct gw_proxy_shares shares;
};

static void attach_next(struct gw_proxy *proxy);
static bool start_on_connection(struct gw_proxy *proxy, struct gw_proxy_exchange *exchange);

// ---- Connections

// The exchange has no connection any more.
static void detach(struct gw_proxy_exchange *exchange)
{
    gw_proxy_share_give(&exchange->proxy->shares, &exchange->work->actor, GW_SHARE_CONNECTION);
    exchange->conn = NULL;
}

static void conn_free(struct upstream_conn *conn)
{
    struct gw_proxy *proxy = conn->proxy;
    if (conn->exchange != NULL) {
        detach(conn->exchange);
    } else {
        struct upstream_conn **link = &proxy->idle;
        while (*link != NULL && *link != conn) {
            link = &(*link)->next;
        }
        if (*link == conn) {
            *link = conn->next;
        }
    }
    bufferevent_free(conn->bev);
    proxy->conn_count--;
    free(conn);
}

// The client gave up what was under way, so the connection is of no use to others. Its place is
// free, but not yet in the client's share: who resets its requests opens no more of them in
// GW_PROXY_SPENT_MS than it may have at once.
static void conn_spend(struct upstream_conn *conn)
{
    struct gw_proxy *proxy = conn->proxy;
    conn->client = conn->exchange->work->actor;
    gw_proxy_share_spend(&proxy->shares, &conn->client);
    conn->exchange->conn = NULL;
    conn->exchange = NULL;
    bufferevent_free(conn->bev);
    conn->bev = NULL;
    proxy->conn_count--;
    conn->idle_ms = proxy->worker->now_ms;
    conn->next = NULL;
    *proxy->spent_last = conn;
    proxy->spent_last = &conn->next;
}

static void forget_spent(struct gw_proxy *proxy, uint64_t now_ms)
{
    while (proxy->spent_first != NULL &&
           now_ms - proxy->spent_first->idle_ms >= GW_PROXY_SPENT_MS) {
        struct upstream_conn *conn = proxy->spent_first;
        proxy->spent_first = conn->next;
        if (proxy->spent_first == NULL) {
            proxy->spent_last = &proxy->spent_first;
        }
        gw_proxy_share_forget(&proxy->shares, &conn->client);
        free(conn);
    }
}

// The upstream's message ended: the connection goes back to the pool or away.
static void release_conn(struct gw_proxy_exchange *exchange, bool reusable)
{
    struct upstream_conn *conn = exchange->conn;
    struct gw_proxy *proxy = exchange->proxy;
    if (conn == NULL) {
        return;
    }
    reusable = reusable && evbuffer_get_length(bufferevent_get_output(conn->bev)) == 0 &&
               evbuffer_get_length(bufferevent_get_input(conn->bev)) == 0;
    if (!reusable) {
        conn_free(conn);
    } else {
        detach(exchange);
        conn->exchange = NULL;
        conn->reused = true;
        conn->idle_ms = proxy->worker->now_ms;
        conn->next = proxy->idle;
        proxy->idle = conn;
        (void)bufferevent_enable(conn->bev, EV_READ);
    }
    attach_next(proxy);
}

// ---- Replies

static ssize_t read_reply(struct gw_stream *stream, struct gw_body_room *room)
{
    struct gw_proxy_exchange *exchange = stream->work->proxy;
    int got = evbuffer_remove(exchange->reply, room->out, room->size);
    if (got < 0) {
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    }
    size_t left = evbuffer_get_length(exchange->reply);
    if (got > 0) {
        stream->moved_ms = exchange->proxy->worker->now_ms;
        exchange->delivered += (uint64_t)got;
    }
    if (exchange->paused && left < GW_PROXY_BUFFER_BYTES / 2 && exchange->conn != NULL) {
        exchange->paused = false;
        exchange->moved_ms = exchange->proxy->worker->now_ms;
        exchange->held_ms += exchange->moved_ms - exchange->paused_ms;
        (void)bufferevent_enable(exchange->conn->bev, EV_READ);
        // What is in its buffer already is looked at from the loop, not from inside nghttp2.
        bufferevent_trigger(exchange->conn->bev, EV_READ,
                            BEV_TRIG_IGNORE_WATERMARKS | BEV_TRIG_DEFER_CALLBACKS);
    }
    if (left == 0 && exchange->complete) {
        room->ended = true;
    } else if (got == 0) {
        return exchange->broken ? NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE : NGHTTP2_ERR_DEFERRED;
    }
    return got;
}

static void resume_reply(struct gw_proxy_exchange *exchange)
{
    struct gw_stream *stream = exchange->work->stream;
    (void)nghttp2_session_resume_data(stream->conn->session, stream->id);
    gw_conn_mark(stream->conn);
}

bool gw_proxy_has_output(const struct gw_proxy_exchange *exchange)
{
    return evbuffer_get_length(exchange->reply) > 0;
}

// The connection is gone, or about to go; what came still waits for the client. That is counted:
// many such answers would be much memory. False: it is over the budget and was thrown away.
static bool keep_rest(struct gw_proxy_exchange *exchange)
{
    struct gw_http_worker *worker = exchange->proxy->worker;
    struct gw_budget_limits limits;
    size_t left = evbuffer_get_length(exchange->reply);
    if (left == 0 || exchange->reserved > 0) {
        return true;
    }
    gw_stream_budget_limits(worker, GW_BUDGET_MEMORY, &limits);
    if (gw_body_budget_take(worker->budget, &exchange->work->actor, GW_BUDGET_MEMORY, &limits,
                            left) != BASE_OK) {
        (void)evbuffer_drain(exchange->reply, left);
        return false;
    }
    exchange->reserved = left;
    return true;
}

// Ends a stream that has its head already, whether or not the client can take more.
static void cut(struct gw_proxy_exchange *exchange)
{
    struct gw_stream *stream = exchange->work->stream;
    exchange->broken = true;
    if (exchange->conn != NULL) {
        release_conn(exchange, false);
    }
    (void)evbuffer_drain(exchange->reply, evbuffer_get_length(exchange->reply));
    (void)nghttp2_submit_rst_stream(stream->conn->session, NGHTTP2_FLAG_NONE, stream->id,
                                    NGHTTP2_INTERNAL_ERROR);
    gw_conn_mark(stream->conn);
}

static void fail(struct gw_proxy_exchange *exchange, int status, const char *detail)
{
    struct gw_stream *stream = exchange->work->stream;
    exchange->broken = true;
    if (exchange->conn != NULL) {
        release_conn(exchange, false);
    }
    if (exchange->answered) {
        (void)keep_rest(exchange);
        resume_reply(exchange); // read_reply ends the stream with an error
        return;
    }
    exchange->answered = true;
    gw_stream_problem(stream, status, detail);
}

// Is what the request proved still so? It has waited since: for its body, for a connection. False:
// it was refused.
static bool prove_again(struct gw_proxy_exchange *exchange)
{
    struct gw_stream_work *work = exchange->work;
    struct gw_head head = {0};
    if (work->head.proof == GW_PROOF_NONE ||
        gw_core_prove(exchange->proxy->worker->svc, &work->exchange, &head)) {
        return true;
    }
    exchange->broken = true;
    exchange->answered = true;
    gw_stream_commit(work->stream);
    return false;
}

static void submit_head(struct gw_proxy_exchange *exchange)
{
    struct gw_stream_work *work = exchange->work;
    nghttp2_nv fields[FIELDS_MAX];
    const struct gw_proxy_said said = gw_proxy_ride_reply(work);
    size_t count = gw_proxy_reply_fields(&exchange->response, work->status_text, &said, fields);
    base_check(count <= FIELDS_MAX);
    exchange->answered = true;
    bool empty = exchange->response.state == GW_H1_DONE;
    exchange->complete = empty;
    gw_stream_commit_body(work->stream, fields, count, empty ? NULL : read_reply);
}

// The upstream's message is whole.
static void end_reply(struct gw_proxy_exchange *exchange, bool reusable)
{
    if (!keep_rest(exchange)) {
        cut(exchange);
        return;
    }
    exchange->complete = true;
    release_conn(exchange, reusable);
    resume_reply(exchange);
}

// Feeds the parser with what the upstream has sent. False when the exchange has lost its
// connection.
static bool parse_input(struct gw_proxy_exchange *exchange)
{
    struct evbuffer *input = bufferevent_get_input(exchange->conn->bev);
    for (;;) {
        if (evbuffer_get_length(exchange->reply) >= GW_PROXY_BUFFER_BYTES) {
            exchange->paused_ms =
                exchange->paused ? exchange->paused_ms : exchange->proxy->worker->now_ms;
            exchange->paused = true;
            (void)bufferevent_disable(exchange->conn->bev, EV_READ);
            return true;
        }
        struct evbuffer_iovec piece = {0};
        int pieces = evbuffer_peek(input, -1, NULL, &piece, 1);
        size_t used = 0;
        struct base_str body = {0};
        enum gw_h1_event event = gw_h1_message_feed(&exchange->response, piece.iov_base,
                                                    pieces > 0 ? piece.iov_len : 0, &used, &body);
        if (event == GW_H1_BODY && evbuffer_add(exchange->reply, body.data, body.size) != 0) {
            fail(exchange, 503, "out of memory");
            return false;
        }
        if (used > 0) {
            (void)evbuffer_drain(input, used);
        }
        switch (event) {
        case GW_H1_MORE:
            if (evbuffer_get_length(input) == 0) {
                return true;
            }
            break;
        case GW_H1_HEAD:
            submit_head(exchange);
            break;
        case GW_H1_BODY:
            resume_reply(exchange);
            break;
        case GW_H1_END:
            end_reply(exchange, exchange->response.keep_alive);
            return false;
        default:
            fail(exchange, 502, "the upstream's answer is not HTTP/1.1");
            return false;
        }
    }
}

// ---- Events of a connection

static void on_read(struct bufferevent *bev, void *ctx)
{
    (void)bev;
    struct upstream_conn *conn = ctx;
    struct gw_http_worker *worker = conn->proxy->worker;
    gw_http_worker_now(worker);
    if (conn->exchange == NULL) {
        conn_free(conn); // bytes nobody asked for
    } else {
        conn->exchange->moved_ms = worker->now_ms;
        (void)parse_input(conn->exchange);
    }
    gw_http_worker_flush(worker);
}

// Everything was written to the upstream.
static void on_written(struct bufferevent *bev, void *ctx)
{
    (void)bev;
    struct upstream_conn *conn = ctx;
    struct gw_http_worker *worker = conn->proxy->worker;
    gw_http_worker_now(worker);
    if (conn->exchange != NULL) {
        conn->exchange->moved_ms = worker->now_ms;
    }
    gw_http_worker_flush(worker);
}

static bool has_body(const struct gw_proxy_exchange *exchange)
{
    return exchange->work->exchange.request.body_bytes > 0;
}

// Head and body. The body's bytes are borrowed: they live as long as the exchange.
static enum base_status write_request(struct gw_proxy_exchange *exchange)
{
    const struct gw_request *request = &exchange->work->exchange.request;
    struct gw_http_worker *worker = exchange->proxy->worker;
    char text[GW_PROVEN_TEXT_MAX];
    struct base_str proven = gw_core_proven_text(worker->svc, &exchange->work->head, text);
    BASE_TRY(gw_proxy_request_head(exchange->work, exchange->proxy->upstream.host, proven,
                                   exchange->request));
    bool ok = !has_body(exchange) || evbuffer_add_reference(exchange->request, request->body,
                                                            request->body_bytes, NULL, NULL) == 0;
    return ok ? BASE_OK : BASE_ERR_NOMEM;
}

// A kept connection may have been closed just as we used it: once more on a new one, when doing it
// twice does no harm.
static bool retry(struct gw_proxy_exchange *exchange, bool was_reused)
{
    enum gw_method method = exchange->work->exchange.request.method;
    bool safe = method == GW_METHOD_GET || method == GW_METHOD_HEAD;
    if (!was_reused || !safe || exchange->retried || has_body(exchange) ||
        exchange->response.head_bytes > 0) {
        return false;
    }
    exchange->retried = true;
    if (!prove_again(exchange)) {
        release_conn(exchange, false);
        return true;
    }
    if (write_request(exchange) != BASE_OK) {
        return false;
    }
    conn_free(exchange->conn);
    return start_on_connection(exchange->proxy, exchange);
}

static void on_closed(struct upstream_conn *conn, bool timed_out)
{
    struct gw_proxy_exchange *exchange = conn->exchange;
    if (exchange == NULL) {
        conn_free(conn);
        return;
    }
    bool was_connected = conn->connected;
    if (was_connected && retry(exchange, conn->reused)) {
        return;
    }
    if (was_connected && gw_h1_message_closed(&exchange->response) && !exchange->complete) {
        end_reply(exchange, false);
        return;
    }
    fail(exchange, timed_out ? 504 : 502,
         was_connected ? "the upstream closed the connection" : "the upstream cannot be reached");
}

static void on_event(struct bufferevent *bev, short what, void *ctx)
{
    struct upstream_conn *conn = ctx;
    struct gw_http_worker *worker = conn->proxy->worker;
    gw_http_worker_now(worker);
    if ((what & BEV_EVENT_CONNECTED) != 0) {
        conn->connected = true;
        if (conn->exchange != NULL) {
            conn->exchange->moved_ms = worker->now_ms;
        }
    } else if (conn->exchange != NULL && (what & BEV_EVENT_EOF) != 0 &&
               evbuffer_get_length(bufferevent_get_input(bev)) > 0 &&
               !parse_input(conn->exchange)) {
        conn = NULL; // that was the end of it
    } else {
        on_closed(conn, false);
    }
    gw_http_worker_flush(worker);
}

static struct upstream_conn *conn_new(struct gw_proxy *proxy)
{
    struct upstream_conn *conn = calloc(1, sizeof(*conn));
    if (conn == NULL) {
        return NULL;
    }
    conn->proxy = proxy;
    conn->bev = bufferevent_socket_new(proxy->worker->base, -1, BEV_OPT_CLOSE_ON_FREE);
    if (conn->bev == NULL) {
        free(conn);
        return NULL;
    }
    proxy->conn_count++;
    bufferevent_setcb(conn->bev, on_read, on_written, on_event, conn);
    // What one read brings is parsed at once, so it needs no watermark, which libevent cannot set
    // safely without memory.
    if (bufferevent_enable(conn->bev, EV_READ | EV_WRITE) != 0) {
        conn_free(conn);
        return NULL;
    }
    return conn;
}

// An idle or a new connection for the exchange. False when that failed and nothing was changed.
static bool start_on_connection(struct gw_proxy *proxy, struct gw_proxy_exchange *exchange)
{
    struct upstream_conn *conn = exchange->retried ? NULL : proxy->idle;
    bool fresh = conn == NULL;
    if (fresh) {
        conn = conn_new(proxy);
        if (conn == NULL) {
            return false;
        }
    } else {
        proxy->idle = conn->next;
    }
    if (gw_proxy_share_take(&proxy->shares, &exchange->work->actor, GW_SHARE_CONNECTION) !=
        BASE_OK) {
        conn_free(conn);
        return false;
    }
    conn->exchange = exchange;
    exchange->conn = conn;
    exchange->moved_ms = proxy->worker->now_ms;
    exchange->attached_ms = proxy->worker->now_ms;
    // Enabled once more: libevent, short of memory when it made the connection, does not see by
    // itself that there is something to write.
    bool ok = bufferevent_write_buffer(conn->bev, exchange->request) == 0 &&
              (fresh ? bufferevent_socket_connect(conn->bev, (struct sockaddr *)&proxy->upstream.at,
                                                  (int)proxy->upstream.size)
                     : bufferevent_enable(conn->bev, EV_WRITE)) == 0;
    if (!ok) {
        conn_free(conn);
    }
    return ok;
}

// ---- Exchanges

static bool add_waiting(struct gw_proxy *proxy, struct gw_proxy_exchange *exchange)
{
    if (gw_proxy_share_take(&proxy->shares, &exchange->work->actor, GW_SHARE_PLACE) != BASE_OK) {
        return false;
    }
    exchange->waiting = true;
    exchange->waiting_next = NULL;
    *proxy->waiting_last = exchange;
    proxy->waiting_last = &exchange->waiting_next;
    proxy->waiting_count++;
    return true;
}

static void remove_waiting(struct gw_proxy *proxy, struct gw_proxy_exchange *exchange)
{
    if (!exchange->waiting) {
        return;
    }
    struct gw_proxy_exchange **link = &proxy->waiting_first;
    while (*link != exchange) {
        link = &(*link)->waiting_next;
    }
    *link = exchange->waiting_next;
    if (proxy->waiting_last == &exchange->waiting_next) {
        proxy->waiting_last = link;
    }
    exchange->waiting = false;
    proxy->waiting_count--;
    gw_proxy_share_give(&proxy->shares, &exchange->work->actor, GW_SHARE_PLACE);
}

static bool has_room(const struct gw_proxy *proxy)
{
    return proxy->idle != NULL || proxy->conn_count < proxy->config.connections;
}

// May this client have one more?
static bool has_share(const struct gw_proxy *proxy, const struct gw_proxy_exchange *exchange)
{
    return gw_proxy_share_check(&proxy->shares, &exchange->work->actor, GW_SHARE_CONNECTION) ==
           BASE_OK;
}

// The first that waits and whose client has a share left; the others keep their places.
static struct gw_proxy_exchange *next_waiting(const struct gw_proxy *proxy)
{
    struct gw_proxy_exchange *exchange = proxy->waiting_first;
    while (exchange != NULL && !has_share(proxy, exchange)) {
        exchange = exchange->waiting_next;
    }
    return exchange;
}

static void attach_next(struct gw_proxy *proxy)
{
    struct gw_proxy_exchange *exchange;
    while (has_room(proxy) && (exchange = next_waiting(proxy)) != NULL) {
        remove_waiting(proxy, exchange);
        if (prove_again(exchange) && !start_on_connection(proxy, exchange)) {
            fail(exchange, 502, "the upstream cannot be reached");
        }
    }
}

// libevent's own does not accept NULL.
static void buffers_free(struct gw_proxy_exchange *exchange)
{
    if (exchange->request != NULL) {
        evbuffer_free(exchange->request);
    }
    if (exchange->reply != NULL) {
        evbuffer_free(exchange->reply);
    }
}

static struct gw_proxy_exchange *exchange_new(struct gw_proxy *proxy, struct gw_stream *stream)
{
    struct gw_proxy_exchange *exchange = calloc(1, sizeof(*exchange));
    if (exchange == NULL) {
        return NULL;
    }
    exchange->request = evbuffer_new();
    exchange->reply = evbuffer_new();
    if (exchange->request == NULL || exchange->reply == NULL ||
        gw_h1_message_init(&exchange->response, &stream->work->arena, stream->head) != BASE_OK) {
        buffers_free(exchange);
        free(exchange);
        return NULL;
    }
    exchange->proxy = proxy;
    exchange->work = stream->work;
    exchange->moved_ms = proxy->worker->now_ms;
    exchange->next = proxy->exchanges;
    exchange->prev = &proxy->exchanges;
    if (exchange->next != NULL) {
        exchange->next->prev = &exchange->next;
    }
    proxy->exchanges = exchange;
    return exchange;
}

// It cannot start now.
static void wait_or_refuse(struct gw_proxy *proxy, struct gw_proxy_exchange *exchange)
{
    enum base_status status =
        gw_proxy_share_check(&proxy->shares, &exchange->work->actor, GW_SHARE_PLACE);
    if (status == BASE_ERR_LIMIT) {
        fail(exchange, 429, "too many of your requests wait for the upstream");
    } else if (status != BASE_OK || proxy->waiting_count >= proxy->config.waiting ||
               !add_waiting(proxy, exchange)) {
        fail(exchange, 503, "too many requests wait for the upstream");
    }
}

void gw_proxy_start(struct gw_proxy *proxy, struct gw_stream *stream)
{
    struct gw_stream_work *work = stream->work;
    if (!gw_proxy_request_valid(work)) {
        gw_stream_problem(stream, 400, "the path or the authority has characters it must not have");
        return;
    }
    struct gw_proxy_exchange *exchange = exchange_new(proxy, stream);
    if (exchange == NULL) {
        gw_stream_problem(stream, 503, "out of memory");
        return;
    }
    work->proxy = exchange;
    if (!prove_again(exchange)) {
        return;
    }
    gw_proxy_ride_start(work);
    if (write_request(exchange) != BASE_OK) {
        fail(exchange, 503, "out of memory");
    } else if (!has_room(proxy) || !has_share(proxy, exchange)) {
        wait_or_refuse(proxy, exchange);
    } else if (!start_on_connection(proxy, exchange)) {
        fail(exchange, 502, "the upstream cannot be reached");
    }
}

void gw_proxy_cancel(struct gw_proxy_exchange *exchange)
{
    struct gw_proxy *proxy = exchange->proxy;
    remove_waiting(proxy, exchange);
    if (exchange->conn != NULL) {
        conn_spend(exchange->conn); // in the middle of a message
    }
    if (exchange->reserved > 0) {
        gw_body_budget_give(proxy->worker->budget, &exchange->work->actor, GW_BUDGET_MEMORY,
                            exchange->reserved);
    }
    exchange->work->proxy = NULL;
    *exchange->prev = exchange->next;
    if (exchange->next != NULL) {
        exchange->next->prev = exchange->prev;
    }
    buffers_free(exchange);
    free(exchange);
    attach_next(proxy);
}

// ---- Deadlines

static void end_late(struct gw_proxy_exchange *exchange, const char *detail)
{
    if (exchange->answered) {
        cut(exchange);
    } else {
        fail(exchange, 504, detail);
    }
}

// Has the client kept the upstream waiting for longer than what it took allows?
static bool reads_too_slowly(const struct gw_proxy_exchange *exchange, uint64_t now_ms)
{
    const struct gw_proxy *proxy = exchange->proxy;
    uint64_t held_ms = exchange->held_ms + (now_ms - exchange->paused_ms);
    return exchange->paused &&
           held_ms > proxy->worker->limits.write_ms +
                         exchange->delivered * 1000 / proxy->config.client_rate_bytes;
}

static void check_exchange(struct gw_proxy_exchange *exchange, uint64_t now_ms)
{
    const struct gw_proxy_config *config = &exchange->proxy->config;
    uint64_t age = now_ms - exchange->moved_ms;
    bool attached = exchange->conn != NULL;
    if (exchange->broken || exchange->complete || (!attached && !exchange->waiting)) {
        return;
    }
    if (attached && !exchange->conn->connected && age > config->connect_ms) {
        fail(exchange, 502, "the upstream cannot be reached in time");
    } else if (attached && now_ms - exchange->attached_ms > config->total_ms) {
        end_late(exchange, "the upstream does not come to an end in time");
    } else if (attached && reads_too_slowly(exchange, now_ms)) {
        gw_stat_add(&exchange->proxy->worker->stats->rejected_total, 1);
        cut(exchange);
    } else if (!exchange->paused && age > config->reply_ms) {
        remove_waiting(exchange->proxy, exchange);
        fail(exchange, 504, "the upstream does not answer in time");
    }
}

// What nobody could do while the worker did not run does not count.
static void forgive(uint64_t *since_ms, uint64_t stood_ms, uint64_t now_ms)
{
    *since_ms = now_ms - *since_ms > stood_ms ? *since_ms + stood_ms : now_ms;
}

void gw_proxy_tick(struct gw_proxy *proxy, uint64_t stood_ms)
{
    uint64_t now_ms = proxy->worker->now_ms;
    struct gw_proxy_exchange *next;
    for (struct gw_proxy_exchange *exchange = proxy->exchanges; exchange != NULL; exchange = next) {
        next = exchange->next;
        forgive(&exchange->moved_ms, stood_ms, now_ms);
        forgive(&exchange->attached_ms, stood_ms, now_ms);
        forgive(&exchange->paused_ms, stood_ms, now_ms);
        check_exchange(exchange, now_ms);
    }
    forget_spent(proxy, now_ms);
    attach_next(proxy);
    struct upstream_conn *next_conn;
    for (struct upstream_conn *conn = proxy->idle; conn != NULL; conn = next_conn) {
        next_conn = conn->next;
        if (now_ms - conn->idle_ms > IDLE_MS) {
            conn_free(conn);
        }
    }
}

// ---- Set-up

enum base_status gw_proxy_new(struct gw_http_worker *worker, const char *url,
                              const struct gw_proxy_config *config, struct gw_proxy **out_proxy,
                              struct base_error *error)
{
    struct gw_proxy *proxy = calloc(1, sizeof(*proxy));
    if (proxy == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "no memory for the proxy");
    }
    proxy->worker = worker;
    proxy->config = *config;
    proxy->waiting_last = &proxy->waiting_first;
    proxy->spent_last = &proxy->spent_first;
    enum base_status status = gw_upstream_resolve(url, &proxy->upstream, error);
    if (status == BASE_OK &&
        gw_proxy_shares_init(&proxy->shares, proxy->config.shares) != BASE_OK) {
        status = base_error_set(error, BASE_ERR_NOMEM, "no memory for the proxy");
    }
    if (status != BASE_OK) {
        free(proxy);
        return status;
    }
    *out_proxy = proxy;
    return BASE_OK;
}

void gw_proxy_configure(struct gw_proxy *proxy, const struct gw_proxy_config *config)
{
    proxy->config = *config;
    attach_next(proxy);
}

void gw_proxy_free(struct gw_proxy *proxy)
{
    if (proxy == NULL) {
        return;
    }
    base_assert(proxy->exchanges == NULL);
    while (proxy->idle != NULL) {
        conn_free(proxy->idle);
    }
    forget_spent(proxy, UINT64_MAX);
    gw_proxy_shares_free(&proxy->shares);
    free(proxy);
}
