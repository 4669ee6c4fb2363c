// Trials on the gateway as it ships: both cohorts drawn at check-ins, from the same devices and at
// the same pace; blocks found again after a restart; what counts, and what does not.
#include "block_play.h"
#include "placebo_kit.h"

#include "svc/device/causes.h"

// ---- Who is drawn

static void cohorts_are_drawn_at_checkins(void **state)
{
    (void)state;
    struct rig rig;
    struct gw_rollout_view view;
    struct pol_trial trial;
    open_trial(&rig);
    for (uint32_t i = 0; i < DEVICES; i++) {
        assert_int_equal(come(&rig, &devices[i]), place_of(&devices[i]));
    }
    uint32_t updated = count_of(UPDATED);
    uint32_t control = count_of(CONTROL);
    assert_true(updated > 50 && control > 100);
    rig_advance_s(&rig, BLOCK_S + 5);
    trial_now(&rig, &trial);
    assert_int_equal(trial.all[POL_COHORT_UPDATED].offered, updated);
    assert_int_equal(trial.all[POL_COHORT_CONTROL].offered, control);
    assert_int_equal(trial.compared, updated);
    rig_view(&rig, ID, &view);
    assert_int_equal(view.counts.offered, updated);
    assert_int_equal(view.counts.control, control);
    assert_int_equal(view.counts.control_offered, control);
    assert_int_equal(view.counts.control_activated, 0);
    // Control is told again until it has begun, and then no more.
    for (uint32_t i = 0; i < DEVICES; i++) {
        bool is_control = place_of(&devices[i]) == CONTROL;
        assert_int_equal(come(&rig, &devices[i]), is_control ? CONTROL : NOTHING);
        if (place_of(&devices[i]) != NOTHING) {
            tell(&rig, &devices[i], WIRE_OUTCOME_RAN);
        }
    }
    for (uint32_t i = 0; i < DEVICES; i++) {
        assert_int_equal(come(&rig, &devices[i]), NOTHING);
        assert_int_equal(come(&rig, &devices[i]), NOTHING); // settled
    }
    rig_advance_s(&rig, BLOCK_S + WINDOW_S + 5);
    trial_now(&rig, &trial);
    rig_view(&rig, ID, &view);
    assert_int_equal(view.counts.control_activated, control);
    assert_int_equal(view.counts.control_completed, control);
    assert_int_equal(trial.all[POL_COHORT_UPDATED].offered, updated); // each once
    assert_int_equal(trial.over[POL_COHORT_UPDATED].succeeded, updated);
    assert_int_equal(trial.over[POL_COHORT_CONTROL].succeeded, control);
    assert_int_equal(trial.beside.succeeded, updated);
    assert_int_equal(trial_under_way(&trial), 0);
    expect_replay(&rig);
    rig_done(&rig);
}

// Who cannot be offered what it has is updated, and compared with nobody.
static void who_cannot_be_control_is_alone(void **state)
{
    (void)state;
    struct rig rig;
    struct pol_trial trial;
    uint32_t alone = 0;
    open_trial(&rig);
    for (uint32_t i = 0; i < DEVICES; i++) {
        if (i % 3 == 0) {
            devices[i].marks = false; // knows no marks
        } else if (i % 3 == 1) {
            devices[i].pair_count = 0; // has nothing
        }
    }
    for (uint32_t i = 0; i < DEVICES; i++) {
        enum drawn place = place_of(&devices[i]);
        bool could = i % 3 == 2;
        alone += place == UPDATED && !could;
        enum drawn drawn = come(&rig, &devices[i]);
        if (i % 3 == 1 && place != UPDATED) {
            assert_int_equal(drawn, UPDATED); // the baseline
        } else {
            assert_int_equal(drawn, place == CONTROL && !could ? NOTHING : place);
        }
    }
    rig_advance_s(&rig, BLOCK_S + 5);
    trial_now(&rig, &trial);
    assert_true(alone > 20);
    assert_int_equal(trial.all[POL_COHORT_UPDATED].offered - trial.compared, alone);
    rig_done(&rig);
}

