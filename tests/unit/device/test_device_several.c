// Several runs at once: those of settled versions go side by side, within memory and places; runs
// that leave a mark go alone; a task and its shadow never together; what the app asks for; and
// nothing is lost when a task goes while others run.
#include "device_rig.h"

#include "core/base/runtime.h"
#include "core/run/runs_at_once.h"
#include "wire/declaration.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define PLACES 3u
#define TASKS  4u
#define NEEDS  (DEV_RUN_BESIDE_BYTES + 1024ull * DEV_RUN_HEAP_KIB_DEFAULT) // each of them
#define EVERY  100u

static const char *const names[TASKS] = {"demo/a", "demo/b", "demo/c", "demo/d"};
// "?" starts it; no events, nothing sent.
static const char declaration[] = "\x01\x01\x01?\x00\x00\x00\x00\x00\xff";

struct place {
    uint32_t run; // 0: free
    struct wire_sha256 version;
    uint64_t token;
    bool shadow;
};

// A task port of several places; runs end when the test says so, or at once.
static struct {
    struct place places[PLACES];
    uint32_t running;
    uint32_t most;
    uint32_t most_with_mark; // runs under way beside one of a version on trial
    uint32_t cancelled;
    uint32_t triggered;
    bool refuse; // BUSY
} port;

static struct rig rig;

static struct rig_version *version_of(const struct wire_sha256 *manifest)
{
    for (uint32_t i = 0; i < rig.version_count; i++) {
        if (wire_sha256_equal(&rig.versions[i].manifest, manifest)) {
            return &rig.versions[i];
        }
    }
    fail_msg("a run of an unknown version");
    return NULL;
}

static bool marked(void)
{
    for (uint32_t i = 0; i < rig.runtime->task_count; i++) {
        if (rig.runtime->tasks[i].runs.running) {
            return true;
        }
    }
    return false;
}

static enum base_status start(void *ctx, uint32_t run, const struct dev_task_job *job)
{
    (void)ctx;
    if (port.refuse) {
        return BASE_ERR_BUSY;
    }
    for (uint32_t i = 0; i < PLACES; i++) {
        if (port.places[i].run == 0) {
            port.places[i] = (struct place){.run = run,
                                            .version = job->version,
                                            .token = job->input != NULL ? job->input->token : 0,
                                            .shadow = job->shadow};
            port.running++;
            port.most = port.running > port.most ? port.running : port.most;
            if (marked() && port.running > port.most_with_mark) {
                port.most_with_mark = port.running;
            }
            return BASE_OK;
        }
    }
    fail_msg("more runs than places");
    return BASE_ERR_LIMIT;
}

static void cancel(void *ctx, uint32_t run)
{
    (void)ctx;
    for (uint32_t i = 0; i < PLACES; i++) {
        if (port.places[i].run == run) {
            port.places[i].run = 0;
            port.running--;
            port.cancelled++;
            return;
        }
    }
    fail_msg("cancelled, and not under way");
}

static void finish(uint32_t place)
{
    struct place done = port.places[place];
    struct rig_version *version = version_of(&done.version);
    const struct dev_task_end end = {
        .outcome = version->ends,
        .duration_us = 1500,
        .result = base_str_of(version->result != NULL ? version->result : "1"),
    };
    assert_true(done.run != 0);
    port.places[place].run = 0;
    port.running--;
    port.triggered += done.token != 0 ? 1 : 0;
    version->runs++;
    version->shadow_runs += done.shadow ? 1 : 0;
    dev_on_task_end(rig.runtime, done.run, &end);
}

static bool finish_any(void)
{
    for (uint32_t i = 0; i < PLACES; i++) {
        if (port.places[i].run != 0) {
            finish(i);
            return true;
        }
    }
    return false;
}

// What is due is done, and runs go on.
static void look(void)
{
    rig_run(&rig, 1000);
}

// Until nothing runs and nothing waits.
static void settle(void)
{
    do {
        look();
    } while (finish_any());
}

