// The queue of a model and the choice of its next batch, beside an oracle that looks at every call.
#include "test_kit.h"

#include "infer/infer_batch.h"

#define CALLS 40

static struct gw_infer_wait wait_of(uint64_t shape, uint64_t arrived_us, uint32_t rows,
                                    uint32_t priority)
{
    return (struct gw_infer_wait){.shape = shape,
                                  .arrived_us = arrived_us,
                                  .deadline_us = UINT64_MAX,
                                  .rows = rows,
                                  .priority = priority};
}

static void test_full_goes_at_once(void **state)
{
    struct gw_infer_queue queue = {0};
    struct gw_infer_wait *out[GW_INFER_BATCH_MAX];
    const struct gw_infer_batch_rules rules = {.rows_max = 4, .delay_us = 1000};
    struct gw_infer_wait a = wait_of(1, 100, 2, 1);
    struct gw_infer_wait b = wait_of(1, 200, 2, 1);
    uint64_t look_us = 0;
    (void)state;
    assert_int_equal(gw_infer_batch_take(&queue, &rules, 100, out, &look_us), 0);
    assert_true(look_us == UINT64_MAX);
    gw_infer_queue_put(&queue, &a);
    assert_int_equal(gw_infer_batch_take(&queue, &rules, 150, out, &look_us), 0);
    assert_int_equal(look_us, 1100);
    gw_infer_queue_put(&queue, &b);
    assert_int_equal(gw_infer_batch_take(&queue, &rules, 200, out, &look_us), 2);
    assert_ptr_equal(out[0], &a);
    assert_ptr_equal(out[1], &b);
    assert_int_equal(queue.count, 0);
    assert_int_equal(queue.rows[1], 0);
}

static void test_delay_ends(void **state)
{
    struct gw_infer_queue queue = {0};
    struct gw_infer_wait *out[GW_INFER_BATCH_MAX];
    const struct gw_infer_batch_rules rules = {.rows_max = 4, .delay_us = 1000};
    struct gw_infer_wait a = wait_of(1, 100, 1, 1);
    uint64_t look_us = 0;
    (void)state;
    gw_infer_queue_put(&queue, &a);
    assert_int_equal(gw_infer_batch_take(&queue, &rules, 1099, out, &look_us), 0);
    assert_int_equal(gw_infer_batch_take(&queue, &rules, 1100, out, &look_us), 1);
}

static void test_shapes_and_priorities(void **state)
{
    struct gw_infer_queue queue = {0};
    struct gw_infer_wait *out[GW_INFER_BATCH_MAX];
    const struct gw_infer_batch_rules rules = {.rows_max = 8, .delay_us = 0};
    struct gw_infer_wait low = wait_of(1, 100, 1, 3);
    struct gw_infer_wait other = wait_of(2, 101, 1, 0);
    struct gw_infer_wait high = wait_of(1, 102, 1, 0);
    uint64_t look_us = 0;
    (void)state;
    gw_infer_queue_put(&queue, &low);
    gw_infer_queue_put(&queue, &other);
    gw_infer_queue_put(&queue, &high);
    assert_int_equal(gw_infer_batch_take(&queue, &rules, 200, out, &look_us), 1);
    assert_ptr_equal(out[0], &other);
    assert_int_equal(gw_infer_batch_take(&queue, &rules, 200, out, &look_us), 2);
    assert_ptr_equal(out[0], &high);
    assert_ptr_equal(out[1], &low); // one of its shape rides with it
}

// A call that leaves from the middle; one that does not fit begins the next batch.
static void test_remove_and_next(void **state)
{
    struct gw_infer_queue queue = {0};
    struct gw_infer_wait *out[GW_INFER_BATCH_MAX];
    const struct gw_infer_batch_rules rules = {.rows_max = 4, .delay_us = 1000};
    struct gw_infer_wait calls[4];
    uint64_t look_us = 0;
    (void)state;
    for (uint32_t i = 0; i < TEST_COUNT(calls); i++) {
        calls[i] = wait_of(1, i, 3, 1);
        gw_infer_queue_put(&queue, &calls[i]);
    }
    gw_infer_queue_remove(&queue, &calls[1]);
    gw_infer_queue_remove(&queue, &calls[3]);
    assert_int_equal(queue.rows[1], 6);
    assert_int_equal(gw_infer_batch_take(&queue, &rules, 10, out, &look_us), 1);
    assert_ptr_equal(out[0], &calls[0]);
    assert_int_equal(gw_infer_batch_take(&queue, &rules, 10, out, &look_us), 0);
    assert_int_equal(look_us, 1002);
    gw_infer_queue_remove(&queue, &calls[2]);
    assert_int_equal(queue.count, 0);
    assert_null(queue.first[1]);
    assert_null(queue.last[1]);
}

