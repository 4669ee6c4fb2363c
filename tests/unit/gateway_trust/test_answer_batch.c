// Answers of the director that are signed together: who asks first is answered at once, who comes
// within the wait shares the next signature, and each answer holds for its own device alone.
#include "director_kit.h"

#include "svc/core_worker.h"
#include "svc/trust/answer_batch.h"
#include "svc/trust/director_private.h"
#include "wire/trust/answer.h"

#define CROWD 300u

static uint32_t alarms;
static uint32_t alarm_after_us;

static void set_alarm(void *ctx, uint32_t after_us)
{
    (void)ctx;
    alarms++;
    alarm_after_us = after_us;
}

struct asker {
    struct rig_device device;
    struct rig_exchange exchange;
    struct wire_ask ask;
    char nonce[WIRE_ASK_TEXT_MAX + 1];
    char id[WIRE_DEVICE_HEX + 1];
    char profile[WIRE_PROFILE_TEXT_MAX];
};

static struct asker crowd[CROWD];

// Asks, and does not wait for the answer.
static void ask(struct asker *asker, uint64_t device, uint8_t flags)
{
    struct gw_request *request = &asker->exchange.exchange.request;
    rig_device_init(&asker->device, device);
    rig_exchange_init(&asker->exchange, GW_METHOD_POST, "/v1/checkin");
    asker->ask = (struct wire_ask){.flags = flags, .order = device};
    memset(asker->ask.nonce, (int)(device % 251), sizeof(asker->ask.nonce));
    wire_ask_text(&asker->ask, asker->nonce);
    wire_device_hex(device, asker->id);
    request->device = base_str_of(asker->id);
    request->nonce = base_str_of(asker->nonce);
    request->profile = rig_device_profile(&asker->device, true, asker->profile);
    gw_core_handle(rig.worker.worker, &asker->exchange.exchange);
}

// The answer that the asker got, and the signature that it is under.
static struct wire_answer answered(const struct asker *asker, struct wire_envelope *out_envelope)
{
    struct wire_offers offers;
    struct wire_answer answer;
    struct wire_director director;
    const struct gw_reply *reply = &asker->exchange.exchange.reply;
    assert_true(asker->exchange.finished);
    assert_int_equal(reply->status, 200);
    assert_int_equal(wire_offers_parse(reply->body, reply->body_bytes, &offers), BASE_OK);
    assert_int_equal(offers.count, 2);
    assert_int_equal(
        wire_envelope_parse(offers.items[0].envelope, offers.items[0].envelope_bytes, out_envelope),
        BASE_OK);
    assert_int_equal(out_envelope->type, WIRE_ENVELOPE_TYPE_ANSWER);
    expect_signed(out_envelope, GW_ONLINE_DIRECTOR);
    assert_int_equal(wire_answer_parse(out_envelope->payload, out_envelope->payload_bytes, &answer),
                     BASE_OK);
    assert_int_equal(wire_director_parse(answer.director.data, answer.director.size, &director),
                     BASE_OK);
    assert_true(director.device_id == asker->device.id);
    assert_true(director.order == asker->ask.order + 1);
    assert_memory_equal(director.nonce, asker->ask.nonce, WIRE_NONCE_BYTES);
    assert_int_equal(director.count, 1);
    return answer;
}

static uint64_t signatures(void)
{
    return atomic_load(&rig.core->director->answer_signatures);
}

static int setup_crowd(void **state)
{
    struct wire_sha256 manifest;
    int status = setup(state);
    alarms = 0;
    rig_version(&rig, TASK, "1.0.0", &manifest);
    start_rollout(1, &manifest);
    gw_worker_on_alarm(rig.worker.worker, set_alarm, NULL);
    return status;
}

static void test_the_first_is_answered_at_once(void **state)
{
    (void)state;
    struct wire_envelope envelope;
    ask(&crowd[0], 1, WIRE_ASK_FLAG_TREE);
    struct wire_answer answer = answered(&crowd[0], &envelope);
    assert_int_equal(answer.way.leaves, 1);
    assert_int_equal(alarms, 0);
    // The next one waits, as long as it takes since then.
    rig.mono_us += 500;
    ask(&crowd[1], 2, WIRE_ASK_FLAG_TREE);
    assert_false(crowd[1].exchange.finished);
    assert_int_equal(alarms, 1);
    assert_int_equal(alarm_after_us, GW_ANSWER_WAIT_US - 500);
    ask(&crowd[2], 3, WIRE_ASK_FLAG_TREE);
    assert_int_equal(alarms, 1); // one call will do
    rig.mono_us += alarm_after_us;
    gw_worker_alarm(rig.worker.worker);
    assert_int_equal(answered(&crowd[1], &envelope).way.leaves, 2);
    assert_int_equal(answered(&crowd[2], &envelope).way.index, 1);
    assert_int_equal(signatures(), 2);
    assert_int_equal(atomic_load(&rig.core->director->answers), 3);
    // After a pause again at once.
    rig.mono_us += GW_ANSWER_WAIT_US;
    ask(&crowd[3], 4, WIRE_ASK_FLAG_TREE);
    assert_int_equal(answered(&crowd[3], &envelope).way.leaves, 1);
    for (uint32_t i = 0; i < 4; i++) {
        rig_exchange_done(&crowd[i].exchange);
    }
}

