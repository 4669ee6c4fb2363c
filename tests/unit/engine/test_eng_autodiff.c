// Gradients of every differentiable atomic command against central differences. Programs are made
// by hand, in float64, and run on the reference backend; the loss is a weighted sum of the result.
#include "test_kit.h"

#include "base/alloc.h"
#include "session/exec.h"
#include "train/autodiff.h"

#include <math.h>

#define PARAMS_MAX 6
#define NO_FUSION  ((struct eng_epilogue){.bias = ENG_NONE, .residual = ENG_NONE})
#define DIMS(...)                                                                                  \
    (uint32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), ((const int64_t[]){__VA_ARGS__})

struct rig {
    struct base_arena arena;
    struct eng_program program;
    struct base_prng *prng;
    struct base_error error;
    uint32_t params[PARAMS_MAX]; // every one is differentiated by
    double *values[PARAMS_MAX];
    uint32_t param_count;
};

static struct base_prng prng;

static void rig_init(struct rig *rig)
{
    memset(rig, 0, sizeof(*rig));
    base_arena_init(&rig->arena, base_alloc_heap(), 0, 0);
    eng_program_init(&rig->program, &rig->arena);
}

static uint32_t tensor(struct rig *rig, enum eng_tensor_kind kind, enum eng_layout layout,
                       enum eng_dtype dtype, uint32_t rank, const int64_t *dims)
{
    struct eng_desc desc = {.dtype = dtype, .rank = rank};
    uint32_t out = 0;
    memcpy(desc.dims, dims, rank * sizeof(int64_t));
    assert_int_equal(eng_program_tensor(&rig->program, kind, layout, &desc, &out), BASE_OK);
    return out;
}

static uint32_t temp(struct rig *rig, uint32_t rank, const int64_t *dims)
{
    return tensor(rig, ENG_TEMP, ENG_PLAIN, ENG_F64, rank, dims);
}

// Random values in [low, high), no two nearer than a step of central differences.
static uint32_t param_in(struct rig *rig, enum eng_layout layout, double low, double high,
                         uint32_t rank, const int64_t *dims)
{
    uint32_t out = tensor(rig, ENG_PARAM, layout, ENG_F64, rank, dims);
    int64_t count = eng_desc_count(&rig->program.tensors[out].desc);
    double *values = base_arena_alloc(&rig->arena, (size_t)count * sizeof(double));
    assert_non_null(values);
    for (int64_t i = 0; i < count; i++) {
        values[i] = low + (high - low) * base_prng_unit(&prng);
    }
    assert_true(rig->param_count < PARAMS_MAX);
    rig->params[rig->param_count] = out;
    rig->values[rig->param_count++] = values;
    return out;
}

static uint32_t param(struct rig *rig, double low, double high, uint32_t rank, const int64_t *dims)
{
    return param_in(rig, ENG_PLAIN, low, high, rank, dims);
}

static uint32_t constant(struct rig *rig, enum eng_dtype dtype, const void *data, uint32_t rank,
                         const int64_t *dims)
{
    uint32_t out = tensor(rig, ENG_CONST, ENG_PLAIN, dtype, rank, dims);
    size_t bytes = eng_desc_bytes(&rig->program.tensors[out].desc);
    rig->program.tensors[out].data = base_arena_copy(&rig->arena, data, bytes);
    return out;
}

static struct eng_command *add(struct rig *rig, enum eng_atomic op, uint32_t input_count,
                               const uint32_t *inputs, uint32_t output)
{
    struct eng_command *command = NULL;
    assert_int_equal(eng_program_command(&rig->program, op, input_count, 1, &command), BASE_OK);
    memcpy(command->inputs, inputs, input_count * sizeof(uint32_t));
    command->outputs[0] = output;
    return command;
}
#define IDS(...)                                                                                   \
    (uint32_t)(sizeof((uint32_t[]){__VA_ARGS__}) / 4), ((const uint32_t[]){__VA_ARGS__})

static struct eng_box flat_box(const struct rig *rig, uint32_t of)
{
    return (struct eng_box){.rank = 1, .size = {eng_desc_count(&rig->program.tensors[of].desc)}};
}

// loss = sum weights * y
static uint32_t add_loss(struct rig *rig, uint32_t y)
{
    int64_t count = eng_desc_count(&rig->program.tensors[y].desc);
    double *weights = base_arena_alloc(&rig->arena, (size_t)count * sizeof(double));
    for (int64_t i = 0; i < count; i++) {
        weights[i] = 0.5 + base_prng_unit(&prng);
    }
    uint32_t w = constant(rig, ENG_F64, weights, DIMS(count)), product = temp(rig, DIMS(count));
    uint32_t loss = temp(rig, DIMS(1));
    struct eng_command *command = add(rig, ENG_OP_BINARY, IDS(y, w), product);
    command->u.binary.fn = ENG_MUL;
    command->box = flat_box(rig, y);
    command->views[0].stride[0] = command->views[1].stride[0] = 1;
    command = add(rig, ENG_OP_REDUCE, IDS(product), loss);
    command->u.reduce = (struct eng_reduce){ENG_REDUCE_SUM, 1, count, 1};
    return loss;
}

