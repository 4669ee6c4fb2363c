// Losses as atomic commands at the end of a program.
#ifndef ENG_TRAIN_LOSS_H
#define ENG_TRAIN_LOSS_H

#include "engine/train.h"
#include "program/program.h"

// Appends the loss of `output` (real, PLAIN, float32) against `target` (an INPUT whose description
// fits: eng_loss_check). *out_loss is one float.
BASE_NODISCARD enum base_status eng_loss_emit(struct eng_program *program, enum eng_loss loss,
                                              bool from_probabilities, uint32_t output,
                                              uint32_t target, uint32_t *out_loss,
                                              struct base_error *error);
// INVALID: the target's type or shape does not go with the output's.
BASE_NODISCARD enum base_status eng_loss_check(enum eng_loss loss, const struct eng_desc *output,
                                               const struct eng_desc *target,
                                               struct base_error *error);

#endif
