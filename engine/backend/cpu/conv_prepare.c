// Convolutions on the fast paths: the cheapest algorithm for each, and how its loops are cut.
// Called by cpu_prepare.c on the planning thread. Candidates are conv_plan.c's, plus BLAS where a
// search can measure it; without a search the first of them is taken. Weights that change while
// training have a path of their own (eng_conv_prepare_live), since nothing can be packed ahead.
#include "backend/cpu/cpu_ops.h"

#include "backend/cpu/blas_step.h"
#include "backend/cpu/conv_grad.h"
#include "backend/cpu/conv_search.h"
#include "backend/cpu/gemm/gemm_cost.h"
#include "backend/cpu/gemm/gemm_run.h"
#include "base/check.h"

// What the machine does: measured when a search is there, typical otherwise.
static struct eng_cpu_rates rates_for(const struct eng_prepare *ctx)
{
    struct eng_cpu_rates rates = eng_cpu_rates_of(ctx->kernels->gemm);
    if (ctx->search != NULL) {
        const struct eng_machine *machine = eng_search_machine(ctx->search);
        rates.flops_per_us = eng_search_flops(ctx->search, ctx->kernels->name) / 1e6;
        rates.memory_bytes_per_us = machine->bytes_memory / 1e6;
    }
    return rates;
}

// BLAS behind the own candidates, where it is there and a search to measure it.
static size_t add_blas(const struct eng_conv_job *job, struct eng_conv_candidate *candidates,
                       size_t count)
{
    const struct eng_conv_shape *s = &job->shape;
    base_assert(count > 0 && count <= ENG_CONV_CANDIDATES_MAX);
    if (job->ctx->search == NULL || count == ENG_CONV_CANDIDATES_MAX ||
        !eng_blas_allowed(job->ctx) || !eng_blas_fits_conv(s)) {
        return count;
    }
    const struct eng_cost_rates rates = eng_cost_rates_of(job->ctx);
    if (rates.blas_flops_per_us <= 0) {
        return count;
    }
    const double us = eng_blas_estimate(&rates, 1, s->batch * s->out[0] * s->out[1] * s->out[2],
                                        s->out_channels, s->in_channels);
    candidates[count] =
        (struct eng_conv_candidate){.algorithm = ENG_CONV_BLAS, .time_us = us, .cost = us};
    return count + 1;
}

// An algorithm whose share of a thread is less than waking the others costs.
static bool is_better_alone(const struct eng_prepare *ctx,
                            const struct eng_conv_candidate *candidate)
{
    const double threads = eng_pool_threads(ctx->pool);
    return ctx->search != NULL && threads > 1 &&
           candidate->time_us * threads < candidate->time_us + eng_search_wake_us(ctx->search);
}

enum base_status eng_cpu_prepare_conv(const struct eng_prepare *ctx,
                                      const struct eng_program *program,
                                      const struct eng_command *command, struct eng_step *out_step)
{
    struct eng_conv_job job = {.ctx = ctx, .program = program, .command = command};
    BASE_TRY(eng_conv_shape_of(program, command, &job.shape));
    if (program->tensors[command->inputs[1]].kind == ENG_PARAM) {
        enum base_status status = eng_conv_prepare_live(ctx, command, &job.shape, false, out_step);
        if (status != BASE_ERR_UNSUPPORTED) {
            return status;
        }
    }
    const struct eng_gemm_kernels *kernels = ctx->kernels->gemm;
    const struct eng_gemm_kernels *low = eng_gemm_low_kernels(ctx);
    const struct eng_conv_machine machine = {
        .kernels = kernels,
        .low = low,
        .rates = rates_for(ctx),
        .threads = eng_pool_threads(ctx->pool),
    };
    const bool constant = program->tensors[command->inputs[1]].kind == ENG_CONST;
    struct eng_conv_candidate candidates[ENG_CONV_CANDIDATES_MAX];
    size_t count = eng_conv_candidates(&job.shape, &machine, constant, candidates);
    count = add_blas(&job, candidates, count);
    const struct eng_conv_candidate *chosen = &candidates[eng_conv_search(&job, candidates, count)];
    enum eng_conv_algorithm algorithm = chosen->algorithm;
    if (algorithm == ENG_CONV_BLAS) {
        enum base_status status = eng_conv_prepare_with(&job, algorithm, out_step);
        if (status != BASE_ERR_UNSUPPORTED) {
            return status;
        }
        algorithm = ENG_CONV_DIRECT; // a file may remember a library that is gone by now
    }
    base_assert(algorithm != ENG_CONV_LOW || low != NULL);
    enum eng_tuning tuning = ENG_TUNING_USUAL;
    if (algorithm == ENG_CONV_DIRECT || algorithm == ENG_CONV_LOW) {
        tuning = eng_conv_search_cut(&job, algorithm == ENG_CONV_LOW ? low : kernels);
    } else if (is_better_alone(ctx, chosen)) {
        tuning = ENG_TUNING_ALONE;
    }
    return eng_conv_prepare_cut(&job, algorithm, tuning, out_step);
}
