// Reference backend: reductions, softmax, cumulative sums, normalisation, order. Expected numbers
// come from numpy and PyTorch.
#include "ref_rig.h"

// 24 numbers (i / 7 - 1.5) seen as [2, 3, 4].
static uint32_t ramp(struct ref_rig *rig)
{
    float x[24];
    rig_init(rig);
    for (int i = 0; i < 24; i++) {
        x[i] = (float)(i / 7.0 - 1.5);
    }
    return rig_in(rig, ENG_F32, DIMS(2, 3, 4), x);
}

struct reduce_case {
    enum eng_reduce_fn fn;
    float expected[8];
};
static const struct reduce_case reduce_cases[] = {
    {ENG_REDUCE_SUM,
     {-2.7857144F, -2.3571429F, -1.9285715F, -1.5F, 2.3571429F, 2.7857144F, 3.2142856F,
      3.6428571F}},
    {ENG_REDUCE_MEAN,
     {-0.9285714F, -0.7857143F, -0.6428571F, -0.5F, 0.7857143F, 0.9285714F, 1.0714285F,
      1.2142857F}},
    {ENG_REDUCE_MAX,
     {-0.3571429F, -0.2142857F, -0.0714286F, 0.0714286F, 1.3571428F, 1.5F, 1.6428572F, 1.7857143F}},
    {ENG_REDUCE_MIN,
     {-1.5F, -1.3571428F, -1.2142857F, -1.0714285F, 0.2142857F, 0.3571429F, 0.5F, 0.6428571F}},
    {ENG_REDUCE_PROD,
     {-0.497449F, -0.2284985F, -0.055758F, 0.0382653F, 0.2284985F, 0.497449F, 0.880102F,
      1.3939505F}},
    {ENG_REDUCE_SUM_SQUARE,
     {3.2397959F, 2.5051022F, 1.8928572F, 1.4030613F, 2.5051022F, 3.2397959F, 4.0969386F,
      5.0765305F}},
    {ENG_REDUCE_L1,
     {2.7857144F, 2.3571429F, 1.9285715F, 1.6428571F, 2.3571429F, 2.7857144F, 3.2142856F,
      3.6428571F}},
    {ENG_REDUCE_L2,
     {1.7999433F, 1.5827514F, 1.3758115F, 1.1845088F, 1.5827514F, 1.7999433F, 2.0240896F,
      2.2531157F}},
    {ENG_REDUCE_LOG_SUM_EXP,
     {0.2760551F, 0.4189122F, 0.5617694F, 0.7046265F, 1.9903409F, 2.133198F, 2.2760551F,
      2.4189122F}},
};

static void reductions(void **state)
{
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(reduce_cases); i++) {
        struct ref_rig rig;
        uint32_t x = ramp(&rig), y = rig_out(&rig, ENG_F32, DIMS(2, 4));
        struct eng_command *command = rig_command(&rig, ENG_OP_REDUCE, IDS(x), IDS(y));
        command->u.reduce = (struct eng_reduce){reduce_cases[i].fn, 2, 3, 4};
        printf("reduction %d\n", (int)reduce_cases[i].fn);
        assert_int_equal(rig_run(&rig, command), BASE_OK);
        rig_expect_f32(&rig, y, reduce_cases[i].expected, 8, 1e-6F);
        rig_done(&rig);
    }
}

static void reduce_ints(enum eng_reduce_fn fn, const int64_t *expected)
{
    struct ref_rig rig;
    rig_init(&rig);
    uint32_t x = rig_in(&rig, ENG_I32, DIMS(2, 3), I32(-7, 2, 1, 5, -5, 100));
    uint32_t y = rig_out(&rig, ENG_I32, DIMS(2));
    struct eng_command *command = rig_command(&rig, ENG_OP_REDUCE, IDS(x), IDS(y));
    command->u.reduce = (struct eng_reduce){fn, 2, 3, 1};
    assert_int_equal(rig_run(&rig, command), BASE_OK);
    rig_expect_ints(&rig, y, expected, 2);
    rig_done(&rig);
}

static void reductions_of_integers(void **state)
{
    (void)state;
    reduce_ints(ENG_REDUCE_SUM, I64(-4, 100));
    reduce_ints(ENG_REDUCE_MEAN, I64(-1, 33));
    reduce_ints(ENG_REDUCE_MAX, I64(2, 100));
    reduce_ints(ENG_REDUCE_MIN, I64(-7, -5));
    reduce_ints(ENG_REDUCE_PROD, I64(-14, -2500));
    reduce_ints(ENG_REDUCE_L1, I64(10, 110));
    reduce_ints(ENG_REDUCE_SUM_SQUARE, I64(54, 10050));
}

