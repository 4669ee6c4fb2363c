// How many rows go together by what runs were measured to cost, with made-up costs; and batches
// that are made by it.
#include "test_kit.h"

#include "infer/infer_batch.h"

#define SHAPE 7u

// Judged: each size costs what `us` says.
static void learn(struct gw_infer_costs *costs, uint64_t shape,
                  const uint64_t us[GW_INFER_COST_SIZES])
{
    for (uint32_t size = 0; size < GW_INFER_COST_SIZES; size++) {
        for (uint32_t i = 0; i < GW_INFER_COST_TRIALS + (size == 0); i++) { // not a turn at last
            gw_infer_cost_add(costs, shape, UINT32_C(1) << size, us[size]);
        }
    }
}

static uint32_t rows_of(const struct gw_infer_costs *costs, uint32_t rows)
{
    return gw_infer_cost_rows(costs, SHAPE, rows);
}

static void test_costs_that_are_not_known(void **state)
{
    struct gw_infer_costs costs = {0};
    (void)state;
    assert_int_equal(rows_of(&costs, 5), 5);
    for (uint32_t i = 0; i < GW_INFER_COST_TRIALS; i++) { // the largest, then the next one
        assert_int_equal(rows_of(&costs, 5), 5);
        gw_infer_cost_add(&costs, SHAPE, 8, 800);
    }
    for (uint32_t i = 0; i < GW_INFER_COST_TRIALS; i++) {
        assert_int_equal(rows_of(&costs, 5), 4);
        gw_infer_cost_add(&costs, SHAPE, 4, 400);
    }
    assert_int_equal(rows_of(&costs, 5), 2);
    assert_int_equal(gw_infer_cost_rows(&costs, SHAPE + 1, 5), 5); // of another shape
}

static void test_least_that_is_as_good(void **state)
{
    static const uint64_t linear[] = {100, 200, 400, 800, 1600, 3200, 6400, 12800};
    static const uint64_t fixed[] = {100, 110, 120, 140, 180, 260, 420, 740};
    static const uint64_t until_four[] = {100, 150, 200, 400, 800, 1600, 3200, 6400};
    static const uint64_t barely[] = {100, 190, 380, 760, 1520, 3040, 6080, 12160};
    static const uint64_t hardly[] = {100, 192, 384, 768, 1536, 3072, 6144, 12288};
    static const struct {
        const uint64_t *us;
        uint32_t rows;
        uint32_t wanted;
    } cases[] = {
        {linear, 1, 1},     {linear, 8, 1}, {linear, 128, 1},  {fixed, 1, 1},
        {fixed, 7, 7},      {fixed, 8, 8},  {fixed, 128, 128}, {until_four, 3, 3},
        {until_four, 5, 4}, // the fifth would be one of eight
        {until_four, 8, 4}, {barely, 8, 2}, {hardly, 8, 1},
    };
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct gw_infer_costs costs = {0};
        learn(&costs, SHAPE, cases[i].us);
        uint32_t rows = rows_of(&costs, cases[i].rows);
        if (rows != cases[i].wanted) {
            fail_msg("case %zu: %u of %u rows, wanted %u", i, rows, cases[i].rows, cases[i].wanted);
        }
    }
}

static void test_turns(void **state)
{
    static const uint64_t until_four[] = {100, 150, 200, 400, 800, 1600, 3200, 6400};
    struct gw_infer_costs costs = {0};
    uint32_t seen[GW_INFER_BATCH_MAX + 1] = {0};
    (void)state;
    learn(&costs, SHAPE, until_four);
    for (uint32_t i = 0; i < 4 * GW_INFER_COST_TURN; i++) {
        uint32_t rows = rows_of(&costs, 128);
        seen[rows]++;
        gw_infer_cost_add(&costs, SHAPE, rows, rows * 50);
    }
    assert_int_equal(seen[2], 2);
    assert_int_equal(seen[8], 2);
    assert_int_equal(seen[4], 4 * GW_INFER_COST_TURN - 4);
}

// What changes is found: a large run that became cheap is put together again.
static void test_costs_that_change(void **state)
{
    static const uint64_t linear[] = {100, 200, 400, 800, 1600, 3200, 6400, 12800};
    struct gw_infer_costs costs = {0};
    (void)state;
    learn(&costs, SHAPE, linear);
    uint32_t runs = 0;
    while (rows_of(&costs, 2) != 2 || costs.shapes[0].runs_all % GW_INFER_COST_TURN == 0) {
        gw_infer_cost_add(&costs, SHAPE, rows_of(&costs, 2), 100); // both sizes take as long now
        assert_true(++runs < 16 * GW_INFER_COST_TURN);
    }
}

// Runs that took a hundred times as long, for a reason of their own, are soon forgotten: the first
// one ever, and ten in a row later.
static void test_costs_that_mislead(void **state)
{
    static const uint64_t fixed[] = {100, 110, 120, 140, 180, 260, 420, 740};
    struct gw_infer_costs costs = {0};
    (void)state;
    for (uint32_t size = 0; size < GW_INFER_COST_SIZES; size++) {
        gw_infer_cost_add(&costs, SHAPE, UINT32_C(1) << size, 100 * fixed[size]);
    }
    learn(&costs, SHAPE, fixed);
    assert_int_equal(rows_of(&costs, 128), 128);
    for (uint32_t i = 0; i < 10; i++) {
        gw_infer_cost_add(&costs, SHAPE, 128, 100 * fixed[7]);
    }
    uint32_t runs = 0;
    while (rows_of(&costs, 128) != 128 || costs.shapes[0].runs_all % GW_INFER_COST_TURN == 0) {
        uint32_t rows = rows_of(&costs, 128);
        uint32_t size = (uint32_t)__builtin_ctz(rows);
        gw_infer_cost_add(&costs, SHAPE, rows, fixed[size]);
        assert_true(++runs < 12 * GW_INFER_COST_TURN);
    }
}

