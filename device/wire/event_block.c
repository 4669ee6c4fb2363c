// Blocks of behaviour events in columns: written by the device, read by the device and the gateway.
//
// Any thread, nothing is shared, nothing is allocated: the writer keeps its tables of texts and
// names on the stack (about 20 KB), the reader in the caller's struct.
#include "wire/event_block.h"

#include "base/check.h"
#include "base/hash.h"
#include "wire/wiretext.h"

#include <string.h>

#define TEXT_SLOTS 512 // a power of two, twice the texts
#define NAME_SLOTS 256
#define TEXT_MAX   64

_Static_assert(TEXT_SLOTS == 2 * WIRE_EVENT_BLOCK_TEXTS_MAX, "half full at most");
_Static_assert(NAME_SLOTS == 2 * WIRE_EVENT_BLOCK_NAMES_MAX, "half full at most");
_Static_assert(TEXT_MAX >= WIRE_EVENT_PAGE_MAX && TEXT_MAX >= WIRE_EVENT_ITEM_MAX &&
                   TEXT_MAX >= WIRE_EVENT_ATTR_NAME_MAX,
               "every text fits");

enum column {
    COLUMN_SEQ,
    COLUMN_KIND,
    COLUMN_WALL,
    COLUMN_MONO,
    COLUMN_VISIT,
    COLUMN_INSTANCE,
    COLUMN_PAGE,
    COLUMN_ITEM,
    COLUMN_NAME,
    COLUMN_ATTRS,
    COLUMN_COUNT
};

_Static_assert(COLUMN_COUNT == sizeof(((struct wire_event_block *)0)->columns) /
                                   sizeof(((struct wire_event_block *)0)->columns[0]),
               "one reader a column");

// ---- Rules of an event, for writing and reading

static bool event_ok(const struct wire_event *event)
{
    bool custom = event->kind == WIRE_EVENT_KIND_MAX;
    bool named = custom ? wire_event_name_ok(event->name) : event->name.size == 0;
    return event->kind >= 1 && event->kind <= WIRE_EVENT_KIND_MAX && named &&
           event->page.size >= 1 && event->page.size <= WIRE_EVENT_PAGE_MAX &&
           event->item.size <= WIRE_EVENT_ITEM_MAX &&
           event->attrs_bytes <= WIRE_EVENT_ATTRS_BYTES &&
           event->attr_count <= WIRE_EVENT_ATTRS_MAX;
}

// Differences wrap: times may go backwards, and any two u64 have one.
static uint64_t delta_add(uint64_t before, int64_t delta)
{
    return before + (uint64_t)delta;
}

static int64_t delta_of(uint64_t value, uint64_t before)
{
    return (int64_t)(value - before);
}

// ---- Writing

struct name {
    struct base_str name;
    enum wire_event_attr_type type;
    uint32_t bytes; // of its values
};

struct encoder {
    const struct wire_event *events;
    uint32_t count;
    uint32_t text_count;
    uint32_t name_count;
    uint16_t text_slots[TEXT_SLOTS]; // 1 + index
    uint16_t name_slots[NAME_SLOTS];
    struct base_str texts[WIRE_EVENT_BLOCK_TEXTS_MAX];
    struct name names[WIRE_EVENT_BLOCK_NAMES_MAX];
};

// 1 + index of the text, 0 for an empty one; TOO_LARGE fails the writer.
static uint32_t text_index(struct encoder *encoder, struct base_writer *writer,
                           struct base_str text)
{
    base_assert(encoder->text_count <= WIRE_EVENT_BLOCK_TEXTS_MAX);
    if (text.size == 0) {
        return 0;
    }
    uint64_t slot = base_hash64(text.data, text.size) % TEXT_SLOTS;
    while (encoder->text_slots[slot] != 0) {
        uint32_t index = encoder->text_slots[slot];
        if (base_str_equal(encoder->texts[index - 1], text)) {
            return index;
        }
        slot = (slot + 1) % TEXT_SLOTS;
    }
    if (encoder->text_count == WIRE_EVENT_BLOCK_TEXTS_MAX) {
        base_writer_fail(writer, BASE_ERR_TOO_LARGE);
        return 0;
    }
    encoder->texts[encoder->text_count++] = text;
    encoder->text_slots[slot] = (uint16_t)encoder->text_count;
    return encoder->text_count;
}

