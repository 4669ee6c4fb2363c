// The HTTP/2 client's codec: nghttp2 set up for a client, requests in, response heads and bodies
// out.
//
// nghttp2 calls back from inside mem_recv and mem_send (h2_socket.c). A user callback may free the
// connection; the records behind the streams are then gone while nghttp2 is still at work, so each
// callback here first asks whether the connection still stands. Runs on the thread of the event
// base.
#include "h2_codec.h"

#include "h2_body.h"
#include "h2_internal.h"

#include "base/os/block_pool.h"

#include <stdlib.h>
#include <string.h>

#define FRAME_HEADERS_MAX (H2_HEADERS_MAX + 5) // pseudo headers and content-length
#define SMALL_TABLE_BYTES 512

static bool is_gone(const struct h2_client *client)
{
    return client->phase == H2_PHASE_GONE;
}

static struct h2_stream *stream_of(const struct h2_client *client, int32_t id)
{
    return nghttp2_session_get_stream_user_data(client->session, id);
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    (void)session;
    struct h2_client *client = user;
    if (is_gone(client)) {
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    }
    struct h2_stream *stream = stream_of(client, frame->hd.stream_id);
    if (stream != NULL && !stream->head_done) {
        stream->status = 0;
        stream->content_bytes = UINT64_MAX;
        stream->range_from = 0;
        stream->encoding = H2_ENCODING_IDENTITY;
        stream->retry_after_s = 0;
        client->offer_bytes = 0;
        client->ride_bytes = 0;
        client->reason_bytes = 0;
    }
    return 0;
}

// "bytes 100-199/1000" gives 100; anything else 0, which the caller treats as "from the start".
static uint64_t range_start(struct base_str value)
{
    const struct base_str unit = BASE_STR("bytes ");
    if (!base_str_starts(value, unit)) {
        return 0;
    }
    struct base_str number = {value.data + unit.size, 0};
    while (number.size < value.size - unit.size && number.data[number.size] != '-') {
        number.size++;
    }
    uint64_t from = 0;
    return base_str_u64(number, &from) == BASE_OK ? from : 0;
}

static void offer_keep(struct h2_client *client, struct base_str value)
{
    if (value.size > H2_OFFER_BYTES_MAX) {
        return; // not an offer of ours
    }
    if (client->offer == NULL) {
        client->offer = malloc(H2_OFFER_BYTES_MAX);
    }
    if (client->offer != NULL) {
        memcpy(client->offer, value.data, value.size);
        client->offer_bytes = value.size;
    }
}

static enum h2_encoding encoding_of(struct base_str value)
{
    if (value.size == 0 || base_str_equal(value, BASE_STR("identity"))) {
        return H2_ENCODING_IDENTITY;
    }
    if (base_str_equal(value, BASE_STR("dcz"))) {
        return H2_ENCODING_DCZ;
    }
    return base_str_equal(value, BASE_STR("wdelta")) ? H2_ENCODING_WDELTA : H2_ENCODING_OTHER;
}

static void header_take(struct h2_client *client, struct h2_stream *stream, struct base_str name,
                        struct base_str value)
{
    uint64_t number = 0;
    switch (name.size) {
    case 7:
        if (memcmp(name.data, ":status", 7) == 0 && base_str_u64(value, &number) == BASE_OK) {
            stream->status = (int)number; // nghttp2 accepts three digits only
        }
        break;
    case 10:
        if (memcmp(name.data, "walle-ride", 10) == 0 && value.size <= H2_RIDE_BYTES_MAX) {
            memcpy(client->ride, value.data, value.size);
            client->ride_bytes = value.size;
        }
        break;
    case 11:
        if (memcmp(name.data, "retry-after", 11) == 0 && base_str_u64(value, &number) == BASE_OK) {
            stream->retry_after_s = number > UINT32_MAX ? UINT32_MAX : (uint32_t)number;
        } else if (memcmp(name.data, "walle-offer", 11) == 0) {
            offer_keep(client, value);
        }
        break;
    case 12:
        if (memcmp(name.data, "walle-reason", 12) == 0 && value.size <= H2_REASON_MAX) {
            memcpy(client->reason, value.data, value.size);
            client->reason_bytes = value.size;
        }
        break;
    case 13:
        if (memcmp(name.data, "content-range", 13) == 0) {
            stream->range_from = range_start(value);
        }
        break;
    case 14:
        if (memcmp(name.data, "content-length", 14) == 0 &&
            base_str_u64(value, &number) == BASE_OK) {
            stream->content_bytes = number;
        }
        break;
    case 16:
        if (memcmp(name.data, "content-encoding", 16) == 0) {
            stream->encoding = (uint8_t)encoding_of(value);
        }
        break;
    default:
        break;
    }
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_size, const uint8_t *value, size_t value_size, uint8_t flags,
                     void *user)
{
    (void)flags;
    struct h2_client *client = user;
    if (is_gone(client)) {
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    }
    struct h2_stream *stream = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    if (stream != NULL && !stream->head_done) {
        header_take(client, stream, (struct base_str){(const char *)name, name_size},
                    (struct base_str){(const char *)value, value_size});
    }
    return 0;
}

