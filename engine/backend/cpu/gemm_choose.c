// Which product a MATMUL command gets: the own one or BLAS, and how its loops are cut. Without a
// search, or for products too small to matter, the own one cut the usual way. Called by
// cpu_prepare.c on the planning thread.
#include "backend/cpu/cpu_ops.h"

#include "backend/cpu/blas_step.h"
#include "backend/cpu/gemm/gemm_cost.h"
#include "base/alloc.h"
#include "base/check.h"

#include <stdio.h>

#define SEARCHED_FLOPS_MIN  1e6  // smaller products are over before a choice could pay
#define SEARCHED_IMAGES_MAX 1024 // batches beyond that are costly to plan again and again

enum product_kind { PRODUCT_OWN, PRODUCT_BLAS, PRODUCT_KINDS };

struct product_job {
    const struct eng_prepare *ctx;
    const struct eng_program *program;
    const struct eng_command *command;
};

static enum base_status prepare_kind(const struct product_job *job, const struct eng_prepare *ctx,
                                     uint32_t kind, struct eng_step *out_step)
{
    return kind == PRODUCT_BLAS
               ? eng_blas_prepare_product(ctx, job->program, job->command, out_step)
               : eng_gemm_prepare_product(ctx, job->program, job->command, out_step);
}

static enum base_status prepare_trial(const struct eng_trial *trial, const struct eng_prepare *ctx,
                                      const struct eng_candidate *candidate,
                                      struct eng_step *out_step)
{
    return prepare_kind(trial->job, ctx, candidate->a, out_step);
}

static enum base_status prepare_cut(const struct product_job *job, const struct eng_prepare *ctx,
                                    enum eng_tuning tuning, struct eng_step *out_step)
{
    const struct eng_prepare tuned = eng_tuning_context(ctx, tuning);
    BASE_TRY(eng_gemm_prepare_product(&tuned, job->program, job->command, out_step));
    out_step->alone = tuning == ENG_TUNING_ALONE;
    return BASE_OK;
}

static enum base_status prepare_cut_trial(const struct eng_trial *trial,
                                          const struct eng_prepare *ctx,
                                          const struct eng_candidate *candidate,
                                          struct eng_step *out_step)
{
    return prepare_cut(trial->job, ctx, (enum eng_tuning)candidate->a, out_step);
}

static enum base_status plan_cut(const void *job, const struct eng_prepare *ctx,
                                 struct eng_gemm_plan *out_plan)
{
    const struct product_job *j = job;
    return eng_gemm_plan_product(ctx, j->program, j->command, out_plan);
}

// --- the problem ---------------------------------------------------------------------------------

static char operand_letter(const struct eng_command *command, uint32_t operand)
{
    const uint32_t rank = command->u.matmul.batch_rank;
    base_assert(operand < 2 && command->box.rank == rank + 3);
    const int64_t *stride = &command->views[operand].stride[rank];
    const int64_t across = operand == 0 ? stride[2] : stride[1]; // along a row of the operand
    return across == 1 ? 'n' : 't';
}

static double product_flops(const struct eng_command *command)
{
    double flops = 2;
    for (uint32_t i = 0; i < command->box.rank; i++) {
        flops *= (double)command->box.size[i];
    }
    return flops;
}

static int64_t images_of(const struct eng_command *command)
{
    int64_t images = 1;
    for (uint32_t i = 0; i < command->u.matmul.batch_rank; i++) {
        images *= command->box.size[i];
    }
    return images;
}

// Whether there is anything to choose for this product.
static bool is_searched(const struct eng_prepare *ctx, const struct eng_command *command)
{
    if (ctx->search == NULL || product_flops(command) < SEARCHED_FLOPS_MIN ||
        images_of(command) > SEARCHED_IMAGES_MAX) {
        return false;
    }
    const int64_t *box = &command->box.size[command->u.matmul.batch_rank];
    const struct eng_cost_rates rates = eng_cost_rates_of(ctx);
    return !eng_cost_is_streaming(&rates, box[0] * images_of(command), box[1], box[2]);
}

