// Frames to the device: acknowledgements, credit, and all ways to say no.
#ifndef GW_SESSION_OUTPUT_H
#define GW_SESSION_OUTPUT_H

#include "tunnel/gw_tunnel.h"

struct gw_mark;
struct gw_session_class;

bool gw_session_send(struct gw_session *session, const uint8_t *bytes, size_t size);
void gw_session_fork(struct gw_session *session, struct gw_session_class *class,
                     const struct gw_mark *mark);
void gw_session_away(struct gw_session *session, uint32_t after_ms, uint32_t spread_ms);
void gw_session_throttle(struct gw_session *session, uint32_t not_before_ms, uint32_t spread_ms);
// Asks for the samples of the worker's step, where the device was not asked for them yet or might
// have forgotten.
void gw_session_thin(struct gw_session *session);
// ACK and CREDIT where they are due.
void gw_session_settle(struct gw_session *session);

#endif
