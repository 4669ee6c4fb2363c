// walle.cloud from scripts, through a port of the test's: what goes out, what comes back, each
// reason with both forms of on_fail, bad arguments, the deadline of the run, and memory.
#include "vm_kit.h"

#define LINE "from walle import cloud, nn\n"

struct host {
    struct vm_kit kit;
    struct dev_vm_cloud_port port;
    enum wire_cloud_why why;
    const char *detail;
    uint64_t virtual_us;
    uint32_t calls;
    uint32_t deadline_ms;
    uint32_t priority;
    char model[WIRE_TENSOR_MODEL_MAX + 1];
    struct dev_vm_cloud_state state;
    uint8_t answer[2048];
    size_t answer_size; // 0: the inputs come back, each as "NAME2"
};

static size_t echo(const struct wire_tensor_call *call, uint8_t *out, size_t capacity)
{
    static char names[WIRE_TENSORS_MAX][WIRE_TENSOR_NAME_MAX + 2];
    struct wire_tensor_answer answer = {.version = BASE_STR("3"), .count = call->count};
    struct base_writer writer;
    for (uint32_t i = 0; i < call->count; i++) {
        answer.tensors[i] = call->tensors[i];
        int size = snprintf(names[i], sizeof(names[i]), "%.*s2", (int)call->tensors[i].name.size,
                            call->tensors[i].name.data);
        answer.tensors[i].name = (struct base_str){names[i], (size_t)size};
    }
    base_writer_init(&writer, out, capacity);
    wire_tensor_answer_write(&writer, &answer);
    assert_int_equal(writer.status, BASE_OK);
    return base_writer_size(&writer);
}

static enum wire_cloud_why infer(void *ctx, const struct dev_vm_cloud_call *call,
                                 struct dev_vm_cloud_end *out_end)
{
    struct host *host = ctx;
    struct wire_tensor_call parsed;
    host->calls++;
    assert_int_equal(wire_tensor_call_parse(call->bytes, call->size, &parsed), BASE_OK);
    assert_int_equal(parsed.deadline_ms, call->deadline_ms);
    assert_int_equal(parsed.priority, call->priority);
    host->deadline_ms = call->deadline_ms;
    host->priority = call->priority;
    (void)snprintf(host->model, sizeof(host->model), "%.*s", (int)call->model.size,
                   call->model.data);
    (void)snprintf(out_end->detail, sizeof(out_end->detail), "%s", host->detail);
    out_end->virtual_us = host->virtual_us;
    out_end->answer = host->answer;
    out_end->size = host->answer_size > 0 ? host->answer_size
                                          : echo(&parsed, host->answer, sizeof(host->answer));
    return host->why;
}

static struct dev_vm_cloud_state look(void *ctx, struct base_str model)
{
    struct host *host = ctx;
    assert_true(wire_tensor_model_ok(model));
    return host->state;
}

static int setup(void **state)
{
    static struct host host;
    memset(&host, 0, sizeof(host));
    kit_init(&host.kit, 256);
    host.port = (struct dev_vm_cloud_port){.ctx = &host, .infer = infer, .look = look};
    host.detail = "";
    host.kit.job.cloud = &host.port;
    *state = &host;
    return 0;
}

static int teardown(void **state)
{
    struct host *host = *state;
    kit_done(&host->kit);
    return 0;
}

static void prints(struct host *host, const char *source, const char *want)
{
    kit_run_source(&host->kit, source);
    kit_ended(&host->kit, DEV_VM_FINISHED);
    kit_text_is(host->kit.result.output, want);
}

static void raises(struct host *host, const char *source, const char *type, const char *message)
{
    kit_run_source(&host->kit, source);
    kit_ended(&host->kit, DEV_VM_EXCEPTION);
    assert_string_equal(host->kit.result.type, type);
    assert_string_equal(host->kit.result.message, message);
}

static void test_an_answer(void **state)
{
    struct host *host = *state;
    prints(host,
           LINE "y = cloud.infer('big', {'x': [[1, 2, 3], [4, 5, 6]], 'n': nn.tensor([7, 8], "
                "dtype='int64')})\n"
                "print(sorted(y), y['x2'].shape, y['x2'].tolist(), y['n2'].dtype, "
                "y['n2'].tolist())\n"
                "print(cloud.why())\n",
           "['n2', 'x2'] (2, 3) [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]] int64 [7, 8]\nanswered\n");
    assert_string_equal(host->model, "big");
    assert_int_equal(host->deadline_ms, DEV_VM_CLOUD_DEADLINE_MS);
    assert_int_equal(host->priority, 1);
    assert_true(host->kit.result.looked);
}

