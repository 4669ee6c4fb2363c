// Power of a running stage: against stages that are played, and at its ends.
#include "block_play.h"
#include "test_kit.h"

#include "policy/stage_power.h"
#include "policy/trial.h"

#include "base/prng.h"

#define SEED       UINT64_C(0x90e3)
#define RUNS       100u
#define STAGE      6000u
#define RATIO      4u // control devices for each updated one
#define HOUR       UINT64_C(3600000000)
#define TRIAL_RUNS 40u
#define BLOCK      25u    // updated devices of a block
#define TRIAL      20000u // ... of a stage that is a trial

static const struct pol_gate gate = {.rule = POL_GATE_SEQUENTIAL,
                                     .min_sample = 1,
                                     .max_failure_ppm = 200000,
                                     .max_rise_ppm = 10000,
                                     .alpha_ppm = 50000,
                                     .beta_ppm = 100000};

struct played {
    bool stopped;              // by the time the stage said it would have seen the declared rise
    bool stopped_early;        // ... with a quarter of the devices it needed at last
    uint32_t promised;         // updated devices it took until then; 0: never
    uint64_t seconds_at_tenth; // what it said was left when a tenth had completed
};

static bool fails(struct base_prng *prng, double rate)
{
    return base_prng_unit(prng) < rate;
}

// Devices complete at one a second, control in step; the gate judges after every tenth, and after
// every fiftieth the stage is asked what it can see.
static void play(struct base_prng *prng, double base, double rise, struct played *out)
{
    struct pol_counts counts = {0};
    uint32_t stopped_at = UINT32_MAX;
    *out = (struct played){0};
    for (uint32_t i = 1; i <= STAGE && out->promised == 0; i++) {
        struct pol_judgement judgement;
        struct pol_stage_power power;
        bool failed = fails(prng, base + rise);
        counts.failed += failed;
        counts.succeeded += !failed;
        counts.control.trials += RATIO;
        for (uint32_t k = 0; k < RATIO; k++) {
            counts.control.failures += fails(prng, base);
        }
        uint64_t in_stage_us = (uint64_t)i * 1000000u;
        struct pol_stage_size size = {STAGE, STAGE * RATIO, in_stage_us};
        if (stopped_at == UINT32_MAX && i % 10 == 0) {
            pol_gate_judge(&gate, &counts, in_stage_us, &judgement);
            stopped_at = judgement.verdict == POL_VERDICT_FAIL ? i : UINT32_MAX;
        }
        if (i % 50 != 0) {
            continue;
        }
        assert_true(pol_stage_power(&gate, &counts, &size, &power));
        assert_int_equal(power.completed, i);
        if (i == STAGE / 10) {
            out->seconds_at_tenth = power.seconds;
        }
        if (power.completed >= power.needed) {
            assert_true(power.can_detect && power.seconds == 0);
            assert_true(power.sees_ppm <= gate.max_rise_ppm);
            out->promised = i;
        } else {
            assert_true(power.sees_ppm > gate.max_rise_ppm);
        }
    }
    out->stopped = stopped_at <= out->promised;
    out->stopped_early = stopped_at <= out->promised / 4;
}

static void a_rise_it_says_it_sees_was_stopped(void **state)
{
    (void)state;
    struct base_prng prng;
    static const double bases[] = {0.001, 0.005, 0.01};
    printf("seed %llx\n", (unsigned long long)SEED);
    base_prng_seed(&prng, SEED);
    for (size_t b = 0; b < TEST_COUNT(bases); b++) {
        uint32_t stopped = 0;
        uint32_t early = 0;
        uint64_t devices = 0;
        uint32_t told = 0;
        for (uint32_t run = 0; run < RUNS; run++) {
            struct played played;
            play(&prng, bases[b], gate.max_rise_ppm / 1e6, &played);
            assert_true(played.promised > 0);
            stopped += played.stopped;
            early += played.stopped_early;
            devices += played.promised;
            // A device a second: what is said to be left is about what it took.
            uint64_t left = played.promised > STAGE / 10 ? played.promised - STAGE / 10 : 0;
            told += played.seconds_at_tenth <= 2 * left + 600 &&
                    2 * played.seconds_at_tenth + 600 >= left;
        }
        printf(
            "base %.1f %%: +1 point seen after %.0f devices, stopped by then in %u of %u runs, in "
            "%u with a quarter of them; the time left was told well in %u\n",
            100 * bases[b], (double)devices / RUNS, stopped, RUNS, early, told);
        assert_true(stopped >= RUNS * 82 / 100); // planned 90 %; less two and a half errors
        assert_true(early <= RUNS / 2);
        assert_true(told >= RUNS * 85 / 100);
    }
}

