// Replies: turns an exchange's reply into nghttp2 headers and a body source. Names and values are
// static or in the stream's arena, so nghttp2 copies none of them. Called by stream.c, proxy.c and
// nghttp2's writer, on the worker's thread.
#include "http/stream.h"

#include "base/check.h"
#include "base/span.h"
#include "http/conn.h"
#include "http/lasting_streams.h"
#include "http/proxy_ride.h"
#include "http/worker.h"
#include "svc/reply.h"
#include "svc/route.h"
#include "wire/http_status.h"

#include <stdio.h>
#include <string.h>

#define REPLY_FIELDS_MAX (GW_REPLY_HEADERS_MAX + 3) // :status, content-length, date
#define PROBLEM_BYTES    512 // as JSON, around the longest detail, which is a text of ours
#define NO_COPY          (NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE)

// ---- Fields. What a connection's header table is given costs memory of it, and pays only where
// many answers go out that say the same: on a connection that carried some, of fields that stay.

#define BUSY_STREAM 64 // from there on a connection carries many

static nghttp2_nv field(struct base_str name, struct base_str value, bool indexed)
{
    uint8_t flags = indexed ? NO_COPY : NO_COPY | NGHTTP2_NV_FLAG_NO_INDEX;
    return (nghttp2_nv){(uint8_t *)(uintptr_t)name.data, (uint8_t *)(uintptr_t)value.data,
                        name.size, value.size, flags};
}

// Of a name that has the text's length.
#define IS(name, text) (memcmp((name).data, (text), sizeof(text) - 1) == 0)

// Has this field the same few values in all answers?
static bool stays(struct base_str name)
{
    switch (name.size) {
    case 4:
        return IS(name, "vary");
    case 12:
        return IS(name, "content-type");
    case 13:
        return IS(name, "cache-control") || IS(name, "accept-ranges");
    case 16:
        return IS(name, "content-encoding");
    default:
        return false;
    }
}

// One date lasts a second: it is worth a place when the connection says it again in that second.
static bool is_said_again(struct gw_conn *conn)
{
    bool again = conn->dated_s == conn->worker->date_s;
    conn->dated_s = conn->worker->date_s;
    return again;
}

// ---- Body sources. Each is called when nghttp2 can send.

// `total`: of the whole body.
static ssize_t give(struct gw_stream *stream, struct base_span from, uint64_t total,
                    struct gw_body_room *room)
{
    struct gw_stream_work *work = stream->work;
    size_t size = from.size < room->size ? from.size : room->size;
    memcpy(room->out, from.data, size);
    work->sent += size;
    base_assert(work->sent <= total);
    stream->moved_ms = stream->conn->worker->now_ms;
    room->ended = work->sent == total;
    return (ssize_t)size;
}

static ssize_t read_bytes(struct gw_stream *stream, struct gw_body_room *room)
{
    const struct gw_reply *reply = &stream->work->exchange.reply;
    return give(stream,
                (struct base_span){reply->body + stream->work->sent,
                                   reply->body_bytes - stream->work->sent},
                reply->body_bytes, room);
}

static ssize_t read_blob(struct gw_stream *stream, struct gw_body_room *room)
{
    const struct gw_reply *reply = &stream->work->exchange.reply;
    uint64_t left = reply->blob_bytes - stream->work->sent;
    size_t have = 0;
    const uint8_t *bytes = gw_blob_bytes(reply->blob, reply->blob_from + stream->work->sent, &have);
    if (bytes == NULL || have == 0) {
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE; // the store lost it: RST_STREAM
    }
    if (have > left) {
        have = (size_t)left;
    }
    return give(stream, (struct base_span){bytes, have}, reply->blob_bytes, room);
}

