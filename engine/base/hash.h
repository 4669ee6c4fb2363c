// Fast non-cryptographic hash (xxHash XXH3, 64 bits), pinned by test vectors. Never for untrusted
// equality: content is compared by SHA-256 (device/wire/digest.h).
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t base_hash64(const void *bytes, size_t size);
uint64_t base_hash64_seed(const void *bytes, size_t size, uint64_t seed);

#endif
