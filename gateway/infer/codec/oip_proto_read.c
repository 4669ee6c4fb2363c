// Requests in protobuf to calls and queries, for the gRPC door, on a worker's thread. Read field by
// field where they lie, since generated classes would copy every tensor; depth is that of the
// protocol's own messages. What the raw contents belong to is known at the end of the message only.
#include "infer/codec/oip_proto.h"

#include "base/check.h"
#include "base/cursor.h"
#include "infer/codec/json_in.h"
#include "infer/codec/oip_proto_contents.h"
#include "infer/codec/oip_tensor.h"
#include "model/pb_wire.h"

struct message_in {
    struct base_arena *arena;
    struct base_error *error;
    struct gw_infer_call *call;
    struct base_str *inputs; // the InferInputTensor of each
    struct base_str *raw;    // raw_input_contents
    size_t raw_count;
    bool *has_contents; // of each input
};

static enum base_status malformed(struct base_error *error, enum base_status status)
{
    return base_error_set(error, status, "protobuf: the message is malformed");
}

static struct base_str bytes_of(const struct eng_wire_field *field)
{
    return (struct base_str){(const char *)field->bytes, field->size};
}

static enum base_status read_text(const struct eng_wire_field *field, size_t most,
                                  struct base_str *out, struct base_error *error)
{
    if (field->type != ENG_WIRE_BYTES) {
        return malformed(error, BASE_ERR_INVALID);
    }
    const char *at = (const char *)field->bytes;
    const char *end = at + field->size;
    if (field->size > most) {
        return base_error_set(error, BASE_ERR_TOO_LARGE, "protobuf: field %u is over %zu bytes",
                              field->number, most);
    }
    while (at < end) {
        size_t size = gw_json_utf8(at, end);
        if (size == 0) {
            return base_error_set(error, BASE_ERR_INVALID, "protobuf: field %u is no UTF-8",
                                  field->number);
        }
        at += size;
    }
    *out = bytes_of(field);
    return BASE_OK;
}

// ---- Parameters: map<string, InferParameter>

struct parameter {
    struct base_str name;
    bool is_number; // int64_param or uint64_param
    uint64_t number;
};

static enum base_status read_parameter_value(struct base_str value, struct parameter *out,
                                             struct base_error *error)
{
    struct base_reader reader;
    struct eng_wire_field field;
    base_reader_init(&reader, value.data, value.size);
    while (eng_wire_next(&reader, &field)) {
        if (field.number >= 1 && field.number <= 5) { // bool, int64, string, double, uint64
            out->is_number = field.type == ENG_WIRE_VARINT && field.number != 1;
            out->number = field.value;
        }
        if (field.number == 2 && (int64_t)field.value < 0) {
            out->number = UINT64_MAX; // over every limit
        }
    }
    return reader.status == BASE_OK ? BASE_OK : malformed(error, reader.status);
}

static enum base_status read_parameter(const struct eng_wire_field *entry, struct parameter *out,
                                       struct base_error *error)
{
    struct base_reader reader;
    struct eng_wire_field field;
    *out = (struct parameter){0};
    if (entry->type != ENG_WIRE_BYTES) {
        return malformed(error, BASE_ERR_INVALID);
    }
    base_reader_init(&reader, entry->bytes, entry->size);
    while (eng_wire_next(&reader, &field)) {
        if (field.number == 1) {
            BASE_TRY(read_text(&field, SIZE_MAX, &out->name, error));
        } else if (field.number == 2) {
            BASE_TRY(read_parameter_value(bytes_of(&field), out, error));
        }
    }
    return reader.status == BASE_OK ? BASE_OK : malformed(error, reader.status);
}

static enum base_status take_number(const struct parameter *parameter, const char *name,
                                    uint64_t most, uint64_t *out, struct base_error *error)
{
    if (!base_str_equal(parameter->name, base_str_of(name))) {
        return BASE_OK;
    }
    if (!parameter->is_number || parameter->number > most) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "parameter \"%s\": a whole number from 0 to %llu is wanted", name,
                              (unsigned long long)most);
    }
    *out = parameter->number;
    return BASE_OK;
}

