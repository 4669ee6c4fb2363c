// What a version declared that may leave, asked for one thing at a time. Called by the VM of a
// script (walle.data.upload, walle.cloud.infer), by the device's pipeline and its calls, and by
// `walle task run`; pure, any thread. It reads the declaration anew each time: it has a few hundred
// bytes, and nobody has to keep what was made of it.
#include "wire/leaves/leaves_check.h"

#include "wire/leaves/leaves_json.h"

#include "base/check.h"

#include <stdio.h>

// What of a declaration is needed, and whether it says anything of what leaves.
struct declared {
    struct wire_declaration declaration;
    struct wire_leaves leaves;
    bool leaves_said;
};

static enum base_status declared_read(struct base_str declaration, struct declared *out,
                                      struct base_error *error)
{
    out->leaves_said = false;
    out->declaration.upload_count = 0;
    if (declaration.size == 0) {
        return BASE_OK;
    }
    enum base_status status = wire_declaration_parse((const uint8_t *)declaration.data,
                                                     declaration.size, &out->declaration);
    struct base_str leaves = status == BASE_OK ? out->declaration.leaves : (struct base_str){0};
    if (status == BASE_OK && leaves.size > 0) {
        out->leaves_said = true;
        status = wire_leaves_parse((const uint8_t *)leaves.data, leaves.size, &out->leaves);
    }
    return status == BASE_OK ? BASE_OK
                             : base_error_set(error, BASE_ERR_CORRUPT,
                                              "the version's declaration cannot be read: %s",
                                              base_status_text(status));
}

static const struct wire_leaves_upload *upload_find(const struct wire_leaves *leaves,
                                                    struct base_str name)
{
    for (uint32_t i = 0; i < leaves->upload_count; i++) {
        if (base_str_equal(leaves->uploads[i].name, name)) {
            return &leaves->uploads[i];
        }
    }
    return NULL;
}

static const struct wire_leaves_model *model_find(const struct wire_leaves *leaves,
                                                  struct base_str name)
{
    for (uint32_t i = 0; i < leaves->model_count; i++) {
        if (base_str_equal(leaves->models[i].name, name)) {
            return &leaves->models[i];
        }
    }
    return NULL;
}

// ---- Uploads

static enum base_status record_check(const struct wire_leaves *leaves,
                                     const struct wire_leaves_upload *upload,
                                     const struct wire_leaves_record *record,
                                     struct base_error *error)
{
    char what[WIRE_UPLOAD_NAME_MAX + 12];
    int size =
        snprintf(what, sizeof(what), "upload '%.*s'", (int)upload->name.size, upload->name.data);
    base_assert(size > 0 && (size_t)size < sizeof(what));
    if (record->size > upload->bytes_max) {
        return base_error_set(error, BASE_ERR_DENIED, "%s has %zu bytes, and %u may leave", what,
                              record->size, upload->bytes_max);
    }
    if (record->format == WIRE_RECORD_BYTES && upload->opaque) {
        return BASE_OK;
    }
    if (record->format != WIRE_RECORD_JSON || upload->field_count == 0) {
        return base_error_set(error, BASE_ERR_DENIED, "%s: \"leaves\" lets no %s go", what,
                              record->format == WIRE_RECORD_JSON ? "fields" : "bytes");
    }
    return wire_leaves_json_check(&leaves->fields[upload->field_from], upload->field_count,
                                  (struct base_str){(const char *)record->bytes, record->size},
                                  (struct base_str){what, (size_t)size}, error);
}

static enum base_status declared_upload_check(const struct declared *declared,
                                              struct base_str upload,
                                              const struct wire_leaves_record *record,
                                              struct base_error *error)
{
    if (wire_declaration_upload(&declared->declaration, upload) == NULL) {
        return base_error_set(error, BASE_ERR_NOT_FOUND,
                              "upload '%.*s' is not in \"uploads\" of task.json", (int)upload.size,
                              upload.data);
    }
    if (!declared->leaves_said) {
        return BASE_OK;
    }
    const struct wire_leaves_upload *found = upload_find(&declared->leaves, upload);
    return found != NULL ? record_check(&declared->leaves, found, record, error)
                         : base_error_set(error, BASE_ERR_DENIED,
                                          "upload '%.*s' is not in \"leaves\" of task.json",
                                          (int)upload.size, upload.data);
}

enum base_status wire_leaves_upload_check(struct base_str declaration, struct base_str upload,
                                          const struct wire_leaves_record *record,
                                          struct base_error *error)
{
    struct declared declared;
    BASE_TRY(declared_read(declaration, &declared, error));
    return declared_upload_check(&declared, upload, record, error);
}

enum base_status wire_leaves_result_check(struct base_str declaration,
                                          const struct wire_leaves_record *record,
                                          struct base_error *error)
{
    struct declared declared;
    BASE_TRY(declared_read(declaration, &declared, error));
    const struct wire_declaration *version = &declared.declaration;
    return declaration.size > 0 && version->result_upload < version->upload_count
               ? declared_upload_check(&declared, version->uploads[version->result_upload].name,
                                       record, error)
               : BASE_OK;
}

