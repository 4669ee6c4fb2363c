// Results value by value: a table, and random trees that are printed in any order and spacing,
// whose agreement an oracle finds on the trees themselves.
#include "core/run/result_compare.h"
#include "core/run/result_syntax.h"
#include "core/base/runtime.h"
#include "core/run/result_digest.h"

#include "base/prng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct wire_tolerances none = {0};

struct compared {
    const char *active;
    const char *shadow;
    double absolute;
    double relative;
    const char *text; // NULL: they agree; "?": unknown
};

static const struct compared table[] = {
    {"1", "1", 0, 0, NULL},
    {"1", "1.0", 0, 0, "differs at .: 1 vs 1.0"},
    {"1", "1.0", 0, 1e-9, NULL},
    {" [1 , 2]", "[1,2] ", 0, 0, NULL},
    {"[1,2]", "[1]", 1, 0, "differs at [1]: 2 vs no value"},
    {"[1]", "[1,[2]]", 1, 0, "differs at [1]: no value vs a list"},
    {"[0.31]", "[0.3100001]", 0, 1e-6, NULL},
    {"[0.31]", "[0.341]", 0, 1e-6, "differs at [0]: 0.31 vs 0.341"},
    {"[100]", "[110]", 0, 0.0909, "differs at [0]: 100 vs 110"},
    {"[100]", "[110]", 0, 0.091, NULL}, // relative to the larger
    {"[110]", "[100]", 0, 0.091, NULL},
    {"[0]", "[1e-9]", 1e-9, 0, NULL},
    {"[0]", "[1e-9]", 9e-10, 0, "differs at [0]: 0 vs 1e-9"},
    {"[-1]", "[1]", 2, 0, NULL},
    {"[-1]", "[1]", 1.9, 1, "differs at [0]: -1 vs 1"},
    {"[-1]", "[1]", 1.9, 0.9, "differs at [0]: -1 vs 1"},
    {"{\"a\":1,\"b\":[2,{\"c\":3}]}", "{\"b\":[2,{\"c\":3}],\"a\":1}", 0, 0, NULL},
    {"{\"a\":1,\"b\":[2,{\"c\":3}]}", "{\"b\":[2,{\"c\":4}],\"a\":1}", 0, 0,
     "differs at .b[1].c: 3 vs 4"},
    {"{\"a\":1}", "{\"a\":1,\"b\":2}", 9, 0, "differs at .b: no value vs 2"},
    {"{\"a\":1,\"b\":2}", "{\"b\":2}", 9, 0, "differs at .a: 1 vs no value"},
    {"{\"a\":1,\"b\":2}", "{\"c\":2,\"b\":2,\"a\":1}", 9, 0, "differs at .c: no value vs 2"},
    {"{\"a\":1,\"a\":2}", "{\"a\":1,\"a\":2}", 0, 0, NULL},
    {"{\"a\":1,\"a\":2}", "{\"a\":1}", 9, 0, "differs at .a: 2 vs no value"},
    {"{\"b\":0,\"a\":1,\"a\":2}", "{\"a\":1,\"b\":0,\"a\":2}", 0, 0, NULL},
    {"{\"a\":1}", "{\"A\":1}", 9, 0, "differs at .a: 1 vs no value"},
    {"{\"a\":{}}", "{\"a\":[]}", 9, 0, "differs at .a: an object vs a list"},
    {"{\"a\":\"x\"}", "{\"a\":\"y\"}", 9, 0, "differs at .a: a text vs another text"},
    {"{\"a\":\"1\"}", "{\"a\":1}", 9, 0, "differs at .a: a text vs 1"},
    {"[true]", "[false]", 9, 0, "differs at [0]: true vs false"},
    {"[null]", "[0]", 9, 0, "differs at [0]: null vs 0"},
    {"\"a,]}\"", "\"a,]}\"", 0, 0, NULL},
    {"[9007199254740992]", "[9007199254740993]", 0.5, 0,
     "differs at [0]: 9007199254740992 vs 9007199254740993"},
    {"[1e999]", "[1e999]", 1, 1, NULL},
    {"[1e999]", "[2e999]", 1, 1, "differs at [0]: 1e999 vs 2e999"},
    {"[1e-400]", "[0]", 1e-300, 0, NULL},
    {"[0.000000000000000000000000000001234]", "[1.234e-30]", 0, 1e-14, NULL},
    {"[123456789012345678901234567890]", "[1.2345678901234567e29]", 0, 1e-14, NULL},
    {"[NaN]", "[NaN]", 1, 1, "?"},
    {"[Infinity]", "[1]", 1, 1, "?"},
    {"[1,]", "[1]", 1, 1, "?"},
    {"", "", 1, 1, "?"},
    {"{\"a\" 1}", "{}", 1, 1, "?"},
    {"[01]", "[1]", 1, 1, "?"},
    {"[1.]", "[1]", 1, 1, "?"},
    {"[1] 2", "[1]", 1, 1, "?"},
    {"\"\\x\"", "1", 1, 1, "?"},
    {"\"a", "1", 1, 1, "?"},
    {"[1}", "[1]", 1, 1, "?"},
};

