// verdict_sim null FROM TO RUNS_100 RUNS_1000 RUNS_20000 | worst INDEX RUNS REVERSED | slice RUNS
// | bad RUNS | power RUNS: error rates and power of the rules `sequential` and `logrank`.
//
// null plays cells FROM..TO-1 of VERDICT_NULL_CELLS, worst one cell; slice a harmless release with
// a slice that always failed more; bad a version that is worse by max_rise, which may not pass;
// power the scenarios of docs/GATE.md. Prints a line for each cell with the 95 % interval (Wilson)
// of the share of logrank's false stops.
#include "verdict_play.h"

#include "base/prng.h"
#include "base/str.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define DEVICES_MAX 200000u
#define NUMBERS_MAX 5
#define NORMAL_95   1.959964

struct interval {
    double low;
    double high;
};

static struct interval wilson(uint32_t hits, uint32_t runs)
{
    double share = (double)hits / runs;
    double square = NORMAL_95 * NORMAL_95 / runs;
    double middle = (share + square / 2) / (1 + square);
    double half = NORMAL_95 * sqrt(share * (1 - share) / runs + square / (4 * runs)) / (1 + square);
    return (struct interval){middle - half > 0 ? middle - half : 0, middle + half};
}

struct sums {
    uint32_t stopped[VERDICT_RULE_COUNT];
    uint32_t passed[VERDICT_RULE_COUNT];
    uint32_t held[VERDICT_RULE_COUNT]; // runs with a slice held
    double offered[VERDICT_RULE_COUNT];
    double slice_offered[VERDICT_RULE_COUNT];
};

static struct sums play_cell(struct verdict_play *play, const struct verdict_cell *cell,
                             const struct pol_gate *gate, uint64_t seed, uint32_t runs)
{
    struct sums sums = {{0}, {0}, {0}, {0}, {0}};
    for (uint32_t run = 0; run < runs; run++) {
        struct verdict_seen seen[VERDICT_RULE_COUNT];
        verdict_play_run(play, cell, gate, seed + run, seen);
        for (int i = 0; i < VERDICT_RULE_COUNT; i++) {
            sums.stopped[i] += seen[i].stopped;
            sums.passed[i] += seen[i].passed;
            sums.held[i] += seen[i].held > 0;
            sums.offered[i] += (double)seen[i].offered / runs;
            sums.slice_offered[i] += (double)seen[i].slice_offered / runs;
        }
    }
    return sums;
}

static void print_null(uint32_t index, const struct verdict_cell *cell, uint32_t runs,
                       const struct sums *sums)
{
    char name[128];
    struct interval interval = wilson(sums->stopped[VERDICT_LOGRANK], runs);
    verdict_cell_name(cell, name, sizeof(name));
    printf("null %u runs %u sequential %u logrank %u (%.4f, %.4f to %.4f) passed %u  %s\n", index,
           runs, sums->stopped[VERDICT_SEQUENTIAL], sums->stopped[VERDICT_LOGRANK],
           (double)sums->stopped[VERDICT_LOGRANK] / runs, interval.low, interval.high,
           sums->passed[VERDICT_LOGRANK], name);
    (void)fflush(stdout);
}

static void play_null(struct verdict_play *play, const uint32_t numbers[NUMBERS_MAX])
{
    struct pol_gate gate = verdict_gate();
    for (uint32_t i = numbers[0]; i < numbers[1] && i < VERDICT_NULL_CELLS; i++) {
        struct verdict_cell cell = verdict_null_cell(i);
        uint32_t runs = numbers[cell.devices <= 100 ? 2 : cell.devices <= 1000 ? 3 : 4];
        struct sums sums = play_cell(play, &cell, &gate, 1000003ull * (i + 1), runs);
        print_null(i, &cell, runs, &sums);
    }
}

static void play_worst(struct verdict_play *play, uint32_t index, uint32_t runs, bool reversed)
{
    struct pol_gate gate = verdict_gate();
    struct verdict_cell cell = verdict_null_cell(index);
    cell.reversed = reversed;
    cell.alone = true;
    struct sums sums = play_cell(play, &cell, &gate, 7000003ull * (index + 1), runs);
    print_null(index, &cell, runs, &sums);
}

static void play_slice(struct verdict_play *play, uint32_t runs)
{
    static const double rates[] = {0.005, 0.03, 0.03};
    struct pol_gate gate = verdict_gate();
    for (uint32_t i = 0; i < 3; i++) {
        struct verdict_cell cell = {.devices = 40000,
                                    .control = 1,
                                    .base = 0.005,
                                    .late_s = i == 2 ? 25 : 0,
                                    .sliced = true,
                                    .slice_base = rates[i]};
        struct sums sums = play_cell(play, &cell, &gate, 31337, runs);
        printf("slice base %.3f late %g s: runs %u, with a slice held: sequential %u, logrank %u\n",
               rates[i], cell.late_s, runs, sums.held[VERDICT_SEQUENTIAL],
               sums.held[VERDICT_LOGRANK]);
    }
}

