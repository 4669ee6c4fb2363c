// Hostile scripts (tests/hostile_scripts/ends) on the workers that ship, once on threads and once
// in task processes, with the memory that a task has unless it asks for more. Beside each of them
// two well-behaved tasks run over and over. Each hostile one ends in its own error, which stands in
// the file; the others give what they give alone; and the memory of all stays within what the
// runtime counts a run with.
#include "test_kit.h"

#include "device/device.h"
#include "device/port.h"
#include "hostile_sections.h"
#include "posix/run/posix_tasks.h"
#include "vm/vm.h"
#include "wire/declaration.h"

#include <event2/event.h>
#include <sys/resource.h>

#define LEAST      100u // hostile scripts
#define RUNS       3u   // at once
#define HOSTILE    3u   // the number of its run; those of the neighbours are below
#define SHORT_MS   150  // for scripts that their budget ends
#define LONG_MS    60000
#define TEXT_BYTES 256
#define RUN_KIB    (DEV_RUN_HEAP_KIB_DEFAULT + DEV_RUN_BESIDE_BYTES / 1024) // as the runtime counts

struct program {
    uint8_t *bytes;
    size_t size;
};

struct told {
    uint32_t ends;
    enum wire_outcome_kind outcome;
    char detail[WIRE_REPORT_DETAIL_MAX + 1];
    char result[TEXT_BYTES];
};

static const char *const neighbours[] = {
    "import walle\n"
    "from walle import data, np\n"
    "seen = {}\n"
    "for i in range(300):\n"
    "    seen[i * 7919 % 31] = seen.get(i * 7919 % 31, 0) + i\n"
    "walle.result([sum(k * v for k, v in seen.items()), float(np.arange(100.0).sum())])\n",
    "import json, walle\n"
    "rows = [{'n': i, 't': 'item-%d' % i} for i in range(60)]\n"
    "text = json.dumps(rows)\n"
    "walle.result([len(text), sum(r['n'] for r in json.loads(text)),\n"
    "              text.split('item-')[-1][:2]])\n",
};
static const char *const answers[] = {"[669790,4950.0]", "[1600,1770,\"59\"]"};

static struct hostile_sections sections;
static struct program calm[2];
static uint8_t declaration[256]; // of every task here: it keeps something
static size_t declaration_bytes;
static struct told told[RUNS + 1]; // by the number of the run
static struct event_base *base;
static struct posix_tasks *tasks;
static const struct wire_attrs no_attrs;

// The workers tell the runtime; here, us.
void __wrap_dev_on_task_end(struct dev_runtime *runtime, uint32_t run,
                            const struct dev_task_end *end);
void __wrap_dev_on_task_end(struct dev_runtime *runtime, uint32_t run,
                            const struct dev_task_end *end)
{
    (void)runtime;
    assert_in_range(run, 1, RUNS);
    struct told *one = &told[run];
    one->ends++;
    one->outcome = end->outcome;
    (void)snprintf(one->detail, sizeof(one->detail), "%.*s", (int)end->detail.size,
                   end->detail.size > 0 ? end->detail.data : "");
    (void)snprintf(one->result, sizeof(one->result), "%.*s",
                   (int)(end->result.size < TEXT_BYTES ? end->result.size : TEXT_BYTES - 1),
                   end->result.size > 0 ? end->result.data : "");
}

static void woke(void *ctx)
{
    (void)ctx;
}

static struct program program_of(struct base_str source)
{
    struct program program = {.size = 0};
    struct base_error error = {0};
    if (dev_vm_compile(source, BASE_STR("main.py"), &program.bytes, &program.size, &error) !=
        BASE_OK) {
        fail_msg("%.200s: %s", source.data, error.text);
    }
    return program;
}

static void start(uint32_t run, const struct program *program, uint32_t time_ms)
{
    static struct wire_manifest manifests[RUNS + 1];
    const struct dev_task_port port = posix_tasks_table(tasks);
    const struct dev_task_file file = {.kind = WIRE_FILE_SCRIPT,
                                       .name = BASE_STR("main.mpy"),
                                       .bytes = program->bytes,
                                       .size = program->size};
    manifests[run] =
        (struct wire_manifest){.task_name = BASE_STR("demo/beside"),
                               .entry = BASE_STR("main"),
                               .declaration = {(const char *)declaration, declaration_bytes},
                               .time_ms = time_ms};
    const struct dev_task_job job = {.device_id = 7,
                                     .attrs = &no_attrs,
                                     .manifest = &manifests[run],
                                     .files = &file,
                                     .file_count = 1};
    assert_int_equal(port.start(port.ctx, run, &job), BASE_OK);
}

