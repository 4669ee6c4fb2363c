// Calls of the inference service on threads of its own: results beside what the model says, calls
// put together, deadlines, callers that go, queues that are full, models that come and go.
#include "infer_ask.h"

#include "infer/infer_private.h"

static void test_calls_are_put_together(void **state)
{
    struct world world;
    struct ask *asks[60];
    struct base_prng prng;
    struct gw_infer_row *rows = NULL;
    size_t count = 0;
    (void)state;
    test_seed(&prng);
    begin(&world);
    infer_kit_add(&world.kit, "m", "1", NULL);
    infer_kit_text(&world.kit, "m/model.conf", "max_batch = 64\nbatch_delay_us = 50000\n");
    start(&world, 2);
    for (uint32_t i = 0; i < TEST_COUNT(asks); i++) {
        asks[i] = ask_new(&world, "m", 1 + i % 5);
        for (size_t k = 0; k < TEST_COUNT(asks[i]->x); k++) {
            asks[i]->x[k] = (float)(int32_t)(base_prng_next(&prng) % 21) - 10;
        }
        gw_infer_submit(world.service, &asks[i]->ticket);
    }
    wait_for(&world.seen, TEST_COUNT(asks));
    for (uint32_t i = 0; i < TEST_COUNT(asks); i++) {
        check_relu(asks[i]);
    }
    const struct gw_infer_call all = {0};
    assert_int_equal(gw_infer_rows(world.service, &all, &asks[0]->arena, &rows, &count), BASE_OK);
    assert_int_equal(count, 1);
    assert_int_equal(rows[0].figures.calls, TEST_COUNT(asks));
    assert_int_equal(rows[0].figures.rows, 180);
    assert_true(rows[0].figures.batches >= 3 && rows[0].figures.batches < TEST_COUNT(asks));
    for (uint32_t i = 0; i < TEST_COUNT(asks); i++) {
        ask_free(asks[i]);
    }
    end(&world);
}

// Where a batch was measured to pay nothing, calls go one by one, and none waits for others.
static void test_batches_that_do_not_pay(void **state)
{
    struct world world;
    struct ask *asks[6];
    struct base_error error = {0};
    (void)state;
    begin(&world);
    infer_kit_add(&world.kit, "m", "1", NULL);
    infer_kit_text(&world.kit, "m/model.conf", "max_batch = 4\nbatch_delay_us = 1000000\n");
    start(&world, 1);
    for (uint32_t i = 0; i < TEST_COUNT(asks); i++) {
        asks[i] = ask_new(&world, "m", 1);
    }
    gw_infer_submit(world.service, &asks[0]->ticket); // alone, when its delay is over
    wait_for(&world.seen, 1);
    pthread_mutex_lock(&world.service->lock);
    struct gw_infer_version *version =
        gw_infer_find(world.service, BASE_STR("m"), (struct base_str){0}, &error);
    uint64_t shape = asks[0]->ticket.wait.shape;
    for (uint32_t i = 0; i < 3 * GW_INFER_COST_TRIALS; i++) {
        uint32_t rows = 1u << i % 3;
        gw_infer_cost_add(&version->costs, shape, rows, 1000000 * (uint64_t)rows * rows);
    }
    pthread_mutex_unlock(&world.service->lock);
    for (uint32_t i = 1; i < TEST_COUNT(asks); i++) {
        gw_infer_submit(world.service, &asks[i]->ticket);
    }
    wait_for(&world.seen, TEST_COUNT(asks));
    pthread_mutex_lock(&world.service->lock);
    assert_int_equal(version->figures.batches, TEST_COUNT(asks));
    pthread_mutex_unlock(&world.service->lock);
    for (uint32_t i = 0; i < TEST_COUNT(asks); i++) {
        check_relu(asks[i]);
        ask_free(asks[i]);
    }
    end(&world);
}

static void expect(struct world *world, struct ask *ask, enum base_status status, const char *says)
{
    (void)ask_one(world, ask);
    assert_int_equal(ask->ticket.status, status);
    assert_string_equal(ask->ticket.error.text, says);
    ask_free(ask);
}

