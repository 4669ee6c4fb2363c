// Reading back what is queued, and mending what cannot be read.
//
// The entries of a class follow each other without gaps in slots and seqs, so a hole shows how many
// records were in it: it becomes LOSS(DAMAGED). When the gateway may have seen what is gone, or the
// state is gone, a new epoch begins, for nothing can be compared any more. Called at boot, and when
// sending finds a damaged entry; on the runtime's thread.
#include "tunnel/tunnel_boot.h"

#include "tunnel/tunnel_chain.h"
#include "tunnel/tunnel_private.h"
#include "tunnel/tunnel_reject.h"

#include "base/check.h"

#include <string.h>

#define BAD_MAX 64 // unreadable entries mended at a time

struct reading {
    const struct tunnel_class *class;
    bool anchored; // at is known; else the first good entry says it
    uint64_t tail;
    uint64_t tail_seq;
    uint64_t at; // slot and seq expected next
    uint64_t at_seq;
    uint64_t queued;
    uint64_t waiting[TUNNEL_LOST];
    uint64_t bytes;
    bool tail_loss;
    uint64_t loss_slot;
    struct tunnel_entry loss;
    // The first hole: up to the good entry behind it, or to the end.
    bool hole;
    bool hole_ends;
    uint64_t end;
    uint64_t end_seq;
    uint64_t bad_records; // of unreadable entries, as far as one can tell
    uint32_t bad_count;
    uint64_t bad[BAD_MAX];
};

// The head of the entry is damaged; what is behind it may still tell.
static uint64_t guess_records(const uint8_t *value, size_t size)
{
    struct wire_batch batch;
    uint32_t bad = 0;
    bool ok = size > TUNNEL_ENTRY_HEAD &&
              wire_batch_parse(value + TUNNEL_ENTRY_HEAD, size - TUNNEL_ENTRY_HEAD, &batch, &bad) ==
                  BASE_OK;
    return ok ? batch.record_count : 1;
}

static bool read_bad(struct reading *reading, uint64_t slot, const uint8_t *value, size_t size)
{
    base_assert(reading->bad_count < BAD_MAX);
    reading->hole = true;
    reading->bad[reading->bad_count++] = slot;
    reading->bad_records += guess_records(value, size);
    return reading->bad_count < BAD_MAX;
}

static void take_entry(struct reading *reading, uint64_t slot, const struct tunnel_entry *entry)
{
    base_assert(slot == reading->at && entry->seq == reading->at_seq);
    if (entry->is_loss) {
        reading->waiting[entry->reason] += entry->count;
        reading->loss = *entry;
        reading->loss_slot = slot;
    } else {
        reading->queued += entry->count;
    }
    reading->tail_loss = entry->is_loss;
    reading->bytes += TUNNEL_KEY + TUNNEL_ENTRY_HEAD + entry->payload_bytes;
    reading->at = slot + entry->numbers;
    reading->at_seq = entry->seq + entry->count;
}

static bool visit_entry(void *ctx, const uint8_t *key, size_t key_size, const uint8_t *value,
                        size_t value_size)
{
    struct reading *reading = ctx;
    if (key_size != TUNNEL_KEY) {
        return true;
    }
    uint64_t slot = tunnel_key_slot(key);
    struct tunnel_entry entry;
    bool readable = tunnel_entry_read(reading->class, slot, value, value_size, &entry) == BASE_OK;
    if (readable && !reading->anchored && !reading->hole) {
        reading->anchored = true;
        reading->tail = reading->at = slot;
        reading->tail_seq = reading->at_seq = entry.seq;
    }
    if (!readable || slot < reading->at || entry.seq < reading->at_seq) {
        return read_bad(reading, slot, value, value_size);
    }
    if (!reading->hole && slot == reading->at && entry.seq == reading->at_seq) {
        take_entry(reading, slot, &entry);
        return true;
    }
    reading->hole = true;
    reading->hole_ends = true;
    reading->end = slot;
    reading->end_seq = entry.seq;
    if (!reading->anchored) { // nobody knows the tail, so it is the first unreadable entry
        base_assert(reading->bad_count > 0);
        uint64_t bad = reading->bad_records < entry.seq ? reading->bad_records : entry.seq;
        reading->anchored = true;
        reading->tail = reading->at = reading->bad[0];
        reading->tail_seq = reading->at_seq = entry.seq - bad;
    }
    return false;
}

