// Regions: canonical form and composition, against moving the elements twice.
#include "test_kit.h"

#include "program/region_merge.h"

#define CELLS 4096

static void random_dims(struct base_prng *prng, int64_t elements_max, uint32_t *rank,
                        int64_t dims[ENG_RANK_MAX])
{
    *rank = (uint32_t)base_prng_below(prng, 5);
    int64_t count = 1;
    for (uint32_t d = 0; d < *rank; d++) {
        dims[d] = 1 + (int64_t)base_prng_below(prng, 5);
        count *= dims[d];
        if (count > elements_max) {
            dims[d] = 1;
        }
    }
}

// A box of one side (dims `from`) written to a box of the other (dims `to`), axes permuted,
// perhaps with steps, backwards, or repeated.
static struct eng_wide random_region(struct base_prng *prng, uint32_t rank, const int64_t *from,
                                     int64_t *out_count)
{
    struct eng_wide wide = {.rank = rank};
    int64_t step = 1;
    int64_t src[ENG_RANK_MAX];
    for (uint32_t d = rank; d-- > 0;) {
        src[d] = step;
        step *= from[d];
    }
    uint32_t perm[ENG_RANK_MAX];
    for (uint32_t d = 0; d < rank; d++) {
        perm[d] = d;
    }
    for (uint32_t d = rank; d > 1; d--) {
        uint32_t other = (uint32_t)base_prng_below(prng, d);
        uint32_t kept = perm[d - 1];
        perm[d - 1] = perm[other];
        perm[other] = kept;
    }
    int64_t dst = 1;
    for (uint32_t d = rank; d-- > 0;) {
        uint32_t p = perm[d];
        int64_t start = (int64_t)base_prng_below(prng, (uint64_t)from[p]);
        int64_t stride = 1 + (int64_t)base_prng_below(prng, 2);
        int64_t room = (from[p] - start + stride - 1) / stride;
        int64_t size = base_prng_below(prng, 3) == 0
                           ? 1 + (int64_t)base_prng_below(prng, (uint64_t)room)
                           : room;
        if (base_prng_below(prng, 2) == 0) {
            start = 0;
            stride = 1;
            size = from[p];
        }
        wide.dims[d] = (struct eng_wide_dim){size, src[p] * stride, dst};
        wide.src_offset += start * src[p];
        if (base_prng_below(prng, 8) == 0) {
            wide.src_offset += (size - 1) * src[p] * stride;
            wide.dims[d].src = -src[p] * stride;
        }
        if (base_prng_below(prng, 8) == 0) {
            wide.dims[d].src = 0;
        }
        // Room around the box: padding, or other regions.
        dst *= size + (int64_t)base_prng_below(prng, 2);
    }
    wide.dst_offset = (int64_t)base_prng_below(prng, 3);
    *out_count = dst + wide.dst_offset;
    return wide;
}

static void move(const struct eng_wide *wide, const int32_t *from, int32_t *to)
{
    int64_t at[ENG_WIDE_RANK_MAX] = {0};
    for (;;) {
        int64_t src = wide->src_offset;
        int64_t dst = wide->dst_offset;
        for (uint32_t d = 0; d < wide->rank; d++) {
            src += at[d] * wide->dims[d].src;
            dst += at[d] * wide->dims[d].dst;
        }
        assert_in_range(src, 0, CELLS - 1);
        assert_in_range(dst, 0, CELLS - 1);
        to[dst] = from[src];
        uint32_t d = wide->rank;
        while (d > 0 && ++at[d - 1] == wide->dims[d - 1].size) {
            at[--d] = 0;
        }
        if (d == 0) {
            return;
        }
    }
}

static void fill(int32_t *cells, int32_t base)
{
    for (int32_t i = 0; i < CELLS; i++) {
        cells[i] = base + i;
    }
}

static void canonical_form_moves_the_same(void **state)
{
    (void)state;
    struct base_prng prng;
    test_seed(&prng);
    static int32_t from[CELLS];
    static int32_t first[CELLS];
    static int32_t second[CELLS];
    static int32_t third[CELLS];
    fill(from, 1);
    for (int round = 0; round < 20000; round++) {
        uint32_t rank;
        int64_t dims[ENG_RANK_MAX];
        int64_t count;
        random_dims(&prng, 200, &rank, dims);
        struct eng_wide wide = random_region(&prng, rank, dims, &count);
        struct eng_wide canonical = wide;
        assert_true(eng_wide_canonical(&canonical));
        memset(first, 0, sizeof(first));
        memset(second, 0, sizeof(second));
        memset(third, 0, sizeof(third));
        move(&wide, from, first);
        move(&canonical, from, second);
        assert_memory_equal(first, second, sizeof(first));
        assert_int_equal(eng_wide_volume(&wide), eng_wide_volume(&canonical));
        for (uint32_t d = 0; d < canonical.rank; d++) {
            assert_true(canonical.dims[d].size > 1);
            assert_true(d == 0 || canonical.dims[d - 1].dst >= canonical.dims[d].dst);
        }
        struct eng_region region;
        assert_int_equal(eng_wide_region_count(&canonical), 1);
        eng_wide_regions(&canonical, &region);
        eng_region_move(&region, sizeof(int32_t), from, third);
        assert_memory_equal(first, third, sizeof(first));
    }
}

