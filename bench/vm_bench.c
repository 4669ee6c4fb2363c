// Measures the script VM and prints one line of JSON. Started by bench/vm_bench.py, which measures
// the peer and writes the result.
//
//   vm_bench start RUNS             median times of an empty module: a VM made, run and freed; and
//                                   a run in a VM that is kept
//   vm_bench task RUNS FILE         the same of FILE
//   vm_bench data RUNS EVENTS FILE PLAIN
//                                   median times of FILE and of PLAIN over the same events, in
//                                   turns; both must give the same result
//   vm_bench apart RUNS RUNNER [FILE]
//                                   of an empty module, or of FILE, in a task process of the
//                                   program RUNNER, and the memory of one
//   vm_bench threads MS ROUNDS FILE runs of FILE in one thread and in two, in turns of MS each
//
// Every VM has the heap a device gives it unless told otherwise.
#include "base/clock.h"
#include "base/error.h"
#include "base/str.h"
#include "posix/run/posix_child.h"
#include "vm/vm.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define SOURCE_MAX  (64 * 1024)
#define RUNS_MAX    1000000
#define ROUNDS_MAX  1000
#define SAMPLES_MAX 4096 // runs a thread and turn whose time is kept

#define EVENTS_MAX 4096
#define PAUSE_NS   10000000 // between runs in processes

struct turn {
    struct dev_vm_module module;
    atomic_bool *stop;
    uint64_t runs;
    double run_us[SAMPLES_MAX]; // the first so many
};

static void die(const char *what)
{
    (void)fprintf(stderr, "vm_bench: %s\n", what);
    exit(1);
}

static struct dev_vm_module module_compile(struct base_str source)
{
    uint8_t *mpy = NULL;
    size_t size = 0;
    struct base_error error;
    if (dev_vm_compile(source, BASE_STR("bench.py"), &mpy, &size, &error) != BASE_OK) {
        die(error.text);
    }
    return (struct dev_vm_module){BASE_STR("main"), mpy, size};
}

static struct dev_vm_module module_read(const char *path)
{
    static char source[SOURCE_MAX];
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        die("cannot open the script");
    }
    size_t size = fread(source, 1, sizeof(source), file);
    (void)fclose(file);
    return module_compile((struct base_str){source, size});
}

static struct dev_event events[EVENTS_MAX];
static uint32_t event_count;

static struct dev_vm_result run_once(struct dev_vm *vm, const struct dev_vm_module *module)
{
    struct dev_vm_job job = {.modules = module,
                             .module_count = 1,
                             .entry = BASE_STR("main"),
                             .events = events,
                             .event_count = event_count,
                             .time_ms = 60000};
    struct dev_vm_result result;
    if (dev_vm_run(vm, &job, &result) != BASE_OK || result.end != DEV_VM_FINISHED) {
        (void)fprintf(stderr, "vm_bench: %s %s\n", result.type, result.message);
        die("the script did not finish");
    }
    return result;
}

static struct dev_vm *vm_make(void)
{
    struct dev_vm *vm = NULL;
    if (dev_vm_new(DEV_VM_HEAP_KIB_DEFAULT, &vm) != BASE_OK) {
        die("no memory");
    }
    return vm;
}