// Index of (name, type); TOO_LARGE fails the writer.
static uint32_t name_index(struct encoder *encoder, struct base_writer *writer,
                           const struct wire_event_attr *attr)
{
    base_assert(encoder->name_count <= WIRE_EVENT_BLOCK_NAMES_MAX);
    uint64_t slot =
        base_hash64_seed(attr->name.data, attr->name.size, (uint64_t)attr->type) % NAME_SLOTS;
    while (encoder->name_slots[slot] != 0) {
        const struct name *name = &encoder->names[encoder->name_slots[slot] - 1];
        if (name->type == attr->type && base_str_equal(name->name, attr->name)) {
            return encoder->name_slots[slot] - 1u;
        }
        slot = (slot + 1) % NAME_SLOTS;
    }
    if (encoder->name_count == WIRE_EVENT_BLOCK_NAMES_MAX) {
        base_writer_fail(writer, BASE_ERR_TOO_LARGE);
        return 0;
    }
    encoder->names[encoder->name_count++] = (struct name){.name = attr->name, .type = attr->type};
    encoder->name_slots[slot] = (uint16_t)encoder->name_count;
    return encoder->name_count - 1;
}

// Reads the attribute at the reader and says how many bytes its value takes.
static uint32_t attr_read(struct base_reader *reader, struct wire_event_attr *out)
{
    base_assert(reader->status == BASE_OK);
    size_t from = base_reader_offset(reader);
    wire_event_attr_read(reader, out);
    size_t head = out->name.size + 2;
    return (uint32_t)(base_reader_offset(reader) - from - head);
}

// First walk: checks every event, gathers texts and names with the bytes of their values.
static void gather(struct encoder *encoder, struct base_writer *writer)
{
    for (uint32_t i = 0; i < encoder->count && writer->status == BASE_OK; i++) {
        const struct wire_event *event = &encoder->events[i];
        bool fine = event_ok(event) && wire_text_printable(event->page) &&
                    wire_text_printable(event->item) &&
                    (i == 0 || event->seq > encoder->events[i - 1].seq);
        if (!fine || wire_event_attrs_check(event->attrs, event->attrs_bytes, event->attr_count) !=
                         BASE_OK) {
            base_writer_fail(writer, BASE_ERR_INVALID);
            return;
        }
        (void)text_index(encoder, writer, event->page);
        (void)text_index(encoder, writer, event->item);
        (void)text_index(encoder, writer, event->name);
        struct base_reader attrs;
        base_reader_init(&attrs, event->attrs, event->attrs_bytes);
        for (uint32_t a = 0; a < event->attr_count && writer->status == BASE_OK; a++) {
            struct wire_event_attr attr;
            uint32_t bytes = attr_read(&attrs, &attr);
            base_assert(bytes <= event->attrs_bytes);
            encoder->names[name_index(encoder, writer, &attr)].bytes += bytes;
        }
    }
}

static void write_head(const struct encoder *encoder, struct base_writer *writer, uint32_t boot)
{
    base_assert(encoder->count > 0);
    base_writer_u8(writer, WIRE_EVENT_BLOCK_VERSION);
    base_writer_varint(writer, encoder->count);
    base_writer_u64(writer, encoder->events[0].seq);
    base_writer_u64(writer, encoder->events[0].wall_ms);
    base_writer_u64(writer, encoder->events[0].mono_us);
    base_writer_u32(writer, boot);
    base_writer_varint(writer, encoder->text_count);
    for (uint32_t i = 0; i < encoder->text_count; i++) {
        wire_text_write(writer, encoder->texts[i], TEXT_MAX);
    }
    base_writer_varint(writer, encoder->name_count);
    for (uint32_t i = 0; i < encoder->name_count; i++) {
        wire_text_write(writer, encoder->names[i].name, WIRE_EVENT_ATTR_NAME_MAX);
        base_writer_u8(writer, (uint8_t)encoder->names[i].type);
        base_writer_varint(writer, encoder->names[i].bytes);
    }
}

