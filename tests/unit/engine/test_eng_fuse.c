// The fusion passes on programs written by hand: each must give the numbers of the program as it
// was, with the commands it should have, and must keep its hands off what others read.
#include "program_rig.h"

// --- views ---------------------------------------------------------------------------------------

static void views_are_told_apart(void **state)
{
    (void)state;
    const struct eng_box box = {.rank = 3, .size = {2, 3, 4}};
    assert_true(eng_view_is_dense(&box, &(struct eng_view){.stride = {12, 4, 1}}));
    assert_false(eng_view_is_dense(&box, &(struct eng_view){.offset = 1, .stride = {12, 4, 1}}));
    assert_false(eng_view_is_dense(&box, &(struct eng_view){.stride = {12, 0, 1}}));
    assert_true(eng_view_is_one(&box, &(struct eng_view){.offset = 5}));
    assert_true(eng_view_is_channel(&box, &(struct eng_view){.stride = {0, 0, 1}}, 4, 1));
    assert_true(eng_view_is_channel(&box, &(struct eng_view){.stride = {0, 4, 1}}, 12, 1));
    assert_true(eng_view_is_channel(&box, &(struct eng_view){.stride = {0, 1, 0}}, 3, 4));
    assert_true(eng_view_is_channel(&box, &(struct eng_view){.stride = {3, 1, 0}}, 6, 4));
    assert_false(eng_view_is_channel(&box, &(struct eng_view){.stride = {0, 1, 0}}, 3, 2));
    assert_false(eng_view_is_channel(&box, &(struct eng_view){.stride = {0, 0, 1}}, 2, 1));
    assert_false(eng_view_is_channel(&box, &(struct eng_view){.stride = {0, 1, 1}}, 4, 1));
    assert_false(eng_view_is_channel(&box, &(struct eng_view){.stride = {0, 0, 1}}, 8, 1));
}

// Every split that succeeds must address the same elements, and those that exist must be found.
static void splits_address_the_same_elements(void **state)
{
    (void)state;
    struct base_prng prng;
    test_seed(&prng);
    uint32_t found = 0;
    for (uint32_t round = 0; round < 20000; round++) {
        struct eng_box fine = {.rank = 4};
        struct eng_view view = {.offset = (int64_t)base_prng_below(&prng, 5)};
        for (uint32_t d = 0; d < 4; d++) {
            fine.size[d] = 1 + (int64_t)base_prng_below(&prng, 4);
            view.stride[d] =
                (int64_t)base_prng_below(&prng, 3) * (int64_t)base_prng_below(&prng, 9);
        }
        // A coarser box where the strides allow it, then back to the fine one.
        struct eng_box coarse = fine;
        struct eng_view joined = view;
        eng_box_collapse(&coarse, &joined, 1);
        assert_int_equal(eng_box_count(&coarse), eng_box_count(&fine));
        int64_t strides[ENG_RANK_MAX];
        assert_true(eng_view_split(&coarse, &joined, 4, fine.size, strides));
        for (uint32_t d = 0; d < 4; d++) {
            assert_true(fine.size[d] == 1 || strides[d] == view.stride[d]);
        }
        // Any other factors of the same count: when it works, element by element the same.
        int64_t others[3] = {eng_box_count(&fine), 1, 1};
        for (uint32_t d = 1; d < 3; d++) {
            int64_t factor = 1 + (int64_t)base_prng_below(&prng, 6);
            if (others[0] % factor == 0) {
                others[0] /= factor;
                others[d] = factor;
            }
        }
        if (!eng_view_split(&fine, &view, 3, others, strides)) {
            continue;
        }
        found++;
        for (int64_t i = 0; i < eng_box_count(&fine); i++) {
            int64_t a = 0, b = 0, left = i;
            for (uint32_t d = 4; d > 0; d--) {
                a += left % fine.size[d - 1] * view.stride[d - 1];
                left /= fine.size[d - 1];
            }
            left = i;
            for (uint32_t d = 3; d > 0; d--) {
                b += left % others[d - 1] * strides[d - 1];
                left /= others[d - 1];
            }
            assert_int_equal(a, b);
        }
    }
    assert_in_range(found, 100, 20000);
}

// --- epilogues -----------------------------------------------------------------------------------

