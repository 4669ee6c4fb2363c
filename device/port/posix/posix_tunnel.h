// The transport of the tunnel (tunnel/tunnel.h): its streams over the connection of posix_http.h.
#ifndef POSIX_TUNNEL_H
#define POSIX_TUNNEL_H

#include "posix/posix_http.h"

struct dev_tunnel;
struct dev_tunnel_transport;
struct posix_tunnel;
// `woke`: something was handed to the tunnel, step it. The HTTP side must outlive it.
BASE_NODISCARD enum base_status posix_tunnel_new(struct posix_http *http, uint64_t device_id,
                                                 void *ctx, void (*woke)(void *ctx),
                                                 struct posix_tunnel **out_tunnel);
void posix_tunnel_free(struct posix_tunnel *tunnel); // accepts NULL
// The tunnel that events go to; before its first stream.
void posix_tunnel_attach(struct posix_tunnel *self, struct dev_tunnel *tunnel);
struct dev_tunnel_transport posix_tunnel_table(struct posix_tunnel *self);

#endif
