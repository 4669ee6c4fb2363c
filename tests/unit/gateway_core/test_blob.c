// Serving blobs: entity tags, conditions, ranges, compression, the cache.
#include "core_rig.h"

#include "svc/content/blob_cache.h"

#include "base/prng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include <cmocka.h>

#define TEXT_BYTES   5000u
#define LARGE_BYTES  (300u * 1024)
#define MIDDLE_BYTES (1024u * 1024)
#define HUGE_BYTES   (9u * 1024 * 1024)

struct blobs {
    struct rig rig;
    uint8_t text[TEXT_BYTES]; // compressible
    uint8_t *large;           // not compressible, in a file
    char text_path[128];
    char large_path[128];
    char text_etag[GW_ETAG_MAX + 1];
    char zstd_etag[GW_ETAG_MAX + 1];
};

static struct blobs b;

static void put(const uint8_t *bytes, size_t size, char *path, size_t capacity, char *hex)
{
    struct wire_sha256 digest;
    struct base_error error = {0};
    bool created;
    gw_sha256(bytes, size, &digest);
    assert_int_equal(
        gw_blob_put(b.rig.core, &(struct gw_store_item){digest, bytes, size}, &created, &error),
        BASE_OK);
    wire_sha256_hex(&digest, hex);
    snprintf(path, capacity, "/v1/blob/%s", hex);
}

static int setup(void **state)
{
    (void)state;
    char hex[WIRE_SHA256_HEX + 1];
    struct base_prng prng;
    base_prng_seed(&prng, 1);
    rig_init(&b.rig);
    rig_start(&b.rig);
    for (size_t i = 0; i < TEXT_BYTES; i++) {
        b.text[i] = (uint8_t)("walle "[i % 6]);
    }
    b.large = malloc(LARGE_BYTES);
    assert_non_null(b.large);
    for (size_t i = 0; i < LARGE_BYTES; i++) {
        b.large[i] = (uint8_t)base_prng_next(&prng);
    }
    put(b.large, LARGE_BYTES, b.large_path, sizeof(b.large_path), hex);
    put(b.text, TEXT_BYTES, b.text_path, sizeof(b.text_path), hex);
    snprintf(b.text_etag, sizeof(b.text_etag), "\"%s\"", hex);
    snprintf(b.zstd_etag, sizeof(b.zstd_etag), "\"%s-zstd\"", hex);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    rig_done(&b.rig);
    free(b.large);
    return 0;
}

struct ask {
    const char *range;
    const char *if_none_match;
    const char *if_range;
    const char *accept_encoding;
    const char *dictionary;
};

static void get(const char *path, struct ask ask, struct rig_exchange *exchange)
{
    rig_exchange_init(exchange, GW_METHOD_GET, path);
    struct gw_request *request = &exchange->exchange.request;
    request->range = base_str_of(ask.range);
    request->if_none_match = base_str_of(ask.if_none_match);
    request->if_range = base_str_of(ask.if_range);
    request->accept_encoding = base_str_of(ask.accept_encoding);
    request->available_dictionary = base_str_of(ask.dictionary);
    rig_run(&b.rig, exchange);
}

static void expect_body(const struct rig_exchange *exchange, const uint8_t *bytes, uint64_t from,
                        uint64_t count)
{
    const struct gw_reply *reply = &exchange->exchange.reply;
    assert_int_equal(reply->kind, GW_REPLY_BLOB);
    assert_int_equal(reply->blob_from, from);
    assert_int_equal(reply->blob_bytes, count);
    uint64_t at = from;
    while (at < from + count) {
        size_t size;
        const uint8_t *data = gw_blob_bytes(reply->blob, at, &size);
        assert_non_null(data);
        assert_true(size > 0);
        size = size < from + count - at ? size : (size_t)(from + count - at);
        assert_memory_equal(data, bytes + at, size);
        at += size;
    }
    size_t size;
    assert_null(gw_blob_bytes(reply->blob, gw_blob_size(reply->blob), &size));
}

