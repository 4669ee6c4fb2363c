// Products of rounded weights with the error that all rows share put right, against the definition
// in double: plain rounded operands plus the mean row times what rounding took. Where rows have
// nothing to do with their mean, where there are few, or where something is not finite, the result
// is that of plain rounded operands.
#include "backend/cpu/cpu_ops.h"
#include "backend/cpu/gemm/gemm_mean.h"
#include "backend/pack.h"
#include "base/alloc.h"
#include "kernel_rig.h"

enum { A, W, C, BIAS, TENSORS };

struct product {
    int64_t m, n, k;
    bool transposed, bias;
    float alpha;
    int64_t gap;      // floats between rows of A
    uint32_t threads; // 0: one
    float *data[TENSORS];
};

static struct base_prng prng;

static float between(float low, float high)
{
    return low + (high - low) * (float)base_prng_unit(&prng);
}

static float *row_of(const struct product *p, int64_t row)
{
    return p->data[A] + row * (p->k + p->gap);
}

// Rows are `common` times one row, and a rest. They are bfloat16 numbers: weights alone err.
static void begin(struct product *p, float common)
{
    const size_t floats[TENSORS] = {[A] = (size_t)(p->m * (p->k + p->gap)),
                                    [W] = (size_t)(p->k * p->n),
                                    [C] = (size_t)(p->m * p->n),
                                    [BIAS] = (size_t)p->n};
    for (int i = 0; i < TENSORS; i++) {
        p->data[i] = malloc(floats[i] * sizeof(float));
        assert_non_null(p->data[i]);
        for (size_t j = 0; j < floats[i]; j++) {
            p->data[i][j] = between(-1, 1);
        }
    }
    for (int64_t k = 0; k < p->k; k++) {
        const float shared = common * (k % 2 == 0 ? 1.0F : -1.0F);
        for (int64_t row = 0; row < p->m; row++) {
            float *x = &row_of(p, row)[k];
            *x = (float)kernel_rounded(shared + *x);
        }
    }
}

static void end(struct product *p)
{
    for (int i = 0; i < TENSORS; i++) {
        free(p->data[i]);
    }
}

static void run(const struct product *p)
{
    uint32_t inputs[3] = {A, W, BIAS};
    uint32_t outputs[1] = {C};
    struct eng_command command = {.op = ENG_OP_MATMUL,
                                  .input_count = 3,
                                  .output_count = 1,
                                  .inputs = inputs,
                                  .outputs = outputs,
                                  .box = {.rank = 3, .size = {p->m, p->n, p->k}}};
    command.views[0].stride[0] = p->k + p->gap;
    command.views[0].stride[2] = 1;
    command.views[1].stride[1] = p->transposed ? p->k : 1;
    command.views[1].stride[2] = p->transposed ? 1 : p->n;
    command.u.matmul = (struct eng_matmul){
        .alpha = p->alpha, .epilogue = {.bias = p->bias ? BIAS : ENG_NONE, .residual = ENG_NONE}};
    struct eng_tensor tensors[TENSORS] = {0};
    for (int i = 0; i < TENSORS; i++) {
        tensors[i].desc.dtype = ENG_F32;
        tensors[i].kind = i == W ? ENG_CONST : ENG_TEMP;
    }
    tensors[W].data = tensors[W].identity = p->data[W];
    struct base_arena arena;
    struct eng_pool *pool;
    struct eng_pack_cache *packs;
    base_arena_init(&arena, base_alloc_heap(), 0, 0);
    assert_int_equal(eng_pool_new(p->threads > 0 ? p->threads : 1, &pool), BASE_OK);
    assert_int_equal(eng_pack_cache_new(&packs), BASE_OK);
    const struct eng_program program = {
        .arena = &arena, .tensors = tensors, .tensor_count = TENSORS};
    const struct eng_prepare prepare = {.arena = &arena,
                                        .packs = packs,
                                        .kernels = eng_kernels_find("avx512"),
                                        .pool = pool,
                                        .precision = ENG_PRECISION_LOW};
    struct eng_step step = {.program = &program, .command = &command};
    assert_int_equal(eng_cpu_prepare_matmul(&prepare, &program, &command, &step), BASE_OK);
    void *scratch = aligned_alloc(64, (step.scratch_bytes + 127) / 64 * 64);
    assert_non_null(scratch);
    void *pointers[TENSORS];
    memcpy(pointers, p->data, sizeof pointers);
    const struct eng_run context = {.data = pointers, .pool = pool, .scratch = scratch};
    assert_int_equal(step.run(&step, &context), BASE_OK);
    free(scratch);
    eng_pack_cache_free(packs);
    eng_pool_free(pool);
    base_arena_done(&arena);
}