static struct rig_statement statement_of(uint32_t version, uint64_t counter, bool shadow)
{
    return (struct rig_statement){.task = names[version % TASKS],
                                  .version = version,
                                  .counter = counter,
                                  .rollout_id = 9,
                                  .shadow = shadow};
}

static void offer(uint32_t version, uint64_t counter, bool shadow)
{
    struct rig_statement statement = statement_of(version, counter, shadow);
    rig_offer(&rig, &statement);
    dev_checkin_now(rig.runtime);
    rig_run(&rig, 1000000);
    rig_offer_none(&rig);
    settle();
}

static bool second_is_long; // its runs may take ten minutes
static bool fourth_is_large;
static bool all_are_long;
static struct wire_declared_runs said[TASKS]; // by the first versions; all 0: nothing
static uint8_t said_bytes[TASKS][64];

static void say(uint32_t index, struct wire_manifest *manifest)
{
    const struct wire_declaration declares = {.trigger_count = 1,
                                              .triggers = {BASE_STR("?")},
                                              .result_upload = WIRE_DECLARATION_NO_UPLOAD,
                                              .runs = said[index]};
    assert_int_equal(wire_declaration_encode(&declares, said_bytes[index], sizeof(said_bytes[0]),
                                             &manifest->declaration.size),
                     BASE_OK);
    manifest->declaration.data = (const char *)said_bytes[index];
}

static void version_extra(struct rig *self, uint32_t index, struct wire_manifest *manifest)
{
    (void)self;
    bool is_long = (second_is_long && index == 1) || (all_are_long && index < 3);
    manifest->time_ms = is_long ? 600000 : 0;
    if (index < TASKS && wire_declared_runs_any(&said[index])) {
        say(index, manifest);
    }
    manifest->heap_kib = fourth_is_large && index == 3 ? 8192 : 0;
}

static void say_nothing(void)
{
    all_are_long = false;
    memset(said, 0, sizeof(said));
}

// A device with `count` tasks whose versions have each run once.
static void begin(uint32_t count, uint64_t memory_bytes)
{
    memset(&port, 0, sizeof(port));
    rig_init(&rig);
    rig.config.runs_max = PLACES;
    rig.config.runs_memory_bytes = memory_bytes;
    rig.config.tasks_max = 6;
    rig.ports.task = (struct dev_task_port){.ctx = &port, .start = start, .cancel = cancel};
    rig.version_extra = version_extra;
    rig.declaration = declaration;
    rig.declaration_bytes = sizeof(declaration) - 1;
    for (uint32_t i = 0; i < count; i++) {
        rig_version_add(&rig, names[i], 1, 1000 + i, WIRE_RUNTIME_ABI, EVERY);
    }
    rig_boot(&rig);
    rig.run_on = true;
    for (uint32_t i = 0; i < count; i++) {
        struct rig_statement statement = statement_of(i, 1, false);
        rig_offer_add(&rig, &statement);
    }
    dev_checkin_now(rig.runtime);
    rig_run(&rig, 1000000);
    rig_offer_none(&rig);
    settle();
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(rig_active(&rig, names[i]), i);
        assert_int_equal(rig.versions[i].runs, 1);
    }
}

// The next runs of all tasks are due.
static void pass(void)
{
    rig_run(&rig, EVERY * 1000000ull + 2000000);
}

// The process dies, and comes back.
static void kill_and_boot(void)
{
    rig_kill(&rig);
    memset(port.places, 0, sizeof(port.places));
    port.running = 0;
    rig_boot(&rig);
}

static uint32_t place_of(const char *task)
{
    for (uint32_t i = 0; i < PLACES; i++) {
        int version = rig_active(&rig, task);
        if (port.places[i].run != 0 && version >= 0 &&
            wire_sha256_equal(&port.places[i].version, &rig.versions[version].manifest)) {
            return i;
        }
    }
    fail_msg("no run of %s is under way", task);
    return 0;
}

