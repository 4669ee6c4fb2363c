// Task builder: Python to bytecode, files to content-addressed blobs, all of it into a manifest.
// Called by the task commands; one thread. Those are cli_task.c and cli_task_run.c; the two files
// about starting rollouts read a build. Reading the source is task_source.c's, a single file
// task_file.c's, exclusive files task_exclusive.c's. The same source gives the same bytes: no time,
// no path and no order of a folder gets into a version.
#include "cli/task/task_build.h"

#include "cli/base/cli_files.h"
#include "cli/base/cli_json.h"
#include "cli/task/task_imports.h"
#include "cli/task/task_trace.h"
#include "cli/task/task_uploads.h"
#include "signing/signing.h"
#include "policy/semver.h"

#include "base/os/output_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct builder {
    const struct task_build_options *options;
    struct task_source source;
    const char *out_folder;
    const char *version;
    struct task_built_file files[WIRE_MANIFEST_FILES_MAX];
};

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

// The exclusive files of a version whose shared ones are in `manifest`, and the root of their tree.
static enum base_status make_exclusive(const struct builder *builder,
                                       struct wire_manifest *manifest, struct task_build *out,
                                       struct base_error *error)
{
    const struct task_source *source = &builder->source;

    if (source->exclusive_path[0] == '\0') {
        return BASE_OK;
    }
    BASE_TRY(task_exclusive_make(source->exclusive_path, builder->out_folder, manifest,
                                 &out->exclusive, error));
    manifest->exclusive =
        source->exclusive_required ? WIRE_EXCLUSIVE_REQUIRED : WIRE_EXCLUSIVE_OPTIONAL;
    manifest->exclusive_root = out->exclusive.root;
    return BASE_OK;
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
    out->manifest_bytes = bytes;
    fill_manifest(builder, &manifest);
    BASE_TRY(make_exclusive(builder, &manifest, out, error));
    enum base_status status =
        wire_manifest_encode(&manifest, bytes, WIRE_MANIFEST_BYTES_MAX, &size);
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
    if (root != NULL && build->exclusive.list != NULL) {
        wire_sha256_hex(&build->exclusive.root, hex);
        (void)json_object_set_new(
            root, "exclusive",
            json_pack("{s:s, s:I, s:I, s:b}", "root", hex, "subjects",
                      (json_int_t)build->exclusive.subject_count, "files",
                      (json_int_t)build->exclusive.file_count, "required",
                      (int)(build->manifest.exclusive == WIRE_EXCLUSIVE_REQUIRED)));
    }
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
        status = base_output_write(path, text, strlen(text), error);
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
    BASE_TRY(cli_folder_below(builder->out_folder, "blobs", error));
    for (uint32_t i = 0; i < builder->source.file_count; ++i) {
        const struct task_source_file *file = &builder->source.files[i];
        const struct task_file_source from = {file->name, file->path, file->kind};
        BASE_TRY(task_file_build(builder->out_folder, &from, &builder->files[i], error));
    }
    BASE_TRY(task_imports_check(&builder->source, error));
    BASE_TRY(task_trace_keep(builder->out_folder, &builder->source, error));
    out->samples = json_incref(json_object_get(builder->source.document, "samples"));
    task_uploads_warn(&builder->source);
    BASE_TRY(make_manifest(builder, out, error));
    BASE_TRY(task_blob_write(builder->out_folder, &out->manifest_digest, out->manifest_bytes,
                             out->manifest_size, error));
    BASE_TRY(write_summary(builder, out, error));
    (void)snprintf(path, sizeof(path), "%.*s/manifest", CLI_PATH_MAX - 16, builder->out_folder);
    return base_output_write(path, out->manifest_bytes, out->manifest_size, error);
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
    task_source_done(&builder->source);
    free(builder);
    return status;
}

// What the folder is, and which command makes a build.
static enum base_status no_build(const char *folder, struct base_error *error)
{
    char path[CLI_PATH_MAX];

    (void)snprintf(path, sizeof(path), "%.*s/task.json", CLI_PATH_MAX - 16, folder);
    bool source = access(path, F_OK) == 0;
    return base_error_set(error, BASE_ERR_INVALID,
                          source ? "%.40s is a task's source, no build: walle task build %.40s "
                                   "--out BUILD makes one of it"
                                 : "%.40s is no build, it has no manifest: walle task build FOLDER "
                                   "--out %.40s makes one",
                          folder, folder);
}

enum base_status task_build_load(const char *folder, struct task_build *out,
                                 struct base_error *error)
{
    char path[CLI_PATH_MAX];

    if (snprintf(path, sizeof(path), "%s/manifest", folder) >= CLI_PATH_MAX) {
        return base_error_set(error, BASE_ERR_IO, "%.100s: path too long", folder);
    }
    if (access(folder, F_OK) != 0) {
        return base_error_set(error, BASE_ERR_IO,
                              "%.100s: no such folder, neither a task's nor a build's", folder);
    }
    if (access(path, F_OK) != 0) {
        return no_build(folder, error);
    }
    BASE_TRY(cli_file_read(path, WIRE_MANIFEST_BYTES_MAX, &out->manifest_bytes, &out->manifest_size,
                           error));
    enum base_status status =
        wire_manifest_parse(out->manifest_bytes, out->manifest_size, &out->manifest);
    if (status != BASE_OK) {
        return base_error_set(error, status, "%s: not a manifest (%s)", path,
                              base_status_text(status));
    }
    BASE_TRY(signing_sha256(out->manifest_bytes, out->manifest_size, &out->manifest_digest));
    return task_exclusive_load(folder, &out->manifest, &out->exclusive, error);
}

enum base_status task_build_verify(const char *folder, const struct task_build *build,
                                   struct base_error *error)
{
    for (uint32_t i = 0; i < build->manifest.file_count; ++i) {
        BASE_TRY(task_file_verify(folder, &build->manifest.files[i], error));
    }
    return task_exclusive_verify(folder, &build->exclusive, &build->manifest, error);
}

void task_build_done(struct task_build *build)
{
    if (build != NULL) {
        free(build->manifest_bytes);
        build->manifest_bytes = NULL;
        json_decref(build->samples);
        build->samples = NULL;
        task_exclusive_done(&build->exclusive);
    }
}
