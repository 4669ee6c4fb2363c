// Several runs at once on the posix port's workers: each gives what it gives alone, beside 63
// others too, with one model shared by all; one that is cancelled takes no other with it; no more
// run than may. Once on threads, once in task processes. What a run leaves of its store has the
// version's tag.
#include "test_kit.h"

#include "device/device.h"
#include "nn_models.h"
#include "pipeline/pipeline.h"
#include "posix/run/posix_tasks.h"
#include "vm/vm.h"
#include "wire/declaration.h"
#include "wire/store/store_image.h"

#include <event2/event.h>

#define RUNS        64u
#define IN_PROCESS  8u // at once, where each is a process
#define RESULT_ROOM 256u

static const char source[] = "import walle\n"
                             "from walle import nn\n"
                             "seed, rounds = walle.config['seed'], walle.config['rounds']\n"
                             "seen = {}\n"
                             "for i in range(rounds):\n"
                             "    seed = (seed * 1103515245 + 12345) & 0x7fffffff\n"
                             "    seen[seed % 61] = seen.get(seed % 61, 0) + i\n"
                             "y = []\n"
                             "if walle.config['model']:\n"
                             "    m = nn.load('model.onnx')\n"
                             "    for i in range(20):\n"
                             "        y = m([[seed % 7, i, 1]])[0].tolist()\n"
                             "walle.result([seed, sum(k * v for k, v in seen.items()), y])\n";
static const char endless[] = "while True:\n    pass\n";

struct told {
    enum wire_outcome_kind outcome;
    char detail[WIRE_REPORT_DETAIL_MAX + 1];
    char result[RESULT_ROOM];
    uint32_t ends;
    bool saves;
    uint64_t tag; // of what it leaves of its store
};

static struct told told[RUNS + 1]; // by the number of the run
static uint32_t ended;
static struct event_base *base;
static struct posix_tasks *tasks;
static const char *runner_path;
static uint8_t *bytecode;
static size_t bytecode_bytes;
static uint8_t *endless_bytecode;
static size_t endless_bytes;
static char configs[RUNS][80];
static const struct wire_attrs no_attrs;
static struct nn_model model;

// The workers tell the runtime; here, us.
void __wrap_dev_on_task_end(struct dev_runtime *runtime, uint32_t run,
                            const struct dev_task_end *end);
void __wrap_dev_on_task_end(struct dev_runtime *runtime, uint32_t run,
                            const struct dev_task_end *end)
{
    (void)runtime;
    assert_true(run > 0 && run <= RUNS);
    assert_true(end->result.size < RESULT_ROOM);
    told[run].outcome = end->outcome;
    told[run].ends++;
    if (end->effect_count == 1 && end->effects[0].kind == DEV_EFFECT_SAVE) {
        struct wire_store store;
        uint8_t *image = (uint8_t *)(uintptr_t)end->effects[0].bytes;
        assert_int_equal(wire_store_parse(image, end->effects[0].size, &store), BASE_OK);
        told[run].saves = true;
        told[run].tag = store.tag;
    }
    memcpy(told[run].result, end->result.data, end->result.size);
    told[run].result[end->result.size] = '\0';
    (void)snprintf(told[run].detail, sizeof(told[run].detail), "%.*s", (int)end->detail.size,
                   end->detail.data);
    ended++;
}

static void woke(void *ctx)
{
    (void)ctx;
}

static void begin(uint32_t runs_max)
{
    struct base_error error = {0};
    const struct posix_task_options options = {
        .base = base, .runner_path = runner_path, .woke = woke};
    memset(told, 0, sizeof(told));
    ended = 0;
    if (posix_tasks_new(&options, runs_max, &tasks, &error) != BASE_OK) {
        fail_msg("%s", error.text);
    }
}

static void wait_for(uint32_t count)
{
    while (ended < count) {
        assert_int_equal(event_base_loop(base, EVLOOP_ONCE), 0);
    }
}

static enum base_status start(uint32_t run, bool ends)
{
    static struct wire_manifest manifest;
    const struct dev_task_port port = posix_tasks_table(tasks);
    const struct dev_task_file files[2] = {
        {.kind = WIRE_FILE_SCRIPT,
         .name = BASE_STR("main.mpy"),
         .bytes = ends ? bytecode : endless_bytecode,
         .size = ends ? bytecode_bytes : endless_bytes},
        {.kind = WIRE_FILE_MODEL,
         .name = BASE_STR("model.onnx"),
         .bytes = model.bytes,
         .size = model.size,
         .digest = model.digest},
    };
    manifest = (struct wire_manifest){
        .task_name = BASE_STR("demo/many"),
        .entry = BASE_STR("main"),
        .time_ms = 600000,
        .config = base_str_of(configs[run - 1]),
    };
    const struct dev_task_job job = {
        .device_id = 7, .attrs = &no_attrs, .manifest = &manifest, .files = files, .file_count = 2};
    return port.start(port.ctx, run, &job);
}

