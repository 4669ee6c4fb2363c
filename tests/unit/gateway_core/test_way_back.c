// Whom a rollout that goes back does not wait for, one reason at a time, and in which steps it is
// found out: silence to the second, revoked devices, whose word counts, several rollouts at once, a
// bounded number of devices a tick, and what makes a finding worth nothing.
#include "conduct_kit.h"

#include "svc/access/credentials.h"
#include "svc/rollout/way_back.h"

#define FEW     4u
#define TASK    "shop/score"
#define SAID_S  300u // check-ins, as the gateway says
#define ID      0x91
#define MANY    9000u
#define MANY_ID UINT64_C(0x7000000000000000)

static const struct rig_stage full_only[] = {
    {"full", POL_STAGE_FULL, 10000, NULL, NULL, 1, 200000, 0},
};
static uint32_t silence_s; // of the stage

static void unguarded(struct pol_stage *stage, uint32_t index)
{
    (void)index;
    stage->guard_s = 0;
    stage->silence_s = silence_s;
    stage->gate.min_sample = 1000;
}

static void open_known(struct rig *rig, uint32_t stage_silence_s)
{
    silence_s = stage_silence_s;
    open_rig(rig, unguarded);
    rig->certified = true;
}

static void release(struct rig *rig, uint64_t id, const char *task)
{
    struct wire_sha256 manifest;
    struct gw_rollout_view view;
    struct base_error error = {0};
    rig_version(rig, task, "2.0.1", &manifest);
    if (rig_rollout(rig, id, task, &manifest, NULL, NULL, full_only, 1, &view, &error) != BASE_OK) {
        fail_msg("rollout: %s", error.text);
    }
    rig_command(rig, id, POL_COMMAND_START, NULL);
}

static void some_come(struct rig *rig, uint64_t id, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(come(rig, &devices[i], id, good, 3, NULL), 1);
    }
}

static uint64_t spared(struct rig *rig, uint64_t id, uint64_t on_version)
{
    return gw_way_back_spared(rig->core, gw_catalog_find_rollout(rig->core, id), on_version);
}

// It goes back, and a pass is made: begun when nobody came back between two looks.
static void abort_it(struct rig *rig, uint64_t id)
{
    rig_command(rig, id, POL_COMMAND_ABORT, NULL);
    rig_settle(rig);
    rig_settle(rig);
}

// Devices that came, and were not heard of for so long, of which the last one says `interval_s`.
// How many of them are not waited for.
static uint64_t silent_of(uint32_t stage_silence_s, uint32_t interval_s, uint64_t quiet_s)
{
    struct rig rig;
    open_known(&rig, stage_silence_s);
    release(&rig, ID, TASK);
    devices[FEW - 1].interval_s = interval_s;
    devices[FEW - 1].tasks_max = interval_s > 0 ? 8 : 0;
    some_come(&rig, ID, FEW);
    rig_advance_s(&rig, quiet_s);
    abort_it(&rig, ID);
    uint64_t count = spared(&rig, ID, FEW);
    rig_done(&rig);
    return count;
}

// Twelve check-ins long, by its own interval where that is longer than what the gateway says.
static void who_is_silent_is_not_waited_for(void **state)
{
    (void)state;
    const uint64_t times = GW_STAGE_SILENCE_TIMES;
    assert_int_equal(silent_of(0, 0, times * SAID_S - 1), 0);
    assert_int_equal(silent_of(0, 0, times * SAID_S), FEW);
    assert_int_equal(silent_of(0, SAID_S / 2, times * SAID_S - 1), 0);
    assert_int_equal(silent_of(0, SAID_S / 2, times * SAID_S), FEW);
    assert_int_equal(silent_of(0, 2 * SAID_S, 2 * times * SAID_S - 1), FEW - 1);
    assert_int_equal(silent_of(0, 2 * SAID_S, 2 * times * SAID_S), FEW);
}

// ... as long as the stage says, in as many of its own intervals.
static void silence_is_the_stages(void **state)
{
    (void)state;
    assert_int_equal(silent_of(1000, 0, 999), 0);
    assert_int_equal(silent_of(1000, 0, 1000), FEW);
    assert_int_equal(silent_of(1000, 2 * SAID_S, 1999), FEW - 1);
    assert_int_equal(silent_of(1000, 2 * SAID_S, 2000), FEW);
}

