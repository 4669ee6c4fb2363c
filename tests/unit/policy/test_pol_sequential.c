// Verdicts: error rates under optional stopping by simulation, monotonicity, extreme counts, the
// bounds for people, silence, slices and power.
#include "test_kit.h"

#include <math.h>

#include "policy/stat/sequential.h"

#define SEED 20260321u

static const struct pol_test standard = {.max_failure_ppm = 50000,
                                         .max_rise_ppm = 20000,
                                         .tolerated_rise_ppm = 0,
                                         .alpha_ppm = 50000,
                                         .beta_ppm = 100000};

static struct pol_test_report judge(const struct pol_test *test, uint64_t n1, uint64_t f1,
                                    uint64_t n0, uint64_t f0)
{
    struct pol_sample updated = {.trials = n1, .failures = f1};
    struct pol_sample control = {.trials = n0, .failures = f0};
    return pol_test_judge(test, &updated, &control);
}

// ---- Error rates ----

// Runs share verdicts: a table of those already asked for, by counts.
#define RUN_DEVICES  240u
#define RUN_FAILURES 64u
#define RUNS         20000u

struct verdicts {
    struct pol_test test;
    uint32_t control_ratio;
    uint8_t known[RUN_DEVICES + 1][RUN_FAILURES][RUN_FAILURES]; // 1 + result
};

static enum pol_test_result verdict_at(struct verdicts *verdicts, uint32_t n, uint32_t f1,
                                       uint32_t f0)
{
    assert_true(f1 < RUN_FAILURES && f0 < RUN_FAILURES);
    uint8_t *known = &verdicts->known[n][f1][f0];
    if (*known == 0) {
        uint64_t control = (uint64_t)n * verdicts->control_ratio;
        *known = (uint8_t)(1 + judge(&verdicts->test, n, f1, control, f0).result);
    }
    return (enum pol_test_result)(*known - 1);
}

struct outcome {
    uint32_t worse;
    uint32_t good;
};

// Looks after every device and stops at the first verdict. Each run is asked both whether it is
// ever WORSE and whether it is ever GOOD, as somebody who waits for the answer he likes.
static struct outcome simulate(struct verdicts *verdicts, struct base_prng *prng, double p1,
                               double p0)
{
    struct outcome outcome = {0, 0};
    memset(verdicts->known, 0, sizeof(verdicts->known));
    for (uint32_t run = 0; run < RUNS; run++) {
        uint32_t f1 = 0;
        uint32_t f0 = 0;
        bool worse = false;
        bool good = false;
        for (uint32_t n = 1; n <= RUN_DEVICES && f1 + 2 < RUN_FAILURES && f0 + 8 < RUN_FAILURES;
             n++) {
            f1 += base_prng_unit(prng) < p1;
            for (uint32_t i = 0; i < verdicts->control_ratio; i++) {
                f0 += base_prng_unit(prng) < p0;
            }
            enum pol_test_result result = verdict_at(verdicts, n, f1, f0);
            worse = worse || result == POL_TEST_WORSE;
            good = good || result == POL_TEST_GOOD;
        }
        outcome.worse += worse;
        outcome.good += good;
    }
    return outcome;
}

// Expected count plus four standard deviations of its Monte Carlo error.
static double ceiling(double level)
{
    return RUNS * level + 4 * sqrt(RUNS * level * (1 - level));
}

