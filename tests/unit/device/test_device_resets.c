// What the parts of the runtime know of a version or a statement is forgotten when the next one
// begins: counts of runs, marks of failures, a pull that has nothing left to bring.
#include "device_rig.h"

#include "core/base/runtime.h"
#include "core/pull/device_pull.h"
#include "core/run/run_parts.h"
#include "core/slots/device_slots.h"
#include "core/sweep/device_past.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define TASK "demo/score"

static struct rig rig;

// Version 0 active, version 1 and 2 to come.
static void begin(void)
{
    rig_init(&rig);
    for (uint32_t i = 0; i < 3; i++) {
        rig_version_add(&rig, TASK, 2, 1000 + 500 * i, WIRE_RUNTIME_ABI, 0);
    }
    rig_boot(&rig);
    struct rig_statement install = {.task = TASK, .version = 0, .counter = 1, .rollout_id = 3};
    rig_offer(&rig, &install);
    rig_checkin(&rig);
    assert_int_equal(rig_active(&rig, TASK), 0);
}

static struct rig_statement shadow_statement(void)
{
    return (struct rig_statement){.task = TASK,
                                  .version = 1,
                                  .counter = 2,
                                  .rollout_id = 9,
                                  .shadow = true,
                                  .slow_percent = 150,
                                  .memory_percent = 150};
}

static struct dev_task *shadow_task(void)
{
    for (uint32_t i = 0; i < rig.runtime->task_count; i++) {
        if (rig.runtime->tasks[i].shadow) {
            return &rig.runtime->tasks[i];
        }
    }
    return NULL;
}

// Nothing that was counted of the runs of one version is counted of the next.
static void test_runs_begin_anew(void **state)
{
    (void)state;
    begin();
    struct dev_task *task = &rig.runtime->tasks[0];
    task->runs = (struct dev_runs){.due_us = 77,
                                   .last_s = 5,
                                   .failure_mark = 6,
                                   .shadow_us = 7,
                                   .beside_us = 8,
                                   .count = 9,
                                   .slow_percent = 150,
                                   .crashes = 2,
                                   .references = 3,
                                   .reference = true,
                                   .running = true};
    dev_tell_of(rig.runtime, DEV_PART_EVENT_BEGUN, task);
    const struct dev_runs *runs = &task->runs;
    assert_int_equal(runs->due_us, 0); // at once
    assert_int_equal(runs->last_s, 0);
    assert_int_equal(runs->failure_mark, 0);
    assert_int_equal(runs->shadow_us, 0);
    assert_int_equal(runs->beside_us, 0);
    assert_int_equal(runs->count, 0);
    assert_int_equal(runs->crashes, 0);
    assert_int_equal(runs->references, 0);
    assert_false(runs->reference);
    assert_false(runs->running);
    assert_int_equal(runs->slow_percent, 150); // the statement's
    rig_done(&rig);
}

// A shadow that failed here is tried again when it is asked for, and by a statement of its own.
static void test_failed_shadow_is_forgiven(void **state)
{
    (void)state;
    for (int is_new = 0; is_new < 2; is_new++) {
        begin();
        struct rig_statement statement = shadow_statement();
        rig_offer(&rig, &statement);
        rig_checkin(&rig);
        struct dev_task *shadow = shadow_task();
        assert_non_null(shadow);
        dev_slot_fail_shadow(rig.runtime, shadow);
        const uint64_t failed = wire_version_id(&rig.versions[1].manifest);
        assert_int_equal(shadow->slots.blocked, failed);
        struct wire_release release = {.manifest = rig.versions[1].manifest};
        dev_shadow_follow(rig.runtime, shadow, &release, false, false);
        assert_int_equal(shadow->slots.blocked, failed); // the same one again is no reason
        assert_int_equal(shadow->slots.state, DEV_UPDATE_EMPTY);
        dev_shadow_follow(rig.runtime, shadow, &release, is_new == 1, is_new == 0);
        assert_int_equal(shadow->slots.blocked, 0);
        assert_int_equal(shadow->slots.state, DEV_UPDATE_EMPTY_PULL);
        rig_done(&rig);
    }
}