static enum base_status read_call_parameter(struct message_in *in,
                                            const struct eng_wire_field *field)
{
    struct parameter parameter;
    uint64_t priority = in->call->priority;
    BASE_TRY(read_parameter(field, &parameter, in->error));
    BASE_TRY(take_number(&parameter, "timeout", GW_INFER_TIMEOUT_US_MAX, &in->call->timeout_us,
                         in->error));
    BASE_TRY(take_number(&parameter, "priority", GW_INFER_PRIORITIES - 1, &priority, in->error));
    in->call->priority = (uint32_t)priority;
    return BASE_OK;
}

// ---- Inputs and outputs

static enum base_status add_dimension(struct eng_desc *desc, uint64_t size,
                                      struct base_error *error)
{
    if (desc->rank == ENG_RANK_MAX) {
        return base_error_set(error, BASE_ERR_TOO_LARGE, "shape: over %d dimensions", ENG_RANK_MAX);
    }
    desc->dims[desc->rank++] = (int64_t)size; // a negative one is found with the whole shape
    return BASE_OK;
}

static enum base_status read_shape(const struct eng_wire_field *field, struct eng_desc *desc,
                                   struct base_error *error)
{
    struct base_reader reader;
    if (field->type == ENG_WIRE_VARINT) {
        return add_dimension(desc, field->value, error);
    }
    base_reader_init(&reader, field->bytes, field->size);
    while (reader.status == BASE_OK && base_reader_left(&reader) > 0) {
        BASE_TRY(add_dimension(desc, eng_wire_varint(&reader), error));
    }
    return field->type == ENG_WIRE_BYTES && reader.status == BASE_OK
               ? BASE_OK
               : malformed(error, BASE_ERR_INVALID);
}

static enum base_status read_datatype(const struct eng_wire_field *field, struct eng_desc *desc,
                                      struct base_error *error)
{
    desc->dtype = field->type == ENG_WIRE_BYTES ? gw_oip_dtype(bytes_of(field)) : ENG_UNDEFINED;
    if (desc->dtype == ENG_UNDEFINED) {
        return base_error_set(error, BASE_ERR_UNSUPPORTED, "datatype \"%.*s\" is not known",
                              (int)(field->size < 32 ? field->size : 32),
                              (const char *)field->bytes);
    }
    return BASE_OK;
}

static enum base_status read_input(struct message_in *in, const struct eng_wire_field *message)
{
    struct base_reader reader;
    struct eng_wire_field field;
    size_t i = in->call->input_count;
    struct gw_infer_tensor tensor = {0};
    if (i == GW_INFER_TENSORS_MAX) {
        return base_error_set(in->error, BASE_ERR_TOO_LARGE, "over %u inputs",
                              GW_INFER_TENSORS_MAX);
    }
    in->has_contents[i] = false;
    base_reader_init(&reader, message->bytes, message->size);
    while (eng_wire_next(&reader, &field)) {
        switch (field.number) {
        case 1:
            BASE_TRY(read_text(&field, GW_INFER_NAME_BYTES_MAX, &tensor.name, in->error));
            break;
        case 2:
            BASE_TRY(read_datatype(&field, &tensor.desc, in->error));
            break;
        case 3:
            BASE_TRY(read_shape(&field, &tensor.desc, in->error));
            break;
        case 5:
            in->has_contents[i] = in->has_contents[i] || field.size > 0;
            break;
        default: // parameters say nothing here: what is raw is not in them
            break;
        }
    }
    if (reader.status != BASE_OK || message->type != ENG_WIRE_BYTES) {
        return malformed(in->error, BASE_ERR_INVALID);
    }
    if (tensor.name.size == 0 || tensor.desc.dtype == ENG_UNDEFINED) {
        return base_error_set(in->error, BASE_ERR_INVALID, "an input without name or datatype");
    }
    in->inputs[i] = bytes_of(message);
    in->call->inputs[i] = tensor;
    in->call->input_count++;
    return BASE_OK;
}

