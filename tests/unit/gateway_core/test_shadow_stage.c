// A shadow stage against the real core and store: whom it offers what, what is counted where, that
// the digest stays exact while it opens and closes, and that what a shadow did hides nothing later.
#include "core_rig.h"

#include "base/prng.h"
#include "policy/bucket.h"
#include "svc/device/foreign.h"
#include "svc/view/why.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TASK     "shop/score"
#define DEVICES  200u
#define BASE_ID  7u
#define DWELL_S  10u
#define DWELL_US (DWELL_S * UINT64_C(1000000))

static struct rig rig;
static struct rig_device devices[DEVICES];
static struct gw_rollout_view view;

static const struct rig_stage shadow_full[] = {
    {"shadow", POL_STAGE_SHADOW, 3000, NULL, NULL, 20, 100000, DWELL_US},
    {"full", POL_STAGE_FULL, 10000, NULL, NULL, 150, 200000, DWELL_US},
};
static const struct rig_stage gray_shadow_full[] = {
    {"gray", POL_STAGE_GRAY, 1000, NULL, NULL, 5, 200000, DWELL_US},
    {"shadow", POL_STAGE_SHADOW, 4000, NULL, NULL, 20, 100000, DWELL_US},
    {"full", POL_STAGE_FULL, 10000, NULL, NULL, 150, 200000, DWELL_US},
};

static void conduct(struct pol_stage *stage, uint32_t index)
{
    (void)index;
    stage->execution_timeout_s = 3600;
}

static void begin(uint64_t id, const struct rig_stage *stages, uint32_t count)
{
    struct wire_sha256 manifest;
    struct base_error error = {0};
    rig_version(&rig, TASK, "2.0.0", &manifest);
    rig.conduct = conduct;
    if (rig_rollout(&rig, id, TASK, &manifest, NULL, NULL, stages, count, &view, &error) !=
        BASE_OK) {
        fail_msg("rollout: %s", error.text);
    }
    rig.conduct = NULL;
    rig_command(&rig, id, POL_COMMAND_START, NULL);
}

// A gateway whose devices all run the baseline.
static int setup(void **state)
{
    struct wire_sha256 manifest;
    (void)state;
    rig_init(&rig);
    rig_start(&rig);
    rig_baseline(&rig, TASK, BASE_ID, NULL, NULL, &manifest);
    for (uint32_t i = 0; i < DEVICES; i++) {
        rig_device_init(&devices[i], base_mix64(i + 1));
        rig_device_attr(&devices[i], "os", i % 2 == 0 ? "android" : "ios");
        struct wire_profile_pair *pair = rig_device_task(&devices[i], TASK);
        pair->version_id = wire_version_id(&manifest);
        pair->floor = 1;
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    rig_done(&rig);
    return 0;
}

static uint64_t shadow_id(void)
{
    return wire_shadow_task_id(wire_task_id(BASE_STR(TASK)));
}

static struct wire_profile_pair *shadow_pair(struct rig_device *device)
{
    for (uint32_t i = 0; i < device->pair_count; i++) {
        if (device->pairs[i].task_id == shadow_id()) {
            return &device->pairs[i];
        }
    }
    return NULL;
}

static void drop_shadow(struct rig_device *device)
{
    struct wire_profile_pair *pair = shadow_pair(device);
    if (pair != NULL) {
        *pair = device->pairs[--device->pair_count];
    }
}

static void report(struct rig_device *device, uint64_t task_id, enum wire_outcome_kind kind)
{
    struct wire_report one = {
        .device_id = device->id, .epoch = device->epoch, .first_seq = device->seq++, .count = 1};
    one.outcomes[0] = (struct wire_outcome){
        .kind = kind,
        .task_id = task_id,
        .version_id = view.version_id,
        .rollout_id = view.id,
        .fingerprint = wire_outcome_is_failure(kind) ? 99 : 0,
        .detail = wire_outcome_is_failure(kind) ? BASE_STR("differs") : (struct base_str){NULL, 0},
    };
    assert_int_equal(rig_send_report(&rig, &one), 204);
}

struct seen {
    uint32_t shadows; // offered
    uint32_t installs;
    uint32_t ends;  // told that shadows are over
    uint32_t quiet; // answered 204
};

// A check-in that does what a device does; `agrees`: what its shadow comes to.
static void come(struct rig_device *device, bool agrees, struct seen *seen)
{
    struct rig_exchange exchange;
    struct wire_offers offers;
    int status = rig_checkin(&rig, device, true, &exchange, &offers);
    seen->quiet += status == 204;
    bool over = (offers.flags & WIRE_OFFER_FLAG_SHADOWS) != 0;
    seen->ends += over;
    for (uint32_t i = 0; i < offers.count; i++) {
        struct wire_release release;
        rig_offer_release(&offers, i, &release);
        uint16_t bucket = pol_bucket(device->id, release.salt);
        assert_true(bucket < release.max_bucket);
        if (!wire_release_is_shadow(&release)) {
            seen->installs++;
            struct wire_profile_pair *pair = rig_device_task(device, TASK);
            pair->version_id = wire_version_id(&release.manifest);
            pair->floor = release.floor;
            report(device, pair->task_id, WIRE_OUTCOME_ACTIVATED);
            report(device, pair->task_id, WIRE_OUTCOME_RAN);
            continue;
        }
        seen->shadows++;
        over = false;
        drop_shadow(device);
        struct wire_profile_pair *pair = &device->pairs[device->pair_count++];
        *pair = (struct wire_profile_pair){.task_id = shadow_id(), .floor = release.floor};
        *(agrees ? &pair->version_id : &pair->blocked_version_id) =
            wire_version_id(&release.manifest);
        report(device, shadow_id(), WIRE_OUTCOME_DOWNLOADED);
        report(device, shadow_id(),
               agrees ? WIRE_OUTCOME_SHADOW_AGREED : WIRE_OUTCOME_FAIL_DIFFERENT);
    }
    if (over) {
        drop_shadow(device);
    }
    rig_exchange_done(&exchange);
}

static uint32_t in_bucket(uint16_t limit)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < DEVICES; i++) {
        count += pol_bucket(devices[i].id, view.salt) < limit;
    }
    return count;
}

