// The map from ids to rows, beside a plain array that says the same.
#include "store/row_index.h"

#include "test_kit.h"

#define IDS   700u
#define TURNS 60000u

// Ids that share their low bits, as chosen ones would.
static uint64_t id_of(uint64_t n)
{
    return n << 40 | (n & 3u);
}

static void check_all(const struct gw_row_index *index, const uint64_t *rows)
{
    size_t count = 0;
    for (uint64_t n = 0; n < IDS; n++) {
        assert_int_equal(gw_row_index_get(index, id_of(n)), rows[n]);
        count += rows[n] != 0;
    }
    assert_int_equal(index->count, count);
}

static void test_random_changes(void **state)
{
    (void)state;
    static uint64_t rows[IDS];
    struct base_prng prng;
    struct gw_row_index index;
    test_seed(&prng);
    gw_row_index_init(&index, &(struct base_hash_key){base_prng_next(&prng), 1});
    for (uint32_t turn = 0; turn < TURNS; turn++) {
        uint64_t n = base_prng_below(&prng, IDS);
        if (base_prng_below(&prng, 3) == 0) {
            gw_row_index_remove(&index, id_of(n));
            rows[n] = 0;
        } else {
            assert_int_equal(gw_row_index_reserve(&index, 1), BASE_OK);
            gw_row_index_put(&index, id_of(n), turn + 1);
            rows[n] = turn + 1;
        }
        if (turn % 97 == 0) {
            check_all(&index, rows);
        }
    }
    gw_row_index_clear(&index);
    memset(rows, 0, sizeof(rows));
    check_all(&index, rows);
    gw_row_index_done(&index);
}

static void test_empty_and_larger(void **state)
{
    (void)state;
    struct gw_row_index index;
    gw_row_index_init(&index, &(struct base_hash_key){5, 6});
    assert_int_equal(gw_row_index_get(&index, 0), 0);
    gw_row_index_remove(&index, 0);
    assert_false(gw_row_index_has_room(&index, 1));
    assert_true(gw_row_index_has_room(&index, 0));
    assert_int_equal(gw_row_index_reserve(&index, SIZE_MAX / 8), BASE_ERR_NOMEM);
    assert_int_equal(gw_row_index_reserve(&index, 1), BASE_OK);
    gw_row_index_put(&index, 0, 9); // an id like any other
    gw_row_index_put(&index, UINT64_MAX, 7);
    assert_int_equal(gw_row_index_reserve(&index, 5000), BASE_OK);
    assert_true(gw_row_index_has_room(&index, 5000));
    assert_int_equal(gw_row_index_get(&index, 0), 9);
    assert_int_equal(gw_row_index_get(&index, UINT64_MAX), 7);
    gw_row_index_done(&index);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_changes),
        cmocka_unit_test(test_empty_and_larger),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
