// What rounding weights to bfloat16 does to all rows of a product alike, put right.
//
// Rows of A have much in common behind layer norms and activations: a row is the mean of the rows
// and a rest. Rounded weights W' = W - D make an error of D times both. The part of the mean is the
// same in every row, so it is computed once and added with the bias. D is kept in eight bits with
// one scale a column: a quarter of the weights' float32 size. The mean is that of a sample, in
// eight bits as well.
//
// The mean says something about each row only where rows are of one size. When one is much longer
// than they are on average (it would be most of the mean), or one is much shorter than the mean
// (its own error would be smaller than the correction), or anything is not finite, nothing is
// corrected.
#ifndef ENG_CPU_GEMM_MEAN_H
#define ENG_CPU_GEMM_MEAN_H

#include "backend/backend.h"
#include "backend/cpu/gemm/gemm_run.h"

#define ENG_GEMM_MEAN_ROWS_MIN 32 // fewer do not pay for reading D

struct eng_gemm_mean;

// The rows of A, each contiguous along K.
struct eng_gemm_rows {
    int64_t count;
    int64_t stride; // floats from one to the next
};

// Packs D of `weights` (source.dim_count 1, data within the tensor's) for products with these rows.
// Plan's arena; needs AVX512_BF16. NOMEM.
BASE_NODISCARD enum base_status eng_gemm_mean_new(const struct eng_prepare *prepare,
                                                  const struct eng_tensor *weights,
                                                  const struct eng_gemm_source *source,
                                                  const struct eng_gemm_rows *rows,
                                                  const struct eng_gemm_mean **out);
// Floats of scratch a run needs, whole cache lines.
size_t eng_gemm_mean_floats(const struct eng_gemm_mean *mean);
// The bias to use in a product of the rows at `a`: in `scratch`, or `bias` itself (NULL: none) when
// nothing is corrected. The same for any number of threads.
const float *eng_gemm_mean_bias(const struct eng_gemm_mean *mean, const float *values,
                                const float *bias, float *scratch, struct eng_pool *pool);

#endif
