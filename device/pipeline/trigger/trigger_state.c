// What survives a kill, as bytes: which partial matches an engine has, and what its policies
// remember. Called by pipeline_tasks.c, on the pipeline's thread, when a group of events is stored
// and at boot. Of the same set (by its fingerprint) all is taken; of another one only the policies,
// which go by source key and not by node. Pure but for the engine it fills; the bytes come from a
// store that may be damaged, so none is taken before all were checked.
#include "pipeline/trigger/trigger_engine.h"

#include "base/check.h"
#include "base/cursor.h"

#include <string.h>

//   u8 version, u64 fingerprint of the set, u64 last seq, u8 running, varints: clock in us,
//   monotonic us, wall ms, boot
//   varint policies: { u64 source key, u8 flags, varints: age of the last start, age of the day,
//     starts in the day, visits { visit } }
//   varint sticky:     { varints: node - the one before, age }
//   varint live:       { varints: node, age }
//   varint keys:       { varints: node, visit, age; u64 item }     oldest first
//   varint keyed live: { the same }
//
// Ages are milliseconds of the engine's clock. Bytes are read twice: once to see that all of them
// are good, once to take them.

#define STATE_VERSION 1
#define HEADER_BYTES  (1 + 8 + 8 + 1 + 3 * 10 + 5 + 5 * 5)
#define POLICY_BYTES  (8 + 1 + 5 + 5 + 3 + 1 + DEV_TRIGGER_VISITS_KEPT * 5)
#define NODE_BYTES    (5 + 5)
#define KEY_BYTES     (5 + 5 + 5 + 8)

size_t dev_trigger_encoded_max(const struct dev_trigger_engine *engine)
{
    return HEADER_BYTES + (size_t)engine->set->counts.policies * POLICY_BYTES +
           ((size_t)engine->sticky_count + engine->live_count) * NODE_BYTES +
           ((size_t)engine->key_count + engine->keyed_live_count) * KEY_BYTES;
}

// ---- Writing

static bool says_something(const struct trig_policy_state *state)
{
    return state->flags != 0;
}

static void write_policies(const struct dev_trigger_engine *engine, struct base_writer *writer)
{
    const struct dev_trigger_set *set = engine->set;
    uint32_t now = trig_now(engine);
    uint32_t count = 0;
    for (uint32_t i = 0; i < set->counts.policies; i++) {
        count += says_something(&engine->policies[i]);
    }
    base_writer_varint(writer, count);
    for (uint32_t i = 0; i < set->counts.policies; i++) {
        const struct trig_policy_state *state = &engine->policies[i];
        if (!says_something(state)) {
            continue;
        }
        base_writer_u64(writer, set->sources[set->policies[i].source].key);
        base_writer_u8(writer, state->flags);
        base_writer_varint(writer, now - state->last_ms);
        base_writer_varint(writer, now - state->day_ms);
        base_writer_varint(writer, state->count);
        uint32_t visits = 0;
        while (visits < DEV_TRIGGER_VISITS_KEPT && state->visits[visits] != 0) {
            visits++;
        }
        base_assert(visits == DEV_TRIGGER_VISITS_KEPT || visits == state->visit_next);
        base_writer_varint(writer, visits);
        for (uint32_t v = 0; v < visits; v++) { // oldest first
            uint32_t from = visits < DEV_TRIGGER_VISITS_KEPT ? 0 : state->visit_next;
            base_writer_varint(writer, state->visits[(from + v) % DEV_TRIGGER_VISITS_KEPT]);
        }
    }
}

static void write_key(struct base_writer *writer, uint32_t node, uint32_t visit, uint32_t age,
                      uint64_t item)
{
    base_writer_varint(writer, node);
    base_writer_varint(writer, visit);
    base_writer_varint(writer, age);
    base_writer_u64(writer, item);
}

static void write_partials(const struct dev_trigger_engine *engine, struct base_writer *writer)
{
    uint32_t now = trig_now(engine);
    uint32_t last = 0;
    uint32_t left = engine->sticky_count;
    base_writer_varint(writer, left);
    for (uint32_t i = 0; i < engine->set->counts.nodes && left > 0; i++) {
        bool keyed = (trig_flags(engine->set->nodes[i]) & TRIG_KEYED) != 0;
        if (!keyed && engine->states[i].mark != 0) {
            base_writer_varint(writer, i - last);
            base_writer_varint(writer, now - engine->states[i].start);
            last = i;
            left--;
        }
    }
    base_assert(left == 0);
    base_writer_varint(writer, engine->live_count);
    for (uint32_t i = 0; i < engine->live_count; i++) {
        base_writer_varint(writer, engine->live[i].node);
        base_writer_varint(writer, now - engine->live[i].start);
    }
    base_writer_varint(writer, engine->key_count);
    for (uint32_t i = engine->key_oldest; i != 0; i = engine->keys[i - 1].age_prev) {
        const struct trig_key *key = &engine->keys[i - 1];
        write_key(writer, key->node, key->visit, now - key->start, key->item);
    }
    base_writer_varint(writer, engine->keyed_live_count);
    for (uint32_t i = 0; i < engine->keyed_live_count; i++) {
        const struct trig_keyed_reach *at = &engine->keyed_live[i];
        write_key(writer, at->node, at->visit, now - at->start, at->item);
    }
}

