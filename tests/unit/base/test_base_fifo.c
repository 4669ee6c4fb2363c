// The fifo against an oracle that keeps everything: any order of puts and takes gives the bytes in
// the order they came, the memory goes with the last one, and limits hold.
#include "test_kit.h"

#include "base/fifo.h"

#define SEED  20261122u
#define STEPS 200000u
#define MOST  5000u

static void bytes_come_out_in_order(void **state)
{
    (void)state;
    static uint8_t piece[700];
    struct base_fifo fifo = {.bytes = NULL};
    struct base_prng prng;
    uint64_t put = 0; // byte number n has the value of its number
    uint64_t taken = 0;
    uint32_t largest = 0;
    print_message("seed %u\n", SEED);
    base_prng_seed(&prng, SEED);
    for (uint32_t step = 0; step < STEPS; step++) {
        size_t size = (size_t)base_prng_below(&prng, sizeof(piece));
        if (base_prng_below(&prng, 2) == 0 && put - taken + size <= MOST) {
            for (size_t i = 0; i < size; i++) {
                piece[i] = (uint8_t)((put + i) * 31);
            }
            assert_int_equal(base_fifo_put(&fifo, piece, size, 64), BASE_OK);
            put += size;
        } else {
            size_t got = base_fifo_take(&fifo, piece, size);
            uint64_t waits = put - taken;
            assert_int_equal(got, size < waits ? size : waits);
            for (size_t i = 0; i < got; i++) {
                assert_int_equal(piece[i], (uint8_t)((taken + i) * 31));
            }
            taken += got;
        }
        assert_int_equal(base_fifo_size(&fifo), put - taken);
        assert_int_equal(fifo.bytes == NULL, put == taken);
        largest = fifo.capacity > largest ? fifo.capacity : largest;
    }
    assert_true(put > STEPS * 10);
    assert_true(largest >= MOST - sizeof(piece) && largest <= 8192); // 64, doubled as needed
    base_fifo_done(&fifo);
    assert_null(fifo.bytes);
    base_fifo_done(&fifo);
}

// How many bytes the fifo has moved from their places since it was that, besides those taken.
static uint64_t moved(const struct base_fifo *fifo, struct base_fifo was, size_t taken)
{
    uint32_t left = was.end - was.at - (uint32_t)taken;
    bool there = left == 0 || (fifo->bytes == was.bytes && fifo->at == was.at + taken);
    return there ? 0 : left;
}

static void small_pieces_do_not_move_the_rest(void **state)
{
    (void)state;
    static const struct {
        size_t first; // bytes there are before
        size_t put;   // then steps of so many in and out
        size_t drop;
    } cases[] = {{1000000, 0, 6}, {60000, 40, 40}, {60000, 1, 1}, {65536, 40, 39}, {100, 39, 1}};
    static uint8_t piece[1000000];
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct base_fifo fifo = {.bytes = NULL};
        uint64_t put = cases[i].first;
        uint64_t all_moved = 0;
        assert_int_equal(base_fifo_put(&fifo, piece, cases[i].first, cases[i].first), BASE_OK);
        for (uint32_t step = 0; step < 100000 && base_fifo_size(&fifo) >= cases[i].drop; step++) {
            struct base_fifo was = fifo;
            base_fifo_drop(&fifo, cases[i].drop);
            all_moved += moved(&fifo, was, cases[i].drop);
            was = fifo;
            assert_int_equal(base_fifo_put(&fifo, piece, cases[i].put, 1), BASE_OK);
            all_moved += moved(&fifo, was, 0);
            put += cases[i].put;
        }
        if (all_moved > 6 * put) {
            fail_msg("case %zu: %llu bytes were moved for %llu", i, (unsigned long long)all_moved,
                     (unsigned long long)put);
        }
        base_fifo_done(&fifo);
    }
}

static void what_is_in_front_is_seen_and_dropped(void **state)
{
    (void)state;
    struct base_fifo fifo = {.bytes = NULL};
    assert_null(base_fifo_front(&fifo));
    base_fifo_drop(&fifo, 0);
    assert_int_equal(base_fifo_put(&fifo, "abcdef", 6, 1), BASE_OK);
    base_fifo_drop(&fifo, 2);
    assert_memory_equal(base_fifo_front(&fifo), "cdef", 4);
    assert_int_equal(base_fifo_size(&fifo), 4);
    base_fifo_drop(&fifo, 4);
    assert_null(base_fifo_front(&fifo));
    assert_null(fifo.bytes);
}

static void limits_hold(void **state)
{
    (void)state;
    struct base_fifo fifo = {.bytes = NULL};
    uint8_t byte = 7;
    uint8_t out[2] = {0, 0};
    assert_int_equal(base_fifo_put(&fifo, &byte, 0, 16), BASE_OK);
    assert_null(fifo.bytes);
    assert_int_equal(base_fifo_take(&fifo, out, 2), 0);
    assert_int_equal(base_fifo_put(&fifo, &byte, (size_t)BASE_FIFO_BYTES_MAX + 1, 16),
                     BASE_ERR_TOO_LARGE);
    assert_int_equal(base_fifo_put(&fifo, &byte, 1, (size_t)BASE_FIFO_BYTES_MAX + 1),
                     BASE_ERR_TOO_LARGE);
    assert_int_equal(base_fifo_put(&fifo, &byte, 1, 0), BASE_OK);
    assert_int_equal(base_fifo_put(&fifo, &byte, BASE_FIFO_BYTES_MAX, 16), BASE_ERR_TOO_LARGE);
    assert_int_equal(base_fifo_put(&fifo, &byte, SIZE_MAX, 16), BASE_ERR_TOO_LARGE);
    assert_int_equal(base_fifo_size(&fifo), 1);
    assert_int_equal(base_fifo_take(&fifo, out, 2), 1);
    assert_int_equal(out[0], 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_come_out_in_order),
        cmocka_unit_test(small_pieces_do_not_move_the_rest),
        cmocka_unit_test(what_is_in_front_is_seen_and_dropped),
        cmocka_unit_test(limits_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
