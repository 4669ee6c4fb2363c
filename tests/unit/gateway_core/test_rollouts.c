// Whole rollouts against the real core and store: check-ins, offers and reports driven directly.
#include "core_rig.h"

#include "svc/view/rollout_page.h"
#include "svc/rollout/rollout_private.h"

#include "base/prng.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#define DEVICES   200
#define MINUTE_US UINT64_C(60000000)

static const struct rig_stage staged[] = {
    {"simulate", POL_STAGE_SIMULATE, 10000, NULL, NULL, 10, 50000, 0},
    {"beta", POL_STAGE_BETA, 10000, "channel", "beta", 3, 200000, MINUTE_US},
    {"gray", POL_STAGE_GRAY, 2000, NULL, NULL, 5, 200000, MINUTE_US},
    {"full", POL_STAGE_FULL, 10000, NULL, NULL, 20, 200000, MINUTE_US},
};

struct fleet {
    struct rig_device devices[DEVICES];
};

static void fleet_init(struct fleet *fleet)
{
    for (uint32_t i = 0; i < DEVICES; i++) {
        rig_device_init(&fleet->devices[i], base_mix64(i + 1));
        rig_device_attr(&fleet->devices[i], "channel", i % 20 == 0 ? "beta" : "stable");
        rig_device_attr(&fleet->devices[i], "os", i % 2 == 0 ? "android" : "ios");
    }
}

// Every device checks in once; who is offered something takes it and reports `kinds`. Returns how
// many took something.
static uint32_t fleet_round(struct rig *rig, struct fleet *fleet, uint64_t rollout_id,
                            const enum wire_outcome_kind *kinds, uint32_t kind_count)
{
    uint32_t took = 0;
    struct gw_rollout_view view;
    rig_view(rig, rollout_id, &view);
    for (uint32_t i = 0; i < DEVICES; i++) {
        struct rig_exchange exchange;
        struct wire_offers offers;
        int status = rig_checkin(rig, &fleet->devices[i], true, &exchange, &offers);
        assert_true(status == 204 || status == 200);
        if (rig_device_take(&fleet->devices[i], &offers) > 0) {
            took++;
            assert_int_equal(rig_report(rig, &fleet->devices[i], &view, kinds, kind_count), 204);
        }
        rig_exchange_done(&exchange);
    }
    rig_settle(rig);
    return took;
}

static uint32_t fleet_on(const struct fleet *fleet, const char *task, uint64_t version_id)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < DEVICES; i++) {
        struct rig_device copy = fleet->devices[i];
        count += rig_device_task(&copy, task)->version_id == version_id;
    }
    return count;
}

static const enum wire_outcome_kind good[] = {WIRE_OUTCOME_DOWNLOADED, WIRE_OUTCOME_ACTIVATED,
                                              WIRE_OUTCOME_RAN};
static const enum wire_outcome_kind bad[] = {WIRE_OUTCOME_DOWNLOADED, WIRE_OUTCOME_ACTIVATED,
                                             WIRE_OUTCOME_FAIL_EXCEPTION};
static const enum wire_outcome_kind back[] = {WIRE_OUTCOME_ROLLED_BACK};

