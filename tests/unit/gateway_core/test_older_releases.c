// Rollouts that were created and stored before releases named a floor: their statements are of the
// kinds 1 and 4, and their rows hold a signed way back that nothing asks for any more. They are
// loaded, offered and listed as what they are: approvals without a floor.
#include "test_kit.h"

#include "core_rig.h"
#include "older_rollout.h"
#include "svc/rollout/rollout_state.h"

#define TASK        "shop/score"
#define KIND_REVERT 2

static const struct rig_stage full = {"full", POL_STAGE_FULL, 10000, NULL, NULL, 1, 1000000, 0};

static void begin(struct rig *rig, const struct pol_arm *arm)
{
    struct wire_sha256 manifest;
    struct gw_rollout_view view;
    struct base_error error = {0};
    rig_init(rig);
    rig_start(rig);
    rig->arm = *arm;
    rig_version(rig, TASK, "1.0.0", &manifest);
    assert_int_equal(rig_rollout(rig, 1, TASK, &manifest, NULL, NULL, &full, 1, &view, &error),
                     BASE_OK);
    rig_command(rig, 1, POL_COMMAND_START, NULL);
}

static void expect_offered(struct rig *rig, uint8_t kind)
{
    struct rig_device device;
    struct rig_exchange exchange;
    struct wire_offers offers;
    struct wire_envelope envelope;
    struct wire_release release;
    rig_device_init(&device, 0x77);
    assert_int_equal(rig_checkin(rig, &device, true, &exchange, &offers), 200);
    assert_int_equal(offers.count, 1);
    assert_int_equal(
        wire_envelope_parse(offers.items[0].envelope, offers.items[0].envelope_bytes, &envelope),
        BASE_OK);
    assert_int_equal(wire_release_kind(envelope.payload, envelope.payload_bytes), kind);
    rig_offer_release(&offers, 0, &release);
    assert_true(release.release_counter == 1 && release.rollout_id == 1 && release.floor == 0);
    assert_int_equal(rig_device_take(&device, &offers), 1);
    rig_exchange_done(&exchange);
    assert_int_equal(rig_checkin(rig, &device, true, &exchange, &offers), 204);
    rig_exchange_done(&exchange);
}

static void test_rollouts_without_a_floor_are_offered(void **state)
{
    (void)state;
    static const struct pol_arm everybody = {0};
    static const struct pol_arm arm = {.salt = 99, .from = 0, .to = 10000};
    for (uint8_t version = OLDER_FIRST; version <= OLDER_LAST; version++) {
        for (int armed = 0; armed < 2; armed++) {
            struct rig rig;
            struct gw_rollout_view view;
            struct wire_sha256 next;
            struct base_error error = {0};
            begin(&rig, armed ? &arm : &everybody);
            older_rollout(&rig, 1, version, 0);
            rig_start(&rig);
            rig_view(&rig, 1, &view);
            assert_int_equal(view.state, POL_ROLLOUT_RUNNING);
            assert_true(view.floor == 0 && view.release_counter == 1);
            assert_int_equal(view.trust_unproven, version > OLDER_FIRST);
            expect_offered(&rig, armed ? 4 : 1);
            rig_version(&rig, TASK, "2.0.0", &next); // and life goes on
            assert_int_equal(rig_rollout(&rig, 2, TASK, &next, NULL, NULL, &full, 1, &view, &error),
                             BASE_OK);
            assert_true(view.release_counter == 2);
            rig_command(&rig, 1, POL_COMMAND_PROMOTE, &view);
            assert_int_equal(view.state, POL_ROLLOUT_COMPLETED);
            rig_stop(&rig);
            rig_start(&rig); // as it was stored again
            rig_view(&rig, 1, &view);
            assert_int_equal(view.state, POL_ROLLOUT_COMPLETED);
            rig_done(&rig);
        }
    }
}

static uint64_t now_us(void *ctx)
{
    return ((struct rig *)ctx)->wall_us;
}

// A statement of a kind that is not known is not guessed at: the gateway says which, and where.
static void test_other_kinds_are_named(void **state)
{
    (void)state;
    static const struct pol_arm everybody = {0};
    struct rig rig;
    struct base_error error = {0};
    begin(&rig, &everybody);
    older_rollout(&rig, 1, OLDER_LAST, KIND_REVERT);
    const struct gw_core_options options = {.dir = rig.dir,
                                            .commit_delay_us = 1,
                                            .clock = {&rig, now_us, now_us},
                                            .random = base_prng_port(&rig.prng)};
    assert_int_equal(gw_core_new(&options, &rig.core, &error), BASE_ERR_CORRUPT);
    if (strstr(error.text, "rollout 0000000000000001") == NULL ||
        strstr(error.text, "stage 1: statement: release of kind 2: not known") == NULL) {
        fail_msg("%s", error.text);
    }
    rig.core = NULL;
    rig_done(&rig);
}

