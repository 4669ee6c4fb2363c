// Files of a version on their way to content-addressed blobs, and back. Called by the task
// commands; one thread. Those are task_build.c and task_exclusive.c; push_blobs.c and
// cli_task_run.c read blobs. A script becomes bytecode here, a model is loaded once to see that the
// engine takes it. A blob is read back through its hash: what does not fit its name is refused.
#include "cli/task/task_file.h"

#include "cli/base/cli_files.h"
#include "cli/base/cli_json.h"
#include "signing/signing.h"
#include "engine/engine.h"
#include "vm/mpy/mpy_check.h"
#include "vm/vm.h"

#include "base/os/output_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum base_status blob_path(const char *folder, const struct wire_sha256 *digest,
                                  char out[CLI_PATH_MAX], struct base_error *error)
{
    char hex[WIRE_SHA256_HEX + 1];

    wire_sha256_hex(digest, hex);
    return snprintf(out, CLI_PATH_MAX, "%s/blobs/%s", folder, hex) < CLI_PATH_MAX
               ? BASE_OK
               : base_error_set(error, BASE_ERR_IO, "%.100s: path too long", folder);
}

enum base_status task_blob_write(const char *out_folder, const struct wire_sha256 *digest,
                                 const uint8_t *bytes, size_t size, struct base_error *error)
{
    char path[CLI_PATH_MAX];

    BASE_TRY(blob_path(out_folder, digest, path, error));
    return base_output_write(path, bytes, size, error);
}

enum base_status task_blob_read(const char *folder, const struct wire_sha256 *digest,
                                uint8_t **out_bytes, size_t *out_size, struct base_error *error)
{
    char path[CLI_PATH_MAX];
    uint8_t *bytes = NULL;
    size_t size = 0;
    struct wire_sha256 real;

    BASE_TRY(blob_path(folder, digest, path, error));
    BASE_TRY(cli_file_read_own(path, TASK_BUILD_FILE_MAX, &bytes, &size, error));
    enum base_status status = signing_sha256(bytes, size, &real);
    if (status == BASE_OK && !wire_sha256_equal(&real, digest)) {
        status =
            base_error_set(error, BASE_ERR_HASH, "%s: the content does not match its name", path);
    }
    if (status != BASE_OK) {
        free(bytes);
        return status;
    }
    *out_bytes = bytes;
    *out_size = size;
    return BASE_OK;
}

// The source's name, not its path, is in the bytecode.
enum base_status task_file_compile(const char *name, const char *path, struct dev_vm_compiled *out,
                                   struct base_error *error)
{
    uint8_t *source = NULL;
    size_t source_size = 0;
    struct base_error inner = {0};

    BASE_TRY(cli_file_read(path, TASK_BUILD_SOURCE_MAX, &source, &source_size, error));
    enum base_status status = dev_vm_compile_told(
        (struct base_str){(const char *)source, source_size}, base_str_of(name), out, &inner);
    free(source);
    if (status != BASE_OK) {
        enum base_status said =
            inner.line > 0
                ? base_error_set(error, status, "%s: line %u: %.100s", path, inner.line, inner.text)
                : base_error_set(error, status, "%s: %.120s", path,
                                 inner.text[0] != '\0' ? inner.text : base_status_text(status));
        if (error != NULL) {
            error->line = inner.line;
        }
        return said;
    }
    return BASE_OK;
}

// A model the engine cannot take would fail on every device: better here, with the node's name.
static enum base_status check_model(const char *name, const uint8_t *bytes, size_t size,
                                    struct base_error *error)
{
    struct eng_model *model = NULL;
    struct base_error inner = {0};
    size_t length = strlen(name);
    if (length < 5 || strcmp(name + length - 5, ".onnx") != 0) {
        return BASE_OK;
    }
    enum base_status status = eng_model_load_memory(bytes, size, NULL, &model, &inner);
    eng_model_unref(model);
    return status == BASE_OK ? BASE_OK
                             : base_error_set(error, status, "%s: %.160s", name, inner.text);
}

enum base_status task_file_build(const char *out_folder, const struct task_file_source *source,
                                 struct task_built_file *out, struct base_error *error)
{
    const char *name = source->name;
    uint8_t *bytes = NULL;
    enum base_status status;

    out->kind = source->kind;
    if (source->kind == WIRE_FILE_SCRIPT) {
        struct dev_vm_compiled told = {.mpy = NULL};
        status = task_file_compile(name, source->path, &told, error);
        bytes = told.mpy;
        out->size = told.size;
        (void)snprintf(out->name, sizeof(out->name), "%.*s.mpy", (int)strlen(name) - 3, name);
    } else {
        status = cli_file_read(source->path, TASK_BUILD_FILE_MAX, &bytes, &out->size, error);
        (void)snprintf(out->name, sizeof(out->name), "%s", name);
    }
    if (status == BASE_OK && source->kind == WIRE_FILE_MODEL) {
        status = check_model(name, bytes, out->size, error);
    }
    if (status == BASE_OK) {
        status = signing_sha256(bytes, out->size, &out->digest);
    }
    if (status == BASE_OK) {
        status = task_blob_write(out_folder, &out->digest, bytes, out->size, error);
    }
    free(bytes);
    return status;
}

enum base_status task_file_verify(const char *folder, const struct wire_manifest_file *file,
                                  struct base_error *error)
{
    char name[WIRE_FILE_NAME_MAX + 1];
    uint8_t *bytes = NULL;
    size_t size = 0;
    struct base_error inner = {0};

    (void)snprintf(name, sizeof(name), "%.*s", (int)file->name.size, file->name.data);
    enum base_status status = task_blob_read(folder, &file->digest, &bytes, &size, &inner);
    if (status != BASE_OK) {
        return base_error_set(error, status, "%s: %s", name, inner.text);
    }
    if (size != file->bytes) {
        status = base_error_set(error, BASE_ERR_HASH, "%s: %zu bytes, not %llu", name, size,
                                (unsigned long long)file->bytes);
    }
    struct dev_mpy_fault fault = {0};
    if (status == BASE_OK && file->kind == WIRE_FILE_SCRIPT &&
        dev_mpy_check(bytes, size, &fault) != BASE_OK) {
        char text[BASE_ERROR_TEXT_MAX];
        dev_mpy_fault_text(&fault, text, sizeof(text));
        status =
            base_error_set(error, BASE_ERR_INVALID, "%s: byte %zu: %s", name, fault.offset, text);
    }
    if (status == BASE_OK && file->kind == WIRE_FILE_MODEL) {
        status = check_model(name, bytes, size, error);
    }
    free(bytes);
    return status;
}
