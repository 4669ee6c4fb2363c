// One instruction set's kernels. Each ISA has its own files (gemm_avx512.c, vec_avx512.c ...)
// compiled with its own flags; which table a session uses is decided once (isa.c), logged by
// programs, and can be overridden. The generic table is plain C and always there.
#ifndef ENG_CPU_KERNELS_H
#define ENG_CPU_KERNELS_H

struct eng_gemm_kernels; // gemm_kernels.h: products and convolutions
struct eng_vec_kernels;  // vec_kernels.h: elementwise, reductions, softmax, norms, pooling,
                         // depthwise, moves

struct eng_kernels {
    const char *name; // "generic", "avx2", "avx512", "amx"
    const struct eng_gemm_kernels *gemm;
    const struct eng_vec_kernels *vec;
};

// The table for `isa` (NULL: the best this processor has). NULL when the processor lacks it or the
// name is unknown.
const struct eng_kernels *eng_kernels_find(const char *isa);

#endif