// The version is worse by max_rise, or just over max_failure: how often does it pass?
static void play_bad(struct verdict_play *play, uint32_t runs)
{
    static const double bases_bad[] = {0.001, 0.01, 0.03, 0.05};
    struct pol_gate gate = verdict_gate();
    gate.alpha_ppm = 1; // look on: it is PASS that is asked about
    for (uint32_t i = 0; i < 16; i++) {
        bool over = bases_bad[i % 4] >= 0.05;
        struct verdict_cell cell = {.devices = i < 8 ? 1000 : 20000,
                                    .control = 1,
                                    .base = bases_bad[i % 4],
                                    .rise = over ? 0 : 0.02,
                                    .late_s = 25,
                                    .reversed = i / 4 % 2 == 1,
                                    .loss = i / 4 % 2 == 1 ? 0.05 : 0};
        struct sums sums = play_cell(play, &cell, &gate, 4711, runs);
        printf("bad base %.3f rise %.2f devices %u %s: runs %u, passed: sequential %u, logrank "
               "%u\n",
               cell.base, cell.rise, cell.devices,
               cell.reversed ? "failures late, loss 5 %" : "successes late", runs,
               sums.passed[VERDICT_SEQUENTIAL], sums.passed[VERDICT_LOGRANK]);
        (void)fflush(stdout);
    }
}

// The scenarios of docs/GATE.md in one stage of 20,000; base rates log-uniform, equal delays.
static void play_power(struct verdict_play *play, uint32_t runs)
{
    static const struct {
        const char *name;
        double rise;
        double slice_rise;
    } scenarios[] = {{"healthy", 0, 0},   {"rise_0.5", 0.005, 0}, {"rise_1", 0.01, 0},
                     {"rise_5", 0.05, 0}, {"rise_20", 0.2, 0},    {"slice", 0, 0.6}};
    struct pol_gate gate = verdict_gate();
    gate.alpha_ppm = 25000;
    gate.max_rise_ppm = 30000;
    for (uint32_t i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); i++) {
        struct sums all = {{0}, {0}, {0}, {0}, {0}};
        for (uint32_t run = 0; run < runs; run++) {
            struct base_prng prng;
            base_prng_seed(&prng, run + 1);
            struct verdict_cell cell = {.devices = 20000,
                                        .control = 4,
                                        .base = 0.001 * pow(20, base_prng_unit(&prng)),
                                        .rise = scenarios[i].rise,
                                        .install_s = 60,
                                        .window_s = 3600,
                                        .ramp = true,
                                        .sliced = scenarios[i].slice_rise > 0,
                                        .slice_rise = scenarios[i].slice_rise};
            struct sums one = play_cell(play, &cell, &gate, 99 + run, 1);
            for (int rule = 0; rule < VERDICT_RULE_COUNT; rule++) {
                all.stopped[rule] += one.stopped[rule] || one.held[rule];
                all.offered[rule] += one.offered[rule] / runs;
                all.slice_offered[rule] += one.slice_offered[rule] / runs;
            }
        }
        bool slice = scenarios[i].slice_rise > 0;
        const double *exposed = slice ? all.slice_offered : all.offered;
        printf("power %s runs %u: caught sequential %u logrank %u, exposed sequential %.0f "
               "logrank %.0f\n",
               scenarios[i].name, runs, all.stopped[VERDICT_SEQUENTIAL],
               all.stopped[VERDICT_LOGRANK], exposed[VERDICT_SEQUENTIAL], exposed[VERDICT_LOGRANK]);
        (void)fflush(stdout);
    }
}

static bool play_what(struct verdict_play *play, const char *what,
                      const uint32_t numbers[NUMBERS_MAX], int count)
{
    if (strcmp(what, "null") == 0 && count == 5) {
        play_null(play, numbers);
    } else if (strcmp(what, "worst") == 0 && count == 3 && numbers[0] < VERDICT_NULL_CELLS) {
        play_worst(play, numbers[0], numbers[1], numbers[2] != 0);
    } else if (strcmp(what, "slice") == 0 && count == 1) {
        play_slice(play, numbers[0]);
    } else if (strcmp(what, "bad") == 0 && count == 1) {
        play_bad(play, numbers[0]);
    } else if (strcmp(what, "power") == 0 && count == 1) {
        play_power(play, numbers[0]);
    } else {
        return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    uint32_t numbers[NUMBERS_MAX] = {0};
    bool known = argc > 2 && argc - 2 <= NUMBERS_MAX;
    for (int i = 2; known && i < argc; i++) {
        uint64_t number = 0;
        known = base_str_u64(base_str_of(argv[i]), &number) == BASE_OK && number <= UINT32_MAX;
        numbers[i - 2] = (uint32_t)number;
    }
    struct verdict_play *play = verdict_play_new(DEVICES_MAX);
    if (play == NULL) {
        (void)fprintf(stderr, "verdict_sim: no memory for %u devices\n", DEVICES_MAX);
        return 71;
    }
    known = known && play_what(play, argv[1], numbers, argc - 2);
    verdict_play_free(play);
    if (!known) {
        (void)fprintf(stderr, "usage: verdict_sim null FROM TO RUNS_100 RUNS_1000 RUNS_20000 | "
                              "worst INDEX RUNS REVERSED | slice RUNS | bad RUNS | power RUNS\n");
    }
    return known ? 0 : 64;
}