// The first call that is not taken yet, in the order in which they go.
static int first_left(const struct gw_infer_wait *calls, const bool *gone)
{
    int best = -1;
    for (int i = 0; i < CALLS; i++) {
        if (!gone[i] && (best < 0 || calls[i].priority < calls[best].priority)) {
            best = i;
        }
    }
    return best;
}

// Every call goes once; each batch begins with the best, has one shape and no more rows than may
// be.
static void test_random(void **state)
{
    struct base_prng prng;
    (void)state;
    test_seed(&prng);
    for (int round = 0; round < 200; round++) {
        struct gw_infer_queue queue = {0};
        struct gw_infer_wait calls[CALLS];
        struct gw_infer_wait *out[GW_INFER_BATCH_MAX];
        bool gone[CALLS] = {false};
        uint32_t rows_max = 1 + (uint32_t)(base_prng_next(&prng) % 16);
        const struct gw_infer_batch_rules rules = {.rows_max = rows_max};
        uint64_t look_us = 0;
        for (uint32_t i = 0; i < CALLS; i++) {
            uint64_t draw = base_prng_next(&prng);
            calls[i] = wait_of(draw % 3, i, 1 + (uint32_t)(draw / 3 % rows_max),
                               (uint32_t)(draw >> 32) % GW_INFER_PRIORITIES);
            gw_infer_queue_put(&queue, &calls[i]);
        }
        for (uint32_t left = CALLS; left > 0;) {
            uint32_t rows = 0;
            int first = first_left(calls, gone);
            uint32_t count = gw_infer_batch_take(&queue, &rules, CALLS, out, &look_us);
            assert_true(count > 0 && count <= left);
            assert_ptr_equal(out[0], &calls[first]);
            for (uint32_t i = 0; i < count; i++) {
                size_t at = (size_t)(out[i] - calls);
                assert_false(gone[at]);
                gone[at] = true;
                rows += out[i]->rows;
                assert_int_equal(out[i]->shape, out[0]->shape);
            }
            assert_true(rows <= rows_max);
            left -= count;
            assert_int_equal(queue.count, left);
        }
    }
}

static void test_expected(void **state)
{
    struct gw_infer_queue queue = {0};
    const struct gw_infer_batch_rules rules = {.rows_max = 4};
    struct gw_infer_wait calls[8];
    struct gw_infer_pace pace = {.batch_us = 100, .instances = 2};
    (void)state;
    assert_int_equal(gw_infer_expected_us(&queue, &rules, &pace, 1), 100);
    for (uint32_t i = 0; i < TEST_COUNT(calls); i++) {
        calls[i] = wait_of(1, i, 2, i < 4 ? 0 : 2);
        gw_infer_queue_put(&queue, &calls[i]);
    }
    pace.running = 2;
    assert_int_equal(gw_infer_expected_us(&queue, &rules, &pace, 0), 300); // 2 + 2 batches, by two
    assert_int_equal(gw_infer_expected_us(&queue, &rules, &pace, 2), 400); // 4 + 2
    pace.batch_us = UINT64_MAX / 2;
    assert_true(gw_infer_expected_us(&queue, &rules, &pace, 2) == UINT64_MAX);
}

static void test_plan_rows(void **state)
{
    (void)state;
    assert_int_equal(gw_infer_plan_rows(1, 32), 1);
    assert_int_equal(gw_infer_plan_rows(3, 32), 4);
    assert_int_equal(gw_infer_plan_rows(17, 24), 24);
    assert_int_equal(gw_infer_plan_rows(32, 32), 32);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_full_goes_at_once),
        cmocka_unit_test(test_delay_ends),
        cmocka_unit_test(test_shapes_and_priorities),
        cmocka_unit_test(test_remove_and_next),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_expected),
        cmocka_unit_test(test_plan_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
