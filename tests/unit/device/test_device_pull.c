// Pulling under bad conditions: damage, cuts, lies about length and range, silence, full storage.
// Each case must end with the right version, or with an honest report and the old version running.
#include "device_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TASK      "demo/score"
#define BIG_BYTES 100000

static struct rig rig;

static int setup(void **state)
{
    (void)state;
    rig_init(&rig);
    rig.chunk = 4096;
    rig_version_add(&rig, TASK, 1, 100, WIRE_RUNTIME_ABI, 0);
    rig_version_add(&rig, TASK, 2, BIG_BYTES, WIRE_RUNTIME_ABI, 0);
    rig_boot(&rig);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    assert_false(rig.ran_unverified);
    rig_done(&rig);
    return 0;
}

static void offer(uint32_t version, uint64_t counter)
{
    struct rig_statement statement = {
        .task = TASK, .version = version, .counter = counter, .rollout_id = counter};
    rig_offer(&rig, &statement);
}

static void install(uint32_t version, uint64_t counter)
{
    offer(version, counter);
    rig_checkin(&rig);
}

static struct dev_stats stats(void)
{
    struct dev_stats out;
    dev_stats(rig.runtime, &out);
    return out;
}

static void test_one_corrupt_body_is_fetched_again(void **state)
{
    (void)state;
    rig.corrupt_bodies = 1;
    install(1, 1);
    assert_int_equal(rig_active(&rig, TASK), 1);
    assert_int_equal(rig_count(&rig, WIRE_OUTCOME_FAIL_VERIFY), 0);
}

static void test_corrupt_for_ever(void **state)
{
    (void)state;
    install(0, 1);
    rig.corrupt_bodies = 1000;
    install(1, 2);
    assert_int_equal(rig_active(&rig, TASK), 0);
    assert_int_equal(rig_count(&rig, WIRE_OUTCOME_FAIL_VERIFY), 1);
    assert_string_equal(rig_last(&rig, WIRE_OUTCOME_FAIL_VERIFY)->detail,
                        "content does not match its hash");
    rig_checkin(&rig); // offered again: tried again, but reported only once
    assert_int_equal(rig_count(&rig, WIRE_OUTCOME_FAIL_VERIFY), 1);
    rig.corrupt_bodies = 0;
    rig_checkin(&rig);
    assert_int_equal(rig_active(&rig, TASK), 1);
}

static void test_truncated_with_ok(void **state)
{
    (void)state;
    rig.truncate_bodies = 3;
    install(1, 1);
    assert_int_equal(rig_active(&rig, TASK), 1);
    assert_true(rig.range_requests >= 1);
}

static void test_broken_connection_resumes(void **state)
{
    (void)state;
    rig.break_bodies = 6;
    install(1, 1);
    assert_int_equal(rig_active(&rig, TASK), 1);
    assert_true(rig.range_requests >= 3);
    // What was fetched twice is at most what was in flight.
    assert_true(rig.blob_bytes <= 2 * BIG_BYTES + 1 + rig.versions[1].size);
    assert_true(stats().resumed_bytes > 0);
}

static void test_resume_after_kill(void **state)
{
    (void)state;
    const struct rig_version *version = &rig.versions[1];
    mem_blob_put(&rig.port, &version->manifest, version->bytes, version->size, true);
    rig.stall_bodies = 1;
    offer(1, 1);
    dev_checkin_now(rig.runtime);
    rig_run(&rig, 1000000);
    assert_int_equal(rig.blob_bytes, BIG_BYTES / 2);
    uint64_t before = rig.blob_bytes;
    rig_kill(&rig);
    rig_boot(&rig);
    rig_checkin(&rig);
    assert_int_equal(rig_active(&rig, TASK), 1);
    assert_int_equal(rig.range_requests, 1);
    assert_int_equal(rig.blob_bytes - before, BIG_BYTES / 2 + BIG_BYTES + 1);
    assert_true(stats().resumed_bytes >= BIG_BYTES / 2);
}

static void test_partial_with_damage_is_found_out(void **state)
{
    (void)state;
    const struct rig_file *file = &rig.versions[1].files[0];
    uint8_t *half = malloc(file->size / 2);
    assert_non_null(half);
    memcpy(half, file->bytes, file->size / 2);
    half[1000] ^= 1;
    mem_blob_put(&rig.port, &file->digest, half, file->size / 2, false);
    free(half);
    install(1, 1);
    assert_int_equal(rig_active(&rig, TASK), 1);
    assert_int_equal(rig_count(&rig, WIRE_OUTCOME_FAIL_VERIFY), 0);
}

