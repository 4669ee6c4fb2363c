// BINARY, SELECT, EXPR, UNARY and CAST steps of the fast backend against the reference backend:
// same shapes, scalars, rows, columns, slices, transposed reads, random boxes; few and many tiles.
#include "vec_rig.h"

static struct base_prng prng;

static int64_t below(int64_t bound)
{
    return (int64_t)base_prng_below(&prng, (uint64_t)bound);
}

static void fill_positive(struct ref_rig *rig, uint32_t tensor)
{
    float *data = rig->data[tensor];
    for (int64_t i = 0; i < eng_desc_count(&rig->program.tensors[tensor].desc); i++) {
        data[i] = fabsf(data[i]) + 0.25f;
    }
}

struct shapes {
    uint32_t rank;
    int64_t out[4];
    uint8_t a_mask, b_mask; // bit d: dim d is 1
};

static const struct shapes broadcasts[] = {
    {1, {1}, 0, 0},           {1, {7}, 0, 0},           {1, {1000}, 0, 1},
    {1, {1000}, 1, 0},        {1, {70001}, 0, 0},       {2, {37, 64}, 0, 1}, // a row
    {2, {37, 64}, 1, 0},      {2, {300, 700}, 0, 1}, // a row again and again
    {2, {37, 64}, 0, 2},                             // a column
    {2, {3, 5000}, 2, 0},     {2, {5000, 3}, 0, 2},     {2, {33, 17}, 1, 2},  // outer
    {3, {4, 9, 50}, 0, 5},    {3, {2, 64, 3136}, 0, 5},                       // bias over channels
    {4, {2, 3, 5, 7}, 5, 10}, {4, {3, 1, 4, 9}, 1, 8},  {3, {4, 5, 6}, 7, 7}, // one against one,
                                                                              // many times
};

static uint32_t input_of(struct ref_rig *rig, const struct shapes *s, uint8_t mask)
{
    int64_t dims[4];
    for (uint32_t d = 0; d < s->rank; d++) {
        dims[d] = (mask >> d & 1) != 0 ? 1 : s->out[d];
    }
    return vec_random(rig, &prng, ENG_PLAIN, s->rank, dims, 3.0f);
}

static bool is_comparison(enum eng_binary_fn fn)
{
    return fn >= ENG_EQUAL && fn <= ENG_GREATER_EQUAL;
}

static void binary(void **state)
{
    (void)state;
    static const enum eng_binary_fn fns[] = {
        ENG_ADD,     ENG_SUB,           ENG_MUL,   ENG_DIV,         ENG_POW,
        ENG_MIN,     ENG_MAX,           ENG_EQUAL, ENG_LESS,        ENG_LESS_EQUAL,
        ENG_GREATER, ENG_GREATER_EQUAL, ENG_PRELU, ENG_SQUARED_DIFF};
    for (size_t f = 0; f < TEST_COUNT(fns); f++) {
        for (size_t i = 0; i < TEST_COUNT(broadcasts); i++) {
            struct ref_rig rig;
            rig_init(&rig);
            const struct shapes *s = &broadcasts[i];
            uint32_t in[2] = {input_of(&rig, s, s->a_mask), input_of(&rig, s, s->b_mask)};
            if (fns[f] == ENG_POW || fns[f] == ENG_DIV) {
                fill_positive(&rig, in[0]);
                fill_positive(&rig, in[1]);
            }
            uint32_t out =
                rig_out(&rig, is_comparison(fns[f]) ? ENG_BOOL : ENG_F32, s->rank, s->out);
            struct eng_command *command = rig_command(&rig, ENG_OP_BINARY, 2, in, 1, &out);
            command->u.binary.fn = fns[f];
            rig_broadcast(&rig, command);
            bool taken = vec_check(&rig, command, 2e-6f);
            bool all_one = s->a_mask == 7 && s->b_mask == 7;
            assert_true(taken || (all_one && is_comparison(fns[f])));
            rig_done(&rig);
        }
    }
}

// POW by the exponents models use, as one value.
static void powers(void **state)
{
    (void)state;
    static const float exponents[] = {2, 3, 0.5f, -1, 1.7f};
    for (size_t i = 0; i < TEST_COUNT(exponents); i++) {
        struct ref_rig rig;
        rig_init(&rig);
        uint32_t in[2] = {vec_random(&rig, &prng, ENG_PLAIN, DIMS(300), 2),
                          rig_in(&rig, ENG_F32, DIMS(1), &exponents[i])};
        uint32_t out = rig_out(&rig, ENG_F32, DIMS(300));
        struct eng_command *command = rig_command(&rig, ENG_OP_BINARY, 2, in, 1, &out);
        command->u.binary.fn = ENG_POW;
        rig_broadcast(&rig, command);
        assert_true(vec_check(&rig, command, 1e-6f));
        rig_done(&rig);
    }
}

