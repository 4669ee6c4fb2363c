// Sequences in the store: blocks out, blocks back in, eviction, and the account of gaps.
//
// Called on the runtime's thread. Encoding a block takes some 30 KB of its stack. The account lies
// in DEV_SPACE_STATE under "sequence":
//   u8 version (1), u64 lost by reason (3), varint gaps, each { u64 first, u64 count, u8 why }
#include "pipeline/record/sequence_state.h"

#include "base/check.h"
#include "base/ckd.h"
#include "base/cursor.h"

#include <string.h>

#define STATE_KEY     "sequence"
#define STATE_VERSION 1
#define STATE_BYTES   (16 + DEV_GAP_WHY_COUNT * 8 + DEV_SEQUENCE_GAPS * 17)
#define KEY_BYTES     16
#define EVICT_BLOCKS  32 // keys gathered in one scan
#define MS            1000u

static const struct dev_kv_key state_key = {DEV_SPACE_STATE, STATE_KEY, sizeof(STATE_KEY) - 1};
static const struct dev_kv_range blocks = {.space = DEV_SPACE_EVENTS};

static void put_be(uint8_t *out, uint64_t value)
{
    for (unsigned i = 0; i < 8; i++) {
        out[i] = (uint8_t)(value >> (56 - 8 * i));
    }
}

static uint64_t get_be(const uint8_t *bytes)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < 8; i++) {
        value = value << 8 | bytes[i];
    }
    return value;
}

// ---- The account of gaps

static enum base_status gaps_put(struct dev_sequence *sequence, uint64_t now_us)
{
    uint8_t bytes[STATE_BYTES];
    struct base_writer writer;
    base_writer_init(&writer, bytes, sizeof(bytes));
    base_writer_u8(&writer, STATE_VERSION);
    for (unsigned why = 0; why < DEV_GAP_WHY_COUNT; why++) {
        base_writer_u64(&writer, sequence->stats.lost[why]);
    }
    base_writer_varint(&writer, sequence->gap_count);
    for (uint32_t i = 0; i < sequence->gap_count; i++) {
        base_writer_u64(&writer, sequence->gaps[i].first);
        base_writer_u64(&writer, sequence->gaps[i].count);
        base_writer_u8(&writer, (uint8_t)sequence->gaps[i].why);
    }
    BASE_TRY(writer.status);
    return dev_collect_put(sequence->options.collect, now_us, state_key,
                           (struct base_span){bytes, base_writer_size(&writer)}, false);
}

// An account that cannot be read begins anew: it is a figure for people, nothing hangs on it.
static void gaps_parse(struct dev_sequence *sequence, const uint8_t *bytes, size_t size)
{
    base_assert(sequence->gap_count == 0 && !sequence->gaps_dirty); // nothing to forget yet
    struct base_reader reader;
    uint64_t lost[DEV_GAP_WHY_COUNT];
    struct dev_gap gaps[DEV_SEQUENCE_GAPS];
    base_reader_init(&reader, bytes, size);
    bool known = base_reader_u8(&reader) == STATE_VERSION;
    for (unsigned why = 0; why < DEV_GAP_WHY_COUNT; why++) {
        lost[why] = base_reader_u64(&reader);
    }
    uint32_t count = (uint32_t)base_reader_varint_max(&reader, DEV_SEQUENCE_GAPS);
    for (uint32_t i = 0; i < count; i++) {
        gaps[i].first = base_reader_u64(&reader);
        gaps[i].count = base_reader_u64(&reader);
        uint8_t why = base_reader_u8(&reader);
        known = known && why < DEV_GAP_WHY_COUNT;
        gaps[i].why = known ? (enum dev_gap_why)why : DEV_GAP_KILL;
    }
    if (base_reader_finish(&reader) != BASE_OK || !known) {
        return;
    }
    memcpy(sequence->stats.lost, lost, sizeof(lost));
    memcpy(sequence->gaps, gaps, count * sizeof(gaps[0]));
    sequence->gap_count = count;
}

