// Timers fire in order of slots, never early, at most a slot late; also when they are set, moved
// and removed from inside a firing.
#include "http/loop/timer_wheel.h"

#include "test_kit.h"

#define TIMERS 300

struct fired {
    struct gw_wheel *wheel;
    uint64_t now_ms;
    uint32_t count;
    struct gw_timer *remove;
    struct gw_timer *again;
};

static void count_firing(void *ctx, struct gw_timer *timer)
{
    struct fired *fired = ctx;
    fired->count++;
    assert_true(timer->due_ms <= fired->now_ms);
    assert_false(gw_timer_is_set(timer));
    if (fired->remove != NULL) {
        gw_wheel_remove(fired->remove);
    }
    if (fired->again == timer) {
        gw_wheel_set(fired->wheel, timer, fired->now_ms);
        fired->again = NULL;
    }
}

static uint32_t advance(struct fired *fired, uint64_t now_ms)
{
    fired->now_ms = now_ms;
    fired->count = 0;
    gw_wheel_advance(fired->wheel, now_ms, count_firing, fired);
    return fired->count;
}

static void test_never_early_never_a_slot_late(void **state)
{
    (void)state;
    struct gw_wheel wheel;
    struct fired fired = {.wheel = &wheel};
    struct gw_timer timers[TIMERS] = {0};
    uint64_t start = 1000000;
    gw_wheel_init(&wheel, start);
    for (uint32_t i = 0; i < TIMERS; i++) {
        gw_wheel_set(&wheel, &timers[i], start + i * 997); // up to nearly 300 s: several rounds
    }
    uint32_t total = 0;
    for (uint64_t now = start; now < start + 310000; now += 50) {
        total += advance(&fired, now);
        uint32_t least = now >= start + GW_WHEEL_SLOT_MS
                             ? (uint32_t)((now - start - GW_WHEEL_SLOT_MS) / 997) + 1
                             : 0;
        assert_true(total >= (least < TIMERS ? least : TIMERS));
    }
    assert_int_equal(total, TIMERS);
}

static void test_past_times_fire_at_the_next_advance(void **state)
{
    (void)state;
    struct gw_wheel wheel;
    struct fired fired = {.wheel = &wheel};
    struct gw_timer timer = {0};
    gw_wheel_init(&wheel, 5000);
    gw_wheel_set(&wheel, &timer, 10);
    assert_int_equal(advance(&fired, 5000 + GW_WHEEL_SLOT_MS), 1);
}

static void test_moved_and_removed_timers(void **state)
{
    (void)state;
    struct gw_wheel wheel;
    struct fired fired = {.wheel = &wheel};
    struct gw_timer timer = {0};
    gw_wheel_init(&wheel, 0);
    gw_wheel_set(&wheel, &timer, 100);
    gw_wheel_set(&wheel, &timer, 5000);
    assert_int_equal(advance(&fired, 4999), 0);
    assert_int_equal(advance(&fired, 6000), 1);
    gw_wheel_set(&wheel, &timer, 7000);
    gw_wheel_remove(&timer);
    gw_wheel_remove(&timer);
    assert_int_equal(advance(&fired, 90000), 0);
}

static void test_firing_may_change_timers_of_its_slot(void **state)
{
    (void)state;
    struct gw_wheel wheel;
    struct fired fired = {.wheel = &wheel};
    struct gw_timer timers[3] = {0};
    gw_wheel_init(&wheel, 0);
    for (uint32_t i = 0; i < 3; i++) {
        gw_wheel_set(&wheel, &timers[i], 300);
    }
    fired.remove = &timers[1];
    fired.again = &timers[2];
    uint32_t first = advance(&fired, 1000);
    assert_int_equal(first, 2); // one of three was taken out by another
    assert_true(gw_timer_is_set(&timers[2]));
    assert_int_equal(advance(&fired, 2000), 1);
}

static void test_a_long_pause_misses_nothing(void **state)
{
    (void)state;
    struct gw_wheel wheel;
    struct fired fired = {.wheel = &wheel};
    struct gw_timer timers[TIMERS] = {0};
    gw_wheel_init(&wheel, 0);
    for (uint32_t i = 0; i < TIMERS; i++) {
        gw_wheel_set(&wheel, &timers[i], i * 1000);
    }
    assert_int_equal(advance(&fired, 10000000), TIMERS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_never_early_never_a_slot_late),
        cmocka_unit_test(test_past_times_fire_at_the_next_advance),
        cmocka_unit_test(test_moved_and_removed_timers),
        cmocka_unit_test(test_firing_may_change_timers_of_its_slot),
        cmocka_unit_test(test_a_long_pause_misses_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
