// A worker of the gateway's transport on a socket pair, with the stub core and the stub tunnel,
// driven turn by turn: no threads, no ports.
#ifndef STREAM_RIG_H
#define STREAM_RIG_H

#include "http/conn.h"
#include "http/stream.h"
#include "http/worker.h"
#include "stub_core.h"
#include "stub_tunnel.h"
#include "test_kit.h"

#define FRAME_HEAD  9u
#define END_STREAM  1u
#define END_HEADERS 4u

struct stream_rig {
    struct gw_core *core;
    struct gw_tunnel *tunnel;
    struct gw_peer_table *peers;
    struct gw_peer_rates *rates;
    struct gw_http_config config;
    struct gw_http_worker *worker;
    int client;
    int upstream;          // a socket that listens, with stream_rig_set_up_upstream; else 0
    uint8_t seen[1 << 20]; // what the server has sent
    size_t seen_bytes;
    bool may_fail; // the server may end the connection at any moment
};

// Turns of the server's loop; what it sent is then in `seen`.
void stream_rig_turn(struct stream_rig *rig);
void stream_rig_connect(struct stream_rig *rig);
// The same of a peer that begins with these bytes.
void stream_rig_connect_with(struct stream_rig *rig, const void *bytes, size_t size);
// cmocka's fixture: *state is the rig, with one connection.
int stream_rig_set_up(void **state);
// The same with an upstream on this machine, which the test plays.
int stream_rig_set_up_upstream(void **state);
int stream_rig_tear_down(void **state);
void stream_rig_frame(struct stream_rig *rig, uint8_t type, uint8_t flags, uint32_t stream,
                      const void *payload, size_t size);
void stream_rig_request(struct stream_rig *rig, uint32_t stream, const char *path, uint8_t flags);
// How many frames of that type the server has sent on the stream.
uint32_t stream_rig_frames(const struct stream_rig *rig, uint8_t type, uint32_t stream);
// Opens a tunnel stream.
void stream_rig_tunnel(struct stream_rig *rig, uint32_t stream, uint8_t flags);
// Body bytes the server has sent on the stream; flags of the last frame of a type.
size_t stream_rig_body(const struct stream_rig *rig, uint32_t stream);
uint8_t stream_rig_flags(const struct stream_rig *rig, uint8_t type, uint32_t stream);

#endif
