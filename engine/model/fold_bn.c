// y = scale * (conv(x, w) + b - mean) / sqrt(var + epsilon) + shift is a convolution again:
//   factor[m] = scale[m] / sqrt(var[m] + epsilon)
//   w'[m, ...] = w[m, ...] * factor[m],  b'[m] = (b[m] - mean[m]) * factor[m] + shift[m]
// Called by model.c after the graph is read, on the loading thread.
#include "model/fold_bn.h"

#include "base/alloc.h"
#include "base/check.h"
#include "model/graph_sort.h"
#include "model/model_file.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// Which input of BatchNormalization is what.
enum { BN_X, BN_SCALE, BN_SHIFT, BN_MEAN, BN_VAR, BN_INPUTS };

struct fold {
    struct eng_model *model;
    struct eng_graph *graph;
    uint32_t *uses; // by value: nodes, captures and graph outputs that read it
    uint32_t value_capacity;
    uint32_t folded;
};

static void count_uses(const struct eng_graph *graph, uint32_t *uses)
{
    for (uint32_t i = 0; i < graph->output_count; i++) {
        base_assert(graph->outputs[i] < graph->value_count);
        uses[graph->outputs[i]]++;
    }
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const struct eng_node *node = &graph->nodes[n];
        for (uint32_t i = 0; i < node->input_count; i++) {
            if (node->inputs[i] != ENG_NONE) {
                uses[node->inputs[i]]++;
            }
        }
        for (uint32_t a = 0; a < node->attr_count; a++) {
            if (node->attrs[a].kind == ENG_ATTR_GRAPH) {
                const struct eng_graph *inner = node->attrs[a].u.graph;
                for (uint32_t c = 0; c < inner->capture_count; c++) {
                    base_assert(inner->captures[c].outer < graph->value_count);
                    uses[inner->captures[c].outer]++;
                }
            }
        }
    }
}

static bool is_onnx(const struct eng_node *node, const char *op)
{
    return node->domain[0] == '\0' && strcmp(node->op, op) == 0;
}

// The value when it is a constant float32 tensor, else NULL.
static const struct eng_value *constant(const struct fold *fold, const struct eng_node *node,
                                        uint32_t input)
{
    if (input >= node->input_count || node->inputs[input] == ENG_NONE) {
        return NULL;
    }
    base_assert(node->inputs[input] < fold->graph->value_count);
    const struct eng_value *value = &fold->graph->values[node->inputs[input]];
    return value->is_initializer && value->desc.dtype == ENG_F32 ? value : NULL;
}

static const float *channel_values(const struct fold *fold, const struct eng_node *bn,
                                   uint32_t input, int64_t channels)
{
    const struct eng_value *value = constant(fold, bn, input);
    bool fits = value != NULL && value->desc.rank == 1 && value->desc.dims[0] == channels &&
                (uintptr_t)value->data % sizeof(float) == 0;
    return fits ? value->data : NULL;
}

static bool is_inference_form(const struct eng_node *bn)
{
    if (!is_onnx(bn, "BatchNormalization") || bn->input_count != BN_INPUTS ||
        bn->inputs[BN_X] == ENG_NONE || bn->output_count == 0 || bn->outputs[0] == ENG_NONE) {
        return false;
    }
    for (uint32_t o = 1; o < bn->output_count; o++) {
        if (bn->outputs[o] != ENG_NONE) {
            return false; // statistics are asked for
        }
    }
    return eng_node_int(bn, "training_mode", 0) == 0 && eng_node_int(bn, "spatial", 1) == 1;
}

// Weights seen as [outer, channels, inner] of one group each: the channel of element (g, o, c, i)
// is g * channels + c.
struct weight_view {
    int64_t groups, outer, channels, inner;
};

