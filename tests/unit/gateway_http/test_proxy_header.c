// The PROXY protocol's headers, whole and in pieces; sets of addresses; whom x-forwarded-for names.
#include "http/guard/address_set.h"
#include "http/parse/proxy_header.h"

#include "test_kit.h"

#define SIGNATURE "\r\n\r\n\0\r\nQUIT\n"
#define V4        "\xc0\x00\x02\x07\xc6\x33\x64\x01\xdc\x04\x01\xbb"

static struct gw_peer_address address(const char *text)
{
    struct gw_peer_address out;
    assert_int_equal(gw_address_parse(base_str_of(text), &out), BASE_OK);
    return out;
}

struct header_case {
    const char *bytes;
    size_t size;
    enum base_status status;
    size_t used;        // of an OK one
    const char *client; // NULL: none
};

#define HEADER(text, status, used, client)                                                         \
    {                                                                                              \
        text, sizeof(text) - 1, status, used, client                                               \
    }

static void test_headers(void **state)
{
    (void)state;
    static const struct header_case cases[] = {
        HEADER("PROXY TCP4 192.0.2.7 198.51.100.1 56324 443\r\nPRI", BASE_OK, 45, "192.0.2.7"),
        HEADER("PROXY TCP6 2001:db8::7 ::1 1 65535\r\n", BASE_OK, 36, "2001:db8::7"),
        HEADER("PROXY UNKNOWN\r\n", BASE_OK, 15, NULL),
        HEADER("PROXY UNKNOWN what ever\r\n", BASE_OK, 25, NULL),
        HEADER("PROXY TCP4 192.0.2.7 198.51.100.1 56324 443\n", BASE_ERR_INVALID, 0, NULL),
        HEADER("PROXY TCP4 192.0.2.7  198.51.100.1 56324 443\r\n", BASE_ERR_INVALID, 0, NULL),
        HEADER("PROXY TCP4 192.0.2.7 198.51.100.1 56324\r\n", BASE_ERR_INVALID, 0, NULL),
        HEADER("PROXY TCP4 192.0.2.7 198.51.100.1 56324 443 1\r\n", BASE_ERR_INVALID, 0, NULL),
        HEADER("PROXY TCP4 192.0.2.7 198.51.100.1 056 443\r\n", BASE_ERR_INVALID, 0, NULL),
        HEADER("PROXY TCP4 192.0.2.7 198.51.100.1 1 65536\r\n", BASE_ERR_INVALID, 0, NULL),
        HEADER("PROXY TCP4 2001:db8::7 ::1 1 2\r\n", BASE_ERR_INVALID, 0, NULL),
        HEADER("PROXY TCP5 192.0.2.7 198.51.100.1 1 2\r\n", BASE_ERR_INVALID, 0, NULL),
        HEADER("PROXY\r\n", BASE_ERR_INVALID, 0, NULL),
        HEADER("GET / HTTP/1.1\r\n", BASE_ERR_INVALID, 0, NULL),
        HEADER("\x16\x03\x01", BASE_ERR_INVALID, 0, NULL),
        HEADER(SIGNATURE "\x21\x11\0\x0c" V4 "PRI", BASE_OK, 28, "192.0.2.7"),
        HEADER(SIGNATURE "\x21\x12\0\x10" V4 "\x04\0\x01x", BASE_OK, 32, "192.0.2.7"),
        HEADER(SIGNATURE "\x20\x11\0\x0c" V4, BASE_OK, 28, NULL), // LOCAL
        HEADER(SIGNATURE "\x20\0\0\0", BASE_OK, 16, NULL),
        HEADER(SIGNATURE "\x21\0\0\0", BASE_OK, 16, NULL),                // unspecified
        HEADER(SIGNATURE "\x21\x11\0\x0b" V4, BASE_ERR_INVALID, 0, NULL), // too short for it
        HEADER(SIGNATURE "\x21\x21\0\x0c" V4, BASE_ERR_INVALID, 0, NULL),
        HEADER(SIGNATURE "\x21\x31\0\x0c" V4, BASE_ERR_INVALID, 0, NULL),
        HEADER(SIGNATURE "\x21\x41\0\x0c" V4, BASE_ERR_INVALID, 0, NULL), // no such family
        HEADER(SIGNATURE "\x21\x13\0\x0c" V4, BASE_ERR_INVALID, 0, NULL), // no such transport
        HEADER(SIGNATURE "\x22\x11\0\x0c" V4, BASE_ERR_INVALID, 0, NULL), // no such command
        HEADER(SIGNATURE "\x31\x11\0\x0c" V4, BASE_ERR_INVALID, 0, NULL), // no such version
        HEADER(SIGNATURE "\x21\x11\x02\x09", BASE_ERR_INVALID, 0, NULL),  // a byte too long
        HEADER(SIGNATURE "\x21\x11\x02\x08", BASE_ERR_BUSY, 0, NULL),
        HEADER("\r\n\r\n\0\r\nQUIX", BASE_ERR_INVALID, 0, NULL),
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct header_case *one = &cases[i];
        const uint8_t *bytes = (const uint8_t *)one->bytes;
        struct gw_proxy_header header;
        size_t used = 0;
        print_message("case %zu\n", i);
        assert_int_equal(gw_proxy_header_parse(bytes, one->size, &header, &used), one->status);
        if (one->status != BASE_OK) {
            continue;
        }
        assert_int_equal(used, one->used);
        assert_int_equal(header.has_client, one->client != NULL);
        if (one->client != NULL) {
            struct gw_peer_address client = address(one->client);
            assert_memory_equal(&header.client, &client, sizeof(client));
        }
        for (size_t part = 0; part < used; part++) {
            assert_int_equal(gw_proxy_header_parse(bytes, part, &header, &used), BASE_ERR_BUSY);
        }
    }
}

