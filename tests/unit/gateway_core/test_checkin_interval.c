// The interval of check-ins: told when it is another than the device goes by, to nobody else, and
// silence in each device's own.
#include "conduct_kit.h"

#include "svc/core_worker.h"

#define INTERVAL_DEFAULT_S 300

static struct rig rig;
static struct rig_device device;

static int setup(void **state)
{
    (void)state;
    rig_init(&rig);
    rig_start(&rig);
    rig.certified = true;
    rig_device_init(&device, 77);
    device.tasks_max = 8;
    device.interval_s = INTERVAL_DEFAULT_S;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    rig_done(&rig);
    return 0;
}

// The interval that the device is told from now on; 0: none.
static uint32_t told(int status)
{
    struct rig_exchange exchange;
    struct wire_offers offers;
    assert_int_equal(rig_checkin(&rig, &device, true, &exchange, &offers), status);
    if (status == 200) {
        assert_int_equal(offers.count, 0);
    }
    rig_exchange_done(&exchange);
    return (offers.flags & WIRE_OFFER_FLAG_INTERVAL) != 0 ? offers.next_checkin_s : 0;
}

static void test_told_when_it_changed(void **state)
{
    (void)state;
    assert_int_equal(told(204), 0);
    gw_core_set_checkin_interval(rig.core, 40);
    assert_int_equal(told(200), 40);
    assert_int_equal(told(200), 40); // the answer was lost
    device.interval_s = 40;
    assert_int_equal(told(204), 0);
    gw_core_set_checkin_interval(rig.core, 0); // the default again
    assert_int_equal(told(200), INTERVAL_DEFAULT_S);
    assert_int_equal(rig.worker.worker->stats.checkins_paced, 3);
}

static void test_told_to_nobody_else(void **state)
{
    (void)state;
    gw_core_set_checkin_interval(rig.core, 40);
    device.own_pace = true;
    device.interval_s = 7;
    assert_int_equal(told(204), 0);
    rig_device_init(&device, 78); // it does not say
    assert_int_equal(told(204), 0);
}

// With offers it comes beside them, and one that is held back is said for once.
static void test_told_beside_offers(void **state)
{
    (void)state;
    struct rig_exchange exchange;
    struct wire_offers offers;
    struct wire_sha256 manifest;
    rig_baseline(&rig, "shop/score", 9, NULL, NULL, &manifest);
    gw_core_set_checkin_interval(rig.core, 40);
    assert_int_equal(rig_checkin(&rig, &device, true, &exchange, &offers), 200);
    assert_int_equal(offers.count, 1);
    assert_int_equal(offers.next_checkin_s, 40);
    assert_true((offers.flags & WIRE_OFFER_FLAG_INTERVAL) != 0);
    rig_exchange_done(&exchange);
    device.own_pace = true;
    device.interval_s = 7;
    assert_int_equal(rig_checkin(&rig, &device, true, &exchange, &offers), 200);
    assert_int_equal(offers.count, 1);
    assert_int_equal(offers.next_checkin_s, 0);
    assert_int_equal(offers.flags, 0);
    rig_exchange_done(&exchange);
}

// ---- Silence

static void watched(struct pol_stage *stage, uint32_t index)
{
    (void)index;
    stage->silence_s = GW_STAGE_DEFAULT_S; // twelve intervals of 300 s
    stage->execution_timeout_s = 7 * 86400;
}

static uint64_t silent(struct rig *one)
{
    struct gw_rollout_view view;
    rig_settle(one);
    rig_view(one, 0x21, &view);
    return view.counts.silent;
}

// A third goes by the gateway's interval, a third by 3,000 s of its own, a third does not say.
static void test_silence_is_in_the_devices_own_unit(void **state)
{
    (void)state;
    static const struct rig_stage all[] = {
        {"full", POL_STAGE_FULL, 10000, NULL, NULL, 100000, 200000, 0}};
    struct rig own;
    open_rig(&own, watched);
    own.certified = true;
    uint32_t slow = 0;
    for (uint32_t i = 0; i < DEVICES; i++) {
        devices[i].tasks_max = i % 3 == 2 ? 0 : 8;
        devices[i].interval_s = i % 3 == 0 ? 300 : i % 3 == 1 ? 3000 : 0;
        devices[i].own_pace = i % 3 == 1;
        slow += i % 3 == 1;
    }
    begin(&own, 0x21, all, 1);
    rig_command(&own, 0x21, POL_COMMAND_START, NULL);
    assert_int_equal(all_come(&own, 0x21, good, 3), DEVICES);
    assert_int_equal(silent(&own), 0);
    rig_advance_s(&own, 3590);
    assert_int_equal(silent(&own), 0);
    rig_advance_s(&own, 20);
    assert_int_equal(silent(&own), DEVICES - slow);
    rig_stop(&own); // intervals are in the records; silence begins anew
    rig_start(&own);
    rig_advance_s(&own, 3610);
    assert_int_equal(silent(&own), DEVICES - slow);
    rig_advance_s(&own, 36000 - 3610 - 10);
    assert_int_equal(silent(&own), DEVICES - slow);
    rig_advance_s(&own, 20);
    assert_int_equal(silent(&own), DEVICES);
    rig_done(&own);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_told_when_it_changed),
        CASE(test_told_to_nobody_else),
        CASE(test_told_beside_offers),
        cmocka_unit_test(test_silence_is_in_the_devices_own_unit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
