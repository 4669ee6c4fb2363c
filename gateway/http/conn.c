// A connection's life on its worker: events in, frames to nghttp2, frames out, deadlines, end.
//
// Every event ends with gw_http_worker_flush, which flushes each connection that has something to
// write: nghttp2's frames are gathered in the worker's output buffer and written at once. Only what
// the socket does not take is kept with the connection; until that is gone nghttp2 is asked for no
// more, so what one connection holds is bounded.
#include "http/conn.h"

#include "base/check.h"
#include "http/config/http_limits.h"
#include "http/conn_intro.h"
#include "http/conn_io.h"
#include "http/h1_door.h"
#include "http/lasting_streams.h"
#include "http/loop/figure.h"
#include "http/stream.h"
#include "http/worker.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define READS_PER_EVENT   32
#define WRITES_PER_EVENT  16 // of up to GW_WORKER_OUTPUT_BYTES
#define CONNECTION_WINDOW (1024 * 1024)
#define SETTINGS_COUNT    3
#define MAGIC_BYTES       3     // of "PRI", with which HTTP/2 begins
#define RTO_MIN_US        20000 // above the round trip; 200,000 by default
#ifndef TCP_RTO_MIN_US
#define TCP_RTO_MIN_US 45
#endif

static void on_event(evutil_socket_t fd, short what, void *ctx);

// ---- Event registration

// Registers what the connection waits for, when that has changed.
static void watch(struct gw_conn *conn, bool want_read, bool want_write)
{
    short now = 0;
    if (event_initialized(&conn->event)) {
        now = event_get_events(&conn->event) & (EV_READ | EV_WRITE);
    }
    short next = (short)((want_read ? EV_READ : 0) | (want_write ? EV_WRITE : 0));
    if (now == next) {
        return;
    }
    if (now != 0) {
        (void)event_del(&conn->event);
    }
    if (event_assign(&conn->event, conn->worker->base, conn->fd, (short)(next | EV_PERSIST),
                     on_event, conn) != 0 ||
        (next != 0 && event_add(&conn->event, NULL) != 0)) {
        conn->failed = true;
    }
}

// ---- Beginning and end

static enum base_status start_session(struct gw_conn *conn)
{
    struct gw_http_worker *worker = conn->worker;
    const struct gw_h2_session_make make = {worker->callbacks, worker->option, conn};
    BASE_TRY(gw_h2_memory_session_new(&worker->h2_memory, &make, &conn->session, &conn->lease));
    const struct gw_limits *limits = &worker->limits;
    const nghttp2_settings_entry settings[SETTINGS_COUNT] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, (uint32_t)limits->streams},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, (uint32_t)limits->header_list_bytes},
        {NGHTTP2_SETTINGS_HEADER_TABLE_SIZE, (uint32_t)limits->header_table_bytes},
    };
    int rv = nghttp2_submit_settings(conn->session, NGHTTP2_FLAG_NONE, settings, SETTINGS_COUNT);
    if (rv == 0) {
        rv = nghttp2_session_set_local_window_size(conn->session, NGHTTP2_FLAG_NONE, 0,
                                                   CONNECTION_WINDOW);
    }
    conn->state = GW_CONN_OPEN;
    gw_frame_scan_init(&conn->scan);
    gw_conn_mark(conn);
    return rv == 0 ? BASE_OK : BASE_ERR_NOMEM;
}

static enum base_status start_tls(struct gw_conn *conn)
{
    conn->ssl = SSL_new(conn->worker->tls);
    if (conn->ssl == NULL || SSL_set_fd(conn->ssl, conn->fd) != 1) {
        ERR_clear_error();
        return BASE_ERR_NOMEM;
    }
    SSL_set_accept_state(conn->ssl);
    conn->state = GW_CONN_HANDSHAKE;
    return BASE_OK;
}

static enum base_status start(struct gw_conn *conn)
{
    return conn->tls ? start_tls(conn) : start_session(conn);
}

