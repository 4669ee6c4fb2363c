// Offers under attack: what a stolen gateway may send, and what a device does with it. Nothing of
// it may change what the device runs, and each refusal is reported once.
#include "device_rig.h"

#include "core/base/refusals.h"
#include "wire/profile.h"

#include "policy/bucket.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TASK  "demo/score"
#define OTHER "demo/other"

static struct rig rig;

static int setup(void **state)
{
    (void)state;
    rig_init(&rig);
    rig_version_add(&rig, TASK, 1, 100, WIRE_RUNTIME_ABI, 0);
    rig_version_add(&rig, TASK, 1, 200, WIRE_RUNTIME_ABI, 0);
    rig_version_add(&rig, TASK, 1, 300, WIRE_RUNTIME_ABI + 1, 0);
    rig_version_add(&rig, OTHER, 1, 400, WIRE_RUNTIME_ABI, 0);
    rig_boot(&rig);
    struct rig_statement good = {
        .task = TASK, .version = 0, .counter = 5, .floor = 4, .rollout_id = 1};
    rig_offer(&rig, &good);
    rig_checkin(&rig);
    rig_offer_none(&rig);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    rig_done(&rig);
    return 0;
}

static struct rig_statement install(uint32_t version, uint64_t counter)
{
    return (struct rig_statement){
        .task = TASK, .version = version, .counter = counter, .rollout_id = 2};
}

static uint64_t refused(void)
{
    struct dev_stats stats;
    dev_stats(rig.runtime, &stats);
    return stats.refused_offers;
}

// Offers what is set, twice. It must be refused both times, reported once, and change nothing.
static void expect_refusal(enum wire_outcome_kind kind, const char *detail)
{
    uint64_t before = refused();
    uint32_t ledger = rig.ledger_count;
    uint32_t requests = rig.blob_requests;
    rig_checkin(&rig);
    rig_checkin(&rig);
    assert_int_equal(refused(), before + 2);
    assert_int_equal(rig.blob_requests, requests);
    assert_int_equal(rig_active(&rig, TASK), 0);
    assert_int_equal(rig.ledger_count, ledger + 1);
    assert_int_equal(rig.ledger[ledger].outcome.kind, kind);
    assert_string_equal(rig.ledger[ledger].detail, detail);
    rig_kill(&rig); // the memory of it survives
    rig_boot(&rig);
    rig_checkin(&rig);
    assert_int_equal(rig.ledger_count, ledger + 1);
}

// What is refused for its time names all that was known of the time.
static void expect_late(uint64_t issued_s, uint64_t expires_s)
{
    char detail[WIRE_REPORT_DETAIL_MAX];
    unsigned long long own_s = rig.port.clock.wall_us / 1000000;
    snprintf(detail, sizeof(detail),
             "no longer valid: signed %llu until %llu, own clock %llu, gateway 0, taken for %llu",
             (unsigned long long)issued_s, (unsigned long long)expires_s, own_s, own_s);
    expect_refusal(WIRE_OUTCOME_FAIL_CLOCK, detail);
}

static void test_wrong_key(void **state)
{
    (void)state;
    struct rig_statement statement = install(1, 6);
    statement.signers = 1u << 2; // a key the device does not trust
    rig_offer(&rig, &statement);
    expect_refusal(WIRE_OUTCOME_FAIL_VERIFY, "signature does not verify");
    assert_int_equal(rig.ledger[rig.ledger_count - 1].outcome.rollout_id, 2);
}

// Every single bit of a signed statement counts.
static void test_every_flipped_bit_is_refused(void **state)
{
    (void)state;
    struct rig_statement statement = install(1, 6);
    struct rig_envelope good;
    rig_sign(&rig, &statement, &good);
    for (size_t bit = 0; bit < good.size * 8; bit++) {
        rig.offers[0] = good;
        rig.offers[0].bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        rig.offer_count = 1;
        rig_checkin(&rig);
        if (rig_active(&rig, TASK) != 0) {
            fail_msg("bit %zu flipped, and the statement was followed", bit);
        }
    }
    assert_int_equal(rig.versions[1].runs, 0);
    rig.offers[0] = good; // and without a flip it is followed
    rig_checkin(&rig);
    assert_int_equal(rig_active(&rig, TASK), 1);
}

