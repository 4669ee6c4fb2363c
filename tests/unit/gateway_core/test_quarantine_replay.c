// Quarantines found again: random fleets with a bad segment, judged live, and the same decisions
// out of the log alone; logs that were tampered with; other limits; and how much is written.
#include "conduct_kit.h"

#define ID          0x91u
#define FLEETS      10u
#define RECORDS_MAX 1024u

struct fleet {
    bool sequential;
    uint32_t models;
    uint32_t bad_model;
    uint32_t bad_percent;
    uint32_t base_permille;
};

static struct fleet fleet;
static char model_names[8][8];

static struct pol_record records[RECORDS_MAX];
static uint32_t record_count;

static void conduct(struct pol_stage *stage, uint32_t index)
{
    if (!fleet.sequential) {
        return;
    }
    stage->gate.rule = POL_GATE_SEQUENTIAL;
    stage->gate.alpha_ppm = 50000;
    stage->gate.beta_ppm = 100000;
    stage->gate.max_rise_ppm = 200000;
    stage->gate.max_failure_ppm = 400000;
    stage->gate.tolerated_rise_ppm = 100000;
    stage->control_buckets = index == 0 ? 5000 : 0;
    stage->observe_s = 60;
    stage->silence_s = 36000;
}

static const struct rig_stage stages[] = {
    {"gray", POL_STAGE_GRAY, 5000, NULL, NULL, 90, 200000, 0},
    {"full", POL_STAGE_FULL, 10000, NULL, NULL, 90, 200000, 0},
};

static void draw_fleet(struct base_prng *prng)
{
    fleet.sequential = base_prng_below(prng, 2) == 1;
    fleet.models = 3 + (uint32_t)base_prng_below(prng, 6);
    fleet.bad_model = (uint32_t)base_prng_below(prng, fleet.models);
    fleet.bad_percent = 60 + (uint32_t)base_prng_below(prng, 41);
    fleet.base_permille = (uint32_t)base_prng_below(prng, 15);
    for (uint32_t i = 0; i < DEVICES; i++) {
        uint32_t model = (uint32_t)base_prng_below(prng, fleet.models);
        snprintf(model_names[model], sizeof(model_names[0]), "SM-%u", model);
        rig_device_attr(&devices[i], "model", model_names[model]);
    }
}

static bool fails(const struct rig_device *device, struct base_prng *prng)
{
    const struct wire_attr *model = &device->attrs.items[device->attrs.count - 1];
    bool is_bad = base_str_equal(model->text, base_str_of(model_names[fleet.bad_model]));
    return is_bad ? base_prng_below(prng, 100) < fleet.bad_percent
                  : base_prng_below(prng, 1000) < fleet.base_permille;
}

// Devices come in no order, a few between two looks of the controller; now and then the gateway is
// started anew, or an operator lifts what is in quarantine.
static void live(struct rig *rig, struct base_prng *prng, bool lifts)
{
    struct gw_rollout_view view;
    struct base_error error = {0};
    for (uint32_t i = 0; i < 4 * DEVICES; i++) {
        struct rig_device *device = &devices[base_prng_below(prng, DEVICES)];
        bool bad_one = fails(device, prng);
        (void)come(rig, device, ID, bad_one ? bad : good, bad_one ? 4 : 3, NULL);
        if (base_prng_below(prng, 5) == 0) {
            rig_settle(rig);
        }
        if (base_prng_below(prng, 8) == 0) {
            rig_advance_s(rig, 20);
        }
        if (base_prng_below(prng, 400) == 0) {
            rig_stop(rig);
            rig_start(rig);
        }
        rig_view(rig, ID, &view);
        if (lifts && view.quarantine_count > 0 && base_prng_below(prng, 50) == 0) {
            struct gw_rollout_who who = {.by = BASE_STR("ana")};
            struct base_str first = base_str_of(view.quarantine[0].text);
            assert_int_equal(gw_rollout_lift(rig->core, ID, first, &who, &error), BASE_OK);
        }
    }
    rig_settle(rig);
}

static void read_log(struct rig *rig)
{
    static struct gw_rollout_log_view lines[16];
    uint64_t after = 0;
    struct gw_page page = {.limit = 16, .more = true};
    record_count = 0;
    while (page.more) {
        assert_int_equal(gw_rollout_log(rig->core, ID, after, lines, &page), BASE_OK);
        for (uint32_t i = 0; i < page.count; i++) {
            assert_true(record_count < RECORDS_MAX);
            records[record_count++] = lines[i].record;
            after = lines[i].seq;
        }
    }
}

struct answer {
    uint64_t differences;
    uint32_t first; // record they came apart at; record_count: none
    struct pol_held found;
    struct pol_replay replay;
};

