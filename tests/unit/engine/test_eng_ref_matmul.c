// Reference backend: products, attention, determinants.
#include "ref_rig.h"

static void products_of_views(void **state)
{
    (void)state;
    enum { B = 2, M = 3, N = 70, K = 5 };
    static float a[B * K * M], b[N * K], bias[N], expected[B * M * N];
    struct base_prng prng;
    struct ref_rig rig;
    test_seed(&prng);
    rig_random_f32(&prng, a, TEST_COUNT(a));
    rig_random_f32(&prng, b, TEST_COUNT(b));
    rig_random_f32(&prng, bias, TEST_COUNT(bias));
    // A is [B, K, M] read transposed, B is [N, K] read transposed and shared by the batch.
    for (int i = 0; i < B * M * N; i++) {
        int batch = i / (M * N), m = i / N % M, n = i % N;
        double sum = 0;
        for (int k = 0; k < K; k++) {
            sum += (double)a[(batch * K + k) * M + m] * (double)b[n * K + k];
        }
        double value = 0.5 * sum + (double)bias[n];
        expected[i] = (float)(value > 0 ? value : 0);
    }
    rig_init(&rig);
    uint32_t x = rig_in(&rig, ENG_F32, DIMS(B, K, M), a), y = rig_in(&rig, ENG_F32, DIMS(N, K), b);
    uint32_t z = rig_in(&rig, ENG_F32, DIMS(N), bias), c = rig_out(&rig, ENG_F32, DIMS(B, M, N));
    struct eng_command *command = rig_command(&rig, ENG_OP_MATMUL, IDS(x, y, z), IDS(c));
    command->box = (struct eng_box){4, {B, M, N, K}};
    command->views[0] = (struct eng_view){0, {K * M, 1, 0, M}};
    command->views[1] = (struct eng_view){0, {0, 0, K, 1}};
    command->u.matmul = (struct eng_matmul){
        .batch_rank = 1,
        .alpha = 0.5F,
        .epilogue = {
            .bias = z, .residual = ENG_NONE, .has_activation = true, .activation = ENG_RELU}};
    assert_int_equal(rig_run(&rig, command), BASE_OK);
    rig_expect_f32(&rig, c, expected, TEST_COUNT(expected), 1e-5F);
    rig_done(&rig);
}

static void products_of_integers(void **state)
{
    (void)state;
    struct ref_rig rig;
    rig_init(&rig);
    uint32_t x = rig_in(&rig, ENG_I32, DIMS(2, 2), I32(1, -2, 1 << 30, 3));
    uint32_t y = rig_in(&rig, ENG_I32, DIMS(2, 1), I32(4, 5)),
             c = rig_out(&rig, ENG_I32, DIMS(2, 1));
    struct eng_command *command = rig_command(&rig, ENG_OP_MATMUL, IDS(x, y), IDS(c));
    command->box = (struct eng_box){3, {2, 1, 2}};
    command->views[0] = (struct eng_view){0, {2, 0, 1}};
    command->views[1] = (struct eng_view){0, {0, 1, 1}};
    command->u.matmul = (struct eng_matmul){.alpha = 1, .epilogue = NO_EPILOGUE};
    assert_int_equal(rig_run(&rig, command), BASE_OK);
    EXPECT_INTS(&rig, c, -6, 15);
    rig_done(&rig);
}

static void attention(void **state)
{
    (void)state;
    struct ref_rig rig;
    rig_init(&rig);
    uint32_t q = rig_in(&rig, ENG_F32, DIMS(1, 2, 2, 2),
                        F32(-0.5F, -0.3F, -0.1F, 0.1F, 0.3F, 0.5F, 0.7F, 0.9F));
    uint32_t k = rig_in(&rig, ENG_F32, DIMS(1, 2, 3, 2),
                        F32(-0.9F, -0.7571429F, -0.6142857F, -0.4714286F, -0.3285714F, -0.1857143F,
                            -0.0428571F, 0.1F, 0.2428571F, 0.3857143F, 0.5285714F, 0.6714286F));
    uint32_t v = rig_in(&rig, ENG_F32, DIMS(1, 2, 3, 1), F32(-2, -1, 0, 1, 2, 3));
    uint32_t mask = rig_in(&rig, ENG_F32, DIMS(2, 3), F32(0, -1, 0.5F, 0.25F, 0, -2));
    uint32_t y = rig_out(&rig, ENG_F32, DIMS(1, 2, 2, 1)); // [B, S, H, E]
    struct eng_command *command = rig_command(&rig, ENG_OP_ATTENTION, IDS(q, k, v, mask), IDS(y));
    command->box = (struct eng_box){6, {1, 2, 2, 3, 2, 1}};
    command->views[0] = (struct eng_view){0, {8, 4, 2, 1}};
    command->views[1] = (struct eng_view){0, {12, 6, 2, 1}};
    command->views[2] = (struct eng_view){0, {6, 3, 1, 1}};
    command->views[3] = (struct eng_view){0, {0, 0, 3, 1}};
    command->u.attention = (struct eng_attention){.scale = 0.7F, .out_view = {0, {4, 1, 2, 1}}};
    assert_int_equal(rig_run(&rig, command), BASE_OK);
    EXPECT_F32(&rig, y, -0.9214493F, 2.3431733F, -1.4747908F, 1.6478993F);
    rig_done(&rig);
}

static void determinants(void **state)
{
    (void)state;
    struct ref_rig rig;
    rig_init(&rig);
    uint32_t x = rig_in(
        &rig, ENG_F32, DIMS(3, 3, 3),
        F32(4, 3, 1, 2, 1, 0, 6, 5, 9, 0, 1, 0, 1, 0, 0, 0, 0, 3, 1, 2, 3, 2, 4, 6, 0, 1, 1));
    uint32_t y = rig_out(&rig, ENG_F32, DIMS(3));
    assert_int_equal(rig_run(&rig, rig_command(&rig, ENG_OP_DET, IDS(x), IDS(y))), BASE_OK);
    EXPECT_F32(&rig, y, -14, -3, 0);
    rig_done(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_of_views),
        cmocka_unit_test(products_of_integers),
        cmocka_unit_test(attention),
        cmocka_unit_test(determinants),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
