// Single layers of the evaluation's models: time and GFLOP/s of each algorithm beside the core's
// measured peak. For tuning kernels; whole models are measured elsewhere.
//
//     engine_layers [ISA] [THREADS] [NAME [cold|low]]
//
// only layers whose name contains NAME; cold: other memory is read before each run, so that weights
// come from memory as they do inside a large model.
#include "backend/cpu/conv_plan.h"
#include "backend/cpu/gemm/gemm_run.h"
#include "backend/pack.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/prng.h"
#include "base/str.h"
#include "model/graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS       120
#define ROUND_US     800 // short, so that one of them is not interrupted
#define SCRATCH_STEP 64
#define FLUSH_FLOATS ((size_t)16 << 20)

enum { X, W, Y, BIAS, TENSORS };

// A convolution on size x size pixels; or, with size 0, a product of `in` rows.
struct layer {
    const char *name;
    int64_t c, m, size, kernel, stride, groups, rows;
};

static const struct layer layers[] = {
    {"resnet stem 7x7", 3, 64, 224, 7, 2, 1, 0},
    {"resnet 3x3 56", 64, 64, 56, 3, 1, 1, 0},
    {"resnet 3x3 28", 128, 128, 28, 3, 1, 1, 0},
    {"resnet 3x3 14", 256, 256, 14, 3, 1, 1, 0},
    {"resnet 3x3 7", 512, 512, 7, 3, 1, 1, 0},
    {"resnet18 3x3/2 28", 64, 128, 56, 3, 2, 1, 0},
    {"resnet18 3x3/2 7", 256, 512, 14, 3, 2, 1, 0},
    {"resnet50 1x1 56a", 64, 64, 56, 1, 1, 1, 0},
    {"resnet50 1x1 56b", 64, 256, 56, 1, 1, 1, 0},
    {"resnet50 1x1 56c", 256, 64, 56, 1, 1, 1, 0},
    {"resnet50 1x1 28b", 128, 512, 28, 1, 1, 1, 0},
    {"resnet50 1x1 28c", 512, 128, 28, 1, 1, 1, 0},
    {"resnet50 1x1 14b", 256, 1024, 14, 1, 1, 1, 0},
    {"resnet50 1x1 14c", 1024, 256, 14, 1, 1, 1, 0},
    {"resnet50 1x1 7b", 512, 2048, 7, 1, 1, 1, 0},
    {"resnet50 1x1 7c", 2048, 512, 7, 1, 1, 1, 0},
    {"resnet50 1x1/2 28", 256, 512, 56, 1, 2, 1, 0},
    {"resnet50 1x1/2 7", 1024, 2048, 14, 1, 2, 1, 0},
    {"resnet50 3x3/2 28", 128, 128, 56, 3, 2, 1, 0},
    {"mobilenet stem", 3, 32, 224, 3, 2, 1, 0},
    {"mobilenet 1x1 112", 32, 16, 112, 1, 1, 1, 0},
    {"mobilenet expand 112", 16, 96, 112, 1, 1, 1, 0},
    {"mobilenet project 56", 96, 24, 56, 1, 1, 1, 0},
    {"mobilenet expand 56", 24, 144, 56, 1, 1, 1, 0},
    {"mobilenet project 28", 144, 32, 28, 1, 1, 1, 0},
    {"mobilenet expand 28", 32, 192, 28, 1, 1, 1, 0},
    {"mobilenet expand 14", 64, 384, 14, 1, 1, 1, 0},
    {"mobilenet project 14", 384, 96, 14, 1, 1, 1, 0},
    {"mobilenet project 7", 960, 160, 7, 1, 1, 1, 0},
    {"mobilenet last 7", 320, 1280, 7, 1, 1, 1, 0},
    {"mobilenet dw 112", 32, 32, 112, 3, 1, 32, 0},
    {"mobilenet dw/2 56", 96, 96, 112, 3, 2, 96, 0},
    {"mobilenet dw 56", 144, 144, 56, 3, 1, 144, 0},
    {"mobilenet dw 28", 192, 192, 28, 3, 1, 192, 0},
    {"mobilenet dw 14", 576, 576, 14, 3, 1, 576, 0},
    {"mobilenet dw 7", 960, 960, 7, 3, 1, 960, 0},
    {"shufflenet 1x1 28", 58, 58, 28, 1, 1, 1, 0},
    {"shufflenet 1x1 14", 116, 116, 14, 1, 1, 1, 0},
    {"shufflenet 1x1 7", 232, 232, 7, 1, 1, 1, 0},
    {"squeezenet 1x1 55", 64, 16, 55, 1, 1, 1, 0},
    {"squeezenet 3x3 55", 16, 64, 55, 3, 1, 1, 0},
    {"squeezenet 3x3 27", 32, 128, 27, 3, 1, 1, 0},
    {"squeezenet 3x3 13", 64, 256, 13, 3, 1, 1, 0},
    {"squeezenet 1x1 13", 512, 1000, 13, 1, 1, 1, 0},
    {"bert 768-768", 768, 768, 0, 1, 1, 1, 256},
    {"bert 768-3072", 768, 3072, 0, 1, 1, 1, 256},
    {"bert 3072-768", 3072, 768, 0, 1, 1, 1, 256},
    {"din 128-80", 128, 80, 0, 1, 1, 1, 100},
    {"din 80-40", 80, 40, 0, 1, 1, 1, 100},
    {"din 40-1", 40, 1, 0, 1, 1, 1, 100},
    {"din 160-200", 160, 200, 0, 1, 1, 1, 1},
    {"resnet50 fc", 2048, 1000, 0, 1, 1, 1, 1},
};

