// Reductions over every set of axes, softmax before and after opset 13, positions of extremes,
// one-hot maxima, the k largest; losses, which are made of them.
#include "op_rig.h"

#include <float.h>

static const int64_t shape[4] = {2, 3, 2, 4};
#define COUNT 48

static void where_is(int64_t index, int64_t at[4])
{
    for (int i = 3; i >= 0; i--) {
        at[i] = index % shape[i];
        index /= shape[i];
    }
}

enum { L1, L2, LOG_SUM, LOG_SUM_EXP, MAX, MEAN, MIN, PROD, SUM, SUM_SQUARE, REDUCTIONS };
static const char *const reduction_names[REDUCTIONS] = {
    "ReduceL1",   "ReduceL2",  "ReduceLogSum", "ReduceLogSumExp", "ReduceMax",
    "ReduceMean", "ReduceMin", "ReduceProd",   "ReduceSum",       "ReduceSumSquare"};

static void naive_reduce(int fn, const float *x, unsigned axes, double *out, int64_t *out_count)
{
    int64_t per = 1;
    double seed = fn == MAX ? -DBL_MAX : fn == MIN ? DBL_MAX : fn == PROD ? 1 : 0;
    *out_count = 1;
    for (int i = 0; i < 4; i++) {
        *((axes >> i) & 1 ? &per : out_count) *= shape[i];
    }
    for (int64_t i = 0; i < *out_count; i++) {
        out[i] = seed;
    }
    for (int64_t i = 0; i < COUNT; i++) {
        int64_t at[4];
        int64_t o = 0;
        double v = (double)x[i];
        where_is(i, at);
        for (int d = 0; d < 4; d++) {
            o = (axes >> d) & 1 ? o : o * shape[d] + at[d];
        }
        switch (fn) {
        case L1:
            out[o] += fabs(v);
            break;
        case L2:
        case SUM_SQUARE:
            out[o] += v * v;
            break;
        case LOG_SUM_EXP:
            out[o] += exp(v);
            break;
        case MAX:
            out[o] = v > out[o] ? v : out[o];
            break;
        case MIN:
            out[o] = v < out[o] ? v : out[o];
            break;
        case PROD:
            out[o] *= v;
            break;
        default:
            out[o] += v;
            break;
        }
    }
    for (int64_t i = 0; i < *out_count; i++) {
        out[i] = fn == L2                             ? sqrt(out[i])
                 : fn == LOG_SUM || fn == LOG_SUM_EXP ? log(out[i])
                 : fn == MEAN                         ? out[i] / (double)per
                                                      : out[i];
    }
}

static void every_set_of_axes(void **state)
{
    (void)state;
    struct base_prng prng;
    base_prng_seed(&prng, 61);
    print_message("seed 61\n");
    float x[COUNT];
    for (int i = 0; i < COUNT; i++) {
        x[i] = (float)(0.5 + base_prng_unit(&prng));
    }
    for (int fn = 0; fn < REDUCTIONS; fn++) {
        for (unsigned axes = 1; axes < 16; axes++) {
            bool keep = (axes + (unsigned)fn) % 2 == 0;
            bool as_input = fn == SUM && axes % 3 == 0;
            double want[COUNT];
            int64_t count;
            int64_t list[4];
            size_t listed = 0;
            int64_t dims[4];
            size_t rank = 0;
            naive_reduce(fn, x, axes, want, &count);
            for (int i = 3; i >= 0; i--) { // in descending order, some from the end
                if ((axes >> i) & 1) {
                    list[listed++] = i % 2 == 0 ? i : i - 4;
                }
            }
            for (int i = 0; i < 4; i++) {
                if (!((axes >> i) & 1) || keep) {
                    dims[rank++] = (axes >> i) & 1 ? 1 : shape[i];
                }
            }
            struct op_rig *rig = op_named(reduction_names[fn], as_input ? "x a" : "x", "y");
            op_attr_int(rig, "keepdims", keep);
            if (!as_input && axes != 15) { // all axes are the default
                op_attr_ints(rig, "axes", list, listed);
            }
            struct eng_array arrays[2] = {op_array(ENG_F32, x, shape, 4),
                                          op_of(ENG_I64, list, (int64_t)listed)};
            op_feed(rig, "x", &arrays[0]);
            if (as_input) {
                (axes % 2 ? op_constant : op_feed)(rig, "a", &arrays[1]);
            }
            op_run_at(rig, as_input ? 13 : 11);
            struct eng_array y = op_output(rig, 0);
            op_same_shape(&y, ENG_F32, dims, rank);
            op_near(&y, want, count, 2e-6);
            op_done(rig);
        }
    }
}