static void error_rates_hold(void **state)
{
    (void)state;
    print_message("seed %u\n", SEED);
    struct base_prng prng;
    base_prng_seed(&prng, SEED);
    static struct verdicts verdicts;
    static const double rates[] = {0.001, 0.005, 0.02, 0.05};
    for (size_t i = 0; i < TEST_COUNT(rates); i++) {
        for (uint32_t ratio = 1; ratio <= 4; ratio += 3) {
            double p = rates[i];
            verdicts.test = standard;
            verdicts.control_ratio = ratio;
            struct outcome healthy = simulate(&verdicts, &prng, p, p);
            struct outcome risen = simulate(&verdicts, &prng, p + 0.02, p);
            struct outcome over = simulate(&verdicts, &prng, 0.05, 0.05);
            print_message("rate %.3f, control x%u: false WORSE %.4f, false GOOD %.4f (rise), %.4f "
                          "(limit)\n",
                          p, ratio, healthy.worse / (double)RUNS, risen.good / (double)RUNS,
                          over.good / (double)RUNS);
            assert_true(healthy.worse <= ceiling(0.05));
            assert_true(risen.good <= ceiling(0.1));
            assert_true(over.good <= ceiling(0.1));
        }
    }
}

// A tolerated rise is not stopped, a larger one is.
static void tolerance_moves_the_null(void **state)
{
    (void)state;
    struct base_prng prng;
    base_prng_seed(&prng, SEED + 1);
    static struct verdicts verdicts;
    verdicts.control_ratio = 1;
    verdicts.test = standard;
    verdicts.test.max_failure_ppm = POL_TEST_NOT_ASKED;
    verdicts.test.tolerated_rise_ppm = 20000;
    struct outcome within = simulate(&verdicts, &prng, 0.03, 0.01);
    struct outcome beyond = simulate(&verdicts, &prng, 0.20, 0.01);
    assert_true(within.worse <= ceiling(0.05));
    assert_true(beyond.worse > 0.99 * RUNS);
}

// ---- Shape ----

static void more_failures_never_look_better(void **state)
{
    (void)state;
    struct base_prng prng;
    base_prng_seed(&prng, SEED + 2);
    for (uint32_t i = 0; i < 3000; i++) {
        uint64_t n1 = 1 + base_prng_below(&prng, i % 2 == 0 ? 100 : 100000);
        uint64_t n0 = base_prng_below(&prng, i % 3 == 0 ? 50 : 400000);
        uint64_t f1 = base_prng_below(&prng, n1 < 60 ? n1 : 60);
        uint64_t f0 = base_prng_below(&prng, 1 + (n0 < 60 ? n0 : 60));
        struct pol_test_report here = judge(&standard, n1, f1, n0, f0);
        struct pol_test_report more = judge(&standard, n1, f1 + 1, n0, f0);
        bool speaks = here.evidence >= 1; // below, the terms that bound the base rate may shift it
        if ((speaks && more.evidence < here.evidence * 0.9999) ||
            more.good_evidence > here.good_evidence * 1.0001) {
            fail_msg("%llu of %llu against %llu of %llu: %g, %g, one more failure: %g, %g",
                     (unsigned long long)f1, (unsigned long long)n1, (unsigned long long)f0,
                     (unsigned long long)n0, here.evidence, here.good_evidence, more.evidence,
                     more.good_evidence);
        }
    }
}

struct row {
    uint64_t n1;
    uint64_t f1;
    uint64_t n0;
    uint64_t f0;
    enum pol_test_result result;
};

#define HUGE_COUNT (UINT64_C(1) << 40)

