// Rides of devices on proxied requests (docs/PROTOCOL.md, "Push, then pull"), for the reverse
// proxy. Worker's thread.
#ifndef GW_HTTP_PROXY_RIDE_H
#define GW_HTTP_PROXY_RIDE_H

#include "base/str.h"

struct gw_stream_work;

// What the gateway adds to the upstream's reply; empty: nothing. In the work's arena, or static.
struct gw_proxy_said {
    struct base_str offer; // walle-offer
    struct base_str ride;  // walle-ride
};

// The request sets out for the upstream: the report it brings goes to the core.
void gw_proxy_ride_start(struct gw_stream_work *work);
// The stream is gone. True: the core still has the report, and the work goes with its end.
bool gw_proxy_ride_abandon(struct gw_stream_work *work);
// The reply begins. Once.
struct gw_proxy_said gw_proxy_ride_reply(struct gw_stream_work *work);
// The same, on an answer of the gateway's own, which the upstream has failed: a ride does not
// depend on that.
void gw_proxy_ride_problem(struct gw_stream_work *work);

#endif