static void link_conn(struct gw_conn *conn)
{
    struct gw_http_worker *worker = conn->worker;
    conn->next = worker->conns;
    conn->prev = &worker->conns;
    if (conn->next != NULL) {
        conn->next->prev = &conn->next;
    }
    worker->conns = conn;
    gw_stat_add(&worker->stats->connections_open, 1);
    gw_stat_add(&worker->stats->connections_total, 1);
}

enum base_status gw_conn_new(struct gw_http_worker *worker, int fd, bool tls,
                             const struct gw_conn_origin *origin)
{
    struct gw_conn *conn = calloc(1, sizeof(*conn));
    if (conn == NULL) {
        gw_peer_table_give(worker->peers, &origin->peer);
        close(fd);
        return BASE_ERR_NOMEM;
    }
    conn->worker = worker;
    conn->fd = fd;
    conn->peer = origin->peer;
    conn->counted = true;
    conn->tls = tls;
    conn->loopback = origin->loopback;
    conn->hop = origin->hop;
    conn->read_ms = conn->write_ms = conn->idle_ms = conn->begun_ms = worker->now_ms;
    const struct gw_limits *limits = &worker->limits;
    pol_ratelimit_init(
        &conn->resets,
        &(struct pol_ratelimit_config){limits->resets_burst, limits->resets_per_s, 1000000},
        worker->now_us);
    pol_ratelimit_init(&conn->controls,
                       &(struct pol_ratelimit_config){limits->control_frames_burst,
                                                      limits->control_frames_per_s, 1000000},
                       worker->now_us);
    gw_header_guard_init(&conn->headers, worker->now_us);
    link_conn(conn);
    enum base_status status = origin->proxied ? gw_conn_intro_new(conn) : start(conn);
    if (status == BASE_OK) {
        watch(conn, true, false);
        gw_wheel_set(&worker->wheel, &conn->timer, worker->now_ms + limits->handshake_ms);
        status = conn->failed ? BASE_ERR_NOMEM : BASE_OK;
    }
    if (status != BASE_OK) {
        gw_conn_free(conn);
    }
    return status;
}

static void end_streams(struct gw_conn *conn)
{
    while (conn->active != NULL) {
        gw_stream_close(conn->active);
    }
    while (conn->lasting != NULL) {
        gw_stream_close(conn->lasting);
    }
}

static void unmark(struct gw_conn *conn)
{
    if (!conn->dirty) {
        return;
    }
    struct gw_conn **link = &conn->worker->dirty;
    while (*link != conn) {
        link = &(*link)->dirty_next;
    }
    *link = conn->dirty_next;
    conn->dirty = false;
}

void gw_conn_free(struct gw_conn *conn)
{
    struct gw_http_worker *worker = conn->worker;
    base_check(!conn->busy);
    conn->state = GW_CONN_CLOSED;
    if (event_initialized(&conn->event)) {
        (void)event_del(&conn->event);
    }
    gw_wheel_remove(&conn->timer);
    gw_turns_remove(&worker->turns, &conn->turn);
    end_streams(conn);
    unmark(conn);
    nghttp2_session_del(conn->session);
    gw_h2_memory_session_ended(&worker->h2_memory, &conn->lease);
    gw_h1_door_free(conn->door);
    SSL_free(conn->ssl);
    free(conn->identity);
    gw_send_guard_end(conn);
    close(conn->fd);
    free(conn->rest);
    gw_conn_intro_free(conn);
    if (conn->counted) {
        gw_peer_table_give(worker->peers, &conn->peer);
    }
    *conn->prev = conn->next;
    if (conn->next != NULL) {
        conn->next->prev = conn->prev;
    }
    gw_stat_sub(&worker->stats->connections_open, 1);
    free(conn);
}

// ---- Output

void gw_conn_mark(struct gw_conn *conn)
{
    if (!conn->dirty) {
        conn->dirty = true;
        conn->dirty_next = conn->worker->dirty;
        conn->worker->dirty = conn;
    }
}

