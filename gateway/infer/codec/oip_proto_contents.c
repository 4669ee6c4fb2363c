// Typed contents of protobuf requests, for oip_proto_read.c, on its thread. Two passes over the
// fields: one counts, so that memory is taken for what is there and not for what a shape claims;
// the other stores. Lists may be packed, single or mixed, as protobuf allows.
#include "infer/codec/oip_proto_contents.h"

#include "base/check.h"
#include "base/cursor.h"
#include "infer/codec/oip_tensor.h"
#include "model/pb_wire.h"

// Fields of InferInputTensor.
#define INPUT_DATATYPE 2u
#define INPUT_CONTENTS 5u

// Which field of the contents holds a type's elements, and how; 0: none does.
struct element_form {
    uint32_t field;
    enum eng_wire_type wire; // of one
};

static struct element_form form_of(enum eng_dtype dtype)
{
    switch (dtype) {
    case ENG_BOOL:
        return (struct element_form){1, ENG_WIRE_VARINT};
    case ENG_I8:
    case ENG_I16:
    case ENG_I32:
        return (struct element_form){2, ENG_WIRE_VARINT};
    case ENG_I64:
        return (struct element_form){3, ENG_WIRE_VARINT};
    case ENG_U8:
    case ENG_U16:
    case ENG_U32:
        return (struct element_form){4, ENG_WIRE_VARINT};
    case ENG_U64:
        return (struct element_form){5, ENG_WIRE_VARINT};
    case ENG_F32:
        return (struct element_form){6, ENG_WIRE_FIXED32};
    case ENG_F64:
        return (struct element_form){7, ENG_WIRE_FIXED64};
    case ENG_STRING:
        return (struct element_form){8, ENG_WIRE_BYTES};
    default:
        return (struct element_form){0, ENG_WIRE_BYTES}; // FP16 and BF16 come raw only
    }
}

struct contents_in {
    struct base_str input; // the InferInputTensor
    struct gw_infer_tensor *tensor;
    struct element_form form;
    struct base_error *error;
    uint8_t *out;
    size_t count;
    size_t stored;
    struct base_str only; // of fixed size: the one packed list, if there is one
    size_t lists;
};

static enum base_status bad(const struct contents_in *in, enum base_status status, const char *what)
{
    return base_error_set(in->error, status, "input \"%.*s\": %s", (int)in->tensor->name.size,
                          in->tensor->name.data, what);
}

static size_t varints_in(const struct eng_wire_field *field)
{
    const uint64_t tops = 0x8080808080808080u; // set in all bytes of a varint but the last
    size_t count = 0;
    size_t i = 0;
    for (; i + sizeof(tops) <= field->size; i += sizeof(tops)) {
        uint64_t word;
        memcpy(&word, field->bytes + i, sizeof(word));
        count += ((~word & tops) >> 7) * 0x0101010101010101u >> 56;
    }
    for (; i < field->size; i++) {
        count += field->bytes[i] < 0x80;
    }
    return count;
}

static enum base_status count_field(struct contents_in *in, const struct eng_wire_field *field)
{
    if (field->number > 8) {
        return BASE_OK; // not known here
    }
    if (field->number != in->form.field ||
        (field->type != in->form.wire && field->type != ENG_WIRE_BYTES)) {
        return bad(in, BASE_ERR_INVALID, "contents of another type than the datatype's");
    }
    in->lists++;
    if (field->type == in->form.wire) {
        in->count++; // BYTES is always single
        return BASE_OK;
    }
    size_t size = in->form.wire == ENG_WIRE_FIXED32 ? 4 : 8;
    in->only = (struct base_str){(const char *)field->bytes, field->size};
    if (in->form.wire != ENG_WIRE_VARINT && field->size % size != 0) {
        return bad(in, BASE_ERR_INVALID, "contents that end within an element");
    }
    in->count += in->form.wire == ENG_WIRE_VARINT ? varints_in(field) : field->size / size;
    return BASE_OK;
}

static bool value_fits(enum eng_dtype dtype, uint64_t value)
{
    switch (dtype) {
    case ENG_BOOL:
        return value <= 1;
    case ENG_I8:
        return (int64_t)value >= INT8_MIN && (int64_t)value <= INT8_MAX;
    case ENG_I16:
        return (int64_t)value >= INT16_MIN && (int64_t)value <= INT16_MAX;
    case ENG_I32:
        return (int64_t)value >= INT32_MIN && (int64_t)value <= INT32_MAX;
    case ENG_U8:
        return value <= UINT8_MAX;
    case ENG_U16:
        return value <= UINT16_MAX;
    case ENG_U32:
        return value <= UINT32_MAX;
    default:
        return true;
    }
}

