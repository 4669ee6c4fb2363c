// Speed of the fast backend's elementwise, reduction, attention and move steps, one line a case:
// best time of many runs, nanoseconds per output element, and bytes in and out per second.
//
//     engine_vec [threads] [isa] [part of a case's name]
#include "backend/backend.h"
#include "backend/cpu/kernel/isa.h"
#include "backend/pool.h"
#include "base/alloc.h"
#include "base/prng.h"
#include "base/str.h"
#include "model/graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TENSORS   8
#define BUDGET_NS 60000000u // of one case
#define BATCH_NS  200000u   // of one timing

struct bench {
    struct base_arena arena;
    struct eng_program program;
    void *data[TENSORS];
    struct eng_pool *pool;
    const struct eng_kernels *kernels;
    const char *filter;
    double bytes; // read and written by the case at hand
    double flops;
};

static uint64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void begin_case(struct bench *b)
{
    base_arena_init(&b->arena, base_alloc_heap(), 0, 0);
    eng_program_init(&b->program, &b->arena);
    b->bytes = 0;
    b->flops = 0;
}

static uint32_t tensor(struct bench *b, enum eng_layout layout, uint32_t rank, const int64_t *dims)
{
    static struct base_prng prng;
    struct eng_desc desc = {.dtype = ENG_F32, .rank = rank};
    memcpy(desc.dims, dims, rank * sizeof(int64_t));
    uint32_t number = 0;
    if (eng_program_tensor(&b->program, ENG_INPUT, layout, &desc, &number) != BASE_OK ||
        number >= TENSORS) {
        exit(1);
    }
    size_t bytes = eng_desc_bytes(&desc);
    if (posix_memalign(&b->data[number], 64, bytes + 64) != 0) {
        exit(1);
    }
    base_prng_seed(&prng, number + 1);
    float *data = b->data[number];
    for (size_t i = 0; i < bytes / sizeof(float); i++) {
        data[i] = (float)(4 * base_prng_unit(&prng) - 2);
    }
    b->bytes += (double)bytes;
    return number;
}

static struct eng_command *command(struct bench *b, enum eng_atomic op, uint32_t count,
                                   const uint32_t *inputs, uint32_t output)
{
    struct eng_command *made = NULL;
    if (eng_program_command(&b->program, op, count, 1, &made) != BASE_OK) {
        exit(1);
    }
    memcpy(made->inputs, inputs, count * sizeof(uint32_t));
    made->outputs[0] = output;
    return made;
}

static void measure(struct bench *b, const char *name, const struct eng_command *made)
{
    struct eng_prepare prepare = {.arena = &b->arena, .kernels = b->kernels, .pool = b->pool};
    struct eng_step step = {0};
    if (eng_cpu_prepare(&prepare, &b->program, made, &step) != BASE_OK) {
        printf("%-34s refused\n", name);
        return;
    }
    void *scratch = NULL;
    if (posix_memalign(&scratch, 64, step.scratch_bytes + 64) != 0) {
        exit(1);
    }
    struct eng_run run = {.data = b->data, .pool = b->pool, .scratch = scratch};
    double best = 1e30;
    uint64_t start = now_ns();
    uint64_t repeats = 1;
    while (now_ns() - start < BUDGET_NS) {
        uint64_t before = now_ns();
        for (uint64_t i = 0; i < repeats; i++) {
            (void)step.run(&step, &run);
        }
        uint64_t spent = now_ns() - before;
        double each = (double)spent / (double)repeats;
        best = each < best ? each : best;
        repeats = each < BATCH_NS ? (uint64_t)(BATCH_NS / (each + 1)) + 1 : 1;
    }
    free(scratch);
    int64_t elements = eng_desc_count(&b->program.tensors[made->outputs[0]].desc);
    printf("%-34s %10.2f us %8.3f ns/element %7.1f GB/s", name, best / 1000,
           best / (double)elements, b->bytes / best);
    if (b->flops > 0) {
        printf(" %7.1f GFLOP/s", b->flops / best);
    }
    printf("\n");
}

static void end_case(struct bench *b)
{
    for (int i = 0; i < TENSORS; i++) {
        free(b->data[i]);
        b->data[i] = NULL;
    }
    base_arena_done(&b->arena);
}

static bool is_wanted(const struct bench *b, const char *name)
{
    return b->filter == NULL || strstr(name, b->filter) != NULL;
}

static void unary(struct bench *b, const char *name, enum eng_unary_fn fn, int64_t count)
{
    if (is_wanted(b, name)) {
        begin_case(b);
        uint32_t x = tensor(b, ENG_PLAIN, 1, &count);
        struct eng_command *made = command(b, ENG_OP_UNARY, 1, &x, tensor(b, ENG_PLAIN, 1, &count));
        made->u.unary.fn = fn;
        measure(b, name, made);
        end_case(b);
    }
}

