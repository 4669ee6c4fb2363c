// Convolutions of every instruction set this processor has, against loops in double: kernels,
// strides, dilations, padding, groups, depthwise, one to three dimensions, epilogues, threads.
#include "amx_rig.h"
#include "backend/cpu/blas.h"
#include "backend/cpu/conv_plan.h"
#include "backend/cpu/gemm/gemm_cost.h"
#include "backend/pack.h"
#include "base/alloc.h"
#include "kernel_rig.h"
#include "model/graph.h"

#define SEED 20240612u

enum { X, W, Y, BIAS, RESIDUAL, RESULT, TENSORS };

struct convolution {
    int64_t n, c, m, groups;
    uint32_t spatial;
    int64_t in[3], kernel[3], stride[3], dilation[3], pad_begin[3], pad_end[3];
    bool bias, residual, act, dynamic;
    bool low;   // operands are rounded to bfloat16
    bool whole; // operands are small whole numbers, so that bfloat16 transforms are exact
    enum eng_unary_fn fn;
};

typedef enum base_status (*prepare_fn)(const struct eng_conv_job *job, struct eng_step *out_step);

static enum base_status low(const struct eng_conv_job *job, struct eng_step *out_step);
static enum base_status low_wino2(const struct eng_conv_job *job, struct eng_step *out_step);
static enum base_status low_wino4(const struct eng_conv_job *job, struct eng_step *out_step);

static struct base_prng prng;
static enum eng_tuning tuning;

// Sum of the taps for one output, straight from the definition. o: output position, three dims.
static double taps(const struct eng_conv_shape *s, const float *x, const float *w, int64_t n,
                   int64_t m, const int64_t o[3])
{
    const int64_t cg = s->in_channels / s->groups, group = m / (s->out_channels / s->groups);
    double sum = 0;
    for (int64_t t = 0; t < eng_conv_taps(s); t++) {
        const int64_t k[3] = {t / s->kernel[2] / s->kernel[1], t / s->kernel[2] % s->kernel[1],
                              t % s->kernel[2]};
        int64_t at = n;
        bool inside = true;
        for (int d = 0; d < 3; d++) {
            const int64_t i = o[d] * s->stride[d] + k[d] * s->dilation[d] - s->pad[d];
            inside = inside && i >= 0 && i < s->in[d];
            at = at * s->in[d] + i;
        }
        for (int64_t c = 0; inside && c < cg; c++) {
            sum += (double)x[at * s->in_channels + group * cg + c] *
                   (double)w[(m * cg + c) * eng_conv_taps(s) + t];
        }
    }
    return sum;
}

static void describe(const struct convolution *p, struct eng_tensor tensors[TENSORS])
{
    struct eng_desc x = {.dtype = ENG_F32, .rank = 2 + p->spatial, .dims = {p->n, p->c}};
    struct eng_desc w = {
        .dtype = ENG_F32, .rank = 2 + p->spatial, .dims = {p->m, p->c / p->groups}};
    struct eng_desc y = {.dtype = ENG_F32, .rank = 2 + p->spatial, .dims = {p->n, p->m}};
    for (uint32_t d = 0; d < p->spatial; d++) {
        x.dims[2 + d] = p->in[d];
        w.dims[2 + d] = p->kernel[d];
        y.dims[2 + d] =
            (p->in[d] + p->pad_begin[d] + p->pad_end[d] - (p->kernel[d] - 1) * p->dilation[d] - 1) /
                p->stride[d] +
            1;
    }
    tensors[X].desc = x;
    tensors[W].desc = w;
    tensors[Y].desc = tensors[RESIDUAL].desc = y;
    tensors[RESULT].desc = y;
    tensors[BIAS].desc = (struct eng_desc){.dtype = ENG_F32, .rank = 1, .dims = {p->m}};
    for (int i = 0; i < TENSORS; i++) {
        tensors[i].kind = ENG_TEMP;
        tensors[i].layout = i == W || i == BIAS ? ENG_PLAIN : ENG_CHANNELS_LAST;
    }
}