static void integers_are_refused(void **state)
{
    (void)state;
    struct ref_rig rig;
    rig_init(&rig);
    uint32_t in[2] = {rig_in(&rig, ENG_I64, DIMS(2), I64(1, 2)),
                      rig_in(&rig, ENG_I64, DIMS(2), I64(3, 4))};
    uint32_t out = rig_out(&rig, ENG_I64, DIMS(2));
    struct eng_command *command = rig_command(&rig, ENG_OP_BINARY, 2, in, 1, &out);
    rig_broadcast(&rig, command);
    assert_false(vec_check(&rig, command, 0));
    rig_done(&rig);
}

static void select_values(void **state)
{
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(broadcasts); i++) {
        for (uint8_t cond_mask = 0; cond_mask < 4; cond_mask++) {
            struct ref_rig rig;
            rig_init(&rig);
            const struct shapes *s = &broadcasts[i];
            int64_t dims[4];
            int64_t count = 1;
            for (uint32_t d = 0; d < s->rank; d++) {
                dims[d] = (cond_mask >> d & 1) != 0 ? 1 : s->out[d];
                count *= dims[d];
            }
            uint8_t *cond = malloc((size_t)count);
            assert_non_null(cond);
            for (int64_t k = 0; k < count; k++) {
                cond[k] = (uint8_t)below(2);
            }
            uint32_t in[3] = {rig_in(&rig, ENG_BOOL, s->rank, dims, cond),
                              input_of(&rig, s, s->a_mask), input_of(&rig, s, s->b_mask)};
            free(cond);
            uint32_t out = rig_out(&rig, ENG_F32, s->rank, s->out);
            struct eng_command *command = rig_command(&rig, ENG_OP_SELECT, 3, in, 1, &out);
            rig_broadcast(&rig, command);
            (void)vec_check(&rig, command, 0); // one condition for many is refused
            rig_done(&rig);
        }
    }
}

// Random boxes with random strides: slices, steps, transposed reads, reversed reads.
static void random_views(void **state)
{
    (void)state;
    for (int round = 0; round < 300; round++) {
        struct ref_rig rig;
        rig_init(&rig);
        int64_t size[4];
        uint32_t rank = 1 + (uint32_t)below(4);
        int64_t elements = 1;
        for (uint32_t d = 0; d < rank; d++) {
            size[d] = 1 + below(round % 3 == 0 ? 40 : 9);
            elements *= size[d];
        }
        uint32_t in[2];
        struct eng_view views[2] = {0};
        for (int v = 0; v < 2; v++) {
            int64_t low = 0;
            int64_t high = 0;
            int64_t step = 1;
            for (uint32_t d = rank; d-- > 0;) {
                static const int64_t factors[] = {0, 1, 1, 1, 2, 3, -1};
                int64_t stride = factors[below(7)] * step;
                views[v].stride[d] = stride;
                step *= size[d];
                low += stride < 0 ? stride * (size[d] - 1) : 0;
                high += stride > 0 ? stride * (size[d] - 1) : 0;
            }
            int64_t extra = below(3);
            views[v].offset = extra - low;
            int64_t length = high - low + 1 + extra;
            in[v] = vec_random(&rig, &prng, ENG_PLAIN, 1, &length, 2.0f);
        }
        uint32_t out = rig_out(&rig, ENG_F32, rank, size);
        struct eng_command *command = rig_command(&rig, ENG_OP_BINARY, 2, in, 1, &out);
        command->u.binary.fn = ENG_SUB;
        command->box.rank = rank;
        memcpy(command->box.size, size, sizeof size);
        memcpy(command->views, views, sizeof views);
        assert_true(vec_check(&rig, command, 0));
        rig_done(&rig);
    }
}

static struct eng_expr_op unary_op(enum eng_unary_fn fn, uint8_t a)
{
    return (struct eng_expr_op){.kind = ENG_EXPR_UNARY, .fn = (uint8_t)fn, .a = a};
}

static struct eng_expr_op binary_op(enum eng_binary_fn fn, uint8_t a, uint8_t b)
{
    return (struct eng_expr_op){.kind = ENG_EXPR_BINARY, .fn = (uint8_t)fn, .a = a, .b = b};
}

