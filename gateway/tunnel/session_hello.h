// HELLO and WELCOME, and leaving the lanes.
#ifndef GW_SESSION_HELLO_H
#define GW_SESSION_HELLO_H

#include "tunnel/gw_tunnel.h"

enum base_status gw_session_on_hello(struct gw_session *session, const uint8_t *payload,
                                     size_t size);
// Welcomes the session if nothing of its lanes is on its way to disk.
void gw_session_try_welcome(struct gw_session *session);
// Leaves the lanes, and what of a batch came on the shelf.
void gw_session_detach(struct gw_session *session);

#endif
