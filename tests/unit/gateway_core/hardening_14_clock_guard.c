// The gateway's time: corrections count, jumps do not, and rules that hold for whatever a wall
// clock does.
#include "svc/clock_guard.h"

#include "base/prng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define SECOND UINT64_C(1000000)
#define DAY    (86400 * SECOND)
#define NOW    (UINT64_C(1700000000) * SECOND)
#define TRIALS 3000

static struct gw_clock_guard guard;
static struct gw_clock_look now;

static void begin(uint64_t wall_us, uint64_t recorded_us, uint64_t born_us)
{
    now = (struct gw_clock_look){.wall_us = wall_us, .steady_us = 12345};
    gw_clock_guard_begin(&guard, &now, recorded_us, born_us);
}

static uint64_t time_us(void)
{
    return gw_clock_guard_time_us(&guard, now.steady_us);
}

static uint64_t sure_us(void)
{
    return gw_clock_guard_sure_us(&guard, now.steady_us);
}

// The clocks go on together for so long, looked at every half second.
static void pass(uint64_t passed_us)
{
    for (uint64_t at = 0; at < passed_us; at += SECOND / 2) {
        now.wall_us += SECOND / 2;
        now.steady_us += SECOND / 2;
        (void)gw_clock_guard_look(&guard, &now);
    }
}

static bool jump(int64_t by_us)
{
    now.wall_us += (uint64_t)by_us;
    return gw_clock_guard_look(&guard, &now);
}

static void test_small_corrections_count(void **state)
{
    (void)state;
    begin(NOW, 0, 0);
    assert_false(jump((int64_t)(200 * SECOND)));
    assert_int_equal(time_us(), NOW); // no leap
    pass(80 * SECOND);
    assert_int_equal(time_us(), NOW + 90 * SECOND);
    pass(8 * 200 * SECOND);
    assert_int_equal(time_us(), now.wall_us);
    pass(8 * 3600 * SECOND); // what was used up came back
    assert_false(jump(-(int64_t)(200 * SECOND)));
    uint64_t before = time_us();
    pass(100 * SECOND);
    assert_true(time_us() > before); // never back, at half its pace
    pass(400 * SECOND);
    assert_int_equal(time_us(), now.wall_us);
    assert_int_equal(guard.doubt, GW_CLOCK_SURE);
}

// The reason is what is wrong now, not what was wrong first.
static void test_the_reason_follows_the_clock(void **state)
{
    (void)state;
    begin(NOW, 0, NOW - 100 * DAY);
    pass(10 * SECOND);
    assert_true(jump(300 * (int64_t)DAY));
    assert_int_equal(guard.doubt, GW_CLOCK_AHEAD);
    assert_false(jump((int64_t)DAY)); // the same, only more of it
    assert_true(jump(-350 * (int64_t)DAY));
    assert_int_equal(guard.doubt, GW_CLOCK_BEHIND);
    assert_true(jump(-100 * (int64_t)DAY));
    assert_int_equal(guard.doubt, GW_CLOCK_UNSET);
    assert_true(jump(200 * (int64_t)DAY));
    assert_int_equal(guard.doubt, GW_CLOCK_AHEAD);
    uint64_t before = time_us();
    assert_true(jump(-51 * (int64_t)DAY)); // where it should be
    assert_int_equal(guard.doubt, GW_CLOCK_SURE);
    assert_in_range(time_us(), before, before + 300 * SECOND);
}

static void test_a_jump_is_not_followed(void **state)
{
    (void)state;
    static const int64_t jumps[] = {300 * (int64_t)DAY, -300 * (int64_t)DAY,
                                    (int64_t)(301 * SECOND), -(int64_t)(301 * SECOND)};
    for (size_t i = 0; i < sizeof(jumps) / sizeof(jumps[0]); i++) {
        begin(NOW, 0, 0);
        pass(10 * SECOND);
        assert_true(jump(jumps[i]));
        assert_int_equal(guard.doubt, jumps[i] > 0 ? GW_CLOCK_AHEAD : GW_CLOCK_BEHIND);
        pass(60 * SECOND);
        assert_int_equal(time_us(), NOW + 70 * SECOND); // on, by the steady clock
        assert_int_equal(sure_us(), NOW + 10 * SECOND); // signed no further
        assert_true(jump(-jumps[i]));                   // it came back by itself
        assert_int_equal(guard.doubt, GW_CLOCK_SURE);
        assert_int_equal(sure_us(), NOW + 70 * SECOND);
    }
}

// Many small ones are a jump as well.
static void test_walking_is_not_followed(void **state)
{
    (void)state;
    begin(NOW, 0, 0);
    uint64_t followed = 0;
    while (!jump((int64_t)(60 * SECOND))) {
        followed += 60 * SECOND;
        pass(60 * SECOND);
        assert_true(followed <= 2 * GW_CLOCK_STEP_MAX_US);
    }
    assert_true(followed >= 240 * SECOND);
}

