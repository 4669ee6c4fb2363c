// The file a model was loaded from, with its parameters as training left them. Called by users of
// train.h on the trainer's thread. The file is walked field by field on the way to its
// initializers, and all else is copied as it lies: what a newer reader would find in it stays. It
// is walked twice, to count and to write, so nothing is allocated.
#include "train/train_step.h"

#include "base/check.h"
#include "model/pb_wire.h"

#include <string.h>

// Fields of ModelProto, GraphProto and TensorProto.
enum { MODEL_GRAPH = 7, GRAPH_INITIALIZER = 5 };
enum {
    TENSOR_DIMS = 1,
    TENSOR_TYPE = 2,
    TENSOR_NAME = 8,
    TENSOR_RAW = 9,
    TENSOR_DOC = 12,
    TENSOR_LOCATION = 14
};

// Where bytes go: counted only where `at` is NULL.
struct sink {
    uint8_t *at;
    size_t size;
};

struct exporting {
    const struct eng_trainer *trainer;
    struct sink sink;
    uint32_t found; // weights that were put in the place of the file's
    struct base_error *error;
};

static void put(struct sink *sink, const void *bytes, size_t size)
{
    if (sink->at != NULL && size > 0) {
        memcpy(sink->at + sink->size, bytes, size);
    }
    sink->size += size;
}

static void put_varint(struct sink *sink, uint64_t value)
{
    do {
        uint8_t byte = (uint8_t)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
        put(sink, &byte, 1);
        value >>= 7;
    } while (value != 0);
}

// Key and length of a field that holds bytes.
static void put_head(struct sink *sink, uint32_t field, size_t size)
{
    put_varint(sink, (uint64_t)field << 3 | ENG_WIRE_BYTES);
    put_varint(sink, size);
}

static void put_field(struct sink *sink, const struct eng_wire_field *field)
{
    put(sink, field->start, (size_t)(field->end - field->start));
}

static enum base_status damaged(const struct exporting *export, enum base_status status)
{
    return base_error_set(export->error, status != BASE_OK ? status : BASE_ERR_INVALID,
                          "this is not the ONNX file of the model");
}

static bool is_changed(const struct eng_weight *weight)
{
    return weight->is_trained || weight->is_statistic;
}

// The weight whose values a tensor of the file has; NULL: it stays as it is.
static const struct eng_weight *weight_of(const struct exporting *export,
                                          const struct eng_wire_field *tensor)
{
    struct base_reader reader;
    struct eng_wire_field field;
    const uint8_t *name = NULL;
    size_t size = 0;
    base_reader_init(&reader, tensor->bytes, tensor->size);
    while (eng_wire_next(&reader, &field)) {
        if (field.number == TENSOR_NAME && field.type == ENG_WIRE_BYTES) {
            name = field.bytes;
            size = field.size;
        }
    }
    char text[ENG_NAME_BYTES_MAX + 1];
    if (name == NULL || size > ENG_NAME_BYTES_MAX) {
        return NULL;
    }
    memcpy(text, name, size);
    text[size] = '\0';
    int64_t index = eng_trainer_parameter_index(export->trainer, text);
    base_assert(index < (int64_t) export->trainer->parameter_count);
    const struct eng_weight *weight = index >= 0 ? &export->trainer->weights[index] : NULL;
    return weight != NULL && is_changed(weight) ? weight : NULL;
}

// The tensor's description as it lies, and the weight's values behind it.
static enum base_status tensor_body(struct exporting *export, const struct eng_wire_field *tensor,
                                    const struct eng_weight *weight)
{
    struct base_reader reader;
    struct eng_wire_field field;
    base_reader_init(&reader, tensor->bytes, tensor->size);
    while (eng_wire_next(&reader, &field)) {
        if (field.number == TENSOR_LOCATION && field.value != 0) {
            return base_error_set(export->error, BASE_ERR_UNSUPPORTED,
                                  "the weight '%.80s' lies in a file of its own", weight->name);
        }
        if (field.number == TENSOR_DIMS || field.number == TENSOR_TYPE ||
            field.number == TENSOR_NAME || field.number == TENSOR_DOC) {
            put_field(&export->sink, &field);
        }
    }
    size_t bytes = eng_desc_bytes(&weight->desc);
    put_head(&export->sink, TENSOR_RAW, bytes);
    put(&export->sink, weight->data, bytes);
    return reader.status == BASE_OK ? BASE_OK : damaged(export, reader.status);
}

static enum base_status tensor_put(struct exporting *export, const struct eng_wire_field *tensor)
{
    const struct eng_weight *weight = weight_of(export, tensor);
    if (weight == NULL) {
        put_field(&export->sink, tensor);
        return BASE_OK;
    }
    const struct sink kept = export->sink;
    export->sink = (struct sink){0};
    BASE_TRY(tensor_body(export, tensor, weight));
    size_t size = export->sink.size;
    export->sink = kept;
    put_head(&export->sink, tensor->number, size);
    export->found++;
    return tensor_body(export, tensor, weight);
}

static enum base_status graph_body(struct exporting *export, const struct eng_wire_field *graph)
{
    struct base_reader reader;
    struct eng_wire_field field;
    base_reader_init(&reader, graph->bytes, graph->size);
    export->found = 0;
    while (eng_wire_next(&reader, &field)) {
        if (field.number == GRAPH_INITIALIZER && field.type == ENG_WIRE_BYTES) {
            BASE_TRY(tensor_put(export, &field));
        } else {
            put_field(&export->sink, &field);
        }
    }
    return reader.status == BASE_OK ? BASE_OK : damaged(export, reader.status);
}

static enum base_status graph_put(struct exporting *export, const struct eng_wire_field *graph)
{
    const struct sink kept = export->sink;
    export->sink = (struct sink){0};
    BASE_TRY(graph_body(export, graph));
    size_t size = export->sink.size;
    export->sink = kept;
    put_head(&export->sink, graph->number, size);
    return graph_body(export, graph);
}

static enum base_status model_put(struct exporting *export, const void *file, size_t size)
{
    struct base_reader reader;
    struct eng_wire_field field;
    uint32_t changed = 0;
    base_reader_init(&reader, file, size);
    while (eng_wire_next(&reader, &field)) {
        if (field.number == MODEL_GRAPH && field.type == ENG_WIRE_BYTES) {
            BASE_TRY(graph_put(export, &field));
        } else {
            put_field(&export->sink, &field);
        }
    }
    if (reader.status != BASE_OK) {
        return damaged(export, reader.status);
    }
    for (uint32_t i = 0; i < export->trainer->parameter_count; i++) {
        changed += is_changed(&export->trainer->weights[i]);
    }
    base_assert(export->sink.at != NULL || export->sink.size > 0 || size == 0);
    if (export->found != changed) {
        return base_error_set(export->error, BASE_ERR_UNSUPPORTED,
                              "of %u trained parameters %u are in the file: others were made when "
                              "it was loaded",
                              changed, export->found);
    }
    return BASE_OK;
}

enum base_status eng_trainer_export_bytes(const struct eng_trainer *trainer, const void *file,
                                          size_t size, size_t *out_bytes, struct base_error *error)
{
    struct exporting export = {.trainer = trainer, .error = error};
    BASE_TRY(model_put(&export, file, size));
    *out_bytes = export.sink.size;
    return BASE_OK;
}

enum base_status eng_trainer_export(const struct eng_trainer *trainer, const void *file,
                                    size_t size, void *bytes, struct base_error *error)
{
    struct exporting export = {.trainer = trainer, .sink = {.at = bytes}, .error = error};
    return model_put(&export, file, size);
}
