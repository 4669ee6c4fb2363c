// The structural hash of a graph: nodes, attributes, shapes and small constants, subgraphs
// included. Called once per load by model.c, on the loading thread; pure. It names a model in the
// cache of measured choices (search/), where the same net should meet itself in the next process;
// so of constants only those of up to SMALL_CONSTANT_BYTES count, which are mostly shapes, and
// hashing does not read the weights in from disk.
#include "model/model_key.h"

#include "base/check.h"
#include "base/hash.h"

#include <string.h>

#define SMALL_CONSTANT_BYTES 256u

static uint64_t mix(uint64_t key, const void *bytes, size_t size)
{
    return size == 0 ? key : base_hash64_seed(bytes, size, key);
}

static uint64_t mix_text(uint64_t key, const char *text)
{
    return mix(key, text, strlen(text) + 1);
}

static uint64_t mix_number(uint64_t key, uint64_t number)
{
    return mix(key, &number, sizeof(number));
}

static uint64_t mix_desc(uint64_t key, const struct eng_desc *desc)
{
    key = mix_number(key, (uint64_t)desc->dtype << 32 | desc->rank);
    return mix(key, desc->dims, desc->rank * sizeof(desc->dims[0]));
}

static uint64_t mix_array(uint64_t key, const struct eng_desc *desc, const void *data)
{
    key = mix_desc(key, desc);
    size_t bytes = eng_desc_bytes(desc);
    return desc->dtype != ENG_STRING && bytes <= SMALL_CONSTANT_BYTES ? mix(key, data, bytes) : key;
}

static uint64_t mix_attr(uint64_t key, const struct eng_attr *attr)
{
    key = mix_number(mix_text(key, attr->name), attr->kind);
    switch (attr->kind) {
    case ENG_ATTR_INT:
        return mix(key, &attr->u.i, sizeof(attr->u.i));
    case ENG_ATTR_FLOAT:
        return mix(key, &attr->u.f, sizeof(attr->u.f));
    case ENG_ATTR_STRING:
        return mix(key, attr->u.s.at, attr->u.s.size);
    case ENG_ATTR_INTS:
        return mix(key, attr->u.ints, attr->count * sizeof(attr->u.ints[0]));
    case ENG_ATTR_FLOATS:
        return mix(key, attr->u.floats, attr->count * sizeof(attr->u.floats[0]));
    case ENG_ATTR_TENSOR:
        return mix_array(key, &attr->u.tensor.desc, attr->u.tensor.data);
    case ENG_ATTR_GRAPH: // depth was bounded when the file was read
        return mix_number(key, eng_graph_key(attr->u.graph));
    default:
        return mix_number(key, attr->count);
    }
}

uint64_t eng_graph_key(const struct eng_graph *graph)
{
    uint64_t key = mix_number(0, (uint64_t)graph->node_count << 32 | graph->value_count);
    for (uint32_t v = 0; v < graph->value_count; v++) {
        const struct eng_value *value = &graph->values[v];
        if (value->is_initializer) {
            key = mix_array(mix_number(key, v), &value->desc, value->data);
        }
    }
    for (uint32_t i = 0; i < graph->input_count; i++) {
        base_assert(graph->inputs[i] < graph->value_count);
        key = mix_desc(mix_number(key, graph->inputs[i]), &graph->values[graph->inputs[i]].desc);
    }
    key = mix(key, graph->outputs, graph->output_count * sizeof(graph->outputs[0]));
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const struct eng_node *node = &graph->nodes[n];
        key = mix_text(mix_text(key, node->domain), node->op);
        key = mix_number(key, (uint64_t)(uint32_t)node->opset << 32 | node->attr_count);
        key = mix(key, node->inputs, node->input_count * sizeof(node->inputs[0]));
        key = mix(key, node->outputs, node->output_count * sizeof(node->outputs[0]));
        for (uint32_t a = 0; a < node->attr_count; a++) {
            key = mix_attr(key, &node->attrs[a]);
        }
    }
    return key;
}
