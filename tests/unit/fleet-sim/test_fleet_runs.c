// Runs that virtual devices share: which scripts' runs are, that all hear the same, and that one
// made for real is compared.
#include "test_kit.h"

#include "base/error.h"
#include "ports/sim_task.h"

#include <stdlib.h>

#define DEVICES 3

static struct sim_runner runner;
static struct wire_manifest manifest;
static struct dev_task_file files[2];
static struct dev_task_job job;
static const struct wire_attrs attrs;
static uint8_t *owned;

static void compile(const char *source, uint8_t version)
{
    size_t size = 0;
    struct base_error error = {0};
    free(owned);
    if (dev_vm_compile(base_str_of(source), BASE_STR("main.py"), &owned, &size, &error) !=
        BASE_OK) {
        fail_msg("%s", error.text);
    }
    files[0] = (struct dev_task_file){
        .kind = WIRE_FILE_SCRIPT, .name = BASE_STR("main.mpy"), .bytes = owned, .size = size};
    manifest.entry = BASE_STR("main");
    manifest.config = BASE_STR("{\"limit\":3}");
    manifest.time_ms = 50;
    manifest.file_count = 1;
    job = (struct dev_task_job){
        .attrs = &attrs, .manifest = &manifest, .files = files, .file_count = 1};
    memset(job.version.bytes, version, sizeof(job.version.bytes));
}

static void run(uint64_t device, bool shares, bool real, struct sim_task_end *out)
{
    const struct sim_run_data data = {.shares = shares, .real = real};
    job.device_id = device;
    sim_runner_run(&runner, &job, &data, out);
}

// Devices run the source one after the other; all hear `result`. How many shared a run?
static uint64_t run_all(const char *source, enum wire_outcome_kind outcome, const char *result)
{
    static uint8_t version;
    struct sim_task_end first;
    struct sim_task_end end;
    uint64_t before = runner.runs.shared;
    compile(source, ++version);
    for (uint64_t i = 0; i < DEVICES; i++) {
        run(i, true, false, &end);
        first = i == 0 ? end : first;
        if (end.end.outcome != outcome) {
            fail_msg("%s: %s", source, end.detail);
        }
        assert_true(result == NULL || base_str_equal(end.end.result, base_str_of(result)));
        assert_string_equal(end.detail, first.detail);
        assert_ptr_equal(end.end.detail.data, end.detail);
        assert_int_equal(end.end.detail.size, first.end.detail.size);
        assert_int_equal(end.end.fingerprint, first.end.fingerprint);
        assert_int_equal(end.end.heap_peak_bytes, first.end.heap_peak_bytes);
    }
    return runner.runs.shared - before;
}

