// Reference backend: convolution against a naive loop, its transposes and gradients through the
// identities that define them, pooling against small cases computed by hand.
#include "ref_rig.h"

#define SIZE_MAX_TEST 6000

struct conv_case {
    const char *name;
    uint32_t spatial;
    int64_t batch, channels, filters, groups;
    int64_t in[3], kernel[3], stride[3], dilation[3], pad_begin[3], pad_end[3];
};

static const struct conv_case conv_cases[] = {
    {"1d", 1, 2, 3, 4, 1, {9}, {3}, {2}, {1}, {1}, {0}},
    {"2d", 2, 2, 4, 6, 1, {7, 6}, {3, 2}, {1, 2}, {1, 1}, {1, 0}, {1, 1}},
    {"groups", 2, 1, 6, 4, 2, {5, 8}, {3, 3}, {2, 1}, {1, 2}, {0, 2}, {1, 2}},
    {"depthwise", 2, 1, 5, 5, 5, {6, 6}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {"3d", 3, 1, 2, 3, 1, {4, 5, 3}, {2, 3, 2}, {1, 2, 1}, {1, 1, 1}, {0, 1, 1}, {1, 1, 0}},
};

static int64_t out_size(const struct conv_case *c, uint32_t d)
{
    int64_t window = (c->kernel[d] - 1) * c->dilation[d] + 1;
    return (c->in[d] + c->pad_begin[d] + c->pad_end[d] - window) / c->stride[d] + 1;
}

static void dims_of(const struct conv_case *c, int64_t *x, int64_t *w, int64_t *y)
{
    x[0] = y[0] = c->batch;
    x[1] = c->channels;
    y[1] = w[0] = c->filters;
    w[1] = c->channels / c->groups;
    for (uint32_t d = 0; d < c->spatial; d++) {
        x[d + 2] = c->in[d];
        w[d + 2] = c->kernel[d];
        y[d + 2] = out_size(c, d);
    }
}

static struct eng_conv shape_of(const struct conv_case *c)
{
    struct eng_conv conv = {.spatial = c->spatial, .groups = c->groups, .epilogue = NO_EPILOGUE};
    memcpy(conv.kernel, c->kernel, sizeof(conv.kernel));
    memcpy(conv.stride, c->stride, sizeof(conv.stride));
    memcpy(conv.dilation, c->dilation, sizeof(conv.dilation));
    memcpy(conv.pad_begin, c->pad_begin, sizeof(conv.pad_begin));
    memcpy(conv.pad_end, c->pad_end, sizeof(conv.pad_end));
    return conv;
}

// The textbook loop over 3 spatial dimensions (missing ones are 1), everything PLAIN.
static double naive_at(const struct conv_case *c, const float *x, const float *w, int64_t n,
                       int64_t m, const int64_t *o)
{
    int64_t in[3], k[3], per_group = c->channels / c->groups;
    int64_t group = m / (c->filters / c->groups);
    double sum = 0;
    for (int d = 0; d < 3; d++) {
        in[d] = (uint32_t)d < c->spatial ? c->in[d] : 1;
        k[d] = (uint32_t)d < c->spatial ? c->kernel[d] : 1;
    }
    for (int64_t i = 0; i < per_group * k[0] * k[1] * k[2]; i++) {
        int64_t tap[3] = {i / k[2] / k[1] % k[0], i / k[2] % k[1], i % k[2]}, place[3] = {0};
        int64_t ch = i / (k[0] * k[1] * k[2]);
        bool inside = true;
        for (uint32_t d = 0; d < c->spatial; d++) {
            place[d] = o[d] * c->stride[d] + tap[d] * c->dilation[d] - c->pad_begin[d];
            inside = inside && place[d] >= 0 && place[d] < in[d];
        }
        if (inside) {
            int64_t at = (((n * c->channels + group * per_group + ch) * in[0] + place[0]) * in[1] +
                          place[1]) *
                             in[2] +
                         place[2];
            sum += (double)x[at] * (double)w[m * per_group * k[0] * k[1] * k[2] + i];
        }
    }
    return sum;
}

// PLAIN <-> CHANNELS_LAST of [n, c, s].
static void relayout(const float *from, float *to, int64_t n, int64_t c, int64_t s, bool to_last)
{
    for (int64_t i = 0; i < n * c * s; i++) {
        int64_t b = i / (c * s), ch = i / s % c, p = i % s, last = (b * s + p) * c + ch;
        to[to_last ? last : i] = from[to_last ? i : last];
    }
}

static int64_t volume(const int64_t *dims, uint32_t from, uint32_t to)
{
    int64_t product = 1;
    for (uint32_t d = from; d < to; d++) {
        product *= dims[d];
    }
    return product;
}

// Runs one command over a, b -> out, of which the activations are converted to `layout`.
static void run_one(const struct conv_case *c, enum eng_atomic op, enum eng_layout layout,
                    const int64_t *const *dims, const float *a, const float *b, float *out)
{
    static const bool is_weight[3][3] = {
        {false, true, false}, {false, true, false}, {false, false, true}};
    int row = op == ENG_OP_CONV ? 0 : op == ENG_OP_CONV_GRAD_WEIGHT ? 2 : 1;
    uint32_t rank = c->spatial + 2, ids[3];
    struct ref_rig rig;
    rig_init(&rig);
    for (int i = 0; i < 3; i++) {
        float converted[SIZE_MAX_TEST];
        const float *source = i == 0 ? a : b;
        bool converts = layout == ENG_CHANNELS_LAST && !is_weight[row][i];
        if (i < 2 && converts) {
            relayout(source, converted, dims[i][0], dims[i][1], volume(dims[i], 2, rank), true);
            source = converted;
        }
        ids[i] = rig_tensor(&rig, converts ? layout : ENG_PLAIN, ENG_F32, rank, dims[i],
                            i < 2 ? source : NULL);
    }
    struct eng_command *command = rig_command(&rig, op, IDS(ids[0], ids[1]), IDS(ids[2]));
    command->u.conv = shape_of(c);
    assert_int_equal(rig_run(&rig, command), BASE_OK);
    if (layout == ENG_CHANNELS_LAST && !is_weight[row][2]) {
        relayout(rig.data[ids[2]], out, dims[2][0], dims[2][1], volume(dims[2], 2, rank), false);
    } else {
        memcpy(out, rig.data[ids[2]], (size_t)volume(dims[2], 0, rank) * sizeof(float));
    }
    rig_done(&rig);
}

static double dot(const float *a, const float *b, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++) {
        sum += (double)a[i] * (double)b[i];
    }
    return sum;
}

