// Training: fine-tunes the float32 parameters of an ONNX model on this machine.
//
// A trainer owns a copy of the model's parameters (its float32 initializers), the optimizer's state
// and a plan: the model lowered to atomic commands, the loss, and the gradients of every parameter
// by reverse-mode differentiation. One thread at a time; several trainers of one model may run at
// once, none changes the model.
//
// Which parameters. Every float32 initializer of the main graph that the output depends on, but for
// scalars (rank 0), the running statistics of BatchNormalization, and those listed in `frozen`.
// Bounds of Clip are settings: they are no parameters at all.
// BatchNormalization takes part with its running statistics, as in inference, unless
// batch_statistics says otherwise: then a step normalises by its batch, and moves the running ones
// towards it by the node's momentum. Where loading folded it into a convolution, the folded weights
// are the parameters, and there is nothing left to move (eng_model_options.keep_batch_norm).
// Dropout passes everything through.
//
// What cannot be trained: models whose shapes depend on contents (NonZero, Loop, a decision of If),
// and operators without a gradient (GridSample, RoiAlign, Det...). eng_trainer_step says
// which, on the first step with inputs of new shapes.
//
// Usage:
//     struct eng_trainer *trainer;
//     eng_trainer_new(model, &(struct eng_trainer_options){
//         .loss = ENG_LOSS_CROSS_ENTROPY, .optimizer = ENG_OPTIMIZER_ADAM, .learning_rate = 1e-3F,
//     }, &trainer, &error);
//     struct eng_batch batch = {.inputs = inputs, .input_count = 1, .target = &labels};
//     eng_trainer_step(trainer, &batch, &loss, &error);   // again and again
//     eng_trainer_save(trainer, "weights.npz", &error);
//     eng_trainer_free(trainer);
#ifndef ENGINE_TRAIN_H
#define ENGINE_TRAIN_H

#include "engine/engine.h"

struct eng_trainer;

// CROSS_ENTROPY: the output holds scores [N, C, ...]; the target is class numbers [N, ...] (int32
// or
//   int64) or probabilities like the output (float32). Mean over everything but the classes.
// MSE: mean square of the difference. BCE: mean of -t log p - (1 - t) log(1 - p). Targets are
//   float32 with as many elements as the output.
enum eng_loss { ENG_LOSS_CROSS_ENTROPY, ENG_LOSS_MSE, ENG_LOSS_BCE };

// SGD: v = momentum v + g, w -= learning_rate v.
// ADAM: with bias-corrected moments. Both add weight_decay * w to the gradient first.
enum eng_optimizer { ENG_OPTIMIZER_SGD, ENG_OPTIMIZER_ADAM };

struct eng_trainer_options {
    enum eng_loss loss;
    const char *output;      // which graph output the loss reads; NULL: the first
    bool from_probabilities; // the output went through softmax (BCE: sigmoid) already; false: raw
                             // scores, which is also the more exact way
    enum eng_optimizer optimizer;
    float learning_rate; // > 0
    float momentum;      // SGD, 0..1
    float beta1, beta2;  // ADAM; 0: 0.9 and 0.999
    float epsilon;       // ADAM; 0: 1e-8
    float weight_decay;  // >= 0
    uint32_t threads;    // 0: 1
    const char *isa;     // as in struct eng_session_options
    // Parameters left as they are: names, or beginnings of names that end with '*'. Borrowed until
    // eng_trainer_new returns.
    const char *const *frozen;
    size_t frozen_count;
    // The only ones that are trained, likewise; none given: all that are not frozen.
    const char *const *trained;
    size_t trained_count;
    bool batch_statistics;   // of BatchNormalization: see above
    size_t memory_bytes_max; // of all that the trainer holds: parameters, the optimizer's state,
                             // plans, activations, gradients; 0: the engine's own limits
};

// INVALID: an option. NOT_FOUND: no such output; no parameter that an entry of `frozen` or
// `trained` names. UNSUPPORTED: nothing to train. TOO_LARGE: over memory_bytes_max. NOMEM.
BASE_NODISCARD enum base_status eng_trainer_new(struct eng_model *model,
                                                const struct eng_trainer_options *options,
                                                struct eng_trainer **out_trainer,
                                                struct base_error *error);
void eng_trainer_free(struct eng_trainer *trainer); // accepts NULL

// Examples and what they should come to. Borrowed until the call that takes it returns.
struct eng_batch {
    const struct eng_array *inputs; // in the order of the model's inputs, all of them
    size_t input_count;
    const struct eng_array *target;       // of the shape and type that the loss asks for
    const struct eng_run_options *limits; // looked at between commands, and while planning; an
                                          // update counts its elements. NULL: none
};

// One step on one batch: loss, gradients, update. Shapes may change from step to step (each new one
// is planned). *out_loss (NULL allowed) is the loss before the update.
// INVALID: an input or the target does not fit, an index among them is out of range, or a class
// number is none of 0..C-1; the loss is no finite number (*out_loss is that).
// UNSUPPORTED: see above. TOO_LARGE: over memory_bytes_max. TIMEOUT: over the batch's limits.
// NOMEM. Whatever fails changes no parameter: the step can be made again.
BASE_NODISCARD enum base_status eng_trainer_step(struct eng_trainer *trainer,
                                                 const struct eng_batch *batch, float *out_loss,
                                                 struct base_error *error);