static const struct row rows[] = {
    {0, 0, 0, 0, POL_TEST_NO_DATA},
    {0, 0, 1000, 5, POL_TEST_NO_DATA},
    {0, 7, 0, 0, POL_TEST_NO_DATA}, // failures beyond trials count as trials
    {1, 0, 0, 0, POL_TEST_UNDECIDED},
    {1, 1, 1, 0, POL_TEST_UNDECIDED},
    {5, 5, 20, 0, POL_TEST_WORSE},
    {5, 9, 20, 0, POL_TEST_WORSE},
    {200, 1, 800, 4, POL_TEST_UNDECIDED},
    {2000, 10, 8000, 40, POL_TEST_GOOD},
    {2000, 10, 0, 0, POL_TEST_GOOD},            // 0.5 % is no rise of 2 points over anything
    {2000, 30, 0, 0, POL_TEST_UNDECIDED},       // 1.5 % may be
    {2000, 400, 0, 0, POL_TEST_WORSE},          // but the limit can be exceeded
    {2000, 120, 8000, 480, POL_TEST_UNDECIDED}, // as bad as control, a little over the limit
    {2000, 200, 8000, 800, POL_TEST_WORSE},     // as bad as control, but over the limit
    {HUGE_COUNT, HUGE_COUNT / 100, HUGE_COUNT, HUGE_COUNT / 100, POL_TEST_GOOD},
    {HUGE_COUNT, HUGE_COUNT / 90, HUGE_COUNT, HUGE_COUNT / 100, POL_TEST_WORSE},
    {HUGE_COUNT, 0, HUGE_COUNT, 0, POL_TEST_GOOD},
    {HUGE_COUNT, HUGE_COUNT, HUGE_COUNT, HUGE_COUNT, POL_TEST_WORSE},
    {HUGE_COUNT, HUGE_COUNT, 1, 0, POL_TEST_WORSE},
    {UINT64_MAX, UINT64_MAX, UINT64_MAX, 0, POL_TEST_WORSE},
    {UINT64_MAX, 0, UINT64_MAX, UINT64_MAX, POL_TEST_GOOD},
    {1, 0, UINT64_MAX, 0, POL_TEST_UNDECIDED},
};

static void verdicts_of_rows(void **state)
{
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        const struct row *row = &rows[i];
        struct pol_sample updated = {.trials = row->n1, .failures = row->f1};
        struct pol_sample control = {.trials = row->n0, .failures = row->f0};
        struct pol_test_report report = pol_test_run(&standard, &updated, &control);
        struct pol_test_report again = pol_test_judge(&standard, &updated, &control);
        if (report.result != row->result || again.result != row->result) {
            fail_msg("row %zu: %s, evidence %g, good %g", i, pol_test_result_name(report.result),
                     report.evidence, report.good_evidence);
        }
        assert_true(report.evidence == again.evidence);
        assert_true(report.low_ppm <= report.updated_ppm && report.updated_ppm <= report.high_ppm);
        assert_true(report.rise_low_ppm <= report.rise_high_ppm);
        assert_true(report.evidence >= 0 && report.evidence <= 1.02e304);
    }
}

static void levels_and_questions_at_their_ends(void **state)
{
    (void)state;
    struct pol_test test = standard;
    test.alpha_ppm = 0; // never stops
    assert_int_equal(judge(&test, 1000, 900, 1000, 0).result, POL_TEST_UNDECIDED);
    test = standard;
    test.beta_ppm = 0; // never passes
    assert_int_equal(judge(&test, 100000, 100, 100000, 100).result, POL_TEST_UNDECIDED);
    test.alpha_ppm = UINT32_MAX; // a level is at most one half
    assert_int_equal(judge(&test, 1, 0, 1, 0).result, POL_TEST_UNDECIDED);
    test = standard;
    test.max_failure_ppm = POL_TEST_NOT_ASKED;
    assert_int_equal(judge(&test, 40000, 8000, 40000, 8000).result, POL_TEST_GOOD);
    assert_int_equal(judge(&test, 2000, 400, 0, 0).result, POL_TEST_UNDECIDED);
    test.max_rise_ppm = POL_TEST_NOT_ASKED;
    assert_int_equal(judge(&test, 2000, 2000, 2000, 0).result, POL_TEST_UNDECIDED);
    test.max_failure_ppm = 50000; // a stage without control
    assert_int_equal(judge(&test, 2000, 20, 0, 0).result, POL_TEST_GOOD);
    assert_int_equal(judge(&test, 2000, 200, 0, 0).result, POL_TEST_WORSE);
    test.max_failure_ppm = 0; // one failure is too many, none is no proof
    assert_int_equal(judge(&test, 100000, 1, 0, 0).result, POL_TEST_UNDECIDED);
    assert_int_equal(judge(&test, 10000, 20, 0, 0).result, POL_TEST_WORSE);
    assert_int_equal(judge(&test, 100000, 0, 0, 0).result, POL_TEST_UNDECIDED);
    assert_string_equal(pol_test_result_name(POL_TEST_RESULT_COUNT), "unknown");
}

