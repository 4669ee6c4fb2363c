// A gateway whose wall clock jumps, while it runs and before it starts: what it signs, what it
// judges, what it still does, and how it finds back. The real core, store and keys.
#include "core_rig.h"

#include "svc/clock_guard.h"
#include "svc/control.h"
#include "svc/trust/director.h"
#include "svc/rollout/kill_commands.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "http/secret/online_keys.h"

#define TASK   "shop/score"
#define DEVICE 0x77u
#define DAY_S  UINT64_C(86400)
#define JUMP_S (300 * DAY_S)

static struct rig rig;
static struct gw_online_keys *keys;
static uint64_t comers = DEVICE;

// The first stage waits an hour, and for one device.
static const struct rig_stage ladder[] = {
    {.name = "gray",
     .kind = POL_STAGE_GRAY,
     .max_bucket = 9999,
     .min_sample = 1,
     .min_dwell_us = 3600 * UINT64_C(1000000),
     .max_failure_ppm = 500000},
    {.name = "full",
     .kind = POL_STAGE_FULL,
     .max_bucket = 10000,
     .min_sample = 1000,
     .max_failure_ppm = 500000},
};

static int setup(void **state)
{
    (void)state;
    struct base_error error = {0};
    rig_init(&rig);
    assert_int_equal(gw_online_keys_open(rig.dir, &keys, &error), BASE_OK);
    rig.signer = gw_online_keys_port(keys);
    rig_start(&rig);
    rig_settle(&rig);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    rig_done(&rig);
    gw_online_keys_free(keys);
    return 0;
}

static uint64_t wall_s(void)
{
    return rig.wall_us / 1000000;
}

static void jump_s(int64_t by_s)
{
    rig.wall_us += (uint64_t)(by_s * 1000000);
    rig_settle(&rig);
}

static void pass_s(uint64_t seconds)
{
    rig_advance_s(&rig, seconds);
    rig_settle(&rig);
}

static enum gw_clock_doubt doubt(void)
{
    struct gw_clock_view view;
    gw_clock_view(rig.core, &view);
    return view.doubt;
}

static uint32_t accept_clock(void)
{
    struct base_error error = {0};
    struct gw_clock_accepted accepted = {0};
    assert_int_equal(
        gw_clock_accept(rig.core, BASE_STR("ana"), BASE_STR("it is right"), &accepted, &error),
        BASE_OK);
    rig_settle(&rig);
    return accepted.paused;
}

static void timestamp(struct wire_timestamp *out)
{
    static uint8_t bytes[WIRE_META_BYTES_MAX];
    struct rig_exchange exchange;
    struct wire_envelope envelope;
    rig_exchange_init(&exchange, GW_METHOD_GET, "/v1/meta/timestamp");
    rig_run(&rig, &exchange);
    const struct gw_reply *reply = &exchange.exchange.reply;
    assert_int_equal(reply->status, 200);
    size_t size = 0;
    const uint8_t *data = gw_blob_bytes(reply->blob, 0, &size);
    assert_true(size == reply->blob_bytes && size <= sizeof(bytes));
    memcpy(bytes, data, size);
    rig_exchange_done(&exchange);
    assert_int_equal(wire_envelope_parse(bytes, size, &envelope), BASE_OK);
    assert_int_equal(wire_timestamp_parse(envelope.payload, envelope.payload_bytes, out), BASE_OK);
}

static uint64_t signed_s(void)
{
    struct wire_timestamp now;
    timestamp(&now);
    return now.issued_s;
}

static void start_rollout(uint64_t id, const struct wire_sha256 *manifest)
{
    struct gw_rollout_view view;
    struct base_error error = {0};
    assert_int_equal(rig_rollout(&rig, id, TASK, manifest, NULL, NULL, ladder, 2, &view, &error),
                     BASE_OK);
    rig_command(&rig, id, POL_COMMAND_START, &view);
    rig_settle(&rig);
}