static float *random_floats(size_t count)
{
    static struct base_prng prng;
    if (prng.state[0] == 0) {
        base_prng_seed(&prng, 1);
    }
    float *data =
        aligned_alloc(SCRATCH_STEP, (count * sizeof(float) / SCRATCH_STEP + 2) * SCRATCH_STEP);
    for (size_t i = 0; data != NULL && i < count; i++) {
        data[i] = (float)(base_prng_unit(&prng) - 0.5);
    }
    return data;
}

// GFLOP/s of the largest tile with everything in the first-level cache.
static double peak(const struct eng_gemm_kernels *kernels)
{
    static const int64_t no_offset[1] = {0};
    float *data = random_floats(65536);
    if (data == NULL) {
        return 0;
    }
    const uint32_t mr = kernels->mr_max[2];
    struct eng_gemm_tile tile = {.a = data,
                                 .lda = 200,
                                 .segments = no_offset,
                                 .segment_count = 1,
                                 .k = 200,
                                 .b = data + 16384,
                                 .c = data + 40000,
                                 .ldc = kernels->nr,
                                 .n = kernels->nr};
    double best = 0;
    for (int round = 0; round < ROUNDS; round++) {
        const uint64_t start = base_clock_mono_us();
        const int loops = 1000;
        for (int i = 0; i < loops; i++) {
            kernels->tile[2][mr - 1](&tile);
        }
        const double us = (double)(base_clock_mono_us() - start);
        const double rate = 2.0 * loops * mr * kernels->nr * 200 / us * 1e-3;
        best = rate > best ? rate : best;
    }
    free(data);
    return best;
}

static volatile float sink;

// Reads more than the last-level cache holds, then the input, which an earlier layer just wrote.
static void flush(const float *x, size_t x_floats)
{
    static float *other;
    if (other == NULL) {
        other = random_floats(FLUSH_FLOATS);
    }
    float sum = 0;
    for (size_t i = 0; other != NULL && i < FLUSH_FLOATS; i += 16) {
        sum += other[i];
    }
    for (size_t i = 0; i < x_floats; i += 16) {
        sum += x[i];
    }
    sink = sum;
}

