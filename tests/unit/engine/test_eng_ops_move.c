// Moving operators against naive loops: random shapes and arguments, arguments as attributes (early
// opsets), constants and values known only at run time.
#include "op_rig.h"

#define ROUNDS 150

// Numbers of the source for every element of the result; -1: `other` instead.
typedef int64_t (*source_fn)(const void *ctx, const int64_t *at);

static void expect_moved(struct op_rig *rig, const struct eng_desc *desc, const float *source,
                         source_fn from, const void *ctx, float other)
{
    struct eng_array out = op_output(rig, 0);
    op_expect_shape(rig, &out.desc, desc);
    if (eng_desc_count(desc) == 0) {
        return;
    }
    int64_t at[ENG_RANK_MAX] = {0};
    int64_t i = 0;
    do {
        int64_t number = from(ctx, at);
        float wanted = number < 0 ? other : source[number];
        float got = ((const float *)out.data)[i];
        if (got != wanted) {
            fail_msg("%s (opset %lld): element %lld is %g, expected %g", rig->op,
                     (long long)rig->opset, (long long)i, (double)got, (double)wanted);
        }
        i++;
    } while (op_next(desc, at));
}

// --- Slice

struct slice_case {
    struct eng_desc in;
    int64_t starts[ENG_RANK_MAX], steps[ENG_RANK_MAX];
};

static int64_t slice_source(const void *ctx, const int64_t *at)
{
    const struct slice_case *c = ctx;
    int64_t place[ENG_RANK_MAX];
    for (uint32_t d = 0; d < c->in.rank; d++) {
        place[d] = c->starts[d] + at[d] * c->steps[d];
    }
    return op_flat(&c->in, place);
}

// Walks from the clamped start until it passes the end: no formula shared with the engine.
static int64_t walk(int64_t dim, int64_t start, int64_t end, int64_t step, int64_t *first)
{
    int64_t from = start < 0 ? start + dim : start;
    int64_t to = end < 0 ? end + dim : end;
    if (step > 0) {
        from = from < 0 ? 0 : from;
        to = to > dim ? dim : to;
    } else {
        from = from >= dim ? dim - 1 : from < 0 ? 0 : from;
        to = to < -1 ? -1 : to;
    }
    int64_t count = 0;
    *first = from;
    for (int64_t i = from; step > 0 ? i < to : i > to; i += step) {
        count += i >= 0 && i < dim;
    }
    return count;
}

static void slices(void **state)
{
    (void)state;
    struct base_prng prng;
    test_seed(&prng);
    for (int round = 0; round < ROUNDS; round++) {
        struct slice_case c = {0};
        struct op_rig rig;
        op_random_shape(&prng, 1, 4, 6, &c.in);
        struct eng_desc desc = c.in;
        int64_t starts[ENG_RANK_MAX];
        int64_t ends[ENG_RANK_MAX];
        int64_t axes[ENG_RANK_MAX];
        int64_t count = 0;
        bool is_old = round % 3 == 0;
        for (uint32_t d = 0; d < c.in.rank; d++) {
            c.steps[d] = 1;
            if (base_prng_below(&prng, 4) == 0) {
                continue;
            }
            axes[count] =
                base_prng_below(&prng, 2) == 0 ? (int64_t)d : (int64_t)d - (int64_t)c.in.rank;
            starts[count] = (int64_t)base_prng_below(&prng, 20) - 10;
            ends[count] = (int64_t)base_prng_below(&prng, 20) - 10;
            c.steps[d] = is_old ? 1 : (int64_t)base_prng_below(&prng, 7) - 3;
            c.steps[d] = c.steps[d] == 0 ? -1 : c.steps[d];
            desc.dims[d] = walk(c.in.dims[d], starts[count], ends[count], c.steps[d], &c.starts[d]);
            count++;
        }
        int64_t steps[ENG_RANK_MAX];
        for (int64_t i = 0; i < count; i++) {
            steps[i] = c.steps[axes[i] < 0 ? axes[i] + (int64_t)c.in.rank : axes[i]];
        }
        float *data = op_numbers(eng_desc_count(&c.in));
        op_begin(&rig, "Slice", is_old ? 7 : 11);
        op_input(&rig, &c.in, data, false);
        if (is_old) {
            op_attr_ints(&rig, "axes", axes, (uint32_t)count);
            op_attr_ints(&rig, "starts", starts, (uint32_t)count);
            op_attr_ints(&rig, "ends", ends, (uint32_t)count);
        } else {
            bool constant = round % 2 == 0;
            op_ints(&rig, starts, count, constant);
            op_ints(&rig, ends, count, constant);
            op_ints(&rig, axes, count, constant);
            op_ints(&rig, steps, count, constant);
        }
        op_run_ok(&rig, 1);
        expect_moved(&rig, &desc, data, slice_source, &c, 0);
        assert_int_equal(op_kernels(&rig), 0);
        op_done(&rig);
        free(data);
    }
}

