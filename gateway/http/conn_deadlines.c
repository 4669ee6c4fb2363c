// What a connection may not take forever: a request's head and body, reading what it is sent,
// saying nothing. Called by the worker's wheel of timers, on the worker's thread. That is
// gw_conn_on_timer, from worker.c; conn.c and stream.c only ask for an earlier look. A connection
// has one timer for all of its deadlines: each look computes when the next is due. When the worker
// itself was late, what came meanwhile is heard before a peer is called slow.
#include "http/conn.h"

#include "http/config/http_limits.h"
#include "http/h1_door.h"
#include "http/loop/figure.h"
#include "http/stream.h"
#include "http/worker.h"

#include <sys/ioctl.h>

#define TRIM_AFTER_MS 3000
#define CHECK_MS      1000 // how often a connection with requests is looked at
#define PING_BYTES    8

void gw_conn_wake_timer(struct gw_conn *conn)
{
    uint64_t due_ms = conn->worker->now_ms + CHECK_MS;
    if (!gw_timer_is_set(&conn->timer) || conn->timer.due_ms > due_ms) {
        gw_wheel_set(&conn->worker->wheel, &conn->timer, due_ms);
    }
}

// Ends the streams whose time is over.
static void check_streams(struct gw_conn *conn, uint64_t now_ms)
{
    struct gw_stream *next;
    for (struct gw_stream *stream = conn->active; stream != NULL; stream = next) {
        next = stream->next;
        int status = 0;
        if (!gw_stream_overdue(stream, now_ms, &status)) {
            continue;
        }
        gw_stat_add(&conn->worker->stats->rejected_total, stream->lingers ? 0 : 1);
        if (stream->state == GW_STREAM_HEADERS) {
            conn->failed = true; // nothing can be said in the middle of a header block
        } else if (status != 0) {
            gw_stream_problem(stream, status, "the request body came too slowly");
        } else {
            // RFC 9113, 8.1: NO_ERROR: a complete reply, and no wish for the rest of the request.
            (void)nghttp2_submit_rst_stream(conn->session, NGHTTP2_FLAG_NONE, stream->id,
                                            stream->lingers ? NGHTTP2_NO_ERROR : NGHTTP2_CANCEL);
            stream->moved_ms = now_ms;
        }
        gw_conn_mark(conn);
    }
}

// A silent peer with open streams is asked whether it is still there.
static void check_silence(struct gw_conn *conn, uint64_t now_ms)
{
    const struct gw_limits *limits = &conn->worker->limits;
    if (conn->ping_sent) {
        conn->failed = conn->failed || now_ms - conn->ping_ms > limits->write_ms;
    } else if (now_ms - conn->read_ms >= limits->ping_ms) {
        static const uint8_t opaque[PING_BYTES] = "walle";
        conn->ping_sent = true;
        conn->ping_ms = now_ms;
        (void)nghttp2_submit_ping(conn->session, NGHTTP2_FLAG_NONE, opaque);
        gw_conn_mark(conn);
    }
}

// A pause that is over: it is read again if its address has paid.
static void check_pause(struct gw_conn *conn, uint64_t now_ms)
{
    if (conn->paused_ms != 0 && conn->paused_ms <= now_ms && gw_conn_pay_headers(conn)) {
        conn->read_on = true;
        gw_conn_mark(conn);
    }
}

// Since when the head of a request of HTTP/1.1 comes; 0: none does.
static uint64_t head_ms(const struct gw_conn *conn)
{
    return conn->door != NULL ? gw_h1_door_head_ms(conn->door) : 0;
}

static uint64_t next_check(struct gw_conn *conn, uint64_t now_ms)
{
    const struct gw_limits *limits = &conn->worker->limits;
    if (conn->paused_ms != 0) {
        return conn->paused_ms < now_ms + CHECK_MS ? conn->paused_ms : now_ms + CHECK_MS;
    }
    bool unready = !conn->preface_seen || conn->early || head_ms(conn) != 0;
    if (conn->active != NULL || conn->sending.waits || conn->rest != NULL || conn->ping_sent ||
        unready) {
        return now_ms + CHECK_MS;
    }
    if (!conn->trimmed) {
        return now_ms + TRIM_AFTER_MS;
    }
    return conn->stream_count == 0 ? conn->idle_ms + limits->idle_ms
                                   : conn->read_ms + limits->ping_ms;
}

static void check_open(struct gw_conn *conn, uint64_t now_ms)
{
    const struct gw_limits *limits = &conn->worker->limits;
    check_pause(conn, now_ms);
    check_streams(conn, now_ms);
    bool unready = !conn->preface_seen || conn->early;
    bool slow = head_ms(conn) != 0 && now_ms - head_ms(conn) >= limits->header_ms;
    if (slow || (unready && now_ms - conn->begun_ms >= limits->handshake_ms)) {
        conn->failed = true;
    } else if ((conn->rest != NULL && now_ms - conn->write_ms > limits->write_ms) ||
               gw_send_guard_overdue(conn, now_ms)) {
        gw_stat_add(&conn->worker->stats->unread_closed, 1);
        gw_send_guard_abort(conn);
        conn->failed = true; // reads too slowly
    } else if (conn->stream_count == 0) {
        if (now_ms - conn->idle_ms >= limits->idle_ms) {
            gw_conn_terminate(conn, NGHTTP2_NO_ERROR);
        }
    } else {
        check_silence(conn, now_ms);
    }
    if (!conn->trimmed && conn->rest == NULL && now_ms - conn->read_ms >= TRIM_AFTER_MS) {
        gw_h2_memory_trim(&conn->lease);
        conn->trimmed = true;
    }
}

// What is under way to a slow peer is still delivered, with the same deadline as ever; closed
// before that, it would be the kernel's, out of our sight.
static bool linger_on(struct gw_conn *conn)
{
    if (gw_send_guard_overdue(conn, conn->worker->now_ms)) {
        gw_stat_add(&conn->worker->stats->unread_closed, 1);
        gw_send_guard_abort(conn);
        return false;
    }
    return conn->sending.waits;
}

// After a time in which the worker did not run: what came meanwhile is heard before anybody is
// called slow.
static bool is_unheard(const struct gw_conn *conn)
{
    int bytes = 0;
    return conn->worker->late && conn->state != GW_CONN_LINGER && conn->paused_ms == 0 &&
           ioctl(conn->fd, FIONREAD, &bytes) == 0 && bytes > 0;
}

void gw_conn_on_timer(struct gw_conn *conn)
{
    uint64_t now_ms = conn->worker->now_ms;
    if (is_unheard(conn)) {
        gw_wheel_set(&conn->worker->wheel, &conn->timer, now_ms + GW_WORKER_TICK_MS);
        return;
    }
    if (conn->state == GW_CONN_OPEN && !conn->failed) {
        check_open(conn, now_ms);
        gw_wheel_set(&conn->worker->wheel, &conn->timer, next_check(conn, now_ms));
    } else if (conn->state == GW_CONN_LINGER && !conn->failed && linger_on(conn)) {
        gw_wheel_set(&conn->worker->wheel, &conn->timer, now_ms + GW_CONN_LINGER_MS);
    } else {
        conn->failed = true; // the handshake or the lingering took too long
    }
    if (conn->failed) {
        gw_conn_mark(conn);
    }
}
