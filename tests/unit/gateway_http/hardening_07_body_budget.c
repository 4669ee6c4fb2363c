// Who holds how much of all bodies: shares hold whoever asks, what is given back is there again,
// and a table of actors is no larger than what they hold (against a plain array).
#include "http/memory/body_budget.h"

#include "test_kit.h"

#define ACTORS 300
#define STEPS  30000
#define MIB    UINT64_C(1048576)

static const struct gw_budget_limits limits = {.total = 256, .strangers = 64, .actor = 16};

static struct gw_actor_key key_of(enum gw_actor_kind kind, uint32_t i)
{
    struct gw_actor_key key = {.kind = (uint8_t)kind};
    memcpy(key.bytes, &i, sizeof(i));
    return key;
}

static enum base_status take(struct gw_body_budget *budget, enum gw_actor_kind kind, uint32_t i,
                             uint64_t bytes)
{
    struct gw_actor_key key = key_of(kind, i);
    return gw_body_budget_take(budget, &key, GW_BUDGET_MEMORY, &limits, bytes);
}

static void give(struct gw_body_budget *budget, enum gw_actor_kind kind, uint32_t i, uint64_t bytes)
{
    struct gw_actor_key key = key_of(kind, i);
    gw_body_budget_give(budget, &key, GW_BUDGET_MEMORY, bytes);
}

static void test_one_has_its_share_and_no_more(void **state)
{
    (void)state;
    struct gw_body_budget *budget = NULL;
    assert_int_equal(gw_body_budget_new(&budget), BASE_OK);
    assert_int_equal(take(budget, GW_ACTOR_DEVICE, 1, 16), BASE_OK);
    assert_int_equal(take(budget, GW_ACTOR_DEVICE, 1, 1), BASE_ERR_LIMIT);
    assert_int_equal(take(budget, GW_ACTOR_DEVICE, 2, 17), BASE_ERR_LIMIT);
    assert_int_equal(take(budget, GW_ACTOR_OPERATOR, 1, 16), BASE_OK); // another, with that number
    assert_int_equal(take(budget, GW_ACTOR_STRANGER, 1, 8), BASE_OK);  // an eighth of 64
    assert_int_equal(take(budget, GW_ACTOR_STRANGER, 1, 1), BASE_ERR_LIMIT);
    assert_int_equal(gw_body_budget_held(budget, GW_BUDGET_MEMORY), 40);
    assert_int_equal(gw_body_budget_held(budget, GW_BUDGET_FILES), 0);
    give(budget, GW_ACTOR_DEVICE, 1, 16);
    assert_int_equal(take(budget, GW_ACTOR_DEVICE, 1, 16), BASE_OK);
    give(budget, GW_ACTOR_DEVICE, 1, 16);
    give(budget, GW_ACTOR_OPERATOR, 1, 16);
    give(budget, GW_ACTOR_STRANGER, 1, 8);
    assert_int_equal(gw_body_budget_held(budget, GW_BUDGET_MEMORY), 0);
    gw_body_budget_free(budget);
}

static void test_strangers_leave_the_rest_to_others(void **state)
{
    (void)state;
    struct gw_body_budget *budget = NULL;
    assert_int_equal(gw_body_budget_new(&budget), BASE_OK);
    for (uint32_t i = 0; i < 8; i++) {
        assert_int_equal(take(budget, GW_ACTOR_STRANGER, i, 8), BASE_OK);
    }
    assert_int_equal(take(budget, GW_ACTOR_STRANGER, 8, 1), BASE_ERR_BUSY);
    for (uint32_t i = 0; i < 12; i++) {
        assert_int_equal(take(budget, GW_ACTOR_DEVICE, i, 16), BASE_OK);
    }
    assert_int_equal(take(budget, GW_ACTOR_DEVICE, 12, 1), BASE_ERR_BUSY); // all of it
    give(budget, GW_ACTOR_STRANGER, 0, 8);
    assert_int_equal(take(budget, GW_ACTOR_DEVICE, 12, 8), BASE_OK);
    for (uint32_t i = 0; i < 12; i++) {
        give(budget, GW_ACTOR_DEVICE, i, 16);
    }
    give(budget, GW_ACTOR_DEVICE, 12, 8);
    for (uint32_t i = 1; i < 8; i++) {
        give(budget, GW_ACTOR_STRANGER, i, 8);
    }
    gw_body_budget_free(budget);
}

static void test_sums_do_not_overflow(void **state)
{
    (void)state;
    struct gw_body_budget *budget = NULL;
    struct gw_actor_key key = key_of(GW_ACTOR_DEVICE, 1);
    const struct gw_budget_limits wide = {UINT64_MAX, UINT64_MAX, UINT64_MAX};
    assert_int_equal(gw_body_budget_new(&budget), BASE_OK);
    assert_int_equal(gw_body_budget_take(budget, &key, GW_BUDGET_FILES, &wide, UINT64_MAX - 1),
                     BASE_OK);
    assert_int_equal(gw_body_budget_take(budget, &key, GW_BUDGET_FILES, &wide, 2), BASE_ERR_LIMIT);
    gw_body_budget_give(budget, &key, GW_BUDGET_FILES, UINT64_MAX - 1);
    gw_body_budget_free(budget);
}

static void test_actors_match_a_model(void **state)
{
    (void)state;
    struct gw_actor_table *table = NULL;
    static uint64_t model[ACTORS][GW_ACTOR_COUNTS];
    struct base_prng prng;
    base_prng_seed(&prng, 7);
    assert_int_equal(gw_actor_table_new(&table), BASE_OK);
    for (uint32_t step = 0; step < STEPS; step++) {
        uint32_t i = (uint32_t)base_prng_below(&prng, ACTORS);
        uint32_t which = (uint32_t)base_prng_below(&prng, GW_ACTOR_COUNTS);
        uint64_t amount = base_prng_below(&prng, 3) * MIB;
        struct gw_actor_key key = key_of(GW_ACTOR_STRANGER, i);
        if (base_prng_below(&prng, 2) == 0) {
            assert_int_equal(gw_actor_table_add(table, &key, which, amount), BASE_OK);
            model[i][which] += amount;
        } else {
            amount = amount < model[i][which] ? amount : model[i][which];
            gw_actor_table_sub(table, &key, which, amount);
            model[i][which] -= amount;
        }
    }
    uint32_t used = 0;
    for (uint32_t i = 0; i < ACTORS; i++) {
        struct gw_actor_key key = key_of(GW_ACTOR_STRANGER, i);
        uint64_t all = 0;
        for (uint32_t which = 0; which < GW_ACTOR_COUNTS; which++) {
            assert_int_equal(gw_actor_table_get(table, &key, which), model[i][which]);
            all += model[i][which];
        }
        used += all > 0;
    }
    assert_int_equal(gw_actor_table_size(table), used);
    gw_actor_table_free(table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_has_its_share_and_no_more),
        cmocka_unit_test(test_strangers_leave_the_rest_to_others),
        cmocka_unit_test(test_sums_do_not_overflow),
        cmocka_unit_test(test_actors_match_a_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
