// Emits on operands of any layout, virtual or real, against plain loops over logical coordinates.
#include "lower_rig.h"

#include <math.h>

#define CELLS_MAX 8192

// A float tensor and what it holds in logical order.
struct operand {
    uint32_t tensor;
    struct eng_desc desc;
    float *cells;
};

static int64_t below(struct base_prng *prng, int64_t bound)
{
    return (int64_t)base_prng_below(prng, (uint64_t)bound);
}

struct world {
    struct rig rig;
    struct base_prng prng;
    void *data[RIG_VALUES]; // of inputs, by tensor number
    uint32_t input_count;
};

static void world_init(struct world *w, uint64_t seed)
{
    memset(w, 0, sizeof(*w));
    rig_init(&w->rig);
    base_prng_seed(&w->prng, seed);
}

static float small_number(struct base_prng *prng)
{
    return (float)below(prng, 9) - 4.0f;
}

// An input seen through a random transpose, so that it is virtual, or as it is, or channels-last.
static struct operand operand_of(struct world *w, const struct eng_desc *desc)
{
    struct operand o = {.desc = *desc};
    int64_t count = eng_desc_count(desc);
    o.cells = base_arena_alloc(&w->rig.arena, ((size_t)count + 1) * sizeof(float));
    for (int64_t i = 0; i < count; i++) {
        o.cells[i] = small_number(&w->prng);
    }
    uint32_t perm[ENG_RANK_MAX];
    uint32_t inverse[ENG_RANK_MAX];
    for (uint32_t d = 0; d < desc->rank; d++) {
        perm[d] = d;
    }
    uint32_t kind = (uint32_t)below(&w->prng, 3);
    for (uint32_t d = desc->rank; kind == 1 && d > 1; d--) {
        uint32_t other = (uint32_t)below(&w->prng, d);
        uint32_t kept = perm[d - 1];
        perm[d - 1] = perm[other];
        perm[other] = kept;
    }
    // The input holds the transposed elements; its transpose is the operand.
    struct eng_desc stored = *desc;
    int64_t strides[ENG_RANK_MAX];
    eng_layout_strides(desc, ENG_PLAIN, strides);
    for (uint32_t d = 0; d < desc->rank; d++) {
        stored.dims[d] = desc->dims[perm[d]];
        inverse[perm[d]] = d;
    }
    float *data = base_arena_alloc(&w->rig.arena, ((size_t)count + 1) * sizeof(float));
    for (int64_t i = 0; i < count; i++) {
        int64_t rest = i;
        int64_t at = 0;
        for (uint32_t d = stored.rank; d-- > 0;) {
            at += rest % stored.dims[d] * strides[perm[d]];
            rest /= stored.dims[d];
        }
        data[i] = o.cells[at];
    }
    rig_ok(&w->rig, eng_lower_bind(w->rig.lower, w->input_count++, &stored, NULL, &o.tensor));
    w->data[o.tensor] = data;
    if (kind == 1) {
        rig_ok(&w->rig, eng_lower_transpose(w->rig.lower, o.tensor, inverse, &o.tensor));
    } else if (kind == 2 && desc->rank >= 3 && desc->rank <= 5) {
        rig_ok(&w->rig, eng_lower_channels_last(w->rig.lower, o.tensor, &o.tensor));
    }
    return o;
}

static const float *result(struct world *w, uint32_t tensor)
{
    rig_ok(&w->rig, eng_lower_plain(w->rig.lower, tensor, &tensor));
    rig_ok(&w->rig, eng_lower_real(w->rig.lower, tensor, &tensor));
    rig_ok(&w->rig, eng_program_validate(&w->rig.program, &w->rig.error));
    void **data = base_arena_zalloc(&w->rig.arena,
                                    (w->rig.program.tensor_count + RIG_VALUES) * sizeof(void *));
    assert_non_null(data);
    memcpy(data, w->data, sizeof(w->data));
    rig_ok(&w->rig, rig_execute(&w->rig.program, data, &w->rig.arena, &w->rig.error));
    return data[tensor];
}

