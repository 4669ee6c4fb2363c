// The binomial law: how likely it is to see so few, and the interval of a rate that was counted.
//
// Exact (Clopper and Pearson, "The use of confidence or fiducial limits", Biometrika 1934): the
// interval holds at its level whatever the rate and however few were counted. Tails are those of
// the Beta distribution, by the continued fraction of Lentz and Thompson.
#ifndef POL_BINOMIAL_H
#define POL_BINOMIAL_H

#include <stdint.h>

// Chance of `events` or fewer of `total` when each happens with `rate`, 0 to 1.
// total > 0, events <= total.
double pol_binomial_at_most(uint64_t events, uint64_t total, double rate);
// Chance of `events` or more.
double pol_binomial_at_least(uint64_t events, uint64_t total, double rate);

struct pol_interval {
    double low;
    double high;
};

// Two-sided interval of the rate, wrong with a chance of at most `alpha`, in (0, 1), half of it on
// either side.
struct pol_interval pol_binomial_interval(uint64_t events, uint64_t total, double alpha);
// The highest rate, wrong with a chance of at most `alpha`.
double pol_binomial_upper(uint64_t events, uint64_t total, double alpha);

#endif
