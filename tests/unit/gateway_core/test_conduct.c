// How stages are conducted, against the real core and store: control cohorts, silence, rates, caps,
// windows, retries, approval, undo and kill; the log of each replays; and a gateway that is killed
// at every record of the log decides as one that is not.
#include "core_rig.h"

#include "base/prng.h"
#include "policy/bucket.h"
#include "svc/rollout_state.h"
#include "svc/why.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define DEVICES 200u

static const enum wire_outcome_kind good[] = {WIRE_OUTCOME_DOWNLOADED, WIRE_OUTCOME_ACTIVATED,
                                              WIRE_OUTCOME_RAN};
static const enum wire_outcome_kind bad[] = {WIRE_OUTCOME_DOWNLOADED, WIRE_OUTCOME_ACTIVATED,
                                             WIRE_OUTCOME_FAIL_EXCEPTION, WIRE_OUTCOME_ROLLED_BACK};

static struct rig_device devices[DEVICES];

static void make_devices(void)
{
    for (uint32_t i = 0; i < DEVICES; i++) {
        rig_device_init(&devices[i], base_mix64(i + 1));
        rig_device_attr(&devices[i], "os", i % 2 == 0 ? "android" : "ios");
    }
}

static void open_rig(struct rig *rig, void (*conduct)(struct pol_stage *stage, uint32_t index))
{
    rig_init(rig);
    rig_start(rig);
    make_devices();
    rig->conduct = conduct;
}

static const struct rig_stage gray_full[] = {
    {"gray", POL_STAGE_GRAY, 2000, NULL, NULL, 5, 200000, 0},
    {"full", POL_STAGE_FULL, 10000, NULL, NULL, 20, 200000, 0},
};

static void begin(struct rig *rig, uint64_t id, const struct rig_stage *stages, uint32_t count)
{
    struct wire_sha256 manifest;
    struct gw_rollout_view view;
    struct base_error error = {0};
    char version[16];
    snprintf(version, sizeof(version), "1.0.%u", (unsigned)id);
    rig_version(rig, "shop/score", version, &manifest);
    enum base_status status =
        rig_rollout(rig, id, "shop/score", &manifest, NULL, NULL, stages, count, &view, &error);
    if (status != BASE_OK) {
        fail_msg("rollout: %s", error.text);
    }
}

// One check-in; takes what is offered and reports it when `kinds` are given. Returns the offers.
static uint32_t come(struct rig *rig, struct rig_device *device, uint64_t id,
                     const enum wire_outcome_kind *kinds, uint32_t count, uint32_t *out_next_s)
{
    struct rig_exchange exchange;
    struct wire_offers offers;
    struct gw_rollout_view view;
    (void)rig_checkin(rig, device, true, &exchange, &offers);
    uint32_t took = offers.count;
    if (out_next_s != NULL) {
        *out_next_s = offers.next_checkin_s;
    }
    if (kinds != NULL && offers.count > 0) {
        static const enum wire_outcome_kind back[] = {WIRE_OUTCOME_ROLLED_BACK};
        struct wire_release release;
        rig_offer_release(&offers, 0, &release);
        bool forth = release.kind == WIRE_RELEASE_INSTALL;
        (void)rig_device_take(device, &offers);
        rig_view(rig, id, &view);
        assert_int_equal(rig_report(rig, device, &view, forth ? kinds : back, forth ? count : 1),
                         204);
    }
    rig_exchange_done(&exchange);
    return took;
}

static uint32_t all_come(struct rig *rig, uint64_t id, const enum wire_outcome_kind *kinds,
                         uint32_t count)
{
    uint32_t took = 0;
    for (uint32_t i = 0; i < DEVICES; i++) {
        took += come(rig, &devices[i], id, kinds, count, NULL);
    }
    rig_settle(rig);
    return took;
}

// Every decision of the log is found again from its own records; the replay ends where the rollout
// is.
static void expect_replay(struct rig *rig, uint64_t id)
{
    static struct gw_rollout_log_view lines[GW_PAGE_MAX];
    const struct gw_rollout *rollout = gw_catalog_find_rollout(rig->core, id);
    struct pol_replay replay;
    uint32_t count = 0;
    uint64_t after = 0;
    bool more = true;
    rig_settle(rig);
    pol_replay_init(&replay, rollout->created_us);
    while (more) {
        assert_int_equal(gw_rollout_log(rig->core, id, after, GW_PAGE_MAX, lines, &count, &more),
                         BASE_OK);
        for (uint32_t i = 0; i < count; i++) {
            bool differs = false;
            (void)pol_replay_step(&replay, rollout->release->stages, rollout->release->stage_count,
                                  &lines[i].record, &differs);
            if (differs) {
                fail_msg("record %llu: recorded %s %s, replayed %s",
                         (unsigned long long)lines[i].seq, pol_action_name(lines[i].record.action),
                         pol_rollout_state_name(lines[i].record.after.state),
                         pol_rollout_state_name(replay.rollout.state));
            }
            after = lines[i].seq;
        }
    }
    assert_true(replay.records > 1);
    assert_true(pol_rollout_equal(&replay.rollout, &rollout->state));
}

// ---- Control and silence

