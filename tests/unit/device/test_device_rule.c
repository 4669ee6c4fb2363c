// Decisions between device and cloud that runs tell of: counted for the version since it was
// activated, over kills, told with its first run and each time when they have doubled.
#include "device_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TASK "demo/score"

static struct rig rig;

static int setup(void **state)
{
    (void)state;
    rig_init(&rig);
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t version = rig_version_add(&rig, TASK, 1, 100 + i, WIRE_RUNTIME_ABI, 1);
        rig.versions[version].cloud = (struct wire_cloud_counts){3, 2, 1, 1, {[2] = 1}};
    }
    rig_boot(&rig);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    rig_done(&rig);
    return 0;
}

static void install(uint32_t version, uint64_t counter)
{
    struct rig_statement statement = {
        .task = TASK, .version = version, .counter = counter, .rollout_id = counter};
    rig_offer(&rig, &statement);
    rig_checkin(&rig);
    rig_offer_none(&rig);
}

// The last RAN that was told.
static struct wire_cloud_counts told(void)
{
    struct wire_cloud_counts counts = {.asked = 0};
    const struct rig_outcome *last = rig_last(&rig, WIRE_OUTCOME_RAN);
    assert_non_null(last);
    assert_true(wire_cloud_figures_get(&last->outcome.figures, &counts));
    return counts;
}

// Some seconds, with a run in each, and what is to be told.
static void run_for(uint32_t seconds)
{
    rig.run_on = true;
    rig_run(&rig, seconds * 1000000ull);
    rig.run_on = false;
    rig_checkin(&rig);
}

static void test_told_when_they_double(void **state)
{
    (void)state;
    install(0, 1);
    assert_true(rig.versions[0].runs >= 1);
    assert_int_equal(told().asked, 3); // with the first run, however few
    for (uint32_t i = 0; i < 40; i++) {
        if (i % 3 == 0) { // nothing of it is lost
            rig_kill(&rig);
            rig_boot(&rig);
        }
        uint32_t before = told().asked;
        run_for(3);
        struct wire_cloud_counts now = told();
        assert_true(now.asked == before || (now.asked >= 8 && now.asked >= 2 * before));
        assert_int_equal(now.sent * 3, now.asked * 2);
        assert_int_equal(now.answered * 3, now.asked);
        assert_int_equal(now.differed, now.answered);
        assert_int_equal(now.times[2], now.answered);
        assert_true(now.asked * 2 >= 3 * rig.versions[0].runs);
    }
    assert_in_range(rig_count(&rig, WIRE_OUTCOME_RAN), 6, 8); // 3, 9, 18, 36, 72, ..
}

// Another version begins anew, and so does the same one by another rollout.
static void test_a_version_begins_anew(void **state)
{
    (void)state;
    install(0, 1);
    run_for(12);
    assert_true(told().asked > 8);
    install(1, 2);
    assert_int_equal(told().asked, 3);
    run_for(12);
    assert_true(told().asked > 8);
    install(1, 3);
    assert_int_equal(told().asked, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_told_when_they_double, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_version_begins_anew, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