// How the old version fails is no cause of the new one's.
static void what_control_fails_of_is_no_cause(void **state)
{
    (void)state;
    struct rig rig;
    struct gw_rollout_view view;
    struct gw_cause cause;
    open_trial(&rig);
    for (uint32_t i = 0; i < 20; i++) {
        if (come(&rig, &devices[i]) == CONTROL) {
            tell_of(&rig, &devices[i], true, WIRE_OUTCOME_FAIL_EXCEPTION);
        }
    }
    rig_settle(&rig);
    rig_view(&rig, ID, &view);
    assert_true(view.counts.control_failed > 3);
    assert_int_equal(gw_cause_get(rig.core, ID, 4711, &cause), BASE_ERR_NOT_FOUND);
    uint32_t updated = 0;
    while (place_of(&devices[updated]) != UPDATED) {
        updated++;
    }
    (void)come(&rig, &devices[updated]);
    tell_of(&rig, &devices[updated], false, WIRE_OUTCOME_FAIL_EXCEPTION);
    assert_int_equal(gw_cause_get(rig.core, ID, 4711, &cause), BASE_OK);
    rig_done(&rig);
}

// Who was let in by an earlier stage's audience is in the band of the next one's control, and is
// none: what it says of the version before counts for neither cohort.
static void who_is_updated_does_not_speak_as_control(void **state)
{
    (void)state;
    static const struct rig_stage stages[] = {
        {"beta", POL_STAGE_BETA, 10000, "model", "SM-1", 20, 400000, 3600 * SECOND_US},
        {"gray", POL_STAGE_GRAY, SHARE, NULL, NULL, 20, 400000, 3600 * SECOND_US},
        {"full", POL_STAGE_FULL, 10000, NULL, NULL, 20, 400000, 0},
    };
    struct rig rig;
    struct gw_rollout_view view;
    open_fleet(&rig);
    begin_stages(&rig, stages, 3);
    uint32_t both = 0;
    while (place_of(&devices[both]) != CONTROL) {
        both += 4; // SM-1
    }
    assert_int_equal(come(&rig, &devices[both]), UPDATED);
    tell_of(&rig, &devices[both], false, WIRE_OUTCOME_RAN);
    rig_command(&rig, ID, POL_COMMAND_PROMOTE, &view);
    assert_int_equal(view.stage_index, 1);
    rig_settle(&rig);
    tell_of(&rig, &devices[both], true, WIRE_OUTCOME_FAIL_EXCEPTION);
    assert_int_equal(rig.core->reports_unoffered, 2);
    rig_view(&rig, ID, &view);
    assert_int_equal(view.counts.succeeded, 1);
    assert_int_equal(view.counts.failed + view.counts.control, 0);
    rig_done(&rig);
}

// Both cohorts wait for the same allowance, of which an update brings its control along.
static void both_cohorts_keep_one_pace(void **state)
{
    (void)state;
    struct rig rig;
    struct pol_trial trial;
    uint32_t seen[3] = {0};
    pace = (struct pol_pace){.per_minute = 30};
    open_trial(&rig);
    pace = (struct pol_pace){.per_minute = 0};
    for (uint32_t second = 0; second < 60; second++) { // a part of the fleet comes each second
        rig_advance_s(&rig, 1);
        rig_settle(&rig);
        for (uint32_t i = 0; i < DEVICES; i++) {
            if ((i * 7 + second) % 10 == 0 && place_of(&devices[i]) != NOTHING) {
                enum drawn drawn = come(&rig, &devices[i]);
                seen[drawn]++;
                if (drawn != NOTHING) {
                    tell(&rig, &devices[i], WIRE_OUTCOME_RAN);
                }
            }
        }
    }
    // Half an offer a second, and two for control with each: about 30 and 60 in a minute.
    print_message("updated %u, control %u\n", seen[UPDATED], seen[CONTROL]);
    assert_in_range(seen[UPDATED] + seen[CONTROL], 80, 100);
    assert_in_range(seen[UPDATED], 15, 50);
    assert_in_range(seen[CONTROL], 40, 80);
    trial_now(&rig, &trial);
    assert_int_equal(trial.all[POL_COHORT_UPDATED].offered, seen[UPDATED]);
    assert_int_equal(trial.all[POL_COHORT_CONTROL].offered, seen[CONTROL]);
    rig_done(&rig);
}

