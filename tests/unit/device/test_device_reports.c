// Reports: outcomes are numbered without gaps, survive kills, go only when they were acknowledged,
// and are bounded. And check-ins: intervals, back-off, pairs on demand, hints.
#include "device_rig.h"

#include "wire/profile.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TASK   "demo/score"
#define SECOND 1000000ull

static struct rig rig;

static int setup(void **state)
{
    (void)state;
    rig_init(&rig);
    rig_version_add(&rig, TASK, 1, 100, WIRE_RUNTIME_ABI, 0);
    rig_version_add(&rig, TASK, 1, 200, WIRE_RUNTIME_ABI, 0);
    rig_boot(&rig);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    rig_done(&rig);
    return 0;
}

static void install(uint32_t version, uint64_t counter)
{
    struct rig_statement statement = {
        .task = TASK, .version = version, .counter = counter, .rollout_id = counter};
    rig_offer(&rig, &statement);
    rig_checkin(&rig);
    rig_offer_none(&rig);
}

static void test_kept_until_acknowledged(void **state)
{
    (void)state;
    rig.report_status = 503;
    install(0, 1);
    assert_int_equal(rig.ledger_count, 0);
    assert_false(dev_is_idle(rig.runtime));
    for (int i = 0; i < 3; i++) {
        rig_kill(&rig);
        rig_boot(&rig);
        rig_checkin(&rig);
    }
    rig.report_status = 0;
    rig_kill(&rig);
    rig_boot(&rig);
    rig_checkin(&rig);
    assert_int_equal(rig.ledger_count, 3);
    assert_int_equal(rig.doubled, 0);
    assert_int_equal(rig.ledger[0].seq, 1);
    assert_true(rig.ledger[0].epoch != 0);
    assert_true(dev_is_idle(rig.runtime));
}

// The gateway stored the report, but the device never saw the answer: it comes again under the same
// numbers, so that the gateway can tell.
static void test_lost_answer_is_recognised(void **state)
{
    (void)state;
    install(0, 1);
    assert_int_equal(rig.ledger_count, 3);
    // As if the acknowledgement had never been stored: back to the record before it.
    static struct mem_storage before;
    before = rig.port.storage;
    install(1, 2);
    assert_int_equal(rig.ledger_count, 6);
    memcpy(rig.port.storage.state, before.state, before.state_bytes);
    rig.port.storage.state_bytes = before.state_bytes;
    rig_kill(&rig);
    rig_boot(&rig);
    install(1, 2);
    assert_int_equal(rig.ledger_count, 6); // numbers 4 to 6 again, with the same content
    assert_int_equal(rig.doubled, 3);
}

static void test_report_the_gateway_never_takes(void **state)
{
    (void)state;
    rig.report_status = 400;
    install(0, 1);
    struct dev_stats stats;
    dev_stats(rig.runtime, &stats);
    assert_int_equal(stats.dropped_outcomes, 3); // it must not block the way for ever
    rig.report_status = 0;
    install(1, 2);
    assert_int_equal(rig.ledger_count, 3);
    assert_int_equal(rig.ledger[0].seq, 4);
}

static void test_queue_is_bounded(void **state)
{
    (void)state;
    rig.report_status = 503;
    for (uint32_t i = 1; i <= 12; i++) {
        install(i % 2, i);
    }
    struct dev_stats stats;
    dev_stats(rig.runtime, &stats);
    assert_true(stats.dropped_outcomes >= 12 * 3 - 16);
    rig.report_status = 0;
    rig_checkin(&rig);
    assert_true(rig.ledger_count <= 16);
    assert_int_equal(rig.ledger[rig.ledger_count - 1].seq, 36); // the newest are kept
    assert_int_equal(rig.ledger[0].seq, 36 - rig.ledger_count + 1);
}

static void test_corrupt_state_draws_a_new_epoch(void **state)
{
    (void)state;
    install(0, 1);
    uint32_t epoch = rig.ledger[0].epoch;
    rig.port.storage.state[10] ^= 1;
    rig.port.storage.has_before = false;
    rig_kill(&rig);
    rig_boot(&rig);
    assert_int_equal(dev_task_count(rig.runtime), 0);
    install(0, 1);
    assert_int_equal(rig.ledger_count, 6);
    assert_true(rig.ledger[3].epoch != epoch);
    assert_int_equal(rig.ledger[3].seq, 1);
}

static void test_report_delay_coalesces(void **state)
{
    (void)state;
    rig.config.report_delay_ms = 20000;
    rig_kill(&rig);
    rig_boot(&rig);
    uint64_t start_us = rig.port.clock.mono_us;
    install(0, 1);
    assert_int_equal(rig.ledger_count, 3);
    assert_true(rig.port.clock.mono_us - start_us >= 20 * SECOND);
}

