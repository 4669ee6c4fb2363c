// Exclusive files on the device: they come and run beside the shared ones, only when the proof
// leads from this device's leaf to the signed root; who has none runs without, or not at all; they
// go and come back with their version.
#include "exclusive_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TASK "demo/score"

static struct rig rig;
static struct exclusive_rig exclusive;

// Version 0 has no exclusive files, 1 and 2 have optional ones, 3 and 4 require them.
static int setup(void **state)
{
    (void)state;
    rig_init(&rig);
    exclusive_rig_init(&exclusive, &rig);
    exclusive.exclusive = WIRE_EXCLUSIVE_NONE;
    rig_version_add(&rig, TASK, 2, 500, WIRE_RUNTIME_ABI, 0);
    exclusive.exclusive = WIRE_EXCLUSIVE_OPTIONAL;
    rig_version_add(&rig, TASK, 2, 500, WIRE_RUNTIME_ABI, 0);
    rig_version_add(&rig, TASK, 2, 500, WIRE_RUNTIME_ABI, 0);
    exclusive.exclusive = WIRE_EXCLUSIVE_REQUIRED;
    rig_version_add(&rig, TASK, 2, 500, WIRE_RUNTIME_ABI, 0);
    rig_version_add(&rig, TASK, 2, 500, WIRE_RUNTIME_ABI, 0);
    rig_boot(&rig);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    assert_false(rig.ran_unverified);
    assert_false(exclusive.asked_for_more);
    rig_done(&rig);
    return 0;
}

static void install(uint32_t version, uint64_t counter)
{
    struct rig_statement statement = {
        .task = TASK, .version = version, .counter = counter, .rollout_id = counter};
    rig_offer(&rig, &statement);
    rig_checkin(&rig);
}

// The last run had the files of this leaf beside the two shared ones.
static void expect_ran_with(uint32_t version, enum exclusive_leaf leaf)
{
    const struct exclusive_subject *subject = &exclusive.versions[version].subjects[leaf];
    struct dev_task_view view;
    assert_int_equal(rig_active(&rig, TASK), (int)version);
    assert_int_equal(rig.last_run_files, 2 + EXCLUSIVE_FILES);
    assert_memory_equal(rig.last_run_file.bytes, subject->digests[EXCLUSIVE_FILES - 1].bytes, 32);
    assert_int_equal(dev_task_view(rig.runtime, 0, &view), BASE_OK);
    assert_memory_equal(view.exclusive.bytes, subject->digest.bytes, 32);
}

static void expect_ran_without(uint32_t version)
{
    assert_int_equal(rig_active(&rig, TASK), (int)version);
    assert_int_equal(rig.last_run_files, 2);
}

static void test_own_files_run_beside_the_shared(void **state)
{
    (void)state;
    install(1, 1);
    expect_ran_with(1, EXCLUSIVE_OWN);
    assert_int_equal(exclusive.proofs, 1);
    assert_int_equal(exclusive.contents, 1 + EXCLUSIVE_FILES);
    assert_int_equal(mem_blob_count(&rig.port), 3 + 1 + EXCLUSIVE_FILES);
    install(2, 2);
    expect_ran_with(2, EXCLUSIVE_OWN);
    assert_int_equal(mem_blob_count(&rig.port), 2 * (3 + 1 + EXCLUSIVE_FILES)); // one is kept
    install(0, 3);
    expect_ran_without(0);
    assert_int_equal(mem_blob_count(&rig.port), 3 + (3 + 1 + EXCLUSIVE_FILES));
    assert_int_equal(exclusive.proofs, 2); // a version without is not asked for
}

static void test_a_user_leaf_is_taken(void **state)
{
    (void)state;
    exclusive.leaf = EXCLUSIVE_ANA;
    install(1, 1);
    expect_ran_with(1, EXCLUSIVE_ANA);
    exclusive.proof_status = 404; // unbound: the next version does not bring it
    install(2, 2);
    expect_ran_without(2);
}

static void test_nobody_made_any(void **state)
{
    static const int statuses[] = {404, 401};
    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        exclusive.proof_status = statuses[i];
        install(1 + i, 1 + i);
        expect_ran_without(1 + i);
    }
    assert_int_equal(exclusive.contents, 0);
}

static void test_required_and_not_there(void **state)
{
    (void)state;
    install(0, 1);
    exclusive.proof_status = 404;
    install(3, 2);
    assert_int_equal(rig_active(&rig, TASK), 0);
    assert_int_equal(rig_count(&rig, WIRE_OUTCOME_NOT_APPLICABLE), 1);
    assert_string_equal(rig_last(&rig, WIRE_OUTCOME_NOT_APPLICABLE)->detail,
                        "no exclusive files for this device");
    assert_true(rig_last(&rig, WIRE_OUTCOME_NOT_APPLICABLE)->outcome.fingerprint == 104);
    for (int i = 0; i < 3; i++) {
        rig_checkin(&rig);
    }
    assert_int_equal(rig_count(&rig, WIRE_OUTCOME_NOT_APPLICABLE), 1); // once
    assert_int_equal(exclusive.proofs, 1);
    assert_int_equal(mem_blob_count(&rig.port), 3);
    exclusive.proof_status = 0;
    struct rig_statement statement = {.task = TASK, .version = 3, .counter = 2, .rollout_id = 2};
    rig.offer_flags = WIRE_OFFER_FLAG_RETRY; // an operator lets it try again
    rig_offer(&rig, &statement);
    rig_checkin(&rig);
    expect_ran_with(3, EXCLUSIVE_OWN);
}