static void who_is_revoked_is_not_waited_for(void **state)
{
    (void)state;
    struct rig rig;
    struct gw_credential credential;
    open_known(&rig, 0);
    release(&rig, ID, TASK);
    some_come(&rig, ID, FEW);
    assert_int_equal(gw_device_revoke(rig.core, devices[1].id, &credential), BASE_OK);
    abort_it(&rig, ID);
    assert_int_equal(spared(&rig, ID, FEW), 1);
    rig_done(&rig);
}

// Whose word does not count is not among those that are counted, so it takes nobody's place.
static void who_does_not_count_is_nobody(void **state)
{
    (void)state;
    struct rig rig;
    open_known(&rig, 0);
    rig.only_proven = true;
    release(&rig, ID, TASK);
    some_come(&rig, ID, 2);
    rig.certified = false;
    assert_int_equal(come(&rig, &devices[2], ID, good, 3, NULL), 1);
    rig.certified = true;
    rig_advance_s(&rig, (uint64_t)GW_STAGE_SILENCE_TIMES * SAID_S);
    for (uint32_t i = 0; i < 2; i++) { // who has shown who it is, is there
        assert_int_equal(come(&rig, &devices[i], ID, NULL, 0, NULL), 0);
    }
    abort_it(&rig, ID);
    assert_int_equal(spared(&rig, ID, 2), 0);
    rig_done(&rig);
}

// One after the other in a tick, each has its pass; and again in the next one.
static void several_go_back_at_once(void **state)
{
    (void)state;
    static const char *const tasks[] = {"shop/one", "shop/two", "shop/three"};
    struct rig rig;
    open_known(&rig, 0);
    for (uint32_t i = 0; i < 3; i++) {
        release(&rig, ID + i, tasks[i]);
    }
    struct rig_exchange exchange;
    struct wire_offers offers;
    assert_int_equal(rig_checkin(&rig, &devices[0], true, &exchange, &offers), 200);
    assert_int_equal(rig_device_take(&devices[0], &offers), 3);
    rig_exchange_done(&exchange);
    for (uint32_t i = 0; i < 3; i++) {
        struct gw_rollout_view view;
        rig_view(&rig, ID + i, &view);
        assert_int_equal(rig_report(&rig, &devices[0], &view, good, 3), 204);
    }
    for (uint32_t i = 0; i < 3; i++) {
        rig_command(&rig, ID + i, POL_COMMAND_ABORT, NULL);
    }
    rig_settle(&rig);
    rig_settle(&rig);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(spared(&rig, ID + i, 1), 0);
    }
    rig_advance_s(&rig, (uint64_t)GW_STAGE_SILENCE_TIMES * SAID_S);
    gw_way_back_step(rig.core->way_back); // knows no new time yet: the walk tells it
    rig_settle(&rig);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(spared(&rig, ID + i, 1), 1);
    }
    rig_done(&rig);
}

// A pass begins when somebody is on it, and nobody came back since the last look.
static void a_pass_waits_for_who_comes_back(void **state)
{
    (void)state;
    struct rig rig;
    open_known(&rig, 0);
    release(&rig, ID, TASK);
    some_come(&rig, ID, FEW);
    rig_advance_s(&rig, (uint64_t)GW_STAGE_SILENCE_TIMES * SAID_S);
    assert_int_equal(come(&rig, &devices[0], ID, NULL, 0, NULL), 0); // this one is there
    rig_settle(&rig);
    struct gw_rollout *rollout = gw_catalog_find_rollout(rig.core, ID);
    gw_way_back_step(rig.core->way_back);
    assert_int_equal(rollout->spared_on_version, 0); // it does not go back
    rig_command(&rig, ID, POL_COMMAND_ABORT, NULL);
    rollout->spared = (struct gw_spared){0};
    rollout->spared_on_version = FEW + 1; // one more was on it
    gw_way_back_step(rig.core->way_back);
    assert_int_equal(rollout->spared_on_version, FEW);
    assert_int_equal(spared(&rig, ID, FEW), 0);
    gw_way_back_step(rig.core->way_back);
    assert_int_equal(spared(&rig, ID, FEW), FEW - 1);
    rollout->spared = (struct gw_spared){0};
    rollout->spared_on_version = 0; // the first look
    gw_way_back_step(rig.core->way_back);
    assert_int_equal(spared(&rig, ID, FEW), 0);
    rig_done(&rig);
}

static void many_are_there(struct rig *rig)
{
    struct gw_device_touch touch = {.proven = true, .now_s = gw_core_now_s(rig->core)};
    for (uint32_t i = 0; i < MANY; i++) {
        touch.device_id = MANY_ID + i;
        gw_device_table_touch(rig->core->table, &touch, 1);
    }
}