static void build_linear(struct program_rig *rig)
{
    uint32_t x = pr_input(rig, PR_DIMS(2, 5, 7));
    uint32_t r = pr_input(rig, PR_DIMS(10, 3));
    uint32_t y = pr_matmul(rig, x, pr_const(rig, PR_DIMS(7, 3)));
    y = pr_binary(rig, ENG_ADD, pr_const(rig, PR_DIMS(3)), y);
    y = pr_binary(rig, ENG_ADD, pr_alias(rig, y, PR_DIMS(10, 3)), r);
    y = pr_unary(rig, ENG_RELU, y);
    pr_output(rig, y);
}

static void bias_residual_and_activation_become_one_product(void **state)
{
    (void)state;
    struct program_rig rig;
    pr_check(&rig, build_linear);
    assert_int_equal(rig.program.command_count, 1);
    const struct eng_epilogue *e = &rig.program.commands[0].u.matmul.epilogue;
    assert_int_not_equal(e->bias, ENG_NONE);
    assert_int_not_equal(e->residual, ENG_NONE);
    assert_true(e->has_activation);
    assert_int_equal(e->activation, ENG_RELU);
    assert_int_equal(rig.program.commands[0].input_count, 4);
    pr_done(&rig);
}

static uint32_t conv(struct program_rig *rig, uint32_t x, int64_t channels)
{
    const struct eng_tensor *t = &rig->program.tensors[x];
    enum eng_layout layout = t->layout;
    int64_t dims[4] = {t->desc.dims[0], channels, t->desc.dims[2], t->desc.dims[3]};
    uint32_t w = pr_const(rig, PR_DIMS(channels, t->desc.dims[1], 3, 3));
    uint32_t y = pr_tensor(rig, ENG_TEMP, layout, 4, dims);
    struct eng_command *command = pr_command(rig, ENG_OP_CONV, 2, (const uint32_t[]){x, w}, y);
    command->u.conv = (struct eng_conv){
        .spatial = 2,
        .groups = 1,
        .kernel = {3, 3},
        .stride = {1, 1},
        .dilation = {1, 1},
        .pad_begin = {1, 1},
        .pad_end = {1, 1},
        .epilogue = {.bias = ENG_NONE, .residual = ENG_NONE},
    };
    return y;
}

// Two branches summed: the later convolution takes the sum.
static void build_residual(struct program_rig *rig)
{
    uint32_t x = pr_tensor(rig, ENG_INPUT, ENG_CHANNELS_LAST, PR_DIMS(2, 3, 4, 5));
    uint32_t a = conv(rig, x, 6);
    uint32_t b = conv(rig, x, 6);
    b = pr_unary(rig, ENG_CLIP, b);
    b = conv(rig, b, 6);
    b = pr_binary(rig, ENG_ADD, b, pr_const(rig, PR_DIMS(6)));
    uint32_t y = pr_binary(rig, ENG_ADD, a, b);
    pr_output(rig, pr_unary(rig, ENG_LEAKY_RELU, y));
}

static void the_later_branch_takes_the_sum(void **state)
{
    (void)state;
    struct program_rig rig;
    pr_check(&rig, build_residual);
    assert_int_equal(rig.program.command_count, 3);
    const struct eng_epilogue *last = &rig.program.commands[2].u.conv.epilogue;
    assert_int_not_equal(last->bias, ENG_NONE);
    assert_int_equal(last->residual, rig.program.commands[0].outputs[0]);
    assert_int_equal(last->activation, ENG_LEAKY_RELU);
    assert_true(last->alpha == 0.1F);
    assert_int_equal(rig.program.commands[1].u.conv.epilogue.activation, ENG_CLIP);
    assert_true(rig.program.commands[1].u.conv.epilogue.beta == 0.9F);
    pr_done(&rig);
}

static void build_plain_conv(struct program_rig *rig)
{
    uint32_t x = pr_input(rig, PR_DIMS(2, 3, 4, 5));
    uint32_t y = conv(rig, x, 6);
    y = pr_binary(rig, ENG_ADD, y, pr_const(rig, PR_DIMS(6, 1, 1)));
    y = pr_binary(rig, ENG_ADD, y, pr_const(rig, PR_DIMS(4, 5))); // no bias: stays
    pr_output(rig, y);
}

