// Error rates of the rule `logrank` on stages that are played: identical versions pass whatever
// delays are, harmless slices are let be, bad versions are stopped and never pass. A small version
// of verdict_sim. The rule that counts who has completed is played beside it, and is stopped.
#include "test_kit.h"

#include "verdict_play.h"

#include <math.h>

#define RUNS_100     40u
#define RUNS_1000    6u
#define DEVICES_MAX  110000u
#define DELAYED_RUNS 60u

static struct verdict_play *play;

static int set_up(void **state)
{
    (void)state;
    play = verdict_play_new(DEVICES_MAX);
    return play != NULL ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    verdict_play_free(play);
    return 0;
}

struct sums {
    uint32_t stopped[VERDICT_RULE_COUNT];
    uint32_t passed[VERDICT_RULE_COUNT];
    uint32_t held[VERDICT_RULE_COUNT];
    uint32_t first_held[VERDICT_RULE_COUNT];
};

static struct sums play_runs(const struct verdict_cell *cell, uint64_t seed, uint32_t runs)
{
    struct sums sums = {{0}, {0}, {0}, {0}};
    struct pol_gate gate = verdict_gate();
    for (uint32_t run = 0; run < runs; run++) {
        struct verdict_seen seen[VERDICT_RULE_COUNT];
        verdict_play_run(play, cell, &gate, seed + run, seen);
        for (int i = 0; i < VERDICT_RULE_COUNT; i++) {
            sums.stopped[i] += seen[i].stopped;
            sums.passed[i] += seen[i].passed;
            sums.held[i] += seen[i].held > 0;
            sums.first_held[i] += seen[i].first_held;
        }
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
    for (uint32_t i = 0; i < VERDICT_NULL_CELLS; i++) {
        struct verdict_cell cell = verdict_null_cell(i);
        uint32_t runs = cell.devices <= 100 ? RUNS_100 : RUNS_1000;
        if (cell.devices > 1000) {
            continue; // verdict_sim plays these
        }
        struct sums sums = play_runs(&cell, 1000 * i, runs);
        if (sums.stopped[VERDICT_LOGRANK] > ceiling(runs, 0.05)) {
            char name[128];
            verdict_cell_name(&cell, name, sizeof(name));
            fail_msg("%s: %u of %u stopped", name, sums.stopped[VERDICT_LOGRANK], runs);
        }
        stopped += sums.stopped[VERDICT_LOGRANK];
        all += runs;
    }
    print_message("%u of %u stopped\n", stopped, all);
    assert_true(stopped <= ceiling(all, 0.05));
}

// An update has to be fetched; control has not.
static void fetching_is_no_failure(void **state)
{
    (void)state;
    struct verdict_cell cell = {.devices = 1000, .control = 1, .base = 0.02, .fetch_s = 30};
    struct sums sums = play_runs(&cell, 3, DELAYED_RUNS);
    print_message("updated 30 s later: %u of %u stopped\n", sums.stopped[VERDICT_LOGRANK],
                  DELAYED_RUNS);
    assert_true(sums.stopped[VERDICT_LOGRANK] <= ceiling(DELAYED_RUNS, 0.05));
    assert_true(sums.passed[VERDICT_LOGRANK] > 0);
}

// The same stages, as the rule sees them that counts who has completed.
static void counting_who_completed_does_not_hold(void **state)
{
    (void)state;
    struct verdict_cell cell = {.devices = 1000, .control = 1, .base = 0.02, .late_s = 60};
    struct sums sums = play_runs(&cell, 1, DELAYED_RUNS);
    print_message("successes 60 s late: sequential %u, logrank %u of %u stopped\n",
                  sums.stopped[VERDICT_SEQUENTIAL], sums.stopped[VERDICT_LOGRANK], DELAYED_RUNS);
    assert_true(sums.stopped[VERDICT_SEQUENTIAL] > DELAYED_RUNS / 2);
    assert_true(sums.stopped[VERDICT_LOGRANK] <= ceiling(DELAYED_RUNS, 0.05));
    assert_true(sums.passed[VERDICT_LOGRANK] > 0);
    cell.base = 0.001;
    sums = play_runs(&cell, 1, DELAYED_RUNS);
    assert_true(sums.passed[VERDICT_LOGRANK] >= DELAYED_RUNS * 9 / 10);
    cell.reversed = true; // what has completed looks better than it is
    sums = play_runs(&cell, 1, DELAYED_RUNS);
    assert_true(sums.stopped[VERDICT_LOGRANK] <= ceiling(DELAYED_RUNS, 0.05));
}

static void bad_versions_are_stopped_and_do_not_pass(void **state)
{
    (void)state;
    struct verdict_cell cell = {
        .devices = 1000, .control = 1, .base = 0.01, .rise = 0.1, .late_s = 25};
    struct sums sums = play_runs(&cell, 5, 50);
    print_message("10 points worse: %u of 50 stopped\n", sums.stopped[VERDICT_LOGRANK]);
    assert_true(sums.stopped[VERDICT_LOGRANK] >= 49);
    assert_int_equal(sums.passed[VERDICT_LOGRANK], 0);
    cell.rise = 0.02; // max_rise itself
    for (int i = 0; i < 2; i++) {
        cell.reversed = i == 1;
        sums = play_runs(&cell, 6, 100);
        print_message("max_rise worse, %s late: %u of 100 passed\n",
                      cell.reversed ? "failures" : "successes", sums.passed[VERDICT_LOGRANK]);
        assert_true(sums.passed[VERDICT_LOGRANK] <= ceiling(100, 0.1));
    }
}

// A slice that always failed 3 %, where others fail 0.5 %, is no news; one that does since the
// update is.
static void slices_are_compared_with_their_own_control(void **state)
{
    (void)state;
    struct verdict_cell cell = {
        .devices = 20000, .control = 1, .base = 0.005, .sliced = true, .slice_base = 0.03};
    struct sums harmless = play_runs(&cell, 11, 3);
    cell.slice_base = 0;
    cell.slice_rise = 0.3;
    cell.devices = 2000;
    cell.control = 4;
    struct sums bad = play_runs(&cell, 12, 10);
    print_message("harmless: held in %u and %u of 3; bad: in %u and %u of 10\n",
                  harmless.held[VERDICT_SEQUENTIAL], harmless.held[VERDICT_LOGRANK],
                  bad.first_held[VERDICT_SEQUENTIAL], bad.first_held[VERDICT_LOGRANK]);
    assert_int_equal(harmless.held[VERDICT_LOGRANK], 0);
    assert_true(harmless.held[VERDICT_SEQUENTIAL] > 0);
    // As bad as that it may be seen in the whole stage first.
    assert_true(bad.first_held[VERDICT_LOGRANK] >= 5);
    assert_true(bad.first_held[VERDICT_LOGRANK] + bad.stopped[VERDICT_LOGRANK] >= 9);
}

static void runs_repeat(void **state)
{
    (void)state;
    struct verdict_cell cell = verdict_null_cell(76);
    struct pol_gate gate = verdict_gate();
    struct verdict_seen first[VERDICT_RULE_COUNT];
    struct verdict_seen second[VERDICT_RULE_COUNT];
    verdict_play_run(play, &cell, &gate, 9, first);
    verdict_play_run(play, &cell, &gate, 9, second);
    for (int i = 0; i < VERDICT_RULE_COUNT; i++) {
        assert_true(first[i].stopped == second[i].stopped && first[i].passed == second[i].passed &&
                    first[i].offered == second[i].offered);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(verdicts_hold_on_the_null),
        cmocka_unit_test(fetching_is_no_failure),
        cmocka_unit_test(counting_who_completed_does_not_hold),
        cmocka_unit_test(bad_versions_are_stopped_and_do_not_pass),
        cmocka_unit_test(slices_are_compared_with_their_own_control),
        cmocka_unit_test(runs_repeat),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
