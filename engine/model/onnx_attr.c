// Attributes, tensors and declared types of an ONNX file in the engine's form. Called by
// onnx_graph.c for each node and value, and by onnx_read.c for texts, on the loading thread. What
// protobuf-c unpacked is copied into the model's arena or pointed at in the file, so that the
// skeleton can go when the load ends. Kinds that the first IR versions leave open follow from the
// field that is set.
#include "model/onnx_read.h"

#include "base/check.h"
#include "model/tensor_proto.h"

#include <string.h>

const char *eng_onnx_text(struct eng_onnx *onnx, const char *text)
{
    if (text == NULL || text[0] == '\0') {
        return "";
    }
    return base_arena_text(onnx->arena, text, strlen(text));
}

enum base_status eng_onnx_tensor(struct eng_onnx *onnx, const Onnx__TensorProto *message,
                                 bool loose, struct eng_array *out_array, const char **out_name)
{
    // The scanner wrote these four bytes.
    uint32_t index = UINT32_MAX;
    if (message != NULL && message->has_raw_data && message->raw_data.len == sizeof(index)) {
        memcpy(&index, message->raw_data.data, sizeof(index));
    }
    const struct eng_scan_tensor *found = eng_scan_tensor(&onnx->scan, index);
    if (found == NULL) {
        return base_error_set(onnx->error, BASE_ERR_INVALID, "a tensor without content");
    }
    struct eng_tensor_proto proto;
    BASE_TRY(eng_tensor_proto_parse(found->at, found->size, &proto, onnx->error));
    const struct eng_tensor_source source = {
        .arena = onnx->arena, .mappings = onnx->mappings, .loose = loose};
    BASE_TRY(eng_tensor_proto_data(&proto, &source, out_array, onnx->error));
    base_assert(out_array->data != NULL || eng_desc_count(&out_array->desc) == 0);
    if (proto.name.size == 0) {
        *out_name = "";
        return BASE_OK;
    }
    *out_name = base_arena_text(onnx->arena, proto.name.data, proto.name.size);
    return *out_name == NULL ? BASE_ERR_NOMEM : BASE_OK;
}

// What the file's first IR versions leave open: the kind follows from the field that is set.
static Onnx__AttributeProto__AttributeType guess_type(const Onnx__AttributeProto *message)
{
    base_assert(!message->has_type ||
                message->type == ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__UNDEFINED);
    if (message->has_f) {
        return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT;
    }
    if (message->has_i) {
        return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT;
    }
    if (message->has_s) {
        return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING;
    }
    if (message->t != NULL) {
        return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR;
    }
    if (message->g != NULL) {
        return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH;
    }
    if (message->n_floats > 0) {
        return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS;
    }
    if (message->n_strings > 0) {
        return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRINGS;
    }
    return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS;
}

static enum base_status copy_bytes(struct eng_onnx *onnx, const ProtobufCBinaryData *bytes,
                                   struct eng_string *out)
{
    *out = (struct eng_string){"", 0};
    if (bytes->len > 0) {
        out->at = base_arena_copy(onnx->arena, bytes->data, bytes->len);
        out->size = bytes->len;
    }
    return out->at == NULL ? BASE_ERR_NOMEM : BASE_OK;
}

static enum base_status copy_strings(struct eng_onnx *onnx, const Onnx__AttributeProto *message,
                                     struct eng_attr *out)
{
    base_assert(message->n_strings <= UINT32_MAX); // the skeleton is far smaller
    struct eng_string *strings =
        base_arena_alloc(onnx->arena, message->n_strings * sizeof(*strings));
    if (strings == NULL) {
        return BASE_ERR_NOMEM;
    }
    for (size_t i = 0; i < message->n_strings; i++) {
        BASE_TRY(copy_bytes(onnx, &message->strings[i], &strings[i]));
    }
    out->kind = ENG_ATTR_STRINGS;
    out->count = (uint32_t)message->n_strings;
    out->u.strings = strings;
    return BASE_OK;
}

static enum base_status fill(struct eng_onnx *onnx, const Onnx__AttributeProto *message,
                             struct eng_attr *out)
{
    const char *unused;
    base_assert(message->n_ints <= UINT32_MAX &&
                message->n_floats <= UINT32_MAX); // as in copy_strings
    bool typed =
        message->has_type && message->type != ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__UNDEFINED;
    switch (typed ? message->type : guess_type(message)) {
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT:
        out->kind = ENG_ATTR_INT;
        out->u.i = message->i;
        return BASE_OK;
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT:
        out->kind = ENG_ATTR_FLOAT;
        out->u.f = message->f;
        return BASE_OK;
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING:
        out->kind = ENG_ATTR_STRING;
        return copy_bytes(onnx, &message->s, &out->u.s);
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR:
        out->kind = ENG_ATTR_TENSOR;
        return eng_onnx_tensor(onnx, message->t, false, &out->u.tensor, &unused);
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH:
        out->kind = ENG_ATTR_GRAPH;
        return BASE_OK;
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS:
        out->kind = ENG_ATTR_INTS;
        out->count = (uint32_t)message->n_ints;
        out->u.ints =
            base_arena_copy(onnx->arena, message->ints, message->n_ints * sizeof(*message->ints));
        return out->u.ints == NULL ? BASE_ERR_NOMEM : BASE_OK;
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS:
        out->kind = ENG_ATTR_FLOATS;
        out->count = (uint32_t)message->n_floats;
        out->u.floats = base_arena_copy(onnx->arena, message->floats,
                                        message->n_floats * sizeof(*message->floats));
        return out->u.floats == NULL ? BASE_ERR_NOMEM : BASE_OK;
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRINGS:
        return copy_strings(onnx, message, out);
    default:
        out->kind = ENG_ATTR_OTHER;
        return BASE_OK;
    }
}

