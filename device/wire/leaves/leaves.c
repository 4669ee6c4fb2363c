// The codec of what may leave a device, inside a version's declaration.
//
// The build command encodes; gateway, device and task process parse. One check function serves both
// directions, so that nothing is written that a device would not read. Nothing is allocated; parsed
// texts are borrowed from the input.
#include "wire/leaves/leaves.h"

#include "base/check.h"
#include "wire/wiretext.h"

#include <string.h>

// As in the Open Inference Protocol v2, "Tensor Data Types".
bool wire_leaves_dtype_ok(struct base_str dtype)
{
    static const char *const types[] = {"BOOL", "UINT8", "UINT16", "UINT32", "UINT64",
                                        "INT8", "INT16", "INT32",  "INT64",  "FP16",
                                        "BF16", "FP32",  "FP64",   "BYTES"};
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (base_str_equal(dtype, base_str_of(types[i]))) {
            return true;
        }
    }
    return false;
}

bool wire_leaves_part_ok(struct base_str part)
{
    if (part.size == 0 || part.size > WIRE_LEAVES_PATH_MAX || !wire_text_printable(part)) {
        return false;
    }
    for (size_t i = 0; i < part.size; i++) {
        if (strchr(".[]\"\\", part.data[i]) != NULL) {
            return false;
        }
    }
    return true;
}

// Where the part that begins at `at` ends: at a dot, a bracket or the path's end.
static size_t part_end(struct base_str path, size_t at)
{
    while (at < path.size && path.data[at] != '.' && path.data[at] != '[') {
        at++;
    }
    return at;
}

// "", "a", "a.b", "a[]", "[]", "[].a", "a[][].b"
static bool path_ok(struct base_str path)
{
    size_t at = 0;
    uint32_t depth = 0;
    if (path.size > WIRE_LEAVES_PATH_MAX) {
        return false;
    }
    base_assert(path.size == 0 || path.data != NULL);
    bool named = true; // a name may come here
    while (at < path.size) {
        if (path.data[at] == '[') {
            if (path.size - at < 2 || path.data[at + 1] != ']') {
                return false;
            }
            at += 2;
            named = false;
        } else {
            at += path.data[at] == '.' && at > 0 ? 1 : 0;
            size_t end = part_end(path, at);
            if ((!named && path.data[at - 1] != '.') ||
                !wire_leaves_part_ok((struct base_str){path.data + at, end - at})) {
                return false;
            }
            at = end;
            named = false;
        }
        if (++depth > WIRE_LEAVES_DEPTH_MAX) {
            return false;
        }
    }
    return true;
}

static bool field_ok(const struct wire_leaves_field *field)
{
    if (!path_ok(field->path)) {
        return false;
    }
    switch (field->kind) {
    case WIRE_LEAVES_BOOLEAN:
    case WIRE_LEAVES_INTEGER:
    case WIRE_LEAVES_NUMBER:
        return field->max == 0;
    case WIRE_LEAVES_TEXT:
        return field->max > 0 && field->max <= WIRE_LEAVES_TEXT_MAX;
    case WIRE_LEAVES_LIST:
        return field->max > 0 && field->max <= WIRE_LEAVES_ITEMS_MAX;
    default:
        return false;
    }
}

static bool upload_ok(const struct wire_leaves *leaves, uint32_t index)
{
    const struct wire_leaves_upload *upload = &leaves->uploads[index];
    base_assert(index < leaves->upload_count && leaves->field_count <= WIRE_LEAVES_FIELDS_MAX);
    if (!wire_upload_name_ok(upload->name) || upload->bytes_max == 0 ||
        upload->bytes_max > WIRE_RECORD_BYTES_MAX || upload->per_day > WIRE_LEAVES_PER_DAY_MAX ||
        (!upload->opaque && upload->field_count == 0) || upload->field_from > leaves->field_count ||
        upload->field_count > leaves->field_count - upload->field_from) {
        return false;
    }
    for (uint32_t i = 0; i < index; i++) {
        if (base_str_equal(leaves->uploads[i].name, upload->name)) {
            return false;
        }
    }
    const struct wire_leaves_field *fields = &leaves->fields[upload->field_from];
    for (uint32_t i = 0; i < upload->field_count; i++) {
        if (!field_ok(&fields[i])) {
            return false;
        }
        for (uint32_t j = 0; j < i; j++) {
            if (base_str_equal(fields[j].path, fields[i].path)) {
                return false;
            }
        }
    }
    return true;
}