static void test_intervals_and_spread(void **state)
{
    (void)state;
    rig.config.checkin_spread_s = 100;
    rig.config.checkin_interval_s = 1000;
    uint64_t first_sum_us = 0;
    for (int i = 0; i < 50; i++) {
        rig_kill(&rig);
        rig_boot(&rig);
        uint64_t now_us = rig.port.clock.mono_us;
        uint64_t due_us = dev_tick(rig.runtime, now_us);
        uint64_t wait_us = due_us > now_us ? due_us - now_us : 0;
        assert_true(wait_us < 100 * SECOND);
        first_sum_us += wait_us;
    }
    assert_true(first_sum_us / 50 > 25 * SECOND);
    assert_true(first_sum_us / 50 < 75 * SECOND);
    rig_checkin(&rig);
    uint64_t now_us = rig.port.clock.mono_us;
    uint64_t wait_us = dev_tick(rig.runtime, now_us) - now_us;
    assert_true(wait_us >= 875 * SECOND);
    assert_true(wait_us <= 1125 * SECOND);
}

static uint64_t wait_s(void)
{
    uint64_t now_us = rig.port.clock.mono_us;
    return (dev_tick(rig.runtime, now_us) - now_us) / SECOND;
}

static void last_profile(uint8_t *bytes, size_t capacity, struct wire_profile *out)
{
    size_t size = 0;
    assert_int_equal(base_b64_decode(base_str_of(rig.profile), bytes, capacity, &size), 0);
    assert_int_equal(wire_profile_parse(bytes, size, out), BASE_OK);
}

static uint32_t told_interval(bool *out_own)
{
    uint8_t bytes[1024];
    struct wire_profile profile;
    rig_checkin(&rig);
    last_profile(bytes, sizeof(bytes), &profile);
    *out_own = (profile.flags & WIRE_PROFILE_FLAG_OWN_PACE) != 0;
    return profile.interval_s;
}

// The gateway's interval holds until it says another, through answers without news.
static void test_the_gateways_interval_is_kept(void **state)
{
    (void)state;
    bool own;
    assert_int_equal(told_interval(&own), 300);
    assert_false(own);
    rig.offer_flags = WIRE_OFFER_FLAG_INTERVAL;
    rig.next_checkin_s = 40;
    rig_checkin(&rig);
    rig.offer_flags = 0;
    rig.next_checkin_s = 0;
    assert_int_equal(told_interval(&own), 40);
    assert_in_range(wait_s(), 34, 45);
    rig_kill(&rig);
    rig_boot(&rig);
    assert_int_equal(told_interval(&own), 40);
    rig.offer_flags = WIRE_OFFER_FLAG_SHADOWS; // once only: an offer is held back
    rig.next_checkin_s = 10;
    rig_checkin(&rig);
    assert_in_range(wait_s(), 8, 11);
    rig.offer_flags = 0;
    assert_int_equal(told_interval(&own), 40);
    assert_in_range(wait_s(), 34, 45);
}

// One answer with another number in it: nobody signs that.
static void test_no_single_answer_sends_it_far_away(void **state)
{
    (void)state;
    bool own;
    rig.offer_flags = WIRE_OFFER_FLAG_SHADOWS;
    rig.next_checkin_s = DEV_CHECKIN_INTERVAL_MAX_S;
    rig_checkin(&rig);
    assert_in_range(wait_s(), 524, 675);
    rig.offer_flags = WIRE_OFFER_FLAG_INTERVAL;
    for (uint32_t twice_s = 600; twice_s < DEV_CHECKIN_INTERVAL_MAX_S; twice_s *= 2) {
        rig_checkin(&rig);
        assert_in_range(wait_s(), twice_s / 8 * 7 - 1, twice_s / 8 * 9);
    }
    rig.next_checkin_s = UINT32_MAX;
    rig_checkin(&rig);
    rig.offer_flags = 0;
    rig.next_checkin_s = 0;
    assert_int_equal(told_interval(&own), DEV_CHECKIN_INTERVAL_MAX_S); // who says it again is heard
}

static void test_an_interval_of_its_own_is_not_changed(void **state)
{
    (void)state;
    bool own;
    rig.config.checkin_interval_s = 1000;
    rig_kill(&rig);
    rig_boot(&rig);
    rig.offer_flags = WIRE_OFFER_FLAG_INTERVAL;
    rig.next_checkin_s = 40;
    rig_checkin(&rig);
    rig.offer_flags = 0;
    rig.next_checkin_s = 0;
    assert_int_equal(told_interval(&own), 1000);
    assert_true(own);
    assert_in_range(wait_s(), 874, 1125);
}

