// What devices run after rollouts of one task overlapped, completed in another order than they were
// approved, or ended below full: always what policy/desired.h says of the record.
#include "test_kit.h"

#include "core_rig.h"
#include "policy/bucket.h"
#include "svc/view/why.h"
#include "svc/trust/director.h"
#include "svc/core_worker.h"
#include "svc/device/touches.h"
#include "svc/plan/plan.h"
#include "svc/rollout/kill_commands.h"

#define TASK    "shop/score"
#define DEVICES 40u

static struct rig rig;
static struct rig_device devices[DEVICES];

static const struct rig_stage full = {"full", POL_STAGE_FULL, 10000, NULL, NULL, 1, 1000000, 0};
static const struct rig_stage half = {"half", POL_STAGE_GRAY, 5000, NULL, NULL, 1, 1000000, 0};

static void open_all(void)
{
    rig_init(&rig);
    rig_start(&rig);
    for (uint32_t i = 0; i < DEVICES; i++) {
        rig_device_init(&devices[i], 0x1000 + i);
        rig_device_attr(&devices[i], "os", i % 2 == 0 ? "a" : "b");
    }
}

// A started rollout of a version of its own; the version's id.
static uint64_t start(uint64_t id, const char *version, const char *os,
                      const struct rig_stage *stage)
{
    struct wire_sha256 manifest;
    struct gw_rollout_view view;
    struct base_error error = {0};
    rig_version(&rig, TASK, version, &manifest);
    enum base_status status = rig_rollout(&rig, id, TASK, &manifest, os != NULL ? "os" : NULL, os,
                                          stage, 1, &view, &error);
    if (status != BASE_OK) {
        fail_msg("%s: %s", version, error.text);
    }
    rig_command(&rig, id, POL_COMMAND_START, NULL);
    return wire_version_id(&manifest);
}

// Everybody checks in until nothing is offered any more.
static void settle(void)
{
    for (uint32_t i = 0; i < DEVICES; i++) {
        for (uint32_t round = 0;; round++) {
            struct rig_exchange exchange;
            struct wire_offers offers;
            int status = rig_checkin(&rig, &devices[i], true, &exchange, &offers);
            uint32_t taken = status == 200 ? rig_device_take(&devices[i], &offers) : 0;
            rig_exchange_done(&exchange);
            assert_true(round < 8);
            if (taken == 0) {
                break;
            }
        }
    }
}

static uint64_t runs(uint32_t i)
{
    return rig_device_task(&devices[i], TASK)->version_id;
}

static void expect_all(uint64_t version)
{
    settle();
    for (uint32_t i = 0; i < DEVICES; i++) {
        if (runs(i) != version) {
            fail_msg("device %u runs %llx, not %llx", i, (unsigned long long)runs(i),
                     (unsigned long long)version);
        }
    }
}

static void approved_last_is_the_baseline(void **state)
{
    (void)state;
    open_all();
    (void)start(1, "1.0.0", NULL, &full);
    uint64_t younger = start(2, "2.0.0", NULL, &full);
    rig_command(&rig, 2, POL_COMMAND_PROMOTE, NULL);
    rig_command(&rig, 1, POL_COMMAND_PROMOTE, NULL); // completes after the one approved after it
    expect_all(younger);
    rig_stop(&rig);
    rig_start(&rig);
    expect_all(younger);
    rig_done(&rig);
}

static void below_full_is_for_its_share(void **state)
{
    (void)state;
    open_all();
    uint64_t old = start(1, "1.0.0", NULL, &full);
    rig_command(&rig, 1, POL_COMMAND_PROMOTE, NULL);
    expect_all(old);
    uint64_t new = start(2, "2.0.0", NULL, &half);
    rig_command(&rig, 2, POL_COMMAND_PROMOTE, NULL);
    settle();
    uint32_t on_new = 0;
    struct gw_rollout_view view;
    rig_view(&rig, 2, &view);
    for (uint32_t i = 0; i < DEVICES; i++) {
        bool inside = pol_bucket(devices[i].id, view.salt) < 5000;
        assert_true(runs(i) == (inside ? new : old));
        on_new += inside;
    }
    assert_true(on_new > 0 && on_new < DEVICES);
    rig_done(&rig);
}

