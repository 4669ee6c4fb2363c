// Sequences of events: the ring in memory and what of it is to be stored.
//
// Called on the runtime's thread. The ring holds records of a head and texts and attributes, in
// order; a place is a count of bytes ever written, so places ascend and `place % capacity` is where
// a record lies. Records do not wrap. [tail, head) is in memory, [stored, head) is not stored yet.
// Blocks lie in DEV_SPACE_EVENTS under u64 big-endian first seq and last seq.
#include "pipeline/record/sequence_state.h"

#include "base/carve.h"
#include "base/check.h"
#include "base/ckd.h"

#include <string.h>

#define NOWHERE UINT64_MAX

static uint32_t ring_bytes(const struct dev_sequence_options *options)
{
    return options->ring_bytes > 0 ? options->ring_bytes : DEV_SEQUENCE_RING_BYTES;
}

size_t dev_sequence_bytes(const struct dev_sequence_options *options)
{
    return sizeof(struct dev_sequence) + ring_bytes(options);
}

enum base_status dev_sequence_init(void *memory, size_t memory_bytes,
                                   const struct dev_sequence_options *options,
                                   struct dev_sequence **out)
{
    uint32_t capacity = ring_bytes(options);
    if (memory == NULL || (uintptr_t)memory % _Alignof(struct dev_sequence) != 0 ||
        memory_bytes < dev_sequence_bytes(options) || (capacity & (capacity - 1)) != 0 ||
        capacity < DEV_SEQUENCE_RING_BYTES_MIN || capacity > DEV_SEQUENCE_RING_BYTES_MAX) {
        return BASE_ERR_INVALID;
    }
    struct dev_sequence *sequence = memory;
    memset(sequence, 0, sizeof(*sequence));
    sequence->options = *options;
    sequence->ring = (uint8_t *)memory + sizeof(*sequence);
    sequence->capacity = capacity;
    sequence->quota = options->store_bytes > 0 ? options->store_bytes : DEV_SEQUENCE_STORE_BYTES;
    sequence->latest = NOWHERE;
    *out = sequence;
    return BASE_OK;
}

// ---- The ring

const struct sequence_record *sequence_record_at(const struct dev_sequence *sequence,
                                                 uint64_t place)
{
    base_assert(place % 8 == 0);
    const void *at = sequence->ring + (place & (sequence->capacity - 1)); // aligned to 8
    return at;
}

static struct sequence_record *record_at(struct dev_sequence *sequence, uint64_t place)
{
    void *at = sequence->ring + (place & (sequence->capacity - 1));
    return at;
}

static uint64_t to_end(const struct dev_sequence *sequence, uint64_t place)
{
    return sequence->capacity - (place & (sequence->capacity - 1));
}

uint64_t sequence_skip_padding(const struct dev_sequence *sequence, uint64_t place)
{
    if (place >= sequence->head) {
        return sequence->head;
    }
    bool padding = to_end(sequence, place) < sizeof(struct sequence_record) ||
                   sequence_record_at(sequence, place)->size == 0;
    return padding ? place + to_end(sequence, place) : place;
}

uint64_t sequence_after(const struct dev_sequence *sequence, uint64_t place)
{
    return sequence_skip_padding(sequence, place + sequence_record_at(sequence, place)->size);
}

void sequence_view(const struct sequence_record *record, struct dev_event *out)
{
    base_assert(sizeof(*record) + record->name_size + record->page_size + record->item_size +
                    record->attrs_bytes <=
                record->size);
    const char *text = (const char *)(record + 1);
    const char *page = text + record->name_size;
    const char *item = page + record->page_size;
    *out = (struct dev_event){
        .seq = record->seq,
        .wall_ms = record->wall_ms,
        .mono_us = record->mono_us,
        .boot = record->boot,
        .visit = record->visit,
        .instance = record->instance,
        .kind = (enum dev_event_kind)record->kind,
        .name = {text, record->name_size},
        .page = {page, record->page_size},
        .item = {item, record->item_size},
        .name_hash = record->name_hash,
        .page_hash = record->page_hash,
        .item_hash = record->item_hash,
        .attrs = (const uint8_t *)item + record->item_size,
        .attrs_bytes = record->attrs_bytes,
        .attr_count = record->attr_count,
    };
}

