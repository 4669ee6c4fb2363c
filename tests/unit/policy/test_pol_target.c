// Targets: every operator on every type, missing attributes, mismatches, malformed conditions.
#include "test_kit.h"

#include "policy/target.h"

static struct pol_text text(const char *data)
{
    return (struct pol_text){data, (uint32_t)strlen(data)};
}

static struct pol_value string_value(const char *data)
{
    return (struct pol_value){.type = POL_TYPE_STRING, .text = text(data)};
}

static struct pol_value integer_value(int64_t integer)
{
    return (struct pol_value){.type = POL_TYPE_INTEGER, .integer = integer};
}

static struct pol_value boolean_value(bool boolean)
{
    return (struct pol_value){.type = POL_TYPE_BOOLEAN, .boolean = boolean};
}

static struct pol_value version_value(const char *data)
{
    struct pol_value value = {.type = POL_TYPE_VERSION};
    assert_true(pol_semver_parse(data, (uint32_t)strlen(data), &value.version));
    return value;
}

// os "ios", os_version "9.10", ram_mb 2048, beta true, junk "x.y", empty ""
static struct pol_attr device_attrs[6];
static const struct pol_attrs device = {device_attrs, 6};

static int make_device(void **state)
{
    (void)state;
    device_attrs[0] = (struct pol_attr){text("os"), string_value("ios")};
    device_attrs[1] = (struct pol_attr){text("os_version"), string_value("9.10")};
    device_attrs[2] = (struct pol_attr){text("ram_mb"), integer_value(2048)};
    device_attrs[3] = (struct pol_attr){text("beta"), boolean_value(true)};
    device_attrs[4] = (struct pol_attr){text("junk"), string_value("x.y")};
    device_attrs[5] = (struct pol_attr){text("empty"), string_value("")};
    return 0;
}

static enum pol_reason ask(const char *attr, enum pol_op op, const struct pol_value *operands,
                           uint32_t count)
{
    struct pol_cond cond = {
        .attr = text(attr), .op = op, .operands = operands, .operand_count = count};
    struct pol_target target = {.conds = &cond, .cond_count = 1};
    struct pol_match match = pol_target_match(&target, &device);
    assert_int_equal(match.matched, match.reason == POL_REASON_MATCHED);
    assert_int_equal(match.cond_index, 0);
    return match.reason;
}

struct row {
    const char *attr;
    struct pol_value operand;
    // Reasons of EQ NE LT LE GT GE, as letters: m matched, f false, t type, b bad operator, a
    // absent.
    const char *answers;
};

static enum pol_reason reason_of(char letter)
{
    switch (letter) {
    case 'm':
        return POL_REASON_MATCHED;
    case 'f':
        return POL_REASON_CONDITION_FALSE;
    case 't':
        return POL_REASON_TYPE_MISMATCH;
    case 'a':
        return POL_REASON_ATTRIBUTE_MISSING;
    default:
        return POL_REASON_BAD_OPERATOR;
    }
}

