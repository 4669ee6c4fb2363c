// Writes small ONNX models for tests, field by field, so that tests need no files and can break any
// rule. Buffers are the heap's; `_take` functions release the inner message.
#ifndef TESTS_ONNX_BYTES_H
#define TESTS_ONNX_BYTES_H

#include "base/alloc.h"
#include "base/buffer.h"
#include "base/check.h"
#include "engine/tensor.h"

#include <string.h>

// Field numbers of the messages (onnx.proto).
enum {
    OB_MODEL_IR = 1,
    OB_MODEL_PRODUCER = 2,
    OB_MODEL_GRAPH = 7,
    OB_MODEL_OPSET = 8,
    OB_MODEL_FUNCTION = 25,
    OB_GRAPH_NODE = 1,
    OB_GRAPH_NAME = 2,
    OB_GRAPH_INITIALIZER = 5,
    OB_GRAPH_INPUT = 11,
    OB_GRAPH_OUTPUT = 12,
    OB_GRAPH_SPARSE = 15,
    OB_NODE_INPUT = 1,
    OB_NODE_OUTPUT = 2,
    OB_NODE_NAME = 3,
    OB_NODE_OP = 4,
    OB_NODE_ATTR = 5,
    OB_NODE_DOMAIN = 7,
    OB_ATTR_NAME = 1,
    OB_ATTR_F = 2,
    OB_ATTR_I = 3,
    OB_ATTR_S = 4,
    OB_ATTR_T = 5,
    OB_ATTR_G = 6,
    OB_ATTR_INTS = 8,
    OB_ATTR_TYPE = 20,
    OB_TENSOR_DIMS = 1,
    OB_TENSOR_TYPE = 2,
    OB_TENSOR_FLOATS = 4,
    OB_TENSOR_INT32S = 5,
    OB_TENSOR_STRINGS = 6,
    OB_TENSOR_INT64S = 7,
    OB_TENSOR_NAME = 8,
    OB_TENSOR_RAW = 9,
    OB_TENSOR_EXTERNAL = 13,
    OB_TENSOR_LOCATION = 14,
};

static inline struct base_buffer ob_new(void)
{
    struct base_buffer buffer;
    base_buffer_init(&buffer, base_alloc_heap(), 0);
    return buffer;
}

static inline void ob_add(struct base_buffer *to, const void *bytes, size_t size)
{
    base_check(size == 0 || base_buffer_add(to, bytes, size) == BASE_OK);
}

static inline void ob_varint(struct base_buffer *to, uint64_t value)
{
    do {
        uint8_t byte = (uint8_t)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
        ob_add(to, &byte, 1);
        value >>= 7;
    } while (value != 0);
}

static inline void ob_number(struct base_buffer *to, uint32_t field, int64_t value)
{
    ob_varint(to, (uint64_t)field << 3);
    ob_varint(to, (uint64_t)value);
}

static inline void ob_float(struct base_buffer *to, uint32_t field, float value)
{
    ob_varint(to, (uint64_t)field << 3 | 5);
    ob_add(to, &value, sizeof(value));
}

static inline void ob_bytes(struct base_buffer *to, uint32_t field, const void *bytes, size_t size)
{
    ob_varint(to, (uint64_t)field << 3 | 2);
    ob_varint(to, size);
    ob_add(to, bytes, size);
}

static inline void ob_text(struct base_buffer *to, uint32_t field, const char *text)
{
    ob_bytes(to, field, text, strlen(text));
}

static inline void ob_take(struct base_buffer *to, uint32_t field, struct base_buffer inner)
{
    ob_bytes(to, field, inner.data, inner.size);
    base_buffer_done(&inner);
}

// Texts separated by commas, each as one occurrence of the field; "" among them is an empty one.
static inline void ob_list(struct base_buffer *to, uint32_t field, const char *names)
{
    while (names != NULL && *names != '\0') {
        size_t size = strcspn(names, ",");
        ob_bytes(to, field, names, size);
        names += size;
        names += *names == ',' ? 1 : 0;
    }
}

static inline struct base_buffer ob_tensor(const char *name, enum eng_dtype dtype, uint32_t rank,
                                           const int64_t *dims)
{
    struct base_buffer tensor = ob_new();
    for (uint32_t d = 0; d < rank; d++) {
        ob_number(&tensor, OB_TENSOR_DIMS, dims[d]);
    }
    ob_number(&tensor, OB_TENSOR_TYPE, (int64_t)dtype);
    ob_text(&tensor, OB_TENSOR_NAME, name);
    return tensor;
}

