// Reader of a task's source folder: task.json, checked field by field. Called by task_build.c; one
// thread. The folder may be somebody else's (a git tag), so a path that leaves it is refused there.
// Triggers, events and uploads are task_declare.c's; what a file becomes is task_file.c's.
#include "cli/task/task_source.h"

#include "base/os/path_part.h"
#include "cli/base/cli_json.h"
#include "cli/base/json_place.h"
#include "cli/task/task_declare.h"
#include "cli/task/task_samples.h"
#include "policy/semver.h"
#include "vm/vm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VERSION_TEXT_MAX 48
#define HEAP_KIB_MIN     16 // DEV_VM_HEAP_KIB_MIN: a device raises what is less
#define HEAP_KIB_MAX     (64 * 1024)
#define TIME_MS_MAX      (10 * 60 * 1000)
#define EVERY_S_MAX      (30 * 24 * 3600)
#define BUILT_NAME_BYTES (WIRE_FILE_NAME_MAX + 8) // what is cut off is too long anyway

static const char *const task_fields[] = {
    "name",  "version",  "entry",       "heap_kib", "time_ms", "every_s",   "config",
    "files", "triggers", "events",      "uploads",  "result",  "exclusive", "leaves",
    "store", "priority", "deadline_ms", "at_once",  "samples", NULL};
static const char *const exclusive_fields[] = {"path", "required", NULL};
static const char *const file_fields[] = {"name", "path", "kind", "from", NULL};

static enum base_status take_text(const json_t *document, const char *key, const char **out,
                                  struct base_error *error)
{
    const char *text = json_string_value(json_object_get(document, key));

    if (text == NULL || text[0] == '\0') {
        return base_error_set(error, BASE_ERR_INVALID, "task.json: \"%s\" is missing or no text",
                              key);
    }
    *out = text;
    return BASE_OK;
}

// The branch of SCENARIO/BRANCH is enough where the whole is known.
static bool same_or_last_part(const char *text, const char *whole)
{
    const char *slash = strchr(whole, '/');
    return strcmp(text, whole) == 0 || (slash != NULL && strcmp(text, slash + 1) == 0);
}

// A text that may be told from outside: then the document may leave it out but not contradict.
static enum base_status take_given(const json_t *document, const char *key, const char *given,
                                   const char **out, struct base_error *error)
{
    if (given == NULL) {
        return take_text(document, key, out, error);
    }
    const json_t *value = json_object_get(document, key);
    if (value != NULL &&
        (!json_is_string(value) || !same_or_last_part(json_string_value(value), given))) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "task.json: \"%s\" is not \"%.80s\", which branch and tag say", key,
                              given);
    }
    *out = given;
    return BASE_OK;
}

static enum base_status take_number(const json_t *document, const char *key, uint32_t max,
                                    uint32_t *out, struct base_error *error)
{
    const json_t *value = json_object_get(document, key);

    if (value == NULL) {
        return BASE_OK;
    }
    json_int_t number = json_integer_value(value);
    if (!json_is_integer(value) || number < 0 || number > (json_int_t)max) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "task.json: \"%s\" is a whole number from 0 to %u", key, max);
    }
    *out = (uint32_t)number;
    return BASE_OK;
}

static enum base_status take_heap(struct task_source *source, struct base_error *error)
{
    const json_t *value = json_object_get(source->document, "heap_kib");
    json_int_t number = json_integer_value(value);
    bool fits = number == 0 || (number >= HEAP_KIB_MIN && number <= HEAP_KIB_MAX);

    if (value != NULL && (!json_is_integer(value) || !fits)) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "task.json: \"heap_kib\" is a whole number from %d to %d, or 0 for "
                              "%d",
                              HEAP_KIB_MIN, HEAP_KIB_MAX, DEV_VM_HEAP_KIB_DEFAULT);
    }
    source->heap_kib = (uint32_t)number;
    return BASE_OK;
}

static enum base_status take_config(struct task_source *source, struct base_error *error)
{
    const json_t *config = json_object_get(source->document, "config");