static void test_arguments(void **state)
{
    struct host *host = *state;
    prints(host, LINE "cloud.infer('big', {}, 250, None, priority=0)\nprint(cloud.why())\n",
           "answered\n");
    assert_int_equal(host->deadline_ms, 250);
    assert_int_equal(host->priority, 0);
    static const char *const bad[][3] = {
        {"cloud.infer('a/b', {})", "ValueError",
         "walle.cloud: a model's name has 1 to 128 of A-Z a-z 0-9 . _ - and no dot in front"},
        {"cloud.infer('m', [1])", "TypeError", "walle.cloud: inputs are a dict by name"},
        {"cloud.infer('m', {'x': 1}, 0)", "ValueError",
         "walle.cloud: deadline_ms is not from 1 to 600000"},
        {"cloud.infer('m', {'x': 1}, 600001)", "ValueError",
         "walle.cloud: deadline_ms is not from 1 to 600000"},
        {"cloud.infer('m', {'': 1})", "ValueError",
         "walle.cloud: an input's name is not of 1 to 128 bytes"},
        {"cloud.infer('m', {str(i): 1 for i in range(17)})", "ValueError",
         "walle.cloud: more than 16 inputs"},
        {"cloud.infer('m', {'x': 1}, priority=4)", "ValueError",
         "walle.cloud: priority is not from 0, which goes first, to 3"},
    };
    uint32_t calls = host->calls;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char source[256];
        (void)snprintf(source, sizeof(source), LINE "%s\n", bad[i][0]);
        raises(host, source, bad[i][1], bad[i][2]);
    }
    assert_int_equal(host->calls, calls);
}

// Each reason: raised with its word, or on_fail given back and the word in why().
static void test_reasons(void **state)
{
    struct host *host = *state;
    for (unsigned i = 1; i < WIRE_CLOUD_COUNT; i++) {
        char want[128];
        host->why = (enum wire_cloud_why)i;
        host->detail = "";
        (void)snprintf(want, sizeof(want), "7 %s\n", wire_cloud_word(host->why));
        prints(host, LINE "print(cloud.infer('m', {'x': 1}, 100, 7), cloud.why())\n", want);
        host->detail = "said so";
        (void)snprintf(want, sizeof(want), "walle.cloud: %s: m: said so",
                       wire_cloud_word(host->why));
        raises(host, LINE "cloud.infer('m', {'x': 1}, 100)\n", "OSError", want);
    }
    host->why = WIRE_CLOUD_OFFLINE;
    host->detail = "";
    raises(host, LINE "cloud.infer('m', {'x': 1}, on_fail='raise')\n", "OSError",
           "walle.cloud: offline: m: no gateway answers");
    prints(host, LINE "print(cloud.why(), cloud.infer('m', {'x': 1}, on_fail=None))\n",
           "None None\n");
    host->kit.job.cloud = NULL;
    prints(host, LINE "print(cloud.infer('m', {'x': 1}, on_fail=None), cloud.why())\n",
           "None not_allowed\n");
}

static void test_answers_that_make_no_sense(void **state)
{
    struct host *host = *state;
    memset(host->answer, 0xff, sizeof(host->answer));
    host->answer_size = 100;
    prints(host, LINE "print(cloud.infer('m', {'x': 1}, on_fail=None), cloud.why())\n",
           "None failed\n");
}

// No call may go on for longer than the run has.
static void test_time_of_the_run(void **state)
{
    struct host *host = *state;
    host->kit.job.time_ms = 5000;
    prints(host, LINE "cloud.infer('m', {'x': 1}, 600000)\n", "");
    assert_in_range(host->deadline_ms, 1, 5000);
}

// The inputs and the answer are the run's memory.
static void test_memory(void **state)
{
    struct host *host = *state;
    kit_run_source(&host->kit, LINE "cloud.infer('m', {'x': bytes(150000)})\n");
    kit_ended(&host->kit, DEV_VM_MEMORY);
    assert_int_equal(host->calls, 0);
    kit_done(&host->kit);
    kit_init(&host->kit, 16384);
    host->kit.job.cloud = &host->port;
    raises(host, LINE "cloud.infer('m', {'x': nn.tensor(bytes(1 << 20), dtype='uint8')})\n",
           "ValueError", "walle.cloud: the inputs are over 1048576 bytes");
}

// A script that calls forever ends by its budget, whatever it catches.
static void test_budget(void **state)
{
    struct host *host = *state;
    host->kit.job.instruction_max = 5000;
    kit_run_source(&host->kit, LINE "while True:\n"
                                    "    try:\n"
                                    "        cloud.infer('m', {'x': 1})\n"
                                    "    except BaseException:\n"
                                    "        pass\n");
    kit_ended(&host->kit, DEV_VM_BUDGET);
    assert_true(host->calls > 10);
}

