// The recorder on the runtime's thread: numbers, visits and what is kept of each event.
//
// dev_record alone is called on any thread; it does nothing here but pass on to the ring. The rest
// is called by pipeline.c (boot, drain), pipeline_tasks.c (what to keep) and sequence_store.c (what
// of the numbers is to be stored).
#include "pipeline/record/recorder.h"

#include "base/check.h"
#include "base/ckd.h"
#include "base/cursor.h"
#include "base/hash.h"
#include "pipeline/record/recorder_ring.h"
#include "wire/event_attrs.h"

#include <string.h>

// The numbers' record in DEV_SPACE_STATE under "recorder":
//
//   u8 version (1), u64 secret, u32 boot, u64 boot_id, u64 mono_us, u64 stored_to, u64
//   reserved_seq, u32 next_visit, u32 reserved_visit, varint open visits, each { u32 number, u32
//   instance, u64 page_hash, u64 enter_seq }, u64 hash of all that
//
// Blocks of events lie in DEV_SPACE_EVENTS under u64 big-endian first seq and last seq
// (sequence.c): when the record cannot be read, the greatest key says where numbers go on.

#define STATE_KEY     "recorder"
#define STATE_VERSION 1
#define STATE_BYTES   (80 + DEV_VISITS_MAX * 24)
#define EVENT_KEY     16         // first and last seq
#define LOST_VISITS   (1u << 20) // numbers left out when the record was lost

#define NOT_PUT UINT64_MAX

static const struct dev_kv_key state_key = {DEV_SPACE_STATE, STATE_KEY, sizeof(STATE_KEY) - 1};

struct dev_recorder {
    struct dev_ring ring;
    struct dev_collect *collect;
    void (*wake)(void *ctx);
    void *wake_ctx;
    uint64_t secret;
    uint64_t boot_id;
    uint64_t mono_us; // latest seen
    uint32_t boot;
    bool booted;
    bool capturing; // only what `capture` wants; otherwise everything
    uint64_t next_seq;
    uint64_t stored_to; // at the last checkpoint
    uint64_t reserved_seq;
    uint32_t reserved_visit;
    uint64_t reserve_change; // what the reserve was put in as; NOT_PUT: it is not on its way
    uint64_t durable_seq;    // the reserve that is in the store
    struct dev_visits visits;
    struct dev_recorder_stats stats;
    struct dev_capture capture;
    uint8_t attrs[DEV_EVENT_ATTRS_BYTES];
};

static uint32_t ring_bytes(const struct dev_recorder_options *options)
{
    return options->ring_bytes > 0 ? options->ring_bytes : DEV_RECORDER_RING_BYTES;
}

size_t dev_recorder_bytes(const struct dev_recorder_options *options)
{
    return sizeof(struct dev_recorder) + ring_bytes(options);
}

enum base_status dev_recorder_init(void *memory, size_t memory_bytes,
                                   const struct dev_recorder_options *options,
                                   struct dev_recorder **out)
{
    uint32_t capacity = ring_bytes(options);
    if (memory == NULL || (uintptr_t)memory % _Alignof(struct dev_recorder) != 0 ||
        memory_bytes < dev_recorder_bytes(options) || (capacity & (capacity - 1)) != 0 ||
        capacity < DEV_RECORDER_RING_BYTES_MIN || capacity > DEV_RECORDER_RING_BYTES_MAX) {
        return BASE_ERR_INVALID;
    }
    struct dev_recorder *recorder = memory;
    memset(recorder, 0, sizeof(*recorder));
    dev_ring_init(&recorder->ring, (uint8_t *)memory + sizeof(*recorder), capacity);
    recorder->collect = options->collect;
    recorder->wake = options->wake;
    recorder->wake_ctx = options->wake_ctx;
    recorder->secret = options->entropy;
    recorder->boot_id = options->boot_id;
    *out = recorder;
    return BASE_OK;
}

uint64_t dev_recorder_secret(const struct dev_recorder *recorder)
{
    return recorder->secret;
}

void dev_recorder_capture(struct dev_recorder *recorder, const struct dev_capture *capture)
{
    recorder->capturing = capture != NULL;
    if (capture != NULL) {
        base_assert(capture->secret == recorder->secret);
        recorder->capture = *capture;
    }
    dev_ring_gate(&recorder->ring, capture != NULL ? &capture->gate : NULL, recorder->secret);
}

enum base_status dev_record(struct dev_recorder *recorder, const struct dev_recording *recording)
{
    enum base_status status;
    if (!dev_ring_admits(&recorder->ring, recording, &status)) {
        return status;
    }
    BASE_TRY(dev_ring_put(&recorder->ring, recording));
    if (recorder->wake != NULL && dev_ring_wakes(&recorder->ring)) {
        recorder->wake(recorder->wake_ctx);
    }
    return BASE_OK;
}

