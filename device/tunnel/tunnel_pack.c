// One entry in memory: read from the store into the buffer `raw`, compressed into `pack`.
//
// Both are the tunnel's alone and serve all classes in turn, so they say what they hold. Called by
// sending and by tunnel_reject.c, on the runtime's thread.
#include "tunnel/tunnel_private.h"

#include "base/hash.h"

#define SMALLEST 64 // below, nothing is gained

void tunnel_unload(struct dev_tunnel *t)
{
    t->raw_class = NULL;
    t->pack_done = false;
}

enum base_status tunnel_load(struct dev_tunnel *t, struct tunnel_class *c, uint64_t slot)
{
    if (t->raw_class == c && t->raw_slot == slot) {
        return BASE_OK;
    }
    tunnel_unload(t);
    uint8_t key[TUNNEL_KEY];
    tunnel_key(c, slot, key);
    uint8_t *value = t->raw - TUNNEL_ENTRY_HEAD;
    size_t size = 0;
    enum base_status status = dev_collect_get(t->collect, DEV_SPACE_QUEUE, key, sizeof(key), value,
                                              TUNNEL_ENTRY_HEAD + t->raw_capacity, &size);
    if (status == BASE_ERR_TOO_LARGE) {
        return BASE_ERR_CORRUPT; // of a time with larger batches
    }
    BASE_TRY(status);
    struct tunnel_entry entry;
    BASE_TRY(tunnel_entry_read(c, slot, value, size, &entry));
    if (!entry.is_loss && entry.payload_hash != base_hash64(t->raw, entry.payload_bytes)) {
        return BASE_ERR_CORRUPT;
    }
    t->raw_class = c;
    t->raw_slot = slot;
    t->raw_entry = entry;
    return BASE_OK;
}

static enum base_status compress(struct dev_tunnel *t, uint32_t dict, size_t capacity)
{
    const struct dev_tunnel_codec *codec = &t->ports.codec;
    size_t size = 0;
    BASE_TRY(codec->compress(codec->ctx, dict, t->raw, t->raw_entry.payload_bytes, t->pack,
                             capacity, &size));
    if (size == 0 || size > capacity) {
        return BASE_ERR_BUG;
    }
    t->pack_bytes = (uint32_t)size;
    t->pack_codec = dict != 0 ? WIRE_TUNNEL_ZSTD_DICT : WIRE_TUNNEL_ZSTD;
    t->pack_dict = dict;
    return BASE_OK;
}

void tunnel_pack(struct dev_tunnel *t, uint32_t dict, bool plain)
{
    uint32_t raw = t->raw_entry.payload_bytes;
    uint32_t wanted = raw < TUNNEL_DICT_BELOW ? dict : 0;
    if (t->pack_done && t->pack_wanted == wanted && t->pack_plain == plain) {
        return;
    }
    t->pack_done = true;
    t->pack_wanted = wanted;
    t->pack_plain = plain;
    t->pack_bytes = raw;
    t->pack_codec = WIRE_TUNNEL_PLAIN;
    t->pack_dict = 0;
    if (plain || t->ports.codec.compress == NULL || raw < SMALLEST) {
        return;
    }
    size_t capacity = (size_t)raw * TUNNEL_GAIN_PERCENT / 100;
    capacity = capacity < t->pack_capacity ? capacity : t->pack_capacity;
    enum base_status status = compress(t, wanted, capacity);
    if (status == BASE_ERR_NOT_FOUND && wanted != 0) {
        (void)compress(t, 0, capacity); // it stays plain when that fails
    }
}
