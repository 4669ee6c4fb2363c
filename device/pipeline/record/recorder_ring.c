// The recorder's ring: many threads put, one takes. SHARED ATOMICS: the fields of struct dev_ring
// and the first word of each record; everything else in a record is written by one thread before it
// publishes that word and read by another after it saw it.
//
// Called by recorder.c alone: dev_ring_admits, _put and _wakes by dev_record on the threads of the
// app, all else on the runtime's. A put takes no lock, allocates nothing and waits for nobody; what
// finds no room is counted as lost.
#include "pipeline/record/recorder_ring.h"

#include "base/carve.h"
#include "base/check.h"
#include "pipeline/record/event_names.h"
#include "wire/event_attrs.h"
#include "wire/wiretext.h"

#include <string.h>

// A put reserves bytes by moving `head` with compare-and-swap (another thread's success is the only
// reason to try again), writes its record there and publishes its size. The drain reads records in
// the order of reservation; it waits behind a record that is reserved and not yet published, which
// a thread that is stopped in the middle can prolong: later records stay in the ring until then,
// and when it is full they are counted as lost. The drain zeroes what it takes, so that a word that
// is not 0 is always a published size. Records do not wrap: what is left at the end of the ring
// becomes padding.
//
// Memory order. Publishing and seeing it are sequentially consistent, for the sake of `idle` (see
// dev_ring_wakes). Giving back is a release of `tail` after zeroing, and a put acquires `tail`
// before it uses the room. Counters and gate are relaxed:
// the gate may be seen late, an event recorded while it changes falls under the old or the new one.

#define PADDING 0x80000000u

struct head {              // in the ring, aligned to 8
    _Atomic uint32_t size; // of the record with this head; 0: not published
    uint32_t instance;
    uint64_t lost;
    uint64_t skipped;
    uint64_t wall_ms;
    uint64_t mono_us;
    uint8_t kind;
    uint8_t name_size;
    uint8_t page_size;
    uint8_t item_size;
    uint16_t attrs_bytes;
    uint16_t attr_count;
};

_Static_assert(sizeof(struct head) % 8 == 0, "records are aligned to 8");
_Static_assert(sizeof(struct head) + DEV_EVENT_PAGE_MAX + DEV_EVENT_ITEM_MAX + DEV_EVENT_NAME_MAX +
                       DEV_EVENT_ATTRS_BYTES + 8 <=
                   DEV_RECORDER_RING_BYTES_MIN / 2,
               "the greatest record fits beside its padding");

void dev_ring_init(struct dev_ring *ring, uint8_t *bytes, uint32_t capacity)
{
    base_assert((capacity & (capacity - 1)) == 0 && (uintptr_t)bytes % 8 == 0);
    memset(ring, 0, sizeof(*ring));
    memset(bytes, 0, capacity);
    ring->bytes = bytes;
    ring->capacity = capacity;
    dev_ring_gate(ring, NULL, 0);
}

// The kinds come last: who sees them sees the rest. To open the gate nothing else need change.
void dev_ring_gate(struct dev_ring *ring, const struct dev_capture_gate *gate, uint64_t secret)
{
    bool open = gate == NULL;
    for (unsigned i = 0; i < DEV_CAPTURE_GATE_BITS / 64 && !open; i++) {
        atomic_store_explicit(&ring->gate_pages[i], gate->pages[i], memory_order_relaxed);
    }
    for (unsigned i = 0; i < DEV_EVENT_MARKS / 64 && !open; i++) {
        atomic_store_explicit(&ring->gate_names[i], gate->names[i], memory_order_relaxed);
    }
    atomic_store_explicit(&ring->secret, secret, memory_order_relaxed);
    atomic_store_explicit(&ring->gate_every_attr, open || gate->every_attr, memory_order_relaxed);
    atomic_store_explicit(&ring->gate_kinds, open ? UINT32_MAX : gate->kinds, memory_order_release);
}

// ---- Putting

static bool gate_passes(const struct dev_ring *ring, const struct dev_recording *recording)
{
    uint32_t kinds = atomic_load_explicit(&ring->gate_kinds, memory_order_acquire);
    if ((kinds >> recording->kind & 1) != 0) {
        return true;
    }
    uint64_t secret = atomic_load_explicit(&ring->secret, memory_order_relaxed);
    uint32_t bit = dev_capture_gate_bit(recording->kind, dev_event_hash(secret, recording->page));
    uint64_t word = atomic_load_explicit(&ring->gate_pages[bit / 64], memory_order_relaxed);
    return (word >> bit % 64 & 1) != 0;
}

