// Parses TensorProto messages straight from the file's bytes. Called by onnx_attr.c for
// initializers and attributes and by tensor_pb.c for test data; on the loading thread. First the
// header, in one pass over the fields, then the elements in whichever of the forms is there: raw,
// typed, or external (model_file.c). Elements that lie as the engine wants them are pointed at, for
// as long as the mapping lives; a bool that is neither 0 nor 1 makes a copy, not a fault.
#include "model/tensor_proto.h"

#include "base/check.h"
#include "model/graph.h"
#include "model/model_file.h"
#include "model/pb_wire.h"

#include <string.h>

enum field {
    FIELD_DIMS = 1,
    FIELD_TYPE = 2,
    FIELD_SEGMENT = 3,
    FIELD_FLOATS = 4,
    FIELD_INT32S = 5,
    FIELD_STRINGS = 6,
    FIELD_INT64S = 7,
    FIELD_NAME = 8,
    FIELD_RAW = 9,
    FIELD_DOUBLES = 10,
    FIELD_UINT64S = 11,
    FIELD_EXTERNAL = 13,
    FIELD_LOCATION = 14,
};

// What an empty tensor's data points at: no element is ever read there.
static const uint64_t nothing[2];

static enum base_status fail(const struct eng_tensor_proto *proto, struct base_error *error,
                             enum base_status status, const char *text)
{
    return base_error_set(error, status, "tensor '%.*s': %s", (int)proto->name.size,
                          proto->name.size > 0 ? proto->name.data : "", text);
}

static enum base_status add_dim(struct eng_tensor_proto *proto, uint64_t dim)
{
    if (proto->desc.rank == ENG_RANK_MAX) {
        return BASE_ERR_UNSUPPORTED;
    }
    proto->desc.dims[proto->desc.rank++] = (int64_t)dim;
    return BASE_OK;
}

static enum base_status add_dims(struct eng_tensor_proto *proto, const struct eng_wire_field *field)
{
    if (field->type == ENG_WIRE_VARINT) {
        return add_dim(proto, field->value);
    }
    if (field->type != ENG_WIRE_BYTES) {
        return BASE_ERR_INVALID;
    }
    struct base_reader reader;
    base_reader_init(&reader, field->bytes, field->size);
    while (reader.status == BASE_OK && base_reader_left(&reader) > 0) {
        BASE_TRY(add_dim(proto, eng_wire_varint(&reader)));
    }
    return reader.status;
}

// One entry of external_data: location, offset, length; others (checksum) say nothing we use.
static enum base_status add_external(struct eng_tensor_proto *proto,
                                     const struct eng_wire_field *entry)
{
    base_assert(entry->type == ENG_WIRE_BYTES);
    struct base_str key = {0}, value = {0};
    struct base_reader reader;
    base_reader_init(&reader, entry->bytes, entry->size);
    struct eng_wire_field field;
    while (eng_wire_next(&reader, &field)) {
        if (field.type == ENG_WIRE_BYTES && field.number == 1) {
            key = (struct base_str){(const char *)field.bytes, field.size};
        } else if (field.type == ENG_WIRE_BYTES && field.number == 2) {
            value = (struct base_str){(const char *)field.bytes, field.size};
        }
    }
    BASE_TRY(reader.status);
    if (base_str_equal(key, BASE_STR("location"))) {
        proto->location = value;
    } else if (base_str_equal(key, BASE_STR("offset"))) {
        return base_str_u64(value, &proto->offset);
    } else if (base_str_equal(key, BASE_STR("length"))) {
        proto->has_length = true;
        return base_str_u64(value, &proto->length);
    }
    return BASE_OK;
}

static enum base_status add_name(struct eng_tensor_proto *proto, const struct eng_wire_field *field)
{
    if (field->type != ENG_WIRE_BYTES ||
        (field->size > 0 && memchr(field->bytes, 0, field->size) != NULL)) {
        return BASE_ERR_INVALID;
    }
    if (field->size > ENG_NAME_BYTES_MAX) {
        return BASE_ERR_TOO_LARGE;
    }
    proto->name = (struct base_str){(const char *)field->bytes, field->size};
    return BASE_OK;
}