static void test_wrong_calls(void **state)
{
    struct world world;
    struct ask *ask;
    const struct gw_infer_wish wish = {.name = BASE_STR("z")};
    (void)state;
    begin(&world);
    infer_kit_add(&world.kit, "m", "3", NULL);
    infer_kit_text(&world.kit, "m/model.conf", "max_batch = 4");
    start(&world, 1);
    expect(&world, ask_new(&world, "n", 1), BASE_ERR_NOT_FOUND,
           "model 'n': there is none of this name");
    ask = ask_new(&world, "m", 1);
    ask->call.version = BASE_STR("1");
    expect(&world, ask, BASE_ERR_NOT_FOUND, "model 'm': version '1' is not served");
    ask = ask_new(&world, "m", 1);
    ask->input.name = BASE_STR("q");
    expect(&world, ask, BASE_ERR_INVALID, "input 'q': the model has none of this name");
    ask = ask_new(&world, "m", 1);
    ask->call.input_count = 0;
    expect(&world, ask, BASE_ERR_INVALID, "input 'x': is missing");
    ask = ask_new(&world, "m", 1);
    ask->input.desc.dtype = ENG_F64;
    expect(&world, ask, BASE_ERR_INVALID, "input 'x': is FP64, the model takes FP32");
    ask = ask_new(&world, "m", 3);
    ask->input.desc = (struct eng_desc){ENG_F32, 2, {1, 9}};
    expect(&world, ask, BASE_ERR_INVALID, "input 'x': is FP32[1,9], the model takes FP32[?,3]");
    ask = ask_new(&world, "m", 1);
    ask->call.wishes = (struct gw_infer_wish *)(uintptr_t)&wish;
    ask->call.wish_count = 1;
    expect(&world, ask, BASE_ERR_INVALID, "output 'z': the model has none of this name");
    assert_int_equal(figures_of(&world, "m").invalid, 5); // not those that name no version
    assert_int_equal(figures_of(&world, "m").failed + figures_of(&world, "m").refused, 0);
    end(&world);
}

// Both a call that runs and one that waits end when their time is over; the thread is free again.
static void test_deadlines(void **state)
{
    struct world world;
    (void)state;
    begin(&world);
    add_endless(&world.kit, "slow");
    infer_kit_add(&world.kit, "m", "1", NULL);
    start(&world, 1);
    struct ask *running = ask_new(&world, "slow", 1);
    struct ask *waiting = ask_new(&world, "slow", 1);
    running->call.timeout_us = 60000;
    waiting->call.timeout_us = 30000;
    gw_infer_submit(world.service, &running->ticket);
    gw_infer_submit(world.service, &waiting->ticket);
    wait_for(&world.seen, 2);
    assert_int_equal(running->ticket.status, BASE_ERR_TIMEOUT);
    assert_int_equal(waiting->ticket.status, BASE_ERR_TIMEOUT);
    assert_string_equal(running->ticket.error.text, "not done within its timeout");
    assert_string_equal(waiting->ticket.error.text, "not done within its timeout");
    assert_int_equal(figures_of(&world, "slow").timed_out, 2);
    struct ask *after = ask_one(&world, ask_new(&world, "m", 2));
    check_relu(after);
    ask_free(after);
    ask_free(running);
    ask_free(waiting);
    end(&world);
}

// However early the time is over: in the queue, while the inputs are copied, in the run.
static void test_deadlines_that_nothing_meets(void **state)
{
    struct world world;
    (void)state;
    begin(&world);
    infer_kit_add(&world.kit, "m", "1", NULL);
    start(&world, 1);
    for (uint32_t i = 0; i < 100; i++) {
        struct ask *ask = ask_new(&world, "m", 1);
        ask->call.timeout_us = 1 + i;
        (void)ask_one(&world, ask);
        assert_true(ask->ticket.status == BASE_OK || ask->ticket.error.text[0] != '\0');
        ask_free(ask);
    }
    assert_true(figures_of(&world, "m").timed_out > 0);
    end(&world);
}

