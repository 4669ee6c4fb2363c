// The passes between lowering and preparing: they make a program shorter without changing what it
// computes.
//
//   dead code     commands nobody needs
//   norms         layer normalisation written out of means, squares and divisions -> NORM
//   attention     product, scale, mask, softmax, product -> ATTENTION
//   epilogues     bias, residual sum and activation after CONV and MATMUL -> into the command
//   expressions   what is left of elementwise commands that feed each other -> EXPR; expressions
//                 that compute a known function (GELU in its many spellings) -> UNARY, which then
//                 may become an epilogue
//   chains        a depthwise CONV with those of single pixels before and behind it -> CONV_CHAIN,
//                 where what lies between is too large for the caches near the processor
//
// Tensors keep their numbers; commands do not. Results may differ in rounding. Called once per plan
// on the planning thread; needs nothing but the program.
#ifndef ENG_PROGRAM_FUSE_H
#define ENG_PROGRAM_FUSE_H

#include "program/program.h"

// Of what lies between the convolutions of a chain, once each: less than that the second-level
// cache holds anyway, and convolutions one after the other are shared by threads more evenly.
#define ENG_CHAIN_BYTES_MIN 1000000

struct eng_optimise_options {
    bool no_fuse;   // only dead code goes
    bool no_chains; // convolutions stay apart: their products are to be of bfloat16
};

// NULL options: all passes. NOMEM.
BASE_NODISCARD enum base_status eng_program_optimise(struct eng_program *program,
                                                     const struct eng_optimise_options *options,
                                                     struct base_error *error);

// The passes one by one, for tests. Each removes what it made superfluous.
struct eng_fuse;
BASE_NODISCARD enum base_status eng_fuse_norms(struct eng_fuse *fuse);
BASE_NODISCARD enum base_status eng_fuse_attention(struct eng_fuse *fuse);
BASE_NODISCARD enum base_status eng_fuse_epilogues(struct eng_fuse *fuse);
BASE_NODISCARD enum base_status eng_fuse_expressions(struct eng_fuse *fuse);
// Chains with at least so many bytes between their convolutions.
BASE_NODISCARD enum base_status eng_fuse_chains(struct eng_fuse *fuse, int64_t bytes_min);

// Which unary function of one argument an expression computes, if it is one worth having as such:
// told by its values, not by its form. False: none.
bool eng_expr_is_unary(const struct eng_expr *expr, enum eng_unary_fn *out_fn);

#endif
