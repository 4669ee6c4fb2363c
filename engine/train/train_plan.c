// The plan of a training step: the model lowered with its float initializers as parameters, the
// loss, the gradients; made ready by the session's executor and run. Called by trainer.c on the
// trainer's thread: planned anew when the shapes of inputs change, run once per step. Fusing comes
// after the gradients were made, for they read what it would take away. A plan is bounded by
// PLAN_BYTES_MAX and freed as a whole; parameters outlive it.
#include "train/train_step.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/clock.h"
#include "lower/lower.h"
#include "program/fuse.h"
#include "train/autodiff.h"
#include "train/train_loss.h"

#include <stdlib.h>
#include <string.h>

#define PLAN_CHUNK     ((size_t)64 << 10)
#define PLAN_BYTES_MAX ((size_t)16 << 30)
#define ALIGNMENT      64u

void eng_train_plan_free(struct eng_trainer *trainer)
{
    struct eng_train_plan *plan = trainer->plan;
    if (plan == NULL) {
        return;
    }
    for (uint32_t i = 0; plan->buffers != NULL && i <= trainer->model->graph->input_count; i++) {
        free(plan->buffers[i]);
    }
    for (uint32_t i = 0; i < trainer->weight_count; i++) {
        trainer->weights[i].gradient = ENG_NONE;
        trainer->weights[i].found = NULL;
    }
    eng_exec_done(&plan->exec);
    base_arena_done(&plan->arena);
    free(plan);
    trainer->plan = NULL;
}

// --- lowering ---------------------------------------------------------------------------------

static enum base_status bind_inputs(struct eng_trainer *trainer, struct eng_lower *lower,
                                    const struct eng_array *inputs)
{
    const struct eng_graph *graph = trainer->model->graph;
    struct eng_train_plan *plan = trainer->plan;
    base_assert(plan != NULL && plan->inputs != NULL);
    for (uint32_t i = 0; i < graph->input_count; i++) {
        plan->input_descs[i] = inputs[i].desc;
        BASE_TRY(eng_lower_bind(lower, graph->inputs[i], &inputs[i].desc, NULL, &plan->inputs[i]));
    }
    return BASE_OK;
}

static enum base_status explain_stop(const struct eng_graph *graph, uint32_t next,
                                     struct base_error *error)
{
    return eng_node_error(&graph->nodes[next], error, BASE_ERR_UNSUPPORTED,
                          "needs contents before running: cannot be trained");
}

// The output as a real PLAIN tensor.
static enum base_status lower_model(struct eng_trainer *trainer, const struct eng_array *inputs,
                                    uint32_t *out_output, struct base_error *error)
{
    base_assert(trainer->plan->program.tensor_count == 0);
    const struct eng_graph *graph = trainer->model->graph;
    struct eng_train_plan *plan = trainer->plan;
    struct eng_lower_options *options = base_arena_zalloc(&plan->arena, sizeof(*options));
    uint32_t next = 0;
    if (options == NULL) {
        return BASE_ERR_NOMEM;
    }
    options->params = true;
    options->fixed = trainer->fixed;
    options->runner_ctx = &trainer->fold;
    options->run_program = eng_fold_run;
    struct eng_lower *lower = eng_lower_new(&plan->arena, &plan->program, graph, options, error);
    if (lower == NULL) {
        return BASE_ERR_NOMEM;
    }
    BASE_TRY(bind_inputs(trainer, lower, inputs));
    enum base_status status = eng_lower_run(lower, 0, &next);
    if (status == BASE_ERR_BUSY) {
        return explain_stop(graph, next, error);
    }
    BASE_TRY(status);
    const struct eng_slot *slot = eng_lower_value(lower, trainer->output);
    if (slot == NULL || slot->type != ENG_VALUE_TENSOR) {
        return base_error_set(error, BASE_ERR_UNSUPPORTED, "the output is not a tensor");
    }
    BASE_TRY(eng_lower_plain(lower, slot->tensor, out_output));
    return eng_lower_real(lower, *out_output, out_output);
}

// --- gradients --------------------------------------------------------------------------------

static struct eng_weight *weight_of(const struct eng_trainer *trainer, uint32_t value)
{
    for (uint32_t i = 0; value != ENG_NONE && i < trainer->weight_count; i++) {
        if (trainer->weights[i].value == value) {
            return &trainer->weights[i];
        }
    }
    return NULL;
}

