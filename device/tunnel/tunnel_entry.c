// Entries of the tunnel's queue as bytes in the store, and the chain over them.
//
// Called by the other files of the tunnel, on the runtime's thread. Every value carries checks of
// its own: a store that gives back something else is seen.
//
//   entry := u8 version (1), u8 kind (1 batch, 2 LOSS), u8 reason, u8 0, u32 numbers, u64 seq,
//            u64 count, u64 closed_us, u64 payload hash, u64 check of the above, payload
#include "tunnel/tunnel_entry.h"

#include "tunnel/tunnel_private.h"

#include "base/check.h"
#include "base/hash.h"

#define ENTRY_VERSION 1
#define KIND_BATCH    1
#define KIND_LOSS     2
#define CHECKED       (TUNNEL_ENTRY_HEAD - 8)

void tunnel_key(const struct tunnel_class *class, uint64_t slot, uint8_t out[TUNNEL_KEY])
{
    out[0] = class->id;
    for (unsigned i = 0; i < 8; i++) { // big-endian: keys ascend with slots
        out[1 + i] = (uint8_t)(slot >> (56 - 8 * i));
    }
}

uint64_t tunnel_key_slot(const uint8_t *key)
{
    uint64_t slot = 0;
    for (unsigned i = 0; i < 8; i++) {
        slot = slot << 8 | key[1 + i];
    }
    return slot;
}

static uint64_t check_seed(const struct tunnel_class *class, uint64_t slot)
{
    return slot ^ (uint64_t) class->id << 56;
}

// Writes the head that belongs in front of a payload.
static void write_head(const struct tunnel_class *class, uint64_t slot,
                       const struct tunnel_entry *entry, uint8_t *head)
{
    struct base_writer writer;
    base_writer_init(&writer, head, TUNNEL_ENTRY_HEAD);
    base_writer_u8(&writer, ENTRY_VERSION);
    base_writer_u8(&writer, entry->is_loss ? KIND_LOSS : KIND_BATCH);
    base_writer_u8(&writer, entry->reason);
    base_writer_u8(&writer, 0);
    base_writer_u32(&writer, entry->numbers);
    base_writer_u64(&writer, entry->seq);
    base_writer_u64(&writer, entry->count);
    base_writer_u64(&writer, entry->closed_us);
    base_writer_u64(&writer, entry->payload_hash);
    base_writer_u64(&writer, base_hash64_seed(head, CHECKED, check_seed(class, slot)));
    base_assert(writer.status == BASE_OK);
}

static bool entry_ok(const struct tunnel_entry *entry, unsigned kind)
{
    bool reason_ok = entry->is_loss ? entry->reason >= WIRE_TUNNEL_LOSS_QUOTA &&
                                          entry->reason < WIRE_TUNNEL_LOSS_END
                                    : entry->reason == 0;
    bool kind_ok = kind == KIND_LOSS
                       ? entry->payload_bytes == 0 && entry->numbers >= 1
                       : kind == KIND_BATCH && entry->payload_bytes >= 1 &&
                             entry->payload_bytes <= WIRE_TUNNEL_RAW_MAX && entry->numbers == 1 &&
                             entry->count <= WIRE_TUNNEL_RECORDS_MAX;
    return reason_ok && kind_ok && entry->count >= 1 && entry->count <= WIRE_TUNNEL_NUMBER_MAX;
}