static void write_attr_column(struct encoder *encoder, struct base_writer *writer)
{
    for (uint32_t i = 0; i < encoder->count; i++) {
        const struct wire_event *event = &encoder->events[i];
        struct base_reader attrs;
        base_reader_init(&attrs, event->attrs, event->attrs_bytes);
        base_writer_varint(writer, event->attr_count);
        for (uint32_t a = 0; a < event->attr_count; a++) {
            struct wire_event_attr attr;
            (void)attr_read(&attrs, &attr);
            base_writer_varint(writer, name_index(encoder, writer, &attr));
        }
    }
}

static void write_column(struct encoder *encoder, struct base_writer *writer, enum column column)
{
    base_assert((unsigned)column < COLUMN_ATTRS);
    const struct wire_event *events = encoder->events;
    for (uint32_t i = 0; i < encoder->count; i++) {
        const struct wire_event *event = &events[i];
        const struct wire_event *before = &events[i > 0 ? i - 1 : 0];
        switch (column) {
        case COLUMN_SEQ:
            base_writer_varint(writer, i > 0 ? event->seq - before->seq - 1 : 0);
            break;
        case COLUMN_KIND:
            base_writer_u8(writer, event->kind);
            break;
        case COLUMN_WALL:
            base_writer_zigzag(writer, delta_of(event->wall_ms, before->wall_ms));
            break;
        case COLUMN_MONO:
            base_writer_zigzag(writer, delta_of(event->mono_us, before->mono_us));
            break;
        case COLUMN_VISIT:
            base_writer_zigzag(writer, (int64_t)event->visit - (i > 0 ? before->visit : 0));
            break;
        case COLUMN_INSTANCE:
            base_writer_varint(writer, event->instance);
            break;
        case COLUMN_PAGE:
            base_writer_varint(writer, text_index(encoder, writer, event->page));
            break;
        case COLUMN_ITEM:
            base_writer_varint(writer, text_index(encoder, writer, event->item));
            break;
        case COLUMN_NAME:
            base_writer_varint(writer, text_index(encoder, writer, event->name));
            break;
        case COLUMN_ATTRS:
        case COLUMN_COUNT:
            return;
        }
    }
}

// Second walk over attributes: each value goes to where the values of its name have come to.
static void write_values(struct encoder *encoder, struct base_writer *writer)
{
    struct base_writer values[WIRE_EVENT_BLOCK_NAMES_MAX];
    for (uint32_t n = 0; n < encoder->name_count; n++) {
        uint32_t bytes = encoder->names[n].bytes;
        if (writer->status != BASE_OK || bytes > (size_t)(writer->end - writer->at)) {
            base_writer_fail(writer, BASE_ERR_TOO_LARGE);
            return;
        }
        base_writer_init(&values[n], writer->at, bytes);
        writer->at += bytes;
    }
    for (uint32_t i = 0; i < encoder->count; i++) {
        const struct wire_event *event = &encoder->events[i];
        struct base_reader attrs;
        base_reader_init(&attrs, event->attrs, event->attrs_bytes);
        for (uint32_t a = 0; a < event->attr_count; a++) {
            struct wire_event_attr attr;
            uint32_t bytes = attr_read(&attrs, &attr);
            base_writer_bytes(&values[name_index(encoder, writer, &attr)], attrs.at - bytes, bytes);
        }
    }
    for (uint32_t n = 0; n < encoder->name_count; n++) {
        base_assert(values[n].status == BASE_OK && values[n].at == values[n].end);
    }
}

