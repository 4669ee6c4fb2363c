// The search's view of convolutions.
#ifndef ENG_CPU_CONV_SEARCH_H
#define ENG_CPU_CONV_SEARCH_H

#include "backend/cpu/conv_plan.h"

// Which of the candidates (cheapest by estimate first) to take: measured or remembered by the
// session's search; 0 without one.
size_t eng_conv_search(const struct eng_conv_job *job, const struct eng_conv_candidate *candidates,
                       size_t count);

// The product kernel on data in the first-level cache (calibrate.h); ctx is a struct
// eng_gemm_kernels.
double eng_conv_flops_kernel(void *ctx, uint64_t rounds);

#endif