static double run(struct rig *rig, struct eng_exec *exec, uint32_t loss)
{
    for (uint32_t i = 0; i < rig->param_count; i++) {
        exec->data[rig->params[i]] = rig->values[i];
    }
    enum base_status status = eng_exec_run(exec, &(struct eng_exec_run){.error = &rig->error});
    if (status != BASE_OK) {
        print_error("%s\n", rig->error.text);
    }
    assert_int_equal(status, BASE_OK);
    return ((const double *)exec->data[loss])[0];
}

static void compare(struct rig *rig, struct eng_exec *exec, uint32_t loss,
                    const uint32_t *gradients, const char *name)
{
    for (uint32_t p = 0; p < rig->param_count; p++) {
        int64_t count = eng_desc_count(&rig->program.tensors[rig->params[p]].desc);
        assert_int_not_equal(gradients[p], ENG_NONE);
        assert_int_equal(eng_desc_count(&rig->program.tensors[gradients[p]].desc), count);
        (void)run(rig, exec, loss);
        double *found = malloc((size_t)count * sizeof(double)), largest = 1e-3;
        memcpy(found, exec->data[gradients[p]], (size_t)count * sizeof(double));
        for (int64_t i = 0; i < count; i++) {
            largest = fmax(largest, fabs(found[i]));
        }
        for (int64_t i = 0; i < count; i++) {
            double at = rig->values[p][i], h = 1e-5;
            rig->values[p][i] = at + h;
            double up = run(rig, exec, loss);
            rig->values[p][i] = at - h;
            double expected = (up - run(rig, exec, loss)) / (2 * h);
            rig->values[p][i] = at;
            if (!(fabs(found[i] - expected) <= 1e-5 * largest)) {
                print_error(
                    "%s: by parameter %u, element %lld of value %g: found %.9g, differences "
                    "say %.9g\n",
                    name, p, (long long)i, at, found[i], expected);
                fail();
            }
        }
        free(found);
    }
}

static void check(struct rig *rig, uint32_t y, const char *name)
{
    uint32_t gradients[PARAMS_MAX], loss = add_loss(rig, y);
    struct eng_gradient wanted[PARAMS_MAX] = {0};
    struct eng_exec exec = {0};
    struct eng_prepare prepare = {.arena = &rig->arena, .error = &rig->error};
    for (uint32_t p = 0; p < rig->param_count; p++) {
        wanted[p].by = rig->params[p];
    }
    enum base_status status =
        eng_autodiff(&rig->program, loss, wanted, rig->param_count, &rig->error);
    for (uint32_t p = 0; p < rig->param_count; p++) {
        gradients[p] = wanted[p].tensor;
    }
    if (status == BASE_OK) {
        status = eng_program_validate(&rig->program, &rig->error);
    }
    rig->program.tensors[loss].is_output = true;
    for (uint32_t p = 0; status == BASE_OK && p < rig->param_count; p++) {
        if (gradients[p] != ENG_NONE) {
            rig->program.tensors[gradients[p]].is_output = true;
        }
    }
    if (status == BASE_OK) {
        status = eng_exec_init(&exec, &rig->program, &prepare);
    }
    if (status != BASE_OK) {
        print_error("%s: %s\n", name, rig->error.text);
    }
    assert_int_equal(status, BASE_OK);
    compare(rig, &exec, loss, gradients, name);
    eng_exec_done(&exec);
    base_arena_done(&rig->arena);
}

// --- elementwise ------------------------------------------------------------------------------