static void bias_of_a_plain_convolution_is_over_its_channels(void **state)
{
    (void)state;
    struct program_rig rig;
    pr_check(&rig, build_plain_conv);
    assert_int_equal(rig.program.command_count, 2);
    assert_int_not_equal(rig.program.commands[0].u.conv.epilogue.bias, ENG_NONE);
    assert_int_equal(rig.program.commands[0].u.conv.epilogue.residual, ENG_NONE);
    pr_done(&rig);
}

// The product itself is an output, or read twice: nothing may be taken into it.
static void build_shared(struct program_rig *rig)
{
    uint32_t x = pr_input(rig, PR_DIMS(4, 4));
    uint32_t y = pr_matmul(rig, x, pr_const(rig, PR_DIMS(4, 4)));
    uint32_t z = pr_matmul(rig, y, pr_const(rig, PR_DIMS(4, 4)));
    pr_output(rig, y);
    pr_output(rig, pr_unary(rig, ENG_RELU, y));
    pr_output(rig, pr_unary(rig, ENG_RELU, z));
    pr_output(rig, pr_binary(rig, ENG_ADD, z, x));
}

static void results_others_read_stay(void **state)
{
    (void)state;
    struct program_rig rig;
    pr_check(&rig, build_shared);
    assert_int_equal(rig.program.command_count, 5);
    pr_done(&rig);
}

// --- norms ---------------------------------------------------------------------------------------

static uint32_t variance(struct program_rig *rig, uint32_t centred, int form)
{
    uint32_t square = form == 0   ? pr_binary(rig, ENG_POW, centred, pr_scalar(rig, 2))
                      : form == 1 ? pr_binary(rig, ENG_MUL, centred, centred)
                                  : pr_unary(rig, ENG_SQUARE, centred);
    uint32_t mean = pr_mean(rig, square);
    return pr_binary(rig, ENG_ADD, mean, pr_scalar(rig, 0.01F));
}

// As PyTorch exports it; the form of the square and of the division varies.
static void torch_norm(struct program_rig *rig, int form)
{
    uint32_t x = pr_input(rig, PR_DIMS(2, 3, 8));
    uint32_t centred = pr_binary(rig, ENG_SUB, x, pr_mean(rig, x));
    uint32_t v = variance(rig, centred, form);
    uint32_t y;
    if (form == 0) {
        y = pr_binary(rig, ENG_DIV, centred, pr_unary(rig, ENG_SQRT, v));
    } else if (form == 1) {
        y = pr_binary(rig, ENG_MUL, pr_unary(rig, ENG_RSQRT, v), centred);
    } else {
        uint32_t one = pr_scalar(rig, 1);
        y = pr_binary(rig, ENG_MUL, centred,
                      pr_binary(rig, ENG_DIV, one, pr_unary(rig, ENG_SQRT, v)));
    }
    y = pr_binary(rig, ENG_MUL, y, pr_const(rig, PR_DIMS(8)));
    pr_output(rig, pr_binary(rig, ENG_ADD, pr_const(rig, PR_DIMS(8)), y));
}

static void build_torch_div(struct program_rig *rig)
{
    torch_norm(rig, 0);
}
static void build_torch_rsqrt(struct program_rig *rig)
{
    torch_norm(rig, 1);
}
static void build_torch_inverse(struct program_rig *rig)
{
    torch_norm(rig, 2);
}

// As TensorFlow's converter writes it.
static void build_tensorflow(struct program_rig *rig)
{
    uint32_t x = pr_input(rig, PR_DIMS(2, 3, 8));
    uint32_t mean = pr_mean(rig, x);
    uint32_t v = variance(rig, pr_binary(rig, ENG_SUB, x, mean), 1);
    uint32_t inverse = pr_unary(rig, ENG_RECIPROCAL, pr_unary(rig, ENG_SQRT, v));
    uint32_t k = pr_binary(rig, ENG_MUL, inverse, pr_const(rig, PR_DIMS(8)));
    uint32_t rest =
        pr_binary(rig, ENG_SUB, pr_const(rig, PR_DIMS(8)), pr_binary(rig, ENG_MUL, mean, k));
    pr_output(rig, pr_binary(rig, ENG_ADD, pr_binary(rig, ENG_MUL, x, k), rest));
}