static void test_callers_go(void **state)
{
    struct world world;
    (void)state;
    begin(&world);
    add_endless(&world.kit, "slow");
    infer_kit_add(&world.kit, "m", "1", NULL);
    start(&world, 1);
    struct ask *running = ask_new(&world, "slow", 1);
    struct ask *waiting = ask_new(&world, "slow", 1);
    gw_infer_submit(world.service, &running->ticket);
    wait_until_runs(&world, "slow");
    gw_infer_submit(world.service, &waiting->ticket);
    gw_infer_cancel(world.service, &waiting->ticket);
    wait_for(&world.seen, 1);
    gw_infer_cancel(world.service, &running->ticket);
    gw_infer_cancel(world.service, &running->ticket); // once more is no harm
    wait_for(&world.seen, 2);
    struct ask *after = ask_one(&world, ask_new(&world, "m", 1)); // needs the only thread
    check_relu(after);
    assert_int_equal(running->ticket.status, BASE_ERR_CLOSED);
    assert_int_equal(waiting->ticket.status, BASE_ERR_CLOSED);
    assert_int_equal(figures_of(&world, "slow").cancelled, 2);
    ask_free(after);
    ask_free(running);
    ask_free(waiting);
    end(&world);
}

// A full queue refuses; a call of a better priority takes the place of the last one; the end of the
// service ends who is left.
static void test_overload(void **state)
{
    struct world world;
    struct ask *asks[5];
    (void)state;
    begin(&world);
    add_endless(&world.kit, "slow");
    infer_kit_text(&world.kit, "slow/model.conf", "queue = 2");
    start(&world, 1);
    for (uint32_t i = 0; i < TEST_COUNT(asks); i++) {
        asks[i] = ask_new(&world, "slow", 1);
        asks[i]->call.priority = i == 4 ? 0 : i;
    }
    asks[3]->call.priority = 2;
    gw_infer_submit(world.service, &asks[0]->ticket);
    wait_until_runs(&world, "slow");
    gw_infer_submit(world.service, &asks[1]->ticket);
    gw_infer_submit(world.service, &asks[2]->ticket);
    gw_infer_submit(world.service, &asks[3]->ticket);
    wait_for(&world.seen, 1);
    assert_int_equal(asks[3]->ticket.status, BASE_ERR_LIMIT);
    assert_string_equal(asks[3]->ticket.error.text, "too many calls wait for the model");
    assert_true(asks[3]->ticket.retry_after_s >= 1);
    gw_infer_submit(world.service, &asks[4]->ticket);
    wait_for(&world.seen, 2);
    assert_int_equal(asks[2]->ticket.status, BASE_ERR_LIMIT);
    assert_int_equal(figures_of(&world, "slow").refused, 2);
    assert_int_equal(figures_of(&world, "slow").waiting, 2);
    gw_infer_service_free(world.service);
    world.service = NULL;
    for (uint32_t i = 0; i < TEST_COUNT(asks); i++) {
        assert_int_equal(asks[i]->ticket.status,
                         i == 2 || i == 3 ? BASE_ERR_LIMIT : BASE_ERR_CLOSED);
        ask_free(asks[i]);
    }
    end(&world);
}

// A call that would wait too long is refused at once, but never one that nothing is before: however
// long runs took lately, the next one is the way to know better.
static void test_waits_that_are_too_long(void **state)
{
    struct world world;
    (void)state;
    begin(&world);
    add_endless(&world.kit, "slow");
    start(&world, 1);
    world.service->versions->batch_us = 100000000;
    struct ask *running = ask_new(&world, "slow", 1);
    struct ask *late = ask_new(&world, "slow", 1);
    running->call.timeout_us = 20000000;
    late->call.timeout_us = 20000000;
    gw_infer_submit(world.service, &running->ticket);
    wait_until_runs(&world, "slow");
    gw_infer_submit(world.service, &late->ticket);
    wait_for(&world.seen, 1);
    assert_int_equal(late->ticket.status, BASE_ERR_LIMIT);
    assert_string_equal(late->ticket.error.text,
                        "calls before it would take longer than its timeout");
    assert_int_equal(late->ticket.retry_after_s, 201); // the run under way, and its own
    gw_infer_cancel(world.service, &running->ticket);
    wait_for(&world.seen, 2);
    assert_int_equal(running->ticket.status, BASE_ERR_CLOSED);
    ask_free(running);
    ask_free(late);
    end(&world);
}

