// Tunnel streams: exchanges whose two bodies stay open. Input goes to the tunnel's session as it
// comes, all of it; what the session writes waits here until nghttp2 has room for it. The buffer is
// there only while something waits, so an idle stream costs its small struct. Worker's thread.
//
// On a connection whose TLS handshake is not complete (early data, which somebody may have
// replayed) only HELLO frames reach the session: they change nothing. The rest is held back until
// the handshake proved that the peer is there.
#include "http/lasting_streams.h"

#include "base/check.h"
#include "base/fifo.h"
#include "http/conn.h"
#include "http/worker.h"
#include "tunnel/gw_tunnel.h"
#include "wire/tunnel_frame.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define OUTPUT_FIRST_BYTES 256
#define OUTPUT_BYTES_MAX   (32 * 1024)  // that wait for a peer that does not read; above: it ends
#define WINDOW_BYTES       (384 * 1024) // of a stream: more than the credit it can have
#define URGENCY_DEFAULT    3            // RFC 9218, 4.1
#define URGENCY_LEAST      7

struct gw_tunnel_stream {
    struct gw_tunnel_watch watch; // the core's part
    struct gw_stream *stream;
    struct gw_session *session; // NULL: over
    struct base_fifo out;
    uint32_t held_bytes;
    uint8_t *held; // input of early data that has to wait; NULL: none
    bool deferred; // nghttp2 waits to be told that there is output
    bool finishing;
};

static void resume(struct gw_tunnel_stream *tunnel)
{
    if (tunnel->deferred) {
        tunnel->deferred = false;
        (void)nghttp2_session_resume_data(tunnel->stream->conn->session, tunnel->stream->id);
    }
    gw_conn_mark(tunnel->stream->conn);
}

// ---- The session's port

static bool on_write(void *ctx, const uint8_t *bytes, size_t size)
{
    struct gw_tunnel_stream *tunnel = ctx;
    if (size > OUTPUT_BYTES_MAX - base_fifo_size(&tunnel->out) ||
        base_fifo_put(&tunnel->out, bytes, size, OUTPUT_FIRST_BYTES) != BASE_OK) {
        return false;
    }
    resume(tunnel);
    return true;
}

static void reset(struct gw_tunnel_stream *tunnel, uint32_t error)
{
    struct gw_stream *stream = tunnel->stream;
    tunnel->finishing = true;
    (void)nghttp2_submit_rst_stream(stream->conn->session, NGHTTP2_FLAG_NONE, stream->id, error);
    gw_conn_mark(stream->conn);
}

static void on_end(void *ctx, bool by_reset)
{
    struct gw_tunnel_stream *tunnel = ctx;
    if (by_reset) {
        reset(tunnel, NGHTTP2_CANCEL);
    } else {
        tunnel->finishing = true;
        resume(tunnel);
    }
}

// ---- Life

// `u` of a priority header (RFC 9218): a dictionary, whose other members do not matter here.
static uint32_t urgency_of(struct base_str value)
{
    for (size_t i = 0; i + 2 < value.size; i++) {
        bool begins = i == 0 || value.data[i - 1] == ',' || value.data[i - 1] == ' ';
        char digit = value.data[i + 2];
        if (begins && value.data[i] == 'u' && value.data[i + 1] == '=' && digit >= '0' &&
            digit <= '0' + URGENCY_LEAST) {
            return (uint32_t)(digit - '0');
        }
    }
    return URGENCY_DEFAULT;
}

// An acknowledgement is small and somebody waits for it: tunnel streams come before bodies of other
// replies (weight 16), by urgency among themselves, and none of them starves.
static void prioritise(const struct gw_stream *stream, struct base_str priority)
{
    nghttp2_priority_spec spec;
    uint32_t weight = NGHTTP2_MAX_WEIGHT >> (urgency_of(priority) / 2);
    nghttp2_priority_spec_init(&spec, 0, (int32_t)weight, 0);
    (void)nghttp2_session_change_stream_priority(stream->conn->session, stream->id, &spec);
}

enum base_status gw_tunnel_stream_open(struct gw_stream *stream)
{
    struct gw_conn *conn = stream->conn;
    struct gw_http_worker *worker = conn->worker;
    const struct gw_exchange *exchange = &stream->work->exchange;
    struct gw_tunnel_stream *tunnel = calloc(1, sizeof(*tunnel));
    if (tunnel == NULL) {
        return BASE_ERR_NOMEM;
    }
    tunnel->stream = stream;
    const struct gw_session_port port = {
        .ctx = tunnel, .write = on_write, .end = on_end, .unproven = !exchange->reply.proven};
    enum base_status status = gw_session_open(worker->tunnel, exchange->reply.device,
                                              exchange->reply.tenant, &port, &tunnel->session);
    if (status != BASE_OK) {
        free(tunnel);
        return status;
    }
    stream->tunnel = tunnel;
    gw_stream_stays(stream);
    gw_conn_carry_tunnel(conn);
    prioritise(stream, exchange->request.priority);
    // Not more than its window is under way; all that comes is taken at once.
    (void)nghttp2_session_set_local_window_size(conn->session, NGHTTP2_FLAG_NONE, stream->id,
                                                WINDOW_BYTES);
    gw_worker_watch_tunnel(worker->svc, exchange->reply.device, &tunnel->watch);
    return BASE_OK;
}