static void test_backoff_and_retry_after(void **state)
{
    (void)state;
    rig.run_on = true;
    rig.checkin_status = 503;
    dev_checkin_now(rig.runtime);
    rig_run(&rig, 3600 * SECOND);
    // At most once a second at first, and at most once in five minutes later.
    assert_true(rig.checkins >= 10);
    assert_true(rig.checkins <= 120);
    rig.checkins = 0;
    rig.checkin_status = 429;
    rig.retry_after_s = 1800;
    rig_run(&rig, 300 * SECOND);
    uint32_t asked = rig.checkins;
    dev_checkin_now(rig.runtime); // not even then: the gateway asked for time
    rig_run(&rig, 1200 * SECOND);
    assert_int_equal(rig.checkins, asked);
    assert_int_equal(asked, 1);
    // What was answered, and when it asks again, is there to be told.
    struct dev_stats stats;
    dev_stats(rig.runtime, &stats);
    assert_int_equal(stats.failed_status, 429);
    assert_false(stats.failed_report);
    assert_true(stats.failed_requests >= 11);
    assert_true(stats.failed_wait_ms >= 1800 * 1000);
}

static void test_check_in_times_out(void **state)
{
    (void)state;
    dev_checkin_now(rig.runtime);
    (void)dev_tick(rig.runtime, rig.port.clock.mono_us);
    assert_non_null(mem_exchange_find(&rig.port, "/v1/checkin"));
    mem_clock_advance(&rig.port, 31 * SECOND);
    uint64_t due_us = dev_tick(rig.runtime, rig.port.clock.mono_us);
    assert_int_equal(rig.port.http.cancelled, 1);
    assert_true(due_us > rig.port.clock.mono_us);
    struct dev_stats stats;
    dev_stats(rig.runtime, &stats);
    assert_int_equal(stats.bad_requests, 1);
    assert_int_equal(stats.checkins, 0);
}

static bool profile_has_pairs(void)
{
    uint8_t bytes[1024];
    struct wire_profile profile;
    last_profile(bytes, sizeof(bytes), &profile);
    return profile.pairs != NULL;
}

static void test_pairs_only_when_few_or_asked_for(void **state)
{
    (void)state;
    static const char *const names[] = {"t/1", "t/2", "t/3", "t/4", "t/5",
                                        "t/6", "t/7", "t/8", "t/9", "t/10"};
    rig.config.tasks_max = 12;
    rig_kill(&rig);
    rig_boot(&rig);
    for (int i = 0; i < 10; i++) {
        struct rig_statement statement = {.task = names[i],
                                          .version = 0, // of another task: only the name stays
                                          .counter = 1,
                                          .rollout_id = 1};
        rig_offer(&rig, &statement);
        rig_checkin(&rig);
    }
    rig_offer_none(&rig);
    rig_checkin(&rig);
    assert_int_equal(dev_task_count(rig.runtime), 10);
    assert_false(profile_has_pairs());
    struct rig_statement statement = {
        .task = names[0], .version = 0, .counter = 1, .rollout_id = 1};
    rig_offer(&rig, &statement);
    rig.offer_flags = WIRE_OFFER_FLAG_ASK_PAIRS;
    dev_checkin_now(rig.runtime);
    rig.checkins = 0;
    rig_run(&rig, SECOND);
    assert_int_equal(rig.checkins, 2); // asked, and answered at once; not a third time
    assert_true(profile_has_pairs());
}