static void test_decide(void **state)
{
    struct host *host = *state;
    static const struct {
        const char *arguments;
        const char *want;
    } cases[] = {
        {"0.8, {'threshold': 0.8}", "(False, 'confident')"},
        {"0.79, {'threshold': 0.8}", "(True, 'unsure')"},
        {"1, {'threshold': 1.1}", "(True, 'unsure')"},
        {"float('nan'), {'threshold': 0}", "(False, 'confident')"},
        {"float('nan'), {'threshold': 0.1}", "(True, 'unsure')"},
        {"0, {'threshold': 1, 'metered': False}, metered=True", "(False, 'metered')"},
        {"0, {'threshold': 1, 'battery_min': 30}, battery=29", "(False, 'battery')"},
        {"0, {'threshold': 1, 'battery_min': 30}, battery=30", "(True, 'unsure')"},
        {"0, {'threshold': 1, 'battery_min': 30}", "(True, 'unsure')"},
        {"0, {'threshold': 1, 'cost_max': 10}, spent=10", "(False, 'cost')"},
        {"0, {'threshold': 1, 'deadline_ms': 49}, model='m'", "(False, 'slow')"},
        {"0, {'threshold': 1, 'deadline_ms': 50}, model='m'", "(True, 'unsure')"},
    };
    host->state.expected_us = 50000;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char source[256];
        char want[64];
        (void)snprintf(source, sizeof(source), LINE "print(cloud.decide(%s))\n",
                       cases[i].arguments);
        (void)snprintf(want, sizeof(want), "%s\n", cases[i].want);
        prints(host, source, want);
    }
    static const struct {
        enum wire_cloud_why why;
        const char *word;
    } ways[] = {{WIRE_CLOUD_OFFLINE, "offline"},
                {WIRE_CLOUD_QUOTA, "quota"},
                {WIRE_CLOUD_BUSY, "busy"},
                {WIRE_CLOUD_NOT_ALLOWED, "not_allowed"}};
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        char want[64];
        host->state.why = ways[i].why;
        (void)snprintf(want, sizeof(want), "(False, '%s')\n", ways[i].word);
        prints(host, LINE "print(cloud.decide(0, {'threshold': 1}))\n", want);
    }
    host->kit.job.cloud = NULL;
    prints(host, LINE "print(cloud.decide(0, {'threshold': 1}))\n", "(False, 'not_allowed')\n");
    raises(host, LINE "cloud.decide(0, {})\n", "ValueError", "walle.cloud: a rule has a threshold");
    raises(host, LINE "cloud.decide(0, 1)\n", "TypeError", "walle.cloud: a rule is a dict");
    raises(host, LINE "cloud.decide(0, {'threshold': 1}, battery=101)\n", "ValueError",
           "walle.cloud: battery is out of its range");
}

static void counted(struct host *host, const char *source, struct wire_cloud_counts want)
{
    kit_run_source(&host->kit, source);
    kit_ended(&host->kit, DEV_VM_FINISHED);
    const struct wire_cloud_counts *got = &host->kit.result.cloud;
    assert_int_equal(got->asked, want.asked);
    assert_int_equal(got->sent, want.sent);
    assert_int_equal(got->answered, want.answered);
    assert_int_equal(got->differed, want.differed);
    assert_memory_equal(got->times, want.times, sizeof(want.times));
}

// A decision is one however it is made; sent is what the rule wanted answered, and what the cloud
// had no time for is that, too; agreed() is said once of an answer.
static void test_counts(void **state)
{
    struct host *host = *state;
    host->virtual_us = 300000;
    const struct wire_cloud_counts none = {.asked = 0};
    counted(host, "print(1)\n", none);
    counted(host, LINE "for i in range(10): cloud.decide(i / 10, {'threshold': .5})\n",
            (struct wire_cloud_counts){.asked = 10});
    counted(host,
            LINE
            "for i in range(10):\n  ask, why = cloud.decide(i / 10, {'threshold': .5})\n"
            "  if ask:\n    cloud.infer('big', {})\n    cloud.agreed(i > 1)\n"
            "cloud.infer('big', {})\ncloud.infer('big', {})\n", // it was decided for one of them
            (struct wire_cloud_counts){11, 7, 7, 2, {[4] = 7}});
    const char *call = LINE "cloud.infer('big', {}, on_fail=None)\n";
    host->why = WIRE_CLOUD_QUOTA;
    counted(host, call, (struct wire_cloud_counts){.asked = 1, .sent = 1});
    host->why = WIRE_CLOUD_OFFLINE;
    counted(host, call, (struct wire_cloud_counts){.asked = 1});
    const char *told = "walle.cloud: agreed() is said once of a call that was answered";
    raises(host, LINE "cloud.infer('big', {}, on_fail=None)\ncloud.agreed(True)\n", "ValueError",
           told);
    host->why = WIRE_CLOUD_ANSWERED;
    raises(host, LINE "cloud.agreed(True)\n", "ValueError", told);
    raises(host, LINE "cloud.infer('big', {})\ncloud.agreed(True)\ncloud.agreed(True)\n",
           "ValueError", told);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_an_answer, setup, teardown),
        cmocka_unit_test_setup_teardown(test_arguments, setup, teardown),
        cmocka_unit_test_setup_teardown(test_reasons, setup, teardown),
        cmocka_unit_test_setup_teardown(test_answers_that_make_no_sense, setup, teardown),
        cmocka_unit_test_setup_teardown(test_time_of_the_run, setup, teardown),
        cmocka_unit_test_setup_teardown(test_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(test_budget, setup, teardown),
        cmocka_unit_test_setup_teardown(test_decide, setup, teardown),
        cmocka_unit_test_setup_teardown(test_counts, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
