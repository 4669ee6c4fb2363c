// Random expressions and attributes: the compiled program beside a recursive evaluator over the
// tree the text was printed from.
//
// The oracle shares nothing with the language but its rules: truth from Kleene's tables written
// out, versions from ranks written out, globs by trying everything. Also: whenever an expression is
// true, its anchor holds.
#include "test_kit.h"

#include "policy/expr.h"

#define EXPRESSIONS   40000u
#define DEVICES_EACH  8u
#define SET_MAX       3
#define NOT_A_VERSION (-1)

// Texts that attributes and literals are drawn from, with their place in the order of versions.
static const struct {
    const char *text;
    int rank;
    bool literal; // can be written as a version literal
} texts[] = {
    {"", NOT_A_VERSION, false},
    {"x", NOT_A_VERSION, false},
    {"xyx", NOT_A_VERSION, false},
    {"0.9", 1, true},
    {"1.0", 2, true},
    {"1", 2, false},
    {"v1.0.0", 2, false},
    {"1.9.0", 4, true},
    {"1.10.0-alpha", 5, true},
    {"1.10.0-alpha.1", 6, true},
    {"1.10.0-alpha.beta", 7, true},
    {"1.10.0-beta.2", 8, true},
    {"1.10.0-beta.11", 9, true},
    {"1.10.0", 10, true},
    {"1.10+build.5", 10, true},
    {"1.10.0.1", 11, true},
    {"9", 14, false},
    {"9.2", 15, true},
    {"10.0", 16, true},
    {"1.10.0-", NOT_A_VERSION, false},
};
// The version N.0.0 of an integer literal.
static const struct {
    int64_t integer;
    int rank;
} integers[] = {{-3, -2}, {0, 0}, {1, 2}, {2, 12}, {9, 14}, {10, 16}, {4294967296, 99}};

static const char *const names[] = {"a", "b", "os", "user.age", "app_version"};

enum oracle_op { EQ, NE, LT, LE, GT, GE, IN, NOT_IN, RANGE, NOT_RANGE, LIKE, NOT_LIKE, HAS, BARE };
enum oracle_kind { IS_TEXT, IS_INTEGER, IS_VERSION, IS_BOOLEAN };

// A literal or an attribute: `index` into texts or integers, or the boolean.
struct atom {
    enum oracle_kind kind;
    unsigned index;
};

struct node {
    enum { TEST, NOT, AND, OR } kind;
    struct node *left;
    struct node *right;
    unsigned name;
    enum oracle_op op;
    struct atom literals[SET_MAX];
    unsigned count;
    const char *glob;
    uint32_t test; // number in the text
};

struct device {
    bool has[TEST_COUNT(names)];
    struct atom value[TEST_COUNT(names)];
};

static struct base_prng prng;
static struct node nodes[256];
static unsigned node_count;
static char source[POL_EXPR_TEXT_MAX + 1];
static size_t source_size;
static uint32_t test_count;
static uint64_t memory[POL_EXPR_BYTES_MAX / 8];

static unsigned below(unsigned bound)
{
    return (unsigned)base_prng_below(&prng, bound);
}

// ---- The oracle

static int version_rank(struct atom atom)
{
    return atom.kind == IS_INTEGER ? integers[atom.index].rank : texts[atom.index].rank;
}

static bool naive_glob(const char *pattern, const char *text)
{
    if (*pattern == '\0') {
        return *text == '\0';
    }
    if (*pattern == '*') {
        return naive_glob(pattern + 1, text) || (*text != '\0' && naive_glob(pattern, text + 1));
    }
    return *text != '\0' && (*pattern == '?' || *pattern == *text) &&
           naive_glob(pattern + 1, text + 1);
}

// False: the two cannot stand beside each other.
static bool oracle_compare(struct atom attr, struct atom literal, int *out)
{
    if (literal.kind == IS_INTEGER && attr.kind == IS_INTEGER) {
        int64_t a = integers[attr.index].integer;
        int64_t b = integers[literal.index].integer;
        *out = a < b ? -1 : a > b;
        return true;
    }
    if (literal.kind == IS_BOOLEAN && attr.kind == IS_BOOLEAN) {
        *out = attr.index != literal.index;
        return true;
    }
    if (attr.kind != IS_TEXT) {
        return false;
    }
    if (literal.kind == IS_TEXT) {
        *out = strcmp(texts[attr.index].text, texts[literal.index].text);
        return true;
    }
    if (literal.kind == IS_BOOLEAN || texts[attr.index].rank == NOT_A_VERSION) {
        return false;
    }
    *out = version_rank(attr) - version_rank(literal);
    return true;
}