static void test_good_rollout_completes(void **state)
{
    (void)state;
    struct rig rig;
    static struct fleet fleet;
    struct wire_sha256 v1;
    struct gw_rollout_view view;
    struct base_error error = {0};
    rig_init(&rig);
    rig_start(&rig);
    fleet_init(&fleet);
    rig_version(&rig, "shop/score", "1.0.0", &v1);
    assert_int_equal(
        rig_rollout(&rig, 0x11, "shop/score", &v1, NULL, NULL, staged, 4, &view, &error), BASE_OK);
    assert_int_equal(view.state, POL_ROLLOUT_DRAFT);
    assert_int_equal(fleet_round(&rig, &fleet, 0x11, good, 3), 0);

    rig_command(&rig, 0x11, POL_COMMAND_START, &view);
    assert_int_equal(view.state, POL_ROLLOUT_RUNNING);
    rig_advance_s(&rig, 120);
    assert_int_equal(fleet_round(&rig, &fleet, 0x11, good, 3), 0); // nothing in simulate
    rig_view(&rig, 0x11, &view);
    assert_int_equal(view.stage_index, 0);
    rig_override(&rig, 0x11, 100, 1);
    rig_view(&rig, 0x11, &view);
    assert_int_equal(view.stage_index, 1);
    assert_int_equal(view.verdict, POL_VERDICT_NO_DATA); // the PASS was the stage's before
    assert_int_equal(view.failure_ppm, 0);
    rig_settle(&rig);
    rig_view(&rig, 0x11, &view);
    assert_int_equal(view.stage_index, 1);

    assert_int_equal(fleet_round(&rig, &fleet, 0x11, good, 3), DEVICES / 20); // beta devices alone
    rig_view(&rig, 0x11, &view);
    assert_int_equal(view.stage_index, 1); // dwell not reached
    assert_int_equal(view.stages[1].counts.succeeded, DEVICES / 20);
    assert_int_equal(view.stages[1].counts.offered, DEVICES / 20);
    rig_advance_s(&rig, 61);
    rig_settle(&rig);
    rig_view(&rig, 0x11, &view);
    assert_int_equal(view.stage_index, 2);

    uint32_t gray = fleet_round(&rig, &fleet, 0x11, good, 3);
    assert_in_range(gray, DEVICES / 20, DEVICES * 2 / 5); // about a fifth
    assert_int_equal(fleet_round(&rig, &fleet, 0x11, good, 3), 0);
    rig_advance_s(&rig, 61);
    rig_settle(&rig);
    rig_view(&rig, 0x11, &view);
    assert_int_equal(view.stage_index, 3);
    assert_int_equal(fleet_round(&rig, &fleet, 0x11, good, 3), DEVICES - gray - DEVICES / 20);
    rig_advance_s(&rig, 61);
    rig_settle(&rig);
    rig_view(&rig, 0x11, &view);
    assert_int_equal(view.state, POL_ROLLOUT_COMPLETED);
    assert_int_equal(view.counts.succeeded, DEVICES); // real devices alone
    assert_int_equal(view.stages[0].counts.succeeded, 99);
    assert_int_equal(fleet_on(&fleet, "shop/score", wire_version_id(&v1)), DEVICES);
    struct gw_task_view task;
    assert_int_equal(gw_catalog_task_get(rig.core, BASE_STR("shop/score"), &task), BASE_OK);
    assert_int_equal(task.baseline_rollout, 0x11);
    assert_string_equal(task.baseline_version, "1.0.0");
    assert_int_equal(task.open_rollout, 0);
    rig_expect_counts_from_disk(&rig);
    rig_done(&rig);
}

// One that was away with v2 is sent back also when the rollout is closed, and after a restart.
static void expect_late_device_sent_back(struct rig *rig, const struct rig_device *like,
                                         const struct gw_rollout_view *view,
                                         const struct wire_sha256 *v1, const struct wire_sha256 *v2)
{
    for (int restart = 0; restart < 2; restart++) {
        struct rig_device late = *like;
        struct rig_exchange exchange;
        struct wire_offers offers;
        struct wire_release release;
        late.id = 0xabcdef;
        rig_device_task(&late, "shop/score")->version_id = wire_version_id(v2);
        rig_device_task(&late, "shop/score")->floor = view->floor;
        assert_int_equal(rig_checkin(rig, &late, true, &exchange, &offers), 200);
        assert_int_equal(offers.count, 1);
        rig_offer_release(&offers, 0, &release);
        assert_true(wire_sha256_equal(&release.manifest, v1));
        rig_exchange_done(&exchange);
        rig_stop(rig);
        rig_start(rig);
    }
}

