// Conv and ConvTranspose against loops over every element, with random windows.
#include "op_rig.h"

struct spot {
    uint32_t spatial;
    int64_t batch, channels, outputs, groups;
    int64_t in[3], kernel[3], stride[3], dilation[3], begin[3], end[3], extra[3], out[3];
};

static int64_t pick(struct base_prng *prng, int64_t low, int64_t high)
{
    return low + (int64_t)base_prng_below(prng, (uint64_t)(high - low + 1));
}

static struct spot random_spot(struct base_prng *prng, uint32_t spatial)
{
    struct spot s = {.spatial = spatial, .batch = pick(prng, 1, 2), .groups = pick(prng, 1, 3)};
    s.channels = s.groups * pick(prng, 1, 3);
    s.outputs = s.groups * pick(prng, 1, 3);
    for (uint32_t i = 0; i < 3; i++) {
        bool used = i < spatial;
        s.in[i] = used ? pick(prng, 4, 7) : 1;
        s.kernel[i] = used ? pick(prng, 1, 3) : 1;
        s.stride[i] = used ? pick(prng, 1, 3) : 1;
        s.dilation[i] = used ? pick(prng, 1, 2) : 1;
        s.begin[i] = used ? pick(prng, 0, 2) : 0;
        s.end[i] = used ? pick(prng, 0, 2) : 0;
    }
    return s;
}

static void dims_of(const struct spot *s, int64_t n, int64_t c, const int64_t *spatial,
                    int64_t dims[5])
{
    dims[0] = n;
    dims[1] = c;
    memcpy(dims + 2, spatial, s->spatial * sizeof *dims);
}

static int64_t volume(const int64_t *dims)
{
    return dims[0] * dims[1] * dims[2];
}

static void window_attributes(struct op_rig *rig, const struct spot *s, bool pads)
{
    int64_t both[6];
    for (uint32_t i = 0; i < s->spatial; i++) {
        both[i] = s->begin[i];
        both[s->spatial + i] = s->end[i];
    }
    op_attr_ints(rig, "strides", s->stride, s->spatial);
    op_attr_ints(rig, "dilations", s->dilation, s->spatial);
    op_attr_int(rig, "group", s->groups);
    if (pads) {
        op_attr_ints(rig, "pads", both, 2 * s->spatial);
    }
}

// y[n, m, o] = bias[m] + sum x[n, c, o*stride + k*dilation - begin] * w[m, c in group, k]
static void naive_conv(const struct spot *s, const float *x, const float *w, const float *bias,
                       double *y)
{
    int64_t per = s->channels / s->groups;
    int64_t at = 0;
    for (int64_t n = 0; n < s->batch; n++) {
        for (int64_t m = 0; m < s->outputs; m++) {
            for (int64_t o = 0; o < volume(s->out); o++) {
                double sum = bias != NULL ? (double)bias[m] : 0;
                const int64_t out[3] = {o / (s->out[1] * s->out[2]), o / s->out[2] % s->out[1],
                                        o % s->out[2]};
                for (int64_t k = 0; k < volume(s->kernel); k++) {
                    const int64_t ks[3] = {k / (s->kernel[1] * s->kernel[2]),
                                           k / s->kernel[2] % s->kernel[1], k % s->kernel[2]};
                    int64_t place = 0;
                    bool inside = true;
                    for (int i = 0; i < 3; i++) {
                        int64_t p = out[i] * s->stride[i] + ks[i] * s->dilation[i] - s->begin[i];
                        inside = inside && p >= 0 && p < s->in[i];
                        place = place * s->in[i] + p;
                    }
                    for (int64_t c = 0; inside && c < per; c++) {
                        int64_t channel = m / (s->outputs / s->groups) * per + c;
                        sum += (double)x[(n * s->channels + channel) * volume(s->in) + place] *
                               (double)w[(m * per + c) * volume(s->kernel) + k];
                    }
                }
                y[at++] = sum;
            }
        }
    }
}

