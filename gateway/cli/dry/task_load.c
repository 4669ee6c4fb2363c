// Reads a build for a run on this machine, see the header. Called by cli_task_run.c and
// task_dry_run.c; one thread. What is read here was built here or by somebody else: blobs are
// checked against their names as they are read, and a name outlives the list that it came from.
#include "cli/dry/task_load.h"

#include "cli/base/cli_files.h"
#include "cli/task/task_file.h"
#include "posix/run/posix_run_io.h"
#include "wire/leaves/leaves_check.h"

#include <stdio.h>
#include <stdlib.h>

// A script, a model or a data file.
static enum base_status load_file(struct task_load *load, const char *folder,
                                  const struct wire_manifest_file *file, struct base_error *error)
{
    bool is_script = file->kind == WIRE_FILE_SCRIPT;
    uint32_t index = load->file_count;
    size_t size = 0;

    BASE_TRY(task_blob_read(folder, &file->digest, &load->bytes[index], &size, error));
    load->file_count++;
    // The name outlives the list of files it was read from.
    (void)snprintf(load->names[index], sizeof(load->names[index]), "%.*s",
                   (int)(file->name.size - (is_script ? sizeof(".mpy") - 1 : 0)), file->name.data);
    if (is_script) {
        load->modules[load->job.module_count++] = (struct dev_vm_module){
            .name = base_str_of(load->names[index]), .mpy = load->bytes[index], .size = size};
    } else if (file->kind == WIRE_FILE_DATA) {
        load->files[load->job.file_count++] = (struct dev_vm_bytes){
            .name = base_str_of(load->names[index]), .bytes = load->bytes[index], .size = size};
    } else {
        load->models[load->job.model_count++] =
            (struct dev_vm_model){.name = base_str_of(load->names[index]),
                                  .bytes = load->bytes[index],
                                  .size = size,
                                  .digest = file->digest};
    }
    return BASE_OK;
}

// Whose exclusive files are wanted, and which of them were found.
struct wanted {
    struct task_load *load;
    const char *folder;
    struct wire_entry entry;
    bool found;
};

static enum base_status load_subject(void *ctx, const struct wire_entry *entry,
                                     const struct wire_exclusive_files *exclusive,
                                     struct base_error *error)
{
    struct wanted *wanted = ctx;

    if (wire_entry_order(entry, &wanted->entry) != 0) {
        return BASE_OK;
    }
    wanted->found = true;
    for (uint32_t i = 0; i < exclusive->file_count; ++i) {
        BASE_TRY(load_file(wanted->load, wanted->folder, &exclusive->files[i], error));
    }
    return BASE_OK;
}

// As a device gets them: its own, or else its user's, or none.
static enum base_status load_exclusive(struct task_load *load, const char *user,
                                       struct base_error *error)
{
    char hex[WIRE_DEVICE_HEX + 1];
    struct wanted wanted = {.load = load, .folder = load->folder};

    wire_device_hex(load->job.device_id, hex);
    wanted.entry = (struct wire_entry){.kind = WIRE_SUBJECT_DEVICE, .subject = base_str_of(hex)};
    BASE_TRY(
        task_exclusive_each(load->folder, &load->build.exclusive, load_subject, &wanted, error));
    if (!wanted.found && user != NULL) {
        wanted.entry = (struct wire_entry){.kind = WIRE_SUBJECT_USER, .subject = base_str_of(user)};
        BASE_TRY(task_exclusive_each(load->folder, &load->build.exclusive, load_subject, &wanted,
                                     error));
    }
    if (!wanted.found && load->build.manifest.exclusive == WIRE_EXCLUSIVE_REQUIRED) {
        return base_error_set(error, BASE_ERR_NOT_FOUND,
                              "the version requires exclusive files; it has none for device %s%s%s",
                              hex, user != NULL ? " or user " : "", user != NULL ? user : "");
    }
    return BASE_OK;
}