static void test_settled_versions_run_side_by_side(void **state)
{
    (void)state;
    begin(TASKS, 0);
    assert_int_equal(port.most, 1); // each of the first runs left a mark
    pass();
    assert_int_equal(port.running, PLACES);
    finish(1);
    look();
    assert_int_equal(port.running, PLACES); // the fourth
    settle();
    for (uint32_t i = 0; i < TASKS; i++) {
        assert_int_equal(rig.versions[i].runs, 2);
    }
    assert_int_equal(rig.runtime->stats.runs, 2 * TASKS);
    assert_int_equal(rig.runtime->stats.failures, 0);
    rig_done(&rig);
}

static void test_memory_bounds_them(void **state)
{
    (void)state;
    begin(TASKS, 2 * NEEDS + 1);
    pass();
    assert_int_equal(port.running, 2);
    settle();
    assert_int_equal(port.most, 2);
    for (uint32_t i = 0; i < TASKS; i++) {
        assert_int_equal(rig.versions[i].runs, 2);
    }
    rig_done(&rig);
}

static void test_a_run_with_a_mark_goes_alone(void **state)
{
    (void)state;
    begin(3, 0);
    rig_version_add(&rig, names[3], 1, 2000, WIRE_RUNTIME_ABI, EVERY);
    pass();
    assert_int_equal(port.running, 3);
    finish(0);
    struct rig_statement statement = statement_of(3, 1, false);
    rig_offer(&rig, &statement);
    dev_checkin_now(rig.runtime);
    rig_run(&rig, 1000000);
    assert_int_equal(rig_active(&rig, names[3]), 3);
    assert_int_equal(port.running, 2); // there is a place, and it waits
    rig_offer_none(&rig);
    settle();
    assert_int_equal(rig.versions[3].runs, 1);
    assert_int_equal(port.most_with_mark, 1);
    rig_done(&rig);
}

static void test_a_version_too_large_for_the_app(void **state)
{
    (void)state;
    begin(1, NEEDS + 500);
    rig_version_add(&rig, names[1], 2, 5000, WIRE_RUNTIME_ABI, EVERY); // with a model
    struct rig_statement statement = statement_of(1, 1, false);
    rig_offer(&rig, &statement);
    rig_checkin(&rig);
    settle();
    assert_int_equal(rig.versions[1].runs, 0);
    assert_int_equal(rig_active(&rig, names[1]), -1); // it failed on trial
    assert_int_equal(rig_count(&rig, WIRE_OUTCOME_FAIL_MEMORY), 1);
    const struct rig_outcome *told = rig_last(&rig, WIRE_OUTCOME_FAIL_MEMORY);
    assert_memory_equal(told->detail, "needs 15", 8);
    rig_done(&rig);
}

// A settled version for which there is less memory since a restart is told of each time that it
// would run, also while every place is taken.
static void test_too_large_while_all_places_are_taken(void **state)
{
    (void)state;
    fourth_is_large = true;
    begin(TASKS, 0);
    fourth_is_large = false;
    rig.config.runs_memory_bytes = 3 * NEEDS;
    kill_and_boot();
    pass();
    assert_int_equal(port.running, PLACES);
    assert_int_equal(rig.runtime->stats.failures, 1);
    pass();
    assert_int_equal(port.running, PLACES);
    assert_int_equal(rig.runtime->stats.failures, 2);
    settle();
    assert_int_equal(rig.versions[3].runs, 1);
    rig_done(&rig);
}

// What no longer fits waits, without anything to do meanwhile, and runs when there is as much
// again; likewise a version on trial, which goes alone then too.
static void test_less_memory_than_a_run_needs(void **state)
{
    (void)state;
    begin(3, 0);
    dev_runs_memory(rig.runtime, NEEDS - 1);
    pass();
    assert_int_equal(port.running, 0);
    assert_true(dev_tick(rig.runtime, dev_now_us(rig.runtime)) > dev_now_us(rig.runtime));
    rig_version_add(&rig, names[3], 1, 2000, WIRE_RUNTIME_ABI, EVERY);
    struct rig_statement statement = statement_of(3, 1, false);
    rig_offer(&rig, &statement);
    dev_checkin_now(rig.runtime);
    rig_run(&rig, 1000000);
    rig_offer_none(&rig);
    assert_int_equal(port.running, 0);
    dev_runs_memory(rig.runtime, NEEDS);
    look();
    assert_int_equal(port.running, 1);
    dev_runs_memory(rig.runtime, 0);
    settle();
    assert_int_equal(rig.versions[3].runs, 1);
    assert_int_equal(port.most_with_mark, 1);
    assert_int_equal(rig.runtime->stats.failures, 0);
    rig_done(&rig);
}