// ---- Visits in memory

const struct sequence_visit *sequence_visit_find(const struct dev_sequence *sequence,
                                                 uint32_t visit)
{
    for (uint32_t i = 0; i < DEV_SEQUENCE_VISITS; i++) {
        if (sequence->visits[i].visit == visit) {
            return &sequence->visits[i];
        }
    }
    return NULL;
}

// The visit's entry, made if need be in the place of the one that has been still for longest.
static struct sequence_visit *visit_entry(struct dev_sequence *sequence, uint32_t visit)
{
    base_assert(visit != 0);
    struct sequence_visit *oldest = &sequence->visits[0];
    for (uint32_t i = 0; i < DEV_SEQUENCE_VISITS; i++) {
        struct sequence_visit *entry = &sequence->visits[i];
        if (entry->visit == visit) {
            return entry;
        }
        bool freer = entry->visit == 0 || (oldest->visit != 0 && entry->last < oldest->last);
        oldest = freer ? entry : oldest;
    }
    // One that was known before and lost its entry cannot be indexed from its middle.
    *oldest = (struct sequence_visit){.visit = visit, .first = NOWHERE, .last = NOWHERE};
    return oldest;
}

static void visit_add(struct dev_sequence *sequence, uint64_t place, const struct dev_event *event)
{
    if (event->visit == 0) {
        return;
    }
    struct sequence_visit *entry = visit_entry(sequence, event->visit);
    if (entry->first == NOWHERE) {
        entry->first = place;
        entry->whole = event->kind == DEV_EVENT_ENTER;
    } else {
        record_at(sequence, entry->last)->next_of_visit = place;
    }
    entry->last = place;
}

static void visit_drop_first(struct dev_sequence *sequence, const struct sequence_record *record,
                             uint64_t place)
{
    for (uint32_t i = 0; i < DEV_SEQUENCE_VISITS && record->visit != 0; i++) {
        struct sequence_visit *entry = &sequence->visits[i];
        if (entry->visit != record->visit || entry->first != place) {
            continue;
        }
        entry->first = record->next_of_visit;
        if (entry->first == NOWHERE) {
            *entry = (struct sequence_visit){0};
        }
    }
}

// ---- Events in

static void note_lost(struct dev_sequence *sequence, const struct dev_gap *gap)
{
    base_assert((unsigned)gap->why < DEV_GAP_WHY_COUNT);
    sequence->gaps_dirty = true;
    sequence->stats.lost[gap->why] += gap->count;
    struct dev_gap *last =
        sequence->gap_count > 0 ? &sequence->gaps[sequence->gap_count - 1] : NULL;
    if (last != NULL && last->why == gap->why && last->first + last->count == gap->first) {
        last->count += gap->count;
        return;
    }
    if (sequence->gap_count == DEV_SEQUENCE_GAPS) {
        memmove(&sequence->gaps[0], &sequence->gaps[1],
                (DEV_SEQUENCE_GAPS - 1) * sizeof(sequence->gaps[0]));
        sequence->gap_count--;
    }
    sequence->gaps[sequence->gap_count++] = *gap;
}

// Takes the oldest event out of memory. One that is not stored by now is lost.
static void drop_oldest(struct dev_sequence *sequence)
{
    base_assert(sequence->count > 0);
    uint64_t place = sequence_skip_padding(sequence, sequence->tail);
    const struct sequence_record *record = sequence_record_at(sequence, place);
    if (place >= sequence->stored && !sequence->options.memory_only) {
        const struct dev_gap gap = {.first = record->seq, .count = 1, .why = DEV_GAP_STORE};
        note_lost(sequence, &gap);
        base_assert(sequence->waiting > 0 && sequence->waiting_bytes >= record->size);
        sequence->waiting--;
        sequence->waiting_bytes -= record->size;
        sequence->stored = place + record->size;
    }
    visit_drop_first(sequence, record, place);
    sequence->count--;
    sequence->tail = place + record->size;
    if (sequence->count == 0) {
        sequence->tail = sequence->head;
        sequence->latest = NOWHERE;
    }
    if (sequence->stored < sequence->tail) {
        sequence->stored = sequence->tail;
    }
}

