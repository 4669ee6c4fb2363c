// Rides: check-ins and reports on the app's own requests. While they come the runtime makes none of
// its own; when they stop it does. Whatever becomes of a ride, nothing is lost, and nobody waits.
#include "role_rig.h"

#include "core/base/runtime.h"
#include "wire/ride_token.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TASK   "demo/score"
#define SECOND 1000000ull
#define WAIT_S 60

static struct role_rig roles;
static struct rig *rig = &roles.rig;
static struct dev_ride ride;

static void versions_add(void)
{
    rig_version_add(rig, TASK, 1, 100, WIRE_RUNTIME_ABI, 0);
    rig_version_add(rig, TASK, 1, 200, WIRE_RUNTIME_ABI, 0);
    rig->config.ride_wait_s = WAIT_S;
    rig->config.request_timeout_ms = 30000;
    rig->run_on = true;
}

static int setup(void **state)
{
    (void)state;
    rig_init(rig);
    versions_add();
    rig_boot(rig);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    rig_done(rig);
    return 0;
}

static int setup_roles(void **state)
{
    (void)state;
    role_rig_init(&roles, 900);
    versions_add();
    rig_boot(rig);
    return 0;
}

static int teardown_roles(void **state)
{
    (void)state;
    role_rig_done(&roles);
    return 0;
}

static const struct dev_stats *stats(void)
{
    static struct dev_stats now;
    dev_stats(rig->runtime, &now);
    return &now;
}

// A request of the app's, answered at once, and `pause_s` in which it makes none.
static void business(uint32_t pause_s)
{
    assert_int_equal(dev_ride_start(rig->runtime, &ride), BASE_OK);
    rig_ride_answer(rig, &ride);
    rig_run(rig, pause_s * SECOND);
}

static struct rig_statement statement_of(uint32_t version, uint64_t counter)
{
    return (struct rig_statement){
        .task = TASK, .version = version, .counter = counter, .rollout_id = counter, .stage = 3};
}

static void expect_no_request(void)
{
    assert_int_equal(rig->checkins, 0);
    assert_int_equal(rig->reports, 0);
}

// From the offer to the report that is durable: no request of its own but pulls.
static void test_a_release_by_rides_alone(void **state)
{
    (void)state;
    struct rig_statement statement = statement_of(0, 1);
    rig_run(rig, (WAIT_S - 1) * SECOND); // the app has not asked for anything yet
    business(20);
    rig_offer(rig, &statement);
    for (int i = 0; i < 30; i++) {
        business(20);
    }
    assert_int_equal(rig_active(rig, TASK), 0);
    assert_int_equal(rig_count(rig, WIRE_OUTCOME_RAN), 1);
    assert_int_equal(rig->ledger_count, 3);
    assert_int_equal(rig->doubled, 0);
    expect_no_request();
    assert_int_equal(stats()->rides, 31);
    assert_int_equal(stats()->checkins, 31);
    assert_true(stats()->ride_reports >= 1);
    // The way back is an order, which an answer to a check-in may give.
    rig_offer_stop(rig, TASK);
    business(20);
    business(20);
    assert_int_equal(rig_active(rig, TASK), -1);
    expect_no_request();
}

// When business stops, so long is waited; then everything goes by itself, as ever.
static void test_business_stops(void **state)
{
    (void)state;
    struct rig_statement statement = statement_of(0, 1);
    rig_offer(rig, &statement);
    business(WAIT_S - 2);
    expect_no_request();
    assert_int_equal(rig_active(rig, TASK), 0);
    rig_run(rig, 3 * SECOND);
    assert_int_equal(rig->reports, 1);
    assert_int_equal(rig->ledger_count, 3);
    assert_int_equal(rig->checkins, 0); // its time is the interval after the ride
    rig_run(rig, 340 * SECOND);
    assert_in_range(rig->checkins, 1, 2);
}

// Nobody rides at all: the first check-in is that much later. The app may ask for one before.
static void test_no_business(void **state)
{
    (void)state;
    rig_run(rig, (WAIT_S - 1) * SECOND);
    expect_no_request();
    rig_run(rig, 2 * SECOND);
    assert_int_equal(rig->checkins, 1);
    rig_kill(rig);
    rig_boot(rig);
    rig->checkins = 0;
    dev_checkin_now(rig->runtime);
    rig_run(rig, SECOND);
    assert_int_equal(rig->checkins, 1);
}

