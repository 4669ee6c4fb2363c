// A batch in memory, from its first byte until the sink gives it back.
#ifndef GW_TUNNEL_BATCH_H
#define GW_TUNNEL_BATCH_H

#include "tunnel/gw_tunnel.h"
#include "tunnel/mark/mark_lane.h"

struct gw_tunnel_batch {
    struct gw_sink_batch sink; // first: what the sink hands back
    struct gw_tunnel *tunnel;
    struct gw_lane *lane;
    struct gw_batch_id id;
    uint32_t memory; // bytes counted
    uint32_t owners; // the lane's when it was submitted: whose credit it used
    uint8_t bytes[];
};

// Of the session's device, counted in the tunnel's memory. NULL: no memory.
struct gw_tunnel_batch *gw_tunnel_batch_new(struct gw_session *session, uint32_t payload_bytes);
void gw_tunnel_batch_free(struct gw_tunnel_batch *batch); // accepts NULL

#endif
