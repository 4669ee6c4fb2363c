// Sending: which class is next, and its next frame.
//
// A batch is sent when it is durable in the store, when the store also holds the promise that its
// number may have been sent, and when the window and credit of its class allow. Called by
// dev_tunnel_step, on the runtime's thread.
#include "tunnel/tunnel_send.h"

#include "tunnel/tunnel_boot.h"
#include "tunnel/tunnel_chain.h"
#include "tunnel/tunnel_drop.h"
#include "tunnel/tunnel_private.h"
#include "tunnel/tunnel_queue.h"

#include "base/check.h"

#include <string.h>

#define WEIGHT 5 // of as many sends of class 2 and 3, one is class 3's

enum sent { SENT_ONE, SENT_NOTHING };

bool tunnel_wants_stream(const struct dev_tunnel *tunnel, const struct tunnel_class *class)
{
    (void)tunnel;
    return class->state.tail < class->next;
}

bool tunnel_can_send(const struct dev_tunnel *tunnel, const struct tunnel_class *class,
                     uint64_t now_us)
{
    const struct tunnel_stream *stream = &tunnel->streams[class->stream];
    bool open = stream->state != TUNNEL_CLOSED && stream->said_hello && !stream->draining;
    bool allowed = (class->welcomed || class->optimistic) && !class->ack_waits && !class->blocked;
    bool in_time = class->hold_us <= now_us && class->retry_us <= now_us;
    return open && allowed && in_time;
}

static bool has_work(const struct dev_tunnel *tunnel, const struct tunnel_class *class)
{
    return class->send_next < class->next && class->flight_count < tunnel->config.window &&
           class->send_next < class->state.tail + WIRE_TUNNEL_WINDOW;
}

static void try_later(struct tunnel_class *class, uint64_t now_us)
{
    class->retry_us = base_sat_add_u64(now_us, TUNNEL_IO_RETRY_MS * TUNNEL_MS);
}

// Everything about the entry in raw that the store must hold before the gateway may.
static bool is_secured(struct dev_tunnel *tunnel, struct tunnel_class *class, uint64_t now_us)
{
    uint64_t end = class->send_next + tunnel->buffers.raw_entry.numbers;
    if (tunnel_promise(tunnel, class, now_us, end) != BASE_OK) {
        try_later(class, now_us);
        return false;
    }
    if (tunnel_is_stored(tunnel, class->put_mark) && tunnel_is_stored(tunnel, class->bound_mark)) {
        return true;
    }
    if (dev_collect_flush(tunnel->collect, now_us) != BASE_OK) {
        try_later(class, now_us);
        return false;
    }
    return true;
}

// raw holds the entry at send_next afterwards.
static bool is_loaded(struct dev_tunnel *tunnel, struct tunnel_class *class, uint64_t now_us)
{
    enum base_status status = tunnel_load(tunnel, class, class->send_next);
    if (status == BASE_ERR_CORRUPT || status == BASE_ERR_NOT_FOUND) {
        status = tunnel_repair(tunnel, class, now_us);
        status = status == BASE_OK ? BASE_ERR_BUSY : status; // the LOSS is sent in the next round
    }
    if (status == BASE_OK) {
        return true;
    }
    if (status != BASE_ERR_BUSY) {
        try_later(class, now_us);
    }
    return false;
}

// ---- Frames

// What becomes of the class when `size` bytes were handed to the transport. True: it took them.
static bool was_sent(struct dev_tunnel *tunnel, struct tunnel_class *class, uint64_t now_us,
                     size_t size, enum base_status status)
{
    if (status == BASE_OK) {
        tunnel->radio_us = now_us;
        class->progress_us = now_us;
        class->bytes_sent += size;
        return true;
    }
    if (status == BASE_ERR_BUSY) {
        class->blocked = true;
        return false;
    }
    tunnel_give_up(tunnel, class->stream, now_us, base_status_text(status));
    return false;
}

