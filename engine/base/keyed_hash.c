// SipHash-1-3 of bytes, for tables that strangers fill: the gateway's tables of peers, actors,
// cohorts and devices (gateway/http, gateway/svc) ask it at every look-up, on any thread; no state.
// Written from the paper (Aumasson and Bernstein, 2012); the reference's 64 test vectors pin it.
// Short keys of one or two numbers are in the header, inlined where tables look up. The key is
// drawn once per process (gateway_main.c) and handed on; nothing stored may depend on it.
#include "base/keyed_hash.h"

#include "base/check.h"

#include <stdbool.h>
#include <string.h>

struct base_hash_key base_hash_key_draw(const struct base_random_port *random)
{
    struct base_hash_key key = {0, 0};
    if (random != NULL && random->next != NULL) {
        key.k0 = random->next(random->ctx);
        key.k1 = random->next(random->ctx);
    }
    return key;
}

static uint64_t read_word(const uint8_t *bytes)
{
    uint64_t word;
    memcpy(&word, bytes, sizeof(word));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    return word;
}

// The last `size` bytes, less than a word; `before`: there are as many before them as fill it up.
static uint64_t read_rest(const uint8_t *bytes, size_t size, bool before)
{
    uint64_t word = 0;
    base_assert(size < sizeof(word));
    if (size > 0 && before) {
        return read_word(bytes + size - sizeof(word)) >> (8 * (sizeof(word) - size));
    }
    for (size_t i = 0; i < size; i++) {
        word |= (uint64_t)bytes[i] << (8 * i);
    }
    return word;
}

uint64_t base_keyed64(const struct base_hash_key *key, const void *bytes, size_t size)
{
    const uint8_t *at = bytes;
    uint64_t v[4];
    base_sip_begin(key, v);
    size_t left = size;
    for (; left >= 8; left -= 8, at += 8) {
        base_sip_word(v, read_word(at));
    }
    base_sip_word(v, read_rest(at, left, size >= 8) | (uint64_t)(size & 0xff) << 56);
    return base_sip_end(v);
}

struct base_pair_key base_pair_key_of(const struct base_hash_key *key)
{
    uint64_t words[4];
    for (uint64_t i = 0; i < 4; i++) {
        words[i] = base_keyed64_u64(key, i);
    }
    return (struct base_pair_key){.a = (unsigned __int128)words[0] << 64 | words[1],
                                  .b = (unsigned __int128)words[2] << 64 | words[3]};
}
