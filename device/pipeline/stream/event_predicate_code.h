// The compiled form of an expression. Private to device/pipeline/event_predicate*.c.
//
// A program is its size (2 bytes, all of it) and code in postfix order for a stack of values:
//
//   INTEGER i64, REAL f64, TEXT u8 size + bytes, TRUE, FALSE          push a constant
//   FIELD u8, ATTR u8 size + name, HAS_FIELD u8, HAS_ATTR u8 + name   push; + OTHER: of the other
//   event NEGATE, NOT                                                       change the top ADD ..
//   GREATER_EQUAL                                              take two, push one IN u8 count +
//   constants                                           change the top AND_SKIP u16  top is false:
//   go on at this offset of the program;  AND: take two, push one OR_SKIP u16, OR the same with
//   true
#ifndef DEV_PIPELINE_EVENT_PREDICATE_CODE_H
#define DEV_PIPELINE_EVENT_PREDICATE_CODE_H

#include "pipeline/stream/event_predicate.h"

#define PREDICATE_HEAD 2 // bytes before the code

enum predicate_op {
    PREDICATE_INTEGER,
    PREDICATE_REAL,
    PREDICATE_TEXT,
    PREDICATE_TRUE,
    PREDICATE_FALSE,
    PREDICATE_FIELD,
    PREDICATE_ATTR,
    PREDICATE_HAS_FIELD,
    PREDICATE_HAS_ATTR,
    PREDICATE_NEGATE,
    PREDICATE_NOT,
    PREDICATE_ADD,
    PREDICATE_SUBTRACT,
    PREDICATE_MULTIPLY,
    PREDICATE_DIVIDE,
    PREDICATE_REMAINDER,
    PREDICATE_EQUAL,
    PREDICATE_NOT_EQUAL,
    PREDICATE_LESS,
    PREDICATE_LESS_EQUAL,
    PREDICATE_GREATER,
    PREDICATE_GREATER_EQUAL,
    PREDICATE_IN,
    PREDICATE_AND_SKIP,
    PREDICATE_AND,
    PREDICATE_OR_SKIP,
    PREDICATE_OR,
    PREDICATE_OP_COUNT
};

#define PREDICATE_OTHER 0x80u // added to FIELD, ATTR, HAS_FIELD, HAS_ATTR

enum predicate_field {
    PREDICATE_FIELD_KIND,
    PREDICATE_FIELD_NAME,
    PREDICATE_FIELD_PAGE,
    PREDICATE_FIELD_ITEM,
    PREDICATE_FIELD_VISIT,
    PREDICATE_FIELD_INSTANCE,
    PREDICATE_FIELD_SEQ,
    PREDICATE_FIELD_TIME,
    PREDICATE_FIELD_COUNT
};

// Values that wait: one for each operator that waits, and the top.
#define PREDICATE_STACK_MAX (DEV_PREDICATE_DEPTH_MAX + 2)

#endif