static void compared(struct pol_stage *stage, uint32_t index)
{
    stage->gate.rule = POL_GATE_SEQUENTIAL;
    stage->gate.max_rise_ppm = index == 0 ? 50000 : POL_TEST_NOT_ASKED;
    stage->gate.alpha_ppm = 50000;
    stage->gate.beta_ppm = 100000;
    stage->gate.max_silence_percent = 200;
    stage->control_buckets = index == 0 ? 4000 : 0;
    stage->observe_s = 300;
    stage->silence_s = 1800;
}

static void control_is_drawn_beside_the_stage(void **state)
{
    (void)state;
    struct rig rig;
    struct gw_rollout_view view;
    open_rig(&rig, compared);
    uint32_t updated = 0;
    uint32_t beside = 0;
    begin(&rig, 0x11, gray_full, 2);
    rig_command(&rig, 0x11, POL_COMMAND_START, &view);
    for (uint32_t i = 0; i < DEVICES; i++) {
        uint16_t bucket = pol_bucket(devices[i].id, view.salt);
        updated += bucket < 2000;
        beside += bucket >= 2000 && bucket < 6000;
    }
    assert_int_equal(all_come(&rig, 0x11, good, 3), updated);
    rig_settle(&rig);
    rig_view(&rig, 0x11, &view);
    assert_int_equal(view.stages[0].counts.eligible, updated);
    assert_int_equal(view.stages[0].counts.online, updated);
    assert_int_equal(view.stages[0].counts.offered, updated);
    assert_int_equal(view.stages[0].counts.control, beside);
    assert_int_equal(view.stages[0].counts.control_completed, 0);
    // They complete by coming again after the time of observation; a restart forgets nobody.
    rig_advance_s(&rig, 299);
    (void)all_come(&rig, 0x11, good, 3);
    rig_view(&rig, 0x11, &view);
    assert_int_equal(view.stages[0].counts.control_completed, 0);
    rig_stop(&rig);
    rig_start(&rig);
    rig_advance_s(&rig, 2);
    (void)all_come(&rig, 0x11, good, 3);
    rig_settle(&rig);
    rig_view(&rig, 0x11, &view);
    assert_int_equal(view.stages[0].counts.control, beside);
    assert_int_equal(view.stages[0].counts.control_completed, beside);
    assert_int_equal(view.stages[0].counts.control_failed, 0);
    assert_int_equal(view.stages[0].counts.succeeded, updated);
    assert_int_equal(view.stage_index, 0); // some forty good devices show no rate below 20 %
    expect_replay(&rig, 0x11);
    rig_expect_counts_from_disk(&rig);
    // Promoted, control devices are let in like everybody, and are control no more.
    rig_command(&rig, 0x11, POL_COMMAND_PROMOTE, NULL);
    assert_int_equal(all_come(&rig, 0x11, good, 3), DEVICES - updated);
    rig_settle(&rig);
    rig_view(&rig, 0x11, &view);
    assert_int_equal(view.stages[0].counts.control, 0);
    assert_int_equal(view.counts.succeeded, DEVICES);
    rig_expect_counts_from_disk(&rig);
    expect_replay(&rig, 0x11);
    rig_done(&rig);
}

// What fails on the updated devices and not on control ends the stage long before the limit.
static void a_rise_over_control_goes_back(void **state)
{
    (void)state;
    struct rig rig;
    struct gw_rollout_view view;
    static const struct rig_stage lenient[] = {
        {"gray", POL_STAGE_GRAY, 4000, NULL, NULL, 5, 900000, 0},
        {"full", POL_STAGE_FULL, 10000, NULL, NULL, 20, 900000, 0},
    };
    open_rig(&rig, compared);
    begin(&rig, 0x12, lenient, 2);
    rig_command(&rig, 0x12, POL_COMMAND_START, NULL);
    for (uint32_t i = 0; i < DEVICES; i++) { // control first, twice
        (void)come(&rig, &devices[i], 0x12, NULL, 0, NULL);
    }
    rig_settle(&rig);
    rig_advance_s(&rig, 400);
    for (uint32_t i = 0; i < DEVICES; i++) {
        (void)come(&rig, &devices[i], 0x12, NULL, 0, NULL);
    }
    rig_settle(&rig);
    uint32_t exposed = 0;
    for (uint32_t i = 0; i < DEVICES; i++) {
        bool fails = i % 2 == 0;
        exposed += come(&rig, &devices[i], 0x12, fails ? bad : good, fails ? 4 : 3, NULL);
        rig_settle(&rig);
        rig_view(&rig, 0x12, &view);
        if (view.state != POL_ROLLOUT_RUNNING) {
            break;
        }
    }
    rig_settle(&rig);
    rig_view(&rig, 0x12, &view);
    assert_true(view.stage_failed);
    assert_int_equal(view.reason == POL_REASON_RISE_OVER_CONTROL ||
                         view.state == POL_ROLLOUT_ROLLED_BACK ||
                         view.state == POL_ROLLOUT_ROLLING_BACK,
                     true);
    assert_in_range(exposed, 4, 60);
    expect_replay(&rig, 0x12);
    rig_done(&rig);
}

