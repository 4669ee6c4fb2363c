// Killed at every call that acts on the outside, in turn, and failed at every storage operation, in
// turn: after a reboot the device must converge to the right version, run nothing that was not
// verified, number its outcomes right and leave no garbage.
#include "exclusive_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#define TASK      "demo/score"
#define CALLS_MAX 400 // a scenario ends long before
#define DAY_US    (86400 * 1000000ull)
#define CONTROL   10 // the rollout that marks

enum scenario {
    FIRST_INSTALL,
    UPDATE,
    UPDATE_BY_DELTA,
    UPDATE_FAILS,
    GO_BACK,
    STOP,
    SHADOW,
    SHADOW_THEN_UPDATE,
    UPDATE_EXCLUSIVE,
    REPAIR,
    AGAIN,
    AGAIN_FAILS,
    SCENARIO_COUNT
};

static struct rig rig;
static struct exclusive_rig exclusive;

static void offer(uint32_t version, uint64_t counter)
{
    struct rig_statement statement = {
        .task = TASK, .version = version, .counter = counter, .rollout_id = 9};
    rig_offer(&rig, &statement);
}

static void offer_shadow(void)
{
    struct rig_statement statement = {
        .task = TASK, .version = 1, .counter = 2, .rollout_id = 9, .shadow = true};
    rig_offer(&rig, &statement);
}

static void damage(const struct wire_sha256 *name)
{
    struct mem_blob *blob = mem_blob_find(&rig.port, name);
    assert_non_null(blob);
    blob->bytes[blob->size / 2] ^= 1;
}

// Both versions damaged, and the day's check is due.
static void prepare_repair(void)
{
    offer(1, 2);
    rig_checkin(&rig);
    assert_int_equal(rig_active(&rig, TASK), 1);
    damage(&rig.versions[1].manifest);
    damage(&rig.versions[1].files[1].digest);
    damage(&rig.versions[0].files[0].digest);
    mem_clock_advance(&rig.port, DAY_US);
    offer(1, 2); // the same statement, in date
}

// Brings the device to where the scenario starts, and sets the offer it is about.
static void prepare(enum scenario scenario, bool lose_partials)
{
    rig_init(&rig);
    if (scenario == UPDATE_EXCLUSIVE) {
        exclusive_rig_init(&exclusive, &rig);
    }
    rig.chunk = scenario == UPDATE_BY_DELTA ? 60 : 700;
    rig.deltas = scenario == UPDATE_BY_DELTA;
    rig.port.storage.lose_partials = lose_partials;
    rig_version_add(&rig, TASK, 2, 3000, WIRE_RUNTIME_ABI, 0);
    rig_version_add(&rig, TASK, 3, 2000, WIRE_RUNTIME_ABI, 0);
    rig_boot(&rig);
    if (scenario != FIRST_INSTALL) {
        offer(0, 1);
        rig_checkin(&rig);
        assert_int_equal(rig_active(&rig, TASK), 0);
    }
    if (scenario == GO_BACK) {
        offer(1, 2);
        rig_checkin(&rig);
        assert_int_equal(rig_active(&rig, TASK), 1);
    }
    if (scenario == UPDATE_FAILS) {
        rig.versions[1].ends = WIRE_OUTCOME_FAIL_EXCEPTION;
    }
    if (scenario == SHADOW_THEN_UPDATE) {
        offer_shadow();
        rig_checkin(&rig);
        assert_int_equal(rig_count(&rig, WIRE_OUTCOME_SHADOW_AGREED), 1);
    }
    if (scenario == REPAIR) {
        prepare_repair();
    } else if (scenario == AGAIN || scenario == AGAIN_FAILS) {
        bool fails = scenario == AGAIN_FAILS;
        rig.versions[0].ends = fails ? WIRE_OUTCOME_FAIL_EXCEPTION : WIRE_OUTCOME_RAN;
        rig_offer_none(&rig);
        rig_mark(&rig, TASK, CONTROL, 0);
    } else if (scenario == SHADOW) {
        offer_shadow();
    } else if (scenario == GO_BACK) {
        offer(0, 1); // the approval of before
    } else if (scenario == STOP) {
        rig_offer_stop(&rig, TASK);
    } else {
        offer(scenario == FIRST_INSTALL ? 0 : 1, 2);
    }
}

