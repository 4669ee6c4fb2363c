// Who is kept from the baseline by its floor: devices on which a version ran well that was taken
// back later, whatever became of it there.
#include "core_rig.h"

#include "svc/access/credentials.h"
#include "svc/access/operators.h"
#include "svc/device/touches.h"
#include "svc/rollout/kill_rollouts.h"
#include "svc/view/floored.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define TASK "shop/score"

static const struct rig_stage full = {"full", POL_STAGE_FULL, 10000, NULL, NULL, 1000000, 0, 0};

static const enum wire_outcome_kind ran[] = {WIRE_OUTCOME_ACTIVATED, WIRE_OUTCOME_RAN};

static void says(struct rig *rig, uint64_t rollout, uint64_t id,
                 const enum wire_outcome_kind *kinds, uint32_t count)
{
    struct gw_rollout_view view;
    struct rig_device device;
    rig_view(rig, rollout, &view);
    rig_device_init(&device, id);
    assert_int_equal(rig_report(rig, &device, &view, kinds, count), 204);
}

static void expect_floored(struct rig *rig, uint64_t rollout, uint64_t devices)
{
    struct gw_floored floored;
    assert_int_equal(gw_floored_of(rig->core, wire_task_id(BASE_STR(TASK)), 0, &floored), BASE_OK);
    assert_int_equal(floored.rollout, rollout);
    assert_int_equal(floored.devices, devices);
}

static void test_whoever_ran_it_well_is_counted(void **state)
{
    (void)state;
    static const enum wire_outcome_kind later[] = {WIRE_OUTCOME_ACTIVATED, WIRE_OUTCOME_RAN,
                                                   WIRE_OUTCOME_FAIL_CRASH};
    static const enum wire_outcome_kind never[] = {WIRE_OUTCOME_ACTIVATED, WIRE_OUTCOME_FAIL_CRASH};
    struct rig rig;
    struct wire_sha256 v1;
    struct wire_sha256 v3;
    struct gw_rollout_view view;
    struct base_error error = {0};
    rig_init(&rig);
    rig_start(&rig);
    rig_baseline(&rig, TASK, 0x11, NULL, NULL, &v1);
    rig_baseline(&rig, TASK, 0x22, NULL, NULL, &v1);
    static const uint64_t floors[] = {2};
    rig.floors = floors;
    rig_version(&rig, TASK, "3.0.0", &v3);
    assert_int_equal(rig_rollout(&rig, 0x33, TASK, &v3, NULL, NULL, &full, 1, &view, &error),
                     BASE_OK);
    rig_command(&rig, 0x33, POL_COMMAND_START, NULL);
    says(&rig, 0x33, 1, ran, 2);
    says(&rig, 0x33, 2, later, 3);
    says(&rig, 0x33, 3, never, 2);
    rig_settle(&rig);
    rig_view(&rig, 0x33, &view);
    assert_int_equal(view.state, POL_ROLLOUT_ROLLING_BACK); // by itself
    expect_floored(&rig, 0, 0);                             // the baseline is not below the floor
    rig_command(&rig, 0x22, POL_COMMAND_UNDO, NULL);
    expect_floored(&rig, 0x33, 2);
    rig_stop(&rig);
    rig_start(&rig);
    expect_floored(&rig, 0x33, 2);
    rig_done(&rig);
}

// Without a baseline nothing is left for whoever ran what was taken back, whatever its floor.
static void test_nothing_is_left_without_a_baseline(void **state)
{
    (void)state;
    struct rig rig;
    struct wire_sha256 v1;
    struct gw_floored floored;
    uint64_t task_id = wire_task_id(BASE_STR(TASK));
    rig_init(&rig);
    rig_start(&rig);
    assert_int_equal(gw_floored_of(rig.core, task_id, 0, &floored),
                     BASE_OK); // there is no such task
    assert_int_equal(floored.devices, 0);
    rig_baseline(&rig, TASK, 0x11, NULL, NULL, &v1);
    for (uint64_t id = 1; id <= 3; id++) {
        says(&rig, 0x11, id, ran, 2);
    }
    rig_settle(&rig);
    expect_floored(&rig, 0, 0);
    rig_command(&rig, 0x11, POL_COMMAND_UNDO, NULL);
    expect_floored(&rig, 0x11, 3);
    rig_advance_s(&rig, GW_EXECUTION_TIMEOUT_S + 1);
    rig_settle(&rig); // it is back
    expect_floored(&rig, 0x11, 3);
    assert_int_equal(gw_floored_of(rig.core, task_id, 0, &floored), BASE_OK);
    assert_int_equal(floored.baseline, 0);
    rig_baseline(&rig, TASK, 0x22, NULL, NULL, &v1);
    expect_floored(&rig, 0, 0);
    says(&rig, 0x22, 4, ran, 2);
    rig_baseline(&rig, "shop/other", 0x44, NULL, NULL, &v1);
    for (uint64_t id = 11; id <= 14; id++) {
        says(&rig, 0x44, id, ran, 2);
    }
    rig_settle(&rig);
    rig_command(&rig, 0x44, POL_COMMAND_UNDO, NULL); // of another task
    expect_floored(&rig, 0, 0);
    rig_command(&rig, 0x22, POL_COMMAND_KILL, NULL);
    expect_floored(&rig, 0x11, 3); // of those that were taken back, the one with the most
    assert_int_equal(gw_floored_of(rig.core, task_id, 0x22, &floored), BASE_OK);
    assert_int_equal(floored.rollout, 0x22); // if that is asked for, its own
    assert_int_equal(floored.devices, 1);
    assert_int_equal(gw_floored_of(rig.core, task_id, 0, &floored), BASE_OK);
    assert_int_equal(floored.baseline, 0);
    rig_done(&rig);
}