static void who_falls_silent_counts(void **state)
{
    (void)state;
    struct rig rig;
    struct gw_rollout_view view;
    open_rig(&rig, compared);
    begin(&rig, 0x13, gray_full, 2);
    rig_command(&rig, 0x13, POL_COMMAND_START, &view);
    uint32_t updated = all_come(&rig, 0x13, good, 3);
    // From now on the updated are never heard of again; the others come as always.
    for (uint32_t round = 0; round < 12; round++) {
        rig_advance_s(&rig, 300);
        for (uint32_t i = 0; i < DEVICES; i++) {
            if (pol_bucket(devices[i].id, view.salt) >= 2000) {
                (void)come(&rig, &devices[i], 0x13, NULL, 0, NULL);
            }
        }
        rig_settle(&rig);
    }
    rig_view(&rig, 0x13, &view);
    assert_int_equal(view.stages[0].counts.silent, updated);
    assert_int_equal(view.stages[0].counts.control_silent, 0);
    assert_true(view.stage_failed);
    expect_replay(&rig, 0x13);
    rig_done(&rig);
}

// After a restart the disk knows check-ins of an hour ago at best: nobody is silent at once.
static void a_restart_makes_nobody_silent(void **state)
{
    (void)state;
    struct rig rig;
    struct gw_rollout_view view;
    open_rig(&rig, compared);
    begin(&rig, 0x14, gray_full, 2);
    rig_command(&rig, 0x14, POL_COMMAND_START, &view);
    (void)all_come(&rig, 0x14, good, 3);
    for (uint32_t round = 0; round < 10; round++) {
        rig_advance_s(&rig, 300);
        (void)all_come(&rig, 0x14, good, 3);
    }
    rig_stop(&rig);
    rig_start(&rig);
    rig_settle(&rig);
    rig_view(&rig, 0x14, &view);
    assert_int_equal(view.counts.silent, 0);
    assert_int_equal(view.state, POL_ROLLOUT_RUNNING);
    rig_done(&rig);
}

// ---- Rates, caps, windows

static const struct rig_stage everybody[] = {
    {"full", POL_STAGE_FULL, 10000, NULL, NULL, 1000, 200000, 0},
};

static void slow(struct pol_stage *stage, uint32_t index)
{
    (void)index;
    stage->pace.per_minute = 30;
}

static void a_rate_holds_offers_back(void **state)
{
    (void)state;
    struct rig rig;
    struct gw_rollout_view view;
    open_rig(&rig, slow);
    begin(&rig, 0x21, everybody, 1);
    rig_command(&rig, 0x21, POL_COMMAND_START, &view);
    uint32_t took = 0;
    uint32_t next_s = 0;
    for (uint32_t second = 0; second < 120; second++) {
        for (uint32_t i = 0; i < DEVICES; i++) {
            took += come(&rig, &devices[i], 0x21, good, 3, &next_s);
            assert_true(took <= 30 * second / 60 + 2);
        }
        rig_advance_s(&rig, 1);
        rig_settle(&rig);
    }
    assert_in_range(took, 56, 62);
    assert_int_equal(next_s, 60); // who was held back comes again sooner than in five minutes
    rig_view(&rig, 0x21, &view);
    assert_int_equal(view.counts.offered, took);
    rig_done(&rig);
}

static void few_at_once(struct pol_stage *stage, uint32_t index)
{
    (void)index;
    stage->pace.in_flight_max = 5;
}

static void a_cap_bounds_what_is_under_way(void **state)
{
    (void)state;
    struct rig rig;
    struct gw_rollout_view view;
    open_rig(&rig, few_at_once);
    begin(&rig, 0x22, everybody, 1);
    rig_command(&rig, 0x22, POL_COMMAND_START, &view);
    uint32_t took = 0;
    for (uint32_t i = 0; i < DEVICES; i++) {
        took += come(&rig, &devices[i], 0x22, NULL, 0, NULL); // offered, and nothing comes of it
    }
    assert_int_equal(took, 5);
    rig_settle(&rig);
    for (uint32_t i = 0; i < DEVICES; i++) {
        took += come(&rig, &devices[i], 0x22, NULL, 0, NULL);
    }
    assert_int_equal(took, 10); // the same five are told again, and take no further place
    rig_stop(&rig);
    rig_start(&rig);
    rig_settle(&rig);
    for (uint32_t i = 0; i < DEVICES; i++) {
        took += come(&rig, &devices[i], 0x22, NULL, 0, NULL);
    }
    assert_int_equal(took, 15); // also after a restart
    for (uint32_t i = 0, done = 0; i < DEVICES && done < 2; i++) {
        done += come(&rig, &devices[i], 0x22, good, 3, NULL);
    }
    rig_settle(&rig);
    rig_view(&rig, 0x22, &view);
    assert_int_equal(view.counts.succeeded, 2);
    took = 0;
    for (uint32_t i = 0; i < DEVICES; i++) {
        took += come(&rig, &devices[i], 0x22, NULL, 0, NULL);
    }
    assert_int_equal(took, 5); // three old ones and two new ones
    rig_done(&rig);
}

static void at_night(struct pol_stage *stage, uint32_t index)
{
    (void)index;
    stage->window_count = 1;
    stage->windows[0] =
        (struct pol_window){.weekdays = 127, .start_min = 2 * 60, .minutes = 60, .device_time = 1};
}

