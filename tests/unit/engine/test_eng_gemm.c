// Matrix products of every instruction set this processor has, against loops in double: all
// remainders of tiles and panels, views, batches, epilogues, packed and dynamic operands, threads.
#include "amx_rig.h"
#include "backend/cpu/blas.h"
#include "backend/cpu/blas_step.h"
#include "backend/cpu/cpu_ops.h"
#include "backend/cpu/gemm/gemm_cost.h"
#include "backend/cpu/kernel/gemm_kernels.h"
#include "backend/cpu/gemm/gemm_mean.h"
#include "backend/pack.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "kernel_rig.h"
#include "model/graph.h"

#define SEED 20240611u

enum { A, B, C, BIAS, RESIDUAL, TENSORS };

struct product {
    uint32_t batch_rank;
    int64_t batch[2], m, n, k;
    bool a_transposed, b_transposed, b_shared, b_dynamic;
    int64_t a_gap; // floats between the end of a row of A and the next one
    float alpha;
    bool bias, residual, in_place;
    bool act, low;
    enum eng_unary_fn fn;
    enum eng_tuning tuning;
    bool blas; // by OpenBLAS, where it takes the operands
};

static struct base_prng prng;
static uint32_t blas_steps; // that OpenBLAS took

// Low precision rounds to bfloat16 where a product is long and wide enough, its second operand
// constant and its first one contiguous along K.
static bool is_rounded(const struct product *p)
{
    return p->low && p->k >= 16 && p->n >= 16 && !p->b_dynamic && !p->a_transposed;
}

static double operand(const struct product *p, float x)
{
    return is_rounded(p) ? kernel_rounded(x) : (double)x;
}

static int64_t images_of(const struct product *p)
{
    return (p->batch_rank > 0 ? p->batch[0] : 1) * (p->batch_rank > 1 ? p->batch[1] : 1);
}

// What is added to column j of a rounded product where enough rows share one B.
static double shared_error(const struct product *p, const struct eng_command *command,
                           float *const data[TENSORS], int64_t j, double *out_slack)
{
    const uint32_t r = p->batch_rank;
    const struct eng_view *a = &command->views[0], *b = &command->views[1];
    const struct kernel_product product = {.a = data[A] + a->offset,
                                           .w = data[B] + b->offset,
                                           .rows = images_of(p) * p->m,
                                           .row_stride = a->stride[r],
                                           .k = p->k,
                                           .stride_k = b->stride[r + 2],
                                           .stride_n = b->stride[r + 1],
                                           .alpha = p->alpha};
    const bool is_one = images_of(p) == 1 || p->b_shared;
    *out_slack = 0;
    return is_rounded(p) && is_one && product.rows >= ENG_GEMM_MEAN_ROWS_MIN
               ? kernel_shared_error(&product, j, out_slack)
               : 0;
}

static double expected(const struct product *p, const struct eng_command *command,
                       float *const data[TENSORS], int64_t image, int64_t i, int64_t j,
                       double *out_slack)
{
    const uint32_t r = p->batch_rank;
    int64_t a = 0, b = 0, rest = image;
    for (uint32_t d = r; d-- > 0;) {
        a += rest % p->batch[d] * command->views[0].stride[d];
        b += rest % p->batch[d] * command->views[1].stride[d];
        rest /= p->batch[d];
    }
    a += command->views[0].offset + i * command->views[0].stride[r];
    b += command->views[1].offset + j * command->views[1].stride[r + 1];
    double sum = 0;
    for (int64_t k = 0; k < p->k; k++) {
        sum += operand(p, data[A][a + k * command->views[0].stride[r + 2]]) *
               operand(p, data[B][b + k * command->views[1].stride[r + 2]]);
    }
    sum *= (double)p->alpha;
    sum += shared_error(p, command, data, j, out_slack);
    sum += p->bias ? (double)data[BIAS][j] : 0;
    sum += p->residual ? (double)data[RESIDUAL][(image * p->m + i) * p->n + j] : 0;
    return kernel_activate(&command->u.matmul.epilogue, sum);
}

