// Trainers: making and freeing them, steps, parameters by name, files of weights.
//
// Users of train.h call these on the trainer's own thread. The model is shared and never changed.
#include "train/train_step.h"

#include "backend/cpu/kernel/kernels.h"
#include "base/alloc.h"
#include "base/check.h"
#include "base/hash.h"
#include "model/tensor_file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TRAINER_CHUNK ((size_t)64 << 10)
#define ALIGNMENT     64u

// --- options ----------------------------------------------------------------------------------

static bool is_share(float value) // 0..1, 1 excluded
{
    return value >= 0 && value < 1;
}

static bool is_rate(float value)
{
    return value > 0 && isfinite(value);
}

static enum base_status check_options(struct eng_trainer_options *trainer_options,
                                      struct base_error *error)
{
    trainer_options->beta1 = trainer_options->beta1 == 0 ? 0.9F : trainer_options->beta1;
    trainer_options->beta2 = trainer_options->beta2 == 0 ? 0.999F : trainer_options->beta2;
    trainer_options->epsilon = trainer_options->epsilon == 0 ? 1e-8F : trainer_options->epsilon;
    trainer_options->threads = trainer_options->threads == 0 ? 1 : trainer_options->threads;
    const char *wrong =
        (unsigned)trainer_options->loss > ENG_LOSS_BCE                           ? "loss"
        : (unsigned)trainer_options->optimizer > ENG_OPTIMIZER_ADAM              ? "optimizer"
        : !is_rate(trainer_options->learning_rate)                               ? "learning rate"
        : !is_share(trainer_options->momentum)                                   ? "momentum"
        : !is_share(trainer_options->beta1) || !is_share(trainer_options->beta2) ? "beta"
        : !(trainer_options->epsilon > 0)                                        ? "epsilon"
        : !(trainer_options->weight_decay >= 0) || isinf(trainer_options->weight_decay)
            ? "weight decay"
        : trainer_options->threads > ENG_THREADS_MAX ? "number of threads"
                                                     : NULL;
    if (wrong != NULL) {
        return base_error_set(error, BASE_ERR_INVALID, "%s out of range", wrong);
    }
    return BASE_OK;
}

static enum base_status find_output(struct eng_trainer *trainer, struct base_error *error)
{
    const struct eng_graph *graph = trainer->model->graph;
    const char *name = trainer->options.output;
    for (uint32_t i = 0; i < graph->output_count; i++) {
        if (name == NULL || strcmp(graph->values[graph->outputs[i]].name, name) == 0) {
            trainer->output = graph->outputs[i];
            return BASE_OK;
        }
    }
    return base_error_set(error, BASE_ERR_NOT_FOUND, "no output '%s'", name != NULL ? name : "");
}

static enum base_status choose_kernels(struct eng_trainer *trainer, struct base_error *error)
{
    const char *isa = trainer->options.isa;
    if (isa == NULL) {
        isa = getenv("WALLE_ENGINE_ISA");
    }
    if (isa != NULL && strcmp(isa, "ref") == 0) {
        return BASE_OK;
    }
    isa = isa != NULL && isa[0] == '\0' ? NULL : isa;
    trainer->kernels = eng_kernels_find(isa);
    if (trainer->kernels == NULL) {
        return base_error_set(error, BASE_ERR_INVALID, "instruction set '%s' is not there",
                              isa != NULL ? isa : "");
    }
    return BASE_OK;
}

// --- parameters -------------------------------------------------------------------------------

static bool rule_fits(const char *rule, const char *name)
{
    size_t length = strlen(rule);
    bool is_beginning = length > 0 && rule[length - 1] == '*';
    return is_beginning ? strncmp(rule, name, length - 1) == 0 : strcmp(rule, name) == 0;
}

static bool any_fits(const char *const *rules, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (rule_fits(rules[i], name)) {
            return true;
        }
    }
    return false;
}

static bool is_frozen(const struct eng_trainer_options *options, const char *name)
{
    return any_fits(options->frozen, options->frozen_count, name) ||
           (options->trained_count > 0 &&
            !any_fits(options->trained, options->trained_count, name));
}