static void compare(const struct convolution *p, const struct eng_command *command,
                    const struct eng_conv_shape *s, float *const data[TENSORS], const char *name,
                    double bound)
{
    const int64_t pixels = s->out[0] * s->out[1] * s->out[2];
    bound *= 1 + sqrt((double)(eng_conv_taps(s) * s->in_channels / s->groups));
    for (int64_t i = 0; i < s->batch * pixels * s->out_channels; i++) {
        const int64_t m = i % s->out_channels, at = i / s->out_channels % pixels;
        const int64_t o[3] = {at / s->out[2] / s->out[1], at / s->out[2] % s->out[1],
                              at % s->out[2]};
        double want = taps(s, data[X], data[W], i / s->out_channels / pixels, m, o);
        want += p->bias ? (double)data[BIAS][m] : 0;
        want += p->residual ? (double)data[RESIDUAL][i] : 0;
        want = kernel_activate(&command->u.conv.epilogue, want);
        if (!(fabs(want - (double)data[Y][i]) <= bound)) {
            fail_msg("%s: %lld->%lld kernel %lld: element %lld: %g, expected %g", name,
                     (long long)s->in_channels, (long long)s->out_channels, (long long)s->kernel[2],
                     (long long)i, (double)data[Y][i], want);
        }
    }
}

static void run_step(const struct eng_step *step, float *data[TENSORS], struct eng_pool *pool)
{
    void *scratch = aligned_alloc(64, (step->scratch_bytes + 63) / 64 * 64);
    assert_non_null(scratch);
    memset(scratch, 0xff, step->scratch_bytes); // NaN: what is read must have been written
    void *pointers[TENSORS];
    memcpy(pointers, data, sizeof(pointers));
    const struct eng_run run = {.data = pointers, .pool = pool, .scratch = scratch};
    assert_int_equal(step->run(step, &run), BASE_OK);
    free(scratch);
}

static void run_once(const struct eng_program *program, const struct eng_command *command,
                     struct eng_conv_shape *shape, float *data[TENSORS], const char *isa,
                     uint32_t threads, prepare_fn fn)
{
    struct eng_pool *pool;
    assert_int_equal(eng_pool_new(threads, &pool), BASE_OK);
    struct eng_pack_cache *packs;
    assert_int_equal(eng_pack_cache_new(&packs), BASE_OK);
    const struct eng_prepare usual = {.arena = program->arena,
                                      .packs = packs,
                                      .kernels = eng_kernels_find(isa),
                                      .pool = pool,
                                      .precision = fn == low || fn == low_wino2 || fn == low_wino4
                                                       ? ENG_PRECISION_LOW
                                                       : ENG_PRECISION_HIGH};
    assert_non_null(usual.kernels);
    const struct eng_prepare prepare = eng_tuning_context(&usual, tuning);
    struct eng_step step = {.program = program, .command = command};
    struct eng_conv_job job = {.ctx = &prepare, .program = program, .command = command};
    assert_int_equal(eng_conv_shape_of(program, command, &job.shape), BASE_OK);
    *shape = job.shape;
    assert_int_equal(fn != NULL ? fn(&job, &step)
                                : eng_cpu_prepare_conv(&prepare, program, command, &step),
                     BASE_OK);
    step.alone = tuning == ENG_TUNING_ALONE;
    run_step(&step, data, pool);
    eng_pack_cache_free(packs);
    eng_pool_free(pool);
}

