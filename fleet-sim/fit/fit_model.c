// The fit itself: a line of few points through a curve, and a delay that makes one curve of
// another. fit_main.c calls it; pure, any thread. Numbers here decide what is written into a
// scenario, and nothing of a run.
#include "fit/fit.h"

#include "base/check.h"
#include "base/prng.h"

#include <math.h>
#include <string.h>

#define SAMPLES       256u // of a delay
#define MOMENTS       300u // at which two curves are compared
#define NEAR_ENOUGH   0.02 // points; a point more makes no difference
#define ANSWER_MS     40.0 // of one that nothing delays, as constant links have it
#define STEP_MS       5u
#define WORTH         0.05 // points that a delay has to make it better by
#define DELAY_MOST    600000u
#define SEED          20
#define CLOSER_ROUNDS 4u

const double sim_fit_shares[SIM_FIT_SHARES] = {0.25, 0.5, 0.75, 0.9, 0.99};

// ---- Arrivals

// The line at this second.
static double line_at(const void *ctx, double at_s)
{
    const struct sim_fit *fit = ctx;
    double from_s = 0;
    double from = 0;
    for (uint32_t i = 0; i < fit->knot_count; i++) {
        if (at_s <= fit->knots_s[i]) {
            double span_s = fit->knots_s[i] - from_s;
            return span_s > 0 ? from + (fit->knots[i] - from) * (at_s - from_s) / span_s
                              : fit->knots[i];
        }
        from_s = fit->knots_s[i];
        from = fit->knots[i];
    }
    return from;
}

// The step at which line and curve are farthest apart.
static uint32_t farthest(const struct sim_fit *fit, double *out_off)
{
    const struct sim_steps *came = &fit->came;
    uint32_t worst = 0;
    *out_off = 0;
    for (uint32_t i = 0; i < came->count; i++) {
        double off = sim_fit_off(came, i, line_at, fit);
        if (off > *out_off) {
            *out_off = off;
            worst = i;
        }
    }
    return worst;
}

static void knot_put(struct sim_fit *fit, double at_s, double devices)
{
    uint32_t at = fit->knot_count;
    base_assert(fit->knot_count < SIM_ARRIVAL_POINTS_MAX);
    while (at > 0 && fit->knots_s[at - 1] > at_s) {
        fit->knots_s[at] = fit->knots_s[at - 1];
        fit->knots[at] = fit->knots[at - 1];
        at--;
    }
    fit->knots_s[at] = at_s;
    fit->knots[at] = devices;
    fit->knot_count++;
}

// A point at the step, or just before it, where the line is farther off.
static void knot_at(const struct sim_fit *fit, uint32_t step, double *out_s, double *out_devices)
{
    const struct sim_steps *came = &fit->came;
    double below = step > 0 ? came->y[step - 1] : 0;
    double before_s = came->x[step] - SIM_FIT_BEFORE_S;
    bool before = before_s > 0 && fabs(line_at(fit, before_s) - below) >
                                      fabs(line_at(fit, came->x[step]) - came->y[step]);
    *out_s = before ? before_s : came->x[step];
    *out_devices = before ? below : came->y[step];
}

static bool has_knot(const struct sim_fit *fit, double at_s)
{
    for (uint32_t i = 0; i < fit->knot_count; i++) {
        if (fabs(fit->knots_s[i] - at_s) < 0.0009) { // as they are written
            return true;
        }
    }
    return false;
}

void sim_fit_arrivals(struct sim_fit *fit)
{
    const struct sim_steps *came = &fit->came;
    double whole = came->y[came->count - 1];
    double off = 0;
    base_assert(fit->points >= 1 && fit->points <= SIM_ARRIVAL_POINTS_MAX);
    fit->knot_count = 0;
    uint32_t end = came->count - 1;
    while (end > 0 && came->y[end - 1] >= whole) { // when the last one came
        end--;
    }
    knot_put(fit, came->x[end], whole);
    uint32_t worst = farthest(fit, &off);
    while (fit->knot_count < fit->points && off * 100 / whole > NEAR_ENOUGH) {
        double at_s = 0;
        double devices = 0;
        knot_at(fit, worst, &at_s, &devices);
        if (has_knot(fit, at_s)) {
            break;
        }
        knot_put(fit, at_s, devices);
        worst = farthest(fit, &off);
    }
    fit->arrivals_off = off * 100 / whole;
    fit->arrivals_off_s = came->x[worst];
}

// ---- Delay

struct delays {
    double s[SAMPLES];
};

// What `exchanges` answers take, one after the other, where each is delayed with this probability
// by 1 to `most_ms` ms, as network:delay has it.
static void delays_draw(const struct sim_fit *fit, uint32_t most_ms, uint32_t ppm,
                        struct delays *out)
{
    struct base_prng prng;
    base_prng_seed(&prng, SEED);
    for (uint32_t i = 0; i < SAMPLES; i++) {
        double ms = 0;
        for (uint32_t k = 0; k < fit->exchanges; k++) {
            uint64_t hit = base_prng_next(&prng);
            uint64_t part = base_prng_next(&prng);
            ms += ANSWER_MS;
            ms += (hit >> 32) * 1000000 >> 32 < ppm ? 1 + (double)(part % 1000000) * most_ms / 1e6
                                                    : 0;
        }
        out->s[i] = ms / 1e3;
    }
}

