// The threshold between device and cloud. Called by `walle fallback threshold`; pure, any thread.
// Counts of scored inputs lie between thresholds at first; a sum makes them those of cuts. A cut is
// shown to be good by an exact test of its counts.
#include "policy/fallback/fallback.h"

#include "policy/stat/assert.h"

#include <math.h>

// Of alpha: what bounds the gains, which are not known either (see within_shown).
#define GAIN_SHARE 0.1
// Halvings of the search for the best factor of Chernoff's bound, and the largest factor.
#define FACTOR_ROUNDS 60
#define FACTOR_MAX    30.0

static uint32_t threshold_at(size_t index)
{
    const uint32_t hundredths = 100, thousandths = 109;
    if (index == POL_CUTS - 1) {
        return POL_FALLBACK_ALWAYS;
    }
    uint32_t step = (uint32_t)index;
    return step < hundredths    ? step * 10000
           : step < thousandths ? 990000 + (step - hundredths + 1) * 1000
                                : 999000 + (step - thousandths + 1) * 100;
}

void pol_cuts_init(struct pol_cuts *out_cuts)
{
    *out_cuts = (struct pol_cuts){0};
    for (size_t i = 0; i < POL_CUTS; i++) {
        out_cuts->at[i].confidence_ppm = threshold_at(i);
        pol_assert(i == 0 || out_cuts->at[i].confidence_ppm > out_cuts->at[i - 1].confidence_ppm);
    }
}

// Between adding and summing, cut i counts what it sends and the cut below it does not: `sent` and,
// of these, what the cloud has right (`right`), what it alone has (`lost`), what the device alone
// has (`gained`).
void pol_cuts_add(struct pol_cuts *cuts, struct pol_scored scored)
{
    size_t low = 1;
    size_t high = POL_CUTS - 1;
    pol_assert(scored.confidence_ppm < POL_FALLBACK_ALWAYS);
    while (low < high) {
        size_t middle = (low + high) / 2;
        *(cuts->at[middle].confidence_ppm > scored.confidence_ppm ? &high : &low) =
            cuts->at[middle].confidence_ppm > scored.confidence_ppm ? middle : middle + 1;
    }
    cuts->total++;
    cuts->at[low].sent++;
    cuts->at[low].right += scored.cloud_right;
    cuts->at[low].lost += scored.cloud_right && !scored.device_right;
    cuts->at[low].gained += scored.device_right && !scored.cloud_right;
}

void pol_cuts_sum(struct pol_cuts *cuts)
{
    struct pol_cut all = {0};
    for (size_t i = 0; i < POL_CUTS; i++) {
        all.right += cuts->at[i].right;
        all.lost += cuts->at[i].lost;
        all.gained += cuts->at[i].gained;
    }
    uint64_t sent = 0;
    for (size_t i = 0; i < POL_CUTS; i++) { // `all`: what is not sent at this cut
        struct pol_cut *cut = &cuts->at[i];
        sent += cut->sent;
        all.lost -= cut->lost;
        all.gained -= cut->gained;
        cut->sent = sent;
        cut->lost = all.lost;
        cut->gained = all.gained;
        cut->right = all.right + all.gained - all.lost; // the cloud alone, but for those
    }
}

// ---- What is shown

// Chernoff's bound on the chance that `total` differences, 1 with chance `plus`, -1 with chance
// `minus` and else 0, come to `sum` or less: the least of exp(z sum) E[exp(-z difference)]^total.
// Its logarithm is convex in z.
static double chance_at_most(double sum, double total, double plus, double minus)
{
    double low = 0;
    double high = FACTOR_MAX;
    double best = 0;
    for (int i = 0; i < FACTOR_ROUNDS; i++) {
        double z[2] = {low + (high - low) / 3, high - (high - low) / 3};
        double bound[2];
        for (int k = 0; k < 2; k++) {
            bound[k] = z[k] * sum + total * log1p(plus * expm1(-z[k]) + minus * expm1(z[k]));
            best = bound[k] < best ? bound[k] : best;
        }
        *(bound[0] < bound[1] ? &high : &low) = bound[0] < bound[1] ? z[1] : z[0];
    }
    return exp(best);
}

// Is the cut's accuracy less than `margin` below the cloud's? Where a cut loses what the cloud has
// right and gains what it has wrong, the difference is of pairs, and few of them count. How many
// are gained is not known but bounded, at a part of alpha; the more gained, the weaker the bound.
static bool within_shown(const struct pol_cuts *cuts, const struct pol_cut *cut, double margin,
                         double alpha)
{
    double gains = pol_binomial_upper(cut->gained, cuts->total, alpha * GAIN_SHARE);
    double losses = gains + margin;
    if (losses + gains > 1) { // no such law: the most that losses can be
        gains = 1 - margin > 0 ? (1 - margin) / 2 : 0;
        losses = gains + margin;
    }
    double sum = (double)cut->lost - (double)cut->gained;
    return chance_at_most(sum, (double)cuts->total, losses, gains) <= alpha * (1 - GAIN_SHARE);
}

static bool shown(const struct pol_cuts *cuts, const struct pol_cut *cut, enum pol_aim aim,
                  double value, double alpha)
{
    return aim == POL_AIM_ACCURACY ? pol_binomial_at_least(cut->right, cuts->total, value) <= alpha
                                   : within_shown(cuts, cut, value, alpha);
}

size_t pol_cuts_choose(const struct pol_cuts *cuts, enum pol_aim aim, double value, double alpha)
{
    pol_assert(cuts->total > 0);
    pol_assert(value >= 0 && value <= 1);
    size_t chosen = POL_CUTS;
    for (size_t i = POL_CUTS; i-- > 0;) {
        const struct pol_cut *cut = &cuts->at[i];
        if (aim == POL_AIM_SHARE) {
            if ((double)cut->sent <= value * (double)cuts->total) {
                return i;
            }
        } else if (!shown(cuts, cut, aim, value, alpha)) {
            break;
        } else {
            chosen = i;
        }
    }
    return chosen;
}

struct pol_interval pol_cut_accuracy(const struct pol_cuts *cuts, size_t index, double alpha)
{
    return pol_binomial_interval(cuts->at[index].right, cuts->total, alpha / POL_CUTS);
}

struct pol_interval pol_cut_share(const struct pol_cuts *cuts, size_t index, double alpha)
{
    return pol_binomial_interval(cuts->at[index].sent, cuts->total, alpha / POL_CUTS);
}
