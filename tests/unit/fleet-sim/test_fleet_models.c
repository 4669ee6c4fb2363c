// Models of virtual devices: runners of several shards share one store, a version's model is loaded
// once, and a fleet whose tasks have none keeps nothing.
#include "nn_models.h"

#include "model/model_store.h"
#include "ports/sim_task.h"

#define RUNNERS 3
#define DEVICES 50

static struct dev_model_store *store;
static struct sim_runner runners[RUNNERS];
static struct nn_model model;

static uint8_t *compiled(const char *source, size_t *out_size)
{
    uint8_t *mpy = NULL;
    struct base_error error = {0};
    if (dev_vm_compile(base_str_of(source), BASE_STR("main.py"), &mpy, out_size, &error) !=
        BASE_OK) {
        fail_msg("%s", error.text);
    }
    return mpy;
}

// Runs the source with so many copies of the model's file on every runner, again and again.
static void run_all(const char *source, uint32_t files, enum wire_outcome_kind want,
                    const char *want_result)
{
    static struct dev_task_file listed[DEV_VM_MODELS_MAX + 2];
    static struct wire_manifest manifest;
    struct wire_attrs attrs = {0};
    size_t size = 0;
    uint8_t *mpy = compiled(source, &size);
    listed[0] = (struct dev_task_file){
        .kind = WIRE_FILE_SCRIPT, .name = BASE_STR("main.mpy"), .bytes = mpy, .size = size};
    for (uint32_t i = 0; i < files; i++) {
        listed[1 + i] = (struct dev_task_file){.kind = WIRE_FILE_MODEL,
                                               .name = BASE_STR("net.onnx"),
                                               .bytes = model.bytes,
                                               .size = model.size,
                                               .digest = model.digest};
    }
    manifest.entry = BASE_STR("main");
    struct dev_task_job job = {
        .attrs = &attrs, .manifest = &manifest, .files = listed, .file_count = 1 + files};
    for (uint32_t i = 0; i < DEVICES; i++) {
        struct sim_run_data data = {0};
        struct sim_task_end end;
        job.device_id = i;
        sim_runner_run(&runners[i % RUNNERS], &job, &data, &end);
        if (end.end.outcome != want) {
            fail_msg("%s", end.detail);
        }
        if (want == WIRE_OUTCOME_RAN) {
            assert_true(base_str_equal(end.end.result, base_str_of(want_result)));
        }
    }
    free(mpy);
}

static struct dev_model_store_stats stats(void)
{
    struct dev_model_store_stats now;
    dev_model_store_stats(store, &now);
    return now;
}

static void a_fleet_without_models_keeps_nothing(void **state)
{
    (void)state;
    run_all("import walle\nfrom walle import nn\nwalle.result(nn.tensor([1, 2]).size)\n", 0,
            WIRE_OUTCOME_RAN, "2");
    assert_int_equal(stats().models, 0);
    assert_int_equal(stats().bytes, 0);
}

static void a_model_is_loaded_once_for_the_fleet(void **state)
{
    (void)state;
    run_all("import walle\nfrom walle import nn\n"
            "walle.result(nn.load('net.onnx')([[1, 1, 1]]).tolist())\n",
            1, WIRE_OUTCOME_RAN, "[[2.0,0.0,4.0]]");
    assert_int_equal(stats().loads, 1);
    assert_int_equal(stats().sessions, 1); // runs came one after the other
    assert_int_equal(stats().held, 0);
}

static void too_many_models_are_a_failed_load(void **state)
{
    (void)state;
    run_all("pass\n", DEV_VM_MODELS_MAX + 1, WIRE_OUTCOME_FAIL_LOAD, "");
}

static int setup(void **state)
{
    (void)state;
    nn_add_relu(&model, 0);
    assert_int_equal(dev_model_store_new(0, &store), BASE_OK);
    for (uint32_t i = 0; i < RUNNERS; i++) {
        sim_runner_init(&runners[i], NULL);
        runners[i].model_store = store;
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < RUNNERS; i++) {
        sim_runner_done(&runners[i]);
    }
    dev_model_store_free(store);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fleet_without_models_keeps_nothing),
        cmocka_unit_test(a_model_is_loaded_once_for_the_fleet),
        cmocka_unit_test(too_many_models_are_a_failed_load),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
