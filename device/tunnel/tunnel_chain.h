// Epochs and the chain: what is under way, what the gateway has, and whether it is ours.
#ifndef DEV_TUNNEL_CHAIN_H
#define DEV_TUNNEL_CHAIN_H

#include "tunnel/tunnel_class.h"

struct tunnel_flight {
    uint64_t hash; // of the chain behind it
    uint64_t count;
    uint32_t numbers;
    uint32_t entry_bytes;
    bool is_loss;
    bool with_dict;
    uint8_t reason;
};

void tunnel_restart_sending(struct tunnel_class *class);
struct tunnel_flight *tunnel_flight_at(struct dev_tunnel *tunnel, struct tunnel_class *class,
                                       uint32_t index);
void tunnel_flight_push(struct dev_tunnel *tunnel, struct tunnel_class *class,
                        const struct tunnel_flight *flight);
// Deletes what was acknowledged, as far as the store takes it.
void tunnel_settle(struct dev_tunnel *tunnel, struct tunnel_class *class, uint64_t now_us);
// Everything not acknowledged gets a new epoch.
BASE_NODISCARD enum base_status tunnel_new_epoch(struct dev_tunnel *tunnel,
                                                 struct tunnel_class *class, uint64_t now_us);
enum tunnel_judgement { TUNNEL_SAME, TUNNEL_FORKED, TUNNEL_UNKNOWN };
// Does what WELCOME says fit our chain? Then what is durable is settled. UNKNOWN: the store did
// not answer.
enum tunnel_judgement tunnel_judge(struct dev_tunnel *tunnel, struct tunnel_class *class,
                                   uint64_t now_us, uint64_t high_water, uint64_t hash);

#endif