// Each rule has to name something: a misspelt one would train what it should not.
static enum base_status check_rules(const struct eng_trainer *trainer, const char *const *rules,
                                    size_t count, struct base_error *error)
{
    for (size_t r = 0; r < count; r++) {
        bool fits = false;
        for (uint32_t i = 0; i < trainer->parameter_count && !fits; i++) {
            fits = rule_fits(rules[r], trainer->weights[i].name);
        }
        if (!fits) {
            return base_error_set(error, BASE_ERR_NOT_FOUND, "the model has no parameter '%.80s'",
                                  rules[r]);
        }
    }
    return BASE_OK;
}

static bool is_float(enum eng_dtype dtype)
{
    return dtype == ENG_F32 || dtype == ENG_F64 || dtype == ENG_F16 || dtype == ENG_BF16;
}

static float *floats(struct eng_trainer *trainer, int64_t count)
{
    uint8_t *memory = base_arena_zalloc(&trainer->arena, (size_t)count * sizeof(float) + ALIGNMENT);
    return memory == NULL ? NULL
                          : (float *)(void *)(memory + (ALIGNMENT - (uintptr_t)memory % ALIGNMENT));
}

// Running statistics of BatchNormalization: what was measured, not learnt.
static void find_statistics(const struct eng_graph *graph, bool *is_statistic)
{
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const struct eng_node *node = &graph->nodes[n];
        if (strcmp(node->op, "BatchNormalization") != 0 || node->domain[0] != '\0') {
            continue;
        }
        for (uint32_t i = 3; i < 5 && i < node->input_count; i++) {
            if (node->inputs[i] != ENG_NONE) {
                is_statistic[node->inputs[i]] = true;
            }
        }
    }
}

// Initializers that are nothing but bounds of Clip: settings, written as tensors since opset 11.
static enum base_status find_bounds(struct eng_trainer *trainer)
{
    const struct eng_graph *graph = trainer->model->graph;
    bool *is_read = base_arena_zalloc(&trainer->arena, (size_t)graph->value_count + 1);
    trainer->fixed = base_arena_zalloc(&trainer->arena, (size_t)graph->value_count + 1);
    if (is_read == NULL || trainer->fixed == NULL) {
        return BASE_ERR_NOMEM;
    }
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const struct eng_node *node = &graph->nodes[n];
        const bool is_clip = strcmp(node->op, "Clip") == 0 && node->domain[0] == '\0';
        for (uint32_t i = 0; i < node->input_count; i++) {
            if (node->inputs[i] != ENG_NONE) {
                (is_clip && i > 0 ? trainer->fixed : is_read)[node->inputs[i]] = true;
            }
        }
    }
    for (uint32_t v = 0; v < graph->value_count; v++) {
        trainer->fixed[v] = trainer->fixed[v] && !is_read[v];
    }
    return BASE_OK;
}

static enum base_status add_weight(struct eng_trainer *trainer, uint32_t value, bool is_fixed)
{
    const struct eng_value *info = &trainer->model->graph->values[value];
    struct eng_weight *weight = &trainer->weights[trainer->weight_count];
    int64_t count = eng_desc_count(&info->desc);
    base_assert(info->is_initializer && is_float(info->desc.dtype));
    *weight = (struct eng_weight){
        .value = value,
        .name = info->name,
        .desc = info->desc,
        .gradient = ENG_NONE,
        .moved = ENG_NONE,
    };
    if (info->desc.dtype == ENG_F32) {
        weight->is_statistic = is_fixed && trainer->options.batch_statistics && count > 0;
        weight->is_trained = !is_fixed && info->desc.rank > 0 && count > 0 &&
                             !is_frozen(&trainer->options, info->name);
        weight->data = floats(trainer, count);
        weight->first = weight->is_trained ? floats(trainer, count) : NULL;
        weight->second = weight->is_trained && trainer->options.optimizer == ENG_OPTIMIZER_ADAM
                             ? floats(trainer, count)
                             : NULL;
        if (weight->data == NULL || (weight->is_trained && weight->first == NULL)) {
            return BASE_ERR_NOMEM;
        }
        if (weight->is_trained && trainer->options.optimizer == ENG_OPTIMIZER_ADAM &&
            weight->second == NULL) {
            return BASE_ERR_NOMEM;
        }
        if (count > 0) {
            memcpy(weight->data, info->data, (size_t)count * sizeof(float));
        }
        trainer->origin = base_hash64_seed(info->name, strlen(info->name), trainer->origin);
        trainer->origin =
            base_hash64_seed(weight->data, (size_t)count * sizeof(float), trainer->origin);
    }
    trainer->weight_count++;
    return BASE_OK;
}