// Strides of both operands; returns how many floats each has.
static void lay_out(const struct product *p, struct eng_command *command, size_t *a_floats,
                    size_t *b_floats)
{
    const uint32_t r = p->batch_rank;
    const int64_t a_row = (p->a_transposed ? p->m : p->k) + p->a_gap;
    int64_t a_step = a_row * (p->a_transposed ? p->k : p->m), b_step = p->k * p->n;
    command->views[0].offset = 3;
    command->views[1].offset = 2;
    command->views[0].stride[r] = p->a_transposed ? 1 : a_row;
    command->views[0].stride[r + 2] = p->a_transposed ? a_row : 1;
    command->views[1].stride[r + 1] = p->b_transposed ? p->k : 1;
    command->views[1].stride[r + 2] = p->b_transposed ? 1 : p->n;
    for (uint32_t d = r; d-- > 0;) {
        command->box.size[d] = p->batch[d];
        command->views[0].stride[d] = a_step;
        command->views[1].stride[d] = p->b_shared ? 0 : b_step;
        a_step *= p->batch[d];
        b_step *= p->b_shared ? 1 : p->batch[d];
    }
    command->box.rank = r + 3;
    command->box.size[r] = p->m;
    command->box.size[r + 1] = p->n;
    command->box.size[r + 2] = p->k;
    *a_floats = (size_t)a_step + 3;
    *b_floats = (size_t)b_step + 2;
}

// Prepares and runs the command once.
static void execute(const struct product *p, const char *isa, uint32_t threads,
                    const struct eng_command *command, struct eng_tensor tensors[TENSORS],
                    float *data[TENSORS])
{
    struct base_arena arena;
    base_arena_init(&arena, base_alloc_heap(), 0, 0);
    struct eng_pool *pool;
    assert_int_equal(eng_pool_new(threads, &pool), BASE_OK);
    struct eng_pack_cache *packs;
    assert_int_equal(eng_pack_cache_new(&packs), BASE_OK);
    const struct eng_program program = {
        .arena = &arena, .tensors = tensors, .tensor_count = TENSORS};
    const struct eng_prepare prepare = {.arena = &arena,
                                        .packs = packs,
                                        .kernels = eng_kernels_find(isa),
                                        .pool = pool,
                                        .precision =
                                            p->low ? ENG_PRECISION_LOW : ENG_PRECISION_HIGH};
    assert_non_null(prepare.kernels);
    struct eng_step step = {.program = &program, .command = command};
    const struct eng_prepare tuned = eng_tuning_context(&prepare, p->tuning);
    enum base_status status = p->blas ? eng_blas_prepare_product(&prepare, &program, command, &step)
                                      : BASE_ERR_UNSUPPORTED;
    blas_steps += status == BASE_OK ? 1 : 0;
    if (status == BASE_ERR_UNSUPPORTED) {
        status = eng_cpu_prepare_matmul(&tuned, &program, command, &step);
        step.alone = p->tuning == ENG_TUNING_ALONE;
    }
    assert_int_equal(status, BASE_OK);
    void *scratch = aligned_alloc(64, (step.scratch_bytes + 63) / 64 * 64);
    assert_true(scratch != NULL || step.scratch_bytes == 0);
    void *pointers[TENSORS];
    memcpy(pointers, data, sizeof(pointers));
    if (p->in_place) {
        memcpy(data[C], data[RESIDUAL], (size_t)(p->m * p->n) * sizeof(float));
        pointers[RESIDUAL] = pointers[C];
    }
    const struct eng_run run = {.data = pointers, .pool = pool, .scratch = scratch};
    assert_int_equal(eng_step_run(&step, &run), BASE_OK);
    free(scratch);
    eng_pack_cache_free(packs);
    eng_pool_free(pool);
    base_arena_done(&arena);
}

