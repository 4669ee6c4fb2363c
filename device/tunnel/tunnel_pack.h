// One entry in memory: read from the store into the buffer `raw`, compressed into `pack`. Both
// serve all classes in turn, so they say what they hold.
#ifndef DEV_TUNNEL_PACK_H
#define DEV_TUNNEL_PACK_H

#include "tunnel/tunnel_class.h"

// Each has TUNNEL_ROOM in front of a payload.
struct tunnel_buffers {
    uint8_t *raw;
    uint8_t *pack;
    uint32_t raw_capacity;
    uint32_t pack_capacity;
    struct tunnel_class *raw_class; // whose entry raw holds; NULL: none
    uint64_t raw_slot;
    struct tunnel_entry raw_entry;
    bool pack_done;  // the rest is about what raw holds
    bool pack_plain; // was asked for
    uint32_t pack_wanted;
    uint32_t pack_bytes; // what is sent: pack, or raw when the codec is PLAIN
    uint32_t pack_dict;
    uint8_t pack_codec;
};

// Makes raw hold the entry at send_next (raw_class, raw_slot, raw_entry). CORRUPT or NOT_FOUND: it
// is damaged; others: try later.
BASE_NODISCARD enum base_status tunnel_load(struct dev_tunnel *tunnel, struct tunnel_class *class,
                                            uint64_t slot);
void tunnel_unload(struct dev_tunnel *tunnel);
// Compresses what raw holds, when that is worth it. `dict` 0: none.
void tunnel_pack(struct dev_tunnel *tunnel, uint32_t dict, bool plain);

#endif
