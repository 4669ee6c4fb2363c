// nghttp2's callbacks: from frames to streams, and the counting of frames a peer might flood us
// with. Called from inside nghttp2_session_mem_recv and _mem_send (conn.c), on the worker's thread.
// Nothing here may free the connection or write to the socket.
#include "http/conn.h"

#include "base/check.h"
#include "http/config/http_limits.h"
#include "http/loop/figure.h"
#include "http/stream.h"
#include "http/lasting_streams.h"
#include "http/worker.h"

#include <string.h>

// ---- Floods

static bool take(struct pol_ratelimit *limit, uint64_t burst, uint64_t per_s, uint64_t now_us)
{
    struct pol_ratelimit_config config = {.burst = burst, .refill = per_s, .interval_us = 1000000};
    return pol_ratelimit_take(limit, &config, 1, now_us);
}

static int enhance_your_calm(struct gw_conn *conn)
{
    gw_stat_add(&conn->worker->stats->rejected_total, 1);
    gw_conn_terminate(conn, NGHTTP2_ENHANCE_YOUR_CALM);
    return 0;
}

static int count_control(struct gw_conn *conn)
{
    const struct gw_limits *limits = &conn->worker->limits;
    if (take(&conn->controls, limits->control_frames_burst, limits->control_frames_per_s,
             conn->worker->now_us)) {
        return 0;
    }
    return enhance_your_calm(conn);
}

// DATA and HEADERS on a stream that is over (RFC 9113, 5.1) end the connection; nghttp2, which
// keeps no closed streams here, would let them pass. Streams that we reset ourselves get the
// benefit of the doubt: such frames may have been under way.
static void check_closed_stream(struct gw_conn *conn, int32_t id)
{
    bool known = (id & 1) == 0 || id > conn->last_stream || conn->draining ||
                 (id >= conn->reset_low && id <= conn->reset_high) ||
                 nghttp2_session_find_stream(conn->session, id) != NULL;
    if (!known) {
        gw_conn_terminate(conn, NGHTTP2_STREAM_CLOSED);
    }
}

// A HEADERS frame opens a stream, or is trailers of one that was open. On an id that the peer
// passed over it is neither: RFC 9113, 5.1.1 makes that a connection error, nghttp2 lets it pass.
static void check_headers_frame(struct gw_conn *conn, const nghttp2_frame_hd *hd)
{
    conn->block_bytes = 0;
    if (hd->stream_id > conn->last_stream) {
        if (hd->stream_id > conn->last_stream + 2) {
            conn->skipped_from = conn->last_stream + 1;
            conn->skipped_to = hd->stream_id - 1;
        }
        conn->last_stream = hd->stream_id;
    } else if (hd->stream_id >= conn->skipped_from && hd->stream_id <= conn->skipped_to) {
        gw_conn_terminate(conn, NGHTTP2_PROTOCOL_ERROR);
    } else {
        check_closed_stream(conn, hd->stream_id);
    }
}

// A header block may not be larger than what it may decode to.
static int count_block(struct gw_conn *conn, size_t bytes)
{
    uint64_t limit = 2 * conn->worker->limits.header_list_bytes;
    if (bytes > limit || conn->block_bytes > limit - bytes) {
        return enhance_your_calm(conn);
    }
    conn->block_bytes += (uint32_t)bytes;
    return 0;
}

void gw_h2_frame_ahead(struct gw_conn *conn, const struct gw_frame_head *head)
{
    switch (head->type) {
    case NGHTTP2_DATA:
        check_closed_stream(conn, head->stream);
        if (head->payload_bytes == 0 && (head->flags & NGHTTP2_FLAG_END_STREAM) == 0) {
            (void)count_control(conn);
        }
        break;
    case NGHTTP2_HEADERS:
    case NGHTTP2_CONTINUATION:  // counted with their block
    case NGHTTP2_RST_STREAM:    // counted when it ends a stream
    case NGHTTP2_WINDOW_UPDATE: // ordinary traffic
        break;
    default:
        (void)count_control(conn);
    }
}

static int on_begin_frame(nghttp2_session *session, const nghttp2_frame_hd *hd, void *user)
{
    (void)session;
    struct gw_conn *conn = user;
    if (hd->type == NGHTTP2_HEADERS) {
        check_headers_frame(conn, hd);
        return count_block(conn, hd->length);
    }
    return hd->type == NGHTTP2_CONTINUATION ? count_block(conn, hd->length) : 0;
}

// ---- Streams

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct gw_conn *conn = user;
    gw_header_guard_begin(conn, frame->hd.stream_id);
    if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST) {
        conn->current = NULL; // trailers are read and dropped
        return 0;
    }
    struct gw_stream *stream = gw_stream_new(conn, frame->hd.stream_id);
    if (stream == NULL) {
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    }
    (void)nghttp2_session_set_stream_user_data(session, frame->hd.stream_id, stream);
    conn->current = stream;
    return 0;
}