static void windows_hold_offers_back(void **state)
{
    (void)state;
    struct rig rig;
    struct gw_rollout_view view;
    open_rig(&rig, at_night);
    // Some live three hours ahead of UTC.
    for (uint32_t i = 0; i < DEVICES; i += 4) {
        devices[i].attrs.items[devices[i].attrs.count++] = (struct wire_attr){
            .name = BASE_STR("utc_offset_min"), .type = WIRE_ATTR_INTEGER, .integer = 180};
    }
    rig.wall_us = UINT64_C(1790000000) / 86400 * 86400 * 1000000u; // midnight UTC, 3 o'clock there
    rig_stop(&rig);
    rig_start(&rig);
    begin(&rig, 0x23, everybody, 1);
    rig_command(&rig, 0x23, POL_COMMAND_START, &view);
    uint32_t next_s = 0;
    assert_int_equal(come(&rig, &devices[1], 0x23, good, 3, &next_s), 0);
    rig_advance_s(&rig, 7200 - 100);
    assert_int_equal(come(&rig, &devices[1], 0x23, good, 3, &next_s), 0);
    assert_int_equal(next_s, 100);
    assert_int_equal(all_come(&rig, 0x23, good, 3), 0);
    rig_advance_s(&rig, 100); // 2 o'clock UTC
    assert_int_equal(all_come(&rig, 0x23, good, 3), DEVICES - DEVICES / 4);
    rig_advance_s(&rig, 3600);
    assert_int_equal(all_come(&rig, 0x23, good, 3), 0);
    rig_advance_s(&rig, 20 * 3600); // 23 o'clock UTC, 2 o'clock there
    assert_int_equal(all_come(&rig, 0x23, good, 3), DEVICES / 4);
    rig_done(&rig);
}

// ---- Withdrawal

static bool count_hint(void *ctx, struct gw_hint *hint, struct base_str text)
{
    uint64_t *seen = ctx;
    (void)text;
    seen[0]++;
    seen[1] = hint->device_id;
    return true;
}

static void subscribe(struct rig *rig, const struct rig_device *device, struct gw_hint *hint)
{
    struct rig_exchange exchange;
    char hex[WIRE_DEVICE_HEX + 1];
    char text[WIRE_PROFILE_TEXT_MAX + 4];
    wire_device_hex(device->id, hex);
    rig_exchange_init(&exchange, GW_METHOD_GET, "/v1/push");
    exchange.exchange.request.device = base_str_of(hex);
    exchange.exchange.request.profile = rig_device_profile(device, true, text);
    rig_run(rig, &exchange);
    gw_worker_subscribe(rig->worker.worker, &exchange.exchange, hint);
    rig_exchange_done(&exchange);
}

// A pause reaches the device that is still pulling, by a hint and an answer without the offer; who
// has it already is left alone.
static void a_pause_withdraws_what_is_under_way(void **state)
{
    (void)state;
    struct rig rig;
    uint64_t hinted[2] = {0, 0};
    struct gw_hint hints[2];
    open_rig(&rig, NULL);
    begin(&rig, 0x24, everybody, 1);
    rig_command(&rig, 0x24, POL_COMMAND_START, NULL);
    gw_worker_on_hint(rig.worker.worker, count_hint, NULL, hinted);
    assert_int_equal(come(&rig, &devices[0], 0x24, good, 3, NULL), 1);
    assert_int_equal(come(&rig, &devices[1], 0x24, NULL, 0, NULL), 1); // pulls from now on
    subscribe(&rig, &devices[0], &hints[0]);
    subscribe(&rig, &devices[1], &hints[1]);
    rig_settle(&rig);
    hinted[0] = 0;
    rig_command(&rig, 0x24, POL_COMMAND_PAUSE, NULL);
    rig_settle(&rig);
    assert_int_equal(hinted[0], 1);
    assert_true(hinted[1] == devices[1].id);
    assert_int_equal(come(&rig, &devices[1], 0x24, NULL, 0, NULL), 0);
    rig_command(&rig, 0x24, POL_COMMAND_RESUME, NULL);
    assert_int_equal(come(&rig, &devices[1], 0x24, NULL, 0, NULL), 1);
    gw_worker_unsubscribe(rig.worker.worker, &hints[0]);
    gw_worker_unsubscribe(rig.worker.worker, &hints[1]);
    rig_done(&rig);
}

// ---- Retries

static void twice(struct pol_stage *stage, uint32_t index)
{
    (void)index;
    stage->retries[POL_FAILURE_EXCEPTION] = 2;
}

static void may_try_again(struct rig *rig, struct rig_device *device, uint64_t version_id)
{
    struct rig_exchange exchange;
    struct wire_offers offers;
    struct wire_profile_pair *pair = rig_device_task(device, "shop/score");
    pair->version_id = 0;
    pair->blocked_version_id = version_id;
    for (int again = 0; again < 2; again++) { // an answer that was lost costs no attempt
        assert_int_equal(rig_checkin(rig, device, true, &exchange, &offers), 200);
        assert_int_equal(offers.count, 1);
        assert_int_equal(offers.flags, WIRE_OFFER_FLAG_RETRY);
        rig_exchange_done(&exchange);
    }
    pair->blocked_version_id = 0;
    pair->version_id = version_id;
}