static struct seen all_come(uint32_t agree_every)
{
    struct seen seen = {0};
    for (uint32_t i = 0; i < DEVICES; i++) {
        come(&devices[i], agree_every == 0 || i % agree_every != 0, &seen);
    }
    rig_settle(&rig);
    rig_view(&rig, view.id, &view);
    return seen;
}

// The stage's dwell passes.
static void dwell(void)
{
    rig_advance_s(&rig, DWELL_S + 1);
    rig_settle(&rig);
    rig_view(&rig, view.id, &view);
}

static void test_passes_and_goes_on(void **state)
{
    (void)state;
    begin(21, shadow_full, 2);
    uint32_t wanted = in_bucket(3000);
    struct seen seen = {0};
    for (uint32_t i = 0; i < 15; i++) { // below the sample
        come(&devices[i], true, &seen);
    }
    rig_settle(&rig);
    struct seen before = seen;
    for (uint32_t i = 0; i < 15; i++) { // what they have is exact
        come(&devices[i], true, &seen);
    }
    assert_int_equal(seen.shadows, before.shadows);
    assert_int_equal(seen.quiet, before.quiet + 15);
    rig_view(&rig, 21, &view);
    assert_int_equal(view.stage_index, 0);
    seen = all_come(0);
    assert_int_equal(seen.installs, 0);
    assert_int_equal(seen.ends, 0);
    assert_int_equal(seen.shadows + before.shadows, wanted);
    assert_int_equal(view.stages[0].counts.offered, wanted);
    assert_int_equal(view.stages[0].counts.downloaded, wanted);
    assert_int_equal(view.stages[0].counts.succeeded, wanted);
    assert_int_equal(view.stages[0].counts.activated, 0);
    assert_int_equal(view.stages[0].counts.on_version, 0);
    dwell();
    assert_int_equal(view.stage_index, 1); // it passed
    rig_expect_counts_from_disk(&rig);

    seen = all_come(0);
    assert_int_equal(seen.installs, DEVICES);
    assert_int_equal(seen.ends, wanted); // and only those that have one
    assert_int_equal(view.stages[1].counts.activated, DEVICES);
    assert_int_equal(view.stages[1].counts.succeeded, DEVICES); // the shadows' too
    assert_int_equal(view.stages[0].counts.succeeded, wanted);
    dwell();
    assert_int_equal(view.state, POL_ROLLOUT_COMPLETED);
    seen = all_come(0);
    assert_int_equal(seen.quiet, DEVICES);
    rig_expect_counts_from_disk(&rig);
}

static void test_fails_before_anybody_is_on_it(void **state)
{
    (void)state;
    begin(22, shadow_full, 2);
    struct seen seen = all_come(2);
    assert_true(seen.shadows > 0);
    assert_int_equal(seen.installs, 0);
    assert_true(view.stages[0].counts.failed > 0);
    assert_int_equal(view.state, POL_ROLLOUT_ROLLED_BACK); // there was nothing to take back
    assert_int_equal(view.counts.activated, 0);
    assert_int_equal(view.counts.rolled_back, 0);
    assert_int_equal(view.fingerprint_count, 1);
    assert_int_equal(view.fingerprints[0].kind, WIRE_OUTCOME_FAIL_DIFFERENT);
    uint32_t have = 0;
    for (uint32_t i = 0; i < DEVICES; i++) {
        have += shadow_pair(&devices[i]) != NULL;
    }
    seen = all_come(0);
    assert_int_equal(seen.ends, have);
    assert_int_equal(seen.installs + seen.shadows, 0);
    seen = all_come(0);
    assert_int_equal(seen.quiet, DEVICES);
    rig_expect_counts_from_disk(&rig);
}

