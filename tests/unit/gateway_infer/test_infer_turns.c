// Whose turn it is, who loses its place, and whom a neighbour in a batch does no harm. One call
// that runs until it is cancelled holds the only thread while a test puts others into the queues,
// so what they become is told by the order of their ends, never by a time.
#include "infer_ask.h"

#define TIMEOUT_US 30000

// The call that holds the thread, in the model "gate".
static struct ask *close_gate(struct world *world)
{
    struct ask *gate = ask_new(world, "gate", 1);
    gw_infer_submit(world->service, &gate->ticket);
    wait_until_runs(world, "gate");
    return gate;
}

static void open_gate(struct world *world, struct ask *gate)
{
    gw_infer_cancel(world->service, &gate->ticket);
}

static struct ask *submit(struct world *world, const char *model, uint32_t priority)
{
    struct ask *ask = ask_new(world, model, 1);
    ask->call.priority = priority;
    gw_infer_submit(world->service, &ask->ticket);
    return ask;
}

static void free_all(struct ask **asks, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        ask_free(asks[i]);
    }
}

// Priorities hold over all models: whichever the service looks at first, the best goes first.
static void test_priorities_over_models(void **state)
{
    static const char *const models[] = {"a", "b", "c"};
    (void)state;
    for (uint32_t turn = 0; turn < 2; turn++) {
        struct world world;
        struct ask *asks[3];
        begin(&world);
        add_endless(&world.kit, "gate");
        for (uint32_t i = 0; i < TEST_COUNT(models); i++) {
            infer_kit_add(&world.kit, models[i], "1", NULL);
        }
        start(&world, 1);
        struct ask *gate = close_gate(&world);
        for (uint32_t i = 0; i < TEST_COUNT(asks); i++) {
            asks[i] = submit(&world, models[i], turn == 0 ? i : 2 - i);
        }
        open_gate(&world, gate);
        wait_for(&world.seen, 4);
        for (uint32_t i = 0; i < TEST_COUNT(asks); i++) {
            check_relu(asks[i]);
            assert_int_equal(asks[i]->place, 2 + asks[i]->call.priority);
        }
        assert_int_equal(gate->ticket.status, BASE_ERR_CLOSED);
        ask_free(gate);
        free_all(asks, TEST_COUNT(asks));
        end(&world);
    }
}

// Models whose calls are as good take turns.
static void test_turns_of_models(void **state)
{
    struct world world;
    struct ask *asks[6];
    (void)state;
    begin(&world);
    add_endless(&world.kit, "gate");
    infer_kit_add(&world.kit, "a", "1", NULL);
    infer_kit_add(&world.kit, "b", "1", NULL);
    start(&world, 1);
    struct ask *gate = close_gate(&world);
    for (uint32_t i = 0; i < TEST_COUNT(asks); i++) {
        asks[i] = submit(&world, i < 3 ? "a" : "b", 1);
    }
    open_gate(&world, gate);
    wait_for(&world.seen, 7);
    for (uint32_t i = 0; i < 3; i++) { // which of them is first is not said
        assert_int_equal((asks[i]->place - 2) / 2, i);
        assert_int_equal((asks[i + 3]->place - 2) / 2, i);
    }
    assert_int_equal(gate->ticket.status, BASE_ERR_CLOSED);
    ask_free(gate);
    free_all(asks, TEST_COUNT(asks));
    end(&world);
}

// The one that came last of those of the worst priority gives its place to a better one.
static void test_who_loses_its_place(void **state)
{
    struct world world;
    struct ask *asks[6];
    (void)state;
    begin(&world);
    add_endless(&world.kit, "gate");
    infer_kit_add(&world.kit, "m", "1", NULL);
    infer_kit_text(&world.kit, "m/model.conf", "queue = 4");
    start(&world, 1);
    struct ask *gate = close_gate(&world);
    for (uint32_t i = 0; i < 4; i++) {
        asks[i] = submit(&world, "m", i == 0 ? 2 : 3);
    }
    asks[4] = submit(&world, "m", 0);
    assert_int_equal(place_of(asks[3]), 1);
    asks[5] = submit(&world, "m", 1);
    assert_int_equal(place_of(asks[2]), 2);
    assert_string_equal(asks[2]->ticket.error.text, "calls of a better priority took its place");
    open_gate(&world, gate);
    wait_for(&world.seen, 7);
    for (uint32_t i = 0; i < TEST_COUNT(asks); i++) {
        assert_int_equal(asks[i]->ticket.status, i == 2 || i == 3 ? BASE_ERR_LIMIT : BASE_OK);
    }
    assert_int_equal(gate->ticket.status, BASE_ERR_CLOSED);
    ask_free(gate);
    free_all(asks, TEST_COUNT(asks));
    end(&world);
}

