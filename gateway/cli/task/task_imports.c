// Imports of a task's scripts, looked at before a version is made of them. Called by task_build.c,
// on the one thread there is. A misspelt import would show on devices only, as an exception of the
// first run; here it is a message with file and line. What a try statement is ready to miss is left
// to the script.
#include "cli/task/task_imports.h"

#include "cli/base/cli_files.h"
#include "cli/task/task_file.h"

#include "base/text/likeness.h"
#include "vm/vm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// The name of a device's own module, or NULL: "json" is offered as "ujson" too, as MicroPython's
// own scripts call it.
static const char *offered_as(struct base_str name)
{
    const char *offered;
    for (uint32_t i = 0; (offered = dev_vm_offered(i)) != NULL; i++) {
        struct base_str text = base_str_of(offered);
        if (base_str_equal(name, text) || (name.size == text.size + 1 && name.data[0] == 'u' &&
                                           memcmp(name.data + 1, text.data, text.size) == 0)) {
            return offered;
        }
    }
    return NULL;
}

// A script, or a folder of scripts, of this name; "a.b" is "a/b".
static bool is_script(const struct task_source *source, struct base_str name)
{
    for (uint32_t i = 0; i < source->file_count; i++) {
        const char *file = source->files[i].name;
        size_t at = 0;
        while (at < name.size && file[at] == (name.data[at] == '.' ? '/' : name.data[at])) {
            at++;
        }
        bool whole = at == name.size && (strcmp(file + at, ".py") == 0 || file[at] == '/');
        if (source->files[i].kind == WIRE_FILE_SCRIPT && whole) {
            return true;
        }
    }
    return false;
}

static enum base_status refuse_unknown(const struct task_source *source, const char *file,
                                       const struct dev_vm_import *import, struct base_error *error)
{
    struct base_nearest nearest = base_nearest_to(base_str_of(import->name));
    char stems[WIRE_MANIFEST_FILES_MAX][WIRE_FILE_NAME_MAX + 1];
    const char *offered;
    fputs("walle: a device has", stderr); // the list is longer than an error may be
    for (uint32_t i = 0; (offered = dev_vm_offered(i)) != NULL; i++) {
        if (offered[0] != '_') {
            base_nearest_offer(&nearest, offered);
            fprintf(stderr, " %s", offered);
        }
    }
    fputc('\n', stderr);
    for (uint32_t i = 0; i < source->file_count; i++) {
        if (source->files[i].kind == WIRE_FILE_SCRIPT) {
            size_t size = strlen(source->files[i].name) - (sizeof(".py") - 1);
            (void)snprintf(stems[i], sizeof(stems[i]), "%.*s", (int)size, source->files[i].name);
            base_nearest_offer(&nearest, stems[i]);
        }
    }
    return base_error_set(
        error, BASE_ERR_INVALID,
        "%.30s: line %u: import %.30s: no module of a device, nor a script of this "
        "version%s%.20s%s",
        file, import->line, import->name, nearest.found != NULL ? ": did you mean " : "",
        nearest.found != NULL ? nearest.found : "", nearest.found != NULL ? "?" : "");
}

// The script that is meant lies beside this one, where task.json does not list it.
static bool is_left_out(const struct task_source_file *file, const char *name,
                        char out[WIRE_FILE_NAME_MAX + 1])
{
    static const char *const ends[] = {".py", "/__init__.py"};
    char path[TASK_SOURCE_PATH_MAX + WIRE_FILE_NAME_MAX];
    size_t size = strlen(file->path);
    size_t own = strlen(file->name);
    if (size < own || strcmp(file->path + size - own, file->name) != 0) {
        return false;
    }
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        int length = snprintf(out, WIRE_FILE_NAME_MAX + 1, "%s%s", name, ends[i]);
        for (size_t at = 0; at < strlen(name) && at < WIRE_FILE_NAME_MAX; at++) {
            out[at] = out[at] == '.' ? '/' : out[at];
        }
        (void)snprintf(path, sizeof(path), "%.*s%s", (int)(size - own), file->path, out);
        if (length > 0 && length <= WIRE_FILE_NAME_MAX && access(path, R_OK) == 0) {
            return true;
        }
    }
    return false;
}

