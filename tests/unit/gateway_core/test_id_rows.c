// The tree of ids and their rows, beside plain arrays that say the same.
#include "store/id_rows.h"

#include "test_kit.h"

#define IDS   3000u
#define TURNS 90000u

struct model {
    uint64_t ids[IDS]; // in order
    uint64_t rows[IDS];
    bool prepared[IDS]; // and has no row
};

static int compare_ids(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

enum ids { IDS_RANDOM, IDS_NEAR, IDS_CHOSEN, IDS_KINDS };

// Like random numbers, one after the other, or in clusters far apart with both ends of all.
static void draw(struct base_prng *prng, enum ids kind, struct model *out)
{
    *out = (struct model){.rows = {0}};
    for (uint32_t i = 0; i < IDS; i++) {
        uint64_t one = base_prng_next(prng);
        out->ids[i] = kind == IDS_RANDOM ? one
                      : kind == IDS_NEAR ? 77 + i
                                         : (uint64_t)(i % 5) << 61 | (uint64_t)i << (i % 30);
    }
    if (kind == IDS_CHOSEN) {
        out->ids[0] = UINT64_MAX;
    }
    qsort(out->ids, IDS, sizeof(out->ids[0]), compare_ids);
    for (uint32_t i = 1; i < IDS; i++) {
        if (out->ids[i] <= out->ids[i - 1]) {
            out->ids[i] = out->ids[i - 1] + 1;
        }
    }
}

static void check_order(const struct gw_id_rows *rows, const struct model *model, uint64_t from)
{
    struct gw_id_chunk chunk;
    uint32_t at = 0;
    gw_id_rows_next(rows, from, &chunk);
    for (uint32_t i = 0; i < IDS && at < GW_ID_CHUNK; i++) {
        if (model->ids[i] >= from && model->rows[i] != 0) {
            assert_in_range(at, 0, chunk.count - 1);
            assert_int_equal(chunk.ids[at++], model->ids[i]);
        }
    }
    assert_int_equal(chunk.count, at);
}

static void check_all(const struct gw_id_rows *rows, const struct model *model)
{
    size_t count = 0;
    for (uint32_t i = 0; i < IDS; i++) {
        assert_int_equal(gw_id_rows_get(rows, model->ids[i]), model->rows[i]);
        count += model->rows[i] != 0;
    }
    assert_int_equal(rows->count, count);
    assert_true(gw_id_rows_validate(rows));
    check_order(rows, model, 0);
    check_order(rows, model, UINT64_MAX);
}

// Rows of one byte at first, of all eight at last.
static uint64_t row_of(struct base_prng *prng, uint32_t turn)
{
    return 1 + (base_prng_next(prng) >> (63 - turn * 63 / TURNS));
}

static void change(struct base_prng *prng, struct gw_id_rows *rows, struct model *model,
                   uint32_t turn)
{
    const uint64_t n = base_prng_below(prng, IDS);
    const uint64_t id = model->ids[n];
    const bool many = turn / (TURNS / 8) % 2 == 0; // by turns it grows and becomes less
    const uint64_t row = row_of(prng, turn);
    switch (base_prng_below(prng, many ? 6 : 3)) {
    case 0:
    case 1:
        gw_id_rows_remove(rows, id);
        model->rows[n] = 0;
        break;
    case 2:
        assert_int_equal(gw_id_rows_prepare(rows, id, row), BASE_OK);
        assert_int_equal(gw_id_rows_get(rows, id), model->rows[n]);
        gw_id_rows_give_up(rows, id);
        break;
    default:
        assert_int_equal(gw_id_rows_prepare(rows, id, row), BASE_OK);
        assert_int_equal(gw_id_rows_get(rows, id), model->rows[n]);
        gw_id_rows_set(rows, id, row);
        model->rows[n] = row;
        break;
    }
}

static void test_random_changes(void **state)
{
    (void)state;
    static struct model model;
    struct base_prng prng;
    test_seed(&prng);
    for (enum ids kind = IDS_RANDOM; kind < IDS_KINDS; kind++) {
        struct gw_id_rows rows = {0};
        draw(&prng, kind, &model);
        check_all(&rows, &model);
        for (uint32_t turn = 0; turn < TURNS; turn++) {
            change(&prng, &rows, &model, turn);
            if (turn % 997 == 0) {
                check_all(&rows, &model);
                check_order(&rows, &model, model.ids[base_prng_below(&prng, IDS)] + 1);
            }
        }
        for (uint32_t i = 0; i < IDS; i++) {
            gw_id_rows_remove(&rows, model.ids[i]);
            model.rows[i] = 0;
        }
        check_all(&rows, &model);
        gw_id_rows_done(&rows);
    }
}

#define MANY     300000u
#define EACH_MAX 15u

// Enough for several hundred branches, were they all small; as few bytes as the header says.
static void test_many(void **state)
{
    (void)state;
    struct gw_id_rows rows = {0};
    struct gw_id_chunk chunk;
    uint64_t from = 0;
    uint32_t seen = 0;
    for (uint64_t i = 1; i <= MANY; i++) {
        uint64_t id = i * UINT64_C(0x9e3779b97f4a7c15);
        assert_int_equal(gw_id_rows_prepare(&rows, id, i), BASE_OK);
        gw_id_rows_set(&rows, id, i);
    }
    assert_true(gw_id_rows_validate(&rows));
    assert_in_range(gw_id_rows_bytes(&rows) / MANY, 1, EACH_MAX);
    do {
        gw_id_rows_next(&rows, from, &chunk);
        seen += chunk.count;
        from = chunk.count > 0 ? chunk.ids[chunk.count - 1] + 1 : 0;
    } while (chunk.count == GW_ID_CHUNK);
    assert_int_equal(seen, MANY);
    for (uint64_t i = 1; i <= MANY; i++) {
        assert_int_equal(gw_id_rows_get(&rows, i * UINT64_C(0x9e3779b97f4a7c15)), i);
    }
    gw_id_rows_done(&rows);
}

// A place stays one for its row whatever is prepared and removed beside it before the row is set.
static void test_prepared_together(void **state)
{
    (void)state;
    struct gw_id_rows rows = {0};
    for (uint64_t round = 1; round < 40; round++) {
        const uint64_t row = UINT64_C(1) << round;
        for (uint64_t id = 0; id < 500; id++) {
            assert_int_equal(gw_id_rows_prepare(&rows, id * round, row), BASE_OK);
        }
        for (uint64_t id = 0; id < 500; id++) {
            if (id % 3 == 0) {
                gw_id_rows_remove(&rows, id * round);
            } else {
                gw_id_rows_set(&rows, id * round, row);
            }
        }
        for (uint64_t id = 0; id < 500; id++) {
            assert_int_equal(gw_id_rows_get(&rows, id * round), id % 3 == 0 ? 0 : row);
        }
        assert_true(gw_id_rows_validate(&rows));
    }
    gw_id_rows_done(&rows);
}

static void test_a_chunk_keeps_the_smallest(void **state)
{
    (void)state;
    struct gw_id_chunk chunk = {.count = 0};
    for (uint64_t i = 0; i < 3 * GW_ID_CHUNK; i++) {
        gw_id_chunk_insert(&chunk, i * 7919 % (3 * GW_ID_CHUNK));
        gw_id_chunk_insert(&chunk, i * 7919 % (3 * GW_ID_CHUNK)); // each once
    }
    assert_int_equal(chunk.count, GW_ID_CHUNK);
    for (uint32_t i = 0; i < GW_ID_CHUNK; i++) {
        assert_int_equal(chunk.ids[i], i);
    }
}

// What is only prepared is not seen, be it more than a chunk of them in a row.
static void test_next_skips_what_is_prepared(void **state)
{
    (void)state;
    struct gw_id_rows rows = {0};
    struct gw_id_chunk chunk;
    for (uint64_t id = 0; id < 3 * GW_ID_CHUNK; id++) {
        assert_int_equal(gw_id_rows_prepare(&rows, id, 9), BASE_OK);
    }
    gw_id_rows_next(&rows, 0, &chunk);
    assert_int_equal(chunk.count, 0);
    const uint64_t with_row[] = {1, 5, 2 * GW_ID_CHUNK + 3, 3 * GW_ID_CHUNK - 1};
    for (size_t i = 0; i < TEST_COUNT(with_row); i++) {
        gw_id_rows_set(&rows, with_row[i], 1 + i);
    }
    for (size_t from = 0; from < TEST_COUNT(with_row); from++) {
        gw_id_rows_next(&rows, with_row[from], &chunk);
        assert_int_equal(chunk.count, TEST_COUNT(with_row) - from);
        assert_memory_equal(chunk.ids, with_row + from, chunk.count * sizeof(chunk.ids[0]));
    }
    gw_id_rows_next(&rows, 2, &chunk);
    assert_int_equal(chunk.ids[0], 5);
    gw_id_rows_next(&rows, 3 * GW_ID_CHUNK, &chunk);
    assert_int_equal(chunk.count, 0);
    assert_true(gw_id_rows_validate(&rows));
    gw_id_rows_done(&rows);
}

#define SOME 60000u // several branches

static void add_some(struct gw_id_rows *rows)
{
    for (uint64_t i = 1; i <= SOME; i++) {
        const uint64_t id = base_mix64(i);
        assert_int_equal(gw_id_rows_prepare(rows, id, i), BASE_OK);
        gw_id_rows_set(rows, id, i);
    }
    assert_true(rows->branch_count > 3);
}

// What ids took is given back as they go, also where a few of each leaf stay.
static void test_leaves_shrink(void **state)
{
    (void)state;
    struct gw_id_rows rows = {0};
    add_some(&rows);
    const size_t full = gw_id_rows_bytes(&rows);
    for (uint64_t i = 1; i <= SOME; i++) {
        if (i % 8 != 0) {
            gw_id_rows_remove(&rows, base_mix64(i));
        }
    }
    assert_true(gw_id_rows_validate(&rows));
    assert_int_equal(rows.count, SOME / 8);
    print_message("%zu bytes, %zu of an eighth\n", full, gw_id_rows_bytes(&rows));
    assert_true(gw_id_rows_bytes(&rows) < full * 40 / 100);
    for (uint64_t i = 8; i <= SOME; i += 8) {
        assert_int_equal(gw_id_rows_get(&rows, base_mix64(i)), i);
    }
    gw_id_rows_done(&rows);
}

static void swap_branches(struct gw_id_rows *rows, bool with_bounds)
{
    struct gw_id_branch *branch = rows->branches[1];
    rows->branches[1] = rows->branches[2];
    rows->branches[2] = branch;
    if (with_bounds) {
        uint64_t bound = rows->bounds[1];
        rows->bounds[1] = rows->bounds[2];
        rows->bounds[2] = bound;
    }
}

static void test_validate_sees_what_is_broken(void **state)
{
    (void)state;
    struct gw_id_rows rows = {0};
    assert_true(gw_id_rows_validate(&rows));
    add_some(&rows);
    assert_true(gw_id_rows_validate(&rows));
    rows.count++; // more than there are
    assert_false(gw_id_rows_validate(&rows));
    rows.count--;
    rows.bounds[0] = 1; // an id of 0 would fall into nothing
    assert_false(gw_id_rows_validate(&rows));
    rows.bounds[0] = 0;
    rows.bounds[2]++; // not the bound of its first leaf
    assert_false(gw_id_rows_validate(&rows));
    rows.bounds[2]--;
    for (int with_bounds = 0; with_bounds < 2; with_bounds++) { // in another order
        swap_branches(&rows, with_bounds == 1);
        assert_false(gw_id_rows_validate(&rows));
        swap_branches(&rows, with_bounds == 1);
        assert_true(gw_id_rows_validate(&rows));
    }
    struct gw_id_rows upper = {.branches = rows.branches + 1, // nothing is for the lowest ids
                               .bounds = rows.bounds + 1,
                               .branch_count = rows.branch_count - 1};
    for (uint64_t i = 1; i <= SOME; i++) {
        upper.count += base_mix64(i) >= rows.bounds[1];
    }
    assert_false(gw_id_rows_validate(&upper));
    gw_id_rows_done(&rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_changes),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_prepared_together),
        cmocka_unit_test(test_a_chunk_keeps_the_smallest),
        cmocka_unit_test(test_next_skips_what_is_prepared),
        cmocka_unit_test(test_leaves_shrink),
        cmocka_unit_test(test_validate_sees_what_is_broken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
