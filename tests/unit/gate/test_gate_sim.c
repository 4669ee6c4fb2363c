// The gate in simulated rollouts, a small version of the bench: healthy rollouts are left alone,
// bad ones are stopped before many devices have them.
#include "test_kit.h"

#include "gate_play.h"

#define DEVICES      20000u
#define HEALTHY_RUNS 60u
#define FAULTY_RUNS  12u

struct rig {
    struct gate_fleet fleet;
    struct gate_world world;
    struct gate_ours_play *ours;
    struct gate_ours settings;
};

static struct rig rig;

static int set_up(void **state)
{
    (void)state;
    rig.settings = gate_ours_standard(POL_GATE_LOGRANK);
    rig.ours = gate_ours_new(DEVICES);
    // A fifth of the bench's fleet rules out larger rises.
    rig.settings.max_rise_ppm[0] = 100000;
    rig.settings.max_rise_ppm[1] = 40000;
    rig.settings.max_rise_ppm[2] = 20000;
    rig.settings.min_sample = 100;
    print_message("seeds 1..%u, %u devices\n", HEALTHY_RUNS, DEVICES);
    return rig.ours != NULL && gate_fleet_init(&rig.fleet, DEVICES) &&
                   gate_world_init(&rig.world, DEVICES)
               ? 0
               : -1;
}

static int tear_down(void **state)
{
    (void)state;
    gate_ours_free(rig.ours);
    gate_world_done(&rig.world);
    gate_fleet_done(&rig.fleet);
    return 0;
}

static struct gate_outcome play_rule(const struct gate_ours *settings, const char *scenario,
                                     uint64_t seed)
{
    struct gate_outcome outcome;
    gate_fleet_draw(&rig.fleet, gate_scenario_find(scenario), seed);
    assert_true(gate_play_ours(rig.ours, &rig.world, &rig.fleet, settings, &outcome));
    return outcome;
}

static struct gate_outcome play(const char *scenario, uint64_t seed)
{
    return play_rule(&rig.settings, scenario, seed);
}

static void healthy_rollouts_go_on(void **state)
{
    (void)state;
    uint32_t stopped = 0;
    uint32_t completed = 0;
    for (uint32_t run = 1; run <= HEALTHY_RUNS; run++) {
        struct gate_outcome outcome = play("healthy", run);
        stopped += outcome.end == GATE_END_STOPPED || outcome.quarantined > 0;
        completed += outcome.end == GATE_END_COMPLETED;
        assert_int_equal(outcome.exposed > 0, true);
        assert_int_equal(outcome.harmed, 0);
    }
    print_message("healthy: %u of %u stopped, %u completed\n", stopped, HEALTHY_RUNS, completed);
    assert_true(stopped <= HEALTHY_RUNS / 20); // alpha is 5 % for a rollout
    assert_true(completed >= HEALTHY_RUNS * 8 / 10);
}

// Whatever is bad is stopped, or held where a stage is too small to show it.
static void bad_ones_are_caught(void **state)
{
    (void)state;
    static const char *const scenarios[] = {"rise_5", "rise_20", "silent"};
    for (size_t s = 0; s < TEST_COUNT(scenarios); s++) {
        uint64_t exposed = 0;
        for (uint32_t run = 1; run <= FAULTY_RUNS; run++) {
            struct gate_outcome outcome = play(scenarios[s], run);
            assert_int_not_equal(outcome.end, GATE_END_COMPLETED);
            exposed += outcome.exposed;
        }
        print_message("%s: %.0f devices exposed\n", scenarios[s], (double)exposed / FAULTY_RUNS);
        assert_true(exposed < FAULTY_RUNS * (s < 2 ? DEVICES / 50 : DEVICES / 5));
    }
}

// A bad slice is held, or takes the rollout with it; nothing of it gets far.
static void a_bad_slice_is_contained(void **state)
{
    (void)state;
    uint64_t exposed = 0;
    uint32_t quarantined = 0;
    for (uint32_t run = 1; run <= FAULTY_RUNS; run++) {
        struct gate_outcome outcome = play("slice", run);
        exposed += outcome.exposed;
        quarantined += outcome.quarantined > 0;
        assert_true(outcome.quarantined <= 1);
        assert_true(outcome.quarantined == 0 || rig.world.held_slices[GATE_BAD_SLICE]);
    }
    print_message("slice: %.0f of its devices exposed, quarantined in %u of %u\n",
                  (double)exposed / FAULTY_RUNS, quarantined, FAULTY_RUNS);
    assert_true(quarantined > 0);
    assert_true(exposed < FAULTY_RUNS * 40);
}

// The rule that compares nobody: it sees a large fault, and not one within its limit.
static void a_threshold_sees_what_exceeds_it(void **state)
{
    (void)state;
    struct gate_ours settings = gate_ours_standard(POL_GATE_THRESHOLD);
    settings.min_sample = rig.settings.min_sample;
    for (uint32_t run = 1; run <= FAULTY_RUNS; run++) {
        assert_int_equal(play_rule(&settings, "rise_20", run).end, GATE_END_STOPPED);
        struct gate_outcome small = play_rule(&settings, "rise_1", run);
        assert_int_equal(small.end, GATE_END_COMPLETED);
        assert_int_equal(small.exposed, DEVICES);
    }
}

// The same seed gives the same rollout; a rival's grid agrees with itself: a stricter limit never
// stops later.
static void runs_repeat(void **state)
{
    (void)state;
    struct gate_outcome first = play("rise_1", 7);
    struct gate_outcome second = play("rise_1", 7);
    assert_memory_equal(&first, &second, sizeof(first));
    static struct gate_outcome hawkbit[GATE_HAWKBIT_SETTINGS];
    gate_fleet_draw(&rig.fleet, gate_scenario_find("rise_20"), 3);
    gate_play_hawkbit(&rig.world, &rig.fleet, hawkbit);
    for (uint32_t i = 1; i < 20; i++) {
        assert_true(hawkbit[i].at_s >= hawkbit[i - 1].at_s);
    }
    assert_int_equal(hawkbit[1].end, GATE_END_STOPPED);
    assert_int_equal(hawkbit[1].exposed, DEVICES / 100); // the running group is completed
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(healthy_rollouts_go_on),
        cmocka_unit_test(bad_ones_are_caught),
        cmocka_unit_test(a_bad_slice_is_contained),
        cmocka_unit_test(a_threshold_sees_what_exceeds_it),
        cmocka_unit_test(runs_repeat),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