static enum base_status refuse(const struct task_source *source,
                               const struct task_source_file *file,
                               const struct dev_vm_import *import, struct base_error *error)
{
    char beside[WIRE_FILE_NAME_MAX + 1];
    enum base_status status =
        is_left_out(file, import->name, beside)
            ? base_error_set(error, BASE_ERR_INVALID,
                             "%.30s: line %u: import %.30s: %.40s lies in the folder, but "
                             "\"files\" of task.json does not list it",
                             file->name, import->line, import->name, beside)
            : refuse_unknown(source, file->name, import, error);
    if (error != NULL) {
        error->line = import->line;
    }
    return status;
}

// `item` is looked for in a module of the devices' own, as "from walle import item" does and, to no
// avail, "import walle.item": there are no modules within those.
static enum base_status check_item(const struct task_source_file *file, const char *module,
                                   const char *item, const struct dev_vm_import *import,
                                   struct base_error *error)
{
    struct base_nearest nearest = base_nearest_to(base_str_of(item));
    bool within = import->item[0] == '\0' || strchr(import->name, '.') != NULL;
    const char *name;
    for (uint32_t i = 0; (name = dev_vm_offered_in(base_str_of(module), i)) != NULL; i++) {
        if (strcmp(name, item) == 0 && !within) {
            return BASE_OK;
        }
        if (name[0] != '_') {
            base_nearest_offer(&nearest, name);
        }
    }
    char like[96] = "";
    if (nearest.found != NULL) {
        (void)snprintf(like, sizeof(like), ": did you mean %s%s%s%s?", within ? "from " : "",
                       within ? module : "", within ? " import " : "", nearest.found);
    }
    enum base_status status = base_error_set(
        error, BASE_ERR_INVALID, "%.30s: line %u: a device's module %.20s has no %s%.32s%s",
        file->name, import->line, module, within ? "module " : "", item, like);
    if (error != NULL) {
        error->line = import->line;
    }
    return status;
}

static enum base_status check_import(const struct task_source *source,
                                     const struct task_source_file *file,
                                     const struct dev_vm_import *import, struct base_error *error)
{
    struct base_str name = base_str_of(import->name);
    const char *dot = strchr(import->name, '.');
    struct base_str first = {name.data, dot != NULL ? (size_t)(dot - name.data) : name.size};
    const char *module = offered_as(first);
    if (is_script(source, name) && (module == NULL || strcmp(module, "walle") != 0)) {
        return BASE_OK;
    }
    if (module == NULL) {
        return refuse(source, file, import, error);
    }
    if (dot == NULL && import->item[0] == '\0') {
        return BASE_OK;
    }
    return check_item(file, module, dot != NULL ? dot + 1 : import->item, import, error);
}

static enum base_status check_script(const struct task_source *source,
                                     const struct task_source_file *file, struct base_error *error)
{
    struct dev_vm_compiled told;
    if (task_file_compile(file->name, file->path, &told, NULL) != BASE_OK) {
        return BASE_OK; // what is wrong with it is said where it is compiled for the version
    }
    free(told.mpy);
    for (uint32_t i = 0; i < told.import_count; i++) {
        BASE_TRY(check_import(source, file, &told.imports[i], error));
    }
    return BASE_OK;
}

enum base_status task_imports_check(const struct task_source *source, struct base_error *error)
{
    bool open = source->exclusive_path[0] != '\0';
    for (uint32_t i = 0; i < source->file_count && !open; i++) {
        if (source->files[i].kind == WIRE_FILE_SCRIPT) {
            BASE_TRY(check_script(source, &source->files[i], error));
        }
    }
    return BASE_OK;
}