// A device that never came before asks. The director's word of the time, 0 when it said nothing;
// how many releases.
static uint64_t ask(uint32_t *out_offers)
{
    struct rig_device device;
    struct rig_exchange exchange;
    struct wire_offers offers;
    struct wire_director director = {0};
    struct wire_envelope envelope;
    struct wire_ask question = {0};
    memset(question.nonce, 7, sizeof(question.nonce));
    wire_ask_text(&question, rig.nonce);
    rig_device_init(&device, ++comers);
    *out_offers = 0;
    if (rig_checkin(&rig, &device, true, &exchange, &offers) == 200) {
        assert_int_equal(wire_envelope_parse(offers.items[0].envelope,
                                             offers.items[0].envelope_bytes, &envelope),
                         BASE_OK);
        assert_int_equal(wire_director_parse(envelope.payload, envelope.payload_bytes, &director),
                         BASE_OK);
        *out_offers = offers.count - 1;
    }
    rig_exchange_done(&exchange);
    return director.issued_s;
}

static enum base_status command(uint64_t id, enum pol_command what)
{
    struct base_error error = {0};
    struct gw_rollout_who who = {.by = BASE_STR("ana"), .comment = BASE_STR("test")};
    return gw_rollout_command(rig.core, id, what, &who, &error);
}

// The device takes what it is offered, and it runs.
static void install(uint64_t id)
{
    static const enum wire_outcome_kind kinds[] = {WIRE_OUTCOME_DOWNLOADED, WIRE_OUTCOME_ACTIVATED,
                                                   WIRE_OUTCOME_RAN};
    struct rig_device device;
    struct rig_exchange exchange;
    struct wire_offers offers;
    struct gw_rollout_view view;
    rig.nonce[0] = '\0';
    rig_device_init(&device, DEVICE);
    assert_int_equal(rig_checkin(&rig, &device, true, &exchange, &offers), 200);
    assert_int_equal(rig_device_take(&device, &offers), 1);
    rig_exchange_done(&exchange);
    rig_view(&rig, id, &view);
    assert_int_equal(rig_report(&rig, &device, &view, kinds, 3), 204);
    rig_settle(&rig);
}

// ---- While it runs

static void test_signs_no_later_time(void **state)
{
    (void)state;
    struct wire_sha256 manifest;
    uint32_t offers = 0;
    rig_version(&rig, TASK, "1.0.0", &manifest);
    start_rollout(1, &manifest);
    uint64_t sure = wall_s();
    jump_s(JUMP_S);
    assert_int_equal(doubt(), GW_CLOCK_AHEAD);
    pass_s(20 * 3600); // the timestamp is old now
    assert_int_equal(signed_s(), sure);
    assert_int_equal(ask(&offers), sure); // what was signed is served, with no later time
    assert_int_equal(offers, 1);
    jump_s(-(int64_t)JUMP_S); // it came back by itself
    assert_int_equal(doubt(), GW_CLOCK_SURE);
    assert_int_equal(signed_s(), wall_s());
    assert_int_equal(ask(&offers), wall_s());
}

// Longer than the timestamp lives: an offer would only be refused, and that counted as failed.
static void test_in_doubt_for_long(void **state)
{
    (void)state;
    struct wire_sha256 manifest;
    uint32_t offers = 0;
    rig_version(&rig, TASK, "1.0.0", &manifest);
    start_rollout(1, &manifest);
    jump_s(JUMP_S);
    pass_s(25 * 3600);
    (void)ask(&offers);
    assert_int_equal(offers, 0);
    jump_s(-(int64_t)JUMP_S);
    assert_int_equal(ask(&offers), wall_s());
    assert_int_equal(offers, 1);
}

// A jump back likewise: nothing waits for a time that was signed already.
static void test_back_as_well(void **state)
{
    (void)state;
    uint64_t sure = wall_s();
    jump_s(-(int64_t)JUMP_S);
    assert_int_equal(doubt(), GW_CLOCK_BEHIND);
    pass_s(20 * 3600);
    assert_int_equal(signed_s(), sure);
    (void)accept_clock();
    assert_int_equal(signed_s(), wall_s()); // not when the old time comes again
    assert_int_equal(doubt(), GW_CLOCK_SURE);
}

