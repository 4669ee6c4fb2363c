// Any bytes as an ONNX model: an error or a model whose description can be read.
#include "fuzz_target.h"

#include "base/check.h"
#include "engine/engine.h"
#include "model/graph.h"

#include <string.h>

static void check_graph(const struct eng_graph *graph)
{
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const struct eng_node *node = &graph->nodes[n];
        base_check(node->impl != NULL);
        for (uint32_t i = 0; i < node->input_count; i++) {
            uint32_t value = node->inputs[i];
            base_check(value == ENG_NONE || value < graph->value_count);
            uint32_t producer = value == ENG_NONE ? ENG_NONE : graph->values[value].producer;
            base_check(producer == ENG_NONE || producer < n);
        }
        for (uint32_t a = 0; a < node->attr_count; a++) {
            if (node->attrs[a].kind == ENG_ATTR_GRAPH) {
                check_graph(node->attrs[a].u.graph);
            }
        }
    }
    // Every byte of every constant is there.
    static volatile uint8_t sink;
    for (uint32_t v = 0; v < graph->value_count; v++) {
        const struct eng_value *value = &graph->values[v];
        if (value->is_initializer) {
            size_t bytes = eng_desc_bytes(&value->desc);
            for (size_t i = 0; i < bytes; i++) {
                sink = ((const uint8_t *)value->data)[i];
            }
        }
    }
    (void)sink;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct eng_model *model;
    struct base_error error = {0};
    enum base_status status = eng_model_load_memory(data, size, NULL, &model, &error);
    if (status != BASE_OK) {
        base_check(error.status == status);
        base_check(error.text[0] != '\0');
        return 0;
    }
    for (size_t i = 0; i < eng_model_input_count(model); i++) {
        const struct eng_port_info *info = eng_model_input(model, i);
        base_check(eng_model_input_index(model, info->name) == (int64_t)i);
        base_check(info->desc.rank <= ENG_RANK_MAX);
    }
    for (size_t i = 0; i < eng_model_output_count(model); i++) {
        base_check(eng_model_output_index(model, eng_model_output(model, i)->name) >= 0);
    }
    check_graph(model->graph);
    eng_model_unref(model);
    return 0;
}
