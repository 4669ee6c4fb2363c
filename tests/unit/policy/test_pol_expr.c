// The targeting language: texts that compile and what they mean, texts that do not and where they
// are wrong, limits, anchors.
#include "test_kit.h"

#include "policy/expr.h"

static struct pol_text text(const char *data)
{
    return (struct pol_text){data, (uint32_t)strlen(data)};
}

// os "android", app_version "9.10.1-rc.2", ram_mb 4096, user.age 25, beta true, model "SM-G991B",
// junk "x.y", zero 0, name "a\"b\\c\n\tü"
static const struct pol_attr items[] = {
    {{"app_version", 11}, {.type = POL_TYPE_STRING, .text = {"9.10.1-rc.2", 11}}},
    {{"beta", 4}, {.type = POL_TYPE_BOOLEAN, .boolean = true}},
    {{"junk", 4}, {.type = POL_TYPE_STRING, .text = {"x.y", 3}}},
    {{"model", 5}, {.type = POL_TYPE_STRING, .text = {"SM-G991B", 8}}},
    {{"name", 4}, {.type = POL_TYPE_STRING, .text = {"a\"b\\c\n\t\xc3\xbc", 9}}},
    {{"os", 2}, {.type = POL_TYPE_STRING, .text = {"android", 7}}},
    {{"os_version", 10}, {.type = POL_TYPE_STRING, .text = {"14", 2}}},
    {{"ram_mb", 6}, {.type = POL_TYPE_INTEGER, .integer = 4096}},
    {{"user.age", 8}, {.type = POL_TYPE_INTEGER, .integer = 25}},
    {{"zero", 4}, {.type = POL_TYPE_INTEGER, .integer = 0}},
};
static const struct pol_attrs device = {items, TEST_COUNT(items)};

static uint64_t memory[POL_EXPR_BYTES_MAX / 8];

// Compiles from an exact copy that is gone before the program is used.
static const struct pol_expr *compile(struct pol_text source, struct pol_expr_error *error)
{
    uint8_t *copy = test_exact(source.data, source.size);
    const struct pol_expr *expr = NULL;
    const struct pol_expr *none = NULL;
    struct pol_expr_error unused;
    size_t bytes = 0;
    size_t measured = 0;
    struct pol_text given = {(const char *)copy, source.size};
    bool ok = pol_expr_compile(given, (struct pol_expr_space){memory, sizeof(memory)}, &expr,
                               &bytes, error);
    assert_int_equal(
        pol_expr_compile(given, (struct pol_expr_space){NULL, 0}, &none, &measured, &unused), ok);
    memset(copy, 0x5a, source.size);
    free(copy);
    assert_int_equal(ok, expr != NULL);
    if (ok) {
        assert_int_equal(bytes, measured);
        assert_true(bytes <= POL_EXPR_BYTES_MAX);
    }
    return expr;
}

static enum pol_truth truth_of(const char *source)
{
    struct pol_expr_error error = {0};
    const struct pol_expr *expr = compile(text(source), &error);
    if (expr == NULL) {
        fail_msg("%s: %u:%u: %s", source, error.line, error.column, error.message);
    }
    return pol_expr_eval(expr, &device, NULL);
}

