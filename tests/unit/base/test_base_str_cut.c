// Text trimmed, and copied as far as there is room.
#include "test_kit.h"

#include "base/str_cut.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trimmed),
        cmocka_unit_test(copied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