    if (config == NULL) {
        source->config = calloc(1, 1);
    } else if (!json_is_object(config)) {
        return base_error_set(error, BASE_ERR_INVALID, "task.json: \"config\" is no object");
    } else {
        // Sorted keys: the same configuration always gives the same bytes.
        source->config = json_dumps(config, JSON_COMPACT | JSON_SORT_KEYS);
    }
    if (source->config == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "out of memory");
    }
    if (strlen(source->config) > WIRE_MANIFEST_CONFIG_MAX) {
        return base_error_set(error, BASE_ERR_TOO_LARGE,
                              "task.json: \"config\" is %zu bytes; at "
                              "most %d",
                              strlen(source->config), WIRE_MANIFEST_CONFIG_MAX);
    }
    return BASE_OK;
}

static enum base_status take_declaration(struct task_source *source, struct base_error *error)
{
    source->declaration = malloc(WIRE_DECLARATION_BYTES_MAX);
    if (source->declaration == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "out of memory");
    }
    return task_declare(source->document, source->declaration, &source->declaration_bytes, error);
}

static bool ends_with(const char *text, const char *end)
{
    size_t size = strlen(text);
    size_t end_size = strlen(end);

    return size > end_size && strcmp(text + size - end_size, end) == 0;
}

enum wire_file_kind task_source_kind(const char *name)
{
    return ends_with(name, ".py")     ? WIRE_FILE_SCRIPT
           : ends_with(name, ".onnx") ? WIRE_FILE_MODEL
                                      : WIRE_FILE_DATA;
}

static enum base_status take_kind(const char *name, const json_t *kind, enum wire_file_kind *out,
                                  struct base_error *error)
{
    const char *text = json_string_value(kind);

    if (kind == NULL) {
        *out = task_source_kind(name);
        return BASE_OK;
    }
    if (text != NULL && strcmp(text, "script") == 0) {
        *out = WIRE_FILE_SCRIPT;
    } else if (text != NULL && strcmp(text, "model") == 0) {
        *out = WIRE_FILE_MODEL;
    } else if (text != NULL && strcmp(text, "data") == 0) {
        *out = WIRE_FILE_DATA;
    } else {
        return base_error_set(error, BASE_ERR_INVALID,
                              "task.json: kind of \"%s\" is script, model or data", name);
    }
    if (*out == WIRE_FILE_SCRIPT && !ends_with(name, ".py")) {
        return base_error_set(error, BASE_ERR_INVALID, "task.json: script \"%s\" has no .py", name);
    }
    return BASE_OK;
}

// What the file is called in the version: a script by its bytecode.
static void built_name(const struct task_source_file *file, char out[BUILT_NAME_BYTES])
{
    int stem = (int)strlen(file->name) - (file->kind == WIRE_FILE_SCRIPT ? 3 : 0);
    (void)snprintf(out, BUILT_NAME_BYTES, "%.*s%s", stem, file->name,
                   file->kind == WIRE_FILE_SCRIPT ? ".mpy" : "");
}

// A name that no manifest takes is refused while it is known whose it is.
static enum base_status check_name(const struct task_source_file *file, struct base_error *error)
{
    char built[BUILT_NAME_BYTES];

    built_name(file, built);
    const char *fault = wire_file_name_fault(base_str_of(built));
    return fault == NULL
               ? BASE_OK
               : base_error_set(error, BASE_ERR_INVALID, "task.json: file \"%.40s\": its name %s",
                                file->name, fault);
}

// Two files of one name, as listed or as built.
static enum base_status check_double(const struct task_source_file *files, uint32_t index,
                                     struct base_error *error)
{
    char built[BUILT_NAME_BYTES];
    char other[BUILT_NAME_BYTES];

    built_name(&files[index], built);
    for (uint32_t k = 0; k < index; ++k) {
        if (strcmp(files[k].name, files[index].name) == 0) {
            return base_error_set(error, BASE_ERR_INVALID, "task.json: file \"%s\" is listed twice",
                                  files[index].name);
        }
        built_name(&files[k], other);
        if (strcmp(built, other) == 0) {
            return base_error_set(
                error, BASE_ERR_INVALID,
                "task.json: files \"%.60s\" and \"%.60s\" are both %.60s when built", files[k].name,
                files[index].name, built);
        }
    }
    return BASE_OK;
}

// Whether a path of the document may name a file inside the folder.
static bool leaves_folder(const char *path)
{
    return base_path_fault(base_str_of(path)) != NULL;
}

