// HyperLogLog with one byte a register. Called by aggregate.c (the kind DISTINCT) on the stream's
// thread; pure. The estimator is Ertl's (2017, algorithm 6), whose two sums, sigma and tau, end
// when a term no longer changes them; so there are no tables of corrections and no switch to
// another estimate at small counts. Registers only grow, which makes a merge the greater of each
// two.
#include "pipeline/stream/distinct_sketch.h"

#include "base/check.h"

#include <math.h>
#include <string.h>

#define ALPHA 0.72134752044448170368 // 1 / (2 ln 2)

void dev_distinct_add(uint8_t *registers, uint32_t bits, uint64_t hash)
{
    base_assert(bits >= DEV_DISTINCT_BITS_MIN && bits <= DEV_DISTINCT_BITS_MAX);
    size_t at = (size_t)(hash >> (64 - bits));
    uint64_t rest = hash << bits;
    uint8_t rank = (uint8_t)(rest == 0 ? 65 - bits : (unsigned)__builtin_clzll(rest) + 1);
    if (rank > registers[at]) {
        registers[at] = rank;
    }
}

void dev_distinct_merge(uint8_t *registers, uint32_t bits, const uint8_t *from)
{
    for (size_t i = 0; i < dev_distinct_bytes(bits); i++) {
        registers[i] = registers[i] < from[i] ? from[i] : registers[i];
    }
}

// The part of the registers that are still zero; x < 1. Ends when a term no longer changes the sum.
static double sigma(double x)
{
    double power = 1;
    double sum = x;
    double before;
    do {
        x *= x;
        before = sum;
        sum += x * power;
        power += power;
    } while (sum != before);
    return sum;
}

// The part of the registers that are full.
static double tau(double x)
{
    if (x == 0 || x == 1) {
        return 0;
    }
    double power = 1;
    double sum = 1 - x;
    double before;
    do {
        x = sqrt(x);
        before = sum;
        power /= 2;
        sum -= (1 - x) * (1 - x) * power;
    } while (sum != before);
    return sum / 3;
}

double dev_distinct_estimate(const uint8_t *registers, uint32_t bits)
{
    base_assert(bits >= DEV_DISTINCT_BITS_MIN && bits <= DEV_DISTINCT_BITS_MAX);
    uint32_t counts[64] = {0};
    uint32_t most = 64 - bits;
    size_t size = dev_distinct_bytes(bits);
    for (size_t i = 0; i < size; i++) {
        counts[registers[i]]++;
    }
    if (counts[0] == size) {
        return 0;
    }
    double m = (double)size;
    double z = m * tau(1 - (double)(size - counts[most + 1]) / m);
    for (uint32_t k = most; k >= 1; k--) {
        z = (z + counts[k]) / 2;
    }
    z += m * sigma((double)counts[0] / m);
    return ALPHA * m * m / z;
}
