// Runs uses of walle.np and walle.cv in the device's script VM, one thread, one VM that is kept;
// obeys lines on standard input. Started by bench/container_bench.py, which runs the same in NumPy
// and OpenCV.
//
//   load BYTES   and as many bytes of Python source -> "loaded"
//   run CALLS    walle.input of the script           -> "ran NS RESULT"
//
// NS is processor time of the thread between two lines of the script that ask for features named
// start and stop; RESULT is what it gave, as JSON. Anything that goes wrong is said on standard
// error, and the worker ends with status 1.
#include "base/error.h"
#include "base/str.h"
#include "vm/vm.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SOURCE_MAX (64 * 1024)
#define HEAP_KIB   (32 * 1024)
#define TIME_MS    60000

struct worker {
    struct dev_vm *vm;
    struct dev_vm_module module;
    uint64_t start_ns;
    uint64_t stop_ns;
};

static _Noreturn void die(const char *what)
{
    (void)fprintf(stderr, "container_worker: %s\n", what);
    exit(1);
}

static uint64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static enum base_status asked(void *ctx, const struct dev_vm_query *query, dev_vm_row_fn visit,
                              void *visit_ctx)
{
    struct worker *worker = ctx;
    (void)visit;
    (void)visit_ctx;
    if (base_str_equal(query->feature, BASE_STR("start"))) {
        worker->start_ns = now_ns();
    } else {
        worker->stop_ns = now_ns();
    }
    return BASE_ERR_NOT_FOUND; // no rows
}

static void load(struct worker *worker, size_t size)
{
    static char source[SOURCE_MAX];
    uint8_t *mpy = NULL;
    size_t mpy_size = 0;
    struct base_error error = {0};
    if (size > sizeof(source) || fread(source, 1, size, stdin) != size) {
        die("a source that is too long, or cut short");
    }
    if (dev_vm_compile((struct base_str){source, size}, BASE_STR("bench.py"), &mpy, &mpy_size,
                       &error) != BASE_OK) {
        die(error.text);
    }
    free((void *)(uintptr_t)worker->module.mpy);
    worker->module = (struct dev_vm_module){BASE_STR("main"), mpy, mpy_size};
    (void)printf("loaded\n");
}

static void run(struct worker *worker, const char *calls)
{
    const struct dev_vm_data_port port = {.ctx = worker, .query = asked};
    const struct dev_vm_job job = {.modules = &worker->module,
                                   .module_count = 1,
                                   .entry = BASE_STR("main"),
                                   .input = base_str_of(calls),
                                   .data = &port,
                                   .time_ms = TIME_MS};
    struct dev_vm_result result;
    worker->start_ns = 0;
    worker->stop_ns = 0;
    if (dev_vm_run(worker->vm, &job, &result) != BASE_OK || result.end != DEV_VM_FINISHED) {
        (void)fprintf(stderr, "container_worker: %s: %s (line %u)\n", result.type, result.message,
                      result.line);
        die("the script did not finish");
    }
    if (worker->start_ns == 0 || worker->stop_ns < worker->start_ns) {
        die("the script did not say when to measure");
    }
    (void)printf("ran %" PRIu64 " %.*s\n", worker->stop_ns - worker->start_ns,
                 (int)result.result.size, result.result.data);
}

int main(void)
{
    struct worker worker = {.vm = NULL};
    char line[64];
    if (dev_vm_new(HEAP_KIB, &worker.vm) != BASE_OK) {
        die("no memory");
    }
    while (fgets(line, sizeof(line), stdin) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        uint64_t size = 0;
        if (strncmp(line, "load ", 5) == 0 &&
            base_str_u64(base_str_of(line + 5), &size) == BASE_OK) {
            load(&worker, (size_t)size);
        } else if (strncmp(line, "run ", 4) == 0 && worker.module.mpy != NULL) {
            run(&worker, line + 4);
        } else {
            die("neither load nor run, or nothing loaded");
        }
        (void)fflush(stdout);
    }
    free((void *)(uintptr_t)worker.module.mpy);
    dev_vm_free(worker.vm);
    return 0;
}