static void test_suspended_nothing_runs(void **state)
{
    (void)state;
    begin(3, 0);
    pass();
    assert_int_equal(port.running, 3);
    dev_runs_suspend(rig.runtime, true);
    look();
    assert_int_equal(port.running, 0);
    assert_int_equal(port.cancelled, 3);
    pass();
    assert_int_equal(port.running, 0);
    dev_runs_suspend(rig.runtime, false);
    look();
    assert_int_equal(port.running, 3);
    settle();
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(rig.versions[i].runs, 2);
    }
    assert_int_equal(rig.runtime->stats.failures, 0);
    rig_done(&rig);
}

static void test_the_app_asks_for_memory(void **state)
{
    (void)state;
    begin(3, 0);
    pass();
    assert_int_equal(port.running, 3);
    dev_runs_memory(rig.runtime, 2 * NEEDS);
    look();
    assert_int_equal(port.running, 2);
    dev_runs_memory(rig.runtime, NEEDS);
    look();
    assert_int_equal(port.running, 1);
    dev_runs_memory(rig.runtime, 0);
    look();
    assert_int_equal(port.running, 3);
    settle();
    assert_int_equal(port.cancelled, 2);
    assert_int_equal(rig.runtime->stats.runs, 6);
    rig_done(&rig);
}

static void test_behaviour_starts_one_beside_others(void **state)
{
    (void)state;
    static const uint8_t events[] = {1, 2, 3};
    begin(3, 0);
    const struct dev_run_input input = {.token = 41, .events = events, .events_bytes = 3};
    pass();
    finish(place_of(names[1]));
    look();
    assert_int_equal(port.running, 2);
    uint64_t busy = wire_task_id(base_str_of(names[0]));
    assert_int_equal(dev_run_triggered(rig.runtime, busy, &input), BASE_OK);
    look();
    assert_int_equal(port.running, 2); // a run of this very task is under way
    finish(place_of(names[0]));
    look();
    assert_int_equal(port.running, 2);
    assert_int_equal(port.places[place_of(names[0])].token, 41);
    assert_int_equal(port.places[place_of(names[2])].token, 0);
    finish(place_of(names[2]));
    assert_int_equal(port.triggered, 0);
    settle();
    assert_int_equal(port.triggered, 1);
    assert_int_equal(rig.runtime->stats.triggered, 1);
    assert_true(dev_is_idle(rig.runtime));
    rig_done(&rig);
}

static const struct dev_run_input asked = {
    .token = 41, .events = (const uint8_t *)"", .events_bytes = 0};

static enum base_status behaviour_asks(const char *task)
{
    return dev_run_triggered(rig.runtime, wire_task_id(base_str_of(task)), &asked);
}

static uint32_t under_way(uint32_t version)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < PLACES; i++) {
        count += port.places[i].run != 0 &&
                         wire_sha256_equal(&port.places[i].version, &rig.versions[version].manifest)
                     ? 1
                     : 0;
    }
    return count;
}

// All of them become due at once: they were not allowed to run meanwhile.
static void pass_together(void)
{
    dev_runs_suspend(rig.runtime, true);
    pass();
    dev_runs_suspend(rig.runtime, false);
    look();
}