static void comparisons(void **state)
{
    (void)state;
    const struct row rows[] = {
        {"os", string_value("ios"), "mfbbbb"},
        {"os", string_value("iot"), "fmbbbb"},
        {"os", string_value("io"), "fmbbbb"},
        {"empty", string_value(""), "mfbbbb"},
        {"ram_mb", integer_value(2048), "mffmfm"},
        {"ram_mb", integer_value(2049), "fmmmff"},
        {"ram_mb", integer_value(-5), "fmffmm"},
        {"ram_mb", integer_value(INT64_MIN), "fmffmm"},
        {"ram_mb", integer_value(INT64_MAX), "fmmmff"},
        {"os_version", version_value("9.10.0"), "mffmfm"},
        {"os_version", version_value("9.9"), "fmffmm"}, // as text it would be the smaller
        {"os_version", version_value("10"), "fmmmff"},
        {"beta", boolean_value(true), "mfbbbb"},
        {"beta", boolean_value(false), "fmbbbb"},
        // one type against another
        {"ram_mb", string_value("2048"), "ttbbbb"},
        {"ram_mb", version_value("2048"), "tttttt"},
        {"ram_mb", boolean_value(true), "ttbbbb"},
        {"os", integer_value(1), "tttttt"},
        {"os", boolean_value(true), "ttbbbb"},
        {"junk", version_value("1"), "tttttt"}, // a string, but no version
        {"empty", version_value("1"), "tttttt"},
        {"beta", integer_value(1), "tttttt"},
        // absent attributes fail everything, inequality too
        {"region", string_value("eu"), "aabbbb"},
        {"region", integer_value(1), "aaaaaa"},
        {"o", string_value("ios"), "aabbbb"},
        {"os_", string_value("ios"), "aabbbb"},
    };
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        for (unsigned op = POL_OP_EQ; op <= POL_OP_GE; op++) {
            enum pol_reason got = ask(rows[i].attr, (enum pol_op)op, &rows[i].operand, 1);
            enum pol_reason wanted = reason_of(rows[i].answers[op]);
            if (got != wanted) {
                fail_msg("row %zu operator %u: %s, wanted %s", i, op, pol_reason_name(got),
                         pol_reason_name(wanted));
            }
        }
    }
}

static void sets(void **state)
{
    (void)state;
    struct pol_value names[] = {string_value("android"), string_value("ios")};
    struct pol_value others[] = {string_value("android"), string_value("linux")};
    struct pol_value versions[] = {version_value("9.9"), version_value("9.10.0")};
    struct pol_value mixed[] = {string_value("ios"), integer_value(1)};
    assert_int_equal(ask("os", POL_OP_IN, names, 2), POL_REASON_MATCHED);
    assert_int_equal(ask("os", POL_OP_NOT_IN, names, 2), POL_REASON_CONDITION_FALSE);
    assert_int_equal(ask("os", POL_OP_IN, others, 2), POL_REASON_CONDITION_FALSE);
    assert_int_equal(ask("os", POL_OP_NOT_IN, others, 2), POL_REASON_MATCHED);
    assert_int_equal(ask("os_version", POL_OP_IN, versions, 2), POL_REASON_MATCHED);
    assert_int_equal(ask("os_version", POL_OP_NOT_IN, versions, 1), POL_REASON_MATCHED);
    assert_int_equal(ask("junk", POL_OP_NOT_IN, versions, 2), POL_REASON_TYPE_MISMATCH);
    assert_int_equal(ask("ram_mb", POL_OP_NOT_IN, names, 2), POL_REASON_TYPE_MISMATCH);
    assert_int_equal(ask("os", POL_OP_IN, mixed, 2), POL_REASON_TYPE_MISMATCH);
    assert_int_equal(ask("region", POL_OP_IN, names, 2), POL_REASON_ATTRIBUTE_MISSING);
    assert_int_equal(ask("region", POL_OP_NOT_IN, names, 2), POL_REASON_ATTRIBUTE_MISSING);
    assert_int_equal(ask("os", POL_OP_IN, names, 0), POL_REASON_NO_OPERAND);

    static struct pol_value many[POL_TARGET_OPERANDS_MAX + 1];
    for (size_t i = 0; i < TEST_COUNT(many); i++) {
        many[i] = integer_value((int64_t)i);
    }
    assert_int_equal(ask("ram_mb", POL_OP_NOT_IN, many, POL_TARGET_OPERANDS_MAX),
                     POL_REASON_MATCHED);
    assert_int_equal(ask("ram_mb", POL_OP_NOT_IN, many, POL_TARGET_OPERANDS_MAX + 1),
                     POL_REASON_TOO_MANY_CONDITIONS);
}

