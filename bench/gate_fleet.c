// Draws the devices of one simulated rollout. Called by gate_play.c; one thread, no state kept.
#include "gate_fleet.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Base rates differ between rollouts, as tasks and seasons do: 0.1 % to 2 %.
static const struct gate_scenario scenarios[] = {
    {"healthy", 0.001, 0.02, 0, 0, 0},   {"rise_0.5", 0.001, 0.02, 0.005, 0, 0},
    {"rise_1", 0.001, 0.02, 0.01, 0, 0}, {"rise_5", 0.001, 0.02, 0.05, 0, 0},
    {"rise_20", 0.001, 0.02, 0.2, 0, 0}, {"slice", 0.001, 0.02, 0, 0.6, 0},
    {"silent", 0.001, 0.02, 0, 0, 0.05},
};

const struct gate_scenario *gate_scenario_at(uint32_t index)
{
    return index < sizeof(scenarios) / sizeof(scenarios[0]) ? &scenarios[index] : NULL;
}

const struct gate_scenario *gate_scenario_find(const char *name)
{
    for (uint32_t i = 0; gate_scenario_at(i) != NULL; i++) {
        if (strcmp(scenarios[i].name, name) == 0) {
            return &scenarios[i];
        }
    }
    return NULL;
}

bool gate_fleet_init(struct gate_fleet *fleet, uint32_t count)
{
    *fleet = (struct gate_fleet){.count = count};
    fleet->devices = calloc(count, sizeof(*fleet->devices));
    return fleet->devices != NULL;
}

void gate_fleet_done(struct gate_fleet *fleet)
{
    free(fleet->devices);
    *fleet = (struct gate_fleet){.count = 0};
}

static double exponential(struct base_prng *prng, double mean)
{
    return -log(1 - base_prng_unit(prng)) * mean;
}

static double normal(struct base_prng *prng)
{
    double radius = sqrt(-2 * log(1 - base_prng_unit(prng)));
    return radius * cos(6.28318530717958648 * base_prng_unit(prng));
}

// The bad slice, or one of the others, of falling size.
static uint8_t slice_of(struct base_prng *prng)
{
    double at = base_prng_unit(prng);
    if (at < GATE_BAD_SLICE_SHARE) {
        return GATE_BAD_SLICE;
    }
    double u = (at - GATE_BAD_SLICE_SHARE) / (1 - GATE_BAD_SLICE_SHARE);
    return (uint8_t)(1 + (uint32_t)((GATE_SLICES - 1) * u * u));
}

static void draw_device(struct gate_device *device, const struct gate_scenario *scenario,
                        double base, struct base_prng *prng)
{
    device->phase_s = (float)(base_prng_unit(prng) * GATE_CHECKIN_S);
    bool absent = base_prng_unit(prng) < GATE_ABSENT_SHARE;
    device->present_s = absent ? (float)exponential(prng, GATE_ABSENT_MEAN_S) : 0;
    device->install_s = (float)(GATE_INSTALL_S * exp(GATE_INSTALL_SIGMA * normal(prng)));
    device->report_s = (float)exponential(prng, GATE_FIRST_RUN_S);
    device->vanish_s = device->present_s + (float)exponential(prng, GATE_VANISH_S);
    device->slice = slice_of(prng);
    double fate = base_prng_unit(prng);
    bool bad_slice = scenario->slice_failure > 0 && device->slice == GATE_BAD_SLICE;
    double after = bad_slice ? scenario->slice_failure : base + scenario->rise;
    device->fails_before = fate < base;
    device->fails_after = fate < after;
    bool dies = base_prng_unit(prng) < scenario->dying;
    float death_s = (float)exponential(prng, GATE_DEATH_S);
    device->death_s = dies ? death_s : GATE_NEVER_S;
}

void gate_fleet_draw(struct gate_fleet *fleet, const struct gate_scenario *scenario, uint64_t seed)
{
    struct base_prng prng;
    base_prng_seed(&prng, seed);
    fleet->scenario = scenario;
    fleet->seed = seed;
    double low = log(scenario->base_low);
    double high = log(scenario->base_high);
    fleet->base = exp(low + (high - low) * base_prng_unit(&prng));
    for (uint32_t i = 0; i < fleet->count; i++) {
        draw_device(&fleet->devices[i], scenario, fleet->base, &prng);
    }
}

uint64_t gate_device_id(const struct gate_fleet *fleet, uint32_t index)
{
    return base_mix64(fleet->seed * UINT64_C(0x1000003) + index);
}

bool gate_exposes(const struct gate_fleet *fleet, const struct gate_device *device)
{
    return fleet->scenario->slice_failure <= 0 || device->slice == GATE_BAD_SLICE;
}

bool gate_harms(const struct gate_device *device)
{
    return (device->fails_after && !device->fails_before) || device->death_s < GATE_NEVER_S;
}