static void failures_of_a_class_may_be_tried_again(void **state)
{
    (void)state;
    struct rig rig;
    struct gw_rollout_view view;
    static const enum wire_outcome_kind memory[] = {WIRE_OUTCOME_ACTIVATED,
                                                    WIRE_OUTCOME_FAIL_MEMORY};
    open_rig(&rig, twice);
    begin(&rig, 0x31, everybody, 1);
    rig_command(&rig, 0x31, POL_COMMAND_START, &view);
    struct rig_device *device = &devices[0];
    assert_int_equal(come(&rig, device, 0x31, bad, 4, NULL), 1);
    rig_settle(&rig);
    rig_view(&rig, 0x31, &view);
    assert_int_equal(view.counts.failed, 0);
    assert_int_equal(view.counts.retrying, 1);
    may_try_again(&rig, device, view.version_id);
    rig_settle(&rig);
    rig_stop(&rig); // attempts are not forgotten
    rig_start(&rig);
    assert_int_equal(rig_report(&rig, device, &view, bad, 4), 204);
    rig_settle(&rig);
    rig_view(&rig, 0x31, &view);
    assert_int_equal(view.counts.retrying, 1);
    may_try_again(&rig, device, view.version_id);
    assert_int_equal(rig_report(&rig, device, &view, bad, 4), 204); // the third and last
    rig_settle(&rig);
    rig_view(&rig, 0x31, &view);
    assert_int_equal(view.counts.failed, 1);
    assert_int_equal(view.counts.retrying, 0);
    rig_device_task(device, "shop/score")->version_id = 0;
    rig_device_task(device, "shop/score")->blocked_version_id = view.version_id;
    assert_int_equal(come(&rig, device, 0x31, NULL, 0, NULL), 0);
    // One that succeeds at last counts as a success; another class has no second attempt.
    assert_int_equal(come(&rig, &devices[1], 0x31, bad, 4, NULL), 1);
    may_try_again(&rig, &devices[1], view.version_id);
    assert_int_equal(rig_report(&rig, &devices[1], &view, good, 3), 204);
    assert_int_equal(come(&rig, &devices[2], 0x31, memory, 2, NULL), 1);
    rig_settle(&rig);
    rig_view(&rig, 0x31, &view);
    assert_int_equal(view.counts.succeeded, 1);
    assert_int_equal(view.counts.failed, 2);
    assert_int_equal(view.counts.retrying, 0);
    rig_expect_counts_from_disk(&rig);
    rig_done(&rig);
}

// ---- People

static void guarded(struct pol_stage *stage, uint32_t index)
{
    stage->approval = index == 1;
}

static enum base_status ask(struct rig *rig, uint64_t id, enum pol_command command, const char *by,
                            uint64_t if_revision)
{
    struct gw_rollout_view view;
    struct base_error error = {0};
    struct gw_rollout_who who = {.by = base_str_of(by), .if_revision = if_revision};
    enum base_status status = gw_rollout_command(rig->core, id, command, &who, &view, &error);
    (void)rig_pump(rig);
    return status;
}

static void another_person_approves(void **state)
{
    (void)state;
    struct rig rig;
    struct gw_rollout_view view;
    open_rig(&rig, guarded);
    begin(&rig, 0x41, gray_full, 2);
    rig_view(&rig, 0x41, &view);
    assert_string_equal(view.created_by, "rig");
    assert_int_equal(view.revision, 1);
    assert_int_equal(ask(&rig, 0x41, POL_COMMAND_START, "rig", 2), BASE_ERR_CONFLICT);
    assert_int_equal(ask(&rig, 0x41, POL_COMMAND_START, "rig", 1), BASE_OK);
    uint32_t gray = all_come(&rig, 0x41, good, 3);
    rig_settle(&rig);
    rig_view(&rig, 0x41, &view);
    assert_int_equal(view.state, POL_ROLLOUT_WAITING);
    assert_int_equal(all_come(&rig, 0x41, good, 3), 0); // the next stage is shut
    assert_int_equal(ask(&rig, 0x41, POL_COMMAND_PROMOTE, "eve", 0), BASE_ERR_CONFLICT);
    assert_int_equal(ask(&rig, 0x41, POL_COMMAND_APPROVE, "", 0), BASE_ERR_INVALID);
    assert_int_equal(ask(&rig, 0x41, POL_COMMAND_APPROVE, "rig", 0), BASE_ERR_CONFLICT);
    rig_stop(&rig);
    rig_start(&rig);
    assert_int_equal(ask(&rig, 0x41, POL_COMMAND_APPROVE, "rig", 0), BASE_ERR_CONFLICT);
    assert_int_equal(ask(&rig, 0x41, POL_COMMAND_APPROVE, "eve", view.revision), BASE_OK);
    assert_int_equal(all_come(&rig, 0x41, good, 3), DEVICES - gray);
    rig_settle(&rig);
    rig_view(&rig, 0x41, &view);
    assert_int_equal(view.state, POL_ROLLOUT_COMPLETED);
    expect_replay(&rig, 0x41);
    rig_done(&rig);
}

static uint32_t count_on(uint64_t version_id)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < DEVICES; i++) {
        count += rig_device_task(&devices[i], "shop/score")->version_id == version_id;
    }
    return count;
}

