// Targets as text: one spelling for every way to write them down, and the text means what the
// target does.
#include "test_kit.h"

#include "policy/expr.h"
#include "policy/target_text.h"

static _Alignas(8) uint8_t program[16 * 1024];

static struct pol_text text(const char *data)
{
    return (struct pol_text){data, (uint32_t)strlen(data)};
}

static const struct pol_expr *compile(const char *data)
{
    const struct pol_expr *expr = NULL;
    struct pol_expr_error error = {0};
    size_t bytes = 0;
    if (!pol_expr_compile(text(data), (struct pol_expr_space){program, sizeof(program)}, &expr,
                          &bytes, &error)) {
        fail_msg("%s: column %u: %s", data, error.column, error.message);
    }
    return expr;
}

static void expect(const struct pol_target *target, const char *wanted)
{
    char out[512];
    size_t size = 0;
    assert_true(pol_target_text(target, out, sizeof(out), &size));
    assert_string_equal(out, wanted);
    assert_int_equal(size, strlen(wanted));
    assert_false(pol_target_text(target, out, size, &size)); // no room for the NUL
}

static void spaces_do_not_matter(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"app_version>=9.2&&os==\"ios\"", "app_version >= 9.2 && os == \"ios\""},
        {"  app_version  >=\n9.2 ", "app_version >= 9.2"},
        {"!(os in[\"a\",\"b\"])", "! ( os in [ \"a\" , \"b\" ] )"},
        {"age in 18..30 || !has(beta)", "age in 18 .. 30 || ! has ( beta )"},
        {"name == \"a  b\"", "name == \"a  b\""}, // those of a text do
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct pol_target target = {.expr = compile(rows[i][0])};
        expect(&target, rows[i][1]);
        target.expr = compile(rows[i][1]);
        expect(&target, rows[i][1]); // its own canonical text
    }
    const struct pol_target everybody = {0};
    char out[4];
    size_t size = 9;
    assert_true(pol_target_text(&everybody, out, sizeof(out), &size));
    assert_int_equal(size, 0);
}

static void conditions_become_tests(void **state)
{
    (void)state;
    struct pol_value operands[4] = {
        {.type = POL_TYPE_STRING, .text = text("a \"b\"\\")},
        {.type = POL_TYPE_STRING, .text = text("c")},
        {.type = POL_TYPE_INTEGER, .integer = -4},
        {.type = POL_TYPE_VERSION},
    };
    assert_true(pol_semver_parse("9.2-beta.1", 10, &operands[3].version));
    const struct pol_cond conds[] = {
        {text("model"), POL_OP_NOT_IN, operands, 2},
        {text("ram_mb"), POL_OP_GT, &operands[2], 1},
        {text("app_version"), POL_OP_LE, &operands[3], 1},
        {text("beta"), POL_OP_PRESENT, NULL, 0},
        {text("old"), POL_OP_ABSENT, NULL, 0},
    };
    struct pol_target target = {.conds = conds, .cond_count = 5};
    const char *wanted = "model ! in [ \"a \\\"b\\\"\\\\\" , \"c\" ] && ram_mb > -4 && "
                         "app_version <= 9.2.0-beta.1 && has ( beta ) && ! has ( old )";
    expect(&target, wanted);
    const struct pol_target again = {.expr = compile(wanted)};
    expect(&again, wanted);
    // What the text means is what the conditions mean.
    const struct pol_attr items[] = {
        {text("model"), {.type = POL_TYPE_STRING, .text = text("d")}},
        {text("ram_mb"), {.type = POL_TYPE_INTEGER, .integer = 5}},
        {text("app_version"), {.type = POL_TYPE_STRING, .text = text("9.1")}},
        {text("beta"), {.type = POL_TYPE_BOOLEAN, .boolean = true}},
    };
    for (uint32_t count = 0; count <= 4; count++) {
        const struct pol_attrs attrs = {items, count};
        assert_int_equal(pol_target_match(&target, &attrs).matched,
                         pol_target_match(&again, &attrs).matched);
        assert_int_equal(pol_target_match(&target, &attrs).matched, count == 4);
    }
    target.expr = compile("a == 1 || b");
    target.cond_count = 0;
    expect(&target, "a == 1 || b");
    target.conds = &conds[3];
    target.cond_count = 1;
    expect(&target, "has ( beta ) && ( a == 1 || b )");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spaces_do_not_matter),
        cmocka_unit_test(conditions_become_tests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