enum base_status eng_onnx_attr(struct eng_onnx *onnx, const Onnx__AttributeProto *message,
                               struct eng_attr *out_attr)
{
    *out_attr = (struct eng_attr){.name = eng_onnx_text(onnx, message->name)};
    if (out_attr->name == NULL) {
        return BASE_ERR_NOMEM;
    }
    if (message->ref_attr_name != NULL && message->ref_attr_name[0] != '\0') {
        return base_error_set(onnx->error, BASE_ERR_INVALID,
                              "attribute '%.60s' refers to a function's attribute outside of one",
                              out_attr->name);
    }
    return fill(onnx, message, out_attr);
}

// The tensor type inside sequences and optionals, whose kind is that of the outermost.
static const Onnx__TypeProto *innermost(const Onnx__TypeProto *message, enum eng_value_type *kind)
{
    *kind = ENG_VALUE_TENSOR;
    // Nesting was bounded by the scanner.
    while (message != NULL) {
        if (message->value_case == ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE) {
            *kind = *kind == ENG_VALUE_OPTIONAL ? *kind : ENG_VALUE_SEQUENCE;
            message = message->sequence_type->elem_type;
        } else if (message->value_case == ONNX__TYPE_PROTO__VALUE_OPTIONAL_TYPE) {
            *kind = ENG_VALUE_OPTIONAL;
            message = message->optional_type->elem_type;
        } else {
            return message;
        }
    }
    return NULL;
}

static enum base_status fill_dim(struct eng_onnx *onnx,
                                 const Onnx__TensorShapeProto__Dimension *dim,
                                 struct eng_value *value, const char **names)
{
    base_assert(value->desc.rank < ENG_RANK_MAX);
    uint32_t d = value->desc.rank++;
    value->desc.dims[d] = -1;
    names[d] = NULL;
    if (dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE) {
        if (dim->dim_value > ENG_ELEMENTS_MAX) {
            return base_error_set(onnx->error, BASE_ERR_TOO_LARGE,
                                  "value '%.60s': dimension %u is too large", value->name, d);
        }
        value->desc.dims[d] = dim->dim_value < 0 ? -1 : dim->dim_value;
    } else if (dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM &&
               dim->dim_param != NULL && dim->dim_param[0] != '\0') {
        names[d] = eng_onnx_text(onnx, dim->dim_param);
        return names[d] == NULL ? BASE_ERR_NOMEM : BASE_OK;
    }
    return BASE_OK;
}

static enum base_status fill_shape(struct eng_onnx *onnx, const Onnx__TensorShapeProto *shape,
                                   struct eng_value *value)
{
    if (shape->n_dim > ENG_RANK_MAX) {
        return base_error_set(onnx->error, BASE_ERR_UNSUPPORTED,
                              "value '%.60s' has %zu dimensions, at most %d are supported",
                              value->name, shape->n_dim, ENG_RANK_MAX);
    }
    const char *names[ENG_RANK_MAX] = {NULL};
    bool any = false;
    value->desc.rank = 0;
    for (size_t i = 0; i < shape->n_dim; i++) {
        BASE_TRY(fill_dim(onnx, shape->dim[i], value, names));
        any = any || names[i] != NULL;
    }
    base_assert(value->desc.rank == shape->n_dim);
    value->has_shape = true;
    value->dim_names = NULL;
    if (any) {
        value->dim_names = base_arena_copy(onnx->arena, names, shape->n_dim * sizeof(names[0]));
        if (value->dim_names == NULL) {
            return BASE_ERR_NOMEM;
        }
    }
    return BASE_OK;
}

enum base_status eng_onnx_type(struct eng_onnx *onnx, const Onnx__TypeProto *message,
                               struct eng_value *value)
{
    enum eng_value_type kind;
    const Onnx__TypeProto *inner = innermost(message, &kind);
    if (inner == NULL || inner->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE) {
        if (kind != ENG_VALUE_TENSOR) {
            base_assert(kind != ENG_VALUE_UNKNOWN);
            value->type = kind;
        }
        return BASE_OK; // maps and sparse tensors: unknown; no supported operator takes them
    }
    const Onnx__TypeProto__Tensor *tensor = inner->tensor_type;
    if (tensor->has_elem_type && (tensor->elem_type < 0 || tensor->elem_type >= ENG_DTYPE_COUNT)) {
        return base_error_set(onnx->error, BASE_ERR_UNSUPPORTED,
                              "value '%.60s': element type %d is unknown", value->name,
                              tensor->elem_type);
    }
    value->type = kind;
    value->desc.dtype = tensor->has_elem_type ? (enum eng_dtype)tensor->elem_type : ENG_UNDEFINED;
    if (tensor->shape != NULL && kind != ENG_VALUE_SEQUENCE) {
        return fill_shape(onnx, tensor->shape, value);
    }
    return BASE_OK;
}
