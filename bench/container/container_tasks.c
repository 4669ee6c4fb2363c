// Many tasks on the device's own workers: the scheduler (core/sched/run_sched.h) offers what is
// asked for, and threads (posix/run/posix_tasks.h) run each in a VM of its own, with a device's
// defaults: K runs at once, as many as cores and at least 2; 256 KiB and 1 s a run. One loop, as in
// an agent. Started by bench/container/container_tasks.py.
//
//   container_tasks tasks SCRIPT COUNT MS           COUNT tasks, each asked for again when it ended
//   container_tasks beside SCRIPT MS [FOLDER FIRST STEP]  two tasks, each asked for every 20 ms,
//   for
//                   MS; with FOLDER beside one that runs the hostile scripts FIRST, FIRST + STEP
//                   ... of it, one after the other, until all of them ended
//
// Prints one line of JSON: runs, seconds, cpu_us of all threads for a run, p50_us and p99_us from
// asked to answered, pss_kib in the end and peak_kib of the process, the result, and of the hostile
// scripts how many there were and how many ended as said. Scripts are compiled in processes of
// their own, as a device has no compiler: what that needs is in no figure of memory.
#include "base/error.h"
#include "core/sched/run_sched.h"
#include "device/device.h"
#include "hostile_sections.h"
#include "posix/run/posix_tasks.h"
#include "vm/vm.h"
#include "wire/declaration.h"

#include <event2/event.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SOURCE_MAX   (64 * 1024)
#define TASKS_MAX    64u
#define FINE_US      1024u // waits below are told apart by the microsecond, others by 1/512 and less
#define FINE_BITS    9u
#define BUCKETS      (FINE_US + 22u * (1u << FINE_BITS)) // up to 2^32 us
#define WARM_PERCENT 10u
#define EVERY_US     20000u // a neighbour of hostile scripts
#define RESULT_MAX   512u

struct program {
    uint8_t *mpy;
    size_t size;
};

struct task {
    struct program program;
    struct wire_manifest manifest;
    uint64_t asked_us; // since when it waits or runs
    bool wanted;       // not answered yet
    struct event *timer;
};

static struct {
    struct event_base *base;
    struct posix_tasks *pool;
    struct dev_sched sched;
    struct task tasks[TASKS_MAX + 1]; // the last is the hostile one
    uint32_t count;
    bool again; // what ended is asked for at once
    uint64_t from_us;
    uint64_t until_us;
    uint32_t waits[BUCKETS]; // from asked to answered, how many of each length
    size_t sample_count;
    size_t ended;    // of all runs that are no hostile ones
    double spent_us; // processor time before the first
    char result[RESULT_MAX];
    struct hostile_sections sections;
    size_t next; // hostile script
    size_t step;
    size_t hostile_ran;
    size_t hostile_right;
    bool hostile;
    uint8_t declaration[256];
    size_t declaration_bytes;
} bench;

static const struct wire_attrs no_attrs;

static _Noreturn void die(const char *what)
{
    (void)fprintf(stderr, "container_tasks: %s\n", what);
    exit(1);
}

static uint64_t now_us(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

static void whole_write(int fd, const uint8_t *bytes, size_t size)
{
    for (size_t at = 0; at < size;) {
        ssize_t written = write(fd, bytes + at, size - at);
        if (written <= 0) {
            _exit(1);
        }
        at += (size_t)written;
    }
}

static _Noreturn void compile_to(int fd, struct base_str source)
{
    struct program program = {.size = 0};
    struct base_error error = {0};
    if (dev_vm_compile(source, BASE_STR("main.py"), &program.mpy, &program.size, &error) !=
        BASE_OK) {
        (void)fprintf(stderr, "container_tasks: %s\n", error.text);
        _exit(1);
    }
    whole_write(fd, program.mpy, program.size);
    _exit(0);
}

static struct program program_of(struct base_str source)
{
    static uint8_t room[SOURCE_MAX];
    struct program program = {.size = 0};
    int ends[2] = {-1, -1};
    int status = -1;
    if (pipe(ends) != 0) {
        die("no pipe");
    }
    pid_t child = fork();
    if (child == 0) {
        compile_to(ends[1], source);
    }
    (void)close(ends[1]);
    ssize_t got = 1;
    while (child > 0 && got > 0 && program.size < sizeof(room)) {
        got = read(ends[0], room + program.size, sizeof(room) - program.size);
        program.size += got > 0 ? (size_t)got : 0;
    }
    (void)close(ends[0]);
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0 ||
        program.size == sizeof(room)) {
        die("a script cannot be compiled");
    }
    program.mpy = malloc(program.size);
    if (program.mpy == NULL) {
        die("no memory");
    }
    memcpy(program.mpy, room, program.size);
    return program;
}