static enum pol_truth oracle_test(const struct node *node, const struct device *device)
{
    if (node->op == HAS) {
        return device->has[node->name] ? POL_TRUE : POL_FALSE;
    }
    if (!device->has[node->name]) {
        return POL_UNKNOWN;
    }
    struct atom attr = device->value[node->name];
    if (node->op == BARE) {
        return attr.kind != IS_BOOLEAN ? POL_UNKNOWN : attr.index == 1 ? POL_TRUE : POL_FALSE;
    }
    if (node->op == LIKE || node->op == NOT_LIKE) {
        if (attr.kind != IS_TEXT) {
            return POL_UNKNOWN;
        }
        bool like = naive_glob(node->glob, texts[attr.index].text);
        return like == (node->op == LIKE) ? POL_TRUE : POL_FALSE;
    }
    int order[SET_MAX] = {0};
    bool equal = false;
    for (unsigned i = 0; i < node->count; i++) {
        if (!oracle_compare(attr, node->literals[i], &order[i])) {
            return POL_UNKNOWN;
        }
        equal = equal || order[i] == 0;
    }
    bool inside = order[0] >= 0 && order[1] <= 0;
    const bool answers[] = {
        [EQ] = equal,
        [NE] = !equal,
        [LT] = order[0]<0, [LE] = order[0] <= 0, [GT] = order[0]> 0,
        [GE] = order[0] >= 0,
        [IN] = equal,
        [NOT_IN] = !equal,
        [RANGE] = inside,
        [NOT_RANGE] = !inside,
    };
    return answers[node->op] ? POL_TRUE : POL_FALSE;
}

static enum pol_truth oracle(const struct node *node, const struct device *device,
                             uint32_t *out_test)
{
    // [left][right], in the order FALSE, TRUE, UNKNOWN
    static const enum pol_truth and_table[3][3] = {{POL_FALSE, POL_FALSE, POL_FALSE},
                                                   {POL_FALSE, POL_TRUE, POL_UNKNOWN},
                                                   {POL_FALSE, POL_UNKNOWN, POL_UNKNOWN}};
    static const enum pol_truth or_table[3][3] = {{POL_FALSE, POL_TRUE, POL_UNKNOWN},
                                                  {POL_TRUE, POL_TRUE, POL_TRUE},
                                                  {POL_UNKNOWN, POL_TRUE, POL_UNKNOWN}};
    static const enum pol_truth not_table[3] = {POL_TRUE, POL_FALSE, POL_UNKNOWN};
    if (node->kind == TEST) {
        *out_test = node->test;
        return oracle_test(node, device);
    }
    if (node->kind == NOT) {
        return not_table[oracle(node->left, device, out_test)];
    }
    uint32_t tests[2];
    enum pol_truth left = oracle(node->left, device, &tests[0]);
    enum pol_truth right = oracle(node->right, device, &tests[1]);
    enum pol_truth all = node->kind == AND ? and_table[left][right] : or_table[left][right];
    // The first that has the answer by itself; when both sides are needed, the last.
    bool needed = all == (node->kind == AND ? POL_TRUE : POL_FALSE);
    *out_test = !needed && left == all ? tests[0] : tests[1];
    return all;
}

// ---- Drawing

static struct atom draw_literal(enum oracle_kind kind)
{
    struct atom atom = {kind, 0};
    do {
        atom.index = below(kind == IS_INTEGER   ? TEST_COUNT(integers)
                           : kind == IS_BOOLEAN ? 2
                                                : TEST_COUNT(texts));
    } while (kind == IS_VERSION && !texts[atom.index].literal);
    return atom;
}

