// RASTER, GATHER, SCATTER and ONE_HOT of the fast backend against the reference backend: every
// element size, transposes with all remainders, interleaves, pads, concatenations, random regions.
#include "vec_rig.h"

static struct base_prng prng;

static int64_t below(int64_t bound)
{
    return (int64_t)base_prng_below(&prng, (uint64_t)bound);
}

static const enum eng_dtype sizes[] = {ENG_U8, ENG_F16, ENG_F32, ENG_I64, ENG_C128};

// A tensor of random bytes.
static uint32_t random_bytes(struct ref_rig *rig, enum eng_dtype dtype, int64_t count)
{
    size_t bytes = (size_t)count * eng_dtype_bytes(dtype);
    uint8_t *data = malloc(bytes + 1);
    assert_non_null(data);
    for (size_t i = 0; i < bytes; i++) {
        data[i] = (uint8_t)base_prng_next(&prng) & 0x3f; // no NaN among the floats
    }
    uint32_t tensor = rig_in(rig, dtype, 1, &count, data);
    free(data);
    return tensor;
}

static void check_raster(struct ref_rig *rig, uint32_t out, const struct eng_region *regions,
                         uint32_t count, bool zero_fill)
{
    uint32_t sources[64];
    assert_true(count <= 64);
    for (uint32_t i = 0; i < count; i++) {
        sources[i] = regions[i].source;
    }
    struct eng_command *command = rig_command(rig, ENG_OP_RASTER, count, sources, 1, &out);
    command->u.raster.regions = regions;
    command->u.raster.count = count;
    command->u.raster.zero_fill = zero_fill;
    assert_true(vec_check(rig, command, 0));
}

// dims of the source in memory order, permuted into the destination.
static void check_permutation(enum eng_dtype dtype, uint32_t rank, const int64_t *dims,
                              const uint32_t *order)
{
    struct ref_rig rig;
    rig_init(&rig);
    struct eng_region region = {.rank = rank};
    int64_t strides[ENG_REGION_RANK_MAX];
    int64_t count = 1;
    for (uint32_t d = rank; d-- > 0;) {
        strides[d] = count;
        count *= dims[d];
    }
    int64_t stride = 1;
    for (uint32_t d = rank; d-- > 0;) {
        region.size[d] = dims[order[d]];
        region.src_stride[d] = strides[order[d]];
        region.dst_stride[d] = stride;
        stride *= region.size[d];
    }
    region.source = random_bytes(&rig, dtype, count);
    uint32_t out = rig_out(&rig, dtype, 1, &count);
    check_raster(&rig, out, &region, 1, false);
    rig_done(&rig);
}

static void transposes(void **state)
{
    (void)state;
    static const int64_t edges[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 49, 100};
    static const uint32_t swap[2] = {1, 0};
    for (size_t t = 0; t < TEST_COUNT(sizes); t++) {
        for (size_t i = 0; i < TEST_COUNT(edges); i++) {
            for (size_t j = 0; j < TEST_COUNT(edges); j++) {
                check_permutation(sizes[t], 2, (const int64_t[]){edges[i], edges[j]}, swap);
            }
        }
    }
    check_permutation(ENG_F32, 2, (const int64_t[]){3, 50176}, swap);
    check_permutation(ENG_F32, 2, (const int64_t[]){50176, 3}, swap);
    check_permutation(ENG_F32, 2, (const int64_t[]){2, 40000}, swap);
    check_permutation(ENG_F32, 2, (const int64_t[]){64, 3136}, swap);
    check_permutation(ENG_F32, 2, (const int64_t[]){3136, 64}, swap);
}

static void permutations(void **state)
{
    (void)state;
    for (int round = 0; round < 300; round++) {
        int64_t dims[5];
        uint32_t order[5] = {0, 1, 2, 3, 4};
        uint32_t rank = 3 + (uint32_t)below(3);
        for (uint32_t d = 0; d < rank; d++) {
            dims[d] = 1 + below(round % 10 == 0 ? 12 : 6);
        }
        for (uint32_t d = rank; d-- > 1;) {
            uint32_t other = (uint32_t)below(d + 1);
            uint32_t kept = order[d];
            order[d] = order[other];
            order[other] = kept;
        }
        check_permutation(sizes[below(5)], rank, dims, order);
    }
}

