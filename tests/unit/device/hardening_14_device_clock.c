// Clocks that are wrong around a whole device runtime: the gateway's, the signer's, its own. What
// it may take it takes, what it refuses it reports as such, and nothing stays when the clocks are
// right.
#include "role_rig.h"

#include "core/base/runtime.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define TASK       "demo/score"
#define STAGE_GRAY 2
#define STAGE_FULL 3
#define DAY        INT64_C(86400)
#define AHEAD      (300 * DAY)

static struct role_rig roles;
static struct rig *rig = &roles.rig;

static int setup(void **state)
{
    (void)state;
    role_rig_init(&roles, 600);
    for (uint32_t i = 0; i < 4; i++) {
        rig_version_add(rig, TASK, 1, 100 + i, WIRE_RUNTIME_ABI, 0);
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    role_rig_done(&roles);
    return 0;
}

static uint64_t true_s(void)
{
    return (uint64_t)((int64_t)(rig->port.clock.wall_us / 1000000) + roles.ahead_s);
}

// Sets the device's clock alone; the others stay as they are.
static void own_clock(int64_t moved_s)
{
    rig->port.clock.wall_us = (uint64_t)((int64_t)rig->port.clock.wall_us + moved_s * 1000000);
    roles.ahead_s -= moved_s;
}

// A release signed by a clock that goes with the gateway's.
static void release(uint32_t version, uint64_t counter, uint8_t stage, uint64_t signed_s)
{
    struct rig_statement statement = {.task = TASK,
                                      .version = version,
                                      .counter = counter,
                                      .floor = counter,
                                      .rollout_id = counter,
                                      .stage = stage,
                                      .issued_s = signed_s,
                                      .expires_s = signed_s + 30 * DAY};
    role_release(&roles, &statement);
}

static void come(void)
{
    for (int i = 0; i < 3; i++) { // the metadata first, then the release
        rig_checkin(rig);
    }
}

static void expect_active(int version)
{
    assert_int_equal(rig_active(rig, TASK), version);
}

// The gates of that rollout hear that the clock is what is wrong, and get to see all of them.
static void expect_late(uint64_t rollout)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < rig->ledger_count; i++) {
        const struct rig_outcome *said = &rig->ledger[i];
        if (said->outcome.kind == WIRE_OUTCOME_FAIL_CLOCK && said->outcome.rollout_id == rollout) {
            assert_non_null(strstr(said->detail, "own clock"));
            count++;
        }
    }
    assert_int_equal(count, 1);
}

static void reboot(void)
{
    rig->runtime->dirty = true;
    rig_run(rig, 1);
    rig_kill(rig);
    rig_boot(rig);
}

static void test_gateway_was_ahead_once(void **state)
{
    (void)state;
    rig_boot(rig);
    release(0, 1, STAGE_FULL, true_s());
    come();
    expect_active(0);
    uint64_t right = true_s();
    roles.ahead_s = AHEAD;
    release(1, 2, STAGE_FULL, right);
    come();
    expect_active(1); // in date by its own clock
    roles.ahead_s = 0;
    release(2, 3, STAGE_FULL, true_s());
    come();
    expect_active(2);
    reboot();
    release(3, 4, STAGE_FULL, true_s());
    come();
    expect_active(3);
    assert_int_equal(rig_count(rig, WIRE_OUTCOME_FAIL_CLOCK), 0);
}

// The signer's machine is the gateway's, and the device rebooted while all that was believed.
static void test_gateway_and_signer_were_ahead(void **state)
{
    (void)state;
    rig_boot(rig);
    release(0, 1, STAGE_FULL, true_s());
    come();
    roles.ahead_s = AHEAD;
    release(1, 2, STAGE_FULL, true_s());
    come();
    expect_active(1);
    reboot();
    roles.ahead_s = 0;
    release(2, 3, STAGE_FULL, true_s());
    come();
    expect_active(2);
}

// The same on a device whose clock was not set yet, which has nothing to hold against it. With its
// clock it finds back; until then it says what is wrong.
static void test_found_back_when_the_clock_is_set(void **state)
{
    (void)state;
    int64_t wall_s = (int64_t)(rig->port.clock.wall_us / 1000000);
    own_clock(-wall_s);
    rig_boot(rig);
    roles.ahead_s += AHEAD;
    release(0, 1, STAGE_FULL, true_s());
    come();
    expect_active(0);
    roles.ahead_s -= AHEAD;
    release(1, 2, STAGE_FULL, true_s());
    come();
    expect_active(0);
    expect_late(2);
    own_clock(wall_s);
    reboot();
    come();
    expect_active(1);
}

