// Whose word counts: a device's that was offered the version, or that this gateway would have
// offered it. What others say of a rollout, proven or not, leaves no trace in it. The real core and
// store, without sockets.
#include "conduct_kit.h"

#include "svc/device/causes.h"
#include "svc/device/touches.h"
#include "svc/device/device_table.h"

#define ID 0x41u

static enum pol_gate_rule rule;
static bool approved;
static uint16_t band;

static void conduct(struct pol_stage *stage, uint32_t index)
{
    stage->gate.rule = rule;
    stage->approval = approved && index == 0;
    stage->control_buckets = index == 0 ? band : 0;
    stage->observe_s = 300;
    if (rule != POL_GATE_THRESHOLD) {
        stage->gate.alpha_ppm = 50000;
        stage->gate.beta_ppm = 100000;
        stage->gate.max_rise_ppm = 200000;
        stage->gate.min_answered_ppm = 900000;
    }
    stage->window_s = rule == POL_GATE_LOGRANK ? 100 : 0;
}

static void open_offers(struct rig *rig)
{
    open_rig(rig, conduct);
    rig->certified = true;
    rule = POL_GATE_THRESHOLD;
    approved = false;
    band = 0;
}

static bool is_android(const struct rig_device *device)
{
    return device->attrs.items[0].text.size == sizeof("android") - 1;
}

static bool is_in(const struct rig_device *device, uint16_t share)
{
    return pol_bucket(device->id, base_mix64(ID)) < share;
}

// A check-in that takes nothing: the gateway knows what the device is.
static void is_seen(struct rig *rig, const struct rig_device *device)
{
    struct rig_exchange exchange;
    struct wire_offers offers;
    (void)rig_checkin(rig, device, true, &exchange, &offers);
    rig_exchange_done(&exchange);
    gw_worker_flush_touches(rig->worker.worker);
}

// Nobody has anything to do with the rollout, in memory and on disk.
static void expect_nothing(struct rig *rig, enum pol_rollout_state state, uint64_t unoffered)
{
    struct gw_rollout_view view;
    struct gw_cause cause;
    rig_settle(rig);
    rig_view(rig, ID, &view);
    assert_int_equal(view.state, state);
    assert_int_equal(view.stage_index, 0);
    assert_int_equal(view.counts.offered + view.counts.control + view.counts.unproven, 0);
    assert_int_equal(view.counts.succeeded + view.counts.failed + view.counts.rolled_back, 0);
    assert_int_equal(view.fingerprint_count + view.slice_count, 0);
    assert_int_equal(gw_cause_get(rig->core, ID, 4711, &cause), BASE_ERR_NOT_FOUND);
    assert_int_equal(rig->core->reports.unoffered, unoffered);
    rig_expect_counts_from_disk(rig);
}

// One device of each kind says that it ran well, the next one that it failed, by turns. Returns how
// many outcomes that were.
static uint64_t outsiders_say(struct rig *rig, bool (*is_outside)(const struct rig_device *device))
{
    struct gw_rollout_view view;
    uint64_t said = 0;
    rig_view(rig, ID, &view);
    for (uint32_t i = 0; i < DEVICES; i++) {
        if (is_outside(&devices[i])) {
            bool fails = i % 3 == 0;
            is_seen(rig, &devices[i]);
            assert_int_equal(rig_report(rig, &devices[i], &view, fails ? bad : good, 3), 204);
            said += 3;
        }
    }
    assert_true(said > 30);
    return said;
}

static const struct rig_stage small[] = {
    {"gray", POL_STAGE_GRAY, 2000, NULL, NULL, 1, 100000, 0},
    {"full", POL_STAGE_FULL, 10000, NULL, NULL, 20, 200000, 0},
};

static bool beyond_the_share(const struct rig_device *device)
{
    return !is_in(device, 2000);
}

