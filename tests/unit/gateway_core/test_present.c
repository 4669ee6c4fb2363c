// Which rollouts count for who has a version already, one state at a time, and in which order they
// are listed.
#include "conduct_kit.h"

#include "svc/trust/director.h"
#include "svc/view/present.h"

#define FEW  4u
#define TASK "shop/score"

static const struct rig_stage full_only[] = {
    {"full", POL_STAGE_FULL, 10000, NULL, NULL, 1, 200000, 0},
};
static uint32_t guard_s; // of the stage

static void led_by_hand(struct pol_stage *stage, uint32_t index)
{
    (void)index;
    stage->guard_s = guard_s;
    stage->gate.min_sample = 1000;
}

static void open_known(struct rig *rig, uint32_t stage_guard_s)
{
    guard_s = stage_guard_s;
    open_rig(rig, led_by_hand);
    rig->certified = true;
}

// A draft of the version `number`, whose content it returns.
static struct wire_sha256 draft(struct rig *rig, uint64_t id, uint32_t number)
{
    struct wire_sha256 manifest;
    struct gw_rollout_view view;
    struct base_error error = {0};
    char version[16];
    snprintf(version, sizeof(version), "2.0.%u", (unsigned)number);
    rig_version(rig, TASK, version, &manifest);
    if (rig_rollout(rig, id, TASK, &manifest, NULL, NULL, full_only, 1, &view, &error) != BASE_OK) {
        fail_msg("rollout: %s", error.text);
    }
    return manifest;
}

static struct wire_sha256 release(struct rig *rig, uint64_t id, uint32_t number)
{
    struct wire_sha256 manifest = draft(rig, id, number);
    rig_command(rig, id, POL_COMMAND_START, NULL);
    return manifest;
}

static void some_come(struct rig *rig, uint64_t id)
{
    for (uint32_t i = 0; i < FEW; i++) {
        assert_int_equal(come(rig, &devices[i], id, good, 3, NULL), 1);
    }
    rig_settle(rig);
}

static struct gw_present present(struct rig *rig, const struct wire_sha256 *manifest)
{
    struct gw_present out;
    memset(&out, 0x5a, sizeof(out));
    gw_present_of(rig->core, wire_task_id(BASE_STR(TASK)), manifest, &out);
    return out;
}

static void listed_alone(const struct gw_present *found, uint64_t id, enum pol_rollout_state state,
                         uint64_t count)
{
    assert_int_equal(found->rollout_count, 1);
    assert_int_equal(found->devices, count);
    assert_int_equal(found->rollouts[0].id, id);
    assert_int_equal(found->rollouts[0].state, state);
    assert_int_equal(found->rollouts[0].devices, count);
}

static void a_rollout_that_is_open(void **state)
{
    (void)state;
    struct rig rig;
    open_known(&rig, 0);
    struct wire_sha256 first = draft(&rig, 0xa1, 1);
    struct gw_present found = present(&rig, &first);
    assert_int_equal(found.rollout_count, 0); // nobody approved it yet
    rig_command(&rig, 0xa1, POL_COMMAND_START, NULL);
    found = present(&rig, &first);
    listed_alone(&found, 0xa1, POL_ROLLOUT_RUNNING, 0);
    some_come(&rig, 0xa1);
    rig_command(&rig, 0xa1, POL_COMMAND_PAUSE, NULL);
    found = present(&rig, &first);
    listed_alone(&found, 0xa1, POL_ROLLOUT_PAUSED, FEW);
    struct wire_sha256 second = release(&rig, 0xa2, 2); // another version has its own
    found = present(&rig, &first);
    listed_alone(&found, 0xa1, POL_ROLLOUT_PAUSED, FEW);
    found = present(&rig, &second);
    listed_alone(&found, 0xa2, POL_ROLLOUT_RUNNING, 0);
    gw_present_of(rig.core, wire_task_id(BASE_STR("shop/other")), &first, &found);
    assert_int_equal(found.rollout_count, 0);
    rig_done(&rig);
}

// While devices are on it; a version that is killed is nobody's.
static void a_rollout_that_goes_back(void **state)
{
    (void)state;
    for (uint32_t killed = 0; killed < 2; killed++) {
        struct rig rig;
        open_known(&rig, 0);
        struct wire_sha256 manifest = release(&rig, 0xa1, 1);
        some_come(&rig, 0xa1);
        rig_command(&rig, 0xa1, killed != 0 ? POL_COMMAND_KILL : POL_COMMAND_ABORT, NULL);
        struct gw_present found = present(&rig, &manifest);
        assert_int_equal(gw_catalog_find_rollout(rig.core, 0xa1)->state.state,
                         POL_ROLLOUT_ROLLING_BACK);
        if (killed != 0) {
            assert_int_equal(found.rollout_count, 0);
        } else {
            listed_alone(&found, 0xa1, POL_ROLLOUT_ROLLING_BACK, FEW);
            some_come(&rig, 0xa1); // they go back
            found = present(&rig, &manifest);
            assert_int_equal(found.rollout_count, 0);
        }
        rig_done(&rig);
    }
}

