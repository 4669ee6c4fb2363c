// Reads and writes the messages of the ONNX project's test data (TensorProto, SequenceProto,
// OptionalProto), over the wire format directly. Called by tensor_file.c, on any thread; no state.
// A tensor is read as one in a model is (tensor_proto.c); a message inside another is measured
// before it is written, as its length comes first. Nested sequences and maps are not supported.
#include "model/tensor_pb.h"

#include "base/check.h"
#include "model/pb_wire.h"
#include "model/tensor_proto.h"

#include <string.h>

// Fields both SequenceProto and OptionalProto have.
enum field { FIELD_NAME = 1, FIELD_KIND = 2, FIELD_TENSOR = 3, FIELD_SEQUENCE = 5 };

static enum base_status new_items(struct eng_tensor_list *list, uint32_t count,
                                  struct base_arena *arena)
{
    list->count = 0;
    list->arrays = base_arena_zalloc(arena, count * sizeof(*list->arrays));
    list->names = base_arena_zalloc(arena, count * sizeof(*list->names));
    return list->arrays == NULL || list->names == NULL ? BASE_ERR_NOMEM : BASE_OK;
}

// A TensorProto, into the room that new_items made.
static enum base_status add_item(struct eng_tensor_list *list, const struct eng_wire_field *field,
                                 struct base_arena *arena, struct base_error *error)
{
    uint32_t i = list->count++;
    struct eng_tensor_proto proto;
    BASE_TRY(eng_tensor_proto_parse(field->bytes, field->size, &proto, error));
    const struct eng_tensor_source source = {.arena = arena, .copy = true};
    BASE_TRY(eng_tensor_proto_data(&proto, &source, &list->arrays[i], error));
    const char *name = proto.name.size > 0 ? proto.name.data : "";
    list->names[i] = base_arena_text(arena, name, proto.name.size);
    return list->names[i] == NULL ? BASE_ERR_NOMEM : BASE_OK;
}

static enum base_status read_sequence(const uint8_t *bytes, size_t size, struct base_arena *arena,
                                      struct eng_tensor_list *list, struct base_error *error)
{
    uint32_t count = 0;
    struct base_reader reader;
    struct eng_wire_field field;
    base_reader_init(&reader, bytes, size);
    while (eng_wire_next(&reader, &field)) {
        if (field.number == FIELD_TENSOR && field.type == ENG_WIRE_BYTES) {
            count++;
        } else if (field.number > FIELD_TENSOR) {
            return base_error_set(error, BASE_ERR_UNSUPPORTED,
                                  "only sequences of tensors are supported");
        }
    }
    if (reader.status != BASE_OK) {
        return base_error_set(error, reader.status, "not a SequenceProto");
    }
    if (count > ENG_TENSOR_FILE_ITEMS_MAX) {
        return base_error_set(error, BASE_ERR_TOO_LARGE, "a sequence of %u tensors", count);
    }
    BASE_TRY(new_items(list, count, arena));
    base_reader_init(&reader, bytes, size);
    while (eng_wire_next(&reader, &field)) {
        if (field.number == FIELD_TENSOR && field.type == ENG_WIRE_BYTES) {
            BASE_TRY(add_item(list, &field, arena, error));
        }
    }
    base_assert(list->count == count); // both passes saw the same fields
    return BASE_OK;
}

static enum base_status read_optional(const uint8_t *bytes, size_t size, struct base_arena *arena,
                                      struct eng_tensor_list *list, struct base_error *error)
{
    base_assert(list->inner == ENG_VALUE_UNKNOWN && list->count == 0);
    struct base_reader reader;
    struct eng_wire_field field;
    base_reader_init(&reader, bytes, size);
    while (eng_wire_next(&reader, &field)) {
        if (field.number <= FIELD_KIND) {
            continue;
        }
        if (list->inner != ENG_VALUE_UNKNOWN || field.type != ENG_WIRE_BYTES) {
            return base_error_set(error, BASE_ERR_INVALID, "not an OptionalProto");
        }
        if (field.number == FIELD_TENSOR) {
            list->inner = ENG_VALUE_TENSOR;
            BASE_TRY(new_items(list, 1, arena));
            BASE_TRY(add_item(list, &field, arena, error));
        } else if (field.number == FIELD_SEQUENCE) {
            list->inner = ENG_VALUE_SEQUENCE;
            BASE_TRY(read_sequence(field.bytes, field.size, arena, list, error));
        } else {
            return base_error_set(error, BASE_ERR_UNSUPPORTED,
                                  "only optional tensors and sequences are supported");
        }
    }
    if (reader.status != BASE_OK) {
        return base_error_set(error, reader.status, "not an OptionalProto");
    }
    return BASE_OK;
}