static void test_truncated_statement(void **state)
{
    (void)state;
    struct rig_statement statement = install(1, 6);
    struct rig_envelope good;
    rig_sign(&rig, &statement, &good);
    for (size_t size = 1; size < good.size; size++) {
        rig.offers[0] = good;
        rig.offers[0].size = size;
        rig.offer_count = 1;
        rig_checkin(&rig);
        assert_int_equal(rig_active(&rig, TASK), 0);
    }
}

static void test_threshold_of_two(void **state)
{
    (void)state;
    rig.config.signature_threshold = 2;
    rig_kill(&rig);
    rig_boot(&rig);
    struct rig_statement statement = install(1, 6);
    statement.signers = 1;
    rig_offer(&rig, &statement);
    expect_refusal(WIRE_OUTCOME_FAIL_VERIFY, "signature does not verify");
    statement.signers = 1u | 1u << 2; // one trusted, one not
    rig_offer(&rig, &statement);
    expect_refusal(WIRE_OUTCOME_FAIL_VERIFY, "signature does not verify");
    statement.signers = 3;
    rig_offer(&rig, &statement);
    rig_checkin(&rig);
    assert_int_equal(rig_active(&rig, TASK), 1);
}

static void test_one_key_does_not_count_twice(void **state)
{
    (void)state;
    rig.config.signature_threshold = 2;
    rig_kill(&rig);
    rig_boot(&rig);
    struct rig_statement statement = install(1, 6);
    statement.key_twice = true;
    rig_offer(&rig, &statement);
    uint64_t before = refused();
    rig_checkin(&rig);
    assert_int_equal(refused(), before + 1);
    assert_int_equal(rig_active(&rig, TASK), 0);
}

// ---- What is refused stands, and is said in the profile

static void last_profile(uint8_t *bytes, size_t capacity, struct wire_profile *out)
{
    size_t size = 0;
    assert_int_equal(base_b64_decode(base_str_of(rig.profile), bytes, capacity, &size), BASE_OK);
    assert_int_equal(wire_profile_parse(bytes, size, out), BASE_OK);
}

static uint32_t standing(void)
{
    uint8_t bytes[1024];
    struct wire_profile profile;
    rig_checkin(&rig);
    last_profile(bytes, sizeof(bytes), &profile);
    return profile.refused_count;
}

static bool names(const struct rig_envelope *offer)
{
    uint8_t bytes[1024];
    struct wire_profile profile;
    last_profile(bytes, sizeof(bytes), &profile);
    return wire_profile_refuses(&profile, wire_profile_mark(offer->bytes, offer->size));
}

static void test_what_is_refused_stands(void **state)
{
    (void)state;
    struct rig_statement statement = install(1, 6);
    statement.signers = 1u << 2;
    rig_offer(&rig, &statement);
    assert_int_equal(standing(), 0); // as it was asked for
    assert_int_equal(standing(), 1);
    assert_true(names(&rig.offers[0]));
    struct rig_envelope signature = rig.offers[0];
    uint8_t bytes[1024];
    struct wire_profile with;
    last_profile(bytes, sizeof(bytes), &with);
    assert_true(with.digest -
                    wire_profile_refused_term(wire_profile_mark(signature.bytes, signature.size)) ==
                wire_profile_term(wire_task_id(BASE_STR(TASK)),
                                  wire_version_id(&rig.versions[0].manifest), 0));
    statement = install(1, 7);
    statement.max_bucket = 1;
    rig_offer(&rig, &statement);
    rig_checkin(&rig);
    rig_offer_none(&rig);
    assert_int_equal(standing(), 2);
    rig_kill(&rig); // it is remembered
    rig_boot(&rig);
    assert_int_equal(standing(), 2);
    assert_true(names(&signature));
    uint32_t told = rig.ledger_count;
    rig.config.attrs.items[1].integer = 8192; // not by a device that is another now
    rig_kill(&rig);
    rig_boot(&rig);
    assert_int_equal(standing(), 0);
    rig.offers[0] = signature;
    rig.offer_count = 1;
    rig_checkin(&rig);
    assert_int_equal(standing(), 1);
    assert_int_equal(rig.ledger_count, told); // it was told before
}

