// The life of a task on a device: first install, update, failure on trial, crash, way back, stop;
// and what is reported of it.
#include "device_rig.h"

#include "wire/profile.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TASK "demo/score"

static struct rig rig;

static int setup(void **state)
{
    (void)state;
    rig_init(&rig);
    rig_version_add(&rig, TASK, 2, 3000, WIRE_RUNTIME_ABI, 0);
    rig_version_add(&rig, TASK, 3, 4000, WIRE_RUNTIME_ABI, 0);
    rig_boot(&rig);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    rig_done(&rig);
    return 0;
}

static void install(uint32_t version, uint64_t counter)
{
    struct rig_statement statement = {.task = TASK,
                                      .version = version,
                                      .counter = counter,
                                      .rollout_id = 0x100 + counter,
                                      .salt = counter};
    rig_offer(&rig, &statement);
    rig_checkin(&rig);
    rig_offer_none(&rig);
}

static void test_nothing_to_do(void **state)
{
    (void)state;
    rig_checkin(&rig);
    assert_int_equal(rig.checkins, 1);
    assert_true(dev_is_idle(rig.runtime));
    assert_int_equal(rig.port.storage.saves, 0); // a device that got nothing writes nothing
}

static void test_install_runs_and_reports(void **state)
{
    (void)state;
    install(0, 1);
    assert_int_equal(rig_active(&rig, TASK), 0);
    assert_int_equal(rig_kept(&rig, TASK), -1);
    assert_int_equal(rig.versions[0].runs, 1);
    assert_int_equal(rig.ledger_count, 3);
    assert_int_equal(rig.ledger[0].outcome.kind, WIRE_OUTCOME_DOWNLOADED);
    assert_int_equal(rig.ledger[1].outcome.kind, WIRE_OUTCOME_ACTIVATED);
    assert_int_equal(rig.ledger[2].outcome.kind, WIRE_OUTCOME_RAN);
    assert_int_equal(rig.ledger[2].outcome.rollout_id, 0x101);
    assert_int_equal(rig.ledger[0].seq, 1);
    assert_int_equal(rig.ledger[2].seq, 3);
    assert_true(dev_is_idle(rig.runtime));
    assert_int_equal(mem_blob_count(&rig.port), 3);
}

static void test_update_keeps_the_last_good(void **state)
{
    (void)state;
    install(0, 1);
    install(1, 2);
    assert_int_equal(rig_active(&rig, TASK), 1);
    assert_int_equal(rig_kept(&rig, TASK), 0);
    assert_int_equal(mem_blob_count(&rig.port), 3 + 4);
    rig_version_add(&rig, TASK, 1, 100, WIRE_RUNTIME_ABI, 0);
    install(2, 3);
    assert_int_equal(rig_active(&rig, TASK), 2);
    assert_int_equal(rig_kept(&rig, TASK), 1);
    assert_int_equal(mem_blob_count(&rig.port), 4 + 2); // the first version was collected
}

static void test_failure_on_trial_goes_back(void **state)
{
    (void)state;
    install(0, 1);
    rig.versions[1].ends = WIRE_OUTCOME_FAIL_EXCEPTION;
    uint32_t requests = rig.blob_requests;
    install(1, 2);
    assert_int_equal(rig.blob_requests, requests + 4);
    assert_int_equal(rig_active(&rig, TASK), 0);
    assert_int_equal(rig.versions[1].runs, 1);
    assert_int_equal(rig.versions[0].runs, 2);
    assert_int_equal(rig_count(&rig, WIRE_OUTCOME_FAIL_EXCEPTION), 1);
    assert_int_equal(rig_count(&rig, WIRE_OUTCOME_ROLLED_BACK), 1);
    assert_int_equal(rig_count(&rig, WIRE_OUTCOME_RAN), 1); // running v1 again is no news
    const struct rig_outcome *back = rig_last(&rig, WIRE_OUTCOME_ROLLED_BACK);
    assert_true(back->outcome.version_id == wire_version_id(&rig.versions[1].manifest));
    assert_int_equal(back->outcome.rollout_id, 0x102);
    assert_string_equal(rig_last(&rig, WIRE_OUTCOME_FAIL_EXCEPTION)->detail,
                        "ValueError: bad price (main.py:3)");
    // Offered again under the same statement: refused in silence, nothing is pulled.
    requests = rig.blob_requests;
    uint32_t ledger = rig.ledger_count;
    install(1, 2);
    assert_int_equal(rig_active(&rig, TASK), 0);
    assert_int_equal(rig.blob_requests, requests);
    assert_int_equal(rig.ledger_count, ledger);
    struct dev_task_view view;
    assert_int_equal(dev_task_view(rig.runtime, 0, &view), BASE_OK);
    assert_true(view.blocked_version_id == wire_version_id(&rig.versions[1].manifest));
}