static void problem_text(const struct product_job *job, const char *word, char *text, size_t size)
{
    const struct eng_command *command = job->command;
    const struct eng_epilogue *epilogue = &command->u.matmul.epilogue;
    const int64_t *box = &command->box.size[command->u.matmul.batch_rank]; // m, n, k
    const bool constant = job->program->tensors[command->inputs[1]].kind == ENG_CONST;
    const bool low = eng_gemm_low_kernels(job->ctx) != NULL;
    snprintf(text, size, "%s%s %lldx%lldx%lld b%lld %c%c%s e%d%d%d %s", word, low ? "16" : "",
             (long long)box[0], (long long)box[2], (long long)box[1], (long long)images_of(command),
             operand_letter(command, 0), operand_letter(command, 1), constant ? " const" : "",
             epilogue->bias != ENG_NONE, epilogue->residual != ENG_NONE,
             epilogue->has_activation ? (int)epilogue->activation : -1, job->ctx->kernels->name);
}

// --- choosing ------------------------------------------------------------------------------------

static size_t kind_candidates(const struct product_job *job, struct eng_candidate *out)
{
    const struct eng_cost_rates rates = eng_cost_rates_of(job->ctx);
    const struct eng_command *command = job->command;
    const int64_t *box = &command->box.size[command->u.matmul.batch_rank];
    struct base_arena arena;
    base_arena_init(&arena, base_alloc_heap(), ENG_PLAN_ARENA_BYTES, 0);
    struct eng_prepare scratch = *job->ctx;
    scratch.arena = &arena;
    struct eng_gemm_plan plan;
    size_t count = 0;
    if (plan_cut(job, &scratch, &plan) == BASE_OK) {
        double cost = eng_gemm_estimate(&plan, &rates, rates.threads);
        if (job->program->tensors[command->inputs[1]].kind != ENG_CONST) {
            cost += eng_gemm_pack_estimate(&plan, &rates);
        }
        out[count++] =
            (struct eng_candidate){.name = "own", .a = PRODUCT_OWN, .cost_us = cost, .fixed = true};
    }
    if (count > 0 && rates.blas_flops_per_us > 0 && eng_blas_allowed(job->ctx)) {
        out[count++] = (struct eng_candidate){
            .name = "blas",
            .a = PRODUCT_BLAS,
            .cost_us = eng_blas_estimate(&rates, images_of(command), box[0], box[1], box[2]),
            .measured_only = true};
    }
    base_arena_done(&arena);
    base_assert(count <= PRODUCT_KINDS);
    return count;
}

static enum product_kind choose_kind(const struct product_job *job)
{
    struct eng_candidate list[PRODUCT_KINDS];
    const size_t count = kind_candidates(job, list);
    if (count < 2) {
        return PRODUCT_OWN;
    }
    char problem[ENG_SEARCH_PROBLEM_BYTES];
    problem_text(job, "product", problem, sizeof problem);
    struct eng_trial trial = {.ctx = job->ctx,
                              .program = job->program,
                              .command = job->command,
                              .prepare = prepare_trial,
                              .job = job};
    const struct eng_search_query query = {.problem = problem,
                                           .candidates = list,
                                           .count = count,
                                           .measure = eng_trial_measure,
                                           .ctx = &trial,
                                           .kind = ENG_SEARCH_EXTRA};
    size_t index = 0;
    if (eng_search_choose(job->ctx->search, &query, &index) != BASE_OK) {
        index = 0;
    }
    eng_trial_done(&trial);
    base_assert(index < count && list[index].a < PRODUCT_KINDS);
    return (enum product_kind)list[index].a;
}

static enum eng_tuning choose_cut(const struct product_job *job)
{
    char problem[ENG_SEARCH_PROBLEM_BYTES];
    problem_text(job, "cut product", problem, sizeof problem);
    struct eng_trial trial = {.ctx = job->ctx,
                              .program = job->program,
                              .command = job->command,
                              .prepare = prepare_cut_trial,
                              .job = job};
    const enum eng_tuning tuning = eng_tuning_search(&trial, plan_cut, problem);
    eng_trial_done(&trial);
    return tuning;
}

enum base_status eng_cpu_prepare_matmul(const struct eng_prepare *ctx,
                                        const struct eng_program *program,
                                        const struct eng_command *command,
                                        struct eng_step *out_step)
{
    if (!is_searched(ctx, command)) {
        return eng_gemm_prepare_product(ctx, program, command, out_step);
    }
    const struct product_job job = {ctx, program, command};
    if (choose_kind(&job) == PRODUCT_BLAS) {
        // A file may remember a library that is gone by now.
        enum base_status status = eng_blas_prepare_product(ctx, program, command, out_step);
        if (status != BASE_ERR_UNSUPPORTED) {
            return status;
        }
    }
    return prepare_cut(&job, ctx, choose_cut(&job), out_step);
}