// A block of a trial: its devices in any order, each with its fate.
static void play_block(struct base_prng *prng, double base, double rise, uint32_t ratio,
                       struct pol_counts *counts)
{
    struct pol_block block = {.closed = false};
    uint32_t left[POL_COHORT_COUNT] = {BLOCK * ratio, BLOCK};
    for (uint32_t i = 0; i < BLOCK * (ratio + 1); i++) {
        assert_true(block_offer(&block, i < BLOCK ? POL_COHORT_UPDATED : POL_COHORT_CONTROL));
    }
    pol_block_close(&block, 0, &counts->trial.rise);
    for (uint32_t i = BLOCK * (ratio + 1); i > 0; i--) {
        enum pol_cohort cohort = base_prng_below(prng, i) < left[POL_COHORT_UPDATED]
                                     ? POL_COHORT_UPDATED
                                     : POL_COHORT_CONTROL;
        left[cohort]--;
        if (fails(prng, cohort == POL_COHORT_UPDATED ? base + rise : base)) {
            assert_true(pol_block_fail(&block, cohort, false, 0, &counts->trial.rise));
        } else {
            assert_true(block_succeed(&block, cohort));
        }
    }
    pol_trial_add(&counts->trial, &block, true, gate.max_failure_ppm);
}

// Was a trial stopped by the time the stage said it would have seen the declared rise?
static bool trial_is_stopped(struct base_prng *prng, double base, double rise, uint32_t ratio,
                             uint32_t *out_promised)
{
    struct pol_counts counts = {0};
    struct pol_gate asked = gate;
    bool stopped = false;
    asked.rule = POL_GATE_LOGRANK;
    for (uint32_t devices = BLOCK; devices <= TRIAL; devices += BLOCK) {
        struct pol_judgement judgement;
        struct pol_stage_power power;
        struct pol_stage_size size = {TRIAL, TRIAL * ratio, HOUR};
        play_block(prng, base, rise, ratio, &counts);
        pol_gate_judge(&asked, &counts, HOUR, &judgement);
        stopped = stopped || judgement.verdict == POL_VERDICT_FAIL;
        if (devices % (8 * BLOCK) != 0) {
            continue;
        }
        assert_true(pol_stage_power(&asked, &counts, &size, &power));
        assert_int_equal(power.completed, devices);
        *out_promised = devices;
        if (power.completed >= power.needed) {
            return stopped;
        }
    }
    return false; // it never said so
}

static void a_rise_a_trial_says_it_sees_was_stopped(void **state)
{
    (void)state;
    struct base_prng prng;
    static const double bases[] = {0.001, 0.005, 0.01};
    base_prng_seed(&prng, SEED + 2);
    for (size_t i = 0; i < 2 * TEST_COUNT(bases); i++) {
        uint32_t ratio = i % 2 == 0 ? 1 : RATIO;
        uint32_t stopped = 0;
        uint64_t devices = 0;
        for (uint32_t run = 0; run < TRIAL_RUNS; run++) {
            uint32_t promised;
            stopped +=
                trial_is_stopped(&prng, bases[i / 2], gate.max_rise_ppm / 1e6, ratio, &promised);
            devices += promised;
        }
        printf("a trial, base %.1f %%, %u control for each: +1 point seen after %.0f devices, "
               "stopped by then in %u of %u runs\n",
               100 * bases[i / 2], ratio, (double)devices / TRIAL_RUNS, stopped, TRIAL_RUNS);
        assert_true(stopped >= TRIAL_RUNS * 78 / 100); // planned 90 %; less two and a half errors
    }
}

// The smallest rise seen by now is seen by now.
static void what_it_sees_is_stopped(void **state)
{
    (void)state;
    struct base_prng prng;
    uint32_t stopped = 0;
    base_prng_seed(&prng, SEED + 1);
    struct pol_counts healthy = {
        .succeeded = 597, .failed = 3, .control = {600 * RATIO, 3 * RATIO}};
    struct pol_stage_size size = {STAGE, STAGE * RATIO, HOUR};
    struct pol_stage_power power;
    assert_true(pol_stage_power(&gate, &healthy, &size, &power));
    assert_true(power.sees_ppm > gate.max_rise_ppm && power.sees_ppm < 50000);
    for (uint32_t run = 0; run < RUNS; run++) {
        struct pol_counts counts = {0};
        struct pol_judgement judgement = {0};
        for (uint32_t i = 0; i < 600 && judgement.verdict != POL_VERDICT_FAIL; i++) {
            bool failed = fails(&prng, 0.005 + power.sees_ppm / 1e6);
            counts.failed += failed;
            counts.succeeded += !failed;
            counts.control.trials += RATIO;
            for (uint32_t k = 0; k < RATIO; k++) {
                counts.control.failures += fails(&prng, 0.005);
            }
            pol_gate_judge(&gate, &counts, HOUR, &judgement);
        }
        stopped += judgement.verdict == POL_VERDICT_FAIL;
    }
    printf("600 devices: +%.2f points stopped in %u of %u\n", power.sees_ppm / 1e4, stopped, RUNS);
    assert_true(stopped >= RUNS * 82 / 100);
}

