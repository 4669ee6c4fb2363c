// Text, numbers in text, hex and base64url.
#include "test_kit.h"

#include "base/str.h"

static void equality_and_prefixes(void **state)
{
    (void)state;
    struct base_str empty = base_str_of(NULL);
    assert_int_equal(empty.size, 0);
    assert_true(base_str_equal(empty, BASE_STR("")));
    assert_true(base_str_equal(BASE_STR("abc"), base_str_of("abc")));
    assert_false(base_str_equal(BASE_STR("abc"), BASE_STR("abd")));
    assert_false(base_str_equal(BASE_STR("abc"), BASE_STR("ab")));
    assert_true(base_str_starts(BASE_STR("abc"), BASE_STR("ab")));
    assert_true(base_str_starts(BASE_STR("abc"), empty));
    assert_false(base_str_starts(BASE_STR("ab"), BASE_STR("abc")));
    assert_false(base_str_starts(BASE_STR("xbc"), BASE_STR("ab")));
}

static void unsigned_numbers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum base_status status;
        uint64_t value;
    } rows[] = {
        {"0", BASE_OK, 0},
        {"007", BASE_OK, 7},
        {"18446744073709551615", BASE_OK, UINT64_MAX},
        {"18446744073709551616", BASE_ERR_OVERFLOW, 0},
        {"99999999999999999999999", BASE_ERR_OVERFLOW, 0},
        {"99999999999999999999999x", BASE_ERR_INVALID, 0},
        {"", BASE_ERR_INVALID, 0},
        {"-1", BASE_ERR_INVALID, 0},
        {"+1", BASE_ERR_INVALID, 0},
        {" 1", BASE_ERR_INVALID, 0},
        {"1 ", BASE_ERR_INVALID, 0},
        {"1.0", BASE_ERR_INVALID, 0},
        {"0x10", BASE_ERR_INVALID, 0},
        {"\xb2", BASE_ERR_INVALID, 0},
    };
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        uint64_t value = 4711;
        assert_int_equal(base_str_u64(base_str_of(rows[i].text), &value), rows[i].status);
        assert_true(value == (rows[i].status == BASE_OK ? rows[i].value : 4711));
    }
}

static void signed_numbers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum base_status status;
        int64_t value;
    } rows[] = {
        {"0", BASE_OK, 0},
        {"-0", BASE_OK, 0},
        {"-12", BASE_OK, -12},
        {"9223372036854775807", BASE_OK, INT64_MAX},
        {"9223372036854775808", BASE_ERR_OVERFLOW, 0},
        {"-9223372036854775808", BASE_OK, INT64_MIN},
        {"-9223372036854775809", BASE_ERR_OVERFLOW, 0},
        {"-", BASE_ERR_INVALID, 0},
        {"--1", BASE_ERR_INVALID, 0},
        {"", BASE_ERR_INVALID, 0},
    };
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        int64_t value = 4711;
        assert_int_equal(base_str_i64(base_str_of(rows[i].text), &value), rows[i].status);
        assert_true(value == (rows[i].status == BASE_OK ? rows[i].value : 4711));
    }
}

static void hex_both_ways(void **state)
{
    (void)state;
    static const uint8_t bytes[] = {0x00, 0x1f, 0xa0, 0xff};
    char text[8];
    base_hex_encode(bytes, sizeof bytes, text);
    assert_memory_equal(text, "001fa0ff", 8);
    uint8_t back[4];
    assert_int_equal(base_hex_decode(BASE_STR("001fA0Ff"), back, 4), BASE_OK);
    assert_memory_equal(back, bytes, 4);
    assert_int_equal(base_hex_decode(BASE_STR(""), back, 0), BASE_OK);
    static const char *const bad[] = {"001fa0f",  "001fa0ff0", "001fa0fff0", "001fa0fg", "001fa0f/",
                                      "001fa0f:", "001fa0f@",  "001fa0f`",   "001fa0 f"};
    for (size_t i = 0; i < TEST_COUNT(bad); i++) {
        assert_int_equal(base_hex_decode(base_str_of(bad[i]), back, 4), BASE_ERR_INVALID);
    }
    assert_memory_equal(back, bytes, 4); // untouched by failures
}

static void every_character_as_a_hex_digit(void **state)
{
    (void)state;
    const char lower[] = "0123456789abcdef";
    const char upper[] = "0123456789ABCDEF";
    for (int c = 0; c < 256; c++) {
        const char *at = c == 0 ? NULL : strchr(lower, c);
        at = at != NULL || c == 0 ? at : strchr(upper, c);
        long want = at == NULL ? -1 : at >= upper && at < upper + 16 ? at - upper : at - lower;
        const char first[] = {(char)c, '5'};
        const char second[] = {'5', (char)c};
        uint8_t out = 0x77;
        enum base_status status = base_hex_decode((struct base_str){first, 2}, &out, 1);
        assert_int_equal(status, want < 0 ? BASE_ERR_INVALID : BASE_OK);
        assert_int_equal(out, want < 0 ? 0x77 : want << 4 | 5);
        out = 0x77;
        status = base_hex_decode((struct base_str){second, 2}, &out, 1);
        assert_int_equal(status, want < 0 ? BASE_ERR_INVALID : BASE_OK);
        assert_int_equal(out, want < 0 ? 0x77 : 0x50 | want);
    }
}