static void test_a_crowd_shares_signatures(void **state)
{
    (void)state;
    struct wire_envelope first;
    struct wire_envelope other;
    for (uint32_t i = 0; i < CROWD; i++) {
        ask(&crowd[i], 100 + i, WIRE_ASK_FLAG_TREE);
    }
    // One alone, a full tree without waiting, and the rest when the alarm goes off.
    assert_int_equal(signatures(), 2);
    gw_worker_alarm(rig.worker.worker);
    assert_int_equal(signatures(), 3);
    assert_int_equal(answered(&crowd[1], &first).way.leaves, WIRE_ANSWERS_MAX);
    for (uint32_t i = 2; i <= WIRE_ANSWERS_MAX; i++) {
        assert_int_equal(answered(&crowd[i], &other).way.index, i - 1);
        assert_memory_equal(other.signatures, first.signatures, sizeof(first.signatures[0]));
    }
    assert_int_equal(answered(&crowd[CROWD - 1], &other).way.leaves, CROWD - 1 - WIRE_ANSWERS_MAX);
    for (uint32_t i = 0; i < CROWD; i++) {
        rig_exchange_done(&crowd[i].exchange);
    }
}

// Devices of before do not understand a tree.
static void test_who_does_not_say_so_gets_a_signature_of_its_own(void **state)
{
    (void)state;
    struct wire_offers offers;
    struct wire_envelope envelope;
    for (uint32_t i = 0; i < 3; i++) {
        ask(&crowd[i], 1 + i, 0);
        const struct gw_reply *reply = &crowd[i].exchange.exchange.reply;
        assert_true(crowd[i].exchange.finished);
        assert_int_equal(wire_offers_parse(reply->body, reply->body_bytes, &offers), BASE_OK);
        assert_int_equal(wire_envelope_parse(offers.items[0].envelope,
                                             offers.items[0].envelope_bytes, &envelope),
                         BASE_OK);
        assert_int_equal(envelope.type, WIRE_ENVELOPE_TYPE_DIRECTOR);
        rig_exchange_done(&crowd[i].exchange);
    }
    assert_int_equal(signatures(), 3);
}

// The plan that an answer's statements are in may be replaced while it waits, and its stream may
// end.
static void test_what_waits_outlives_its_plan(void **state)
{
    (void)state;
    struct wire_sha256 manifest;
    struct wire_envelope envelope;
    ask(&crowd[0], 1, WIRE_ASK_FLAG_TREE);
    ask(&crowd[1], 2, WIRE_ASK_FLAG_TREE);
    ask(&crowd[2], 3, WIRE_ASK_FLAG_TREE);
    crowd[1].exchange.exchange.abandoned = true;
    const struct gw_plan *before = rig.worker.worker->plan;
    rig_version(&rig, TASK, "2.0.0", &manifest);
    rig_command(&rig, 1, POL_COMMAND_ABORT, NULL);
    rig_settle(&rig);
    assert_ptr_not_equal(rig.worker.worker->plan, before);
    gw_worker_alarm(rig.worker.worker);
    assert_true(crowd[1].exchange.finished);
    assert_int_equal(answered(&crowd[2], &envelope).way.leaves, 2);
    for (uint32_t i = 0; i < 3; i++) {
        rig_exchange_done(&crowd[i].exchange);
    }
}

static enum base_status no_signature(void *ctx, enum gw_online_role role, const uint8_t *message,
                                     size_t size, uint8_t out[WIRE_SIGNATURE_BYTES])
{
    (void)ctx, (void)role, (void)message, (void)size, (void)out;
    return BASE_ERR_IO;
}

static void test_a_failed_signature_sends_all_away(void **state)
{
    (void)state;
    struct gw_signer_port broken = *rig.signer;
    broken.sign = no_signature;
    rig.core->director->signer = &broken;
    ask(&crowd[0], 1, WIRE_ASK_FLAG_TREE);
    assert_int_equal(crowd[0].exchange.exchange.reply.status, 503);
    ask(&crowd[1], 2, WIRE_ASK_FLAG_TREE);
    ask(&crowd[2], 3, WIRE_ASK_FLAG_TREE);
    gw_worker_alarm(rig.worker.worker);
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(crowd[i].exchange.finished);
        assert_int_equal(crowd[i].exchange.exchange.reply.status, 503);
        rig_exchange_done(&crowd[i].exchange);
    }
    assert_int_equal(signatures(), 0);
    assert_int_equal(atomic_load(&rig.core->director->answers), 0);
    rig.core->director->signer = rig.signer;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_first_is_answered_at_once, setup_crowd, teardown),
        cmocka_unit_test_setup_teardown(test_a_crowd_shares_signatures, setup_crowd, teardown),
        cmocka_unit_test_setup_teardown(test_who_does_not_say_so_gets_a_signature_of_its_own,
                                        setup_crowd, teardown),
        cmocka_unit_test_setup_teardown(test_what_waits_outlives_its_plan, setup_crowd, teardown),
        cmocka_unit_test_setup_teardown(test_a_failed_signature_sends_all_away, setup_crowd,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
