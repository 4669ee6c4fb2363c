// The timer wheel against an oracle that looks through a table.
#include "test_kit.h"

#include "base/alloc.h"
#include "model/wheel.h"

#define ENTRIES 200u

struct entry {
    struct sim_wheel_node node;
    uint32_t payload;
};

static void set_both(struct sim_wheel *wheel, uint32_t *oracle, uint32_t index, uint32_t due)
{
    sim_wheel_set(wheel, index, due);
    oracle[index] = due <= wheel->now ? wheel->now + 1 : due;
}

static uint32_t earliest(const uint32_t *oracle)
{
    uint32_t found = SIM_WHEEL_NONE;
    for (uint32_t i = 0; i < ENTRIES; i++) {
        found = oracle[i] < found ? oracle[i] : found;
    }
    return found;
}

static void agrees_with_a_table(void **state)
{
    (void)state;
    static struct entry entries[ENTRIES];
    uint32_t oracle[ENTRIES];
    struct test_alloc alloc;
    struct sim_wheel wheel;
    struct base_prng prng;
    test_seed(&prng);
    test_alloc_init(&alloc, SIZE_MAX);
    assert_int_equal(sim_wheel_init(&wheel, &alloc.port, entries, sizeof(entries[0])), BASE_OK);
    memset(oracle, 0xff, sizeof(oracle));
    uint32_t now = 0;
    for (uint32_t round = 0; round < 30000; round++) {
        uint32_t index = (uint32_t)base_prng_below(&prng, ENTRIES);
        uint64_t what = base_prng_below(&prng, 10);
        if (what < 5) { // near, past, or more than two turns away
            static const uint32_t spans[] = {1, 100, 5000, 3 * SIM_WHEEL_SLOTS,
                                             600 * SIM_WHEEL_SLOTS};
            uint32_t span = spans[base_prng_below(&prng, TEST_COUNT(spans))];
            uint32_t due = now + (uint32_t)base_prng_below(&prng, span);
            set_both(&wheel, oracle, index, due);
        } else if (what < 7) {
            sim_wheel_cancel(&wheel, index);
            oracle[index] = SIM_WHEEL_NONE;
        } else {
            static const uint32_t steps[] = {1, 50, 4000, SIM_WHEEL_SLOTS + 17};
            now += (uint32_t)base_prng_below(&prng, steps[base_prng_below(&prng, 4)]);
            uint32_t last = 0;
            uint32_t popped;
            while ((popped = sim_wheel_pop(&wheel, now)) != SIM_WHEEL_NONE) {
                assert_true(popped < ENTRIES);
                assert_true(oracle[popped] <= now);
                assert_true(oracle[popped] >= last); // in order of ticks
                assert_true(oracle[popped] == earliest(oracle));
                last = oracle[popped];
                oracle[popped] = SIM_WHEEL_NONE;
            }
            assert_true(earliest(oracle) > now);
        }
        uint32_t next = sim_wheel_next(&wheel);
        uint32_t first = earliest(oracle);
        assert_true(first == SIM_WHEEL_NONE ? next == SIM_WHEEL_NONE : next <= first);
        assert_true(next == SIM_WHEEL_NONE || next > wheel.now);
    }
    sim_wheel_done(&wheel);
    assert_int_equal(alloc.live, 0);
}

// From any place, across words, words of words and once round.
static void finds_the_only_one(void **state)
{
    (void)state;
    const uint32_t starts[] = {0, 1, 63, 64, 4095, 4096, SIM_WHEEL_SLOTS - 1, SIM_WHEEL_SLOTS + 70};
    const uint32_t gaps[] = {1,    2,    62,   63,     64,     65,
                             4095, 4096, 4097, 100000, 131071, SIM_WHEEL_SLOTS};
    for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]) * 12; i++) {
        struct sim_wheel_node node = {0};
        struct sim_wheel wheel;
        uint32_t start = starts[i / 12];
        uint32_t due = start + gaps[i % 12];
        assert_int_equal(sim_wheel_init(&wheel, base_alloc_heap(), &node, sizeof(node)), BASE_OK);
        assert_int_equal(sim_wheel_pop(&wheel, start), SIM_WHEEL_NONE);
        sim_wheel_set(&wheel, 0, due);
        assert_int_equal(sim_wheel_next(&wheel), due);
        assert_int_equal(sim_wheel_pop(&wheel, due - 1), SIM_WHEEL_NONE);
        assert_int_equal(sim_wheel_next(&wheel), due);
        assert_int_equal(sim_wheel_pop(&wheel, due), 0);
        assert_int_equal(sim_wheel_next(&wheel), SIM_WHEEL_NONE);
        sim_wheel_done(&wheel);
    }
}