// Time waits, and what leads on is refused; what stops or leads back is not.
static void test_judges_nothing(void **state)
{
    (void)state;
    struct wire_sha256 first;
    struct wire_sha256 second;
    struct gw_rollout_view view;
    struct base_error error = {0};
    bool created = false;
    rig_version(&rig, TASK, "1.0.0", &first);
    rig_version(&rig, TASK, "2.0.0", &second);
    start_rollout(1, &first);
    jump_s(JUMP_S);
    assert_int_equal(rig_rollout(&rig, 2, TASK, &second, NULL, NULL, ladder, 2, &view, &error),
                     BASE_ERR_CONFLICT);
    assert_non_null(strstr(error.text, "clock is in doubt"));
    assert_int_equal(command(1, POL_COMMAND_PROMOTE), BASE_ERR_CONFLICT);
    assert_int_equal(command(1, POL_COMMAND_PAUSE), BASE_OK);
    assert_int_equal(command(1, POL_COMMAND_RESUME), BASE_ERR_CONFLICT);
    assert_int_equal(command(1, POL_COMMAND_ABORT), BASE_OK);
    uint64_t before = signed_s();
    struct wire_timestamp now;
    assert_int_equal(
        gw_trust_kill(rig.core, &(struct gw_kill_order){&first, BASE_STR("ana"), BASE_STR("bad")},
                      &created, &error),
        BASE_OK);
    rig_settle(&rig);
    timestamp(&now);
    assert_int_equal(now.kill_count, 1); // at once
    assert_int_equal(now.issued_s, before);
}

static void test_stages_wait(void **state)
{
    (void)state;
    struct wire_sha256 manifest;
    struct gw_rollout_view view;
    rig_version(&rig, TASK, "1.0.0", &manifest);
    start_rollout(1, &manifest);
    install(1);
    pass_s(600);
    jump_s(JUMP_S);
    rig_view(&rig, 1, &view);
    uint64_t since_s = view.stage_since_s;
    pass_s(10 * 3600);
    rig_view(&rig, 1, &view);
    assert_int_equal(view.stage_index, 0); // ten hours are more than the one it waits for
    assert_int_equal(accept_clock(), 1);   // paused, for an operator to look
    rig_view(&rig, 1, &view);
    assert_int_equal(view.state, POL_ROLLOUT_PAUSED);
    assert_int_equal(view.stage_since_s, since_s + JUMP_S); // it lasted no longer
    assert_int_equal(command(1, POL_COMMAND_RESUME), BASE_OK);
    rig_settle(&rig);
    rig_view(&rig, 1, &view);
    uint32_t after = view.stage_index;
    assert_in_range(after, 0, 1);
    // And the same after a restart.
    rig_stop(&rig);
    rig_start(&rig);
    rig_settle(&rig);
    assert_int_equal(doubt(), GW_CLOCK_SURE);
    rig_view(&rig, 1, &view);
    assert_int_equal(view.state, POL_ROLLOUT_RUNNING);
    assert_int_equal(view.stage_index, after);
}

static void expect_waiting(uint64_t under_way, uint64_t timed_out)
{
    struct gw_rollout_view view;
    rig_view(&rig, 1, &view);
    assert_int_equal(view.counts.under_way, under_way);
    assert_int_equal(view.counts.timed_out, timed_out);
}

// Who was under way before the time was accepted has its time anew, also over a restart: else the
// acceptance itself would fail the stage.
static void test_who_is_under_way_has_its_time_anew(void **state)
{
    (void)state;
    struct wire_sha256 manifest;
    struct gw_rollout_view view;
    uint32_t offers = 0;
    rig.certified = true;
    rig_version(&rig, TASK, "1.0.0", &manifest);
    start_rollout(1, &manifest);
    install(1);
    for (int i = 0; i < 4; i++) {
        (void)ask(&offers);
        assert_int_equal(offers, 1);
    }
    pass_s(10);
    expect_waiting(4, 0);
    jump_s(3 * (int64_t)DAY_S);
    expect_waiting(4, 0);
    assert_int_equal(accept_clock(), 1);
    pass_s(10);
    for (int restarted = 0; restarted < 2; restarted++) {
        expect_waiting(4, 0);
        rig_view(&rig, 1, &view);
        assert_int_equal(view.state, POL_ROLLOUT_PAUSED);
        assert_int_not_equal(view.verdict, POL_VERDICT_FAIL);
        rig_stop(&rig);
        rig_start(&rig);
        rig_settle(&rig);
    }
    assert_int_equal(command(1, POL_COMMAND_RESUME), BASE_OK);
    pass_s(2 * view.execution_timeout_s);
    expect_waiting(0, 4);
}