static const struct {
    const char *source;
    enum pol_truth truth;
} meaning_rows[] = {
    {"os == \"android\"", POL_TRUE},
    {"os==\"ios\"", POL_FALSE},
    {"os != \"ios\"", POL_TRUE},
    {"beta", POL_TRUE},
    {"!beta", POL_FALSE},
    {"beta == false", POL_FALSE},
    {"beta in [true, false]", POL_TRUE},
    {"os", POL_UNKNOWN},
    {"absent", POL_UNKNOWN},
    {"!absent", POL_UNKNOWN},
    {"absent != 1", POL_UNKNOWN},
    {"absent !in [1]", POL_UNKNOWN},
    {"has(absent)", POL_FALSE},
    {"!has(absent)", POL_TRUE},
    {"has ( os )", POL_TRUE},
    {"has == 1", POL_UNKNOWN},
    {"app_version >= 9.2", POL_TRUE},
    {"app_version >= 9.10.1", POL_FALSE},
    {"app_version >= 9.10.1-rc.1", POL_TRUE},
    {"app_version < 9.10.1-rc.10", POL_TRUE},
    {"app_version == 9.10.1-rc.2+build.7", POL_TRUE},
    {"app_version > 9", POL_TRUE},
    {"app_version < 10", POL_TRUE},
    {"app_version > -1", POL_TRUE},
    {"app_version < 5000000000", POL_TRUE},
    {"app_version == \"9.10.1-rc.2\"", POL_TRUE},
    {"app_version in 9.2..9.11", POL_TRUE},
    {"app_version in 9..10", POL_TRUE},
    {"app_version !in 9.2..9.10", POL_TRUE},
    {"app_version in [9.10.1-rc.2, 8.0]", POL_TRUE},
    {"app_version in 9.10.1-rc.2..9.10.1-rc.2", POL_TRUE},
    {"os_version == 14", POL_TRUE},
    {"os_version in [13, 14]", POL_TRUE},
    {"os_version == 14.0", POL_TRUE},
    {"junk >= 1.0", POL_UNKNOWN},
    {"junk == 1", POL_UNKNOWN},
    {"ram_mb >= 4096", POL_TRUE},
    {"ram_mb >= 4.0", POL_UNKNOWN},
    {"ram_mb == \"4096\"", POL_UNKNOWN},
    {"user.age in 18..30", POL_TRUE},
    {"user.age !in 18..30", POL_FALSE},
    {"user.age in 25..25", POL_TRUE},
    {"user.age in -5..-1", POL_FALSE},
    {"user.age in [1,2,3]", POL_FALSE},
    {"zero > -9223372036854775808", POL_TRUE},
    {"zero < 9223372036854775807", POL_TRUE},
    {"model ~ \"SM-*\"", POL_TRUE},
    {"!(model ~ \"SM-*\")", POL_FALSE},
    {"model !~ \"SM-*\"", POL_FALSE},
    {"model ~ \"sm-*\"", POL_FALSE},
    {"model ~ \"SM-[A-H]???B\"", POL_TRUE},
    {"model ~ \"*[!0-9]\"", POL_TRUE},
    {"ram_mb ~ \"4*\"", POL_UNKNOWN},
    {"name == \"a\\\"b\\\\c\\n\\t\xc3\xbc\"", POL_TRUE},
    {"name ~ \"a?b*?\"", POL_TRUE},
    {"absent || beta", POL_TRUE},
    {"absent && beta", POL_UNKNOWN},
    {"absent && !beta", POL_FALSE},
    {"absent || !beta", POL_UNKNOWN},
    {"!(absent && beta)", POL_UNKNOWN},
    {"!(absent && zero == 1)", POL_TRUE},
    {"zero == 1 && beta || beta", POL_TRUE},
    {"beta || beta && zero == 1", POL_TRUE},
    {"(beta || beta) && zero == 1", POL_FALSE},
    {"!!beta", POL_TRUE},
    {"!!!beta", POL_FALSE},
    {"!(!(beta))", POL_TRUE},
    {"\t(\n( beta ) )\r\n", POL_TRUE},
    {"app_version >= 9.2 && os == \"android\" && ram_mb >= 4096 && user.age in 18..30 && "
     "!(model ~ \"SM-*\")",
     POL_FALSE},
    {"app_version >= 9.2 && os == \"android\" && ram_mb >= 4096 && user.age in 18..30 && "
     "!(model ~ \"Pixel*\")",
     POL_TRUE},
};

static void meanings(void **state)
{
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(meaning_rows); i++) {
        enum pol_truth truth = truth_of(meaning_rows[i].source);
        if (truth != meaning_rows[i].truth) {
            fail_msg("%s: %d, not %d", meaning_rows[i].source, truth, meaning_rows[i].truth);
        }
    }
}