static void ran_on(struct rig *rig, uint64_t rollout, uint64_t first, uint64_t last)
{
    for (uint64_t id = first; id <= last; id++) {
        says(rig, rollout, id, ran, 2);
    }
    rig_settle(rig);
}

// A rollout of a version, with the rig's floors, that is aborted after it ran.
static void ran_and_went_back(struct rig *rig, uint64_t id, const char *version, uint64_t first,
                              uint64_t last)
{
    struct wire_sha256 manifest;
    struct gw_rollout_view view;
    struct base_error error = {0};
    rig_version(rig, TASK, version, &manifest);
    assert_int_equal(rig_rollout(rig, id, TASK, &manifest, NULL, NULL, &full, 1, &view, &error),
                     BASE_OK);
    rig_command(rig, id, POL_COMMAND_START, NULL);
    ran_on(rig, id, first, last);
    rig_command(rig, id, POL_COMMAND_ABORT, NULL);
}

static void expect_back(struct rig *rig, const struct wire_sha256 *manifest, uint64_t devices,
                        uint64_t floored)
{
    struct gw_kill_back back;
    gw_kill_back(rig->core, manifest, &back);
    assert_int_equal(back.rollout_count, 1);
    assert_int_equal(back.devices, devices);
    assert_int_equal(back.floored, floored);
}

// A version that comes off the kill list is nothing for devices that have passed it: their floor,
// of a release that was taken back, is above it.
static void test_whoever_has_passed_it_does_not_come_back(void **state)
{
    (void)state;
    static const uint64_t floors[] = {2};
    struct rig rig;
    struct wire_sha256 v1;
    struct wire_sha256 v2;
    struct gw_rollout_view view;
    struct base_error error = {0};
    rig_init(&rig);
    rig_start(&rig);
    rig_baseline(&rig, TASK, 0x11, NULL, NULL, &v1);
    for (uint64_t id = 1; id <= 5; id++) {
        says(&rig, 0x11, id, ran, 2);
    }
    rig_settle(&rig);
    struct gw_kill_back all;
    gw_kill_back(rig.core, &v1, &all);
    assert_true(all.devices >= 5);
    assert_int_equal(all.floored, 0);
    rig.floors = floors;
    rig_version(&rig, TASK, "2.0.0", &v2);
    assert_int_equal(rig_rollout(&rig, 0x22, TASK, &v2, NULL, NULL, &full, 1, &view, &error),
                     BASE_OK);
    rig_command(&rig, 0x22, POL_COMMAND_START, NULL);
    for (uint64_t id = 1; id <= 3; id++) {
        struct rig_device device;
        rig_device_init(&device, id);
        device.seq += 2; // behind what it said of the first
        assert_int_equal(rig_report(&rig, &device, &view, ran, 2), 204);
    }
    rig_settle(&rig);
    rig_command(&rig, 0x22, POL_COMMAND_ABORT, NULL);
    expect_back(&rig, &v1, all.devices - 3, 3);
    // Not another task's, nor one whose floor is the version itself, nor the smaller of two.
    static const uint64_t itself[] = {1};
    struct wire_sha256 other;
    rig.floors = NULL;
    rig_baseline(&rig, "shop/other", 0x43, NULL, NULL, &other);
    rig.floors = floors;
    rig_baseline(&rig, "shop/other", 0x44, NULL, NULL, &other);
    ran_on(&rig, 0x44, 21, 24);
    expect_back(&rig, &v1, all.devices - 3, 3);
    rig.floors = itself;
    ran_and_went_back(&rig, 0x55, "5.0.0", 31, 34);
    expect_back(&rig, &v1, all.devices - 3, 3);
    rig.floors = floors;
    ran_and_went_back(&rig, 0x66, "6.0.0", 41, 41);
    expect_back(&rig, &v1, all.devices - 3, 3);
    ran_and_went_back(&rig, 0x77, "7.0.0", 51, 51 + all.devices); // more than had it
    expect_back(&rig, &v1, 0, all.devices);
    rig_done(&rig);
}

static void comes(struct rig *rig, uint64_t id, const char *tier)
{
    struct rig_device device;
    struct rig_exchange exchange;
    struct wire_offers offers;
    rig_device_init(&device, id);
    rig_device_attr(&device, "tier", tier);
    (void)rig_checkin(rig, &device, true, &exchange, &offers);
    rig_exchange_done(&exchange);
}

