// Epochs and the chain: what is under way, what the gateway has, and whether it is ours.
//
// The flight is a ring of entries from the tail on with the chain's hash behind each. Called by the
// other files of the tunnel, on the runtime's thread.
#include "tunnel/tunnel_chain.h"

#include "tunnel/tunnel_private.h"

#include "base/check.h"

struct tunnel_flight *tunnel_flight_at(struct dev_tunnel *tunnel, struct tunnel_class *class,
                                       uint32_t index)
{
    base_assert(index < class->flight_count);
    return &class->flight[(class->flight_head + index) % tunnel->config.window];
}

void tunnel_flight_push(struct dev_tunnel *tunnel, struct tunnel_class *class,
                        const struct tunnel_flight *flight)
{
    base_assert(class->flight_count < tunnel->config.window && flight->numbers >= 1);
    class->flight_count++;
    *tunnel_flight_at(tunnel, class, class->flight_count - 1) = *flight;
    class->send_next += flight->numbers;
    class->send_seq += flight->count;
    class->send_hash = flight->hash;
}

void tunnel_restart_sending(struct tunnel_class *class)
{
    base_assert(class->state.base_slot <= class->state.tail);
    class->flight_count = 0;
    class->send_next = class->state.tail;
    class->send_seq = class->state.tail_seq;
    class->send_hash = class->state.tail_hash;
    class->part.active = false;
}

// ---- A walk over stored entries with their hashes

struct walk {
    struct dev_tunnel *tunnel;
    struct tunnel_class *class;
    uint64_t to;    // slot
    bool to_flight; // push; else only hash
    uint64_t at;
    uint64_t hash;
    enum base_status status;
};

static bool visit_walk(void *ctx, const uint8_t *key, size_t key_size, const uint8_t *value,
                       size_t value_size)
{
    struct walk *walk = ctx;
    base_assert(walk->status == BASE_OK); // false ends a scan
    struct tunnel_entry entry;
    uint64_t slot = key_size == TUNNEL_KEY ? tunnel_key_slot(key) : UINT64_MAX;
    if (walk->at >= walk->to) {
        return false;
    }
    if (slot != walk->at ||
        tunnel_entry_read(walk->class, slot, value, value_size, &entry) != BASE_OK) {
        walk->status = BASE_ERR_CORRUPT;
        return false;
    }
    walk->hash = tunnel_chain_of(walk->class, slot, &entry, value + TUNNEL_ENTRY_HEAD, walk->hash);
    walk->at += entry.numbers;
    if (walk->to_flight) {
        const struct tunnel_flight flight = {
            .hash = walk->hash,
            .count = entry.count,
            .numbers = entry.numbers,
            .entry_bytes = (uint32_t)(TUNNEL_KEY + value_size),
            .is_loss = entry.is_loss,
            .reason = entry.reason,
        };
        tunnel_flight_push(walk->tunnel, walk->class, &flight);
        return walk->class->flight_count < walk->tunnel->config.window;
    }
    return true;
}

// From the tail to `to`; what stops short of it is CORRUPT.
static enum base_status walk_to(struct walk *walk, uint64_t now_us)
{
    base_assert(walk->to >= walk->class->state.tail && walk->to <= walk->class->next);
    uint8_t key[TUNNEL_KEY];
    walk->at = walk->class->state.tail;
    walk->hash = walk->class->state.tail_hash;
    tunnel_key(walk->class, walk->at, key);
    const struct dev_kv_range range = tunnel_range(key);
    enum base_status status =
        dev_collect_scan(walk->tunnel->collect, now_us, &range, visit_walk, walk);
    return status != BASE_OK ? status : walk->status;
}

// ---- What is durable leaves

static void count_settled(struct tunnel_class *class, struct tunnel_state *state,
                          const struct tunnel_flight *flight)
{
    (void)class;
    if (!flight->is_loss) {
        state->durable += flight->count;
    } else if (flight->reason != WIRE_TUNNEL_LOSS_SPLIT) {
        state->lost[flight->reason] += flight->count;
    }
    state->tail += flight->numbers;
    state->tail_seq += flight->count;
    state->tail_hash = flight->hash;
}

// The first `count` of the flight are durable at the gateway: one commit says so and deletes them.
static enum base_status settle_some(struct dev_tunnel *tunnel, struct tunnel_class *class,
                                    uint64_t now_us, uint32_t count)
{
    base_assert(count > 0 && count <= class->flight_count);
    struct tunnel_state state = class->state;
    for (uint32_t i = 0; i < count; i++) {
        count_settled(class, &state, tunnel_flight_at(tunnel, class, i));
    }
    bool is_up = tunnel->streams[class->stream].state != TUNNEL_CLOSED;
    uint64_t promise = class->send_next + (is_up ? tunnel->config.window : 0);
    state.bound = promise > class->maybe_sent ? promise : class->maybe_sent;
    state.bound = state.bound > state.tail ? state.bound : state.tail;
    uint64_t mark = dev_collect_changes(tunnel->collect) + 1;
    dev_collect_begin(tunnel->collect);
    enum base_status status = tunnel_put_state(tunnel, class, now_us, &state, false);
    uint64_t slot = class->state.tail;
    for (uint32_t i = 0; i < count && status == BASE_OK; i++) {
        status = tunnel_delete_entry(tunnel, class, now_us, slot);
        slot += tunnel_flight_at(tunnel, class, i)->numbers;
    }
    enum base_status ended = dev_collect_end(tunnel->collect, now_us);
    status = status != BASE_OK ? status : ended;
    if (status != BASE_OK) {
        return status;
    }
    if (state.bound > class->state.bound) {
        class->bound_mark = mark;
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct tunnel_flight *flight = tunnel_flight_at(tunnel, class, i);
        if (!flight->is_loss) {
            base_assert(class->queued >= flight->count);
            class->queued -= flight->count;
        } else {
            base_assert(class->waiting[flight->reason] >= flight->count);
            class->waiting[flight->reason] -= flight->count;
        }
        class->queue_bytes -= flight->entry_bytes;
    }
    class->state = state;
    class->flight_head = (class->flight_head + count) % tunnel->config.window;
    class->flight_count -= count;
    return BASE_OK;
}