// Ends far outside, as exporters write them.
static void slices_to_the_end(void **state)
{
    (void)state;
    const int64_t dims[1] = {5};
    const struct eng_desc in = op_desc(ENG_F32, 1, dims);
    const float data[5] = {1, 2, 3, 4, 5};
    const struct {
        int64_t start, end, step, count;
        float wanted[5];
    } cases[] = {
        {1, INT64_MAX, 1, 4, {2, 3, 4, 5}},
        {-1, INT64_MIN, -1, 5, {5, 4, 3, 2, 1}},
        {INT64_MAX, INT64_MIN, -2, 3, {5, 3, 1}},
        {INT64_MIN, INT64_MAX, 1, 5, {1, 2, 3, 4, 5}},
        {0, 5, INT64_MAX, 1, {1}},
        {4, INT64_MIN, INT64_MIN, 1, {5}},
        {3, 3, 1, 0, {0}},
        {7, 9, 1, 0, {0}},
        {-9, -7, 1, 0, {0}},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct op_rig rig;
        op_begin(&rig, "Slice", 13);
        op_input(&rig, &in, data, false);
        op_ints(&rig, &cases[i].start, 1, true);
        op_ints(&rig, &cases[i].end, 1, true);
        op_absent(&rig);
        op_ints(&rig, &cases[i].step, 1, true);
        op_run_ok(&rig, 1);
        const struct eng_desc desc = op_desc(ENG_F32, 1, &cases[i].count);
        op_expect_floats(&rig, 0, &desc, cases[i].wanted);
        op_done(&rig);
    }
}

// --- Pad

struct pad_case {
    struct eng_desc in;
    int64_t begin[ENG_RANK_MAX], end[ENG_RANK_MAX];
    int mode; // 0 constant, 1 reflect, 2 edge
};

// Place `at` of the padded row in the source row: cut first, then bounced or held one step at a
// time.
static int64_t pad_place(const struct pad_case *c, uint32_t d, int64_t at)
{
    int64_t low = c->begin[d] < 0 ? -c->begin[d] : 0;
    int64_t high = c->in.dims[d] - 1 + (c->end[d] < 0 ? c->end[d] : 0);
    int64_t place = at - c->begin[d];
    while (c->mode == 1 && high > low && (place < low || place > high)) {
        place = place < low ? 2 * low - place : 2 * high - place;
    }
    if (place < low || place > high) {
        return c->mode == 0 ? -1 : place < low ? low : high;
    }
    return place;
}

static int64_t pad_source(const void *ctx, const int64_t *at)
{
    const struct pad_case *c = ctx;
    int64_t place[ENG_RANK_MAX];
    for (uint32_t d = 0; d < c->in.rank; d++) {
        place[d] = pad_place(c, d, at[d]);
        if (place[d] < 0) {
            return -1;
        }
    }
    return op_flat(&c->in, place);
}

