// What a check-in is answered with while the first choice is held back or ran out: what is meant
// for the device otherwise, when to come again, and nothing that would be settled.
#include "test_kit.h"

#include "core_rig.h"

#include "policy/bucket.h"
#include "svc/plan/want.h"
#include "svc/access/operators.h"
#include "svc/core_worker.h"

#define TASK     "shop/score"
#define NIGHT_S  7200u // after midnight UTC
#define BEFORE_S 100u  // a world begins so long before the window opens

static struct rig rig;
static struct rig_device device;

static const struct rig_stage full = {"full", POL_STAGE_FULL, 10000, NULL, NULL, 1, 1000000, 0};

static int setup(void **state)
{
    (void)state;
    rig_init(&rig);
    rig.wall_us = (UINT64_C(1790000000) / 86400 * 86400 + NIGHT_S - BEFORE_S) * UINT64_C(1000000);
    rig_start(&rig);
    rig.certified = true; // of strangers nothing is remembered
    rig_device_init(&device, 77);
    rig_device_attr(&device, "os", "a");
    device.tasks_max = 8;
    device.interval_s = 300;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    rig_done(&rig);
    return 0;
}

static void at_night(struct pol_stage *stage, uint32_t index)
{
    (void)index;
    stage->window_count = 1;
    stage->windows[0] =
        (struct pol_window){.weekdays = 127, .start_min = NIGHT_S / 60, .minutes = 60};
}

static uint64_t start(uint64_t id, const char *version)
{
    struct wire_sha256 manifest;
    struct gw_rollout_view view;
    struct base_error error = {0};
    rig_version(&rig, TASK, version, &manifest);
    enum base_status status =
        rig_rollout(&rig, id, TASK, &manifest, NULL, NULL, &full, 1, &view, &error);
    if (status != BASE_OK) {
        fail_msg("%s: %s", version, error.text);
    }
    rig_command(&rig, id, POL_COMMAND_START, NULL);
    return wire_version_id(&manifest);
}

static uint64_t complete(uint64_t id, const char *version)
{
    uint64_t version_id = start(id, version);
    rig_command(&rig, id, POL_COMMAND_PROMOTE, NULL);
    return version_id;
}

static uint64_t now_s(void)
{
    return rig.wall_us / 1000000;
}

static struct wire_profile_pair *pair(void)
{
    return rig_device_task(&device, TASK);
}

// One check-in; what it orders is taken. How many orders.
static uint32_t come(struct wire_offers *out)
{
    struct rig_exchange exchange;
    struct wire_offers offers;
    (void)rig_checkin(&rig, &device, true, &exchange, &offers);
    uint32_t count = offers.count > 0 ? rig_device_take(&device, &offers) : 0;
    if (out != NULL) {
        *out = offers;
    }
    rig_exchange_done(&exchange);
    return count;
}

// ---- Held back

// A device that has nothing of the task, and one that has what was taken back, go to the baseline
// while the window is closed, at once, and on when it opens.
static void what_is_held_back_gives_way_to_the_baseline(void **state)
{
    (void)state;
    uint64_t first = complete(1, "1.0.0");
    uint64_t aborted = start(2, "2.0.0");
    rig_command(&rig, 2, POL_COMMAND_ABORT, NULL);
    rig_settle(&rig);
    rig.conduct = at_night;
    uint64_t third = start(3, "3.0.0");
    assert_int_equal(come(NULL), 1); // it is new to the task
    assert_true(pair()->version_id == first);
    pair()->version_id = aborted;
    assert_int_equal(come(NULL), 1);
    assert_true(pair()->version_id == first);
    rig_advance_s(&rig, BEFORE_S);
    assert_int_equal(come(NULL), 1);
    assert_true(pair()->version_id == third);
}

static void guarded_at_night(struct pol_stage *stage, uint32_t index)
{
    at_night(stage, index);
    stage->guard_s = 24 * 3600;
}