struct unary_case {
    enum eng_unary_fn fn;
    float alpha, beta;
    double low, high;
};
static const struct unary_case unary_cases[] = {
    {ENG_ABS, 0, 0, -2, 2},
    {ENG_NEG, 0, 0, -2, 2},
    {ENG_SQRT, 0, 0, 0.2, 2},
    {ENG_RSQRT, 0, 0, 0.2, 2},
    {ENG_RECIPROCAL, 0, 0, 0.3, 2},
    {ENG_SQUARE, 0, 0, -2, 2},
    {ENG_EXP, 0, 0, -2, 2},
    {ENG_LOG, 0, 0, 0.2, 2},
    {ENG_SIN, 0, 0, -2, 2},
    {ENG_COS, 0, 0, -2, 2},
    {ENG_TAN, 0, 0, -1, 1},
    {ENG_ASIN, 0, 0, -0.9, 0.9},
    {ENG_ACOS, 0, 0, -0.9, 0.9},
    {ENG_ATAN, 0, 0, -2, 2},
    {ENG_SINH, 0, 0, -2, 2},
    {ENG_COSH, 0, 0, -2, 2},
    {ENG_TANH, 0, 0, -2, 2},
    {ENG_ASINH, 0, 0, -2, 2},
    {ENG_ACOSH, 0, 0, 1.2, 3},
    {ENG_ATANH, 0, 0, -0.9, 0.9},
    {ENG_ERF, 0, 0, -2, 2},
    {ENG_SIGMOID, 0, 0, -3, 3},
    {ENG_RELU, 0, 0, -2, 2},
    {ENG_LEAKY_RELU, 0.1F, 0, -2, 2},
    {ENG_ELU, 1.5F, 0, -2, 2},
    {ENG_SELU, 1.67F, 1.05F, -2, 2},
    {ENG_CELU, 2, 0, -2, 2},
    {ENG_SOFTPLUS, 0, 0, -3, 3},
    {ENG_SOFTSIGN, 0, 0, -2, 2},
    {ENG_HARD_SIGMOID, 0.25F, 0.5F, -4, 4},
    {ENG_HARD_SWISH, 0, 0, -5, 5},
    {ENG_CLIP, -1, 1.5F, -3, 3},
    {ENG_THRESHOLDED_RELU, 0.5F, 0, -2, 2},
    {ENG_GELU, 0, 0, -3, 3},
    {ENG_GELU_TANH, 0, 0, -3, 3},
    {ENG_SHRINK, 0.5F, 0.25F, -2, 2},
};

static void unary(void **state)
{
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(unary_cases); i++) {
        const struct unary_case *c = &unary_cases[i];
        struct rig rig;
        rig_init(&rig);
        uint32_t x = param(&rig, c->low, c->high, DIMS(3, 9)), y = temp(&rig, DIMS(3, 9));
        add(&rig, ENG_OP_UNARY, IDS(x), y)->u.unary = (struct eng_unary){c->fn, c->alpha, c->beta};
        check(&rig, y, eng_unary_text(c->fn));
    }
}

struct binary_case {
    enum eng_binary_fn fn;
    double low[2], high[2];
};
static const struct binary_case binary_cases[] = {
    {ENG_ADD, {-2, -2}, {2, 2}},          {ENG_SUB, {-2, -2}, {2, 2}},
    {ENG_MUL, {-2, -2}, {2, 2}},          {ENG_DIV, {-2, 0.5}, {2, 2}},
    {ENG_POW, {0.3, -2}, {2, 2}},         {ENG_MOD, {-2, 0.6}, {2, 0.9}},
    {ENG_FMOD, {-2, 0.6}, {2, 0.9}},      {ENG_MIN, {-2, -2}, {2, 2}},
    {ENG_MAX, {-2, -2}, {2, 2}},          {ENG_PRELU, {-2, -2}, {2, 2}},
    {ENG_SQUARED_DIFF, {-2, -2}, {2, 2}},
};

// Shapes of b against a [2, 3, 4]: equal, a row, a column, a middle one, a scalar, a permuted view.
struct view_case {
    uint32_t rank;
    int64_t dims[3];
    struct eng_view view;
};
static const struct view_case view_cases[] = {
    {3, {2, 3, 4}, {0, {12, 4, 1}}}, {1, {4}, {0, {0, 0, 1}}}, {2, {2, 3}, {0, {3, 1, 0}}},
    {1, {3}, {0, {0, 1, 0}}},        {1, {1}, {0, {0, 0, 0}}}, {3, {4, 3, 2}, {0, {1, 2, 6}}},
    {2, {2, 9}, {1, {9, 0, 2}}},
};

static void binary(void **state)
{
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(binary_cases) * TEST_COUNT(view_cases); i++) {
        const struct binary_case *c = &binary_cases[i / TEST_COUNT(view_cases)];
        const struct view_case *v = &view_cases[i % TEST_COUNT(view_cases)];
        struct rig rig;
        rig_init(&rig);
        uint32_t a = param(&rig, c->low[0], c->high[0], DIMS(2, 3, 4));
        uint32_t b = param(&rig, c->low[1], c->high[1], v->rank, v->dims);
        uint32_t y = temp(&rig, DIMS(2, 3, 4));
        struct eng_command *command = add(&rig, ENG_OP_BINARY, IDS(a, b), y);
        command->u.binary.fn = c->fn;
        command->box = (struct eng_box){3, {2, 3, 4}};
        command->views[0] = (struct eng_view){0, {12, 4, 1}};
        command->views[1] = v->view;
        if (v->view.offset == 1) { // unread elements: only here the differences are 0 too
            printf("%s with gaps\n", eng_binary_text(c->fn));
        }
        check(&rig, y, eng_binary_text(c->fn));
    }
}

