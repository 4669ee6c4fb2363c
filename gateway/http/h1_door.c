// Between HTTP/1.1 and the HTTP/2 session of a connection; see the header. The client session here
// never sees a socket: conn.c carries its frames over. Worker's thread. conn.c feeds it and asks it
// for output, conn_deadlines.c since when a head is coming. Paths that only devices use are refused
// here (505); all other limits are those of the HTTP/2 session, which sees a request like any
// other.
#include "http/h1_door.h"

#include "base/alloc.h"
#include "base/arena.h"
#include "base/check.h"
#include "base/fifo.h"
#include "http/conn.h"
#include "http/loop/figure.h"
#include "http/parse/h1_message.h"
#include "http/stream.h"
#include "http/worker.h"
#include "svc/route.h"
#include "wire/http_status.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PSEUDO_FIELDS 4
#define TEXT_MAX      256 // a line that is made here
#define OUTPUT_FIRST  512 // bytes

struct gw_h1_door {
    struct gw_conn *conn;
    nghttp2_session *client;
    struct base_arena arena; // of the request
    struct gw_h1_message request;
    bool begun;       // the request is being read, or answered
    bool unwanted;    // it is answered, and the rest of its body thrown away
    int32_t stream;   // that carries it; 0: none yet
    uint64_t head_ms; // since when its head comes; 0: it does not
    struct base_fifo in;
    struct base_fifo out;
    bool ended;   // the peer says no more; what it said is answered
    bool closing; // no further request
    bool over;    // ... and the last one was answered
    bool failed;  // no memory
    // Of the answer under way:
    bool to_head;
    bool answered; // its first line was written
    bool has_length;
    bool chunked;
    bool done;
    int status;
};

// ---- Output

static void put(struct gw_h1_door *door, const void *bytes, size_t size)
{
    if (!door->failed && base_fifo_put(&door->out, bytes, size, OUTPUT_FIRST) != BASE_OK) {
        door->failed = true;
    }
}

BASE_PRINTF(2, 3)
static void put_text(struct gw_h1_door *door, const char *format, ...)
{
    char text[TEXT_MAX];
    va_list list;
    va_start(list, format);
    int size = vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    if (size < 0 || (size_t)size >= sizeof(text)) {
        door->failed = true;
        return;
    }
    put(door, text, (size_t)size);
}

size_t gw_h1_door_take(struct gw_h1_door *door, uint8_t *out, size_t room)
{
    return base_fifo_take(&door->out, out, room);
}

bool gw_h1_door_has_output(const struct gw_h1_door *door)
{
    return base_fifo_size(&door->out) > 0;
}

bool gw_h1_door_is_over(const struct gw_h1_door *door)
{
    return door->over;
}

uint64_t gw_h1_door_head_ms(const struct gw_h1_door *door)
{
    return door->head_ms;
}

// An answer to what never becomes a request of the session; the connection ends with it.
static void refuse(struct gw_h1_door *door, int status, const char *detail)
{
    char body[2 * TEXT_MAX];
    int size =
        snprintf(body, sizeof(body),
                 "{\"type\":\"about:blank\",\"title\":\"%s\",\"status\":%d,\"detail\":\"%s\"}\n",
                 wire_status_title(status), status, detail);
    base_check(size > 0 && (size_t)size < sizeof(body));
    put_text(door, "HTTP/1.1 %d %s\r\n", status, wire_status_title(status));
    put_text(door,
             "content-type: application/problem+json\r\ncontent-length: %d\r\n"
             "connection: close\r\n\r\n",
             size);
    put(door, body, (size_t)size);
    gw_stat_add(&door->conn->worker->stats->rejected_total, 1);
    door->head_ms = 0;
    door->closing = door->over = true;
    base_fifo_done(&door->in);
}

// ---- A request

