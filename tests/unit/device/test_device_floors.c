// Floors: a device follows nothing older than what statements of versions that ran well on it name.
// One that was tried and failed, was withdrawn while it was brought, or was never more than an
// offer leaves no floor; one that ran well does for good, whoever orders back or stops.
#include "orders_kit.h"

#include "core/device_state.h"
#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

#define CALLS_MAX 900
#define EVERY_S   3600u
#define OLD       0u // was before A
#define A         1u
#define B         2u // whose statement names A as the oldest that may follow

static int setup(void **state)
{
    (void)state;
    names_floors = true;
    role_rig_init(&roles, 0);
    for (uint32_t i = 0; i < 4; i++) {
        rig_version_add(rig, TASK, 1, 100, WIRE_RUNTIME_ABI, 0);
    }
    rig_boot(rig);
    return 0;
}

static void stop(void)
{
    rig_offer_stop(rig, TASK);
    rig_checkin(rig);
}

static uint64_t task_floor(void)
{
    return dev_floor(rig->runtime, BASE_STR(TASK));
}

// It runs A, ran the old version, and B is bad.
static void begin(void)
{
    release(OLD);
    release(A);
    assert_int_equal(rig_active(rig, TASK), A);
    assert_true(task_floor() == COUNTER(OLD));
    rig->versions[B].ends = WIRE_OUTCOME_FAIL_EXCEPTION;
}

static void expect_refused(uint32_t version, int active)
{
    uint32_t before = rig_count(rig, WIRE_OUTCOME_NOT_APPLICABLE);
    order(version);
    assert_int_equal(rig_count(rig, WIRE_OUTCOME_FAIL_VERIFY), 0); // no fault of the version's
    assert_int_equal(rig_count(rig, WIRE_OUTCOME_NOT_APPLICABLE), before + 1);
    assert_int_equal(rig_last(rig, WIRE_OUTCOME_NOT_APPLICABLE)->outcome.fingerprint,
                     (uint64_t)(-(int64_t)BASE_ERR_ROLLBACK));
    assert_int_equal(rig_active(rig, TASK), active);
}

// ---- What leaves none

static void test_failed_on_trial(void **state)
{
    (void)state;
    begin();
    release(B);
    assert_int_equal(rig_active(rig, TASK), A);
    assert_int_equal(rig_count(rig, WIRE_OUTCOME_ROLLED_BACK), 1);
    assert_true(task_floor() == COUNTER(OLD));
    stop(); // A is killed
    assert_int_equal(rig_active(rig, TASK), -1);
    order(OLD);
    assert_int_equal(rig_active(rig, TASK), OLD);
    assert_int_equal(rig_count(rig, WIRE_OUTCOME_FAIL_VERIFY), 0);
}

static void test_withdrawn_while_it_was_brought(void **state)
{
    (void)state;
    begin();
    rig->blob_status = 503;
    release(B);
    assert_int_equal(rig->runtime->tasks[0].offer.accepted_by.counter, COUNTER(B));
    rig_offer_none(rig); // the rollout was aborted
    rig->blob_status = 0;
    rig_checkin(rig);
    assert_int_equal(rig_active(rig, TASK), A);
    order(OLD);
    assert_int_equal(rig_active(rig, TASK), OLD);
    stop();
    order(OLD);
    assert_int_equal(rig_active(rig, TASK), OLD);
}

static void test_crashed_on_trial(void **state)
{
    (void)state;
    begin();
    rig->hold_runs = true;
    release(B);
    for (uint32_t i = 0; i < rig->config.crash_limit; i++) {
        assert_int_equal(rig_active(rig, TASK), B);
        assert_true(task_floor() == COUNTER(OLD));
        restart();
        rig_run(rig, 1000000);
    }
    rig->hold_runs = false;
    assert_int_equal(rig_active(rig, TASK), A);
    order(OLD);
    assert_int_equal(rig_active(rig, TASK), OLD);
}

// ---- What leaves one

