// Updates by deltas: what they save, how an interrupted one goes on, and that whatever is wrong
// with one ends in a whole download and the right version.
#include "device_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#define TASK       "demo/score"
#define FILE_BYTES 100000u

static struct rig rig;

// The device runs version 0 of two files and is offered version 1.
static int setup(void **state)
{
    (void)state;
    rig_init(&rig);
    rig.chunk = 50;
    rig.deltas = true;
    rig.spoil_deltas = true;
    rig_version_add(&rig, TASK, 2, FILE_BYTES, WIRE_RUNTIME_ABI, 0);
    rig_version_add(&rig, TASK, 2, FILE_BYTES, WIRE_RUNTIME_ABI, 0);
    rig_boot(&rig);
    struct rig_statement first = {.task = TASK, .version = 0, .counter = 1, .rollout_id = 1};
    rig_offer(&rig, &first);
    rig_checkin(&rig);
    assert_int_equal(rig_active(&rig, TASK), 0);
    assert_int_equal(rig.delta_answers, 0); // there was nothing to be a difference to
    struct rig_statement second = {.task = TASK, .version = 1, .counter = 2, .rollout_id = 2};
    rig_offer(&rig, &second);
    rig.blob_bytes = 0;
    return 0;
}

// However it came about, the device ends with version 1, nothing unverified ran, and no difference
// is left in storage: two versions of a manifest and two files each.
static int teardown(void **state)
{
    (void)state;
    assert_int_equal(rig_active(&rig, TASK), 1);
    assert_int_equal(rig_count(&rig, WIRE_OUTCOME_FAIL_VERIFY), 0);
    assert_int_equal(rig_count(&rig, WIRE_OUTCOME_FAIL_DOWNLOAD), 0);
    assert_false(rig.ran_unverified);
    assert_int_equal(mem_blob_count(&rig.port), 6);
    assert_true(dev_validate(rig.runtime));
    rig_done(&rig);
    return 0;
}

static struct dev_stats stats(void)
{
    struct dev_stats out;
    dev_stats(rig.runtime, &out);
    return out;
}

static void test_files_come_as_differences(void **state)
{
    (void)state;
    rig_checkin(&rig);
    assert_int_equal(rig.delta_answers, 2);
    assert_int_equal(stats().deltas, 2);
    assert_int_equal(stats().deltas_failed, 0);
    assert_true(rig.blob_bytes < 2 * FILE_BYTES / 10);
}

static void test_interrupted_one_goes_on(void **state)
{
    (void)state;
    rig.break_bodies = 2;
    rig_checkin(&rig);
    assert_int_equal(stats().deltas, 2);
    assert_int_equal(stats().deltas_failed, 0);
    assert_true(rig.range_requests >= 2);
    assert_true(rig.blob_bytes < 2 * FILE_BYTES / 10);
}

static void test_pieces(void **state)
{
    (void)state;
    rig.pieces = true;
    rig.break_bodies = 1;
    rig_checkin(&rig);
    assert_int_equal(rig.delta_codings, DEV_DELTA_DCZ | DEV_DELTA_PIECES);
    assert_int_equal(stats().deltas, 2);
    assert_int_equal(stats().deltas_failed, 0);
    assert_true(rig.blob_bytes < 2 * FILE_BYTES / 10);
}

// Each way a delta may go wrong, in the other coding.
static void test_pieces_of_no_use(void **state)
{
    static int *const counters[] = {&rig.wrong_deltas, &rig.large_deltas, &rig.corrupt_bodies,
                                    &rig.truncate_bodies, &rig.endless_bodies};
    (void)state;
    rig.pieces = true;
    for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++) {
        if (i > 0) { // another device
            assert_int_equal(teardown(NULL), 0);
            assert_int_equal(setup(NULL), 0);
            rig.pieces = true;
        }
        *counters[i] = 1;
        rig_checkin(&rig);
        assert_int_equal(stats().deltas, 1);
        assert_int_equal(stats().deltas_failed, 1);
    }
}

// What there is no memory for is not asked for; whoever sends it anyway is not listened to.
static void test_little_memory(void **state)
{
    (void)state;
    rig.ports.delta.memory_max = FILE_BYTES + 1024 * 1024;
    rig.pieces = true;
    rig_checkin(&rig);
    assert_int_equal(rig.delta_codings, DEV_DELTA_DCZ);
    assert_int_equal(stats().deltas, 0);
    assert_int_equal(stats().deltas_failed, 2);
    assert_true(rig.blob_bytes >= 2 * FILE_BYTES);
}

static void test_no_memory(void **state)
{
    (void)state;
    rig.ports.delta.memory_max = FILE_BYTES;
    rig_checkin(&rig);
    assert_int_equal(rig.delta_answers, 0);
    assert_int_equal(stats().deltas_failed, 0);
    assert_true(rig.blob_bytes >= 2 * FILE_BYTES);
}

// A gateway that takes for ever to make one: the device does not wait for ever.
static void test_never_answered(void **state)
{
    (void)state;
    rig.hold_deltas = true;
    rig_checkin(&rig);
    assert_int_equal(stats().deltas, 0);
    assert_int_equal(stats().deltas_failed, 2);
    assert_true(rig.blob_bytes >= 2 * FILE_BYTES);
}

static void test_gateway_without_deltas(void **state)
{
    (void)state;
    rig.deltas = false;
    rig_checkin(&rig);
    assert_int_equal(stats().deltas, 0);
    assert_int_equal(stats().deltas_failed, 0);
    assert_true(rig.blob_bytes >= 2 * FILE_BYTES);
}