// Of more shapes than there is room for, the one unused longest is forgotten.
static void test_shapes(void **state)
{
    static const uint64_t linear[] = {100, 200, 400, 800, 1600, 3200, 6400, 12800};
    struct gw_infer_costs costs = {0};
    (void)state;
    for (uint64_t shape = 0; shape < GW_INFER_COST_SHAPES; shape++) {
        learn(&costs, shape, linear);
    }
    gw_infer_cost_add(&costs, 0, 1, 100);
    learn(&costs, GW_INFER_COST_SHAPES, linear);
    for (uint64_t shape = 0; shape <= GW_INFER_COST_SHAPES; shape++) {
        assert_int_equal(gw_infer_cost_rows(&costs, shape, 8), shape == 1 ? 8 : 1);
    }
}

// The choice is never more than a twentieth above the best by the row, and no smaller size is as
// good.
static void test_random(void **state)
{
    struct base_prng prng;
    (void)state;
    test_seed(&prng);
    for (int round = 0; round < 2000; round++) {
        struct gw_infer_costs costs = {0};
        uint64_t us[GW_INFER_COST_SIZES];
        for (uint32_t size = 0; size < GW_INFER_COST_SIZES; size++) {
            us[size] = base_prng_next(&prng) % 2000;
        }
        learn(&costs, SHAPE, us);
        uint32_t rows = 1 + (uint32_t)(base_prng_next(&prng) % GW_INFER_BATCH_MAX);
        uint32_t chosen = rows_of(&costs, rows);
        double best = 1e9;
        double cost[GW_INFER_COST_SIZES];
        uint32_t sizes = 0;
        for (uint32_t planned = 1; sizes == 0 || planned / 2 < rows; planned *= 2) {
            cost[sizes] = (double)us[sizes] / (planned < rows ? planned : rows);
            best = cost[sizes] < best ? cost[sizes] : best;
            sizes++;
        }
        uint32_t wanted = 0;
        while (cost[wanted] > best * 1.05 + 1e-9) {
            wanted++;
        }
        assert_int_equal(chosen, (1u << wanted) < rows ? 1u << wanted : rows);
    }
}

// A batch is full with as many rows as pay, and so goes at once; the rest wait.
static void test_batches(void **state)
{
    static const uint64_t until_four[] = {100, 150, 200, 400, 800, 1600, 3200, 6400};
    struct gw_infer_costs costs = {0};
    const struct gw_infer_batch_rules rules = {.rows_max = 8, .delay_us = 1000, .costs = &costs};
    struct gw_infer_queue queue = {0};
    struct gw_infer_wait *out[GW_INFER_BATCH_MAX];
    struct gw_infer_wait calls[6];
    uint64_t look_us = 0;
    (void)state;
    learn(&costs, SHAPE, until_four);
    for (uint32_t i = 0; i < TEST_COUNT(calls); i++) {
        calls[i] = (struct gw_infer_wait){.shape = SHAPE, .deadline_us = UINT64_MAX, .rows = 1};
        gw_infer_queue_put(&queue, &calls[i]);
    }
    struct gw_infer_pace pace = {.batch_us = 200, .shape = SHAPE, .instances = 1};
    assert_int_equal(gw_infer_expected_us(&queue, &rules, &pace, 0),
                     600); // two batches and its own
    pace.shape = 0;        // which nobody ran
    assert_int_equal(gw_infer_expected_us(&queue, &rules, &pace, 0), 400);
    assert_int_equal(gw_infer_batch_take(&queue, &rules, 0, out, &look_us), 4);
    assert_int_equal(gw_infer_batch_take(&queue, &rules, 0, out, &look_us), 0);
    assert_int_equal(look_us, 1000);
    assert_int_equal(gw_infer_batch_take(&queue, &rules, 1000, out, &look_us), 2);
}

// Calls of several rows: those behind the rows that pay are left, but never the first.
static void test_calls_of_rows(void **state)
{
    static const uint64_t linear[] = {100, 200, 400, 800, 1600, 3200, 6400, 12800};
    struct gw_infer_costs costs = {0};
    const struct gw_infer_batch_rules rules = {.rows_max = 8, .costs = &costs};
    struct gw_infer_queue queue = {0};
    struct gw_infer_wait *out[GW_INFER_BATCH_MAX];
    struct gw_infer_wait calls[] = {{.shape = SHAPE, .rows = 3},
                                    {.shape = SHAPE, .rows = 0},
                                    {.shape = SHAPE, .rows = 90},
                                    {.shape = SHAPE, .rows = 1}};
    uint64_t look_us = 0;
    (void)state;
    learn(&costs, SHAPE, linear);
    for (uint32_t i = 0; i < TEST_COUNT(calls); i++) {
        gw_infer_queue_put(&queue, &calls[i]);
    }
    for (uint32_t i = 0; i < TEST_COUNT(calls); i++) {
        assert_int_equal(gw_infer_batch_take(&queue, &rules, 0, out, &look_us), 1);
        assert_ptr_equal(out[0], &calls[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_costs_that_are_not_known),
        cmocka_unit_test(test_least_that_is_as_good),
        cmocka_unit_test(test_turns),
        cmocka_unit_test(test_costs_that_change),
        cmocka_unit_test(test_costs_that_mislead),
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_batches),
        cmocka_unit_test(test_calls_of_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