static void select_and_cast(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig);
    const uint8_t flags[] = {1, 0, 0, 1, 1, 0};
    uint32_t cond = constant(&rig, ENG_BOOL, flags, DIMS(2, 3));
    uint32_t a = param(&rig, -1, 1, DIMS(2, 3)), b = param(&rig, -1, 1, DIMS(3));
    uint32_t chosen = temp(&rig, DIMS(2, 3)), y = temp(&rig, DIMS(2, 3));
    struct eng_command *command = add(&rig, ENG_OP_SELECT, IDS(cond, a, b), chosen);
    command->box = (struct eng_box){2, {2, 3}};
    command->views[0] = command->views[1] = (struct eng_view){0, {3, 1}};
    command->views[2] = (struct eng_view){0, {0, 1}};
    (void)add(&rig, ENG_OP_CAST, IDS(chosen), y);
    check(&rig, y, "select");
}

// --- over an axis -----------------------------------------------------------------------------

static void reductions(void **state)
{
    (void)state;
    for (int fn = 0; fn < ENG_REDUCE_COUNT; fn++) {
        struct rig rig;
        rig_init(&rig);
        uint32_t x = param(&rig, fn == ENG_REDUCE_LOG_SUM ? 0.2 : -2, 2, DIMS(2, 5, 3));
        uint32_t y = temp(&rig, DIMS(2, 3));
        add(&rig, ENG_OP_REDUCE, IDS(x), y)->u.reduce =
            (struct eng_reduce){(enum eng_reduce_fn)fn, 2, 5, 3};
        check(&rig, y, eng_reduce_text((enum eng_reduce_fn)fn));
    }
}

static void equal_extremes_share(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig);
    uint32_t x = param(&rig, 0, 1, DIMS(4)), y = temp(&rig, DIMS(1));
    struct eng_gradient gradient = {.by = x, .tensor = ENG_NONE};
    memcpy(rig.values[0], (double[]){1, 3, 3, 2}, 4 * sizeof(double));
    add(&rig, ENG_OP_REDUCE, IDS(x), y)->u.reduce = (struct eng_reduce){ENG_REDUCE_MAX, 1, 4, 1};
    assert_int_equal(eng_autodiff(&rig.program, y, &gradient, 1, NULL), BASE_OK);
    rig.program.tensors[gradient.tensor].is_output = true;
    struct eng_exec exec;
    struct eng_prepare prepare = {.arena = &rig.arena};
    assert_int_equal(eng_exec_init(&exec, &rig.program, &prepare), BASE_OK);
    (void)run(&rig, &exec, y);
    const double *dx = exec.data[gradient.tensor];
    assert_true(dx[0] == 0 && dx[1] == 0.5 && dx[2] == 0.5 && dx[3] == 0);
    eng_exec_done(&exec);
    base_arena_done(&rig.arena);
}

static void softmax(void **state)
{
    (void)state;
    for (int log = 0; log < 2; log++) {
        struct rig rig;
        rig_init(&rig);
        uint32_t x = param(&rig, -2, 2, DIMS(2, 5, 3)), y = temp(&rig, DIMS(2, 5, 3));
        add(&rig, ENG_OP_SOFTMAX, IDS(x), y)->u.softmax = (struct eng_softmax){log != 0, 2, 5, 3};
        check(&rig, y, "softmax");
    }
}

static void cumulative_sums(void **state)
{
    (void)state;
    for (int flags = 0; flags < 4; flags++) {
        struct rig rig;
        rig_init(&rig);
        uint32_t x = param(&rig, -2, 2, DIMS(2, 5, 3)), y = temp(&rig, DIMS(2, 5, 3));
        add(&rig, ENG_OP_CUMSUM, IDS(x), y)->u.cumsum =
            (struct eng_cumsum){2, 5, 3, (flags & 1) != 0, (flags & 2) != 0};
        check(&rig, y, "cumsum");
    }
}

static const struct eng_norm norm_cases[] = {
    {.scale_inner = 1, .scale_count = 6},        {.scale_inner = 2, .scale_count = 3},
    {.scale_inner = 1, .scale_count = 2},        {.scale_count = 2, .scale_per_group = true},
    {.scale_count = 4, .scale_per_group = true}, {.scale_inner = 1, .scale_count = 6, .rms = true},
};

static void normalisation(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2 * TEST_COUNT(norm_cases); i++) {
        bool has_scale = i < TEST_COUNT(norm_cases);
        struct eng_norm norm = norm_cases[i % TEST_COUNT(norm_cases)];
        struct rig rig;
        rig_init(&rig);
        uint32_t x = param(&rig, -2, 2, DIMS(4, 6)), y = temp(&rig, DIMS(4, 6));
        uint32_t scale = has_scale ? param(&rig, 0.5, 2, DIMS(norm.scale_count)) : ENG_NONE;
        uint32_t bias = has_scale ? param(&rig, -1, 1, DIMS(norm.scale_count)) : ENG_NONE;
        norm.groups = 4;
        norm.n = 6;
        norm.epsilon = 1e-3F;
        add(&rig, ENG_OP_NORM, IDS(x, scale, bias), y)->u.norm = norm;
        check(&rig, y, "norm");
    }
}

