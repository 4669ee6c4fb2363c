// Streams: opening with HELLO, watching for silence, closing.
#ifndef DEV_TUNNEL_LINK_H
#define DEV_TUNNEL_LINK_H

#include "tunnel/tunnel_class.h"

enum tunnel_stream_state { TUNNEL_CLOSED, TUNNEL_OPENING, TUNNEL_UP, TUNNEL_STREAM_STATES };

struct tunnel_stream {
    enum tunnel_stream_state state;
    uint8_t classes; // mask
    bool said_hello;
    bool draining;
    bool fruitful; // something became durable
    uint64_t drain_us;
    uint64_t heard_us;
    uint64_t pinged_us;
    uint64_t moved_us; // something was acknowledged, or began to wait for it
    uint32_t input_size;
    uint8_t input[WIRE_TUNNEL_HEAD + DEV_TUNNEL_ANSWER_MAX];
};

void tunnel_open_streams(struct dev_tunnel *tunnel, uint64_t now_us);
void tunnel_watch_streams(struct dev_tunnel *tunnel, uint64_t now_us);
// Closes the stream and waits before the next.
void tunnel_give_up(struct dev_tunnel *tunnel, uint32_t stream, uint64_t now_us, const char *why);
void tunnel_stream_gone(struct dev_tunnel *tunnel, uint32_t stream, uint64_t now_us);
uint64_t tunnel_stream_due(const struct dev_tunnel *tunnel, uint64_t now_us);

#endif
