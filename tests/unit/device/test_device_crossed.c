// What a device does when the metadata that comes crossed what was published: a newer snapshot
// between two requests, as a gateway needs that knows no question for all of it; one longer than
// was named; a timestamp of a worker that is behind.
#include "role_rig.h"

#include "core/trust/trust_parts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define TASK       "demo/score"
#define STAGE_FULL 3

static struct role_rig roles;
static struct rig *rig = &roles.rig;

static int teardown(void **state)
{
    (void)state;
    role_rig_done(&roles);
    return 0;
}

static void release(uint32_t version, uint64_t counter)
{
    struct rig_statement statement = {.task = TASK,
                                      .version = version,
                                      .counter = counter,
                                      .rollout_id = counter,
                                      .stage = STAGE_FULL};
    role_release(&roles, &statement);
}

static const struct dev_stats *stats(void)
{
    static struct dev_stats now;
    dev_stats(rig->runtime, &now);
    return &now;
}

// The device has the first version; the second is released.
static void settled(void)
{
    role_rig_init(&roles, 0);
    roles.apart = true;
    rig_version_add(rig, TASK, 1, 100, WIRE_RUNTIME_ABI, 0);
    rig_version_add(rig, TASK, 2, 200, WIRE_RUNTIME_ABI, 0);
    rig_boot(rig);
    release(0, 1);
    rig_checkin(rig);
    assert_int_equal(rig_active(rig, TASK), 0);
    release(1, 2);
}

static void expect_refused(void)
{
    rig_checkin(rig);
    assert_true(stats()->refused_metadata > 0);
    assert_int_equal(rig_active(rig, TASK), 0);
    assert_int_equal(rig->versions[1].runs, 0);
    assert_true(rig->ledger_count > 0);
    assert_true(rig->ledger[rig->ledger_count - 1].outcome.fingerprint ==
                (uint64_t)(-(int64_t)BASE_ERR_HASH));
}

static void test_snapshot_published_in_between(void **state)
{
    (void)state;
    settled();
    roles.publish_between = DEV_CROSSED_MAX;
    rig_checkin(rig);
    assert_int_equal(rig_active(rig, TASK), 1);
    assert_int_equal(stats()->refused_metadata, 0);
}

static void test_snapshot_that_is_never_the_one_named(void **state)
{
    (void)state;
    settled();
    roles.publish_between = DEV_CROSSED_MAX + 1;
    expect_refused();
}

// Nothing of what is too long is waited for: it is given up, and asked for again at once.
static void test_snapshot_longer_than_named(void **state)
{
    (void)state;
    settled();
    uint32_t cancelled = rig->port.http.cancelled;
    roles.longer_snapshots = 1;
    dev_checkin_now(rig->runtime);
    rig_run(rig, 900 * 1000ull);
    assert_int_equal(rig_active(rig, TASK), 1);
    assert_int_equal(rig->port.http.cancelled, cancelled + 1);
    assert_int_equal(stats()->refused_metadata, 0);
    role_rig_done(&roles);
    settled();
    roles.longer_snapshots = DEV_CROSSED_MAX + 1;
    expect_refused();
}

// How often it crossed is counted anew in each cycle.
static void test_each_cycle_may_cross_again(void **state)
{
    (void)state;
    settled();
    for (uint32_t i = 0; i < 3; i++) {
        roles.publish_between = DEV_CROSSED_MAX;
        rig_checkin(rig);
        assert_int_equal(rig_active(rig, TASK), (i + 1) % 2);
        assert_int_equal(stats()->refused_metadata, 0);
        release(i % 2, i + 3);
    }
}

// So many times what came crossed what is published, until the device has the version: it asked at
// once, then after pauses of 1 to 3 s.
static void expect_pauses(int times)
{
    uint64_t pauses_s = times > 1 ? (uint64_t)times - 1 : 0;
    uint64_t took_us = 0;
    dev_checkin_now(rig->runtime);
    for (uint64_t before_us = rig->port.clock.mono_us; rig_active(rig, TASK) != 1;
         took_us = rig->port.clock.mono_us - before_us) {
        assert_true(took_us < 120 * 1000000ull);
        rig_run(rig, 100 * 1000ull);
    }
    assert_in_range(took_us, pauses_s * 1000000, pauses_s * 3000000 + 999999);
    assert_int_equal(stats()->refused_metadata, 0);
    role_rig_done(&roles);
}

// Published again and again between two requests; served by a worker that is behind another one.
static void test_crossed_metadata_is_asked_for_later(void **state)
{
    (void)state;
    for (int times = 0; times <= DEV_CROSSED_MAX; times++) {
        settled();
        roles.publish_between = times;
        expect_pauses(times);
        for (int apart = 0; apart < 2; apart++) {
            settled();
            roles.apart = apart;
            roles.older_timestamps = times;
            expect_pauses(times);
        }
    }
    settled();
}

int main(void)
{
#define CASE(name) cmocka_unit_test_teardown(name, teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_snapshot_published_in_between),
        CASE(test_snapshot_that_is_never_the_one_named),
        CASE(test_snapshot_longer_than_named),
        CASE(test_each_cycle_may_cross_again),
        CASE(test_crossed_metadata_is_asked_for_later),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