// [rows, columns] with the second operand broadcast over rows (1), columns (2), neither (0).
static void binary(struct bench *b, const char *name, int64_t rows, int64_t columns, int mode)
{
    if (is_wanted(b, name)) {
        begin_case(b);
        const int64_t dims[2] = {rows, columns};
        const int64_t other[2] = {mode == 1 ? 1 : rows, mode == 2 ? 1 : columns};
        const uint32_t in[2] = {tensor(b, ENG_PLAIN, 2, dims), tensor(b, ENG_PLAIN, 2, other)};
        struct eng_command *made = command(b, ENG_OP_BINARY, 2, in, tensor(b, ENG_PLAIN, 2, dims));
        made->box = (struct eng_box){.rank = 2, .size = {rows, columns}};
        made->views[0] = (struct eng_view){.stride = {columns, 1}};
        made->views[1] = (struct eng_view){.stride = {mode == 1 ? 0 : other[1], mode == 2 ? 0 : 1}};
        made->u.binary.fn = ENG_ADD;
        measure(b, name, made);
        end_case(b);
    }
}

// relu(x * scale[c] + bias[c]) over channels last.
static void expr(struct bench *b, const char *name, int64_t rows, int64_t columns)
{
    static const struct eng_expr program = {
        .load_count = 3,
        .op_count = 3,
        .ops = {{.kind = ENG_EXPR_BINARY, .fn = ENG_MUL, .a = 0, .b = 1},
                {.kind = ENG_EXPR_BINARY, .fn = ENG_ADD, .a = 3, .b = 2},
                {.kind = ENG_EXPR_UNARY, .fn = ENG_RELU, .a = 4}}};
    if (is_wanted(b, name)) {
        begin_case(b);
        struct eng_expr copy = program;
        const int64_t dims[2] = {rows, columns};
        const uint32_t in[3] = {tensor(b, ENG_PLAIN, 2, dims), tensor(b, ENG_PLAIN, 1, &columns),
                                tensor(b, ENG_PLAIN, 1, &columns)};
        struct eng_command *made = command(b, ENG_OP_EXPR, 3, in, tensor(b, ENG_PLAIN, 2, dims));
        made->box = (struct eng_box){.rank = 2, .size = {rows, columns}};
        made->views[0] = (struct eng_view){.stride = {columns, 1}};
        made->views[1] = (struct eng_view){.stride = {0, 1}};
        made->views[2] = (struct eng_view){.stride = {0, 1}};
        made->u.expr = &copy;
        measure(b, name, made);
        end_case(b);
    }
}

static void softmax(struct bench *b, const char *name, int64_t outer, int64_t n, int64_t inner)
{
    if (is_wanted(b, name)) {
        begin_case(b);
        const int64_t dims[3] = {outer, n, inner};
        uint32_t x = tensor(b, ENG_PLAIN, 3, dims);
        struct eng_command *made = command(b, ENG_OP_SOFTMAX, 1, &x, tensor(b, ENG_PLAIN, 3, dims));
        made->u.softmax = (struct eng_softmax){.outer = outer, .n = n, .inner = inner};
        measure(b, name, made);
        end_case(b);
    }
}

static void layer_norm(struct bench *b, const char *name, int64_t rows, int64_t n)
{
    if (is_wanted(b, name)) {
        begin_case(b);
        const int64_t dims[2] = {rows, n};
        const uint32_t in[3] = {tensor(b, ENG_PLAIN, 2, dims), tensor(b, ENG_PLAIN, 1, &n),
                                tensor(b, ENG_PLAIN, 1, &n)};
        struct eng_command *made = command(b, ENG_OP_NORM, 3, in, tensor(b, ENG_PLAIN, 2, dims));
        made->u.norm = (struct eng_norm){
            .groups = rows, .n = n, .scale_inner = 1, .scale_count = n, .epsilon = 1e-5f};
        measure(b, name, made);
        end_case(b);
    }
}

static void reduce(struct bench *b, const char *name, int64_t outer, int64_t n, int64_t inner)
{
    if (is_wanted(b, name)) {
        begin_case(b);
        const int64_t dims[3] = {outer, n, inner};
        const int64_t out[2] = {outer, inner};
        uint32_t x = tensor(b, ENG_PLAIN, 3, dims);
        struct eng_command *made = command(b, ENG_OP_REDUCE, 1, &x, tensor(b, ENG_PLAIN, 2, out));
        made->u.reduce =
            (struct eng_reduce){.fn = ENG_REDUCE_MEAN, .outer = outer, .n = n, .inner = inner};
        measure(b, name, made);
        end_case(b);
    }
}