// Body source of the client session: the body as it comes, without its chunks.
static ssize_t read_body(nghttp2_session *session, int32_t id, uint8_t *out, size_t room,
                         uint32_t *flags, nghttp2_data_source *source, void *user)
{
    (void)session;
    (void)id;
    (void)source;
    struct gw_h1_door *door = user;
    size_t size = 0;
    enum gw_h1_event event = GW_H1_BODY;
    while (size < room && event == GW_H1_BODY) {
        size_t used = 0;
        size_t have = base_fifo_size(&door->in);
        have = have < room - size ? have : room - size;
        struct base_str body;
        event = gw_h1_message_feed(&door->request, base_fifo_front(&door->in), have, &used, &body);
        if (event == GW_H1_BODY) {
            memcpy(out + size, body.data, body.size);
            size += body.size;
        }
        base_fifo_drop(&door->in, used);
        if (event == GW_H1_MORE && base_fifo_size(&door->in) > 0) {
            // Chunk lines took the rest of the room.
            event = GW_H1_BODY;
        }
    }
    if (event == GW_H1_BAD) {
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE; // RST_STREAM; on_stream_close goes on
    }
    if (event == GW_H1_END || door->request.state == GW_H1_DONE) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
        return (ssize_t)size;
    }
    return size > 0 ? (ssize_t)size : NGHTTP2_ERR_DEFERRED;
}

static nghttp2_nv field(struct base_str name, struct base_str value)
{
    return (nghttp2_nv){.name = (uint8_t *)(uintptr_t)name.data,
                        .value = (uint8_t *)(uintptr_t)value.data,
                        .namelen = name.size,
                        .valuelen = value.size};
}

static bool is_any(struct base_str name, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (base_str_equal(name, base_str_of(names[i]))) {
            return true;
        }
    }
    return false;
}

// What is of one hop (RFC 9110, 7.6.1), or is said otherwise in HTTP/2.
static bool stays_here(struct base_str name)
{
    static const char *const names[] = {
        "connection",        "keep-alive", "proxy-connection", "te",   "trailer",
        "transfer-encoding", "upgrade",    "http2-settings",   "host", "expect"};
    return is_any(name, names, sizeof(names) / sizeof(names[0]));
}

// The one field of that name; data NULL: none. False: there are more.
static bool only_field(const struct gw_h1_message *request, struct base_str name,
                       struct base_str *out)
{
    *out = (struct base_str){0};
    for (uint32_t i = 0; i < request->field_count; i++) {
        if (!base_str_equal(request->fields[i].name, name)) {
            continue;
        }
        if (out->data != NULL) {
            return false;
        }
        *out = request->fields[i].value;
    }
    return true;
}

static bool begins(struct base_str text, struct base_str start)
{
    return text.size >= start.size && memcmp(text.data, start.data, start.size) == 0;
}

// "http://name/path" is "/path" of that name (RFC 9112, 3.2.2), which then counts instead of host.
static void split_target(const struct gw_h1_message *request, struct base_str *authority,
                         struct base_str *path)
{
    static const char *const schemes[] = {"http://", "https://"};
    *path = request->target;
    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
        struct base_str scheme = base_str_of(schemes[i]);
        if (!begins(request->target, scheme)) {
            continue;
        }
        struct base_str rest = {request->target.data + scheme.size,
                                request->target.size - scheme.size};
        const char *slash = memchr(rest.data, '/', rest.size);
        size_t size = slash != NULL ? (size_t)(slash - rest.data) : rest.size;
        *authority = (struct base_str){rest.data, size};
        *path = slash != NULL ? (struct base_str){slash, rest.size - size} : BASE_STR("/");
    }
}

// Operators' paths, and those of machines that watch.
static bool is_served(const struct gw_h1_door *door, struct base_str path)
{
    const char *mark = memchr(path.data, '?', path.size);
    struct base_str bare = {path.data, mark != NULL ? (size_t)(mark - path.data) : path.size};
    const struct gw_route *route = gw_route_find(door->conn->worker->svc, bare);
    return route != NULL && (route->flags & GW_ROUTE_HTTP1) != 0;
}

