// Hint streams: replies that stay open and carry a server-sent event for each hint. Opened when the
// core asks for one (stream_reply.c), closed with their stream. Worker's thread.
#ifndef GW_HTTP_HINT_STREAM_H
#define GW_HTTP_HINT_STREAM_H

#include "http/stream.h"

BASE_NODISCARD enum base_status gw_hint_stream_open(struct gw_stream *stream);
void gw_hint_stream_close(struct gw_stream *stream);
// Ends the stream after what is pending.
void gw_hint_stream_finish(struct gw_stream *stream);
// Body source of a hint stream.
ssize_t gw_hint_stream_read(struct gw_stream *stream, struct gw_body_room *room);
// gw_hint_fn of every worker.
bool gw_hint_stream_write(void *ctx, struct gw_hint *hint, struct base_str text);
// gw_hint_end_fn of every worker.
void gw_hint_stream_end(void *ctx, struct gw_hint *hint);
void gw_hint_text_unref(struct gw_hint_text *text); // accepts NULL

#endif
