// Blocks carved into arrays: counting and handing out agree, arrays lie apart and aligned, and what
// does not fit is refused for good.
#include "test_kit.h"

#include "base/carve.h"

static void sizes_are_rounded_up(void **state)
{
    (void)state;
    static const struct {
        size_t size, alignment, want;
    } cases[] = {{0, 8, 0},     {1, 8, 8},    {8, 8, 8},
                 {9, 8, 16},    {15, 16, 16}, {17, 16, 32},
                 {65, 64, 128}, {5, 1, 5},    {SIZE_MAX - 64, 64, SIZE_MAX - 63}};
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        size_t got = base_aligned(cases[i].size, cases[i].alignment);
        if (got != cases[i].want) {
            fail_msg("case %zu: %zu, not %zu", i, got, cases[i].want);
        }
    }
}

struct arrays {
    uint8_t *bytes;
    uint64_t *words;
    uint16_t *none;
    uint32_t *last;
};

static void lay_out(struct arrays *arrays, struct base_carver *carver)
{
    arrays->bytes = base_carve(carver, 3, 1);
    arrays->words = base_carve(carver, 5, sizeof(uint64_t));
    arrays->none = base_carve(carver, 0, sizeof(uint16_t));
    arrays->last = base_carve(carver, 1, sizeof(uint32_t));
}

static void what_is_counted_is_handed_out(void **state)
{
    (void)state;
    struct arrays arrays;
    struct base_carver carver = {.capacity = SIZE_MAX, .alignment = 16};
    lay_out(&arrays, &carver);
    assert_null(arrays.bytes);
    assert_null(arrays.last);
    assert_false(carver.full);
    assert_int_equal(carver.used, 16 + 48 + 16);
    static _Alignas(16) uint8_t block[80];
    carver = (struct base_carver){.block = block, .capacity = sizeof(block), .alignment = 16};
    lay_out(&arrays, &carver);
    assert_ptr_equal(arrays.bytes, block);
    assert_ptr_equal(arrays.words, block + 16);
    assert_ptr_equal(arrays.none, block + 64);
    assert_ptr_equal(arrays.last, block + 64);
    assert_int_equal(carver.used, sizeof(block));
    assert_false(carver.full);
}

static void what_does_not_fit_is_refused(void **state)
{
    (void)state;
    static _Alignas(8) uint8_t block[24];
    struct base_carver carver = {.block = block, .capacity = sizeof(block), .alignment = 8};
    assert_ptr_equal(base_carve(&carver, 2, 8), block);
    assert_null(base_carve(&carver, 9, 1)); // 16 with what it is rounded up to
    assert_true(carver.full);
    assert_null(base_carve(&carver, 1, 8)); // it would fit, but something before it did not
    assert_int_equal(carver.used, 16);
    static const struct {
        size_t count, size;
    } absurd[] = {{SIZE_MAX, 2}, {SIZE_MAX / 2 + 1, 2}, {1, SIZE_MAX}, {1, SIZE_MAX - 6}};
    for (size_t i = 0; i < TEST_COUNT(absurd); i++) {
        carver = (struct base_carver){.capacity = SIZE_MAX, .alignment = 8};
        assert_null(base_carve(&carver, absurd[i].count, absurd[i].size));
        assert_true(carver.full);
        assert_int_equal(carver.used, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_rounded_up),
        cmocka_unit_test(what_is_counted_is_handed_out),
        cmocka_unit_test(what_does_not_fit_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