static void at_its_ends(void **state)
{
    (void)state;
    struct pol_stage_power power = {.completed = 4711};
    struct pol_counts nobody = {0};
    struct pol_stage_size size = {STAGE, STAGE * RATIO, HOUR};
    struct pol_gate other = gate;
    other.rule = POL_GATE_THRESHOLD;
    assert_false(pol_stage_power(&other, &nobody, &size, &power));
    other = gate;
    other.max_rise_ppm = POL_TEST_NOT_ASKED;
    assert_false(pol_stage_power(&other, &nobody, &size, &power));
    assert_int_equal(power.completed, 4711);
    // Nobody yet: what it needs is known from an assumed rate, when it will be there is not.
    assert_true(pol_stage_power(&gate, &nobody, &size, &power));
    assert_int_equal(power.completed, 0);
    assert_int_equal(power.sees_ppm, 1000000);
    assert_int_equal(power.base_ppm, POL_STAGE_POWER_BASE_PPM);
    assert_false(power.base_measured);
    assert_true(power.can_detect && power.seconds == 0 && power.needed > 100);
    // No control at all: no rise is seen, and no time promised.
    struct pol_counts alone = {.succeeded = 50};
    struct pol_stage_size small = {100, 0, HOUR};
    other.max_rise_ppm = 10000;
    other.max_failure_ppm = POL_TEST_NOT_ASKED;
    assert_true(pol_stage_power(&other, &alone, &small, &power));
    assert_false(power.can_detect);
    assert_int_equal(power.seconds, 0);
    assert_true(power.needed == POL_POWER_DEVICES_MAX && power.best_ppm == 1000000);
    // Silent devices and those that timed out are done; the stage has at least who completed.
    struct pol_counts mixed = {.succeeded = 10, .failed = 2, .timed_out = 3, .silent = 5};
    small.devices = 1;
    assert_true(pol_stage_power(&gate, &mixed, &small, &power));
    assert_int_equal(power.completed, 20);
    assert_int_equal(power.devices, 20);
    // Half of the devices needed are there after an hour: the rest takes another.
    struct pol_counts half = {.succeeded = 100, .control = {1000, 5}};
    size = (struct pol_stage_size){1000000, 4000000, HOUR};
    assert_true(pol_stage_power(&gate, &half, &size, &power));
    half.succeeded = power.needed / 2;
    assert_true(pol_stage_power(&gate, &half, &size, &power));
    assert_in_range(power.seconds, 3590, 3610);
    assert_int_equal(power.base_ppm, 5495); // 5.5 of 1001
}

// A trial of as many devices with as many failures has the same power at the same level, whatever
// is in the counts.
static void a_trial_counts_who_answered(void **state)
{
    (void)state;
    struct pol_counts counts = {.succeeded = 397, .failed = 3, .control = {1600, 9}};
    struct pol_counts trial = {.succeeded = 7};
    struct pol_stage_size size = {STAGE, STAGE * RATIO, HOUR};
    struct pol_stage_power first;
    struct pol_stage_power second;
    struct pol_gate other = gate;
    struct pol_gate alone = gate; // one question: all of alpha for it
    alone.max_failure_ppm = POL_TEST_NOT_ASKED;
    other = alone;
    other.rule = POL_GATE_LOGRANK;
    trial.trial.all[POL_COHORT_UPDATED] = (struct pol_outcomes){900, 3, 397};
    trial.trial.all[POL_COHORT_CONTROL] = (struct pol_outcomes){3600, 9, 1591};
    assert_true(pol_stage_power(&alone, &counts, &size, &first));
    assert_true(pol_stage_power(&other, &trial, &size, &second));
    assert_int_equal(second.completed, 400);
    assert_int_equal(second.needed, first.needed);
    assert_int_equal(second.sees_ppm, first.sees_ppm);
    assert_int_equal(second.base_ppm, first.base_ppm);
    assert_int_equal(second.seconds, first.seconds);
    other.max_failure_ppm = gate.max_failure_ppm; // two questions: three quarters of it
    assert_true(pol_stage_power(&other, &trial, &size, &second));
    assert_true(second.needed > first.needed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rise_it_says_it_sees_was_stopped),
        cmocka_unit_test(a_rise_a_trial_says_it_sees_was_stopped),
        cmocka_unit_test(what_it_sees_is_stopped),
        cmocka_unit_test(at_its_ends),
        cmocka_unit_test(a_trial_counts_who_answered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