static void test_whole_partial_needs_no_request(void **state)
{
    (void)state;
    const struct rig_file *file = &rig.versions[1].files[0];
    mem_blob_put(&rig.port, &file->digest, file->bytes, file->size, false);
    install(1, 1);
    assert_int_equal(rig_active(&rig, TASK), 1);
    assert_int_equal(rig.blob_requests, 2); // manifest and the other file
}

static void test_partial_longer_than_the_blob(void **state)
{
    (void)state;
    const struct rig_file *file = &rig.versions[1].files[1];
    uint8_t *longer = calloc(1, file->size + 10);
    assert_non_null(longer);
    mem_blob_put(&rig.port, &file->digest, longer, file->size + 10, false);
    free(longer);
    install(1, 1);
    assert_int_equal(rig_active(&rig, TASK), 1);
}

static void test_shared_file_is_not_fetched_again(void **state)
{
    (void)state;
    const struct rig_file *file = &rig.versions[1].files[0];
    mem_blob_put(&rig.port, &file->digest, file->bytes, file->size, true);
    install(1, 1);
    assert_int_equal(rig_active(&rig, TASK), 1);
    assert_int_equal(rig.blob_requests, 2);
}

static void test_server_ignores_range(void **state)
{
    (void)state;
    rig.break_bodies = 2;
    rig.ignore_ranges = 10;
    install(1, 1);
    assert_int_equal(rig_active(&rig, TASK), 1);
}

static void test_range_not_satisfiable(void **state)
{
    (void)state;
    rig.break_bodies = 2;
    rig.refuse_ranges = 2;
    install(1, 1);
    assert_int_equal(rig_active(&rig, TASK), 1);
}

static void test_range_from_elsewhere(void **state)
{
    (void)state;
    rig.break_bodies = 2;
    rig.wrong_ranges = 2;
    install(1, 1);
    assert_int_equal(rig_active(&rig, TASK), 1);
}

static void test_endless_body(void **state)
{
    (void)state;
    install(0, 1);
    rig.endless_bodies = 1000000;
    install(1, 2);
    assert_int_equal(rig_active(&rig, TASK), 0);
    assert_int_equal(rig_count(&rig, WIRE_OUTCOME_FAIL_DOWNLOAD), 1);
    assert_string_equal(rig_last(&rig, WIRE_OUTCOME_FAIL_DOWNLOAD)->detail,
                        "more content than announced");
    rig.endless_bodies = 1; // and a single one is overcome
    rig_checkin(&rig);
    assert_int_equal(rig_active(&rig, TASK), 1);
}

static void test_stalls(void **state)
{
    (void)state;
    rig.stall_bodies = 3;
    install(1, 1);
    assert_int_equal(rig_active(&rig, TASK), 1);
    assert_true(rig.port.http.cancelled >= 3);
    assert_true(rig.range_requests >= 1);
}

static void test_not_found(void **state)
{
    (void)state;
    install(0, 1);
    rig.blob_status = 404;
    offer(1, 2);
    dev_checkin_now(rig.runtime);
    rig_run(&rig, 3600 * 1000000ull);
    assert_int_equal(rig_active(&rig, TASK), 0);
    assert_int_equal(rig_count(&rig, WIRE_OUTCOME_FAIL_DOWNLOAD), 1);
    assert_string_equal(rig_last(&rig, WIRE_OUTCOME_FAIL_DOWNLOAD)->detail, "content not found");
    rig.blob_status = 0;
    rig_checkin(&rig);
    assert_int_equal(rig_active(&rig, TASK), 1);
}

static void test_retry_after_is_honoured(void **state)
{
    (void)state;
    rig.blob_status = 503;
    rig.retry_after_s = 120;
    offer(1, 1);
    dev_checkin_now(rig.runtime);
    rig_run(&rig, 119 * 1000000ull);
    assert_int_equal(rig.blob_requests, 1);
    rig.blob_status = 0;
    rig_run(&rig, 30 * 1000000ull);
    assert_int_equal(rig_active(&rig, TASK), 1);
}

static void test_no_connection(void **state)
{
    (void)state;
    offer(1, 1);
    dev_checkin_now(rig.runtime);
    rig_run(&rig, 0);
    rig_checkin(&rig);
    rig.port.http.refuse = BASE_ERR_CLOSED;
    rig_version_add(&rig, TASK, 1, 500, WIRE_RUNTIME_ABI, 0);
    rig_checkin(&rig);
    rig.port.http.refuse = BASE_OK;
    install(2, 2);
    assert_int_equal(rig_active(&rig, TASK), 2);
}