// A floor, and no room: until the tasks change.
static void test_what_the_tasks_refuse_stands_until_they_change(void **state)
{
    (void)state;
    struct rig_statement statement = install(1, 3);
    rig_offer(&rig, &statement);
    rig_checkin(&rig);
    assert_int_equal(standing(), 1);
    assert_true(names(&rig.offers[0]));
    statement = install(1, 6);
    rig_offer(&rig, &statement);
    rig_checkin(&rig);
    assert_int_equal(rig_active(&rig, TASK), 1);
    assert_int_equal(standing(), 0);
}

// Time passes by itself: what came too late may be right later.
static void test_what_time_refuses_does_not_stand(void **state)
{
    (void)state;
    struct rig_statement statement = install(1, 6);
    statement.issued_s = rig.port.clock.wall_us / 1000000 - 20;
    statement.expires_s = statement.issued_s + 10;
    rig_offer(&rig, &statement);
    rig_checkin(&rig);
    assert_int_equal(standing(), 0);
    assert_int_equal(rig_count(&rig, WIRE_OUTCOME_FAIL_CLOCK), 1);
}

// More than there is room for: the newest are remembered, each is told once while it is.
static void test_refusals_are_bounded(void **state)
{
    (void)state;
    uint32_t told = rig.ledger_count;
    uint32_t room = dev_refusals_room(rig.config.tasks_max);
    for (uint32_t i = 0; i < room + 5; i++) {
        struct rig_statement statement = install(1, 6 + i);
        statement.max_bucket = 1;
        rig_offer(&rig, &statement);
        rig_checkin(&rig);
        rig_checkin(&rig);
    }
    assert_int_equal(rig.ledger_count, told + room + 5);
    rig_kill(&rig);
    rig_boot(&rig);
    rig_offer_none(&rig);
    assert_int_equal(standing(), room);
    rig.config.tasks_max = 1;
    rig_kill(&rig);
    rig_boot(&rig);
    assert_int_equal(standing(), 0); // it holds fewer now: all may be otherwise
}

static void test_the_limit_is_told(void **state)
{
    (void)state;
    uint8_t bytes[1024];
    struct wire_profile profile;
    rig_checkin(&rig);
    last_profile(bytes, sizeof(bytes), &profile);
    assert_int_equal(profile.tasks_max, 4);
    rig.config.tasks_max = 0;
    rig_kill(&rig);
    rig_boot(&rig);
    rig_checkin(&rig);
    last_profile(bytes, sizeof(bytes), &profile);
    assert_int_equal(profile.tasks_max, DEV_TASKS_DEFAULT);
}

static void test_replayed_counter(void **state)
{
    (void)state;
    struct rig_statement statement = install(1, 3); // below the floor
    rig_offer(&rig, &statement);
    expect_refusal(WIRE_OUTCOME_NOT_APPLICABLE, "release counter goes backwards");
    statement = install(1, 5); // the same number for another version
    rig_offer(&rig, &statement);
    expect_refusal(WIRE_OUTCOME_FAIL_VERIFY, "release counter goes backwards");
}

static void test_widened_stage_is_no_news(void **state)
{
    (void)state;
    struct rig_statement statement = install(0, 5);
    statement.rollout_id = 1; // the very statement that is followed, for a wider stage
    statement.max_bucket = 9999;
    uint32_t ledger = rig.ledger_count;
    rig_offer(&rig, &statement);
    rig_checkin(&rig);
    assert_int_equal(refused(), 0);
    assert_int_equal(rig.ledger_count, ledger);
    assert_int_equal(rig.versions[0].runs, 1);
}