// Keeps what the socket did not take.
static void keep_rest(struct gw_conn *conn, const uint8_t *bytes, size_t size)
{
    base_assert(conn->rest == NULL);
    conn->rest = malloc(size);
    if (conn->rest == NULL) {
        conn->failed = true;
        return;
    }
    memcpy(conn->rest, bytes, size);
    conn->rest_at = 0;
    conn->rest_bytes = (uint32_t)size;
    conn->write_ms = conn->worker->now_ms;
}

// Writes as much as the socket takes; returns how much that was.
static size_t write_some(struct gw_conn *conn, const uint8_t *bytes, size_t size)
{
    size_t done = 0;
    while (done < size) {
        size_t written = 0;
        enum base_status status = gw_conn_write(conn, bytes + done, size - done, &written);
        if (status != BASE_OK) {
            conn->failed = conn->failed || status != BASE_ERR_BUSY;
            break;
        }
        done += written;
    }
    if (done > 0 && !conn->sending.waits) {
        conn->sending.waits = true;
        gw_conn_wake_timer(conn);
    }
    return done;
}

// The rest of an earlier flush. True when nothing of it is left.
static bool write_rest(struct gw_conn *conn)
{
    if (conn->rest == NULL) {
        return true;
    }
    size_t written = write_some(conn, conn->rest + conn->rest_at, conn->rest_bytes - conn->rest_at);
    if (written > 0) {
        conn->write_ms = conn->worker->now_ms;
        conn->rest_at += (uint32_t)written;
    }
    if (conn->rest_at < conn->rest_bytes) {
        return false;
    }
    free(conn->rest);
    conn->rest = NULL;
    return true;
}

// Fills the worker's output buffer with frames. False when nghttp2 has no more.
static bool gather(struct gw_conn *conn)
{
    struct gw_http_worker *worker = conn->worker;
    while (worker->output_bytes < GW_WORKER_OUTPUT_BYTES) {
        const uint8_t *bytes = NULL;
        ssize_t size = nghttp2_session_mem_send(conn->session, &bytes);
        if (size <= 0) {
            conn->failed = conn->failed || size < 0;
            return false;
        }
        base_check((size_t)size <= GW_H2_FRAME_BUFFER_BYTES);
        memcpy(worker->output + worker->output_bytes, bytes, (size_t)size);
        worker->output_bytes += (size_t)size;
    }
    return true;
}

// The same for a peer that speaks HTTP/1.1: the frames are its door's. False when there is no more.
static bool gather_answers(struct gw_conn *conn)
{
    struct gw_http_worker *worker = conn->worker;
    for (;;) {
        worker->output_bytes += gw_h1_door_take(conn->door, worker->output + worker->output_bytes,
                                                GW_WORKER_OUTPUT_BYTES - worker->output_bytes);
        if (worker->output_bytes == GW_WORKER_OUTPUT_BYTES) {
            return true;
        }
        const uint8_t *bytes = NULL;
        ssize_t size = nghttp2_session_mem_send(conn->session, &bytes);
        if (size <= 0 || gw_h1_door_answer(conn->door, bytes, (size_t)size) != BASE_OK) {
            conn->failed = conn->failed || size != 0;
            return false;
        }
    }
}

// What the session has to say, into the worker's output.
static bool gather_some(struct gw_conn *conn)
{
    conn->busy = true;
    bool more = conn->door != NULL ? gather_answers(conn) : gather(conn);
    conn->busy = false;
    if (conn->door != NULL && !conn->failed) {
        gw_h1_door_go_on(conn->door);
        more = more || nghttp2_session_want_write(conn->session) != 0 ||
               gw_h1_door_has_output(conn->door);
    }
    return more;
}