static void test_ran_well(void **state)
{
    (void)state;
    begin();
    rig->versions[B].ends = WIRE_OUTCOME_RAN;
    release(B);
    assert_int_equal(rig_active(rig, TASK), B);
    assert_true(task_floor() == COUNTER(A));
    expect_refused(OLD, B);
    order(A);
    assert_int_equal(rig_active(rig, TASK), A);
    restart();
    rig_run(rig, 1000000);
    assert_true(task_floor() == COUNTER(A)); // though what named it is gone
    order(OLD);
    assert_int_equal(rig_active(rig, TASK), A);
    stop();
    order(OLD);
    assert_int_equal(rig_active(rig, TASK), -1);
}

// A trial that fails gives back what it would have raised, and nothing of what was there before.
static void test_failed_above_what_ran_well(void **state)
{
    (void)state;
    begin();
    rig->versions[B].ends = WIRE_OUTCOME_RAN;
    release(B);
    rig->versions[3].ends = WIRE_OUTCOME_FAIL_EXCEPTION;
    release(3);
    assert_int_equal(rig_active(rig, TASK), B);
    assert_true(task_floor() == COUNTER(A));
    expect_refused(OLD, B);
    order(A);
    assert_int_equal(rig_active(rig, TASK), A);
}

// Approved once more under another floor: that counts when it ran by it.
static void test_approved_again(void **state)
{
    (void)state;
    begin();
    struct rig_statement again = approval(A);
    again.counter = 9;
    again.floor = 9;
    again.rollout_id = 0x99;
    role_release(&roles, &again);
    rig_checkin(rig);
    assert_int_equal(rig_active(rig, TASK), A);
    assert_true(task_floor() == 9);
    expect_refused(OLD, A);
}

// The next stage's statement may name a higher floor, of the same approval: that counts from the
// next run that ends well, however many did before.
static void test_named_higher_while_it_runs(void **state)
{
    (void)state;
    begin();
    uint32_t again = rig_version_add(rig, TASK, 1, 100, WIRE_RUNTIME_ABI, EVERY_S);
    struct rig_statement statement = approval(again);
    statement.floor = COUNTER(OLD);
    statement.stage = STAGE_FULL - 1;
    role_release(&roles, &statement);
    rig_checkin(rig);
    assert_int_equal(rig_active(rig, TASK), again);
    assert_int_equal(rig->versions[again].runs, 1);
    assert_true(task_floor() == COUNTER(OLD));
    statement.floor = COUNTER(A);
    statement.stage = STAGE_FULL;
    rig_offer(rig, &statement);
    rig->hold_runs = true;
    rig_checkin(rig);
    assert_true(task_floor() == COUNTER(OLD));
    rig->hold_runs = false;
    mem_clock_advance(&rig->port, EVERY_S * UINT64_C(2000000));
    rig_checkin(rig);
    assert_true(rig->versions[again].runs > 1);
    assert_true(task_floor() == COUNTER(A));
    expect_refused(OLD, (int)again);
}

// ---- Kills of the process

// In the middle of a stop: what is stored is whole at every instant, and the floor is in it.
static void test_killed_anywhere_in_a_stop(void **state)
{
    (void)state;
    uint64_t n = 1;
    bool killed = true;
    for (; killed && n < CALLS_MAX; n++) {
        begin();
        rig->versions[B].ends = WIRE_OUTCOME_RAN;
        release(B);
        rig_offer_stop(rig, TASK);
        rig->port.kill_at = rig->port.calls + n;
        rig_checkin(rig);
        killed = rig->port.killed;
        rig_kill(rig);
        rig->port.kill_at = 0;
        rig_boot(rig);
        assert_true(task_floor() == COUNTER(A));
        rig_checkin(rig);
        rig_checkin(rig);
        assert_int_equal(rig_active(rig, TASK), -1);
        assert_true(task_floor() == COUNTER(A));
        order(OLD);
        assert_int_equal(rig_active(rig, TASK), -1);
        role_rig_done(&roles);
        (void)setup(NULL);
    }
    assert_true(n > 3 && n < CALLS_MAX);
}