static void test_table(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        const struct compared *c = &table[i];
        struct wire_tolerances within = {.count = c->absolute > 0 || c->relative > 0 ? 1 : 0};
        within.items[0].absolute = c->absolute;
        within.items[0].relative = c->relative;
        struct dev_difference difference = {.place = 0};
        enum dev_agreement got = dev_result_compare(base_str_of(c->active), base_str_of(c->shadow),
                                                    &within, &difference);
        const char *text = got == DEV_AGREEMENT_UNKNOWN  ? "?"
                           : got == DEV_AGREEMENT_DIFFER ? difference.text
                                                         : NULL;
        bool same = text == NULL || c->text == NULL ? text == c->text : strcmp(text, c->text) == 0;
        if (!same) {
            fail_msg("case %zu: %s and %s: %s instead of %s", i, c->active, c->shadow,
                     text != NULL ? text : "agree", c->text != NULL ? c->text : "agree");
        }
    }
}

static void test_fields(void **state)
{
    (void)state;
    struct wire_tolerances within = {
        .count = 3,
        .items = {{.relative = 0.01},
                  {.field_size = 2, .field = "id"},
                  {.absolute = 5, .field_size = 5, .field = "total"}},
    };
    assert_true(wire_tolerances_ok(&within));
    static const struct compared cases[] = {
        {"{\"id\":1000,\"s\":[1.0],\"total\":7}", "{\"id\":1000,\"s\":[1.005],\"total\":12}", 0, 0,
         NULL},
        {"{\"id\":1000}", "{\"id\":1001}", 0, 0, "differs at .id: 1000 vs 1001"},
        {"{\"id\":[{\"x\":1}]}", "{\"id\":[{\"x\":1.0}]}", 0, 0, "differs at .id[0].x: 1 vs 1.0"},
        {"{\"a\":{\"id\":1000}}", "{\"a\":{\"id\":1001}}", 0, 0, NULL}, // of the outermost alone
        {"{\"total\":{\"x\":7}}", "{\"total\":{\"x\":13}}", 0, 0, "differs at .total.x: 7 vs 13"},
        {"[1000]", "[1001]", 0, 0, NULL},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct dev_difference difference = {.place = 0};
        enum dev_agreement got = dev_result_compare(
            base_str_of(cases[i].active), base_str_of(cases[i].shadow), &within, &difference);
        assert_int_equal(got, cases[i].text == NULL ? DEV_AGREEMENT_AGREE : DEV_AGREEMENT_DIFFER);
        if (cases[i].text != NULL) {
            assert_string_equal(difference.text, cases[i].text);
        }
    }
}

// ---- Limits

static size_t nested(char *out, uint32_t depth)
{
    memset(out, '[', depth);
    memset(out + depth, ']', depth);
    return (size_t)depth * 2;
}

static void test_limits(void **state)
{
    (void)state;
    char deep[2 * (DEV_COMPARE_DEPTH_MAX + 1)];
    struct dev_difference difference;
    for (uint32_t over = 0; over < 2; over++) {
        struct base_str text = {deep, nested(deep, DEV_COMPARE_DEPTH_MAX + over)};
        assert_int_equal(dev_result_compare(text, text, &none, &difference),
                         over == 0 ? DEV_AGREEMENT_AGREE : DEV_AGREEMENT_UNKNOWN);
    }
    // A path and values that are longer than there is room for.
    char one[600];
    char other[600];
    char name[301];
    memset(name, 'n', 300);
    name[300] = '\0';
    snprintf(one, sizeof(one), "{\"%s\":{\"%.200s\":1%.200s}}", name, name,
             "0000000000000000000000000000");
    snprintf(other, sizeof(other), "{\"%s\":{\"%.200s\":2%.200s}}", name, name,
             "0000000000000000000000000000");
    assert_int_equal(dev_result_compare(base_str_of(one), base_str_of(other), &none, &difference),
                     DEV_AGREEMENT_DIFFER);
    assert_true(strlen(difference.text) <= DEV_DIFFERENCE_TEXT);
    assert_non_null(strstr(difference.text, "n: 100000000000000000000000 vs 2000"));
    // Thousands of members the other way round: too much work is refused, not done.
    const int count = 4000;
    size_t room = (size_t)count * 12;
    char *up = malloc(room);
    char *down = malloc(room);
    size_t up_size = 0;
    size_t down_size = 0;
    assert_non_null(up);
    assert_non_null(down);
    for (int i = 0; i < count; i++) {
        up_size += (size_t)snprintf(up + up_size, room - up_size, "%c\"%d\":1", i ? ',' : '{', i);
        down_size += (size_t)snprintf(down + down_size, room - down_size, "%c\"%d\":1",
                                      i ? ',' : '{', count - 1 - i);
    }
    up[up_size++] = '}';
    down[down_size++] = '}';
    struct base_str a = {up, up_size};
    struct base_str b = {down, down_size};
    assert_int_equal(dev_result_compare(a, a, &none, &difference), DEV_AGREEMENT_AGREE);
    assert_int_equal(dev_result_compare(a, b, &none, &difference), DEV_AGREEMENT_UNKNOWN);
    free(up);
    free(down);
}

