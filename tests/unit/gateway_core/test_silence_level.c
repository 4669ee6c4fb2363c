// Silence of a stage that compares nobody against what control of the stages before has taught, by
// simulation: control was watched for half an hour, everybody is for the rest of the day, and
// devices go away at one and the same rate.
#include "test_kit.h"

#include "policy/stat/sequential.h"
#include "svc/tally/silence.h"
#include "svc/tally/trial_blocks.h"

#include <math.h>

#define SEED       20261123u
#define RUNS       60u
#define INTERVAL_S 300u
#define SILENCE_S  900u
#define CONTROL    6000u
#define EVERYBODY  1500u
#define COME_S     600u // devices come within
#define TEACH_S    2100u
#define WATCH_S    (5u * 3600u)
#define LOOK_S     200u
#define BEGIN_S    UINT32_C(1700000000)
#define ALPHA_PPM  50000u

struct fate {
    uint32_t offered_s;
    uint32_t checkins; // after the offer, before it goes away
};

static struct gw_release release;
static struct fate fates[CONTROL > EVERYBODY ? CONTROL : EVERYBODY];

static void make_release(void)
{
    memset(&release, 0, sizeof(release));
    release.checkin_interval_s = INTERVAL_S;
    release.stage_count = 2;
    for (uint32_t i = 0; i < 2; i++) {
        release.stages[i] = (struct pol_stage){.kind = i == 0 ? POL_STAGE_GRAY : POL_STAGE_FULL,
                                               .max_bucket = i == 0 ? 1000 : POL_BUCKET_COUNT,
                                               .control_buckets = i == 0 ? 1000 : 0,
                                               .silence_s = SILENCE_S,
                                               .gate = {.rule = POL_GATE_LOGRANK}};
    }
}

// It goes away behind any of its check-ins with the same chance.
static void draw_fates(struct base_prng *prng, uint32_t count, uint32_t from_s, double chance)
{
    for (uint32_t i = 0; i < count; i++) {
        fates[i] = (struct fate){from_s + (uint32_t)base_prng_below(prng, COME_S), 0};
        while (fates[i].checkins < 1000 && base_prng_unit(prng) >= chance) {
            fates[i].checkins++;
        }
    }
}

static void watch(uint32_t count, uint8_t stage, uint32_t now_s,
                  struct pol_hazard hazards[POL_COHORT_COUNT])
{
    const struct gw_silence_clock clock = {.now_s = now_s, .started_s = BEGIN_S - 3600};
    unsigned cohort = stage == 0 ? GW_OUTCOME_CONTROL : GW_OUTCOME_ALONE;
    for (uint32_t i = 0; i < count; i++) {
        if (fates[i].offered_s > now_s) {
            continue;
        }
        uint32_t passed = (now_s - fates[i].offered_s) / INTERVAL_S;
        uint32_t made = passed < fates[i].checkins ? passed : fates[i].checkins;
        const struct gw_silence_device device = {
            .offered_s = fates[i].offered_s,
            .last_seen_s = fates[i].offered_s + made * INTERVAL_S,
            .interval_s = INTERVAL_S,
            .bits = (uint16_t)(GW_OUTCOME_OFFERED | GW_OUTCOME_DRAWN | cohort),
            .stage = stage};
        gw_silence_watch(&clock, &release, &device, hazards);
    }
}

static struct pol_hazard teach(struct base_prng *prng, double chance)
{
    struct pol_counts counts = {.offered = 0};
    struct pol_hazard hazards[POL_COHORT_COUNT] = {{0, 0}, {0, 0}};
    struct pol_hazard taught = {0, 0};
    draw_fates(prng, CONTROL, BEGIN_S, chance);
    watch(CONTROL, 0, BEGIN_S + TEACH_S, hazards);
    gw_silence_judged(&release, 0, hazards, &taught, &counts);
    gw_silence_keep(&release, 0, &counts, &taught);
    assert_true(taught.silent > 0);
    return taught;
}