static void test_storage_full(void **state)
{
    (void)state;
    install(0, 1);
    rig.port.storage.bytes_limit = 50000;
    offer(1, 2);
    dev_checkin_now(rig.runtime);
    rig_run(&rig, 7200 * 1000000ull);
    assert_int_equal(rig_active(&rig, TASK), 0);
    assert_int_equal(rig_count(&rig, WIRE_OUTCOME_FAIL_DOWNLOAD), 1);
    const char *detail = rig_last(&rig, WIRE_OUTCOME_FAIL_DOWNLOAD)->detail;
    assert_memory_equal(detail, "storage full: ", strlen("storage full: "));
    assert_non_null(strstr(detail, " are free"));
    rig.port.storage.bytes_limit = 0;
    rig_checkin(&rig);
    assert_int_equal(rig_active(&rig, TASK), 1);
}

static uint64_t stored_bytes(void)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < MEM_BLOBS_MAX; i++) {
        const struct mem_blob *blob = &rig.port.storage.blobs[i];
        uint64_t most = blob->reserved > blob->size ? blob->reserved : blob->size;
        bytes += blob->used ? most : 0;
    }
    return bytes;
}

// One that is too large is refused before anything is full, and leaves nothing; at every limit.
static void test_larger_than_the_storage(void **state)
{
    (void)state;
    uint32_t large = rig_version_add(&rig, TASK, 3, 20000, WIRE_RUNTIME_ABI, 0);
    install(0, 1);
    uint64_t before = stored_bytes();
    uint32_t blobs = mem_blob_count(&rig.port);
    for (uint64_t free_bytes = 500; free_bytes < 50000; free_bytes += 1999) {
        uint64_t fetched = rig.blob_bytes;
        rig.port.storage.bytes_limit = before + free_bytes;
        offer(large, 2);
        rig_checkin(&rig);
        assert_int_equal(rig_active(&rig, TASK), 0);
        assert_int_equal(stored_bytes(), before);
        assert_int_equal(mem_blob_count(&rig.port), blobs);
        assert_true(rig.blob_bytes - fetched < 2048); // the manifest
    }
    assert_int_equal(rig_count(&rig, WIRE_OUTCOME_FAIL_DOWNLOAD), 1); // said once
    rig.port.storage.bytes_limit = before + 70000;
    rig_checkin(&rig);
    assert_int_equal(rig_active(&rig, TASK), (int)large);
}

// Whatever ends a pull, what was reserved for it and not used is given back; what came stays while
// the version is offered, and goes when it is not.
static void test_reserved_space_is_given_back(void **state)
{
    (void)state;
    uint32_t large = rig_version_add(&rig, TASK, 3, 20000, WIRE_RUNTIME_ABI, 0);
    install(0, 1);
    uint64_t before = stored_bytes();
    offer(large, 2);
    rig.break_bodies = 1;
    rig.stall_bodies = 0;
    dev_checkin_now(rig.runtime);
    rig_run(&rig, 0);
    rig.blob_status = 503; // from now on nothing comes
    rig.run_on = true;
    dev_checkin_now(rig.runtime);
    rig_run(&rig, 280 * 1000000ull);
    rig.run_on = false;
    for (int i = 0; i < 10 && rig_count(&rig, WIRE_OUTCOME_FAIL_DOWNLOAD) == 0; i++) {
        rig_run(&rig, 600 * 1000000ull);
    }
    assert_int_equal(rig_count(&rig, WIRE_OUTCOME_FAIL_DOWNLOAD), 1);
    rig_offer_none(&rig);
    rig_checkin(&rig);
    assert_int_equal(stored_bytes(), before);
    rig.blob_status = 0;
    offer(large, 2);
    rig_checkin(&rig);
    assert_int_equal(rig_active(&rig, TASK), (int)large);
}

static void test_length_not_said(void **state)
{
    (void)state;
    rig.say_no_length = true;
    rig.chunk = 1;
    install(0, 1);
    assert_int_equal(rig_active(&rig, TASK), 0);
}

static void test_empty_file(void **state)
{
    (void)state;
    uint32_t version = rig_version_add(&rig, TASK, 1, 0, WIRE_RUNTIME_ABI, 0);
    install(version, 1);
    assert_int_equal(rig_active(&rig, TASK), (int)version);
    assert_int_equal(rig.blob_requests, 1); // nothing is asked for
}