static uint64_t untargeted(struct rig *rig, uint64_t rollout)
{
    struct gw_floored floored;
    assert_int_equal(gw_floored_of(rig->core, wire_task_id(BASE_STR(TASK)), rollout, &floored),
                     BASE_OK);
    assert_int_equal(floored.devices, 0);
    return floored.untargeted;
}

static void comes_of(struct rig *rig, uint64_t id, const char *tier, const char *tenant)
{
    struct rig_exchange exchange;
    struct rig_device device;
    char hex[WIRE_DEVICE_HEX + 1];
    char text[WIRE_PROFILE_TEXT_MAX + 4];
    rig_device_init(&device, id);
    rig_device_attr(&device, "tier", tier);
    wire_device_hex(id, hex);
    rig_exchange_init(&exchange, GW_METHOD_POST, "/v1/checkin");
    exchange.exchange.request.device = base_str_of(hex);
    exchange.exchange.request.profile = rig_device_profile(&device, true, text);
    exchange.exchange.request.has_certificate = true;
    exchange.exchange.request.certificate_device = id;
    exchange.exchange.request.certificate_tenant = base_str_of(tenant);
    rig_run(rig, &exchange);
    rig_exchange_done(&exchange);
}

// Known devices that a rollout is for, and that no baseline is for: counted when it is taken back,
// if it ever ran, and only where it is asked for.
static void test_whom_no_baseline_is_for(void **state)
{
    (void)state;
    struct rig rig;
    struct wire_sha256 v1;
    struct gw_floored floored;
    uint64_t task_id = wire_task_id(BASE_STR(TASK));
    rig_init(&rig);
    rig.certified = true; // of strangers nothing is remembered
    rig_start(&rig);
    for (uint64_t id = 1; id <= 90; id++) {
        comes(&rig, id, id <= 40 ? "a" : id <= 70 ? "b" : "c");
    }
    struct gw_tenant acme;
    struct base_error error = {0};
    bool created = false;
    assert_int_equal(gw_tenant_create(rig.core, BASE_STR("acme"), &acme, &created, &error),
                     BASE_OK);
    for (uint64_t id = 91; id <= 97; id++) {
        comes_of(&rig, id, "b", "acme"); // another tenant's: the task is none of theirs
    }
    gw_worker_flush_touches(rig.worker.worker);
    rig_settle(&rig);
    assert_int_equal(gw_device_tenant(rig.core, 97), acme.id);
    rig_baseline(&rig, TASK, 0x11, "tier == \"a\"", NULL, &v1);
    rig_baseline(&rig, TASK, 0x22, "tier", "b", &v1);
    says(&rig, 0x22, 41, ran, 2);
    rig_settle(&rig);
    rig_baseline(&rig, TASK, 0x33, "tier", "c", &v1);
    rig_baseline(&rig, "shop/other", 0x44, NULL, NULL, &v1);
    assert_int_equal(untargeted(&rig, 0x22), 0); // it is not taken back
    rig_command(&rig, 0x33, POL_COMMAND_UNDO, NULL);
    assert_int_equal(untargeted(&rig, 0x33), 0); // it never ran
    rig_command(&rig, 0x22, POL_COMMAND_UNDO, NULL);
    assert_int_equal(untargeted(&rig, 0x22), 30);
    assert_int_equal(untargeted(&rig, 0), 0);
    assert_int_equal(gw_floored_of(rig.core, task_id, 0x22, &floored), BASE_OK);
    assert_int_equal(floored.rollout, 0x22);
    assert_int_equal(floored.baseline, 1);
    assert_int_equal(gw_floored_of(rig.core, task_id, 0x44, &floored), BASE_ERR_NOT_FOUND);
    assert_int_equal(gw_floored_of(rig.core, task_id, 0x55, &floored), BASE_ERR_NOT_FOUND);
    static const uint64_t floors[] = {3};
    rig.floors = floors;
    rig_baseline(&rig, TASK, 0x77, "tier", "b", &v1);
    rig.floors = NULL;
    says(&rig, 0x77, 42, ran, 2);
    rig_settle(&rig);
    rig_command(&rig, 0x77, POL_COMMAND_UNDO, NULL);
    assert_int_equal(gw_floored_of(rig.core, task_id, 0x77, &floored), BASE_OK);
    assert_int_equal(floored.devices, 1); // what keeps them is its floor, and that is said
    assert_int_equal(floored.untargeted, 0);
    rig_baseline(&rig, TASK, 0x66, "tier", "b", &v1);
    assert_int_equal(untargeted(&rig, 0x22), 0); // something newer is for them
    rig_done(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whoever_ran_it_well_is_counted),
        cmocka_unit_test(test_nothing_is_left_without_a_baseline),
        cmocka_unit_test(test_whoever_has_passed_it_does_not_come_back),
        cmocka_unit_test(test_whom_no_baseline_is_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
