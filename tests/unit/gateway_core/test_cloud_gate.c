// Decisions between device and cloud that devices tell of count in their stage: which fault, for
// updated devices and for control, and that a device which has succeeded can fail by them later.
#include "test_kit.h"

#include "core_rig.h"
#include "svc/device/cloud_gate.h"
#include "svc/rollout/device_views.h"
#include "wire/cloud/cloud_counts.h"

#define ROLLOUT 0x77

static const struct rig_stage full = {"full", POL_STAGE_FULL, 10000, NULL, NULL, 1000000, 0, 0};

static struct wire_outcome telling(struct wire_cloud_counts counts)
{
    struct wire_outcome said = {.kind = WIRE_OUTCOME_RAN, .detail = BASE_STR("x")};
    wire_cloud_figures_set(&said.figures, &counts);
    return said;
}

static void test_faults(void **state)
{
    (void)state;
    const struct pol_fallback_limits limits = {700000, 800000, 100};
    static const struct {
        struct wire_cloud_counts counts;
        const char *want; // in the detail; NULL: it counts as it was said
    } rows[] = {
        {{100, 30, 30, 0, {30}}, NULL},
        {{100, 60, 30, 0, {30}}, "max_sent"},
        {{100, 30, 30, 20, {30}}, "min_agreed"},
        {{100, 30, 30, 0, {0, 0, 30}}, NULL},
        {{100, 30, 30, 0, {0, 0, 10, 20}}, "max_cloud_ms"},
    };
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        struct wire_outcome said = telling(rows[i].counts);
        struct wire_outcome out;
        gw_cloud_judge(&limits, &said, &out);
        assert_int_equal(out.kind, rows[i].want ? WIRE_OUTCOME_FAIL_CLOUD : WIRE_OUTCOME_RAN);
        assert_true((out.fingerprint != 0) == (rows[i].want != NULL));
        assert_true(out.detail.size <= WIRE_OUTCOME_DETAIL_MAX);
        assert_non_null(memmem(out.detail.data, out.detail.size, rows[i].want ? rows[i].want : "x",
                               strlen(rows[i].want ? rows[i].want : "x")));
        said.kind = WIRE_OUTCOME_FAIL_EXCEPTION; // what failed stays what it was
        gw_cloud_judge(&limits, &said, &out);
        assert_int_equal(out.kind, WIRE_OUTCOME_FAIL_EXCEPTION);
    }
    struct wire_outcome said = {.kind = WIRE_OUTCOME_RAN};
    struct wire_outcome out;
    said.figures.cloud_counts = UINT64_MAX << 16; // more sent than asked: nothing is believed
    gw_cloud_judge(&limits, &said, &out);
    assert_int_equal(out.kind, WIRE_OUTCOME_RAN);
}

static void limited(struct pol_stage *stage, uint32_t index)
{
    (void)index;
    stage->cloud.min_kept_ppm = 700000;
}

static void tell(struct rig *rig, struct rig_device *device, const struct gw_rollout_view *view,
                 struct wire_cloud_counts counts)
{
    struct wire_report report = {
        .device_id = device->id, .epoch = device->epoch, .first_seq = device->seq, .count = 1};
    report.outcomes[0] = telling(counts);
    report.outcomes[0].detail = BASE_STR("");
    report.outcomes[0].task_id = wire_task_id(base_str_of(view->task));
    report.outcomes[0].version_id = view->version_id;
    report.outcomes[0].rollout_id = view->id;
    assert_int_equal(rig_send_report(rig, &report), 204);
    device->seq++;
}

