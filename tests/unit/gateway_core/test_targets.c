// Who is meant: expressions with user attributes, several open rollouts of a task by priority, and
// the arms of an experiment, through check-ins.
#include "core_rig.h"

#include "base/prng.h"
#include "policy/bucket.h"
#include "svc/rollout/watch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char *const os_names[] = {"android", "ios", "linux"};
static const char *const regions[] = {"eu", "us", "cn", "br"};

static void make_device(struct rig_device *device, uint32_t i)
{
    rig_device_init(device, base_mix64(1000 + i));
    rig_device_attr(device, "os", os_names[i % 3]);
    rig_device_attr(device, "region", regions[(i / 3) % 4]);
    rig_device_attr(device, "channel", i % 10 == 0 ? "beta" : "stable");
}

// Targets and audiences given as text: kept over a restart, and user attributes count.
static void test_expressions_choose_devices(void **state)
{
    (void)state;
    static const struct rig_stage stages[] = {
        {"beta", POL_STAGE_BETA, 10000, "user.segment in [\"staff\", \"friends\"]", NULL, 1, 500000,
         0},
        {"full", POL_STAGE_FULL, 10000, NULL, NULL, 1, 500000, 0},
    };
    struct rig rig;
    struct wire_sha256 manifest;
    struct gw_rollout_view view;
    struct base_error error = {0};
    rig_init(&rig);
    rig_start(&rig);
    rig_version(&rig, "t", "1.0.0", &manifest);
    assert_int_equal(rig_rollout(&rig, 7, "t", &manifest, "app_version >= 1.10 && os != \"ios\"",
                                 NULL, stages, 2, &view, &error),
                     BASE_OK);
    rig_command(&rig, 7, POL_COMMAND_START, NULL);
    static const struct {
        const char *app_version;
        const char *os;
        const char *segment;
        uint32_t offers;
    } devices[] = {
        {"1.10.0", "android", "staff", 1}, {"1.10.0", "android", "friends", 1},
        {"1.9.0", "android", "staff", 0},  {"1.10.0", "ios", "staff", 0},
        {"2.0", "linux", "others", 0},     {"1.10.0-rc.1", "linux", "staff", 0},
        {"x", "linux", "staff", 0},        {"3", "linux", NULL, 0},
    };
    for (int restarted = 0; restarted < 2; restarted++) {
        for (uint32_t i = 0; i < sizeof(devices) / sizeof(devices[0]); i++) {
            struct rig_device device;
            struct rig_exchange exchange;
            struct wire_offers offers;
            rig_device_init(&device, 100 + i);
            rig_device_attr(&device, "app_version", devices[i].app_version);
            rig_device_attr(&device, "os", devices[i].os);
            if (devices[i].segment != NULL) {
                rig_device_attr(&device, "user.segment", devices[i].segment);
            }
            (void)rig_checkin(&rig, &device, true, &exchange, &offers);
            if (offers.count != devices[i].offers) {
                fail_msg("device %u: %u offers, not %u", i, offers.count, devices[i].offers);
            }
            rig_exchange_done(&exchange);
        }
        if (restarted == 0) {
            rig_stop(&rig);
            rig_start(&rig);
        }
    }
    rig_done(&rig);
}

static const struct rig_stage at_once[] = {
    {"full", POL_STAGE_FULL, 10000, NULL, NULL, 1000000, 1000000, 0},
};

static void open_rollout(struct rig *rig, uint64_t id, const char *version, const char *target)
{
    struct wire_sha256 manifest;
    struct gw_rollout_view view;
    struct base_error error = {0};
    rig_version(rig, "t", version, &manifest);
    enum base_status status =
        rig_rollout(rig, id, "t", &manifest, target, NULL, at_once, 1, &view, &error);
    if (status != BASE_OK) {
        fail_msg("%s: %s", version, error.text);
    }
    rig_advance_s(rig, 1);
    rig_command(rig, id, POL_COMMAND_START, NULL);
}

// The rollout whose release the device is offered; 0: none.
static uint64_t offered_to(struct rig *rig, const struct rig_device *device)
{
    struct rig_exchange exchange;
    struct wire_offers offers;
    struct wire_release release = {.rollout_id = 0};
    (void)rig_checkin(rig, device, true, &exchange, &offers);
    assert_in_range(offers.count, 0, 1);
    if (offers.count == 1) {
        rig_offer_release(&offers, 0, &release);
    }
    rig_exchange_done(&exchange);
    return release.rollout_id;
}

