// What tests of product and convolution kernels share: random operands, and in double what the
// kernels do besides summing: activations, rounding to bfloat16, and the error of rounded weights
// that all rows share.
#ifndef KERNEL_RIG_H
#define KERNEL_RIG_H

#include "test_kit.h"

#include "base/prng.h"
#include "program/program.h"

#include <math.h>

#define KERNEL_SAMPLE_MAX 64 // rows that a mean is taken of
#define KERNEL_NAMES_MAX  3

// Instruction sets with float32 kernels of their own.
static const char *const kernel_names[KERNEL_NAMES_MAX] = {"generic", "avx2", "avx512"};

// `count` floats in [-1, 1), to be freed.
static inline float *kernel_floats(struct base_prng *prng, size_t count)
{
    float *data = malloc((count > 0 ? count : 1) * sizeof(float));
    assert_non_null(data);
    for (size_t i = 0; i < count; i++) {
        data[i] = (float)(base_prng_unit(prng) * 2 - 1);
    }
    return data;
}

static inline double kernel_activate(const struct eng_epilogue *e, double x)
{
    if (!e->has_activation) {
        return x;
    }
    switch (e->activation) {
    case ENG_RELU:
        return x > 0 ? x : 0;
    case ENG_CLIP:
        return fmin(fmax(x, (double)e->alpha), (double)e->beta);
    case ENG_LEAKY_RELU:
        return x < 0 ? x * (double)e->alpha : x;
    case ENG_SIGMOID:
        return 1 / (1 + exp(-x));
    case ENG_HARD_SWISH:
        return x * fmin(fmax(x / 6 + 0.5, 0), 1);
    case ENG_TANH:
        return tanh(x);
    case ENG_GELU:
        return 0.5 * x * (1 + erf(x / sqrt(2)));
    case ENG_GELU_TANH:
        return 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
    default:
        return NAN;
    }
}

static inline double kernel_rounded(float value)
{
    return (double)eng_bf16_to_f32(eng_bf16_from_f32(value));
}

// A product of `rows` rows of A, contiguous along K, with weights of any strides.
struct kernel_product {
    const float *a, *w;
    int64_t rows, row_stride, k, stride_k, stride_n;
    float alpha;
};

static inline float kernel_weight(const struct kernel_product *p, int64_t k, int64_t n)
{
    return p->alpha * p->w[k * p->stride_k + n * p->stride_n];
}

// Mean row times what rounding takes from the weights of column n; *out_slack: how far off eight
// bits for both may be.
static inline double kernel_shared_error(const struct kernel_product *p, int64_t n,
                                         double *out_slack)
{
    const int64_t sampled = p->rows < KERNEL_SAMPLE_MAX ? p->rows : KERNEL_SAMPLE_MAX;
    double added = 0;
    double most = 0;
    double sizes = 0;
    double all_taken = 0;
    double largest = 0;
    for (int64_t k = 0; k < p->k; k++) {
        const double taken =
            (double)kernel_weight(p, k, n) - kernel_rounded(kernel_weight(p, k, n));
        double mean = 0;
        for (int64_t i = 0; i < sampled; i++) {
            mean += (double)p->a[i * p->rows / sampled * p->row_stride + k] / (double)sampled;
        }
        added += mean * taken;
        most = fmax(most, fabs(taken));
        sizes += fabs(mean);
        all_taken += fabs(taken);
        largest = fmax(largest, fabs(mean));
    }
    // Half a step of 127 each.
    *out_slack = 1.01 * (sizes * most + all_taken * largest) / 254 +
                 (double)p->k * most * largest / 254 / 254;
    return added;
}

#endif