static double best_us(const struct eng_step *step, const struct eng_run *run, size_t x_floats,
                      bool cold)
{
    double best = 1e30;
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t start = 0, now;
        int loops = 0;
        do {
            if (loops == 0) {
                if (cold) {
                    flush(run->data[X], x_floats);
                }
                start = base_clock_mono_us();
            }
            if (step->run(step, run) != BASE_OK) {
                return 0;
            }
            loops++;
            now = base_clock_mono_us();
        } while (!cold && now - start < ROUND_US);
        const double us = (double)(now - start) / loops;
        best = us < best ? us : best;
    }
    return best;
}

// Dims of one layer's tensors and its command; returns its flops.
static double describe(const struct layer *l, struct eng_tensor tensors[TENSORS],
                       struct eng_command *command)
{
    tensors[BIAS].desc = (struct eng_desc){ENG_F32, 1, {l->m}};
    if (l->size == 0) {
        tensors[X].desc = (struct eng_desc){ENG_F32, 2, {l->rows, l->c}};
        tensors[W].desc = (struct eng_desc){ENG_F32, 2, {l->c, l->m}};
        tensors[Y].desc = (struct eng_desc){ENG_F32, 2, {l->rows, l->m}};
        command->op = ENG_OP_MATMUL;
        command->box = (struct eng_box){3, {l->rows, l->m, l->c}};
        command->views[0] = (struct eng_view){0, {l->c, 0, 1}};
        command->views[1] = (struct eng_view){0, {0, 1, l->m}};
        command->u.matmul = (struct eng_matmul){0, 1.0f, {.bias = BIAS, .residual = ENG_NONE}};
        return 2.0 * (double)(l->rows * l->c * l->m);
    }
    const int64_t out = (l->size - 1) / l->stride + 1, pad = l->kernel / 2;
    tensors[X].desc = (struct eng_desc){ENG_F32, 4, {1, l->c, l->size, l->size}};
    tensors[W].desc = (struct eng_desc){ENG_F32, 4, {l->m, l->c / l->groups, l->kernel, l->kernel}};
    tensors[Y].desc = (struct eng_desc){ENG_F32, 4, {1, l->m, out, out}};
    tensors[X].layout = tensors[Y].layout = ENG_CHANNELS_LAST;
    command->op = ENG_OP_CONV;
    command->u.conv = (struct eng_conv){
        .spatial = 2,
        .groups = l->groups,
        .kernel = {l->kernel, l->kernel},
        .stride = {l->stride, l->stride},
        .dilation = {1, 1},
        .pad_begin = {pad, pad},
        .pad_end = {pad, pad},
        .epilogue = {.bias = BIAS,
                     .residual = ENG_NONE,
                     .has_activation = true,
                     .activation = ENG_RELU},
    };
    return 2.0 * (double)(out * out * l->m * l->c / l->groups * l->kernel * l->kernel);
}

// What the plan expected, and whether it would choose this one.
static void print_estimate(const struct eng_conv_job *job, enum eng_conv_algorithm algorithm)
{
    const struct eng_gemm_kernels *kernels = job->ctx->kernels->gemm;
    const struct eng_conv_machine machine = {
        .kernels = kernels,
        .low = eng_gemm_low_kernels(job->ctx),
        .rates = eng_cpu_rates_of(kernels),
        .threads = eng_pool_threads(job->ctx->pool),
    };
    struct eng_conv_candidate candidates[ENG_CONV_CANDIDATES_MAX];
    const size_t count = eng_conv_candidates(&job->shape, &machine, true, candidates);
    for (size_t i = 0; i < count; i++) {
        if (candidates[i].algorithm == algorithm) {
            printf("  expected %7.1f us%s", candidates[i].time_us, i == 0 ? " *" : "");
        }
    }
}

