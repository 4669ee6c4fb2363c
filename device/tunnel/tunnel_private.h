// The tunnel as its own files see it: its classes, its streams, and the parts that all of them
// share. Nobody else includes this. What a part keeps and what others may ask of it is in the
// part's header.
#ifndef DEV_TUNNEL_PRIVATE_H
#define DEV_TUNNEL_PRIVATE_H

#include "tunnel/tunnel_link.h"
#include "tunnel/tunnel_pack.h"
#include "tunnel/tunnel_retry.h"
#include "base/check.h"
#include "base/ckd.h"

#define TUNNEL_MS          UINT64_C(1000)
#define TUNNEL_IO_RETRY_MS 1000 // before the store is asked again

struct dev_tunnel {
    struct dev_tunnel_config config;
    struct dev_tunnel_ports ports;
    struct dev_collect *collect;
    char app[WIRE_TUNNEL_TEXT_MAX];
    char os[WIRE_TUNNEL_TEXT_MAX];
    struct tunnel_class *classes[WIRE_TUNNEL_CLASSES]; // NULL: not in use
    struct tunnel_stream streams[WIRE_TUNNEL_CLASSES];
    bool booted;
    bool flush;
    uint64_t offered_seq; // of the record that was offered last; UINT64_MAX: it was dropped
    uint64_t wall_ms;
    uint64_t wall_us;
    uint64_t radio_us; // when something was sent or came last; 0: never
    uint32_t turn;     // of classes 2 and 3
    bool more;         // the step stopped at DEV_TUNNEL_SENDS_MAX
    uint32_t dict;     // the gateway wants
    struct tunnel_backoff backoff;
    uint64_t quarantine_serial;
    struct tunnel_buffers buffers;
    struct dev_tunnel_stats stats; // counters of the whole
};

#endif
