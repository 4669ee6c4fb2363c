// Chains of convolutions: what the pass makes of a program, and the numbers of every backend beside
// those of the convolutions one after the other.
#include "program_rig.h"
#include "backend/run_watch.h"

#include "backend/cpu/kernel/isa.h"
#include "kernel_rig.h"
#include "program/fuse_index.h"

// A depthwise convolution with, or without, one of single pixels before and behind it.
struct shape {
    int64_t n, in[2], c, before, behind; // channels; before, behind: 0 for none
    int64_t kernel[2], stride[2], dilation[2], pad[2];
    bool bias, residual;
    int act; // of the depthwise one and the one before: eng_unary_fn, -1: none
};

static struct base_prng prng;

static uint32_t weights(struct program_rig *rig, uint32_t rank, const int64_t *dims)
{
    uint32_t tensor = pr_const(rig, rank, dims);
    float *data = (float *)(uintptr_t)rig->program.tensors[tensor].data;
    for (int64_t i = 0; i < eng_desc_count(pr_desc(rig, tensor)); i++) {
        data[i] -= 1;
    }
    return tensor;
}

static uint32_t add_conv(struct program_rig *rig, const struct shape *s, uint32_t x, int64_t out,
                         bool deep, uint32_t residual)
{
    const struct eng_desc *in = pr_desc(rig, x);
    int64_t dims[4] = {in->dims[0], out, in->dims[2], in->dims[3]};
    const int64_t channels = in->dims[1];
    struct eng_conv conv = {
        .spatial = 2,
        .groups = deep ? channels : 1,
        .kernel = {1, 1},
        .stride = {1, 1},
        .dilation = {1, 1},
        .epilogue = {.bias = ENG_NONE, .residual = residual, .alpha = -0.4f, .beta = 0.6f},
    };
    for (int d = 0; deep && d < 2; d++) {
        conv.kernel[d] = s->kernel[d];
        conv.stride[d] = s->stride[d];
        conv.dilation[d] = s->dilation[d];
        conv.pad_begin[d] = conv.pad_end[d] = s->pad[d];
        const int64_t reach = (s->kernel[d] - 1) * s->dilation[d] + 1;
        dims[2 + d] = (s->in[d] + 2 * s->pad[d] - reach) / s->stride[d] + 1;
    }
    if (s->act >= 0 && residual == ENG_NONE) {
        conv.epilogue.has_activation = true;
        conv.epilogue.activation = (enum eng_unary_fn)s->act;
    }
    uint32_t inputs[4] = {
        x, weights(rig, PR_DIMS(out, deep ? 1 : channels, conv.kernel[0], conv.kernel[1]))};
    uint32_t count = 2;
    if (s->bias) {
        inputs[count++] = conv.epilogue.bias = weights(rig, PR_DIMS(out));
    }
    if (residual != ENG_NONE) {
        inputs[count++] = residual;
    }
    uint32_t y = pr_tensor(rig, ENG_TEMP, ENG_CHANNELS_LAST, 4, dims);
    pr_command(rig, ENG_OP_CONV, count, inputs, y)->u.conv = conv;
    return y;
}

static void build(struct program_rig *rig, const struct shape *s)
{
    pr_init(rig);
    const int64_t first = s->before > 0 ? s->before : s->c;
    uint32_t x =
        pr_tensor(rig, ENG_INPUT, ENG_CHANNELS_LAST, PR_DIMS(s->n, first, s->in[0], s->in[1]));
    uint32_t y = x;
    if (s->before > 0) {
        y = add_conv(rig, s, y, s->c, false, ENG_NONE);
    }
    const bool is_last = s->behind == 0;
    uint32_t residual = ENG_NONE;
    if (s->residual) {
        // Of the result's shape; read by the chain's last convolution alone.
        const int64_t channels = is_last ? s->c : s->behind;
        int64_t dims[4] = {s->n, channels};
        for (int d = 0; d < 2; d++) {
            const int64_t reach = (s->kernel[d] - 1) * s->dilation[d] + 1;
            dims[2 + d] = (s->in[d] + 2 * s->pad[d] - reach) / s->stride[d] + 1;
        }
        residual = pr_tensor(rig, ENG_INPUT, ENG_CHANNELS_LAST, 4, dims);
    }
    y = add_conv(rig, s, y, s->c, true, is_last ? residual : ENG_NONE);
    if (!is_last) {
        y = add_conv(rig, s, y, s->behind, false, residual);
    }
    pr_output(rig, y);
}

static void chain(struct program_rig *rig)
{
    struct base_arena scratch;
    struct eng_fuse fuse;
    base_arena_init(&scratch, base_alloc_heap(), 0, 0);
    assert_int_equal(eng_fuse_init(&fuse, &rig->program, &scratch), BASE_OK);
    assert_int_equal(eng_fuse_chains(&fuse, 0), BASE_OK);
    eng_fuse_finish(&fuse);
    base_arena_done(&scratch);
}

