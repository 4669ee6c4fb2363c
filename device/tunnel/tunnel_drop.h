// What is given up: losses counted, placed in the queue, and batches turned into losses.
#ifndef DEV_TUNNEL_DROP_H
#define DEV_TUNNEL_DROP_H

#include "tunnel/tunnel_class.h"

#define TUNNEL_ABSORB_MAX 64 // entries dropped in one commit

void tunnel_count_loss(struct tunnel_class *class, uint8_t reason, uint64_t count);
void tunnel_place_pending(struct dev_tunnel *tunnel, struct tunnel_class *class, uint64_t now_us);
// Turns the oldest batches nobody has seen into a LOSS until `bytes` are free; how many are.
uint64_t tunnel_drop_oldest(struct dev_tunnel *tunnel, struct tunnel_class *class, uint64_t now_us,
                            uint64_t bytes, uint8_t reason);
// Batches of class 1 from send_next on that are too old. True: there were some.
bool tunnel_drop_expired(struct dev_tunnel *tunnel, struct tunnel_class *class, uint64_t now_us);
bool tunnel_is_expired(const struct dev_tunnel *tunnel, const struct tunnel_class *class,
                       uint64_t slot, const struct tunnel_entry *entry, uint64_t now_us);

#endif