// No groups, or groups of nothing, as a layer norm of no features has: nothing is divided by how
// many there are, and the loss depends on none of the inputs.
static void normalisation_of_nothing(void **state)
{
    (void)state;
    static const struct eng_norm cases[] = {
        {.groups = 4, .n = 0, .scale_inner = 1, .scale_count = 0},
        {.groups = 0, .n = 6, .scale_inner = 1, .scale_count = 6},
        {.groups = 0, .n = 6, .scale_count = 3, .scale_per_group = true},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct rig rig;
        rig_init(&rig);
        const struct eng_norm *norm = &cases[i];
        uint32_t x = param(&rig, -2, 2, DIMS(norm->groups, norm->n));
        uint32_t scale = param(&rig, 0.5, 2, DIMS(norm->scale_count));
        uint32_t bias = param(&rig, -1, 1, DIMS(norm->scale_count));
        uint32_t y = temp(&rig, DIMS(norm->groups, norm->n)), loss = temp(&rig, DIMS(1));
        struct eng_gradient wanted[] = {{.by = x}, {.by = scale}, {.by = bias}};
        add(&rig, ENG_OP_NORM, IDS(x, scale, bias), y)->u.norm = *norm;
        add(&rig, ENG_OP_REDUCE, IDS(y), loss)->u.reduce =
            (struct eng_reduce){ENG_REDUCE_SUM, 1, 0, 1};
        assert_int_equal(eng_autodiff(&rig.program, loss, wanted, 3, NULL), BASE_OK);
        for (size_t w = 0; w < TEST_COUNT(wanted); w++) {
            assert_int_equal(wanted[w].tensor, ENG_NONE);
        }
        base_arena_done(&rig.arena);
    }
}

// --- products ---------------------------------------------------------------------------------

struct matmul_case {
    const char *name;
    uint32_t a_rank, b_rank;
    int64_t a_dims[3], b_dims[3];
    struct eng_view a, b;
};
// Box [2, 3, 4, 5]: batch, m, n, k.
static const struct matmul_case matmul_cases[] = {
    {"plain", 3, 3, {2, 3, 5}, {2, 5, 4}, {0, {15, 5, 0, 1}}, {0, {20, 0, 1, 4}}},
    {"shared", 3, 2, {2, 3, 5}, {5, 4}, {0, {15, 5, 0, 1}}, {0, {0, 0, 1, 4}}},
    {"transposed", 3, 3, {2, 5, 3}, {2, 4, 5}, {0, {15, 1, 0, 3}}, {0, {20, 0, 5, 1}}},
    {"interleaved", 3, 3, {3, 2, 5}, {5, 2, 4}, {0, {5, 10, 0, 1}}, {0, {4, 0, 1, 8}}},
    {"slices", 3, 3, {2, 4, 5}, {2, 5, 6}, {5, {20, 5, 0, 1}}, {2, {30, 0, 1, 6}}},
};

static void products(void **state)
{
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(matmul_cases); i++) {
        const struct matmul_case *c = &matmul_cases[i];
        struct rig rig;
        rig_init(&rig);
        uint32_t a = param(&rig, -1, 1, c->a_rank, c->a_dims);
        uint32_t b = param(&rig, -1, 1, c->b_rank, c->b_dims), bias = param(&rig, -1, 1, DIMS(4));
        uint32_t y = temp(&rig, DIMS(2, 3, 4));
        struct eng_command *command = add(&rig, ENG_OP_MATMUL, IDS(a, b, bias), y);
        command->box = (struct eng_box){4, {2, 3, 4, 5}};
        command->views[0] = c->a;
        command->views[1] = c->b;
        command->u.matmul = (struct eng_matmul){
            .batch_rank = 1, .alpha = 0.5F, .epilogue = {.bias = bias, .residual = ENG_NONE}};
        check(&rig, y, c->name);
    }
}

static void convolutions(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        enum eng_layout layout = (i & 1) != 0 ? ENG_CHANNELS_LAST : ENG_PLAIN;
        bool is_transpose = (i & 2) != 0;
        const int64_t large[] = {2, 4, 6, 5}, small[] = {2, 6, 3, 3};
        struct rig rig;
        rig_init(&rig);
        uint32_t x = param_in(&rig, layout, -1, 1, 4, is_transpose ? small : large);
        uint32_t w = param(&rig, -1, 1, DIMS(6, 2, 3, 2));
        uint32_t bias = param(&rig, -1, 1, DIMS(is_transpose ? 4 : 6));
        uint32_t y = tensor(&rig, ENG_TEMP, layout, ENG_F64, 4, is_transpose ? large : small);
        struct eng_command *command =
            add(&rig, is_transpose ? ENG_OP_CONV_TRANSPOSE : ENG_OP_CONV, IDS(x, w, bias), y);
        command->u.conv = (struct eng_conv){
            .spatial = 2,
            .groups = 2,
            .kernel = {3, 2},
            .stride = {2, 2},
            .dilation = {1, 2},
            .pad_begin = {1, 0},
            .pad_end = {0, 2},
            .epilogue = {.bias = bias, .residual = ENG_NONE},
        };
        check(&rig, y, is_transpose ? "conv_transpose" : "conv");
    }
}