// No alias takes the name of another folder, loaded or not: that one could never come in.
static void test_aliases_of_others(void **state)
{
    struct world world;
    struct base_error error = {0};
    (void)state;
    begin(&world);
    infer_kit_add(&world.kit, "a", "1", NULL);
    infer_kit_add(&world.kit, "b", "1", NULL);
    infer_kit_text(&world.kit, "a/model.conf", "aliases = a1, b");
    start(&world, 1);
    assert_false(gw_infer_model_ready(world.service, BASE_STR("a"), BASE_STR("")));
    assert_false(gw_infer_model_ready(world.service, BASE_STR("a1"), BASE_STR("")));
    assert_true(gw_infer_model_ready(world.service, BASE_STR("b"), BASE_STR("")));
    assert_int_equal(gw_infer_unload(world.service, BASE_STR("b"), &error), BASE_OK);
    assert_int_equal(gw_infer_load(world.service, BASE_STR("a"), &error), BASE_ERR_CONFLICT);
    assert_string_equal(error.text, "a: alias 'b' is the name of another model's folder");
    infer_kit_text(&world.kit, "a/model.conf", "aliases = a1, a");
    assert_int_equal(gw_infer_load(world.service, BASE_STR("a"), &error), BASE_OK);
    assert_true(gw_infer_model_ready(world.service, BASE_STR("a1"), BASE_STR("")));
    end(&world);
}

// A version that is replaced or unloaded goes on with the calls it has.
static void test_models_come_and_go(void **state)
{
    struct world world;
    struct base_error error = {0};
    (void)state;
    begin(&world);
    infer_kit_add(&world.kit, "m", "1", NULL);
    infer_kit_add(&world.kit, "broken", "1", NULL);
    infer_kit_text(&world.kit, "broken/1/model.onnx", "no model");
    infer_kit_text(&world.kit, "m/model.conf", "aliases = best");
    start(&world, 2);
    assert_false(gw_infer_ready(world.service));
    assert_true(gw_infer_model_ready(world.service, BASE_STR("best"), BASE_STR("1")));
    assert_false(gw_infer_model_ready(world.service, BASE_STR("broken"), BASE_STR("")));
    struct ask *ask = ask_one(&world, ask_new(&world, "broken", 1));
    assert_int_equal(ask->ticket.status, BASE_ERR_CONFLICT);
    assert_memory_equal(ask->ticket.error.text, "model 'broken' is not loaded: broken/1: ", 40);
    ask_free(ask);
    assert_int_equal(gw_infer_load(world.service, BASE_STR("../m"), &error), BASE_ERR_INVALID);
    assert_int_equal(gw_infer_load(world.service, BASE_STR("x"), &error), BASE_ERR_NOT_FOUND);
    infer_kit_add(&world.kit, "broken", "1", NULL);
    assert_int_equal(gw_infer_load(world.service, BASE_STR("broken"), &error), BASE_OK);
    assert_true(gw_infer_ready(world.service));
    infer_kit_add(&world.kit, "m", "2", NULL);
    struct ask *asks[40];
    for (uint32_t i = 0; i < TEST_COUNT(asks); i++) {
        asks[i] = ask_new(&world, "best", 1 + i % 4);
        gw_infer_submit(world.service, &asks[i]->ticket);
        if (i == 20) {
            assert_int_equal(gw_infer_load(world.service, BASE_STR("m"), &error), BASE_OK);
        }
    }
    assert_int_equal(gw_infer_unload(world.service, BASE_STR("m"), &error), BASE_OK);
    assert_int_equal(gw_infer_unload(world.service, BASE_STR("m"), &error), BASE_ERR_NOT_FOUND);
    wait_for(&world.seen, 1 + TEST_COUNT(asks));
    for (uint32_t i = 0; i < TEST_COUNT(asks); i++) {
        check_relu(asks[i]);
        assert_int_equal(asks[i]->ticket.result.version.data[0], i <= 20 ? '1' : '2');
        ask_free(asks[i]);
    }
    assert_true(gw_infer_ready(world.service)); // nobody wants m now
    end(&world);
}

static void test_rows_that_are_none(void **state)
{
    struct world world;
    struct base_error error = {0};
    struct onnx_kit *kit = onnx_begin();
    (void)state;
    begin(&world);
    onnx_input(kit, "x", ENG_F32, 2, 3);
    onnx_node(kit, "Relu", "x", "y");
    onnx_output(kit, "y", ENG_F32, 2, 3);
    infer_kit_add(&world.kit, "fixed", "1", onnx_finish(kit, 13));
    infer_kit_text(&world.kit, "fixed/model.conf", "max_batch = 2");
    start(&world, 1);
    assert_int_equal(gw_infer_load(world.service, BASE_STR("fixed"), &error), BASE_ERR_INVALID);
    assert_string_equal(error.text, "fixed/1: max_batch over 1 does not fit input 'x': its first "
                                    "dimension is fixed");
    end(&world);
}

