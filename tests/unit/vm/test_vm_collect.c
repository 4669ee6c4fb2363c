// What a script that collects garbage comes to hangs on neither the thread nor the runs before: the
// collector finds the same on the C stack each time.
#include "vm_kit.h"

#include <pthread.h>

#define COLLECT_THREADS_MAX 5
#define COLLECT_RUNS        10

struct collect {
    const struct vm_kit *kit;
    uint32_t peaks[COLLECT_RUNS];
    char results[COLLECT_RUNS][128];
    bool well;
};

static void *collect_thread(void *argument)
{
    struct collect *collect = argument;
    struct dev_vm *vm = NULL;
    collect->well = dev_vm_new(64, &vm) == BASE_OK;
    for (int i = 0; i < COLLECT_RUNS && collect->well; i++) {
        struct dev_vm_result result;
        collect->well = dev_vm_run(vm, &collect->kit->job, &result) == BASE_OK &&
                        result.end == DEV_VM_FINISHED &&
                        result.result.size < sizeof(collect->results[i]);
        if (collect->well) {
            collect->peaks[i] = result.heap_peak_bytes;
            memcpy(collect->results[i], result.result.data, result.result.size);
        }
    }
    dev_vm_free(vm);
    return NULL;
}

static void collect_with_threads(const struct vm_kit *kit, unsigned count)
{
    static struct collect all[COLLECT_THREADS_MAX];
    pthread_t threads[COLLECT_THREADS_MAX];
    for (unsigned i = 0; i < count; i++) {
        all[i] = (struct collect){.kit = kit};
        assert_int_equal(pthread_create(&threads[i], NULL, collect_thread, &all[i]), 0);
    }
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    for (unsigned i = 0; i < count; i++) {
        assert_true(all[i].well);
#ifndef __SANITIZE_THREAD__ // whose own calls leave on the stack what no other build has there
        for (int run = 0; run < COLLECT_RUNS; run++) {
            assert_int_equal(all[i].peaks[run], all[0].peaks[COLLECT_RUNS - 1]);
            assert_string_equal(all[i].results[run], all[0].results[COLLECT_RUNS - 1]);
        }
#endif
    }
}

// What the import leaves on the C stack lies where later calls have their frames, of which not all
// is written: the collector takes it for uses.
static void test_collects_the_same(void **state)
{
    static const char *const steps[] = {
        "go(n - 1) + 1",
        "sorted([n, 1], key=lambda v: go(n - 1))[0] + 1",
        "len(list(map(lambda v: go(n - 1), [1, 2]))) + 1",
    };
    static const unsigned thread_counts[] = {1, 2, COLLECT_THREADS_MAX};
    (void)state;
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        char wide[256];
        struct vm_kit kit;
        kit_init(&kit, 64);
        kit.job.input = BASE_STR("[3, 4]");
        kit_add(&kit, "main",
                "import walle, gc, wide\nx = walle.input\nfree = []\n"
                "def go(n):\n    a = bytearray(16 * (9 + n))\n    if n == 0:\n"
                "        gc.collect()\n        free.append(gc.mem_free())\n        return 1\n"
                "    return sorted([n, 1], key=lambda v: go(n - 1))[0] + 1\n"
                "for depth in range(5):\n    go(depth)\n"
                "big = [bytearray(900) for _ in range(200) if gc.mem_free() > 2000]\n"
                "walle.result([free[-12:], len(big)])\n");
        (void)snprintf(wide, sizeof(wide),
                       "def go(n):\n    a = bytearray(16 * (9 + n))\n"
                       "    return 1 if n == 0 else %s\nKEPT = [go(n) for n in range(6)]\n",
                       steps[i]);
        kit_add(&kit, "wide", wide);
        for (size_t c = 0; c < sizeof(thread_counts) / sizeof(thread_counts[0]); c++) {
            collect_with_threads(&kit, thread_counts[c]);
        }
        kit_done(&kit);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_collects_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