static enum base_status read_wish(struct message_in *in, const struct eng_wire_field *message)
{
    struct base_reader reader;
    struct eng_wire_field field;
    struct gw_infer_wish wish = {0};
    if (in->call->wish_count == GW_INFER_TENSORS_MAX) {
        return base_error_set(in->error, BASE_ERR_TOO_LARGE, "over %u outputs",
                              GW_INFER_TENSORS_MAX);
    }
    base_reader_init(&reader, message->bytes, message->size);
    while (eng_wire_next(&reader, &field)) {
        struct parameter parameter;
        uint64_t classes = wish.classes;
        if (field.number == 1) {
            BASE_TRY(read_text(&field, GW_INFER_NAME_BYTES_MAX, &wish.name, in->error));
        } else if (field.number == 2) {
            BASE_TRY(read_parameter(&field, &parameter, in->error));
            BASE_TRY(take_number(&parameter, "classification", GW_INFER_CLASSES_MAX, &classes,
                                 in->error));
            wish.classes = (uint32_t)classes;
        }
    }
    if (reader.status != BASE_OK || message->type != ENG_WIRE_BYTES) {
        return malformed(in->error, BASE_ERR_INVALID);
    }
    if (wish.name.size == 0) {
        return base_error_set(in->error, BASE_ERR_INVALID, "an output without name");
    }
    in->call->wishes[in->call->wish_count++] = wish;
    return BASE_OK;
}

// ---- The whole

static enum base_status read_raw(struct message_in *in, const struct eng_wire_field *field)
{
    if (in->raw_count == GW_INFER_TENSORS_MAX || field->type != ENG_WIRE_BYTES) {
        return base_error_set(in->error, BASE_ERR_INVALID,
                              "raw_input_contents: over %u, or malformed", GW_INFER_TENSORS_MAX);
    }
    in->raw[in->raw_count++] = bytes_of(field);
    return BASE_OK;
}

static enum base_status read_field(struct message_in *in, const struct eng_wire_field *field)
{
    struct gw_infer_call *call = in->call;
    switch (field->number) {
    case 1:
        return read_text(field, GW_INFER_NAME_BYTES_MAX, &call->model, in->error);
    case 2:
        return read_text(field, GW_INFER_NAME_BYTES_MAX, &call->version, in->error);
    case 3:
        return read_text(field, GW_INFER_ID_BYTES_MAX, &call->id, in->error);
    case 4:
        return read_call_parameter(in, field);
    case 5:
        return read_input(in, field);
    case 6:
        return read_wish(in, field);
    case 7:
        return read_raw(in, field);
    default:
        return BASE_OK;
    }
}

// Gives each input its elements.
static enum base_status read_contents(struct message_in *in)
{
    struct gw_infer_call *call = in->call;
    if (in->raw_count != 0 && in->raw_count != call->input_count) {
        return base_error_set(in->error, BASE_ERR_INVALID, "%zu raw_input_contents for %zu inputs",
                              in->raw_count, call->input_count);
    }
    for (size_t i = 0; i < call->input_count; i++) {
        struct gw_infer_tensor *input = &call->inputs[i];
        if (in->raw_count > 0 && in->has_contents[i]) {
            return base_error_set(in->error, BASE_ERR_INVALID,
                                  "input \"%.*s\" has contents beside raw_input_contents",
                                  (int)input->name.size, input->name.data);
        }
        if (in->raw_count > 0) {
            BASE_TRY(gw_oip_raw_read(in->arena, in->raw[i], input, in->error));
        } else {
            BASE_TRY(gw_oip_proto_contents(in->arena, in->inputs[i], input, in->error));
        }
    }
    return BASE_OK;
}

enum base_status gw_oip_proto_read(struct base_arena *arena, struct base_str message,
                                   struct gw_infer_call *out, struct base_error *error)
{
    struct gw_infer_call call = {.priority = GW_INFER_PRIORITY_USUAL, .binary_all = true};
    struct base_str inputs[GW_INFER_TENSORS_MAX];
    struct base_str raw[GW_INFER_TENSORS_MAX];
    bool has_contents[GW_INFER_TENSORS_MAX];
    struct message_in in = {.arena = arena,
                            .error = error,
                            .call = &call,
                            .inputs = inputs,
                            .raw = raw,
                            .has_contents = has_contents};
    struct base_reader reader;
    struct eng_wire_field field;
    call.inputs = base_arena_alloc(arena, GW_INFER_TENSORS_MAX * sizeof(*call.inputs));
    call.wishes = base_arena_alloc(arena, GW_INFER_TENSORS_MAX * sizeof(*call.wishes));
    if (call.inputs == NULL || call.wishes == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "out of memory");
    }
    base_reader_init(&reader, message.data, message.size);
    while (eng_wire_next(&reader, &field)) {
        BASE_TRY(read_field(&in, &field));
    }
    if (reader.status != BASE_OK) {
        return malformed(error, reader.status);
    }
    BASE_TRY(gw_oip_check_names(&call, error));
    BASE_TRY(read_contents(&in));
    *out = call;
    return BASE_OK;
}