// The vectors of RFC 4648 section 10, without padding, and two for the characters of base64url.
static void base64_vectors(void **state)
{
    (void)state;
    static const struct {
        const char *plain;
        const char *text;
    } rows[] = {{"", ""},
                {"f", "Zg"},
                {"fo", "Zm8"},
                {"foo", "Zm9v"},
                {"foob", "Zm9vYg"},
                {"fooba", "Zm9vYmE"},
                {"foobar", "Zm9vYmFy"},
                {"\xfb\xff", "-_8"},
                {"\xff\xef\xbe", "_---"}};
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        struct base_str plain = base_str_of(rows[i].plain);
        struct base_str text = base_str_of(rows[i].text);
        char encoded[16];
        size_t size = base_b64_encode((const uint8_t *)plain.data, plain.size, encoded);
        assert_int_equal(size, text.size);
        assert_int_equal(size, BASE_B64_ENCODED(plain.size));
        assert_memory_equal(encoded, text.data, size);
        uint8_t decoded[16];
        size_t decoded_size = 99;
        assert_int_equal(base_b64_decode(text, decoded, sizeof decoded, &decoded_size), BASE_OK);
        assert_int_equal(decoded_size, plain.size);
        assert_memory_equal(decoded, plain.data, plain.size);
    }
}

static void base64_refuses_all_else(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "A",    "AAAAA", "AA==",    "AA=A", "AAA=", "A+AA",  "A/AA",
        "AA A", "AAA\n", "AAA\x80", "AB",   "AAB",  "Z\xff", "AA\xff"};
    for (size_t i = 0; i < TEST_COUNT(bad); i++) {
        uint8_t out[16];
        size_t size = 99;
        enum base_status status = base_b64_decode(base_str_of(bad[i]), out, sizeof out, &size);
        assert_int_equal(status, BASE_ERR_INVALID);
        assert_int_equal(size, 99);
    }
    uint8_t small[3];
    size_t size;
    assert_int_equal(base_b64_decode(BASE_STR("AAAAAA"), small, 3, &size), BASE_ERR_TOO_LARGE);
    assert_int_equal(base_b64_decode(BASE_STR("AAAA"), small, 3, &size), BASE_OK);
    assert_int_equal(base_b64_decode(BASE_STR("AAAA"), small, 2, &size), BASE_ERR_TOO_LARGE);
    assert_int_equal(base_b64_decode(BASE_STR(""), NULL, 0, &size), BASE_OK);
    assert_int_equal(size, 0);
}

// Each of the 256 byte values in each position: accepted exactly when it is in the alphabet, and
// then worth its place there.
static void base64_alphabet_is_exact_in(size_t size)
{
    static const char alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    for (unsigned c = 0; c < 256; c++) {
        bool known = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
                     c == '-' || c == '_';
        for (size_t at = 0; at < size; at++) {
            char text[64];
            memset(text, 'A', size);
            text[at] = (char)c;
            uint8_t out[48] = {0};
            size_t decoded = 0;
            enum base_status status =
                base_b64_decode((struct base_str){text, size}, out, size / 4 * 3, &decoded);
            assert_int_equal(status, known ? BASE_OK : BASE_ERR_INVALID);
            for (size_t bit = 0; known && bit < size * 6; bit++) {
                unsigned value = (unsigned)(strchr(alphabet, text[bit / 6]) - alphabet);
                assert_int_equal(out[bit / 8] >> (7 - bit % 8) & 1, value >> (5 - bit % 6) & 1);
            }
        }
    }
}

static void base64_alphabet_is_exact(void **state)
{
    (void)state;
    base64_alphabet_is_exact_in(4);
    base64_alphabet_is_exact_in(36);
    base64_alphabet_is_exact_in(64);
}

static void base64_round_trips(void **state)
{
    (void)state;
    struct base_prng prng;
    test_seed(&prng);
    for (unsigned round = 0; round < 2000; round++) {
        uint8_t bytes[100];
        size_t size = (size_t)base_prng_below(&prng, sizeof bytes);
        for (size_t i = 0; i < size; i++) {
            bytes[i] = (uint8_t)base_prng_next(&prng);
        }
        char text[BASE_B64_ENCODED(sizeof bytes)];
        size_t text_size = base_b64_encode(bytes, size, text);
        assert_true(size <= BASE_B64_DECODED_MAX(text_size));
        uint8_t *exact_text = test_exact(text, text_size);
        uint8_t *exact_out = test_exact(bytes, size);
        memset(exact_out, 0, size);
        size_t out_size = 0;
        struct base_str view = {(char *)exact_text, text_size};
        assert_int_equal(base_b64_decode(view, exact_out, size, &out_size), BASE_OK);
        assert_int_equal(out_size, size);
        assert_memory_equal(exact_out, bytes, size);
        free(exact_out);
        free(exact_text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equality_and_prefixes),
        cmocka_unit_test(unsigned_numbers),
        cmocka_unit_test(signed_numbers),
        cmocka_unit_test(hex_both_ways),
        cmocka_unit_test(every_character_as_a_hex_digit),
        cmocka_unit_test(base64_vectors),
        cmocka_unit_test(base64_refuses_all_else),
        cmocka_unit_test(base64_alphabet_is_exact),
        cmocka_unit_test(base64_round_trips),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