// ---- Random trees against an oracle

#define NODES_MAX 64
#define ITEMS_MAX 5
#define TEXT_MAX  4096
#define DEPTH_MAX 4
#define FIELDS    3
#define ROUNDS    20000

static const char *const names[] = {"a", "b", "id", "scores", "x\\u0041", "\xc3\xa9"};

struct node {
    char kind; // 'o' 'l' 'n' 's' 'w'
    uint32_t count;
    uint32_t items[ITEMS_MAX];
    uint32_t keys[ITEMS_MAX]; // indices of names; not doubled
    double number;
    uint32_t word;
};

struct tree {
    struct node nodes[NODES_MAX];
    uint32_t count;
};

static uint32_t grow(struct base_prng *prng, struct tree *tree, uint32_t depth)
{
    uint32_t at = tree->count++;
    struct node *node = &tree->nodes[at];
    memset(node, 0, sizeof(*node));
    uint32_t dice = (uint32_t)base_prng_below(prng, 10);
    bool leaf = depth >= DEPTH_MAX || tree->count + 12 > NODES_MAX || dice >= 6;
    node->kind = leaf ? dice == 8 ? 's' : dice == 9 ? 'w' : 'n' : dice < 3 ? 'o' : 'l';
    node->word = (uint32_t)base_prng_below(prng, 3);
    node->number = ((double)base_prng_below(prng, 2000001) - 1000000) /
                   (double)(1 + base_prng_below(prng, 1000));
    if (leaf) {
        return at;
    }
    uint32_t first = (uint32_t)base_prng_below(prng, 6);
    uint32_t count = (uint32_t)base_prng_below(prng, ITEMS_MAX);
    for (uint32_t i = 0; i < count && tree->count + 6 < NODES_MAX; i++) {
        node->keys[i] = (first + i) % 6;
        node->items[i] = grow(prng, tree, depth + 1);
        node->count++;
    }
    return at;
}

// One node changed: a number moved a little or much, or something else.
static void mutate(struct base_prng *prng, struct tree *tree)
{
    struct node *node = &tree->nodes[base_prng_below(prng, tree->count)];
    static const double steps[] = {1e-9, 1e-7, 1e-5, 1e-3, 0.1};
    double step = steps[base_prng_below(prng, 5)];
    if (node->kind == 'n') {
        node->number *= base_prng_below(prng, 2) == 0 ? 1 + step : 1 - step;
    } else if (node->kind == 's' || node->kind == 'w') {
        node->word = (node->word + (uint32_t)base_prng_below(prng, 2)) % 3;
    } else if (node->count > 0 && base_prng_below(prng, 4) == 0) {
        node->count--;
    }
}

struct text {
    char bytes[TEXT_MAX];
    size_t size;
};

static void add(struct text *out, const char *bytes)
{
    size_t size = strlen(bytes);
    assert_true(out->size + size < TEXT_MAX);
    memcpy(out->bytes + out->size, bytes, size);
    out->size += size;
}

static void space(struct base_prng *prng, struct text *out)
{
    static const char *const spaces[] = {"", "", "", " ", "\n", "\t "};
    add(out, spaces[base_prng_below(prng, 6)]);
}

static void print(struct base_prng *prng, const struct tree *tree, uint32_t at, struct text *out)
{
    static const char *const words[] = {"true", "false", "null"};
    static const char *const texts[] = {"\"\"", "\"a\\\"]\"", "\"{:,\""};
    const struct node *node = &tree->nodes[at];
    char number[40];
    space(prng, out);
    if (node->kind == 'n') {
        snprintf(number, sizeof(number), "%.17g", node->number);
        add(out, number);
    } else if (node->kind == 's' || node->kind == 'w') {
        add(out, node->kind == 's' ? texts[node->word] : words[node->word]);
    } else {
        bool object = node->kind == 'o';
        // Members start anywhere and go either way round.
        uint32_t turn =
            object && node->count > 0 ? (uint32_t)base_prng_below(prng, node->count) : 0;
        bool back = object && base_prng_below(prng, 2) == 0;
        add(out, object ? "{" : "[");
        for (uint32_t k = 0; k < node->count; k++) {
            uint32_t i = (turn + (back ? node->count - 1 - k : k)) % node->count;
            add(out, k > 0 ? "," : "");
            if (object) {
                space(prng, out);
                add(out, "\"");
                add(out, names[node->keys[i]]);
                add(out, "\"");
                space(prng, out);
                add(out, ":");
            }
            print(prng, tree, node->items[i], out);
        }
        space(prng, out);
        add(out, object ? "}" : "]");
    }
    space(prng, out);
}

