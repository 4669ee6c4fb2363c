// walle.nn on many threads: VMs of several tasks share one store of models, each with results of
// its own; a model at work is stopped from outside; the stack a host promises is enough.
#include "nn_models.h"

#include "model/model_store.h"
#include "vm_kit.h"

#include <pthread.h>
#include <stdatomic.h>

#define TASKS  12
#define ROUNDS 30
// What vm.h asks for, and 16 KiB for the C library, the thread's own frames and its thread-local
// state.
#define STACK_BYTES ((DEV_VM_STACK_KIB + 64 + DEV_VM_MODEL_STACK_KIB + 16) * 1024)

static struct nn_model files[3];
static struct dev_model_store *store;
static struct dev_model_port port;

struct task {
    pthread_t thread;
    struct dev_vm_module module;
    struct dev_vm_model models[2];
    uint32_t id;
    bool ok;
    struct dev_vm_result last;
};

static bool task_rounds(struct task *task, struct dev_vm *vm)
{
    char want[64];
    char input[16];
    (void)snprintf(input, sizeof(input), "%u", task->id);
    (void)snprintf(want, sizeof(want), "[%u.0,%u]", task->id * 2 + 1 + task->id % 2, task->id * 3);
    struct dev_vm_job job = {.modules = &task->module,
                             .module_count = 1,
                             .entry = BASE_STR("main"),
                             .input = base_str_of(input),
                             .models = task->models,
                             .model_count = 2,
                             .model_port = &port,
                             .time_ms = 60000};
    for (int round = 0; round < ROUNDS; round++) {
        struct dev_vm_result *result = &task->last;
        if (dev_vm_run(vm, &job, result) != BASE_OK || result->end != DEV_VM_FINISHED ||
            !base_str_equal(result->result, base_str_of(want))) {
            return false;
        }
    }
    return true;
}

static void *task_main(void *argument)
{
    struct task *task = argument;
    struct dev_vm *vm = NULL;
    if (dev_vm_new(64, &vm) == BASE_OK) {
        task->ok = task_rounds(task, vm);
        dev_vm_free(vm);
    }
    return NULL;
}

static void thread_start(pthread_t *thread, void *(*start)(void *), void *argument)
{
    pthread_attr_t attributes;
    assert_int_equal(pthread_attr_init(&attributes), 0);
    assert_int_equal(pthread_attr_setstacksize(&attributes, STACK_BYTES), 0);
    assert_int_equal(pthread_create(thread, &attributes, start, argument), 0);
    (void)pthread_attr_destroy(&attributes);
}

static void tasks_share_models(void **state)
{
    static const char source[] = "import walle\nfrom walle import nn\n"
                                 "i = walle.input\n"
                                 "m = nn.load('net.onnx')\n"
                                 "two = nn.load('two.onnx')\n"
                                 "y = m([[2 * i, 0, 0]] * (1 + i % 3))\n"
                                 "s, d = two([i, 1], [2 * i, 1])\n"
                                 "walle.result([y[-1][0], s[0]])\n";
    static struct task tasks[TASKS];
    struct vm_kit *kit = *state;
    kit_add(kit, "main", source);
    for (uint32_t i = 0; i < TASKS; i++) {
        const struct nn_model *net = &files[i % 2]; // under one name, two contents
        tasks[i] = (struct task){
            .module = kit->modules[0],
            .models = {{BASE_STR("net.onnx"), net->bytes, net->size, net->digest},
                       {BASE_STR("two.onnx"), files[2].bytes, files[2].size, files[2].digest}},
            .id = i,
        };
        thread_start(&tasks[i].thread, task_main, &tasks[i]);
    }
    for (uint32_t i = 0; i < TASKS; i++) {
        assert_int_equal(pthread_join(tasks[i].thread, NULL), 0);
        if (!tasks[i].ok) {
            fail_msg("task %u ended %s: %s", i, dev_vm_end_name(tasks[i].last.end),
                     tasks[i].last.message);
        }
    }
    struct dev_model_store_stats stats;
    dev_model_store_stats(store, &stats);
    assert_int_equal(stats.loads, 3);
    assert_int_equal(stats.held, 0);
    kit_modules_drop(kit);
}

// --- stopped from outside

struct stopper {
    struct dev_vm *vm;
    atomic_bool done;
};

static void *stopper_main(void *argument)
{
    struct stopper *stopper = argument;
    while (!atomic_load(&stopper->done)) { // a run forgets interrupts from before its start
        dev_vm_interrupt(stopper->vm);
    }
    return NULL;
}

static void a_model_at_work_is_stopped(void **state)
{
    static struct nn_model chain;
    struct vm_kit *kit = *state;
    enum { LENGTH = 1000, SIDE = 300 };
    nn_chain(&chain, LENGTH);
    struct dev_vm_model model = {BASE_STR("chain.onnx"), chain.bytes, chain.size, chain.digest};
    struct stopper stopper = {.vm = kit->vm};
    pthread_t thread;
    kit->job.models = &model;
    kit->job.model_count = 1;
    kit->job.model_port = &port;
    kit->job.time_ms = 600000;
    assert_int_equal(pthread_create(&thread, NULL, stopper_main, &stopper), 0);
    kit_run_source(kit, "from walle import nn\n"
                        "m = nn.load('chain.onnx')\n"
                        "x = nn.tensor(bytes(4 * 300 * 300), (300, 300))\n"
                        "while True:\n"
                        "    try:\n        m(x)\n"
                        "    except: pass\n");
    atomic_store(&stopper.done, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    kit_ended(kit, DEV_VM_BUDGET);
    assert_string_equal(kit->result.message, "interrupted");
    assert_true(kit->result.instructions <
                (uint64_t)LENGTH * SIDE * SIDE * SIDE / DEV_VM_WORK_PER_UNIT);
    kit->job.models = NULL;
    kit->job.model_count = 0;
}

static int setup(void **state)
{
    static struct vm_kit kit;
    nn_add_relu(&files[0], 0);
    nn_add_relu(&files[1], 1);
    nn_two_by_two(&files[2]);
    assert_int_equal(dev_model_store_new(0, &store), BASE_OK);
    port = dev_model_store_port(store);
    kit_init(&kit, 1024);
    *state = &kit;
    return 0;
}

static int teardown(void **state)
{
    kit_done(*state);
    dev_model_store_free(store);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tasks_share_models),
        cmocka_unit_test(a_model_at_work_is_stopped),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
