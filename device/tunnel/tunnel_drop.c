// What is given up: losses counted, placed in the queue, and batches turned into losses.
//
// A LOSS stands in the queue where the records stood. Neighbours that nobody has seen grow
// together, so a device that was offline for a month has one LOSS and not thousands. Called by the
// other files of the tunnel, on the runtime's thread.
#include "tunnel/tunnel_private.h"

struct absorbed {
    uint64_t slot;
    struct tunnel_entry entry;
};

struct absorb {
    const struct dev_tunnel *t;
    const struct tunnel_class *c;
    uint64_t now_us;
    uint64_t bytes; // wanted
    bool expired_only;
    uint64_t freed;
    uint32_t count;
    struct absorbed items[TUNNEL_ABSORB_MAX];
};

void tunnel_count_loss(struct tunnel_class *c, uint8_t reason, uint64_t count)
{
    c->pending[reason] += count;
}

static void place(struct dev_tunnel *t, struct tunnel_class *c, uint64_t now_us, uint8_t reason)
{
    uint64_t count = c->pending[reason];
    bool grows = tunnel_mergeable(c, reason);
    struct tunnel_entry entry = {
        .is_loss = true, .reason = reason, .numbers = 1, .seq = c->next_seq, .closed_us = now_us};
    if (grows) {
        entry = c->loss;
    }
    entry.count += count;
    uint64_t slot = grows ? c->loss_slot : c->next;
    if (tunnel_put_loss(t, c, now_us, slot, &entry) != BASE_OK) {
        return; // the next step tries again
    }
    if (!grows) {
        c->next++;
        c->queue_bytes += TUNNEL_KEY + TUNNEL_ENTRY_HEAD;
    }
    c->next_seq += count;
    c->waiting[reason] += count;
    c->pending[reason] = 0;
    c->tail_loss = true;
    c->loss_slot = slot;
    c->loss = entry;
    if (t->raw_class == c && t->raw_slot == slot) {
        tunnel_unload(t);
    }
}

void tunnel_place_pending(struct dev_tunnel *t, struct tunnel_class *c, uint64_t now_us)
{
    for (uint8_t reason = WIRE_TUNNEL_LOSS_QUOTA; reason < WIRE_TUNNEL_LOSS_END; reason++) {
        if (c->pending[reason] > 0) {
            place(t, c, now_us, reason);
        }
    }
}

// ---- Batches that become a LOSS

bool tunnel_is_expired(const struct dev_tunnel *t, const struct tunnel_class *c, uint64_t slot,
                       const struct tunnel_entry *entry, uint64_t now_us)
{
    if (c->id != 1 || entry->is_loss) {
        return false;
    }
    return slot < c->boot_next ||
           now_us > base_sat_add_u64(entry->closed_us, t->config.fresh_ms * TUNNEL_MS);
}

static bool visit_absorb(void *ctx, const uint8_t *key, size_t key_size, const uint8_t *value,
                         size_t value_size)
{
    struct absorb *absorb = ctx;
    struct tunnel_entry entry;
    if (key_size != TUNNEL_KEY) {
        return true;
    }
    uint64_t slot = tunnel_key_slot(key);
    bool readable = tunnel_entry_read(absorb->c, slot, value, value_size, &entry) == BASE_OK;
    bool stands = !readable || (entry.is_loss && entry.reason == WIRE_TUNNEL_LOSS_SPLIT) ||
                  (absorb->expired_only && !entry.is_loss &&
                   !tunnel_is_expired(absorb->t, absorb->c, slot, &entry, absorb->now_us));
    if (stands) { // neither dropped nor taken in
        return absorb->count == 0 && !absorb->expired_only;
    }
    if (absorb->count > 0) { // without a gap
        const struct absorbed *last = &absorb->items[absorb->count - 1];
        if (slot != last->slot + last->entry.numbers) {
            return false;
        }
    }
    absorb->items[absorb->count++] = (struct absorbed){slot, entry};
    absorb->freed += entry.is_loss ? 0 : value_size;
    return absorb->count < TUNNEL_ABSORB_MAX && absorb->freed < absorb->bytes;
}