static void check(const struct convolution *p, const char *isa, uint32_t threads, prepare_fn fn,
                  double bound)
{
    struct base_arena arena;
    base_arena_init(&arena, base_alloc_heap(), 0, 0);
    uint32_t inputs[4] = {X, W, BIAS, RESIDUAL}, outputs[1] = {Y};
    struct eng_command command = {.op = ENG_OP_CONV,
                                  .input_count = 4,
                                  .output_count = 1,
                                  .inputs = inputs,
                                  .outputs = outputs};
    struct eng_conv *conv = &command.u.conv;
    *conv = (struct eng_conv){
        .spatial = p->spatial,
        .groups = p->groups,
        .epilogue = {.bias = p->bias ? BIAS : ENG_NONE,
                     .residual = p->residual ? RESIDUAL : ENG_NONE,
                     .has_activation = p->act,
                     .activation = p->fn,
                     .alpha = p->fn == ENG_LEAKY_RELU ? 0.1f : -0.25f,
                     .beta = 0.5f},
    };
    memcpy(conv->kernel, p->kernel, sizeof(conv->kernel));
    memcpy(conv->stride, p->stride, sizeof(conv->stride));
    memcpy(conv->dilation, p->dilation, sizeof(conv->dilation));
    memcpy(conv->pad_begin, p->pad_begin, sizeof(conv->pad_begin));
    memcpy(conv->pad_end, p->pad_end, sizeof(conv->pad_end));
    struct eng_tensor tensors[TENSORS] = {0};
    describe(p, tensors);
    float *data[TENSORS];
    for (int i = 0; i < TENSORS; i++) {
        data[i] = kernel_floats(&prng, (size_t)eng_desc_count(&tensors[i].desc));
    }
    for (int i = X; p->whole && i <= W; i++) { // quarters of weights are whole, too
        for (int64_t j = 0; j < eng_desc_count(&tensors[i].desc); j++) {
            data[i][j] = i == X ? rintf(data[i][j] * 4) : 4 * rintf(data[i][j] * 2);
        }
    }
    if (!p->dynamic) {
        tensors[W].kind = ENG_CONST;
        tensors[W].data = tensors[W].identity = data[W];
    }
    const struct eng_program program = {
        .arena = &arena, .tensors = tensors, .tensor_count = TENSORS};
    struct eng_conv_shape shape;
    run_once(&program, &command, &shape, data, isa, threads, fn);
    for (int i = X; p->low && i <= W; i++) { // what the kernels made of them
        for (int64_t j = 0; j < eng_desc_count(&tensors[i].desc); j++) {
            data[i][j] = (float)kernel_rounded(data[i][j]);
        }
    }
    compare(p, &command, &shape, data, isa, bound);
    for (int i = 0; i < TENSORS; i++) {
        free(data[i]);
    }
    base_arena_done(&arena);
}

static void each_isa(const struct convolution *p, uint32_t threads, prepare_fn fn)
{
    for (size_t i = 0; i < KERNEL_NAMES_MAX; i++) {
        if (eng_kernels_find(kernel_names[i]) != NULL) {
            check(p, kernel_names[i], threads, fn, 1e-5);
        }
    }
}

// A square convolution in two dimensions.
static struct convolution square(int64_t c, int64_t m, int64_t size, int64_t kernel, int64_t stride,
                                 int64_t pad)
{
    return (struct convolution){.n = 1,
                                .c = c,
                                .m = m,
                                .groups = 1,
                                .spatial = 2,
                                .in = {size, size},
                                .kernel = {kernel, kernel, 1},
                                .stride = {stride, stride, 1},
                                .dilation = {1, 1, 1},
                                .pad_begin = {pad, pad},
                                .pad_end = {pad, pad}};
}

static void test_square(void **state)
{
    (void)state;
    for (int64_t kernel = 1; kernel <= 5; kernel++) {
        for (int64_t stride = 1; stride <= 3; stride++) {
            for (int64_t size = 5; size <= 17; size += 3) {
                struct convolution p =
                    square(1 + size % 7, 3 + size * 2, size, kernel, stride, (kernel + size) % 3);
                p.n = 1 + size % 2;
                p.bias = true;
                each_isa(&p, 1, NULL);
            }
        }
    }
}

static void test_models(void **state)
{
    (void)state;
    // Stems, and channel counts whose pixels collide in the cache.
    const struct convolution cases[] = {
        square(3, 64, 40, 7, 2, 3),   square(3, 24, 30, 3, 2, 1),  square(3, 64, 31, 3, 2, 0),
        square(1024, 20, 7, 1, 1, 0), square(1024, 9, 6, 1, 2, 0), square(512, 12, 7, 3, 1, 1),
        square(512, 8, 7, 3, 2, 1),   square(58, 58, 14, 1, 1, 0), square(2048, 5, 5, 1, 1, 0),
        square(64, 256, 14, 1, 1, 0),
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct convolution p = cases[i];
        p.bias = true;
        p.act = true;
        p.fn = ENG_RELU;
        p.n = 1 + (int64_t)i % 3;
        each_isa(&p, 1, NULL);
    }
}

