// Predicates and bad-release rules in text: what they mean, and where an error is.
#include "test_kit.h"

#include "model/bad_release.h"
#include "model/population.h"

static const struct pol_attr items[] = {
    {{"app_version", 11}, {.type = POL_TYPE_STRING, .text = {"9.2", 3}}},
    {{"beta", 4}, {.type = POL_TYPE_BOOLEAN, .boolean = true}},
    {{"os", 2}, {.type = POL_TYPE_STRING, .text = {"android", 7}}},
    {{"os_version", 10}, {.type = POL_TYPE_STRING, .text = {"12", 2}}},
    {{"ram_mb", 6}, {.type = POL_TYPE_INTEGER, .integer = 3072}},
};
static const struct pol_attrs attrs = {items, TEST_COUNT(items)};

static void meanings(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool matches;
    } table[] = {
        {"all", true},
        {"  all ", true},
        {"os == android", true},
        {"os == ios", false},
        {"os != ios", true},
        {"os == \"android\"", true},
        {"os_version < 12", false},
        {"os_version <= 12", true},
        {"os_version < 12.1", true},
        {"os_version >= 9", true}, // as versions, not as text
        {"app_version > 9.1 && app_version < 9.10", true},
        {"ram_mb in [2048, 3072]", true},
        {"ram_mb in [2048]", false},
        {"ram_mb not_in [2048,4096]", true},
        {"ram_mb > 3071 and os == android", true},
        {"ram_mb > 3072 and os == android", false},
        {"beta == true", true},
        {"beta == false", false},
        {"beta present", true},
        {"gamma absent && os present", true},
        {"gamma != 1", false}, // what is not known is not assumed
    };
    for (size_t i = 0; i < TEST_COUNT(table); i++) {
        static struct sim_predicate predicate;
        struct base_error error = {0};
        if (sim_predicate_parse(base_str_of(table[i].text), &predicate, &error) != BASE_OK) {
            fail_msg("%s: column %u: %s", table[i].text, error.column, error.text);
        }
        if (sim_predicate_match(&predicate, &attrs) != table[i].matches) {
            fail_msg("%s: %s", table[i].text, table[i].matches ? "no match" : "match");
        }
    }
}

static void errors_have_a_position(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum base_status status;
        uint32_t column;
    } table[] = {
        {"", BASE_ERR_INVALID, 1},
        {"   ", BASE_ERR_INVALID, 4},
        {"os", BASE_ERR_INVALID, 3},
        {"os ==", BASE_ERR_INVALID, 6},
        {"os = android", BASE_ERR_INVALID, 4},
        {"os == android &&", BASE_ERR_INVALID, 17},
        {"os == android os == ios", BASE_ERR_INVALID, 15},
        {"os == \"android", BASE_ERR_INVALID, 7},
        {"os_version < twelve", BASE_ERR_INVALID, 14},
        {"ram_mb == many", BASE_ERR_INVALID, 11},
        {"ram_mb in 2048", BASE_ERR_INVALID, 11},
        {"ram_mb in [2048", BASE_ERR_INVALID, 16},
        {"ram_mb in [2048,]", BASE_ERR_INVALID, 17},
        {"os < android", BASE_ERR_INVALID, 1}, // texts have no order
        {"all && os == ios", BASE_ERR_INVALID, 5},
        {"a==1&&b==1&&c==1&&d==1&&e==1&&f==1&&g==1&&h==1&&i==1", BASE_ERR_TOO_LARGE, 49},
    };
    for (size_t i = 0; i < TEST_COUNT(table); i++) {
        static struct sim_predicate predicate;
        struct base_error error = {0};
        enum base_status status =
            sim_predicate_parse(base_str_of(table[i].text), &predicate, &error);
        if (status != table[i].status || error.column != table[i].column || error.text[0] == 0) {
            fail_msg("'%s': status %d column %u '%s', expected %d column %u", table[i].text,
                     (int)status, error.column, error.text, (int)table[i].status, table[i].column);
        }
    }
}

static void too_long_is_refused(void **state)
{
    (void)state;
    static struct sim_predicate predicate;
    struct base_error error = {0};
    char text[SIM_PREDICATE_TEXT_MAX + 1];
    memset(text, 'a', sizeof(text));
    struct base_str str = {text, SIM_PREDICATE_TEXT_MAX};
    assert_int_equal(sim_predicate_parse(str, &predicate, &error), BASE_ERR_TOO_LARGE);
}

// Damaged text neither reads past its end nor is accepted with more than its limits.
static void damage(void **state)
{
    (void)state;
    static const char good[] = "os == android && os_version < 12 && ram_mb in [2048, \"3072\"]";
    struct base_prng prng;
    test_seed(&prng);
    for (uint32_t round = 0; round < 20000; round++) {
        static struct sim_predicate predicate;
        size_t size = (size_t)base_prng_below(&prng, sizeof(good));
        char *text = (char *)test_exact(good, size);
        for (uint32_t i = 0; size > 0 && i < 3; i++) {
            text[base_prng_below(&prng, size)] = (char)base_prng_below(&prng, 256);
        }
        if (sim_predicate_parse((struct base_str){text, size}, &predicate, NULL) == BASE_OK) {
            assert_true(predicate.cond_count <= SIM_PREDICATE_CONDS_MAX);
            (void)sim_predicate_match(&predicate, &attrs);
        }
        free(text);
    }
}