static void impatient(struct pol_stage *stage, uint32_t index)
{
    (void)index;
    stage->execution_timeout_s = 20;
}

// A correction that counts, of more than a stage's whole timeout: who is under way is not timed out
// by it, for it has hardly waited by the clock that nobody sets.
static void test_a_correction_times_nobody_out(void **state)
{
    (void)state;
    static const struct rig_stage hasty[] = {{.name = "full",
                                              .kind = POL_STAGE_FULL,
                                              .max_bucket = 10000,
                                              .min_sample = 1,
                                              .max_failure_ppm = 500000}};
    struct wire_sha256 manifest;
    struct gw_rollout_view view;
    struct base_error error = {0};
    uint32_t offers = 0;
    rig.certified = true;
    rig.conduct = impatient;
    rig_version(&rig, TASK, "1.0.0", &manifest);
    assert_int_equal(rig_rollout(&rig, 1, TASK, &manifest, NULL, NULL, hasty, 1, &view, &error),
                     BASE_OK);
    rig_command(&rig, 1, POL_COMMAND_START, &view);
    rig_settle(&rig);
    for (int i = 0; i < 4; i++) {
        (void)ask(&offers);
        assert_int_equal(offers, 1);
    }
    pass_s(2);
    jump_s(240);
    for (int i = 0; i < 10; i++) { // 12 s of its 20
        pass_s(1);
        expect_waiting(4, 0);
        rig_view(&rig, 1, &view);
        assert_int_not_equal(view.verdict, POL_VERDICT_FAIL);
    }
    assert_int_equal(doubt(), GW_CLOCK_SURE);
    pass_s(40);
    expect_waiting(0, 4);
}

static void guarded(struct pol_stage *stage, uint32_t index)
{
    (void)index;
    stage->guard_s = 3600;
}

// What is guarded is judged as well, by who was not seen meanwhile.
static void test_guards_wait(void **state)
{
    (void)state;
    static const struct rig_stage full[] = {
        {.name = "full",
         .kind = POL_STAGE_FULL,
         .max_bucket = 10000,
         .min_sample = 1,
         .max_failure_ppm = 500000},
    };
    struct wire_sha256 manifest;
    struct gw_rollout_view view;
    struct base_error error = {0};
    uint32_t offers = 0;
    rig.certified = true;
    rig.conduct = guarded;
    rig_version(&rig, TASK, "1.0.0", &manifest);
    assert_int_equal(rig_rollout(&rig, 1, TASK, &manifest, NULL, NULL, full, 1, &view, &error),
                     BASE_OK);
    (void)ask(&offers); // this one does not come again
    assert_int_equal(offers, 0);
    rig_command(&rig, 1, POL_COMMAND_START, &view);
    rig_settle(&rig);
    install(1);
    rig_view(&rig, 1, &view);
    assert_int_equal(view.state, POL_ROLLOUT_GUARDING);
    jump_s(JUMP_S);
    assert_int_equal(accept_clock(), 1);
    rig_view(&rig, 1, &view);
    assert_int_equal(view.state, POL_ROLLOUT_PAUSED);
    assert_true(view.guarding);
    assert_int_equal(command(1, POL_COMMAND_RESUME), BASE_OK);
    rig_settle(&rig);
    rig_view(&rig, 1, &view);
    assert_int_equal(view.state, POL_ROLLOUT_GUARDING);
    assert_true(view.guard_left_s > 3600 - 60); // it is no nearer to its end
}

