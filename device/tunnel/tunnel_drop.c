// What is given up: losses counted, placed in the queue, and batches turned into losses.
//
// A LOSS stands in the queue where the records stood. Neighbours that nobody has seen grow
// together, so a device that was offline for a month has one LOSS and not thousands. Called by the
// other files of the tunnel, on the runtime's thread.
#include "tunnel/tunnel_drop.h"

#include "tunnel/tunnel_private.h"

#include "base/check.h"

struct absorbed {
    uint64_t slot;
    struct tunnel_entry entry;
};

struct absorb {
    const struct dev_tunnel *tunnel;
    const struct tunnel_class *class;
    uint64_t now_us;
    uint64_t bytes; // wanted
    bool expired_only;
    uint64_t freed;
    uint32_t count;
    struct absorbed items[TUNNEL_ABSORB_MAX];
};

void tunnel_count_loss(struct tunnel_class *class, uint8_t reason, uint64_t count)
{
    base_assert(reason >= WIRE_TUNNEL_LOSS_QUOTA && reason < WIRE_TUNNEL_LOSS_END);
    class->pending[reason] += count;
}

static bool is_mergeable(const struct tunnel_class *class, uint8_t reason)
{
    return class->tail_loss && class->loss.reason == reason &&
           class->loss_slot >= class->maybe_sent;
}

static void place(struct dev_tunnel *tunnel, struct tunnel_class *class, uint64_t now_us,
                  uint8_t reason)
{
    base_assert(class->pending[reason] > 0);
    uint64_t count = class->pending[reason];
    bool grows = is_mergeable(class, reason);
    struct tunnel_entry entry = {.is_loss = true,
                                 .reason = reason,
                                 .numbers = 1,
                                 .seq = class->next_seq,
                                 .closed_us = now_us};
    if (grows) {
        entry = class->loss;
    }
    entry.count += count;
    uint64_t slot = grows ? class->loss_slot : class->next;
    base_assert(slot >= class->maybe_sent); // nobody has seen it
    if (tunnel_put_loss(tunnel, class, now_us, slot, &entry) != BASE_OK) {
        return; // the next step tries again
    }
    if (!grows) {
        class->next++;
        class->queue_bytes += TUNNEL_KEY + TUNNEL_ENTRY_HEAD;
    }
    class->next_seq += count;
    class->waiting[reason] += count;
    class->pending[reason] = 0;
    class->tail_loss = true;
    class->loss_slot = slot;
    class->loss = entry;
    if (tunnel->buffers.raw_class == class && tunnel->buffers.raw_slot == slot) {
        tunnel_unload(tunnel);
    }
}

void tunnel_place_pending(struct dev_tunnel *tunnel, struct tunnel_class *class, uint64_t now_us)
{
    for (uint8_t reason = WIRE_TUNNEL_LOSS_QUOTA; reason < WIRE_TUNNEL_LOSS_END; reason++) {
        if (class->pending[reason] > 0) {
            place(tunnel, class, now_us, reason);
        }
    }
}

// ---- Batches that become a LOSS

bool tunnel_is_expired(const struct dev_tunnel *tunnel, const struct tunnel_class *class,
                       uint64_t slot, const struct tunnel_entry *entry, uint64_t now_us)
{
    if (class->id != 1 || entry->is_loss) {
        return false;
    }
    return slot < class->boot_next ||
           now_us > base_sat_add_u64(entry->closed_us, tunnel->config.fresh_ms * TUNNEL_MS);
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
    bool readable = tunnel_entry_read(absorb->class, slot, value, value_size, &entry) == BASE_OK;
    bool stands = !readable || (entry.is_loss && entry.reason == WIRE_TUNNEL_LOSS_SPLIT) ||
                  (absorb->expired_only && !entry.is_loss &&
                   !tunnel_is_expired(absorb->tunnel, absorb->class, slot, &entry, absorb->now_us));
    if (stands) { // neither dropped nor taken in
        return absorb->count == 0 && !absorb->expired_only;
    }
    if (absorb->count > 0) { // without a gap
        const struct absorbed *last = &absorb->items[absorb->count - 1];
        if (slot != last->slot + last->entry.numbers) {
            return false;
        }
    }
    base_assert(absorb->count < TUNNEL_ABSORB_MAX);
    absorb->items[absorb->count++] = (struct absorbed){slot, entry};
    absorb->freed += entry.is_loss ? 0 : value_size;
    return absorb->count < TUNNEL_ABSORB_MAX && absorb->freed < absorb->bytes;
}