enum base_status dev_sequence_boot(struct dev_sequence *sequence, uint64_t now_us)
{
    (void)now_us;
    uint8_t bytes[STATE_BYTES];
    size_t size = 0;
    enum base_status status =
        dev_collect_get(sequence->options.collect, state_key, bytes, sizeof(bytes), &size);
    if (status == BASE_OK) {
        gaps_parse(sequence, bytes, size);
    }
    bool fine = status == BASE_OK || status == BASE_ERR_NOT_FOUND || status == BASE_ERR_TOO_LARGE;
    return fine ? BASE_OK : status;
}

// ---- Eviction

struct evict {
    uint64_t before_ms; // blocks that began earlier go
    uint64_t free;      // and the oldest until so many bytes are
    uint64_t freed;
    uint32_t count;
    uint8_t keys[EVICT_BLOCKS][KEY_BYTES];
    uint32_t events;
};

static bool evict_row(void *ctx, const uint8_t *key, size_t key_size, const uint8_t *value,
                      size_t value_size)
{
    struct evict *evict = ctx;
    struct wire_event_block_head head = {0};
    bool readable = wire_event_block_head(value, value_size, &head) == BASE_OK;
    bool old = readable && head.wall_ms < evict->before_ms;
    if (key_size != KEY_BYTES || (!old && evict->freed >= evict->free)) {
        return false; // the rest is younger
    }
    base_assert(evict->count < EVICT_BLOCKS);
    memcpy(evict->keys[evict->count], key, KEY_BYTES);
    evict->count++;
    evict->freed += key_size + value_size;
    evict->events += head.count;
    return evict->count < EVICT_BLOCKS;
}

static enum base_status evict(struct dev_sequence *sequence, uint64_t now_us, uint64_t before_ms,
                              uint64_t free)
{
    struct evict gone = {.before_ms = before_ms, .free = free};
    do {
        gone.count = 0;
        gone.events = 0;
        BASE_TRY(dev_collect_scan(sequence->options.collect, now_us, &blocks, evict_row, &gone));
        for (uint32_t i = 0; i < gone.count; i++) {
            const struct dev_kv_key key = {DEV_SPACE_EVENTS, gone.keys[i], KEY_BYTES};
            BASE_TRY(dev_collect_delete(sequence->options.collect, now_us, key, false));
        }
        sequence->stats.evicted_blocks += gone.count;
        sequence->stats.evicted_events += gone.events;
    } while (gone.count == EVICT_BLOCKS);
    return BASE_OK;
}

// Bytes to free so that `more` fit; 0: they do.
static uint64_t excess(const struct dev_sequence *sequence, uint64_t more)
{
    uint64_t usage = dev_collect_usage(sequence->options.collect, DEV_SPACE_EVENTS) + more;
    uint64_t kept = sequence->quota / 100 * DEV_SEQUENCE_KEEP_PERCENT;
    return usage > sequence->quota ? usage - kept : 0;
}

enum base_status dev_sequence_evict(struct dev_sequence *sequence, uint64_t now_us,
                                    uint64_t wall_ms, uint64_t age_ms)
{
    uint64_t before = age_ms > 0 && wall_ms > age_ms ? wall_ms - age_ms : 0;
    return evict(sequence, now_us, before, excess(sequence, 0));
}

// ---- Blocks out

// The first events that wait, of one boot, as many as a block takes. *out_end: the place behind.
static uint32_t gather(const struct dev_sequence *sequence,
                       struct wire_event out[DEV_SEQUENCE_BLOCK_EVENTS], uint32_t max,
                       uint64_t *out_end, uint64_t *out_bytes)
{
    base_assert(sequence->waiting > 0 && max <= DEV_SEQUENCE_BLOCK_EVENTS);
    uint64_t place = sequence_skip_padding(sequence, sequence->stored);
    uint32_t boot = sequence_record_at(sequence, place)->boot;
    uint32_t count = 0;
    *out_bytes = 0;
    while (count < max && place < sequence->head) {
        const struct sequence_record *record = sequence_record_at(sequence, place);
        if (record->boot != boot || (count > 0 && *out_bytes >= DEV_SEQUENCE_BLOCK_BYTES)) {
            break;
        }
        struct dev_event event;
        sequence_view(record, &event);
        dev_event_wire(&event, &out[count++]);
        *out_bytes += record->size;
        *out_end = place + record->size;
        place = sequence_after(sequence, place);
    }
    return count;
}

