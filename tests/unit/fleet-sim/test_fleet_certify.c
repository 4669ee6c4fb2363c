// What a certificate is made of: its pack of bad releases, and the bounds that it states.
#include "test_kit.h"

#include "certify/certify.h"

#include <math.h>

static void bounds_are_what_they_say(void **state)
{
    (void)state;
    assert_true(sim_certify_share(0) == 0);
    assert_true(fabs(sim_certify_share(1) - 0.05) < 1e-12);
    assert_true(sim_certify_share(58) < 0.95 && sim_certify_share(59) > 0.95);
    // Nothing seen: 1 - 0.05^(1/n). The others by summing the distribution.
    assert_true(fabs(sim_certify_rate_bound(0, 20) - (1 - pow(0.05, 1.0 / 20))) < 1e-9);
    assert_true(sim_certify_rate_bound(20, 20) == 1);
    for (uint32_t seen = 1; seen < 10; seen++) {
        double rate = sim_certify_rate_bound(seen, 10);
        double sum = 0;
        double ways = 1;
        for (uint32_t k = 0; k <= seen; k++) {
            sum += ways * pow(rate, k) * pow(1 - rate, 10 - k);
            ways = ways * (10 - k) / (k + 1);
        }
        assert_true(fabs(sum - 0.05) < 1e-6);
        assert_true(rate > (double)seen / 10);
    }
}

static void the_products_pack_can_be_read(void **state)
{
    (void)state;
    static struct sim_certify_pack pack;
    struct base_error error = {0};
    assert_int_equal(sim_certify_pack_read("", &pack, &error), BASE_OK);
    assert_true(pack.count > 3);
    assert_string_equal(pack.cases[0].name, "healthy");
    assert_string_equal(pack.cases[0].rule, "");
    for (uint32_t i = 1; i < pack.count; i++) {
        struct sim_bad_rule rule;
        assert_int_equal(sim_bad_rule_parse(base_str_of(pack.cases[i].rule), &rule, &error),
                         BASE_OK);
    }
    assert_int_equal(sim_certify_pack_read("/nowhere/at/all", &pack, &error), BASE_ERR_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bounds_are_what_they_say),
        cmocka_unit_test(the_products_pack_can_be_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
