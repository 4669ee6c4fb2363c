// Epochs and the chain: what is under way, what the gateway has, and whether it is ours.
//
// The flight is a ring of entries from the tail on with the chain's hash behind each. Called by the
// other files of the tunnel, on the runtime's thread.
#include "tunnel/tunnel_private.h"

struct tunnel_flight *tunnel_flight_at(struct dev_tunnel *t, struct tunnel_class *c, uint32_t index)
{
    base_assert(index < c->flight_count);
    return &c->flight[(c->flight_head + index) % t->config.window];
}

void tunnel_flight_push(struct dev_tunnel *t, struct tunnel_class *c,
                        const struct tunnel_flight *flight)
{
    base_assert(c->flight_count < t->config.window);
    c->flight_count++;
    *tunnel_flight_at(t, c, c->flight_count - 1) = *flight;
    c->send_next += flight->numbers;
    c->send_seq += flight->count;
    c->send_hash = flight->hash;
}

void tunnel_restart_sending(struct tunnel_class *c)
{
    c->flight_count = 0;
    c->send_next = c->s.tail;
    c->send_seq = c->s.tail_seq;
    c->send_hash = c->s.tail_hash;
    c->part.active = false;
}

// ---- A walk over stored entries with their hashes

struct walk {
    struct dev_tunnel *t;
    struct tunnel_class *c;
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
    struct tunnel_entry entry;
    uint64_t slot = key_size == TUNNEL_KEY ? tunnel_key_slot(key) : UINT64_MAX;
    if (walk->at >= walk->to) {
        return false;
    }
    if (slot != walk->at ||
        tunnel_entry_read(walk->c, slot, value, value_size, &entry) != BASE_OK) {
        walk->status = BASE_ERR_CORRUPT;
        return false;
    }
    walk->hash =
        tunnel_chain_of(walk->t, walk->c, slot, &entry, value + TUNNEL_ENTRY_HEAD, walk->hash);
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
        tunnel_flight_push(walk->t, walk->c, &flight);
        return walk->c->flight_count < walk->t->config.window;
    }
    return true;
}

// From the tail to `to`; what stops short of it is CORRUPT.
static enum base_status walk_to(struct walk *walk, uint64_t now_us)
{
    uint8_t key[TUNNEL_KEY];
    walk->at = walk->c->s.tail;
    walk->hash = walk->c->s.tail_hash;
    tunnel_key(walk->c, walk->at, key);
    enum base_status status = dev_collect_scan(walk->t->collect, now_us, DEV_SPACE_QUEUE, key, 1,
                                               key, sizeof(key), visit_walk, walk);
    return status != BASE_OK ? status : walk->status;
}

// ---- What is durable leaves