static void assert_close(double found, double expected)
{
    if (fabs(found - expected) > 1e-4 * (1 + fabs(expected))) {
        print_error("found %.9g, expected %.9g\n", found, expected);
        fail();
    }
}

static void check_case(const struct conv_case *c, enum eng_layout layout, struct base_prng *prng)
{
    static float x[SIZE_MAX_TEST], w[SIZE_MAX_TEST], y[SIZE_MAX_TEST], dy[SIZE_MAX_TEST],
        dx[SIZE_MAX_TEST], dw[SIZE_MAX_TEST], up[SIZE_MAX_TEST];
    int64_t xd[5] = {0}, wd[5] = {0}, yd[5] = {0};
    uint32_t rank = c->spatial + 2;
    dims_of(c, xd, wd, yd);
    int64_t xn = volume(xd, 0, rank), wn = volume(wd, 0, rank), yn = volume(yd, 0, rank);
    int64_t area = volume(yd, 2, rank);
    printf("%s, layout %d\n", c->name, (int)layout);
    rig_random_f32(prng, x, (size_t)xn);
    rig_random_f32(prng, w, (size_t)wn);
    rig_random_f32(prng, dy, (size_t)yn);
    run_one(c, ENG_OP_CONV, layout, (const int64_t *const[]){xd, wd, yd}, x, w, y);
    for (int64_t i = 0; i < yn; i++) {
        int64_t flat = i % area, o[3] = {0};
        for (uint32_t d = c->spatial; d-- > 0;) {
            o[d] = flat % yd[d + 2];
            flat /= yd[d + 2];
        }
        assert_close((double)y[i],
                     naive_at(c, x, w, i / area / c->filters, i / area % c->filters, o));
    }
    // <conv(x, w), dy> is bilinear in x and w: both gradients give the same number back.
    double expected = dot(y, dy, yn);
    run_one(c, ENG_OP_CONV_GRAD_INPUT, layout, (const int64_t *const[]){yd, wd, xd}, dy, w, dx);
    assert_close(dot(x, dx, xn), expected);
    run_one(c, ENG_OP_CONV_GRAD_WEIGHT, layout, (const int64_t *const[]){xd, yd, wd}, x, dy, dw);
    assert_close(dot(w, dw, wn), expected);
    run_one(c, ENG_OP_CONV_TRANSPOSE, layout, (const int64_t *const[]){yd, wd, xd}, dy, w, up);
    assert_memory_equal(up, dx, (size_t)xn * sizeof(float));
}