static void test_hint_stream(void **state)
{
    (void)state;
    rig.config.hints = true;
    rig_kill(&rig);
    rig_boot(&rig);
    rig_run(&rig, SECOND);
    struct mem_exchange *stream = mem_exchange_find(&rig.port, "/v1/push");
    assert_non_null(stream);
    assert_true(stream->stream);
    struct dev_response_head head = {.status = 200, .content_bytes = UINT64_MAX};
    static const char hello[] = "event: hello\ndata: {}\n\n";
    static const char hint[] = "event: hint\ndata: {\"spread_ms\":2000}\n\n";
    dev_on_head(rig.runtime, stream->id, &head);
    dev_on_body(rig.runtime, stream->id, (const uint8_t *)hello, sizeof(hello) - 1);
    rig.checkins = 0;
    rig_run(&rig, 60 * SECOND);
    assert_int_equal(rig.checkins, 0);
    uint64_t start_us = rig.port.clock.mono_us;
    dev_on_body(rig.runtime, stream->id, (const uint8_t *)hint, sizeof(hint) - 1);
    rig_run(&rig, 10 * SECOND);
    assert_int_equal(rig.checkins, 1);
    assert_true(rig.port.clock.mono_us - start_us <= 2 * SECOND);
    static const char later[] = "event: hint\ndata: {\"after_ms\":5000,\"spread_ms\":1000}\n\n";
    rig.checkins = 0;
    start_us = rig.port.clock.mono_us;
    dev_on_body(rig.runtime, stream->id, (const uint8_t *)later, sizeof(later) - 1);
    rig_run(&rig, 10 * SECOND);
    assert_int_equal(rig.checkins, 1);
    assert_true(rig.port.clock.mono_us - start_us >= 5 * SECOND);
    assert_true(rig.port.clock.mono_us - start_us <= 6 * SECOND);
    // The stream ends: it is opened again after a back-off.
    mem_exchange_end(&rig.port, rig.runtime, stream, BASE_ERR_CLOSED);
    (void)dev_tick(rig.runtime, rig.port.clock.mono_us);
    assert_null(mem_exchange_find(&rig.port, "/v1/push"));
    mem_clock_advance(&rig.port, 4 * SECOND);
    (void)dev_tick(rig.runtime, rig.port.clock.mono_us);
    stream = mem_exchange_find(&rig.port, "/v1/push");
    assert_non_null(stream);
    // What was said meanwhile is asked for.
    rig.checkins = 0;
    dev_on_head(rig.runtime, stream->id, &head);
    rig_run(&rig, 60 * SECOND);
    assert_int_equal(rig.checkins, 1);
}

// The answer under way may have been given before what the hint is about: the device asks again.
static void test_asked_for_during_a_check_in(void **state)
{
    (void)state;
    static const char hint[] = "event: hint\ndata: {\"spread_ms\":2000}\n\n";
    struct dev_response_head head = {.status = 200, .content_bytes = UINT64_MAX};
    rig.config.hints = true;
    rig_kill(&rig);
    rig_boot(&rig);
    rig_run(&rig, SECOND);
    struct mem_exchange *stream = mem_exchange_find(&rig.port, "/v1/push");
    assert_non_null(stream);
    dev_on_head(rig.runtime, stream->id, &head);
    rig.run_on = true;
    for (int asked_by_app = 0; asked_by_app < 2; asked_by_app++) {
        rig_run(&rig, 30 * SECOND);
        rig.checkins = 0;
        dev_checkin_now(rig.runtime);
        (void)dev_tick(rig.runtime, rig.port.clock.mono_us);
        assert_non_null(mem_exchange_find(&rig.port, "/v1/checkin"));
        if (asked_by_app != 0) {
            dev_checkin_now(rig.runtime);
        } else {
            dev_on_body(rig.runtime, stream->id, (const uint8_t *)hint, sizeof(hint) - 1);
        }
        rig_run(&rig, 10 * SECOND);
        assert_int_equal(rig.checkins, 2);
        rig_run(&rig, 30 * SECOND);
        assert_int_equal(rig.checkins, 2);
    }
}

static void test_unknown_exchanges_are_ignored(void **state)
{
    (void)state;
    struct dev_response_head head = {.status = 200};
    struct dev_task_end end = {.outcome = WIRE_OUTCOME_RAN};
    dev_on_head(rig.runtime, 0, &head);
    dev_on_head(rig.runtime, 99, &head);
    dev_on_body(rig.runtime, 99, (const uint8_t *)"x", 1);
    dev_on_end(rig.runtime, 0, BASE_OK);
    dev_on_end(rig.runtime, 99, BASE_OK);
    dev_on_task_end(rig.runtime, 0, &end);
    dev_on_task_end(rig.runtime, 99, &end);
    assert_true(dev_validate(rig.runtime));
    dev_stop(NULL);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_kept_until_acknowledged),
        CASE(test_lost_answer_is_recognised),
        CASE(test_report_the_gateway_never_takes),
        CASE(test_queue_is_bounded),
        CASE(test_corrupt_state_draws_a_new_epoch),
        CASE(test_report_delay_coalesces),
        CASE(test_intervals_and_spread),
        CASE(test_the_gateways_interval_is_kept),
        CASE(test_no_single_answer_sends_it_far_away),
        CASE(test_an_interval_of_its_own_is_not_changed),
        CASE(test_backoff_and_retry_after),
        CASE(test_check_in_times_out),
        CASE(test_pairs_only_when_few_or_asked_for),
        CASE(test_hint_stream),
        CASE(test_asked_for_during_a_check_in),
        CASE(test_unknown_exchanges_are_ignored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
