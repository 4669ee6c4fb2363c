// Resizing in the forms of each opset against naive loops; windows, transforms and what looks into
// contents against numbers made another way.
#include "op_rig.h"

#include <math.h>

// --- resizing

struct resize_case {
    struct eng_desc in, out;
    float scale[4];
    bool linear, half_pixel;
};

static double read_at(const struct resize_case *c, const float *x, const int64_t *at)
{
    int64_t place[4];
    for (uint32_t d = 0; d < 4; d++) {
        place[d] = at[d] < 0 ? 0 : at[d] >= c->in.dims[d] ? c->in.dims[d] - 1 : at[d];
    }
    return (double)x[op_flat(&c->in, place)];
}

// Nearest (rounded down, or half down with half pixels) or linear in every dimension at once.
static double resized(const struct resize_case *c, const float *x, const int64_t *at)
{
    double place[4];
    int64_t low[4];
    for (uint32_t d = 0; d < 4; d++) {
        double i = (double)at[d];
        double scale = (double)c->scale[d];
        place[d] = c->half_pixel ? (i + 0.5) / scale - 0.5 : i / scale;
        low[d] = (int64_t)(c->linear || !c->half_pixel ? floor(place[d]) : ceil(place[d] - 0.5));
    }
    if (!c->linear) {
        return read_at(c, x, low);
    }
    double sum = 0;
    for (uint32_t corner = 0; corner < 16; corner++) {
        double weight = 1;
        int64_t spot[4];
        for (uint32_t d = 0; d < 4; d++) {
            double part = place[d] - (double)low[d];
            bool up = (corner >> d & 1) != 0;
            spot[d] = low[d] + up;
            weight *= up ? part : 1 - part;
        }
        sum += weight == 0 ? 0 : weight * read_at(c, x, spot);
    }
    return sum;
}

static void resizes(void **state)
{
    (void)state;
    static const float factors[] = {1, 2, 3, 0.5F, 1.5F, 0.75F};
    struct base_prng prng;
    test_seed(&prng);
    for (int round = 0; round < 160; round++) {
        struct resize_case c = {.linear = round % 2 == 0, .half_pixel = round % 5 == 4};
        struct op_rig rig;
        op_random_shape(&prng, 4, 4, 5, &c.in);
        c.out = c.in;
        int kinds = round % 3 == 0 ? 3 : 6;
        for (uint32_t d = 0; d < 4; d++) {
            c.scale[d] = d < 2 ? 1 : factors[base_prng_below(&prng, (uint64_t)kinds)];
            c.out.dims[d] = (int64_t)floor((double)c.in.dims[d] * (double)c.scale[d]);
        }
        float *x = op_numbers(eng_desc_count(&c.in));
        float *y = op_numbers(eng_desc_count(&c.out));
        int64_t at[ENG_RANK_MAX] = {0};
        for (int64_t i = 0; i < eng_desc_count(&c.out); i++, (void)op_next(&c.out, at)) {
            y[i] = (float)resized(&c, x, at);
        }
        int64_t opset = c.half_pixel ? 11 + round % 3 : (int64_t[]){7, 9, 10}[round % 3];
        op_begin(&rig, opset < 10 ? "Upsample" : "Resize", opset);
        op_attr_text(&rig, "mode", c.linear ? "linear" : "nearest");
        op_input(&rig, &c.in, x, false);
        const struct eng_desc four = op_desc(ENG_F32, 1, (int64_t[]){4});
        const struct eng_desc none = op_desc(ENG_F32, 1, (int64_t[]){0});
        if (opset == 7) {
            op_attr_floats(&rig, "scales", c.scale, 4);
        } else if (opset < 11) {
            op_input(&rig, &four, c.scale, round % 4 == 0);
        } else {
            op_input(&rig, &none, c.scale, true);
            op_input(&rig, &four, c.scale, round % 4 == 0);
        }
        op_run_ok(&rig, 1);
        op_expect_floats(&rig, 0, &c.out, y);
        if (!c.linear && kinds == 3) {
            assert_int_equal(op_kernels(&rig), 0); // whole factors only move
        }
        op_done(&rig);
        free(x);
        free(y);
    }
}