static const struct {
    const char *source;
    uint32_t offset, line, column;
    const char *message;
} error_rows[] = {
    {"", 0, 1, 1, "expected an attribute, '!' or '('"},
    {"  \n ", 4, 2, 2, "expected an attribute, '!' or '('"},
    {"os ==", 5, 1, 6, "expected a literal after '=='"},
    {"app_version >= && beta", 15, 1, 16, "expected a literal after '>='"},
    {"os = \"a\"", 3, 1, 4, "'==' is meant: there is no '='"},
    {"a & b", 2, 1, 3, "'&&' is meant: there is no '&'"},
    {"a | b", 2, 1, 3, "'||' is meant: there is no '|'"},
    {"os == 'a'", 6, 1, 7, "a text is written in double quotes"},
    {"os == \"a", 6, 1, 7, "a text is never closed: '\"' is missing"},
    {"os == \"a\nb\"", 6, 1, 7, "a text is never closed: '\"' is missing"},
    {"os == \"a\x01\"", 8, 1, 9, "a control character in a text"},
    {"os == \"\\x\"", 7, 1, 8, "unknown escape: \\\" \\\\ \\n \\t are known"},
    {"os == \"\xc3\xbc\" &&\n \xc3\xbc", 15, 2, 2, "a character that means nothing here"},
    {"name == \"\xc3\xbc\" + 1", 13, 1, 13, "a character that means nothing here"},
    {"os < \"a\"", 5, 1, 6, "only integers and versions have an order"},
    {"beta >= true", 8, 1, 9, "only integers and versions have an order"},
    {"os in [\"a\", 1]", 12, 1, 13, "the literals of a set have one type"},
    {"os in [1, 1.0]", 10, 1, 11, "the literals of a set have one type"},
    {"os in []", 7, 1, 8, "expected a literal: a set is not empty"},
    {"os in [1,]", 9, 1, 10, "expected a literal after ','"},
    {"os in [1 2]", 9, 1, 10, "expected ',' or ']'"},
    {"os in \"a\"..\"b\"", 6, 1, 7, "only integers and versions have an order"},
    {"os in 5..3", 6, 1, 7, "the ends of a range are in the wrong order"},
    {"os in 1.10..1.9", 6, 1, 7, "the ends of a range are in the wrong order"},
    {"os in 1..1.9", 9, 1, 10, "the ends of a range have one type"},
    {"os in 5", 7, 1, 8, "expected '..'"},
    {"os in beta", 6, 1, 7, "expected a set or a range after 'in'"},
    {"os in 5..", 9, 1, 10, "expected a literal after '..'"},
    {"os ! == 1", 5, 1, 6, "expected 'in' after '!'"},
    {"os ~ 5", 5, 1, 6, "expected a text after '~'"},
    {"os ~ \"a[b\"", 7, 1, 8, "a class is never closed: ']' is missing"},
    {"os ~ \"[z-a]\"", 7, 1, 8, "the ends of a class are in the wrong order"},
    {"(a && b", 0, 1, 1, "'(' is never closed"},
    {"a && (b || (c)", 5, 1, 6, "'(' is never closed"},
    {"a)", 1, 1, 2, "')' without '('"},
    {"a b", 2, 1, 3, "expected '&&', '||' or the end"},
    {"a == 1 == 2", 7, 1, 8, "expected '&&', '||' or the end"},
    {"a &&", 4, 1, 5, "expected an attribute, '!' or '('"},
    {"true", 0, 1, 1, "expected an attribute, '!' or '('"},
    {"5 == a", 0, 1, 1, "expected an attribute, '!' or '('"},
    {"in in [1]", 0, 1, 1, "expected an attribute, '!' or '('"},
    {"()", 1, 1, 2, "expected an attribute, '!' or '('"},
    {"has()", 4, 1, 5, "expected an attribute after 'has('"},
    {"has(a", 5, 1, 6, "expected ')' after the attribute"},
    {"a. == 1", 1, 1, 2, "a name does not end with '.' or '-'"},
    {"abcdefghijklmnopqrstuvwxyz01234567 == 1", 0, 1, 1, "a name has at most 32 characters"},
    {"a == 12ab", 5, 1, 6, "a malformed number"},
    {"a == 9-beta", 5, 1, 6, "a malformed number"},
    {"a == 1.2.3.4.5", 5, 1, 6, "a malformed version"},
    {"a == 1.2x", 5, 1, 6, "a malformed version"},
    {"a == 1.2-", 5, 1, 6, "a malformed version"},
    {"a == 1.99999999999999999999", 5, 1, 6, "a malformed version"},
    {"a == -1.2", 5, 1, 6, "a version has no sign"},
    {"a == -", 5, 1, 6, "a number is expected after '-'"},
    {"a == 9223372036854775808", 5, 1, 6, "an integer beyond 64 bits"},
    {"a ==\n\n  \"x\" #", 12, 3, 7, "a character that means nothing here"},
};

