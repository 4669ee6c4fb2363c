// The call in a model's folder, warmup.json: it was run before the version takes calls, so the
// first real one finds its plan; one that cannot run keeps the version from being served, with the
// reason.
#include "failing_heap.h"
#include "infer_ask.h"

#include "infer/codec/oip_json.h"

#include <unistd.h>

#define WARMUP                                                                                     \
    "{\"inputs\":[{\"name\":\"x\",\"datatype\":\"FP32\",\"shape\":[5,3],"                          \
    "\"data\":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15]}]}"

static void serve(struct world *world)
{
    struct base_error error = {0};
    const struct gw_infer_options options = {.models_dir = world->kit.dir,
                                             .threads = 1,
                                             .explicit_models = true,
                                             .log = &world->log,
                                             .read_call = gw_oip_json_read};
    base_log_stderr(&world->log, BASE_LOG_ERROR);
    assert_int_equal(gw_infer_service_new(&options, &world->service, &error), BASE_OK);
}

static const struct gw_infer_version *version_of(const struct world *world)
{
    return world->service->models[0]->versions[0];
}

// The session that waits, planned for so many rows (0: of one call), with the shape of such a call.
static const struct gw_infer_session *session_of(const struct world *world, uint64_t shape,
                                                 uint32_t rows)
{
    const struct gw_infer_session *session = version_of(world)->idle;
    while (session != NULL && (session->shape != shape || session->rows != rows)) {
        session = session->next;
    }
    return session;
}

// The call was not planned alone: its answer is in the session.
static void check_was_run(const struct gw_infer_session *session)
{
    static const float w[3] = {1, -2, 3};
    struct base_error error = {0};
    struct eng_array y;
    assert_non_null(session);
    assert_int_equal(eng_session_output(session->engine, 0, &y, &error), BASE_OK);
    for (size_t i = 0; i < 15; i++) {
        float sum = (float)(i + 1) + w[i % 3];
        assert_true(((const float *)y.data)[i] == (sum > 0 ? sum : 0));
    }
}

static void check_first_call(const char *conf, uint32_t planned)
{
    struct world world;
    struct base_error error = {0};
    begin(&world);
    infer_kit_add(&world.kit, "m", "1", NULL);
    infer_kit_text(&world.kit, "m/model.conf", conf);
    infer_kit_text(&world.kit, "m/1/warmup.json", WARMUP);
    serve(&world);
    assert_int_equal(gw_infer_load(world.service, BASE_STR("m"), &error), BASE_OK);
    struct ask *ask = ask_new(&world, "m", 5);
    assert_int_equal(gw_infer_check(version_of(&world), &ask->ticket), BASE_OK);
    check_was_run(session_of(&world, ask->ticket.wait.shape, planned));
    assert_int_equal(version_of(&world)->session_count, 2); // the one of one row as well
    ask->ticket = (struct gw_infer_ticket){.call = &ask->call, .arena = &ask->arena, .done = done};
    check_relu(ask_one(&world, ask));
    assert_int_equal(version_of(&world)->session_count, 2); // none was made for the call
    ask_free(ask);
    end(&world);
}

static void test_the_first_call_finds_its_plan(void **state)
{
    (void)state;
    check_first_call("", 0);
    check_first_call("max_batch = 8", 8); // as a batch of five would be
    check_first_call("max_batch = 4", 0); // it is a run of its own
}

static void test_one_that_cannot_run(void **state)
{
    static const struct {
        const char *text;
        enum base_status status;
        const char *says;
    } cases[] = {
        {"{\"inputs\":[", BASE_ERR_INVALID, "m/1: warmup.json: JSON"},
        {"", BASE_ERR_INVALID, "m/1: warmup.json: JSON"},
        {"{\"inputs\":[{\"name\":\"x\",\"datatype\":\"FP32\",\"shape\":[1,2],\"data\":[1,2]}]}",
         BASE_ERR_INVALID, "m/1: warmup.json: "},
        {"{\"inputs\":[{\"name\":\"z\",\"datatype\":\"FP32\",\"shape\":[1,3],\"data\":[1,2,3]}]}",
         BASE_ERR_INVALID, "m/1: warmup.json: "},
    };
    struct world world;
    (void)state;
    begin(&world);
    infer_kit_add(&world.kit, "m", "1", NULL);
    serve(&world);
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct base_error error = {0};
        infer_kit_text(&world.kit, "m/1/warmup.json", cases[i].text);
        enum base_status status = gw_infer_load(world.service, BASE_STR("m"), &error);
        if (status != cases[i].status || strstr(error.text, cases[i].says) == NULL) {
            fail_msg("case %zu: %s: %s", i, base_status_name(status), error.text);
        }
    }
    struct base_error error = {0};
    char path[200];
    snprintf(path, sizeof(path), "%s/m/1/warmup.json", world.kit.dir);
    assert_int_equal(truncate(path, (off_t)GW_INFER_WARMUP_BYTES_MAX + 1), 0);
    assert_int_equal(gw_infer_load(world.service, BASE_STR("m"), &error), BASE_ERR_TOO_LARGE);
    assert_string_equal(error.text, "m/1: warmup.json: over 4194304 bytes");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("model.onnx", path), 0);
    assert_int_equal(gw_infer_load(world.service, BASE_STR("m"), &error), BASE_ERR_INVALID);
    assert_string_equal(error.text, "m/1: warmup.json: a symbolic link, not a regular file");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(gw_infer_load(world.service, BASE_STR("m"), &error), BASE_OK);
    end(&world);
}

static void test_no_memory(void **state)
{
    struct world world;
    struct base_error error = {0};
    uint32_t refused = 0; // for the call in its folder
    (void)state;
    begin(&world);
    infer_kit_add(&world.kit, "m", "1", NULL);
    infer_kit_text(&world.kit, "m/1/warmup.json", WARMUP);
    serve(&world);
    bool failed = true;
    for (size_t allowed = 0; failed; allowed++) { // what cannot be planned ahead is no failure
        failing_heap_arm(allowed, true);
        enum base_status status = gw_infer_load(world.service, BASE_STR("m"), &error);
        failed = failing_heap_has_failed();
        (void)failing_heap_disarm();
        assert_true(status == BASE_OK || failed);
        refused += status == BASE_OK ? 0 : strstr(error.text, "warmup.json") != NULL;
    }
    assert_true(refused >= 5);
    struct ask *ask = ask_new(&world, "m", 5);
    check_relu(ask_one(&world, ask));
    ask_free(ask);
    end(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_first_call_finds_its_plan),
        cmocka_unit_test(test_one_that_cannot_run),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