// An offer stands as long as check-ins repeat it; the same statement may come again.
static void test_an_offer_that_is_not_repeated_is_given_up(void **state)
{
    (void)state;
    struct rig_statement statement = install(1, 6);
    rig_offer(&rig, &statement);
    rig.stall_bodies = 1; // the pull hangs
    dev_checkin_now(rig.runtime);
    rig_run(&rig, 2000000);
    assert_int_equal(rig_active(&rig, TASK), 0);
    rig_offer_none(&rig);
    rig_checkin(&rig); // ten minutes: time enough to pull, were it still wanted
    assert_int_equal(rig_active(&rig, TASK), 0);
    assert_int_equal(rig.versions[1].runs, 0);
    rig_offer(&rig, &statement);
    rig_checkin(&rig);
    assert_int_equal(rig_active(&rig, TASK), 1);
}

// What failed here is tried again when the answer says so, and not before.
// The answer to a check-in that was under way when a version came into place is about the one
// before: what it does not offer may be what runs now. The device does not wait for its interval.
static void test_an_answer_from_before_is_asked_for_again(void **state)
{
    (void)state;
    struct rig_statement statement = install(1, 6);
    rig_offer(&rig, &statement);
    rig.blob_status = 503;
    rig.retry_after_s = 20;
    dev_checkin_now(rig.runtime);
    rig_run(&rig, 5000000); // offered, and not here yet
    rig.blob_status = 0;
    rig_offer_none(&rig);
    rig.hold_checkins = true;
    rig.run_on = true;
    dev_checkin_now(rig.runtime);
    rig_run(&rig, 24000000);
    assert_int_equal(rig_active(&rig, TASK), 1);
    rig.hold_checkins = false;
    rig.checkins = 0;
    rig_run(&rig, 10000000);
    assert_int_equal(rig.checkins, 2);
    rig_run(&rig, 60000000); // and that is all
    assert_int_equal(rig.checkins, 2);
}

static void test_a_blocked_version_is_tried_again_when_told(void **state)
{
    (void)state;
    struct rig_statement statement = install(1, 6);
    rig.versions[1].ends = WIRE_OUTCOME_FAIL_EXCEPTION;
    rig_offer(&rig, &statement);
    rig_checkin(&rig);
    assert_int_equal(rig_active(&rig, TASK), 0); // went back by itself
    assert_int_equal(rig_count(&rig, WIRE_OUTCOME_FAIL_EXCEPTION), 1);
    rig.versions[1].ends = WIRE_OUTCOME_RAN;
    rig_checkin(&rig);
    assert_int_equal(rig_active(&rig, TASK), 0);
    rig.offer_flags = WIRE_OFFER_FLAG_RETRY;
    rig_checkin(&rig);
    assert_int_equal(rig_active(&rig, TASK), 1);
    assert_int_equal(rig_count(&rig, WIRE_OUTCOME_FAIL_EXCEPTION), 1);
}

static void test_outside_the_signed_stage(void **state)
{
    (void)state;
    struct rig_statement statement = install(1, 6);
    statement.salt = 7;
    uint16_t bucket = pol_bucket(rig.config.device_id, statement.salt);
    assert_true(bucket > 0);
    statement.max_bucket = bucket; // stages are below, so this one just misses
    rig_offer(&rig, &statement);
    expect_refusal(WIRE_OUTCOME_NOT_APPLICABLE, "device is outside the signed stage");
    statement.max_bucket = (uint16_t)(bucket + 1);
    rig_offer(&rig, &statement);
    rig_checkin(&rig);
    assert_int_equal(rig_active(&rig, TASK), 1);
}