// Finds weights by value, and parameters by name.
static enum base_status index_weights(struct eng_trainer *trainer)
{
    const uint32_t values = trainer->model->graph->value_count;
    trainer->weight_at = base_arena_alloc(&trainer->arena, (values + 1) * sizeof(uint32_t));
    if (trainer->weight_at == NULL) {
        return BASE_ERR_NOMEM;
    }
    for (uint32_t v = 0; v < values; v++) {
        trainer->weight_at[v] = ENG_NONE;
    }
    base_assert(trainer->parameter_count <= trainer->weight_count);
    eng_name_map_init(&trainer->names, &trainer->arena);
    for (uint32_t i = 0; i < trainer->weight_count; i++) {
        trainer->weight_at[trainer->weights[i].value] = i;
        if (i < trainer->parameter_count) {
            enum base_status status =
                eng_name_map_add(&trainer->names, trainer->weights[i].name, i);
            if (status != BASE_OK && status != BASE_ERR_EXISTS) {
                return status;
            }
        }
    }
    return BASE_OK;
}

static enum base_status add_weights(struct eng_trainer *trainer, struct base_error *error)
{
    const struct eng_graph *graph = trainer->model->graph;
    uint32_t count = 0, trained = 0;
    for (uint32_t v = 0; v < graph->value_count; v++) {
        count += graph->values[v].is_initializer && is_float(graph->values[v].desc.dtype);
    }
    trainer->weights = base_arena_zalloc(&trainer->arena, (count + 1) * sizeof(struct eng_weight));
    bool *is_statistic = base_arena_zalloc(&trainer->arena, (size_t)graph->value_count + 1);
    if (trainer->weights == NULL || is_statistic == NULL) {
        return BASE_ERR_NOMEM;
    }
    find_statistics(graph, is_statistic);
    BASE_TRY(find_bounds(trainer));
    for (int other = 0; other < 2; other++) { // float32 first
        for (uint32_t v = 0; v < graph->value_count; v++) {
            const struct eng_value *info = &graph->values[v];
            if (info->is_initializer && is_float(info->desc.dtype) && !trainer->fixed[v] &&
                (info->desc.dtype != ENG_F32) == (other != 0)) {
                BASE_TRY(add_weight(trainer, v, is_statistic[v]));
            }
        }
        trainer->parameter_count = other == 0 ? trainer->weight_count : trainer->parameter_count;
    }
    base_assert(trainer->weight_count <= count);
    BASE_TRY(index_weights(trainer));
    const struct eng_trainer_options *options = &trainer->options;
    BASE_TRY(check_rules(trainer, options->frozen, options->frozen_count, error));
    BASE_TRY(check_rules(trainer, options->trained, options->trained_count, error));
    for (uint32_t i = 0; i < trainer->weight_count; i++) {
        trained += trainer->weights[i].is_trained;
    }
    if (trained == 0) {
        return base_error_set(error, BASE_ERR_UNSUPPORTED, "the model has nothing to train");
    }
    return BASE_OK;
}

// --- making and freeing -----------------------------------------------------------------------

static enum base_status fill(struct eng_trainer *trainer, struct base_error *error)
{
    BASE_TRY(check_options(&trainer->options, error));
    BASE_TRY(find_output(trainer, error));
    BASE_TRY(choose_kernels(trainer, error));
    BASE_TRY(add_weights(trainer, error));
    BASE_TRY(eng_pool_new(trainer->options.threads, &trainer->pool));
    eng_fold_init(&trainer->fold, trainer->kernels, trainer->pool);
    trainer->fold.watch = &trainer->watch;
    if (trainer->options.memory_bytes_max != 0) {
        trainer->fold.arena.limit_bytes = trainer->options.memory_bytes_max;
    }
    trainer->options.frozen = NULL;
    trainer->options.frozen_count = 0;
    trainer->options.trained = NULL;
    trainer->options.trained_count = 0;
    trainer->options.output = NULL;
    return BASE_OK;
}