static void errors_say_where(void **state)
{
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(error_rows); i++) {
        struct pol_expr_error error = {0};
        if (compile(text(error_rows[i].source), &error) != NULL) {
            fail_msg("%s: accepted", error_rows[i].source);
        }
        bool same = error.offset == error_rows[i].offset && error.line == error_rows[i].line &&
                    error.column == error_rows[i].column &&
                    strcmp(error.message, error_rows[i].message) == 0;
        if (!same) {
            fail_msg("%s: at %u, %u:%u: %s; not at %u, %u:%u: %s", error_rows[i].source,
                     error.offset, error.line, error.column, error.message, error_rows[i].offset,
                     error_rows[i].line, error_rows[i].column, error_rows[i].message);
        }
    }
    struct pol_expr_error error;
    assert_null(compile((struct pol_text){"a == \0", 6}, &error));
    assert_int_equal(error.offset, 5);
}

// `unit` count times, then `end`.
static char *repeated(const char *unit, size_t count, const char *end)
{
    size_t size = strlen(unit);
    char *out = malloc(size * count + strlen(end) + 1);
    assert_non_null(out);
    for (size_t i = 0; i < count; i++) {
        memcpy(out + i * size, unit, size);
    }
    memcpy(out + size * count, end, strlen(end) + 1);
    return out;
}

static void expect(char *source, const char *message)
{
    struct pol_expr_error error = {0};
    const struct pol_expr *expr = compile(text(source), &error);
    if ((expr == NULL) != (message != NULL) ||
        (message != NULL && strcmp(error.message, message) != 0)) {
        fail_msg("%.60s...: %s", source, expr != NULL ? "accepted" : error.message);
    }
    if (expr != NULL) {
        (void)pol_expr_eval(expr, &device, NULL);
    }
    free(source);
}

static void limits_are_kept(void **state)
{
    (void)state;
    expect(repeated("!", 32, "beta"), NULL);
    expect(repeated("!", 33, "beta"), "more than 32 levels of '(' and '!'");
    expect(repeated("(beta && ", 33, "x"), "more than 32 levels of '(' and '!'");
    expect(repeated("a||", 255, "a"), NULL);
    expect(repeated("a||", 256, "a"), "more than 256 tests");
    char *set = repeated("1,", 1023, "1]");
    char *source = malloc(strlen(set) + 16);
    assert_non_null(source);
    snprintf(source, strlen(set) + 16, "a in [%s", set);
    expect(source, NULL);
    source = malloc(strlen(set) + 16);
    assert_non_null(source);
    snprintf(source, strlen(set) + 16, "a in [2,%s", set);
    expect(source, "more than 1024 literals");
    free(set);
    expect(repeated(" ", POL_EXPR_TEXT_MAX - 1, "a"), NULL);
    expect(repeated(" ", POL_EXPR_TEXT_MAX, "a"), "an expression has at most 4096 bytes");
}