// What was not for it leaves no floor, also over a restart before that is known; what ran does.
static void test_required_and_not_there_raises_no_floor(void **state)
{
    (void)state;
    install(0, 1);
    struct rig_statement statement = {
        .task = TASK, .version = 3, .counter = 3, .floor = 2, .rollout_id = 3};
    exclusive.proof_status = 503; // not known yet: that is told, and once is enough
    rig_offer(&rig, &statement);
    rig_checkin(&rig);
    assert_true(dev_floor(rig.runtime, BASE_STR(TASK)) == 0);
    rig_kill(&rig);
    rig_boot(&rig);
    exclusive.proof_status = 404;
    rig_checkin(&rig);
    assert_true(dev_floor(rig.runtime, BASE_STR(TASK)) == 0);
    rig_checkin(&rig); // offered again, and not tried again
    assert_true(dev_floor(rig.runtime, BASE_STR(TASK)) == 0);
    exclusive.proof_status = 0;
    rig.offer_flags = WIRE_OFFER_FLAG_RETRY;
    rig_offer(&rig, &statement);
    rig_checkin(&rig);
    expect_ran_with(3, EXCLUSIVE_OWN);
    assert_true(dev_floor(rig.runtime, BASE_STR(TASK)) == 2);
    rig.offer_flags = 0;
    exclusive.proof_status = 404; // the same floor, by another: that it had it before stays
    statement = (struct rig_statement){
        .task = TASK, .version = 4, .counter = 4, .floor = 2, .rollout_id = 4};
    rig_offer(&rig, &statement);
    rig_checkin(&rig);
    assert_int_equal(rig_count(&rig, WIRE_OUTCOME_NOT_APPLICABLE), 1);
    assert_true(dev_floor(rig.runtime, BASE_STR(TASK)) == 2);
}

// Nor do two of them, of which the first was given up for the second.
static void test_two_that_are_not_for_it_raise_no_floor(void **state)
{
    (void)state;
    install(0, 1);
    struct rig_statement statement = {
        .task = TASK, .version = 3, .counter = 3, .floor = 2, .rollout_id = 3};
    exclusive.proof_status = 503;
    rig_offer(&rig, &statement);
    rig_checkin(&rig);
    assert_true(dev_floor(rig.runtime, BASE_STR(TASK)) == 0);
    exclusive.proof_status = 404;
    statement = (struct rig_statement){
        .task = TASK, .version = 4, .counter = 4, .floor = 3, .rollout_id = 4};
    rig_offer(&rig, &statement);
    rig_checkin(&rig);
    assert_int_equal(rig_count(&rig, WIRE_OUTCOME_NOT_APPLICABLE), 1);
    assert_true(dev_floor(rig.runtime, BASE_STR(TASK)) == 0);
}

static void test_somebody_elses_leaf_is_refused(void **state)
{
    (void)state;
    install(0, 1);
    exclusive.leaf = EXCLUSIVE_OTHER;
    install(1, 2);
    assert_int_equal(rig_active(&rig, TASK), 0);
    assert_int_equal(rig_count(&rig, WIRE_OUTCOME_FAIL_VERIFY), 1);
    assert_string_equal(rig_last(&rig, WIRE_OUTCOME_FAIL_VERIFY)->detail,
                        "exclusive files are not the signed ones");
    assert_int_equal(exclusive.contents, 0);
}

static void test_bent_and_endless_proofs(void **state)
{
    (void)state;
    exclusive.bent_proofs = 1;
    install(1, 1);
    expect_ran_with(1, EXCLUSIVE_OWN); // one is asked for again
    exclusive.bent_proofs = 100;
    install(2, 2);
    assert_int_equal(rig_active(&rig, TASK), 1);
    assert_int_equal(rig_count(&rig, WIRE_OUTCOME_FAIL_VERIFY), 1);
    exclusive.bent_proofs = 0;
    exclusive.long_proofs = 100;
    install(3, 3);
    assert_int_equal(rig_active(&rig, TASK), 1);
    assert_int_equal(rig_count(&rig, WIRE_OUTCOME_FAIL_VERIFY), 2);
    exclusive.long_proofs = 0;
    rig_checkin(&rig); // offered again
    expect_ran_with(3, EXCLUSIVE_OWN);
}

