// How a script VM trains models: a table beside dev_model_port, so that a host that gives none does
// not link the tensor engine. What each does, and its codes, is in engine/train.h.
//
// A trainer is the caller's, on one thread at a time. It reads the file of its model, so that has
// to be held until the trainer is freed.
#ifndef DEV_TRAIN_PORT_H
#define DEV_TRAIN_PORT_H

#include "engine/train.h"
#include "model/model_port.h"

enum dev_train_kind { DEV_TRAIN_STEP, DEV_TRAIN_EVALUATE, DEV_TRAIN_PREDICT };

struct dev_train_call {
    enum dev_train_kind kind;
    struct eng_batch batch;
    size_t memory_bytes_max;      // of the trainer from now on; as eng_trainer_options has it
    struct dev_model_place place; // PREDICT: of all outputs in their order
    float loss;                   // of the others
    uint64_t work;                // done, also by a call that failed
};

// What is made.
struct dev_train_want {
    const struct eng_trainer_options *options;
    struct eng_run_options limits; // when reading the model's file ends
};

struct dev_train_port {
    // A trainer of the model, whose BatchNormalization stays as the file has it. The codes of
    // eng_trainer_new and of dev_model_port.get.
    enum base_status (*make)(const struct dev_model *model, const struct dev_train_want *want,
                             struct eng_trainer **out_trainer, struct base_error *error);
    void (*free)(struct eng_trainer *trainer); // accepts NULL
    // The codes of eng_trainer_step, and of `place`.
    enum base_status (*call)(struct eng_trainer *trainer, struct dev_train_call *call,
                             struct base_error *error);
    void (*stats)(const struct eng_trainer *trainer, struct eng_trainer_stats *out_stats);
    bool (*parameter)(const struct eng_trainer *trainer, size_t index,
                      struct eng_parameter *out_parameter);
    enum base_status (*set_learning_rate)(struct eng_trainer *trainer, float learning_rate);
    size_t (*state_bytes)(const struct eng_trainer *trainer);
    enum base_status (*state_write)(const struct eng_trainer *trainer, void *bytes, size_t size,
                                    struct base_error *error);
    enum base_status (*state_read)(struct eng_trainer *trainer, const void *bytes, size_t size,
                                   struct base_error *error);
    // The model's file with what was trained; `model` is the one of the trainer.
    enum base_status (*export_bytes)(const struct dev_model *model,
                                     const struct eng_trainer *trainer, size_t *out_bytes,
                                     struct base_error *error);
    enum base_status (*export)(const struct dev_model *model, const struct eng_trainer *trainer,
                               void *bytes, struct base_error *error);
};

extern const struct dev_train_port dev_model_train_port; // of the store's models

#endif
