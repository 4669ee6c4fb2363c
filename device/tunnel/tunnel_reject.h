// What the gateway would not take.
#ifndef DEV_TUNNEL_REJECT_H
#define DEV_TUNNEL_REJECT_H

#include "tunnel/tunnel_class.h"

#define TUNNEL_QUARANTINE 'Q' // first byte of a key, beside the classes'

// INVALID: the gateway cannot mean that.
BASE_NODISCARD enum base_status tunnel_on_reject(struct dev_tunnel *tunnel,
                                                 struct tunnel_class *class, uint64_t now_us,
                                                 const struct wire_tunnel_reject *reject);
// Sends again from this slot on.
void tunnel_go_back(struct dev_tunnel *tunnel, struct tunnel_class *class, uint64_t slot);
bool tunnel_in_flight(const struct dev_tunnel *tunnel, const struct tunnel_class *class,
                      uint64_t slot, uint32_t *out_index);

#endif
