// The targeting language: one expression that says which devices an audience is.
//
//   app_version >= 9.2 && os == "android" && ram_mb >= 4096 && user.age in 18..30
//
//   expr    := and { "||" and }
//   and     := unary { "&&" unary }
//   unary   := "!" unary | "(" expr ")" | test
//   test    := attr cmp literal | attr [ "!" ] "in" ( set | range ) | attr ( "~" | "!~" ) string
//            | "has" "(" attr ")" | attr                      (a bare attribute is attr == true)
//   cmp     := "==" "!=" "<" "<=" ">" ">="
//   set     := "[" literal { "," literal } "]"
//   range   := literal ".." literal                           (both ends are in)
//   literal := string | integer | version | "true" | "false"
//   attr    := letter { letter | digit | "_" | "." | "-" }    (a "-" or "." not at the end)
//
// Literals are typed: "text" (escapes \" \\ \n \t), 4096, 9.2 or 9.2.1-beta+7 (a semantic version;
// missing parts are 0), true. The attribute's value must have the literal's type; a text attribute
// is read as a version where the literal is one, and an integer literal beside a text attribute is
// the version N.0.0. Order is defined for integers and versions; the literals of a set, and the
// ends of a range, have one type. `~` is a glob over the whole text (policy/glob.h). Names below
// "user." are attributes of the person, given by the app; all others are of the device. `true`,
// `false` and `in` are no names.
//
// What is not known is not assumed (three values): an absent attribute, or one of another type,
// makes a test unknown, `!` keeps it unknown, `&&` and `||` follow Kleene, and only true matches.
// has(attr) is always known.
//
// Compiled once, evaluated often: no allocation, no recursion; the program is one block the caller
// owns and may share between threads.
#ifndef POL_EXPR_H
#define POL_EXPR_H

#include "policy/target.h"

#include <stddef.h>

#define POL_EXPR_TEXT_MAX     4096u
#define POL_EXPR_DEPTH_MAX    32u // nested parentheses and negations
#define POL_EXPR_NAME_MAX     32u // of an attribute
#define POL_EXPR_TESTS_MAX    256u
#define POL_EXPR_LITERALS_MAX 1024u
#define POL_EXPR_BYTES_MAX    (96u * 1024) // of a compiled program, more than any text needs

struct pol_expr; // a compiled program

// Where and why a text is no expression. `offset` counts bytes from 0, line and column (in code
// points) from 1; `message` is static: "expected a literal after '>='".
struct pol_expr_error {
    uint32_t offset;
    uint32_t line;
    uint32_t column;
    const char *message;
};

// Where a program is written.
struct pol_expr_space {
    void *memory;
    size_t capacity; // 0: nowhere, its size is asked for
};
// Compiles `text` into `memory` (aligned to 8). The program points into `memory` only: the text may
// go. False: *error says where and why; also when `capacity` is too small. A capacity of 0 only
// checks and measures: *out_bytes is what the program needs, *out_expr is NULL.
bool pol_expr_compile(struct pol_text text, struct pol_expr_space space,
                      const struct pol_expr **out_expr, size_t *out_bytes,
                      struct pol_expr_error *error);

enum pol_truth { POL_FALSE, POL_TRUE, POL_UNKNOWN };

// *out_test (may be NULL) is the index, in order of the text, of the test that decided: the first
// false one of an `&&`, the first true one of an `||`, otherwise the first unknown, otherwise the
// last.
enum pol_truth pol_expr_eval(const struct pol_expr *expr, const struct pol_attrs *attrs,
                             uint32_t *out_test);

// The text of test `index` as written, for explanations; borrowed from the program.
struct pol_text pol_expr_test_text(const struct pol_expr *expr, uint32_t index);

// The attribute that test `index` asks about; borrowed from the program. Empty behind the last
// test.
struct pol_text pol_expr_test_attr(const struct pol_expr *expr, uint32_t index);

// The whole text as it was compiled; borrowed from the program.
struct pol_text pol_expr_text(const struct pol_expr *expr);

// As pol_target_anchor: none for "a || b" on two attributes.
bool pol_expr_anchor(const struct pol_expr *expr, struct pol_anchor *out);

#endif