// Steps of which each is below the bound, one after the other: what is signed goes no further than
// one bound and what drift allows.
static void test_steps_add_up(void **state)
{
    (void)state;
    for (int sign = -1; sign <= 1; sign += 2) {
        begin(NOW, 0, 0);
        uint64_t steady_us = now.steady_us;
        for (int i = 0; i < 25; i++) {
            (void)jump(sign * (int64_t)(299 * SECOND));
            pass(2 * SECOND);
        }
        uint64_t passed_us = now.steady_us - steady_us;
        assert_int_not_equal(guard.doubt, GW_CLOCK_SURE);
        assert_true(time_us() <=
                    NOW + passed_us + GW_CLOCK_STEP_MAX_US + passed_us / GW_CLOCK_DRIFT);
        assert_true(sure_us() <=
                    NOW + passed_us + GW_CLOCK_STEP_MAX_US + passed_us / GW_CLOCK_DRIFT);
        now.wall_us = time_us(); // back where it should be
        assert_true(gw_clock_guard_look(&guard, &now));
        assert_int_equal(guard.doubt, GW_CLOCK_SURE);
    }
}

static void test_accepted(void **state)
{
    (void)state;
    begin(NOW, 0, 0);
    (void)jump(300 * (int64_t)DAY);
    assert_int_equal(gw_clock_guard_accept(&guard, &now), 300 * (int64_t)DAY);
    assert_int_equal(guard.doubt, GW_CLOCK_SURE);
    assert_int_equal(sure_us(), NOW + 300 * DAY);
    (void)jump(-300 * (int64_t)DAY);
    assert_int_equal(gw_clock_guard_accept(&guard, &now), -300 * (int64_t)DAY);
    assert_int_equal(time_us(), NOW); // back, since an operator says so
}

// A wall clock that comes back near to where it should be ends the doubt; what is left is a
// correction, and no leap, in either direction.
static void test_coming_back_is_no_leap(void **state)
{
    (void)state;
    for (int sign = -1; sign <= 1; sign += 2) {
        begin(NOW, 0, 0);
        pass(10 * SECOND);
        assert_true(jump(sign * (int64_t)(400 * SECOND)));
        uint64_t before = time_us();
        assert_true(jump(-sign * (int64_t)(300 * SECOND)));
        assert_int_equal(guard.doubt, GW_CLOCK_SURE);
        assert_int_equal(time_us(), before);
        assert_int_equal(sure_us(), before);
        pass(80 * SECOND);
        uint64_t near = before + (sign > 0 ? 90 : 40) * SECOND;
        assert_in_range(time_us(), near - SECOND, near + SECOND);
        pass(8 * 100 * SECOND);
        assert_int_equal(time_us(), now.wall_us);
    }
}

// {recorded, wall clock at the start, what comes of it}
static void test_at_the_start(void **state)
{
    (void)state;
    static const struct {
        uint64_t recorded, wall, born;
        enum gw_clock_doubt doubt;
        uint64_t time;
    } cases[] = {
        {0, NOW, 0, GW_CLOCK_SURE, NOW},
        {0, NOW, NOW - 90 * DAY, GW_CLOCK_SURE, NOW},
        {NOW, NOW + DAY, 0, GW_CLOCK_SURE, NOW + DAY},
        {NOW, NOW + 30 * DAY, 0, GW_CLOCK_SURE, NOW + 30 * DAY},
        {NOW, NOW - 299 * SECOND, 0, GW_CLOCK_SURE, NOW - 299 * SECOND},
        {NOW, NOW + 31 * DAY, 0, GW_CLOCK_AHEAD, NOW},
        {NOW, NOW - 301 * SECOND, 0, GW_CLOCK_BEHIND, NOW},
        {NOW, 0, NOW - DAY, GW_CLOCK_UNSET, NOW},
        {0, 0, NOW, GW_CLOCK_UNSET, NOW},
        {NOW, NOW, NOW + DAY, GW_CLOCK_UNSET, NOW + DAY},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        begin(cases[i].wall, cases[i].recorded, cases[i].born);
        if (guard.doubt != cases[i].doubt || time_us() != cases[i].time) {
            fail_msg("case %zu: %s, %llu", i, gw_clock_doubt_name(guard.doubt),
                     (unsigned long long)time_us());
        }
    }
    // A clock that gets set: no operator is needed.
    begin(0, NOW, 0);
    assert_true(jump((int64_t)(NOW + 5 * DAY)));
    assert_int_equal(time_us(), NOW + 5 * DAY);
    begin(0, 0, NOW);
    assert_true(jump((int64_t)(NOW + 2000 * DAY)));
    assert_int_equal(time_us(), NOW + 2000 * DAY);
}