static uint32_t settled_count(struct dev_tunnel *tunnel, struct tunnel_class *class)
{
    uint64_t at = class->state.tail;
    uint32_t count = 0;
    while (count < class->flight_count) {
        at += tunnel_flight_at(tunnel, class, count)->numbers;
        if (at > class->acked) {
            break;
        }
        count++;
    }
    return count;
}

static void after_settling(struct tunnel_class *class)
{
    class->maybe_sent =
        class->maybe_sent > class->state.tail ? class->maybe_sent : class->state.tail;
    if (class->tail_loss && class->loss_slot < class->state.tail) {
        class->tail_loss = false;
    }
}

void tunnel_settle(struct dev_tunnel *tunnel, struct tunnel_class *class, uint64_t now_us)
{
    base_assert(class->acked <= class->next);
    bool refilled = false;
    class->ack_waits = true;
    while (class->state.tail < class->acked) {
        if (class->flight_count == 0) { // nothing of it was sent on this stream
            struct walk walk = {
                .tunnel = tunnel, .class = class, .to = class->acked, .to_flight = true};
            tunnel_restart_sending(class);
            if (walk_to(&walk, now_us) != BASE_OK || class->flight_count == 0) {
                tunnel_restart_sending(class);
                return;
            }
            refilled = true;
        }
        uint32_t count = settled_count(tunnel, class);
        if (count == 0) { // within a LOSS: as a whole or not at all
            class->acked = class->state.tail;
            if (refilled) {
                tunnel_restart_sending(class);
            }
            break;
        }
        if (settle_some(tunnel, class, now_us, count) != BASE_OK) {
            return;
        }
        after_settling(class);
    }
    class->ack_waits = false;
}

// ---- Forks

enum base_status tunnel_new_epoch(struct dev_tunnel *tunnel, struct tunnel_class *class,
                                  uint64_t now_us)
{
    struct tunnel_state state = class->state;
    base_assert(state.base_slot <= state.tail && state.tail <= class->next);
    uint32_t counter = (class->state.epoch >> 16) + 1;
    state.epoch =
        counter << 16 | (uint32_t)(tunnel->ports.random.next(tunnel->ports.random.ctx) & 0xffff);
    state.base_slot = state.tail;
    state.base_seq = state.tail_seq;
    state.tail_hash = wire_tunnel_chain_first(tunnel->config.device_id, class->id, state.epoch);
    state.bound = state.tail;
    uint64_t mark = dev_collect_changes(tunnel->collect) + 1;
    BASE_TRY(tunnel_put_state(tunnel, class, now_us, &state, true));
    base_log_debug(tunnel->ports.log, "tunnel", "class %u: epoch %08x, %llu entries carried over",
                   class->id, (unsigned)state.epoch,
                   (unsigned long long)(class->next - state.tail));
    class->state = state;
    class->bound_mark = mark;
    class->maybe_sent = state.tail;
    class->ack_waits = false;
    class->part = (struct tunnel_part){0};
    class->welcomed = false;
    tunnel_restart_sending(class);
    return BASE_OK;
}

enum tunnel_judgement tunnel_judge(struct dev_tunnel *tunnel, struct tunnel_class *class,
                                   uint64_t now_us, uint64_t high_water, uint64_t hash)
{
    uint64_t slot = base_sat_add_u64(class->state.base_slot, high_water);
    if (slot < class->state.tail || slot > class->next) {
        return TUNNEL_FORKED; // behind what we were told is durable, or ahead of all we ever had
    }
    if (slot == class->state.tail) {
        if (hash != class->state.tail_hash) {
            return TUNNEL_FORKED;
        }
        if (class->flight_count == 0 && !class->part.active) {
            class->maybe_sent = slot; // nothing else is there
        }
        return TUNNEL_SAME;
    }
    struct walk walk = {.tunnel = tunnel, .class = class, .to = slot};
    enum base_status status = walk_to(&walk, now_us);
    if (status != BASE_OK && status != BASE_ERR_CORRUPT) {
        return TUNNEL_UNKNOWN;
    }
    if (status != BASE_OK || walk.at != slot || walk.hash != hash) {
        return TUNNEL_FORKED;
    }
    // What was sent before WELCOME came goes on from there; it is not sent twice, for each of the
    // two could be refused.
    bool goes_on = class->flight_count > 0 && slot <= class->send_next;
    bool sent_already = class->flight_count > 0 || class->part.active;
    if (!goes_on) {
        tunnel_restart_sending(class);
    }
    if (!sent_already) {
        class->maybe_sent = slot;
    }
    class->acked = slot;
    tunnel_settle(tunnel, class, now_us);
    if (!goes_on && !class->ack_waits) {
        tunnel_restart_sending(class);
    }
    base_assert(class->state.tail <= class->send_next && class->send_next <= class->next);
    return TUNNEL_SAME;
}