// The body is out, and fields follow it; without memory for them the stream is reset, so that
// nobody takes the answer for a whole one.
static ssize_t send_trailers(struct gw_stream *stream, const struct gw_reply *reply)
{
    nghttp2_nv fields[GW_REPLY_TRAILERS_MAX];
    base_check(reply->trailer_count <= GW_REPLY_TRAILERS_MAX);
    for (uint32_t i = 0; i < reply->trailer_count; i++) {
        fields[i] = field(reply->trailers[i].name, reply->trailers[i].value, false);
    }
    return nghttp2_submit_trailer(stream->conn->session, stream->id, fields,
                                  reply->trailer_count) == 0
               ? 0
               : NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

// What nghttp2 asks for bytes of any reply: the one function with its parameters. `source->ptr` is
// the stream, which lives until its close callback, after which nghttp2 asks no more.
static ssize_t read_body(nghttp2_session *session, int32_t id, uint8_t *out, size_t size,
                         uint32_t *flags, nghttp2_data_source *source, void *user)
{
    (void)session;
    (void)id;
    (void)user;
    struct gw_stream *stream = source->ptr;
    struct gw_body_room room = {out, size, false};
    ssize_t got = stream->state == GW_STREAM_HINTS    ? gw_hint_stream_read(stream, &room)
                  : stream->state == GW_STREAM_TUNNEL ? gw_tunnel_stream_read(stream, &room)
                                                      : stream->work->source(stream, &room);
    *flags |= room.ended ? NGHTTP2_DATA_FLAG_EOF : NGHTTP2_DATA_FLAG_NONE;
    if (room.ended && stream->work != NULL && stream->work->exchange.reply.trailer_count > 0) {
        *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
        ssize_t sent = send_trailers(stream, &stream->work->exchange.reply);
        return sent == 0 ? got : sent;
    }
    return got;
}

// ---- Submitting

static void submit(struct gw_stream *stream, const nghttp2_nv *fields, size_t count, bool with_body)
{
    base_check(!stream->committed);
    stream->committed = true;
    nghttp2_data_provider provider = {.source = {.ptr = stream}, .read_callback = read_body};
    int rv = nghttp2_submit_response(stream->conn->session, stream->id, fields, count,
                                     with_body ? &provider : NULL);
    if (rv != 0) {
        // Out of memory: the peer learns that nothing was done here.
        (void)nghttp2_submit_rst_stream(stream->conn->session, NGHTTP2_FLAG_NONE, stream->id,
                                        NGHTTP2_INTERNAL_ERROR);
    }
    stream->reset_after = !stream->request_done;
    gw_conn_mark(stream->conn);
}

void gw_stream_commit_body(struct gw_stream *stream, const nghttp2_nv *fields, size_t count,
                           gw_stream_source_fn source)
{
    gw_stream_set_state(stream, GW_STREAM_REPLYING);
    stream->work->source = source;
    submit(stream, fields, count, source != NULL && !stream->head);
}

static struct base_str length_text(struct gw_stream_work *work, uint64_t bytes)
{
    size_t at = sizeof(work->length_text);
    do {
        work->length_text[--at] = (char)('0' + bytes % 10);
        bytes /= 10;
    } while (bytes > 0);
    return (struct base_str){work->length_text + at, sizeof(work->length_text) - at};
}

static bool has_body(int status)
{
    return status >= 200 && status != 204 && status != 304;
}

// The commonest reply, without any work.
static bool commit_empty(struct gw_stream *stream, const struct gw_reply *reply)
{
    static const nghttp2_nv no_content = {(uint8_t *)(uintptr_t) ":status",
                                          (uint8_t *)(uintptr_t) "204", 7, 3, NO_COPY};
    if (reply->status != 204 || reply->header_count != 0 || reply->kind != GW_REPLY_BYTES) {
        return false;
    }
    gw_stream_set_state(stream, GW_STREAM_REPLYING);
    submit(stream, &no_content, 1, false);
    return true;
}

static size_t fill_fields(struct gw_stream *stream, const struct gw_reply *reply,
                          nghttp2_nv *fields)
{
    struct gw_stream_work *work = stream->work;
    struct gw_conn *conn = stream->conn;
    bool busy = conn->last_stream > BUSY_STREAM;
    size_t count = 0;
    fields[count++] =
        field(BASE_STR(":status"), wire_status_digits(reply->status, work->status_text),
              wire_status_common(reply->status));
    for (uint32_t i = 0; i < reply->header_count; i++) {
        const struct gw_header *header = &reply->headers[i];
        fields[count++] = field(header->name, header->value, busy && stays(header->name));
    }
    if (has_body(reply->status)) {
        struct base_str date = gw_http_worker_date(conn->worker);
        fields[count++] = field(BASE_STR("date"), date, busy && is_said_again(conn));
        if (reply->kind == GW_REPLY_BYTES || reply->kind == GW_REPLY_BLOB) {
            uint64_t bytes = reply->kind == GW_REPLY_BLOB ? reply->blob_bytes : reply->body_bytes;
            fields[count++] = field(BASE_STR("content-length"), length_text(work, bytes), false);
        }
    }
    base_check(count <= REPLY_FIELDS_MAX);
    return count;
}

// Opens the tunnel stream; nghttp2 has copied the fields, the work goes.
static void commit_tunnel(struct gw_stream *stream, nghttp2_nv *fields, size_t count)
{
    const struct gw_http_worker *worker = stream->conn->worker;
    if (worker->tunnel == NULL || gw_tunnel_stream_open(stream) != BASE_OK) {
        gw_stream_problem(stream, 503, "no more tunnel streams now");
        return;
    }
    for (size_t i = 0; i < count; i++) {
        fields[i].flags &= (uint8_t)~NO_COPY; // the arena does not stay
    }
    gw_stream_set_state(stream, GW_STREAM_TUNNEL);
    submit(stream, fields, count, true);
    gw_stream_work_release(stream->work);
}

// Opens the hint stream; nghttp2 has copied the fields, the work goes.
static void commit_hints(struct gw_stream *stream, nghttp2_nv *fields, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        fields[i].flags &= (uint8_t)~NO_COPY; // the arena does not stay
    }
    if (stream->head || gw_hint_stream_open(stream) != BASE_OK) {
        gw_stream_set_state(stream, GW_STREAM_REPLYING);
        submit(stream, fields, count, false);
        return;
    }
    gw_stream_set_state(stream, GW_STREAM_HINTS);
    submit(stream, fields, count, true);
    gw_stream_work_release(stream->work);
}

