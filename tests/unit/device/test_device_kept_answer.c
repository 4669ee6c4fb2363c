// An answer that is kept while metadata comes: it saves the second check-in, and nobody gains by
// it. Each attack has a gateway that does not answer check-ins any more once the first was
// answered, or answers them otherwise: what the device then has, it has by the answer that was
// kept.
#include "role_rig.h"

#include "core/base/runtime.h"
#include "core/control/control_parts.h"
#include "core/offer/kept_offers.h"
#include "core/trust/trust_parts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TASK       "demo/score"
#define OTHER      "demo/other"
#define STAGE_GRAY 2
#define STAGE_FULL 3
#define SECOND     UINT64_C(1000000)

static struct role_rig roles;
static struct rig *rig = &roles.rig;

// What happens before request `at` for metadata (0: the first) is answered.
static struct {
    void (*serve)(struct rig *rig, struct mem_exchange *exchange);
    void (*deed)(void);
    uint32_t at;
    uint32_t seen;
} between;

// Metadata comes one by one, so that there is something between; the question for all of it, which
// this gateway does not know, is not counted.
static void serve_meta(struct rig *served, struct mem_exchange *exchange)
{
    if (roles.apart && strncmp(exchange->path, "/v1/meta/next/", 14) == 0) {
        between.serve(served, exchange);
        return;
    }
    if (between.seen++ == between.at && between.deed != NULL) {
        between.deed();
    }
    if (!served->port.killed && exchange->state == MEM_EXCHANGE_OPEN) {
        between.serve(served, exchange);
    }
}

static void release_of(const char *task, uint32_t version, uint64_t counter, uint8_t stage)
{
    struct rig_statement statement = {.task = task,
                                      .version = version,
                                      .counter = counter,
                                      .rollout_id = counter,
                                      .stage = stage};
    role_release(&roles, &statement);
}

static void begin(uint32_t lease_max_s)
{
    role_rig_init(&roles, lease_max_s);
    roles.apart = true;
    rig_version_add(rig, TASK, 1, 100, WIRE_RUNTIME_ABI, 0);
    rig_version_add(rig, TASK, 2, 200, WIRE_RUNTIME_ABI, 0);
    rig_version_add(rig, OTHER, 1, 300, WIRE_RUNTIME_ABI, 0);
    memset(&between, 0, sizeof(between));
    between.serve = rig->meta;
    rig->meta = serve_meta;
    rig_boot(rig);
}

static int teardown(void **state)
{
    (void)state;
    role_rig_done(&roles);
    return 0;
}

// The device runs version 0, and version 1 is released in `stage`. Before request `at` for its
// metadata `deed` is done.
static void settled(uint32_t lease_max_s, uint8_t stage, uint32_t at, void (*deed)(void))
{
    begin(lease_max_s);
    release_of(TASK, 0, 1, STAGE_FULL);
    rig_checkin(rig);
    assert_int_equal(rig_active(rig, TASK), 0);
    release_of(TASK, 1, 2, stage);
    between.seen = 0;
    between.at = at;
    between.deed = deed;
}

static const struct dev_stats *stats(void)
{
    static struct dev_stats now;
    dev_stats(rig->runtime, &now);
    return &now;
}

// The device asked again, and followed nothing by what it had kept.
static void expect_asked_again(void)
{
    rig_checkin(rig);
    assert_true(between.seen > between.at);
    assert_true(rig->checkins > 1);
    assert_int_equal(rig_active(rig, TASK), 0);
    assert_int_equal(rig->versions[1].runs, 0);
    assert_int_equal(rig->runtime->kept_offers->size, 0);
}

static void silence(void)
{
    rig->checkin_status = 503;
}

// ---- What it is for

static void one_question_is_enough(bool apart)
{
    begin(0);
    roles.apart = apart;
    release_of(TASK, 0, 1, STAGE_FULL);
    rig_checkin(rig);
    assert_int_equal(rig_active(rig, TASK), 0);
    assert_int_equal(rig->checkins, 1);
    assert_int_equal(roles.meta_requests, apart ? 1 + 3 : 1);
    assert_int_equal(rig->runtime->trust->order, 1);
    assert_int_equal(rig->runtime->kept_offers->size, 0);
    assert_false(rig->runtime->trust->directed);
    release_of(TASK, 1, 2, STAGE_FULL);
    rig_checkin(rig);
    assert_int_equal(rig_active(rig, TASK), 1);
    assert_int_equal(rig->checkins, 1);
    assert_int_equal(rig->runtime->trust->order, 2);
    assert_int_equal(stats()->refused_offers + stats()->refused_metadata, 0);
}

