// Device attributes: the codec of the attribute block inside a profile.
//
// A device writes its block when an attribute changes; a gateway parses it once for each distinct
// block it meets (the bytes are hashed to find the cohort), so there is exactly one encoding of a
// set of attributes: ascending names, well-known names always by code, shortest varints.
#include "wire/attrs.h"

#include "base/check.h"
#include "wire/wiretext.h"

#include <string.h>

#define CODE_COUNT 10u

// Name of each code; code 0 means that the name is spelled out.
static const struct base_str code_names[CODE_COUNT + 1] = {{NULL, 0},
#define CODE_NAME(code, name) [code] = {name, sizeof(name) - 1},
                                                           WIRE_ATTR_CODES(CODE_NAME)
#undef CODE_NAME
};

static uint8_t code_of(struct base_str name)
{
    for (uint8_t code = 1; code <= CODE_COUNT; code++) {
        if (base_str_equal(code_names[code], name)) {
            return code;
        }
    }
    return 0;
}

static bool name_ok(struct base_str name)
{
    if (name.size == 0 || name.size > WIRE_ATTR_NAME_MAX) {
        return false;
    }
    for (size_t i = 0; i < name.size; i++) {
        char c = name.data[i];
        bool letter = c >= 'a' && c <= 'z';
        bool inner = (c >= '0' && c <= '9') || c == '_' || c == '.';
        if (!letter && (i == 0 || !inner)) {
            return false;
        }
    }
    return true;
}

// Byte order, the shorter first where one starts the other.
static int name_compare(struct base_str a, struct base_str b)
{
    size_t common = a.size < b.size ? a.size : b.size;
    int order = common == 0 ? 0 : memcmp(a.data, b.data, common);
    if (order != 0) {
        return order;
    }
    return a.size < b.size ? -1 : a.size > b.size;
}

// Insertion sort: there are at most WIRE_ATTRS_MAX, mostly in order already.
static void sort_by_name(struct wire_attrs *attrs)
{
    for (uint32_t i = 1; i < attrs->count; i++) {
        struct wire_attr moving = attrs->items[i];
        uint32_t at = i;
        while (at > 0 && name_compare(attrs->items[at - 1].name, moving.name) > 0) {
            attrs->items[at] = attrs->items[at - 1];
            at--;
        }
        attrs->items[at] = moving;
    }
}

static void write_value(struct base_writer *writer, const struct wire_attr *attr)
{
    _Static_assert(WIRE_ATTR_TYPE_COUNT - 1 <= UINT8_MAX, "the type is a byte");
    base_writer_u8(writer, (uint8_t)attr->type);
    switch (attr->type) {
    case WIRE_ATTR_STRING:
        if (attr->text.size > WIRE_ATTR_STRING_MAX) {
            base_writer_fail(writer, BASE_ERR_TOO_LARGE);
            return;
        }
        if (!wire_text_printable(attr->text)) {
            base_writer_fail(writer, BASE_ERR_INVALID);
            return;
        }
        base_writer_varint(writer, attr->text.size);
        base_writer_bytes(writer, attr->text.data, attr->text.size);
        return;
    case WIRE_ATTR_INTEGER:
        base_writer_zigzag(writer, attr->integer);
        return;
    case WIRE_ATTR_BOOLEAN:
        base_writer_u8(writer, attr->integer != 0);
        return;
    case WIRE_ATTR_TYPE_COUNT:
        break;
    }
    base_writer_fail(writer, BASE_ERR_INVALID);
}

