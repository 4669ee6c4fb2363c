// Tails of the binomial law and exact intervals. Called by fallback.c and by what shows intervals;
// pure, any thread. An interval's ends are found by halving, since tails rise and fall with the
// rate.
#include "policy/stat/binomial.h"

#include "policy/stat/assert.h"

#include <math.h>

#define FRACTION_ROUNDS 200000 // about the root of the larger count are needed
#define FRACTION_EXACT  1e-13
#define FRACTION_TINY   1e-300
#define HALVINGS        60 // of an interval's end

// The continued fraction of the incomplete Beta function, which converges for x below
// (a + 1) / (a + b + 2).
static double fraction(double a, double b, double x)
{
    pol_assert(a >= 0);
    pol_assert(b >= 0);
    double c = 1;
    double d = 1 - (a + b) * x / (a + 1);
    d = 1 / (fabs(d) < FRACTION_TINY ? FRACTION_TINY : d);
    double value = d;
    for (int m = 1; m < FRACTION_ROUNDS; m++) {
        for (int odd = 0; odd < 2; odd++) {
            double even = a + 2 * (double)m;
            double term = odd ? -(a + m) * (a + b + m) * x / (even * (even + 1))
                              : m * (b - m) * x / ((even - 1) * even);
            d = 1 + term * d;
            d = 1 / (fabs(d) < FRACTION_TINY ? FRACTION_TINY : d);
            c = 1 + term / c;
            c = fabs(c) < FRACTION_TINY ? FRACTION_TINY : c;
            value *= c * d;
        }
        if (fabs(c * d - 1) < FRACTION_EXACT) {
            break;
        }
    }
    return value;
}

static double log_gamma(double x)
{
    int sign = 0;
    return lgamma_r(x, &sign);
}

// The regularised incomplete Beta function I_x(a, b), a and b at least 1.
static double beta(double a, double b, double x)
{
    if (x <= 0 || x >= 1) {
        return x <= 0 ? 0 : 1;
    }
    double front = exp(log_gamma(a + b) - log_gamma(a) - log_gamma(b) + a * log(x) + b * log1p(-x));
    if (x < (a + 1) / (a + b + 2)) {
        return front * fraction(a, b, x) / a;
    }
    return 1 - front * fraction(b, a, 1 - x) / b;
}

double pol_binomial_at_most(uint64_t events, uint64_t total, double rate)
{
    pol_assert(total > 0);
    pol_assert(events <= total);
    return events >= total ? 1 : beta((double)(total - events), (double)events + 1, 1 - rate);
}

double pol_binomial_at_least(uint64_t events, uint64_t total, double rate)
{
    pol_assert(total > 0);
    pol_assert(events <= total);
    return events == 0 ? 1 : beta((double)events, (double)(total - events) + 1, rate);
}

double pol_binomial_upper(uint64_t events, uint64_t total, double alpha)
{
    double low = (double)events / (double)total;
    double high = 1;
    for (int i = 0; i < HALVINGS && events < total; i++) {
        double middle = (low + high) / 2;
        *(pol_binomial_at_most(events, total, middle) > alpha ? &low : &high) = middle;
    }
    return high;
}

struct pol_interval pol_binomial_interval(uint64_t events, uint64_t total, double alpha)
{
    struct pol_interval out = {.high = pol_binomial_upper(events, total, alpha / 2)};
    double high = (double)events / (double)total;
    for (int i = 0; i < HALVINGS && events > 0; i++) {
        double middle = (out.low + high) / 2;
        *(pol_binomial_at_least(events, total, middle) > alpha / 2 ? &high : &out.low) = middle;
    }
    return out;
}
