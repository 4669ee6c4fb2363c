// Text of numbers in an app whose locale writes them with a comma, or with a point of two bytes:
// the same as in the C locale.
#include "comma_locale.h"

#include "base/prng.h"
#include "base/text/real.h"

#include <math.h>

static double drawn(struct base_prng *prng)
{
    uint64_t bits = base_prng_next(prng);
    double value;
    memcpy(&value, &bits, sizeof(value));
    return isnan(value) ? 0.1 : value;
}

static const char *locale_one_and_a_half(void)
{
    static char text[16];
    snprintf(text, sizeof(text), "1%s5", localeconv()->decimal_point);
    return text;
}

static void expect_as_in_the_c_locale(void (*enter)(void))
{
    struct base_prng prng;
    base_prng_seed(&prng, 20261124);
    for (int i = 0; i < 20000; i++) {
        double value = i % 2 == 0 ? drawn(&prng) : (double)(int)base_prng_next(&prng) / 1000;
        int digits = 1 + i % BASE_REAL_DIGITS_MAX;
        char wanted[64];
        char text[BASE_REAL_TEXT_MAX];
        const char *end = NULL;
        assert_non_null(setlocale(LC_NUMERIC, "C"));
        snprintf(wanted, sizeof(wanted), "%.*g", digits, value);
        double back = strtod(wanted, NULL);
        enter();
        assert_int_equal(base_real_print(value, digits, text), strlen(wanted));
        assert_string_equal(text, wanted);
        assert_true(base_real_read(text, &end) == back);
        assert_ptr_equal(end, text + strlen(text));
        assert_true(strtod(locale_one_and_a_half(), NULL) == 1.5); // the app's is what it was
    }
}

static void test_as_in_the_c_locale(void **state)
{
    (void)state;
    expect_as_in_the_c_locale(test_locale_with_a_comma);
}

// One point, however many bytes the locale's has.
static void test_a_point_of_two_bytes(void **state)
{
    (void)state;
    expect_as_in_the_c_locale(test_locale_with_a_wide_point);
}

static void test_what_is_no_number(void **state)
{
    (void)state;
    const char *end = NULL;
    test_locale_with_a_comma();
    const char *comma = "1,5";
    assert_true(base_real_read(comma, &end) == 1);
    assert_ptr_equal(end, comma + 1);
    assert_true(base_real_read("x", &end) == 0);
    char text[BASE_REAL_TEXT_MAX];
    assert_int_equal(base_real_print(-INFINITY, 3, text), 4);
    assert_string_equal(text, "-inf");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_in_the_c_locale),
        cmocka_unit_test(test_a_point_of_two_bytes),
        cmocka_unit_test(test_what_is_no_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