static void draw_test(struct node *node)
{
    static const char *const globs[] = {"*", "x*", "*x", "1.*", "1.10.0*", "?", "?.?", "*.*.*-*"};
    node->kind = TEST;
    node->name = below(TEST_COUNT(names));
    node->op = (enum oracle_op)below(BARE + 1);
    node->count = node->op < IN ? 1 : 0;
    bool ordered = (node->op >= LT && node->op <= GE) || node->op == RANGE || node->op == NOT_RANGE;
    enum oracle_kind kind = ordered ? (below(2) == 0 ? IS_INTEGER : IS_VERSION)
                                    : (enum oracle_kind)below(IS_BOOLEAN + 1);
    if (node->op == IN || node->op == NOT_IN) {
        node->count = 1 + below(SET_MAX);
    } else if (node->op == RANGE || node->op == NOT_RANGE) {
        node->count = 2;
    }
    node->glob = globs[below(TEST_COUNT(globs))];
    for (unsigned i = 0; i < node->count; i++) {
        node->literals[i] = draw_literal(kind);
    }
    if (node->op == RANGE || node->op == NOT_RANGE) {
        bool swapped = version_rank(node->literals[0]) > version_rank(node->literals[1]);
        struct atom first = node->literals[0];
        if (swapped) {
            node->literals[0] = node->literals[1];
            node->literals[1] = first;
        }
    }
}

static struct node *draw(unsigned depth)
{
    struct node *node = &nodes[node_count++];
    memset(node, 0, sizeof(*node));
    unsigned dice = below(10);
    if (depth == 0 || dice < 3) {
        draw_test(node);
    } else if (dice < 4) {
        node->kind = NOT;
        node->left = draw(depth - 1);
    } else {
        node->kind = dice < 7 ? AND : OR;
        node->left = draw(depth - 1);
        node->right = draw(depth - 1);
    }
    return node;
}

// ---- Printing

static void put(const char *text)
{
    static const char *const spaces[] = {"", "", "", " ", "  ", "\n", "\t"};
    size_t size = strlen(text);
    const char *space = spaces[below(TEST_COUNT(spaces))];
    assert_true(source_size + size + 2 < sizeof(source));
    memcpy(source + source_size, text, size);
    source_size += size;
    memcpy(source + source_size, space, strlen(space));
    source_size += strlen(space);
}

static void put_atom(struct atom atom)
{
    char out[64];
    switch (atom.kind) {
    case IS_TEXT:
        snprintf(out, sizeof(out), "\"%s\"", texts[atom.index].text);
        break;
    case IS_INTEGER:
        snprintf(out, sizeof(out), "%lld", (long long)integers[atom.index].integer);
        break;
    case IS_VERSION:
        snprintf(out, sizeof(out), "%s", texts[atom.index].text);
        break;
    case IS_BOOLEAN:
        snprintf(out, sizeof(out), "%s", atom.index == 1 ? "true" : "false");
        break;
    }
    put(out);
}

static void print_test(struct node *node)
{
    static const char *const signs[] = {
        "==", "!=", "<", "<=", ">", ">=", " in", " !in", " in", " !in", "~", "!~"};
    char glob[16];
    node->test = test_count++;
    if (node->op == HAS) {
        put("has(");
        put(names[node->name]);
        put(")");
        return;
    }
    put(names[node->name]);
    if (node->op == BARE) {
        return;
    }
    put(signs[node->op]);
    if (node->op == LIKE || node->op == NOT_LIKE) {
        snprintf(glob, sizeof(glob), "\"%s\"", node->glob);
        put(glob);
        return;
    }
    bool set = node->op == IN || node->op == NOT_IN;
    if (set) {
        put("[");
    } else if (node->count == 2) {
        put(" ");
    }
    for (unsigned i = 0; i < node->count; i++) {
        if (i > 0) {
            put(set ? "," : "..");
        }
        put_atom(node->literals[i]);
    }
    if (set) {
        put("]");
    }
}

// Parentheses where they are needed, and sometimes where they are not.
static void print(struct node *node, int binding)
{
    int own = node->kind == OR ? 0 : node->kind == AND ? 1 : 2;
    bool open = own < binding || below(8) == 0;
    if (open) {
        put("(");
    }
    switch (node->kind) {
    case TEST:
        print_test(node);
        break;
    case NOT:
        put("!");
        print(node->left, 2);
        break;
    default:
        print(node->left, own);
        put(node->kind == AND ? "&&" : "||");
        print(node->right, own + 1); // the language binds to the left
        break;
    }
    if (open) {
        put(")");
    }
}

// ---- Both sides

