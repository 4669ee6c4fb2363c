// A small version in one answer: manifest and files as they are fetched one by one, no more than
// fit, and nothing that is for one device alone.
#include "core_rig.h"

#include "svc/content/blob_cache.h"
#include "wire/manifest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define FILES_MAX 4
#define ALL_MAX   (2 * GW_BLOB_WHOLE_MAX)

static struct rig rig;
static struct wire_manifest manifest;
static uint8_t all[ALL_MAX]; // what a whole answer has, were there no limit
static size_t all_bytes;
static size_t manifest_bytes;
static char path[128];

static int setup(void **state)
{
    (void)state;
    rig_init(&rig);
    rig_start(&rig);
    memset(&manifest, 0, sizeof(manifest));
    manifest.task_name = BASE_STR("shop/score");
    manifest.version = BASE_STR("1.0.0");
    manifest.runtime_abi = WIRE_RUNTIME_ABI;
    manifest.entry = BASE_STR("a");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    rig_done(&rig);
    return 0;
}

static void put(const uint8_t *bytes, size_t size, bool exclusive, struct wire_sha256 *out)
{
    struct base_error error = {0};
    bool created = false;
    gw_sha256(bytes, size, out);
    const struct gw_store_item item = {*out, bytes, size};
    assert_int_equal(exclusive
                         ? gw_blob_put_exclusive(rig.core, rig.tenant, &item, &created, &error)
                         : gw_blob_put(rig.core, &item, &created, &error),
                     BASE_OK);
}

// Of so many bytes; all files differ.
static void add_file(size_t size, bool exclusive, bool stored)
{
    static const char *const names[FILES_MAX] = {"a.mpy", "b.bin", "c.bin", "d.bin"};
    uint32_t at = manifest.file_count++;
    struct wire_manifest_file *file = &manifest.files[at];
    uint8_t *bytes = malloc(size + 1);
    assert_non_null(bytes);
    memset(bytes, 'a' + (int)at, size);
    file->kind = at == 0 ? WIRE_FILE_SCRIPT : WIRE_FILE_DATA;
    file->name = base_str_of(names[at]);
    file->bytes = size;
    gw_sha256(bytes, size, &file->digest);
    if (stored) {
        put(bytes, size, exclusive, &file->digest);
    }
    free(bytes);
}

// Stores the manifest; `path` and `all` are what is asked for and what may come.
static void finish(void)
{
    struct wire_sha256 name;
    assert_int_equal(wire_manifest_encode(&manifest, all, sizeof(all), &manifest_bytes), BASE_OK);
    put(all, manifest_bytes, false, &name);
    all_bytes = manifest_bytes;
    for (uint32_t i = 0; i < manifest.file_count; i++) {
        size_t size = (size_t)manifest.files[i].bytes;
        assert_true(size <= sizeof(all) - all_bytes);
        memset(all + all_bytes, 'a' + (int)i, size);
        all_bytes += size;
    }
    (void)snprintf(path, sizeof(path), "/v1/blob/");
    wire_sha256_hex(&name, path + strlen(path));
    strcat(path, "/files");
}

// `whole`: nothing is left out for not being there, so nothing will come to it.
static void expect_caching(const struct rig_exchange *exchange, size_t size, bool whole)
{
    char etag[GW_ETAG_MAX];
    struct base_str caching = rig_header(exchange, "cache-control");
    (void)snprintf(etag, sizeof(etag), "\"%.64s-files-%zu\"", path + strlen("/v1/blob/"), size);
    assert_true(base_str_equal(rig_header(exchange, "etag"), base_str_of(etag)));
    assert_true(base_str_equal(caching, whole ? BASE_STR("public, max-age=31536000, immutable")
                                              : BASE_STR("no-store")));
}

static void expect_caches(size_t size, bool whole)
{
    for (int i = 0; i < 2; i++) { // made, and from the cache
        struct rig_exchange exchange;
        rig_exchange_init(&exchange, GW_METHOD_GET, path);
        exchange.exchange.request.accept_encoding = BASE_STR("zstd, dcz");
        rig_run(&rig, &exchange);
        const struct gw_reply *reply = &exchange.exchange.reply;
        size_t got = 0;
        assert_int_equal(reply->status, 200);
        assert_int_equal(reply->blob_bytes, size);
        const uint8_t *bytes = gw_blob_bytes(reply->blob, 0, &got);
        assert_int_equal(got, size);
        assert_memory_equal(bytes, all, size);
        assert_int_equal(rig_header(&exchange, "content-encoding").size, 0);
        expect_caching(&exchange, size, whole);
        rig_exchange_done(&exchange);
    }
}

static void expect_answer(size_t size)
{
    expect_caches(size, true);
}

static int status_of(const char *asked)
{
    struct rig_exchange exchange;
    rig_exchange_init(&exchange, GW_METHOD_GET, asked);
    rig_run(&rig, &exchange);
    int status = exchange.exchange.reply.status;
    rig_exchange_done(&exchange);
    return status;
}

static void test_manifest_and_files(void **state)
{
    (void)state;
    add_file(300, false, true);
    add_file(0, false, true);
    add_file(5000, false, true);
    finish();
    expect_answer(all_bytes);
}