// ---- The stored numbers

static size_t state_encode(const struct dev_recorder *recorder, uint64_t reserved_seq,
                           uint32_t reserved_visit, uint8_t out[STATE_BYTES])
{
    struct base_writer writer;
    base_writer_init(&writer, out, STATE_BYTES);
    base_writer_u8(&writer, STATE_VERSION);
    base_writer_u64(&writer, recorder->secret);
    base_writer_u32(&writer, recorder->boot);
    base_writer_u64(&writer, recorder->boot_id);
    base_writer_u64(&writer, recorder->mono_us);
    base_writer_u64(&writer, recorder->stored_to);
    base_writer_u64(&writer, reserved_seq);
    base_writer_u32(&writer, recorder->visits.next);
    base_writer_u32(&writer, reserved_visit);
    base_writer_varint(&writer, recorder->visits.count);
    for (uint32_t i = 0; i < recorder->visits.count; i++) {
        const struct dev_visit *visit = &recorder->visits.open[i];
        base_writer_u32(&writer, visit->number);
        base_writer_u32(&writer, visit->instance);
        base_writer_u64(&writer, visit->page_hash);
        base_writer_u64(&writer, visit->enter_seq);
    }
    base_writer_u64(&writer, base_hash64(out, base_writer_size(&writer)));
    base_assert(writer.status == BASE_OK);
    return base_writer_size(&writer);
}

static enum base_status state_put(struct dev_recorder *recorder, uint64_t now_us,
                                  uint64_t reserved_seq, uint32_t reserved_visit, bool high)
{
    base_assert(reserved_seq >= recorder->next_seq && recorder->next_seq > 0);
    uint8_t bytes[STATE_BYTES];
    size_t size = state_encode(recorder, reserved_seq, reserved_visit, bytes);
    uint64_t change = dev_collect_changes(recorder->collect);
    BASE_TRY(dev_collect_put(recorder->collect, now_us, state_key, (struct base_span){bytes, size},
                             high));
    recorder->reserve_change = change;
    return BASE_OK;
}

// Makes sure that `count` more seqs and one more visit are reserved. New ones are asked for when
// half are used, for immediate commit: so they mostly are in the store before they are used.
static enum base_status reserve(struct dev_recorder *recorder, uint64_t now_us, uint64_t count)
{
    uint64_t end = base_sat_add_u64(recorder->next_seq, count);
    uint64_t visit = (uint64_t)recorder->visits.next + 1;
    bool visits_end = recorder->visits.next == 0 || recorder->reserved_visit == UINT32_MAX;
    bool enough =
        end <= recorder->reserved_seq && (visit <= recorder->reserved_visit || visits_end);
    bool plenty =
        enough && recorder->reserve_change != NOT_PUT &&
        recorder->reserved_seq - end >= DEV_RECORDER_RESERVE_SEQS / 2 &&
        (visits_end || recorder->reserved_visit - visit >= DEV_RECORDER_RESERVE_VISITS / 2);
    if (plenty) {
        return BASE_OK;
    }
    if (end >= UINT64_MAX - DEV_RECORDER_RESERVE_SEQS) {
        return BASE_ERR_LIMIT;
    }
    uint64_t visits = visit + DEV_RECORDER_RESERVE_VISITS;
    uint64_t reserved_seq = end + DEV_RECORDER_RESERVE_SEQS;
    uint32_t reserved_visit = visits < UINT32_MAX ? (uint32_t)visits : UINT32_MAX;
    reserved_visit = visits_end ? recorder->reserved_visit : reserved_visit;
    enum base_status status = state_put(recorder, now_us, reserved_seq, reserved_visit, true);
    if (status != BASE_OK) {
        return enough ? BASE_OK : status;
    }
    base_assert(reserved_seq >= recorder->reserved_seq); // no number is reserved twice
    recorder->reserved_seq = reserved_seq;
    recorder->reserved_visit = reserved_visit;
    return BASE_OK;
}

// Commits the reserve before `count` seqs of it are used that are not in the store yet, which a
// long drain comes to, and one that steps over much: what a kill takes is within what the next
// start declares. A store that refuses does not stop events.
static void reserve_commit(struct dev_recorder *recorder, uint64_t now_us, uint64_t count)
{
    for (uint32_t turn = 0; turn < 2; turn++) {
        if (recorder->reserve_change != NOT_PUT &&
            dev_collect_durable(recorder->collect) > recorder->reserve_change) {
            recorder->durable_seq = recorder->reserved_seq;
        }
        if (turn > 0 || base_sat_add_u64(recorder->next_seq, count) <= recorder->durable_seq) {
            return;
        }
        (void)dev_collect_step(recorder->collect, now_us);
    }
}

