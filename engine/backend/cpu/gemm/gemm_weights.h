// Packed weights: found in the model's cache, or made once in the plan's arena.
#ifndef ENG_CPU_GEMM_WEIGHTS_H
#define ENG_CPU_GEMM_WEIGHTS_H

#include "backend/backend.h"
#include "backend/pack.h"

// Forms of packed weights; part of a cache key together with a hash of the parameters.
enum eng_pack_form {
    ENG_PACK_PANELS = 0x100, // + columns of a panel
    ENG_PACK_DEPTHWISE = 0x200,
    ENG_PACK_WINO = 0x300, // + unit
    ENG_PACK_BF16 = 0x400,
    ENG_PACK_AMX = 0x500,
    ENG_PACK_RESIDUE = 0x600, // what rounding to bfloat16 took away
};

// What tells two packings of one tensor apart.
struct eng_weights_form {
    uint64_t form;      // an enum eng_pack_form and what it says is added
    const void *params; // whatever else the packing depends on: no pointers, no padding
    size_t params_bytes;
};

// The content, found or made; 64-byte aligned. NOMEM.
BASE_NODISCARD enum base_status eng_weights_pack(const struct eng_prepare *prepare,
                                                 const struct eng_tensor *tensor,
                                                 const struct eng_weights_form *form,
                                                 const struct eng_pack_content *content,
                                                 const void **out);
// 64-byte aligned memory of the plan's lifetime; NULL when there is none.
void *eng_weights_alloc(const struct eng_prepare *prepare, size_t bytes);

#endif