static void measure(const struct layer *l, const struct eng_prepare *prepare,
                    enum eng_conv_algorithm algorithm, double peak_rate, bool cold)
{
    uint32_t inputs[3] = {X, W, BIAS}, outputs[1] = {Y};
    struct eng_tensor tensors[TENSORS] = {0};
    struct eng_command command = {
        .input_count = 3, .output_count = 1, .inputs = inputs, .outputs = outputs};
    const double flops = describe(l, tensors, &command);
    void *data[TENSORS];
    for (int i = 0; i < TENSORS; i++) {
        data[i] = random_floats((size_t)eng_desc_count(&tensors[i].desc));
        if (data[i] == NULL) {
            return;
        }
    }
    tensors[W].kind = ENG_CONST;
    tensors[W].data = data[W];
    const struct eng_program program = {
        .arena = prepare->arena, .tensors = tensors, .tensor_count = TENSORS};
    struct eng_step step = {.program = &program, .command = &command};
    struct eng_conv_job job = {.ctx = prepare, .program = &program, .command = &command};
    enum base_status status;
    if (l->size == 0) {
        status = eng_cpu_prepare_matmul(prepare, &program, &command, &step);
    } else {
        status = eng_conv_shape_of(&program, &command, &job.shape);
        if (status == BASE_OK) {
            status = eng_conv_prepare_with(&job, algorithm, &step);
        }
    }
    if (status == BASE_OK) {
        void *scratch =
            aligned_alloc(SCRATCH_STEP, (step.scratch_bytes / SCRATCH_STEP + 1) * SCRATCH_STEP);
        const struct eng_run run = {.data = data, .pool = prepare->pool, .scratch = scratch};
        const double us = best_us(&step, &run, (size_t)eng_desc_count(&tensors[X].desc), cold);
        printf("%-22s %-18s %9.1f us %7.1f GFLOP/s %4.0f%%", l->name, step.kernel, us,
               flops / us * 1e-3, flops / us * 1e-1 / peak_rate);
        if (l->size != 0) {
            print_estimate(&job, algorithm);
        }
        printf("\n");
        free(scratch);
    }
    for (int i = 0; i < TENSORS; i++) {
        free(data[i]);
    }
}

int main(int argc, char **argv)
{
    const char *isa = argc > 1 && argv[1][0] != '-' ? argv[1] : NULL;
    const uint32_t threads = argc > 2 && argv[2][0] == '2' ? 2 : 1;
    const bool low = argc > 4 && argv[4][0] == 'l';
    const char *only = argc > 3 ? argv[3] : "";
    const struct eng_kernels *kernels = eng_kernels_find(isa);
    struct eng_pool *pool;
    if (kernels == NULL || eng_pool_new(threads, &pool) != BASE_OK) {
        fprintf(stderr, "usage: engine_layers [generic|avx2|avx512|-] [1|2] [NAME]\n");
        return 2;
    }
    const double peak_rate = peak(kernels->gemm);
    printf("%s, %u thread(s), peak of one core %.1f GFLOP/s\n", kernels->name, threads, peak_rate);
    for (size_t i = 0; i < sizeof(layers) / sizeof(layers[0]); i++) {
        const struct layer *l = &layers[i];
        for (int a = 0; a < ENG_CONV_ALGORITHM_COUNT; a++) {
            const enum eng_conv_algorithm algorithm = (enum eng_conv_algorithm)a;
            const bool fits =
                l->size == 0 ? a == 0 : l->groups == 1 || algorithm != ENG_CONV_DIRECT;
            if (!fits || strstr(l->name, only) == NULL) {
                continue;
            }
            struct base_arena arena;
            base_arena_init(&arena, base_alloc_heap(), 0, 0);
            const struct eng_prepare prepare = {.arena = &arena,
                                                .kernels = kernels,
                                                .pool = pool,
                                                .precision =
                                                    low ? ENG_PRECISION_LOW : ENG_PRECISION_HIGH};
            measure(l, &prepare, algorithm, peak_rate, argc > 4 && argv[4][0] == 'c');
            base_arena_done(&arena);
        }
    }
    eng_pool_free(pool);
    return 0;
}
