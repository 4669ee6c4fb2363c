// Pseudo-random numbers. The generator is a value the caller owns (xoshiro256**, Blackman and
// Vigna); seeding goes through SplitMix64. Entropy from the system exists only in base_entropy_u64
// here.
#ifndef BASE_PRNG_H
#define BASE_PRNG_H

#include "base/ports.h"

struct base_prng {
    uint64_t state[4];
};

void base_prng_seed(struct base_prng *prng, uint64_t seed);
uint64_t base_prng_next(struct base_prng *prng);
uint64_t base_prng_below(struct base_prng *prng, uint64_t bound); // 0..bound-1, unbiased; bound > 0
double base_prng_unit(struct base_prng *prng);                    // [0, 1)
// A port over `prng`, which must outlive it.
struct base_random_port base_prng_port(struct base_prng *prng);

// SplitMix64 finaliser: a cheap bijection with good avalanche, for counter-based draws.
static inline uint64_t base_mix64(uint64_t value)
{
    value += 0x9e3779b97f4a7c15u;
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
    return value ^ (value >> 31);
}

// Kernel entropy (getrandom). For programs and ports only.
uint64_t base_entropy_u64(void);

#endif
