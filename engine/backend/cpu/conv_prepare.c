// Convolutions on the fast paths: the cheapest algorithm for each. Called by cpu_prepare.c on the
// planning thread.
#include "backend/cpu/conv_plan.h"

#include "backend/cpu/gemm_run.h"

enum base_status eng_cpu_prepare_conv(const struct eng_prepare *ctx,
                                      const struct eng_program *program,
                                      const struct eng_command *command, struct eng_step *out_step)
{
    struct eng_conv_job job = {.ctx = ctx, .program = program, .command = command};
    BASE_TRY(eng_conv_shape_of(program, command, &job.shape));
    const struct eng_gemm_kernels *kernels = ctx->kernels->gemm;
    const struct eng_cpu_rates rates = eng_cpu_rates_of(kernels);
    const bool constant = program->tensors[command->inputs[1]].kind == ENG_CONST;
    struct eng_conv_candidate candidates[ENG_CONV_CANDIDATES_MAX];
    (void)eng_conv_candidates(&job.shape, kernels, eng_gemm_low_kernels(ctx), &rates,
                              eng_pool_threads(ctx->pool), constant, candidates);
    return eng_conv_prepare_with(&job, candidates[0].algorithm, out_step);
}