static enum base_status add_field(struct eng_tensor_proto *proto,
                                  const struct eng_wire_field *field)
{
    base_assert(proto->desc.rank <= ENG_RANK_MAX);
    switch (field->number) {
    case FIELD_DIMS:
        return add_dims(proto, field);
    case FIELD_TYPE:
        if (field->type != ENG_WIRE_VARINT) {
            return BASE_ERR_INVALID;
        }
        proto->desc.dtype =
            field->value < ENG_DTYPE_COUNT ? (enum eng_dtype)field->value : ENG_DTYPE_COUNT;
        return BASE_OK;
    case FIELD_SEGMENT:
        return BASE_ERR_UNSUPPORTED;
    case FIELD_NAME:
        return add_name(proto, field);
    case FIELD_RAW:
        if (field->type != ENG_WIRE_BYTES) {
            return BASE_ERR_INVALID;
        }
        proto->raw = field->bytes != NULL ? field->bytes : (const uint8_t *)nothing;
        proto->raw_size = field->size;
        return BASE_OK;
    case FIELD_EXTERNAL:
        return field->type == ENG_WIRE_BYTES ? add_external(proto, field) : BASE_ERR_INVALID;
    case FIELD_LOCATION:
        proto->is_external = field->type == ENG_WIRE_VARINT && field->value == 1;
        return BASE_OK;
    default:
        return BASE_OK;
    }
}

enum base_status eng_tensor_proto_parse(const uint8_t *bytes, size_t size,
                                        struct eng_tensor_proto *out, struct base_error *error)
{
    *out = (struct eng_tensor_proto){.bytes = bytes, .size = size};
    struct base_reader reader;
    base_reader_init(&reader, bytes, size);
    struct eng_wire_field field;
    while (eng_wire_next(&reader, &field)) {
        enum base_status status = add_field(out, &field);
        if (status == BASE_ERR_UNSUPPORTED && field.number == FIELD_DIMS) {
            return fail(out, error, status, "more dimensions than are supported");
        }
        if (status != BASE_OK) {
            return base_error_set(error, status, "tensor '%.*s': field %u: %s", (int)out->name.size,
                                  out->name.size > 0 ? out->name.data : "", field.number,
                                  base_status_text(status));
        }
    }
    if (reader.status != BASE_OK) {
        return fail(out, error, reader.status, base_status_text(reader.status));
    }
    if (eng_dtype_bytes(out->desc.dtype) == 0) {
        return fail(out, error, BASE_ERR_UNSUPPORTED, "element type is missing or unknown");
    }
    enum base_status status = eng_desc_check(&out->desc, &out->count);
    if (status != BASE_OK) {
        return fail(out, error, status, "impossible dimensions");
    }
    base_assert(out->name.size <= ENG_NAME_BYTES_MAX);
    return BASE_OK;
}

// Where typed elements of a type are kept, and how many numbers of the file make one element.
static enum field typed_field(enum eng_dtype dtype)
{
    switch (dtype) {
    case ENG_F32:
    case ENG_C64:
        return FIELD_FLOATS;
    case ENG_F64:
    case ENG_C128:
        return FIELD_DOUBLES;
    case ENG_I64:
        return FIELD_INT64S;
    case ENG_U32:
    case ENG_U64:
        return FIELD_UINT64S;
    case ENG_STRING:
        return FIELD_STRINGS;
    default:
        return FIELD_INT32S;
    }
}

// Typed elements while they are decoded: `total` numbers of `bytes` each (complex types: two).
struct decode {
    const struct eng_tensor_proto *proto;
    struct base_arena *arena;
    bool copy;
    uint8_t *out;
    size_t bytes;
    int64_t total;
    int64_t done;
};

static void put(struct decode *decode, uint64_t value)
{
    if (decode->done < decode->total) {
        // Little-endian: the low bytes are the narrower number.
        memcpy(decode->out + (size_t)decode->done * decode->bytes, &value, decode->bytes);
    }
    decode->done++;
}

static enum base_status put_string(struct decode *decode, const struct eng_wire_field *field)
{
    if (field->type != ENG_WIRE_BYTES) {
        return BASE_ERR_INVALID;
    }
    base_assert(decode->bytes == sizeof(struct eng_string));
    if (decode->done < decode->total) {
        struct eng_string string = {(const char *)field->bytes, field->size};
        if (decode->copy && field->size > 0) {
            string.at = base_arena_copy(decode->arena, field->bytes, field->size);
            if (string.at == NULL) {
                return BASE_ERR_NOMEM;
            }
        }
        memcpy(decode->out + (size_t)decode->done * sizeof(string), &string, sizeof(string));
    }
    decode->done++;
    return BASE_OK;
}

