// Measures how long a script takes to its first line, and how long the verifier looks at bytecode.
// Started by bench/container/container_start.py. One thread; wall time, medians.
//
//   container_start RUNS FIRST_LINE FILE ...
//
// FIRST_LINE is a script that asks for a feature where its first line is over. Prints one line of
// JSON: warm (a run in a VM that is kept, which begins with its image), cold (a VM made for the
// run), the making and freeing of a VM, and of each FILE the bytes of its bytecode and the check.
#include "base/error.h"
#include "base/str.h"
#include "vm/mpy/mpy_check.h"
#include "vm/vm.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define SOURCE_MAX (64 * 1024)
#define RUNS_MAX   100000
#define COLD_EVERY 10 // runs in a kept VM for one in a VM of its own

static double asked_us; // when the script came to its first line

static _Noreturn void die(const char *what)
{
    (void)fprintf(stderr, "container_start: %s\n", what);
    exit(1);
}

static double now_us(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

// Sorts them.
static double median(double *times, size_t count)
{
    qsort(times, count, sizeof(*times), by_size);
    return times[count / 2];
}

static struct dev_vm_module module_read(const char *path)
{
    static char source[SOURCE_MAX];
    uint8_t *mpy = NULL;
    size_t mpy_size = 0;
    struct base_error error = {0};
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        die("cannot open a script");
    }
    size_t size = fread(source, 1, sizeof(source), file);
    (void)fclose(file);
    if (dev_vm_compile((struct base_str){source, size}, BASE_STR("bench.py"), &mpy, &mpy_size,
                       &error) != BASE_OK) {
        die(error.text);
    }
    return (struct dev_vm_module){BASE_STR("main"), mpy, mpy_size};
}

static enum base_status asked(void *ctx, const struct dev_vm_query *query, dev_vm_row_fn visit,
                              void *visit_ctx)
{
    (void)ctx;
    (void)query;
    (void)visit;
    (void)visit_ctx;
    asked_us = now_us();
    return BASE_ERR_NOT_FOUND; // no rows
}

// From `start_us` to the first line.
static double first_line_us(struct dev_vm *vm, const struct dev_vm_module *module, double start_us)
{
    static const struct dev_vm_data_port port = {.query = asked};
    const struct dev_vm_job job = {.modules = module,
                                   .module_count = 1,
                                   .entry = BASE_STR("main"),
                                   .data = &port,
                                   .time_ms = 60000};
    struct dev_vm_result result;
    asked_us = 0;
    if (dev_vm_run(vm, &job, &result) != BASE_OK || result.end != DEV_VM_FINISHED ||
        asked_us < start_us) {
        (void)fprintf(stderr, "container_start: %s: %s\n", result.type, result.message);
        die("the script did not finish, or did not ask");
    }
    return asked_us - start_us;
}

static struct dev_vm *vm_make(void)
{
    struct dev_vm *vm = NULL;
    if (dev_vm_new(0, &vm) != BASE_OK) {
        die("no memory");
    }
    return vm;
}

static void starts_measure(const struct dev_vm_module *module, size_t runs, double *times)
{
    struct dev_vm *kept = vm_make();
    (void)first_line_us(kept, module, now_us()); // which makes the image
    for (size_t i = 0; i < runs; i++) {
        times[i] = first_line_us(kept, module, now_us());
    }
    dev_vm_free(kept);
    double warm = median(times, runs);
    double warm_p99 = times[runs * 99 / 100];
    size_t few = runs / COLD_EVERY + 1;
    for (size_t i = 0; i < few; i++) {
        double start = now_us();
        struct dev_vm *vm = vm_make();
        times[i] = first_line_us(vm, module, start);
        dev_vm_free(vm);
    }
    double cold = median(times, few);
    for (size_t i = 0; i < few; i++) {
        double start = now_us();
        dev_vm_free(vm_make());
        times[i] = now_us() - start;
    }
    (void)printf("{\"warm_us\":%.3f,\"warm_p99_us\":%.3f,\"cold_us\":%.3f,\"made_us\":%.3f", warm,
                 warm_p99, cold, median(times, few));
}

static void check_measure(const char *path, size_t runs, double *times, bool first)
{
    struct dev_vm_module module = module_read(path);
    for (size_t i = 0; i < runs; i++) {
        struct dev_mpy_fault fault;
        double start = now_us();
        if (dev_mpy_check(module.mpy, module.size, &fault) != BASE_OK) {
            die(fault.what);
        }
        times[i] = now_us() - start;
    }
    (void)printf("%s{\"bytes\":%zu,\"us\":%.3f}", first ? "" : ",", module.size,
                 median(times, runs));
    free((void *)(uintptr_t)module.mpy);
}

int main(int argc, char **argv)
{
    static double times[RUNS_MAX];
    uint64_t runs = 0;
    if (argc < 4 || base_str_u64(base_str_of(argv[1]), &runs) != BASE_OK || runs == 0 ||
        runs > RUNS_MAX) {
        die("usage: container_start RUNS FIRST_LINE FILE ...");
    }
    struct dev_vm_module module = module_read(argv[2]);
    starts_measure(&module, (size_t)runs, times);
    (void)printf(",\"checks\":[");
    for (int i = 3; i < argc; i++) {
        check_measure(argv[i], (size_t)runs, times, i == 3);
    }
    (void)printf("]}\n");
    free((void *)(uintptr_t)module.mpy);
    return 0;
}
