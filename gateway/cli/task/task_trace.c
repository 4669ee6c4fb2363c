// Stacks of failures with their source text; see the header. Called by `walle task run` and the dry
// run of a build, and for what devices report (rollout_show.c), where a build is named. One thread.
// Build and stack may be somebody else's: names are checked before they become paths, links are not
// followed, and what is printed passes base_terminal_text.
#include "cli/task/task_trace.h"

#include "cli/base/cli_files.h"
#include "cli/base/cli_json.h"
#include "cli/task/task_file.h"

#include "base/check.h"
#include "base/os/output_file.h"
#include "base/os/path_part.h"
#include "base/text/terminal.h"

#include <stdlib.h>
#include <string.h>

#define SOURCES "sources"

// ---- The copies

// Makes the folders of "lib/tools.py" below BUILD/sources.
static enum base_status folders_make(const char *sources, const char *name,
                                     struct base_error *error)
{
    char folder[CLI_PATH_MAX];
    char part[WIRE_FILE_NAME_MAX + 1];
    (void)snprintf(folder, sizeof(folder), "%s", sources);
    for (const char *slash = strchr(name, '/'); slash != NULL; slash = strchr(name, '/')) {
        (void)snprintf(part, sizeof(part), "%.*s", (int)(slash - name), name);
        BASE_TRY(cli_folder_below(folder, part, error));
        size_t size = strlen(folder);
        (void)snprintf(folder + size, sizeof(folder) - size, "/%s", part);
        name = slash + 1;
    }
    return BASE_OK;
}

static enum base_status keep_one(const char *sources, const struct task_source_file *file,
                                 struct base_error *error)
{
    char path[CLI_PATH_MAX];
    uint8_t *bytes = NULL;
    size_t size = 0;
    if (snprintf(path, sizeof(path), "%s/%s", sources, file->name) >= CLI_PATH_MAX) {
        return base_error_set(error, BASE_ERR_TOO_LARGE, "%.80s: path too long", file->name);
    }
    BASE_TRY(folders_make(sources, file->name, error));
    BASE_TRY(cli_file_read(file->path, TASK_BUILD_SOURCE_MAX, &bytes, &size, error));
    enum base_status status = base_output_write(path, (const char *)bytes, size, error);
    free(bytes);
    return status;
}

enum base_status task_trace_keep(const char *build, const struct task_source *source,
                                 struct base_error *error)
{
    char sources[CLI_PATH_MAX];
    if (snprintf(sources, sizeof(sources), "%s/" SOURCES, build) >= CLI_PATH_MAX) {
        return base_error_set(error, BASE_ERR_TOO_LARGE, "%.80s: path too long", build);
    }
    BASE_TRY(cli_folder_below(build, SOURCES, error));
    for (uint32_t i = 0; i < source->file_count; ++i) {
        if (source->files[i].kind == WIRE_FILE_SCRIPT) {
            BASE_TRY(keep_one(sources, &source->files[i], error));
        }
    }
    return BASE_OK;
}

// ---- Calls

static bool copy_text(struct base_str text, char *out, size_t capacity)
{
    if (text.size == 0 || text.size >= capacity) {
        return false;
    }
    memcpy(out, text.data, text.size);
    out[text.size] = '\0';
    return true;
}

// Where " in " begins; text.size: nowhere.
static size_t function_at(struct base_str text)
{
    for (size_t i = 0; i + 4 <= text.size; ++i) {
        if (memcmp(text.data + i, " in ", 4) == 0) {
            return i;
        }
    }
    return text.size;
}

bool task_trace_call_parse(struct base_str text, struct task_trace_call *out)
{
    uint64_t line = 0;
    *out = (struct task_trace_call){.line = 0};
    size_t end = function_at(text);
    const char *colon = end > 0 ? memrchr(text.data, ':', end) : NULL;
    if (colon == NULL) {
        return false;
    }
    size_t place = (size_t)(colon - text.data);
    struct base_str number = {colon + 1, end - place - 1};
    if (base_str_u64(number, &line) != BASE_OK || line > UINT32_MAX ||
        !copy_text((struct base_str){text.data, place}, out->file, sizeof(out->file))) {
        return false;
    }
    out->line = (uint32_t)line;
    return end == text.size ||
           copy_text((struct base_str){text.data + end + 4, text.size - end - 4}, out->function,
                     sizeof(out->function));
}

// The line of a text, without the space around it; empty: there is none.
static struct base_str line_of(struct base_str text, uint32_t line)
{
    const char *at = text.data;
    const char *end = text.data + text.size;
    for (uint32_t i = 1; i < line && at < end; ++i) {
        const char *next = memchr(at, '\n', (size_t)(end - at));
        at = next != NULL ? next + 1 : end;
    }
    const char *stop = at < end ? memchr(at, '\n', (size_t)(end - at)) : NULL;
    stop = stop != NULL ? stop : end;
    while (at < stop && (*at == ' ' || *at == '\t')) {
        at++;
    }
    while (stop > at && strchr(" \t\r", stop[-1]) != NULL) {
        stop--;
    }
    return (struct base_str){at, (size_t)(stop - at)};
}