static void a_target_has_its_own_baseline(void **state)
{
    (void)state;
    open_all();
    uint64_t all = start(1, "1.0.0", NULL, &full);
    rig_command(&rig, 1, POL_COMMAND_PROMOTE, NULL);
    uint64_t some = start(2, "2.0.0", "a", &full);
    rig_command(&rig, 2, POL_COMMAND_PROMOTE, NULL);
    settle();
    for (uint32_t i = 0; i < DEVICES; i++) {
        assert_true(runs(i) == (i % 2 == 0 ? some : all));
    }
    rig_done(&rig);
}

// One completed rollout of a version that need not be new.
static uint64_t complete(uint64_t id, const char *version, const char *os)
{
    uint64_t version_id = start(id, version, os, &full);
    rig_command(&rig, id, POL_COMMAND_PROMOTE, NULL);
    return version_id;
}

// What failed on a device may have been completed more than once; below it is another version.
static void refused_twice_completed(void **state)
{
    (void)state;
    open_all();
    uint64_t old = complete(1, "1.0.0", NULL);
    uint64_t new = complete(2, "2.0.0", NULL);
    assert_true(complete(3, "2.0.0", NULL) == new);
    expect_all(new);
    for (uint32_t i = 0; i < DEVICES; i++) {
        struct wire_profile_pair *pair = rig_device_task(&devices[i], TASK);
        pair->version_id = 0;
        pair->blocked_version_id = new;
    }
    expect_all(old);
    rig_done(&rig);
}

// Two versions failed there, one after the other: neither comes again, and one below them does.
static void two_refused_at_once(void **state)
{
    (void)state;
    open_all();
    uint64_t first = complete(1, "1.0.0", NULL);
    uint64_t second = complete(2, "2.0.0", NULL);
    uint64_t third = start(3, "3.0.0", NULL, &full);
    expect_all(third);
    uint64_t task_id = wire_task_id(BASE_STR(TASK));
    for (uint32_t i = 0; i < DEVICES; i++) {
        struct wire_profile_pair *pair = rig_device_task(&devices[i], TASK);
        pair->version_id = 0;
        pair->blocked_version_id = i % 2 == 0 ? third : second;
        devices[i].tasks_max = 8;
        devices[i].interval_s = 60;
        devices[i].refused_count = 1;
        devices[i].refused[0] = wire_profile_version_mark(task_id, i % 2 == 0 ? second : third);
    }
    expect_all(first);
    for (uint32_t i = 0; i < DEVICES; i++) {
        devices[i].refused[devices[i].refused_count++] = wire_profile_version_mark(task_id, first);
        rig_device_task(&devices[i], TASK)->version_id = 0;
    }
    expect_all(0);
    rig_done(&rig);
}

// A statement that a device refuses is passed over: what it has was taken back, so it goes on to
// the baseline.
static void a_refused_statement_is_passed_over(void **state)
{
    (void)state;
    struct rig_exchange exchange;
    struct wire_offers offers;
    open_all();
    uint64_t first = complete(1, "1.0.0", NULL);
    (void)start(2, "2.0.0", NULL, &full);
    settle();
    rig_command(&rig, 2, POL_COMMAND_ABORT, NULL);
    (void)start(3, "3.0.0", NULL, &full);
    struct rig_device *device = &devices[0];
    device->tasks_max = 8;
    device->interval_s = 60;
    assert_int_equal(rig_checkin(&rig, device, true, &exchange, &offers), 200);
    assert_int_equal(offers.count, 1);
    device->refused[device->refused_count++] =
        wire_profile_mark(offers.items[0].envelope, offers.items[0].envelope_bytes);
    rig_exchange_done(&exchange);
    uint64_t passed_over = rig.worker.worker->stats.offers_refused;
    settle();
    assert_true(runs(0) == first);
    assert_true(rig.worker.worker->stats.offers_refused > passed_over);
    rig_done(&rig);
}

// A floor kept a device off the baseline; then the device goes back to a copy of before the floor,
// which has the same digest.
static void a_floor_that_is_gone(void **state)
{
    (void)state;
    open_all();
    rig.certified = true; // of strangers nothing is remembered
    uint64_t first = complete(1, "1.0.0", NULL);
    for (uint32_t i = 0; i < DEVICES; i++) {
        rig_device_task(&devices[i], TASK)->floor = 99;
    }
    expect_all(0);
    expect_all(0);
    for (uint32_t i = 0; i < DEVICES; i++) {
        rig_device_task(&devices[i], TASK)->floor = 0;
    }
    expect_all(first);
    rig_done(&rig);
}