static void expect_header(const struct rig_exchange *exchange, const char *name, const char *value)
{
    struct base_str got = rig_header(exchange, name);
    if (!base_str_equal(got, base_str_of(value))) {
        print_error("%s: got %.*s, want %s\n", name, (int)got.size, got.data, value);
    }
    assert_true(base_str_equal(got, base_str_of(value)));
}

static void test_whole(void **state)
{
    (void)state;
    struct rig_exchange exchange;
    get(b.text_path, (struct ask){0}, &exchange);
    assert_int_equal(exchange.exchange.reply.status, 200);
    expect_header(&exchange, "etag", b.text_etag);
    expect_header(&exchange, "cache-control", "public, max-age=31536000, immutable");
    expect_header(&exchange, "vary", "accept-encoding, available-dictionary");
    expect_body(&exchange, b.text, 0, TEXT_BYTES);
    rig_exchange_done(&exchange);
    get(b.large_path, (struct ask){0}, &exchange);
    expect_body(&exchange, b.large, 0, LARGE_BYTES);
    rig_exchange_done(&exchange);
    get("/v1/blob/0000000000000000000000000000000000000000000000000000000000000000",
        (struct ask){0}, &exchange);
    assert_int_equal(exchange.exchange.reply.status, 404);
    rig_exchange_done(&exchange);
}

static void test_not_modified(void **state)
{
    (void)state;
    const char *const lists[] = {b.text_etag, "*", NULL, NULL};
    char weak[GW_ETAG_MAX + 4];
    char list[2 * GW_ETAG_MAX];
    snprintf(weak, sizeof(weak), "W/%s", b.text_etag);
    snprintf(list, sizeof(list), "\"x\" , %s,\"y\"", b.text_etag);
    for (int i = 0; i < 4; i++) {
        struct rig_exchange exchange;
        const char *value = i == 2 ? weak : i == 3 ? list : lists[i];
        get(b.text_path, (struct ask){.if_none_match = value}, &exchange);
        assert_int_equal(exchange.exchange.reply.status, 304);
        expect_header(&exchange, "etag", b.text_etag);
        assert_int_equal(exchange.exchange.reply.kind, GW_REPLY_BYTES);
        rig_exchange_done(&exchange);
    }
    struct rig_exchange exchange;
    get(b.text_path, (struct ask){.if_none_match = "\"other\""}, &exchange);
    assert_int_equal(exchange.exchange.reply.status, 200);
    rig_exchange_done(&exchange);
}

static void test_ranges(void **state)
{
    (void)state;
    static const struct {
        const char *range;
        int status;
        uint64_t from;
        uint64_t count;
        const char *content_range;
    } cases[] = {
        {"bytes=0-0", 206, 0, 1, "bytes 0-0/5000"},
        {"bytes=100-199", 206, 100, 100, "bytes 100-199/5000"},
        {"bytes=4990-", 206, 4990, 10, "bytes 4990-4999/5000"},
        {"bytes=4990-99999", 206, 4990, 10, "bytes 4990-4999/5000"},
        {"bytes=-5", 206, 4995, 5, "bytes 4995-4999/5000"},
        {"bytes=-99999", 206, 0, 5000, "bytes 0-4999/5000"},
        {"bytes=5000-", 416, 0, 0, "bytes */5000"},
        {"bytes=-0", 416, 0, 0, "bytes */5000"},
        {"bytes=0-1,5-6", 200, 0, 5000, ""},
        {"bytes=5-4", 200, 0, 5000, ""},
        {"bytes=a-b", 200, 0, 5000, ""},
        {"bytes=", 200, 0, 5000, ""},
        {"bytes=-", 200, 0, 5000, ""},
        {"lines=1-2", 200, 0, 5000, ""},
        {"bytes=18446744073709551616-", 200, 0, 5000, ""},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rig_exchange exchange;
        get(b.text_path, (struct ask){.range = cases[i].range, .accept_encoding = "zstd"},
            &exchange);
        assert_int_equal(exchange.exchange.reply.status, cases[i].status);
        expect_header(&exchange, "content-range", cases[i].content_range);
        expect_header(&exchange, "content-encoding", "");
        if (cases[i].status != 416) {
            expect_body(&exchange, b.text, cases[i].from, cases[i].count);
            expect_header(&exchange, "etag", b.text_etag);
        }
        rig_exchange_done(&exchange);
    }
}

