// What a training step needs of convolutions, on every instruction set this processor has: forward
// with weights that change, and both gradients. Small shapes against loops in double, layers of
// real models by what ties the three together: <y, dy> = <x, dx> = <w, dw>.
#include "backend/cpu/conv_ops.h"
#include "base/alloc.h"
#include "kernel_rig.h"
#include "model/graph.h"

enum { X, W, Y, BIAS, RESIDUAL, RESULT, TENSORS };
enum kind { FORWARD, BY_INPUT, BY_WEIGHTS, KINDS };

struct layer {
    int64_t n, c, m, in, kernel, stride, pad;
    int64_t groups, dilation, more; // more: columns beyond rows
    bool wino[KINDS];               // which of the three are to be Winograd's
    bool any;                       // or whatever it is
    bool rich;                      // with bias, residual and activation
};

static struct base_prng prng;

struct rig {
    struct base_arena arena;
    struct eng_tensor tensors[TENSORS];
    struct eng_conv conv;
    struct eng_conv_shape shape;
    float *data[TENSORS];
    size_t counts[TENSORS];
};

static void rig_init(struct rig *rig, const struct layer *l)
{
    *rig = (struct rig){0};
    base_arena_init(&rig->arena, base_alloc_heap(), 0, 0);
    const int64_t groups = l->groups > 0 ? l->groups : 1;
    struct eng_desc x = {.dtype = ENG_F32, .rank = 4, .dims = {l->n, l->c, l->in, l->in + l->more}};
    struct eng_desc w = {
        .dtype = ENG_F32, .rank = 4, .dims = {l->m, l->c / groups, l->kernel, l->kernel}};
    struct eng_desc y = {.dtype = ENG_F32, .rank = 4, .dims = {l->n, l->m}};
    rig->conv = (struct eng_conv){.spatial = 2, .groups = groups};
    for (int d = 0; d < 2; d++) {
        rig->conv.kernel[d] = l->kernel;
        rig->conv.stride[d] = l->stride;
        rig->conv.dilation[d] = d == 1 && l->dilation > 0 ? l->dilation : 1;
        rig->conv.pad_begin[d] = rig->conv.pad_end[d] = l->pad;
        const int64_t reach = (l->kernel - 1) * rig->conv.dilation[d] + 1;
        y.dims[2 + d] = (x.dims[2 + d] + 2 * l->pad - reach) / l->stride + 1;
    }
    rig->conv.epilogue = (struct eng_epilogue){.bias = l->rich ? BIAS : ENG_NONE,
                                               .residual = l->rich ? RESIDUAL : ENG_NONE,
                                               .has_activation = l->rich,
                                               .activation = ENG_LEAKY_RELU,
                                               .alpha = 0.1f};
    rig->tensors[X].desc = x;
    rig->tensors[W].desc = w;
    rig->tensors[Y].desc = rig->tensors[RESIDUAL].desc = y;
    rig->tensors[BIAS].desc = (struct eng_desc){.dtype = ENG_F32, .rank = 1, .dims = {l->m}};
    for (int i = 0; i < RESULT; i++) {
        rig->tensors[i].kind = i == W || i == BIAS ? ENG_PARAM : ENG_TEMP;
        rig->tensors[i].layout = i == W || i == BIAS ? ENG_PLAIN : ENG_CHANNELS_LAST;
        rig->counts[i] = (size_t)eng_desc_count(&rig->tensors[i].desc);
        rig->data[i] = kernel_floats(&prng, rig->counts[i]);
    }
    assert_int_equal(eng_conv_shape_from(&rig->conv, &x, &y, &rig->shape), BASE_OK);
}

static void rig_done(struct rig *rig)
{
    for (int i = 0; i < RESULT; i++) {
        free(rig->data[i]);
    }
    base_arena_done(&rig->arena);
}