// Requests that no gateway answers, lose their answer or never end: the device goes by itself in
// time, and a report that was taken without its knowing is not counted twice.
static void test_rides_that_come_to_nothing(void **state)
{
    (void)state;
    struct rig_statement statement = statement_of(0, 1);
    const struct base_str none = {0};
    assert_int_equal(dev_ride_start(rig->runtime, &ride), BASE_OK);
    dev_ride_end(rig->runtime, ride.number, none, none);
    assert_int_equal(stats()->rides_lost, 1);
    rig_offer(rig, &statement);
    rig_run(rig, 20 * SECOND); // nothing waits for what met no gateway
    assert_int_equal(rig->checkins, 1);
    assert_int_equal(rig->ledger_count, 3);
    rig_offer_none(rig);
    business(1);
    assert_int_equal(stats()->rides, 1);
    uint32_t reports = rig->reports;
    // Its end is never told; meanwhile there is no other, and later it is too late.
    assert_int_equal(dev_ride_start(rig->runtime, &ride), BASE_OK);
    struct dev_ride late = {.number = ride.number, .header_count = 1};
    memcpy(late.token, ride.token, sizeof(late.token));
    late.headers[0] = (struct dev_ride_header){BASE_STR("walle-ride"), base_str_of(late.token)};
    assert_int_equal(dev_ride_start(rig->runtime, &ride), BASE_ERR_BUSY);
    rig_run(rig, 31 * SECOND);
    assert_int_equal(stats()->rides_lost, 2);
    assert_int_equal(rig->reports, reports);
    assert_int_equal(dev_ride_start(rig->runtime, &ride), BASE_OK);
    rig_ride_end(rig, &late, "checkin, report", none);
    assert_int_equal(stats()->rides, 1);
    // What answers is not what the gateway says.
    rig_ride_end(rig, &ride, "checkin", BASE_STR("AQ!"));
    assert_int_equal(stats()->rides, 1);
    assert_true(stats()->failed_requests >= 1);
    assert_int_equal(rig_active(rig, TASK), 0);
}

// The report came, and its answer did not: it comes again, under the same numbers.
static void test_a_report_that_came_twice(void **state)
{
    (void)state;
    const struct base_str none = {0};
    struct rig_statement statement = statement_of(0, 1);
    rig_offer(rig, &statement);
    business(20);
    assert_int_equal(dev_ride_start(rig->runtime, &ride), BASE_OK);
    struct dev_ride lost = {.header_count = 0};
    assert_true(rig_ride_header(&ride, "walle-report").size > 0);
    rig->report_status = 503; // what the rig took is not acknowledged
    rig_ride_answer(rig, &ride);
    assert_int_equal(rig->ledger_count, 0);
    rig->report_status = 0;
    assert_int_equal(dev_ride_start(rig->runtime, &ride), BASE_OK);
    lost.number = ride.number;
    lost.header_count = 2;
    lost.headers[0] =
        (struct dev_ride_header){BASE_STR("walle-report"), rig_ride_header(&ride, "walle-report")};
    lost.headers[1] =
        (struct dev_ride_header){BASE_STR("walle-ride"), rig_ride_header(&ride, "walle-ride")};
    dev_ride_end(rig->runtime, ride.number, none, none);
    rig_ride_answer(rig, &lost); // the gateway had it all the same
    assert_int_equal(rig->ledger_count, 3);
    business(0);
    assert_int_equal(rig->doubled, 3);
    assert_int_equal(rig->ledger_count, 3);
    business(5);
    assert_int_equal(rig_ride_header(&ride, "walle-report").size, 0);
    expect_no_request();
}