bool task_trace_text(const char *build, const struct task_trace_call *call,
                     char out[TASK_TRACE_TEXT_MAX + 1])
{
    char path[CLI_PATH_MAX];
    struct base_error error = {.status = BASE_OK};
    uint8_t *bytes = NULL;
    size_t size = 0;
    if (build == NULL || call->line == 0 || base_path_fault(base_str_of(call->file)) != NULL ||
        snprintf(path, sizeof(path), "%s/" SOURCES "/%s", build, call->file) >= CLI_PATH_MAX ||
        cli_file_read_own(path, TASK_BUILD_SOURCE_MAX, &bytes, &size, &error) != BASE_OK) {
        return false;
    }
    struct base_str text = line_of((struct base_str){(const char *)bytes, size}, call->line);
    (void)snprintf(out, TASK_TRACE_TEXT_MAX + 1, "%.*s", (int)text.size, text.data);
    free(bytes);
    return out[0] != '\0';
}

// ---- Stacks

static void call_print(FILE *out, const char *build, struct base_str line)
{
    struct task_trace_call call;
    char text[TASK_TRACE_TEXT_MAX + 1];
    if (!task_trace_call_parse(line, &call)) {
        fputs("  ", out);
        base_terminal_text(out, line);
        fputc('\n', out);
        return;
    }
    fputs("  File \"", out);
    base_terminal_text(out, base_str_of(call.file));
    fprintf(out, "\", line %u", call.line);
    if (call.function[0] != '\0') {
        fputs(", in ", out);
        base_terminal_text(out, base_str_of(call.function));
    }
    fputc('\n', out);
    if (task_trace_text(build, &call, text)) {
        fputs("    ", out);
        base_terminal_text(out, base_str_of(text));
        fputc('\n', out);
    }
}

// The line that ends where `end` is, without its end: stacks are read from behind.
static struct base_str line_before(const char *stack, size_t end)
{
    size_t stop = end > 0 && stack[end - 1] == '\n' ? end - 1 : end;
    size_t from = stop;
    while (from > 0 && stack[from - 1] != '\n') {
        from--;
    }
    return (struct base_str){stack + from, stop - from};
}

static size_t lines_count(const char *stack)
{
    size_t count = 0;
    for (size_t end = strlen(stack); end > 0; ++count) {
        end = (size_t)(line_before(stack, end).data - stack);
    }
    return count;
}

// Is the call that the stack ends with one that another one made? Then more did not fit.
static bool lacks_outermost(struct base_str line)
{
    struct task_trace_call call;
    return task_trace_call_parse(line, &call) && call.function[0] != '\0' &&
           strcmp(call.function, "<module>") != 0;
}

void task_trace_print(FILE *out, const char *build, const char *stack)
{
    size_t count = lines_count(stack);
    bool is_cut = count > TASK_TRACE_FIRST + TASK_TRACE_LAST + 1;
    if (count == 0) {
        return;
    }
    fputs("Traceback (most recent call last):\n", out);
    size_t end = strlen(stack);
    if (lacks_outermost(line_before(stack, end))) {
        fputs("  ... calls before these: a device keeps the innermost\n", out);
    }
    for (size_t i = 0; i < count; ++i) {
        struct base_str line = line_before(stack, end);
        base_assert((size_t)(line.data - stack) < end);
        end = (size_t)(line.data - stack);
        if (is_cut && i == TASK_TRACE_LAST) {
            fprintf(out, "  ... %zu more calls\n", count - TASK_TRACE_FIRST - TASK_TRACE_LAST);
        }
        if (!is_cut || i < TASK_TRACE_LAST || i >= count - TASK_TRACE_FIRST) {
            call_print(out, build, line);
        }
    }
}

json_t *task_trace_json(const char *build, const char *stack)
{
    json_t *list = json_array();
    struct task_trace_call call;
    char text[TASK_TRACE_TEXT_MAX + 1];
    for (size_t end = strlen(stack); end > 0;) {
        struct base_str line = line_before(stack, end);
        end = (size_t)(line.data - stack);
        if (!task_trace_call_parse(line, &call)) {
            continue;
        }
        json_t *known = task_trace_text(build, &call, text) ? json_string(text) : NULL;
        (void)json_array_append_new(list,
                                    json_pack("{s:s, s:I, s:s, s:o}", "file", call.file, "line",
                                              (json_int_t)call.line, "in", call.function, "text",
                                              known != NULL ? known : json_null()));
    }
    return list;
}