struct fitted {
    const struct sim_fit *fit;
    const struct delays *delays;
};

static double fitted_at(const void *ctx, double at_s)
{
    const struct sim_fit *fit = ((const struct fitted *)ctx)->fit;
    const struct delays *delays = ((const struct fitted *)ctx)->delays;
    const struct sim_steps *came = &fit->came;
    const struct sim_steps *ran = &fit->ran;
    double share = ran->y[ran->count - 1] / came->y[came->count - 1];
    double sum = 0;
    for (uint32_t i = 0; i < SAMPLES; i++) {
        sum += sim_steps_at(came, at_s - delays->s[i]);
    }
    return sum / SAMPLES * share;
}

// The worst of some moments of the second curve, in points of those that ran it.
static double delays_off(const struct sim_fit *fit, const struct delays *delays)
{
    const struct sim_steps *ran = &fit->ran;
    const struct fitted fitted = {fit, delays};
    double whole = ran->y[ran->count - 1];
    double worst = 0;
    uint32_t moments = ran->count < MOMENTS ? ran->count : MOMENTS;
    for (uint32_t i = 0; i < moments; i++) {
        uint32_t at = (uint32_t)((uint64_t)i * ran->count / moments);
        double off = sim_fit_off(ran, at, fitted_at, &fitted);
        worst = off > worst ? off : worst;
    }
    return worst * 100 / whole;
}

static void delay_try(struct sim_fit *fit, uint32_t ms, uint32_t ppm)
{
    struct delays delays;
    if (ms < STEP_MS || ms > DELAY_MOST || ppm < 1000 || ppm > 1000000) {
        return;
    }
    delays_draw(fit, ms, ppm, &delays);
    double off = delays_off(fit, &delays);
    if (off < fit->delay_off) {
        fit->delay_off = off;
        fit->delay_ms = ms;
        fit->delay_ppm = ppm;
    }
}

// Around the best one so far.
static void delay_closer(struct sim_fit *fit, double step)
{
    uint32_t ms = fit->delay_ms;
    uint32_t ppm = fit->delay_ppm;
    for (int i = -2; i <= 2; i++) {
        for (int k = -2; k <= 2; k++) {
            double near_ms = ms * pow(step, i);
            double near_ppm = ppm * pow(step, k);
            if (near_ppm <= 1e6 && near_ms <= DELAY_MOST) {
                delay_try(fit, (uint32_t)near_ms, (uint32_t)near_ppm / 1000 * 1000);
            }
        }
    }
}

// When the fitted curve has come to so many.
static double fitted_when(const struct sim_fit *fit, const struct delays *delays, double devices)
{
    const struct fitted fitted = {fit, delays};
    double low = 0;
    double high = fit->came.x[fit->came.count - 1] + DELAY_MOST / 1e3 * fit->exchanges;
    for (uint32_t i = 0; i < 60; i++) {
        double middle = (low + high) / 2;
        if (fitted_at(&fitted, middle) < devices) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return high;
}

static double given_when(const struct sim_steps *steps, double devices)
{
    for (uint32_t i = 0; i < steps->count; i++) {
        if (steps->y[i] >= devices) {
            return steps->x[i];
        }
    }
    return steps->x[steps->count - 1];
}

void sim_fit_delay(struct sim_fit *fit)
{
    static const uint32_t all_ms[] = {20,   50,   100,   200,   500,   1000,
                                      2000, 5000, 10000, 20000, 60000, 300000};
    static const uint32_t all_ppm[] = {20000, 50000, 100000, 200000, 400000, 700000, 1000000};
    struct delays delays;
    if (fit->ran.count == 0) {
        return;
    }
    delays_draw(fit, 0, 0, &delays);
    fit->plain_off = fit->delay_off = delays_off(fit, &delays);
    for (size_t i = 0; i < sizeof(all_ms) / sizeof(all_ms[0]); i++) {
        for (size_t k = 0; k < sizeof(all_ppm) / sizeof(all_ppm[0]); k++) {
            delay_try(fit, all_ms[i], all_ppm[k]);
        }
    }
    double step = 1.35;
    for (uint32_t i = 0; fit->delay_ms > 0 && i < CLOSER_ROUNDS; i++) {
        delay_closer(fit, step);
        step = sqrt(step);
    }
    fit->delayed = fit->delay_ms > 0 && fit->delay_off + WORTH <= fit->plain_off;
    fit->delay_off = fit->delayed ? fit->delay_off : fit->plain_off;
    delays_draw(fit, fit->delayed ? fit->delay_ms : 0, fit->delayed ? fit->delay_ppm : 0, &delays);
    for (uint32_t i = 0; i < SIM_FIT_SHARES; i++) {
        double devices = fit->ran.y[fit->ran.count - 1] * sim_fit_shares[i];
        fit->given_s[i] = given_when(&fit->ran, devices);
        fit->fitted_s[i] = fitted_when(fit, &delays, devices);
    }
}