static void compare(struct world *w, uint64_t seed, const float *got, const float *expected,
                    int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        float limit = 1e-4f * (1.0f + fabsf(expected[i]));
        if (!(fabsf(got[i] - expected[i]) <= limit)) {
            rig_print(&w->rig);
            fail_msg("seed %llu: element %lld is %g, not %g", (unsigned long long)seed,
                     (long long)i, (double)got[i], (double)expected[i]);
        }
    }
}

// Element of an operand at coordinates of a broadcast shape.
static float at_broadcast(const struct operand *o, const struct eng_desc *shape, int64_t index)
{
    int64_t from = 0;
    int64_t step = 1;
    for (uint32_t d = shape->rank; d-- > 0;) {
        int64_t at = index % shape->dims[d];
        index /= shape->dims[d];
        if (d + o->desc.rank < shape->rank) {
            continue;
        }
        int64_t size = o->desc.dims[d + o->desc.rank - shape->rank];
        from += size == 1 ? 0 : at * step;
        step *= size;
    }
    return o->cells[from];
}

static struct eng_desc random_shape(struct base_prng *prng, uint32_t rank, int64_t dim_max)
{
    struct eng_desc desc = {.dtype = ENG_F32, .rank = rank};
    for (uint32_t d = 0; d < rank; d++) {
        desc.dims[d] = 1 + below(prng, dim_max);
    }
    return desc;
}

static struct eng_desc shrink(struct base_prng *prng, const struct eng_desc *desc)
{
    struct eng_desc out = *desc;
    if (desc->rank > 0 && below(prng, 3) == 0) {
        uint32_t skip = (uint32_t)below(prng, desc->rank + 1);
        out.rank -= skip;
        memmove(out.dims, &out.dims[skip], out.rank * sizeof(int64_t));
    }
    for (uint32_t d = 0; d < out.rank; d++) {
        out.dims[d] = below(prng, 3) == 0 ? 1 : out.dims[d];
    }
    return out;
}

static void elementwise(void **state)
{
    (void)state;
    struct base_prng prng;
    test_seed(&prng);
    for (int round = 0; round < 3000; round++) {
        uint64_t seed = base_prng_next(&prng);
        struct world w;
        world_init(&w, seed);
        struct eng_desc shape = random_shape(&w.prng, (uint32_t)below(&w.prng, 6), 5);
        const struct eng_desc parts[3] = {shrink(&w.prng, &shape), shrink(&w.prng, &shape), shape};
        struct operand a = operand_of(&w, &parts[0]);
        struct operand b = operand_of(&w, &parts[1]);
        struct operand c = operand_of(&w, &shape);
        uint32_t less;
        uint32_t chosen;
        uint32_t sum;
        rig_ok(&w.rig, eng_emit_binary(w.rig.lower, ENG_LESS, a.tensor, b.tensor, &less));
        rig_ok(&w.rig, eng_emit_select(w.rig.lower, less, c.tensor, b.tensor, &chosen));
        rig_ok(&w.rig, eng_emit_binary(w.rig.lower, ENG_SUB, chosen, a.tensor, &sum));
        int64_t count = eng_desc_count(&shape);
        float *expected = base_arena_alloc(&w.rig.arena, ((size_t)count + 1) * sizeof(float));
        for (int64_t i = 0; i < count; i++) {
            float x = at_broadcast(&a, &shape, i);
            float y = at_broadcast(&b, &shape, i);
            expected[i] = (x < y ? at_broadcast(&c, &shape, i) : y) - x;
        }
        compare(&w, seed, result(&w, sum), expected, count);
        rig_done(&w.rig);
    }
}

