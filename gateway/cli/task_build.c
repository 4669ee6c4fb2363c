// Task builder: Python to bytecode, files to content-addressed blobs, all of it into a manifest.
// Called by the task commands; one thread.
#include "cli/task_build.h"

#include "cli/cli_files.h"
#include "cli/cli_json.h"
#include "cli/signing.h"
#include "engine/engine.h"
#include "policy/semver.h"
#include "vm/mpy_check.h"
#include "vm/vm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct built_file {
    char name[WIRE_FILE_NAME_MAX + 2]; // "ipv.mpy"
    uint8_t *bytes;
    size_t size;
    struct wire_sha256 digest;
};

struct builder {
    const struct task_build_options *options;
    struct task_source source;
    const char *out_folder;
    const char *version;
    struct built_file files[WIRE_MANIFEST_FILES_MAX];
};

static enum base_status write_blob(const char *out_folder, const struct wire_sha256 *digest,
                                   const uint8_t *bytes, size_t size, struct base_error *error)
{
    char hex[WIRE_SHA256_HEX + 1];
    char path[CLI_PATH_MAX];

    wire_sha256_hex(digest, hex);
    if (snprintf(path, sizeof(path), "%s/blobs/%s", out_folder, hex) >= CLI_PATH_MAX) {
        return base_error_set(error, BASE_ERR_IO, "%.100s: path too long", out_folder);
    }
    return cli_file_write(path, bytes, size, error);
}

// "features.py" becomes "features.mpy"; the source's name, not its path, is in the bytecode.
static enum base_status compile_file(const struct task_source_file *file, struct built_file *out,
                                     struct base_error *error)
{
    uint8_t *source = NULL;
    size_t source_size = 0;
    struct base_error inner = {0};

    BASE_TRY(cli_file_read(file->path, TASK_BUILD_SOURCE_MAX, &source, &source_size, error));
    enum base_status status =
        dev_vm_compile((struct base_str){(const char *)source, source_size},
                       base_str_of(file->name), &out->bytes, &out->size, &inner);
    free(source);
    if (status != BASE_OK) {
        enum base_status said =
            inner.line > 0
                ? base_error_set(error, status, "%s: line %u: %.100s", file->path, inner.line,
                                 inner.text)
                : base_error_set(error, status, "%s: %.120s", file->path,
                                 inner.text[0] != '\0' ? inner.text : base_status_text(status));
        if (error != NULL) {
            error->line = inner.line;
        }
        return said;
    }
    (void)snprintf(out->name, sizeof(out->name), "%.*s.mpy", (int)strlen(file->name) - 3,
                   file->name);
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

static enum base_status build_file(struct builder *builder, uint32_t index,
                                   struct base_error *error)
{
    const struct task_source_file *file = &builder->source.files[index];
    struct built_file *built = &builder->files[index];

    if (file->kind == WIRE_FILE_SCRIPT) {
        BASE_TRY(compile_file(file, built, error));
    } else {
        BASE_TRY(
            cli_file_read(file->path, TASK_BUILD_FILE_MAX, &built->bytes, &built->size, error));
        (void)snprintf(built->name, sizeof(built->name), "%s", file->name);
        if (file->kind == WIRE_FILE_MODEL) {
            BASE_TRY(check_model(file->name, built->bytes, built->size, error));
        }
    }
    BASE_TRY(signing_sha256(built->bytes, built->size, &built->digest));
    return write_blob(builder->out_folder, &built->digest, built->bytes, built->size, error);
}

static void fill_manifest(const struct builder *builder, struct wire_manifest *out)
{
    const struct task_source *source = &builder->source;

    out->task_name = base_str_of(source->name);
    out->version = base_str_of(builder->version);
    out->runtime_abi = WIRE_RUNTIME_ABI;
    out->entry = base_str_of(source->entry);
    out->heap_kib = source->heap_kib;
    out->time_ms = source->time_ms;
    out->every_s = source->every_s;
    out->config = base_str_of(source->config);
    out->declaration =
        (struct base_str){(const char *)source->declaration, source->declaration_bytes};
    out->file_count = source->file_count;
    for (uint32_t i = 0; i < source->file_count; ++i) {
        out->files[i].kind = source->files[i].kind;
        out->files[i].name = base_str_of(builder->files[i].name);
        out->files[i].bytes = builder->files[i].size;
        out->files[i].digest = builder->files[i].digest;
    }
}

static enum base_status make_manifest(const struct builder *builder, struct task_build *out,
                                      struct base_error *error)
{
    struct wire_manifest manifest = {0};
    uint8_t *bytes = malloc(WIRE_MANIFEST_BYTES_MAX);
    size_t size = 0;

