// Attributes of a behaviour event as bytes: how the recorder keeps them, how a block of events
// gives them back, and what a task reads.
//
//   attrs := attr x count (the count travels beside the bytes)
//   attr  := text8 name, u8 type, value
//   value := STRING: varint size, UTF-8 | INTEGER: zigzag varint | REAL: u64, the bits of a finite
//            IEEE 754 double | BOOLEAN: u8 0 or 1
//
// Names are unique within an event; the order is the writer's. Nothing is allocated; texts are
// borrowed from the bytes.
#ifndef WIRE_EVENT_ATTRS_H
#define WIRE_EVENT_ATTRS_H

#include "base/cursor.h"
#include "base/str.h"

#define WIRE_EVENT_ATTRS_MAX      64
#define WIRE_EVENT_ATTRS_BYTES    4096
#define WIRE_EVENT_ATTR_NAME_MAX  32 // [a-z][a-z0-9_.]*
#define WIRE_EVENT_ATTR_BYTES_MIN 4  // of one encoded attribute

enum wire_event_attr_type {
    WIRE_EVENT_ATTR_STRING,
    WIRE_EVENT_ATTR_INTEGER,
    WIRE_EVENT_ATTR_REAL,
    WIRE_EVENT_ATTR_BOOLEAN,
    WIRE_EVENT_ATTR_TYPE_END
};

struct wire_event_attr {
    struct base_str name;
    enum wire_event_attr_type type;
    struct base_str text; // STRING
    int64_t integer;      // INTEGER; BOOLEAN: 0 or 1
    double real;          // REAL, finite
};

// [a-z][a-z0-9_.]*, at most WIRE_EVENT_ATTR_NAME_MAX bytes: also the name of a custom event.
bool wire_event_name_ok(struct base_str name);

// One attribute; what is wrong with it fails the writer or reader (INVALID, TOO_LARGE, TRUNCATED).
// That names are unique is the affair of whoever reads or writes several.
void wire_event_attr_write(struct base_writer *writer, const struct wire_event_attr *attr);
void wire_event_attr_read(struct base_reader *reader, struct wire_event_attr *out);
// The same of bytes that _write made or _check accepted: only looks that they are all there.
void wire_event_attr_take(struct base_reader *reader, struct wire_event_attr *out);
// Type and value only, as the columns of a block hold them.
void wire_event_value_write(struct base_writer *writer, const struct wire_event_attr *attr);
void wire_event_value_read(struct base_reader *reader, struct wire_event_attr *out);

// All rules, for bytes from storage or outside. INVALID, TRUNCATED, TOO_LARGE.
BASE_NODISCARD enum base_status wire_event_attrs_check(const uint8_t *bytes, size_t size,
                                                       uint32_t count);

#endif
