// All of a small version in one answer: what a device makes of it however it is cut, changed,
// lengthened or broken off, and that nothing runs but what was signed.
#include "device_rig.h"

#include "core/base/runtime.h"
#include "core/pull/pull_state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TASK      "demo/score"
#define OTHER     "demo/other"
#define FILES     4
#define CALLS_MAX 400
#define SECOND_US 1000000ull

static struct rig one;
static struct rig *rig = &one;

// How all of a version is answered.
static struct {
    uint32_t asked;
    size_t step;           // bytes that come at once; 0: all
    size_t cut;            // the answer ends after so many bytes; SIZE_MAX: not
    enum base_status ends; // how
    size_t flip;           // this byte is another one; SIZE_MAX: none
    size_t extra;          // so many bytes follow the last file
    uint32_t files;        // so many are behind the manifest
    int status;            // 0: 200
    uint64_t length_off;   // the length is said to be so much more
} gateway;

static size_t all_of(const struct rig_version *version, uint8_t *out)
{
    size_t size = version->size;
    memcpy(out, version->bytes, size);
    for (uint32_t i = 0; i < version->file_count && i < gateway.files; i++) {
        memcpy(out + size, version->files[i].bytes, version->files[i].size);
        size += version->files[i].size;
    }
    memset(out + size, 'x', gateway.extra);
    return size + gateway.extra;
}

static bool is_open(const struct mem_exchange *exchange, uint32_t id)
{
    return !rig->port.killed && exchange->state == MEM_EXCHANGE_OPEN && exchange->id == id;
}

static void serve_whole(struct rig *served, struct mem_exchange *exchange)
{
    static uint8_t bytes[65536];
    uint32_t id = exchange->id;
    gateway.asked++;
    if (gateway.status != 0) {
        rig_answer(served, exchange, gateway.status);
        return;
    }
    const struct rig_version *version = NULL;
    for (uint32_t i = 0; i < served->version_count; i++) {
        char path[128] = "/v1/blob/";
        wire_sha256_hex(&served->versions[i].manifest, path + strlen(path));
        strcat(path, "/files");
        version = strcmp(path, exchange->path) == 0 ? &served->versions[i] : version;
    }
    assert_non_null(version);
    size_t size = all_of(version, bytes);
    struct dev_response_head head = {.status = 200, .content_bytes = size + gateway.length_off};
    size_t end = gateway.cut < size ? gateway.cut : size;
    size_t step = gateway.step > 0 ? gateway.step : end;
    if (gateway.flip < size) {
        bytes[gateway.flip] ^= 0x10;
    }
    dev_on_head(served->runtime, id, &head);
    for (size_t at = 0; at < end && is_open(exchange, id); at += step) {
        dev_on_body(served->runtime, id, bytes + at, step < end - at ? step : end - at);
    }
    if (is_open(exchange, id)) {
        mem_exchange_end(&served->port, served->runtime, exchange,
                         end < size ? gateway.ends : BASE_OK);
    }
}

static int teardown(void **state)
{
    (void)state;
    rig_done(rig);
    return 0;
}

static void offer(const char *task, uint32_t version, uint64_t counter)
{
    struct rig_statement statement = {
        .task = task, .version = version, .counter = counter, .rollout_id = counter};
    rig_offer(rig, &statement);
}

// A device with nothing, and a version of four files offered.
static void begin(void)
{
    static const uint8_t empty[1];
    memset(&gateway, 0, sizeof(gateway));
    gateway.cut = SIZE_MAX;
    gateway.flip = SIZE_MAX;
    gateway.files = FILES;
    rig_init(rig);
    rig->whole = serve_whole;
    rig_version_add(rig, TASK, FILES, 40, WIRE_RUNTIME_ABI, 0);
    rig->model = empty; // the second file of the next one
    rig_version_add(rig, TASK, FILES, 70, WIRE_RUNTIME_ABI, 0);
    rig->model = NULL;
    rig_version_add(rig, OTHER, 2, 40, WIRE_RUNTIME_ABI, 0);
    rig_boot(rig);
    offer(TASK, 0, 1);
}