static enum base_status store(struct contents_in *in, uint64_t value)
{
    size_t size = eng_dtype_bytes(in->tensor->desc.dtype);
    base_check(in->stored < in->count);
    if (!value_fits(in->tensor->desc.dtype, value)) {
        return bad(in, BASE_ERR_INVALID, "a value that does not fit the datatype");
    }
    memcpy(in->out + in->stored * size, &value, size);
    in->stored++;
    return BASE_OK;
}

static enum base_status store_list(struct contents_in *in, const struct eng_wire_field *field)
{
    struct base_reader reader;
    base_reader_init(&reader, field->bytes, field->size);
    while (reader.status == BASE_OK && base_reader_left(&reader) > 0) {
        uint64_t value = in->form.wire == ENG_WIRE_VARINT    ? eng_wire_varint(&reader)
                         : in->form.wire == ENG_WIRE_FIXED32 ? base_reader_u32(&reader)
                                                             : base_reader_u64(&reader);
        if (reader.status == BASE_OK) {
            BASE_TRY(store(in, value));
        }
    }
    return reader.status == BASE_OK ? BASE_OK : bad(in, reader.status, "contents are malformed");
}

static enum base_status store_field(struct contents_in *in, const struct eng_wire_field *field)
{
    if (field->number > 8) {
        return BASE_OK;
    }
    if (in->form.wire == ENG_WIRE_BYTES) {
        struct eng_string *texts = (struct eng_string *)(void *)in->out;
        base_check(in->stored < in->count);
        texts[in->stored++] = (struct eng_string){(const char *)field->bytes, field->size};
        return BASE_OK;
    }
    return field->type == in->form.wire ? store(in, field->value) : store_list(in, field);
}

// Calls `each` with every field of every contents of the input.
static enum base_status walk(struct contents_in *in,
                             enum base_status (*each)(struct contents_in *in,
                                                      const struct eng_wire_field *field))
{
    struct base_reader input;
    struct eng_wire_field field;
    base_reader_init(&input, in->input.data, in->input.size);
    while (eng_wire_next(&input, &field)) {
        struct base_reader contents;
        struct eng_wire_field element;
        if (field.number != INPUT_CONTENTS || field.type != ENG_WIRE_BYTES) {
            continue;
        }
        base_reader_init(&contents, field.bytes, field.size);
        while (eng_wire_next(&contents, &element)) {
            BASE_TRY(each(in, &element));
        }
        if (contents.status != BASE_OK) {
            return bad(in, contents.status, "contents are malformed");
        }
    }
    return input.status;
}

enum base_status gw_oip_proto_contents(struct base_arena *arena, struct base_str message,
                                       struct gw_infer_tensor *tensor, struct base_error *error)
{
    struct contents_in in = {.input = message, .tensor = tensor, .error = error};
    size_t count = 0;
    in.form = form_of(tensor->desc.dtype);
    if (in.form.field == 0) {
        return bad(&in, BASE_ERR_INVALID, "FP16 and BF16 come in raw_input_contents");
    }
    BASE_TRY(walk(&in, count_field));
    BASE_TRY(gw_oip_shape(tensor, in.count, &count, error));
    if (count != in.count) {
        return bad(&in, BASE_ERR_INVALID, "more elements than the shape has");
    }
    bool fixed = in.form.wire == ENG_WIRE_FIXED32 || in.form.wire == ENG_WIRE_FIXED64;
    if (fixed && in.lists == 1 && in.only.data != NULL) {
        return gw_oip_raw_read(arena, in.only, tensor, error);
    }
    in.out = base_arena_alloc(arena, tensor->bytes);
    if (in.out == NULL) {
        return bad(&in, BASE_ERR_NOMEM, "out of memory");
    }
    tensor->data = in.out;
    BASE_TRY(walk(&in, store_field));
    base_check(in.stored == in.count);
    return BASE_OK;
}

size_t gw_oip_proto_contents_room(struct base_str input)
{
    struct base_reader reader;
    struct eng_wire_field field;
    struct base_error unsaid = {0};
    struct gw_infer_tensor tensor = {0};
    struct contents_in in = {.input = input, .tensor = &tensor, .error = &unsaid};
    base_reader_init(&reader, input.data, input.size);
    while (eng_wire_next(&reader, &field)) {
        if (field.number == INPUT_DATATYPE && field.type == ENG_WIRE_BYTES) {
            tensor.desc.dtype =
                gw_oip_dtype((struct base_str){(const char *)field.bytes, field.size});
        }
    }
    in.form = form_of(tensor.desc.dtype);
    if (in.form.field == 0 || walk(&in, count_field) != BASE_OK) {
        return 0; // nothing is read of what is malformed
    }
    return in.count * (in.form.wire == ENG_WIRE_BYTES ? sizeof(struct eng_string)
                                                      : eng_dtype_bytes(tensor.desc.dtype));
}
