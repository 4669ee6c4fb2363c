// Open bodies: requests whose body is written piece by piece while the answer comes in. What waits
// is one buffer per stream, there only while something waits, at most H2_CLIENT_BODY_MAX. Also the
// body source of every other request. Runs on the thread of the event base; h2_body_read is called
// from inside the codec.
#include "h2_internal.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_BYTES 512

static void drop(struct h2_stream *stream)
{
    free(stream->body);
    stream->body = NULL;
    stream->body_bytes = stream->body_sent = stream->body_capacity = stream->early_left = 0;
}

static void resume(struct h2_client *client, struct h2_stream *stream)
{
    if (stream->deferred) {
        stream->deferred = false;
        (void)nghttp2_session_resume_data(client->session, stream->id);
    }
    h2_socket_flush_later(client);
}

static bool make_room(struct h2_stream *stream, size_t size)
{
    size_t waiting = stream->body_bytes - stream->body_sent;
    if (size <= stream->body_capacity - stream->body_bytes) {
        return true;
    }
    size_t capacity = stream->body_capacity > 0 ? stream->body_capacity : FIRST_BYTES;
    while (capacity < waiting + size) {
        capacity *= 2;
    }
    uint8_t *grown = malloc(capacity);
    if (grown == NULL) {
        return false;
    }
    if (waiting > 0) {
        memcpy(grown, stream->body + stream->body_sent, waiting);
    }
    free(stream->body);
    stream->body = grown;
    stream->body_bytes = waiting;
    stream->body_sent = 0;
    stream->body_capacity = capacity;
    return true;
}

enum base_status h2_client_write(struct h2_client *client, int32_t id, const uint8_t *bytes,
                                 size_t size, bool early)
{
    struct h2_stream *stream = client->phase != H2_PHASE_GONE ? h2_stream_find(client, id) : NULL;
    if (stream == NULL || !stream->open_body || stream->finished || stream->cancelled) {
        return BASE_ERR_CLOSED;
    }
    if (size > H2_CLIENT_BODY_MAX) {
        return BASE_ERR_TOO_LARGE;
    }
    size_t waiting = stream->body_bytes - stream->body_sent;
    if (size > H2_CLIENT_BODY_MAX - waiting) {
        stream->owed = true;
        client->owing = true;
        return BASE_ERR_BUSY;
    }
    if (!make_room(stream, size)) {
        return BASE_ERR_NOMEM;
    }
    if (size > 0) {
        memcpy(stream->body + stream->body_bytes, bytes, size);
    }
    stream->body_bytes += size;
    if (early && stream->early_left == waiting) {
        stream->early_left += size;
    }
    resume(client, stream);
    return BASE_OK;
}

void h2_client_finish(struct h2_client *client, int32_t id)
{
    struct h2_stream *stream = client->phase != H2_PHASE_GONE ? h2_stream_find(client, id) : NULL;
    if (stream != NULL && stream->open_body && !stream->finished) {
        stream->finished = true;
        resume(client, stream);
    }
}

void h2_body_stop(struct h2_client *client, struct h2_stream *stream)
{
    if (stream->open_body && !stream->finished) {
        stream->finished = true;
        drop(stream);
        resume(client, stream);
    }
}

void h2_body_resume_all(struct h2_client *client)
{
    for (struct h2_stream *stream = client->streams; stream != NULL; stream = stream->next) {
        if (stream->open_body && (stream->body_bytes > stream->body_sent || stream->finished)) {
            resume(client, stream);
        }
    }
}

void h2_body_tell(struct h2_client *client)
{
    client->owing = false;
    struct h2_stream *stream = client->streams;
    while (stream != NULL && client->phase != H2_PHASE_GONE) {
        size_t waiting = stream->body_bytes - stream->body_sent;
        if (!stream->owed) {
            stream = stream->next;
            continue;
        }
        if (waiting > H2_CLIENT_BODY_MAX / 2 || stream->cancelled) {
            client->owing = client->owing || !stream->cancelled;
            stream = stream->next;
            continue;
        }
        stream->owed = false;
        if (client->events.writable != NULL) {
            client->events.writable(client->events.ctx, stream->user);
        }
        stream = client->streams; // the call may have ended any of them
    }
}

ssize_t h2_body_read(nghttp2_session *session, int32_t id, uint8_t *out, size_t capacity,
                     uint32_t *out_flags, nghttp2_data_source *source, void *user)
{
    (void)session;
    (void)id;
    struct h2_client *client = user;
    struct h2_stream *stream = source->ptr;
    if (client->phase == H2_PHASE_GONE) {
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    }
    size_t left = stream->body_bytes - stream->body_sent;
    bool last = !stream->open_body || stream->finished;
    if (client->gathering && left > stream->early_left) {
        left = stream->early_left;
        last = false;
    }
    size_t size = left < capacity ? left : capacity;
    if (size > 0) {
        memcpy(out, stream->body + stream->body_sent, size);
    }
    stream->body_sent += size;
    stream->early_left -= size < stream->early_left ? size : stream->early_left;
    if (size == left && last) {
        *out_flags |= NGHTTP2_DATA_FLAG_EOF;
    } else if (size == 0) {
        stream->deferred = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    if (stream->open_body && stream->body_sent == stream->body_bytes) {
        drop(stream);
    }
    return (ssize_t)size;
}
