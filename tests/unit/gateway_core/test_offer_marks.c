// An offer is made where it will be counted: what a device is in has a place for each rollout, and
// who has its place already needs no other.
#include "placebo_kit.h"

#include "failing_heap.h"
#include "svc/device/device_shard.h"

#define OTHER_ID 0x100u

static const struct rig_stage all[] = {
    {"full", POL_STAGE_FULL, 10000, NULL, NULL, 1, 1000000, 0},
};

static void start_others(struct rig *rig, uint32_t from, uint32_t count)
{
    rig->conduct = NULL;
    for (uint32_t i = from; i < from + count; i++) {
        struct wire_sha256 manifest;
        struct gw_rollout_view view;
        struct base_error error = {0};
        char task[32];
        snprintf(task, sizeof(task), "shop/other-%u", i);
        rig_version(rig, task, "1.0.0", &manifest);
        if (rig_rollout(rig, OTHER_ID + i, task, &manifest, NULL, NULL, all, 1, &view, &error) !=
            BASE_OK) {
            fail_msg("rollout %u: %s", i, error.text);
        }
        rig_command(rig, OTHER_ID + i, POL_COMMAND_START, NULL);
    }
    rig_settle(rig);
}

// Takes all it is offered until there is no more; returns how much that was.
static uint32_t take_all(struct rig *rig, struct rig_device *device)
{
    uint32_t took = 0;
    for (uint32_t more = 1; more > 0; took += more) {
        struct rig_exchange exchange;
        struct wire_offers offers;
        (void)rig_checkin(rig, device, true, &exchange, &offers);
        more = offers.count;
        (void)rig_device_take(device, &offers);
        rig_exchange_done(&exchange);
    }
    return took;
}

static struct rig_device *a_control(void)
{
    uint32_t at = 0;
    while (place_of(&devices[at]) != CONTROL) {
        at++;
    }
    return &devices[at];
}

// A device that was control of a stage, and is in as many rollouts as it can be, is updated in a
// later one: it has its place.
static void who_is_full_keeps_its_place(void **state)
{
    (void)state;
    struct rig rig;
    struct gw_device_snapshot known;
    open_trial(&rig);
    struct rig_device *device = a_control();
    assert_int_equal(come(&rig, device), CONTROL);
    start_others(&rig, 0, GW_DEVICE_MARKS_MAX);
    (void)take_all(&rig, device);
    assert_true(gw_device_table_get(rig.core->table, device->id, &known));
    assert_int_equal(known.mark_count, GW_DEVICE_MARKS_MAX);
    rig_command(&rig, ID, POL_COMMAND_PROMOTE, NULL);
    rig_settle(&rig);
    assert_int_equal(take_all(&rig, device), 1);
    assert_true(rig_device_task(device, TASK)->version_id == wire_version_id(&new_version));
    rig_done(&rig);
}

// Whatever allocation fails: what is offered is counted, and what could not be noted is offered
// when there is memory again.
static void what_cannot_be_noted_is_not_offered(void **state)
{
    (void)state;
    struct rig rig;
    uint32_t withheld = 0;
    rig_init(&rig);
    rig_start(&rig);
    make_devices();
    start_others(&rig, 0, GW_SHARD_MARKS);
    for (uint32_t i = 0; i < DEVICES; i++) {
        assert_int_equal(take_all(&rig, &devices[i]), GW_SHARD_MARKS);
    }
    start_others(&rig, GW_SHARD_MARKS, 1);
    bool failed = true;
    for (uint32_t nth = 0; failed; nth++) {
        assert_true(nth < DEVICES);
        struct rig_device *device = &devices[nth];
        struct rig_exchange exchange;
        struct wire_offers offers;
        struct gw_device_snapshot known;
        failing_heap_arm(nth, true);
        (void)rig_checkin(&rig, device, true, &exchange, &offers);
        failed = failing_heap_has_failed();
        (void)failing_heap_disarm();
        bool offered = offers.count > 0;
        (void)rig_device_take(device, &offers);
        assert_true(gw_device_table_get(rig.core->table, device->id, &known));
        bool noted = known.mark_count == GW_SHARD_MARKS + 1; // an answer may get lost behind that
        assert_true(noted || !offered);
        withheld += !noted;
        rig_exchange_done(&exchange);
        assert_int_equal(take_all(&rig, device), offered ? 0 : 1);
    }
    assert_true(withheld > 0);
    rig_done(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_is_full_keeps_its_place),
        cmocka_unit_test(what_cannot_be_noted_is_not_offered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