static int wanted(enum scenario scenario)
{
    bool update = scenario == UPDATE || scenario == UPDATE_BY_DELTA ||
                  scenario == SHADOW_THEN_UPDATE || scenario == UPDATE_EXCLUSIVE ||
                  scenario == REPAIR;
    return update ? 1 : scenario == STOP ? -1 : 0;
}

static void check_end(enum scenario scenario, const char *what, uint64_t n)
{
    if (rig_active(&rig, TASK) != wanted(scenario) || rig.ran_unverified) {
        fail_msg("scenario %d, %s %llu: active %d, wanted %d, unverified run: %d", (int)scenario,
                 what, (unsigned long long)n, rig_active(&rig, TASK), wanted(scenario),
                 rig.ran_unverified);
    }
    assert_true(dev_is_idle(rig.runtime));
    assert_false(exclusive.asked_for_more);
    enum wire_outcome_kind news = scenario == UPDATE_FAILS || scenario == GO_BACK
                                      ? WIRE_OUTCOME_ROLLED_BACK
                                  : scenario == REPAIR      ? WIRE_OUTCOME_FAIL_INTEGRITY
                                  : scenario == AGAIN_FAILS ? WIRE_OUTCOME_FAIL_EXCEPTION
                                  : scenario == STOP        ? WIRE_OUTCOME_REMOVED
                                  : scenario == SHADOW      ? WIRE_OUTCOME_SHADOW_AGREED
                                                            : WIRE_OUTCOME_RAN;
    const struct rig_outcome *crash = rig_last(&rig, WIRE_OUTCOME_FAIL_CRASH);
    // Killed in its run, which is its own fault: nothing is left of it.
    bool shadow_crashed = scenario == SHADOW && crash != NULL && crash->outcome.rollout_id == 9;
    assert_true(shadow_crashed || rig_last(&rig, news) != NULL);
    if (scenario == AGAIN || scenario == AGAIN_FAILS) {
        assert_int_equal(rig_last(&rig, news)->outcome.rollout_id, CONTROL);
        assert_int_equal(rig_last(&rig, WIRE_OUTCOME_ACTIVATED)->outcome.rollout_id, CONTROL);
        assert_int_equal(rig_count(&rig, WIRE_OUTCOME_ROLLED_BACK), 0);
    }
    // Garbage left by a kill goes with the next boot.
    rig_kill(&rig);
    rig_boot(&rig);
    rig_checkin(&rig);
    static const uint32_t blobs[SCENARIO_COUNT] = {
        [FIRST_INSTALL] = 3,   [UPDATE] = 7,
        [UPDATE_BY_DELTA] = 7, [UPDATE_FAILS] = 3,
        [GO_BACK] = 3,         [STOP] = 0,
        [SHADOW] = 7,          [SHADOW_THEN_UPDATE] = 7,
        [AGAIN] = 3,           [AGAIN_FAILS] = 3,
        [REPAIR] = 7,          [UPDATE_EXCLUSIVE] = 7 + 2 * (1 + EXCLUSIVE_FILES)};
    uint32_t left = shadow_crashed ? blobs[UPDATE_FAILS] : blobs[scenario];
    if (mem_blob_count(&rig.port) != left) {
        fail_msg("scenario %d, %s %llu: %u blobs, wanted %u", (int)scenario, what,
                 (unsigned long long)n, mem_blob_count(&rig.port), left);
    }
}

// Numbers of one epoch must be used without gaps.
static void check_ledger(void)
{
    for (uint32_t i = 0; i < rig.ledger_count; i++) {
        bool before = rig.ledger[i].seq == 1;
        for (uint32_t j = 0; j < rig.ledger_count && !before; j++) {
            before = rig.ledger[j].epoch == rig.ledger[i].epoch &&
                     rig.ledger[j].seq + 1 == rig.ledger[i].seq;
        }
        assert_true(before);
    }
}