// Who was under way when the time was moved has its time from then on: the guard does not end for
// want of anybody who is outstanding, not after a restart either, until that is over.
static void wait_for_who_was_under_way(int64_t jump)
{
    static const struct rig_stage full[] = {
        {.name = "full",
         .kind = POL_STAGE_FULL,
         .max_bucket = 10000,
         .min_sample = 1,
         .max_failure_ppm = 500000},
    };
    struct wire_sha256 manifest;
    struct gw_rollout_view view;
    struct base_error error = {0};
    uint32_t offers = 0;
    rig.certified = true;
    rig.conduct = guarded;
    rig_version(&rig, TASK, "1.0.0", &manifest);
    assert_int_equal(rig_rollout(&rig, 1, TASK, &manifest, NULL, NULL, full, 1, &view, &error),
                     BASE_OK);
    rig_command(&rig, 1, POL_COMMAND_START, &view);
    rig_settle(&rig);
    (void)ask(&offers);
    assert_int_equal(offers, 1); // this one says nothing of it
    install(1);
    rig_view(&rig, 1, &view);
    assert_int_equal(view.state, POL_ROLLOUT_GUARDING);
    jump_s(jump);
    assert_int_equal(accept_clock(), 1);
    assert_int_equal(command(1, POL_COMMAND_RESUME), BASE_OK);
    rig_settle(&rig);
    rig_stop(&rig);
    rig_start(&rig);
    rig_settle(&rig);
    pass_s(GW_EXECUTION_TIMEOUT_S - 60);
    rig_view(&rig, 1, &view);
    assert_int_equal(view.state, POL_ROLLOUT_GUARDING);
    assert_int_equal(view.outstanding, 1);
    pass_s(120);
    rig_view(&rig, 1, &view);
    assert_int_equal(view.state, POL_ROLLOUT_COMPLETED);
    assert_int_equal(view.reason, POL_REASON_NOBODY_OUTSTANDING);
}

static void test_guards_wait_on_after_a_jump_ahead(void **state)
{
    (void)state;
    wait_for_who_was_under_way((int64_t)JUMP_S);
}

static void test_guards_wait_on_after_a_jump_back(void **state)
{
    (void)state;
    wait_for_who_was_under_way(-(int64_t)DAY_S);
}

static void approved(struct pol_stage *stage, uint32_t index)
{
    stage->approval = index == 0;
}

// One that waits for its first approval goes on waiting, and keeps nobody else from being paused.
static void test_first_approvals_wait(void **state)
{
    (void)state;
    struct wire_sha256 manifest;
    struct gw_rollout_view view;
    rig.conduct = approved;
    rig_version(&rig, TASK, "1.0.0", &manifest);
    start_rollout(1, &manifest);
    rig.conduct = NULL;
    rig_version(&rig, TASK, "2.0.0", &manifest);
    start_rollout(2, &manifest);
    jump_s(JUMP_S);
    assert_int_equal(accept_clock(), 1);
    rig_view(&rig, 1, &view);
    assert_int_equal(view.state, POL_ROLLOUT_WAITING);
    rig_view(&rig, 2, &view);
    assert_int_equal(view.state, POL_ROLLOUT_PAUSED);
}

// Without a doubt the same stage goes on.
static void test_stages_go_on(void **state)
{
    (void)state;
    struct wire_sha256 manifest;
    struct gw_rollout_view view;
    rig_version(&rig, TASK, "1.0.0", &manifest);
    start_rollout(1, &manifest);
    install(1);
    pass_s(600);
    rig_view(&rig, 1, &view);
    assert_int_equal(view.stage_index, 0);
    pass_s(3600);
    rig_view(&rig, 1, &view);
    assert_int_equal(view.stage_index, 1);
}

static void test_corrections_count(void **state)
{
    (void)state;
    jump_s(240);
    assert_int_equal(doubt(), GW_CLOCK_SURE);
    pass_s(13 * 3600);
    assert_int_equal(signed_s(), wall_s());
}

// ---- At the start