static void pads(void **state)
{
    (void)state;
    static const char *const modes[] = {"constant", "reflect", "edge"};
    struct base_prng prng;
    test_seed(&prng);
    for (int round = 0; round < ROUNDS; round++) {
        struct pad_case c = {.mode = round % 3};
        struct op_rig rig;
        op_random_shape(&prng, 1, 4, 5, &c.in);
        struct eng_desc desc = c.in;
        int64_t both[2 * ENG_RANK_MAX];
        for (uint32_t d = 0; d < c.in.rank; d++) {
            c.begin[d] = (int64_t)base_prng_below(&prng, 7) - 2;
            c.end[d] = (int64_t)base_prng_below(&prng, 7) - 2;
            int64_t cut = (c.begin[d] < 0 ? -c.begin[d] : 0) + (c.end[d] < 0 ? -c.end[d] : 0);
            if (cut >= c.in.dims[d]) {
                c.begin[d] = 1;
                c.end[d] = 0;
            }
            both[d] = c.begin[d];
            both[c.in.rank + d] = c.end[d];
            desc.dims[d] += c.begin[d] + c.end[d];
        }
        float value = round % 4 == 0 ? 0 : -7;
        float *data = op_numbers(eng_desc_count(&c.in));
        bool is_old = round % 5 == 0;
        op_begin(&rig, "Pad", is_old ? 7 : 13);
        op_attr_text(&rig, "mode", modes[c.mode]);
        op_input(&rig, &c.in, data, false);
        if (is_old) {
            op_attr_ints(&rig, "pads", both, 2 * c.in.rank);
            ob_attr_float(&rig.attrs, "value", value);
        } else {
            op_ints(&rig, both, 2 * (int64_t)c.in.rank, round % 2 == 0);
            op_scalar(&rig, ENG_F32, &value, round % 7 != 0);
        }
        op_run_ok(&rig, 1);
        expect_moved(&rig, &desc, data, pad_source, &c, value);
        assert_int_equal(op_kernels(&rig), 0);
        op_done(&rig);
        free(data);
    }
}

// --- Tile, Expand, Transpose

struct tile_case {
    struct eng_desc in, out;
    uint32_t perm[ENG_RANK_MAX];
};

static int64_t tile_source(const void *ctx, const int64_t *at)
{
    const struct tile_case *c = ctx;
    int64_t place[ENG_RANK_MAX];
    uint32_t lead = c->out.rank - c->in.rank;
    for (uint32_t d = 0; d < c->in.rank; d++) {
        place[d] = at[lead + d] % c->in.dims[d];
    }
    return op_flat(&c->in, place);
}

static int64_t transpose_source(const void *ctx, const int64_t *at)
{
    const struct tile_case *c = ctx;
    int64_t place[ENG_RANK_MAX];
    for (uint32_t d = 0; d < c->in.rank; d++) {
        place[c->perm[d]] = at[d];
    }
    return op_flat(&c->in, place);
}

static void tiles(void **state)
{
    (void)state;
    struct base_prng prng;
    test_seed(&prng);
    for (int round = 0; round < ROUNDS; round++) {
        struct tile_case c = {0};
        struct op_rig rig;
        int64_t repeats[ENG_RANK_MAX];
        op_random_shape(&prng, 1, 8, 3, &c.in);
        c.out = c.in;
        for (uint32_t d = 0; d < c.in.rank; d++) {
            repeats[d] = (int64_t)base_prng_below(&prng, round % 10 == 0 ? 4 : 3);
            repeats[d] += round % 10 != 0 && repeats[d] == 0;
            c.out.dims[d] *= repeats[d];
        }
        float *data = op_numbers(eng_desc_count(&c.in));
        op_begin(&rig, "Tile", 13);
        op_input(&rig, &c.in, data, false);
        op_ints(&rig, repeats, (int64_t)c.in.rank, round % 2 == 0);
        op_run_ok(&rig, 1);
        expect_moved(&rig, &c.out, data, tile_source, &c, 0);
        assert_int_equal(op_kernels(&rig), 0);
        op_done(&rig);
        free(data);
    }
}

static void expands(void **state)
{
    (void)state;
    struct base_prng prng;
    test_seed(&prng);
    for (int round = 0; round < ROUNDS; round++) {
        struct tile_case c = {0};
        struct op_rig rig;
        int64_t shape[ENG_RANK_MAX];
        op_random_shape(&prng, 0, 4, 3, &c.in);
        c.out = c.in;
        c.out.rank += (uint32_t)base_prng_below(&prng, 3);
        uint32_t lead = c.out.rank - c.in.rank;
        for (uint32_t d = 0; d < c.out.rank; d++) {
            int64_t had = d < lead ? 1 : c.in.dims[d - lead];
            c.out.dims[d] = had == 1 ? 1 + (int64_t)base_prng_below(&prng, 3) : had;
            // Asking for 1 keeps what is there.
            shape[d] = base_prng_below(&prng, 3) == 0 ? 1 : c.out.dims[d];
            c.out.dims[d] = shape[d] == 1 ? had : c.out.dims[d];
        }
        float *data = op_numbers(eng_desc_count(&c.in));
        op_begin(&rig, "Expand", 8);
        op_input(&rig, &c.in, data, false);
        op_ints(&rig, shape, (int64_t)c.out.rank, round % 2 == 0);
        op_run_ok(&rig, 1);
        expect_moved(&rig, &c.out, data, tile_source, &c, 0);
        op_done(&rig);
        free(data);
    }
}