// One element: exact, of rounded operands, and what is added for the mean with its uncertainty.
struct element {
    double exact, plain, added, slack;
};

static struct element define(const struct product *p, int64_t row, int64_t n)
{
    const struct kernel_product product = {.a = p->data[A],
                                           .w = p->data[W],
                                           .rows = p->m,
                                           .row_stride = p->k + p->gap,
                                           .k = p->k,
                                           .stride_k = p->transposed ? 1 : p->n,
                                           .stride_n = p->transposed ? p->k : 1,
                                           .alpha = p->alpha};
    struct element e = {.exact = p->bias ? (double)p->data[BIAS][n] : 0};
    e.plain = e.exact;
    for (int64_t k = 0; k < p->k; k++) {
        const float x = row_of(p, row)[k], w = kernel_weight(&product, k, n);
        e.exact += (double)x * (double)w;
        e.plain += kernel_rounded(x) * kernel_rounded(w);
    }
    e.added = kernel_shared_error(&product, n, &e.slack);
    return e;
}

// Root of the mean square of found - exact, and of plain - exact. `corrected`: what is demanded.
static void check(const struct product *p, bool corrected, double *out_found, double *out_plain)
{
    double found = 0;
    double plain = 0;
    for (int64_t row = 0; row < p->m; row++) {
        for (int64_t n = 0; n < p->n; n++) {
            const struct element e = define(p, row, n);
            const double got = (double)p->data[C][row * p->n + n];
            const double want = e.plain + (corrected ? e.added : 0);
            const double bound = 1e-6 * (double)(p->k + 8) + (corrected ? e.slack : 0);
            if (!(fabs(got - want) <= bound)) {
                fail_msg("%lldx%lldx%lld [%lld][%lld]: %.9g, expected %.9g (plain %.9g)",
                         (long long)p->m, (long long)p->n, (long long)p->k, (long long)row,
                         (long long)n, got, want, e.plain);
            }
            found += (got - e.exact) * (got - e.exact);
            plain += (e.plain - e.exact) * (e.plain - e.exact);
        }
    }
    *out_found = sqrt(found / (double)(p->m * p->n));
    *out_plain = sqrt(plain / (double)(p->m * p->n));
}

static void test_shared_error_goes(void **state)
{
    (void)state;
    struct product p = {.m = 48, .n = 64, .k = 512, .alpha = 1};
    double found, plain;
    begin(&p, 4);
    run(&p);
    check(&p, true, &found, &plain);
    printf("rows alike: error %.3g, plain %.3g\n", found, plain);
    assert_true(found < 0.3 * plain);
    end(&p);
}

static void test_shapes(void **state)
{
    (void)state;
    for (int i = 0; i < 40; i++) {
        struct product p = {.m = 32 + (int64_t)base_prng_below(&prng, i % 8 == 0 ? 120 : 20),
                            .n = 16 + (int64_t)base_prng_below(&prng, 130),
                            .k = 16 + (int64_t)base_prng_below(&prng, i % 4 == 0 ? 600 : 60),
                            .transposed = i % 2 == 1,
                            .bias = i % 3 != 0,
                            .gap = i % 5,
                            .alpha = i % 7 == 0 ? 0.3F : 1,
                            .threads = 1 + (uint32_t)i % 3};
        double found, plain;
        begin(&p, between(0, 4));
        run(&p);
        check(&p, true, &found, &plain);
        end(&p);
    }
}

