// Sending: which class is next, and its next frame.
//
// A batch is sent when it is durable in the store, when the store also holds the promise that its
// number may have been sent, and when the window and credit of its class allow. Called by
// dev_tunnel_step, on the runtime's thread.
#include "tunnel/tunnel_private.h"

enum sent { SENT_ONE, SENT_NOTHING };

bool tunnel_wants_stream(const struct dev_tunnel *t, const struct tunnel_class *c)
{
    (void)t;
    return c->s.tail < c->next;
}

bool tunnel_can_send(const struct dev_tunnel *t, const struct tunnel_class *c, uint64_t now_us)
{
    const struct tunnel_stream *stream = &t->streams[c->stream];
    bool open = stream->state != TUNNEL_CLOSED && stream->said_hello && !stream->draining;
    bool allowed = (c->welcomed || c->optimistic) && !c->ack_waits && !c->blocked;
    bool in_time = c->hold_us <= now_us && c->retry_us <= now_us;
    return open && allowed && in_time;
}

static bool has_work(const struct dev_tunnel *t, const struct tunnel_class *c)
{
    return c->send_next < c->next && c->flight_count < t->config.window &&
           c->send_next < c->s.tail + WIRE_TUNNEL_WINDOW;
}

static void try_later(struct tunnel_class *c, uint64_t now_us)
{
    c->retry_us = base_sat_add_u64(now_us, TUNNEL_IO_RETRY_MS * TUNNEL_MS);
}

// Everything about the entry in raw that the store must hold before the gateway may.
static bool is_secured(struct dev_tunnel *t, struct tunnel_class *c, uint64_t now_us)
{
    uint64_t end = c->send_next + t->raw_entry.numbers;
    if (tunnel_promise(t, c, now_us, end) != BASE_OK) {
        try_later(c, now_us);
        return false;
    }
    if (tunnel_is_stored(t, c->put_mark) && tunnel_is_stored(t, c->bound_mark)) {
        return true;
    }
    if (dev_collect_flush(t->collect, now_us) != BASE_OK) {
        try_later(c, now_us);
        return false;
    }
    return true;
}

// raw holds the entry at send_next afterwards.
static bool is_loaded(struct dev_tunnel *t, struct tunnel_class *c, uint64_t now_us)
{
    enum base_status status = tunnel_load(t, c, c->send_next);
    if (status == BASE_ERR_CORRUPT || status == BASE_ERR_NOT_FOUND) {
        status = tunnel_repair(t, c, now_us);
        status = status == BASE_OK ? BASE_ERR_BUSY : status; // the LOSS is sent in the next round
    }
    if (status == BASE_OK) {
        return true;
    }
    if (status != BASE_ERR_BUSY) {
        try_later(c, now_us);
    }
    return false;
}

// ---- Frames

static bool hand_over(struct dev_tunnel *t, struct tunnel_class *c, uint64_t now_us,
                      const uint8_t *bytes, size_t size)
{
    struct dev_tunnel_transport *transport = &t->ports.transport;
    enum base_status status = transport->send(transport->ctx, c->stream, bytes, size, false);
    if (status == BASE_OK) {
        t->radio_us = now_us;
        c->progress_us = now_us;
        c->bytes_sent += size;
        return true;
    }
    if (status == BASE_ERR_BUSY) {
        c->blocked = true;
        return false;
    }
    tunnel_give_up(t, c->stream, now_us, base_status_text(status));
    return false;
}

static void went_out(struct dev_tunnel *t, struct tunnel_class *c, uint64_t now_us, uint64_t hash,
                     bool with_dict)
{
    const struct tunnel_entry *entry = &t->raw_entry;
    const struct tunnel_flight flight = {
        .hash = hash,
        .count = entry->count,
        .numbers = entry->numbers,
        .entry_bytes = TUNNEL_KEY + TUNNEL_ENTRY_HEAD + entry->payload_bytes,
        .is_loss = entry->is_loss,
        .with_dict = with_dict,
        .reason = entry->reason,
    };
    if (c->flight_count == 0) {
        t->streams[c->stream].moved_us = now_us;
    }
    tunnel_flight_push(t, c, &flight);
    c->maybe_sent = c->maybe_sent > c->send_next ? c->maybe_sent : c->send_next;
}

static void count_sent(struct tunnel_class *c)
{
    if (c->send_next < c->sent_end) {
        c->batches_resent++;
    }
    c->sent_end = c->sent_end > c->send_next ? c->sent_end : c->send_next + 1;
    c->batches_sent++;
}