size_t gw_oip_proto_raw_bytes(struct base_str message)
{
    struct base_reader reader;
    struct eng_wire_field field;
    size_t bytes = 0;
    base_reader_init(&reader, message.data, message.size);
    while (eng_wire_next(&reader, &field)) {
        bytes += field.number == 7 && field.type == ENG_WIRE_BYTES ? field.size : 0;
    }
    return bytes;
}

size_t gw_oip_proto_typed_room(struct base_str message)
{
    struct base_reader reader;
    struct eng_wire_field field;
    size_t bytes = 0;
    size_t count = 0;
    base_reader_init(&reader, message.data, message.size);
    while (count < GW_INFER_TENSORS_MAX && eng_wire_next(&reader, &field)) {
        if (field.number == 5 && field.type == ENG_WIRE_BYTES) {
            bytes += gw_oip_proto_contents_room(bytes_of(&field));
            count++;
        }
    }
    return bytes;
}

struct base_str gw_oip_proto_id(struct base_str message)
{
    struct base_reader reader;
    struct eng_wire_field field;
    struct base_error error = {0};
    struct base_str id = {0};
    base_reader_init(&reader, message.data, message.size);
    while (eng_wire_next(&reader, &field)) {
        if (field.number == 3 && read_text(&field, GW_INFER_ID_BYTES_MAX, &id, &error) != BASE_OK) {
            id = (struct base_str){0};
        }
    }
    return id;
}

// Clients write fields in the order of their numbers: behind the parameters come tensors.
static bool is_tensor(uint64_t number)
{
    return number >= 5 && number <= 7;
}

// The number of the field that begins `at` bytes into the piece; 0: not even that is there.
static uint64_t number_at(struct base_str piece, size_t at)
{
    struct base_reader reader;
    base_reader_init(&reader, piece.data + at, piece.size - at);
    uint64_t tag = eng_wire_varint(&reader);
    return reader.status == BASE_OK ? tag >> 3 : 0;
}

enum base_status gw_oip_proto_early(struct base_str piece, struct gw_infer_call *call)
{
    struct message_in in = {.call = call};
    struct base_reader reader;
    struct eng_wire_field field = {0};
    size_t at = 0;
    base_reader_init(&reader, piece.data, piece.size);
    while (!is_tensor(field.number) && eng_wire_next(&reader, &field)) {
        if (!is_tensor(field.number)) {
            BASE_TRY(read_field(&in, &field));
            at = piece.size - base_reader_left(&reader);
        }
    }
    return is_tensor(field.number) || is_tensor(number_at(piece, at)) ? BASE_OK
                                                                      : BASE_ERR_TRUNCATED;
}

enum base_status gw_oip_proto_query(struct base_str message, struct gw_oip_query *out,
                                    struct base_error *error)
{
    struct gw_oip_query query = {0};
    struct base_reader reader;
    struct eng_wire_field field;
    base_reader_init(&reader, message.data, message.size);
    while (eng_wire_next(&reader, &field)) {
        if (field.number == 1) {
            BASE_TRY(read_text(&field, GW_INFER_NAME_BYTES_MAX, &query.first, error));
        } else if (field.number == 2 && field.type == ENG_WIRE_VARINT) {
            query.flag = field.value != 0;
        } else if (field.number == 2) {
            BASE_TRY(read_text(&field, GW_INFER_NAME_BYTES_MAX, &query.second, error));
        }
    }
    if (reader.status != BASE_OK) {
        return malformed(error, reader.status);
    }
    *out = query;
    return BASE_OK;
}
