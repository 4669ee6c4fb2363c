// Tunnel streams: exchanges whose two bodies stay open. Opened when the core asks for one
// (stream_reply.c), fed by h2_events.c, closed with their stream. Worker's thread.
#ifndef GW_HTTP_TUNNEL_STREAM_H
#define GW_HTTP_TUNNEL_STREAM_H

#include "http/stream.h"

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

#endif
