// Globs beside fnmatch and beside a naive matcher, characters of UTF-8, and how long it may take.
#include "test_kit.h"

#include "policy/glob.h"

#include <fnmatch.h>

static bool matches(const char *pattern, const char *text)
{
    uint32_t at;
    const char *message = "";
    if (!pol_glob_check(pattern, (uint32_t)strlen(pattern), &at, &message)) {
        fail_msg("%s: %s at %u", pattern, message, at);
    }
    return pol_glob_match(pattern, (uint32_t)strlen(pattern), text, (uint32_t)strlen(text));
}

static void rows(void **state)
{
    (void)state;
    static const struct {
        const char *pattern;
        const char *text;
        bool matched;
    } table[] = {
        {"", "", true},
        {"", "a", false},
        {"*", "", true},
        {"**", "abc", true},
        {"?", "", false},
        {"?", "\xc3\xbc", true},
        {"??", "\xc3\xbc", false},
        {"[\xc3\xa4-\xc3\xbc]", "\xc3\xb6", true},
        {"[!a]", "\xc3\xb6", true},
        {"[!a]", "a", false},
        {"[]a]", "]", true},
        {"[!]a]", "]", false},
        {"[a-]", "-", true},
        {"[-a]", "-", true},
        {"[*]", "*", true},
        {"[*]", "a", false},
        {"\\*", "\\abc", true},
        {"a*b*c", "a.b.b.c", true},
        {"a*b*c", "a.b.b.d", false},
        {"*aab", "aaaab", true},
        {"\xff?", "\xff\xfe", true}, // no UTF-8: bytes
        {"?", "\xe2\x82", false},
        {"??", "\xe2\x82", true},
        {"?", "\xf0\x9f\x98\x80", true},
    };
    for (size_t i = 0; i < TEST_COUNT(table); i++) {
        if (matches(table[i].pattern, table[i].text) != table[i].matched) {
            fail_msg("%s on %s", table[i].pattern, table[i].text);
        }
    }
}

static void malformed_patterns(void **state)
{
    (void)state;
    static const struct {
        const char *pattern;
        uint32_t at;
    } table[] = {{"[", 0}, {"a[]", 1}, {"[!]", 0}, {"[!", 0}, {"[a", 0}, {"x[a-", 1}, {"[z-a]", 1}};
    for (size_t i = 0; i < TEST_COUNT(table); i++) {
        uint32_t at = 99;
        const char *message = NULL;
        assert_false(
            pol_glob_check(table[i].pattern, (uint32_t)strlen(table[i].pattern), &at, &message));
        assert_int_equal(at, table[i].at);
        assert_non_null(message);
    }
    char longest[POL_GLOB_BYTES_MAX + 1];
    memset(longest, 'a', sizeof(longest));
    uint32_t at;
    const char *message;
    assert_true(pol_glob_check(longest, POL_GLOB_BYTES_MAX, &at, &message));
    assert_false(pol_glob_check(longest, POL_GLOB_BYTES_MAX + 1, &at, &message));
}

static void add_element(struct base_prng *prng, char *out)
{
    static const char *const elements[] = {"a",    "b",    "c",     "*",    "*",
                                           "?",    "[ab]", "[a-c]", "[!a]", "[!b-c]",
                                           "[b-]", "-",    "[*?]",  "[]a]", "[!]b]"};
    strncat(out, elements[base_prng_below(prng, TEST_COUNT(elements))], 8);
}

static void as_fnmatch_does(void **state)
{
    (void)state;
    struct base_prng prng;
    test_seed(&prng);
    uint32_t matched = 0;
    for (uint32_t round = 0; round < 300000; round++) {
        char pattern[80] = "";
        char text[12] = "";
        uint64_t elements = base_prng_below(&prng, 7);
        for (uint64_t i = 0; i < elements; i++) {
            add_element(&prng, pattern);
        }
        size_t size = (size_t)base_prng_below(&prng, 8);
        for (size_t i = 0; i < size; i++) {
            text[i] = "abc-]*"[base_prng_below(&prng, 6)];
        }
        bool wanted = fnmatch(pattern, text, FNM_NOESCAPE) == 0;
        matched += wanted;
        if (matches(pattern, text) != wanted) {
            fail_msg("'%s' on '%s': fnmatch says %d", pattern, text, wanted);
        }
    }
    printf("%u of 300000 matched\n", matched);
    assert_in_range(matched, 20000, 280000);
}

// A matcher that tries every run of every star would need about 10^20 steps here.
static void many_stars_end_soon(void **state)
{
    (void)state;
    char pattern[POL_GLOB_BYTES_MAX + 1] = "";
    char text[65] = "";
    for (int i = 0; i < 60; i++) {
        memcpy(pattern + (size_t)i * 3, "*a*", 4);
    }
    memcpy(pattern + 180, "b", 2);
    memset(text, 'a', 64);
    assert_false(matches(pattern, text));
    text[63] = 'b';
    assert_true(matches(pattern, text));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows),
        cmocka_unit_test(malformed_patterns),
        cmocka_unit_test(as_fnmatch_does),
        cmocka_unit_test(many_stars_end_soon),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