static void build_squared_difference(struct program_rig *rig)
{
    uint32_t x = pr_input(rig, PR_DIMS(6, 8));
    uint32_t mean = pr_mean(rig, x);
    uint32_t v = pr_mean(rig, pr_binary(rig, ENG_SQUARED_DIFF, x, mean));
    v = pr_binary(rig, ENG_ADD, pr_scalar(rig, 1e-5F), v);
    uint32_t y =
        pr_binary(rig, ENG_MUL, pr_binary(rig, ENG_SUB, x, mean), pr_unary(rig, ENG_RSQRT, v));
    pr_output(rig, pr_binary(rig, ENG_MUL, y, pr_const(rig, PR_DIMS(8))));
}

static void build_bare(struct program_rig *rig)
{
    uint32_t x = pr_input(rig, PR_DIMS(1, 8)); // one row: every view of it is ambiguous
    uint32_t centred = pr_binary(rig, ENG_SUB, x, pr_mean(rig, x));
    uint32_t v = variance(rig, centred, 0);
    pr_output(rig, pr_binary(rig, ENG_DIV, centred, pr_unary(rig, ENG_SQRT, v)));
}

static void layer_norms_are_recognised(void **state)
{
    (void)state;
    static const struct {
        pr_build_fn build;
        bool has_scale, has_bias;
    } cases[] = {
        {build_torch_div, true, true},           {build_torch_rsqrt, true, true},
        {build_torch_inverse, true, true},       {build_tensorflow, true, true},
        {build_squared_difference, true, false}, {build_bare, false, false},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct program_rig rig;
        pr_check(&rig, cases[i].build);
        assert_int_equal(rig.program.command_count, 1);
        const struct eng_command *norm = &rig.program.commands[0];
        assert_int_equal(norm->op, ENG_OP_NORM);
        assert_int_equal(norm->inputs[1] != ENG_NONE, cases[i].has_scale);
        assert_int_equal(norm->inputs[2] != ENG_NONE, cases[i].has_bias);
        pr_done(&rig);
    }
}

// Almost a norm: the mean of something else is subtracted.
static void build_no_norm(struct program_rig *rig)
{
    uint32_t x = pr_input(rig, PR_DIMS(3, 8));
    uint32_t other = pr_input(rig, PR_DIMS(3, 8));
    uint32_t centred = pr_binary(rig, ENG_SUB, x, pr_mean(rig, other));
    uint32_t v = variance(rig, centred, 0);
    pr_output(rig, pr_binary(rig, ENG_DIV, centred, pr_unary(rig, ENG_SQRT, v)));
    // Rows and columns of a square matrix look alike by size: scale by column is not by row.
    uint32_t y = pr_input(rig, PR_DIMS(8, 8));
    uint32_t mean = pr_alias(rig, pr_mean(rig, y), PR_DIMS(8));
    uint32_t wrong = pr_binary(rig, ENG_SUB, y, mean);
    uint32_t w = variance(rig, wrong, 1);
    pr_output(rig, pr_binary(rig, ENG_DIV, wrong, pr_unary(rig, ENG_SQRT, w)));
}

static void almost_norms_are_left_alone(void **state)
{
    (void)state;
    struct program_rig rig;
    pr_check(&rig, build_no_norm);
    assert_int_equal(pr_count_op(&rig, ENG_OP_NORM), 0);
    assert_int_equal(pr_count_op(&rig, ENG_OP_REDUCE), 4);
    pr_done(&rig);
}

// --- attention -----------------------------------------------------------------------------------

enum { B = 2, H = 3, S = 4, T = 5, D = 6, E = 7 };

// Q, K, V as [B, S|T, H, D|E]: read by the products as they lie.
static uint32_t heads_product(struct program_rig *rig, uint32_t a, uint32_t b, bool second)
{
    int64_t rows = S, columns = second ? E : T, inner = second ? T : D;
    uint32_t y = pr_tensor(rig, ENG_TEMP, ENG_PLAIN, PR_DIMS(B, H, rows, columns));
    struct eng_command *c = pr_command(rig, ENG_OP_MATMUL, 2, (const uint32_t[]){a, b}, y);
    c->u.matmul = (struct eng_matmul){
        .batch_rank = 2, .alpha = 1, .epilogue = {.bias = ENG_NONE, .residual = ENG_NONE}};
    c->box = (struct eng_box){.rank = 5, .size = {B, H, rows, columns, inner}};
    if (second) {
        c->views[0] = (struct eng_view){.stride = {H * S * T, S * T, T, 0, 1}};
        c->views[1] = (struct eng_view){.stride = {T * H * E, E, 0, 1, H * E}};
    } else {
        c->views[0] = (struct eng_view){.stride = {S * H * D, D, H * D, 0, 1}};
        c->views[1] = (struct eng_view){.stride = {T * H * D, D, 0, H * D, 1}};
    }
    return y;
}