static void a_completed_rollout_is_undone_and_killed(void **state)
{
    (void)state;
    struct rig rig;
    struct gw_rollout_view first;
    struct gw_rollout_view view;
    struct gw_task_view task;
    struct base_error error = {0};
    open_rig(&rig, NULL);
    begin(&rig, 0x51, gray_full, 2);
    rig_command(&rig, 0x51, POL_COMMAND_START, NULL);
    (void)all_come(&rig, 0x51, good, 3);
    (void)all_come(&rig, 0x51, good, 3);
    rig_view(&rig, 0x51, &first);
    assert_int_equal(first.state, POL_ROLLOUT_COMPLETED);
    begin(&rig, 0x52, gray_full, 2);
    rig_command(&rig, 0x52, POL_COMMAND_START, NULL);
    (void)all_come(&rig, 0x52, good, 3);
    (void)all_come(&rig, 0x52, good, 3);
    rig_view(&rig, 0x52, &view);
    assert_int_equal(view.state, POL_ROLLOUT_COMPLETED);
    assert_int_equal(count_on(view.version_id), DEVICES);
    assert_int_equal(ask(&rig, 0x51, POL_COMMAND_UNDO, "ana", 0), BASE_ERR_CONFLICT);
    assert_int_equal(ask(&rig, 0x52, POL_COMMAND_UNDO, "ana", 0), BASE_OK);
    (void)all_come(&rig, 0x52, good, 3);
    assert_int_equal(count_on(first.version_id), DEVICES);
    rig_view(&rig, 0x52, &view);
    assert_int_equal(view.state, POL_ROLLOUT_ROLLED_BACK);
    assert_int_equal(gw_catalog_task_get(rig.core, BASE_STR("shop/score"), &task), BASE_OK);
    assert_int_equal(task.baseline_rollout, 0x51);
    expect_replay(&rig, 0x52);
    // Newer statements are out: 0x51 cannot be undone, but it can be killed, and then nobody runs
    // it, and it is not released again.
    assert_int_equal(ask(&rig, 0x51, POL_COMMAND_UNDO, "ana", 0), BASE_ERR_CONFLICT);
    assert_int_equal(ask(&rig, 0x52, POL_COMMAND_KILL, "ana", 0), BASE_OK);
    assert_int_equal(ask(&rig, 0x52, POL_COMMAND_KILL, "ana", 0), BASE_ERR_CONFLICT);
    rig_stop(&rig);
    rig_start(&rig);
    rig_view(&rig, 0x52, &view);
    assert_true(view.killed);
    enum base_status status = rig_rollout(&rig, 0x53, "shop/score", &view.manifest, NULL, NULL,
                                          gray_full, 2, &view, &error);
    assert_int_equal(status, BASE_ERR_CONFLICT);
    assert_non_null(strstr(error.text, "killed"));
    rig_done(&rig);
}

// ---- Quarantine

static bool is_bad_model(uint32_t i)
{
    return i % 8 == 3;
}

static uint32_t bad_round(struct rig *rig, uint64_t id)
{
    uint32_t took = 0;
    for (uint32_t i = 0; i < DEVICES; i++) {
        bool fails = is_bad_model(i) && i % 3 != 0; // two in three of that model
        took += come(rig, &devices[i], id, fails ? bad : good, fails ? 4 : 3, NULL);
        rig_settle(rig);
    }
    return took;
}

// One model fails; the rollout goes on without it, takes those back that have it, and completes.
static void a_bad_segment_is_taken_out_and_the_rest_goes_on(void **state)
{
    (void)state;
    struct rig rig;
    struct gw_rollout_view first;
    struct gw_rollout_view view;
    struct base_error error = {0};
    static const struct rig_stage half[] = {
        {"gray", POL_STAGE_GRAY, 5000, NULL, NULL, 60, 50000, 0},
        {"full", POL_STAGE_FULL, 10000, NULL, NULL, 60, 50000, 0},
    };
    open_rig(&rig, NULL);
    for (uint32_t i = 0; i < DEVICES; i++) {
        static char models[8][8];
        snprintf(models[i % 8], sizeof(models[0]), "SM-%u", i % 8);
        rig_device_attr(&devices[i], "model", models[i % 8]);
    }
    begin(&rig, 0x81, gray_full, 2);
    rig_command(&rig, 0x81, POL_COMMAND_START, NULL);
    (void)all_come(&rig, 0x81, good, 3);
    (void)all_come(&rig, 0x81, good, 3);
    rig_view(&rig, 0x81, &first);
    assert_int_equal(first.state, POL_ROLLOUT_COMPLETED);
    begin(&rig, 0x82, half, 2);
    rig_command(&rig, 0x82, POL_COMMAND_START, NULL);
    (void)bad_round(&rig, 0x82);
    rig_view(&rig, 0x82, &view);
    assert_int_equal(view.quarantine_count, 1);
    assert_string_equal(view.quarantine[0].text, "model=SM-3 os=ios");
    assert_true(view.state == POL_ROLLOUT_RUNNING || view.state == POL_ROLLOUT_COMPLETED);
    rig_stop(&rig); // it stays out
    rig_start(&rig);
    (void)bad_round(&rig, 0x82);
    (void)bad_round(&rig, 0x82);
    rig_view(&rig, 0x82, &view);
    assert_int_equal(view.state, POL_ROLLOUT_COMPLETED);
    for (uint32_t i = 0; i < DEVICES; i++) {
        uint64_t runs = rig_device_task(&devices[i], "shop/score")->version_id;
        // Those that failed went back by themselves; here they only report it.
        bool failed_alone = is_bad_model(i) && runs == view.version_id && i % 3 != 0;
        if (!failed_alone && runs != (is_bad_model(i) ? first.version_id : view.version_id)) {
            fail_msg("device %u runs %llx", i, (unsigned long long)runs);
        }
    }
    expect_replay(&rig, 0x82);
    // Lifted, the segment gets it like everybody.
    struct gw_rollout_who who = {.by = BASE_STR("ana")};
    assert_int_equal(gw_rollout_lift(rig.core, 0x82, BASE_STR("model=SM-9"), &who, &view, &error),
                     BASE_ERR_NOT_FOUND);
    assert_int_equal(
        gw_rollout_lift(rig.core, 0x82, BASE_STR("model=SM-3 os=ios"), &who, &view, &error),
        BASE_OK);
    assert_int_equal(view.quarantine_count, 0);
    (void)rig_pump(&rig);
    struct rig_device late;
    rig_device_init(&late, 4711);
    rig_device_attr(&late, "os", "ios");
    rig_device_attr(&late, "model", "SM-3");
    assert_int_equal(come(&rig, &late, 0x82, good, 3, NULL), 1);
    rig_done(&rig);
}

