// What comes in front of a connection's own bytes when a trusted balancer carries it: the PROXY
// protocol's header. Read without a byte of what is behind it, which belongs to TLS or HTTP/2. The
// client it names takes the balancer's place: in the table of connections, in rates, for limits.
//
// Part of a connection; its worker's thread.
#ifndef GW_HTTP_CONN_INTRO_H
#define GW_HTTP_CONN_INTRO_H

#include "base/status.h"

struct gw_conn;
struct gw_conn_intro;

// The connection begins with a header. NOMEM.
BASE_NODISCARD enum base_status gw_conn_intro_new(struct gw_conn *conn);
void gw_conn_intro_free(struct gw_conn *conn);
// Reads on. OK: the header is complete, and conn->peer is the client. BUSY: more must come. CLOSED,
// IO; INVALID: no header, which the log says; LIMIT: the client may have no more connections now.
BASE_NODISCARD enum base_status gw_conn_intro_read(struct gw_conn *conn);

#endif