static void beyond_the_share_nobody_counts(void **state)
{
    static const enum pol_gate_rule rules[] = {POL_GATE_THRESHOLD, POL_GATE_SEQUENTIAL,
                                               POL_GATE_LOGRANK};
    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        struct rig rig;
        open_offers(&rig);
        rule = rules[i];
        begin(&rig, ID, small, 2);
        rig_command(&rig, ID, POL_COMMAND_START, NULL);
        uint64_t said = outsiders_say(&rig, beyond_the_share);
        expect_nothing(&rig, POL_ROLLOUT_RUNNING, said);
        rig_stop(&rig);
        rig_start(&rig);
        expect_nothing(&rig, POL_ROLLOUT_RUNNING, 0);
        rig_done(&rig);
    }
}

static bool anybody(const struct rig_device *device)
{
    (void)device;
    return true;
}

static void a_rollout_that_was_not_started_counts_nobody(void **state)
{
    (void)state;
    struct rig rig;
    open_offers(&rig);
    approved = true;
    begin(&rig, ID, small, 2);
    uint64_t said = outsiders_say(&rig, anybody);
    expect_nothing(&rig, POL_ROLLOUT_DRAFT, said);
    rig_command(&rig, ID, POL_COMMAND_START, NULL);
    said += outsiders_say(&rig, anybody);
    expect_nothing(&rig, POL_ROLLOUT_WAITING, said);
    rig_command(&rig, ID, POL_COMMAND_ABORT, NULL);
    rig_settle(&rig);
    said += outsiders_say(&rig, anybody);
    expect_nothing(&rig, POL_ROLLOUT_ROLLED_BACK, said);
    rig_done(&rig);
    // A draft that is taken back looks like a rollout that is.
    open_offers(&rig);
    begin(&rig, ID, small, 2);
    rig_command(&rig, ID, POL_COMMAND_ABORT, NULL);
    rig_settle(&rig);
    said = outsiders_say(&rig, anybody);
    expect_nothing(&rig, POL_ROLLOUT_ROLLED_BACK, said);
    rig_stop(&rig);
    rig_start(&rig);
    said = outsiders_say(&rig, anybody);
    expect_nothing(&rig, POL_ROLLOUT_ROLLED_BACK, said);
    rig_done(&rig);
}

// When it is taken back, only who was offered it before counts; also after a restart.
static void who_was_never_offered_it_counts_in_no_end(void **state)
{
    static const enum pol_command ends[] = {POL_COMMAND_ABORT, POL_COMMAND_KILL};
    (void)state;
    for (uint32_t i = 0; i < 2 * 2; i++) {
        struct rig rig;
        struct gw_rollout_view view;
        uint32_t first = 0;
        open_offers(&rig);
        begin(&rig, ID, small, 2);
        rig_command(&rig, ID, POL_COMMAND_START, NULL);
        while (!is_in(&devices[first], 2000)) {
            first++;
        }
        assert_int_equal(come(&rig, &devices[first], ID, NULL, 0, NULL), 1);
        rig_settle(&rig);
        rig_command(&rig, ID, ends[i % 2], NULL);
        if (i >= 2) {
            rig_stop(&rig);
            rig_start(&rig);
        }
        rig_view(&rig, ID, &view);
        uint64_t said = 0;
        for (uint32_t k = first; k < DEVICES; k++) {
            assert_int_equal(rig_report(&rig, &devices[k], &view, k % 2 == 0 ? good : bad, 3), 204);
            said += k > first ? 3 : 0;
        }
        rig_view(&rig, ID, &view);
        assert_int_equal(view.counts.offered, 1);
        assert_int_equal(view.counts.activated + view.counts.failed, first % 2 == 0 ? 1 : 2);
        assert_int_equal(view.counts.on_version, 1);
        assert_int_equal(rig.core->reports.unoffered, said);
        rig_expect_counts_from_disk(&rig);
        rig_done(&rig);
    }
}

