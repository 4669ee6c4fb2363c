// Protobuf's wire format, field by field, over the byte cursor: what the scanner and the tensor
// parser share. Bounded by the input; no allocation, no recursion.
#ifndef ENG_MODEL_PB_WIRE_H
#define ENG_MODEL_PB_WIRE_H

#include "base/cursor.h"

enum eng_wire_type {
    ENG_WIRE_VARINT = 0,
    ENG_WIRE_FIXED64 = 1,
    ENG_WIRE_BYTES = 2,
    ENG_WIRE_FIXED32 = 5
};

struct eng_wire_field {
    uint32_t number;
    enum eng_wire_type type;
    uint64_t value;       // VARINT, FIXED64, FIXED32
    const uint8_t *bytes; // BYTES: the payload
    size_t size;
    const uint8_t *start; // the whole field, key included, is [start, end)
    const uint8_t *end;
};

// Reads one varint, padded forms included (at most 10 bytes).
uint64_t eng_wire_varint(struct base_reader *reader);
// Reads the next field; false at the end of the input or on failure (reader->status tells: groups
// and field number 0 are INVALID).
bool eng_wire_next(struct base_reader *reader, struct eng_wire_field *out);

#endif