// Likewise of a rollout that is guarded: it is a baseline, before which another one lies that
// everybody should have until its window opens.
static void what_is_guarded_gives_way_to_the_baseline_before(void **state)
{
    (void)state;
    struct gw_rollout_view view;
    uint64_t first = complete(1, "1.0.0");
    rig_settle(&rig);
    assert_int_equal(come(NULL), 1); // it is known, and outstanding from now on
    rig.conduct = guarded_at_night;
    uint64_t second = complete(2, "2.0.0");
    rig_settle(&rig);
    rig_view(&rig, 2, &view);
    assert_int_equal(view.state, POL_ROLLOUT_GUARDING);
    for (uint32_t i = 0; i < 2; i++) {
        device.pair_count = 0;
        if (i == 1) {
            pair()->version_id = first + 1; // from elsewhere
        }                                   // else new to the task
        assert_int_equal(come(NULL), 1);
        assert_true(pair()->version_id == first);
        assert_int_equal(come(NULL), 0);
    }
    rig_advance_s(&rig, BEFORE_S);
    assert_int_equal(come(NULL), 1);
    assert_true(pair()->version_id == second);
}

// A version that failed before the one that failed last is refused, until it may be tried again.
static void what_may_be_tried_again_is_wanted(void **state)
{
    (void)state;
    const struct pol_attrs attrs = {NULL, 0};
    uint8_t mark[sizeof(uint64_t)];
    struct base_writer writer;
    const struct wire_profile told = {.refused = mark, .refused_count = 1};
    uint64_t first = complete(1, "1.0.0");
    uint64_t second = start(2, "2.0.0");
    rig_settle(&rig);
    const struct gw_plan_task *task = gw_plan_find(rig.core->plan, wire_task_id(BASE_STR(TASK)));
    base_writer_init(&writer, mark, sizeof(mark));
    base_writer_u64(&writer, wire_profile_version_mark(task->task_id, second));
    struct gw_device_facts facts = {
        .device_id = &device.id, .have = first, .blocked = first + 1, .told = &told};
    assert_true(gw_want_of(task, &facts, &attrs).version_id == first);
    facts.retry = second;
    assert_true(gw_want_of(task, &facts, &attrs).version_id == second);
    facts.retry = first + 1; // another one
    assert_true(gw_want_of(task, &facts, &attrs).version_id == first);
}

// The interval is told beside it, never the wait as if it were the interval.
static void a_wait_is_no_interval(void **state)
{
    (void)state;
    struct wire_offers offers;
    gw_core_set_checkin_interval(rig.core, 400);
    rig.conduct = at_night;
    (void)start(1, "1.0.0");
    assert_int_equal(come(&offers), 0);
    assert_int_equal(offers.next_checkin_s, BEFORE_S);
    assert_int_equal(offers.flags & WIRE_OFFER_FLAG_INTERVAL, 0);
    gw_core_set_checkin_interval(rig.core, BEFORE_S / 2); // no shorter than that: this is it
    assert_int_equal(come(&offers), 0);
    assert_int_equal(offers.next_checkin_s, BEFORE_S / 2);
    assert_true((offers.flags & WIRE_OFFER_FLAG_INTERVAL) != 0);
}

// ---- Run out

static void what_ran_out_is_offered_to_nobody_and_settles_nobody(void **state)
{
    (void)state;
    const struct gw_worker_stats *stats = &rig.worker.worker->stats;
    rig.expires_s = now_s() + 50;
    uint64_t first = complete(1, "1.0.0");
    rig_advance_s(&rig, 60);
    for (uint64_t turn = 1; turn <= 3; turn++) {
        assert_int_equal(come(NULL), 0);
        assert_true(stats->offers_ran_out == turn); // asked anew each time
        assert_true(stats->checkins_settled == 0);
    }
    // One that has it goes nowhere forward either.
    pair()->version_id = first;
    rig.expires_s = now_s() + 50;
    uint64_t second = start(2, "2.0.0");
    rig_advance_s(&rig, 60);
    assert_int_equal(come(NULL), 0);
    assert_true(pair()->version_id == first);
    rig_command(&rig, 2, POL_COMMAND_ABORT, NULL);
    pair()->version_id = second;
    assert_int_equal(come(NULL), 1); // the way back does not run out
    assert_true(pair()->version_id == first);
}

