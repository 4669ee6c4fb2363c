// gate_null FOLDER FIRST LAST RUNS_100 RUNS_1000 RUNS_20000: rollouts of identical versions on the
// gateway's core as it ships, with a virtual clock: the cells of verdict_play.h from FIRST to
// before LAST, each played so often. Prints a line for each: the share of rollouts that were ever
// stopped, with its 95 % interval, those with a segment held, and those that passed. FOLDER holds
// the stores while they live; one in memory (/dev/shm) is faster.
#include "core_play.h"

#include "base/str.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define DEVICES_MAX 40000u
#define NUMBER_MAX  1000000u

struct sums {
    uint32_t stopped;
    uint32_t held;
    uint32_t passed;
};

static void print_cell(uint32_t index, const struct verdict_cell *cell, uint32_t runs,
                       const struct sums *sums)
{
    char name[128];
    double n = runs;
    double p = sums->stopped / n;
    double z = 1.959964;
    double middle = (p + z * z / (2 * n)) / (1 + z * z / n);
    double half = z / (1 + z * z / n) * sqrt(p * (1 - p) / n + z * z / (4 * n * n));
    verdict_cell_name(cell, name, sizeof(name));
    printf("gate.null.%u runs %u stopped %u (%.4f, %.4f to %.4f) held %u passed %u  %s\n", index,
           runs, sums->stopped, p, fmax(0, middle - half), middle + half, sums->held, sums->passed,
           name);
    (void)fflush(stdout);
}

int main(int argc, char **argv)
{
    uint64_t numbers[5];
    struct pol_gate gate = verdict_gate();
    if (argc != 7) {
        (void)fprintf(stderr, "usage: gate_null FOLDER FIRST LAST RUNS_100 RUNS_1000 RUNS_20000\n");
        return 2;
    }
    for (int i = 0; i < 5; i++) {
        if (base_str_u64(base_str_of(argv[i + 2]), &numbers[i]) != BASE_OK ||
            numbers[i] > NUMBER_MAX) {
            (void)fprintf(stderr, "%s: not a number up to %u\n", argv[i + 2], NUMBER_MAX);
            return 2;
        }
    }
    struct core_play *play = core_play_new(argv[1], DEVICES_MAX);
    for (uint32_t i = (uint32_t)numbers[0];
         play != NULL && i < numbers[1] && i < VERDICT_NULL_CELLS; i++) {
        struct verdict_cell cell = verdict_null_cell(i);
        uint32_t runs = (uint32_t)numbers[cell.devices <= 100 ? 2 : cell.devices <= 1000 ? 3 : 4];
        struct sums sums = {0, 0, 0};
        for (uint32_t run = 0; run < runs; run++) {
            struct core_play_seen seen;
            core_play_run(play, &cell, &gate, UINT64_C(1000003) * (i + 1) + run, &seen);
            sums.stopped += seen.stopped;
            sums.held += seen.held > 0;
            sums.passed += seen.passed;
        }
        if (runs > 0) {
            print_cell(i, &cell, runs, &sums);
        }
    }
    core_play_free(play);
    return play != NULL ? 0 : 1;
}
