// Does a shadow's answer agree with what the caller got? Every type, tolerances at their ends, the
// places of the largest, and what is not a number.
#include "test_kit.h"

#include "infer/split/infer_agree.h"

#include <math.h>

static struct eng_array array_of(enum eng_dtype dtype, int64_t rows, int64_t columns, void *data)
{
    return (struct eng_array){{dtype, 2, {rows, columns}}, data};
}

static bool floats_agree(const struct gw_infer_agree *rule, float one, float other)
{
    const struct eng_array left = array_of(ENG_F32, 1, 1, &one);
    const struct eng_array right = array_of(ENG_F32, 1, 1, &other);
    return gw_infer_agrees(rule, &left, &right);
}

static void test_tolerances(void **state)
{
    const struct gw_infer_agree exact = {0};
    const struct gw_infer_agree absolute = {.absolute = 0.5};
    const struct gw_infer_agree relative = {.relative = 0.25};
    (void)state;
    assert_true(floats_agree(&exact, 1, 1));
    assert_false(floats_agree(&exact, 1, nextafterf(1, 2)));
    assert_true(floats_agree(&exact, 0.0F, -0.0F));
    assert_true(floats_agree(&absolute, 1, 1.5F));
    assert_false(floats_agree(&absolute, 1, 1.5625F));
    assert_true(floats_agree(&relative, 3, 4));
    assert_true(floats_agree(&relative, -4, -3));
    assert_false(floats_agree(&relative, 3, 4.03125F));
    assert_false(floats_agree(&relative, 1, -1));
}

static void test_no_numbers(void **state)
{
    const struct gw_infer_agree wide = {.absolute = 1e30, .relative = 1};
    (void)state;
    assert_true(floats_agree(&wide, NAN, NAN));
    assert_false(floats_agree(&wide, NAN, 0));
    assert_false(floats_agree(&wide, 0, NAN));
    assert_true(floats_agree(&wide, INFINITY, INFINITY));
    assert_false(floats_agree(&wide, INFINITY, -INFINITY));
    assert_false(floats_agree(&wide, INFINITY, 1e30F));
}

// Each type: the same agrees; one element that is another does not, and does within a tolerance
// where it is a number.
static void test_types(void **state)
{
    static const enum eng_dtype types[] = {ENG_F32, ENG_U8,  ENG_I8,  ENG_U16, ENG_I16, ENG_I32,
                                           ENG_I64, ENG_F16, ENG_F64, ENG_U32, ENG_U64, ENG_BF16};
    const struct gw_infer_agree exact = {0};
    const struct gw_infer_agree wide = {.absolute = 1e300};
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(types); i++) {
        uint64_t one[6] = {0};
        uint64_t other[6] = {0};
        const struct eng_array left = array_of(types[i], 2, 3, one);
        const struct eng_array right = array_of(types[i], 2, 3, other);
        assert_true(gw_infer_agrees(&exact, &left, &right));
        ((uint8_t *)other)[5 * eng_dtype_bytes(types[i])] = 1; // of the last, the lowest byte
        if (eng_dtype_bytes(types[i]) > 1 && types[i] != ENG_F32 && types[i] != ENG_F64) {
            assert_false(gw_infer_agrees(&exact, &left, &right));
        } else if (eng_dtype_bytes(types[i]) == 1) {
            assert_false(gw_infer_agrees(&exact, &left, &right));
        }
        assert_true(gw_infer_agrees(&wide, &left, &right));
    }
}

static void test_text_and_truth(void **state)
{
    const struct gw_infer_agree wide = {.absolute = 1e300, .argmax = true};
    struct eng_string one[2] = {{"a", 1}, {"bc", 2}};
    struct eng_string other[2] = {{"a", 1}, {"bd", 2}};
    uint8_t yes[2] = {1, 0};
    uint8_t no[2] = {1, 1};
    (void)state;
    const struct eng_array texts = array_of(ENG_STRING, 1, 2, one);
    const struct eng_array others = array_of(ENG_STRING, 1, 2, other);
    const struct eng_array truth = array_of(ENG_BOOL, 1, 2, yes);
    const struct eng_array lie = array_of(ENG_BOOL, 1, 2, no);
    assert_true(gw_infer_agrees(&wide, &texts, &texts));
    assert_false(gw_infer_agrees(&wide, &texts, &others));
    assert_true(gw_infer_agrees(&wide, &truth, &truth));
    assert_false(gw_infer_agrees(&wide, &truth, &lie));
}

static void test_shapes(void **state)
{
    const struct gw_infer_agree wide = {.absolute = 1e300, .argmax = true};
    float data[6] = {0};
    (void)state;
    const struct eng_array two = array_of(ENG_F32, 2, 3, data);
    const struct eng_array three = array_of(ENG_F32, 3, 2, data);
    const struct eng_array whole = array_of(ENG_I32, 2, 3, data);
    const struct eng_array none = array_of(ENG_F32, 0, 3, NULL);
    assert_false(gw_infer_agrees(&wide, &two, &three));
    assert_false(gw_infer_agrees(&wide, &two, &whole));
    assert_true(gw_infer_agrees(&wide, &none, &none));
}

static void test_the_largest(void **state)
{
    const struct gw_infer_agree argmax = {.argmax = true};
    float one[6] = {1, 3, 2, 9, 8, 7};
    float near[6] = {0, 90, 2, 3, 1, 2};
    float moved[6] = {1, 3, 2, 7, 8, 9};
    float odd[6] = {1, 3, NAN, 9, 8, 7};
    float twice[6] = {NAN, 3, NAN, 9, 8, 7};
    float once[6] = {NAN, 1, 2, 9, 8, 7};
    (void)state;
    const struct eng_array left = array_of(ENG_F32, 2, 3, one);
    const struct eng_array right = array_of(ENG_F32, 2, 3, near);
    const struct eng_array other = array_of(ENG_F32, 2, 3, moved);
    const struct eng_array strange = array_of(ENG_F32, 2, 3, odd);
    assert_true(gw_infer_agrees(&argmax, &left, &right));
    assert_false(gw_infer_agrees(&argmax, &left, &other));
    assert_false(gw_infer_agrees(&argmax, &left, &strange));
    assert_true(gw_infer_agrees(&argmax, &strange, &strange));
    const struct eng_array two = array_of(ENG_F32, 2, 3, twice);
    const struct eng_array one_of_two = array_of(ENG_F32, 2, 3, once);
    assert_true(gw_infer_agrees(&argmax, &two, &one_of_two)); // the first of them
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tolerances), cmocka_unit_test(test_no_numbers),
        cmocka_unit_test(test_types),      cmocka_unit_test(test_text_and_truth),
        cmocka_unit_test(test_shapes),     cmocka_unit_test(test_the_largest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