static void test_as_many_as_fit(void **state)
{
    (void)state;
    add_file(100, false, true);
    add_file(GW_BLOB_WHOLE_MAX, false, true);
    add_file(10, false, true);
    finish();
    expect_answer(manifest_bytes + 100);
}

// To the last byte.
static void test_exactly_as_many(void **state)
{
    (void)state;
    add_file(100, false, true);
    add_file(1000, false, true);
    finish();
    size_t left = GW_BLOB_WHOLE_MAX - all_bytes;
    add_file(left - 100, false, true); // its entry makes the manifest longer
    finish();
    left = GW_BLOB_WHOLE_MAX - (all_bytes - (left - 100));
    manifest.file_count--;
    add_file(left, false, true);
    finish();
    assert_int_equal(all_bytes, GW_BLOB_WHOLE_MAX);
    expect_answer(GW_BLOB_WHOLE_MAX);
    manifest.file_count--;
    add_file(left + 1, false, true);
    finish();
    expect_answer(manifest_bytes + 1100);
}

// Exclusive content may become public.
static void test_nothing_exclusive(void **state)
{
    (void)state;
    add_file(100, false, true);
    add_file(200, true, true);
    add_file(300, false, true);
    finish();
    expect_caches(manifest_bytes + 100, false);
    uint8_t bytes[200];
    memset(bytes, 'b', sizeof(bytes));
    put(bytes, sizeof(bytes), false, &manifest.files[1].digest);
    expect_answer(all_bytes);
}

static void test_nothing_before_the_proof(void **state)
{
    (void)state;
    add_file(100, false, true);
    manifest.exclusive = WIRE_EXCLUSIVE_OPTIONAL;
    memset(manifest.exclusive_root.bytes, 7, sizeof(manifest.exclusive_root.bytes));
    finish();
    expect_answer(manifest_bytes);
}

// A manifest may be there before its files.
static void test_a_file_that_comes_later(void **state)
{
    (void)state;
    add_file(100, false, true);
    add_file(200, false, false);
    add_file(300, false, true);
    finish();
    expect_caches(manifest_bytes + 100, false);
    uint8_t bytes[200];
    memset(bytes, 'b', sizeof(bytes));
    put(bytes, sizeof(bytes), false, &manifest.files[1].digest);
    expect_answer(all_bytes);
}

// Who has the short answer gets the longer one, and not "not modified".
static void test_the_tag_is_of_the_bytes(void **state)
{
    (void)state;
    struct rig_exchange exchange;
    char etag[GW_ETAG_MAX];
    add_file(100, false, true);
    add_file(200, false, false);
    finish();
    (void)snprintf(etag, sizeof(etag), "\"%.64s-files-%zu\"", path + strlen("/v1/blob/"),
                   manifest_bytes + 100);
    uint8_t bytes[200];
    memset(bytes, 'b', sizeof(bytes));
    for (int later = 0; later < 2; later++) {
        rig_exchange_init(&exchange, GW_METHOD_GET, path);
        exchange.exchange.request.if_none_match = base_str_of(etag);
        rig_run(&rig, &exchange);
        assert_int_equal(exchange.exchange.reply.status, later ? 200 : 304);
        rig_exchange_done(&exchange);
        put(bytes, sizeof(bytes), false, &manifest.files[1].digest);
    }
    path[strlen(path) - strlen("/files")] = '\0'; // the manifest alone is another representation
    rig_exchange_init(&exchange, GW_METHOD_GET, path);
    rig_run(&rig, &exchange);
    assert_int_equal(rig_header(&exchange, "etag").size, WIRE_SHA256_HEX + 2);
    rig_exchange_done(&exchange);
}

static void test_no_version(void **state)
{
    (void)state;
    static const uint8_t text[] = "no manifest";
    struct wire_sha256 name;
    char asked[160] = "/v1/blob/";
    put(text, sizeof(text), false, &name);
    wire_sha256_hex(&name, asked + strlen(asked));
    assert_int_equal(status_of(asked), 200);
    strcat(asked, "/files");
    assert_int_equal(status_of(asked), 404);
    asked[strlen(asked) - 1] = 'z';
    assert_int_equal(status_of(asked), 400);
    asked[strlen(asked) - 1] = '\0';
    assert_int_equal(status_of(asked), 400);
    assert_int_equal(status_of("/v1/blob//files"), 400);
    asked[9] = asked[9] == '0' ? '1' : '0';
    strcat(asked, "s");
    assert_int_equal(status_of(asked), 404);
    put(text, sizeof(text) - 1, true, &name);
    (void)snprintf(asked, sizeof(asked), "/v1/blob/");
    wire_sha256_hex(&name, asked + strlen(asked));
    strcat(asked, "/files");
    assert_int_equal(status_of(asked), 404);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_manifest_and_files),       CASE(test_as_many_as_fit),
        CASE(test_exactly_as_many),          CASE(test_nothing_exclusive),
        CASE(test_nothing_before_the_proof), CASE(test_a_file_that_comes_later),
        CASE(test_the_tag_is_of_the_bytes),  CASE(test_no_version),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
