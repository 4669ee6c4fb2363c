// Streams that stay open: hint streams, tunnel streams, and those whose exchange the core has while
// both of their bodies go on (svc/two_way.h). Opened when the core asks for one (stream_reply.c),
// fed by h2_events.c and stream_body.c, closed with their stream. Worker's thread.
#ifndef GW_HTTP_LASTING_STREAMS_H
#define GW_HTTP_LASTING_STREAMS_H

#include "http/stream.h"
#include "svc/two_way.h"

// hint_stream.c.
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

// tunnel_stream.c.
BASE_NODISCARD enum base_status gw_tunnel_stream_open(struct gw_stream *stream);
void gw_tunnel_stream_close(struct gw_stream *stream);
// Ends the stream after what is waiting.
void gw_tunnel_stream_finish(struct gw_stream *stream);
void gw_tunnel_stream_body(struct gw_stream *stream, const uint8_t *bytes, size_t size);
void gw_tunnel_stream_request_done(struct gw_stream *stream);
// The handshake is complete: what early data brought may be taken.
void gw_tunnel_stream_release(struct gw_stream *stream);
// Body source of a tunnel stream.
ssize_t gw_tunnel_stream_read(struct gw_stream *stream, struct gw_body_room *room);
// gw_tunnel_end_fn of every worker.
void gw_tunnel_stream_revoked(void *ctx, struct gw_tunnel_watch *watch);

// stream_open.c.
extern const struct gw_open_port gw_open_stream_port;
// A piece of the request's body, or its end.
void gw_open_stream_body(struct gw_stream *stream, const uint8_t *bytes, size_t size);
void gw_open_stream_request_done(struct gw_stream *stream);
// Body source of such a stream: what the core has; trailers follow when the exchange is finished.
ssize_t gw_open_stream_read(struct gw_stream *stream, struct gw_body_room *room);
// The gateway is about to end.
void gw_open_stream_drain(struct gw_stream *stream);
// The core finished the exchange: what is left of the answer are its trailers.
void gw_open_stream_finish(struct gw_stream *stream);
// Does its peer let it wait for too long?
bool gw_open_stream_overdue(const struct gw_stream *stream, uint64_t age_ms);

// Looked at about every second while `waiting_bytes` of the reply wait for the peer: true when it
// took too little of them since a mark, by limits.reply_rate_bytes over timeouts.write_ms.
bool gw_stream_unread_overdue(const struct gw_stream *stream, uint64_t waiting_bytes);

#endif