static enum base_status put_field(struct decode *decode, const struct eng_wire_field *field)
{
    if (field->number == FIELD_STRINGS) {
        return put_string(decode, field);
    }
    base_assert(decode->bytes <= sizeof(uint64_t)); // see put
    bool is_fixed = field->number == FIELD_FLOATS || field->number == FIELD_DOUBLES;
    if (field->type != ENG_WIRE_BYTES) {
        bool fits = field->number == FIELD_FLOATS    ? field->type == ENG_WIRE_FIXED32
                    : field->number == FIELD_DOUBLES ? field->type == ENG_WIRE_FIXED64
                                                     : field->type == ENG_WIRE_VARINT;
        put(decode, field->value);
        return fits ? BASE_OK : BASE_ERR_INVALID;
    }
    struct base_reader reader;
    base_reader_init(&reader, field->bytes, field->size);
    while (reader.status == BASE_OK && base_reader_left(&reader) > 0) {
        if (is_fixed) {
            put(decode, field->number == FIELD_FLOATS ? base_reader_u32(&reader)
                                                      : base_reader_u64(&reader));
        } else {
            put(decode, eng_wire_varint(&reader));
        }
    }
    return reader.status;
}

// Packed numbers in one piece that need no decoding; NULL when there is no such piece.
static const uint8_t *one_piece(const struct eng_tensor_proto *proto, enum field wanted)
{
    base_assert(wanted == FIELD_FLOATS || wanted == FIELD_DOUBLES); // others are varints
    struct base_reader reader;
    base_reader_init(&reader, proto->bytes, proto->size);
    struct eng_wire_field field;
    while (eng_wire_next(&reader, &field)) {
        if (field.number == (uint32_t)wanted) {
            bool whole = field.type == ENG_WIRE_BYTES && field.size == eng_desc_bytes(&proto->desc);
            return whole ? field.bytes : NULL;
        }
    }
    return NULL;
}

static enum base_status decode_typed(const struct eng_tensor_proto *proto,
                                     const struct eng_tensor_source *source, enum field wanted,
                                     struct eng_array *out, struct base_error *error)
{
    bool is_complex = proto->desc.dtype == ENG_C64 || proto->desc.dtype == ENG_C128;
    struct decode d = {.proto = proto, .arena = source->arena, .copy = source->copy};
    d.bytes = eng_dtype_bytes(proto->desc.dtype) / (is_complex ? 2 : 1);
    d.total = proto->count * (is_complex ? 2 : 1);
    base_assert(d.total > 0); // memory of no bytes may be NULL
    base_assert(d.bytes <= sizeof(uint64_t) || proto->desc.dtype == ENG_STRING); // see put
    // Every number takes at least one byte of the message.
    if ((uint64_t)d.total > proto->size) {
        return fail(proto, error, BASE_ERR_INVALID, "fewer elements than its dimensions say");
    }
    d.out = base_arena_alloc(source->arena, (size_t)d.total * d.bytes);
    if (d.out == NULL) {
        return fail(proto, error, BASE_ERR_NOMEM, "out of memory");
    }
    struct base_reader reader;
    base_reader_init(&reader, proto->bytes, proto->size);
    struct eng_wire_field field;
    while (eng_wire_next(&reader, &field)) {
        if (field.number == (uint32_t)wanted) {
            enum base_status status = put_field(&d, &field);
            if (status != BASE_OK) {
                return fail(proto, error, status, "unreadable elements");
            }
        }
    }
    if (d.done != d.total) {
        return fail(proto, error, BASE_ERR_INVALID,
                    "another number of elements than its dimensions say");
    }
    out->data = d.out;
    return BASE_OK;
}