// The result, in the order of its tensor; to be freed.
static float *run(struct rig *rig, const struct layer *l, enum kind kind, const char *isa,
                  uint32_t threads)
{
    static const enum eng_atomic ops[] = {ENG_OP_CONV, ENG_OP_CONV_GRAD_INPUT,
                                          ENG_OP_CONV_GRAD_WEIGHT};
    static const uint32_t first[] = {X, Y, X}, second[] = {W, W, Y}, like[] = {Y, X, W};
    static const eng_prepare_fn prepares[] = {eng_cpu_prepare_conv, eng_cpu_prepare_conv_grad_input,
                                              eng_cpu_prepare_conv_grad_weight};
    uint32_t inputs[4] = {first[kind], second[kind], BIAS, RESIDUAL}, outputs[1] = {RESULT};
    struct eng_command command = {.op = ops[kind],
                                  .input_count = kind == FORWARD && l->rich ? 4 : 2,
                                  .output_count = 1,
                                  .inputs = inputs,
                                  .outputs = outputs,
                                  .u.conv = rig->conv};
    if (kind != FORWARD) {
        command.u.conv.epilogue = (struct eng_epilogue){.bias = ENG_NONE, .residual = ENG_NONE};
    }
    rig->tensors[RESULT] = rig->tensors[like[kind]];
    rig->tensors[RESULT].kind = ENG_TEMP;
    float *result = kernel_floats(&prng, rig->counts[like[kind]]);
    const struct eng_program program = {
        .arena = &rig->arena, .tensors = rig->tensors, .tensor_count = TENSORS};
    struct eng_pool *pool;
    assert_int_equal(eng_pool_new(threads, &pool), BASE_OK);
    const struct eng_prepare prepare = {
        .arena = &rig->arena, .kernels = eng_kernels_find(isa), .pool = pool};
    struct eng_step step = {.program = &program, .command = &command};
    assert_int_equal(prepares[kind](&prepare, &program, &command, &step), BASE_OK);
    if (!l->any && l->wino[kind] != (strstr(step.kernel, "winograd") != NULL)) {
        fail_msg("%s: %lld->%lld became %s", isa, (long long)l->c, (long long)l->m, step.kernel);
    }
    void *scratch = aligned_alloc(64, (step.scratch_bytes + 64) / 64 * 64);
    assert_non_null(scratch);
    memset(scratch, 0xff, step.scratch_bytes); // NaN: what is read must have been written
    void *pointers[TENSORS];
    for (int i = 0; i < RESULT; i++) {
        pointers[i] = rig->data[i];
    }
    pointers[RESULT] = result;
    const struct eng_run run = {.data = pointers, .pool = pool, .scratch = scratch};
    for (int i = 0; i < 2; i++) { // a second run finds what the first one left
        assert_int_equal(step.run(&step, &run), BASE_OK);
    }
    free(scratch);
    eng_pool_free(pool);
    return result;
}

// Sums of all taps of all outputs, from the definition: to y, and scattered to dx and dw.
static void sum_taps(const struct rig *rig, double *y, double *dx, double *dw)
{
    const struct eng_conv_shape *s = &rig->shape;
    const int64_t cg = s->in_channels / s->groups, mg = s->out_channels / s->groups;
    const int64_t pixels = s->out[1] * s->out[2], taps = eng_conv_taps(s);
    for (int64_t i = 0; i < s->batch * pixels * s->out_channels; i++) {
        const int64_t m = i % s->out_channels, at = i / s->out_channels;
        for (int64_t t = 0; t < taps; t++) {
            const int64_t row = at / s->out[2] % s->out[1] * s->stride[1] +
                                t / s->kernel[2] * s->dilation[1] - s->pad[1];
            const int64_t column =
                at % s->out[2] * s->stride[2] + t % s->kernel[2] * s->dilation[2] - s->pad[2];
            if (row < 0 || row >= s->in[1] || column < 0 || column >= s->in[2]) {
                continue;
            }
            const int64_t from =
                ((at / pixels * s->in[1] + row) * s->in[2] + column) * s->in_channels + m / mg * cg;
            for (int64_t c = 0; c < cg; c++) {
                const int64_t tap = (m * cg + c) * taps + t;
                y[i] += (double)rig->data[X][from + c] * (double)rig->data[W][tap];
                dx[from + c] += (double)rig->data[W][tap] * (double)rig->data[Y][i];
                dw[tap] += (double)rig->data[X][from + c] * (double)rig->data[Y][i];
            }
        }
    }
}