static struct rig_device device_in(uint16_t bucket)
{
    struct rig_device device;
    uint64_t id = 1;
    while (pol_bucket(id, base_mix64(ID)) != bucket) {
        id++;
    }
    rig_device_init(&device, id);
    rig_device_attr(&device, "model", "SM-1");
    device.marks = true;
    device.tasks_max = 32;
    device.interval_s = 300;
    has_old(&device);
    return device;
}

// The first and the last bucket of each cohort.
static void cohorts_at_their_ends(void **state)
{
    (void)state;
    static const struct {
        uint16_t bucket;
        enum drawn drawn;
    } rows[] = {{0, UPDATED},
                {SHARE - 1, UPDATED},
                {SHARE, CONTROL},
                {SHARE + BAND - 1, CONTROL},
                {SHARE + BAND, NOTHING}};
    struct rig rig;
    open_trial(&rig);
    for (uint32_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct rig_device device = device_in(rows[i].bucket);
        enum drawn drawn = come(&rig, &device);
        if (drawn != rows[i].drawn) {
            fail_msg("bucket %u: %d, not %d", rows[i].bucket, drawn, rows[i].drawn);
        }
    }
    rig_done(&rig);
}

// Control of a stage is drawn anew in the next one, where it is updated or control again; who was
// let in before is compared no more.
static void later_stages_draw_anew(void **state)
{
    (void)state;
    static const struct rig_stage two[] = {
        {"gray", POL_STAGE_GRAY, SHARE, NULL, NULL, 20, 400000, 3600 * SECOND_US},
        {"wider", POL_STAGE_GRAY, 2 * SHARE, NULL, NULL, 20, 400000, 3600 * SECOND_US},
        {"full", POL_STAGE_FULL, 10000, NULL, NULL, 20, 400000, 0},
    };
    struct rig rig;
    struct pol_trial trial;
    uint32_t updated = 0;
    uint32_t control = 0;
    rig_init(&rig);
    rig_start(&rig);
    make_devices();
    rig_baseline(&rig, TASK, BASE_ID, NULL, NULL, &old_version);
    for (uint32_t i = 0; i < DEVICES; i++) {
        has_old(&devices[i]);
    }
    begin_stages(&rig, two, 3);
    for (uint32_t i = 0; i < DEVICES; i++) {
        bool late = i % 5 == 0; // comes in the second stage first
        if (!late && come(&rig, &devices[i]) != NOTHING) {
            tell(&rig, &devices[i], i % 7 == 0 ? WIRE_OUTCOME_FAIL_EXCEPTION : WIRE_OUTCOME_RAN);
        }
    }
    rig_settle(&rig);
    rig_command(&rig, ID, POL_COMMAND_PROMOTE, NULL);
    rig_settle(&rig);
    for (uint32_t i = 0; i < DEVICES; i++) {
        uint16_t bucket = bucket_of(&devices[i]);
        bool fresh = bucket >= SHARE;
        enum drawn expected = bucket < SHARE              ? (i % 5 == 0 ? UPDATED : NOTHING)
                              : bucket < 2 * SHARE        ? UPDATED
                              : bucket < 2 * SHARE + BAND ? CONTROL
                                                          : NOTHING;
        assert_int_equal(come(&rig, &devices[i]), expected);
        updated += fresh && expected == UPDATED;
        control += expected == CONTROL;
    }
    rig_advance_s(&rig, BLOCK_S + 5);
    trial_now(&rig, &trial);
    assert_int_equal(trial.compared, updated);
    assert_int_equal(trial.all[POL_COHORT_CONTROL].offered, control);
    assert_true(trial.all[POL_COHORT_UPDATED].offered > updated);
    assert_int_equal(trial.all[POL_COHORT_CONTROL].failed, 0); // of this stage alone
    rig_stop(&rig);
    rig_start(&rig);
    struct pol_trial again;
    trial_now(&rig, &again);
    expect_same(&trial, &again);
    rig_done(&rig);
}

// ---- Blocks

