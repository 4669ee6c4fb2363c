// Reference backend: raster, gather, scatter, one-hot, random contents.
#include "ref_rig.h"

static void raster_moves_every_type(void **state)
{
    (void)state;
    static const enum eng_dtype types[] = {ENG_U8, ENG_F16, ENG_F32, ENG_I64, ENG_STRING, ENG_C128};
    for (size_t t = 0; t < TEST_COUNT(types); t++) {
        // Rows 0 and 2 of [3, 2] transposed into [2, 3], whose last column stays zero.
        uint8_t contents[6 * 16];
        struct ref_rig rig;
        size_t bytes = eng_dtype_bytes(types[t]);
        for (size_t i = 0; i < sizeof(contents); i++) {
            contents[i] = (uint8_t)(i + 1);
        }
        rig_init(&rig);
        uint32_t x = rig_in(&rig, types[t], DIMS(3, 2), contents);
        uint32_t y = rig_out(&rig, types[t], DIMS(2, 3));
        struct eng_region region = {
            .source = x, .rank = 2, .size = {2, 2}, .src_stride = {4, 1}, .dst_stride = {1, 3}};
        struct eng_command *command = rig_command(&rig, ENG_OP_RASTER, IDS(x), IDS(y));
        command->u.raster.regions = &region;
        command->u.raster.count = 1;
        command->u.raster.zero_fill = true;
        assert_int_equal(rig_run(&rig, command), BASE_OK);
        static const int from[] = {0, 4, -1, 1, 5, -1};
        static const uint8_t zeros[16] = {0};
        for (size_t i = 0; i < 6; i++) {
            assert_memory_equal((uint8_t *)rig.data[y] + i * bytes,
                                from[i] < 0 ? zeros : contents + (size_t)from[i] * bytes, bytes);
        }
        rig_done(&rig);
    }
}

static void raster_broadcasts_and_sums(void **state)
{
    (void)state;
    struct ref_rig rig;
    rig_init(&rig);
    uint32_t x = rig_in(&rig, ENG_F32, DIMS(2, 3), F32(1, 2, 3, 4, 5, 6));
    uint32_t y = rig_out(&rig, ENG_F32, DIMS(3));
    struct eng_region regions[] = {
        // Columns summed, then the first element added to all.
        {.source = x, .rank = 2, .size = {2, 3}, .src_stride = {3, 1}, .dst_stride = {0, 1}},
        {.source = x, .rank = 1, .accumulate = true, .size = {3}, .dst_stride = {1}},
        {.source = x, .rank = 2, .size = {0, 3}, .src_stride = {3, 1}, .dst_stride = {0, 1}},
        {.source = x, .rank = 0, .accumulate = true, .src_offset = 5, .dst_offset = 2},
    };
    struct eng_command *command = rig_command(&rig, ENG_OP_RASTER, IDS(x), IDS(y));
    command->u.raster.regions = regions;
    command->u.raster.count = TEST_COUNT(regions);
    assert_int_equal(rig_run(&rig, command), BASE_OK);
    EXPECT_F32(&rig, y, 6, 8, 16);
    rig_done(&rig);
}