static void presence(void **state)
{
    (void)state;
    assert_int_equal(ask("os", POL_OP_PRESENT, NULL, 0), POL_REASON_MATCHED);
    assert_int_equal(ask("os", POL_OP_ABSENT, NULL, 0), POL_REASON_CONDITION_FALSE);
    assert_int_equal(ask("region", POL_OP_PRESENT, NULL, 0), POL_REASON_ATTRIBUTE_MISSING);
    assert_int_equal(ask("region", POL_OP_ABSENT, NULL, 0), POL_REASON_MATCHED);
    struct pol_value operand = integer_value(1);
    assert_int_equal(ask("os", POL_OP_PRESENT, &operand, 1), POL_REASON_BAD_OPERATOR);
}

static void conjunction_names_the_first_failure(void **state)
{
    (void)state;
    struct pol_value ios = string_value("ios");
    struct pol_value ram = integer_value(4096);
    struct pol_cond conds[POL_TARGET_CONDS_MAX + 1];
    for (size_t i = 0; i < TEST_COUNT(conds); i++) {
        conds[i] = (struct pol_cond){text("os"), POL_OP_EQ, &ios, 1};
    }
    struct pol_target target = {.conds = conds, .cond_count = POL_TARGET_CONDS_MAX};
    struct pol_match match = pol_target_match(&target, &device);
    assert_true(match.matched);
    uint32_t index = 9;
    assert_int_equal(pol_target_check(&target, &index), POL_REASON_MATCHED);
    conds[7] = (struct pol_cond){text("ram_mb"), POL_OP_GE, &ram, 1};
    conds[9] = (struct pol_cond){text("region"), POL_OP_EQ, &ios, 1};
    match = pol_target_match(&target, &device);
    assert_false(match.matched);
    assert_int_equal(match.reason, POL_REASON_CONDITION_FALSE);
    assert_int_equal(match.cond_index, 7);
    target.cond_count = 0;
    match = pol_target_match(&target, &device);
    assert_true(match.matched);
    assert_int_equal(match.reason, POL_REASON_NO_CONDITIONS);
    target.cond_count = POL_TARGET_CONDS_MAX + 1;
    match = pol_target_match(&target, &device);
    assert_false(match.matched);
    assert_int_equal(match.reason, POL_REASON_TOO_MANY_CONDITIONS);
    assert_int_equal(pol_target_check(&target, &index), POL_REASON_TOO_MANY_CONDITIONS);
}

static void checking_finds_the_malformed_one(void **state)
{
    (void)state;
    struct pol_value ios = string_value("ios");
    struct pol_value mixed[] = {string_value("ios"), integer_value(1)};
    struct pol_value bad_type = {.type = POL_TYPE_COUNT};
    const struct {
        struct pol_cond cond;
        enum pol_reason reason;
    } rows[] = {
        {{text("os"), POL_OP_EQ, &ios, 1}, POL_REASON_MATCHED},
        {{text("os"), POL_OP_LT, &ios, 1}, POL_REASON_BAD_OPERATOR},
        {{text("os"), POL_OP_EQ, mixed, 2}, POL_REASON_BAD_OPERATOR},
        {{text("os"), POL_OP_IN, mixed, 2}, POL_REASON_TYPE_MISMATCH},
        {{text("os"), POL_OP_EQ, NULL, 1}, POL_REASON_NO_OPERAND},
        {{text("os"), POL_OP_EQ, &ios, 0}, POL_REASON_NO_OPERAND},
        {{text("os"), POL_OP_COUNT, &ios, 1}, POL_REASON_BAD_OPERATOR},
        {{text("os"), POL_OP_EQ, &bad_type, 1}, POL_REASON_BAD_OPERATOR},
        {{text(""), POL_OP_EQ, &ios, 1}, POL_REASON_ATTRIBUTE_MISSING},
    };
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        struct pol_cond conds[3] = {rows[0].cond, rows[0].cond, rows[i].cond};
        struct pol_target target = {.conds = conds, .cond_count = 3};
        uint32_t index = 9;
        assert_int_equal(pol_target_check(&target, &index), rows[i].reason);
        assert_int_equal(index, rows[i].reason == POL_REASON_MATCHED ? 0 : 2);
        // A malformed condition never matches either.
        struct pol_match match = pol_target_match(&target, &device);
        assert_int_equal(match.matched, rows[i].reason == POL_REASON_MATCHED);
    }
}