// What a cache kept, or another request was told, acknowledges nothing: the report goes again.
static void test_an_answer_to_another_ride(void **state)
{
    (void)state;
    const struct base_str none = {0};
    struct rig_statement statement = statement_of(0, 1);
    rig_offer(rig, &statement);
    business(20);
    char answer[WIRE_RIDE_ANSWER_MAX + 8];
    assert_int_equal(dev_ride_start(rig->runtime, &ride), BASE_OK);
    assert_true(rig_ride_header(&ride, "walle-report").size > 0);
    (void)snprintf(answer, sizeof(answer), "%s checkin, report", ride.token + 2);
    dev_ride_end(rig->runtime, ride.number, none, none);
    const char *words[] = {answer, "checkin, report", " checkin, report", "refused"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        assert_int_equal(dev_ride_start(rig->runtime, &ride), BASE_OK);
        assert_true(rig_ride_header(&ride, "walle-report").size > 0);
        dev_ride_end(rig->runtime, ride.number, base_str_of(words[i]), BASE_STR("AAAA"));
        assert_int_equal(stats()->rides, 1);
        assert_int_equal(stats()->rides_lost, 2 + i);
        assert_int_equal(stats()->ride_reports, 0);
        assert_int_equal(stats()->dropped_outcomes, 0);
    }
    business(0);
    assert_int_equal(rig->ledger_count, 3);
    assert_int_equal(rig->doubled, 0);
}

// A ride without a report is told that one was taken, or refused: nothing is.
static void test_a_word_of_no_report(void **state)
{
    (void)state;
    static const char *const words[] = {"checkin, report", "checkin, refused"};
    business(5);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(dev_ride_start(rig->runtime, &ride), BASE_OK);
        assert_int_equal(rig_ride_header(&ride, "walle-report").size, 0);
        const struct wire_outcome outcome = {.kind = WIRE_OUTCOME_FAIL_LOAD,
                                             .task_id = wire_task_id(BASE_STR(TASK)),
                                             .detail = BASE_STR("meanwhile")};
        dev_outcome(rig->runtime, &outcome);
        rig_ride_end(rig, &ride, words[i], (struct base_str){0});
        assert_int_equal(stats()->ride_reports, i);
        assert_int_equal(stats()->dropped_outcomes, 0);
        business(5);
        business(5);
        assert_int_equal(rig->ledger_count, i + 1); // it went with a ride of its own
    }
}

static void test_a_report_that_is_refused(void **state)
{
    (void)state;
    struct rig_statement statement = statement_of(0, 1);
    rig_offer(rig, &statement);
    business(20);
    rig->report_status = 400;
    business(5);
    business(5);
    assert_int_equal(rig_ride_header(&ride, "walle-report").size, 0);
    assert_int_equal(stats()->dropped_outcomes, 3);
}

// More outcomes than a header holds go with one ride after the other, whatever they say of a run.
static void long_reports_are_cut(const struct wire_figures *figures)
{
    struct rig_statement statement = statement_of(0, 1);
    rig->config.outcomes_max = WIRE_REPORT_MAX;
    rig_kill(rig);
    rig_boot(rig);
    rig_offer(rig, &statement);
    business(20);
    business(20);
    assert_int_equal(rig->ledger_count, 3);
    for (uint32_t i = 0; i < rig->config.outcomes_max; i++) {
        const struct wire_outcome outcome = {.kind = WIRE_OUTCOME_FAIL_LOAD,
                                             .task_id = wire_task_id(BASE_STR(TASK)),
                                             .duration_us = 3000000,
                                             .figures = *figures,
                                             .detail = BASE_STR("a few words")};
        dev_outcome(rig->runtime, &outcome);
    }
    business(1);
    assert_true(rig_ride_header(&ride, "walle-report").size <=
                BASE_B64_ENCODED(WIRE_REPORT_HEADER_MAX));
    assert_int_equal(stats()->rides_cut, 1);
    assert_in_range(rig->ledger_count, 4, 3 + rig->config.outcomes_max - 1);
    business(1);
    assert_int_equal(rig->ledger_count, 3 + rig->config.outcomes_max);
    assert_int_equal(stats()->dropped_outcomes, 0);
    assert_int_equal(stats()->rides_cut, 1);
    expect_no_request();
}

static void test_long_reports_are_cut(void **state)
{
    (void)state;
    long_reports_are_cut(&(struct wire_figures){0});
}

static void test_long_reports_with_figures_are_cut(void **state)
{
    (void)state;
    long_reports_are_cut(&(struct wire_figures){.heap_peak_bytes = 3 << 20, .left_out = 20000});
}