static float product_at(const struct operand *a, bool trans_a, const struct operand *b,
                        bool trans_b, const struct eng_desc *out, int64_t index, int64_t depth)
{
    // Batch of each operand by broadcasting; the last two dims by hand.
    struct operand ma = *a;
    struct operand mb = *b;
    int64_t n = out->dims[out->rank - 1];
    int64_t m = out->dims[out->rank - 2];
    int64_t col = index % n;
    int64_t row = index / n % m;
    int64_t batch = index / n / m;
    float sum = 0;
    for (int64_t k = 0; k < depth; k++) {
        struct eng_desc shape_a = *out;
        struct eng_desc shape_b = *out;
        memcpy(&shape_a.dims[out->rank - 2], &a->desc.dims[a->desc.rank - 2], 16);
        memcpy(&shape_b.dims[out->rank - 2], &b->desc.dims[b->desc.rank - 2], 16);
        int64_t in_a = trans_a ? k * m + row : row * depth + k;
        int64_t in_b = trans_b ? col * depth + k : k * n + col;
        sum += at_broadcast(&ma, &shape_a, batch * m * depth + in_a) *
               at_broadcast(&mb, &shape_b, batch * n * depth + in_b);
    }
    return sum;
}

static void products(void **state)
{
    (void)state;
    struct base_prng prng;
    test_seed(&prng);
    for (int round = 0; round < 3000; round++) {
        uint64_t seed = base_prng_next(&prng);
        struct world w;
        world_init(&w, seed);
        uint32_t rank = 2 + (uint32_t)below(&w.prng, 7);
        struct eng_desc out = random_shape(&w.prng, rank, rank < 6 ? 4 : 2);
        int64_t depth = 1 + below(&w.prng, 5);
        struct operand operands[2];
        bool trans[2];
        for (uint32_t i = 0; i < 2; i++) {
            trans[i] = below(&w.prng, 2) == 0;
            struct eng_desc part = out;
            part.dims[rank - (trans[i] ? 1 : 2)] = i == 0 ? out.dims[rank - 2] : depth;
            part.dims[rank - (trans[i] ? 2 : 1)] = i == 0 ? depth : out.dims[rank - 1];
            for (uint32_t d = 0; d + 2 < rank; d++) {
                part.dims[d] = below(&w.prng, 4) == 0 ? 1 : part.dims[d];
            }
            uint32_t skip = (uint32_t)below(&w.prng, rank - 1);
            if (below(&w.prng, 3) == 0) {
                part.rank -= skip;
                memmove(part.dims, &part.dims[skip], part.rank * sizeof(int64_t));
            }
            operands[i] = operand_of(&w, &part);
        }
        uint32_t product;
        rig_ok(&w.rig,
               eng_emit_matmul(w.rig.lower, (struct eng_factor){operands[0].tensor, trans[0]},
                               (struct eng_factor){operands[1].tensor, trans[1]}, 0.5f, &product));
        struct eng_desc made = *eng_lower_desc(w.rig.lower, product);
        int64_t count = eng_desc_count(&made);
        assert_true(count <= eng_desc_count(&out)); // batch dims both operands lack shrink
        float *expected = base_arena_alloc(&w.rig.arena, ((size_t)count + 1) * sizeof(float));
        for (int64_t i = 0; i < count; i++) {
            expected[i] =
                0.5f * product_at(&operands[0], trans[0], &operands[1], trans[1], &made, i, depth);
        }
        compare(&w, seed, result(&w, product), expected, count);
        rig_done(&w.rig);
    }
}

static void reductions(void **state)
{
    (void)state;
    struct base_prng prng;
    test_seed(&prng);
    for (int round = 0; round < 3000; round++) {
        uint64_t seed = base_prng_next(&prng);
        struct world w;
        world_init(&w, seed);
        uint32_t rank = (uint32_t)below(&w.prng, 6);
        struct eng_desc shape = random_shape(&w.prng, rank, 4);
        struct operand x = operand_of(&w, &shape);
        uint32_t axes[ENG_RANK_MAX];
        uint32_t count = 0;
        struct eng_desc kept = shape;
        for (uint32_t d = 0; d < rank; d++) {
            if (below(&w.prng, 2) == 0) {
                axes[count++] = d;
                kept.dims[d] = 1;
            }
        }
        bool keep_dims = below(&w.prng, 2) == 0;
        uint32_t sum;
        rig_ok(&w.rig,
               eng_emit_reduce(w.rig.lower,
                               &(struct eng_reduction){ENG_REDUCE_SUM, axes, count, keep_dims},
                               x.tensor, &sum));
        assert_int_equal(eng_lower_desc(w.rig.lower, sum)->rank, keep_dims ? rank : rank - count);
        int64_t total = eng_desc_count(&kept);
        float *expected = base_arena_zalloc(&w.rig.arena, ((size_t)total + 1) * sizeof(float));
        for (int64_t i = 0; i < eng_desc_count(&shape); i++) {
            int64_t rest = i;
            int64_t to = 0;
            int64_t step = 1;
            for (uint32_t d = rank; d-- > 0;) {
                to += kept.dims[d] == 1 ? 0 : rest % shape.dims[d] * step;
                rest /= shape.dims[d];
                step *= kept.dims[d];
            }
            expected[to] += x.cells[i];
        }
        compare(&w, seed, result(&w, sum), expected, total);
        rig_done(&w.rig);
    }
}