static void test_if_range(void **state)
{
    (void)state;
    struct rig_exchange exchange;
    get(b.text_path, (struct ask){.range = "bytes=10-", .if_range = b.text_etag}, &exchange);
    assert_int_equal(exchange.exchange.reply.status, 206);
    rig_exchange_done(&exchange);
    get(b.text_path, (struct ask){.range = "bytes=10-", .if_range = "\"other\""}, &exchange);
    assert_int_equal(exchange.exchange.reply.status, 200);
    rig_exchange_done(&exchange);
    get(b.text_path, (struct ask){.range = "bytes=10-", .if_range = b.zstd_etag}, &exchange);
    assert_int_equal(exchange.exchange.reply.status, 200);
    rig_exchange_done(&exchange);
}

static void test_zstd(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) { // made, then from the cache
        struct rig_exchange exchange;
        get(b.text_path, (struct ask){.accept_encoding = "gzip, zstd;q=0.5, br"}, &exchange);
        const struct gw_reply *reply = &exchange.exchange.reply;
        assert_int_equal(reply->status, 200);
        expect_header(&exchange, "content-encoding", "zstd");
        expect_header(&exchange, "etag", b.zstd_etag);
        expect_header(&exchange, "vary", "accept-encoding, available-dictionary");
        assert_true(reply->blob_bytes < TEXT_BYTES / 2);
        size_t size;
        const uint8_t *bytes = gw_blob_bytes(reply->blob, 0, &size);
        static uint8_t plain[TEXT_BYTES];
        assert_int_equal(ZSTD_decompress(plain, sizeof(plain), bytes, size), TEXT_BYTES);
        assert_memory_equal(plain, b.text, TEXT_BYTES);
        rig_exchange_done(&exchange);
    }
    struct rig_exchange exchange;
    get(b.text_path, (struct ask){.accept_encoding = "zstd", .if_none_match = b.zstd_etag},
        &exchange);
    assert_int_equal(exchange.exchange.reply.status, 304);
    expect_header(&exchange, "etag", b.zstd_etag);
    rig_exchange_done(&exchange);
    static const char *const refuse[] = {"gzip", "zstd;q=0", "zstd;q=0.000", "", "zstdx"};
    for (size_t i = 0; i < 5; i++) {
        get(b.text_path, (struct ask){.accept_encoding = refuse[i]}, &exchange);
        expect_header(&exchange, "content-encoding", "");
        rig_exchange_done(&exchange);
    }
    // Noise does not compress: sent as it is, and not tried again.
    get(b.large_path, (struct ask){.accept_encoding = "zstd"}, &exchange);
    expect_header(&exchange, "content-encoding", "");
    expect_body(&exchange, b.large, 0, LARGE_BYTES);
    assert_false(gw_blob_may_compress(exchange.exchange.reply.blob));
    rig_exchange_done(&exchange);
}

// ---- Deltas (RFC 9842)

#define DICTIONARY_TEXT_MAX 64

// The header's value, by the alphabet of RFC 4648 section 4, bit by bit.
static void dictionary_text(const uint8_t *bytes, size_t size, char out[DICTIONARY_TEXT_MAX])
{
    static const char alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    struct wire_sha256 digest;
    size_t at = 0;
    gw_sha256(bytes, size, &digest);
    out[at++] = ':';
    for (unsigned bit = 0; bit < 8 * WIRE_SHA256_BYTES; bit += 6) {
        unsigned value = 0;
        for (unsigned i = bit; i < bit + 6; i++) {
            unsigned byte = i < 8 * WIRE_SHA256_BYTES ? digest.bytes[i / 8] : 0;
            value = value << 1 | (byte >> (7 - i % 8) & 1);
        }
        out[at++] = alphabet[value];
    }
    memcpy(out + at, "=:", 3);
}