// Between the offer of a bad version, its trial and the way back: wherever the device dies, it is
// on A in the end, may still go back, and said so once.
static void test_killed_anywhere(void **state)
{
    (void)state;
    uint64_t n = 1;
    bool killed = true;
    for (; killed && n < CALLS_MAX; n++) {
        begin();
        struct rig_statement statement = approval(B);
        role_release(&roles, &statement);
        rig->port.kill_at = rig->port.calls + n;
        rig_checkin(rig);
        killed = rig->port.killed;
        rig_kill(rig);
        rig->port.kill_at = 0;
        rig_boot(rig);
        assert_true(task_floor() == COUNTER(OLD));
        rig_checkin(rig);
        rig_checkin(rig);
        assert_int_equal(rig_active(rig, TASK), A);
        assert_true(task_floor() == COUNTER(OLD));
        stop();
        order(OLD);
        assert_int_equal(rig_active(rig, TASK), OLD);
        role_rig_done(&roles);
        (void)setup(NULL);
    }
    assert_true(n > 10 && n < CALLS_MAX);
}

// One that runs well: its floor is there with the end of its trial, or neither is.
static void test_killed_anywhere_and_well(void **state)
{
    (void)state;
    uint64_t n = 1;
    bool killed = true;
    for (; killed && n < CALLS_MAX; n++) {
        begin();
        rig->versions[B].ends = WIRE_OUTCOME_RAN;
        struct rig_statement statement = approval(B);
        role_release(&roles, &statement);
        rig->port.kill_at = rig->port.calls + n;
        rig_checkin(rig);
        killed = rig->port.killed;
        rig_kill(rig);
        rig->port.kill_at = 0;
        rig_boot(rig);
        bool settled =
            rig_active(rig, TASK) == B && rig->runtime->tasks[0].slots.state == DEV_UPDATE_SETTLED;
        assert_true(task_floor() == COUNTER(settled ? A : OLD));
        rig_checkin(rig);
        rig_checkin(rig);
        assert_int_equal(rig_active(rig, TASK), B);
        assert_true(task_floor() == COUNTER(A));
        role_rig_done(&roles);
        (void)setup(NULL);
    }
    assert_true(n > 10 && n < CALLS_MAX);
}

// ---- The record of before

static size_t found(const struct mem_storage *storage, const uint8_t *bytes, size_t size)
{
    size_t at = 0;
    for (size_t i = 0; i + size <= storage->state_bytes; i++) {
        if (memcmp(storage->state + i, bytes, size) == 0) {
            assert_int_equal(at, 0); // once
            at = i;
        }
    }
    assert_true(at > 0);
    return at;
}

static void seal(struct mem_storage *storage)
{
    size_t covered = storage->state_bytes - sizeof(uint64_t);
    struct base_writer writer;
    base_writer_init(&writer, storage->state + covered, sizeof(uint64_t));
    base_writer_u64(&writer, base_hash64(storage->state, covered));
    assert_int_equal(writer.status, BASE_OK);
}

// Makes the record what the format before would have: there the floor was that of what is brought,
// and by how much was noted. Returns where.
static uint8_t *make_older(struct mem_storage *storage)
{
    static const uint8_t floor_and_newest[] = {COUNTER(OLD), COUNTER(B), 0x10 + B, 0, 0};
    static const uint8_t waiting[] = {8 + 16, COUNTER(A), COUNTER(OLD)};
    storage->state[found(storage, floor_and_newest, sizeof(floor_and_newest))] = COUNTER(A);
    uint8_t *lift = storage->state + found(storage, waiting, sizeof(waiting));
    lift[0] = 8;
    lift[1] = COUNTER(A) - COUNTER(OLD);
    size_t behind = (size_t)(storage->state + storage->state_bytes - (lift + 3));
    memmove(lift + 2, lift + 3, behind);
    storage->state_bytes--;
    storage->state[3] = 'A';
    seal(storage);
    return lift + 1;
}