// However many baselines there are for others: one that is for everybody is among those looked at.
static void many_baselines_for_others(void **state)
{
    (void)state;
    open_all();
    uint64_t older = complete(1, "1.0.0", NULL);
    uint64_t all = complete(2, "2.0.0", NULL);
    uint64_t some = 0;
    for (uint64_t i = 0; i < GW_PLAN_BASES_MAX + 4; i++) {
        some = complete(3 + i, "3.0.0", "a");
    }
    settle();
    for (uint32_t i = 0; i < DEVICES; i++) {
        assert_true(runs(i) == (i % 2 == 0 ? some : all));
        struct wire_profile_pair *pair = rig_device_task(&devices[i], TASK);
        pair->version_id = 0;
        pair->blocked_version_id = i % 2 == 0 ? some : all;
    }
    settle();
    for (uint32_t i = 0; i < DEVICES; i++) {
        assert_true(runs(i) == (i % 2 == 0 ? all : older));
    }
    rig_done(&rig);
}

static void why_names_the_paused_rollout(void **state)
{
    (void)state;
    struct gw_why_view why;
    struct base_error error = {0};
    open_all();
    uint64_t first = start(1, "1.0.0", NULL, &full);
    rig_command(&rig, 1, POL_COMMAND_PROMOTE, NULL);
    (void)start(2, "2.0.0", NULL, &full);
    rig.priority = 10;
    (void)start(3, "3.0.0", NULL, &full);
    rig_command(&rig, 3, POL_COMMAND_PAUSE, NULL);
    expect_all(first);
    assert_int_equal(gw_device_why(rig.core, devices[0].id, BASE_STR(TASK), &why, &error), BASE_OK);
    assert_true(why.should_version_id == first);
    assert_true(why.should_rollout == 1);
    assert_string_equal(why.why,
                        "the rollout that it follows, 0000000000000003 of 3.0.0, is paused, "
                        "so the baseline runs");
    rig_done(&rig);
}

// The device says in the rollout's name what became of its version.
static void say(uint64_t id, enum wire_outcome_kind kind)
{
    struct gw_rollout_view view;
    rig_view(&rig, id, &view);
    assert_int_equal(rig_report(&rig, &devices[0], &view, &kind, 1), 204);
}

// ... and why it failed.
static void say_why(uint64_t id, enum wire_outcome_kind kind, const char *detail)
{
    struct gw_rollout_view view;
    struct rig_device *device = &devices[0];
    rig_view(&rig, id, &view);
    struct wire_report report = {
        .device_id = device->id, .epoch = device->epoch, .first_seq = device->seq++, .count = 1};
    report.outcomes[0] = (struct wire_outcome){.kind = kind,
                                               .task_id = wire_task_id(BASE_STR(TASK)),
                                               .version_id = view.version_id,
                                               .rollout_id = id,
                                               .fingerprint = id,
                                               .detail = base_str_of(detail)};
    assert_int_equal(rig_send_report(&rig, &report), 204);
}

static void expect_why(uint64_t version, const char *text)
{
    struct gw_why_view why;
    struct base_error error = {0};
    rig_settle(&rig);
    assert_int_equal(gw_device_why(rig.core, devices[0].id, BASE_STR(TASK), &why, &error), BASE_OK);
    assert_true(why.should_version_id == version);
    assert_string_equal(why.why, text);
}

// What failed is a reason only against what was approved after what runs.
static void why_blames_the_newer_version_alone(void **state)
{
    (void)state;
    open_all();
    uint64_t first = complete(1, "1.0.0", NULL);
    expect_all(first);
    say(1, WIRE_OUTCOME_ACTIVATED);
    (void)complete(2, "2.0.0", NULL);
    settle();
    say(2, WIRE_OUTCOME_FAIL_EXCEPTION);
    say(2, WIRE_OUTCOME_ROLLED_BACK);
    expect_why(first, "the newer version failed on it, so the baseline runs");
    uint64_t third = complete(3, "3.0.0", NULL);
    expect_why(third, "no open rollout lets it in, so the baseline runs");
    rig_done(&rig);
}

// What a device says is not for it, it is not said to run.
static void why_knows_what_is_not_for_it(void **state)
{
    (void)state;
    open_all();
    uint64_t first = complete(1, "1.0.0", NULL);
    expect_all(first);
    say(1, WIRE_OUTCOME_ACTIVATED);
    (void)start(2, "2.0.0", NULL, &full);
    rig_settle(&rig);
    say(2, WIRE_OUTCOME_NOT_APPLICABLE);
    expect_why(first, "the newer version is not for it, so the baseline runs");
    rig_done(&rig);
}

