// How stages are conducted, against the real core and store: control cohorts, silence, rates, caps,
// windows, withdrawal and retries; the log of each replays.
#include "conduct_kit.h"

// ---- Control and silence

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
    // What it can see: as many as completed, from a rate of control that is not measured yet.
    assert_true(view.has_power);
    assert_int_equal(view.power.rise_ppm, 50000);
    assert_int_equal(view.power.completed, updated);
    assert_int_equal(view.power.devices, updated);
    assert_false(view.power.base_measured);
    assert_false(view.power.can_detect); // forty devices show no five points
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
    assert_int_equal(view.stages[0].conduct.gate.tolerated_rise_ppm, 100);
    assert_int_equal(view.stages[0].counts.control, beside);
    assert_int_equal(view.stages[0].counts.control_completed, beside);
    assert_int_equal(view.stages[0].counts.control_failed, 0);
    assert_int_equal(view.stages[0].counts.succeeded, updated);
    assert_int_equal(view.stage_index, 0); // some forty good devices show no rate below 20 %
    assert_true(view.has_power && view.power.base_measured);
    assert_int_equal(view.power.base_ppm, (500000 + beside / 2) / (beside + 1));
    assert_true(view.power.needed > updated && view.power.sees_ppm > 50000);
    assert_true(view.power.sees_ppm == view.power.best_ppm); // all of the stage is done
    expect_replay(&rig, 0x11);
    rig_expect_counts_from_disk(&rig);
    // Promoted, control devices are let in like everybody, and are control no more.
    rig_command(&rig, 0x11, POL_COMMAND_PROMOTE, NULL);
    assert_int_equal(all_come(&rig, 0x11, good, 3), DEVICES - updated);
    rig_settle(&rig);
    rig_view(&rig, 0x11, &view);
    assert_int_equal(view.stages[0].counts.control, 0);
    assert_int_equal(view.counts.succeeded, DEVICES);
    assert_false(view.has_power); // the full stage declares no rise
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

// A device's own interval may be longer than the gateway's: who is held back is told when to come,
// also where that is no sooner than the gateway's interval.
static void who_is_held_back_is_told_when_to_come(void **state)
{
    (void)state;
    struct rig rig;
    struct gw_rollout_view view;
    open_rig(&rig, slow);
    rig.core->set.checkin_interval_s = 4;
    begin(&rig, 0x23, everybody, 1);
    rig_command(&rig, 0x23, POL_COMMAND_START, &view);
    uint32_t held = 0;
    for (uint32_t i = 0; i < DEVICES; i++) {
        struct rig_exchange exchange;
        struct wire_offers offers;
        assert_int_equal(rig_checkin(&rig, &devices[i], true, &exchange, &offers), 200);
        assert_int_equal(offers.next_checkin_s, 4);
        held += offers.count == 0 ? 1 : 0;
        rig_exchange_done(&exchange);
    }
    assert_in_range(held, DEVICES - 3, DEVICES);
    rig_done(&rig);
}

// A worker may not know yet that a rollout is completed: to the devices that come to it then the
// release is given as before.
static void nobody_is_held_back_by_completion(void **state)
{
    (void)state;
    struct rig rig;
    struct gw_rollout_view view;
    open_rig(&rig, NULL);
    begin(&rig, 0x24, gray_full, 2);
    rig_command(&rig, 0x24, POL_COMMAND_START, &view);
    for (uint32_t round = 0; round < 20 && view.state != POL_ROLLOUT_COMPLETED; round++) {
        (void)all_come(&rig, 0x24, good, 3);
        rig_advance_s(&rig, 300);
        rig_settle(&rig);
        rig_view(&rig, 0x24, &view);
    }
    assert_int_equal(view.state, POL_ROLLOUT_COMPLETED);
    const struct gw_rollout *rollout = gw_catalog_find_rollout(rig.core, 0x24);
    assert_int_equal(atomic_load(&rollout->allowances[0].left), GW_OFFERS_UNLIMITED);
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
    rig_subscribe(&rig, &devices[0], &hints[0]);
    rig_subscribe(&rig, &devices[1], &hints[1]);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(control_is_drawn_beside_the_stage),
        cmocka_unit_test(a_rise_over_control_goes_back),
        cmocka_unit_test(who_falls_silent_counts),
        cmocka_unit_test(a_restart_makes_nobody_silent),
        cmocka_unit_test(a_rate_holds_offers_back),
        cmocka_unit_test(who_is_held_back_is_told_when_to_come),
        cmocka_unit_test(nobody_is_held_back_by_completion),
        cmocka_unit_test(a_cap_bounds_what_is_under_way),
        cmocka_unit_test(windows_hold_offers_back),
        cmocka_unit_test(a_pause_withdraws_what_is_under_way),
        cmocka_unit_test(failures_of_a_class_may_be_tried_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