static void compare(const struct rig *rig, const struct layer *l, enum kind kind, const char *isa,
                    const float *result, const double *want, size_t count)
{
    const double terms[KINDS] = {(double)(l->kernel * l->kernel * l->c),
                                 (double)(l->kernel * l->kernel * l->m),
                                 (double)(rig->counts[Y] / (size_t)l->m)};
    const double bound = 1e-5 * (1 + sqrt(terms[kind]));
    for (size_t i = 0; i < count; i++) {
        if (!(fabs(want[i] - (double)result[i]) <= bound)) {
            fail_msg("%s: %lld->%lld of %lld kernel %lld, kind %d: element %zu: %g, expected %g",
                     isa, (long long)l->c, (long long)l->m, (long long)l->in, (long long)l->kernel,
                     (int)kind, i, (double)result[i], want[i]);
        }
    }
}

static void check_layer(const struct layer *l, uint32_t threads)
{
    struct rig rig;
    rig_init(&rig, l);
    const int like[KINDS] = {Y, X, W};
    double *want[KINDS];
    for (int k = 0; k < KINDS; k++) {
        want[k] = calloc(rig.counts[like[k]], sizeof(double));
        assert_non_null(want[k]);
    }
    sum_taps(&rig, want[FORWARD], want[BY_INPUT], want[BY_WEIGHTS]);
    for (size_t i = 0; l->rich && i < rig.counts[Y]; i++) {
        want[FORWARD][i] =
            kernel_activate(&rig.conv.epilogue, want[FORWARD][i] + (double)rig.data[RESIDUAL][i] +
                                                    (double)rig.data[BIAS][i % (size_t)l->m]);
    }
    for (int k = 0; k < KINDS; k++) {
        for (size_t i = 0; i < KERNEL_NAMES_MAX; i++) {
            if (eng_kernels_find(kernel_names[i]) == NULL ||
                (k == BY_WEIGHTS && rig.shape.groups > 1 &&
                 rig.shape.groups != l->c)) { // which is the reference's
                continue;
            }
            float *result = run(&rig, l, (enum kind)k, kernel_names[i], threads);
            compare(&rig, l, (enum kind)k, kernel_names[i], result, want[k], rig.counts[like[k]]);
            free(result);
        }
        free(want[k]);
    }
    rig_done(&rig);
}

static void random_shapes(void **state)
{
    (void)state;
    for (int64_t i = 0; i < 60; i++) {
        struct layer l = {.n = 1 + i % 2,
                          .c = 1 + i * 2 % 50,
                          .m = 1 + i * 5 % 41,
                          .in = 7 + i % 9,
                          .kernel = 1 + i % 4,
                          .stride = 1 + i / 3 % 3,
                          .dilation = 1 + i % 2,
                          .more = i % 5,
                          .any = true};
        l.pad = (int64_t)base_prng_below(&prng, (uint64_t)l.kernel + 1);
        check_layer(&l, 1 + (uint32_t)i % 3);
        l.c = l.m = i % 2 ? 1 + i * 3 : 6;
        l.groups = i % 2 ? l.c : 2;
        check_layer(&l, 1 + (uint32_t)i % 2);
    }
}

// Sums large and small, bands of some rows and of some images, pixels that collide in the cache.
static void direct_shapes(void **state)
{
    (void)state;
    static const struct layer layers[] = {
        {.n = 2, .c = 3, .m = 24, .in = 61, .kernel = 7, .stride = 2, .pad = 3},
        {.n = 3, .c = 16, .m = 40, .in = 33, .kernel = 3, .stride = 2, .pad = 1},
        {.n = 2, .c = 130, .m = 140, .in = 9, .kernel = 3, .stride = 2, .pad = 1},
        {.n = 9, .c = 256, .m = 70, .in = 8, .kernel = 3, .stride = 2, .pad = 1},
        {.n = 2, .c = 20, .m = 512, .in = 12, .kernel = 1, .stride = 2, .pad = 0},
        {.n = 3, .c = 96, .m = 33, .in = 14, .kernel = 1, .stride = 1, .pad = 0},
        {.n = 1, .c = 5, .m = 6, .in = 40, .kernel = 5, .stride = 1, .pad = 2},
        {.n = 1, .c = 8, .m = 8, .in = 9, .kernel = 1, .stride = 3, .pad = 2},
    };
    for (uint32_t pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < TEST_COUNT(layers); i++) {
            check_layer(&layers[i], 1 + (i + pass) % 3);
        }
    }
}

