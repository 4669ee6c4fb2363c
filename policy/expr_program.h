// The compiled form of an expression. Private to policy/expr_*.c.
//
// Code in postfix order with one accumulator and a stack of left operands:
//
//   TEST n      accumulator = truth of test n
//   NOT         accumulator = not accumulator
//   AND_SKIP n  false: go on at n; otherwise put the accumulator on the stack
//   AND         accumulator = top of the stack and accumulator
//   OR_SKIP n, OR: the same with true, or
//
// The block: this head, code, tests, literals, the text as written, texts without escapes.
#ifndef POL_EXPR_PROGRAM_H
#define POL_EXPR_PROGRAM_H

#include "policy/expr.h"

// Left operands that wait: of an `||` and an `&&` per level of nesting.
#define POL_EXPR_STACK_MAX (2 * (POL_EXPR_DEPTH_MAX + 1))

enum pol_test_op {
    POL_TEST_EQ,
    POL_TEST_NE,
    POL_TEST_LT,
    POL_TEST_LE,
    POL_TEST_GT,
    POL_TEST_GE,
    POL_TEST_IN,
    POL_TEST_NOT_IN,
    POL_TEST_RANGE,
    POL_TEST_NOT_RANGE,
    POL_TEST_LIKE,
    POL_TEST_NOT_LIKE,
    POL_TEST_HAS,
};

struct pol_test {
    struct pol_text attr;
    struct pol_text text; // as written
    uint32_t literal;     // the first
    uint16_t literal_count;
    uint8_t op; // enum pol_test_op
};

enum pol_code_kind {
    POL_CODE_TEST,
    POL_CODE_NOT,
    POL_CODE_AND_SKIP,
    POL_CODE_AND,
    POL_CODE_OR_SKIP,
    POL_CODE_OR,
};

struct pol_code {
    uint16_t kind; // enum pol_code_kind
    uint16_t arg;
};

struct pol_expr {
    struct pol_value *literals;
    struct pol_test *tests;
    struct pol_code *code;
    char *text;
    char *plain; // texts without escapes
    uint32_t literal_count;
    uint32_t test_count;
    uint32_t code_count;
    uint32_t text_size;
    uint32_t plain_size;
    uint32_t bytes; // of the whole block
};

#endif