static void many_dims_unroll(void **state)
{
    (void)state;
    static int32_t from[CELLS];
    static int32_t first[CELLS];
    static int32_t second[CELLS];
    fill(from, 1);
    // 2^8 elements, axes reversed: no two dims fuse.
    struct eng_wide wide = {.rank = 8};
    for (uint32_t d = 0; d < 8; d++) {
        wide.dims[d] = (struct eng_wide_dim){2, 1 << d, 1 << (7 - d)};
    }
    move(&wide, from, first);
    assert_true(eng_wide_canonical(&wide));
    assert_int_equal(wide.rank, 8);
    assert_int_equal(eng_wide_region_count(&wide), 4);
    struct eng_region regions[4];
    eng_wide_regions(&wide, regions);
    for (int i = 0; i < 4; i++) {
        eng_region_move(&regions[i], sizeof(int32_t), from, second);
    }
    assert_memory_equal(first, second, sizeof(first));
}

static void composition_moves_the_same(void **state)
{
    (void)state;
    struct base_prng prng;
    test_seed(&prng);
    static int32_t from[CELLS];
    static int32_t between[CELLS];
    static int32_t twice[CELLS];
    static int32_t once[CELLS];
    fill(from, 1);
    size_t done = 0;
    size_t empty = 0;
    size_t refused = 0;
    for (int round = 0; round < 60000; round++) {
        uint32_t rank;
        int64_t dims[ENG_RANK_MAX];
        int64_t count;
        int64_t unused;
        random_dims(&prng, 120, &rank, dims);
        struct eng_wide inner = random_region(&prng, rank, dims, &count);
        assert_true(eng_wide_canonical(&inner));
        inner.source = 7;
        // Outer reads the tensor in between under dims of its own.
        int64_t seen[2] = {1 + (int64_t)base_prng_below(&prng, 12), 0};
        seen[1] = count / seen[0];
        if (seen[1] == 0) {
            seen[0] = count;
            seen[1] = 1;
        }
        uint32_t seen_rank = 2;
        int64_t flat[1] = {count};
        struct eng_wide outer = base_prng_below(&prng, 3) == 0
                                    ? random_region(&prng, 1, flat, &unused)
                                    : random_region(&prng, seen_rank, seen, &unused);
        memset(between, 0, sizeof(between));
        memset(twice, 0, sizeof(twice));
        memset(once, 0, sizeof(once));
        move(&inner, from, between);
        move(&outer, between, twice);
        struct eng_wide merged;
        enum eng_merge verdict = eng_region_merge(&outer, &inner, &merged);
        if (verdict == ENG_MERGE_NO) {
            refused++;
            continue;
        }
        if (verdict == ENG_MERGE_DONE) {
            assert_int_equal(merged.source, 7);
            move(&merged, from, once);
            done++;
        } else {
            empty++;
        }
        if (memcmp(once, twice, sizeof(once)) != 0) {
            fail_msg("round %d: composition moves something else", round);
        }
    }
    printf("merged %zu, empty %zu, refused %zu\n", done, empty, refused);
    assert_true(done > 20000);
    assert_true(empty > 100);
}

// What must not cost a copy in the models that matter.
static void usual_chains_merge(void **state)
{
    (void)state;
    // Head split: [256, 12 x 64] seen as [12, 256, 64], then as [12, 64, 256].
    const struct eng_wide split = {
        .source = 3, .rank = 3, .dims = {{12, 64, 16384}, {256, 768, 64}, {64, 1, 1}}};
    const struct eng_wide swap = {.rank = 3,
                                  .dims = {{12, 16384, 16384}, {64, 1, 256}, {256, 64, 1}}};
    struct eng_wide out;
    assert_int_equal(eng_region_merge(&swap, &split, &out), ENG_MERGE_DONE);
    assert_int_equal(out.rank, 2); // heads and depth fuse: 768 columns, then 256 rows
    assert_int_equal(out.dims[0].size, 768);
    assert_int_equal(out.dims[0].src, 1);
    assert_int_equal(out.dims[1].src, 768);
    // A transpose undone.
    const struct eng_wide there = {.source = 1, .rank = 2, .dims = {{6, 1, 4}, {4, 6, 1}}};
    const struct eng_wide back = {.rank = 2, .dims = {{4, 1, 6}, {6, 4, 1}}};
    assert_int_equal(eng_region_merge(&back, &there, &out), ENG_MERGE_DONE);
    assert_int_equal(out.rank, 1);
    assert_int_equal(out.dims[0].size, 24);
    assert_int_equal(out.dims[0].src, 1);
    // The second half (29 of 58 rows of 7) of rows that lie 4 apart.
    const struct eng_wide apart = {.source = 1, .rank = 2, .dims = {{29, 7, 28}, {7, 1, 1}}};
    const struct eng_wide half = {.rank = 1, .src_offset = 58 * 7, .dims = {{58 * 7, 1, 1}}};
    assert_int_equal(eng_region_merge(&half, &apart, &out), ENG_MERGE_DONE);
    assert_int_equal(out.dst_offset, 2 * 7); // row 60 is the first that is written
    assert_int_equal(out.src_offset, 15 * 7);
    assert_int_equal(eng_wide_volume(&out), 14 * 7);
    // Rows of a padded image that lie outside of the image: nothing.
    const struct eng_wide inside = {
        .source = 1, .rank = 2, .dst_offset = 7, .dims = {{4, 4, 6}, {4, 1, 1}}};
    const struct eng_wide top = {.rank = 1, .dims = {{6, 1, 1}}};
    assert_int_equal(eng_region_merge(&top, &inside, &out), ENG_MERGE_EMPTY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(canonical_form_moves_the_same),
        cmocka_unit_test(many_dims_unroll),
        cmocka_unit_test(composition_moves_the_same),
        cmocka_unit_test(usual_chains_merge),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
