// Device attributes on the wire: what a device says about itself in its profile. Sorted by name,
// unique.
//
//   attrs := varint count, count x { u8 code, [code 0: u8 size, name], u8 type, value }
//   value := STRING: varint size, bytes | INTEGER: zigzag varint | BOOLEAN: u8 0/1
// Codes 1.. name the well-known attributes in the table below, so that a profile stays small; such
// a name is never spelled out. Strings are UTF-8 without control characters. So a set of attributes
// has exactly one encoding.
#ifndef WIRE_ATTRS_H
#define WIRE_ATTRS_H

#include "base/cursor.h"
#include "base/str.h"

BASE_C_BEGIN

#define WIRE_ATTRS_MAX       32
#define WIRE_ATTRS_BYTES_MAX 512
#define WIRE_ATTR_NAME_MAX   32 // [a-z][a-z0-9_.]*
#define WIRE_ATTR_STRING_MAX 64

// X(code, name)
#define WIRE_ATTR_CODES(X)                                                                         \
    X(1, "app_version")                                                                            \
    X(2, "channel")                                                                                \
    X(3, "locale")                                                                                 \
    X(4, "model")                                                                                  \
    X(5, "network")                                                                                \
    X(6, "os")                                                                                     \
    X(7, "os_version")                                                                             \
    X(8, "ram_mb")                                                                                 \
    X(9, "region")                                                                                 \
    X(10, "runtime")

enum wire_attr_type {
    WIRE_ATTR_STRING,
    WIRE_ATTR_INTEGER,
    WIRE_ATTR_BOOLEAN,
    WIRE_ATTR_TYPE_COUNT
};

struct wire_attr {
    struct base_str name; // borrowed: from the input, or static for well-known names
    enum wire_attr_type type;
    struct base_str text; // STRING
    int64_t integer;      // INTEGER, BOOLEAN (0/1)
};

struct wire_attrs {
    struct wire_attr items[WIRE_ATTRS_MAX];
    uint32_t count;
};

// Sorts `attrs` by name, then writes it; the writer fails with TOO_LARGE past its end, INVALID on
// bad or doubled names.
void wire_attrs_write(struct base_writer *writer, struct wire_attrs *attrs);
// Names must ascend. Strings are borrowed from `bytes`. INVALID, TRUNCATED, TOO_LARGE.
BASE_NODISCARD enum base_status wire_attrs_parse(const uint8_t *bytes, size_t size,
                                                 struct wire_attrs *out);

BASE_C_END

#endif
