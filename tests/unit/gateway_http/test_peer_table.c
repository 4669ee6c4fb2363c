// Counts by address hold through collisions and removals (against a plain array), limits refuse.
#include "http/guard/peer_table.h"

#include "test_kit.h"

#define ADDRESSES 64
#define STEPS     20000

static struct gw_peer_address address_of(uint32_t i)
{
    struct gw_peer_address address = {{[10] = 0xff, [11] = 0xff}}; // IPv4
    memcpy(address.bytes + 12, &i, sizeof(i));
    return address;
}

static void test_counts_match_a_model(void **state)
{
    (void)state;
    struct gw_peer_table *table = NULL;
    assert_int_equal(gw_peer_table_new(ADDRESSES * 4, &table), BASE_OK);
    struct base_prng prng;
    base_prng_seed(&prng, 7);
    uint32_t model[ADDRESSES] = {0};
    uint32_t total = 0;
    for (uint32_t step = 0; step < STEPS; step++) {
        uint32_t i = (uint32_t)base_prng_below(&prng, ADDRESSES);
        struct gw_peer_address address = address_of(i);
        if (base_prng_below(&prng, 2) == 0) {
            enum base_status status = gw_peer_table_take(table, &address, ADDRESSES * 4, 8);
            bool room = model[i] < 8 && total < ADDRESSES * 4;
            assert_int_equal(status, room ? BASE_OK : BASE_ERR_LIMIT);
            model[i] += room;
            total += room;
        } else if (model[i] > 0) {
            gw_peer_table_give(table, &address);
            model[i]--;
            total--;
        }
        assert_int_equal(gw_peer_table_count(table, &address), model[i]);
        assert_int_equal(gw_peer_table_total(table), total);
    }
    for (uint32_t i = 0; i < ADDRESSES; i++) {
        struct gw_peer_address address = address_of(i);
        assert_int_equal(gw_peer_table_count(table, &address), model[i]);
    }
    gw_peer_table_free(table);
}

static void test_limits(void **state)
{
    (void)state;
    struct gw_peer_table *table = NULL;
    assert_int_equal(gw_peer_table_new(0, &table), BASE_ERR_INVALID);
    assert_int_equal(gw_peer_table_new(4, &table), BASE_OK);
    struct gw_peer_address a = address_of(1);
    struct gw_peer_address b = address_of(2);
    assert_int_equal(gw_peer_table_take(table, &a, 10, 2), BASE_OK);
    assert_int_equal(gw_peer_table_take(table, &a, 10, 2), BASE_OK);
    assert_int_equal(gw_peer_table_take(table, &a, 10, 2), BASE_ERR_LIMIT);
    assert_int_equal(gw_peer_table_take(table, &b, 10, 9), BASE_OK);
    assert_int_equal(gw_peer_table_take(table, &b, 3, 9), BASE_ERR_LIMIT);
    assert_int_equal(gw_peer_table_take(table, &b, 10, 9), BASE_OK);
    assert_int_equal(gw_peer_table_take(table, &b, 10, 9), BASE_ERR_LIMIT); // its own capacity
    gw_peer_table_give(table, &a);
    assert_int_equal(gw_peer_table_take(table, &b, 10, 9), BASE_OK);
    gw_peer_table_free(table);
    gw_peer_table_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts_match_a_model),
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
