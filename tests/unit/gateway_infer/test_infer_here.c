// A short call with nothing beside it is run by its caller's thread; anything else is left to the
// service's threads. What was measured is set by hand, so no test depends on a time.
#include "infer_ask.h"

#include "base/clock.h"

static struct gw_infer_version *version_of(struct world *world, const char *model)
{
    pthread_mutex_lock(&world->service->lock);
    struct gw_infer_version *version =
        gw_infer_find(world->service, base_str_of(model), BASE_STR(""), NULL);
    pthread_mutex_unlock(&world->service->lock);
    assert_non_null(version);
    return version;
}

// So long ran each plan of the model, and the last run on a caller's thread was long ago.
static void measured(struct world *world, const char *model, uint64_t run_us)
{
    struct gw_infer_version *version = version_of(world, model);
    while (figures_of(world, model).running > 0) {
        usleep(100); // the thread that ran the last one has to say so
    }
    pthread_mutex_lock(&world->service->lock);
    for (struct gw_infer_session *at = version->idle; at != NULL; at = at->next) {
        at->run_us = run_us;
    }
    world->service->here_us = 0;
    pthread_mutex_unlock(&world->service->lock);
}

static void check_where(struct world *world, struct ask *ask, bool here)
{
    pthread_mutex_lock(&world->seen.lock);
    uint32_t before = world->seen.done;
    pthread_mutex_unlock(&world->seen.lock);
    gw_infer_submit(world->service, &ask->ticket);
    if (here) {
        assert_int_not_equal(place_of(ask), 0); // it returned with the answer
    }
    wait_for(&world->seen, before + 1);
    assert_int_equal(ask->ticket.here, here);
    check_relu(ask);
    ask_free(ask);
}

static void test_where_a_call_runs(void **state)
{
    struct world world;
    (void)state;
    begin(&world);
    infer_kit_add(&world.kit, "m", "1", NULL);
    infer_kit_add(&world.kit, "waits", "1", NULL);
    infer_kit_text(&world.kit, "waits/model.conf", "max_batch = 4\nbatch_delay_us = 1");
    infer_kit_add(&world.kit, "rows", "1", NULL);
    infer_kit_text(&world.kit, "rows/model.conf", "max_batch = 4");
    start(&world, 1);
    check_where(&world, ask_new(&world, "m", 1), false); // nothing is known of it
    measured(&world, "m", 10);
    check_where(&world, ask_new(&world, "m", 1), true);
    measured(&world, "m", GW_INFER_RUN_HERE_US);
    check_where(&world, ask_new(&world, "m", 1), true);
    measured(&world, "m", GW_INFER_RUN_HERE_US + 1);
    check_where(&world, ask_new(&world, "m", 1), false);
    measured(&world, "m", 10);
    check_where(&world, ask_new(&world, "m", 2), false); // no plan for two rows
    measured(&world, "waits", 10);
    check_where(&world, ask_new(&world, "waits", 1), false); // for others to come
    measured(&world, "rows", 10);
    check_where(&world, ask_new(&world, "rows", 1), true);
    assert_int_equal(figures_of(&world, "m").calls, 5);
    assert_int_equal(figures_of(&world, "m").batches, 5);
    assert_int_equal(figures_of(&world, "m").running, 0);
    end(&world);
}

// A thread that just ran one has its other connections to look at first.
static void test_others_have_their_turn(void **state)
{
    struct world world;
    (void)state;
    begin(&world);
    infer_kit_add(&world.kit, "m", "1", NULL);
    start(&world, 1);
    measured(&world, "m", 100);
    pthread_mutex_lock(&world.service->lock);
    world.service->here_us = base_clock_mono_us() + 1000000;
    pthread_mutex_unlock(&world.service->lock);
    check_where(&world, ask_new(&world, "m", 1), false);
    measured(&world, "m", 100);
    check_where(&world, ask_new(&world, "m", 1), true);
    assert_int_not_equal(world.service->here_us, 0);
    end(&world);
}

// With anything under way, a call takes its turn in the queue.
static void test_not_beside_another(void **state)
{
    struct world world;
    (void)state;
    begin(&world);
    add_endless(&world.kit, "gate");
    infer_kit_add(&world.kit, "m", "1", NULL);
    start(&world, 2);
    measured(&world, "m", 10);
    struct ask *gate = ask_new(&world, "gate", 1);
    gw_infer_submit(world.service, &gate->ticket);
    wait_until_runs(&world, "gate");
    check_where(&world, ask_new(&world, "m", 1), false);
    gw_infer_cancel(world.service, &gate->ticket);
    wait_for(&world.seen, 2);
    ask_free(gate);
    end(&world);
}

// What it is refused with is the same, and is there at once as well.
static void test_refused_here(void **state)
{
    struct world world;
    (void)state;
    begin(&world);
    infer_kit_add(&world.kit, "m", "1", NULL);
    start(&world, 1);
    struct ask *ask = ask_new(&world, "m", 1);
    ask->input.name = BASE_STR("z");
    gw_infer_submit(world.service, &ask->ticket);
    assert_int_equal(place_of(ask), 1);
    assert_true(ask->ticket.here);
    assert_int_equal(ask->ticket.status, BASE_ERR_INVALID);
    ask_free(ask);
    end(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_where_a_call_runs),
        cmocka_unit_test(test_others_have_their_turn),
        cmocka_unit_test(test_not_beside_another),
        cmocka_unit_test(test_refused_here),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
