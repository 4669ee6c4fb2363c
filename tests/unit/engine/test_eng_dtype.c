// Element types and half-precision conversions, against definitions computed another way.
#include "engine/tensor.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

// Value of a binary16 by its definition, in double.
static double half_value(uint16_t half)
{
    double sign = (half & 0x8000) != 0 ? -1 : 1;
    int exponent = (half >> 10) & 31;
    int fraction = half & 1023;
    if (exponent == 0) {
        return sign * ldexp(fraction, -24);
    }
    return sign * ldexp(1024 + fraction, exponent - 25);
}

static void f16_every_value_goes_there_and_back(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        float value = eng_f16_to_f32((uint16_t)h);
        if (((h >> 10) & 31) == 31) {
            assert_true((h & 1023) != 0 ? isnan(value) : isinf(value));
            assert_int_equal(isnan(value) ? h | 0x200 : h, eng_f16_from_f32(value));
            continue;
        }
        assert_true((double)value == half_value((uint16_t)h));
        assert_int_equal(eng_f16_from_f32(value), h);
    }
}

// Between two neighbours the nearer one is taken, and at the middle the even one.
static void f16_rounds_to_nearest_even(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 0x7bff; h++) {
        double low = half_value((uint16_t)h), high = half_value((uint16_t)(h + 1));
        float middle = (float)((low + high) / 2);
        uint16_t even = (uint16_t)((h & 1) == 0 ? h : h + 1);
        assert_int_equal(eng_f16_from_f32(middle), even);
        assert_int_equal(eng_f16_from_f32(nextafterf(middle, 0)), h);
        assert_int_equal(eng_f16_from_f32(nextafterf(middle, INFINITY)), h + 1);
        assert_int_equal(eng_f16_from_f32(-middle), even | 0x8000);
    }
    assert_int_equal(eng_f16_from_f32(65519.0f), 0x7bff);
    assert_int_equal(eng_f16_from_f32(65520.0f), 0x7c00);
    assert_int_equal(eng_f16_from_f32(1e-9f), 0);
}

static void bf16_rounds_to_nearest_even(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 0x7f7f; h++) {
        float low = eng_bf16_to_f32((uint16_t)h), high = eng_bf16_to_f32((uint16_t)(h + 1));
        assert_int_equal(eng_bf16_from_f32(low), h);
        float middle = (float)(((double)low + (double)high) / 2);
        assert_int_equal(eng_bf16_from_f32(middle), (h & 1) == 0 ? h : h + 1);
        assert_int_equal(eng_bf16_from_f32(-low), h | 0x8000);
    }
    assert_true(isnan(eng_bf16_to_f32(eng_bf16_from_f32(NAN))));
    assert_true(isinf(eng_bf16_to_f32(eng_bf16_from_f32(INFINITY))));
}

static void types_have_names_and_sizes(void **state)
{
    (void)state;
    assert_int_equal(eng_dtype_bytes(ENG_F32), 4);
    assert_int_equal(eng_dtype_bytes(ENG_BF16), 2);
    assert_int_equal(eng_dtype_bytes(ENG_C128), 16);
    assert_int_equal(eng_dtype_bytes(ENG_STRING), sizeof(struct eng_string));
    assert_int_equal(eng_dtype_bytes(ENG_UNDEFINED), 0);
    assert_int_equal(eng_dtype_bytes((enum eng_dtype)99), 0);
    assert_string_equal(eng_dtype_name(ENG_I64), "int64");
    assert_string_equal(eng_dtype_name((enum eng_dtype) - 1), "unknown");
}

static void descriptions_are_checked(void **state)
{
    (void)state;
    int64_t count = -5;
    struct eng_desc desc = {.dtype = ENG_F32, .rank = 3, .dims = {2, 3, 4}};
    assert_int_equal(eng_desc_check(&desc, &count), BASE_OK);
    assert_int_equal(count, 24);
    assert_int_equal(eng_desc_bytes(&desc), 96);
    struct eng_desc scalar = {.dtype = ENG_F32};
    assert_int_equal(eng_desc_check(&scalar, &count), BASE_OK);
    assert_int_equal(count, 1);
    struct eng_desc empty = {.dtype = ENG_F32, .rank = 2, .dims = {0, 7}};
    assert_int_equal(eng_desc_check(&empty, &count), BASE_OK);
    assert_int_equal(count, 0);
    struct eng_desc negative = {.dtype = ENG_F32, .rank = 2, .dims = {0, -1}};
    assert_int_equal(eng_desc_check(&negative, &count), BASE_ERR_INVALID);
    struct eng_desc deep = {.dtype = ENG_F32, .rank = ENG_RANK_MAX + 1};
    assert_int_equal(eng_desc_check(&deep, &count), BASE_ERR_INVALID);
    struct eng_desc huge = {.dtype = ENG_F32, .rank = 2, .dims = {INT64_MAX, INT64_MAX}};
    assert_int_equal(eng_desc_check(&huge, &count), BASE_ERR_OVERFLOW);
    struct eng_desc empty_huge = {
        .dtype = ENG_F32, .rank = 3, .dims = {0, (int64_t)1 << 40, (int64_t)1 << 40}};
    assert_int_equal(eng_desc_check(&empty_huge, &count), BASE_ERR_OVERFLOW);
    struct eng_desc most = {.dtype = ENG_U8, .rank = 1, .dims = {ENG_ELEMENTS_MAX}};
    assert_int_equal(eng_desc_check(&most, &count), BASE_OK);
    most.dims[0]++;
    assert_int_equal(eng_desc_check(&most, &count), BASE_ERR_OVERFLOW);
}

static void descriptions_compare_and_print(void **state)
{
    (void)state;
    struct eng_desc a = {.dtype = ENG_F32, .rank = 2, .dims = {2, 3, 99}};
    struct eng_desc b = {.dtype = ENG_F32, .rank = 2, .dims = {2, 3, 4}};
    assert_true(eng_desc_equal(&a, &b));
    b.dims[1] = -1;
    assert_false(eng_desc_equal(&a, &b));
    char text[64];
    assert_string_equal(eng_desc_text(&a, text, sizeof(text)), "float[2,3]");
    assert_string_equal(eng_desc_text(&b, text, sizeof(text)), "float[2,?]");
    assert_string_equal(eng_desc_text(&a, text, 8), "float[2");
    struct eng_desc scalar = {.dtype = ENG_BOOL};
    assert_string_equal(eng_desc_text(&scalar, text, sizeof(text)), "bool[]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f16_every_value_goes_there_and_back),
        cmocka_unit_test(f16_rounds_to_nearest_even),
        cmocka_unit_test(bf16_rounds_to_nearest_even),
        cmocka_unit_test(types_have_names_and_sizes),
        cmocka_unit_test(descriptions_are_checked),
        cmocka_unit_test(descriptions_compare_and_print),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
