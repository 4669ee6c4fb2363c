// Rates, ramps, caps and maintenance windows, against plain arithmetic.
#include "test_kit.h"

#include "policy/pace.h"

#define SECOND 1000000u
#define MINUTE (60u * SECOND)

// The example in the documentation of a well-known job service: base 50, factor 2, every 1,000.
static void the_ramp_doubles(void **state)
{
    (void)state;
    struct pol_pace pace = {
        .per_minute = 50, .factor_percent = 200, .step = 1000, .max_per_minute = 300};
    static const uint64_t rows[][2] = {{0, 50},     {999, 50},   {1000, 100},   {2000, 200},
                                       {2999, 200}, {3000, 300}, {1 << 30, 300}};
    assert_true(pol_pace_check(&pace));
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        assert_int_equal(pol_pace_rate(&pace, rows[i][0], 7), rows[i][1]);
    }
    pace.by_success = true;
    assert_int_equal(pol_pace_rate(&pace, 5000, 999), 50);
    assert_int_equal(pol_pace_rate(&pace, 0, 2000), 200);
    pace.max_per_minute = 0; // even then there is an end
    assert_true(pol_pace_rate(&pace, 0, UINT64_MAX) <= 100000000u);
}

static void no_pace_is_no_bound(void **state)
{
    (void)state;
    struct pol_pace pace = {0};
    struct pol_pace_state pacing = {0};
    assert_true(pol_pace_check(&pace));
    assert_true(pol_pace_grant(&pace, &pacing,
                               (struct pol_pace_counts){
                                   .unused = 5, .offered = 0, .succeeded = 0, .in_flight = 1 << 20},
                               1) == POL_PACE_UNLIMITED);
}

// Whatever the pattern of calls and use, no minute sees more than the rate and a second's worth.
static void never_faster_than_the_rate(void **state)
{
    (void)state;
    struct base_prng prng;
    test_seed(&prng);
    for (unsigned round = 0; round < 200; round++) {
        uint64_t rate = 1 + base_prng_below(&prng, 100000);
        struct pol_pace pace = {.per_minute = (uint32_t)rate};
        struct pol_pace_state pacing = {0};
        uint64_t now = 1 + base_prng_below(&prng, MINUTE);
        uint64_t begin = now;
        uint64_t offered = 0;
        uint64_t left = 0;
        bool greedy = base_prng_below(&prng, 2) == 0;
        while (now < begin + 5 * (uint64_t)MINUTE) {
            uint64_t grant = pol_pace_grant(
                &pace, &pacing,
                (struct pol_pace_counts){
                    .unused = left, .offered = offered, .succeeded = 0, .in_flight = 0},
                now);
            uint64_t use = greedy ? grant : base_prng_below(&prng, grant + 1);
            offered += use;
            left = grant - use;
            uint64_t most = rate * (now - begin) / MINUTE + rate / 60 + 2;
            if (offered > most) {
                fail_msg("rate %llu: %llu offered after %llu us", (unsigned long long)rate,
                         (unsigned long long)offered, (unsigned long long)(now - begin));
            }
            now += 1 + base_prng_below(&prng, SECOND);
        }
        if (greedy && rate > 100) { // and not much slower either
            assert_true(offered + rate / 30 + 2 >= rate * (now - begin) / MINUTE);
        }
    }
}

static void the_cap_keeps_back_what_is_under_way(void **state)
{
    (void)state;
    struct pol_pace pace = {.in_flight_max = 10};
    struct pol_pace_state pacing = {0};
    assert_int_equal(
        pol_pace_grant(
            &pace, &pacing,
            (struct pol_pace_counts){.unused = 0, .offered = 0, .succeeded = 0, .in_flight = 0}, 1),
        10);
    assert_int_equal(
        pol_pace_grant(
            &pace, &pacing,
            (struct pol_pace_counts){.unused = 3, .offered = 0, .succeeded = 0, .in_flight = 7}, 2),
        3);
    assert_int_equal(pol_pace_grant(&pace, &pacing,
                                    (struct pol_pace_counts){
                                        .unused = 0, .offered = 0, .succeeded = 0, .in_flight = 10},
                                    3),
                     0);
    assert_int_equal(pol_pace_grant(&pace, &pacing,
                                    (struct pol_pace_counts){
                                        .unused = 0, .offered = 0, .succeeded = 0, .in_flight = 99},
                                    4),
                     0);
    // With a rate beside it the smaller one counts, and nothing is lost to the cap.
    pace.per_minute = 600;
    pacing = (struct pol_pace_state){.updated_us = 1};
    assert_int_equal(pol_pace_grant(&pace, &pacing,
                                    (struct pol_pace_counts){
                                        .unused = 0, .offered = 0, .succeeded = 0, .in_flight = 9},
                                    1 + SECOND),
                     1);
    assert_int_equal(pol_pace_grant(&pace, &pacing,
                                    (struct pol_pace_counts){
                                        .unused = 0, .offered = 0, .succeeded = 0, .in_flight = 0},
                                    2 + SECOND),
                     9);
}