static uint32_t merge_heads(struct program_rig *rig, uint32_t x)
{
    uint32_t y = pr_tensor(rig, ENG_TEMP, ENG_PLAIN, PR_DIMS(B * S, H * E));
    struct eng_command *c = pr_command(rig, ENG_OP_RASTER, 1, &x, y);
    struct eng_region *region = base_arena_zalloc(&rig->arena, sizeof(*region));
    assert_non_null(region);
    *region = (struct eng_region){
        .source = x,
        .rank = 4,
        .size = {B, S, H, E},
        .src_stride = {H * S * E, E, S * E, 1},
        .dst_stride = {S * H * E, H * E, E, 1},
    };
    c->u.raster.regions = region;
    c->u.raster.count = 1;
    return y;
}

static void attention(struct program_rig *rig, bool masked, bool merged)
{
    uint32_t q = pr_input(rig, PR_DIMS(B, S, H, D));
    uint32_t k = pr_input(rig, PR_DIMS(B, T, H, D));
    uint32_t v = pr_input(rig, PR_DIMS(B, T, H, E));
    uint32_t mask = pr_input(rig, PR_DIMS(B, 1, 1, T));
    uint32_t scores = heads_product(rig, q, k, false);
    scores = masked ? pr_binary(rig, ENG_MUL, scores, pr_scalar(rig, 0.25F))
                    : pr_binary(rig, ENG_DIV, scores, pr_scalar(rig, 4));
    if (masked) {
        scores = pr_binary(rig, ENG_ADD, scores, mask);
    }
    uint32_t y = heads_product(rig, pr_softmax(rig, scores), v, true);
    if (merged) {
        y = merge_heads(rig, y);
        y = pr_matmul(rig, y, pr_const(rig, PR_DIMS(H * E, 3)));
    }
    pr_output(rig, y);
}

static void build_masked(struct program_rig *rig)
{
    attention(rig, true, true);
}
static void build_unmasked(struct program_rig *rig)
{
    attention(rig, false, false);
}

static void attention_is_recognised(void **state)
{
    (void)state;
    struct program_rig rig;
    pr_check(&rig, build_masked);
    assert_int_equal(rig.program.command_count, 2);
    assert_int_equal(rig.program.commands[0].op, ENG_OP_ATTENTION);
    assert_int_not_equal(rig.program.commands[0].inputs[3], ENG_NONE);
    assert_int_equal(rig.program.commands[0].u.attention.out_view.stride[2], H * E);
    pr_done(&rig);
    pr_check(&rig, build_unmasked);
    assert_int_equal(rig.program.command_count, 1);
    assert_int_equal(rig.program.commands[0].inputs[3], ENG_NONE);
    assert_true(rig.program.commands[0].u.attention.scale == 0.25F);
    pr_done(&rig);
}

// The probabilities are wanted too: computing them twice would not pay.
static void build_probabilities(struct program_rig *rig)
{
    uint32_t q = pr_input(rig, PR_DIMS(B, S, H, D));
    uint32_t k = pr_input(rig, PR_DIMS(B, T, H, D));
    uint32_t v = pr_input(rig, PR_DIMS(B, T, H, E));
    uint32_t p = pr_softmax(rig, heads_product(rig, q, k, false));
    pr_output(rig, p);
    pr_output(rig, heads_product(rig, p, v, true));
}

static void probabilities_that_are_read_stay(void **state)
{
    (void)state;
    struct program_rig rig;
    pr_check(&rig, build_probabilities);
    assert_int_equal(rig.program.command_count, 3);
    pr_done(&rig);
}

// --- expressions ---------------------------------------------------------------------------------