static void check(const struct product *p, const char *isa, uint32_t threads)
{
    uint32_t inputs[4] = {A, B, BIAS, RESIDUAL}, outputs[1] = {C};
    struct eng_command command = {.op = ENG_OP_MATMUL,
                                  .input_count = 4,
                                  .output_count = 1,
                                  .inputs = inputs,
                                  .outputs = outputs};
    size_t floats[TENSORS];
    lay_out(p, &command, &floats[A], &floats[B]);
    const int64_t images = images_of(p);
    floats[C] = floats[RESIDUAL] = (size_t)(images * p->m * p->n);
    floats[BIAS] = (size_t)p->n;
    command.u.matmul = (struct eng_matmul){
        .batch_rank = p->batch_rank,
        .alpha = p->alpha,
        .epilogue = {.bias = p->bias ? BIAS : ENG_NONE,
                     .residual = p->residual ? RESIDUAL : ENG_NONE,
                     .has_activation = p->act,
                     .activation = p->fn,
                     .alpha = p->fn == ENG_LEAKY_RELU ? 0.1f : -0.25f,
                     .beta = 0.5f},
    };
    struct eng_tensor tensors[TENSORS] = {0};
    float *data[TENSORS];
    for (int i = 0; i < TENSORS; i++) {
        data[i] = kernel_floats(&prng, floats[i]);
        tensors[i].desc.dtype = ENG_F32;
        tensors[i].kind = ENG_TEMP;
    }
    if (!p->b_dynamic) {
        tensors[B].kind = ENG_CONST;
        tensors[B].data = tensors[B].identity = data[B];
    }
    double *want = malloc(floats[C] * sizeof(double));
    double *slack = malloc(floats[C] * sizeof(double)); // activations are no steeper than 1.5
    assert_true(want != NULL && slack != NULL);
    for (size_t i = 0; i < floats[C]; i++) {
        const int64_t at = (int64_t)i;
        want[i] =
            expected(p, &command, data, at / (p->m * p->n), at / p->n % p->m, at % p->n, &slack[i]);
    }
    execute(p, isa, threads, &command, tensors, data);
    for (size_t i = 0; i < floats[C]; i++) {
        const double bound = 2e-6 * (double)(p->k + 1) + 1.5 * slack[i];
        if (!(fabs(want[i] - (double)data[C][i]) <= bound)) {
            fail_msg("%s: %lldx%lldx%lld element %zu: %g, expected %g", isa, (long long)p->m,
                     (long long)p->n, (long long)p->k, i, (double)data[C][i], want[i]);
        }
    }
    free(want);
    free(slack);
    for (int i = 0; i < TENSORS; i++) {
        free(data[i]);
    }
}

static void each_isa(const struct product *p, uint32_t threads)
{
    for (size_t i = 0; i < KERNEL_NAMES_MAX; i++) {
        if (eng_kernels_find(kernel_names[i]) != NULL) {
            check(p, kernel_names[i], threads);
        }
    }
}

static void test_rows_and_columns(void **state)
{
    (void)state;
    for (int64_t m = 1; m <= 31; m++) {
        for (int64_t n = 1; n <= 70; n += m % 3 == 0 ? 1 : 7) {
            each_isa(&(struct product){.m = m, .n = n, .k = 1 + (m * 5 + n) % 11, .alpha = 1}, 1);
        }
    }
}

static void test_long_k(void **state)
{
    (void)state;
    static const int64_t ks[] = {191, 192, 193, 384, 385, 1000, 1024};
    for (size_t i = 0; i < sizeof(ks) / sizeof(ks[0]); i++) {
        struct product p = {
            .m = 65, .n = 37, .k = ks[i], .alpha = 1, .bias = true, .residual = true};
        each_isa(&p, 1);
        p.in_place = true;
        each_isa(&p, 1);
        p.m = 1;
        each_isa(&p, 1);
    }
}