// Devices come over some minutes; some fail, at once or late, some say nothing.
static void live(struct rig *rig, struct base_prng *prng, uint32_t rounds)
{
    static uint8_t waits[DEVICES]; // rounds until it reports; 0: it does not
    memset(waits, 0, sizeof(waits));
    for (uint32_t round = 0; round < rounds; round++) {
        rig_advance_s(rig, 1 + base_prng_below(prng, 6));
        for (uint32_t k = 0; k < DEVICES / 20; k++) {
            uint32_t i = (uint32_t)base_prng_below(prng, DEVICES);
            if (come(rig, &devices[i]) != NOTHING && waits[i] == 0) {
                waits[i] = (uint8_t)(1 + base_prng_below(prng, 12));
            }
        }
        for (uint32_t i = 0; i < DEVICES; i++) {
            if (waits[i] == 0 || --waits[i] > 0) {
                continue;
            }
            bool fails = base_prng_below(prng, 6) == 0;
            tell(rig, &devices[i], fails ? WIRE_OUTCOME_FAIL_EXCEPTION : WIRE_OUTCOME_RAN);
        }
        if (base_prng_below(prng, 2) == 0) {
            rig_settle(rig);
        }
    }
}

static void a_restart_finds_the_same_trial(void **state)
{
    (void)state;
    struct rig rig;
    struct base_prng prng;
    struct pol_trial before;
    struct pol_trial after;
    base_prng_seed(&prng, 20261125);
    open_trial(&rig);
    for (uint32_t life = 0; life < 5; life++) {
        live(&rig, &prng, 20);
        rig_advance_s(&rig, 1);
        trial_now(&rig, &before);
        rig_stop(&rig);
        rig_start(&rig);
        trial_now(&rig, &after);
        expect_same(&before, &after);
    }
    assert_true(before.all[POL_COHORT_UPDATED].failed > 3);
    assert_true(before.all[POL_COHORT_CONTROL].failed > 3);
    assert_true(before.over[POL_COHORT_CONTROL].offered > 0);
    assert_true(before.rise.wealth[0] != 0);
    expect_replay(&rig);
    rig_done(&rig);
}

// A kill loses what was not written yet: whose offer is lost and who then reports takes no part, or
// is not heard when it speaks of what it had; who comes again enters anew; nobody is in it twice.
static void a_kill_loses_devices_and_doubles_none(void **state)
{
    (void)state;
    struct rig rig;
    struct pol_trial trial;
    char command[256];
    char copy[80];
    uint32_t drawn = 0;
    open_trial(&rig);
    for (uint32_t i = 0; i < DEVICES / 2; i++) {
        drawn += come(&rig, &devices[i]) != NOTHING;
    }
    rig_advance_s(&rig, 1);
    rig_settle(&rig);
    for (uint32_t i = DEVICES / 2; i < DEVICES; i++) { // nothing writes these
        (void)come(&rig, &devices[i]);
    }
    snprintf(copy, sizeof(copy), "%.60s.killed", rig.dir);
    snprintf(command, sizeof(command), "cp -r %s %s", rig.dir, copy);
    assert_int_equal(system(command), 0);
    rig_done(&rig);
    memcpy(rig.dir, copy, strlen(copy) + 1);
    rig_start(&rig);
    rig_advance_s(&rig, BLOCK_S + 5);
    trial_now(&rig, &trial);
    assert_int_equal(trial.compared + trial.all[POL_COHORT_CONTROL].offered, drawn);
    for (uint32_t i = DEVICES / 2; i < DEVICES; i++) {
        if (place_of(&devices[i]) != NOTHING && i % 2 == 0) {
            tell(&rig, &devices[i], WIRE_OUTCOME_RAN);
        }
    }
    for (uint32_t i = 0; i < DEVICES; i++) {
        bool lost = i >= DEVICES / 2 && place_of(&devices[i]) == CONTROL;
        drawn += lost;
        (void)come(&rig, &devices[i]);
    }
    rig_advance_s(&rig, BLOCK_S + 5);
    trial_now(&rig, &trial);
    assert_int_equal(trial.compared + trial.all[POL_COHORT_CONTROL].offered, drawn);
    rig_expect_counts_from_disk(&rig);
    rig_done(&rig);
}