// A box of the source, of any stride, into a box of the destination.
static void slices_and_pads(void **state)
{
    (void)state;
    for (int round = 0; round < 400; round++) {
        struct ref_rig rig;
        rig_init(&rig);
        enum eng_dtype dtype = sizes[below(5)];
        struct eng_region region = {.rank = 1 + (uint32_t)below(4)};
        int64_t in_count = 1;
        int64_t out_count = 1;
        for (uint32_t d = region.rank; d-- > 0;) {
            int64_t step = 1 + below(3);
            int64_t size = 1 + below(round % 10 == 0 ? 30 : 8);
            int64_t in_begin = below(3);
            int64_t out_begin = below(3);
            region.size[d] = size;
            region.src_stride[d] = step * in_count;
            region.dst_stride[d] = out_count;
            if (below(4) == 0) { // reversed
                region.src_offset += (size - 1) * region.src_stride[d];
                region.src_stride[d] = -region.src_stride[d];
            } else if (below(4) == 0) { // repeated
                region.src_stride[d] = 0;
            }
            region.src_offset += in_begin * in_count;
            region.dst_offset += out_begin * out_count;
            in_count *= in_begin + size * step;
            out_count *= out_begin + size + below(3);
        }
        region.source = random_bytes(&rig, dtype, in_count);
        uint32_t out = rig_out(&rig, dtype, 1, &out_count);
        check_raster(&rig, out, &region, 1, true);
        rig_done(&rig);
    }
}

// Copies that are cut into pieces for the threads, with what lies around them.
static void long_runs(void **state)
{
    (void)state;
    static const int64_t runs[] = {16383, 16384, 16385, 100000, 333333};
    for (size_t i = 0; i < TEST_COUNT(runs); i++) {
        for (int mode = 0; mode < 4; mode++) {
            struct ref_rig rig;
            rig_init(&rig);
            int64_t n = runs[i];
            int64_t step = mode == 2 ? 2 : mode == 3 ? 3 : 1;
            struct eng_region region = {.rank = 1,
                                        .size = {n},
                                        .src_stride = {mode == 1 ? 0 : step},
                                        .dst_stride = {1},
                                        .dst_offset = 5};
            int64_t in_count = (n - 1) * step + 1;
            int64_t out_count = n + 9;
            region.source = random_bytes(&rig, ENG_F32, in_count);
            uint32_t out = rig_out(&rig, ENG_F32, 1, &out_count);
            check_raster(&rig, out, &region, 1, true);
            rig_done(&rig);
        }
    }
}

static void concatenation(void **state)
{
    (void)state;
    for (int round = 0; round < 50; round++) {
        struct ref_rig rig;
        rig_init(&rig);
        enum eng_dtype dtype = sizes[below(5)];
        struct eng_region regions[10] = {0};
        uint32_t count = 1 + (uint32_t)below(10);
        int64_t outer = 1 + below(200);
        int64_t total = 0;
        int64_t widths[10];
        for (uint32_t i = 0; i < count; i++) {
            widths[i] = i > 0 && below(8) == 0 ? 0 : 1 + below(40);
            total += widths[i];
        }
        int64_t at = 0;
        for (uint32_t i = 0; i < count; i++) {
            regions[i] = (struct eng_region){.rank = 2,
                                             .size = {outer, widths[i]},
                                             .src_stride = {widths[i], 1},
                                             .dst_stride = {total, 1},
                                             .dst_offset = at};
            regions[i].source = random_bytes(&rig, dtype, outer * widths[i]);
            at += widths[i];
        }
        int64_t out_count = outer * total;
        uint32_t out = rig_out(&rig, dtype, 1, &out_count);
        check_raster(&rig, out, regions, count, false);
        rig_done(&rig);
    }
}