// Several open rollouts of one task: the device follows the one of the highest priority that
// targets it; equal ones by age; what is paused keeps its devices; what went back lets them go.
static void test_the_highest_priority_is_followed(void **state)
{
    (void)state;
    struct rig rig;
    struct rig_device android;
    struct rig_device ios;
    rig_init(&rig);
    rig_start(&rig);
    make_device(&android, 0);
    make_device(&ios, 1);
    rig.priority = 5;
    open_rollout(&rig, 1, "1.0.0", "os == \"android\"");
    rig.priority = 0;
    open_rollout(&rig, 2, "2.0.0", "has(os)");
    assert_int_equal(offered_to(&rig, &android), 1);
    assert_int_equal(offered_to(&rig, &ios), 2);
    open_rollout(&rig, 3, "3.0.0", "os != \"linux\""); // as important as 2, and younger
    assert_int_equal(offered_to(&rig, &android), 1);
    assert_int_equal(offered_to(&rig, &ios), 2);
    rig.priority = 9;
    open_rollout(&rig, 4, "4.0.0", "os in [\"ios\"]");
    assert_int_equal(offered_to(&rig, &ios), 4);
    struct gw_task_view task;
    assert_int_equal(gw_catalog_task_get(rig.core, BASE_STR("t"), &task), BASE_OK);
    assert_int_equal(task.open_count, 4);
    assert_int_equal(task.open_rollouts[0], 4);
    assert_int_equal(task.open_rollouts[1], 1);
    assert_int_equal(task.open_rollouts[2], 2);
    assert_int_equal(task.open_rollouts[3], 3);
    rig_command(&rig, 4, POL_COMMAND_PAUSE, NULL);
    assert_int_equal(offered_to(&rig, &ios), 0);
    rig_stop(&rig); // the order is the same after a restart
    rig_start(&rig);
    assert_int_equal(offered_to(&rig, &ios), 0);
    assert_int_equal(offered_to(&rig, &android), 1);
    rig_command(&rig, 4, POL_COMMAND_ABORT, NULL);
    assert_int_equal(offered_to(&rig, &ios), 2);
    rig_command(&rig, 1, POL_COMMAND_ABORT, NULL);
    assert_int_equal(offered_to(&rig, &android), 2);
    rig_done(&rig);
}

// An experiment: two arms of 30 % and a holdout of 40 %, each arm a rollout with its own counts.
// The arm is the same whatever the stage, and independent of the bucket.
static void test_arms_split_devices(void **state)
{
    (void)state;
    static const struct rig_stage half[] = {
        {"half", POL_STAGE_GRAY, 5000, NULL, NULL, 1000000, 1000000, 0},
        {"full", POL_STAGE_FULL, 10000, NULL, NULL, 1000000, 1000000, 0},
    };
    enum { FLEET = 600 };
    struct rig rig;
    uint64_t first[FLEET] = {0};
    uint32_t counts[2][3] = {{0}};
    rig_init(&rig);
    rig_start(&rig);
    for (uint64_t arm = 0; arm < 2; arm++) {
        struct wire_sha256 manifest;
        struct gw_rollout_view view;
        struct base_error error = {0};
        rig_version(&rig, "t", arm == 0 ? "1.0.0-a" : "1.0.0-b", &manifest);
        rig.arm = (struct pol_arm){77, (uint16_t)(arm * 3000), (uint16_t)(arm * 3000 + 3000)};
        assert_int_equal(
            rig_rollout(&rig, 1 + arm, "t", &manifest, NULL, NULL, half, 2, &view, &error),
            BASE_OK);
        assert_int_equal(view.arm.to, arm * 3000 + 3000);
        rig_command(&rig, 1 + arm, POL_COMMAND_START, NULL);
    }
    for (uint32_t stage = 0; stage < 2; stage++) {
        for (uint32_t i = 0; i < FLEET; i++) {
            struct rig_device device;
            make_device(&device, i);
            uint64_t arm = offered_to(&rig, &device);
            counts[stage][arm]++;
            assert_true(first[i] == 0 || first[i] == arm);
            first[i] = arm;
            uint16_t bucket = pol_bucket(device.id, 77);
            assert_true(arm == 0 || bucket / 3000 == arm - 1);
        }
        rig_command(&rig, 1, POL_COMMAND_PROMOTE, NULL);
        if (stage == 0) {
            rig_command(&rig, 2, POL_COMMAND_PROMOTE, NULL);
        }
    }
    print_message("half: %u, %u; full: %u, %u, held out %u\n", counts[0][1], counts[0][2],
                  counts[1][1], counts[1][2], counts[1][0]);
    // Shares of 600: 90 each in the half, 180 each and 240 in full, within four deviations.
    assert_in_range(counts[0][1], 55, 125);
    assert_in_range(counts[0][2], 55, 125);
    assert_in_range(counts[1][1], 135, 225);
    assert_in_range(counts[1][2], 135, 225);
    assert_in_range(counts[1][0], 192, 288);
    struct gw_rollout_view view;
    rig_settle(&rig);
    rig_view(&rig, 2, &view);
    assert_int_equal(view.counts.offered, counts[1][2]);
    rig_done(&rig);
}