static size_t size_of(uint32_t version)
{
    static uint8_t bytes[65536];
    return all_of(&rig->versions[version], bytes);
}

// It runs, brought by so many requests for all of it and so many for one blob.
static void expect_brought(uint32_t whole, uint32_t blobs)
{
    rig_checkin(rig);
    assert_int_equal(rig_active(rig, TASK), 0);
    assert_true(rig->versions[0].runs > 0);
    assert_false(rig->ran_unverified);
    assert_int_equal(rig_count(rig, WIRE_OUTCOME_FAIL_VERIFY), 0);
    assert_int_equal(rig_count(rig, WIRE_OUTCOME_FAIL_DOWNLOAD), 0);
    assert_int_equal(gateway.asked, whole);
    if (blobs != UINT32_MAX) {
        assert_int_equal(rig->blob_requests, blobs);
    }
    assert_int_equal(mem_blob_count(&rig->port), 1 + FILES);
    rig_done(rig);
    begin();
}

// ---- How it comes

static void test_one_request_however_it_is_cut(void **state)
{
    (void)state;
    begin();
    for (size_t step = 0; step < 64; step++) {
        gateway.step = step;
        expect_brought(1, 0);
    }
}

static void test_whoever_does_not_know_it_is_asked_for_each(void **state)
{
    (void)state;
    static const int statuses[] = {400, 404, 405};
    begin();
    for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++) {
        gateway.status = statuses[i];
        expect_brought(1, 1 + FILES);
    }
    rig->whole = NULL;
    expect_brought(0, 1 + FILES);
}

static void test_what_does_not_come_is_asked_for(void **state)
{
    (void)state;
    begin();
    for (uint32_t files = 0; files <= FILES; files++) {
        gateway.files = files;
        expect_brought(1, FILES - files);
    }
}

// An empty file takes no bytes of the answer.
static void test_empty_file(void **state)
{
    (void)state;
    begin();
    for (size_t step = 0; step < 3; step++) {
        gateway.step = step;
        assert_int_equal(rig->versions[1].files[1].size, 0);
        offer(TASK, 1, 1);
        rig_checkin(rig);
        assert_int_equal(rig_active(rig, TASK), 1);
        assert_int_equal(gateway.asked, 1);
        assert_int_equal(rig->blob_requests, 0);
        rig_done(rig);
        begin();
    }
}

// Of another version it may have most of the files.
static void test_an_update_comes_one_by_one(void **state)
{
    (void)state;
    begin();
    rig_checkin(rig);
    assert_int_equal(rig_active(rig, TASK), 0);
    offer(TASK, 1, 2);
    rig_checkin(rig);
    assert_int_equal(rig_active(rig, TASK), 1);
    assert_int_equal(gateway.asked, 1);
    assert_int_equal(rig->blob_requests, 1 + FILES - 1);
}

// A file that another task brought is not what comes next: the answer is left there.
static void test_a_file_that_is_here(void **state)
{
    (void)state;
    begin();
    rig_checkin(rig);
    uint32_t cancelled = rig->port.http.cancelled;
    struct dev_stats before;
    struct dev_stats after;
    dev_stats(rig->runtime, &before);
    struct rig_version *other = &rig->versions[2];
    const struct rig_version *first = &rig->versions[0];
    mem_blob_put(&rig->port, &other->files[0].digest, other->files[0].bytes, other->files[0].size,
                 true);
    assert_false(wire_sha256_equal(&other->files[0].digest, &first->files[0].digest));
    offer(OTHER, 2, 1);
    rig_checkin(rig);
    assert_int_equal(rig_active(rig, OTHER), 2);
    assert_int_equal(gateway.asked, 2);
    assert_int_equal(rig->blob_requests, 1);
    assert_int_equal(rig->port.http.cancelled, cancelled + 1);
    dev_stats(rig->runtime, &after);
    assert_int_equal(after.bad_requests, before.bad_requests); // nothing was taken for another
}

// ---- It is not what was signed

static void test_more_than_a_version(void **state)
{
    (void)state;
    begin();
    for (size_t step = 0; step < 3; step++) {
        gateway.step = step;
        gateway.extra = 5000;
        expect_brought(1, 0);
    }
}