static void test_views(void **state)
{
    (void)state;
    for (int bits = 0; bits < 32; bits++) {
        each_isa(&(struct product){.m = 19,
                                   .n = 45,
                                   .k = 23,
                                   .a_transposed = bits & 1,
                                   .b_transposed = bits & 2,
                                   .b_dynamic = bits & 4,
                                   .a_gap = bits & 8 ? 9 : 0,
                                   .alpha = bits & 16 ? 0.25f : 1},
                 1);
    }
    // Rows that collide in the cache are copied.
    each_isa(&(struct product){.m = 40, .n = 33, .k = 1024, .alpha = 1}, 1);
    each_isa(&(struct product){.m = 40, .n = 33, .k = 300, .a_gap = 724, .alpha = 1}, 1);
}

static void test_batches(void **state)
{
    (void)state;
    for (int bits = 0; bits < 16; bits++) {
        struct product p = {.batch_rank = 2,
                            .batch = {3, bits & 8 ? 1 : 2},
                            .m = 5,
                            .n = 34,
                            .k = 9,
                            .b_shared = bits & 1,
                            .b_dynamic = bits & 2,
                            .a_gap = bits & 4 ? 3 : 0,
                            .alpha = 1,
                            .bias = true};
        each_isa(&p, 1);
        p.batch_rank = 1;
        p.a_transposed = true;
        each_isa(&p, 1);
    }
}

static void test_epilogues(void **state)
{
    (void)state;
    static const enum eng_unary_fn fns[] = {ENG_RELU,    ENG_CLIP,       ENG_LEAKY_RELU,
                                            ENG_SIGMOID, ENG_HARD_SWISH, ENG_TANH,
                                            ENG_GELU,    ENG_GELU_TANH};
    for (size_t i = 0; i < sizeof(fns) / sizeof(fns[0]); i++) {
        for (int bits = 0; bits < 8; bits++) {
            each_isa(&(struct product){.m = 15,
                                       .n = 39,
                                       .k = 30,
                                       .alpha = bits & 4 ? 4 : 1,
                                       .bias = bits & 1,
                                       .residual = bits & 2,
                                       .act = true,
                                       .fn = fns[i]},
                     1);
        }
    }
}

// A product of random shape; every second one in a batch.
static struct product random_product(void)
{
    const struct product p = {
        .batch_rank = base_prng_below(&prng, 2) ? 2 : 0,
        .batch = {1 + (int64_t)base_prng_below(&prng, 3), 1 + (int64_t)base_prng_below(&prng, 2)},
        .m = 1 + (int64_t)base_prng_below(&prng, 70),
        .n = 1 + (int64_t)base_prng_below(&prng, 100),
        .k = 1 + (int64_t)base_prng_below(&prng, 150),
        .a_transposed = base_prng_below(&prng, 8) == 0,
        .b_transposed = base_prng_below(&prng, 2),
        .b_shared = base_prng_below(&prng, 2),
        .b_dynamic = base_prng_below(&prng, 8) == 0,
        .a_gap = (int64_t)base_prng_below(&prng, 5),
        .alpha = 1,
        .bias = base_prng_below(&prng, 2),
        .residual = base_prng_below(&prng, 2),
        .act = base_prng_below(&prng, 2),
        .low = true};
    return p;
}

static void check_low(const char *isa)
{
    static const enum eng_unary_fn fns[] = {ENG_RELU, ENG_CLIP, ENG_LEAKY_RELU, ENG_SIGMOID,
                                            ENG_HARD_SWISH};
    for (int64_t m = 1; m <= 70; m += 3) {
        const struct product p = {.m = m,
                                  .n = 1 + m * 5 % 71,
                                  .k = 16 + m * 7,
                                  .b_transposed = m % 2,
                                  .a_gap = m % 5,
                                  .alpha = 1,
                                  .bias = m % 2,
                                  .residual = m % 3 == 0,
                                  .act = m % 4 == 1,
                                  .fn = ENG_RELU,
                                  .low = true};
        check(&p, isa, 1 + (uint32_t)m % 2);
    }
    for (uint32_t i = 0; i < 60; i++) {
        struct product p = random_product();
        p.fn = fns[i % 5];
        check(&p, isa, 1 + i % 2);
    }
}