static bool view_weights(const struct eng_node *node, const struct eng_desc *weights,
                         struct weight_view *out)
{
    int64_t group = eng_node_int(node, "group", 1);
    if (is_onnx(node, "Conv") && weights->rank >= 3 && weights->dims[0] > 0) {
        *out = (struct weight_view){1, 1, weights->dims[0],
                                    eng_desc_count(weights) / weights->dims[0]};
        return true;
    }
    if (is_onnx(node, "ConvTranspose") && weights->rank >= 3 && group > 0 &&
        weights->dims[0] % group == 0 && weights->dims[0] > 0 && weights->dims[1] > 0) {
        int64_t inner = eng_desc_count(weights) / (weights->dims[0] * weights->dims[1]);
        *out = (struct weight_view){group, weights->dims[0] / group, weights->dims[1], inner};
        return true;
    }
    if (is_onnx(node, "Gemm") && weights->rank == 2 && eng_node_float(node, "beta", 1.0F) == 1.0F) {
        bool swapped = eng_node_int(node, "transB", 0) != 0;
        *out = swapped ? (struct weight_view){1, 1, weights->dims[0], weights->dims[1]}
                       : (struct weight_view){1, weights->dims[0], weights->dims[1], 1};
        return true;
    }
    return false;
}

// Adds a constant made here, whose elements lie in the model's arena. Its name says where it comes
// from.
static enum base_status add_constant(struct fold *fold, const char *base_name, const char *suffix,
                                     const struct eng_array *array, uint32_t *out)
{
    struct eng_graph *graph = fold->graph;
    base_assert(graph->value_count <= fold->value_capacity);
    if (graph->value_count == fold->value_capacity) {
        uint32_t capacity = fold->value_capacity + fold->value_capacity / 4 + 16;
        struct eng_value *values =
            base_arena_alloc(&fold->model->arena, capacity * sizeof(*graph->values));
        if (values == NULL) {
            return BASE_ERR_NOMEM;
        }
        memcpy(values, graph->values, graph->value_count * sizeof(*values));
        graph->values = values;
        fold->value_capacity = capacity;
    }
    char name[ENG_NAME_BYTES_MAX + 1];
    (void)snprintf(name, sizeof(name), "%.1000s%s", base_name, suffix);
    const char *kept = base_arena_text(&fold->model->arena, name, strlen(name));
    if (kept == NULL) {
        return BASE_ERR_NOMEM;
    }
    *out = graph->value_count++;
    graph->values[*out] = (struct eng_value){
        .name = kept,
        .type = ENG_VALUE_TENSOR,
        .has_shape = true,
        .desc = array->desc,
        .data = array->data,
        .is_initializer = true,
        .producer = ENG_NONE,
    };
    return BASE_OK;
}

static void scale_weights(const struct weight_view *view, const double *factors, float *weights)
{
    for (int64_t g = 0; g < view->groups; g++) {
        for (int64_t o = 0; o < view->outer; o++) {
            for (int64_t c = 0; c < view->channels; c++) {
                double factor = factors[g * view->channels + c];
                for (int64_t i = 0; i < view->inner; i++) {
                    *weights = (float)((double)*weights * factor);
                    weights++;
                }
            }
        }
    }
}

struct folding {
    const struct eng_node *bn;
    struct eng_node *node;
    struct weight_view view;
    const struct eng_value *weights;
    const float *bias; // NULL: zeros
    const float *parameters[BN_INPUTS];
    int64_t channels;
};

static enum base_status rewrite(struct fold *fold, const struct folding *folding)
{
    struct base_arena *arena = &fold->model->arena;
    size_t weight_bytes = eng_desc_bytes(&folding->weights->desc);
    size_t channels = (size_t)folding->channels;
    const struct weight_view *view = &folding->view;
    base_assert(view->groups * view->channels == folding->channels);
    base_assert(view->groups * view->outer * view->channels * view->inner ==
                eng_desc_count(&folding->weights->desc));
    float *weights = base_arena_alloc(arena, weight_bytes);
    float *bias = base_arena_alloc(arena, channels * sizeof(*bias));
    double *factors = base_arena_alloc(arena, channels * sizeof(*factors));
    uint32_t *inputs = base_arena_alloc(arena, 3 * sizeof(*inputs));
    uint32_t *outputs = base_arena_alloc(arena, sizeof(*outputs));
    if (weights == NULL || bias == NULL || factors == NULL || inputs == NULL || outputs == NULL) {
        return BASE_ERR_NOMEM;
    }
    double epsilon = (double)eng_node_float(folding->bn, "epsilon", 1e-5F);
    for (size_t c = 0; c < channels; c++) {
        factors[c] = (double)folding->parameters[BN_SCALE][c] /
                     sqrt((double)folding->parameters[BN_VAR][c] + epsilon);
        double start = folding->bias != NULL ? (double)folding->bias[c] : 0.0;
        bias[c] = (float)((start - (double)folding->parameters[BN_MEAN][c]) * factors[c] +
                          (double)folding->parameters[BN_SHIFT][c]);
    }
    memcpy(weights, folding->weights->data, weight_bytes); // may lie at any address
    scale_weights(&folding->view, factors, weights);
    eng_mappings_release(fold->model->mappings, folding->weights->data, weight_bytes);

