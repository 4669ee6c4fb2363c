// Answers to enrolments that get lost: the device asks again and is given the same, with a token
// that is used up too, and nobody else is. And what is stored of a token while its uses are under
// way. A core without sockets.
#include "core_rig.h"

#include "svc/access/credentials.h"
#include "svc/access/enrol_key.h"
#include "svc/access/operators.h"
#include "wire/enrolment.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define KEY   "wek_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"
#define OTHER "wek_AQECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"

static const struct gw_actor admin = {.role = GW_ROLE_ADMIN, .every_tenant = true};

struct token {
    char bearer[GW_SECRET_TEXT_BYTES + 8];
    uint64_t id;
};

static struct token token_make(struct rig *rig, uint32_t uses_max)
{
    struct token out;
    struct gw_token_view view;
    struct base_error error = {0};
    char text[GW_SECRET_TEXT_BYTES + 1];
    struct gw_token_view wish = {.role = GW_ROLE_ENROL, .uses_max = uses_max, .name = "factory"};
    assert_int_equal(gw_token_create(rig->core, &wish, &view, text, &error), BASE_OK);
    snprintf(out.bearer, sizeof(out.bearer), "Bearer %s", text);
    out.id = view.id;
    return out;
}

static uint32_t uses_of(struct rig *rig, const struct token *token)
{
    struct gw_token_view view;
    assert_int_equal(gw_token_get(rig->core, &admin, token->id, &view), BASE_OK);
    return view.uses;
}

struct answer {
    int status;
    uint64_t id;
    char credential[GW_SECRET_TEXT_BYTES + 1];
};

// One who enrols. `id` 0: the gateway finds one; `key` NULL: an agent of before.
static struct answer enrol(struct rig *rig, const struct token *token, uint64_t id, const char *key)
{
    struct answer out = {0};
    struct rig_exchange exchange;
    char hex[WIRE_DEVICE_HEX + 1];
    rig_exchange_init(&exchange, GW_METHOD_POST, "/v1/enroll");
    struct gw_request *request = &exchange.exchange.request;
    request->authorization = base_str_of(token->bearer);
    if (key != NULL) {
        request->enrol_key = base_str_of(key);
    }
    if (id != 0) {
        wire_device_hex(id, hex);
        request->device = base_str_of(hex);
    }
    rig_run(rig, &exchange);
    const struct gw_reply *reply = &exchange.exchange.reply;
    out.status = reply->status;
    if (out.status == 201) {
        struct wire_enrolment enrolment;
        assert_int_equal(wire_enrolment_parse(reply->body, reply->body_bytes, &enrolment), BASE_OK);
        assert_int_equal(enrolment.credential.size, GW_SECRET_TEXT_BYTES);
        memcpy(out.credential, enrolment.credential.data, enrolment.credential.size);
        out.id = enrolment.device_id;
    }
    rig_exchange_done(&exchange);
    return out;
}

static int checkin(struct rig *rig, uint64_t id, const char *credential)
{
    struct rig_device device;
    struct rig_exchange exchange;
    struct wire_offers offers;
    rig_device_init(&device, id);
    rig->credential = credential;
    int status = rig_checkin(rig, &device, true, &exchange, &offers);
    rig_exchange_done(&exchange);
    return status;
}

static void settle(struct rig *rig)
{
    for (int i = 0; i < 3; i++) {
        rig_settle(rig);
    }
}

// The answer is lost, the token has no use left, the gateway may have been started anew: who
// brings the key of the first try is given the same; nobody else is given anything.
static void test_an_answer_comes_again(void **state)
{
    (void)state;
    for (uint64_t id = 0; id < 2; id++) { // its own id, and the gateway's
        struct rig rig;
        rig_init(&rig);
        rig_start(&rig);
        struct token token = token_make(&rig, 2);
        struct answer first = enrol(&rig, &token, id, KEY);
        assert_int_equal(first.status, 201);
        assert_int_equal(enrol(&rig, &token, 7, OTHER).status, 201); // the last use
        assert_int_equal(uses_of(&rig, &token), 2);
        assert_int_equal(enrol(&rig, &token, 8, NULL).status, 403);
        for (int restarted = 0; restarted < 2; restarted++) {
            struct answer again = enrol(&rig, &token, id, KEY);
            assert_int_equal(again.status, 201);
            assert_int_equal(again.id, first.id);
            assert_string_equal(again.credential, first.credential);
            assert_int_equal(enrol(&rig, &token, first.id, OTHER).status, 403);
            assert_int_equal(enrol(&rig, &token, first.id, NULL).status, 403);
            assert_int_equal(enrol(&rig, &token, 9, KEY).status, 403); // another device
            assert_int_equal(uses_of(&rig, &token), 2);
            rig_stop(&rig);
            rig_start(&rig);
        }
        assert_int_equal(checkin(&rig, first.id, first.credential), 204);
        settle(&rig);
        // It has shown what it was given: the key opens nothing any more.
        assert_int_equal(enrol(&rig, &token, first.id, KEY).status, 403);
        struct token more = token_make(&rig, 0);
        assert_int_equal(enrol(&rig, &more, first.id, KEY).status, 409);
        rig_done(&rig);
    }
}

