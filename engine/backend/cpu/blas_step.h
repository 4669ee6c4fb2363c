// Products handed to OpenBLAS (blas.h) as steps: operands are read where they lie, weights stay as
// the file has them.
#ifndef ENG_CPU_BLAS_STEP_H
#define ENG_CPU_BLAS_STEP_H

#include "backend/cpu/conv_ops.h"

// Whether products of this context may go to BLAS: float32 throughout, on the best instruction set
// this processor has (a session held to a narrower one stays there). Does not load the library.
bool eng_blas_allowed(const struct eng_prepare *ctx);

// A MATMUL command. UNSUPPORTED: no BLAS, another type, or operands that do not lie in rows or
// columns.
BASE_NODISCARD enum base_status eng_blas_prepare_product(const struct eng_prepare *ctx,
                                                         const struct eng_program *program,
                                                         const struct eng_command *command,
                                                         struct eng_step *out_step);
// A convolution of single pixels (eng_blas_fits_conv): one product of all pixels by the weights.
bool eng_blas_fits_conv(const struct eng_conv_shape *shape);
BASE_NODISCARD enum base_status eng_blas_prepare_conv(const struct eng_conv_job *job,
                                                      struct eng_step *out_step);

#endif
