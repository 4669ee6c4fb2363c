// Evidence between two streams of events, as e-processes. Private to policy: sequential.c, power.c.
//
// An e-process is a number that is at most 1 on average, at every stopping time, while its null
// hypothesis holds: it exceeds 1/alpha with probability at most alpha however often one looks
// (Ville). Here every e-process is a function of counts alone, exact in any proportion of updated
// to control, for devices that are counted in an order that does not depend on their outcomes: as
// they are offered, or as they complete where that takes as long with a failure as without.
//
// One kernel serves all questions about two arms. For a null rate p of the updated arm and q of
// control, and factors u, d > 0,
//     exp(f1 log u - p n1 (u - 1)) * exp(f0 log d - q n0 (d - 1))
// is a supermartingale of the counts (f failures of n) when the true rates are p and q: exactly 1
// on average for Poisson events with exposure n, below 1 for Bernoulli trials because 1 + x <= e^x.
// With q = p - rise and d <= 1 it stays below for every control rate of at least p - rise, which is
// the whole null "updated is at most control plus rise" once p is the true updated rate. The true
// rate is unknown, so the evidence is the infimum over p of a mixture of such terms. Terms are
// chosen in pairs that balance (rho (u - 1) + (1 - rho)(d - 1) = 0): where updated and control are
// in the proportion rho their sum does not depend on p at all, and nothing is lost by not knowing
// the base rate. The mixture is convex in p, so the infimum is found by a guarded Newton iteration.
#ifndef POL_EVIDENCE_H
#define POL_EVIDENCE_H

#include "policy/stat/sequential.h"

#include <stddef.h>

// Events (failures, devices fallen silent) in an exposure (devices completed, device-seconds).
struct pol_arm {
    double events;
    double exposure;
};

// Evidence is the natural logarithm of an e-value, rounded to a multiple of 2^-16 so that the last
// bits of libm do not decide, and kept within +-POL_EVIDENCE_MAX.
#define POL_EVIDENCE_MAX 700.0

// Against "the updated rate is at most control's plus `rise`". Rates are at most `rate_max` (1 for
// trials, huge for hazards); rise is in -rate_max..rate_max. Never grows with `rise`.
double pol_evidence_above(struct pol_arm updated, struct pol_arm control, double rise,
                          double rate_max);
// Against "the updated rate is at least control's plus `rise`".
double pol_evidence_below(struct pol_arm updated, struct pol_arm control, double rise,
                          double rate_max);

// One arm of trials against a limit in (0, 1): against "the rate is at most limit", and against
// "the rate is at least limit".
double pol_evidence_over(struct pol_arm arm, double limit);
double pol_evidence_under(struct pol_arm arm, double limit);
// Against "the rate is exactly `rate`", by a Beta(1/2, 1/2) mixture: what is below log(1/alpha) is
// the confidence sequence of the rate.
double pol_evidence_differs(struct pol_arm arm, double rate);

// Whether counts (fractions of a device too) show a test's limits exceeded. In sequential.c.
bool pol_evidence_shown(const struct pol_test *test, struct pol_arm updated,
                        struct pol_arm control);

// Of two e-values the weighted mean (an e-value again); logarithms in and out.
double pol_evidence_mean(double first, double second, double first_weight);
// The same of `count` of them (at least one); weights NULL: all alike.
double pol_evidence_mix(const double *logs, const double *weights, size_t count);
// The logarithm that evidence has to reach at a level; infinite at 0. In sequential.c.
double pol_evidence_bar(uint32_t level_ppm);

#endif
