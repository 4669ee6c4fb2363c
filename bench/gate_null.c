// gate_null HOW FOLDER CELL FIRST RUNS: rollouts of identical versions, FIRST to FIRST + RUNS - 1
// of a cell of trial_cell.h. HOW: `core` plays them on the gateway's core as it ships, with a
// virtual clock; `blocks` on a stage's blocks alone (trial_play.h); `both` on both, and counts
// where they differ. Prints a line of JSON: how many were ever stopped, had a segment held, passed.
// FOLDER holds the core's stores while they live; one in memory (/dev/shm) is faster. A run is
// drawn from its cell and its number alone (driven by rollout_null.py).
#include "core_play.h"
#include "trial_play.h"

#include "base/str.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEVICES_MAX 80000u
#define NUMBERS     3
#define NUMBER_MAX  1000000u

enum how { CORE, BLOCKS, BOTH, HOW_COUNT };
static const char *const hows[HOW_COUNT] = {"core", "blocks", "both"};

struct players {
    struct trial_script *script;
    struct core_play *core;
    struct trial_play *blocks;
};

struct sums {
    uint32_t stopped;
    uint32_t held;
    uint32_t passed;
    uint32_t differ;
};

static bool make_players(struct players *players, const char *folder)
{
    *players = (struct players){.script = trial_script_new(DEVICES_MAX),
                                .core = core_play_new(folder, DEVICES_MAX),
                                .blocks = trial_play_new()};
    return players->script != NULL && players->core != NULL && players->blocks != NULL;
}

static void free_players(struct players *players)
{
    trial_script_free(players->script);
    core_play_free(players->core);
    trial_play_free(players->blocks);
}

static bool play(const struct players *players, enum how how, const struct trial_cell *cell,
                 uint64_t seed, struct sums *sums)
{
    const struct pol_gate gate = trial_cell_gate(cell);
    struct trial_seen seen[2];
    bool ok = trial_script_draw(players->script, cell, seed);
    if (ok && how != BLOCKS) {
        core_play_run(players->core, players->script, &gate, &seen[0]);
    }
    if (ok && how != CORE) {
        ok = trial_play_run(players->blocks, players->script, &gate, &seen[1]);
    }
    if (ok) {
        const struct trial_seen *one = &seen[how == BLOCKS];
        sums->stopped += one->stopped;
        sums->held += one->held > 0;
        sums->passed += one->passed;
        sums->differ += how == BOTH && !trial_seen_equal(&seen[0], &seen[1]);
    }
    return ok;
}

static bool play_all(const struct players *players, enum how how, const uint32_t numbers[NUMBERS])
{
    struct trial_cell cell = trial_cell_at(numbers[0]);
    struct sums sums = {0, 0, 0, 0};
    char name[128];
    for (uint32_t i = 0; i < numbers[2]; i++) {
        uint64_t run = UINT64_C(1000003) * (numbers[0] + 1) + numbers[1] + i;
        if (!play(players, how, &cell, run, &sums)) {
            (void)fprintf(stderr, "gate_null: no memory\n");
            return false;
        }
    }
    trial_cell_name(&cell, name, sizeof(name));
    printf("{\"cell\": %u, \"name\": \"%s\", \"how\": \"%s\", \"first\": %u, \"runs\": %u, "
           "\"stopped\": %u, \"held\": %u, \"passed\": %u, \"differ\": %u}\n",
           numbers[0], name, hows[how], numbers[1], numbers[2], sums.stopped, sums.held,
           sums.passed, sums.differ);
    return true;
}

int main(int argc, char **argv)
{
    uint32_t numbers[NUMBERS];
    uint32_t how = 0;
    while (argc == 3 + NUMBERS && how < HOW_COUNT && strcmp(argv[1], hows[how]) != 0) {
        how++;
    }
    bool known = argc == 3 + NUMBERS && how < HOW_COUNT;
    for (int i = 0; known && i < NUMBERS; i++) {
        uint64_t number = 0;
        known = base_str_u64(base_str_of(argv[3 + i]), &number) == BASE_OK && number <= NUMBER_MAX;
        numbers[i] = (uint32_t)number;
    }
    if (!known || numbers[0] >= TRIAL_CELLS) {
        (void)fprintf(stderr,
                      "usage: gate_null core|blocks|both FOLDER CELL FIRST RUNS; cells are "
                      "0 to %u\n",
                      TRIAL_CELLS - 1);
        return 2;
    }
    struct players players;
    bool ok = make_players(&players, argv[2]) && play_all(&players, (enum how)how, numbers);
    free_players(&players);
    return ok ? 0 : 1;
}