static bool send_loss(struct dev_tunnel *t, struct tunnel_class *c, uint64_t now_us)
{
    const struct tunnel_entry *entry = &t->raw_entry;
    struct wire_tunnel_loss_frame loss = {
        .class_id = c->id,
        .epoch = c->s.epoch,
        .number = tunnel_number(c, c->send_next),
        .numbers = entry->numbers,
        .first_seq = entry->seq - c->s.base_seq,
        .count = entry->count,
        .reason = entry->reason,
        .prev_hash = c->send_hash,
    };
    loss.hash = wire_tunnel_chain_loss(&loss);
    uint8_t frame[96];
    size_t size = 0;
    if (wire_tunnel_loss_encode(&loss, frame, sizeof(frame), &size) != BASE_OK ||
        !hand_over(t, c, now_us, frame, size)) {
        return false;
    }
    count_sent(c);
    went_out(t, c, now_us, loss.hash, false);
    return true;
}

static bool has_credit(const struct tunnel_class *c, uint32_t bytes, uint32_t records)
{
    return c->credit_bytes >= bytes && c->credit_records >= records;
}

static void spend(struct tunnel_class *c, uint32_t bytes, uint32_t records)
{
    c->credit_bytes -= bytes;
    c->credit_records -= records;
    c->used_bytes += bytes;
    c->used_records += records;
}

static uint8_t *packed_bytes(struct dev_tunnel *t)
{
    return t->pack_codec == WIRE_TUNNEL_PLAIN ? t->raw : t->pack;
}

static uint32_t dict_for(const struct dev_tunnel *t, const struct tunnel_class *c)
{
    return c->no_dict ? 0 : t->dict;
}

static bool send_batch(struct dev_tunnel *t, struct tunnel_class *c, uint64_t now_us)
{
    const struct tunnel_entry *entry = &t->raw_entry;
    tunnel_pack(t, dict_for(t, c), false);
    uint32_t part = t->pack_bytes < WIRE_TUNNEL_PART_MAX ? t->pack_bytes : WIRE_TUNNEL_PART_MAX;
    if (!has_credit(c, part, (uint32_t)entry->count)) {
        return false;
    }
    uint8_t *bytes = packed_bytes(t);
    const struct wire_tunnel_batch batch = {
        .class_id = c->id,
        .epoch = c->s.epoch,
        .number = tunnel_number(c, c->send_next),
        .first_seq = entry->seq - c->s.base_seq,
        .count = (uint32_t)entry->count,
        .prev_hash = c->send_hash,
        .hash = wire_tunnel_chain(c->send_hash, t->raw, entry->payload_bytes),
        .codec = t->pack_codec,
        .dict = t->pack_dict,
        .raw_bytes = entry->payload_bytes,
        .sent_bytes = t->pack_bytes,
        .bytes = bytes,
        .part_bytes = part,
    };
    uint8_t head[WIRE_TUNNEL_BYTES_HEAD_MAX];
    size_t size = 0;
    if (wire_tunnel_batch_head_encode(&batch, head, sizeof(head), &size) != BASE_OK) {
        tunnel_give_up(t, c->stream, now_us, "a batch cannot be written");
        return false;
    }
    memcpy(bytes - size, head, size); // the room in front
    if (!hand_over(t, c, now_us, bytes - size, size + part)) {
        return false;
    }
    spend(c, part, batch.count);
    count_sent(c);
    c->raw_bytes += batch.raw_bytes;
    c->part = (struct tunnel_part){
        .active = part < batch.sent_bytes,
        .known = true,
        .slot = c->send_next,
        .epoch = c->s.epoch,
        .offset = part,
        .sent_bytes = batch.sent_bytes,
        .dict = batch.dict,
        .codec = batch.codec,
    };
    if (c->part.active) {
        c->maybe_sent = c->maybe_sent > c->send_next ? c->maybe_sent : c->send_next + 1;
    } else {
        went_out(t, c, now_us, batch.hash, batch.dict != 0);
    }
    return true;
}

// Compresses as the BATCH frame had it. False: it comes out differently now.
static bool repack(struct dev_tunnel *t, const struct tunnel_class *c)
{
    tunnel_pack(t, c->part.dict, c->part.codec == WIRE_TUNNEL_PLAIN);
    return t->pack_codec == c->part.codec && t->pack_dict == c->part.dict &&
           t->pack_bytes == c->part.sent_bytes;
}