static void submit(struct gw_h1_door *door, struct base_str authority, struct base_str path)
{
    const struct gw_h1_message *request = &door->request;
    nghttp2_nv fields[PSEUDO_FIELDS + GW_H1_FIELDS_MAX];
    size_t count = 0;
    fields[count++] = field(BASE_STR(":method"), request->method);
    fields[count++] =
        field(BASE_STR(":scheme"), door->conn->ssl != NULL ? BASE_STR("https") : BASE_STR("http"));
    fields[count++] = field(BASE_STR(":authority"), authority);
    fields[count++] = field(BASE_STR(":path"), path);
    for (uint32_t i = 0; i < request->field_count; i++) {
        if (!stays_here(request->fields[i].name)) {
            fields[count++] = field(request->fields[i].name, request->fields[i].value);
        }
    }
    const nghttp2_data_provider body = {.read_callback = read_body};
    int32_t id = nghttp2_submit_request(door->client, NULL, fields, count,
                                        request->state != GW_H1_DONE ? &body : NULL, NULL);
    if (id < 0) {
        refuse(door, 503, "no more requests on this connection");
        return;
    }
    door->stream = id;
    door->to_head = base_str_equal(request->method, BASE_STR("HEAD"));
    door->answered = door->done = door->chunked = door->has_length = false;
}

static void on_head(struct gw_h1_door *door)
{
    const struct gw_h1_message *request = &door->request;
    struct base_str authority;
    struct base_str path;
    struct base_str expect;
    door->head_ms = 0;
    door->closing = door->closing || !request->keep_alive;
    bool ok = only_field(request, BASE_STR("host"), &authority) &&
              (authority.data != NULL || request->old) &&
              only_field(request, BASE_STR("expect"), &expect);
    split_target(request, &authority, &path);
    if (!ok || path.data[0] != '/') {
        refuse(door, 400, "one host field is needed, at most one expect, and a path");
    } else if (!is_served(door, path)) {
        refuse(door, 505,
               "HTTP/1.1 is for the console, /api/v1, /v2, /metrics, /healthz and /readyz; "
               "everything else speaks HTTP/2");
    } else {
        if (authority.data == NULL) {
            authority = BASE_STR("localhost"); // HTTP/1.0 need not say
        }
        submit(door, authority, path);
        if (expect.data != NULL && request->state != GW_H1_DONE && base_fifo_size(&door->in) == 0) {
            put_text(door, "HTTP/1.1 100 Continue\r\n\r\n");
        }
    }
}

// Passes over what these bytes have of a body that nobody wants; behind its end the next request
// begins. Returns how many were passed over.
static size_t pass_over(struct gw_h1_door *door, const uint8_t *bytes, size_t size)
{
    size_t at = 0;
    while (at < size && door->request.state != GW_H1_DONE) {
        size_t used = 0;
        struct base_str body;
        enum gw_h1_event event =
            gw_h1_message_feed(&door->request, bytes + at, size - at, &used, &body);
        base_check(event != GW_H1_BAD); // its length was said
        at += used;
    }
    if (door->request.state == GW_H1_DONE) {
        door->unwanted = door->begun = false;
        door->head_ms = 0;
    }
    return at;
}

static void read_head(struct gw_h1_door *door)
{
    if (!door->begun) {
        base_arena_reset(&door->arena);
        door->begun = true;
        door->head_ms = door->conn->worker->now_ms;
        if (gw_h1_request_init(&door->request, &door->arena) != BASE_OK) {
            door->failed = true;
            return;
        }
    }
    size_t used = 0;
    struct base_str body;
    enum gw_h1_event event = gw_h1_message_feed(&door->request, base_fifo_front(&door->in),
                                                base_fifo_size(&door->in), &used, &body);
    base_fifo_drop(&door->in, used);
    if (event == GW_H1_HEAD) {
        on_head(door);
    } else if (event == GW_H1_BAD) {
        refuse(door, door->request.too_large ? 431 : 400,
               door->request.too_large ? "request headers are over a limit"
                                       : "neither HTTP/2 nor HTTP/1.1");
    }
}

static void carry(struct gw_h1_door *door)
{
    for (;;) {
        const uint8_t *bytes = NULL;
        ssize_t size = nghttp2_session_mem_send(door->client, &bytes);
        if (size <= 0) {
            door->failed = door->failed || size < 0;
            return;
        }
        gw_conn_feed(door->conn, bytes, (size_t)size);
    }
}