static void compare(const struct program_rig *want, const struct program_rig *got, float bound,
                    const char *what)
{
    const uint32_t y = want->outputs[0];
    const float *a = want->data[y], *b = got->data[y];
    for (int64_t i = 0; i < eng_desc_count(pr_desc(want, y)); i++) {
        if (!(fabsf(a[i] - b[i]) <= bound * (1 + fabsf(a[i])))) {
            pr_dump(got);
            fail_msg("%s: element %lld: %.9g, not %.9g", what, (long long)i, (double)b[i],
                     (double)a[i]);
        }
    }
}

static void run_fast(struct program_rig *rig, const char *isa, uint32_t threads)
{
    struct eng_pool *pool;
    assert_int_equal(eng_pool_new(threads, &pool), BASE_OK);
    struct base_error error = {0};
    const struct eng_prepare prepare = {
        .arena = &rig->arena, .kernels = eng_kernels_find(isa), .pool = pool, .error = &error};
    struct eng_step step = {0};
    const struct eng_command *command = &rig->program.commands[0];
    assert_int_equal(eng_cpu_prepare(&prepare, &rig->program, command, &step), BASE_OK);
    void *scratch = aligned_alloc(64, (step.scratch_bytes + 127) / 64 * 64);
    assert_non_null(scratch);
    memset(scratch, 0xff, step.scratch_bytes); // NaN: what is read must have been written
    const struct eng_run run = {
        .data = rig->data, .pool = pool, .scratch = scratch, .error = &error};
    assert_int_equal(step.run(&step, &run), BASE_OK);
    free(scratch);
    eng_pool_free(pool);
}

static uint64_t work_of(const struct eng_program *program)
{
    uint64_t work = 0;
    for (uint32_t i = 0; i < program->command_count; i++) {
        work += eng_command_work(program, &program->commands[i]);
    }
    return work;
}

static void check(const struct shape *s)
{
    struct program_rig plain, chained;
    build(&plain, s);
    build(&chained, s);
    chain(&chained);
    assert_int_equal(chained.program.command_count, 1);
    assert_int_equal(chained.program.commands[0].op, ENG_OP_CONV_CHAIN);
    assert_int_equal(chained.program.commands[0].u.chain->count,
                     1 + (s->before > 0) + (s->behind > 0));
    assert_int_equal(work_of(&chained.program), work_of(&plain.program)); // costs what its parts do
    pr_place(&plain);
    pr_place(&chained);
    pr_run(&plain);
    pr_run(&chained);
    compare(&plain, &chained, 0, "ref");
    const float bound = 2e-6f * sqrtf((float)((s->before + s->c) * s->kernel[0] * s->kernel[1]));
    for (size_t i = 0; i < KERNEL_NAMES_MAX; i++) {
        for (uint32_t threads = 1; threads <= 3 && eng_kernels_find(kernel_names[i]) != NULL;
             threads++) {
            run_fast(&chained, kernel_names[i], threads);
            compare(&plain, &chained, bound, kernel_names[i]);
        }
    }
    pr_done(&plain);
    pr_done(&chained);
}

static struct shape square(int64_t before, int64_t c, int64_t behind, int64_t size, int64_t stride)
{
    return (struct shape){.n = 1,
                          .in = {size, size},
                          .c = c,
                          .before = before,
                          .behind = behind,
                          .kernel = {3, 3},
                          .stride = {stride, stride},
                          .dilation = {1, 1},
                          .pad = {1, 1},
                          .bias = true,
                          .act = ENG_CLIP};
}

// Blocks as MobileNets have them, so wide that a band is a few rows of the image.
static void blocks_of_mobilenets(void **state)
{
    (void)state;
    struct shape cases[] = {
        square(16, 96, 24, 56, 2), square(24, 144, 24, 29, 1), square(0, 32, 16, 50, 1),
        square(0, 512, 9, 14, 1),  square(20, 128, 0, 35, 2),  square(7, 512, 33, 9, 1),
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        cases[i].residual = i % 2 == 1;
        cases[i].n = 1 + (int64_t)i % 2;
        check(&cases[i]);
    }
}