// Gives failures without a text one.
static enum base_status explained(enum base_status status, struct base_error *error)
{
    if (status != BASE_OK && error != NULL && error->text[0] == '\0') {
        return base_error_set(error, status, "%s", base_status_text(status));
    }
    if (status != BASE_OK && error != NULL) {
        error->status = status;
    }
    return status;
}

enum base_status eng_trainer_new(struct eng_model *model, const struct eng_trainer_options *options,
                                 struct eng_trainer **out_trainer, struct base_error *error)
{
    struct base_error local;
    error = error != NULL ? error : &local;
    *error = (struct base_error){0};
    struct eng_trainer *trainer = calloc(1, sizeof(*trainer));
    if (trainer == NULL) {
        return explained(BASE_ERR_NOMEM, error);
    }
    trainer->model = eng_model_ref(model);
    base_assert(trainer->model->graph != NULL);
    trainer->options = *options;
    size_t most = options->memory_bytes_max;
    most = most != 0 && most < ENG_TRAINER_BYTES_MAX ? most : ENG_TRAINER_BYTES_MAX;
    base_arena_init(&trainer->arena, base_alloc_heap(), TRAINER_CHUNK, most);
    enum base_status status = fill(trainer, error);
    if (status == BASE_ERR_NOMEM && trainer->arena.was_full) {
        status = base_error_set(error, BASE_ERR_TOO_LARGE,
                                "the parameters and the optimizer's state need more than %zu bytes",
                                most);
    }
    if (status != BASE_OK) {
        eng_trainer_free(trainer);
        return explained(status, error);
    }
    *out_trainer = trainer;
    return BASE_OK;
}

void eng_trainer_free(struct eng_trainer *trainer)
{
    if (trainer == NULL) {
        return;
    }
    eng_train_plan_free(trainer);
    eng_fold_done(&trainer->fold);
    eng_pool_free(trainer->pool);
    base_arena_done(&trainer->arena);
    eng_model_unref(trainer->model);
    free(trainer);
}

// --- steps ------------------------------------------------------------------------------------

static enum base_status check_input(const struct eng_value *value, const struct eng_desc *desc,
                                    struct base_error *error)
{
    int64_t count = 0;
    char have[96];
    char want[96];
    bool fits = eng_desc_check(desc, &count) == BASE_OK && value->type != ENG_VALUE_SEQUENCE &&
                desc->dtype != ENG_STRING &&
                (value->desc.dtype == ENG_UNDEFINED || value->desc.dtype == desc->dtype);
    if (value->has_shape) {
        fits = fits && value->desc.rank == desc->rank;
        for (uint32_t d = 0; fits && d < desc->rank; d++) {
            fits = value->desc.dims[d] < 0 || value->desc.dims[d] == desc->dims[d];
        }
    }
    if (!fits) {
        return base_error_set(error, BASE_ERR_INVALID, "input '%s' is %s, not %s", value->name,
                              eng_desc_text(&value->desc, want, sizeof(want)),
                              eng_desc_text(desc, have, sizeof(have)));
    }
    return BASE_OK;
}

// Inputs that fit the model; the limits of the call from here on.
static enum base_status begin(struct eng_trainer *trainer, const struct eng_batch *batch,
                              struct base_error *error)
{
    const struct eng_graph *graph = trainer->model->graph;
    trainer->has_predicted = false;
    trainer->watch = (struct eng_watch){0};
    if (batch->limits != NULL) {
        trainer->watch = (struct eng_watch){.deadline_us = batch->limits->deadline_us,
                                            .stop = batch->limits->stop,
                                            .work_max = batch->limits->work_max};
    }
    if (batch->input_count != graph->input_count) {
        return base_error_set(error, BASE_ERR_INVALID, "the model has %u inputs, not %zu",
                              graph->input_count, batch->input_count);
    }
    for (uint32_t i = 0; i < graph->input_count; i++) {
        BASE_TRY(check_input(&graph->values[graph->inputs[i]], &batch->inputs[i].desc, error));
    }
    return BASE_OK;
}

static enum base_status run_batch(struct eng_trainer *trainer, const struct eng_batch *batch,
                                  float *out_loss, struct base_error *error)
{
    BASE_TRY(begin(trainer, batch, error));
    BASE_TRY(eng_train_plan_for(trainer, false, batch, error));
    return eng_train_plan_run(trainer, batch, out_loss, error);
}