static enum base_status read_class(struct dev_tunnel *tunnel, struct tunnel_class *class,
                                   uint64_t now_us, bool anchored, struct reading *reading)
{
    *reading = (struct reading){
        .class = class,
        .anchored = anchored,
        .tail = class->state.tail,
        .tail_seq = class->state.tail_seq,
        .at = class->state.tail,
        .at_seq = class->state.tail_seq,
    };
    uint8_t key[TUNNEL_KEY];
    tunnel_key(class, class->state.tail, key);
    const struct dev_kv_range range = tunnel_range(key);
    return dev_collect_scan(tunnel->collect, now_us, &range, visit_entry, reading);
}

// Puts a LOSS where the hole is. A hole without a known number of records (its end says so) is
// only emptied.
static enum base_status mend(struct dev_tunnel *tunnel, struct tunnel_class *class, uint64_t now_us,
                             const struct reading *reading)
{
    base_assert(reading->hole && (reading->hole_ends || reading->bad_count > 0));
    uint64_t end = reading->hole_ends ? reading->end : reading->bad[reading->bad_count - 1] + 1;
    uint64_t count = reading->hole_ends ? reading->end_seq - reading->at_seq : reading->bad_records;
    bool fills = end > reading->at && count > 0 && end - reading->at <= UINT32_MAX;
    const struct tunnel_entry loss = {
        .is_loss = true,
        .reason = WIRE_TUNNEL_LOSS_DAMAGED,
        .numbers = fills ? (uint32_t)(end - reading->at) : 1,
        .seq = reading->at_seq,
        .count = count,
        .closed_us = now_us,
    };
    base_log_debug(tunnel->ports.log, "tunnel", "class %u: %llu records damaged in the store",
                   class->id, (unsigned long long)count);
    dev_collect_begin(tunnel->collect);
    enum base_status status = BASE_OK;
    for (uint32_t i = 0; i < reading->bad_count && status == BASE_OK; i++) {
        status = tunnel_delete_entry(tunnel, class, now_us, reading->bad[i]);
    }
    if (status == BASE_OK && fills) {
        status = tunnel_put_loss(tunnel, class, now_us, reading->at, &loss);
    }
    enum base_status ended = dev_collect_end(tunnel->collect, now_us);
    if (status == BASE_OK && !fills && reading->bad_count == 0) {
        return BASE_ERR_CORRUPT; // nothing that could be mended
    }
    return status != BASE_OK ? status : ended;
}

static void take_reading(struct tunnel_class *class, const struct reading *reading)
{
    base_assert(!reading->hole && reading->at >= class->state.tail);
    class->next = reading->at;
    class->next_seq = reading->at_seq;
    class->queued = reading->queued;
    memcpy(class->waiting, reading->waiting, sizeof(class->waiting));
    class->queue_bytes = reading->bytes;
    class->tail_loss = reading->tail_loss;
    class->loss_slot = reading->loss_slot;
    class->loss = reading->loss;
}

static uint64_t lost_records(const struct tunnel_class *class)
{
    uint64_t sum = 0;
    for (unsigned reason = WIRE_TUNNEL_LOSS_QUOTA; reason < TUNNEL_LOST; reason++) {
        if (reason != WIRE_TUNNEL_LOSS_SPLIT) {
            sum += class->state.lost[reason] + class->waiting[reason] + class->pending[reason];
        }
    }
    return sum;
}

// Reads and mends until there is no hole. *out_seen: a hole began below the bound.
static enum base_status read_and_mend(struct dev_tunnel *tunnel, struct tunnel_class *class,
                                      uint64_t now_us, bool anchored, bool *out_seen)
{
    struct reading reading;
    for (;;) {
        BASE_TRY(read_class(tunnel, class, now_us, anchored, &reading));
        if (!anchored && reading.anchored) {
            class->state.tail = reading.tail;
            class->state.tail_seq = reading.tail_seq;
            anchored = true;
        }
        if (!reading.hole) {
            break;
        }
        *out_seen = *out_seen || reading.at < class->state.bound;
        BASE_TRY(mend(tunnel, class, now_us, &reading));
    }
    take_reading(class, &reading);
    class->produced =
        class->state.durable + class->queued + class->open.count + lost_records(class);
    return BASE_OK;
}

