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
        cmocka_unit_test(limits_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