struct conv_case {
    uint32_t spatial;
    int64_t groups, channels, filters, in[3], kernel[3], stride[3], dilation[3], pad_begin[3],
        pad_end[3];
};
// Pointwise, strided pointwise, the usual one, leftovers of the stride, more padding than the
// kernel reaches, one and three dimensions; depthwise and in groups; one that sees padding alone.
static const struct conv_case conv_cases[] = {
    {2, 1, 3, 5, {4, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
    {2, 1, 3, 5, {6, 5}, {1, 1}, {2, 3}, {1, 1}, {0, 0}, {0, 0}},
    {2, 1, 3, 4, {5, 6}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {2, 1, 3, 2, {8, 7}, {3, 2}, {3, 2}, {1, 2}, {1, 0}, {0, 1}},
    {2, 1, 2, 3, {5, 4}, {2, 2}, {1, 2}, {1, 1}, {3, 0}, {0, 2}},
    {2, 1, 2, 3, {5, 4}, {1, 1}, {1, 1}, {1, 1}, {1, 0}, {0, 1}},
    {1, 1, 3, 2, {9}, {4}, {2}, {1}, {1}, {2}},
    {3, 1, 2, 2, {4, 3, 5}, {2, 3, 2}, {2, 1, 1}, {1, 1, 2}, {0, 1, 1}, {1, 1, 0}},
    {2, 4, 4, 4, {6, 5}, {3, 3}, {1, 2}, {1, 1}, {1, 1}, {1, 1}},
    {2, 3, 3, 3, {5, 4}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
    {2, 2, 4, 6, {5, 6}, {3, 2}, {2, 1}, {1, 2}, {1, 1}, {0, 1}},
    {2, 2, 4, 2, {5, 6}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
    {2, 3, 3, 6, {5, 6}, {2, 3}, {1, 1}, {1, 1}, {0, 1}, {0, 1}},
    {3, 1, 2, 2, {1, 1, 1}, {2, 1, 1}, {5, 1, 1}, {1, 1, 1}, {3, 0, 0}, {0, 0, 0}},
};

static void convolutions_of_all_kinds(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2 * TEST_COUNT(conv_cases); i++) {
        const struct conv_case *c = &conv_cases[i / 2];
        enum eng_layout layout = i % 2 != 0 ? ENG_CHANNELS_LAST : ENG_PLAIN;
        int64_t large[5] = {2, c->channels}, small[5] = {2, c->filters};
        int64_t kernel[5] = {c->filters, c->channels / c->groups};
        struct eng_conv conv = {.spatial = c->spatial, .groups = c->groups, .epilogue = NO_FUSION};
        struct rig rig;
        for (uint32_t s = 0; s < c->spatial; s++) {
            large[s + 2] = c->in[s];
            kernel[s + 2] = conv.kernel[s] = c->kernel[s];
            conv.stride[s] = c->stride[s];
            conv.dilation[s] = c->dilation[s];
            conv.pad_begin[s] = c->pad_begin[s];
            conv.pad_end[s] = c->pad_end[s];
            small[s + 2] = (c->in[s] + c->pad_begin[s] + c->pad_end[s] -
                            (c->kernel[s] - 1) * c->dilation[s] - 1) /
                               c->stride[s] +
                           1;
        }
        rig_init(&rig);
        uint32_t x = param_in(&rig, layout, -1, 1, c->spatial + 2, large);
        uint32_t w = param(&rig, -1, 1, c->spatial + 2, kernel);
        uint32_t y = tensor(&rig, ENG_TEMP, layout, ENG_F64, c->spatial + 2, small);
        add(&rig, ENG_OP_CONV, IDS(x, w), y)->u.conv = conv;
        printf("convolution %zu\n", i);
        check(&rig, y, "conv");
    }
}

static void pools(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++) {
        enum eng_layout layout = (i & 1) != 0 ? ENG_CHANNELS_LAST : ENG_PLAIN;
        struct rig rig;
        rig_init(&rig);
        uint32_t x = param_in(&rig, layout, -1, 1, DIMS(2, 3, 5, 4));
        const int64_t dims[] = {2, 3, 3, 3};
        uint32_t y = tensor(&rig, ENG_TEMP, layout, ENG_F64, 4, dims);
        add(&rig, ENG_OP_POOL, IDS(x), y)->u.pool = (struct eng_pool){
            .fn = i < 6 ? (enum eng_pool_fn)(i / 2) : ENG_POOL_AVERAGE,
            .count_include_pad = i >= 6,
            .spatial = 2,
            .kernel = {3, 2},
            .stride = {2, 1},
            .dilation = {1, 1},
            .pad_begin = {1, 0},
            .pad_end = {1, 0},
            .p = 3,
        };
        check(&rig, y, "pool");
    }
}

// Every mode and every rule of coordinates; up, down and to one element.
static void resizing(void **state)
{
    (void)state;
    const int64_t sizes[][2] = {{7, 4}, {3, 2}, {1, 9}};
    for (int i = 0; i < 3 * 6 * 3; i++) {
        const int64_t *size = sizes[i % 3];
        struct eng_resize resize = {.fn = (enum eng_resize_fn)(i / 3 % 3),
                                    .coord = (enum eng_resize_coord)(i / 9),
                                    .scale = {1, 1, (float)size[0] / 4, (float)size[1] / 5},
                                    .roi_end = {1, 1, 1.2F, 0.8F},
                                    .roi_begin = {0, 0, 0.1F, 0.2F},
                                    .cubic_a = -0.75F,
                                    .extrapolation = 2,
                                    .exclude_outside = i % 2 != 0};
        struct rig rig;
        rig_init(&rig);
        uint32_t x = param(&rig, -1, 1, DIMS(2, 2, 4, 5));
        uint32_t y = temp(&rig, DIMS(2, 2, size[0], size[1]));
        add(&rig, ENG_OP_RESIZE, IDS(x), y)->u.resize = &resize;
        check(&rig, y, "resize");
    }
}

// --- moves ------------------------------------------------------------------------------------

static void rasters(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig);
    // x transposed; a slice of x written behind; z spread over a column; the rest zero.
    uint32_t x = param(&rig, -1, 1, DIMS(3, 4)), z = param(&rig, -1, 1, DIMS(2));
    uint32_t y = temp(&rig, DIMS(24));
    const struct eng_region regions[] = {
        {.source = x, .rank = 2, .size = {4, 3}, .src_stride = {1, 4}, .dst_stride = {3, 1}},
        {.source = x,
         .rank = 1,
         .src_offset = 5,
         .dst_offset = 12,
         .size = {3},
         .src_stride = {1},
         .dst_stride = {1}},
        {.source = z,
         .rank = 2,
         .dst_offset = 15,
         .size = {2, 4},
         .src_stride = {1, 0},
         .dst_stride = {4, 1}},
    };
    struct eng_command *command = add(&rig, ENG_OP_RASTER, IDS(x, z), y);
    command->u.raster.regions = regions;
    command->u.raster.count = TEST_COUNT(regions);
    command->u.raster.zero_fill = true;
    check(&rig, y, "raster");
    rig_init(&rig); // one region, reversed: no sums
    x = param(&rig, -1, 1, DIMS(6));
    y = temp(&rig, DIMS(6));
    const struct eng_region reversed = {.source = x,
                                        .rank = 1,
                                        .src_offset = 5,
                                        .size = {6},
                                        .src_stride = {-1},
                                        .dst_stride = {1}};
    command = add(&rig, ENG_OP_RASTER, IDS(x), y);
    command->u.raster.regions = &reversed;
    command->u.raster.count = 1;
    check(&rig, y, "reversed");
}

static void gathers(void **state)
{
    (void)state;
    const int64_t at[] = {2, -3, 2, 0};
    const int32_t each[] = {2, 0, -1, 2, 1, -3, 0, 2};
    for (int outer = 1; outer < 3; outer++) {
        struct rig rig;
        rig_init(&rig);
        uint32_t x = param(&rig, -1, 1, DIMS(outer, 3, 2)), y = temp(&rig, DIMS(outer, 4, 2));
        uint32_t indices = constant(&rig, ENG_I64, at, DIMS(4));
        add(&rig, ENG_OP_GATHER, IDS(x, indices), y)->u.gather =
            (struct eng_gather){.outer = outer, .n = 3, .inner = 2};
        check(&rig, y, "gather");
        rig_init(&rig);
        x = param(&rig, -1, 1, DIMS(outer, 3, 2));
        y = temp(&rig, DIMS(outer, 2, 2));
        indices = constant(&rig, ENG_I32, each, DIMS(outer, 2, 2));
        add(&rig, ENG_OP_GATHER, IDS(x, indices), y)->u.gather =
            (struct eng_gather){.outer = outer, .n = 3, .inner = 2, .elementwise = true, .m = 2};
        check(&rig, y, "gather of elements");
    }
}

static void scatters(void **state)
{
    (void)state;
    const int64_t at[] = {2, -4, 1}, twice[] = {2, -4, 2};
    for (int fn = ENG_SCATTER_SET; fn <= ENG_SCATTER_ADD; fn++) {
        struct rig rig;
        rig_init(&rig);
        uint32_t x = param(&rig, -1, 1, DIMS(4, 2)), updates = param(&rig, -1, 1, DIMS(3, 2));
        uint32_t y = temp(&rig, DIMS(4, 2));
        uint32_t indices = constant(&rig, ENG_I64, fn == ENG_SCATTER_SET ? at : twice, DIMS(3));
        add(&rig, ENG_OP_SCATTER, IDS(x, indices, updates), y)->u.scatter =
            (struct eng_scatter){.fn = (enum eng_scatter_fn)fn, .rows = 4, .count = 3, .inner = 2};
        check(&rig, y, "scatter");
    }
}

static void top_k(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig);
    const int64_t dims[] = {2, 3, 2};
    uint32_t x = param(&rig, -1, 1, DIMS(2, 5, 2)), y = temp(&rig, 3, dims);
    uint32_t indices = tensor(&rig, ENG_TEMP, ENG_PLAIN, ENG_I64, 3, dims);
    struct eng_command *command = NULL;
    assert_int_equal(eng_program_command(&rig.program, ENG_OP_TOPK, 1, 2, &command), BASE_OK);
    command->inputs[0] = x;
    command->outputs[0] = y;
    command->outputs[1] = indices;
    command->u.topk = (struct eng_topk){2, 5, 2, 3, true, true};
    check(&rig, y, "topk");
}

// --- the walk ---------------------------------------------------------------------------------

// y = x * x + sin(x) reads x three times, once through an alias.
static void fan_out(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig);
    uint32_t x = param(&rig, -1, 1, DIMS(2, 3)), square = temp(&rig, DIMS(6));
    uint32_t sine = temp(&rig, DIMS(2, 3)), y = temp(&rig, DIMS(2, 3)), flat = temp(&rig, DIMS(6));
    rig.program.tensors[flat].alias = x;
    struct eng_command *command = add(&rig, ENG_OP_BINARY, IDS(x, flat), square);
    command->u.binary.fn = ENG_MUL;
    command->box = (struct eng_box){1, {6}};
    command->views[0].stride[0] = command->views[1].stride[0] = 1;
    add(&rig, ENG_OP_UNARY, IDS(x), sine)->u.unary.fn = ENG_SIN;
    command = add(&rig, ENG_OP_BINARY, IDS(square, sine), y);
    command->u.binary.fn = ENG_ADD;
    command->box = (struct eng_box){1, {6}};
    command->views[0].stride[0] = command->views[1].stride[0] = 1;
    check(&rig, y, "fan out");
}

