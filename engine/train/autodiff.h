// Reverse-mode differentiation of programs: appends the commands that compute gradients.
//
// Works on what lowering leaves, atomic commands and rasters over physical elements; so one rule
// per atomic command covers every operator. A gradient has the elements of its tensor in the same
// order. Fusion comes after: a program given here holds no EXPR, no ATTENTION, no activations in
// epilogues.
//
// Called by the trainer on its thread, once per plan.
#ifndef ENG_TRAIN_AUTODIFF_H
#define ENG_TRAIN_AUTODIFF_H

#include "base/error.h"
#include "model/graph.h"
#include "program/program.h"

// One of the gradients that are wanted of a loss.
struct eng_gradient {
    uint32_t by;     // given: a float tensor that no command writes, or any other
    uint32_t tensor; // filled in: as many elements as `by`, in the same order; ENG_NONE: the loss
                     // does not depend on it
};

// Appends to `program` the gradients of `loss` (a float tensor of one element) and fills in where
// they are. UNSUPPORTED names the command that has no gradient. NOMEM, LIMIT.
BASE_NODISCARD enum base_status eng_autodiff(struct eng_program *program, uint32_t loss,
                                             struct eng_gradient *gradients, uint32_t count,
                                             struct base_error *error);

// Whether a kind of command passes gradients on (some only in part: see the rules).
bool eng_autodiff_supports(enum eng_atomic op);

#endif