// A block on its way out: encoded in sequence->out.
struct block_out {
    uint64_t first; // seqs
    uint64_t last;
    size_t size;        // bytes
    uint64_t stored_to; // for the recorder's checkpoint
};

static enum base_status put_group(struct dev_sequence *sequence, uint64_t now_us,
                                  const struct block_out *block)
{
    struct dev_collect *collect = sequence->options.collect;
    uint8_t key[KEY_BYTES];
    base_assert(block->first <= block->last && block->size <= sizeof(sequence->out));
    put_be(key, block->first);
    put_be(key + 8, block->last);
    uint64_t free = excess(sequence, sizeof(key) + block->size);
    if (free > 0) {
        BASE_TRY(evict(sequence, now_us, 0, free));
    }
    dev_collect_begin(collect);
    enum base_status status =
        dev_collect_put(collect, now_us, (struct dev_kv_key){DEV_SPACE_EVENTS, key, sizeof(key)},
                        (struct base_span){sequence->out, block->size}, true);
    if (status == BASE_OK && sequence->gaps_dirty) {
        status = gaps_put(sequence, now_us);
    }
    if (status == BASE_OK && sequence->options.recorder != NULL) {
        status = dev_recorder_checkpoint(sequence->options.recorder, now_us, block->stored_to);
    }
    if (status != BASE_OK) {
        dev_collect_abandon(collect);
        return status;
    }
    status = dev_collect_end(collect, now_us);
    if (status != BASE_OK) {
        if (sequence->options.recorder != NULL) {
            dev_recorder_uncheckpoint(sequence->options.recorder, block->first);
        }
        return status;
    }
    sequence->gaps_dirty = false;
    return BASE_OK;
}

enum base_status sequence_put_block(struct dev_sequence *sequence, uint64_t now_us,
                                    uint64_t stored_to)
{
    struct wire_event events[DEV_SEQUENCE_BLOCK_EVENTS];
    uint32_t max = DEV_SEQUENCE_BLOCK_EVENTS;
    enum base_status status = BASE_ERR_TOO_LARGE;
    uint32_t count = 0;
    uint64_t end = 0;
    uint64_t bytes = 0;
    size_t size = 0;
    while (status == BASE_ERR_TOO_LARGE && max > 0) { // fewer until they fit
        count = gather(sequence, events, max, &end, &bytes);
        uint32_t boot =
            sequence_record_at(sequence, sequence_skip_padding(sequence, sequence->stored))->boot;
        status = wire_event_block_encode(&(struct wire_event_list){events, count, boot},
                                         sequence->out, sizeof(sequence->out), &size);
        max = count / 2;
    }
    BASE_TRY(status);
    base_assert(count > 0 && count <= sequence->waiting);
    uint64_t last = events[count - 1].seq;
    const struct block_out block = {
        .first = events[0].seq,
        .last = last,
        .size = size,
        .stored_to = count == sequence->waiting ? stored_to : last + 1,
    };
    status = put_group(sequence, now_us, &block);
    if (status != BASE_OK) {
        sequence->stats.refused++;
        return status;
    }
    sequence->stored = end;
    sequence->waiting -= count;
    sequence->waiting_bytes -= bytes;
    sequence->stats.stored += count;
    sequence->stats.blocks++;
    sequence->stats.block_bytes += size;
    return BASE_OK;
}

bool sequence_is_full(const struct dev_sequence *sequence)
{
    return sequence->waiting >= DEV_SEQUENCE_BLOCK_EVENTS ||
           sequence->waiting_bytes >= DEV_SEQUENCE_BLOCK_BYTES;
}

enum base_status dev_sequence_flush(struct dev_sequence *sequence, uint64_t now_us)
{
    while (sequence->waiting > 0) {
        BASE_TRY(sequence_put_block(sequence, now_us, UINT64_MAX));
    }
    base_assert(sequence->waiting_bytes == 0);
    sequence->due = false;
    return BASE_OK;
}

// When the oldest event that waits is old enough; UINT64_MAX: none waits.
static uint64_t age_due_us(const struct dev_sequence *sequence)
{
    if (sequence->waiting == 0) {
        return UINT64_MAX;
    }
    uint64_t place = sequence_skip_padding(sequence, sequence->stored);
    return base_sat_add_u64(sequence_record_at(sequence, place)->arrived_us,
                            (uint64_t)DEV_COLLECT_AGE_MS * MS);
}