static void what_looks_at_nothing_is_shared(void **state)
{
    (void)state;
    static const struct {
        const char *source;
        enum wire_outcome_kind outcome;
        const char *result;
        uint64_t shared;
    } cases[] = {
        {"import walle\nwalle.result([1, 2])\n", WIRE_OUTCOME_RAN, "[1,2]", DEVICES - 1},
        {"import walle\nwalle.result(walle.config['limit'])\n", WIRE_OUTCOME_RAN, "3", DEVICES - 1},
        {"pass\n", WIRE_OUTCOME_RAN, "", DEVICES - 1},
        {"raise ValueError('x')\n", WIRE_OUTCOME_FAIL_EXCEPTION, "", DEVICES - 1},
        {"x = [0] * 1000000\n", WIRE_OUTCOME_FAIL_MEMORY, "", DEVICES - 1},
        {"while True: pass\n", WIRE_OUTCOME_FAIL_TIMEOUT, "", 0},
        {"import walle\nwalle.result(len(walle.device['id']))\n", WIRE_OUTCOME_RAN, "16", 0},
        {"import walle\nwalle.result(walle.input)\n", WIRE_OUTCOME_RAN, "null", 0},
        {"import walle\nif walle.device: raise ValueError('x')\n", WIRE_OUTCOME_FAIL_EXCEPTION, "",
         0},
        {"from walle import data\ndata.query('score', None)\n", WIRE_OUTCOME_RAN, "", 0},
        {"from walle import data\ndata.store('score', 'a', 1)\n", WIRE_OUTCOME_RAN, "", 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint64_t shared = run_all(cases[i].source, cases[i].outcome, cases[i].result);
        if (shared != cases[i].shared) {
            fail_msg("%s: shared by %u", cases[i].source, (unsigned)shared);
        }
    }
}

// A device that is slower gets less done in the time that a script has.
static void who_is_slower_runs_out_of_time(void **state)
{
    (void)state;
    struct sim_task_end end;
    compile("for i in range(1000): pass\n", 77);
    for (uint32_t slower = 0; slower <= 1000; slower = slower == 0 ? 1 : slower * 10) {
        const struct sim_run_data data = {.virtual_time = true, .slower = slower};
        sim_runner_run(&runner, &job, &data, &end);
        assert_int_equal(end.end.outcome,
                         slower < 1000 ? WIRE_OUTCOME_RAN : WIRE_OUTCOME_FAIL_TIMEOUT);
    }
    compile("while True: pass\n", 78);
    const struct sim_run_data real = {.slower = 50}; // of 50 ms one is left
    sim_runner_run(&runner, &job, &real, &end);
    assert_int_equal(end.end.outcome, WIRE_OUTCOME_FAIL_TIMEOUT);
}

// A version whose place another takes is made again.
static void each_version_has_its_own(void **state)
{
    (void)state;
    struct sim_task_end end;
    compile("import walle\nwalle.result(1)\n", 200);
    run(1, true, false, &end);
    compile("import walle\nwalle.result(2)\n", 200);
    job.version.bytes[31]++; // the same place
    run(2, true, false, &end);
    assert_true(base_str_equal(end.end.result, BASE_STR("2")));
    run(3, true, false, &end);
    assert_true(base_str_equal(end.end.result, BASE_STR("2")));
    assert_int_equal(runner.runs.shared, 1);
}

// Who does not share, has an input or a file of its own makes the run itself.
static void who_may_not_share_does_not(void **state)
{
    (void)state;
    struct sim_task_end end;
    const struct dev_run_input input = {0};
    compile("import walle\nwalle.result(1)\n", 1);
    run(1, true, false, &end);
    run(2, false, false, &end);
    job.input = &input;
    run(3, true, false, &end);
    job.input = NULL;
    files[1] = files[0];
    job.file_count = 2;
    run(4, true, false, &end);
    assert_int_equal(runner.runs.shared, 0);
    job.file_count = 1;
    run(5, true, false, &end);
    assert_int_equal(runner.runs.shared, 1);
}

static void a_real_run_is_compared(void **state)
{
    (void)state;
    struct sim_task_end end;
    compile("import walle\nwalle.result(1)\n", 1);
    run(1, true, true, &end);
    assert_int_equal(runner.runs.compared, 0); // nothing is kept, nor is this
    run(2, true, false, &end);
    run(3, true, true, &end);
    assert_int_equal(runner.runs.compared, 1);
    assert_int_equal(runner.runs.mismatches, 0);
    compile("import walle\nwalle.result(2)\n", 1); // the same version by mistake
    run(4, true, true, &end);
    compile("raise ValueError()\n", 1);
    run(5, true, true, &end);
    assert_int_equal(runner.runs.compared, 3);
    assert_int_equal(runner.runs.mismatches, 2);
    assert_int_equal(runner.runs.shared, 0);
}

// In virtual time a run takes what it does, however slow the machine is meanwhile.
static void time_is_counted_in_work(void **state)
{
    (void)state;
    struct sim_task_end end;
    compile("while True:\n    pass\n", 1);
    manifest.time_ms = 20;
    for (int virtual_time = 0; virtual_time < 2; virtual_time++) {
        const struct sim_run_data data = {.virtual_time = virtual_time == 1};
        sim_runner_run(&runner, &job, &data, &end);
        assert_int_equal(end.end.outcome, WIRE_OUTCOME_FAIL_TIMEOUT);
        const char *why = virtual_time == 1 ? "instruction budget of 200000 used up"
                                            : "time budget of 20 ms used up";
        assert_non_null(strstr(end.detail, why));
    }
    manifest.time_ms = 0;
}

static int setup(void **state)
{
    (void)state;
    sim_runner_init(&runner, NULL);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    sim_runner_done(&runner);
    free(owned);
    owned = NULL;
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(time_is_counted_in_work, setup, teardown),
        cmocka_unit_test_setup_teardown(what_looks_at_nothing_is_shared, setup, teardown),
        cmocka_unit_test_setup_teardown(who_is_slower_runs_out_of_time, setup, teardown),
        cmocka_unit_test_setup_teardown(each_version_has_its_own, setup, teardown),
        cmocka_unit_test_setup_teardown(who_may_not_share_does_not, setup, teardown),
        cmocka_unit_test_setup_teardown(a_real_run_is_compared, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
