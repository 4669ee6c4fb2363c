// The cells of trial_cell.h. Called by trial_script.c, gate_null.c and unit tests.
#include "trial_cell.h"

#include <math.h>
#include <stdio.h>

#define RUN_MEAN_S 4.0
#define TAIL_S     2.0 // least of the heavy-tailed delays
#define TAIL_POWER 1.1
#define LATEST_S   8192.0
#define MAX_RISE   0.02

static const double bases[] = {0, 0.001, 0.005, 0.01, 0.02, 0.05};
static const double delays_s[] = {0, 2, 8, 25, 60, -1}; // the last: heavy-tailed
static const uint32_t sizes[] = {100, 1000, 20000};
static const double losses[] = {0, 0.05};
static const double bad_bases[] = {0.001, 0.01, 0.03, 0.05};

static struct trial_cell null_cell(uint32_t index)
{
    double late_s = delays_s[index / 6 % 6];
    return (struct trial_cell){.base = bases[index % 6],
                               .late_s = late_s > 0 ? late_s : 0,
                               .heavy = late_s < 0,
                               .devices = sizes[index / 36 % 3],
                               .loss = losses[index / 108]};
}

static struct trial_cell bad_cell(uint32_t index)
{
    double base = bad_bases[index % 4];
    bool reversed = index / 4 % 2 == 1;
    return (struct trial_cell){.base = base,
                               .rise = base < 0.05 ? MAX_RISE : 0,
                               .late_s = 25,
                               .reversed = reversed,
                               .loss = reversed ? 0.05 : 0,
                               .devices = index < TRIAL_BAD_CELLS / 2 ? 1000 : 20000,
                               .look_on = true};
}

struct trial_cell trial_cell_at(uint32_t index)
{
    if (index < TRIAL_NULL_CELLS) {
        return null_cell(index);
    }
    uint32_t slice = index - TRIAL_NULL_CELLS;
    if (slice < TRIAL_SLICE_CELLS) {
        return (struct trial_cell){
            .base = 0.005, .late_s = slice > 0 ? 25 : 0, .devices = 40000, .slice_base = 0.03};
    }
    return bad_cell(slice - TRIAL_SLICE_CELLS);
}

void trial_cell_name(const struct trial_cell *cell, char *out, size_t size)
{
    char late[32];
    char more[48] = "";
    (void)snprintf(late, sizeof(late), cell->heavy ? "heavy tail" : "%g s", cell->late_s);
    if (cell->slice_base > 0) {
        (void)snprintf(more, sizeof(more), " (a segment %g %%)", cell->slice_base * 100);
    } else if (cell->rise > 0) {
        (void)snprintf(more, sizeof(more), " (the update +%g)", cell->rise * 100);
    }
    (void)snprintf(out, size, "base %g %%%s, %s late %s, %u devices, loss %g %%", cell->base * 100,
                   more, cell->reversed ? "failures" : "successes", late, cell->devices,
                   cell->loss * 100);
}

struct pol_gate trial_cell_gate(const struct trial_cell *cell)
{
    return (struct pol_gate){.min_sample = 50,
                             .max_failure_ppm = 50000,
                             .max_rise_ppm = (uint32_t)lround(MAX_RISE * 1e6),
                             .alpha_ppm = cell->look_on ? 1 : POL_GATE_ALPHA_PPM,
                             .beta_ppm = POL_GATE_BETA_PPM,
                             .min_answered_ppm = POL_GATE_MIN_ANSWERED_PPM};
}

double trial_cell_delay_s(const struct trial_cell *cell, bool fails, struct base_prng *prng)
{
    double seconds = -log(1 - base_prng_unit(prng)) * RUN_MEAN_S;
    if (fails == cell->reversed) {
        seconds += cell->late_s;
        seconds += cell->heavy ? TAIL_S * pow(1 - base_prng_unit(prng), -1 / TAIL_POWER) : 0;
    }
    return seconds < LATEST_S ? seconds : LATEST_S;
}