// Rows with nothing in common: no worse than without.
static void test_nothing_in_common(void **state)
{
    (void)state;
    struct product p = {.m = 200, .n = 40, .k = 96, .alpha = 1};
    double found, plain;
    begin(&p, 0);
    run(&p);
    check(&p, true, &found, &plain);
    assert_true(found < 1.05 * plain);
    end(&p);
}

static void test_rows_unlike_their_mean(void **state)
{
    (void)state;
    static const float factors[] = {1000, 0};
    for (size_t i = 0; i < TEST_COUNT(factors); i++) {
        struct product p = {.m = 40, .n = 33, .k = 70, .alpha = 1, .bias = true};
        double found, plain;
        begin(&p, 2);
        for (int64_t k = 0; k < p.k; k++) {
            float *x = &row_of(&p, 17)[k];
            *x = (float)kernel_rounded(*x * factors[i]);
        }
        if (factors[i] > 1) { // an error of its own size: leave the long row out
            run(&p);
            p.m = 17;
        } else {
            run(&p);
        }
        check(&p, false, &found, &plain);
        end(&p);
    }
}

static void test_not_finite(void **state)
{
    (void)state;
    static const float values[] = {NAN, INFINITY, -INFINITY, 3e38F};
    for (size_t i = 0; i < TEST_COUNT(values); i++) {
        struct product p = {.m = 64, .n = 50, .k = 40, .alpha = 1};
        double found, plain;
        begin(&p, 1);
        row_of(&p, 63)[39] = values[i];
        run(&p);
        p.m = 63; // the others have nothing of it
        check(&p, false, &found, &plain);
        end(&p);
    }
    // Weights that are not finite spoil their own column alone.
    struct product p = {.m = 40, .n = 20, .k = 32, .alpha = 1};
    double found, plain;
    begin(&p, 1);
    for (int64_t k = 0; k < p.k; k++) {
        p.data[W][k * p.n + 19] = k == 3 ? INFINITY : 0;
    }
    run(&p);
    for (int64_t row = 0; row < p.m; row++) {
        assert_true(isinf(p.data[C][row * p.n + 19]) || isnan(p.data[C][row * p.n + 19]));
        p.data[C][row * p.n + 19] = 0;
    }
    for (int64_t k = 0; k < p.k; k++) {
        p.data[W][k * p.n + 19] = 0;
    }
    check(&p, true, &found, &plain);
    end(&p);
}

static void test_few_rows_or_columns(void **state)
{
    (void)state;
    struct product p = {.m = ENG_GEMM_MEAN_ROWS_MIN - 1, .n = 32, .k = 64, .alpha = 1};
    double found, plain;
    begin(&p, 2);
    run(&p);
    check(&p, false, &found, &plain);
    end(&p);
    // Narrow products are float32.
    p = (struct product){.m = 64, .n = 15, .k = 64, .alpha = 1};
    begin(&p, 2);
    run(&p);
    for (int64_t i = 0; i < p.m * p.n; i++) {
        const double exact = define(&p, i / p.n, i % p.n).exact;
        if (!(fabs((double)p.data[C][i] - exact) <= 1e-6 * (double)p.k)) {
            fail_msg("narrow: element %lld is %.9g, expected %.9g", (long long)i,
                     (double)p.data[C][i], exact);
        }
    }
    end(&p);
}

static void test_threads(void **state)
{
    (void)state;
    struct product p = {.m = 150, .n = 700, .k = 530, .alpha = 1, .bias = true, .threads = 1};
    begin(&p, 1);
    run(&p);
    const size_t bytes = (size_t)(p.m * p.n) * sizeof(float);
    float *one = (float *)(void *)test_exact(p.data[C], bytes);
    for (p.threads = 2; p.threads <= 4; p.threads++) {
        run(&p);
        assert_memory_equal(p.data[C], one, bytes);
    }
    free(one);
    end(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shared_error_goes), cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_nothing_in_common), cmocka_unit_test(test_rows_unlike_their_mean),
        cmocka_unit_test(test_not_finite),        cmocka_unit_test(test_few_rows_or_columns),
        cmocka_unit_test(test_threads),
    };
    test_seed(&prng);
    if (!eng_cpu_detect()->avx512_bf16) {
        printf("this processor has no bfloat16 products\n");
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