static void replay(const struct pol_stage *with, uint32_t count, struct answer *out)
{
    *out = (struct answer){.first = record_count};
    pol_replay_init(&out->replay, 0);
    out->replay.rollout = records[0].after;
    for (uint32_t i = 0; i < record_count; i++) {
        bool differs = false;
        bool before = out->replay.apart;
        (void)pol_replay_step(&out->replay, with, count, &records[i], &differs);
        if (out->replay.apart && !before) {
            out->first = i;
            out->found = out->replay.found;
        }
    }
    out->differences = out->replay.differences;
}

static void begin_fleet(struct rig *rig, struct base_prng *prng)
{
    open_rig(rig, conduct);
    draw_fleet(prng);
    begin(rig, ID, stages, 2);
    rig_command(rig, ID, POL_COMMAND_START, NULL);
}

// ---- Live and replayed

static void every_quarantine_is_found_again(void **state)
{
    (void)state;
    uint64_t seed = UINT64_C(0x51ce);
    uint32_t held[2] = {0, 0};
    uint32_t looks = 0;
    uint32_t lifted = 0;
    printf("seed %llx\n", (unsigned long long)seed);
    for (uint32_t round = 0; round < FLEETS; round++) {
        struct base_prng prng;
        struct rig rig;
        struct answer answer;
        base_prng_seed(&prng, seed + round);
        begin_fleet(&rig, &prng);
        live(&rig, &prng, true);
        expect_replay(&rig, ID);
        read_log(&rig);
        const struct gw_rollout *rollout = gw_catalog_find_rollout(rig.core, ID);
        replay(rollout->release->stages, rollout->release->stage_count, &answer);
        assert_int_equal(answer.differences, 0);
        assert_int_equal(answer.replay.held.count, rollout->quarantine_count);
        assert_true(pol_held_equal(&answer.replay.lifted, &rollout->lifted));
        for (uint32_t i = 0; i < rollout->quarantine_count; i++) {
            assert_true(pol_held_has(&answer.replay.held, rollout->quarantine[i].segment));
        }
        for (uint32_t i = 0; i < record_count; i++) {
            bool look = records[i].kind == POL_RECORD_SLICES;
            held[fleet.sequential] += look ? records[i].held.count : 0;
            looks += look && records[i].held.count == 0;
            lifted += records[i].kind == POL_RECORD_LIFT;
        }
        rig_done(&rig);
    }
    printf("%u fleets: held %u by threshold and %u by evidence, %u looks that held nothing, %u "
           "lifted\n",
           FLEETS, held[0], held[1], looks, lifted);
    assert_true(held[0] >= 1 && held[1] >= 2 && looks >= FLEETS && lifted >= 1);
}

// What an operator lifted stays in, also over a restart, until the next stage: its gate judges.
static void what_was_lifted_is_not_held_again(void **state)
{
    (void)state;
    struct base_error error = {0};
    struct gw_rollout_who who = {.by = BASE_STR("ana")};
    struct gw_rollout_view view;
    for (uint64_t seed = 1;; seed++) {
        struct base_prng prng;
        struct rig rig;
        base_prng_seed(&prng, seed);
        begin_fleet(&rig, &prng);
        live(&rig, &prng, false);
        rig_view(&rig, ID, &view);
        const struct gw_rollout *rollout = gw_catalog_find_rollout(rig.core, ID);
        if (view.state != POL_ROLLOUT_RUNNING || view.quarantine_count == 0) {
            rig_done(&rig);
            assert_true(seed < 20);
            continue;
        }
        struct gw_quarantined held = view.quarantine[0];
        struct base_str name = base_str_of(held.text);
        assert_int_equal(gw_rollout_lift(rig.core, ID, name, &who, &error), BASE_OK);
        assert_true(pol_held_has(&rollout->lifted, held.segment));
        rig_stop(&rig);
        rig_start(&rig);
        live(&rig, &prng, false);
        rollout = gw_catalog_find_rollout(rig.core, ID);
        rig_view(&rig, ID, &view);
        for (uint32_t i = 0; i < view.quarantine_count; i++) {
            assert_true(view.quarantine[i].segment != held.segment ||
                        !pol_held_has(&rollout->lifted, held.segment));
        }
        expect_replay(&rig, ID);
        rig_done(&rig);
        return;
    }
}

// ---- Tampered with

// The place of a quarantine in the log that a look follows before anything is lifted.
static uint32_t find_quarantine(void)
{
    uint32_t at = record_count;
    for (uint32_t i = 0; i < record_count; i++) {
        bool look = records[i].kind == POL_RECORD_SLICES;
        if (look && at < record_count) {
            return at;
        }
        at = look && records[i].held.count > 0    ? i
             : records[i].kind == POL_RECORD_LIFT ? record_count
                                                  : at;
    }
    return record_count;
}