enum base_status eng_trainer_evaluate(struct eng_trainer *trainer, const struct eng_batch *batch,
                                      float *out_loss, struct base_error *error)
{
    struct base_error local;
    error = error != NULL ? error : &local;
    *error = (struct base_error){0};
    return explained(run_batch(trainer, batch, out_loss, error), error);
}

// Elements that an update writes, in units of work.
static uint64_t update_work(const struct eng_trainer *trainer)
{
    uint64_t work = 0;
    for (uint32_t i = 0; i < trainer->weight_count; i++) {
        const struct eng_weight *weight = &trainer->weights[i];
        uint64_t count = (uint64_t)eng_desc_count(&weight->desc);
        work += weight->found != NULL ? count * (weight->second != NULL ? 3 : 2) : 0;
        work += weight->moved != ENG_NONE ? count : 0;
    }
    return work;
}

enum base_status eng_trainer_step(struct eng_trainer *trainer, const struct eng_batch *batch,
                                  float *out_loss, struct base_error *error)
{
    float loss = 0;
    base_assert(trainer->parameter_count > 0);
    BASE_TRY(eng_trainer_evaluate(trainer, batch, &loss, error));
    if (out_loss != NULL) {
        *out_loss = loss;
    }
    if (!isfinite(loss)) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "the loss is no finite number, so no parameter was changed: see to "
                              "the examples, or a lower learning rate");
    }
    BASE_TRY(explained(eng_watch_spend(&trainer->watch, update_work(trainer), error), error));
    trainer->steps++;
    for (uint32_t i = 0; i < trainer->weight_count; i++) {
        struct eng_weight *weight = &trainer->weights[i];
        if (weight->found != NULL) {
            eng_train_update(&trainer->options, trainer->steps, weight, trainer->pool);
        }
        if (weight->moved != ENG_NONE) {
            memcpy(weight->data, trainer->plan->exec.data[weight->moved],
                   eng_desc_bytes(&weight->desc));
        }
    }
    return BASE_OK;
}

enum base_status eng_trainer_predict(struct eng_trainer *trainer, const struct eng_batch *batch,
                                     struct base_error *error)
{
    struct base_error local;
    error = error != NULL ? error : &local;
    *error = (struct base_error){0};
    enum base_status status = begin(trainer, batch, error);
    if (status == BASE_OK) {
        status = eng_train_plan_for(trainer, true, batch, error);
    }
    if (status == BASE_OK) {
        status = eng_train_plan_predict(trainer, batch, error);
    }
    trainer->has_predicted = status == BASE_OK;
    return explained(status, error);
}

size_t eng_trainer_output_count(const struct eng_trainer *trainer)
{
    return trainer->model->graph->output_count;
}

enum base_status eng_trainer_output(const struct eng_trainer *trainer, size_t index,
                                    struct eng_array *out_array, struct base_error *error)
{
    if (!trainer->has_predicted || index >= trainer->model->graph->output_count) {
        return base_error_set(error, BASE_ERR_NOT_FOUND, "no output %zu was predicted", index);
    }
    const struct eng_train_plan *plan = trainer->forward;
    uint32_t tensor = plan->outputs[index];
    if (tensor == ENG_NONE) {
        return base_error_set(error, BASE_ERR_UNSUPPORTED, "output %zu is not a tensor", index);
    }
    *out_array = (struct eng_array){plan->program.tensors[tensor].desc, plan->exec.data[tensor]};
    return BASE_OK;
}

enum base_status eng_trainer_set_learning_rate(struct eng_trainer *trainer, float learning_rate)
{
    if (!is_rate(learning_rate)) {
        return BASE_ERR_INVALID;
    }
    trainer->options.learning_rate = learning_rate;
    return BASE_OK;
}

void eng_trainer_set_memory_max(struct eng_trainer *trainer, size_t memory_bytes_max)
{
    trainer->options.memory_bytes_max = memory_bytes_max;
}

// --- parameters by index and name -------------------------------------------------------------

size_t eng_trainer_parameter_count(const struct eng_trainer *trainer)
{
    return trainer->parameter_count;
}

bool eng_trainer_parameter(const struct eng_trainer *trainer, size_t index,
                           struct eng_parameter *out_parameter)
{
    if (index >= trainer->parameter_count) {
        return false;
    }
    const struct eng_weight *weight = &trainer->weights[index];
    *out_parameter = (struct eng_parameter){.name = weight->name,
                                            .is_frozen = !weight->is_trained,
                                            .value = {weight->desc, weight->data},
                                            .gradient = weight->found};
    return true;
}