static void softmax_over_one_axis(void **state)
{
    (void)state;
    struct base_prng prng;
    test_seed(&prng);
    for (int round = 0; round < 1000; round++) {
        uint64_t seed = base_prng_next(&prng);
        struct world w;
        world_init(&w, seed);
        uint32_t rank = 1 + (uint32_t)below(&w.prng, 5);
        struct eng_desc shape = random_shape(&w.prng, rank, 4);
        struct operand x = operand_of(&w, &shape);
        uint32_t axis = (uint32_t)below(&w.prng, rank);
        uint32_t soft;
        rig_ok(&w.rig, eng_emit_softmax(w.rig.lower, false, x.tensor,
                                        (struct eng_axis_range){axis, axis + 1}, &soft));
        int64_t inner = 1;
        for (uint32_t d = axis + 1; d < rank; d++) {
            inner *= shape.dims[d];
        }
        int64_t n = shape.dims[axis];
        int64_t count = eng_desc_count(&shape);
        float *expected = base_arena_alloc(&w.rig.arena, ((size_t)count + 1) * sizeof(float));
        for (int64_t i = 0; i < count; i++) {
            int64_t first = i / (inner * n) * inner * n + i % inner;
            float sum = 0;
            for (int64_t k = 0; k < n; k++) {
                sum += expf(x.cells[first + k * inner]);
            }
            expected[i] = expf(x.cells[i]) / sum;
        }
        compare(&w, seed, result(&w, soft), expected, count);
        rig_done(&w.rig);
    }
}

static void gather_rows(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, 1);
    const struct eng_desc shape = rig_desc(ENG_F32, 3, (const int64_t[]){2, 3, 4});
    struct operand x = operand_of(&w, &shape);
    const int64_t rows[4] = {2, 0, -1, 1};
    const struct eng_desc at = rig_desc(ENG_I64, 2, (const int64_t[]){2, 2});
    uint32_t indices;
    uint32_t out;
    rig_ok(&w.rig, eng_lower_const(w.rig.lower, &at, rows, &indices));
    rig_ok(&w.rig, eng_emit_gather(w.rig.lower, x.tensor, indices, 1, &out));
    assert_int_equal(eng_lower_desc(w.rig.lower, out)->rank, 4);
    float expected[2 * 4 * 4];
    for (int64_t i = 0; i < 32; i++) {
        int64_t row = (rows[i / 4 % 4] + 3) % 3;
        expected[i] = x.cells[i / 16 * 12 + row * 4 + i % 4];
    }
    compare(&w, 1, result(&w, out), expected, 32);
    rig_done(&w.rig);
}