static void gathers(void **state)
{
    (void)state;
    struct ref_rig rig;
    rig_init(&rig);
    uint32_t x = rig_in(&rig, ENG_F32, DIMS(2, 3, 2), F32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
    uint32_t at = rig_in(&rig, ENG_I64, DIMS(2), I64(2, -3));
    uint32_t y = rig_out(&rig, ENG_F32, DIMS(2, 2, 2));
    struct eng_command *command = rig_command(&rig, ENG_OP_GATHER, IDS(x, at), IDS(y));
    command->u.gather = (struct eng_gather){.outer = 2, .n = 3, .inner = 2};
    assert_int_equal(rig_run(&rig, command), BASE_OK);
    EXPECT_F32(&rig, y, 4, 5, 0, 1, 10, 11, 6, 7);
    ((int64_t *)rig.data[at])[1] = 3;
    assert_int_equal(rig_run(&rig, command), BASE_ERR_INVALID);
    assert_non_null(strstr(rig.error.text, "index 3"));
    ((int64_t *)rig.data[at])[1] = INT64_MIN;
    assert_int_equal(rig_run(&rig, command), BASE_ERR_INVALID);
    uint32_t each = rig_in(&rig, ENG_I32, DIMS(2, 1, 2), I32(2, 0, -1, 1));
    uint32_t z = rig_out(&rig, ENG_F32, DIMS(2, 1, 2));
    command = rig_command(&rig, ENG_OP_GATHER, IDS(x, each), IDS(z));
    command->u.gather =
        (struct eng_gather){.outer = 2, .n = 3, .inner = 2, .elementwise = true, .m = 1};
    assert_int_equal(rig_run(&rig, command), BASE_OK);
    EXPECT_F32(&rig, z, 4, 1, 10, 9);
    rig_done(&rig);
}

static void scatter_one(enum eng_scatter_fn fn, enum base_status status, const float *expected)
{
    struct ref_rig rig;
    rig_init(&rig);
    uint32_t x = rig_in(&rig, ENG_F32, DIMS(3, 2), F32(1, 2, 3, 4, 5, 6));
    uint32_t at = rig_in(&rig, ENG_I64, DIMS(3), status == BASE_OK ? I64(2, 0, -1) : I64(2, 0, 9));
    uint32_t updates = rig_in(&rig, ENG_F32, DIMS(3, 2), F32(10, 20, 30, 40, 2, 3));
    uint32_t y = rig_out(&rig, ENG_F32, DIMS(3, 2));
    struct eng_command *command = rig_command(&rig, ENG_OP_SCATTER, IDS(x, at, updates), IDS(y));
    command->u.scatter = (struct eng_scatter){.fn = fn, .rows = 3, .count = 3, .inner = 2};
    assert_int_equal(rig_run(&rig, command), status);
    if (status == BASE_OK) {
        rig_expect_f32(&rig, y, expected, 6, 0);
    }
    rig_done(&rig);
}

static void scatters(void **state)
{
    (void)state;
    scatter_one(ENG_SCATTER_SET, BASE_OK, F32(30, 40, 3, 4, 2, 3));
    scatter_one(ENG_SCATTER_ADD, BASE_OK, F32(31, 42, 3, 4, 17, 29));
    scatter_one(ENG_SCATTER_MUL, BASE_OK, F32(30, 80, 3, 4, 100, 360));
    scatter_one(ENG_SCATTER_MIN, BASE_OK, F32(1, 2, 3, 4, 2, 3));
    scatter_one(ENG_SCATTER_MAX, BASE_OK, F32(30, 40, 3, 4, 10, 20));
    scatter_one(ENG_SCATTER_ADD, BASE_ERR_INVALID, NULL);
}

static void one_hot(void **state)
{
    (void)state;
    struct ref_rig rig;
    rig_init(&rig);
    uint32_t at = rig_in(&rig, ENG_F32, DIMS(2, 2), F32(0, -1, 3, 1));
    uint32_t values = rig_in(&rig, ENG_I32, DIMS(2), I32(-1, 7));
    uint32_t y = rig_out(&rig, ENG_I32, DIMS(2, 3, 2));
    struct eng_command *command = rig_command(&rig, ENG_OP_ONE_HOT, IDS(at, values), IDS(y));
    command->u.one_hot = (struct eng_one_hot){2, 3, 2};
    assert_int_equal(rig_run(&rig, command), BASE_OK);
    EXPECT_INTS(&rig, y, 7, -1, -1, -1, -1, 7, -1, -1, -1, 7, -1, -1);
    rig_done(&rig);
}

static uint32_t draw(struct ref_rig *rig, struct eng_random random, int64_t count, uint32_t input,
                     enum eng_dtype dtype)
{
    uint32_t y = rig_out(rig, dtype, DIMS(count));
    struct eng_command *command =
        rig_command(rig, ENG_OP_RANDOM, input == ENG_NONE ? 0 : 1, &input, IDS(y));
    command->u.random = random;
    assert_int_equal(rig_run(rig, command), BASE_OK);
    return y;
}

// Moments and frequencies within five standard errors of what the distributions say.
static void random_contents(void **state)
{
    (void)state;
    enum { COUNT = 20000 };
    struct ref_rig rig;
    rig_init(&rig);
    struct eng_random random = {.fn = ENG_RANDOM_NORMAL, .low = 3, .high = 2, .seed = 7};
    uint32_t normal = draw(&rig, random, COUNT, ENG_NONE, ENG_F32);
    uint32_t again = draw(&rig, random, COUNT, ENG_NONE, ENG_F32);
    assert_memory_equal(rig.data[normal], rig.data[again], COUNT * sizeof(float));
    random.fn = ENG_RANDOM_UNIFORM;
    const float *x = rig.data[normal], *u = rig.data[draw(&rig, random, COUNT, ENG_NONE, ENG_F32)];
    double sum = 0, squares = 0, uniform = 0;
    for (int i = 0; i < COUNT; i++) {
        sum += (double)x[i];
        squares += ((double)x[i] - 3) * ((double)x[i] - 3);
        uniform += (double)u[i];
        assert_true(u[i] >= 2 && u[i] <= 3);
    }
    printf("mean %g, variance %g, uniform mean %g\n", sum / COUNT, squares / COUNT,
           uniform / COUNT);
    assert_true(fabs(sum / COUNT - 3) < 5 * 2 / sqrt(COUNT));
    assert_true(fabs(squares / COUNT - 4) < 5 * 4 * sqrt(2.0 / COUNT));
    assert_true(fabs(uniform / COUNT - 2.5) < 5 * sqrt(1.0 / 12 / COUNT));
    uint32_t logits = rig_in(&rig, ENG_F32, DIMS(1, 3), F32(0, logf(3), -INFINITY));
    random = (struct eng_random){
        .fn = ENG_RANDOM_MULTINOMIAL, .seed = 9, .rows = 1, .classes = 3, .samples = COUNT};
    const int64_t *classes = rig.data[draw(&rig, random, COUNT, logits, ENG_I64)];
    double ones = 0;
    for (int i = 0; i < COUNT; i++) {
        assert_in_range(classes[i], 0, 1);
        ones += (double)classes[i];
    }
    assert_true(fabs(ones / COUNT - 0.75) < 5 * sqrt(0.75 * 0.25 / COUNT));
    rig_done(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(raster_moves_every_type),
        cmocka_unit_test(raster_broadcasts_and_sums),
        cmocka_unit_test(gathers),
        cmocka_unit_test(scatters),
        cmocka_unit_test(one_hot),
        cmocka_unit_test(random_contents),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