static bool name_ok(struct base_str name)
{
    return name.size > 0 && name.size <= WIRE_LEAVES_NAME_MAX && wire_text_printable(name);
}

static bool model_ok(const struct wire_leaves *leaves, uint32_t index)
{
    const struct wire_leaves_model *model = &leaves->models[index];
    base_assert(index < leaves->model_count && leaves->input_count <= WIRE_LEAVES_INPUTS_MAX);
    if (!name_ok(model->name) || model->bytes_max == 0 || model->bytes_max > WIRE_LEAVES_CALL_MAX ||
        model->per_day > WIRE_LEAVES_PER_DAY_MAX || model->input_count == 0 ||
        model->input_from > leaves->input_count ||
        model->input_count > leaves->input_count - model->input_from) {
        return false;
    }
    for (uint32_t i = 0; i < index; i++) {
        if (base_str_equal(leaves->models[i].name, model->name)) {
            return false;
        }
    }
    const struct wire_leaves_port *inputs = &leaves->inputs[model->input_from];
    for (uint32_t i = 0; i < model->input_count; i++) {
        if (!name_ok(inputs[i].name) || !wire_leaves_dtype_ok(inputs[i].dtype) ||
            inputs[i].elements_max == 0 || inputs[i].elements_max > WIRE_LEAVES_ELEMENTS_MAX) {
            return false;
        }
        for (uint32_t j = 0; j < i; j++) {
            if (base_str_equal(inputs[j].name, inputs[i].name)) {
                return false;
            }
        }
    }
    return true;
}

static enum base_status leaves_check(const struct wire_leaves *leaves)
{
    if (leaves->upload_count > WIRE_DECLARATION_UPLOADS_MAX ||
        leaves->field_count > WIRE_LEAVES_FIELDS_MAX ||
        leaves->model_count > WIRE_LEAVES_MODELS_MAX ||
        leaves->input_count > WIRE_LEAVES_INPUTS_MAX) {
        return BASE_ERR_TOO_LARGE;
    }
    bool ok = leaves->errors < WIRE_LEAVES_ERRORS_END;
    for (uint32_t i = 0; ok && i < leaves->upload_count; i++) {
        ok = upload_ok(leaves, i);
    }
    for (uint32_t i = 0; ok && i < leaves->model_count; i++) {
        ok = model_ok(leaves, i);
    }
    return ok ? BASE_OK : BASE_ERR_INVALID;
}

// ---- Encode

static void upload_write(struct base_writer *writer, const struct wire_leaves *leaves,
                         const struct wire_leaves_upload *upload)
{
    base_assert(upload->field_from + upload->field_count <= leaves->field_count);
    wire_text_write(writer, upload->name, WIRE_UPLOAD_NAME_MAX);
    base_writer_varint(writer, upload->bytes_max);
    base_writer_varint(writer, upload->per_day);
    base_writer_u8(writer, upload->opaque ? 1 : 0);
    base_writer_varint(writer, upload->field_count);
    for (uint32_t i = 0; i < upload->field_count; i++) {
        const struct wire_leaves_field *field = &leaves->fields[upload->field_from + i];
        wire_text_write(writer, field->path, WIRE_LEAVES_PATH_MAX);
        base_writer_u8(writer, (uint8_t)field->kind);
        base_writer_varint(writer, field->max);
    }
}

static void model_write(struct base_writer *writer, const struct wire_leaves *leaves,
                        const struct wire_leaves_model *model)
{
    base_assert(model->input_from + model->input_count <= leaves->input_count);
    wire_text_write(writer, model->name, WIRE_LEAVES_NAME_MAX);
    base_writer_varint(writer, model->bytes_max);
    base_writer_varint(writer, model->per_day);
    base_writer_varint(writer, model->input_count);
    for (uint32_t i = 0; i < model->input_count; i++) {
        const struct wire_leaves_port *input = &leaves->inputs[model->input_from + i];
        wire_text_write(writer, input->name, WIRE_LEAVES_NAME_MAX);
        wire_text_write(writer, input->dtype, UINT8_MAX);
        base_writer_varint(writer, input->elements_max);
    }
}

