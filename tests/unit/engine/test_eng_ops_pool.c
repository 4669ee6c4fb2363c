// Pools against loops over every window: maximum with positions, average, Lp norm, ceil mode,
// dilation, padding; global pools; unpooling; regions of interest; determinants.
#include "op_rig.h"

#include <float.h>

enum pool_kind { POOL_MAX, POOL_AVERAGE, POOL_LP };

struct spot {
    enum pool_kind kind;
    uint32_t spatial;
    int64_t batch, channels, p;
    int64_t in[3], kernel[3], stride[3], dilation[3], begin[3], end[3], out[3];
    bool ceil_mode, count_pad, column_major;
};

static int64_t pick(struct base_prng *prng, int64_t low, int64_t high)
{
    return low + (int64_t)base_prng_below(prng, (uint64_t)(high - low + 1));
}

static int64_t volume(const int64_t *dims)
{
    return dims[0] * dims[1] * dims[2];
}

static void split(int64_t index, const int64_t *dims, int64_t out[3])
{
    out[0] = index / (dims[1] * dims[2]);
    out[1] = index / dims[2] % dims[1];
    out[2] = index % dims[2];
}

static struct spot random_spot(struct base_prng *prng, int round)
{
    struct spot s = {.kind = (enum pool_kind)(round % 3), .spatial = 1 + (uint32_t)(round / 3 % 3)};
    s.batch = pick(prng, 1, 2);
    s.channels = pick(prng, 1, 5);
    s.p = pick(prng, 1, 3);
    s.ceil_mode = s.kind != POOL_LP && pick(prng, 0, 1) == 1;
    s.count_pad = s.kind == POOL_AVERAGE && pick(prng, 0, 1) == 1;
    s.column_major = s.kind == POOL_MAX && pick(prng, 0, 1) == 1;
    for (uint32_t i = 0; i < 3; i++) {
        bool used = i < s.spatial;
        s.in[i] = used ? pick(prng, 5, 9) : 1;
        s.kernel[i] = used ? pick(prng, 2, 3) : 1;
        s.stride[i] = used ? pick(prng, 1, 3) : 1;
        s.dilation[i] = used && s.kind == POOL_MAX ? pick(prng, 1, 2) : 1;
        s.begin[i] = used ? pick(prng, 0, 1) : 0;
        s.end[i] = used ? pick(prng, 0, 1) : 0;
        int64_t room = s.in[i] + s.begin[i] + s.end[i] - (s.kernel[i] - 1) * s.dilation[i] - 1;
        s.out[i] = room / s.stride[i] + 1;
        if (s.ceil_mode && room % s.stride[i] != 0 &&
            s.out[i] * s.stride[i] < s.in[i] + s.begin[i]) {
            s.out[i]++;
        }
    }
    return s;
}

// One window; *position is where its maximum lies in the input, in the order asked for.
static double naive_window(const struct spot *s, const float *x, const int64_t out[3],
                           int64_t *position)
{
    double best = -DBL_MAX;
    double sum = 0;
    int64_t inside_count = 0;
    int64_t padded_count = 0;
    for (int64_t k = 0; k < volume(s->kernel); k++) {
        int64_t ks[3];
        int64_t p[3];
        bool inside = true;
        bool padded = true;
        split(k, s->kernel, ks);
        for (int i = 0; i < 3; i++) {
            p[i] = out[i] * s->stride[i] + ks[i] * s->dilation[i] - s->begin[i];
            inside = inside && p[i] >= 0 && p[i] < s->in[i];
            padded = padded && p[i] < s->in[i] + s->end[i];
        }
        padded_count += padded;
        if (!inside) {
            continue;
        }
        inside_count++;
        double value = (double)x[(p[0] * s->in[1] + p[1]) * s->in[2] + p[2]];
        sum += s->kind == POOL_LP ? pow(fabs(value), (double)s->p) : value;
        if (value > best) {
            best = value;
            *position = s->column_major ? (p[2] * s->in[1] + p[1]) * s->in[0] + p[0]
                                        : (p[0] * s->in[1] + p[1]) * s->in[2] + p[2];
        }
    }
    if (s->kind == POOL_MAX) {
        return best;
    }
    if (s->kind == POOL_LP) {
        return pow(sum, 1.0 / (double)s->p);
    }
    return sum / (double)(s->count_pad ? padded_count : inside_count);
}