// A gray stage before it goes on while the shadow stage is open; each device counts where it is.
static void test_behind_a_gray_stage(void **state)
{
    (void)state;
    begin(23, gray_shadow_full, 3);
    uint32_t gray = in_bucket(1000);
    uint32_t shadows = in_bucket(4000) - gray;
    struct seen seen = {0};
    for (uint32_t i = 0; i < DEVICES / 2; i++) {
        come(&devices[i], true, &seen);
    }
    dwell();
    assert_int_equal(view.stage_index, 1);
    assert_int_equal(seen.shadows, 0);
    for (uint32_t i = 0; i < DEVICES; i++) {
        // What a device does that is past it: it says so, and nothing else.
        bool on_it = rig_device_task(&devices[i], TASK)->version_id == view.version_id;
        if (on_it && pol_bucket(devices[i].id, view.salt) < 4000) {
            struct rig_exchange exchange;
            struct wire_offers offers;
            (void)rig_checkin(&rig, &devices[i], true, &exchange, &offers);
            assert_int_equal(offers.count, 1);
            rig_exchange_done(&exchange);
            report(&devices[i], shadow_id(), WIRE_OUTCOME_NOT_APPLICABLE);
            continue;
        }
        come(&devices[i], true, &seen);
    }
    rig_settle(&rig);
    rig_view(&rig, 23, &view);
    assert_int_equal(view.stages[0].counts.succeeded, gray);
    assert_true(view.stages[1].counts.succeeded >= shadows - gray);
    assert_int_equal(view.stages[1].counts.activated, 0);
    assert_int_equal(view.counts.activated, gray);
    rig_expect_counts_from_disk(&rig);
}

static void test_survives_a_restart(void **state)
{
    (void)state;
    begin(24, shadow_full, 2);
    struct seen seen = {0};
    for (uint32_t i = 0; i < 40; i++) {
        come(&devices[i], true, &seen);
    }
    uint32_t offered = seen.shadows;
    for (int i = 0; i < 3; i++) {
        rig_advance_s(&rig, 3600); // marks reach the disk
        rig_settle(&rig);
    }
    rig_view(&rig, 24, &view);
    struct gw_rollout_counts before = view.stages[0].counts;
    rig_stop(&rig);
    rig_start(&rig);
    rig_view(&rig, 24, &view);
    assert_int_equal(view.stages[0].counts.offered, before.offered);
    assert_int_equal(view.stages[0].counts.succeeded, before.succeeded);
    assert_int_equal(before.succeeded, offered);
    rig_expect_counts_from_disk(&rig);
    seen = (struct seen){0};
    for (uint32_t i = 0; i < 40; i++) {
        come(&devices[i], true, &seen);
    }
    assert_int_equal(seen.shadows, 0);
    assert_int_equal(seen.quiet, 40);
}

// A shadow that is over is told of; the one of another task beside it is said again.
static void test_two_tasks(void **state)
{
    (void)state;
    struct wire_sha256 manifest;
    struct wire_sha256 newer;
    struct base_error error = {0};
    struct gw_rollout_view other;
    static const struct rig_stage all_shadow[] = {
        {"shadow", POL_STAGE_SHADOW, 10000, NULL, NULL, 200, 100000, 0},
        {"full", POL_STAGE_FULL, 10000, NULL, NULL, 200, 200000, 0},
    };
    rig_baseline(&rig, "shop/other", 8, NULL, NULL, &manifest);
    rig_version(&rig, "shop/other", "2.0.0", &newer);
    assert_int_equal(
        rig_rollout(&rig, 31, "shop/other", &newer, NULL, NULL, all_shadow, 2, &other, &error),
        BASE_OK);
    rig_command(&rig, 31, POL_COMMAND_START, NULL);
    begin(32, all_shadow, 2);
    struct rig_device *device = &devices[0];
    struct wire_profile_pair *pair = rig_device_task(device, "shop/other");
    pair->version_id = wire_version_id(&manifest);
    pair->floor = 1;
    uint64_t other_id = wire_shadow_task_id(pair->task_id);
    struct rig_exchange exchange;
    struct wire_offers offers;
    assert_int_equal(rig_checkin(&rig, device, true, &exchange, &offers), 200);
    assert_int_equal(offers.count, 2);
    assert_int_equal(offers.flags, 0);
    rig_exchange_done(&exchange);
    device->pairs[device->pair_count++] =
        (struct wire_profile_pair){.task_id = other_id, .version_id = other.version_id};
    device->pairs[device->pair_count++] =
        (struct wire_profile_pair){.task_id = shadow_id(), .version_id = view.version_id};
    assert_int_equal(rig_checkin(&rig, device, true, &exchange, &offers), 204);
    rig_exchange_done(&exchange);
    rig_command(&rig, 32, POL_COMMAND_ABORT, NULL);
    rig_settle(&rig);
    assert_int_equal(rig_checkin(&rig, device, true, &exchange, &offers), 200);
    assert_int_equal(offers.flags, WIRE_OFFER_FLAG_SHADOWS);
    assert_int_equal(offers.count, 1);
    struct wire_release release;
    rig_offer_release(&offers, 0, &release);
    assert_int_equal(wire_release_task_id(&release), other_id);
    rig_exchange_done(&exchange);
    drop_shadow(device);
    assert_int_equal(rig_checkin(&rig, device, true, &exchange, &offers), 204);
    rig_exchange_done(&exchange);
}