// ---- Bounds ----

// The true rate and the true rise stay inside their bounds in nearly every run, at every look.
static void bounds_cover_the_truth(void **state)
{
    (void)state;
    struct base_prng prng;
    base_prng_seed(&prng, SEED + 3);
    uint32_t missed[4] = {0, 0, 0, 0};
    for (uint32_t run = 0; run < 300; run++) {
        bool miss[4] = {false, false, false, false};
        struct pol_sample updated = {0, 0};
        struct pol_sample control = {0, 0};
        for (uint32_t look = 0; look < 12; look++) {
            for (uint32_t i = 0; i < 100; i++) {
                updated.trials++;
                updated.failures += base_prng_unit(&prng) < 0.03;
                control.trials++;
                control.failures += base_prng_unit(&prng) < 0.02;
            }
            struct pol_test_report report = pol_test_run(&standard, &updated, &control);
            miss[0] = miss[0] || report.low_ppm > 30000;
            miss[1] = miss[1] || report.high_ppm < 30000;
            miss[2] = miss[2] || report.rise_low_ppm > 10000;
            miss[3] = miss[3] || report.rise_high_ppm < 10000;
        }
        for (size_t i = 0; i < 4; i++) {
            missed[i] += miss[i];
        }
    }
    print_message("bounds missed in 300 runs: %u %u %u %u\n", missed[0], missed[1], missed[2],
                  missed[3]);
    assert_true(missed[0] <= 30 && missed[1] <= 50 && missed[2] <= 30 && missed[3] <= 50);
    struct pol_sample updated = {10000, 300};
    struct pol_sample control = {40000, 400};
    struct pol_test_report report = pol_test_run(&standard, &updated, &control);
    assert_true(report.low_ppm > 23000 && report.high_ppm < 37000);
    assert_true(report.rise_low_ppm > 10000 && report.rise_high_ppm < 30000);
}

// ---- Silence ----

static void silence_is_a_hazard(void **state)
{
    (void)state;
    struct pol_hazard none = {0, 0};
    struct pol_hazard control = {.device_seconds = 4000000, .silent = 4};
    struct pol_hazard same = {.device_seconds = 1000000, .silent = 1};
    struct pol_hazard dying = {.device_seconds = 1000000, .silent = 12};
    assert_int_equal(pol_hazard_test(&none, &control, 100, 50000).result, POL_TEST_NO_DATA);
    assert_int_equal(pol_hazard_test(&same, &control, 100, 50000).result, POL_TEST_UNDECIDED);
    assert_int_equal(pol_hazard_test(&dying, &control, 100, 50000).result, POL_TEST_WORSE);
    assert_int_equal(pol_hazard_test(&dying, &control, 2000, 50000).result, POL_TEST_UNDECIDED);
    assert_int_equal(pol_hazard_test(&dying, &none, 100, 50000).result, POL_TEST_UNDECIDED);
    assert_int_equal(pol_hazard_test(&dying, &control, 100, 50000).updated_ppm, 43200);
    struct pol_hazard most = {UINT64_MAX, UINT64_MAX};
    assert_int_equal(pol_hazard_test(&most, &most, UINT32_MAX, 50000).result, POL_TEST_UNDECIDED);
    assert_int_equal(pol_hazard_test(&most, &none, 0, 50000).result, POL_TEST_UNDECIDED);
}