// It had the first, took the second, was stopped, and refused the first for its floor: with that it
// does not have the first again.
static void why_knows_that_what_is_refused_is_not_had(void **state)
{
    (void)state;
    static const uint64_t floors[] = {2};
    open_all();
    (void)complete(1, "1.0.0", NULL);
    say(1, WIRE_OUTCOME_ACTIVATED);
    rig.floors = floors;
    (void)complete(2, "2.0.0", NULL);
    rig_advance_s(&rig, 10);
    say(2, WIRE_OUTCOME_ACTIVATED);
    say(2, WIRE_OUTCOME_RAN);
    rig_command(&rig, 2, POL_COMMAND_UNDO, NULL);
    rig_advance_s(&rig, 10);
    say(2, WIRE_OUTCOME_REMOVED);
    rig_advance_s(&rig, 10);
    say(1, WIRE_OUTCOME_FAIL_VERIFY);
    expect_why(0, "no open rollout lets it in, and the baselines for it are older than its floor "
                  "allows");
    rig_done(&rig);
}

static void expect_has(uint64_t version, uint64_t refused)
{
    struct gw_why_view why;
    struct base_error error = {0};
    assert_int_equal(gw_device_why(rig.core, devices[0].id, BASE_STR(TASK), &why, &error), BASE_OK);
    assert_true(why.has_version_id == version);
    assert_true(why.refused_version_id == refused);
}

// It was ordered back from the second to the first, which failed: so it runs the second again,
// although that has rolled back there. What comes later counts for more.
static void why_knows_what_it_fell_back_to(void **state)
{
    (void)state;
    open_all();
    uint64_t first = start(1, "1.0.0", NULL, &full);
    uint64_t second = start(2, "2.0.0", NULL, &full);
    say(2, WIRE_OUTCOME_ACTIVATED);
    expect_has(second, 0);
    rig_advance_s(&rig, 10);
    say(2, WIRE_OUTCOME_ROLLED_BACK);
    say(1, WIRE_OUTCOME_ACTIVATED);
    expect_has(first, 0);
    say(1, WIRE_OUTCOME_FAIL_EXCEPTION);
    say(1, WIRE_OUTCOME_ROLLED_BACK);
    expect_has(second, first);
    rig_advance_s(&rig, 10);
    uint64_t third = start(3, "3.0.0", NULL, &full);
    say(3, WIRE_OUTCOME_ACTIVATED);
    expect_has(third, first);
    rig_advance_s(&rig, 10);
    say(3, WIRE_OUTCOME_FAIL_EXCEPTION); // what it left before the third is not known any more
    say(3, WIRE_OUTCOME_ROLLED_BACK);
    expect_has(0, third);
    rig_done(&rig);
}

// A refusal is no failure of what ran there, whether it comes before or after it was led back.
static void why_tells_refusals_from_failures(void **state)
{
    (void)state;
    open_all();
    (void)start(1, "1.0.0", NULL, &full);
    say(1, WIRE_OUTCOME_ACTIVATED);
    say(1, WIRE_OUTCOME_ROLLED_BACK);
    say(1, WIRE_OUTCOME_FAIL_VERIFY);
    expect_has(0, 0);
    (void)start(2, "2.0.0", NULL, &full);
    say_why(2, WIRE_OUTCOME_FAIL_CLOCK, "the statement ran out");
    say(2, WIRE_OUTCOME_ACTIVATED);
    say(2, WIRE_OUTCOME_ROLLED_BACK);
    expect_has(0, 0);
    rig_advance_s(&rig, 10);
    uint64_t third = start(3, "3.0.0", NULL, &full);
    say(3, WIRE_OUTCOME_ACTIVATED);
    say_why(3, WIRE_OUTCOME_FAIL_EXCEPTION, "it fell over");
    say(3, WIRE_OUTCOME_ROLLED_BACK);
    expect_has(0, third);
    rig_done(&rig);
}