static struct op_rig *pool_rig(const struct spot *s, const float *x)
{
    static const char *const ops[3] = {"MaxPool", "AveragePool", "LpPool"};
    struct op_rig *rig = op_named(ops[s->kind], "x", s->kind == POOL_MAX ? "y i" : "y");
    int64_t pads[6];
    int64_t dims[5] = {s->batch, s->channels};
    memcpy(dims + 2, s->in, s->spatial * sizeof *dims);
    for (uint32_t i = 0; i < s->spatial; i++) {
        pads[i] = s->begin[i];
        pads[s->spatial + i] = s->end[i];
    }
    op_attr_ints(rig, "kernel_shape", s->kernel, s->spatial);
    op_attr_ints(rig, "strides", s->stride, s->spatial);
    op_attr_ints(rig, "pads", pads, 2 * s->spatial);
    if (s->kind == POOL_MAX) {
        op_attr_ints(rig, "dilations", s->dilation, s->spatial);
        op_attr_int(rig, "storage_order", s->column_major);
    }
    op_attr_int(rig, s->kind == POOL_LP ? "p" : "ceil_mode",
                s->kind == POOL_LP ? s->p : s->ceil_mode);
    if (s->kind == POOL_AVERAGE) {
        op_attr_int(rig, "count_include_pad", s->count_pad);
    }
    struct eng_array array = op_array(ENG_F32, x, dims, s->spatial + 2);
    op_feed(rig, "x", &array);
    return rig;
}

static void random_pools(void **state)
{
    (void)state;
    struct base_prng prng;
    base_prng_seed(&prng, 21);
    print_message("seed 21\n");
    for (int round = 0; round < 90; round++) {
        struct spot s = random_spot(&prng, round);
        int64_t planes = s.batch * s.channels;
        int64_t count = planes * volume(s.out);
        float *x = op_random(&prng, planes * volume(s.in));
        double *want = malloc((size_t)count * sizeof *want);
        int64_t *where = malloc((size_t)count * sizeof *where);
        assert_non_null(want);
        assert_non_null(where);
        for (int64_t i = 0; i < count; i++) {
            int64_t out[3];
            int64_t plane = i / volume(s.out);
            split(i % volume(s.out), s.out, out);
            where[i] = 0;
            want[i] = naive_window(&s, x + plane * volume(s.in), out, &where[i]);
            where[i] += plane * volume(s.in);
        }
        struct op_rig *rig = pool_rig(&s, x);
        op_run_at(rig, 12);
        struct eng_array y = op_output(rig, 0);
        int64_t dims[5] = {s.batch, s.channels};
        memcpy(dims + 2, s.out, s.spatial * sizeof *dims);
        op_same_shape(&y, ENG_F32, dims, s.spatial + 2);
        op_near(&y, want, count, 1e-5);
        if (s.kind == POOL_MAX) {
            struct eng_array i = op_output(rig, 1);
            op_same_shape(&i, ENG_I64, dims, s.spatial + 2);
            assert_memory_equal(i.data, where, (size_t)count * sizeof *where);
        }
        op_done(rig);
        free(x);
        free(want);
        free(where);
    }
}

static void bytes_have_a_maximum(void **state)
{
    (void)state;
    static const uint8_t x[6] = {3, 200, 7, 9, 255, 0};
    static const uint8_t want[4] = {200, 9, 255, 255};
    const int64_t kernel = 2;
    const int64_t stride = 1;
    struct op_rig *rig = op_named("MaxPool", "x", "y");
    op_attr_ints(rig, "kernel_shape", &kernel, 1);
    op_attr_ints(rig, "strides", &stride, 1);
    struct eng_array array = op_of(ENG_U8, x, 1, 1, 6);
    op_feed(rig, "x", &array);
    op_run_at(rig, 12);
    struct eng_array y = op_output(rig, 0);
    op_same_shape(&y, ENG_U8, OP_DIMS(1, 1, 5));
    assert_int_equal(((const uint8_t *)y.data)[0], want[0]);
    assert_int_equal(((const uint8_t *)y.data)[2], want[1]);
    assert_memory_equal((const uint8_t *)y.data + 3, want + 2, 2);
    op_done(rig);
}

static void global_pools(void **state)
{
    (void)state;
    static const char *const ops[] = {"GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool",
                                      "GlobalLpPool", "GlobalLpPool"};
    struct base_prng prng;
    base_prng_seed(&prng, 22);
    print_message("seed 22\n");
    float *x = op_random(&prng, 2 * 3 * 20);
    for (size_t o = 0; o < TEST_COUNT(ops); o++) {
        int64_t p = (int64_t)o - 1; // 1, 2, 3 for the Lp ones
        double want[6];
        for (int i = 0; i < 6; i++) {
            double sum = 0;
            double best = -DBL_MAX;
            double norm = 0;
            for (int k = 0; k < 20; k++) {
                double value = (double)x[i * 20 + k];
                sum += value;
                best = value > best ? value : best;
                norm += pow(fabs(value), (double)p);
            }
            want[i] = o == 0 ? sum / 20 : o == 1 ? best : pow(norm, 1.0 / (double)p);
        }
        struct op_rig *rig = op_named(ops[o], "x", "y");
        if (o > 1) {
            op_attr_int(rig, "p", p);
        }
        struct eng_array array = op_floats(x, 2, 3, 4, 5);
        op_feed(rig, "x", &array);
        op_run_at(rig, 9);
        struct eng_array y = op_output(rig, 0);
        op_same_shape(&y, ENG_F32, OP_DIMS(2, 3, 1, 1));
        op_near(&y, want, 6, 1e-5);
        op_done(rig);
    }
    free(x);
}

