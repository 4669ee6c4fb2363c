// Entries of the queue: what they are in memory, and as bytes in the store.
//
// DEV_SPACE_QUEUE: key class, slot (big-endian); value: head as in tunnel_entry.c, payload.
#ifndef DEV_TUNNEL_ENTRY_H
#define DEV_TUNNEL_ENTRY_H

#include "tunnel/tunnel.h"

#define TUNNEL_ENTRY_HEAD 48
#define TUNNEL_ROOM       64 // in front of a payload: the entry's head, or the frame's
#define TUNNEL_KEY        9

struct dev_tunnel;
struct tunnel_class;

// An entry of the queue: a batch, or a LOSS.
struct tunnel_entry {
    bool is_loss;
    uint8_t reason;
    uint32_t numbers; // 1 unless LOSS
    uint64_t seq;
    uint64_t count;
    uint64_t closed_us; // by the clock of the boot that closed it
    uint64_t payload_hash;
    uint32_t payload_bytes;
};

// An entry and where it goes.
struct tunnel_placing {
    uint64_t slot;
    const struct tunnel_entry *entry;
    uint8_t *payload; // with TUNNEL_ROOM in front of it, which is written to
    bool high;        // as dev_collect_put has it
};

void tunnel_key(const struct tunnel_class *class, uint64_t slot, uint8_t out[TUNNEL_KEY]);
// The rows of the key's class from the key on; borrows it.
static inline struct dev_kv_range tunnel_range(const uint8_t key[TUNNEL_KEY])
{
    return (struct dev_kv_range){.space = DEV_SPACE_QUEUE,
                                 .prefix = key,
                                 .prefix_size = 1,
                                 .from = key,
                                 .from_size = TUNNEL_KEY};
}
uint64_t tunnel_key_slot(const uint8_t *key);
// CORRUPT. The payload is not looked at but for its size.
BASE_NODISCARD enum base_status tunnel_entry_read(const struct tunnel_class *class, uint64_t slot,
                                                  const uint8_t *value, size_t size,
                                                  struct tunnel_entry *out);
BASE_NODISCARD enum base_status tunnel_put_entry(struct dev_tunnel *tunnel,
                                                 struct tunnel_class *class, uint64_t now_us,
                                                 const struct tunnel_placing *placing);
BASE_NODISCARD enum base_status tunnel_put_loss(struct dev_tunnel *tunnel,
                                                struct tunnel_class *class, uint64_t now_us,
                                                uint64_t slot, const struct tunnel_entry *entry);
BASE_NODISCARD enum base_status tunnel_delete_entry(struct dev_tunnel *tunnel,
                                                    struct tunnel_class *class, uint64_t now_us,
                                                    uint64_t slot);
uint64_t tunnel_chain_of(const struct tunnel_class *class, uint64_t slot,
                         const struct tunnel_entry *entry, const uint8_t *payload,
                         uint64_t prev_hash);

#endif