// Rows that no batch has place for, and calls without any, run by themselves among others.
static void test_rows_beside_batches(void **state)
{
    static const uint32_t rows[] = {3, 0, 1, 9, 2, 64, 0, 4, 5};
    struct world world;
    struct ask *asks[3 * TEST_COUNT(rows)];
    struct base_prng prng;
    (void)state;
    test_seed(&prng);
    begin(&world);
    infer_kit_add(&world.kit, "m", "1", NULL);
    infer_kit_text(&world.kit, "m/model.conf",
                   "max_batch = 4\nbatch_delay_us = 2000\nwarm_rows = 9");
    start(&world, 2);
    for (uint32_t i = 0; i < TEST_COUNT(asks); i++) {
        asks[i] = ask_new(&world, "m", rows[i % TEST_COUNT(rows)]);
        for (size_t k = 0; k < TEST_COUNT(asks[i]->x); k++) {
            asks[i]->x[k] = (float)(int32_t)(base_prng_next(&prng) % 21) - 10;
        }
        gw_infer_submit(world.service, &asks[i]->ticket);
    }
    wait_for(&world.seen, TEST_COUNT(asks));
    for (uint32_t i = 0; i < TEST_COUNT(asks); i++) {
        check_relu(asks[i]);
        ask_free(asks[i]);
    }
    assert_int_equal(figures_of(&world, "m").rows, 3 * 88);
    struct ask *many = ask_new(&world, "m", 1);
    many->input.desc = (struct eng_desc){ENG_F32, 2, {INT64_C(1) << 32, 3}};
    expect(&world, many, BASE_ERR_TOO_LARGE, "4294967296 rows");
    end(&world);
}

// The row of this model and version; its texts are in the arena.
static struct gw_infer_row row_of(struct world *world, struct base_arena *arena, const char *model,
                                  const char *version)
{
    struct gw_infer_row *rows = NULL;
    struct gw_infer_row found = {.ready = false};
    size_t count = 0;
    const struct gw_infer_call all = {0};
    assert_int_equal(gw_infer_rows(world->service, &all, arena, &rows, &count), BASE_OK);
    for (size_t i = 0; i < count; i++) {
        if (base_str_equal(rows[i].name, base_str_of(model)) &&
            base_str_equal(rows[i].version, base_str_of(version))) {
            found = rows[i];
        }
    }
    assert_non_null(found.name.data);
    return found;
}

// A start serves what it can: below a version that is broken the next one; a load changes nothing.
static void test_a_broken_version(void **state)
{
    struct world world;
    struct base_arena arena;
    struct base_error error = {0};
    (void)state;
    begin(&world);
    base_arena_init(&arena, base_alloc_heap(), 0, 0);
    for (uint32_t i = 0; i < 12; i++) { // more than are looked at
        char path[32];
        char version[8];
        snprintf(version, sizeof(version), "%u", i + 1);
        snprintf(path, sizeof(path), "m/%u/model.onnx", i + 1);
        infer_kit_add(&world.kit, "m", version, NULL);
        infer_kit_text(&world.kit, path, i < 10 ? "" : "no model");
    }
    infer_kit_add(&world.kit, "m", "10", NULL);
    infer_kit_add(&world.kit, "all", "1", NULL);
    infer_kit_add(&world.kit, "all", "2", NULL);
    infer_kit_text(&world.kit, "all/1/model.onnx", "no model");
    infer_kit_text(&world.kit, "all/model.conf", "versions = all");
    start(&world, 1);
    assert_true(gw_infer_ready(world.service));
    struct ask *ask = ask_one(&world, ask_new(&world, "m", 1));
    check_relu(ask);
    assert_true(base_str_equal(ask->ticket.result.version, BASE_STR("10")));
    ask_free(ask);
    assert_true(row_of(&world, &arena, "m", "10").ready);
    assert_memory_equal(row_of(&world, &arena, "m", "12").reason.data, "m/12: ", 6);
    assert_memory_equal(row_of(&world, &arena, "m", "11").reason.data, "m/11: ", 6);
    assert_true(row_of(&world, &arena, "all", "2").ready);
    assert_false(row_of(&world, &arena, "all", "1").ready);
    ask = ask_new(&world, "m", 1);
    ask->call.version = BASE_STR("12");
    (void)ask_one(&world, ask);
    assert_int_equal(ask->ticket.status, BASE_ERR_CONFLICT);
    assert_memory_equal(ask->ticket.error.text, "version 12 is not loaded: m/12: ", 32);
    ask_free(ask);
    assert_int_not_equal(gw_infer_load(world.service, BASE_STR("m"), &error), BASE_OK);
    assert_true(gw_infer_model_ready(world.service, BASE_STR("m"), BASE_STR("10")));
    assert_int_equal(gw_infer_unload(world.service, BASE_STR("m"), &error), BASE_OK);
    struct base_str reason = row_of(&world, &arena, "m", "").reason;
    assert_true(base_str_equal(reason, BASE_STR("unloaded by an operator")));
    base_arena_done(&arena);
    end(&world);
}