static void test_low_pairs(void **state)
{
    (void)state;
    if (!eng_cpu_detect()->avx512_bf16) {
        printf("this processor has no bfloat16 products\n");
        skip();
    }
    check_low("avx512");
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
    assert_true(source == AMX_NATIVE || amx_emulator_count(AMX_TDPBF16PS) > before);
}

static void test_threads(void **state)
{
    (void)state;
    for (uint32_t threads = 2; threads <= 3; threads++) {
        each_isa(&(struct product){.m = 100, .n = 150, .k = 70, .alpha = 1, .bias = true}, threads);
        each_isa(&(struct product){.m = 3, .n = 700, .k = 170, .alpha = 1}, threads);
        each_isa(&(struct product){.m = 500, .n = 20, .k = 70, .alpha = 1, .b_dynamic = true},
                 threads);
        each_isa(&(struct product){.batch_rank = 1,
                                   .batch = {6},
                                   .m = 40,
                                   .n = 100,
                                   .k = 64,
                                   .alpha = 1,
                                   .b_transposed = true,
                                   .b_dynamic = true},
                 threads);
    }
}

// Rows so long that few of them fit into the cache: blocks of K are the outer loop.
static void test_long_rows(void **state)
{
    (void)state;
    for (uint32_t threads = 1; threads <= 2; threads++) {
        struct product p = {.m = 220,
                            .n = 38,
                            .k = 2090,
                            .alpha = 1,
                            .bias = true,
                            .residual = true,
                            .act = true,
                            .fn = ENG_GELU_TANH};
        each_isa(&p, threads);
        p.in_place = true;
        each_isa(&p, threads);
    }
}

// However the loops are cut, the product is the same.
static void test_tunings(void **state)
{
    (void)state;
    for (int tuning = 0; tuning < ENG_TUNING_COUNT; tuning++) {
        for (uint32_t threads = 1; threads <= 3; threads++) {
            struct product p = {.m = 40,
                                .n = 100,
                                .k = 1100,
                                .alpha = 1,
                                .bias = true,
                                .residual = true,
                                .tuning = (enum eng_tuning)tuning};
            each_isa(&p, threads);
            p.in_place = true;
            each_isa(&p, threads);
            p = (struct product){.m = 3, .n = 400, .k = 1024, .alpha = 1, .tuning = p.tuning};
            each_isa(&p, threads);
            p = (struct product){.batch_rank = 1,
                                 .batch = {3},
                                 .m = 40,
                                 .n = 70,
                                 .k = 64,
                                 .alpha = 1,
                                 .b_transposed = true,
                                 .b_dynamic = true,
                                 .tuning = p.tuning};
            each_isa(&p, threads);
        }
    }
}