// Takes what the neighbours came to, and lets them run again.
static void neighbours_turn(uint32_t ended[RUNS])
{
    for (uint32_t run = 1; run < HOSTILE; run++) {
        if (told[run].ends == ended[run]) {
            continue;
        }
        ended[run] = told[run].ends;
        if (told[run].outcome != WIRE_OUTCOME_RAN) {
            fail_msg("a neighbour failed: %s", told[run].detail);
        }
        assert_string_equal(told[run].result, answers[run - 1]);
        start(run, &calm[run - 1], LONG_MS);
    }
}

// One hostile script, or none, until it ended and each neighbour ended once more.
static void beside(const struct program *hostile, uint32_t time_ms, uint32_t ended[RUNS])
{
    uint32_t before[RUNS] = {0};
    uint32_t hostile_before = told[HOSTILE].ends;
    memcpy(before, ended, sizeof(before));
    if (hostile != NULL) {
        start(HOSTILE, hostile, time_ms);
    }
    while ((hostile != NULL && told[HOSTILE].ends == hostile_before) || ended[1] == before[1] ||
           ended[2] == before[2]) {
        assert_int_equal(event_base_loop(base, EVLOOP_ONCE), 0);
        neighbours_turn(ended);
    }
}

// The most memory there ever was: of this process, or of a task's process, of which the kernel says
// no less than this process had when it started it.
static long most_kib(bool processes)
{
    struct rusage usage;
    assert_int_equal(getrusage(processes ? RUSAGE_CHILDREN : RUSAGE_SELF, &usage), 0);
    return usage.ru_maxrss;
}

static void all_end(bool processes)
{
    struct base_error error = {0};
    uint32_t ended[RUNS] = {0};
    size_t wrong = 0;
    const struct posix_task_options options = {
        .base = base, .runner_path = processes ? WALLE_TASK_RUNNER : NULL, .woke = woke};
    memset(told, 0, sizeof(told));
    if (posix_tasks_new(&options, RUNS, &tasks, &error) != BASE_OK) {
        fail_msg("%s", error.text);
    }
    start(1, &calm[0], LONG_MS);
    start(2, &calm[1], LONG_MS);
    for (uint32_t i = 0; i < 20; i++) {
        beside(NULL, 0, ended);
    }
    long alone_kib = most_kib(processes);
    for (size_t i = 0; i < sections.count; i++) {
        const struct hostile_script *script = &sections.scripts[i];
        struct program hostile = program_of(script->source);
        bool endless = hostile_script_is_endless(script);
        beside(&hostile, endless ? SHORT_MS : LONG_MS, ended);
        free(hostile.bytes);
        const struct told *one = &told[HOSTILE];
        if (!hostile_script_ended(script, one->outcome, base_str_of(one->detail))) {
            print_message("%.*s: not %.*s: %s: %s\n", (int)script->name.size, script->name.data,
                          (int)script->end.size, script->end.data, wire_outcome_name(one->outcome),
                          one->detail);
            wrong++;
        }
    }
    posix_tasks_free(tasks);
    tasks = NULL;
    assert_int_equal(wrong, 0);
    long more_kib = most_kib(processes) - alone_kib;
    long bound_kib = processes ? RUN_KIB : (long)(RUNS * RUN_KIB);
    print_message("%zu scripts, %ld KiB more memory, at most %ld\n", sections.count, more_kib,
                  bound_kib);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) // they keep books in memory
    assert_true(more_kib <= bound_kib);
#endif
}

static void each_ends_in_its_own_error(void **state)
{
    (void)state;
    all_end(false);
}

static void likewise_in_processes(void **state)
{
    (void)state;
    all_end(true);
}

static int setup(void **state)
{
    (void)state;
    if (!hostile_sections_read(WALLE_SOURCE_DIR "/tests/hostile_scripts/ends", &sections) ||
        sections.count < LEAST) {
        return -1;
    }
    const struct wire_declaration declared = {.result_upload = WIRE_DECLARATION_NO_UPLOAD,
                                              .store_kib = 64};
    assert_int_equal(
        wire_declaration_encode(&declared, declaration, sizeof(declaration), &declaration_bytes),
        BASE_OK);
    calm[0] = program_of(base_str_of(neighbours[0]));
    calm[1] = program_of(base_str_of(neighbours[1]));
    base = event_base_new();
    return base != NULL ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    event_base_free(base);
    free(calm[0].bytes);
    free(calm[1].bytes);
    hostile_sections_done(&sections);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_ends_in_its_own_error),
        cmocka_unit_test(likewise_in_processes),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
