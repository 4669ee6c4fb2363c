// Batches that were interrupted within their chunks, kept a while so that the device goes on where
// it stopped. SHARED: one mutex; a session takes its own at HELLO and leaves it at close. The least
// recently left goes first when GW_PARTIALS_BYTES are exceeded.
#ifndef GW_TUNNEL_PARTIALS_H
#define GW_TUNNEL_PARTIALS_H

#include "base/status.h"

#include <stdint.h>

#define GW_PARTIALS_BYTES (UINT64_C(16) << 20)
#define GW_PARTIALS_MAX   1024u // kept at once

struct gw_tunnel_batch;
struct gw_tunnel_partials;

struct gw_partial {
    uint64_t device;
    uint32_t epoch;
    uint8_t class_id;
    uint32_t got; // bytes of it that came
    struct gw_tunnel_batch *batch;
};

BASE_NODISCARD enum base_status gw_tunnel_partials_new(struct gw_tunnel_partials **out);
void gw_tunnel_partials_free(struct gw_tunnel_partials *partials); // accepts NULL
// Takes partial->batch, in any case.
void gw_tunnel_partials_leave(struct gw_tunnel_partials *partials, const struct gw_partial *partial,
                              uint32_t bytes);
// The caller owns out->batch. False: there is none.
bool gw_tunnel_partials_take(struct gw_tunnel_partials *partials, uint64_t device, uint8_t class_id,
                             uint32_t epoch, struct gw_partial *out);

#endif
