// Reading back what is queued, and mending what cannot be read.
#ifndef DEV_TUNNEL_BOOT_H
#define DEV_TUNNEL_BOOT_H

#include "tunnel/tunnel_class.h"

BASE_NODISCARD enum base_status tunnel_boot_class(struct dev_tunnel *tunnel,
                                                  struct tunnel_class *class, uint64_t now_us);
BASE_NODISCARD enum base_status tunnel_boot_quarantine(struct dev_tunnel *tunnel, uint64_t now_us);
// Entry at send_next cannot be read: it becomes LOSS(DAMAGED).
BASE_NODISCARD enum base_status tunnel_repair(struct dev_tunnel *tunnel, struct tunnel_class *class,
                                              uint64_t now_us);

#endif
