// Starts that no match followed in time, in the pipeline as a whole: across kills, of several
// tasks, more than wait, and behind events that are still to be looked at.
#include "pipeline_rig.h"

static const struct declared basket = {TASK, "click(cart) * exit(cart) within 1s or timeout",
                                       WIRE_EVENTS_MATCHED, 0, 0};

static void pass(uint64_t time_ms)
{
    rig.now_us += time_ms * MS;
    rig.wall_ms += time_ms;
}

static void killed_at_rest(const struct declared *from)
{
    assert_int_equal(dev_pipeline_flush(rig.pipeline, rig.now_us), BASE_OK);
    assert_int_equal(boot(), BASE_OK);
    declare(from, 1);
}

// A start that is pending when the device dies times out in the next life, by what was left of its
// time, with its own event; once its run ended no later life knows it.
static void test_what_is_pending_survives_a_kill(void **state)
{
    (void)state;
    static const enum wire_declared_events takes[] = {WIRE_EVENTS_MATCHED, WIRE_EVENTS_VISIT};
    for (size_t i = 0; i < TEST_COUNT(takes); i++) {
        struct declared left = basket;
        left.events = takes[i];
        rig.start_count = 0;
        declare(&left, 1);
        record(DEV_EVENT_CLICK, "cart", 7);
        step();
        pass(500);
        killed_at_rest(&left);
        assert_int_equal(stats().pending, 1);
        assert_int_equal(dev_pipeline_flush(rig.pipeline, rig.now_us), BASE_OK); // all is stored
        pass(400);
        step();
        assert_int_equal(rig.start_count, 0);
        pass(100);
        step();
        assert_int_equal(rig.start_count, 1);
        assert_true(rig.running.timed_out);
        assert_int_equal(rig.running.events, 1);
        assert_int_equal(rig.running.price_sum, 7);
        run_ends(true, "", NULL, 0);
        step();
        killed_at_rest(&left);
        assert_int_equal(stats().pending, 0);
        step();
        pass(2000);
        step();
        assert_int_equal(rig.start_count, 1);
    }
}

// Time-outs start the task whose trigger asks, whatever others ask for, and are told as matches.
static void test_whose_time_is_over(void **state)
{
    (void)state;
#define LONG "a-page-with-quite-a-long-name-of-its-own-"
    static const struct declared tasks[] = {
        {"shop/a", "click(" LONG "a) * exit within 1s or timeout", WIRE_EVENTS_MATCHED, 0, 0},
        {"shop/b", "click(" LONG "b) * exit within 4s or timeout", WIRE_EVENTS_MATCHED, 0, 0},
        {"shop/c", "click(" LONG "c) * exit within 2s or timeout", WIRE_EVENTS_NONE, 0, 0}};
    static const struct {
        const char *name;
        int64_t price; // of its start; 0: it is given no events
    } order[] = {{"shop/a", 4}, {"shop/c", 0}, {"shop/b", 1}};
    declare(tasks, 3);
    record(DEV_EVENT_CLICK, LONG "b", 1);
    record(DEV_EVENT_CLICK, LONG "c", 2);
    record(DEV_EVENT_CLICK, LONG "a", 4);
    step();
    assert_int_equal(stats().pending, 3);
    pass(5000);
    for (uint32_t i = 0; i < 3; i++) {
        step();
        assert_int_equal(rig.start_count, i + 1);
        assert_true(rig.running.task_id == wire_task_id(base_str_of(order[i].name)));
        assert_true(rig.running.timed_out);
        assert_int_equal(rig.running.price_sum, order[i].price);
        run_ends(true, "", NULL, 0);
    }
    assert_int_equal(rig.matches, 3);
    assert_true(rig.matched_task == wire_task_id(BASE_STR("shop/b")));
    assert_int_equal(rig.matched_trigger, 0);
}

// More starts than wait: the one that gives way is told as a match that found no place.
static void test_a_start_that_gives_way_is_told(void **state)
{
    (void)state;
    declare(&basket, 1);
    for (uint32_t i = 0; i < DEV_TIMEOUTS_MAX + 3; i++) {
        record(DEV_EVENT_CLICK, "cart", i);
    }
    step();
    assert_int_equal(stats().pending, DEV_TIMEOUTS_MAX);
    assert_int_equal(stats().matches, 3);
    assert_int_equal(stats().starts_dropped, 3);
    assert_int_equal(rig.dropped, 3);
    assert_int_equal(rig.dropped_class, 1);
}

// No start is over while events that came in its time are still to be looked at.
static void test_a_match_that_waits_in_the_ring(void **state)
{
    (void)state;
    static const struct declared all = {TASK, "click(cart) * exit(cart) within 1s or timeout",
                                        WIRE_EVENTS_TIME, 0, 60};
    declare(&all, 1);
    record(DEV_EVENT_CLICK, "cart", 1);
    step();
    struct dev_recording other = {.kind = DEV_EVENT_CLICK,
                                  .page = BASE_STR("home"),
                                  .wall_ms = rig.wall_ms,
                                  .mono_us = rig.now_us};
    for (uint32_t i = 0; i < DEV_PIPELINE_DRAIN_MAX; i++) {
        assert_int_equal(dev_record(rig.recorder, &other), BASE_OK);
    }
    record(DEV_EVENT_EXIT, "cart", 0);
    pass(3000);
    step();
    step();
    assert_int_equal(stats().timed_out, 0);
    assert_int_equal(rig.start_count, 1);
    assert_false(rig.running.timed_out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_what_is_pending_survives_a_kill, setup, teardown),
        cmocka_unit_test_setup_teardown(test_whose_time_is_over, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_start_that_gives_way_is_told, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_match_that_waits_in_the_ring, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