static void empty_tensors(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, 1);
    struct rig *rig = &w.rig;
    uint32_t x = rig_input(rig, 0, ENG_F32, 3, (const int64_t[]){2, 0, 4});
    uint32_t y = rig_input(rig, 1, ENG_F32, 2, (const int64_t[]){4, 3});
    w.data[x] = w.data[y] = w.data;
    const uint32_t perm[3] = {2, 1, 0};
    const uint32_t axis[1] = {1};
    uint32_t out;
    rig_ok(rig, eng_lower_transpose(rig->lower, x, perm, &out));
    assert_true(eng_lower_is_known(rig->lower, out));
    rig_ok(rig, eng_lower_channels_last(rig->lower, x, &out));
    assert_int_equal(rig->program.tensors[out].layout, ENG_CHANNELS_LAST);
    rig_ok(rig, eng_emit_binary(rig->lower, ENG_ADD, x, x, &out));
    rig_ok(rig, eng_emit_matmul(rig->lower, (struct eng_factor){.tensor = x},
                                (struct eng_factor){.tensor = y}, 1, &out));
    rig_ok(rig, eng_emit_unary(rig->lower, &(struct eng_unary){ENG_NEG, 0, 0}, x, &out));
    rig_ok(rig, eng_emit_reduce(rig->lower, &(struct eng_reduction){ENG_REDUCE_SUM, axis, 1, false},
                                x, &out));
    const float zeros[8] = {0};
    compare(&w, 1, result(&w, out), zeros, 8);
    rig_done(rig);
}

static void shapes_that_do_not_fit(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig);
    struct eng_lower *l = rig.lower;
    uint32_t a = rig_input(&rig, 0, ENG_F32, 2, (const int64_t[]){3, 4});
    uint32_t b = rig_input(&rig, 1, ENG_F32, 2, (const int64_t[]){3, 5});
    uint32_t i = rig_input(&rig, 2, ENG_I64, 2, (const int64_t[]){3, 4});
    uint32_t out = 77;
    const uint32_t twice[2] = {0, 0};
    const uint32_t pair[2] = {a, b};
    const struct eng_desc huge =
        rig_desc(ENG_F32, 3, (const int64_t[]){INT64_MAX / 2, INT64_MAX / 2, 3});
    const struct eng_slice beyond_all = {
        .start = {0, INT64_MAX}, .step = {1, INT64_MAX}, .size = {1, INT64_MAX}};
    assert_int_equal(eng_emit_binary(l, ENG_ADD, a, b, &out), BASE_ERR_INVALID);
    assert_non_null(strstr(rig.error.text, "broadcast"));
    assert_int_equal(eng_emit_binary(l, ENG_ADD, a, i, &out), BASE_ERR_INVALID);
    assert_int_equal(eng_emit_matmul(l, (struct eng_factor){.tensor = a},
                                     (struct eng_factor){.tensor = b}, 1, &out),
                     BASE_ERR_INVALID);
    assert_int_equal(eng_lower_concat(l, pair, 2, 0, &out), BASE_ERR_INVALID);
    assert_int_equal(eng_lower_transpose(l, a, twice, &out), BASE_ERR_INVALID);
    assert_int_equal(eng_lower_reshape(l, a, &huge, &out), BASE_ERR_INVALID);
    assert_int_equal(eng_lower_expand(l, a, &huge, &out), BASE_ERR_INVALID);
    assert_int_equal(eng_lower_slice(l, a, &beyond_all, &out), BASE_ERR_INVALID);
    struct eng_region beyond = {
        .source = a, .rank = 1, .size = {13}, .src_stride = {1}, .dst_stride = {1}};
    assert_int_equal(eng_lower_virtual(l, eng_lower_desc(l, a), &beyond, 1, &out),
                     BASE_ERR_INVALID);
    beyond.size[0] = INT64_MAX;
    beyond.src_stride[0] = INT64_MAX;
    assert_int_equal(eng_lower_virtual(l, eng_lower_desc(l, a), &beyond, 1, &out),
                     BASE_ERR_INVALID);
    const struct eng_conv conv = {.spatial = 2,
                                  .groups = 1,
                                  .kernel = {1, 1},
                                  .stride = {1, 1},
                                  .dilation = {1, 1},
                                  .epilogue.bias = ENG_NONE};
    assert_int_equal(eng_emit_conv(l, &conv, a, b, &out), BASE_ERR_INVALID);
    assert_int_equal(out, 77);
    assert_int_equal(rig.program.command_count, 0);
    rig_done(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elementwise),
        cmocka_unit_test(products),
        cmocka_unit_test(reductions),
        cmocka_unit_test(softmax_over_one_axis),
        cmocka_unit_test(gather_rows),
        cmocka_unit_test(empty_tensors),
        cmocka_unit_test(shapes_that_do_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