static enum base_status load_version(struct task_load *load, const char *folder,
                                     struct base_error *error)
{
    BASE_TRY(task_build_load(folder, &load->build, error));
    const struct wire_manifest *manifest = &load->build.manifest;
    for (uint32_t i = 0; i < manifest->file_count; ++i) {
        BASE_TRY(load_file(load, folder, &manifest->files[i], error));
    }
    if (dev_model_store_new(0, &load->model_store) != BASE_OK) {
        return base_error_set(error, BASE_ERR_NOMEM, "out of memory");
    }
    load->job.modules = load->modules;
    load->job.models = load->models;
    load->job.files = load->files;
    load->model_port = dev_model_store_port(load->model_store);
    load->job.model_port = &load->model_port;
    load->job.entry = manifest->entry;
    load->job.config = manifest->config;
    load->job.declaration = manifest->declaration;
    load->job.time_ms = manifest->time_ms;
    return BASE_OK;
}

// A JSON object of texts, whole numbers and booleans.
static enum base_status load_attrs(struct task_load *load, const char *path,
                                   struct base_error *error)
{
    const char *key;
    json_t *value;

    BASE_TRY(cli_json_load(path, &load->attrs_root, error));
    if (!json_is_object(load->attrs_root) || json_object_size(load->attrs_root) > WIRE_ATTRS_MAX) {
        return base_error_set(error, BASE_ERR_INVALID, "%s: not an object of at most %d attributes",
                              path, WIRE_ATTRS_MAX);
    }
    json_object_foreach(load->attrs_root, key, value)
    {
        struct wire_attr *attr = &load->attrs.items[load->attrs.count++];
        attr->name = base_str_of(key);
        if (json_is_string(value)) {
            attr->type = WIRE_ATTR_STRING;
            attr->text = base_str_of(json_string_value(value));
        } else if (json_is_integer(value) || json_is_boolean(value)) {
            attr->type = json_is_integer(value) ? WIRE_ATTR_INTEGER : WIRE_ATTR_BOOLEAN;
            attr->integer =
                json_is_integer(value) ? json_integer_value(value) : (json_is_true(value) ? 1 : 0);
        } else {
            return base_error_set(error, BASE_ERR_INVALID,
                                  "%s: \"%.40s\" is no text, whole number or boolean", path, key);
        }
    }
    load->job.attrs = &load->attrs;
    return BASE_OK;
}

static enum base_status load_input(struct task_load *load, const char *path,
                                   struct base_error *error)
{
    uint8_t *bytes = NULL;
    BASE_TRY(cli_file_read(path, CLI_JSON_FILE_MAX, &bytes, &load->input_bytes, error));
    load->input = (char *)bytes;
    load->job.input = (struct base_str){load->input, load->input_bytes};
    // Without a byte there is no input.
    return load->input_bytes > 0 ? cli_json_check(path, load->job.input, error) : BASE_OK;
}

enum base_status task_load_open(struct task_load *load, const char *folder,
                                const struct task_load_ask *ask, struct base_error *error)
{
    load->folder = folder;
    BASE_TRY(load_version(load, folder, error));
    load->job.device_id = 1;
    if (ask->device != NULL &&
        wire_device_parse(base_str_of(ask->device), &load->job.device_id) != BASE_OK) {
        return base_error_set(error, BASE_ERR_INVALID, "--device takes 16 hex digits");
    }
    load->cloud.cli = ask->cli;
    load->cloud.device_id = load->job.device_id;
    load->cloud.declared = wire_leaves_declared(load->build.manifest.declaration);
    load->cloud_port = task_cloud_port(&load->cloud);
    load->job.cloud = &load->cloud_port;
    BASE_TRY(load_exclusive(load, ask->user, error));
    if (ask->attrs != NULL) {
        BASE_TRY(load_attrs(load, ask->attrs, error));
    }
    if (ask->give != NULL) {
        BASE_TRY(task_given_load(ask->give, &load->given, error));
        load->job.blobs = load->given.blobs;
        load->job.blob_count = load->given.count;
        load->job.input = posix_run_input(load->job.blobs, load->job.blob_count);
    }
    return ask->input != NULL ? load_input(load, ask->input, error) : BASE_OK;
}

void task_load_done(struct task_load *load)
{
    for (uint32_t i = 0; i < TASK_LOAD_FILES_MAX; ++i) {
        free(load->bytes[i]);
        load->bytes[i] = NULL;
    }
    dev_model_store_free(load->model_store);
    load->model_store = NULL;
    task_cloud_done(&load->cloud);
    json_decref(load->attrs_root);
    load->attrs_root = NULL;
    task_given_done(&load->given);
    free(load->input);
    load->input = NULL;
    task_build_done(&load->build);
}
