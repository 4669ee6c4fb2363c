// Rollouts under operators' hands and over restarts: approval, undo, kill, quarantine, causes; and
// a gateway that is killed at every record of the log decides as one that is not.
#include "conduct_kit.h"

// ---- People

static void guarded(struct pol_stage *stage, uint32_t index)
{
    stage->approval = index == 1;
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
    assert_int_equal(ask(&rig, 0x52, POL_COMMAND_UNDO, "ana", 0), BASE_OK);
    (void)all_come(&rig, 0x52, good, 3);
    assert_int_equal(count_on(first.version_id), DEVICES);
    rig_view(&rig, 0x52, &view);
    assert_int_equal(view.state, POL_ROLLOUT_ROLLED_BACK);
    assert_int_equal(gw_catalog_task_get(rig.core, BASE_STR("shop/score"), &task), BASE_OK);
    assert_int_equal(task.baseline_rollout, 0x51);
    expect_replay(&rig, 0x52);
    // It can be killed still, and then it is not released again.
    assert_int_equal(ask(&rig, 0x52, POL_COMMAND_KILL, "ana", 0), BASE_OK);
    rig_view(&rig, 0x52, &view);
    uint64_t revision = view.revision;
    assert_int_equal(ask(&rig, 0x52, POL_COMMAND_KILL, "ana", 0), BASE_OK); // as it is already
    rig_view(&rig, 0x52, &view);
    assert_int_equal(view.revision, revision);
    rig_stop(&rig);
    rig_start(&rig);
    rig_view(&rig, 0x52, &view);
    assert_true(view.killed);
    enum base_status status = rig_rollout(&rig, 0x53, "shop/score", &view.manifest, NULL, NULL,
                                          gray_full, 2, &view, &error);
    assert_int_equal(status, BASE_ERR_CONFLICT);
    assert_non_null(strstr(error.text, "kill list"));
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
    assert_string_equal(view.quarantine[0].text, "model=SM-3 os=ios no app_version");
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
    assert_int_equal(gw_rollout_lift(rig.core, 0x82, BASE_STR("model=SM-9"), &who, &error),
                     BASE_ERR_NOT_FOUND);
    assert_int_equal(
        gw_rollout_lift(rig.core, 0x82, BASE_STR("model=SM-3 os=ios no app_version"), &who, &error),
        BASE_OK);
    rig_view(&rig, 0x82, &view);
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

// A bad model's failures fit into the samples, until its evidence is there.
static const struct rig_stage patient[] = {
    {"gray-20", POL_STAGE_GRAY, 2000, NULL, NULL, 5, 200000, 30000000},
    {"gray-50", POL_STAGE_GRAY, 5000, NULL, NULL, 15, 200000, 30000000},
    {"full", POL_STAGE_FULL, 10000, NULL, NULL, 20, 200000, 30000000},
};

// What the version does in a story: it is good, fails on a third of the devices, or on one model.
enum plot { PLOT_GOOD, PLOT_BAD, PLOT_BAD_MODEL };

static bool fails_in(enum plot plot, uint32_t i, uint32_t at)
{
    return (plot == PLOT_BAD && i % 3 == 0 && at > 8) ||
           (plot == PLOT_BAD_MODEL && i % 4 == 3 && at > 4);
}

// One step of the story: time passes, devices come, somebody commands.
static void step(struct rig *rig, uint32_t at, enum plot plot)
{
    rig_advance_s(rig, 20);
    for (uint32_t i = 0; i < CRASH_DEVICES; i++) {
        bool bad_one = fails_in(plot, i, at);
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
    struct gw_page page = {.limit = GW_PAGE_MAX};
    memset(out, 0, sizeof(*out));
    assert_int_equal(gw_rollout_log(rig->core, 0x61, 0, lines, &page), BASE_OK);
    assert_false(page.more);
    for (uint32_t i = 0; i < page.count; i++) {
        bool decided = lines[i].kind != GW_LOG_OBSERVATION && lines[i].kind != GW_LOG_SLICES;
        if (decided && out->count < 64) {
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
            !pol_held_equal(&x->held, &y->held) || !pol_rollout_equal(&x->after, &y->after)) {
            fail_msg("killed at step %u: decision %u is %s in %s, not %s in %s", killed_at, i,
                     pol_action_name(y->action), pol_rollout_state_name(y->after.state),
                     pol_action_name(x->action), pol_rollout_state_name(x->after.state));
        }
    }
}

// A copy of the folder as a killed process leaves it, and what goes on from there.
static void go_on_from(const struct rig *rig, uint32_t at, enum plot plot, struct story *out)
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
        step(&other, i, plot);
    }
    read_story(&other, out);
    expect_replay(&other, 0x61);
    rig_done(&other);
    memcpy(devices, kept, sizeof(kept));
}

static void give_models(void)
{
    static char models[4][8];
    for (uint32_t i = 0; i < CRASH_DEVICES; i++) {
        snprintf(models[i % 4], sizeof(models[0]), "SM-%u", i % 4);
        rig_device_attr(&devices[i], "model", models[i % 4]);
    }
}

static uint32_t count_held(const struct story *story)
{
    uint32_t held = 0;
    for (uint32_t i = 0; i < story->count; i++) {
        held += story->records[i].kind == POL_RECORD_SLICES ? story->records[i].held.count : 0;
    }
    return held;
}

static void tell_story(enum plot plot)
{
    struct rig rig;
    static struct story told[STEPS];
    static struct story whole;
    static uint32_t killed_at[STEPS];
    uint32_t branches = 0;
    uint64_t records = 0;
    open_rig(&rig, crash_stages);
    if (plot == PLOT_BAD_MODEL) {
        give_models();
    }
    begin(&rig, 0x61, plot == PLOT_BAD_MODEL ? patient : ladder, 3);
    for (uint32_t i = 0; i < STEPS; i++) {
        step(&rig, i, plot);
        uint64_t now = gw_rollout_last_line(rig.core, 0x61, 0);
        if (now > records) { // something was written: here it is killed
            records = now;
            killed_at[branches] = i;
            go_on_from(&rig, i, plot, &told[branches++]);
        }
    }
    read_story(&rig, &whole);
    for (uint32_t i = 0; i < branches; i++) {
        expect_same_story(&whole, &told[i], killed_at[i]);
    }
    struct gw_rollout_view view;
    rig_view(&rig, 0x61, &view);
    printf("%u decisions, %u segments held, killed at %u places, ended %s\n", whole.count,
           count_held(&whole), branches, pol_rollout_state_name(view.state));
    assert_int_equal(view.state,
                     plot == PLOT_BAD ? POL_ROLLOUT_ROLLED_BACK : POL_ROLLOUT_COMPLETED);
    assert_int_equal(count_held(&whole), plot == PLOT_BAD_MODEL);
    assert_true(branches >= 8);
    rig_done(&rig);
}

static void killed_at_every_record_it_decides_the_same(void **state)
{
    (void)state;
    tell_story(PLOT_GOOD);
    tell_story(PLOT_BAD);
    tell_story(PLOT_BAD_MODEL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_person_approves),
        cmocka_unit_test(a_completed_rollout_is_undone_and_killed),
        cmocka_unit_test(a_bad_segment_is_taken_out_and_the_rest_goes_on),
        cmocka_unit_test(a_bad_release_is_no_bad_segment),
        cmocka_unit_test(causes_outlive_a_restart_and_explain_a_device),
        cmocka_unit_test(killed_at_every_record_it_decides_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
