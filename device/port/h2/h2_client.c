// HTTP/2 client connection: the public calls, the stream records, and the end of a connection.
//
// Records are pooled per connection, so a request costs no allocation of ours once the connection
// is warm, unless it has a body. `depth` counts callbacks under way; a connection freed from one of
// them only goes when the stack is unwound. Runs on the thread of the event base.
#include "h2_client.h"

#include "h2_codec.h"
#include "h2_internal.h"
#include "h2_socket.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct h2_stream *stream_take(struct h2_client *client)
{
    struct h2_stream *stream = client->pool;
    if (stream != NULL) {
        client->pool = stream->next;
        client->pooled--;
        memset(stream, 0, sizeof(*stream));
        return stream;
    }
    return calloc(1, sizeof(*stream));
}

static void stream_put(struct h2_client *client, struct h2_stream *stream)
{
    base_fifo_done(&stream->body);
    if (client->pooled >= H2_POOL_MAX) {
        free(stream);
        return;
    }
    stream->next = client->pool;
    client->pool = stream;
    client->pooled++;
}

static void stream_link(struct h2_client *client, struct h2_stream *stream)
{
    stream->next = client->streams;
    if (client->streams != NULL) {
        client->streams->prev = stream;
    }
    client->streams = stream;
    client->accepted++;
    client->bodies += stream->has_body ? 1 : 0;
}

static void stream_unlink(struct h2_client *client, struct h2_stream *stream)
{
    if (stream->prev != NULL) {
        stream->prev->next = stream->next;
    } else {
        client->streams = stream->next;
    }
    if (stream->next != NULL) {
        stream->next->prev = stream->prev;
    }
    client->accepted--;
    client->bodies -= stream->has_body ? 1 : 0;
    client->opened -= stream->sent ? 1 : 0;
}

void h2_stream_end(struct h2_client *client, struct h2_stream *stream, enum base_status status)
{
    void *user = stream->user;
    bool tell = !stream->cancelled;
    if (client->phase != H2_PHASE_GONE) {
        (void)nghttp2_session_set_stream_user_data(client->session, stream->id, NULL);
    }
    stream_unlink(client, stream);
    stream_put(client, stream);
    if (tell && client->events.end != NULL) {
        client->events.end(client->events.ctx, user, status);
    }
}

static void end_all(struct h2_client *client, enum base_status status)
{
    while (client->streams != NULL) {
        h2_stream_end(client, client->streams, status);
    }
}

void h2_client_fail(struct h2_client *client, enum base_status status)
{
    if (client->phase == H2_PHASE_GONE) {
        return;
    }
    h2_socket_close(client);
    end_all(client, status);
    if (client->events.state != NULL && !client->doomed) {
        client->events.state(client->events.ctx, client, status);
    }
}

static void memory_free(struct h2_client *client)
{
    h2_socket_close(client);
    nghttp2_session_del(client->session);
    while (client->pool != NULL) {
        struct h2_stream *next = client->pool->next;
        free(client->pool);
        client->pool = next;
    }
    free(client->offer);
    free(client);
}

void h2_client_enter(struct h2_client *client)
{
    client->depth++;
}

bool h2_client_leave(struct h2_client *client)
{
    client->depth--;
    if (client->depth == 0 && client->doomed) {
        memory_free(client);
        return false;
    }
    return true;
}

static enum base_status authority_set(struct h2_client *client, const struct h2_options *options)
{
    bool bare_v6 = memchr(options->host.data, ':', options->host.size) != NULL;
    int size =
        snprintf(client->authority, sizeof(client->authority), bare_v6 ? "[%.*s]:%u" : "%.*s:%u",
                 (int)options->host.size, options->host.data, (unsigned)options->port);
    if (size < 0 || (size_t)size >= sizeof(client->authority)) {
        return BASE_ERR_INVALID;
    }
    client->authority_bytes = (size_t)size;
    return BASE_OK;
}

static enum base_status client_setup(struct h2_client *client, const struct h2_options *options)
{
    BASE_TRY(authority_set(client, options));
    BASE_TRY(h2_codec_open(client, options));
    return h2_socket_open(client, options);
}