static void test_one_question_is_enough(void **state)
{
    (void)state;
    one_question_is_enough(true);
    role_rig_done(&roles);
    one_question_is_enough(false);
}

static int compare_tasks(const void *a, const void *b)
{
    uint64_t x = wire_task_id(base_str_of(*(const char *const *)a));
    uint64_t y = wire_task_id(base_str_of(*(const char *const *)b));
    return x < y ? -1 : x > y;
}

// One answer with the first version for each task, and a snapshot that lists them all.
static void release_to(const char **tasks, size_t count)
{
    qsort(tasks, count, sizeof(tasks[0]), compare_tasks);
    rig_offer_none(rig);
    for (size_t i = 0; i < count; i++) {
        struct rig_statement statement = {
            .task = tasks[i], .counter = 1, .rollout_id = i + 1, .stage = STAGE_FULL, .signers = 3};
        rig_offer_add(rig, &statement);
        roles.entries[i] = (struct wire_snapshot_entry){wire_task_id(base_str_of(tasks[i])), 1,
                                                        rig->versions[0].manifest};
    }
    roles.entry_count = (uint32_t)count;
    role_publish(&roles, true);
}

static void test_two_offers_of_one_answer(void **state)
{
    (void)state;
    const char *tasks[] = {TASK, OTHER};
    begin(0);
    release_to(tasks, 2);
    rig_checkin(rig);
    assert_int_equal(rig->checkins, 1);
    assert_int_equal(rig->runtime->task_count, 2); // both were followed
    assert_int_equal(rig_active(rig, TASK), 0);
}

// More than there is room for: nothing is followed by half.
static void test_too_many_are_asked_for_again(void **state)
{
    (void)state;
    const char *tasks[] = {"demo/a", "demo/b", "demo/c", "demo/d", "demo/e", "demo/f"};
    begin(0);
    release_to(tasks, 6);
    between.at = 2;
    between.deed = silence;
    rig_checkin(rig);
    assert_true(rig->checkins > 1);
    assert_int_equal(rig->runtime->task_count, 0);
}

// Its device was a control, when only metadata was missing.
static void mark_under(void (*deed)(void))
{
    begin(0);
    release_of(TASK, 0, 1, STAGE_FULL);
    rig_checkin(rig);
    rig_offer_none(rig);
    rig_mark(rig, TASK, 9, 0);
    role_publish(&roles, true);
    between.at = between.seen;
    between.deed = deed;
    dev_checkin_now(rig->runtime);
    rig->checkins = 0;
    rig_run(rig, 60 * SECOND);
}

static void test_mark(void **state)
{
    (void)state;
    mark_under(NULL);
    assert_int_equal(rig->checkins, 1);
    assert_int_equal(rig->versions[0].runs, 2);
}

static void newer(void)
{
    role_publish(&roles, true);
}

// A newer snapshot appears while one is brought: still the same question, and what it says counts.
static void test_published_in_between(void **state)
{
    (void)state;
    settled(0, STAGE_FULL, 2, newer);
    rig_checkin(rig);
    assert_int_equal(rig_active(rig, TASK), 1);
    assert_int_equal(rig->checkins, 1);
}

// ---- Another root voids it

static void root_of_new_keys(void)
{
    silence();
    role_root_add(&roles, ROLE_KEY_ONLINE2, 0);
}

static void root_of_same_keys(void)
{
    silence();
    role_root_add(&roles, ROLE_KEY_ONLINE, 0);
}

static void test_root_that_names_another_director(void **state)
{
    (void)state;
    settled(0, STAGE_FULL, 0, root_of_new_keys); // the answer was by a key that was stolen
    expect_asked_again();
    assert_int_equal(rig->runtime->trust->root_version, 2);
}

static void test_root_voids_a_mark(void **state)
{
    (void)state;
    mark_under(root_of_new_keys);
    assert_true(rig->checkins > 1);
    assert_int_equal(rig->versions[0].runs, 1);
}

static void test_root_that_changes_nothing_of_it(void **state)
{
    (void)state;
    settled(0, STAGE_FULL, 0, root_of_same_keys);
    expect_asked_again();
    assert_int_equal(rig->runtime->trust->root_version, 2);
}

