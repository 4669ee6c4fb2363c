// Frames out of the byte stream.
#ifndef GW_SESSION_INPUT_H
#define GW_SESSION_INPUT_H

#include "tunnel/gw_tunnel.h"

// The peer broke the protocol: counted, logged. Returns `status`.
enum base_status gw_session_violation(struct gw_session *session, enum base_status status,
                                      const char *what);

#endif
