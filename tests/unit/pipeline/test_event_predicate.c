// Expressions over events: a table of texts and answers, exact places of errors, and random trees
// against an evaluator that walks the tree.
#include "event_maker.h"

#include "base/prng.h"
#include "pipeline/stream/event_predicate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static struct made_event made;
static struct made_event other;

static int setup(void **state)
{
    (void)state;
    const struct dev_event_attr attrs[] = {
        attr_integer("price", 12), attr_real("rate", 0.5),         attr_boolean("liked", true),
        attr_text("color", "red"), attr_integer("big", INT64_MAX), attr_text("kind", "attr"),
        attr_real("huge", 1e300),  attr_integer("neg", -7),
    };
    const struct dev_event_attr others[] = {attr_integer("price", 30)};
    event_make(&made, 7, 1000, DEV_EVENT_CLICK, "home", "buy", attrs, 8);
    event_make(&other, 6, 900, DEV_EVENT_EXPOSURE, "list", "", others, 1);
    return 0;
}

static size_t compile(const char *text, uint32_t flags, uint8_t *program)
{
    struct base_error error = {.status = BASE_OK};
    struct dev_predicate_program place = {.bytes = program, .capacity = DEV_PREDICATE_BYTES_MAX};
    enum base_status status = dev_predicate_compile(base_str_of(text), flags, &place, &error);
    if (status != BASE_OK) {
        fail_msg("%s: %u:%u: %s", text, error.line, error.column, error.text);
    }
    return place.size;
}

static void test_conditions(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool truth;
    } cases[] = {
        {"price > 10", true},
        {"price > 12", false},
        {"price >= 12 && kind == \"click\"", true},
        {"price == 12.0", true},
        {"price != 12.5", true},
        {"rate * 2 == 1", true},
        {"liked", true},
        {"!liked", false},
        {"color == 'red'", true},
        {"color in {'blue', 'red'}", true},
        {"color !in {'blue', \"red\"}", false},
        {"price in {1, 2, 12}", true},
        {"price in {'a'}", false},
        {"price !in {'a'}", false}, // another type is neither in nor outside
        {"missing > 1", false},
        {"!(missing > 1)", false},
        {"missing > 1 || price == 12", true},
        {"price == 12 || missing > 1", true},
        {"missing > 1 && price == 12", false},
        {"!(missing > 1 && price == 13)", true},
        {"color > 1", false},
        {"!(color > 1)", false},
        {"color == 1", false},
        {"color != 1", false},
        {"has(price)", true},
        {"has(missing)", false},
        {"!has(missing)", true},
        {"has(item) && has(page)", true},
        {"has(name)", false},
        {".kind == 'attr'", true},
        {"kind == 'attr'", false},
        {"big + 1 > 0", false}, // no value
        {"!has(big) || big == 9223372036854775807", true},
        {"big < 9.3e18", true},
        {"big == 9.3e18", false},
        {"huge * huge > 1", false},
        {"price / 0 > 0", false},
        {"neg % 3 == 2", true},
        {"7 % -3 == -2", true},
        {"-price == -12", true},
        {"1 + 2 * 3 == 7 && (1 + 2) * 3 == 9 && 10 - 2 - 3 == 5", true},
        {"seq == 7 && time == 1000 && visit == 0 && page == 'home' && item == \"buy\"", true},
        {"true || missing == 1", true},
        {"false || false || liked && !false", true},
        {"1.5e2 == 150 && 2.5e-1 == rate / 2", true},
        {"-9223372036854775808 < big", true},
        {"color == 'r\\x'", false},
    };
    uint8_t program[DEV_PREDICATE_BYTES_MAX];
    for (size_t i = 0; i + 1 < sizeof(cases) / sizeof(cases[0]); i++) { // the last is an error
        (void)compile(cases[i].text, DEV_PREDICATE_TRUTH, program);
        if (dev_predicate_test(program, &made.event) != cases[i].truth) {
            fail_msg("%s: not %d", cases[i].text, cases[i].truth);
        }
    }
}

static void test_values(void **state)
{
    (void)state;
    uint8_t program[DEV_PREDICATE_BYTES_MAX];
    (void)compile("price * 2", 0, program);
    struct dev_value value = dev_predicate_value(program, &made.event, NULL);
    assert_int_equal(value.type, DEV_VALUE_INTEGER);
    assert_int_equal(value.integer, 24);
    (void)compile("item", 0, program);
    value = dev_predicate_value(program, &made.event, NULL);
    assert_int_equal(value.type, DEV_VALUE_TEXT);
    assert_true(base_str_equal(value.text, BASE_STR("buy")));
    (void)compile("'a\\n\\\\'", 0, program);
    value = dev_predicate_value(program, &made.event, NULL);
    assert_true(base_str_equal(value.text, BASE_STR("a\n\\")));
    (void)compile("other.price - price + other.seq", DEV_PREDICATE_OTHER, program);
    value = dev_predicate_value(program, &made.event, &other.event);
    assert_int_equal(value.integer, 24);
    value = dev_predicate_value(program, &made.event, NULL);
    assert_int_equal(value.type, DEV_VALUE_NONE);
}