// ---- It holds no longer than an answer may be under way, nor than its lease

static void just_in_time(void)
{
    silence();
    mem_clock_advance(&rig->port, rig->runtime->settings.request_timeout_us - 1);
}

static void too_late(void)
{
    silence();
    mem_clock_advance(&rig->port, rig->runtime->settings.request_timeout_us);
}

static void ten_seconds(void)
{
    silence();
    mem_clock_advance(&rig->port, 10 * SECOND);
}

static void expect_followed(void)
{
    rig->checkins = 0;
    dev_checkin_now(rig->runtime);
    rig_run(rig, 60 * SECOND);
    assert_int_equal(rig_active(rig, TASK), 1);
    assert_int_equal(rig->checkins, 1);
}

static void test_metadata_just_in_time(void **state)
{
    (void)state;
    settled(0, STAGE_FULL, 2, just_in_time);
    expect_followed();
}

static void test_metadata_held_back(void **state)
{
    (void)state;
    settled(0, STAGE_FULL, 2, too_late);
    expect_asked_again();
}

static void test_lease_over_before_it_began(void **state)
{
    (void)state;
    settled(600, STAGE_GRAY, 2, ten_seconds);
    roles.lease_s = 10;
    expect_asked_again();
}

// As after any answer that gives one.
static void test_lease_is_renewed_in_time(void **state)
{
    (void)state;
    settled(600, STAGE_GRAY, 2, silence);
    roles.lease_s = 40;
    expect_followed();
    uint64_t end_us = (rig->runtime->tasks[0].lease.until_s + 1) * SECOND;
    uint64_t left_us = end_us - rig->port.clock.wall_us;
    assert_true(rig->runtime->control->checkin_due_us <= rig->port.clock.mono_us + left_us / 2);
}

static void test_lease_begins_with_the_answer(void **state)
{
    (void)state;
    settled(600, STAGE_GRAY, 2, ten_seconds);
    uint64_t answered_s = rig->port.clock.wall_us / SECOND;
    expect_followed();
    assert_int_equal(rig->runtime->tasks[0].lease.until_s, answered_s + 600);
}

// ---- Another question voids it, and what that brings counts

static void ask_and_nothing(void)
{
    rig_offer_none(rig);
    dev_checkin_now(rig->runtime);
}

static void ask_and_stop(void)
{
    rig_offer_stop(rig, TASK);
    dev_checkin_now(rig->runtime);
}

// It is under way when the metadata comes.
static void ask_and_wait(void)
{
    silence();
    dev_checkin_now(rig->runtime);
    (void)dev_tick(rig->runtime, rig->port.clock.mono_us);
}

static void test_another_answer_without_it(void **state)
{
    (void)state;
    for (uint32_t at = 0; at < 3; at++) {
        settled(0, STAGE_FULL, at, ask_and_nothing);
        if (at < 2) {
            expect_asked_again();
            role_rig_done(&roles);
        }
    }
}

static void test_stop_heard_meanwhile(void **state)
{
    (void)state;
    settled(0, STAGE_FULL, 0, ask_and_stop);
    rig_checkin(rig);
    assert_int_equal(rig_active(rig, TASK), -1);
    assert_int_equal(rig->versions[1].runs, 0);
    assert_int_equal(rig_count(rig, WIRE_OUTCOME_REMOVED), 1);
}

static void test_another_question_under_way(void **state)
{
    (void)state;
    settled(0, STAGE_FULL, 2, ask_and_wait);
    expect_asked_again();
}

// ---- Kills

static void kill_offered(void)
{
    roles.timestamp.kills[0] = rig->versions[1].manifest;
    roles.timestamp.kill_count = 1;
    role_publish(&roles, false);
}

static void kill_active(void)
{
    silence();
    roles.timestamp.kills[0] = rig->versions[0].manifest;
    roles.timestamp.kill_count = 1;
    role_publish(&roles, false);
}

static void test_offered_version_killed_meanwhile(void **state)
{
    (void)state;
    settled(0, STAGE_FULL, 1, kill_offered);
    expect_asked_again(); // and the gateway offered it again
    assert_int_equal(stats()->refused_offers, 1);
    assert_int_equal(stats()->refused_offer_why, BASE_ERR_KILLED);
}

