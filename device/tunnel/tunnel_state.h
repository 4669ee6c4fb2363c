// What the store keeps of a class besides its entries, DEV_SPACE_STATE "tunnel/CLASS". What can be
// told from the entries is not in it, so closing a batch is one put.
#ifndef DEV_TUNNEL_STATE_H
#define DEV_TUNNEL_STATE_H

#include "tunnel/tunnel.h"

#define TUNNEL_LOST WIRE_TUNNEL_LOSS_END

struct dev_tunnel;
struct tunnel_class;

struct tunnel_state {
    uint32_t epoch;
    uint64_t base_slot;
    uint64_t base_seq;
    uint64_t tail;
    uint64_t tail_seq;
    uint64_t tail_hash;         // hash(tail - 1)
    uint64_t bound;             // at least maybe_sent
    uint64_t durable;           // records
    uint64_t lost[TUNNEL_LOST]; // whose LOSS was acknowledged
};

BASE_NODISCARD enum base_status tunnel_put_state(struct dev_tunnel *tunnel,
                                                 struct tunnel_class *class, uint64_t now_us,
                                                 const struct tunnel_state *state, bool high);
// NOT_FOUND, CORRUPT, the port's.
BASE_NODISCARD enum base_status
tunnel_get_state(struct dev_tunnel *tunnel, struct tunnel_class *class, struct tunnel_state *out);

#endif
