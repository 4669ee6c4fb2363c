// The tunnel's compression of virtual devices: the codec that ships (zstd/codec_zstd.h), with the
// dictionaries of the device's active versions. Devices with the same dictionaries share one codec,
// since a frame depends on nothing else.
//
// One of these per shard, on its thread.
#ifndef SIM_SIM_CODEC_H
#define SIM_SIM_CODEC_H

#include "ports/content_store.h"
#include "tunnel/tunnel.h"

#define SIM_CODECS_MAX 16 // different sets of dictionaries at once

struct dev_codec;

struct sim_codec {
    struct wire_sha256 names[WIRE_TUNNEL_DICTS_MAX]; // of the dictionaries, oldest first
    uint32_t count;
    uint32_t users; // devices; at 0 it may make room
    uint64_t used;  // when it was taken last, in takes
    struct dev_codec *codec;
};

struct sim_codecs {
    struct sim_codec items[SIM_CODECS_MAX]; // the first one has no dictionaries and stays
    uint32_t count;
    uint64_t takes;
};

// NOMEM.
BASE_NODISCARD enum base_status sim_codecs_init(struct sim_codecs *codecs);
void sim_codecs_done(struct sim_codecs *codecs);
// The codec with these dictionaries, of which the last is the newest; those that are not in the
// store, or are none, are left out as on a phone. When SIM_CODECS_MAX sets are in use, or there is
// no memory: the one without dictionaries. To be given back; never NULL.
struct sim_codec *sim_codecs_take(struct sim_codecs *codecs, struct sim_store *store,
                                  const struct wire_sha256 *names, uint32_t count);
void sim_codecs_give(struct sim_codec *codec); // accepts NULL
// A device's port: `*at` is the codec it has at the moment.
struct dev_tunnel_codec sim_codec_port(struct sim_codec **at);

#endif
