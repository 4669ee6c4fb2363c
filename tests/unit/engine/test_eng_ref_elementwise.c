// Reference backend: unary, binary, select, cast and fused expressions. Expected numbers of the
// functions come from numpy and PyTorch.
#include "ref_rig.h"

struct unary_case {
    enum eng_unary_fn fn;
    float alpha, beta;
    float expected[6];
};

// Of -2.5, -0.5, 0, 0.5, 1.5, 2.5.
static const struct unary_case unary_cases[] = {
    {ENG_ROUND, 0, 0, {-2.0F, -0.0F, 0.0F, 0.0F, 2.0F, 2.0F}},
    {ENG_SIGMOID,
     0,
     0,
     {0.07585818320512772F, 0.3775406777858734F, 0.5F, 0.622459352016449F, 0.8175745010375977F,
      0.9241418242454529F}},
    {ENG_ELU, 1.5F, 0, {-1.3768725395202637F, -0.5902040004730225F, 0.0F, 0.5F, 1.5F, 2.5F}},
    {ENG_SELU,
     1.67326F,
     1.0507F,
     {-1.6137810945510864F, -0.6917561888694763F, 0.0F, 0.5253499746322632F, 1.576050043106079F,
      2.6267499923706055F}},
    {ENG_CELU, 2, 0, {-1.4269903898239136F, -0.44239842891693115F, 0.0F, 0.5F, 1.5F, 2.5F}},
    {ENG_SOFTPLUS,
     0,
     0,
     {0.07888973504304886F, 0.4740769863128662F, 0.6931471824645996F, 0.9740769863128662F,
      1.7014132738113403F, 2.578889846801758F}},
    {ENG_SOFTSIGN,
     0,
     0,
     {-0.7142857313156128F, -0.3333333432674408F, 0.0F, 0.3333333432674408F, 0.6000000238418579F,
      0.7142857313156128F}},
    {ENG_HARD_SIGMOID,
     0.2F,
     0.5F,
     {0.0F, 0.4000000059604645F, 0.5F, 0.6000000238418579F, 0.800000011920929F, 1.0F}},
    {ENG_HARD_SWISH,
     0,
     0,
     {-0.2083333283662796F, -0.2083333283662796F, 0.0F, 0.2916666567325592F, 1.125F,
      2.2916667461395264F}},
    {ENG_CLIP, -1, 2, {-1.0F, -0.5F, 0.0F, 0.5F, 1.5F, 2.0F}},
    {ENG_THRESHOLDED_RELU, 1, 0, {0.0F, 0.0F, 0.0F, 0.0F, 1.5F, 2.5F}},
    {ENG_GELU,
     0,
     0,
     {-0.015524162910878658F, -0.1542687714099884F, 0.0F, 0.3457312285900116F, 1.3997892141342163F,
      2.48447585105896F}},
    {ENG_GELU_TANH,
     0,
     0,
     {-0.015084265731275082F, -0.1542859971523285F, 0.0F, 0.3457140028476715F, 1.3995715379714966F,
      2.4849157333374023F}},
    {ENG_SHRINK, 1, 0.5F, {-2.0F, 0.0F, 0.0F, 0.0F, 1.0F, 2.0F}},
    {ENG_LEAKY_RELU, 0.1F, 0, {-0.25F, -0.05000000074505806F, 0.0F, 0.5F, 1.5F, 2.5F}},
    {ENG_ERF,
     0,
     0,
     {-0.9995930194854736F, -0.5204998850822449F, 0.0F, 0.5204998850822449F, 0.9661051630973816F,
      0.9995930194854736F}},
    {ENG_TANH,
     0,
     0,
     {-0.9866142868995667F, -0.46211716532707214F, 0.0F, 0.46211716532707214F, 0.9051482677459717F,
      0.9866142868995667F}},
    {ENG_ASINH,
     0,
     0,
     {-1.647231101989746F, -0.4812118113040924F, 0.0F, 0.4812118113040924F, 1.19476318359375F,
      1.647231101989746F}},
    {ENG_SQUARE, 0, 0, {6.25F, 0.25F, 0.0F, 0.25F, 2.25F, 6.25F}},
    {ENG_SIGN, 0, 0, {-1.0F, -1.0F, 0.0F, 1.0F, 1.0F, 1.0F}},
    {ENG_CEIL, 0, 0, {-2.0F, -0.0F, 0.0F, 1.0F, 2.0F, 3.0F}},
    {ENG_ABS, 0, 0, {2.5F, 0.5F, 0.0F, 0.5F, 1.5F, 2.5F}},
    {ENG_SIN,
     0,
     0,
     {-0.5984721183776855F, -0.4794255495071411F, 0.0F, 0.4794255495071411F, 0.9974949955940247F,
      0.5984721183776855F}},
    {ENG_EXP,
     0,
     0,
     {0.08208499848842621F, 0.6065306663513184F, 1.0F, 1.6487212181091309F, 4.481688976287842F,
      12.182494163513184F}},
};

