// Error rates of the rule `logrank` on the gateway's blocks: identical versions pass whatever
// delays are, harmless segments are let be, bad versions are stopped and never pass. A small
// version of bench/gate_null.c. What the rule that counts who has completed makes of the same
// reports is shown beside it.
#include "test_kit.h"

#include "trial_play.h"

#include <math.h>

#define RUNS_100     24u
#define RUNS_1000    4u
#define DEVICES_MAX  40000u
#define DELAYED_RUNS 40u

static struct trial_play *play;
static struct trial_script *script;

static int set_up(void **state)
{
    (void)state;
    play = trial_play_new();
    script = trial_script_new(DEVICES_MAX);
    return play != NULL && script != NULL ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    trial_play_free(play);
    trial_script_free(script);
    return 0;
}

struct sums {
    uint32_t stopped;
    uint32_t passed;
    uint32_t sequential; // stopped by the rule that counts who has completed
};

// Does a rule that looks at who has completed, in either cohort, stop it at any second?
static bool completed_are_worse(const struct pol_gate *asked)
{
    struct pol_gate gate = *asked;
    struct pol_counts counts = {.offered = script->count};
    gate.rule = POL_GATE_SEQUENTIAL;
    for (uint32_t step = 0; step < TRIAL_SCRIPT_STEPS; step++) {
        struct pol_judgement judgement;
        for (uint32_t at = script->reports[step]; at != TRIAL_SCRIPT_NONE;
             at = script->devices[at].next_to_report) {
            const struct trial_device *device = &script->devices[at];
            counts.succeeded += device->updated && !device->fails;
            counts.failed += device->updated && device->fails;
            counts.control.trials += !device->updated;
            counts.control.failures += !device->updated && device->fails;
        }
        pol_gate_judge(&gate, &counts, UINT64_MAX, &judgement);
        if (judgement.verdict == POL_VERDICT_FAIL) {
            return true;
        }
    }
    return false;
}

static struct sums play_runs(const struct trial_cell *cell, uint64_t seed, uint32_t runs)
{
    const struct pol_gate gate = trial_cell_gate(cell);
    struct sums sums = {0, 0, 0};
    for (uint32_t run = 0; run < runs; run++) {
        struct trial_seen seen;
        assert_true(trial_script_draw(script, cell, seed + run));
        assert_true(trial_play_run(play, script, &gate, &seen));
        sums.stopped += seen.stopped;
        sums.passed += seen.passed;
        sums.sequential += completed_are_worse(&gate);
    }
    return sums;
}

// So many of `runs` at a level are no more than chance.
static double ceiling(uint32_t runs, double level)
{
    return runs * level + 4 * sqrt(runs * level * (1 - level));
}

static void verdicts_hold_on_the_null(void **state)
{
    (void)state;
    uint32_t stopped = 0;
    uint32_t all = 0;
    for (uint32_t i = 0; i < TRIAL_NULL_CELLS; i++) {
        struct trial_cell cell = trial_cell_at(i);
        uint32_t runs = cell.devices <= 100 ? RUNS_100 : RUNS_1000;
        if (cell.devices > 1000) {
            continue; // gate_null plays these
        }
        struct sums sums = play_runs(&cell, 1000 * i, runs);
        if (sums.stopped > ceiling(runs, 0.05)) {
            char name[128];
            trial_cell_name(&cell, name, sizeof(name));
            fail_msg("%s: %u of %u stopped", name, sums.stopped, runs);
        }
        stopped += sums.stopped;
        all += runs;
    }
    print_message("%u of %u stopped\n", stopped, all);
    assert_true(stopped <= ceiling(all, 0.05));
}

// An update has to be fetched; control has not.
static void fetching_is_no_failure(void **state)
{
    (void)state;
    struct trial_cell cell = {.devices = 1000, .base = 0.02, .fetch_s = 30};
    struct sums sums = play_runs(&cell, 3, DELAYED_RUNS);
    print_message("updated 30 s later: %u of %u stopped\n", sums.stopped, DELAYED_RUNS);
    assert_true(sums.stopped <= ceiling(DELAYED_RUNS, 0.05));
    assert_true(sums.passed > 0);
}

// The same rollouts, as the rule sees them that counts who has completed: what fails at 0.5 % looks
// worse than its limit while only failures have been heard of.
static void counting_who_completed_does_not_hold(void **state)
{
    (void)state;
    struct trial_cell cell = {.devices = 1000, .base = 0.02, .late_s = 60};
    struct sums sums = play_runs(&cell, 1, DELAYED_RUNS);
    print_message("successes 60 s late: sequential %u, logrank %u of %u stopped\n", sums.sequential,
                  sums.stopped, DELAYED_RUNS);
    assert_true(sums.sequential > DELAYED_RUNS / 2);
    assert_true(sums.stopped <= ceiling(DELAYED_RUNS, 0.05));
    assert_true(sums.passed > 0);
    cell.base = 0.001;
    sums = play_runs(&cell, 1, DELAYED_RUNS);
    assert_true(sums.passed >= DELAYED_RUNS * 9 / 10);
    cell.reversed = true; // what has completed looks better than it is
    sums = play_runs(&cell, 1, DELAYED_RUNS);
    assert_true(sums.stopped <= ceiling(DELAYED_RUNS, 0.05));
}

static void bad_versions_are_stopped(void **state)
{
    (void)state;
    struct trial_cell cell = {.devices = 1000, .base = 0.01, .rise = 0.1, .late_s = 25};
    struct sums sums = play_runs(&cell, 5, 50);
    print_message("10 points worse: %u of 50 stopped\n", sums.stopped);
    assert_true(sums.stopped >= 49);
    assert_int_equal(sums.passed, 0);
}

// Worse by max_rise itself, or at max_failure: a pass is an error, of beta.
static void bad_versions_do_not_pass(void **state)
{
    (void)state;
    uint32_t first = TRIAL_NULL_CELLS + TRIAL_SLICE_CELLS;
    uint32_t passed = 0;
    uint32_t all = 0;
    for (uint32_t i = 0; i < TRIAL_BAD_CELLS; i++) {
        struct trial_cell cell = trial_cell_at(first + i);
        uint32_t runs = cell.devices > 1000 ? 1 : DELAYED_RUNS;
        struct sums sums = play_runs(&cell, 6000 + 100 * i, runs);
        assert_true(cell.look_on && sums.passed <= ceiling(runs, 0.1));
        passed += sums.passed;
        all += runs;
    }
    print_message("worse by max_rise, or at max_failure: %u of %u passed\n", passed, all);
    assert_true(passed <= ceiling(all, 0.1));
}

static void runs_repeat(void **state)
{
    (void)state;
    struct trial_cell cell = trial_cell_at(76);
    const struct pol_gate gate = trial_cell_gate(&cell);
    struct trial_seen seen[2];
    for (int i = 0; i < 2; i++) {
        assert_true(trial_script_draw(script, &cell, 9));
        assert_true(trial_play_run(play, script, &gate, &seen[i]));
    }
    assert_true(trial_seen_equal(&seen[0], &seen[1]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(verdicts_hold_on_the_null),
        cmocka_unit_test(fetching_is_no_failure),
        cmocka_unit_test(counting_who_completed_does_not_hold),
        cmocka_unit_test(bad_versions_are_stopped),
        cmocka_unit_test(bad_versions_do_not_pass),
        cmocka_unit_test(runs_repeat),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