// Many devices share a token that has uses left: with it alone, nobody takes what another one has
// been given and has not shown yet.
static void test_a_shared_token_takes_over_nobody(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig);
    rig_start(&rig);
    struct token token = token_make(&rig, 0);
    struct answer ours = enrol(&rig, &token, 1, KEY);
    assert_int_equal(ours.status, 201);
    assert_int_equal(enrol(&rig, &token, 1, OTHER).status, 409);
    assert_int_equal(enrol(&rig, &token, 1, NULL).status, 409);
    assert_int_equal(checkin(&rig, 1, ours.credential), 204);
    // The key says which device asks, not which credential: another id, token or key has another.
    struct token second = token_make(&rig, 0);
    struct answer others[] = {enrol(&rig, &token, 2, KEY), enrol(&rig, &second, 3, KEY),
                              enrol(&rig, &token, 4, OTHER)};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(others[i].status, 201);
        assert_string_not_equal(others[i].credential, ours.credential);
    }
    char one[GW_SECRET_TEXT_BYTES + 1];
    char other[GW_SECRET_TEXT_BYTES + 1];
    struct gw_enrol_who who = {base_str_of(KEY), base_str_of(token.bearer), 1, 0};
    assert_int_equal(gw_enrol_key_credential(&who, one), BASE_OK);
    assert_string_equal(one, ours.credential);
    who.authorization = base_str_of(second.bearer);
    assert_int_equal(gw_enrol_key_credential(&who, other), BASE_OK);
    assert_string_not_equal(one, other);
    assert_int_equal(uses_of(&rig, &token), 3);
    // An agent of before, which has become one that brings a key.
    struct answer before = enrol(&rig, &token, 5, NULL);
    assert_int_equal(before.status, 201);
    assert_int_equal(enrol(&rig, &token, 5, NULL).status, 201);
    struct answer since = enrol(&rig, &token, 5, KEY);
    assert_int_equal(since.status, 201);
    assert_int_equal(checkin(&rig, 5, since.credential), 204);
    assert_int_equal(uses_of(&rig, &token), 4);
    rig_done(&rig);
}

// A key whose first id is another's by now stands for others.
static void test_an_id_that_is_taken(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig);
    rig_start(&rig);
    struct token token = token_make(&rig, 0);
    struct base_str key = base_str_of(KEY);
    uint64_t ids[GW_ENROL_KEY_DRAWS + 1] = {0};
    for (uint32_t i = 0; i <= GW_ENROL_KEY_DRAWS; i++) {
        struct answer answer = enrol(&rig, &token, 0, KEY);
        assert_int_equal(answer.status, 201);
        ids[i] = answer.id;
        if (i < GW_ENROL_KEY_DRAWS) {
            assert_int_equal(answer.id, gw_enrol_key_id(key, i));
        }
        for (uint32_t k = 0; k < i; k++) {
            assert_true(ids[k] != answer.id);
        }
        assert_int_equal(checkin(&rig, answer.id, answer.credential), 204);
        settle(&rig);
    }
    rig_done(&rig);
}

static void test_a_key_has_a_form(void **state)
{
    (void)state;
    static const char *const wrong[] = {"x",
                                        "wek_",
                                        "wdt_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8",
                                        "wek_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh",
                                        KEY "A",
                                        "wek_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdH+8"};
    struct rig rig;
    rig_init(&rig);
    rig_start(&rig);
    struct token token = token_make(&rig, 0);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(enrol(&rig, &token, 1, wrong[i]).status, 400);
    }
    assert_int_equal(uses_of(&rig, &token), 0);
    assert_int_equal(enrol(&rig, &token, 1, "").status, 201); // none
    rig_done(&rig);
}