static void with_verdicts(struct pol_stage *stage, uint32_t index)
{
    (void)index;
    stage->gate.min_answered_ppm = 800000;
    stage->window_s = 77;
    stage->guard_s = 5000;
    stage->on_fail = POL_ON_FAIL_HOLD;
    stage->on_pass = POL_ON_PASS_PAUSE;
    stage->cloud = (struct pol_fallback_limits){600000, 700000, 80};
}

static const struct pol_stage *stage_of(const struct rig *rig)
{
    return &gw_catalog_find_rollout(rig->core, 1)->release->stages[0];
}

// What verdicts do is stored with a stage; an older one has none of it.
static void test_stages_say_what_verdicts_do(void **state)
{
    (void)state;
    static const uint8_t versions[] = {OLDER_FIRST, OLDER_LAST, OLDER_FLOOR, 9, OLDER_VERDICTS};
    for (size_t i = 0; i < TEST_COUNT(versions); i++) {
        struct rig rig;
        struct wire_sha256 manifest;
        struct gw_rollout_view view;
        struct base_error error = {0};
        rig_init(&rig);
        rig_start(&rig);
        rig.conduct = with_verdicts;
        rig_version(&rig, TASK, "1.0.0", &manifest);
        assert_int_equal(rig_rollout(&rig, 1, TASK, &manifest, NULL, NULL, &full, 1, &view, &error),
                         BASE_OK);
        rig_stop(&rig);
        rig_start(&rig);
        const struct pol_stage *stage = stage_of(&rig);
        assert_int_equal(stage->gate.min_answered_ppm, 800000);
        assert_true(stage->gate.of_offered);
        assert_int_equal(stage->window_s, 77);
        assert_int_equal(stage->guard_s, 5000);
        assert_int_equal(stage->on_fail, POL_ON_FAIL_HOLD);
        assert_int_equal(stage->on_pass, POL_ON_PASS_PAUSE);
        assert_int_equal(stage->cloud.min_kept_ppm, 600000);
        assert_int_equal(stage->cloud.min_agreed_ppm, 700000);
        assert_int_equal(stage->cloud.late_ms, 80);
        older_rollout(&rig, 1, versions[i], 0);
        rig_start(&rig);
        stage = stage_of(&rig);
        assert_false(stage->gate.of_offered);
        bool says = versions[i] >= OLDER_VERDICTS;
        assert_int_equal(stage->gate.min_answered_ppm, says ? 800000 : 0);
        assert_int_equal(stage->window_s, says ? 77 : 0);
        assert_int_equal(stage->guard_s, says ? 5000 : 0);
        assert_int_equal(stage->on_fail, says ? POL_ON_FAIL_HOLD : POL_ON_FAIL_ROLL_BACK);
        assert_int_equal(stage->on_pass, says ? POL_ON_PASS_PAUSE : POL_ON_PASS_ADVANCE);
        assert_int_equal(stage->cloud.min_kept_ppm, 0); // nothing is asked
        assert_int_equal(stage->cloud.min_agreed_ppm, 0);
        assert_int_equal(stage->cloud.late_ms, 0);
        assert_int_equal(stage->max_bucket, 10000);
        rig_done(&rig);
    }
}

// A decision's line as gateways of before wrote it: version 3 has 15 counts, 4 that of the
// unproven, too, and 5 those of devices under way and outstanding; none has a trial.
static size_t older_line(uint8_t version, const uint64_t counts[18],
                         const struct pol_record *record, uint8_t flags, uint8_t *out,
                         size_t capacity)
{
    static const uint32_t have[] = {15, 16, 18};
    struct base_writer writer;
    base_writer_init(&writer, out, capacity);
    base_writer_u8(&writer, version);
    base_writer_u64(&writer, 11); // wall_us
    base_writer_u64(&writer, 12); // revision
    base_writer_u8(&writer, GW_LOG_DECISION);
    base_writer_u8(&writer, POL_RECORD_TICK);
    base_writer_u8(&writer, 0); // command
    base_writer_u64(&writer, record->now_us);
    for (uint32_t i = 0; i < have[version - 3]; i++) {
        base_writer_u64(&writer, counts[i]);
    }
    base_writer_u8(&writer, (uint8_t)record->action);
    base_writer_u8(&writer, (uint8_t)record->verdict);
    base_writer_u8(&writer, (uint8_t)record->reason);
    base_writer_u32(&writer, 14);
    base_writer_u64(&writer, 15);
    base_writer_u8(&writer, (uint8_t)record->after.state);
    base_writer_u16(&writer, record->after.stage_index);
    base_writer_u8(&writer, flags);
    base_writer_u64(&writer, record->after.stage_since_us);
    base_writer_u8(&writer, 0); // by
    base_writer_u8(&writer, 0); // comment
    assert_int_equal(writer.status, BASE_OK);
    return base_writer_size(&writer);
}

