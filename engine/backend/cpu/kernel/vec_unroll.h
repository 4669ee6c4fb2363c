// Loops over the vectors of one tile are unrolled at any optimisation level: their accumulators
// must become registers.
#ifndef ENG_CPU_VEC_UNROLL_H
#define ENG_CPU_VEC_UNROLL_H

#if defined(__clang__)
#define VEC_UNROLL _Pragma("clang loop unroll(full)")
#else
#define VEC_UNROLL _Pragma("GCC unroll 16")
#endif

#endif
