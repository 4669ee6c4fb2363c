// How far words are apart.
#include "base/text/likeness.h"
#include "test_kit.h"

static uint32_t apart(const char *a, const char *b)
{
    uint32_t there = base_likeness(base_str_of(a), base_str_of(b));
    assert_int_equal(base_likeness(base_str_of(b), base_str_of(a)), there);
    return there;
}

static void words_are_apart(void **state)
{
    static const struct {
        const char *a;
        const char *b;
        uint32_t apart;
    } rows[] = {{"", "", 0},
                {"rollout", "rollout", 0},
                {"rollout", "", 7},
                {"rolout", "rollout", 1},
                {"rolluot", "rollout", 1},
                {"rollouts", "rollout", 1},
                {"region", "reason", 2},
                {"kitten", "sitting", 3},
                {"abcdefghijklmnopqrstuvwxyzabcdefgh", "abcdefghijklmnopqrstuvwxyzabcdefXY", 0}};
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(apart(rows[i].a, rows[i].b), rows[i].apart);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(words_are_apart)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
