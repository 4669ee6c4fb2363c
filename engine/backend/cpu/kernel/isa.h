// What this processor can do, and the table of kernels that goes with it. Detected once per
// process; constant afterwards, safe from any thread.
#ifndef ENG_CPU_ISA_H
#define ENG_CPU_ISA_H

#include "backend/cpu/kernel/kernels.h"

#include <stdbool.h>
#include <stddef.h>

enum eng_isa { ENG_ISA_GENERIC, ENG_ISA_AVX2, ENG_ISA_AVX512, ENG_ISA_AMX, ENG_ISA_COUNT };

// Features count only when the operating system saves their registers.
struct eng_cpu {
    bool avx2;        // with FMA and F16C
    bool avx512;      // F, BW, DQ, VL
    bool avx512_bf16; // products of bfloat16 pairs, and avx512_vnni
    bool avx512_vnni;
    bool amx_bf16;                       // tiles, granted to this process
    size_t l1_bytes, l2_bytes, l3_bytes; // data caches of one core; a guess when unknown
};
const struct eng_cpu *eng_cpu_detect(void);

// For tests: from here on the processor counts as one with tiles, because the caller emulates their
// instructions. Before the first session, on one thread. False: it lacks what else they need.
bool eng_cpu_emulate_tiles(void);

const char *eng_isa_name(enum eng_isa isa); // "avx2"; never NULL
// Whether this processor runs kernels of that set.
bool eng_isa_has(enum eng_isa isa);

// Supplied by the families, one table per set; NULL: none (products: yet).
const struct eng_gemm_kernels *eng_gemm_kernels_of(enum eng_isa isa);
const struct eng_vec_kernels *eng_vec_kernels_of(enum eng_isa isa);

#endif
