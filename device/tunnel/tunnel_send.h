// Sending: which class is next, and its next frame.
#ifndef DEV_TUNNEL_SEND_H
#define DEV_TUNNEL_SEND_H

#include "tunnel/tunnel_class.h"

void tunnel_send_due(struct dev_tunnel *tunnel, uint64_t now_us);
bool tunnel_wants_stream(const struct dev_tunnel *tunnel, const struct tunnel_class *class);
bool tunnel_can_send(const struct dev_tunnel *tunnel, const struct tunnel_class *class,
                     uint64_t now_us);

#endif