enum base_status dev_trigger_encode(const struct dev_trigger_engine *engine, void *out,
                                    size_t capacity, size_t *out_size)
{
    const struct trig_clock *clock = &engine->clock;
    struct base_writer writer;
    base_writer_init(&writer, out, capacity);
    base_writer_u8(&writer, STATE_VERSION);
    base_writer_u64(&writer, engine->set->fingerprint);
    base_writer_u64(&writer, engine->last_seq);
    base_writer_u8(&writer, clock->running);
    base_writer_varint(&writer, clock->us);
    base_writer_varint(&writer, clock->mono_us);
    base_writer_varint(&writer, clock->wall_ms);
    base_writer_varint(&writer, clock->boot);
    write_policies(engine, &writer);
    write_partials(engine, &writer);
    BASE_TRY(writer.status);
    base_assert(base_writer_size(&writer) <= dev_trigger_encoded_max(engine));
    *out_size = base_writer_size(&writer);
    return BASE_OK;
}

// ---- Reading

struct decode {
    struct dev_trigger_engine *engine;
    struct base_reader reader;
    bool apply;   // the second time
    bool same;    // the state is of this very set
    uint32_t now; // of the clock that is read
};

static uint32_t read_u32(struct decode *decode)
{
    return (uint32_t)base_reader_varint_max(&decode->reader, UINT32_MAX);
}

// A count of entries of at least `bytes` bytes each, so that loops end with the input.
static uint32_t read_count(struct decode *decode, uint32_t max, size_t bytes)
{
    base_assert(bytes > 0);
    uint32_t count = (uint32_t)base_reader_varint_max(&decode->reader, max);
    if (count > base_reader_left(&decode->reader) / bytes) {
        base_reader_fail(&decode->reader, BASE_ERR_TRUNCATED);
        return 0;
    }
    return count;
}

uint32_t trig_policy_of_key(const struct dev_trigger_set *set, uint64_t key, uint32_t *cursor)
{
    base_assert(*cursor == 0 || *cursor < set->counts.policies);
    uint32_t count = set->counts.policies;
    for (uint32_t i = 0; i < count; i++) { // most often the order is the same
        uint32_t at = *cursor + i < count ? *cursor + i : *cursor + i - count;
        if (set->sources[set->policies[at].source].key == key) {
            *cursor = at + 1 < count ? at + 1 : 0;
            return at;
        }
    }
    return TRIG_NONE;
}

static void read_policy(struct decode *decode, uint32_t *cursor)
{
    struct base_reader *reader = &decode->reader;
    struct trig_policy_state state = {0};
    uint64_t key = base_reader_u64(reader);
    state.flags = base_reader_u8(reader);
    state.last_ms = decode->now - read_u32(decode);
    state.day_ms = decode->now - read_u32(decode);
    state.count = (uint16_t)base_reader_varint_max(reader, UINT16_MAX);
    uint32_t visits = (uint32_t)base_reader_varint_max(reader, DEV_TRIGGER_VISITS_KEPT);
    for (uint32_t v = 0; v < visits; v++) {
        state.visits[v] = read_u32(decode);
        if (state.visits[v] == 0) {
            base_reader_fail(reader, BASE_ERR_INVALID);
        }
    }
    state.visit_next = (uint8_t)(visits % DEV_TRIGGER_VISITS_KEPT);
    if (state.flags != (TRIG_HAS_START | TRIG_HAS_DAY) && state.flags != TRIG_HAS_START) {
        base_reader_fail(reader, BASE_ERR_INVALID);
    }
    if (decode->apply) {
        base_assert(reader->status == BASE_OK); // all of it was good the first time
        uint32_t at = trig_policy_of_key(decode->engine->set, key, cursor);
        if (at != TRIG_NONE) {
            decode->engine->policies[at] = state;
        }
    }
}

// May a state be there? Only of the same set is that asked.
static bool fits(const struct decode *decode, uint32_t node, uint32_t wanted, bool keyed)
{
    const struct dev_trigger_set *set = decode->engine->set;
    if (!decode->same) {
        return true;
    }
    if (node >= set->counts.nodes || trig_edge(set->nodes[node].label) == TRIG_EDGE_ROOT) {
        return false;
    }
    uint32_t flags = trig_flags(set->nodes[node]);
    return (flags & wanted) != 0 && ((flags & TRIG_KEYED) != 0) == keyed;
}

static void read_sticky(struct decode *decode)
{
    uint32_t max = decode->same ? decode->engine->set->counts.sticky : UINT32_MAX;
    uint32_t count = read_count(decode, max, 2);
    uint32_t node = 0;
    for (uint32_t i = 0; i < count && decode->reader.status == BASE_OK; i++) {
        uint32_t step = (uint32_t)base_reader_varint_max(&decode->reader, DEV_TRIGGER_NODES_MAX);
        uint32_t age = read_u32(decode);
        node += step;
        if ((i > 0 && step == 0) || node > DEV_TRIGGER_NODES_MAX ||
            !fits(decode, node, TRIG_GAP, false)) {
            base_reader_fail(&decode->reader, BASE_ERR_INVALID);
        } else if (decode->apply && decode->same) {
            trig_sticky_add(decode->engine, node, decode->now - age);
        }
    }
    decode->engine->stats.lost_partials += decode->apply && !decode->same ? count : 0;
}