static void kill_everywhere(enum scenario scenario, bool lose_partials)
{
    uint64_t n = 1;
    for (; n < CALLS_MAX; n++) {
        prepare(scenario, lose_partials);
        rig.port.kill_at = rig.port.calls + n;
        rig_checkin(&rig);
        bool killed = rig.port.killed;
        rig_kill(&rig);
        rig_boot(&rig);
        rig_checkin(&rig);
        check_end(scenario, "killed at call", n);
        check_ledger();
        rig_done(&rig);
        if (!killed) {
            break;
        }
    }
    print_message("scenario %d: killed at each of %llu calls\n", (int)scenario,
                  (unsigned long long)(n - 1));
    assert_true(n > 2);
    assert_true(n < CALLS_MAX);
}

static void test_killed_at_every_call(void **state)
{
    (void)state;
    for (int scenario = 0; scenario < SCENARIO_COUNT; scenario++) {
        kill_everywhere((enum scenario)scenario, false);
        kill_everywhere((enum scenario)scenario, true);
    }
}

// Killed at one call, rebooted, and killed at another one.
static void test_killed_twice(void **state)
{
    (void)state;
    for (uint64_t first = 1; first < 40; first += 3) {
        for (uint64_t second = 1; second < 40; second += 2) {
            enum scenario scenario = second % 8 < 4 ? UPDATE : UPDATE_BY_DELTA;
            prepare(scenario, second % 4 == 1);
            rig.port.kill_at = rig.port.calls + first;
            rig_checkin(&rig);
            rig_kill(&rig);
            rig.port.kill_at = rig.port.calls + second;
            rig_boot(&rig);
            rig_checkin(&rig);
            rig_kill(&rig);
            rig_boot(&rig);
            rig_checkin(&rig);
            check_end(scenario, "killed twice, first at", first);
            check_ledger();
            rig_done(&rig);
        }
    }
}

static void fail_everywhere(enum scenario scenario, enum base_status status, bool lasting)
{
    uint64_t n = 1;
    for (; n < CALLS_MAX; n++) {
        prepare(scenario, false);
        struct mem_storage *storage = &rig.port.storage;
        uint64_t before = storage->operations;
        storage->fail_status = status;
        *(lasting ? &storage->fail_from : &storage->fail_at) = before + n;
        rig_checkin(&rig);
        bool failed = storage->operations >= before + n;
        storage->fail_from = 0;
        storage->fail_at = 0;
        rig_checkin(&rig);
        rig_checkin(&rig);
        check_end(scenario, "storage failed at operation", n);
        check_ledger();
        rig_done(&rig);
        if (!failed) {
            break;
        }
    }
    assert_true(n > 2);
    assert_true(n < CALLS_MAX);
}

static void test_storage_fails_at_every_operation(void **state)
{
    (void)state;
    for (int scenario = 0; scenario < SCENARIO_COUNT; scenario++) {
        fail_everywhere((enum scenario)scenario, BASE_ERR_IO, false);
        fail_everywhere((enum scenario)scenario, BASE_ERR_FULL, false);
        fail_everywhere((enum scenario)scenario, BASE_ERR_FULL, true);
    }
}

static void test_storage_fails_and_is_killed(void **state)
{
    (void)state;
    for (uint64_t n = 1; n < 60; n++) {
        prepare(UPDATE, true);
        rig.port.storage.fail_from = rig.port.storage.operations + n;
        rig_checkin(&rig);
        rig.port.storage.fail_from = 0;
        rig_kill(&rig);
        rig_boot(&rig);
        rig_checkin(&rig);
        check_end(UPDATE, "storage failed, then killed", n);
        check_ledger();
        rig_done(&rig);
    }
}

static void test_boot_twice_is_boot_once(void **state)
{
    (void)state;
    for (uint64_t n = 1; n < 40; n++) {
        prepare(UPDATE, false);
        rig.port.kill_at = rig.port.calls + n;
        rig_checkin(&rig);
        rig_kill(&rig);
        rig_boot(&rig);
        static struct mem_storage once;
        once = rig.port.storage;
        rig_boot(&rig);
        assert_int_equal(once.state_bytes, rig.port.storage.state_bytes);
        assert_memory_equal(once.state, rig.port.storage.state, once.state_bytes);
        rig_done(&rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_killed_at_every_call),
        cmocka_unit_test(test_killed_twice),
        cmocka_unit_test(test_storage_fails_at_every_operation),
        cmocka_unit_test(test_storage_fails_and_is_killed),
        cmocka_unit_test(test_boot_twice_is_boot_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