static void convolutions(void **state)
{
    (void)state;
    struct base_prng prng;
    test_seed(&prng);
    for (size_t i = 0; i < TEST_COUNT(conv_cases); i++) {
        check_case(&conv_cases[i], ENG_PLAIN, &prng);
        check_case(&conv_cases[i], ENG_CHANNELS_LAST, &prng);
    }
}

static void convolution_with_epilogue(void **state)
{
    (void)state;
    struct ref_rig rig;
    rig_init(&rig);
    uint32_t x = rig_in(&rig, ENG_F32, DIMS(1, 1, 3), F32(1, 2, 3));
    uint32_t w = rig_in(&rig, ENG_F32, DIMS(2, 1, 1), F32(1, -1));
    uint32_t b = rig_in(&rig, ENG_F32, DIMS(2), F32(0.5F, 1));
    uint32_t r = rig_in(&rig, ENG_F32, DIMS(1, 2, 3), F32(0, 0, -9, 0, 2, 4));
    uint32_t y = rig_out(&rig, ENG_F32, DIMS(1, 2, 3));
    struct eng_command *command = rig_command(&rig, ENG_OP_CONV, IDS(x, w, b, r), IDS(y));
    command->u.conv = (struct eng_conv){
        .spatial = 1,
        .groups = 1,
        .kernel = {1},
        .stride = {1},
        .dilation = {1},
        .epilogue = {.bias = b, .residual = r, .has_activation = true, .activation = ENG_RELU}};
    assert_int_equal(rig_run(&rig, command), BASE_OK);
    EXPECT_F32(&rig, y, 1.5F, 2.5F, 0, 0, 1, 2);
    rig_done(&rig);
}

// --- pooling ----------------------------------------------------------------------------------

static void pool_setup(struct ref_rig *rig, struct eng_pool pool, enum eng_layout layout,
                       int64_t out_height, int64_t out_width, uint32_t *out, uint32_t *out_indices)
{
    rig_init(rig);
    uint32_t x = rig_tensor(rig, layout, ENG_F32, DIMS(1, 1, 3, 4),
                            F32(1, 5, 2, -1, 7, 3, 0, 4, -6, 8, 9, 2));
    *out = rig_tensor(rig, layout, ENG_F32, DIMS(1, 1, out_height, out_width), NULL);
    *out_indices = rig_out(rig, ENG_I64, DIMS(1, 1, out_height, out_width));
    struct eng_command *command = rig_command(rig, ENG_OP_POOL, IDS(x), IDS(*out, *out_indices));
    pool.spatial = 2;
    for (int d = 0; d < 2; d++) {
        pool.dilation[d] = pool.dilation[d] == 0 ? 1 : pool.dilation[d];
    }
    command->u.pool = pool;
    assert_int_equal(rig_run(rig, command), BASE_OK);
}