// Poisson events; updated devices come late, so that exposures are in every proportion.
static void silence_errors_hold(void **state)
{
    (void)state;
    struct base_prng prng;
    base_prng_seed(&prng, SEED + 4);
    uint32_t worse = 0;
    for (uint32_t run = 0; run < RUNS; run++) {
        struct pol_hazard updated = {0, 0};
        struct pol_hazard control = {0, 0};
        bool shown = false;
        for (uint32_t event = 0; event < 40; event++) {
            double wait = -log(1 - base_prng_unit(&prng)) * 1000;
            double share = event < 10 ? 0.02 : event < 20 ? 0.5 : 0.2;
            updated.device_seconds += (uint64_t)(wait * share * 1000);
            control.device_seconds += (uint64_t)(wait * (1 - share) * 1000);
            bool in_updated = base_prng_unit(&prng) < share;
            (in_updated ? &updated : &control)->silent++;
            shown =
                shown || (in_updated &&
                          pol_hazard_test(&updated, &control, 100, 50000).result == POL_TEST_WORSE);
        }
        worse += shown;
    }
    print_message("false alarms of silence: %.4f\n", worse / (double)RUNS);
    assert_true(worse <= ceiling(0.05));
}

// ---- Slices ----

static void slices_by_rank(void **state)
{
    (void)state;
    double evidence[POL_SLICES_MAX + 1] = {0};
    bool marked[POL_SLICES_MAX + 1];
    assert_int_equal(pol_slices_reject(evidence, 0, 50000, marked), 0);
    for (size_t i = 0; i < 10; i++) {
        evidence[i] = 1;
    }
    assert_int_equal(pol_slices_reject(evidence, 10, 50000, marked), 0);
    evidence[3] = 199; // one alone needs 10 / 0.05
    assert_int_equal(pol_slices_reject(evidence, 10, 50000, marked), 0);
    evidence[3] = 200;
    assert_int_equal(pol_slices_reject(evidence, 10, 50000, marked), 1);
    assert_true(marked[3] && !marked[2]);
    evidence[7] = 100; // with two, 100 each is enough
    evidence[3] = 100;
    assert_int_equal(pol_slices_reject(evidence, 10, 50000, marked), 2);
    assert_true(marked[3] && marked[7]);
    evidence[0] = 99;
    assert_int_equal(pol_slices_reject(evidence, 10, 50000, marked), 3);
    assert_int_equal(pol_slices_reject(evidence, 10, 0, marked), 0);
    evidence[1] = (double)NAN;
    evidence[2] = (double)INFINITY;
    assert_int_equal(pol_slices_reject(evidence, 10, 50000, marked), 4);
    assert_true(!marked[1] && marked[2]);
    memset(marked, 1, sizeof(marked));
    assert_int_equal(pol_slices_reject(evidence, POL_SLICES_MAX + 1, 50000, marked), 0);
    assert_true(!marked[2]);
}

// ---- Power ----

// The share of runs in which `devices` updated ones show the rise, looking every ten.
static double simulated_power(struct base_prng *prng, uint64_t devices, uint64_t ratio, double base,
                              double rise)
{
    uint32_t found = 0;
    uint32_t runs = 400;
    for (uint32_t run = 0; run < runs; run++) {
        uint64_t f1 = 0;
        uint64_t f0 = 0;
        bool shown = false;
        for (uint64_t n = 1; n <= devices && !shown; n++) {
            bool failed = base_prng_unit(prng) < base + rise;
            f1 += failed;
            for (uint64_t i = 0; i < ratio; i++) {
                f0 += base_prng_unit(prng) < base;
            }
            shown = failed && judge(&standard, n, f1, n * ratio, f0).result == POL_TEST_WORSE;
        }
        found += shown;
    }
    return found / (double)runs;
}

