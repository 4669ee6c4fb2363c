// Runs that behaviour starts: one at a time, before what the clock has due, told of once, with the
// same input for a shadow, and nothing held when the task goes.
#include "device_rig.h"

#include "core/base/runtime.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TASK    "demo/score"
#define ROLLOUT 9

// "?" starts it; no events, nothing sent.
static const char declaration[] = "\x01\x01\x01?\x00\x00\x00\x00\x00\xff";
#define DECLARATION_BYTES (sizeof(declaration) - 1)

static struct rig rig;
static const uint8_t events[] = {1, 2, 3};

struct told {
    uint32_t ends;
    uint32_t gone; // told that it could not run
    uint32_t freed;
    uint64_t token;
    uint64_t freed_token;
    enum wire_outcome_kind outcome;
};
static struct told told;

static void on_triggered(void *app, uint64_t token, const struct dev_task_end *end)
{
    struct told *self = app;
    self->token = token;
    if (end == NULL) {
        self->gone++;
        return;
    }
    self->ends++;
    self->outcome = end->outcome;
}

static void on_input_free(void *app, uint64_t token)
{
    struct told *self = app;
    self->freed++;
    self->freed_token = token;
}

static void boot(void)
{
    rig.ports.app = &told;
    rig.ports.on_triggered = on_triggered;
    rig.ports.on_input_free = on_input_free;
    rig_boot(&rig);
}

static void offer(uint32_t version, uint64_t counter, bool shadow)
{
    struct rig_statement statement = {.task = TASK,
                                      .version = version,
                                      .counter = counter,
                                      .rollout_id = ROLLOUT,
                                      .shadow = shadow};
    rig_offer(&rig, &statement);
    rig_checkin(&rig);
    rig_offer_none(&rig);
}

static void begin(uint32_t every_s)
{
    memset(&told, 0, sizeof(told));
    rig_init(&rig);
    rig.declaration = declaration;
    rig.declaration_bytes = DECLARATION_BYTES;
    rig_version_add(&rig, TASK, 2, 3000, WIRE_RUNTIME_ABI, every_s);
    rig_version_add(&rig, TASK, 2, 2000, WIRE_RUNTIME_ABI, every_s);
    rig.versions[0].result = "1";
    rig.versions[1].result = "1";
    boot();
    offer(0, 1, false);
    assert_int_equal(rig_active(&rig, TASK), 0);
    assert_int_equal(rig.versions[0].runs, 1); // once without behaviour, so that it proves itself
    assert_int_equal(told.ends, 0);
}

static enum base_status trigger(uint64_t token)
{
    struct dev_run_input input = {.token = token, .events = events, .events_bytes = sizeof events};
    return dev_run_triggered(rig.runtime, wire_task_id(BASE_STR(TASK)), &input);
}

static void run(void)
{
    rig_run(&rig, 10 * 1000000);
}

static void test_runs_once_per_start(void **state)
{
    (void)state;
    begin(0);
    assert_int_equal(trigger(41), BASE_OK);
    assert_false(dev_is_idle(rig.runtime));
    assert_int_equal(trigger(42), BASE_ERR_BUSY);
    run();
    assert_int_equal(told.ends, 1);
    assert_true(told.token == 41 && told.freed_token == 41);
    assert_int_equal(told.freed, 1);
    assert_int_equal(told.outcome, WIRE_OUTCOME_RAN);
    assert_int_equal(rig.versions[0].triggered_runs, 1);
    assert_true(rig.versions[0].tokens == 41);
    assert_int_equal(trigger(42), BASE_OK);
    run();
    assert_int_equal(told.ends, 2);
    struct dev_stats stats;
    dev_stats(rig.runtime, &stats);
    assert_int_equal(stats.triggered, 2);
    assert_int_equal(stats.runs, 3);
    rig_done(&rig);
}

static void test_needs_an_active_version(void **state)
{
    (void)state;
    begin(0);
    struct dev_run_input input = {.token = 1};
    assert_int_equal(dev_run_triggered(rig.runtime, 12345, &input), BASE_ERR_NOT_FOUND);
    rig_done(&rig);
}

static void test_task_goes_while_it_waits(void **state)
{
    (void)state;
    begin(0);
    rig.port.task.refuse = BASE_ERR_BUSY; // the only worker is taken
    assert_int_equal(trigger(5), BASE_OK);
    run();
    assert_int_equal(told.freed, 0);
    rig_offer_stop(&rig, TASK);
    rig_checkin(&rig);
    assert_int_equal(told.ends, 0);
    assert_int_equal(told.gone, 1);
    assert_int_equal(told.freed, 1);
    assert_int_equal(trigger(6), BASE_ERR_NOT_FOUND);
    rig_done(&rig);
}

static void test_busy_worker_is_asked_again(void **state)
{
    (void)state;
    begin(0);
    rig.port.task.refuse = BASE_ERR_BUSY;
    assert_int_equal(trigger(5), BASE_OK);
    run();
    assert_int_equal(told.ends, 0);
    rig.port.task.refuse = BASE_OK;
    run();
    assert_int_equal(told.ends, 1);
    assert_int_equal(told.freed, 1);
    rig_done(&rig);
}