static void run_conv(struct base_prng *prng, struct spot *s, const char *auto_pad, bool constant)
{
    int64_t x_dims[5];
    int64_t w_dims[5];
    int64_t y_dims[5];
    dims_of(s, s->batch, s->channels, s->in, x_dims);
    dims_of(s, s->outputs, s->channels / s->groups, s->kernel, w_dims);
    dims_of(s, s->batch, s->outputs, s->out, y_dims);
    int64_t w_count = s->outputs * (s->channels / s->groups) * volume(s->kernel);
    int64_t y_count = s->batch * s->outputs * volume(s->out);
    float *x = op_random(prng, s->batch * s->channels * volume(s->in));
    float *w = op_random(prng, w_count);
    float *bias = op_random(prng, s->outputs);
    double *want = malloc((size_t)y_count * sizeof *want);
    assert_non_null(want);
    naive_conv(s, x, w, bias, want);
    struct op_rig *rig = op_named("Conv", "x w b", "y");
    window_attributes(rig, s, auto_pad == NULL);
    if (auto_pad != NULL) {
        op_attr_text(rig, "auto_pad", auto_pad);
    }
    struct eng_array arrays[3] = {op_array(ENG_F32, x, x_dims, s->spatial + 2),
                                  op_array(ENG_F32, w, w_dims, s->spatial + 2),
                                  op_floats(bias, s->outputs)};
    op_feed(rig, "x", &arrays[0]);
    if (constant) {
        op_constant(rig, "w", &arrays[1]);
        op_constant(rig, "b", &arrays[2]);
    } else {
        op_feed(rig, "w", &arrays[1]);
        op_feed(rig, "b", &arrays[2]);
    }
    op_run_at(rig, 11);
    struct eng_array y = op_output(rig, 0);
    op_same_shape(&y, ENG_F32, y_dims, s->spatial + 2);
    op_near(&y, want, y_count, 1e-5);
    op_done(rig);
    free(x);
    free(w);
    free(bias);
    free(want);
}

static void random_convolutions(void **state)
{
    (void)state;
    struct base_prng prng;
    base_prng_seed(&prng, 11);
    print_message("seed 11\n");
    for (int round = 0; round < 60; round++) {
        struct spot s = random_spot(&prng, 1 + (uint32_t)round % 3);
        for (uint32_t i = 0; i < 3; i++) {
            s.out[i] = (s.in[i] + s.begin[i] + s.end[i] - (s.kernel[i] - 1) * s.dilation[i] - 1) /
                           s.stride[i] +
                       1;
        }
        run_conv(&prng, &s, NULL, round % 2 == 0);
    }
}

static void automatic_padding(void **state)
{
    (void)state;
    struct base_prng prng;
    base_prng_seed(&prng, 12);
    print_message("seed 12\n");
    for (int round = 0; round < 40; round++) {
        struct spot s = random_spot(&prng, 1 + (uint32_t)round % 3);
        int mode = round % 4;
        for (uint32_t i = 0; i < 3; i++) {
            int64_t reach = (s.kernel[i] - 1) * s.dilation[i] + 1;
            s.out[i] = mode == 3 ? (s.in[i] - reach) / s.stride[i] + 1
                                 : (s.in[i] + s.stride[i] - 1) / s.stride[i];
            int64_t total = (s.out[i] - 1) * s.stride[i] + reach - s.in[i];
            total = mode == 3 || total < 0 ? 0 : total;
            s.begin[i] = mode == 1 ? (total + 1) / 2 : total / 2;
            s.end[i] = total - s.begin[i];
        }
        run_conv(&prng, &s, mode == 1 ? "SAME_LOWER" : mode == 3 ? "VALID" : "SAME_UPPER", true);
    }
}

