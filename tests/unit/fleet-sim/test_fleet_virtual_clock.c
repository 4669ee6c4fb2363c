// The clock of a run in virtual time: both of its faces go on together, and only when moved.
#include "test_kit.h"

#include "virtual/virtual_clock.h"

static void both_clocks_go_on_together(void **state)
{
    (void)state;
    struct sim_virtual_clock clock;
    sim_virtual_clock_init(&clock, UINT64_C(1700000000000000));
    struct base_clock_port port = sim_virtual_clock_port(&clock);
    uint64_t begin_us = port.mono_us(port.ctx);
    assert_true(begin_us > 0);
    assert_true(port.wall_us(port.ctx) == UINT64_C(1700000000000000));
    assert_true(port.mono_us(port.ctx) == begin_us); // it stands
    sim_virtual_clock_move(&clock, begin_us + 86400 * UINT64_C(1000000));
    assert_true(port.mono_us(port.ctx) - begin_us == 86400 * UINT64_C(1000000));
    assert_true(port.wall_us(port.ctx) == UINT64_C(1700086400000000));
    sim_virtual_clock_move(&clock, clock.now_us); // to where it is
    assert_true(port.wall_us(port.ctx) == UINT64_C(1700086400000000));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(both_clocks_go_on_together)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
