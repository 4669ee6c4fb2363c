// gRPC's framing: the one message of a body, deadlines, texts in headers and statuses.
#include "test_kit.h"

#include "base/alloc.h"
#include "base/str.h"
#include "infer/codec/grpc_frame.h"

static void test_message(void **state)
{
    (void)state;
    static const struct {
        struct base_str body;
        enum base_status status;
        const char *says;
    } cases[] = {
        {BASE_STR("\0\0\0\0\3abc"), BASE_OK, ""},
        {BASE_STR("\0\0\0\0\0"), BASE_OK, ""},
        {{NULL, 0}, BASE_ERR_TRUNCATED, "five bytes"},
        {BASE_STR("\0\0\0\0"), BASE_ERR_TRUNCATED, "five bytes"},
        {BASE_STR("\0\0\0\0\4abc"), BASE_ERR_TRUNCATED, "4 bytes in 3"},
        {BASE_STR("\0\xff\xff\xff\xff"), BASE_ERR_TRUNCATED, "4294967295 bytes in 0"},
        {BASE_STR("\0\0\0\0\0\0\0\0\0\0"), BASE_ERR_INVALID, "0 bytes in 5"}, // a second one
        {BASE_STR("\1\0\0\0\3abc"), BASE_ERR_UNSUPPORTED, "compressed"},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct base_str message;
        struct base_error error = {0};
        uint8_t *exact = test_exact(cases[i].body.data, cases[i].body.size);
        struct base_str body = {(char *)exact, cases[i].body.size};
        enum base_status status = gw_grpc_message(body, &message, &error);
        if (status != cases[i].status || strstr(error.text, cases[i].says) == NULL) {
            fail_msg("case %zu: %s, \"%s\"", i, base_status_name(status), error.text);
        }
        if (status == BASE_OK) {
            assert_int_equal(message.size, body.size - 5);
            assert_ptr_equal(message.data, body.data + 5);
        }
        free(exact);
    }
}

static void test_timeout(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t us; // 0: refused
    } cases[] = {{"1H", 3600000000},
                 {"2M", 120000000},
                 {"3S", 3000000},
                 {"250m", 250000},
                 {"7u", 7},
                 {"1500n", 2},
                 {"1n", 1},
                 {"99999999H", 359999996400000000},
                 {"", 0},
                 {"S", 0},
                 {"1", 0},
                 {"100000000S", 0},
                 {"-1S", 0},
                 {"1.5S", 0},
                 {"1s", 0},
                 {" 1S", 0}};
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        uint64_t us = 0;
        enum base_status status = gw_grpc_timeout(base_str_of(cases[i].text), &us);
        if ((status == BASE_OK) != (cases[i].us > 0) || us != cases[i].us) {
            fail_msg("\"%s\": %s, %llu", cases[i].text, base_status_name(status),
                     (unsigned long long)us);
        }
    }
}

static void test_texts(void **state)
{
    (void)state;
    struct test_alloc alloc;
    struct base_arena arena;
    test_alloc_init(&alloc, SIZE_MAX);
    base_arena_init(&arena, &alloc.port, 0, 0);
    struct base_str text = gw_grpc_escape(&arena, BASE_STR("50 % of \"m\xc3\xa9\"\r\n~\x7f"));
    assert_true(base_str_equal(text, BASE_STR("50 %25 of \"m%C3%A9\"%0D%0A~%7F")));
    base_arena_done(&arena);
    test_alloc_init(&alloc, 0);
    base_arena_init(&arena, &alloc.port, 0, 0);
    assert_int_equal(gw_grpc_escape(&arena, BASE_STR("abc")).size, 0);
    base_arena_done(&arena);
    assert_true(gw_grpc_is(BASE_STR("application/grpc")));
    assert_true(gw_grpc_is(BASE_STR("application/grpc+proto")));
    assert_true(gw_grpc_is(BASE_STR("application/grpc;charset=x")));
    assert_false(gw_grpc_is(BASE_STR("application/grpc+json")));
    assert_false(gw_grpc_is(BASE_STR("application/grpc-web")));
    assert_false(gw_grpc_is(BASE_STR("application/json")));
    assert_false(gw_grpc_is((struct base_str){NULL, 0}));
}

static void test_statuses(void **state)
{
    (void)state;
    assert_int_equal(gw_grpc_status_of(BASE_OK), GW_GRPC_OK);
    assert_int_equal(gw_grpc_status_of(BASE_ERR_INVALID), GW_GRPC_INVALID_ARGUMENT);
    assert_int_equal(gw_grpc_status_of(BASE_ERR_TOO_LARGE), GW_GRPC_INVALID_ARGUMENT);
    assert_int_equal(gw_grpc_status_of(BASE_ERR_NOT_FOUND), GW_GRPC_NOT_FOUND);
    assert_int_equal(gw_grpc_status_of(BASE_ERR_LIMIT), GW_GRPC_RESOURCE_EXHAUSTED);
    assert_int_equal(gw_grpc_status_of(BASE_ERR_TIMEOUT), GW_GRPC_DEADLINE_EXCEEDED);
    assert_int_equal(gw_grpc_status_of(BASE_ERR_BUSY), GW_GRPC_UNAVAILABLE);
    assert_int_equal(gw_grpc_status_of(BASE_ERR_BUG), GW_GRPC_INTERNAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_message),
        cmocka_unit_test(test_timeout),
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_statuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
