// How far the stages of a rollout may reach, as a plan and the gateway ask before it starts.
#include "policy/rollout.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

// The first stage that reaches less than it must, else their number.
static void reach_of_stages(void **state)
{
    enum { BETA = POL_STAGE_BETA, GRAY = POL_STAGE_GRAY, FULL = POL_STAGE_FULL };
    static const struct {
        struct {
            int kind;
            uint16_t max_bucket;
        } stages[3];
        uint32_t bad; // 3: none
    } rows[] = {
        {{{GRAY, 100}, {GRAY, 100}, {FULL, 10000}}, 3},
        {{{GRAY, 5000}, {GRAY, 1000}, {FULL, 10000}}, 1},
        {{{GRAY, 100}, {GRAY, 5000}, {FULL, 9999}}, 2},
        {{{BETA, 10000}, {GRAY, 100}, {FULL, 10000}}, 3}, // a beta stage is of its audience
        {{{GRAY, 5000}, {BETA, 10000}, {GRAY, 4999}}, 2},
        {{{GRAY, 0}, {GRAY, 100}, {FULL, 10000}}, 0},
        {{{BETA, 10001}, {GRAY, 100}, {FULL, 10000}}, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct pol_stage of[3] = {{0}};
        for (size_t k = 0; k < 3; k++) {
            of[k].kind = (enum pol_stage_kind)rows[i].stages[k].kind;
            of[k].max_bucket = rows[i].stages[k].max_bucket;
        }
        assert_int_equal(pol_stages_reach_check(of, 3), rows[i].bad);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reach_of_stages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