enum base_status tunnel_entry_read(const struct tunnel_class *class, uint64_t slot,
                                   const uint8_t *value, size_t size, struct tunnel_entry *out)
{
    if (size < TUNNEL_ENTRY_HEAD || size - TUNNEL_ENTRY_HEAD > WIRE_TUNNEL_RAW_MAX) {
        return BASE_ERR_CORRUPT;
    }
    struct base_reader reader;
    base_reader_init(&reader, value, TUNNEL_ENTRY_HEAD);
    uint8_t version = base_reader_u8(&reader);
    uint8_t kind = base_reader_u8(&reader);
    struct tunnel_entry entry = {.is_loss = kind == KIND_LOSS};
    entry.reason = base_reader_u8(&reader);
    (void)base_reader_u8(&reader);
    entry.numbers = base_reader_u32(&reader);
    entry.seq = base_reader_u64(&reader);
    entry.count = base_reader_u64(&reader);
    entry.closed_us = base_reader_u64(&reader);
    entry.payload_hash = base_reader_u64(&reader);
    entry.payload_bytes = (uint32_t)(size - TUNNEL_ENTRY_HEAD);
    uint64_t check = base_reader_u64(&reader);
    base_assert(base_reader_offset(&reader) == TUNNEL_ENTRY_HEAD); // all of it, and no more
    if (version != ENTRY_VERSION || !entry_ok(&entry, kind) ||
        check != base_hash64_seed(value, CHECKED, check_seed(class, slot))) {
        return BASE_ERR_CORRUPT;
    }
    *out = entry;
    return BASE_OK;
}

enum base_status tunnel_put_entry(struct dev_tunnel *tunnel, struct tunnel_class *class,
                                  uint64_t now_us, const struct tunnel_placing *placing)
{
    base_assert(placing->entry->numbers >= 1 && placing->entry->count >= 1);
    base_assert(placing->entry->is_loss == (placing->entry->payload_bytes == 0));
    uint8_t key[TUNNEL_KEY];
    tunnel_key(class, placing->slot, key);
    uint8_t *head = placing->payload - TUNNEL_ENTRY_HEAD; // the room in front of it
    write_head(class, placing->slot, placing->entry, head);
    class->put_mark = dev_collect_changes(tunnel->collect) + 1;
    const struct base_span value = {head, TUNNEL_ENTRY_HEAD + placing->entry->payload_bytes};
    return dev_collect_put(tunnel->collect, now_us,
                           (struct dev_kv_key){DEV_SPACE_QUEUE, key, sizeof(key)}, value,
                           placing->high);
}

enum base_status tunnel_put_loss(struct dev_tunnel *tunnel, struct tunnel_class *class,
                                 uint64_t now_us, uint64_t slot, const struct tunnel_entry *entry)
{
    uint8_t value[TUNNEL_ENTRY_HEAD];
    // A loss is a record's fate like another, and as safe as the class's records.
    const struct tunnel_placing placing = {
        .slot = slot,
        .entry = entry,
        .payload = value + TUNNEL_ENTRY_HEAD,
        .high = class->id <= 1,
    };
    return tunnel_put_entry(tunnel, class, now_us, &placing);
}

enum base_status tunnel_delete_entry(struct dev_tunnel *tunnel, struct tunnel_class *class,
                                     uint64_t now_us, uint64_t slot)
{
    uint8_t key[TUNNEL_KEY];
    tunnel_key(class, slot, key);
    return dev_collect_delete(tunnel->collect, now_us,
                              (struct dev_kv_key){DEV_SPACE_QUEUE, key, sizeof(key)}, false);
}

// ---- Chain

uint64_t tunnel_chain_of(const struct tunnel_class *class, uint64_t slot,
                         const struct tunnel_entry *entry, const uint8_t *payload,
                         uint64_t prev_hash)
{
    base_assert(slot >= class->state.base_slot && entry->seq >= class->state.base_seq);
    if (!entry->is_loss) {
        return wire_tunnel_chain(prev_hash, payload, entry->payload_bytes);
    }
    const struct wire_tunnel_loss_frame loss = {
        .class_id = class->id,
        .epoch = class->state.epoch,
        .number = tunnel_number(class, slot),
        .numbers = entry->numbers,
        .first_seq = entry->seq - class->state.base_seq,
        .count = entry->count,
        .reason = entry->reason,
        .prev_hash = prev_hash,
    };
    return wire_tunnel_chain_loss(&loss);
}