enum base_status wire_leaves_encode(const struct wire_leaves *leaves, uint8_t *out, size_t capacity,
                                    size_t *out_size)
{
    BASE_TRY(leaves_check(leaves));
    struct base_writer writer;
    base_writer_init(&writer, out,
                     capacity < WIRE_LEAVES_BYTES_MAX ? capacity : WIRE_LEAVES_BYTES_MAX);
    base_writer_u8(&writer, WIRE_LEAVES_VERSION);
    base_writer_u8(&writer, (uint8_t)leaves->errors);
    base_writer_varint(&writer, leaves->upload_count);
    for (uint32_t i = 0; i < leaves->upload_count; i++) {
        upload_write(&writer, leaves, &leaves->uploads[i]);
    }
    base_writer_varint(&writer, leaves->model_count);
    for (uint32_t i = 0; i < leaves->model_count; i++) {
        model_write(&writer, leaves, &leaves->models[i]);
    }
    BASE_TRY(writer.status);
    *out_size = base_writer_size(&writer);
    base_assert(*out_size <= capacity && *out_size <= WIRE_LEAVES_BYTES_MAX);
    return BASE_OK;
}

// ---- Parse

static uint32_t read_count(struct base_reader *reader, uint64_t max)
{
    uint64_t count = base_reader_varint_max(reader, max);
    return reader->status == BASE_OK ? (uint32_t)count : 0;
}

static void upload_read(struct base_reader *reader, struct wire_leaves *out,
                        struct wire_leaves_upload *upload)
{
    upload->name = wire_text_read(reader, WIRE_UPLOAD_NAME_MAX);
    upload->bytes_max = read_count(reader, WIRE_RECORD_BYTES_MAX);
    upload->per_day = read_count(reader, WIRE_LEAVES_PER_DAY_MAX);
    uint8_t opaque = base_reader_u8(reader);
    if (opaque > 1) {
        base_reader_fail(reader, BASE_ERR_INVALID);
    }
    upload->opaque = opaque == 1;
    upload->field_from = out->field_count;
    upload->field_count = read_count(reader, WIRE_LEAVES_FIELDS_MAX - out->field_count);
    base_assert(out->field_count + upload->field_count <= WIRE_LEAVES_FIELDS_MAX);
    for (uint32_t i = 0; i < upload->field_count; i++) {
        struct wire_leaves_field *field = &out->fields[out->field_count++];
        field->path = wire_text_read(reader, WIRE_LEAVES_PATH_MAX);
        field->kind = (enum wire_leaves_kind)base_reader_u8(reader);
        field->max = read_count(reader, UINT32_MAX);
    }
}

static void model_read(struct base_reader *reader, struct wire_leaves *out,
                       struct wire_leaves_model *model)
{
    model->name = wire_text_read(reader, WIRE_LEAVES_NAME_MAX);
    model->bytes_max = read_count(reader, WIRE_LEAVES_CALL_MAX);
    model->per_day = read_count(reader, WIRE_LEAVES_PER_DAY_MAX);
    model->input_from = out->input_count;
    model->input_count = read_count(reader, WIRE_LEAVES_INPUTS_MAX - out->input_count);
    base_assert(out->input_count + model->input_count <= WIRE_LEAVES_INPUTS_MAX);
    for (uint32_t i = 0; i < model->input_count; i++) {
        struct wire_leaves_port *input = &out->inputs[out->input_count++];
        input->name = wire_text_read(reader, WIRE_LEAVES_NAME_MAX);
        input->dtype = wire_text_read(reader, UINT8_MAX);
        input->elements_max = base_reader_varint_max(reader, WIRE_LEAVES_ELEMENTS_MAX);
    }
}

enum base_status wire_leaves_parse(const uint8_t *bytes, size_t size, struct wire_leaves *out)
{
    if (size > WIRE_LEAVES_BYTES_MAX) {
        return BASE_ERR_TOO_LARGE;
    }
    struct base_reader reader;
    base_reader_init(&reader, bytes, size);
    uint8_t version = base_reader_u8(&reader);
    if (reader.status == BASE_OK && version != WIRE_LEAVES_VERSION) {
        return BASE_ERR_UNSUPPORTED;
    }
    out->field_count = 0;
    out->input_count = 0;
    out->errors = (enum wire_leaves_errors)base_reader_u8(&reader);
    out->upload_count = read_count(&reader, WIRE_DECLARATION_UPLOADS_MAX);
    for (uint32_t i = 0; i < out->upload_count; i++) {
        upload_read(&reader, out, &out->uploads[i]);
    }
    out->model_count = read_count(&reader, WIRE_LEAVES_MODELS_MAX);
    for (uint32_t i = 0; i < out->model_count; i++) {
        model_read(&reader, out, &out->models[i]);
    }
    base_assert(out->field_count <= WIRE_LEAVES_FIELDS_MAX);
    BASE_TRY(base_reader_finish(&reader));
    return leaves_check(out);
}