// Reports of one second, in any order: the same wealth.
static void the_order_within_a_second_does_not_matter(void **state)
{
    (void)state;
    struct pol_trial trials[2];
    for (uint32_t turn = 0; turn < 2; turn++) {
        struct rig rig;
        open_trial(&rig);
        for (uint32_t i = 0; i < DEVICES; i++) {
            (void)come(&rig, &devices[i]);
        }
        rig_advance_s(&rig, BLOCK_S + 5);
        rig_settle(&rig);
        for (uint32_t k = 0; k < DEVICES; k++) {
            uint32_t i = turn == 0 ? k : DEVICES - 1 - k;
            if (place_of(&devices[i]) != NOTHING && i % 5 == 0) {
                tell(&rig, &devices[i], WIRE_OUTCOME_FAIL_EXCEPTION);
            }
        }
        trial_now(&rig, &trials[turn]);
        assert_int_equal(trials[turn].all[POL_COHORT_CONTROL].failed, 0); // the second is not over
        rig_advance_s(&rig, 1);
        trial_now(&rig, &trials[turn]);
        assert_true(trials[turn].all[POL_COHORT_CONTROL].failed > 10);
        rig_done(&rig);
    }
    expect_same(&trials[0], &trials[1]);
}

// What is heard of after the window counts for people, not in the verdict; and a success before a
// failure is none.
static void windows_end(void **state)
{
    (void)state;
    struct rig rig;
    struct pol_trial trial;
    struct gw_rollout_view view;
    open_trial(&rig);
    for (uint32_t i = 0; i < DEVICES; i++) {
        if (come(&rig, &devices[i]) != NOTHING && i % 2 == 0) {
            tell(&rig, &devices[i], WIRE_OUTCOME_RAN);
        }
    }
    rig_advance_s(&rig, BLOCK_S + 5);
    rig_settle(&rig);
    uint32_t failed = 0;
    for (uint32_t i = 0; i < DEVICES; i++) {
        if (place_of(&devices[i]) == UPDATED && i % 6 == 0) {
            tell(&rig, &devices[i], WIRE_OUTCOME_FAIL_CRASH); // it had succeeded
            failed++;
        }
    }
    rig_advance_s(&rig, 1);
    trial_now(&rig, &trial);
    assert_true(failed > 5);
    assert_int_equal(trial.all[POL_COHORT_UPDATED].failed, failed);
    assert_true(trial_under_way(&trial) > 0);
    rig_advance_s(&rig, WINDOW_S + BLOCK_S);
    for (uint32_t i = 0; i < DEVICES; i++) {
        if (place_of(&devices[i]) != NOTHING && i % 2 == 1) {
            tell(&rig, &devices[i], WIRE_OUTCOME_FAIL_CRASH); // too late
        }
    }
    rig_advance_s(&rig, 1);
    struct pol_trial late;
    trial_now(&rig, &late);
    assert_int_equal(late.all[POL_COHORT_UPDATED].failed, failed);
    assert_int_equal(late.all[POL_COHORT_CONTROL].failed, 0);
    assert_int_equal(trial_under_way(&late), 0);
    rig_view(&rig, ID, &view);
    assert_true(view.counts.failed > failed);
    assert_true(view.counts.control_failed > 0);
    rig_done(&rig);
}

// Reports of devices that nobody is known to have offered anything, and of strangers.
static void who_was_not_drawn_takes_no_part(void **state)
{
    (void)state;
    struct rig rig;
    struct pol_trial trial;
    open_trial(&rig);
    for (uint32_t i = 0; i < DEVICES; i++) {
        if (place_of(&devices[i]) != NOTHING) {
            tell(&rig, &devices[i], WIRE_OUTCOME_FAIL_EXCEPTION);
        }
    }
    rig_advance_s(&rig, BLOCK_S + 5);
    trial_now(&rig, &trial);
    assert_int_equal(trial.all[POL_COHORT_UPDATED].offered, 0);
    assert_int_equal(trial.all[POL_COHORT_CONTROL].offered, 0);
    rig_done(&rig);

    rig_init(&rig);
    rig.only_proven = true;
    rig_start(&rig);
    make_devices();
    rig_baseline(&rig, TASK, BASE_ID, NULL, NULL, &old_version);
    for (uint32_t i = 0; i < DEVICES; i++) {
        has_old(&devices[i]);
    }
    begin_stages(&rig, gray_full, 2);
    uint32_t proven[3] = {0};
    for (uint32_t i = 0; i < DEVICES; i++) {
        rig.certified = i % 2 == 0;
        enum drawn drawn = come(&rig, &devices[i]);
        proven[drawn] += rig.certified;
        if (drawn != NOTHING) {
            tell(&rig, &devices[i], WIRE_OUTCOME_FAIL_EXCEPTION);
        }
    }
    rig_advance_s(&rig, BLOCK_S + 5);
    trial_now(&rig, &trial);
    assert_int_equal(trial.all[POL_COHORT_UPDATED].offered, proven[UPDATED]);
    assert_int_equal(trial.all[POL_COHORT_CONTROL].offered, proven[CONTROL]);
    rig_done(&rig);
}