static void test_clock_never_set(void **state)
{
    (void)state;
    own_clock(-(int64_t)(rig->port.clock.wall_us / 1000000));
    rig_boot(rig);
    release(0, 1, STAGE_FULL, true_s());
    come();
    expect_active(0);
    release(1, 2, STAGE_FULL, true_s() - 40 * DAY); // ran out ten days ago
    come();
    expect_active(0);
    expect_late(2);
}

// Nothing tells it that it is wrong but what it refuses, for which it gives the reason to the gates
// of the release.
static void test_clock_years_ahead(void **state)
{
    (void)state;
    rig_boot(rig);
    release(0, 1, STAGE_FULL, true_s());
    come();
    own_clock(3 * 365 * DAY);
    reboot();
    release(1, 2, STAGE_FULL, true_s());
    come();
    expect_active(0);
    expect_late(2);
    own_clock(-3 * 365 * DAY);
    come();
    expect_active(1);
}

// A week ahead: root and release are in date by it, the timestamp is not.
static void test_clock_a_week_ahead(void **state)
{
    (void)state;
    rig_boot(rig);
    release(0, 1, STAGE_FULL, true_s());
    come();
    own_clock(8 * DAY);
    release(1, 2, STAGE_FULL, true_s());
    rig_checkin(rig);
    expect_active(0);
    expect_late(2); // at once
    come();
    expect_late(2); // and no more
    own_clock(-8 * DAY);
    come();
    rig_run(rig, 3600 * 1000000ull);
    expect_active(1);
}

// Time brought back brings no release back that is below the floor.
static void test_counters_stand(void **state)
{
    (void)state;
    uint64_t before = true_s();
    rig_boot(rig);
    release(1, 2, STAGE_FULL, before);
    come();
    expect_active(1);
    own_clock(-20 * DAY);
    roles.ahead_s = 0; // the gateway with it
    release(0, 1, STAGE_FULL, before);
    come();
    expect_active(1);
    assert_true(rig_count(rig, WIRE_OUTCOME_NOT_APPLICABLE) > 0);
}

// What the gateway gave while it was ahead ends as if it had been given now.
static void test_lease_of_a_lie(void **state)
{
    (void)state;
    rig_boot(rig);
    release(0, 1, STAGE_FULL, true_s());
    come();
    uint64_t right = true_s();
    roles.ahead_s = AHEAD;
    roles.lease_s = 600;
    release(1, 2, STAGE_GRAY, right);
    come();
    expect_active(1);
    roles.ahead_s = 0;
    roles.lease_s = 0; // from now on it gives none
    rig_checkin(rig);
    rig->checkin_status = 503;
    rig_run(rig, 700 * 1000000ull);
    expect_active(0);
}

// A device without a root: no gateway says what time it is.
static void rootless(void)
{
    size_t size = WIRE_PUBLIC_KEY_BYTES;
    rig->config.root = NULL;
    rig->config.root_bytes = 0;
    rig->direct = NULL;
    rig->meta = NULL;
    rig->config.trusted_key_count = 1;
    assert_int_equal(EVP_PKEY_get_raw_public_key(rig->keys[0], rig->config.trusted_keys[0], &size),
                     1);
    rig_boot(rig);
}

static void test_signer_was_ahead_without_a_root(void **state)
{
    (void)state;
    rootless();
    uint64_t right = true_s();
    roles.ahead_s = AHEAD;
    release(0, 1, STAGE_FULL, true_s());
    come();
    expect_active(0); // its own clock stands against it: nothing stays
    release(1, 2, STAGE_FULL, right);
    come();
    expect_active(1);
}

// Believed while its clock was not set: a newer statement speaks for the clock, an old one does
// not.
static void test_found_back_without_a_root(void **state)
{
    (void)state;
    int64_t wall_s = (int64_t)(rig->port.clock.wall_us / 1000000);
    own_clock(-wall_s);
    rootless();
    release(0, 1, STAGE_FULL, (uint64_t)(wall_s + AHEAD));
    come();
    expect_active(0);
    own_clock(wall_s);
    release(1, 2, STAGE_FULL, (uint64_t)(wall_s - 60 * DAY)); // ran out a month ago
    come();
    expect_active(0);
    expect_late(2);
    release(1, 3, STAGE_FULL, (uint64_t)(wall_s - DAY));
    come();
    expect_active(1);
}

int main(void)
{
#define ONE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        ONE(test_gateway_was_ahead_once),
        ONE(test_gateway_and_signer_were_ahead),
        ONE(test_found_back_when_the_clock_is_set),
        ONE(test_clock_never_set),
        ONE(test_clock_years_ahead),
        ONE(test_clock_a_week_ahead),
        ONE(test_counters_stand),
        ONE(test_lease_of_a_lie),
        ONE(test_signer_was_ahead_without_a_root),
        ONE(test_found_back_without_a_root),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