enum base_status wire_event_block_encode(const struct wire_event_list *list, uint8_t *out,
                                         size_t capacity, size_t *out_size)
{
    if (list->count == 0) {
        return BASE_ERR_INVALID;
    }
    if (list->count > WIRE_EVENT_BLOCK_EVENTS_MAX) {
        return BASE_ERR_TOO_LARGE;
    }
    struct encoder encoder = {.events = list->events, .count = list->count};
    struct base_writer writer;
    base_writer_init(&writer, out,
                     capacity < WIRE_EVENT_BLOCK_BYTES_MAX ? capacity : WIRE_EVENT_BLOCK_BYTES_MAX);
    gather(&encoder, &writer);
    BASE_TRY(writer.status);
    write_head(&encoder, &writer, list->boot);
    uint32_t texts = encoder.text_count;
    for (unsigned column = 0; column < COLUMN_ATTRS; column++) {
        write_column(&encoder, &writer, (enum column)column);
    }
    write_attr_column(&encoder, &writer);
    write_values(&encoder, &writer);
    base_assert(encoder.text_count == texts); // columns name what the head has
    BASE_TRY(writer.status);
    *out_size = base_writer_size(&writer);
    return BASE_OK;
}

// ---- Reading

static void read_head(struct base_reader *reader, struct wire_event_block_head *out,
                      uint64_t *out_mono_us)
{
    uint8_t version = base_reader_u8(reader);
    if (reader->status == BASE_OK && version != WIRE_EVENT_BLOCK_VERSION) {
        base_reader_fail(reader, BASE_ERR_UNSUPPORTED);
    }
    out->count = (uint32_t)base_reader_varint_max(reader, WIRE_EVENT_BLOCK_EVENTS_MAX);
    if (reader->status == BASE_OK && out->count == 0) {
        base_reader_fail(reader, BASE_ERR_INVALID);
    }
    out->first_seq = base_reader_u64(reader);
    out->wall_ms = base_reader_u64(reader);
    *out_mono_us = base_reader_u64(reader);
    out->boot = base_reader_u32(reader);
}

enum base_status wire_event_block_head(const uint8_t *bytes, size_t size,
                                       struct wire_event_block_head *out)
{
    struct base_reader reader;
    struct wire_event_block_head head;
    uint64_t mono_us;
    base_reader_init(&reader, bytes, size);
    read_head(&reader, &head, &mono_us);
    BASE_TRY(reader.status);
    *out = head;
    return BASE_OK;
}

static bool text_ok(struct base_str text)
{
    return text.size > 0 && wire_text_printable(text);
}

static void read_tables(struct base_reader *reader, struct wire_event_block *out)
{
    out->text_count = (uint32_t)base_reader_varint_max(reader, WIRE_EVENT_BLOCK_TEXTS_MAX);
    base_assert(out->text_count <= WIRE_EVENT_BLOCK_TEXTS_MAX); // of a failed reader, too
    for (uint32_t i = 0; i < out->text_count; i++) {
        out->texts[i] = wire_text_read(reader, TEXT_MAX);
        if (reader->status != BASE_OK || !text_ok(out->texts[i])) {
            base_reader_fail(reader, BASE_ERR_INVALID);
            return;
        }
    }
    out->name_count = (uint32_t)base_reader_varint_max(reader, WIRE_EVENT_BLOCK_NAMES_MAX);
    for (uint32_t i = 0; i < out->name_count; i++) {
        out->names[i].name = wire_text_read(reader, WIRE_EVENT_ATTR_NAME_MAX);
        uint8_t type = base_reader_u8(reader);
        uint64_t bytes = base_reader_varint_max(reader, WIRE_EVENT_BLOCK_BYTES_MAX);
        if (reader->status != BASE_OK) {
            return;
        }
        if (!wire_event_name_ok(out->names[i].name) || type >= WIRE_EVENT_ATTR_TYPE_END) {
            base_reader_fail(reader, BASE_ERR_INVALID);
            return;
        }
        out->names[i].type = (enum wire_event_attr_type)type;
        out->names[i].bytes = (uint32_t)bytes;
    }
}