static void start_ok(uint32_t run, bool ends)
{
    assert_int_equal(start(run, ends), BASE_OK);
}

static void cancel(uint32_t run)
{
    const struct dev_task_port port = posix_tasks_table(tasks);
    port.cancel(port.ctx, run);
}

static void done(void)
{
    posix_tasks_free(tasks);
    tasks = NULL;
}

// `count` runs at once come to what each comes to alone.
static void same_beside(uint32_t count)
{
    static struct told alone[RUNS + 1];
    begin(1);
    for (uint32_t run = 1; run <= count; run++) {
        start_ok(run, true);
        wait_for(run);
        if (told[run].outcome != WIRE_OUTCOME_RAN) {
            fail_msg("%s", told[run].detail);
        }
        assert_true(run == 1 || strcmp(told[run].result, told[run - 1].result) != 0);
    }
    memcpy(alone, told, sizeof(alone));
    done();
    begin(count);
    for (uint32_t run = 1; run <= count; run++) {
        start_ok(run, true);
    }
    assert_int_equal(start(1, true), BASE_ERR_BUSY);
    wait_for(count);
    for (uint32_t run = 1; run <= count; run++) {
        assert_int_equal(told[run].ends, 1);
        assert_int_equal(told[run].outcome, WIRE_OUTCOME_RAN);
        assert_string_equal(told[run].result, alone[run].result);
    }
    done();
}

static void a_run_is_what_it_is_alone(void **state)
{
    (void)state;
    same_beside(RUNS);
}

static void likewise_in_processes(void **state)
{
    (void)state;
    runner_path = WALLE_TASK_RUNNER;
    same_beside(IN_PROCESS);
    runner_path = NULL;
}

// One that is cancelled ends alone, and its worker is free again.
static void cancelled_beside_others(void)
{
    begin(4);
    start_ok(1, false);
    start_ok(2, true);
    start_ok(3, false);
    start_ok(4, true);
    assert_int_equal(start(5, true), BASE_ERR_BUSY);
    cancel(1);
    start_ok(5, true);
    wait_for(3);
    assert_int_equal(told[2].outcome, WIRE_OUTCOME_RAN);
    assert_int_equal(told[4].outcome, WIRE_OUTCOME_RAN);
    assert_int_equal(told[5].outcome, WIRE_OUTCOME_RAN);
    assert_int_equal(told[1].ends, 0);
    done(); // 3 goes on for ever, and is interrupted
    assert_int_equal(told[3].ends, 0);
}

static void one_is_cancelled(void **state)
{
    (void)state;
    cancelled_beside_others();
    runner_path = WALLE_TASK_RUNNER;
    cancelled_beside_others();
    runner_path = NULL;
}

static uint8_t *compile(const char *text, size_t *out_size)
{
    uint8_t *mpy = NULL;
    struct base_error error = {0};
    if (dev_vm_compile(base_str_of(text), BASE_STR("main.py"), &mpy, out_size, &error) != BASE_OK) {
        fail_msg("%s", error.text);
    }
    return mpy;
}

// A store whose tag is 0 where it is made, of a version that has one of its own.
static void saves_as(uint32_t run, enum wire_store_keep keep)
{
    static uint8_t bytes[256];
    size_t declared = 0;
    size_t size = 0;
    const struct wire_declaration declaration = {
        .result_upload = WIRE_DECLARATION_NO_UPLOAD, .store_kib = 4, .store_keep = keep};
    assert_int_equal(wire_declaration_encode(&declaration, bytes, sizeof(bytes), &declared),
                     BASE_OK);
    uint8_t *mpy = compile("from walle import store\nstore.put('n', 1)\n", &size);
    const struct dev_task_file file = {
        .kind = WIRE_FILE_SCRIPT, .name = BASE_STR("main.mpy"), .bytes = mpy, .size = size};
    const struct wire_manifest manifest = {.task_name = BASE_STR("demo/keeps"),
                                           .entry = BASE_STR("main"),
                                           .time_ms = 600000,
                                           .declaration = {(const char *)bytes, declared}};
    const struct dev_task_job job = {.attrs = &no_attrs,
                                     .manifest = &manifest,
                                     .version = {{1, 2, 3}},
                                     .files = &file,
                                     .file_count = 1};
    const struct dev_task_port port = posix_tasks_table(tasks);
    assert_int_equal(port.start(port.ctx, run, &job), BASE_OK);
    wait_for(run);
    assert_int_equal(told[run].outcome, WIRE_OUTCOME_RAN);
    assert_true(told[run].saves);
    assert_true(told[run].tag ==
                (keep == WIRE_STORE_A_VERSION ? wire_version_id(&job.version) : 0));
    free(mpy);
}

