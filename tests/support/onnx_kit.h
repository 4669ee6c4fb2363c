// Writes small ONNX models for unit tests, byte by byte, so that tests need no file and no other
// implementation of the format. Numbers are fields of onnx.proto.
#ifndef ONNX_KIT_H
#define ONNX_KIT_H

#include "test_kit.h"

#include "engine/tensor.h"

#define ONNX_KIT_BYTES 131072u

struct onnx_part {
    size_t size;
    uint8_t bytes[ONNX_KIT_BYTES];
};

struct onnx_kit {
    struct onnx_part graph;
    struct onnx_part node; // the one begun last
    struct onnx_part model;
    struct onnx_part scratch, inner;
    uint32_t node_count;
};

static inline void onnx_varint(struct onnx_part *part, uint64_t value)
{
    do {
        assert_true(part->size < ONNX_KIT_BYTES);
        part->bytes[part->size++] = (uint8_t)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
        value >>= 7;
    } while (value > 0);
}

static inline void onnx_int(struct onnx_part *part, uint32_t field, uint64_t value)
{
    onnx_varint(part, (uint64_t)field << 3);
    onnx_varint(part, value);
}

static inline void onnx_bytes(struct onnx_part *part, uint32_t field, const void *bytes,
                              size_t size)
{
    onnx_varint(part, (uint64_t)field << 3 | 2);
    onnx_varint(part, size);
    assert_true(part->size + size <= ONNX_KIT_BYTES);
    if (size > 0) {
        memcpy(part->bytes + part->size, bytes, size);
    }
    part->size += size;
}

static inline void onnx_text(struct onnx_part *part, uint32_t field, const char *text)
{
    onnx_bytes(part, field, text, strlen(text));
}

static inline void onnx_sub(struct onnx_part *part, uint32_t field, const struct onnx_part *sub)
{
    onnx_bytes(part, field, sub->bytes, sub->size);
}

// Ends the node begun last.
static inline void onnx_flush(struct onnx_kit *kit)
{
    if (kit->node.size > 0) {
        onnx_sub(&kit->graph, 1, &kit->node);
        kit->node.size = 0;
    }
}

// `inputs` and `outputs`: names parted by blanks; "" is none, "-" an omitted one.
static inline void onnx_names(struct onnx_part *part, uint32_t field, const char *names)
{
    while (*names != '\0') {
        size_t length = strcspn(names, " ");
        bool omitted = length == 1 && names[0] == '-';
        onnx_bytes(part, field, names, omitted ? 0 : length);
        names += length;
        names += *names == ' ';
    }
}

static inline void onnx_node(struct onnx_kit *kit, const char *op, const char *inputs,
                             const char *outputs)
{
    char name[32];
    onnx_flush(kit);
    onnx_names(&kit->node, 1, inputs);
    onnx_names(&kit->node, 2, outputs);
    (void)snprintf(name, sizeof name, "n%u", kit->node_count++);
    onnx_text(&kit->node, 3, name);
    onnx_text(&kit->node, 4, op);
}

// Attributes of the node begun last.
static inline void onnx_attr_int(struct onnx_kit *kit, const char *name, int64_t value)
{
    kit->scratch.size = 0;
    onnx_text(&kit->scratch, 1, name);
    onnx_int(&kit->scratch, 3, (uint64_t)value);
    onnx_int(&kit->scratch, 20, 2);
    onnx_sub(&kit->node, 5, &kit->scratch);
}

static inline void onnx_attr_ints(struct onnx_kit *kit, const char *name, const int64_t *values,
                                  size_t count)
{
    kit->scratch.size = 0;
    onnx_text(&kit->scratch, 1, name);
    for (size_t i = 0; i < count; i++) {
        onnx_int(&kit->scratch, 8, (uint64_t)values[i]);
    }
    onnx_int(&kit->scratch, 20, 7);
    onnx_sub(&kit->node, 5, &kit->scratch);
}

// A graph input (field 11) or output (12); dims below 0 are symbolic, named d0, d1...
static inline void onnx_port(struct onnx_kit *kit, uint32_t field, const char *name,
                             enum eng_dtype dtype, const int64_t *dims, size_t rank)
{
    static struct onnx_part shape, dim, type, tensor, port;
    shape.size = type.size = tensor.size = port.size = 0;
    for (size_t i = 0; i < rank; i++) {
        dim.size = 0;
        if (dims[i] >= 0) {
            onnx_int(&dim, 1, (uint64_t)dims[i]);
        } else {
            char text[16];
            (void)snprintf(text, sizeof text, "d%lld", (long long)-dims[i]);
            onnx_text(&dim, 2, text);
        }
        onnx_sub(&shape, 1, &dim);
    }
    onnx_int(&tensor, 1, dtype);
    onnx_sub(&tensor, 2, &shape);
    onnx_sub(&type, 1, &tensor);
    onnx_text(&port, 1, name);
    onnx_sub(&port, 2, &type);
    onnx_flush(kit);
    onnx_sub(&kit->graph, field, &port);
}
#define ONNX_DIMS(...)                                                                             \
    (const int64_t[]){__VA_ARGS__}, sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)
#define onnx_input(kit, name, dtype, ...)  onnx_port(kit, 11, name, dtype, ONNX_DIMS(__VA_ARGS__))
#define onnx_output(kit, name, dtype, ...) onnx_port(kit, 12, name, dtype, ONNX_DIMS(__VA_ARGS__))

static inline void onnx_initializer(struct onnx_kit *kit, const char *name, enum eng_dtype dtype,
                                    const int64_t *dims, size_t rank, const void *data,
                                    size_t bytes)
{
    onnx_flush(kit);
    kit->scratch.size = 0;
    for (size_t i = 0; i < rank; i++) {
        onnx_int(&kit->scratch, 1, (uint64_t)dims[i]);
    }
    onnx_int(&kit->scratch, 2, dtype);
    onnx_text(&kit->scratch, 8, name);
    onnx_bytes(&kit->scratch, 9, data, bytes);
    onnx_sub(&kit->graph, 5, &kit->scratch);
}

// The whole model; its bytes stay in the kit.
static inline const struct onnx_part *onnx_finish(struct onnx_kit *kit, int64_t opset)
{
    onnx_flush(kit);
    onnx_text(&kit->graph, 2, "test");
    kit->model.size = 0;
    onnx_int(&kit->model, 1, 8); // IR version
    onnx_text(&kit->model, 2, "onnx_kit");
    kit->scratch.size = 0;
    onnx_text(&kit->scratch, 1, "");
    onnx_int(&kit->scratch, 2, (uint64_t)opset);
    onnx_sub(&kit->model, 8, &kit->scratch);
    onnx_sub(&kit->model, 7, &kit->graph);
    return &kit->model;
}

// Room for one model at a time: parts are too large for a stack.
static inline struct onnx_kit *onnx_begin(void)
{
    static struct onnx_kit kit;
    memset(&kit, 0, sizeof kit);
    return &kit;
}

#endif