void gw_stream_commit(struct gw_stream *stream)
{
    const struct gw_reply *reply = &stream->work->exchange.reply;
    base_check(reply->header_count <= GW_REPLY_HEADERS_MAX);
    if (commit_empty(stream, reply)) {
        return;
    }
    nghttp2_nv fields[REPLY_FIELDS_MAX];
    size_t count = fill_fields(stream, reply, fields);
    gw_stream_source_fn source = NULL;
    if (reply->kind == GW_REPLY_STREAM) {
        commit_hints(stream, fields, count);
        return;
    }
    if (reply->kind == GW_REPLY_DUPLEX) {
        commit_tunnel(stream, fields, count);
        return;
    }
    if (reply->kind == GW_REPLY_OPEN) {
        gw_stream_set_state(stream, GW_STREAM_OPEN);
        stream->work->source = gw_open_stream_read;
        submit(stream, fields, count, true);
        return;
    }
    if (has_body(reply->status) && reply->kind == GW_REPLY_BLOB && reply->blob_bytes > 0) {
        source = read_blob;
    } else if (has_body(reply->status) && reply->kind == GW_REPLY_BYTES && reply->body_bytes > 0) {
        source = read_bytes;
    }
    gw_stream_commit_body(stream, fields, count, source);
}

void gw_stream_problem(struct gw_stream *stream, int status, const char *detail)
{
    struct gw_stream_work *work = stream->work;
    struct gw_reply *reply = &work->exchange.reply;
    char text[PROBLEM_BYTES];
    if (gw_grpc_problem(&work->exchange, status, base_str_of(detail))) {
        gw_core_refused(stream->conn->worker->svc, &work->exchange);
        gw_stream_commit(stream);
        return;
    }
    bool oip = gw_route_has(&work->exchange, GW_ROUTE_OIP);
    int size =
        oip ? snprintf(text, sizeof(text), "{\"error\":\"%s\"}", detail)
            : snprintf(
                  text, sizeof(text),
                  "{\"type\":\"about:blank\",\"title\":\"%s\",\"status\":%d,\"detail\":\"%s\"}",
                  wire_status_title(status), status, detail);
    base_assert(size > 0 && (size_t)size < sizeof(text));
    reply->kind = GW_REPLY_BYTES;
    reply->status = status;
    reply->header_count = 0;
    reply->trailer_count = 0;
    reply->headers[reply->header_count++] =
        (struct gw_header){BASE_STR("content-type"), oip ? BASE_STR("application/json")
                                                         : BASE_STR("application/problem+json")};
    if (status == 503 || status == 429) {
        reply->headers[reply->header_count++] =
            (struct gw_header){BASE_STR("retry-after"), BASE_STR("5")};
    }
    reply->body = base_arena_copy(&work->arena, text, (size_t)size);
    reply->body_bytes = reply->body != NULL ? (size_t)size : 0;
    if (work->proxy != NULL) {
        gw_proxy_ride_problem(work);
    }
    if (!work->forward) {
        gw_core_refused(stream->conn->worker->svc, &work->exchange);
    }
    gw_stream_commit(stream);
}