static void pool(struct bench *b, const char *name, enum eng_pool_fn fn, int64_t channels,
                 int64_t in, int64_t out)
{
    if (is_wanted(b, name)) {
        begin_case(b);
        const int64_t x_dims[4] = {1, channels, in, in};
        const int64_t y_dims[4] = {1, channels, out, out};
        uint32_t x = tensor(b, ENG_CHANNELS_LAST, 4, x_dims);
        struct eng_command *made =
            command(b, ENG_OP_POOL, 1, &x, tensor(b, ENG_CHANNELS_LAST, 4, y_dims));
        made->u.pool = (struct eng_pool){.fn = fn,
                                         .spatial = 2,
                                         .kernel = {3, 3},
                                         .stride = {2, 2},
                                         .dilation = {1, 1},
                                         .pad_begin = {1, 1},
                                         .pad_end = {1, 1}};
        measure(b, name, made);
        end_case(b);
    }
}

// Heads interleaved as exported models keep them: [S, H, D].
static void attention(struct bench *b, const char *name, int64_t h, int64_t s, int64_t d)
{
    if (is_wanted(b, name)) {
        begin_case(b);
        const int64_t dims[3] = {s, h, d};
        const uint32_t in[4] = {tensor(b, ENG_PLAIN, 3, dims), tensor(b, ENG_PLAIN, 3, dims),
                                tensor(b, ENG_PLAIN, 3, dims), tensor(b, ENG_PLAIN, 1, &s)};
        struct eng_command *made =
            command(b, ENG_OP_ATTENTION, 4, in, tensor(b, ENG_PLAIN, 3, dims));
        made->box = (struct eng_box){.rank = 6, .size = {1, h, s, s, d, d}};
        const struct eng_view view = {.stride = {0, d, h * d, 1}};
        made->views[0] = made->views[1] = made->views[2] = view;
        made->views[3] = (struct eng_view){.stride = {0, 0, 0, 1}};
        made->u.attention.out_view = view;
        made->u.attention.scale = 0.125f;
        b->flops = 4.0 * (double)h * (double)s * (double)s * (double)d;
        measure(b, name, made);
        end_case(b);
    }
}

static void raster(struct bench *b, const char *name, int64_t in_count, int64_t out_count,
                   const struct eng_region *regions, uint32_t count, bool zero_fill)
{
    if (is_wanted(b, name)) {
        begin_case(b);
        struct eng_region own[TENSORS];
        uint32_t in[TENSORS];
        for (uint32_t i = 0; i < count; i++) {
            own[i] = regions[i];
            in[i] = tensor(b, ENG_PLAIN, 1, &in_count);
            own[i].source = in[i];
        }
        struct eng_command *made =
            command(b, ENG_OP_RASTER, count, in, tensor(b, ENG_PLAIN, 1, &out_count));
        made->u.raster.regions = own;
        made->u.raster.count = count;
        made->u.raster.zero_fill = zero_fill;
        measure(b, name, made);
        end_case(b);
    }
}

static void transpose(struct bench *b, const char *name, int64_t rows, int64_t columns)
{
    const struct eng_region region = {
        .rank = 2, .size = {columns, rows}, .src_stride = {1, columns}, .dst_stride = {rows, 1}};
    raster(b, name, rows * columns, rows * columns, &region, 1, false);
}

static void moves(struct bench *b)
{
    transpose(b, "nchw->nhwc 3x224x224", 3, 224 * 224);
    transpose(b, "nchw->nhwc 64x56x56", 64, 56 * 56);
    transpose(b, "nhwc->nchw 64x56x56", 56 * 56, 64);
    transpose(b, "nhwc->nchw 2048x7x7", 49, 2048);
    transpose(b, "transpose 768x768", 768, 768);
    const struct eng_region shuffle[2] = {
        {.rank = 2, .size = {784, 58}, .src_stride = {58, 1}, .dst_stride = {116, 2}},
        {.rank = 2,
         .size = {784, 58},
         .src_stride = {58, 1},
         .dst_stride = {116, 2},
         .dst_offset = 1}};
    raster(b, "shuffle nhwc 116x28x28", 784 * 58, 784 * 116, shuffle, 2, false);
    const struct eng_region weave[4] = {
        {.rank = 2,
         .size = {784, 7},
         .src_stride = {58, 1},
         .dst_stride = {58, 8},
         .dst_offset = 6},
        {.rank = 2,
         .size = {784, 7},
         .src_stride = {58, 1},
         .dst_stride = {58, 8},
         .dst_offset = 2},
        {.rank = 2, .size = {784, 15}, .src_stride = {58, 1}, .dst_stride = {58, 4}},
        {.rank = 2,
         .size = {784, 29},
         .src_stride = {58, 1},
         .dst_stride = {58, 2},
         .dst_offset = 1}};
    raster(b, "shuffles merged 58x28x28", 784 * 58, 784 * 58, weave, 4, false);
    raster(b, "the same with a gap", 784 * 58, 784 * 58, weave, 3, true);
    const struct eng_region planes = {.rank = 3,
                                      .size = {58, 2, 784},
                                      .src_stride = {784, 58 * 784, 1},
                                      .dst_stride = {2 * 784, 784, 1}};
    raster(b, "shuffle nchw 116x28x28", 784 * 116, 784 * 116, &planes, 1, false);
    const struct eng_region heads = {.rank = 3,
                                     .size = {12, 256, 64},
                                     .src_stride = {64, 768, 1},
                                     .dst_stride = {256 * 64, 64, 1}};
    raster(b, "heads 256x12x64", 256 * 768, 256 * 768, &heads, 1, false);
    const struct eng_region pad = {.rank = 2,
                                   .size = {56, 56 * 64},
                                   .src_stride = {56 * 64, 1},
                                   .dst_stride = {58 * 64, 1},
                                   .dst_offset = 59 * 64};
    raster(b, "pad nhwc 64x56x56", 56 * 56 * 64, 58 * 58 * 64, &pad, 1, true);
    const struct eng_region slice = {
        .rank = 2, .size = {784, 58}, .src_stride = {116, 1}, .dst_stride = {58, 1}};
    raster(b, "split nhwc 116x28x28", 784 * 116, 784 * 58, &slice, 1, false);
    const struct eng_region copy = {
        .rank = 1, .size = {1 << 18}, .src_stride = {1}, .dst_stride = {1}};
    raster(b, "copy 256k", 1 << 18, 1 << 18, &copy, 1, false);
}