static void what_has_no_gradient(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig);
    uint32_t x = param(&rig, 1, 2, DIMS(2, 2)), unused = param(&rig, 1, 2, DIMS(3));
    uint32_t y = temp(&rig, DIMS(1)), z = temp(&rig, DIMS(1));
    (void)add(&rig, ENG_OP_DET, IDS(x), y);
    struct eng_gradient wanted[] = {{.by = x}, {.by = unused}};
    assert_int_equal(eng_autodiff(&rig.program, y, wanted, 2, &rig.error), BASE_ERR_UNSUPPORTED);
    assert_non_null(strstr(rig.error.text, "det"));
    struct eng_resize smooth = {.fn = ENG_RESIZE_LINEAR, .scale = {0.5F, 0.5F}, .antialias = true};
    uint32_t smaller = temp(&rig, DIMS(1, 1));
    add(&rig, ENG_OP_RESIZE, IDS(x), smaller)->u.resize = &smooth;
    assert_int_equal(eng_autodiff(&rig.program, smaller, wanted, 2, &rig.error),
                     BASE_ERR_UNSUPPORTED);
    assert_non_null(strstr(rig.error.text, "antialias"));
    add(&rig, ENG_OP_REDUCE, IDS(unused), z)->u.reduce =
        (struct eng_reduce){ENG_REDUCE_SUM, 1, 3, 1};
    assert_int_equal(eng_autodiff(&rig.program, z, wanted, 2, &rig.error), BASE_OK);
    assert_int_equal(wanted[0].tensor, ENG_NONE);
    assert_int_not_equal(wanted[1].tensor, ENG_NONE);
    assert_int_equal(eng_autodiff(&rig.program, x, wanted, 2, &rig.error), BASE_ERR_INVALID);
    base_arena_done(&rig.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unary),
        cmocka_unit_test(binary),
        cmocka_unit_test(select_and_cast),
        cmocka_unit_test(reductions),
        cmocka_unit_test(equal_extremes_share),
        cmocka_unit_test(softmax),
        cmocka_unit_test(cumulative_sums),
        cmocka_unit_test(normalisation),
        cmocka_unit_test(normalisation_of_nothing),
        cmocka_unit_test(products),
        cmocka_unit_test(convolutions),
        cmocka_unit_test(convolutions_of_all_kinds),
        cmocka_unit_test(pools),
        cmocka_unit_test(resizing),
        cmocka_unit_test(rasters),
        cmocka_unit_test(gathers),
        cmocka_unit_test(scatters),
        cmocka_unit_test(top_k),
        cmocka_unit_test(fan_out),
        cmocka_unit_test(what_has_no_gradient),
    };
    test_seed(&prng);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