static void test_first_version_fails(void **state)
{
    (void)state;
    rig.versions[0].ends = WIRE_OUTCOME_FAIL_LOAD;
    install(0, 1);
    assert_int_equal(rig_active(&rig, TASK), -1);
    assert_int_equal(rig_count(&rig, WIRE_OUTCOME_ROLLED_BACK), 1);
    assert_int_equal(mem_blob_count(&rig.port), 0);
    install(1, 2);
    assert_int_equal(rig_active(&rig, TASK), 1);
}

static void test_crash_on_trial(void **state)
{
    (void)state;
    install(0, 1);
    rig.hold_runs = true;
    for (int crash = 1; crash <= 3; crash++) {
        install(1, 2);
        assert_int_equal(rig.port.task.current.run != 0, 1);
        assert_int_equal(rig_active(&rig, TASK), 1);
        rig_kill(&rig);
        rig_boot(&rig);
    }
    rig.hold_runs = false;
    rig_checkin(&rig);
    assert_int_equal(rig_active(&rig, TASK), 0);
    assert_int_equal(rig_count(&rig, WIRE_OUTCOME_FAIL_CRASH), 3);
    assert_int_equal(rig_count(&rig, WIRE_OUTCOME_ROLLED_BACK), 1);
    assert_int_equal(rig.versions[1].runs, 0);
    rig_kill(&rig); // and stays there
    rig_boot(&rig);
    rig_checkin(&rig);
    assert_int_equal(rig_active(&rig, TASK), 0);
    assert_int_equal(rig_count(&rig, WIRE_OUTCOME_FAIL_CRASH), 3);
}

static void test_stop_during_trial_is_no_crash(void **state)
{
    (void)state;
    rig.hold_runs = true;
    install(0, 1);
    assert_int_equal(rig.port.task.started, 1);
    dev_stop(rig.runtime);
    assert_int_equal(rig.port.task.cancelled, 1);
    rig.hold_runs = false;
    rig_kill(&rig);
    rig_boot(&rig);
    rig_checkin(&rig);
    assert_int_equal(rig_count(&rig, WIRE_OUTCOME_FAIL_CRASH), 0);
    assert_int_equal(rig_count(&rig, WIRE_OUTCOME_RAN), 1);
}

static void test_the_way_back_needs_no_download(void **state)
{
    (void)state;
    install(0, 1);
    install(1, 2);
    uint32_t requests = rig.blob_requests;
    install(0, 1);
    assert_int_equal(rig.blob_requests, requests);
    assert_int_equal(rig_active(&rig, TASK), 0);
    assert_int_equal(rig_count(&rig, WIRE_OUTCOME_ROLLED_BACK), 1);
    assert_int_equal(rig_last(&rig, WIRE_OUTCOME_ROLLED_BACK)->outcome.rollout_id, 0x102);
    uint32_t ledger = rig.ledger_count;
    install(0, 1); // the same statement again changes nothing
    assert_int_equal(rig.ledger_count, ledger);
    install(1, 2); // an approval stands: forwards again, when the gateway says so
    assert_int_equal(rig_active(&rig, TASK), 1);
}

static void test_the_way_back_to_what_is_not_here_is_pulled(void **state)
{
    (void)state;
    install(1, 2);
    install(0, 1);
    assert_int_equal(rig_active(&rig, TASK), 0);
    assert_int_equal(rig_count(&rig, WIRE_OUTCOME_ROLLED_BACK), 1);
    assert_int_equal(rig.versions[0].runs, 1);
}

static void test_stop(void **state)
{
    (void)state;
    install(0, 1);
    rig_offer_stop(&rig, TASK);
    rig_checkin(&rig);
    assert_int_equal(rig_active(&rig, TASK), -1);
    assert_int_equal(rig_count(&rig, WIRE_OUTCOME_REMOVED), 1);
    assert_int_equal(rig_last(&rig, WIRE_OUTCOME_REMOVED)->outcome.rollout_id, 0x101);
    assert_int_equal(mem_blob_count(&rig.port), 0);
    install(1, 1); // what the counter stood for is remembered
    assert_int_equal(rig_active(&rig, TASK), -1);
    install(0, 1); // and what was approved is approved
    assert_int_equal(rig_active(&rig, TASK), 0);
}

static void test_replaced_while_pulling(void **state)
{
    (void)state;
    rig.stall_bodies = 1;
    install(0, 1); // stalls, is retried and done within the ten minutes
    assert_int_equal(rig_active(&rig, TASK), 0);
    rig.blob_status = 503;
    install(1, 2);
    assert_int_equal(rig_active(&rig, TASK), 0);
    rig.blob_status = 0;
    rig_version_add(&rig, TASK, 1, 50, WIRE_RUNTIME_ABI, 0);
    install(2, 3);
    assert_int_equal(rig_active(&rig, TASK), 2);
    assert_int_equal(rig.versions[1].runs, 0);
}

