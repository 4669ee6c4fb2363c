// Convolutions and the search: candidates as search.c wants them, and how one of them is prepared
// to be measured. Called by conv_prepare.c on the planning thread. A problem is named by its shape
// and the kernel table, so that a choice is remembered for all convolutions alike, in this model
// and the next. A candidate packs its weights into the trial's memory: one that loses leaves
// nothing behind. Below SEARCHED_FLOPS_MIN no cut is measured.
#include "backend/cpu/conv_search.h"

#include "backend/cpu/gemm/gemm_cost.h"
#include "backend/cpu/gemm/gemm_run.h"
#include "backend/cpu/gemm/step_trial.h"
#include "base/check.h"

#include <stdio.h>
#include <stdlib.h>

#define TILE_K             256u
#define SEARCHED_FLOPS_MIN 1e6 // smaller convolutions are over before a cut could pay

enum base_status eng_conv_prepare_cut(const struct eng_conv_job *job,
                                      enum eng_conv_algorithm algorithm, enum eng_tuning tuning,
                                      struct eng_step *out_step)
{
    const struct eng_prepare tuned = eng_tuning_context(job->ctx, tuning);
    struct eng_conv_job cut = *job;
    cut.ctx = &tuned;
    BASE_TRY(eng_conv_prepare_with(&cut, algorithm, out_step));
    out_step->alone = tuning == ENG_TUNING_ALONE;
    return BASE_OK;
}

// Packs into the trial's memory, so that a candidate that loses leaves nothing behind.
static enum base_status prepare_algorithm(const struct eng_trial *trial,
                                          const struct eng_prepare *ctx,
                                          const struct eng_candidate *candidate,
                                          struct eng_step *out_step)
{
    base_assert(candidate->a < ENG_CONV_ALGORITHM_COUNT);
    struct eng_conv_job job = *(const struct eng_conv_job *)trial->job;
    job.ctx = ctx;
    return eng_conv_prepare_with(&job, (enum eng_conv_algorithm)candidate->a, out_step);
}

static void problem_text(const struct eng_conv_job *job, const char *word, bool low, char *text,
                         size_t size)
{
    const struct eng_conv_shape *s = &job->shape;
    snprintf(
        text, size, "%s%s %lldx%lldx%lldx%lld->%lld k%lldx%lld s%lld d%lld p%lld g%lld n%lld %s",
        word, low ? "16" : "", (long long)s->in[0], (long long)s->in[1], (long long)s->in[2],
        (long long)s->in_channels, (long long)s->out_channels, (long long)s->kernel[1],
        (long long)s->kernel[2], (long long)s->stride[2], (long long)s->dilation[2],
        (long long)s->pad[2], (long long)s->groups, (long long)s->batch, job->ctx->kernels->name);
}

size_t eng_conv_search(const struct eng_conv_job *job, const struct eng_conv_candidate *candidates,
                       size_t count)
{
    if (job->ctx->search == NULL || count < 2) {
        return 0;
    }
    base_assert(count <= ENG_CONV_CANDIDATES_MAX);
    struct eng_candidate list[ENG_CONV_CANDIDATES_MAX];
    enum eng_conv_algorithm fixed = ENG_CONV_DIRECT;
    for (size_t i = 0; i < count; i++) {
        fixed = candidates[i].algorithm == ENG_CONV_LOW ? ENG_CONV_LOW : fixed;
    }
    for (size_t i = 0; i < count; i++) {
        list[i] = (struct eng_candidate){.name = eng_conv_algorithm_name(candidates[i].algorithm),
                                         .a = (uint32_t)candidates[i].algorithm,
                                         .cost_us = candidates[i].time_us,
                                         .extra_us = candidates[i].cost - candidates[i].time_us,
                                         .fixed = candidates[i].algorithm == fixed,
                                         .measured_only = candidates[i].algorithm == ENG_CONV_BLAS};
    }
    char problem[ENG_SEARCH_PROBLEM_BYTES];
    problem_text(job, job->shape.exact ? "exact conv" : "conv",
                 eng_gemm_low_kernels(job->ctx) != NULL, problem, sizeof problem);
    struct eng_trial trial = {.ctx = job->ctx,
                              .program = job->program,
                              .command = job->command,
                              .prepare = prepare_algorithm,
                              .job = job};
    const struct eng_search_query query = {
        .problem = problem,
        .candidates = list,
        .count = count,
        .measure = eng_trial_measure,
        .ctx = &trial,
        .kind = list[count - 1].measured_only ? ENG_SEARCH_EXTRA : ENG_SEARCH_ALGORITHM};
    size_t index = 0;
    if (eng_search_choose(job->ctx->search, &query, &index) != BASE_OK) {
        index = 0;
    }
    eng_trial_done(&trial);
    base_assert(index < count);
    return index;
}

// --- cuts ----------------------------------------------------------------------------------------

struct cut_job {
    const struct eng_conv_job *job;
    const struct eng_gemm_kernels *kernels;
};

static enum base_status prepare_cut(const struct eng_trial *trial, const struct eng_prepare *ctx,
                                    const struct eng_candidate *candidate,
                                    struct eng_step *out_step)
{
    const struct cut_job *cut = trial->job;
    base_assert(candidate->a < ENG_TUNING_COUNT);
    struct eng_conv_job job = *cut->job;
    job.ctx = ctx;
    return eng_conv_prepare_cut(&job, cut->kernels->pair_step > 0 ? ENG_CONV_LOW : ENG_CONV_DIRECT,
                                (enum eng_tuning)candidate->a, out_step);
}

static enum base_status plan_cut(const void *ctx, const struct eng_prepare *prepare,
                                 struct eng_gemm_plan *out_plan)
{
    const struct cut_job *cut = ctx;
    struct eng_conv_job job = *cut->job;
    job.ctx = prepare;
    return eng_conv_plan_direct(&job, cut->kernels, out_plan);
}

enum eng_tuning eng_conv_search_cut(const struct eng_conv_job *job,
                                    const struct eng_gemm_kernels *kernels)
{
    if (job->ctx->search == NULL || eng_conv_flops(&job->shape) < SEARCHED_FLOPS_MIN) {
        return ENG_TUNING_USUAL;
    }
    const struct eng_conv_shape *s = &job->shape;
    const struct eng_cost_rates rates = eng_cost_rates_of(job->ctx);
    if (eng_cost_is_streaming(&rates, s->batch * s->out[0] * s->out[1] * s->out[2],
                              s->out_channels / s->groups,
                              s->in_channels / s->groups * eng_conv_taps(s))) {
        return ENG_TUNING_USUAL;
    }
    char problem[ENG_SEARCH_PROBLEM_BYTES];
    problem_text(job, "cut conv", kernels->pair_step > 0, problem, sizeof problem);
    const struct cut_job cut = {job, kernels};
    struct eng_trial trial = {.ctx = job->ctx,
                              .program = job->program,
                              .command = job->command,
                              .prepare = prepare_cut,
                              .job = &cut};
    const enum eng_tuning tuning = eng_tuning_search(&trial, plan_cut, problem);
    base_assert((unsigned)tuning < ENG_TUNING_COUNT);
    eng_trial_done(&trial);
    return tuning;
}

double eng_conv_flops_kernel(void *ctx, uint64_t rounds)
{
    const struct eng_gemm_kernels *kernels = ctx;
    enum { WIDTH_MAX = 64, A_FLOATS = ENG_GEMM_MR_MAX * TILE_K, B_FLOATS = TILE_K * WIDTH_MAX };
    base_assert(kernels->nr <= WIDTH_MAX && kernels->mr_max[2] <= ENG_GEMM_MR_MAX);
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