static void test_uneven(void **state)
{
    (void)state;
    struct convolution p = square(6, 10, 0, 0, 1, 0);
    for (int64_t i = 0; i < 60; i++) {
        for (int d = 0; d < 2; d++) {
            p.kernel[d] = 1 + (int64_t)base_prng_below(&prng, 4);
            p.dilation[d] = 1 + (int64_t)base_prng_below(&prng, 3);
            p.stride[d] = 1 + (int64_t)base_prng_below(&prng, 3);
            p.pad_begin[d] = (int64_t)base_prng_below(&prng, 4);
            p.pad_end[d] = (int64_t)base_prng_below(&prng, 4);
            p.in[d] = (p.kernel[d] - 1) * p.dilation[d] + 1 + (int64_t)base_prng_below(&prng, 9);
        }
        p.n = 1 + i % 2;
        p.groups = i % 3 == 0 ? 2 : 1;
        p.dynamic = i % 4 == 0;
        p.residual = i % 5 == 0;
        each_isa(&p, 1, NULL);
        p.groups = 6;
        p.m = 6;
        each_isa(&p, 1, NULL); // depthwise
        p.m = 10;
    }
}

static void test_dimensions(void **state)
{
    (void)state;
    struct convolution line = {.n = 2,
                               .c = 5,
                               .m = 7,
                               .groups = 1,
                               .spatial = 1,
                               .in = {19},
                               .kernel = {3},
                               .stride = {2},
                               .dilation = {2},
                               .pad_begin = {1},
                               .pad_end = {2},
                               .bias = true};
    each_isa(&line, 1, NULL);
    struct convolution volume = {.n = 2,
                                 .c = 4,
                                 .m = 9,
                                 .groups = 1,
                                 .spatial = 3,
                                 .in = {5, 6, 7},
                                 .kernel = {3, 2, 3},
                                 .stride = {1, 2, 1},
                                 .dilation = {2, 1, 1},
                                 .pad_begin = {1, 0, 1},
                                 .pad_end = {1, 1, 0}};
    each_isa(&volume, 1, NULL);
    memset(volume.pad_begin, 0, sizeof(volume.pad_begin));
    memset(volume.pad_end, 0, sizeof(volume.pad_end));
    each_isa(&volume, 1, NULL);
    volume.groups = 2;
    volume.m = 8;
    each_isa(&volume, 1, NULL);
    volume.groups = volume.m = 4;
    each_isa(&volume, 1, NULL);
}

static void test_depthwise(void **state)
{
    (void)state;
    for (int64_t c = 1; c <= 40; c++) {
        struct convolution p = square(c, c, 9 + c % 11, 3 + 2 * (c % 2), 1 + c % 3 / 2, c % 3);
        p.groups = c;
        p.bias = c % 2;
        p.residual = c % 5 == 0;
        p.act = true;
        p.fn = c % 2 ? ENG_CLIP : c % 3 ? ENG_HARD_SWISH : ENG_SIGMOID;
        each_isa(&p, 1, NULL);
    }
}

// Rows of three taps over every width there is a block for, with padding on one side, both, more
// than a kernel's half, and none.
static void test_depthwise_rows(void **state)
{
    (void)state;
    for (int64_t width = 1; width <= 27; width++) {
        for (int64_t pads = 0; pads < 9; pads++) {
            struct convolution p = square(11, 11, 4, 3, 1, 1);
            p.groups = 11;
            p.in[1] = width;
            p.pad_begin[1] = pads / 3;
            p.pad_end[1] = pads % 3;
            p.bias = pads % 2;
            if (width + p.pad_begin[1] + p.pad_end[1] >= 3) {
                each_isa(&p, 1, NULL);
            }
        }
    }
}

