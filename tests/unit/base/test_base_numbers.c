// Hash vectors, the generator's known output, uniformity of draws, clocks and entropy.
#include "test_kit.h"

#include "base/clock.h"
#include "base/hash.h"

// The published sanity vectors of XXH3 (64 bits) over the reference's own test pattern: byte i is
// the top byte of 2654435761 * 11400714785074694797^i (mod 2^64).
static void hash_is_pinned(void **state)
{
    (void)state;
    static const struct {
        size_t size;
        uint64_t hash;
    } rows[] = {{0, 0x2D06800538D394C2u},   {1, 0xC44BDFF4074EECDBu},   {6, 0x27B56A84CD2D7325u},
                {12, 0xA713DAF0DFBB77E7u},  {24, 0xA3FE70BF9D3510EBu},  {48, 0x397DA259ECBA1F11u},
                {80, 0xBCDEFBBB2C47C90Au},  {195, 0xCD94217EE362EC3Au}, {403, 0xCDEB804D65C6DEA4u},
                {512, 0x617E49599013CB6Bu}, {2048, 0xDD59E2C3A5F038E0u}};
    uint8_t pattern[2048];
    uint64_t generator = 2654435761u;
    for (size_t i = 0; i < sizeof pattern; i++) {
        pattern[i] = (uint8_t)(generator >> 56);
        generator *= 11400714785074694797u;
    }
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        uint64_t hash = base_hash64(pattern, rows[i].size);
        if (hash != rows[i].hash) {
            fail_msg("size %zu: %016llx, wanted %016llx", rows[i].size, (unsigned long long)hash,
                     (unsigned long long)rows[i].hash);
        }
        assert_true(base_hash64_seed(pattern, rows[i].size, 0) == rows[i].hash);
        assert_true(base_hash64_seed(pattern, rows[i].size, 1) != rows[i].hash);
    }
}

// SplitMix64 from seed 0 gives e220a8397b1dcdaf, 6e789e6aa1b965f4, 06c45d188009454f, ... (Vigna's
// reference); they seed the state.
static void seeding_is_splitmix(void **state)
{
    (void)state;
    assert_true(base_mix64(0) == 0xe220a8397b1dcdafu);
    struct base_prng prng;
    base_prng_seed(&prng, 0);
    assert_true(prng.state[0] == 0xe220a8397b1dcdafu);
    assert_true(prng.state[1] == 0x6e789e6aa1b965f4u);
    assert_true(prng.state[2] == 0x06c45d188009454fu);
}

// From the state {1, 2, 3, 4}, worked by hand from the definition of xoshiro256**:
// rotl(2 * 5, 7) * 9 = 1280 * 9 = 11520; the state becomes {7, 0, 262146, 6 * 2^45}: so 0 comes
// next; and so on (as in other implementations' tests).
static void generator_is_xoshiro(void **state)
{
    (void)state;
    static const uint64_t wanted[] = {11520u, 0u, 1509978240u, 1215971899390074240u};
    struct base_prng prng = {{1, 2, 3, 4}};
    for (size_t i = 0; i < TEST_COUNT(wanted); i++) {
        assert_true(base_prng_next(&prng) == wanted[i]);
    }
}

static void draws_are_in_range_and_even(void **state)
{
    (void)state;
    struct base_prng prng;
    test_seed(&prng);
    unsigned counts[7] = {0};
    for (unsigned i = 0; i < 70000; i++) {
        counts[base_prng_below(&prng, 7)]++;
        double unit = base_prng_unit(&prng);
        assert_true(unit >= 0.0 && unit < 1.0);
    }
    for (unsigned i = 0; i < 7; i++) {
        assert_in_range(counts[i], 9600, 10400);
    }
    assert_true(base_prng_below(&prng, 1) == 0);
    assert_true(base_prng_below(&prng, UINT64_MAX) < UINT64_MAX);
    struct base_prng copy = prng;
    struct base_random_port port = base_prng_port(&copy);
    assert_true(port.next(port.ctx) == base_prng_next(&prng));
}

static void clocks_go_forward(void **state)
{
    (void)state;
    const struct base_clock_port *clock = base_clock_real();
    uint64_t first = clock->mono_us(clock->ctx);
    uint64_t second = base_clock_mono_us();
    assert_true(second >= first);
    assert_true(base_clock_wall_us() > 1700000000ull * 1000000);
    assert_true(clock->wall_us(clock->ctx) > 1700000000ull * 1000000);
}

static void entropy_differs(void **state)
{
    (void)state;
    uint64_t a = base_entropy_u64();
    uint64_t b = base_entropy_u64();
    assert_true(a != b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hash_is_pinned),       cmocka_unit_test(seeding_is_splitmix),
        cmocka_unit_test(generator_is_xoshiro), cmocka_unit_test(draws_are_in_range_and_even),
        cmocka_unit_test(clocks_go_forward),    cmocka_unit_test(entropy_differs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