static void a_simulate_stage_counts_nobody(void **state)
{
    static const struct rig_stage stages[] = {
        {"simulate", POL_STAGE_SIMULATE, 10000, NULL, NULL, 1, 200000, 0},
        {"full", POL_STAGE_FULL, 10000, NULL, NULL, 20, 200000, 0},
    };
    (void)state;
    struct rig rig;
    open_offers(&rig);
    begin(&rig, ID, stages, 2);
    rig_command(&rig, ID, POL_COMMAND_START, NULL);
    uint64_t said = outsiders_say(&rig, anybody);
    expect_nothing(&rig, POL_ROLLOUT_RUNNING, said);
    rig_done(&rig);
}

// ---- Of another target, audience and arm

static void create(struct rig *rig, const char *attr, const char *value,
                   const struct rig_stage *stages, uint32_t count)
{
    struct wire_sha256 manifest;
    struct gw_rollout_view view;
    struct base_error error = {0};
    rig_version(rig, "shop/score", "1.0.0", &manifest);
    if (rig_rollout(rig, ID, "shop/score", &manifest, attr, value, stages, count, &view, &error) !=
        BASE_OK) {
        fail_msg("rollout: %s", error.text);
    }
    rig_command(rig, ID, POL_COMMAND_START, NULL);
}

static const struct rig_stage all[] = {{"full", POL_STAGE_FULL, 10000, NULL, NULL, 1, 100000, 0}};
static const struct pol_arm arm = {.salt = 0xa12, .from = 0, .to = 3000};

static bool of_another_arm(const struct rig_device *device)
{
    return !pol_arm_has(&arm, device->id);
}

static void others_are_not_whom_it_is_for(void **state)
{
    static const struct rig_stage beta[] = {
        {"beta", POL_STAGE_BETA, 10000, "os", "ios", 1, 100000, 0},
        {"full", POL_STAGE_FULL, 10000, NULL, NULL, 20, 200000, 0},
    };
    (void)state;
    struct rig rig;
    open_offers(&rig);
    create(&rig, "os", "ios", all, 1);
    uint64_t said = outsiders_say(&rig, is_android);
    expect_nothing(&rig, POL_ROLLOUT_RUNNING, said);
    // Nor is a device that never said what it is.
    struct gw_rollout_view view;
    struct rig_device mute;
    rig_device_init(&mute, 0x777);
    rig_view(&rig, ID, &view);
    assert_int_equal(rig_report(&rig, &mute, &view, bad, 4), 204);
    expect_nothing(&rig, POL_ROLLOUT_RUNNING, said + 4);
    rig_done(&rig);

    open_offers(&rig);
    create(&rig, NULL, NULL, beta, 2);
    said = outsiders_say(&rig, is_android);
    expect_nothing(&rig, POL_ROLLOUT_RUNNING, said);
    rig_done(&rig);

    open_offers(&rig);
    rig.arm = arm;
    create(&rig, NULL, NULL, all, 1);
    said = outsiders_say(&rig, of_another_arm);
    expect_nothing(&rig, POL_ROLLOUT_RUNNING, said);
    rig_done(&rig);
}

// What a stranger said in a device's name is no offer to it.
static void a_strangers_word_is_no_offer(void **state)
{
    (void)state;
    struct rig rig;
    struct gw_rollout_view view;
    open_offers(&rig);
    rig.only_proven = true;
    create(&rig, "os", "ios", all, 1);
    rig.certified = false;
    rig_view(&rig, ID, &view);
    assert_int_equal(rig_report(&rig, &devices[0], &view, bad, 4), 204);
    rig_view(&rig, ID, &view);
    assert_int_equal(view.counts.unproven_failed, 1);
    rig.certified = true;
    is_seen(&rig, &devices[0]); // android
    devices[0].seq = 1;
    assert_int_equal(rig_report(&rig, &devices[0], &view, bad, 4), 204);
    assert_int_equal(rig.core->reports.unoffered, 4);
    rig_view(&rig, ID, &view);
    assert_int_equal(view.counts.failed, 0);
    assert_int_equal(view.state, POL_ROLLOUT_RUNNING);
    rig_done(&rig);
}

// ---- Control