static void test_blas(void **state)
{
    (void)state;
    const char *best = eng_kernels_find(NULL)->name;
    if (eng_blas_get() == NULL) {
        printf("this machine has no OpenBLAS: the own products stand in\n");
    }
    blas_steps = 0;
    for (int bits = 0; bits < 128; bits++) {
        struct product p = {.m = bits & 64 ? 70 : 9,
                            .n = 45,
                            .k = 23,
                            .a_transposed = bits & 1,
                            .b_transposed = bits & 2,
                            .b_dynamic = bits & 4,
                            .a_gap = bits & 8 ? 9 : 0,
                            .alpha = bits & 16 ? 0.25f : 1,
                            .bias = bits & 32,
                            .blas = true};
        check(&p, best, 1 + (uint32_t)bits % 3);
        p.batch_rank = 2;
        p.batch[0] = 3;
        p.batch[1] = 2;
        p.b_shared = bits & 32;
        check(&p, best, 1 + (uint32_t)bits % 3);
    }
    static const enum eng_unary_fn fns[] = {ENG_RELU,    ENG_CLIP,       ENG_LEAKY_RELU,
                                            ENG_SIGMOID, ENG_HARD_SWISH, ENG_TANH,
                                            ENG_GELU,    ENG_GELU_TANH};
    for (size_t i = 0; i < sizeof(fns) / sizeof(fns[0]); i++) {
        for (int bits = 0; bits < 8; bits++) {
            const struct product p = {.m = bits & 4 ? 200 : 5,
                                      .n = 139,
                                      .k = 30,
                                      .alpha = 1,
                                      .bias = bits & 1,
                                      .residual = bits & 2,
                                      .in_place = (bits & 2) && i % 2,
                                      .act = true,
                                      .fn = fns[i],
                                      .blas = true};
            check(&p, best, 1 + (uint32_t)i % 3);
        }
    }
    check(&(struct product){.m = 1, .n = 33, .k = 17, .alpha = 1, .blas = true}, best, 2);
    check(&(struct product){.m = 33, .n = 1, .k = 17, .alpha = 1, .blas = true}, best, 2);
    print_message("%u products by OpenBLAS\n", blas_steps);
    if (eng_blas_get() == NULL) {
        assert_int_equal(blas_steps, 0);
    } else {
        assert_true(blas_steps > 300);
    }
}

static enum base_status favour(void *ctx, const struct eng_candidate *candidate,
                               uint64_t deadline_us, double *out_us)
{
    (void)deadline_us;
    *out_us = strcmp(candidate->name, ctx) == 0 ? 1 : 1000;
    return BASE_OK;
}

// Makes `search` remember `name` for a problem.
static void force(struct eng_search *search, const char *problem, const char *name, uint32_t a)
{
    const struct eng_candidate list[] = {
        {.name = "fixed", .a = 99, .cost_us = 10, .fixed = true},
        {.name = name, .a = a, .cost_us = 10},
    };
    const struct eng_search_query query = {.problem = problem,
                                           .candidates = list,
                                           .count = 2,
                                           .measure = favour,
                                           .ctx = (void *)(uintptr_t)name};
    size_t index = 0;
    assert_int_equal(eng_search_choose(search, &query, &index), BASE_OK);
    assert_int_equal(index, 1);
}

static double wake_nothing(void *ctx)
{
    (void)ctx;
    return 1;
}

static double half_a_billion(void *ctx, uint64_t rounds)
{
    (void)ctx;
    return (double)rounds * 1e5;
}

