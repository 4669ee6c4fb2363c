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

static void plan_free(struct eng_trainer *trainer, struct eng_train_plan *plan)
{
    if (plan == NULL) {
        return;
    }
    for (uint32_t i = 0; plan->buffers != NULL && i <= trainer->model->graph->input_count; i++) {
        free(plan->buffers[i]);
    }
    for (uint32_t i = 0; !plan->is_forward && i < trainer->weight_count; i++) {
        trainer->weights[i].gradient = ENG_NONE;
        trainer->weights[i].moved = ENG_NONE;
        trainer->weights[i].found = NULL;
    }
    eng_exec_done(&plan->exec);
    base_arena_done(&plan->arena);
    free(plan);
}

void eng_train_plan_free(struct eng_trainer *trainer)
{
    plan_free(trainer, trainer->plan);
    plan_free(trainer, trainer->forward);
    trainer->plan = NULL;
    trainer->forward = NULL;
    trainer->has_predicted = false;
}

// --- memory -----------------------------------------------------------------------------------

static size_t buffer_bytes(const struct eng_desc *desc)
{
    return (eng_desc_bytes(desc) / ALIGNMENT + 1) * ALIGNMENT;
}

static size_t plan_bytes(const struct eng_trainer *trainer, const struct eng_train_plan *plan)
{
    size_t bytes = 0;
    if (plan == NULL) {
        return 0;
    }
    for (uint32_t i = 0; plan->buffers != NULL && i <= trainer->model->graph->input_count; i++) {
        if (plan->buffers[i] != NULL) {
            bytes += buffer_bytes(i < trainer->model->graph->input_count ? &plan->input_descs[i]
                                                                         : &plan->target_desc);
        }
    }
    return bytes + plan->arena.used_bytes + plan->exec.buffer_bytes + plan->exec.scratch_bytes;
}

size_t eng_train_bytes_held(const struct eng_trainer *trainer)
{
    return trainer->arena.used_bytes + plan_bytes(trainer, trainer->plan) +
           plan_bytes(trainer, trainer->forward);
}

size_t eng_train_bytes_left(const struct eng_trainer *trainer)
{
    size_t most = trainer->options.memory_bytes_max;
    size_t held = eng_train_bytes_held(trainer);
    return most == 0 ? PLAN_BYTES_MAX : most > held ? most - held : 1;
}

// --- lowering ---------------------------------------------------------------------------------

// What functions below build: a plan for one batch.
struct build {
    struct eng_trainer *trainer;
    struct eng_train_plan *plan;
    const struct eng_batch *batch;
    uint32_t *statistics; // as eng_lower_options.statistics
    struct base_error *error;
};

static enum base_status bind_inputs(const struct build *build, struct eng_lower *lower)
{
    const struct eng_graph *graph = build->trainer->model->graph;
    struct eng_train_plan *plan = build->plan;
    base_assert(plan->inputs != NULL);
    for (uint32_t i = 0; i < graph->input_count; i++) {
        plan->input_descs[i] = build->batch->inputs[i].desc;
        BASE_TRY(
            eng_lower_bind(lower, graph->inputs[i], &plan->input_descs[i], NULL, &plan->inputs[i]));
    }
    return BASE_OK;
}

static enum base_status explain_stop(const struct eng_graph *graph, uint32_t next,
                                     struct base_error *error)
{
    return eng_node_error(&graph->nodes[next], error, BASE_ERR_UNSUPPORTED,
                          "needs contents before running: cannot be trained");
}

// A value as a real PLAIN tensor; ENG_NONE: it is no tensor.
static enum base_status real_value(struct eng_lower *lower, uint32_t value, uint32_t *out)
{
    const struct eng_slot *slot = eng_lower_value(lower, value);
    *out = ENG_NONE;
    if (slot == NULL || slot->type != ENG_VALUE_TENSOR) {
        return BASE_OK;
    }
    BASE_TRY(eng_lower_plain(lower, slot->tensor, out));
    return eng_lower_real(lower, *out, out);
}