static void transposes(void **state)
{
    (void)state;
    struct base_prng prng;
    test_seed(&prng);
    for (int round = 0; round < ROUNDS; round++) {
        struct tile_case c = {0};
        struct op_rig rig;
        int64_t perm[ENG_RANK_MAX];
        op_random_shape(&prng, 1, 8, 3, &c.in);
        c.out = c.in;
        for (uint32_t d = 0; d < c.in.rank; d++) {
            c.perm[d] = c.in.rank - 1 - d;
        }
        for (uint32_t d = c.in.rank; round % 4 != 0 && d-- > 1;) {
            uint32_t other = (uint32_t)base_prng_below(&prng, d + 1);
            uint32_t swap = c.perm[d];
            c.perm[d] = c.perm[other];
            c.perm[other] = swap;
        }
        for (uint32_t d = 0; d < c.in.rank; d++) {
            perm[d] = c.perm[d];
            c.out.dims[d] = c.in.dims[c.perm[d]];
        }
        float *data = op_numbers(eng_desc_count(&c.in));
        op_begin(&rig, "Transpose", 13);
        op_input(&rig, &c.in, data, false);
        if (round % 4 != 0) {
            op_attr_ints(&rig, "perm", perm, c.in.rank);
        }
        op_run_ok(&rig, 1);
        expect_moved(&rig, &c.out, data, transpose_source, &c, 0);
        assert_int_equal(op_kernels(&rig), 0);
        op_done(&rig);
        free(data);
    }
}

// --- Concat and Split

static void concats(void **state)
{
    (void)state;
    struct base_prng prng;
    test_seed(&prng);
    for (int round = 0; round < ROUNDS; round++) {
        struct op_rig rig;
        struct eng_desc base;
        op_random_shape(&prng, 1, 4, 4, &base);
        uint32_t axis = (uint32_t)base_prng_below(&prng, base.rank);
        uint32_t count = 1 + (uint32_t)base_prng_below(&prng, 5);
        struct eng_desc parts[5];
        float *data[5];
        struct eng_desc desc = base;
        desc.dims[axis] = 0;
        op_begin(&rig, "Concat", 11);
        ob_attr_int(&rig.attrs, "axis", (int64_t)axis - (round % 2 == 0 ? (int64_t)base.rank : 0));
        for (uint32_t i = 0; i < count; i++) {
            parts[i] = base;
            parts[i].dims[axis] = (int64_t)base_prng_below(&prng, 4);
            desc.dims[axis] += parts[i].dims[axis];
            data[i] = op_numbers(eng_desc_count(&parts[i]));
            for (int64_t k = 0; k < eng_desc_count(&parts[i]); k++) {
                data[i][k] += (float)(1000 * i);
            }
            op_input(&rig, &parts[i], data[i], base_prng_below(&prng, 3) == 0);
        }
        op_run_ok(&rig, 1);
        struct eng_array out = op_output(&rig, 0);
        op_expect_shape(&rig, &out.desc, &desc);
        int64_t at[ENG_RANK_MAX] = {0};
        for (int64_t i = 0; i < eng_desc_count(&desc); i++, (void)op_next(&desc, at)) {
            int64_t place[ENG_RANK_MAX];
            memcpy(place, at, sizeof(place));
            uint32_t part = 0;
            while (place[axis] >= parts[part].dims[axis]) {
                place[axis] -= parts[part++].dims[axis];
            }
            assert_float_equal(((const float *)out.data)[i],
                               data[part][op_flat(&parts[part], place)], 0);
        }
        op_done(&rig);
        for (uint32_t i = 0; i < count; i++) {
            free(data[i]);
        }
    }
}