static enum base_status find_external(const struct eng_tensor_proto *proto,
                                      const struct eng_tensor_source *source,
                                      const uint8_t **out_bytes, struct base_error *error)
{
    size_t need = eng_desc_bytes(&proto->desc);
    base_assert(proto->is_external && proto->desc.dtype != ENG_STRING);
    if (source->mappings == NULL) {
        return fail(proto, error, BASE_ERR_UNSUPPORTED, "external data is not possible here");
    }
    if (proto->location.size == 0 || proto->location.size > ENG_LOCATION_BYTES_MAX ||
        memchr(proto->location.data, 0, proto->location.size) != NULL) {
        return fail(proto, error, BASE_ERR_INVALID, "external data without a proper location");
    }
    if (proto->has_length && proto->length != need) {
        return fail(proto, error, BASE_ERR_INVALID,
                    "length of the external data is not what the dimensions say");
    }
    char location[ENG_LOCATION_BYTES_MAX + 1];
    memcpy(location, proto->location.data, proto->location.size);
    location[proto->location.size] = '\0';
    const void *bytes;
    size_t size;
    BASE_TRY(eng_mappings_external(source->mappings, location, &bytes, &size, error));
    if (proto->offset > size || need > size - proto->offset) {
        return fail(proto, error, BASE_ERR_TRUNCATED, "external data ends before the tensor does");
    }
    *out_bytes = bytes == NULL ? (const uint8_t *)nothing : (const uint8_t *)bytes + proto->offset;
    return BASE_OK;
}

static bool bools_are_clean(const uint8_t *bytes, int64_t count)
{
    uint8_t any = 0;
    for (int64_t i = 0; i < count; i++) {
        any |= bytes[i];
    }
    return any <= 1;
}

// Takes dense little-endian elements where they are, or copies them when they may not stay, are
// not aligned, or are truth values other than 0 and 1. External ones are mapped as long as the
// model is.
static enum base_status take_dense(const struct eng_tensor_proto *proto,
                                   const struct eng_tensor_source *source, const uint8_t *bytes,
                                   struct eng_array *out, struct base_error *error)
{
    size_t size = eng_desc_bytes(&proto->desc);
    size_t element = eng_dtype_bytes(proto->desc.dtype);
    size_t alignment = element > 8 ? 8 : element;
    base_assert(size > 0 && proto->desc.dtype != ENG_STRING);
    bool clean = proto->desc.dtype != ENG_BOOL || bools_are_clean(bytes, proto->count);
    bool stays = (proto->is_external || !source->copy) && size >= ENG_MAPPED_BYTES_MIN;
    bool loose = source->loose && proto->desc.dtype == ENG_F32 && size >= ENG_LOOSE_BYTES_MIN;
    if (stays && clean && (loose || (uintptr_t)bytes % alignment == 0)) {
        out->data = (void *)(uintptr_t)bytes;
        return BASE_OK;
    }
    uint8_t *copy = base_arena_copy(source->arena, bytes, size);
    if (copy == NULL) {
        return fail(proto, error, BASE_ERR_NOMEM, "out of memory");
    }
    if (!clean) {
        for (int64_t i = 0; i < proto->count; i++) {
            copy[i] = copy[i] != 0;
        }
    }
    out->data = copy;
    return BASE_OK;
}

enum base_status eng_tensor_proto_data(const struct eng_tensor_proto *proto,
                                       const struct eng_tensor_source *source,
                                       struct eng_array *out_array, struct base_error *error)
{
    enum eng_dtype dtype = proto->desc.dtype;
    struct eng_array array = {.desc = proto->desc, .data = (void *)(uintptr_t)nothing};
    enum field wanted = typed_field(dtype);
    const uint8_t *dense = proto->raw;
    base_assert(eng_desc_count(&proto->desc) == proto->count);
    if (proto->is_external) {
        if (dtype == ENG_STRING) {
            return fail(proto, error, BASE_ERR_INVALID, "strings cannot be external");
        }
        BASE_TRY(find_external(proto, source, &dense, error));
    } else if (dense != NULL) {
        if (dtype == ENG_STRING || proto->raw_size != eng_desc_bytes(&proto->desc)) {
            return fail(proto, error, BASE_ERR_INVALID,
                        "raw data of another size than its type and dimensions say");
        }
    } else if (wanted == FIELD_FLOATS || wanted == FIELD_DOUBLES) {
        dense = one_piece(proto, wanted);
    }
    if (proto->count == 0) {
        *out_array = array;
        return BASE_OK;
    }
    if (dense != NULL) {
        BASE_TRY(take_dense(proto, source, dense, &array, error));
    } else {
        BASE_TRY(decode_typed(proto, source, wanted, &array, error));
        if (dtype == ENG_BOOL) {
            uint8_t *truths = array.data;
            for (int64_t i = 0; i < proto->count; i++) {
                truths[i] = truths[i] != 0;
            }
        }
    }
    *out_array = array;
    return BASE_OK;
}