// Writes frames until there are none, the socket is full, or others must have their turn.
static void write_frames(struct gw_conn *conn)
{
    struct gw_http_worker *worker = conn->worker;
    bool more = true;
    gw_h2_memory_unpark(&worker->h2_memory, &conn->lease);
    for (int i = 0; i < WRITES_PER_EVENT && more && !conn->failed && conn->rest == NULL; i++) {
        worker->output_bytes = 0;
        more = gather_some(conn);
        if (worker->output_bytes > 0 && !conn->failed) {
            size_t written = write_some(conn, worker->output, worker->output_bytes);
            if (written < worker->output_bytes && !conn->failed) {
                keep_rest(conn, worker->output + written, worker->output_bytes - written);
            }
        }
    }
    worker->output_bytes = 0;
    conn->want_write = conn->want_write || more;
    if (more && !conn->failed) { // nghttp2 may be in the middle of a frame
        conn->failed = gw_h2_memory_park(&worker->h2_memory, &conn->lease) != BASE_OK;
    }
}

void gw_conn_write_now(struct gw_conn *conn)
{
    base_assert(!conn->busy);
    if (!conn->failed && write_rest(conn)) {
        write_frames(conn);
    }
}

// Shuts our side and waits a moment for the peer's end: closing with unread input would make the
// kernel take back what we have just sent.
static void begin_linger(struct gw_conn *conn)
{
    end_streams(conn);
    if (conn->ssl != NULL) {
        ERR_clear_error();
        (void)SSL_shutdown(conn->ssl);
    }
    if (shutdown(conn->fd, SHUT_WR) != 0) {
        conn->failed = true;
        return;
    }
    conn->state = GW_CONN_LINGER;
    watch(conn, true, false);
    gw_wheel_set(&conn->worker->wheel, &conn->timer, conn->worker->now_ms + GW_CONN_LINGER_MS);
}

// A peer that leaves much unread is not read; in HTTP/1.1 one that leaves anything.
static bool input_must_wait(const struct gw_conn *conn)
{
    if (conn->paused_ms != 0) {
        return true;
    }
    if (conn->door != NULL) {
        return conn->rest != NULL || gw_h1_door_is_full(conn->door);
    }
    return conn->rest != NULL && nghttp2_session_get_outbound_queue_size(conn->session) >
                                     conn->worker->limits.output_frames;
}

// Is there something to do that no event of its socket says?
static bool wants_turn(const struct gw_conn *conn, bool input_waits)
{
    return (conn->read_on && !input_waits) ||
           (conn->door != NULL && conn->rest == NULL && conn->paused_ms == 0 &&
            gw_h1_door_waits(conn->door));
}

// Is everything said, and nothing more to come?
static bool is_done(struct gw_conn *conn)
{
    if (conn->rest != NULL || conn->want_write ||
        (conn->door != NULL && gw_h1_door_has_output(conn->door))) {
        return false;
    }
    if (conn->door != NULL && gw_h1_door_is_over(conn->door)) {
        return true;
    }
    return !nghttp2_session_want_write(conn->session) &&
           (!nghttp2_session_want_read(conn->session) ||
            (conn->goaway_sent && conn->stream_count == 0));
}

// Is it known what the peer speaks? Before that nothing is said: not in HTTP/2 to who does not.
static bool is_told(const struct gw_conn *conn)
{
    return conn->magic_bytes == MAGIC_BYTES;
}

void gw_conn_flush(struct gw_conn *conn)
{
    base_assert(!conn->busy);
    if (conn->state == GW_CONN_OPEN && !conn->failed && is_told(conn)) {
        conn->want_write = false;
        if (write_rest(conn)) {
            write_frames(conn);
        }
    }
    if (conn->failed) {
        gw_conn_free(conn);
        return;
    }
    if (conn->state != GW_CONN_OPEN) {
        return;
    }
    if (is_done(conn)) {
        begin_linger(conn);
        if (conn->failed) {
            gw_conn_free(conn);
        }
        return;
    }
    bool input_waits = input_must_wait(conn);
    watch(conn, !input_waits, conn->rest != NULL || conn->want_write);
    if (wants_turn(conn, input_waits) &&
        gw_http_worker_queue(conn->worker, &conn->turn) != BASE_OK) {
        conn->failed = true;
    }
    if (conn->failed) {
        gw_conn_free(conn);
    }
}