static void expect_log(struct rig *rig, uint64_t failed)
{
    struct gw_rollout_log_view lines[16];
    struct gw_page page = {.limit = 16};
    assert_int_equal(gw_rollout_log(rig->core, 0x22, 0, lines, &page), BASE_OK);
    uint32_t kept = 0; // but for observations and looks: create, start, roll back, finish
    for (uint32_t i = 0; i < page.count; i++) {
        assert_int_equal(lines[i].seq, i + 1);
        if (lines[i].kind != GW_LOG_OBSERVATION && lines[i].kind != GW_LOG_SLICES) {
            lines[kept++] = lines[i];
        }
    }
    assert_int_equal(kept, 4);
    assert_int_equal(lines[0].kind, GW_LOG_CREATED);
    assert_string_equal(lines[0].by, "rig");
    assert_int_equal(lines[1].record.command, POL_COMMAND_START);
    assert_int_equal(lines[2].kind, GW_LOG_DECISION);
    assert_int_equal(lines[2].record.verdict, POL_VERDICT_FAIL);
    assert_int_equal(lines[2].record.counts.failed, failed);
    assert_int_equal(lines[3].record.after.state, POL_ROLLOUT_ROLLED_BACK);
    assert_false(page.more);
}

static void test_bad_rollout_goes_back(void **state)
{
    (void)state;
    struct rig rig;
    static struct fleet fleet;
    struct wire_sha256 v1;
    struct wire_sha256 v2;
    struct gw_rollout_view view;
    struct base_error error = {0};
    rig_init(&rig);
    rig_start(&rig);
    fleet_init(&fleet);
    rig_baseline(&rig, "shop/score", 0x21, NULL, NULL, &v1);
    assert_int_equal(fleet_round(&rig, &fleet, 0x21, good, 3), DEVICES);
    rig_version(&rig, "shop/score", "2.0.0", &v2);
    assert_int_equal(
        rig_rollout(&rig, 0x22, "shop/score", &v2, NULL, NULL, staged + 2, 2, &view, &error),
        BASE_OK);
    rig_command(&rig, 0x22, POL_COMMAND_START, NULL);
    // A third of the devices fail; the gate is at a fifth.
    uint32_t took = 0;
    for (uint32_t i = 0; i < DEVICES; i++) {
        struct rig_exchange exchange;
        struct wire_offers offers;
        (void)rig_checkin(&rig, &fleet.devices[i], true, &exchange, &offers);
        if (rig_device_take(&fleet.devices[i], &offers) > 0) {
            assert_int_equal(
                rig_report(&rig, &fleet.devices[i], &view, took % 3 == 0 ? bad : good, 3), 204);
            took++;
        }
        rig_exchange_done(&exchange);
    }
    assert_in_range(took, 2, DEVICES / 4); // it stops as soon as the gate can tell
    rig_settle(&rig);
    rig_view(&rig, 0x22, &view);
    assert_int_equal(view.state, POL_ROLLOUT_ROLLING_BACK);
    assert_int_equal(view.verdict, POL_VERDICT_FAIL);
    assert_int_equal(view.counts.failed, (took + 2) / 3);
    assert_int_equal(view.fingerprint_count, 1);
    assert_int_equal(view.fingerprints[0].fingerprint, 4711);
    assert_string_equal(view.fingerprints[0].detail, "ValueError: bad");
    assert_true(view.slice_count >= 2);
    // Everybody with v2 is sent back to v1, and nobody else hears anything.
    assert_int_equal(fleet_round(&rig, &fleet, 0x22, back, 1), took);
    assert_int_equal(fleet_on(&fleet, "shop/score", wire_version_id(&v1)), DEVICES);
    rig_settle(&rig);
    rig_view(&rig, 0x22, &view);
    assert_int_equal(view.state, POL_ROLLOUT_ROLLED_BACK);
    assert_int_equal(view.counts.rolled_back, took);
    assert_int_equal(fleet_round(&rig, &fleet, 0x22, back, 1), 0);
    rig_expect_counts_from_disk(&rig);

    expect_late_device_sent_back(&rig, &fleet.devices[0], &view, &v1, &v2);
    expect_log(&rig, (took + 2) / 3);
    rig_done(&rig);
}