// Of the four that are due the most urgent begins first, and later takes the place of another.
static void test_priority_0_waits_for_none(void **state)
{
    (void)state;
    said[0].priority = 1 + WIRE_RUN_PRIORITY_MAX;
    said[3].priority = 1;
    begin(TASKS, 0);
    pass_together();
    assert_int_equal(under_way(3), 1);
    assert_int_equal(under_way(0), 0); // it goes last
    finish(place_of(names[3]));
    look();
    assert_int_equal(under_way(0), 1);
    assert_int_equal(behaviour_asks(names[3]), BASE_OK);
    look();
    assert_int_equal(under_way(3), 1);
    assert_int_equal(port.cancelled, 1);
    assert_int_equal(under_way(0), 0);
    settle();
    assert_int_equal(rig.versions[0].runs, 2); // done anew
    assert_int_equal(rig.versions[3].runs, 3);
    assert_int_equal(rig.runtime->stats.failures, 0);
    say_nothing();
    rig_done(&rig);
}

// It waits as long as it can: five seconds, of which it may need one.
static void test_a_deadline_makes_room(void **state)
{
    (void)state;
    said[3].deadline_ms = 5000;
    all_are_long = true;
    begin(TASKS, 0);
    all_are_long = false;
    pass();
    finish(place_of(names[3]));
    look();
    assert_int_equal(port.running, PLACES);
    assert_int_equal(behaviour_asks(names[3]), BASE_OK);
    rig_run(&rig, 3900000);
    assert_int_equal(under_way(3), 0);
    assert_int_equal(port.cancelled, 0);
    rig_run(&rig, 200000);
    assert_int_equal(under_way(3), 1);
    assert_int_equal(port.cancelled, 1);
    settle();
    assert_int_equal(rig.runtime->at_once->sched.stats.late, 0);
    assert_int_equal(rig.runtime->stats.failures, 0);
    say_nothing();
    rig_done(&rig);
}

// What the app does with its memory moves no deadline: the run waited since it was due.
static void test_a_deadline_stays_when_memory_changes(void **state)
{
    (void)state;
    said[3].deadline_ms = 5000;
    all_are_long = true;
    begin(TASKS, 0);
    all_are_long = false;
    pass();
    finish(place_of(names[3]));
    look();
    assert_int_equal(port.running, PLACES);
    assert_int_equal(behaviour_asks(names[3]), BASE_OK);
    rig_run(&rig, 2000000);
    dev_runs_memory(rig.runtime, NEEDS * PLACES);
    rig_run(&rig, 1000000);
    dev_runs_memory(rig.runtime, 0);
    rig_run(&rig, 900000);
    assert_int_equal(under_way(3), 0);
    assert_int_equal(port.cancelled, 0);
    rig_run(&rig, 200000); // 4.1 s: it may need one more of the five
    assert_int_equal(under_way(3), 1);
    assert_int_equal(port.cancelled, 1);
    settle();
    assert_int_equal(rig.runtime->at_once->sched.stats.late, 0);
    assert_int_equal(rig.runtime->stats.failures, 0);
    say_nothing();
    rig_done(&rig);
}

static void test_two_runs_of_a_task(void **state)
{
    (void)state;
    said[0].at_once = 2;
    begin(2, 0);
    pass();
    assert_int_equal(under_way(0), 1);
    assert_int_equal(behaviour_asks(names[0]), BASE_OK);
    look();
    assert_int_equal(under_way(0), 2);
    assert_int_equal(under_way(1), 1);
    pass(); // the clock has no second one due while its first goes on
    assert_int_equal(under_way(0), 2);
    assert_int_equal(behaviour_asks(names[0]), BASE_ERR_BUSY);
    settle();
    assert_int_equal(rig.versions[0].runs, 3);
    assert_int_equal(port.triggered, 1);
    assert_int_equal(behaviour_asks(names[0]), BASE_OK);
    look();
    assert_int_equal(under_way(0), 1);
    pass(); // the clock's beside the one of behaviour
    assert_int_equal(under_way(0), 2);
    rig_offer_stop(&rig, names[0]); // and both end with the task
    dev_checkin_now(rig.runtime);
    rig_run(&rig, 1000000);
    rig_offer_none(&rig);
    settle();
    assert_true(dev_is_idle(rig.runtime));
    assert_int_equal(rig.runtime->task_count, 1);
    say_nothing();
    rig_done(&rig);
}