static void unary_functions(void **state)
{
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(unary_cases); i++) {
        const struct unary_case *c = &unary_cases[i];
        struct ref_rig rig;
        rig_init(&rig);
        uint32_t x = rig_in(&rig, ENG_F32, DIMS(6), F32(-2.5F, -0.5F, 0, 0.5F, 1.5F, 2.5F));
        uint32_t y = rig_out(&rig, ENG_F32, DIMS(6));
        struct eng_command *command = rig_command(&rig, ENG_OP_UNARY, IDS(x), IDS(y));
        command->u.unary = (struct eng_unary){c->fn, c->alpha, c->beta};
        assert_int_equal(rig_run(&rig, command), BASE_OK);
        printf("unary %d\n", (int)c->fn);
        rig_expect_f32(&rig, y, c->expected, 6, 1e-6F);
        rig_done(&rig);
    }
}

static void unary_one(struct ref_rig *rig, enum eng_unary_fn fn, enum eng_dtype from,
                      enum eng_dtype to, int64_t count, const void *contents, uint32_t *out)
{
    rig_init(rig);
    uint32_t x = rig_in(rig, from, DIMS(count), contents);
    *out = rig_out(rig, to, DIMS(count));
    struct eng_command *command = rig_command(rig, ENG_OP_UNARY, IDS(x), IDS(*out));
    command->u.unary = (struct eng_unary){fn, 1, 1};
    assert_int_equal(rig_run(rig, command), BASE_OK);
}

static void unary_on_integers_and_predicates(void **state)
{
    (void)state;
    struct ref_rig rig;
    uint32_t y = 0;
    unary_one(&rig, ENG_ABS, ENG_I32, ENG_I32, 3, I32(-3, INT32_MIN, 4), &y);
    EXPECT_INTS(&rig, y, 3, INT32_MIN, 4);
    rig_done(&rig);
    unary_one(&rig, ENG_NEG, ENG_I64, ENG_I64, 2, I64(INT64_MIN, 5), &y);
    EXPECT_INTS(&rig, y, INT64_MIN, -5);
    rig_done(&rig);
    unary_one(&rig, ENG_BIT_NOT, ENG_U8, ENG_U8, 2, U8(0, 200), &y);
    EXPECT_INTS(&rig, y, 255, 55);
    rig_done(&rig);
    unary_one(&rig, ENG_NOT, ENG_BOOL, ENG_BOOL, 2, U8(0, 1), &y);
    EXPECT_INTS(&rig, y, 1, 0);
    rig_done(&rig);
    unary_one(&rig, ENG_IS_NAN, ENG_F32, ENG_BOOL, 3, F32(0, NAN, INFINITY), &y);
    EXPECT_INTS(&rig, y, 0, 1, 0);
    rig_done(&rig);
    unary_one(&rig, ENG_IS_INF, ENG_F32, ENG_BOOL, 3, F32(-INFINITY, NAN, INFINITY), &y);
    EXPECT_INTS(&rig, y, 1, 0, 1);
    rig_done(&rig);
}

static uint32_t binary_run(struct ref_rig *rig, enum eng_binary_fn fn, enum eng_dtype from,
                           enum eng_dtype to, int64_t count, const void *a, const void *b)
{
    rig_init(rig);
    uint32_t x = rig_in(rig, from, DIMS(count), a), z = rig_in(rig, from, DIMS(count), b);
    uint32_t y = rig_out(rig, to, DIMS(count));
    struct eng_command *command = rig_command(rig, ENG_OP_BINARY, IDS(x, z), IDS(y));
    rig_broadcast(rig, command);
    command->u.binary.fn = fn;
    assert_int_equal(rig_run(rig, command), BASE_OK);
    return y;
}

