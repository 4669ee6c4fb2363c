// Point 16: the check of names from outside that become file names.
#include "test_kit.h"

#include "base/os/path_part.h"

struct row {
    struct base_str name;
    const char *fault; // NULL: the name is fine
};

static void names(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {BASE_STR("a"), NULL},
        {BASE_STR("task.json"), NULL},
        {BASE_STR("..a"), NULL},
        {BASE_STR("..."), NULL},
        {BASE_STR("a.."), NULL},
        {BASE_STR(".gitignore"), NULL},
        {BASE_STR(".gi"), NULL},
        {BASE_STR("git"), NULL},
        {BASE_STR("gr\xc3\xbcn"), NULL},
        {BASE_STR("\xc2\xa0"), NULL}, // a space that does not break: no control character
        {BASE_STR("\xff\xfe"), NULL}, // bytes, as file systems have them
        {BASE_STR("a b\\c"), NULL},
        {BASE_STR(""), "is empty"},
        {{NULL, 0}, "is empty"},
        {BASE_STR("."), "is '.'"},
        {BASE_STR(".."), "is '..'"},
        {BASE_STR(".git"), "is '.git'"},
        {BASE_STR(".GiT"), "is '.git'"},
        {BASE_STR("/"), "holds a '/'"},
        {BASE_STR("a/b"), "holds a '/'"},
        {BASE_STR("a/"), "holds a '/'"},
        {BASE_STR("a\0b"), "holds a control character"},
        {BASE_STR("\x1b[2J"), "holds a control character"},
        {BASE_STR("a\n"), "holds a control character"},
        {BASE_STR("\x7f"), "holds a control character"},
        {BASE_STR("\xc2\x9b"), "holds a control character"}, // C1: another ESC [
        {BASE_STR("\xc2\x80"), "holds a control character"},
    };
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        const char *fault = base_path_part_fault(rows[i].name);
        if (rows[i].fault == NULL) {
            assert_null(fault);
        } else {
            assert_non_null(fault);
            assert_string_equal(fault, rows[i].fault);
        }
    }
}

static void lengths(void **state)
{
    (void)state;
    char name[BASE_PATH_PART_MAX + 1];
    memset(name, 'n', sizeof name);
    assert_null(base_path_part_fault((struct base_str){name, BASE_PATH_PART_MAX}));
    assert_string_equal(base_path_part_fault((struct base_str){name, BASE_PATH_PART_MAX + 1}),
                        "is longer than 255 bytes");
}

static void paths(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {BASE_STR("a"), NULL},
        {BASE_STR("a/b/c.txt"), NULL},
        {BASE_STR(""), "is empty"},
        {BASE_STR("/a"), "is empty"},
        {BASE_STR("a/"), "is empty"},
        {BASE_STR("a//b"), "is empty"},
        {BASE_STR("a/../b"), "is '..'"},
        {BASE_STR(".."), "is '..'"},
        {BASE_STR("a/.."), "is '..'"},
        {BASE_STR("./a"), "is '.'"},
        {BASE_STR("a/.git/hooks"), "is '.git'"},
        {BASE_STR("a/b\x1b"), "holds a control character"},
    };
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        const char *fault = base_path_fault(rows[i].name);
        if (rows[i].fault == NULL) {
            assert_null(fault);
        } else {
            assert_non_null(fault);
            assert_string_equal(fault, rows[i].fault);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),
        cmocka_unit_test(lengths),
        cmocka_unit_test(paths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