// Some of the devices run so many other tasks that what they said before leaves their record.
static void speak_of_many(struct rig *rig)
{
    struct wire_report report = {.first_seq = 10, .count = GW_DEVICE_OUTCOMES_MAX};
    for (uint32_t i = 0; i < report.count; i++) {
        char name[32];
        struct wire_sha256 manifest;
        snprintf(name, sizeof(name), "other-%u", i);
        rig_baseline(rig, name, 0x900 + i, NULL, NULL, &manifest);
        report.outcomes[i] = (struct wire_outcome){.kind = WIRE_OUTCOME_RAN,
                                                   .task_id = wire_task_id(base_str_of(name)),
                                                   .version_id = wire_version_id(&manifest),
                                                   .rollout_id = 0x900 + i};
    }
    rig_advance_s(rig, 2);
    for (uint32_t i = 0; i < DEVICES; i++) {
        if (i % 6 < 2) {
            report.device_id = devices[i].id;
            report.epoch = devices[i].epoch;
            assert_int_equal(rig_send_report(rig, &report), 204);
            devices[i].seq = report.first_seq + report.count;
        }
    }
}

// Devices in control's part of the fleet that were never offered what they had, and are on record
// with no version, speak of what they ran: it moves nothing that people see of control. Those who
// are on record with that very version, and were offered it by a gateway that was killed, count.
static void who_holds_nothing_is_no_control(void **state)
{
    (void)state;
    struct rig rig;
    struct gw_rollout_view view;
    uint32_t known = 0;
    uint64_t unknown = 0;
    open_fleet(&rig);
    for (uint32_t i = 0; i < DEVICES; i++) {
        struct wire_report report = {
            .device_id = devices[i].id, .epoch = devices[i].epoch, .first_seq = 1, .count = 1};
        report.outcomes[0] = (struct wire_outcome){.kind = WIRE_OUTCOME_RAN,
                                                   .task_id = wire_task_id(BASE_STR(TASK)),
                                                   .version_id = wire_version_id(&old_version),
                                                   .rollout_id = BASE_ID};
        devices[i].seq = 2;
        // A third ran it, a third ran it and lost it since; nobody has heard of the others.
        if (i % 3 == 0) {
            assert_int_equal(rig_send_report(&rig, &report), 204);
        } else if (i % 3 == 1) {
            report.count = 2;
            report.outcomes[1] = report.outcomes[0];
            report.outcomes[1].kind = WIRE_OUTCOME_ROLLED_BACK;
            devices[i].seq = 3;
            assert_int_equal(rig_send_report(&rig, &report), 204);
        }
    }
    speak_of_many(&rig);
    begin_stages(&rig, gray_full, 2);
    for (uint32_t i = 0; i < DEVICES; i++) {
        if (place_of(&devices[i]) == CONTROL) {
            tell(&rig, &devices[i], i % 2 == 0 ? WIRE_OUTCOME_RAN : WIRE_OUTCOME_FAIL_CRASH);
            known += i % 3 == 0;
            unknown += i % 3 != 0;
        }
    }
    rig_settle(&rig);
    rig_view(&rig, ID, &view);
    assert_true(known > 10 && unknown > 20);
    assert_int_equal(view.counts.control, known);
    assert_int_equal(view.counts.control_activated, known);
    assert_true(view.counts.control_completed <= known && view.counts.control_failed <= known);
    assert_int_equal(rig.core->reports_unoffered, 2 * unknown);
    rig_expect_counts_from_disk(&rig);
    rig_done(&rig);
}