static void resizes_by_sizes(void **state)
{
    (void)state;
    const struct eng_desc in = op_desc(ENG_F32, 4, (int64_t[]){1, 1, 1, 4});
    const struct eng_desc out = op_desc(ENG_F32, 4, (int64_t[]){1, 1, 1, 8});
    const int64_t sizes[4] = {1, 1, 1, 8};
    const float wanted[2][8] = {{1, 1, 2, 2, 3, 3, 4, 4}, {1, 2, 2, 3, 3, 4, 4, 4}};
    for (int round = 0; round < 4; round++) {
        struct op_rig rig;
        op_begin(&rig, "Resize", 13);
        op_attr_text(&rig, "coordinate_transformation_mode", "asymmetric");
        op_attr_text(&rig, "nearest_mode", round < 2 ? "floor" : "ceil");
        op_input(&rig, &in, (float[]){1, 2, 3, 4}, false);
        op_absent(&rig);
        op_absent(&rig);
        op_ints(&rig, sizes, 4, round % 2 == 0);
        op_run_ok(&rig, 1);
        op_expect_floats(&rig, 0, &out, wanted[round / 2]);
        op_done(&rig);
    }
}

// --- contents

static void non_zeros(void **state)
{
    (void)state;
    struct base_prng prng;
    test_seed(&prng);
    for (int round = 0; round < 60; round++) {
        struct op_rig rig;
        struct eng_desc in;
        op_random_shape(&prng, 1, 4, 4, &in);
        int64_t total = eng_desc_count(&in);
        float *x = op_numbers(total);
        int64_t *wanted = malloc((size_t)total * in.rank * sizeof(*wanted));
        assert_non_null(wanted);
        int64_t count = 0;
        for (int64_t i = 0; i < total; i++) {
            x[i] = base_prng_below(&prng, 2) == 0 ? 0 : x[i];
            count += x[i] != 0;
        }
        int64_t at[ENG_RANK_MAX] = {0};
        int64_t next = 0;
        for (int64_t i = 0; i < total; i++, (void)op_next(&in, at)) {
            for (uint32_t d = 0; x[i] != 0 && d < in.rank; d++) {
                wanted[d * count + next] = at[d];
            }
            next += x[i] != 0;
        }
        const struct eng_desc desc = op_desc(ENG_I64, 2, (int64_t[]){in.rank, count});
        op_begin(&rig, "NonZero", 13);
        op_input(&rig, &in, x, round % 2 == 0);
        op_run_ok(&rig, 1);
        op_expect_ints(&rig, 0, &desc, wanted);
        op_done(&rig);
        free(x);
        free(wanted);
    }
}

// Values, first places, groups and counts found by comparing all pairs.
static void uniques(void **state)
{
    (void)state;
    struct base_prng prng;
    test_seed(&prng);
    for (int round = 0; round < 60; round++) {
        struct op_rig rig;
        int64_t n = 1 + (int64_t)base_prng_below(&prng, 12);
        bool sorted = round % 2 == 0;
        int64_t x[12];
        int64_t values[12];
        int64_t first[12];
        int64_t group[12];
        int64_t counts[12] = {0};
        int64_t groups = 0;
        for (int64_t i = 0; i < n; i++) {
            x[i] = (int64_t)base_prng_below(&prng, 6) - 3;
            bool seen = false;
            for (int64_t k = 0; k < i; k++) {
                seen = seen || x[k] == x[i];
            }
            if (!seen) {
                int64_t at = groups++;
                while (sorted && at > 0 && values[at - 1] > x[i]) {
                    values[at] = values[at - 1];
                    first[at] = first[at - 1];
                    at--;
                }
                values[at] = x[i];
                first[at] = i;
            }
        }
        for (int64_t i = 0; i < n; i++) {
            for (int64_t g = 0; g < groups; g++) {
                if (values[g] == x[i]) {
                    group[i] = g;
                    counts[g]++;
                }
            }
        }
        const struct eng_desc in = op_desc(ENG_I64, 1, &n);
        const struct eng_desc out = op_desc(ENG_I64, 1, &groups);
        op_begin(&rig, "Unique", 11);
        ob_attr_int(&rig.attrs, "sorted", sorted);
        op_input(&rig, &in, x, false);
        op_run_ok(&rig, 4);
        op_expect_ints(&rig, 0, &out, values);
        op_expect_ints(&rig, 1, &out, first);
        op_expect_ints(&rig, 2, &in, group);
        op_expect_ints(&rig, 3, &out, counts);
        op_done(&rig);
    }
}