static void test_errors(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum base_status status;
        uint32_t line;
        uint32_t column;
        const char *what;
    } cases[] = {
        {"", BASE_ERR_INVALID, 1, 1, "expected a value"},
        {"price >", BASE_ERR_INVALID, 1, 8, "expected a value"},
        {"price > 1 2", BASE_ERR_INVALID, 1, 11, "expected an operator or the end"},
        {"price\n  && (liked", BASE_ERR_INVALID, 2, 6, "'(' is not closed"},
        {"liked)", BASE_ERR_INVALID, 1, 6, "expected an operator or the end"},
        {"'\xc3\xa4' < 3", BASE_ERR_INVALID, 1, 5, "this operator is for numbers"},
        {"'a' == 3", BASE_ERR_INVALID, 1, 5, "two types that are never equal"},
        {"price + 1 && liked", BASE_ERR_INVALID, 1, 11, "this operator is for conditions"},
        {"price + 1", BASE_ERR_INVALID, 1, 1, "this is no condition"},
        {"1 < price < 3", BASE_ERR_INVALID, 1, 11, "comparisons do not chain: use &&"},
        {"!price > 3", BASE_ERR_INVALID, 1, 8, "this operator is for numbers"},
        {"color == 'a", BASE_ERR_INVALID, 1, 10, "a text is not closed"},
        {"color == 'a\\x'", BASE_ERR_INVALID, 1, 12, "an escape is one of \\\" \\' \\\\ \\n \\t"},
        {"price in 3", BASE_ERR_INVALID, 1, 10, "expected '{' after 'in'"},
        {"price in {}", BASE_ERR_INVALID, 1, 11, "expected a literal"},
        {"price in {1, 'a'}", BASE_ERR_INVALID, 1, 14, "a literal of another type"},
        {"price in {1 2}", BASE_ERR_INVALID, 1, 13, "expected ',' or '}'"},
        {"item in {1}", BASE_ERR_INVALID, 1, 10, "a literal of another type"},
        {"has price", BASE_ERR_INVALID, 1, 5, "expected '(' after 'has'"},
        {"has(1)", BASE_ERR_INVALID, 1, 5, "expected a name"},
        {"other.price > 1", BASE_ERR_INVALID, 1, 1, "there is no other event here"},
        {"price > 9223372036854775808", BASE_ERR_INVALID, 1, 9,
         "an integer does not fit into 64 bits"},
        {"price > 1.2345678901234567", BASE_ERR_INVALID, 1, 9,
         "a real number has more than 15 digits"},
        {"price > 1e23", BASE_ERR_INVALID, 1, 9, "a real number's exponent is beyond 22"},
        {"price > 1x", BASE_ERR_INVALID, 1, 9,
         "a number is followed by a letter, a digit or a dot"},
        {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa > 1", BASE_ERR_TOO_LARGE, 1, 1,
         "a name has more than 32 bytes"},
        {"((((((((((((((((( liked", BASE_ERR_TOO_LARGE, 1, 17, "nested deeper than 16 operators"},
        {"price = 3", BASE_ERR_INVALID, 1, 7, "expected an operator or the end"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint8_t program[DEV_PREDICATE_BYTES_MAX];
        struct base_error error = {.status = BASE_OK};
        struct dev_predicate_program place = {.bytes = program, .capacity = sizeof(program)};
        enum base_status status =
            dev_predicate_compile(base_str_of(cases[i].text), DEV_PREDICATE_TRUTH, &place, &error);
        if (status != cases[i].status || error.line != cases[i].line ||
            error.column != cases[i].column || strcmp(error.text, cases[i].what) != 0) {
            fail_msg("%s: %d %u:%u: %s, not %d %u:%u: %s", cases[i].text, status, error.line,
                     error.column, error.text, cases[i].status, cases[i].line, cases[i].column,
                     cases[i].what);
        }
    }
}

static void test_prefix_in_a_longer_text(void **state)
{
    (void)state;
    struct base_str text = BASE_STR("click(price > (10) ) within 5s");
    uint8_t program[DEV_PREDICATE_BYTES_MAX];
    size_t at = 6;
    struct dev_predicate_program place = {.bytes = program, .capacity = sizeof(program)};
    assert_int_equal(dev_predicate_parse(text, &at, DEV_PREDICATE_TRUTH, &place, NULL), BASE_OK);
    size_t size = place.size;
    assert_int_equal(at, 19);
    assert_true(dev_predicate_test(program, &made.event));
    for (size_t room = 0; room < size; room++) {
        uint8_t *small = malloc(room + (room == 0));
        assert_non_null(small);
        struct dev_predicate_program none = {.bytes = small, .capacity = room};
        at = 6;
        assert_int_equal(dev_predicate_parse(text, &at, 0, &none, NULL), BASE_ERR_TOO_LARGE);
        assert_int_equal(at, 6);
        free(small);
    }
}