// What MaxPool took apart, MaxUnpool puts back: the maxima in place, zeros elsewhere.
static void unpooling_restores_the_places(void **state)
{
    (void)state;
    static const float values[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    static const int64_t places[8] = {0, 3, 8, 14, 17, 18, 24, 31};
    static const int64_t output_shape[4] = {2, 1, 5, 6};
    const int64_t window[2] = {2, 2};
    for (int larger = 0; larger < 2; larger++) {
        double want[60] = {0};
        int64_t height = larger ? 5 : 4;
        int64_t width = larger ? 6 : 4;
        for (int i = 0; i < 8; i++) {
            int64_t plane = places[i] / 16;
            int64_t row = places[i] % 16 / 4;
            want[(plane * height + row) * width + places[i] % 4] = (double)values[i];
        }
        struct op_rig *rig = op_named("MaxUnpool", larger ? "x i s" : "x i", "y");
        op_attr_ints(rig, "kernel_shape", window, 2);
        op_attr_ints(rig, "strides", window, 2);
        struct eng_array arrays[3] = {op_floats(values, 2, 1, 2, 2),
                                      op_of(ENG_I64, places, 2, 1, 2, 2),
                                      op_of(ENG_I64, output_shape, 4)};
        op_feed(rig, "x", &arrays[0]);
        op_feed(rig, "i", &arrays[1]);
        if (larger) {
            op_feed(rig, "s", &arrays[2]);
        }
        op_run_at(rig, 11);
        struct eng_array y = op_output(rig, 0);
        op_same_shape(&y, ENG_F32, OP_DIMS(2, 1, height, width));
        op_near(&y, want, 2 * height * width, 0);
        op_done(rig);
    }
}

static void determinants(void **state)
{
    (void)state;
    static const float x[12] = {1, 2, 3, 4, 2, 0, 0, 5, 0, 1, 1, 0};
    static const double want[3] = {-2, 10, -1};
    struct op_rig *rig = op_named("Det", "x", "y");
    struct eng_array array = op_floats(x, 3, 2, 2);
    op_feed(rig, "x", &array);
    op_run_at(rig, 11);
    struct eng_array y = op_output(rig, 0);
    op_same_shape(&y, ENG_F32, OP_DIMS(3));
    op_near(&y, want, 3, 1e-6);
    op_done(rig);
    rig = op_named("Det", "x", "y");
    array = op_floats(x, 3, 4);
    op_feed(rig, "x", &array);
    op_refused(rig, 11, BASE_ERR_INVALID, "square");
}

// Two regions of a plane that counts upwards: the maximum of a bin is its last element.
static void regions_of_interest(void **state)
{
    (void)state;
    float x[64];
    for (int i = 0; i < 64; i++) {
        x[i] = (float)i;
    }
    static const float rois[10] = {0, 0, 0, 7, 7, 0, 4, 4, 7, 7};
    static const double want[8] = {27, 31, 59, 63, 45, 47, 61, 63};
    const int64_t shape[2] = {2, 2};
    struct op_rig *rig = op_named("MaxRoiPool", "x r", "y");
    op_attr_ints(rig, "pooled_shape", shape, 2);
    struct eng_array arrays[2] = {op_floats(x, 1, 1, 8, 8), op_floats(rois, 2, 5)};
    op_feed(rig, "x", &arrays[0]);
    op_feed(rig, "r", &arrays[1]);
    op_run_at(rig, 9);
    struct eng_array y = op_output(rig, 0);
    op_same_shape(&y, ENG_F32, OP_DIMS(2, 1, 2, 2));
    op_near(&y, want, 8, 0);
    op_done(rig);
}

static void mistakes_are_named(void **state)
{
    (void)state;
    static const float x[16];
    const int64_t kernel[2] = {2, 2};
    struct eng_array array = op_floats(x, 1, 1, 4, 4);
    struct op_rig *rig = op_named("MaxPool", "x", "y");
    op_feed(rig, "x", &array);
    op_refused(rig, 12, BASE_ERR_INVALID, "kernel_shape is missing");
    rig = op_named("AveragePool", "x", "y");
    op_attr_ints(rig, "kernel_shape", kernel, 2);
    op_attr_text(rig, "auto_pad", "SOMEHOW");
    op_feed(rig, "x", &array);
    op_refused(rig, 11, BASE_ERR_INVALID, "SOMEHOW");
    rig = op_named("LpPool", "x", "y");
    op_attr_ints(rig, "kernel_shape", kernel, 2);
    op_attr_int(rig, "p", 0);
    op_feed(rig, "x", &array);
    op_refused(rig, 11, BASE_ERR_INVALID, "attribute p is 0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_pools),       cmocka_unit_test(bytes_have_a_maximum),
        cmocka_unit_test(global_pools),       cmocka_unit_test(unpooling_restores_the_places),
        cmocka_unit_test(determinants),       cmocka_unit_test(regions_of_interest),
        cmocka_unit_test(mistakes_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