// Every PARAM tensor is a weight's; trained ones are listed.
static enum base_status find_params(struct eng_trainer *trainer, struct eng_gradient *gradients,
                                    struct eng_weight **weights, uint32_t *out_count,
                                    struct base_error *error)
{
    const struct eng_program *program = &trainer->plan->program;
    *out_count = 0;
    for (uint32_t t = 0; t < program->tensor_count; t++) {
        if (program->tensors[t].kind != ENG_PARAM) {
            continue;
        }
        struct eng_weight *weight = weight_of(trainer, program->tensors[t].value);
        if (weight == NULL) {
            return base_error_set(error, BASE_ERR_UNSUPPORTED,
                                  "parameters inside of a subgraph cannot be trained");
        }
        if (weight->is_trained && *out_count < trainer->weight_count) {
            gradients[*out_count].by = t;
            weights[(*out_count)++] = weight;
        }
    }
    return BASE_OK;
}

static enum base_status differentiate(struct eng_trainer *trainer, struct base_error *error)
{
    struct eng_train_plan *plan = trainer->plan;
    size_t most = (size_t)trainer->weight_count + 1;
    struct eng_gradient *gradients = base_arena_zalloc(&plan->arena, most * sizeof(*gradients));
    struct eng_weight **weights = base_arena_alloc(&plan->arena, most * sizeof(*weights));
    uint32_t count = 0;
    if (gradients == NULL || weights == NULL) {
        return BASE_ERR_NOMEM;
    }
    BASE_TRY(find_params(trainer, gradients, weights, &count, error));
    BASE_TRY(eng_autodiff(&plan->program, plan->loss, gradients, count, error));
    for (uint32_t i = 0; i < count; i++) {
        uint32_t tensor = gradients[i].tensor;
        weights[i]->gradient = tensor;
        if (tensor != ENG_NONE) {
            base_assert(eng_desc_count(&plan->program.tensors[tensor].desc) ==
                        eng_desc_count(&weights[i]->desc));
            plan->program.tensors[tensor].is_output = true;
        }
    }
    plan->program.tensors[plan->loss].is_output = true;
    return BASE_OK;
}

// Fuses what follows each other, now that the gradients have what they read, and counts what
// computes the loss.
static enum base_status optimise(struct eng_train_plan *plan, struct base_error *error)
{
    BASE_TRY(eng_program_optimise(&plan->program, NULL, error));
    for (uint32_t c = 0; c < plan->program.command_count; c++) {
        const struct eng_command *command = &plan->program.commands[c];
        for (uint32_t i = 0; i < command->output_count; i++) {
            plan->forward_count = command->outputs[i] == plan->loss ? c + 1 : plan->forward_count;
        }
    }
    return BASE_OK;
}

// --- planning ---------------------------------------------------------------------------------

static enum base_status make_buffers(struct eng_trainer *trainer)
{
    struct eng_train_plan *plan = trainer->plan;
    uint32_t count = trainer->model->graph->input_count;
    base_assert(plan->target < plan->program.tensor_count);
    for (uint32_t i = 0; i <= count; i++) {
        size_t bytes = eng_desc_bytes(i < count ? &plan->input_descs[i] : &plan->target_desc);
        bytes = (bytes / ALIGNMENT + 1) * ALIGNMENT;
        plan->buffers[i] = aligned_alloc(ALIGNMENT, bytes);
        if (plan->buffers[i] == NULL) {
            return BASE_ERR_NOMEM;
        }
        plan->exec.data[i < count ? plan->inputs[i] : plan->target] = plan->buffers[i];
    }
    return BASE_OK;
}

static void place_params(struct eng_trainer *trainer)
{
    struct eng_train_plan *plan = trainer->plan;
    const struct eng_graph *graph = trainer->model->graph;
    for (uint32_t t = 0; t < plan->program.tensor_count; t++) {
        if (plan->program.tensors[t].kind == ENG_PARAM) {
            const struct eng_weight *weight = weight_of(trainer, plan->program.tensors[t].value);
            base_assert(weight != NULL); // find_params refused others
            const void *read_only = graph->values[weight->value].data;
            plan->exec.data[t] =
                weight->data != NULL ? (void *)weight->data : (void *)(uintptr_t)read_only;
        }
    }
}

