// The gate of decisions between device and cloud: what few decisions show, each limit alone, their
// order, and how often a device that keeps to its limits is found at fault all the same.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "policy/fallback/fallback_gate.h"

static const struct pol_fallback_limits limits = {
    .min_kept_ppm = 700000, .min_agreed_ppm = 800000, .late_ms = 200};

static void judges(struct pol_fallback_seen seen, enum pol_fallback_fault want)
{
    assert_true(pol_fallback_limits_check(&limits));
    assert_int_equal(pol_fallback_judge(&limits, &seen), want);
}

// 0.3^5 is above a thousandth, 0.3^6 is not.
static void test_what_few_decisions_show(void **state)
{
    (void)state;
    judges((struct pol_fallback_seen){0}, POL_FALLBACK_FINE);
    judges((struct pol_fallback_seen){.asked = 5, .sent = 5}, POL_FALLBACK_FINE);
    judges((struct pol_fallback_seen){.asked = 6, .sent = 6}, POL_FALLBACK_SENDS);
    judges((struct pol_fallback_seen){.asked = 20, .sent = 9}, POL_FALLBACK_FINE);
    judges((struct pol_fallback_seen){.asked = 20, .sent = 14}, POL_FALLBACK_SENDS);
    judges((struct pol_fallback_seen){.asked = 2000, .sent = 700}, POL_FALLBACK_SENDS);
    judges((struct pol_fallback_seen){.asked = 2000, .sent = 600}, POL_FALLBACK_FINE);
}

static void test_each_limit(void **state)
{
    (void)state;
    struct pol_fallback_seen seen = {.asked = 1000, .sent = 100, .answered = 100};
    judges(seen, POL_FALLBACK_FINE);
    seen.differed = 36;
    judges(seen, POL_FALLBACK_DIFFERS);
    seen.late = 100;
    judges(seen, POL_FALLBACK_DIFFERS); // the first is told
    seen.differed = 20;
    judges(seen, POL_FALLBACK_LATER);
    seen.late = 5;
    judges(seen, POL_FALLBACK_FINE);
    seen.sent = seen.asked = 100;
    judges(seen, POL_FALLBACK_SENDS);
}

// What is left zero is not asked, and a limit of nothing at all is one.
static void test_what_is_not_asked(void **state)
{
    (void)state;
    const struct pol_fallback_seen seen = {500, 500, 500, 500, 500};
    struct pol_fallback_limits none = {.late_ms = 0};
    assert_true(pol_fallback_limits_check(&none));
    assert_int_equal(pol_fallback_judge(&none, &seen), POL_FALLBACK_FINE);
    none.min_kept_ppm = 1000000;
    assert_true(pol_fallback_limits_check(&none));
    assert_int_equal(pol_fallback_judge(&none, &seen), POL_FALLBACK_SENDS);
    none.min_kept_ppm = 1000001;
    assert_false(pol_fallback_limits_check(&none));
    none = (struct pol_fallback_limits){.min_agreed_ppm = 1000001};
    assert_false(pol_fallback_limits_check(&none));
    none = (struct pol_fallback_limits){.late_ms = POL_FALLBACK_MS_MAX + 1};
    assert_false(pol_fallback_limits_check(&none));
}

static uint64_t next(uint64_t *seed)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *seed >> 33;
}

// 20,000 devices at the limit tell of 16 decisions, each with a chance of a thousandth: 20 of them
// are expected, and over 45 would be by chance once in a million times.
static void test_who_keeps_to_the_limit_is_seldom_at_fault(void **state)
{
    (void)state;
    uint64_t seed = 20261129;
    uint32_t faults = 0;
    for (uint32_t device = 0; device < 20000; device++) {
        struct pol_fallback_seen seen = {.asked = 16};
        for (uint32_t i = 0; i < seen.asked; i++) {
            seen.sent += next(&seed) % 10 < 3 ? 1 : 0;
        }
        faults += pol_fallback_judge(&limits, &seen) != POL_FALLBACK_FINE ? 1 : 0;
    }
    assert_in_range(faults, 1, 45);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_few_decisions_show),
        cmocka_unit_test(test_each_limit),
        cmocka_unit_test(test_what_is_not_asked),
        cmocka_unit_test(test_who_keeps_to_the_limit_is_seldom_at_fault),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