static uint32_t make_log(struct rig *rig, struct pol_stage out_stages[2])
{
    for (uint64_t seed = 1;; seed++) {
        struct base_prng prng;
        base_prng_seed(&prng, seed);
        begin_fleet(rig, &prng);
        live(rig, &prng, true);
        read_log(rig);
        memcpy(out_stages, gw_catalog_find_rollout(rig->core, ID)->release->stages,
               2 * sizeof(out_stages[0]));
        uint32_t at = find_quarantine();
        if (at < record_count) {
            printf("seed %llu, %s\n", (unsigned long long)seed,
                   fleet.sequential ? "sequential" : "threshold");
            return at;
        }
        rig_done(rig);
        assert_true(seed < 20);
    }
}

static struct pol_slice *slice_held(struct pol_record *record)
{
    for (uint32_t i = 0; i < record->slices.failing_count; i++) {
        if (record->slices.failing[i].name == record->held.names[0]) {
            return &record->slices.failing[i];
        }
    }
    fail_msg("the slice is not in the look");
    return NULL;
}

static void expect_found(const struct pol_stage *with, const struct pol_record *original,
                         uint32_t at, const char *what)
{
    struct answer answer;
    replay(with, 2, &answer);
    if (answer.differences == 0 || answer.first > at + 1) {
        fail_msg("%s: %llu differences, the first at %u and not at %u", what,
                 (unsigned long long)answer.differences, answer.first, at);
    }
    records[at] = *original;
    replay(with, 2, &answer);
    assert_int_equal(answer.differences, 0);
}

static void a_tampered_record_is_found(void **state)
{
    (void)state;
    static struct pol_record kept[RECORDS_MAX];
    static struct pol_record original;
    static struct pol_stage with[2];
    struct rig rig;
    struct answer answer;
    uint32_t at = make_log(&rig, with);
    original = records[at];
    struct pol_record *record = &records[at];
    record->held.names[0]++;
    expect_found(with, &original, at, "another segment");
    record->held.count = 0;
    expect_found(with, &original, at, "nothing held");
    slice_held(record)->seen.failures = 1;
    expect_found(with, &original, at, "fewer failures");
    slice_held(record)->seen.failures = slice_held(record)->seen.trials + 1;
    expect_found(with, &original, at, "more failures than completions");
    record->slices.failing[record->slices.failing_count++] = record->slices.failing[0];
    expect_found(with, &original, at, "a segment twice");
    record->slices.failing[0].name = record->held.names[0];
    record->slices.failing[0].seen.failures = 1;
    expect_found(with, &original, at, "counts under another name");
    record->slices.completed = slice_held(record)->seen.trials;
    expect_found(with, &original, at, "half of all");
    record->kind = POL_RECORD_NOTE; // taken out of the log; the next look tells
    replay(with, 2, &answer);
    assert_true(answer.differences > 0 && answer.first > at);
    read_log(&rig);
    // A look that held nothing, told as if a segment had failed all over.
    memcpy(kept, records, sizeof(kept));
    uint32_t tried = 0;
    for (uint32_t i = 0; i < record_count; i++) {
        struct pol_slices *slices = &records[i].slices;
        if (records[i].kind != POL_RECORD_SLICES || records[i].held.count > 0) {
            continue;
        }
        slices->completed += 300;
        slices->failing[0].seen = (struct pol_sample){100, 100};
        original = kept[i];
        expect_found(with, &original, i, "failures that nobody had");
        tried++;
    }
    assert_true(tried > 0);
    rig_done(&rig);
}

// ---- Other limits

static void other_limits_hold_other_segments(void **state)
{
    (void)state;
    static struct pol_stage with[2];
    struct rig rig;
    struct answer answer;
    uint32_t at = make_log(&rig, with);
    uint64_t held = records[at].held.names[0];
    for (uint32_t i = 0; i < 2; i++) { // nothing is ever too bad
        with[i].gate.rule = POL_GATE_THRESHOLD;
        with[i].gate.max_failure_ppm = 1000000;
    }
    replay(with, 2, &answer);
    assert_true(answer.first <= at);
    assert_int_equal(answer.found.count, 0);
    for (uint32_t i = 0; i < 2; i++) { // the sample is as patient as it can be, the limit tight
        with[i].gate.min_sample = 1000000;
        with[i].gate.max_failure_ppm = 100;
    }
    replay(with, 2, &answer);
    assert_true(answer.first < at);
    assert_true(pol_held_has(&answer.found, held) || answer.found.count > 0);
    printf("held at record %u of %u, with a tight limit at %u\n", at, record_count, answer.first);
    rig_done(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_quarantine_is_found_again),
        cmocka_unit_test(what_was_lifted_is_not_held_again),
        cmocka_unit_test(a_tampered_record_is_found),
        cmocka_unit_test(other_limits_hold_other_segments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
