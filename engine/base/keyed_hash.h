// Keyed hash for tables that strangers fill: SipHash-1-3 (Aumasson and Bernstein), 64 bits.
//
// Who does not know the key cannot choose entries that meet in one place, however long it measures.
// The key is drawn per process; nothing that is stored, sent or compared between processes may
// depend on it: such values are base/hash.h's. The process hands its key to the tables it makes; a
// core without a source of randomness (simulations, tests) has the zero key, so that runs repeat.
#ifndef BASE_KEYED_HASH_H
#define BASE_KEYED_HASH_H

#include "base/ports.h"

#include <stddef.h>
#include <stdint.h>

// A probe of an open-addressing table that is longer is counted: with a keyed hash there is none,
// however full the tables here get (85 % at most; then one of 10^11 is).
#define BASE_PROBE_LONG 2048u

struct base_hash_key {
    uint64_t k0;
    uint64_t k1;
};

// Two draws; the zero key when `random` has no `next`.
struct base_hash_key base_hash_key_draw(const struct base_random_port *random);
uint64_t base_keyed64(const struct base_hash_key *key, const void *bytes, size_t size);

static inline uint64_t base_sip_rotate(uint64_t value, int by)
{
    return value << by | value >> (64 - by);
}

static inline void base_sip_round(uint64_t state[4])
{
    state[0] += state[1];
    state[2] += state[3];
    state[1] = base_sip_rotate(state[1], 13) ^ state[0];
    state[3] = base_sip_rotate(state[3], 16) ^ state[2];
    state[0] = base_sip_rotate(state[0], 32) + state[3];
    state[2] += state[1];
    state[3] = base_sip_rotate(state[3], 21) ^ state[0];
    state[1] = base_sip_rotate(state[1], 17) ^ state[2];
    state[2] = base_sip_rotate(state[2], 32);
}

static inline void base_sip_begin(const struct base_hash_key *key, uint64_t state[4])
{
    state[0] = key->k0 ^ 0x736f6d6570736575u;
    state[1] = key->k1 ^ 0x646f72616e646f6du;
    state[2] = key->k0 ^ 0x6c7967656e657261u;
    state[3] = key->k1 ^ 0x7465646279746573u;
}

static inline void base_sip_word(uint64_t state[4], uint64_t word)
{
    state[3] ^= word;
    base_sip_round(state);
    state[0] ^= word;
}

static inline uint64_t base_sip_end(uint64_t state[4])
{
    state[2] ^= 0xff;
    base_sip_round(state);
    base_sip_round(state);
    base_sip_round(state);
    return state[0] ^ state[1] ^ state[2] ^ state[3];
}

// base_keyed64 of the number's eight bytes, lowest first.
static inline uint64_t base_keyed64_u64(const struct base_hash_key *key, uint64_t number)
{
    uint64_t v[4];
    base_sip_begin(key, v);
    base_sip_word(v, number);
    base_sip_word(v, UINT64_C(8) << 56);
    return base_sip_end(v);
}

// ... and of two numbers' sixteen bytes.
static inline uint64_t base_keyed64_pair(const struct base_hash_key *key, uint64_t left,
                                         uint64_t right)
{
    uint64_t v[4];
    base_sip_begin(key, v);
    base_sip_word(v, left);
    base_sip_word(v, right);
    base_sip_word(v, UINT64_C(16) << 56);
    return base_sip_end(v);
}

// ---- One word for two numbers, to compare and not to place
//
// The top half of a * first + b * second modulo 2^128 under two secret numbers of 128 bits: a
// multiplication as in Dietzfelbinger, "Universal hashing and k-wise independent random variables
// via integer arithmetic without primes" (STACS 1996). Two pairs that differ have the same word
// under at most one of 2^63 keys: the difference of the sums is any number of one class modulo 2^t,
// t < 64, each as often, 2^(128 - t) of them; the top halves are the same only where it lies within
// 2^64 of 0, as at most 2^(65 - t) of them do. The word shows the key to whoever sees many: it
// leaves the process no more than the key does.

struct base_pair_key {
    unsigned __int128 a;
    unsigned __int128 b;
};

// From the tables' key.
struct base_pair_key base_pair_key_of(const struct base_hash_key *key);

static inline uint64_t base_pair_word(const struct base_pair_key *key, uint64_t first,
                                      uint64_t second)
{
    return (uint64_t)((key->a * first + key->b * second) >> 64);
}

#endif
