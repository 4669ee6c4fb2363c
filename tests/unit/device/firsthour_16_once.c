// --once ends when all is sent, waits while something moves, and says that it gave up when nothing
// does.
#include "agent/agent_once.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define SECOND_US 1000000ull

struct look {
    bool idle;
    uint64_t moved;
    uint64_t at_s;
    enum agent_once_end want;
};

static void judge(const struct look *looks, size_t count)
{
    struct agent_once once = {0};
    for (size_t i = 0; i < count; i++) {
        enum agent_once_end got =
            agent_once_judge(&once, looks[i].idle, looks[i].moved, 7 + looks[i].at_s * SECOND_US);
        assert_int_equal(got, looks[i].want);
    }
}

static void test_nothing_left(void **state)
{
    (void)state;
    const struct look looks[] = {{true, 0, 0, AGENT_ONCE_DONE}, {true, 9, 100, AGENT_ONCE_DONE}};
    judge(looks, sizeof(looks) / sizeof(looks[0]));
}

static void test_waits_while_something_moves(void **state)
{
    (void)state;
    const struct look looks[] = {
        {false, 0, 0, AGENT_ONCE_WAITS},   {false, 0, 29, AGENT_ONCE_WAITS},
        {false, 1, 29, AGENT_ONCE_WAITS},  {false, 1, 58, AGENT_ONCE_WAITS},
        {false, 2, 100, AGENT_ONCE_WAITS}, {true, 3, 101, AGENT_ONCE_DONE},
        {false, 3, 200, AGENT_ONCE_WAITS},
    };
    judge(looks, sizeof(looks) / sizeof(looks[0]));
}

static void test_gives_up(void **state)
{
    (void)state;
    const struct look looks[] = {
        {false, 5, 3, AGENT_ONCE_WAITS},
        {false, 5, 32, AGENT_ONCE_WAITS},
        {false, 5, 33, AGENT_ONCE_LEFT},
    };
    judge(looks, sizeof(looks) / sizeof(looks[0]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_left),
        cmocka_unit_test(test_waits_while_something_moves),
        cmocka_unit_test(test_gives_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