static void test_older_record(void **state)
{
    (void)state;
    begin();
    rig->blob_status = 503;
    release(B);
    rig_kill(rig);
    assert_int_equal(rig->port.storage.state[3], 'C');
    (void)make_older(&rig->port.storage);
    rig_boot(rig);
    assert_int_equal(rig_active(rig, TASK), A);
    assert_true(task_floor() == COUNTER(OLD));
    rig->versions[B].ends = WIRE_OUTCOME_RAN;
    rig->blob_status = 0;
    rig_checkin(rig);
    assert_int_equal(rig_active(rig, TASK), B);
    assert_true(task_floor() == COUNTER(A));
}

static void decode(enum base_status wanted)
{
    struct mem_storage *storage = &rig->port.storage;
    seal(storage);
    assert_int_equal(dev_state_decode(rig->runtime, storage->state, storage->state_bytes), wanted);
}

// A floor of the statement that is brought is a part of that of before, and not nothing.
static void test_older_record_with_a_bad_floor(void **state)
{
    (void)state;
    begin();
    rig->blob_status = 503;
    release(B);
    uint8_t *lift = make_older(&rig->port.storage);
    decode(BASE_OK);
    assert_true(rig->runtime->tasks[0].slots.floor == COUNTER(OLD));
    *lift = 0;
    decode(BASE_ERR_CORRUPT);
    *lift = COUNTER(A); // all of it
    decode(BASE_OK);
    assert_true(rig->runtime->tasks[0].slots.floor == 0);
    *lift = COUNTER(A) + 1;
    decode(BASE_ERR_CORRUPT);
}

// More than there was, where the newest approval is so high that no other rule is broken.
static void test_older_record_with_a_floor_from_nothing(void **state)
{
    (void)state;
    struct mem_storage *storage = &rig->port.storage;
    begin();
    rig->blob_status = 503;
    release(B);
    struct dev_task *task = &rig->runtime->tasks[0];
    task->offer.newest.counter = UINT64_MAX;
    task->slots.active_floor = 0;
    task->offer.accepted_floor = task->slots.floor + 1; // which was how much, before
    assert_int_equal(dev_state_encode(rig->runtime, storage->state, sizeof(storage->state),
                                      &storage->state_bytes),
                     BASE_OK);
    decode(BASE_OK);
    storage->state[3] = 'A';
    decode(BASE_ERR_CORRUPT);
}

// No statement names a floor above its own approval.
static void test_record_with_a_floor_above_its_approval(void **state)
{
    (void)state;
    struct mem_storage *storage = &rig->port.storage;
    begin();
    rig->blob_status = 503;
    release(B);
    for (int i = 0; i < 5; i++) {
        struct dev_task *task = &rig->runtime->tasks[0];
        struct dev_task before = *task;
        task->offer.accepted_floor = i < 2 ? COUNTER(B) + (uint64_t)i : before.offer.accepted_floor;
        task->slots.active_floor =
            i == 2 || i == 3 ? COUNTER(A) + (uint64_t)i - 2 : before.slots.active_floor;
        task->slots.floor = i == 4 ? COUNTER(B) + 1 : before.slots.floor;
        assert_int_equal(dev_state_encode(rig->runtime, storage->state, sizeof(storage->state),
                                          &storage->state_bytes),
                         BASE_OK);
        decode(i == 0 || i == 2 ? BASE_OK : BASE_ERR_CORRUPT);
        rig->runtime->tasks[0] = before;
        rig->runtime->task_count = 1;
    }
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_failed_on_trial),
        CASE(test_withdrawn_while_it_was_brought),
        CASE(test_crashed_on_trial),
        CASE(test_ran_well),
        CASE(test_failed_above_what_ran_well),
        CASE(test_approved_again),
        CASE(test_named_higher_while_it_runs),
        CASE(test_killed_anywhere_in_a_stop),
        CASE(test_killed_anywhere),
        CASE(test_killed_anywhere_and_well),
        CASE(test_older_record),
        CASE(test_older_record_with_a_bad_floor),
        CASE(test_older_record_with_a_floor_from_nothing),
        CASE(test_record_with_a_floor_above_its_approval),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