static uint32_t first_in(uint16_t from, uint16_t to)
{
    uint32_t i = 0;
    while (!is_in(&devices[i], to) || is_in(&devices[i], from)) {
        i++;
    }
    return i;
}

// A control device is none of the updated ones, whatever it says, until a stage lets it in.
static void control_stays_control(void **state)
{
    static const struct rig_stage stages[] = {
        {"gray", POL_STAGE_GRAY, 2000, NULL, NULL, 100, 100000, 0},
        {"full", POL_STAGE_FULL, 10000, NULL, NULL, 100, 200000, 0},
    };
    (void)state;
    struct rig rig;
    struct gw_rollout_view view;
    open_offers(&rig);
    rule = POL_GATE_SEQUENTIAL;
    band = 8000;
    begin(&rig, ID, stages, 2);
    rig_command(&rig, ID, POL_COMMAND_START, NULL);
    struct rig_device *device = &devices[first_in(2000, 10000)];
    rig_advance_s(&rig, 1);
    is_seen(&rig, device);
    for (int i = 0; i < 3; i++) { // walked over, and written
        (void)gw_core_tick(rig.core);
        rig_settle(&rig);
    }
    rig_view(&rig, ID, &view);
    assert_int_equal(view.counts.control, 1);
    assert_int_equal(rig_report(&rig, device, &view, bad, 4), 204);
    rig_settle(&rig);
    rig_view(&rig, ID, &view);
    assert_int_equal(view.counts.control, 1);
    assert_int_equal(view.counts.control_failed + view.counts.control_completed, 0);
    assert_int_equal(view.counts.offered, 0);
    assert_int_equal(view.fingerprint_count, 0);
    rig_command(&rig, ID, POL_COMMAND_PROMOTE, NULL);
    assert_int_equal(rig_report(&rig, device, &view, good, 3), 204);
    rig_settle(&rig);
    rig_view(&rig, ID, &view);
    assert_int_equal(view.counts.control, 0);
    assert_int_equal(view.stages[1].counts.succeeded, 1);
    rig_expect_counts_from_disk(&rig);
    rig_done(&rig);
}

// ---- What goes on counting

static void kill_and_start(struct rig *rig)
{
    char command[256];
    char copy[80];
    snprintf(copy, sizeof(copy), "%.60s.killed", rig->dir);
    snprintf(command, sizeof(command), "cp -r %s %s", rig->dir, copy);
    assert_int_equal(system(command), 0);
    rig_done(rig);
    memcpy(rig->dir, copy, strlen(copy) + 1);
    rig_start(rig);
}

// Killed between the offers and their record: those who were offered it count, of a target too,
// and nobody else.
static void a_kill_loses_no_honest_report(void **state)
{
    (void)state;
    struct rig rig;
    struct gw_rollout_view view;
    uint32_t offered = 0;
    open_offers(&rig);
    for (uint32_t i = 0; i < DEVICES; i++) {
        is_seen(&rig, &devices[i]);
    }
    rig_settle(&rig);
    create(&rig, "os", "ios", small, 2);
    rig_settle(&rig);
    for (uint32_t i = 0; i < DEVICES; i++) {
        offered += come(&rig, &devices[i], ID, NULL, 0, NULL);
    }
    assert_true(offered > 5);
    kill_and_start(&rig);
    rig_view(&rig, ID, &view);
    assert_int_equal(view.counts.offered, 0);
    for (uint32_t i = 0; i < DEVICES; i++) {
        assert_int_equal(rig_report(&rig, &devices[i], &view, good, 2), 204);
    }
    rig_view(&rig, ID, &view);
    assert_int_equal(view.counts.offered, offered);
    assert_int_equal(view.counts.activated, offered);
    assert_int_equal(rig.core->reports.unoffered, 2 * (DEVICES - offered));
    rig_expect_counts_from_disk(&rig);
    rig_done(&rig);
}

