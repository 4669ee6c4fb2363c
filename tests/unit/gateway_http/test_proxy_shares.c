// Shares of the upstream: a client's, all strangers' together, and what a connection that its
// client spent still counts for.
#include "http/guard/proxy_shares.h"

#include "test_kit.h"

static const struct gw_share_limits limits[GW_SHARE_COUNT] = {
    [GW_SHARE_CONNECTION] = {.client = 2, .strangers = 3},
    [GW_SHARE_PLACE] = {.client = 4, .strangers = 5},
};

static const struct gw_actor_key device = {.kind = GW_ACTOR_DEVICE, .bytes = {1}};
static const struct gw_actor_key person = {.kind = GW_ACTOR_OPERATOR, .bytes = {1}};

static struct gw_actor_key stranger(uint8_t number)
{
    return (struct gw_actor_key){.kind = GW_ACTOR_STRANGER, .bytes = {number}};
}

static void begin(struct gw_proxy_shares *shares)
{
    assert_int_equal(gw_proxy_shares_init(shares, limits), BASE_OK);
}

// Takes what may be taken. Returns how many; *out_refusal: what ended it.
static uint32_t take_all(struct gw_proxy_shares *shares, const struct gw_actor_key *client,
                         enum gw_proxy_share share, enum base_status *out_refusal)
{
    uint32_t count = 0;
    while ((*out_refusal = gw_proxy_share_check(shares, client, share)) == BASE_OK) {
        assert_true(count < 100);
        assert_int_equal(gw_proxy_share_take(shares, client, share), BASE_OK);
        count++;
    }
    return count;
}

static void test_a_client_has_its_share(void **state)
{
    (void)state;
    struct gw_proxy_shares shares;
    enum base_status refusal;
    begin(&shares);
    for (uint32_t i = 0; i < GW_SHARE_COUNT; i++) {
        enum gw_proxy_share share = (enum gw_proxy_share)i;
        assert_int_equal(take_all(&shares, &device, share, &refusal), limits[i].client);
        assert_int_equal(refusal, BASE_ERR_LIMIT);
        assert_int_equal(take_all(&shares, &person, share, &refusal), limits[i].client);
        assert_int_equal(refusal, BASE_ERR_LIMIT);
        gw_proxy_share_give(&shares, &device, share);
        assert_int_equal(take_all(&shares, &device, share, &refusal), 1);
        assert_int_equal(shares.strangers[i], 0);
    }
    gw_proxy_shares_free(&shares);
}

static void test_strangers_leave_the_rest(void **state)
{
    (void)state;
    struct gw_proxy_shares shares;
    enum base_status refusal;
    begin(&shares);
    for (uint32_t i = 0; i < GW_SHARE_COUNT; i++) {
        enum gw_proxy_share share = (enum gw_proxy_share)i;
        struct gw_actor_key first = stranger(1);
        struct gw_actor_key second = stranger(2);
        struct gw_actor_key third = stranger(3);
        assert_int_equal(take_all(&shares, &first, share, &refusal), limits[i].client);
        assert_int_equal(refusal, BASE_ERR_LIMIT);
        assert_int_equal(take_all(&shares, &second, share, &refusal), 1);
        assert_int_equal(refusal, BASE_ERR_BUSY);
        assert_int_equal(take_all(&shares, &third, share, &refusal), 0);
        assert_int_equal(refusal, BASE_ERR_BUSY);
        // Whose own share is used up hears of that, whatever the others have.
        assert_int_equal(gw_proxy_share_check(&shares, &first, share), BASE_ERR_LIMIT);
        // Who proved itself is asked about its own alone.
        assert_int_equal(take_all(&shares, &device, share, &refusal), limits[i].client);
        assert_int_equal(refusal, BASE_ERR_LIMIT);
        gw_proxy_share_give(&shares, &first, share);
        assert_int_equal(take_all(&shares, &third, share, &refusal), 1);
        assert_int_equal(refusal, BASE_ERR_BUSY);
    }
    gw_proxy_shares_free(&shares);
}

static void test_a_spent_connection_is_its_clients_alone(void **state)
{
    (void)state;
    struct gw_proxy_shares shares;
    enum base_status refusal;
    struct gw_actor_key first = stranger(1);
    struct gw_actor_key second = stranger(2);
    begin(&shares);
    assert_int_equal(take_all(&shares, &first, GW_SHARE_CONNECTION, &refusal), 2);
    gw_proxy_share_spend(&shares, &first);
    assert_int_equal(gw_proxy_share_check(&shares, &first, GW_SHARE_CONNECTION), BASE_ERR_LIMIT);
    assert_int_equal(take_all(&shares, &second, GW_SHARE_CONNECTION, &refusal), 2);
    assert_int_equal(shares.strangers[GW_SHARE_CONNECTION], 3);
    gw_proxy_share_give(&shares, &second, GW_SHARE_CONNECTION);
    gw_proxy_share_forget(&shares, &first);
    assert_int_equal(take_all(&shares, &first, GW_SHARE_CONNECTION, &refusal), 1);
    gw_proxy_share_give(&shares, &first, GW_SHARE_CONNECTION);
    gw_proxy_share_give(&shares, &first, GW_SHARE_CONNECTION);
    gw_proxy_share_give(&shares, &second, GW_SHARE_CONNECTION);
    assert_int_equal(shares.strangers[GW_SHARE_CONNECTION], 0);
    assert_int_equal(gw_actor_table_size(shares.clients), 0);
    gw_proxy_shares_free(&shares);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_client_has_its_share),
        cmocka_unit_test(test_strangers_leave_the_rest),
        cmocka_unit_test(test_a_spent_connection_is_its_clients_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
