// The keyed hash is SipHash-1-3: the reference's vectors, whose message n is the bytes 0 .. n - 1
// under the key 00 .. 0f; the short forms say the same; another key says something else.
// The word of a pair is checked against a slow product, and for pairs that somebody would choose.
#include "base/keyed_hash.h"
#include "base/prng.h"

#include "test_kit.h"

#include <stdlib.h>

static const struct base_hash_key reference = {0x0706050403020100u, 0x0f0e0d0c0b0a0908u};

static const uint64_t vectors[64] = {
    0xabac0158050fc4dc, 0xc9f49bf37d57ca93, 0x82cb9b024dc7d44d, 0x8bf80ab8e7ddf7fb,
    0xcf75576088d38328, 0xdef9d52f49533b67, 0xc50d2b50c59f22a7, 0xd3927d989bb11140,
    0x369095118d299a8e, 0x25a48eb36c063de4, 0x79de85ee92ff097f, 0x70c118c1f94dc352,
    0x78a384b157b4d9a2, 0x306f760c1229ffa7, 0x605aa111c0f95d34, 0xd320d86d2a519956,
    0xcc4fdd1a7d908b66, 0x9cf2689063dbd80c, 0x8ffc389cb473e63e, 0xf21f9de58d297d1c,
    0xc0dc2f46a6cce040, 0xb992abfe2b45f844, 0x7ffe7b9ba320872e, 0x525a0e7fdae6c123,
    0xf464aeb267349c8c, 0x45cd5928705b0979, 0x3a3e35e3ca9913a5, 0xa91dc74e4ade3b35,
    0xfb0bed02ef6cd00d, 0x88d93cb44ab1e1f4, 0x540f11d643c5e663, 0x2370dd1f8c21d1bc,
    0x81157b6c16a7b60d, 0x4d54b9e57a8ff9bf, 0x759f12781f2a753e, 0xcea1a3bebf186b91,
    0x2cf508d3ada26206, 0xb6101c2da3c33057, 0xb3f47496ae3a36a1, 0x626b57547b108392,
    0xc1d2363299e41531, 0x667cc1923f1ad944, 0x65704ffec8138825, 0x24f280d1c28949a6,
    0xc2ca1cedfaf8876b, 0xc2164bfc9f042196, 0xa16e9c9368b1d623, 0x49fb169c8b5114fd,
    0x9f3143f8df074c46, 0xc6fdaf2412cc86b3, 0x7eaf49d10a52098f, 0x1cf313559d292f9a,
    0xc44a30dda2f41f12, 0x36fae98943a71ed0, 0x318fb34c73f0bce6, 0xa27abf3670a7e980,
    0xb4bcc0db243c6d75, 0x23f8d852fdb71513, 0x8f035f4da67d8a08, 0xd89cd0e5b7e8f148,
    0xf6f4e6bcf7a644ee, 0xaec59ad80f1837f2, 0xc3b2f6154b6694e0, 0x9d199062b7bbb3a8,
};

static void test_reference_vectors(void **state)
{
    (void)state;
    uint8_t message[64 + 5];
    for (uint32_t from = 0; from <= 5; from += 5) { // at any address
        for (uint32_t i = 0; i < 64; i++) {
            message[from + i] = (uint8_t)i;
        }
        for (uint32_t size = 0; size < 64; size++) {
            assert_int_equal(base_keyed64(&reference, message + from, size), vectors[size]);
        }
    }
}

static void test_short_forms(void **state)
{
    (void)state;
    assert_int_equal(base_keyed64_u64(&reference, 0x0706050403020100u), vectors[8]);
    assert_int_equal(base_keyed64_pair(&reference, 0x0706050403020100u, 0x0f0e0d0c0b0a0908u),
                     vectors[16]);
}

static void test_key_decides(void **state)
{
    (void)state;
    struct base_prng prng;
    base_prng_seed(&prng, 7);
    struct base_random_port port = base_prng_port(&prng);
    struct base_hash_key a = base_hash_key_draw(&port);
    struct base_hash_key b = base_hash_key_draw(&port);
    assert_true(a.k0 != 0 && a.k1 != 0 && (a.k0 != b.k0 || a.k1 != b.k1));
    assert_true(base_keyed64_u64(&a, 1) != base_keyed64_u64(&b, 1));
    struct base_hash_key c = a;
    c.k1 ^= 1;
    assert_true(base_keyed64_u64(&a, 1) != base_keyed64_u64(&c, 1));
    struct base_random_port none = {0};
    struct base_hash_key zero = base_hash_key_draw(&none);
    assert_true(zero.k0 == 0 && zero.k1 == 0);
}