static void reductions_of_nothing(void **state)
{
    (void)state;
    static const float expected[] = {0, NAN, -INFINITY, INFINITY, 1, 0, 0, 0, -INFINITY, -INFINITY};
    for (int fn = 0; fn < ENG_REDUCE_COUNT; fn++) {
        struct ref_rig rig;
        rig_init(&rig);
        uint32_t x = rig_in(&rig, ENG_F32, DIMS(1, 0), F32(0)), y = rig_out(&rig, ENG_F32, DIMS(1));
        struct eng_command *command = rig_command(&rig, ENG_OP_REDUCE, IDS(x), IDS(y));
        command->u.reduce = (struct eng_reduce){(enum eng_reduce_fn)fn, 1, 0, 1};
        assert_int_equal(rig_run(&rig, command), BASE_OK);
        rig_expect_f32(&rig, y, &expected[fn], 1, 0);
        rig_done(&rig);
    }
}

static void softmax_over_the_middle(void **state)
{
    (void)state;
    static const float parts[] = {0.1693047F, 0.2998039F, 0.5308913F};
    for (int log = 0; log < 2; log++) {
        struct ref_rig rig;
        float expected[24];
        uint32_t x = ramp(&rig), y = rig_out(&rig, ENG_F32, DIMS(2, 3, 4));
        struct eng_command *command = rig_command(&rig, ENG_OP_SOFTMAX, IDS(x), IDS(y));
        command->u.softmax = (struct eng_softmax){log != 0, 2, 3, 4};
        assert_int_equal(rig_run(&rig, command), BASE_OK);
        for (int i = 0; i < 24; i++) {
            float part = parts[i / 4 % 3];
            expected[i] = log != 0 ? logf(part) : part;
        }
        rig_expect_f32(&rig, y, expected, 24, 1e-6F);
        rig_done(&rig);
    }
}

static void cumulative(bool exclusive, bool reverse, const float *expected)
{
    struct ref_rig rig;
    rig_init(&rig);
    uint32_t x = rig_in(&rig, ENG_F32, DIMS(3, 2), F32(1, 10, 2, 20, 3, 30));
    uint32_t y = rig_out(&rig, ENG_F32, DIMS(3, 2));
    struct eng_command *command = rig_command(&rig, ENG_OP_CUMSUM, IDS(x), IDS(y));
    command->u.cumsum = (struct eng_cumsum){1, 3, 2, exclusive, reverse};
    assert_int_equal(rig_run(&rig, command), BASE_OK);
    rig_expect_f32(&rig, y, expected, 6, 0);
    rig_done(&rig);
}

static void cumulative_sums(void **state)
{
    (void)state;
    cumulative(false, false, F32(1, 10, 3, 30, 6, 60));
    cumulative(true, false, F32(0, 0, 1, 10, 3, 30));
    cumulative(false, true, F32(6, 60, 5, 50, 3, 30));
    cumulative(true, true, F32(5, 50, 3, 30, 0, 0));
}

static uint32_t normalise(struct ref_rig *rig, struct eng_norm norm, int64_t scales,
                          const float *scale, const float *bias, uint32_t *mean, uint32_t *inverse)
{
    rig_init(rig);
    uint32_t x =
        rig_in(rig, ENG_F32, DIMS(3, 4), F32(1, -2, 3, 0.5F, 2, -1, 4, 0.25F, -3, 1.5F, 2.5F, 0));
    uint32_t s = scale == NULL ? ENG_NONE : rig_in(rig, ENG_F32, DIMS(scales), scale);
    uint32_t b = bias == NULL ? ENG_NONE : rig_in(rig, ENG_F32, DIMS(scales), bias);
    uint32_t y = rig_out(rig, ENG_F32, DIMS(3, 4));
    *mean = rig_out(rig, ENG_F32, DIMS(3));
    *inverse = rig_out(rig, ENG_F32, DIMS(3));
    struct eng_command *command =
        rig_command(rig, ENG_OP_NORM, IDS(x, s, b), IDS(y, *mean, *inverse));
    norm.groups = 3;
    norm.n = 4;
    norm.epsilon = 1e-5F;
    command->u.norm = norm;
    assert_int_equal(rig_run(rig, command), BASE_OK);
    return y;
}