// ---- Verdicts

// Every device comes and reports within a minute; of each cohort so many of 100 fail.
static void whole_stage(struct rig *rig, uint32_t updated_percent, uint32_t control_percent)
{
    struct base_prng prng;
    base_prng_seed(&prng, 7);
    for (uint32_t i = 0; i < DEVICES; i++) {
        enum drawn drawn = come(rig, &devices[i]);
        if (drawn != NOTHING) {
            uint32_t percent = drawn == UPDATED ? updated_percent : control_percent;
            bool fails = base_prng_below(&prng, 100) < percent;
            tell(rig, &devices[i], fails ? WIRE_OUTCOME_FAIL_EXCEPTION : WIRE_OUTCOME_RAN);
        }
        if (i % 20 == 19) {
            rig_advance_s(rig, 3);
            rig_settle(rig);
        }
    }
    rig_advance_s(rig, BLOCK_S + WINDOW_S + 5);
    rig_settle(rig);
}

static void bad_versions_stop_and_good_ones_go_on(void **state)
{
    (void)state;
    struct rig rig;
    struct gw_rollout_view view;
    open_trial(&rig);
    whole_stage(&rig, 30, 2);
    rig_view(&rig, ID, &view);
    assert_int_equal(view.verdict, POL_VERDICT_FAIL);
    assert_int_equal(view.state, POL_ROLLOUT_ROLLING_BACK);
    assert_int_equal(reason_back(&rig), POL_REASON_RISE_OVER_CONTROL);
    expect_replay(&rig);
    rig_done(&rig);

    open_trial(&rig);
    whole_stage(&rig, 10, 10);
    rig_view(&rig, ID, &view);
    assert_int_equal(view.stage_index, 0);
    assert_int_not_equal(view.verdict, POL_VERDICT_FAIL);
    rig_advance_s(&rig, 3600);
    rig_settle(&rig);
    rig_view(&rig, ID, &view);
    print_message("identical: %s, %s\n", pol_verdict_name(view.verdict),
                  pol_reason_name(view.reason));
    assert_int_equal(view.stage_index, 1); // it passed
    expect_replay(&rig);
    rig_done(&rig);
}

static void a_first_release_has_nobody_to_compare_with(void **state)
{
    (void)state;
    struct rig rig;
    struct gw_rollout_view view;
    rig_init(&rig);
    rig_start(&rig);
    make_devices();
    begin_stages(&rig, gray_full, 2);
    whole_stage(&rig, 5, 0);
    rig_view(&rig, ID, &view);
    assert_true(view.trial.there);
    assert_int_equal(view.counts.control, 0);
    assert_false(pol_trial_compares(&view.trial.trial));
    rig_advance_s(&rig, 3600);
    rig_settle(&rig);
    rig_view(&rig, ID, &view);
    assert_int_equal(view.stage_index, 1);
    expect_replay(&rig);
    rig_done(&rig);
}

// A segment that is bad is held, by its own control; the rest goes on without its devices.
static void a_bad_segment_is_held(void **state)
{
    (void)state;
    struct rig rig;
    struct gw_rollout_view view;
    struct pol_trial trial;
    open_trial(&rig);
    for (uint32_t i = 0; i < DEVICES; i++) {
        enum drawn drawn = come(&rig, &devices[i]);
        if (drawn != NOTHING) {
            bool fails = drawn == UPDATED && i % 4 == 0;
            tell(&rig, &devices[i], fails ? WIRE_OUTCOME_FAIL_EXCEPTION : WIRE_OUTCOME_RAN);
        }
    }
    rig_advance_s(&rig, BLOCK_S + 5);
    rig_settle(&rig);
    rig_view(&rig, ID, &view);
    assert_int_equal(view.quarantine_count, 1);
    assert_non_null(strstr(view.quarantine[0].text, "SM-1"));
    assert_int_equal(view.state, POL_ROLLOUT_RUNNING);
    trial_now(&rig, &trial);
    assert_int_equal(trial.all[POL_COHORT_UPDATED].failed, 0);
    rig_stop(&rig);
    rig_start(&rig);
    struct pol_trial again;
    trial_now(&rig, &again);
    expect_same(&trial, &again);
    expect_replay(&rig);
    rig_done(&rig);
}