// Each task's is another content, and looks at its input before all else: what it does from there
// on is done in each run, and is in no image.
static struct program program_read(const char *path, uint32_t index)
{
    static char source[SOURCE_MAX];
    static const char tail[] = "\nwalle.result(out)\n";
    const char *np = strstr(path, "_np.py") != NULL ? "from walle import np\n" : "";
    FILE *file = fopen(path, "rb");
    int head = snprintf(source, sizeof(source),
                        "import walle\n%sasked = walle.input\ntask = %" PRIu32 "\n", np, index);
    size_t size = head > 0 ? (size_t)head : 0;
    if (file == NULL) {
        die("cannot open the script");
    }
    size += fread(source + size, 1, SOURCE_MAX - size - sizeof(tail), file);
    (void)fclose(file);
    memcpy(source + size, tail, sizeof(tail) - 1);
    return program_of((struct base_str){source, size + sizeof(tail) - 1});
}

// ---- Runs

static void offer(uint32_t index, uint64_t asked_us)
{
    const struct dev_sched_want want = {
        .key = index + 1,
        .task_id = index + 1,
        .deadline_us = DEV_SCHED_NEVER,
        .time_us = 1000ull * DEV_RUN_TIME_MS_DEFAULT,
        .memory_bytes = DEV_RUN_BESIDE_BYTES + 1024ull * DEV_RUN_HEAP_KIB_DEFAULT,
        .priority = 2,
    };
    struct task *task = &bench.tasks[index];
    if (task->wanted) { // still under way: this one is left out, and the wait of that one counts
        return;
    }
    task->asked_us = asked_us;
    task->wanted = true;
    if (dev_sched_offer(&bench.sched, &want, now_us()) != DEV_SCHED_ACCEPTED) {
        die("the scheduler does not take a run");
    }
}

static struct wire_manifest manifest_of(void)
{
    return (struct wire_manifest){
        .task_name = BASE_STR("bench/task"),
        .entry = BASE_STR("main"),
        .declaration = {(const char *)bench.declaration, bench.declaration_bytes}};
}

static void start(uint32_t index)
{
    struct task *task = &bench.tasks[index];
    const struct dev_task_port port = posix_tasks_table(bench.pool);
    const struct dev_task_file file = {.kind = WIRE_FILE_SCRIPT,
                                       .name = BASE_STR("main.mpy"),
                                       .bytes = task->program.mpy,
                                       .size = task->program.size};
    const struct dev_task_job job = {
        .attrs = &no_attrs, .manifest = &task->manifest, .files = &file, .file_count = 1};
    if (port.start(port.ctx, index + 1, &job) != BASE_OK) {
        die("a run does not start");
    }
}

// The next hostile script, if there is one.
static void hostile_next(void)
{
    struct task *task = &bench.tasks[TASKS_MAX];
    free(task->program.mpy);
    task->program = (struct program){.size = 0};
    if (bench.next >= bench.sections.count) {
        (void)event_base_loopbreak(bench.base);
        return;
    }
    task->program = program_of(bench.sections.scripts[bench.next].source);
    offer(TASKS_MAX, now_us());
}

static void hostile_ended(const struct dev_task_end *end)
{
    const struct hostile_script *script = &bench.sections.scripts[bench.next];
    bench.next += bench.step;
    bench.hostile_ran++;
    if (hostile_script_ended(script, end->outcome, end->detail)) {
        bench.hostile_right++;
    } else {
        (void)fprintf(stderr, "container_tasks: %.*s: %.*s\n", (int)script->name.size,
                      script->name.data, (int)end->detail.size, end->detail.data);
    }
}

// Its bucket, and the shortest wait in a bucket.
static uint32_t bucket_of(uint64_t us)
{
    uint32_t bits = 0;
    us = us < UINT32_MAX ? us : UINT32_MAX;
    while (us >> bits >= FINE_US) {
        bits++;
    }
    return bits == 0 ? (uint32_t)us
                     : FINE_US + (bits - 1) * (1u << FINE_BITS) +
                           (uint32_t)((us >> bits) - (1u << FINE_BITS));
}

