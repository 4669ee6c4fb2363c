// The convolution algorithms. Each prepares a step for a shape it can do; conv_plan.h chooses.
#ifndef ENG_CPU_CONV_OPS_H
#define ENG_CPU_CONV_OPS_H

#include "backend/cpu/conv_shape.h"
#include "backend/cpu/cpu_ops.h"

// One convolution about to be prepared.
struct eng_gemm_kernels;

struct eng_conv_job {
    const struct eng_prepare *ctx;
    const struct eng_program *program;
    const struct eng_command *command;
    struct eng_conv_shape shape;
};

// Every shape. `kernels`: the instruction set's, or those of bfloat16 pairs (eng_gemm_low_kernels),
// which take one group and constant weights.
BASE_NODISCARD enum base_status eng_conv_prepare_direct(const struct eng_conv_job *job,
                                                        const struct eng_gemm_kernels *kernels,
                                                        struct eng_step *out_step);
// The plan alone, in ctx's arena: for estimates; not to be executed.
struct eng_gemm_plan;
BASE_NODISCARD enum base_status eng_conv_plan_direct(const struct eng_conv_job *job,
                                                     const struct eng_gemm_kernels *kernels,
                                                     struct eng_gemm_plan *out_plan);
// One input channel an output channel, in one or two dimensions.
bool eng_conv_is_depthwise(const struct eng_conv_shape *shape);
BASE_NODISCARD enum base_status eng_conv_prepare_depthwise(const struct eng_conv_job *job,
                                                           struct eng_step *out_step);
// Rows of a depthwise convolution.
struct eng_gemm_plan;
struct eng_dw_rows {
    const struct eng_gemm_kernels *kernels;
    const struct eng_conv_shape *shape;
    const struct eng_gemm_plan *act; // only its activation fields
    const float *x;                  // row i of all images' rows lies where row i % ring does
    int64_t ring;
    int64_t x_pitch, y_pitch; // floats of a pixel
    const float *weights;     // packed
    const float *bias, *residual;
    float *y;      // row `first`
    int64_t first; // of all images' output rows
};
void eng_conv_dw_rows(const struct eng_dw_rows *rows, int64_t begin, int64_t end);
BASE_NODISCARD enum base_status eng_conv_pack_depthwise(const struct eng_prepare *ctx,
                                                        const struct eng_conv_shape *shape,
                                                        const struct eng_tensor *weights,
                                                        const float **out);
// 3 x 3, stride 1, constant weights; unit 2 or 4. `products`: the instruction set's, or those of
// bfloat16 pairs. A layer's error is then one and a half times that of the direct sum of rounded
// operands with unit 2, four times with unit 4.
bool eng_conv_fits_wino(const struct eng_conv_shape *shape);
BASE_NODISCARD enum base_status eng_conv_prepare_wino(const struct eng_conv_job *job,
                                                      const struct eng_gemm_kernels *products,
                                                      uint32_t unit, struct eng_step *out_step);

#endif