static void check_expr(const struct shapes *s, struct eng_expr *expr, const uint8_t *masks)
{
    struct ref_rig rig;
    rig_init(&rig);
    uint32_t in[ENG_EXPR_LOADS_MAX];
    for (uint32_t i = 0; i < expr->load_count; i++) {
        in[i] = input_of(&rig, s, masks[i]);
    }
    uint32_t out = rig_out(&rig, ENG_F32, s->rank, s->out);
    struct eng_command *command = rig_command(&rig, ENG_OP_EXPR, expr->load_count, in, 1, &out);
    command->u.expr = expr;
    rig_broadcast(&rig, command);
    assert_true(vec_check(&rig, command, 3e-6f));
    rig_done(&rig);
}

// x * sigmoid(x * scale[row]) + bias[column], with a constant.
static void expr_swish(void **state)
{
    (void)state;
    struct eng_expr expr = {.load_count = 3, .op_count = 6};
    expr.ops[0] = binary_op(ENG_MUL, 0, 1);
    expr.ops[1] = unary_op(ENG_SIGMOID, 3);
    expr.ops[2] = (struct eng_expr_op){.kind = ENG_EXPR_CONST, .alpha = 0.75f};
    expr.ops[3] = binary_op(ENG_MUL, 4, 5);
    expr.ops[4] = binary_op(ENG_MUL, 0, 6);
    expr.ops[5] = binary_op(ENG_ADD, 7, 2);
    for (size_t i = 0; i < TEST_COUNT(broadcasts); i++) {
        const uint8_t masks[3] = {0, broadcasts[i].b_mask, broadcasts[i].a_mask};
        check_expr(&broadcasts[i], &expr, masks);
    }
}

// All loads are single values: the result is one value everywhere.
static void expr_of_values(void **state)
{
    (void)state;
    struct eng_expr expr = {.load_count = 2, .op_count = 2};
    expr.ops[0] = binary_op(ENG_ADD, 0, 1);
    expr.ops[1] = unary_op(ENG_TANH, 2);
    const struct shapes s = {2, {50, 40}, 0, 0};
    check_expr(&s, &expr, (const uint8_t[]){3, 3});
    struct eng_expr constant = {.load_count = 1, .op_count = 1};
    constant.ops[0] = (struct eng_expr_op){.kind = ENG_EXPR_CONST, .alpha = 2.5f};
    check_expr(&s, &constant, (const uint8_t[]){0});
    const struct shapes one = {1, {1}, 0, 0};
    check_expr(&one, &constant, (const uint8_t[]){0});
}

// Random programs: every register may be read by every later instruction.
static void expr_random(void **state)
{
    (void)state;
    static const enum eng_unary_fn unaries[] = {ENG_TANH, ENG_ABS, ENG_SIGMOID,
                                                ENG_RELU, ENG_NEG, ENG_SIN};
    static const enum eng_binary_fn binaries[] = {ENG_ADD, ENG_SUB, ENG_MUL, ENG_MAX, ENG_MIN};
    for (int round = 0; round < 150; round++) {
        struct eng_expr expr = {.load_count = 1 + (uint32_t)below(ENG_EXPR_LOADS_MAX),
                                .op_count = 1 + (uint32_t)below(ENG_EXPR_OPS_MAX)};
        for (uint32_t i = 0; i < expr.op_count; i++) {
            int64_t registers = expr.load_count + i;
            // Mostly recent registers, bounded values: products go through tanh now and then.
            uint8_t a = (uint8_t)below(registers);
            uint8_t b = (uint8_t)(registers - 1 - below(registers < 3 ? registers : 3));
            int64_t kind = below(5);
            if (kind == 0) {
                expr.ops[i] =
                    (struct eng_expr_op){.kind = ENG_EXPR_CONST, .alpha = (float)below(3) - 0.5f};
            } else if (kind < 3 || i % 4 == 3) {
                expr.ops[i] = unary_op(i % 4 == 3 ? ENG_TANH : unaries[below(6)], b);
            } else {
                expr.ops[i] = binary_op(binaries[below(5)], a, b);
            }
        }
        uint8_t masks[ENG_EXPR_LOADS_MAX];
        for (int i = 0; i < ENG_EXPR_LOADS_MAX; i++) {
            masks[i] = (uint8_t)below(4);
        }
        const struct shapes s = {2, {1 + below(60), 1 + below(90)}, 0, 0};
        check_expr(&s, &expr, masks);
    }
}