static inline struct base_buffer ob_raw_tensor(const char *name, enum eng_dtype dtype,
                                               uint32_t rank, const int64_t *dims, const void *data,
                                               size_t size)
{
    struct base_buffer tensor = ob_tensor(name, dtype, rank, dims);
    ob_bytes(&tensor, OB_TENSOR_RAW, data, size);
    return tensor;
}

// A tensor's type and shape under a name; a dimension below 0 is symbolic, called "n".
static inline struct base_buffer ob_value(const char *name, enum eng_dtype dtype, uint32_t rank,
                                          const int64_t *dims)
{
    struct base_buffer shape = ob_new();
    for (uint32_t d = 0; d < rank; d++) {
        struct base_buffer dim = ob_new();
        if (dims[d] < 0) {
            ob_text(&dim, 2, "n");
        } else {
            ob_number(&dim, 1, dims[d]);
        }
        ob_take(&shape, 1, dim);
    }
    struct base_buffer tensor = ob_new();
    ob_number(&tensor, 1, (int64_t)dtype);
    ob_take(&tensor, 2, shape);
    struct base_buffer type = ob_new();
    ob_take(&type, 1, tensor);
    struct base_buffer value = ob_new();
    ob_text(&value, 1, name);
    ob_take(&value, 2, type);
    return value;
}

// A node; its attributes are added to the result with ob_attr_*.
static inline struct base_buffer ob_node(const char *op, const char *name, const char *inputs,
                                         const char *outputs)
{
    struct base_buffer node = ob_new();
    ob_list(&node, OB_NODE_INPUT, inputs);
    ob_list(&node, OB_NODE_OUTPUT, outputs);
    ob_text(&node, OB_NODE_NAME, name);
    ob_text(&node, OB_NODE_OP, op);
    return node;
}

static inline void ob_attr_int(struct base_buffer *node, const char *name, int64_t value)
{
    struct base_buffer attr = ob_new();
    ob_text(&attr, OB_ATTR_NAME, name);
    ob_number(&attr, OB_ATTR_I, value);
    ob_number(&attr, OB_ATTR_TYPE, 2);
    ob_take(node, OB_NODE_ATTR, attr);
}

static inline void ob_attr_float(struct base_buffer *node, const char *name, float value)
{
    struct base_buffer attr = ob_new();
    ob_text(&attr, OB_ATTR_NAME, name);
    ob_float(&attr, OB_ATTR_F, value);
    ob_number(&attr, OB_ATTR_TYPE, 1);
    ob_take(node, OB_NODE_ATTR, attr);
}

static inline void ob_attr_take(struct base_buffer *node, const char *name, uint32_t field,
                                int64_t type, struct base_buffer inner)
{
    struct base_buffer attr = ob_new();
    ob_text(&attr, OB_ATTR_NAME, name);
    ob_take(&attr, field, inner);
    ob_number(&attr, OB_ATTR_TYPE, type);
    ob_take(node, OB_NODE_ATTR, attr);
}

static inline void ob_attr_tensor(struct base_buffer *node, const char *name,
                                  struct base_buffer tensor)
{
    ob_attr_take(node, name, OB_ATTR_T, 4, tensor);
}

static inline void ob_attr_graph(struct base_buffer *node, const char *name,
                                 struct base_buffer graph)
{
    ob_attr_take(node, name, OB_ATTR_G, 5, graph);
}

static inline struct base_buffer ob_opset(const char *domain, int64_t version)
{
    struct base_buffer opset = ob_new();
    ob_text(&opset, 1, domain);
    ob_number(&opset, 2, version);
    return opset;
}

static inline struct base_buffer ob_model(int64_t ir, int64_t opset, struct base_buffer graph)
{
    struct base_buffer model = ob_new();
    ob_number(&model, OB_MODEL_IR, ir);
    ob_text(&model, OB_MODEL_PRODUCER, "test");
    ob_take(&model, OB_MODEL_OPSET, ob_opset("", opset));
    ob_take(&model, OB_MODEL_GRAPH, graph);
    return model;
}

#endif