    if (bytes == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "out of memory");
    }
    fill_manifest(builder, &manifest);
    enum base_status status =
        wire_manifest_encode(&manifest, bytes, WIRE_MANIFEST_BYTES_MAX, &size);
    out->manifest_bytes = bytes;
    out->manifest_size = size;
    if (status == BASE_OK) {
        status = wire_manifest_parse(bytes, size, &out->manifest);
    }
    if (status == BASE_OK) {
        status = signing_sha256(bytes, size, &out->manifest_digest);
    }
    return status == BASE_OK
               ? BASE_OK
               : base_error_set(error, status, "task.json does not make a valid manifest: %s",
                                base_status_text(status));
}

static enum base_status write_summary(const struct builder *builder, const struct task_build *build,
                                      struct base_error *error)
{
    char hex[WIRE_SHA256_HEX + 1];
    char path[CLI_PATH_MAX];
    json_t *files = json_array();

    for (uint32_t i = 0; i < builder->source.file_count; ++i) {
        wire_sha256_hex(&builder->files[i].digest, hex);
        (void)json_array_append_new(files, json_pack("{s:s, s:s, s:I}", "name",
                                                     builder->files[i].name, "sha256", hex, "bytes",
                                                     (json_int_t)builder->files[i].size));
    }
    wire_sha256_hex(&build->manifest_digest, hex);
    json_t *root = json_pack("{s:s, s:s, s:s, s:I, s:o}", "name", builder->source.name, "version",
                             builder->version, "manifest", hex, "manifest_bytes",
                             (json_int_t)build->manifest_size, "files", files);
    if (root != NULL && builder->options->commit != NULL) {
        (void)json_object_set_new(root, "commit", json_string(builder->options->commit));
    }
    char *text = root != NULL ? json_dumps(root, JSON_INDENT(2)) : NULL;
    json_decref(root);
    if (text == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "out of memory");
    }
    enum base_status status = BASE_ERR_IO;
    if (snprintf(path, sizeof(path), "%s/build.json", builder->out_folder) < CLI_PATH_MAX) {
        status = cli_file_write(path, text, strlen(text), error);
    }
    free(text);
    return status;
}

static enum base_status build_all(struct builder *builder, struct task_build *out,
                                  struct base_error *error)
{
    const struct task_build_options *options = builder->options;
    char path[CLI_PATH_MAX];
    struct pol_semver parsed;

    BASE_TRY(task_source_load(options->folder, options->identity, &builder->source, error));
    if (builder->version == NULL) {
        builder->version = builder->source.version;
    } else if (!pol_semver_parse(builder->version, (uint32_t)strlen(builder->version), &parsed)) {
        return base_error_set(error, BASE_ERR_INVALID, "--version: '%.60s' is no semantic version",
                              builder->version);
    }
    if (snprintf(path, sizeof(path), "%s/blobs", builder->out_folder) >= CLI_PATH_MAX) {
        return base_error_set(error, BASE_ERR_IO, "--out: path too long");
    }
    BASE_TRY(cli_folder_make(path, error));
    for (uint32_t i = 0; i < builder->source.file_count; ++i) {
        BASE_TRY(build_file(builder, i, error));
    }
    BASE_TRY(make_manifest(builder, out, error));
    BASE_TRY(write_blob(builder->out_folder, &out->manifest_digest, out->manifest_bytes,
                        out->manifest_size, error));
    BASE_TRY(write_summary(builder, out, error));
    (void)snprintf(path, sizeof(path), "%s/manifest", builder->out_folder);
    return cli_file_write(path, out->manifest_bytes, out->manifest_size, error);
}