static void test_older_lines_are_read(void **state)
{
    (void)state;
    static const struct pol_record wrote = {
        .now_us = 13,
        .action = POL_ACTION_COMPLETE,
        .verdict = POL_VERDICT_PASS,
        .reason = POL_REASON_LAST_STAGE_PASSED,
        .after = {.state = POL_ROLLOUT_COMPLETED, .stage_index = 2, .stage_since_us = 16}};
    uint64_t counts[18];
    for (uint32_t i = 0; i < 18; i++) {
        counts[i] = i + 1;
    }
    for (uint8_t version = 3; version <= 5; version++) {
        static uint8_t bytes[512];
        static struct gw_rollout_log_view line;
        size_t size = older_line(version, counts, &wrote, 0, bytes, sizeof(bytes));
        assert_int_equal(gw_rollout_line_decode(bytes, size, &line), BASE_OK);
        const struct pol_record *record = &line.record;
        assert_true(record->counts.offered == 1 && record->counts.control_hazard.silent == 15);
        assert_int_equal(record->counts.unproven, version < 4 ? 0 : 16);
        assert_int_equal(record->counts.under_way, version < 5 ? 0 : 17);
        assert_int_equal(record->counts.outstanding, version < 5 ? 0 : 18);
        assert_int_equal(record->counts.trial.all[POL_COHORT_UPDATED].offered, 0);
        assert_int_equal(record->action, POL_ACTION_COMPLETE);
        assert_int_equal(record->after.state, POL_ROLLOUT_COMPLETED);
        assert_true(record->after.stage_since_us == 16 && !record->after.guarding);
        assert_true(line.failure_ppm == 14 && line.rolled_back == 15);
    }
}

// What older gateways decided is found again from their lines by the rule that their rollouts keep:
// six failures of six who completed, whoever is under way.
static void test_older_verdicts_are_found_again(void **state)
{
    (void)state;
    static const struct pol_record wrote = {
        .now_us = 5000000,
        .action = POL_ACTION_ROLL_BACK,
        .verdict = POL_VERDICT_FAIL,
        .reason = POL_REASON_FAILURES_OVER_LIMIT,
        .after = {.state = POL_ROLLOUT_ROLLING_BACK, .stage_since_us = 1, .stage_failed = true}};
    const uint64_t counts[18] = {[0] = 506, [4] = 6, [16] = 500};
    for (uint8_t version = 3; version <= 5; version++) {
        for (int now = 0; now < 2; now++) { // a rollout of now says other of the same counts
            static uint8_t bytes[512];
            static struct gw_rollout_log_view line;
            struct pol_replay replay;
            bool differs = false;
            const struct pol_stage stage = {
                .kind = POL_STAGE_FULL,
                .max_bucket = 10000,
                .gate = {.min_sample = 100, .max_failure_ppm = 50000, .of_offered = now != 0}};
            size_t size = older_line(version, counts, &wrote, 2, bytes, sizeof(bytes));
            assert_int_equal(gw_rollout_line_decode(bytes, size, &line), BASE_OK);
            pol_replay_init(&replay, 1);
            replay.rollout.state = POL_ROLLOUT_RUNNING;
            replay.rollout.before_first = false;
            (void)pol_replay_step(&replay, &stage, 1, &line.record, &differs);
            assert_int_equal(differs, now != 0 && version == 5);
        }
    }
}

// Who says nothing has the window of the execution timeout and two check-ins.
static void test_a_window_has_a_default(void **state)
{
    (void)state;
    static const struct pol_arm everybody = {0};
    struct rig rig;
    begin(&rig, &everybody);
    uint32_t interval_s = gw_core_checkin_interval_s(rig.core);
    assert_int_equal(stage_of(&rig)->window_s,
                     GW_EXECUTION_TIMEOUT_S + GW_STAGE_WINDOW_TIMES * interval_s);
    rig_done(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rollouts_without_a_floor_are_offered),
        cmocka_unit_test(test_other_kinds_are_named),
        cmocka_unit_test(test_stages_say_what_verdicts_do),
        cmocka_unit_test(test_older_lines_are_read),
        cmocka_unit_test(test_older_verdicts_are_found_again),
        cmocka_unit_test(test_a_window_has_a_default),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