// A gateway that offers an arm of an experiment to the devices of another is refused by them.
static void test_outside_the_signed_arm(void **state)
{
    (void)state;
    struct rig_statement statement = install(1, 6);
    statement.salt = 7;
    statement.arm_salt = 8;
    uint16_t bucket = pol_bucket(rig.config.device_id, statement.arm_salt);
    assert_true(bucket > 0);
    statement.arm_to = bucket; // just misses
    rig_offer(&rig, &statement);
    expect_refusal(WIRE_OUTCOME_NOT_APPLICABLE, "device is outside the signed stage");
    statement.arm_from = (uint16_t)(bucket + 1);
    statement.arm_to = 10000;
    rig_offer(&rig, &statement);
    expect_refusal(WIRE_OUTCOME_NOT_APPLICABLE, "device is outside the signed stage");
    statement.arm_from = bucket;
    rig_offer(&rig, &statement);
    rig_checkin(&rig);
    assert_int_equal(rig_active(&rig, TASK), 1);
}

static void test_expired(void **state)
{
    (void)state;
    uint64_t now_s = rig.port.clock.wall_us / 1000000;
    struct rig_statement statement = install(1, 6);
    statement.issued_s = now_s - 200;
    statement.expires_s = now_s - 1;
    rig_offer(&rig, &statement);
    expect_late(now_s - 200, now_s - 1);
}

// A clock set back does not bring an expired statement to life: the device remembers the time it
// has seen signed.
static void test_clock_set_back(void **state)
{
    (void)state;
    uint64_t now_s = rig.port.clock.wall_us / 1000000;
    struct rig_statement later = install(1, 6);
    later.issued_s = now_s + 1000;
    later.expires_s = now_s + 5000;
    rig_offer(&rig, &later);
    rig_checkin(&rig);
    assert_int_equal(rig_active(&rig, TASK), 1);
    rig.port.clock.wall_us = 0; // 1970
    rig_kill(&rig);
    rig_boot(&rig);
    struct rig_statement old = install(0, 7);
    old.issued_s = now_s;
    old.expires_s = now_s + 900;
    uint64_t before = refused();
    rig_offer(&rig, &old);
    rig_checkin(&rig);
    assert_int_equal(refused(), before + 1);
    assert_int_equal(rig_active(&rig, TASK), 1);
}

static void test_wrong_abi(void **state)
{
    (void)state;
    struct rig_statement statement = install(2, 6);
    rig_offer(&rig, &statement);
    rig_checkin(&rig);
    rig_checkin(&rig);
    assert_int_equal(rig_active(&rig, TASK), 0);
    assert_int_equal(rig_count(&rig, WIRE_OUTCOME_NOT_APPLICABLE), 1);
    assert_int_equal(rig.versions[2].runs, 0);
    assert_int_equal(rig.blob_requests, 2 + 1); // the manifest once, its file never
}

static void test_manifest_of_another_task(void **state)
{
    (void)state;
    struct rig_statement statement = install(3, 6); // signed for TASK, but the content is OTHER's
    rig_offer(&rig, &statement);
    rig_checkin(&rig);
    rig_checkin(&rig);
    assert_int_equal(rig_active(&rig, TASK), 0);
    assert_int_equal(rig_count(&rig, WIRE_OUTCOME_FAIL_VERIFY), 1);
    assert_int_equal(rig.versions[3].runs, 0);
}

static void test_task_table_is_bounded(void **state)
{
    (void)state;
    static const char *const names[] = {"a/1", "a/2", "a/3", "a/4", "a/5"};
    rig_offer_none(&rig);
    for (int i = 0; i < 5; i++) {
        struct rig_statement statement = install(0, 1);
        statement.task = names[i];
        rig_offer_add(&rig, &statement);
    }
    rig_checkin(&rig);
    assert_int_equal(dev_task_count(rig.runtime), 4);
    assert_true(refused() >= 2);
    assert_int_equal(rig_active(&rig, TASK), 0);
}

static void test_no_trusted_key_means_no_task(void **state)
{
    (void)state;
    rig.config.trusted_key_count = 0;
    rig_kill(&rig);
    rig_boot(&rig);
    struct rig_statement statement = install(1, 6);
    rig_offer(&rig, &statement);
    expect_refusal(WIRE_OUTCOME_FAIL_VERIFY, "signature does not verify");
}