// Nobody is looked at turns before it is due, and of one tick who was set last comes first,
// whenever that was.
static void later_turns_wait(void **state)
{
    (void)state;
    struct sim_wheel_node nodes[8] = {0};
    struct sim_wheel wheel;
    const uint32_t due = 3 * SIM_WHEEL_SLOTS + 5;
    assert_int_equal(sim_wheel_init(&wheel, base_alloc_heap(), nodes, sizeof(nodes[0])), BASE_OK);
    sim_wheel_set(&wheel, 0, due);
    sim_wheel_set(&wheel, 1, due + SIM_WHEEL_TURNS * SIM_WHEEL_SLOTS); // of the same list
    sim_wheel_set(&wheel, 2, due);
    sim_wheel_set(&wheel, 3, due + 1);
    assert_int_equal(sim_wheel_next(&wheel), due);
    assert_int_equal(sim_wheel_pop(&wheel, SIM_WHEEL_SLOTS + 5), SIM_WHEEL_NONE);
    assert_int_equal(sim_wheel_next(&wheel), due); // not its slot of that turn
    sim_wheel_set(&wheel, 4, due);
    assert_int_equal(sim_wheel_pop(&wheel, due - 1), SIM_WHEEL_NONE);
    sim_wheel_set(&wheel, 5, due); // of the turn that is under way
    sim_wheel_cancel(&wheel, 2);
    static const uint32_t order[] = {5, 4, 0};
    for (size_t i = 0; i < TEST_COUNT(order); i++) {
        assert_int_equal(sim_wheel_pop(&wheel, due), order[i]);
    }
    assert_int_equal(sim_wheel_pop(&wheel, due), SIM_WHEEL_NONE);
    assert_int_equal(sim_wheel_next(&wheel), due + 1);
    sim_wheel_cancel(&wheel, 3);
    const uint32_t far = due + SIM_WHEEL_TURNS * SIM_WHEEL_SLOTS;
    assert_int_equal(sim_wheel_next(&wheel), far);
    assert_int_equal(sim_wheel_pop(&wheel, far - 1), SIM_WHEEL_NONE);
    assert_int_equal(sim_wheel_pop(&wheel, UINT32_MAX - 1), 1);
    assert_int_equal(wheel.count, 0);
    sim_wheel_done(&wheel);
}

// Time may pass over several turns at once, and who was cancelled is not waited for in a turn that
// is over.
static void no_turn_is_left_out(void **state)
{
    (void)state;
    struct sim_wheel_node nodes[4] = {0};
    struct sim_wheel wheel;
    assert_int_equal(sim_wheel_init(&wheel, base_alloc_heap(), nodes, sizeof(nodes[0])), BASE_OK);
    sim_wheel_set(&wheel, 0, 5 * SIM_WHEEL_SLOTS);
    sim_wheel_set(&wheel, 1, 2 * SIM_WHEEL_SLOTS + 1);
    sim_wheel_set(&wheel, 2, 12 * SIM_WHEEL_SLOTS + 3);
    sim_wheel_set(&wheel, 3, 11 * SIM_WHEEL_SLOTS);
    assert_int_equal(sim_wheel_pop(&wheel, 10 * SIM_WHEEL_SLOTS), 1);
    assert_int_equal(sim_wheel_pop(&wheel, 10 * SIM_WHEEL_SLOTS), 0);
    assert_int_equal(sim_wheel_pop(&wheel, 10 * SIM_WHEEL_SLOTS), SIM_WHEEL_NONE);
    sim_wheel_cancel(&wheel, 3);
    const uint32_t late = (12 + SIM_WHEEL_TURNS) * SIM_WHEEL_SLOTS + 7; // of the list of 2
    sim_wheel_set(&wheel, 0, late);
    sim_wheel_cancel(&wheel, 2);
    assert_true(sim_wheel_next(&wheel) <= late);
    for (uint32_t now = 10 * SIM_WHEEL_SLOTS; now < 20 * SIM_WHEEL_SLOTS;) {
        assert_int_equal(sim_wheel_pop(&wheel, now), SIM_WHEEL_NONE);
        assert_true(sim_wheel_next(&wheel) > now);
        now = sim_wheel_next(&wheel);
    }
    assert_int_equal(sim_wheel_next(&wheel), late);
    assert_int_equal(sim_wheel_pop(&wheel, late), 0);
    sim_wheel_done(&wheel);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    static struct entry entries[4];
    for (size_t allowed = 0;; allowed++) {
        struct test_alloc alloc;
        struct sim_wheel wheel;
        test_alloc_init(&alloc, allowed);
        enum base_status status = sim_wheel_init(&wheel, &alloc.port, entries, sizeof(entries[0]));
        if (status == BASE_OK) {
            sim_wheel_done(&wheel);
            assert_int_equal(alloc.live, 0);
            assert_true(allowed > 0);
            break;
        }
        assert_int_equal(status, BASE_ERR_NOMEM);
        assert_int_equal(alloc.live, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_a_table),       cmocka_unit_test(finds_the_only_one),
        cmocka_unit_test(later_turns_wait),          cmocka_unit_test(no_turn_is_left_out),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