static void test_started_ahead(void **state)
{
    (void)state;
    uint64_t sure = wall_s();
    rig_stop(&rig);
    rig.wall_us += (JUMP_S + DAY_S) * 1000000;
    rig.mono_us = 1000;
    rig_start(&rig);
    rig_settle(&rig);
    assert_int_equal(doubt(), GW_CLOCK_AHEAD);
    assert_int_equal(signed_s(), sure); // the same bytes as before
    jump_s(-(int64_t)JUMP_S);
    assert_int_equal(doubt(), GW_CLOCK_SURE);
    assert_int_equal(signed_s(), wall_s());
}

static void test_started_behind(void **state)
{
    (void)state;
    uint64_t sure = wall_s();
    rig_stop(&rig);
    rig.wall_us = 0; // 1970
    rig_start(&rig);
    rig_settle(&rig);
    assert_int_equal(doubt(), GW_CLOCK_BEHIND);
    assert_int_equal(signed_s(), sure);
    rig.wall_us = (sure + 3 * DAY_S) * 1000000; // the clock gets set
    rig_settle(&rig);
    assert_int_equal(doubt(), GW_CLOCK_SURE);
    assert_int_equal(signed_s(), wall_s());
}

// It was ahead from its very first start, which nothing shows. What shows is that it comes back.
static void test_ahead_from_the_beginning(void **state)
{
    (void)state;
    pass_s(20 * 3600);
    uint64_t ahead = signed_s();
    rig_stop(&rig);
    rig.wall_us -= JUMP_S * 1000000;
    rig_start(&rig);
    rig_settle(&rig);
    assert_int_equal(doubt(), GW_CLOCK_BEHIND);
    assert_int_equal(signed_s(), ahead);
    (void)accept_clock();
    assert_int_equal(signed_s(), wall_s());
    // Accepted for good.
    rig_stop(&rig);
    rig_start(&rig);
    assert_int_equal(doubt(), GW_CLOCK_SURE);
}

// ---- Statements that ran out

static void test_what_ran_out_is_not_offered(void **state)
{
    (void)state;
    struct wire_sha256 manifest;
    uint32_t offers = 0;
    rig_version(&rig, TASK, "1.0.0", &manifest);
    rig.expires_s = wall_s() + DAY_S;
    start_rollout(1, &manifest);
    (void)ask(&offers);
    assert_int_equal(offers, 1);
    pass_s(DAY_S);
    (void)ask(&offers);
    assert_int_equal(offers, 0);
}

// A start is no acceptance; the clock that is set right, or accepted, is believed over starts, too.
static void test_a_doubt_outlasts_a_start(void **state)
{
    (void)state;
    const int64_t days_s = 3 * 86400;
    pass_s(10);
    jump_s(days_s);
    assert_int_equal(doubt(), GW_CLOCK_AHEAD);
    uint64_t sure_s = signed_s();
    for (int i = 0; i < 2; i++) {
        rig_stop(&rig);
        rig_start(&rig);
        pass_s(10);
        assert_int_equal(doubt(), GW_CLOCK_AHEAD);
        assert_in_range(signed_s(), sure_s, sure_s + 60);
    }
    jump_s(-days_s);
    assert_int_equal(doubt(), GW_CLOCK_SURE);
    jump_s(days_s);
    assert_int_equal(doubt(), GW_CLOCK_AHEAD);
    (void)accept_clock();
    for (int i = 0; i < 2; i++) {
        assert_int_equal(doubt(), GW_CLOCK_SURE);
        rig_stop(&rig);
        rig_start(&rig);
        pass_s(10);
    }
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_signs_no_later_time),
        CASE(test_in_doubt_for_long),
        CASE(test_back_as_well),
        CASE(test_judges_nothing),
        CASE(test_stages_wait),
        CASE(test_guards_wait),
        CASE(test_who_is_under_way_has_its_time_anew),
        CASE(test_a_correction_times_nobody_out),
        CASE(test_guards_wait_on_after_a_jump_ahead),
        CASE(test_guards_wait_on_after_a_jump_back),
        CASE(test_first_approvals_wait),
        CASE(test_stages_go_on),
        CASE(test_corrections_count),
        CASE(test_started_ahead),
        CASE(test_started_behind),
        CASE(test_ahead_from_the_beginning),
        CASE(test_what_ran_out_is_not_offered),
        CASE(test_a_doubt_outlasts_a_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