uint64_t dev_sequence_step(struct dev_sequence *sequence, uint64_t now_us)
{
    enum base_status status = BASE_OK;
    if (sequence->due || now_us >= age_due_us(sequence)) {
        status = dev_sequence_flush(sequence, now_us);
    }
    while (status == BASE_OK && sequence_is_full(sequence)) {
        status = sequence_put_block(sequence, now_us, UINT64_MAX);
    }
    if (status != BASE_OK) { // collect is full and backs off
        return base_sat_add_u64(now_us, (uint64_t)DEV_COLLECT_RETRY_FIRST_MS * MS);
    }
    return age_due_us(sequence);
}

// ---- Blocks in

struct each {
    struct dev_sequence *sequence;
    struct dev_sequence_part part; // of what is read from the store
    uint64_t secret;
    dev_sequence_visit_fn fn;
    void *ctx;
    bool stopped;
};

static void view_of(const struct each *each, const struct wire_event *event, uint32_t boot,
                    struct dev_event *out)
{
    *out = (struct dev_event){
        .seq = event->seq,
        .wall_ms = event->wall_ms,
        .mono_us = event->mono_us,
        .boot = boot,
        .visit = event->visit,
        .instance = event->instance,
        .kind = (enum dev_event_kind)event->kind,
        .name = event->name,
        .page = event->page,
        .item = event->item,
        .name_hash = dev_event_hash(each->secret, event->name),
        .page_hash = dev_event_hash(each->secret, event->page),
        .item_hash = dev_event_hash(each->secret, event->item),
        .attrs = event->attrs,
        .attrs_bytes = event->attrs_bytes,
        .attr_count = event->attr_count,
    };
}

static bool each_row(void *ctx, const uint8_t *key, size_t key_size, const uint8_t *value,
                     size_t value_size)
{
    struct each *each = ctx;
    struct wire_event_block *block = &each->sequence->block;
    base_assert(!each->stopped); // false ends a scan
    if (key_size != KEY_BYTES || get_be(key + 8) < each->part.from_seq) {
        return true;
    }
    if (get_be(key) > each->part.to_seq) {
        return false;
    }
    if (wire_event_block_parse(value, value_size, block) != BASE_OK) {
        each->sequence->stats.damaged_blocks++;
        return true;
    }
    struct wire_event event;
    while (wire_event_block_next(block, &event)) {
        bool wanted = event.seq >= each->part.from_seq && event.seq <= each->part.to_seq &&
                      (each->part.visit == 0 || event.visit == each->part.visit);
        struct dev_event view;
        if (wanted) {
            view_of(each, &event, block->boot, &view);
        }
        if (wanted && !each->fn(each->ctx, &view)) {
            each->stopped = true;
            return false;
        }
    }
    return true;
}

enum base_status dev_sequence_each(struct dev_sequence *sequence, uint64_t now_us,
                                   const struct dev_sequence_part *part, dev_sequence_visit_fn fn,
                                   void *ctx)
{
    struct dev_sequence_cursor cursor;
    struct dev_event event;
    struct each each = {.sequence = sequence, .part = *part, .fn = fn, .ctx = ctx};
    uint64_t first = sequence_skip_padding(sequence, sequence->tail);
    bool memory = sequence->count > 0;
    base_assert(!memory || first < sequence->head);
    uint64_t first_seq = memory ? sequence_record_at(sequence, first)->seq : UINT64_MAX;
    if (memory) { // what is in memory is read from there
        each.part.to_seq = first_seq - 1 < part->to_seq ? first_seq - 1 : part->to_seq;
    }
    bool stored = !sequence->options.memory_only && part->from_seq < first_seq &&
                  sequence->options.recorder != NULL;
    if (stored) {
        each.secret = dev_recorder_secret(sequence->options.recorder);
        BASE_TRY(dev_collect_scan(sequence->options.collect, now_us, &blocks, each_row, &each));
    }
    dev_sequence_range(sequence, part->from_seq, part->to_seq, &cursor);
    cursor.visit = part->visit;
    while (!each.stopped && dev_sequence_next(&cursor, &event)) {
        each.stopped = !fn(ctx, &event);
    }
    return BASE_OK;
}
