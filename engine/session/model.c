// The model half of engine.h: loading, counting references, describing inputs and outputs.
//
// A model is built by one thread and immutable afterwards; only the reference count is atomic and
// the pack cache locks itself. Called by programs on any thread.
#include "model/graph.h"

#include "backend/device_weights.h"
#include "backend/pack.h"
#include "backend/run_watch.h"
#include "base/alloc.h"
#include "base/check.h"
#include "lower/lower.h"
#include "lower/op_forms.h"
#include "model/fold_bn.h"
#include "model/model_file.h"
#include "model/model_key.h"
#include "model/onnx_read.h"

#include <stdlib.h>
#include <string.h>

#define ARENA_CHUNK_BYTES ((size_t)32 << 10)

static void free_model(struct eng_model *model)
{
    eng_pack_cache_free(model->packs);
    eng_device_weights_free(model->device_weights);
    base_arena_done(&model->arena);
    eng_mappings_free(model->mappings);
    free(model);
}

// An empty model with one reference, or NULL.
static struct eng_model *new_model(size_t limit_bytes, bool copy)
{
    struct eng_model *model = calloc(1, sizeof(*model));
    if (model == NULL) {
        return NULL;
    }
    model->refs = 1;
    base_arena_init(&model->arena, base_alloc_heap(), ARENA_CHUNK_BYTES, limit_bytes);
    if (eng_mappings_new(limit_bytes, copy, &model->mappings) != BASE_OK ||
        eng_pack_cache_new(&model->packs) != BASE_OK) {
        free_model(model);
        return NULL;
    }
    return model;
}

static enum base_status describe_ports(struct eng_model *model, const uint32_t *numbers,
                                       uint32_t count, struct eng_port_info **out)
{
    struct eng_port_info *ports = base_arena_zalloc(&model->arena, count * sizeof(*ports));
    if (ports == NULL) {
        return BASE_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < count; i++) {
        base_assert(numbers[i] < model->graph->value_count);
        const struct eng_value *value = &model->graph->values[numbers[i]];
        ports[i].name = value->name;
        ports[i].desc = value->desc;
        ports[i].has_shape = value->has_shape;
        for (uint32_t d = 0; value->dim_names != NULL && d < value->desc.rank; d++) {
            ports[i].dim_names[d] = value->dim_names[d];
        }
    }
    *out = ports;
    return BASE_OK;
}

static enum base_status watch_look(const void *ctx, struct base_error *error)
{
    return eng_watch_look(ctx, error);
}

// Everything after the bytes are there.
static enum base_status build(struct eng_model *model, const struct eng_model_options *options,
                              const void *bytes, size_t size, struct base_error *error)
{
    base_assert(model->graph == NULL);
    const struct eng_run_options *limits = options != NULL ? options->limits : NULL;
    const struct eng_watch watch = {.deadline_us = limits != NULL ? limits->deadline_us : 0,
                                    .stop = limits != NULL ? limits->stop : NULL};
    const struct eng_look look = {limits != NULL ? &watch : NULL, watch_look};
    const struct eng_read_options reading = {
        .bytes = bytes,
        .size = size,
        .mappings = model->mappings,
        .find_op = eng_op_find,
        .check_op = eng_op_form_check,
        .allow_unknown = options != NULL && options->allow_unknown,
        .alloc = base_alloc_heap(),
        .look = &look,
    };
    BASE_TRY(eng_onnx_read(model, &reading, error));
    if (options == NULL || !options->keep_batch_norm) {
        uint32_t folded;
        BASE_TRY(eng_model_fold_bn(model, &look, &folded, error));
    }
    const struct eng_graph *graph = model->graph;
    BASE_TRY(describe_ports(model, graph->inputs, graph->input_count, &model->inputs));
    BASE_TRY(describe_ports(model, graph->outputs, graph->output_count, &model->outputs));
    model->content_key = eng_graph_key(graph);
    return BASE_OK;
}

static size_t limit_of(const struct eng_model_options *options)
{
    return options != NULL && options->file_bytes_max != 0 ? options->file_bytes_max
                                                           : ENG_MODEL_BYTES_MAX;
}

// Hands the model out, or frees it.
static enum base_status finish(struct eng_model *model, enum base_status status,
                               struct eng_model **out_model, struct base_error *error)
{
    if (status != BASE_OK) {
        free_model(model);
        return status == BASE_ERR_NOMEM ? base_error_set(error, status, "out of memory") : status;
    }
    *out_model = model;
    return BASE_OK;
}

enum base_status eng_model_load(const char *path, const struct eng_model_options *options,
                                struct eng_model **out_model, struct base_error *error)
{
    struct eng_model *model = new_model(limit_of(options), options != NULL && options->copy_files);
    if (model == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "out of memory");
    }
    const void *bytes = NULL;
    size_t size = 0;
    enum base_status status = eng_mappings_open(model->mappings, path, &bytes, &size, error);
    if (status == BASE_OK) {
        const char *folder = options != NULL ? options->external_folder : NULL;
        status = eng_mappings_folder(model->mappings, folder, path, error);
    }
    if (status == BASE_OK) {
        status = build(model, options, bytes, size, error);
    }
    return finish(model, status, out_model, error);
}

enum base_status eng_model_load_memory(const void *bytes, size_t size,
                                       const struct eng_model_options *options,
                                       struct eng_model **out_model, struct base_error *error)
{
    if (size > limit_of(options)) {
        return base_error_set(error, BASE_ERR_TOO_LARGE, "%zu bytes are over the limit", size);
    }
    struct eng_model *model = new_model(limit_of(options), options != NULL && options->copy_files);
    if (model == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "out of memory");
    }
    enum base_status status = BASE_OK;
    if (options != NULL && options->external_folder != NULL) {
        status = eng_mappings_folder(model->mappings, options->external_folder, "", error);
    }
    if (status == BASE_OK) {
        status = build(model, options, bytes, size, error);
    }
    return finish(model, status, out_model, error);
}

struct eng_model *eng_model_ref(struct eng_model *model)
{
    uint32_t before = __atomic_fetch_add(&model->refs, 1, __ATOMIC_RELAXED);
    base_assert(before > 0); // who asks for a reference holds one
    return model;
}

void eng_model_unref(struct eng_model *model)
{
    if (model == NULL) {
        return;
    }
    uint32_t before = __atomic_fetch_sub(&model->refs, 1, __ATOMIC_ACQ_REL);
    base_assert(before > 0);
    if (before == 1) {
        free_model(model);
    }
}

size_t eng_model_input_count(const struct eng_model *model)
{
    return model->graph->input_count;
}

size_t eng_model_output_count(const struct eng_model *model)
{
    return model->graph->output_count;
}

const struct eng_port_info *eng_model_input(const struct eng_model *model, size_t index)
{
    return index < model->graph->input_count ? &model->inputs[index] : NULL;
}

const struct eng_port_info *eng_model_output(const struct eng_model *model, size_t index)
{
    return index < model->graph->output_count ? &model->outputs[index] : NULL;
}

static int64_t index_of(const struct eng_port_info *ports, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(ports[i].name, name) == 0) {
            return (int64_t)i;
        }
    }
    return -1;
}

int64_t eng_model_input_index(const struct eng_model *model, const char *name)
{
    return index_of(model->inputs, model->graph->input_count, name);
}

int64_t eng_model_output_index(const struct eng_model *model, const char *name)
{
    return index_of(model->outputs, model->graph->output_count, name);
}
