// Numbers of tensors in JSON beside the C library: what is read is what strtof and strtod read,
// for ordinary decimals, for any bits, and in the middle between two floats; what is written is
// read back as it was.
#include "test_kit.h"

#include "infer/codec/json_number.h"

#include <inttypes.h>
#include <math.h>

static const uint64_t seed = 20261129;

static void expect_f32(const char *text)
{
    float value = 0;
    float wanted = strtof(text, NULL);
    const char *end = text + strlen(text);
    const char *behind = gw_json_f32(text, end, &value);
    if (behind != end || memcmp(&value, &wanted, sizeof(value)) != 0) {
        fail_msg("\"%s\" is read as %.9g, not %.9g", text, (double)value, (double)wanted);
    }
}

static void expect_f64(const char *text)
{
    double value = 0;
    double wanted = strtod(text, NULL);
    const char *end = text + strlen(text);
    const char *behind = gw_json_f64(text, end, &value);
    if (behind != end || memcmp(&value, &wanted, sizeof(value)) != 0) {
        fail_msg("\"%s\" is read as %.17g, not %.17g", text, value, wanted);
    }
}

static float any_float(struct base_prng *prng)
{
    uint32_t bits = (uint32_t)base_prng_next(prng);
    float value;
    memcpy(&value, &bits, sizeof(value));
    return isfinite(value) ? value : 1.5f;
}

static double any_double(struct base_prng *prng)
{
    uint64_t bits = base_prng_next(prng);
    double value;
    memcpy(&value, &bits, sizeof(value));
    return isfinite(value) ? value : 1.5;
}

static void test_any_decimal(void **state)
{
    (void)state;
    struct base_prng prng;
    base_prng_seed(&prng, seed);
    for (int i = 0; i < 200000; i++) {
        char text[64];
        int digits = 1 + i % 24;
        bool plain = i % 3 == 0;
        double value = plain ? (double)(int32_t)base_prng_next(&prng) / 4e6 : any_double(&prng);
        snprintf(text, sizeof(text), "%.*g", digits, plain ? value : (double)any_float(&prng));
        expect_f32(text);
        expect_f64(text);
        snprintf(text, sizeof(text), "%.*e", digits, value);
        expect_f32(text);
        expect_f64(text);
    }
}

// The middle of two floats, and what lies a little beside it, in as many digits as it takes.
static void test_middle_of_two_floats(void **state)
{
    (void)state;
    struct base_prng prng;
    base_prng_seed(&prng, seed + 1);
    for (int i = 0; i < 20000; i++) {
        char text[256];
        float low = i % 2 == 0 ? any_float(&prng) : (float)(base_prng_next(&prng) % 100000) / 64;
        float high = nextafterf(low, INFINITY);
        double middle = ((double)low + (double)high) / 2;
        if (!isfinite(high)) {
            continue;
        }
        for (int beside = -1; beside <= 1; beside++) {
            double value = nextafter(middle, beside * (double)INFINITY);
            snprintf(text, sizeof(text), "%.*g", 17 + i % 100, beside == 0 ? middle : value);
            expect_f32(text);
            expect_f64(text);
        }
    }
    expect_f32("16777217");
    expect_f32("16777217.0000000000000000000000001");
    expect_f32("16777216.9999999999999999999999999");
    expect_f32("340282356779733661637539395458142568448"); // the middle of FLT_MAX and infinity
    expect_f32("340282356779733661637539395458142568447");
    expect_f32("7.0064923216240853e-46"); // half of the smallest
    expect_f32("-0");
    expect_f32("-0.0e-5");
    expect_f32("1e400");
    expect_f64("9007199254740993");
    expect_f64("1e-400");
}

static void test_grammar(void **state)
{
    (void)state;
    static const char *const bad[] = {"",    "-",    "+1",  ".5",  "1.",   "01",  "-01", "1e",
                                      "1e+", "0x10", "nan", "inf", "-NaN", "--1", "e5",  "1.e5"};
    for (size_t i = 0; i < TEST_COUNT(bad); i++) {
        float narrow = 0;
        double wide = 0;
        const char *end = bad[i] + strlen(bad[i]);
        const char *behind = gw_json_f32(bad[i], end, &narrow);
        assert_true(behind != end || behind == bad[i]);
        behind = gw_json_f64(bad[i], end, &wide);
        assert_true(behind != end || behind == bad[i]);
        assert_true(gw_json_number_skip(bad[i], end) != end || bad[i] == end);
    }
    // What follows in memory is not looked at.
    float value = 0;
    assert_non_null(gw_json_f32("12345", &"12345"[2], &value));
    char text[8] = "-0.1234";
    assert_ptr_equal(gw_json_f32(text, text + 5, &value), text + 5);
    assert_true(value == -0.12f);
    char longest[GW_JSON_NUMBER_BYTES_MAX + 3];
    memset(longest, '1', sizeof(longest));
    assert_non_null(gw_json_f32(longest, longest + GW_JSON_NUMBER_BYTES_MAX, &value));
    assert_true(isinf(value));
    assert_null(gw_json_f32(longest, longest + GW_JSON_NUMBER_BYTES_MAX + 1, &value));
}