int64_t eng_trainer_parameter_index(const struct eng_trainer *trainer, const char *name)
{
    uint32_t index = 0;
    return eng_name_map_find(&trainer->names, name, &index) ? (int64_t)index : -1;
}

// --- files ------------------------------------------------------------------------------------

enum base_status eng_trainer_save(const struct eng_trainer *trainer, const char *path,
                                  struct base_error *error)
{
    size_t count = trainer->parameter_count;
    base_assert(count > 0); // a trainer with nothing to train is not made
    struct eng_array *arrays = calloc(count, sizeof(*arrays));
    const char **names = calloc(count, sizeof(*names));
    enum base_status status = BASE_ERR_NOMEM;
    if (arrays != NULL && names != NULL) {
        for (size_t i = 0; i < count; i++) {
            arrays[i] = (struct eng_array){trainer->weights[i].desc, trainer->weights[i].data};
            names[i] = trainer->weights[i].name;
        }
        struct eng_tensor_list list = {.kind = ENG_VALUE_SEQUENCE,
                                       .count = trainer->parameter_count,
                                       .arrays = arrays,
                                       .names = names};
        status = eng_tensor_file_write(path, &list, error);
    }
    free(arrays);
    free(names);
    return status;
}

// Two passes: everything is checked before anything is changed.
static enum base_status take_list(struct eng_trainer *trainer, const struct eng_tensor_list *list,
                                  const char *path, struct base_error *error)
{
    bool some = false;
    for (uint32_t i = 0; i < list->count && !some; i++) {
        some = eng_trainer_parameter_index(trainer, list->names[i]) >= 0;
    }
    if (!some) {
        return base_error_set(error, BASE_ERR_INVALID, "%.120s holds none of the model's weights",
                              path);
    }
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < list->count; i++) {
            int64_t index = eng_trainer_parameter_index(trainer, list->names[i]);
            if (index < 0) {
                continue;
            }
            struct eng_weight *weight = &trainer->weights[index];
            base_assert(weight->data != NULL); // parameters are those of float32, which are copied
            if (!eng_desc_equal(&weight->desc, &list->arrays[i].desc)) {
                return base_error_set(error, BASE_ERR_INVALID, "'%s' has another shape or type",
                                      weight->name);
            }
            if (pass == 1 && eng_desc_count(&weight->desc) > 0) {
                memcpy(weight->data, list->arrays[i].data, eng_desc_bytes(&weight->desc));
            }
        }
    }
    return BASE_OK;
}

enum base_status eng_trainer_load(struct eng_trainer *trainer, const char *path,
                                  struct base_error *error)
{
    struct base_arena arena;
    struct eng_tensor_list list = {0};
    base_arena_init(&arena, base_alloc_heap(), TRAINER_CHUNK, ENG_TRAINER_BYTES_MAX);
    enum base_status status = eng_tensor_file_read(path, ENG_VALUE_SEQUENCE, &arena, &list, error);
    if (status == BASE_OK) {
        status = take_list(trainer, &list, path, error);
    }
    base_arena_done(&arena);
    return status;
}

// --- statistics -------------------------------------------------------------------------------

void eng_trainer_stats(const struct eng_trainer *trainer, struct eng_trainer_stats *out_stats)
{
    struct eng_trainer_stats stats = {.memory_bytes = eng_train_bytes_held(trainer),
                                      .plan_us = trainer->plan_us,
                                      .step_count = trainer->steps,
                                      .work = trainer->watch.work,
                                      .learning_rate = trainer->options.learning_rate};
    for (uint32_t i = 0; i < trainer->parameter_count; i++) {
        const struct eng_weight *weight = &trainer->weights[i];
        size_t copies = 1u + (weight->first != NULL) + (weight->second != NULL);
        stats.parameter_bytes += copies * eng_desc_bytes(&weight->desc);
    }
    if (trainer->plan != NULL) {
        stats.command_count = trainer->plan->program.command_count;
        stats.forward_count = trainer->plan->forward_count;
        stats.arena_bytes = trainer->plan->exec.buffer_bytes;
    }
    *out_stats = stats;
}