static void normalisation(void **state)
{
    (void)state;
    struct ref_rig rig;
    uint32_t mean = 0, inverse = 0;
    uint32_t y = normalise(&rig, (struct eng_norm){.scale_inner = 1, .scale_count = 4}, 4,
                           F32(1, 2, 3, 4), F32(0.1F, 0.2F, 0.3F, 0.4F), &mean, &inverse);
    EXPECT_F32(&rig, y, 0.3105584F, -2.7478175F, 4.3006094F, 0.1192555F, 0.4652485F, -2.2571262F,
               4.5833687F, -1.8578997F, -1.4650143F, 1.4038571F, 3.5504143F, -0.0815428F);
    EXPECT_F32(&rig, mean, 0.625F, 1.3125F, 0.25F);
    EXPECT_F32(&rig, inverse, 0.561489F, 0.5312705F, 0.4815429F);
    rig_done(&rig);
    y = normalise(&rig, (struct eng_norm){.scale_count = 3, .scale_per_group = true}, 3,
                  F32(1, 2, 3), F32(0.1F, 0.2F, 0.3F), &mean, &inverse);
    EXPECT_F32(&rig, y, 0.3105584F, -1.3739087F, 1.4335365F, 0.0298139F, 0.930497F, -2.2571262F,
               3.0555791F, -0.9289499F, -4.3950428F, 2.1057857F, 3.5504143F, -0.0611571F);
    rig_done(&rig);
    y = normalise(&rig, (struct eng_norm){.rms = true}, 0, NULL, NULL, &mean, &inverse);
    EXPECT_F32(&rig, y, 0.5298122F, -1.0596244F, 1.5894366F, 0.2649061F, 0.8715747F, -0.4357874F,
               1.7431494F, 0.1089468F, -1.4342727F, 0.7171363F, 1.1952272F, 0);
    rig_done(&rig);
}

static void arg(bool is_max, bool select_last, const int64_t *expected)
{
    struct ref_rig rig;
    rig_init(&rig);
    uint32_t x = rig_in(&rig, ENG_F32, DIMS(4, 2), F32(1, 2, 3, 0, 3, 0, 1, 2));
    uint32_t y = rig_out(&rig, ENG_I64, DIMS(2));
    struct eng_command *command = rig_command(&rig, ENG_OP_ARG_REDUCE, IDS(x), IDS(y));
    command->u.arg_reduce = (struct eng_arg_reduce){is_max, select_last, 1, 4, 2};
    assert_int_equal(rig_run(&rig, command), BASE_OK);
    rig_expect_ints(&rig, y, expected, 2);
    rig_done(&rig);
}

static void places_of_extremes(void **state)
{
    (void)state;
    arg(true, false, I64(1, 0));
    arg(true, true, I64(2, 3));
    arg(false, false, I64(0, 1));
    arg(false, true, I64(3, 2));
}

static void the_k_largest(void **state)
{
    (void)state;
    struct ref_rig rig;
    rig_init(&rig);
    uint32_t x = rig_in(&rig, ENG_F32, DIMS(2, 5), F32(1, 4, 2, 4, 3, -1, NAN, 5, -1, 0));
    uint32_t values = rig_out(&rig, ENG_F32, DIMS(2, 3)), at = rig_out(&rig, ENG_I64, DIMS(2, 3));
    struct eng_command *command = rig_command(&rig, ENG_OP_TOPK, IDS(x), IDS(values, at));
    command->u.topk = (struct eng_topk){2, 5, 1, 3, true, true};
    assert_int_equal(rig_run(&rig, command), BASE_OK);
    EXPECT_F32(&rig, values, 4, 4, 3, NAN, 5, 0);
    EXPECT_INTS(&rig, at, 1, 3, 4, 1, 2, 4);
    command->u.topk.largest = false;
    assert_int_equal(rig_run(&rig, command), BASE_OK);
    EXPECT_F32(&rig, values, 1, 2, 3, -1, -1, 0);
    EXPECT_INTS(&rig, at, 0, 2, 4, 0, 3, 4);
    command->u.topk.k = 6;
    assert_int_equal(rig_run(&rig, command), BASE_ERR_UNSUPPORTED);
    rig_done(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reductions),
        cmocka_unit_test(reductions_of_integers),
        cmocka_unit_test(reductions_of_nothing),
        cmocka_unit_test(softmax_over_the_middle),
        cmocka_unit_test(cumulative_sums),
        cmocka_unit_test(normalisation),
        cmocka_unit_test(places_of_extremes),
        cmocka_unit_test(the_k_largest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