// An open rollout's statement that ran out is as one that is held back: who has nothing, or what
// was taken back, goes to the baseline.
static void what_ran_out_gives_way_to_the_baseline(void **state)
{
    (void)state;
    uint64_t first = complete(1, "1.0.0");
    uint64_t aborted = start(2, "2.0.0");
    rig_command(&rig, 2, POL_COMMAND_ABORT, NULL);
    rig.expires_s = now_s() + 50;
    (void)start(3, "3.0.0");
    rig_advance_s(&rig, 60);
    assert_int_equal(come(NULL), 1);
    assert_true(pair()->version_id == first);
    pair()->version_id = aborted;
    assert_int_equal(come(NULL), 1);
    assert_true(pair()->version_id == first);
}

// ---- Another tenant's

// What a device says of a task of another tenant leads to no order, not even to stop.
static void another_tenants_task_is_not_ordered(void **state)
{
    (void)state;
    struct gw_tenant tenant;
    struct base_error error = {0};
    bool created = false;
    assert_int_equal(gw_tenant_create(rig.core, BASE_STR("other"), &tenant, &created, &error),
                     BASE_OK);
    rig.tenant = tenant.id;
    uint64_t first = complete(1, "1.0.0");
    pair()->version_id = first + 1;
    assert_int_equal(come(NULL), 0);
    rig_command(&rig, 1, POL_COMMAND_UNDO, NULL);
    assert_int_equal(come(NULL), 0);
    assert_true(pair()->version_id == first + 1);
}

// ---- Kept for its attributes

// Whose target shuts out what it has keeps that, if the rollout's arm has it: an arm is no
// attribute.
static void what_is_kept_is_of_its_arm(void **state)
{
    (void)state;
    struct wire_sha256 manifest;
    struct gw_rollout_view view;
    struct base_error error = {0};
    uint32_t kept = 0;
    rig.arm = (struct pol_arm){.salt = 7, .from = 0, .to = 5000};
    rig_version(&rig, TASK, "1.0.0", &manifest);
    assert_int_equal(rig_rollout(&rig, 1, TASK, &manifest, "os", "a", &full, 1, &view, &error),
                     BASE_OK);
    rig_command(&rig, 1, POL_COMMAND_START, NULL);
    for (uint64_t id = 1; id <= 40; id++) {
        bool inside = pol_arm_has(&rig.arm, id);
        rig_device_init(&device, id);
        rig_device_attr(&device, "os", "b");
        pair()->version_id = wire_version_id(&manifest);
        assert_int_equal(come(NULL), inside ? 0 : 1);
        assert_true(pair()->version_id == (inside ? wire_version_id(&manifest) : 0));
        kept += inside;
    }
    assert_in_range(kept, 1, 39);
}

// ---- Leases

static void held(struct pol_stage *stage, uint32_t index)
{
    (void)index;
    stage->on_fail = POL_ON_FAIL_HOLD;
}

// Of a stage that is held when it fails a person decides; and not by a statement that the device
// refuses.
static void a_stage_that_is_held_goes_on(void **state)
{
    (void)state;
    struct gw_plan_task task;
    const struct pol_attrs attrs = {NULL, 0};
    uint8_t mark[sizeof(uint64_t)];
    struct base_writer writer;
    const struct wire_profile told = {.refused = mark, .refused_count = 1};
    rig.conduct = held;
    struct gw_device_facts facts = {.device_id = &device.id, .have = start(1, "1.0.0")};
    rig_settle(&rig);
    memcpy(&task, gw_plan_find(rig.core->plan, wire_task_id(BASE_STR(TASK))), sizeof(task));
    task.open[0].state.stage_failed = true;
    struct gw_want want = gw_want_of(&task, &facts, &attrs);
    const struct gw_statement *statement = gw_want_held(&task, &want, &facts, &attrs);
    assert_non_null(statement);
    base_writer_init(&writer, mark, sizeof(mark));
    base_writer_u64(&writer, wire_profile_mark(statement->bytes, statement->size));
    facts.told = &told;
    assert_null(gw_want_held(&task, &want, &facts, &attrs));
}