// Nested as deeply as may be, with both operators waiting at each level.
static void the_deepest_text(void **state)
{
    (void)state;
    char source[POL_EXPR_TEXT_MAX];
    size_t size = 0;
    for (int i = 0; i < 32; i++) {
        size += (size_t)snprintf(source + size, sizeof(source) - size, "absent||beta&&(");
    }
    size += (size_t)snprintf(source + size, sizeof(source) - size, "absent||beta&&beta");
    for (int i = 0; i < 32; i++) {
        source[size++] = ')';
    }
    source[size] = '\0';
    assert_int_equal(truth_of(source), POL_TRUE);
}

// The most tests, literals and operators that fit a text fit the memory promised.
static void the_largest_program(void **state)
{
    (void)state;
    char source[POL_EXPR_TEXT_MAX + 1];
    size_t size = 0;
    for (int i = 0; i < 255; i++) {
        size += (size_t)snprintf(source + size, sizeof(source) - size, "a||");
    }
    size += (size_t)snprintf(source + size, sizeof(source) - size, "a in[\"\\\"\"");
    for (int i = 0; i < 600; i++) {
        size += (size_t)snprintf(source + size, sizeof(source) - size, ",\"\\n\"");
    }
    source[size++] = ']';
    struct pol_expr_error error = {0};
    assert_non_null(compile((struct pol_text){source, (uint32_t)size}, &error));

    size = 0;
    for (int i = 0; i < 255; i++) {
        size += (size_t)snprintf(source + size, sizeof(source) - size, "!(!(a))||");
    }
    size += (size_t)snprintf(source + size, sizeof(source) - size, "a in[1");
    for (int i = 0; i < 768; i++) {
        size += (size_t)snprintf(source + size, sizeof(source) - size, ",1");
    }
    source[size++] = ']';
    assert_true(size <= POL_EXPR_TEXT_MAX);
    const struct pol_expr *expr = compile((struct pol_text){source, (uint32_t)size}, &error);
    assert_non_null(expr);

    size_t bytes;
    uint8_t *small = malloc(4096);
    assert_non_null(small);
    for (size_t capacity = 1; capacity <= 4096; capacity += 97) {
        assert_false(pol_expr_compile((struct pol_text){source, (uint32_t)size},
                                      (struct pol_expr_space){small, capacity}, &expr, &bytes,
                                      &error));
        assert_string_equal(error.message, "the program does not fit the memory given");
    }
    free(small);
}

static void the_test_that_decided(void **state)
{
    (void)state;
    static const struct {
        const char *source;
        enum pol_truth truth;
        const char *test;
    } rows[] = {
        {"beta && ram_mb > 5000 && zero == 1", POL_FALSE, "ram_mb > 5000"},
        {"absent && ram_mb >  5000 && beta", POL_FALSE, "ram_mb >  5000"},
        {"absent == 1 && beta && other", POL_UNKNOWN, "absent == 1"},
        {"zero == 1 || ( model ~ \"SM-*\" ) || beta", POL_TRUE, "model ~ \"SM-*\""},
        {"zero == 1 || zero in [ 2, 3 ] ", POL_FALSE, "zero in [ 2, 3 ]"},
        {"beta && has( os ) ", POL_TRUE, "has( os )"},
        {"!(beta && zero == 1)", POL_TRUE, "zero == 1"},
    };
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        struct pol_expr_error error = {0};
        uint32_t test = 99;
        const struct pol_expr *expr = compile(text(rows[i].source), &error);
        assert_non_null(expr);
        assert_int_equal(pol_expr_eval(expr, &device, &test), rows[i].truth);
        struct pol_text said = pol_expr_test_text(expr, test);
        assert_int_equal(said.size, strlen(rows[i].test));
        assert_memory_equal(said.data, rows[i].test, said.size);
        assert_int_equal(pol_expr_test_text(expr, 300).size, 0);
        assert_int_equal(pol_expr_text(expr).size, strlen(rows[i].source));
        assert_memory_equal(pol_expr_text(expr).data, rows[i].source, strlen(rows[i].source));
    }
}