static uint64_t us_of(uint32_t bucket)
{
    uint32_t above = bucket - FINE_US;
    return bucket < FINE_US ? bucket
                            : (uint64_t)((above & ((1u << FINE_BITS) - 1)) + (1u << FINE_BITS))
                                  << ((above >> FINE_BITS) + 1);
}

static void calm_ended(struct task *task, const struct dev_task_end *end)
{
    uint64_t ended_us = now_us();
    bench.ended++;
    if (end->outcome != WIRE_OUTCOME_RAN || end->result.size >= RESULT_MAX) {
        (void)fprintf(stderr, "container_tasks: %.*s\n", (int)end->detail.size, end->detail.data);
        die("a task failed");
    }
    if (bench.result[0] != '\0' &&
        (strlen(bench.result) != end->result.size ||
         memcmp(bench.result, end->result.data, end->result.size) != 0)) {
        die("a task gives another result beside others");
    }
    memcpy(bench.result, end->result.data, end->result.size);
    if (task->asked_us >= bench.from_us) {
        bench.waits[bucket_of(ended_us - task->asked_us)]++;
        bench.sample_count++;
    }
}

// The workers tell the runtime; here, us (--wrap).
void __wrap_dev_on_task_end(struct dev_runtime *runtime, uint32_t run,
                            const struct dev_task_end *end);
void __wrap_dev_on_task_end(struct dev_runtime *runtime, uint32_t run,
                            const struct dev_task_end *end)
{
    struct task *task = &bench.tasks[run - 1];
    (void)runtime;
    (void)dev_sched_end(&bench.sched, run, now_us());
    task->wanted = false;
    if (run - 1 == TASKS_MAX) {
        hostile_ended(end);
    } else {
        calm_ended(task, end);
    }
}

static void step(void)
{
    struct dev_sched_run run;
    while (dev_sched_next(&bench.sched, now_us(), &run) == DEV_SCHED_START) {
        start((uint32_t)(run.want.key - 1));
    }
}

// Behind each end.
static void woke(void *ctx)
{
    uint64_t now = now_us();
    (void)ctx;
    if (bench.again && now >= bench.until_us) {
        (void)event_base_loopbreak(bench.base);
        return;
    }
    for (uint32_t i = 0; bench.again && i < bench.count; i++) {
        offer(i, now);
    }
    if (bench.hostile && !bench.tasks[TASKS_MAX].wanted) {
        hostile_next();
    }
    step();
}

static void due(evutil_socket_t fd, short what, void *arg)
{
    struct task *task = arg;
    const struct timeval every = {.tv_usec = EVERY_US};
    (void)fd;
    (void)what;
    if (!bench.hostile && now_us() >= bench.until_us) {
        (void)event_base_loopbreak(bench.base);
        return;
    }
    (void)event_add(task->timer, &every);
    offer((uint32_t)(task - bench.tasks), now_us());
    step();
}

// ---- The program

static void begin(const char *script, uint32_t count, uint64_t ms)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t places = cores > 2 ? (uint32_t)(cores < DEV_RUNS_MAX ? cores : DEV_RUNS_MAX) : 2;
    struct base_error error = {0};
    const struct dev_sched_limits limits = {.places = places, .waiting_max = TASKS_MAX + 1};
    const struct wire_declaration declared = {.result_upload = WIRE_DECLARATION_NO_UPLOAD,
                                              .store_kib = 64};
    bench.base = event_base_new();
    const struct posix_task_options options = {.base = bench.base, .woke = woke};
    if (bench.base == NULL ||
        wire_declaration_encode(&declared, bench.declaration, sizeof(bench.declaration),
                                &bench.declaration_bytes) != BASE_OK ||
        posix_tasks_new(&options, places, &bench.pool, &error) != BASE_OK) {
        die(error.text);
    }
    dev_sched_init(&bench.sched, &limits, malloc(dev_sched_bytes(&limits)));
    bench.count = count;
    for (uint32_t i = 0; i < count; i++) {
        bench.tasks[i].program = program_read(script, i);
        bench.tasks[i].manifest = manifest_of();
    }
    bench.tasks[TASKS_MAX].manifest = manifest_of();
    bench.spent_us = (double)clock() * 1e6 / CLOCKS_PER_SEC;
    bench.until_us = now_us() + 1000 * ms;
    bench.from_us = now_us() + 10 * WARM_PERCENT * ms;
}

