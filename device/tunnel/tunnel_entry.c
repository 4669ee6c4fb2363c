// Entries and states of the tunnel's queue as bytes in the store, and the chain over entries.
//
// Called by the other files of the tunnel, on the runtime's thread. Every value carries checks of
// its own: a store that gives back something else is seen.
//
//   entry := u8 version (1), u8 kind (1 batch, 2 LOSS), u8 reason, u8 0, u32 numbers, u64 seq,
//            u64 count, u64 closed_us, u64 payload hash, u64 check of the above, payload
//   state := u8 version (2), u32 epoch, 7 x u64, u64 lost[8] (version 1: 7), u64 check of the above
#include "tunnel/tunnel_private.h"

#include "base/hash.h"

#define ENTRY_VERSION 1
#define KIND_BATCH    1
#define KIND_LOSS     2
#define CHECKED       (TUNNEL_ENTRY_HEAD - 8)
#define STATE_VERSION 2
#define STATE_LOST_1  7 // reasons that version 1 knows
#define STATE_BYTES   (1 + 4 + 7 * 8 + TUNNEL_LOST * 8 + 8)
#define STATE_KEY     8

void tunnel_key(const struct tunnel_class *c, uint64_t slot, uint8_t out[TUNNEL_KEY])
{
    out[0] = c->id;
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

static uint64_t check_seed(const struct tunnel_class *c, uint64_t slot)
{
    return slot ^ (uint64_t)c->id << 56;
}

void tunnel_entry_write(const struct tunnel_class *c, uint64_t slot,
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
    base_writer_u64(&writer, base_hash64_seed(head, CHECKED, check_seed(c, slot)));
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

enum base_status tunnel_entry_read(const struct tunnel_class *c, uint64_t slot,
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
    if (version != ENTRY_VERSION || !entry_ok(&entry, kind) ||
        check != base_hash64_seed(value, CHECKED, check_seed(c, slot))) {
        return BASE_ERR_CORRUPT;
    }
    *out = entry;
    return BASE_OK;
}

enum base_status tunnel_put_entry(struct dev_tunnel *t, struct tunnel_class *c, uint64_t now_us,
                                  uint64_t slot, const struct tunnel_entry *entry, uint8_t *payload,
                                  bool high)
{
    uint8_t key[TUNNEL_KEY];
    tunnel_key(c, slot, key);
    uint8_t *head = payload - TUNNEL_ENTRY_HEAD; // the room in front of it
    tunnel_entry_write(c, slot, entry, head);
    c->put_mark = dev_collect_changes(t->collect) + 1;
    return dev_collect_put(t->collect, now_us, DEV_SPACE_QUEUE, key, sizeof(key), head,
                           TUNNEL_ENTRY_HEAD + entry->payload_bytes, high);
}

enum base_status tunnel_put_loss(struct dev_tunnel *t, struct tunnel_class *c, uint64_t now_us,
                                 uint64_t slot, const struct tunnel_entry *entry)
{
    uint8_t value[TUNNEL_ENTRY_HEAD];
    // A loss is a record's fate like another, and as safe as the class's records.
    return tunnel_put_entry(t, c, now_us, slot, entry, value + TUNNEL_ENTRY_HEAD, c->id <= 1);
}

enum base_status tunnel_delete_entry(struct dev_tunnel *t, struct tunnel_class *c, uint64_t now_us,
                                     uint64_t slot)
{
    uint8_t key[TUNNEL_KEY];
    tunnel_key(c, slot, key);
    return dev_collect_delete(t->collect, now_us, DEV_SPACE_QUEUE, key, sizeof(key), false);
}

// ---- State

static void state_key(const struct tunnel_class *c, uint8_t out[STATE_KEY])
{
    memcpy(out, "tunnel/", STATE_KEY - 1);
    out[STATE_KEY - 1] = (uint8_t)('0' + c->id);
}

enum base_status tunnel_put_state(struct dev_tunnel *t, struct tunnel_class *c, uint64_t now_us,
                                  const struct tunnel_state *state, bool high)
{
    uint8_t value[STATE_BYTES];
    struct base_writer writer;
    base_writer_init(&writer, value, sizeof(value));
    base_writer_u8(&writer, STATE_VERSION);
    base_writer_u32(&writer, state->epoch);
    base_writer_u64(&writer, state->base_slot);
    base_writer_u64(&writer, state->base_seq);
    base_writer_u64(&writer, state->tail);
    base_writer_u64(&writer, state->tail_seq);
    base_writer_u64(&writer, state->tail_hash);
    base_writer_u64(&writer, state->bound);
    base_writer_u64(&writer, state->durable);
    for (unsigned i = 0; i < TUNNEL_LOST; i++) {
        base_writer_u64(&writer, state->lost[i]);
    }
    base_writer_u64(&writer, base_hash64_seed(value, STATE_BYTES - 8, c->id));
    base_assert(writer.status == BASE_OK);
    uint8_t key[STATE_KEY];
    state_key(c, key);
    return dev_collect_put(t->collect, now_us, DEV_SPACE_STATE, key, sizeof(key), value,
                           sizeof(value), high);
}

enum base_status tunnel_get_state(struct dev_tunnel *t, struct tunnel_class *c,
                                  struct tunnel_state *out)
{
    uint8_t key[STATE_KEY];
    uint8_t value[STATE_BYTES];
    size_t size = 0;
    state_key(c, key);
    enum base_status status =
        dev_collect_get(t->collect, DEV_SPACE_STATE, key, sizeof(key), value, sizeof(value), &size);
    if (status == BASE_ERR_TOO_LARGE) {
        return BASE_ERR_CORRUPT;
    }
    BASE_TRY(status);
    struct base_reader reader;
    base_reader_init(&reader, value, size);
    struct tunnel_state state = {0};
    uint8_t version = base_reader_u8(&reader);
    state.epoch = base_reader_u32(&reader);
    state.base_slot = base_reader_u64(&reader);
    state.base_seq = base_reader_u64(&reader);
    state.tail = base_reader_u64(&reader);
    state.tail_seq = base_reader_u64(&reader);
    state.tail_hash = base_reader_u64(&reader);
    state.bound = base_reader_u64(&reader);
    state.durable = base_reader_u64(&reader);
    for (unsigned i = 0; i < (version == 1 ? STATE_LOST_1 : TUNNEL_LOST); i++) {
        state.lost[i] = base_reader_u64(&reader);
    }
    uint64_t check = base_reader_u64(&reader);
    bool ok = base_reader_finish(&reader) == BASE_OK && version >= 1 && version <= STATE_VERSION &&
              check == base_hash64_seed(value, size - 8, c->id) && state.base_slot <= state.tail &&
              state.base_seq <= state.tail_seq && state.tail <= state.bound;
    if (!ok) {
        return BASE_ERR_CORRUPT;
    }
    *out = state;
    return BASE_OK;
}

// ---- Chain

uint64_t tunnel_chain_of(const struct dev_tunnel *t, const struct tunnel_class *c, uint64_t slot,
                         const struct tunnel_entry *entry, const uint8_t *payload,
                         uint64_t prev_hash)
{
    (void)t;
    if (!entry->is_loss) {
        return wire_tunnel_chain(prev_hash, payload, entry->payload_bytes);
    }
    const struct wire_tunnel_loss_frame loss = {
        .class_id = c->id,
        .epoch = c->s.epoch,
        .number = tunnel_number(c, slot),
        .numbers = entry->numbers,
        .first_seq = entry->seq - c->s.base_seq,
        .count = entry->count,
        .reason = entry->reason,
        .prev_hash = prev_hash,
    };
    return wire_tunnel_chain_loss(&loss);
}