static void skip_column(struct base_reader *reader, uint32_t count, enum column column)
{
    base_assert((unsigned)column < COLUMN_COUNT);
    for (uint32_t i = 0; i < count && reader->status == BASE_OK; i++) {
        if (column == COLUMN_KIND) {
            (void)base_reader_u8(reader);
            continue;
        }
        uint64_t value = base_reader_varint(reader);
        if (column == COLUMN_ATTRS && value > WIRE_EVENT_ATTRS_MAX) {
            base_reader_fail(reader, BASE_ERR_TOO_LARGE);
        }
        for (uint64_t a = 0; column == COLUMN_ATTRS && a < value && reader->status == BASE_OK;
             a++) {
            (void)base_reader_varint(reader);
        }
    }
}

// A reader of the bytes between two places of another.
static struct base_reader between(const uint8_t *from, const uint8_t *to)
{
    base_assert(from <= to);
    struct base_reader reader;
    base_reader_init(&reader, from, (size_t)(to - from));
    return reader;
}

static void place_columns(struct base_reader *reader, struct wire_event_block *out)
{
    for (unsigned column = 0; column < COLUMN_COUNT; column++) {
        const uint8_t *from = reader->at;
        skip_column(reader, out->count, (enum column)column);
        out->columns[column] = between(from, reader->at);
    }
    for (uint32_t n = 0; n < out->name_count; n++) {
        const uint8_t *from = base_reader_bytes(reader, out->names[n].bytes);
        if (from == NULL) {
            return;
        }
        base_reader_init(&out->names[n].values, from, out->names[n].bytes);
    }
}

static struct base_str read_text(struct wire_event_block *block, enum column column)
{
    uint64_t index = base_reader_varint_max(&block->columns[column], block->text_count);
    return index > 0 ? block->texts[index - 1] : (struct base_str){NULL, 0};
}

// Puts the event's attributes together again. INVALID: they cannot be those of one event.
static enum base_status read_attrs(struct wire_event_block *block, struct wire_event *out)
{
    struct base_reader *column = &block->columns[COLUMN_ATTRS];
    struct base_writer writer;
    base_assert(block->name_count <= WIRE_EVENT_BLOCK_NAMES_MAX);
    bool seen[WIRE_EVENT_BLOCK_NAMES_MAX] = {false};
    base_writer_init(&writer, block->attrs, sizeof(block->attrs));
    out->attr_count = (uint32_t)base_reader_varint_max(column, WIRE_EVENT_ATTRS_MAX);
    for (uint32_t a = 0; a < out->attr_count; a++) {
        uint64_t index = base_reader_varint(column);
        if (column->status != BASE_OK || index >= block->name_count || seen[index]) {
            return BASE_ERR_INVALID;
        }
        seen[index] = true;
        struct wire_event_attr attr = {
            .name = block->names[index].name,
            .type = block->names[index].type,
        };
        wire_event_value_read(&block->names[index].values, &attr);
        BASE_TRY(block->names[index].values.status);
        wire_event_attr_write(&writer, &attr);
    }
    out->attrs = block->attrs;
    out->attrs_bytes = (uint32_t)base_writer_size(&writer);
    return writer.status;
}

