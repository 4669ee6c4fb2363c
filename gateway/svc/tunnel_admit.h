// Streams of the tunnel at the core: who may open one, and which end. Worker's thread.
#ifndef GW_TUNNEL_ADMIT_H
#define GW_TUNNEL_ADMIT_H

struct gw_exchange;
struct gw_worker;

void gw_tunnel_handle(struct gw_worker *worker, struct gw_exchange *exchange);
// Devices were revoked; walks a slice of the tunnel streams.
void gw_tunnels_revoked(struct gw_worker *worker);
void gw_tunnels_walk(struct gw_worker *worker);

#endif