static void head_done(struct h2_client *client, struct h2_stream *stream)
{
    stream->head_done = true;
    if (stream->cancelled) {
        return;
    }
    struct h2_head head = {
        .status = stream->status,
        .encoding = (enum h2_encoding)stream->encoding,
        .content_bytes = stream->content_bytes,
        .range_from = stream->range_from,
        .retry_after_s = stream->retry_after_s,
        .offer = {client->offer_bytes > 0 ? client->offer : NULL, client->offer_bytes},
        .ride = {client->ride, client->ride_bytes},
        .reason = {client->reason, client->reason_bytes},
    };
    if (client->events.head != NULL) {
        client->events.head(client->events.ctx, stream->user, &head);
    }
    if (client->offer != NULL && !client->doomed) {
        free(client->offer);
        client->offer = NULL;
        client->offer_bytes = 0;
    }
}

static int on_frame_recv(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct h2_client *client = user;
    if (is_gone(client)) {
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    }
    uint8_t type = frame->hd.type;
    if (type == NGHTTP2_GOAWAY) {
        client->draining = true;
        return 0;
    }
    if (type != NGHTTP2_HEADERS && type != NGHTTP2_DATA) {
        return 0;
    }
    struct h2_stream *stream = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    if (stream == NULL) {
        return 0;
    }
    if ((frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0) {
        stream->complete = true;
    }
    bool complete = stream->complete;
    if (type == NGHTTP2_HEADERS && !stream->head_done && stream->status >= 200) {
        head_done(client, stream);
    }
    if (complete && !is_gone(client) && stream_of(client, frame->hd.stream_id) == stream) {
        h2_body_stop(client, stream);
    }
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *bytes,
                   size_t size, void *user)
{
    (void)session;
    (void)flags;
    struct h2_client *client = user;
    if (is_gone(client)) {
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    }
    struct h2_stream *stream = stream_of(client, id);
    if (stream != NULL && !stream->cancelled && client->events.body != NULL) {
        client->events.body(client->events.ctx, stream->user, bytes, size);
    }
    return 0;
}

static int on_frame_send(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct h2_client *client = user;
    if (frame->hd.type != NGHTTP2_HEADERS || is_gone(client)) {
        return 0;
    }
    struct h2_stream *stream = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    if (stream != NULL && !stream->sent) {
        stream->sent = true;
        client->opened++;
        if (stream->weight != 0) { // here alone: the peer has the priority header
            nghttp2_priority_spec spec;
            nghttp2_priority_spec_init(&spec, 0, stream->weight, 0);
            (void)nghttp2_session_change_stream_priority(session, stream->id, &spec);
        }
    }
    return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t error, void *user)
{
    struct h2_client *client = user;
    if (is_gone(client)) {
        return 0;
    }
    struct h2_stream *stream = nghttp2_session_get_stream_user_data(session, id);
    if (stream == NULL) {
        return 0;
    }
    if (stream->complete && stream->head_done && error == NGHTTP2_NO_ERROR) {
        h2_stream_end(client, stream, BASE_OK);
    } else if (error == NGHTTP2_REFUSED_STREAM || client->draining) {
        h2_stream_end(client, stream, BASE_ERR_CLOSED); // never handled: safe to send again
    } else {
        h2_stream_end(client, stream, BASE_ERR_IO);
    }
    return 0;
}

static nghttp2_session_callbacks *callbacks_new(void)
{
    nghttp2_session_callbacks *callbacks = NULL;
    if (nghttp2_session_callbacks_new(&callbacks) != 0) {
        return NULL;
    }
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame_recv);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_frame_send);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
    return callbacks;
}

static enum base_status submit_settings(struct h2_client *client, uint32_t window_bytes)
{
    uint32_t window = window_bytes > 0 ? window_bytes : H2_WINDOW_DEFAULT;
    nghttp2_settings_entry entries[3] = {
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, window},
        {NGHTTP2_SETTINGS_HEADER_TABLE_SIZE, SMALL_TABLE_BYTES},
    };
    size_t count = client->small ? 3 : 2;
    if (nghttp2_submit_settings(client->session, NGHTTP2_FLAG_NONE, entries, count) != 0) {
        return BASE_ERR_NOMEM;
    }
    uint32_t whole = client->small ? window : H2_CONNECTION_WINDOW;
    if (whole > H2_WINDOW_DEFAULT &&
        nghttp2_session_set_local_window_size(client->session, NGHTTP2_FLAG_NONE, 0,
                                              (int32_t)whole) != 0) {
        return BASE_ERR_NOMEM;
    }
    return BASE_OK;
}