// The nodes as commands. Of a step, *out_output is what the loss reads.
static enum base_status lower_model(struct build *build, uint32_t *out_output)
{
    struct eng_trainer *trainer = build->trainer;
    struct eng_train_plan *plan = build->plan;
    const struct eng_graph *graph = trainer->model->graph;
    struct eng_lower_options *options = base_arena_zalloc(&plan->arena, sizeof(*options));
    uint32_t next = 0;
    base_assert(plan->program.tensor_count == 0);
    if (options == NULL) {
        return BASE_ERR_NOMEM;
    }
    options->params = true;
    options->fixed = trainer->fixed;
    options->statistics = build->statistics;
    options->runner_ctx = &trainer->fold;
    options->run_program = eng_fold_run;
    struct eng_lower *lower =
        eng_lower_new(&plan->arena, &plan->program, graph, options, build->error);
    if (lower == NULL) {
        return BASE_ERR_NOMEM;
    }
    BASE_TRY(bind_inputs(build, lower));
    enum base_status status = eng_lower_run(lower, 0, &next);
    if (status == BASE_ERR_BUSY) {
        return explain_stop(graph, next, build->error);
    }
    BASE_TRY(status);
    for (uint32_t i = 0; plan->is_forward && i < graph->output_count; i++) {
        BASE_TRY(real_value(lower, graph->outputs[i], &plan->outputs[i]));
    }
    if (plan->is_forward) {
        return BASE_OK;
    }
    BASE_TRY(real_value(lower, trainer->output, out_output));
    return *out_output != ENG_NONE
               ? BASE_OK
               : base_error_set(build->error, BASE_ERR_UNSUPPORTED, "the output is not a tensor");
}

// --- gradients --------------------------------------------------------------------------------

static struct eng_weight *weight_of(const struct eng_trainer *trainer, uint32_t value)
{
    uint32_t index = value != ENG_NONE ? trainer->weight_at[value] : ENG_NONE;
    return index != ENG_NONE ? &trainer->weights[index] : NULL;
}

// Every PARAM tensor is a weight's; trained ones are listed.
static enum base_status find_params(const struct build *build, struct eng_gradient *gradients,
                                    struct eng_weight **weights, uint32_t *out_count)
{
    const struct eng_trainer *trainer = build->trainer;
    const struct eng_program *program = &build->plan->program;
    *out_count = 0;
    for (uint32_t t = 0; t < program->tensor_count; t++) {
        if (program->tensors[t].kind != ENG_PARAM) {
            continue;
        }
        struct eng_weight *weight = weight_of(trainer, program->tensors[t].value);
        if (weight == NULL) {
            return base_error_set(build->error, BASE_ERR_UNSUPPORTED,
                                  "parameters inside of a subgraph cannot be trained");
        }
        if (gradients != NULL && weight->is_trained && *out_count < trainer->weight_count) {
            gradients[*out_count].by = t;
            weights[(*out_count)++] = weight;
        }
    }
    return BASE_OK;
}

