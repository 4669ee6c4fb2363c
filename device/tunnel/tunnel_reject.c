// What the gateway would not take: a batch with a bad record comes apart, a batch whose dictionary
// it does not know goes again without.
//
// In both cases the gateway drops what came behind the batch until its number comes again, so the
// device goes back to it; and it surely has nothing from that number on. What it refuses of batches
// behind a refused one it says at once, so REJECT may name one the device has gone back behind: it
// comes apart where it lies. One that is a LOSS by now was named twice. Called when a frame came,
// on the runtime's thread.
#include "tunnel/tunnel_private.h"

#include "base/hash.h"

struct split {
    struct wire_record records[DEV_TUNNEL_BATCH_RECORDS];
    struct wire_batch batch;
    uint32_t count;
    uint64_t bad;     // bit i: record i is refused; 0: nobody knows which
    uint32_t first;   // of them
    uint32_t refused; // how many
    int32_t status;
};

bool tunnel_in_flight(const struct dev_tunnel *t, const struct tunnel_class *c, uint64_t slot,
                      uint32_t *out_index)
{
    uint64_t at = c->s.tail;
    for (uint32_t i = 0; i < c->flight_count; i++) {
        if (at == slot) {
            *out_index = i;
            return true;
        }
        at += c->flight[(c->flight_head + i) % t->config.window].numbers;
    }
    return false;
}

void tunnel_go_back(struct dev_tunnel *t, struct tunnel_class *c, uint64_t slot)
{
    uint32_t keep = c->flight_count;
    if (!tunnel_in_flight(t, c, slot, &keep)) {
        keep = c->flight_count; // it is the one within its chunks
    }
    uint64_t at = c->s.tail;
    uint64_t seq = c->s.tail_seq;
    uint64_t hash = c->s.tail_hash;
    for (uint32_t i = 0; i < keep; i++) {
        const struct tunnel_flight *flight = tunnel_flight_at(t, c, i);
        at += flight->numbers;
        seq += flight->count;
        hash = flight->hash;
    }
    base_assert(at == slot);
    c->flight_count = keep;
    c->send_next = at;
    c->send_seq = seq;
    c->send_hash = hash;
    c->maybe_sent = at;
    c->part = (struct tunnel_part){0};
}

// ---- Quarantine

static void quarantine_key(uint64_t serial, uint8_t out[TUNNEL_KEY])
{
    out[0] = TUNNEL_QUARANTINE;
    for (unsigned i = 0; i < 8; i++) {
        out[1 + i] = (uint8_t)(serial >> (56 - 8 * i));
    }
}

// Value: u8 class, u16 minus the status, payload of one record.
static enum base_status put_quarantine(struct dev_tunnel *t, const struct tunnel_class *c,
                                       uint64_t now_us, const struct split *split, uint32_t index)
{
    uint8_t value[3 + DEV_TUNNEL_QUARANTINE_BYTES];
    struct wire_record record = split->records[index];
    const struct wire_topic topic = split->batch.topics[record.topic];
    record.topic = 0;
    uint32_t room = DEV_TUNNEL_QUARANTINE_BYTES - 256; // the columns and names of one record
    record.size = record.size < room ? record.size : room;
    size_t size = 0;
    BASE_TRY(
        wire_batch_encode(&topic, 1, &record, 1, value + 3, DEV_TUNNEL_QUARANTINE_BYTES, &size));
    value[0] = c->id;
    value[1] = (uint8_t)-split->status;
    value[2] = (uint8_t)(-split->status >> 8);
    uint8_t key[TUNNEL_KEY];
    quarantine_key(t->quarantine_serial, key);
    BASE_TRY(dev_collect_put(t->collect, now_us, DEV_SPACE_QUEUE, key, sizeof(key), value, 3 + size,
                             false));
    if (t->quarantine_serial < DEV_TUNNEL_QUARANTINE_MAX) {
        return BASE_OK;
    }
    quarantine_key(t->quarantine_serial - DEV_TUNNEL_QUARANTINE_MAX, key);
    return dev_collect_delete(t->collect, now_us, DEV_SPACE_QUEUE, key, sizeof(key), false);
}