static void read_live(struct decode *decode)
{
    struct dev_trigger_engine *engine = decode->engine;
    uint32_t max = decode->same ? engine->set->certificate.reached_max : UINT32_MAX;
    uint32_t count = read_count(decode, max, 2);
    for (uint32_t i = 0; i < count && decode->reader.status == BASE_OK; i++) {
        uint32_t node = read_u32(decode);
        uint32_t age = read_u32(decode);
        if (!fits(decode, node, TRIG_ADJ | TRIG_ANY, false)) {
            base_reader_fail(&decode->reader, BASE_ERR_INVALID);
        } else if (decode->apply && decode->same) {
            base_assert(engine->live_count < max); // of a fresh engine
            engine->live[engine->live_count++] = (struct trig_reach){node, decode->now - age};
        }
    }
    engine->stats.lost_partials += decode->apply && !decode->same ? count : 0;
}

static bool key_fits(const struct decode *decode, const struct trig_keyed_reach *at,
                     uint32_t wanted)
{
    if (!decode->same) {
        return true;
    }
    if (!fits(decode, at->node, wanted, true)) {
        return false;
    }
    struct trig_node node = decode->engine->set->nodes[at->node];
    bool page = (node.label & TRIG_PAGE_BIT) != 0;
    bool itemized = (trig_flags(node) & TRIG_ITEMIZED) != 0;
    return page == (at->visit != 0) && itemized == (at->item != 0);
}

static void read_keys(struct decode *decode, bool live)
{
    struct dev_trigger_engine *engine = decode->engine;
    const struct trig_counts *counts = &engine->set->counts;
    uint32_t max = !decode->same ? UINT32_MAX : live ? counts->keyed_reach : counts->keys;
    uint32_t count = read_count(decode, max, 3 + 8);
    for (uint32_t i = 0; i < count && decode->reader.status == BASE_OK; i++) {
        struct trig_keyed_reach at = {.node = read_u32(decode)};
        at.visit = read_u32(decode);
        at.start = decode->now - read_u32(decode);
        at.item = base_reader_u64(&decode->reader);
        if (!key_fits(decode, &at, live ? TRIG_ADJ | TRIG_ANY : TRIG_GAP)) {
            base_reader_fail(&decode->reader, BASE_ERR_INVALID);
        } else if (decode->apply && decode->same && live) {
            base_assert(engine->keyed_live_count < max); // of a fresh engine
            engine->keyed_live[engine->keyed_live_count++] = at;
        } else if (decode->apply && decode->same) {
            trig_keys_put(engine, at.node, at.visit, at.item, at.start);
        }
    }
    engine->stats.lost_partials += decode->apply && !decode->same ? count : 0;
}

static enum base_status decode_once(struct dev_trigger_engine *engine, const void *bytes,
                                    size_t size, bool apply)
{
    struct decode decode = {.engine = engine, .apply = apply};
    struct base_reader *reader = &decode.reader;
    base_reader_init(reader, bytes, size);
    uint8_t version = base_reader_u8(reader);
    if (reader->status == BASE_OK && version != STATE_VERSION) {
        return BASE_ERR_UNSUPPORTED;
    }
    decode.same = base_reader_u64(reader) == engine->set->fingerprint;
    struct trig_clock clock = {0};
    uint64_t last_seq = base_reader_u64(reader);
    uint8_t running = base_reader_u8(reader);
    clock.us = base_reader_varint(reader);
    clock.mono_us = base_reader_varint(reader);
    clock.wall_ms = base_reader_varint(reader);
    clock.boot = read_u32(&decode);
    clock.running = running != 0;
    decode.now = (uint32_t)(clock.us / 1000);
    clock.swept_ms = decode.now - (1u << 30); // swept at once
    if (running > 1) {
        base_reader_fail(reader, BASE_ERR_INVALID);
    }
    if (apply) {
        engine->clock = clock;
        engine->last_seq = last_seq;
    }
    uint32_t cursor = 0;
    uint32_t policies = read_count(&decode, UINT32_MAX, 8 + 5);
    for (uint32_t i = 0; i < policies && reader->status == BASE_OK; i++) {
        read_policy(&decode, &cursor);
    }
    read_sticky(&decode);
    read_live(&decode);
    read_keys(&decode, false);
    read_keys(&decode, true);
    base_assert(!apply || reader->status == BASE_OK); // all of it was good the first time
    return base_reader_finish(reader);
}

enum base_status dev_trigger_decode(struct dev_trigger_engine *engine, const void *bytes,
                                    size_t size)
{
    base_assert(!engine->clock.running && engine->sticky_count == 0 && engine->key_count == 0);
    BASE_TRY(decode_once(engine, bytes, size, false));
    return decode_once(engine, bytes, size, true);
}