// Who comes to a rollout that completed is offered it without a record; who was offered it before
// it was taken back has to go back.
static void a_completed_rollout_has_later_devices(void **state)
{
    static const struct rig_stage half[] = {{"half", POL_STAGE_GRAY, 5000, NULL, NULL, 1, 0, 0}};
    (void)state;
    struct rig rig;
    struct gw_rollout_view view;
    uint32_t offered = 0;
    open_offers(&rig);
    begin(&rig, ID, half, 1);
    rig_command(&rig, ID, POL_COMMAND_START, NULL);
    rig_command(&rig, ID, POL_COMMAND_PROMOTE, &view);
    assert_int_equal(view.state, POL_ROLLOUT_COMPLETED);
    for (uint32_t i = 0; i < DEVICES / 2; i++) {
        offered += come(&rig, &devices[i], ID, good, 3, NULL);
    }
    rig_view(&rig, ID, &view);
    assert_true(offered > 30);
    assert_int_equal(view.counts.on_version, offered);
    for (uint32_t i = 0; i < DEVICES; i++) {
        if (!is_in(&devices[i], 5000)) {
            assert_int_equal(rig_report(&rig, &devices[i], &view, good, 3), 204);
        }
    }
    rig_view(&rig, ID, &view);
    assert_int_equal(view.counts.offered, offered);
    rig_command(&rig, ID, POL_COMMAND_UNDO, NULL);
    for (uint32_t i = DEVICES / 2; i < DEVICES; i++) {
        if (is_in(&devices[i], 5000)) {
            assert_int_equal(rig_report(&rig, &devices[i], &view, good, 2), 204);
            offered++;
        }
    }
    rig_view(&rig, ID, &view);
    assert_int_equal(view.state, POL_ROLLOUT_ROLLING_BACK);
    assert_int_equal(view.counts.on_version, offered);
    rig_done(&rig);
}

// An offer that is on record counts whatever became of the device and of the rollout's stages.
static void an_offer_on_record_counts(void **state)
{
    (void)state;
    struct rig rig;
    struct gw_rollout_view view;
    open_offers(&rig);
    create(&rig, "os", "ios", all, 1);
    uint32_t i = 0;
    while (is_android(&devices[i])) {
        i++;
    }
    assert_int_equal(come(&rig, &devices[i], ID, NULL, 0, NULL), 1);
    devices[i].attrs.count = 0;
    rig_device_attr(&devices[i], "os", "android");
    is_seen(&rig, &devices[i]);
    rig_view(&rig, ID, &view);
    assert_int_equal(rig_report(&rig, &devices[i], &view, good, 3), 204);
    rig_view(&rig, ID, &view);
    assert_int_equal(view.counts.succeeded, 1);
    assert_int_equal(rig.core->reports.unoffered, 0);
    rig_done(&rig);
}

// ---- In many rollouts at once

static void task_name(uint32_t task, char out[32])
{
    snprintf(out, 32, "shop/score-%u", task);
}

static void start_many(struct rig *rig, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct wire_sha256 manifest;
        struct gw_rollout_view view;
        struct base_error error = {0};
        char task[32];
        task_name(i, task);
        rig_version(rig, task, "1.0.0", &manifest);
        if (rig_rollout(rig, ID + i, task, &manifest, NULL, NULL, all, 1, &view, &error) !=
            BASE_OK) {
            fail_msg("rollout %u: %s", i, error.text);
        }
        rig_command(rig, ID + i, POL_COMMAND_START, NULL);
    }
}

// How many of the rollouts count the device as offered.
static uint32_t counted(struct rig *rig, uint32_t count)
{
    uint32_t sum = 0;
    rig_settle(rig);
    for (uint32_t i = 0; i < count; i++) {
        struct gw_rollout_view view;
        rig_view(rig, ID + i, &view);
        assert_in_range(view.counts.offered, 0, 1);
        sum += (uint32_t)view.counts.offered;
    }
    return sum;
}

