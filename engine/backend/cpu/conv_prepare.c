// Convolutions on the fast paths: the cheapest algorithm for each. Called by cpu_prepare.c on the
// planning thread.
#include "backend/cpu/cpu_ops.h"

#include "backend/cpu/conv_search.h"
#include "backend/cpu/gemm_run.h"
#include "search/search.h"

// What the machine does: measured when a search is there, typical otherwise.
static struct eng_cpu_rates rates_for(const struct eng_prepare *ctx)
{
    struct eng_cpu_rates rates = eng_cpu_rates_of(ctx->kernels->gemm);
    if (ctx->search != NULL) {
        const struct eng_machine *machine = eng_search_machine(ctx->search);
        rates.flops_per_us = machine->flops_f32 / 1e6;
        rates.memory_bytes_per_us = machine->bytes_memory / 1e6;
    }
    return rates;
}

enum base_status eng_cpu_prepare_conv(const struct eng_prepare *ctx,
                                      const struct eng_program *program,
                                      const struct eng_command *command, struct eng_step *out_step)
{
    struct eng_conv_job job = {.ctx = ctx, .program = program, .command = command};
    BASE_TRY(eng_conv_shape_of(program, command, &job.shape));
    const struct eng_gemm_kernels *kernels = ctx->kernels->gemm;
    const struct eng_cpu_rates rates = rates_for(ctx);
    const bool constant = program->tensors[command->inputs[1]].kind == ENG_CONST;
    struct eng_conv_candidate candidates[ENG_CONV_CANDIDATES_MAX];
    const size_t count = eng_conv_candidates(&job.shape, kernels, eng_gemm_low_kernels(ctx), &rates,
                                             eng_pool_threads(ctx->pool), constant, candidates);
    return eng_conv_prepare_with(
        &job, candidates[eng_conv_search(&job, candidates, count)].algorithm, out_step);
}