static void test_first_version_is_removed(void **state)
{
    (void)state;
    struct rig rig;
    struct rig_device device;
    struct wire_sha256 v1;
    struct gw_rollout_view view;
    struct base_error error = {0};
    struct rig_exchange exchange;
    struct wire_offers offers;
    uint64_t task_id = 0;
    rig_init(&rig);
    rig_start(&rig);
    rig_version(&rig, "t", "1.0.0", &v1);
    assert_int_equal(rig_rollout(&rig, 0x31, "t", &v1, NULL, NULL, staged + 3, 1, &view, &error),
                     BASE_OK);
    rig_command(&rig, 0x31, POL_COMMAND_START, NULL);
    rig_device_init(&device, 1);
    assert_int_equal(rig_checkin(&rig, &device, true, &exchange, &offers), 200);
    assert_int_equal(rig_device_take(&device, &offers), 1);
    rig_exchange_done(&exchange);
    assert_int_equal(rig_report(&rig, &device, &view, good, 3), 204);
    rig_command(&rig, 0x31, POL_COMMAND_ABORT, &view);
    assert_int_equal(view.state, POL_ROLLOUT_ROLLING_BACK);
    rig_settle(&rig);
    rig_view(&rig, 0x31, &view);
    assert_int_equal(view.state, POL_ROLLOUT_ROLLING_BACK); // one device is still on it
    assert_int_equal(rig_checkin(&rig, &device, true, &exchange, &offers), 200);
    assert_true(rig_offer_stops(&offers, 0, &task_id));
    assert_true(task_id == wire_task_id(BASE_STR("t")));
    assert_int_equal(rig_device_take(&device, &offers), 1);
    rig_exchange_done(&exchange);
    enum wire_outcome_kind removed = WIRE_OUTCOME_REMOVED;
    assert_int_equal(rig_report(&rig, &device, &view, &removed, 1), 204);
    rig_settle(&rig);
    rig_view(&rig, 0x31, &view);
    assert_int_equal(view.state, POL_ROLLOUT_ROLLED_BACK);
    rig_done(&rig);
}

static void test_unreachable_devices_do_not_hold_the_rollback(void **state)
{
    (void)state;
    struct rig rig;
    struct rig_device device;
    struct wire_sha256 v1;
    struct gw_rollout_view view;
    struct base_error error = {0};
    struct rig_exchange exchange;
    struct wire_offers offers;
    rig_init(&rig);
    rig_start(&rig);
    rig_version(&rig, "t", "1.0.0", &v1);
    assert_int_equal(rig_rollout(&rig, 0x41, "t", &v1, NULL, NULL, staged + 3, 1, &view, &error),
                     BASE_OK);
    rig_command(&rig, 0x41, POL_COMMAND_START, NULL);
    rig_device_init(&device, 1);
    assert_int_equal(rig_checkin(&rig, &device, true, &exchange, &offers), 200);
    rig_exchange_done(&exchange);
    assert_int_equal(rig_report(&rig, &device, &view, good, 3), 204);
    rig_command(&rig, 0x41, POL_COMMAND_ABORT, NULL);
    rig_advance_s(&rig, GW_EXECUTION_TIMEOUT_S - 1);
    rig_settle(&rig);
    rig_view(&rig, 0x41, &view);
    assert_int_equal(view.state, POL_ROLLOUT_ROLLING_BACK);
    rig_advance_s(&rig, 2);
    rig_settle(&rig);
    rig_view(&rig, 0x41, &view);
    assert_int_equal(view.state, POL_ROLLOUT_ROLLED_BACK);
    rig_done(&rig);
}