enum base_status h2_client_new(struct event_base *base, const struct h2_options *options,
                               const struct h2_events *events, struct h2_client **out_client)
{
    bool wrong = options->host.size == 0 || options->host.size > H2_AUTHORITY_MAX / 2 ||
                 options->window_bytes > INT32_MAX;
    struct h2_client *client = wrong ? NULL : calloc(1, sizeof(*client));
    if (client == NULL) {
        if (options->connected) {
            (void)close(options->fd);
        }
        return wrong ? BASE_ERR_INVALID : BASE_ERR_NOMEM;
    }
    client->base = base;
    client->events = *events;
    client->socket = options->connected ? options->fd : -1;
    client->small = options->small;
    enum base_status status = client_setup(client, options);
    if (status != BASE_OK) {
        memory_free(client);
        return status;
    }
    *out_client = client;
    return BASE_OK;
}

void h2_client_free(struct h2_client *client)
{
    if (client == NULL || client->doomed) {
        return;
    }
    client->doomed = true;
    client->depth++; // callbacks of the ends below may not free it a second time
    h2_socket_close(client);
    end_all(client, BASE_ERR_CLOSED);
    (void)h2_client_leave(client);
}

enum base_status h2_client_request(struct h2_client *client, const struct h2_request *request,
                                   void *user, int32_t *out_stream)
{
    if (!h2_client_usable(client)) {
        return BASE_ERR_CLOSED;
    }
    if (client->accepted >= H2_STREAMS_MAX) {
        return BASE_ERR_LIMIT;
    }
    if (request->header_count > H2_HEADERS_MAX || request->body_bytes > H2_BODY_BYTES_MAX ||
        request->weight > NGHTTP2_MAX_WEIGHT || (request->open_body && request->body_bytes > 0)) {
        return BASE_ERR_INVALID;
    }
    struct h2_stream *stream = stream_take(client);
    if (stream == NULL) {
        return BASE_ERR_NOMEM;
    }
    stream->user = user;
    stream->open_body = request->open_body;
    stream->has_body = request->open_body || request->body_bytes > 0;
    stream->early = request->early;
    stream->weight = request->weight;
    enum base_status status =
        base_fifo_put(&stream->body, request->body, request->body_bytes, request->body_bytes);
    if (status == BASE_OK) {
        status = h2_codec_submit(client, request, stream);
    }
    if (status != BASE_OK) {
        stream_put(client, stream);
        return status;
    }
    stream_link(client, stream);
    h2_socket_flush_later(client);
    *out_stream = stream->id;
    return BASE_OK;
}

struct h2_stream *h2_stream_find(struct h2_client *client, int32_t id)
{
    struct h2_stream *stream = nghttp2_session_get_stream_user_data(client->session, id);
    if (stream != NULL) {
        return stream;
    }
    // Still waiting: nghttp2 has no stream for it yet.
    for (stream = client->streams; stream != NULL; stream = stream->next) {
        if (stream->id == id) {
            return stream;
        }
    }
    return NULL;
}

void h2_client_cancel(struct h2_client *client, int32_t id)
{
    if (client->phase == H2_PHASE_GONE) {
        return;
    }
    struct h2_stream *stream = h2_stream_find(client, id);
    if (stream == NULL || stream->cancelled) {
        return;
    }
    stream->cancelled = true; // the record goes when nghttp2 has closed the stream
    (void)nghttp2_submit_rst_stream(client->session, NGHTTP2_FLAG_NONE, id, NGHTTP2_CANCEL);
    h2_socket_flush_later(client);
}

const char *h2_client_why(const struct h2_client *client)
{
    return client->why;
}

bool h2_client_unbelieved(const struct h2_client *client)
{
    return client->unbelieved;
}

bool h2_client_usable(const struct h2_client *client)
{
    return client->phase != H2_PHASE_GONE && !client->draining && !client->doomed;
}

uint32_t h2_client_open_streams(const struct h2_client *client)
{
    return client->opened;
}

uint32_t h2_client_waiting(const struct h2_client *client)
{
    return client->accepted - client->opened;
}

void h2_client_handshake(const struct h2_client *client, bool *out_resumed, bool *out_early)
{
    *out_resumed = client->resumed;
    *out_early = client->was_early;
}

void h2_client_traffic(const struct h2_client *client, uint64_t *out_read, uint64_t *out_written)
{
    *out_read = client->bytes_read;
    *out_written = client->bytes_written;
}