static void test_active_version_killed_meanwhile(void **state)
{
    (void)state;
    settled(0, STAGE_FULL, 1, kill_active);
    rig_checkin(rig);
    assert_true(rig->checkins > 1);
    assert_int_equal(rig_active(rig, TASK), -1); // what runs then, the gateway is to say
    assert_int_equal(rig->versions[1].runs, 0);
}

// ---- All of it is judged again

static void other_nonce(void)
{
    silence();
    rig->runtime->trust->nonce[WIRE_NONCE_BYTES - 1] ^= 1;
}

static void order_used(void)
{
    silence();
    rig->runtime->trust->order++;
}

static void not_listed(void)
{
    silence();
    for (uint32_t i = 0; i < roles.entry_count; i++) {
        if (roles.entries[i].counter == 2) {
            roles.entries[i].counter = 3;
        }
    }
    role_publish(&roles, true);
}

static void counter_taken(void)
{
    silence();
    rig->runtime->tasks[0].offer.newest.counter = 2; // by other content
}

static void floor_above(void)
{
    silence();
    roles.entries[roles.entry_count++] =
        (struct wire_snapshot_entry){wire_task_id(BASE_STR(TASK)), 3, rig->versions[0].manifest};
    role_publish(&roles, true);
    rig->runtime->tasks[0].offer.newest.counter = 3;
    rig->runtime->tasks[0].slots.floor = 3;
}

static void test_what_does_not_hold_is_asked_for(void **state)
{
    (void)state;
    static void (*const deeds[])(void) = {other_nonce, order_used, not_listed, counter_taken,
                                          floor_above};
    for (size_t i = 0; i < sizeof(deeds) / sizeof(deeds[0]); i++) {
        settled(0, STAGE_FULL, 1, deeds[i]);
        dev_checkin_now(rig->runtime);
        rig->checkins = 0;
        rig_run(rig, 60 * SECOND);
        assert_true(rig->checkins > 1);
        assert_int_equal(rig_active(rig, TASK), 0);
        assert_int_equal(rig->versions[1].runs, 0);
        assert_int_equal(stats()->refused_offers, 0); // nothing is told of what nobody asked
        if (i + 1 < sizeof(deeds) / sizeof(deeds[0])) {
            role_rig_done(&roles);
        }
    }
}

static void test_statement_that_ran_out(void **state)
{
    (void)state;
    settled(0, STAGE_FULL, 2, ten_seconds);
    rig_offer_none(rig);
    struct rig_statement soon = {.task = TASK,
                                 .version = 1,
                                 .counter = 2,
                                 .rollout_id = 2,
                                 .stage = STAGE_FULL,
                                 .signers = 3,
                                 .expires_s = rig->port.clock.wall_us / SECOND + 10};
    rig_offer(rig, &soon);
    expect_asked_again();
}

// ---- Sleep, a kill of the process, an answer that breaks off

static void asleep(void)
{
    silence();
    rig->port.clock.wall_us += 3600 * SECOND; // the other clock stood still
}

static void clock_back(void)
{
    silence();
    rig->port.clock.wall_us -= 10 * SECOND;
}

static void test_sleep(void **state)
{
    (void)state;
    settled(0, STAGE_FULL, 2, asleep);
    expect_asked_again();
    role_rig_done(&roles);
    settled(0, STAGE_FULL, 2, clock_back);
    expect_asked_again();
}

static void die(void)
{
    silence();
    rig->port.killed = true;
}

static void test_killed_in_between(void **state)
{
    (void)state;
    for (uint32_t at = 0; at < 3; at++) {
        settled(0, STAGE_FULL, at, die);
        rig_checkin(rig);
        assert_true(rig->port.killed);
        rig_kill(rig);
        rig_boot(rig);
        rig_checkin(rig);
        assert_int_equal(rig->checkins, 1);
        assert_int_equal(rig_active(rig, TASK), 0);
        rig->checkin_status = 0;
        rig_checkin(rig);
        assert_int_equal(rig_active(rig, TASK), 1);
        if (at < 2) {
            role_rig_done(&roles);
        }
    }
}

