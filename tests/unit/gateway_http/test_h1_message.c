// Responses of an upstream and requests of a client: good ones in every split, bad ones refused.
#include "http/parse/h1_message.h"

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

static void note_fields(const struct gw_h1_message *response, struct result *out)
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
    struct gw_h1_message response;
    base_arena_init(&arena, base_alloc_heap(), 0, 0);
    assert_int_equal(gw_h1_message_init(&response, &arena, to_head), BASE_OK);
    size_t size = strlen(text);
    for (size_t at = 0; at < size && !result.end && !result.bad;) {
        size_t piece = size - at < step ? size - at : step;
        uint8_t *copy = malloc(piece);
        assert_non_null(copy);
        memcpy(copy, text + at, piece);
        size_t used = 0;
        struct base_str body = {0};
        enum gw_h1_event event = gw_h1_message_feed(&response, copy, piece, &used, &body);
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
    result.end = result.end || gw_h1_message_feed(&response, NULL, 0, &used, &body) == GW_H1_END;
    if (then_close && !result.end) {
        result.end = gw_h1_message_closed(&response);
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

// ---- Requests

struct asked {
    enum gw_h1_event last;
    char text[256]; // "METHOD target old keep-alive body"
};

static struct asked ask(const char *text, size_t step)
{
    struct asked asked = {.last = GW_H1_MORE};
    struct base_arena arena;
    struct gw_h1_message request;
    char body_text[64] = "";
    size_t size = strlen(text);
    base_arena_init(&arena, base_alloc_heap(), 0, 0);
    assert_int_equal(gw_h1_request_init(&request, &arena), BASE_OK);
    for (size_t at = 0; at <= size && asked.last != GW_H1_END && asked.last != GW_H1_BAD;) {
        size_t piece = size - at < step ? size - at : step;
        size_t used = 0;
        struct base_str body = {0};
        asked.last = gw_h1_message_feed(&request, (const uint8_t *)text + at, piece, &used, &body);
        if (asked.last == GW_H1_BODY) {
            strncat(body_text, body.data, body.size);
        }
        at += used;
        if (piece == 0 && used == 0) {
            break;
        }
    }
    if (asked.last == GW_H1_END) {
        snprintf(asked.text, sizeof(asked.text), "%.*s %.*s %d %d %s", (int)request.method.size,
                 request.method.data, (int)request.target.size, request.target.data, request.old,
                 request.keep_alive, body_text);
    }
    base_arena_done(&arena);
    return asked;
}

static void test_good_requests(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *is;
    } cases[] = {
        {"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET / 0 1 "},
        {"GET /a?b=c HTTP/1.1\r\nconnection: close\r\n\r\n", "GET /a?b=c 0 0 "},
        {"HEAD http://a/ HTTP/1.0\r\n\r\n", "HEAD http://a/ 1 0 "},
        {"GET /x HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", "GET /x 1 1 "},
        {"POST /x HTTP/1.1\r\ncontent-length: 3\r\n\r\nabc", "POST /x 0 1 abc"},
        {"POST /x HTTP/1.1\r\ncontent-length: 0\r\n\r\n", "POST /x 0 1 "},
        {"PUT /x HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n2;x=y\r\nab\r\n1\r\nc\r\n0\r\nt: "
         "u\r\n\r\n",
         "PUT /x 0 1 abc"},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        for (size_t step = 1; step < 90; step++) {
            struct asked asked = ask(cases[i].text, step);
            assert_string_equal(asked.text, cases[i].is);
        }
    }
}

static void test_bad_requests(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "GET /\r\n\r\n",
        "GET  / HTTP/1.1\r\n\r\n",
        "GET / x HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1 \r\n\r\n",
        "GET / HTTP/2.0\r\n\r\n",
        "GET / HTTP/1.x\r\n\r\n",
        "GET  HTTP/1.1\r\n\r\n",
        " / HTTP/1.1\r\n\r\n",
        "G\tT / HTTP/1.1\r\n\r\n",
        "GET /\x01 HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\n\n",
        "GET / HTTP/1.1\r\na : b\r\n\r\n",
        "GET / HTTP/1.1\r\n a: b\r\n\r\n",
        "POST / HTTP/1.1\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n",
        "POST / HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        "POST / HTTP/1.1\r\ntransfer-encoding: identity\r\n\r\n",
        "POST / HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n",
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        for (size_t step = 1; step < 60; step++) {
            if (ask(cases[i], step).last != GW_H1_BAD) {
                fail_msg("taken for good: %s", cases[i]);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_responses),
        cmocka_unit_test(test_bad_responses),
        cmocka_unit_test(test_cut_off_bodies_are_not_complete),
        cmocka_unit_test(test_heads_are_bounded),
        cmocka_unit_test(test_good_requests),
        cmocka_unit_test(test_bad_requests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
