// The bounded buffer of a join: records of events one behind the other, moved to the front of the
// block when its end is reached. Called by the stream functions (event_stream.c, stream_events.c,
// stream_window.c) on their owner's thread; no allocation. Events are copied whole, texts and
// attributes included, since the caller's event is gone when its partner comes; a record begins at
// a multiple of 8.
#include "pipeline/stream/join_buffer.h"

#include "base/carve.h"
#include "base/check.h"

#include <string.h>

// Head of a record; texts and attributes follow, rounded up to 8 bytes.
struct record {
    uint64_t seq;
    uint64_t wall_ms;
    uint64_t mono_us;
    uint64_t name_hash;
    uint64_t page_hash;
    uint64_t item_hash;
    struct dev_cell left_key;
    struct dev_cell right_key;
    uint32_t size; // of the whole record
    uint32_t boot;
    uint32_t visit;
    uint32_t instance;
    uint32_t attrs_bytes;
    uint8_t attr_count;
    uint8_t kind;
    uint8_t sides;
    uint8_t name_size;
    uint8_t page_size;
    uint8_t item_size;
    uint8_t reserved[6];
};

_Static_assert(sizeof(struct record) % 8 == 0, "records are aligned");

void dev_join_init(struct dev_join_buffer *buffer, void *memory, uint32_t capacity)
{
    base_assert((uintptr_t)memory % 8 == 0 && capacity % 8 == 0);
    *buffer = (struct dev_join_buffer){.bytes = memory, .capacity = capacity};
}

static struct record *record_at(const struct dev_join_buffer *buffer, uint32_t at)
{
    base_assert(at % 8 == 0 && at < buffer->capacity);
    return (struct record *)(void *)(buffer->bytes + at);
}

static void oldest_drop(struct dev_join_buffer *buffer)
{
    base_assert(buffer->head < buffer->tail);
    buffer->head += record_at(buffer, buffer->head)->size;
    if (buffer->head == buffer->tail) {
        buffer->head = 0;
        buffer->tail = 0;
    }
}

void dev_join_expire(struct dev_join_buffer *buffer, uint64_t wall_ms)
{
    while (buffer->head < buffer->tail && record_at(buffer, buffer->head)->wall_ms < wall_ms) {
        uint64_t past = record_at(buffer, buffer->head)->wall_ms + 1;
        buffer->gone_ms = past > buffer->gone_ms ? past : buffer->gone_ms;
        oldest_drop(buffer);
    }
}

uint32_t dev_join_clear(struct dev_join_buffer *buffer)
{
    uint32_t count = 0;
    while (buffer->head < buffer->tail) {
        oldest_drop(buffer);
        count++;
    }
    buffer->gone_ms = 0;
    return count;
}

static void text_put(uint8_t **at, struct base_str text)
{
    if (text.size > 0) {
        memcpy(*at, text.data, text.size);
        *at += text.size;
    }
}

uint32_t dev_join_put(struct dev_join_buffer *buffer, const struct dev_event *event, uint32_t sides,
                      struct dev_value left_key, struct dev_value right_key)
{
    base_assert(sides != 0 && (sides & ~(DEV_JOIN_LEFT | DEV_JOIN_RIGHT)) == 0);
    size_t size = sizeof(struct record) + event->name.size + event->page.size + event->item.size +
                  event->attrs_bytes;
    size = base_aligned(size, 8);
    if (size > buffer->capacity / 4) {
        return UINT32_MAX;
    }
    uint32_t dropped = 0;
    while (buffer->tail - buffer->head + size > buffer->capacity) {
        oldest_drop(buffer);
        dropped++;
    }
    if (buffer->tail + size > buffer->capacity) {
        memmove(buffer->bytes, buffer->bytes + buffer->head, buffer->tail - buffer->head);
        buffer->tail -= buffer->head;
        buffer->head = 0;
    }
    base_assert(buffer->tail + size <= buffer->capacity);
    struct record *record = record_at(buffer, buffer->tail);
    *record = (struct record){
        .seq = event->seq,
        .wall_ms = event->wall_ms,
        .mono_us = event->mono_us,
        .name_hash = event->name_hash,
        .page_hash = event->page_hash,
        .item_hash = event->item_hash,
        .size = (uint32_t)size,
        .boot = event->boot,
        .visit = event->visit,
        .instance = event->instance,
        .attrs_bytes = event->attrs_bytes,
        .attr_count = (uint8_t)event->attr_count,
        .kind = (uint8_t)event->kind,
        .sides = (uint8_t)sides,
        .name_size = (uint8_t)event->name.size,
        .page_size = (uint8_t)event->page.size,
        .item_size = (uint8_t)event->item.size,
    };
    (void)dev_cell_set(&record->left_key, left_key);
    (void)dev_cell_set(&record->right_key, right_key);
    uint8_t *at = (uint8_t *)(record + 1);
    text_put(&at, event->name);
    text_put(&at, event->page);
    text_put(&at, event->item);
    text_put(&at, (struct base_str){(const char *)event->attrs, event->attrs_bytes});
    buffer->tail += (uint32_t)size;
    return dropped;
}

static struct base_str text_take(const uint8_t **at, size_t size)
{
    struct base_str text = {size > 0 ? (const char *)*at : NULL, size};
    *at += size;
    return text;
}

bool dev_join_next(const struct dev_join_buffer *buffer, uint32_t *at, struct dev_join_entry *out)
{
    uint32_t here = *at < buffer->head ? buffer->head : *at;
    if (here >= buffer->tail) {
        return false;
    }
    const struct record *record = record_at(buffer, here);
    base_assert(record->size >= sizeof(*record) && record->size <= buffer->tail - here);
    const uint8_t *texts = (const uint8_t *)(record + 1);
    *out = (struct dev_join_entry){
        .sides = record->sides,
        .left_key = dev_cell_get(&record->left_key),
        .right_key = dev_cell_get(&record->right_key),
        .event =
            {
                .seq = record->seq,
                .wall_ms = record->wall_ms,
                .mono_us = record->mono_us,
                .boot = record->boot,
                .visit = record->visit,
                .instance = record->instance,
                .kind = (enum dev_event_kind)record->kind,
                .name = text_take(&texts, record->name_size),
                .page = text_take(&texts, record->page_size),
                .item = text_take(&texts, record->item_size),
                .name_hash = record->name_hash,
                .page_hash = record->page_hash,
                .item_hash = record->item_hash,
                .attrs = texts,
                .attrs_bytes = record->attrs_bytes,
                .attr_count = record->attr_count,
            },
    };
    *at = here + record->size;
    return true;
}
