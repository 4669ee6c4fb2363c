// The attribute codec of behaviour events.
//
// Called by the recorder and by readers of stored events on a device, and by readers of event
// blocks on a gateway; any thread, nothing is shared.
#include "wire/event_attrs.h"

#include "base/check.h"
#include "wire/wiretext.h"

#include <string.h>

#define EXPONENT_MASK 0x7ff0000000000000u

// Every byte is looked up, without a branch for each: 1 may follow, 3 may begin too.
static const uint8_t name_bytes[256] = {
    ['a'] = 3, ['b'] = 3, ['c'] = 3, ['d'] = 3, ['e'] = 3, ['f'] = 3, ['g'] = 3, ['h'] = 3,
    ['i'] = 3, ['j'] = 3, ['k'] = 3, ['l'] = 3, ['m'] = 3, ['n'] = 3, ['o'] = 3, ['p'] = 3,
    ['q'] = 3, ['r'] = 3, ['s'] = 3, ['t'] = 3, ['u'] = 3, ['v'] = 3, ['w'] = 3, ['x'] = 3,
    ['y'] = 3, ['z'] = 3, ['0'] = 1, ['1'] = 1, ['2'] = 1, ['3'] = 1, ['4'] = 1, ['5'] = 1,
    ['6'] = 1, ['7'] = 1, ['8'] = 1, ['9'] = 1, ['_'] = 1, ['.'] = 1,
};

bool wire_event_name_ok(struct base_str name)
{
    const uint8_t *bytes = (const uint8_t *)name.data;
    if (name.size == 0 || name.size > WIRE_EVENT_ATTR_NAME_MAX) {
        return false;
    }
    uint32_t fine = name_bytes[bytes[0]] >> 1;
    for (size_t i = 1; i < name.size; i++) {
        fine &= name_bytes[bytes[i]];
    }
    return (fine & 1) != 0;
}

// A double whose exponent is all ones is an infinity or no number.
static bool is_finite(uint64_t bits)
{
    return (bits & EXPONENT_MASK) != EXPONENT_MASK;
}

void wire_event_value_write(struct base_writer *writer, const struct wire_event_attr *attr)
{
    uint64_t bits;
    _Static_assert(sizeof(attr->real) == sizeof(bits), "a real is copied as it is");
    switch (attr->type) {
    case WIRE_EVENT_ATTR_STRING:
        if (!wire_text_utf8(attr->text)) {
            base_writer_fail(writer, BASE_ERR_INVALID);
        }
        base_writer_varint(writer, attr->text.size);
        base_writer_bytes(writer, attr->text.data, attr->text.size);
        return;
    case WIRE_EVENT_ATTR_INTEGER:
        base_writer_zigzag(writer, attr->integer);
        return;
    case WIRE_EVENT_ATTR_REAL:
        memcpy(&bits, &attr->real, sizeof(bits));
        if (!is_finite(bits)) {
            base_writer_fail(writer, BASE_ERR_INVALID);
        }
        base_writer_u64(writer, bits);
        return;
    case WIRE_EVENT_ATTR_BOOLEAN:
        if (attr->integer != 0 && attr->integer != 1) {
            base_writer_fail(writer, BASE_ERR_INVALID);
        }
        base_writer_u8(writer, (uint8_t)attr->integer);
        return;
    case WIRE_EVENT_ATTR_TYPE_END:
        break;
    }
    base_writer_fail(writer, BASE_ERR_INVALID);
}

void wire_event_attr_write(struct base_writer *writer, const struct wire_event_attr *attr)
{
    struct base_str name = attr->name;
    if (!wire_event_name_ok(name)) {
        base_writer_fail(writer, BASE_ERR_INVALID);
    }
    uint8_t *head = base_writer_room(writer, name.size + 2);
    if (head == NULL) {
        return;
    }
    base_assert(name.size <= WIRE_EVENT_ATTR_NAME_MAX);
    head[0] = (uint8_t)name.size;
    memcpy(head + 1, name.data, name.size);
    head[1 + name.size] = (uint8_t)attr->type;
    wire_event_value_write(writer, attr);
}

