// Open bodies: requests whose body is written piece by piece while the answer comes in. What waits
// is one fifo per stream, at most H2_CLIENT_BODY_MAX. Also the body source of every other request.
// Runs on the thread of the event base; h2_body_read is called from inside the codec.
#include "h2_body.h"

#include "h2_internal.h"
#include "h2_socket.h"

#define FIRST_BYTES 512

static void resume(struct h2_client *client, struct h2_stream *stream)
{
    if (stream->deferred) {
        stream->deferred = false;
        (void)nghttp2_session_resume_data(client->session, stream->id);
    }
    h2_socket_flush_later(client);
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
    size_t waiting = base_fifo_size(&stream->body);
    if (size > H2_CLIENT_BODY_MAX - waiting) {
        stream->owed = true;
        client->owing = true;
        return BASE_ERR_BUSY;
    }
    BASE_TRY(base_fifo_put(&stream->body, bytes, size, FIRST_BYTES));
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
        base_fifo_done(&stream->body);
        stream->early_left = 0;
        resume(client, stream);
    }
}

void h2_body_resume_all(struct h2_client *client)
{
    for (struct h2_stream *stream = client->streams; stream != NULL; stream = stream->next) {
        if (stream->open_body && (base_fifo_size(&stream->body) > 0 || stream->finished)) {
            resume(client, stream);
        }
    }
}

void h2_body_tell(struct h2_client *client)
{
    client->owing = false;
    struct h2_stream *stream = client->streams;
    while (stream != NULL && client->phase != H2_PHASE_GONE) {
        size_t waiting = base_fifo_size(&stream->body);
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
    size_t left = base_fifo_size(&stream->body);
    bool last = !stream->open_body || stream->finished;
    if (client->gathering && left > stream->early_left) {
        left = stream->early_left;
        last = false;
    }
    size_t size = base_fifo_take(&stream->body, out, left < capacity ? left : capacity);
    stream->early_left -= size < stream->early_left ? size : stream->early_left;
    if (size == left && last) {
        *out_flags |= NGHTTP2_DATA_FLAG_EOF;
    } else if (size == 0) {
        stream->deferred = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    return (ssize_t)size;
}