static void build_chain(struct program_rig *rig)
{
    uint32_t x = pr_input(rig, PR_DIMS(3, 4, 5));
    uint32_t row = pr_input(rig, PR_DIMS(4, 5));
    uint32_t column = pr_input(rig, PR_DIMS(3, 1, 1));
    uint32_t a = pr_binary(rig, ENG_MUL, x, row);
    uint32_t b = pr_binary(rig, ENG_SUB, x, column);
    uint32_t c = pr_unary(rig, ENG_SIGMOID, a);
    uint32_t d = pr_binary(rig, ENG_MUL, c, a); // a is read twice, both times inside
    uint32_t e = pr_binary(rig, ENG_MAX, d, b);
    uint32_t f = pr_binary(rig, ENG_MUL, e, pr_scalar(rig, 3));
    pr_output(rig, pr_binary(rig, ENG_ADD, f, pr_scalar(rig, 3)));
}

static void trees_become_one_expression(void **state)
{
    (void)state;
    struct program_rig rig;
    pr_check(&rig, build_chain);
    assert_int_equal(rig.program.command_count, 1);
    const struct eng_command *c = &rig.program.commands[0];
    assert_int_equal(c->op, ENG_OP_EXPR);
    assert_int_equal(c->u.expr->load_count, 3);
    assert_int_equal(c->u.expr->op_count, 8); // seven commands, one constant
    pr_done(&rig);
}

static void build_split_readers(struct program_rig *rig)
{
    uint32_t x = pr_input(rig, PR_DIMS(3, 4));
    uint32_t a = pr_unary(rig, ENG_EXP, x); // an output: stays
    pr_output(rig, a);
    uint32_t b = pr_unary(rig, ENG_NEG, pr_unary(rig, ENG_TANH, a));
    pr_output(rig, pr_mean(rig, b)); // b is read by two
    uint32_t small = pr_unary(rig, ENG_ABS, pr_unary(rig, ENG_NEG, pr_input(rig, PR_DIMS(4))));
    pr_output(rig, pr_binary(rig, ENG_ADD, b, small)); // broadcast: not computed again and again
}

static void expressions_end_where_others_read(void **state)
{
    (void)state;
    struct program_rig rig;
    pr_check(&rig, build_split_readers);
    assert_int_equal(rig.program.command_count, 5); // exp; tanh+neg; mean; neg+abs; add
    assert_int_equal(pr_count_op(&rig, ENG_OP_EXPR), 2);
    pr_done(&rig);
}

// More inputs and more commands than one expression holds.
static void build_long(struct program_rig *rig)
{
    uint32_t y = pr_input(rig, PR_DIMS(2, 3));
    for (uint32_t i = 0; i < 20; i++) {
        y = pr_binary(rig, ENG_ADD, y, pr_input(rig, PR_DIMS(2, 3)));
        y = pr_unary(rig, ENG_TANH, y);
        y = pr_unary(rig, ENG_NEG, y);
    }
    pr_output(rig, y);
}

static void long_chains_are_cut(void **state)
{
    (void)state;
    struct program_rig rig;
    pr_check(&rig, build_long);
    assert_in_range(rig.program.command_count, 3, 6);
    assert_int_equal(pr_count_op(&rig, ENG_OP_EXPR), rig.program.command_count);
    pr_done(&rig);
}

// --- activations ---------------------------------------------------------------------------------

static uint32_t gelu_erf(struct program_rig *rig, uint32_t x, int form)
{
    uint32_t inner = form == 0 ? pr_binary(rig, ENG_DIV, x, pr_scalar(rig, 1.4142135F))
                               : pr_binary(rig, ENG_MUL, x, pr_scalar(rig, 0.70710677F));
    uint32_t e = pr_binary(rig, ENG_ADD, pr_unary(rig, ENG_ERF, inner), pr_scalar(rig, 1));
    if (form == 0) {
        return pr_binary(rig, ENG_MUL, pr_binary(rig, ENG_MUL, x, e), pr_scalar(rig, 0.5F));
    }
    return pr_binary(rig, ENG_MUL, x, pr_binary(rig, ENG_MUL, e, pr_scalar(rig, 0.5F)));
}