static void read_string(struct base_reader *reader, struct wire_event_attr *out)
{
    size_t size = (size_t)base_reader_varint_max(reader, WIRE_EVENT_ATTRS_BYTES);
    const uint8_t *bytes = base_reader_bytes(reader, size);
    out->text = (struct base_str){(const char *)bytes, bytes != NULL ? size : 0};
}

// Takes what is there as it is: bounds are looked at, and that the type is one.
static void value_take(struct base_reader *reader, struct wire_event_attr *out)
{
    out->text = (struct base_str){NULL, 0};
    out->integer = 0;
    out->real = 0;
    uint64_t bits;
    _Static_assert(sizeof(out->real) == sizeof(bits), "a real is copied as it is");
    switch (out->type) {
    case WIRE_EVENT_ATTR_STRING:
        read_string(reader, out);
        return;
    case WIRE_EVENT_ATTR_INTEGER:
        out->integer = base_reader_zigzag(reader);
        return;
    case WIRE_EVENT_ATTR_REAL:
        bits = base_reader_u64(reader);
        memcpy(&out->real, &bits, sizeof(bits));
        return;
    case WIRE_EVENT_ATTR_BOOLEAN:
        out->integer = base_reader_u8(reader);
        return;
    case WIRE_EVENT_ATTR_TYPE_END:
        break;
    }
    base_reader_fail(reader, BASE_ERR_INVALID);
}

static bool value_ok(const struct wire_event_attr *attr)
{
    uint64_t bits;
    memcpy(&bits, &attr->real, sizeof(bits));
    bool whole = attr->type != WIRE_EVENT_ATTR_BOOLEAN || attr->integer <= 1;
    return whole && is_finite(bits) && wire_text_utf8(attr->text);
}

void wire_event_value_read(struct base_reader *reader, struct wire_event_attr *out)
{
    value_take(reader, out);
    if (reader->status == BASE_OK && !value_ok(out)) {
        base_reader_fail(reader, BASE_ERR_INVALID);
    }
}

void wire_event_attr_take(struct base_reader *reader, struct wire_event_attr *out)
{
    size_t size = base_reader_u8(reader);
    const uint8_t *bytes = base_reader_bytes(reader, size + 1);
    *out = (struct wire_event_attr){.type = WIRE_EVENT_ATTR_TYPE_END};
    if (bytes != NULL) {
        out->name = (struct base_str){(const char *)bytes, size};
        out->type = (enum wire_event_attr_type)bytes[size];
    }
    value_take(reader, out);
}

void wire_event_attr_read(struct base_reader *reader, struct wire_event_attr *out)
{
    wire_event_attr_take(reader, out);
    if (reader->status == BASE_OK && (!wire_event_name_ok(out->name) || !value_ok(out))) {
        base_reader_fail(reader, BASE_ERR_INVALID);
    }
}

// At most WIRE_EVENT_ATTRS_MAX names, so comparing all pairs is cheap.
static bool name_seen(const struct base_str *names, uint32_t count, struct base_str name)
{
    base_assert(count < WIRE_EVENT_ATTRS_MAX);
    for (uint32_t i = 0; i < count; i++) {
        if (base_str_equal(names[i], name)) {
            return true;
        }
    }
    return false;
}

enum base_status wire_event_attrs_check(const uint8_t *bytes, size_t size, uint32_t count)
{
    struct base_str names[WIRE_EVENT_ATTRS_MAX];
    if (size > WIRE_EVENT_ATTRS_BYTES || count > WIRE_EVENT_ATTRS_MAX) {
        return BASE_ERR_TOO_LARGE;
    }
    struct base_reader reader;
    base_reader_init(&reader, bytes, size);
    for (uint32_t i = 0; i < count && reader.status == BASE_OK; i++) {
        struct wire_event_attr attr;
        wire_event_attr_read(&reader, &attr);
        if (reader.status == BASE_OK && name_seen(names, i, attr.name)) {
            base_reader_fail(&reader, BASE_ERR_INVALID);
        }
        names[i] = attr.name;
    }
    return base_reader_finish(&reader);
}