struct state { // what a record says beside the visits
    uint64_t boot_id;
    uint64_t mono_us;
};

// CORRUPT: nothing of it can be used.
static enum base_status state_parse(struct dev_recorder *recorder, const uint8_t *bytes,
                                    size_t size, struct state *out)
{
    base_assert(!recorder->booted); // no number was given that this could take back
    struct base_reader reader;
    struct base_reader tail;
    struct dev_visits visits;
    if (size < 8) {
        return BASE_ERR_CORRUPT;
    }
    base_reader_init(&tail, bytes + size - 8, 8);
    base_reader_init(&reader, bytes, size - 8);
    bool fine = base_reader_u64(&tail) == base_hash64(bytes, size - 8);
    fine = fine && base_reader_u8(&reader) == STATE_VERSION;
    uint64_t secret = base_reader_u64(&reader);
    uint32_t boot = base_reader_u32(&reader);
    out->boot_id = base_reader_u64(&reader);
    out->mono_us = base_reader_u64(&reader);
    uint64_t next_seq = base_reader_u64(&reader);
    uint64_t reserved_seq = base_reader_u64(&reader);
    dev_visits_init(&visits, base_reader_u32(&reader));
    uint32_t reserved_visit = base_reader_u32(&reader);
    visits.count = (uint32_t)base_reader_varint_max(&reader, DEV_VISITS_MAX);
    for (uint32_t i = 0; i < visits.count; i++) {
        visits.open[i].number = base_reader_u32(&reader);
        visits.open[i].instance = base_reader_u32(&reader);
        visits.open[i].page_hash = base_reader_u64(&reader);
        visits.open[i].enter_seq = base_reader_u64(&reader);
    }
    fine = fine && base_reader_finish(&reader) == BASE_OK && next_seq <= reserved_seq &&
           dev_visits_validate(&visits) && next_seq > 0;
    if (!fine) {
        return BASE_ERR_CORRUPT;
    }
    recorder->secret = secret;
    recorder->boot = boot;
    recorder->next_seq = next_seq;
    recorder->reserved_seq = reserved_seq;
    recorder->reserved_visit = reserved_visit;
    recorder->visits = visits;
    return BASE_OK;
}

// ---- Boot

static bool last_seq_row(void *ctx, const uint8_t *key, size_t key_size, const uint8_t *value,
                         size_t value_size)
{
    (void)value;
    (void)value_size;
    uint64_t *last = ctx;
    uint64_t seq = 0;
    for (size_t i = 8; i < 16 && key_size == EVENT_KEY; i++) {
        seq = seq << 8 | key[i];
    }
    *last = seq > *last ? seq : *last;
    return true;
}

// No numbers are stored: the first start, or they were lost. Events that are stored say where their
// numbers ended; a wide step keeps clear of those that were reserved and not stored.
static enum base_status numbers_anew(struct dev_recorder *recorder, uint64_t now_us)
{
    uint64_t last = 0;
    const struct dev_kv_range blocks = {.space = DEV_SPACE_EVENTS};
    BASE_TRY(dev_collect_scan(recorder->collect, now_us, &blocks, last_seq_row, &last));
    recorder->boot = 0;
    recorder->next_seq = 1;
    dev_visits_init(&recorder->visits, 1);
    if (last > 0) {
        recorder->next_seq = base_sat_add_u64(last, DEV_RECORDER_RESERVE_SEQS);
        uint64_t visit = base_sat_add_u64(last, LOST_VISITS);
        dev_visits_init(&recorder->visits, visit < UINT32_MAX ? (uint32_t)visit : 0);
    }
    recorder->reserved_seq = recorder->next_seq;
    recorder->reserved_visit = recorder->visits.next;
    return BASE_OK;
}

static void tell_gap(struct dev_recorder *recorder, const struct dev_recorder_sink *sink,
                     uint64_t count, enum dev_gap_why why)
{
    if (count == 0) {
        return;
    }
    const struct dev_gap gap = {.first = recorder->next_seq, .count = count, .why = why};
    recorder->next_seq += count;
    recorder->stats.gaps++;
    if (sink->on_gap != NULL) {
        sink->on_gap(sink->ctx, &gap);
    }
}

static void tell_end(const struct dev_recorder_sink *sink, const struct dev_visit *visit,
                     enum dev_visit_end why)
{
    if (sink->on_visit_end != NULL) {
        sink->on_visit_end(sink->ctx, visit, why);
    }
}