// The answer to a question came, but for its end.
static struct mem_exchange *answer_without_end(void)
{
    uint8_t bytes[4096];
    settled(0, STAGE_FULL, 0, NULL);
    rig->hold_checkins = true;
    dev_checkin_now(rig->runtime);
    (void)dev_tick(rig->runtime, rig->port.clock.mono_us);
    struct mem_exchange *exchange = mem_exchange_find(&rig->port, "/v1/checkin");
    assert_non_null(exchange);
    const struct dev_response_head head = {.status = 200};
    size_t size = rig_offers_encode(rig, exchange, bytes, sizeof(bytes));
    dev_on_head(rig->runtime, exchange->id, &head);
    dev_on_body(rig->runtime, exchange->id, bytes, size); // all of it, but not its end
    assert_true(rig->runtime->kept_offers->size > 0);
    return exchange;
}

static void test_answer_that_broke_off(void **state)
{
    (void)state;
    struct mem_exchange *exchange = answer_without_end();
    mem_exchange_end(&rig->port, rig->runtime, exchange, BASE_ERR_CLOSED);
    rig->hold_checkins = false;
    silence();
    rig_run(rig, 60 * SECOND);
    assert_int_equal(between.seen, 3);
    assert_int_equal(rig_active(rig, TASK), 0);
    assert_int_equal(rig->versions[1].runs, 0);
}

// Metadata is quicker than the end of the answer: more may come in that.
static void test_answer_that_goes_on(void **state)
{
    (void)state;
    struct mem_exchange *exchange = answer_without_end();
    rig->run_on = true;
    rig_run(rig, SECOND);
    assert_int_equal(between.seen, 3);
    assert_int_equal(rig_active(rig, TASK), 0);
    rig->hold_checkins = false;
    mem_exchange_end(&rig->port, rig->runtime, exchange, BASE_OK);
    rig->checkins = 0;
    rig_run(rig, SECOND);
    assert_int_equal(rig->checkins, 1);
    assert_int_equal(rig_active(rig, TASK), 1);
}

// A second director's answer behind the offers, by somebody who cannot sign one.
static void test_answer_with_two_directors(void **state)
{
    (void)state;
    static const uint8_t payload[120];
    settled(0, STAGE_FULL, 0, silence);
    struct wire_envelope envelope = {
        .type = WIRE_ENVELOPE_TYPE_DIRECTOR, .payload = payload, .payload_bytes = sizeof(payload)};
    struct rig_envelope *second = &rig->offers[rig->offer_count++];
    rig_sign_envelope(roles.keys[ROLE_KEY_A], &envelope);
    assert_int_equal(
        wire_envelope_encode(&envelope, second->bytes, sizeof(second->bytes), &second->size),
        BASE_OK);
    expect_asked_again();
}

// One offer waits for metadata, another for keys that are not known: both are asked for again.
static void test_offer_beside_one_of_unknown_keys(void **state)
{
    (void)state;
    const char *tasks[] = {TASK, OTHER};
    begin(0);
    release_to(tasks, 2);
    struct rig_statement strange = {
        .task = tasks[1], .counter = 1, .rollout_id = 2, .stage = STAGE_FULL, .signers = 1u << 2};
    rig->offer_count = 1;
    rig_offer_add(rig, &strange);
    between.deed = silence;
    rig_checkin(rig);
    assert_true(rig->checkins > 1);
    assert_int_equal(rig->runtime->task_count, 0);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_teardown(name, teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_one_question_is_enough),
        CASE(test_two_offers_of_one_answer),
        CASE(test_too_many_are_asked_for_again),
        CASE(test_mark),
        CASE(test_published_in_between),
        CASE(test_root_that_names_another_director),
        CASE(test_root_voids_a_mark),
        CASE(test_root_that_changes_nothing_of_it),
        CASE(test_metadata_just_in_time),
        CASE(test_metadata_held_back),
        CASE(test_lease_over_before_it_began),
        CASE(test_lease_is_renewed_in_time),
        CASE(test_lease_begins_with_the_answer),
        CASE(test_another_answer_without_it),
        CASE(test_stop_heard_meanwhile),
        CASE(test_another_question_under_way),
        CASE(test_offered_version_killed_meanwhile),
        CASE(test_active_version_killed_meanwhile),
        CASE(test_what_does_not_hold_is_asked_for),
        CASE(test_statement_that_ran_out),
        CASE(test_sleep),
        CASE(test_killed_in_between),
        CASE(test_answer_that_broke_off),
        CASE(test_answer_that_goes_on),
        CASE(test_answer_with_two_directors),
        CASE(test_offer_beside_one_of_unknown_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