// ---- Splitting

static enum base_status read_records(struct dev_tunnel *t, struct split *split)
{
    uint32_t bad = 0;
    BASE_TRY(wire_batch_parse(t->raw, t->raw_entry.payload_bytes, &split->batch, &bad));
    if (split->batch.record_count > DEV_TUNNEL_BATCH_RECORDS) {
        return BASE_ERR_TOO_LARGE;
    }
    split->count = 0;
    while (wire_batch_next(&split->batch, &split->records[split->count])) {
        split->count++;
        if (split->count == DEV_TUNNEL_BATCH_RECORDS) {
            break;
        }
    }
    return BASE_OK;
}

// What becomes of a split batch: up to two batches and a LOSS behind the queue's end.
struct pieces {
    struct tunnel_entry batches[2];
    uint8_t *payloads[2];
    uint32_t count;
    struct tunnel_entry rejected; // count 0: none
    struct tunnel_entry split;
};

static enum base_status make_piece(struct dev_tunnel *t, const struct tunnel_class *c,
                                   uint64_t now_us, const struct split *split,
                                   const struct wire_record *records, uint32_t count,
                                   struct pieces *pieces)
{
    // Behind the piece before, with room for its head.
    uint8_t *at = t->pack;
    uint64_t seq = c->next_seq;
    if (pieces->count > 0) {
        at += pieces->batches[0].payload_bytes + TUNNEL_ROOM;
        seq += pieces->batches[0].count;
    }
    size_t capacity = (size_t)(t->pack + t->pack_capacity - at);
    size_t size = 0;
    BASE_TRY(wire_batch_encode(split->batch.topics, split->batch.topic_count, records, count, at,
                               capacity, &size));
    pieces->payloads[pieces->count] = at;
    pieces->batches[pieces->count] = (struct tunnel_entry){
        .numbers = 1,
        .seq = seq,
        .count = count,
        .closed_us = now_us,
        .payload_hash = base_hash64(at, size),
        .payload_bytes = (uint32_t)size,
    };
    pieces->count++;
    return BASE_OK;
}

static enum base_status make_pieces(struct dev_tunnel *t, const struct tunnel_class *c,
                                    uint64_t now_us, struct split *split, struct pieces *pieces)
{
    uint32_t half = split->count / 2;
    t->pack_done = false; // the pieces lie in its place
    if (split->bad == 0) {
        BASE_TRY(make_piece(t, c, now_us, split, split->records, half, pieces));
        return make_piece(t, c, now_us, split, split->records + half, split->count - half, pieces);
    }
    uint32_t good = 0;
    for (uint32_t i = 0; i < split->count; i++) {
        if ((split->bad >> i & 1) == 0) {
            split->records[good++] = split->records[i];
        }
    }
    BASE_TRY(make_piece(t, c, now_us, split, split->records, good, pieces));
    pieces->rejected = (struct tunnel_entry){
        .is_loss = true,
        .reason = WIRE_TUNNEL_LOSS_REJECTED,
        .numbers = 1,
        .seq = c->next_seq + good,
        .count = split->refused,
        .closed_us = now_us,
    };
    return BASE_OK;
}

static enum base_status put_pieces(struct dev_tunnel *t, struct tunnel_class *c, uint64_t now_us,
                                   uint64_t slot, const struct pieces *pieces)
{
    uint64_t at = c->next;
    for (uint32_t i = 0; i < pieces->count; i++) {
        BASE_TRY(
            tunnel_put_entry(t, c, now_us, at++, &pieces->batches[i], pieces->payloads[i], false));
    }
    if (pieces->rejected.count > 0) {
        BASE_TRY(tunnel_put_loss(t, c, now_us, at, &pieces->rejected));
    }
    return tunnel_put_loss(t, c, now_us, slot, &pieces->split);
}