static void test_a_line_without_end(void **state)
{
    (void)state;
    uint8_t line[GW_PROXY_V1_MAX];
    struct gw_proxy_header header;
    size_t used;
    memset(line, 'A', sizeof(line));
    memcpy(line, "PROXY ", 6);
    assert_int_equal(gw_proxy_header_parse(line, sizeof(line) - 1, &header, &used), BASE_ERR_BUSY);
    assert_int_equal(gw_proxy_header_parse(line, sizeof(line), &header, &used), BASE_ERR_INVALID);
}

static void test_sets(void **state)
{
    (void)state;
    struct gw_address_set set;
    struct base_error error = {0};
    assert_int_equal(
        gw_address_set_parse(BASE_STR("10.0.0.0/8, 192.0.2.7 ,2001:db8::/32,::1"), &set, &error),
        BASE_OK);
    assert_int_equal(set.count, 4);
    static const struct {
        const char *text;
        bool in;
    } cases[] = {
        {"10.255.0.1", true},      {"11.0.0.1", false},   {"192.0.2.7", true}, {"192.0.2.6", false},
        {"2001:db8:ffff::", true}, {"2001:db9::", false}, {"::1", true},       {"::2", false},
        {"::ffff:10.0.0.1", true}, {"::10.0.0.1", false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct gw_peer_address one = address(cases[i].text);
        print_message("%s\n", cases[i].text);
        assert_int_equal(gw_address_set_has(&set, &one), cases[i].in);
    }
    assert_int_equal(gw_address_set_parse(BASE_STR("  "), &set, &error), BASE_OK);
    assert_int_equal(set.count, 0);
    assert_int_equal(gw_address_set_parse(BASE_STR("0.0.0.0/0"), &set, &error), BASE_OK);
    struct gw_peer_address v4 = address("203.0.113.1");
    struct gw_peer_address v6 = address("::2");
    assert_true(gw_address_set_has(&set, &v4));
    assert_false(gw_address_set_has(&set, &v6));
    static const char *const wrong[] = {
        ",",        "10.0.0.0/8,", "10.0.0.1/8", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/-1",
        "10.0.0/8", "[::1]",       "fe80::1%lo", "localhost",   "::/129",
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(gw_address_set_parse(base_str_of(wrong[i]), &set, &error),
                         BASE_ERR_INVALID);
        assert_true(error.text[0] != '\0');
    }
    char many[65 * 4];
    for (size_t i = 0; i < 65; i++) {
        memcpy(many + 4 * i, "::1,", 4);
    }
    assert_int_equal(gw_address_set_parse((struct base_str){many, 64 * 4 - 1}, &set, &error),
                     BASE_OK);
    assert_int_equal(gw_address_set_parse((struct base_str){many, 65 * 4 - 1}, &set, &error),
                     BASE_ERR_INVALID);
}

static void test_forwarded_for(void **state)
{
    (void)state;
    struct gw_address_set hops;
    struct base_error error;
    assert_int_equal(gw_address_set_parse(BASE_STR("10.0.0.0/8"), &hops, &error), BASE_OK);
    static const struct {
        const char *list;
        const char *client;
    } cases[] = {
        {"", "10.0.0.1"},
        {"192.0.2.7", "192.0.2.7"},
        {"203.0.113.9, 192.0.2.7", "192.0.2.7"},
        {"203.0.113.9,192.0.2.7 , 10.1.1.1,10.2.2.2", "192.0.2.7"},
        {"10.3.3.3, 10.2.2.2", "10.3.3.3"},
        {"192.0.2.7, unknown", "10.0.0.1"},
        {"192.0.2.7, unknown, 10.2.2.2", "10.2.2.2"},
        {"192.0.2.7, ", "10.0.0.1"},
        {"2001:db8::7", "2001:db8::7"},
    };
    struct gw_peer_address from = address("10.0.0.1");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct gw_peer_address client =
            gw_forwarded_client(&hops, &from, base_str_of(cases[i].list));
        struct gw_peer_address expected = address(cases[i].client);
        print_message("%s\n", cases[i].list);
        assert_memory_equal(&client, &expected, sizeof(client));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_headers),
        cmocka_unit_test(test_a_line_without_end),
        cmocka_unit_test(test_sets),
        cmocka_unit_test(test_forwarded_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