static bool send_chunk(struct dev_tunnel *t, struct tunnel_class *c, uint64_t now_us)
{
    if (!repack(t, c)) {
        c->part = (struct tunnel_part){0}; // a new BATCH frame takes its place
        return true;
    }
    uint32_t left = c->part.sent_bytes - c->part.offset;
    uint32_t size = left < WIRE_TUNNEL_CHUNK_MAX ? left : WIRE_TUNNEL_CHUNK_MAX;
    if (!has_credit(c, size, 0)) {
        return false;
    }
    uint8_t *bytes = packed_bytes(t) + c->part.offset;
    const struct wire_tunnel_chunk chunk = {
        .class_id = c->id,
        .number = tunnel_number(c, c->part.slot),
        .offset = c->part.offset,
        .bytes = bytes,
        .size = size,
    };
    uint8_t head[WIRE_TUNNEL_BYTES_HEAD_MAX];
    uint8_t kept[WIRE_TUNNEL_BYTES_HEAD_MAX];
    size_t head_size = 0;
    if (wire_tunnel_chunk_head_encode(&chunk, head, sizeof(head), &head_size) != BASE_OK) {
        tunnel_give_up(t, c->stream, now_us, "a chunk cannot be written");
        return false;
    }
    memcpy(kept, bytes - head_size, head_size); // the bytes before are needed again
    memcpy(bytes - head_size, head, head_size);
    bool sent = hand_over(t, c, now_us, bytes - head_size, head_size + size);
    memcpy(bytes - head_size, kept, head_size);
    if (!sent) {
        return false;
    }
    spend(c, size, 0);
    c->part.offset += size;
    if (c->part.offset == c->part.sent_bytes) {
        c->part.active = false;
        went_out(t, c, now_us, wire_tunnel_chain(c->send_hash, t->raw, t->raw_entry.payload_bytes),
                 c->part.dict != 0);
    }
    return true;
}

static enum sent send_one(struct dev_tunnel *t, struct tunnel_class *c, uint64_t now_us)
{
    uint64_t slot = c->send_next;
    if (!is_loaded(t, c, now_us)) {
        return slot == c->send_next && c->retry_us <= now_us ? SENT_ONE : SENT_NOTHING;
    }
    if (!c->part.active && c->send_next >= c->maybe_sent &&
        tunnel_is_expired(t, c, c->send_next, &t->raw_entry, now_us)) {
        if (tunnel_drop_expired(t, c, now_us)) {
            return SENT_ONE; // the LOSS in its place is next
        }
        try_later(c, now_us);
        return SENT_NOTHING;
    }
    if (!is_secured(t, c, now_us)) {
        return SENT_NOTHING;
    }
    bool sent = false;
    if (c->part.active) {
        sent = send_chunk(t, c, now_us);
    } else if (t->raw_entry.is_loss) {
        sent = send_loss(t, c, now_us);
    } else {
        sent = send_batch(t, c, now_us);
    }
    return sent ? SENT_ONE : SENT_NOTHING;
}

// ---- Which class

static struct tunnel_class *ready(struct dev_tunnel *t, unsigned id, uint8_t tried, uint64_t now_us)
{
    struct tunnel_class *c = t->classes[id];
    bool can =
        c != NULL && (tried & 1u << id) == 0 && has_work(t, c) && tunnel_can_send(t, c, now_us);
    return can ? c : NULL;
}

// Classes 0 and 1 strictly first; 2 and 3 in turns of 4 to 1, unless 3 waits too long.
static struct tunnel_class *pick(struct dev_tunnel *t, uint8_t tried, uint64_t now_us)
{
    for (unsigned id = 0; id < 2; id++) {
        struct tunnel_class *c = ready(t, id, tried, now_us);
        if (c != NULL) {
            return c;
        }
    }
    struct tunnel_class *two = ready(t, 2, tried, now_us);
    struct tunnel_class *three = ready(t, 3, tried, now_us);
    if (two == NULL || three == NULL) {
        return two != NULL ? two : three;
    }
    bool aged = now_us - three->progress_us >= DEV_TUNNEL_AGING_MS * TUNNEL_MS;
    t->turn = (t->turn + 1) % TUNNEL_WEIGHT;
    return aged || t->turn == 0 ? three : two;
}

void tunnel_send_due(struct dev_tunnel *t, uint64_t now_us)
{
    uint8_t tried = 0; // nothing more of these in this step
    for (unsigned sends = 0; sends < DEV_TUNNEL_SENDS_MAX; sends++) {
        struct tunnel_class *c = pick(t, tried, now_us);
        if (c == NULL) {
            return;
        }
        if (send_one(t, c, now_us) == SENT_NOTHING) {
            tried |= (uint8_t)(1u << c->id);
        }
    }
    t->more = true;
}
