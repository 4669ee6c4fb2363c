// Patterns over behaviour events, as app developers write them in task.json:
//
//   enter(home) * click(home, "buy") within 30s page cooldown 1m max 5/day
//
//   pattern := { gap | literal } { clause }
//   gap     := "?"                          exactly one event, whichever
//            | "*"                          any number of events
//            | "*{" m "," n "}"             m to n events, n <= 8
//            | "not" literal "before" "next"  any number of events, none of which the literal
//            matches
//   literal := kind [ "(" [ arg { "," arg } ] ")" ] [ "same(item)" ]
//   kind    := "enter" "scroll" "exposure" "click" "exit" "custom" [ ":" name ] "any"
//   arg     := text | "*"                   the first such is the page, the second the item
//            | "page" "=" ( text | "*" ) | "item" "=" ( text | "*" )
//            | attribute ( "==" "!=" "<" "<=" ">" ">=" ) ( number | quoted | "true" | "false" )
//   text    := word | quoted                word: letters, digits and _ . - / :
//   clause  := "within" duration | "page" | "cooldown" duration | "max" n "/day"
//            | "each" | "reset" | "once per visit" | "every-event" | "or timeout"
//   duration := n ( "ms" "s" "m" "h" "d" )
//
// Quoted text stands between " or ' and has no escapes; it cannot hold its own quote or a control
// character. An item of "*" asks for any item, but for one. An attribute that is absent or of
// another type makes a test false, also "!="; integers and reals compare as numbers.
//
// Meaning. A pattern may start at any event. It matches at event n when its steps match ascending
// events of which the last is n; consecutive steps are adjacent events (seq + 1) unless a `*`
// stands between them. `within D`: from the event of the first literal to n pass at most D, in
// whole milliseconds (trigger.h says of which clock). `page`: all matched events, those under `?`
// too, carry the same visit number, which is not 0. `same(item)`: the events of all marked steps
// have an item, and the same (by dev_event_hash). `not X before next`: none of the events between
// those of the literals left and right matches X; under `page`, X counts only in the same visit;
// X marked same(item), only with the item of the marked step before it. Such a gap holds nothing
// else.
//
// `or timeout`, beside `within D`: each start of the pattern that no match follows within D is
// told, too, when D has passed (timeouts.h says what a start is). It wants a second step, and
// stands beside no limit of starts: no cooldown, max or once per visit.
//
// Normal form, which is what a pattern means: in each gap `?` come first, then `*` or `*{0,d}`;
// `*`, and the optional part of `*{m,n}`, are dropped at the start and at the end. So a gap has
// only literals behind it. Clauses are in the order above, tests are sorted, what says nothing is
// dropped. Two patterns are the same when their normal forms print the same.
//
// Any thread; no allocation; the parsed form borrows the text.
#ifndef DEV_PATTERN_H
#define DEV_PATTERN_H

#include "base/error.h"
#include "pipeline/record/event.h"

#define DEV_PATTERN_TEXT_MAX      1024 // bytes of a pattern
#define DEV_PATTERN_PRINTED_MAX   2048 // bytes of a normal form
#define DEV_PATTERN_STEPS_MAX     32 // literals, `?`, `*` and the d of `*{0,d}`, of the normal form
#define DEV_PATTERN_SPREAD_MAX    8  // n of `*{m,n}`, d of `*{0,d}`
#define DEV_PATTERN_VARIANTS_MAX  64 // ways to choose the lengths of all `*{0,d}`
#define DEV_PATTERN_NOTS_MAX      8
#define DEV_PATTERN_TESTS_MAX     16 // tests of attributes, of one pattern
#define DEV_PATTERN_LITERALS_MAX  (DEV_PATTERN_STEPS_MAX + DEV_PATTERN_NOTS_MAX)
#define DEV_PATTERN_DIGITS_MAX    15                      // of a number
#define DEV_PATTERN_WITHIN_MAX_MS (7u * 24 * 3600 * 1000) // also of a cooldown
#define DEV_PATTERN_DAY_MAX       10000                   // n of `max n/day`

enum dev_pattern_op {
    DEV_PATTERN_EQ,
    DEV_PATTERN_NE,
    DEV_PATTERN_LT,
    DEV_PATTERN_LE,
    DEV_PATTERN_GT,
    DEV_PATTERN_GE,
    DEV_PATTERN_OP_COUNT
};

// attr OP literal. A number is digits / 10^scale with the fewest digits, INTEGER when scale is 0.
struct dev_pattern_test {
    struct base_str attr;
    struct base_str text; // STRING
    int64_t digits;       // INTEGER, REAL; BOOLEAN: 0 or 1
    uint8_t scale;
    uint8_t op;   // enum dev_pattern_op
    uint8_t type; // enum dev_attr_type
};

struct dev_pattern_literal {
    uint8_t kind; // enum dev_event_kind, or 0: any
    bool any_item;
    bool marked; // same(item)
    uint8_t test_first;
    uint8_t test_count;
    struct base_str name; // of custom events; empty: any
    struct base_str page; // empty: any
    struct base_str item; // empty: any or none
};

// What stands before a literal.
struct dev_pattern_gap {
    uint8_t ones;   // `?`
    uint8_t spread; // d of `*{0,d}`
    bool star;
    uint8_t not_literal; // 1 + index into `literals`; 0: none
};

enum dev_pattern_policy {
    DEV_PATTERN_EACH,
    DEV_PATTERN_RESET,          // a match uses up what was matched so far
    DEV_PATTERN_ONCE_PER_VISIT, // of the visit of the last event; events in no visit are not
                                // limited
};

struct dev_pattern {
    uint8_t step_count; // literals that are steps: literals[0 .. step_count)
    uint8_t literal_count;
    uint8_t test_count;
    uint8_t tail; // `?` after the last literal
    bool page;
    bool every_event;
    bool timeout; // starts without a match are told
    bool has_marks;
    uint8_t policy;                                                // enum dev_pattern_policy
    uint16_t per_day;                                              // 0: no limit
    uint32_t within_ms;                                            // 0: no limit
    uint32_t cooldown_ms;                                          // 0: none
    struct dev_pattern_gap gaps[DEV_PATTERN_STEPS_MAX];            // gaps[i] is before step i
    struct dev_pattern_literal literals[DEV_PATTERN_LITERALS_MAX]; // steps, then those of `not`
    struct dev_pattern_test tests[DEV_PATTERN_TESTS_MAX];
};

// Parses and normalises; `out` borrows `text`. *error (may be NULL) has line, column (in code
// points) and reason. INVALID, TOO_LARGE (a limit above, named).
BASE_NODISCARD enum base_status dev_pattern_parse(struct base_str text, struct dev_pattern *out,
                                                  struct base_error *error);
// Prints the normal form; parsing it gives the same pattern (if it is no longer than a text may
// be). TOO_LARGE.
BASE_NODISCARD enum base_status dev_pattern_print(const struct dev_pattern *pattern, char *out,
                                                  size_t capacity, size_t *out_size);
// Ways to choose the lengths of the `*{0,d}`.
uint32_t dev_pattern_variants(const struct dev_pattern *pattern);
// Does the test hold for the event? Pure.
bool dev_pattern_test_holds(const struct dev_pattern_test *test, const struct dev_event *event);

#endif