static void binary_on_floats(void **state)
{
    (void)state;
    struct ref_rig rig;
    const float *a = F32(7, -7, 5.5F, -5.5F), *b = F32(3, -2, 3, -2), *c = F32(3, 2, -3, -2);
    EXPECT_F32(&rig, binary_run(&rig, ENG_MOD, ENG_F32, ENG_F32, 4, a, c), 1, 1, -0.5F, -1.5F);
    rig_done(&rig);
    EXPECT_F32(&rig, binary_run(&rig, ENG_FMOD, ENG_F32, ENG_F32, 4, a, c), 1, -1, 2.5F, -1.5F);
    rig_done(&rig);
    EXPECT_F32(&rig, binary_run(&rig, ENG_PRELU, ENG_F32, ENG_F32, 4, a, b), 7, 14, 5.5F, 11);
    rig_done(&rig);
    EXPECT_F32(&rig, binary_run(&rig, ENG_SQUARED_DIFF, ENG_F32, ENG_F32, 4, a, b), 16, 25, 6.25F,
               12.25F);
    rig_done(&rig);
    EXPECT_F32(&rig, binary_run(&rig, ENG_MAX, ENG_F32, ENG_F32, 3, F32(NAN, 1, 2), F32(1, NAN, 3)),
               NAN, NAN, 3);
    rig_done(&rig);
    EXPECT_INTS(&rig, binary_run(&rig, ENG_LESS_EQUAL, ENG_F32, ENG_BOOL, 3, F32(NAN, 1, 2), c), 0,
                1, 0);
    rig_done(&rig);
}

static void binary_on_integers(void **state)
{
    (void)state;
    struct ref_rig rig;
    const int32_t *a = I32(7, -7, INT32_MIN, 5), *b = I32(-2, 2, -1, 0);
    EXPECT_INTS(&rig, binary_run(&rig, ENG_DIV, ENG_I32, ENG_I32, 4, a, b), -3, -3, INT32_MIN, 0);
    rig_done(&rig);
    EXPECT_INTS(&rig, binary_run(&rig, ENG_MOD, ENG_I32, ENG_I32, 4, a, b), -1, 1, 0, 0);
    rig_done(&rig);
    EXPECT_INTS(&rig, binary_run(&rig, ENG_FMOD, ENG_I32, ENG_I32, 4, a, b), 1, -1, 0, 0);
    rig_done(&rig);
    EXPECT_INTS(&rig,
                binary_run(&rig, ENG_POW, ENG_I64, ENG_I64, 4, I64(3, -2, 2, 0), I64(4, 3, -1, 0)),
                81, -8, 0, 1);
    rig_done(&rig);
    EXPECT_INTS(&rig,
                binary_run(&rig, ENG_DIV, ENG_I64, ENG_I64, 2, I64(INT64_MIN, 9), I64(-1, -4)),
                INT64_MIN, -2);
    rig_done(&rig);
    EXPECT_INTS(&rig, binary_run(&rig, ENG_LESS, ENG_U64, ENG_BOOL, 2, I64(1, -1), I64(-1, 1)), 1,
                0);
    rig_done(&rig);
    EXPECT_INTS(&rig,
                binary_run(&rig, ENG_SHIFT_LEFT, ENG_U8, ENG_U8, 3, U8(200, 1, 1), U8(1, 7, 9)),
                144, 128, 0);
    rig_done(&rig);
    EXPECT_INTS(&rig, binary_run(&rig, ENG_ADD, ENG_U8, ENG_U8, 2, U8(200, 1), U8(100, 7)), 44, 8);
    rig_done(&rig);
}