static enum base_status fetch_file(const struct task_source *source, const char *from,
                                   const char *path, struct task_source_file *out,
                                   struct base_error *error)
{
    const struct task_identity *identity = source->identity;
    if (identity == NULL || identity->fetch == NULL) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "task.json: file \"%.80s\" is from tag \"%.60s\": build from git "
                              "(--tag)",
                              out->name, from);
    }
    return identity->fetch(identity->ctx, from, path, out->path, error);
}

static enum base_status take_file(const char *folder, const struct task_source *source,
                                  uint32_t index, struct task_source_file *out,
                                  struct base_error *error)
{
    const json_t *item = json_array_get(json_object_get(source->document, "files"), index);
    const char *path = NULL;
    const char *from = NULL;
    const json_t *kind = NULL;

    if (json_is_string(item)) {
        out->name = json_string_value(item);
        path = out->name;
    } else if (json_is_object(item)) {
        char what[48];
        snprintf(what, sizeof(what), "task.json: files[%u]", index);
        BASE_TRY(cli_json_only(item, file_fields, what, error));
        out->name = json_string_value(json_object_get(item, "name"));
        path = cli_json_text(item, "path", out->name);
        from = cli_json_text(item, "from", NULL);
        kind = json_object_get(item, "kind");
    }
    if (out->name == NULL || out->name[0] == '\0') {
        return base_error_set(error, BASE_ERR_INVALID,
                              "task.json: files[%u] is neither a name nor {\"name\", \"path\"}",
                              index);
    }
    BASE_TRY(take_kind(out->name, kind, &out->kind, error));
    BASE_TRY(check_name(out, error));
    if (from != NULL) {
        return fetch_file(source, from, path, out, error);
    }
    if (source->identity != NULL && source->identity->confined && leaves_folder(path)) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "task.json: file \"%.80s\" lies outside the repository's folder",
                              path);
    }
    int size = path[0] == '/' ? snprintf(out->path, sizeof(out->path), "%s", path)
                              : snprintf(out->path, sizeof(out->path), "%s/%s", folder, path);
    if (size < 0 || size >= TASK_SOURCE_PATH_MAX) {
        return base_error_set(error, BASE_ERR_TOO_LARGE, "task.json: files[%u]: path too long",
                              index);
    }
    return BASE_OK;
}

static enum base_status take_files(const char *folder, struct task_source *source,
                                   struct base_error *error)
{
    const json_t *files = json_object_get(source->document, "files");
    bool entry_found = false;
    size_t entry_size = strlen(source->entry);

    if (!json_is_array(files) || json_array_size(files) == 0 ||
        json_array_size(files) > WIRE_MANIFEST_FILES_MAX) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "task.json: \"files\" is a list of 1 to %d files",
                              WIRE_MANIFEST_FILES_MAX);
    }
    for (uint32_t i = 0; i < json_array_size(files); ++i) {
        struct task_source_file *file = &source->files[i];
        BASE_TRY(take_file(folder, source, i, file, error));
        BASE_TRY(check_double(source->files, i, error));
        entry_found = entry_found || (file->kind == WIRE_FILE_SCRIPT &&
                                      strncmp(file->name, source->entry, entry_size) == 0 &&
                                      strcmp(file->name + entry_size, ".py") == 0);
        source->file_count = i + 1;
    }
    if (!entry_found) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "task.json: entry \"%s\": \"%s.py\" is not among the files",
                              source->entry, source->entry);
    }
    return BASE_OK;
}

static enum base_status take_identity(struct task_source *source, struct base_error *error)
{
    const json_t *document = source->document;
    struct pol_semver version;

    const struct task_identity *given = source->identity;
    BASE_TRY(
        take_given(document, "name", given != NULL ? given->name : NULL, &source->name, error));
    BASE_TRY(take_given(document, "version", given != NULL ? given->version : NULL,
                        &source->version, error));
    BASE_TRY(take_text(document, "entry", &source->entry, error));
    const char *fault = wire_task_name_fault(base_str_of(source->name));
    if (fault != NULL) {
        return base_error_set(error, BASE_ERR_INVALID, "task.json: name \"%.64s\": it %s",
                              source->name, fault);
    }
    size_t size = strlen(source->version);
    if (size > VERSION_TEXT_MAX || !pol_semver_parse(source->version, (uint32_t)size, &version)) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "task.json: version \"%.50s\" is no semantic version",
                              source->version);
    }
    BASE_TRY(take_heap(source, error));
    BASE_TRY(take_number(document, "time_ms", TIME_MS_MAX, &source->time_ms, error));
    return take_number(document, "every_s", EVERY_S_MAX, &source->every_s, error);
}