static void any_shape(void **state)
{
    (void)state;
    static const int acts[] = {-1, ENG_RELU, ENG_CLIP, ENG_HARD_SWISH, ENG_SIGMOID, ENG_TANH};
    for (int round = 0; round < 60; round++) {
        struct shape s = {.n = 1 + (int64_t)base_prng_below(&prng, 3),
                          .c = 2 + (int64_t)base_prng_below(&prng, 40)};
        s.before = (int64_t)base_prng_below(&prng, 3) * (1 + (int64_t)base_prng_below(&prng, 20));
        s.behind = (int64_t)base_prng_below(&prng, 3) * (1 + (int64_t)base_prng_below(&prng, 40));
        s.behind += s.before == 0 && s.behind == 0 ? 5 : 0;
        for (int d = 0; d < 2; d++) {
            s.kernel[d] = 1 + (int64_t)base_prng_below(&prng, 5);
            s.stride[d] = 1 + (int64_t)base_prng_below(&prng, 3);
            s.dilation[d] = 1 + (int64_t)base_prng_below(&prng, 2);
            s.pad[d] = (int64_t)base_prng_below(&prng, 4);
            s.in[d] = (s.kernel[d] - 1) * s.dilation[d] + 1 + (int64_t)base_prng_below(&prng, 24);
        }
        s.bias = base_prng_below(&prng, 2);
        s.residual = base_prng_below(&prng, 2);
        s.act = acts[base_prng_below(&prng, sizeof(acts) / sizeof(acts[0]))];
        check(&s);
    }
}

// --- the pass ------------------------------------------------------------------------------------

static uint32_t count_chains(const struct program_rig *rig)
{
    return pr_count_op(rig, ENG_OP_CONV_CHAIN);
}

static void what_others_read_stays(void **state)
{
    (void)state;
    const struct shape s = square(4, 8, 5, 6, 1);
    struct program_rig rig;
    for (uint32_t kept = 0; kept < 3; kept++) {
        build(&rig, &s);
        rig.program.tensors[rig.program.commands[kept].outputs[0]].is_output = true;
        chain(&rig);
        assert_int_equal(count_chains(&rig), 1);
        assert_int_equal(rig.program.command_count, kept == 2 ? 1 : 2);
        struct base_error error = {0};
        assert_int_equal(eng_program_validate(&rig.program, &error), BASE_OK);
        pr_done(&rig);
    }
}

static void small_ones_and_others_are_left_alone(void **state)
{
    (void)state;
    const struct shape s = square(4, 8, 5, 6, 1);
    struct program_rig rig;
    build(&rig, &s);
    assert_int_equal(eng_program_optimise(&rig.program, NULL, NULL), BASE_OK);
    assert_int_equal(count_chains(&rig), 0); // the cache holds what lies between
    pr_done(&rig);
    // Groups that are no depthwise convolution; weights that are computed; another layout.
    for (int change = 0; change < 3; change++) {
        build(&rig, &s);
        struct eng_command *deep = &rig.program.commands[1];
        if (change == 0) {
            deep->u.conv.groups = 4;
        } else if (change == 1) {
            rig.program.tensors[deep->inputs[1]].kind = ENG_INPUT;
        } else {
            rig.program.tensors[deep->outputs[0]].layout = ENG_PLAIN;
        }
        chain(&rig);
        assert_int_equal(count_chains(&rig), 0);
        pr_done(&rig);
    }
    const struct shape large = square(16, 96, 24, 56, 1);
    const struct eng_optimise_options apart = {.no_chains = true};
    build(&rig, &large);
    assert_int_equal(eng_program_optimise(&rig.program, &apart, NULL), BASE_OK);
    assert_int_equal(count_chains(&rig), 0);
    assert_int_equal(eng_program_optimise(&rig.program, NULL, NULL), BASE_OK);
    assert_int_equal(count_chains(&rig), 1);
    pr_done(&rig);
}

static void broken_chains_are_refused(void **state)
{
    (void)state;
    const struct shape s = square(4, 8, 5, 6, 1);
    for (int damage = 0; damage < 5; damage++) {
        struct program_rig rig;
        build(&rig, &s);
        chain(&rig);
        struct eng_command *command = &rig.program.commands[0];
        struct eng_conv_chain broken = *command->u.chain;
        command->u.chain = &broken;
        switch (damage) {
        case 0:
            broken.count = 1;
            break;
        case 1:
            broken.count = ENG_CHAIN_MAX + 1;
            break;
        case 2:
            broken.convs[1].inputs = broken.convs[2].inputs; // not the one before
            break;
        case 3:
            broken.convs[1].op = ENG_OP_POOL;
            break;
        default:
            command->input_count--; // the last bias is no input
            break;
        }
        struct base_error error = {0};
        assert_int_equal(eng_program_validate(&rig.program, &error), BASE_ERR_INVALID);
        assert_non_null(strstr(error.text, "chain"));
        pr_done(&rig);
    }
}

int main(void)
{
    test_seed(&prng);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_of_mobilenets),
        cmocka_unit_test(any_shape),
        cmocka_unit_test(what_others_read_stays),
        cmocka_unit_test(small_ones_and_others_are_left_alone),
        cmocka_unit_test(broken_chains_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
