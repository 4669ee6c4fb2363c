// The ports every core shares: clocks, randomness, memory. Cores take them as parameters and never
// reach for the real thing; `base/clock.h`, `base/prng.h` and `base/alloc.h` have the real ones for
// programs.
#ifndef BASE_PORTS_H
#define BASE_PORTS_H

#include <stddef.h>
#include <stdint.h>

struct base_clock_port {
    void *ctx;
    uint64_t (*mono_us)(void *ctx); // monotonic microseconds, arbitrary origin
    uint64_t (*wall_us)(void *ctx); // microseconds since the Unix epoch; may step either way
};

struct base_random_port {
    void *ctx;
    uint64_t (*next)(void *ctx); // 64 uniform bits
};

// Contract: alloc returns memory aligned for any type or NULL; release accepts NULL.
struct base_alloc_port {
    void *ctx;
    void *(*alloc)(void *ctx, size_t size_bytes);
    void (*release)(void *ctx, void *memory);
};

#endif
