// The project's fast hash: XXH3, 64 bits. This file is the one door to xxHash.
//
// The library is compiled in here rather than called, so that short keys cost a few nanoseconds and
// the cores that use it have no symbol outside the project. Its values are stored and sent, so they
// are pinned by test vectors. Any thread.
#include "base/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#define SHORT 16 // bytes of what is hashed most: names and ids

uint64_t base_hash64(const void *bytes, size_t size)
{
    return XXH3_64bits(bytes, size);
}

__attribute__((noinline)) static uint64_t long_seed(const void *bytes, size_t size, uint64_t seed)
{
    return XXH3_64bits_withSeed(bytes, size, seed);
}

uint64_t base_hash64_seed(const void *bytes, size_t size, uint64_t seed)
{
    if (size <=
        SHORT) { // the compiler leaves out of this one what the library does for longer ones
        return XXH3_64bits_withSeed(bytes, size, seed);
    }
    return long_seed(bytes, size, seed);
}