static void pooling(void **state)
{
    (void)state;
    struct ref_rig rig;
    uint32_t y = 0, indices = 0;
    for (int layout = 0; layout < 2; layout++) {
        enum eng_layout l = (enum eng_layout)layout;
        pool_setup(&rig, (struct eng_pool){.fn = ENG_POOL_MAX, .kernel = {2, 2}, .stride = {1, 2}},
                   l, 2, 2, &y, &indices);
        EXPECT_F32(&rig, y, 7, 4, 8, 9);
        EXPECT_INTS(&rig, indices, 4, 7, 9, 10);
        rig_done(&rig);
    }
    pool_setup(&rig,
               (struct eng_pool){
                   .fn = ENG_POOL_MAX, .kernel = {2, 2}, .stride = {1, 2}, .column_major = true},
               ENG_PLAIN, 2, 2, &y, &indices);
    EXPECT_INTS(&rig, indices, 1, 10, 5, 8);
    rig_done(&rig);
    pool_setup(&rig,
               (struct eng_pool){
                   .fn = ENG_POOL_MAX, .kernel = {2, 2}, .stride = {1, 1}, .dilation = {2, 3}},
               ENG_PLAIN, 1, 1, &y, &indices);
    EXPECT_F32(&rig, y, 2);
    EXPECT_INTS(&rig, indices, 11);
    rig_done(&rig);
    // A last window past the padding, as ceil_mode makes them: 3 + 0 rows, windows at 0 and 2.
    struct eng_pool average = {.fn = ENG_POOL_AVERAGE, .kernel = {2, 2}, .stride = {2, 2}};
    pool_setup(&rig, average, ENG_PLAIN, 2, 2, &y, &indices);
    EXPECT_F32(&rig, y, 4, 1.25F, 1, 5.5F);
    rig_done(&rig);
    average.pad_begin[0] = average.pad_begin[1] = average.pad_end[1] = 1;
    average.count_include_pad = true;
    pool_setup(&rig, average, ENG_PLAIN, 2, 3, &y, &indices);
    EXPECT_F32(&rig, y, 0.25F, 1.75F, -0.25F, 0.25F, 5, 1.5F);
    rig_done(&rig);
    average.count_include_pad = false;
    pool_setup(&rig, average, ENG_PLAIN, 2, 3, &y, &indices);
    EXPECT_F32(&rig, y, 1, 3.5F, -1, 0.5F, 5, 3);
    rig_done(&rig);
    pool_setup(&rig,
               (struct eng_pool){.fn = ENG_POOL_LP, .kernel = {3, 1}, .stride = {1, 1}, .p = 2},
               ENG_PLAIN, 1, 4, &y, &indices);
    EXPECT_F32(&rig, y, 9.2736185F, 9.8994949F, 9.2195445F, 4.5825757F);
    rig_done(&rig);
}

static void pooling_gradient(void **state)
{
    (void)state;
    struct ref_rig rig;
    rig_init(&rig);
    uint32_t x = rig_in(&rig, ENG_F32, DIMS(1, 1, 2, 3), F32(1, 5, 2, 7, 3, 0));
    uint32_t dy = rig_in(&rig, ENG_F32, DIMS(1, 1, 1, 2), F32(10, 100));
    uint32_t dx = rig_out(&rig, ENG_F32, DIMS(1, 1, 2, 3));
    struct eng_command *command = rig_command(&rig, ENG_OP_POOL_GRAD, IDS(x, dy), IDS(dx));
    command->u.pool = (struct eng_pool){
        .fn = ENG_POOL_MAX, .spatial = 2, .kernel = {2, 2}, .stride = {1, 1}, .dilation = {1, 1}};
    assert_int_equal(rig_run(&rig, command), BASE_OK);
    EXPECT_F32(&rig, dx, 0, 100, 0, 10, 0, 0);
    command->u.pool.fn = ENG_POOL_AVERAGE;
    assert_int_equal(rig_run(&rig, command), BASE_OK);
    EXPECT_F32(&rig, dx, 2.5F, 27.5F, 25, 2.5F, 27.5F, 25);
    rig_done(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolutions),
        cmocka_unit_test(convolution_with_epilogue),
        cmocka_unit_test(pooling),
        cmocka_unit_test(pooling_gradient),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