static void test_failure_is_told_and_reported(void **state)
{
    (void)state;
    begin(0);
    rig.versions[0].ends = WIRE_OUTCOME_FAIL_EXCEPTION;
    assert_int_equal(trigger(5), BASE_OK);
    run();
    assert_int_equal(told.ends, 1);
    assert_int_equal(told.outcome, WIRE_OUTCOME_FAIL_EXCEPTION);
    assert_int_equal(rig_count(&rig, WIRE_OUTCOME_FAIL_EXCEPTION), 1);
    assert_int_equal(rig_active(&rig, TASK), 0); // settled: the gateway decides
    rig_done(&rig);
}

static void test_shadow_gets_the_same_input(void **state)
{
    (void)state;
    begin(0);
    offer(1, 2, true);
    assert_int_equal(rig.versions[1].runs, 0); // it waits for behaviour
    rig.hold_shadows = true;
    assert_int_equal(trigger(7), BASE_OK);
    run();
    assert_int_equal(told.ends, 1);
    assert_int_equal(told.freed, 0); // the shadow still reads it
    assert_int_equal(trigger(8), BASE_ERR_BUSY);
    rig.hold_shadows = false;
    run();
    assert_int_equal(told.ends, 1); // nobody is told of a shadow
    assert_int_equal(told.freed, 1);
    assert_int_equal(rig.versions[1].triggered_runs, 1);
    assert_true(rig.versions[1].tokens == 7);
    rig_done(&rig);
}

// A statement replaces the version in the middle of a run: it ends, and is told of.
static void test_stop_drops_it(void **state)
{
    (void)state;
    begin(0);
    rig.hold_runs = true;
    assert_int_equal(trigger(7), BASE_OK);
    run();
    dev_stop(rig.runtime);
    assert_int_equal(told.ends, 0);
    rig.hold_runs = false;
    boot();
    assert_int_equal(trigger(7), BASE_OK); // the pipeline gives it again
    run();
    assert_int_equal(told.ends, 1);
    rig_done(&rig);
}

static void test_going_back_takes_the_old_schedule(void **state)
{
    (void)state;
    begin(0);
    rig.declaration = NULL;
    rig.declaration_bytes = 0;
    uint32_t bad = rig_version_add(&rig, TASK, 1, 100, WIRE_RUNTIME_ABI, 60);
    rig.versions[bad].ends = WIRE_OUTCOME_FAIL_EXCEPTION;
    offer(bad, 2, false);
    assert_int_equal(rig_active(&rig, TASK), 0);
    assert_true(rig.runtime->tasks[0].slots.triggered);
    assert_int_equal(rig.runtime->tasks[0].slots.every_s, 0);
    rig_kill(&rig);
    boot();
    assert_true(rig.runtime->tasks[0].slots.triggered);
    rig_done(&rig);
}

// What the pipeline had to leave out is reported with the reason, once, whatever the numbers in it;
// after a success it is news again. The version stays: the gateway decides.
static void test_what_is_left_out_is_reported(void **state)
{
    (void)state;
    begin(0);
    uint64_t id = wire_task_id(BASE_STR(TASK));
    dev_left_out(rig.runtime, 12345, "nobody's");
    dev_left_out(rig.runtime, id, "5000 steps an event, a device has 4096");
    dev_left_out(rig.runtime, id, "5001 steps an event, a device has 4096");
    run();
    assert_int_equal(rig_count(&rig, WIRE_OUTCOME_FAIL_LOAD), 1);
    const struct rig_outcome *said = rig_last(&rig, WIRE_OUTCOME_FAIL_LOAD);
    assert_string_equal(said->detail,
                        "left out on this device: 5000 steps an event, a device has 4096");
    assert_true(said->outcome.task_id == id && said->outcome.rollout_id == ROLLOUT);
    assert_int_equal(rig_active(&rig, TASK), 0);
    assert_true(dev_validate(rig.runtime));
    assert_int_equal(trigger(41), BASE_OK);
    run();
    dev_left_out(rig.runtime, id, "too many tasks");
    run();
    assert_int_equal(rig_count(&rig, WIRE_OUTCOME_FAIL_LOAD), 2);
    rig_done(&rig);
}

static void test_manifests_can_be_read(void **state)
{
    (void)state;
    begin(0);
    uint64_t mark = dev_active_mark(rig.runtime);
    const uint8_t *bytes = NULL;
    size_t size = 0;
    struct wire_manifest manifest;
    assert_int_equal(dev_active_open(rig.runtime, 0, &bytes, &size), BASE_OK);
    assert_int_equal(wire_manifest_parse(bytes, size, &manifest), BASE_OK);
    assert_int_equal(manifest.declaration.size, DECLARATION_BYTES);
    dev_active_close(rig.runtime, 0, bytes, size);
    assert_int_equal(dev_active_open(rig.runtime, 1, &bytes, &size), BASE_ERR_NOT_FOUND);
    offer(1, 2, false);
    assert_true(dev_active_mark(rig.runtime) != mark);
    rig_done(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_runs_once_per_start),
        cmocka_unit_test(test_needs_an_active_version),
        cmocka_unit_test(test_task_goes_while_it_waits),
        cmocka_unit_test(test_busy_worker_is_asked_again),
        cmocka_unit_test(test_failure_is_told_and_reported),
        cmocka_unit_test(test_shadow_gets_the_same_input),
        cmocka_unit_test(test_stop_drops_it),
        cmocka_unit_test(test_going_back_takes_the_old_schedule),
        cmocka_unit_test(test_what_is_left_out_is_reported),
        cmocka_unit_test(test_manifests_can_be_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
