// Rates by address: bursts, refill, debts, one /64 as one address, no limit, and places that are
// taken over from who owes least.
#include "http/guard/peer_rates.h"

#include "test_kit.h"

#define NOW_US   UINT64_C(1000000000)
#define US_PER_S UINT64_C(1000000)

static const struct gw_peer_rate_limit ten_a_second = {.per_s = 10, .burst = 20};

static struct gw_peer_address v4(uint32_t i)
{
    struct gw_peer_address address = {{[10] = 0xff, [11] = 0xff}};
    memcpy(address.bytes + 12, &i, sizeof(i));
    return address;
}

static uint32_t take_all(struct gw_peer_rates *rates, const struct gw_peer_address *address,
                         uint64_t now_us)
{
    uint32_t count = 0;
    while (count < 1000 &&
           gw_peer_rates_take(rates, address,
                              &(struct gw_peer_use){GW_PEER_CONNECTS, ten_a_second, 1}, now_us)) {
        count++;
    }
    return count;
}

static void test_burst_and_refill(void **state)
{
    (void)state;
    struct gw_peer_rates *rates = NULL;
    assert_int_equal(gw_peer_rates_new(64, &rates), BASE_OK);
    struct gw_peer_address a = v4(1);
    struct gw_peer_address b = v4(2);
    assert_int_equal(take_all(rates, &a, NOW_US), 20);
    assert_int_equal(take_all(rates, &b, NOW_US), 20); // its own
    assert_int_equal(take_all(rates, &a, NOW_US + US_PER_S), 10);
    assert_int_equal(take_all(rates, &a, NOW_US), 0); // time goes back
    assert_int_equal(take_all(rates, &a, NOW_US + 100 * US_PER_S), 20);
    assert_true(gw_peer_rates_take(rates, &a,
                                   &(struct gw_peer_use){GW_PEER_HANDSHAKES, ten_a_second, 20},
                                   NOW_US + 100 * US_PER_S)); // another rate
    const struct gw_peer_rate_limit none = {0};
    assert_true(gw_peer_rates_take(
        rates, &a, &(struct gw_peer_use){GW_PEER_CONNECTS, none, 1u << 30}, NOW_US));
    gw_peer_rates_free(rates);
}

static void test_debts(void **state)
{
    (void)state;
    struct gw_peer_rates *rates = NULL;
    const struct gw_peer_rate_limit limit = {.per_s = 1000, .burst = 1000};
    assert_int_equal(gw_peer_rates_new(64, &rates), BASE_OK);
    struct gw_peer_address a = v4(1);
    enum gw_peer_rate bytes = GW_PEER_HEADER_BYTES;
    assert_int_equal(
        gw_peer_rates_spend(rates, &a, &(struct gw_peer_use){bytes, limit, 1000}, NOW_US), 0);
    assert_int_equal(
        gw_peer_rates_spend(rates, &a, &(struct gw_peer_use){bytes, limit, 500}, NOW_US), 500000);
    assert_int_equal(
        gw_peer_rates_spend(rates, &a, &(struct gw_peer_use){bytes, limit, 0}, NOW_US + 499999), 1);
    assert_int_equal(
        gw_peer_rates_spend(rates, &a, &(struct gw_peer_use){bytes, limit, 0}, NOW_US + 500000), 0);
    // The largest debt does not overflow, and is forgiven in an hour.
    uint64_t wait_us =
        gw_peer_rates_spend(rates, &a, &(struct gw_peer_use){bytes, limit, UINT64_MAX}, NOW_US);
    assert_in_range(wait_us, 1, 3600 * US_PER_S);
    const struct gw_peer_rate_limit largest = {.per_s = UINT64_C(4) << 30,
                                               .burst = UINT64_C(4) << 30};
    struct gw_peer_address b = v4(2);
    assert_int_equal(gw_peer_rates_spend(rates, &b,
                                         &(struct gw_peer_use){bytes, largest, UINT64_C(4) << 30},
                                         NOW_US),
                     0);
    gw_peer_rates_free(rates);
}

static void test_ipv6_counts_by_network(void **state)
{
    (void)state;
    struct gw_peer_rates *rates = NULL;
    struct gw_peer_table *table = NULL;
    assert_int_equal(gw_peer_rates_new(64, &rates), BASE_OK);
    assert_int_equal(gw_peer_table_new(64, &table), BASE_OK);
    struct gw_peer_address a = {{0x20, 0x01, 0x0d, 0xb8, [15] = 1}};
    struct gw_peer_address neighbour = a;
    neighbour.bytes[8] = neighbour.bytes[15] = 77;
    struct gw_peer_address other = a;
    other.bytes[7] = 1;
    assert_int_equal(take_all(rates, &a, NOW_US), 20);
    assert_int_equal(take_all(rates, &neighbour, NOW_US), 0);
    assert_int_equal(take_all(rates, &other, NOW_US), 20);
    assert_int_equal(gw_peer_table_take(table, &a, 64, 1), BASE_OK);
    assert_int_equal(gw_peer_table_take(table, &neighbour, 64, 1), BASE_ERR_LIMIT);
    assert_int_equal(gw_peer_table_take(table, &other, 64, 1), BASE_OK);
    gw_peer_table_give(table, &neighbour); // the same network
    assert_int_equal(gw_peer_table_total(table), 1);
    gw_peer_table_free(table);
    gw_peer_rates_free(rates);
}

// Many addresses that did little do not push out the one that owes much.
static void test_debtors_are_remembered(void **state)
{
    (void)state;
    struct gw_peer_rates *rates = NULL;
    assert_int_equal(gw_peer_rates_new(16, &rates), BASE_OK);
    struct gw_peer_address debtor = v4(1);
    assert_int_equal(take_all(rates, &debtor, NOW_US), 20);
    for (uint32_t i = 2; i < 5000; i++) {
        struct gw_peer_address address = v4(i);
        assert_true(gw_peer_rates_take(
            rates, &address, &(struct gw_peer_use){GW_PEER_CONNECTS, ten_a_second, 1}, NOW_US));
    }
    assert_int_equal(take_all(rates, &debtor, NOW_US), 0);
    gw_peer_rates_free(rates);
}

static void test_sizes(void **state)
{
    (void)state;
    struct gw_peer_rates *rates = NULL;
    assert_int_equal(gw_peer_rates_new(0, &rates), BASE_ERR_INVALID);
    assert_int_equal(gw_peer_rates_new(2, &rates), BASE_ERR_INVALID);
    assert_int_equal(gw_peer_rates_new(12, &rates), BASE_ERR_INVALID);
    assert_null(rates);
    gw_peer_rates_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_burst_and_refill),
        cmocka_unit_test(test_debts),
        cmocka_unit_test(test_ipv6_counts_by_network),
        cmocka_unit_test(test_debtors_are_remembered),
        cmocka_unit_test(test_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
