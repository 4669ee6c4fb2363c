// The search's view of convolutions.
#ifndef ENG_CPU_CONV_SEARCH_H
#define ENG_CPU_CONV_SEARCH_H

#include "backend/cpu/conv_plan.h"

// Which of the candidates (cheapest by estimate first) to take: measured or remembered by the
// session's search; 0 without one.
size_t eng_conv_search(const struct eng_conv_job *job, const struct eng_conv_candidate *candidates,
                       size_t count);
// How the loops of a direct convolution with `kernels` are cut: measured or remembered; the usual
// way without a search.
enum eng_tuning eng_conv_search_cut(const struct eng_conv_job *job,
                                    const struct eng_gemm_kernels *kernels);
// Prepares the algorithm cut that way.
BASE_NODISCARD enum base_status eng_conv_prepare_cut(const struct eng_conv_job *job,
                                                     enum eng_conv_algorithm algorithm,
                                                     enum eng_tuning tuning,
                                                     struct eng_step *out_step);

// The product kernel on data in the first-level cache (calibrate.h); ctx is a struct
// eng_gemm_kernels.
double eng_conv_flops_kernel(void *ctx, uint64_t rounds);

#endif
