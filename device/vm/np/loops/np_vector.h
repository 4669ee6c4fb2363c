// walle.np: exp, log, sin and cos as sums and products alone, so that the compiler makes loops over
// them wide. For arguments that the `_is_near` beside each takes; for all others a loop calls the C
// library. Nothing here is joined (-ffp-contract=off), so results are the same on every processor,
// and those of an element do not depend on where it lies.
//
// Each is a reduction of the argument and a Taylor series: what is left out is below 1e-17 of the
// result, what is rounded away a few units in its last place. The short ones are for results of
// float32, and leave out below 1e-9: a fiftieth of a unit in its last place.
#ifndef DEV_NP_VECTOR_H
#define DEV_NP_VECTOR_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define NP_ROUNDER 0x1.8p52 // added to a number below 2^51, its low bits are that number rounded

static inline int64_t np_bits(double value)
{
    int64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static inline double np_real(int64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

static inline bool np_exp_is_near(double value)
{
    return fabs(value) < 700; // neither end of the range of exponents
}

// value = n ln 2 + r, |r| <= ln 2 / 2. The first part of ln 2 has zeros enough that n times it is
// exact.
static inline double np_exp_of(double value, bool is_short)
{
    const double shifted = value * 1.4426950408889634 + NP_ROUNDER;
    const double n = shifted - NP_ROUNDER;
    const double r = (value - n * 0x1.62e42fefa3800p-1) - n * 0x1.ef35793c76730p-45;
    double p = 1.0 / 362880;
    if (!is_short) {
        p = 1.0 / 6227020800;
        p = p * r + 1.0 / 479001600;
        p = p * r + 1.0 / 39916800;
        p = p * r + 1.0 / 3628800;
        p = p * r + 1.0 / 362880;
    }
    p = p * r + 1.0 / 40320;
    p = p * r + 1.0 / 5040;
    p = p * r + 1.0 / 720;
    p = p * r + 1.0 / 120;
    p = p * r + 1.0 / 24;
    p = p * r + 1.0 / 6;
    p = p * r + 0.5;
    p = r + r * r * p;
    const uint64_t power = (uint64_t)np_bits(shifted) - (uint64_t)np_bits(NP_ROUNDER);
    return (p + 1) * np_real((int64_t)((power + 1023) << 52));
}

static inline double np_exp(double value)
{
    return np_exp_of(value, false);
}

static inline double np_exp_short(double value)
{
    return np_exp_of(value, true);
}

static inline bool np_log_is_near(double value)
{
    return value >= 0x1p-1022 && value < (double)INFINITY;
}

// value = 2^n m, m in [sqrt 1/2, sqrt 2): log m = 2 atanh f, f = (m - 1) / (m + 1).
static inline double np_log_of(double value, bool is_short)
{
    const uint64_t half = 0x3fe6a09e667f3bcd; // sqrt 1/2
    const uint64_t bits = (uint64_t)np_bits(value);
    const int64_t power = (int64_t)((bits - half + ((uint64_t)1023 << 52)) >> 52) - 1023;
    const double m = np_real((int64_t)(bits - ((uint64_t)power << 52)));
    const double n = np_real(power + np_bits(NP_ROUNDER)) - NP_ROUNDER;
    const double f = (m - 1) / (m + 1);
    const double s = f * f;
    double p = 1.0 / 13;
    if (!is_short) {
        p = 1.0 / 21;
        p = p * s + 1.0 / 19;
        p = p * s + 1.0 / 17;
        p = p * s + 1.0 / 15;
        p = p * s + 1.0 / 13;
    }
    p = p * s + 1.0 / 11;
    p = p * s + 1.0 / 9;
    p = p * s + 1.0 / 7;
    p = p * s + 1.0 / 5;
    p = p * s + 1.0 / 3;
    p = 2 * f + 2 * f * s * p;
    return n * 0x1.62e42fefa3800p-1 + (n * 0x1.ef35793c76730p-45 + p);
}

static inline double np_log(double value)
{
    return np_log_of(value, false);
}

static inline double np_log_short(double value)
{
    return np_log_of(value, true);
}

static inline bool np_turn_is_near(double value)
{
    return fabs(value) < 100000; // so that products with the first parts of pi / 2 are exact
}

// The sine of value + turns pi / 2. value = n pi / 2 + r, |r| <= pi / 4.
static inline double np_turned_of(double value, int64_t turns, bool is_short)
{
    const double shifted = value * 0.63661977236758134 + NP_ROUNDER;
    const double n = shifted - NP_ROUNDER;
    const double r = ((value - n * 0x1.921fb54400000p+0) - n * 0x1.0b4611a600000p-34) -
                     n * 0x1.3198a2e037073p-69;
    const double s = r * r;
    double sine = 1.0 / 6227020800;
    if (!is_short) {
        sine = 1.0 / 355687428096000;
        sine = sine * s - 1.0 / 1307674368000;
        sine = sine * s + 1.0 / 6227020800;
    }
    sine = sine * s - 1.0 / 39916800;
    sine = sine * s + 1.0 / 362880;
    sine = sine * s - 1.0 / 5040;
    sine = sine * s + 1.0 / 120;
    sine = sine * s - 1.0 / 6;
    sine = r * (1 + s * sine); // of -0 it is -0
    double cosine = 1.0 / 479001600;
    if (!is_short) {
        cosine = 1.0 / 20922789888000;
        cosine = cosine * s - 1.0 / 87178291200;
        cosine = cosine * s + 1.0 / 479001600;
    }
    cosine = cosine * s - 1.0 / 3628800;
    cosine = cosine * s + 1.0 / 40320;
    cosine = cosine * s - 1.0 / 720;
    cosine = cosine * s + 1.0 / 24;
    cosine = (1 - 0.5 * s) + s * s * cosine;
    const int64_t quarter = (int64_t)((uint64_t)np_bits(shifted) + (uint64_t)turns);
    const int64_t is_cosine = -(quarter & 1);
    const int64_t made = (np_bits(cosine) & is_cosine) | (np_bits(sine) & ~is_cosine);
    return np_real(made ^ (int64_t)((uint64_t)(quarter & 2) << 62));
}

static inline double np_turned(double value, int64_t turns)
{
    return np_turned_of(value, turns, false);
}

static inline double np_turned_short(double value, int64_t turns)
{
    return np_turned_of(value, turns, true);
}

static inline bool np_tanh_is_near(double value)
{
    return fabs(value) < 20 && fabs(value) > 1e-4; // below, what is subtracted is too close
}

// Of float32 alone: near 0 the last digits of float64 are lost.
static inline double np_tanh(double value)
{
    const double e = np_exp_short(2 * value);
    return (e - 1) / (e + 1);
}

#endif
