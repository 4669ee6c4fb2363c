// Rollouts of identical versions, and of bad ones, on the gateway's core as it ships: a small
// version of bench/gate_null.c. Success is heard of long after failure, which the rule that counts
// who has completed does not bear.
#include "test_kit.h"

#include "core_play.h"

#include <math.h>
#include <stdlib.h>

#define RUNS        12u
#define DEVICES_MAX 2000u

static struct core_play *play;

static int set_up(void **state)
{
    (void)state;
    const char *folder = getenv("TMPDIR");
    play = core_play_new(folder != NULL ? folder : "/tmp", DEVICES_MAX);
    return play != NULL ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    core_play_free(play);
    return 0;
}

struct sums {
    uint32_t stopped;
    uint32_t held;
    uint64_t compared;
    uint64_t control;
};

static struct sums play_runs(const struct verdict_cell *cell, uint64_t seed, uint32_t runs)
{
    struct sums sums = {0, 0, 0, 0};
    struct pol_gate gate = verdict_gate();
    print_message("seed %llu\n", (unsigned long long)seed);
    for (uint32_t run = 0; run < runs; run++) {
        struct core_play_seen seen;
        core_play_run(play, cell, &gate, seed + run, &seen);
        sums.stopped += seen.stopped;
        sums.held += seen.held > 0;
        sums.compared += seen.compared;
        sums.control += seen.control;
    }
    return sums;
}

// So many of `runs` at a level are no more than chance.
static double ceiling(uint32_t runs, double level)
{
    return runs * level + 4 * sqrt(runs * level * (1 - level));
}

static void identical_versions_go_on(void **state)
{
    (void)state;
    static const struct verdict_cell cells[] = {
        {.devices = 100, .control = 1, .base = 0.02, .late_s = 60},
        {.devices = 100, .control = 1, .base = 0.05, .heavy = true, .loss = 0.05},
        {.devices = 400, .control = 1, .base = 0.02, .late_s = 25},
    };
    uint32_t stopped = 0;
    for (uint32_t i = 0; i < sizeof(cells) / sizeof(cells[0]); i++) {
        struct sums sums = play_runs(&cells[i], 1000 * (i + 1), RUNS);
        print_message("base %g: %u of %u stopped, %u held\n", cells[i].base, sums.stopped, RUNS,
                      sums.held);
        // Everybody takes part, one half in each cohort.
        assert_int_equal(sums.compared + sums.control, (uint64_t)RUNS * cells[i].devices * 2);
        double half = (double)RUNS * cells[i].devices;
        assert_true(fabs((double)sums.compared - half) < 5 * sqrt(half));
        assert_true(sums.held <= ceiling(RUNS, 0.05));
        stopped += sums.stopped;
    }
    assert_true(stopped <= ceiling(3 * RUNS, 0.05));
}

static void bad_versions_are_stopped(void **state)
{
    (void)state;
    const struct verdict_cell cell = {
        .devices = 400, .control = 1, .base = 0.01, .rise = 0.2, .late_s = 25};
    struct sums sums = play_runs(&cell, 77, 6);
    assert_true(sums.stopped + sums.held >= 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(identical_versions_go_on),
        cmocka_unit_test(bad_versions_are_stopped),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