// y = w[x], w of three elements: an x without an element fails the run.
static void add_picky(const struct infer_kit *kit)
{
    static const float w[3] = {5, 6, 7};
    struct onnx_kit *onnx = onnx_begin();
    onnx_input(onnx, "x", ENG_F32, -1, 3);
    onnx_initializer(onnx, "w", ENG_F32, ONNX_DIMS(3), w, sizeof(w));
    onnx_node(onnx, "Cast", "x", "i");
    onnx_attr_int(onnx, "to", 7); // INT64
    onnx_node(onnx, "Gather", "w i", "y");
    onnx_output(onnx, "y", ENG_F32, -1, 3);
    infer_kit_add(kit, "picky", "1", onnx_finish(onnx, 13));
    infer_kit_text(kit, "picky/model.conf", "max_batch = 8");
}

// A batch that fails is run again call by call: what one of them sent fails that one alone.
static void test_a_neighbours_fault(void **state)
{
    struct world world;
    struct ask *asks[4];
    (void)state;
    begin(&world);
    add_endless(&world.kit, "gate");
    add_picky(&world.kit);
    start(&world, 1);
    struct ask *gate = close_gate(&world);
    for (uint32_t i = 0; i < TEST_COUNT(asks); i++) {
        asks[i] = ask_new(&world, "picky", 1);
        asks[i]->x[1] = i == 2 ? 9 : 2;
        gw_infer_submit(world.service, &asks[i]->ticket);
    }
    open_gate(&world, gate);
    wait_for(&world.seen, 5);
    for (uint32_t i = 0; i < TEST_COUNT(asks); i++) {
        if (i == 2) {
            assert_int_not_equal(asks[i]->ticket.status, BASE_OK);
            assert_true(asks[i]->ticket.error.text[0] != 0);
            continue;
        }
        assert_int_equal(asks[i]->ticket.status, BASE_OK);
        const float *y = asks[i]->ticket.result.outputs[0].data;
        assert_true(y[0] == 5 && y[1] == 7 && y[2] == 5);
    }
    assert_int_equal(figures_of(&world, "picky").failed, 1);
    assert_int_equal(figures_of(&world, "picky").batches, 3); // of those that ended well
    assert_int_equal(gate->ticket.status, BASE_ERR_CLOSED);
    ask_free(gate);
    free_all(asks, TEST_COUNT(asks));
    end(&world);
}

// A deadline ends its call while what is before it, or beside it in its batch, still runs.
static void test_deadlines_end_calls_at_once(void **state)
{
    struct world world;
    (void)state;
    begin(&world);
    add_endless(&world.kit, "gate");
    infer_kit_text(&world.kit, "gate/model.conf", "max_batch = 2\nbatch_delay_us = 1000000\n");
    infer_kit_add(&world.kit, "m", "1", NULL);
    start(&world, 1);
    struct ask *beside = ask_new(&world, "gate", 1);
    beside->call.timeout_us = TIMEOUT_US;
    gw_infer_submit(world.service, &beside->ticket);
    struct ask *gate = close_gate(&world);
    struct ask *behind = ask_new(&world, "m", 1);
    behind->call.timeout_us = TIMEOUT_US;
    gw_infer_submit(world.service, &behind->ticket);
    wait_for(&world.seen, 2);
    assert_int_equal(beside->ticket.status, BASE_ERR_TIMEOUT);
    assert_int_equal(behind->ticket.status, BASE_ERR_TIMEOUT);
    assert_int_equal(place_of(gate), 0);
    open_gate(&world, gate);
    wait_for(&world.seen, 3);
    assert_int_equal(gate->ticket.status, BASE_ERR_CLOSED);
    ask_free(gate);
    ask_free(beside);
    ask_free(behind);
    end(&world);
}

// Cancelled while a thread copies its inputs, when it cannot end: it does when that is done.
static void test_cancelled_while_held(void **state)
{
    struct world world;
    (void)state;
    begin(&world);
    add_endless(&world.kit, "gate");
    infer_kit_add(&world.kit, "m", "1", NULL);
    infer_kit_text(&world.kit, "m/model.conf", "max_batch = 2");
    start(&world, 1);
    struct ask *gate = close_gate(&world);
    struct ask *gone = submit(&world, "m", 1);
    struct ask *stays = submit(&world, "m", 1);
    pthread_mutex_lock(&world.service->lock);
    gone->ticket.cancelled = true; // what is left of a cancel that came then
    pthread_mutex_unlock(&world.service->lock);
    open_gate(&world, gate);
    wait_for(&world.seen, 3);
    assert_int_equal(gone->ticket.status, BASE_ERR_CLOSED);
    assert_int_equal(figures_of(&world, "m").cancelled, 1);
    check_relu(stays);
    assert_int_equal(gate->ticket.status, BASE_ERR_CLOSED);
    ask_free(gate);
    ask_free(gone);
    ask_free(stays);
    end(&world);
}

