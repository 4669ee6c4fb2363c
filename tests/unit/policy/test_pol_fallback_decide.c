// Device or cloud: each fact alone, the order in which they are looked at, and what is not known.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "policy/fallback/fallback.h"
#include "policy/fallback/fallback_decide.h"

#include <string.h>

static const struct pol_fallback_rule rule = {
    .threshold_ppm = 800000,
    .latency_ms = 200,
    .battery_min_pct = 20,
    .metered = false,
    .cost_max = 100,
};

static struct pol_fallback_facts unsure(void)
{
    return (struct pol_fallback_facts){
        .confidence_ppm = 799999,
        .way = POL_WAY_OPEN,
        .expected_us = 200000,
        .battery_pct = 20,
        .metered = false,
        .cost_spent = 99,
    };
}

static void decides(struct pol_fallback_facts facts, enum pol_fallback_reason want)
{
    enum pol_fallback_reason got = pol_fallback_decide(&rule, &facts);
    if (got != want) {
        fail_msg("got %s, not %s", pol_fallback_word(got), pol_fallback_word(want));
    }
}

// Each bound at its last good value and one beyond.
static void test_bounds(void **state)
{
    (void)state;
    struct pol_fallback_facts facts = unsure();
    decides(facts, POL_FALLBACK_CLOUD);
    facts.confidence_ppm = 800000;
    decides(facts, POL_FALLBACK_CONFIDENT);
    facts = unsure();
    facts.expected_us = 200001;
    decides(facts, POL_FALLBACK_SLOW);
    facts = unsure();
    facts.battery_pct = 19;
    decides(facts, POL_FALLBACK_BATTERY);
    facts = unsure();
    facts.cost_spent = 100;
    decides(facts, POL_FALLBACK_COST);
    facts = unsure();
    facts.metered = true;
    decides(facts, POL_FALLBACK_METERED);
}

// All speaks against the cloud; what is told goes one by one.
static void test_order(void **state)
{
    (void)state;
    struct pol_fallback_facts facts = {
        .confidence_ppm = 900000,
        .way = POL_WAY_DENIED,
        .expected_us = 900000,
        .battery_pct = 1,
        .metered = true,
        .cost_spent = 1000,
    };
    decides(facts, POL_FALLBACK_CONFIDENT);
    facts.confidence_ppm = 0;
    decides(facts, POL_FALLBACK_DENIED);
    facts.way = POL_WAY_OFFLINE;
    decides(facts, POL_FALLBACK_OFFLINE);
    facts.way = POL_WAY_QUOTA;
    decides(facts, POL_FALLBACK_METERED);
    facts.metered = false;
    decides(facts, POL_FALLBACK_BATTERY);
    facts.battery_pct = 100;
    decides(facts, POL_FALLBACK_COST);
    facts.cost_spent = 0;
    decides(facts, POL_FALLBACK_QUOTA);
    facts.way = POL_WAY_BUSY;
    decides(facts, POL_FALLBACK_BUSY);
    facts.way = POL_WAY_OPEN;
    decides(facts, POL_FALLBACK_SLOW);
    facts.expected_us = 0;
    decides(facts, POL_FALLBACK_CLOUD);
}

static void test_not_known_or_not_asked(void **state)
{
    (void)state;
    struct pol_fallback_facts facts = unsure();
    facts.battery_pct = POL_BATTERY_UNKNOWN;
    facts.expected_us = 0;
    decides(facts, POL_FALLBACK_CLOUD);
    // A rule without bounds asks for nothing but the confidence.
    const struct pol_fallback_rule open = {.threshold_ppm = 500000, .metered = true};
    facts = (struct pol_fallback_facts){.confidence_ppm = 499999,
                                        .expected_us = UINT32_MAX,
                                        .metered = true,
                                        .cost_spent = UINT64_MAX};
    assert_int_equal(pol_fallback_decide(&open, &facts), POL_FALLBACK_CLOUD);
    // The longest latency does not wrap.
    const struct pol_fallback_rule longest = {
        .threshold_ppm = 500000, .latency_ms = UINT32_MAX, .metered = true};
    assert_int_equal(pol_fallback_decide(&longest, &facts), POL_FALLBACK_CLOUD);
}

static void test_thresholds_at_the_ends(void **state)
{
    (void)state;
    struct pol_fallback_facts facts = unsure();
    const struct pol_fallback_rule never = {.threshold_ppm = POL_FALLBACK_NEVER, .metered = true};
    const struct pol_fallback_rule always = {.threshold_ppm = POL_FALLBACK_ALWAYS, .metered = true};
    facts.confidence_ppm = 0;
    assert_int_equal(pol_fallback_decide(&never, &facts), POL_FALLBACK_CONFIDENT);
    facts.confidence_ppm = UINT32_MAX;
    assert_int_equal(pol_fallback_decide(&always, &facts), POL_FALLBACK_CLOUD);
}

static void test_words(void **state)
{
    (void)state;
    for (unsigned i = 0; i < POL_FALLBACK_REASON_COUNT; i++) {
        assert_true(strlen(pol_fallback_word((enum pol_fallback_reason)i)) > 0);
    }
    assert_string_equal(pol_fallback_word(POL_FALLBACK_REASON_COUNT), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_not_known_or_not_asked),
        cmocka_unit_test(test_thresholds_at_the_ends),
        cmocka_unit_test(test_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