// Within one second it is stopped in one rollout and let in by another, which came later.
static void why_knows_what_came_after_a_stop(void **state)
{
    (void)state;
    open_all();
    (void)start(1, "1.0.0", NULL, &full);
    say(1, WIRE_OUTCOME_ACTIVATED);
    rig_advance_s(&rig, 10);
    uint64_t second = start(2, "2.0.0", NULL, &full);
    say(1, WIRE_OUTCOME_REMOVED);
    expect_has(0, 0);
    say(2, WIRE_OUTCOME_ACTIVATED);
    expect_has(second, 0);
    rig_advance_s(&rig, 10);
    say(2, WIRE_OUTCOME_REMOVED);
    expect_has(0, 0);
    // Into what it was in before, longer ago than what is stopped.
    uint64_t third = start(3, "3.0.0", NULL, &full);
    say(3, WIRE_OUTCOME_ACTIVATED);
    rig_advance_s(&rig, 10);
    (void)start(4, "4.0.0", NULL, &full);
    say(4, WIRE_OUTCOME_ACTIVATED);
    rig_advance_s(&rig, 10);
    say(4, WIRE_OUTCOME_REMOVED);
    expect_has(0, 0);
    say(3, WIRE_OUTCOME_ACTIVATED);
    expect_has(third, 0);
    rig_done(&rig);
}

// Of open rollouts those count that are for the device, by target and by arm. The newest is first.
static void why_speaks_of_what_is_for_it(void **state)
{
    (void)state;
    static const char none[] = "no open rollout lets it in, so the baseline runs";
    struct gw_why_view why;
    struct base_error error = {0};
    open_all();
    rig.certified = true; // of strangers nothing is remembered
    uint64_t first = complete(1, "1.0.0", NULL);
    settle();
    gw_worker_flush_touches(rig.worker.worker);
    rig_advance_s(&rig, 1);
    (void)start(2, "2.0.0", "b", &full);
    rig_command(&rig, 2, POL_COMMAND_PAUSE, NULL);
    expect_why(first, none);
    rig_advance_s(&rig, 1);
    uint16_t bucket = (uint16_t)(pol_bucket(devices[0].id, 7) % 9000);
    bool below = bucket < 4500; // an arm that the device is not in
    rig.arm = (struct pol_arm){.salt = 7, .from = below ? 9001 : 0, .to = below ? 10000 : 1};
    assert_false(pol_arm_has(&rig.arm, devices[0].id));
    (void)start(3, "3.0.0", NULL, &full);
    rig_command(&rig, 3, POL_COMMAND_PAUSE, NULL);
    expect_why(first, none);
    rig_advance_s(&rig, 1);
    rig.arm = (struct pol_arm){0};
    (void)start(4, "4.0.0", NULL, &full);
    rig_command(&rig, 4, POL_COMMAND_PAUSE, NULL);
    expect_why(first, "the rollout that it follows, 0000000000000004 of 4.0.0, is paused, so "
                      "the baseline runs");
    assert_int_equal(gw_device_why(rig.core, devices[0].id, BASE_STR(TASK), &why, &error), BASE_OK);
    assert_int_equal(why.rollout_count, 4);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(why.rollouts[i].id, 4 - i);
    }
    rig_done(&rig);
}

// How it failed says more than that it went back.
static void why_says_how_it_failed(void **state)
{
    (void)state;
    struct gw_why_view why;
    struct base_error error = {0};
    open_all();
    (void)start(1, "1.0.0", NULL, &full);
    say(1, WIRE_OUTCOME_ACTIVATED);
    say_why(1, WIRE_OUTCOME_FAIL_EXCEPTION, "it fell over");
    say(1, WIRE_OUTCOME_ROLLED_BACK);
    rig_settle(&rig);
    assert_int_equal(gw_device_why(rig.core, devices[0].id, BASE_STR(TASK), &why, &error), BASE_OK);
    assert_int_equal(why.rollouts[0].last_kind, WIRE_OUTCOME_FAIL_EXCEPTION);
    assert_string_equal(why.rollouts[0].detail, "it fell over");
    rig_done(&rig);
}