// ---- Memory of a session whose blocks a pool keeps. nghttp2 copies the table, so it may be on the
// stack. What it asks for zeroed, or larger, it asks for once: that is the heap's.

static void *block_malloc(size_t size, void *pool)
{
    return base_block_alloc(pool, size);
}

static void block_free(void *block, void *pool)
{
    if (block != NULL) {
        base_block_free(pool, block);
    }
}

static void *block_calloc(size_t count, size_t size, void *pool)
{
    (void)pool;
    return calloc(count, size);
}

static void *block_realloc(void *block, size_t size, void *pool)
{
    (void)pool;
    return realloc(block, size);
}

static int session_new(struct h2_client *client, const nghttp2_session_callbacks *callbacks,
                       const nghttp2_option *option, struct base_block_pool *blocks)
{
    nghttp2_mem memory = {.mem_user_data = blocks,
                          .malloc = block_malloc,
                          .free = block_free,
                          .calloc = block_calloc,
                          .realloc = block_realloc};
    return nghttp2_session_client_new3(&client->session, callbacks, client, option,
                                       blocks != NULL ? &memory : NULL);
}

enum base_status h2_codec_open(struct h2_client *client, const struct h2_options *options)
{
    nghttp2_session_callbacks *callbacks = callbacks_new();
    nghttp2_option *option = NULL;
    enum base_status status = BASE_ERR_NOMEM;
    if (callbacks != NULL && nghttp2_option_new(&option) == 0) {
        if (client->small) {
            nghttp2_option_set_max_deflate_dynamic_table_size(option, SMALL_TABLE_BYTES);
        }
        if (session_new(client, callbacks, option, options->blocks) == 0) {
            status = submit_settings(client, options->window_bytes);
        }
    }
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    return status;
}

static nghttp2_nv field(struct base_str name, struct base_str value, uint8_t flags)
{
    // nghttp2 copies both unless told otherwise, and does not write through these pointers.
    return (nghttp2_nv){
        .name = (uint8_t *)(uintptr_t)name.data,
        .value = (uint8_t *)(uintptr_t)value.data,
        .namelen = name.size,
        .valuelen = value.size,
        .flags = flags,
    };
}

static struct base_str decimal(uint64_t value, char out[20])
{
    size_t at = 20;
    do {
        out[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    return (struct base_str){out + at, 20 - at};
}

enum base_status h2_codec_submit(struct h2_client *client, const struct h2_request *request,
                                 struct h2_stream *stream)
{
    static const uint8_t fixed = NGHTTP2_NV_FLAG_NO_COPY_NAME;
    nghttp2_nv fields[FRAME_HEADERS_MAX];
    char digits[20];
    struct base_str authority = {client->authority, client->authority_bytes};
    struct base_str scheme = client->tls != NULL ? BASE_STR("https") : BASE_STR("http");
    size_t count = 0;
    fields[count++] = field(BASE_STR(":method"), request->method, fixed);
    fields[count++] =
        field(BASE_STR(":scheme"), scheme, (uint8_t)(fixed | NGHTTP2_NV_FLAG_NO_COPY_VALUE));
    fields[count++] =
        field(BASE_STR(":authority"), authority, (uint8_t)(fixed | NGHTTP2_NV_FLAG_NO_COPY_VALUE));
    fields[count++] = field(BASE_STR(":path"), request->path, fixed);
    h2_fields_request(&client->fields);
    for (uint32_t i = 0; i < request->header_count; i++) {
        struct base_str name = request->headers[i].name;
        struct base_str value = request->headers[i].value;
        bool indexed = h2_fields_index(&client->fields, name, value);
        fields[count++] = field(name, value, indexed ? 0 : NGHTTP2_NV_FLAG_NO_INDEX);
    }
    nghttp2_data_provider provider = {.source = {.ptr = stream}, .read_callback = h2_body_read};
    size_t body_bytes = base_fifo_size(&stream->body);
    bool body = body_bytes > 0;
    if (body) { // the size of an open one is not known
        fields[count++] = field(BASE_STR("content-length"), decimal(body_bytes, digits), fixed);
    }
    int32_t id = nghttp2_submit_request(client->session, NULL, fields, count,
                                        body || stream->open_body ? &provider : NULL, stream);
    if (id < 0) {
        client->draining = client->draining || id == NGHTTP2_ERR_STREAM_ID_NOT_AVAILABLE;
        return id == NGHTTP2_ERR_NOMEM ? BASE_ERR_NOMEM : BASE_ERR_CLOSED;
    }
    stream->id = id;
    return BASE_OK;
}