static void splits(void **state)
{
    (void)state;
    struct base_prng prng;
    test_seed(&prng);
    for (int round = 0; round < ROUNDS; round++) {
        struct slice_case c = {0};
        struct op_rig rig;
        op_random_shape(&prng, 1, 4, 4, &c.in);
        uint32_t axis = (uint32_t)base_prng_below(&prng, c.in.rank);
        uint32_t count = 1 + (uint32_t)base_prng_below(&prng, 4);
        int64_t sizes[4];
        bool equal = round % 3 == 0;
        c.in.dims[axis] = 0;
        for (uint32_t i = 0; i < count; i++) {
            sizes[i] = equal ? 2 : (int64_t)base_prng_below(&prng, 4);
            c.in.dims[axis] += sizes[i];
        }
        float *data = op_numbers(eng_desc_count(&c.in));
        bool is_old = round % 2 == 0;
        op_begin(&rig, "Split", is_old ? 7 : 13);
        ob_attr_int(&rig.attrs, "axis", (int64_t)axis);
        op_input(&rig, &c.in, data, false);
        if (!equal && is_old) {
            op_attr_ints(&rig, "split", sizes, count);
        } else if (!equal) {
            op_ints(&rig, sizes, (int64_t)count, round % 4 == 1);
        }
        op_run_ok(&rig, count);
        for (uint32_t i = 0; i < count; i++) {
            struct eng_desc desc = c.in;
            desc.dims[axis] = sizes[i];
            for (uint32_t d = 0; d < c.in.rank; d++) {
                c.steps[d] = 1;
            }
            struct eng_array out = op_output(&rig, i);
            op_expect_shape(&rig, &out.desc, &desc);
            int64_t at[ENG_RANK_MAX] = {0};
            for (int64_t k = 0; k < eng_desc_count(&desc); k++, (void)op_next(&desc, at)) {
                assert_float_equal(((const float *)out.data)[k], data[slice_source(&c, at)], 0);
            }
            c.starts[axis] += sizes[i];
        }
        assert_int_equal(op_kernels(&rig), 0);
        op_done(&rig);
        free(data);
    }
}

// --- blocks and triangles

struct block_case {
    struct eng_desc in, out;
    int64_t block;
    bool crd;
};

static int64_t depth_source(const void *ctx, const int64_t *at)
{
    const struct block_case *c = ctx;
    int64_t b = c->block;
    int64_t cell = at[2] % b * b + at[3] % b;
    int64_t channel = c->crd ? at[1] * b * b + cell : cell * c->out.dims[1] + at[1];
    return op_flat(&c->in, (int64_t[]){at[0], channel, at[2] / b, at[3] / b});
}

static int64_t space_source(const void *ctx, const int64_t *at)
{
    const struct block_case *c = ctx;
    int64_t b = c->block;
    int64_t cell = at[1] / c->in.dims[1];
    return op_flat(&c->in, (int64_t[]){at[0], at[1] % c->in.dims[1], at[2] * b + cell / b,
                                       at[3] * b + cell % b});
}

static void blocks(void **state)
{
    (void)state;
    struct base_prng prng;
    test_seed(&prng);
    for (int round = 0; round < 40; round++) {
        struct block_case c = {.block = 1 + (int64_t)base_prng_below(&prng, 3)};
        struct op_rig rig;
        bool to_space = round % 2 == 0;
        op_random_shape(&prng, 4, 4, 4, &c.in);
        c.out = c.in;
        int64_t area = c.block * c.block;
        if (to_space) {
            c.in.dims[1] *= area;
            c.out.dims[2] *= c.block;
            c.out.dims[3] *= c.block;
        } else {
            c.in.dims[2] *= c.block;
            c.in.dims[3] *= c.block;
            c.out.dims[1] *= area;
        }
        c.crd = round % 4 == 0;
        float *data = op_numbers(eng_desc_count(&c.in));
        op_begin(&rig, to_space ? "DepthToSpace" : "SpaceToDepth", 11);
        ob_attr_int(&rig.attrs, "blocksize", c.block);
        if (c.crd) {
            op_attr_text(&rig, "mode", "CRD");
        }
        op_input(&rig, &c.in, data, false);
        op_run_ok(&rig, 1);
        expect_moved(&rig, &c.out, data, to_space ? depth_source : space_source, &c, 0);
        assert_int_equal(op_kernels(&rig), 0);
        assert_true(op_rasters(&rig) <= 1); // none when nothing moves
        op_done(&rig);
        free(data);
    }
}