static bool attr_passes(const struct dev_ring *ring, uint32_t mark)
{
    uint64_t word = atomic_load_explicit(&ring->gate_names[mark / 64], memory_order_relaxed);
    return (word >> mark % 64 & 1) != 0;
}

struct encoded {
    uint8_t bytes[DEV_EVENT_ATTRS_BYTES];
    uint32_t size;
    uint32_t count;
};

// Encodes those attributes that somebody may want.
static enum base_status encode(const struct dev_ring *ring, const struct dev_recording *recording,
                               struct encoded *out)
{
    _Static_assert(DEV_EVENT_ATTRS_BYTES <= UINT16_MAX, "a record's head has 16 bits for them");
    bool every = atomic_load_explicit(&ring->gate_every_attr, memory_order_relaxed);
    struct base_writer writer;
    struct dev_event_names names = {0};
    base_writer_init(&writer, out->bytes, sizeof(out->bytes));
    out->count = 0;
    if (recording->attr_count > DEV_EVENT_ATTRS_MAX) {
        return BASE_ERR_TOO_LARGE;
    }
    for (uint32_t i = 0; i < recording->attr_count; i++) {
        uint32_t mark = dev_event_mark(recording->attrs[i].name);
        if (every || attr_passes(ring, mark)) {
            BASE_TRY(dev_event_attr_write(&writer, recording->attrs, i, mark, &names));
            out->count++;
        }
    }
    out->size = (uint32_t)base_writer_size(&writer);
    return BASE_OK;
}

static enum base_status texts_ok(const struct dev_recording *recording)
{
    bool custom = recording->kind == DEV_EVENT_CUSTOM;
    if (recording->page.size > DEV_EVENT_PAGE_MAX || recording->item.size > DEV_EVENT_ITEM_MAX) {
        return BASE_ERR_TOO_LARGE;
    }
    bool fine = recording->page.size > 0 && wire_text_printable(recording->page) &&
                wire_text_printable(recording->item) &&
                (custom ? wire_event_name_ok(recording->name) : recording->name.size == 0);
    return fine ? BASE_OK : BASE_ERR_INVALID;
}

static struct head *head_at(const struct dev_ring *ring, uint64_t place)
{
    void *at = ring->bytes + (place & (ring->capacity - 1)); // aligned to 8 like every place
    return at;
}

// The place of `size` bytes; false: no room.
static bool reserve(struct dev_ring *ring, uint32_t size, uint64_t *out_place)
{
    base_assert(size % 8 == 0 && size <= ring->capacity / 2);
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    uint64_t padding;
    do {
        uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_acquire);
        uint64_t to_end = ring->capacity - (head & (ring->capacity - 1));
        padding = size > to_end ? to_end : 0;
        // Signed: `head` may be older than `tail`; then the exchange fails and gives a newer one.
        if ((int64_t)(head + padding + size - tail) > (int64_t)ring->capacity) {
            return false;
        }
    } while (!atomic_compare_exchange_weak_explicit(&ring->head, &head, head + padding + size,
                                                    memory_order_relaxed, memory_order_relaxed));
    if (padding > 0) {
        atomic_store_explicit(&head_at(ring, head)->size, PADDING | (uint32_t)padding,
                              memory_order_release);
    }
    *out_place = head + padding;
    return true;
}

static uint64_t take(_Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed) == 0
               ? 0
               : atomic_exchange_explicit(counter, 0, memory_order_relaxed);
}

static uint8_t *copy(uint8_t *at, const void *bytes, size_t size)
{
    if (size > 0) {
        memcpy(at, bytes, size);
    }
    return at + size;
}

static enum base_status refuse(struct dev_ring *ring, enum base_status status)
{
    atomic_fetch_add_explicit(&ring->invalid, 1, memory_order_relaxed);
    return status;
}

bool dev_ring_admits(struct dev_ring *ring, const struct dev_recording *recording,
                     enum base_status *out_status)
{
    bool known = (unsigned)recording->kind >= DEV_EVENT_ENTER &&
                 (unsigned)recording->kind < DEV_EVENT_KIND_END;
    if (known && !gate_passes(ring, recording)) {
        atomic_fetch_add_explicit(&ring->skipped, 1, memory_order_relaxed);
        *out_status = BASE_OK;
        return false;
    }
    enum base_status status = known ? texts_ok(recording) : BASE_ERR_INVALID;
    *out_status = status == BASE_OK ? BASE_OK : refuse(ring, status);
    return status == BASE_OK;
}