static void test_a_stage_counts_them(void **state)
{
    (void)state;
    struct rig rig;
    struct gw_rollout_view view;
    struct wire_sha256 manifest;
    struct base_error error = {0};
    struct rig_device devices[2];
    struct gw_device_view seen;
    rig_init(&rig);
    rig_start(&rig);
    rig.conduct = limited;
    rig_version(&rig, "t", "1.0.0", &manifest);
    assert_int_equal(
        rig_rollout(&rig, ROLLOUT, "t", &manifest, NULL, NULL, &full, 1, &view, &error), BASE_OK);
    rig_command(&rig, ROLLOUT, POL_COMMAND_START, &view);
    for (uint32_t i = 0; i < 2; i++) {
        rig_device_init(&devices[i], 5 + i);
        tell(&rig, &devices[i], &view, (struct wire_cloud_counts){.asked = 3, .sent = 3});
    }
    rig_view(&rig, ROLLOUT, &view);
    assert_int_equal(view.counts.succeeded, 2); // three show nothing
    tell(&rig, &devices[0], &view, (struct wire_cloud_counts){.asked = 12, .sent = 4});
    tell(&rig, &devices[1], &view, (struct wire_cloud_counts){.asked = 12, .sent = 12});
    rig_view(&rig, ROLLOUT, &view);
    assert_int_equal(view.counts.succeeded, 1);
    assert_int_equal(view.counts.failed, 1);
    assert_int_equal(gw_device_get(rig.core, 6, &seen), BASE_OK);
    assert_int_equal(seen.outcomes[0].last_kind, WIRE_OUTCOME_FAIL_CLOUD);
    assert_true((seen.outcomes[0].figures.cloud_counts & 0xffff) == 12);
    rig_expect_counts_from_disk(&rig);
    rig_done(&rig);
}

// A stage that lets one bucket in and has all others for control.
static void compared(struct pol_stage *stage, uint32_t index)
{
    limited(stage, index);
    stage->control_buckets = 9999;
    stage->gate.rule = POL_GATE_SEQUENTIAL;
    stage->gate.alpha_ppm = 50000;
    stage->gate.beta_ppm = 100000;
    stage->gate.max_rise_ppm = 200000;
    stage->gate.min_answered_ppm = 900000;
    stage->observe_s = 300;
}

static const struct rig_stage few = {"gray", POL_STAGE_GRAY, 1, NULL, NULL, 1000000, 0, 0};

// What a device of control tells of its version is held against the same limits: it fails by them,
// or the updated ones would be compared with what nobody judged.
static void test_control_is_held_to_them(void **state)
{
    (void)state;
    struct rig rig;
    struct gw_rollout_view before;
    struct gw_rollout_view view;
    struct wire_sha256 manifest;
    struct base_error error = {0};
    struct rig_device devices[2];
    rig_init(&rig);
    rig_start(&rig);
    rig.conduct = limited;
    rig_version(&rig, "t", "1.0.0", &manifest);
    assert_int_equal(
        rig_rollout(&rig, ROLLOUT, "t", &manifest, NULL, NULL, &full, 1, &before, &error), BASE_OK);
    rig_command(&rig, ROLLOUT, POL_COMMAND_START, &before);
    for (uint32_t i = 0; i < 2; i++) {
        rig_device_init(&devices[i], 5 + i);
        tell(&rig, &devices[i], &before, (struct wire_cloud_counts){.asked = 3, .sent = 3});
    }
    rig.conduct = compared;
    rig_version(&rig, "t", "2.0.0", &manifest);
    assert_int_equal(
        rig_rollout(&rig, ROLLOUT + 1, "t", &manifest, NULL, NULL, &few, 1, &view, &error),
        BASE_OK);
    rig_command(&rig, ROLLOUT + 1, POL_COMMAND_START, &view);
    rig_advance_s(&rig, 1);
    for (uint32_t i = 0; i < 2; i++) {
        struct rig_exchange exchange;
        struct wire_offers offers;
        (void)rig_checkin(&rig, &devices[i], true, &exchange, &offers);
        rig_exchange_done(&exchange);
    }
    for (uint32_t i = 0; i < 3; i++) { // walked over, and written
        (void)gw_core_tick(rig.core);
        rig_settle(&rig);
    }
    tell(&rig, &devices[0], &before, (struct wire_cloud_counts){.asked = 12, .sent = 4});
    tell(&rig, &devices[1], &before, (struct wire_cloud_counts){.asked = 12, .sent = 12});
    rig_view(&rig, ROLLOUT + 1, &view);
    assert_int_equal(view.counts.control, 2);
    assert_int_equal(view.counts.control_completed, 2);
    assert_int_equal(view.counts.control_failed, 1);
    rig_expect_counts_from_disk(&rig);
    rig_done(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_a_stage_counts_them),
        cmocka_unit_test(test_control_is_held_to_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
