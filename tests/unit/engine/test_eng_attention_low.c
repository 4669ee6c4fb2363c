// Attention on bfloat16 pairs and on tiles, the processor's or emulated ones, against sums in
// double of operands rounded as the kernels do: lengths with every kind of remainder, masks,
// batches, heads and threads.
#include "amx_rig.h"
#include "backend/cpu/cpu_ops.h"
#include "base/alloc.h"
#include "kernel_rig.h"

#define SEED 20261121u
// Weights of the values are rounded to eight bits: 2^-9 of the largest value, which is 2.
#define BOUND (2.0 / 512 + 2e-4)

enum { Q, K, V, MASK, OUT, TENSORS };

struct attention {
    int64_t b, h, s, t, d, e;
    int mask; // 0 none, 1 [B,1,1,T], 2 [S,T], 3 [B,H,S,T], 4 one value a row
    uint32_t threads;
};

static struct base_prng prng;

static void set_view(struct eng_view *view, int64_t a, int64_t b, int64_t c, int64_t d)
{
    *view = (struct eng_view){.stride = {a, b, c, d}};
}

// What the masks' view says, applied to one place.
static double mask_at(const struct eng_command *command, const float *mask, int64_t b, int64_t h,
                      int64_t s, int64_t t)
{
    const int64_t *stride = command->views[3].stride;
    return mask == NULL
               ? 0
               : (double)mask[b * stride[0] + h * stride[1] + s * stride[2] + t * stride[3]];
}

// One row of one head, from the definition.
static void check_row(const struct attention *c, const struct eng_command *command,
                      float *const data[TENSORS], int64_t b, int64_t h, int64_t s, const char *isa)
{
    double *p = calloc((size_t)c->t, sizeof(*p)), most = -INFINITY, sum = 0;
    assert_non_null(p);
    const float *q = data[Q] + ((b * c->s + s) * c->h + h) * c->d;
    for (int64_t t = 0; t < c->t; t++) {
        const float *k = data[K] + ((b * c->t + t) * c->h + h) * c->d;
        for (int64_t i = 0; i < c->d; i++) {
            p[t] += kernel_rounded(q[i]) * kernel_rounded(k[i]);
        }
        p[t] = p[t] * 0.125 + mask_at(command, c->mask != 0 ? data[MASK] : NULL, b, h, s, t);
        most = fmax(most, p[t]);
    }
    for (int64_t t = 0; t < c->t; t++) {
        p[t] = exp(p[t] - most);
        sum += p[t];
    }
    for (int64_t j = 0; j < c->e; j++) {
        double want = 0;
        for (int64_t t = 0; t < c->t; t++) {
            want += p[t] / sum * kernel_rounded(data[V][((b * c->t + t) * c->h + h) * c->e + j]);
        }
        const double found = (double)data[OUT][((b * c->s + s) * c->h + h) * c->e + j];
        if (!(fabs(want - found) <= BOUND)) {
            fail_msg("%s: %lld keys of %lld, values of %lld: row %lld, column %lld: %g, not %g",
                     isa, (long long)c->t, (long long)c->d, (long long)c->e, (long long)s,
                     (long long)j, found, want);
        }
    }
    free(p);
}

static void run(const struct attention *c, const struct eng_command *command,
                const struct eng_program *program, float *data[TENSORS], const char *isa)
{
    struct eng_pool *pool;
    assert_int_equal(eng_pool_new(c->threads, &pool), BASE_OK);
    const struct eng_prepare prepare = {.arena = program->arena,
                                        .kernels = eng_kernels_find(isa),
                                        .pool = pool,
                                        .precision = ENG_PRECISION_LOW};
    assert_non_null(prepare.kernels);
    struct eng_step step = {.program = program, .command = command};
    assert_int_equal(eng_cpu_prepare_attention(&prepare, program, command, &step), BASE_OK);
    assert_string_equal(step.kernel, "attention.bf16");
    void *scratch = aligned_alloc(64, (step.scratch_bytes + 63) / 64 * 64);
    assert_non_null(scratch);
    memset(scratch, 0xff, step.scratch_bytes); // NaN: what is read must have been written
    void *pointers[TENSORS];
    memcpy(pointers, data, sizeof(pointers));
    const struct eng_run now = {.data = pointers, .pool = pool, .scratch = scratch};
    assert_int_equal(step.run(&step, &now), BASE_OK);
    free(scratch);
    eng_pool_free(pool);
}