// With two threads, a model of one instance leaves the second one to others; one of two takes both.
static void test_instances(void **state)
{
    (void)state;
    for (uint32_t instances = 1; instances <= 2; instances++) {
        struct world world;
        begin(&world);
        add_endless(&world.kit, "gate");
        infer_kit_text(&world.kit, "gate/model.conf",
                       instances == 1 ? "instances = 1" : "instances = 2");
        infer_kit_add(&world.kit, "m", "1", NULL);
        start(&world, 2);
        struct ask *gate = close_gate(&world);
        struct ask *next = submit(&world, "gate", 0); // before all others, if it may go
        if (instances == 1) {
            struct ask *other = ask_one(&world, ask_new(&world, "m", 1));
            check_relu(other);
            ask_free(other);
        }
        while (figures_of(&world, "gate").running < instances) {
            usleep(500);
        }
        assert_int_equal(figures_of(&world, "gate").running, instances);
        assert_int_equal(figures_of(&world, "gate").waiting, 2 - instances);
        open_gate(&world, gate);
        while (figures_of(&world, "gate").waiting > 0) {
            usleep(500); // it has the instance now
        }
        gw_infer_cancel(world.service, &next->ticket);
        wait_for(&world.seen, instances == 1 ? 3 : 2);
        assert_int_equal(next->ticket.status, BASE_ERR_CLOSED);
        assert_int_equal(gate->ticket.status, BASE_ERR_CLOSED);
        ask_free(gate);
        ask_free(next);
        end(&world);
    }
}

// All models together have a limit too.
static void test_all_calls(void **state)
{
    struct world world;
    struct ask **asks = calloc(GW_INFER_CALLS_MAX, sizeof(*asks));
    (void)state;
    assert_non_null(asks);
    begin(&world);
    add_endless(&world.kit, "gate");
    infer_kit_text(&world.kit, "gate/model.conf", "queue = 3000");
    infer_kit_add(&world.kit, "m", "1", NULL);
    infer_kit_text(&world.kit, "m/model.conf", "queue = 3000");
    start(&world, 1);
    asks[0] = close_gate(&world);
    for (uint32_t i = 1; i < GW_INFER_CALLS_MAX; i++) {
        asks[i] = submit(&world, i % 2 == 0 ? "gate" : "m", 1);
    }
    assert_int_equal(world.seen.done, 0);
    struct ask *over = submit(&world, "m", 1);
    assert_int_equal(over->place, 1);
    assert_int_equal(over->ticket.status, BASE_ERR_LIMIT);
    gw_infer_cancel(world.service, &asks[7]->ticket);
    struct ask *after = submit(&world, "m", 1); // there is room for one
    assert_int_equal(place_of(after), 0);
    gw_infer_service_free(world.service);
    world.service = NULL;
    assert_int_equal(after->ticket.status, BASE_ERR_CLOSED);
    ask_free(over);
    ask_free(after);
    free_all(asks, GW_INFER_CALLS_MAX);
    free(asks);
    end(&world);
}

// A service that drains takes nothing new, and what waits is done.
static void test_draining(void **state)
{
    struct world world;
    (void)state;
    begin(&world);
    add_endless(&world.kit, "gate");
    infer_kit_add(&world.kit, "m", "1", NULL);
    start(&world, 1);
    struct ask *gate = close_gate(&world);
    struct ask *waits = submit(&world, "m", 1);
    gw_infer_service_drain(world.service);
    struct ask *late = submit(&world, "m", 0);
    assert_int_equal(place_of(late), 1);
    assert_int_equal(late->ticket.status, BASE_ERR_BUSY);
    assert_string_equal(late->ticket.error.text, "the service is about to end");
    open_gate(&world, gate);
    wait_for(&world.seen, 3);
    check_relu(waits);
    assert_int_equal(gate->ticket.status, BASE_ERR_CLOSED);
    ask_free(gate);
    ask_free(waits);
    ask_free(late);
    end(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_priorities_over_models),
        cmocka_unit_test(test_turns_of_models),
        cmocka_unit_test(test_who_loses_its_place),
        cmocka_unit_test(test_a_neighbours_fault),
        cmocka_unit_test(test_deadlines_end_calls_at_once),
        cmocka_unit_test(test_cancelled_while_held),
        cmocka_unit_test(test_instances),
        cmocka_unit_test(test_all_calls),
        cmocka_unit_test(test_draining),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