static void test_runs_repeat(void **state)
{
    (void)state;
    uint32_t version = rig_version_add(&rig, TASK, 1, 50, WIRE_RUNTIME_ABI, 60);
    install(version, 1);
    assert_int_equal(rig.versions[version].runs, 1);
    for (int minute = 0; minute < 10; minute++) {
        mem_clock_advance(&rig.port, 60 * 1000000ull);
        rig_run(&rig, 0);
    }
    assert_int_equal(rig.versions[version].runs, 11);
    assert_int_equal(rig_count(&rig, WIRE_OUTCOME_RAN), 1);
    // A later failure is reported once, and does not send a settled version back.
    rig.versions[version].ends = WIRE_OUTCOME_FAIL_EXCEPTION;
    for (int minute = 0; minute < 3; minute++) {
        mem_clock_advance(&rig.port, 60 * 1000000ull);
        rig_run(&rig, 1000000);
    }
    assert_int_equal(rig.versions[version].runs, 14);
    assert_int_equal(rig_count(&rig, WIRE_OUTCOME_FAIL_EXCEPTION), 1);
    assert_int_equal(rig_active(&rig, TASK), (int)version);
    // A restart does not run it again at once.
    rig_kill(&rig);
    rig_boot(&rig);
    rig_checkin(&rig);
    assert_int_equal(rig.versions[version].runs, 14);
}

static void test_task_port_busy(void **state)
{
    (void)state;
    rig.port.task.refuse = BASE_ERR_BUSY;
    install(0, 1);
    assert_int_equal(rig.versions[0].runs, 0);
    assert_int_equal(rig_active(&rig, TASK), 0);
    rig_kill(&rig); // waiting for the port is no run, so this is no crash
    rig_boot(&rig);
    rig_checkin(&rig);
    assert_int_equal(rig.versions[0].runs, 1);
    assert_int_equal(rig_count(&rig, WIRE_OUTCOME_FAIL_CRASH), 0);
}

static void test_profile_names_what_is_there(void **state)
{
    (void)state;
    struct rig_statement first = {.task = TASK, .counter = 2, .floor = 1};
    rig_offer(&rig, &first);
    rig_checkin(&rig);
    rig_checkin(&rig);
    uint8_t bytes[512];
    size_t size = 0;
    struct wire_profile profile;
    assert_int_equal(base_b64_decode(base_str_of(rig.profile), bytes, sizeof(bytes), &size), 0);
    assert_int_equal(wire_profile_parse(bytes, size, &profile), BASE_OK);
    assert_int_equal(profile.task_count, 1);
    uint64_t task_id = wire_task_id(base_str_of(TASK));
    uint64_t version_id = wire_version_id(&rig.versions[0].manifest);
    assert_true(profile.digest == wire_profile_term(task_id, version_id, 0));
    struct base_reader reader;
    struct wire_profile_pair pair;
    base_reader_init(&reader, profile.pairs, profile.pairs_bytes);
    assert_int_equal(wire_profile_pair_next(&profile, &reader, &pair), BASE_OK);
    assert_true(pair.version_id == version_id);
    assert_int_equal(pair.floor, 1);
    struct wire_attrs attrs;
    assert_int_equal(wire_attrs_parse(profile.attrs, profile.attrs_bytes, &attrs), BASE_OK);
    assert_int_equal(attrs.count, 2);
}

static void test_memory_is_small(void **state)
{
    (void)state;
    struct dev_config config = rig.config;
    config.tasks_max = 2;
    config.outcomes_max = 8;
    config.result_bytes_max = 1;
    print_message("runtime of 2 tasks, 8 outcomes: %zu bytes\n", dev_runtime_bytes(&config));
    assert_true(dev_runtime_bytes(&config) <= 6860); // docs/DEVICE.md: 6.7 KB
    config.result_bytes_max = DEV_RESULT_BYTES_MAX + 1;
    assert_int_equal(dev_runtime_bytes(&config), 0);
    config.result_bytes_max = 0;
    config.trusted_key_count = 2;
    memcpy(config.trusted_keys[1], config.trusted_keys[0], WIRE_PUBLIC_KEY_BYTES);
    assert_int_equal(dev_runtime_bytes(&config), 0);
    config.trusted_key_count = 1;
    config.signature_threshold = 2;
    assert_int_equal(dev_runtime_bytes(&config), 0);
    config.signature_threshold = 1;
    config.tasks_max = DEV_TASKS_MAX + 1;
    assert_int_equal(dev_runtime_bytes(&config), 0);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_nothing_to_do),
        CASE(test_install_runs_and_reports),
        CASE(test_update_keeps_the_last_good),
        CASE(test_failure_on_trial_goes_back),
        CASE(test_first_version_fails),
        CASE(test_crash_on_trial),
        CASE(test_stop_during_trial_is_no_crash),
        CASE(test_the_way_back_needs_no_download),
        CASE(test_the_way_back_to_what_is_not_here_is_pulled),
        CASE(test_stop),
        CASE(test_replaced_while_pulling),
        CASE(test_runs_repeat),
        CASE(test_task_port_busy),
        CASE(test_profile_names_what_is_there),
        CASE(test_memory_is_small),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
