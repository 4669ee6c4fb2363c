// What a device remembers of what it runs no more: versions that failed there, and tasks that were
// stopped, whose places are free.
#include "orders_kit.h"

#include "core/sweep/device_past.h"

#define OTHER "demo/other"

static int setup(void **state)
{
    (void)state;
    role_rig_init(&roles, 0);
    for (uint32_t i = 0; i < 3; i++) {
        rig_version_add(rig, TASK, 1, 100 * (i + 1), WIRE_RUNTIME_ABI, 0);
    }
    return 0;
}

// The last outcome is a refusal below the floor, or of another content.
static void expect_rollback(void)
{
    assert_true(rig->ledger_count > 0);
    const struct rig_outcome *last = &rig->ledger[rig->ledger_count - 1];
    assert_true(last->outcome.fingerprint == (uint64_t)(-(int64_t)BASE_ERR_ROLLBACK));
    assert_int_equal(rig_active(rig, TASK), -1);
}

// Two failed here: neither is tried again by what was approved before, and both are told; until
// one is to be tried again.
static void test_all_that_failed_here_is_refused(void **state)
{
    (void)state;
    uint64_t task_id = wire_task_id(BASE_STR(TASK));
    rig->versions[1].ends = WIRE_OUTCOME_FAIL_EXCEPTION;
    rig->versions[2].ends = WIRE_OUTCOME_FAIL_EXCEPTION;
    rig_boot(rig);
    install(0);
    for (uint32_t version = 1; version <= 2; version++) {
        struct rig_statement bad = approval(version);
        role_release(&roles, &bad);
        rig_checkin(rig);
        assert_int_equal(rig_active(rig, TASK), 0);
    }
    uint64_t first = wire_version_id(&rig->versions[1].manifest);
    uint64_t mark = wire_profile_version_mark(task_id, first);
    assert_true(rig->runtime->tasks[0].slots.blocked ==
                wire_version_id(&rig->versions[2].manifest));
    assert_true(dev_refusals_stands(&rig->runtime->refusals, mark));
    restart();
    assert_true(dev_refusals_stands(&rig->runtime->refusals, mark));
    uint32_t runs = rig->versions[1].runs;
    order(1);
    assert_int_equal(rig_active(rig, TASK), 0);
    assert_int_equal(rig->versions[1].runs, runs);
    rig->offer_flags = WIRE_OFFER_FLAG_RETRY;
    order(1);
    assert_int_equal(rig->versions[1].runs, runs + 1);
    rig->offer_flags = 0;
    // It failed again, so now it is the last one.
    assert_true(rig->runtime->tasks[0].slots.blocked == first);
    assert_false(dev_refusals_stands(&rig->runtime->refusals, mark));
    runs = rig->versions[2].runs;
    order(2);
    assert_int_equal(rig->versions[2].runs, runs);
}

// One place, and the task that had it is stopped: another takes it. What was stopped comes again
// only above its floor, and never under other content; not even after a restart.
static void test_a_stopped_task_gives_its_place_back(void **state)
{
    (void)state;
    rig->config.tasks_max = 1;
    uint32_t other = rig_version_add(rig, OTHER, 1, 100, WIRE_RUNTIME_ABI, 0);
    rig_boot(rig);
    install(0);
    struct rig_statement raised = approval(1);
    raised.floor = 2;
    role_release(&roles, &raised);
    rig_checkin(rig);
    struct rig_statement second = {.task = OTHER,
                                   .version = other,
                                   .counter = 1,
                                   .rollout_id = 0x99,
                                   .stage = STAGE_FULL,
                                   .signers = 3};
    role_release(&roles, &second);
    rig_checkin(rig);
    assert_int_equal(rig_active(rig, OTHER), -1); // no room
    rig_offer_stop(rig, TASK);
    rig_checkin(rig);
    assert_int_equal(dev_task_count(rig->runtime), 0);
    assert_true(dev_floor(rig->runtime, BASE_STR(TASK)) == 2);
    restart();
    rig_offer(rig, &second);
    rig_checkin(rig);
    assert_int_equal(rig_active(rig, OTHER), (int)other);
    rig_kill(rig);
    rig->config.tasks_max = 2;
    rig_boot(rig);
    order(0); // below the floor of what was here once
    assert_int_equal(rig_active(rig, TASK), -1);
    expect_rollback();
    struct rig_statement liar = approval(2);
    liar.counter = 2; // the newest one's
    rig_offer(rig, &liar);
    rig_checkin(rig);
    expect_rollback();
    assert_true(dev_floor(rig->runtime, BASE_STR(TASK)) == 2);
    order(1);
    assert_int_equal(rig_active(rig, TASK), 1);
    assert_true(dev_floor(rig->runtime, BASE_STR(TASK)) == 2);
    assert_int_equal(dev_task_count(rig->runtime), 2);
    assert_int_equal(rig->runtime->sweep->past_count, 0);
}

// What failed of a task before it was stopped is refused when it comes again.
static void test_a_stopped_task_refuses_what_failed(void **state)
{
    (void)state;
    rig->versions[1].ends = WIRE_OUTCOME_FAIL_EXCEPTION;
    rig_boot(rig);
    install(0);
    struct rig_statement bad = approval(1);
    role_release(&roles, &bad);
    rig_checkin(rig);
    rig_offer_stop(rig, TASK);
    rig_checkin(rig);
    assert_int_equal(dev_task_count(rig->runtime), 0);
    uint64_t failed = wire_version_id(&rig->versions[1].manifest);
    assert_true(dev_refusals_stands(
        &rig->runtime->refusals, wire_profile_version_mark(wire_task_id(BASE_STR(TASK)), failed)));
    uint32_t runs = rig->versions[1].runs;
    order(1);
    assert_int_equal(rig_active(rig, TASK), -1);
    assert_int_equal(rig->versions[1].runs, runs);
    order(0);
    assert_int_equal(rig_active(rig, TASK), 0);
}

// There is room for as many as it may hold tasks; nothing is forgotten for one more.
static void test_no_floor_is_forgotten_for_room(void **state)
{
    (void)state;
    static const char *const names[] = {"demo/a", "demo/b", "demo/c"};
    rig->config.tasks_max = 2;
    rig_boot(rig);
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t version = rig_version_add(rig, names[i], 1, 100, WIRE_RUNTIME_ABI, 0);
        struct rig_statement statement = {.task = names[i],
                                          .version = version,
                                          .counter = 5,
                                          .floor = 4,
                                          .rollout_id = 0x40 + i,
                                          .stage = STAGE_FULL,
                                          .signers = 3};
        role_release(&roles, &statement);
        rig_checkin(rig);
        assert_int_equal(rig_active(rig, names[i]), (int)version);
        rig_offer_stop(rig, names[i]);
        rig_checkin(rig);
        assert_int_equal(rig_active(rig, names[i]), -1);
    }
    assert_int_equal(dev_task_count(rig->runtime), 1); // keeps its place
    restart();
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(dev_floor(rig->runtime, base_str_of(names[i])) == 4);
    }
    assert_true(dev_validate(rig->runtime));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_all_that_failed_here_is_refused),
        CASE(test_a_stopped_task_gives_its_place_back),
        CASE(test_a_stopped_task_refuses_what_failed),
        CASE(test_no_floor_is_forgotten_for_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