// Each way to spoil the first delta: that file is brought whole at once, the other one as a delta.
static void spoiled(int *counter)
{
    *counter = 1;
    rig_checkin(&rig);
    assert_int_equal(stats().deltas, 1);
    assert_int_equal(stats().deltas_failed, 1);
    assert_true(rig.blob_bytes >= FILE_BYTES);
    assert_true(rig.blob_bytes < 3 * FILE_BYTES);
}

static void test_other_dictionary(void **state)
{
    (void)state;
    spoiled(&rig.wrong_deltas);
}

static void test_larger_than_the_content(void **state)
{
    (void)state;
    spoiled(&rig.large_deltas);
}

static void test_larger_and_says_no_length(void **state)
{
    (void)state;
    rig.say_no_length = true;
    spoiled(&rig.large_deltas);
}

static void test_damaged(void **state)
{
    (void)state;
    spoiled(&rig.corrupt_bodies);
}

static void test_cut_off(void **state)
{
    (void)state;
    spoiled(&rig.truncate_bodies);
}

static void test_goes_on_past_its_end(void **state)
{
    (void)state;
    spoiled(&rig.endless_bodies);
}

static void test_range_of_another_delta(void **state)
{
    (void)state;
    rig.break_bodies = 1;
    rig.wrong_ranges = 1;
    rig_checkin(&rig);
    assert_int_equal(stats().deltas, 1);
    assert_int_equal(stats().deltas_failed, 1);
}

static void test_range_refused(void **state)
{
    (void)state;
    rig.break_bodies = 1;
    rig.refuse_ranges = 1;
    rig_checkin(&rig);
    assert_int_equal(stats().deltas, 1);
    assert_int_equal(stats().deltas_failed, 1);
}

static void test_range_ignored(void **state)
{
    (void)state;
    rig.break_bodies = 1;
    rig.ignore_ranges = 1;
    rig_checkin(&rig);
    assert_int_equal(stats().deltas, 2);
    assert_int_equal(stats().deltas_failed, 0);
}

// The process dies while the first difference comes in, before a timeout asks for the rest.
static void killed_halfway(void)
{
    rig.stall_bodies = 1;
    dev_checkin_now(rig.runtime);
    rig_run(&rig, 1000000);
    assert_int_equal(rig.delta_answers, 1);
    assert_int_equal(rig.range_requests, 0);
    rig_kill(&rig);
}

// What is here of it is not fetched again.
static void test_killed_and_goes_on(void **state)
{
    (void)state;
    killed_halfway();
    rig_boot(&rig);
    rig_checkin(&rig);
    assert_true(rig.range_requests >= 1);
    assert_int_equal(stats().deltas_failed, 0);
    assert_true(rig.blob_bytes < 2 * FILE_BYTES / 10);
}

// And then the storage grew what is here of it past the content.
static void killed_and_grown(void)
{
    uint32_t grown = 0;
    killed_halfway();
    for (uint32_t i = 0; i < MEM_BLOBS_MAX; i++) {
        struct mem_blob *blob = &rig.port.storage.blobs[i];
        if (!blob->used || blob->sealed || blob->size == 0) { // or reserved alone
            continue;
        }
        free(blob->bytes);
        blob->size = FILE_BYTES + 10;
        blob->bytes = calloc(1, blob->size);
        assert_non_null(blob->bytes);
        grown++;
    }
    assert_int_equal(grown, 1);
    rig_boot(&rig);
}

// As with content: a part that is longer than the whole is dropped, and all of it comes anew.
static void test_longer_than_the_content_here(void **state)
{
    (void)state;
    killed_and_grown();
    rig_checkin(&rig);
    assert_int_equal(rig.range_requests, 0);
    assert_int_equal(stats().deltas, 2);
    assert_int_equal(stats().deltas_failed, 0);
}

// Nor does a gateway that goes on behind it, without a length, bring more than was signed.
static void test_longer_here_and_there(void **state)
{
    (void)state;
    killed_and_grown();
    rig.large_deltas = 1;
    rig.say_no_length = true;
    rig_checkin(&rig);
    assert_int_equal(rig.range_requests, 0);
    assert_int_equal(stats().deltas, 1);
    assert_int_equal(stats().deltas_failed, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_files_come_as_differences, setup, teardown),
        cmocka_unit_test_setup_teardown(test_interrupted_one_goes_on, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pieces, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pieces_of_no_use, setup, teardown),
        cmocka_unit_test_setup_teardown(test_little_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(test_never_answered, setup, teardown),
        cmocka_unit_test_setup_teardown(test_gateway_without_deltas, setup, teardown),
        cmocka_unit_test_setup_teardown(test_other_dictionary, setup, teardown),
        cmocka_unit_test_setup_teardown(test_larger_than_the_content, setup, teardown),
        cmocka_unit_test_setup_teardown(test_larger_and_says_no_length, setup, teardown),
        cmocka_unit_test_setup_teardown(test_damaged, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cut_off, setup, teardown),
        cmocka_unit_test_setup_teardown(test_goes_on_past_its_end, setup, teardown),
        cmocka_unit_test_setup_teardown(test_range_of_another_delta, setup, teardown),
        cmocka_unit_test_setup_teardown(test_range_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_range_ignored, setup, teardown),
        cmocka_unit_test_setup_teardown(test_killed_and_goes_on, setup, teardown),
        cmocka_unit_test_setup_teardown(test_longer_than_the_content_here, setup, teardown),
        cmocka_unit_test_setup_teardown(test_longer_here_and_there, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