// The shuffle of two branches: each fills every other channel; then parts of such a shuffle.
static void interleaves(void **state)
{
    (void)state;
    static const int64_t channels[] = {1, 2, 8, 15, 16, 17, 58, 116};
    for (size_t i = 0; i < TEST_COUNT(channels); i++) {
        for (int mode = 0; mode < 6; mode++) {
            struct ref_rig rig;
            rig_init(&rig);
            int64_t c = channels[i];
            int64_t rows = mode < 4 ? 50 : 2000;
            int64_t width = 2 * c + (mode & 1) * 3; // rows that leave something out
            int64_t count = rows * width;
            struct eng_region regions[2];
            for (int k = 0; k < 2; k++) {
                regions[k] =
                    (struct eng_region){.source = random_bytes(&rig, ENG_F32, rows * (c + k)),
                                        .rank = 2,
                                        .size = {rows, c},
                                        .src_stride = {c + k, 1},
                                        .dst_stride = {width, 2},
                                        .dst_offset = (mode & 2) != 0 ? 1 - k : k};
            }
            uint32_t out = rig_out(&rig, ENG_F32, 1, &count);
            check_raster(&rig, out, regions, 2, (mode & 1) != 0);
            rig_done(&rig);
        }
    }
}

// Shuffles of shuffles: the columns of each row are split again and again into every other one, and
// each share comes from a source of its own.
static void weaves(void **state)
{
    (void)state;
    for (int round = 0; round < 200; round++) {
        struct ref_rig rig;
        rig_init(&rig);
        int64_t width = 2 + below(140);
        int64_t rows = 1 + below(round % 20 == 0 ? 900 : 30);
        int64_t first[12] = {0};
        int64_t step[12] = {1};
        uint32_t shares = 1;
        uint32_t wanted = 2 + (uint32_t)below(10);
        for (int tries = 0; tries < 40 && shares < wanted; tries++) {
            uint32_t i = (uint32_t)below(shares);
            if (first[i] + step[i] < width) {
                first[shares] = first[i] + step[i];
                step[i] *= 2;
                step[shares++] = step[i];
            }
        }
        struct eng_region regions[12];
        int64_t margin = below(3);
        for (uint32_t i = 0; i < shares; i++) {
            int64_t n = (width - first[i] + step[i] - 1) / step[i];
            int64_t row = n + (round % 2 == 0 ? 0 : below(4));
            regions[i] = (struct eng_region){.rank = 2,
                                             .size = {rows, n},
                                             .src_stride = {row, 1},
                                             .dst_stride = {width, step[i]},
                                             .src_offset = row - n,
                                             .dst_offset = margin + first[i]};
            regions[i].source = random_bytes(&rig, ENG_F32, rows * row);
        }
        uint32_t used = round % 5 == 0 && shares > 1 ? shares - 1 : shares; // one share is zero
        int64_t count = rows * width + 2 * margin;
        uint32_t out = rig_out(&rig, ENG_F32, 1, &count);
        check_raster(&rig, out, regions, used, true);
        rig_done(&rig);
    }
}

static void odds_and_ends(void **state)
{
    (void)state;
    struct ref_rig rig;
    rig_init(&rig);
    uint32_t in = random_bytes(&rig, ENG_F32, 10);
    uint32_t out = rig_out(&rig, ENG_F32, DIMS(10));
    const struct eng_region one = {.source = in, .src_offset = 3, .dst_offset = 7};
    check_raster(&rig, out, &one, 1, true); // rank 0
    const struct eng_region empty = {.source = in, .rank = 1, .size = {0}};
    check_raster(&rig, out, &empty, 1, true);
    check_raster(&rig, out, NULL, 0, true);
    const struct eng_region whole = {
        .source = in, .rank = 1, .size = {10}, .src_stride = {1}, .dst_stride = {1}};
    check_raster(&rig, out, &whole, 1, false);
    struct eng_region sums = whole;
    sums.accumulate = true;
    struct eng_command *command = rig_command(&rig, ENG_OP_RASTER, 1, &in, 1, &out);
    command->u.raster.regions = &sums;
    command->u.raster.count = 1;
    assert_false(vec_check(&rig, command, 0)); // left to the reference backend
    rig_done(&rig);
}

