// Text trimmed, cut between characters, and copied as far as there is room.
#include "test_kit.h"

#include "base/text/str_cut.h"

static void trimmed(void **state)
{
    (void)state;
    assert_true(base_str_equal(base_str_trim(BASE_STR(" \t a b\r ")), BASE_STR("a b")));
    assert_int_equal(base_str_trim(BASE_STR("  ")).size, 0);
    assert_int_equal(base_str_trim((struct base_str){NULL, 0}).size, 0);
}

static void copied(void **state)
{
    (void)state;
    char out[4];
    base_str_copy(BASE_STR("abc"), out, sizeof(out));
    assert_string_equal(out, "abc");
    base_str_copy(BASE_STR("abcd"), out, sizeof(out));
    assert_string_equal(out, "abc");
    base_str_copy((struct base_str){NULL, 0}, out, sizeof(out));
    assert_string_equal(out, "");
}

static void cut_between_characters(void **state)
{
    (void)state;
    // One, two, three and four bytes: ends at 1, 3, 6 and 10.
    const struct base_str text = BASE_STR("a\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80");
    static const size_t want[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 10};
    for (size_t room = 0; room < TEST_COUNT(want); room++) {
        size_t got = base_str_fit(text, room);
        if (got != want[room]) {
            fail_msg("room %zu: %zu, not %zu", room, got, want[room]);
        }
    }
    assert_int_equal(base_str_fit(BASE_STR("\x80\x80\x80"), 2), 0); // no character begins
    assert_int_equal(base_str_fit((struct base_str){NULL, 0}, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trimmed),
        cmocka_unit_test(copied),
        cmocka_unit_test(cut_between_characters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