enum base_status tunnel_boot_class(struct dev_tunnel *tunnel, struct tunnel_class *class,
                                   uint64_t now_us)
{
    enum base_status status = tunnel_get_state(tunnel, class, &class->state);
    bool known = status == BASE_OK;
    bool renew = !known;
    if (!known && status != BASE_ERR_NOT_FOUND && status != BASE_ERR_CORRUPT) {
        return status;
    }
    if (!known) {
        class->state = (struct tunnel_state){0};
    }
    BASE_TRY(read_and_mend(tunnel, class, now_us, known, &renew));
    if (!known) {
        class->state.base_slot = class->state.tail;
        class->state.base_seq = class->state.tail_seq;
    }
    class->maybe_sent = class->state.bound < class->next ? class->state.bound : class->next;
    class->maybe_sent =
        class->maybe_sent > class->state.tail ? class->maybe_sent : class->state.tail;
    base_assert(class->maybe_sent >= class->state.tail && class->maybe_sent <= class->next);
    class->boot_next = class->next;
    class->sent_end = class->maybe_sent;
    tunnel_restart_sending(class);
    return renew ? tunnel_new_epoch(tunnel, class, now_us) : BASE_OK;
}

struct peek {
    const struct tunnel_class *class;
    enum base_status status;
    struct tunnel_entry entry;
};

// The head alone, of whatever size the entry is: one of a time with larger batches has to go too.
static bool visit_peek(void *ctx, const uint8_t *key, size_t key_size, const uint8_t *value,
                       size_t value_size)
{
    struct peek *peek = ctx;
    (void)key_size;
    peek->status =
        tunnel_entry_read(peek->class, tunnel_key_slot(key), value, value_size, &peek->entry);
    return false;
}

enum base_status tunnel_repair(struct dev_tunnel *tunnel, struct tunnel_class *class,
                               uint64_t now_us)
{
    base_assert(class->send_next < class->next);
    if (class->send_next <
        class->maybe_sent) { // the gateway may have it, and we cannot compare any more
        BASE_TRY(tunnel_new_epoch(tunnel, class, now_us));
        tunnel_give_up(tunnel, class->stream, now_us, "a batch under way is damaged in the store");
        return BASE_ERR_BUSY;
    }
    // With a sound head it is known what is lost; else the whole queue is read anew.
    struct peek peek = {.class = class, .status = BASE_ERR_NOT_FOUND};
    uint8_t key[TUNNEL_KEY];
    tunnel_key(class, class->send_next, key);
    const struct dev_kv_range range = {
        .space = DEV_SPACE_QUEUE, .prefix = key, .prefix_size = sizeof(key)};
    BASE_TRY(dev_collect_scan(tunnel->collect, now_us, &range, visit_peek, &peek));
    if (peek.status == BASE_OK) {
        const struct tunnel_entry loss = {
            .is_loss = true,
            .reason = WIRE_TUNNEL_LOSS_DAMAGED,
            .numbers = peek.entry.numbers,
            .seq = peek.entry.seq,
            .count = peek.entry.count,
            .closed_us = now_us,
        };
        BASE_TRY(tunnel_put_loss(tunnel, class, now_us, class->send_next, &loss));
    }
    bool seen = false;
    BASE_TRY(read_and_mend(tunnel, class, now_us, true, &seen));
    return BASE_OK;
}

// ---- Quarantine

static bool visit_serial(void *ctx, const uint8_t *key, size_t key_size, const uint8_t *value,
                         size_t value_size)
{
    (void)value;
    (void)value_size;
    uint64_t *serial = ctx;
    if (key_size == TUNNEL_KEY) {
        *serial = tunnel_key_slot(key) + 1;
    }
    return true;
}

enum base_status tunnel_boot_quarantine(struct dev_tunnel *tunnel, uint64_t now_us)
{
    static const uint8_t prefix[1] = {TUNNEL_QUARANTINE};
    tunnel->quarantine_serial = 0;
    const struct dev_kv_range range = {
        .space = DEV_SPACE_QUEUE, .prefix = prefix, .prefix_size = sizeof(prefix)};
    return dev_collect_scan(tunnel->collect, now_us, &range, visit_serial,
                            &tunnel->quarantine_serial);
}
