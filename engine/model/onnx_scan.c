// Bounds an ONNX file and writes its skeleton. A table says, for each message and field, whether it
// is kept, walked into, cut out or dropped. Called by onnx_read.c on the loading thread, before
// protobuf-c sees a byte; onnx_attr.c asks later where a cut-out tensor lies. Lengths of messages
// are written when their ends are known, as varints of a fixed LENGTH_BYTES, so one pass is enough;
// recursion is bounded by ENG_SCAN_DEPTH_MAX.
#include "model/onnx_scan.h"

#include "base/check.h"
#include "model/graph.h"
#include "model/pb_wire.h"

#include <string.h>

enum message {
    MODEL,
    OPSET,
    FUNCTION,
    GRAPH,
    NODE,
    ATTRIBUTE,
    VALUE_INFO,
    TYPE,
    TYPE_TENSOR,
    TYPE_SEQUENCE,
    TYPE_OPTIONAL,
    SHAPE,
    DIM,
    TENSOR, // cut out
    SPARSE, // refused
    MESSAGE_COUNT
};

enum action {
    DROP,
    NUMBER, // varint kept, packed or not
    FLOAT,  // fixed32 kept, packed or not
    TEXT,   // a name: bounded, no NUL inside
    BYTES,  // kept as it is
    MANY,   // messages walked into
    ONCE,   // a message walked into, at most one
};

struct rule {
    uint8_t action;
    uint8_t child;
};

// Fields have numbers below 32 wherever we look at them.
#define FIELDS 32u

static const struct rule rules[MESSAGE_COUNT][FIELDS] = {
    [MODEL] = {[1] = {NUMBER, 0},
               [2] = {TEXT, 0},
               [7] = {ONCE, GRAPH},
               [8] = {MANY, OPSET},
               [25] = {MANY, FUNCTION}},
    [OPSET] = {[1] = {TEXT, 0}, [2] = {NUMBER, 0}},
    [FUNCTION] = {[1] = {TEXT, 0}, [10] = {TEXT, 0}},
    [GRAPH] = {[1] = {MANY, NODE},
               [2] = {TEXT, 0},
               [5] = {MANY, TENSOR},
               [11] = {MANY, VALUE_INFO},
               [12] = {MANY, VALUE_INFO},
               [13] = {MANY, VALUE_INFO},
               [15] = {MANY, SPARSE}},
    [NODE] = {[1] = {TEXT, 0},
              [2] = {TEXT, 0},
              [3] = {TEXT, 0},
              [4] = {TEXT, 0},
              [5] = {MANY, ATTRIBUTE},
              [7] = {TEXT, 0}},
    [ATTRIBUTE] = {[1] = {TEXT, 0},
                   [2] = {FLOAT, 0},
                   [3] = {NUMBER, 0},
                   [4] = {BYTES, 0},
                   [5] = {ONCE, TENSOR},
                   [6] = {ONCE, GRAPH},
                   [7] = {FLOAT, 0},
                   [8] = {NUMBER, 0},
                   [9] = {BYTES, 0},
                   [20] = {NUMBER, 0},
                   [21] = {TEXT, 0}},
    [VALUE_INFO] = {[1] = {TEXT, 0}, [2] = {ONCE, TYPE}},
    [TYPE] = {[1] = {ONCE, TYPE_TENSOR}, [4] = {ONCE, TYPE_SEQUENCE}, [9] = {ONCE, TYPE_OPTIONAL}},
    [TYPE_TENSOR] = {[1] = {NUMBER, 0}, [2] = {ONCE, SHAPE}},
    [TYPE_SEQUENCE] = {[1] = {ONCE, TYPE}},
    [TYPE_OPTIONAL] = {[1] = {ONCE, TYPE}},
    [SHAPE] = {[1] = {MANY, DIM}},
    [DIM] = {[1] = {NUMBER, 0}, [2] = {TEXT, 0}},
};

static const char *const message_names[MESSAGE_COUNT] = {
    "ModelProto",       "OperatorSetIdProto", "FunctionProto",      "GraphProto",
    "NodeProto",        "AttributeProto",     "ValueInfoProto",     "TypeProto",
    "TypeProto.Tensor", "TypeProto.Sequence", "TypeProto.Optional", "TensorShapeProto",
    "Dimension",        "TensorProto",        "SparseTensorProto",
};