static void test_restart_goes_on(void **state)
{
    (void)state;
    struct rig rig;
    static struct fleet fleet;
    struct wire_sha256 v1;
    struct gw_rollout_view view;
    struct gw_rollout_view after;
    struct base_error error = {0};
    rig_init(&rig);
    rig_start(&rig);
    fleet_init(&fleet);
    rig_version(&rig, "shop/score", "1.0.0", &v1);
    assert_int_equal(
        rig_rollout(&rig, 0x51, "shop/score", &v1, NULL, NULL, staged + 1, 3, &view, &error),
        BASE_OK);
    rig_command(&rig, 0x51, POL_COMMAND_START, NULL);
    assert_int_equal(fleet_round(&rig, &fleet, 0x51, good, 3), DEVICES / 20);
    rig_advance_s(&rig, 40);
    rig_settle(&rig);
    rig_view(&rig, 0x51, &view);
    rig_stop(&rig);
    // Another boot: the monotonic clock begins anew, the wall clock went on.
    rig.mono_us = 1000;
    rig.wall_us += 10 * 1000000u;
    rig_start(&rig);
    rig_view(&rig, 0x51, &after);
    assert_int_equal(after.state, POL_ROLLOUT_RUNNING);
    assert_int_equal(after.stage_index, 0);
    // What the walk over the devices finds is there again after its first round.
    after.counts.eligible = view.counts.eligible;
    after.counts.online = view.counts.online;
    after.counts.observed_s = view.counts.observed_s;
    assert_memory_equal(&after.counts, &view.counts, sizeof(view.counts));
    assert_int_equal(after.stage_since_s, view.stage_since_s);
    rig_settle(&rig);
    rig_view(&rig, 0x51, &after);
    assert_int_equal(after.stage_index, 0); // 50 of 60 seconds
    rig_advance_s(&rig, 11);
    rig_settle(&rig);
    rig_view(&rig, 0x51, &after);
    assert_int_equal(after.stage_index, 1);
    assert_int_equal(fleet_round(&rig, &fleet, 0x51, good, 3) > 0, 1);
    rig_expect_counts_from_disk(&rig);
    rig_done(&rig);
}

static void test_pause_offers_nothing_new(void **state)
{
    (void)state;
    struct rig rig;
    static struct fleet fleet;
    struct wire_sha256 v1;
    struct wire_sha256 v2;
    struct gw_rollout_view view;
    struct base_error error = {0};
    rig_init(&rig);
    rig_start(&rig);
    fleet_init(&fleet);
    rig_baseline(&rig, "shop/score", 0x61, NULL, NULL, &v1);
    assert_int_equal(fleet_round(&rig, &fleet, 0x61, good, 3), DEVICES);
    rig_version(&rig, "shop/score", "2.0.0", &v2);
    assert_int_equal(
        rig_rollout(&rig, 0x62, "shop/score", &v2, NULL, NULL, staged + 2, 2, &view, &error),
        BASE_OK);
    rig_command(&rig, 0x62, POL_COMMAND_START, NULL);
    // Half the fleet comes, then a pause.
    uint32_t took = 0;
    for (uint32_t i = 0; i < DEVICES / 2; i++) {
        struct rig_exchange exchange;
        struct wire_offers offers;
        (void)rig_checkin(&rig, &fleet.devices[i], true, &exchange, &offers);
        took += rig_device_take(&fleet.devices[i], &offers);
        rig_exchange_done(&exchange);
    }
    assert_true(took > 0);
    rig_command(&rig, 0x62, POL_COMMAND_PAUSE, NULL);
    assert_int_equal(fleet_round(&rig, &fleet, 0x62, good, 3), 0);
    assert_int_equal(fleet_on(&fleet, "shop/score", wire_version_id(&v2)), took);
    rig_command(&rig, 0x62, POL_COMMAND_RESUME, NULL);
    assert_true(fleet_round(&rig, &fleet, 0x62, good, 3) > 0);
    rig_done(&rig);
}