// What the process before left: visits that never ended, numbers that were reserved.
static void end_past(struct dev_recorder *recorder, const struct dev_recorder_sink *sink)
{
    base_assert(recorder->reserved_seq >= recorder->next_seq);
    tell_gap(recorder, sink, recorder->reserved_seq - recorder->next_seq, DEV_GAP_KILL);
    for (uint32_t i = 0; i < recorder->visits.count; i++) {
        tell_end(sink, &recorder->visits.open[i], DEV_VISIT_KILLED);
    }
    uint64_t killed = recorder->visits.count;
    dev_visits_init(&recorder->visits, recorder->reserved_visit);
    recorder->visits.ended[DEV_VISIT_KILLED] = killed;
}

enum base_status dev_recorder_boot(struct dev_recorder *recorder, uint64_t now_us, uint64_t mono_us,
                                   const struct dev_recorder_sink *sink)
{
    uint8_t bytes[STATE_BYTES];
    size_t size = 0;
    struct state state = {0};
    enum base_status status =
        dev_collect_get(recorder->collect, state_key, bytes, sizeof(bytes), &size);
    bool there = status == BASE_OK;
    if (there) {
        status = state_parse(recorder, bytes, size, &state);
    }
    bool lost = status == BASE_ERR_CORRUPT || status == BASE_ERR_TOO_LARGE;
    if (status == BASE_ERR_NOT_FOUND || lost) {
        recorder->stats.damaged = lost ? 1 : 0;
        there = false;
        status = numbers_anew(recorder, now_us);
    }
    BASE_TRY(status);
    bool same_boot = there && recorder->boot_id != 0 && recorder->boot_id == state.boot_id &&
                     mono_us >= state.mono_us;
    recorder->boot += same_boot ? 0 : 1;
    recorder->mono_us = mono_us;
    end_past(recorder, sink);
    recorder->booted = true;
    recorder->stored_to = recorder->next_seq;
    BASE_TRY(reserve(recorder, now_us, 1));
    base_assert(recorder->next_seq > 0 && recorder->next_seq < recorder->reserved_seq);
    dev_ring_gate(&recorder->ring, recorder->capturing ? &recorder->capture.gate : NULL,
                  recorder->secret);
    return BASE_OK;
}

// ---- Draining

// Leaves the wanted attributes in recorder->attrs; when all are wanted, they stay where they are.
static void filter_attrs(struct dev_recorder *recorder, const struct dev_capture_set *set,
                         struct dev_event *event)
{
    struct base_reader reader;
    struct base_writer writer;
    base_reader_init(&reader, event->attrs, event->attrs_bytes);
    base_writer_init(&writer, recorder->attrs, sizeof(recorder->attrs));
    uint32_t kept = 0;
    const uint8_t *wanted = reader.at; // from here to the reader, not written yet
    for (uint32_t i = 0; i < event->attr_count; i++) {
        struct wire_event_attr attr;
        const uint8_t *from = reader.at;
        wire_event_attr_take(&reader, &attr);
        if (dev_capture_wants_attr(&recorder->capture, set, attr.name)) {
            kept++;
            continue;
        }
        base_writer_bytes(&writer, wanted, (size_t)(from - wanted));
        wanted = reader.at;
    }
    if (kept == event->attr_count) {
        return;
    }
    base_writer_bytes(&writer, wanted, (size_t)(reader.at - wanted));
    base_assert(reader.status == BASE_OK && writer.status == BASE_OK);
    event->attrs = recorder->attrs;
    event->attrs_bytes = (uint32_t)base_writer_size(&writer);
    event->attr_count = kept;
}

// False: nobody needs it.
static bool keep(struct dev_recorder *recorder, struct dev_event *event)
{
    struct dev_capture_set set;
    if (!recorder->capturing) {
        return true;
    }
    dev_capture_find(&recorder->capture, event->kind, event->page_hash, event->name_hash, &set);
    if (set.wanted && !set.every_attr && event->attr_count > 0) {
        filter_attrs(recorder, &set, event);
    }
    return set.wanted;
}