static void no_axes(void **state)
{
    (void)state;
    static const float x[2] = {1, 2};
    struct op_rig *rig = op_named("ReduceSum", "x", "y");
    op_attr_int(rig, "noop_with_empty_axes", 1);
    struct eng_array array = op_floats(x, 2);
    op_feed(rig, "x", &array);
    op_run_at(rig, 13);
    struct eng_array y = op_output(rig, 0);
    op_same_shape(&y, ENG_F32, OP_DIMS(2));
    op_done(rig);
    const int64_t twice[2] = {0, -1};
    rig = op_named("ReduceMax", "x", "y");
    op_attr_ints(rig, "axes", twice, 2);
    op_feed(rig, "x", &array);
    op_refused(rig, 11, BASE_ERR_INVALID, "listed twice");
    const int64_t beyond = 1;
    rig = op_named("ReduceMax", "x", "y");
    op_attr_ints(rig, "axes", &beyond, 1);
    op_feed(rig, "x", &array);
    op_refused(rig, 11, BASE_ERR_INVALID, "axis");
}

// The extreme of nothing is the other end of the type.
static void nothing_to_reduce(void **state)
{
    (void)state;
    static const int32_t none[1];
    for (int is_max = 0; is_max < 2; is_max++) {
        struct op_rig *rig = op_named(is_max ? "ReduceMax" : "ReduceMin", "x", "y");
        const int64_t axis = 1;
        op_attr_ints(rig, "axes", &axis, 1);
        struct eng_array array = op_of(ENG_I32, none, 2, 0);
        op_feed(rig, "x", &array);
        op_run_at(rig, 13);
        struct eng_array y = op_output(rig, 0);
        op_same_shape(&y, ENG_I32, OP_DIMS(2, 1));
        assert_int_equal(((const int32_t *)y.data)[1], is_max ? INT32_MIN : INT32_MAX);
        op_done(rig);
    }
}

// Before opset 13 the axes from `axis` on are one; since, `axis` alone.
static void softmax_changed_its_axes(void **state)
{
    (void)state;
    static const char *const ops[3] = {"Softmax", "LogSoftmax", "Hardmax"};
    struct base_prng prng;
    base_prng_seed(&prng, 62);
    print_message("seed 62\n");
    float *x = op_random(&prng, COUNT);
    for (int form = 0; form < 30; form++) {
        int op = form % 3;
        bool modern = form / 3 % 2 == 1;
        int64_t axis = form / 6; // 4: the default
        int64_t at = axis < 4 ? axis : modern ? 3 : 1;
        int64_t inner = 1;
        int64_t n = 1;
        for (int i = 0; i < 4; i++) {
            n *= (modern ? i == at : i >= at) ? shape[i] : 1;
            inner *= modern && i > at ? shape[i] : 1;
        }
        double want[COUNT];
        for (int64_t i = 0; i < COUNT; i++) {
            int64_t base = i / (n * inner) * (n * inner) + i % inner;
            int64_t best = 0;
            double sum = 0;
            for (int64_t k = 0; k < n; k++) {
                sum += exp((double)x[base + k * inner]);
                best = x[base + k * inner] > x[base + best * inner] ? k : best;
            }
            want[i] = op == 0   ? exp((double)x[i]) / sum
                      : op == 1 ? (double)x[i] - log(sum)
                                : (i - base) / inner == best;
        }
        struct op_rig *rig = op_named(ops[op], "x", "y");
        if (axis < 4) {
            op_attr_int(rig, "axis", axis % 2 == 0 ? axis : axis - 4);
        }
        struct eng_array array = op_array(ENG_F32, x, shape, 4);
        op_feed(rig, "x", &array);
        op_run_at(rig, modern ? 13 : 11);
        struct eng_array y = op_output(rig, 0);
        op_same_shape(&y, ENG_F32, shape, 4);
        op_near(&y, want, COUNT, 1e-6);
        op_done(rig);
    }
    free(x);
}

static void positions_of_extremes(void **state)
{
    (void)state;
    static const float x[12] = {1, 5, 5, 2, 7, 0, 7, 1, 3, 3, 3, 3};
    static const int64_t first[3] = {1, 0, 0};
    static const int64_t last[3] = {2, 2, 3};
    static const int64_t least[4] = {0, 1, 2, 1};
    for (int64_t form = 0; form < 3; form++) {
        struct op_rig *rig = op_named(form == 2 ? "ArgMin" : "ArgMax", "x", "y");
        op_attr_int(rig, "axis", form == 2 ? 0 : -1);
        op_attr_int(rig, "keepdims", form == 0);
        if (form == 1) {
            op_attr_int(rig, "select_last_index", 1);
        }
        struct eng_array array = op_floats(x, 3, 4);
        op_feed(rig, "x", &array);
        op_run_at(rig, 12);
        struct eng_array y = op_output(rig, 0);
        if (form == 0) {
            op_same_shape(&y, ENG_I64, OP_DIMS(3, 1));
        } else {
            op_same_shape(&y, ENG_I64, OP_DIMS(form == 2 ? 4 : 3));
        }
        const int64_t *want = form == 0 ? first : form == 1 ? last : least;
        assert_memory_equal(y.data, want, (form == 2 ? 4 : 3) * sizeof *want);
        op_done(rig);
    }
}