static void count_tunnel(struct gw_conn *conn)
{
    struct gw_transport_stats *stats = conn->worker->stats;
    bool resumed = conn->ssl != NULL && SSL_session_reused(conn->ssl);
    gw_stat_add(conn->early ? &stats->tunnels_early
                : resumed   ? &stats->tunnels_resumed
                            : &stats->tunnels_new,
                1);
}

void gw_conn_carry_tunnel(struct gw_conn *conn)
{
    if (!conn->carries_tunnel) {
        int rto_us = RTO_MIN_US;
        conn->carries_tunnel = true;
        count_tunnel(conn);
        (void)setsockopt(conn->fd, IPPROTO_TCP, TCP_RTO_MIN_US, &rto_us, sizeof(rto_us));
    }
}

void gw_conn_terminate(struct gw_conn *conn, uint32_t error)
{
    if (nghttp2_session_terminate_session(conn->session, error) != 0) {
        conn->failed = true;
    }
    gw_conn_mark(conn);
}

void gw_conn_drain(struct gw_conn *conn)
{
    if (conn->state != GW_CONN_OPEN || !is_told(conn)) {
        conn->failed = true; // not speaking yet, or not any more
        gw_conn_mark(conn);
        return;
    }
    if (conn->draining) {
        return;
    }
    conn->draining = true;
    if (nghttp2_submit_shutdown_notice(conn->session) != 0) {
        conn->failed = true;
    }
    for (struct gw_stream *stream = conn->lasting; stream != NULL; stream = stream->next) {
        if (stream->hints != NULL) {
            gw_hint_stream_finish(stream);
        }
    }
    for (struct gw_stream *stream = conn->active; stream != NULL; stream = stream->next) {
        if (stream->state == GW_STREAM_OPEN) {
            gw_open_stream_drain(stream);
        }
    }
    gw_conn_mark(conn);
}

void gw_conn_end_tunnels(struct gw_conn *conn)
{
    for (struct gw_stream *stream = conn->lasting; stream != NULL; stream = stream->next) {
        if (stream->tunnel != NULL) {
            gw_tunnel_stream_finish(stream);
        }
    }
}

void gw_conn_drain_last(struct gw_conn *conn)
{
    if (conn->state != GW_CONN_OPEN || conn->goaway_sent) {
        return;
    }
    conn->goaway_sent = true;
    int32_t last = nghttp2_session_get_last_proc_stream_id(conn->session);
    if (nghttp2_submit_goaway(conn->session, NGHTTP2_FLAG_NONE, last, NGHTTP2_NO_ERROR, NULL, 0) !=
        0) {
        conn->failed = true;
    }
    gw_conn_mark(conn);
}

// ---- Input

// Hands bytes to nghttp2. It pauses where a header block is to be stopped, and must be called again
// then, with nothing if there is nothing more.
static void feed_piece(struct gw_conn *conn, const uint8_t *bytes, size_t size)
{
    ssize_t rv;
    do {
        conn->busy = true;
        rv = nghttp2_session_mem_recv(conn->session, bytes, size);
        conn->busy = false;
        bool stopped = rv >= 0 && conn->headers.paused && !conn->failed;
        if (!stopped) {
            break;
        }
        conn->headers.paused = false;
        bytes += rv;
        size -= (size_t)rv;
        gw_header_guard_stop(conn);
    } while (true);
    if (rv == NGHTTP2_ERR_BAD_CLIENT_MAGIC) {
        gw_conn_terminate(conn, NGHTTP2_PROTOCOL_ERROR);
    } else if (rv == NGHTTP2_ERR_FLOODED || rv == NGHTTP2_ERR_TOO_MANY_SETTINGS) {
        gw_conn_terminate(conn, NGHTTP2_ENHANCE_YOUR_CALM);
    } else if (rv < 0) {
        gw_conn_terminate(conn, NGHTTP2_INTERNAL_ERROR);
    }
}