// Bytes of the length of a message written before the length is known: a padded varint.
#define LENGTH_BYTES 5

struct walk {
    struct eng_scan *scan;
    const struct eng_look *look;
    struct base_error *error;
};

static enum base_status fail(const struct walk *walk, enum base_status status, enum message message,
                             const char *text)
{
    return base_error_set(walk->error, status, "not a readable ONNX model: %s: %s",
                          message_names[message], text);
}

static enum base_status add(const struct walk *walk, const void *bytes, size_t size)
{
    enum base_status status = base_buffer_add(&walk->scan->skeleton, bytes, size);
    if (status == BASE_ERR_LIMIT) {
        return base_error_set(walk->error, BASE_ERR_TOO_LARGE,
                              "the model's structure without weights is over %zu MiB",
                              ENG_SKELETON_BYTES_MAX >> 20);
    }
    return status;
}

// Key of a message field and room for its length; *out_at is where the length goes.
static enum base_status open_message(const struct walk *walk, uint32_t field, size_t *out_at)
{
    base_assert(field > 0 && field < FIELDS); // so its key has two bytes at most
    const uint8_t head[1 + LENGTH_BYTES] = {(uint8_t)(field << 3 | ENG_WIRE_BYTES)};
    if (field > 15) {
        const uint8_t first = (uint8_t)((field << 3 | ENG_WIRE_BYTES) | 0x80);
        const uint8_t second = (uint8_t)(field >> 4);
        BASE_TRY(add(walk, &first, 1));
        BASE_TRY(add(walk, &second, 1));
        BASE_TRY(add(walk, head + 1, LENGTH_BYTES));
    } else {
        BASE_TRY(add(walk, head, sizeof(head)));
    }
    *out_at = walk->scan->skeleton.size - LENGTH_BYTES;
    return BASE_OK;
}

static void close_message(const struct walk *walk, size_t at)
{
    base_assert(at + LENGTH_BYTES <= walk->scan->skeleton.size);
    uint8_t *length = walk->scan->skeleton.data + at;
    size_t size = walk->scan->skeleton.size - at - LENGTH_BYTES;
    for (uint32_t i = 0; i < LENGTH_BYTES; i++) {
        length[i] = (uint8_t)((size & 0x7f) | (i + 1 < LENGTH_BYTES ? 0x80 : 0));
        size >>= 7;
    }
    base_assert(size == 0);
}

// Replaces a TensorProto by one that holds its index in the table.
static enum base_status cut_tensor(const struct walk *walk, const struct eng_wire_field *field)
{
    struct eng_scan *scan = walk->scan;
    if (scan->tensor_count == ENG_SCAN_TENSORS_MAX) {
        return fail(walk, BASE_ERR_TOO_LARGE, TENSOR, "too many tensors");
    }
    uint32_t index = scan->tensor_count++;
    struct eng_scan_tensor tensor = {field->bytes, field->size};
    BASE_TRY(base_buffer_add(&scan->tensors, &tensor, sizeof(tensor)));
    base_assert(scan->tensors.size == scan->tensor_count * sizeof(tensor));
    const uint8_t raw[] = {9 << 3 | ENG_WIRE_BYTES, 4,
                           (uint8_t)index,          (uint8_t)(index >> 8),
                           (uint8_t)(index >> 16),  (uint8_t)(index >> 24)};
    size_t at;
    BASE_TRY(open_message(walk, field->number, &at));
    BASE_TRY(add(walk, raw, sizeof(raw)));
    close_message(walk, at);
    return BASE_OK;
}

static enum base_status keep_scalar(const struct walk *walk, enum message message,
                                    const struct rule *rule, const struct eng_wire_field *field)
{
    bool fits = field->type == ENG_WIRE_BYTES;
    base_assert(rule->action >= NUMBER && rule->action <= BYTES);
    if (rule->action == NUMBER) {
        fits = fits || field->type == ENG_WIRE_VARINT;
    } else if (rule->action == FLOAT) {
        fits = fits || field->type == ENG_WIRE_FIXED32;
    }
    if (!fits) {
        return fail(walk, BASE_ERR_INVALID, message, "a field of another type");
    }
    if (rule->action == TEXT) {
        if (field->size > ENG_NAME_BYTES_MAX) {
            return fail(walk, BASE_ERR_TOO_LARGE, message, "a name over the limit");
        }
        if (field->size > 0 && memchr(field->bytes, 0, field->size) != NULL) {
            return fail(walk, BASE_ERR_INVALID, message, "a name with a NUL byte");
        }
    }
    return add(walk, field->start, (size_t)(field->end - field->start));
}