enum base_status task_build_make(const struct task_build_options *options, struct task_build *out,
                                 struct base_error *error)
{
    struct builder *builder = calloc(1, sizeof(*builder));

    if (builder == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "out of memory");
    }
    builder->options = options;
    builder->out_folder = options->out_folder;
    builder->version = options->version;
    enum base_status status = build_all(builder, out, error);
    for (uint32_t i = 0; i < builder->source.file_count; ++i) {
        free(builder->files[i].bytes);
    }
    task_source_done(&builder->source);
    free(builder);
    return status;
}

enum base_status task_build_load(const char *folder, struct task_build *out,
                                 struct base_error *error)
{
    char path[CLI_PATH_MAX];

    if (snprintf(path, sizeof(path), "%s/manifest", folder) >= CLI_PATH_MAX) {
        return base_error_set(error, BASE_ERR_IO, "%.100s: path too long", folder);
    }
    BASE_TRY(cli_file_read(path, WIRE_MANIFEST_BYTES_MAX, &out->manifest_bytes, &out->manifest_size,
                           error));
    enum base_status status =
        wire_manifest_parse(out->manifest_bytes, out->manifest_size, &out->manifest);
    if (status != BASE_OK) {
        return base_error_set(error, status, "%s: not a manifest (%s)", path,
                              base_status_text(status));
    }
    return signing_sha256(out->manifest_bytes, out->manifest_size, &out->manifest_digest);
}

static enum base_status verify_file(const char *folder, const struct wire_manifest_file *file,
                                    struct base_error *error)
{
    char name[WIRE_FILE_NAME_MAX + 1];
    char hex[WIRE_SHA256_HEX + 1];
    char path[CLI_PATH_MAX];
    uint8_t *bytes = NULL;
    size_t size = 0;
    struct wire_sha256 digest;

    (void)snprintf(name, sizeof(name), "%.*s", (int)file->name.size, file->name.data);
    wire_sha256_hex(&file->digest, hex);
    if (snprintf(path, sizeof(path), "%s/blobs/%s", folder, hex) >= CLI_PATH_MAX) {
        return base_error_set(error, BASE_ERR_IO, "%.100s: path too long", folder);
    }
    BASE_TRY(cli_file_read(path, TASK_BUILD_FILE_MAX, &bytes, &size, error));
    enum base_status status = signing_sha256(bytes, size, &digest);
    if (status == BASE_OK && (size != file->bytes || !wire_sha256_equal(&digest, &file->digest))) {
        status = base_error_set(error, BASE_ERR_HASH,
                                "%s (%s): the content does not match its name", name, path);
    }
    struct dev_mpy_fault fault = {0};
    if (status == BASE_OK && file->kind == WIRE_FILE_SCRIPT &&
        dev_mpy_check(bytes, size, &fault) != BASE_OK) {
        status = base_error_set(error, BASE_ERR_INVALID, "%s: byte %zu: %s", name, fault.offset,
                                fault.what);
    }
    if (status == BASE_OK && file->kind == WIRE_FILE_MODEL) {
        status = check_model(name, bytes, size, error);
    }
    free(bytes);
    return status;
}

enum base_status task_build_verify(const char *folder, const struct task_build *build,
                                   struct base_error *error)
{
    for (uint32_t i = 0; i < build->manifest.file_count; ++i) {
        BASE_TRY(verify_file(folder, &build->manifest.files[i], error));
    }
    return BASE_OK;
}

void task_build_done(struct task_build *build)
{
    if (build != NULL) {
        free(build->manifest_bytes);
        build->manifest_bytes = NULL;
    }
}