void wire_attrs_write(struct base_writer *writer, struct wire_attrs *attrs)
{
    if (attrs->count > WIRE_ATTRS_MAX) {
        base_writer_fail(writer, BASE_ERR_TOO_LARGE);
        return;
    }
    size_t before = base_writer_size(writer);
    sort_by_name(attrs);
    base_writer_varint(writer, attrs->count);
    for (uint32_t i = 0; i < attrs->count; i++) {
        const struct wire_attr *attr = &attrs->items[i];
        base_assert(i == 0 || name_compare(attrs->items[i - 1].name, attr->name) <= 0); // sorted
        bool doubled = i > 0 && base_str_equal(attrs->items[i - 1].name, attr->name);
        if (doubled || !name_ok(attr->name)) {
            base_writer_fail(writer, BASE_ERR_INVALID);
            return;
        }
        uint8_t code = code_of(attr->name);
        base_writer_u8(writer, code);
        if (code == 0) {
            wire_text_write(writer, attr->name, WIRE_ATTR_NAME_MAX);
        }
        write_value(writer, attr);
    }
    if (base_writer_size(writer) - before > WIRE_ATTRS_BYTES_MAX) {
        base_writer_fail(writer, BASE_ERR_TOO_LARGE);
    }
}

static struct base_str read_name(struct base_reader *reader)
{
    uint8_t code = base_reader_u8(reader);
    if (code > CODE_COUNT) {
        base_reader_fail(reader, BASE_ERR_INVALID);
        return (struct base_str){NULL, 0};
    }
    if (code != 0) {
        return code_names[code];
    }
    struct base_str name = wire_text_read(reader, WIRE_ATTR_NAME_MAX);
    if (!name_ok(name) || code_of(name) != 0) {
        base_reader_fail(reader, BASE_ERR_INVALID);
    }
    return name;
}

static struct base_str read_string(struct base_reader *reader)
{
    uint64_t size = base_reader_varint(reader);
    if (size > WIRE_ATTR_STRING_MAX) {
        base_reader_fail(reader, BASE_ERR_TOO_LARGE);
    }
    const uint8_t *bytes = base_reader_bytes(reader, (size_t)size);
    if (bytes == NULL) {
        return (struct base_str){NULL, 0};
    }
    struct base_str text = {(const char *)bytes, (size_t)size};
    if (!wire_text_printable(text)) {
        base_reader_fail(reader, BASE_ERR_INVALID);
    }
    return text;
}

static void read_attr(struct base_reader *reader, struct wire_attr *attr)
{
    *attr = (struct wire_attr){.name = read_name(reader)};
    uint8_t type = base_reader_u8(reader);
    switch (type) {
    case WIRE_ATTR_STRING:
        attr->text = read_string(reader);
        break;
    case WIRE_ATTR_INTEGER:
        attr->integer = base_reader_zigzag(reader);
        break;
    case WIRE_ATTR_BOOLEAN:
        attr->integer = base_reader_u8(reader);
        if (attr->integer > 1) {
            base_reader_fail(reader, BASE_ERR_INVALID);
        }
        break;
    default:
        base_reader_fail(reader, BASE_ERR_INVALID);
        return;
    }
    base_assert(reader->status != BASE_OK || attr->text.size <= WIRE_ATTR_STRING_MAX);
    attr->type = (enum wire_attr_type)type;
}

enum base_status wire_attrs_parse(const uint8_t *bytes, size_t size, struct wire_attrs *out)
{
    out->count = 0;
    if (size > WIRE_ATTRS_BYTES_MAX) {
        return BASE_ERR_TOO_LARGE;
    }
    struct base_reader reader;
    base_reader_init(&reader, bytes, size);
    uint64_t count = base_reader_varint(&reader);
    if (count > WIRE_ATTRS_MAX) {
        return BASE_ERR_TOO_LARGE;
    }
    for (uint32_t i = 0; i < count; i++) {
        read_attr(&reader, &out->items[i]);
        if (reader.status != BASE_OK) {
            return reader.status;
        }
        base_assert(out->items[i].name.size > 0 && out->items[i].name.size <= WIRE_ATTR_NAME_MAX);
        if (i > 0 && name_compare(out->items[i - 1].name, out->items[i].name) >= 0) {
            return BASE_ERR_INVALID;
        }
    }
    BASE_TRY(base_reader_finish(&reader));
    out->count = (uint32_t)count;
    return BASE_OK;
}