int main(int argc, char **argv)
{
    struct bench b = {0};
    uint64_t threads = 1;
    if (argc > 1 && base_str_u64(base_str_of(argv[1]), &threads) != BASE_OK) {
        return 2;
    }
    b.kernels = eng_kernels_find(argc > 2 && strcmp(argv[2], "best") != 0 ? argv[2] : NULL);
    b.filter = argc > 3 ? argv[3] : NULL;
    if (b.kernels == NULL || threads < 1 || eng_pool_new((uint32_t)threads, &b.pool) != BASE_OK) {
        fprintf(stderr, "engine_vec: no such instruction set, or no threads\n");
        return 2;
    }
    printf("isa %s, threads %llu\n", b.kernels->name, (unsigned long long)threads);
    unary(&b, "relu 4k", ENG_RELU, 4096);
    unary(&b, "relu 200k", ENG_RELU, 200704);
    unary(&b, "relu 8M", ENG_RELU, 1 << 23);
    unary(&b, "exp 64k", ENG_EXP, 65536);
    unary(&b, "log 64k", ENG_LOG, 65536);
    unary(&b, "tanh 64k", ENG_TANH, 65536);
    unary(&b, "erf 64k", ENG_ERF, 65536);
    unary(&b, "sigmoid 64k", ENG_SIGMOID, 65536);
    unary(&b, "gelu 256x3072", ENG_GELU, 256 * 3072);
    unary(&b, "gelu_tanh 256x3072", ENG_GELU_TANH, 256 * 3072);
    binary(&b, "add 32", 1, 32, 0);
    binary(&b, "add 4k", 1, 4096, 0);
    binary(&b, "add 200k", 1, 200704, 0);
    binary(&b, "add 8M", 1, 1 << 23, 0);
    binary(&b, "add row 3136x64", 3136, 64, 1);
    binary(&b, "add row 256x768", 256, 768, 1);
    binary(&b, "add column 64x3136", 64, 3136, 2);
    binary(&b, "add column 3136x64", 3136, 64, 2);
    expr(&b, "scale bias relu 3136x64", 3136, 64);
    expr(&b, "scale bias relu 256x768", 256, 768);
    softmax(&b, "softmax 3072x256", 3072, 256, 1);
    softmax(&b, "softmax 1x1000", 1, 1000, 1);
    softmax(&b, "softmax columns 12x256x256", 12, 256, 256);
    layer_norm(&b, "layer norm 256x768", 256, 768);
    reduce(&b, "mean rows 256x768", 256, 768, 1);
    reduce(&b, "mean columns 49x2048", 1, 49, 2048);
    pool(&b, "max pool 3x3/2 64x112", ENG_POOL_MAX, 64, 112, 56);
    pool(&b, "max pool 3x3/2 24x112", ENG_POOL_MAX, 24, 112, 56);
    pool(&b, "average pool 3x3/2 64x112", ENG_POOL_AVERAGE, 64, 112, 56);
    attention(&b, "attention 12x256x64", 12, 256, 64);
    attention(&b, "attention 12x1024x64", 12, 1024, 64);
    attention(&b, "attention 1x100x32", 1, 100, 32);
    moves(&b);
    eng_pool_free(b.pool);
    return 0;
}