static void gathers(void **state)
{
    (void)state;
    for (int round = 0; round < 120; round++) {
        struct ref_rig rig;
        rig_init(&rig);
        enum eng_dtype dtype = sizes[below(5)];
        bool wide = below(2) != 0;
        struct eng_gather g = {.outer = 1 + below(4),
                               .n = 1 + below(50),
                               .inner = below(3) == 0 ? 1 : 1 + below(300),
                               .elementwise = round % 3 == 0,
                               .m = 1 + below(40)};
        int64_t index_count = g.elementwise ? g.outer * g.m * g.inner : g.m;
        int64_t out_count = g.outer * g.m * g.inner;
        int64_t *wide_indices = malloc((size_t)index_count * sizeof *wide_indices);
        int32_t *indices = malloc((size_t)index_count * sizeof *indices);
        assert_non_null(wide_indices);
        assert_non_null(indices);
        for (int64_t i = 0; i < index_count; i++) {
            wide_indices[i] = below(2 * g.n) - g.n;
            if (round % 10 == 9 && i == index_count / 2) {
                wide_indices[i] = round % 20 == 9 ? g.n : -g.n - 1; // refused when run
            }
            indices[i] = (int32_t)wide_indices[i];
        }
        uint32_t in[2] = {random_bytes(&rig, dtype, g.outer * g.n * g.inner),
                          wide ? rig_in(&rig, ENG_I64, 1, &index_count, wide_indices)
                               : rig_in(&rig, ENG_I32, 1, &index_count, indices)};
        free(wide_indices);
        free(indices);
        uint32_t out = rig_out(&rig, dtype, 1, &out_count);
        struct eng_command *command = rig_command(&rig, ENG_OP_GATHER, 2, in, 1, &out);
        command->u.gather = g;
        assert_true(vec_check(&rig, command, 0));
        rig_done(&rig);
    }
}

static void scatters(void **state)
{
    (void)state;
    for (int round = 0; round < 80; round++) {
        struct ref_rig rig;
        rig_init(&rig);
        struct eng_scatter s = {.fn = round % 2 == 0 ? ENG_SCATTER_SET : ENG_SCATTER_ADD,
                                .rows = 1 + below(40),
                                .count = below(30),
                                .inner = below(2) == 0 ? 1 : 1 + below(70)};
        int64_t indices[30];
        for (int64_t i = 0; i < s.count; i++) {
            indices[i] = below(2 * s.rows) - s.rows;
        }
        int64_t data_dims[1] = {s.rows * s.inner};
        int64_t update_dims[1] = {s.count * s.inner};
        uint32_t in[3] = {vec_random(&rig, &prng, ENG_PLAIN, 1, data_dims, 1.0f),
                          rig_in(&rig, ENG_I64, 1, &s.count, indices),
                          vec_random(&rig, &prng, ENG_PLAIN, 1, update_dims, 1.0f)};
        uint32_t out = rig_out(&rig, ENG_F32, 1, data_dims);
        struct eng_command *command = rig_command(&rig, ENG_OP_SCATTER, 3, in, 1, &out);
        command->u.scatter = s;
        assert_true(vec_check(&rig, command, 1e-6f));
        rig_done(&rig);
    }
}

static void one_hots(void **state)
{
    (void)state;
    for (int round = 0; round < 40; round++) {
        struct ref_rig rig;
        rig_init(&rig);
        struct eng_one_hot h = {1 + below(9), 1 + below(30), 1 + below(5)};
        int64_t count = h.outer * h.inner;
        int64_t out_count = count * h.depth;
        int64_t indices[45];
        for (int64_t i = 0; i < count; i++) {
            indices[i] = below(3 * h.depth) - h.depth - below(3); // some beyond: all off
        }
        uint32_t in[2] = {rig_in(&rig, ENG_I64, 1, &count, indices),
                          rig_in(&rig, ENG_F32, DIMS(2), F32(-1.0f, 4.0f))};
        uint32_t out = rig_out(&rig, ENG_F32, 1, &out_count);
        struct eng_command *command = rig_command(&rig, ENG_OP_ONE_HOT, 2, in, 1, &out);
        command->u.one_hot = h;
        assert_true(vec_check(&rig, command, 0));
        rig_done(&rig);
    }
}

int main(void)
{
    test_seed(&prng);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(transposes),    cmocka_unit_test(permutations),
        cmocka_unit_test(long_runs),     cmocka_unit_test(slices_and_pads),
        cmocka_unit_test(concatenation), cmocka_unit_test(interleaves),
        cmocka_unit_test(weaves),        cmocka_unit_test(odds_and_ends),
        cmocka_unit_test(gathers),       cmocka_unit_test(scatters),
        cmocka_unit_test(one_hots),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