struct trilu_case {
    struct eng_desc in;
    int64_t k;
    bool upper;
};

static int64_t trilu_source(const void *ctx, const int64_t *at)
{
    const struct trilu_case *c = ctx;
    int64_t gap = at[c->in.rank - 1] - at[c->in.rank - 2];
    return (c->upper ? gap >= c->k : gap <= c->k) ? op_flat(&c->in, at) : -1;
}

static void triangles(void **state)
{
    (void)state;
    struct base_prng prng;
    test_seed(&prng);
    for (int round = 0; round < 80; round++) {
        struct trilu_case c = {.upper = round % 2 == 0};
        struct op_rig rig;
        op_random_shape(&prng, 2, 4, 5, &c.in);
        if (round % 10 == 0) {
            c.in.dims[c.in.rank - 2] = 1100; // selected by a mask
        }
        c.k = (int64_t)base_prng_below(&prng, 13) - 6;
        float *data = op_numbers(eng_desc_count(&c.in));
        op_begin(&rig, "Trilu", 14);
        ob_attr_int(&rig.attrs, "upper", c.upper);
        op_input(&rig, &c.in, data, false);
        op_scalar(&rig, ENG_I64, &c.k, round % 3 != 0);
        op_run_ok(&rig, 1);
        expect_moved(&rig, &c.in, data, trilu_source, &c, 0);
        op_done(&rig);
        free(data);
    }
}

// Reshape, Transpose, Reshape: what networks of shuffled channels do is one raster.
static void channel_shuffle_is_one_raster(void **state)
{
    (void)state;
    struct op_rig rig;
    const struct eng_desc in = op_desc(ENG_F32, 4, (int64_t[]){1, 6, 2, 2});
    const int64_t split[5] = {1, 2, 3, 2, 2};
    const int64_t count = 5;
    float *data = op_numbers(24);
    struct base_buffer graph = ob_new();
    op_begin(&rig, "Transpose", 13);
    ob_take(&graph, OB_GRAPH_INPUT, ob_value("x", ENG_F32, 4, in.dims));
    ob_take(&graph, OB_GRAPH_INITIALIZER,
            ob_raw_tensor("split", ENG_I64, 1, &count, split, sizeof(split)));
    ob_take(&graph, OB_GRAPH_INITIALIZER,
            ob_raw_tensor("join", ENG_I64, 1, (int64_t[]){4}, in.dims, 4 * sizeof(int64_t)));
    ob_take(&graph, OB_GRAPH_NODE, ob_node("Reshape", "a", "x,split", "parts"));
    op_attr_ints(&rig, "perm", (int64_t[]){0, 2, 1, 3, 4}, 5);
    struct base_buffer node = ob_node("Transpose", "b", "parts", "turned");
    ob_add(&node, rig.attrs.data, rig.attrs.size);
    ob_take(&graph, OB_GRAPH_NODE, node);
    ob_take(&graph, OB_GRAPH_NODE, ob_node("Reshape", "c", "turned,join", "y"));
    ob_output(&graph, "y");
    ob_text(&graph, OB_GRAPH_NAME, "g");
    base_buffer_done(&rig.bytes);
    rig.bytes = ob_model(8, 13, graph);
    op_input(&rig, &in, data, false);
    assert_int_equal(op_run_model(&rig), BASE_OK);
    assert_int_equal(op_kernels(&rig), 0);
    assert_int_equal(op_rasters(&rig), 1);
    float wanted[24];
    for (int64_t c = 0; c < 6; c++) {
        for (int64_t i = 0; i < 4; i++) {
            wanted[c * 4 + i] = data[(c % 2 * 3 + c / 2) * 4 + i];
        }
    }
    op_expect_floats(&rig, 0, &in, wanted);
    op_done(&rig);
    free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slices),
        cmocka_unit_test(slices_to_the_end),
        cmocka_unit_test(pads),
        cmocka_unit_test(tiles),
        cmocka_unit_test(expands),
        cmocka_unit_test(transposes),
        cmocka_unit_test(concats),
        cmocka_unit_test(splits),
        cmocka_unit_test(channel_shuffle_is_one_raster),
        cmocka_unit_test(blocks),
        cmocka_unit_test(triangles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