static void went_out(struct dev_tunnel *tunnel, struct tunnel_class *class, uint64_t now_us,
                     uint64_t hash, bool with_dict)
{
    base_assert(tunnel->buffers.raw_class == class && tunnel->buffers.raw_slot == class->send_next);
    const struct tunnel_entry *entry = &tunnel->buffers.raw_entry;
    const struct tunnel_flight flight = {
        .hash = hash,
        .count = entry->count,
        .numbers = entry->numbers,
        .entry_bytes = TUNNEL_KEY + TUNNEL_ENTRY_HEAD + entry->payload_bytes,
        .is_loss = entry->is_loss,
        .with_dict = with_dict,
        .reason = entry->reason,
    };
    if (class->flight_count == 0) {
        tunnel->streams[class->stream].moved_us = now_us;
    }
    tunnel_flight_push(tunnel, class, &flight);
    class->maybe_sent = class->maybe_sent > class->send_next ? class->maybe_sent : class->send_next;
}

static void count_sent(struct tunnel_class *class)
{
    if (class->send_next < class->sent_end) {
        class->batches_resent++;
    }
    class->sent_end = class->sent_end > class->send_next ? class->sent_end : class->send_next + 1;
    class->batches_sent++;
}

static bool send_loss(struct dev_tunnel *tunnel, struct tunnel_class *class, uint64_t now_us)
{
    base_assert(tunnel->buffers.raw_class == class && tunnel->buffers.raw_entry.is_loss);
    const struct tunnel_entry *entry = &tunnel->buffers.raw_entry;
    struct wire_tunnel_loss_frame loss = {
        .class_id = class->id,
        .epoch = class->state.epoch,
        .number = tunnel_number(class, class->send_next),
        .numbers = entry->numbers,
        .first_seq = entry->seq - class->state.base_seq,
        .count = entry->count,
        .reason = entry->reason,
        .prev_hash = class->send_hash,
    };
    loss.hash = wire_tunnel_chain_loss(&loss);
    const struct dev_tunnel_transport *transport = &tunnel->ports.transport;
    uint8_t frame[96];
    size_t size = 0;
    if (wire_tunnel_loss_encode(&loss, frame, sizeof(frame), &size) != BASE_OK ||
        !was_sent(tunnel, class, now_us, size,
                  transport->send(transport->ctx, class->stream, frame, size, false))) {
        return false;
    }
    count_sent(class);
    went_out(tunnel, class, now_us, loss.hash, false);
    return true;
}

static bool has_credit(const struct tunnel_class *class, uint32_t bytes, uint32_t records)
{
    return class->credit_bytes >= bytes && class->credit_records >= records;
}

static void spend(struct tunnel_class *class, uint32_t bytes, uint32_t records)
{
    base_assert(has_credit(class, bytes, records));
    class->credit_bytes -= bytes;
    class->credit_records -= records;
    class->used_bytes += bytes;
    class->used_records += records;
}

static uint8_t *packed_bytes(struct dev_tunnel *tunnel)
{
    return tunnel->buffers.pack_codec == WIRE_TUNNEL_PLAIN ? tunnel->buffers.raw
                                                           : tunnel->buffers.pack;
}

static uint32_t dict_for(const struct dev_tunnel *tunnel, const struct tunnel_class *class)
{
    return class->no_dict ? 0 : tunnel->dict;
}

