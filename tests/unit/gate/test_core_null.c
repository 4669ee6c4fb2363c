// Rollouts of identical versions, and of bad ones, on the gateway's core as it ships: a small
// version of bench/gate_null.c. Success is heard of long after failure, which the rule that counts
// who has completed does not bear.
#include "test_kit.h"

#include "core_play.h"
#include "trial_play.h"

#include <math.h>
#include <unistd.h>

#define RUNS        12u
#define DEVICES_MAX 80000u

static struct core_play *play;
static struct trial_play *blocks;
static struct trial_script *script;

static int set_up(void **state)
{
    (void)state;
    const char *folder = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    play = core_play_new(folder, DEVICES_MAX);
    blocks = trial_play_new();
    script = trial_script_new(DEVICES_MAX);
    return play != NULL && blocks != NULL && script != NULL ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    core_play_free(play);
    trial_play_free(blocks);
    trial_script_free(script);
    return 0;
}

struct sums {
    uint32_t stopped;
    uint32_t held;
    uint64_t compared;
    uint64_t control;
};

static struct sums play_runs(const struct trial_cell *cell, uint64_t seed, uint32_t runs)
{
    struct sums sums = {0, 0, 0, 0};
    const struct pol_gate gate = trial_cell_gate(cell);
    print_message("seed %llu\n", (unsigned long long)seed);
    for (uint32_t run = 0; run < runs; run++) {
        struct trial_seen seen;
        assert_true(trial_script_draw(script, cell, seed + run));
        core_play_run(play, script, &gate, &seen);
        sums.stopped += seen.stopped;
        sums.held += seen.held > 0;
        sums.compared += seen.trial.compared;
        sums.control += seen.trial.all[POL_COHORT_CONTROL].offered;
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
    static const struct trial_cell cells[] = {
        {.devices = 100, .base = 0.02, .late_s = 60},
        {.devices = 100, .base = 0.05, .heavy = true, .loss = 0.05},
        {.devices = 400, .base = 0.02, .late_s = 25},
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

// The core with its devices' bytes and its store, and the blocks alone: one and the same rollout,
// to the second and to the last bit of the evidence.
static void the_core_and_its_blocks_agree(void **state)
{
    (void)state;
    static const struct trial_cell cells[] = {
        {.devices = 100, .base = 0.05, .late_s = 25},
        {.devices = 400, .base = 0.05, .heavy = true, .loss = 0.05},
        {.devices = 400, .base = 0.01, .rise = 0.2, .late_s = 8},
        {.devices = 400, .base = 0.001, .late_s = 2},
    };
    uint32_t stopped = 0;
    uint32_t passed = 0;
    for (uint32_t i = 0; i < 4 * sizeof(cells) / sizeof(cells[0]); i++) {
        const struct pol_gate gate = trial_cell_gate(&cells[i / 4]);
        struct trial_seen seen[2];
        assert_true(trial_script_draw(script, &cells[i / 4], 500 + i));
        core_play_run(play, script, &gate, &seen[0]);
        assert_true(trial_play_run(blocks, script, &gate, &seen[1]));
        if (!trial_seen_equal(&seen[0], &seen[1])) {
            fail_msg("cell %u, run %u: the core: step %u, %s; blocks: step %u, %s", i / 4, i % 4,
                     seen[0].steps, pol_reason_name(seen[0].reason), seen[1].steps,
                     pol_reason_name(seen[1].reason));
        }
        stopped += seen[0].stopped;
        passed += seen[0].passed;
    }
    assert_true(stopped >= 1 && passed >= 1);
}

struct slice_sums {
    uint32_t runs;
    uint32_t held; // in which a segment was held
    uint32_t stopped;
};

static struct slice_sums play_slices(const struct trial_cell *cell, uint32_t runs, bool whole)
{
    const struct pol_gate gate = trial_cell_gate(cell);
    struct slice_sums sums = {runs, 0, 0};
    for (uint32_t run = 0; run < runs; run++) {
        struct trial_seen seen;
        assert_true(trial_script_draw(script, cell, 900 + run));
        if (whole) {
            core_play_run(play, script, &gate, &seen);
        } else {
            assert_true(trial_play_run(blocks, script, &gate, &seen));
        }
        sums.held += seen.held > 0;
        sums.stopped += seen.stopped;
    }
    return sums;
}

// A segment that always failed 3 %, where others fail 0.5 %, is let be: it is compared with its own
// control. One that fails since the update is held, or the release with it.
static void segments_are_compared_with_their_own_control(void **state)
{
    (void)state;
    struct trial_cell cell = trial_cell_at(TRIAL_NULL_CELLS);
    struct slice_sums harmless = play_slices(&cell, 5, false);
    assert_int_equal(harmless.held, 0);
    assert_true(harmless.stopped <= 1);
    cell.devices = 1000;
    harmless = play_slices(&cell, 2, true);
    assert_int_equal(harmless.held + harmless.stopped, 0);
    cell.slice_base = 0;
    cell.slice_rise = 0.4;
    struct slice_sums bad = play_slices(&cell, 5, false);
    print_message("bad: %u of %u held, %u stopped\n", bad.held, bad.runs, bad.stopped);
    assert_true(bad.held >= 1 && bad.held + bad.stopped >= bad.runs);
    bad = play_slices(&cell, 1, true);
    assert_true(bad.held + bad.stopped >= 1);
}

static void bad_versions_are_stopped(void **state)
{
    (void)state;
    const struct trial_cell cell = {.devices = 400, .base = 0.01, .rise = 0.2, .late_s = 25};
    struct sums sums = play_runs(&cell, 77, 6);
    assert_true(sums.stopped + sums.held >= 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(identical_versions_go_on),
        cmocka_unit_test(the_core_and_its_blocks_agree),
        cmocka_unit_test(segments_are_compared_with_their_own_control),
        cmocka_unit_test(bad_versions_are_stopped),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
