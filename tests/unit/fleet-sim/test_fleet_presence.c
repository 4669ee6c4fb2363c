// Sessions of people: the next one is never before it is asked for, the same however often it is
// asked for, more frequent in the evening of where they live, and some people come seldom.
#include "test_kit.h"

#include "people/presence.h"

#define PEOPLE  2000u
#define HOUR_MS UINT64_C(3600000)

static void asking_again_changes_nothing(void **state)
{
    (void)state;
    uint32_t seen = 0;
    for (uint32_t i = 0; i < 300; i++) {
        const struct sim_person person = {.seed = 4, .index = i, .zone = i % 24};
        uint64_t ms = i * 1234567ull;
        uint64_t next_ms = sim_presence_next_ms(&person, ms);
        assert_true(next_ms >= ms);
        if (next_ms > ms + (SIM_PRESENCE_DAYS - 1) * 24 * HOUR_MS) {
            continue; // nobody stays away longer, whatever the sessions are
        }
        seen++;
        // The app is open then; and between the two it is not.
        assert_true(sim_presence_next_ms(&person, next_ms) == next_ms);
        assert_true(sim_presence_next_ms(&person, ms + (next_ms - ms) / 2) == next_ms);
    }
    assert_true(seen > 290);
}

// Share of the people whose app is open within ten minutes of this hour.
static double open_at(uint32_t zone, uint32_t from_hour, uint64_t hour)
{
    uint32_t open = 0;
    for (uint32_t i = 0; i < PEOPLE; i++) {
        const struct sim_person person = {
            .seed = 4, .index = i, .zone = zone, .from_hour = from_hour};
        uint64_t ms = hour * HOUR_MS + HOUR_MS / 2;
        open += sim_presence_next_ms(&person, ms) < ms + HOUR_MS / 6;
    }
    return (double)open / PEOPLE;
}

static void evenings_are_where_people_live(void **state)
{
    (void)state;
    double night = open_at(0, 0, 3);
    double evening = open_at(0, 0, 21);
    if (!(evening > 4 * night && evening > 0.05 && evening < 0.5)) {
        fail_msg("at night %.3f, in the evening %.3f", night, evening);
    }
    // 13 hours of UTC are 21 where it is 8 hours later; so is a run's third hour that began at 10.
    assert_true(open_at(8, 0, 13) > 4 * night);
    assert_true(open_at(8, 10, 3) > 4 * night);
    assert_true(open_at(8, 0, 19) < 2.5 * night);
}

static void gaps_have_a_long_tail(void **state)
{
    (void)state;
    uint32_t within_hours = 0;
    uint32_t over_days = 0;
    for (uint32_t i = 0; i < PEOPLE; i++) {
        const struct sim_person person = {.seed = 9, .index = i};
        uint64_t next_ms = sim_presence_next_ms(&person, 12 * HOUR_MS) - 12 * HOUR_MS;
        within_hours += next_ms < 3 * HOUR_MS;
        over_days += next_ms > 72 * HOUR_MS;
    }
    if (!(within_hours > PEOPLE / 4 && over_days > PEOPLE / 40 && over_days < PEOPLE / 4)) {
        fail_msg("%u within three hours, %u after three days", within_hours, over_days);
    }
}

static void a_day_is_whole(void **state)
{
    (void)state;
    uint32_t sum = 0;
    for (uint32_t i = 0; i < SIM_DAY_HOURS; i++) {
        sum += sim_day_hours[i];
    }
    assert_int_equal(sum, 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(asking_again_changes_nothing),
        cmocka_unit_test(evenings_are_where_people_live),
        cmocka_unit_test(gaps_have_a_long_tail),
        cmocka_unit_test(a_day_is_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
