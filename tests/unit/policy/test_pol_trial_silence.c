// Silence compared with a placebo control by simulation: hazards that change with the age of an
// installation and with the hour, devices that enter one after the other and are found silent late.
// Both cohorts of a block begin to be watched together, so the level holds.
#include "test_kit.h"

#include "policy/stat/sequential.h"

#include <math.h>

#define SEED       20261125u
#define RUNS       200u
#define STEP_S     10u
#define STEPS      360u
#define SILENCE    9u // steps until a device counts as silent
#define BLOCKS     40u
#define UPDATED    8u // of a block
#define ALPHA_PPM  50000u
#define HOUR_STEPS 120u

struct tally {
    int32_t watched[STEPS + SILENCE + 1]; // change in devices watched
    uint32_t found[STEPS + SILENCE + 1];
};

// Per step: many go in the first minutes after an update, and the night is quiet.
static double hazard(uint32_t age, uint32_t step)
{
    double young = age < 18 ? 0.006 : 0.0008;
    return young * (step / HOUR_STEPS % 2 == 0 ? 1 : 0.3);
}

// Watched from `from` on; never the same as not being watched.
static void draw_device(struct base_prng *prng, uint32_t from, double ratio, struct tally *tally)
{
    tally->watched[from]++;
    for (uint32_t step = from; step < STEPS; step++) {
        if (base_prng_unit(prng) < ratio * hazard(step - from, step)) {
            tally->found[step + SILENCE]++;
            return;
        }
    }
}

// True: shown worse at one of the looks, which come every step.
static bool play(struct base_prng *prng, double ratio, uint32_t control_ratio)
{
    static struct tally updated;
    static struct tally control;
    memset(&updated, 0, sizeof(updated));
    memset(&control, 0, sizeof(control));
    for (uint32_t block = 0; block < BLOCKS; block++) {
        for (uint32_t i = 0; i < UPDATED; i++) {
            draw_device(prng, block * 4, ratio, &updated);
        }
        for (uint32_t i = 0; i < UPDATED * control_ratio; i++) {
            draw_device(prng, block * 4, 1, &control);
        }
    }
    struct pol_hazard seen[2] = {{0, 0}, {0, 0}};
    int32_t watched[2] = {0, 0};
    bool worse = false;
    for (uint32_t step = 0; step < STEPS && !worse; step++) {
        const struct tally *tallies[2] = {&updated, &control};
        for (int arm = 0; arm < 2; arm++) {
            // Who is found silent was so for SILENCE steps, which are taken back.
            uint32_t found = tallies[arm]->found[step];
            watched[arm] += tallies[arm]->watched[step] - (int32_t)found;
            seen[arm].silent += found;
            seen[arm].device_seconds +=
                (uint64_t)watched[arm] * STEP_S - (uint64_t)found * SILENCE * STEP_S;
        }
        worse = pol_hazard_test(&seen[0], &seen[1], 100, ALPHA_PPM).result == POL_TEST_WORSE;
    }
    return worse;
}

static void the_level_holds_against_a_placebo(void **state)
{
    (void)state;
    struct base_prng prng;
    base_prng_seed(&prng, SEED);
    print_message("seed %u\n", SEED);
    for (uint32_t control_ratio = 1; control_ratio <= 4; control_ratio += 3) {
        uint32_t stopped = 0;
        for (uint32_t run = 0; run < RUNS; run++) {
            stopped += play(&prng, 1, control_ratio);
        }
        print_message("control x%u: %u of %u stopped\n", control_ratio, stopped, RUNS);
        double level = ALPHA_PPM / 1e6;
        assert_true(stopped <= RUNS * level + 4 * sqrt(RUNS * level * (1 - level)));
    }
}

static void a_silent_version_is_found(void **state)
{
    (void)state;
    struct base_prng prng;
    base_prng_seed(&prng, SEED + 1);
    uint32_t stopped = 0;
    for (uint32_t run = 0; run < 50; run++) {
        stopped += play(&prng, 3, 4);
    }
    print_message("hazard x3: %u of 50 stopped\n", stopped);
    assert_true(stopped >= 45);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_level_holds_against_a_placebo),
        cmocka_unit_test(a_silent_version_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