// What nghttp2 is to do about a field that the guard looked at.
static int answer_of(enum gw_header_verdict verdict)
{
    return verdict == GW_HEADER_STOP   ? NGHTTP2_ERR_PAUSE
           : verdict == GW_HEADER_DROP ? NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE
                                       : 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_size, const uint8_t *value, size_t value_size, uint8_t flags,
                     void *user)
{
    (void)session;
    (void)frame;
    (void)flags;
    struct gw_conn *conn = user;
    enum gw_header_verdict verdict = gw_header_guard_light(&conn->headers, name_size + value_size)
                                         ? GW_HEADER_TAKE
                                         : gw_header_guard_field(conn, name_size, value_size);
    if (verdict == GW_HEADER_TAKE && conn->current != NULL && name_size > 0) {
        gw_stream_header(conn->current, (struct base_str){(const char *)name, name_size},
                         (struct base_str){(const char *)value, value_size});
    }
    return answer_of(verdict);
}

// A field that nghttp2 drops costs what others cost.
static int on_invalid_header(nghttp2_session *session, const nghttp2_frame *frame,
                             const uint8_t *name, size_t name_size, const uint8_t *value,
                             size_t value_size, uint8_t flags, void *user)
{
    (void)session;
    (void)frame;
    (void)name;
    (void)value;
    (void)flags;
    return answer_of(gw_header_guard_field(user, name_size, value_size));
}

// A header block is whole: a request's, or trailers.
static void on_headers_complete(struct gw_conn *conn, bool done)
{
    struct gw_stream *stream = conn->current;
    conn->current = NULL;
    if (stream != NULL) {
        stream->request_done = done;
        gw_stream_headers_done(stream);
    }
}

// Not those of our own door, which says so that nobody reads the rest of a body.
static void on_reset(struct gw_conn *conn)
{
    const struct gw_limits *limits = &conn->worker->limits;
    if (conn->door == NULL &&
        !take(&conn->resets, limits->resets_burst, limits->resets_per_s, conn->worker->now_us)) {
        (void)enhance_your_calm(conn);
    }
}

static int on_frame_recv(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct gw_conn *conn = user;
    bool done = false;
    switch (frame->hd.type) {
    case NGHTTP2_HEADERS:
        done = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
        on_headers_complete(conn, done);
        break;
    case NGHTTP2_DATA:
        done = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
        break;
    case NGHTTP2_RST_STREAM:
        on_reset(conn);
        break;
    case NGHTTP2_SETTINGS:
        conn->preface_seen = true;
        break;
    default:
        break;
    }
    struct gw_stream *stream =
        done ? nghttp2_session_get_stream_user_data(session, frame->hd.stream_id) : NULL;
    if (stream != NULL && gw_stream_request_done(stream)) {
        gw_stream_hand_over(stream);
    }
    return 0;
}

static int on_data_chunk(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *bytes,
                         size_t size, void *user)
{
    (void)flags;
    (void)user;
    // The connection's window is given back at once: a slow stream stops itself alone.
    (void)nghttp2_session_consume_connection(session, size);
    struct gw_stream *stream = nghttp2_session_get_stream_user_data(session, id);
    if (stream == NULL) {
        (void)nghttp2_session_consume_stream(session, id, size);
    } else if (stream->tunnel != NULL) {
        gw_tunnel_stream_body(stream, bytes, size);
    } else {
        gw_stream_body(stream, bytes, size);
    }
    return 0;
}

static void note_reset(struct gw_conn *conn, int32_t id)
{
    if (conn->reset_low == 0 || id < conn->reset_low) {
        conn->reset_low = id;
    }
    if (id > conn->reset_high) {
        conn->reset_high = id;
    }
}

static int on_frame_send(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    if (frame->hd.type == NGHTTP2_RST_STREAM) {
        note_reset(user, frame->hd.stream_id);
        return 0;
    }
    if ((frame->hd.flags & NGHTTP2_FLAG_END_STREAM) == 0 ||
        (frame->hd.type != NGHTTP2_DATA && frame->hd.type != NGHTTP2_HEADERS)) {
        return 0;
    }
    struct gw_stream *stream = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    if (stream != NULL && stream->reset_after && !stream->request_done) {
        gw_stream_linger(stream);
    }
    return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t error, void *user)
{
    (void)error;
    (void)user;
    struct gw_stream *stream = nghttp2_session_get_stream_user_data(session, id);
    if (stream != NULL) {
        (void)nghttp2_session_set_stream_user_data(session, id, NULL);
        gw_stream_close(stream);
    }
    return 0;
}

void gw_h2_events_set(nghttp2_session_callbacks *callbacks)
{
    nghttp2_session_callbacks_set_on_begin_frame_callback(callbacks, on_begin_frame);
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_invalid_header_callback(callbacks, on_invalid_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame_recv);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data_chunk);
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_frame_send);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
}