// Who has nothing to do with the rollout costs a look: of many a tick asks those few that have.
static void who_has_no_mark_is_not_asked(void **state)
{
    (void)state;
    struct rig rig;
    open_known(&rig, 0);
    release(&rig, ID, TASK);
    some_come(&rig, ID, FEW);
    rig_advance_s(&rig, (uint64_t)GW_STAGE_SILENCE_TIMES * SAID_S);
    rig_settle(&rig);
    rig_command(&rig, ID, POL_COMMAND_ABORT, NULL);
    many_are_there(&rig);
    struct gw_rollout *rollout = gw_catalog_find_rollout(rig.core, ID);
    rollout->spared = (struct gw_spared){0};
    rollout->spared_on_version = FEW;
    gw_way_back_step(rig.core->way_back);
    assert_int_equal(spared(&rig, ID, FEW), FEW);
    rig_done(&rig);
}

// Of many devices some are asked about at each tick, each of them once.
static void a_tick_asks_a_bounded_number(void **state)
{
    (void)state;
    struct rig rig;
    open_known(&rig, 0);
    release(&rig, ID, TASK);
    some_come(&rig, ID, FEW);
    rig_command(&rig, ID, POL_COMMAND_PROMOTE, NULL);
    rig_settle(&rig);
    rig_advance_s(&rig, (uint64_t)GW_STAGE_SILENCE_TIMES * SAID_S);
    assert_int_equal(come(&rig, &devices[0], ID, NULL, 0, NULL), 0);
    rig_settle(&rig);
    rig_command(&rig, ID, POL_COMMAND_UNDO, NULL); // of a baseline everybody is asked
    many_are_there(&rig);
    struct gw_rollout *rollout = gw_catalog_find_rollout(rig.core, ID);
    for (uint32_t moved = 0; moved < 2; moved++) {
        rollout->spared = (struct gw_spared){0};
        rollout->spared_on_version = FEW;
        gw_way_back_step(rig.core->way_back);
        assert_int_equal(spared(&rig, ID, FEW), 0); // more than a tick's are there
        if (moved != 0) {                           // what was begun by another time is nothing
            gw_way_back_time_moved(rig.core->way_back);
            gw_way_back_step(rig.core->way_back);
            assert_int_equal(spared(&rig, ID, FEW), 0);
            gw_way_back_step(rig.core->way_back);
            assert_int_equal(spared(&rig, ID, FEW), 0);
        }
        gw_way_back_step(rig.core->way_back);
        assert_int_equal(spared(&rig, ID, FEW), FEW - 1);
    }
    gw_way_back_time_moved(rig.core->way_back);
    assert_int_equal(spared(&rig, ID, FEW), 0);
    rig_done(&rig);
}

// What was found is of this way back, of what the task's devices should run then, and of those that
// are still on the version.
static void a_finding_is_of_its_time(void **state)
{
    (void)state;
    struct rig rig;
    open_known(&rig, 0);
    release(&rig, ID, TASK);
    some_come(&rig, ID, FEW);
    rig_advance_s(&rig, (uint64_t)GW_STAGE_SILENCE_TIMES * SAID_S);
    assert_int_equal(come(&rig, &devices[0], ID, NULL, 0, NULL), 0);
    abort_it(&rig, ID);
    struct gw_spared *found = &gw_catalog_find_rollout(rig.core, ID)->spared;
    assert_int_equal(spared(&rig, ID, FEW), FEW - 1);
    assert_int_equal(spared(&rig, ID, FEW + 1), FEW - 1);
    assert_int_equal(spared(&rig, ID, FEW - 1), FEW - 2); // who came off it may be one of them
    assert_int_equal(spared(&rig, ID, 1), 0);
    assert_int_equal(spared(&rig, ID, 0), 0);
    found->signature ^= 1;
    assert_int_equal(spared(&rig, ID, FEW), 0);
    found->signature ^= 1;
    found->since_us ^= 1;
    assert_int_equal(spared(&rig, ID, FEW), 0);
    rig_done(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_is_silent_is_not_waited_for),
        cmocka_unit_test(silence_is_the_stages),
        cmocka_unit_test(who_is_revoked_is_not_waited_for),
        cmocka_unit_test(who_does_not_count_is_nobody),
        cmocka_unit_test(several_go_back_at_once),
        cmocka_unit_test(a_pass_waits_for_who_comes_back),
        cmocka_unit_test(who_has_no_mark_is_not_asked),
        cmocka_unit_test(a_tick_asks_a_bounded_number),
        cmocka_unit_test(a_finding_is_of_its_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