static void check(const struct attention *c, const char *isa)
{
    struct base_arena arena;
    base_arena_init(&arena, base_alloc_heap(), 0, 0);
    const int64_t masks[5][4] = {{1, 1, 1, 1},
                                 {c->b, 1, 1, c->t},
                                 {1, 1, c->s, c->t},
                                 {c->b, c->h, c->s, c->t},
                                 {1, 1, c->s, 1}};
    const int64_t *m = masks[c->mask];
    struct eng_tensor tensors[TENSORS] = {
        [Q] = {.desc = {ENG_F32, 4, {c->b, c->s, c->h, c->d}}},
        [K] = {.desc = {ENG_F32, 4, {c->b, c->t, c->h, c->d}}},
        [V] = {.desc = {ENG_F32, 4, {c->b, c->t, c->h, c->e}}},
        [MASK] = {.desc = {ENG_F32, 4, {m[0], m[1], m[2], m[3]}}},
        [OUT] = {.desc = {ENG_F32, 4, {c->b, c->s, c->h, c->e}}},
    };
    uint32_t inputs[4] = {Q, K, V, c->mask != 0 ? MASK : ENG_NONE}, outputs[1] = {OUT};
    struct eng_command command = {.op = ENG_OP_ATTENTION,
                                  .input_count = 4,
                                  .output_count = 1,
                                  .inputs = inputs,
                                  .outputs = outputs,
                                  .box = {6, {c->b, c->h, c->s, c->t, c->d, c->e}},
                                  .u.attention.scale = 0.125f};
    set_view(&command.views[0], c->s * c->h * c->d, c->d, c->h * c->d, 1);
    set_view(&command.views[1], c->t * c->h * c->d, c->d, c->h * c->d, 1);
    set_view(&command.views[2], c->t * c->h * c->e, c->e, c->h * c->e, 1);
    set_view(&command.views[3], m[0] == 1 ? 0 : m[1] * m[2] * m[3], m[1] == 1 ? 0 : m[2] * m[3],
             m[2] == 1 ? 0 : m[3], m[3] == 1 ? 0 : 1);
    set_view(&command.u.attention.out_view, c->s * c->h * c->e, c->e, c->h * c->e, 1);
    float *data[TENSORS];
    for (int i = 0; i < TENSORS; i++) {
        tensors[i].kind = ENG_TEMP;
        const size_t count = (size_t)eng_desc_count(&tensors[i].desc);
        data[i] = kernel_floats(&prng, count);
        for (size_t j = 0; j < count; j++) {
            data[i][j] *= 2;
        }
    }
    const struct eng_program program = {
        .arena = &arena, .tensors = tensors, .tensor_count = TENSORS};
    run(c, &command, &program, data, isa);
    for (int64_t row = 0; row < c->b * c->h * c->s; row++) {
        check_row(c, &command, data, row / c->s / c->h, row / c->s % c->h, row % c->s, isa);
    }
    for (int i = 0; i < TENSORS; i++) {
        free(data[i]);
    }
    base_arena_done(&arena);
}

static void check_all(const char *isa)
{
    static const struct attention cases[] = {
        {1, 1, 1, 16, 16, 16, 0, 1},    {2, 3, 33, 70, 64, 64, 1, 1},
        {1, 2, 100, 129, 64, 64, 2, 3}, {2, 2, 17, 64, 18, 33, 3, 2},
        {1, 1, 128, 65, 24, 71, 4, 1},  {1, 4, 70, 256, 64, 64, 1, 2},
        {1, 1, 30, 600, 16, 16, 0, 1},  {3, 1, 1, 100, 32, 32, 2, 1},
        {1, 2, 65, 31, 95, 17, 0, 2},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        check(&cases[i], isa);
    }
}

static void test_pairs(void **state)
{
    (void)state;
    if (!eng_cpu_detect()->avx512_bf16) {
        printf("this processor has no bfloat16 products\n");
        skip();
    }
    check_all("avx512");
}

static void test_tiles(void **state)
{
    (void)state;
    const enum amx_source source = amx_rig_provide();
    if (source == AMX_NOWHERE) {
        skip();
    }
    const uint64_t before = amx_emulator_count(AMX_TDPBF16PS);
    check_all("amx");
    assert_true(source == AMX_NATIVE || amx_emulator_count(AMX_TDPBF16PS) > before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_tiles),
    };
    printf("seed %u\n", SEED);
    base_prng_seed(&prng, SEED);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