// An operator resets a device: what it had is dead for good, also for who brings the very key,
// token and id that it was made of, however often; the new one comes again when its answer is lost.
static void test_a_reset_is_for_good(void **state)
{
    (void)state;
    static const char *const keys[] = {KEY, NULL};
    for (size_t i = 0; i < 4; i++) { // with and without a key; shown before the reset, or never
        const char *key = keys[i % 2];
        char dead[3][GW_SECRET_TEXT_BYTES + 1];
        struct gw_credential row;
        struct rig rig;
        rig_init(&rig);
        rig_start(&rig);
        struct token token = token_make(&rig, 0);
        for (size_t turn = 0; turn < 3; turn++) {
            struct answer now = enrol(&rig, &token, 1, key);
            assert_int_equal(now.status, 201);
            struct answer again = enrol(&rig, &token, 1, key);
            assert_int_equal(again.status, 201);
            if (key != NULL) {
                assert_string_equal(again.credential, now.credential);
            }
            for (size_t before = 0; before < turn; before++) {
                assert_string_not_equal(again.credential, dead[before]);
                assert_int_equal(checkin(&rig, 1, dead[before]), 401);
            }
            if (i < 2) {
                assert_int_equal(checkin(&rig, 1, again.credential), 204);
                settle(&rig);
            }
            memcpy(dead[turn], again.credential, sizeof(dead[turn]));
            if (turn == 1) {
                assert_int_equal(gw_device_revoke(rig.core, 1, &row), BASE_OK);
            }
            assert_int_equal(gw_device_forget(rig.core, 1, &row), BASE_OK);
            assert_int_equal(checkin(&rig, 1, dead[turn]), 401);
            rig_stop(&rig);
            rig_start(&rig);
        }
        rig_done(&rig);
    }
}

// Begins one; it is not over before something else makes the writer go.
static void enrol_begin(struct rig *rig, struct rig_exchange *exchange, const struct token *token,
                        char hex[WIRE_DEVICE_HEX + 1], uint64_t id)
{
    rig_exchange_init(exchange, GW_METHOD_POST, "/v1/enroll");
    exchange->exchange.request.enrol_key = base_str_of(KEY);
    exchange->exchange.request.authorization = base_str_of(token->bearer);
    wire_device_hex(id, hex);
    exchange->exchange.request.device = base_str_of(hex);
    gw_core_handle(rig->worker.worker, &exchange->exchange);
}

// A device asks again before its first try has come to the disk: the last use is not gone for it.
static void test_asking_again_at_once(void **state)
{
    (void)state;
    struct rig rig;
    struct rig_exchange exchange;
    char hex[WIRE_DEVICE_HEX + 1];
    rig_init(&rig);
    rig.commit_delay_us = 600000000; // the writer waits for company, until something is urgent
    rig_start(&rig);
    struct token token = token_make(&rig, 1);
    enrol_begin(&rig, &exchange, &token, hex, 1);
    assert_int_equal(enrol(&rig, &token, 1, KEY).status, 429); // later it is answered
    assert_int_equal(enrol(&rig, &token, 2, OTHER).status, 429);
    (void)token_make(&rig, 0); // urgent
    while (!exchange.finished) {
        (void)rig_pump(&rig);
    }
    assert_int_equal(exchange.exchange.reply.status, 201);
    rig_exchange_done(&exchange);
    rig_stop(&rig);
    rig.commit_delay_us = 0;
    rig_start(&rig);
    assert_int_equal(enrol(&rig, &token, 1, KEY).status, 201);
    assert_int_equal(enrol(&rig, &token, 2, OTHER).status, 403);
    assert_int_equal(uses_of(&rig, &token), 1);
    rig_done(&rig);
}

// What it asked for was reset before it came to the disk: it is not given what the reset has ended,
// and the count of resets never goes back.
static void test_a_reset_while_it_asks(void **state)
{
    (void)state;
    for (int pending = 0; pending < 2; pending++) { // it asks for a new one; for the one it has
        struct gw_credential row;
        struct rig rig;
        struct rig_exchange exchange;
        char hex[WIRE_DEVICE_HEX + 1];
        rig_init(&rig);
        rig_start(&rig);
        struct token token = token_make(&rig, 3);
        struct answer first = enrol(&rig, &token, 1, KEY);
        assert_int_equal(first.status, 201);
        if (pending == 0) {
            assert_int_equal(gw_device_forget(rig.core, 1, &row), BASE_OK);
        }
        rig_stop(&rig);
        rig.commit_delay_us = 600000000; // the writer waits for company, until something is urgent
        rig_start(&rig);
        enrol_begin(&rig, &exchange, &token, hex, 1);
        assert_true(token.id > 1); // the rows of a group are written in this order
        assert_int_equal(gw_device_forget(rig.core, 1, &row), BASE_OK);
        while (!exchange.finished) {
            (void)rig_pump(&rig);
        }
        assert_int_equal(exchange.exchange.reply.status, 503);
        rig_exchange_done(&exchange);
        assert_int_equal(gw_credential_get(rig.core, 1, &row), BASE_OK);
        assert_int_equal(row.state, GW_CREDENTIAL_NONE);
        assert_int_equal(row.resets, 2 - pending);
        assert_int_equal(uses_of(&rig, &token), 1);
        rig_stop(&rig);
        rig.commit_delay_us = 0;
        rig_start(&rig);
        struct answer since = enrol(&rig, &token, 1, KEY);
        assert_int_equal(since.status, 201);
        assert_string_not_equal(since.credential, first.credential);
        assert_int_equal(uses_of(&rig, &token), 2);
        assert_int_equal(enrol(&rig, &token, 2, OTHER).status, 201); // nothing is taken for good
        assert_int_equal(uses_of(&rig, &token), 3);
        rig_done(&rig);
    }
}