static void what_no_pace_may_be(void **state)
{
    (void)state;
    static const struct pol_pace bad[] = {
        {.per_minute = 10, .factor_percent = 99, .step = 1},
        {.per_minute = 10, .factor_percent = 1001, .step = 1},
        {.per_minute = 10, .factor_percent = 200},
        {.per_minute = 0, .factor_percent = 200, .step = 5},
        {.per_minute = 100000001},
    };
    for (size_t i = 0; i < TEST_COUNT(bad); i++) {
        assert_false(pol_pace_check(&bad[i]));
    }
}

// ---- Windows

static bool open_at(const struct pol_window *window, uint64_t now_s, int32_t offset_min)
{
    // The plain way: go back minute by minute to where it could have begun.
    int64_t clock_min = (int64_t)(now_s / 60) + (window->device_time ? offset_min : 0);
    for (int64_t back = 0; back < window->minutes; back++) {
        int64_t at = clock_min - back;
        int64_t day = at >= 0 ? at / 1440 : -((1439 - at) / 1440);
        int64_t weekday = ((day + 3) % 7 + 7) % 7; // day 0 was a Thursday; Monday is 0
        if (at - day * 1440 == window->start_min && (window->weekdays >> weekday & 1) != 0) {
            return true;
        }
    }
    return false;
}

static void windows_open_when_they_say(void **state)
{
    (void)state;
    struct base_prng prng;
    test_seed(&prng);
    for (unsigned i = 0; i < 3000; i++) {
        struct pol_window window = {.weekdays = (uint8_t)(1 + base_prng_below(&prng, 127)),
                                    .start_min = (uint16_t)base_prng_below(&prng, 1440),
                                    .minutes = (uint16_t)(1 + base_prng_below(&prng, 1440)),
                                    .device_time = base_prng_below(&prng, 2) == 0};
        int32_t offset_min = (int32_t)base_prng_below(&prng, 1681) - 840;
        uint64_t now_s = 1700000000 + base_prng_below(&prng, 100000000);
        assert_true(pol_window_check(&window));
        uint32_t wait_s = pol_windows_wait_s(&window, 1, now_s, offset_min);
        assert_int_equal(wait_s == 0, open_at(&window, now_s, offset_min));
        if (wait_s > 0) { // it opens exactly then
            assert_true(open_at(&window, now_s + wait_s, offset_min));
            assert_false(open_at(&window, now_s + wait_s - 1, offset_min));
            uint64_t between = now_s + base_prng_below(&prng, wait_s);
            assert_false(open_at(&window, between, offset_min));
        }
    }
}

static void windows_known_by_heart(void **state)
{
    (void)state;
    // Sunday 22:00 to Monday 02:00. 1,790,000,000 is Monday 21 September 2026, 14:13:20 UTC.
    struct pol_window sunday = {.weekdays = 64, .start_min = 22 * 60, .minutes = 240};
    uint64_t monday = 1790000000 - (14 * 3600 + 13 * 60 + 20);
    assert_int_equal(pol_windows_wait_s(&sunday, 1, monday, 0), 0);
    assert_int_equal(pol_windows_wait_s(&sunday, 1, monday + 7199, 0), 0);
    assert_int_equal(pol_windows_wait_s(&sunday, 1, monday + 7200, 0), 7 * 86400 - 4 * 3600);
    assert_int_equal(pol_windows_wait_s(&sunday, 1, monday - 2 * 3600 - 1, 0), 1);
    // An offset matters to the device's clock only.
    assert_int_equal(pol_windows_wait_s(&sunday, 1, monday, 120), 0);
    sunday.device_time = true;
    assert_true(pol_windows_wait_s(&sunday, 1, monday, 120) > 0);
    // The nearest of several, and none at all.
    struct pol_window both[2] = {sunday, {.weekdays = 1, .start_min = 60, .minutes = 1}};
    assert_int_equal(pol_windows_wait_s(both, 2, monday, 720), 3600);
    assert_int_equal(pol_windows_wait_s(NULL, 0, monday, 0), 0);
    struct pol_window bad = {.weekdays = 0, .start_min = 0, .minutes = 1};
    assert_false(pol_window_check(&bad));
    bad = (struct pol_window){.weekdays = 1, .start_min = 1440, .minutes = 1};
    assert_false(pol_window_check(&bad));
    bad = (struct pol_window){.weekdays = 1, .start_min = 0, .minutes = 1441};
    assert_false(pol_window_check(&bad));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_ramp_doubles),
        cmocka_unit_test(no_pace_is_no_bound),
        cmocka_unit_test(never_faster_than_the_rate),
        cmocka_unit_test(the_cap_keeps_back_what_is_under_way),
        cmocka_unit_test(what_no_pace_may_be),
        cmocka_unit_test(windows_open_when_they_say),
        cmocka_unit_test(windows_known_by_heart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