// Nothing but what the definition says: by falling score, a box stays unless one kept before covers
// it by more than the threshold.
static void suppressions(void **state)
{
    (void)state;
    struct base_prng prng;
    test_seed(&prng);
    for (int round = 0; round < 60; round++) {
        struct op_rig rig;
        float boxes[10][4];
        float scores[10];
        int64_t kept[10];
        int64_t count = 0;
        const float threshold = 0.3F;
        const int64_t most = 1 + (int64_t)base_prng_below(&prng, 6);
        for (int i = 0; i < 10; i++) {
            for (int k = 0; k < 2; k++) {
                boxes[i][k] = (float)base_prng_below(&prng, 10);
                boxes[i][k + 2] = boxes[i][k] + 1 + (float)base_prng_below(&prng, 6);
            }
            scores[i] = (float)((i * 7) % 10) / 10;
        }
        for (int rank = 9; rank >= 0 && count < most; rank--) {
            int i = 0;
            while ((i * 7) % 10 != rank) {
                i++;
            }
            bool covered = false;
            for (int64_t k = 0; k < count; k++) {
                const float *a = boxes[i];
                const float *b = boxes[kept[k]];
                float h = fminf(a[2], b[2]) - fmaxf(a[0], b[0]);
                float w = fminf(a[3], b[3]) - fmaxf(a[1], b[1]);
                float both = h > 0 && w > 0 ? h * w : 0;
                float all = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - both;
                covered = covered || both / all > threshold;
            }
            if (!covered) {
                kept[count++] = i;
            }
        }
        int64_t wanted[30];
        for (int64_t k = 0; k < count; k++) {
            wanted[3 * k] = 0;
            wanted[3 * k + 1] = 0;
            wanted[3 * k + 2] = kept[k];
        }
        const struct eng_desc box_desc = op_desc(ENG_F32, 3, (int64_t[]){1, 10, 4});
        const struct eng_desc score_desc = op_desc(ENG_F32, 3, (int64_t[]){1, 1, 10});
        const struct eng_desc one = op_desc(ENG_F32, 1, (int64_t[]){1});
        const struct eng_desc out = op_desc(ENG_I64, 2, (int64_t[]){count, 3});
        op_begin(&rig, "NonMaxSuppression", 11);
        op_input(&rig, &box_desc, boxes, false);
        op_input(&rig, &score_desc, scores, false);
        op_ints(&rig, &most, 1, round % 2 == 0);
        op_input(&rig, &one, &threshold, round % 3 == 0);
        op_run_ok(&rig, 1);
        op_expect_ints(&rig, 0, &out, wanted);
        op_done(&rig);
    }
}

// --- spectra

// A transform and its inverse give the signal back; one frame of it is summed by hand.
static void transforms(void **state)
{
    (void)state;
    struct base_prng prng;
    test_seed(&prng);
    for (int round = 0; round < 30; round++) {
        int64_t n = 1 + (int64_t)base_prng_below(&prng, 9);
        int64_t length = round % 3 == 0 ? n : 1 + (int64_t)base_prng_below(&prng, 12);
        bool onesided = round % 2 == 0;
        bool inverse = !onesided && round % 4 == 1;
        int64_t parts = 1 + round % 2;
        int64_t results = onesided ? length / 2 + 1 : length;
        const struct eng_desc in = op_desc(ENG_F32, 4, (int64_t[]){2, n, 3, parts});
        const struct eng_desc out = op_desc(ENG_F32, 4, (int64_t[]){2, results, 3, 2});
        float *x = op_numbers(eng_desc_count(&in));
        float *y = op_numbers(eng_desc_count(&out));
        for (int64_t i = 0; i < eng_desc_count(&in); i++) {
            x[i] = (float)base_prng_unit(&prng) - 0.5F;
        }
        for (int64_t i = 0; i < 6 * results; i++) {
            int64_t b = i / 3 / results;
            int64_t k = i / 3 % results;
            int64_t c = i % 3;
            double real = 0;
            double imaginary = 0;
            for (int64_t t = 0; t < (n < length ? n : length); t++) {
                double angle =
                    (inverse ? 2 : -2) * 3.14159265358979323846 * (double)(t * k) / (double)length;
                const float *at = x + ((b * n + t) * 3 + c) * parts;
                double re = (double)at[0];
                double im = parts == 2 ? (double)at[1] : 0;
                real += re * cos(angle) - im * sin(angle);
                imaginary += re * sin(angle) + im * cos(angle);
            }
            double scale = inverse ? (double)length : 1;
            y[((b * results + k) * 3 + c) * 2] = (float)(real / scale);
            y[((b * results + k) * 3 + c) * 2 + 1] = (float)(imaginary / scale);
        }
        struct op_rig rig;
        op_begin(&rig, "DFT", 17);
        ob_attr_int(&rig.attrs, "axis", 1);
        ob_attr_int(&rig.attrs, "onesided", onesided);
        ob_attr_int(&rig.attrs, "inverse", inverse);
        op_input(&rig, &in, x, false);
        op_scalar(&rig, ENG_I64, &length, round % 3 != 1);
        op_run_ok(&rig, 1);
        op_expect_floats(&rig, 0, &out, y);
        op_done(&rig);
        free(x);
        free(y);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resizes), cmocka_unit_test(resizes_by_sizes), cmocka_unit_test(non_zeros),
        cmocka_unit_test(uniques), cmocka_unit_test(suppressions),     cmocka_unit_test(transforms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
