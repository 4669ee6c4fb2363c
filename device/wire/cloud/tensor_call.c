// Writes and reads calls of models in the cloud and their answers (layout in the header). Called on
// the device by the script VM, the task's process, the agent and the runtime; by the gateway's
// inference service for what devices send. Pure: the reader goes through the cursor alone, copies
// nothing, and each size follows from shape and type, so that none can be claimed.
#include "wire/cloud/tensor_call.h"

#include "base/check.h"
#include "base/ckd.h"

_Static_assert(WIRE_TENSORS_MAX <= UINT8_MAX, "a count is a byte");
_Static_assert(WIRE_TENSOR_NAME_MAX <= UINT8_MAX, "a text's size is a byte");

static const char *const words[] = {
#define WIRE_CLOUD_WORD(name, word) word,
    WIRE_CLOUD_MAP(WIRE_CLOUD_WORD)
#undef WIRE_CLOUD_WORD
};

const char *wire_cloud_word(enum wire_cloud_why why)
{
    return words[(unsigned)why < WIRE_CLOUD_COUNT ? why : WIRE_CLOUD_FAILED];
}

bool wire_cloud_of_word(struct base_str word, enum wire_cloud_why *out)
{
    for (unsigned i = 0; i < WIRE_CLOUD_COUNT; i++) {
        if (base_str_equal(word, base_str_of(words[i]))) {
            *out = (enum wire_cloud_why)i;
            return true;
        }
    }
    return false;
}

uint32_t wire_tensor_element_bytes(uint8_t dtype)
{
    // By ONNX's numbers: text (8) and complex numbers (14, 15) are none for a call.
    static const uint8_t bytes[] = {0, 4, 1, 1, 2, 2, 4, 8, 0, 1, 2, 8, 4, 8, 0, 0, 2};
    return dtype < sizeof(bytes) ? bytes[dtype] : 0;
}

bool wire_tensor_model_ok(struct base_str name)
{
    bool good = name.size > 0 && name.size <= WIRE_TENSOR_MODEL_MAX && name.data[0] != '.';
    for (size_t i = 0; good && i < name.size; i++) {
        char c = name.data[i];
        good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '.' || c == '_' || c == '-';
    }
    return good;
}

// What shape and type say; false: over the limit, or no type.
static bool size_of(const struct wire_tensor *tensor, size_t *out_bytes)
{
    size_t bytes = wire_tensor_element_bytes(tensor->dtype);
    if (bytes == 0 || tensor->rank > WIRE_TENSOR_RANK_MAX) {
        return false;
    }
    for (uint32_t d = 0; d < tensor->rank; d++) {
        if (!base_ckd_mul(bytes, (size_t)tensor->dims[d], &bytes)) {
            return false;
        }
    }
    *out_bytes = bytes;
    return bytes <= WIRE_TENSOR_CALL_MAX;
}

// ---- Writing

static void text_write(struct base_writer *writer, struct base_str text, size_t most)
{
    if (text.size > most) {
        base_writer_fail(writer, BASE_ERR_INVALID);
        return;
    }
    base_writer_u8(writer, (uint8_t)text.size);
    base_writer_bytes(writer, text.data, text.size);
}

static void tensors_write(struct base_writer *writer, const struct wire_tensor *tensors,
                          uint32_t count)
{
    if (count > WIRE_TENSORS_MAX) {
        base_writer_fail(writer, BASE_ERR_INVALID);
        return;
    }
    base_assert(writer->at <= writer->end);
    base_writer_u8(writer, (uint8_t)count);
    for (uint32_t i = 0; i < count && writer->status == BASE_OK; i++) {
        const struct wire_tensor *tensor = &tensors[i];
        size_t bytes = 0;
        if (tensor->name.size == 0 || !size_of(tensor, &bytes) || bytes != tensor->bytes) {
            base_writer_fail(writer, BASE_ERR_INVALID);
            return;
        }
        text_write(writer, tensor->name, WIRE_TENSOR_NAME_MAX);
        base_writer_u8(writer, tensor->dtype);
        base_writer_u8(writer, tensor->rank);
        for (uint32_t d = 0; d < tensor->rank; d++) {
            base_writer_varint(writer, tensor->dims[d]);
        }
        base_writer_bytes(writer, tensor->data, bytes);
    }
}