static void draw_device(struct device *device, struct pol_attr *items, struct pol_attrs *out)
{
    out->items = items;
    out->count = 0;
    for (unsigned i = 0; i < TEST_COUNT(names); i++) {
        device->has[i] = below(6) != 0;
        if (!device->has[i]) {
            continue;
        }
        unsigned dice = below(6);
        enum oracle_kind kind = dice < 3 ? IS_TEXT : dice < 5 ? IS_INTEGER : IS_BOOLEAN;
        device->value[i] = draw_literal(kind);
        struct pol_attr *item = &items[out->count++];
        item->name = (struct pol_text){names[i], (uint32_t)strlen(names[i])};
        if (kind == IS_TEXT) {
            const char *value = texts[device->value[i].index].text;
            item->value = (struct pol_value){.type = POL_TYPE_STRING,
                                             .text = {value, (uint32_t)strlen(value)}};
        } else if (kind == IS_INTEGER) {
            item->value = (struct pol_value){.type = POL_TYPE_INTEGER,
                                             .integer = integers[device->value[i].index].integer};
        } else {
            item->value = (struct pol_value){.type = POL_TYPE_BOOLEAN,
                                             .boolean = device->value[i].index == 1};
        }
    }
}

// The device has one of the anchor's values, as `==` has it.
static bool anchor_holds(const struct pol_anchor *anchor, const struct device *device)
{
    unsigned name = 0;
    while (strlen(names[name]) != anchor->attr.size ||
           memcmp(names[name], anchor->attr.data, anchor->attr.size) != 0) {
        name++;
        assert_true(name < TEST_COUNT(names));
    }
    if (!device->has[name]) {
        return false;
    }
    struct atom attr = device->value[name];
    for (uint32_t i = 0; i < anchor->value_count; i++) {
        const struct pol_value *value = &anchor->values[i];
        bool same = false;
        if (value->type == POL_TYPE_STRING) {
            same = attr.kind == IS_TEXT && strlen(texts[attr.index].text) == value->text.size &&
                   memcmp(texts[attr.index].text, value->text.data, value->text.size) == 0;
        } else if (value->type == POL_TYPE_BOOLEAN) {
            same = attr.kind == IS_BOOLEAN && (attr.index == 1) == value->boolean;
        } else {
            assert_int_equal(value->type, POL_TYPE_INTEGER);
            for (unsigned k = 0; k < TEST_COUNT(integers); k++) {
                int order = 1;
                same = same ||
                       (integers[k].integer == value->integer &&
                        oracle_compare(attr, (struct atom){IS_INTEGER, k}, &order) && order == 0);
            }
        }
        if (same) {
            return true;
        }
    }
    return false;
}

static void as_the_oracle_says(void **state)
{
    (void)state;
    uint64_t counts[3] = {0};
    uint64_t anchored = 0;
    test_seed(&prng);
    for (uint32_t round = 0; round < EXPRESSIONS; round++) {
        node_count = 0;
        source_size = 0;
        test_count = 0;
        struct node *root = draw(below(5));
        print(root, 0);
        const struct pol_expr *expr;
        struct pol_expr_error error = {0};
        size_t bytes;
        struct pol_text given = {source, (uint32_t)source_size};
        if (!pol_expr_compile(given, (struct pol_expr_space){memory, sizeof(memory)}, &expr, &bytes,
                              &error)) {
            fail_msg("%.*s: %u: %s", (int)source_size, source, error.offset, error.message);
        }
        struct pol_anchor anchor;
        bool has_anchor = pol_expr_anchor(expr, &anchor);
        anchored += has_anchor;
        for (unsigned k = 0; k < DEVICES_EACH; k++) {
            struct device device = {0};
            struct pol_attr items[TEST_COUNT(names)];
            struct pol_attrs attrs;
            uint32_t test = 0;
            uint32_t wanted_test = 0;
            draw_device(&device, items, &attrs);
            enum pol_truth wanted = oracle(root, &device, &wanted_test);
            enum pol_truth truth = pol_expr_eval(expr, &attrs, &test);
            counts[wanted]++;
            if (truth != wanted || test != wanted_test) {
                fail_msg("%.*s: %d by %u, not %d by %u", (int)source_size, source, truth, test,
                         wanted, wanted_test);
            }
            if (has_anchor && wanted == POL_TRUE && !anchor_holds(&anchor, &device)) {
                fail_msg("%.*s: true without its anchor %.*s", (int)source_size, source,
                         (int)anchor.attr.size, anchor.attr.data);
            }
        }
    }
    printf("false %llu true %llu unknown %llu, %llu expressions with an anchor\n",
           (unsigned long long)counts[0], (unsigned long long)counts[1],
           (unsigned long long)counts[2], (unsigned long long)anchored);
    for (int i = 0; i < 3; i++) {
        assert_true(counts[i] > EXPRESSIONS * DEVICES_EACH / 10);
    }
    assert_true(anchored > EXPRESSIONS / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_the_oracle_says)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
