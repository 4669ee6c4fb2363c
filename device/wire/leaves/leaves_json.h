// A record's JSON held against the fields that may leave (leaves.h). For leaves_check.c alone.
#ifndef WIRE_LEAVES_JSON_H
#define WIRE_LEAVES_JSON_H

#include "base/error.h"
#include "wire/leaves/leaves.h"

#define WIRE_LEAVES_INTEGER_TEXT 20 // bytes of an integer of 64 bits
#define WIRE_LEAVES_NUMBER_TEXT  26 // bytes of a double that reads back

// DENIED: something in it is not in `fields`, or it is no JSON as a VM writes it, without a space;
// `error` says what and where behind `what` ("upload 'spent'"). Paths in it are the record's, cut.
BASE_NODISCARD enum base_status wire_leaves_json_check(const struct wire_leaves_field *fields,
                                                       uint32_t field_count, struct base_str record,
                                                       struct base_str what,
                                                       struct base_error *error);

#endif
