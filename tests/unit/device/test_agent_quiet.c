// What the agent's log holds back: each line that was not said is counted in the next that is, the
// gaps double, and a pause of twice the gap begins anew.
#include "agent/agent_quiet.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static struct agent_quiet quiet;

// How many were kept before the line that is said now; -1: it is held back.
static int say(const char *text, uint64_t second)
{
    uint32_t kept = 99;
    return agent_quiet_says(&quiet, text, second * 1000000, &kept) ? (int)kept : -1;
}

static void test_every_line_is_said_or_counted(void **state)
{
    (void)state;
    static const struct {
        uint64_t second;
        int kept;
    } lines[] = {{100, 0}, {105, -1}, {109, -1}, {111, 2},  {112, -1}, {130, -1},
                 {132, 2}, {133, -1}, {260, 1},  {262, -1}, {300, 1}};
    memset(&quiet, 0, sizeof(quiet));
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        assert_int_equal(say("no answer from port 1", lines[i].second), lines[i].kept);
    }
}

static void test_numbers_are_alike_and_words_are_not(void **state)
{
    (void)state;
    memset(&quiet, 0, sizeof(quiet));
    assert_int_equal(say("try 1 of 3", 1), 0);
    assert_int_equal(say("try 2 of 3", 2), -1);
    assert_int_equal(say("try ab2 of 3", 2), 0);
    for (char name = 'a'; name <= 'z'; name++) {
        char text[] = {name, ' ', 'x', '\0'};
        assert_int_equal(say(text, 3), 0);
    }
    assert_int_equal(say("try 3 of 3", 4), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_line_is_said_or_counted),
        cmocka_unit_test(test_numbers_are_alike_and_words_are_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