static void binary_broadcasts_over_views(void **state)
{
    (void)state;
    struct ref_rig rig;
    rig_init(&rig);
    uint32_t a = rig_in(&rig, ENG_F32, DIMS(2, 1, 2), F32(1, 2, 3, 4));
    uint32_t b = rig_in(&rig, ENG_F32, DIMS(3, 1), F32(10, 20, 30));
    uint32_t y = rig_out(&rig, ENG_F32, DIMS(2, 3, 2));
    struct eng_command *command = rig_command(&rig, ENG_OP_BINARY, IDS(a, b), IDS(y));
    rig_broadcast(&rig, command);
    command->u.binary.fn = ENG_ADD;
    assert_int_equal(rig_run(&rig, command), BASE_OK);
    EXPECT_F32(&rig, y, 11, 12, 21, 22, 31, 32, 13, 14, 23, 24, 33, 34);
    rig_done(&rig);
}

static void strings_are_equal_and_chosen(void **state)
{
    (void)state;
    struct ref_rig rig;
    rig_init(&rig);
    const struct eng_string left[] = {{"a", 1}, {"bc", 2}, {NULL, 0}};
    const struct eng_string right[] = {{"a", 1}, {"bd", 2}, {"", 0}};
    uint32_t a = rig_in(&rig, ENG_STRING, DIMS(3), left),
             b = rig_in(&rig, ENG_STRING, DIMS(3), right);
    uint32_t y = rig_out(&rig, ENG_BOOL, DIMS(3)), z = rig_out(&rig, ENG_STRING, DIMS(3));
    struct eng_command *command = rig_command(&rig, ENG_OP_BINARY, IDS(a, b), IDS(y));
    rig_broadcast(&rig, command);
    command->u.binary.fn = ENG_EQUAL;
    assert_int_equal(rig_run(&rig, command), BASE_OK);
    EXPECT_INTS(&rig, y, 1, 0, 1);
    command->u.binary.fn = ENG_ADD;
    assert_int_equal(rig_run(&rig, command), BASE_ERR_UNSUPPORTED);
    command = rig_command(&rig, ENG_OP_SELECT, IDS(y, a, b), IDS(z));
    rig_broadcast(&rig, command);
    assert_int_equal(rig_run(&rig, command), BASE_OK);
    const struct eng_string *chosen = rig.data[z];
    assert_ptr_equal(chosen[0].at, left[0].at);
    assert_ptr_equal(chosen[1].at, right[1].at);
    rig_done(&rig);
}

static uint32_t cast_run(struct ref_rig *rig, enum eng_dtype from, enum eng_dtype to, int64_t count,
                         const void *contents)
{
    rig_init(rig);
    uint32_t x = rig_in(rig, from, DIMS(count), contents), y = rig_out(rig, to, DIMS(count));
    assert_int_equal(rig_run(rig, rig_command(rig, ENG_OP_CAST, IDS(x), IDS(y))), BASE_OK);
    return y;
}

static void casts_saturate_and_wrap(void **state)
{
    (void)state;
    struct ref_rig rig;
    const float *x = F32(-1.9F, 300, NAN, 1e30F, -INFINITY);
    EXPECT_INTS(&rig, cast_run(&rig, ENG_F32, ENG_U8, 5, x), 0, 255, 0, 255, 0);
    rig_done(&rig);
    EXPECT_INTS(&rig, cast_run(&rig, ENG_F32, ENG_I8, 5, x), -1, 127, 0, 127, -128);
    rig_done(&rig);
    EXPECT_INTS(&rig, cast_run(&rig, ENG_F32, ENG_I64, 5, x), -1, 300, 0, INT64_MAX, INT64_MIN);
    rig_done(&rig);
    EXPECT_INTS(&rig, cast_run(&rig, ENG_F32, ENG_U64, 5, x), 0, 300, 0, -1, 0);
    rig_done(&rig);
    EXPECT_INTS(&rig, cast_run(&rig, ENG_F32, ENG_BOOL, 5, F32(0, -0.0F, 0.1F, NAN, 2)), 0, 0, 1, 1,
                1);
    rig_done(&rig);
    EXPECT_INTS(&rig, cast_run(&rig, ENG_I64, ENG_U8, 3, I64(257, -1, 5)), 1, 255, 5);
    rig_done(&rig);
    EXPECT_F32(&rig, cast_run(&rig, ENG_U64, ENG_F32, 2, I64(-1, 3)), 18446744073709551616.0F, 3);
    rig_done(&rig);
    const double large[] = {1e300, -1e300, 0.5};
    EXPECT_F32(&rig, cast_run(&rig, ENG_F64, ENG_F32, 3, large), INFINITY, -INFINITY, 0.5F);
    rig_done(&rig);
}

