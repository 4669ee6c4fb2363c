// A typed value of an event: what an attribute holds, what an expression gives, what a key is and
// what an aggregate answers. Numbers are integers or finite reals and compare exactly with each
// other; 1 and 1.0 are one value, also as keys.
#ifndef DEV_PIPELINE_VALUE_H
#define DEV_PIPELINE_VALUE_H

#include "pipeline/record/event.h"

// Bytes of a text that is kept beyond its event: keys, the last values of a window. A longer text
// is cut between characters where it is a value; where it is a key its event is refused.
#define DEV_VALUE_TEXT_MAX 64

enum dev_value_type {
    DEV_VALUE_NONE, // no value: the attribute is missing, or of a type the operation cannot use
    DEV_VALUE_BOOLEAN,
    DEV_VALUE_INTEGER,
    DEV_VALUE_REAL,
    DEV_VALUE_TEXT,
    DEV_VALUE_TYPE_COUNT
};

struct dev_value {
    enum dev_value_type type;
    union {
        int64_t integer; // INTEGER; BOOLEAN: 0 or 1
        double real;
        struct base_str text; // borrowed
    };
};

static inline struct dev_value dev_value_none(void)
{
    return (struct dev_value){.type = DEV_VALUE_NONE, .integer = 0};
}
static inline struct dev_value dev_value_boolean(bool truth)
{
    return (struct dev_value){.type = DEV_VALUE_BOOLEAN, .integer = truth};
}
static inline struct dev_value dev_value_integer(int64_t integer)
{
    return (struct dev_value){.type = DEV_VALUE_INTEGER, .integer = integer};
}
static inline struct dev_value dev_value_text(struct base_str text)
{
    return (struct dev_value){.type = DEV_VALUE_TEXT, .text = text};
}
// Not finite: no value. A real that is an integer of 64 bits stays a real.
struct dev_value dev_value_real(double real);
struct dev_value dev_value_of_attr(const struct dev_event_attr *attr);

static inline bool dev_value_is_number(struct dev_value value)
{
    return value.type == DEV_VALUE_INTEGER || value.type == DEV_VALUE_REAL;
}
// A number as a real, rounded if it must be.
double dev_value_as_real(struct dev_value value);

// -1, 0, 1 for two numbers, exactly: no rounding of large integers.
int dev_value_compare(struct dev_value a, struct dev_value b);
// Equal in type and content; numbers by what they are, not by how they are stored.
bool dev_value_equal(struct dev_value a, struct dev_value b);
// Equal values have equal hashes.
uint64_t dev_value_hash(struct dev_value value);

// A value in fixed room, for state that outlives the event.
struct dev_cell {
    uint8_t type; // enum dev_value_type
    uint8_t size; // of the text
    uint8_t pad[6];
    union {
        int64_t integer;
        double real;
        char text[DEV_VALUE_TEXT_MAX];
    };
};

// Copies; a text is cut to fit, not in the middle of a character. True: it fitted.
bool dev_cell_set(struct dev_cell *cell, struct dev_value value);
struct dev_value dev_cell_get(const struct dev_cell *cell); // borrowed from the cell

// Seqs are ordered by their distance, so that they may wrap at 2^64.
static inline bool dev_seq_before(uint64_t a, uint64_t b)
{
    return (int64_t)(a - b) < 0;
}

#endif