static struct tunnel_entry sum_of(const struct absorb *absorb, uint8_t reason)
{
    struct tunnel_entry sum = {.is_loss = true,
                               .reason = reason,
                               .seq = absorb->items[0].entry.seq,
                               .closed_us = absorb->now_us};
    for (uint32_t i = 0; i < absorb->count; i++) {
        sum.numbers += absorb->items[i].entry.numbers;
        sum.count += absorb->items[i].entry.count;
    }
    return sum;
}

static enum base_status store_absorbed(struct dev_tunnel *t, struct tunnel_class *c,
                                       const struct absorb *absorb, const struct tunnel_entry *sum)
{
    dev_collect_begin(t->collect);
    enum base_status status = tunnel_put_loss(t, c, absorb->now_us, absorb->items[0].slot, sum);
    for (uint32_t i = 1; i < absorb->count && status == BASE_OK; i++) {
        status = tunnel_delete_entry(t, c, absorb->now_us, absorb->items[i].slot);
    }
    enum base_status ended = dev_collect_end(t->collect, absorb->now_us);
    return status != BASE_OK ? status : ended;
}

static void count_absorbed(struct dev_tunnel *t, struct tunnel_class *c,
                           const struct absorb *absorb, const struct tunnel_entry *sum)
{
    for (uint32_t i = 0; i < absorb->count; i++) {
        const struct tunnel_entry *entry = &absorb->items[i].entry;
        if (entry->is_loss) {
            c->waiting[entry->reason] -= entry->count;
        } else {
            c->queued -= entry->count;
        }
        c->queue_bytes -= TUNNEL_KEY + TUNNEL_ENTRY_HEAD + entry->payload_bytes;
    }
    c->queue_bytes += TUNNEL_KEY + TUNNEL_ENTRY_HEAD;
    c->waiting[sum->reason] += sum->count;
    uint64_t first = absorb->items[0].slot;
    uint64_t end = first + sum->numbers;
    if (end == c->next) {
        c->tail_loss = true;
        c->loss_slot = first;
        c->loss = *sum;
    }
    if (t->raw_class == c && t->raw_slot >= first && t->raw_slot < end) {
        tunnel_unload(t);
    }
    if (c->part.known && c->part.slot >= first && c->part.slot < end) {
        c->part = (struct tunnel_part){0};
    }
}

// One run of entries from `from` on; bytes freed.
static uint64_t absorb_run(struct dev_tunnel *t, struct tunnel_class *c, struct absorb *absorb,
                           uint64_t from, uint8_t reason)
{
    uint8_t key[TUNNEL_KEY];
    tunnel_key(c, from, key);
    absorb->freed = 0;
    absorb->count = 0;
    enum base_status status = dev_collect_scan(t->collect, absorb->now_us, DEV_SPACE_QUEUE, key, 1,
                                               key, sizeof(key), visit_absorb, absorb);
    if (status != BASE_OK || absorb->freed == 0) {
        return 0;
    }
    const struct tunnel_entry sum = sum_of(absorb, reason);
    if (store_absorbed(t, c, absorb, &sum) != BASE_OK) {
        return 0;
    }
    count_absorbed(t, c, absorb, &sum);
    return absorb->freed;
}

uint64_t tunnel_drop_oldest(struct dev_tunnel *t, struct tunnel_class *c, uint64_t now_us,
                            uint64_t bytes, uint8_t reason)
{
    struct absorb absorb = {.t = t, .c = c, .now_us = now_us};
    uint64_t total = 0;
    while (total < bytes) {
        absorb.bytes = bytes - total;
        uint64_t freed = absorb_run(t, c, &absorb, c->maybe_sent, reason);
        if (freed == 0) {
            break;
        }
        total += freed;
    }
    return total;
}

bool tunnel_drop_expired(struct dev_tunnel *t, struct tunnel_class *c, uint64_t now_us)
{
    if (c->send_next < c->maybe_sent) {
        return false;
    }
    struct absorb absorb = {
        .t = t, .c = c, .now_us = now_us, .bytes = UINT64_MAX, .expired_only = true};
    return absorb_run(t, c, &absorb, c->send_next, WIRE_TUNNEL_LOSS_EXPIRED) > 0;
}