// What is compared with its shadow is one run.
static void test_two_runs_of_a_task_with_a_shadow(void **state)
{
    (void)state;
    said[0].at_once = 2;
    begin(1, 0);
    pass();
    assert_int_equal(behaviour_asks(names[0]), BASE_OK);
    look();
    assert_int_equal(under_way(0), 2);
    rig_version_add(&rig, names[0], 1, 2000, WIRE_RUNTIME_ABI, EVERY);
    struct rig_statement statement = statement_of(0, 2, true);
    statement.version = 1;
    rig_offer(&rig, &statement);
    dev_checkin_now(rig.runtime);
    rig_run(&rig, 1000000);
    rig_offer_none(&rig);
    assert_int_equal(under_way(0), 2);
    finish(place_of(names[0]));
    look();
    assert_int_equal(port.running, 1); // not compared: the other one is
    settle();
    assert_true(rig.versions[1].shadow_runs >= 1);
    pass();
    assert_int_equal(behaviour_asks(names[0]), BASE_OK);
    look();
    assert_int_equal(under_way(0), 1);
    settle();
    assert_int_equal(rig_count(&rig, WIRE_OUTCOME_FAIL_DIFFERENT), 0);
    say_nothing();
    rig_done(&rig);
}

static void test_a_shadow_runs_after_its_task(void **state)
{
    (void)state;
    begin(TASKS, 0);
    rig_version_add(&rig, names[0], 1, 2000, WIRE_RUNTIME_ABI, EVERY);
    offer(4, 2, true);
    assert_int_equal(rig.versions[4].runs, 0);
    pass();
    finish(place_of(names[0]));
    look();
    assert_int_equal(port.running, 2); // the fourth task would keep the shadow waiting
    pass(); // the task is due again, and waits for its shadow, which waits for a moment alone
    assert_int_equal(rig.versions[0].runs, 2);
    settle();
    assert_int_equal(rig.versions[4].runs, rig.versions[4].shadow_runs);
    assert_true(rig.versions[4].runs >= 1);
    assert_int_equal(port.most_with_mark, 1);
    assert_int_equal(rig_count(&rig, WIRE_OUTCOME_FAIL_DIFFERENT), 0);
    rig_done(&rig);
}

// Room that the shadow cannot have yet, and its task could: it waits all the same.
static void test_a_task_waits_for_its_shadow(void **state)
{
    (void)state;
    second_is_long = true;
    begin(3, 0);
    second_is_long = false;
    rig_version_add(&rig, names[3], 1, 3000, WIRE_RUNTIME_ABI, EVERY);
    rig_version_add(&rig, names[0], 1, 2000, WIRE_RUNTIME_ABI, EVERY);
    offer(4, 2, true);
    pass();
    finish(place_of(names[0]));
    finish(place_of(names[2]));
    pass(); // the first and the third are due again
    assert_int_equal(port.running, 2);
    assert_true(place_of(names[1]) != place_of(names[2]));
    assert_int_equal(rig.versions[4].runs, 0);
    settle();
    assert_true(rig.versions[4].shadow_runs >= 1);
    assert_true(rig.versions[0].runs >= 3);
    rig_done(&rig);
}

static void test_a_task_goes_while_others_run(void **state)
{
    (void)state;
    begin(3, 0);
    pass();
    assert_int_equal(port.running, 3);
    rig_offer_stop(&rig, names[0]);
    dev_checkin_now(rig.runtime);
    rig_run(&rig, 1000000);
    rig_offer_none(&rig);
    assert_int_equal(rig_active(&rig, names[0]), -1);
    assert_int_equal(rig.runtime->task_count, 3); // its run goes on, so there is no moment without
    assert_int_equal(port.running, 3);
    finish(place_of(names[2]));
    settle();
    assert_int_equal(rig.versions[0].runs, 2);
    assert_int_equal(rig.versions[1].runs, 2);
    assert_int_equal(rig.versions[2].runs, 2);
    assert_int_equal(rig.runtime->task_count, 2); // after that moment
    rig_done(&rig);
}

