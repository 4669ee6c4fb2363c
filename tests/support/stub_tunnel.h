// What the stub tunnel does with a piece of input is told by its first byte; anything else comes
// back as it is.
#ifndef STUB_TUNNEL_H
#define STUB_TUNNEL_H

#include "tunnel/gw_tunnel.h"
#include "wire/tunnel_frame.h"

#include <stdatomic.h>

#define STUB_TUNNEL_BAD          0xf0 // refused: the peer broke the protocol
#define STUB_TUNNEL_END          0xf1 // the session ends the stream
#define STUB_TUNNEL_FLOOD        0xf2 // answers with far more than anybody wants to hold
#define STUB_TUNNEL_SWALLOW      0xf3
#define STUB_TUNNEL_FLOOD_WRITES 64 // of 4 KiB

struct stub_tunnel_counts {
    _Atomic uint64_t open; // sessions
    _Atomic uint64_t bytes;
    _Atomic uint64_t refused; // writes the transport did not take
    _Atomic uint64_t flushes;
    _Atomic uint64_t device; // of the last session
    _Atomic uint32_t tenant;
};
extern struct stub_tunnel_counts stub_tunnel_counts;

#endif