void wire_tensor_call_write(struct base_writer *writer, const struct wire_tensor_call *call)
{
    base_assert(writer != NULL);
    if (call->priority >= WIRE_TENSOR_PRIORITIES || call->deadline_ms == 0 ||
        call->deadline_ms > WIRE_TENSOR_DEADLINE_MS) {
        base_writer_fail(writer, BASE_ERR_INVALID);
    }
    base_writer_u8(writer, WIRE_TENSOR_VERSION);
    base_writer_u8(writer, call->priority);
    base_writer_u32(writer, call->deadline_ms);
    tensors_write(writer, call->tensors, call->count);
}

void wire_tensor_answer_write(struct base_writer *writer, const struct wire_tensor_answer *answer)
{
    base_writer_u8(writer, WIRE_TENSOR_VERSION);
    text_write(writer, answer->version, WIRE_TENSOR_NAME_MAX);
    tensors_write(writer, answer->tensors, answer->count);
}

// ---- Reading

static struct base_str text_read(struct base_reader *reader, size_t most)
{
    size_t size = base_reader_u8(reader);
    if (size > most) {
        base_reader_fail(reader, BASE_ERR_INVALID);
    }
    const uint8_t *bytes = base_reader_bytes(reader, size);
    return bytes != NULL ? (struct base_str){(const char *)bytes, size}
                         : (struct base_str){NULL, 0};
}

static void tensor_read(struct base_reader *reader, struct wire_tensor *out)
{
    out->name = text_read(reader, WIRE_TENSOR_NAME_MAX);
    out->dtype = base_reader_u8(reader);
    out->rank = base_reader_u8(reader);
    if (out->name.size == 0 || out->rank > WIRE_TENSOR_RANK_MAX) {
        base_reader_fail(reader, BASE_ERR_INVALID);
    }
    for (uint32_t d = 0; d < out->rank && reader->status == BASE_OK; d++) {
        out->dims[d] = base_reader_varint_max(reader, WIRE_TENSOR_CALL_MAX);
    }
    if (reader->status != BASE_OK) {
        return;
    }
    if (wire_tensor_element_bytes(out->dtype) == 0) {
        base_reader_fail(reader, BASE_ERR_INVALID);
    } else if (!size_of(out, &out->bytes)) {
        base_reader_fail(reader, BASE_ERR_TOO_LARGE);
    }
    out->data = base_reader_bytes(reader, out->bytes);
}

static bool name_is_new(const struct wire_tensor *tensors, uint32_t index)
{
    for (uint32_t i = 0; i < index; i++) {
        if (base_str_equal(tensors[i].name, tensors[index].name)) {
            return false;
        }
    }
    return true;
}

static uint32_t tensors_read(struct base_reader *reader, struct wire_tensor *out)
{
    uint32_t count = base_reader_u8(reader);
    if (count > WIRE_TENSORS_MAX) {
        base_reader_fail(reader, BASE_ERR_INVALID);
    }
    for (uint32_t i = 0; i < count && reader->status == BASE_OK; i++) {
        tensor_read(reader, &out[i]);
        if (reader->status == BASE_OK && !name_is_new(out, i)) {
            base_reader_fail(reader, BASE_ERR_INVALID);
        }
    }
    return reader->status == BASE_OK ? count : 0;
}

static void version_read(struct base_reader *reader)
{
    if (base_reader_u8(reader) != WIRE_TENSOR_VERSION) {
        base_reader_fail(reader, BASE_ERR_INVALID);
    }
}

enum base_status wire_tensor_call_parse(const uint8_t *bytes, size_t size,
                                        struct wire_tensor_call *out)
{
    struct base_reader reader;
    memset(out, 0, sizeof(*out));
    base_reader_init(&reader, bytes, size);
    version_read(&reader);
    out->priority = base_reader_u8(&reader);
    out->deadline_ms = base_reader_u32(&reader);
    if (out->priority >= WIRE_TENSOR_PRIORITIES || out->deadline_ms == 0 ||
        out->deadline_ms > WIRE_TENSOR_DEADLINE_MS) {
        base_reader_fail(&reader, BASE_ERR_INVALID);
    }
    out->count = tensors_read(&reader, out->tensors);
    return base_reader_finish(&reader);
}

enum base_status wire_tensor_answer_parse(const uint8_t *bytes, size_t size,
                                          struct wire_tensor_answer *out)
{
    struct base_reader reader;
    memset(out, 0, sizeof(*out));
    base_reader_init(&reader, bytes, size);
    version_read(&reader);
    out->version = text_read(&reader, WIRE_TENSOR_NAME_MAX);
    out->count = tensors_read(&reader, out->tensors);
    base_assert(out->count <= WIRE_TENSORS_MAX);
    return base_reader_finish(&reader);
}