static void test_killed_with_runs_under_way(void **state)
{
    (void)state;
    begin(3, 0);
    pass();
    assert_int_equal(port.running, 3);
    kill_and_boot(); // they left no mark: nobody is blamed
    pass();
    assert_int_equal(port.running, 3);
    rig_version_add(&rig, names[3], 1, 2000, WIRE_RUNTIME_ABI, EVERY);
    struct rig_statement statement = statement_of(3, 1, false);
    rig_offer(&rig, &statement);
    dev_checkin_now(rig.runtime);
    rig_run(&rig, 1000000);
    rig_offer_none(&rig);
    for (uint32_t i = 0; i < 3; i++) {
        finish(place_of(names[i]));
    }
    look();
    assert_int_equal(port.running, 1); // the new one, alone
    kill_and_boot();
    settle();
    assert_int_equal(rig_count(&rig, WIRE_OUTCOME_FAIL_CRASH), 1);
    uint64_t blamed = rig_last(&rig, WIRE_OUTCOME_FAIL_CRASH)->outcome.task_id;
    assert_true(blamed == wire_task_id(base_str_of(names[3])));
    assert_int_equal(rig_active(&rig, names[3]), 3); // crash_limit is 3
    rig_done(&rig);
}

static void test_a_busy_port_is_asked_again(void **state)
{
    (void)state;
    begin(2, 0);
    port.refuse = true;
    pass();
    assert_int_equal(port.running, 0);
    port.refuse = false;
    rig_run(&rig, 2 * DEV_RUN_RETRY_US);
    assert_int_equal(port.running, 2);
    dev_stop(rig.runtime);
    assert_int_equal(port.running, 0);
    assert_int_equal(port.cancelled, 2);
    rig_done(&rig);
}

static void test_who_runs_one_at_a_time_pays_nothing(void **state)
{
    (void)state;
    rig_init(&rig);
    size_t one = dev_runtime_bytes(&rig.config);
    rig.config.runs_max = 1;
    assert_int_equal(dev_runtime_bytes(&rig.config), one);
    rig.config.runs_max = 2;
    assert_true(dev_runtime_bytes(&rig.config) > one + sizeof(struct dev_sched));
    rig.config.runs_max = DEV_RUNS_MAX;
    assert_true(dev_runtime_bytes(&rig.config) > one);
    rig.config.runs_max = DEV_RUNS_MAX + 1;
    assert_int_equal(dev_runtime_bytes(&rig.config), 0);
    rig_done(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_settled_versions_run_side_by_side),
        cmocka_unit_test(test_memory_bounds_them),
        cmocka_unit_test(test_a_run_with_a_mark_goes_alone),
        cmocka_unit_test(test_a_version_too_large_for_the_app),
        cmocka_unit_test(test_too_large_while_all_places_are_taken),
        cmocka_unit_test(test_less_memory_than_a_run_needs),
        cmocka_unit_test(test_suspended_nothing_runs),
        cmocka_unit_test(test_the_app_asks_for_memory),
        cmocka_unit_test(test_behaviour_starts_one_beside_others),
        cmocka_unit_test(test_priority_0_waits_for_none),
        cmocka_unit_test(test_a_deadline_makes_room),
        cmocka_unit_test(test_a_deadline_stays_when_memory_changes),
        cmocka_unit_test(test_two_runs_of_a_task),
        cmocka_unit_test(test_two_runs_of_a_task_with_a_shadow),
        cmocka_unit_test(test_a_shadow_runs_after_its_task),
        cmocka_unit_test(test_a_task_waits_for_its_shadow),
        cmocka_unit_test(test_a_task_goes_while_others_run),
        cmocka_unit_test(test_killed_with_runs_under_way),
        cmocka_unit_test(test_a_busy_port_is_asked_again),
        cmocka_unit_test(test_who_runs_one_at_a_time_pays_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