// What the search remembers is what is prepared.
static void test_choices_are_honoured(void **state)
{
    (void)state;
    const char *best = eng_kernels_find(NULL)->name;
    const struct eng_rate_source sources[] = {{.name = best, .flops = half_a_billion},
                                              {.name = "blas", .flops = eng_blas_flops}};
    const struct eng_search_options options = {.clock = base_clock_real(),
                                               .isa = best,
                                               .threads = 2,
                                               .sources = sources,
                                               .source_count = 2,
                                               .wake = wake_nothing};
    struct eng_search *search = NULL;
    assert_int_equal(eng_search_new(&options, &search), BASE_OK);
    char text[ENG_SEARCH_PROBLEM_BYTES];
    snprintf(text, sizeof text, "product 64x128x256 b1 nn const e00-1 %s", best);
    force(search, text, "blas", 1);
    snprintf(text, sizeof text, "product 64x130x256 b1 nn const e00-1 %s", best);
    force(search, text, "own", 0);
    snprintf(text, sizeof text, "cut product 64x130x256 b1 nn const e00-1 %s", best);
    force(search, text, "alone", ENG_TUNING_ALONE);

    struct base_arena arena;
    base_arena_init(&arena, base_alloc_heap(), 0, 0);
    struct eng_pool *pool;
    assert_int_equal(eng_pool_new(2, &pool), BASE_OK);
    for (int64_t k = 128; k <= 130; k += 2) {
        const struct product p = {.m = 64, .n = 256, .k = k, .alpha = 1};
        uint32_t inputs[2] = {A, B}, outputs[1] = {C};
        struct eng_command command = {.op = ENG_OP_MATMUL,
                                      .input_count = 2,
                                      .output_count = 1,
                                      .inputs = inputs,
                                      .outputs = outputs};
        size_t floats[2];
        lay_out(&p, &command, &floats[0], &floats[1]);
        command.u.matmul =
            (struct eng_matmul){.alpha = 1, .epilogue = {.bias = ENG_NONE, .residual = ENG_NONE}};
        struct eng_tensor tensors[TENSORS] = {0};
        for (int i = 0; i < TENSORS; i++) {
            tensors[i].desc = (struct eng_desc){.dtype = ENG_F32, .rank = 1, .dims = {200000}};
            tensors[i].kind = ENG_TEMP;
        }
        float *weights = kernel_floats(&prng, 200000);
        tensors[B].kind = ENG_CONST;
        tensors[B].data = weights;
        const struct eng_program program = {
            .arena = &arena, .tensors = tensors, .tensor_count = TENSORS};
        const struct eng_prepare prepare = {
            .arena = &arena, .kernels = eng_kernels_find(NULL), .pool = pool, .search = search};
        struct eng_step step = {0};
        assert_int_equal(eng_cpu_prepare_matmul(&prepare, &program, &command, &step), BASE_OK);
        const bool by_blas = k == 128 && eng_blas_get() != NULL;
        assert_string_equal(step.kernel, by_blas ? "matmul.blas" : "matmul.packed");
        assert_int_equal(step.alone, k == 130);
        free(weights);
    }
    eng_pool_free(pool);
    base_arena_done(&arena);
    eng_search_free(search);
}

// The shorter GELU of bfloat16 products: within 2e-4 of the size of its argument, NaN and the far
// ends included, for every length of a row's tail.
static void test_short_gelu(void **state)
{
    (void)state;
#if defined(__x86_64__)
    if (!eng_cpu_detect()->avx512_bf16) {
        skip();
    }
    enum { COLUMNS = 41, PITCH = 48, ROWS = 64 };
    static float c[ROWS * PITCH], x[ROWS * PITCH];
    for (size_t i = 0; i < TEST_COUNT(c); i++) {
        const double size = pow(10, 14 * base_prng_unit(&prng) - 7);
        x[i] = (float)((2 * base_prng_unit(&prng) - 1) * (i % 2 ? 6 : size));
    }
    x[0] = NAN;
    x[1] = INFINITY;
    x[2] = 1e20f;
    x[3] = -1e20f;
    for (size_t n = 1; n <= COLUMNS; n++) {
        memcpy(c, x, sizeof(c));
        eng_gemm_act_rows_bf16(c, ROWS, PITCH, n, ENG_GEMM_ACT_GELU_TANH);
        for (size_t i = 0; i < TEST_COUNT(c); i++) {
            const double a = (double)x[i], u = 0.7978845608 * (a + 0.044715 * a * a * a);
            const double want = i % PITCH < n ? 0.5 * a * (1 + tanh(u)) : a;
            const bool same =
                isfinite(a) ? fabs(want - (double)c[i]) <= 2e-4 * fabs(a) : isnan(a) == isnan(c[i]);
            if (!same) {
                fail_msg("gelu(%g): %g, expected %g", a, (double)c[i], want);
            }
        }
    }
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_and_columns),
        cmocka_unit_test(test_long_k),
        cmocka_unit_test(test_views),
        cmocka_unit_test(test_batches),
        cmocka_unit_test(test_epilogues),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_low_pairs),
        cmocka_unit_test(test_low_tiles),
        cmocka_unit_test(test_long_rows),
        cmocka_unit_test(test_tunings),
        cmocka_unit_test(test_blas),
        cmocka_unit_test(test_choices_are_honoured),
        cmocka_unit_test(test_short_gelu),
    };
    printf("seed %u\n", SEED);
    base_prng_seed(&prng, SEED);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
