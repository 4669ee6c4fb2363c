// Wrong tokens cost nobody but who shows them: a good token passes from the very address, what
// others try falls on no other address, whichever they choose, and enrolment and API are counted
// apart.
#include "core_rig.h"

#include "svc/access/peer_limits.h"
#include "test_kit.h"

#define BAD_OPERATOR "Bearer wat_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
#define BAD_DEVICE   "Bearer wet_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

#define VICTIM UINT64_C(0x0000ffff0a000001) // 10.0.0.1

static int ask(struct rig *rig, const char *path, const char *bearer, uint64_t peer)
{
    struct rig_exchange exchange;
    struct gw_actor actor;
    enum gw_method method = strcmp(path, "/v1/enroll") == 0 ? GW_METHOD_POST : GW_METHOD_GET;
    rig_exchange_init(&exchange, method, path);
    exchange.exchange.request.authorization = base_str_of(bearer);
    exchange.exchange.request.peer = peer;
    int status = 200;
    if (method == GW_METHOD_POST) {
        rig_run(rig, &exchange);
        status = exchange.exchange.reply.status;
    } else if (!gw_access_check(rig->core, &exchange.exchange, &actor)) {
        status = exchange.exchange.reply.status;
    }
    rig_exchange_done(&exchange);
    return status;
}

static void make_token(struct rig *rig, enum gw_role role, char out[GW_SECRET_TEXT_BYTES + 8])
{
    struct gw_token_view view;
    struct gw_token_view wish = {.role = role, .name = "ana"};
    struct base_error error = {0};
    char text[GW_SECRET_TEXT_BYTES + 1];
    assert_int_equal(gw_token_create(rig->core, &wish, &view, text, &error), BASE_OK);
    snprintf(out, GW_SECRET_TEXT_BYTES + 8, "Bearer %s", text);
}

static void test_a_good_token_passes(void **state)
{
    (void)state;
    struct rig rig;
    char admin[GW_SECRET_TEXT_BYTES + 8];
    char enrol[GW_SECRET_TEXT_BYTES + 8];
    rig_init(&rig);
    rig_start(&rig);
    make_token(&rig, GW_ROLE_ADMIN, admin);
    make_token(&rig, GW_ROLE_ENROL, enrol);
    for (uint32_t i = 0; i < 2 * GW_ACCESS_BURST; i++) {
        int wanted = i < GW_ACCESS_BURST ? 401 : 429;
        assert_int_equal(ask(&rig, "/api/v1/tasks", BAD_OPERATOR, VICTIM), wanted);
    }
    assert_int_equal(ask(&rig, "/api/v1/tasks", admin, VICTIM), 200);
    // Enrolment is counted apart: it has all its tries left, and a good token passes there too.
    for (uint32_t i = 0; i < 2 * GW_ACCESS_BURST; i++) {
        int wanted = i < GW_ACCESS_BURST ? 401 : 429;
        assert_int_equal(ask(&rig, "/v1/enroll", BAD_DEVICE, VICTIM), wanted);
    }
    assert_int_equal(ask(&rig, "/v1/enroll", enrol, VICTIM), 201);
    assert_int_equal(ask(&rig, "/api/v1/tasks", admin, VICTIM), 200);
    // Time gives tries back, one at a time.
    rig_advance_s(&rig, GW_ACCESS_INTERVAL_US / 1000000);
    assert_int_equal(ask(&rig, "/api/v1/tasks", BAD_OPERATOR, VICTIM), 401);
    assert_int_equal(ask(&rig, "/api/v1/tasks", BAD_OPERATOR, VICTIM), 429);
    rig_done(&rig);
}

// Addresses that share the slot of 10.0.0.1 under the old mix: their failures are their own.
static void test_chosen_addresses(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig);
    rig_start(&rig);
    uint32_t attackers = 0;
    for (uint64_t peer = VICTIM + 1; attackers < 4; peer++) {
        if (base_mix64(peer) % 4096 == base_mix64(VICTIM) % 4096) {
            attackers++;
            for (uint32_t i = 0; i < 2 * GW_ACCESS_BURST; i++) {
                (void)ask(&rig, "/api/v1/tasks", BAD_OPERATOR, peer);
            }
        }
    }
    assert_int_equal(ask(&rig, "/api/v1/tasks", BAD_OPERATOR, VICTIM), 401);
    rig_done(&rig);
}

// However many addresses fail, the table stays as large as it is, and one that goes on failing
// stays limited as long as fewer than a set's places of others fall on it.
static void test_table_is_bounded(void **state)
{
    (void)state;
    static const struct base_hash_key key = {3, 4};
    static const struct pol_ratelimit_config config = {
        .burst = GW_ACCESS_BURST, .refill = 1, .interval_us = GW_ACCESS_INTERVAL_US};
    struct gw_peer_limits *tries = NULL;
    assert_int_equal(gw_peer_limits_new(&key, &config, &tries), BASE_OK);
    for (uint32_t i = 0; i < GW_ACCESS_BURST; i++) {
        assert_true(gw_peer_limits_take(tries, VICTIM, 1000));
    }
    assert_false(gw_peer_limits_take(tries, VICTIM, 1000));
    for (uint64_t peer = 0; peer < 100000; peer++) {
        assert_true(gw_peer_limits_take(tries, UINT64_C(0x2001000000000000) + peer, 1000));
    }
    // One failure each leaves them more tries than the address that has none: they go first.
    assert_false(gw_peer_limits_take(tries, VICTIM, 1000));
    gw_peer_limits_free(tries);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_good_token_passes),
        cmocka_unit_test(test_chosen_addresses),
        cmocka_unit_test(test_table_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
