// What was short is not printed as nothing.
#include "test_kit.h"

#include "report/latency_text.h"

static void test_texts(void **state)
{
    (void)state;
    static const struct {
        uint64_t us;
        const char *text;
    } cases[] = {{0, "none"},
                 {1, "under 0.1 ms"},
                 {49, "under 0.1 ms"},
                 {99, "under 0.1 ms"},
                 {100, "0.1 ms"},
                 {12500, "12.5 ms"},
                 {UINT64_MAX, "18446744073709552.0 ms"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[SIM_LATENCY_TEXT_MAX];
        assert_string_equal(sim_latency_text(cases[i].us, text), cases[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