// The loss and the gradients without an update.
BASE_NODISCARD enum base_status eng_trainer_evaluate(struct eng_trainer *trainer,
                                                     const struct eng_batch *batch, float *out_loss,
                                                     struct base_error *error);
// The model's outputs for a batch, whose target is not looked at, with the parameters as they are
// now. The codes of eng_trainer_step.
BASE_NODISCARD enum base_status eng_trainer_predict(struct eng_trainer *trainer,
                                                    const struct eng_batch *batch,
                                                    struct base_error *error);
size_t eng_trainer_output_count(const struct eng_trainer *trainer);
// Output `index` of the model as the last prediction gave it: borrowed until the next call of the
// trainer. NOT_FOUND: no such output, or nothing was predicted. UNSUPPORTED: it is no tensor.
BASE_NODISCARD enum base_status eng_trainer_output(const struct eng_trainer *trainer, size_t index,
                                                   struct eng_array *out_array,
                                                   struct base_error *error);
// From the next step on. INVALID: not above 0.
BASE_NODISCARD enum base_status eng_trainer_set_learning_rate(struct eng_trainer *trainer,
                                                              float learning_rate);

// From the next call on: what is held already stays. 0: the engine's own limits.
void eng_trainer_set_memory_max(struct eng_trainer *trainer, size_t memory_bytes_max);

struct eng_parameter {
    const char *name;
    bool is_frozen;
    struct eng_array value; // the trainer's copy: may be written between steps
    const float *gradient;  // of the last step or evaluation, valid until the next; NULL: frozen,
                            // none yet, or the output does not depend on it
};
size_t eng_trainer_parameter_count(const struct eng_trainer *trainer);
// False past the end. Borrowed as long as the trainer.
bool eng_trainer_parameter(const struct eng_trainer *trainer, size_t index,
                           struct eng_parameter *out_parameter);
// Index by name, or -1.
int64_t eng_trainer_parameter_index(const struct eng_trainer *trainer, const char *name);

// Writes every parameter, frozen ones too, as NumPy .npz under their names. IO, NOMEM.
BASE_NODISCARD enum base_status eng_trainer_save(const struct eng_trainer *trainer,
                                                 const char *path, struct base_error *error);
// Reads parameters by name from such a file; those it lacks stay. INVALID: one of another shape or
// type, or it holds none of them; nothing is changed then. IO, NOMEM.
BASE_NODISCARD enum base_status eng_trainer_load(struct eng_trainer *trainer, const char *path,
                                                 struct base_error *error);

// What training came to so far, as bytes: values and moments of the parameters that are trained,
// the running statistics that move, the learning rate and the number of steps. A trainer made the
// same way from the same model that takes them goes on to the bit as this one would have.
size_t eng_trainer_state_bytes(const struct eng_trainer *trainer);
// TOO_LARGE: `size` is less than that.
BASE_NODISCARD enum base_status eng_trainer_state_write(const struct eng_trainer *trainer,
                                                        void *bytes, size_t size,
                                                        struct base_error *error);
// INVALID, TRUNCATED: these are no such bytes, or of another model, optimizer or choice of
// parameters, or a value is no finite number; nothing is changed then.
BASE_NODISCARD enum base_status eng_trainer_state_read(struct eng_trainer *trainer,
                                                       const void *bytes, size_t size,
                                                       struct base_error *error);

// The ONNX file that the model was loaded from with the parameters as they are now. Written in two
// calls: how many bytes it will be, then the bytes. Everything but the values of trained parameters
// (and of statistics that move) is copied as it lies.
// UNSUPPORTED: a parameter is not in the file (loading folded it) or lies in a file of its own.
// INVALID, TRUNCATED: this is no ONNX file.
BASE_NODISCARD enum base_status eng_trainer_export_bytes(const struct eng_trainer *trainer,
                                                         const void *file, size_t size,
                                                         size_t *out_bytes,
                                                         struct base_error *error);
// `bytes` has room for as many as the call above said, for this file.
BASE_NODISCARD enum base_status eng_trainer_export(const struct eng_trainer *trainer,
                                                   const void *file, size_t size, void *bytes,
                                                   struct base_error *error);

struct eng_trainer_stats {
    uint32_t command_count; // of the plan: forward, loss and gradients
    uint32_t forward_count; // of those, the model's and the loss's
    size_t arena_bytes;     // activations and gradients
    size_t parameter_bytes; // with the optimizer's state
    size_t memory_bytes;    // all that it holds, against memory_bytes_max
    uint64_t plan_us;       // time of the last planning
    uint64_t step_count;
    uint64_t work; // of the last step, evaluation or prediction (eng_run_options.work_max)
    float learning_rate;
};
void eng_trainer_stats(const struct eng_trainer *trainer, struct eng_trainer_stats *out_stats);

#endif