// The large blob with one byte in a hundred changed, as a retrained model has.
static uint8_t *next_model(void)
{
    uint8_t *bytes = malloc(LARGE_BYTES);
    assert_non_null(bytes);
    memcpy(bytes, b.large, LARGE_BYTES);
    for (size_t i = 0; i < LARGE_BYTES; i += 100) {
        bytes[i] ^= 0x5a;
    }
    return bytes;
}

static void expect_delta_makes(const struct rig_exchange *exchange, const uint8_t *wanted)
{
    const struct gw_reply *reply = &exchange->exchange.reply;
    struct wire_sha256 digest;
    size_t size;
    const uint8_t *bytes = gw_blob_bytes(reply->blob, 0, &size);
    gw_sha256(b.large, LARGE_BYTES, &digest);
    assert_memory_equal(bytes, "\x5e\x2a\x4d\x18\x20\0\0\0", 8);
    assert_memory_equal(bytes + 8, digest.bytes, WIRE_SHA256_BYTES);
    uint8_t *plain = malloc(LARGE_BYTES);
    ZSTD_DCtx *context = ZSTD_createDCtx();
    assert_non_null(plain);
    assert_non_null(context);
    assert_false(ZSTD_isError(ZSTD_DCtx_refPrefix(context, b.large, LARGE_BYTES)));
    assert_int_equal(ZSTD_decompressDCtx(context, plain, LARGE_BYTES, bytes + 40, size - 40),
                     LARGE_BYTES);
    assert_memory_equal(plain, wanted, LARGE_BYTES);
    ZSTD_freeDCtx(context);
    free(plain);
}

static void test_delta(void **state)
{
    (void)state;
    char path[128];
    char hex[WIRE_SHA256_HEX + 1];
    char dictionary[DICTIONARY_TEXT_MAX];
    uint8_t *model = next_model();
    put(model, LARGE_BYTES, path, sizeof(path), hex);
    dictionary_text(b.large, LARGE_BYTES, dictionary);
    struct ask ask = {.accept_encoding = "zstd, dcz", .dictionary = dictionary};
    uint64_t delta_bytes = 0;
    for (int i = 0; i < 2; i++) { // made, then from the cache
        struct rig_exchange exchange;
        get(path, ask, &exchange);
        const struct gw_reply *reply = &exchange.exchange.reply;
        assert_int_equal(reply->status, 200);
        expect_header(&exchange, "content-encoding", "dcz");
        expect_header(&exchange, "accept-ranges", "bytes");
        assert_true(reply->blob_bytes < LARGE_BYTES / 10);
        expect_delta_makes(&exchange, model);
        delta_bytes = reply->blob_bytes;
        rig_exchange_done(&exchange);
    }
    // The rest of a delta that was interrupted.
    struct rig_exchange exchange;
    char rest[64];
    ask.range = "bytes=1000-";
    get(path, ask, &exchange);
    assert_int_equal(exchange.exchange.reply.status, 206);
    expect_header(&exchange, "content-encoding", "dcz");
    snprintf(rest, sizeof(rest), "bytes 1000-%llu/%llu", (unsigned long long)delta_bytes - 1,
             (unsigned long long)delta_bytes);
    expect_header(&exchange, "content-range", rest);
    assert_int_equal(exchange.exchange.reply.blob_bytes, delta_bytes - 1000);
    rig_exchange_done(&exchange);
    free(model);
}

// Every number moved a little: no bytes in a row are as they were.
static uint8_t *moved_model(void)
{
    uint8_t *bytes = malloc(LARGE_BYTES);
    assert_non_null(bytes);
    for (uint32_t i = 0; i < LARGE_BYTES; i += sizeof(uint32_t)) {
        uint32_t number;
        memcpy(&number, b.large + i, sizeof(number));
        number += i / 4 % 50 * 9973; // three of its bytes change
        memcpy(bytes + i, &number, sizeof(number));
    }
    return bytes;
}