void gw_tunnel_stream_close(struct gw_stream *stream)
{
    struct gw_tunnel_stream *tunnel = stream->tunnel;
    if (tunnel == NULL) {
        return;
    }
    gw_worker_unwatch_tunnel(stream->conn->worker->svc, &tunnel->watch);
    gw_session_close(tunnel->session);
    base_fifo_done(&tunnel->out);
    free(tunnel->held);
    free(tunnel);
    stream->tunnel = NULL;
}

void gw_tunnel_stream_finish(struct gw_stream *stream)
{
    stream->tunnel->finishing = true;
    resume(stream->tunnel);
}

void gw_tunnel_stream_revoked(void *ctx, struct gw_tunnel_watch *watch)
{
    (void)ctx;
    struct gw_tunnel_stream *tunnel =
        (struct gw_tunnel_stream *)(void *)((char *)watch -
                                            offsetof(struct gw_tunnel_stream, watch));
    gw_tunnel_stream_finish(tunnel->stream);
}

// ---- Input

// What the session says of the bytes that it was given.
static void received(struct gw_tunnel_stream *tunnel, enum base_status status)
{
    if (status != BASE_OK) {
        reset(tunnel, NGHTTP2_PROTOCOL_ERROR);
    }
}

// Early data is bounded by what TLS lets through (tls.early_data_bytes), and so is what is held.
static void hold(struct gw_tunnel_stream *tunnel, const uint8_t *bytes, size_t size)
{
    uint8_t *grown = realloc(tunnel->held, tunnel->held_bytes + size);
    if (grown == NULL) {
        reset(tunnel, NGHTTP2_INTERNAL_ERROR);
        return;
    }
    memcpy(grown + tunnel->held_bytes, bytes, size);
    tunnel->held = grown;
    tunnel->held_bytes += (uint32_t)size;
    for (;;) { // complete HELLOs in front go on
        enum wire_tunnel_type type;
        size_t payload = 0;
        if (wire_tunnel_head(grown, tunnel->held_bytes, &type, &payload) != BASE_OK ||
            type != WIRE_TUNNEL_HELLO || payload > tunnel->held_bytes - WIRE_TUNNEL_HEAD) {
            return;
        }
        size_t frame = WIRE_TUNNEL_HEAD + payload;
        if (!tunnel->finishing) {
            received(tunnel, gw_session_receive(tunnel->session, grown, frame));
        }
        tunnel->held_bytes -= (uint32_t)frame;
        memmove(grown, grown + frame, tunnel->held_bytes);
    }
}

void gw_tunnel_stream_body(struct gw_stream *stream, const uint8_t *bytes, size_t size)
{
    struct gw_tunnel_stream *tunnel = stream->tunnel;
    (void)nghttp2_session_consume_stream(stream->conn->session, stream->id, size);
    if (tunnel->finishing || tunnel->session == NULL) {
        return;
    }
    if (stream->conn->early) {
        hold(tunnel, bytes, size);
    } else {
        received(tunnel, gw_session_receive(tunnel->session, bytes, size));
    }
}

void gw_tunnel_stream_release(struct gw_stream *stream)
{
    struct gw_tunnel_stream *tunnel = stream->tunnel;
    if (tunnel->held_bytes > 0 && tunnel->session != NULL && !tunnel->finishing) {
        received(tunnel, gw_session_receive(tunnel->session, tunnel->held, tunnel->held_bytes));
    }
    free(tunnel->held);
    tunnel->held = NULL;
    tunnel->held_bytes = 0;
    if (stream->request_done) {
        gw_tunnel_stream_request_done(stream);
    }
}

void gw_tunnel_stream_request_done(struct gw_stream *stream)
{
    struct gw_tunnel_stream *tunnel = stream->tunnel;
    if (tunnel->held != NULL || tunnel->session == NULL) {
        return; // after what is held; or again
    }
    gw_session_close(tunnel->session);
    tunnel->session = NULL;
    tunnel->finishing = true;
    resume(tunnel);
}

// ---- Output

ssize_t gw_tunnel_stream_read(struct gw_stream *stream, struct gw_body_room *room)
{
    struct gw_tunnel_stream *tunnel = stream->tunnel;
    size_t size = base_fifo_take(&tunnel->out, room->out, room->size);
    if (base_fifo_size(&tunnel->out) == 0) {
        if (tunnel->finishing) {
            room->ended = true;
        } else if (size == 0) {
            tunnel->deferred = true;
            return NGHTTP2_ERR_DEFERRED;
        }
    }
    return (ssize_t)size;
}