// ---- The word of a pair

#define KEYS  8u
#define PAIRS 4096u // of a family

struct pair {
    uint64_t first;
    uint64_t second;
};

// Adds a * number modulo 2^128, by hand: a bit of the number at a time, lowest word first.
static void add_product(uint64_t sum[2], unsigned __int128 a, uint64_t number)
{
    for (unsigned shift = 0; shift < 64; shift++) {
        if ((number >> shift & 1) == 0) {
            continue;
        }
        uint64_t low = (uint64_t)a << shift;
        uint64_t high = (uint64_t)(a >> 64) << shift;
        high |= shift > 0 ? (uint64_t)a >> (64 - shift) : 0;
        sum[0] += low;
        sum[1] += high + (sum[0] < low ? 1 : 0);
    }
}

static uint64_t slow_word(const struct base_pair_key *key, struct pair pair)
{
    uint64_t sum[2] = {0, 0};
    add_product(sum, key->a, pair.first);
    add_product(sum, key->b, pair.second);
    return sum[1];
}

// What somebody would choose who looks for two pairs that share a word: i is below PAIRS.
static struct pair chosen(uint32_t family, uint32_t i)
{
    uint64_t n = i;
    switch (family) {
    case 0:
        return (struct pair){n, 0};
    case 1:
        return (struct pair){0, n};
    case 2: // the top bits alone
        return (struct pair){n << 52, 7};
    case 3:
        return (struct pair){7, n << 52};
    case 4: // one sum
        return (struct pair){n, UINT64_MAX - n};
    case 5: // one difference
        return (struct pair){n, n + 1000};
    case 6: // one exclusive or
        return (struct pair){n, n ^ UINT64_C(0x9e3779b97f4a7c15)};
    case 7: // small ones, and the two swapped
        return (struct pair){n / 64, n % 64};
    case 8: // one bit each
        return (struct pair){UINT64_C(1) << n / 64, UINT64_C(1) << n % 64};
    default: // runs of ones
        return (struct pair){UINT64_MAX << n / 64, UINT64_MAX >> n % 64};
    }
}
#define FAMILIES 10u

static int compare_words(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

// The fast form is the slow one's, and no two pairs of a family share a word, under any of the
// keys.
static void test_pairs(void **state)
{
    (void)state;
    static uint64_t words[PAIRS];
    struct base_prng prng;
    base_prng_seed(&prng, 11);
    struct base_random_port port = base_prng_port(&prng);
    for (uint32_t k = 0; k < KEYS; k++) {
        struct base_hash_key drawn = base_hash_key_draw(k == 0 ? NULL : &port);
        struct base_pair_key key = base_pair_key_of(&drawn);
        for (uint32_t family = 0; family < FAMILIES; family++) {
            for (uint32_t i = 0; i < PAIRS; i++) {
                struct pair pair = chosen(family, i);
                words[i] = base_pair_word(&key, pair.first, pair.second);
                assert_int_equal(words[i], slow_word(&key, pair));
            }
            qsort(words, PAIRS, sizeof(words[0]), compare_words);
            for (uint32_t i = 1; i < PAIRS; i++) {
                assert_true(words[i - 1] < words[i]);
            }
        }
    }
}

static void test_pair_keys(void **state)
{
    (void)state;
    const struct base_hash_key zero = {0, 0};
    struct base_pair_key a = base_pair_key_of(&zero);
    struct base_pair_key b = base_pair_key_of(&reference);
    assert_true(a.a != a.b && b.a != b.b && a.a != b.a && a.b != b.b);
    assert_true(a.a >> 64 != 0 && a.b >> 64 != 0 && (uint64_t)a.a != 0 && (uint64_t)a.b != 0);
    assert_true(base_pair_word(&a, 1, 2) != base_pair_word(&b, 1, 2));
    assert_true(base_pair_word(&b, 1, 2) != base_pair_word(&b, 2, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference_vectors), cmocka_unit_test(test_short_forms),
        cmocka_unit_test(test_key_decides),       cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_pair_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