void gw_h1_door_go_on(struct gw_h1_door *door)
{
    if (!door->failed && !door->conn->failed) {
        if (door->stream != 0 && base_fifo_size(&door->in) > 0) {
            (void)nghttp2_session_resume_data(door->client, door->stream);
        }
        carry(door);
    }
    if (door->stream == 0 && door->closing && !door->begun) {
        door->over = true;
    }
    if (door->ended && base_fifo_size(&door->in) == 0) {
        bool cut = door->stream != 0 && door->request.state != GW_H1_DONE && !door->answered;
        door->over = door->over || door->stream == 0;
        door->failed = door->failed || cut;
    }
    if (door->ended) { // what was sent ahead begins with nobody waiting for it
        gw_stream_peer_left(door->conn->active);
    }
    door->conn->failed = door->conn->failed || door->failed;
}

bool gw_h1_door_waits(const struct gw_h1_door *door)
{
    return door->stream == 0 && !door->closing && base_fifo_size(&door->in) > 0;
}

void gw_h1_door_turn(struct gw_h1_door *door)
{
    if (gw_h1_door_waits(door) && !door->failed) {
        if (door->unwanted) {
            base_fifo_drop(&door->in,
                           pass_over(door, base_fifo_front(&door->in), base_fifo_size(&door->in)));
        } else {
            read_head(door);
        }
    }
    gw_h1_door_go_on(door);
}

bool gw_h1_door_is_full(const struct gw_h1_door *door)
{
    return door->ended || base_fifo_size(&door->in) >= GW_H1_WAITING_BYTES;
}

void gw_h1_door_end(struct gw_h1_door *door)
{
    door->ended = true;
    gw_h1_door_go_on(door);
}

enum base_status gw_h1_door_input(struct gw_h1_door *door, const uint8_t *bytes, size_t size)
{
    if (door->unwanted && door->stream == 0 && base_fifo_size(&door->in) == 0) {
        size_t passed = pass_over(door, bytes, size); // without a copy
        bytes += passed;
        size -= passed;
    }
    return door->over || size == 0 ? BASE_OK : base_fifo_put(&door->in, bytes, size, size);
}

// ---- The answer

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_size, const uint8_t *value, size_t value_size, uint8_t flags,
                     void *user)
{
    (void)session;
    (void)flags;
    struct gw_h1_door *door = user;
    struct base_str key = {(const char *)name, name_size};
    struct base_str text = {(const char *)value, value_size};
    if (frame->hd.stream_id != door->stream) {
        return 0;
    }
    if (base_str_equal(key, BASE_STR(":status"))) {
        uint64_t status = 0;
        door->status = base_str_u64(text, &status) == BASE_OK ? (int)status : 500;
        door->answered = true;
        put_text(door, "HTTP/1.1 %d %s\r\n", door->status, wire_status_title(door->status));
        return 0;
    }
    door->has_length = door->has_length || base_str_equal(key, BASE_STR("content-length"));
    put(door, name, name_size);
    put(door, ": ", 2);
    put(door, value, value_size);
    put(door, "\r\n", 2);
    return 0;
}

// Is what is left of the request's body worth waiting for? The caller will try again.
static bool is_short(const struct gw_h1_door *door)
{
    return door->status == 429 && door->request.state == GW_H1_BODY_LENGTH &&
           door->request.left <= GW_H1_UNWANTED_BYTES_MAX;
}

// The answer is whole. A body that nobody waits for is thrown away, or end_head said that the
// connection ends. It may take as long as a head.
static void finish(struct gw_h1_door *door)
{
    if (door->chunked) {
        put_text(door, "0\r\n\r\n");
    }
    door->done = true;
    if (door->request.state != GW_H1_DONE) {
        door->unwanted = !door->closing;
        door->head_ms = door->unwanted ? door->conn->worker->now_ms : 0;
        (void)nghttp2_submit_rst_stream(door->client, NGHTTP2_FLAG_NONE, door->stream,
                                        NGHTTP2_NO_ERROR);
    }
}

