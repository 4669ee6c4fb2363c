// OpenBLAS, where the machine has it: taken when the program runs (the engine does not link it, and
// does without). Only this file's .c knows how it is loaded and called.
//
// OpenBLAS runs each product on the thread that calls; sharing among threads is the caller's, with
// the session's own pool. Functions are safe from any thread.
#ifndef ENG_CPU_BLAS_H
#define ENG_CPU_BLAS_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

#define ENG_BLAS_DIM_MAX INT32_MAX // rows, columns and strides are C ints there

struct eng_blas; // one loaded library

// C[m][n] = alpha * op(A)[m][k] * op(B)[k][n] + beta * C, row-major. Leading dimensions in floats.
struct eng_blas_product {
    bool trans_a, trans_b;
    int m, n, k;
    int lda, ldb, ldc;
    float alpha, beta;
    const float *a, *b;
    float *c;
};

// The process's BLAS, loaded by the first call: WALLE_ENGINE_BLAS of the environment names the
// library (empty: none), else libopenblas.so.0. NULL: there is none. Valid for good.
const struct eng_blas *eng_blas_get(void);
void eng_blas_sgemm(const struct eng_blas *blas, const struct eng_blas_product *product);

// Loads a library by name; one thread at a time. NOT_FOUND: it is not there. UNSUPPORTED: it has
// not what is needed.
BASE_NODISCARD enum base_status eng_blas_open(const char *path, struct eng_blas **out_blas);
void eng_blas_close(struct eng_blas *blas); // accepts NULL

// An eng_flops_fn (search/calibrate.h): products that stay in the second-level cache. ctx unused.
double eng_blas_flops(void *ctx, uint64_t rounds);

#endif