// One block and several, tiles that leave the image, channels that do not fill a vector or a panel,
// orders by blocks and by panels.
static void winograd_shapes(void **state)
{
    (void)state;
#define ALL                                                                                        \
    {                                                                                              \
        true, true, true                                                                           \
    }
    static const struct layer layers[] = {
        {.n = 2, .c = 40, .m = 37, .in = 17, .kernel = 3, .stride = 1, .pad = 1, .wino = ALL},
        {.n = 3, .c = 33, .m = 70, .in = 13, .kernel = 3, .stride = 1, .pad = 0, .wino = ALL},
        {.n = 2, .c = 17, .m = 21, .in = 18, .kernel = 3, .stride = 1, .pad = 2, .wino = ALL},
        {.n = 2, .c = 16, .m = 16, .in = 48, .kernel = 3, .stride = 1, .pad = 1, .wino = ALL},
        {.n = 4, .c = 150, .m = 130, .in = 7, .kernel = 3, .stride = 1, .pad = 1, .wino = ALL},
        {.n = 2, .c = 64, .m = 96, .in = 12, .kernel = 3, .stride = 1, .pad = 1, .wino = ALL},
    };
    for (uint32_t pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < TEST_COUNT(layers); i++) {
            struct layer l = layers[i];
            l.more = i;
            l.rich = pass != 0;
            check_layer(&l, 1 + (i + pass) % 3);
        }
    }
}

static double inner(const float *a, const float *b, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += (double)a[i] * (double)b[i];
    }
    return sum;
}

static void model_layers(void **state)
{
    (void)state;
    static const struct layer layers[] = {
        {.n = 2, .c = 3, .m = 64, .in = 112, .kernel = 7, .stride = 2, .pad = 3},
        {.n = 2, .c = 64, .m = 64, .in = 56, .kernel = 3, .stride = 1, .pad = 1, .wino = ALL},
        {.n = 2, .c = 64, .m = 128, .in = 56, .kernel = 3, .stride = 2, .pad = 1},
        {.n = 2, .c = 64, .m = 128, .in = 56, .kernel = 3, .stride = 1, .pad = 1, .wino = ALL},
        {.n = 2, .c = 128, .m = 128, .in = 28, .kernel = 3, .stride = 1, .pad = 1, .wino = ALL},
        {.n = 2, .c = 128, .m = 256, .in = 28, .kernel = 1, .stride = 2, .pad = 0},
        {.n = 3, .c = 256, .m = 256, .in = 14, .kernel = 3, .stride = 1, .pad = 1, .wino = ALL},
        {.n = 3, .c = 256, .m = 512, .in = 14, .kernel = 3, .stride = 2, .pad = 1},
        {.n = 8, .c = 512, .m = 512, .in = 7, .kernel = 3, .stride = 1, .pad = 1, .wino = ALL},
    };
    const char *isa = eng_kernels_find(NULL)->name;
    for (size_t i = 0; i < TEST_COUNT(layers); i++) {
        struct rig rig;
        rig_init(&rig, &layers[i]);
        const int like[KINDS] = {Y, X, W};
        double products[KINDS];
        for (int k = 0; k < KINDS; k++) {
            float *result = run(&rig, &layers[i], (enum kind)k, isa, 1 + (uint32_t)i % 2);
            products[k] = inner(result, rig.data[like[k]], rig.counts[like[k]]);
            free(result);
        }
        // Of as many products as there are, of random signs.
        const double size =
            sqrt((double)rig.counts[Y] * (double)rig.counts[W] / (double)layers[i].m);
        for (int k = 1; k < KINDS; k++) {
            if (!(fabs(products[k] - products[0]) <= 1e-4 * size)) {
                fail_msg("layer %zu: %.9g forward, %.9g by kind %d", i, products[0], products[k],
                         k);
            }
        }
        rig_done(&rig);
    }
}

int main(void)
{
    test_seed(&prng);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_shapes),
        cmocka_unit_test(direct_shapes),
        cmocka_unit_test(winograd_shapes),
        cmocka_unit_test(model_layers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
