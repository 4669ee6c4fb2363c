// Damages a valid message in every small way and some large ones, each time in a heap copy of
// exactly its size, so that a sanitizer sees a parser look past the end.
#ifndef WIRE_DAMAGE_H
#define WIRE_DAMAGE_H

#include "test_kit.h"
#include "wire_check.h"

// Every proper prefix is refused, every single bit flip is either refused or a valid other message,
// an added byte is refused, and so are random overwrites survived.
static inline void wire_damage(struct base_prng *prng, const uint8_t *bytes, size_t size,
                               wire_check_fn check)
{
    uint8_t *whole = test_exact(bytes, size);
    assert_int_equal(check(whole, size), BASE_OK);
    free(whole);
    for (size_t cut = 0; cut < size; cut++) {
        uint8_t *prefix = test_exact(bytes, cut);
        if (check(prefix, cut) == BASE_OK) {
            fail_msg("the first %zu of %zu bytes were accepted", cut, size);
        }
        free(prefix);
    }
    for (size_t bit = 0; bit < size * 8; bit++) {
        uint8_t *flipped = test_exact(bytes, size);
        flipped[bit / 8] ^= (uint8_t)(1u << bit % 8);
        (void)check(flipped, size);
        free(flipped);
    }
    uint8_t *longer = malloc(size + 1);
    assert_non_null(longer);
    memcpy(longer, bytes, size);
    longer[size] = 0;
    assert_int_not_equal(check(longer, size + 1), BASE_OK);
    free(longer);
    for (unsigned round = 0; round < 200; round++) {
        uint8_t *mangled = test_exact(bytes, size);
        size_t from = (size_t)base_prng_below(prng, size);
        size_t span = 1 + (size_t)base_prng_below(prng, size - from);
        for (size_t i = 0; i < span && i < 9; i++) {
            mangled[from + i] = (uint8_t)base_prng_next(prng);
        }
        (void)check(mangled, size);
        free(mangled);
    }
}

#endif
