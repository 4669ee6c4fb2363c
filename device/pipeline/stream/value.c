// Values of events: exact comparison, hashing, and copies that outlive the event. Called by the
// expressions (event_predicate.c), the stream functions (aggregate.c, keyed.c, join_buffer.c,
// stream_events.c) and a script's events (vm/vm_event.c) on their owner's thread; pure. An integer
// and a real are compared without making either the other, since 2^53 + 1 is no double; equal
// values have equal hashes. Cells have a fixed size, and a text that does not fit is cut at a
// character.
#include "pipeline/stream/value.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/text/str_cut.h"

#include <string.h>

#define TWO_TO_63 9223372036854775808.0

static bool is_finite(double real)
{
    return real - real == 0;
}

struct dev_value dev_value_real(double real)
{
    if (!is_finite(real)) {
        return dev_value_none();
    }
    return (struct dev_value){.type = DEV_VALUE_REAL, .real = real};
}

struct dev_value dev_value_of_attr(const struct dev_event_attr *attr)
{
    switch (attr->type) {
    case DEV_ATTR_STRING:
        return dev_value_text(attr->text);
    case DEV_ATTR_INTEGER:
        return dev_value_integer(attr->integer);
    case DEV_ATTR_REAL:
        return dev_value_real(attr->real);
    case DEV_ATTR_BOOLEAN:
        return dev_value_boolean(attr->integer != 0);
    }
    return dev_value_none();
}

double dev_value_as_real(struct dev_value value)
{
    base_assert(dev_value_is_number(value));
    return value.type == DEV_VALUE_REAL ? value.real : (double)value.integer;
}

static int order(bool less, bool greater)
{
    return (int)greater - (int)less;
}

// A real outside the range of integers is beyond all of them; inside it, its whole part is exact.
static int compare_mixed(int64_t integer, double real)
{
    if (real >= TWO_TO_63) {
        return -1;
    }
    if (real < -TWO_TO_63) {
        return 1;
    }
    int64_t whole = (int64_t)real; // towards zero
    if (integer != whole) {
        return order(integer<whole, integer> whole);
    }
    double rest = real - (double)whole;
    return order(rest > 0, rest < 0);
}

int dev_value_compare(struct dev_value a, struct dev_value b)
{
    base_assert(dev_value_is_number(a));
    base_assert(dev_value_is_number(b));
    if (a.type == DEV_VALUE_INTEGER && b.type == DEV_VALUE_INTEGER) {
        return order(a.integer<b.integer, a.integer> b.integer);
    }
    if (a.type == DEV_VALUE_REAL && b.type == DEV_VALUE_REAL) {
        return order(a.real<b.real, a.real> b.real);
    }
    return a.type == DEV_VALUE_INTEGER ? compare_mixed(a.integer, b.real)
                                       : -compare_mixed(b.integer, a.real);
}

bool dev_value_equal(struct dev_value a, struct dev_value b)
{
    if (dev_value_is_number(a) && dev_value_is_number(b)) {
        return dev_value_compare(a, b) == 0;
    }
    if (a.type != b.type) {
        return false;
    }
    if (a.type == DEV_VALUE_TEXT) {
        return base_str_equal(a.text, b.text);
    }
    return a.type == DEV_VALUE_NONE || a.integer == b.integer;
}

uint64_t dev_value_hash(struct dev_value value)
{
    if (value.type == DEV_VALUE_TEXT) {
        return base_hash64_seed(value.text.data, value.text.size, DEV_VALUE_TEXT);
    }
    uint64_t kind = DEV_VALUE_INTEGER;
    uint64_t bits = 0;
    if (value.type == DEV_VALUE_REAL) {
        base_assert(is_finite(value.real)); // equal ones have one hash
        bool whole = value.real >= -TWO_TO_63 && value.real < TWO_TO_63 &&
                     (double)(int64_t)value.real == value.real;
        if (whole) {
            bits = (uint64_t)(int64_t)value.real;
        } else {
            kind = DEV_VALUE_REAL;
            memcpy(&bits, &value.real, sizeof(bits));
        }
    } else if (value.type != DEV_VALUE_NONE) {
        kind = value.type;
        bits = (uint64_t)value.integer;
    } else {
        kind = DEV_VALUE_NONE;
    }
    return base_hash64_seed(&bits, sizeof(bits), kind);
}

bool dev_cell_set(struct dev_cell *cell, struct dev_value value)
{
    memset(cell, 0, sizeof(*cell));
    cell->type = (uint8_t)value.type;
    if (value.type == DEV_VALUE_TEXT) {
        size_t size = base_str_fit(value.text, sizeof(cell->text));
        if (size > 0) {
            memcpy(cell->text, value.text.data, size);
        }
        cell->size = (uint8_t)size;
        return size == value.text.size;
    }
    if (value.type == DEV_VALUE_REAL) {
        cell->real = value.real;
    } else {
        cell->integer = value.integer;
    }
    return true;
}

struct dev_value dev_cell_get(const struct dev_cell *cell)
{
    base_assert(cell->type < DEV_VALUE_TYPE_COUNT);
    struct dev_value value = {.type = (enum dev_value_type)cell->type, .integer = 0};
    if (cell->type == DEV_VALUE_TEXT) {
        value.text = (struct base_str){cell->text, cell->size};
    } else if (cell->type == DEV_VALUE_REAL) {
        value.real = cell->real;
    } else {
        value.integer = cell->integer;
    }
    return value;
}