// A place for `size` bytes; what is in the way goes.
static uint64_t make_place(struct dev_sequence *sequence, uint32_t size)
{
    base_assert(size % 8 == 0 && size <= sequence->capacity);
    uint64_t padding =
        size > to_end(sequence, sequence->head) ? to_end(sequence, sequence->head) : 0;
    while (sequence->head + padding + size - sequence->tail > sequence->capacity) {
        drop_oldest(sequence);
    }
    if (padding >= sizeof(struct sequence_record)) {
        record_at(sequence, sequence->head)->size = 0;
    }
    uint64_t place = sequence->head + padding;
    if (sequence->count == 0) {
        sequence->tail = place;
        sequence->stored = place;
    }
    return place;
}

// What is written at `place` belongs to the sequence from here on.
static void place_taken(struct dev_sequence *sequence, uint64_t place, uint32_t size)
{
    sequence->head = place + size;
    sequence->latest = place;
    sequence->count++;
    sequence->stats.events++;
    base_assert(sequence->head - sequence->tail <= sequence->capacity);
    if (sequence->options.memory_only) {
        sequence->stored = sequence->head;
        return;
    }
    sequence->waiting++;
    sequence->waiting_bytes += size;
}

void dev_sequence_on_event(struct dev_sequence *sequence, uint64_t now_us,
                           const struct dev_event *event)
{
    size_t bytes = sizeof(struct sequence_record) + event->name.size + event->page.size +
                   event->item.size + event->attrs_bytes;
    uint32_t size = (uint32_t)base_aligned(bytes, 8);
    base_assert(event->attrs_bytes <= DEV_EVENT_ATTRS_BYTES && event->attr_count <= UINT16_MAX);
    if (sequence_is_full(sequence)) {                           // many came between two steps
        (void)sequence_put_block(sequence, now_us, event->seq); // else it waits on
    }
    uint64_t place = make_place(sequence, size);
    struct sequence_record *record = record_at(sequence, place);
    *record = (struct sequence_record){
        .size = size,
        .boot = event->boot,
        .before = sequence->latest,
        .next_of_visit = NOWHERE,
        .arrived_us = now_us,
        .seq = event->seq,
        .wall_ms = event->wall_ms,
        .mono_us = event->mono_us,
        .visit = event->visit,
        .instance = event->instance,
        .name_hash = event->name_hash,
        .page_hash = event->page_hash,
        .item_hash = event->item_hash,
        .attrs_bytes = (uint16_t)event->attrs_bytes,
        .attr_count = (uint16_t)event->attr_count,
        .kind = (uint8_t)event->kind,
        .name_size = (uint8_t)event->name.size,
        .page_size = (uint8_t)event->page.size,
        .item_size = (uint8_t)event->item.size,
    };
    const struct base_str parts[] = {
        event->name, event->page, event->item, {(const char *)event->attrs, event->attrs_bytes}};
    uint8_t *at = (uint8_t *)(record + 1);
    for (unsigned i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        if (parts[i].size > 0) {
            memcpy(at, parts[i].data, parts[i].size);
            at += parts[i].size;
        }
    }
    place_taken(sequence, place, size);
    visit_add(sequence, place, event);
}

void dev_sequence_on_gap(struct dev_sequence *sequence, const struct dev_gap *gap)
{
    note_lost(sequence, gap);
}

void dev_sequence_on_visit_end(struct dev_sequence *sequence)
{
    sequence->due = true;
}

// ---- Reading from memory

static uint64_t first_place(const struct dev_sequence *sequence)
{
    return sequence_skip_padding(sequence, sequence->tail);
}