static void power_as_simulated(void **state)
{
    (void)state;
    struct base_prng prng;
    base_prng_seed(&prng, SEED + 5);
    static const struct {
        uint32_t base_ppm;
        uint32_t rise_ppm;
        uint64_t ratio;
    } cases[] = {{1000, 10000, 1},  {5000, 10000, 4},  {5000, 50000, 4},
                 {20000, 50000, 1}, {5000, 200000, 4}, {2000, 5000, 4}};
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        uint64_t stage = 1000;
        struct pol_power_plan plan =
            pol_power(&standard, (struct pol_power_ask){.stage_devices = stage,
                                                        .control_devices = stage * cases[i].ratio,
                                                        .base_ppm = cases[i].base_ppm,
                                                        .rise_ppm = cases[i].rise_ppm,
                                                        .completions_per_hour = 3600});
        double power = simulated_power(&prng, plan.devices, cases[i].ratio, cases[i].base_ppm / 1e6,
                                       cases[i].rise_ppm / 1e6);
        print_message(
            "base %u ppm, rise %u ppm, control x%llu: %llu devices, simulated power %.3f\n",
            cases[i].base_ppm, cases[i].rise_ppm, (unsigned long long)cases[i].ratio,
            (unsigned long long)plan.devices, power);
        assert_true(power >= 0.86 && power <= 0.995); // planned 0.9; four errors of 400 runs: 0.06
        assert_int_equal(plan.can_detect, plan.devices <= stage);
        assert_int_equal(plan.control, plan.devices * cases[i].ratio);
        assert_int_equal(plan.seconds, plan.devices);
        // What the stage can find with all its devices, it finds with all its devices.
        struct pol_power_plan edge =
            pol_power(&standard, (struct pol_power_ask){.stage_devices = stage,
                                                        .control_devices = stage * cases[i].ratio,
                                                        .base_ppm = cases[i].base_ppm,
                                                        .rise_ppm = plan.smallest_rise_ppm,
                                                        .completions_per_hour = 0});
        assert_true(edge.can_detect && edge.seconds == 0);
        assert_true((plan.smallest_rise_ppm <= cases[i].rise_ppm) == plan.can_detect);
    }
}

static void power_at_its_ends(void **state)
{
    (void)state;
    struct pol_power_plan plan =
        pol_power(&standard, (struct pol_power_ask){.stage_devices = 1000,
                                                    .control_devices = 4000,
                                                    .base_ppm = 5000,
                                                    .rise_ppm = 0,
                                                    .completions_per_hour = 100});
    assert_true(!plan.can_detect);
    plan = pol_power(&standard, (struct pol_power_ask){.stage_devices = 0,
                                                       .control_devices = 0,
                                                       .base_ppm = 5000,
                                                       .rise_ppm = 50000,
                                                       .completions_per_hour = 100});
    assert_true(!plan.can_detect);
    plan = pol_power(&standard, (struct pol_power_ask){.stage_devices = UINT64_MAX,
                                                       .control_devices = UINT64_MAX,
                                                       .base_ppm = 1000000,
                                                       .rise_ppm = 1000000,
                                                       .completions_per_hour = 1});
    assert_true(plan.devices > 0);
    struct pol_test never = standard;
    never.alpha_ppm = 0;
    assert_true(!pol_power(&never, (struct pol_power_ask){.stage_devices = 1000000,
                                                          .control_devices = 1000000,
                                                          .base_ppm = 5000,
                                                          .rise_ppm = 500000,
                                                          .completions_per_hour = 1})
                     .can_detect);
    never = standard;
    never.beta_ppm = 0;
    assert_true(pol_power(&never, (struct pol_power_ask){.stage_devices = 1000000,
                                                         .control_devices = 1000000,
                                                         .base_ppm = 5000,
                                                         .rise_ppm = 500000,
                                                         .completions_per_hour = 1})
                    .can_detect);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(error_rates_hold),
        cmocka_unit_test(tolerance_moves_the_null),
        cmocka_unit_test(more_failures_never_look_better),
        cmocka_unit_test(verdicts_of_rows),
        cmocka_unit_test(levels_and_questions_at_their_ends),
        cmocka_unit_test(bounds_cover_the_truth),
        cmocka_unit_test(silence_is_a_hazard),
        cmocka_unit_test(silence_errors_hold),
        cmocka_unit_test(slices_by_rank),
        cmocka_unit_test(power_as_simulated),
        cmocka_unit_test(power_at_its_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