// Going back with nobody on it: there is nothing to keep.
static void a_way_back_of_nobody(void **state)
{
    (void)state;
    struct rig rig;
    open_known(&rig, 0);
    struct wire_sha256 manifest = release(&rig, 0xa1, 1);
    gw_catalog_find_rollout(rig.core, 0xa1)->state.state = POL_ROLLOUT_ROLLING_BACK;
    struct gw_present found = present(&rig, &manifest);
    assert_int_equal(found.rollout_count, 0);
    gw_catalog_find_rollout(rig.core, 0xa1)->state.state = POL_ROLLOUT_RUNNING;
    rig_done(&rig);
}

// A baseline counts, also one that is held, until a later one is for everybody.
static void a_baseline(void **state)
{
    (void)state;
    for (uint32_t held = 0; held < 2; held++) {
        struct rig rig;
        open_known(&rig, held != 0 ? 3600 : 0);
        struct wire_sha256 manifest = release(&rig, 0xa1, 1);
        some_come(&rig, 0xa1);
        rig_command(&rig, 0xa1, POL_COMMAND_PROMOTE, NULL);
        if (held != 0) {
            rig_command(&rig, 0xa1, POL_COMMAND_PAUSE, NULL);
        }
        struct gw_present found = present(&rig, &manifest);
        listed_alone(&found, 0xa1, held != 0 ? POL_ROLLOUT_PAUSED : POL_ROLLOUT_COMPLETED, FEW);
        (void)release(&rig, 0xa2, 2);
        found = present(&rig, &manifest);
        assert_int_equal(found.rollout_count, 1);
        rig_command(&rig, 0xa2, POL_COMMAND_PROMOTE, NULL);
        found = present(&rig, &manifest);
        assert_int_equal(found.rollout_count, 0);
        rig_done(&rig);
    }
}

// Open ones in their order, before the one that is over; of more than are listed all are counted.
static void the_order_of_many(void **state)
{
    (void)state;
    static const uint64_t over[] = {0xa1, 0xf1}; // before the others in the catalog, and behind
    for (uint32_t k = 0; k < 2; k++) {
        struct rig rig;
        open_known(&rig, 0);
        struct wire_sha256 manifest = release(&rig, over[k], 1);
        some_come(&rig, over[k]);
        rig_command(&rig, over[k], POL_COMMAND_PROMOTE, NULL);
        for (uint32_t open = 0; open <= GW_PRESENT_ROLLOUTS_MAX; open++) {
            if (open > 0) {
                (void)release(&rig, 0xb0 + open, 1);
            }
            struct gw_present found = present(&rig, &manifest);
            assert_int_equal(found.rollout_count, 1 + open);
            assert_int_equal(found.devices, FEW);
            for (uint32_t i = 0; i < 1 + open && i < GW_PRESENT_ROLLOUTS_MAX; i++) {
                assert_int_equal(found.rollouts[i].id, i < open ? 0xb1 + i : over[k]);
            }
        }
        rig_done(&rig);
    }
}

// One that goes back is no open one.
static void a_way_back_is_listed_last(void **state)
{
    (void)state;
    struct rig rig;
    open_known(&rig, 0);
    struct wire_sha256 manifest = release(&rig, 0xa1, 1);
    some_come(&rig, 0xa1);
    rig_command(&rig, 0xa1, POL_COMMAND_ABORT, NULL);
    (void)release(&rig, 0xa2, 1);
    struct gw_present found = present(&rig, &manifest);
    assert_int_equal(found.rollout_count, 2);
    assert_int_equal(found.rollouts[0].id, 0xa2);
    assert_int_equal(found.rollouts[1].id, 0xa1);
    assert_int_equal(found.rollouts[1].state, POL_ROLLOUT_ROLLING_BACK);
    rig_command(&rig, 0xa2, POL_COMMAND_PROMOTE, NULL); // neither is any more: in their order
    found = present(&rig, &manifest);
    assert_int_equal(found.rollout_count, 2);
    assert_int_equal(found.rollouts[0].id, 0xa1);
    assert_int_equal(found.rollouts[1].id, 0xa2);
    rig_done(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rollout_that_is_open), cmocka_unit_test(a_rollout_that_goes_back),
        cmocka_unit_test(a_way_back_of_nobody),   cmocka_unit_test(a_baseline),
        cmocka_unit_test(the_order_of_many),      cmocka_unit_test(a_way_back_is_listed_last),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