static void test_content_lost_after_activation(void **state)
{
    (void)state;
    uint32_t version = rig_version_add(&rig, TASK, 1, 500, WIRE_RUNTIME_ABI, 60);
    install(version, 1);
    struct mem_blob *blob = mem_blob_find(&rig.port, &rig.versions[version].files[0].digest);
    assert_non_null(blob);
    blob->sealed = false; // as if a file system check had taken the end of it
    blob->size = 100;
    mem_clock_advance(&rig.port, 61 * 1000000ull);
    rig_checkin(&rig);
    rig_checkin(&rig);
    assert_int_equal(rig_count(&rig, WIRE_OUTCOME_FAIL_INTEGRITY), 1);
    assert_int_equal(rig_count(&rig, WIRE_OUTCOME_ROLLED_BACK), 0);
    assert_int_equal(rig_active(&rig, TASK), (int)version); // it was brought again
    assert_true(mem_blob_find(&rig.port, &rig.versions[version].files[0].digest)->sealed);
}

// A link that cuts every few kilobytes, and one that brings 100 bytes at a time.
static void test_any_progress_keeps_a_pull_going(void **state)
{
    (void)state;
    static const struct {
        size_t bytes, cut_from, cut_to;
        uint64_t within_s;
    } links[] = {{200000, 5000, 16000, 120}, {20000, 100, 101, 3600}};
    for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++) {
        uint32_t version = rig_version_add(&rig, TASK, 1, links[i].bytes, WIRE_RUNTIME_ABI, 0);
        rig.cut_from = links[i].cut_from;
        rig.cut_to = links[i].cut_to;
        uint64_t begun_us = rig.port.clock.mono_us;
        offer(version, 1 + i);
        dev_checkin_now(rig.runtime);
        rig_run(&rig, links[i].within_s * 1000000ull);
        assert_int_equal(rig_active(&rig, TASK), (int)version);
        assert_true(rig.port.clock.mono_us - begun_us <= links[i].within_s * 1000000ull);
    }
    assert_int_equal(rig_count(&rig, WIRE_OUTCOME_FAIL_DOWNLOAD), 0);
}

// Links that bring nothing new: the same first bytes from a server that knows no ranges, or none.
static void test_without_progress_a_pull_ends(void **state)
{
    (void)state;
    for (uint32_t round = 0; round < 2; round++) {
        rig.cut_from = round == 0 ? 30000 : 0;
        rig.cut_to = rig.cut_from + 1;
        rig.ignore_ranges = 1000;
        uint32_t before = rig.blob_requests;
        offer(1, 1 + round);
        dev_checkin_now(rig.runtime);
        rig_run(&rig, 86400 * 1000000ull);
        assert_true(rig.blob_requests - before <= 20);
        assert_int_equal(rig_active(&rig, TASK), -1);
    }
    assert_int_equal(rig_count(&rig, WIRE_OUTCOME_FAIL_DOWNLOAD), 2);
}

// An exchange whose bytes drip is ended when a request's time (30 s) brought less than
// DEV_RATE_WINDOW_BYTES, also when it began well; the next goes on from there. One that is only
// slow is left alone.
static void test_a_drip_is_ended(void **state)
{
    (void)state;
    static const struct {
        size_t each_s, at_once;
        uint32_t requests;
    } links[] = {{100, 0, 7}, {100, 5000, 3}, {200, 0, 1}, {200, 5000, 1}};
    for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++) {
        uint32_t version = rig_version_add(&rig, TASK, 1, 20000, WIRE_RUNTIME_ABI, 0);
        rig.chunk = links[i].each_s;
        rig.burst = links[i].at_once;
        rig.pause_us = 1000000;
        uint32_t before = rig.blob_requests;
        install(version, 1 + i);
        assert_int_equal(rig_active(&rig, TASK), (int)version);
        assert_int_equal(rig.blob_requests - before, 1 + links[i].requests); // and its manifest
    }
    assert_int_equal(rig_count(&rig, WIRE_OUTCOME_FAIL_DOWNLOAD), 0);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_one_corrupt_body_is_fetched_again),
        CASE(test_corrupt_for_ever),
        CASE(test_truncated_with_ok),
        CASE(test_broken_connection_resumes),
        CASE(test_any_progress_keeps_a_pull_going),
        CASE(test_without_progress_a_pull_ends),
        CASE(test_a_drip_is_ended),
        CASE(test_resume_after_kill),
        CASE(test_partial_with_damage_is_found_out),
        CASE(test_whole_partial_needs_no_request),
        CASE(test_partial_longer_than_the_blob),
        CASE(test_shared_file_is_not_fetched_again),
        CASE(test_server_ignores_range),
        CASE(test_range_not_satisfiable),
        CASE(test_range_from_elsewhere),
        CASE(test_endless_body),
        CASE(test_stalls),
        CASE(test_not_found),
        CASE(test_retry_after_is_honoured),
        CASE(test_no_connection),
        CASE(test_storage_full),
        CASE(test_larger_than_the_storage),
        CASE(test_reserved_space_is_given_back),
        CASE(test_length_not_said),
        CASE(test_empty_file),
        CASE(test_content_lost_after_activation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