enum base_status dev_ring_put(struct dev_ring *ring, const struct dev_recording *recording)
{
    struct encoded attrs; // some 4 KB of the caller's stack
    uint64_t place;
    enum base_status status = encode(ring, recording, &attrs);
    if (status != BASE_OK) {
        return refuse(ring, status);
    }
    size_t size = sizeof(struct head) + recording->name.size + recording->page.size +
                  recording->item.size + attrs.size;
    uint32_t whole = (uint32_t)base_aligned(size, 8);
    base_assert(whole <= ring->capacity / 2); // it fits beside its padding
    if (!reserve(ring, whole, &place)) {
        atomic_fetch_add_explicit(&ring->lost, 1, memory_order_relaxed);
        return BASE_ERR_LIMIT;
    }
    struct head *head = head_at(ring, place);
    head->instance = recording->instance;
    head->lost = take(&ring->lost);
    head->skipped = take(&ring->skipped);
    head->wall_ms = recording->wall_ms;
    head->mono_us = recording->mono_us;
    head->kind = (uint8_t)recording->kind;
    head->name_size = (uint8_t)recording->name.size;
    head->page_size = (uint8_t)recording->page.size;
    head->item_size = (uint8_t)recording->item.size;
    head->attrs_bytes = (uint16_t)attrs.size;
    head->attr_count = (uint16_t)attrs.count;
    uint8_t *at = (uint8_t *)(head + 1);
    at = copy(at, recording->name.data, recording->name.size);
    at = copy(at, recording->page.data, recording->page.size);
    at = copy(at, recording->item.data, recording->item.size);
    at = copy(at, attrs.bytes, attrs.size);
    base_assert(at <= (uint8_t *)head + whole);
    atomic_store(&head->size, whole);
    return BASE_OK;
}

// The record was published before `idle` is looked at here, and `idle` is set before the ring is
// looked at once more (_sleep). All four are sequentially consistent, so one of the two sees the
// other.
bool dev_ring_wakes(struct dev_ring *ring)
{
    return atomic_load(&ring->idle) && atomic_exchange(&ring->idle, false);
}

// ---- Taking

// The next published record behind padding; NULL: none.
static struct head *first(struct dev_ring *ring, uint32_t *out_size)
{
    for (;;) {
        uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
        struct head *head = head_at(ring, tail);
        uint32_t size = atomic_load(&head->size);
        if ((size & PADDING) == 0) {
            *out_size = size;
            return size != 0 ? head : NULL;
        }
        atomic_store_explicit(&head->size, 0, memory_order_relaxed);
        atomic_store_explicit(&ring->tail, tail + (size & ~PADDING), memory_order_release);
    }
}

bool dev_ring_peek(struct dev_ring *ring, struct dev_ring_record *out)
{
    uint32_t size;
    const struct head *head = first(ring, &size);
    if (head == NULL) {
        return false;
    }
    base_assert(sizeof(*head) + head->name_size + head->page_size + head->item_size +
                    head->attrs_bytes <=
                size);
    const char *text = (const char *)(head + 1);
    const char *page = text + head->name_size;
    const char *item = page + head->page_size;
    *out = (struct dev_ring_record){
        .size = size,
        .lost = head->lost,
        .skipped = head->skipped,
        .event = {.wall_ms = head->wall_ms,
                  .mono_us = head->mono_us,
                  .instance = head->instance,
                  .kind = (enum dev_event_kind)head->kind,
                  .name = {text, head->name_size},
                  .page = {page, head->page_size},
                  .item = {item, head->item_size},
                  .attrs = (const uint8_t *)item + head->item_size,
                  .attrs_bytes = head->attrs_bytes,
                  .attr_count = head->attr_count},
    };
    return true;
}

void dev_ring_pop(struct dev_ring *ring, const struct dev_ring_record *record)
{
    base_assert(record->size >= sizeof(struct head) && record->size % 8 == 0);
    uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    memset(ring->bytes + (tail & (ring->capacity - 1)), 0, record->size);
    atomic_store_explicit(&ring->tail, tail + record->size, memory_order_release);
}

void dev_ring_rest(struct dev_ring *ring, uint64_t *out_lost, uint64_t *out_skipped)
{
    *out_lost = take(&ring->lost);
    *out_skipped = take(&ring->skipped);
}

void dev_ring_unrest(struct dev_ring *ring, uint64_t lost, uint64_t skipped)
{
    atomic_fetch_add_explicit(&ring->lost, lost, memory_order_relaxed);
    atomic_fetch_add_explicit(&ring->skipped, skipped, memory_order_relaxed);
}

bool dev_ring_sleep(struct dev_ring *ring)
{
    uint32_t size;
    atomic_store(&ring->idle, true);
    if (first(ring, &size) == NULL) {
        return true;
    }
    atomic_store(&ring->idle, false);
    return false;
}