// Every input element is spread over the output.
static void naive_transpose(const struct spot *s, const float *x, const float *w, const float *bias,
                            double *y)
{
    int64_t per = s->outputs / s->groups;
    for (int64_t i = 0; i < s->batch * s->outputs * volume(s->out); i++) {
        y[i] = (double)bias[i / volume(s->out) % s->outputs];
    }
    for (int64_t n = 0; n < s->batch; n++) {
        for (int64_t c = 0; c < s->channels; c++) {
            for (int64_t i = 0; i < volume(s->in) * volume(s->kernel); i++) {
                int64_t p = i / volume(s->kernel);
                int64_t k = i % volume(s->kernel);
                const int64_t ps[3] = {p / (s->in[1] * s->in[2]), p / s->in[2] % s->in[1],
                                       p % s->in[2]};
                const int64_t ks[3] = {k / (s->kernel[1] * s->kernel[2]),
                                       k / s->kernel[2] % s->kernel[1], k % s->kernel[2]};
                int64_t place = 0;
                bool inside = true;
                for (int d = 0; d < 3; d++) {
                    int64_t o = ps[d] * s->stride[d] + ks[d] * s->dilation[d] - s->begin[d];
                    inside = inside && o >= 0 && o < s->out[d];
                    place = place * s->out[d] + o;
                }
                for (int64_t m = 0; inside && m < per; m++) {
                    int64_t channel = c / (s->channels / s->groups) * per + m;
                    y[(n * s->outputs + channel) * volume(s->out) + place] +=
                        (double)x[(n * s->channels + c) * volume(s->in) + p] *
                        (double)w[(c * per + m) * volume(s->kernel) + k];
                }
            }
        }
    }
}

enum transpose_mode { BY_PADS, BY_SHAPE, BY_AUTO_PAD, TRANSPOSE_MODES };

static void place_transposed(struct spot *s, enum transpose_mode mode, bool upper)
{
    for (uint32_t i = 0; i < s->spatial; i++) {
        int64_t full = s->stride[i] * (s->in[i] - 1) + (s->kernel[i] - 1) * s->dilation[i] + 1;
        if (mode == BY_PADS) {
            s->extra[i] = s->stride[i] > 1 ? 1 : 0;
            s->out[i] = full + s->extra[i] - s->begin[i] - s->end[i];
            continue;
        }
        s->out[i] = mode == BY_SHAPE ? full - s->begin[i] : s->in[i] * s->stride[i];
        int64_t total = full > s->out[i] ? full - s->out[i] : 0;
        s->begin[i] = upper ? total / 2 : total - total / 2;
    }
}

static void random_transposes(void **state)
{
    (void)state;
    struct base_prng prng;
    base_prng_seed(&prng, 13);
    print_message("seed 13\n");
    for (int round = 0; round < 60; round++) {
        struct spot s = random_spot(&prng, 1 + (uint32_t)round % 3);
        enum transpose_mode mode = (enum transpose_mode)(round / 3 % TRANSPOSE_MODES);
        bool upper = mode == BY_AUTO_PAD && round % 2 == 0;
        memset(s.out, 0, sizeof s.out);
        s.out[0] = s.out[1] = s.out[2] = 1;
        place_transposed(&s, mode, upper);
        if (s.out[0] < 1 || s.out[1] < 1 || s.out[2] < 1) {
            continue;
        }
        int64_t x_dims[5];
        int64_t w_dims[5];
        int64_t y_dims[5];
        dims_of(&s, s.batch, s.channels, s.in, x_dims);
        dims_of(&s, s.channels, s.outputs / s.groups, s.kernel, w_dims);
        dims_of(&s, s.batch, s.outputs, s.out, y_dims);
        int64_t y_count = s.batch * s.outputs * volume(s.out);
        float *x = op_random(&prng, s.batch * s.channels * volume(s.in));
        float *w = op_random(&prng, s.channels * (s.outputs / s.groups) * volume(s.kernel));
        float *bias = op_random(&prng, s.outputs);
        double *want = malloc((size_t)y_count * sizeof *want);
        assert_non_null(want);
        naive_transpose(&s, x, w, bias, want);
        struct op_rig *rig = op_named("ConvTranspose", "x w b", "y");
        window_attributes(rig, &s, mode == BY_PADS);
        if (mode == BY_PADS) {
            op_attr_ints(rig, "output_padding", s.extra, s.spatial);
        } else if (mode == BY_SHAPE) {
            op_attr_ints(rig, "output_shape", s.out, s.spatial);
        } else {
            op_attr_text(rig, "auto_pad", upper ? "SAME_UPPER" : "SAME_LOWER");
        }
        struct eng_array arrays[3] = {op_array(ENG_F32, x, x_dims, s.spatial + 2),
                                      op_array(ENG_F32, w, w_dims, s.spatial + 2),
                                      op_floats(bias, s.outputs)};
        op_feed(rig, "x", &arrays[0]);
        op_constant(rig, "w", &arrays[1]);
        op_constant(rig, "b", &arrays[2]);
        op_run_at(rig, 11);
        struct eng_array y = op_output(rig, 0);
        op_same_shape(&y, ENG_F32, y_dims, s.spatial + 2);
        op_near(&y, want, y_count, 1e-5);
        op_done(rig);
        free(x);
        free(w);
        free(bias);
        free(want);
    }
}