static int double_order(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static double clock_us(clockid_t id)
{
    struct timespec now;
    (void)clock_gettime(id, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static double fresh_us(const struct dev_vm_module *module)
{
    double start = clock_us(CLOCK_MONOTONIC);
    struct dev_vm *vm = vm_make();
    (void)run_once(vm, module);
    dev_vm_free(vm);
    return clock_us(CLOCK_MONOTONIC) - start;
}

// In turns: a VM made for the run, with its memory, and given back after it; and a run in a VM that
// is kept, which begins with the warm image of the runs before it. The first VM of the process,
// whose pages nobody touched, is told apart.
static void measure_runs(struct dev_vm_module module, size_t runs)
{
    double first = fresh_us(&module);
    struct dev_vm *kept = vm_make();
    double *times[2];
    for (unsigned k = 0; k < 2; k++) {
        times[k] = malloc(runs * sizeof(double));
        if (times[k] == NULL) {
            die("no memory");
        }
    }
    for (size_t i = 0; i < runs; i++) {
        times[0][i] = fresh_us(&module);
        double start = clock_us(CLOCK_MONOTONIC);
        (void)run_once(kept, &module);
        times[1][i] = clock_us(CLOCK_MONOTONIC) - start;
    }
    for (unsigned k = 0; k < 2; k++) {
        qsort(times[k], runs, sizeof(double), double_order);
    }
    (void)printf("{\"median_us\":%.2f,\"p99_us\":%.2f,\"first_us\":%.2f,\"kept_median_us\":%.2f,"
                 "\"kept_p99_us\":%.2f,\"runs\":%zu}\n",
                 times[0][runs / 2], times[0][runs * 99 / 100], first, times[1][runs / 2],
                 times[1][runs * 99 / 100], runs);
    free(times[0]);
    free(times[1]);
    dev_vm_free(kept);
}

// A run in a process of its own. As in the agent, the next process is started when a run has ended,
// and waits: between two runs there is time for that.
static void measure_apart(struct dev_vm_module module, size_t runs, const char *runner_path)
{
    const struct timespec pause = {.tv_nsec = PAUSE_NS};
    struct base_error error = {0};
    struct posix_children *children = NULL;
    struct posix_child_report report = {0};
    double *times = malloc(runs * sizeof(*times));
    const struct dev_vm_job vm = {
        .modules = &module, .module_count = 1, .entry = BASE_STR("main"), .time_ms = 60000};
    const struct dev_runner_job job = {.vm = &vm, .heap_kib = DEV_VM_HEAP_KIB_DEFAULT};
    if (times == NULL || posix_children_new(runner_path, &children, &error) != BASE_OK) {
        die(times != NULL ? error.text : "no memory");
    }
    double wall = clock_us(CLOCK_MONOTONIC);
    for (size_t i = 0; i < runs; i++) {
        (void)nanosleep(&pause, NULL);
        double start = clock_us(CLOCK_MONOTONIC);
        posix_child_run(children, &job, &report);
        times[i] = clock_us(CLOCK_MONOTONIC) - start;
        if (posix_child_ready(children) != BASE_OK) {
            die("no process");
        }
        if (report.how != POSIX_CHILD_ENDED || report.end->result.end != DEV_VM_FINISHED) {
            die("the script did not finish in its process");
        }
    }
    wall = clock_us(CLOCK_MONOTONIC) - wall;
    posix_children_free(children);
    struct rusage usage;
    (void)getrusage(RUSAGE_CHILDREN, &usage);
    qsort(times, runs, sizeof(*times), double_order);
    (void)printf("{\"median_us\":%.2f,\"p99_us\":%.2f,\"runs\":%zu,\"wall_s\":%.4f,"
                 "\"children_cpu_us\":%.1f,\"peak_rss_kib\":%ld}\n",
                 times[runs / 2], times[runs * 99 / 100], runs, wall / 1e6,
                 ((double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e6 +
                  (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec)) /
                     (double)runs,
                 usage.ru_maxrss);
    free(times);
}

// Every second event is a click; eight items; one event in a second.
static void events_make(uint32_t count)
{
    static const char *const items[] = {"a1", "b2", "c3", "d4", "e5", "f6", "g7", "h8"};
    static uint8_t attrs[EVENTS_MAX][32];
    for (uint32_t i = 0; i < count; i++) {
        const struct dev_event_attr attr = {.name = BASE_STR("price"),
                                            .type = DEV_ATTR_INTEGER,
                                            .integer = (int64_t)(i * 37 % 101)};
        size_t size = 0;
        if (dev_event_attrs_encode(&attr, 1, attrs[i], sizeof(attrs[i]), &size) != BASE_OK) {
            die("an attribute does not fit");
        }
        events[i] = (struct dev_event){
            .seq = i + 1,
            .wall_ms = 1700000000000 + (uint64_t)i * 1000,
            .kind = i % 2 == 0 ? DEV_EVENT_CLICK : DEV_EVENT_SCROLL,
            .page = BASE_STR("detail"),
            .item = base_str_of(items[i * 7 / 3 % 8]),
            .attrs = attrs[i],
            .attrs_bytes = (uint32_t)size,
            .attr_count = 1,
        };
    }
    event_count = count;
}

static void measure_data(struct dev_vm_module *modules, size_t runs)
{
    struct dev_vm *vm = vm_make();
    double *times[2];
    static char first[DEV_VM_RESULT_MAX];
    for (unsigned k = 0; k < 2; k++) {
        times[k] = malloc(runs * sizeof(double));
    }
    if (times[0] == NULL || times[1] == NULL) {
        die("no memory");
    }
    for (size_t i = 0; i < runs; i++) {
        size_t first_size = 0;
        for (unsigned k = 0; k < 2; k++) {
            double start = clock_us(CLOCK_MONOTONIC);
            struct dev_vm_result result = run_once(vm, &modules[k]);
            times[k][i] = clock_us(CLOCK_MONOTONIC) - start;
            if (k == 0) {
                first_size = result.result.size;
                memcpy(first, result.result.data, first_size);
            } else if (first_size < 3 || first_size != result.result.size ||
                       memcmp(first, result.result.data, first_size) != 0) {
                die("the two scripts differ");
            }
        }
    }
    for (unsigned k = 0; k < 2; k++) {
        qsort(times[k], runs, sizeof(double), double_order);
    }
    (void)printf(
        "{\"median_us\":%.2f,\"p99_us\":%.2f,\"plain_median_us\":%.2f,\"plain_p99_us\":%.2f,"
        "\"events\":%u,\"runs\":%zu}\n",
        times[0][runs / 2], times[0][runs * 99 / 100], times[1][runs / 2],
        times[1][runs * 99 / 100], event_count, runs);
    free(times[0]);
    free(times[1]);
    dev_vm_free(vm);
}

static void *turn_main(void *argument)
{
    struct turn *turn = argument;
    struct dev_vm *vm = vm_make();
    while (!atomic_load_explicit(turn->stop, memory_order_relaxed)) {
        double start = clock_us(CLOCK_MONOTONIC);
        (void)run_once(vm, &turn->module);
        if (turn->runs < SAMPLES_MAX) {
            turn->run_us[turn->runs] = clock_us(CLOCK_MONOTONIC) - start;
        }
        turn->runs++;
    }
    dev_vm_free(vm);
    return NULL;
}

struct totals {
    double wall_us;
    double cpu_us;
    uint64_t runs;
    double median_us_sum; // of each thread's turn
    uint64_t medians;
};

static double turn_measure(const struct dev_vm_module *module, int threads, long ms,
                           struct totals *totals)
{
    pthread_t ids[2];
    static struct turn turns[2];
    atomic_bool stop = false;
    double cpu = clock_us(CLOCK_PROCESS_CPUTIME_ID);
    double wall = clock_us(CLOCK_MONOTONIC);
    for (int i = 0; i < threads; i++) {
        turns[i].module = *module;
        turns[i].stop = &stop;
        turns[i].runs = 0;
        if (pthread_create(&ids[i], NULL, turn_main, &turns[i]) != 0) {
            die("no thread");
        }
    }
    struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    (void)nanosleep(&pause, NULL);
    atomic_store(&stop, true);
    uint64_t runs = 0;
    for (int i = 0; i < threads; i++) {
        (void)pthread_join(ids[i], NULL);
        runs += turns[i].runs;
        size_t samples = turns[i].runs < SAMPLES_MAX ? (size_t)turns[i].runs : SAMPLES_MAX;
        qsort(turns[i].run_us, samples, sizeof(double), double_order);
        totals->median_us_sum += samples > 0 ? turns[i].run_us[samples / 2] : 0;
        totals->medians += samples > 0;
    }
    wall = clock_us(CLOCK_MONOTONIC) - wall;
    totals->wall_us += wall;
    totals->cpu_us += clock_us(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    totals->runs += runs;
    return (double)runs / wall;
}

static void measure_threads(struct dev_vm_module module, long ms, size_t rounds)
{
    static double ratios[ROUNDS_MAX];
    struct totals one = {0};
    struct totals two = {0};
    (void)turn_measure(&module, 2, 50, &(struct totals){0}); // warm up
    for (size_t i = 0; i < rounds; i++) {
        double single = turn_measure(&module, 1, ms, &one);
        ratios[i] = turn_measure(&module, 2, ms, &two) / single;
    }
    qsort(ratios, rounds, sizeof(ratios[0]), double_order);
    double one_median = one.median_us_sum / (double)one.medians;
    double two_median = two.median_us_sum / (double)two.medians;
    (void)printf("{\"ratio\":%.4f,\"ratio_min\":%.4f,\"ratio_max\":%.4f", ratios[rounds / 2],
                 ratios[0], ratios[rounds - 1]);
    (void)printf(",\"one_runs\":%" PRIu64
                 ",\"one_wall_s\":%.4f,\"one_cpu_s\":%.4f,\"one_run_us\":%.2f",
                 one.runs, one.wall_us / 1e6, one.cpu_us / 1e6, one_median);
    (void)printf(",\"two_runs\":%" PRIu64
                 ",\"two_wall_s\":%.4f,\"two_cpu_s\":%.4f,\"two_run_us\":%.2f}\n",
                 two.runs, two.wall_us / 1e6, two.cpu_us / 1e6, two_median);
}

static size_t number(const char *text, size_t max)
{
    uint64_t value = 0;
    if (base_str_u64(base_str_of(text), &value) != BASE_OK || value == 0 || value > max) {
        die("a number is wrong");
    }
    return (size_t)value;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "start") == 0) {
        measure_runs(module_compile(BASE_STR("pass\n")), number(argv[2], RUNS_MAX));
    } else if (argc == 4 && strcmp(argv[1], "task") == 0) {
        measure_runs(module_read(argv[3]), number(argv[2], RUNS_MAX));
    } else if ((argc == 4 || argc == 5) && strcmp(argv[1], "apart") == 0) {
        measure_apart(argc == 5 ? module_read(argv[4]) : module_compile(BASE_STR("pass\n")),
                      number(argv[2], RUNS_MAX), argv[3]);
    } else if (argc == 6 && strcmp(argv[1], "data") == 0) {
        events_make((uint32_t)number(argv[3], EVENTS_MAX));
        measure_data((struct dev_vm_module[]){module_read(argv[4]), module_read(argv[5])},
                     number(argv[2], RUNS_MAX));
    } else if (argc == 5 && strcmp(argv[1], "threads") == 0) {
        measure_threads(module_read(argv[4]), (long)number(argv[2], 60000),
                        number(argv[3], ROUNDS_MAX));
    } else {
        die("usage: vm_bench start RUNS | task RUNS FILE | apart RUNS RUNNER [FILE] | data RUNS "
            "EVENTS "
            "FILE PLAIN | threads MS ROUNDS FILE");
    }
    return 0;
}