static uint32_t gelu_tanh(struct program_rig *rig, uint32_t x)
{
    uint32_t cube = pr_binary(rig, ENG_POW, x, pr_scalar(rig, 3));
    uint32_t t = pr_binary(rig, ENG_MUL, cube, pr_scalar(rig, 0.044715F));
    t = pr_binary(rig, ENG_MUL, pr_binary(rig, ENG_ADD, x, t), pr_scalar(rig, 0.7978846F));
    t = pr_binary(rig, ENG_ADD, pr_unary(rig, ENG_TANH, t), pr_scalar(rig, 1));
    return pr_binary(rig, ENG_MUL, x, pr_binary(rig, ENG_MUL, t, pr_scalar(rig, 0.5F)));
}

static void build_gelus(struct program_rig *rig)
{
    uint32_t x = pr_input(rig, PR_DIMS(4, 4));
    uint32_t y = pr_matmul(rig, x, pr_const(rig, PR_DIMS(4, 4)));
    y = gelu_erf(rig, pr_binary(rig, ENG_ADD, y, pr_const(rig, PR_DIMS(4))), 0);
    y = gelu_tanh(rig, pr_matmul(rig, y, pr_const(rig, PR_DIMS(4, 4))));
    pr_output(rig, gelu_erf(rig, y, 1));
}

static void gelu_is_told_by_its_values(void **state)
{
    (void)state;
    struct program_rig rig;
    pr_check(&rig, build_gelus);
    assert_int_equal(rig.program.command_count, 3);
    assert_int_equal(rig.program.commands[0].u.matmul.epilogue.activation, ENG_GELU);
    assert_int_equal(rig.program.commands[1].u.matmul.epilogue.activation, ENG_GELU_TANH);
    assert_int_equal(rig.program.commands[2].op, ENG_OP_UNARY);
    assert_int_equal(rig.program.commands[2].u.unary.fn, ENG_GELU);
    pr_done(&rig);
}

// x * sigmoid(1.7 x) is an approximation of GELU, but not GELU.
static void build_near_gelu(struct program_rig *rig)
{
    uint32_t x = pr_input(rig, PR_DIMS(4, 4));
    uint32_t s = pr_unary(rig, ENG_SIGMOID, pr_binary(rig, ENG_MUL, x, pr_scalar(rig, 1.702F)));
    pr_output(rig, pr_binary(rig, ENG_MUL, x, s));
}

static void near_functions_are_not_taken_for_it(void **state)
{
    (void)state;
    struct program_rig rig;
    pr_check(&rig, build_near_gelu);
    assert_int_equal(rig.program.command_count, 1);
    assert_int_equal(rig.program.commands[0].op, ENG_OP_EXPR);
    pr_done(&rig);
}

// --- dead code -----------------------------------------------------------------------------------

static void what_nobody_needs_goes(void **state)
{
    (void)state;
    struct program_rig rig;
    pr_init(&rig);
    uint32_t x = pr_input(&rig, PR_DIMS(4));
    uint32_t dead = pr_unary(&rig, ENG_EXP, x);
    (void)pr_unary(&rig, ENG_EXP, dead);
    uint32_t kept = pr_unary(&rig, ENG_NEG, x);
    pr_output(&rig, pr_alias(&rig, kept, PR_DIMS(2, 2))); // an alias keeps its tensor alive
    const struct eng_optimise_options options = {.no_fuse = true};
    assert_int_equal(eng_program_optimise(&rig.program, &options, NULL), BASE_OK);
    assert_int_equal(rig.program.command_count, 1);
    assert_int_equal(rig.program.commands[0].outputs[0], kept);
    pr_done(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(views_are_told_apart),
        cmocka_unit_test(splits_address_the_same_elements),
        cmocka_unit_test(bias_residual_and_activation_become_one_product),
        cmocka_unit_test(the_later_branch_takes_the_sum),
        cmocka_unit_test(bias_of_a_plain_convolution_is_over_its_channels),
        cmocka_unit_test(results_others_read_stay),
        cmocka_unit_test(layer_norms_are_recognised),
        cmocka_unit_test(almost_norms_are_left_alone),
        cmocka_unit_test(attention_is_recognised),
        cmocka_unit_test(probabilities_that_are_read_stay),
        cmocka_unit_test(trees_become_one_expression),
        cmocka_unit_test(expressions_end_where_others_read),
        cmocka_unit_test(long_chains_are_cut),
        cmocka_unit_test(gelu_is_told_by_its_values),
        cmocka_unit_test(near_functions_are_not_taken_for_it),
        cmocka_unit_test(what_nobody_needs_goes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
