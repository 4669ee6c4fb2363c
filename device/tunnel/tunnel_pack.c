// One entry in memory: read from the store into the buffer `raw`, compressed into `pack`.
//
// Both are the tunnel's alone and serve all classes in turn, so they say what they hold. Called by
// sending and by tunnel_reject.c, on the runtime's thread.
#include "tunnel/tunnel_pack.h"

#include "tunnel/tunnel_private.h"

#include "base/check.h"
#include "base/hash.h"

#define SMALLEST     64 // below, nothing is gained
#define DICT_BELOW   (16 * 1024)
#define GAIN_PERCENT 92 // of the raw size, or it is not worth it

void tunnel_unload(struct dev_tunnel *tunnel)
{
    tunnel->buffers.raw_class = NULL;
    tunnel->buffers.pack_done = false;
}

enum base_status tunnel_load(struct dev_tunnel *tunnel, struct tunnel_class *class, uint64_t slot)
{
    base_assert(slot >= class->state.tail);
    if (tunnel->buffers.raw_class == class && tunnel->buffers.raw_slot == slot) {
        return BASE_OK;
    }
    tunnel_unload(tunnel);
    uint8_t key[TUNNEL_KEY];
    tunnel_key(class, slot, key);
    uint8_t *value = tunnel->buffers.raw - TUNNEL_ENTRY_HEAD;
    size_t size = 0;
    enum base_status status =
        dev_collect_get(tunnel->collect, (struct dev_kv_key){DEV_SPACE_QUEUE, key, sizeof(key)},
                        value, TUNNEL_ENTRY_HEAD + tunnel->buffers.raw_capacity, &size);
    if (status == BASE_ERR_TOO_LARGE) {
        return BASE_ERR_CORRUPT; // of a time with larger batches
    }
    BASE_TRY(status);
    struct tunnel_entry entry;
    BASE_TRY(tunnel_entry_read(class, slot, value, size, &entry));
    if (!entry.is_loss &&
        entry.payload_hash != base_hash64(tunnel->buffers.raw, entry.payload_bytes)) {
        return BASE_ERR_CORRUPT;
    }
    tunnel->buffers.raw_class = class;
    tunnel->buffers.raw_slot = slot;
    tunnel->buffers.raw_entry = entry;
    return BASE_OK;
}

void tunnel_pack(struct dev_tunnel *tunnel, uint32_t dict, bool plain)
{
    base_assert(tunnel->buffers.raw_class != NULL && !tunnel->buffers.raw_entry.is_loss);
    const struct dev_tunnel_codec *codec = &tunnel->ports.codec;
    uint32_t raw = tunnel->buffers.raw_entry.payload_bytes;
    uint32_t wanted = raw < DICT_BELOW ? dict : 0;
    if (tunnel->buffers.pack_done && tunnel->buffers.pack_wanted == wanted &&
        tunnel->buffers.pack_plain == plain) {
        return;
    }
    tunnel->buffers.pack_done = true;
    tunnel->buffers.pack_wanted = wanted;
    tunnel->buffers.pack_plain = plain;
    tunnel->buffers.pack_bytes = raw;
    tunnel->buffers.pack_codec = WIRE_TUNNEL_PLAIN;
    tunnel->buffers.pack_dict = 0;
    if (plain || codec->compress == NULL || raw < SMALLEST) {
        return;
    }
    size_t most = (size_t)raw * GAIN_PERCENT / 100;
    struct dev_tunnel_compression what = {
        .dict = wanted,
        .in = tunnel->buffers.raw,
        .in_size = raw,
        .out = tunnel->buffers.pack,
        .capacity = most < tunnel->buffers.pack_capacity ? most : tunnel->buffers.pack_capacity,
    };
    size_t size = 0;
    enum base_status status = codec->compress(codec->ctx, &what, &size);
    if (status == BASE_ERR_NOT_FOUND && wanted != 0) {
        what.dict = 0;
        status = codec->compress(codec->ctx, &what, &size);
    }
    if (status != BASE_OK || size == 0 || size > what.capacity) {
        return; // it stays plain
    }
    tunnel->buffers.pack_bytes = (uint32_t)size;
    tunnel->buffers.pack_codec = what.dict != 0 ? WIRE_TUNNEL_ZSTD_DICT : WIRE_TUNNEL_ZSTD;
    tunnel->buffers.pack_dict = what.dict;
}