// Stops before each DATA frame, when nghttp2 has seen everything in front of it, to look whether
// its stream is over.
void gw_conn_feed(struct gw_conn *conn, const uint8_t *bytes, size_t size)
{
    size_t fed = 0;
    size_t at = 0;
    struct gw_frame_head head;
    while (gw_frame_scan_next(&conn->scan, bytes, size, &at, &head)) {
        if (head.type == NGHTTP2_DATA && at - fed > GW_FRAME_HEAD_BYTES) {
            feed_piece(conn, bytes + fed, at - fed - GW_FRAME_HEAD_BYTES);
            fed = at - GW_FRAME_HEAD_BYTES;
        }
        gw_h2_frame_ahead(conn, &head);
    }
    feed_piece(conn, bytes + fed, size - fed);
    gw_conn_mark(conn);
}

static void take(struct gw_conn *conn, const uint8_t *bytes, size_t size);

// The first bytes say what the peer speaks: "PRI" is HTTP/2, another capital the method of a
// request of HTTP/1.1. What is neither is the session's to refuse. False: more of them are needed,
// or there is no memory.
static bool learn_protocol(struct gw_conn *conn, const uint8_t *bytes, size_t size)
{
    static const uint8_t magic[MAGIC_BYTES + 1] = "PRI";
    size_t held = conn->magic_bytes;
    size_t at = 0;
    while (at < size && conn->magic_bytes < MAGIC_BYTES && bytes[at] == magic[conn->magic_bytes]) {
        conn->magic_bytes++;
        at++;
    }
    if (at == size && conn->magic_bytes < MAGIC_BYTES) {
        return false;
    }
    if (conn->magic_bytes < MAGIC_BYTES && bytes[at] >= 'A' && bytes[at] <= 'Z' &&
        gw_h1_door_new(conn, &conn->door) != BASE_OK) {
        conn->failed = true;
        return false;
    }
    conn->magic_bytes = MAGIC_BYTES;
    if (held > 0) {
        take(conn, magic, held);
    }
    return true;
}

static void take(struct gw_conn *conn, const uint8_t *bytes, size_t size)
{
    if (conn->magic_bytes < MAGIC_BYTES && !learn_protocol(conn, bytes, size)) {
        return;
    }
    if (conn->door == NULL) {
        gw_conn_feed(conn, bytes, size);
        return;
    }
    if (gw_h1_door_input(conn->door, bytes, size) != BASE_OK) {
        conn->failed = true;
        return;
    }
    gw_h1_door_go_on(conn->door);
    gw_conn_mark(conn);
}

// The handshake is complete: nobody plays back what an other one said.
static void end_early(struct gw_conn *conn)
{
    struct gw_stream *next;
    for (struct gw_stream *stream = conn->lasting; stream != NULL; stream = next) {
        next = stream->next;
        if (stream->tunnel != NULL) {
            gw_tunnel_stream_release(stream);
        }
    }
    gw_conn_mark(conn);
}

// Large header fields wait when the peer's address has had enough of them.
bool gw_conn_pay_headers(struct gw_conn *conn)
{
    if (conn->headers.unpaid < GW_HEADER_PAY_BYTES && conn->paused_ms == 0) {
        return true;
    }
    uint64_t wait_ms = gw_header_guard_pay(conn);
    conn->paused_ms = wait_ms > 0 ? conn->worker->now_ms + wait_ms : 0;
    if (wait_ms > 0) {
        gw_wheel_set(&conn->worker->wheel, &conn->timer, conn->paused_ms);
    }
    return wait_ms == 0;
}