// When half of all is bad, it is the release: everything goes back.
static void a_bad_release_is_no_bad_segment(void **state)
{
    (void)state;
    struct rig rig;
    struct gw_rollout_view view;
    open_rig(&rig, NULL);
    begin(&rig, 0x83, gray_full, 2);
    rig_command(&rig, 0x83, POL_COMMAND_START, NULL);
    (void)all_come(&rig, 0x83, bad, 4);
    rig_view(&rig, 0x83, &view);
    assert_int_equal(view.quarantine_count, 0);
    assert_true(view.stage_failed);
    rig_done(&rig);
}

// ---- Causes

static void causes_outlive_a_restart_and_explain_a_device(void **state)
{
    (void)state;
    struct rig rig;
    struct gw_rollout_view view;
    static struct gw_why_view why;
    struct base_error error = {0};
    static const struct rig_stage wide[] = {
        {"gray", POL_STAGE_GRAY, 5000, NULL, NULL, 1000, 900000, 0},
    };
    open_rig(&rig, NULL);
    begin(&rig, 0x71, wide, 1);
    rig_command(&rig, 0x71, POL_COMMAND_START, &view);
    uint32_t in = DEVICES;
    uint32_t out = DEVICES;
    for (uint32_t i = 0; i < DEVICES; i++) {
        bool let_in = pol_bucket(devices[i].id, view.salt) < 5000;
        in = let_in && in == DEVICES ? i : in;
        out = !let_in && out == DEVICES ? i : out;
    }
    assert_int_equal(come(&rig, &devices[in], 0x71, bad, 4, NULL), 1);
    assert_int_equal(come(&rig, &devices[out], 0x71, bad, 4, NULL), 0);
    rig_settle(&rig);
    for (int again = 0; again < 2; again++) {
        rig_view(&rig, 0x71, &view);
        assert_int_equal(view.fingerprint_count, 1);
        assert_int_equal(view.fingerprints[0].fingerprint, 4711);
        assert_int_equal(view.fingerprints[0].devices, 1);
        assert_int_equal(view.fingerprints[0].kind, WIRE_OUTCOME_FAIL_EXCEPTION);
        assert_string_equal(view.fingerprints[0].detail, "ValueError: bad");
        assert_int_equal(
            gw_device_why(rig.core, devices[in].id, BASE_STR("shop/score"), &why, &error), BASE_OK);
        assert_int_equal(why.rollout_count, 1);
        assert_true(why.rollouts[0].admitted);
        assert_int_equal(why.rollouts[0].reason, POL_REASON_IN_STAGE);
        assert_string_equal(why.rollouts[0].detail, "ValueError: bad");
        assert_int_equal(why.should_rollout, 0);
        assert_non_null(strstr(why.why, "failed on it"));
        assert_int_equal(
            gw_device_why(rig.core, devices[out].id, BASE_STR("shop/score"), &why, &error),
            BASE_OK);
        assert_int_equal(why.rollouts[0].reason, POL_REASON_OUTSIDE_BUCKET);
        assert_int_equal(why.rollouts[0].bits, 0);
        assert_true(why.rollouts[0].bucket >= why.rollouts[0].max_bucket);
        rig_stop(&rig);
        rig_start(&rig);
    }
    assert_int_equal(gw_device_why(rig.core, 12345, BASE_STR("shop/score"), &why, &error),
                     BASE_ERR_NOT_FOUND);
    assert_int_equal(gw_device_why(rig.core, devices[in].id, BASE_STR("other"), &why, &error),
                     BASE_ERR_NOT_FOUND);
    rig_done(&rig);
}

// ---- Killed at every record

#define CRASH_DEVICES 60u
#define STEPS         40u

static void crash_stages(struct pol_stage *stage, uint32_t index)
{
    stage->control_buckets = index == 0 ? 2000 : 0;
    stage->observe_s = 60;
    stage->silence_s = 3600;
    stage->approval = index == 2;
}

static const struct rig_stage ladder[] = {
    {"gray-20", POL_STAGE_GRAY, 2000, NULL, NULL, 5, 300000, 30000000},
    {"gray-50", POL_STAGE_GRAY, 5000, NULL, NULL, 8, 300000, 30000000},
    {"full", POL_STAGE_FULL, 10000, NULL, NULL, 20, 300000, 30000000},
};