static struct tunnel_entry sum_of(const struct absorb *absorb, uint8_t reason)
{
    base_assert(absorb->count > 0);
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

static enum base_status store_absorbed(struct dev_tunnel *tunnel, struct tunnel_class *class,
                                       const struct absorb *absorb, const struct tunnel_entry *sum)
{
    dev_collect_begin(tunnel->collect);
    enum base_status status =
        tunnel_put_loss(tunnel, class, absorb->now_us, absorb->items[0].slot, sum);
    for (uint32_t i = 1; i < absorb->count && status == BASE_OK; i++) {
        status = tunnel_delete_entry(tunnel, class, absorb->now_us, absorb->items[i].slot);
    }
    enum base_status ended = dev_collect_end(tunnel->collect, absorb->now_us);
    return status != BASE_OK ? status : ended;
}

static void count_absorbed(struct dev_tunnel *tunnel, struct tunnel_class *class,
                           const struct absorb *absorb, const struct tunnel_entry *sum)
{
    for (uint32_t i = 0; i < absorb->count; i++) {
        const struct tunnel_entry *entry = &absorb->items[i].entry;
        if (entry->is_loss) {
            base_assert(class->waiting[entry->reason] >= entry->count);
            class->waiting[entry->reason] -= entry->count;
        } else {
            base_assert(class->queued >= entry->count);
            class->queued -= entry->count;
        }
        class->queue_bytes -= TUNNEL_KEY + TUNNEL_ENTRY_HEAD + entry->payload_bytes;
    }
    class->queue_bytes += TUNNEL_KEY + TUNNEL_ENTRY_HEAD;
    class->waiting[sum->reason] += sum->count;
    uint64_t first = absorb->items[0].slot;
    uint64_t end = first + sum->numbers;
    if (end == class->next) {
        class->tail_loss = true;
        class->loss_slot = first;
        class->loss = *sum;
    }
    if (tunnel->buffers.raw_class == class && tunnel->buffers.raw_slot >= first &&
        tunnel->buffers.raw_slot < end) {
        tunnel_unload(tunnel);
    }
    if (class->part.known && class->part.slot >= first && class->part.slot < end) {
        class->part = (struct tunnel_part){0};
    }
}

// One run of entries from `from` on; bytes freed.
static uint64_t absorb_run(struct dev_tunnel *tunnel, struct tunnel_class *class,
                           struct absorb *absorb, uint64_t from, uint8_t reason)
{
    base_assert(from >= class->maybe_sent);
    uint8_t key[TUNNEL_KEY];
    tunnel_key(class, from, key);
    absorb->freed = 0;
    absorb->count = 0;
    const struct dev_kv_range range = tunnel_range(key);
    enum base_status status =
        dev_collect_scan(tunnel->collect, absorb->now_us, &range, visit_absorb, absorb);
    if (status != BASE_OK || absorb->freed == 0) {
        return 0;
    }
    const struct tunnel_entry sum = sum_of(absorb, reason);
    if (store_absorbed(tunnel, class, absorb, &sum) != BASE_OK) {
        return 0;
    }
    count_absorbed(tunnel, class, absorb, &sum);
    return absorb->freed;
}

uint64_t tunnel_drop_oldest(struct dev_tunnel *tunnel, struct tunnel_class *class, uint64_t now_us,
                            uint64_t bytes, uint8_t reason)
{
    struct absorb absorb = {.tunnel = tunnel, .class = class, .now_us = now_us};
    uint64_t total = 0;
    while (total < bytes) {
        absorb.bytes = bytes - total;
        uint64_t freed = absorb_run(tunnel, class, &absorb, class->maybe_sent, reason);
        if (freed == 0) {
            break;
        }
        total += freed;
    }
    return total;
}

bool tunnel_drop_expired(struct dev_tunnel *tunnel, struct tunnel_class *class, uint64_t now_us)
{
    if (class->send_next < class->maybe_sent) {
        return false;
    }
    struct absorb absorb = {.tunnel = tunnel,
                            .class = class,
                            .now_us = now_us,
                            .bytes = UINT64_MAX,
                            .expired_only = true};
    return absorb_run(tunnel, class, &absorb, class->send_next, WIRE_TUNNEL_LOSS_EXPIRED) > 0;
}
