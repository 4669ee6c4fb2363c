// What the trainer's files share: parameters, the plan of one set of shapes, updates.
#ifndef ENG_TRAIN_STEP_H
#define ENG_TRAIN_STEP_H

#include "engine/train.h"
#include "model/graph.h"
#include "model/name_map.h"
#include "backend/run_watch.h"
#include "session/exec.h"
#include "session/fold.h"

#define ENG_TRAINER_BYTES_MAX ((size_t)64 << 30) // parameters and optimizer state

// A float initializer of the main graph. Only float32 ones are trained; the others are read where
// they lie in the model.
struct eng_weight {
    uint32_t value; // of the graph
    const char *name;
    struct eng_desc desc;
    bool is_trained;
    bool is_statistic;     // a running one of BatchNormalization that steps move
    float *data;           // copy; of other types than float32: NULL
    float *first, *second; // the optimizer's moments (SGD: first only); NULL when not trained
    uint32_t gradient;     // tensor of the plan, ENG_NONE
    const float *found;    // gradient of the last run
    uint32_t moved;        // tensor of the plan: what a statistic becomes; ENG_NONE
};

// The program of one step, or of a prediction, for given shapes.
struct eng_train_plan {
    bool is_forward;   // a prediction: it has no target and no loss
    uint32_t *outputs; // of a prediction: tensors by output of the model; ENG_NONE: it is none
    struct base_arena arena;
    struct eng_program program;
    struct eng_exec exec;
    struct eng_desc *input_descs; // by input of the model
    uint32_t *inputs;             // tensors
    void **buffers;               // aligned copies of the inputs, then the target
    struct eng_desc target_desc;
    uint32_t target, loss, forward_count;
    int64_t classes; // that the target's labels choose from; 0: it has none
};

struct eng_trainer {
    struct eng_model *model;
    struct eng_trainer_options options; // defaults filled in; frozen and output resolved
    uint32_t output;                    // value of the graph
    struct base_arena arena;
    const struct eng_kernels *kernels;
    struct eng_pool *pool;
    struct eng_fold fold;
    struct eng_weight *weights; // first `parameter_count` of them float32
    uint32_t weight_count, parameter_count;
    uint32_t *weight_at;            // by value of the graph; ENG_NONE: it is no weight
    struct eng_name_map names;      // of the parameters
    bool *fixed;                    // by value of the graph: bounds of Clip, no weights at all
    struct eng_train_plan *plan;    // of a step; NULL: none yet
    struct eng_train_plan *forward; // of a prediction; NULL: none yet
    bool has_predicted;
    struct eng_watch watch; // of the call under way
    uint64_t origin;        // hash of all float32 parameters as the model has them
    uint64_t plan_us, steps;
};

// train_plan.c
// A plan for the shapes of this batch, which has all inputs: kept when it fits already. Codes of
// eng_trainer_step.
BASE_NODISCARD enum base_status eng_train_plan_for(struct eng_trainer *trainer, bool is_forward,
                                                   const struct eng_batch *batch,
                                                   struct base_error *error);
// Copies the inputs in and runs the plan of a prediction, which fits them.
BASE_NODISCARD enum base_status eng_train_plan_predict(struct eng_trainer *trainer,
                                                       const struct eng_batch *batch,
                                                       struct base_error *error);
// Copies the batch, which the plan fits, in, runs, fills in the weights' `found`.
BASE_NODISCARD enum base_status eng_train_plan_run(struct eng_trainer *trainer,
                                                   const struct eng_batch *batch, float *out_loss,
                                                   struct base_error *error);
void eng_train_plan_free(struct eng_trainer *trainer); // both plans
// Bytes that the trainer holds, and how many more it may.
size_t eng_train_bytes_held(const struct eng_trainer *trainer);
size_t eng_train_bytes_left(const struct eng_trainer *trainer);

// train_update.c
// One update of a weight by what was found for it. `step` counts from 1.
void eng_train_update(const struct eng_trainer_options *options, uint64_t step,
                      const struct eng_weight *weight, struct eng_pool *pool);

#endif