// The wait that so many of a hundred are no longer than.
static uint64_t wait_us(size_t percent)
{
    size_t left = bench.sample_count * percent / 100;
    uint32_t at = 0;
    while (at + 1 < BUCKETS && left >= bench.waits[at]) {
        left -= bench.waits[at++];
    }
    return us_of(at);
}

// A line "NAME:     1234 kB" of a file of the process. The peak is not getrusage's: that counts
// what the process was before it became this program, too.
static uint64_t memory_kib(const char *path, const char *name)
{
    char line[128];
    uint64_t kib = 0;
    FILE *file = fopen(path, "r");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        char *digits = line + strlen(name);
        if (strncmp(line, name, strlen(name)) == 0) {
            digits += strspn(digits, " \t");
            digits[strcspn(digits, " ")] = '\0';
            if (base_str_u64(base_str_of(digits), &kib) != BASE_OK) {
                die("how much memory there was is not said");
            }
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return kib;
}

static void tell(void)
{
    struct rusage usage;
    uint64_t told_us = now_us();
    double seconds = told_us > bench.from_us ? (double)(told_us - bench.from_us) / 1e6 : 0;
    (void)getrusage(RUSAGE_SELF, &usage);
    double spent_us = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e6 +
                      (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) - bench.spent_us;
    size_t count = bench.sample_count;
    if (count == 0) {
        die("no run ended");
    }
    (void)printf("{\"runs\":%zu,\"seconds\":%.6f,\"cpu_us\":%.3f,\"p50_us\":%" PRIu64
                 ",\"p99_us\":%" PRIu64 ",\"pss_kib\":%" PRIu64 ",\"peak_kib\":%" PRIu64 ","
                 "\"result\":%s,\"hostile\":%zu,\"right\":%zu,\"at_once\":%u}\n",
                 count, seconds, spent_us / (double)bench.ended, wait_us(50), wait_us(99),
                 memory_kib("/proc/self/smaps_rollup", "Pss:"),
                 memory_kib("/proc/self/status", "VmHWM:"), bench.result, bench.hostile_ran,
                 bench.hostile_right, bench.sched.limits.places);
    posix_tasks_free(bench.pool);
}

static void tasks_measure(uint32_t count)
{
    bench.again = true;
    for (uint32_t i = 0; i < count; i++) {
        offer(i, now_us());
    }
    step();
    (void)event_base_dispatch(bench.base);
}

static void beside_measure(void)
{
    for (uint32_t i = 0; i < bench.count; i++) {
        const struct timeval first = {.tv_usec = 1 + i * EVERY_US / bench.count};
        bench.tasks[i].timer = evtimer_new(bench.base, due, &bench.tasks[i]);
        (void)event_add(bench.tasks[i].timer, &first);
    }
    if (bench.hostile) {
        hostile_next();
        step();
    }
    (void)event_base_dispatch(bench.base);
}

static uint64_t number(const char *text, uint64_t most)
{
    uint64_t value = 0;
    if (base_str_u64(base_str_of(text), &value) != BASE_OK || value > most) {
        die("a number that is none, or too large");
    }
    return value;
}

int main(int argc, char **argv)
{
    if (argc == 5 && strcmp(argv[1], "tasks") == 0) {
        uint32_t count = (uint32_t)number(argv[3], TASKS_MAX);
        begin(argv[2], count, number(argv[4], 600000));
        tasks_measure(count);
    } else if ((argc == 4 || argc == 7) && strcmp(argv[1], "beside") == 0) {
        bench.hostile = argc == 7;
        if (bench.hostile) {
            bench.next = (size_t)number(argv[5], HOSTILE_SCRIPTS_MAX);
            bench.step = (size_t)number(argv[6], HOSTILE_SCRIPTS_MAX);
            if (bench.step == 0 || !hostile_sections_read(argv[4], &bench.sections)) {
                die("no hostile scripts");
            }
        }
        begin(argv[2], 2, number(argv[3], 600000));
        beside_measure();
    } else {
        die("usage: container_tasks tasks SCRIPT COUNT MS, or beside SCRIPT MS [FOLDER FIRST "
            "STEP]");
    }
    tell();
    return 0;
}