static enum base_status build(struct eng_trainer *trainer, const struct eng_batch *batch,
                              struct base_error *error)
{
    base_assert(batch->input_count == trainer->model->graph->input_count);
    struct eng_train_plan *plan = trainer->plan;
    uint32_t count = trainer->model->graph->input_count;
    struct eng_criterion criterion = {.loss = trainer->options.loss,
                                      .from_probabilities = trainer->options.from_probabilities,
                                      .output = ENG_NONE};
    plan->input_descs = base_arena_zalloc(&plan->arena, (count + 1) * sizeof(struct eng_desc));
    plan->inputs = base_arena_zalloc(&plan->arena, (count + 1) * sizeof(uint32_t));
    plan->buffers = base_arena_zalloc(&plan->arena, (count + 1) * sizeof(void *));
    if (plan->input_descs == NULL || plan->inputs == NULL || plan->buffers == NULL) {
        return BASE_ERR_NOMEM;
    }
    BASE_TRY(lower_model(trainer, batch->inputs, &criterion.output, error));
    struct eng_desc desc = plan->program.tensors[criterion.output].desc;
    BASE_TRY(eng_loss_check(criterion.loss, &desc, &batch->target->desc, error));
    plan->target_desc = batch->target->desc;
    plan->classes = eng_loss_classes(criterion.loss, &desc, &plan->target_desc);
    BASE_TRY(eng_program_tensor(&plan->program, ENG_INPUT, ENG_PLAIN, &plan->target_desc,
                                &plan->target));
    criterion.target = plan->target;
    BASE_TRY(eng_loss_emit(&plan->program, &criterion, &plan->loss, error));
    BASE_TRY(differentiate(trainer, error));
    BASE_TRY(optimise(plan, error));
#ifdef BASE_DEBUG
    BASE_TRY(eng_program_validate(&plan->program, error));
#endif
    struct eng_prepare prepare = {.arena = &plan->arena,
                                  .kernels = trainer->kernels,
                                  .pool = trainer->pool,
                                  .precision = ENG_PRECISION_HIGH,
                                  .error = error};
    BASE_TRY(eng_exec_init(&plan->exec, &plan->program, &prepare));
    BASE_TRY(make_buffers(trainer));
    place_params(trainer);
    return BASE_OK;
}

static bool fits(const struct eng_trainer *trainer, const struct eng_batch *batch)
{
    const struct eng_train_plan *plan = trainer->plan;
    if (plan == NULL || !eng_desc_equal(&plan->target_desc, &batch->target->desc)) {
        return false;
    }
    for (uint32_t i = 0; i < trainer->model->graph->input_count; i++) {
        if (!eng_desc_equal(&plan->input_descs[i], &batch->inputs[i].desc)) {
            return false;
        }
    }
    return true;
}

enum base_status eng_train_plan_for(struct eng_trainer *trainer, const struct eng_batch *batch,
                                    struct base_error *error)
{
    base_assert(batch->input_count == trainer->model->graph->input_count);
    if (fits(trainer, batch)) {
        return BASE_OK;
    }
    uint64_t begin_us = base_clock_mono_us();
    eng_train_plan_free(trainer);
    trainer->plan = calloc(1, sizeof(*trainer->plan));
    if (trainer->plan == NULL) {
        return BASE_ERR_NOMEM;
    }
    base_arena_init(&trainer->plan->arena, base_alloc_heap(), PLAN_CHUNK, PLAN_BYTES_MAX);
    eng_program_init(&trainer->plan->program, &trainer->plan->arena);
    enum base_status status = build(trainer, batch, error);
    if (status != BASE_OK) {
        eng_train_plan_free(trainer);
    }
    trainer->plan_us = base_clock_mono_us() - begin_us;
    return status;
}

// --- running ----------------------------------------------------------------------------------

static void copy_in(void *to, const struct eng_array *array)
{
    size_t bytes = eng_desc_bytes(&array->desc);
    if (bytes > 0) {
        memcpy(to, array->data, bytes);
    }
}

enum base_status eng_train_plan_run(struct eng_trainer *trainer, const struct eng_batch *batch,
                                    float *out_loss, struct base_error *error)
{
    struct eng_train_plan *plan = trainer->plan;
    uint32_t count = trainer->model->graph->input_count;
    base_assert(fits(trainer, batch)); // buffers are as large as what is copied into them
    if (plan->classes > 0) {
        BASE_TRY(eng_labels_check(batch->target, plan->classes, error));
    }
    for (uint32_t i = 0; i < count; i++) {
        copy_in(plan->buffers[i], &batch->inputs[i]);
    }
    copy_in(plan->buffers[count], batch->target);
    for (uint32_t i = 0; i < trainer->weight_count; i++) {
        trainer->weights[i].found = NULL;
    }
    BASE_TRY(eng_exec_run(&plan->exec, &(struct eng_exec_run){.pool = trainer->pool,
                                                              .graph = trainer->model->graph,
                                                              .error = error}));
    for (uint32_t i = 0; i < trainer->weight_count; i++) {
        struct eng_weight *weight = &trainer->weights[i];
        weight->found = weight->gradient == ENG_NONE ? NULL : plan->exec.data[weight->gradient];
    }
    if (out_loss != NULL) {
        *out_loss = *(const float *)plan->exec.data[plan->loss];
    }
    return BASE_OK;
}
