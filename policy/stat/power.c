// Power: how many devices a test needs to find a rise, and what a stage can find at all.
//
// Called by `rollout plan` and by the check before a start; pure. The answer uses the evidence of
// the test itself at unlucky counts: both rates shifted towards each other by as many standard
// deviations as leave a share of beta beyond. Looking at any time can only help, so the figure is a
// little too large, never far too small.
#include "policy/stat/sequential.h"

#include "policy/stat/evidence.h"

#include <math.h>

#define MILLION      1000000u
#define HOUR_SECONDS 3600u

// Steps of the integral of the normal density, and halvings for its quantile.
#define NORMAL_STEPS    64
#define QUANTILE_ROUNDS 40
#define QUANTILE_MAX    8.0

// The share of a normal distribution between its middle and z (Simpson's rule).
static double normal_half(double z)
{
    double step = z / NORMAL_STEPS;
    double sum = 0;
    for (int i = 0; i <= NORMAL_STEPS; i++) {
        double x = step * i;
        double weight = i == 0 || i == NORMAL_STEPS ? 1 : i % 2 == 1 ? 4 : 2;
        sum += weight * exp(-x * x / 2);
    }
    return sum * step / 3 * 0.39894228040143267794; // 1 / sqrt(2 pi)
}

// z with a share of beta beyond it; beta in (0, 1/2].
static double quantile(double beta)
{
    double low = 0;
    double high = QUANTILE_MAX;
    for (int i = 0; i < QUANTILE_ROUNDS; i++) {
        double z = (low + high) / 2;
        *(normal_half(z) < 0.5 - beta ? &low : &high) = z;
    }
    return high;
}

struct stage {
    struct pol_test test;
    double control_share; // control devices for each updated one
    double base;
    double z;
};

// Whether `devices` updated ones find a rise with probability 1 - beta.
static bool finds(const struct stage *stage, double devices, double rise)
{
    double control = devices * stage->control_share;
    double rate = stage->base + rise < 1 ? stage->base + rise : 1;
    double updated_variance = rate * (1 - rate) / devices;
    double control_variance = control > 0 ? stage->base * (1 - stage->base) / control : 0;
    double deviation = sqrt(updated_variance + control_variance);
    double shift = deviation > 0 ? stage->z / deviation : 0;
    double seen = rate - shift * updated_variance;
    double base_seen = stage->base + shift * control_variance;
    if (!(seen > base_seen)) {
        return false;
    }
    struct pol_arm updated = {.events = seen * devices, .exposure = devices};
    struct pol_arm other = {.events = base_seen * control, .exposure = control};
    return pol_evidence_shown(&stage->test, updated, other);
}

static uint64_t devices_needed(const struct stage *stage, double rise)
{
    uint64_t low = 0;
    uint64_t high = 1;
    while (high < POL_POWER_DEVICES_MAX && !finds(stage, (double)high, rise)) {
        low = high;
        high *= 2;
    }
    if (high >= POL_POWER_DEVICES_MAX) {
        return POL_POWER_DEVICES_MAX;
    }
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        *(finds(stage, (double)middle, rise) ? &high : &low) = middle;
    }
    return high;
}

static uint32_t smallest_rise(const struct stage *stage, uint64_t devices)
{
    uint32_t low = 0;
    uint32_t high = MILLION;
    while (devices > 0 && high - low > 1) {
        uint32_t rise = low + (high - low) / 2;
        *(finds(stage, (double)devices, (double)rise / MILLION) ? &high : &low) = rise;
    }
    return high;
}

struct pol_power_plan pol_power(const struct pol_test *test, struct pol_power_ask ask)
{
    double beta = test->beta_ppm > 0 ? (double)test->beta_ppm / MILLION : 1.0 / MILLION;
    struct stage stage = {.test = *test,
                          .control_share = ask.stage_devices > 0 ? (double)ask.control_devices /
                                                                       (double)ask.stage_devices
                                                                 : 0,
                          .base = ask.base_ppm < MILLION ? (double)ask.base_ppm / MILLION : 1,
                          .z = quantile(beta < 0.5 ? beta : 0.5)};
    struct pol_power_plan plan = {.devices = devices_needed(&stage, (double)ask.rise_ppm / MILLION),
                                  .smallest_rise_ppm = smallest_rise(&stage, ask.stage_devices)};
    plan.can_detect = plan.devices <= ask.stage_devices;
    plan.control = (uint64_t)((double)plan.devices * stage.control_share + 0.5);
    if (ask.completions_per_hour > 0) {
        double seconds = (double)plan.devices / (double)ask.completions_per_hour * HOUR_SECONDS;
        plan.seconds = (uint64_t)(seconds + 0.999);
    }
    return plan;
}