static void come_once(struct rig *rig, const struct rig_device *device)
{
    struct rig_exchange exchange;
    struct wire_offers offers;
    int status = rig_checkin(rig, device, true, &exchange, &offers);
    assert_true(status == 200 || status == 204);
    rig_exchange_done(&exchange);
}

static void expect_eligible(struct rig *rig, uint64_t id, uint64_t eligible)
{
    struct gw_rollout_view view;
    rig_settle(rig);
    rig_settle(rig); // by the walk of the tick before
    rig_view(rig, id, &view);
    assert_int_equal(view.counts.eligible, eligible);
}

// Walks over the devices count for each rollout whom it targets: also devices whose attributes came
// between two walks, and those that have others since; rollouts beside it come and go.
static void test_walks_count_who_is_targeted(void **state)
{
    (void)state;
    static const struct rig_stage full = {"full", POL_STAGE_FULL, 10000, NULL, NULL, 1, 500000, 0};
    struct rig rig;
    struct rig_device devices[9];
    struct gw_rollout_view view;
    struct base_error error = {0};
    rig_init(&rig);
    rig_start(&rig);
    for (uint32_t i = 0; i < 3; i++) {
        struct wire_sha256 manifest;
        rig_version(&rig, os_names[i], "1.0.0", &manifest);
        assert_int_equal(rig_rollout(&rig, i + 1, os_names[i], &manifest, "os", os_names[i], &full,
                                     1, &view, &error),
                         BASE_OK);
        rig_command(&rig, i + 1, POL_COMMAND_START, NULL);
    }
    for (uint32_t i = 0; i < 9; i++) { // 4 of android, 3 of ios, 2 of linux
        rig_device_init(&devices[i], i + 1);
        rig_device_attr(&devices[i], "os", os_names[i < 4 ? 0 : i < 7 ? 1 : 2]);
        rig_device_attr(&devices[i], "region", regions[i % 4]);
    }
    for (uint32_t i = 0; i < 8; i++) {
        come_once(&rig, &devices[i]);
    }
    expect_eligible(&rig, 1, 4);
    expect_eligible(&rig, 2, 3);
    expect_eligible(&rig, 3, 1);
    rig_command(&rig, 1, POL_COMMAND_ABORT, NULL);
    come_once(&rig, &devices[8]);
    devices[4].attrs.items[0].text = BASE_STR("linux");
    come_once(&rig, &devices[4]);
    expect_eligible(&rig, 2, 2);
    expect_eligible(&rig, 3, 3);
    rig_done(&rig);
}

// Short ticks do not make the walk dearer: so much in a second, and never nothing.
static void test_short_ticks_look_at_less(void **state)
{
    (void)state;
    static const struct {
        uint64_t elapsed_us;
        uint64_t work;
    } cases[] = {{0, 65536},       {32768, 65536},    {32769, 65538},      {200000, 400000},
                 {499999, 999998}, {500000, 1000000}, {60000000, 1000000}, {UINT64_MAX, 1000000}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(gw_watch_work(cases[i].elapsed_us), cases[i].work);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_expressions_choose_devices),
        cmocka_unit_test(test_the_highest_priority_is_followed),
        cmocka_unit_test(test_arms_split_devices),
        cmocka_unit_test(test_walks_count_who_is_targeted),
        cmocka_unit_test(test_short_ticks_look_at_less),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