// Damage to the frame of the answer itself: the envelope in it may be good, and is judged alone.
static void test_damaged_answers(void **state)
{
    (void)state;
    struct rig_statement statement = install(0, 5);
    statement.rollout_id = 1;
    struct rig_envelope envelope;
    rig_sign(&rig, &statement, &envelope);
    struct wire_offers offers = {.count = 1};
    offers.items[0].envelope = envelope.bytes;
    offers.items[0].envelope_bytes = envelope.size;
    uint8_t body[2000];
    size_t size = 0;
    assert_int_equal(wire_offers_encode(&offers, body, sizeof(body), &size), BASE_OK);
    for (size_t cut = 0; cut < size; cut++) {
        dev_checkin_now(rig.runtime);
        (void)dev_tick(rig.runtime, rig.port.clock.mono_us);
        struct mem_exchange *exchange = mem_exchange_find(&rig.port, "/v1/checkin");
        assert_non_null(exchange);
        struct dev_response_head head = {.status = 200, .content_bytes = cut};
        struct dev_stats before;
        struct dev_stats after;
        dev_stats(rig.runtime, &before);
        mem_exchange_answer(&rig.port, rig.runtime, exchange, &head, (struct base_span){body, cut});
        dev_stats(rig.runtime, &after);
        assert_int_equal(after.bad_requests, before.bad_requests + 1);
        assert_int_equal(after.checkins, before.checkins);
    }
    assert_int_equal(rig_active(&rig, TASK), 0);
}

static void test_offer_header(void **state)
{
    (void)state;
    struct rig_statement statement = install(1, 6);
    struct rig_envelope envelope;
    rig_sign(&rig, &statement, &envelope);
    struct wire_offers offers = {.count = 1};
    offers.items[0].envelope = envelope.bytes;
    offers.items[0].envelope_bytes = envelope.size;
    uint8_t bytes[2000];
    char text[3000];
    size_t size = 0;
    assert_int_equal(wire_offers_encode(&offers, bytes, sizeof(bytes), &size), BASE_OK);
    struct base_str header = {text, base_b64_encode(bytes, size, text)};
    struct base_str half = {text, header.size / 2};
    assert_int_equal(dev_on_offer_header(rig.runtime, BASE_STR("!")), BASE_ERR_INVALID);
    assert_int_equal(dev_on_offer_header(rig.runtime, half), BASE_ERR_INVALID);
    assert_int_equal(dev_on_offer_header(rig.runtime, BASE_STR("")), BASE_ERR_INVALID);
    assert_int_equal(dev_on_offer_header(rig.runtime, header), BASE_OK);
    rig_run(&rig, 60 * 1000000ull);
    assert_int_equal(rig_active(&rig, TASK), 1);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_wrong_key),
        CASE(test_every_flipped_bit_is_refused),
        CASE(test_what_is_refused_stands),
        CASE(test_what_the_tasks_refuse_stands_until_they_change),
        CASE(test_what_time_refuses_does_not_stand),
        CASE(test_refusals_are_bounded),
        CASE(test_the_limit_is_told),
        CASE(test_truncated_statement),
        CASE(test_threshold_of_two),
        CASE(test_one_key_does_not_count_twice),
        CASE(test_replayed_counter),
        CASE(test_widened_stage_is_no_news),
        CASE(test_outside_the_signed_stage),
        CASE(test_an_offer_that_is_not_repeated_is_given_up),
        CASE(test_an_answer_from_before_is_asked_for_again),
        CASE(test_a_blocked_version_is_tried_again_when_told),
        CASE(test_outside_the_signed_arm),
        CASE(test_expired),
        CASE(test_clock_set_back),
        CASE(test_wrong_abi),
        CASE(test_manifest_of_another_task),
        CASE(test_task_table_is_bounded),
        CASE(test_no_trusted_key_means_no_task),
        CASE(test_damaged_answers),
        CASE(test_offer_header),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
