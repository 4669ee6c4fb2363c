// Convolutions and the search: candidates as the search wants them, and measuring one of them on
// made-up pixels. Planning thread.
#include "backend/cpu/conv_search.h"

#include "backend/cpu/gemm_run.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "search/search.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARENA_CHUNK_BYTES (1u << 20)
#define ALIGNMENT         64u
#define MEASURE_RUNS      3    // the best counts
#define MEASURE_US_MIN    100u // short ones are repeated until one figure covers this much
#define MEASURE_REPEATS   64u
#define SAMPLE_VALUE      0.01F // no denormals, no infinities
#define TILE_K            256u

struct rig {
    const struct eng_conv_job *job;
    void **data; // by tensor number; made by the first measurement
};

// Operands a run reads or writes, as buffers of their own; constants stay where they are.
static enum base_status place_operand(struct rig *rig, uint32_t tensor)
{
    const struct eng_tensor *t = tensor != ENG_NONE ? &rig->job->program->tensors[tensor] : NULL;
    if (t == NULL || rig->data[tensor] != NULL) {
        return BASE_OK;
    }
    size_t bytes = (eng_desc_bytes(&t->desc) + ALIGNMENT) / ALIGNMENT * ALIGNMENT;
    float *buffer = aligned_alloc(ALIGNMENT, bytes);
    if (buffer == NULL) {
        return BASE_ERR_NOMEM;
    }
    rig->data[tensor] = buffer;
    if (t->kind == ENG_CONST) {
        memcpy(buffer, t->data, eng_desc_bytes(&t->desc));
    } else {
        for (size_t i = 0; i < bytes / sizeof *buffer; i++) {
            buffer[i] = SAMPLE_VALUE;
        }
    }
    return BASE_OK;
}

// Once, and only when something is measured: a remembered choice needs no operands.
static enum base_status place_operands(struct rig *rig)
{
    const struct eng_command *command = rig->job->command;
    if (rig->data == NULL) {
        rig->data = calloc(rig->job->program->tensor_count, sizeof *rig->data);
    }
    if (rig->data == NULL) {
        return BASE_ERR_NOMEM;
    }
    const struct eng_tensor *weights = &rig->job->program->tensors[command->inputs[1]];
    for (uint32_t i = 0; i < command->input_count; i++) {
        // Constant weights are packed, or read where they lie.
        if (i != 1 || weights->kind != ENG_CONST) {
            BASE_TRY(place_operand(rig, command->inputs[i]));
        }
    }
    return place_operand(rig, command->outputs[0]);
}

static void free_operands(struct rig *rig)
{
    const struct eng_command *command = rig->job->command;
    for (uint32_t i = 0; rig->data != NULL && i < command->input_count; i++) {
        if (command->inputs[i] != ENG_NONE && rig->data[command->inputs[i]] != NULL) {
            free(rig->data[command->inputs[i]]);
            rig->data[command->inputs[i]] = NULL;
        }
    }
    if (rig->data != NULL) {
        free(rig->data[command->outputs[0]]);
    }
    free(rig->data);
}

// Best of a few runs of a prepared step, in microseconds.
static enum base_status time_step(const struct eng_step *step, const struct eng_run *run,
                                  double *out_us)
{
    double best = 0;
    uint32_t repeats = 1;
    for (int i = 0; i <= MEASURE_RUNS;
         i++) { // the first one warms up, and says how often to repeat
        uint64_t begin = base_clock_mono_us();
        for (uint32_t r = 0; r < repeats; r++) {
            BASE_TRY(step->run(step, run));
        }
        double us = (double)(base_clock_mono_us() - begin) / repeats;
        if (i == 0) {
            while (us * repeats < MEASURE_US_MIN && repeats < MEASURE_REPEATS) {
                repeats *= 2;
            }
        } else if (i == 1 || us < best) {
            best = us;
        }
    }
    *out_us = best;
    return BASE_OK;
}

