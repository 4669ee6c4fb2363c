// Expressions over one event: the conditions of triggers and of Filter, the functions of Map, keys.
//
//   price * quantity > 100 && kind == "click"      a condition
//   item                                            a key
//   dwell_ms / 1000                                 a value
//
//   expression := or;  or := and { "||" and };  and := comparison { "&&" comparison }
//   comparison := sum [ ( "==" | "!=" | "<" | "<=" | ">" | ">=" ) sum
//                     | [ "!" ] "in" "{" literal { "," literal } "}" ]
//   sum        := product { ( "+" | "-" ) product };  product := unary { ( "*" | "/" | "%" ) unary
//   } unary      := "!" unary | "-" unary | "(" expression ")" | literal | name | "has" "(" name
//   ")" literal    := number | text in "" or '' (escapes \" \' \\ \n \t) | "true" | "false" name :=
//   [ "other." ] field | [ "other." ] attribute | "." attribute field      := kind | name | page |
//   item | visit | instance | seq | time
//
// A field is the event's own (time: wall_ms); an attribute that is called like a field, or begins
// with "other.", is read with a dot in front. "other." is the joined event, where there is one.
// Integers are 64 bits, literals of reals have at most 15 digits and are exact to the last bit.
// `/` gives a real, `%` of integers has the sign of the divisor.
//
// What is not known is not assumed: an attribute that is missing or of a type the operator cannot
// use, an empty item or name, an overflow and a division by zero have no value; an operator on no
// value has no value, `&&` and `||` follow Kleene, has() is always known. A condition without a
// value is false. Types that cannot fit whatever the event holds ("a" < 3) are refused when
// compiled.
//
// A program is bytes, written by the compiler and by nobody else; it needs no alignment and may be
// moved, shared and compared. No allocation, no recursion, no state: any thread.
#ifndef DEV_PIPELINE_EVENT_PREDICATE_H
#define DEV_PIPELINE_EVENT_PREDICATE_H

#include "base/error.h"
#include "pipeline/record/event.h"
#include "pipeline/stream/value.h"

#define DEV_PREDICATE_TEXT_MAX    1024 // bytes of a text
#define DEV_PREDICATE_BYTES_MAX   1024 // of a compiled program
#define DEV_PREDICATE_DEPTH_MAX   16   // operators and parentheses that wait for their right side
#define DEV_PREDICATE_SET_MAX     32   // literals of one set
#define DEV_PREDICATE_LITERAL_MAX 128  // bytes of a text literal

#define DEV_PREDICATE_TRUTH 1u // flag: it must be able to be true or false
#define DEV_PREDICATE_OTHER 2u // flag: names of the joined event are allowed

// Where a program goes.
struct dev_predicate_program {
    uint8_t *bytes;  // the caller's
    size_t capacity; // of `bytes`; DEV_PREDICATE_BYTES_MAX is always enough
    size_t size;     // of the program; written on success only
};

// Compiles the expression that begins at *at of `text` and goes as far as it can: *at moves behind
// it and the white space after it, so a pattern can hold an expression before a ")" or a ",".
// INVALID and TOO_LARGE: `error` (may be NULL) says what
// and where, in line and column of the whole text (column in characters).
BASE_NODISCARD enum base_status dev_predicate_parse(struct base_str text, size_t *at,
                                                    uint32_t flags,
                                                    struct dev_predicate_program *out,
                                                    struct base_error *error);
// The same for a text that must be an expression as a whole.
BASE_NODISCARD enum base_status dev_predicate_compile(struct base_str text, uint32_t flags,
                                                      struct dev_predicate_program *out,
                                                      struct base_error *error);

// False also when it has no value.
bool dev_predicate_test(const uint8_t *program, const struct dev_event *event);
// `other` may be NULL: its names have no value then. Texts are borrowed from the events or the
// program.
struct dev_value dev_predicate_value(const uint8_t *program, const struct dev_event *event,
                                     const struct dev_event *other);

#endif