static void expect_strings(const struct ref_rig *rig, uint32_t tensor, const char *const *expected)
{
    const struct eng_string *found = rig->data[tensor];
    for (int64_t i = 0; i < eng_desc_count(&rig->program.tensors[tensor].desc); i++) {
        printf("%.*s for %s\n", (int)found[i].size, found[i].at, expected[i]);
        assert_int_equal(found[i].size, strlen(expected[i]));
        assert_memory_equal(found[i].at, expected[i], found[i].size);
    }
}

static void casts_of_strings(void **state)
{
    (void)state;
    struct ref_rig rig;
    expect_strings(
        &rig,
        cast_run(&rig, ENG_F32, ENG_STRING, 7,
                 F32(0.9767611F, 1, -0.1F, 1e-20F, 16777216, NAN, -INFINITY)),
        (const char *const[]){"0.9767611", "1.0", "-0.1", "1e-20", "16777216.0", "NaN", "-INF"});
    rig_done(&rig);
    expect_strings(&rig, cast_run(&rig, ENG_I32, ENG_STRING, 2, I32(-7, INT32_MIN)),
                   (const char *const[]){"-7", "-2147483648"});
    rig_done(&rig);
    const struct eng_string texts[] = {{"0.47892547", 10}, {"1e-5", 4}, {"INF", 3}, {"-7", 2}};
    EXPECT_F32(&rig, cast_run(&rig, ENG_STRING, ENG_F32, 4, texts), 0.47892547F, 1e-5F, INFINITY,
               -7);
    rig_done(&rig);
    rig_init(&rig);
    uint32_t x = rig_in(&rig, ENG_STRING, DIMS(1), &(struct eng_string){"1x", 2});
    uint32_t y = rig_out(&rig, ENG_F32, DIMS(1));
    assert_int_equal(rig_run(&rig, rig_command(&rig, ENG_OP_CAST, IDS(x), IDS(y))),
                     BASE_ERR_INVALID);
    assert_non_null(strstr(rig.error.text, "1x"));
    rig_done(&rig);
}

// (a + b) * 2 clipped to [0, 5].
static void expressions(void **state)
{
    (void)state;
    struct ref_rig rig;
    rig_init(&rig);
    uint32_t a = rig_in(&rig, ENG_F32, DIMS(2, 3), F32(1, 2, 3, 4, 5, 6));
    uint32_t b = rig_in(&rig, ENG_F32, DIMS(3), F32(-2, -1, 0.25F));
    uint32_t y = rig_out(&rig, ENG_F32, DIMS(2, 3));
    struct eng_expr expr = {.load_count = 2,
                            .op_count = 4,
                            .ops = {{.kind = ENG_EXPR_BINARY, .fn = ENG_ADD, .a = 0, .b = 1},
                                    {.kind = ENG_EXPR_CONST, .alpha = 2},
                                    {.kind = ENG_EXPR_BINARY, .fn = ENG_MUL, .a = 2, .b = 3},
                                    {.kind = ENG_EXPR_UNARY, .fn = ENG_CLIP, .a = 4, .beta = 5}}};
    struct eng_command *command = rig_command(&rig, ENG_OP_EXPR, IDS(a, b), IDS(y));
    rig_broadcast(&rig, command);
    command->u.expr = &expr;
    assert_int_equal(rig_run(&rig, command), BASE_OK);
    EXPECT_F32(&rig, y, 0, 2, 5, 4, 5, 5);
    expr.ops[2].b = 4;
    assert_int_equal(rig_run(&rig, command), BASE_ERR_UNSUPPORTED);
    rig_done(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unary_functions),
        cmocka_unit_test(unary_on_integers_and_predicates),
        cmocka_unit_test(binary_on_floats),
        cmocka_unit_test(binary_on_integers),
        cmocka_unit_test(binary_broadcasts_over_views),
        cmocka_unit_test(strings_are_equal_and_chosen),
        cmocka_unit_test(casts_saturate_and_wrap),
        cmocka_unit_test(casts_of_strings),
        cmocka_unit_test(expressions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