static void k_largest(void **state)
{
    (void)state;
    static const float x[8] = {3, 1, 4, 1, 5, 9, 2, 6};
    static const double largest[4] = {4, 3, 9, 6};
    static const double smallest[4] = {1, 1, 2, 5};
    static const int64_t largest_at[4] = {2, 0, 1, 3};
    static const int64_t k = 2;
    struct eng_array arrays[2] = {op_floats(x, 2, 4), op_of(ENG_I64, &k, 1)};
    for (int form = 0; form < 3; form++) {
        struct op_rig *rig = op_named("TopK", form == 0 ? "x" : "x k", "y i");
        if (form == 0) {
            op_attr_int(rig, "k", 2);
        }
        if (form == 2) {
            op_attr_int(rig, "largest", 0);
        }
        op_feed(rig, "x", &arrays[0]);
        if (form > 0) {
            (form == 1 ? op_constant : op_feed)(rig, "k", &arrays[1]);
        }
        op_run_at(rig, form == 0 ? 9 : 11);
        struct eng_array y = op_output(rig, 0);
        struct eng_array i = op_output(rig, 1);
        op_same_shape(&y, ENG_F32, OP_DIMS(2, 2));
        op_near(&y, form == 2 ? smallest : largest, 4, 0);
        if (form < 2) {
            assert_memory_equal(i.data, largest_at, sizeof largest_at);
        }
        op_done(rig);
    }
    struct op_rig *rig = op_named("TopK", "x", "y i");
    op_attr_int(rig, "k", 5);
    op_feed(rig, "x", &arrays[0]);
    op_refused(rig, 9, BASE_ERR_INVALID, "K is 5 on an axis of 4");
}

// Negative log likelihood and cross entropy: scores [2, 3, 2], targets [2, 2].
static void losses(void **state)
{
    (void)state;
    static const char *const reductions[3] = {"none", "sum", "mean"};
    static const int64_t targets[4] = {2, -7, 0, 1};
    static const int64_t plain[4] = {2, 1, 0, 1};
    static const float weights[3] = {0.5f, 2, 3};
    struct base_prng prng;
    base_prng_seed(&prng, 63);
    print_message("seed 63\n");
    float *x = op_random(&prng, 12);
    for (int form = 0; form < 24; form++) {
        int reduction = form % 3;
        bool weighted = form / 3 % 2 == 1;
        bool ignoring = form / 6 % 2 == 1;
        bool entropy = form >= 12;
        double loss[4];
        double total = 0;
        double mass = 0;
        double logs[12];
        for (int i = 0; i < 12; i++) {
            double sum = 0;
            for (int c = 0; c < 3; c++) {
                sum += exp((double)x[i / 6 * 6 + c * 2 + i % 2]);
            }
            logs[i] = entropy ? (double)x[i] - log(sum) : (double)x[i];
        }
        for (int i = 0; i < 4; i++) {
            int64_t target = ignoring ? targets[i] : plain[i];
            bool ignored = target < 0;
            double weight = ignored ? 0 : weighted ? (double)weights[target] : 1;
            loss[i] = ignored ? 0 : -logs[i / 2 * 6 + target * 2 + i % 2] * weight;
            total += loss[i];
            mass += weight;
        }
        double want = reduction == 1 ? total : total / mass;
        struct op_rig *rig =
            op_named(entropy ? "SoftmaxCrossEntropyLoss" : "NegativeLogLikelihoodLoss",
                     weighted ? "x t w" : "x t", entropy ? "y l" : "y");
        op_attr_text(rig, "reduction", reductions[reduction]);
        if (ignoring) {
            op_attr_int(rig, "ignore_index", -7);
        }
        struct eng_array arrays[3] = {op_floats(x, 2, 3, 2),
                                      op_of(ENG_I64, ignoring ? targets : plain, 2, 2),
                                      op_floats(weights, 3)};
        op_feed(rig, "x", &arrays[0]);
        op_feed(rig, "t", &arrays[1]);
        if (weighted) {
            op_constant(rig, "w", &arrays[2]);
        }
        op_run_at(rig, 13);
        struct eng_array y = op_output(rig, 0);
        op_near(&y, reduction == 0 ? loss : &want, reduction == 0 ? 4 : 1, 1e-6);
        if (entropy) {
            struct eng_array l = op_output(rig, 1);
            op_near(&l, logs, 12, 1e-6);
        }
        op_done(rig);
    }
    struct op_rig *rig = op_named("NegativeLogLikelihoodLoss", "x t", "y");
    struct eng_array arrays[2] = {op_floats(x, 2, 3, 2), op_of(ENG_I64, plain, 4)};
    op_feed(rig, "x", &arrays[0]);
    op_feed(rig, "t", &arrays[1]);
    op_refused(rig, 13, BASE_ERR_INVALID, "do not fit");
    free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_set_of_axes),
        cmocka_unit_test(no_axes),
        cmocka_unit_test(nothing_to_reduce),
        cmocka_unit_test(softmax_changed_its_axes),
        cmocka_unit_test(positions_of_extremes),
        cmocka_unit_test(k_largest),
        cmocka_unit_test(losses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