static void ratios(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum base_status status;
        uint32_t ppm;
    } table[] = {
        {"0", BASE_OK, 0},
        {"1", BASE_OK, 1000000},
        {"0.5", BASE_OK, 500000},
        {"50%", BASE_OK, 500000},
        {"50 %", BASE_OK, 500000},
        {"100%", BASE_OK, 1000000},
        {"0.01%", BASE_OK, 100},
        {"", BASE_ERR_INVALID, 0},
        {"1.1", BASE_ERR_INVALID, 0},
        {"101%", BASE_ERR_INVALID, 0},
        {"-1", BASE_ERR_INVALID, 0},
        {"half", BASE_ERR_INVALID, 0},
    };
    for (size_t i = 0; i < TEST_COUNT(table); i++) {
        uint32_t ppm = 0;
        enum base_status status = sim_ratio_parse(base_str_of(table[i].text), &ppm);
        bool as_expected = table[i].status == BASE_OK ? status == BASE_OK && ppm == table[i].ppm
                                                      : status != BASE_OK;
        if (!as_expected) {
            fail_msg("'%s': status %d, %u ppm", table[i].text, (int)status, ppm);
        }
    }
}

static void rules(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum sim_behaviour behaviour; // NONE: refused
        uint32_t amount;
        uint32_t ppm;
    } table[] = {
        {"os == android => crash", SIM_BEHAVIOUR_CRASH, 0, 1000000},
        {"all => exception 3 @ 0.5", SIM_BEHAVIOUR_EXCEPTION, 3, 500000},
        {"all => slow 250 @ 10%", SIM_BEHAVIOUR_SLOW, 250, 100000},
        {"all => hang @ 1% each", SIM_BEHAVIOUR_HANG, 0, 10000},
        {"all => hang @ each", SIM_BEHAVIOUR_NONE, 0, 0},
        {"all => hang", SIM_BEHAVIOUR_HANG, 0, 1000000},
        {"all => wrong", SIM_BEHAVIOUR_WRONG, 0, 1000000},
        {"all => melt", SIM_BEHAVIOUR_NONE, 0, 0},
        {"all =>", SIM_BEHAVIOUR_NONE, 0, 0},
        {"all", SIM_BEHAVIOUR_NONE, 0, 0},
        {"all => crash @ 2", SIM_BEHAVIOUR_NONE, 0, 0},
        {"os ~ android => crash", SIM_BEHAVIOUR_NONE, 0, 0},
    };
    for (size_t i = 0; i < TEST_COUNT(table); i++) {
        static struct sim_bad_rule rule;
        struct base_error error = {0};
        enum base_status status = sim_bad_rule_parse(base_str_of(table[i].text), &rule, &error);
        if (table[i].behaviour == SIM_BEHAVIOUR_NONE) {
            assert_true(status != BASE_OK);
            assert_true(error.text[0] != 0);
            continue;
        }
        if (status != BASE_OK || rule.behaviour != table[i].behaviour ||
            rule.probability_ppm != table[i].ppm ||
            (table[i].amount > 0 && rule.amount != table[i].amount)) {
            fail_msg("%s: status %d (%s) behaviour %d amount %u ppm %u", table[i].text, (int)status,
                     error.text, (int)rule.behaviour, rule.amount, rule.probability_ppm);
        }
    }
}

static bool hit(const struct sim_bad_release *release, uint32_t device, uint32_t activation,
                uint64_t index)
{
    const struct sim_bad_run run = {device, activation, index, &attrs};
    return sim_bad_release_hit(release, 5, &run) != NULL;
}

static void the_same_devices_are_hit(void **state)
{
    (void)state;
    static struct sim_bad_release release;
    struct base_error error = {0};
    assert_int_equal(sim_bad_rule_parse(BASE_STR("os == android => exception 2 @ 30%"),
                                        &release.rules[0], &error),
                     BASE_OK);
    release.rule_count = 1;
    uint32_t count = 0;
    for (uint32_t i = 0; i < 10000; i++) {
        bool first = hit(&release, i, 1, 0);
        bool second = hit(&release, i, 1, 1);
        bool third = hit(&release, i, 2, 2); // another activation
        assert_false(first);                 // from its second run on
        assert_int_equal(second, third);
        count += second;
    }
    assert_in_range(count, 2700, 3300);
}

// Hit at one activation says nothing of the next; within one the draw stays.
static void each_activation_is_drawn(void **state)
{
    (void)state;
    static struct sim_bad_release release;
    struct base_error error = {0};
    assert_int_equal(
        sim_bad_rule_parse(BASE_STR("all => exception @ 30% each"), &release.rules[0], &error),
        BASE_OK);
    release.rule_count = 1;
    uint32_t first = 0;
    uint32_t second = 0;
    uint32_t both = 0;
    for (uint32_t i = 0; i < 10000; i++) {
        bool one = hit(&release, i, 1, 0);
        bool two = hit(&release, i, 2, 0);
        assert_int_equal(one, hit(&release, i, 1, 7));
        first += one;
        second += two;
        both += one && two;
    }
    assert_in_range(first, 2700, 3300);
    assert_in_range(second, 2700, 3300);
    assert_in_range(both, 700, 1100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(meanings),
        cmocka_unit_test(errors_have_a_position),
        cmocka_unit_test(too_long_is_refused),
        cmocka_unit_test(damage),
        cmocka_unit_test(ratios),
        cmocka_unit_test(rules),
        cmocka_unit_test(the_same_devices_are_hit),
        cmocka_unit_test(each_activation_is_drawn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
