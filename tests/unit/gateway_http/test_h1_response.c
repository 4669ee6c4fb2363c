// Responses of an upstream: good ones in every split, bad ones refused.
#include "http/h1_response.h"

#include "base/alloc.h"
#include "test_kit.h"

struct result {
    bool head;
    bool end;
    bool bad;
    int status;
    bool keep_alive;
    char body[256];
    size_t body_bytes;
    char fields[512];
};

static void note_fields(const struct gw_h1_response *response, struct result *out)
{
    size_t at = 0;
    for (uint32_t i = 0; i < response->field_count; i++) {
        at += (size_t)snprintf(out->fields + at, sizeof(out->fields) - at, "%.*s=%.*s;",
                               (int)response->fields[i].name.size, response->fields[i].name.data,
                               (int)response->fields[i].value.size, response->fields[i].value.data);
    }
}

// Feeds `text` in pieces of `step` bytes, each a copy of its exact size.
static struct result run(const char *text, size_t step, bool to_head, bool then_close)
{
    struct result result = {0};
    struct base_arena arena;
    struct gw_h1_response response;
    base_arena_init(&arena, base_alloc_heap(), 0, 0);
    assert_int_equal(gw_h1_response_init(&response, &arena, to_head), BASE_OK);
    size_t size = strlen(text);
    for (size_t at = 0; at < size && !result.end && !result.bad;) {
        size_t piece = size - at < step ? size - at : step;
        uint8_t *copy = malloc(piece);
        assert_non_null(copy);
        memcpy(copy, text + at, piece);
        size_t used = 0;
        struct base_str body = {0};
        enum gw_h1_event event = gw_h1_response_feed(&response, copy, piece, &used, &body);
        if (event == GW_H1_HEAD) {
            result.head = true;
            result.status = response.status;
            note_fields(&response, &result);
        } else if (event == GW_H1_BODY) {
            memcpy(result.body + result.body_bytes, body.data, body.size);
            result.body_bytes += body.size;
        }
        result.end = event == GW_H1_END;
        result.bad = event == GW_H1_BAD;
        at += used;
        free(copy);
    }
    size_t used = 0;
    struct base_str body = {0};
    result.end = result.end || gw_h1_response_feed(&response, NULL, 0, &used, &body) == GW_H1_END;
    if (then_close && !result.end) {
        result.end = gw_h1_response_closed(&response);
    }
    result.keep_alive = response.keep_alive;
    base_arena_done(&arena);
    return result;
}

static void test_good_responses(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int status;
        const char *body;
        const char *fields;
        bool keep_alive;
        bool to_head;
        bool close;
    } cases[] = {
        {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-A:  b c \r\n\r\nhello", 200, "hello",
         "content-length=5;x-a=b c;", true, false, false},
        {"HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nT: "
         "1\r\n\r\n",
         200, "abcde", "transfer-encoding=Chunked;", true, false, false},
        {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No\r\n\r\n", 204, "", "", true, false, false},
        {"HTTP/1.1 200\r\nConnection: close\r\ncontent-length: 0\r\n\r\n", 200, "",
         "connection=close;content-length=0;", false, false, false},
        {"HTTP/1.0 200 OK\r\n\r\nto the end", 200, "to the end", "", false, false, true},
        {"HTTP/1.1 304 x\r\ncontent-length: 10\r\n\r\n", 304, "", "content-length=10;", true, false,
         false},
        {"HTTP/1.1 200 x\r\ncontent-length: 10\r\n\r\n", 200, "", "content-length=10;", true, true,
         false},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        for (size_t step = 1; step < 40; step++) {
            struct result result = run(cases[i].text, step, cases[i].to_head, cases[i].close);
            assert_true(result.head);
            assert_true(result.end);
            assert_int_equal(result.status, cases[i].status);
            assert_int_equal(result.body_bytes, strlen(cases[i].body));
            assert_memory_equal(result.body, cases[i].body, result.body_bytes);
            assert_string_equal(result.fields, cases[i].fields);
            assert_int_equal(result.keep_alive, cases[i].keep_alive);
        }
    }
}

static void test_bad_responses(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "HTTP/2 200 OK\r\n\r\n",
        "HTTP/1.1 20 OK\r\n\r\n",
        "HTTP/1.1 999 x\r\n\r\n",
        "HTTP/1.1 200 OK\n\n",
        "HTTP/1.1 101 Switching\r\n\r\n",
        "HTTP/1.1 200 OK\r\nname : v\r\n\r\n",
        "HTTP/1.1 200 OK\r\n folded\r\n\r\n",
        "HTTP/1.1 200 OK\r\n: v\r\n\r\n",
        "HTTP/1.1 200 OK\r\na: \x01\r\n\r\n",
        "HTTP/1.1 200 OK\r\na: b\rc\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n123456789\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nab\r\n",
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        for (size_t step = 1; step < 40; step++) {
            struct result result = run(cases[i], step, false, false);
            if (!result.bad) {
                fail_msg("taken for good: %s", cases[i]);
            }
        }
    }
}

static void test_cut_off_bodies_are_not_complete(void **state)
{
    (void)state;
    assert_false(run("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc", 7, false, true).end);
    assert_false(
        run("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n", 7, false, true)
            .end);
    assert_false(run("HTTP/1.1 200 OK\r\nx: y\r\n", 7, false, true).end);
}

static void test_heads_are_bounded(void **state)
{
    (void)state;
    char *text = malloc(GW_H1_HEAD_BYTES_MAX + 100);
    assert_non_null(text);
    memset(text, 'a', GW_H1_HEAD_BYTES_MAX + 99);
    memcpy(text, "HTTP/1.1 200 OK\r\na: ", 20);
    text[GW_H1_HEAD_BYTES_MAX + 99] = '\0';
    assert_true(run(text, 1000, false, false).bad);
    size_t at = (size_t)snprintf(text, 100, "HTTP/1.1 200 OK\r\n");
    for (uint32_t i = 0; i <= GW_H1_FIELDS_MAX; i++) {
        at += (size_t)snprintf(text + at, 10, "a: b\r\n");
    }
    assert_true(run(text, 1000, false, false).bad);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_responses),
        cmocka_unit_test(test_bad_responses),
        cmocka_unit_test(test_cut_off_bodies_are_not_complete),
        cmocka_unit_test(test_heads_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