// --- random trees: the text and the answer come from one walk

struct tree_text {
    char text[2000];
    size_t size;
};

static void put(struct tree_text *out, const char *text)
{
    size_t size = strlen(text);
    assert_true(out->size + size < sizeof(out->text));
    memcpy(out->text + out->size, text, size + 1);
    out->size += size;
}

// -1: no value.
static int tree_truth(struct base_prng *prng, struct tree_text *out, unsigned depth);

// Small whole numbers, so that arithmetic is exact; NAN: no value.
static double tree_number(struct base_prng *prng, struct tree_text *out, unsigned depth)
{
    static const struct {
        const char *name;
        double value;
    } names[] = {{"price", 12}, {"neg", -7}, {"missing", NAN}, {"rate", 0.5}, {"seq", 7}};
    uint64_t pick = base_prng_below(prng, depth == 0 ? 2 : 5);
    if (pick == 0) {
        char text[16];
        int number = (int)base_prng_below(prng, 20) - 5;
        (void)snprintf(text, sizeof(text), "%d", number);
        put(out, text);
        return number;
    }
    if (pick == 1) {
        size_t which = (size_t)base_prng_below(prng, sizeof(names) / sizeof(names[0]));
        put(out, names[which].name);
        return names[which].value;
    }
    put(out, "(");
    double left = tree_number(prng, out, depth - 1);
    static const char *const operators[] = {" + ", " - ", " * ", " / "};
    uint64_t which = base_prng_below(prng, 4);
    put(out, operators[which]);
    double right = tree_number(prng, out, depth - 1);
    put(out, ")");
    switch (which) {
    case 0:
        return left + right;
    case 1:
        return left - right;
    case 2:
        return left * right;
    default:
        return right == 0 ? NAN : left / right;
    }
}

static int tree_compare(struct base_prng *prng, struct tree_text *out, unsigned depth)
{
    static const char *const operators[] = {" == ", " != ", " < ", " <= ", " > ", " >= "};
    double left = tree_number(prng, out, depth);
    uint64_t which = base_prng_below(prng, 6);
    put(out, operators[which]);
    double right = tree_number(prng, out, depth);
    if (isnan(left) || isnan(right)) {
        return -1;
    }
    bool answers[] = {left == right, left != right, left<right, left <= right, left> right,
                      left >= right};
    return answers[which];
}

static int tree_truth(struct base_prng *prng, struct tree_text *out, unsigned depth)
{
    uint64_t pick = base_prng_below(prng, depth == 0 ? 2 : 5);
    if (pick == 0) {
        static const char *const names[] = {"true", "false", "liked", "missing", "has(price)"};
        static const int values[] = {1, 0, 1, -1, 1};
        uint64_t which = base_prng_below(prng, 5);
        put(out, names[which]);
        return values[which];
    }
    if (pick == 1) {
        put(out, "(");
        int value = tree_compare(prng, out, depth > 2 ? 2 : depth);
        put(out, ")");
        return value;
    }
    if (pick == 2) {
        put(out, "!");
        int value = tree_truth(prng, out, 0);
        return value < 0 ? -1 : !value;
    }
    bool both = pick == 3;
    put(out, "(");
    int left = tree_truth(prng, out, depth - 1);
    put(out, both ? " && " : " || ");
    int right = tree_truth(prng, out, depth - 1);
    put(out, ")");
    int strong = both ? 0 : 1;
    if (left == strong || right == strong) {
        return strong;
    }
    return left < 0 || right < 0 ? -1 : !strong;
}

static void test_random_trees(void **state)
{
    (void)state;
    uint64_t seed = 20260;
    print_message("seed %llu\n", (unsigned long long)seed);
    struct base_prng prng;
    base_prng_seed(&prng, seed);
    unsigned truths[3] = {0};
    for (unsigned round = 0; round < 20000; round++) {
        struct tree_text text = {.size = 0};
        int want = tree_truth(&prng, &text, 4);
        uint8_t program[DEV_PREDICATE_BYTES_MAX];
        (void)compile(text.text, DEV_PREDICATE_TRUTH, program);
        struct dev_value got = dev_predicate_value(program, &made.event, NULL);
        int value = got.type == DEV_VALUE_BOOLEAN ? (int)got.integer : -1;
        if (value != want) {
            fail_msg("%s: %d, not %d", text.text, value, want);
        }
        truths[want + 1]++;
    }
    for (unsigned i = 0; i < 3; i++) {
        assert_true(truths[i] > 1000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conditions),   cmocka_unit_test(test_values),
        cmocka_unit_test(test_errors),       cmocka_unit_test(test_prefix_in_a_longer_text),
        cmocka_unit_test(test_random_trees),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