    const char *name = folding->weights->name;
    const struct eng_array folded = {folding->weights->desc, weights};
    const struct eng_array folded_bias = {
        {.dtype = ENG_F32, .rank = 1, .dims = {folding->channels}}, bias};
    inputs[0] = folding->node->inputs[0];
    BASE_TRY(add_constant(fold, name, "/folded", &folded, &inputs[1]));
    BASE_TRY(add_constant(fold, name, "/folded_bias", &folded_bias, &inputs[2]));
    outputs[0] = folding->bn->outputs[0];
    struct eng_value *between = &fold->graph->values[folding->bn->inputs[BN_X]];
    between->is_folded = true;
    between->producer = ENG_NONE;
    folding->node->inputs = inputs;
    folding->node->input_count = 3;
    folding->node->outputs = outputs;
    fold->graph->values[outputs[0]].producer = folding->node->index;
    fold->folded++;
    return BASE_OK;
}

// Whether the two nodes can be one; fills what rewriting needs.
static bool match(const struct fold *fold, const struct eng_node *bn, struct folding *out)
{
    if (!is_inference_form(bn)) {
        return false;
    }
    const struct eng_value *x = &fold->graph->values[bn->inputs[BN_X]];
    if (x->producer == ENG_NONE || fold->uses[bn->inputs[BN_X]] != 1) {
        return false;
    }
    base_assert(x->producer < fold->graph->node_count);
    struct eng_node *node = &fold->graph->nodes[x->producer];
    const struct eng_value *weights = constant(fold, node, 1);
    if (weights == NULL || node->inputs[0] == ENG_NONE || node->output_count != 1) {
        return false;
    }
    *out = (struct folding){.bn = bn, .node = node, .weights = weights};
    if (!view_weights(node, &weights->desc, &out->view)) {
        return false;
    }
    out->channels = out->view.groups * out->view.channels;
    if (node->input_count > 2 && node->inputs[2] != ENG_NONE) {
        const struct eng_value *bias = constant(fold, node, 2);
        if (bias == NULL || bias->desc.rank != 1 || bias->desc.dims[0] != out->channels ||
            (uintptr_t)bias->data % sizeof(float) != 0) {
            return false;
        }
        out->bias = bias->data;
    }
    for (uint32_t i = BN_SCALE; i < BN_INPUTS; i++) {
        out->parameters[i] = channel_values(fold, bn, i, out->channels);
        if (out->parameters[i] == NULL) {
            return false;
        }
    }
    return true;
}

enum base_status eng_model_fold_bn(struct eng_model *model, const struct eng_look *look,
                                   uint32_t *out_folded, struct base_error *error)
{
    struct eng_graph *graph = model->graph;
    struct base_arena scratch;
    base_assert(graph->parent == NULL); // uses from outside of a graph are not counted
    base_arena_init(&scratch, base_alloc_heap(), 0, 0);
    struct fold f = {.model = model, .graph = graph, .value_capacity = graph->value_count};
    f.uses = base_arena_zalloc(&scratch, (graph->value_count + 1) * sizeof(*f.uses));
    enum base_status status = f.uses == NULL ? BASE_ERR_NOMEM : BASE_OK;
    if (status == BASE_OK) {
        count_uses(graph, f.uses);
    }
    for (uint32_t n = 0; status == BASE_OK && n < graph->node_count; n++) {
        struct folding found;
        status = eng_look(look, error);
        if (status == BASE_OK && match(&f, &graph->nodes[n], &found)) {
            status = rewrite(&f, &found);
            graph->nodes[n].output_count = 0; // nobody asks for it any more: pruned below
        }
    }
    if (status == BASE_OK && f.folded > 0) {
        status = eng_graph_prune(graph, &scratch);
    }
    *out_folded = f.folded;
    base_arena_done(&scratch);
    return status;
}
