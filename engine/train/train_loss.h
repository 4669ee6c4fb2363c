// Losses as atomic commands at the end of a program.
#ifndef ENG_TRAIN_LOSS_H
#define ENG_TRAIN_LOSS_H

#include "engine/train.h"
#include "program/program.h"

// What a program is judged by.
struct eng_criterion {
    enum eng_loss loss;
    bool from_probabilities; // of `output`, which are scores otherwise
    uint32_t output;         // tensor: real, PLAIN, float32
    uint32_t target;         // tensor: an INPUT whose description fits (eng_loss_check)
};

// Appends the loss. *out_loss is one float. Codes of eng_loss_check; NOMEM, LIMIT.
BASE_NODISCARD enum base_status eng_loss_emit(struct eng_program *program,
                                              const struct eng_criterion *criterion,
                                              uint32_t *out_loss, struct base_error *error);
// INVALID: the target's type or shape does not go with the output's.
BASE_NODISCARD enum base_status eng_loss_check(enum eng_loss loss, const struct eng_desc *output,
                                               const struct eng_desc *target,
                                               struct base_error *error);

// How many classes a target of labels chooses from, for an output that it fits; 0: it has no
// labels.
int64_t eng_loss_classes(enum eng_loss loss, const struct eng_desc *output,
                         const struct eng_desc *target);
// INVALID: a label is none of 0..classes-1, which says where and which.
BASE_NODISCARD enum base_status eng_labels_check(const struct eng_array *target, int64_t classes,
                                                 struct base_error *error);
// INVALID: a target that is a chance, of cross entropy without labels and of binary cross entropy,
// is not in 0..1, which says where and what.
BASE_NODISCARD enum base_status
eng_chances_check(enum eng_loss loss, const struct eng_array *target, struct base_error *error);

#endif
