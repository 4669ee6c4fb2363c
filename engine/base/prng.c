// Pseudo-random numbers (xoshiro256**) and the one door to kernel entropy.
//
// A generator is a value of its owner and used by one thread. Simulations and tests seed it with a
// printed number, so that every run can be repeated; only programs and ports ask for entropy.
#include "base/prng.h"

#include "base/check.h"

#include <errno.h>
#include <sys/random.h>

static uint64_t rotate_left(uint64_t value, unsigned bits)
{
    return value << bits | value >> (64 - bits);
}

void base_prng_seed(struct base_prng *prng, uint64_t seed)
{
    // base_mix64 of a counter with SplitMix64's own step is that generator's output sequence; it
    // cannot give four zeros in a row.
    for (unsigned i = 0; i < 4; i++) {
        prng->state[i] = base_mix64(seed + i * 0x9e3779b97f4a7c15u);
    }
}

uint64_t base_prng_next(struct base_prng *prng)
{
    uint64_t *s = prng->state;
    uint64_t result = rotate_left(s[1] * 5, 7) * 9;
    uint64_t shifted = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= shifted;
    s[3] = rotate_left(s[3], 45);
    return result;
}

uint64_t base_prng_below(struct base_prng *prng, uint64_t bound)
{
    base_assert(bound > 0);
    if (bound == 0) {
        return 0;
    }
    // Multiply and keep the high half; the few products whose low half falls below 2^64 mod bound
    // are drawn again, which takes the bias out.
    uint64_t threshold = (0 - bound) % bound;
    for (;;) {
        unsigned __int128 product = (unsigned __int128)base_prng_next(prng) * bound;
        if ((uint64_t)product >= threshold) {
            return (uint64_t)(product >> 64);
        }
    }
}

double base_prng_unit(struct base_prng *prng)
{
    return (double)(base_prng_next(prng) >> 11) * 0x1p-53;
}

static uint64_t port_next(void *ctx)
{
    return base_prng_next(ctx);
}

struct base_random_port base_prng_port(struct base_prng *prng)
{
    return (struct base_random_port){.ctx = prng, .next = port_next};
}

uint64_t base_entropy_u64(void)
{
    uint64_t value = 0;
    ssize_t got;
    do {
        got = getrandom(&value, sizeof value, 0);
    } while (got < 0 && errno == EINTR);
    base_check(got == (ssize_t)sizeof value);
    return value;
}
