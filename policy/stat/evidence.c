// The e-processes behind the sequential tests: mixtures over alternatives, minimised over the null.
//
// Called by sequential.c and power.c for every tick of an open rollout, by replay and by the
// simulator. Pure: counts in, a logarithm out. See evidence.h for the mathematics.
#include "policy/stat/evidence.h"

#include "policy/stat/assert.h"

#include <math.h>

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

// Rounds of the search for the least favourable base rate; about eight are used.
#define SEARCH_ROUNDS_MAX 64
#define SEARCH_PRECISION  1e-7

// ---- The mixture ----

// Ratios of the rates of the two arms that the mixture looks for. Neighbours overlap: between 1.1
// and several hundred every ratio is near enough to one.
static const struct {
    double ratio;
    double weight;
} rises[] = {{1.2, 0.5}, {1.6, 0.7}, {2.5, 1}, {5, 1}, {12, 1}, {50, 1}};
// Shares of updated among all completed devices that the terms are balanced for: control as large
// as the stage, four times as large, and far ahead, as at the beginning.
static const struct {
    double share;
    double weight;
} balances[] = {{0.5, 1}, {0.2, 2}, {0.05, 1}};
// Both arms shifted together: they carry no evidence of a rise, but exclude null rates that are far
// from what both arms show.
static const double levels[] = {0.2, 0.5, 0.75, 0.9};
static const double ups[] = {1.2, 1.5, 2, 4};
#define LEVEL_WEIGHT 0.08

#define TERMS_MAX (LENGTH(rises) * LENGTH(balances) + LENGTH(levels) + LENGTH(ups))

struct term {
    double constant; // log weight + f1 log u + f0 log d + what `rise` contributes
    double slope;    // of the exponent in p
};

struct mixture {
    struct term terms[TERMS_MAX];
    size_t count;
    double weight; // sum of weights so far
};

struct question {
    struct pol_arm updated;
    struct pol_arm control;
    double rise;
};

static void add_term(struct mixture *mixture, const struct question *asked, double u, double d,
                     double weight)
{
    double updated_push = asked->updated.exposure * (u - 1);
    double control_push = asked->control.exposure * (d - 1);
    struct term *term = &mixture->terms[mixture->count++];
    term->constant = log(weight) + asked->updated.events * log(u) + asked->control.events * log(d) +
                     asked->rise * control_push;
    term->slope = -(updated_push + control_push);
    mixture->weight += weight;
}

// Alternatives with a higher updated rate (d <= 1 throughout).
static void build_above(struct mixture *mixture, const struct question *asked)
{
    for (size_t b = 0; b < LENGTH(balances); b++) {
        double share = balances[b].share;
        for (size_t r = 0; r < LENGTH(rises); r++) {
            double d = 1 / (1 + share * (rises[r].ratio - 1));
            add_term(mixture, asked, rises[r].ratio * d, d, balances[b].weight * rises[r].weight);
        }
    }
    for (size_t i = 0; i < LENGTH(levels); i++) {
        add_term(mixture, asked, levels[i], levels[i], LEVEL_WEIGHT);
    }
    for (size_t i = 0; i < LENGTH(ups); i++) {
        add_term(mixture, asked, ups[i], 1, LEVEL_WEIGHT);
    }
}

// Alternatives with a lower updated rate (d >= 1 throughout).
static void build_below(struct mixture *mixture, const struct question *asked)
{
    for (size_t b = 0; b < LENGTH(balances); b++) {
        double share = balances[b].share;
        for (size_t r = 0; r < LENGTH(rises); r++) {
            double u = 1 / (share + (1 - share) * rises[r].ratio);
            add_term(mixture, asked, u, rises[r].ratio * u, balances[b].weight * rises[r].weight);
        }
    }
    for (size_t i = 0; i < LENGTH(levels); i++) {
        add_term(mixture, asked, levels[i], 1, LEVEL_WEIGHT);
    }
    for (size_t i = 0; i < LENGTH(ups); i++) {
        add_term(mixture, asked, ups[i], ups[i], LEVEL_WEIGHT);
    }
}

struct point {
    double value; // log of the mixture at p
    double slope;
    double curve; // second derivative, >= 0
};

static struct point mixture_at(const struct mixture *mixture, double p)
{
    pol_assert(mixture->count > 0);
    pol_assert(mixture->count <= TERMS_MAX);
    double largest = -HUGE_VAL;
    double exponents[TERMS_MAX];
    for (size_t i = 0; i < mixture->count; i++) {
        exponents[i] = mixture->terms[i].constant + p * mixture->terms[i].slope;
        largest = exponents[i] > largest ? exponents[i] : largest;
    }
    double sum = 0;
    double first = 0;
    double second = 0;
    for (size_t i = 0; i < mixture->count; i++) {
        double share = exp(exponents[i] - largest);
        double slope = mixture->terms[i].slope;
        sum += share;
        first += share * slope;
        second += share * slope * slope;
    }
    double mean = first / sum;
    double curve = second / sum - mean * mean;
    return (struct point){.value = largest + log(sum / mixture->weight),
                          .slope = mean,
                          .curve = curve > 0 ? curve : 0};
}