// Gives the event its numbers, hashes and visit. False: nobody needs it.
static bool complete(struct dev_recorder *recorder, struct dev_event *event,
                     struct dev_visit_step *out_step)
{
    base_assert(recorder->next_seq < recorder->reserved_seq);
    event->seq = recorder->next_seq++;
    event->boot = recorder->boot;
    event->name_hash = dev_event_hash(recorder->secret, event->name);
    event->page_hash = dev_event_hash(recorder->secret, event->page);
    recorder->mono_us = event->mono_us > recorder->mono_us ? event->mono_us : recorder->mono_us;
    dev_visits_step(&recorder->visits, event, out_step);
    event->visit = out_step->visit;
    recorder->stats.recorded++;
    if (!keep(recorder, event)) {
        recorder->stats.unneeded++;
        return false;
    }
    recorder->stats.kept++;
    event->item_hash = dev_event_hash(recorder->secret, event->item); // capture does not ask it
    return true;
}

// Gives numbers to what nobody needed and to what found no room.
static void step_over(struct dev_recorder *recorder, uint64_t skipped, uint64_t lost,
                      const struct dev_recorder_sink *sink)
{
    base_assert(skipped + lost <= recorder->reserved_seq - recorder->next_seq);
    recorder->next_seq += skipped;
    recorder->stats.recorded += skipped + lost;
    recorder->stats.unneeded += skipped;
    recorder->stats.lost += lost;
    tell_gap(recorder, sink, lost, DEV_GAP_OVERFLOW);
}

// Room for so many numbers, those of what is left out used already. False: the store refuses them.
static bool make_numbers(struct dev_recorder *recorder, uint64_t now_us,
                         const struct dev_ring_record *record, const struct dev_recorder_sink *sink)
{
    uint64_t numbers = record->skipped + record->lost + (record->size > 0 ? 1 : 0);
    if (reserve(recorder, now_us, numbers) != BASE_OK) {
        return false;
    }
    reserve_commit(recorder, now_us, numbers);
    step_over(recorder, record->skipped, record->lost, sink);
    return true;
}

uint32_t dev_recorder_drain(struct dev_recorder *recorder, uint64_t now_us, uint32_t max,
                            const struct dev_recorder_sink *sink)
{
    struct dev_ring_record record;
    uint32_t count = 0;
    base_assert(recorder->booted);
    max = max > 0 ? max : DEV_RECORDER_DRAIN_MAX;
    while (count < max) {
        bool there = dev_ring_peek(&recorder->ring, &record);
        if (!there && dev_ring_sleep(&recorder->ring)) {
            break;
        }
        if (!there) {
            continue;
        }
        if (!make_numbers(recorder, now_us, &record, sink)) {
            return count;
        }
        struct dev_event *event = &record.event;
        struct dev_visit_step step;
        bool needed = complete(recorder, event, &step);
        if (step.ends && event->kind == DEV_EVENT_ENTER) {
            tell_end(sink, &step.ended, step.why);
        }
        if (needed && sink->on_event != NULL) {
            sink->on_event(sink->ctx, event);
        }
        if (step.ends && event->kind == DEV_EVENT_EXIT) {
            tell_end(sink, &step.ended, step.why);
        }
        dev_ring_pop(&recorder->ring, &record);
        count++;
    }
    if (count == max) {
        return count;
    }
    record = (struct dev_ring_record){.size = 0}; // none: what was left out behind the last one
    dev_ring_rest(&recorder->ring, &record.lost, &record.skipped);
    if (!make_numbers(recorder, now_us, &record, sink)) {
        dev_ring_unrest(&recorder->ring, record.lost, record.skipped);
    }
    return count;
}

// ---- Saving

enum base_status dev_recorder_checkpoint(struct dev_recorder *recorder, uint64_t now_us,
                                         uint64_t stored_to)
{
    base_assert(recorder->booted && recorder->stored_to <= recorder->next_seq);
    uint64_t before = recorder->stored_to;
    enum base_status status = reserve(recorder, now_us, 1);
    if (status != BASE_OK) {
        recorder->reserve_change = NOT_PUT; // the group takes back what it may have put
        return status;
    }
    recorder->stored_to = stored_to < recorder->next_seq ? stored_to : recorder->next_seq;
    status = state_put(recorder, now_us, recorder->reserved_seq, recorder->reserved_visit, false);
    if (status != BASE_OK) {
        recorder->stored_to = before;
        recorder->reserve_change = NOT_PUT;
    }
    return status;
}

void dev_recorder_uncheckpoint(struct dev_recorder *recorder, uint64_t from)
{
    recorder->stored_to = from < recorder->stored_to ? from : recorder->stored_to;
    recorder->reserve_change = NOT_PUT;
}

void dev_recorder_stats(const struct dev_recorder *recorder, struct dev_recorder_stats *out)
{
    *out = recorder->stats;
    out->invalid = atomic_load_explicit(&recorder->ring.invalid, memory_order_relaxed);
    out->next_seq = recorder->next_seq;
    out->boot = recorder->boot;
    out->visits = recorder->visits;
}
