// How far numbers of two results may be apart and still agree: what a shadow stage declares, for
// the whole result and for single fields of it.
//
//   tolerances := u8 count, count x { text8 field, u64 absolute, u64 relative }
//
// A field is the name of a member of the result's outermost object and covers all below it; the
// empty name covers the rest and comes first. The two numbers are IEEE 754 doubles by their bits.
// Numbers a and b agree when |a - b| <= max(absolute, relative * max(|a|, |b|)).
#ifndef WIRE_TOLERANCE_H
#define WIRE_TOLERANCE_H

#include "base/cursor.h"
#include "base/str.h"

#include <stdbool.h>

BASE_C_BEGIN

#define WIRE_TOLERANCES_MAX      4
#define WIRE_TOLERANCE_FIELD_MAX 24
#define WIRE_TOLERANCES_BYTES_MAX                                                                  \
    (1 + WIRE_TOLERANCES_MAX * (1 + WIRE_TOLERANCE_FIELD_MAX + 2 * sizeof(uint64_t)))

struct wire_tolerance {
    double absolute; // finite, not negative
    double relative; // 0 to 1; both 0: exact, as written
    uint8_t field_size;
    char field[WIRE_TOLERANCE_FIELD_MAX];
};

// Names ascend, so there is one way to say it. None: everything is exact.
struct wire_tolerances {
    uint32_t count;
    struct wire_tolerance items[WIRE_TOLERANCES_MAX];
};

// Names that can be members (printable, without quote and backslash) and ascend, numbers in range,
// no empty name that says "exact", which goes without saying.
bool wire_tolerances_ok(const struct wire_tolerances *tolerances);
bool wire_tolerances_equal(const struct wire_tolerances *a, const struct wire_tolerances *b);
// Where among `tolerances` a field of this name belongs. False: it is there already.
bool wire_tolerances_place(const struct wire_tolerances *tolerances, struct base_str field,
                           uint32_t *out_index);
// The one for numbers below the member `field`; NULL: they are exact.
const struct wire_tolerance *wire_tolerances_find(const struct wire_tolerances *tolerances,
                                                  struct base_str field);
void wire_tolerances_write(struct base_writer *writer, const struct wire_tolerances *tolerances);
// What is not ok fails the reader with INVALID, and *out is empty.
void wire_tolerances_read(struct base_reader *reader, struct wire_tolerances *out);

BASE_C_END

#endif