// By either call, in every rollout that has the version, with pinned keys alone.
static void a_kill_takes_it_from_everybody(void **state)
{
    (void)state;
    struct base_error error = {0};
    struct wire_sha256 manifest;
    struct gw_rollout_view view;
    bool created = false;
    open_all();
    uint64_t first = start(1, "1.0.0", NULL, &full);
    rig_command(&rig, 1, POL_COMMAND_PROMOTE, NULL);
    uint64_t second = start(2, "2.0.0", NULL, &full);
    rig_command(&rig, 2, POL_COMMAND_PROMOTE, NULL);
    assert_true(start(3, "2.0.0", "a", &full) == second); // the same version, open
    expect_all(second);
    rig_command(&rig, 2, POL_COMMAND_KILL, NULL);
    rig_view(&rig, 3, &view);
    assert_int_equal(view.state, POL_ROLLOUT_ROLLING_BACK);
    expect_all(first);
    rig_version(&rig, TASK, "1.0.0", &manifest);
    assert_int_equal(
        gw_trust_kill(rig.core,
                      &(struct gw_kill_order){&manifest, BASE_STR("ana"), BASE_STR("leaks")},
                      &created, &error),
        BASE_OK);
    assert_true(created);
    (void)rig_pump(&rig);
    expect_all(0);
    rig_stop(&rig);
    rig_start(&rig);
    expect_all(0);
    rig_done(&rig);
}

// More first releases than were ever remembered, each aborted: who was away with one is stopped.
static void aborted_first_releases_leave_nobody_behind(void **state)
{
    (void)state;
    open_all();
    for (uint64_t i = 0; i < 12; i++) {
        char version[16];
        (void)snprintf(version, sizeof(version), "%u.0.0", (unsigned)i + 1);
        rig_device_task(&devices[i], TASK)->version_id = start(i + 1, version, NULL, &full);
        rig_command(&rig, i + 1, POL_COMMAND_ABORT, NULL);
        rig_settle(&rig);
    }
    expect_all(0);
    rig_done(&rig);
}

// Who keeps a version for its attributes alone loses it with the rollout.
static void what_is_kept_ends_with_its_rollout(void **state)
{
    (void)state;
    open_all();
    uint64_t version = start(1, "1.0.0", "a", &full);
    settle();
    assert_true(runs(0) == version && runs(1) == 0);
    for (uint32_t i = 0; i < DEVICES; i += 2) {
        uint64_t id = devices[i].id;
        struct wire_profile_pair pair = *rig_device_task(&devices[i], TASK);
        rig_device_init(&devices[i], id);
        rig_device_attr(&devices[i], "os", "c");
        *rig_device_task(&devices[i], TASK) = pair;
    }
    settle();
    assert_true(runs(0) == version); // keeps
    rig_command(&rig, 1, POL_COMMAND_ABORT, NULL);
    expect_all(0);
    rig_done(&rig);
}

// Nine are not closed: one that is undone claims nobody, so none of the others goes.
static void an_undone_one_takes_nobodys_place(void **state)
{
    (void)state;
    open_all();
    (void)start(1, "1.0.0", NULL, &full);
    rig_command(&rig, 1, POL_COMMAND_PROMOTE, NULL);
    uint64_t followed = 0;
    for (uint32_t i = 0; i < GW_TASK_OPEN_MAX; i++) {
        char version[16];
        (void)snprintf(version, sizeof(version), "2.0.%u", i);
        rig.priority = (uint16_t)i;
        followed = start(2 + i, version, NULL, &full);
    }
    expect_all(followed);
    rig_command(&rig, 1, POL_COMMAND_UNDO, NULL);
    expect_all(followed);
    rig_stop(&rig);
    rig_start(&rig);
    expect_all(followed);
    rig_done(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(approved_last_is_the_baseline),
        cmocka_unit_test(below_full_is_for_its_share),
        cmocka_unit_test(a_target_has_its_own_baseline),
        cmocka_unit_test(refused_twice_completed),
        cmocka_unit_test(two_refused_at_once),
        cmocka_unit_test(a_refused_statement_is_passed_over),
        cmocka_unit_test(a_floor_that_is_gone),
        cmocka_unit_test(many_baselines_for_others),
        cmocka_unit_test(why_names_the_paused_rollout),
        cmocka_unit_test(why_blames_the_newer_version_alone),
        cmocka_unit_test(why_knows_what_is_not_for_it),
        cmocka_unit_test(why_knows_that_what_is_refused_is_not_had),
        cmocka_unit_test(why_knows_what_it_fell_back_to),
        cmocka_unit_test(why_tells_refusals_from_failures),
        cmocka_unit_test(why_knows_what_came_after_a_stop),
        cmocka_unit_test(why_speaks_of_what_is_for_it),
        cmocka_unit_test(why_says_how_it_failed),
        cmocka_unit_test(a_kill_takes_it_from_everybody),
        cmocka_unit_test(aborted_first_releases_leave_nobody_behind),
        cmocka_unit_test(what_is_kept_ends_with_its_rollout),
        cmocka_unit_test(an_undone_one_takes_nobodys_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