static bool send_batch(struct dev_tunnel *tunnel, struct tunnel_class *class, uint64_t now_us)
{
    base_assert(!tunnel->buffers.raw_entry.is_loss && !class->part.active);
    const struct tunnel_entry *entry = &tunnel->buffers.raw_entry;
    tunnel_pack(tunnel, dict_for(tunnel, class), false);
    uint32_t part = tunnel->buffers.pack_bytes < WIRE_TUNNEL_PART_MAX ? tunnel->buffers.pack_bytes
                                                                      : WIRE_TUNNEL_PART_MAX;
    if (!has_credit(class, part, (uint32_t)entry->count)) {
        return false;
    }
    uint8_t *bytes = packed_bytes(tunnel);
    const struct wire_tunnel_batch batch = {
        .class_id = class->id,
        .epoch = class->state.epoch,
        .number = tunnel_number(class, class->send_next),
        .first_seq = entry->seq - class->state.base_seq,
        .count = (uint32_t)entry->count,
        .prev_hash = class->send_hash,
        .hash = wire_tunnel_chain(class->send_hash, tunnel->buffers.raw, entry->payload_bytes),
        .codec = tunnel->buffers.pack_codec,
        .dict = tunnel->buffers.pack_dict,
        .raw_bytes = entry->payload_bytes,
        .sent_bytes = tunnel->buffers.pack_bytes,
        .bytes = bytes,
        .part_bytes = part,
    };
    uint8_t head[WIRE_TUNNEL_BYTES_HEAD_MAX];
    size_t size = 0;
    if (wire_tunnel_batch_head_encode(&batch, head, sizeof(head), &size) != BASE_OK) {
        tunnel_give_up(tunnel, class->stream, now_us, "a batch cannot be written");
        return false;
    }
    base_assert(size <= TUNNEL_ROOM);
    memcpy(bytes - size, head, size); // the room in front
    const struct dev_tunnel_transport *transport = &tunnel->ports.transport;
    enum base_status status =
        transport->send(transport->ctx, class->stream, bytes - size, size + part, false);
    if (!was_sent(tunnel, class, now_us, size + part, status)) {
        return false;
    }
    spend(class, part, batch.count);
    count_sent(class);
    class->raw_bytes += batch.raw_bytes;
    class->part = (struct tunnel_part){
        .active = part < batch.sent_bytes,
        .known = true,
        .slot = class->send_next,
        .epoch = class->state.epoch,
        .offset = part,
        .sent_bytes = batch.sent_bytes,
        .dict = batch.dict,
        .codec = batch.codec,
    };
    if (class->part.active) {
        class->maybe_sent =
            class->maybe_sent > class->send_next ? class->maybe_sent : class->send_next + 1;
    } else {
        went_out(tunnel, class, now_us, batch.hash, batch.dict != 0);
    }
    return true;
}

// Compresses as the BATCH frame had it. False: it comes out differently now.
static bool repack(struct dev_tunnel *tunnel, const struct tunnel_class *class)
{
    tunnel_pack(tunnel, class->part.dict, class->part.codec == WIRE_TUNNEL_PLAIN);
    return tunnel->buffers.pack_codec == class->part.codec &&
           tunnel->buffers.pack_dict == class->part.dict &&
           tunnel->buffers.pack_bytes == class->part.sent_bytes;
}

static bool send_chunk(struct dev_tunnel *tunnel, struct tunnel_class *class, uint64_t now_us)
{
    base_assert(class->part.slot == class->send_next);
    base_assert(class->part.offset < class->part.sent_bytes);
    if (!repack(tunnel, class)) {
        class->part = (struct tunnel_part){0}; // a new BATCH frame takes its place
        return true;
    }
    uint32_t left = class->part.sent_bytes - class->part.offset;
    uint32_t size = left < WIRE_TUNNEL_CHUNK_MAX ? left : WIRE_TUNNEL_CHUNK_MAX;
    if (!has_credit(class, size, 0)) {
        return false;
    }
    uint8_t *bytes = packed_bytes(tunnel) + class->part.offset;
    const struct wire_tunnel_chunk chunk = {
        .class_id = class->id,
        .number = tunnel_number(class, class->part.slot),
        .offset = class->part.offset,
        .bytes = bytes,
        .size = size,
    };
    uint8_t head[WIRE_TUNNEL_BYTES_HEAD_MAX];
    uint8_t kept[WIRE_TUNNEL_BYTES_HEAD_MAX];
    size_t head_size = 0;
    if (wire_tunnel_chunk_head_encode(&chunk, head, sizeof(head), &head_size) != BASE_OK) {
        tunnel_give_up(tunnel, class->stream, now_us, "a chunk cannot be written");
        return false;
    }
    base_assert(head_size <= TUNNEL_ROOM + class->part.offset);
    memcpy(kept, bytes - head_size, head_size); // the bytes before are needed again
    memcpy(bytes - head_size, head, head_size);
    const struct dev_tunnel_transport *transport = &tunnel->ports.transport;
    enum base_status status =
        transport->send(transport->ctx, class->stream, bytes - head_size, head_size + size, false);
    memcpy(bytes - head_size, kept, head_size);
    if (!was_sent(tunnel, class, now_us, head_size + size, status)) {
        return false;
    }
    spend(class, size, 0);
    class->part.offset += size;
    if (class->part.offset == class->part.sent_bytes) {
        class->part.active = false;
        went_out(tunnel, class, now_us,
                 wire_tunnel_chain(class->send_hash, tunnel->buffers.raw,
                                   tunnel->buffers.raw_entry.payload_bytes),
                 class->part.dict != 0);
    }
    return true;
}

