// Attention with both products on bfloat16 pairs or tiles: scores and values of one (batch, head)
// through the tables of gemm_kernels.h, the softmax between them in float32.
//
// The caller lays the memory of one worker out with eng_attention_low_plan, packs keys and values
// of a head once, and runs blocks of at most `block_rows` rows. Any thread; needs AVX512_BF16.
#ifndef ENG_CPU_VEC_ATTENTION_LOW_H
#define ENG_CPU_VEC_ATTENTION_LOW_H

#include "backend/cpu/kernel/gemm_kernels.h"
#include "backend/cpu/kernel/vec_kernels.h"

struct eng_attention_low {
    const struct eng_gemm_kernels *products;
    const struct eng_vec_kernels *kernels;
    int64_t t, d, e;            // keys, their length, values' length
    int64_t d_pairs, t_pairs;   // of sums, as the table wants them
    int64_t q_pitch, p_pitch;   // floats of a row of queries and of weights, as pairs
    int64_t block_rows, stride; // rows of a block; floats of a row of scores
    // Floats into a worker's memory.
    int64_t keys, values, scores, queries, weights, words;
    int64_t floats; // of a worker
};

// Fills what follows from products, kernels, t, d and e. false: too large to be counted.
bool eng_attention_low_plan(struct eng_attention_low *low);
// Keys and values of one (batch, head): rows of d and of e floats that lie together.
struct eng_attention_head {
    const float *k, *v;
    int64_t k_stride, v_stride; // floats from a row to the next
};
void eng_attention_low_pack(const struct eng_attention_low *low,
                            const struct eng_attention_head *head, float *memory);
// a: q, mask, out, rows, strides and scale are read; between enter and leave of the products.
void eng_attention_low_rows(const struct eng_attention_low *low,
                            const struct eng_vec_attention *vec_attention, float *memory);

#endif