static void test_epilogues(void **state)
{
    (void)state;
    static const enum eng_unary_fn fns[] = {ENG_RELU, ENG_CLIP, ENG_LEAKY_RELU, ENG_SIGMOID,
                                            ENG_HARD_SWISH};
    for (size_t i = 0; i < sizeof(fns) / sizeof(fns[0]); i++) {
        struct convolution p = square(20, 37, 11, 3, 1, 1);
        p.act = p.bias = p.residual = true;
        p.fn = fns[i];
        each_isa(&p, 1, NULL);
        p.groups = p.m = 20;
        each_isa(&p, 1, NULL);
    }
}

static enum base_status wino2(const struct eng_conv_job *job, struct eng_step *out_step)
{
    return eng_conv_prepare_with(job, ENG_CONV_WINO2, out_step);
}

static enum base_status wino4(const struct eng_conv_job *job, struct eng_step *out_step)
{
    return eng_conv_prepare_with(job, ENG_CONV_WINO4, out_step);
}

static void test_winograd(void **state)
{
    (void)state;
    for (int64_t i = 0; i < 24; i++) {
        struct convolution p = square(1 + i * 5, 1 + i * 7 % 75, 3 + i % 13, 3, 1, i % 3);
        p.in[1] += i % 4;
        p.n = 1 + i % 2;
        p.bias = i % 2;
        p.residual = i % 3 == 0;
        p.act = i % 4 < 2;
        p.fn = i % 4 == 0 ? ENG_RELU : ENG_SIGMOID;
        each_isa(&p, 1, wino2);
        each_isa(&p, 1, wino4);
    }
    struct convolution p = square(64, 100, 28, 3, 1, 1);
    p.pad_end[0] = 3;
    for (uint32_t threads = 1; threads <= 3; threads++) {
        each_isa(&p, threads, wino2);
        each_isa(&p, threads, wino4);
    }
}

static enum base_status low(const struct eng_conv_job *job, struct eng_step *out_step)
{
    return eng_conv_prepare_with(job, ENG_CONV_LOW, out_step);
}

static void check_low(const char *isa)
{
    for (int64_t i = 0; i < 64; i++) {
        struct convolution p =
            square(1 + i * 3 % 120, 1 + i * 7 % 75, 3 + i % 13, 1 + i % 4, 1 + i % 3, i % 2);
        p.in[1] += (int64_t)base_prng_below(&prng, 5);
        p.n = 1 + i % 2;
        p.bias = i % 2;
        p.residual = i % 3 == 0;
        p.act = i % 4 < 2;
        p.fn = i % 4 == 0 ? ENG_RELU : ENG_SIGMOID;
        p.low = true;
        check(&p, isa, 1 + (uint32_t)i % 2, low, 1e-5);
    }
}

static enum base_status low_wino2(const struct eng_conv_job *job, struct eng_step *out_step)
{
    return eng_conv_prepare_with(job, ENG_CONV_LOW_WINO2, out_step);
}

static enum base_status low_wino4(const struct eng_conv_job *job, struct eng_step *out_step)
{
    return eng_conv_prepare_with(job, ENG_CONV_LOW_WINO4, out_step);
}

static void check_low_winograd(const char *isa)
{
    const int64_t step = strcmp(isa, "amx") == 0 ? 3 : 1; // emulated tiles take their time
    for (int64_t i = 0; i < 24; i += step) {
        struct convolution p = square(1 + i * 7 % 130, 1 + i * 11 % 75, 3 + i % 13, 3, 1, i % 3);
        p.in[1] += i % 4;
        p.n = 1 + i % 2;
        p.bias = i % 2;
        p.residual = i % 3 == 0;
        p.act = i % 4 < 2;
        p.fn = i % 4 == 0 ? ENG_RELU : ENG_SIGMOID;
        p.whole = true;
        check(&p, isa, 1 + (uint32_t)i % 3, low_wino2, 1e-5);
        // Any numbers: within what rounding both transformed operands to eight bits does.
        p.whole = false;
        check(&p, isa, 1, low_wino2, 1e-2);
        check(&p, isa, 1 + (uint32_t)i % 3, low_wino4, 3e-2);
    }
    struct convolution p = square(64, 100, 28, 3, 1, 1);
    p.whole = true;
    p.pad_end[0] = 3;
    check(&p, isa, 1, low_wino2, 1e-5);
    check(&p, isa, 2, low_wino2, 1e-5);
    p.whole = false;
    check(&p, isa, 2, low_wino4, 3e-2);
}