enum base_status eng_pb_read(struct base_span message, enum eng_value_type expected,
                             struct base_arena *arena, struct eng_tensor_list *out_list,
                             struct base_error *error)
{
    const uint8_t *bytes = message.data;
    size_t size = message.size;
    struct eng_tensor_list list = {.kind = expected};
    if (expected == ENG_VALUE_SEQUENCE) {
        BASE_TRY(read_sequence(bytes, size, arena, &list, error));
    } else if (expected == ENG_VALUE_OPTIONAL) {
        BASE_TRY(read_optional(bytes, size, arena, &list, error));
    } else {
        const struct eng_wire_field whole = {.bytes = bytes, .size = size};
        list.kind = ENG_VALUE_TENSOR;
        BASE_TRY(new_items(&list, 1, arena));
        BASE_TRY(add_item(&list, &whole, arena, error));
    }
    *out_list = list;
    return BASE_OK;
}

static enum base_status put_varint(struct base_buffer *out, uint64_t value)
{
    uint8_t bytes[10];
    struct base_writer writer;
    base_writer_init(&writer, bytes, sizeof(bytes));
    base_writer_varint(&writer, value);
    base_assert(writer.status == BASE_OK); // ten bytes hold any number
    return base_buffer_add(out, bytes, base_writer_size(&writer));
}

static enum base_status put_number(struct base_buffer *out, uint32_t field, uint64_t value)
{
    BASE_TRY(put_varint(out, (uint64_t)field << 3 | ENG_WIRE_VARINT));
    return put_varint(out, value);
}

static enum base_status put_bytes(struct base_buffer *out, uint32_t field, const void *bytes,
                                  size_t size)
{
    BASE_TRY(put_varint(out, (uint64_t)field << 3 | ENG_WIRE_BYTES));
    BASE_TRY(put_varint(out, size));
    return size == 0 ? BASE_OK : base_buffer_add(out, bytes, size);
}

static enum base_status put_tensor(struct base_buffer *out, const struct eng_array *array,
                                   const char *name)
{
    for (uint32_t d = 0; d < array->desc.rank; d++) {
        base_assert(array->desc.dims[d] >= 0); // only declared shapes have open dimensions
        BASE_TRY(put_number(out, 1, (uint64_t)array->desc.dims[d]));
    }
    BASE_TRY(put_number(out, 2, (uint64_t)array->desc.dtype));
    if (name != NULL && name[0] != '\0') {
        BASE_TRY(put_bytes(out, 8, name, strlen(name)));
    }
    if (array->desc.dtype != ENG_STRING) {
        return put_bytes(out, 9, array->data, eng_desc_bytes(&array->desc));
    }
    const struct eng_string *strings = array->data;
    for (int64_t i = 0; i < eng_desc_count(&array->desc); i++) {
        BASE_TRY(put_bytes(out, 6, strings[i].at, strings[i].size));
    }
    return BASE_OK;
}

// A message of which the size must be known before it is written.
static enum base_status put_nested(struct base_buffer *out, uint32_t field,
                                   const struct base_buffer *message)
{
    return put_bytes(out, field, message->data, message->size);
}

static enum base_status put_sequence(struct base_buffer *out, const struct eng_tensor_list *list)
{
    BASE_TRY(put_number(out, FIELD_KIND, 1));
    for (uint32_t i = 0; i < list->count; i++) {
        struct base_buffer tensor;
        base_buffer_init(&tensor, out->alloc, out->limit_bytes);
        enum base_status status =
            put_tensor(&tensor, &list->arrays[i], list->names != NULL ? list->names[i] : "");
        if (status == BASE_OK) {
            status = put_nested(out, FIELD_TENSOR, &tensor);
        }
        base_buffer_done(&tensor);
        BASE_TRY(status);
    }
    return BASE_OK;
}

static enum base_status put_optional(struct base_buffer *out, const struct eng_tensor_list *list)
{
    if (list->inner == ENG_VALUE_UNKNOWN) {
        return BASE_OK;
    }
    bool is_sequence = list->inner == ENG_VALUE_SEQUENCE;
    base_assert(is_sequence || list->count == 1);
    BASE_TRY(put_number(out, FIELD_KIND, is_sequence ? 3 : 1));
    struct base_buffer inner;
    base_buffer_init(&inner, out->alloc, out->limit_bytes);
    enum base_status status = is_sequence ? put_sequence(&inner, list)
                                          : put_tensor(&inner, &list->arrays[0],
                                                       list->names != NULL ? list->names[0] : "");
    if (status == BASE_OK) {
        status = put_nested(out, is_sequence ? FIELD_SEQUENCE : FIELD_TENSOR, &inner);
    }
    base_buffer_done(&inner);
    return status;
}

enum base_status eng_pb_write(struct base_buffer *out, const struct eng_tensor_list *list,
                              struct base_error *error)
{
    if (list->kind == ENG_VALUE_SEQUENCE) {
        return put_sequence(out, list);
    }
    bool one = list->kind == ENG_VALUE_OPTIONAL ? list->inner == ENG_VALUE_TENSOR : true;
    if (one && list->count != 1) {
        return base_error_set(error, BASE_ERR_INVALID, "a tensor is written alone, not %u of them",
                              list->count);
    }
    if (list->kind == ENG_VALUE_OPTIONAL) {
        return put_optional(out, list);
    }
    return put_tensor(out, &list->arrays[0], list->names != NULL ? list->names[0] : "");
}