static void test_silence_counts_as_failure(void **state)
{
    (void)state;
    struct rig rig;
    static struct fleet fleet;
    struct wire_sha256 v1;
    struct gw_rollout_view view;
    struct base_error error = {0};
    rig_init(&rig);
    rig_start(&rig);
    fleet_init(&fleet);
    rig_version(&rig, "t", "1.0.0", &v1);
    assert_int_equal(rig_rollout(&rig, 0x71, "t", &v1, NULL, NULL, staged + 3, 1, &view, &error),
                     BASE_OK);
    rig_command(&rig, 0x71, POL_COMMAND_START, NULL);
    static const enum wire_outcome_kind downloaded[] = {WIRE_OUTCOME_DOWNLOADED};
    assert_int_equal(fleet_round(&rig, &fleet, 0x71, downloaded, 1), DEVICES);
    rig_advance_s(&rig, GW_EXECUTION_TIMEOUT_S / 2);
    rig_settle(&rig);
    rig_view(&rig, 0x71, &view);
    assert_int_equal(view.counts.timed_out, 0);
    assert_int_equal(view.state, POL_ROLLOUT_RUNNING);
    // One of them completes late: it is not timed out.
    static const enum wire_outcome_kind ran[] = {WIRE_OUTCOME_ACTIVATED, WIRE_OUTCOME_RAN};
    assert_int_equal(rig_report(&rig, &fleet.devices[3], &view, ran, 2), 204);
    rig_advance_s(&rig, GW_EXECUTION_TIMEOUT_S);
    rig_settle(&rig);
    rig_view(&rig, 0x71, &view);
    assert_int_equal(view.counts.timed_out, DEVICES - 1);
    assert_int_equal(view.counts.succeeded, 1);
    assert_true(view.state == POL_ROLLOUT_ROLLING_BACK || view.state == POL_ROLLOUT_ROLLED_BACK);
    rig_done(&rig);
}

// The disk is full when a rollout has to go back: nobody new gets the bad version meanwhile.
static void test_full_disk_halts_a_failed_rollout(void **state)
{
    (void)state;
    struct rig rig;
    static struct fleet fleet;
    struct wire_sha256 v1;
    struct gw_rollout_view view;
    struct base_error error = {0};
    struct rlimit limit;
    struct rig_exchange exchange;
    struct wire_offers offers;
    rig_init(&rig);
    rig_start(&rig);
    fleet_init(&fleet);
    rig_version(&rig, "t", "1.0.0", &v1);
    assert_int_equal(rig_rollout(&rig, 0x81, "t", &v1, NULL, NULL, staged + 3, 1, &view, &error),
                     BASE_OK);
    rig_command(&rig, 0x81, POL_COMMAND_START, NULL);
    rig.control_thread = true; // from here on only this test ticks
    for (uint32_t i = 0; i < 30; i++) {
        assert_int_equal(rig_checkin(&rig, &fleet.devices[i], true, &exchange, &offers), 200);
        rig_exchange_done(&exchange);
        assert_int_equal(rig_report(&rig, &fleet.devices[i], &view, bad, 3), 204);
    }
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    struct rlimit none = limit;
    none.rlim_cur = 4096;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    assert_false(gw_rollouts_tick(rig.core));
    (void)rig_pump(&rig);
    int status = rig_checkin(&rig, &fleet.devices[100], true, &exchange, &offers);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_int_equal(status, 204);
    rig_exchange_done(&exchange);
    rig_view(&rig, 0x81, &view);
    assert_int_equal(view.state, POL_ROLLOUT_RUNNING);
    rig_settle(&rig);
    rig_view(&rig, 0x81, &view);
    assert_int_equal(view.state,
                     POL_ROLLOUT_ROLLED_BACK); // those that failed went back by themselves
    rig_done(&rig);
}