static void unary_steps(void **state)
{
    (void)state;
    static const int64_t counts[] = {1, 63, 64, 65, 1000, 70000, 300001};
    for (size_t i = 0; i < TEST_COUNT(counts); i++) {
        struct ref_rig rig;
        rig_init(&rig);
        uint32_t in = vec_random(&rig, &prng, ENG_PLAIN, 1, &counts[i], 4.0f);
        uint32_t out = rig_out(&rig, ENG_F32, 1, &counts[i]);
        struct eng_command *command = rig_command(&rig, ENG_OP_UNARY, 1, &in, 1, &out);
        command->u.unary = (struct eng_unary){.fn = ENG_GELU};
        assert_true(vec_check(&rig, command, 1e-6f));
        command->u.unary = (struct eng_unary){.fn = ENG_CLIP, .alpha = -1, .beta = 2};
        assert_true(vec_check(&rig, command, 0));
        rig_done(&rig);
    }
}

static void casts(void **state)
{
    (void)state;
    static const enum eng_dtype pairs[][2] = {
        {ENG_F16, ENG_F32},  {ENG_F32, ENG_F16},  {ENG_BF16, ENG_F32}, {ENG_F32, ENG_BF16},
        {ENG_I32, ENG_F32},  {ENG_I64, ENG_F32},  {ENG_U8, ENG_F32},   {ENG_BOOL, ENG_F32},
        {ENG_F32, ENG_BOOL}, {ENG_I32, ENG_BOOL}, {ENG_I64, ENG_BOOL}, {ENG_I64, ENG_I32},
        {ENG_I32, ENG_I64},  {ENG_BOOL, ENG_I32}, {ENG_BOOL, ENG_I64}, {ENG_F32, ENG_I32},
        {ENG_F32, ENG_I64}};
    static const int64_t counts[] = {1, 15, 16, 33, 1000};
    for (size_t p = 0; p < TEST_COUNT(pairs); p++) {
        for (size_t i = 0; i < TEST_COUNT(counts); i++) {
            struct ref_rig rig;
            rig_init(&rig);
            int64_t n = counts[i];
            uint64_t *raw = malloc((size_t)n * sizeof *raw);
            assert_non_null(raw);
            uint8_t *bytes = (uint8_t *)raw;
            size_t size = eng_dtype_bytes(pairs[p][0]);
            for (int64_t k = 0; k < n; k++) {
                float value = (float)(2000 * base_prng_unit(&prng) - 1000);
                value = k % 5 == 0 ? 0.0f : value;
                int64_t whole = (int64_t)value;
                uint16_t half =
                    pairs[p][0] == ENG_F16 ? eng_f16_from_f32(value) : eng_bf16_from_f32(value);
                bool is_float = pairs[p][0] == ENG_F32;
                bool is_half = pairs[p][0] == ENG_F16 || pairs[p][0] == ENG_BF16;
                whole = pairs[p][0] == ENG_BOOL ? whole & 1 : whole;
                const void *from = is_float  ? (const void *)&value
                                   : is_half ? (const void *)&half
                                             : (const void *)&whole;
                memcpy(bytes + (size_t)k * size, from, size);
            }
            uint32_t in = rig_in(&rig, pairs[p][0], 1, &n, bytes);
            free(raw);
            uint32_t out = rig_out(&rig, pairs[p][1], 1, &n);
            struct eng_command *command = rig_command(&rig, ENG_OP_CAST, 1, &in, 1, &out);
            assert_true(vec_check(&rig, command, 0));
            rig_done(&rig);
        }
    }
}

// Special values of half precision: all 65536 bit patterns there and back.
static void halves(void **state)
{
    (void)state;
    static uint16_t all[65536];
    for (uint32_t i = 0; i < 65536; i++) {
        all[i] = (uint16_t)i;
    }
    for (int type = 0; type < 2; type++) {
        struct ref_rig rig;
        rig_init(&rig);
        enum eng_dtype dtype = type == 0 ? ENG_F16 : ENG_BF16;
        uint32_t in = rig_in(&rig, dtype, DIMS(65536), all);
        uint32_t out = rig_out(&rig, ENG_F32, DIMS(65536));
        struct eng_command *command = rig_command(&rig, ENG_OP_CAST, 1, &in, 1, &out);
        assert_true(vec_check(&rig, command, 0));
        rig_done(&rig);
    }
}

int main(void)
{
    test_seed(&prng);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(binary),         cmocka_unit_test(powers),
        cmocka_unit_test(select_values),  cmocka_unit_test(integers_are_refused),
        cmocka_unit_test(random_views),   cmocka_unit_test(expr_swish),
        cmocka_unit_test(expr_of_values), cmocka_unit_test(expr_random),
        cmocka_unit_test(unary_steps),    cmocka_unit_test(casts),
        cmocka_unit_test(halves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