static void a_store_says_whose_it_is(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        begin(1);
        saves_as(1, WIRE_STORE_A_VERSION);
        saves_as(2, WIRE_STORE_VERSIONS);
        done();
        runner_path = i == 0 ? WALLE_TASK_RUNNER : NULL;
    }
}

// Of one worker, whose VM is kept from run to run: whatever ran before, each finds what it would
// find alone, also behind one that failed, that left its heap full, or that was cancelled.
static void each_finds_it_clean(void **state)
{
    static const struct {
        const char *text;
        uint32_t heap_kib;
        enum wire_outcome_kind outcome;
        const char *result;
    } runs[] = {
        {"import walle\nassert 'left' not in globals()\nleft = [walle.input]\n"
         "walle.result(len(left))\n",
         0, WIRE_OUTCOME_RAN, "1"},
        {"import walle\nwalle.input\nleft = []\nwhile True:\n    left.append(bytes(1000))\n", 0,
         WIRE_OUTCOME_FAIL_MEMORY, ""},
        {"import walle\nx = bytearray(100000)\nwalle.result(sum(x) + max(x))\n", 0,
         WIRE_OUTCOME_RAN, "0"},
        {"import walle\nwalle.input\nx = bytearray(400000)\nwalle.result(len(x))\n", 512,
         WIRE_OUTCOME_RAN, "400000"},
        {"import walle\nwalle.input\nx = bytearray(400000)\nwalle.result(len(x))\n", 0,
         WIRE_OUTCOME_FAIL_MEMORY, ""},
        {"import walle\nwalle.input\nx = bytearray(3000000)\nwalle.result(len(x))\n", 4096,
         WIRE_OUTCOME_RAN, "3000000"},
        {"import walle\nimport math\nmath.left = 1\n", 0, WIRE_OUTCOME_FAIL_EXCEPTION, ""},
    };
    enum { KINDS = sizeof(runs) / sizeof(runs[0]) };
    (void)state;
    begin(1);
    const struct dev_task_port port = posix_tasks_table(tasks);
    for (uint32_t run = 1; run <= RUNS - 1; run++) {
        uint32_t kind = run * run % 11 % KINDS; // each behind each other one, and behind itself
        size_t size = 0;
        uint8_t *mpy = compile(runs[kind].text, &size);
        const struct dev_task_file file = {
            .kind = WIRE_FILE_SCRIPT, .name = BASE_STR("main.mpy"), .bytes = mpy, .size = size};
        const struct wire_manifest manifest = {.task_name = BASE_STR("demo/clean"),
                                               .entry = BASE_STR("main"),
                                               .time_ms = 600000,
                                               .heap_kib = runs[kind].heap_kib};
        const struct dev_task_job job = {
            .attrs = &no_attrs, .manifest = &manifest, .files = &file, .file_count = 1};
        if (run % 13 == 0) {
            start_ok(RUNS, false);
            cancel(RUNS);
        }
        assert_int_equal(port.start(port.ctx, run, &job), BASE_OK);
        wait_for(run);
        if (told[run].outcome != runs[kind].outcome) {
            fail_msg("run %u, kind %u: %s", run, kind, told[run].detail);
        }
        assert_string_equal(told[run].result, runs[kind].result);
        free(mpy);
    }
    done();
}

// Light, middle and heavy ones, some with the model.
static int setup(void **state)
{
    (void)state;
    bytecode = compile(source, &bytecode_bytes);
    endless_bytecode = compile(endless, &endless_bytes);
    nn_add_relu(&model, 0);
    for (uint32_t i = 0; i < RUNS; i++) {
        (void)snprintf(configs[i], sizeof(configs[i]), "{\"seed\":%u,\"rounds\":%u,\"model\":%s}",
                       i + 1, 10 + i % 3 * (i % 3) * 500, i % 4 == 0 ? "true" : "false");
    }
    base = event_base_new();
    return base != NULL ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    event_base_free(base);
    free(bytecode);
    free(endless_bytecode);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_is_what_it_is_alone), cmocka_unit_test(likewise_in_processes),
        cmocka_unit_test(one_is_cancelled),          cmocka_unit_test(a_store_says_whose_it_is),
        cmocka_unit_test(each_finds_it_clean),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