// Which coding a client gets depends on what it reads, and then on which is smaller.
static void test_delta_coding(void **state)
{
    (void)state;
    char moved_path[128];
    char changed_path[128];
    char hex[WIRE_SHA256_HEX + 1];
    char dictionary[DICTIONARY_TEXT_MAX];
    uint8_t *moved = moved_model();
    uint8_t *changed = next_model();
    put(changed, LARGE_BYTES, changed_path, sizeof(changed_path), hex);
    put(moved, LARGE_BYTES, moved_path, sizeof(moved_path), hex);
    dictionary_text(b.large, LARGE_BYTES, dictionary);
    const struct {
        const char *path;
        const char *accept;
        const char *coding;
    } cases[] = {
        {moved_path, "wdelta, dcz", "wdelta"},
        {moved_path, "dcz, wdelta", "wdelta"},
        {moved_path, "wdelta", "wdelta"},
        {moved_path, "dcz", ""},
        {moved_path, "wdelta;q=0, dcz", ""},
        {moved_path, "wdeltas", ""},
        {changed_path, "dcz", "dcz"},
        {changed_path, "wdelta;q=1", "wdelta"},
        {changed_path, "zstd, wdelta", "wdelta"},
    };
    for (size_t i = 0; i < 2 * sizeof(cases) / sizeof(cases[0]); i++) { // made, then cached
        struct rig_exchange exchange;
        size_t k = i / 2;
        get(cases[k].path,
            (struct ask){.accept_encoding = cases[k].accept, .dictionary = dictionary}, &exchange);
        const struct gw_reply *reply = &exchange.exchange.reply;
        assert_int_equal(reply->status, 200);
        expect_header(&exchange, "content-encoding", cases[k].coding);
        expect_header(&exchange, "accept-ranges", "bytes");
        if (cases[k].coding[0] != '\0') {
            char part[16];
            struct base_str etag = rig_header(&exchange, "etag");
            snprintf(part, sizeof(part), "-%s-", cases[k].coding);
            assert_non_null(memmem(etag.data, etag.size, part, strlen(part)));
            assert_true(reply->blob_bytes < LARGE_BYTES / 2);
        } else {
            assert_int_equal(reply->blob_bytes, LARGE_BYTES);
        }
        rig_exchange_done(&exchange);
    }
    free(moved);
    free(changed);
}

// The first to ask for the delta of a large file gets it.
static void test_delta_of_large_content(void **state)
{
    (void)state;
    char path[128];
    char hex[WIRE_SHA256_HEX + 1];
    char dictionary[DICTIONARY_TEXT_MAX];
    struct base_prng prng;
    uint8_t *old = malloc(HUGE_BYTES);
    assert_non_null(old);
    base_prng_seed(&prng, 2);
    for (size_t i = 0; i < HUGE_BYTES; i++) {
        old[i] = (uint8_t)base_prng_next(&prng);
    }
    put(old, HUGE_BYTES, path, sizeof(path), hex);
    dictionary_text(old, HUGE_BYTES, dictionary);
    for (size_t i = 1; i <= 8; i++) {
        old[i * (HUGE_BYTES / 8) - 1] ^= 0x5a;
    }
    put(old, HUGE_BYTES, path, sizeof(path), hex);
    static const char *const codings[] = {"dcz", "wdelta"};
    for (size_t i = 0; i < 2; i++) {
        struct rig_exchange exchange;
        get(path, (struct ask){.accept_encoding = codings[i], .dictionary = dictionary}, &exchange);
        expect_header(&exchange, "content-encoding", codings[i]);
        assert_true(exchange.exchange.reply.blob_bytes < 4000);
        rig_exchange_done(&exchange);
    }
    free(old);
}

// A delta costs more to have again than the files, which are only mapped: other files, however
// many are asked for, do not take its place.
static void test_deltas_outlive_files(void **state)
{
    (void)state;
    struct wire_sha256 digests[6];
    struct gw_blob *blob = NULL;
    uint8_t *bytes = calloc(1, MIDDLE_BYTES);
    assert_non_null(bytes);
    gw_blob_cache_limit(b.rig.core, MIDDLE_BYTES + MIDDLE_BYTES / 2);
    for (uint8_t i = 0; i < 6; i++) {
        char path[128];
        char hex[WIRE_SHA256_HEX + 1];
        bytes[MIDDLE_BYTES / 2] = i;
        put(bytes, MIDDLE_BYTES, path, sizeof(path), hex);
        gw_sha256(bytes, MIDDLE_BYTES, &digests[i]);
    }
    struct gw_delta_name name = {
        .digest = digests[0], .dictionary = digests[1], .codings = GW_CODING_WDELTA};
    assert_int_equal(gw_blob_make_delta(b.rig.core, &name, &blob), BASE_OK);
    gw_blob_release(blob);
    for (uint32_t i = 2; i < 6; i++) {
        assert_int_equal(gw_blob_open(b.rig.core, &digests[i], &blob), BASE_OK);
        gw_blob_release(blob);
    }
    bool useless = false;
    blob = gw_blob_cached_delta(b.rig.core, &name, &useless);
    assert_non_null(blob);
    gw_blob_release(blob);
    free(bytes);
}