// Packs into an arena of its own, so that a candidate that loses leaves nothing behind.
static enum base_status measure(void *ctx, const struct eng_candidate *candidate, double *out_us)
{
    struct rig *rig = ctx;
    BASE_TRY(place_operands(rig));
    struct base_arena arena;
    base_arena_init(&arena, base_alloc_heap(), ARENA_CHUNK_BYTES, 0);
    struct eng_prepare prepare = *rig->job->ctx;
    prepare.arena = &arena;
    prepare.packs = NULL;
    prepare.model = NULL;
    struct eng_conv_job job = *rig->job;
    job.ctx = &prepare;
    struct eng_step step = {.program = job.program, .command = job.command};
    enum base_status status =
        eng_conv_prepare_with(&job, (enum eng_conv_algorithm)candidate->a, &step);
    void *scratch = NULL;
    if (status == BASE_OK && step.scratch_bytes > 0) {
        scratch =
            aligned_alloc(ALIGNMENT, (step.scratch_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
        status = scratch != NULL ? BASE_OK : BASE_ERR_NOMEM;
    }
    if (status == BASE_OK) {
        struct eng_run run = {.data = rig->data, .pool = prepare.pool, .scratch = scratch};
        status = time_step(&step, &run, out_us);
    }
    free(scratch);
    base_arena_done(&arena);
    return status;
}

static void problem_text(const struct eng_conv_shape *s, bool low, char *text, size_t size)
{
    snprintf(text, size, "%s %lldx%lldx%lldx%lld->%lld k%lldx%lld s%lld d%lld p%lld g%lld n%lld",
             low ? "conv16" : "conv", (long long)s->in[0], (long long)s->in[1], (long long)s->in[2],
             (long long)s->in_channels, (long long)s->out_channels, (long long)s->kernel[1],
             (long long)s->kernel[2], (long long)s->stride[2], (long long)s->dilation[2],
             (long long)s->pad[2], (long long)s->groups, (long long)s->batch);
}

size_t eng_conv_search(const struct eng_conv_job *job, const struct eng_conv_candidate *candidates,
                       size_t count)
{
    if (job->ctx->search == NULL || count < 2) {
        return 0;
    }
    struct eng_candidate list[ENG_CONV_CANDIDATES_MAX];
    for (size_t i = 0; i < count; i++) {
        list[i] = (struct eng_candidate){.name = eng_conv_algorithm_name(candidates[i].algorithm),
                                         .a = (uint32_t)candidates[i].algorithm,
                                         .cost_us = candidates[i].time_us,
                                         .extra_us = candidates[i].cost - candidates[i].time_us,
                                         .fixed = candidates[i].algorithm == ENG_CONV_DIRECT};
    }
    char problem[ENG_SEARCH_PROBLEM_BYTES];
    problem_text(&job->shape, eng_gemm_low_kernels(job->ctx) != NULL, problem, sizeof problem);
    struct rig rig = {.job = job};
    size_t index = 0;
    if (eng_search_choose(job->ctx->search, problem, list, count, measure, &rig, &index) !=
        BASE_OK) {
        index = 0;
    }
    free_operands(&rig);
    return index;
}

double eng_conv_flops_kernel(void *ctx, uint64_t rounds)
{
    const struct eng_gemm_kernels *kernels = ctx;
    enum { WIDTH_MAX = 64, A_FLOATS = ENG_GEMM_MR_MAX * TILE_K, B_FLOATS = TILE_K * WIDTH_MAX };
    float *a = calloc(A_FLOATS + B_FLOATS + ENG_GEMM_MR_MAX * WIDTH_MAX, sizeof *a);
    if (a == NULL) {
        return 0;
    }
    const int64_t segment = 0;
    const uint32_t rows = kernels->mr_max[2];
    const struct eng_gemm_tile tile = {.a = a,
                                       .lda = TILE_K,
                                       .segments = &segment,
                                       .segment_count = 1,
                                       .k = TILE_K,
                                       .b = a + A_FLOATS,
                                       .c = a + A_FLOATS + B_FLOATS,
                                       .ldc = WIDTH_MAX,
                                       .n = kernels->nr};
    for (uint64_t r = 0; r < rounds; r++) {
        kernels->tile[2][rows - 1](&tile);
    }
    free(a);
    return 2.0 * rows * kernels->nr * TILE_K * (double)rounds;
}