void dev_sequence_range(const struct dev_sequence *sequence, uint64_t from_seq, uint64_t to_seq,
                        struct dev_sequence_cursor *out)
{
    uint64_t place = first_place(sequence);
    while (place < sequence->head && sequence_record_at(sequence, place)->seq < from_seq) {
        place = sequence_after(sequence, place);
    }
    *out = (struct dev_sequence_cursor){
        .sequence = sequence,
        .place = place,
        .to_seq = to_seq,
        .ends = place >= sequence->head,
    };
}

void dev_sequence_visit(const struct dev_sequence *sequence, uint32_t visit,
                        struct dev_sequence_cursor *out)
{
    const struct sequence_visit *entry = visit != 0 ? sequence_visit_find(sequence, visit) : NULL;
    bool chained = entry != NULL && entry->whole;
    *out = (struct dev_sequence_cursor){
        .sequence = sequence,
        .place = chained ? entry->first : first_place(sequence),
        .to_seq = UINT64_MAX,
        .visit = visit,
        .chained = chained,
        .ends = visit == 0 || sequence->count == 0,
    };
}

void dev_sequence_latest(const struct dev_sequence *sequence, uint64_t to_seq,
                         struct dev_sequence_cursor *out)
{
    *out = (struct dev_sequence_cursor){
        .sequence = sequence,
        .place = sequence->latest,
        .to_seq = to_seq,
        .ends = sequence->latest == NOWHERE,
    };
}

bool dev_sequence_next(struct dev_sequence_cursor *cursor, struct dev_event *out)
{
    const struct dev_sequence *sequence = cursor->sequence;
    while (!cursor->ends) {
        const struct sequence_record *record = sequence_record_at(sequence, cursor->place);
        cursor->place =
            cursor->chained ? record->next_of_visit : sequence_after(sequence, cursor->place);
        cursor->ends = cursor->place >= sequence->head; // NOWHERE too
        if (record->seq > cursor->to_seq) {
            cursor->ends = true;
            return false;
        }
        if (cursor->visit == 0 || record->visit == cursor->visit) {
            sequence_view(record, out);
            return true;
        }
    }
    return false;
}

bool dev_sequence_before(struct dev_sequence_cursor *cursor, struct dev_event *out)
{
    const struct dev_sequence *sequence = cursor->sequence;
    while (!cursor->ends) {
        const struct sequence_record *record = sequence_record_at(sequence, cursor->place);
        cursor->place = record->before;
        cursor->ends = record->before == NOWHERE || record->before < sequence->tail;
        if (record->seq <= cursor->to_seq) {
            sequence_view(record, out);
            return true;
        }
    }
    return false;
}

uint32_t dev_sequence_gaps(const struct dev_sequence *sequence,
                           struct dev_gap out[DEV_SEQUENCE_GAPS])
{
    memcpy(out, sequence->gaps, sequence->gap_count * sizeof(out[0]));
    return sequence->gap_count;
}

void dev_sequence_stats(const struct dev_sequence *sequence, struct dev_sequence_stats *out)
{
    *out = sequence->stats;
    out->in_memory = sequence->count;
    out->waiting = sequence->waiting;
}

bool dev_sequence_validate(const struct dev_sequence *sequence)
{
    uint32_t count = 0;
    uint32_t waiting = 0;
    uint64_t bytes = 0;
    uint64_t before = NOWHERE;
    uint64_t seq = 0;
    bool fine = sequence->head - sequence->tail <= sequence->capacity;
    for (uint64_t place = first_place(sequence); fine && place < sequence->head;
         place = sequence_after(sequence, place)) {
        const struct sequence_record *record = sequence_record_at(sequence, place);
        fine = (count == 0 || (record->seq > seq && record->before == before)) &&
               record->size >= sizeof(*record) && record->size % 8 == 0;
        count++;
        waiting += place >= sequence->stored ? 1 : 0;
        bytes += place >= sequence->stored ? record->size : 0;
        before = place;
        seq = record->seq;
    }
    return fine && count == sequence->count && waiting == sequence->waiting &&
           bytes == sequence->waiting_bytes && before == sequence->latest;
}