// The least value of the convex mixture over p in low..high, from `start`.
static double minimum(const struct mixture *mixture, double low, double high, double start)
{
    pol_assert(low <= high);
    double p = start < low ? low : start > high ? high : start;
    struct point at = mixture_at(mixture, p);
    double least = at.value;
    for (int round = 0; round < SEARCH_ROUNDS_MAX && at.slope != 0; round++) {
        if (at.slope > 0) {
            high = p;
        } else {
            low = p;
        }
        double next = at.curve > 0 ? p - at.slope / at.curve : low - 1;
        if (next <= low || next >= high) {
            next = low + (high - low) / 2;
        }
        double step = next > p ? next - p : p - next;
        p = next;
        at = mixture_at(mixture, p);
        least = at.value < least ? at.value : least;
        if (step * (at.slope < 0 ? -at.slope : at.slope) < SEARCH_PRECISION) {
            break;
        }
    }
    return least;
}

// ---- Rounding ----

static double settle(double evidence)
{
    if (!(evidence > -POL_EVIDENCE_MAX)) {
        return -POL_EVIDENCE_MAX;
    }
    if (evidence >= POL_EVIDENCE_MAX) {
        return POL_EVIDENCE_MAX;
    }
    double scaled = evidence * 65536;
    return (double)(int64_t)(scaled + (scaled < 0 ? -0.5 : 0.5)) / 65536;
}

double pol_evidence_mix(const double *logs, const double *weights, size_t count)
{
    double largest = -HUGE_VAL;
    for (size_t i = 0; i < count; i++) {
        largest = logs[i] > largest ? logs[i] : largest;
    }
    double sum = 0;
    double weight = 0;
    for (size_t i = 0; i < count; i++) {
        double part = weights != NULL ? weights[i] : 1;
        sum += part * exp(logs[i] - largest);
        weight += part;
    }
    return settle(largest + log(sum / weight));
}

double pol_evidence_mean(double first, double second, double first_weight)
{
    double a = first + log(first_weight);
    double b = second + log(1 - first_weight);
    double large = a > b ? a : b;
    double small = a > b ? b : a;
    return settle(large + log(1 + exp(small - large)));
}

// ---- Two arms ----

// A guess of the updated rate under the null: both arms pooled, control lifted by `rise`.
static double pooled(const struct question *asked)
{
    double exposure = asked->updated.exposure + asked->control.exposure;
    if (exposure <= 0) {
        return 0;
    }
    double lifted = asked->control.events + asked->rise * asked->control.exposure;
    return (asked->updated.events + lifted) / exposure;
}

// The search runs over the updated rate p; control's is p - rise. Where rise is not zero the
// supermartingale holds for p beyond control's natural range too, so the ends need no care.
double pol_evidence_above(struct pol_arm updated, struct pol_arm control, double rise,
                          double rate_max)
{
    struct question asked = {.updated = updated, .control = control, .rise = rise};
    struct mixture mixture = {.count = 0};
    build_above(&mixture, &asked);
    return settle(minimum(&mixture, 0, rate_max, pooled(&asked)));
}

double pol_evidence_below(struct pol_arm updated, struct pol_arm control, double rise,
                          double rate_max)
{
    struct question asked = {.updated = updated, .control = control, .rise = rise};
    struct mixture mixture = {.count = 0};
    build_below(&mixture, &asked);
    double low = rise > 0 ? rise : 0;
    return settle(minimum(&mixture, low, rate_max, pooled(&asked)));
}

// ---- One arm ----

// Ratios of the odds that one arm is compared with.
static const double ratios[] = {1.1, 1.25, 1.5, 2, 3, 5, 9, 20, 60, 200};

// Mean likelihood ratio of the odds multiplied by 1/ratio or ratio, against `limit`. Each ratio is
// a supermartingale on its side of the limit.
static double against_limit(struct pol_arm arm, double limit, int upwards)
{
    double exponents[LENGTH(ratios)];
    for (size_t i = 0; i < LENGTH(ratios); i++) {
        double ratio = upwards ? ratios[i] : 1 / ratios[i];
        double scale = 1 / (1 - limit + ratio * limit);
        exponents[i] = arm.events * log(ratio * scale) + (arm.exposure - arm.events) * log(scale);
    }
    return pol_evidence_mix(exponents, NULL, LENGTH(ratios));
}

double pol_evidence_over(struct pol_arm arm, double limit)
{
    return against_limit(arm, limit, 1);
}

double pol_evidence_under(struct pol_arm arm, double limit)
{
    return against_limit(arm, limit, 0);
}

// log Gamma for x > 0 by Stirling's series, after shifting small arguments up; about 1e-14.
static double log_gamma(double x)
{
    double shift = 0;
    while (x < 16) {
        shift -= log(x);
        x += 1;
    }
    double inverse = 1 / x;
    double square = inverse * inverse;
    double series =
        inverse * (1.0 / 12 - square * (1.0 / 360 - square * (1.0 / 1260 - square / 1680)));
    return shift + (x - 0.5) * log(x) - x + 0.91893853320467274178 + series;
}

double pol_evidence_differs(struct pol_arm arm, double rate)
{
    double passed = arm.exposure - arm.events;
    if ((rate <= 0 && arm.events > 0) || (rate >= 1 && passed > 0)) {
        return POL_EVIDENCE_MAX;
    }
    double mixed = log_gamma(arm.events + 0.5) + log_gamma(passed + 0.5) -
                   log_gamma(arm.exposure + 1) - 1.14472988584940017414; // log B(1/2, 1/2) = log pi
    double fixed =
        (arm.events > 0 ? arm.events * log(rate) : 0) + (passed > 0 ? passed * log(1 - rate) : 0);
    return settle(mixed - fixed);
}
