// Hint streams: replies that stay open and carry a short server-sent event now and then. What waits
// to be sent on one is at most GW_HINT_PENDING_MAX references to texts that many streams share, so
// a publish to 200,000 streams holds its text once. Worker's thread.
#include "http/lasting_streams.h"

#include "base/check.h"
#include "http/conn.h"
#include "http/worker.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define GW_HINT_PENDING_MAX 2    // the greeting and one hint
#define GW_HINT_TEXT_MAX    4096 // of one event

struct gw_hint_text {
    uint32_t refs;
    uint32_t size;
    char bytes[];
};

struct gw_hint_stream {
    struct gw_hint hint; // the core's part
    struct gw_stream *stream;
    struct gw_hint_text *pending[GW_HINT_PENDING_MAX];
    uint16_t sent; // of pending[0]
    uint8_t pending_count;
    bool finishing;
};

void gw_hint_text_unref(struct gw_hint_text *text)
{
    if (text != NULL && --text->refs == 0) {
        free(text);
    }
}

// The text as a shared one: the worker's last, when it is the same.
static struct gw_hint_text *text_of(struct gw_http_worker *worker, struct base_str text)
{
    struct gw_hint_text *last = worker->last_hint;
    if (last == NULL || last->size != text.size || memcmp(last->bytes, text.data, text.size) != 0) {
        struct gw_hint_text *made = malloc(sizeof(*made) + text.size);
        if (made == NULL) {
            return NULL;
        }
        made->refs = 1; // the worker's
        made->size = (uint32_t)text.size;
        memcpy(made->bytes, text.data, text.size);
        gw_hint_text_unref(last);
        worker->last_hint = made;
        last = made;
    }
    last->refs++;
    return last;
}

static bool add_text(struct gw_hint_stream *hints, struct base_str text)
{
    if (text.size == 0) {
        return true;
    }
    if (hints->pending_count == GW_HINT_PENDING_MAX || text.size > GW_HINT_TEXT_MAX) {
        return false;
    }
    struct gw_hint_text *shared = text_of(hints->stream->conn->worker, text);
    if (shared == NULL) {
        return false;
    }
    hints->pending[hints->pending_count++] = shared;
    return true;
}

enum base_status gw_hint_stream_open(struct gw_stream *stream)
{
    struct gw_conn *conn = stream->conn;
    const struct gw_exchange *exchange = &stream->work->exchange;
    struct gw_hint_stream *hints = calloc(1, sizeof(*hints));
    if (hints == NULL) {
        return BASE_ERR_NOMEM;
    }
    hints->stream = stream;
    struct base_str greeting = {(const char *)exchange->reply.body, exchange->reply.body_bytes};
    if (!add_text(hints, greeting)) {
        free(hints);
        return BASE_ERR_NOMEM;
    }
    hints->finishing = conn->draining;
    stream->hints = hints;
    gw_stream_stays(stream);
    gw_worker_subscribe(conn->worker->svc, exchange, &hints->hint);
    return BASE_OK;
}

void gw_hint_stream_close(struct gw_stream *stream)
{
    struct gw_hint_stream *hints = stream->hints;
    if (hints == NULL) {
        return;
    }
    gw_worker_unsubscribe(stream->conn->worker->svc, &hints->hint);
    for (uint32_t i = 0; i < hints->pending_count; i++) {
        gw_hint_text_unref(hints->pending[i]);
    }
    free(hints);
    stream->hints = NULL;
}

static void resume(struct gw_stream *stream)
{
    // INVALID_ARGUMENT: it is not deferred, so it will ask by itself.
    (void)nghttp2_session_resume_data(stream->conn->session, stream->id);
    gw_conn_mark(stream->conn);
}

void gw_hint_stream_finish(struct gw_stream *stream)
{
    stream->hints->finishing = true;
    resume(stream);
}

bool gw_hint_stream_write(void *ctx, struct gw_hint *hint, struct base_str text)
{
    (void)ctx;
    struct gw_hint_stream *hints =
        (struct gw_hint_stream *)(void *)((char *)hint - offsetof(struct gw_hint_stream, hint));
    if (!add_text(hints, text)) {
        return false;
    }
    resume(hints->stream);
    return true;
}

void gw_hint_stream_end(void *ctx, struct gw_hint *hint)
{
    (void)ctx;
    struct gw_hint_stream *hints =
        (struct gw_hint_stream *)(void *)((char *)hint - offsetof(struct gw_hint_stream, hint));
    gw_hint_stream_finish(hints->stream);
}

ssize_t gw_hint_stream_read(struct gw_stream *stream, struct gw_body_room *room)
{
    struct gw_hint_stream *hints = stream->hints;
    size_t filled = 0;
    while (hints->pending_count > 0 && filled < room->size) {
        struct gw_hint_text *text = hints->pending[0];
        size_t left = text->size - hints->sent;
        size_t size = left < room->size - filled ? left : room->size - filled;
        memcpy(room->out + filled, text->bytes + hints->sent, size);
        filled += size;
        hints->sent = (uint16_t)(hints->sent + size);
        if (hints->sent == text->size) {
            gw_hint_text_unref(text);
            hints->pending_count--;
            memmove(hints->pending, hints->pending + 1,
                    hints->pending_count * sizeof(hints->pending[0]));
            hints->sent = 0;
        }
    }
    if (hints->pending_count == 0 && hints->finishing) {
        room->ended = true;
    } else if (filled == 0) {
        return NGHTTP2_ERR_DEFERRED;
    }
    return (ssize_t)filled;
}