static enum base_status take_exclusive(const char *folder, struct task_source *source,
                                       struct base_error *error)
{
    const json_t *exclusive = json_object_get(source->document, "exclusive");
    const char *path = json_string_value(json_object_get(exclusive, "path"));
    const json_t *required = json_object_get(exclusive, "required");

    if (exclusive == NULL) {
        return BASE_OK;
    }
    if (!json_is_object(exclusive) || path == NULL || path[0] == '\0' ||
        (required != NULL && !json_is_boolean(required))) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "task.json: \"exclusive\" is {\"path\": FOLDER, \"required\": true "
                              "or false}");
    }
    BASE_TRY(cli_json_only(exclusive, exclusive_fields, "task.json: exclusive", error));
    if (source->identity != NULL && source->identity->confined && leaves_folder(path)) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "task.json: exclusive folder \"%.80s\" lies outside the "
                              "repository's folder",
                              path);
    }
    int size = path[0] == '/'
                   ? snprintf(source->exclusive_path, sizeof(source->exclusive_path), "%s", path)
                   : snprintf(source->exclusive_path, sizeof(source->exclusive_path), "%s/%s",
                              folder, path);
    source->exclusive_required = json_is_true(required);
    return size < TASK_SOURCE_PATH_MAX
               ? BASE_OK
               : base_error_set(error, BASE_ERR_TOO_LARGE, "task.json: exclusive: path too long");
}

static enum base_status take_document(const char *folder, struct task_source *out,
                                      struct base_error *error)
{
    BASE_TRY(cli_json_only(out->document, task_fields, "task.json", error));
    BASE_TRY(take_identity(out, error));
    BASE_TRY(take_config(out, error));
    BASE_TRY(take_declaration(out, error));
    BASE_TRY(take_exclusive(folder, out, error));
    BASE_TRY(
        task_samples_check(out->document, out->identity != NULL && out->identity->confined, error));
    return take_files(folder, out, error);
}

// An unknown key's error gets the line, and the keys that there are are said before it.
static void place_unknown(const char *path, const json_t *document, struct base_error *error)
{
    static const char file[] = "task.json: ";
    struct cli_json_unknown unknown = cli_json_unknown();
    struct base_error before = *error;
    const char *end = strstr(before.text, ": unknown key");
    if (unknown.object == NULL || end == NULL) {
        return;
    }
    char what[sizeof(before.text)];
    (void)snprintf(what, sizeof(what), "%.*s", (int)(end - before.text), before.text);
    uint32_t line = json_place_line_of(path, document, unknown.object, unknown.key);
    cli_json_unknown_tell(what);
    if (line > 0 && base_str_starts(base_str_of(before.text), base_str_of(file))) {
        (void)base_error_set(error, before.status, "%sline %u: %s", file, line,
                             before.text + sizeof(file) - 1);
        error->line = line;
    }
}

enum base_status task_source_load(const char *folder, const struct task_identity *identity,
                                  struct task_source *out, struct base_error *error)
{
    char path[TASK_SOURCE_PATH_MAX];

    if (snprintf(path, sizeof(path), "%s/task.json", folder) >= TASK_SOURCE_PATH_MAX) {
        return base_error_set(error, BASE_ERR_TOO_LARGE, "%.100s: path too long", folder);
    }
    out->identity = identity;
    BASE_TRY(cli_json_load(path, &out->document, error));
    if (!json_is_object(out->document)) {
        return base_error_set(error, BASE_ERR_INVALID, "task.json: not an object");
    }
    enum base_status status = take_document(folder, out, error);
    if (status != BASE_OK) {
        place_unknown(path, out->document, error);
    }
    return status;
}

void task_source_done(struct task_source *source)
{
    if (source != NULL) {
        json_decref(source->document);
        free(source->config);
        free(source->declaration);
        source->declaration = NULL;
        source->document = NULL;
        source->config = NULL;
    }
}
