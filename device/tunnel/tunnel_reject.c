// What the gateway would not take: a batch with a bad record comes apart, a batch whose dictionary
// it does not know goes again without.
//
// In both cases the gateway drops what came behind the batch until its number comes again, so the
// device goes back to it; and it surely has nothing from that number on. What it refuses of batches
// behind a refused one it says at once, so REJECT may name one the device has gone back behind: it
// comes apart where it lies. One that is a LOSS by now was named twice. Called when a frame came,
// on the runtime's thread.
#include "tunnel/tunnel_reject.h"

#include "tunnel/tunnel_chain.h"
#include "tunnel/tunnel_private.h"

#include "base/check.h"
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

bool tunnel_in_flight(const struct dev_tunnel *tunnel, const struct tunnel_class *class,
                      uint64_t slot, uint32_t *out_index)
{
    uint64_t at = class->state.tail;
    for (uint32_t i = 0; i < class->flight_count; i++) {
        if (at == slot) {
            *out_index = i;
            return true;
        }
        at += class->flight[(class->flight_head + i) % tunnel->config.window].numbers;
    }
    return false;
}

void tunnel_go_back(struct dev_tunnel *tunnel, struct tunnel_class *class, uint64_t slot)
{
    uint32_t keep = class->flight_count;
    if (!tunnel_in_flight(tunnel, class, slot, &keep)) {
        keep = class->flight_count; // it is the one within its chunks
    }
    uint64_t at = class->state.tail;
    uint64_t seq = class->state.tail_seq;
    uint64_t hash = class->state.tail_hash;
    for (uint32_t i = 0; i < keep; i++) {
        const struct tunnel_flight *flight = tunnel_flight_at(tunnel, class, i);
        at += flight->numbers;
        seq += flight->count;
        hash = flight->hash;
    }
    base_assert(at == slot);
    class->flight_count = keep;
    class->send_next = at;
    class->send_seq = seq;
    class->send_hash = hash;
    class->maybe_sent = at;
    class->part = (struct tunnel_part){0};
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
static enum base_status put_quarantine(struct dev_tunnel *tunnel, const struct tunnel_class *class,
                                       uint64_t now_us, const struct split *split, uint32_t index)
{
    base_assert(index < split->count);
    uint8_t value[3 + DEV_TUNNEL_QUARANTINE_BYTES];
    struct wire_record record = split->records[index];
    const struct wire_upload_key upload = split->batch.uploads[record.upload];
    record.upload = 0;
    uint32_t room = DEV_TUNNEL_QUARANTINE_BYTES - 256; // the columns and names of one record
    record.size = record.size < room ? record.size : room;
    size_t size = 0;
    BASE_TRY(wire_batch_encode(&(struct wire_batch_content){&upload, 1, &record, 1}, value + 3,
                               DEV_TUNNEL_QUARANTINE_BYTES, &size));
    value[0] = class->id;
    value[1] = (uint8_t)-split->status;
    value[2] = (uint8_t)(-split->status >> 8);
    uint8_t key_bytes[TUNNEL_KEY];
    const struct dev_kv_key key = {DEV_SPACE_QUEUE, key_bytes, sizeof(key_bytes)};
    quarantine_key(tunnel->quarantine_serial, key_bytes);
    BASE_TRY(
        dev_collect_put(tunnel->collect, now_us, key, (struct base_span){value, 3 + size}, false));
    if (tunnel->quarantine_serial < DEV_TUNNEL_QUARANTINE_MAX) {
        return BASE_OK;
    }
    quarantine_key(tunnel->quarantine_serial - DEV_TUNNEL_QUARANTINE_MAX, key_bytes);
    return dev_collect_delete(tunnel->collect, now_us, key, false);
}

// ---- Splitting

static enum base_status read_records(struct dev_tunnel *tunnel, struct split *split)
{
    uint32_t bad = 0;
    BASE_TRY(wire_batch_parse(tunnel->buffers.raw, tunnel->buffers.raw_entry.payload_bytes,
                              &split->batch, &bad));
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
    uint64_t now_us;
    uint64_t first_seq;
    struct tunnel_entry batches[2];
    uint8_t *payloads[2];
    uint32_t count;
    struct tunnel_entry rejected; // count 0: none
    struct tunnel_entry split;
};

// Of the records from `from` on, `count`.
static enum base_status make_piece(struct dev_tunnel *tunnel, const struct split *split,
                                   uint32_t from, uint32_t count, struct pieces *pieces)
{
    base_assert(pieces->count < 2 && count > 0 && from + count <= split->count);
    // Behind the piece before, with room for its head.
    uint8_t *at = tunnel->buffers.pack;
    uint64_t seq = pieces->first_seq;
    if (pieces->count > 0) {
        at += pieces->batches[0].payload_bytes + TUNNEL_ROOM;
        seq += pieces->batches[0].count;
    }
    size_t capacity = (size_t)(tunnel->buffers.pack + tunnel->buffers.pack_capacity - at);
    size_t size = 0;
    BASE_TRY(wire_batch_encode(&(struct wire_batch_content){split->batch.uploads,
                                                            split->batch.upload_count,
                                                            split->records + from, count},
                               at, capacity, &size));
    pieces->payloads[pieces->count] = at;
    pieces->batches[pieces->count] = (struct tunnel_entry){
        .numbers = 1,
        .seq = seq,
        .count = count,
        .closed_us = pieces->now_us,
        .payload_hash = base_hash64(at, size),
        .payload_bytes = (uint32_t)size,
    };
    pieces->count++;
    return BASE_OK;
}

static enum base_status make_pieces(struct dev_tunnel *tunnel, struct split *split,
                                    struct pieces *pieces)
{
    base_assert(split->refused < split->count);
    uint32_t half = split->count / 2;
    tunnel->buffers.pack_done = false; // the pieces lie in its place
    if (split->bad == 0) {
        BASE_TRY(make_piece(tunnel, split, 0, half, pieces));
        return make_piece(tunnel, split, half, split->count - half, pieces);
    }
    uint32_t good = 0;
    for (uint32_t i = 0; i < split->count; i++) {
        if ((split->bad >> i & 1) == 0) {
            split->records[good++] = split->records[i];
        }
    }
    BASE_TRY(make_piece(tunnel, split, 0, good, pieces));
    pieces->rejected = (struct tunnel_entry){
        .is_loss = true,
        .reason = WIRE_TUNNEL_LOSS_REJECTED,
        .numbers = 1,
        .seq = pieces->first_seq + good,
        .count = split->refused,
        .closed_us = pieces->now_us,
    };
    return BASE_OK;
}

static enum base_status put_pieces(struct dev_tunnel *tunnel, struct tunnel_class *class,
                                   uint64_t now_us, uint64_t slot, const struct pieces *pieces)
{
    uint64_t at = class->next;
    for (uint32_t i = 0; i < pieces->count; i++) {
        const struct tunnel_placing placing = {
            .slot = at++, .entry = &pieces->batches[i], .payload = pieces->payloads[i]};
        BASE_TRY(tunnel_put_entry(tunnel, class, now_us, &placing));
    }
    if (pieces->rejected.count > 0) {
        BASE_TRY(tunnel_put_loss(tunnel, class, now_us, at, &pieces->rejected));
    }
    return tunnel_put_loss(tunnel, class, now_us, slot, &pieces->split);
}

static void count_pieces(struct dev_tunnel *tunnel, struct tunnel_class *class,
                         const struct pieces *pieces)
{
    uint32_t entries = pieces->count;
    for (uint32_t i = 0; i < pieces->count; i++) {
        class->queue_bytes += TUNNEL_KEY + TUNNEL_ENTRY_HEAD + pieces->batches[i].payload_bytes;
    }
    class->tail_loss = false;
    if (pieces->rejected.count > 0) {
        class->tail_loss = true;
        class->loss_slot = class->next + entries;
        class->loss = pieces->rejected;
        class->queue_bytes += TUNNEL_KEY + TUNNEL_ENTRY_HEAD;
        class->queued -= pieces->rejected.count;
        class->waiting[WIRE_TUNNEL_LOSS_REJECTED] += pieces->rejected.count;
        entries++;
    }
    class->next += entries;
    class->next_seq += pieces->split.count;
    class->waiting[WIRE_TUNNEL_LOSS_SPLIT] += pieces->split.count;
    class->queue_bytes -= tunnel->buffers.raw_entry.payload_bytes;
}

static enum base_status split_batch(struct dev_tunnel *tunnel, struct tunnel_class *class,
                                    uint64_t now_us, uint64_t slot, struct split *split)
{
    base_assert(split->refused < split->count && split->first < split->count);
    struct pieces pieces = {.now_us = now_us, .first_seq = class->next_seq};
    pieces.split = (struct tunnel_entry){
        .is_loss = true,
        .reason = WIRE_TUNNEL_LOSS_SPLIT,
        .numbers = 1,
        .seq = tunnel->buffers.raw_entry.seq,
        .count = split->count,
        .closed_us = now_us,
    };
    bool named = split->bad != 0;
    dev_collect_begin(tunnel->collect);
    enum base_status status =
        named ? put_quarantine(tunnel, class, now_us, split, split->first) : BASE_OK;
    status = status == BASE_OK ? make_pieces(tunnel, split, &pieces) : status;
    status = status == BASE_OK ? put_pieces(tunnel, class, now_us, slot, &pieces) : status;
    if (status != BASE_OK) {
        dev_collect_abandon(tunnel->collect);
        return status;
    }
    BASE_TRY(dev_collect_end(tunnel->collect, now_us));
    tunnel->quarantine_serial += named ? 1 : 0;
    count_pieces(tunnel, class, &pieces);
    return BASE_OK;
}

// All of it is refused.
static enum base_status refuse_batch(struct dev_tunnel *tunnel, struct tunnel_class *class,
                                     uint64_t now_us, uint64_t slot, const struct split *split)
{
    const struct tunnel_entry loss = {
        .is_loss = true,
        .reason = WIRE_TUNNEL_LOSS_REJECTED,
        .numbers = 1,
        .seq = tunnel->buffers.raw_entry.seq,
        .count = tunnel->buffers.raw_entry.count,
        .closed_us = now_us,
    };
    base_assert(class->queued >= loss.count && slot < class->next);
    dev_collect_begin(tunnel->collect);
    enum base_status status = put_quarantine(tunnel, class, now_us, split, split->first);
    status = status == BASE_OK ? tunnel_put_loss(tunnel, class, now_us, slot, &loss) : status;
    if (status != BASE_OK) {
        dev_collect_abandon(tunnel->collect);
        return status;
    }
    BASE_TRY(dev_collect_end(tunnel->collect, now_us));
    tunnel->quarantine_serial++;
    class->queued -= loss.count;
    class->waiting[WIRE_TUNNEL_LOSS_REJECTED] += loss.count;
    class->queue_bytes -= tunnel->buffers.raw_entry.payload_bytes;
    if (slot + 1 == class->next) {
        class->tail_loss = true;
        class->loss_slot = slot;
        class->loss = loss;
    }
    return BASE_OK;
}

// What of the batch in raw is refused. INVALID: a record it does not have.
static enum base_status read_refused(const struct wire_tunnel_reject *reject, struct split *split)
{
    base_assert(split->count > 0);
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
static enum base_status take_apart(struct dev_tunnel *tunnel, struct tunnel_class *class,
                                   uint64_t now_us, uint64_t slot,
                                   const struct wire_tunnel_reject *reject)
{
    struct split split = {.count = 0};
    if (tunnel->buffers.raw_entry.is_loss) {
        return BASE_OK; // told twice
    }
    BASE_TRY(read_records(tunnel, &split));
    BASE_TRY(read_refused(reject, &split));
    base_log_debug(tunnel->ports.log, "tunnel",
                   "class %u: batch %llu, %u records from %d on refused: %s", class->id,
                   (unsigned long long)reject->number, (unsigned)split.refused, (int)reject->record,
                   base_status_text((enum base_status)reject->status));
    return split.refused == split.count ? refuse_batch(tunnel, class, now_us, slot, &split)
                                        : split_batch(tunnel, class, now_us, slot, &split);
}

enum base_status tunnel_on_reject(struct dev_tunnel *tunnel, struct tunnel_class *class,
                                  uint64_t now_us, const struct wire_tunnel_reject *reject)
{
    uint64_t slot = base_sat_add_u64(class->state.base_slot, reject->number);
    uint32_t index = 0;
    if (slot < class->state.tail || slot >= class->sent_end || slot >= class->next) {
        return BASE_ERR_INVALID;
    }
    bool under_way = tunnel_in_flight(tunnel, class, slot, &index);
    base_assert(!under_way || slot < class->send_next);
    if (!under_way && slot < class->send_next) {
        return BASE_ERR_INVALID; // within a LOSS
    }
    tunnel->stats.rejects++;
    if (under_way && tunnel_flight_at(tunnel, class, index)->is_loss) {
        return BASE_OK; // told twice
    }
    if (under_way || (class->part.active && slot == class->send_next)) {
        tunnel_go_back(tunnel, class, slot);
    }
    enum base_status status = tunnel_load(tunnel, class, slot);
    if (status == BASE_ERR_NOT_FOUND) {
        return BASE_OK; // dropped meanwhile: it is part of a LOSS
    }
    BASE_TRY(status); // damaged: sending finds it so too
    status = take_apart(tunnel, class, now_us, slot, reject);
    tunnel_unload(tunnel);
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
    const struct dev_kv_range range = {
        .space = DEV_SPACE_QUEUE, .prefix = prefix, .prefix_size = sizeof(prefix)};
    return dev_collect_scan(tunnel->collect, now_us, &range, visit_quarantine, &walk);
}