// The version that is brought is the one that is kept: when the active one is given up it is there.
static void test_falling_back_ends_the_pull(void **state)
{
    (void)state;
    for (int same = 0; same < 2; same++) {
        begin();
        struct rig_statement next = {.task = TASK, .version = 1, .counter = 2, .rollout_id = 4};
        rig_offer(&rig, &next);
        rig_checkin(&rig);
        assert_int_equal(rig_active(&rig, TASK), 1);
        assert_int_equal(rig_kept(&rig, TASK), 0);
        struct dev_task *task = &rig.runtime->tasks[0];
        task->offer.accepted = rig.versions[same == 1 ? 0 : 2].manifest;
        assert_int_equal(dev_slot_event(task, DEV_UPDATE_ON_ACCEPT), BASE_OK);
        assert_true(dev_slot_fall_back(rig.runtime, task));
        assert_int_equal(rig_active(&rig, TASK), 0);
        assert_int_equal(dev_update_is_pulling((enum dev_update_state)task->slots.state),
                         same == 0);
        rig_done(&rig);
    }
}

// By the gateway's word a shadow is over; before that is done it is offered anew.
static void shadow_is_over(struct rig *to, const struct mem_exchange *exchange,
                           struct wire_offers *offers)
{
    (void)to;
    (void)exchange;
    (void)offers;
    struct dev_task *shadow = shadow_task();
    assert_non_null(shadow);
    shadow->offer.over = true;
}

static void test_offered_shadow_is_not_over(void **state)
{
    (void)state;
    begin();
    struct rig_statement statement = shadow_statement();
    rig_offer(&rig, &statement);
    rig_checkin(&rig);
    assert_non_null(shadow_task());
    rig.direct = shadow_is_over;
    rig_checkin(&rig);
    assert_non_null(shadow_task());
    assert_false(shadow_task()->offer.over);
    rig.direct = NULL;
    rig_done(&rig);
}

// What was told of the pull of one statement says nothing of the next one's. There is no room to
// remember one task more that is over, so this one stays.
static void test_stop_forgets_the_failure(void **state)
{
    (void)state;
    begin();
    struct dev_task *task = &rig.runtime->tasks[0];
    task->incoming.failure_reported = true;
    for (uint32_t i = 0; i < rig.runtime->settings.tasks_max; i++) {
        rig.runtime->sweep->past[i] = (struct dev_past){.task_id = i + 1, .newest = {.counter = 1}};
    }
    rig.runtime->sweep->past_count = rig.runtime->settings.tasks_max;
    rig_offer_stop(&rig, TASK);
    rig_checkin(&rig);
    assert_int_equal(rig_active(&rig, TASK), -1);
    assert_int_equal(rig.runtime->task_count, 1);
    assert_false(rig.runtime->tasks[0].incoming.failure_reported);
    rig_done(&rig);
}

// What a pull left is collected once, when the gateway does not offer it any more.
static void test_leftovers_are_collected_once(void **state)
{
    (void)state;
    begin();
    struct dev_task *task = &rig.runtime->tasks[0];
    task->incoming.leftover = true;
    task->offer.made = true;
    rig.runtime->garbage = false;
    dev_pull_leftovers(rig.runtime);
    assert_true(task->incoming.leftover);
    assert_false(rig.runtime->garbage);
    task->offer.made = false;
    dev_pull_leftovers(rig.runtime);
    assert_false(task->incoming.leftover);
    assert_true(rig.runtime->garbage);
    rig.runtime->garbage = false;
    dev_pull_leftovers(rig.runtime);
    assert_false(rig.runtime->garbage);
    rig_done(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_runs_begin_anew),
        cmocka_unit_test(test_failed_shadow_is_forgiven),
        cmocka_unit_test(test_falling_back_ends_the_pull),
        cmocka_unit_test(test_offered_shadow_is_not_over),
        cmocka_unit_test(test_stop_forgets_the_failure),
        cmocka_unit_test(test_leftovers_are_collected_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
