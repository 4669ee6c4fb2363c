// Semantic versions: what parses, and the order of semver.org.
#include "test_kit.h"

#include "policy/semver.h"

static bool parse(const char *text, struct pol_semver *out)
{
    // An exact copy: the parser may not look for a NUL.
    size_t size = strlen(text);
    uint8_t *exact = test_exact(text, size);
    struct pol_semver version;
    bool ok = pol_semver_parse((const char *)exact, (uint32_t)size, &version);
    if (ok && version.pre != NULL) {
        // Move the borrowed text onto the caller's.
        version.pre = text + (version.pre - (const char *)exact);
    }
    if (ok) {
        *out = version;
    }
    free(exact);
    return ok;
}

static void what_parses(void **state)
{
    (void)state;
    static const char *const good[] = {
        "0.0.4", "1.2.3", "10.20.30", "1.1.2-prerelease+meta", "1.1.2+meta", "1.1.2+meta-valid",
        "1.0.0-alpha", "1.0.0-beta", "1.0.0-alpha.beta", "1.0.0-alpha.beta.1", "1.0.0-alpha.1",
        "1.0.0-alpha0.valid", "1.0.0-alpha.0valid", "1.0.0-rc.1+build.1", "2.0.0-rc.1+build.123",
        "1.2.3-beta", "10.2.3-DEV-SNAPSHOT", "1.2.3-SNAPSHOT-123", "2.0.0+build.1848",
        "2.0.1-alpha.1227", "1.0.0-alpha+beta", "1.2.3----RC-SNAPSHOT.12.9.1--.12+788",
        "1.2.3----R-S.12.9.1--.12+meta", "1.0.0+0.build.1-rc.10000aaa-kk-0.1", "1.0.0-0A.is.legal",
        // and what the field has besides
        "9", "9.2", "v1.2.3", "1.2.3.4", "2026.01.05", "4294967296", "1.0.20261122235959",
        "18446744073709551615", "9-beta", "0"};
    for (size_t i = 0; i < TEST_COUNT(good); i++) {
        struct pol_semver version;
        if (!parse(good[i], &version)) {
            fail_msg("'%s' was refused", good[i]);
        }
    }
    static const char *const bad[] = {"",
                                      "v",
                                      "a",
                                      "1.",
                                      ".1",
                                      "1..2",
                                      "1.2.3.",
                                      "1.2.3.4.5",
                                      "-1",
                                      "+1",
                                      "1.2.3-",
                                      "1.2.3+",
                                      "1.2.3-01",
                                      "1.2.3-a.01",
                                      "1.2.3-a..b",
                                      "1.2.3-a.",
                                      "1.2.3+a..b",
                                      "1.2.3+a+b",
                                      "1.2.3-a_b",
                                      "1.2.3 ",
                                      " 1.2.3",
                                      "1.2.3-\xc3\xa4",
                                      "18446744073709551616",
                                      "1.99999999999999999999",
                                      "V1",
                                      "vv1",
                                      "1.2.3-0123",
                                      "alpha",
                                      "1.2-",
                                      "-1.0.3-gamma+b7718",
                                      "+justmeta",
                                      "1,2"};
    for (size_t i = 0; i < TEST_COUNT(bad); i++) {
        struct pol_semver version = {.numbers = {4711}};
        if (parse(bad[i], &version)) {
            fail_msg("'%s' was accepted", bad[i]);
        }
        assert_int_equal(version.numbers[0], 4711);
    }
    struct pol_semver version;
    assert_false(pol_semver_parse(NULL, 0, &version));
    assert_false(pol_semver_parse("1\0", 2, &version));
}

// Ascending; two entries on one line are equal. The first is the example of semver.org section 11.
static const char *const order[][2] = {
    {"0", "0.0.0"},
    {"0.0.1", "v0.0.1"},
    {"0.9", "0.9.0.0"},
    {"1.0.0-0", NULL},
    {"1.0.0-1", "1.0.0-1+build"},
    {"1.0.0-9", NULL},
    {"1.0.0-10", NULL},
    {"1.0.0-99999999999999999999", NULL},
    {"1.0.0-100000000000000000000", NULL},
    {"1.0.0--", NULL},
    {"1.0.0-A", NULL},
    {"1.0.0-alpha", "1-alpha"},
    {"1.0.0-alpha.1", NULL},
    {"1.0.0-alpha.beta", NULL},
    {"1.0.0-alpha0", NULL},
    {"1.0.0-beta", NULL},
    {"1.0.0-beta.2", NULL},
    {"1.0.0-beta.11", NULL},
    {"1.0.0-rc.1", NULL},
    {"1.0.0", "1"},
    {"1.0.0.1-a", NULL},
    {"1.0.0.1", NULL},
    {"1.0.1", "1.00.01"},
    {"1.9.0", NULL},
    {"1.10.0", NULL},
    {"2", "2.0+x.y"},
    {"2.1.0", NULL},
    {"2.1.1", NULL},
    {"9", NULL},
    {"10.0.0-a", NULL},
    {"10", NULL},
    {"4294967295.4294967295.4294967295.4294967295", NULL},
    {"4294967296", "4294967296.0"},
    {"20261122235959.9", NULL},
    {"20261122235960", NULL},
    {"18446744073709551615.18446744073709551615.18446744073709551615", NULL},
};

static int sign(int value)
{
    return (value > 0) - (value < 0);
}

static void order_is_total(void **state)
{
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(order); i++) {
        for (size_t j = 0; j < TEST_COUNT(order); j++) {
            for (size_t k = 0; k < 4; k++) {
                const char *left = order[i][k / 2];
                const char *right = order[j][k % 2];
                if (left == NULL || right == NULL) {
                    continue;
                }
                struct pol_semver a;
                struct pol_semver b;
                assert_true(parse(left, &a) && parse(right, &b));
                int wanted = (i > j) - (i < j);
                int got = sign(pol_semver_compare(&a, &b));
                if (got != wanted) {
                    fail_msg("%s against %s: %d, wanted %d", left, right, got, wanted);
                }
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_parses),
        cmocka_unit_test(order_is_total),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