// Whichever bit is changed, the blob with it is brought again, by itself, and so is what follows.
static void test_changed_bytes(void **state)
{
    (void)state;
    begin();
    size_t size = size_of(0);
    for (size_t at = 0; at < size; at++) {
        gateway.flip = at;
        gateway.step = at % 5;
        expect_brought(1, UINT32_MAX);
    }
}

static void test_changed_bytes_wherever_it_asks(void **state)
{
    (void)state;
    begin();
    gateway.flip = size_of(0) - 1;
    rig->corrupt_bodies = 1000;
    rig_checkin(rig);
    assert_int_equal(rig_active(rig, TASK), -1);
    assert_int_equal(rig->versions[0].runs, 0);
    const struct rig_outcome *last = rig_last(rig, WIRE_OUTCOME_FAIL_VERIFY);
    assert_non_null(last);
    assert_true(last->outcome.fingerprint == (uint64_t)(-(int64_t)BASE_ERR_HASH));
}

static void test_less_than_a_manifest(void **state)
{
    (void)state;
    begin();
    gateway.length_off = -(uint64_t)(size_of(0) - 10); // it says 10 bytes
    expect_brought(1, 1 + FILES);
}

static void test_no_room(void **state)
{
    (void)state;
    begin();
    rig->port.storage.bytes_limit = rig->versions[0].size + 100;
    rig_checkin(rig);
    assert_int_equal(rig_active(rig, TASK), -1);
    assert_int_equal(rig_count(rig, WIRE_OUTCOME_FAIL_DOWNLOAD), 1);
    assert_int_equal(mem_blob_count(&rig->port), 0);
}

// ---- It breaks off

static void test_cut_anywhere(void **state)
{
    (void)state;
    begin();
    size_t size = size_of(0);
    for (size_t at = 0; at < size; at++) {
        gateway.cut = at;
        gateway.step = at % 3;
        gateway.ends = at % 2 == 0 ? BASE_ERR_CLOSED : BASE_OK;
        expect_brought(1, UINT32_MAX);
    }
}

static void test_killed_anywhere(void **state)
{
    (void)state;
    uint64_t n = 1;
    for (; n < CALLS_MAX; n++) {
        begin();
        gateway.step = n % 3;
        rig->port.kill_at = rig->port.calls + n;
        rig_checkin(rig);
        bool killed = rig->port.killed;
        rig_kill(rig);
        rig->port.kill_at = 0;
        rig_boot(rig);
        rig_checkin(rig);
        assert_int_equal(rig_active(rig, TASK), 0);
        assert_false(rig->ran_unverified);
        if (!killed) {
            break;
        }
        rig_done(rig);
    }
    assert_true(n > 20 && n < CALLS_MAX);
}

static void test_store_fails_anywhere(void **state)
{
    (void)state;
    begin();
    for (uint64_t n = 1; n < 60; n++) {
        rig->port.storage.fail_at = rig->port.storage.operations + n;
        rig->port.storage.fail_status = n % 2 == 0 ? BASE_ERR_IO : BASE_ERR_FULL;
        rig_checkin(rig);
        rig_checkin(rig);
        assert_int_equal(rig_active(rig, TASK), 0);
        assert_false(rig->ran_unverified);
        rig_done(rig);
        begin();
    }
}

int main(void)
{
#define CASE(name) cmocka_unit_test_teardown(name, teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_one_request_however_it_is_cut),
        CASE(test_whoever_does_not_know_it_is_asked_for_each),
        CASE(test_what_does_not_come_is_asked_for),
        CASE(test_empty_file),
        CASE(test_an_update_comes_one_by_one),
        CASE(test_a_file_that_is_here),
        CASE(test_more_than_a_version),
        CASE(test_changed_bytes),
        CASE(test_changed_bytes_wherever_it_asks),
        CASE(test_less_than_a_manifest),
        CASE(test_no_room),
        CASE(test_cut_anywhere),
        CASE(test_killed_anywhere),
        CASE(test_store_fails_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