uint32_t wire_leaves_upload_per_day(struct base_str declaration, struct base_str upload)
{
    struct declared declared;
    if (declared_read(declaration, &declared, NULL) != BASE_OK || !declared.leaves_said) {
        return 0;
    }
    const struct wire_leaves_upload *found = upload_find(&declared.leaves, upload);
    return found != NULL ? found->per_day : 0;
}

// ---- Calls

static enum base_status input_check(const struct wire_leaves *leaves,
                                    const struct wire_leaves_model *model,
                                    const struct wire_leaves_input *input, struct base_error *error)
{
    base_assert(model->input_from + model->input_count <= leaves->input_count);
    for (uint32_t i = 0; i < model->input_count; i++) {
        const struct wire_leaves_port *port = &leaves->inputs[model->input_from + i];
        if (!base_str_equal(port->name, input->name)) {
            continue;
        }
        if (!base_str_equal(port->dtype, input->dtype)) {
            return base_error_set(
                error, BASE_ERR_DENIED, "model '%.*s': input '%.*s' is %.*s, and %.*s may leave",
                (int)model->name.size, model->name.data, (int)port->name.size, port->name.data,
                (int)input->dtype.size, input->dtype.data, (int)port->dtype.size, port->dtype.data);
        }
        return input->elements <= port->elements_max
                   ? BASE_OK
                   : base_error_set(
                         error, BASE_ERR_DENIED,
                         "model '%.*s': input '%.*s' has %llu elements, and %llu may leave",
                         (int)model->name.size, model->name.data, (int)port->name.size,
                         port->name.data, (unsigned long long)input->elements,
                         (unsigned long long)port->elements_max);
    }
    return base_error_set(
        error, BASE_ERR_DENIED, "model '%.*s': input '%.*s' is not in \"leaves\" of task.json",
        (int)model->name.size, model->name.data, (int)input->name.size, input->name.data);
}

static enum base_status inputs_check(const struct wire_leaves *leaves,
                                     const struct wire_leaves_model *model,
                                     const struct wire_leaves_call *call, struct base_error *error)
{
    uint64_t bytes = 0;
    base_assert(call->input_count == 0 || call->inputs != NULL);
    for (uint32_t i = 0; i < call->input_count; i++) { // no more than are declared, and once each
        for (uint32_t j = 0; j < i; j++) {
            if (base_str_equal(call->inputs[j].name, call->inputs[i].name)) {
                return base_error_set(error, BASE_ERR_DENIED,
                                      "model '%.*s': input '%.*s' is there twice",
                                      (int)model->name.size, model->name.data,
                                      (int)call->inputs[i].name.size, call->inputs[i].name.data);
            }
        }
        BASE_TRY(input_check(leaves, model, &call->inputs[i], error));
        uint64_t more = call->inputs[i].bytes;
        bytes = more <= UINT64_MAX - bytes ? bytes + more : UINT64_MAX;
    }
    return bytes <= model->bytes_max
               ? BASE_OK
               : base_error_set(error, BASE_ERR_DENIED,
                                "model '%.*s': its inputs have %llu bytes, and %u may leave",
                                (int)model->name.size, model->name.data, (unsigned long long)bytes,
                                model->bytes_max);
}

enum base_status wire_leaves_call_check(struct base_str declaration,
                                        const struct wire_leaves_call *call,
                                        struct base_error *error)
{
    struct declared declared;
    BASE_TRY(declared_read(declaration, &declared, error));
    const struct wire_leaves_model *model =
        declared.leaves_said ? model_find(&declared.leaves, call->model) : NULL;
    return model != NULL ? inputs_check(&declared.leaves, model, call, error)
                         : base_error_set(error, BASE_ERR_DENIED,
                                          "task.json has no \"leaves\" that lets anything go to "
                                          "model '%.*s'",
                                          (int)call->model.size, call->model.data);
}

uint32_t wire_leaves_model_per_day(struct base_str declaration, struct base_str model)
{
    struct declared declared;
    if (declared_read(declaration, &declared, NULL) != BASE_OK || !declared.leaves_said) {
        return 0;
    }
    const struct wire_leaves_model *found = model_find(&declared.leaves, model);
    return found != NULL ? found->per_day : 0;
}

// ---- Failures

enum wire_leaves_errors wire_leaves_errors_of(struct base_str declaration)
{
    struct declared declared;
    if (declared_read(declaration, &declared, NULL) != BASE_OK) {
        return WIRE_LEAVES_PLACE;
    }
    return declared.leaves_said ? declared.leaves.errors : WIRE_LEAVES_WORDS;
}

bool wire_leaves_declared(struct base_str declaration)
{
    struct declared declared;
    return declared_read(declaration, &declared, NULL) == BASE_OK && declared.leaves_said;
}