// The oracle: the trees have one shape but for a last item that is missing in one of them.
static bool same(const struct tree *a, const struct tree *b, uint32_t at,
                 const struct wire_tolerances *within, const char *field)
{
    const struct node *one = &a->nodes[at];
    const struct node *other = &b->nodes[at];
    if (one->kind == 'n') {
        const struct wire_tolerance *rule = NULL;
        for (uint32_t i = 0; i < within->count; i++) {
            char name[WIRE_TOLERANCE_FIELD_MAX + 1] = "";
            memcpy(name, within->items[i].field, within->items[i].field_size);
            if (strcmp(name, field) == 0 || (name[0] == '\0' && rule == NULL)) {
                rule = &within->items[i];
            }
        }
        double larger = fmax(fabs(one->number), fabs(other->number));
        double apart = fabs(one->number - other->number);
        return apart == 0 ||
               (rule != NULL && apart <= fmax(rule->absolute, rule->relative * larger));
    }
    if (one->kind == 's' || one->kind == 'w') {
        return one->word == other->word;
    }
    bool agree = one->count == other->count;
    for (uint32_t i = 0; i < one->count && i < other->count; i++) {
        const char *below = at == 0 && one->kind == 'o' ? names[one->keys[i]] : field;
        agree = agree && same(a, b, one->items[i], within, below);
    }
    return agree;
}

// Whole numbers, so that no tolerance lies on the edge of what is compared.
static void random_tolerances(struct base_prng *prng, struct wire_tolerances *out)
{
    static const char *const fields[FIELDS] = {"", "id", "scores"};
    static const double shares[] = {3e-8, 3e-6, 3e-4, 0.03, 0.3};
    memset(out, 0, sizeof(*out));
    for (uint32_t i = 0; i < FIELDS; i++) {
        if (base_prng_below(prng, 2) == 0) {
            struct wire_tolerance *item = &out->items[out->count++];
            item->field_size = (uint8_t)strlen(fields[i]);
            memcpy(item->field, fields[i], item->field_size);
            item->relative = shares[base_prng_below(prng, 5)];
            item->absolute = base_prng_below(prng, 3) == 0 ? 0.0123456 : 0;
        }
    }
}

static void test_oracle(void **state)
{
    (void)state;
    const uint64_t seed = 20261122;
    print_message("seed %llu\n", (unsigned long long)seed);
    struct base_prng prng;
    base_prng_seed(&prng, seed);
    uint32_t agreed = 0;
    static struct tree a;
    static struct tree b;
    static struct text one;
    static struct text other;
    for (int round = 0; round < ROUNDS; round++) {
        struct wire_tolerances within;
        random_tolerances(&prng, &within);
        assert_true(wire_tolerances_ok(&within));
        a.count = 0;
        (void)grow(&prng, &a, 0);
        b = a;
        for (uint64_t i = base_prng_below(&prng, 4); i > 0; i--) {
            mutate(&prng, &b);
        }
        one.size = other.size = 0;
        print(&prng, &a, 0, &one);
        print(&prng, &b, 0, &other);
        struct base_str x = {one.bytes, one.size};
        struct base_str y = {other.bytes, other.size};
        struct dev_difference difference = {.place = 0};
        bool expected = same(&a, &b, 0, &within, "");
        enum dev_agreement got = dev_result_compare(x, y, &within, &difference);
        if (got != (expected ? DEV_AGREEMENT_AGREE : DEV_AGREEMENT_DIFFER)) {
            fail_msg("round %d: %d\n%.*s\n%.*s\n%s", round, (int)got, (int)x.size, x.data,
                     (int)y.size, y.data, difference.text);
        }
        bool exact = dev_result_compare(x, y, &none, &difference) == DEV_AGREEMENT_AGREE;
        assert_int_equal(exact, dev_result_digest(x) == dev_result_digest(y));
        assert_int_equal(dev_result_compare(y, x, &within, &difference), got);
        agreed += expected ? 1 : 0;
        // Cut short it is no JSON, or another number.
        size_t cut = base_prng_below(&prng, x.size);
        (void)dev_result_compare((struct base_str){x.data, cut}, y, &within, &difference);
    }
    print_message("%u of %d agree\n", agreed, ROUNDS);
    assert_true(agreed > ROUNDS / 10 && agreed < ROUNDS - ROUNDS / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_fields),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_oracle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