static void end_head(struct gw_h1_door *door, bool last)
{
    bool bare = door->to_head || door->status == 204 || door->status == 304;
    door->closing = door->closing || (door->request.state != GW_H1_DONE && !is_short(door));
    if (!door->has_length && !bare && last) {
        put_text(door, "content-length: 0\r\n");
    } else if (!door->has_length && !bare && door->request.old) {
        door->closing = true; // the end of the connection is that of the body
    } else if (!door->has_length && !bare) {
        door->chunked = true;
        put_text(door, "transfer-encoding: chunked\r\n");
    }
    put_text(door, "%s\r\n", door->closing ? "connection: close\r\n" : "");
}

static int on_frame_recv(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    (void)session;
    struct gw_h1_door *door = user;
    bool last = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
    if (frame->hd.type == NGHTTP2_GOAWAY) {
        door->closing = true;
        door->over = door->over || door->stream == 0;
    } else if (frame->hd.stream_id != door->stream || door->stream == 0) {
        return 0;
    } else if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_RESPONSE) {
        end_head(door, last);
    }
    if (last && (frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA)) {
        finish(door);
    }
    return 0;
}

static int on_data_chunk(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *bytes,
                         size_t size, void *user)
{
    (void)session;
    (void)flags;
    struct gw_h1_door *door = user;
    if (id != door->stream || size == 0) {
        return 0;
    }
    if (door->chunked) {
        put_text(door, "%zx\r\n", size);
    }
    put(door, bytes, size);
    if (door->chunked) {
        put(door, "\r\n", 2);
    }
    return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t error, void *user)
{
    (void)session;
    struct gw_h1_door *door = user;
    if (id != door->stream) {
        return 0;
    }
    door->stream = 0;
    door->begun = door->unwanted;
    if (door->done) {
        return 0;
    }
    if (!door->answered && door->request.state == GW_H1_FAILED) {
        refuse(door, 400, "the body's chunks are none");
    } else if (!door->answered && error == NGHTTP2_PROTOCOL_ERROR) {
        refuse(door, 400, "a part of the request is malformed");
    } else if (!door->answered) {
        refuse(door, 503, "try again");
    }
    door->closing = door->over = true; // an answer that was cut ends with the connection
    return 0;
}

enum base_status gw_h1_door_answer(struct gw_h1_door *door, const uint8_t *frames, size_t size)
{
    if (nghttp2_session_mem_recv(door->client, frames, size) < 0) {
        return BASE_ERR_INVALID;
    }
    return door->failed ? BASE_ERR_NOMEM : BASE_OK;
}

// ---- Life

static enum base_status start_client(struct gw_h1_door *door)
{
    nghttp2_session_callbacks *callbacks = NULL;
    const nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_ENABLE_PUSH, 0}};
    if (nghttp2_session_callbacks_new(&callbacks) != 0) {
        return BASE_ERR_NOMEM;
    }
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame_recv);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data_chunk);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
    int rv = nghttp2_session_client_new(&door->client, callbacks, door);
    nghttp2_session_callbacks_del(callbacks);
    if (rv == 0) {
        rv = nghttp2_submit_settings(door->client, NGHTTP2_FLAG_NONE, settings, 1);
    }
    return rv == 0 ? BASE_OK : BASE_ERR_NOMEM;
}

enum base_status gw_h1_door_new(struct gw_conn *conn, struct gw_h1_door **out)
{
    struct gw_h1_door *door = calloc(1, sizeof(*door));
    if (door == NULL) {
        return BASE_ERR_NOMEM;
    }
    door->conn = conn;
    base_arena_init(&door->arena, base_alloc_heap(), 0, 0);
    enum base_status status = start_client(door);
    if (status != BASE_OK) {
        gw_h1_door_free(door);
        return status;
    }
    *out = door;
    return BASE_OK;
}

void gw_h1_door_free(struct gw_h1_door *door)
{
    if (door != NULL) {
        nghttp2_session_del(door->client);
        base_arena_done(&door->arena);
        base_fifo_done(&door->in);
        base_fifo_done(&door->out);
        free(door);
    }
}
