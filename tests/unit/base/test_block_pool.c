// What was given back is given again for what it holds, no more is kept than may be, and nothing is
// lost.
#include "base/os/block_pool.h"

#include "test_kit.h"

#include <malloc.h>

static struct base_block_pool pool;

static void test_given_again_by_size(void **state)
{
    (void)state;
    void *small = base_block_alloc(&pool, 1);
    void *large = base_block_alloc(&pool, 200);
    assert_non_null(small);
    assert_non_null(large);
    base_block_free(&pool, small);
    base_block_free(&pool, large);
    assert_ptr_equal(base_block_alloc(&pool, 193), large); // the class holds 200
    assert_ptr_equal(base_block_alloc(&pool, 24), small);
    assert_int_equal(pool.kept_bytes, 0);
    base_block_free(&pool, small);
    void *larger = base_block_alloc(&pool, 25);
    assert_ptr_not_equal(larger, small);
    base_block_free(&pool, larger);
    base_block_free(&pool, large);
    base_block_pool_done(&pool);
    assert_int_equal(pool.kept_bytes, 0);
}

static void test_last_first(void **state)
{
    (void)state;
    void *one = base_block_alloc(&pool, 100);
    void *two = base_block_alloc(&pool, 100);
    base_block_free(&pool, one);
    base_block_free(&pool, two);
    assert_ptr_equal(base_block_alloc(&pool, 100), two);
    assert_ptr_equal(base_block_alloc(&pool, 100), one);
    base_block_free(&pool, one);
    base_block_free(&pool, two);
    base_block_pool_done(&pool);
}

// Each holds what was asked for, whatever came and went before.
static void test_every_size(void **state)
{
    (void)state;
    struct base_prng prng;
    base_prng_seed(&prng, 7);
    void *blocks[64] = {NULL};
    for (uint32_t round = 0; round < 20000; round++) {
        size_t at = (size_t)base_prng_below(&prng, 64);
        base_block_free(&pool, blocks[at]);
        size_t size = (size_t)base_prng_below(&prng, 1400);
        blocks[at] = base_block_alloc(&pool, size);
        assert_non_null(blocks[at]);
        assert_true(malloc_usable_size(blocks[at]) >= size);
        memset(blocks[at], (int)round, size);
    }
    for (size_t i = 0; i < 64; i++) {
        base_block_free(&pool, blocks[i]);
    }
    base_block_pool_done(&pool);
}

static void test_keeps_so_much(void **state)
{
    (void)state;
    enum { BLOCKS = BASE_BLOCK_POOL_BYTES / 1000 + 100 };
    static void *blocks[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = base_block_alloc(&pool, 1000);
        assert_non_null(blocks[i]);
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        base_block_free(&pool, blocks[i]);
        assert_true(pool.kept_bytes <= BASE_BLOCK_POOL_BYTES);
    }
    assert_true(pool.kept_bytes > BASE_BLOCK_POOL_BYTES - 2000);
    base_block_pool_done(&pool);
}

static void test_large_and_foreign(void **state)
{
    (void)state;
    void *large = base_block_alloc(&pool, 100000);
    assert_non_null(large);
    base_block_free(&pool, large);
    assert_int_equal(pool.kept_bytes, 0);
    void *heap = calloc(1, 40);
    assert_non_null(heap);
    base_block_free(&pool, heap);
    assert_ptr_equal(base_block_alloc(&pool, 40), heap);
    base_block_free(&pool, heap);
    base_block_free(&pool, NULL);
    base_block_pool_done(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_given_again_by_size), cmocka_unit_test(test_last_first),
        cmocka_unit_test(test_every_size),          cmocka_unit_test(test_keeps_so_much),
        cmocka_unit_test(test_large_and_foreign),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