static void test_integers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t value;
        bool negative;
        bool good;
    } cases[] = {
        {"0", 0, false, true},
        {"-0", 0, true, true},
        {"18446744073709551615", UINT64_MAX, false, true},
        {"18446744073709551616", 0, false, false},
        {"-9223372036854775808", (uint64_t)1 << 63, true, true},
        {"99999999999999999999999", 0, false, false},
        {"01", 0, false, false},
        {"1.0", 0, false, false},
        {"1e3", 0, false, false},
        {"-", 0, false, false},
        {"", 0, false, false},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        bool negative = false;
        uint64_t value = 0;
        const char *end = cases[i].text + strlen(cases[i].text);
        const char *behind = gw_json_integer(cases[i].text, end, &negative, &value);
        assert_int_equal(behind == end && behind != NULL, cases[i].good);
        if (cases[i].good) {
            assert_int_equal(value, cases[i].value);
            assert_int_equal(negative, cases[i].negative);
        }
    }
}

static void expect_back(float value)
{
    char text[GW_JSON_NUMBER_TEXT_MAX];
    size_t size = gw_json_f32_text(value, text);
    assert_int_equal(size, strlen(text));
    float back = strtof(text, NULL);
    if (memcmp(&back, &value, sizeof(back)) != 0) {
        fail_msg("%.9g is written as \"%s\"", (double)value, text);
    }
    assert_ptr_equal(gw_json_f32(text, text + size, &back), text + size);
    assert_memory_equal(&back, &value, sizeof(back));
}

static void test_written_is_read_back(void **state)
{
    (void)state;
    struct base_prng prng;
    base_prng_seed(&prng, seed + 2);
    for (int i = 0; i < 300000; i++) {
        expect_back(any_float(&prng));
        expect_back((float)(int32_t)base_prng_next(&prng) / 8e8f);
        expect_back((float)(int32_t)(base_prng_next(&prng) % 2000000) / 1000.f);
        double value = any_double(&prng);
        char text[GW_JSON_NUMBER_TEXT_MAX];
        assert_true(gw_json_f64_text(value, text) < sizeof(text));
        assert_true(strtod(text, NULL) == value);
    }
    for (uint32_t exponent = 0; exponent < 255; exponent++) { // powers of two and their neighbours
        uint32_t bits = exponent << 23;
        float value;
        memcpy(&value, &bits, sizeof(value));
        expect_back(value);
        expect_back(nextafterf(value, INFINITY));
        expect_back(-nextafterf(value, 0));
    }
}

static void test_written_short(void **state)
{
    (void)state;
    static const struct {
        float value;
        const char *text;
    } cases[] = {{0.f, "0"},
                 {-0.f, "-0"},
                 {0.1f, "0.1"},
                 {1.f, "1"},
                 {-12.5f, "-12.5"},
                 {100000.f, "100000"},
                 {1e-5f, "0.00001"},
                 {0.00012f, "0.00012"},
                 {16777216.f, "16777216"},
                 {1e20f, "1e+20"},
                 {3.1415927f, "3.1415927"},
                 {999999.94f, "999999.94"},
                 {NAN, "NaN"},
                 {INFINITY, "Infinity"},
                 {-INFINITY, "-Infinity"}};
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        char text[GW_JSON_NUMBER_TEXT_MAX];
        (void)gw_json_f32_text(cases[i].value, text);
        assert_string_equal(text, cases[i].text);
    }
}

int main(void)
{
    printf("seed %" PRIu64 "\n", seed);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_decimal),
        cmocka_unit_test(test_middle_of_two_floats),
        cmocka_unit_test(test_grammar),
        cmocka_unit_test(test_integers),
        cmocka_unit_test(test_written_is_read_back),
        cmocka_unit_test(test_written_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