static void count_pieces(struct dev_tunnel *t, struct tunnel_class *c, const struct pieces *pieces)
{
    uint32_t entries = pieces->count;
    for (uint32_t i = 0; i < pieces->count; i++) {
        c->queue_bytes += TUNNEL_KEY + TUNNEL_ENTRY_HEAD + pieces->batches[i].payload_bytes;
    }
    c->tail_loss = false;
    if (pieces->rejected.count > 0) {
        c->tail_loss = true;
        c->loss_slot = c->next + entries;
        c->loss = pieces->rejected;
        c->queue_bytes += TUNNEL_KEY + TUNNEL_ENTRY_HEAD;
        c->queued -= pieces->rejected.count;
        c->waiting[WIRE_TUNNEL_LOSS_REJECTED] += pieces->rejected.count;
        entries++;
    }
    c->next += entries;
    c->next_seq += pieces->split.count;
    c->waiting[WIRE_TUNNEL_LOSS_SPLIT] += pieces->split.count;
    c->queue_bytes -= t->raw_entry.payload_bytes;
}

static enum base_status split_batch(struct dev_tunnel *t, struct tunnel_class *c, uint64_t now_us,
                                    uint64_t slot, struct split *split)
{
    struct pieces pieces = {0};
    pieces.split = (struct tunnel_entry){
        .is_loss = true,
        .reason = WIRE_TUNNEL_LOSS_SPLIT,
        .numbers = 1,
        .seq = t->raw_entry.seq,
        .count = split->count,
        .closed_us = now_us,
    };
    bool named = split->bad != 0;
    dev_collect_begin(t->collect);
    enum base_status status = named ? put_quarantine(t, c, now_us, split, split->first) : BASE_OK;
    status = status == BASE_OK ? make_pieces(t, c, now_us, split, &pieces) : status;
    status = status == BASE_OK ? put_pieces(t, c, now_us, slot, &pieces) : status;
    if (status != BASE_OK) {
        dev_collect_abandon(t->collect);
        return status;
    }
    BASE_TRY(dev_collect_end(t->collect, now_us));
    t->quarantine_serial += named ? 1 : 0;
    count_pieces(t, c, &pieces);
    return BASE_OK;
}

// All of it is refused.
static enum base_status refuse_batch(struct dev_tunnel *t, struct tunnel_class *c, uint64_t now_us,
                                     uint64_t slot, const struct split *split)
{
    const struct tunnel_entry loss = {
        .is_loss = true,
        .reason = WIRE_TUNNEL_LOSS_REJECTED,
        .numbers = 1,
        .seq = t->raw_entry.seq,
        .count = t->raw_entry.count,
        .closed_us = now_us,
    };
    dev_collect_begin(t->collect);
    enum base_status status = put_quarantine(t, c, now_us, split, split->first);
    status = status == BASE_OK ? tunnel_put_loss(t, c, now_us, slot, &loss) : status;
    if (status != BASE_OK) {
        dev_collect_abandon(t->collect);
        return status;
    }
    BASE_TRY(dev_collect_end(t->collect, now_us));
    t->quarantine_serial++;
    c->queued -= loss.count;
    c->waiting[WIRE_TUNNEL_LOSS_REJECTED] += loss.count;
    c->queue_bytes -= t->raw_entry.payload_bytes;
    if (slot + 1 == c->next) {
        c->tail_loss = true;
        c->loss_slot = slot;
        c->loss = loss;
    }
    return BASE_OK;
}