// Each folder is in the index, and what can never be a model keeps nobody from being ready.
static void test_folders_that_are_no_models(void **state)
{
    struct world world;
    struct base_arena arena;
    (void)state;
    begin(&world);
    base_arena_init(&arena, base_alloc_heap(), 0, 0);
    infer_kit_add(&world.kit, "m", "1", NULL);
    infer_kit_folder(&world.kit, "empty");
    infer_kit_folder(&world.kit, "two words \xc3\xa9");
    start(&world, 1);
    assert_true(gw_infer_ready(world.service));
    assert_true(row_of(&world, &arena, "m", "1").ready);
    assert_string_equal(row_of(&world, &arena, "empty", "").reason.data,
                        "empty: no folder of a version that is to be served (1, 2, ...)");
    assert_string_equal(row_of(&world, &arena, "two words ??", "").reason.data,
                        "'two words ?\?': a model's name is 1 to 128 of A-Z a-z 0-9 . _ - with no "
                        "dot in front");
    gw_infer_service_free(world.service);
    infer_kit_text(&world.kit, "empty/model.conf", "batch = 2");
    start(&world, 1);
    assert_false(gw_infer_ready(world.service)); // somebody wants it served
    assert_string_equal(row_of(&world, &arena, "empty", "").reason.data,
                        "empty/model.conf:1: 'batch' is no setting of a model");
    base_arena_done(&arena);
    end(&world);
}

// Without a device there is no session, and without one no model; one that goes later is no fault
// of the call.
static void test_no_session(void **state)
{
    struct world world;
    struct base_error error = {0};
    (void)state;
    begin(&world);
    infer_kit_add(&world.kit, "m", "1", NULL);
    assert_int_equal(setenv("WALLE_ENGINE_DEVICE", "abacus", 1), 0);
    start(&world, 1);
    assert_false(gw_infer_ready(world.service));
    expect(&world, ask_new(&world, "m", 1), BASE_ERR_CONFLICT,
           "model 'm' is not loaded: m/1: device 'abacus': there are cpu and cuda");
    assert_int_equal(unsetenv("WALLE_ENGINE_DEVICE"), 0);
    assert_int_equal(gw_infer_load(world.service, BASE_STR("m"), &error), BASE_OK);
    assert_true(gw_infer_ready(world.service));
    assert_int_equal(setenv("WALLE_ENGINE_DEVICE", "abacus", 1), 0);
    expect(&world, ask_new(&world, "m", 2), BASE_ERR_BUSY,
           "the model has no session: device 'abacus': there are cpu and cuda");
    assert_int_equal(unsetenv("WALLE_ENGINE_DEVICE"), 0);
    end(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls_are_put_together),
        cmocka_unit_test(test_batches_that_do_not_pay),
        cmocka_unit_test(test_wrong_calls),
        cmocka_unit_test(test_deadlines),
        cmocka_unit_test(test_deadlines_that_nothing_meets),
        cmocka_unit_test(test_rows_beside_batches),
        cmocka_unit_test(test_a_broken_version),
        cmocka_unit_test(test_folders_that_are_no_models),
        cmocka_unit_test(test_no_session),
        cmocka_unit_test(test_callers_go),
        cmocka_unit_test(test_overload),
        cmocka_unit_test(test_aliases_of_others),
        cmocka_unit_test(test_models_come_and_go),
        cmocka_unit_test(test_waits_that_are_too_long),
        cmocka_unit_test(test_rows_that_are_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