// A start is no acceptance: a clock that was ahead, and was not set back, is ahead still.
static void test_a_doubt_outlasts_a_start(void **state)
{
    (void)state;
    static const struct {
        uint64_t wall, doubted;
        enum gw_clock_doubt doubt;
    } cases[] = {
        {NOW + 3 * DAY, 0, GW_CLOCK_SURE},
        {NOW + 3 * DAY, NOW + 3 * DAY, GW_CLOCK_AHEAD},
        {NOW + 5 * DAY, NOW + 3 * DAY, GW_CLOCK_AHEAD},
        {NOW + 3 * DAY - 299 * SECOND, NOW + 3 * DAY, GW_CLOCK_AHEAD},
        {NOW + 2 * DAY, NOW + 3 * DAY, GW_CLOCK_SURE}, // it was away for two days, and set right
        {NOW - 301 * SECOND, NOW + 3 * DAY, GW_CLOCK_BEHIND},
        {NOW + 31 * DAY, NOW + 3 * DAY, GW_CLOCK_AHEAD},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        begin(cases[i].wall, NOW, 0);
        gw_clock_guard_still_ahead(&guard, NOW, cases[i].doubted);
        if (guard.doubt != cases[i].doubt ||
            (guard.doubt == GW_CLOCK_AHEAD && (sure_us() != NOW || time_us() != NOW))) {
            fail_msg("case %zu: %s, %llu", i, gw_clock_doubt_name(guard.doubt),
                     (unsigned long long)time_us());
        }
    }
    begin(NOW + 3 * DAY, NOW, 0);
    gw_clock_guard_still_ahead(&guard, NOW, NOW + 3 * DAY);
    pass(60 * SECOND);
    assert_int_equal(guard.doubt, GW_CLOCK_AHEAD);
    assert_true(jump(-2 * (int64_t)DAY)); // what is right is anywhere between
    assert_int_equal(guard.doubt, GW_CLOCK_SURE);
    assert_int_equal(time_us(), now.wall_us);
}

static int64_t any_step(struct base_prng *prng)
{
    static const int64_t sizes[] = {
        3, 1000, (int64_t)SECOND, 100 * (int64_t)SECOND, 400 * (int64_t)SECOND, 300 * (int64_t)DAY};
    int64_t size = sizes[base_prng_below(prng, sizeof(sizes) / sizeof(sizes[0]))];
    int64_t step = (int64_t)base_prng_below(prng, (uint64_t)size);
    return base_prng_below(prng, 2) == 0 ? step : -step;
}

// While nobody accepts anything and no doubt ends, the time goes on, never back, and never further
// from the steady clock than the allowance; and what is signed never passes it.
static void test_rules_hold(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= TRIALS; seed++) {
        struct base_prng prng;
        base_prng_seed(&prng, seed);
        begin(NOW, 0, 0);
        struct gw_clock_look from = now;
        uint64_t before = time_us();
        for (int i = 0; i < 200; i++) {
            uint64_t passed = base_prng_below(&prng, 600 * SECOND);
            now.steady_us += passed;
            now.wall_us +=
                passed + (base_prng_below(&prng, 8) == 0 ? (uint64_t)any_step(&prng) : 0);
            if (gw_clock_guard_look(&guard, &now) && guard.doubt == GW_CLOCK_SURE) {
                from = (struct gw_clock_look){time_us(), now.steady_us};
                before = 0;
            }
            uint64_t steady = now.steady_us - from.steady_us;
            uint64_t went = time_us() - from.wall_us;
            uint64_t apart = went > steady ? went - steady : steady - went;
            bool near = apart <= GW_CLOCK_STEP_MAX_US + steady / GW_CLOCK_DRIFT + SECOND;
            if (time_us() < before || !near || sure_us() > time_us()) {
                fail_msg("seed %llu, look %d: %llu after %llu, %llu apart in %llu",
                         (unsigned long long)seed, i, (unsigned long long)time_us(),
                         (unsigned long long)before, (unsigned long long)apart,
                         (unsigned long long)steady);
            }
            before = time_us();
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_corrections_count),
        cmocka_unit_test(test_a_jump_is_not_followed),
        cmocka_unit_test(test_the_reason_follows_the_clock),
        cmocka_unit_test(test_walking_is_not_followed),
        cmocka_unit_test(test_steps_add_up),
        cmocka_unit_test(test_accepted),
        cmocka_unit_test(test_coming_back_is_no_leap),
        cmocka_unit_test(test_at_the_start),
        cmocka_unit_test(test_a_doubt_outlasts_a_start),
        cmocka_unit_test(test_rules_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