// One step of the story: time passes, devices come, somebody commands.
static void step(struct rig *rig, uint32_t at, bool fails)
{
    rig_advance_s(rig, 20);
    for (uint32_t i = 0; i < CRASH_DEVICES; i++) {
        bool bad_one = fails && i % 3 == 0 && at > 8;
        if ((i + at) % 2 == 0) {
            (void)come(rig, &devices[i], 0x61, bad_one ? bad : good, bad_one ? 4 : 3, NULL);
        }
    }
    if (at == 2) {
        (void)ask(rig, 0x61, POL_COMMAND_START, "ana", 0);
    } else if (at == 6) {
        (void)ask(rig, 0x61, POL_COMMAND_PAUSE, "ana", 0);
    } else if (at == 8) {
        (void)ask(rig, 0x61, POL_COMMAND_RESUME, "ana", 0);
    } else if (at > 12) {
        (void)ask(rig, 0x61, POL_COMMAND_APPROVE, "eve", 0);
    }
    rig_settle(rig);
}

struct story {
    uint32_t count;
    struct pol_record records[64];
};

static void read_story(struct rig *rig, struct story *out)
{
    static struct gw_rollout_log_view lines[GW_PAGE_MAX];
    uint32_t count = 0;
    bool more = false;
    memset(out, 0, sizeof(*out));
    assert_int_equal(gw_rollout_log(rig->core, 0x61, 0, GW_PAGE_MAX, lines, &count, &more),
                     BASE_OK);
    assert_false(more);
    for (uint32_t i = 0; i < count; i++) {
        if (lines[i].kind != GW_LOG_OBSERVATION && out->count < 64) {
            out->records[out->count++] = lines[i].record;
        }
    }
}

static void expect_same_story(const struct story *a, const struct story *b, uint32_t killed_at)
{
    if (a->count != b->count) {
        fail_msg("killed at step %u: %u decisions, not %u", killed_at, b->count, a->count);
    }
    for (uint32_t i = 0; i < a->count; i++) {
        const struct pol_record *x = &a->records[i];
        const struct pol_record *y = &b->records[i];
        if (x->kind != y->kind || x->action != y->action || x->verdict != y->verdict ||
            x->reason != y->reason || x->command != y->command ||
            !pol_rollout_equal(&x->after, &y->after)) {
            fail_msg("killed at step %u: decision %u is %s in %s, not %s in %s", killed_at, i,
                     pol_action_name(y->action), pol_rollout_state_name(y->after.state),
                     pol_action_name(x->action), pol_rollout_state_name(x->after.state));
        }
    }
}

// A copy of the folder as a killed process leaves it, and what goes on from there.
static void go_on_from(const struct rig *rig, uint32_t at, bool fails, struct story *out)
{
    static struct rig_device kept[DEVICES];
    struct rig other;
    char command[256];
    memcpy(kept, devices, sizeof(kept));
    rig_init(&other);
    snprintf(command, sizeof(command), "rm -rf %s && cp -r %s %s", other.dir, rig->dir, other.dir);
    assert_int_equal(system(command), 0);
    other.mono_us = 5000; // another boot
    other.wall_us = (uint64_t)rig->wall_us;
    rig_start(&other);
    for (uint32_t i = at + 1; i < STEPS; i++) {
        step(&other, i, fails);
    }
    read_story(&other, out);
    expect_replay(&other, 0x61);
    rig_done(&other);
    memcpy(devices, kept, sizeof(kept));
}

static void tell_story(bool fails)
{
    struct rig rig;
    static struct story told[STEPS];
    static uint32_t killed_at[STEPS];
    uint32_t branches = 0;
    uint64_t records = 0;
    open_rig(&rig, crash_stages);
    begin(&rig, 0x61, ladder, 3);
    for (uint32_t i = 0; i < STEPS; i++) {
        step(&rig, i, fails);
        uint64_t now = gw_rollout_last_line(rig.core, 0x61, 0);
        if (now > records) { // something was written: here it is killed
            records = now;
            killed_at[branches] = i;
            go_on_from(&rig, i, fails, &told[branches++]);
        }
    }
    struct story whole;
    read_story(&rig, &whole);
    for (uint32_t i = 0; i < branches; i++) {
        expect_same_story(&whole, &told[i], killed_at[i]);
    }
    struct gw_rollout_view view;
    rig_view(&rig, 0x61, &view);
    printf("%u decisions, killed at %u places, ended %s\n", whole.count, branches,
           pol_rollout_state_name(view.state));
    assert_int_equal(view.state, fails ? POL_ROLLOUT_ROLLED_BACK : POL_ROLLOUT_COMPLETED);
    assert_true(branches >= 8);
    rig_done(&rig);
}

static void killed_at_every_record_it_decides_the_same(void **state)
{
    (void)state;
    tell_story(false);
    tell_story(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(control_is_drawn_beside_the_stage),
        cmocka_unit_test(a_rise_over_control_goes_back),
        cmocka_unit_test(who_falls_silent_counts),
        cmocka_unit_test(a_restart_makes_nobody_silent),
        cmocka_unit_test(a_rate_holds_offers_back),
        cmocka_unit_test(a_cap_bounds_what_is_under_way),
        cmocka_unit_test(windows_hold_offers_back),
        cmocka_unit_test(a_pause_withdraws_what_is_under_way),
        cmocka_unit_test(failures_of_a_class_may_be_tried_again),
        cmocka_unit_test(another_person_approves),
        cmocka_unit_test(a_completed_rollout_is_undone_and_killed),
        cmocka_unit_test(a_bad_segment_is_taken_out_and_the_rest_goes_on),
        cmocka_unit_test(a_bad_release_is_no_bad_segment),
        cmocka_unit_test(causes_outlive_a_restart_and_explain_a_device),
        cmocka_unit_test(killed_at_every_record_it_decides_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