static enum base_status read_event(struct wire_event_block *block, struct wire_event *out)
{
    struct base_reader *columns = block->columns;
    base_assert(block->done < block->count);
    uint64_t step = base_reader_varint(&columns[COLUMN_SEQ]);
    if (block->done == 0) {
        block->seq = block->first_seq;
    } else if (step >= UINT64_MAX - block->seq) {
        return BASE_ERR_INVALID;
    } else {
        block->seq += step + 1;
    }
    int64_t wall = base_reader_zigzag(&columns[COLUMN_WALL]);
    int64_t mono = base_reader_zigzag(&columns[COLUMN_MONO]);
    int64_t visit = base_reader_zigzag(&columns[COLUMN_VISIT]);
    bool first_ok = block->done > 0 || (step == 0 && wall == 0 && mono == 0);
    int64_t limit = UINT32_MAX;
    if (!first_ok || visit < -limit || visit > limit || visit + block->visit < 0 ||
        visit + block->visit > limit) {
        return BASE_ERR_INVALID;
    }
    block->visit = (uint32_t)(visit + block->visit);
    block->wall_ms = delta_add(block->wall_ms, wall);
    block->mono_us = delta_add(block->mono_us, mono);
    *out = (struct wire_event){
        .seq = block->seq,
        .wall_ms = block->wall_ms,
        .mono_us = block->mono_us,
        .visit = block->visit,
        .instance = (uint32_t)base_reader_varint_max(&columns[COLUMN_INSTANCE], UINT32_MAX),
        .kind = base_reader_u8(&columns[COLUMN_KIND]),
        .page = read_text(block, COLUMN_PAGE),
        .item = read_text(block, COLUMN_ITEM),
        .name = read_text(block, COLUMN_NAME),
    };
    BASE_TRY(read_attrs(block, out));
    for (unsigned column = 0; column < COLUMN_COUNT; column++) {
        BASE_TRY(columns[column].status);
    }
    block->done++;
    return event_ok(out) ? BASE_OK : BASE_ERR_INVALID;
}

static void rewind_to_start(struct wire_event_block *block, uint64_t wall_ms, uint64_t mono_us)
{
    block->done = 0;
    block->wall_ms = wall_ms;
    block->mono_us = mono_us;
    block->visit = 0;
    for (unsigned column = 0; column < COLUMN_COUNT; column++) {
        block->columns[column].at = block->columns[column].start;
    }
    for (uint32_t n = 0; n < block->name_count; n++) {
        block->names[n].values.at = block->names[n].values.start;
    }
}

// Reads every event once; afterwards reading them cannot fail.
static enum base_status walk(struct wire_event_block *block)
{
    uint64_t wall_ms = block->wall_ms;
    uint64_t mono_us = block->mono_us;
    for (uint32_t i = 0; i < block->count; i++) {
        struct wire_event event;
        BASE_TRY(read_event(block, &event));
        // Of one name in two types the table has two rows: only together they are seen to clash.
        BASE_TRY(wire_event_attrs_check(event.attrs, event.attrs_bytes, event.attr_count));
    }
    for (uint32_t n = 0; n < block->name_count; n++) {
        BASE_TRY(base_reader_finish(&block->names[n].values));
    }
    rewind_to_start(block, wall_ms, mono_us);
    return BASE_OK;
}

enum base_status wire_event_block_parse(const uint8_t *bytes, size_t size,
                                        struct wire_event_block *out)
{
    memset(out, 0, offsetof(struct wire_event_block, texts));
    struct base_reader reader;
    base_reader_init(&reader, bytes, size);
    enum base_status status = size <= WIRE_EVENT_BLOCK_BYTES_MAX ? BASE_OK : BASE_ERR_TOO_LARGE;
    if (status == BASE_OK) {
        struct wire_event_block_head head;
        read_head(&reader, &head, &out->mono_us);
        out->count = head.count;
        out->boot = head.boot;
        out->first_seq = head.first_seq;
        out->wall_ms = head.wall_ms;
        read_tables(&reader, out);
        place_columns(&reader, out);
        status = base_reader_finish(&reader);
    }
    if (status == BASE_OK) {
        status = walk(out);
    }
    if (status != BASE_OK) {
        out->count = 0;
        out->done = 0;
    }
    base_assert(status != BASE_OK || (out->count > 0 && out->done == 0));
    return status;
}

bool wire_event_block_next(struct wire_event_block *block, struct wire_event *out)
{
    return block->done < block->count && read_event(block, out) == BASE_OK;
}