static void anchors(void **state)
{
    (void)state;
    static const struct {
        const char *source;
        const char *attr; // NULL: none
        uint32_t count;
    } rows[] = {
        {"os == \"android\" && ram_mb >= 4096", "os", 1},
        {"ram_mb >= 4096 && os in [\"a\", \"b\"]", "os", 2},
        {"os in [\"a\", \"b\"] && model == \"x\"", "model", 1},
        {"beta && model == \"x\"", "model", 1},
        {"beta", "beta", 1},
        {"!beta", NULL, 0},
        {"os == \"a\" || os == \"b\" || os in [\"c\", \"d\"]", "os", 4},
        {"os == \"a\" || model == \"b\"", NULL, 0},
        {"os == \"a\" || ram_mb > 5", NULL, 0},
        {"os != \"a\"", NULL, 0},
        {"!(os != \"a\")", "os", 1},
        {"!(os !in [\"a\", \"b\"] || ram_mb > 4)", "os", 2},
        {"!(os != \"a\" && os != \"b\")", "os", 2},
        {"app_version == 9.2", NULL, 0},
        {"app_version == 9", "app_version", 1},
        {"user.age in 18..20", NULL, 0},
        {"has(os)", NULL, 0},
        {"(os == \"a\" || model == \"b\") && channel == \"c\"", "channel", 1},
    };
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        struct pol_expr_error error = {0};
        const struct pol_expr *expr = compile(text(rows[i].source), &error);
        struct pol_anchor anchor = {0};
        assert_non_null(expr);
        bool there = pol_expr_anchor(expr, &anchor);
        if (there != (rows[i].attr != NULL) || anchor.value_count != rows[i].count) {
            fail_msg("%s: %d, %u values", rows[i].source, there, anchor.value_count);
        }
        if (there) {
            assert_int_equal(anchor.attr.size, strlen(rows[i].attr));
            assert_memory_equal(anchor.attr.data, rows[i].attr, anchor.attr.size);
        }
    }
}

static void targets_take_expressions(void **state)
{
    (void)state;
    struct pol_expr_error error = {0};
    static const struct pol_value android = {.type = POL_TYPE_STRING, .text = {"android", 7}};
    struct pol_cond cond = {
        .attr = {"os", 2}, .op = POL_OP_EQ, .operands = &android, .operand_count = 1};
    struct pol_target target = {.expr = compile(text("beta && ram_mb >= 4096"), &error)};
    struct pol_match match = pol_target_match(&target, &device);
    assert_true(match.matched);
    assert_int_equal(match.reason, POL_REASON_MATCHED);
    target.conds = &cond;
    target.cond_count = 1;
    assert_true(pol_target_match(&target, &device).matched);
    cond.op = POL_OP_NE;
    match = pol_target_match(&target, &device);
    assert_int_equal(match.reason, POL_REASON_CONDITION_FALSE);

    cond.op = POL_OP_EQ;
    target.expr = compile(text("beta && ram_mb > 4096"), &error);
    match = pol_target_match(&target, &device);
    assert_false(match.matched);
    assert_int_equal(match.reason, POL_REASON_EXPR_FALSE);
    assert_int_equal(match.cond_index, 1);
    target.expr = compile(text("absent && ram_mb >= 4096"), &error);
    match = pol_target_match(&target, &device);
    assert_int_equal(match.reason, POL_REASON_EXPR_UNKNOWN);
    assert_int_equal(match.cond_index, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(meanings),
        cmocka_unit_test(errors_say_where),
        cmocka_unit_test(limits_are_kept),
        cmocka_unit_test(the_deepest_text),
        cmocka_unit_test(the_largest_program),
        cmocka_unit_test(the_test_that_decided),
        cmocka_unit_test(anchors),
        cmocka_unit_test(targets_take_expressions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
