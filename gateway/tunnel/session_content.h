// What is in a batch.
#ifndef GW_SESSION_CONTENT_H
#define GW_SESSION_CONTENT_H

#include "tunnel/gw_tunnel.h"

struct gw_session_class;

// Decompresses, verifies hash and form, checks records. Not OK: *out_reject is what the device is
// to hear, its status the one returned. `counts`: if it is good it is taken, and its records count.
enum base_status gw_session_check(struct gw_session_class *class,
                                  const struct wire_tunnel_batch *batch, bool counts,
                                  struct wire_tunnel_reject *out_reject);

#endif