// A device with a root asks its question with the ride, and the director answers on it.
static void test_with_a_root(void **state)
{
    (void)state;
    struct rig_statement statement = statement_of(0, 1);
    business(20);
    assert_int_equal(rig_ride_header(&ride, "walle-nonce").size, WIRE_ASK_TEXT);
    role_release(&roles, &statement);
    for (int i = 0; i < 10; i++) {
        business(20);
    }
    assert_int_equal(rig_active(rig, TASK), 0);
    assert_int_equal(rig_count(rig, WIRE_OUTCOME_RAN), 1);
    assert_true(roles.meta_requests > 0);   // pulled, like content
    assert_true(stats()->ride_reports > 0); // beside the question, which they leave as it is
    assert_int_equal(stats()->refused_metadata, 0);
    expect_no_request();
    // A director's answer to an earlier question is none.
    assert_int_equal(dev_ride_start(rig->runtime, &ride), BASE_OK);
    struct dev_ride before = {.number = 0, .header_count = 2};
    char nonce[WIRE_ASK_TEXT];
    memcpy(nonce, rig_ride_header(&ride, "walle-nonce").data, sizeof(nonce));
    rig_ride_answer(rig, &ride);
    uint64_t refused = stats()->refused_metadata;
    assert_int_equal(dev_ride_start(rig->runtime, &ride), BASE_OK);
    before.number = ride.number;
    before.headers[0] = (struct dev_ride_header){BASE_STR("walle-nonce"), {nonce, sizeof(nonce)}};
    before.headers[1] =
        (struct dev_ride_header){BASE_STR("walle-ride"), rig_ride_header(&ride, "walle-ride")};
    rig_ride_answer(rig, &before);
    assert_int_equal(stats()->refused_metadata, refused + 1);
}

// A version on a lease is not lost for the sake of a ride that does not come.
static void test_a_lease_does_not_wait(void **state)
{
    (void)state;
    struct rig_statement statement = statement_of(0, 1);
    statement.stage = 2;
    roles.lease_s = 40;
    role_release(&roles, &statement);
    business(2);
    business(2);
    assert_int_equal(rig_active(rig, TASK), 0);
    rig_run(rig, 300 * SECOND);
    assert_int_equal(rig_active(rig, TASK), 0);
    assert_int_equal(stats()->leases_lost, 0);
    assert_true(rig->checkins > 0);
}

// The gateway asked for time: a ride is a check-in, and gives it.
static void test_retry_after(void **state)
{
    (void)state;
    rig->checkin_status = 503;
    rig->retry_after_s = 100;
    dev_checkin_now(rig->runtime);
    rig_run(rig, SECOND);
    assert_int_equal(rig->checkins, 1);
    assert_int_equal(dev_ride_start(rig->runtime, &ride), BASE_ERR_BUSY);
    rig->checkin_status = 0;
    rig_run(rig, 99 * SECOND);
    assert_int_equal(dev_ride_start(rig->runtime, &ride), BASE_ERR_BUSY);
}

static void test_limits(void **state)
{
    (void)state;
    struct dev_config config = rig->config;
    config.ride_wait_s = DEV_RIDE_WAIT_MAX_S + 1;
    assert_int_equal(dev_runtime_bytes(&config), 0);
    assert_int_equal(dev_ride_start(rig->runtime, &ride), BASE_OK);
    size_t all = 0;
    for (uint32_t i = 0; i < ride.header_count; i++) {
        all += ride.headers[i].value.size;
    }
    assert_true(all <= DEV_RIDE_BYTES_MAX + 32);
    dev_stop(rig->runtime); // a ride is the app's: nothing is cancelled
    assert_int_equal(rig->port.http.cancelled, 0);
}

int main(void)
{
#define CASE(name)   cmocka_unit_test_setup_teardown(name, setup, teardown)
#define ROOTED(name) cmocka_unit_test_setup_teardown(name, setup_roles, teardown_roles)
    const struct CMUnitTest tests[] = {
        CASE(test_a_release_by_rides_alone),
        CASE(test_business_stops),
        CASE(test_no_business),
        CASE(test_rides_that_come_to_nothing),
        CASE(test_a_report_that_came_twice),
        CASE(test_an_answer_to_another_ride),
        CASE(test_a_word_of_no_report),
        CASE(test_a_report_that_is_refused),
        CASE(test_long_reports_are_cut),
        CASE(test_long_reports_with_figures_are_cut),
        ROOTED(test_with_a_root),
        ROOTED(test_a_lease_does_not_wait),
        CASE(test_retry_after),
        CASE(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