// Who asks again takes no use, and so gives none back: not that which another device has under way.
static void test_asking_again_gives_no_use_back(void **state)
{
    (void)state;
    struct rig rig;
    struct rig_exchange exchange;
    uint64_t token_id = 0;
    uint16_t tenant = 0;
    rig_init(&rig);
    rig_start(&rig);
    struct token token = token_make(&rig, 2);
    assert_int_equal(enrol(&rig, &token, 1, KEY).status, 201);
    rig_exchange_init(&exchange, GW_METHOD_POST, "/v1/enroll");
    exchange.exchange.request.authorization = base_str_of(token.bearer);
    assert_true(gw_access_enrolment(rig.core, &exchange.exchange, false, &token_id, &tenant));
    assert_int_equal(enrol(&rig, &token, 1, KEY).status, 201);
    assert_int_equal(enrol(&rig, &token, 2, OTHER).status, 429); // the last one is under way
    gw_access_enrolment_undo(rig.core, token_id, false);
    assert_int_equal(enrol(&rig, &token, 2, OTHER).status, 201);
    assert_int_equal(uses_of(&rig, &token), 2);
    rig_exchange_done(&exchange);
    rig_done(&rig);
}

// Nothing can be made for it, there being no randomness just now: the use is not gone for that.
static void test_no_room_costs_no_use(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig);
    rig_start(&rig);
    struct token token = token_make(&rig, 1);
    struct base_random_port random = rig.core->random;
    rig.core->random.next = NULL;
    assert_int_equal(enrol(&rig, &token, 1, NULL).status, 503);
    rig.core->random = random;
    assert_int_equal(uses_of(&rig, &token), 0);
    assert_int_equal(enrol(&rig, &token, 1, NULL).status, 201);
    assert_int_equal(uses_of(&rig, &token), 1);
    rig_done(&rig);
}

// A token is revoked while uses of it are under way, which write its row as well: both are stored.
static void test_a_revocation_beside_uses(void **state)
{
    (void)state;
    struct rig rig;
    struct rig_exchange exchanges[2];
    char hex[2][WIRE_DEVICE_HEX + 1];
    struct gw_token_view view;
    struct base_error error = {0};
    rig_init(&rig);
    rig.commit_delay_us = 600000000; // the writer waits for company, until something is urgent
    rig_start(&rig);
    struct token token = token_make(&rig, 0);
    for (uint64_t i = 0; i < 2; i++) {
        enrol_begin(&rig, &exchanges[i], &token, hex[i], i + 1);
    }
    assert_int_equal(gw_token_revoke(rig.core, &admin, token.id, &view, &error), BASE_OK);
    for (size_t i = 0; i < 2; i++) {
        while (!exchanges[i].finished) {
            (void)rig_pump(&rig);
        }
        assert_int_equal(exchanges[i].exchange.reply.status, 201);
        rig_exchange_done(&exchanges[i]);
    }
    for (int restarted = 0; restarted < 2; restarted++) {
        assert_int_equal(gw_token_get(rig.core, &admin, token.id, &view), BASE_OK);
        assert_int_equal(view.uses, 2);
        assert_true(view.revoked_s != 0);
        assert_int_equal(view.revision, 2);
        rig_stop(&rig);
        rig_start(&rig);
    }
    assert_int_equal(enrol(&rig, &token, 3, NULL).status, 401);
    rig_done(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_answer_comes_again),
        cmocka_unit_test(test_a_shared_token_takes_over_nobody),
        cmocka_unit_test(test_an_id_that_is_taken),
        cmocka_unit_test(test_a_key_has_a_form),
        cmocka_unit_test(test_a_reset_is_for_good),
        cmocka_unit_test(test_asking_again_at_once),
        cmocka_unit_test(test_a_reset_while_it_asks),
        cmocka_unit_test(test_asking_again_gives_no_use_back),
        cmocka_unit_test(test_no_room_costs_no_use),
        cmocka_unit_test(test_a_revocation_beside_uses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