static bool take_hint(void *ctx, struct gw_hint *hint, struct base_str text)
{
    const struct rig_device device = {.id = hint->device_id};
    uint64_t *hinted = ctx;
    (void)text;
    hinted[place_of(&device)]++;
    return true;
}

// Control has what it should, and learns of a trial when the updated do.
static void both_cohorts_are_hinted(void **state)
{
    (void)state;
    struct rig rig;
    static struct gw_hint hints[DEVICES];
    uint64_t hinted[3] = {0, 0, 0};
    rig_init(&rig);
    rig_start(&rig);
    make_devices();
    rig_baseline(&rig, TASK, BASE_ID, NULL, NULL, &old_version);
    gw_worker_on_hint(rig.worker.worker, take_hint, NULL, hinted);
    for (uint32_t i = 0; i < DEVICES; i++) {
        has_old(&devices[i]);
        assert_int_equal(come(&rig, &devices[i]), NOTHING);
        rig_subscribe(&rig, &devices[i], &hints[i]);
    }
    rig_settle(&rig);
    memset(hinted, 0, sizeof(hinted));
    begin_stages(&rig, gray_full, 2);
    assert_int_equal(hinted[UPDATED], count_of(UPDATED));
    assert_int_equal(hinted[CONTROL], count_of(CONTROL));
    assert_int_equal(hinted[NOTHING], 0);
    for (uint32_t i = 0; i < DEVICES; i++) {
        gw_worker_unsubscribe(rig.worker.worker, &hints[i]);
    }
    rig_done(&rig);
}

// Beside another request there is no place for marks: who is compared comes by itself.
static void beside_another_request_nobody_is_drawn(void **state)
{
    (void)state;
    struct rig rig;
    uint32_t compared = 0;
    open_trial(&rig);
    for (uint32_t i = 0; i < DEVICES; i++) {
        struct rig_exchange exchange;
        char hex[WIRE_DEVICE_HEX + 1];
        char text[WIRE_PROFILE_TEXT_MAX + 4];
        wire_device_hex(devices[i].id, hex);
        rig_exchange_init(&exchange, GW_METHOD_GET, "/");
        const struct gw_request request = {.device = base_str_of(hex),
                                           .profile = rig_device_profile(&devices[i], true, text)};
        struct base_str value =
            gw_worker_offer_header(rig.worker.worker, &exchange.arena, &request);
        assert_int_equal(value.size, 0);
        rig_exchange_done(&exchange);
        compared += place_of(&devices[i]) != NOTHING;
    }
    assert_true(compared > 0);
    for (uint32_t i = 0; i < DEVICES; i++) {
        assert_int_equal(come(&rig, &devices[i]), place_of(&devices[i]));
    }
    rig_done(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_cohorts_are_hinted),
        cmocka_unit_test(cohorts_are_drawn_at_checkins),
        cmocka_unit_test(beside_another_request_nobody_is_drawn),
        cmocka_unit_test(who_cannot_be_control_is_alone),
        cmocka_unit_test(what_control_fails_of_is_no_cause),
        cmocka_unit_test(who_is_updated_does_not_speak_as_control),
        cmocka_unit_test(both_cohorts_keep_one_pace),
        cmocka_unit_test(cohorts_at_their_ends),
        cmocka_unit_test(later_stages_draw_anew),
        cmocka_unit_test(a_restart_finds_the_same_trial),
        cmocka_unit_test(a_kill_loses_devices_and_doubles_none),
        cmocka_unit_test(the_order_within_a_second_does_not_matter),
        cmocka_unit_test(windows_end),
        cmocka_unit_test(who_was_not_drawn_takes_no_part),
        cmocka_unit_test(who_holds_nothing_is_no_control),
        cmocka_unit_test(bad_versions_stop_and_good_ones_go_on),
        cmocka_unit_test(a_first_release_has_nobody_to_compare_with),
        cmocka_unit_test(a_bad_segment_is_held),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
