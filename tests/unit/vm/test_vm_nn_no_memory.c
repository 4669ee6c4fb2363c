// Every allocation of the process's heap failing in turn, alone and with all after it, while a
// script loads, runs and trains models and keeps a session: the run ends well or with the script's
// MemoryError, and nothing is lost or held.
#include "failing_heap.h"
#include "nn_models.h"

#include "model/model_store.h"
#include "model/session_port.h"
#include "vm_kit.h"

#define ALLOCATIONS_MAX 6000u
#define WARM_RUNS       3

static struct nn_model files[3];
static struct dev_vm_model listed[3];

static const char source[] =
    "import walle\nfrom walle import nn\n"
    "m = nn.load('add.onnx')\n"
    "y = m([[1, 1, 1]] * 5)\n"
    "y = m.run({'x': y})['y']\n"
    "z = nn.load('cut.onnx')(y.reshape(-1))\n"
    "s = nn.Session(m, {'x': (1, 3)}, ['s'])\n"
    "assert s([[1, 1, 1]]).tolist() == [[2, -1, 4]]\n"
    "c = nn.load('conv.onnx').run({'x': nn.tensor(bytes(128), (1, 2, 4, 4))},"
    " ['convolved'])\n"
    "t = nn.Trainer(m, loss='mse', optimizer='adam', lr=1e-6)\n"
    "t.step([[1, 1, 1]], [[0, 0, 0]])\n"
    "assert len(t.export()) > 0 and t.predict([[1, 1, 1]]).size == 3\n"
    "walle.result([y[4].tolist(), z.shape])\n";

static void run_checked(struct vm_kit *kit)
{
    assert_int_equal(dev_vm_run(kit->vm, &kit->job, &kit->result), BASE_OK);
    if (kit->result.end == DEV_VM_FINISHED) {
        kit_text_is(kit->result.result, "[[3.0,0.0,7.0],[1,10]]");
    } else {
        kit_ended(kit, DEV_VM_MEMORY);
        assert_true(failing_heap_has_failed());
    }
}

// One VM, one store, and as many runs as it takes to start from a warm image. True: every
// allocation was granted.
static bool try_once(struct vm_kit *kit, size_t allowed, bool once)
{
    struct dev_model_store *store = NULL;
    failing_heap_arm(allowed, once);
    if (dev_model_store_new(0, &store) == BASE_OK) {
        struct dev_model_port port = dev_model_store_port(store);
        kit->job.model_port = &port;
        for (int i = 0; i < WARM_RUNS; i++) {
            run_checked(kit);
        }
        struct dev_model_store_stats stats;
        dev_model_store_stats(store, &stats);
        assert_int_equal(stats.held, 0);
        assert_int_equal(dev_model_store_validate(store), BASE_OK);
        kit->job.model_port = NULL;
    }
    bool failed = failing_heap_has_failed();
    (void)failing_heap_disarm();
    dev_model_store_free(store);
    dev_vm_free(kit->vm); // with what it keeps of the runs
    assert_int_equal(dev_vm_new(kit->heap_kib, &kit->vm), BASE_OK);
    return !failed;
}

static void every_allocation_fails_in_turn(void **state)
{
    struct vm_kit *kit = *state;
    for (int once = 0; once < 2; once++) {
        bool good = false;
        for (size_t allowed = 0; !good; allowed++) {
            assert_true(allowed < ALLOCATIONS_MAX);
            long before = failing_heap_live();
            good = try_once(kit, allowed, once == 1);
            assert_int_equal(failing_heap_live(), before);
        }
    }
}

// A VM takes three pieces: itself, the room with its guards, the heap in it. A heap of this size is
// none that was kept of an earlier VM.
static void a_vm_without_memory_is_none(void **state)
{
    (void)state;
    for (int once = 0; once < 2; once++) {
        for (size_t allowed = 0; allowed <= 3; allowed++) {
            struct dev_vm *vm = NULL;
            long before = failing_heap_live();
            failing_heap_arm(allowed, once == 1);
            enum base_status status = dev_vm_new(2048, &vm);
            (void)failing_heap_disarm();
            assert_int_equal(status, allowed < 3 ? BASE_ERR_NOMEM : BASE_OK);
            dev_vm_free(vm);
            assert_int_equal(failing_heap_live(), before);
        }
    }
}

static enum base_status placed(void *ctx, size_t index, const struct eng_desc *desc, void **out_at,
                               struct base_error *error)
{
    static uint8_t results[2][4096];
    (void)ctx;
    (void)error;
    assert_in_range(eng_desc_bytes(desc), 1, sizeof(results[0]));
    *out_at = results[index];
    return BASE_OK;
}

// Once open, a session runs without the heap: whatever is allocated then is refused.
static void a_session_runs_without_the_heap(void **state)
{
    (void)state;
    static const char *const values[] = {"convolved"};
    static const uint8_t wanted[] = {0, 1};
    static float x[2 * 2 * 4 * 4];
    const struct eng_desc shape = {ENG_F32, 4, {2, 2, 4, 4}};
    struct base_error error = {.status = BASE_OK};
    struct dev_model_store *store = NULL;
    struct dev_model *model = NULL;
    struct dev_session *session = NULL;
    struct eng_array input = {shape, x};
    assert_int_equal(dev_model_store_new(0, &store), BASE_OK);
    const struct dev_model_port port = dev_model_store_port(store);
    const struct dev_model_file file = {&files[2].digest, files[2].bytes, files[2].size, NULL};
    assert_int_equal(port.get(port.ctx, &file, &model, &error), BASE_OK);
    const struct dev_session_shapes shapes = {.inputs = &shape,
                                              .input_count = 1,
                                              .values = values,
                                              .value_count = 1,
                                              .memory_bytes_max = (size_t)1 << 20};
    assert_int_equal(port.sessions->open(model, &shapes, &session, &error), BASE_OK);
    struct dev_model_call call = {.inputs = &input,
                                  .input_count = 1,
                                  .wanted = wanted,
                                  .wanted_count = TEST_COUNT(wanted),
                                  .place = {placed, NULL}};
    failing_heap_arm(0, false);
    enum base_status status = BASE_OK;
    for (int i = 0; i < 100 && status == BASE_OK; i++) {
        x[i % 64] += 1;
        status = port.sessions->call(session, &call, &error);
    }
    bool asked = failing_heap_has_failed();
    (void)failing_heap_disarm();
    assert_int_equal(status, BASE_OK);
    assert_false(asked);
    port.sessions->close(session);
    port.unref(model);
    dev_model_store_free(store);
}

static int setup(void **state)
{
    static struct vm_kit kit;
    nn_add_relu(&files[0], 0);
    nn_nonzero(&files[1]);
    nn_conv_bn(&files[2]);
    static const char *const names[3] = {"add.onnx", "cut.onnx", "conv.onnx"};
    for (size_t i = 0; i < 3; i++) {
        listed[i] = (struct dev_vm_model){base_str_of(names[i]), files[i].bytes, files[i].size,
                                          files[i].digest};
    }
    kit_init(&kit, 256);
    kit_add(&kit, "main", source);
    kit.job.models = listed;
    kit.job.model_count = 3;
    *state = &kit;
    return 0;
}

static int teardown(void **state)
{
    kit_done(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_allocation_fails_in_turn),
        cmocka_unit_test(a_session_runs_without_the_heap),
        cmocka_unit_test(a_vm_without_memory_is_none),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