// A shadow is let in by the newest stage alone; the version itself by any, the latest first.
static void test_a_shadow_stage_that_is_over_lets_nobody_in(void **state)
{
    (void)state;
    static struct gw_release release = {
        .stage_count = 4,
        .stages = {{.kind = POL_STAGE_GRAY, .max_bucket = POL_BUCKET_COUNT},
                   {.kind = POL_STAGE_SHADOW, .max_bucket = POL_BUCKET_COUNT},
                   {.kind = POL_STAGE_SHADOW, .max_bucket = 1},
                   {.kind = POL_STAGE_FULL, .max_bucket = POL_BUCKET_COUNT}}};
    uint64_t outside = 1;
    while (pol_bucket(outside, release.salt) < 1) {
        outside++;
    }
    assert_int_equal(gw_release_lets_in(&release, 1, true, outside, NULL), 1);
    assert_int_equal(gw_release_lets_in(&release, 2, true, outside, NULL), GW_STAGE_NONE);
    assert_int_equal(gw_release_lets_in(&release, 3, true, outside, NULL), GW_STAGE_NONE);
    assert_int_equal(gw_release_lets_in(&release, 2, false, outside, NULL), 0);
    assert_int_equal(gw_release_lets_in(&release, 3, false, outside, NULL), 3);
}

static void test_refused_ladders(void **state)
{
    (void)state;
    struct wire_sha256 manifest;
    struct base_error error = {0};
    static const struct rig_stage last[] = {
        {"full", POL_STAGE_FULL, 10000, NULL, NULL, 1, 200000, 0},
        {"shadow", POL_STAGE_SHADOW, 1000, NULL, NULL, 1, 200000, 0}};
    rig_version(&rig, TASK, "3.0.0", &manifest);
    assert_int_equal(rig_rollout(&rig, 41, TASK, &manifest, NULL, NULL, last, 2, &view, &error),
                     BASE_ERR_INVALID);
    assert_int_equal(rig_rollout(&rig, 41, TASK, &manifest, NULL, NULL, &last[1], 1, &view, &error),
                     BASE_ERR_INVALID);
}

static void forgive(struct pol_stage *stage, uint32_t index)
{
    conduct(stage, index);
    stage->tolerance_count = index == 0 ? 1 : 0;
    stage->tolerances[0] = (struct pol_tolerance){.relative = 0.5};
}

// What a device forgives is signed: a stage cannot say something else.
static void test_tolerance_that_was_not_signed(void **state)
{
    (void)state;
    struct wire_sha256 manifest;
    struct base_error error = {0};
    rig_version(&rig, TASK, "3.0.0", &manifest);
    rig.conduct = forgive;
    assert_int_equal(
        rig_rollout(&rig, 42, TASK, &manifest, NULL, NULL, shadow_full, 2, &view, &error),
        BASE_ERR_INVALID);
    rig.conduct = NULL;
    assert_non_null(strstr(error.text, "stage 1: statement: tolerance differs from the stage's"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_passes_and_goes_on, setup, teardown),
        cmocka_unit_test_setup_teardown(test_fails_before_anybody_is_on_it, setup, teardown),
        cmocka_unit_test_setup_teardown(test_behind_a_gray_stage, setup, teardown),
        cmocka_unit_test_setup_teardown(test_survives_a_restart, setup, teardown),
        cmocka_unit_test_setup_teardown(test_two_tasks, setup, teardown),
        cmocka_unit_test(test_a_shadow_stage_that_is_over_lets_nobody_in),
        cmocka_unit_test_setup_teardown(test_refused_ladders, setup, teardown),
        cmocka_unit_test_setup_teardown(test_tolerance_that_was_not_signed, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