static void read_frames(struct gw_conn *conn)
{
    struct gw_http_worker *worker = conn->worker;
    bool emptied = false;
    int reads = conn->headers.heavy ? 1 : READS_PER_EVENT;
    size_t room = conn->headers.heavy ? GW_HEADER_READ_BYTES : GW_WORKER_INPUT_BYTES;
    for (int i = 0; i < reads && !emptied; i++) {
        size_t size = 0;
        bool was_early = conn->early;
        if (conn->door != NULL && gw_h1_door_is_full(conn->door)) {
            conn->read_on = conn->ssl != NULL; // when the door has room
            return;
        }
        enum base_status status = gw_conn_read(conn, worker->input, room, &size);
        if (was_early && !conn->early) {
            end_early(conn);
        }
        if (status == BASE_ERR_BUSY) {
            return;
        }
        if (status == BASE_ERR_CLOSED && conn->door != NULL) {
            gw_h1_door_end(conn->door);
            gw_stream_peer_left(conn->active);
            gw_conn_mark(conn);
            return;
        }
        if (status != BASE_OK) {
            conn->failed = true;
            return;
        }
        conn->read_ms = worker->now_ms;
        conn->trimmed = false;
        conn->ping_sent = false;
        take(conn, worker->input, size);
        emptied = conn->failed || (conn->ssl == NULL && size < room);
        if (!gw_conn_pay_headers(conn)) {
            return; // it is read again when the timer says so
        }
    }
    // What OpenSSL holds already makes no socket readable: the next event must come by itself.
    if (conn->ssl != NULL && !emptied) {
        conn->read_on = true;
    }
}

void gw_conn_on_turn(struct gw_conn *conn)
{
    if (conn->state == GW_CONN_OPEN && !conn->failed) {
        if (conn->read_on && !input_must_wait(conn)) {
            conn->read_on = false;
            read_frames(conn);
        }
        if (conn->door != NULL && conn->rest == NULL && conn->paused_ms == 0 && !conn->failed) {
            gw_h1_door_turn(conn->door);
            gw_conn_wake_timer(conn);
            (void)gw_conn_pay_headers(conn);
        }
    }
    gw_conn_mark(conn);
}

static void read_and_drop(struct gw_conn *conn)
{
    size_t size = 0;
    enum base_status status = gw_conn_read(conn, conn->worker->input, GW_WORKER_INPUT_BYTES, &size);
    conn->failed = status != BASE_OK && status != BASE_ERR_BUSY;
}

static void shake_hands(struct gw_conn *conn)
{
    conn->want_write = false;
    size_t size = 0; // of early data
    enum base_status status =
        gw_conn_handshake(conn, conn->worker->input, GW_WORKER_INPUT_BYTES, &size);
    if (status == BASE_OK) {
        status = start_session(conn);
        conn->magic_bytes = gw_conn_speaks_h2(conn) ? MAGIC_BYTES : 0;
        if (status == BASE_OK && size > 0) {
            take(conn, conn->worker->input, size);
        }
        if (status == BASE_OK) {
            read_frames(conn); // the first frames may have come with the handshake
        }
    } else if (status == BASE_ERR_BUSY) {
        watch(conn, true, conn->want_write);
        return;
    }
    conn->failed = conn->failed || status != BASE_OK;
}

static void read_intro(struct gw_conn *conn)
{
    enum base_status status = gw_conn_intro_read(conn);
    if (status == BASE_OK) {
        gw_conn_intro_free(conn);
        status = start(conn);
        conn->failed = conn->failed || status != BASE_OK;
    } else if (status != BASE_ERR_BUSY) {
        gw_stat_add(&conn->worker->stats->rejected_total, 1);
        conn->failed = true;
    }
}

static void on_event(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    struct gw_conn *conn = ctx;
    struct gw_http_worker *worker = conn->worker;
    gw_http_worker_now(worker);
    switch ((enum gw_conn_state)conn->state) {
    case GW_CONN_INTRO:
        read_intro(conn);
        break;
    case GW_CONN_HANDSHAKE:
        shake_hands(conn);
        break;
    case GW_CONN_OPEN:
        if ((what & EV_READ) != 0 && conn->paused_ms == 0) {
            read_frames(conn);
        }
        break;
    case GW_CONN_LINGER:
        read_and_drop(conn);
        break;
    case GW_CONN_CLOSED:
    case GW_CONN_STATE_COUNT:
        base_check(false);
    }
    if (conn->failed || (what & EV_WRITE) != 0) {
        gw_conn_mark(conn);
    }
    gw_http_worker_flush(worker);
}