static enum base_status differentiate(const struct build *build)
{
    const struct eng_trainer *trainer = build->trainer;
    struct eng_train_plan *plan = build->plan;
    size_t most = (size_t)trainer->weight_count + 1;
    struct eng_gradient *gradients = base_arena_zalloc(&plan->arena, most * sizeof(*gradients));
    struct eng_weight **weights = base_arena_alloc(&plan->arena, most * sizeof(*weights));
    uint32_t count = 0;
    if (gradients == NULL || weights == NULL) {
        return BASE_ERR_NOMEM;
    }
    BASE_TRY(find_params(build, gradients, weights, &count));
    BASE_TRY(eng_autodiff(&plan->program, plan->loss, gradients, count, build->error));
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

static enum base_status make_buffers(const struct build *build)
{
    struct eng_train_plan *plan = build->plan;
    uint32_t count = build->trainer->model->graph->input_count;
    for (uint32_t i = 0; i < count + (plan->is_forward ? 0 : 1); i++) {
        plan->buffers[i] = aligned_alloc(
            ALIGNMENT, buffer_bytes(i < count ? &plan->input_descs[i] : &plan->target_desc));
        if (plan->buffers[i] == NULL) {
            return BASE_ERR_NOMEM;
        }
        plan->exec.data[i < count ? plan->inputs[i] : plan->target] = plan->buffers[i];
    }
    return BASE_OK;
}

static void place_params(const struct build *build)
{
    struct eng_train_plan *plan = build->plan;
    const struct eng_graph *graph = build->trainer->model->graph;
    for (uint32_t t = 0; t < plan->program.tensor_count; t++) {
        if (plan->program.tensors[t].kind == ENG_PARAM) {
            const struct eng_weight *weight =
                weight_of(build->trainer, plan->program.tensors[t].value);
            base_assert(weight != NULL); // find_params refused others
            const void *read_only = graph->values[weight->value].data;
            plan->exec.data[t] =
                weight->data != NULL ? (void *)weight->data : (void *)(uintptr_t)read_only;
        }
    }
}

// Where what the running statistics become is found.
static void note_statistics(const struct build *build)
{
    for (uint32_t i = 0; i < build->trainer->weight_count; i++) {
        struct eng_weight *weight = &build->trainer->weights[i];
        uint32_t moved = build->statistics[weight->value];
        if (weight->is_statistic && moved != ENG_NONE) {
            base_assert(eng_desc_bytes(&build->plan->program.tensors[moved].desc) ==
                        eng_desc_bytes(&weight->desc));
            weight->moved = moved;
            build->plan->program.tensors[moved].is_output = true;
        }
    }
}

// The commands of a step: loss, gradients, and what moves the statistics.
static enum base_status emit_step(struct build *build)
{
    struct eng_trainer *trainer = build->trainer;
    struct eng_train_plan *plan = build->plan;
    struct eng_criterion criterion = {.loss = trainer->options.loss,
                                      .from_probabilities = trainer->options.from_probabilities,
                                      .output = ENG_NONE};
    const struct eng_desc *target = &build->batch->target->desc;
    base_assert(!plan->is_forward && build->statistics == NULL);
    if (trainer->options.batch_statistics) {
        uint32_t count = trainer->model->graph->value_count;
        build->statistics = base_arena_alloc(&plan->arena, (count + 1) * sizeof(uint32_t));
        if (build->statistics == NULL) {
            return BASE_ERR_NOMEM;
        }
        for (uint32_t v = 0; v <= count; v++) {
            build->statistics[v] = ENG_NONE;
        }
    }
    BASE_TRY(lower_model(build, &criterion.output));
    struct eng_desc desc = plan->program.tensors[criterion.output].desc;
    BASE_TRY(eng_loss_check(criterion.loss, &desc, target, build->error));
    plan->target_desc = *target;
    plan->classes = eng_loss_classes(criterion.loss, &desc, &plan->target_desc);
    BASE_TRY(eng_program_tensor(&plan->program, ENG_INPUT, ENG_PLAIN, &plan->target_desc,
                                &plan->target));
    criterion.target = plan->target;
    BASE_TRY(eng_loss_emit(&plan->program, &criterion, &plan->loss, build->error));
    BASE_TRY(differentiate(build));
    if (build->statistics != NULL) {
        note_statistics(build);
    }
    return BASE_OK;
}

static enum base_status emit_forward(struct build *build)
{
    const struct eng_graph *graph = build->trainer->model->graph;
    struct eng_train_plan *plan = build->plan;
    uint32_t ignored = 0;
    plan->outputs = base_arena_alloc(&plan->arena, (graph->output_count + 1) * sizeof(uint32_t));
    if (plan->outputs == NULL) {
        return BASE_ERR_NOMEM;
    }
    BASE_TRY(lower_model(build, &ignored));
    BASE_TRY(find_params(build, NULL, NULL, &ignored));
    for (uint32_t i = 0; i < graph->output_count; i++) {
        if (plan->outputs[i] != ENG_NONE) {
            plan->program.tensors[plan->outputs[i]].is_output = true;
        }
    }
    return BASE_OK;
}

static enum base_status build_plan(struct build *build)
{
    struct eng_trainer *trainer = build->trainer;
    struct eng_train_plan *plan = build->plan;
    uint32_t count = trainer->model->graph->input_count;
    base_assert(build->batch->input_count == count);
    plan->input_descs = base_arena_zalloc(&plan->arena, (count + 1) * sizeof(struct eng_desc));
    plan->inputs = base_arena_zalloc(&plan->arena, (count + 1) * sizeof(uint32_t));
    plan->buffers = base_arena_zalloc(&plan->arena, (count + 1) * sizeof(void *));
    if (plan->input_descs == NULL || plan->inputs == NULL || plan->buffers == NULL) {
        return BASE_ERR_NOMEM;
    }
    BASE_TRY(plan->is_forward ? emit_forward(build) : emit_step(build));
    BASE_TRY(optimise(plan, build->error));
#ifdef BASE_DEBUG
    BASE_TRY(eng_program_validate(&plan->program, build->error));
#endif
    size_t held = plan_bytes(trainer, plan);
    size_t most = plan->arena.limit_bytes;
    struct eng_prepare prepare = {.arena = &plan->arena,
                                  .kernels = trainer->kernels,
                                  .pool = trainer->pool,
                                  .precision = ENG_PRECISION_HIGH,
                                  .buffer_bytes_max = most > held ? most - held : 1,
                                  .watch = &trainer->watch,
                                  .error = build->error};
    BASE_TRY(eng_exec_init(&plan->exec, &plan->program, &prepare));
    BASE_TRY(make_buffers(build));
    place_params(build);
    held = plan_bytes(trainer, plan);
    if (held > most) {
        return base_error_set(build->error, BASE_ERR_TOO_LARGE,
                              "the plan needs %zu bytes, and %zu are left", held, most);
    }
    return BASE_OK;
}

static bool fits(const struct eng_trainer *trainer, const struct eng_train_plan *plan,
                 const struct eng_batch *batch)
{
    if (plan == NULL ||
        (!plan->is_forward && !eng_desc_equal(&plan->target_desc, &batch->target->desc))) {
        return false;
    }
    for (uint32_t i = 0; i < trainer->model->graph->input_count; i++) {
        if (!eng_desc_equal(&plan->input_descs[i], &batch->inputs[i].desc)) {
            return false;
        }
    }
    return true;
}

enum base_status eng_train_plan_for(struct eng_trainer *trainer, bool is_forward,
                                    const struct eng_batch *batch, struct base_error *error)
{
    struct eng_train_plan **at = is_forward ? &trainer->forward : &trainer->plan;
    base_assert(batch->input_count == trainer->model->graph->input_count);
    if (fits(trainer, *at, batch)) {
        return BASE_OK;
    }
    uint64_t begin_us = base_clock_mono_us();
    plan_free(trainer, *at);
    *at = NULL;
    struct eng_train_plan *plan = calloc(1, sizeof(*plan));
    if (plan == NULL) {
        return BASE_ERR_NOMEM;
    }
    plan->is_forward = is_forward;
    base_arena_init(&plan->arena, base_alloc_heap(), PLAN_CHUNK, eng_train_bytes_left(trainer));
    eng_program_init(&plan->program, &plan->arena);
    struct build build = {.trainer = trainer, .plan = plan, .batch = batch, .error = error};
    enum base_status status = build_plan(&build);
    if (status == BASE_ERR_NOMEM && plan->arena.was_full) {
        status = base_error_set(error, BASE_ERR_TOO_LARGE,
                                "the plan's program needs more than the %zu bytes that are left",
                                plan->arena.limit_bytes);
    }
    if (status != BASE_OK) {
        plan_free(trainer, plan);
    } else {
        *at = plan;
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

static enum base_status run(struct eng_trainer *trainer, struct eng_train_plan *plan,
                            struct base_error *error)
{
    return eng_exec_run(&plan->exec, &(struct eng_exec_run){.pool = trainer->pool,
                                                            .graph = trainer->model->graph,
                                                            .watch = &trainer->watch,
                                                            .error = error});
}

static void inputs_in(const struct eng_trainer *trainer, struct eng_train_plan *plan,
                      const struct eng_batch *batch)
{
    base_assert(fits(trainer, plan, batch)); // buffers are as large as what is copied into them
    for (uint32_t i = 0; i < trainer->model->graph->input_count; i++) {
        copy_in(plan->buffers[i], &batch->inputs[i]);
    }
}

enum base_status eng_train_plan_run(struct eng_trainer *trainer, const struct eng_batch *batch,
                                    float *out_loss, struct base_error *error)
{
    struct eng_train_plan *plan = trainer->plan;
    base_assert(plan != NULL && batch->target != NULL);
    if (plan->classes > 0) {
        BASE_TRY(eng_labels_check(batch->target, plan->classes, error));
    } else {
        BASE_TRY(eng_chances_check(trainer->options.loss, batch->target, error));
    }
    inputs_in(trainer, plan, batch);
    copy_in(plan->buffers[batch->input_count], batch->target);
    for (uint32_t i = 0; i < trainer->weight_count; i++) {
        trainer->weights[i].found = NULL;
    }
    BASE_TRY(run(trainer, plan, error));
    for (uint32_t i = 0; i < trainer->weight_count; i++) {
        struct eng_weight *weight = &trainer->weights[i];
        weight->found = weight->gradient == ENG_NONE ? NULL : plan->exec.data[weight->gradient];
    }
    if (out_loss != NULL) {
        *out_loss = *(const float *)plan->exec.data[plan->loss];
    }
    return BASE_OK;
}

enum base_status eng_train_plan_predict(struct eng_trainer *trainer, const struct eng_batch *batch,
                                        struct base_error *error)
{
    base_assert(trainer->forward != NULL && trainer->forward->is_forward);
    inputs_in(trainer, trainer->forward, batch);
    return run(trainer, trainer->forward, error);
}