static struct pol_target one(struct pol_cond *cond, const char *attr, enum pol_op op,
                             const struct pol_value *values, uint32_t count)
{
    *cond =
        (struct pol_cond){.attr = text(attr), .op = op, .operands = values, .operand_count = count};
    return (struct pol_target){.conds = cond, .cond_count = 1};
}

// Certainty only: where it is not certain that no device matches both, they meet.
static void targets_that_meet(void **state)
{
    (void)state;
    struct pol_cond left;
    struct pol_cond right;
    const struct pol_value ios[] = {string_value("ios"), string_value("tvos")};
    const struct pol_value droid[] = {string_value("android"), string_value("tvos")};
    const struct pol_value nine[] = {integer_value(9)};
    const struct pol_value ten[] = {integer_value(10)};
    const struct pol_value nine_text[] = {string_value("9.0.0")};
    const struct pol_value nine_version[] = {version_value("9.0.0")};
    const struct pol_value yes[] = {boolean_value(true)};
    const struct pol_value no[] = {boolean_value(false)};
    const struct {
        const char *attrs[2];
        enum pol_op ops[2];
        const struct pol_value *values[2];
        uint32_t counts[2];
        bool meet;
    } cases[] = {
        {{"os", "os"}, {POL_OP_EQ, POL_OP_EQ}, {ios, droid}, {1, 1}, false},
        {{"os", "os"}, {POL_OP_EQ, POL_OP_EQ}, {ios, ios}, {1, 1}, true},
        {{"os", "os"}, {POL_OP_IN, POL_OP_IN}, {ios, droid}, {2, 2}, true},
        {{"os", "os"}, {POL_OP_IN, POL_OP_EQ}, {ios, droid}, {2, 1}, false},
        {{"os", "model"}, {POL_OP_EQ, POL_OP_EQ}, {ios, droid}, {1, 1}, true},
        {{"os", "os"}, {POL_OP_EQ, POL_OP_NE}, {ios, ios}, {1, 1}, true},
        {{"v", "v"}, {POL_OP_EQ, POL_OP_EQ}, {nine, ten}, {1, 1}, false},
        {{"v", "v"}, {POL_OP_EQ, POL_OP_EQ}, {nine, nine_text}, {1, 1}, true},
        {{"v", "v"}, {POL_OP_EQ, POL_OP_EQ}, {ten, nine_version}, {1, 1}, true},
        {{"v", "v"}, {POL_OP_EQ, POL_OP_GE}, {nine, ten}, {1, 1}, true},
        {{"beta", "beta"}, {POL_OP_EQ, POL_OP_EQ}, {yes, no}, {1, 1}, false},
        {{"beta", "beta"}, {POL_OP_EQ, POL_OP_EQ}, {yes, yes}, {1, 1}, true},
    };
    const struct pol_target all = {.cond_count = 0};
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct pol_target a =
            one(&left, cases[i].attrs[0], cases[i].ops[0], cases[i].values[0], cases[i].counts[0]);
        struct pol_target b =
            one(&right, cases[i].attrs[1], cases[i].ops[1], cases[i].values[1], cases[i].counts[1]);
        if (pol_targets_meet(&a, &b) != cases[i].meet ||
            pol_targets_meet(&b, &a) != cases[i].meet) {
            fail_msg("case %zu: not as expected (%d)", i, cases[i].meet);
        }
        assert_true(pol_targets_meet(&a, &all) && pol_targets_meet(&all, &b));
    }
    assert_true(pol_targets_meet(&all, &all));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comparisons),
        cmocka_unit_test(sets),
        cmocka_unit_test(presence),
        cmocka_unit_test(conjunction_names_the_first_failure),
        cmocka_unit_test(checking_finds_the_malformed_one),
        cmocka_unit_test(targets_that_meet),
    };
    return cmocka_run_group_tests(tests, make_device, NULL);
}