static void test_a_gateway_in_trouble_is_asked_again(void **state)
{
    (void)state;
    exclusive.proof_status = 503;
    install(1, 1);
    assert_int_equal(rig_active(&rig, TASK), -1);
    assert_int_equal(rig_count(&rig, WIRE_OUTCOME_FAIL_DOWNLOAD), 1);
    exclusive.proof_status = 0;
    rig_checkin(&rig);
    expect_ran_with(1, EXCLUSIVE_OWN);
}

static void test_content_lost_on_the_way_asks_anew(void **state)
{
    (void)state;
    exclusive.lost_files = 2;
    install(1, 1);
    expect_ran_with(1, EXCLUSIVE_OWN);
    assert_int_equal(exclusive.proofs, 3);
}

static void test_damaged_content(void **state)
{
    (void)state;
    rig.chunk = 64;
    install(0, 1);
    rig.corrupt_bodies = 1;
    rig.break_bodies = 2;
    install(1, 2);
    expect_ran_with(1, EXCLUSIVE_OWN);
}

static void test_a_name_of_the_version_is_refused(void **state)
{
    (void)state;
    exclusive.clash = "main.mpy"; // script kinds and data alike
    exclusive.exclusive = WIRE_EXCLUSIVE_OPTIONAL;
    uint32_t version = rig_version_add(&rig, TASK, 2, 500, WIRE_RUNTIME_ABI, 0);
    install(0, 1);
    install(version, 2);
    assert_int_equal(rig_active(&rig, TASK), 0);
    assert_string_equal(rig_last(&rig, WIRE_OUTCOME_FAIL_VERIFY)->detail,
                        "exclusive files are malformed");
    assert_int_equal(mem_blob_count(&rig.port), 3); // nothing stays of it
}

static void test_back_to_the_kept_one(void **state)
{
    (void)state;
    install(1, 1);
    install(2, 2);
    expect_ran_with(2, EXCLUSIVE_OWN);
    uint32_t contents = exclusive.contents;
    install(1, 1); // the approval of before
    rig_checkin(&rig);
    struct dev_task_view view;
    assert_int_equal(rig_active(&rig, TASK), 1);
    assert_int_equal(dev_task_view(rig.runtime, 0, &view), BASE_OK);
    assert_memory_equal(view.exclusive.bytes,
                        exclusive.versions[1].subjects[EXCLUSIVE_OWN].digest.bytes, 32);
    assert_int_equal(exclusive.contents, contents); // nothing is brought again
    assert_int_equal(mem_blob_count(&rig.port), 3 + 1 + EXCLUSIVE_FILES);
    rig_offer_stop(&rig, TASK);
    rig_checkin(&rig);
    assert_int_equal(mem_blob_count(&rig.port), 0);
}

static void test_a_version_that_fails_goes_with_its_files(void **state)
{
    (void)state;
    install(1, 1);
    rig.versions[2].ends = WIRE_OUTCOME_FAIL_EXCEPTION;
    install(2, 2);
    assert_int_equal(rig_active(&rig, TASK), 1);
    assert_int_equal(mem_blob_count(&rig.port), 3 + 1 + EXCLUSIVE_FILES);
    rig_kill(&rig);
    rig_boot(&rig);
    rig_checkin(&rig);
    struct dev_task_view view;
    assert_int_equal(dev_task_view(rig.runtime, 0, &view), BASE_OK);
    assert_memory_equal(view.exclusive.bytes,
                        exclusive.versions[1].subjects[EXCLUSIVE_OWN].digest.bytes, 32);
}

static void test_a_shadow_has_its_own(void **state)
{
    (void)state;
    install(1, 1);
    struct rig_statement statement = {
        .task = TASK, .version = 2, .counter = 2, .rollout_id = 9, .shadow = true};
    rig_offer(&rig, &statement);
    rig_checkin(&rig);
    assert_int_equal(rig_count(&rig, WIRE_OUTCOME_SHADOW_AGREED), 1);
    assert_int_equal(rig_active(&rig, TASK), 1);
    assert_int_equal(mem_blob_count(&rig.port), 2 * (3 + 1 + EXCLUSIVE_FILES));
    install(2, 3); // its content is here already; whose it is is asked anew
    expect_ran_with(2, EXCLUSIVE_OWN);
    assert_int_equal(exclusive.contents, 2 * (1 + EXCLUSIVE_FILES));
    assert_int_equal(exclusive.proofs, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_own_files_run_beside_the_shared, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_user_leaf_is_taken, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nobody_made_any, setup, teardown),
        cmocka_unit_test_setup_teardown(test_required_and_not_there, setup, teardown),
        cmocka_unit_test_setup_teardown(test_two_that_are_not_for_it_raise_no_floor, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_required_and_not_there_raises_no_floor, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_somebody_elses_leaf_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bent_and_endless_proofs, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_gateway_in_trouble_is_asked_again, setup, teardown),
        cmocka_unit_test_setup_teardown(test_content_lost_on_the_way_asks_anew, setup, teardown),
        cmocka_unit_test_setup_teardown(test_damaged_content, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_name_of_the_version_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_back_to_the_kept_one, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_version_that_fails_goes_with_its_files, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_a_shadow_has_its_own, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