static void test_no_delta(void **state)
{
    (void)state;
    char dictionary[DICTIONARY_TEXT_MAX];
    char unknown[DICTIONARY_TEXT_MAX];
    dictionary_text(b.text, TEXT_BYTES, dictionary);
    dictionary_text((const uint8_t *)"nobody has this", 15, unknown);
    static const char *const malformed[] = {"",
                                            ":",
                                            "::",
                                            ":AA==:",
                                            "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
                                            ":____________________________________________=:",
                                            ":AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAB=:"};
    // A dictionary that does not help (twice: the second time it is known), one that is not there,
    // one that is no dictionary, and a client that does not speak dcz.
    const char *values[4 + sizeof(malformed) / sizeof(malformed[0])] = {dictionary, dictionary,
                                                                        unknown, dictionary};
    memcpy(&values[4], malformed, sizeof(malformed));
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        struct rig_exchange exchange;
        get(b.large_path,
            (struct ask){.accept_encoding = i == 3 ? "gzip, dcz;q=0" : "dcz",
                         .dictionary = values[i]},
            &exchange);
        assert_int_equal(exchange.exchange.reply.status, 200);
        expect_header(&exchange, "content-encoding", "");
        expect_body(&exchange, b.large, 0, LARGE_BYTES);
        rig_exchange_done(&exchange);
    }
}

static void test_wrong_hash_is_refused(void **state)
{
    (void)state;
    struct wire_sha256 digest = {{1}};
    struct base_error error = {0};
    bool created;
    assert_int_equal(
        gw_blob_put(b.rig.core, &(struct gw_store_item){digest, b.text, 10}, &created, &error),
        BASE_ERR_HASH);
    assert_false(gw_blob_held(b.rig.core, 0, &digest));
    assert_non_null(strstr(error.text, "have the hash"));
}

static void test_empty_blob(void **state)
{
    (void)state;
    char path[128];
    char hex[WIRE_SHA256_HEX + 1];
    struct rig_exchange exchange;
    put((const uint8_t *)"", 0, path, sizeof(path), hex);
    get(path, (struct ask){0}, &exchange);
    assert_int_equal(exchange.exchange.reply.status, 200);
    assert_int_equal(exchange.exchange.reply.body_bytes, 0);
    assert_int_equal(exchange.exchange.reply.kind, GW_REPLY_BYTES);
    rig_exchange_done(&exchange);
    get(path, (struct ask){.range = "bytes=0-"}, &exchange);
    assert_int_equal(exchange.exchange.reply.status, 416);
    rig_exchange_done(&exchange);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_whole, setup, teardown),
        cmocka_unit_test_setup_teardown(test_not_modified, setup, teardown),
        cmocka_unit_test_setup_teardown(test_ranges, setup, teardown),
        cmocka_unit_test_setup_teardown(test_if_range, setup, teardown),
        cmocka_unit_test_setup_teardown(test_zstd, setup, teardown),
        cmocka_unit_test_setup_teardown(test_delta, setup, teardown),
        cmocka_unit_test_setup_teardown(test_delta_coding, setup, teardown),
        cmocka_unit_test_setup_teardown(test_delta_of_large_content, setup, teardown),
        cmocka_unit_test_setup_teardown(test_deltas_outlive_files, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_delta, setup, teardown),
        cmocka_unit_test_setup_teardown(test_wrong_hash_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_empty_blob, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