// No images: outputs of no elements, in every layout on the way.
static void empty_batches(void **state)
{
    (void)state;
    static const float w[2 * 3 * 3 * 3];
    static const float none[1];
    static const char *const ops[2] = {"Conv", "ConvTranspose"};
    for (int o = 0; o < 2; o++) {
        struct op_rig *rig = op_named(ops[o], "x w", "y");
        struct eng_array arrays[2] = {op_floats(none, 0, 3, 5, 5), op_floats(w, 2, 3, 3, 3)};
        if (o == 1) {
            arrays[0] = op_floats(none, 0, 2, 5, 5);
        }
        op_feed(rig, "x", &arrays[0]);
        op_constant(rig, "w", &arrays[1]);
        op_run_at(rig, 11);
        struct eng_array y = op_output(rig, 0);
        op_same_shape(&y, ENG_F32, OP_DIMS(0, o == 0 ? 2 : 3, o == 0 ? 3 : 7, o == 0 ? 3 : 7));
        op_done(rig);
    }
}

static struct op_rig *conv_2d(const char *attribute, const int64_t *values, size_t count,
                              const int64_t *w_dims)
{
    static float zeros[4096];
    struct op_rig *rig = op_named("Conv", "x w", "y");
    if (attribute != NULL) {
        op_attr_ints(rig, attribute, values, count);
    }
    struct eng_array x = op_floats(zeros, 1, 2, 8, 8);
    struct eng_array w = op_array(ENG_F32, zeros, w_dims, 4);
    op_feed(rig, "x", &x);
    op_feed(rig, "w", &w);
    return rig;
}

static void mistakes_are_named(void **state)
{
    (void)state;
    const int64_t good[4] = {3, 2, 3, 3};
    const int64_t thin[4] = {3, 1, 3, 3};
    const int64_t huge[4] = {3, 2, 9, 3};
    const int64_t values[5] = {0, 1, 2, 3, 4};
    const int64_t large[2] = {INT64_MAX, 1};
    op_refused(conv_2d("strides", values, 2, good), 11, BASE_ERR_INVALID, "strides");
    op_refused(conv_2d("strides", large, 2, good), 11, BASE_ERR_INVALID, "out of range");
    op_refused(conv_2d("dilations", values + 1, 3, good), 11, BASE_ERR_INVALID, "3 values");
    op_refused(conv_2d("pads", values, 5, good), 11, BASE_ERR_INVALID, "pads");
    op_refused(conv_2d("kernel_shape", values + 1, 2, good), 11, BASE_ERR_INVALID, "kernel_shape");
    op_refused(conv_2d(NULL, NULL, 0, thin), 11, BASE_ERR_INVALID, "do not fit");
    op_refused(conv_2d(NULL, NULL, 0, huge), 11, BASE_ERR_INVALID, "larger than the padded");
    static float zeros[64];
    struct eng_array x = op_floats(zeros, 1, 1, 4, 4);
    struct eng_array w = op_of(ENG_F64, zeros, 1, 1, 2, 2);
    struct op_rig *rig = op_named("Conv", "x w", "y");
    op_feed(rig, "x", &x);
    op_feed(rig, "w", &w);
    op_refused(rig, 11, BASE_ERR_INVALID, "double, expected float");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_convolutions), cmocka_unit_test(automatic_padding),
        cmocka_unit_test(random_transposes),   cmocka_unit_test(empty_batches),
        cmocka_unit_test(mistakes_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
