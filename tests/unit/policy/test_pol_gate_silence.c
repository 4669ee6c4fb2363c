// The sequential gate and silence: failures are compared between devices that are heard of, silence
// by the time devices were watched, and alpha is divided between the questions.
#include "test_kit.h"

#include "policy/gate.h"

static const struct pol_gate gate = {.min_sample = 200,
                                     .max_failure_ppm = 50000,
                                     .min_dwell_us = 0,
                                     .rule = POL_GATE_SEQUENTIAL,
                                     .max_rise_ppm = 5000,
                                     .alpha_ppm = 50000,
                                     .beta_ppm = 100000,
                                     .max_silence_percent = 200};

// Both cohorts lose one device in 100 device-hours; control was watched eight times as long for
// each device.
static struct pol_counts counts_of(uint64_t failed)
{
    return (struct pol_counts){.succeeded = 10000 - failed,
                               .failed = failed,
                               .silent = 25,
                               .control = {.trials = 40000, .failures = 200},
                               .hazard = {.device_seconds = 25 * 360000, .silent = 25},
                               .control_hazard = {.device_seconds = 800 * 360000, .silent = 800}};
}

static struct pol_judgement judge(const struct pol_gate *asked, const struct pol_counts *counts)
{
    struct pol_judgement judgement;
    pol_gate_judge(asked, counts, 1, &judgement);
    return judgement;
}

static void being_watched_longer_is_no_failure(void **state)
{
    (void)state;
    struct pol_counts healthy = counts_of(50); // 0.5 %, as control
    struct pol_judgement judgement = judge(&gate, &healthy);
    assert_int_equal(judgement.verdict, POL_VERDICT_PASS);
    assert_int_equal(judgement.shown.control_ppm, 5000);
    // Control's 2 % of silent devices must not hide a rise of half a point.
    struct pol_counts risen = counts_of(100);
    judgement = judge(&gate, &risen);
    assert_int_equal(judgement.verdict, POL_VERDICT_FAIL);
    assert_int_equal(judgement.reason, POL_REASON_RISE_OVER_CONTROL);
}

static void silence_alone_fails_a_stage(void **state)
{
    (void)state;
    struct pol_counts dying = counts_of(50);
    dying.silent = 150;
    dying.hazard.silent = 150;
    struct pol_judgement judgement = judge(&gate, &dying);
    assert_int_equal(judgement.verdict, POL_VERDICT_FAIL);
    assert_int_equal(judgement.reason, POL_REASON_SILENT_OVER_CONTROL);
    struct pol_gate deaf = gate; // the hazard not asked about
    deaf.max_silence_percent = 0;
    assert_int_equal(judge(&deaf, &dying).verdict, POL_VERDICT_PASS);
    // The silent beyond what control predicts count against the absolute limit.
    dying.silent = 1500;
    dying.hazard.silent = 1500;
    judgement = judge(&deaf, &dying);
    assert_int_equal(judgement.verdict, POL_VERDICT_FAIL);
    assert_int_equal(judgement.reason, POL_REASON_FAILURES_OVER_LIMIT);
}

static void without_control_every_silent_device_counts(void **state)
{
    (void)state;
    struct pol_counts counts = {.succeeded = 9000, .failed = 0, .silent = 1000};
    counts.hazard = (struct pol_hazard){.device_seconds = 1000000, .silent = 1000};
    struct pol_gate alone = gate;
    alone.max_rise_ppm = POL_TEST_NOT_ASKED;
    assert_int_equal(judge(&alone, &counts).verdict, POL_VERDICT_FAIL);
    counts.silent = 10;
    counts.hazard.silent = 10;
    assert_int_equal(judge(&alone, &counts).verdict, POL_VERDICT_PASS);
}

// The three parts are all of alpha; no part is ever zero, which would mean never.
static void alpha_is_divided(void **state)
{
    (void)state;
    assert_int_equal(POL_GATE_TEST_PERCENT + POL_GATE_HAZARD_PERCENT + POL_GATE_SLICES_PERCENT,
                     100);
    struct pol_gate strict = gate;
    strict.alpha_ppm = 1;
    struct pol_counts bad = counts_of(5000);
    assert_int_equal(judge(&strict, &bad).verdict, POL_VERDICT_FAIL);
    struct pol_counts dying = counts_of(50);
    dying.hazard.silent = 2000;
    assert_int_equal(judge(&strict, &dying).verdict, POL_VERDICT_FAIL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(being_watched_longer_is_no_failure),
        cmocka_unit_test(silence_alone_fails_a_stage),
        cmocka_unit_test(without_control_every_silent_device_counts),
        cmocka_unit_test(alpha_is_divided),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