static void count_settled(struct tunnel_class *c, struct tunnel_state *state,
                          const struct tunnel_flight *flight)
{
    (void)c;
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
static enum base_status settle_some(struct dev_tunnel *t, struct tunnel_class *c, uint64_t now_us,
                                    uint32_t count)
{
    struct tunnel_state state = c->s;
    for (uint32_t i = 0; i < count; i++) {
        count_settled(c, &state, tunnel_flight_at(t, c, i));
    }
    bool is_up = t->streams[c->stream].state != TUNNEL_CLOSED;
    uint64_t promise = c->send_next + (is_up ? t->config.window : 0);
    state.bound = promise > c->maybe_sent ? promise : c->maybe_sent;
    state.bound = state.bound > state.tail ? state.bound : state.tail;
    uint64_t mark = dev_collect_changes(t->collect) + 1;
    dev_collect_begin(t->collect);
    enum base_status status = tunnel_put_state(t, c, now_us, &state, false);
    uint64_t slot = c->s.tail;
    for (uint32_t i = 0; i < count && status == BASE_OK; i++) {
        status = tunnel_delete_entry(t, c, now_us, slot);
        slot += tunnel_flight_at(t, c, i)->numbers;
    }
    enum base_status ended = dev_collect_end(t->collect, now_us);
    status = status != BASE_OK ? status : ended;
    if (status != BASE_OK) {
        return status;
    }
    if (state.bound > c->s.bound) {
        c->bound_mark = mark;
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct tunnel_flight *flight = tunnel_flight_at(t, c, i);
        if (!flight->is_loss) {
            c->queued -= flight->count;
        } else {
            c->waiting[flight->reason] -= flight->count;
        }
        c->queue_bytes -= flight->entry_bytes;
    }
    c->s = state;
    c->flight_head = (c->flight_head + count) % t->config.window;
    c->flight_count -= count;
    return BASE_OK;
}

static uint32_t settled_count(struct dev_tunnel *t, struct tunnel_class *c)
{
    uint64_t at = c->s.tail;
    uint32_t count = 0;
    while (count < c->flight_count) {
        at += tunnel_flight_at(t, c, count)->numbers;
        if (at > c->acked) {
            break;
        }
        count++;
    }
    return count;
}

static void after_settling(struct tunnel_class *c)
{
    c->maybe_sent = c->maybe_sent > c->s.tail ? c->maybe_sent : c->s.tail;
    if (c->tail_loss && c->loss_slot < c->s.tail) {
        c->tail_loss = false;
    }
}

void tunnel_settle(struct dev_tunnel *t, struct tunnel_class *c, uint64_t now_us)
{
    bool refilled = false;
    c->ack_waits = true;
    while (c->s.tail < c->acked) {
        if (c->flight_count == 0) { // nothing of it was sent on this stream
            struct walk walk = {.t = t, .c = c, .to = c->acked, .to_flight = true};
            tunnel_restart_sending(c);
            if (walk_to(&walk, now_us) != BASE_OK || c->flight_count == 0) {
                tunnel_restart_sending(c);
                return;
            }
            refilled = true;
        }
        uint32_t count = settled_count(t, c);
        if (count == 0) { // within a LOSS: as a whole or not at all
            c->acked = c->s.tail;
            if (refilled) {
                tunnel_restart_sending(c);
            }
            break;
        }
        if (settle_some(t, c, now_us, count) != BASE_OK) {
            return;
        }
        after_settling(c);
    }
    c->ack_waits = false;
}

// ---- Forks

enum base_status tunnel_new_epoch(struct dev_tunnel *t, struct tunnel_class *c, uint64_t now_us)
{
    struct tunnel_state state = c->s;
    uint32_t counter = (c->s.epoch >> 16) + 1;
    state.epoch = counter << 16 | (uint32_t)(t->ports.random.next(t->ports.random.ctx) & 0xffff);
    state.base_slot = state.tail;
    state.base_seq = state.tail_seq;
    state.tail_hash = wire_tunnel_chain_first(t->config.device_id, c->id, state.epoch);
    state.bound = state.tail;
    uint64_t mark = dev_collect_changes(t->collect) + 1;
    BASE_TRY(tunnel_put_state(t, c, now_us, &state, true));
    base_log_debug(t->ports.log, "tunnel", "class %u: epoch %08x, %llu entries carried over", c->id,
                   (unsigned)state.epoch, (unsigned long long)(c->next - state.tail));
    c->s = state;
    c->bound_mark = mark;
    c->maybe_sent = state.tail;
    c->ack_waits = false;
    c->part = (struct tunnel_part){0};
    c->welcomed = false;
    tunnel_restart_sending(c);
    return BASE_OK;
}

enum tunnel_judgement tunnel_judge(struct dev_tunnel *t, struct tunnel_class *c, uint64_t now_us,
                                   uint64_t high_water, uint64_t hash)
{
    uint64_t slot = base_sat_add_u64(c->s.base_slot, high_water);
    if (slot < c->s.tail || slot > c->next) {
        return TUNNEL_FORKED; // behind what we were told is durable, or ahead of all we ever had
    }
    if (slot == c->s.tail) {
        if (hash != c->s.tail_hash) {
            return TUNNEL_FORKED;
        }
        if (c->flight_count == 0 && !c->part.active) {
            c->maybe_sent = slot; // nothing else is there
        }
        return TUNNEL_SAME;
    }
    struct walk walk = {.t = t, .c = c, .to = slot};
    enum base_status status = walk_to(&walk, now_us);
    if (status != BASE_OK && status != BASE_ERR_CORRUPT) {
        return TUNNEL_UNKNOWN;
    }
    if (status != BASE_OK || walk.at != slot || walk.hash != hash) {
        return TUNNEL_FORKED;
    }
    // What was sent before WELCOME came goes on from there; it is not sent twice, for each of the
    // two could be refused.
    bool goes_on = c->flight_count > 0 && slot <= c->send_next;
    bool sent_already = c->flight_count > 0 || c->part.active;
    if (!goes_on) {
        tunnel_restart_sending(c);
    }
    if (!sent_already) {
        c->maybe_sent = slot;
    }
    c->acked = slot;
    tunnel_settle(t, c, now_us);
    if (!goes_on && !c->ack_waits) {
        tunnel_restart_sending(c);
    }
    return TUNNEL_SAME;
}