// True: shown worse at one of the looks.
static bool play(struct base_prng *prng, double chance, double ratio)
{
    const struct pol_hazard taught = teach(prng, chance);
    uint32_t from_s = BEGIN_S + TEACH_S;
    draw_fates(prng, EVERYBODY, from_s, chance * ratio);
    for (uint32_t now_s = from_s; now_s < from_s + WATCH_S; now_s += LOOK_S) {
        struct pol_counts counts = {.offered = 0};
        struct pol_hazard hazards[POL_COHORT_COUNT] = {{0, 0}, {0, 0}};
        watch(EVERYBODY, 1, now_s, hazards);
        gw_silence_judged(&release, 1, hazards, &taught, &counts);
        if (pol_hazard_test(&counts.hazard, &counts.control_hazard, 100, ALPHA_PPM).result ==
            POL_TEST_WORSE) {
            return true;
        }
    }
    return false;
}

static void the_level_holds_against_earlier_control(void **state)
{
    (void)state;
    struct base_prng prng;
    base_prng_seed(&prng, SEED);
    make_release();
    static const double chances[] = {0.002, 0.01};
    for (uint32_t k = 0; k < 2; k++) {
        uint32_t stopped = 0;
        for (uint32_t run = 0; run < RUNS; run++) {
            stopped += play(&prng, chances[k], 1);
        }
        print_message("seed %u, %g of each interval: %u of %u stopped\n", SEED, chances[k], stopped,
                      RUNS);
        double level = ALPHA_PPM / 1e6;
        assert_true(stopped <= RUNS * level + 3 * sqrt(RUNS * level * (1 - level)));
    }
}

static void a_silent_version_is_found_in_the_last_stage(void **state)
{
    (void)state;
    struct base_prng prng;
    base_prng_seed(&prng, SEED + 1);
    make_release();
    uint32_t stopped = 0;
    for (uint32_t run = 0; run < 30; run++) {
        stopped += play(&prng, 0.01, 3);
    }
    print_message("three times the rate: %u of 30 stopped\n", stopped);
    assert_true(stopped >= 27);
}

// What cannot be known yet is not counted: silence shows after a while, and after a start nobody
// has been silent.
static void what_is_not_known_yet_is_not_counted(void **state)
{
    (void)state;
    make_release();
    for (uint8_t stage = 0; stage < 2; stage++) {
        uint32_t offered_s = BEGIN_S;
        uint32_t from_s = stage == 0 ? gw_trial_block_end_s(&release, offered_s) : offered_s;
        struct gw_silence_clock clock = {.now_s = from_s + SILENCE_S - 1, .started_s = BEGIN_S - 1};
        const struct gw_silence_device device = {.offered_s = offered_s,
                                                 .last_seen_s = offered_s,
                                                 .interval_s = INTERVAL_S,
                                                 .bits = GW_OUTCOME_DRAWN |
                                                         (stage == 0 ? 0 : GW_OUTCOME_ALONE),
                                                 .stage = stage};
        struct pol_hazard found[POL_COHORT_COUNT] = {{0, 0}, {0, 0}};
        gw_silence_watch(&clock, &release, &device, found);
        assert_int_equal(found[POL_COHORT_UPDATED].device_seconds, 0);
        clock.started_s = from_s + 1;
        clock.now_s = from_s + SILENCE_S;
        gw_silence_watch(&clock, &release, &device, found);
        assert_int_equal(found[POL_COHORT_UPDATED].device_seconds, 0);
        clock.started_s = from_s;
        gw_silence_watch(&clock, &release, &device, found);
        assert_int_equal(found[POL_COHORT_UPDATED].device_seconds, stage == 0 ? 1 : INTERVAL_S);
        assert_int_equal(found[POL_COHORT_UPDATED].silent, 1);
        assert_int_equal(found[POL_COHORT_CONTROL].device_seconds, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_level_holds_against_earlier_control),
        cmocka_unit_test(a_silent_version_is_found_in_the_last_stage),
        cmocka_unit_test(what_is_not_known_yet_is_not_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
