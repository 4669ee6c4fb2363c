// Names of content and things, in bytes and in text.
#include "test_kit.h"

#include "wire/digest.h"

static void sha256_text(void **state)
{
    (void)state;
    struct wire_sha256 digest;
    struct base_str hex =
        BASE_STR("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_int_equal(wire_sha256_parse(hex, &digest), BASE_OK);
    assert_false(wire_sha256_is_zero(&digest));
    char text[WIRE_SHA256_HEX + 1];
    wire_sha256_hex(&digest, text);
    assert_string_equal(text, hex.data);
    // The first eight bytes, little-endian.
    assert_true(wire_version_id(&digest) == 0x141cfc9842c4b0e3u);
    struct wire_sha256 other = digest;
    assert_true(wire_sha256_equal(&digest, &other));
    other.bytes[31] ^= 1;
    assert_false(wire_sha256_equal(&digest, &other));
    memset(&other, 0, sizeof other);
    assert_true(wire_sha256_is_zero(&other));
    assert_int_equal(wire_sha256_parse(BASE_STR("e3"), &digest), BASE_ERR_INVALID);
    assert_int_equal(wire_sha256_parse(BASE_STR(""), &digest), BASE_ERR_INVALID);
}

static void task_names(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        bool ok;
    } rows[] = {{"a", true},          {"0", true},     {"shop/page-view_2.x", true},
                {"a//b", false},      {"", false},     {"/a", false},
                {"a/", false},        {"a/b/", false}, {"a/./b", false},
                {"a/../../b", false}, {"a/..", false}, {"a/.git", false},
                {"a/...", true},      {"a/.b", true},  {"a..b/-c_", true},
                {"-a", false},        {".a", false},   {"_a", false},
                {"A", false},         {"a b", false},  {"a\n", false},
                {"\xc3\xa4", false}};
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        assert_int_equal(wire_task_name_ok(base_str_of(rows[i].name)), rows[i].ok);
    }
    char longest[WIRE_TASK_NAME_MAX + 1];
    memset(longest, 'a', sizeof longest);
    assert_true(wire_task_name_ok((struct base_str){longest, WIRE_TASK_NAME_MAX}));
    assert_false(wire_task_name_ok((struct base_str){longest, WIRE_TASK_NAME_MAX + 1}));
    assert_false(wire_task_name_ok((struct base_str){"a\0b", 3}));
    for (unsigned c = 1; c < 256; c++) {
        bool first = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        bool inner = first || strchr("._-", (int)c) != NULL; // a slash would be the last
        char name[2] = {(char)c, 'a'};
        assert_int_equal(wire_task_name_ok((struct base_str){name, 2}), first);
        name[0] = 'a';
        name[1] = (char)c;
        assert_int_equal(wire_task_name_ok((struct base_str){name, 2}), inner);
    }
}

// XXH3 of no bytes is a published vector; a task id never changes.
static void task_ids_are_pinned(void **state)
{
    (void)state;
    assert_true(wire_task_id(BASE_STR("")) == 0x2d06800538d394c2u);
    assert_true(wire_task_id(BASE_STR("a")) != wire_task_id(BASE_STR("b")));
}

static void device_ids(void **state)
{
    (void)state;
    char text[WIRE_DEVICE_HEX + 1];
    wire_device_hex(0x0123456789abcdefu, text);
    assert_string_equal(text, "0123456789abcdef");
    uint64_t id = 0;
    assert_int_equal(wire_device_parse(base_str_of(text), &id), BASE_OK);
    assert_true(id == 0x0123456789abcdefu);
    static const char *const bad[] = {"0123456789ABCDEF", "0123456789abcde",  "0123456789abcdef0",
                                      "0123456789abcdeg", "0x23456789abcdef", ""};
    for (size_t i = 0; i < TEST_COUNT(bad); i++) {
        assert_int_equal(wire_device_parse(base_str_of(bad[i]), &id), BASE_ERR_INVALID);
    }
    assert_true(id == 0x0123456789abcdefu);
    // Every byte in every place: taken exactly when it is a digit or a to f.
    for (unsigned c = 0; c < 256; c++) {
        for (size_t at = 0; at < WIRE_DEVICE_HEX; at++) {
            (void)memset(text, '7', WIRE_DEVICE_HEX);
            text[at] = (char)c;
            bool known = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
            struct base_str view = {text, WIRE_DEVICE_HEX};
            assert_int_equal(wire_device_parse(view, &id), known ? BASE_OK : BASE_ERR_INVALID);
            char again[WIRE_DEVICE_HEX + 1];
            wire_device_hex(id, again);
            assert_true(!known || memcmp(again, text, WIRE_DEVICE_HEX) == 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sha256_text),
        cmocka_unit_test(task_names),
        cmocka_unit_test(task_ids_are_pinned),
        cmocka_unit_test(device_ids),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