static enum sent send_one(struct dev_tunnel *tunnel, struct tunnel_class *class, uint64_t now_us)
{
    uint64_t slot = class->send_next;
    if (!is_loaded(tunnel, class, now_us)) {
        return slot == class->send_next && class->retry_us <= now_us ? SENT_ONE : SENT_NOTHING;
    }
    base_assert(tunnel->buffers.raw_class == class && tunnel->buffers.raw_slot == slot);
    if (!class->part.active && class->send_next >= class->maybe_sent &&
        tunnel_is_expired(tunnel, class, class->send_next, &tunnel->buffers.raw_entry, now_us)) {
        if (tunnel_drop_expired(tunnel, class, now_us)) {
            return SENT_ONE; // the LOSS in its place is next
        }
        try_later(class, now_us);
        return SENT_NOTHING;
    }
    if (!is_secured(tunnel, class, now_us)) {
        return SENT_NOTHING;
    }
    bool sent = false;
    if (class->part.active) {
        sent = send_chunk(tunnel, class, now_us);
    } else if (tunnel->buffers.raw_entry.is_loss) {
        sent = send_loss(tunnel, class, now_us);
    } else {
        sent = send_batch(tunnel, class, now_us);
    }
    return sent ? SENT_ONE : SENT_NOTHING;
}

// ---- Which class

static struct tunnel_class *ready(struct dev_tunnel *tunnel, unsigned id, uint8_t tried,
                                  uint64_t now_us)
{
    struct tunnel_class *class = tunnel->classes[id];
    bool can = class != NULL && (tried & 1u << id) == 0 && has_work(tunnel, class) &&
               tunnel_can_send(tunnel, class, now_us);
    return can ? class : NULL;
}

// Classes 0 and 1 strictly first; 2 and 3 in turns of 4 to 1, unless 3 waits too long.
static struct tunnel_class *pick(struct dev_tunnel *tunnel, uint8_t tried, uint64_t now_us)
{
    for (unsigned id = 0; id < 2; id++) {
        struct tunnel_class *class = ready(tunnel, id, tried, now_us);
        if (class != NULL) {
            return class;
        }
    }
    struct tunnel_class *two = ready(tunnel, 2, tried, now_us);
    struct tunnel_class *three = ready(tunnel, 3, tried, now_us);
    if (two == NULL || three == NULL) {
        return two != NULL ? two : three;
    }
    bool aged = now_us - three->progress_us >= DEV_TUNNEL_AGING_MS * TUNNEL_MS;
    tunnel->turn = (tunnel->turn + 1) % WEIGHT;
    return aged || tunnel->turn == 0 ? three : two;
}

void tunnel_send_due(struct dev_tunnel *tunnel, uint64_t now_us)
{
    uint8_t tried = 0; // nothing more of these in this step
    for (unsigned sends = 0; sends < DEV_TUNNEL_SENDS_MAX; sends++) {
        struct tunnel_class *class = pick(tunnel, tried, now_us);
        if (class == NULL) {
            return;
        }
        if (send_one(tunnel, class, now_us) == SENT_NOTHING) {
            tried |= (uint8_t)(1u << class->id);
        }
    }
    tunnel->more = true;
}
