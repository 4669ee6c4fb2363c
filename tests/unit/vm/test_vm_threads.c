// Many VMs at once, one a thread: they cannot see each other, a bad one ends alone, and one can be
// stopped from outside.
#include "vm_kit.h"

#include <pthread.h>
#include <stdatomic.h>

#define TASKS  50
#define ROUNDS 20
// 16 KiB for the C library, the thread's own frames and its thread-local state.
#define SMALL_STACK_BYTES ((DEV_VM_STACK_KIB + 64 + 16) * 1024)

struct task {
    pthread_t thread;
    struct dev_vm_module module;
    const char *source;
    uint32_t id;
    enum dev_vm_end want;
    bool ok;
    struct dev_vm_result last;
};

// A failed check in a thread cannot use cmocka; it is noted and looked at after the join.
static bool task_rounds(struct task *task, struct dev_vm *vm)
{
    char input[32];
    (void)snprintf(input, sizeof(input), "%u", task->id);
    struct dev_vm_job job = {.modules = &task->module,
                             .module_count = 1,
                             .entry = BASE_STR("main"),
                             .input = base_str_of(input),
                             .instruction_max = 2000000,
                             .time_ms = 60000};
    for (int round = 0; round < ROUNDS; round++) {
        struct dev_vm_result *result = &task->last;
        if (dev_vm_run(vm, &job, result) != BASE_OK || result->end != task->want) {
            return false;
        }
        if (task->want == DEV_VM_FINISHED && !base_str_equal(result->result, base_str_of(input))) {
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

static void test_tasks_cannot_see_each_other(void **state)
{
    // Each writes everywhere a global could be, works long enough to be switched, and looks again.
    static const char good[] =
        "import walle, builtins, json\n"
        "assert not hasattr(builtins, 'mark2') and 'mark' not in globals()\n"
        "mark = walle.input\nbuiltins.mark2 = mark\nclass A: pass\nA.mark = mark\n"
        "x = {}\n"
        "for i in range(2000):\n"
        "    x[i % 10] = [mark] * 5\n"
        "    assert mark == walle.input == mark2 == A.mark == x[i % 10][3]\n"
        "try:\n    json.mark = 1\n    raise Exception('json is writable')\n"
        "except AttributeError: pass\n"
        "walle.result(mark)\n";
    static const char loop[] =
        "while True:\n    try:\n        while True: pass\n    except: pass\n";
    static const char memory[] = "x = bytearray(1 << 30)\n";
    static const char deep[] = "def f(n):\n    return f(n + 1) if n < 100000 else 0\nf(0)\n";
    static struct task tasks[TASKS];
    (void)state;
    struct vm_kit kit;
    kit_init(&kit, 0);
    kit_add(&kit, "main", good);
    kit_add(&kit, "main", loop);
    kit_add(&kit, "main", memory);
    kit_add(&kit, "main", deep);
    static const enum dev_vm_end ends[] = {DEV_VM_FINISHED, DEV_VM_BUDGET, DEV_VM_MEMORY,
                                           DEV_VM_STACK};
    for (uint32_t i = 0; i < TASKS; i++) {
        uint32_t kind = i % 10 < 4 ? i % 10 : 0;
        tasks[i] = (struct task){.module = kit.modules[kind], .id = 1000 + i, .want = ends[kind]};
        assert_int_equal(pthread_create(&tasks[i].thread, NULL, task_main, &tasks[i]), 0);
    }
    for (uint32_t i = 0; i < TASKS; i++) {
        assert_int_equal(pthread_join(tasks[i].thread, NULL), 0);
        if (!tasks[i].ok) {
            fail_msg("task %u, to end %s: ended %s: %s: %s, line %u", i,
                     dev_vm_end_name(tasks[i].want), dev_vm_end_name(tasks[i].last.end),
                     tasks[i].last.type, tasks[i].last.message, tasks[i].last.line);
        }
    }
    kit_done(&kit);
}

struct stopped {
    struct dev_vm *vm;
    struct dev_vm_module module;
    struct dev_vm_result result;
    atomic_bool done;
};

static void *endless_main(void *argument)
{
    struct stopped *stopped = argument;
    struct dev_vm_job job = {.modules = &stopped->module,
                             .module_count = 1,
                             .entry = BASE_STR("main"),
                             .time_ms = 20000};
    enum base_status status = dev_vm_run(stopped->vm, &job, &stopped->result);
    atomic_store(&stopped->done, status == BASE_OK);
    return NULL;
}

static void test_interrupt(void **state)
{
    (void)state;
    struct vm_kit kit;
    kit_init(&kit, 0);
    kit_add(&kit, "main",
            "while True:\n    try:\n        while True: pass\n    finally: continue\n");
    static struct stopped stopped;
    stopped.vm = kit.vm;
    stopped.module = kit.modules[0];
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, endless_main, &stopped), 0);
    while (!atomic_load(&stopped.done)) {
        dev_vm_interrupt(kit.vm); // before the run starts it has no effect, so again
        (void)sched_yield();
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(stopped.result.end, DEV_VM_BUDGET);
    assert_string_equal(stopped.result.message, "interrupted");
    assert_string_equal(stopped.result.file, "main.py");
    kit.job.instruction_max = 0;
    kit_run_source(&kit, "for i in range(5000): pass\n"); // an old interrupt does not count
    kit_ended(&kit, DEV_VM_FINISHED);
    kit_done(&kit);
}

static void test_vm_moves_between_threads(void **state)
{
    (void)state;
    struct vm_kit kit;
    kit_init(&kit, 0);
    kit_add(&kit, "main", "import walle\nwalle.result(walle.input)\n");
    static struct stopped moved;
    moved.vm = kit.vm;
    moved.module = kit.modules[0];
    for (int i = 0; i < 20; i++) {
        pthread_t thread;
        atomic_store(&moved.done, false);
        assert_int_equal(pthread_create(&thread, NULL, endless_main, &moved), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_true(atomic_load(&moved.done));
        assert_int_equal(moved.result.end, DEV_VM_FINISHED);
        kit_run(&kit);
        kit_ended(&kit, DEV_VM_FINISHED);
    }
    kit_done(&kit);
}

// What vm.h asks for, and not a page more: the deepest recursions stay inside it.
static void test_small_thread_stack(void **state)
{
    static const char *const sources[] = {
        "def f(n):\n    return f(n + 1)\nf(0)\n",
        "x = ()\nfor i in range(3000): x = (x,)\nhash(x)\n",
        "import re\nre.match('((a*)*)*b', 'a' * 40)\n",
        "class A:\n    def __repr__(self): return '{:>9.3f} %r'.format(1.5) % self\nprint(A())\n",
        "def f(x): return sorted([2, 1], key=f)\nf(1)\n",
        "import json\nx = []\nfor i in range(3000): x = [x]\njson.dumps(x)\n",
        "class A:\n    def __getattr__(self, name): return getattr(self, name + 'x')\nA().a\n",
    };
    (void)state;
    pthread_attr_t attr;
    assert_int_equal(pthread_attr_init(&attr), 0);
    assert_int_equal(pthread_attr_setstacksize(&attr, SMALL_STACK_BYTES), 0);
    struct vm_kit kit;
    kit_init(&kit, 0);
    for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++) {
        kit_modules_drop(&kit);
        kit_add(&kit, "main", sources[i]);
        static struct stopped deep;
        deep.vm = kit.vm;
        deep.module = kit.modules[0];
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, &attr, endless_main, &deep), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        if (deep.result.end != DEV_VM_STACK) {
            fail_msg("%s: ended %s: %s: %s", sources[i], dev_vm_end_name(deep.result.end),
                     deep.result.type, deep.result.message);
        }
    }
    (void)pthread_attr_destroy(&attr);
    kit_done(&kit);
}

static void *compile_main(void *argument)
{
    bool *ok = argument;
    *ok = true;
    for (int i = 0; i < 20 && *ok; i++) {
        uint8_t *mpy = NULL;
        size_t size = 0;
        *ok = dev_vm_compile(BASE_STR("x = [i for i in range(3)]\n"), BASE_STR("a.py"), &mpy, &size,
                             NULL) == BASE_OK;
        free(mpy);
    }
    return NULL;
}

static void test_compilers_in_threads(void **state)
{
    (void)state;
    pthread_t threads[4];
    bool ok[4];
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, compile_main, &ok[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_true(ok[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tasks_cannot_see_each_other),
        cmocka_unit_test(test_interrupt),
        cmocka_unit_test(test_vm_moves_between_threads),
        cmocka_unit_test(test_small_thread_stack),
        cmocka_unit_test(test_compilers_in_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