// Which release may follow is one for the whole rollout, whichever stage a device came in with.
static void test_stages_say_one_floor(void **state)
{
    (void)state;
    struct rig rig;
    struct wire_sha256 v1;
    struct gw_rollout_view view;
    struct base_error error = {0};
    static uint64_t floors[4];
    rig_init(&rig);
    rig_start(&rig);
    rig_version(&rig, "t", "1.0.0", &v1);
    assert_int_equal(rig_rollout(&rig, 1, "t", &v1, NULL, NULL, staged, 4, &view, &error), BASE_OK);
    assert_true(view.release_counter == 1 && view.floor == 0);
    rig.floors = floors;
    floors[1] = 2;
    floors[2] = 2;
    floors[3] = 1;
    assert_int_equal(rig_rollout(&rig, 2, "t", &v1, NULL, NULL, staged, 4, &view, &error),
                     BASE_ERR_INVALID);
    assert_non_null(strstr(error.text, "stage 4: statement: floor differs"));
    floors[3] = 2;
    assert_int_equal(rig_rollout(&rig, 2, "t", &v1, NULL, NULL, staged, 4, &view, &error), BASE_OK);
    assert_true(view.release_counter == 2 && view.floor == 2);
    rig_stop(&rig);
    rig_start(&rig); // as stored
    rig_view(&rig, 2, &view);
    assert_true(view.floor == 2);
    rig_done(&rig);
}

static void test_create_refuses(void **state)
{
    (void)state;
    struct rig rig;
    struct wire_sha256 v1;
    struct wire_sha256 other = {{9}};
    struct gw_rollout_view view;
    struct base_error error = {0};
    rig_init(&rig);
    rig_start(&rig);
    rig_version(&rig, "t", "1.0.0", &v1);
    assert_int_equal(rig_rollout(&rig, 1, "t", &other, NULL, NULL, staged, 4, &view, &error),
                     BASE_ERR_NOT_FOUND);
    static const struct rig_stage shrinking[] = {
        {"a", POL_STAGE_GRAY, 500, NULL, NULL, 1, 0, 0},
        {"b", POL_STAGE_GRAY, 100, NULL, NULL, 1, 0, 0},
    };
    assert_int_equal(rig_rollout(&rig, 1, "t", &v1, NULL, NULL, shrinking, 2, &view, &error),
                     BASE_ERR_INVALID);
    static const struct rig_stage named[] = {
        {"bad\tname", POL_STAGE_FULL, 10000, NULL, NULL, 1, 0, 0}};
    assert_int_equal(rig_rollout(&rig, 1, "t", &v1, NULL, NULL, named, 1, &view, &error),
                     BASE_ERR_INVALID);
    assert_int_equal(rig_rollout(&rig, 1, "t", &v1, NULL, NULL, staged, 4, &view, &error), BASE_OK);
    assert_int_equal(rig_rollout(&rig, 1, "t", &v1, NULL, NULL, staged, 4, &view, &error),
                     BASE_ERR_EXISTS);
    for (uint64_t id = 2; id <= GW_TASK_OPEN_MAX; id++) {
        assert_int_equal(rig_rollout(&rig, id, "t", &v1, NULL, NULL, staged, 4, &view, &error),
                         BASE_OK);
    }
    assert_int_equal(rig_rollout(&rig, 90, "t", &v1, NULL, NULL, staged, 4, &view, &error),
                     BASE_ERR_CONFLICT);
    assert_int_equal(gw_rollout_command(rig.core, 1, POL_COMMAND_RESUME, NULL, &error),
                     BASE_ERR_CONFLICT);
    assert_int_equal(gw_rollout_command(rig.core, 99, POL_COMMAND_START, NULL, &error),
                     BASE_ERR_NOT_FOUND);
    const struct gw_rollout_ask ask = {.limit = 4};
    struct gw_rollout_page page;
    assert_int_equal(gw_rollout_page(rig.core, &ask, &page), BASE_OK);
    assert_int_equal(page.count, 4);
    assert_true(page.more);
    rig_done(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_rollout_completes),
        cmocka_unit_test(test_bad_rollout_goes_back),
        cmocka_unit_test(test_first_version_is_removed),
        cmocka_unit_test(test_unreachable_devices_do_not_hold_the_rollback),
        cmocka_unit_test(test_restart_goes_on),
        cmocka_unit_test(test_pause_offers_nothing_new),
        cmocka_unit_test(test_silence_counts_as_failure),
        cmocka_unit_test(test_full_disk_halts_a_failed_rollout),
        cmocka_unit_test(test_stages_say_one_floor),
        cmocka_unit_test(test_create_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