static enum base_status walk_message(const struct walk *walk, enum message message,
                                     const uint8_t *bytes, size_t size, uint32_t depth);

static enum base_status enter(const struct walk *walk, enum message message,
                              const struct rule *rule, const struct eng_wire_field *field,
                              uint32_t depth)
{
    base_assert(rule->child < MESSAGE_COUNT);
    if (field->type != ENG_WIRE_BYTES) {
        return fail(walk, BASE_ERR_INVALID, message, "a field of another type");
    }
    if (rule->child == TENSOR || rule->child == NODE) {
        BASE_TRY(eng_look(walk->look, walk->error));
    }
    if (rule->child == TENSOR) {
        return cut_tensor(walk, field);
    }
    if (rule->child == SPARSE) {
        return base_error_set(walk->error, BASE_ERR_UNSUPPORTED,
                              "sparse initializers are not supported");
    }
    if (rule->child == NODE && ++walk->scan->node_count > ENG_SCAN_NODES_MAX) {
        return fail(walk, BASE_ERR_TOO_LARGE, GRAPH, "too many nodes");
    }
    size_t at;
    BASE_TRY(open_message(walk, field->number, &at));
    BASE_TRY(walk_message(walk, rule->child, field->bytes, field->size, depth + 1));
    close_message(walk, at);
    return BASE_OK;
}

// Recursion is bounded by ENG_SCAN_DEPTH_MAX.
static enum base_status walk_message(const struct walk *walk, enum message message,
                                     const uint8_t *bytes, size_t size, uint32_t depth)
{
    if (depth > ENG_SCAN_DEPTH_MAX) {
        return fail(walk, BASE_ERR_TOO_LARGE, message, "messages are nested too deep");
    }
    base_assert(message < TENSOR); // those are not walked into
    struct base_reader reader;
    base_reader_init(&reader, bytes, size);
    uint32_t seen = 0; // by field
    struct eng_wire_field field;
    while (eng_wire_next(&reader, &field)) {
        if (field.number >= FIELDS || rules[message][field.number].action == DROP) {
            continue;
        }
        const struct rule *rule = &rules[message][field.number];
        if (rule->action == ONCE) {
            if ((seen >> field.number & 1) != 0) {
                return fail(walk, BASE_ERR_INVALID, message, "a part occurs twice");
            }
            seen |= 1u << field.number;
        }
        if (rule->action == ONCE || rule->action == MANY) {
            BASE_TRY(enter(walk, message, rule, &field, depth));
        } else {
            BASE_TRY(keep_scalar(walk, message, rule, &field));
        }
    }
    if (reader.status != BASE_OK) {
        return fail(walk, reader.status, message, base_status_text(reader.status));
    }
    return BASE_OK;
}

enum base_status eng_scan_model(struct eng_scan *scan, const struct base_alloc_port *alloc,
                                const struct eng_scan_source *source, struct base_error *error)
{
    *scan = (struct eng_scan){0};
    base_buffer_init(&scan->skeleton, alloc, ENG_SKELETON_BYTES_MAX);
    base_buffer_init(&scan->tensors, alloc, ENG_SCAN_TENSORS_MAX * sizeof(struct eng_scan_tensor));
    struct walk w = {scan, source->look, error};
    enum base_status status = walk_message(&w, MODEL, source->bytes, source->size, 0);
    if (status == BASE_ERR_NOMEM) {
        return base_error_set(error, status, "%s", base_status_text(status));
    }
    return status;
}

void eng_scan_done(struct eng_scan *scan)
{
    base_buffer_done(&scan->skeleton);
    base_buffer_done(&scan->tensors);
    *scan = (struct eng_scan){0};
}

const struct eng_scan_tensor *eng_scan_tensor(const struct eng_scan *scan, uint32_t index)
{
    if (index >= scan->tensor_count) {
        return NULL;
    }
    return (const struct eng_scan_tensor *)(const void *)scan->tensors.data + index;
}
