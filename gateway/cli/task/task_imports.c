// Imports of a task's scripts, and what they read of modules by name, looked at before a version is
// made of them. Called by task_build.c, on the one thread there is. A misspelt import would show on
// devices only, as an exception of the first run; here it is a message with file and line. What a
// try statement is ready to miss is left to the script.
#include "cli/task/task_imports.h"

#include "cli/base/cli_files.h"
#include "cli/task/task_file.h"

#include "base/text/likeness.h"
#include "vm/vm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Is it in a module of the devices' own? Else `nearest` knows what is.
static bool is_in(const char *module, struct base_str item, struct base_nearest *nearest)
{
    const char *name;
    for (uint32_t i = 0; (name = dev_vm_offered_in(base_str_of(module), i)) != NULL; i++) {
        if (base_str_equal(base_str_of(name), item)) {
            return true;
        }
        if (name[0] != '_') {
            base_nearest_offer(nearest, name);
        }
    }
    return false;
}

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

// What people import out of habit, and what a device has for it; NULL: nothing.
static const char *habit_hint(const char *name)
{
    static const char *const habits[][2] = {
        {"numpy", "from walle import np (docs/NUMPY.md)"},
        {"scipy", "walle.np and walle.audio have some of it (docs/SCRIPT_API.md)"},
        {"cv2", "from walle import cv; cv.imdecode reads bytes, there are no files"},
        {"PIL", "from walle import cv; cv.imdecode reads bytes, there are no files"},
        {"librosa", "from walle import audio (docs/AUDIO.md)"},
        {"soundfile", "walle.audio.wav_decode reads the bytes of a WAV file"},
        {"wave", "walle.audio.wav_decode reads the bytes of a WAV file"},
        {"torch", "walle.nn runs models: export yours as ONNX"},
        {"tensorflow", "walle.nn runs models: export yours as ONNX"},
        {"onnxruntime", "walle.nn.load runs ONNX models"},
        {"pandas", "walle.np and walle.data have aggregates"},
        {"random", "walle.np.random draws numbers, by a seed"},
        {"os", "a task has no files; walle.store keeps what it needs"},
        {"pathlib", "a task has no files; walle.store keeps what it needs"},
        {"pickle", "walle.store keeps values from run to run"},
        {"sqlite3", "walle.store keeps values, walle.data.query reads features"},
        {"requests", "a task has no network; see walle.cloud.infer and walle.data.upload"},
        {"urllib", "a task has no network; see walle.cloud.infer and walle.data.upload"},
        {"socket", "a task has no network; see walle.cloud.infer and walle.data.upload"},
        {"time", "a task has no clock; events of walle.data have their times"},
        {"datetime", "a task has no clock; events of walle.data have their times"},
        {"threading", "a run has one thread; tasks run side by side"},
        {"asyncio", "a run has one thread; tasks run side by side"},
        {"multiprocessing", "a run has one thread; tasks run side by side"},
        {"logging", "walle.log prints"},
        {"typing", "annotations need no import here"},
    };
    size_t size = strcspn(name, ".");
    for (size_t i = 0; i < sizeof(habits) / sizeof(habits[0]); i++) {
        if (strlen(habits[i][0]) == size && strncmp(habits[i][0], name, size) == 0) {
            return habits[i][1];
        }
    }
    return NULL;
}

static enum base_status refuse_unknown(const struct task_source *source, const char *file,
                                       const struct dev_vm_import *import, struct base_error *error)
{
    struct base_nearest nearest = base_nearest_to(base_str_of(import->name));
    char stems[WIRE_MANIFEST_FILES_MAX][WIRE_FILE_NAME_MAX + 1];
    const char *offered;
    const char *hint = habit_hint(import->name);
    fputs("walle: a device has", stderr); // the list is longer than an error may be
    for (uint32_t i = 0; (offered = dev_vm_offered(i)) != NULL; i++) {
        if (offered[0] != '_') {
            base_nearest_offer(&nearest, offered);
            fprintf(stderr, " %s", offered);
        }
    }
    fputc('\n', stderr);
    if (hint != NULL) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "%.20s: line %u: import %.20s: no module of a device: %s", file,
                              import->line, import->name, hint);
    }
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

// A name that a script reads of a device's module: "np.sum", or "walle.np.sum". `member` is a path
// that begins with what an import named.
static enum base_status check_member(const struct task_source *source,
                                     const struct task_source_file *file,
                                     const struct dev_vm_member *member, struct base_error *error)
{
    char path[DEV_VM_FILE_MAX] = "";
    const char *dot = strchr(member->path, '.');
    struct base_str first = {member->path,
                             dot != NULL ? (size_t)(dot - member->path) : strlen(member->path)};
    const char *module = offered_as(first);
    if (module == NULL || (is_script(source, first) && strcmp(module, "walle") != 0)) {
        return BASE_OK; // it is the version's own, or was said where it is imported
    }
    (void)snprintf(path, sizeof(path), "%s", module);
    while (dot != NULL && dev_vm_offered_in(base_str_of(path), 0) != NULL) {
        const char *name = dot + 1;
        size_t size = strcspn(name, ".");
        struct base_nearest nearest = base_nearest_to((struct base_str){name, size});
        size_t at = strlen(path);
        if (strncmp(name, "__", 2) == 0 || at + size + 2 > sizeof(path)) {
            return BASE_OK;
        }
        if (!is_in(path, (struct base_str){name, size}, &nearest)) {
            enum base_status status = base_error_set(
                error, BASE_ERR_INVALID,
                "%.30s: line %u: a device's module %.20s has no %.*s%s%.20s%s", file->name,
                member->line, path, (int)(size < 32 ? size : 32), name,
                nearest.found != NULL ? ": did you mean " : "",
                nearest.found != NULL ? nearest.found : "", nearest.found != NULL ? "?" : "");
            if (error != NULL) {
                error->line = member->line;
            }
            return status;
        }
        (void)snprintf(path + at, sizeof(path) - at, ".%.*s", (int)size, name);
        dot = name[size] == '.' ? name + size : NULL;
    }
    return BASE_OK;
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
    for (uint32_t i = 0; i < told.member_count; i++) {
        BASE_TRY(check_member(source, file, &told.members[i], error));
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