// What of the batch in raw is refused. INVALID: a record it does not have.
static enum base_status read_refused(const struct wire_tunnel_reject *reject, struct split *split)
{
    split->status = reject->status;
    if (reject->record == WIRE_TUNNEL_NO_RECORD) {
        split->refused = split->count == 1 ? 1 : 0; // it is the one
        return BASE_OK;
    }
    if (reject->record >= split->count) {
        return BASE_ERR_INVALID;
    }
    uint32_t behind = split->count - reject->record - 1;
    if (behind < 64 && reject->more >> behind != 0) {
        return BASE_ERR_INVALID;
    }
    split->first = reject->record;
    split->bad = UINT64_C(1) << reject->record;
    split->bad |= behind > 0 ? reject->more << (reject->record + 1) : 0;
    split->refused = (uint32_t)__builtin_popcountll(split->bad);
    return BASE_OK;
}

// Takes the batch at `slot` apart, wherever in the queue.
static enum base_status take_apart(struct dev_tunnel *t, struct tunnel_class *c, uint64_t now_us,
                                   uint64_t slot, const struct wire_tunnel_reject *reject)
{
    struct split split = {.count = 0};
    if (t->raw_entry.is_loss) {
        return BASE_OK; // told twice
    }
    BASE_TRY(read_records(t, &split));
    BASE_TRY(read_refused(reject, &split));
    base_log_debug(t->ports.log, "tunnel",
                   "class %u: batch %llu, %u records from %d on refused: %s", c->id,
                   (unsigned long long)reject->number, (unsigned)split.refused, (int)reject->record,
                   base_status_text((enum base_status)reject->status));
    return split.refused == split.count ? refuse_batch(t, c, now_us, slot, &split)
                                        : split_batch(t, c, now_us, slot, &split);
}

enum base_status tunnel_on_reject(struct dev_tunnel *t, struct tunnel_class *c, uint64_t now_us,
                                  const struct wire_tunnel_reject *reject)
{
    uint64_t slot = base_sat_add_u64(c->s.base_slot, reject->number);
    uint32_t index = 0;
    if (slot < c->s.tail || slot >= c->sent_end || slot >= c->next) {
        return BASE_ERR_INVALID;
    }
    bool under_way = tunnel_in_flight(t, c, slot, &index);
    if (!under_way && slot < c->send_next) {
        return BASE_ERR_INVALID; // within a LOSS
    }
    t->stats.rejects++;
    if (under_way && tunnel_flight_at(t, c, index)->is_loss) {
        return BASE_OK; // told twice
    }
    if (under_way || (c->part.active && slot == c->send_next)) {
        tunnel_go_back(t, c, slot);
    }
    enum base_status status = tunnel_load(t, c, slot);
    if (status == BASE_ERR_NOT_FOUND) {
        return BASE_OK; // dropped meanwhile: it is part of a LOSS
    }
    BASE_TRY(status); // damaged: sending finds it so too
    status = take_apart(t, c, now_us, slot, reject);
    tunnel_unload(t);
    return status;
}

// ---- For people

struct quarantine_walk {
    dev_tunnel_quarantine_fn visit;
    void *ctx;
};

static bool visit_quarantine(void *ctx, const uint8_t *key, size_t key_size, const uint8_t *value,
                             size_t value_size)
{
    (void)key;
    const struct quarantine_walk *walk = ctx;
    if (key_size != TUNNEL_KEY || value_size < 3) {
        return true;
    }
    int status = -(value[1] | value[2] << 8);
    return walk->visit(walk->ctx, value[0], (enum base_status)status, value + 3, value_size - 3);
}

enum base_status dev_tunnel_quarantine(struct dev_tunnel *tunnel, uint64_t now_us,
                                       dev_tunnel_quarantine_fn visit, void *ctx)
{
    static const uint8_t prefix[1] = {TUNNEL_QUARANTINE};
    struct quarantine_walk walk = {visit, ctx};
    return dev_collect_scan(tunnel->collect, now_us, DEV_SPACE_QUEUE, prefix, 1, prefix, 1,
                            visit_quarantine, &walk);
}