static void test_low_pairs(void **state)
{
    (void)state;
    if (!eng_cpu_detect()->avx512_bf16) {
        printf("this processor has no bfloat16 products\n");
        skip();
    }
    check_low("avx512");
    check_low_winograd("avx512");
}

static void test_low_tiles(void **state)
{
    (void)state;
    const enum amx_source source = amx_rig_provide();
    if (source == AMX_NOWHERE) {
        skip();
    }
    const uint64_t before = amx_emulator_count(AMX_TDPBF16PS);
    check_low("amx");
    check_low_winograd("amx");
    assert_true(source == AMX_NATIVE || amx_emulator_count(AMX_TDPBF16PS) > before);
}

static void test_threads(void **state)
{
    (void)state;
    for (uint32_t threads = 2; threads <= 3; threads++) {
        struct convolution p = square(32, 70, 28, 3, 1, 1);
        p.bias = true;
        each_isa(&p, threads, NULL);
        p = square(300, 200, 7, 3, 1, 1);
        each_isa(&p, threads, NULL);
        p = square(64, 64, 56, 3, 2, 1);
        p.groups = 64;
        each_isa(&p, threads, NULL);
        p = square(128, 256, 28, 1, 1, 0);
        each_isa(&p, threads, NULL);
    }
}

static enum base_status direct(const struct eng_conv_job *job, struct eng_step *out_step)
{
    return eng_conv_prepare_with(job, ENG_CONV_DIRECT, out_step);
}

static enum base_status blas(const struct eng_conv_job *job, struct eng_step *out_step)
{
    enum base_status status = eng_conv_prepare_with(job, ENG_CONV_BLAS, out_step);
    assert_int_equal(status == BASE_OK, eng_blas_get() != NULL);
    return status == BASE_OK ? status : direct(job, out_step);
}

// However the loops are cut, the convolution is the same.
static void test_tunings(void **state)
{
    (void)state;
    for (int t = 0; t < ENG_TUNING_COUNT; t++) {
        tuning = (enum eng_tuning)t;
        for (uint32_t threads = 1; threads <= 3; threads++) {
            const struct convolution cases[] = {
                square(512, 12, 7, 3, 1, 1),
                square(1024, 40, 7, 1, 1, 0),
                square(33, 70, 19, 3, 2, 0),
                square(64, 130, 28, 1, 1, 0),
            };
            for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct convolution p = cases[i];
                p.bias = true;
                p.residual = i % 2;
                each_isa(&p, threads, direct);
            }
        }
    }
    tuning = ENG_TUNING_USUAL;
}

static void test_blas(void **state)
{
    (void)state;
    const char *best = eng_kernels_find(NULL)->name;
    for (uint32_t threads = 1; threads <= 3; threads++) {
        for (int64_t i = 0; i < 12; i++) {
            struct convolution p = square(1 + i * 11, 1 + i * 29, 1 + i * 3, 1, 1, 0);
            p.n = 1 + i % 3;
            p.bias = i % 2;
            p.residual = i % 3 == 0;
            p.act = i % 4 < 2;
            p.fn = i % 4 == 0 ? ENG_RELU : ENG_SIGMOID;
            p.dynamic = i % 5 == 0;
            check(&p, best, threads, blas, 1e-5);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_square),         cmocka_unit_test(test_models),
        cmocka_unit_test(test_uneven),         cmocka_unit_test(test_dimensions),
        cmocka_unit_test(test_depthwise),      cmocka_unit_test(test_epilogues),
        cmocka_unit_test(test_threads),        cmocka_unit_test(test_winograd),
        cmocka_unit_test(test_low_pairs),      cmocka_unit_test(test_low_tiles),
        cmocka_unit_test(test_depthwise_rows), cmocka_unit_test(test_tunings),
        cmocka_unit_test(test_blas),
    };
    printf("seed %u\n", SEED);
    base_prng_seed(&prng, SEED);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
