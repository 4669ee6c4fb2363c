// Which algorithm a convolution takes. Candidates carry an estimated cost; the cheapest is taken,
// or a search measures the few cheapest and prepares the winner.
//
// The estimate is time, plus a price for packed weights beyond those of the direct algorithm:
// Winograd's F(4 x 4) keeps four times as many, and a session's memory is worth something too.
#ifndef ENG_CPU_CONV_PLAN_H
#define ENG_CPU_CONV_PLAN_H

#include "backend/cpu/conv_ops.h"
#include "backend/cpu/kernel/gemm_kernels.h"

enum eng_conv_algorithm {
    ENG_CONV_DIRECT,
    ENG_CONV_DEPTHWISE,
    ENG_CONV_WINO2,
    ENG_CONV_WINO4,
    ENG_CONV_LOW, // direct on bfloat16 pairs
    ENG_CONV_LOW_WINO2,
    ENG_CONV_LOW_WINO4,
    ENG_CONV_BLAS, // one product by OpenBLAS; never among eng_conv_candidates
    ENG_CONV_ALGORITHM_COUNT
};
const char *eng_conv_algorithm_name(enum eng_conv_algorithm algorithm);

// What the machine does with one thread.
struct eng_cpu_rates {
    double flops_per_us;        // products in the first-level cache
    double cache_bytes_per_us;  // second-level cache, read and written
    double memory_bytes_per_us; // main memory, read in order
};
// Typical rates of a table's instruction set, without measuring.
struct eng_cpu_rates eng_cpu_rates_of(const struct eng_gemm_kernels *kernels);

// How many times as fast a table of bfloat16 is as floats; 0 for NULL.
double eng_conv_low_speed(const struct eng_gemm_kernels *low);

// What a convolution would run on.
struct eng_conv_machine {
    const struct eng_gemm_kernels *kernels;
    const struct eng_gemm_kernels *low; // the table of bfloat16 pairs; NULL: none
    struct eng_cpu_rates rates;
    uint32_t threads; // at least 1
};

struct eng_conv_candidate {
    enum eng_conv_algorithm algorithm;
    size_t packed_bytes;
    double time_us; // estimated, threads counted
    double cost;    // time_us and the price of memory: what is compared
};
#define ENG_CONV_CANDIDATES_MAX 8

// Candidates for a shape, cheapest first; returns how many were written. `constant`: the weights
// are (only then may they be transformed).
size_t eng_conv_candidates(const struct eng_conv_shape *shape,
                           const struct eng_conv_machine *machine, bool constant,
                           struct eng_conv_candidate out[ENG_CONV_CANDIDATES_MAX]);
// UNSUPPORTED when the shape is not the algorithm's.
BASE_NODISCARD enum base_status eng_conv_prepare_with(const struct eng_conv_job *job,
                                                      enum eng_conv_algorithm algorithm,
                                                      struct eng_step *out_step);

#endif