// Takes all it is offered until there is no more; returns how much that was.
static uint32_t take_all(struct rig *rig, struct rig_device *device)
{
    uint32_t took = 0;
    for (uint32_t more = 1; more > 0; took += more) {
        struct rig_exchange exchange;
        struct wire_offers offers;
        (void)rig_checkin(rig, device, true, &exchange, &offers);
        more = offers.count;
        (void)rig_device_take(device, &offers);
        rig_exchange_done(&exchange);
    }
    return took;
}

// A device is in so many open rollouts at most as all of them count; the others wait for one to
// end.
static void offers_that_no_count_has_are_not_made(void **state)
{
    const uint32_t count = GW_DEVICE_MARKS_MAX + 2;
    (void)state;
    struct rig rig;
    open_offers(&rig);
    start_many(&rig, count);
    assert_int_equal(take_all(&rig, &devices[0]), GW_DEVICE_MARKS_MAX);
    assert_int_equal(counted(&rig, count), GW_DEVICE_MARKS_MAX);
    rig_stop(&rig);
    rig_start(&rig);
    assert_int_equal(take_all(&rig, &devices[0]), 0);
    uint32_t ended = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct gw_rollout_view view;
        struct gw_why_view why;
        struct base_error error = {0};
        rig_view(&rig, ID + i, &view);
        ended = view.counts.offered == 1 ? i : ended;
        assert_int_equal(
            gw_device_why(rig.core, devices[0].id, base_str_of(view.task), &why, &error), BASE_OK);
        assert_int_equal(strstr(why.why, "32 open rollouts it is in") != NULL,
                         view.counts.offered == 0);
    }
    rig_command(&rig, ID + ended, POL_COMMAND_PROMOTE, NULL);
    assert_int_equal(take_all(&rig, &devices[0]), 1);
    assert_int_equal(counted(&rig, count), GW_DEVICE_MARKS_MAX + 1);
    rig_done(&rig);
}

// One report about all of them: the table hears of each, and so the walk that asks who is silent,
// and who is outstanding.
static void one_report_speaks_of_many_rollouts(void **state)
{
    const uint32_t count = 20;
    (void)state;
    struct rig rig;
    struct gw_device_snapshot known;
    struct wire_report report = {.epoch = 7, .first_seq = 1};
    open_offers(&rig);
    start_many(&rig, count);
    assert_int_equal(take_all(&rig, &devices[0]), count);
    for (uint32_t i = 0; i < count; i++) {
        struct gw_rollout_view view;
        rig_view(&rig, ID + i, &view);
        for (uint32_t k = 0; k < 3; k++) {
            report.outcomes[report.count++] =
                (struct wire_outcome){.rollout_id = ID + i,
                                      .task_id = wire_task_id(base_str_of(view.task)),
                                      .version_id = view.version_id,
                                      .kind = good[k]};
        }
    }
    report.device_id = devices[0].id;
    assert_int_equal(rig_send_report(&rig, &report), 204);
    assert_true(gw_device_table_get(rig.core->table, devices[0].id, &known));
    assert_int_equal(known.mark_count, count);
    for (uint32_t i = 0; i < count; i++) {
        assert_true((known.marks[i].bits & GW_OUTCOME_RAN) != 0);
        assert_true(known.marks[i].activated_s > 0);
    }
    rig_done(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(beyond_the_share_nobody_counts),
        cmocka_unit_test(a_rollout_that_was_not_started_counts_nobody),
        cmocka_unit_test(who_was_never_offered_it_counts_in_no_end),
        cmocka_unit_test(a_simulate_stage_counts_nobody),
        cmocka_unit_test(others_are_not_whom_it_is_for),
        cmocka_unit_test(a_strangers_word_is_no_offer),
        cmocka_unit_test(control_stays_control),
        cmocka_unit_test(a_kill_loses_no_honest_report),
        cmocka_unit_test(a_completed_rollout_has_later_devices),
        cmocka_unit_test(an_offer_on_record_counts),
        cmocka_unit_test(offers_that_no_count_has_are_not_made),
        cmocka_unit_test(one_report_speaks_of_many_rollouts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
