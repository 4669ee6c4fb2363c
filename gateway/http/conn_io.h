// Bytes in and out of a connection's socket, clear or TLS, without blocking.
#ifndef GW_HTTP_CONN_IO_H
#define GW_HTTP_CONN_IO_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

struct gw_conn;

// BASE_OK: some bytes (*out_size > 0). BUSY: none now. CLOSED: the peer has ended. IO: failed.
BASE_NODISCARD enum base_status gw_conn_read(struct gw_conn *conn, uint8_t *out, size_t room,
                                             size_t *out_size);
// The same for writing: OK with *out_size <= size written; the rest must be offered again as it
// was.
BASE_NODISCARD enum base_status gw_conn_write(struct gw_conn *conn, const uint8_t *bytes,
                                              size_t size, size_t *out_size);
// One step of the TLS handshake. OK: HTTP/2 may begin, the protocol is h2. Either the handshake is
// complete, or conn->early says that it is not and `out` has the first early data (*out_size > 0);
// gw_conn_read then completes it behind the last of that. BUSY: waiting for the peer. IO, DENIED.
BASE_NODISCARD enum base_status gw_conn_handshake(struct gw_conn *conn, uint8_t *out, size_t room,
                                                  size_t *out_size);

// Was HTTP/2 agreed on in its handshake?
bool gw_conn_speaks_h2(const struct gw_conn *conn);

#endif