// What a device goes on with on a lease: not with the version of a stage that failed.
static void a_failed_stage_holds_nobody(void **state)
{
    (void)state;
    struct gw_plan_task task;
    const struct pol_attrs attrs = {NULL, 0};
    struct gw_device_facts facts = {.device_id = &device.id, .have = start(1, "1.0.0")};
    rig_settle(&rig);
    memcpy(&task, gw_plan_find(rig.core->plan, wire_task_id(BASE_STR(TASK))), sizeof(task));
    struct gw_want want = gw_want_of(&task, &facts, &attrs);
    assert_true(want.version_id == facts.have && want.statement == NULL);
    assert_non_null(gw_want_held(&task, &want, &facts, &attrs));
    task.open[0].state.stage_failed = true;
    assert_null(gw_want_held(&task, &want, &facts, &attrs));
    task.open[0].state.stage_failed = false;
    facts.have = 1;
    want = gw_want_of(&task, &facts, &attrs);
    assert_null(gw_want_held(&task, &want, &facts, &attrs)); // it has something else
}

static const struct gw_statement *held_as(const char *os, uint64_t have,
                                          enum pol_desired_rule *out_rule)
{
    const struct pol_attr items[] = {
        {.name = {"os", 2},
         .value = {.type = POL_TYPE_STRING, .text = {os, (uint32_t)strlen(os)}}}};
    const struct pol_attrs attrs = {items, 1};
    const struct gw_plan_task *task = gw_plan_find(rig.core->plan, wire_task_id(BASE_STR(TASK)));
    const struct gw_device_facts facts = {.device_id = &device.id, .have = have};
    struct gw_want want = gw_want_of(task, &facts, &attrs);
    *out_rule = want.rule;
    return gw_want_held(task, &want, &facts, &attrs);
}

// Who keeps a version because its attributes alone changed goes on with it on a lease where a
// target shuts it out; where an audience does, the lease ends.
static void who_keeps_a_version_holds_it(void **state)
{
    (void)state;
    static const struct rig_stage some = {"some", POL_STAGE_FULL, 10000, "os", "a", 1, 1000000, 0};
    struct wire_sha256 manifests[2];
    struct gw_rollout_view view;
    struct base_error error = {0};
    enum pol_desired_rule rule;
    rig_version(&rig, TASK, "1.0.0", &manifests[0]);
    rig_version(&rig, TASK, "2.0.0", &manifests[1]);
    assert_int_equal(rig_rollout(&rig, 1, TASK, &manifests[0], "os", "a", &full, 1, &view, &error),
                     BASE_OK);
    assert_int_equal(rig_rollout(&rig, 2, TASK, &manifests[1], NULL, NULL, &some, 1, &view, &error),
                     BASE_OK);
    for (uint64_t id = 1; id <= 2; id++) {
        rig_command(&rig, id, POL_COMMAND_START, NULL);
        rig_settle(&rig);
        uint64_t version_id = wire_version_id(&manifests[id - 1]);
        assert_true((held_as("b", version_id, &rule) != NULL) == (id == 1));
        assert_int_equal(rule, POL_DESIRED_KEEPS);
        assert_null(held_as("b", version_id + 1, &rule)); // it has something else
    }
    assert_non_null(held_as("a", wire_version_id(&manifests[0]), &rule));
    assert_int_equal(rule, POL_DESIRED_FOLLOWED);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(what_is_held_back_gives_way_to_the_baseline),
        CASE(what_is_guarded_gives_way_to_the_baseline_before),
        CASE(what_may_be_tried_again_is_wanted),
        CASE(a_wait_is_no_interval),
        CASE(what_ran_out_is_offered_to_nobody_and_settles_nobody),
        CASE(what_ran_out_gives_way_to_the_baseline),
        CASE(another_tenants_task_is_not_ordered),
        CASE(what_is_kept_is_of_its_arm),
        CASE(a_failed_stage_holds_nobody),
        CASE(a_stage_that_is_held_goes_on),
        CASE(who_keeps_a_version_holds_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
